"""Kernel: how many distances of a tile lie in which bin, counted from the bits of float32.

The bits of a positive float32 are in the order of the numbers: without their last 20 they are the
exponent and three digits of the mantissa, and so the number of one of 8 bins an octave, of which every edge is exact.
No logarithm is taken, counts are integers, and so their sums are the same in any order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.kernel_cache import compiled

DROPPED = 20  # bits, of the 23 of a mantissa
FINITE = 0xFF << 23 >> DROPPED  # bins of the finite positive numbers; the next one is that of inf
DISTANCE_COUNTS = "distance_counts"  # the array in a run's store


def new_counts() -> NDArray[np.int64]:
    """Nothing counted yet: zeros first, then the finite bins, then inf.

    >>> len(new_counts())
    2042
    """
    return np.zeros(FINITE + 2, np.int64)


def bin_edges() -> NDArray[np.float64]:
    """Edges of the finite bins, ascending, shape (2041,): bin b counts edges[b] <= d < edges[b + 1], zeros apart.

    >>> edges = bin_edges()
    >>> at = int(np.searchsorted(edges, 1.0))
    >>> edges[at : at + 9].tolist()
    [1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2.0]
    """
    bits = np.arange(FINITE + 1, dtype=np.uint32) << np.uint32(DROPPED)
    return bits.view(np.float32).astype(np.float64)


def count_distances(tile: NDArray[np.float32], counts: NDArray[np.int64], *, diagonal: bool = False) -> None:
    """Add the entries of a tile to `counts`.

    tile (b, w): Of distances: 0 or more, no NaN.
    counts (2042,): As :func:`new_counts` makes it.
    diagonal: Whether the tile is on the diagonal of D: its entries above the diagonal are counted, each pair once.

    >>> counts = new_counts()
    >>> count_distances(np.array([[0.0, 1.0, 1.1], [1.0, 0.0, np.inf], [1.1, np.inf, 0.0]], np.float32),
    ...                 counts, diagonal=True)
    >>> int(counts.sum()), int(counts.max()), int(counts[-1])
    (3, 2, 1)
    """
    _count(tile.view(np.uint32), counts, diagonal)


@compiled()
def _count(bits: Any, counts: Any, diagonal: bool) -> None:
    """Into four tables in turn: neighbours are about as far, and a lone counter would wait for its own last sum."""
    width = bits.shape[1]
    tables = np.zeros((4, 1 << 32 - DROPPED), np.int64)  # no index is outside
    for i in range(bits.shape[0]):
        row = bits[i]
        j = i + 1 if diagonal else 0
        while j + 4 <= width:
            tables[0, row[j] >> np.uint32(DROPPED)] += 1
            tables[1, row[j + 1] >> np.uint32(DROPPED)] += 1
            tables[2, row[j + 2] >> np.uint32(DROPPED)] += 1
            tables[3, row[j + 3] >> np.uint32(DROPPED)] += 1
            j += 4
        while j < width:
            tables[0, row[j] >> np.uint32(DROPPED)] += 1
            j += 1
    for bin in range(FINITE + 1):
        counts[bin + 1] += tables[0, bin] + tables[1, bin] + tables[2, bin] + tables[3, bin]
    minus_zeros = tables[:, 1 << 31 - DROPPED].sum()
    if tables[:, 0].sum() > 0:  # rarely: the least bin holds zeros too
        zeros = 0
        for i in range(bits.shape[0]):
            for j in range(i + 1 if diagonal else 0, width):
                zeros += bits[i, j] == 0
        counts[1] -= zeros
        counts[0] += zeros
    counts[0] += minus_zeros
