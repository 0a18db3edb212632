"""Arrays of a run that are read whole, what each has to be, and which names below a run's place are its own.

:func:`write` and :func:`read` use plain files, or objects, in the layout of a Zarr array, chunks of whole rows with
Zarr's codec crc32c behind each (Zarr itself takes 6 ms an array, a third of a small fit). The CRC32C of all numbers and
the array's name are in its attributes, so that none stands for another; that of its metadata's text goes into the run's
document.

Checksums say that an array is what was written, not who wrote it: a stranger makes them anew. Kernels and indexing
trust the arrays of a run, and an index that is out of range ends the process. So :func:`fault_of` holds every array
that is read against what the record of its step says that it has to be (:class:`Expected`), by the sizes that the
records of the run give. Nothing is copied: the least and the largest number tell, and NaN is both.

What is not :func:`is_own` is somebody's: `repair` says so and leaves it alone, and `overwrite` refuses to remove it.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import DamagedStoreError
from scalemani.storage.files import Location, below, checksum, in_order
from scalemani.storage.folders import LEFT
from scalemani.storage.json import REMEDY, check_inside, read_plain
from scalemani.storage.records import COPY, MOST_METADATA_BYTES, ROOT, array_metadata, known_steps

DOCUMENTS = (ROOT, COPY)
PIECES = "pieces_"  # how the folder of an unfinished step's pieces begins; its name follows
INSIDE = re.compile(r"zarr\.json|c(/\d+)*|ledger|(ledger/)?\d+\.json")  # a folder of a run, as far down as there is any
PIECE = re.compile(r"\w+\.kept")
OF_THE_SYSTEM = re.compile(r"\.nfs[0-9a-f]+|\.DS_Store|Thumbs\.db|desktop\.ini")  # which come by themselves


def is_own(name: str) -> bool:
    """Whether a run has, or while it is made may have, an entry of that name right below its place.

    >>> is_own("vectors"), is_own("pieces_solve"), is_own("out.zarr"), is_own("first_notes")
    (True, True, False, False)
    """
    name = LEFT.sub("", name)
    if name in DOCUMENTS or is_pieces(name) or expected_of(name) is not None:
        return True
    return any(name in kind.FOLDERS for kind in known_steps().values())


def is_pieces(name: str) -> bool:
    """Whether it is the folder of an unfinished step's pieces."""
    return name.startswith(PIECES) and name.removeprefix(PIECES) in known_steps()


def is_partial(name: str) -> bool:
    """Whether it is the name of what was being made: of a file that a user calls so, it is not.

    >>> is_partial(f"ledger/3.json.{'0' * 32}.partial"), is_partial("film.partial")
    (True, False)
    """
    return LEFT.search(name) is not None


def own_entries(folder: Location, beginning: str) -> list[Location]:
    """Entries right below a run's place that are its own and whose names begin so."""
    return [entry for entry in folder.iterdir() if entry.name.startswith(beginning) and is_own(entry.name)]


def first_stray(folder: Location) -> str | None:
    """The first entry below a run's place, at any depth, that no run makes; None where there is none."""
    for entry in in_order(folder.iterdir()):  # a request, where all below are many
        if not is_own(entry.name) and not OF_THE_SYSTEM.fullmatch(entry.name):
            return entry.name
    return next((name for name in (below(entry, folder) for entry in folder.rglob("*")) if _is_stray(name)), None)


def _is_stray(name: str) -> bool:
    top, _, rest = name.partition("/")
    if OF_THE_SYSTEM.fullmatch(name.rpartition("/")[2]):
        return False
    inside = PIECE if is_pieces(top) else INSIDE
    return not is_own(top) or bool(rest and (top in DOCUMENTS or not inside.fullmatch(LEFT.sub("", rest))))


REAL = "a real dtype"
TINY = 5e-324  # the least number above 0
Bound = float | str | None


@dataclass(frozen=True)
class Expected:
    """What an array has to be.

    dtypes: Names, or `REAL`.
    shape: A side each: a number, a size of the run (plus 1: "vertices+1"; the first known one: "sources|vertices"),
        or "*" for any.
    least, below: No number is less than `least`, none as large as `below` (a size of the run). Floats are finite
        besides.
    ascending: Whether it begins with 0 and never falls; "strictly": rises from any number.
    once: Whether every vertex is in it once, or is the place of one entry; negative numbers aside.
    """

    dtypes: str
    shape: str
    least: Bound = None
    below: Bound = None
    ascending: bool | str = False
    once: bool = False


def expected_of(name: str) -> Expected | None:
    """What an array has to be, by the record of the step that makes it; None where no step that is known does."""
    return next((kind.ARRAYS[name] for kind in known_steps().values() if name in kind.ARRAYS), None)


def fault_of(name: str, array: NDArray[Any], stages: Mapping[str, Any]) -> str | None:
    """What is wrong with an array, in a few words; None of one that is right, or that no step declares.

    stages: Records of the run's steps by name. A size that no finished step says is any.
    """
    expected = expected_of(name)
    if expected is None:
        return None
    sizes, kind = _sizes(stages), array.dtype.kind
    if not (kind in "biuf" if expected.dtypes == REAL else array.dtype.name in expected.dtypes.split()):
        return f"dtype {array.dtype}, where {expected.dtypes} is expected"
    sides = [_number(side, sizes) for side in expected.shape.split()]
    if len(sides) != array.ndim or any(one not in (None, had) for one, had in zip(sides, array.shape, strict=True)):
        said = ", ".join("any" if side is None else str(side) for side in sides)
        return f"shape {array.shape}, where ({said}) is expected"
    least, below = _number(expected.least, sizes), _number(expected.below, sizes)
    if array.size and (kind == "f" or least is not None or below is not None):
        lowest, highest = array.min(), array.max()
        if kind == "f" and not (np.isfinite(lowest) and np.isfinite(highest)):
            return "numbers that are not finite"
        if (least is not None and lowest < least) or (below is not None and highest >= below):
            most = "any" if below is None else below - 1
            return f"numbers from {lowest} to {highest}, where {least} to {most} is right"
    if expected.ascending == "strictly":
        if (array[1:] <= array[:-1]).any():
            return "numbers that do not ascend"
    elif expected.ascending and (array[0] != 0 or (array[1:] < array[:-1]).any()):
        return "pointers that do not ascend from 0"
    if expected.once:
        found = np.bincount(array[array >= 0])
        if found.max(initial=0) > 1 or sizes.get("vertices") not in (None, int(found.sum())):
            return "not every vertex once"
    return None


def _sizes(stages: Mapping[str, Any]) -> dict[str, int | None]:
    """Sizes of the run, as far as finished steps say them."""
    return {name: size for record in stages.values() for name, size in record.sizes.items()}


def _number(bound: Bound, sizes: Mapping[str, int | None]) -> float | None:
    """A bound or side as a number; None where any will do."""
    if bound is None or bound == "*" or isinstance(bound, int | float):
        return None if isinstance(bound, str) else bound
    names, _, more = bound.partition("+")
    if names.isdecimal():
        return int(names)
    size = next((sizes[name] for name in names.split("|") if sizes.get(name) is not None), None)
    return None if size is None else size + int(more or 0)


def check_size(path: str, n: int, stages: Mapping[str, Any]) -> None:
    """Refuse distances of another number of vertices than the graph's."""
    vertices = _sizes(stages).get("vertices")
    if vertices not in (None, n):
        raise DamagedStoreError(f"{path!r}: D is of {n} vertices and the graph of {vertices}; {REMEDY}")


def check_lists(path: str, what: str, indptr: NDArray[Any], *parts: NDArray[Any]) -> None:
    """Refuse lists (CSR) whose parts are not as long as their pointers say.

    indptr (m + 1,): Ascending from 0.
    parts (indptr[-1],)
    """
    if any(len(part) != indptr[-1] for part in parts):
        lengths = " and ".join(f"{len(part):,}" for part in parts)
        raise DamagedStoreError(
            f"{path!r}: {what} are damaged ({lengths} entries, where the pointers say {int(indptr[-1]):,}); {REMEDY}"
        )


CHUNK_BYTES = 32 << 20
MOST_BYTES = 1 << 50


def _chunk_rows(count: int, row_bytes: int) -> int:
    return max(1, min(count, CHUNK_BYTES // max(1, row_bytes)))


def array_bytes(count: int, row_bytes: int) -> int:
    """Of an array of so many rows on the disk: the last chunk is as long as the others."""
    rows = _chunk_rows(count, row_bytes)
    return -(-count // rows) * rows * row_bytes


def write(folder: Location, name: str, array: NDArray[Any]) -> int:
    """Write an array of numbers whole, in the place of one that is there; the CRC32C of its metadata."""
    data = np.ascontiguousarray(array)
    if data.dtype.kind not in "biuf":
        raise TypeError(f"{name!r} has dtype {data.dtype}: only numbers go into a store")
    data = data.astype(data.dtype.newbyteorder("<"), copy=False)
    rows = _chunk_rows(len(data), data[:1].nbytes)
    target, text = folder / name, metadata_text(name, data.shape, data.dtype, rows, checksum(data))
    with target.built(data.nbytes, replace=True) as folder:
        for number, chunk in enumerate(chunk_names(data.shape, rows)):
            whole = _filled(data[number * rows : (number + 1) * rows], rows)
            (folder / chunk).write(whole.data, checksum(whole).to_bytes(4, "little"))
        (folder / "zarr.json").write(text)  # last: in object storage there is no array without
    return checksum(text)


def metadata_text(name: str, shape: tuple[int, ...], dtype: Any, rows: int, total: int) -> bytes:
    """The one text of an array's zarr.json, in chunks of so many rows; `total` is the checksum of all numbers."""
    order = {"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {}
    zero = {"b": False, "f": 0.0}.get(dtype.kind, 0)
    codecs: list[dict[str, Any]] = [{"name": "bytes", **order}, {"name": "crc32c"}]
    chunk = [rows, *(max(1, side) for side in shape[1:])]
    return zarr_text(shape, dtype.name, chunk, zero, codecs, {"crc32c": total, "name": name})


def zarr_text(
    shape: Sequence[int],
    data_type: str,
    chunk: Sequence[int],
    fill: Any,
    codecs: Sequence[Mapping[str, Any]],
    attributes: Mapping[str, Any],
) -> bytes:
    """The text of the zarr.json of an array that Zarr's own code does not write."""
    said = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": fill,
        "codecs": codecs,
        "attributes": attributes,
        "storage_transformers": [],
    }
    return json.dumps(said, indent=2).encode()


def chunk_names(shape: Sequence[int], rows: int) -> list[str]:
    """The files of an array in chunks of so many rows, below its own place."""
    numbers = range(-(-shape[0] // rows) if 0 not in shape else 0)
    return ["/".join(["c", str(number), *["0"] * (len(shape) - 1)]) for number in numbers]


def _filled(part: NDArray[Any], rows: int) -> NDArray[Any]:
    """A chunk's numbers: zeros where the last one has no rows."""
    if len(part) == rows:
        return part
    whole = np.zeros((rows, *part.shape[1:]), part.dtype)
    whole[: len(part)] = part
    return whole


def read(folder: Location, name: str, metadata_sum: int | None) -> NDArray[Any]:
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


def _read(place: Location, name: str, metadata_sum: int | None) -> NDArray[Any]:
    content = read_plain(place / "zarr.json", MOST_METADATA_BYTES)
    if metadata_sum is not None and checksum(content) != metadata_sum:
        raise ValueError("its metadata is not what was written")
    metadata = array_metadata(content, str(place / "zarr.json"), MOST_BYTES)
    shape, rows, dtype = tuple(metadata.shape), metadata.chunks[0], np.dtype(metadata.data_type).newbyteorder("<")
    if metadata.attributes.get("name", name) != name:
        raise ValueError("it is another array")
    total = int(metadata.attributes.get("crc32c", 0))
    if content != metadata_text(name, shape, dtype, rows, total):
        raise ValueError("its metadata is not what was written")
    size = math.prod(metadata.chunks) * dtype.itemsize + 4
    files = [place / chunk for chunk in chunk_names(shape, rows)]
    there = sum(file.size() for file in files)
    if there != len(files) * size:  # before memory is taken for it
        raise ValueError(f"{there:,} bytes in {len(files)} files of {size:,}")
    data = np.zeros(shape, dtype)
    for number, file in enumerate(files):
        check_inside(place.parent, below(file, place.parent))
        found = read_plain(file, size)
        if checksum(found[:-4]) != int.from_bytes(found[-4:], "little"):
            raise ValueError("checksum differs")
        part = data[number * rows : (number + 1) * rows]
        part[...] = np.frombuffer(found, dtype, part.size).reshape(part.shape)
    if checksum(data) != total:
        raise ValueError("checksum differs")
    return data
