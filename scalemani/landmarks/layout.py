"""Stage 4 by landmarks, on the disk: takes a run whose landmarks are chosen, gives its matrices.

Names of all arrays of a run by landmarks, and how the matrices that :mod:`scalemani.landmarks.rows` writes are cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.chunked_matrix import ChunkedMatrix
from scalemani.engine.places import Place
from scalemani.engine.store import RunStore
from scalemani.errors import ScalemaniError

STAGE = "landmarks"  # of the run, which chooses them

# Arrays.
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
        state, graph = store.stage(STAGE), store.stage("graph")
        assert state is not None and graph is not None
        return cls(graph["n_vertices"], state["n_landmarks"], state["landmarks_a_task"], state["points_a_chunk"])

    def by_landmark(self, store: RunStore) -> ChunkedMatrix:
        """The matrix (m, n), in which a row is a landmark's."""
        chunk = self.landmarks_a_task, self.points_a_chunk
        return ChunkedMatrix(store.path, store.identity, ROWS, (self.m, self.n), chunk)

    def by_point(self, store: RunStore) -> ChunkedMatrix:
        """The matrix (n, m), in which a row is a point's."""
        return ChunkedMatrix(store.path, store.identity, POINTS, (self.n, self.m), (self.points_a_chunk, self.m))

    def matrix(self, store: RunStore, name: str) -> ChunkedMatrix:
        """That of this name."""
        return self.by_point(store) if name == POINTS else self.by_landmark(store)


def landmark_account(stages: Mapping[str, Any]) -> dict[str, Any]:
    """How landmarks were chosen, and how far any point is from one at most; nothing where there are none."""
    state = stages.get(STAGE)
    if state is None:
        return {}
    reach = state["reach"]
    return {
        "n_landmarks": state["n_landmarks"],
        "landmark_method": state["fields"]["landmark_method"] or "given",
        "landmark_reach": None if reach is None else reach * stages["graph"]["scale"],
    }


def rows_of_landmarks(store: RunStore, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
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


def copy_points(store: RunStore, folder: Place) -> None:
    """Copy the matrix (n, m) and its ledger into another folder of the same run, each chunk checked."""
    ours = Layout.of(store).by_point(store)
    theirs = ChunkedMatrix(str(folder), store.identity, POINTS, ours.shape, ours.chunk)
    theirs.create()
    for row in range(len(ours.rows)):
        theirs.write(row, ours.read(row, 0))


def symmetric_square(store: RunStore) -> NDArray[np.float64]:
    """Distances between the landmarks, (m, m), float64: the mean of what was found from either end."""
    square = store.read_array(SQUARE).astype(np.float64)
    return (square + square.T) / 2


def median_distance(square: NDArray[np.float64], counts: NDArray[np.int64]) -> float:
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


def first_rows(store: RunStore, vertex: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of X that is each landmark, (m,), in the order of their vertices.

    vertex (n_rows,): Of each row; -1 where it was dropped.
    """
    rows = np.flatnonzero(vertex >= 0)[::-1]
    first = np.empty(Layout.of(store).n, np.int64)
    first[vertex[rows]] = rows  # the first of several is set last
    found: NDArray[np.int64] = first[store.read_array(LANDMARKS)]
    return found
