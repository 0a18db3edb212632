"""The arithmetic of graphs: edges as three arrays, in which a stored zero is an edge like any other.

SciPy's own sums, maxima and comparisons of sparse arrays drop stored zeros; sorting indices doesn't.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from scalemani.aliases import F64, I64
from scalemani.cluster.kernel_cache import compiled

Edges = tuple[I64, I64, F64]  # rows, columns and weights


def row_numbers(indptr: NDArray[Any]) -> I64:
    """The row of each entry of a CSR array."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def two_directions(rows: I64, columns: I64, values: F64, m: int) -> tuple[I64, I64, F64, F64]:
    """Each directed edge once, with the value of the opposite direction beside its own.

    Edges from a row to itself are left out; of repeats the smallest value counts.

    -> rows, columns (e,): Sorted by row, then column.
    -> there, back (e,): The value of (row, column) and of (column, row); `back` is inf where that isn't given.
    """
    away = rows != columns
    rows, columns, values = rows[away], columns[away], np.asarray(values[away], np.float64)
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, columns, values = rows[order], columns[order], values[order]
    given = csr_array((values, columns, pointers(rows, m)), shape=(m, m))
    given.sort_indices()
    rows, columns, there = edges_of(given)
    repeats = (rows[1:] == rows[:-1]) & (columns[1:] == columns[:-1])
    if repeats.any():
        first = np.flatnonzero(np.r_[True, ~repeats])
        rows, columns, there = rows[first], columns[first], np.minimum.reduceat(there, first)
        given = csr_array((there, columns, pointers(rows, m)), shape=(m, m))
    other = given.tocsc()  # by columns, each with its rows ascending
    back = np.full(len(there), np.inf)
    _opposite(given.indptr, given.indices, other.indptr, other.indices, other.data, back)
    return rows, columns, there, back


@compiled()
def _opposite(indptr: Any, indices: Any, by_column: Any, rows: Any, values: Any, back: Any) -> None:
    """back[e] = the value of (j, i) for each entry e = (i, j) of a CSR array that is there by columns, too."""
    for i in range(indptr.shape[0] - 1):
        at = by_column[i]
        for e in range(indptr[i], indptr[i + 1]):
            while at < by_column[i + 1] and rows[at] < indices[e]:
                at += 1
            if at < by_column[i + 1] and rows[at] == indices[e]:
                back[e] = values[at]


def pointers(rows: I64, m: int) -> I64:
    """Where each row's entries begin, of ascending rows."""
    indptr = np.zeros(m + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=m), out=indptr[1:])
    return indptr


def csr_of(rows: I64, columns: I64, values: F64, m: int) -> csr_array:
    """An (m, m) CSR array with sorted indices of edges that are given once each; zeros stay stored."""
    return csr_array(coo_array((values, (rows, columns)), shape=(m, m)).tocsr())  # by counting: nothing is compared


def edges_of(matrix: csr_array) -> Edges:
    """The stored entries of a CSR array."""
    return row_numbers(matrix.indptr), matrix.indices.astype(np.int64), matrix.data


def shortest(
    rows: I64, columns: I64, lengths: F64, m: int, most: int | None, radius: float | None
) -> tuple[I64, I64, F64]:
    """The `most` shortest edges of each of m rows, or those within `radius`: pointers, columns and lengths.

    They are sorted by length, then column.
    """
    order = np.lexsort((columns, lengths, rows))
    if most is None:
        order = order[lengths[order] <= (np.inf if radius is None else radius)]
    else:
        ordered = rows[order]
        first = np.searchsorted(ordered, ordered)  # the place of each row's shortest
        order = order[np.arange(len(order)) - first < most]
    return pointers(rows[order], m), columns[order], lengths[order]


def with_edges(matrix: csr_array, pairs: I64, lengths: F64) -> csr_array:
    """A symmetric graph and more edges, in both directions, that it doesn't have yet."""
    rows, columns, values = edges_of(matrix)
    return csr_of(
        np.concatenate([rows, pairs[:, 0], pairs[:, 1]]),
        np.concatenate([columns, pairs[:, 1], pairs[:, 0]]),
        np.concatenate([values, lengths, lengths]),
        int(matrix.shape[0]),
    )


def without_edges(matrix: csr_array, pairs: I64) -> csr_array:
    """A symmetric graph without some edges (c, 2), which it has."""
    rows, columns, values = edges_of(matrix)
    m = int(matrix.shape[0])
    gone = np.isin(rows * m + columns, np.concatenate([pairs[:, 0] * m + pairs[:, 1], pairs[:, 1] * m + pairs[:, 0]]))
    indptr = np.concatenate([[0], np.cumsum(~gone)])[matrix.indptr].astype(matrix.indptr.dtype)
    return csr_array((values[~gone], matrix.indices[~gone], indptr), shape=matrix.shape)


def renumbered(matrix: csr_array, members: I64) -> csr_array:
    """The graph among `members` (n,), in which ``members[v]`` is called v."""
    number = np.full(matrix.shape[0], -1, dtype=np.int64)
    number[members] = np.arange(members.size)
    chosen = csr_array(matrix[members])
    columns = number[chosen.indices]
    inside, data, indptr = columns >= 0, chosen.data, chosen.indptr
    if not inside.all():
        data, columns, indptr = data[inside], columns[inside], np.concatenate([[0], np.cumsum(inside)])[indptr]
    found = csr_array((data, columns, indptr), shape=(members.size, members.size))
    found.sort_indices()
    return found
