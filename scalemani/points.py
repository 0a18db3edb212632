"""Stage 1: takes points from any array, gives their distinct rows and every row's place among them.

Identical rows are one point of the manifold: each counts once in the graph and in every mean, and all of them
get the same coordinates. Rows are equal when they are equal as float64, -0.0 being 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from scalemani.engine.bounded_json import REMEDY
from scalemani.engine.expected_arrays import check_lists
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError
from scalemani.row_blocks import Block, as_source, check_shape, row_blocks

__all__ = ["Points", "RowIndex", "looks_like_distances", "read_points", "row_blocks", "row_digests"]


@dataclass(frozen=True)
class Points:
    """Distinct rows, in the order of their first occurrence.

    Attributes
    ----------
    rows : NDArray or csr_array, shape (m, d)
        Distinct rows; a real dtype that is exact as float64.
    distinct : NDArray[int64], shape (N,)
        Distinct index of each row the user gave.
    digests : NDArray[uint64], shape (m, 2)
        128-bit digest of each distinct row's float64 content.
    """

    rows: Any
    distinct: NDArray[np.int64]
    digests: NDArray[np.uint64]

    @property
    def n_rows(self) -> int:
        """Number of rows the user gave, N."""
        return len(self.distinct)

    @property
    def n_distinct(self) -> int:
        """Number of distinct rows, m."""
        return len(self.digests)

    @property
    def n_features(self) -> int:
        """Number of columns, d."""
        return int(self.rows.shape[1])

    @property
    def n_merged(self) -> int:
        """Number of rows that repeat an earlier one, N - m."""
        return self.n_rows - self.n_distinct

    def fingerprint(self) -> str:
        """Hex digest of the shape and of every row's content, in the user's order."""
        state = blake2b(f"{self.n_rows},{self.n_features};".encode(), digest_size=16)
        state.update(np.ascontiguousarray(self.digests[self.distinct], dtype="<u8").tobytes())
        return state.hexdigest()


def read_points(X: Any, name: str = "X") -> Points:
    """Read ``X`` once, by blocks of rows, and merge identical rows.

    Parameters
    ----------
    X : array-like, shape (N, d)
        NumPy array or memory map, SciPy sparse matrix, Dask array, Zarr array, or anything NumPy can convert.
    name : str
        What messages call ``X``.

    Returns
    -------
    Points

    Raises
    ------
    ScalemaniError
        ``X`` is empty, not two-dimensional, not real and numeric, or not finite (row and column are named).
    TypeError
        An object array holds something that is no number.
    """
    source = as_source(X, name)
    check_shape(source.shape, name, None)
    known = source.shape[0] if isinstance(source.shape[0], int) else 0  # Dask may not know
    blocks: list[Block] = []
    digests: list[NDArray[np.uint64]] = []
    store: NDArray[Any] | None = None
    filled = 0
    for _, block in row_blocks(source, name):
        digests.append(row_digests(block))
        if issparse(block) or not known:
            blocks.append(block)
        else:  # filled in place: the rows are held once, not as blocks and again as a whole
            if store is None:
                store = np.empty((known, block.shape[1]), block.dtype)
            elif block.dtype != store.dtype:
                store = store.astype(np.promote_types(store.dtype, block.dtype))
            store[filled : filled + len(block)] = block
            filled += len(block)
    n_rows = sum(map(len, digests))
    check_shape((n_rows, source.shape[1]), name, None)
    rows = store if store is not None else _joined(blocks)
    every = np.concatenate(digests)
    first, distinct = _first_occurrences(every)
    if len(first) < n_rows:
        rows, every = rows[first], every[first]
    return Points(rows, distinct, every)


def row_digests(block: Any) -> NDArray[np.uint64]:
    """128-bit digests of the rows' content as float64, -0.0 counting as 0.0.

    Parameters
    ----------
    block : NDArray or csr_array, shape (b, d)

    Returns
    -------
    NDArray[uint64], shape (b, 2)
        Equal rows have equal digests, whatever their dtype. Dense and CSR rows are digested differently.
    """
    if issparse(block):
        canonical = csr_array(block, copy=True)
        canonical.sum_duplicates()
        canonical.sort_indices()
        canonical.eliminate_zeros()
        columns = canonical.indices.astype("<i8")
        values = canonical.data.astype("<f8")
        ends = canonical.indptr
        parts = (columns[a:b].tobytes() + values[a:b].tobytes() for a, b in pairwise(ends))
    else:
        rows = np.asarray(block).astype("<f8", order="C") + 0.0
        parts = (row.tobytes() for row in rows)
    raw = b"".join(blake2b(part, digest_size=16).digest() for part in parts)
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64).reshape(-1, 2)


def content_rank(digests: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Rank of each row by its digest (m, 2): the order in which ties are broken, by content.

    >>> content_rank(np.array([[7, 0], [1, 9], [1, 2]], np.uint64)).tolist()
    [2, 1, 0]
    """
    return np.lexsort((digests[:, 1], digests[:, 0])).argsort()


class RowIndex:
    """Finds rows by content.

    Parameters
    ----------
    digests : NDArray[uint64], shape (m, 2)
        Digests of the known rows, as :func:`row_digests` gives them; all different.
    """

    def __init__(self, digests: NDArray[np.uint64]) -> None:
        self._order = np.lexsort((digests[:, 1], digests[:, 0]))
        self._sorted = digests[self._order]

    def find(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Index of the known row with each digest, -1 where there is none; shape (q,)."""
        heads = self._sorted[:, 0]
        low = np.searchsorted(heads, digests[:, 0], side="left")
        high = np.searchsorted(heads, digests[:, 0], side="right")
        found = np.full(len(digests), -1, np.int64)
        for step in range(int((high - low).max(initial=0))):  # once, but for equal first words
            rows = np.flatnonzero(low + step < high)
            at = low[rows] + step
            same = self._sorted[at, 1] == digests[rows, 1]
            found[rows[same]] = self._order[at[same]]
        return found


def save_rows(store: RunStore, rows: Any) -> None:
    """Write the distinct training rows, dense or CSR."""
    if issparse(rows):
        csr = csr_array(rows)
        store.write_array("points_data", csr.data)
        store.write_array("points_indices", csr.indices)
        store.write_array("points_indptr", csr.indptr)
        store.write_array("points_shape", np.asarray(csr.shape, np.int64))
    else:
        store.write_array("points", rows)


def load_rows(store: RunStore) -> Any:
    """Read the distinct training rows back.

    Raises
    ------
    DamagedStoreError
    """
    if not store.has_array("points_shape"):
        return store.read_array("points")
    data, indices, indptr = (store.read_array(f"points_{part}") for part in ("data", "indices", "indptr"))
    check_lists(store.path, "the points", indptr, data, indices)
    said, state = store.read_array("points_shape").tolist(), store.stage("data")
    if state is not None and said != [state["n_distinct"], state["fields"]["n_features"]]:
        raise DamagedStoreError(f"{store.path!r}: the points are not of this run; {REMEDY}")
    return csr_array((data, indices, indptr), shape=tuple(said))


def looks_like_distances(X: Any) -> bool:
    """Whether a matrix given as features is square, symmetric, non-negative and zero on its diagonal.

    Parameters
    ----------
    X : array-like, shape (N, d), or Points
        For more than 512 rows, 256 evenly spaced ones are compared.

    Returns
    -------
    bool
        Always False below three rows, where symmetry says little.
    """
    points = X if isinstance(X, Points) else None
    source = points.rows if points is not None else as_source(X, "X")
    n_rows = points.n_rows if points is not None else source.shape[0]
    if len(source.shape) != 2 or n_rows != source.shape[1] or n_rows < 3:
        return False
    sample = np.arange(n_rows) if n_rows <= 512 else np.linspace(0, n_rows - 1, 256).astype(np.int64)
    where = points.distinct[sample] if points is not None else sample
    part = np.stack([_row(source, int(row))[sample] for row in where])
    if np.issubdtype(part.dtype, np.bool_) or not np.issubdtype(part.dtype, np.number):
        return False
    scale = np.abs(part).max()
    symmetric = bool((np.abs(part.astype(np.float64) - part.T) <= 1e-6 * scale).all())
    return bool(scale > 0 and part.min() >= 0 and not np.diagonal(part).any() and symmetric)


def _row(source: Any, row: int) -> NDArray[Any]:
    values = source[row : row + 1]
    values = values.compute() if hasattr(values, "compute") else values
    dense: NDArray[Any] = np.asarray(values.toarray() if issparse(values) else values).ravel()
    return dense


def _joined(blocks: list[Block]) -> Any:
    if issparse(blocks[0]):
        return csr_array(vstack(blocks, format="csr")) if len(blocks) > 1 else blocks[0]
    return np.concatenate(blocks)


def _first_occurrences(digests: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that are the first of their kind, ascending (m,), and each row's place among them (N,)."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # stable: twins stay in order
    ordered = digests[order]
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    heads = order[starts]
    first = np.sort(heads)
    place = np.empty(len(digests), np.int64)
    place[first] = np.arange(len(first))
    distinct = np.empty(len(digests), np.int64)
    distinct[order] = place[heads[np.cumsum(starts) - 1]]
    return first.astype(np.int64), distinct
