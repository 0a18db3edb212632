"""One read of D: every stored tile once, its shares for both of its blocks, summed in a fixed order.

Takes a run, a function of one tile and an operand (n, m); gives the sum (n, w). A tile (I, J) is
D[I, J] and, transposed, D[J, I]: it contributes to the rows of both blocks. The tiles are cut into
runs by :meth:`Blocks.tile_runs`; a task adds up one run, the client adds the runs in their order.
Later readers of D (a Guttman transform, X'K2X) are further functions of a tile.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore, shared_run
from scalemani.errors import DamagedStoreError

MOST_RUNS = 32  # enough for a handful of workers to finish together, few enough to add up (n, w) each
RUN_ENTRIES = 1 << 22  # entries of D that are worth a task of their own
Share = Callable[[NDArray[np.float32], NDArray[Any], NDArray[Any] | None], tuple[NDArray[Any], NDArray[Any] | None]]
"""share(tile, operand rows of J, operand rows of I) -> (share of I's rows, share of J's rows).

On a diagonal tile the operand rows of I are None, and so is the second share."""


def sweep(
    cluster: Cluster,
    store: RunStore,
    share: Share,
    operand: NDArray[Any],
    width: int,
    *,
    verify: bool = False,
) -> NDArray[np.float64]:
    """Read D once.

    Parameters
    ----------
    share : callable
        A module-level function (it is sent to workers); see `Share`.
    operand : ndarray, shape (n, m)
        Sent to each worker once.
    width : int
        Columns w of the result.
    verify : bool
        Compare every tile with its CRC32C in the ledger.

    Returns
    -------
    ndarray of float64, shape (n, w)

    Raises
    ------
    DamagedStoreError
        If a tile gives a NaN (it is missing or was never written) or fails its checksum.
    """
    blocks = store.blocks
    total = np.zeros((blocks.n, width))
    identity = store.document["id"]
    runs = blocks.tile_runs(min(MOST_RUNS, max(2, blocks.n**2 // 2 // RUN_ENTRIES)))
    tasks = [(share, store.path, identity, run, width, verify) for run in runs]
    for start, part in cluster.map(_add_run, tasks, shared=operand):
        total[start:] += part
    return total


def _add_run(
    share: Share,
    path: str,
    identity: str,
    run: list[tuple[int, int]],
    width: int,
    verify: bool,
    operand: NDArray[Any],
) -> tuple[int, NDArray[np.float64]]:
    """The shares of one run of tiles, for the rows from the first tile's on."""
    store = shared_run(path, identity)
    blocks = store.blocks
    start = blocks[run[0][0]].start
    total = np.zeros((blocks.n - start, width))
    for row, column in run:
        tile = store.read_tile(row, column, verify=verify)
        here, there = blocks[row], blocks[column]
        ours, theirs = share(tile, operand[there], None if row == column else operand[here])
        if np.isnan(ours).any():
            raise DamagedStoreError(f"{path!r}: tile ({row}, {column}) of D holds NaN: it was lost or never written")
        total[here.start - start : here.stop - start] += ours
        if theirs is not None:
            total[there.start - start : there.stop - start] += theirs
    return start, total
