"""How a call's sources are solved: in batches, side by side, or one by one on the heap.

Takes a :class:`PathGraph`, the graph in the kernels' dtypes with a workspace for each thread, and :class:`Sources`;
gives rows (or their products) and an account of the work. Batches of neighbours are solved in a common order that one
search from all of them gives, others by sweeps in the graph's own orders, and the heap has those that neither is good
for. What is chosen follows from counts of the work done, never from a clock, and decides nothing but the work.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F32, F64, I64
from scalemani.geodesics.heap import heap_rows, most_hops, settling_order
from scalemani.geodesics.lanes import (
    LINE,
    lane_products,
    renumber,
    scatter_lanes,
    settle,
    start_lanes,
    sweep,
    sweep_orders,
)
from scalemani.graph.order import whole_steps

SMALL = 4096  # vertices up to which sums are float64: they cost next to nothing there
SHARED = 1 / 64  # of the weights: that many equal ones make roundings add up
ORDERS = 6  # of the sweeps: two do in many dimensions; on a long sheet six take a third of the work of two
MOST_HOPS = 1024  # edges of a path whose float32 sum is good to 2e-6


class PathGraph:
    """A graph as the kernels take it, with the precision of its sums; made once, used for many calls.

    graph (n, n): Symmetric; stored entries are edges (stored zeros too), weights >= 0.
    precision ({"float32", "float64"}): Of the sums along paths; by default what :mod:`scalemani.geodesics.paths`
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


def paths_bytes(n: int, edges: int) -> int:
    """A :class:`PathGraph`: float32 weights, int32 indices, int64 pointers; 4 an entry spare."""
    return 12 * edges + 8 * (n + 1)


def _lines(n: int, lanes: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An uninitialised (n, lanes) array whose rows begin on multiples of LINE bytes."""
    raw = np.empty(n * LINE + LINE, np.uint8)
    skip = -raw.ctypes.data % LINE
    return raw[skip : skip + n * LINE].view(dtype).reshape(n, lanes)


MOST_SEPARATE = 2.0  # fronts that are still apart, in the mean, for which a batch can win: see `settling_order`
STRAY = 3.0  # passes more than the heap's of one row, after which an old order is given up: it is a new one's price
PATIENCE = 0.4  # of the heap's work for a batch, after which the heap has it
WINDOWS = 1024, 4096, 16384, 65536  # vertices; wide ones for batches whose sources settle in different orders
WIDE, NARROW = 1.3, 1.1  # passes above and below which the window changes
REACH = 512  # sources within an n-th of the vertices that is this small, or 4 to a lane, are neighbours
FEW = 8  # sources of a call, below which it makes no orders of sweeps for the graph: they cost as much as 7 rows


@dataclass
class Work:
    """What was done, summed over the calls that it was handed to as ``work=``.

    pops: Vertices relaxed for a batch.
    edges: Edges of theirs, and one for every `settling.GLANCES` flags that were looked at.
    batches: Batches that were solved side by side.
    orders: Orders made for them.
    sweeps: Sweeps over the graph, for batches that are no neighbours.
    heap_rows: Rows that were found one by one.
    """

    pops: int = 0
    edges: int = 0
    batches: int = 0
    orders: int = 0
    sweeps: int = 0
    heap_rows: int = 0


class Sources(NamedTuple):
    """Source s starts at the vertices ``seeds[indptr[s]:indptr[s + 1]]``, from the distances `starts`.

    They are 0 or more and not -0.0, whose bits are those of a negative number: minima are taken over bits.
    """

    indptr: I64
    seeds: I64
    starts: F32


def find_rows(graph: PathGraph, sources: Sources, first: int, work: Work, out: F32 | None = None) -> F32:
    """Rows (l, n - first) of float32, in `out` where that is given."""
    shape = len(sources.indptr) - 1, graph.shape[0] - first
    rows = np.empty(shape, np.float32) if out is None else out
    if rows.shape != shape or rows.dtype != np.float32 or not rows.flags.c_contiguous:
        raise ValueError(f"out of shape {rows.shape}, {rows.dtype}: C-contiguous float32 of shape {shape} is needed")
    space = graph.workspace()
    search = _Search(graph, sources, work)
    for batch, together in search.batches():
        if together:
            scatter_lanes(space.distance, space.rank, batch, first, space.targets, rows)
        else:
            heap_rows(*space.csr, *sources, batch, first, *search.heap, space.single, rows)
    return rows


def find_products(graph: PathGraph, sources: Sources, axes: F64, work: Work) -> tuple[F64, F64, F64]:
    """The least entry of each row, and V'e, V'e² for V = `axes`: see :mod:`scalemani.geodesics.lanes`."""
    count, p, n = len(sources.indptr) - 1, axes.shape[1], graph.shape[0]
    nearest, first, second = np.empty(count), np.empty((count, p)), np.empty((count, p))
    row, vertices = np.empty((1, n), np.float32), np.arange(n, dtype=np.int32)
    alone = np.zeros(1, np.int64)
    space = graph.workspace()
    search = _Search(graph, sources, work)
    for batch, together in search.batches():
        if together:
            lane_products(space.distance, space.rank, axes, batch, nearest, first, second)
            continue
        for s in batch:
            one = sources.indptr[s : s + 2], sources.seeds, sources.starts
            heap_rows(*space.csr, *one, alone, 0, *search.heap, space.single, row)
            lane_products(row.reshape(-1, 1), vertices, axes, np.array([s]), nearest, first, second)
    return nearest, first, second


class _Search:
    """One call: the choice between an old order, a new one, sweeps and the heap, batch by batch.

    An order is kept while that is the cheapest: a batch away from where the order was made needs more
    relaxations, and a new order is worth its price as soon as a batch costs more than the average since the
    last one, its price included. Work is counted in passes: one relaxation of every edge for a whole batch.
    """

    def __init__(self, graph: PathGraph, sources: Sources, work: Work) -> None:
        self.graph, self.space, self.sources, self.work = graph, graph.workspace(), sources, work
        most = len(sources.seeds) + self.space.entries + 1
        self.heap = np.empty(most, np.int64), np.empty(most, np.int32)
        self.few = len(sources.indptr) - 1 < FEW
        self.ordered = False  # whether the workspace holds an order that is worth another batch
        self.spent, self.settled = 0.0, 0  # since it was made: passes with its price, batches
        self.window = 1
        self.heap_passes = 1.0  # what a row costs on the heap
        self.orders, self.sweeps = _Trust(), _Trust()

    def batches(self) -> Iterator[tuple[I64, bool]]:
        """Batches in the order of their first seeds: solved in the lanes (True), or left to the heap."""
        first = first_seeds(*self.sources[:2])
        by_seed, lanes = np.argsort(first, kind="stable"), self.space.lanes
        reach = max(self.space.n // REACH, 4 * lanes)
        for at in range(0, len(by_seed), lanes):
            batch = by_seed[at : at + lanes]
            near = bool(first[batch[-1]] - first[batch[0]] <= reach)
            together = len(batch) > 2 and (self._in_order(batch, near) or self._by_sweeps(batch))
            self.work.batches += together
            self.work.heap_rows += 0 if together else len(batch)
            yield batch, together

    def _in_order(self, batch: I64, near: bool) -> bool:
        """Solve a batch of neighbours, or one of a call of few sources, in an old order or a new one of its own."""
        by_heap = self.heap_passes * len(batch)
        if near and self.ordered and self._settle(batch, min(self.heap_passes + STRAY, PATIENCE * by_heap)):
            return True
        self.ordered = False
        if not (near or self.few) or not self.orders.again():
            return False
        separate = self._make_order(batch)
        if separate <= MOST_SEPARATE and self._settle(batch, PATIENCE * self.heap_passes * len(batch)):
            return True
        self.ordered = False
        self.orders.lose()
        return False

    def _by_sweeps(self, batch: I64) -> bool:
        """Solve a batch in the graph's own orders; they are made for it if there are none."""
        if self.few or not self.sweeps.again():
            return False
        space, (orders, waiting) = self.space, self.graph.orders()
        self.heap_passes = self._passes_of_a_heap(waiting)
        space.rank[:] = np.arange(space.n, dtype=np.int32)
        start_lanes(space.rank, *self.sources, batch, space.distance, space.dirty)
        most_work = int(PATIENCE * self.heap_passes * len(batch) * space.entries)
        pops, done, sweeps, settled = sweep(*space.csr, space.distance, space.dirty, orders, most_work)
        self.work.pops += pops
        self.work.edges += done
        self.work.sweeps += sweeps
        if not settled:
            self.sweeps.lose()
        return bool(settled)

    def _make_order(self, batch: I64) -> float:
        """Order the vertices by the search from all seeds of a batch, and renumber the graph; fronts apart."""
        space, (indptr, seeds, starts) = self.space, self.sources
        of_batch = np.concatenate([np.arange(indptr[s], indptr[s + 1]) for s in batch])
        source_of = np.repeat(np.arange(len(batch)), indptr[batch + 1] - indptr[batch])
        scratch = *self.heap, space.near, space.owner, space.order
        separate, waiting = settling_order(*space.csr, seeds[of_batch], starts[of_batch], source_of, *scratch)
        self.work.orders += 1
        self.heap_passes = self._passes_of_a_heap(waiting)
        if separate <= MOST_SEPARATE:
            renumber(*space.csr, space.order, space.rank, *space.renumbered)
            self.ordered = True
            self.spent, self.settled = self.heap_passes + 1, 0
        return float(separate)

    def _passes_of_a_heap(self, waiting: float) -> float:
        """What a row costs on a heap with `waiting` entries in the mean."""
        degree = self.space.entries / self.space.n
        # Nanoseconds a vertex, as measured on a line, a star, rolls, images and Gaussian clouds; the ratio matters.
        return float((8 * degree + 12 * np.log2(1 + waiting)) / (60 + 10 * degree))

    def _settle(self, batch: I64, most_passes: float) -> bool:
        """Solve a batch in the present order within `most_passes`; look at what it cost."""
        space, (indptr, seeds, starts) = self.space, self.sources
        start_lanes(space.rank, indptr, seeds, starts, batch, space.distance, space.dirty)
        most_work = int(most_passes * space.entries)
        pops, done, settled = settle(*space.renumbered, space.distance, space.dirty, WINDOWS[self.window], most_work)
        self.work.pops += pops
        self.work.edges += done
        passes = done / space.entries
        if self.settled and passes > self.spent / self.settled:
            self.ordered = False
        self.spent += passes
        self.settled += 1
        if passes > WIDE:
            self.window = min(self.window + 1, len(WINDOWS) - 1)
        elif passes < NARROW:
            self.window = max(self.window - 1, 0)
        return bool(settled)


class _Trust:
    """Whether a way is tried again: after each failure it is left out for twice as many batches."""

    def __init__(self) -> None:
        self.left_out, self.next = 0, 1

    def again(self) -> bool:
        self.left_out -= 1
        return self.left_out < 0

    def lose(self) -> None:
        self.left_out, self.next = self.next, 2 * self.next


def first_seeds(indptr: I64, seeds: I64) -> I64:
    """The first vertex that each source starts at, -1 for a source without any: near in number is near in space."""
    first = np.full(len(indptr) - 1, -1, np.int64)
    attached = np.diff(indptr) > 0
    first[attached] = seeds[indptr[:-1][attached]]
    return first
