"""Stage 4 where D is given: takes a matrix of geodesic distances by rows, gives it as tiles in the run's store."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.distance_counts import DISTANCE_COUNTS, new_counts
from scalemani.engine.row_shares import row_shares
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import Reader
from scalemani.engine.tiles import Use
from scalemani.errors import DamagedStoreError
from scalemani.geodesics import warn_remade

Report = Callable[[str, int, int], None]


def write_given(
    store: RunStore,
    read_upper: Callable[[slice], NDArray[np.float64]],
    scale: float,
    report: Report,
    reader: Reader,
) -> NDArray[np.float64]:
    """Write a matrix of geodesic distances, taken as D itself, as tiles; returns what `reader` takes of D.

    The counts of its distances go into the store.

    read_upper: Slice of vertices -> their distances to the vertices from its start on, user's unit.
    -> (n, w)
    """
    blocks = store.blocks
    found, counts = np.zeros((blocks.n, reader.width)), new_counts()

    def write(row: int, here: slice, use: Use) -> None:
        store.write_tile_row(row, (read_upper(here) / scale).astype(np.float32), use)

    remade = []
    for row, here in enumerate(blocks):
        part = None
        if store.tile_row_done(row):
            try:
                part = row_shares(store, reader, row)
            except DamagedStoreError:
                remade.append(row)
        part = part or row_shares(store, reader, row, partial(write, row, here))
        reader.combine(found[here.start :], part.total)
        counts += part.counts
        report("geodesics", row + 1, len(blocks))
    warn_remade(store, remade)
    store.write_array(DISTANCE_COUNTS, counts)
    return found
