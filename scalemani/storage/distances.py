"""D of a run: one matrix of :mod:`scalemani.storage.tiles`, made, opened, and dropped with what was read of it."""

from abc import ABC, abstractmethod

from scalemani.aliases import F32, I64
from scalemani.storage.arrays import PIECES, own_entries
from scalemani.storage.files import checksum_of, open_location
from scalemani.storage.tiles import LEDGER, Blocks, Form, Tiles, Use, drop_matrix, read_form

DISTANCES = "distances"  # the folder of D
WITH_DISTANCES = ("first_", f"{PIECES}solve")  # how the names begin of what was read of D, which goes with it


class Distances(ABC):
    """D of a run, and what goes with it; what the run says of it is for :class:`scalemani.storage.run.RunStore`.

    path, identity: The run's folder, absolute, and its id.
    """

    def __init__(self, path: str, identity: str) -> None:
        self.path, self.identity = path, identity
        self._opened: tuple[Tiles, int] | None = None  # with the CRC32C of its metadata

    @abstractmethod
    def check_size(self, n: int) -> None:
        """Refuse D of n vertices where another number is known."""

    @abstractmethod
    def metadata_sum(self) -> int | None:
        """CRC32C of the metadata of D, where it is known."""

    @abstractmethod
    def check_identity(self) -> None:
        """Refuse to write into another run than the one that was opened."""

    def has_array(self, name: str) -> bool:
        """Whether an array of that name is there."""
        return (open_location(self.path) / name / "zarr.json").exists()

    @property
    def has_distances(self) -> bool:
        """Whether D is there (finished or not)."""
        return self.has_array(DISTANCES)

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        """Make D of n vertices, empty, in tiles of side `tile`, and an empty ledger.

        compression ({"lz4", "zstd"}): See :class:`Form`.
        """
        self.drop_distances()
        form = Form.of_distances(n, tile, compression)
        tiles = self._matrix(form)
        tiles.create()
        self._opened = tiles, checksum_of(form.text)

    def _matrix(self, form: Form) -> Tiles:
        return Tiles(self.path, self.identity, DISTANCES, form, symmetric=True, check=self.check_identity)

    def drop_distances(self) -> None:
        """Remove D, its ledger and what was read of it."""
        self._opened = None
        drop_matrix(open_location(self.path) / DISTANCES, open_location(self.path) / LEDGER)
        self._remove_own(*WITH_DISTANCES)

    def _remove_own(self, *beginnings: str) -> None:
        """Remove what is the run's own, and none else's, of the entries whose names begin so."""
        for found in [entry for beginning in beginnings for entry in own_entries(open_location(self.path), beginning)]:
            found.remove()

    @staticmethod
    def _goes_with_distances(name: str) -> bool:
        return name == DISTANCES or name.startswith(WITH_DISTANCES)

    @property
    def tiles(self) -> Tiles:
        """D itself.

        Raises DamagedStoreError: If its metadata is not what was written, or it is not of the graph's vertices.
        """
        if self._opened is None:
            form, metadata_sum = read_form(open_location(self.path) / DISTANCES, self.metadata_sum())
            self.check_size(form.shape[0])
            self._opened = self._matrix(form), metadata_sum
        return self._opened[0]

    def refresh(self) -> None:
        """Forget what was opened of a D that is not the run's any more: processes live longer than what they opened."""
        if self._opened is not None and self._opened[1] != self.metadata_sum():
            self._opened = None

    @property
    def blocks(self) -> Blocks:
        """The blocks that D was cut into when it was made."""
        return self.tiles.rows

    def write_tile_row(self, row: int, upper: F32, use: Use | None = None) -> None:
        """See :meth:`Tiles.write`; `upper` is the rows' part at and behind the diagonal."""
        self.tiles.write(row, upper, use)

    def unfinish(self, row: int) -> None:
        """See :meth:`Tiles.unfinish`."""
        self.tiles.unfinish(row)

    def tile_row_done(self, row: int) -> bool:
        """See :meth:`Tiles.done`."""
        return self.tiles.done(row)

    def missing_rows(self) -> list[int]:
        """See :meth:`Tiles.missing`."""
        return self.tiles.missing()

    def read_tile(self, row: int, column: int, buffer: F32 | None = None) -> F32:
        """One upper tile; see :meth:`Tiles.read`."""
        return self.tiles.read(row, column, buffer)

    def read_columns(self, row: int, vertices: I64) -> F32:
        """Some columns of one upper tile: D of block `row` and `vertices`, all of one block that is not before it."""
        column = int(vertices[0]) // self.blocks.size
        return self.tiles.read(row, column)[:, vertices - self.blocks[column].start]

    def read_rows(self, vertices: I64) -> F32:
        """Rows of D, shape (l, n); see :meth:`Tiles.read_rows`."""
        self.refresh()
        return self.tiles.read_rows(vertices)
