"""Terms of the budget against the work itself: what is held is no more than projected, and not much less.

tracemalloc sees NumPy's arrays; a term of 0 fails, and one of several times what it should be.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from data import line_graph
from test_budget import SLACK, empty_run, peak

from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.tasks import waiting_bytes
from scalemani.geodesics.batches import PathGraph, paths_bytes
from scalemani.geodesics.lanes import LINE
from scalemani.geodesics.rows import median_bytes, sampled_median
from scalemani.graph.build import symmetric_bytes, symmetric_graph
from scalemani.graph.order import vertex_order
from scalemani.kernel import operators
from scalemani.kernel.eigensolver import start_block
from scalemani.kernel.operators import (
    CenteredKernels,
    first_read_bytes,
    first_reader,
    panel_bytes,
    products_bytes,
    share_bytes,
)
from scalemani.kernel.start import nystrom_block, start_block_bytes, start_vertices
from scalemani.neighbors import choice
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.lists import NeighborLists
from scalemani.neighbors.prepared import BLOCK_BYTES
from scalemani.points.given_matrix import DistanceMatrix
from scalemani.steps import rows as scattered_rows
from scalemani.steps.cuts import given_task_bytes, scattered_task_bytes, sweep_task_bytes
from scalemani.steps.distances import compute_distances
from scalemani.steps.rows import _some_rows
from scalemani.storage.tiles import Blocks

pytestmark = pytest.mark.slow  # memory is measured, term by term


def close(measured, projected, share=0.5):
    assert share * projected <= measured <= projected + SLACK


def test_the_sampled_median():
    n = 50_000
    graph = line_graph(n)
    close(peak(sampled_median, graph, 0), median_bytes(n, graph.nnz))


@pytest.mark.parametrize("columns", [16, 100])
def test_the_clients_part_in_a_read_of_d(columns, monkeypatch):
    """The sums are there at once, and no task runs."""
    n = 20_000
    kernels = CenteredKernels(None, SimpleNamespace(blocks=Blocks(n, 1000)), "float64")
    kernels._sums = object()
    monkeypatch.setattr(operators, "sweep", lambda cluster, store, reader: np.zeros((n, reader.width)))
    measured = peak(kernels.products, np.ones((n, columns)))
    close(measured, products_bytes(n, columns) + 8 * columns * n)


def test_the_first_block_and_its_sums():
    n, m = 50_000, 16

    def begin():
        block = start_block(n, m, 0)
        reader = first_reader(block, "float64")
        return block, reader, np.zeros((n, reader.width))

    close(peak(begin), first_read_bytes(n, m, 8))


@pytest.mark.parametrize(
    ("n", "width", "n_top", "columns"),
    [(320, 16, 2, 224), (3_000, 20, 10, 224), (10_000, 48, 30, 600), (30_000, 16, 2, 96)],
)
def test_the_block_that_a_few_rows_give(n, width, n_top, columns, one_thread):
    """Small matrices, panels of rows, or the block itself: each is the most in some case."""
    vertices = start_vertices(n, columns, 0)
    points = np.sort(np.random.default_rng(0).random((n, 3)), axis=0).astype(np.float32)
    rows = np.sqrt(sum((points[vertices, i, None] - points[:, i]) ** 2 for i in range(3)))
    measured = peak(nystrom_block, rows, vertices, width, n_top, "cailliez", 0)
    close(measured, start_block_bytes(n, len(vertices), width))


def test_a_task_of_scattered_rows():
    n = 20_000
    graph = line_graph(n)
    count = scattered_rows.SOURCES_A_TASK
    paths, sources = PathGraph(graph), np.arange(0, n, n // count)[:count]
    memory = SimpleNamespace(paths=lambda path, identity: paths)

    def task():
        vars(paths).update(vars(PathGraph(graph)))  # no workspace of an earlier search
        return _some_rows("", "", sources, memory)

    measured = peak(task)
    close(measured, scattered_task_bytes(n, graph.nnz, count) + paths_bytes(n, graph.nnz), 0.4)


def test_a_task_of_scattered_rows_fills_the_lanes_of_a_batch():
    assert scattered_rows.SOURCES_A_TASK == LINE // np.dtype(np.float32).itemsize


def test_the_graph_as_the_kernels_take_it():
    n = 50_000
    graph = line_graph(n)
    close(peak(PathGraph, graph), paths_bytes(n, graph.nnz), 0.4)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A D of 6,000 points in tiles of 750."""
    store = empty_run(tmp_path_factory.mktemp("terms") / "run", 6_000, 750)
    for row, here in enumerate(store.blocks):
        store.tiles.write(row, np.ones((here.stop - here.start, 6_000 - here.start), np.float32))
    return store


@pytest.mark.parametrize("columns", [16, pytest.param(200, marks=pytest.mark.slow)])
def test_a_read_of_d(stored, columns):
    """The client's part and the tasks', which are threads of one process."""
    store, n, tile = stored, stored.blocks.n, stored.blocks.size
    vectors = np.ones((n, columns))
    with DaskCluster(threads=2) as cluster:
        kernels = CenteredKernels(cluster, store, "float64")
        measured = peak(kernels.products, vectors)
    window = min(2 * 2 + 5, store.blocks.read_runs + 1)
    own = products_bytes(n, columns) + 8 * columns * n
    flying = waiting_bytes(n, 0, 2 * columns, window)
    close(measured, own + flying + 2 * sweep_task_bytes(n, tile, columns, 8), 0.3)


def test_a_given_matrix_on_its_way_into_tiles(tmp_path):
    n, tile, columns = 2_000, 250, 16
    where = np.arange(n, dtype=float)
    matrix = DistanceMatrix(np.abs(where[:, None] - where))
    reader, store = first_reader(np.ones((n, columns)), "float64"), empty_run(tmp_path / "run", n, tile)

    def read(here):
        return matrix.part(where.astype(int)[here], where.astype(int)[here.start :]).astype(np.float32)

    def write():
        for row in range(len(store.blocks)):  # of the call before
            store.tiles.unfinish(row)
        compute_distances(None, store, lambda *_: None, {"first": reader}, read)

    measured = peak(write)
    shares = 2 * share_bytes(n, columns) + panel_bytes(tile, columns, 8)
    gathered = min(8 * n * n, BLOCK_BYTES)  # of what is not in memory; this matrix is
    close(measured, given_task_bytes(n, tile) - gathered + shares)


def test_the_making_of_the_graph():
    """Lists of which no two agree: as many stored entries as there can be."""
    n, k = 20_000, 10
    indices = (np.arange(n)[:, None] + np.arange(1, k + 1)) % n
    distances = np.random.default_rng(0).random(n * k)
    lists = NeighborLists(np.arange(0, n * k + 1, k), indices.ravel(), distances, "brute", 1.0)
    edges = symmetric_graph(lists).nnz
    assert edges == 2 * n * k
    close(peak(lambda: vertex_order(symmetric_graph(lists))), symmetric_bytes(n, edges))


@pytest.mark.parametrize(
    ("n", "width", "method"), [(20_000, 3, "kdtree"), (20_000, 10, "kdtree"), (4_000, 40, "brute")]
)
def test_an_exact_search(n, width, method):
    # Later features are small: a tree of as many numbers that is not walked through for every query.
    rows = np.random.default_rng(0).standard_normal((n, width)) * 0.5 ** np.arange(width)
    search = ExactSearch(rows)
    assert search.method == method
    measured = peak(lambda: search.nearest(rows, 10, exclude=np.arange(n)))
    close(measured, choice.search_bytes(n, width, 10, method, 1) + choice.lists_bytes(n, 10 * n), 0.2)
