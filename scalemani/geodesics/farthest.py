"""Kernel: vertices of a graph chosen one after another, each the farthest from those before it along the graph.

Takes a symmetric CSR graph, gives the vertices in the order of choice and how far each was from the others. It is
Gonzalez' farthest-first traversal (Theoretical Computer Science 38, 1985), exact, without a row of distances: what is
kept is each vertex's distance to the nearest chosen one, and Dijkstra's search from a new one goes no further than the
vertices that it is nearer to. The regions shrink as 1/m, so that m vertices cost about log m searches of the graph.
"""

from typing import Any, NamedTuple

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.cluster.kernel_cache import compiled
from scalemani.geodesics.heap import next_settled, push

RUN = 1024  # vertices whose largest distance is kept, so that a new one looks at few of them


class Farthest(NamedTuple):
    """Vertices in the order of choice.

    vertices (m,)
    distances (m,): Of each to the nearest of those before it; inf for the first.
    reach: No vertex is farther from the nearest chosen one.
    """

    vertices: I64
    distances: F64
    reach: float


def farthest_points(graph: Any, count: int) -> Farthest:
    """Choose vertices; the first is the one farthest from vertex 0. Of equally far ones that with the least number.

    graph (n, n): Symmetric, connected; weights >= 0, stored zeros are edges.
    count: 1 to n.

    Ten points on a line: the far end, the near one, the middle, ...

    >>> import scipy.sparse as sp
    >>> line = sp.diags_array([np.ones(9), np.ones(9)], offsets=[-1, 1]).tocsr()
    >>> found = farthest_points(line, 4)
    >>> found.vertices.tolist(), found.distances.tolist(), found.reach
    ([9, 0, 4, 2], [inf, 9.0, 4.0, 2.0], 2.0)
    """
    n = graph.shape[0]
    nearest = np.full(n, np.inf)
    csr = np.asarray(graph.indptr, np.int64), np.asarray(graph.indices, np.int32), np.asarray(graph.data, np.float32)
    vertices, distances = np.empty(count, np.int64), np.empty(count)
    reach = _choose(*csr, nearest, vertices, distances)
    return Farthest(vertices, distances, float(reach))


def farthest_points_bytes(n: int, edges: int) -> int:
    """What :func:`farthest_points` holds besides the graph: a distance a vertex, and the heap."""
    return 8 * n + (8 + 4) * (edges + 1)


@compiled()
def _choose(indptr: Any, indices: Any, weights: Any, nearest: Any, vertices: Any, distances: Any) -> float:
    """Fill `vertices` and `distances` (m,); `nearest` (n,) begins and is used as inf. Gives the reach."""
    n = nearest.shape[0]
    keys = np.empty(indices.shape[0] + 1, np.int64)
    names = np.empty(indices.shape[0] + 1, np.int32)
    runs = (n + RUN - 1) // RUN
    largest = np.full(runs, np.inf)
    place = np.zeros(runs, np.int64)
    changed = np.ones(runs, np.bool_)
    _search(indptr, indices, weights, 0, nearest, changed, keys, names)
    first = _farthest(nearest, largest, place, changed)
    nearest[:] = np.inf
    changed[:] = True
    for chosen in range(vertices.shape[0]):
        v = first if chosen == 0 else _farthest(nearest, largest, place, changed)
        vertices[chosen] = v
        distances[chosen] = nearest[v]
        _search(indptr, indices, weights, v, nearest, changed, keys, names)
        nearest[v] = -1.0  # never again, also where others are at distance 0
    return max(float(nearest[_farthest(nearest, largest, place, changed)]), 0.0)


@compiled()
def _search(
    indptr: Any, indices: Any, weights: Any, source: int, nearest: Any, changed: Any, keys: Any, names: Any
) -> None:
    """Dijkstra's search from `source` over the vertices that it is nearer to than `nearest` says."""
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    nearest[source] = 0.0
    changed[source // RUN] = True
    size = push(keys, names, 0, 0, source)
    while True:
        u, size = next_settled(keys, names, size, nearest, number, bits)
        if u < 0:
            break
        reach = nearest[u]
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            through = reach + weights[e]
            if through < nearest[v]:
                nearest[v] = through
                changed[v // RUN] = True
                number[0] = through
                size = push(keys, names, size, bits[0], v)


@compiled()
def _farthest(nearest: Any, largest: Any, place: Any, changed: Any) -> int:
    """The vertex of the largest `nearest`, the least of equals; only runs of vertices that changed are looked at."""
    n = nearest.shape[0]
    best = 0
    for run in range(largest.shape[0]):
        if changed[run]:
            changed[run] = False
            at = run * RUN
            for v in range(at, min(at + RUN, n)):
                if nearest[v] > nearest[at]:
                    at = v
            largest[run] = nearest[at]
            place[run] = at
        if largest[run] > largest[best]:
            best = run
    return int(place[best])
