"""Stage 4 for a few sources: takes the graph, or a given D, and landmarks, gives their rows of D; nothing is written.

Landmarks lie far apart, so their rows take two to four times as long each as rows of a block of neighbours.
"""

import numpy as np
from numpy.typing import NDArray

from scalemani.distance_matrix import DistanceMatrix
from scalemani.engine.cluster import Cluster
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.store import RunStore
from scalemani.geodesics import RowMemory

LANDMARKS_A_TASK = 16


def landmark_rows(cluster: Cluster, store: RunStore, landmarks: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows of D for some vertices, found from the graph by the cluster; shape (m, n), in the unit of the tiles."""
    identity, n = store.document["id"], len(store.read_array("order"))
    rows = np.empty((len(landmarks), n), np.float32)
    parts = [slice(at, at + LANDMARKS_A_TASK) for at in range(0, len(landmarks), LANDMARKS_A_TASK)]
    tasks = [(store.path, identity, landmarks[part]) for part in parts]
    for part, found in zip(parts, cluster.map(_landmarks, tasks, shared=RowMemory()), strict=True):
        rows[part] = found
    return rows


def _landmarks(path: str, identity: str, sources: NDArray[np.int64], memory: RowMemory) -> NDArray[np.float32]:
    """One task."""
    return geodesic_rows(memory.paths(path, identity), sources)


def given_rows(
    matrix: DistanceMatrix, order: NDArray[np.int64], landmarks: NDArray[np.int64], scale: float
) -> NDArray[np.float32]:
    """Rows of a given D for some vertices, shape (m, n), in the unit of the tiles; one row in float64 at a time."""
    rows = np.empty((len(landmarks), len(order)), np.float32)
    for row, vertex in zip(rows, landmarks, strict=True):
        row[:] = matrix.part(order[vertex : vertex + 1], order)[0] / scale
    return rows
