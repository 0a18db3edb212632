"""One read of D: every stored tile once, its shares for both of its blocks, combined in a fixed order.

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

from scalemani.engine.cluster import Cluster
from scalemani.engine.shared_runs import shared_run
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError

Share = Callable[[NDArray[np.float32], NDArray[Any], NDArray[Any] | None], tuple[NDArray[Any], NDArray[Any] | None]]
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

    def combine(self, total: NDArray[np.float64], part: NDArray[Any]) -> None:
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

    def add(self, row: int, column: int, tile: NDArray[np.float32]) -> None:
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


def sweep(cluster: Cluster, store: RunStore, reader: Reader, *, by_rows: bool = False) -> NDArray[np.float64]:
    """Read D once.

    by_rows: One task a row of tiles: the sums have the bits of those taken while the rows were written.
    -> (n, w)
    Raises DamagedStoreError: If a tile is not the one that the ledger knows, or gives a NaN.
    """
    blocks = store.blocks
    total = np.zeros((blocks.n, reader.width))
    identity = store.document["id"]
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
    partial, buffer = PartialRead(store, reader, run[0][0]), store.files.new_buffer()
    for row, column in run:
        partial.add(row, column, store.read_tile(row, column, buffer))
    return partial


def _read(
    path: str, identity: str, run: list[tuple[int, int]], reader: Reader
) -> tuple[int, NDArray[np.float64]]:
    """One task."""
    partial = read_tiles(shared_run(path, identity), reader, run)
    return partial.start, partial.total
