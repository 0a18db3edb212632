"""What a row of tiles gives besides D: a reader's shares and counts of the distances, as it is written or read back.

Either way the tiles are the same, in the same order, and so are the bits of what is found.

Kernel: how many distances of a tile lie in which bin, counted from the bits of float32.

The bits of a positive float32 are in the order of the numbers: without their last 20 they are the
exponent and three digits of the mantissa, and so the number of one of 8 bins an octave, of which every edge is exact.
No logarithm is taken, counts are integers, and so their sums are the same in any order.

One read of D: every stored tile once, its shares for both of its blocks, combined in a fixed order.

Takes a run and a :class:`Reader` (a function of one tile, an operand (n, m)); gives an array (n, w). A
tile (I, J) is D[I, J] and, transposed, D[J, I]: it contributes to the rows of both blocks. What a
task finds for its tiles is a :class:`PartialRead`; the client combines the tasks' in their order. The
tiles of a read are cut into runs by :meth:`Blocks.tile_runs`, or by rows of tiles: those are the
shares that a task can also take while it has the row in memory, before it is on disk, with the same bits.
Later readers of D (a Guttman transform, X'K2X) are further functions of a tile.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.cluster.kernel_cache import compiled
from scalemani.errors import DamagedStoreError
from scalemani.storage.run import RunStore, shared_run
from scalemani.storage.tiles import Use

DROPPED = 20  # bits, of the 23 of a mantissa
FINITE = 0xFF << 23 >> DROPPED  # bins of the finite positive numbers; the next one is that of inf
DISTANCE_COUNTS = "distance_counts"  # the array in a run's store


def new_counts() -> I64:
    """Nothing counted yet: zeros first, then the finite bins, then inf.

    >>> len(new_counts())
    2042
    """
    return np.zeros(FINITE + 2, np.int64)


def bin_edges() -> F64:
    """Edges of the finite bins, ascending, shape (2041,): bin b counts edges[b] <= d < edges[b + 1], zeros apart.

    >>> edges = bin_edges()
    >>> at = int(np.searchsorted(edges, 1.0))
    >>> edges[at : at + 9].tolist()
    [1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2.0]
    """
    bits = np.arange(FINITE + 1, dtype=np.uint32) << np.uint32(DROPPED)
    return bits.view(np.float32).astype(np.float64)


def count_distances(tile: F32, counts: I64, *, diagonal: bool = False) -> None:
    """Add the entries of a tile to `counts`.

    tile (b, w): Of distances: 0 or more, no NaN.
    counts (2042,): As :func:`new_counts` makes it.
    diagonal: Whether the tile is on the diagonal of D: its entries above the diagonal are counted, each pair once.

    >>> counts = new_counts()
    >>> count_distances(np.array([[0.0, 1.0, 1.1], [1.0, 0.0, np.inf], [1.1, np.inf, 0.0]], np.float32),
    ...                 counts, diagonal=True)
    >>> int(counts.sum()), int(counts.max()), int(counts[-1])
    (3, 2, 1)
    """
    _count(tile.view(np.uint32), counts, diagonal)


@compiled()
def _count(bits: Any, counts: Any, diagonal: bool) -> None:
    """Into four tables in turn: neighbours are about as far, and a lone counter would wait for its own last sum."""
    width = bits.shape[1]
    tables = np.zeros((4, 1 << 32 - DROPPED), np.int64)  # no index is outside
    for i in range(bits.shape[0]):
        row = bits[i]
        j = i + 1 if diagonal else 0
        while j + 4 <= width:
            tables[0, row[j] >> np.uint32(DROPPED)] += 1
            tables[1, row[j + 1] >> np.uint32(DROPPED)] += 1
            tables[2, row[j + 2] >> np.uint32(DROPPED)] += 1
            tables[3, row[j + 3] >> np.uint32(DROPPED)] += 1
            j += 4
        while j < width:
            tables[0, row[j] >> np.uint32(DROPPED)] += 1
            j += 1
    for bin in range(FINITE + 1):
        counts[bin + 1] += tables[0, bin] + tables[1, bin] + tables[2, bin] + tables[3, bin]
    minus_zeros = tables[:, 1 << 31 - DROPPED].sum()
    if tables[:, 0].sum() > 0:  # rarely: the least bin holds zeros too
        zeros = 0
        for i in range(bits.shape[0]):
            for j in range(i + 1 if diagonal else 0, width):
                zeros += bits[i, j] == 0
        counts[1] -= zeros
        counts[0] += zeros
    counts[0] += minus_zeros


Share = Callable[[F32, NDArray[Any], NDArray[Any] | None], tuple[NDArray[Any], NDArray[Any] | None]]
"""share(tile, operand rows of J, operand rows of I) -> (share of I's rows, share of J's rows).

On a diagonal tile the operand rows of I are None, and so is the second share."""


@dataclass(frozen=True)
class Reader:
    """What a read of D takes of each tile; sent to each worker once.

    share: A module-level function; see `Share`.
    operand (n, m)
    width: Columns w of the result.
    maxima: That many of the last columns are maxima (of what is 0 or more); the others are sums.
    """

    share: Share
    operand: NDArray[Any]
    width: int
    maxima: int = 0

    def combine(self, total: F64, part: NDArray[Any]) -> None:
        """Take one share, or one task's, into a total of as many rows."""
        sums = self.width - self.maxima
        total[:, :sums] += part[:, :sums]
        np.maximum(total[:, sums:], part[:, sums:], out=total[:, sums:])


class PartialRead:
    """The shares of some tiles, for the rows from those of block `first` on.

    total (n - start, w)
    """

    def __init__(self, store: RunStore, reader: Reader, first: int) -> None:
        self._store, self._reader, self._blocks = store, reader, store.blocks
        self.start = self._blocks[first].start
        self.total = np.zeros((self._blocks.n - self.start, reader.width))

    def add(self, row: int, column: int, tile: F32) -> None:
        """Take in one upper tile.

        Raises DamagedStoreError: If it gives a NaN.
        """
        here, there = self._blocks[row], self._blocks[column]
        operand = self._reader.operand
        ours, theirs = self._reader.share(tile, operand[there], None if row == column else operand[here])
        if np.isnan(ours).any():
            raise DamagedStoreError(
                f"{self._store.path!r}: tile ({row}, {column}) of D holds NaN: it was lost or never written"
            )
        self._reader.combine(self.total[here.start - self.start : here.stop - self.start], ours)
        if theirs is not None:
            self._reader.combine(self.total[there.start - self.start : there.stop - self.start], theirs)


def sweep(cluster: Cluster, store: RunStore, reader: Reader, *, by_rows: bool = False) -> F64:
    """Read D once.

    by_rows: One task a row of tiles: the sums have the bits of those taken while the rows were written.
    -> (n, w)
    Raises DamagedStoreError: If a tile is not the one that the ledger knows, or gives a NaN.
    """
    blocks = store.blocks
    total = np.zeros((blocks.n, reader.width))
    identity = store.identity
    if by_rows:
        runs = [tile_row(store, row) for row in range(len(blocks))]
    else:
        runs = blocks.tile_runs(blocks.read_runs)
    for start, part in cluster.map(_read, [(store.path, identity, run) for run in runs], shared=reader):
        reader.combine(total[start:], part)
    return total


def tile_row(store: RunStore, row: int) -> list[tuple[int, int]]:
    """The upper tiles of one row, in the order in which they are written and read."""
    return [(row, column) for column in range(row, len(store.blocks))]


def read_tiles(store: RunStore, reader: Reader, run: list[tuple[int, int]]) -> PartialRead:
    """The shares of consecutive tiles, read from the store."""
    partial, buffer = PartialRead(store, reader, run[0][0]), store.tiles.new_buffer()
    for row, column in run:
        partial.add(row, column, store.tiles.read(row, column, buffer))
    return partial


def _read(path: str, identity: str, run: list[tuple[int, int]], reader: Reader) -> tuple[int, F64]:
    """One task."""
    partial = read_tiles(shared_run(path, identity), reader, run)
    return partial.start, partial.total


@dataclass(frozen=True)
class RowShares:
    """Of one row of tiles.

    total (n - start, w): The reader's shares, for the vertices from the row's first on.
    counts: Of the pairs whose tile is in this row, by their distance (:mod:`scalemani.geodesics.reads`).
    remade: Whether the row was said to be finished, was damaged, and was made again.
    """

    total: F64
    counts: I64
    remade: bool = False


def row_shares(store: RunStore, reader: Reader, row: int, write: Callable[[Use], Any] | None = None) -> RowShares:
    """Take the shares of a row's tiles.

    write: Writes the row, and hands each tile on as it was written; the tiles are read back, and checked, without it.
    Raises DamagedStoreError: If a tile holds NaN, or is not what was written.
    """
    partial, counts = PartialRead(store, reader, row), new_counts()

    def use(row: int, column: int, tile: F32) -> None:
        partial.add(row, column, tile)
        count_distances(tile, counts, diagonal=row == column)

    if write is None:
        buffer = store.tiles.new_buffer()
        for place in tile_row(store, row):
            use(*place, store.tiles.read(*place, buffer))
    else:
        write(use)
    return RowShares(partial.total, counts)
