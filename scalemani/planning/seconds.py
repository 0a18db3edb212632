"""What small parts of a fit take here and now: about two seconds of the user's own graph, a tile, the store's disk.

The rates are measured where the work will be: one task a thread, all at once, on the cluster of the fit. Each step
makes its seconds of them.
"""

import io
import os
import tempfile
import time
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.geodesics.batches import PathGraph
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import Reader, count_distances, new_counts
from scalemani.geodesics.rows import power_of_two_scale, scaled
from scalemani.kernel.operators import later_reader, usual_precision
from scalemani.steps.expected_reads import READS_SAMPLE
from scalemani.steps.rows import SOURCES_A_TASK
from scalemani.storage.files import checksum, open_location

STARTING = 4.0  # seconds: a process with its imports, a cluster, a store, the first use of compiled code
GEODESIC_SECONDS = 1.2  # of rows, the first tries counted
SAMPLE_SECONDS = 8.0  # at most, for the distances among a sample of a large graph
FEWEST_ROWS = 32
SAMPLE_TILE = 2048  # at most: a tile of this size is fresh memory each time, as it is in a read
DISK_SAMPLE = 32 << 20
ALGEBRA_ENTRIES = 4 << 20  # of a basis: 32 MiB, beyond what the processor's cache holds; time goes with the rows
TIMES = 3  # that a part is timed


class Entries(NamedTuple):
    """Seconds an entry of D of one thread while the others do the same.

    written: Checked, copied, counted, summed up, handed to the system.
    read: Fetched from memory in a read of D, multiplied for both of its blocks.
    """

    written: float
    read: float


class Rates:
    """Rates that are measured when a step first asks for them; nothing stays on the disk.

    matrix: The graph, in vertex order and the user's unit; None where D is given.
    scaled, scale: It as the store has it, in any unit in float32's range; and that unit.
    """

    def __init__(self, cluster: Cluster, matrix: Any, folder: str) -> None:
        self._cluster, self._folder = cluster, folder
        self.scale, self.scaled = 1.0, None
        if matrix is not None:
            self.scale = power_of_two_scale(np.asarray(matrix.data, np.float64))
            self.scaled = scaled(matrix, self.scale)
        self.entries = cache(self._entries)

    @cached_property
    def graph(self) -> PathGraph:
        """The graph as the kernels take it."""
        return PathGraph(self.scaled)

    @cached_property
    def row(self) -> float:
        """Seconds a geodesic row from adjacent sources; from scattered ones it is up to ten times as much."""
        starts = np.linspace(0, self.graph.shape[0], self._cluster.threads, endpoint=False).astype(np.int64)
        tasks = [(int(start),) for start in starts]
        return float(np.mean(list(self._cluster.map(_row_seconds, tasks, shared=self.graph))))

    def scattered(self, sources: int) -> float:
        """Seconds a row from sources as far apart as so many spread over the graph, on every thread at once."""
        spread = np.linspace(0, self.graph.shape[0], sources, endpoint=False).astype(np.int64)
        count = min(SOURCES_A_TASK, sources)  # next to each other in that order
        starts = np.linspace(0, sources - count, self._cluster.threads).astype(np.int64)
        tasks = [(spread[start : start + count],) for start in starts]
        return float(np.mean(list(self._cluster.map(_scattered_seconds, tasks, shared=self.graph))))

    @cached_property
    def sample(self) -> "Sample":
        """Distances among some vertices, and what a row of them takes."""
        return sample_distances(self._cluster, self.graph, READS_SAMPLE, SOURCES_A_TASK)

    def _entries(self, n: int, tile: int, columns: int) -> Entries:
        """Of a D of n vertices in tiles, and reads of so many columns."""
        side = min(tile, SAMPLE_TILE)
        reader = later_reader(np.random.default_rng(0).standard_normal((2 * side, columns)), usual_precision(n))
        timed = list(self._cluster.map(_tile_seconds, [(side, self._folder)] * self._cluster.threads, shared=reader))
        return Entries(*(float(np.mean(column)) / side**2 for column in zip(*timed, strict=True)))

    @cached_property
    def disk(self) -> float:
        """Bytes a second that reach the disk."""
        data = np.random.default_rng(0).bytes(DISK_SAMPLE)
        with nameless(self._folder) as stream:
            at = time.perf_counter()
            stream.write(data)
            stream.flush()
            if not isinstance(stream, io.BytesIO):
                os.fsync(stream.fileno())
            return DISK_SAMPLE / max(time.perf_counter() - at, 1e-9)

    def on_disk(self, rows: F32) -> tuple[float, float]:
        """Seconds to write an array with its checksum, and to read it back and compare."""
        with nameless(self._folder) as stream:

            def written() -> None:
                stream.seek(0)
                stream.write(rows.data)
                checksum(rows)

            def read() -> None:
                stream.seek(0)
                checksum(np.frombuffer(stream.read(), np.float32))

            return self.median(written), self.median(read)

    def algebra(self, n: int, columns: int) -> float:
        """The solver's own seconds a read: its basis of `columns` against both images, residuals, copies."""
        timed = max(1, min(n, ALGEBRA_ENTRIES // max(columns, 1)))
        basis = np.ones((timed, columns))
        return n / timed * 3 * (self.median(lambda: basis.T @ basis) + self.median(basis.copy))

    def median(self, function: Callable[[], Any]) -> float:
        """Seconds of a call."""
        return median_seconds(function, TIMES)


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


def _scattered_seconds(sources: I64, graph: Any) -> float:
    geodesic_rows(graph, sources)  # loads compiled code, or compiles it, and makes what the graph keeps for it
    at = time.perf_counter()
    geodesic_rows(graph, sources)
    return (time.perf_counter() - at) / len(sources)


class Sample(NamedTuple):
    """Distances among vertices that are spread over the graph.

    distances (s, s): In the order of the vertices.
    row: Seconds a row took a thread, from sources as far apart as that.
    """

    distances: F64
    row: float


def sample_distances(cluster: Cluster, graph: Any, count: int, together: int) -> Sample:
    """Geodesic distances among `count` vertices spread over the graph; among fewer where that takes too long.

    together: Sources, next to each other in the sample, whose rows are found at once.
    """
    n = graph.shape[0]
    spread = np.linspace(0, n, min(n, count), endpoint=False).astype(np.int64)
    groups = [spread[at : at + together] for at in range(0, len(spread), together)]
    mixed = [groups[at] for at in np.random.default_rng(0).permutation(len(groups))]  # what there is time for
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


def _tile_seconds(side: int, folder: str, reader: Reader) -> tuple[float, float]:
    """Seconds for a tile on its way to the disk, and for one that is read and multiplied."""
    tile = np.linspace(0.5, 1.5, side * side, dtype=np.float32).reshape(side, side)

    def share() -> None:
        reader.share(tile, reader.operand[:side], reader.operand[side:])

    share()  # the first time is no measure
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
        multiplying = median_seconds(share)
        return median_seconds(lambda: written(stream)) + multiplying, median_seconds(lambda: read(stream)) + multiplying


def median_seconds(function: Callable[[], Any], count: int = 9) -> float:
    """Seconds of a call, the median of so many, or of those that there is time for."""
    times: list[float] = []
    while len(times) < count and sum(times) < SAMPLE_SECONDS:
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
