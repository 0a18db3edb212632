"""What joins the components of a graph that falls apart.

That is the shortest bridges between them, the least number of neighbours, or a line of advice with these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from scalemani.aliases import F64, I64
from scalemani.graph.edges import csr_of, row_numbers, two_directions
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.lists import NeighborLists

SMALL = 32  # rows: components of no more find their ways out from one common query
JOIN = "disconnected='join' (adds the shortest bridges) or "
_KEEP = "disconnected='largest' (keeps the largest component; the other rows become NaN)"
NOTHING_JOINS = f"under this metric their rows have nothing in common: use another one, or give {_KEEP}"


def shortest_bridges(labels: I64, search: ExactSearch, small: int = SMALL) -> tuple[I64, F64]:
    """Join components by the edges of a minimum spanning tree of them (Borůvka's way).

    In every round each component, the largest excepted, finds its shortest way out, and takes it
    unless its ends have been joined in the same round. The number of components at least halves
    in a round, so that ``search.nearest_between`` is called less than twice for each; where many
    components are strays of a few rows, one ``search.nearest`` for all of these spares most calls.

    labels (m,): The component, 0 to c - 1, of each distinct row.
    small: Components of up to this many rows use the common query.
    -> bridges (c - 1, 2): Distinct rows, the smaller first; from the shortest bridge to the longest.
    -> lengths (c - 1,)

    Where a component has nothing in common with any other, not all bridges are found, but one that says so.
    """
    labels = labels.copy()
    nearby = _Nearby(labels, search, small)
    found: list[tuple[float, int, int]] = []
    while True:
        groups = _members(labels)
        if len(groups) == 1:
            break
        largest = max(range(len(groups)), key=lambda g: groups[g].size)
        ways = []
        for g, inside in enumerate(groups):
            if g != largest:
                i, j, length = nearby.way_out(inside, labels) or search.nearest_between(
                    inside, np.flatnonzero(labels != g)
                )
                ways.append((float(length), min(int(i), int(j)), max(int(i), int(j))))
        if search.apart(np.array([way[0] for way in ways])).any():
            found = ways  # no bridge is right: that is all that is asked then
            break
        parent = list(range(len(groups)))
        for length, i, j in sorted(ways):
            # An equally long way can close a ring within one round: a bridge too many.
            root_i, root_j = _root(parent, int(labels[i])), _root(parent, int(labels[j]))
            if root_i != root_j:
                parent[max(root_i, root_j)] = min(root_i, root_j)
                found.append((length, i, j))
        roots = np.array([_root(parent, g) for g in range(len(groups))], dtype=np.int64)
        labels = np.unique(roots[labels], return_inverse=True)[1].astype(np.int64)
    found.sort()
    bridges = np.array([(i, j) for _, i, j in found], dtype=np.int64).reshape(-1, 2)
    return bridges, np.array([length for length, _, _ in found], dtype=np.float64)


class _Nearby:
    """The nearest rows of all rows in small components: more of them than such a component has members."""

    def __init__(self, labels: I64, search: ExactSearch, small: int) -> None:
        own = np.flatnonzero(np.bincount(labels)[labels] <= small)
        if own.size == labels.size and np.all(labels == labels[0]):
            own = own[:0]  # one component needs no way out
        self.place = np.full(labels.size, -1, dtype=np.int64)
        self.place[own] = np.arange(own.size)
        self.rank = search.tie_rank
        if own.size:
            k = min(small, labels.size - 1)
            self.indices, self.distances = search.nearest(search.rows[own], k, exclude=own)

    def way_out(self, inside: I64, labels: I64) -> tuple[int, int, float] | None:
        """The shortest way out of the rows `inside`; None where the lists don't reach far enough to tell."""
        place = self.place[inside]
        if place.min() < 0:
            return None
        outside = labels[self.indices[place]] != labels[inside[0]]
        leaves = outside.any(axis=1)
        first = outside.argmax(axis=1)
        lengths = np.where(leaves, self.distances[place, first], np.inf)
        length = float(lengths.min())
        # A list without a way out says only that there is none shorter than its end.
        if not length < self.distances[place[~leaves], -1].min(initial=np.inf):
            return None
        tied = np.flatnonzero(lengths == length)
        i, j = inside[tied], self.indices[place[tied], first[tied]]
        low, high = np.minimum(self.rank[i], self.rank[j]), np.maximum(self.rank[i], self.rank[j])
        best = np.lexsort((high, low))[0]
        return int(i[best]), int(j[best]), length


def _members(labels: I64) -> list[I64]:
    """The rows of each component, in order of the labels 0 to c - 1."""
    by_label = np.argsort(labels, kind="stable").astype(np.int64)
    return np.split(by_label, np.cumsum(np.bincount(labels))[:-1])


def _root(parent: list[int], g: int) -> int:
    """The component that `g` has been joined into; shortens the path on its way."""
    while parent[g] != g:
        parent[g] = parent[parent[g]]
        g = parent[g]
    return g


def least_neighbors(lists: NeighborLists, kind: str = "union") -> int | None:
    """The least k whose graph has one component, from longer lists; None where even these don't join.

    It is the longest edge of a minimum spanning tree in which an edge counts its place in the list
    of either end (the smaller for a union graph, the larger for a mutual one).
    """
    m = len(lists.indptr) - 1
    if m == 1:
        return 0
    rows = row_numbers(lists.indptr)
    # Places start at 1, so minimum_spanning_tree, which drops zeros, loses nothing.
    place = (np.arange(rows.size) - np.asarray(lists.indptr, dtype=np.int64)[rows] + 1).astype(np.float64)
    rows, columns, there, back = two_directions(rows, np.asarray(lists.indices, dtype=np.int64), place, m)
    rank = np.minimum(there, back) if kind == "union" else np.maximum(there, back)
    edge = np.isfinite(rank)
    tree = minimum_spanning_tree(csr_of(rows[edge], columns[edge], rank[edge], m))
    return int(tree.data.max()) if tree.nnz == m - 1 else None


def what_to_do(
    labels: I64,
    disconnected: str,
    search: ExactSearch | None,
    n_neighbors: int | None,
    radius: float | None,
    least: Callable[[int], int | None] | None,
) -> str:
    """Say how the components that `labels` (m,) gives could be joined.

    `least` is asked once, for the least number of neighbours up to the k it is given (4 times
    `n_neighbors`); the bridges are looked for only where that finds none.
    """
    if search is None:
        why = "disconnected='join' is impossible, since no distances between components are known"
        if disconnected == "join":
            return f"{why}; add the missing edges, or give {_KEEP}"
        return f"add the missing edges, or give {_KEEP}; {why}"
    ways = f"or give {JOIN}{_KEEP}"
    if n_neighbors is not None and least is not None:
        up_to = min(4 * n_neighbors, labels.size - 1)
        k = least(up_to) if up_to > n_neighbors else None
        if k is not None and k <= n_neighbors:
            return f"longer lists join it with {k} neighbours already: give knn='exact', {ways}"
        if k is not None:
            return f"n_neighbors={k} is the least that joins them, {ways}"
    lengths = shortest_bridges(labels, search)[1]
    if search.apart(lengths).any():
        return NOTHING_JOINS
    length = _rounded_up(float(lengths.max()))
    if radius is not None:
        return f"radius={length} is the least that joins them, {ways}"
    if n_neighbors is not None and least is not None:
        return f"no n_neighbors up to {up_to} joins them: that takes a bridge of {length}; {ways[3:]}"
    return f"the longest of the shortest bridges that join them is {length}; {ways[3:]}"


def _rounded_up(length: float) -> str:
    """Six digits of a number not below `length`: as a radius it must reach."""
    if length == 0.0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(length)) - 5)
    text = f"{math.ceil(length / step) * step:.6g}"
    return text if float(text) >= length else repr(length)
