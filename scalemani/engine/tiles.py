"""D in its store: upper tiles of float32, and the ledger that says which of them are whole.

D is symmetric, so tile (I, J) is kept for I <= J only; inf where there is no path, uncompressed unless asked otherwise
(Zarr's default codec is 4 times slower and saves 19 %). A tile is a file (:mod:`.tile_files`).

A row of tiles is done when its line, `ledger/<row>.json`, is there and is this run's: it is put after the tiles are in
place, with the CRC32C of each tile's file. Files alone prove nothing, and every read of a tile compares: what was cut,
lost, flipped or exchanged is a :class:`DamagedStoreError` and never a number.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.blocks import Blocks
from scalemani.engine.bounded_json import REMEDY, check_inside
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import beside, discard, folder_at, put, put_once, room_for
from scalemani.engine.own_names import own_entries
from scalemani.engine.places import Place, names_in, place
from scalemani.engine.schemas import MOST_LINE_BYTES, checked_line, read_json
from scalemani.engine.tile_files import Tile, TileFiles
from scalemani.errors import DamagedStoreError

WITH_DISTANCES = ("first_", "solver_")  # how the names begin of what was read of D, which goes with it
Use = Callable[[int, int, Tile], None]


class Line(NamedTuple):
    """What the ledger says of a row of tiles: a CRC32C each, of the files or (earlier releases) of the numbers."""

    sums: list[int]
    of_numbers: bool


def line_text(run: str, row: int, sums: list[int]) -> bytes:
    """The one text of a line."""
    return json.dumps({"run": run, "row": row, "crc32c": sums}).encode()


class Tiles(ABC):
    """The distances of a run's folder; what the run says of them is for :class:`.store.RunStore` to answer.

    path: The folder, absolute.
    identity: The run's id: lines of the ledger that another run left are none of this one's.
    """

    def __init__(self, path: str, identity: str) -> None:
        self.path, self.identity = path, identity
        self._opened: TileFiles | None = None
        self._lines: dict[int, Line] = {}

    def has_array(self, name: str) -> bool:
        """Whether an array of that name is there."""
        return (place(self.path) / name / "zarr.json").exists()

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        """Make the empty array of distance tiles and an empty ledger.

        compression ({"lz4", "zstd"}): Blosc's compressor, behind its bit shuffle, which suits numbers of nearby sizes.
            None: plain float32.
        """
        self.drop_distances()
        with room_for(self.path, 1):
            self._ledger.mkdir()
        self._opened = TileFiles.create(place(self.path) / "distances", n, tile, compression)

    def drop_distances(self) -> None:
        """Remove D, its ledger and what was read of it."""
        self._opened, self._lines = None, {}
        distances = place(self.path) / "distances"
        dropped: Place = distances
        if isinstance(distances, ObjectPath):
            (distances / "zarr.json").unlink(missing_ok=True)  # first: what is left of it is no array
        elif distances.exists():  # at once: a stop in between leaves no half of it in place
            dropped = distances.rename(beside(distances))
        discard(self._ledger)
        discard(dropped)
        self._remove_own(*WITH_DISTANCES)

    def _remove_own(self, *beginnings: str) -> None:
        """Remove what is the run's own, and none else's, of the entries whose names begin so."""
        for found in [entry for beginning in beginnings for entry in own_entries(place(self.path), beginning)]:
            discard(found)

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
            opened = TileFiles(place(self.path) / "distances", self.metadata_sum())
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

    def write_tile_row(self, row: int, upper: Tile, use: Use | None = None) -> None:
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

    def line_file(self, row: int) -> Place:
        """Where the line of a row of tiles is."""
        return self._ledger / f"{row}.json"

    @property
    def _ledger(self) -> Place:
        return place(self.path) / "ledger"

    @abstractmethod
    def check_identity(self) -> None:
        """Refuse to write into another run than the one that was opened."""

    def _confirm(self, row: int, sums: list[int]) -> None:
        """Put a row's line; the same one that is there stays, a damaged one or another run's is replaced."""
        self.check_identity()
        check_inside(self.path, f"ledger/{row}.json")
        self._lines.pop(row, None)
        line = line_text(self.identity, row, sums)
        folder_at(self._ledger)
        if not put_once(self.line_file(row), line) and self.line(row) != Line(sums, False):
            put(self.line_file(row), line)

    def unfinish(self, row: int) -> None:
        """Take a row's line out of the ledger: its tiles will be made again."""
        self.check_identity()
        self._lines.pop(row, None)
        self.line_file(row).unlink(missing_ok=True)

    def line(self, row: int) -> Line | None:
        """The line of a row; None where there is no whole one of this run."""
        try:
            line = checked_line(read_json(self.line_file(row), MOST_LINE_BYTES), str(self.line_file(row)))
        except (DamagedStoreError, OSError):
            return None
        mine = line.get("run", self.identity) == self.identity and line.get("row", row) == row
        whole = len(line["crc32c"]) == len(self.blocks) - row
        return Line(list(line["crc32c"]), "run" not in line) if mine and whole else None

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
            return names_in(self._ledger)
        except OSError:
            return set()

    # ---- reading ---------------------------------------------------------------------------------

    def read_tile(self, row: int, column: int, buffer: Tile | None = None) -> Tile:
        """One upper tile, checked.

        buffer: From :meth:`TileFiles.new_buffer`: the tile is read into it, and is gone with the next one.
        Raises DamagedStoreError: If the ledger lacks it, or its file is not the one that the ledger knows.
        """
        return self._tile(row, column, self.files.new_buffer() if buffer is None else buffer)

    def _tile(self, row: int, column: int, buffer: Tile) -> Tile:
        files, line = self.files, self._recorded(row)
        try:
            return files.read(row, column, buffer, line.sums[column - row], of_numbers=line.of_numbers)
        except DamagedStoreError:
            self._lines.pop(row, None)
            if self._recorded(row) == line:
                raise
        return self._tile(row, column, buffer)  # the row was made again since

    def read_columns(self, row: int, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some columns of one upper tile: D of block `row` and `vertices`, all of one block that is not before it."""
        column = int(vertices[0]) // self.blocks.size
        return self._tile(row, column, self.files.new_buffer())[:, vertices - self.blocks[column].start]

    def read_rows(self, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
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
