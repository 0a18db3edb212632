"""Kernels: Dijkstra's algorithm on a heap, for single rows and for the order of a batch.

`heap_rows` is the plain search: what rows are where no batch pays. `settling_order` runs once from all
the seeds of a batch together and gives the order in which vertices are settled: the order that
:mod:`scalemani.geodesics.lanes` relaxes them in.

The heap is 4-ary and lies in two arrays: `keys`, the bits of distances in float64, which have their
order, and `names`, the vertices. A vertex enters again when its distance falls, and what it left behind
is passed over. Keys are exact in either precision, so that a vertex is settled once and each edge
enters once: neither array needs more than all seeds and edges.
"""

from typing import Any

import numpy as np

from scalemani.cluster.kernel_cache import compiled


@compiled(inline="always")
def push(keys: Any, names: Any, size: int, key: int, v: int) -> int:
    """Put vertex v with its key on a heap of `size` entries; the size afterwards."""
    i = size
    while i > 0:
        parent = (i - 1) >> 2
        if keys[parent] <= key:
            break
        keys[i] = keys[parent]
        names[i] = names[parent]
        i = parent
    keys[i] = key
    names[i] = v
    return size + 1


@compiled(inline="always")
def drop_first(keys: Any, names: Any, size: int) -> int:
    """Take the least entry off a heap of `size` entries; the size afterwards."""
    size -= 1
    key = keys[size]
    i = 0
    while True:
        child = 4 * i + 1
        if child >= size:
            break
        best = child
        least = keys[child]
        for other in range(child + 1, min(child + 4, size)):
            if keys[other] < least:
                best = other
                least = keys[other]
        if least >= key:
            break
        keys[i] = least
        names[i] = names[best]
        i = best
    keys[i] = key
    names[i] = names[size]
    return size


@compiled(inline="always")
def next_settled(keys: Any, names: Any, size: int, distance: Any, number: Any, bits: Any) -> tuple[int, int]:
    """The nearest vertex whose entry still holds, and the heap's size afterwards; vertex -1 where none is left.

    `number` is one float64 of scratch and `bits` the same memory as an integer.
    """
    u = -1
    while size > 0 and u < 0:
        key = keys[0]
        v = names[0]
        size = drop_first(keys, names, size)
        number[0] = distance[v]
        if bits[0] >= key:
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
    keys: Any,
    names: Any,
    distance: Any,
    rows: Any,
) -> None:
    """Fill rows[s] for each s in `chosen` with the distances of vertices `first`.. from the seeds of s.

    Sums are in the dtype of `distance` (n,) and rounded once, to that of `rows`. `keys` and
    `names` (one more than all seeds and edges) of int64 and int32 are scratch.
    """
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    for s in chosen:
        distance[:] = np.inf
        size = 0
        for q in range(seed_indptr[s], seed_indptr[s + 1]):
            v = seeds[q]
            if starts[q] < distance[v]:
                distance[v] = starts[q]
                number[0] = starts[q]
                size = push(keys, names, size, bits[0], v)
        while True:
            u, size = next_settled(keys, names, size, distance, number, bits)
            if u < 0:
                break
            reach = distance[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                through = reach + weights[e]
                if through < distance[v]:
                    distance[v] = through
                    number[0] = through
                    size = push(keys, names, size, bits[0], v)
        rows[s, :] = distance[first:]


@compiled()
def settling_order(
    indptr: Any,
    indices: Any,
    weights: Any,
    seeds: Any,
    starts: Any,
    sources: Any,
    keys: Any,
    names: Any,
    distance: Any,
    owner: Any,
    order: Any,
) -> tuple[float, float]:
    """Fill `order` (n,) with the vertices as Dijkstra's algorithm settles them from all seeds together.

    Vertices that no seed reaches come last, by number.

    sources: Source of each seed, numbered from 0, ascending; a source may have none.
    keys, names, distance, owner: Scratch: int64 and int32 (one more than all seeds and edges), float32 (n,), int32
        (n,).
    -> separate: Fronts that have not met the rest yet, in the mean over the settled vertices. Each of these is settled
        again by every front that reaches it later: near 0 for neighbours, and for scattered sources about the
        relaxations of a vertex that solving them together takes.
    -> waiting: Entries in the heap, in the mean.
    """
    n = distance.shape[0]
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
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
            number[0] = starts[q]
            size = push(keys, names, size, bits[0], v)
    reached = 0
    separate = 0
    waiting = 0
    while True:
        waiting += size
        u, size = next_settled(keys, names, size, distance, number, bits)
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
                number[0] = through
                size = push(keys, names, size, bits[0], v)
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
def most_hops(
    indptr: Any, indices: Any, weights: Any, source: int, keys: Any, names: Any, distance: Any, hops: Any
) -> int:
    """The most edges on a shortest path from `source`, of those that Dijkstra's algorithm finds."""
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    distance[:] = np.inf
    distance[source] = 0
    hops[source] = 0
    size = push(keys, names, 0, 0, source)
    most = 0
    while True:
        u, size = next_settled(keys, names, size, distance, number, bits)
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
                number[0] = through
                size = push(keys, names, size, bits[0], v)
    return most
