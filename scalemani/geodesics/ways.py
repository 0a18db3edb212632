"""Kernels around a place in a graph: the vertices nearest to it, and how many ways lead from one place to another.

Ways are paths without a common edge. Their greatest number is a maximum flow, found one way after the other by the
shortest augmenting path, and the edges that part the two places are a minimum cut (Ford and Fulkerson 1956; Edmonds and
Karp 1972). No more ways are looked for than are asked for. An edge of infinite length is not there.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import I64
from scalemani.cluster.kernel_cache import compiled
from scalemani.geodesics.heap import next_settled, push

Pairs = list[tuple[int, int]]  # a vertex, and an entry of its row


class Neighborhoods:
    """A graph whose edges may be taken out and put back, with the scratch that its kernels need.

    weights (entries,): Lengths, float32; inf where an edge is out.
    visits: Vertices that were visited to count ways through the whole graph.
    """

    def __init__(self, graph: sp.csr_array) -> None:
        self.indptr, self.indices = np.asarray(graph.indptr, np.int64), np.asarray(graph.indices, np.int32)
        self.weights = np.array(graph.data, np.float32)
        self.shape, entries, n = graph.shape, len(self.indices), graph.shape[0]
        self._distance = np.full(n, np.inf, np.float32)
        self._goal, self._inside = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._heap = np.empty(entries + 3, np.int64), np.empty(entries + 3, np.int32)
        self._net, self._entry, self._came = np.zeros(entries, np.int8), np.full(n, -2, np.int64), np.empty(n, np.int32)
        self._queue = np.empty(n, np.int32)
        self.visits = 0

    @property
    def graph(self) -> sp.csr_array:
        """The edges that are in; the others have infinite length."""
        return sp.csr_array((self.weights, self.indices, self.indptr), shape=self.shape)

    def entry(self, row: int, column: int) -> int:
        """The entry of an edge in a row."""
        first, last = self.indptr[row], self.indptr[row + 1]
        return int(first + np.searchsorted(self.indices[first:last], column))

    def take(self, edges: Pairs) -> list[float]:
        """Take edges out; their lengths."""
        lengths = [float(self.weights[entry]) for _, entry in edges]
        self.put(edges, [np.inf] * len(edges))
        return lengths

    def put(self, edges: Pairs, lengths: list[float]) -> None:
        """Give edges these lengths; inf takes one out."""
        for (row, entry), length in zip(edges, lengths, strict=True):
            self.weights[entry] = self.weights[self.entry(int(self.indices[entry]), row)] = length

    def nearest(self, seeds: list[int], reach: float, most: int) -> tuple[I64, float]:
        """The vertices nearest to any of the seeds, nearest first, up to `most` within `reach`; how far the last is."""
        found = np.empty(min(most, self.shape[0]), np.int64)
        csr = self.indptr, self.indices, self.weights
        count, last = _settle(*csr, np.array(seeds, np.int64), np.float32(reach), self._distance, *self._heap, found)
        return found[:count], float(last)

    def apart(self, one: int, other: int, reach: float) -> bool:
        """Whether two vertices are farther apart than `reach`."""
        return other not in self.nearest([one], reach, self.shape[0])[0]

    def ways(self, starts: I64, ends: I64, most: int, among: I64 | None = None) -> tuple[int, Pairs, Pairs]:
        """How many ways lead from some vertices to others. It stops at `most`; fewer come with two minimum cuts.

        among: The vertices that ways may run through besides; all unless given.
        -> ways
        -> the cut nearest to `starts`, that nearest to `ends`
        """
        self._goal[ends] = True
        bounded = among is not None
        places = () if among is None else (among, starts, ends)
        for some in places:
            self._inside[some] = True
        cut = np.empty((2, max(most, 1), 2), np.int64)
        csr = self.indptr, self.indices, self.weights
        scratch = self._net, self._entry, self._came, self._queue
        ways, visits = _count(*csr, starts, ends, self._goal, self._inside, bounded, most, *scratch, cut)
        self.visits += 0 if bounded else visits
        self._goal[ends] = False
        for some in places:
            self._inside[some] = False
        if ways >= most:
            return ways, [], []
        first, last = ([(int(row), int(entry)) for row, entry in half[:ways]] for half in cut)
        return ways, first, last


@compiled()
def _settle(
    indptr: Any, indices: Any, weights: Any, seeds: Any, reach: Any, distance: Any, keys: Any, names: Any, found: Any
) -> tuple[int, float]:
    """Fill `found` with the vertices nearest to the seeds, within `reach`; their number, and how far the last is.

    distance (n,): inf before and after. keys, names: Scratch, for all seeds and edges.
    """
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    size = 0
    for v in seeds:
        distance[v] = 0
        size = push(keys, names, size, 0, v)
    count, last = 0, 0.0
    while count < found.shape[0]:
        u, size = next_settled(keys, names, size, distance, number, bits)
        if u < 0 or distance[u] > reach:
            break
        found[count] = u
        count += 1
        last = float(distance[u])
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            through = distance[u] + weights[e]
            if through < distance[v]:
                distance[v] = through
                number[0] = through
                size = push(keys, names, size, bits[0], v)
    for v in seeds:
        distance[v] = np.inf
    for at in range(count):
        u = found[at]
        distance[u] = np.inf
        for e in range(indptr[u], indptr[u + 1]):
            distance[indices[e]] = np.inf
    return count, last


@compiled()
def _count(
    indptr: Any, indices: Any, weights: Any, starts: Any, ends: Any, goal: Any, inside: Any, bounded: bool, most: int,
    net: Any, entry: Any, came: Any, queue: Any, cut: Any,
) -> tuple[int, int]:  # fmt: skip
    """Ways from `starts` to `ends`, and vertices visited; fewer ways than `most` fill `cut`.

    goal (n,): Whether a vertex is one of the ends.
    net (entries,): 0 before and after; 1 on the entries of a way, -1 on those against it.
    entry (n,): -2 before and after; the entry by which a vertex was reached, -1 where a search begins.
    came (n,): The vertex from which it was.
    """
    ways, visits = 0, 0
    used = [(0, 0) for _ in range(0)]
    while ways < most:
        filled, end = _search(indptr, indices, weights, starts, goal, inside, bounded, net, 1, entry, came, queue)
        visits += filled
        v = end
        while end >= 0 and entry[v] >= 0:
            onward, back = entry[v], _entry_of(indptr, indices, v, came[v])
            net[onward] += 1
            net[back] -= 1
            used.append((onward, back))
            v = came[v]
        if end < 0:
            _boundary(indptr, indices, weights, inside, bounded, entry, queue, filled, cut[0])
        for at in range(filled):
            entry[queue[at]] = -2
        if end < 0:  # and from the other end
            filled, _ = _search(indptr, indices, weights, ends, goal, inside, bounded, net, -1, entry, came, queue)
            visits += filled
            _boundary(indptr, indices, weights, inside, bounded, entry, queue, filled, cut[1])
            for at in range(filled):
                entry[queue[at]] = -2
            break
        ways += 1
    for onward, back in used:
        net[onward] = 0
        net[back] = 0
    return ways, visits


@compiled()
def _search(
    indptr: Any, indices: Any, weights: Any, begun: Any, goal: Any, inside: Any, bounded: bool, net: Any, sign: int,
    entry: Any, came: Any, queue: Any,
) -> tuple[int, int]:  # fmt: skip
    """Breadth first along entries that have room until a goal is reached; if `sign` is -1, against them, everywhere.

    -> vertices in the queue, and the goal, or -1
    """
    filled = 0
    for v in begun:
        entry[v] = -1
        queue[filled] = v
        filled += 1
    at = 0
    while at < filled:
        u = queue[at]
        at += 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if entry[v] != -2 or weights[e] == np.inf or sign * net[e] >= 1 or (bounded and not inside[v]):
                continue
            entry[v] = e
            came[v] = u
            queue[filled] = v
            filled += 1
            if sign > 0 and goal[v]:
                return filled, v
    return filled, -1


@compiled()
def _boundary(
    indptr: Any, indices: Any, weights: Any, inside: Any, bounded: bool, entry: Any, queue: Any, filled: int, cut: Any
) -> None:
    """Fill `cut` with the entries that lead from the vertices of a queue to others."""
    count = 0
    for at in range(filled):
        u = queue[at]
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if entry[v] == -2 and weights[e] < np.inf and not (bounded and not inside[v]) and count < cut.shape[0]:
                cut[count, 0] = u
                cut[count, 1] = e
                count += 1


@compiled()
def _entry_of(indptr: Any, indices: Any, row: int, column: int) -> int:
    """The entry of a column in a row, whose columns ascend."""
    low, high = indptr[row], indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < column:
            low = middle + 1
        else:
            high = middle
    return int(low)
