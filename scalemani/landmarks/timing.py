"""Seconds of the stages by landmarks: takes a graph and sizes, gives what small parts of the work take here and now."""

import math
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from scalemani.eigensolver import first_block
from scalemani.engine.calibration import disk_rate, median_seconds, nameless
from scalemani.engine.farthest_points import farthest_points
from scalemani.engine.landmark_products import row_products
from scalemani.engine.objects import checksum
from scalemani.landmarks.kernels import LandmarkKernels

FEW = 8  # landmarks that are chosen: two and a half searches of the graph, and one for the first
SIDE = 512  # of the square whose products are timed
PRODUCTS = 24  # of the solver, about: 12 blocks of vectors, each by both kernels
TIMES = 3  # that each part is timed
SAMPLE_ENTRIES = 4 << 20  # of a chunk that is timed


class ChunkSeconds(NamedTuple):
    """Seconds an entry, and what reaches the disk.

    turned: Written by landmark, read, turned, held against the others, and written by point.
    placed: Read and multiplied with the axes.
    disk: Bytes a second.
    """

    turned: float
    placed: float
    disk: float


def choice_seconds(graph: Any, m: int) -> float:
    """Seconds to choose m farthest points: about log m searches of the graph, of which the first are timed."""
    farthest_points(sp.diags_array([np.ones(3), np.ones(3)], offsets=[-1, 1], format="csr"), 2)  # loads compiled code
    few = min(FEW, m)
    begun = time.perf_counter()
    farthest_points(graph, few)
    return (time.perf_counter() - begun) * (1 + _harmonic(m)) / (1 + _harmonic(few))


def _harmonic(m: int) -> float:
    return math.log(m) + 0.5772


def chunk_seconds(points: int, m: int, components: int, folder: str) -> ChunkSeconds:
    """Time a part of a chunk of so many points on its way."""
    points = max(1, min(points, SAMPLE_ENTRIES // m))
    rows = np.random.default_rng(0).random((m, points), np.float32)
    axes, found = np.ones((m, components)), np.empty((points, components))
    nearest, second = np.empty(points), np.empty((points, components))
    row_products(rows.T[:2].copy(), axes, nearest[:2], found[:2], second[:2])  # loads compiled code
    with nameless(folder) as stream:

        def written() -> None:
            stream.seek(0)
            stream.write(rows.data)
            checksum(rows)

        def read() -> None:
            stream.seek(0)
            checksum(np.frombuffer(stream.read(), np.float32))

        def turned() -> None:
            np.ascontiguousarray(rows.T).argmin(axis=1)

        def placed() -> None:
            row_products(rows.T.copy(), axes, nearest, found, second)

        once, again = median_seconds(written, TIMES), median_seconds(read, TIMES)
    size = rows.size
    return ChunkSeconds(
        turned=(2 * once + again + median_seconds(turned, TIMES)) / size,
        placed=(again + median_seconds(placed, TIMES)) / size,
        disk=disk_rate(folder),
    )


def solving_seconds(m: int, components: int) -> float:
    """Seconds of the solver on a square of m landmarks: its products, and what is made before them."""
    side = min(m, SIDE)
    square = np.random.default_rng(0).random((side, side))
    square += square.T
    width = max(1, min(first_block(side, components), side - 1))
    begun = time.perf_counter()
    kernels = LandmarkKernels(square, np.ones(side, np.int64))
    made = time.perf_counter() - begun
    product = median_seconds(lambda: kernels.products(np.ones((side, width))), TIMES)
    return (made + PRODUCTS * product) * (m / side) ** 2
