"""Stage 1: takes points from any array, gives their distinct rows and every row's place among them.

Identical rows are one point of the manifold: each counts once in the graph and in every mean, and all of them
get the same coordinates. Rows are equal when they are equal as float64, -0.0 being 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from scalemani.cells import unmasked
from scalemani.digests import RowIndex, content_rank, first_occurrences, row_digests
from scalemani.engine.bounded_json import REMEDY
from scalemani.engine.expected_arrays import check_lists
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError, LooksLikeDistancesWarning, warn
from scalemani.row_blocks import as_source, check_shape, row_blocks
from scalemani.row_stack import RowStack

__all__ = [
    "Points",
    "RowIndex",
    "content_rank",
    "looks_like_distances",
    "read_points",
    "row_blocks",
    "row_digests",
]


@dataclass(frozen=True)
class Points:
    """Distinct rows, in the order of their first occurrence.

    rows (m, d): Distinct rows; a real dtype that is exact as float64.
    distinct (N,): Distinct index of each row the user gave.
    digests (m, 2): 128-bit digest of each distinct row's float64 content.
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

    def fingerprint(self) -> str:
        """Hex digest of the shape and of every row's content, in the user's order."""
        state = blake2b(f"{self.n_rows},{self.n_features};".encode(), digest_size=16)
        state.update(np.ascontiguousarray(self.digests[self.distinct], dtype="<u8").tobytes())
        return state.hexdigest()


def read_points(
    X: Any,
    name: str = "X",
    memory: int | None = None,
    folder: str | None = None,
    check: Callable[[Any, int, str], None] | None = None,
) -> Points:
    """Read ``X`` by blocks of rows, once, and merge identical rows.

    X (N, d): NumPy array or memory map, SciPy sparse matrix, Dask array, Zarr array, or anything NumPy can convert.
    memory: Bytes of dense rows that may be held. More than that stay where they are, if ``X`` is a memory map whose
        rows are what is wanted (it is read twice where they are not), or go into a file: ``rows`` is a map then.
    folder: Where there is room for that file; it has no name there, and is gone with the rows.
    check: As for :func:`scalemani.row_blocks.row_blocks`.
    Raises ScalemaniError: ``X`` is empty, not two-dimensional, not real and numeric, or not finite (row and column are
        named).
    Raises TypeError: An object array holds something that is no number.
    Raises DiskFullError: No room for the rows.
    """
    source = as_source(X, name)
    check_shape(source.shape, name, None)
    kept = RowStack(source, memory, folder)
    digests = []
    for start, block in row_blocks(source, name, check=check):
        digests.append(row_digests(block))
        kept.add(start, block)
    n_rows = sum(map(len, digests))
    check_shape((n_rows, source.shape[1]), name, None)
    every = np.concatenate(digests)
    first, distinct = first_occurrences(every)
    rows = kept.rows(None if len(first) == n_rows else first)
    return Points(rows, distinct, every if len(first) == n_rows else every[first])


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
    """Read the distinct training rows back."""
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

    X (N, d): For more than 512 rows, 256 evenly spaced ones are compared.
    -> Always False below three rows, where symmetry says little.
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


def warn_of_distances(points: Points) -> None:
    """Warn where rows of features look like distances between them."""
    n = points.n_rows
    if looks_like_distances(points):
        warn(
            f"X, shape ({n}, {n}), is symmetric with a zero diagonal: if it holds distances, use metric='precomputed' "
            "or metric='geodesic'",
            LooksLikeDistancesWarning,
        )


def _row(source: Any, row: int) -> NDArray[Any]:
    values = unmasked(source[row : row + 1], "X", row)
    dense: NDArray[Any] = np.asarray(values.toarray() if issparse(values) else values).ravel()
    return dense
