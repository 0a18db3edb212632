"""Stage 8 by landmarks: takes points' distances to the landmarks, gives their coordinates.

A point's distances are the least over what it touches of the edge and the rows of `distances_to_landmarks`; a training
point touches itself alone. What follows is the projection of :mod:`scalemani.projection.projector` with the landmarks
as the training set, from the products of those distances with the axes. Rows are made and multiplied one by one
(:mod:`scalemani.geodesics.lanes`): a point has the same bits in any batch, and a training point those of its own
coordinates.
"""

import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.geodesics.lanes import take_least
from scalemani.projection.attachments import Attachments
from scalemani.storage.tiles import Tiles

BATCH_BYTES = 32 << 20  # distances of points to landmarks that a task holds at once, float64
KEPT_BYTES = 128 << 20  # chunks that a process keeps: points that lie together touch the same ones


class KeptChunks:
    """Chunks of points' distances, read and checked once while they are in use; for all threads of a process.

    points: Its chunks are whole rows.
    """

    def __init__(self, points: Tiles) -> None:
        self.points = points
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, F32] = OrderedDict()
        self._most = max(1, KEPT_BYTES // (4 * points.tile[0] * points.tile[1]))

    def __getitem__(self, block: int) -> F32:
        with self._lock:
            found = self._kept.get(block)
            if found is not None:
                self._kept.move_to_end(block)
                return found
        found = self.points.read(block, 0)
        with self._lock:
            self._kept[block] = found
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found


class LandmarkPlacer:
    """A model of landmarks, ready to place points.

    points (n, m): Every point's distances to the landmarks; its chunks are whole rows.
    landmarks (m,): Their vertices.
    axes: What places rows of distances to these, such as :class:`scalemani.projection.linear_map.Axes`.
    """

    def __init__(self, points: Tiles, landmarks: I64, axes: Any) -> None:
        self.axes, self.scale, self.width = axes, axes.scale, axes.width
        self._landmarks = landmarks
        self._chunks, self.chunk = KeptChunks(points), points.form.tile[0]
        n, self._m = points.shape
        self.landmark_of = np.full(n, -1, np.int64)
        self.landmark_of[landmarks] = np.arange(self._m)

    def order(self, found: Attachments) -> I64:
        """The order in which attached rows cost least to place."""
        return found.by_chunk(self.chunk)

    def place(self, found: Attachments) -> F64:
        """Coordinates (l, p) of points that touch vertices at some lengths; NaN where they touch none."""
        indptr, vertices, lengths, own = found.indptr, found.vertices, found.lengths, found.own
        count = len(own)
        step = max(1, BATCH_BYTES // (8 * self._m))
        starts = range(0, count, step)
        parts = [self._place(indptr[at : at + step + 1], vertices, lengths, own[at : at + step]) for at in starts]
        return np.concatenate(parts) if parts else np.empty((0, self.width))

    def place_known(self, distances: F64) -> F64:
        """Coordinates (l, p) of rows of distances (l, n) to all vertices, in the graph's unit."""
        placed: F64 = self.axes.place_known(distances[:, self._landmarks])
        return placed

    def _place(self, indptr: I64, vertices: I64, lengths: F64, own: I64) -> F64:
        inside = slice(int(indptr[0]), int(indptr[-1]))
        touched, starts = np.asarray(vertices[inside], np.int64), lengths[inside] / self.scale
        row_of = np.repeat(np.arange(len(own)), np.diff(indptr))
        least = np.full(len(own), np.inf)
        np.minimum.at(least, row_of, starts)
        starts -= least[row_of]  # a far point's edges would drown what tells the landmarks apart: they are added behind
        best = np.full((len(own), self._m), np.inf)
        blocks = touched // self.chunk
        order = np.argsort(blocks, kind="stable")
        for seeds in np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1) if len(order) else ():
            block = int(blocks[seeds[0]])
            at = touched[seeds] - block * self.chunk
            take_least(best, row_of[seeds], starts[seeds], self._chunks[block], at)
        placed: F64 = self.axes.place_rows(best, np.where(own >= 0, self.landmark_of[own], -1), least)
        return placed
