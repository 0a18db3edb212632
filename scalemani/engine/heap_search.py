"""Kernels: Dijkstra's algorithm on a heap, for single rows and for the order of a batch.

`heap_rows` is the plain search: what rows are where no batch pays. `settling_order` runs once from all
the seeds of a batch together and gives the order in which vertices are settled: the order that
:mod:`scalemani.engine.settling` relaxes them in.

The heap is 4-ary and holds one number an entry: the bits of a float32 distance, which have its order,
above the number of the vertex. A vertex enters again when its distance falls, and what it left behind
is passed over. Sums in float64 go through the same heap: a vertex that falls by less than a float32
shows, after it was settled, enters again.
"""

from typing import Any

import numpy as np

from scalemani.engine.kernel_cache import compiled


@compiled(inline="always")
def push(heap: Any, size: int, bits: int, v: int) -> int:
    """Put vertex v with the bits of its distance on a heap of `size` entries; the size afterwards."""
    entry = (np.int64(bits) << 32) | np.int64(v)
    i = size
    while i > 0:
        parent = (i - 1) >> 2
        if heap[parent] <= entry:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = entry
    return size + 1


@compiled(inline="always")
def drop_first(heap: Any, size: int) -> int:
    """Take the least entry off a heap of `size` entries; the size afterwards."""
    size -= 1
    entry = heap[size]
    i = 0
    while True:
        child = 4 * i + 1
        if child >= size:
            break
        best = child
        least = heap[child]
        for other in range(child + 1, min(child + 4, size)):
            if heap[other] < least:
                best = other
                least = heap[other]
        if least >= entry:
            break
        heap[i] = least
        i = best
    heap[i] = entry
    return size


@compiled(inline="always")
def next_settled(heap: Any, size: int, distance: Any, single: Any, bits: Any) -> tuple[int, int]:
    """The nearest vertex whose entry still holds, and the heap's size afterwards; vertex -1 where none is left.

    `single` is one float32 of scratch and `bits` the same memory as an integer.
    """
    u = -1
    while size > 0 and u < 0:
        nearest = heap[0]
        size = drop_first(heap, size)
        v = nearest & 0xFFFFFFFF
        single[0] = distance[v]
        if bits[0] >= nearest >> 32:
            u = v
    return u, size


@compiled()
def heap_rows(
    indptr: Any,
    indices: Any,
    weights: Any,
    seed_indptr: Any,
    seeds: Any,
    starts: Any,
    chosen: Any,
    first: int,
    heap: Any,
    distance: Any,
    rows: Any,
) -> None:
    """Fill rows[s] for each s in `chosen` with the distances of vertices `first`.. from the seeds of s.

    Sums are in the dtype of `distance` (n,) and rounded once, to that of `rows`. `heap` (one more than
    all seeds and edges) of int64 is scratch.
    """
    single = np.empty(1, np.float32)
    bits = single.view(np.int32)
    for s in chosen:
        distance[:] = np.inf
        size = 0
        for q in range(seed_indptr[s], seed_indptr[s + 1]):
            v = seeds[q]
            if starts[q] < distance[v]:
                distance[v] = starts[q]
                single[0] = starts[q]
                size = push(heap, size, bits[0], v)
        while True:
            u, size = next_settled(heap, size, distance, single, bits)
            if u < 0:
                break
            reach = distance[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                through = reach + weights[e]
                if through < distance[v]:
                    distance[v] = through
                    single[0] = through
                    size = push(heap, size, bits[0], v)
        for v in range(first, distance.shape[0]):
            rows[s, v - first] = distance[v]


@compiled()
def settling_order(
    indptr: Any,
    indices: Any,
    weights: Any,
    seeds: Any,
    starts: Any,
    sources: Any,
    heap: Any,
    distance: Any,
    owner: Any,
    order: Any,
) -> tuple[float, float]:
    """Fill `order` (n,) with the vertices as Dijkstra's algorithm settles them from all seeds together.

    Vertices that no seed reaches come last, by number.

    Parameters
    ----------
    sources : ndarray of int64
        Source of each seed, numbered from 0, ascending; a source may have none.
    heap, distance, owner : ndarray
        Scratch: int64 (one more than all seeds and edges), float32 (n,), int32 (n,).

    Returns
    -------
    separate : float
        Fronts that have not met the rest yet, in the mean over the settled vertices. Each of these is
        settled again by every front that reaches it later: near 0 for neighbours, and for scattered
        sources about the relaxations of a vertex that solving them together takes.
    waiting : float
        Entries in the heap, in the mean.
    """
    n = distance.shape[0]
    single = np.empty(1, np.float32)
    bits = single.view(np.int32)
    root = np.arange(1 + (sources[-1] if sources.shape[0] else 0))
    distance[:] = np.inf
    owner[:] = -1
    size = 0
    fronts = 0
    known = -1
    for q in range(seeds.shape[0]):
        v = seeds[q]
        s = sources[q]
        if s != known:  # the seeds of a source follow each other
            known = s
            fronts += 1
        if owner[v] >= 0:
            fronts -= joined(root, owner[v], s)
        if starts[q] < distance[v]:
            distance[v] = starts[q]
            owner[v] = s
            single[0] = starts[q]
            size = push(heap, size, bits[0], v)
    reached = 0
    separate = 0
    waiting = 0
    while True:
        waiting += size
        u, size = next_settled(heap, size, distance, single, bits)
        if u < 0:
            break
        reach = distance[u]
        order[reached] = u
        reached += 1
        separate += fronts - 1
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if fronts > 1 and owner[v] >= 0 and owner[v] != owner[u]:
                fronts -= joined(root, owner[v], owner[u])
            through = reach + weights[e]
            if through < distance[v]:
                distance[v] = through
                owner[v] = owner[u]
                single[0] = through
                size = push(heap, size, bits[0], v)
    filled = reached
    for v in range(n):
        if distance[v] == np.inf:
            order[filled] = v
            filled += 1
    return separate / max(reached, 1), waiting / max(reached, 1)


@compiled()
def joined(root: Any, a: int, b: int) -> int:
    """Make the sets of a and b one; whether they were two."""
    while root[a] != a:
        root[a] = root[root[a]]
        a = root[a]
    while root[b] != b:
        root[b] = root[root[b]]
        b = root[b]
    root[a] = b
    return int(a != b)


@compiled()
def most_hops(indptr: Any, indices: Any, weights: Any, source: int, heap: Any, distance: Any, hops: Any) -> int:
    """The most edges on a shortest path from `source`, of those that Dijkstra's algorithm finds."""
    single = np.empty(1, np.float32)
    bits = single.view(np.int32)
    distance[:] = np.inf
    distance[source] = 0
    hops[source] = 0
    size = push(heap, 0, 0, source)
    most = 0
    while True:
        u, size = next_settled(heap, size, distance, single, bits)
        if u < 0:
            break
        reach = distance[u]
        most = max(most, hops[u])
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            through = reach + weights[e]
            if through < distance[v]:
                distance[v] = through
                hops[v] = hops[u] + 1
                single[0] = through
                size = push(heap, size, bits[0], v)
    return most
