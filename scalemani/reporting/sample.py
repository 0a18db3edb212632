"""What a sample of points says of all pairs: takes some rows of geodesic distances, gives pairs to compare.

Points are vertices here: equal rows are one point, and what the fit left out is none.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError

__all__ = ["Sample", "sampled_points"]

Array = NDArray[np.float64]
MOST_POINTS = 512  # sampled unless asked otherwise: a figure over their pairs is good to a few parts in a hundred
MOST_DISTANCES = 25_000_000  # held at once, unless asked otherwise: 100 MB
LEAST_POINTS = 32
MOST_OTHERS = 20_000  # points to which distances of the whole are compared; neighbours are sought among all


def sampled_points(n: int, asked: int | None, seed: int) -> NDArray[np.int64]:
    """Numbers of the sampled points, rising; each point has the same chance.

    Parameters
    ----------
    n : int
        Points.
    asked : int or None
        None: as many as a few seconds and 100 MB allow.

    Raises
    ------
    ScalemaniError
        If `asked` or `seed` is no count.

    Examples
    --------
    >>> len(sampled_points(60, None, 0)), len(sampled_points(100_000, None, 0)), len(sampled_points(60, 7, 0))
    (60, 250, 7)
    """
    if asked is not None and asked < 2:
        raise ScalemaniError(f"rows={asked}: give 2 or more, since pairs of points are compared")
    if seed < 0:
        raise ScalemaniError(f"seed={seed}: give an integer of 0 or more")
    fitting = min(MOST_POINTS, max(LEAST_POINTS, MOST_DISTANCES // max(n, 1)))
    wanted = min(n, fitting if asked is None else asked)
    return np.sort(np.random.default_rng(seed).choice(n, wanted, replace=False))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some points with their geodesic distances to all.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        Their numbers, rising.
    geodesic : ndarray, shape (m, n)
        In the user's unit.
    points : ndarray of float64, shape (n, p)
        Coordinates of all.
    """

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
