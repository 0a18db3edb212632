"""Zarr arrays that strangers made: takes a folder, says whether Zarr may open it, before Zarr or a codec reads a byte.

Some codecs run code that is in the data (pickle), and metadata of a hundred bytes can stand for terabytes. So the
metadata are read here first: numbers or text alone, codecs from a list, sizes that the files can stand for.
"""

import math
import os
import stat
from typing import Any

from scalemani.engine.bounded_json import parsed, read_plain
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.places import Place, is_there, real
from scalemani.errors import DamagedStoreError, ScalemaniError

MOST_METADATA = 64 << 20  # bytes; a user's attributes may be long
MOST_ROWS = 2**31  # as many as a fit can have
UNQUESTIONED = 1 << 30  # bytes that an array may stand for whatever its files hold
LARGEST_RATIO = 20_000  # of what it stands for to what its files hold: 255 times is what Blosc can
_NUMBERS = {f"{kind}{bits}": bits // 8 for kind in ("int", "uint") for bits in (8, 16, 32, 64)} | {
    "bool": 1,
    "float16": 2,
    "float32": 4,
    "float64": 8,
}
_CODECS = {"bytes", "transpose", "blosc", "gzip", "zstd", "crc32c", "vlen-utf8", "sharding_indexed"}
_FILTERS = {"delta", "shuffle", "fixedscaleoffset", "quantize", "bitround", "packbits", "astype", "vlen-utf8", "crc32c"}
_COMPRESSORS = {"blosc", "zlib", "gzip", "zstd", "lz4", "lzma", "bz2"}


def kind_of_node(folder: Place) -> tuple[int, str] | None:
    """Zarr format and kind, "array" or "group", of what a folder holds by itself; None if it is no node.

    Raises ScalemaniError: If its metadata can't be read.
    """
    if is_there(folder / "zarr.json"):
        kind = _read(folder / "zarr.json").get("node_type")
        if kind not in ("array", "group"):
            raise ScalemaniError(f"{folder} is of the kind {_short(kind)}, not a Zarr array or group")
        return 3, kind
    for name, kind in ((".zarray", "array"), (".zgroup", "group")):
        if is_there(folder / name):
            return 2, kind
    return None


def arrays_in(folder: Place) -> list[str]:
    """Names of the arrays that a group holds at its top level, sorted."""
    entries = (entry for entry in folder.iterdir() if entry.is_dir())
    return sorted(entry.name for entry in entries if (kind_of_node(entry) or (0, ""))[1] == "array")


def check_array(folder: Place, zarr_format: int) -> None:
    """Refuse an array that is not numbers or text, that needs a codec which is not on the list, or can't be so large.

    Raises ScalemaniError: In one line, before a chunk is read.
    """
    if zarr_format == 3:
        metadata = _read(folder / "zarr.json")
        item = _check_format_3(folder, metadata)
    else:
        metadata = _read(folder / ".zarray")
        item = _check_format_2(folder, metadata)
        if is_there(folder / ".zattrs"):
            _read(folder / ".zattrs")
    shape = metadata.get("shape")
    if not isinstance(shape, list) or not all(type(side) is int and 0 <= side for side in shape):
        raise ScalemaniError(f"{folder} has the shape {_short(shape)}, which is none")
    if shape and shape[0] > MOST_ROWS:
        raise ScalemaniError(f"{folder} says {shape[0]:,} rows; at most {MOST_ROWS:,} are read")
    stored = _stored_bytes(folder)
    said = item * math.prod(shape)
    if said > UNQUESTIONED and said > LARGEST_RATIO * stored:
        raise ScalemaniError(
            f"{folder} says {said:,} bytes and its files have {stored:,}: it is not whole, or not what it seems; write "
            "it again"
        )


def _check_format_3(folder: Place, metadata: dict[str, Any]) -> int:
    kind, codecs = metadata.get("data_type"), metadata.get("codecs")
    if not (isinstance(kind, str) and (kind in _NUMBERS or kind == "string")):
        raise ScalemaniError(f"{folder} has dtype {_short(kind)}; give real numbers (integer, float or bool)")
    if not isinstance(codecs, list) or metadata.get("storage_transformers"):
        raise ScalemaniError(f"{folder} is no Zarr array that can be read; write it again")
    for codec in codecs:
        _check_codec(folder, codec, _CODECS)
    return _NUMBERS.get(kind, 1)


def _check_codec(folder: Place, codec: Any, allowed: set[str], key: str = "name") -> None:
    name = codec.get(key) if isinstance(codec, dict) else codec
    if not isinstance(name, str) or name not in allowed:
        raise ScalemaniError(
            f"{folder} needs the codec {_short(name)}, which is not read (known: {', '.join(sorted(allowed))}): write "
            "it again with one of those"
        )
    inner = codec.get("configuration") if isinstance(codec, dict) else None
    if isinstance(inner, dict):  # a shard's own
        for part in (inner.get("codecs"), inner.get("index_codecs")):
            for each in part if isinstance(part, list) else []:
                _check_codec(folder, each, allowed)


def _check_format_2(folder: Place, metadata: dict[str, Any]) -> int:
    kind, filters = metadata.get("dtype"), metadata.get("filters") or []
    compressor = metadata.get("compressor")
    if not isinstance(filters, list):
        raise ScalemaniError(f"{folder} has filters {_short(filters)}, which are none")
    for codec in filters:  # first: a pickle is said by its name
        _check_codec(folder, codec, _FILTERS, "id")
    if compressor is not None:
        _check_codec(folder, compressor, _COMPRESSORS, "id")
    if kind == "|O":
        if not any(codec["id"] == "vlen-utf8" for codec in filters):
            raise ScalemaniError(f"{folder} holds Python objects, which are never unpickled; write numbers or text")
        return 1
    if not isinstance(kind, str) or kind[1:2] not in tuple("biufcUS") or not kind[2:].isdecimal() or len(kind) > 12:
        raise ScalemaniError(f"{folder} has dtype {_short(kind)}; give real numbers (integer, float or bool)")
    return int(kind[2:])


def _read(path: Place) -> dict[str, Any]:
    """A metadata file; a link to it is followed, since the folder is the user's own."""
    try:
        value = parsed(read_plain(real(path), MOST_METADATA), repr(str(path)))
    except DamagedStoreError as error:
        raise ScalemaniError(str(error).rpartition(";")[0] + "; write it again") from error
    if not isinstance(value, dict):
        raise ScalemaniError(f"{path} is no Zarr metadata; write it again")
    return value


def _stored_bytes(folder: Place) -> int:
    """Bytes of the files below a folder; links are followed, each folder once.

    Raises ScalemaniError: If a pipe, a socket or a device is there: reading it might never end.
    """
    if isinstance(folder, ObjectPath):
        return folder.bytes_below()
    total, left, seen = 0, [str(folder)], set[str]()
    while left:
        at = os.path.realpath(left.pop())
        if at in seen:
            continue
        seen.add(at)
        with os.scandir(at) as entries:
            for entry in entries:
                if entry.is_dir():
                    left.append(entry.path)
                    continue
                try:
                    state = entry.stat()
                except OSError:
                    continue  # a link to nothing is a chunk that isn't there
                if not stat.S_ISREG(state.st_mode):
                    raise ScalemaniError(f"{entry.path!r} is neither a folder nor a plain file; remove it")
                total += state.st_size
    return total


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
