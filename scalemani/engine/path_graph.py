"""The graph as the search takes it: arrays in the kernels' dtypes, the precision of sums, a thread's workspace.

Takes a symmetric CSR graph; what a search finds is in :mod:`scalemani.engine.path_search`.
"""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.bucket_search import whole_steps
from scalemani.engine.heap_search import most_hops
from scalemani.engine.settling import LINE
from scalemani.engine.sweeping import sweep_orders

SMALL = 4096  # vertices up to which sums are float64: they cost next to nothing there
SHARED = 1 / 64  # of the weights: that many equal ones make roundings add up
ORDERS = 6  # of the sweeps: two do in many dimensions; on a long sheet six take a third of the work of two
MOST_HOPS = 1024  # edges of a path whose float32 sum is good to 2e-6


class PathGraph:
    """A graph as the kernels take it, with the precision of its sums; made once, used for many calls.

    graph (n, n): Symmetric; stored entries are edges (stored zeros too), weights >= 0.
    precision ({"float32", "float64"}): Of the sums along paths; by default what :mod:`scalemani.engine.shortest_paths`
        says.
    Raises ValueError: If a weight is negative or NaN, or the matrix is not square.
    """

    def __init__(self, graph: Any, precision: str | None = None) -> None:
        if precision not in (None, "float32", "float64"):
            raise ValueError(f"precision={precision!r}: 'float32', 'float64' or None is allowed")
        if len(graph.shape) != 2 or graph.shape[0] != graph.shape[1]:
            raise ValueError(f"a graph of shape {graph.shape}: a square matrix is needed")
        self.shape: tuple[int, int] = graph.shape
        self.indptr = np.ascontiguousarray(graph.indptr, np.int64)
        self.indices = np.ascontiguousarray(graph.indices, np.int32)
        with np.errstate(over="ignore"):  # too long for float32 is inf: no finite path
            self.weights = np.ascontiguousarray(graph.data, np.float32) + np.float32(0)  # -0.0: see `Sources`
        if not (self.weights >= 0).all():
            raise ValueError("the graph has weights that are negative or NaN: lengths of 0 or more are needed")
        self.precision = precision or self._precision()
        self._own_this_process()

    def _own_this_process(self) -> None:
        self._local, self._lock = threading.local(), threading.Lock()
        self._orders: tuple[NDArray[np.int32], float] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_local", "_lock", "_orders")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._own_this_process()  # workspaces stay where they are

    def orders(self) -> tuple[NDArray[np.int32], float]:
        """Orders of the vertices (ORDERS, n) for sweeps, and about how many wait in a search's heap; made once."""
        with self._lock:
            if self._orders is None:
                n = self.shape[0]
                orders, scratch = np.empty((ORDERS, n), np.int32), np.empty((6, n), np.int32)
                steps = whole_steps(self.weights, n)
                waiting = sweep_orders(self.indptr, self.indices, steps, orders, scratch[0], scratch[1], scratch[2:])
                self._orders = orders, float(waiting)
            return self._orders

    def workspace(self) -> "Workspace":
        """This thread's workspace: one search at a time, and memory that is touched once."""
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self)
        found: Workspace = self._local.workspace
        return found

    def _precision(self) -> str:
        n = self.shape[0]
        if n <= SMALL or not len(self.weights):
            return "float64"
        counts = np.unique(self.weights[:: max(1, len(self.weights) // 8192)], return_counts=True)[1]
        if counts.max() > SHARED * counts.sum():
            return "float64"
        keys, names = np.empty(len(self.indices) + 1, np.int64), np.empty(len(self.indices) + 1, np.int32)
        scratch = keys, names, np.empty(n, np.float32), np.empty(n, np.int32)
        hops = most_hops(self.indptr, self.indices, self.weights, 0, *scratch)
        return "float64" if hops > MOST_HOPS else "float32"


class Workspace:
    """The arrays of a search in one thread, for a graph of n vertices; :func:`workspace_bytes` counts them.

    csr: The graph: pointers, neighbours, weights.
    distance (n, lanes): In the precision of the sums; rows in the numbering of `rank`.
    order, rank (n,): Vertex at each place of the order, and the inverse.
    renumbered: The graph in that order.
    near, owner (n,): Scratch of `settling_order`.
    single (n,): Distances of one row, in the precision of the sums.
    targets (lanes,): Scratch of `scatter_lanes`.
    """

    def __init__(self, graph: PathGraph) -> None:
        n, entries, sums = graph.shape[0], len(graph.indices), np.dtype(graph.precision)
        self.csr = graph.indptr, graph.indices, graph.weights
        self.n, self.entries, self.lanes = n, max(entries, 1), LINE // sums.itemsize
        self.order, self.rank = np.empty(n, np.int32), np.empty(n, np.int32)
        self.renumbered = np.empty(n + 1, np.int64), np.empty(entries, np.int32), np.empty(entries, sums)
        self.distance, self.dirty = _lines(n, self.lanes, sums), np.zeros(-(-n // 8) * 8, np.uint8)
        self.near, self.owner = np.empty(n, np.float32), np.empty(n, np.int32)
        self.single, self.targets = np.empty(n, sums), np.empty(self.lanes, np.int64)


def workspace_bytes(n: int, edges: int, sources: int = 4096) -> int:
    """Bytes that a search holds besides its graph and its rows.

    For each vertex the lanes, the flag, the order and its inverse (8), two distances and an owner (up to 16), where
    its edges begin (8), its places in the orders of sweeps, which the graph holds for all, and what these are made with
    (24); for each edge its place in the renumbered graph (up to 12) and in the heap (12), and its steps; for each
    source its seed, its start, its place among the others, and a batch's copies.

    edges: Stored entries of the graph.
    sources: Of a call, at one seed each.
    """
    return (LINE + 1 + 8 + 16 + 8 + 4 * ORDERS + 24) * n + (12 + 12 + 1) * edges + 64 * sources


def _lines(n: int, lanes: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised (n, lanes) array whose rows begin on multiples of LINE bytes."""
    raw = np.empty(n * LINE + LINE, np.uint8)
    skip = -raw.ctypes.data % LINE
    return raw[skip : skip + n * LINE].view(dtype).reshape(n, lanes)
