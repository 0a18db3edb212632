"""Stage 4 for a few sources: takes the graph, or a given D, and vertices, gives their rows of D; nothing is written.

The sources may lie anywhere: a batch of them is swept in the graph's own orders (:mod:`scalemani.engine.sweeping`).
"""

import numpy as np
from numpy.typing import NDArray

from scalemani.distance_matrix import DistanceMatrix
from scalemani.engine.cluster import Cluster
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.store import RunStore
from scalemani.engine.terms import SOURCES_A_TASK
from scalemani.geodesics import RowMemory


def scattered_rows(cluster: Cluster, store: RunStore, vertices: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows of D for some vertices, found from the graph by the cluster; shape (m, n), in the unit of the tiles."""
    identity, n = store.document["id"], len(store.read_array("order"))
    rows = np.empty((len(vertices), n), np.float32)
    parts = [slice(at, at + SOURCES_A_TASK) for at in range(0, len(vertices), SOURCES_A_TASK)]
    tasks = [(store.path, identity, vertices[part]) for part in parts]
    for part, found in zip(parts, cluster.map(_some_rows, tasks, shared=RowMemory()), strict=True):
        rows[part] = found
    return rows


def _some_rows(path: str, identity: str, sources: NDArray[np.int64], memory: RowMemory) -> NDArray[np.float32]:
    """One task."""
    return geodesic_rows(memory.paths(path, identity), sources)


def given_rows(
    matrix: DistanceMatrix, order: NDArray[np.int64], vertices: NDArray[np.int64], scale: float
) -> NDArray[np.float32]:
    """Rows of a given D for some vertices, shape (m, n), in the unit of the tiles; one row in float64 at a time."""
    rows = np.empty((len(vertices), len(order)), np.float32)
    for row, vertex in zip(rows, vertices, strict=True):
        row[:] = matrix.part(order[vertex : vertex + 1], order)[0] / scale
    return rows
