"""Distances to landmarks in a run: the names of their arrays, how the two matrices are cut, and what is read of them.

The matrices are :mod:`scalemani.storage.tiles`; :mod:`scalemani.steps.distances` makes them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.errors import ScalemaniError
from scalemani.steps.records import GraphRecord, LandmarksRecord
from scalemani.storage.files import Location
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Form, Tiles

LANDMARKS = "landmarks"  # (m,) their vertices, ascending
ROWS, POINTS = "landmark_rows", "distances_to_landmarks"  # (m, n), until it is turned, and (n, m)
SQUARE = "landmark_square"  # (m, m) of the landmarks among themselves, as their rows have it
COUNTS = "landmark_counts"  # (m,) points that each stands for
COORDINATES = "coordinates"  # (n, p) of all points


@dataclass(frozen=True)
class Layout:
    """How the distances of n points to m landmarks are cut.

    landmarks_a_task: Rows that a task finds together.
    points_a_chunk: Points of a chunk of either matrix.
    """

    n: int
    m: int
    landmarks_a_task: int
    points_a_chunk: int

    @classmethod
    def of(cls, store: RunStore) -> "Layout":
        """The layout of a run whose landmarks are chosen."""
        chosen, n = store.needed(LandmarksRecord), store.needed(GraphRecord).n_vertices
        return cls(n, chosen.n_landmarks, chosen.landmarks_a_task, chosen.points_a_chunk)

    def by_landmark(self, store: RunStore) -> Tiles:
        """The matrix (m, n), in which a row is a landmark's."""
        return self.matrix(store, ROWS)

    def by_point(self, store: RunStore) -> Tiles:
        """The matrix (n, m), in which a row is a point's."""
        return self.matrix(store, POINTS)

    def matrix(self, store: RunStore, name: str, folder: Location | None = None) -> Tiles:
        """That of a name.

        folder: Where it is, if not with the run.
        """
        shape, tile = (self.m, self.n), (self.landmarks_a_task, self.points_a_chunk)
        if name == POINTS:
            shape, tile = (self.n, self.m), (self.points_a_chunk, self.m)
        form = Form(shape, tile, {"name": name, "unit": "edge length / scale"})
        if folder is not None:
            return Tiles(str(folder), store.identity, name, form)
        return Tiles(store.path, store.identity, name, form, check=store.check_identity)


def landmark_account(store: RunStore) -> dict[str, Any]:
    """How landmarks were chosen, and how far any point is from one at most; nothing where there are none."""
    chosen = store.record(LandmarksRecord)
    if chosen is None:
        return {}
    return {
        "n_landmarks": chosen.n_landmarks,
        "landmark_method": chosen.fields.landmark_method or "given",
        "landmark_reach": None if chosen.reach is None else chosen.reach * store.needed(GraphRecord).scale,
    }


def rows_of_landmarks(store: RunStore, vertices: I64) -> F32:
    """Rows of D of some landmarks, (l, n), from the distances of all points to them: the whole matrix is read.

    Raises ScalemaniError: If a vertex is no landmark.
    """
    layout, landmarks = Layout.of(store), store.read_array(LANDMARKS)
    at = np.minimum(np.searchsorted(landmarks, vertices), len(landmarks) - 1)
    lost = int((landmarks[at] != vertices).sum())
    if lost:
        raise ScalemaniError(
            f"{lost} of {len(vertices)} rows are not landmarks, and D was given: only distances to the {layout.m} "
            "landmarks are kept (landmarks_); the others are in what you gave"
        )
    points, found = layout.by_point(store), np.empty((len(vertices), layout.n), np.float32)
    for block, here in enumerate(points.rows):
        found[:, here] = points.read(block, 0)[:, at].T
    return found


def copy_points(store: RunStore, folder: Location) -> None:
    """Copy the matrix (n, m) and its ledger into another folder of the same run, each chunk checked."""
    layout = Layout.of(store)
    ours, theirs = layout.by_point(store), layout.matrix(store, POINTS, folder)
    theirs.create()
    for row in range(len(ours.rows)):
        theirs.write(row, ours.read(row, 0))


def symmetric_square(store: RunStore) -> F64:
    """Distances between the landmarks, (m, m), float64: the mean of what was found from either end."""
    square = store.read_array(SQUARE).astype(np.float64)
    return (square + square.T) / 2


def median_distance(square: F64, counts: I64) -> float:
    """Median distance between points of different cells, each put where its landmark is.

    >>> apart = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 4.0], [4.0, 4.0, 0.0]])
    >>> median_distance(apart, np.array([1, 1, 1])), median_distance(apart, np.array([9, 9, 1]))
    (4.0, 1.0)
    """
    upper = np.triu_indices(len(square), 1)
    distances, pairs = square[upper], np.outer(counts, counts)[upper]
    order = np.argsort(distances)
    below = np.cumsum(pairs[order])
    return float(distances[order[np.searchsorted(below, below[-1] / 2)]])


def first_rows(store: RunStore, vertex: I64) -> I64:
    """The first row of X that is each landmark, (m,), in the order of their vertices.

    vertex (n_rows,): Of each row; -1 where it was dropped.
    """
    rows = np.flatnonzero(vertex >= 0)[::-1]
    first = np.empty(Layout.of(store).n, np.int64)
    first[vertex[rows]] = rows  # the first of several is set last
    found: I64 = first[store.read_array(LANDMARKS)]
    return found
