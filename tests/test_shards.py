"""Neighbours in shards: the lists of an undivided search to the bit, whatever the shards, with fewer distances.

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

from scalemani import KernelIsomap
from scalemani.neighbors import choice, shard_searches
from scalemani.neighbors import choice as ways
from scalemani.neighbors.exact import TreeSearch
from scalemani.neighbors.lists import NothingKept
from scalemani.neighbors.parts import Yardstick, make_parts, shards_of
from scalemani.neighbors.prepared import leaf_rows
from scalemani.neighbors.search import find_neighbors, search_for
from scalemani.neighbors.shard_searches import DescentInShards, PartsInShards, TreesInShards
from scalemani.parameters import Parameters
from scalemani.planning import needs
from scalemani.planning.needs import search_part_bytes
from scalemani.points.rows import RowFile, held_bytes, map_of, read_points
from scalemani.steps.inputs import read_input
from scalemani.steps.records import NeighborsRecord
from scalemani.storage.run import RunStore

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


def sharded(points, metric="euclidean", most_rows=50, kind=PartsInShards, k=K, threads=1, seed=0):
    search = search_for(points, metric, threads=threads, hold=False)
    parts = make_parts(search.prepared, seed, most_rows, threads)
    return kind(search, parts, shards_of(parts, most_rows), k)


def run(way, kept=None):
    return way.run(NothingKept() if kept is None else kept, "state", lambda done: None)


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- exact, to the bit ---------------------------------------------------------------------------


FEW = ("normal", "ties on a grid", "one feature", "all equal but some", "no metric")


@pytest.mark.parametrize(
    ("case", "most_rows"),
    [
        *(pytest.param(case, K - 2, marks=pytest.mark.slow) for case in FEW),
        *((case, 25) for case in CASES),
        *(pytest.param(case, 10**6, marks=pytest.mark.slow) for case in CASES),
    ],
)
def test_lists_are_those_of_an_undivided_search(case, most_rows):
    """Also where a shard has fewer rows than a list."""
    rows, metric = CASES[case]
    points = read_points(rows)
    expected = plain(points, metric)
    way = sharded(points, metric, most_rows)
    assert sorted(np.concatenate([way.shard_rows(i) for i in range(len(way.shards))])) == list(range(points.n_distinct))
    assert all(len(way.shard_rows(i)) <= most_rows for i in range(len(way.shards)))
    same(run(way), expected)
    if way.search.low:
        same(run(sharded(points, metric, most_rows, TreesInShards)), expected)


@settings(max_examples=25, deadline=None)
@example(np.array([[1], [-1], [2], [3], [0], [-4]], np.int16), "cosine", 3, 0)
@given(
    arrays(np.int16, st.tuples(st.integers(6, 30), st.integers(1, 14)), elements=st.integers(-9, 9)),
    st.sampled_from(["euclidean", "sqeuclidean", "manhattan", "chebyshev", "cosine", "hamming", "dot"]),
    st.integers(3, 30),
    st.integers(0, 3),
)
def test_skipping_never_loses_a_neighbour(rows, metric, most_rows, seed):
    points = read_points(np.unique(rows, axis=0))
    k = min(4, points.n_distinct - 1)
    if k < 1:
        return
    expected = plain(points, metric, k)
    for kind in (PartsInShards, TreesInShards):
        way = sharded(points, metric, most_rows, kind, k, seed=seed)
        if kind is PartsInShards or way.search.low:
            same(run(way), expected)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["euclidean", "manhattan", "cosine", "canberra", "jaccard", "hellinger"]),
    st.sampled_from([1e-9, 1.0, 1e9]),
    st.integers(0, 2**20),
)
def test_bounds_are_below_the_lengths_that_they_bound(metric, scale, seed):
    rows = np.abs(np.random.default_rng(seed).normal(size=(40, 11))) * scale + scale * 1e5 * (seed % 2)
    way = sharded(read_points(rows), metric, 40)
    prepared, cells = way.search.prepared, way.parts.cells
    for home in range(way.parts.count):
        block = prepared.take(way.parts.rows(home))
        for part in range(way.parts.count):
            low = cells.bounds(block, home, [part])[:, 0]
            there = prepared.take(way.parts.rows(part))
            for query, least in zip(block, low, strict=True):
                lengths = cells.yardstick.length(way.search.form.pairs(np.tile(query, (len(there), 1)), there))
                assert max(least, cells.apart(home)[part]) <= lengths.min()


@pytest.mark.parametrize("kind", [PartsInShards, TreesInShards])
def test_the_same_for_any_number_of_threads_and_any_seed(kind):
    points = read_points(roll(400))
    one, two = sharded(points, kind=kind), sharded(points, kind=kind, threads=2)
    same(run(two), run(one))
    np.testing.assert_array_equal(one.parts.order, two.parts.order)
    assert one.account == two.account
    same(run(sharded(points, kind=kind, seed=5)), plain(points))


# ---- what it saves, and says -----------------------------------------------------------------------


def test_skipping_saves_distances_and_shards(monkeypatch):
    points = read_points(np.hstack([roll(600)] * 4))
    way = sharded(points, most_rows=100)
    run(way)
    account = way.account
    assert account.counted and account.n_distances < 0.5 * 600**2
    assert account.n_shards == len(way.shards) == len(set(map(tuple, way.asked.tolist())))
    assert account.n_skipped == sum(
        len(way.shard_rows(i)) - way.asked[i, j]
        for i in range(len(way.shards))
        for j in range(len(way.shards))
        if i != j
    )
    assert account.skipped_shards and all(way.asked[i, j] == 0 for i, j in account.skipped_shards)
    monkeypatch.setattr(Yardstick, "known", staticmethod(lambda form: False))
    blind = sharded(points, most_rows=100)
    same(run(blind), (way.table, way.lengths))
    assert blind.account.n_distances == 600**2 and blind.account.n_skipped == 0


def test_distances_of_a_blocked_search_are_counted_and_those_of_a_tree_looked_up():
    """A leaf holds 16 rows and the rows next to a query in one dimension are in one leaf or two."""
    wide = find_neighbors(read_points(CASES["normal"][0]), n_neighbors=K)
    assert (wide.account.n_distances, wide.account.counted) == (120**2, True)
    line = find_neighbors(read_points(np.arange(5000.0)[:, None]), n_neighbors=K)
    assert not line.account.counted and 8 <= line.account.n_distances / 5000 <= 4 * 16


def test_leaves_that_are_opened_are_those_nearer_than_the_last_row():
    rows = RNG.normal(size=(300, 2))
    search = search_for(read_points(rows))
    tree = search._engine._tree
    assert isinstance(search._engine, TreeSearch)
    assert leaf_rows(tree, rows[:3], np.full(3, 100.0), 2.0) == 3 * 300
    assert 3 <= leaf_rows(tree, rows[:3], np.full(3, 1e-12), 2.0) <= 3 * 16


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


def descent(points, most_rows, k=K, metric="euclidean"):
    search = search_for(points, metric, hold=False)
    parts = make_parts(search.prepared, 0, most_rows)
    return DescentInShards(search, parts, shards_of(parts, most_rows), k, 0)


def test_each_index_is_made_once_and_the_best_of_all_are_merged(monkeypatch):
    """With an index that misses nothing the lists are the exact ones: no candidate is lost or listed twice."""
    monkeypatch.setattr(shard_searches, "ShardIndex", Index)
    monkeypatch.setattr(DescentInShards, "least_indexed", 20)
    Index.made.clear()
    points = read_points(np.hstack([roll(300)] * 4))
    way = descent(points, 60)
    same(run(way), plain(points))
    assert Index.made == [len(way.shard_rows(i)) for i in range(len(way.shards))] and min(Index.made) >= 20
    assert not way.account.counted and way.account.n_skipped > 0


def test_nothing_is_searched_twice_where_it_lets_nothing_be_skipped(monkeypatch):
    """Without bounds a row's own part, which may be large, is left to its index; a shard too small for one is not."""
    monkeypatch.setattr(shard_searches, "ShardIndex", Index)
    points, metric = read_points(CASES["no metric"][0]), "braycurtis"
    for least in (20, 10**6):
        monkeypatch.setattr(DescentInShards, "least_indexed", least)
        way = descent(points, 30, metric=metric)
        same(run(way), plain(points, metric))
        assert way.account.counted == (least > 20)
        assert way.account.n_distances == 90**2 or least == 20


def test_recall_of_shards_is_measured_and_short_lists_are_completed(monkeypatch):
    class Poor(Index):
        def own(self):
            return np.full((len(self.there), self.k + 1), -1)

        def ask(self, rows):
            return np.full((len(rows), self.k), -1)

    monkeypatch.setattr(shard_searches, "ShardIndex", Poor)
    monkeypatch.setattr(DescentInShards, "least_indexed", 1)
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
    way = descent(points, 3000)
    found, lengths = run(way)
    assert np.mean(lengths <= expected[1][:, -1:]) > 0.97 and way.account.n_shards >= 3
    same(run(descent(points, 3000)), (found, lengths))


# ---- going on ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PartsInShards, TreesInShards])
def test_a_search_that_was_stopped_goes_on_after_the_last_shard(kind, monkeypatch):
    points = read_points(roll(300))
    whole = sharded(points, kind=kind)
    expected = run(whole)
    kept, steps = {}, []

    class Memory(dict):
        put = dict.__setitem__

    kept, real = Memory(), kind.step

    def step(self, turn, shard, progress):
        steps.append((turn, shard))
        if len(steps) == 4:
            raise KeyboardInterrupt
        real(self, turn, shard, progress)

    monkeypatch.setattr(kind, "step", step)
    with pytest.raises(KeyboardInterrupt):
        run(sharded(points, kind=kind), kept)
    again = sharded(points, kind=kind)
    same(run(again, kept), expected)
    assert steps[4] == steps[3] and len(steps) == 1 + kind.passes * len(again.shards)
    assert again.account == whole.account
    (state,) = kept["state"]
    for damage in (state[:-1], state.astype(float), np.zeros(3, np.int64)):
        kept["state"] = [damage]
        same(run(sharded(points, kind=kind), kept), expected)


def test_shards_that_an_earlier_release_kept_are_found():
    """By these words in their names."""
    kinds = (PartsInShards, TreesInShards, DescentInShards)
    assert [kind.name for kind in kinds] == ["PartsInShards", "TreesInShards", "DescentInShards"]
    assert [(kind.method, kind.exact) for kind in kinds] == [("brute", True), ("kdtree", True), ("nndescent", False)]


# ---- which way ---------------------------------------------------------------------------------------


def test_parts_are_taken_where_they_save_work_and_all_pairs_where_they_do_not(monkeypatch):
    monkeypatch.setattr(ways, "WORTH_PARTS", 0.0)
    monkeypatch.setattr(ways, "LEAST", 0)
    curved = search_for(read_points(np.hstack([roll(1000)] * 4)))
    noise = search_for(read_points(RNG.normal(size=(1000, 40))))
    assert isinstance(ways.chosen_way(curved, "exact", K, 0, None), PartsInShards)
    assert ways.chosen_way(noise, "exact", K, 0, None) == ways.PLAIN
    assert ways.chosen_way(noise, "nndescent", K, 0, None) == ways.DESCENT
    low = search_for(read_points(roll(300)))
    assert ways.chosen_way(low, "exact", K, 0, None) == ways.PLAIN


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
        read._search = read._make_search(parameters)
        monkeypatch.setattr(needs.terms, "symmetric_bytes", lambda n, edges: 0)
        monkeypatch.setattr(choice, "search_bytes", lambda n, w, k, method, t: (n << 16) * (method == "nndescent"))
        needed.append(search_part_bytes(read, parameters, 0))
    assert needed[1] < 1050 << 20 < needed[0]


def test_a_store_has_the_account_of_its_search(tmp_path):
    KernelIsomap(n_neighbors=6, store=tmp_path / "run", correction=None).fit(roll(200))
    account = RunStore(tmp_path / "run").needed(NeighborsRecord).account
    assert account.n_distances > 200 and account.n_shards == 1 and account.counted is False


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
