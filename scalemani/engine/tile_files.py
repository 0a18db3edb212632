"""One tile, one file or object: takes a folder in the layout of a Zarr array, gives tiles written and read, checked.

A tile is a chunk of the array: float32 in C order, NaN where the last blocks have nothing, plain or compressed
by Blosc. Any Zarr reader reads it. Here it is read into memory of the caller's, which is faster than Zarr's own way by
more than the checksum of the file takes; which CRC32C it must have is for the ledger (:mod:`.tiles`) to say.
"""

import json
from typing import Any

import numcodecs
import numpy as np
from numpy.typing import NDArray

from scalemani.engine.blocks import Blocks
from scalemani.engine.bounded_json import REMEDY, check_inside, open_plain, read_into
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import beside, checksum, checksum_of, folder_at, put, room_for
from scalemani.engine.places import Place
from scalemani.engine.schemas import MOST_METADATA_BYTES, checked_array_metadata, parsed, read_plain
from scalemani.errors import DamagedStoreError, StoreUnreachableError

COMPRESSIONS = {"lz4": 5, "zstd": 3}  # each with Blosc's level: the next ones are slower than the paths and save 2 %
MOST_BYTES = 1 << 56  # of D: any disk's
MOST_TILE = 1 << 32  # bytes of a tile
Tile = NDArray[np.float32]


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

    def __init__(self, folder: Place, metadata_sum: int | None = None) -> None:
        self.folder = folder
        place = folder / "zarr.json"
        content = read_plain(place, MOST_METADATA_BYTES)
        self.metadata_sum = checksum_of(content)
        if metadata_sum not in (None, self.metadata_sum):
            raise DamagedStoreError(f"{str(place)!r} is not what was written; {REMEDY}")
        found = checked_array_metadata(parsed(content, str(place)), str(place), MOST_BYTES, tiles=True)
        shape, chunk = found["shape"], found["chunk_grid"]["configuration"]["chunk_shape"]
        if found["data_type"] != "float32" or 4 * chunk[0] ** 2 > MOST_TILE:
            raise DamagedStoreError(f"{str(place)!r} is not that of float32 tiles; {REMEDY}")
        blosc = [codec["configuration"] for codec in found["codecs"] if codec["name"] == "blosc"]
        self.blocks = Blocks(shape[0], chunk[0])
        self._codec: Any = None
        if blosc:
            self._codec = numcodecs.Blosc(blosc[0]["cname"], blosc[0]["clevel"], numcodecs.Blosc.BITSHUFFLE)

    @classmethod
    def create(cls, folder: Place, n: int, tile: int, compression: str | None) -> "TileFiles":
        """Make the empty array (n, n) of tiles of side `tile`."""
        if isinstance(folder, ObjectPath):
            put(folder / "zarr.json", metadata_text(n, tile, compression))
            return cls(folder)
        partial = beside(folder)
        with room_for(folder, MOST_METADATA_BYTES):
            partial.mkdir()
            put(partial / "zarr.json", metadata_text(n, tile, compression))
            partial.rename(folder)
        return cls(folder)

    def new_buffer(self) -> Tile:
        """Memory for one tile's file."""
        return np.empty((self.blocks.size, self.blocks.size), np.float32)

    def file(self, row: int, column: int) -> Place:
        """Where a tile is."""
        return self.folder / "c" / str(row) / str(column)

    def _inside(self, row: int, column: int) -> Place:
        """Where a tile is, unless a link leads there."""
        return check_inside(self.folder.parent, f"{self.folder.name}/c/{row}/{column}")

    def inside(self, row: int, column: int, buffer: Tile) -> Tile:
        """The part of a buffer that is the tile."""
        return buffer[: self.blocks.length(row), : self.blocks.length(column)]

    def write(self, row: int, column: int, buffer: Tile) -> int:
        """Write a tile that is in a buffer; the CRC32C of its file."""
        rows, columns = self.inside(row, column, buffer).shape
        buffer[rows:], buffer[:, columns:] = np.nan, np.nan
        content = buffer if self._codec is None else self._codec.encode(buffer)
        place = self._inside(row, column)
        with room_for(place, buffer.nbytes):
            folder_at(place.parent)
        put(place, content)
        return checksum(buffer) if self._codec is None else checksum_of(content)

    def read(self, row: int, column: int, buffer: Tile, wanted: int, *, of_numbers: bool = False) -> Tile:
        """Read a tile into a buffer; its part that is the tile, contiguous (a copy where the tile is an end's).

        wanted: CRC32C of the file or, in stores of earlier releases, of the tile's numbers.
        Raises DamagedStoreError: Naming the tile.
        """
        place = self._inside(row, column)
        try:
            content: Any = self._bytes(place, buffer)
            if not of_numbers and checksum_of(content) != wanted:
                raise ValueError("checksum differs")
            if self._codec is not None:
                if int.from_bytes(content[4:8], "little") != buffer.nbytes:  # Blosc would write as much as that says
                    raise ValueError("its compressed size is wrong")
                self._codec.decode(content, buffer)
            elif len(content) != buffer.nbytes:
                raise ValueError(f"{len(content)} bytes of {buffer.nbytes}")
            tile = np.ascontiguousarray(self.inside(row, column, buffer))
            if of_numbers and checksum(tile) != wanted:
                raise ValueError("checksum differs")
        except StoreUnreachableError:
            raise
        except (OSError, ValueError, RuntimeError) as error:  # Blosc's are RuntimeErrors
            why = str(getattr(error, "strerror", None) or error)
            why = "its file is missing" if isinstance(error, FileNotFoundError) else why
            raise DamagedStoreError(
                f"{str(self.folder.parent)!r}: tile ({row}, {column}) of D is damaged ({why}); {REMEDY}"
            ) from error
        return tile

    def _bytes(self, path: Place, buffer: Tile) -> Any:
        """What a file holds: in the buffer where tiles are plain; no more is read than a tile may have."""
        if self._codec is None:
            done = read_into(path, buffer.data)
            return memoryview(buffer.data).cast("B")[:done]
        most = buffer.nbytes + 4096  # Blosc adds 16 bytes at most
        if isinstance(path, ObjectPath):
            return path.read_up_to(most)
        with open_plain(path) as stream:
            return stream.read(most)
