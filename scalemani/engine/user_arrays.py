"""Zarr arrays that are the user's, not the run's: test sets to read, coordinates to write by blocks."""

import os
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError


def is_zarr(X: Any) -> bool:
    """Whether X is a Zarr array."""
    return isinstance(X, zarr.Array)


def create_output(path: str, shape: tuple[int, int], chunk_rows: int) -> "zarr.Array[Any]":
    """A new float64 array (rows, axes) whose chunks are whole rows; NaN until written.

    Raises
    ------
    ScalemaniError
        If something is at `path`.
    """
    if os.path.lexists(path):
        raise ScalemaniError(f"{path!r} exists: give another path, or remove it")
    return zarr.create_array(
        os.path.abspath(path),
        shape=shape,
        chunks=(chunk_rows, max(1, shape[1])),
        dtype="float64",
        fill_value=np.nan,
        compressors=None,
        config={"write_empty_chunks": True},
    )


def write_chunk(path: str, start: int, rows: NDArray[np.float64]) -> None:
    """Write whole chunks of an output that :func:`create_output` made."""
    target = zarr.open_array(os.path.abspath(path), mode="r+", config={"write_empty_chunks": True})
    target[start : start + len(rows)] = rows
