"""Seconds of the stages by landmarks: takes a graph and sizes, gives what small parts of the work take here and now.

Seconds as arithmetic: about two seconds of the user's own graph, a tile and the store's disk, and rates from there.

The rates are measured where the work will be: one task a thread, all at once, on the cluster of the fit.

Reads of D that a fit takes: a figure by solver and axes, or what a sample of the user's own vertices takes.

Measured on rolls, spheres, Gaussian points in 5 and 30 dimensions and images, 1,000 to 10,000 points and 2 to 60 axes,
from Nyström's block, which a fit begins with.
"""

import io
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import ConvergenceWarning
from scalemani.geodesics.farthest import farthest_points
from scalemani.geodesics.lanes import row_products
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import count_distances, new_counts
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import first_block, start_block
from scalemani.kernel.operators import DenseKernels, LandmarkKernels
from scalemani.kernel.start import nystrom_block, start_vertices
from scalemani.parameters import Parameters
from scalemani.steps.distances import SOURCES_A_TASK
from scalemani.storage.files import checksum, open_location
from scalemani.storage.tiles import Blocks

Use = Callable[[F32], Any]

GEODESIC_SECONDS = 1.2  # of rows, the first tries counted
SAMPLE_SECONDS = 8.0  # at most, for the distances among a sample of a large graph
FEWEST_ROWS = 32
SAMPLE_TILE = 2048  # at most: a tile of this size is fresh memory each time, as it is in a read
DISK_SAMPLE = 32 << 20
ALGEBRA_ENTRIES = 4 << 20  # of a basis: 32 MiB, beyond what the processor's cache holds; time goes with the rows


@dataclass(frozen=True)
class Rates:
    """What one thread does while the others do the same.

    row: Seconds a geodesic row from adjacent sources; from scattered ones it is up to ten times as much.
    entry_written: Seconds an entry of D: checked, copied, counted, summed up, handed to the system.
    entry_read: Seconds an entry of D in a read: fetched from memory, multiplied for both of its blocks.
    disk: Bytes a second that reach the disk.
    """

    row: float
    entry_written: float
    entry_read: float
    disk: float


def measure(cluster: Cluster, graph: Any, tile: int, share: Use, folder: str) -> Rates:
    """Measure the rates; nothing stays on the disk.

    graph: Scaled to lengths near 1, in vertex order; None where D is given.
    share: What a read of D does with one tile that is not on the diagonal.
    """
    threads = cluster.threads
    row = 0.0
    if graph is not None:
        starts = np.linspace(0, graph.shape[0], threads, endpoint=False).astype(np.int64)
        row = float(np.mean(list(cluster.map(_row_seconds, [(int(start),) for start in starts], shared=graph))))
    side = min(tile, SAMPLE_TILE)
    timed = list(cluster.map(_tile_seconds, [(side, folder)] * threads, shared=share))
    written, read = (float(np.mean(column)) / side**2 for column in zip(*timed, strict=True))
    return Rates(row, written, read, disk_rate(folder))


def _row_seconds(start: int, graph: Any) -> float:
    """Seconds a row from adjacent sources; more and more of them until time is up."""
    n = graph.shape[0]
    count = min(FEWEST_ROWS, n)
    geodesic_rows(graph, (start + np.arange(count)) % n)  # loads compiled code, or compiles it
    begun = time.perf_counter()
    while True:
        at = time.perf_counter()
        geodesic_rows(graph, (start + np.arange(count)) % n)
        now = time.perf_counter()
        seconds, left = now - at, GEODESIC_SECONDS - (now - begun)
        more = min(n, 2 * count, int(count * left / max(seconds, 1e-9)))
        if more <= count:
            return float(seconds / count)
        count = more


def scattered_row_seconds(cluster: Cluster, graph: Any, sources: int, together: int = SOURCES_A_TASK) -> float:
    """Seconds a row from sources that are as far apart as `sources` spread over the graph, on every thread at once.

    together: Sources of a batch of the search, next to each other in that order.
    """
    spread = np.linspace(0, graph.shape[0], sources, endpoint=False).astype(np.int64)
    count = min(together, sources)
    starts = np.linspace(0, sources - count, cluster.threads).astype(np.int64)
    tasks = [(spread[start : start + count],) for start in starts]
    return float(np.mean(list(cluster.map(_scattered_seconds, tasks, shared=graph))))


def _scattered_seconds(sources: I64, graph: Any) -> float:
    geodesic_rows(graph, sources)  # loads compiled code, or compiles it, and makes what the graph keeps for it
    at = time.perf_counter()
    geodesic_rows(graph, sources)
    return (time.perf_counter() - at) / len(sources)


@dataclass(frozen=True)
class Sample:
    """Distances among vertices that are spread over the graph.

    distances (s, s): In the order of the vertices.
    row: Seconds a row took a thread, from sources as far apart as that.
    """

    distances: F64
    row: float


def sample_distances(cluster: Cluster, graph: Any, count: int, together: int, seed: int = 0) -> Sample:
    """Geodesic distances among `count` vertices spread over the graph; among fewer where that takes too long.

    together: Sources, next to each other in the sample, whose rows are found at once.
    """
    n = graph.shape[0]
    spread = np.linspace(0, n, min(n, count), endpoint=False).astype(np.int64)
    groups = [spread[at : at + together] for at in range(0, len(spread), together)]
    mixed = [groups[at] for at in np.random.default_rng(seed).permutation(len(groups))]  # what there is time for
    shares = [mixed[thread :: cluster.threads] for thread in range(min(cluster.threads, len(mixed)))]
    found = list(cluster.map(_sampled_rows, [(share, spread) for share in shares], shared=graph))
    done = np.concatenate([np.concatenate(share)[: len(rows)] for share, (rows, _) in zip(shares, found, strict=True)])
    order = np.argsort(done)
    rows = np.concatenate([rows for rows, _ in found])[order]
    seconds = sum(spent for _, spent in found)
    return Sample(rows[:, np.searchsorted(spread, done[order])].astype(np.float64), seconds / len(rows))


def _sampled_rows(groups: list[I64], columns: I64, graph: Any) -> tuple[F32, float]:
    """Rows of as many groups of sources as there is time for, at some columns; and the seconds that they took."""
    begun, rows, spent = time.perf_counter(), [], 0.0
    for sources in groups:
        rows.append(geodesic_rows(graph, sources)[:, columns])
        spent = time.perf_counter() - begun
        if spent > SAMPLE_SECONDS:
            break
    return np.concatenate(rows), spent


def _tile_seconds(side: int, folder: str, share: Use) -> tuple[float, float]:
    """Seconds for a tile on its way to the disk, and for one that is read and multiplied."""
    tile = np.linspace(0.5, 1.5, side * side, dtype=np.float32).reshape(side, side)
    share(tile)  # the first time is no measure
    count_distances(tile, counts := new_counts())

    def written(stream: Any) -> None:
        stream.seek(0)
        np.isfinite(tile).all()
        count_distances(tile, counts)
        stream.write(np.ascontiguousarray(tile).tobytes())
        checksum(tile)

    def read(stream: Any) -> None:
        stream.seek(0)
        np.frombuffer(stream.read(), np.float32).copy()

    with nameless(folder) as stream:
        multiplying = median_seconds(lambda: share(tile))
        return median_seconds(lambda: written(stream)) + multiplying, median_seconds(lambda: read(stream)) + multiplying


def median_seconds(function: Callable[[], Any], count: int = 9, most: float = SAMPLE_SECONDS) -> float:
    """Seconds of a call, the median of so many, or of those that there is time for (`most` seconds, about)."""
    times: list[float] = []
    while len(times) < count and sum(times) < most:
        at = time.perf_counter()
        function()
        times.append(time.perf_counter() - at)
    return float(np.median(times))


def nameless(folder: str) -> Any:
    """A file that is gone when it is closed, on the disk of a folder, or in memory where that can't be written to."""
    try:
        return tempfile.TemporaryFile(dir=open_location(folder).nearest_folder())
    except OSError:
        return io.BytesIO()


def disk_rate(folder: str) -> float:
    """Bytes a second that reach the disk of a folder."""
    data = np.random.default_rng(0).bytes(DISK_SAMPLE)
    with nameless(folder) as stream:
        at = time.perf_counter()
        stream.write(data)
        stream.flush()
        if not isinstance(stream, io.BytesIO):
            os.fsync(stream.fileno())
        return DISK_SAMPLE / max(time.perf_counter() - at, 1e-9)


def algebra_seconds(n: int, columns: int) -> float:
    """The solver's own seconds a read: its basis of `columns` against both images, residuals, copies."""
    timed = max(1, min(n, ALGEBRA_ENTRIES // max(columns, 1)))
    basis = np.ones((timed, columns))
    return n / timed * (3 * median_seconds(lambda: basis.T @ basis, 3) + 3 * median_seconds(basis.copy, 3))


def geodesic_seconds(rates: Rates, n: int, tile: int, slots: int, disk: int) -> float:
    """Seconds of the stage on `slots` threads: rounds of tile rows, or the disk where that takes longer."""
    blocks = Blocks(n, tile)
    entries = n * (n + tile) / 2
    rounds = -(-len(blocks) // slots) * slots / len(blocks)
    return max(rounds * (n * rates.row + entries * rates.entry_written) / slots, disk / rates.disk)


def start_seconds(row: float, tasks: int, a_task: int, slots: int) -> float:
    """Seconds for the rows that the solver starts from on `slots` threads: rounds of tasks of `a_task` rows."""
    return -(-tasks // slots) * a_task * row


def read_seconds(rates: Rates, n: int, tile: int, slots: int, disk: int, cache: int) -> float:
    """Seconds of one read of D on `slots` threads; what is not in memory comes from the disk at its rate."""
    entries = n * (n + tile) / 2
    uncached = disk / rates.disk if disk > cache else 0.0
    return max(entries * rates.entry_read / slots, uncached)


#: Reads of D by how the constant is found, at 1,000 points and one axis; "none": there is none to find.
EXPECTED_READS = {"none": 2.5, "lingoes": 4.0, "ritz": 7.5, "power": 3000.0, "arnoldi": 120.0}
MORE_AXES = {"none": 1.6, "lingoes": 1.1}  # reads more each time the axes double; "ritz" is as long about c*
MORE_POINTS = 0.9  # each time the points double, where "ritz" seeks c*
READS_SAMPLE = 320  # vertices; up to 300 the solver takes the whole space at once
BLOCKS_OF_SAMPLE = 8  # first blocks that a sample has room for, where it can tell anything


def expected_reads(parameters: Parameters, n: int, most_columns: int) -> int:
    """Reads of D after the first, which is taken while D is written: measured figures, to a factor of 2 mostly."""
    width, solver = first_block(n, parameters.n_components), _solver(parameters)
    if width == n - 1 and solver not in ("power", "arnoldi"):
        return 0
    reads = EXPECTED_READS[solver] + MORE_AXES.get(solver, 0.0) * np.log2(parameters.n_components)
    if solver == "ritz":
        reads += MORE_POINTS * max(0.0, np.log2(n / 1000))
    return int(np.rint(reads * _restarting(width, most_columns)))


def sampled_reads(distances: Any, parameters: Parameters, n: int, most_columns: int, scale: float) -> int | None:
    """Reads of D that the solver takes, from those that it takes on a sample of the vertices.

    distances (s, s): Of vertices in their order.
    scale: Their unit in the user's.
    -> None where a sample can't tell.

    From a sample of 320 the reads grow like (n / s)^0.13 where Cailliez' constant is sought, and hardly at all
    elsewhere: to a third mostly, and to 1.6 for Gaussian points in 30 dimensions, where they fall again as n grows.
    """
    sample = len(distances)
    width, solver = first_block(n, parameters.n_components), _solver(parameters)
    whole = first_block(sample, parameters.n_components) == sample - 1  # it would be solved at once
    if whole or BLOCKS_OF_SAMPLE * width > sample or solver in ("power", "arnoldi"):
        return None
    correction = parameters.correction_in(scale)
    kernels = DenseKernels(distances)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        solve(
            kernels,
            parameters.n_components,
            correction=correction,
            tol=parameters.tol,
            start=partial(_first_block, distances, parameters.n_components, correction),
        )
    growth = (n / sample) ** (0.13 if solver == "ritz" else 0.04)
    return max(1, int(np.rint((kernels.n_reads - 1) * growth * _restarting(width, most_columns))))


def _solver(parameters: Parameters) -> str:
    """What the reads depend on, a key of `EXPECTED_READS`."""
    if parameters.correction == "cailliez":
        return parameters.constant_solver
    return "lingoes" if parameters.correction == "lingoes" else "none"


def _first_block(distances: Any, n_components: int, correction: str | float | None) -> F64:
    """What a fit of the sample alone would begin with."""
    n = len(distances)
    width, vertices = first_block(n, n_components), start_vertices(n, n, 0)
    if width >= len(vertices) // 2:
        return start_block(n, width, 0)
    return nystrom_block(distances[vertices].astype(np.float32), vertices, width, n_components, correction, 0)


def _restarting(width: int, most_columns: int) -> float:
    """How many times as many reads a smaller basis takes."""
    return float(max(1.0, 8 * width / most_columns) ** 0.6)


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
