"""Memory is arithmetic: every term is what is really held, and what is chosen is allowed."""

import gc
import shutil
import tracemalloc
from itertools import cycle

import numpy as np
import pytest
from data import line_graph, roll
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from scalemani.cluster.client import Cluster
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.geodesics import rows
from scalemani.geodesics.reads import read_tiles
from scalemani.geodesics.rows import _same_in_float64, save_graph
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import first_block
from scalemani.kernel.operators import SUMS, KeptReads, centred, first_reader, later_reader
from scalemani.parameters import Parameters
from scalemani.planning import memory, terms
from scalemani.planning.memory import Work, check_disk, choose, disk_bytes, peak_bytes, stages, task_count, tile_sizes
from scalemani.planning.needs import work_of
from scalemani.steps.distances import RowWork, _tile_row
from scalemani.steps.inputs import read_input
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks


def work(n, *, threads=2, **more):
    """A fit of n vertices, two axes, about 10 neighbours."""
    columns = first_block(n, 2)
    usual = min(10 * columns, max(n - 1, 1))
    given = {"n": n, "edges": 14 * n, "columns": columns, "components": 2, "threads": threads, "size": 4}
    return Work(**{**given, "least_columns": min(4 * columns, usual), "usual_columns": usual, **more})


# ---- what is chosen ------------------------------------------------------------------------------


@given(st.integers(2, 300_000), st.integers(1 << 20, 1 << 36), st.integers(1, 64), st.booleans())
def test_what_is_chosen_fits_or_it_is_refused(n, limit, threads, embedded):
    asked = work(n, threads=threads, embedded=embedded, points=24 * n, search=1000 * n)
    try:
        chosen = choose(asked, limit)
    except DoesNotFitError:
        assert min(peak_bytes(asked, size, asked.least_columns) for size in tile_sizes(n)) > limit
    else:
        assert chosen.tile % 16 == 0
        assert memory.SMALLEST_TILE <= chosen.tile <= memory.LARGEST_TILE
        assert asked.least_columns <= chosen.most_columns <= asked.usual_columns
        assert peak_bytes(asked, chosen.tile, chosen.most_columns) <= limit


@given(st.integers(2, 10**6))
def test_plenty_of_memory_gives_eight_blocks_or_tiles_of_the_largest_size(n):
    tile = choose(work(n, threads=1), 1 << 50).tile
    assert tile == memory.LARGEST_TILE or len(Blocks(n, tile)) <= 8
    assert tile == memory.LARGEST_TILE or n < 2048 or len(Blocks(n, tile)) >= 7


@pytest.mark.parametrize("n", [2, 100, 3000, 10**6])
def test_tile_sizes_fall_to_the_smallest(n):
    sizes = list(tile_sizes(n))
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] == memory.SMALLEST_TILE


def test_tiles_and_basis_grow_with_memory():
    found = [choose(work(100_000), limit) for limit in (900 << 20, 1400 << 20, 1 << 31, 1 << 40)]
    tiles = [chosen.tile for chosen in found]
    assert tiles == sorted(tiles)
    assert tiles[0] < tiles[1] < tiles[-1] == memory.LARGEST_TILE
    # Many axes: the basis is what is large, and it is made smaller before anything is refused.
    many = work(100_000, columns=64, components=50, least_columns=256, usual_columns=640)
    bases = [choose(many, limit).most_columns for limit in (2700 << 20, 1 << 40)]
    assert bases[0] < bases[1] == 640


def test_a_tile_size_that_is_settled_is_kept_or_refused():
    assert choose(work(10_000), 1 << 40, tile=48).tile == 48
    with pytest.raises(DoesNotFitError):
        choose(work(100_000), 1 << 30, tile=2048)


def test_stages_that_are_done_take_nothing():
    asked = work(100_000)
    assert peak_bytes(asked, 2048, 160) > stages(asked, 2048, 160)["solve"].peak
    solving = stages(work(100_000, done=("search", "geodesics")), 2048, 160)
    assert list(solving) == ["solve"]
    assert solving["solve"].peak <= stages(asked, 2048, 160)["solve"].peak  # nothing is left of the tasks
    assert peak_bytes(work(100, done=("search", "geodesics", "solve")), 16, 99) == 0


def test_the_start_is_a_stage_of_its_own_and_fewer_where_the_basis_is_small():
    asked = work(100_000, start_vertices=512)
    many, few = (stages(asked, 2048, columns)["start"].peak for columns in (256, 64))
    assert many - few >= terms.start_rows_bytes(100_000, 512 - 128)
    assert many < stages(asked, 2048, 256)["solve"].peak
    assert "start" not in stages(work(100_000), 2048, 256)
    assert "start" not in stages(work(100_000, start_vertices=512, done=("start",)), 2048, 256)


def test_a_client_of_its_own_and_its_worker_hold_less_than_both_in_one():
    for name, one in stages(work(50_000, points=10**9, start_vertices=320), 1024, 160).items():
        apart = stages(work(50_000, points=10**9, start_vertices=320, embedded=False), 1024, 160)[name]
        assert apart.peak <= one.peak
        assert "points" not in apart.worker
        assert not one.worker


def test_workers_in_the_clients_process_are_counted_with_it():
    """Two workers of two threads and the client are one process, and hold what an embedded cluster does."""
    points, parameters = read_input(roll(200), "euclidean"), Parameters(n_neighbors=8)
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(processes=False, n_workers=2, threads_per_worker=2, memory_limit=0, **addresses) as local,
        Client(local, set_as_default=False) as client,
        Cluster(client) as theirs,
        Cluster(threads=4) as ours,
    ):
        assert (theirs.embedded, theirs.shares_process, theirs.threads, theirs.workers) == (False, True, 4, 1)
        assert work_of(points, parameters, theirs, 200, 2000) == work_of(points, parameters, ours, 200, 2000)


def test_workers_in_processes_of_their_own_are_not():
    with (
        LocalCluster(
            processes=True, n_workers=1, threads_per_worker=2, host="127.0.0.1",
            dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
        ) as local,
        Cluster(local.scheduler_address) as cluster,
    ):  # fmt: skip
        assert (cluster.shares_process, cluster.threads, cluster.workers) == (False, 2, 1)


def test_a_refusal_names_both_numbers_and_the_remedies():
    asked = work(1_000_000, threads=4, components=20)
    with pytest.raises(ScalemaniError) as caught:
        choose(asked, 64 << 20)
    message = str(caught.value)
    needed = peak_bytes(asked, memory.SMALLEST_TILE, asked.least_columns)
    for said in (
        "1000000 vertices need",
        f"need {needed:,} bytes a process (4 threads",
        f"allows {64 << 20:,}:",
        "raise memory_limit",
        "scheduler whose workers have fewer threads",
    ):
        assert said in message
    assert "\n" not in message


def test_columns_are_planned_for():
    """1,000 components at 100,000 vertices: a basis of 4,040 columns and its images."""
    n, columns = 100_000, first_block(100_000, 1000)
    many = work(n, columns=columns, components=1000, least_columns=4 * columns, usual_columns=10 * columns)
    assert peak_bytes(many, 16, 4 * columns) >= 3 * 8 * n * 4 * columns
    with pytest.raises(DoesNotFitError, match="fewer components than 1000"):
        choose(many, 1 << 33)


# ---- terms against what is held --------------------------------------------------------------------


def test_the_graph_and_a_share_are_the_bytes_of_the_arrays(tmp_path):
    n = 640
    store = RunStore.create(tmp_path / "run")
    save_graph(store, line_graph(n), 1.0)
    graph = rows.shared_graph(store.path, store.identity)
    held = graph.data.nbytes + graph.indices.nbytes + graph.indptr.nbytes
    assert held <= terms.graph_bytes(n, graph.nnz) <= held + 8 * (n + 1)
    assert terms.share_bytes(n, 16) == np.empty((n, first_reader(np.ones((n, 16))).width)).nbytes


@pytest.mark.parametrize(("n", "step", "window"), [(1000, 64, 9), (1000, 300, 9), (1000, 1000, 3), (999, 16, 200)])
def test_results_that_wait_are_those_of_the_first_tasks(n, step, window):
    starts = list(range(0, n, step))[:window]
    assert terms.waiting_bytes(n, step, 5, window) == sum(np.empty((n - start, 5)).nbytes for start in starts)
    assert terms.waiting_bytes(n, 0, 5, window) == window * np.empty((n, 5)).nbytes


@pytest.mark.parametrize(("n", "tile"), [(100, 16), (96, 16), (33, 64)])
def test_disk_bytes_are_the_bytes_of_all_chunks(tmp_path, n, tile):
    """Also measured: the files of a finished D."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(n, tile)
    for row, here in enumerate(store.blocks):
        store.write_tile_row(row, np.ones((here.stop - here.start, n - here.start), np.float32))
    files = (tmp_path / "run" / "distances" / "c").rglob("*")
    assert sum(p.stat().st_size for p in files if p.is_file()) == disk_bytes(n, tile)


@given(st.integers(1, 50_000), st.integers(16, 2048), st.integers(0, 20))
def test_tasks_are_the_rows_of_tiles_and_the_runs_of_the_reads(n, tile, reads):
    blocks = Blocks(n, max(tile, n // 100))
    runs = len(blocks.tile_runs(blocks.read_runs))
    assert runs == blocks.read_runs
    assert task_count(n, blocks.size, reads) == len(list(blocks)) + reads * runs
    assert task_count(n, blocks.size, reads, 65) == 3 + len(list(blocks)) + reads * runs
    assert task_count(n, blocks.size, reads, 65, given=True) == reads * runs


def test_a_disk_that_is_too_small_is_refused_with_both_numbers(tmp_path, monkeypatch):
    needed = free = disk_bytes(1000, 64) + 500
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, free))
    check_disk(tmp_path / "run", 1000, 64, 500)
    free -= 1
    message = rf"1000 vertices need {needed:,} bytes and {free:,} are free.*larger.*compression"
    with pytest.raises(DoesNotFitError, match=message):
        check_disk(str(tmp_path / "run"), 1000, 64, 500)
    check_disk(tmp_path / "run", 1000, 64, 500, compressed=True)
    assert not list(tmp_path.iterdir())


# ---- measured <= projected ---------------------------------------------------------------------
# tracemalloc sees NumPy's arrays; the kernels' own are numba's and come on top (test_memory.py measures both).

SLACK = 256 << 10  # Zarr's and Python's own small objects
SIZES = [(3200, 400), (3200, 160), (1600, 800)]


def peak(function, *arguments):
    function(*arguments)  # imports, compiled code and cached openings are no part of a task
    gc.collect()
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def empty_run(path, n, tile):
    store = RunStore.create(path)
    store.create_distances(n, tile)
    return store


@pytest.mark.parametrize(("n", "tile"), SIZES)
def test_a_geodesic_task_stays_within_its_projection(tmp_path, n, tile, monkeypatch):
    store, graph = empty_run(tmp_path / "run", n, tile), line_graph(n)
    save_graph(store, graph, 1.0)
    answers = cycle([False, True])  # it is asked before the work and after it
    monkeypatch.setattr(RunStore, "tile_row_done", lambda self, row: next(answers))
    reader = first_reader(np.ones((n, 16)), "float64")
    measured = peak(lambda: _tile_row(store.path, store.identity, 0, RowWork(reader)))
    rows.shared_graph.cache_clear()
    assert 4 * n * tile <= measured <= terms.geodesic_task_bytes(n, graph.nnz, tile, 16, 8) + SLACK


def test_the_check_of_rows_may_search_again_in_float64():
    """On a graph and a workspace of its own: more than the panels where there are many vertices to a tile."""
    n, tile = 200_000, 16
    graph = line_graph(n)
    found = np.array([1.0, 1.0])
    measured = peak(lambda: _same_in_float64(graph, np.array([0, 1]), found))
    projected = terms.check_bytes(n, graph.nnz, tile)
    assert 0.5 * projected <= measured <= projected + SLACK


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("columns", "precision"), [(150, "float32"), (16, "float64")])
@pytest.mark.parametrize(("n", "tile"), SIZES)
def test_a_sweep_task_stays_within_its_projection(tmp_path, n, tile, columns, precision):
    """Both kinds of read: the first one takes sums as well."""
    store = empty_run(tmp_path / "run", n, tile)
    store.write_tile_row(0, np.ones((tile, n), np.float32))
    size = np.dtype(precision).itemsize
    projected = terms.sweep_task_bytes(n, tile, columns, size)
    for make, sums in ((later_reader, 0), (first_reader, SUMS)):
        reader = make(np.ones((n, columns)), precision)
        read_tiles(store, reader, [(0, 0)])  # what is imported and kept by a first use is not a task's
        measured = peak(lambda reader: read_tiles(store, reader, [(0, 0), (0, 1)]), reader)
        assert measured <= projected - 8 * n * (SUMS - sums) + SLACK
    assert measured >= 0.5 * projected


@pytest.mark.parametrize("columns", [8, 160])
def test_timing_the_algebra_takes_no_memory_of_a_budget(columns):
    """A basis of 200,000 vertices and its copy would take 2.5 MB a column."""
    from scalemani.planning import seconds

    assert peak(seconds.algebra_seconds, 200_000, columns) <= 2 * 8 * seconds.ALGEBRA_ENTRIES + SLACK


class SlowKernels:
    """Products of a spectrum that the solver takes a long basis for, with no memory of their own but the results."""

    n_reads, precision = 0, "float64"

    def __init__(self, n, log=None):
        self.shape, self.log = (n, n), log
        rng = np.random.default_rng(0)
        self.values = np.stack([-rng.random(n), 1 + 0.02 * rng.random(n)])

    def products(self, vectors, precision=None):
        self.n_reads += 1
        return tuple(centred(values[:, None] * vectors) for values in self.values)

    def start(self, width, make):
        from scalemani.kernel.eigensolver import ReadBlock

        block = make()
        return ReadBlock(block, self.products(block))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scalemani.errors.ConvergenceWarning")
@pytest.mark.parametrize(("most_columns", "kept"), [(96, False), (160, False), (96, True)])
def test_the_solver_stays_within_its_projection(most_columns, kept, one_thread, tmp_path):
    """Also where each read is kept in a store."""
    n = 4_000
    log = KeptReads(RunStore.create(tmp_path / "run").pieces("solve"), lambda: None) if kept else None
    measured = peak(lambda: solve(SlowKernels(n, log), 2, most_reads=24, most_columns=most_columns))
    assert (tmp_path / "run" / "pieces_solve" / "read_20.kept").exists() is kept
    projected = terms.basis_bytes(n, most_columns) + terms.growth_bytes(n, 16)
    assert 0.6 * projected <= measured <= projected + SLACK
