"""The arithmetic of stage 3: edges as three arrays, in which a stored zero is an edge like any other.

SciPy's own sums, maxima and comparisons of sparse arrays drop stored zeros; sorting indices doesn't.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

#: Rows, columns and weights of edges.
Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def row_numbers(indptr: NDArray[Any]) -> NDArray[np.int64]:
    """The row of each entry of a CSR array."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int64), np.diff(indptr))


def two_directions(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], m: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Each directed edge once, with the value of the opposite direction beside its own.

    Edges from a row to itself are left out; of repeats the smallest value counts.

    Returns
    -------
    rows, columns : ndarray of shape (e,), int64
        Sorted by row, then column.
    there, back : ndarray of shape (e,), float64
        The value of (row, column) and of (column, row); `back` is inf where that isn't given.
    """
    key = rows * m + columns
    order = np.lexsort((values, key))
    order = order[rows[order] != columns[order]]
    key = key[order]
    first = np.ones(key.size, dtype=bool)
    first[1:] = key[1:] != key[:-1]
    key, there = key[first], values[order[first]]
    rows, columns = key // m, key % m
    opposite = columns * m + rows
    at = np.minimum(np.searchsorted(key, opposite), key.size - 1)
    back = np.where(key[at] == opposite, there[at], np.inf)
    return rows, columns, there, back


def csr_of(rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], m: int) -> csr_array:
    """An (m, m) CSR array with sorted indices of edges that are given once each; zeros stay stored."""
    order = np.argsort(rows * m + columns)
    indptr = np.zeros(m + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=m), out=indptr[1:])
    return csr_array((values[order], columns[order], indptr), shape=(m, m))


def edges_of(matrix: csr_array) -> Edges:
    """The stored entries of a CSR array."""
    return row_numbers(matrix.indptr), matrix.indices.astype(np.int64), matrix.data


def with_edges(matrix: csr_array, pairs: NDArray[np.int64], lengths: NDArray[np.float64]) -> csr_array:
    """A symmetric graph and more edges, in both directions, that it doesn't have yet."""
    rows, columns, values = edges_of(matrix)
    return csr_of(
        np.concatenate([rows, pairs[:, 0], pairs[:, 1]]),
        np.concatenate([columns, pairs[:, 1], pairs[:, 0]]),
        np.concatenate([values, lengths, lengths]),
        int(matrix.shape[0]),
    )


def renumbered(matrix: csr_array, members: NDArray[np.int64]) -> csr_array:
    """The graph among `members` (n,), in which ``members[v]`` is called v."""
    number = np.full(matrix.shape[0], -1, dtype=np.int64)
    number[members] = np.arange(members.size)
    rows, columns, values = edges_of(matrix)
    rows, columns = number[rows], number[columns]
    inside = (rows >= 0) & (columns >= 0)
    return csr_of(rows[inside], columns[inside], values[inside], members.size)
