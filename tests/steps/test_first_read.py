"""The first read of D is made while D is written: true numbers, the same bits in every way, and no reading for it."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from data import random_distances, roll_graph, store_of
from distributed import Client, LocalCluster
from stored_models import X, fitted, same

from scalemani import KernelIsomap
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import DamagedStoreError, DamagedTilesWarning
from scalemani.geodesics.reads import Reader, sweep
from scalemani.geodesics.rows import save_graph
from scalemani.kernel import operators
from scalemani.kernel.eigensolver import start_block
from scalemani.kernel.operators import FIRST_BLOCK, FIRST_FOUND, CenteredKernels, FirstRead, first_reader
from scalemani.steps.distances import compute_distances
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

N, M = 150, 4
TILES = 28  # of a fit of 200 points: 7 rows of blocks
FUSED = ("first_block", "first_found")


def quiet(stage, done, total):
    pass


@pytest.fixture(scope="module")
def graph():
    return roll_graph(N)


@pytest.fixture(scope="module")
def block():
    return start_block(N, M, 0)


def new_run(graph, tile, path):
    store = RunStore.create(path)
    save_graph(store, graph, 1.0)
    store.create_distances(graph.shape[0], tile)
    return store


def first_found(cluster, store, reader):
    """What a reader takes of D while it is written."""
    return compute_distances(cluster, store, quiet, {FIRST_FOUND: reader})[FIRST_FOUND]


def dense(D, block):
    """The columns of a first read, from a matrix in memory; of two columns the total alone is meant."""
    wide = D.astype(float)
    powers = [np.full(len(D), (wide**power).sum() / len(D)) for power in (3, 4)]
    return np.column_stack([wide @ block, wide**2 @ block, wide.sum(1), (wide**2).sum(1), *powers, wide.max(1)])


def totals(found):
    """What was found, with those two columns as their mean."""
    spread = found.copy()
    spread[:, -3:-1] = found[:, -3:-1].mean(0)
    return spread


@pytest.fixture
def reads(monkeypatch):
    """The tiles that are read, but for those of the self-check's columns, and how often rows are gathered from them."""
    seen, inside, real = Counter(), [], {name: getattr(RunStore, name) for name in ("read_rows", "read_columns")}
    read = Tiles.read

    def counted(self, row, column, buffer=None):
        if not inside:
            seen[row, column] += 1
        return read(self, row, column, buffer)

    def gathering(name):
        def gathered(self, *what):
            if name == "read_rows":
                seen["rows"] += 1
            inside.append(name)
            try:
                return real[name](self, *what)
            finally:
                inside.pop()

        return gathered

    monkeypatch.setattr(Tiles, "read", counted)
    for name in real:
        monkeypatch.setattr(RunStore, name, gathering(name))
    return seen


# ---- what it finds -------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [7, 16, 64, 150, 300])
def test_shares_of_the_rows_add_up_to_the_dense_products(cluster, tmp_path, graph, block, reads, tile):
    """Both triangles, every row, and nothing is read back."""
    store = new_run(graph, tile, tmp_path / "run")
    found = first_found(cluster, store, first_reader(block))
    assert not reads
    expected = dense(store.read_rows(np.arange(N)), block)
    for ours, theirs in zip(totals(found).T, expected.T, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())
    np.testing.assert_array_equal(found[:, -1], expected[:, -1])


def test_tiles_of_several_panels_give_the_same(cluster, tmp_path, graph, block, monkeypatch):
    expected = dense(store_of(random_distances(N), 64, tmp_path / "d").read_rows(np.arange(N)), block)
    for panel in (1, 7, 64, 1000):
        monkeypatch.setattr(operators, "PANEL", panel)
        found = sweep(cluster, RunStore(tmp_path / "d"), first_reader(block))
        np.testing.assert_allclose(totals(found), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_above_the_limit_products_are_float32_and_sums_are_not(cluster, tmp_path, graph, block, monkeypatch):
    """The rule of the kernels, so that one solve's later reads fit its first."""
    monkeypatch.setattr(operators, "FLOAT64_BELOW", N - 1)
    reader = first_reader(block)
    assert reader.operand.dtype == np.float32
    store = new_run(graph, 64, tmp_path / "run")
    found = first_found(cluster, store, reader)
    expected = dense(store.read_rows(np.arange(N)), block)
    np.testing.assert_allclose(totals(found)[:, -5:], expected[:, -5:], rtol=1e-13)
    error = np.abs(found - expected).max(0)[: 2 * M] / np.abs(expected).max(0)[: 2 * M]
    assert (error < 1e-5).all() and error.max() > 1e-9


def test_maxima_are_not_added(cluster, tmp_path):
    """Tiles on both sides of the diagonal, and of several tasks."""
    D = np.ones((40, 40)) - np.eye(40)
    D[3, 37] = D[37, 3] = 9
    found = sweep(cluster, store_of(D, 8, tmp_path / "run"), first_reader(start_block(40, 2, 0)))
    assert np.flatnonzero(found[:, -1] == 9).tolist() == [3, 37]
    assert (np.delete(found[:, -1], [3, 37]) == 1).all()


# ---- the same bits -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference(graph, block, tmp_path_factory):
    """A run in one go, on one thread: its store and what was found."""
    store = new_run(graph, 16, tmp_path_factory.mktemp("reference") / "run")
    with DaskCluster(threads=1) as cluster:
        return store, first_found(cluster, store, first_reader(block))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_workers_and_threads_finds_the_same_bits(tmp_path, graph, block, reference, workers, threads):
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    sizes = {"n_workers": workers, "threads_per_worker": threads}
    with (
        LocalCluster(processes=False, memory_limit=0, **sizes, **addresses) as local,
        Client(local, set_as_default=False) as client,
        DaskCluster(client) as cluster,
    ):
        found = first_found(cluster, new_run(graph, 16, tmp_path / "run"), first_reader(block))
    np.testing.assert_array_equal(found, reference[1])


@pytest.mark.parametrize("finished", [[0], [9], [0, 1, 2], [1, 4, 8], list(range(10))])
def test_a_run_that_was_stopped_anywhere_finds_the_same_bits(
    cluster, tmp_path, graph, block, reference, reads, finished
):
    """Rows in the ledger are read back, each tile once, and no other."""
    store = new_run(graph, 16, tmp_path / "run")
    D = reference[0].read_rows(np.arange(N))
    for row in finished:
        here = store.blocks[row]
        store.tiles.write(row, D[here, here.start :])
    reads.clear()
    found = first_found(cluster, store, first_reader(block))
    np.testing.assert_array_equal(found, reference[1])
    assert reads == Counter((row, column) for row in finished for column in range(row, 10))


def test_a_read_by_rows_and_given_distances_find_the_same_bits(cluster, tmp_path, block, reference):
    store, found = reference
    np.testing.assert_array_equal(sweep(cluster, store, first_reader(block), by_rows=True), found)
    D = store.read_rows(np.arange(N)).astype(float)
    given = RunStore.create(tmp_path / "run")
    given.create_distances(N, 16)
    first = {FIRST_FOUND: first_reader(block)}
    again = compute_distances(None, given, quiet, first, lambda here: D[here, here.start :].astype(np.float32))
    np.testing.assert_array_equal(again[FIRST_FOUND], found)


def test_a_read_by_runs_of_tiles_finds_the_same_numbers(cluster, block, reference):
    """Not the same bits: the order of summation is another."""
    store, found = reference
    other = sweep(cluster, store, first_reader(block))
    np.testing.assert_allclose(totals(other), totals(found), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("tile", [(0, 0), (2, 5)])
def test_a_finished_row_that_was_damaged_is_made_again_when_it_is_read_back(cluster, tmp_path, graph, block, tile):
    """And said to be; the others are not made again, and all that is found has the bits of an undamaged run."""
    store = new_run(graph, 16, tmp_path / "run")
    expected = first_found(cluster, store, first_reader(block))
    before = tree(store.path)
    chunk = store.tiles.file(*tile)
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])
    with pytest.warns(DamagedTilesWarning, match=rf"1 of 10 tile rows .*the first: {tile[0]}\)"):
        found = first_found(cluster, store, first_reader(block))
    np.testing.assert_array_equal(found, expected)
    assert tree(store.path) == before


def tree(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in Path(path).rglob("*/*") if file.is_file()}


# ---- what is kept --------------------------------------------------------------------------------


def test_what_was_found_is_kept_with_the_distances_and_goes_with_them(cluster, tmp_path, block, reference):
    store = store_of(random_distances(N), 64, tmp_path / "run")
    assert FirstRead.load(store) is None
    first = FirstRead(block, reference[1])
    store.write_array(FIRST_BLOCK, block)
    store.write_array(FIRST_FOUND, first.found)
    back = FirstRead.load(store)
    np.testing.assert_array_equal(back.block, block)
    np.testing.assert_array_equal(back.found, reference[1])
    store.copy_without_distances(tmp_path / "model")
    assert FirstRead.load(RunStore(tmp_path / "model")) is None
    store.drop_distances()
    assert FirstRead.load(store) is None
    assert not list(Path(store.path).glob("first_*"))


def test_one_with_fewer_sums_is_read_for_again(tmp_path, block, reference):
    store = store_of(random_distances(N), 64, tmp_path / "run")
    store.write_array(FIRST_BLOCK, block)
    store.write_array(FIRST_FOUND, np.delete(reference[1], [-3, -2], axis=1))
    assert FirstRead.load(store) is None


def test_it_serves_who_asks_for_as_many_columns(cluster, block, reference, reads):
    """And costs no read then; another width costs one, whose sums have the same bits."""
    store, found = reference
    for wanted, cost in ((block, 0), (start_block(N, M + 1, 0), 1)):
        reads.clear()
        kernels = CenteredKernels(cluster, store, first=FirstRead(block, found))
        start = kernels.start(wanted.shape[1], lambda wanted=wanted: wanted)
        assert kernels.n_reads == cost and sum(reads.values()) == cost * len(store.blocks.tiles())
        np.testing.assert_array_equal(start.basis, wanted)
        fresh = CenteredKernels(cluster, store)
        for image, expected in zip(start.images, fresh.products(wanted), strict=True):
            np.testing.assert_array_equal(image, expected)
        for name in ("row_sums", "row_sums_squared", "row_maxima", "cubes", "fourths"):
            np.testing.assert_array_equal(getattr(kernels.sums, name), getattr(fresh.sums, name))
        assert kernels.sums.maximum == store.read_rows(np.arange(N)).max()


def test_the_first_tiles_that_are_really_read_are_verified(cluster, block, reference, tmp_path):
    """Whoever solves again on another day has not written them."""
    store = RunStore(shutil.copytree(reference[0].path, tmp_path / "run"))
    kernels = CenteredKernels(cluster, store, first=FirstRead(block, reference[1]))
    kernels.start(M, lambda: pytest.fail("the first read is there"))
    file = store.tiles.file(0, 1)
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(DamagedStoreError, match=r"tile \(0, 1\).*checksum"):
        kernels.products(block)


# ---- a fit ---------------------------------------------------------------------------------------


@pytest.fixture
def second_block(monkeypatch, reads):
    """Tiles that had been read when each product was asked for, the first one of a block behind the start block."""
    before, real = [], CenteredKernels.products

    def products(self, vectors):
        if not before:
            start = RunStore(self._store.path).read_array("first_block")
            assert np.abs(start.T @ vectors).max() < 1e-10, "the start block was read for"
        before.append(sum(reads.values()))
        return real(self, vectors)

    monkeypatch.setattr(CenteredKernels, "products", products)
    return before


@pytest.mark.parametrize("n_components", [2, 10])
@pytest.mark.parametrize("correction", ["cailliez", None, 0.5])
def test_a_fresh_fit_reads_nothing_before_the_second_block(
    iterate, reads, second_block, tmp_path, correction, n_components
):
    """The start block is as wide for every correction, though fewer columns would do without the low end."""
    model = fitted(tmp_path / "run", correction=correction, n_components=n_components)
    assert second_block[0] == 0
    assert len(second_block) == model.n_passes_ > 1
    assert sum(reads.values()) == TILES * model.n_passes_


def test_a_fit_to_given_distances_reads_nothing_before_it_either(iterate, reads, second_block, tmp_path):
    D = random_distances(200)
    model = KernelIsomap(metric="geodesic", store=tmp_path / "run").fit(D)
    assert second_block[0] == 0 and sum(reads.values()) == TILES * model.n_passes_
    assert model.spectrum_["max_distance"] == pytest.approx(D.max(), rel=1e-6)


@pytest.mark.parametrize("change", [{"correction": None}, {"correction": 0.5}, {"tol": 1e-3}, {"n_components": 5}])
def test_solving_again_begins_from_the_same_read(iterate, reads, tmp_path, change):
    """As many products as a fresh fit, to two; the bits of one whose block was made for the same correction."""
    fitted(tmp_path / "run")
    reads.clear()
    again = fitted(tmp_path / "run", **change)
    assert sum(reads.values()) == TILES * again.n_passes_
    fresh = fitted(None, **change)
    fitted(tmp_path / "bare")
    for name in FUSED:
        RunStore(tmp_path / "bare").remove_array(name)  # as of a run that never had it; a damaged one is another claim
    bare = fitted(tmp_path / "bare", **change)
    assert fresh.n_passes_ == bare.n_passes_ - 1
    same(bare, fresh)
    assert again.n_passes_ <= fresh.n_passes_ + 2
    if "tol" not in change:  # the block was made for other pairs
        np.testing.assert_allclose(again.eigenvalues_, fresh.eigenvalues_, rtol=1e-9)
        np.testing.assert_allclose(again.embedding_, fresh.embedding_, atol=1e-4 * np.abs(fresh.embedding_).max())
    else:
        same(again, fresh)


def test_a_wider_start_block_is_read_for_and_finds_what_a_fresh_fit_finds(iterate, tmp_path):
    fitted(tmp_path / "run")
    again, fresh = fitted(tmp_path / "run", n_components=20), fitted(None, n_components=20)
    same(again, fresh)
    assert again.n_passes_ == fresh.n_passes_ + 1
    assert fitted(tmp_path / "run").n_passes_ == fitted(None).n_passes_, "the first block's was lost"


def test_a_stopped_fit_may_go_on_with_another_start_block(iterate, reads, tmp_path):
    """What is finished is read back with the block of the fit that finishes it."""

    def stop(stage, done, total):
        if (stage, done) == ("geodesics", 3):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "run", progress=stop)
    assert not reads
    model, fresh = fitted(tmp_path / "run", n_components=20), fitted(None, n_components=20)
    same(model, fresh)
    assert model.n_passes_ == fresh.n_passes_


def test_few_points_are_never_read_at_all(reads, tmp_path):
    """Up to 300 the first block is the whole space, and so is every answer."""
    for change in ({}, {"correction": None}, {"n_components": 7}, {"random_state": 3}):
        model = fitted(tmp_path / "run", **change)
        assert model.n_passes_ == 0
    assert not reads
    assert model.spectrum_["max_distance"] == model.geodesics(np.arange(len(X))).max()


@pytest.mark.parametrize("name", FUSED)
def test_where_what_was_kept_is_damaged_d_is_read_again(reads, tmp_path, name):
    fitted(tmp_path / "run")
    chunk = tmp_path / "run" / name / "c" / "0" / "0"
    data = bytearray(chunk.read_bytes())
    data[77] ^= 1
    chunk.write_bytes(data)
    reads.clear()
    model = fitted(tmp_path / "run", correction=None)
    assert sum(reads.values()) == TILES * model.n_passes_ == TILES
    np.testing.assert_allclose(model.embedding_, fitted(None, correction=None).embedding_, rtol=0, atol=1e-9)


def test_a_reader_is_sent_once_and_not_with_every_task(monkeypatch, tmp_path, graph, block):
    """Ω is as large as the embedding: tasks carry a handle."""
    with DaskCluster(threads=2) as cluster:
        sent, real = [], cluster.client.submit
        monkeypatch.setattr(
            cluster.client, "submit", lambda *task, **options: (sent.append(task), real(*task, **options))[1]
        )
        first_found(cluster, new_run(graph, 16, tmp_path / "run"), first_reader(block))
    assert len(sent) == 10
    assert not any(isinstance(part, (np.ndarray, Reader)) for task in sent for part in task)
