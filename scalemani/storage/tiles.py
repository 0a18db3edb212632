"""Distances on the disk: matrices of float32 in tiles, and a ledger that says which rows of tiles are whole.

Two kinds of matrices are kept so: D, which is symmetric, by its tiles (I, J) with I <= J; and the distances to
landmarks, by all of their tiles. A tile is a chunk of a Zarr array, which any Zarr reader reads, and a file or object
of its own: float32 in C order, inf where there is no path, NaN where the last blocks have nothing, uncompressed unless
asked otherwise (Zarr's default codec is 4 times slower and saves 19 %). It is read here into memory of the caller's,
which is faster than Zarr's own way by more than a checksum of the file takes.

A row of tiles is done when its line, `<row>.json` in the ledger, is there and is this run's: it is put after the tiles
are in place, with the CRC32C of each tile's file. Files alone prove nothing: every read of a tile compares its bytes
with that, and a tile that was cut, lost, flipped or exchanged is a :class:`DamagedStoreError` and never a number.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numcodecs
import numpy as np

from scalemani.aliases import F32, I64
from scalemani.errors import DamagedStoreError, StoreUnreachableError
from scalemani.storage.arrays import zarr_text
from scalemani.storage.files import Location, checksum, create_once, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import REMEDY, check_inside, read_json, read_plain
from scalemani.storage.records import MOST_LINE_BYTES, MOST_METADATA_BYTES, Line, array_metadata, canonical

LEDGER = "ledger"  # a folder: beside D, and inside any other matrix
MOST_RUNS = 32  # enough for a handful of workers to finish together, few enough to add up (n, w) each
RUN_ENTRIES = 1 << 22  # entries of D that are worth a task of their own


@dataclass(frozen=True)
class Blocks:
    """`n` items in aligned blocks of `size`, 1 or more."""

    n: int
    size: int

    def __post_init__(self) -> None:
        if self.n < 0 or self.size < 1:
            raise ValueError(f"blocks of {self.size} items over {self.n} items: the size must be 1 or more")

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def __getitem__(self, block: int) -> slice:
        if not 0 <= block < len(self):
            raise IndexError(f"block {block} of {len(self)}")
        start = block * self.size
        return slice(start, min(start + self.size, self.n))

    def __iter__(self) -> Iterator[slice]:
        return (self[block] for block in range(len(self)))

    def length(self, block: int) -> int:
        """Items in one block."""
        return int(self[block].stop - self[block].start)

    def tiles(self) -> list[tuple[int, int]]:
        """Every upper tile (I, J), I <= J, row by row."""
        count = len(self)
        return [(row, column) for row in range(count) for column in range(row, count)]

    @property
    def read_runs(self) -> int:
        """Runs of tiles, a task each, that one read of all tiles is cut into."""
        tiles = len(self) * (len(self) + 1) // 2
        return max(1, min(MOST_RUNS, max(2, self.n**2 // 2 // RUN_ENTRIES), tiles))

    def tile_runs(self, most: int) -> list[list[tuple[int, int]]]:
        """The upper tiles in at most `most` consecutive runs of nearly equal number.

        They depend on `n`, `size` and `most` alone, so that a sum over runs in this order has the same bits anywhere.
        """
        tiles = self.tiles()
        count = max(1, min(most, len(tiles)))
        cuts = [len(tiles) * part // count for part in range(count + 1)]
        return [tiles[a:b] for a, b in pairwise(cuts) if b > a]


COMPRESSIONS = {"lz4": 5, "zstd": 3}  # each with Blosc's level: the next ones are slower than the paths and save 2 %
MOST_BYTES = 1 << 56  # of a matrix: any disk's
MOST_TILE = 1 << 32  # bytes of a tile
Use = Callable[[int, int, F32], None]
"""use(row, column, tile)"""


@dataclass(frozen=True)
class Form:
    """What the `zarr.json` of a matrix says.

    attributes: Of the Zarr array: what it is, for who reads it with Zarr.
    compression ({"lz4", "zstd"}): Blosc's compressor, behind its bit shuffle, which suits numbers of nearby sizes.
        None: plain float32.
    """

    shape: tuple[int, int]
    tile: tuple[int, int]
    attributes: dict[str, str]
    compression: str | None = None

    @classmethod
    def of_distances(cls, n: int, tile: int, compression: str | None = None) -> "Form":
        """D of n vertices."""
        return cls((n, n), (tile, tile), {"tiles": "upper; D is symmetric", "unit": "edge length / scale"}, compression)

    @property
    def text(self) -> bytes:
        """The text of zarr.json."""
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        if (name := self.compression) is not None:
            blosc = {"typesize": 4, "cname": name, "clevel": COMPRESSIONS[name], "shuffle": "bitshuffle"}
            codecs.append({"name": "blosc", "configuration": {**blosc, "blocksize": 0}})
        return zarr_text(self.shape, "float32", self.tile, "NaN", codecs, self.attributes)


def read_form(folder: Location, wanted: int | None) -> tuple[Form, int]:
    """The form of D's matrix at a folder, and the CRC32C of its `zarr.json`, which has to be `wanted` if that is known.

    Raises DamagedStoreError: If it is not, or not that of square float32 tiles.
    """
    file = folder / "zarr.json"
    content = read_plain(file, MOST_METADATA_BYTES)
    if wanted not in (None, checksum(content)):
        raise DamagedStoreError(f"{str(file)!r} is not what was written; {REMEDY}")
    found = array_metadata(content, str(file), MOST_BYTES, tiles=True)
    forms = [Form.of_distances(found.shape[0], found.chunks[0], way) for way in (None, *COMPRESSIONS)]
    same = [form for form in forms if form.text == content]
    if not same or 4 * found.chunks[0] ** 2 > MOST_TILE:
        raise DamagedStoreError(f"{str(file)!r} is not that of float32 tiles; {REMEDY}")
    return same[0], checksum(content)


def drop_matrix(folder: Location, ledger: Location) -> None:
    """Remove a matrix and its ledger; a stop in between leaves no half of it in place."""
    folder.remove_at_once()
    ledger.remove()


class Tiles:
    """One matrix of a run.

    path, identity: The run's folder and its id: lines of the ledger that another run left are none of this one's.
    name: Of the matrix' folder in it.
    symmetric: Whether it is D, of which only the tiles (I, J) with I <= J are kept.
    check: Called before the ledger is changed: it raises where another run is at the path by now.
    """

    def __init__(
        self,
        path: str,
        identity: str,
        name: str,
        form: Form,
        *,
        symmetric: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self.identity, self.name, self.form, self.symmetric = path, identity, name, form, symmetric
        self.shape, self.tile = form.shape, form.tile
        self.rows, self.columns = (Blocks(n, size) for n, size in zip(form.shape, form.tile, strict=True))
        self.folder = open_location(path).normal() / name
        self._ledger = LEDGER if symmetric else f"{name}/{LEDGER}"
        self._title = "D" if symmetric else repr(name)
        self._check = check
        self._lines: dict[int, Line] = {}
        self._codec: Any = None
        if (codec := form.compression) is not None:
            self._codec = numcodecs.Blosc(codec, COMPRESSIONS[codec], numcodecs.Blosc.BITSHUFFLE)

    @property
    def exists(self) -> bool:
        """Whether its folder is there, finished or not."""
        return (self.folder / "zarr.json").exists()

    def create(self) -> None:
        """Make it, empty; one that is there with the same form stays, with what is in it."""
        try:
            self.check_metadata()
        except (DamagedStoreError, OSError):
            self.drop()  # in a bucket also what is left of one that was being dropped
            self.write_metadata()

    def write_metadata(self) -> None:
        """Write its `zarr.json`, and nothing else: it follows from the form."""
        with room_for(self.folder, MOST_METADATA_BYTES):
            self.folder.make_folder()
            self.ledger.make_folder()
        (self.folder / "zarr.json").put(self.form.text)

    def check_metadata(self) -> None:
        """Refuse a `zarr.json` that is not what was written."""
        file = self.folder / "zarr.json"
        if read_plain(file, MOST_METADATA_BYTES) != self.form.text:
            raise DamagedStoreError(f"{str(file)!r} is not what was written; {REMEDY}")

    def drop(self) -> None:
        """Remove it and its ledger."""
        self._lines = {}
        drop_matrix(self.folder, self.ledger)

    # ---- tiles -----------------------------------------------------------------------------------

    def columns_of(self, row: int) -> range:
        """The tiles of a row that are kept, by their column."""
        return range(row if self.symmetric else 0, len(self.columns))

    def new_buffer(self) -> F32:
        """Memory for one tile's file."""
        return np.empty(self.tile, np.float32)

    def file(self, row: int, column: int) -> Location:
        """Where a tile is."""
        return self.folder / "c" / str(row) / str(column)

    def _part(self, row: int, column: int, buffer: F32) -> F32:
        """The part of a buffer that is the tile."""
        return buffer[: self.rows.length(row), : self.columns.length(column)]

    def write(self, row: int, values: F32, use: Use | None = None) -> None:
        """Write a row of tiles, then its line in the ledger.

        values (rows of the block, columns): Where the matrix is symmetric, from the diagonal on. The diagonal tile's
            upper half is copied down: the sums of a path taken from its two ends can differ in the last bit, and D must
            be symmetric.
        use: Called with each tile as it was written; its memory is the next one's.
        Raises DamagedStoreError: If another run is at the path by now.
        """
        first = self.columns[row].start if self.symmetric else 0
        sums, buffer = [], self.new_buffer()
        for column in self.columns_of(row):
            there = self.columns[column]
            tile = self._part(row, column, buffer)
            tile[...] = values[:, there.start - first : there.stop - first]
            if self.symmetric and row == column:
                for i in range(1, len(tile)):  # by rows: a mask of the half would be larger than the tile
                    tile[i, :i] = tile[:i, i]
            sums.append(self._put(row, column, buffer))
            if use is not None:
                use(row, column, np.ascontiguousarray(tile))
        self._confirm(row, sums)

    def _put(self, row: int, column: int, buffer: F32) -> int:
        """Write a tile that is in a buffer; the CRC32C of its file."""
        rows, columns = self._part(row, column, buffer).shape
        buffer[rows:], buffer[:, columns:] = np.nan, np.nan
        content = buffer if self._codec is None else self._codec.encode(buffer)
        file = check_inside(self.path, f"{self.name}/c/{row}/{column}")
        with room_for(file, buffer.nbytes):
            file.parent.make_folder()
        file.put(content)
        return checksum(buffer) if self._codec is None else checksum(content)

    def read(self, row: int, column: int, buffer: F32 | None = None) -> F32:
        """One tile, checked; contiguous.

        buffer: From :meth:`new_buffer`: the tile is read into it, and is gone with the next one.
        Raises DamagedStoreError: If the ledger lacks it, or its file is not the one that the ledger knows.
        """
        buffer, line = self.new_buffer() if buffer is None else buffer, self._recorded(row)
        try:
            return self.read_as(line, row, column, buffer)
        except DamagedStoreError:
            self._lines.pop(row, None)
            if self._recorded(row) == line:
                raise
        return self.read(row, column, buffer)  # the row was made again since

    def read_as(self, line: Line, row: int, column: int, buffer: F32) -> F32:
        """One tile, into a buffer, as a line of the ledger has it; else a DamagedStoreError that names it."""
        file = check_inside(self.path, f"{self.name}/c/{row}/{column}")
        wanted = line.crc32c[column - self.columns_of(row).start]
        try:
            content: Any = self._content(file, buffer)
            if checksum(content) != wanted:
                raise ValueError("checksum differs")
            if self._codec is not None:
                if int.from_bytes(content[4:8], "little") != buffer.nbytes:  # Blosc would write as much as that says
                    raise ValueError("its compressed size is wrong")
                self._codec.decode(content, buffer)
            elif len(content) != buffer.nbytes:
                raise ValueError(f"{len(content)} bytes of {buffer.nbytes}")
            tile = np.ascontiguousarray(self._part(row, column, buffer))
        except StoreUnreachableError:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # Blosc's are RuntimeErrors
            missing = isinstance(error, FileNotFoundError)
            why = "its file is missing" if missing else getattr(error, "strerror", None) or error
            raise DamagedStoreError(
                f"{self.path!r}: tile ({row}, {column}) of {self._title} is damaged ({why}); {REMEDY}"
            ) from error
        return tile

    def _content(self, file: Location, buffer: F32) -> Any:
        """What a file holds: in the buffer where tiles are plain; no more is read than a tile may have."""
        if self._codec is None:
            done = file.read_into(buffer.data)
            return memoryview(buffer.data).cast("B")[:done]
        return file.read(buffer.nbytes + 4096)  # Blosc adds 16 bytes at most

    def read_rows(self, indices: I64) -> F32:
        """Some rows, (l, columns), gathered from the tiles; every tile is checked."""
        found = np.empty((len(indices), self.shape[1]), np.float32)
        block_of, buffer = indices // self.rows.size, self.new_buffer()
        for block in np.unique(block_of).tolist():
            wanted = np.flatnonzero(block_of == block)
            inside = indices[wanted] - self.rows[block].start
            for column, there in enumerate(self.columns):
                if self.symmetric and column < block:
                    found[wanted, there] = self.read(column, block, buffer)[:, inside].T
                else:
                    found[wanted, there] = self.read(block, column, buffer)[inside]
        return found

    # ---- the ledger ------------------------------------------------------------------------------

    @property
    def ledger(self) -> Location:
        """The folder of its lines."""
        return open_location(self.path).normal() / self._ledger

    def line_file(self, row: int) -> Location:
        """Where the line of a row of tiles is."""
        return self.ledger / f"{row}.json"

    def _confirm(self, row: int, sums: list[int]) -> None:
        """Put a row's line; the same one that is there stays, a damaged one or another run's is replaced."""
        self._check()
        self._lines.pop(row, None)
        line = Line(run=self.identity, row=row, crc32c=sums)
        file = check_inside(self.path, f"{self._ledger}/{row}.json")
        self.ledger.make_folder()
        if not create_once(file, canonical(line)) and self.line(row) != line:
            file.put(canonical(line))

    def unfinish(self, row: int) -> None:
        """Take a row's line out of the ledger: its tiles will be made again."""
        self._check()
        self._lines.pop(row, None)
        self.line_file(row).unlink(missing_ok=True)

    def line(self, row: int) -> Line | None:
        """The line of a row; None where there is no whole one of this run."""
        try:
            line: Line = read_json(self.line_file(row), MOST_LINE_BYTES, Line)
        except (DamagedStoreError, OSError):
            return None
        mine = line.run == self.identity and line.row == row
        return line if mine and len(line.crc32c) == len(self.columns_of(row)) else None

    def done(self, row: int) -> bool:
        """Whether the ledger says that this row of tiles is in place."""
        return self.line(row) is not None

    def missing(self) -> list[int]:
        """Rows of tiles that the ledger does not have."""
        there = self._listed()
        return [row for row in range(len(self.rows)) if f"{row}.json" not in there or not self.done(row)]

    def _listed(self) -> set[str]:
        """Names in the ledger: a host that asked for a line before there was one may be told so for a while after."""
        try:
            return self.ledger.names()
        except OSError:
            return set()

    def _recorded(self, row: int) -> Line:
        """The line of a row, read once."""
        if row not in self._lines:
            found = self.line(row)
            if found is None and f"{row}.json" in self._listed():
                found = self.line(row)
            if found is None:
                raise DamagedStoreError(
                    f"{self.path!r}: the ledger of tile row {row} of {self._title} is missing or damaged; {REMEDY}"
                )
            self._lines[row] = found
        return self._lines[row]


def tile_bytes(tile: int, compressed: bool = False) -> int:
    """A tile in memory, on its way to or from the disk: its file, the part of one at the end, compressed bytes."""
    return (12 if compressed else 8) * tile * tile


def disk_bytes(n: int, tile: int, compressed: bool = False) -> int:
    """D on the disk: upper tiles only, the last of a row padded to full size; compressed a guess, a quarter less."""
    blocks = -(-n // tile)
    plain = blocks * (blocks + 1) // 2 * tile * tile * 4
    return plain * 3 // 4 if compressed else plain
