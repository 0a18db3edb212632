"""Kernels: distances from one vertex in steps of a fraction of an edge, for orders, on buckets instead of a heap.

An order of the vertices needs to know about how far each is, not the distance: lengths are rounded up to whole
steps, so that vertices wait in as many buckets as the longest edge has steps (Dial, Communications of the ACM 12,
1969, 632-633). A vertex enters and leaves its bucket in constant time, a third of what the heap takes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.kernel_cache import compiled

BUCKETS = 256  # a power of two
STEPS = 8  # in the median edge
SAMPLE = 1 << 16  # edges that the median is taken of
FAR = np.iinfo(np.int32).max  # what distances are before a search


def whole_steps(weights: NDArray[Any], n: int) -> NDArray[np.uint8]:
    """Lengths of edges in steps, 1 to 255; fewer on graphs of n vertices whose longest path could overflow.

    Lengths far from the median one count as equal ones: where all edges are so, distances are numbers of edges.
    """
    most = max(1, min(BUCKETS - 1, (FAR - 1) // max(n, 1)))
    some = weights[:: max(1, len(weights) // SAMPLE)]
    some = some[(some > 0) & (some < np.inf)]
    steps = np.ones(len(weights), np.uint8)
    if some.size:
        _round_up(weights, float(np.median(some)) / STEPS, most, steps)
    return steps


@compiled()
def _round_up(weights: Any, unit: float, most: int, steps: Any) -> None:
    """Fill `steps` with ``weights / unit``, rounded up, 1 to `most`."""
    for e in range(weights.shape[0]):
        if weights[e] >= most * unit:
            steps[e] = most
        elif weights[e] > unit:
            steps[e] = np.ceil(weights[e] / unit)


@compiled()
def search(
    indptr: Any,
    indices: Any,
    steps: Any,
    part: Any,
    label: int,
    source: int,
    distance: Any,
    heads: Any,
    after: Any,
    before: Any,
    order: Any,
    filled: int,
) -> tuple[int, int]:
    """Distances from `source` over the vertices whose `part` is `label`; they go to order[filled:] as they are reached.

    distance (n,): FAR on the part.
    heads (BUCKETS,): -1, and so again afterwards.
    after, before (n,): Scratch: neighbours in a vertex's bucket.
    -> filled: Where they end in `order`; the last one is a farthest.
    -> waited: Vertices that wait in buckets, summed over those that are reached.
    """
    distance[source] = 0
    heads[0] = source
    after[source] = -1
    before[source] = -1
    waiting = 1
    waited = 0
    now = 0
    while waiting > 0:
        u = heads[now % BUCKETS]
        if u < 0:
            now += 1
            continue
        follower = after[u]
        heads[now % BUCKETS] = follower
        if follower >= 0:
            before[follower] = -1
        waited += waiting
        waiting -= 1
        order[filled] = u
        filled += 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            through = now + steps[e]
            if through >= distance[v] or part[v] != label:
                continue
            if distance[v] == FAR:
                waiting += 1
            else:
                leader = before[v]
                follower = after[v]
                if leader >= 0:
                    after[leader] = follower
                else:
                    heads[distance[v] % BUCKETS] = follower
                if follower >= 0:
                    before[follower] = leader
            distance[v] = through
            follower = heads[through % BUCKETS]
            heads[through % BUCKETS] = v
            after[v] = follower
            before[v] = -1
            if follower >= 0:
                before[follower] = v
    return filled, waited
