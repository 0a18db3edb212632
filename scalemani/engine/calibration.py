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
from scalemani.engine.resources import folder_of
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.tiles import checksum

Use = Callable[[NDArray[np.float32]], Any]

GEODESIC_SECONDS = 1.2  # of rows, the first tries counted
FEWEST_ROWS = 32
SAMPLE_TILE = 1024  # at most: entries are what counts
DISK_SAMPLE = 32 << 20


@dataclass(frozen=True)
class Rates:
    """What one thread does while the others do the same.

    Attributes
    ----------
    row : float
        Seconds a geodesic row from adjacent sources.
    scattered_row : float
        The same from sources far apart.
    entry_written : float
        Seconds an entry of D: checked, copied, summed up, handed to the system.
    entry_read : float
        Seconds an entry of D in a read: fetched from memory, multiplied for both of its blocks.
    disk : float
        Bytes a second that reach the disk.
    """

    row: float
    scattered_row: float
    entry_written: float
    entry_read: float
    disk: float


def measure(cluster: Cluster, graph: Any, tile: int, share: Use, folder: str) -> Rates:
    """Measure the rates; nothing stays on the disk.

    Parameters
    ----------
    graph : CSR or None
        Scaled, in vertex order; None where D is given.
    tile : int
    share : callable
        What a read of D does with one tile that is not on the diagonal.
    folder : str
        On the store's disk.
    """
    threads = cluster.threads
    row = scattered = 0.0
    if graph is not None:
        geodesic_rows(graph, np.arange(min(2, graph.shape[0])))  # loads compiled code
        starts = np.linspace(0, graph.shape[0], threads, endpoint=False).astype(np.int64)
        found = list(cluster.map(_row_seconds, [(int(start),) for start in starts], shared=graph))
        row = float(np.mean([seconds for seconds, _ in found]))
        scattered = float(np.mean([seconds for _, seconds in found]))
    side = min(tile, SAMPLE_TILE)
    timed = list(cluster.map(_tile_seconds, [(side, folder)] * threads, shared=share))
    written, read = (float(np.mean(column)) / side**2 for column in zip(*timed, strict=True))
    return Rates(row, scattered, written, read, _disk_rate(folder))


def _row_seconds(start: int, graph: Any) -> tuple[float, float]:
    """Seconds a row, from adjacent sources and from a few scattered ones; more sources until time is up."""
    n = graph.shape[0]
    begun, count = time.perf_counter(), min(FEWEST_ROWS, n)
    while True:
        at = time.perf_counter()
        geodesic_rows(graph, (start + np.arange(count)) % n)
        now = time.perf_counter()
        seconds, left = now - at, GEODESIC_SECONDS - (now - begun)
        more = min(n, 2 * count, int(count * left / max(seconds, 1e-9)))
        if more <= count:
            break
        count = more
    few = np.linspace(0, n, min(n, 4), endpoint=False).astype(np.int64)
    at = time.perf_counter()
    geodesic_rows(graph, few)
    return seconds / count, (time.perf_counter() - at) / len(few)


def _tile_seconds(side: int, folder: str, share: Use) -> tuple[float, float]:
    """Seconds for a tile on its way to the disk, and for one that is read and multiplied."""
    tile = np.linspace(0.5, 1.5, side * side, dtype=np.float32).reshape(side, side)
    share(tile)
    at = time.perf_counter()
    share(tile)
    multiplied = time.perf_counter() - at
    at = time.perf_counter()
    with _nameless(folder) as stream:
        np.isfinite(tile).all()
        stream.write(np.ascontiguousarray(tile).tobytes())
        checksum(tile)
        written = time.perf_counter() - at + multiplied
        at = time.perf_counter()
        stream.seek(0)
        np.frombuffer(stream.read(), np.float32).copy()
        return written, time.perf_counter() - at + multiplied


def _nameless(folder: str) -> Any:
    """A file that is gone when it is closed, on the disk of a folder, or in memory where that can't be written to."""
    try:
        return tempfile.TemporaryFile(dir=folder_of(folder))
    except OSError:
        return io.BytesIO()


def _disk_rate(folder: str) -> float:
    """Bytes a second that reach the disk of a folder."""
    data = np.random.default_rng(0).bytes(DISK_SAMPLE)
    with _nameless(folder) as stream:
        at = time.perf_counter()
        stream.write(data)
        stream.flush()
        if not isinstance(stream, io.BytesIO):
            os.fsync(stream.fileno())
        return DISK_SAMPLE / max(time.perf_counter() - at, 1e-9)


def geodesic_seconds(rates: Rates, n: int, tile: int, slots: int, disk: int) -> float:
    """Seconds of the stage on `slots` threads: rounds of tile rows, or the disk where that takes longer."""
    blocks = Blocks(n, tile)
    entries = n * (n + tile) / 2
    rounds = -(-len(blocks) // slots) * slots / len(blocks)
    return max(rounds * (n * rates.row + entries * rates.entry_written) / slots, disk / rates.disk)


def read_seconds(rates: Rates, n: int, tile: int, slots: int, disk: int, cache: int) -> float:
    """Seconds of one read of D on `slots` threads; what is not in memory comes from the disk at its rate."""
    entries = n * (n + tile) / 2
    uncached = disk / rates.disk if disk > cache else 0.0
    return max(entries * rates.entry_read / slots, uncached)
