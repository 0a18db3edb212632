"""How a call's sources are solved: in batches of neighbours with a common order, or one by one on the heap.

Takes a :class:`PathGraph` and :class:`Sources`, gives rows (or their products) and an account of the work.
What is chosen follows from counts of the work done, never from a clock, and decides nothing but the work.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.heap_search import heap_rows, settling_order
from scalemani.engine.lane_products import lane_products
from scalemani.engine.path_graph import PathGraph, Workspace
from scalemani.engine.settling import renumber, scatter_lanes, settle, start_lanes

MOST_SEPARATE = 2.0  # fronts that are still apart, in the mean, for which a batch can win: see `settling_order`
STRAY = 3.0  # passes more than the heap's of one row, after which an old order is given up: it is a new one's price
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


def find_rows(
    graph: PathGraph, sources: Sources, first: int, work: Work, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Rows (l, n - first) of float32, in `out` where that is given."""
    shape = len(sources.indptr) - 1, graph.shape[0] - first
    rows = np.empty(shape, np.float32) if out is None else out
    if rows.shape != shape or rows.dtype != np.float32 or not rows.flags.c_contiguous:
        raise ValueError(f"out of shape {rows.shape}, {rows.dtype}: C-contiguous float32 of shape {shape} is needed")
    space = graph.workspace()
    search = _Search(space, sources, work)
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
    search = _Search(space, sources, work)
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
    """One call: the choice between an old order, a new one and the heap, batch by batch.

    An order is kept while that is the cheapest: a batch away from where the order was made needs more
    relaxations, and a new order is worth its price as soon as a batch costs more than the average since the
    last one, its price included. Work is counted in passes: one relaxation of every edge for a whole batch.
    """

    def __init__(self, space: Workspace, sources: Sources, work: Work) -> None:
        self.space, self.sources, self.work = space, sources, work
        most = len(sources.seeds) + space.entries + 1
        self.heap = np.empty(most, np.int64), np.empty(most, np.int32)
        self.ordered = False  # whether the workspace holds an order that is worth another batch
        self.spent, self.settled = 0.0, 0  # since it was made: passes with its price, batches
        self.window = 1
        self.heap_passes = 1.0  # what a row costs on the heap
        self.to_skip, self.next_skip = 0, 1  # batches that go to the heap unseen; how many after the next failure

    def batches(self) -> Iterator[tuple[NDArray[np.int64], bool]]:
        """Batches in the order of their first seeds: solved in the lanes (True), or left to the heap."""
        indptr, seeds, _ = self.sources
        by_seed = np.argsort(first_seeds(indptr, seeds), kind="stable")
        for at in range(0, len(by_seed), self.space.lanes):
            batch = by_seed[at : at + self.space.lanes]
            together = self._side_by_side(batch)
            self.work.batches += together
            self.work.heap_rows += 0 if together else len(batch)
            yield batch, together

    def _side_by_side(self, batch: NDArray[np.int64]) -> bool:
        """Solve a batch in its lanes; False where the heap is the better choice."""
        by_heap = self.heap_passes * len(batch)
        if self.ordered and self._settle(batch, min(self.heap_passes + STRAY, PATIENCE * by_heap)):
            return True
        self.ordered = False
        if self.to_skip > 0 or len(batch) <= 2:
            self.to_skip -= 1
            return False
        separate = self._make_order(batch)
        if separate <= MOST_SEPARATE and self._settle(batch, PATIENCE * self.heap_passes * len(batch)):
            return True
        self.ordered = False
        self.to_skip, self.next_skip = self.next_skip, 2 * self.next_skip
        return False

    def _make_order(self, batch: NDArray[np.int64]) -> float:
        """Order the vertices by the search from all seeds of a batch, and renumber the graph; fronts apart."""
        space, (indptr, seeds, starts) = self.space, self.sources
        of_batch = np.concatenate([np.arange(indptr[s], indptr[s + 1]) for s in batch])
        source_of = np.repeat(np.arange(len(batch)), indptr[batch + 1] - indptr[batch])
        scratch = *self.heap, space.near, space.owner, space.order
        separate, waiting = settling_order(*space.csr, seeds[of_batch], starts[of_batch], source_of, *scratch)
        self.work.orders += 1
        degree = space.entries / space.n
        # Nanoseconds a vertex, as measured on a line, a star, rolls, images and Gaussian clouds; the ratio matters.
        self.heap_passes = (8 * degree + 12 * np.log2(1 + waiting)) / (60 + 10 * degree)
        if separate <= MOST_SEPARATE:
            renumber(*space.csr, space.order, space.rank, *space.renumbered)
            self.ordered = True
            self.spent, self.settled = self.heap_passes + 1, 0
        return float(separate)

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


def first_seeds(indptr: NDArray[np.int64], seeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first vertex that each source starts at, -1 for a source without any: near in number is near in space."""
    first = np.full(len(indptr) - 1, -1, np.int64)
    attached = np.diff(indptr) > 0
    first[attached] = seeds[indptr[:-1][attached]]
    return first
