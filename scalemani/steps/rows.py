"""Rows of D of a few vertices, found from the graph by tasks or taken from a matrix that is given; nothing is written.

The sources may lie anywhere: a batch of them is swept in the graph's own orders (:mod:`scalemani.geodesics.lanes`).
"""

import threading

import numpy as np

from scalemani.aliases import F32, I64
from scalemani.cluster.client import Cluster
from scalemani.geodesics.batches import PathGraph
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import shared_graph
from scalemani.points.given_matrix import DistanceMatrix
from scalemani.storage.run import RunStore

SOURCES_A_TASK = 32  # scattered rows of D that a task finds: as many as a batch of the search has lanes


class RowMemory:
    """What a process keeps from task to task of the stage; empty where it is sent.

    Memory for a thread's rows, since pages that are touched for the first time cost up to a third of a task; and
    the graph with the searches' workspaces.
    """

    def __init__(self) -> None:
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._paths: PathGraph | None = None

    def paths(self, path: str, identity: str) -> PathGraph:
        """The graph of a run as the kernels take it."""
        with self._lock:
            if self._paths is None:
                self._paths = PathGraph(shared_graph(path, identity))
            return self._paths

    def __reduce__(self) -> tuple[type["RowMemory"], tuple[()]]:
        return RowMemory, ()

    def rows(self, count: int, width: int) -> F32:
        """An array (count, width) with anything in it, which the thread's next call gives again."""
        size = count * width
        if getattr(self._threads, "flat", np.empty(0)).size < size:
            vars(self._threads).pop("flat", None)  # before the larger one is there
            self._threads.flat = np.empty(size, np.float32)
        found: F32 = self._threads.flat[:size].reshape(count, width)
        return found


def scattered_rows(cluster: Cluster, store: RunStore, vertices: I64) -> F32:
    """Rows of D for some vertices, found from the graph by the cluster; shape (m, n), in the unit of the tiles."""
    identity, n = store.identity, len(store.read_array("order"))
    rows = np.empty((len(vertices), n), np.float32)
    parts = [slice(at, at + SOURCES_A_TASK) for at in range(0, len(vertices), SOURCES_A_TASK)]
    tasks = [(store.path, identity, vertices[part]) for part in parts]
    for part, found in zip(parts, cluster.map(_some_rows, tasks, shared=RowMemory()), strict=True):
        rows[part] = found
    return rows


def _some_rows(path: str, identity: str, sources: I64, memory: RowMemory) -> F32:
    return geodesic_rows(memory.paths(path, identity), sources)


def given_rows(matrix: DistanceMatrix, order: I64, vertices: I64, scale: float) -> F32:
    """Rows of a given D for some vertices, shape (m, n), in the unit of the tiles; one row in float64 at a time."""
    rows = np.empty((len(vertices), len(order)), np.float32)
    for row, vertex in zip(rows, vertices, strict=True):
        row[:] = matrix.part(order[vertex : vertex + 1], order)[0] / scale
    return rows
