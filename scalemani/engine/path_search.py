"""How a call's sources are solved: in batches of neighbours with a common order, or one by one on the heap.

Takes a :class:`PathGraph` and sources with their seeds, gives rows and an account of the work. What is
chosen follows from counts of the work done, never from a clock, and decides nothing but the work.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.heap_search import heap_rows, most_hops, settling_order
from scalemani.engine.lane_products import lane_products
from scalemani.engine.settling import LINE, renumber, scatter_lanes, settle, start_lanes

SMALL = 4096  # vertices up to which sums are float64: they cost next to nothing there
SHARED = 1 / 64  # of the weights: that many equal ones make roundings add up
MOST_HOPS = 1024  # edges of a path whose float32 sum is good to 2e-6
MOST_SEPARATE = 2.0  # fronts that are still apart, in the mean, for which a batch can win: see `settling_order`
PATIENCE = 0.4  # of the heap's work for a batch, after which the heap has it
WINDOWS = 1024, 4096, 16384, 65536  # vertices; wide ones for batches whose sources settle in different orders
WIDE, NARROW = 1.3, 1.1  # passes above and below which the window changes


@dataclass
class Work:
    """What was done, summed over the calls that it was handed to as ``work=``.

    Attributes
    ----------
    pops : int
        Vertices relaxed for a batch.
    edges : int
        Edges of theirs, and one for every `settling.GLANCES` flags that were looked at in vain.
    batches : int
        Batches that were solved side by side.
    orders : int
        Orders made for them.
    heap_rows : int
        Rows that were found one by one.
    """

    pops: int = 0
    edges: int = 0
    batches: int = 0
    orders: int = 0
    heap_rows: int = 0


class Sources(NamedTuple):
    """Source s starts at the vertices ``seeds[indptr[s]:indptr[s + 1]]``, from the distances `starts`.

    They are 0 or more and not -0.0, whose bits are those of a negative number: minima are taken over bits.
    """

    indptr: NDArray[np.int64]
    seeds: NDArray[np.int64]
    starts: NDArray[np.float32]


class PathGraph:
    """A graph as the kernels take it, with the precision of its sums; made once, used for many calls.

    Parameters
    ----------
    graph : scipy.sparse CSR matrix or array, shape (n, n)
        Symmetric; stored entries are edges (stored zeros too), weights >= 0.
    precision : {"float32", "float64"}, optional
        Of the sums along paths; by default what :mod:`scalemani.engine.shortest_paths` says.

    Raises
    ------
    ValueError
        If a weight is negative or NaN.

    Attributes
    ----------
    shape : tuple of int
    precision : str
    """

    def __init__(self, graph: Any, precision: str | None = None) -> None:
        if precision not in (None, "float32", "float64"):
            raise ValueError(f"precision={precision!r}: 'float32', 'float64' or None is allowed")
        self.shape: tuple[int, int] = graph.shape
        self.indptr = np.ascontiguousarray(graph.indptr, np.int64)
        self.indices = np.ascontiguousarray(graph.indices, np.int32)
        with np.errstate(over="ignore"):  # too long for float32 is inf: no finite path
            self.weights = np.ascontiguousarray(graph.data, np.float32) + np.float32(0)  # -0.0: see `Sources`
        if not (self.weights >= 0).all():
            raise ValueError("the graph has weights that are negative or NaN: lengths of 0 or more are needed")
        self.precision = precision or self._precision()
        self._local = threading.local()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _local=threading.local())  # workspaces stay where they are

    def search(self) -> "Search":
        """This thread's workspace: one search at a time, and memory that is touched once."""
        if not hasattr(self._local, "search"):
            self._local.search = Search(self)
        search: Search = self._local.search
        return search

    def _precision(self) -> str:
        n = self.shape[0]
        if n <= SMALL or not len(self.weights):
            return "float64"
        counts = np.unique(self.weights[:: max(1, len(self.weights) // 8192)], return_counts=True)[1]
        if counts.max() > SHARED * counts.sum():
            return "float64"
        scratch = np.empty(len(self.indices) + 1, np.int64), np.empty(n, np.float32), np.empty(n, np.int32)
        hops = most_hops(self.indptr, self.indices, self.weights, 0, *scratch)
        return "float64" if hops > MOST_HOPS else "float32"


class Search:
    """The choice between an old order, a new one and the heap, on a workspace that later calls use again.

    An order is kept while that is the cheapest: a batch away from where the order was made needs more
    relaxations, and a new order is worth its price as soon as a batch costs more than the average since the
    last one, its price included. Work is counted in passes: one relaxation of every edge for a whole batch.
    """

    def __init__(self, graph: PathGraph) -> None:
        n, edges, self.sums = graph.shape[0], len(graph.indices), np.dtype(graph.precision)
        self.csr = graph.indptr, graph.indices, graph.weights
        self.n, self.edges, self.lanes = n, max(edges, 1), LINE // self.sums.itemsize
        self.order, self.rank = np.empty(n, np.int32), np.empty(n, np.int32)
        self.local = np.empty(n + 1, np.int64), np.empty(edges, np.int32), np.empty(edges, self.sums)
        self.distance, self.dirty = _lines(n, self.lanes, self.sums), np.zeros(-(-n // 8) * 8, np.uint8)
        self.near, self.owner = np.empty(n, np.float32), np.empty(n, np.int32)
        self.single, self.targets = np.empty(n, self.sums), np.empty(self.lanes, np.int64)

    def rows(self, sources: Sources, first: int, work: Work, out: NDArray[np.float32] | None = None) -> Any:
        """Rows (l, n - first) of float32, in `out` where that is given."""
        shape = len(sources.indptr) - 1, self.n - first
        rows = np.empty(shape, np.float32) if out is None else out
        if rows.shape != shape or rows.dtype != np.float32 or not rows.flags.c_contiguous:
            raise ValueError(
                f"out of shape {rows.shape}, {rows.dtype}: C-contiguous float32 of shape {shape} is needed"
            )
        for batch, together in self._solved(sources, work):
            if together:
                scatter_lanes(self.distance, self.rank, batch, first, self.targets, rows)
            else:
                heap_rows(*self.csr, *sources, batch, first, self.heap, self.single, rows)
        return rows

    def products(self, sources: Sources, axes: NDArray[np.float64], work: Work) -> tuple[Any, Any, Any]:
        """The least entry of each row and V'e, V'e² for V = `axes`: see :mod:`scalemani.engine.lane_products`."""
        count, p = len(sources.indptr) - 1, axes.shape[1]
        nearest, first, second = np.empty(count), np.empty((count, p)), np.empty((count, p))
        row, vertices = np.empty((1, self.n), np.float32), np.arange(self.n, dtype=np.int32)
        alone = np.zeros(1, np.int64)
        for batch, together in self._solved(sources, work):
            if together:
                lane_products(self.distance, self.rank, axes, batch, nearest, first, second)
                continue
            for s in batch:
                one = sources.indptr[s : s + 2], sources.seeds, sources.starts
                heap_rows(*self.csr, *one, alone, 0, self.heap, self.single, row)
                lane_products(row.reshape(-1, 1), vertices, axes, np.array([s]), nearest, first, second)
        return nearest, first, second

    def _solved(self, sources: Sources, work: Work) -> Iterator[tuple[NDArray[np.int64], bool]]:
        """Batches in the order of their first seeds: solved in the lanes, or left to the heap."""
        self.work, self.window, self.ordered = work, 1, False
        self.heap_passes, self.waits, self.wait = 1.0, 0, 1  # batches that go to the heap at once; the next number
        self.heap = np.empty(len(sources.seeds) + self.edges + 1, np.int64)
        position = np.full(len(sources.indptr) - 1, -1, np.int64)
        attached = np.diff(sources.indptr) > 0
        position[attached] = sources.seeds[sources.indptr[:-1][attached]]
        by_seed = np.argsort(position, kind="stable")
        for at in range(0, len(by_seed), self.lanes):
            batch = by_seed[at : at + self.lanes]
            together = self._side_by_side(sources, batch)
            work.batches += together
            work.heap_rows += 0 if together else len(batch)
            yield batch, together
        del self.heap

    def _side_by_side(self, sources: Sources, batch: NDArray[np.int64]) -> bool:
        """Solve a batch in its lanes; False where the heap is the better choice."""
        by_heap = self.heap_passes * len(batch)
        if self.ordered and self._settle(sources, batch, min(self.heap_passes + 3, PATIENCE * by_heap)):
            return True
        self.ordered = False
        if self.waits > 0 or len(batch) <= 2:
            self.waits -= 1
            return False
        separate = self._make_order(sources, batch)
        if separate <= MOST_SEPARATE and self._settle(sources, batch, PATIENCE * self.heap_passes * len(batch)):
            return True
        self.ordered = False
        self.waits, self.wait = self.wait, 2 * self.wait
        return False

    def _make_order(self, sources: Sources, batch: NDArray[np.int64]) -> float:
        """Order the vertices by the search from all seeds of a batch, and renumber the graph; fronts apart."""
        indptr, seeds, starts = sources
        of_batch = np.concatenate([np.arange(indptr[s], indptr[s + 1]) for s in batch])
        source_of = np.repeat(np.arange(len(batch)), indptr[batch + 1] - indptr[batch])
        scratch = self.heap, self.near, self.owner, self.order
        _, separate, waiting = settling_order(*self.csr, seeds[of_batch], starts[of_batch], source_of, *scratch)
        self.work.orders += 1
        degree = self.edges / self.n
        # Nanoseconds a vertex, as measured on a line, a star, rolls, images and Gaussian clouds; the ratio matters.
        self.heap_passes = (8 * degree + 12 * np.log2(1 + waiting)) / (60 + 10 * degree)
        if separate <= MOST_SEPARATE:
            renumber(*self.csr, self.order, self.rank, *self.local)
            self.ordered = True
            self.spent, self.batches = self.heap_passes + 1, 0
        return float(separate)

    def _settle(self, sources: Sources, batch: NDArray[np.int64], most_passes: float) -> bool:
        """Solve a batch in the present order within `most_passes`; look at what it cost."""
        indptr, seeds, starts = sources
        start_lanes(self.rank, indptr, seeds, starts, batch, self.distance, self.dirty)
        pops, relaxed, settled = settle(
            *self.local, self.distance, self.dirty, WINDOWS[self.window], int(most_passes * self.edges)
        )
        self.work.pops += pops
        self.work.edges += relaxed
        passes = relaxed / self.edges
        if self.batches and passes > self.spent / self.batches:
            self.ordered = False
        self.spent += passes
        self.batches += 1
        if passes > WIDE:
            self.window = min(self.window + 1, len(WINDOWS) - 1)
        elif passes < NARROW:
            self.window = max(self.window - 1, 0)
        return bool(settled)


def _lines(n: int, lanes: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised (n, lanes) array whose rows begin on multiples of LINE bytes."""
    raw = np.empty(n * LINE + LINE, np.uint8)
    skip = -raw.ctypes.data % LINE
    return raw[skip : skip + n * LINE].view(dtype).reshape(n, lanes)
