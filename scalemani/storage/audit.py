"""What lies in a run's folder against what the run says of it; each file that is not as written is a fault.

Every byte is looked at: the document's text and its copy's, each array with its metadata, each tile, the text of each
line of the ledgers, and the names of all files. What the files say together is for the steps to check.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import numpy as np

from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.storage import records
from scalemani.storage.arrays import chunk_names, is_own, is_partial, is_pieces
from scalemani.storage.files import Location, below, in_order, open_location
from scalemani.storage.json import REMEDY, parsed, read_json, read_plain
from scalemani.storage.pieces import SUFFIX, is_whole
from scalemani.storage.records import COPY, ROOT, ArrayMetadata, Document, RunDocument, canonical
from scalemani.storage.run import DISTANCES, RunStore, opened_anew
from scalemani.storage.tiles import LEDGER, Tiles, Use

TILES = (DISTANCES, LEDGER)  # the folders of D


class Fault(NamedTuple):
    """One thing that is wrong.

    kind ({"document", "copy", "behind", "array", "metadata", "row", "chunk", "matrix", "model", "stray", "leftover"}):
        "metadata" is that of D, "row" a row of tiles or its line, "chunk" and "matrix" a part of another
        matrix of distances and its metadata, "model" what contradicts itself, "leftover" what a stopped run was making,
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
    inner = re.fullmatch(r"(tile \(\d+, \d+\)|).*? is damaged \((.*)\)", said)
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
            text = read_plain(folder / name, records.MOST_DOCUMENT_BYTES)
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
    known, fitted = {ROOT, COPY, *elsewhere, *store.document.arrays}, "fit" in store.document.stages
    for entry in in_order(open_location(store.path).iterdir()):
        name = entry.name
        if name in known or (name in TILES and store.has_distances):
            continue
        if not is_own(name):
            yield _extra(name)
        elif is_pieces(name):
            yield from _piece_faults(entry, fitted)
        elif name in TILES:
            yield Fault("leftover", name, "distances that are not of the run any more")
        elif is_partial(name) or not store.has_array(name):
            yield Fault("leftover", name, "a stopped run was making it") if entry.is_begun() else _extra(name)
        elif finished(name):
            yield Fault("array", name, "the run's document lacks it: it was being written")
        elif not _written_here(entry):
            yield _extra(name)
        elif fitted:  # else the same fit goes on from it
            yield Fault("leftover", name, "an array of a stage that was not finished")


def _piece_faults(folder: Location, finished: bool) -> Iterator[Fault]:
    """Of the pieces of a stage: a fit that is finished needs none of them, and the same fit goes on from others."""
    if finished:
        yield Fault("leftover", folder.name, "pieces of a stage that is finished")
        return
    for file in in_order(folder.rglob("*")):
        name = f"{folder.name}/{below(file, folder)}"
        if is_partial(name) or not name.endswith(SUFFIX):
            yield _extra(name)
        elif not is_whole(file):
            yield Fault("array", name, "it is damaged")


def _written_here(entry: Location) -> bool:
    """Whether an array has the checksum that all of a run have; of one whose metadata can't be read nobody knows."""
    try:
        return "crc32c" in read_json(entry / "zarr.json", records.MOST_METADATA_BYTES)["attributes"]
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
            metadata: ArrayMetadata = read_json(folder / name / "zarr.json", records.MOST_METADATA_BYTES, ArrayMetadata)
            wanted = {"zarr.json", *chunk_names(metadata.shape, metadata.chunks[0])}
            there = {below(file, folder / name) for file in (folder / name).rglob("*") if not file.is_dir()}
            if wanted - there:
                yield Fault("array", name, f"{min(wanted - there)} is missing")
            yield from (_extra(f"{name}/{extra}") for extra in sorted(there - wanted))
        except (ScalemaniError, DamagedStoreError, MemoryError) as error:
            yield Fault("array", name, cause(error, folder))


def _extra(name: str) -> Fault:
    if is_partial(name):
        return Fault("leftover", name, "a stopped run was making it")
    return Fault("stray", name, "it is no part of a run")


def size_faults(store: RunStore) -> list[Fault]:
    """D that can't be opened: its metadata are not what was written, or of another number of vertices."""
    try:
        if store.has_distances:
            store.tiles  # noqa: B018
    except (ScalemaniError, DamagedStoreError) as error:
        return [Fault("metadata", f"{DISTANCES}/zarr.json", cause(error, store.path))]
    return []


def folder_faults(tiles: Tiles, finished: bool) -> Iterator[Fault]:
    """Of a matrix but for its rows: its metadata, entries that are no part of it, tiles that no line is of.

    finished: Whether the matrix is said to be whole.
    """
    rows = range(len(tiles.rows))
    if not tiles.symmetric:  # D was opened by its metadata
        try:
            tiles.check_metadata()
        except (DamagedStoreError, OSError) as error:
            yield Fault("matrix", f"{tiles.name}/zarr.json", cause(error, tiles.path))
    elif not finished:
        for row in rows:
            if (tiles.folder / "c" / str(row)).is_dir() and not tiles.line_file(row).exists():
                yield Fault("leftover", f"{tiles.name}/c/{row}", "tiles of a row that was not finished")
    wanted = {tiles.folder / "zarr.json", *map(tiles.line_file, rows)}
    wanted |= {tiles.file(row, column) for row in rows for column in tiles.columns_of(row)}
    files = {*tiles.folder.rglob("*"), *tiles.ledger.rglob("*")}
    for file in in_order(files - wanted):
        if not file.is_dir():
            yield _extra(below(file, open_location(tiles.path)))


def fault_of_row(tiles: Tiles, row: int, problem: str) -> Fault:
    """A fault of a row of tiles; :func:`row_of` tells the matrix and the row."""
    return Fault("row", str(row), problem) if tiles.symmetric else Fault("chunk", f"{tiles.name}/{row}", problem)


def row_of(name: str) -> tuple[str, int]:
    """The matrix and the row that a fault names.

    >>> row_of("landmark_rows/12")
    ('landmark_rows', 12)
    """
    matrix, _, row = name.rpartition("/")
    return matrix or DISTANCES, int(row)


def row_problem(tiles: Tiles, row: int, *, finished: bool, use: Use | None = None) -> str | None:
    """What is wrong with a row of tiles: its line, each tile's checksum, and numbers that are no distances.

    finished: Whether the matrix is said to be whole: a row without a line is a fault then.
    use: Called with each tile that is whole; its memory is the next one's.
    """
    if not tiles.line_file(row).exists():
        return "the ledger has no line of it" if finished else None
    line = tiles.line(row)
    if line is None:
        return "its line in the ledger is damaged, or another run's"
    text = canonical(line)
    if read_plain(tiles.line_file(row), records.MOST_LINE_BYTES) != text:
        return "its line in the ledger is not as it was written"
    buffer = tiles.new_buffer()
    for column in tiles.columns_of(row):
        try:
            tile = tiles.read_as(line, row, column, buffer)
        except DamagedStoreError as error:
            return cause(error, tiles.path)
        least, largest = float(tile.min()), float(tile.max())  # NaN, if there is one
        if not (least >= 0 and np.isfinite(largest)):
            return f"tile ({row}, {column}) has distances from {least} to {largest}"
        if tiles.symmetric and row == column and (np.diagonal(tile).any() or (tile != tile.T).any()):
            return f"tile ({row}, {column}) is not symmetric with a diagonal of 0"
        if use is not None:
            use(row, column, tile)
    return None


def row_faults(path: str, identity: str, row: int, finished: bool) -> list[Fault]:
    """One task: of a row of D's tiles."""
    tiles = opened_anew(path, identity).tiles
    problem = row_problem(tiles, row, finished=finished)
    return [] if problem is None else [fault_of_row(tiles, row, problem)]
