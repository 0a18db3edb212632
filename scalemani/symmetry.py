"""Leaf of stage 1: whether a matrix that is read by its chunks is symmetric, from one pass over its rows.

Its products with a few random vectors are compared with those of its transpose. Two rows that differ
from their columns by more than the rounding of such a sum are told apart with probability one; what
that difference is worth is then for the pairs themselves to say. Symmetric matrices are read once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

_VECTORS = 3
_EPS = float(np.finfo(np.float64).eps)
_SLAB = 16  # blocks' bytes that rows of whole chunks may take, in the matrix's own dtype


class SymmetrySketch:
    """The products of a square matrix and of its transpose with seeded random vectors.

    n: Rows and columns.
    """

    def __init__(self, n: int) -> None:
        self._vectors = np.random.default_rng(0).standard_normal((n, _VECTORS))
        self._by_rows = np.zeros((n, _VECTORS))
        self._by_columns = np.zeros((n, _VECTORS))
        self._norms = np.zeros(n)

    def add(self, rows: slice, block: NDArray[np.float64]) -> None:
        """Take in some rows (b, n); inf counts as 0, its pattern is for the caller to compare."""
        finite = np.isfinite(block)
        if not finite.all():
            block = np.where(finite, block, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is suspected
            self._by_rows[rows] = block @ self._vectors
            self._by_columns += block.T @ self._vectors[rows]
            self._norms[rows] = np.linalg.norm(block, axis=1)

    def suspects(self) -> NDArray[np.int64]:
        """Rows (s,), ascending, that differ from their columns by more than rounding of the sums.

        Terms have random signs: partial sums of n of them, and the sum of their roundings, grow as √n.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.abs(self._by_rows - self._by_columns).max(axis=1)
            rounding = 16 * _EPS * np.sqrt(len(apart)) * self._norms
        return np.flatnonzero(~(apart <= rounding) | ~np.isfinite(rounding))


def is_chunked(matrix: Any) -> bool:
    """Whether a part of the matrix costs the reading of whole chunks (Dask, Zarr, HDF5)."""
    return not isinstance(matrix, np.ndarray) and bool(getattr(matrix, "chunks", None))


def whole_chunks(matrix: Any, block_bytes: int) -> Iterator[slice]:
    """Slices of rows that cut no chunk, each of about `block_bytes` as float64 or one chunk, if that can be held."""
    n, width = (int(size) for size in matrix.shape)
    given = matrix.chunks[0]
    sizes = given if isinstance(given, tuple) else [min(given, n - at) for at in range(0, n, given)]
    rows = max(1, block_bytes // (8 * width))
    most = max(rows, _SLAB * block_bytes // (np.dtype(matrix.dtype).itemsize * width))
    start = stop = 0
    for size in sizes:
        if stop > start and stop + size - start > rows:
            yield slice(start, stop)
            start = stop
        stop += int(size)
        while stop - start > most:  # a chunk that can't be held is read several times
            yield slice(start, start + most)
            start += most
    if stop > start:
        yield slice(start, stop)
