"""Pairs of points by their geodesic distance: takes the counts that a fit leaves, gives them in the user's unit.

The geodesic stage counts while it writes D, so that nothing of D is read for it; the counts stay with a model
without D, too. :mod:`scalemani.dimension` has the first use of them.
"""

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.distance_counts import DISTANCE_COUNTS, bin_edges
from scalemani.engine.store import RunStore

__all__ = ["DistanceHistogram", "stored_histogram"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DistanceHistogram:
    """How many pairs of points are how far apart; each pair counts once.

    edges (m + 1,): Ascending, in the user's unit, 8 bins an octave; shape (1,) where no distance is positive and
        finite.
    counts (m,): Pairs with edges[i] <= d < edges[i + 1]; the first and the last are not 0.
    n_points: Vertices of the graph: distinct points that the fit kept.
    n_edges: Of the graph; 0 where distances were given.
    zeros, unreached: Pairs at distance 0, and pairs without a path: counts.sum() + zeros + unreached is `n_pairs`.
    """

    edges: Numbers
    counts: NDArray[np.int64]
    n_points: int
    n_edges: int = 0
    zeros: int = 0
    unreached: int = 0

    @property
    def n_pairs(self) -> int:
        """n (n - 1)/2."""
        return self.n_points * (self.n_points - 1) // 2

    @property
    def middles(self) -> Numbers:
        """The middle of each bin, shape (m,)."""
        middles: Numbers = self.edges[:-1] + np.diff(self.edges) / 2
        return middles

    @property
    def nearer(self) -> NDArray[np.int64]:
        """Pairs at a positive distance below each bin's upper edge, shape (m,)."""
        nearer: NDArray[np.int64] = np.cumsum(self.counts)
        return nearer

    @classmethod
    def of_counts(
        cls, counts: NDArray[np.int64], n_points: int, scale: float = 1.0, n_edges: int = 0
    ) -> "DistanceHistogram":
        """From what :func:`scalemani.engine.distance_counts.count_distances` counted.

        counts (2042,)
        scale: The unit of the counted distances in the user's: a power of two, so that edges are exact.
        """
        finite = counts[1:-1]
        found = np.flatnonzero(finite)
        first, last = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        edges = bin_edges()[first : last + 1] * scale
        return cls(edges, finite[first:last].copy(), n_points, n_edges, int(counts[0]), int(counts[-1]))


def stored_histogram(store: RunStore | str | os.PathLike[str]) -> DistanceHistogram | None:
    """What the fit in a store counted; None where D is not finished yet, or was by a release that did not count.

    Raises ScalemaniError: If there is no run, or the counts are damaged.
    """
    store = store if isinstance(store, RunStore) else RunStore(store)
    counted = DISTANCE_COUNTS in store.document.get("arrays", {}) or store.has_array(DISTANCE_COUNTS)
    if store.stage("geodesics") is None or not counted:
        return None
    graph = store.stage("graph")
    assert graph is not None
    counts = store.read_array(DISTANCE_COUNTS)
    return DistanceHistogram.of_counts(counts, graph["n_vertices"], graph["scale"], graph["n_edges"])
