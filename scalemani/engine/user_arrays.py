"""Zarr arrays that are the user's, not the run's: points to read, coordinates to write whole or by blocks."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalemani.engine.tiles import beside
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


def open_member(path: Path, member: str | None) -> Any:
    """A Zarr array by the path of its store and, in a group, its own path; opened for reading.

    Raises
    ------
    ScalemaniError
        If there is no array; the arrays of a group are listed.
    """
    try:
        node = zarr.open(str(path), mode="r")
        if isinstance(node, zarr.Group):
            names = sorted(name for name, _ in node.arrays())
            if member is None and len(names) == 1:
                member = names[0]
            if member is None:
                listed = ", ".join(names) or "none at its top level"
                raise ScalemaniError(f"{path} is a group; give one of its arrays, as in {path}:PATH ({listed})")
            node = node[member]
        elif member is not None:
            raise ScalemaniError(f"{path} is an array and has no {member!r} inside; give {path}")
    except ScalemaniError:
        raise
    except Exception as error:  # each codec and store of zarr raises its own kinds
        name = f"{path}:{member}" if member else str(path)
        raise ScalemaniError(f"{name} can't be opened as a Zarr array ({_one_line(error)})") from error
    if isinstance(node, zarr.Group):
        raise ScalemaniError(f"{path}:{member} is a group, not an array; give the path of an array in it")
    return node


def write_table(
    path: Path,
    coordinates: NDArray[np.floating[Any]],
    heading: list[str],
    ids: Sequence[str] | None,
    id_name: str,
) -> None:
    """Coordinates as an array; with ids, a group of `coordinates` and `ids`. The axes' names are attributes."""
    rows_a_chunk = max(1, min(len(coordinates), (8 << 20) // max(1, 8 * coordinates.shape[1])))
    form: dict[str, Any] = {
        "shape": coordinates.shape,
        "chunks": (rows_a_chunk, max(1, coordinates.shape[1])),
        "dtype": coordinates.dtype,
    }
    if ids is None:
        zarr.create_array(str(path), **form, attributes={"axes": heading})[:] = coordinates
    else:
        group = zarr.open_group(str(path), mode="w-", attributes={"axes": heading, "id_name": id_name})
        group.create_array("coordinates", **form)[:] = coordinates
        names = group.create_array("ids", shape=(len(ids),), chunks=(rows_a_chunk,), dtype="string")
        names[:] = np.array(ids, dtype=object)


def _one_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
