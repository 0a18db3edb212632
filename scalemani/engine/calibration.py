"""Seconds as arithmetic: about two seconds of the user's own graph, a tile and the store's disk, and rates from there.

The rates are measured where the work will be: one task a thread, all at once, on the cluster of the fit.
"""

import io
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.blocks import Blocks
from scalemani.engine.cluster import Cluster
from scalemani.engine.distance_counts import count_distances, new_counts
from scalemani.engine.objects import checksum
from scalemani.engine.resources import folder_of
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.terms import SOURCES_A_TASK

Use = Callable[[NDArray[np.float32]], Any]

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


def _scattered_seconds(sources: NDArray[np.int64], graph: Any) -> float:
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

    distances: NDArray[np.float64]
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


def _sampled_rows(
    groups: list[NDArray[np.int64]], columns: NDArray[np.int64], graph: Any
) -> tuple[NDArray[np.float32], float]:
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
        return tempfile.TemporaryFile(dir=folder_of(folder))
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
