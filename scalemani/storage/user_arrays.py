"""Zarr arrays of the user's: what is read is checked first, and what is written comes to its place when it is whole.

Points may come from strangers. Some codecs run code that is in the data (pickle), and metadata of a hundred bytes can
stand for terabytes. So the metadata are read here before Zarr or a codec reads a byte: numbers or text alone, codecs
from a list, sizes that the files can stand for (:func:`open_member`).

Coordinates are written whole (:func:`write_table`), or by groups of rows (:class:`NewOutput`, :class:`KeptGroups`), so
that neither memory nor the disk beside the output holds more than one group's pieces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import zarr
from numpy.typing import NDArray

from scalemani.aliases import F64
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreUnreachableError, meant
from scalemani.storage.arrays import zarr_text
from scalemani.storage.files import AnyPath, Location, checksum, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import parsed, read_plain
from scalemani.storage.pieces import IN_WORK, Pieces, name_next
from scalemani.words import one_line, short

MOST_METADATA = 64 << 20  # bytes; a user's attributes may be long
MOST_ROWS = 2**31  # as many as a fit can have
UNQUESTIONED = 1 << 30  # bytes that an array may stand for whatever its files hold
LARGEST_RATIO = 20_000  # of what it stands for to what its files hold: 255 times is what Blosc can
_INTEGERS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_NUMBERS = {"bool", "float16", "float32", "float64", *_INTEGERS}
_CODECS = {"bytes", "transpose", "blosc", "gzip", "zstd", "crc32c", "vlen-utf8", "sharding_indexed"}
_FILTERS = {"delta", "shuffle", "fixedscaleoffset", "quantize", "bitround", "packbits", "astype", "vlen-utf8", "crc32c"}
_COMPRESSORS = {"blosc", "zlib", "gzip", "zstd", "lz4", "lzma", "bz2"}


def kind_of_node(folder: Location) -> tuple[Literal[2, 3], str] | None:
    """Zarr format and kind, "array" or "group", of what a folder holds by itself; None if it is no node."""
    if (folder / "zarr.json").is_there():
        kind = _read(folder / "zarr.json").get("node_type")
        if kind not in ("array", "group"):
            raise ScalemaniError(f"{folder} is of the kind {short(repr(kind))}, not a Zarr array or group")
        return 3, kind
    for name, kind in ((".zarray", "array"), (".zgroup", "group")):
        if (folder / name).is_there():
            return 2, kind
    return None


def arrays_in(folder: Location) -> list[str]:
    """Names of the arrays that a group holds at its top level, sorted."""
    kinds = {entry.name: kind_of_node(entry) for entry in folder.iterdir() if entry.is_dir()}
    return sorted(name for name, kind in kinds.items() if kind is not None and kind[1] == "array")


def check_array(folder: Location, zarr_format: Literal[2, 3]) -> None:
    """Refuse, before a chunk is read, what is not numbers or text, an unlisted codec, or a size that can't be."""
    metadata = _read(folder / ("zarr.json" if zarr_format == 3 else ".zarray"))
    item = (_check_format_3 if zarr_format == 3 else _check_format_2)(folder, metadata)
    if zarr_format == 2 and (folder / ".zattrs").is_there():
        _read(folder / ".zattrs")
    shape = metadata.get("shape")
    if not isinstance(shape, list) or not all(type(side) is int and 0 <= side for side in shape):
        raise ScalemaniError(f"{folder} has the shape {short(repr(shape))}, which is none")
    if shape and shape[0] > MOST_ROWS:
        raise ScalemaniError(f"{folder} says {shape[0]:,} rows; at most {MOST_ROWS:,} are read")
    stored = folder.bytes_below()
    said = item * math.prod(shape)
    if said > UNQUESTIONED and said > LARGEST_RATIO * stored:
        raise ScalemaniError(
            f"{folder} says {said:,} bytes and its files have {stored:,}: it is not whole, or not what it seems; write "
            "it again"
        )


def _check_format_3(folder: Location, metadata: dict[str, Any]) -> int:
    kind, codecs = metadata.get("data_type"), metadata.get("codecs")
    if not (isinstance(kind, str) and (kind in _NUMBERS or kind == "string")):
        raise ScalemaniError(f"{folder} has dtype {short(repr(kind))}; give real numbers (integer, float or bool)")
    if not isinstance(codecs, list) or metadata.get("storage_transformers"):
        raise ScalemaniError(f"{folder} is no Zarr array that can be read; write it again")
    for codec in codecs:
        _check_codec(folder, codec, _CODECS)
    return 1 if kind == "string" else np.dtype(kind).itemsize


def _check_codec(folder: Location, codec: Any, allowed: set[str], key: str = "name") -> None:
    name = codec.get(key) if isinstance(codec, dict) else codec
    if not isinstance(name, str) or name not in allowed:
        raise ScalemaniError(
            f"{folder} needs the codec {short(repr(name))}, which is not read (known: {', '.join(sorted(allowed))}): "
            "write it again with one of those"
        )
    inner = codec.get("configuration") if isinstance(codec, dict) else None
    if isinstance(inner, dict):  # a shard's own
        for part in (inner.get("codecs"), inner.get("index_codecs")):
            for each in part if isinstance(part, list) else []:
                _check_codec(folder, each, allowed)


def _check_format_2(folder: Location, metadata: dict[str, Any]) -> int:
    kind, filters = metadata.get("dtype"), metadata.get("filters") or []
    compressor = metadata.get("compressor")
    if not isinstance(filters, list):
        raise ScalemaniError(f"{folder} has filters {short(repr(filters))}, which are none")
    for codec in filters:  # first: a pickle is said by its name
        _check_codec(folder, codec, _FILTERS, "id")
    if compressor is not None:
        _check_codec(folder, compressor, _COMPRESSORS, "id")
    if kind == "|O":
        if not any(codec["id"] == "vlen-utf8" for codec in filters):
            raise ScalemaniError(f"{folder} holds Python objects, which are never unpickled; write numbers or text")
        return 1
    if not isinstance(kind, str) or kind[1:2] not in tuple("biufcUS") or not kind[2:].isdecimal() or len(kind) > 12:
        raise ScalemaniError(f"{folder} has dtype {short(repr(kind))}; give real numbers (integer, float or bool)")
    return int(kind[2:])


def _read(path: Location) -> dict[str, Any]:
    """A metadata file; a link to it is followed, since the folder is the user's own."""
    try:
        value = parsed(read_plain(path.real(), MOST_METADATA), repr(str(path)))
    except DamagedStoreError as error:
        raise ScalemaniError(str(error).rpartition(";")[0] + "; write it again") from error
    if not isinstance(value, dict):
        raise ScalemaniError(f"{path} is no Zarr metadata; write it again")
    return value


class PointsArray(zarr.Array[Any]):
    """An array of the user's, whose damaged chunks are said in one line where they are read."""

    def __getitem__(self, selection: Any) -> Any:
        try:
            return super().__getitem__(selection)
        except Exception as error:  # each codec raises its own kinds
            name = str(self.store_path).removeprefix("file://")
            raise ScalemaniError(
                f"a chunk of {name} is damaged ({type(error).__name__}: {one_line(error)}); write it again"
            ) from error


def _in_zarr(path: Location) -> Any:
    if path.in_bucket is None:
        return str(path)
    store, key = path.in_bucket
    return zarr.storage.StorePath(zarr.storage.ObjectStore(store), key)


class NewOutput:
    """A float64 array (rows, axes) that is written in a working folder and comes to its place when it is whole.

    folder: Of kept results, beside the output. An unfinished array there is gone on with if it has that form.
    chunk_rows: Rows of a chunk, which are written together; by default those of 8 MiB.
    """

    def __init__(self, folder: Location, shape: tuple[int, int], chunk_rows: int | None = None) -> None:
        self._partial = folder / IN_WORK
        self._needed = 8 * shape[0] * max(1, shape[1])
        chunks = _output_chunks(shape) if chunk_rows is None else (max(1, chunk_rows), max(1, shape[1]))
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        metadata = zarr_text(shape, "float64", chunks, "NaN", codecs, {})
        if not self._is_there(metadata):
            self._partial.remove()
            with room_for(folder, self._needed):
                self._partial.make_folder()
                (self._partial / "zarr.json").put(metadata)
        array = zarr.open_array(_in_zarr(self._partial), mode="r+")
        self._array = array.with_config({"write_empty_chunks": True})

    def _is_there(self, metadata: bytes) -> bool:
        """Whether the array is one of these metadata, to the byte: of any other nothing is read."""
        if self._partial.is_symlink():
            return False
        try:
            return read_plain(self._partial / "zarr.json", len(metadata)) == metadata
        except (DamagedStoreError, OSError):
            return False

    def read(self, start: int, stop: int) -> F64 | None:
        """Rows that may have been written; None where they can't be read."""
        try:
            return np.ascontiguousarray(self._array[start:stop])
        except Exception:  # cut short, or gone: each store raises its own kinds
            return None

    def write(self, start: int, rows: F64) -> None:
        """Write consecutive rows."""
        with room_for(self._partial, self._needed):
            self._array[start : start + len(rows)] = rows

    def finish(self, path: AnyPath) -> None:
        """Give the array its name, if nothing has come to be there; in object storage what was copied goes later."""
        refuse_existing(path)
        name_next(self._partial.parent, self._partial)
        open_location(path).normal().take(self._partial)


def refuse_existing(path: AnyPath) -> None:
    """Refuse a path at which something is."""
    if open_location(path).normal().is_there():
        raise ScalemaniError(f"{str(path)!r} exists: give another path, or remove it")


def _output_chunks(shape: tuple[int, int]) -> tuple[int, int]:
    """Whole rows, of 8 MiB at most."""
    axes = max(1, shape[1])
    return max(1, min(shape[0], (8 << 20) // (8 * axes))), axes


def open_output(path: AnyPath) -> zarr.Array[Any]:
    """The finished array, for reading."""
    return zarr.open_array(_in_zarr(open_location(path).normal()), mode="r")


def open_member(path: AnyPath, member: str | None) -> Any:
    """A Zarr array by the path of its store and, in a group, its own path; opened for reading.

    No codec that runs code comes to see the data: metadata are checked first.

    Raises ScalemaniError: If there is no array; the arrays of a group are listed. If its dtype, codecs or sizes are not
        to be trusted.
    """
    name = f"{path}:{member}" if member else str(path)
    folder = open_location(path)
    try:
        found = kind_of_node(folder)
        if found is not None and found[1] == "group":
            names = [member] if member is not None else arrays_in(folder)
            if len(names) != 1:
                listed = ", ".join(names) or "none at its top level"
                raise ScalemaniError(f"{path} is a group; give one of its arrays, as in {path}:PATH ({listed})")
            name, parts = f"{path}:{names[0]}", names[0].strip("/").split("/")
            if not all(part not in ("", ".", "..") for part in parts):
                raise ScalemaniError(f"{name}: a path inside the store is needed, such as folder/array")
            folder = folder / "/".join(parts)
            found = kind_of_node(folder)
        elif member is not None and found is not None:
            raise ScalemaniError(f"{path} is an array and has no {member!r} inside; give {path}")
        if found is None:
            above = (member or "").strip("/").rpartition("/")[0]
            inside = open_location(path) / above if above else open_location(path)
            names = [f"{above}/{one}".strip("/") for one in (arrays_in(inside) if inside.is_dir() else [])]
            guess = meant(member, names, "give the path of an array")
            raise ScalemaniError(f"{name} can't be opened as a Zarr array (there is none); {guess}")
        if found[1] == "group":
            raise ScalemaniError(f"{name} is a group, not an array; give the path of an array in it")
        check_array(folder, found[0])
        array = zarr.open_array(_in_zarr(folder), mode="r", zarr_format=found[0])
        return PointsArray(array.async_array)
    except (ScalemaniError, StoreUnreachableError):
        raise
    except Exception as error:  # each codec and store of zarr raises its own kinds
        raise ScalemaniError(f"{name} can't be opened as a Zarr array ({one_line(error)})") from error


def write_table(
    path: Path,
    coordinates: NDArray[np.floating[Any]],
    heading: list[str],
    ids: Sequence[str] | None,
    id_name: str,
) -> None:
    """Coordinates as an array; with ids, a group of `coordinates` and `ids`. The axes' names are attributes."""
    chunks = _output_chunks((coordinates.shape[0], coordinates.shape[1]))
    form: dict[str, Any] = {"shape": coordinates.shape, "chunks": chunks, "dtype": coordinates.dtype}
    if ids is None:
        zarr.create_array(str(path), **form, attributes={"axes": heading})[:] = coordinates
    else:
        group = zarr.open_group(str(path), mode="w-", attributes={"axes": heading, "id_name": id_name})
        group.create_array("coordinates", **form)[:] = coordinates
        names = group.create_array("ids", shape=(len(ids),), chunks=chunks[:1], dtype="string")
        names[:] = np.array(ids, dtype=object)


@dataclass(frozen=True)
class Record:
    """What is known of a group that was finished.

    digests: Of what its parts were made from, in order.
    rows, pieces: Rows, and pieces that were kept for them.
    crc: CRC32C of its numbers.
    numbers (rows, axes): These, where they are not in the output.
    """

    digests: list[str]
    rows: int
    pieces: int
    crc: int
    numbers: F64 | None


class KeptGroups:
    """Finished groups of an output's rows.

    While a group is in work each of its blocks is a piece. When it is finished its numbers go into the output, and a
    record of a few bytes a block takes the place of the blocks. Where a record does not fit the numbers, the group is
    made again.

    output: Where the numbers go; they are in the record where there is none.
    of: Digest of what all groups are made from besides their rows.
    """

    def __init__(self, pieces: Pieces, output: NewOutput | None, of: str) -> None:
        self._pieces, self._output, self._of = pieces, output, of

    def record(self, first: int) -> Record | None:
        """The record of the group whose first row has a number, if it was finished."""
        found = self._pieces.get(f"group-{first}", self._of, counts=0)
        if found is None or len(found) != (3 if self._output is None else 2):
            return None
        rows, pieces, crc = found[1].tolist()
        return Record([part.tobytes().hex() for part in found[0]], rows, pieces, crc, (*found, None)[2])

    def numbers(self, first: int, record: Record) -> F64 | None:
        """The numbers (rows, axes) of a finished group, or None where they are not what they were."""
        found = record.numbers
        if self._output is not None:
            found = self._output.read(first, first + record.rows)
        if found is None or len(found) != record.rows or checksum(found) != record.crc:
            return None
        self._pieces.found += record.pieces
        return found

    def finish(self, first: int, digests: Sequence[str], names: Sequence[str], numbers: F64) -> None:
        """Take the numbers of a group, then drop the pieces of those names."""
        made_of = np.frombuffer(bytes.fromhex("".join(digests)), "<i8").reshape(len(digests), -1)
        arrays: list[NDArray[Any]] = [made_of, np.array([len(numbers), len(names), checksum(numbers)])]
        if self._output is None:
            arrays.append(numbers)
        else:
            self._pieces.check()
            self._output.write(first, numbers)
        self._pieces.put(f"group-{first}", arrays, self._of, counts=0)
        self._pieces.drop(names)
