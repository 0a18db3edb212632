"""One read of D by the product, against a plain loop that reads the same tiles and multiplies them.

The loop is what one would write without the package: a process, the tiles' files by ``np.fromfile``, both products of
each tile and of its transpose with 16 columns, in the same precision, BLAS on as many threads as the product's
cluster has. Neither checks checksums. The two take turns; both find D in the page cache if it fits there.
"""

import statistics
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
from benchmarking.graphs import read_graph
from benchmarking.rates import timed
from threadpoolctl import threadpool_limits

from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.geodesics import rows
from scalemani.kernel.eigensolver import start_block
from scalemani.kernel.operators import CenteredKernels, FirstRead, centered, first_reader
from scalemani.steps import distances
from scalemani.steps.cuts import tile_sizes
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

COLUMNS = 16


@contextmanager
def counted_tiles() -> Iterator[Counter[tuple[int, int]]]:
    """How often each tile is read from here on, in this process, by reads of D: they have one buffer for all tiles.

    The few that the self-check of a fit looks at are no part of it.
    """
    read, lock, seen = Tiles.read, threading.Lock(), Counter()

    def counting(self: Tiles, row: int, column: int, *buffer: Any) -> Any:
        with lock:
            seen[row, column] += len(buffer)
        return read(self, row, column, *buffer)

    Tiles.read = counting  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Tiles.read = read  # type: ignore[method-assign]


def plain_read(folder: Path, n: int, size: int, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """D V and (D∘D) V from the upper tiles' files, in the precision of V and added up in float64."""
    found = np.zeros((n, COLUMNS)), np.zeros((n, COLUMNS))
    blocks = [slice(at, min(at + size, n)) for at in range(0, n, size)]
    for row, column in combinations_with_replacement(range(len(blocks)), 2):
        here, there = blocks[row], blocks[column]
        file = np.fromfile(folder / str(row) / str(column), np.float32).reshape(size, size)
        tile = file[: here.stop - here.start, : there.stop - there.start].astype(vectors.dtype, copy=False)
        for factor, out in ((tile, found[0]), (tile * tile, found[1])):
            out[here] += factor @ vectors[there]
            if row != column:
                out[there] += factor.T @ vectors[here]
    return found


def measure(*, graph: str, store: str, cores: int, tile: int | None, repeats: int) -> dict[str, Any]:
    """Write D of a graph, then measure in either precision.

    Returns
    -------
    dict
        n, tile, tiles; by precision: seconds of either (medians), the median of neighbouring ratios, how often a tile
        was read (least and most) in one product, the largest difference of the two relative to the largest entry.
    """
    matrix = read_graph(Path(graph))
    n = matrix.shape[0]
    size = tile or next(tile_sizes(n))
    block = start_block(n, COLUMNS, 0)
    run = RunStore.create(store)
    rows.save_graph(run, matrix, 1.0)
    run.create_distances(n, size)
    with DaskCluster(threads=cores) as cluster:
        made = distances.compute_distances(cluster, run, lambda *_: None, {"first": first_reader(block)})
        first = FirstRead(block, made["first"])
    found: dict[str, Any] = {"n": n, "tile": size, "cores": cores, "tiles": len(run.blocks.tiles())}
    folder = Path(store, "distances", "c")
    for precision in ("float32", "float64"):
        times = []
        for _ in range(repeats):
            with DaskCluster(threads=cores) as cluster:
                kernels = CenteredKernels(cluster, run, precision, first=first)
                kernels.products(block)  # a first one opens what the others find open
                ours, images = timed(lambda k=kernels: k.products(block))
                with counted_tiles() as seen:
                    kernels.products(block)
            with threadpool_limits(limits=cores, user_api="blas"):
                plain, products = timed(lambda p=precision: plain_read(folder, n, size, block.astype(p)))
            times.append((ours, plain))
        pairs = zip(images, (-0.5 * centered(product) for product in products), strict=True)
        found[precision] = {
            "product": statistics.median(ours for ours, _ in times),
            "plain": statistics.median(plain for _, plain in times),
            "ratio": statistics.median(ours / plain for ours, plain in times),
            "different_tiles": len(seen),
            "tile_reads": [min(seen.values()), max(seen.values())],
            "apart": max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs),
        }
    return found
