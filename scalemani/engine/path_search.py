"""How a call's sources are solved: in batches, side by side, or one by one on the heap.

Takes a :class:`PathGraph` and :class:`Sources`, gives rows (or their products) and an account of the work. Batches
of neighbours are solved in a common order that one search from all of them gives, others by sweeps in the graph's
own orders, and the heap has those that neither is good for.
What is chosen follows from counts of the work done, never from a clock, and decides nothing but the work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.heap_search import heap_rows, settling_order
from scalemani.engine.lane_products import lane_products
from scalemani.engine.path_graph import PathGraph
from scalemani.engine.settling import renumber, scatter_lanes, settle, start_lanes
from scalemani.engine.sweeping import sweep

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

    indptr: NDArray[np.int64]
    seeds: NDArray[np.int64]
    starts: NDArray[np.float32]


def find_rows(
    graph: PathGraph, sources: Sources, first: int, work: Work, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
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


def find_products(
    graph: PathGraph, sources: Sources, axes: NDArray[np.float64], work: Work
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The least entry of each row, and V'e, V'e² for V = `axes`: see :mod:`scalemani.engine.lane_products`."""
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

    def batches(self) -> Iterator[tuple[NDArray[np.int64], bool]]:
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

    def _in_order(self, batch: NDArray[np.int64], near: bool) -> bool:
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

    def _by_sweeps(self, batch: NDArray[np.int64]) -> bool:
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

    def _make_order(self, batch: NDArray[np.int64]) -> float:
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

    def _settle(self, batch: NDArray[np.int64], most_passes: float) -> bool:
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


def first_seeds(indptr: NDArray[np.int64], seeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first vertex that each source starts at, -1 for a source without any: near in number is near in space."""
    first = np.full(len(indptr) - 1, -1, np.int64)
    attached = np.diff(indptr) > 0
    first[attached] = seeds[indptr[:-1][attached]]
    return first
