"""Stage 4: takes the graph (or a matrix of geodesic distances), gives D as tiles in the run's store.

One task a block of sources: it looks in the ledger, computes its rows with the graph that its
process has cached, writes the tiles at and behind the diagonal and puts its line in the ledger;
each pair of blocks is written once, by one task. What a stopped run has finished is not done again.
While a task has its rows in memory it takes from them what a :class:`Reader` asks for, so that the
first read of D costs no reading, and counts the distances by their size (:mod:`scalemani.engine.distance_counts`);
rows that an earlier run finished are read back for both, and made again where they are not what was written.
Lengths in the store are divided by `scale`, a power of two that brings the median edge near 1.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.engine.bounded_json import REMEDY
from scalemani.engine.cluster import Cluster
from scalemani.engine.distance_counts import DISTANCE_COUNTS, new_counts
from scalemani.engine.expected_arrays import check_lists
from scalemani.engine.row_check import check_rows
from scalemani.engine.row_shares import RowShares, row_shares
from scalemani.engine.shared_runs import once_per_process, shared_run
from scalemani.engine.shortest_paths import PathGraph, geodesic_rows
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import Reader
from scalemani.errors import DamagedStoreError, DamagedTilesWarning, ScalemaniError, warn

Report = Callable[[str, int, int], None]
SAMPLED_ROWS = 64  # sources whose distances give the median; about 3 % of it
MOST_REACH = 1e18  # of a distance in units of the scale: its square, 1e36, is in float32's range


def power_of_two_scale(lengths: NDArray[np.float64]) -> float:
    """The power of two next below the median of the positive lengths (1 where there are none).

    Division by it is exact, and brings lengths from 1e-300 to 1e300 into float32's range.

    >>> power_of_two_scale(np.array([0.0, 3.0, 5.0, 9.0]))
    4.0
    """
    positive = lengths[lengths > 0]
    if not len(positive):
        return 1.0
    return float(2.0 ** np.floor(np.log2(np.median(positive))))


def check_reach(reach: float, scale: float) -> None:
    """Refuse lengths that float32 can't hold beside the median ones.

    reach: No distance is longer; the unit is the user's.
    scale: As :func:`power_of_two_scale` gives it.
    """
    if not reach / scale <= MOST_REACH:
        raise ScalemaniError(
            f"the longest distances are {reach / scale:.1e} times the median length, and float32 can't hold both with "
            f"their squares (up to {MOST_REACH:g} times is allowed): remove what is so far off, or bring it nearer"
        )


def save_graph(store: RunStore, matrix: Any, scale: float) -> None:
    """Write the graph that tasks and the projection use: weights / scale as float32.

    matrix (n, n): Symmetric, vertices in vertex order, user's unit.
    """
    store.write_array("graph_indptr", np.asarray(matrix.indptr, np.int64))
    store.write_array("graph_indices", np.asarray(matrix.indices, np.int32))
    store.write_array("graph_weights", (np.asarray(matrix.data, np.float64) / scale).astype(np.float32))


@once_per_process("graph_")
def shared_graph(path: str, identity: str) -> sp.csr_array:
    """The scaled graph of a run, read once in each process.

    Raises DamagedStoreError: If it is no graph, which would end the process in the search; or is not symmetric: the
        search follows edges either way, and rows of a directed graph need not show it.
    """
    store = shared_run(path, identity)
    weights, indices, indptr = (store.read_array(f"graph_{part}") for part in ("weights", "indices", "indptr"))
    check_lists(path, "the edges of the graph", indptr, indices, weights)
    n = len(indptr) - 1
    graph = sp.csr_array((weights, indices, indptr), shape=(n, n))
    if not graph.has_canonical_format:
        raise DamagedStoreError(f"{path!r}: the neighbour graph has edges out of order; {REMEDY}")
    if (graph != graph.T).nnz:
        raise DamagedStoreError(f"{path!r}: the neighbour graph is not symmetric; {REMEDY}")
    return graph


@once_per_process("graph_")
def shared_paths(path: str, identity: str) -> PathGraph:
    """The graph of a run as the kernels take it, with their workspace: made once in each process."""
    return PathGraph(shared_graph(path, identity))


def sampled_median(graph: Any, seed: int) -> float:
    """Median off-diagonal geodesic distance from up to 64 seeded sources (all of them on small graphs)."""
    n = graph.shape[0]
    if n < 2:
        return 0.0
    count = min(n, SAMPLED_ROWS)
    sources = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    rows = geodesic_rows(graph, sources)
    return float(np.median(rows[np.arange(n) != sources[:, None]]))


def compute_distances(cluster: Cluster, store: RunStore, report: Report, reader: Reader) -> NDArray[np.float64]:
    """Fill the missing tile rows of D; returns what `reader` takes of all of D, whose counts go into the store.

    -> (n, w): Shares are combined in the order of the rows: the same bits for any number of workers, and wherever an
        earlier run was stopped.
    Raises DamagedStoreError: If the ledger does not name a tile row that its task has written. The task asks, on the
        host that wrote it: a network's folder may be remembered elsewhere as it was.
    Warns by DamagedTilesWarning: If tiles that an earlier run wrote were damaged, and were made again.
    """
    missing, blocks = set(store.missing_rows()), store.blocks
    total, identity = len(blocks), store.document["id"]
    done = total - len(missing)
    found, counts, remade = np.zeros((blocks.n, reader.width)), new_counts(), list[int]()
    tasks = [(store.path, identity, row) for row in range(total)]
    for row, part in enumerate(cluster.map(_tile_row, tasks, shared=RowWork(reader))):
        reader.combine(found[blocks[row].start :], part.total)
        counts += part.counts
        remade += [row] if part.remade else []
        if row in missing:
            done += 1
            report("geodesics", done, total)
    warn_remade(store, remade)
    store.write_array(DISTANCE_COUNTS, counts)
    return found


def warn_remade(store: RunStore, rows: list[int]) -> None:
    """Say once that rows of tiles were damaged, if any were."""
    if rows:
        warn(
            f"{len(rows)} of {len(store.blocks)} tile rows of D in {store.path!r} were damaged (the first: {rows[0]}) "
            "and have been made again: look at the disk",
            DamagedTilesWarning,
        )


class RowMemory:
    """What a process keeps from task to task of the stage; empty where it is sent.

    Memory for a thread's rows, since pages that are touched for the first time cost up to a third of a task; and
    the graph with the searches' workspaces.
    """

    def __init__(self) -> None:
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._paths: PathGraph | None = None

    def paths(self, path: str, identity: str) -> PathGraph:
        """The graph of a run as the kernels take it."""
        with self._lock:
            if self._paths is None:
                self._paths = PathGraph(shared_graph(path, identity))
            return self._paths

    def __reduce__(self) -> tuple[type["RowMemory"], tuple[()]]:
        return RowMemory, ()

    def rows(self, count: int, width: int) -> NDArray[np.float32]:
        """An array (count, width) with anything in it, which the thread's next call gives again."""
        size = count * width
        if getattr(self._threads, "flat", np.empty(0)).size < size:
            vars(self._threads).pop("flat", None)  # before the larger one is there
            self._threads.flat = np.empty(size, np.float32)
        found: NDArray[np.float32] = self._threads.flat[:size].reshape(count, width)
        return found


@dataclass(frozen=True, eq=False)
class RowWork:
    """What the tasks of a stage share, sent to each worker once; it goes with the stage."""

    reader: Reader
    memory: RowMemory = field(default_factory=RowMemory)


def _tile_row(path: str, identity: str, row: int, work: RowWork) -> RowShares:
    """One task: the tiles (row, row..); returns their shares."""
    store, reader = shared_run(path, identity), work.reader
    done = store.tile_row_done(row)
    if done:
        try:
            return row_shares(store, reader, row)
        except DamagedStoreError:
            pass  # it is made again below
    upper = _upper_rows(store, row, work.memory)
    shares = row_shares(store, reader, row, lambda use: store.write_tile_row(row, upper, use))
    _check_written(store, row)
    return replace(shares, remade=done)


def _check_written(store: RunStore, row: int) -> None:
    if not store.tile_row_done(row):
        raise DamagedStoreError(f"{store.path!r}: tile row {row} of D was not written; {REMEDY}")


def _upper_rows(store: RunStore, row: int, memory: RowMemory) -> NDArray[np.float32]:
    """A block's rows of D from its own vertices on, found from the graph; in memory that is the thread's."""
    here, n = store.blocks[row], store.blocks.n
    out = memory.rows(here.stop - here.start, n - here.start)
    paths = memory.paths(store.path, store.identity)
    upper = geodesic_rows(paths, np.arange(here.start, here.stop), first=here.start, out=out)
    check_rows(shared_graph(store.path, store.identity), upper, here.start)
    return upper


def remake_rows(cluster: Cluster, store: RunStore, rows: list[int], report: Report) -> None:
    """Make rows of tiles again from the graph, whatever is there of them; they have the bits that they had."""
    for row in rows:
        store.unfinish(row)
    tasks = [(store.path, store.identity, row) for row in rows]
    for done, _ in enumerate(cluster.map(_remade, tasks, shared=RowMemory()), 1):
        report("geodesics", done, len(rows))


def _remade(path: str, identity: str, row: int, memory: RowMemory) -> None:
    """One task."""
    store = shared_run(path, identity)
    store.write_tile_row(row, _upper_rows(store, row, memory))
    _check_written(store, row)
