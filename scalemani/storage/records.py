"""What a store says in JSON, typed: the run's document, a line of a ledger, the writer's file, an array's metadata.

Each is a `msgspec.Struct`: types, ranges and words are checked where it is read, and an error says file, key and what
is wrong in one line. What a step records is a :class:`StepRecord` of its own (:mod:`scalemani.steps.records`); a store
knows them by name alone.

The document is in `zarr.json`, where any Zarr reader finds it, under "scalemani", with a CRC32C of its own text; and
once more in `document.json`, so that one damaged byte does not take a run with it. Both are put whole, the copy second:
it may be a step behind, and then that step is done again.
"""

import importlib
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from scalemani.errors import DamagedStoreError, ScalemaniError, import_declared
from scalemani.storage.files import Location, checksum, create_once
from scalemani.storage.json import REMEDY, damaged, parsed, read_json, read_plain, refused

KEY = "scalemani"
_MODULE = re.compile(r"\w{1,80}(\.\w{1,80}){0,5}")
FORMAT_VERSION = 1
ROOT, COPY = "zarr.json", "document.json"
MOST_DOCUMENT_BYTES = 256 << 20  # metric_params may hold a matrix, in two steps
MOST_LINE_BYTES = 16 << 20  # a checksum of at most 12 letters for each of a million tiles
MOST_WRITER_BYTES = MOST_METADATA_BYTES = 64 << 10
MOST_ARRAYS = 1000  # a run names a few dozen
MOST_BLOCKS = 1 << 20  # blocks of vertices: what loops over them ends
LEAST_CHUNK = 16 << 20  # bytes of all chunks of a small array but one: write_array's have 32 MiB or a row

# ---- numbers and words that records are made of ------------------------------------------------------

Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
Plain = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]*\Z", max_length=255)]
Crc32c = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Count = Annotated[int, Meta(ge=1, le=2**31)]
Natural = Annotated[int, Meta(ge=0, le=2**62)]
Rows = Annotated[int, Meta(ge=1, le=2**40)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Sized = Annotated[float, Meta(ge=-1e306, le=1e306)]  # a few of them can be added up
ArrayName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*\Z", max_length=64)]


class Record(Struct, frozen=True, kw_only=True):
    """A typed part of a store's JSON."""


class StepRecord(Record, frozen=True, kw_only=True):
    """What a finished step says, and what its arrays have to be. Every store knows the classes that are defined.

    STEP: Its name.
    NEEDS: Steps without which it can't be.
    ARRAYS: Name -> :class:`scalemani.storage.arrays.Expected`.
    FOLDERS: Of its matrices.
    """

    STEP: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    ARRAYS: ClassVar[Mapping[str, Any]] = {}
    FOLDERS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        STEPS[cls.STEP] = cls

    @property
    def sizes(self) -> Mapping[str, int | None]:
        """Sizes of the run that it says, by name, for what arrays have to be."""
        return {}

    def contradiction(self, steps: Mapping[str, Any]) -> str | None:
        """What it and the other steps' records say that can't be true together, in a few words."""
        return None


STEPS: dict[str, type[StepRecord]] = {}
# Of this package; imported when they are asked for.
DECLARED = tuple(f"scalemani.steps.{name}" for name in ("records", "map_records", "pair_records"))


def known_steps() -> Mapping[str, type[StepRecord]]:
    """The records of steps by their names."""
    for module in DECLARED:
        importlib.import_module(module)
    return STEPS


Step = TypeVar("Step", bound=StepRecord)


class Document(Record, frozen=True, kw_only=True):
    """A run: its id, the packages that it is made by, checksums of its arrays' metadata, and its finished steps."""

    id: Hex
    versions: Annotated[dict[str, Plain], Meta(max_length=100)]
    arrays: Annotated[dict[ArrayName, Crc32c], Meta(max_length=MOST_ARRAYS)]
    stages: dict[str, Any]  # by name, each a StepRecord
    format_version: int = FORMAT_VERSION

    def changed(self, **parts: Any) -> "Document":
        """The same with other parts."""
        return msgspec.structs.replace(self, **parts)


class Line(Record, frozen=True, kw_only=True):
    """The ledger's line of a row of tiles or chunks: the run, the row, and the CRC32C of each file."""

    run: Hex
    row: Annotated[int, Meta(ge=0, lt=MOST_BLOCKS)]
    crc32c: Annotated[list[Crc32c], Meta(min_length=1, max_length=MOST_BLOCKS)]


class WriterRecord(Record, frozen=True, kw_only=True):
    """The heartbeat of the one process that writes."""

    writer: Hex
    host: Plain
    boot: Plain
    pid: Count
    started: NotNegative
    beat: Natural
    seconds: Annotated[float, Meta(gt=0, le=86400)]


# ---- the document ------------------------------------------------------------------------------------


class RunDocument:
    """The two files of a run's document; `held` where nobody else changes it: a bucket is not asked for it again."""

    def __init__(self, folder: Location) -> None:
        self.folder, self.held = folder, False
        self._content: bytes | None = None
        self._found: Document

    def read(self) -> Document:
        """The document as it is now."""
        if self.held and self._content is not None and self.folder.REMOTE:
            return self._found
        place = self.folder / ROOT
        content = read_plain(place, MOST_DOCUMENT_BYTES)
        if content != self._content:  # read often, and seldom another
            self._found = document_of(_attribute(parsed(content, str(place)), place), str(place))
            self._content = content
        return self._found

    def write(self, document: Document) -> None:
        """Put a document in place of the one that is there, which stays where the disk is full."""
        sealed, self._content = seal(document), None
        content = as_group(sealed)
        (self.folder / ROOT).put(content)
        self._content, self._found = content, document
        (self.folder / COPY).put(canonical(sealed))

    def begin(self, document: Document) -> bool:
        """Put the first document of a run; whether none was there, which stays."""
        sealed = seal(document)
        if not create_once(self.folder / ROOT, as_group(sealed)):
            return False
        (self.folder / COPY).put(canonical(sealed))
        return True

    def catch_up(self) -> None:
        """Put the copy again, if a run was stopped before it."""
        place, content = self.folder / COPY, canonical(seal(self.read()))
        if not place.exists() or read_plain(place, MOST_DOCUMENT_BYTES) != content:
            place.put(content)

    def copy(self) -> Document:
        """What the second file holds."""
        place = self.folder / COPY
        return document_of(read_json(place, MOST_DOCUMENT_BYTES), str(place))

    def whole(self) -> list[Document]:
        """Every document that is whole in one of the two files, in whichever form: that of this run first.

        Should another run's have come here, this run's is that of which more arrays are in place.
        """
        found = []
        for place in (self.folder / ROOT, self.folder / COPY):
            try:
                value = read_json(place, MOST_DOCUMENT_BYTES)
                if isinstance(value, dict) and "stages" not in value:
                    value = _attribute(value, place)
                found.append(document_of(value, str(place)))
            except DamagedStoreError:
                continue
        return sorted(found, key=self.strangers)

    def strangers(self, document: Document) -> int:
        """How many arrays a document names that are not in place."""
        count = 0
        for name, wanted in document.arrays.items():
            try:
                count += checksum(read_plain(self.folder / name / "zarr.json", MOST_METADATA_BYTES)) != wanted
            except DamagedStoreError:
                count += 1
        return count


def _attribute(group: Any, place: Location) -> Any:
    """The document in the attributes of the root group."""
    attributes = group.get("attributes") if isinstance(group, dict) else None
    if not isinstance(attributes, dict) or KEY not in attributes:
        raise DamagedStoreError(f"{str(place)!r} holds no run; {REMEDY}")
    return attributes[KEY]


def document_of(value: Any, where: str) -> Document:
    """The document that a JSON value is, checked.

    where: Names the file in errors.
    Raises DamagedStoreError: Naming the first key that is missing, of another type, or out of range; or a checksum
        that differs, or steps that contradict one another.
    Raises ScalemaniError: If another release wrote it, or it has a step that this one does not know.
    """
    version = value.get("format_version") if isinstance(value, dict) else None
    if type(version) is int and version != FORMAT_VERSION:
        raise ScalemaniError(
            f"{where}: the run has format version {version}; this release reads {FORMAT_VERSION}: use the release that "
            "wrote it, or fit again with overwrite"
        )
    with refused(where):
        found = msgspec.convert(value, Document)
        if "crc32c" not in value or seal(value) != value:
            raise DamagedStoreError(f"{where!r} is damaged (checksum differs); {REMEDY}")
    steps = {name: _step_of(name, said, where, found.stages) for name, said in found.stages.items()}
    for name, step in steps.items():
        lacks = [other for other in step.NEEDS if other not in steps]
        wrong = f"the step {name!r} lacks {lacks[0]!r}" if lacks else step.contradiction(steps)
        if wrong is not None:
            raise damaged(where, wrong)
    return found.changed(stages=steps)


def _step_of(name: str, value: Any, where: str, stages: Mapping[str, Any]) -> StepRecord:
    if name not in known_steps() and isinstance(method := stages.get("method"), dict):
        import_declared(str(method.get("name")))
    if (kind := known_steps().get(name)) is None:
        raise ScalemaniError(
            f"{where}: the run has a step {name[:60]!r} that this scalemani does not know: {_use(stages)}"
        )
    with refused(f"{where}: {name}"):
        return msgspec.convert(value, kind)


def _use(stages: Mapping[str, Any]) -> str:
    """What knows the steps of a run: the module that its method is defined in, if it is none of this package."""
    method = stages.get("method")
    module = method.get("module") if isinstance(method, dict) else None
    if not isinstance(module, str) or not _MODULE.fullmatch(module) or module.partition(".")[0] == "scalemani":
        return "a newer scalemani or another module wrote it; use that, or fit again with overwrite"
    return f"it is of a method that is not registered: import {module} first"


def read_back(record: Step) -> Step:
    """A record as it will be read; one that can't be, with NaN or half of a surrogate pair, is refused."""
    with refused(f"the step {record.STEP!r}"):
        return msgspec.json.decode(canonical(record), type=type(record))


def seal(document: Any) -> dict[str, Any]:
    """The document with the CRC32C of its text."""
    parts = msgspec.structs.asdict(document) if isinstance(document, Document) else document
    bare = {key: value for key, value in parts.items() if key != "crc32c"}
    return {**bare, "crc32c": checksum(canonical(bare))}


def as_group(document: dict[str, Any]) -> bytes:
    """The text of `zarr.json`."""
    return canonical({"attributes": {KEY: document}, "node_type": "group", "zarr_format": 3})


_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=lambda value: value.item())  # a number or text of NumPy's


def canonical(value: Any) -> bytes:
    """The one text of a JSON value."""
    return _ENCODER.encode(value)


@cache
def versions() -> dict[str, str]:
    """The packages that a run is made by, for its document."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("scalemani", "numpy", "scipy", "zarr", "dask", "numba", "pynndescent", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


# ---- an array's metadata -----------------------------------------------------------------------------


class Chunks(Record, frozen=True, kw_only=True):
    """The sides of a chunk."""

    chunk_shape: Annotated[list[Rows], Meta(min_length=1, max_length=4)]


class Grid(Record, frozen=True, kw_only=True):
    """How an array is cut."""

    configuration: Chunks


class ArrayMetadata(Record, frozen=True, kw_only=True):
    """What is read of an array's `zarr.json`, whose whole text its reader then holds against the one that it is."""

    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**40)]], Meta(min_length=1, max_length=4)]
    data_type: Annotated[str, Meta(pattern=r"^(bool|u?int(8|16|32|64)|float(16|32|64))\Z")]
    chunk_grid: Grid
    attributes: Annotated[dict[str, Crc32c | Plain], Meta(max_length=16)]

    @property
    def chunks(self) -> list[int]:
        """Sides of a chunk."""
        return self.chunk_grid.configuration.chunk_shape


def array_metadata(content: bytes, where: str, largest_bytes: int, *, tiles: bool = False) -> ArrayMetadata:
    """The metadata of one array of a run, of the text of its `zarr.json`.

    largest_bytes: What the array, and one chunk of it, may take in memory.
    tiles: Whether it is D, square, with square chunks; else the number of chunks is held against the bytes, so that no
        file of a kilobyte stands for a billion chunks.
    Raises DamagedStoreError: Another dtype, an array or chunk that is too large, or chunks that are too many.
    """
    found: ArrayMetadata = parsed(content, where, ArrayMetadata)
    shape, chunks, item = found.shape, found.chunks, np.dtype(found.data_type).itemsize
    whole, chunk = item * math.prod(shape), item * math.prod(chunks)
    if len(shape) != len(chunks):
        raise damaged(where, f"an array of {len(shape)} axes has chunks of {len(chunks)}")
    if whole > largest_bytes or chunk > max(largest_bytes, item):
        raise damaged(
            where, f"says {whole:,} bytes in chunks of {chunk:,}, where at most {largest_bytes:,} are expected"
        )
    if tiles and not (len(shape) == 2 and shape[0] == shape[1] and chunks[0] == chunks[1]):
        raise damaged(where, f"distances of shape {shape} in tiles of {chunks}: both must be square")
    count = math.prod(-(-side // length) for side, length in zip(shape, chunks, strict=True))
    most = MOST_BLOCKS**2 if tiles else 2 + 2 * whole // LEAST_CHUNK
    if count > most:
        raise damaged(where, f"{whole:,} bytes are cut into {count:,} chunks, where at most {most:,} are expected")
    return found
