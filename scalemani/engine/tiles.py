"""D on disk: upper tiles of float32 in a Zarr array, and the ledger that says which of them are whole.

D is symmetric, so tile (I, J) is kept for I <= J only; fill NaN, inf where there is no path, uncompressed
unless asked otherwise (Zarr's default codec is 4 times slower and saves 19 %). A row of tiles is done
when `ledger/<row>.json` exists: it is put there by an exclusive link after the tiles are in place, with a
CRC32C each, of the numbers and not of the file; chunk files alone prove nothing.
"""

import json
import os
import shutil
import uuid
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec

from scalemani.engine.blocks import Blocks
from scalemani.errors import DamagedStoreError

COMPRESSIONS = {"lz4": 5, "zstd": 3}  # each with Blosc's level: the next ones are slower than the paths and save 2 %
Use = Callable[[int, int, NDArray[np.float32]], None]


def _blosc(name: str) -> BloscCodec:
    return BloscCodec(typesize=4, cname=name, clevel=COMPRESSIONS[name], shuffle="bitshuffle")  # type: ignore[arg-type]


def checksum(array: NDArray[Any]) -> int:
    """CRC32C of an array's bytes in C order."""
    contiguous: Any = np.ascontiguousarray(array)  # read where it is: its bytes would be a copy
    return int(google_crc32c.value(contiguous))


def beside(path: str | os.PathLike[str]) -> Path:
    """A name beside a path that nothing has: what is made there is renamed when it is whole."""
    target = Path(path).absolute()
    return target.with_name(f"{target.name}.{uuid.uuid4().hex}.partial")


class Tiles:
    """The distances of a run's folder.

    Parameters
    ----------
    path : str
        The folder, absolute.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def has_array(self, name: str) -> bool:
        """Whether an array of that name is there."""
        return (Path(self.path) / name / "zarr.json").exists()

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        """Make the empty array of distance tiles and an empty ledger.

        Parameters
        ----------
        n, tile : int
        compression : {"lz4", "zstd"}, optional
            Blosc's compressor, behind its bit shuffle, which suits numbers of nearby sizes. None: plain float32.
        """
        self.drop_distances()
        (Path(self.path) / "ledger").mkdir()
        zarr.create_array(
            self.path,
            name="distances",
            shape=(n, n),
            chunks=(tile, tile),
            dtype="float32",
            fill_value=np.nan,
            compressors=None if compression is None else _blosc(compression),
            attributes={"tiles": "upper; D is symmetric", "unit": "edge length / scale"},
        )

    def drop_distances(self) -> None:
        """Remove D, its ledger and what its first read found (arrays that are named first_...)."""
        self.__dict__.pop("_distances", None)
        distances = Path(self.path) / "distances"
        dropped = beside(distances)
        if distances.exists():
            distances.rename(dropped)  # at once: a stop in between leaves no half of it in place
        shutil.rmtree(Path(self.path) / "ledger", ignore_errors=True)
        shutil.rmtree(dropped, ignore_errors=True)
        for found in Path(self.path).glob("first_*"):
            shutil.rmtree(found, ignore_errors=True)

    @property
    def has_distances(self) -> bool:
        """Whether D is there (finished or not)."""
        return self.has_array("distances")

    @cached_property
    def _distances(self) -> "zarr.Array[Any]":
        found: Any = zarr.open_array(self.path, path="distances", mode="r+")
        # open_array takes no configuration of an array that is there: every tile would be compared with the fill first
        return zarr.Array(zarr.AsyncArray(found.metadata, found.store_path, {"write_empty_chunks": True}))

    @property
    def blocks(self) -> Blocks:
        """The blocks that D was cut into when it was made."""
        return Blocks(int(self._distances.shape[0]), int(self._distances.chunks[0]))

    def write_tile_row(self, row: int, upper: NDArray[np.float32], use: Use | None = None) -> None:
        """Write tiles (row, row..) from the rows' part at and behind the diagonal; then the ledger.

        Parameters
        ----------
        row : int
            Block number.
        upper : ndarray of float32, shape (rows of the block, n - start of the block)
            The diagonal tile's upper half is copied down: the sums of a path taken from its two
            ends can differ in the last bit, and D must be symmetric.
        use : callable, optional
            Called as use(row, column, tile) with each tile as it was written.
        """
        blocks = self.blocks
        here = blocks[row]
        sums = []
        for column in range(row, len(blocks)):
            there = blocks[column]
            tile = np.ascontiguousarray(upper[:, there.start - here.start : there.stop - here.start])
            if column == row:
                for i in range(1, len(tile)):  # by rows: a mask of the half would be larger than the tile
                    tile[i, :i] = tile[:i, i]
            self._distances[here, there] = tile
            sums.append(checksum(tile))
            if use is not None:
                use(row, column, tile)
        self._put_once(f"ledger/{row}.json", json.dumps({"crc32c": sums}))

    def _put_once(self, name: str, text: str) -> None:
        """Put a small file in place by an exclusive link; the one that is there first stays."""
        target = Path(self.path) / name
        partial = beside(target)
        with partial.open("w") as stream:
            stream.write(text)
        try:
            os.link(partial, target)
        except FileExistsError:
            pass
        finally:
            partial.unlink(missing_ok=True)

    def tile_row_done(self, row: int) -> bool:
        """Whether the ledger says that this row of tiles is in place."""
        return (Path(self.path) / "ledger" / f"{row}.json").exists()

    def missing_rows(self) -> list[int]:
        """Rows of tiles that the ledger does not have."""
        return [row for row in range(len(self.blocks)) if not self.tile_row_done(row)]

    def read_tile(self, row: int, column: int, *, verify: bool = False) -> NDArray[np.float32]:
        """One upper tile.

        Raises
        ------
        DamagedStoreError
            If its chunk has the wrong length or can't be decompressed; with `verify`, if the ledger lacks
            it or its CRC32C differs.
        """
        blocks = self.blocks
        try:
            tile: NDArray[np.float32] = np.asarray(self._distances[blocks[row], blocks[column]])
        except (ValueError, RuntimeError, MemoryError) as error:  # Blosc's are RuntimeErrors; a torn size is any size
            raise DamagedStoreError(f"{self.path!r}: tile ({row}, {column}) of D is damaged ({error})") from error
        if verify and checksum(tile) != self._recorded(row)[column - row]:
            raise DamagedStoreError(f"{self.path!r}: tile ({row}, {column}) of D is damaged (checksum differs)")
        return tile

    def read_columns(self, row: int, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Some columns of one upper tile: D of block `row` and `vertices`, all of one block that is not before it."""
        found: Any = self._distances.oindex[self.blocks[row], vertices]
        return np.asarray(found, np.float32)

    def _recorded(self, row: int) -> list[int]:
        try:
            sums = list(json.loads((Path(self.path) / "ledger" / f"{row}.json").read_bytes())["crc32c"])
            if len(sums) != len(self.blocks) - row:
                raise ValueError(f"{len(sums)} checksums")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedStoreError(f"{self.path!r}: the ledger of tile row {row} is missing or damaged") from error
        return sums

    def read_rows(self, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of D, shape (l, n), gathered from the upper tiles; every tile is checked with its CRC32C."""
        blocks = self.blocks
        rows = np.empty((len(vertices), blocks.n), np.float32)
        block_of = vertices // blocks.size
        for block in np.unique(block_of):
            wanted = np.flatnonzero(block_of == block)
            inside = vertices[wanted] - blocks[int(block)].start
            for other in range(len(blocks)):
                if other < block:
                    part = self.read_tile(other, int(block), verify=True)[:, inside].T
                else:
                    part = self.read_tile(int(block), other, verify=True)[inside]
                rows[wanted, blocks[other]] = part
        return rows
