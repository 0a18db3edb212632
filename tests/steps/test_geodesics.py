"""D as tiles: the same numbers for every tile size, only what is missing computed, nothing wrong written."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from data import graph_of, line_graph, roll_graph, star_graph, store_of, torus_distances, torus_graph

from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics import rows as row_check
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS, FINITE, DistanceCounts, bin_edges, count_distances, new_counts
from scalemani.geodesics.rows import power_of_two_scale, sampled_median, save_graph, shared_graph
from scalemani.kernel.eigensolver import start_block
from scalemani.steps import distances
from scalemani.steps.distances import RowWork
from scalemani.steps.rows import RowMemory
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

N = 120


def quiet(stage, done, total):
    pass


def taken(n):
    """What goes with every D, for a block of two columns."""
    return distances.consumers_of(start_block(n, 2, 0))


def compute_distances(cluster, store, report=quiet):
    distances.save_found(store, distances.compute_distances(cluster, store, report, taken(store.blocks.n)))


def run_of(graph, tile, path, scale=1.0):
    store = RunStore.create(path)
    save_graph(store, graph, scale)
    store.create_distances(graph.shape[0], tile)
    return store


def tile_row(store, row):
    return distances._tile_row(store.path, store.identity, row, RowWork(taken(store.blocks.n)))


def whole(store):
    return store.read_rows(np.arange(store.blocks.n))


@pytest.fixture(scope="module")
def graph():
    return roll_graph(N)


@pytest.mark.parametrize("tile", [7, 16, 60, 120, 300])
def test_every_tile_size_gives_the_shortest_paths(cluster, tmp_path, graph, tile):
    """Bit for bit the row of the earlier vertex; to rounding SciPy's."""
    store = run_of(graph, tile, tmp_path / "run")
    compute_distances(cluster, store)
    D = whole(store)
    np.testing.assert_allclose(D, naive.geodesics(graph), rtol=1e-6)
    np.testing.assert_array_equal(D, D.T)
    rows = geodesic_rows(graph, np.arange(N))
    upper = np.triu_indices(N)
    np.testing.assert_array_equal(D[upper], rows[upper])


def test_any_number_of_threads_writes_the_same_bytes(tmp_path, graph):
    found = []
    for threads in (1, 4):
        with DaskCluster(threads=threads) as cluster:
            store = run_of(graph, 16, tmp_path / f"{threads}")
            compute_distances(cluster, store)
        files = sorted(Path(store.path, "distances").rglob("*"))
        ledger = sorted(Path(store.path, "ledger").iterdir())
        sums = [json.loads(path.read_bytes())["crc32c"] for path in ledger]
        found.append(([path.read_bytes() for path in files if path.is_file()], sums))
    assert found[0] == found[1]


def test_lengths_are_divided_by_the_scale_exactly(cluster, tmp_path, graph):
    store, unit = run_of(graph, 64, tmp_path / "a", scale=2.0**-5), run_of(graph, 64, tmp_path / "b")
    for made in (store, unit):
        compute_distances(cluster, made)
    np.testing.assert_array_equal(whole(store), whole(unit) * np.float32(32))


def test_the_torus_has_its_closed_form(cluster, tmp_path):
    store = run_of(torus_graph(6, 8), 16, tmp_path / "run")
    compute_distances(cluster, store)
    np.testing.assert_array_equal(whole(store), torus_distances(6, 8))


def test_a_graph_is_read_back_with_its_stored_zeros(tmp_path):
    store = run_of(graph_of([(0, 1), (1, 2)], [0.0, 3.0], 3), 16, tmp_path / "run", scale=2.0)
    back = shared_graph(store.path, store.identity)
    assert back.nnz == 4
    assert sorted(back.data.tolist()) == [0, 0, 1.5, 1.5]
    assert back.data.dtype == np.float32


# ---- going on ----------------------------------------------------------------------------------


@pytest.fixture
def sources_seen(monkeypatch):
    """Which sources the tasks ask the kernel for."""
    seen = []

    def counted(graph, sources, **options):
        seen.extend(np.asarray(sources).tolist())
        return geodesic_rows(graph, sources, **options)

    monkeypatch.setattr(distances, "geodesic_rows", counted)
    return seen


def test_each_vertex_is_a_source_once(cluster, tmp_path, graph, sources_seen):
    compute_distances(cluster, run_of(graph, 16, tmp_path / "run"))
    assert sorted(sources_seen) == list(range(N))


def test_only_missing_rows_are_computed_and_the_result_is_that_of_an_undisturbed_run(
    cluster, tmp_path, graph, sources_seen
):
    """A stopped run: two lines of the ledger gone, one of them with a half-written tile."""
    store = run_of(graph, 16, tmp_path / "run")
    compute_distances(cluster, store)
    before = whole(store)
    for row in (1, 5):
        Path(store.path, "ledger", f"{row}.json").unlink()
    torn = Path(store.path, "distances", "c", "1", "3")
    torn.write_bytes(torn.read_bytes()[:77])
    sources_seen.clear()
    compute_distances(cluster, store)
    assert sorted(sources_seen) == [*range(16, 32), *range(80, 96)]
    np.testing.assert_array_equal(whole(store), before)


def test_a_finished_run_computes_nothing(cluster, tmp_path, graph, sources_seen):
    store = run_of(graph, 32, tmp_path / "run")
    compute_distances(cluster, store)
    sources_seen.clear()
    compute_distances(cluster, store)
    assert sources_seen == []


def test_a_task_that_is_run_again_looks_in_the_ledger_first(tmp_path, graph, sources_seen):
    """A lost worker makes the scheduler repeat finished tasks; the second one may not write."""
    store = run_of(graph, 32, tmp_path / "run")
    first, _ = tile_row(store, 1)
    stamps = {p: p.stat().st_mtime_ns for p in Path(store.path).rglob("*")}
    count = len(sources_seen)
    again, remade = tile_row(store, 1)
    assert again.keys() == first.keys() and not remade
    for name in first:
        np.testing.assert_array_equal(again[name], first[name])
    assert len(sources_seen) == count
    assert {p: p.stat().st_mtime_ns for p in Path(store.path).rglob("*")} == stamps


def test_a_thread_uses_the_same_memory_for_all_its_rows():
    """Smaller rows are a part of it, larger ones replace it; another thread has its own, another process none yet."""
    memory = RowMemory()
    first = memory.rows(8, 100)
    assert first.shape == (8, 100) and first.flags.c_contiguous and first.dtype == np.float32
    assert np.shares_memory(memory.rows(3, 50), first)
    with ThreadPoolExecutor(1) as other:
        assert not np.shares_memory(other.submit(memory.rows, 8, 100).result(), first)
    larger = memory.rows(9, 100)
    assert larger.shape == (9, 100) and not np.shares_memory(larger, first)
    assert len(pickle.dumps(memory)) < 200


def test_tile_rows_that_are_not_confirmed_are_an_error(cluster, tmp_path, graph, monkeypatch):
    """Each task looks where it wrote."""
    store = run_of(graph, 32, tmp_path / "run")
    monkeypatch.setattr(Tiles, "_confirm", lambda *_: None)
    with pytest.raises(DamagedStoreError, match=r"tile row \d of D was not written"):
        compute_distances(cluster, store)


def test_progress_counts_rows_from_what_is_done(cluster, tmp_path, graph):
    store, heard = run_of(graph, 32, tmp_path / "run"), []
    tile_row(store, 2)
    compute_distances(cluster, store, lambda *told: heard.append(told))
    assert heard == [("geodesics", done, 4) for done in (2, 3, 4)]  # whoever asks for it says what was done before


# ---- what is refused ---------------------------------------------------------------------------


def test_a_directed_graph_is_refused_and_nothing_is_confirmed(cluster, tmp_path):
    """Directed paths on a kNN graph are finite everywhere, and wrong."""
    graph = roll_graph(60)
    upper = sp.csr_array(sp.triu(graph) * 1.5 + sp.tril(graph))
    store = run_of(upper, 64, tmp_path / "run")
    with pytest.raises(DamagedStoreError, match="not symmetric"):
        compute_distances(cluster, store)
    assert store.tiles.missing() == [0]


def test_an_edge_that_is_a_little_longer_one_way_is_refused(cluster, tmp_path):
    """By one float32: what the rows need not show is seen in the graph."""
    graph = roll_graph(60)
    i, j = (int(v[0]) for v in graph.nonzero())
    graph[i, j] *= 1 + 1e-7
    with pytest.raises(DamagedStoreError, match="not symmetric"):
        compute_distances(cluster, run_of(graph, 64, tmp_path / "run"))


def float32_path(weights, start, stop):
    """The rows' own block of a path, start to stop - 1, each hop added in float32 from the row's own end."""
    rows = np.zeros((stop - start, stop - start), np.float32)
    for row, source in zip(rows, range(start, stop), strict=True):
        row[source - start + 1 :] = np.cumsum(weights[source : stop - 1], dtype=np.float32)
        row[: source - start] = np.cumsum(weights[start:source][::-1], dtype=np.float32)[::-1]
    return rows


@pytest.mark.parametrize("start", [0, 60_000, 98_500])
@pytest.mark.parametrize("kind", ["equal", "random", "two scales"])
def test_float32_sums_along_a_path_of_100_000_are_not_refused(kind, start):
    """On two scales they differ from either end by 20 times what is allowed at sight.

    Small hops behind a long one each lose nearly half a unit of float32's last place; from the other end they
    are summed before it.
    """
    n = 100_000
    short = 838.49 * 2.0**-23
    weights = {
        "equal": np.full(n - 1, 0.1),
        "random": np.random.default_rng(0).uniform(0.5, 1.5, n - 1),
        "two scales": np.where(np.arange(n - 1) % 1500 == 700, 1.0, short),
    }[kind].astype(np.float32)
    graph = line_graph(n)
    at = np.minimum(np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices)
    graph.data = weights[at]
    rows = float32_path(weights, start, min(start + 1500, n))
    row_check.check_rows(graph, rows, start)
    apart = np.abs(rows - rows.T) / np.maximum(rows, 1e-30)
    assert (apart.max() > 40e-6) == (kind == "two scales")
    for pair in ((3, 1200), (1200, 3)):  # a kernel that is wrong in one number is noticed
        wrong = rows.copy()
        wrong[pair] *= np.float32(1.05)
        with pytest.raises(DamagedStoreError, match="not symmetric"):
            row_check.check_rows(graph, wrong, start)


def test_a_disconnected_graph_is_refused_and_nothing_is_confirmed(cluster, tmp_path):
    store = run_of(graph_of([(0, 1), (2, 3)], [1.0, 1.0], 4), 2, tmp_path / "run")
    with pytest.raises(DamagedStoreError, match="infinite distances"):
        compute_distances(cluster, store)
    assert 0 in store.tiles.missing()


def test_honest_rounding_over_many_hops_is_not_refused(cluster, tmp_path):
    """float32 sums from the two ends of 2,000 hops of 0.1 differ; the tile takes the upper half."""
    store = run_of(line_graph(2000, 0.1), 2000, tmp_path / "run")
    compute_distances(cluster, store)
    D = store.tiles.read(0, 0)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_allclose(D, 0.1 * np.abs(np.arange(2000)[:, None] - np.arange(2000)), rtol=1e-4)


# ---- given distances, median, scale ------------------------------------------------------------


@pytest.mark.parametrize("tile", [16, 50, 200])
def test_given_distances_are_taken_as_they_are(tmp_path, tile):
    """Scaled and rounded to float32; only the part at and behind each block's start is asked for."""
    D = naive.geodesics(roll_graph(N))
    store, asked, heard = RunStore.create(tmp_path / "run"), [], []
    store.create_distances(N, tile)

    def read_upper(here):
        asked.append(here)
        return (D[here, here.start :] / 4).astype(np.float32)

    found = distances.compute_distances(None, store, lambda *told: heard.append(told), taken(N), read_upper)
    np.testing.assert_allclose(whole(store), D / 4, rtol=1e-7)
    assert asked == list(store.blocks)
    assert heard[-1] == ("geodesics", len(asked), len(asked))
    again = distances.compute_distances(None, store, quiet, taken(N), read_upper)
    assert again.keys() == found.keys()
    for name in found:
        np.testing.assert_array_equal(again[name], found[name])
    assert asked == list(store.blocks), "what is done was read again"


def test_given_distances_and_a_graph_give_the_same_store(cluster, tmp_path):
    computed = run_of(torus_graph(5, 6), 16, tmp_path / "a")
    compute_distances(cluster, computed)
    given = store_of(torus_distances(5, 6), 16, tmp_path / "b")
    np.testing.assert_array_equal(whole(computed), whole(given))


@pytest.mark.parametrize("n", [2, 3, 40, 64])
def test_the_median_is_the_dense_one_on_small_graphs(n):
    graph = line_graph(n) if n < 4 else roll_graph(n)
    dense = naive.geodesics(graph)[~np.eye(n, dtype=bool)]
    assert sampled_median(graph, 0) == pytest.approx(np.median(dense), rel=1e-6)


def test_the_median_of_a_sample_is_near_and_depends_on_the_seed_alone():
    """The diagonal's zeros are left out; 64 of 400 sources give it to a few percent."""
    graph = roll_graph(400)
    dense = np.median(naive.geodesics(graph)[~np.eye(400, dtype=bool)])
    assert sampled_median(graph, 0) == pytest.approx(dense, rel=0.1)
    assert sampled_median(graph, 0) == sampled_median(graph, 0)
    assert sampled_median(graph, 0) != sampled_median(graph, 1)


def test_the_median_of_a_star_is_two_and_of_a_point_is_zero():
    assert sampled_median(star_graph(50), 0) == 2.0
    assert sampled_median(sp.csr_array((1, 1)), 0) == 0.0


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1.0, 1e9, 1e300])
def test_the_scale_is_a_power_of_two_that_brings_the_median_near_one(unit):
    lengths = np.array([0.0, 0.0, 1.0, 2.5, 9.0]) * unit
    scale = power_of_two_scale(lengths)
    assert np.frexp(scale)[0] == 0.5
    assert 1 <= 2.5 * unit / scale < 2
    np.testing.assert_array_equal(lengths / scale * scale, lengths)


def test_without_positive_lengths_the_scale_is_one():
    assert power_of_two_scale(np.zeros(3)) == power_of_two_scale(np.empty(0)) == 1.0


# ---- counts of the distances -------------------------------------------------------------------


def counted(pairs):
    """By NumPy's histogram, what the kernel takes from the bits: zeros, finite bins, inf."""
    finite = pairs[(pairs > 0) & np.isfinite(pairs)].astype(float)
    edges = np.append(bin_edges()[:-1], 4e38)  # the last one is inf
    inside = np.histogram(finite, edges)[0]
    return np.concatenate([[(pairs == 0).sum()], inside, [np.isinf(pairs).sum()]])


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("width", [1, 6, 61, 64])
def test_bits_are_counted_into_the_bins_of_a_histogram(width, diagonal):
    """Over all of float32's range: subnormals, both zeros, numbers on an edge and one below it, the largest, inf."""
    rng = np.random.default_rng(width)
    tile = np.exp(rng.uniform(-95, 85, (60, width))).astype(np.float32)
    edge = np.float32(1.25)
    special = [0.0, -0.0, 1e-45, 1e-39, edge, np.nextafter(edge, np.float32(0)), 3.4e38, np.inf]
    tile.ravel()[rng.permutation(tile.size)[: 2 * len(special)]] = special * 2
    counts = new_counts()
    count_distances(tile, counts, diagonal=diagonal)
    pairs = tile[np.triu_indices(60, 1, width)] if diagonal else tile.ravel()
    np.testing.assert_array_equal(counts, counted(pairs))
    count_distances(tile, counts, diagonal=diagonal)
    np.testing.assert_array_equal(counts, 2 * counted(pairs))


def test_a_bin_is_at_most_an_eighth_wide_and_a_power_of_two_moves_bins_by_octaves():
    edges = bin_edges()
    assert len(edges) == FINITE + 1 and edges[-1] == np.inf
    normal = edges[8:-1]
    assert (np.diff(normal) <= normal[:-1] / 8).all()
    np.testing.assert_array_equal(normal[8 * 5 :], 32 * normal[: -8 * 5])


@pytest.mark.parametrize("tile", [16, 60, 300])
def test_every_pair_is_counted_once_whatever_the_tiles(cluster, tmp_path, graph, tile):
    """Exactly those of the written D; a pair is a pair of different vertices, from one end."""
    store = run_of(graph, tile, tmp_path / "run")
    compute_distances(cluster, store)
    counts = store.read_array(DISTANCE_COUNTS)
    assert counts.sum() == N * (N - 1) // 2
    np.testing.assert_array_equal(counts, counted(whole(store)[np.triu_indices(N, 1)]))


def test_edges_of_no_length_are_zeros(cluster, tmp_path):
    store = run_of(graph_of([(0, 1), (1, 2), (2, 3)], [0.0, 0.0, 1.0], 4), 2, tmp_path / "run")
    compute_distances(cluster, store)
    counts = store.read_array(DISTANCE_COUNTS)
    assert (counts[0], counts.sum(), counts.max()) == (3, 6, 3)


@pytest.mark.parametrize("lost", [[0, 7], [1, 3, 4], list(range(8))])
def test_counts_of_a_run_that_was_stopped_are_those_of_an_undisturbed_one(cluster, tmp_path, graph, lost):
    """Computed rows count as they are written, finished ones as they are read back."""
    store = run_of(graph, 16, tmp_path / "run")
    compute_distances(cluster, store)
    before = store.read_array(DISTANCE_COUNTS)
    for row in lost:
        Path(store.path, "ledger", f"{row}.json").unlink()
    store.write_array(DISTANCE_COUNTS, np.zeros(1))
    compute_distances(cluster, store)
    np.testing.assert_array_equal(store.read_array(DISTANCE_COUNTS), before)


def test_given_distances_are_counted_in_the_unit_of_the_tiles(tmp_path):
    """inf between components included; and the same when they are read back."""
    D = naive.geodesics(roll_graph(N))
    D[:40, 40:] = D[40:, :40] = np.inf
    for scale in (1.0, 4.0):
        store = RunStore.create(tmp_path / f"{scale}")
        store.create_distances(N, 50)
        tiles = (D / scale).astype(np.float32)
        for _ in range(2):
            counted_only = {DISTANCE_COUNTS: DistanceCounts()}  # inf - inf is no number that a read of D takes
            upper = partial(lambda tiles, here: tiles[here, here.start :], tiles)
            counts = distances.compute_distances(None, store, quiet, counted_only, upper)[DISTANCE_COUNTS]
            np.testing.assert_array_equal(counts, counted(tiles[np.triu_indices(N, 1)]))
            assert counts[-1] == 40 * 80
