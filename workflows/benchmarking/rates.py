"""Rates of geodesic rows on one core: this package's kernel beside SciPy's, one after the other at several places.

A task of the geodesic stage asks for a tile row: about a thousand vertices that follow each other in vertex
order. The kernel is measured on such blocks; SciPy, whose time a row does not depend on the others, on a few
rows of each block. Rates are pairs a second: rows times vertices, over seconds.
"""

import statistics
import time
from dataclasses import asdict, dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from scalemani.geodesics.batches import PathGraph, Work
from scalemani.geodesics.paths import geodesic_rows

ORDERS = ("adjacent", "reversed", "scattered", "random")


@dataclass(frozen=True)
class Rate:
    """What was measured on one graph with sources in one order.

    Attributes
    ----------
    n, edges, rows : int
        Vertices, undirected edges, rows that the kernel was asked for in all.
    own, directed, undirected : float
        Pairs a second, medians: the kernel's, SciPy's ``dijkstra(directed=True)`` and ``directed=False``.
    against_directed, against_undirected : float
        Medians of the ratios of neighbouring measurements.
    work : dict of int
        What the kernel counted: pops, batches, orders, rows that the heap found one by one.
    deviation : float
        Largest |own - SciPy's| / SciPy's over SciPy's rows, which are summed in float64.
    """

    graph: str
    order: str
    n: int
    edges: int
    rows: int
    own: float
    directed: float
    undirected: float
    against_directed: float
    against_undirected: float
    work: dict[str, int]
    deviation: float


def measure(name: str, matrix: csr_array, order: str, *, block: int, repeats: int, few: int) -> Rate:
    """Measure one graph.

    Parameters
    ----------
    matrix : csr_array of float32, shape (n, n)
        Symmetric, in vertex order.
    order : {"adjacent", "reversed", "scattered", "random"}
        Of the sources in a block: of a tile row, the same backwards, evenly over the graph, anywhere.
    block : int
        Sources of the kernel's at each place.
    repeats : int
        Places.
    few : int
        Sources of SciPy's at each place.
    """
    n = matrix.shape[0]
    wide = matrix.astype(np.float64)  # the same rounded weights: what differs is how they are summed
    work, times, deviation = Work(), [], 0.0
    graph, memory = PathGraph(matrix), np.zeros((min(block, n), n), np.float32)  # a task finds both there
    for warm in (np.arange(min(n, 48)), np.zeros(1, np.int64)):  # loads the kernels, the heap too
        geodesic_rows(graph, warm)
    for sources in places(n, order, block, repeats):
        chosen = np.linspace(0, len(sources) - 1, min(few, len(sources))).astype(int)
        own, rows = timed(lambda s=sources: geodesic_rows(graph, s, out=memory, work=work))
        directed, truth = timed(lambda s=sources[chosen]: dijkstra(wide, directed=True, indices=s))
        undirected, _ = timed(lambda s=sources[chosen]: dijkstra(wide, directed=False, indices=s))
        times.append((own / len(sources), directed / len(chosen), undirected / len(chosen)))
        deviation = max(deviation, relative_deviation(rows[chosen], truth))
    seconds = [statistics.median(column) for column in zip(*times, strict=True)]
    ratios = [statistics.median(time[j] / time[0] for time in times) for j in (1, 2)]
    rates = [n / second for second in seconds]
    counts = {name: int(count) for name, count in asdict(work).items()}
    return Rate(name, order, n, matrix.nnz // 2, min(n, block) * repeats, *rates, *ratios, counts, deviation)


def places(n: int, order: str, block: int, repeats: int) -> list[np.ndarray]:
    """Blocks of sources, one a repeat, in different parts of the graph."""
    block = min(block, n)
    if order == "random":
        rng = np.random.default_rng(0)
        return [rng.choice(n, block, replace=False) for _ in range(repeats)]
    if order == "scattered":
        return [(np.arange(block) * n // block + place) % n for place in range(repeats)]
    starts = np.linspace(0, n - block, repeats + 2)[1:-1].astype(int) // 16 * 16  # as tile rows start
    step = -1 if order == "reversed" else 1
    return [np.arange(start, start + block)[::step] for start in starts]


def timed(function):
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def relative_deviation(rows: np.ndarray, truth: np.ndarray) -> float:
    """Largest relative deviation; infinite if one is infinite or zero where the other is not."""
    if not np.array_equal(np.isfinite(rows), np.isfinite(truth)) or rows[truth == 0].any():
        return float("inf")
    kept = np.isfinite(truth) & (truth > 0)
    return float(np.max(np.abs(rows[kept] - truth[kept]) / truth[kept], initial=0.0))
