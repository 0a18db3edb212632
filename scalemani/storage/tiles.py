"""D in its store: upper tiles of float32, and the ledger that says which of them are whole.

D is symmetric, so tile (I, J) is kept for I <= J only; inf where there is no path, uncompressed unless asked otherwise
(Zarr's default codec is 4 times slower and saves 19 %). A tile is a file (:mod:`scalemani.storage.tiles`).

A row of tiles is done when its line, `ledger/<row>.json`, is there and is this run's: it is put after the tiles are in
place, with the CRC32C of each tile's file. Files alone prove nothing, and every read of a tile compares: what was cut,
lost, flipped or exchanged is a :class:`DamagedStoreError` and never a number.

The only block arithmetic: aligned ranges, and the promise that they cover everything once.

Vertices 0..n-1 are cut into blocks of `size` (the last may be shorter). D is symmetric, so only
the tiles (I, J) with I <= J are kept; every pair of vertices lies in exactly one of them.

One tile, one file or object: takes a folder in the layout of a Zarr array, gives tiles written and read, checked.

A tile is a chunk of the array: float32 in C order, NaN where the last blocks have nothing, plain or compressed
by Blosc. Any Zarr reader reads it. Here it is read into memory of the caller's, which is faster than Zarr's own way by
more than the checksum of the file takes; which CRC32C it must have is for the ledger (:mod:`scalemani.storage.tiles`)
to say.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numcodecs
import numpy as np

from scalemani.aliases import F32, I64
from scalemani.errors import DamagedStoreError, StoreUnreachableError
from scalemani.storage.arrays import own_entries
from scalemani.storage.files import Location, checksum, checksum_of, create_once, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import REMEDY, check_inside, read_json, read_plain
from scalemani.storage.records import MOST_LINE_BYTES, MOST_METADATA_BYTES, Line, array_metadata, canonical

MOST_RUNS = 32  # enough for a handful of workers to finish together, few enough to add up (n, w) each
RUN_ENTRIES = 1 << 22  # entries of D that are worth a task of their own


@dataclass(frozen=True)
class Blocks:
    """`n` items in aligned blocks of `size`.

    Raises ValueError: If `n` is negative or `size` is below 1.
    """

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
        part = self[block]
        return int(part.stop - part.start)

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

        The runs depend on `n`, `size` and `most` alone, never on workers, so that a sum over runs in
        this order has the same bits wherever it is computed.
        """
        tiles = self.tiles()
        count = max(1, min(most, len(tiles)))
        cuts = [len(tiles) * part // count for part in range(count + 1)]
        return [tiles[a:b] for a, b in pairwise(cuts) if b > a]


COMPRESSIONS = {"lz4": 5, "zstd": 3}  # each with Blosc's level: the next ones are slower than the paths and save 2 %
MOST_BYTES = 1 << 56  # of D: any disk's
MOST_TILE = 1 << 32  # bytes of a tile


def metadata_text(n: int, tile: int, compression: str | None) -> bytes:
    """The text of the array's zarr.json: float32 (n, n) in chunks of a tile."""
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if compression is not None:
        blosc = {"typesize": 4, "cname": compression, "clevel": COMPRESSIONS[compression], "shuffle": "bitshuffle"}
        codecs.append({"name": "blosc", "configuration": {**blosc, "blocksize": 0}})
    said = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [n, n],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [tile, tile]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN",
        "codecs": codecs,
        "attributes": {"tiles": "upper; D is symmetric", "unit": "edge length / scale"},
        "storage_transformers": [],
    }
    return json.dumps(said, indent=2).encode()


class TileFiles:
    """The folder of an array of tiles that is there.

    metadata_sum: CRC32C of its metadata's text, where that is known.
    Raises DamagedStoreError: If its metadata is not what was written, or not that of square float32 tiles.
    """

    def __init__(self, folder: Location, metadata_sum: int | None = None) -> None:
        self.folder = folder
        place = folder / "zarr.json"
        content = read_plain(place, MOST_METADATA_BYTES)
        self.metadata_sum = checksum_of(content)
        if metadata_sum not in (None, self.metadata_sum):
            raise DamagedStoreError(f"{str(place)!r} is not what was written; {REMEDY}")
        found = array_metadata(content, str(place), MOST_BYTES, tiles=True)
        n, tile = found.shape[0], found.chunks[0]
        ways = [way for way in (None, *COMPRESSIONS) if content == metadata_text(n, tile, way)]
        if not ways or 4 * tile**2 > MOST_TILE:
            raise DamagedStoreError(f"{str(place)!r} is not that of float32 tiles; {REMEDY}")
        self.blocks = Blocks(n, tile)
        self._codec: Any = None
        if ways[0] is not None:
            self._codec = numcodecs.Blosc(ways[0], COMPRESSIONS[ways[0]], numcodecs.Blosc.BITSHUFFLE)

    @classmethod
    def create(cls, folder: Location, n: int, tile: int, compression: str | None) -> "TileFiles":
        """Make the empty array (n, n) of tiles of side `tile`."""
        with room_for(folder, MOST_METADATA_BYTES):
            folder.make_folder()
        (folder / "zarr.json").put(metadata_text(n, tile, compression))
        return cls(folder)

    def new_buffer(self) -> F32:
        """Memory for one tile's file."""
        return np.empty((self.blocks.size, self.blocks.size), np.float32)

    def file(self, row: int, column: int) -> Location:
        """Where a tile is."""
        return self.folder / "c" / str(row) / str(column)

    def _inside(self, row: int, column: int) -> Location:
        """Where a tile is, unless a link leads there."""
        return check_inside(self.folder.parent, f"{self.folder.name}/c/{row}/{column}")

    def inside(self, row: int, column: int, buffer: F32) -> F32:
        """The part of a buffer that is the tile."""
        return buffer[: self.blocks.length(row), : self.blocks.length(column)]

    def write(self, row: int, column: int, buffer: F32) -> int:
        """Write a tile that is in a buffer; the CRC32C of its file."""
        rows, columns = self.inside(row, column, buffer).shape
        buffer[rows:], buffer[:, columns:] = np.nan, np.nan
        content = buffer if self._codec is None else self._codec.encode(buffer)
        place = self._inside(row, column)
        with room_for(place, buffer.nbytes):
            place.parent.make_folder()
        place.put(content)
        return checksum(buffer) if self._codec is None else checksum_of(content)

    def read(self, row: int, column: int, buffer: F32, wanted: int) -> F32:
        """Read a tile into a buffer; its part that is the tile, contiguous (a copy where the tile is an end's).

        wanted: CRC32C of the file.
        Raises DamagedStoreError: Naming the tile.
        """
        place = self._inside(row, column)
        try:
            content: Any = self._bytes(place, buffer)
            if checksum_of(content) != wanted:
                raise ValueError("checksum differs")
            if self._codec is not None:
                if int.from_bytes(content[4:8], "little") != buffer.nbytes:  # Blosc would write as much as that says
                    raise ValueError("its compressed size is wrong")
                self._codec.decode(content, buffer)
            elif len(content) != buffer.nbytes:
                raise ValueError(f"{len(content)} bytes of {buffer.nbytes}")
            tile = np.ascontiguousarray(self.inside(row, column, buffer))
        except StoreUnreachableError:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # Blosc's are RuntimeErrors
            why = str(getattr(error, "strerror", None) or error)
            why = "its file is missing" if isinstance(error, FileNotFoundError) else why
            raise DamagedStoreError(
                f"{str(self.folder.parent)!r}: tile ({row}, {column}) of D is damaged ({why}); {REMEDY}"
            ) from error
        return tile

    def _bytes(self, path: Location, buffer: F32) -> Any:
        """What a file holds: in the buffer where tiles are plain; no more is read than a tile may have."""
        if self._codec is None:
            done = path.read_into(buffer.data)
            return memoryview(buffer.data).cast("B")[:done]
        return path.read(buffer.nbytes + 4096)  # Blosc adds 16 bytes at most


WITH_DISTANCES = ("first_", "solver_")  # how the names begin of what was read of D, which goes with it
Use = Callable[[int, int, F32], None]


def line_text(run: str, row: int, sums: list[int]) -> bytes:
    """The one text of a line."""
    return canonical(Line(run=run, row=row, crc32c=sums))


class Tiles(ABC):
    """The distances of a run's folder; what the run says of them is for :class:`scalemani.storage.run.RunStore` to
    answer.

    path: The folder, absolute.
    identity: The run's id: lines of the ledger that another run left are none of this one's.
    """

    def __init__(self, path: str, identity: str) -> None:
        self.path, self.identity = path, identity
        self._opened: TileFiles | None = None
        self._lines: dict[int, Line] = {}

    def has_array(self, name: str) -> bool:
        """Whether an array of that name is there."""
        return (open_location(self.path) / name / "zarr.json").exists()

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        """Make the empty array of distance tiles and an empty ledger.

        compression ({"lz4", "zstd"}): Blosc's compressor, behind its bit shuffle, which suits numbers of nearby sizes.
            None: plain float32.
        """
        self.drop_distances()
        with room_for(self.path, 1):
            self._ledger.mkdir()
        self._opened = TileFiles.create(open_location(self.path) / "distances", n, tile, compression)

    def drop_distances(self) -> None:
        """Remove D, its ledger and what was read of it."""
        self._opened, self._lines = None, {}
        (open_location(self.path) / "distances").remove_at_once()
        self._ledger.remove()
        self._remove_own(*WITH_DISTANCES)

    def _remove_own(self, *beginnings: str) -> None:
        """Remove what is the run's own, and none else's, of the entries whose names begin so."""
        for found in [entry for beginning in beginnings for entry in own_entries(open_location(self.path), beginning)]:
            found.remove()

    @staticmethod
    def _goes_with_distances(name: str) -> bool:
        return name == "distances" or name.startswith(WITH_DISTANCES)

    @property
    def has_distances(self) -> bool:
        """Whether D is there (finished or not)."""
        return self.has_array("distances")

    @property
    def files(self) -> TileFiles:
        """The files of the tiles."""
        if self._opened is None:
            opened = TileFiles(open_location(self.path) / "distances", self.metadata_sum())
            self.check_size(opened.blocks.n)
            self._opened = opened
        return self._opened

    def refresh(self) -> None:
        """Forget what was opened of a D that is not the run's any more: processes live longer than what they opened."""
        if self._opened is not None and self._opened.metadata_sum != self.metadata_sum():
            self._opened, self._lines = None, {}

    @abstractmethod
    def check_size(self, n: int) -> None:
        """Refuse D of n vertices where another number is known."""

    @abstractmethod
    def metadata_sum(self) -> int | None:
        """CRC32C of the metadata of D, where it is known."""

    @property
    def blocks(self) -> Blocks:
        """The blocks that D was cut into when it was made."""
        return self.files.blocks

    def write_tile_row(self, row: int, upper: F32, use: Use | None = None) -> None:
        """Write tiles (row, row..) from the rows' part at and behind the diagonal; then the ledger.

        upper (rows of the block, n - start of the block): The diagonal tile's upper half is copied down: the sums of a
            path taken from its two ends can differ in the last bit, and D must be symmetric.
        use: Called as use(row, column, tile) with each tile as it was written; its memory is the next one's.
        Raises DamagedStoreError: If another run is at the path by now.
        """
        files, here = self.files, self.blocks[row]
        sums, buffer = [], files.new_buffer()
        for column in range(row, len(self.blocks)):
            there = self.blocks[column]
            tile = files.inside(row, column, buffer)
            tile[...] = upper[:, there.start - here.start : there.stop - here.start]
            if column == row:
                for i in range(1, len(tile)):  # by rows: a mask of the half would be larger than the tile
                    tile[i, :i] = tile[:i, i]
            sums.append(files.write(row, column, buffer))
            if use is not None:
                use(row, column, np.ascontiguousarray(tile))
        self._confirm(row, sums)

    # ---- the ledger ------------------------------------------------------------------------------

    def line_file(self, row: int) -> Location:
        """Where the line of a row of tiles is."""
        return self._ledger / f"{row}.json"

    @property
    def _ledger(self) -> Location:
        return open_location(self.path) / "ledger"

    @abstractmethod
    def check_identity(self) -> None:
        """Refuse to write into another run than the one that was opened."""

    def _confirm(self, row: int, sums: list[int]) -> None:
        """Put a row's line; the same one that is there stays, a damaged one or another run's is replaced."""
        self.check_identity()
        check_inside(self.path, f"ledger/{row}.json")
        self._lines.pop(row, None)
        line = line_text(self.identity, row, sums)
        self._ledger.make_folder()
        wanted = Line(run=self.identity, row=row, crc32c=sums)
        if not create_once(self.line_file(row), line) and self.line(row) != wanted:
            self.line_file(row).put(line)

    def unfinish(self, row: int) -> None:
        """Take a row's line out of the ledger: its tiles will be made again."""
        self.check_identity()
        self._lines.pop(row, None)
        self.line_file(row).unlink(missing_ok=True)

    def line(self, row: int) -> Line | None:
        """The line of a row; None where there is no whole one of this run."""
        try:
            line: Line = read_json(self.line_file(row), MOST_LINE_BYTES, Line)
        except (DamagedStoreError, OSError):
            return None
        mine = line.run == self.identity and line.row == row
        return line if mine and len(line.crc32c) == len(self.blocks) - row else None

    def _recorded(self, row: int) -> Line:
        if row not in self._lines:
            found = self.line(row)
            if found is None and f"{row}.json" in self._listed():  # a network's directory may be remembered without it
                found = self.line(row)
            if found is None:
                raise DamagedStoreError(f"{self.path!r}: the ledger of tile row {row} is missing or damaged; {REMEDY}")
            self._lines[row] = found
        return self._lines[row]

    def tile_row_done(self, row: int) -> bool:
        """Whether the ledger says that this row of tiles is in place."""
        return self.line(row) is not None

    def missing_rows(self) -> list[int]:
        """Rows of tiles that the ledger does not have.

        Its folder is listed: a host that asked for a line before there was one may be told so for a while after.
        """
        there, rows = self._listed(), range(len(self.blocks))
        return [row for row in rows if f"{row}.json" not in there or not self.tile_row_done(row)]

    def _listed(self) -> set[str]:
        try:
            return self._ledger.names()
        except OSError:
            return set()

    # ---- reading ---------------------------------------------------------------------------------

    def read_tile(self, row: int, column: int, buffer: F32 | None = None) -> F32:
        """One upper tile, checked.

        buffer: From :meth:`TileFiles.new_buffer`: the tile is read into it, and is gone with the next one.
        Raises DamagedStoreError: If the ledger lacks it, or its file is not the one that the ledger knows.
        """
        return self._tile(row, column, self.files.new_buffer() if buffer is None else buffer)

    def _tile(self, row: int, column: int, buffer: F32) -> F32:
        files, line = self.files, self._recorded(row)
        try:
            return files.read(row, column, buffer, line.crc32c[column - row])
        except DamagedStoreError:
            self._lines.pop(row, None)
            if self._recorded(row) == line:
                raise
        return self._tile(row, column, buffer)  # the row was made again since

    def read_columns(self, row: int, vertices: I64) -> F32:
        """Some columns of one upper tile: D of block `row` and `vertices`, all of one block that is not before it."""
        column = int(vertices[0]) // self.blocks.size
        return self._tile(row, column, self.files.new_buffer())[:, vertices - self.blocks[column].start]

    def read_rows(self, vertices: I64) -> F32:
        """Rows of D, shape (l, n), gathered from the upper tiles; every tile is checked."""
        self.refresh()
        blocks = self.blocks
        rows = np.empty((len(vertices), blocks.n), np.float32)
        block_of, buffer = vertices // blocks.size, self.files.new_buffer()
        for block in np.unique(block_of):
            wanted = np.flatnonzero(block_of == block)
            inside = vertices[wanted] - blocks[int(block)].start
            for other in range(len(blocks)):
                if other < block:
                    part = self.read_tile(other, int(block), buffer)[:, inside].T
                else:
                    part = self.read_tile(int(block), other, buffer)[inside]
                rows[wanted, blocks[other]] = part
        return rows
