"""Test sets of any length: exact neighbours among parts to the bit, a way that follows from the length alone, one
group's results on the disk, the same bits whatever the chunks.

The oracle of a search is the blocked one among all rows; of a projection, `transform` of the same rows at once.
"""

import contextlib
from collections import Counter
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import roll

from scalemani import KernelIsomap
from scalemani import model as run
from scalemani.errors import LowRecallWarning, ScalemaniError
from scalemani.neighbors import choice
from scalemani.neighbors.choice import QuerySearch, SearchStrategy
from scalemani.neighbors.metrics import METRICS
from scalemani.neighbors.parts import ClusterSearch, TriangleBounds, make_clusters
from scalemani.neighbors.search import search_for
from scalemani.projection import long
from scalemani.projection.projector import Attachments

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

EXACT, PARTS, INDEX = SearchStrategy
RNG = np.random.default_rng(0)
K = 6
SHARES = RNG.dirichlet(np.ones(13), 120)
YES = RNG.integers(0, 2, (120, 13)).astype(np.float64)
GRID = np.stack(np.meshgrid(*[np.arange(5)] * 3), -1).reshape(-1, 3).astype(np.uint8)
SPARSE = sp.random_array((120, 30), density=0.2, rng=np.random.default_rng(1), format="csr")
PARAMETERS = {
    "minkowski": {"p": 3},
    "wminkowski": {"w": np.ones(13), "p": 3},
    "seuclidean": {"V": np.linspace(1, 2, 13)},
    "standardised_euclidean": {"V": np.linspace(1, 2, 13)},
    "standardised euclidean": {"V": np.linspace(1, 2, 13)},
    "mahalanobis": {"VI": np.diag(np.linspace(1, 2, 13))},
}


def with_bounds():
    """Every metric that has them, and rows for it."""
    for name in sorted(METRICS):
        rows = RNG.uniform(-1, 1, (120, 2)) if name == "haversine" else SHARES
        with contextlib.suppress(ScalemaniError, ImportError):
            if TriangleBounds.known(search_for(rows, name, PARAMETERS.get(name)).form):
                yield name, rows


CASES = [
    *with_bounds(),
    *((name, YES) for name in ("jaccard", "hamming", "rogerstanimoto")),
    ("euclidean", np.hstack([GRID] * 4)),
    ("manhattan", np.hstack([GRID] * 4)),
    ("euclidean", np.repeat(RNG.normal(size=(50, 15)), 2, axis=0)),
    ("euclidean", np.concatenate([RNG.normal(size=(40, 15)) + 1e6 * i for i in range(3)])),
    ("euclidean", SPARSE),
    ("cosine", SPARSE),
]


def among_parts(rows, metric, most=15):
    search = search_for(rows, metric, PARAMETERS.get(metric), hold=False)
    return search, ClusterSearch(search, make_clusters(search, 0, most))


def queries_for(rows):
    """Rows of the set, rows beside it, and rows far from it."""
    if sp.issparse(rows):
        return sp.csr_array(sp.vstack([rows[::3], 3 * rows[1::5]], format="csr"))
    other = RNG.permutation(rows, axis=0)[:40]
    return np.concatenate([rows[::3], (rows[:40].astype(float) + other) / 2, 50.0 * other[:5]])


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- neighbours among parts ----------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "rows"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_lists_are_those_of_a_search_among_all_rows(metric, rows):
    queries = RNG.uniform(-1, 1, (40, 2)) if metric == "haversine" else queries_for(rows)
    search, parts = among_parts(rows, metric)
    expected = search.nearest(queries, K)
    same(parts.nearest(queries, K), expected)
    at = np.arange(queries.shape[0])[::-5]
    same(parts.nearest(queries[at], K), [found[at] for found in expected])
    one = [parts.nearest(queries[i : i + 1], K) for i in range(3)]
    same([np.concatenate(column) for column in zip(*one, strict=True)], [found[:3] for found in expected])
    radius = float(np.median(expected[1][:, -1]))
    same(parts.within(queries, radius), search.within(queries, radius))
    count = search.n_rows  # more than any part has
    same(parts.nearest(queries[:4], count), search.nearest(queries[:4], count))


def test_queries_measure_to_the_parts_that_can_hold_their_neighbours_alone():
    centers = 100 * np.eye(12)
    rows = np.repeat(centers, 50, axis=0) + RNG.normal(size=(600, 12))
    search, parts = among_parts(rows, "euclidean", 50)
    queries = centers + 0.1
    same(parts.nearest(queries, K), search.nearest(queries, K))
    assert parts.pairs < 12 * (4 * 50 + 2 * parts.clusters.count)  # of 12 * 600; a cluster may be some parts


def test_threads_change_nothing():
    search, parts = among_parts(np.hstack([GRID] * 4), "euclidean")
    queries = np.tile(queries_for(search.rows), (2, 1))
    expected = parts.nearest(queries, K)
    search.threads = 3
    same(ClusterSearch(search, parts.clusters).nearest(queries, K), expected)


# ---- the way -------------------------------------------------------------------------------------


def ways(rows, totals, approximate=True, radius=None, metric="euclidean"):
    found = QuerySearch(search_for(rows, metric), None if radius else 10, radius, approximate)
    return [found.choose(total) for total in totals]


def test_the_way_is_the_cheapest_for_that_many_rows(monkeypatch):
    clusters = np.repeat(100 * RNG.normal(size=(60, 30)), 80, axis=0) + RNG.normal(size=(4800, 30))
    shapeless = RNG.normal(size=(4800, 60))
    assert ways(clusters, [10, 10**7]) == [EXACT, PARTS]
    assert ways(clusters, [10**7], radius=3.0) == [PARTS]
    assert ways(shapeless, [10, 10**8]) == [EXACT, INDEX]
    assert ways(shapeless, [10**8], approximate=False)[0] != INDEX
    assert ways(clusters[:, :3], [10**9]) == [EXACT]  # by a tree
    assert ways(np.abs(shapeless), [10**4], metric="braycurtis", approximate=False) == [EXACT]  # no bounds are known
    monkeypatch.setattr(choice, "INDEX_BYTES", 1 << 20)
    assert ways(shapeless, [10**8])[0] != INDEX


# ---- projections ---------------------------------------------------------------------------------

DIMENSIONS = 12
X = np.hstack([roll(150)] * 4) + 0.0
T = np.concatenate([np.hstack([roll(60, seed=1)] * 4), X[[3, 3, 77]]])
PART, GROUP = 5, 30
PIECES = 2 * -(-len(T) // PART)  # results that are kept, of parts and of pieces


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models that no test may change, of all points and of landmarks."""
    folder = tmp_path_factory.mktemp("runs")
    common = {"n_neighbors": 8, "n_components": 2}
    return {
        "all": KernelIsomap(**common, store=folder / "all.zarr").fit(X),
        "landmarks": KernelIsomap(**common, landmarks=40, store=folder / "landmarks.zarr").fit(X),
    }


@pytest.fixture
def small(monkeypatch):
    """Small blocks, any test set is long, and parts are what is cheapest."""
    monkeypatch.setattr(long, "_piece_rows", lambda _: PART)
    monkeypatch.setattr(long, "ROWS_A_GROUP", GROUP)
    monkeypatch.setattr(long, "sizes", lambda *_: (PART, GROUP // 2, GROUP))
    monkeypatch.setattr(QuerySearch, "is_long", lambda *_: True)
    monkeypatch.setattr(QuerySearch, "choose", lambda *_: PARTS)


class SeesAll:
    check_shared = staticmethod(lambda *_, **__: None)


@pytest.fixture
def counted(small, monkeypatch):
    """Tasks by their function and, for attaching, their way; they run when they are asked for."""
    done = Counter()

    def results(_, function, tasks):
        for task in tasks:
            done[function.__name__] += 1
            if function.__name__ == "attach":
                done[task[-1]] += 1
            yield function(*task)

    monkeypatch.setattr(run, "Cluster", lambda _: contextlib.nullcontext(SeesAll))
    monkeypatch.setattr(long, "_results", results)
    return done


def zarr_of(rows, path, chunks):
    array = zarr.create_array(path, shape=rows.shape, chunks=chunks, dtype=rows.dtype)
    array[:] = rows
    return array


@pytest.mark.parametrize("kind", ["landmarks", pytest.param("all", marks=pytest.mark.slow)])
def test_chunks_and_kinds_of_arrays_change_no_bit(models, counted, tmp_path, monkeypatch, kind):
    model = models[kind]
    with monkeypatch.context() as patched:
        patched.setattr(QuerySearch, "choose", lambda *_: EXACT)
        expected = model.transform(T)
    assert counted[EXACT] == counted["attach"]
    sources = {
        "rows": T,
        "fortran": np.asfortranarray(T),
        "sevens": zarr_of(T, tmp_path / "7.zarr", (7, 5)),
        "ones": zarr_of(T, tmp_path / "1.zarr", (1, 12)),
        "dask": da.from_array(T, chunks=((31, 2, 30), (8, 4))),
        "sparse": sp.csr_array(T),
    }
    for name, source in sources.items():
        written = model.transform_to(source, tmp_path / f"{name}.zarr")
        np.testing.assert_array_equal(written[:], expected, err_msg=name)
        assert written.chunks[0] == GROUP // 2
    assert counted[PARTS] == len(sources) * counted[EXACT]
    np.testing.assert_array_equal(model.transform(sources["dask"]).compute(scheduler="sync"), expected)
    np.testing.assert_allclose(expected[-3:], model.embedding_[[3, 3, 77]], rtol=1e-9)  # they attach to these alone


def test_the_way_is_asked_once_and_goes_with_every_task(models, counted, tmp_path, monkeypatch):
    model, out = models["all"], tmp_path / "y.zarr"
    with stopping(model, 35):
        model.transform_to(T, out)
    monkeypatch.setattr(QuerySearch, "choose", lambda *_: EXACT)  # what was chosen is kept with what it gave
    model.transform_to(T, out)
    assert counted["way_for"] == 1 and counted[PARTS] == counted["attach"] == PIECES // 2


class Stop(BaseException):
    """What ends a run in the middle, as a signal does."""


@contextlib.contextmanager
def stopping(model, rows):
    """Stop a projection when it says that so many rows are placed."""

    def said(stage, done, total):
        if done >= rows:
            raise Stop

    model.set_params(progress=said)
    try:
        with pytest.raises(Stop):
            yield
    finally:
        model.set_params(progress=False)


def kept_in(out):
    return sorted(path.name for path in out.with_name(f".{out.name}.scalemani.partial").glob("*.kept"))


@pytest.mark.parametrize("at", [5, 30, 45, 60])
def test_no_task_is_done_twice_after_a_stop(models, counted, tmp_path, at):
    model, out = models["landmarks"], tmp_path / "y.zarr"
    expected = model.transform(T)
    counted.clear()
    with stopping(model, at):
        model.transform_to(T, out)
    assert 0 < counted["attach"] + counted["place"] < PIECES
    source = zarr_of(T, tmp_path / "t.zarr", (9, 12))  # the same rows, stored in another way
    np.testing.assert_array_equal(model.transform_to(source, out)[:], expected)
    assert counted["attach"] + counted["place"] == PIECES
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_disk_holds_the_results_of_one_group(models, counted, tmp_path):
    model, out, most = models["all"], tmp_path / "y.zarr", []
    rows = np.tile(T, (4, 1))
    model.set_params(progress=lambda *_: most.append(kept_in(out)))
    try:
        model.transform_to(rows, out)
    finally:
        model.set_params(progress=False)
    blocks = [[name for name in names if not name.startswith(("group", "way"))] for names in most]
    assert max(map(len, blocks)) == 2 * GROUP // PART
    assert max(map(len, most)) <= 2 * GROUP // PART + -(-len(rows) // GROUP) + 1
    assert min(len(names) for names in blocks[GROUP // PART :]) > 0  # they were looked at while they were there


def test_a_finished_group_whose_numbers_are_damaged_is_made_again_and_no_other(models, counted, tmp_path):
    model, out = models["all"], tmp_path / "y.zarr"
    expected = model.transform(T)
    with stopping(model, len(T)):
        model.transform_to(T, out)
    whole = out.with_name(f".{out.name}.scalemani.partial") / "whole"
    chunks = sorted(whole.glob("c/*/0"))
    assert len(chunks) == 2 * (len(T) // GROUP)
    content = bytearray(chunks[1].read_bytes())
    content[40] ^= 1
    chunks[1].write_bytes(content)
    chunks[2].unlink()
    counted.clear()
    np.testing.assert_array_equal(model.transform_to(T, out)[:], expected)
    assert counted["attach"] == 2 * GROUP // PART and counted["place"] == 2 * GROUP // PART


def test_rows_that_touch_the_same_chunks_are_placed_together():
    """Two chunks of ten each, in any order; and rows that touch none."""
    pairs = RNG.permuted(np.stack([np.arange(60) // 6, RNG.integers(0, 10, 60)], axis=1), axis=1)[RNG.permutation(60)]
    vertices = (10 * pairs + RNG.integers(0, 10, (60, 2))).ravel()
    indptr = np.concatenate([[0, 0], np.arange(1, 61) * 2, [120]])
    found = Attachments(indptr, vertices, np.ones(120), np.full(62, -1))
    order = found.by_chunk(10)
    assert sorted(order) == list(range(62))
    touched = [tuple(sorted(set(vertices[indptr[row] : indptr[row + 1]] // 10))) for row in order]
    assert sum(one != other for one, other in pairwise(touched)) <= len(set(touched))


# ---- an index ------------------------------------------------------------------------------------


@pytest.mark.long  # a minute's compilation of an index's queries
@pytest.mark.timeout(1800)
def test_lists_of_an_index_follow_from_the_row_alone(models):
    """Rows that lie on the hyperplanes of its trees draw random numbers."""
    grid = np.hstack([GRID] * 4).astype(np.float64)
    rows = np.concatenate([np.repeat(grid, 8, axis=0), RNG.normal(size=(500, 12))])
    rows = np.unique(rows + np.repeat(np.arange(len(rows))[:, None] % 8, 12, axis=1) * 1e-3, axis=0)
    queries = np.concatenate([grid, RNG.normal(size=(50, 12)), np.zeros((3, 12))])
    found = QuerySearch(search_for(rows), 5, None, True)
    expected = found.nearest(queries, INDEX)
    order = RNG.permutation(len(queries))
    same(found.nearest(queries[order], INDEX), [part[order] for part in expected])
    one = [found.nearest(queries[i : i + 1], INDEX) for i in range(0, len(queries), 9)]
    same([np.concatenate(column) for column in zip(*one, strict=True)], [part[::9] for part in expected])
    assert found.recall(queries) > 0.9
    exact = found.nearest(queries)
    np.testing.assert_array_equal(found.search.paired(queries, expected[0]), expected[1])
    assert (expected[1] >= exact[1]).all()


@pytest.mark.long  # a minute's compilation of an index's queries
@pytest.mark.timeout(1800)
def test_an_index_that_misses_neighbours_is_warned_of(models, counted, tmp_path, monkeypatch):
    model, out = models["all"], tmp_path / "y.zarr"
    monkeypatch.setattr(QuerySearch, "choose", lambda *_: INDEX)
    model.transform_to(T, tmp_path / "good.zarr")
    assert counted[INDEX] == counted["attach"] and counted["recall_of"] == 1
    monkeypatch.setattr(QuerySearch, "recall", lambda *_: 0.5)
    with pytest.warns(LowRecallWarning, match=r"NN-descent found 0\.500"), stopping(model, 35):
        model.transform_to(T, out)
    with pytest.warns(LowRecallWarning, match=r"NN-descent found 0\.500"):  # by what is kept
        model.transform_to(T, out)
    assert counted["recall_of"] == 2


@pytest.mark.slow
def test_processes_that_search_among_parts_give_the_same_bits(models, tmp_path, monkeypatch):
    """Each makes its own parts."""
    from distributed import Client, LocalCluster

    model = models["landmarks"]
    expected = model.transform(T)
    monkeypatch.setattr(long, "_piece_rows", lambda _: PART)
    monkeypatch.setattr(long.Placing, "way", PARTS)
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(2, threads_per_worker=1, host="127.0.0.1", **addresses) as cluster,
        Client(cluster) as client,
    ):
        model.set_params(scheduler=client)
        try:
            written = model.transform_to(T, tmp_path / "y.zarr")
        finally:
            model.set_params(scheduler=None)
    np.testing.assert_array_equal(written[:], expected)
