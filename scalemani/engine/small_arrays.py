"""Arrays of a run that are read whole: takes a folder, a name and numbers, gives them back with their bits or an error.

Each is written as plain files, or objects, in the layout of a Zarr array, chunks of whole rows with Zarr's codec crc32c
behind each (Zarr itself takes 6 ms an array, a third of a small fit). The CRC32C of all of its numbers is in its
attributes, and that of its metadata's text goes into the run's document. The array's name is there, too, so that none
stands for another, even of those that the document does not know yet.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.bounded_json import REMEDY, check_inside
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import beside, checksum, checksum_of, discard, put, room_for, take_place
from scalemani.engine.own_names import is_own
from scalemani.engine.places import Place, below, in_order
from scalemani.engine.schemas import MOST_METADATA_BYTES, array_bytes, checked_array_metadata, parsed, read_plain
from scalemani.errors import DamagedStoreError

CHUNK_BYTES = 32 << 20
MOST_BYTES = 1 << 50


def write(folder: Place, name: str, array: NDArray[Any]) -> int:
    """Write an array whole, in the place of one that is there; the CRC32C of its metadata.

    Raises TypeError: If it holds anything but numbers.
    """
    data = np.ascontiguousarray(array)
    if data.dtype.kind not in "biuf":
        raise TypeError(f"{name!r} has dtype {data.dtype}: only numbers go into a store")
    data = data.astype(data.dtype.newbyteorder("<"), copy=False)
    rows = max(1, min(len(data), CHUNK_BYTES // max(1, data[:1].nbytes)))
    target, text = folder / name, metadata_text(name, data, rows)
    parts = list(enumerate(range(0, len(data), rows) if data.size else ()))
    if isinstance(target, ObjectPath):  # the metadata last: without them there is no array
        target.remove_all()
        for number, at in parts:
            whole = _filled(data[at : at + rows], rows)
            put(_chunk(target, number, data.ndim), whole.tobytes() + checksum(whole).to_bytes(4, "little"))
        put(target / "zarr.json", text)
        return checksum_of(text)
    partial = beside(target)
    with room_for(target, data.nbytes):
        try:
            partial.mkdir()
            put(partial / "zarr.json", text)
            for number, at in parts:
                _write_chunk(_chunk(partial, number, data.ndim), data[at : at + rows], rows)
            take_place(partial, target)
        except BaseException:
            discard(partial)
            raise
    return checksum_of(text)


def metadata_text(name: str, data: NDArray[Any], rows: int) -> bytes:
    """The one text of an array's zarr.json, in chunks of so many rows."""
    order = {"configuration": {"endian": "little"}} if data.dtype.itemsize > 1 else {}
    zero = {"b": False, "f": 0.0}.get(data.dtype.kind, 0)
    said = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(data.shape),
        "data_type": data.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": _chunk_shape(data.shape, rows)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": zero,
        "codecs": [{"name": "bytes", **order}, {"name": "crc32c"}],
        "attributes": {"crc32c": checksum(data), "name": name},
        "storage_transformers": [],
    }
    return json.dumps(said, indent=2).encode()


def _chunk_shape(shape: tuple[int, ...], rows: int) -> list[int]:
    return [rows, *(max(1, side) for side in shape[1:])]


def _chunk(place: Place, number: int, axes: int) -> Any:
    return place / "c" / "/".join([str(number), *["0"] * (axes - 1)])


def _filled(part: NDArray[Any], rows: int) -> NDArray[Any]:
    """A chunk's numbers: zeros where the last one has no rows."""
    if len(part) == rows:
        return part
    whole = np.zeros((rows, *part.shape[1:]), part.dtype)
    whole[: len(part)] = part
    return whole


def _write_chunk(path: Path, part: NDArray[Any], rows: int) -> None:
    """A chunk's bytes and their CRC32C."""
    whole = _filled(part, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as stream:
        stream.write(whole.data)
        stream.write(checksum(whole).to_bytes(4, "little"))


def found(folder: Place) -> dict[str, int]:
    """The run's own arrays that are there, with the CRC32C of their metadata."""
    files = [file for file in in_order(folder.glob("*/zarr.json")) if is_own(file.parent.name)]
    return {file.parent.name: checksum_of(read_plain(file, MOST_METADATA_BYTES)) for file in files}


def read(folder: Place, name: str, metadata_sum: int | None) -> NDArray[Any]:
    """Read an array whole and check it.

    metadata_sum: What :func:`write` gave, where it is known.
    Raises DamagedStoreError: If it is missing, or anything of it is not what was written.
    """
    place = folder / name
    if not (place / "zarr.json").exists():
        raise DamagedStoreError(f"{str(folder)!r} lacks {name!r}; {REMEDY}")
    try:
        return _read(place, name, metadata_sum)
    except (ValueError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DamagedStoreError(f"{str(folder)!r}: {name!r} is damaged ({why}); {REMEDY}") from error


def _read(place: Place, name: str, metadata_sum: int | None) -> NDArray[Any]:
    content = read_plain(place / "zarr.json", MOST_METADATA_BYTES)
    if metadata_sum is not None and checksum_of(content) != metadata_sum:
        raise ValueError("its metadata is not what was written")
    where = str(place / "zarr.json")
    metadata = checked_array_metadata(parsed(content, where), where, MOST_BYTES)
    shape, chunks = tuple(metadata["shape"]), metadata["chunk_grid"]["configuration"]["chunk_shape"]
    if metadata["attributes"].get("name", name) != name:
        raise ValueError("it is another array")
    rows, dtype = chunks[0], np.dtype(metadata["data_type"]).newbyteorder("<")
    if chunks != _chunk_shape(shape, rows):
        raise ValueError(f"chunks of {chunks} for the shape {shape}")
    sealed = len(metadata["codecs"]) > 1  # earlier releases wrote no checksum of a chunk
    size = array_bytes({**metadata, "shape": chunks})
    files = [_chunk(place, number, len(shape)) for number in range(-(-shape[0] // rows) if 0 not in shape else 0)]
    there = sum(file.stat().st_size for file in files)
    if there != len(files) * (size + 4 * sealed):  # before memory is taken for it
        raise ValueError(f"{there:,} bytes in {len(files)} files of {size + 4 * sealed:,}")
    data = np.zeros(shape, dtype)
    for number, file in enumerate(files):
        check_inside(place.parent, below(file, place.parent))
        found = read_plain(file, size + 4 * sealed)
        if sealed and checksum_of(found[:-4]) != int.from_bytes(found[-4:], "little"):
            raise ValueError("checksum differs")
        part = data[number * rows : (number + 1) * rows]
        part[...] = np.frombuffer(found, dtype, part.size).reshape(part.shape)
    if checksum(data) != metadata["attributes"].get("crc32c"):
        raise ValueError("checksum differs")
    if metadata_sum is None and "name" in metadata["attributes"] and content != metadata_text(name, data, rows):
        raise ValueError("its metadata is not what was written")
    return data
