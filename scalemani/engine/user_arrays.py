"""Zarr arrays that are the user's, not the run's: test sets to read, coordinates to write by blocks."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalemani.engine.store import beside
from scalemani.errors import ScalemaniError


def is_zarr(X: Any) -> bool:
    """Whether X is a Zarr array."""
    return isinstance(X, zarr.Array)


@contextmanager
def new_output(path: str, shape: tuple[int, int], chunk_rows: int) -> Iterator[str]:
    """A new float64 array (rows, axes) whose chunks are whole rows.

    Yields the place where tasks write it; it comes to `path` when the block ends well, and is
    removed when not.

    Raises
    ------
    ScalemaniError
        If something is at `path`.
    """
    target = os.path.abspath(path)
    if os.path.lexists(target):
        raise ScalemaniError(f"{path!r} exists: give another path, or remove it")
    partial = str(beside(target))
    zarr.create_array(
        partial,
        shape=shape,
        chunks=(chunk_rows, max(1, shape[1])),
        dtype="float64",
        fill_value=np.nan,
        compressors=None,
        config={"write_empty_chunks": True},
    )
    try:
        yield partial
        os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def open_output(path: str) -> "zarr.Array[Any]":
    """The finished array, for reading."""
    return zarr.open_array(os.path.abspath(path), mode="r")


def write_chunk(path: str, start: int, rows: NDArray[np.float64]) -> None:
    """Write whole chunks at the place that :func:`new_output` gave."""
    target = zarr.open_array(path, mode="r+", config={"write_empty_chunks": True})
    target[start : start + len(rows)] = rows
