"""Memory is arithmetic: every term is what is really held, and what is chosen is allowed."""

import gc
import shutil
import tracemalloc
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from data import line_graph, roll
from distributed import Client, LocalCluster
from hypothesis import given
from hypothesis import strategies as st

from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.tasks import waiting_bytes
from scalemani.errors import DoesNotFitError
from scalemani.geodesics import rows
from scalemani.geodesics.reads import _read
from scalemani.geodesics.rows import _same_in_float64, check_bytes, graph_bytes, save_graph
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import basis_bytes, growth_bytes
from scalemani.kernel.operators import SUMS, KeptReads, centered, first_reader, later_reader, share_bytes
from scalemani.kernel.start import start_count
from scalemani.methods.isomap import IsomapMethod
from scalemani.parameters import Parameters
from scalemani.planning import seconds
from scalemani.planning.memory import MemoryLimit, check_disk, choose, holdings
from scalemani.planning.plan import size_of
from scalemani.steps import cuts
from scalemani.steps.base import FitSize
from scalemani.steps.cuts import (
    TileCut,
    basis_sizes,
    geodesic_task_bytes,
    sweep_task_bytes,
    tile_cuts,
    tile_sizes,
)
from scalemani.steps.distances import RowWork, _tile_row
from scalemani.steps.inputs import read_input
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks, Tiles, disk_bytes

STEPS = IsomapMethod().steps(Parameters())


def fit(n, *, threads=2, components=2, **more):
    """A fit of n vertices, about 10 neighbours."""
    return FitSize(n=n, edges=14 * n, parameters=Parameters(n_components=components), threads=threads, **more)


def within(size, limit):
    """The cut that is chosen where any process may hold so much."""
    cut, refusal = choose(STEPS, size, MemoryLimit(limit, limit))
    assert refusal is None
    return cut


def held(size, *cut):
    """What is held by the name of the step."""
    return {holding.name: holding for holding in holdings(STEPS, size, TileCut(*cut))}


def peak_bytes(size, *cut):
    return max((holding.peak for holding in held(size, *cut).values()), default=0)


# ---- what is chosen ------------------------------------------------------------------------------


@given(st.integers(3, 300_000), st.integers(1 << 20, 1 << 36), st.integers(1, 64), st.booleans())
def test_what_is_chosen_fits_or_it_is_refused(n, limit, threads, embedded):
    asked = fit(n, threads=threads, embedded=embedded, points=24 * n, search=1000 * n)
    cut, refusal = choose(STEPS, asked, MemoryLimit(limit, limit))
    if refusal is not None:
        least = min(peak_bytes(asked, *other) for other in tile_cuts(asked))
        assert least == peak_bytes(asked, *cut) > limit
    else:
        assert cut.tile % 16 == 0
        assert cuts.SMALLEST_TILE <= cut.tile <= cuts.LARGEST_TILE
        assert cut.most_columns in basis_sizes(n, 2)
        assert peak_bytes(asked, *cut) <= limit


@given(st.integers(3, 10**6))
def test_plenty_of_memory_gives_eight_blocks_or_tiles_of_the_largest_size(n):
    tile = within(fit(n, threads=1), 1 << 50).tile
    assert tile == cuts.LARGEST_TILE or len(Blocks(n, tile)) <= 8
    assert tile == cuts.LARGEST_TILE or n < 2048 or len(Blocks(n, tile)) >= 7


@pytest.mark.parametrize("n", [2, 100, 3000, 10**6])
def test_tile_sizes_fall_to_the_smallest(n):
    sizes = list(tile_sizes(n))
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[-1] == cuts.SMALLEST_TILE


def test_tiles_and_basis_grow_with_memory():
    found = [within(fit(100_000), limit) for limit in (900 << 20, 1400 << 20, 1 << 31, 1 << 40)]
    tiles = [cut.tile for cut in found]
    assert tiles == sorted(tiles)
    assert tiles[0] < tiles[1] < tiles[-1] == cuts.LARGEST_TILE
    # Many axes: the basis is what is large, and it is made smaller before anything is refused.
    least, *_, usual = sorted(basis_sizes(100_000, 50))
    bases = [within(fit(100_000, components=50), limit).most_columns for limit in (3000 << 20, 1 << 40)]
    assert least <= bases[0] < bases[1] == usual


def test_a_tile_size_that_is_settled_is_kept_or_refused():
    assert within(fit(10_000, begun=48), 1 << 40).tile == 48
    cut, refusal = choose(STEPS, fit(100_000, begun=2048), MemoryLimit(1 << 30, 1 << 30))
    assert cut.tile == 2048 and refusal is not None


def test_steps_that_are_done_take_nothing():
    asked = fit(100_000)
    assert peak_bytes(asked, 2048, 160) > held(asked, 2048, 160)["solve"].peak
    solving = held(fit(100_000, done=("graph", "shortcuts", "start", "geodesics")), 2048, 160)
    assert list(solving) == ["solve"]
    assert solving["solve"].peak <= held(asked, 2048, 160)["solve"].peak  # nothing is left of the tasks
    assert peak_bytes(fit(100, done=("graph", "shortcuts", "start", "geodesics", "solve")), 16, 99) == 0


def test_the_start_is_a_step_of_its_own_and_fewer_where_the_basis_is_small():
    asked = fit(100_000)
    many, few = (held(asked, 2048, columns)["start"].peak for columns in (256, 64))
    assert many - few >= 4 * 100_000 * (512 - 128)
    assert many < held(asked, 2048, 256)["solve"].peak
    assert "start" not in held(fit(200), 16, 96)  # all of the space is one block
    assert "start" not in held(fit(100_000, done=("start",)), 2048, 256)


def test_a_client_of_its_own_and_its_worker_hold_less_than_both_in_one():
    for name, one in held(fit(50_000, points=10**9), 1024, 160).items():
        apart = held(fit(50_000, points=10**9, embedded=False), 1024, 160)[name]
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
        DaskCluster(client) as theirs,
        DaskCluster(threads=4) as ours,
    ):
        assert (theirs.embedded, theirs.shares_process, theirs.threads, theirs.workers) == (False, True, 4, 1)
        assert size_of(points, parameters, theirs, 200, 2000) == size_of(points, parameters, ours, 200, 2000)


def test_workers_in_processes_of_their_own_are_not():
    with (
        LocalCluster(
            processes=True, n_workers=1, threads_per_worker=2, host="127.0.0.1",
            dashboard_address="127.0.0.1:0", worker_dashboard_address="127.0.0.1:0",
        ) as local,
        DaskCluster(local.scheduler_address) as cluster,
    ):  # fmt: skip
        assert (cluster.shares_process, cluster.threads, cluster.workers) == (False, 2, 1)


def test_a_refusal_names_both_numbers_and_the_remedies():
    asked = fit(1_000_000, threads=4, components=20)
    cut, message = choose(STEPS, asked, MemoryLimit(64 << 20, 64 << 20))
    for said in (
        "1,000,000 points need",
        f"need {peak_bytes(asked, *cut):,} bytes a process for ",
        f"allows {64 << 20:,}:",
        "raise memory_limit",
        "scheduler whose workers have fewer threads",
        "fewer components than 20",
    ):
        assert said in message
    assert "\n" not in message


def test_columns_are_planned_for():
    """1,000 components at 100,000 vertices: a basis of some 4,000 columns and its images."""
    many = fit(100_000, components=1000)
    least = basis_sizes(100_000, 1000)[-1]
    assert least > 4000
    assert peak_bytes(many, 16, least) >= 3 * 8 * 100_000 * least
    _, refusal = choose(STEPS, many, MemoryLimit(1 << 33, 1 << 33))
    assert "fewer components than 1000" in refusal


# ---- terms against what is held --------------------------------------------------------------------


def test_the_graph_and_a_share_are_the_bytes_of_the_arrays(tmp_path):
    n = 640
    store = RunStore.create(tmp_path / "run")
    save_graph(store, line_graph(n), 1.0)
    graph = rows.shared_graph(store.path, store.identity)
    held = graph.data.nbytes + graph.indices.nbytes + graph.indptr.nbytes
    assert held <= graph_bytes(n, graph.nnz) <= held + 8 * (n + 1)
    assert share_bytes(n, 16) == np.empty((n, first_reader(np.ones((n, 16))).width)).nbytes


@pytest.mark.parametrize(("n", "step", "window"), [(1000, 64, 9), (1000, 300, 9), (1000, 1000, 3), (999, 16, 200)])
def test_results_that_wait_are_those_of_the_first_tasks(n, step, window):
    starts = list(range(0, n, step))[:window]
    assert waiting_bytes(n, step, 5, window) == sum(np.empty((n - start, 5)).nbytes for start in starts)
    assert waiting_bytes(n, 0, 5, window) == window * np.empty((n, 5)).nbytes


@pytest.mark.parametrize(("n", "tile"), [(100, 16), (96, 16), (33, 64)])
def test_disk_bytes_are_the_bytes_of_all_chunks(tmp_path, n, tile):
    """Also measured: the files of a finished D."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(n, tile)
    for row, here in enumerate(store.blocks):
        store.tiles.write(row, np.ones((here.stop - here.start, n - here.start), np.float32))
    files = (tmp_path / "run" / "distances" / "c").rglob("*")
    assert sum(p.stat().st_size for p in files if p.is_file()) == disk_bytes(n, tile)


@given(st.integers(2, 50_000), st.integers(16, 2048), st.integers(1, 20))
def test_tasks_are_the_rows_of_tiles_and_the_runs_of_the_reads(n, tile, reads):
    blocks = Blocks(n, max(tile, n // 100))
    runs = len(blocks.tile_runs(blocks.read_runs))
    assert runs == blocks.read_runs

    def counted(**more):
        asked = fit(n, reads=reads, components=1, **more)
        return sum(step.needs(asked, TileCut(blocks.size, 32)).tasks for step in STEPS)

    starting = 2 if start_count(n, 1, 32) else 0  # tasks, for 64 vertices
    looking = 2 if n > 32 else 1  # tasks, for up to 64 points whose paths are followed
    assert counted() == looking + starting + len(list(blocks)) + reads * runs
    assert counted(done=("shortcuts", "start")) == len(list(blocks)) + reads * runs
    assert counted(given=True) == reads * runs


def test_a_disk_that_is_too_small_is_refused_with_both_numbers(tmp_path, monkeypatch):
    asked, cut = fit(1000), TileCut(64, 96)
    needed = free = sum(step.needs(asked, cut).disk for step in STEPS)
    assert needed > disk_bytes(1000, 64)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 0, free))
    check_disk(tmp_path / "run", STEPS, asked, cut)
    free -= 1
    message = rf"1,000 points need {needed:,} bytes and {free:,} are free.*larger.*compression"
    with pytest.raises(DoesNotFitError, match=message):
        check_disk(str(tmp_path / "run"), STEPS, asked, cut)
    compressed = replace(asked, parameters=replace(asked.parameters, compression="zstd"))
    check_disk(tmp_path / "run", STEPS, compressed, cut)
    kept = replace(asked, parameters=replace(asked.parameters, store="run"))
    with pytest.raises(DoesNotFitError, match=r"of them while it is solved\)"):
        check_disk(tmp_path / "run", STEPS, kept, cut)
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
    monkeypatch.setattr(Tiles, "done", lambda self, row: next(answers))
    reader = first_reader(np.ones((n, 16)), "float64")
    measured = peak(lambda: _tile_row(store.path, store.identity, 0, RowWork({"first": reader})))
    rows.shared_graph.cache_clear()
    assert 4 * n * tile <= measured <= geodesic_task_bytes(n, graph.nnz, tile, 16, 8) + SLACK


def test_the_check_of_rows_may_search_again_in_float64():
    """On a graph and a workspace of its own: more than the panels where there are many vertices to a tile."""
    n, tile = 200_000, 16
    graph = line_graph(n)
    found = np.array([1.0, 1.0])
    measured = peak(lambda: _same_in_float64(graph, np.array([0, 1]), found))
    projected = check_bytes(n, graph.nnz, tile)
    assert 0.5 * projected <= measured <= projected + SLACK


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("columns", "precision"), [(150, "float32"), (16, "float64")])
@pytest.mark.parametrize(("n", "tile"), SIZES)
def test_a_sweep_task_stays_within_its_projection(tmp_path, n, tile, columns, precision):
    """Both kinds of read: the first one takes sums as well."""
    store = empty_run(tmp_path / "run", n, tile)
    store.tiles.write(0, np.ones((tile, n), np.float32))
    size = np.dtype(precision).itemsize
    projected = sweep_task_bytes(n, tile, columns, size)
    for make, sums in ((later_reader, 0), (first_reader, SUMS)):
        reader = make(np.ones((n, columns)), precision)
        _read(store.path, store.identity, [(0, 0)], reader)  # what is imported and kept by a first use is not a task's
        measured = peak(lambda reader: _read(store.path, store.identity, [(0, 0), (0, 1)], reader), reader)
        assert measured <= projected - 8 * n * (SUMS - sums) + SLACK
    assert measured >= 0.5 * projected


@pytest.mark.parametrize("columns", [pytest.param(8, marks=pytest.mark.slow), 160])
def test_timing_the_algebra_takes_no_memory_of_a_budget(columns):
    """A basis of 200,000 vertices and its copy would take 2.5 MB a column."""
    rates = seconds.Rates(None, None, ".")
    assert peak(rates.algebra, 200_000, columns) <= 2 * 8 * seconds.ALGEBRA_ENTRIES + SLACK


class SlowKernels:
    """Products of a spectrum that the solver takes a long basis for, with no memory of their own but the results."""

    n_reads, precision = 0, "float64"

    def __init__(self, n, log=None):
        self.shape, self.log = (n, n), log
        rng = np.random.default_rng(0)
        self.values = np.stack([-rng.random(n), 1 + 0.02 * rng.random(n)])

    def products(self, vectors, precision=None):
        self.n_reads += 1
        return tuple(centered(values[:, None] * vectors) for values in self.values)

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
    projected = basis_bytes(n, most_columns) + growth_bytes(n, 16)
    assert 0.6 * projected <= measured <= projected + SLACK
