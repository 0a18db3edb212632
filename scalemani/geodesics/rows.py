"""The graph of a run, read once in each process as the kernels take it, and the checks of its rows of distances.

Lengths are divided by a power of two, which brings them into float32's range. Rows are checked before they are written.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F32, F64, I64
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.geodesics.batches import PathGraph, paths_bytes, workspace_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.graph.edges import without_edges
from scalemani.storage.arrays import check_lists
from scalemani.storage.json import REMEDY
from scalemani.storage.run import OncePerProcess, RunStore, shared_run

# The array (c, 2) of the edges that a run's graph has and its paths leave out. It is one of the arrays "graph_", whose
# checksums tell `OncePerProcess` that the graph is another.
WITHOUT = "graph_without"
SAMPLED_ROWS = 64  # sources whose distances give the median; about 3 % of it
MOST_REACH = 1e18  # of a distance in units of the scale: its square, 1e36, is in float32's range


def power_of_two_scale(lengths: F64) -> float:
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
    graph = scaled(matrix, scale)
    store.write_array("graph_indptr", np.asarray(graph.indptr, np.int64))
    store.write_array("graph_indices", np.asarray(graph.indices, np.int32))
    store.write_array("graph_weights", graph.data)


def scaled(matrix: Any, scale: float) -> sp.csr_array:
    """A graph (n, n) in another unit, as tasks use it: lengths / scale as float32."""
    weights = (np.asarray(matrix.data, np.float64) / scale).astype(np.float32)
    return sp.csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)


@OncePerProcess
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
    return without_edges(graph, store.read_array(WITHOUT)) if WITHOUT in store.document.arrays else graph


@OncePerProcess
def shared_paths(path: str, identity: str) -> PathGraph:
    """The graph of a run as the kernels take it, with their workspace: made once in each process."""
    return PathGraph(shared_graph(path, identity))


def sampled_median(graph: Any, seed: int) -> float:
    """Median off-diagonal geodesic distance from up to 64 seeded sources (all on small graphs), inf left out."""
    n = graph.shape[0]
    if n < 2:
        return 0.0
    count = min(n, SAMPLED_ROWS)
    sources = np.sort(np.random.default_rng(seed).choice(n, count, replace=False))
    rows = geodesic_rows(graph, sources)
    found = rows[np.arange(n) != sources[:, None]]
    return float(np.median(found[np.isfinite(found)])) if np.isfinite(found).any() else 0.0


MOST_ASYMMETRY = 2e-6  # relative |d_ij - d_ji| that is rounding whatever the path: some thirty hops summed in float32
PANEL = 128  # rows that are compared with their columns at once
ROUNDING = 2.0**-24  # of each hop's sum in float32, relative to the distance at most


def check_rows(graph: sp.csr_array, upper: F32, start: int) -> None:
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


def _same_in_float64(graph: sp.csr_array, pair: I64, found: F64) -> bool:
    """Whether two vertices are as far from either end, and what was found within the roundings of n hops of it."""
    exact = geodesic_rows(graph, pair, precision="float64")[[0, 1], pair[::-1]].astype(np.float64)
    return bool(
        abs(exact[0] - exact[1]) <= MOST_ASYMMETRY * exact.max()
        and (np.abs(found - exact) <= 2 * ROUNDING * graph.shape[0] * exact).all()
    )


# ---- bytes -----------------------------------------------------------------------------------------


def graph_bytes(n: int, edges: int) -> int:
    """The graph that a process keeps: float32 weights, indices and pointers as int64."""
    return 12 * edges + 8 * (n + 1)


def median_bytes(n: int, edges: int) -> int:
    """The sampled rows that give the median distance: found, picked, and copied to be partitioned."""
    return paths_bytes(n, edges) + workspace_bytes(n, edges) + 13 * min(n, SAMPLED_ROWS) * n


def again_bytes(n: int, edges: int, count: int) -> int:
    """So many rows, copies counted, that are found again in one thread, on a graph and a workspace of their own."""
    return paths_bytes(n, edges) + workspace_bytes(n, edges) + 4 * count * n


def check_bytes(n: int, edges: int, tile: int) -> int:
    """The check of a block of rows: six copies of a panel of the diagonal tile, or two rows searched again."""
    return max(6 * 4 * min(tile, PANEL) * tile, again_bytes(n, edges, 2))
