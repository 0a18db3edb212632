"""An order of a graph's vertices in which neighbours in space are near in number.

Sources that lie together settle a graph in almost the same order, and tiles of a distance matrix
whose rows lie together read few other parts of it. The order comes from the graph alone, so that
it exists for a precomputed graph too and costs the same in any dimension.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from scalemani.engine.heap_search import next_settled, push
from scalemani.engine.kernel_cache import compiled

#: Parts of at most this many vertices aren't divided further; cuts fall on its multiples.
LEAF = 16

#: An edge shorter than this share of the median one counts as this long (in the order only).
SHORTEST = 1e-3


def vertex_order(matrix: csr_array) -> NDArray[np.int64]:
    """Order the vertices of a symmetric graph by recursive halving.

    A part is ordered by ``d_b - d_a``, where `a` and `b` are its two ends: `a` is the vertex
    farthest from the part's first, `b` the farthest from `a`, all along paths inside the part.
    It is cut in the middle, and so on until `LEAF` vertices are left. A part that its own edges
    do not hold together is divided into its components first.

    Parameters
    ----------
    matrix : csr_array of shape (n, n)
        Symmetric non-negative finite weights; stored zeros are edges.

    Returns
    -------
    order : ndarray of shape (n,), int64
        ``order[v]`` is the row of `matrix` that becomes vertex `v`. It depends on nothing but
        `matrix`: no seed, no threads.

    Notes
    -----
    O(E log n) work besides the heap's logarithm, with no recursion: E edges, of which every level
    of the halving sees each at most a constant number of times.
    """
    n = int(matrix.shape[0])
    order = np.arange(n, dtype=np.int64)
    _halve(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), _lengths(matrix.data), order)
    return order


def _lengths(weights: NDArray[Any]) -> NDArray[np.float32]:
    """Weights as positive lengths of at most 1, in the heap's precision.

    Zero weights would leave whole regions in one place, in the order they came in; and sums of
    weights near the largest float would overflow to what stands for "not reached".
    """
    lengths = np.array(weights, dtype=np.float64)
    positive = lengths[lengths > 0]
    if positive.size == 0:
        return np.ones(len(lengths), np.float32)
    largest = float(positive.max())
    shortest = SHORTEST * (float(np.median(positive)) / largest)
    return np.maximum(lengths / largest, shortest).astype(np.float32)


@compiled()
def _search_part(
    indptr: Any, indices: Any, lengths: Any, part: Any, label: int, source: int, distance: Any, keys: Any, names: Any
) -> tuple[int, int]:
    """Dijkstra from `source` over the vertices whose `part` is `label`.

    `distance` must be inf on the part; `keys` and `names` are scratch (see :mod:`scalemani.engine.heap_search`). Gives
    the number of vertices reached and the last one, which is a farthest one.
    """
    number = np.empty(1, np.float64)
    bits = number.view(np.int64)
    distance[source] = 0.0
    size = push(keys, names, 0, 0, source)
    reached = 0
    last = source
    while True:
        u, size = next_settled(keys, names, size, distance, number, bits)
        if u < 0:
            break
        reach = distance[u]
        reached += 1
        last = u
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            if part[v] != label:
                continue
            through = reach + lengths[e]
            if through < distance[v]:
                distance[v] = through
                number[0] = through
                size = push(keys, names, size, bits[0], v)
    return reached, last


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
def _halve(indptr: Any, indices: Any, lengths: Any, order: Any) -> None:
    """Permute `order` (n,) in place; see :func:`vertex_order`."""
    n = order.shape[0]
    part = np.full(n, -1, np.int64)
    keys = np.empty(max(n, indices.shape[0] + 1), np.int64)
    names = np.empty(indices.shape[0] + 1, np.int32)
    ends = np.empty(n, np.int64)
    from_a = np.empty(n, np.float32)
    from_b = np.empty(n, np.float32)
    # The waiting parts are disjoint and each is larger than a leaf.
    lows = np.empty(n // LEAF + 2, np.int64)
    highs = np.empty(n // LEAF + 2, np.int64)
    waiting = 0
    if n > LEAF:
        lows[0] = 0
        highs[0] = n
        waiting = 1
    label = 0
    while waiting > 0:
        waiting -= 1
        low = lows[waiting]
        high = highs[waiting]
        label += 1  # never used before: what other parts hold is another number
        for i in range(low, high):
            v = order[i]
            part[v] = label
            from_b[v] = np.inf
        reached, a = _search_part(indptr, indices, lengths, part, label, order[low], from_b, keys, names)
        if reached < high - low:
            pieces = _components(indptr, indices, part, label, order, low, high, keys, ends)
            for piece in range(pieces):
                start = low if piece == 0 else ends[piece - 1]
                if ends[piece] - start > LEAF:
                    lows[waiting] = start
                    highs[waiting] = ends[piece]
                    waiting += 1
            continue
        for i in range(low, high):
            v = order[i]
            from_a[v] = np.inf
        _, b = _search_part(indptr, indices, lengths, part, label, a, from_a, keys, names)
        for i in range(low, high):
            v = order[i]
            from_b[v] = np.inf
        _search_part(indptr, indices, lengths, part, label, b, from_b, keys, names)
        members = order[low:high].copy()
        # b first: a was found far from the part's first vertex, so this keeps the parent's direction
        # (the other sign doubles the mean distance in number between neighbours).
        along = from_b[members] - from_a[members]
        # Stable: equal keys keep the order they have, whatever the sorting library does.
        order[low:high] = members[np.argsort(along, kind="mergesort")]
        middle = (low + high + LEAF) // (2 * LEAF) * LEAF
        if high - middle > LEAF:
            lows[waiting] = middle
            highs[waiting] = high
            waiting += 1
        if middle - low > LEAF:
            lows[waiting] = low
            highs[waiting] = middle
            waiting += 1
