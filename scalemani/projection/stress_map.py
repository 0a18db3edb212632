"""Coordinates of points where each has the least stress by itself, from its distances to points that stay."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.embedding.stress import place
from scalemani.geodesics.paths import PathGraph, rows_beyond_nearest

BATCH_BYTES = 32 << 20  # rows of distances that are held at once, float64


class StressAxes:
    """What places rows of distances; in the place of :class:`scalemani.projection.linear_map.Axes`.

    coordinates (n, p): Of the points that the distances are to, in the user's unit; a row that equals one of them gets
        its coordinates.
    scale: The user's unit in that of the distances.
    """

    def __init__(self, coordinates: F64, scale: float) -> None:
        self._known, self._fixed, self.scale = coordinates, coordinates / scale, scale
        self.width = coordinates.shape[1]

    def place_rows(self, distances: NDArray[Any], own: I64, beyond: F64 | float = 0.0) -> F64:
        """Coordinates (l, p) of rows of distances (l, n), in the user's unit; each row by itself.

        own (l,): The point that a row equals, or -1.
        beyond (l,): What all distances of a row are longer by.
        """
        found, longer = np.empty((len(own), self.width)), np.broadcast_to(np.float64(beyond), len(own))
        step = max(1, BATCH_BYTES // (8 * distances.shape[1]))
        for at in range(0, len(own), step):
            here = slice(at, at + step)
            rows = distances[here] + longer[here, None]  # in float64
            found[here] = place(rows, self._fixed) * self.scale
        known = own >= 0
        found[known] = self._known[own[known]]
        return found

    def place_known(self, distances: F64) -> F64:
        """The same of any points: one that is at distance 0 of a training point is that."""
        return self.place_rows(distances, np.where((distances == 0).any(1), (distances == 0).argmax(1), -1))

    def place_seeds(self, graph: PathGraph, indptr: I64, seeds: I64, lengths: F64, own: I64) -> F64:
        """The same of points that touch vertices of the graph; fastest where they lie together."""
        found = np.empty((len(own), self.width))
        step = max(32, BATCH_BYTES // (8 * len(self._fixed)))
        for at in range(0, len(own), step):
            here, ends = slice(at, at + step), indptr[at : at + step + 1]
            inside = slice(int(ends[0]), int(ends[-1]))
            rows, least = rows_beyond_nearest(graph, ends - ends[0], seeds[inside], lengths[inside])
            found[here] = self.place_rows(rows, own[here], least)
        return found
