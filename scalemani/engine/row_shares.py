"""What a row of tiles gives besides D: a reader's shares and counts of the distances, as it is written or read back.

Either way the tiles are the same, in the same order, and so are the bits of what is found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.distance_counts import count_distances, new_counts
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import PartialRead, Reader, tile_row
from scalemani.engine.tiles import Use


@dataclass(frozen=True)
class RowShares:
    """Of one row of tiles.

    total (n - start, w): The reader's shares, for the vertices from the row's first on.
    counts: Of the pairs whose tile is in this row, by their distance (:mod:`scalemani.engine.distance_counts`).
    remade: Whether the row was said to be finished, was damaged, and was made again.
    """

    total: NDArray[np.float64]
    counts: NDArray[np.int64]
    remade: bool = False


def row_shares(store: RunStore, reader: Reader, row: int, write: Callable[[Use], Any] | None = None) -> RowShares:
    """Take the shares of a row's tiles.

    write: Writes the row, and hands each tile on as it was written; the tiles are read back, and checked, without it.
    Raises DamagedStoreError: If a tile holds NaN, or is not what was written.
    """
    partial, counts = PartialRead(store, reader, row), new_counts()

    def use(row: int, column: int, tile: NDArray[np.float32]) -> None:
        partial.add(row, column, tile)
        count_distances(tile, counts, diagonal=row == column)

    if write is None:
        buffer = store.files.new_buffer()
        for place in tile_row(store, row):
            use(*place, store.read_tile(*place, buffer))
    else:
        write(use)
    return RowShares(partial.total, counts)
