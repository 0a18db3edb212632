"""What a sample of points says of all pairs: takes some rows of geodesic distances, gives pairs to compare."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Sample", "sample_size"]

Array = NDArray[np.float64]
MOST_POINTS = 512  # a figure over their pairs with all others is good to a few parts in a hundred
MOST_DISTANCES = 25_000_000  # held at once: 100 MB, and some seconds to find them
LEAST_POINTS = 32
MOST_OTHERS = 20_000  # points to which all distances are drawn; neighbours are sought among all


def sample_size(n: int) -> int:
    """How many points are sampled of n, unless asked otherwise.

    >>> sample_size(60), sample_size(10_000), sample_size(100_000), sample_size(2_000_000)
    (60, 512, 250, 32)
    """
    return min(n, MOST_POINTS, max(LEAST_POINTS, MOST_DISTANCES // max(n, 1)))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some points' rows (m,), rising, distances (m, n) to all in the user's unit, and all coordinates (n, p)."""

    rows: NDArray[np.int64]
    geodesic: NDArray[Any]
    points: Array

    def among_fewer(self, seed: int = 0) -> "Sample":
        """The same points with at most 20,000 others, drawn at random."""
        n = len(self.points)
        if n <= MOST_OTHERS:
            return self
        others = np.random.default_rng(seed).choice(n, MOST_OTHERS, replace=False)
        kept = np.union1d(others, self.rows)
        return Sample(np.searchsorted(kept, self.rows), self.geodesic[:, kept], self.points[kept])

    def pairs(self) -> tuple[Array, Array]:
        """Geodesic and embedded distances of each pair of a sampled point with another, once."""
        rank = np.full(len(self.points), len(self.rows))
        rank[self.rows] = np.arange(len(self.rows))
        geodesic, embedded = [], []
        for i, row in enumerate(self.rows):
            others = np.flatnonzero(rank > i)
            geodesic.append(self.geodesic[i, others].astype(np.float64))
            embedded.append(self._embedded(int(row), others))
        return np.concatenate(geodesic), np.concatenate(embedded)

    def near_pairs(self, k: int) -> tuple[Array, Array]:
        """Geodesic and embedded distances of each sampled point to its k nearest others along the data."""
        k = min(k, len(self.points) - 1)
        geodesic, embedded = [], []
        for i, row in enumerate(self.rows):
            distances = self.geodesic[i].astype(np.float64)
            distances[row] = np.inf  # by its number: another point may be at distance 0
            near = np.argpartition(distances, k - 1)[:k] if k else np.empty(0, np.int64)
            geodesic.append(distances[near])
            embedded.append(self._embedded(int(row), near))
        return np.concatenate(geodesic), np.concatenate(embedded)

    def _embedded(self, row: int, others: NDArray[np.int64]) -> Array:
        return np.asarray(np.linalg.norm(self.points[others] - self.points[row], axis=1))
