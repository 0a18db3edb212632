"""Coordinates of all points, where the axes are those of some: each is placed as a test point is."""

from typing import Any

import numpy as np

from scalemani.geodesics.lanes import row_products
from scalemani.geodesics.rows import graph_bytes
from scalemani.projection.landmarks import BATCH_BYTES, KEPT_BYTES
from scalemani.steps.base import FitSize, Needs, Step
from scalemani.steps.cuts import sample_points
from scalemani.steps.sources import fewer_landmarks
from scalemani.storage.chunked_matrix import Layout


class Placement(Step):
    """The coordinates of all vertices."""

    name, title = "coordinates", "coordinates"

    # ---- what it will take ----

    recorded = "solve"  # with the axes

    def needs(self, size: FitSize, cut: Layout) -> Needs:
        """Chunks of distances in each task, and some that the process keeps."""
        n, m, components, chunks = cut.n, cut.m, size.parameters.n_components, -(-cut.n // cut.points_a_chunk)
        graph = {} if size.given else {"graph": graph_bytes(n, size.edges)}
        tasks = size.threads * (BATCH_BYTES + 2 * 4 * cut.points_a_chunk * m)
        return Needs(
            client={"square": 8 * m * m, "outputs": 3 * 8 * n * components + 3 * 8 * n},
            worker={**graph, f"{size.threads} tasks": tasks, "chunks kept": KEPT_BYTES},
            remedies=fewer_landmarks(size),
            disk=8 * n * (components + 4),
            tasks=chunks,
            pieces=[f"{chunks} to place one"],
        )

    def seconds(self, size: FitSize, cut: Layout, rates: Any) -> float:
        """Each entry read and multiplied with the axes."""
        points, m, components = sample_points(cut), cut.m, size.parameters.n_components
        rows = np.random.default_rng(0).random((m, points), np.float32)
        axes, found = np.ones((m, components)), np.empty((points, components))
        nearest, second = np.empty(points), np.empty((points, components))
        row_products(rows.T[:2].copy(), axes, nearest[:2], found[:2], second[:2])  # loads compiled code
        placed = rates.median(lambda: row_products(rows.T.copy(), axes, nearest, found, second))
        return float(cut.n * m * (rates.on_disk(rows)[1] + placed) / rows.size / size.slots)
