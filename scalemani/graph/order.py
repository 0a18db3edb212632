"""An order of a graph's vertices in which neighbours in space are near in number.

Sources that lie together settle a graph in almost the same order, and tiles of a distance matrix whose rows lie
together read few other parts of it. The order comes from the graph alone, so that it exists for a precomputed graph too
and costs the same in any dimension.

It needs to know about how far each vertex is from another, not the distance: lengths are rounded up to whole steps, so
that vertices wait in as many buckets as the longest edge has steps (Dial, Communications of the ACM 12, 1969, 632-633).
A vertex enters and leaves its bucket in constant time, a third of what a heap takes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from scalemani.aliases import I64
from scalemani.cluster.kernel_cache import compiled

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


LEAF = 16  # vertices: parts of no more aren't divided further, and cuts fall on its multiples
LOCAL = 8192  # vertices: parts of no more are divided further in a graph that is renumbered by then: they fit a cache


def vertex_order(matrix: csr_array) -> I64:
    """Order the vertices of a symmetric graph by recursive halving.

    A part is ordered by ``d_b - d_a``, where `a` and `b` are its two ends: `a` is the vertex
    farthest from the part's first, `b` the farthest from `a`, all along paths inside the part.
    It is cut in the middle, and so on until `LEAF` vertices are left. A part that its own edges
    do not hold together is divided into its components first.

    matrix (n, n): Symmetric non-negative finite weights; stored zeros are edges.
    -> order (n,): ``order[v]`` is the row of `matrix` that becomes vertex `v`. It depends on nothing but `matrix`: no
        seed, no threads.

    O(E log n) work, with no recursion: E edges, of which every level of the halving sees each at most a constant
    number of times. The graph is renumbered twice on the way: most of the time would be spent waiting for memory
    otherwise.
    """
    n = int(matrix.shape[0])
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False)
    graph: tuple[Any, Any, Any] = indptr, indices, whole_steps(matrix.data, n)
    parts = np.array([[0, n]], np.int64)
    order = _reached(*graph)
    graph = _renumbered(*graph, order)
    if n > LOCAL:
        upper = np.arange(n, dtype=np.int64)
        parts = _halve(*graph, upper, parts, LOCAL)
        graph = _renumbered(*graph, upper)
        order = order[upper]
    lower = np.arange(n, dtype=np.int64)
    _halve(*graph, lower, parts, LEAF)
    found: I64 = order[lower]
    return found


@compiled()
def _reached(indptr: Any, indices: Any, steps: Any) -> Any:
    """The vertices by their distance from the first one of their component."""
    n = indptr.shape[0] - 1
    part = np.zeros(n, np.int32)
    heads = np.full(BUCKETS, -1, np.int32)
    after = np.empty(n, np.int32)
    before = np.empty(n, np.int32)
    distance = np.full(n, FAR, np.int32)
    order = np.empty(n, np.int64)
    filled = 0
    for v in range(n):
        if distance[v] == FAR:
            filled, _ = search(indptr, indices, steps, part, 0, v, distance, heads, after, before, order, filled)
    return order


@compiled()
def _renumbered(indptr: Any, indices: Any, steps: Any, order: Any) -> Any:
    """The same graph with vertex order[a] called a: pointers, neighbours, steps."""
    n = order.shape[0]
    number = np.empty(n, np.int32)
    for a in range(n):
        number[order[a]] = a
    new_indptr = np.empty_like(indptr)
    new_indices = np.empty_like(indices)
    new_steps = np.empty_like(steps)
    q = 0
    new_indptr[0] = 0
    for a in range(n):
        v = order[a]
        for e in range(indptr[v], indptr[v + 1]):
            new_indices[q] = number[indices[e]]
            new_steps[q] = steps[e]
            q += 1
        new_indptr[a + 1] = q
    return new_indptr, new_indices, new_steps


@compiled()
def _components(
    indptr: Any, indices: Any, part: Any, label: int, order: Any, low: int, high: int, queue: Any, ends: Any
) -> int:
    """Make the components of ``order[low:high]`` contiguous; `ends` gets where each one ends.

    They follow each other by their first vertices, so that pieces of one region stay together.
    One pass over the part's edges, however many pieces it has. Visited vertices lose the label.
    """
    pieces = 0
    filled = 0
    for start in range(low, high):
        if part[order[start]] != label:
            continue
        part[order[start]] = -1
        head = filled
        queue[filled] = order[start]
        filled += 1
        while head < filled:
            u = queue[head]
            head += 1
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                if part[v] == label:
                    part[v] = -1
                    queue[filled] = v
                    filled += 1
        ends[pieces] = low + filled
        pieces += 1
    order[low:high] = queue[:filled]
    return pieces


@compiled()
def _halve(indptr: Any, indices: Any, steps: Any, order: Any, parts: Any, least: int) -> Any:
    """Permute `order` (n,) in place until no part has more than `least` vertices, `LEAF` or more of them.

    parts (count, 2): Where the parts that are to be divided begin and end in `order`.
    -> (count, 2): Where those of more than LEAF vertices are now.
    """
    n = order.shape[0]
    part = np.full(n, -1, np.int32)
    heads = np.full(BUCKETS, -1, np.int32)
    after = np.empty(n, np.int32)
    before = np.empty(n, np.int32)
    from_a = np.empty(n, np.int32)
    from_b = np.empty(n, np.int32)
    queue = np.empty(n, np.int64)
    ends = np.empty(n, np.int64)
    counts = np.zeros(2 * n + 2, np.int32)
    # The waiting parts are disjoint and each is larger than a leaf.
    lows = np.empty(n // LEAF + 2, np.int64)
    highs = np.empty(n // LEAF + 2, np.int64)
    left = np.empty((n // LEAF + 2, 2), np.int64)
    waiting = 0
    kept = 0
    for i in range(parts.shape[0]):
        if parts[i, 1] - parts[i, 0] > LEAF:
            lows[waiting] = parts[i, 0]
            highs[waiting] = parts[i, 1]
            waiting += 1
    label = 0
    while waiting > 0:
        waiting -= 1
        low = lows[waiting]
        high = highs[waiting]
        if high - low <= least:
            left[kept, 0] = low
            left[kept, 1] = high
            kept += 1
            continue
        label += 1  # never used before: what other parts hold is another number
        for i in range(low, high):
            part[order[i]] = label
            from_b[order[i]] = FAR
            from_a[order[i]] = FAR
        graph = indptr, indices, steps, part, label
        reached, _ = search(*graph, order[low], from_b, heads, after, before, queue, 0)
        if reached < high - low:
            pieces = _components(indptr, indices, part, label, order, low, high, queue, ends)
            for piece in range(pieces):
                start = low if piece == 0 else ends[piece - 1]
                if ends[piece] - start > LEAF:
                    lows[waiting] = start
                    highs[waiting] = ends[piece]
                    waiting += 1
            continue
        search(*graph, queue[reached - 1], from_a, heads, after, before, queue, 0)
        for i in range(low, high):
            from_b[order[i]] = FAR
        search(*graph, queue[reached - 1], from_b, heads, after, before, queue, 0)
        # b first: a was found far from the part's first vertex, so this keeps the parent's direction
        # (the other sign doubles the mean distance in number between neighbours).
        _sort_stably(order, low, high, from_a, from_b, queue, counts)
        middle = (low + high + LEAF) // (2 * LEAF) * LEAF
        if high - middle > LEAF:
            lows[waiting] = middle
            highs[waiting] = high
            waiting += 1
        if middle - low > LEAF:
            lows[waiting] = low
            highs[waiting] = middle
            waiting += 1
    return left[:kept].copy()


@compiled()
def _sort_stably(order: Any, low: int, high: int, from_a: Any, from_b: Any, members: Any, counts: Any) -> None:
    """Sort ``order[low:high]`` by ``from_b - from_a``; equal ones keep the order they have, on every machine.

    members (n,) and counts (2 n + 2,) are scratch.
    """
    size = high - low
    members[:size] = order[low:high]
    least = from_b[order[low]] - from_a[order[low]]
    most = least
    for i in range(low, high):
        along = from_b[order[i]] - from_a[order[i]]
        least = min(least, along)
        most = max(most, along)
    values = most - least + 1
    if values > 2 * size:  # a long thin part: few vertices to a value
        along = from_b[members[:size]] - from_a[members[:size]]
        order[low:high] = members[:size][np.argsort(along, kind="mergesort")]
        return
    counts[: values + 1] = 0
    for i in range(size):
        counts[from_b[members[i]] - from_a[members[i]] - least + 1] += 1
    for value in range(values):
        counts[value + 1] += counts[value]
    for i in range(size):
        value = from_b[members[i]] - from_a[members[i]] - least
        order[low + counts[value]] = members[i]
        counts[value] += 1
