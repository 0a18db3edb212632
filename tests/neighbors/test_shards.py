"""Neighbours among clusters and shards: the lists of an undivided search to the bit, with fewer distances.

The oracle is the blocked search among all rows, which has claims of its own.
"""

import mmap
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from data import roll
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scalemani import KernelIsomap, load
from scalemani.neighbors import choice, descent, lists
from scalemani.neighbors.choice import SearchStrategy, choose_search
from scalemani.neighbors.descent import DescentShards
from scalemani.neighbors.parts import ClusterSearch, make_clusters
from scalemani.neighbors.search import find_neighbors, search_for
from scalemani.parameters import Parameters
from scalemani.points.rows import RowFile, held_bytes, map_of, read_points
from scalemani.steps import inputs
from scalemani.steps.inputs import read_input

K = 7
RNG = np.random.default_rng(0)
GRID = np.stack(np.meshgrid(*[np.arange(5)] * 3), -1).reshape(-1, 3).astype(np.uint8)
EQUAL = np.vstack([np.full((40, 12), 3.0), np.ones((1, 12)), np.eye(12)])
SPARSE = sp.random_array((90, 30), density=0.2, rng=np.random.default_rng(1), format="csr")
CASES = {
    "normal": (RNG.normal(size=(120, 20)), "euclidean"),
    "ties on a grid": (GRID, "euclidean"),
    "ties under another norm": (np.hstack([GRID] * 4).astype(np.int16), "manhattan"),
    "one feature": (RNG.normal(size=(120, 1)), "chebyshev"),
    "twins": (np.repeat(RNG.normal(size=(60, 15)), 2, axis=0), "euclidean"),
    "all equal but some": (EQUAL, "euclidean"),
    "far apart": (np.concatenate([RNG.normal(size=(30, 15)) + 1e6 * i for i in range(3)]), "euclidean"),
    "cosine": (RNG.normal(size=(90, 12)), "cosine"),
    "correlation": (RNG.normal(size=(90, 12)), "correlation"),
    "angles": (RNG.normal(size=(90, 12)), "true_angular"),
    "a metric of shares": (RNG.normal(size=(90, 12)), "canberra"),
    "no metric": (np.abs(RNG.normal(size=(90, 12))), "braycurtis"),
    "yes and no": (RNG.integers(0, 2, size=(90, 12)), "jaccard"),
    "sparse": (SPARSE, "euclidean"),
    "sparse cosine": (SPARSE, "cosine"),
}


def plain(points, metric="euclidean", k=K):
    """Lists (m, k) by a search of all rows among all rows."""
    search = search_for(points, metric)
    blocks = search.each_nearest(k, range(0, search.n_rows, search.block_rows))
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def clustered(points, metric="euclidean", most_rows=50, threads=1, seed=0):
    search = search_for(points, metric, threads=threads, hold=False)
    return ClusterSearch(search, make_clusters(search, seed, most_rows))


def run(among, k=K, block_rows=17):
    """Lists (m, k) of all rows, and how many distances they took; blocks begin and end anywhere."""
    among.block_rows = block_rows
    blocks = among.each_nearest(k, range(0, among.n_rows, block_rows))
    table, lengths, pairs = zip(*blocks, strict=True)
    back = np.argsort(among.clusters.order)
    return np.concatenate(table)[back], np.concatenate(lengths)[back], sum(pairs)


def same(found, expected):
    for one, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(one, other)


# ---- exact, to the bit ---------------------------------------------------------------------------


FEW = ("normal", "ties on a grid", "one feature", "all equal but some")


WITH_BOUNDS = [case for case in CASES if case != "no metric"]


@pytest.mark.parametrize(
    ("case", "most_rows"),
    [
        *(pytest.param(case, K - 2, marks=pytest.mark.slow) for case in FEW),
        *((case, 25) for case in WITH_BOUNDS),
        *(pytest.param(case, 10**6, marks=pytest.mark.slow) for case in WITH_BOUNDS),
    ],
)
def test_lists_are_those_of_an_undivided_search(case, most_rows):
    """Also where a cluster has fewer rows than a list; by a tree in each where rows have few features."""
    rows, metric = CASES[case]
    points = read_points(rows)
    among = clustered(points, metric, most_rows)
    clusters = among.clusters
    assert sorted(clusters.order) == list(range(points.n_distinct)) and np.diff(clusters.starts).max() <= most_rows
    same(run(among), plain(points, metric))
    same(run(among, block_rows=1000), plain(points, metric))
    if among.search.low:
        among.search.low = False
        same(run(among), plain(points, metric))


@settings(max_examples=25, deadline=None)
@example(np.array([[1], [-1], [2], [3], [0], [-4]], np.int16), "cosine", 3, 0, True)
@given(
    arrays(np.int16, st.tuples(st.integers(6, 30), st.integers(1, 14)), elements=st.integers(-9, 9)),
    st.sampled_from(["euclidean", "sqeuclidean", "manhattan", "chebyshev", "cosine", "hamming", "dot"]),
    st.integers(3, 30),
    st.integers(0, 3),
    st.booleans(),
)
def test_skipping_never_loses_a_neighbour(rows, metric, most_rows, seed, by_trees):
    points = read_points(np.unique(rows, axis=0))
    k = min(4, points.n_distinct - 1)
    if k < 1:
        return
    among = clustered(points, metric, most_rows, seed=seed)
    among.search.low &= by_trees
    same(run(among, k), plain(points, metric, k))


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["euclidean", "manhattan", "cosine", "canberra", "jaccard", "hellinger"]),
    st.sampled_from([1e-9, 1.0, 1e9]),
    st.integers(0, 2**20),
)
def test_bounds_are_below_the_lengths_that_they_bound(metric, scale, seed):
    rows = np.abs(np.random.default_rng(seed).normal(size=(40, 11))) * scale + scale * 1e5 * (seed % 2)
    among = clustered(read_points(rows), metric, 40)
    prepared, clusters, bounds = among.search.prepared, among.clusters, among.bounds
    for home in range(clusters.count):
        block = prepared.take(clusters.rows(home))
        for other in range(clusters.count):
            low = bounds.bounds(block, home, [other])[:, 0]
            there = prepared.take(clusters.rows(other))
            for query, least in zip(block, low, strict=True):
                lengths = bounds.length(among.search.form.pairs(np.tile(query, (len(there), 1)), there))
                assert max(least, bounds.apart(home)[other]) <= lengths.min()


@pytest.mark.parametrize("low", [False, True])
def test_the_same_for_any_number_of_threads_and_any_seed(low):
    points = read_points(roll(400))
    one, two, other = clustered(points), clustered(points, threads=2), clustered(points, seed=5)
    for among in (one, two, other):
        among.search.low = low
    assert run(two)[2] == run(one)[2]
    same(run(two), run(one))
    np.testing.assert_array_equal(one.clusters.order, two.clusters.order)
    same(run(other), plain(points))


# ---- what it saves, and says -----------------------------------------------------------------------


def found_in_clusters(points, monkeypatch, **more):
    monkeypatch.setattr(choice, "WORTH_CLUSTERS", 0.0)
    monkeypatch.setattr(choice, "LEAST", 0)
    return find_neighbors(points, n_neighbors=K, knn="exact", **more)


def test_skipping_saves_distances(monkeypatch):
    """Every distance and every bound is counted: as many as a search makes that is asked for its lists again."""
    points = read_points(np.hstack([roll(1000)] * 4))
    found = found_in_clusters(points, monkeypatch)
    stats = found.stats
    assert stats.n_distances < 0.5 * 1000**2 and stats.n_clusters == 31
    among = ClusterSearch(search_for(points), make_clusters(search_for(points), 0))
    assert stats.n_distances == run(among, block_rows=among.block_rows)[2]
    same((found.indices.reshape(-1, K), found.distances.reshape(-1, K)), plain(points))


def test_distances_are_said_where_they_are_counted():
    """All pairs of a blocked search; SciPy's tree does not say."""
    wide = find_neighbors(read_points(CASES["normal"][0]), n_neighbors=K)
    assert wide.stats.record() == {"n_distances": 120**2, "n_shards": 1, "n_clusters": 1}
    line = find_neighbors(read_points(np.arange(5000.0)[:, None]), n_neighbors=K)
    assert line.method == "kdtree" and line.stats.record() == {"n_shards": 1, "n_clusters": 1}


# ---- NN-descent, an index a shard ------------------------------------------------------------------


class Index:
    """An index that finds all, in float64."""

    made: ClassVar = []

    def __init__(self, rows, there, n_neighbors, random_state):
        self.search, self.there, self.k = rows._search, there, n_neighbors
        self.part = search_for(self.search.rows[there], self.search.form.name)
        Index.made.append(len(there))

    def own(self):
        found, _ = self.part.nearest(self.part.rows, self.k, exclude=np.arange(len(self.there)))
        return np.concatenate([self.there[:, None], self.there[found]], axis=1)

    def ask(self, rows):
        found, _ = self.part.nearest(self.search.rows[rows], self.k)
        return self.there[found]


def by_shards(points, most_rows, k=K, metric="euclidean"):
    return DescentShards(clustered(points, metric, most_rows), most_rows, k, 0)


def lists_of(shards, kept=None):
    return shards.run(kept, lambda done: None)


@pytest.mark.parametrize(("case", "least"), [("curved", 20), ("no metric", 20), ("no metric", 10**6)])
def test_each_index_is_made_once_and_the_best_of_all_are_merged(case, least, monkeypatch):
    """With an index that misses nothing the lists are the exact ones: no candidate is lost or listed twice.

    Also without bounds, where nothing is skipped, and where shards are too small for an index.
    """
    monkeypatch.setattr(descent, "ShardIndex", Index)
    monkeypatch.setattr(DescentShards, "least_indexed", least)
    Index.made.clear()
    rows, metric = (np.hstack([roll(300)] * 4), "euclidean") if case == "curved" else CASES[case]
    points = read_points(rows)
    shards = by_shards(points, 60, metric=metric)
    same(lists_of(shards), plain(points, metric))
    sizes = [int(np.diff(shards.search.clusters.starts)[list(shard)].sum()) for shard in shards.shards]
    assert Index.made == [size for size in sizes if size >= least] and max(sizes) <= 60
    assert shards.stats.record() == {"n_shards": len(sizes), "n_clusters": shards.search.clusters.count}


@pytest.mark.parametrize("case", ["no metric", "curved"])
def test_rows_ask_the_shards_alone_that_can_hold_nearer_ones(case, monkeypatch):
    asked = []

    class Asked(Index):
        def ask(self, rows):
            asked.extend(rows)
            return super().ask(rows)

    monkeypatch.setattr(descent, "ShardIndex", Asked)
    monkeypatch.setattr(DescentShards, "least_indexed", 1)
    rows, metric = (np.hstack([roll(300)] * 4), "euclidean") if case == "curved" else CASES[case]
    shards = by_shards(read_points(rows), 60, metric=metric)
    lists_of(shards)
    every = len(rows) * (len(shards.shards) - 1)
    assert len(asked) == every if case == "no metric" else len(asked) < 0.6 * every


def test_recall_of_shards_is_measured_and_short_lists_are_completed(monkeypatch):
    class Poor(Index):
        def own(self):
            return np.full((len(self.there), self.k + 1), -1)

        def ask(self, rows):
            return np.full((len(rows), self.k), -1)

    monkeypatch.setattr(descent, "ShardIndex", Poor)
    monkeypatch.setattr(DescentShards, "least_indexed", 1)
    monkeypatch.setattr(choice, "LEAST", 60)
    points = read_points(RNG.normal(size=(200, 20)))
    with pytest.warns(UserWarning, match=r"NN-descent found 0\.\d+ of the true neighbours"):
        found = find_neighbors(points, n_neighbors=K, knn="nndescent", room=1)
    assert found.method == "nndescent" and found.recall < 0.95 and np.isfinite(found.distances).all()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_an_index_a_shard_finds_nearly_all_and_twice_the_same():
    """Twice pynndescent's compilation: of an index, and of its queries."""
    points = read_points(
        np.random.default_rng(3).normal(size=(9000, 8)) @ np.random.default_rng(4).normal(size=(8, 40))
    )
    expected = plain(points)
    shards = by_shards(points, 3000)
    found, lengths = lists_of(shards)
    assert np.mean(lengths <= expected[1][:, -1:]) > 0.97 and len(shards.shards) >= 3
    same(lists_of(by_shards(points, 3000)), (found, lengths))


# ---- going on ----------------------------------------------------------------------------------------


class Memory(dict):
    put = dict.__setitem__


@pytest.mark.parametrize("columns", [1, 4])
def test_a_search_among_clusters_that_was_stopped_goes_on(columns, monkeypatch):
    """By trees and by blocks; what is kept has its count of distances, and a damaged piece is made again."""
    monkeypatch.setattr(lists, "PIECE_SECONDS", 0.0)
    monkeypatch.setattr(lists, "BYTES_A_SECOND", 1e300)
    points = read_points(np.hstack([roll(1000)] * columns))
    kept, real = Memory(), ClusterSearch.each_nearest
    monkeypatch.setattr(ClusterSearch, "__init__", small_blocks(ClusterSearch.__init__))

    def found():
        search = search_for(points, hold=columns > 1)
        return found_in_clusters(points, monkeypatch, search=search, kept=kept)

    whole, pieces = found(), dict(kept)
    assert len(pieces) == 10 and whole.stats.n_clusters == (31 if columns > 1 else 1)
    calls = []  # blocks that are searched for

    def counted(self, k, starts):
        calls.extend(starts)
        return real(self, k, starts)

    monkeypatch.setattr(ClusterSearch, "each_nearest", counted)
    names = list(pieces)
    for gone in (names[3:], names[:1]):
        for name in gone:
            kept.pop(name)
        calls.clear()
        again = found()
        same((again.indices, again.distances), (whole.indices, whole.distances))
        assert again.stats == whole.stats and len(calls) == len(gone)
    whole_piece = pieces[names[0]]
    shorter = [*whole_piece[:2], whole_piece[2][:-1], whole_piece[3]]
    for damage in (whole_piece[:-1], [part.astype(float) for part in whole_piece], shorter, [np.zeros(3, np.int64)]):
        kept[names[0]] = damage
        calls.clear()
        same((found().indices, found().distances), (whole.indices, whole.distances))
        assert len(calls) == 1


def small_blocks(begin):
    def started(self, *given):
        begin(self, *given)
        self.block_rows = 100

    return started


def test_a_search_by_shards_that_was_stopped_goes_on_after_the_last_one(monkeypatch):
    monkeypatch.setattr(descent, "ShardIndex", Index)
    monkeypatch.setattr(DescentShards, "least_indexed", 1)
    points = read_points(np.hstack([roll(300)] * 4))
    expected = lists_of(by_shards(points, 60))
    kept, real = Memory(), Index.own
    Index.made.clear()

    def stopping(self):
        if len(Index.made) == 4:
            raise KeyboardInterrupt
        return real(self)

    monkeypatch.setattr(Index, "own", stopping)
    with pytest.raises(KeyboardInterrupt):
        lists_of(by_shards(points, 60), kept)
    monkeypatch.setattr(Index, "own", real)
    again = by_shards(points, 60)
    same(lists_of(again, kept), expected)
    assert len(Index.made) == len(again.shards) + 1
    (name,) = kept
    done, table, lengths = kept[name]
    for damage in (
        *([done, table[:-1], lengths], [done, table.astype(float), lengths], [done, table - 2, lengths]),
        *([done, table], [np.array([len(again.shards)]), table, lengths], [np.zeros(3, np.int64)]),
    ):
        kept[name] = damage
        Index.made.clear()
        same(lists_of(by_shards(points, 60), kept), expected)
        assert len(Index.made) == len(again.shards)


# ---- which search ------------------------------------------------------------------------------------


def test_clusters_are_taken_where_they_save_work_and_all_pairs_where_they_do_not(monkeypatch):
    monkeypatch.setattr(choice, "WORTH_CLUSTERS", 0.0)
    monkeypatch.setattr(choice, "LEAST", 0)
    curved = search_for(read_points(np.hstack([roll(1000)] * 4)))
    noise = search_for(read_points(RNG.normal(size=(1000, 40))))
    low = search_for(read_points(roll(300)))
    for search, knn, strategy in (
        (curved, "exact", SearchStrategy.CLUSTERS),
        (noise, "exact", SearchStrategy.EXACT),
        (noise, "nndescent", SearchStrategy.DESCENT),
        (low, "exact", SearchStrategy.EXACT),
    ):
        assert choose_search(search, knn, K, 0, None).strategy == strategy


def test_the_room_there_is_gives_the_shards():
    """Halves, fourths and so on, until they fit; lists and parts of all rows take what they take."""
    rooms = (16_000, 4_000, 2_000)
    found = [choice.shard_rows(room << 20, 10**6, 784, 10, "nndescent", 2) for room in rooms]
    assert found == [10**6, 250_000, 62_500]
    for room, rows in zip(rooms, found, strict=True):
        assert choice.working_bytes(rows, 10**6, 784, 10, "nndescent", 2) <= room << 20
        assert rows == 10**6 or choice.working_bytes(2 * rows, 10**6, 784, 10, "nndescent", 2) > room << 20


def test_a_plan_counts_shards_where_all_at_once_does_not_fit(monkeypatch):
    monkeypatch.setattr(choice, "LEAST", 10)
    parameters, needed = Parameters(n_neighbors=10, knn="nndescent"), []
    for memory in (1 << 34, 1050 << 20):
        read = read_input(np.arange(120_000.0).reshape(-1, 3), "euclidean", None, memory)
        read.make_search(parameters)
        monkeypatch.setattr(inputs, "symmetric_bytes", lambda n, edges: 0)
        monkeypatch.setattr(choice, "search_bytes", lambda n, w, k, method, t: (n << 16) * (method == "nndescent"))
        needed.append(read.search_bytes(parameters, 0))
    assert needed[1] < 1050 << 20 < needed[0]


@pytest.mark.parametrize(("columns", "counted"), [(1, {}), (4, {"n_distances": 200**2})])
def test_a_store_has_the_account_of_its_search(columns, counted, tmp_path):
    model = KernelIsomap(n_neighbors=6, store=tmp_path / "run", correction=None, shortcuts="keep").fit(
        np.hstack([roll(200)] * columns)
    )
    assert model.spectrum_["knn_account"] == {"n_shards": 1, "n_clusters": 1, **counted}
    assert load(tmp_path / "run").spectrum_["knn_account"] == model.spectrum_["knn_account"]


# ---- points that memory can't hold -------------------------------------------------------------------


def test_rows_beyond_the_limit_are_a_map_of_a_file_that_has_no_name(tmp_path):
    rows = np.repeat(RNG.normal(size=(300, 8)), 2, axis=0)
    held, mapped = read_points(rows), read_points(rows, memory=1000, folder=str(tmp_path))
    assert map_of(held.rows) is None and isinstance(map_of(mapped.rows), mmap.mmap)
    assert list(tmp_path.iterdir()) == [] and held_bytes(mapped.rows) == 0
    for one, other in ((held.rows, mapped.rows), (held.distinct, mapped.distinct), (held.digests, mapped.digests)):
        np.testing.assert_array_equal(one, other)
    assert held.fingerprint() == mapped.fingerprint() and mapped.rows.dtype == held.rows.dtype


@pytest.mark.parametrize("case", ["as it is", "minus zero", "twins", "another order of bytes", "integers beyond float"])
def test_a_memory_map_is_used_where_it_is_unless_its_rows_have_to_change(case, tmp_path):
    rows = RNG.normal(size=(200, 5))
    if case == "minus zero":
        rows[150, 2] = -0.0
    if case == "twins":
        rows[100:] = rows[:100]
    dtype = {"another order of bytes": ">f8", "integers beyond float": "i8"}.get(case, "f8")
    np.save(tmp_path / "x.npy", (rows * 1000).astype(dtype) if dtype == "i8" else rows.astype(dtype))
    source = np.load(tmp_path / "x.npy", mmap_mode="r")
    mapped, held = read_points(source, memory=100, folder=str(tmp_path)), read_points(source)
    assert (map_of(mapped.rows) is source._mmap) == (case == "as it is")
    np.testing.assert_array_equal(mapped.rows, held.rows)
    assert mapped.rows.dtype == held.rows.dtype and not np.signbit(mapped.rows[mapped.rows == 0]).any()
    assert mapped.fingerprint() == held.fingerprint()


def test_blocks_of_several_types_become_one(tmp_path):
    file = RowFile(str(tmp_path / "not" / "there"))
    parts = [
        np.arange(6, dtype=np.uint8).reshape(3, 2),
        np.full((2, 2), 0.5, np.float32),
        np.full((1, 2), 300, np.int16),
    ]
    for part in parts:
        file.add(part)
    file.keep(np.array([0, 2, 3, 5]))
    found = file.array()
    np.testing.assert_array_equal(found, np.concatenate(parts)[[0, 2, 3, 5]])
    assert found.dtype == np.float32 and not found.flags.writeable and list(tmp_path.iterdir()) == []


def test_a_search_of_mapped_rows_is_that_of_rows_in_memory():
    rows = roll(3000)
    held = find_neighbors(read_points(rows), n_neighbors=K)
    mapped = read_points(rows, memory=1000)
    search = search_for(mapped, hold=False)
    assert search.method == "brute" and search.low
    found = find_neighbors(mapped, n_neighbors=K, search=search, room=1)
    same((found.indices, found.distances), (held.indices, held.distances))
    assert found.method == held.method == "kdtree"
