"""Kernel: the products of geodesic rows with a few vectors, taken where the rows were found.

A projection needs of each row d of n distances only V'e and V'e², e = d less its least entry, for the p
columns of V. Taken from the lanes of a batch, they save the rows: n numbers a source that would be
turned, written, and read again.
"""

from typing import Any

import numpy as np

from scalemani.engine.kernel_cache import compiled


@compiled()
def lane_products(distance: Any, rank: Any, axes: Any, batch: Any, nearest: Any, first: Any, second: Any) -> None:
    """Fill first[s], second[s] (p,) and nearest[s] for the sources s in `batch`, lane by lane.

    Distances are rounded to float32, as rows are, and summed over the vertices in their order, in float64: a
    source's results have the same bits in any batch. A vertex that is not reached makes them inf or NaN.

    distance (n, lanes)
    rank (n,): Row of each vertex in `distance`.
    axes (n, p)
    """
    n, lanes = distance.shape
    count = batch.shape[0]
    p = axes.shape[1]
    least = np.full(lanes, np.inf, distance.dtype)
    for a in range(n):
        for b in range(lanes):
            least[b] = min(least[b], distance[a, b])
    excess = np.empty(lanes)
    sums = np.zeros((p, lanes))
    squares = np.zeros((p, lanes))
    origin = np.empty(lanes)
    for b in range(lanes):
        origin[b] = np.float32(least[b])
    for v in range(n):
        a = rank[v]
        for b in range(lanes):
            excess[b] = np.float64(np.float32(distance[a, b])) - origin[b]
        for j in range(p):
            x = axes[v, j]
            for b in range(lanes):
                sums[j, b] += excess[b] * x
                squares[j, b] += excess[b] * excess[b] * x
    for b in range(count):
        nearest[batch[b]] = origin[b]
        for j in range(p):
            first[batch[b], j] = sums[j, b]
            second[batch[b], j] = squares[j, b]
