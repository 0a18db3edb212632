"""Stage 4: takes the graph (or a matrix of geodesic distances), gives D as tiles in the run's store.

One task a block of sources: it looks in the ledger, computes its rows with the graph that its
process has cached, writes the tiles at and behind the diagonal and puts its line in the ledger;
each pair of blocks is written once, by one task. What a stopped run has finished is not done again.
While a task has its rows in memory it takes from them what a :class:`Reader` asks for, so that the
first read of D costs no reading, and counts the distances by their size (:mod:`scalemani.engine.distance_counts`);
rows that an earlier run finished are read back for both.
Lengths in the store are divided by `scale`, a power of two that brings the median edge near 1.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.engine.cluster import Cluster
from scalemani.engine.distance_counts import DISTANCE_COUNTS, new_counts
from scalemani.engine.row_shares import RowShares, row_shares
from scalemani.engine.shortest_paths import PathGraph, geodesic_rows
from scalemani.engine.store import RunStore, shared_run
from scalemani.engine.sweep import Reader
from scalemani.engine.tiles import Use
from scalemani.errors import DamagedStoreError, ScalemaniError

Report = Callable[[str, int, int], None]
SAMPLED_ROWS = 64  # sources whose distances give the median; about 3 % of it
MOST_REACH = 1e18  # of a distance in units of the scale: its square, 1e36, is in float32's range
MOST_ASYMMETRY = 2e-6  # relative |d_ij - d_ji| that is rounding whatever the path: some thirty hops summed in float32
PANEL = 128  # rows that are compared with their columns at once
ROUNDING = 2.0**-24  # of each hop's sum in float32, relative to the distance at most


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

    Parameters
    ----------
    reach : float
        No distance is longer; the unit is the user's.
    scale : float
        As :func:`power_of_two_scale` gives it.

    Raises
    ------
    ScalemaniError
    """
    if not reach / scale <= MOST_REACH:
        raise ScalemaniError(
            f"the longest distances are {reach / scale:.1e} times the median length, and float32 can't hold both with "
            f"their squares (up to {MOST_REACH:g} times is allowed): remove what is so far off, or bring it nearer"
        )


def save_graph(store: RunStore, matrix: Any, scale: float) -> None:
    """Write the graph that tasks and the projection use: weights / scale as float32.

    Parameters
    ----------
    matrix : CSR, shape (n, n)
        Symmetric, vertices in vertex order, user's unit.
    """
    store.write_array("graph_indptr", np.asarray(matrix.indptr, np.int64))
    store.write_array("graph_indices", np.asarray(matrix.indices, np.int32))
    store.write_array("graph_weights", (np.asarray(matrix.data, np.float64) / scale).astype(np.float32))


@lru_cache(maxsize=2)
def shared_graph(path: str, identity: str) -> sp.csr_array:
    """The scaled graph of a run, read once in each process.

    Raises
    ------
    DamagedStoreError
        If it is not symmetric: the search follows edges either way, and rows of a directed graph need not show it.
    """
    store = shared_run(path, identity)
    indptr = store.read_array("graph_indptr")
    n = len(indptr) - 1
    parts = (store.read_array("graph_weights"), store.read_array("graph_indices"), indptr)
    graph = sp.csr_array(parts, shape=(n, n))
    if (graph != graph.T).nnz:
        raise DamagedStoreError(f"{path!r}: the neighbour graph is not symmetric; fit again with overwrite")
    return graph


@lru_cache(maxsize=2)
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

    Returns
    -------
    ndarray of float64, shape (n, w)
        Shares are combined in the order of the rows: the same bits for any number of workers, and
        wherever an earlier run was stopped.

    Raises
    ------
    DamagedStoreError
        If the ledger does not name every tile row afterwards, or a tile that an earlier run wrote is damaged.
    """
    missing, blocks = set(store.missing_rows()), store.blocks
    total, identity = len(blocks), store.document["id"]
    done = total - len(missing)
    found, counts = np.zeros((blocks.n, reader.width)), new_counts()
    tasks = [(store.path, identity, row) for row in range(total)]
    for row, part in enumerate(cluster.map(_tile_row, tasks, shared=RowWork(reader))):
        reader.combine(found[blocks[row].start :], part.total)
        counts += part.counts
        if row in missing:
            done += 1
            report("geodesics", done, total)
    left = store.missing_rows()
    if left:
        raise DamagedStoreError(f"{store.path!r}: {len(left)} of {total} tile rows of D were not written")
    store.write_array(DISTANCE_COUNTS, counts)
    return found


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
    """What the tasks of a stage share, sent to each worker once; it goes with the stage.

    Attributes
    ----------
    reader : Reader
    memory : RowMemory
    """

    reader: Reader
    memory: RowMemory = field(default_factory=RowMemory)


def _tile_row(path: str, identity: str, row: int, work: RowWork) -> RowShares:
    """One task: the tiles (row, row..); returns their shares."""
    store, reader = shared_run(path, identity), work.reader
    if store.tile_row_done(row):
        return row_shares(store, reader, row)
    here, n = store.blocks[row], store.blocks.n
    out = work.memory.rows(here.stop - here.start, n - here.start)
    paths = work.memory.paths(path, identity)
    upper = geodesic_rows(paths, np.arange(here.start, here.stop), first=here.start, out=out)
    _check_rows(shared_graph(path, identity), upper, here.start)
    return row_shares(store, reader, row, lambda use: store.write_tile_row(row, upper, use))


def _check_rows(graph: sp.csr_array, upper: NDArray[np.float32], start: int) -> None:
    """Finite, zero on the diagonal, and equal from either end of a path, on the rows' own block.

    The two sums of a path of h hops may differ by 2 h roundings, and the unit of the weights is near
    their median: a distance d has about d hops, most of the time. Where that does not excuse what is found
    (many hops are much shorter), the two rows of the worst pair are summed again in float64, where they agree.
    """
    if not np.isfinite(upper.max()):
        raise DamagedStoreError(f"geodesic rows from vertex {start} hold infinite distances in a connected graph")
    square = upper[:, : len(upper)]
    worst, pair = 0.0, (0, 0)
    for at in range(0, len(square), PANEL):
        ours, theirs = square[at : at + PANEL, at:], square[at:, at : at + PANEL].T
        longer, excess = np.maximum(ours, theirs), np.abs(ours - theirs)
        excess -= (np.float32(MOST_ASYMMETRY) + np.float32(2 * ROUNDING) * longer) * longer
        i, j = np.unravel_index(excess.argmax(), excess.shape)
        if excess[i, j] > worst:
            worst, pair = float(excess[i, j]), (at + int(i), at + int(j))
    found = np.array([square[pair], square[pair[::-1]]], np.float64)
    apart = worst > 0 and not _same_in_float64(graph, start + np.array(pair), found)
    if apart or np.diagonal(square).any():
        raise DamagedStoreError(f"geodesic rows from vertex {start} are not symmetric")


def _same_in_float64(graph: sp.csr_array, pair: NDArray[np.int64], found: NDArray[np.float64]) -> bool:
    """Whether two vertices are as far from either end, and what was found within the roundings of n hops of it."""
    exact = geodesic_rows(graph, pair, precision="float64")[[0, 1], pair[::-1]].astype(np.float64)
    return bool(
        abs(exact[0] - exact[1]) <= MOST_ASYMMETRY * exact.max()
        and (np.abs(found - exact) <= 2 * ROUNDING * graph.shape[0] * exact).all()
    )


def write_given(
    store: RunStore,
    read_upper: Callable[[slice], NDArray[np.float64]],
    scale: float,
    report: Report,
    reader: Reader,
) -> NDArray[np.float64]:
    """Write a matrix of geodesic distances, taken as D itself, as tiles; returns what `reader` takes of D.

    The counts of its distances go into the store.

    Parameters
    ----------
    read_upper : callable
        Slice of vertices -> their distances to the vertices from its start on, user's unit.

    Returns
    -------
    ndarray of float64, shape (n, w)
    """
    blocks = store.blocks
    found, counts = np.zeros((blocks.n, reader.width)), new_counts()

    def write(row: int, here: slice, use: Use) -> None:
        store.write_tile_row(row, (read_upper(here) / scale).astype(np.float32), use)

    for row, here in enumerate(blocks):
        part = row_shares(store, reader, row, None if store.tile_row_done(row) else partial(write, row, here))
        reader.combine(found[here.start :], part.total)
        counts += part.counts
        report("geodesics", row + 1, len(blocks))
    store.write_array(DISTANCE_COUNTS, counts)
    return found
