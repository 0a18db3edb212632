"""Validated blocks of rows of any array of points.

A block is two-dimensional, real, finite and exact as float64. Every source is read once, in order, and never
as a whole when it is larger than a block (a memory map, a Dask array, a Zarr array).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from scalemani.aliases import I64
from scalemani.errors import ScalemaniError
from scalemani.points.cells import check_exact, check_kind, numbers, unmasked
from scalemani.points.labels import frame_rows, is_frame, is_labeled, labeled_rows, packing_of, unpacked_rows
from scalemani.words import one_line

Block: TypeAlias = Any  # NDArray (b, d) or csr_array (b, d): scipy's stubs make a union of the two unusable

BLOCK_BYTES = 32 << 20  # as float64; a block, its float64 copy and a mask stay under 100 MiB


def row_blocks(
    X: Any,
    name: str = "X",
    n_features: int | None = None,
    like: Any = None,
    first: int = 0,
    check: Callable[[Block, int, str], None] | None = None,
) -> Iterator[tuple[int, Block]]:
    """Yield the rows of ``X`` as ``(start, block)``, validated, in order, each row once.

    X (N, d): NumPy array or memory map, SciPy sparse matrix, Dask array, Zarr array, or anything NumPy can convert.
    n_features: The number of columns that is required. When it (or ``like``) is given, ``X`` may have 0 rows.
    like: Rows whose kind, dense or CSR, and number of columns the blocks are to have.
    first: What messages call the first row, when ``X`` is itself a part of something.
    check: Called with each block, the number of its first row and `name`: raises where a metric can't take those rows.
    -> start: Index of the block's first row.
    -> block (b, d): Rows with a dtype that is exact as float64; CSR blocks are canonical and without stored zeros.
    Raises ScalemaniError: ``X`` is not two-dimensional, real, numeric and finite, or has other than the required
        columns.
    Raises TypeError: An object array holds something that is no number.
    """
    source = as_source(X, name, first)
    expected = like.shape[1] if like is not None else n_features
    check_shape(source.shape, name, expected)
    start = 0
    for raw in _cut(_raw_blocks(source), name, first):
        block = _validated(raw, name, first + start)
        if check is not None:
            check(block, first + start, name)
        if like is not None:
            block = _like(block, like)
        if block.shape[0]:
            yield start, block
        start += block.shape[0]


def as_source(X: Any, name: str, first: int = 0) -> Any:
    """Return ``X`` as something with shape, dtype and row slices, checked as far as its dtype tells.

    Dask blocks may still be masked: who takes a part of a source gives it to :func:`scalemani.points.cells.unmasked`.
    """
    if is_labeled(X):
        X = labeled_rows(X, name)
    elif is_frame(X):
        X = frame_rows(X, name)
    X = unpacked_rows(X, packing_of(X, name), name)
    sliceable = hasattr(X, "shape") and hasattr(X, "dtype") and hasattr(X, "chunks")  # Dask, Zarr, HDF5
    if not issparse(X) and not sliceable:
        if isinstance(X, list | tuple) and any(map(np.ma.isMaskedArray, X)):
            X = np.ma.array(X)  # NumPy drops the masks of rows
        try:
            X = np.asanyarray(X)
        except ValueError as error:
            raise ScalemaniError(f"{name} can't be read as a matrix of numbers: {one_line(error)}") from error
        X = np.asarray(unmasked(X, name, first))  # a memory map stays one
    check_kind(np.dtype(X.dtype), name)
    if issparse(X) and len(X.shape) == 2:
        X = csr_array(X)
    return X


def check_shape(shape: tuple[Any, ...], name: str, n_features: int | None, more: int = 0) -> None:
    """Raise unless ``shape`` is (N, d) with d >= 1 and, for training data, N >= 1; there may be `more` columns."""
    if len(shape) == 1:
        raise ScalemaniError(
            f"{name} has shape {shape}, but a matrix (rows, features) is needed. Reshape your data either "
            "using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) "
            "if it is a single row."
        )
    if len(shape) != 2:
        remedy = ": array.reshape(len(array), -1) has a row for each image" if len(shape) > 2 else ""
        raise ScalemaniError(
            f"{name} has {len(shape)} dimensions, shape {shape}; a matrix (rows, features) is needed{remedy}"
        )
    if shape[1] == 0:
        raise ScalemaniError(f"{name} has 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if n_features is not None:
        if not n_features <= shape[1] <= n_features + more:
            or_more = f" (or {n_features + more})" if more else ""
            raise ScalemaniError(
                f"{name} has {shape[1]} features, but scalemani is expecting {n_features} features as input{or_more}"
            )
    elif shape[0] == 0:
        raise ScalemaniError(f"{name} has 0 sample(s) (shape={shape}) while a minimum of 1 is required.")


def row_numbers(rows: ArrayLike, total: int, name: str = "rows") -> I64:
    """Numbers of some of `total` rows as int64, shape (m,); negative ones count from the end.

    Raises ScalemaniError: If they are none, or outside.
    """
    wanted = np.atleast_1d(np.asarray(unmasked(np.asanyarray(rows), name)))
    if wanted.ndim != 1 or not (np.issubdtype(wanted.dtype, np.integer) or wanted.size == 0):
        raise ScalemaniError(
            f"{name} of dtype {wanted.dtype} and shape {wanted.shape}: row numbers are needed, such as [0, 5]"
        )
    if wanted.size and not (-total <= wanted.min() and wanted.max() < total):
        raise ScalemaniError(f"{name} from {wanted.min()} to {wanted.max()} asked for: X has rows 0 to {total - 1}")
    return wanted.astype(np.int64)


def _raw_blocks(source: Any) -> Iterator[Any]:
    n_rows, n_features = source.shape
    if hasattr(source, "rechunk"):  # Dask: its own row blocks, each computed once
        whole_rows = source.rechunk({1: -1})
        for index in range(whole_rows.numblocks[0]):
            yield whole_rows.blocks[index]
        return
    rows = max(1, BLOCK_BYTES // (8 * n_features))
    if issparse(source):
        per_row = max(1, source.nnz // max(1, n_rows))
        rows = max(1, BLOCK_BYTES // (16 * per_row))
    elif getattr(source, "chunks", None):  # whole chunks, so that none is decoded twice
        chunk = int(source.chunks[0])
        rows = max(1, rows // chunk) * chunk
    for start in range(0, n_rows, rows):
        yield source[start : start + rows]


def _cut(blocks: Iterator[Any], name: str, first: int) -> Iterator[Any]:
    """Rows of dense blocks that are no more than a block's bytes, however large the chunk that they were read in."""
    for block in blocks:
        raw = unmasked(block, name, first)
        first += raw.shape[0] if raw.shape else 0
        if issparse(raw) or np.ndim(raw) != 2:
            yield raw
            continue
        rows = max(1, BLOCK_BYTES // (8 * max(1, raw.shape[1])))
        for at in range(0, max(1, len(raw)), rows):
            yield raw[at : at + rows]


def _validated(raw: Any, name: str, start: int) -> Block:
    """The block with an exact real dtype, native byte order and +0.0 for -0.0; raises where it can't be."""
    if issparse(raw):
        block = csr_array(raw, copy=True)
        block.sum_duplicates()
        block.sort_indices()
        block.data = _real(block.data, name)
        ends, columns = block.indptr[1:], block.indices
        _check_entries(
            block.data, name, lambda at: (start + int(np.searchsorted(ends, at, side="right")), int(columns[at]))
        )
        block.eliminate_zeros()
        return block
    dense = np.asarray(raw)
    if dense.dtype.kind == "O":
        dense = numbers(dense, name, start)
    values = _real(dense, name)
    n_features = values.shape[1]
    _check_entries(values.ravel(), name, lambda at: (start + at // n_features, at % n_features))
    return values


def _real(values: NDArray[Any], name: str) -> NDArray[Any]:
    """A fresh contiguous array whose dtype is exact as float64, -0.0 stored as 0.0."""
    check_kind(values.dtype, name)
    kind, size = values.dtype.kind, values.dtype.itemsize
    exact = (kind in "iu" and size < 8) or (kind == "f" and size <= 8)
    check_exact(values, name)
    dtype = values.dtype.newbyteorder("=") if exact else np.dtype(np.float64)
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf, which is then refused
        out = np.array(values, dtype=dtype, order="C", copy=True)
    if out.dtype.kind == "f":
        out += out.dtype.type(0)
    return out


def _check_entries(values: NDArray[Any], name: str, position: Any) -> None:
    if values.dtype.kind != "f" or not values.size:
        return
    bad = ~np.isfinite(values)
    if bad.any():
        at = int(np.argmax(bad))
        row, column = position(at)
        what = "NaN" if np.isnan(values[at]) else "inf"
        raise ScalemaniError(
            f"Input {name} contains {what} at row {row}, column {column} ({int(bad.sum())} such entries "
            "in this block of rows); every entry must be finite: drop or fill those rows"
        )


def _like(block: Block, like: Any) -> Block:
    if issparse(like) == issparse(block):
        return block
    return csr_array(block) if issparse(like) else block.toarray()
