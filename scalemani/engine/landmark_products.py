"""Kernels: rows of distances to landmarks, made of those of near points, and their products with a few vectors.

A point's distance to a landmark is the least over the points that it touches of the edge and their distance. Each
row's results have the same bits whatever other rows are in the call.
"""

from typing import Any

import numpy as np

from scalemani.engine.kernel_cache import compiled


@compiled()
def take_least(best: Any, rows: Any, starts: Any, known: Any, inside: Any) -> None:
    """best[rows[s]] = min(itself, starts[s] + known[inside[s]]), entry by entry, for each s.

    best (l, m)
    rows, inside (s,)
    starts (s,)
    known (b, m)
    """
    m = best.shape[1]
    for s in range(rows.shape[0]):
        row, at, start = rows[s], inside[s], starts[s]
        for j in range(m):
            best[row, j] = min(best[row, j], start + known[at, j])


@compiled()
def row_products(distances: Any, axes: Any, nearest: Any, first: Any, second: Any) -> None:
    """Fill nearest (l,) with the least entry of each row, first and second (l, p) with V'e and V'e², e what is above.

    distances (l, m)
    axes (m, p): V.
    """
    count, m = distances.shape
    p = axes.shape[1]
    for i in range(count):
        least = distances[i, 0]
        for j in range(1, m):
            least = min(least, distances[i, j])
        nearest[i] = least
        for a in range(p):
            first[i, a] = 0.0
            second[i, a] = 0.0
        for j in range(m):
            excess = np.float64(distances[i, j]) - np.float64(least)  # float() of a float32 stays one here
            square = excess * excess
            for a in range(p):
                first[i, a] += excess * axes[j, a]
                second[i, a] += square * axes[j, a]
