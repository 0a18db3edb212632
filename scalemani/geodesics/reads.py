"""What is taken of D beside D itself: while its rows of tiles are written, as they are read back, or by reads of it.

A :class:`Consumer` says what: it begins a :class:`Part` for each row of tiles, which takes the row's tiles in their
order, and adds up the parts' results in the order of the rows. A tile is the same whether it was just written or is
read back, so results have the same bits for any number of workers, and wherever an earlier run was stopped.
:func:`row_results` feeds the consumers with one row.

Two consumers go with every D. :class:`DistanceCounts` counts distances by their size. A :class:`Reader` is a function
of one tile and an operand (n, m); all of its parts make an array (n, w). It can read D at any time (:func:`sweep`),
in runs of tiles (:meth:`Blocks.tile_runs`), or row by row with the bits that it has as a consumer. A tile (I, J) is
D[I, J] and, transposed, D[J, I]: it contributes to the rows of both blocks.

The bits of a positive float32 are in the order of the numbers: without their last 20 they are the number of one of 8
bins an octave, of which every edge is exact. No logarithm is taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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


class Part(Protocol):
    """What a consumer takes of some tiles; `result` is what it found, which is sent to the client."""

    result: Any

    def take(self, row: int, column: int, tile: F32) -> None: ...


class Consumer(Protocol):
    """What takes its part of each row of tiles while that is in memory; sent to each worker once.

    begin: The part of a row, which takes the row's upper tiles. Its result before it takes any is the total of none.
    combine: Takes the result of a row into the total, in place; rows come in their order.
    """

    def begin(self, store: RunStore, row: int) -> Part: ...

    def combine(self, total: Any, part: Any) -> None: ...


class DistanceCounts:
    """How many distances are in which bin, each pair once: a consumer, and its own part."""

    def __init__(self) -> None:
        self.result = new_counts()

    def begin(self, store: RunStore, row: int) -> "DistanceCounts":
        """Nothing counted yet."""
        return DistanceCounts()

    def take(self, row: int, column: int, tile: F32) -> None:
        """Count a tile's distances."""
        count_distances(tile, self.result, diagonal=row == column)

    def combine(self, total: I64, part: I64) -> None:
        """Add them."""
        total += part


Share = Callable[[F32, NDArray[Any], NDArray[Any] | None], tuple[NDArray[Any], NDArray[Any] | None]]
"""share(tile, operand rows of J, operand rows of I) -> (share of I's rows, share of J's rows).

On a diagonal tile the operand rows of I are None, and so is the second share."""


@dataclass(frozen=True)
class Reader:
    """What a read of D takes of each tile; a consumer.

    share: A module-level function; see `Share`.
    operand (n, m)
    width: Columns w of the result.
    maxima: That many of the last columns are maxima (of what is 0 or more); the others are sums.
    """

    share: Share
    operand: NDArray[Any]
    width: int
    maxima: int = 0

    def begin(self, store: RunStore, row: int) -> "PartialRead":
        """Nothing taken yet."""
        return PartialRead(store, self, row)

    def combine(self, total: F64, part: NDArray[Any]) -> None:
        """Take the shares of some rows, the last ones of the total, into it."""
        rows, sums = total[len(total) - len(part) :], self.width - self.maxima
        rows[:, :sums] += part[:, :sums]
        np.maximum(rows[:, sums:], part[:, sums:], out=rows[:, sums:])


class PartialRead:
    """The shares of some tiles, for the rows from those of block `first` on.

    result (n - start, w)
    """

    def __init__(self, store: RunStore, reader: Reader, first: int) -> None:
        self._store, self._reader, self._blocks = store, reader, store.blocks
        self._start = self._blocks[first].start
        self.result = np.zeros((self._blocks.n - self._start, reader.width))

    def take(self, row: int, column: int, tile: F32) -> None:
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
        self._reader.combine(self.result[: here.stop - self._start], ours)
        if theirs is not None:
            self._reader.combine(self.result[: there.stop - self._start], theirs)


def sweep(cluster: Cluster, store: RunStore, reader: Reader, *, by_rows: bool = False) -> F64:
    """Read D once.

    by_rows: One task a row of tiles: the sums have the bits of those taken while the rows were written.
    -> (n, w)
    Raises DamagedStoreError: If a tile is not the one that the ledger knows, or gives a NaN.
    """
    blocks = store.blocks
    total: F64 = reader.begin(store, 0).result
    identity = store.identity
    if by_rows:
        runs = [tile_row(store, row) for row in range(len(blocks))]
    else:
        runs = blocks.tile_runs(blocks.read_runs)
    for part in cluster.map(_read, [(store.path, identity, run) for run in runs], shared=reader):
        reader.combine(total, part)
    return total


def tile_row(store: RunStore, row: int) -> list[tuple[int, int]]:
    """The upper tiles of one row, in the order in which they are written and read."""
    return [(row, column) for column in range(row, len(store.blocks))]


def read_tiles(store: RunStore, run: list[tuple[int, int]], use: Use) -> None:
    """Hand on tiles that are read from the store, in memory that is used again."""
    buffer = store.tiles.new_buffer()
    for row, column in run:
        use(row, column, store.tiles.read(row, column, buffer))


def _read(path: str, identity: str, run: list[tuple[int, int]], reader: Reader) -> F64:
    """One task: the shares of consecutive tiles."""
    store = shared_run(path, identity)
    partial = reader.begin(store, run[0][0])
    read_tiles(store, run, partial.take)
    return partial.result


def row_results(
    store: RunStore, consumers: Mapping[str, Consumer], row: int, write: Callable[[Use], Any] | None = None
) -> dict[str, Any]:
    """Feed consumers with the tiles of a row; what each found, by its name.

    write: Writes the row, and hands each tile on as it was written; the tiles are read back, and checked, without it.
    Raises DamagedStoreError: If a tile is not what was written, or a reader is given NaN.
    """
    parts = {name: consumer.begin(store, row) for name, consumer in consumers.items()}

    def use(row: int, column: int, tile: F32) -> None:
        for part in parts.values():
            part.take(row, column, tile)

    if write is None:
        read_tiles(store, tile_row(store, row), use)
    else:
        write(use)
    return {name: part.result for name, part in parts.items()}
