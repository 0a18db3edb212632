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
from scalemani.cluster.client import Cluster
from scalemani.embedding.coordinates import Embedding
from scalemani.geodesics.landmarks import LANDMARKS, Layout
from scalemani.geodesics.lanes import take_least
from scalemani.progress import Progress
from scalemani.projection.linear_map import Axes
from scalemani.storage.run import RunStore, shared_run
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

    store: With every point's distances to the landmarks.
    form ({"continuous", "paper"})
    """

    def __init__(self, store: RunStore, embedding: Embedding, form: str) -> None:
        layout = Layout.of(store)
        self.axes, self.scale = Axes(embedding, form), embedding.scale
        self._chunks, self.chunk = KeptChunks(layout.by_point(store)), layout.points_a_chunk
        self.landmark_of = np.full(layout.n, -1, np.int64)
        self.landmarks = store.read_array(LANDMARKS)
        self.landmark_of[self.landmarks] = np.arange(layout.m)
        self._m = layout.m

    def place(self, indptr: I64, vertices: I64, lengths: F64, own: I64) -> F64:
        """Coordinates (l, p) of points that touch vertices at some lengths (user's unit); NaN where they touch none.

        indptr, vertices, lengths, own: As :class:`scalemani.projection.projector.Attachments` has them.
        """
        count = len(own)
        step = max(1, BATCH_BYTES // (8 * self._m))
        starts = range(0, count, step)
        parts = [self._place(indptr[at : at + step + 1], vertices, lengths, own[at : at + step]) for at in starts]
        return np.concatenate(parts) if parts else np.empty((0, len(self.axes.embedding.eigenvalues)))

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
        return self.axes.place_rows(best, np.where(own >= 0, self.landmark_of[own], -1), least)


def place_all(cluster: Cluster, store: RunStore, embedding: Embedding, form: str, report: Progress) -> F64:
    """Coordinates (n, p) of every vertex, in the user's unit; a task a block of points."""
    layout = Layout.of(store)
    points = layout.by_point(store).rows
    out = np.empty((layout.n, len(embedding.eigenvalues)))
    tasks = [(store.path, store.identity, block) for block in range(len(points))]
    for block, found in enumerate(cluster.map(_place_block, tasks, shared=_Model(embedding, form))):
        out[points[block]] = found
        report("coordinates", block + 1, len(points))
    return out


class _Model:
    """What the tasks share, sent to each worker once: the axes of a model that is not recorded yet."""

    def __init__(self, embedding: Embedding, form: str) -> None:
        self.embedding, self.form = embedding, form
        self._lock = threading.Lock()
        self._placer: LandmarkPlacer | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Model, (self.embedding, self.form)

    def placer(self, store: RunStore) -> LandmarkPlacer:
        """Made once in each process."""
        with self._lock:
            if self._placer is None:
                self._placer = LandmarkPlacer(store, self.embedding, self.form)
            return self._placer


def _place_block(path: str, identity: str, block: int, model: _Model) -> F64:
    """One task."""
    store = shared_run(path, identity)
    placer = model.placer(store)
    points = Layout.of(store).by_point(store)
    here = points.rows[block]
    return placer.axes.place_rows(points.read(block, 0), placer.landmark_of[here])
