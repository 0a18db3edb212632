"""Zarr arrays that are the user's, not the run's: points to read, coordinates to write whole or by blocks."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalemani.engine.bounded_json import read_plain
from scalemani.engine.foreign_zarr import arrays_in, check_array, kind_of_node
from scalemani.engine.kept import IN_WORK, METADATA, name_next
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import discard, room_for
from scalemani.engine.places import Named, Place, absolute, is_there
from scalemani.engine.replacing import copy_all
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreUnreachableError


class PointsArray(zarr.Array[Any]):
    """An array of the user's, whose damaged chunks are said in one line where they are read."""

    def __getitem__(self, selection: Any) -> Any:
        try:
            return super().__getitem__(selection)
        except Exception as error:  # each codec raises its own kinds
            name = str(self.store_path).removeprefix("file://")
            raise ScalemaniError(
                f"a chunk of {name} is damaged ({type(error).__name__}: {_one_line(error)}); write it again"
            ) from error


def _in_zarr(path: Place) -> Any:
    """What Zarr's functions take for a path."""
    if isinstance(path, ObjectPath):
        return zarr.storage.StorePath(zarr.storage.ObjectStore(path.bucket.store), path.key)
    return str(path)


def _created(path: Place, **form: Any) -> "zarr.Array[Any]":
    """A new array; Zarr itself would put groups into everything above it in a bucket."""
    if not isinstance(path, ObjectPath):
        return zarr.create_array(str(path), **form)
    path.joinpath(METADATA).write_bytes(_metadata(form))
    return zarr.open_array(_in_zarr(path), mode="r+")


def _metadata(form: dict[str, Any]) -> bytes:
    """The text of a new array's metadata."""
    scratch: dict[str, Any] = {}
    zarr.create_array(zarr.storage.MemoryStore(scratch), **form)
    return bytes(scratch[METADATA].to_bytes())


class NewOutput:
    """A float64 array (rows, axes) that is written in a working folder and comes to its place when it is whole.

    folder: Of kept results, on the disk or in the bucket of the output. An unfinished array that is there is gone on
        with if it has that form, else replaced.
    chunk_rows: Rows of a chunk, which are written together; by default those of 8 MiB.
    """

    def __init__(self, folder: Place, shape: tuple[int, int], chunk_rows: int | None = None) -> None:
        self._partial = folder / IN_WORK
        self._needed = 8 * shape[0] * max(1, shape[1])
        chunks = _output_chunks(shape) if chunk_rows is None else (max(1, chunk_rows), max(1, shape[1]))
        form: dict[str, Any] = {
            "shape": shape,
            "chunks": chunks,
            "dtype": "float64",
            "fill_value": np.nan,
            "compressors": None,
            "config": {"write_empty_chunks": True},
        }
        if self._is_there(_metadata(form)):
            self._array = zarr.open_array(_in_zarr(self._partial), mode="r+")
            return
        discard(self._partial)
        with room_for(folder, self._needed):
            self._array = _created(self._partial, **form)

    def _is_there(self, metadata: bytes) -> bool:
        """Whether the array is one of these metadata, to the byte: of any other nothing is read."""
        if self._partial.is_symlink():
            return False
        try:
            return read_plain(self._partial / METADATA, len(metadata)) == metadata
        except (DamagedStoreError, OSError):
            return False

    def read(self, start: int, stop: int) -> NDArray[np.float64] | None:
        """Rows that may have been written; None where they can't be read."""
        try:
            return np.ascontiguousarray(self._array[start:stop])
        except Exception:  # cut short, or gone: each store raises its own kinds
            return None

    def write(self, start: int, rows: NDArray[np.float64]) -> None:
        """Write consecutive rows."""
        with room_for(self._partial, self._needed):
            self._array[start : start + len(rows)] = rows

    def finish(self, path: Named) -> None:
        """Give the array its name; in object storage by a copy, its metadata last, and what was copied goes later.

        Raises ScalemaniError: If something has come to be there.
        """
        refuse_existing(path)
        name_next(self._partial.parent, self._partial)
        target = absolute(path)
        if isinstance(target, ObjectPath):
            assert isinstance(self._partial, ObjectPath)
            copy_all(self._partial, target)
        else:
            os.rename(str(self._partial), target)


def refuse_existing(path: Named) -> None:
    """Refuse a path at which something is."""
    if is_there(absolute(path)):
        raise ScalemaniError(f"{str(path)!r} exists: give another path, or remove it")


def _output_chunks(shape: tuple[int, int]) -> tuple[int, int]:
    """Whole rows, of 8 MiB at most."""
    axes = max(1, shape[1])
    return max(1, min(shape[0], (8 << 20) // (8 * axes))), axes


def open_output(path: Named) -> "zarr.Array[Any]":
    """The finished array, for reading."""
    return zarr.open_array(_in_zarr(absolute(path)), mode="r")


def open_member(path: Place, member: str | None) -> Any:
    """A Zarr array by the path of its store and, in a group, its own path; opened for reading.

    Its metadata are checked first (:mod:`.foreign_zarr`): no codec that runs code comes to see the data.

    Raises ScalemaniError: If there is no array; the arrays of a group are listed. If its dtype, codecs or sizes are not
        to be trusted.
    """
    name = f"{path}:{member}" if member else str(path)
    try:
        folder, found = path, kind_of_node(path)
        if found is not None and found[1] == "group":
            names = [member] if member is not None else arrays_in(path)
            if len(names) != 1:
                listed = ", ".join(names) or "none at its top level"
                raise ScalemaniError(f"{path} is a group; give one of its arrays, as in {path}:PATH ({listed})")
            name, parts = f"{path}:{names[0]}", names[0].strip("/").split("/")
            if not all(part not in ("", ".", "..") for part in parts):
                raise ScalemaniError(f"{name}: a path inside the store is needed, such as folder/array")
            folder = path.joinpath(*parts)
            found = kind_of_node(folder)
        elif member is not None and found is not None:
            raise ScalemaniError(f"{path} is an array and has no {member!r} inside; give {path}")
        if found is None:
            raise ScalemaniError(f"{name} can't be opened as a Zarr array (there is none); give the path of an array")
        if found[1] == "group":
            raise ScalemaniError(f"{name} is a group, not an array; give the path of an array in it")
        check_array(folder, found[0])
        array = zarr.open_array(_in_zarr(folder), mode="r", zarr_format=3 if found[0] == 3 else 2)
        return PointsArray(array.async_array)
    except (ScalemaniError, StoreUnreachableError):
        raise
    except Exception as error:  # each codec and store of zarr raises its own kinds
        raise ScalemaniError(f"{name} can't be opened as a Zarr array ({_one_line(error)})") from error


def write_table(
    path: Path,
    coordinates: NDArray[np.floating[Any]],
    heading: list[str],
    ids: Sequence[str] | None,
    id_name: str,
) -> None:
    """Coordinates as an array; with ids, a group of `coordinates` and `ids`. The axes' names are attributes."""
    chunks = _output_chunks((coordinates.shape[0], coordinates.shape[1]))
    form: dict[str, Any] = {
        "shape": coordinates.shape,
        "chunks": chunks,
        "dtype": coordinates.dtype,
    }
    if ids is None:
        zarr.create_array(str(path), **form, attributes={"axes": heading})[:] = coordinates
    else:
        group = zarr.open_group(str(path), mode="w-", attributes={"axes": heading, "id_name": id_name})
        group.create_array("coordinates", **form)[:] = coordinates
        names = group.create_array("ids", shape=(len(ids),), chunks=chunks[:1], dtype="string")
        names[:] = np.array(ids, dtype=object)


def _one_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
