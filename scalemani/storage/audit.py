"""What lies in a run's place against what the run says of it: takes a run, gives each file that is not as written.

Every byte is looked at: the document's text and its copy's, the text of each line of the ledger, each array with its
metadata, each tile, and the names of all files. What the files hold together is for the stages to say.

What lies in a chunked matrix's folder against its ledger: takes the matrix, gives each file that is not as written.

As :mod:`scalemani.storage.audit` does it for D: each byte of the metadata, of the ledger's lines and of the chunks, and
the names of all files.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from scalemani.aliases import F32
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.storage.arrays import is_own, is_partial
from scalemani.storage.chunked_matrix import ChunkedMatrix
from scalemani.storage.files import Location, below, in_order, open_location
from scalemani.storage.json import REMEDY, parsed, read_json, read_plain
from scalemani.storage.records import (
    COPY,
    MOST_DOCUMENT_BYTES,
    MOST_LINE_BYTES,
    MOST_METADATA_BYTES,
    ROOT,
    ArrayMetadata,
    Document,
    RunDocument,
    canonical,
)
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import line_text

TILES = ("distances", "ledger")  # the folders of D


class Fault(NamedTuple):
    """One thing that is wrong.

    kind ({"document", "copy", "behind", "array", "metadata", "row", "chunk", "matrix", "model", "stray", "leftover"}):
        "metadata" is that of D, "row" a row of tiles or its line, "chunk" and "matrix" a part of the distances to
        landmarks and their metadata, "model" what contradicts itself, "leftover" what a stopped run was making,
        "behind" a copy of the document that it had not put yet, "stray" a file that no run makes.
    name: The array's, the row's number, or the path below the folder.
    """

    kind: str
    name: str
    problem: str


def cause(error: Exception, folder: Location | str) -> str:
    """What an error says, without where the store is and what it says to do."""
    said = str(error).replace(f"; {REMEDY}", "").rsplit("; ", 1)[0]
    said = said.replace(f"{str(folder)!r}: ", "").replace(f"{folder}/", "")
    inner = re.fullmatch(r"(tile \(\d+, \d+\)|chunk \(\d+, \d+\)|).*? is damaged \((.*)\)", said)
    if inner:
        said = ": ".join(filter(None, inner.groups()))
    return re.sub(r"^'?[\w./]+\.json'?:? ", "", said) or type(error).__name__


def document_faults(folder: Location) -> list[Fault]:
    """Of the two files of the document; they need not be a run that can be opened."""
    document, faults = RunDocument(folder), []
    found: dict[str, Document] = {}
    for kind, name, read in (("document", ROOT, document.read), ("copy", COPY, document.copy)):
        try:
            found[kind] = read()
            text = read_plain(folder / name, MOST_DOCUMENT_BYTES)
            if canonical(parsed(text, name)) != text:
                raise DamagedStoreError("its text is not as it was written")
        except DamagedStoreError as error:
            faults.append(Fault(kind, name, cause(error, folder)))
    if len(found) == 2 and found["copy"].id != found["document"].id:
        if RunDocument(folder).whole()[0] == found["copy"]:
            return [Fault("document", ROOT, "it is another run's")]
        return [Fault("copy", COPY, "it is another run's")]
    if not faults and len(found) == 2 and found["copy"] != found["document"]:
        faults.append(Fault("behind", COPY, "it is a stage behind: a run was stopped between the two"))
    return faults


def name_faults(store: RunStore, finished: Callable[[str], bool], elsewhere: Collection[str] = ()) -> Iterator[Fault]:
    """Entries of the folder that are none of a run's, or what a stopped run left.

    finished: Name of an array -> whether it is of a stage that is finished: the document ought to have it.
    elsewhere: Folders that are the run's and are looked at elsewhere.
    """
    known = {ROOT, COPY, *elsewhere, *store.document.arrays}
    for entry in in_order(open_location(store.path).iterdir()):
        name = entry.name
        if name in known or (name in TILES and store.has_distances):
            continue
        if not is_own(name):
            yield _extra(name)
        elif name in TILES:
            yield Fault("leftover", name, "distances that are not of the run any more")
        elif is_partial(name) or not store.has_array(name):
            yield Fault("leftover", name, "a stopped run was making it") if entry.is_begun() else _extra(name)
        elif finished(name):
            yield Fault("array", name, "the run's document lacks it: it was being written")
        elif not _written_here(entry):
            yield _extra(name)
        elif "fit" in store.document.stages:  # else the same fit goes on from it
            yield Fault("leftover", name, "an array of a stage that was not finished")


def _written_here(entry: Location) -> bool:
    """Whether an array has the checksum that all of a run have; of one whose metadata can't be read nobody knows."""
    try:
        return "crc32c" in read_json(entry / "zarr.json", MOST_METADATA_BYTES)["attributes"]
    except (DamagedStoreError, KeyError, TypeError) as error:
        return isinstance(error, DamagedStoreError)


def array_faults(store: RunStore, elsewhere: Collection[str] = ()) -> Iterator[Fault]:
    """Arrays that are lost or not what was written, or have files too many; D and what is `elsewhere` apart."""
    document, folder = store.document, open_location(store.path)
    names = set(document.arrays)
    if "fit" not in document.stages:  # those of a step that is not finished, too
        names |= {entry.name for entry in folder.iterdir() if is_own(entry.name) and store.has_array(entry.name)}
    for name in sorted(names - {*TILES, *elsewhere}):
        try:
            store.read_array(name)
            metadata: ArrayMetadata = read_json(folder / name / "zarr.json", MOST_METADATA_BYTES, ArrayMetadata)
            counts = [-(-side // length) for side, length in zip(metadata.shape, metadata.chunks, strict=True)]
            wanted = {"zarr.json"}
            if math.prod(metadata.shape):
                wanted |= {"/".join(["c", *map(str, at)]) for at in product(*map(range, counts))}
            yield from _files(folder, name, wanted)
        except (ScalemaniError, DamagedStoreError, MemoryError) as error:
            yield Fault("array", name, cause(error, folder))


def _files(folder: Location, name: str, wanted: set[str]) -> Iterator[Fault]:
    there = {below(file, folder / name) for file in (folder / name).rglob("*") if not file.is_dir()}
    if wanted - there:
        yield Fault("array", name, f"{min(wanted - there)} is missing")
    for extra in sorted(there - wanted):
        yield _extra(f"{name}/{extra}")


def _extra(name: str) -> Fault:
    if is_partial(name):
        return Fault("leftover", name, "a stopped run was making it")
    return Fault("stray", name, "it is no part of a run")


def metadata_faults(store: RunStore) -> list[Fault]:
    """Of D's own metadata."""
    if not store.has_distances:
        return []
    try:
        store.check_size(store.blocks.n)
    except (ScalemaniError, DamagedStoreError) as error:
        return [Fault("metadata", "distances/zarr.json", cause(error, store.path))]
    return []


def ledger_faults(store: RunStore) -> Iterator[Fault]:
    """Files in the places of lines and tiles that are neither, and tiles that no line is of."""
    folder, count = open_location(store.path), len(store.blocks)
    if "geodesics" not in store.document.stages:
        for row in range(count):
            if (folder / "distances" / "c" / str(row)).is_dir() and not store.line_file(row).exists():
                yield Fault("leftover", f"distances/c/{row}", "tiles of a row that was not finished")
    lines = {f"{row}.json" for row in range(count)}
    for entry in in_order((folder / "ledger").glob("*")):
        if entry.name not in lines:
            yield _extra(f"ledger/{entry.name}")
    tiles = {f"c/{row}/{column}" for row, column in store.blocks.tiles()} | {"zarr.json"}
    for file in in_order((folder / "distances").rglob("*")):
        name = below(file, folder / "distances")
        if not file.is_dir() and name not in tiles:
            yield _extra(f"distances/{name}")


def row_faults(path: str, identity: str, row: int, finished: bool) -> list[Fault]:
    """One task: the line of a row of tiles, and each tile: checksum, finite, not negative, the diagonal's symmetric.

    finished: Whether D is said to be whole: a row without a line is a fault then.
    """
    store = RunStore(path)  # opened anew: what a process remembers of the ledger may be older than the damage
    store.identity = identity
    if not store.line_file(row).exists():
        return [Fault("row", str(row), "the ledger has no line of it")] if finished else []
    found = store.line(row)
    if found is None:
        return [Fault("row", str(row), "its line in the ledger is damaged, or another run's")]
    if read_plain(store.line_file(row), MOST_LINE_BYTES) != line_text(identity, row, found.crc32c):
        return [Fault("row", str(row), "its line in the ledger is not as it was written")]
    files = store.files
    buffer = files.new_buffer()
    for column, wanted in enumerate(found.crc32c, row):
        try:
            tile = files.read(row, column, buffer, wanted)
        except DamagedStoreError as error:
            return [Fault("row", str(row), cause(error, path))]
        least, largest = float(tile.min()), float(tile.max())  # NaN, if there is one
        if not (least >= 0 and np.isfinite(largest)):
            return [Fault("row", str(row), f"tile ({row}, {column}) has distances from {least} to {largest}")]
        if row == column and (np.diagonal(tile).any() or (tile != tile.T).any()):
            return [Fault("row", str(row), f"tile ({row}, {column}) is not symmetric with a diagonal of 0")]
    return []


CHUNK, METADATA = "chunk", "matrix"  # kinds of faults


def name_of(matrix: ChunkedMatrix, row: int) -> str:
    """What a fault calls a row of chunks; :func:`row_of` is its inverse."""
    return f"{matrix.name}/{row}"


def row_of(name: str) -> tuple[str, int]:
    """The matrix and the row that a fault names.

    >>> row_of("landmark_rows/12")
    ('landmark_rows', 12)
    """
    matrix, _, row = name.rpartition("/")
    return matrix, int(row)


def folder_faults(matrix: ChunkedMatrix) -> Iterator[Fault]:
    """Metadata that are not what was written, and entries that are no part of a matrix."""
    name = matrix.name
    try:
        matrix.check_metadata()
    except (DamagedStoreError, OSError) as error:
        yield Fault(METADATA, f"{name}/zarr.json", cause(error, matrix.path))
    rows, columns = range(len(matrix.rows)), range(len(matrix.columns))
    wanted = {"zarr.json", *(f"ledger/{row}.json" for row in rows)}
    wanted |= {f"c/{row}/{column}" for row in rows for column in columns}
    folder = open_location(matrix.path) / name
    for file in in_order(folder.rglob("*")):
        entry = below(file, folder)
        if not file.is_dir() and entry not in wanted:
            left = is_partial(entry)
            said = "a stopped run was making it" if left else "it is no part of a run"
            yield Fault("leftover" if left else "stray", f"{name}/{entry}", said)


def row_problem(matrix: ChunkedMatrix, row: int, *, finished: bool) -> str | None:
    """What is wrong with the ledger's line of a row of chunks; None of a whole one, or of one that is not made yet.

    finished: Whether the matrix is said to be whole: a row without a line is a fault then.
    """
    line = open_location(matrix.path) / matrix.name / "ledger" / f"{row}.json"
    if not line.exists():
        return "the ledger has no line of it" if finished else None
    try:
        sums = matrix.sums(row)
    except DamagedStoreError:
        return "its line in the ledger is damaged, or another run's"
    if read_plain(line, MOST_LINE_BYTES) != line_text(matrix.identity, row, sums):
        return "its line in the ledger is not as it was written"
    return None


def checked_chunk(matrix: ChunkedMatrix, row: int, column: int, buffer: F32 | None = None) -> F32:
    """A chunk whose numbers are distances.

    Raises DamagedStoreError: With what is wrong and no more.
    """
    try:
        found = matrix.read(row, column, buffer)
    except DamagedStoreError as error:
        raise DamagedStoreError(cause(error, matrix.path)) from error
    least, largest = float(found.min()), float(found.max())  # NaN, if there is one
    if not (least >= 0 and np.isfinite(largest)):
        raise DamagedStoreError(f"chunk ({row}, {column}) has distances from {least} to {largest}")
    return found
