"""Stage 2 piece by piece: what a stopped search finished is in the store, and is not searched for again.

Work is counted in blocks of rows that the exact search is asked for. Pieces are as small as a block here; how large
they are by themselves has a test of its own.
"""

import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani import KernelIsomap
from scalemani.neighbors import exact, lists
from scalemani.neighbors import exact as tree
from scalemani.neighbors import search as neighbors
from scalemani.neighbors.choice import exact_seconds
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.lists import by_pieces
from scalemani.neighbors.search import find_neighbors, search_for
from scalemani.points.rows import read_points
from scalemani.steps import inputs
from scalemani.steps.records import NeighborsRecord
from scalemani.storage.pieces import Pieces
from scalemani.storage.run import RunStore

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

N, BLOCK = 230, 20
BLOCKS = 12
X = np.random.default_rng(0).normal(size=(N, 3))
WIDE = np.random.default_rng(1).normal(size=(N, 40))
GIVEN = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
KINDS = {
    "kdtree": (X, {"n_neighbors": 6}),
    "kdtree, radius": (X, {"n_neighbors": None, "radius": 0.7}),
    "brute": (WIDE, {"n_neighbors": 6}),
    "brute, radius": (WIDE, {"n_neighbors": None, "radius": 7.5}),
    "given": (GIVEN, {"n_neighbors": 6, "metric": "precomputed"}),
    "given, radius": (GIVEN, {"n_neighbors": None, "radius": 0.7, "metric": "precomputed"}),
}


class Stopped(Exception):
    pass


class Memory(dict):
    """Pieces in a dictionary."""

    put = dict.__setitem__


class Work:
    """Counts the rows that are searched for."""

    def __init__(self, monkeypatch):
        self.rows = 0
        for kind in (exact.BruteSearch, tree.TreeSearch):
            for name in ("nearest", "within"):
                monkeypatch.setattr(kind, name, self.counted(getattr(kind, name)))

    def counted(self, real):
        def search(this, queries, *args, **kwargs):
            self.rows += queries.shape[0]
            return real(this, queries, *args, **kwargs)

        return search

    def taken(self):
        found, self.rows = self.rows, 0
        return found


@pytest.fixture
def small(monkeypatch):
    """Every block is a piece, and is kept."""
    monkeypatch.setattr(lists, "PIECE_SECONDS", 0.0)
    monkeypatch.setattr(lists, "BYTES_A_SECOND", np.inf)
    monkeypatch.setattr(exact, "_TABLE_ROWS", BLOCK)
    monkeypatch.setattr(tree.TreeSearch, "batch", BLOCK)
    monkeypatch.setattr(inputs, "cores", lambda: 1)  # several threads would be ahead of what is kept


@pytest.fixture
def work(small, monkeypatch):
    return Work(monkeypatch)


def stop_at(rows):
    def progress(done):
        if done >= rows:
            raise Stopped

    return progress


def lists_of(kind, **more):
    rows, arguments = KINDS[kind]
    points = rows if arguments.get("metric") else read_points(rows)
    return find_neighbors(points, **arguments, **more)


def same(one, two):
    assert one.method == two.method
    for name in ("indptr", "indices", "distances"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


# ---- the search ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_was_stopped_goes_on_where_it_was(kind, work):
    whole = lists_of(kind)
    work.taken()
    kept = Memory()
    with pytest.raises(Stopped):
        lists_of(kind, kept=kept, progress=stop_at(5 * BLOCK))
    assert work.taken() == 5 * BLOCK and len(kept) == 5
    assert whole.indptr[-1] > N, "lists that are empty would show nothing"
    same(lists_of(kind, kept=kept), whole)
    assert work.taken() == N - 5 * BLOCK
    same(lists_of(kind, kept=kept), whole)
    assert work.taken() == 0


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(0, BLOCKS - 1)), st.integers(1, 3))
def test_whichever_pieces_are_kept_the_lists_are_the_same(gone, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "PIECE_SECONDS", 0.0)
        patch.setattr(lists, "BYTES_A_SECOND", np.inf)
        patch.setattr(exact, "_TABLE_ROWS", BLOCK)
        kept = Memory()
        whole = lists_of("brute", kept=kept)
        assert len(kept) == BLOCKS
        for name in [list(kept)[i] for i in gone]:
            del kept[name]
        same(lists_of("brute", kept=kept, threads=threads), whole)


def test_a_piece_of_another_shape_is_searched_for_again(work):
    kept = Memory()
    whole = lists_of("brute", kept=kept)
    first, second, third, fourth, *_ = kept
    kept[first] = kept[first][:-1]
    kept[second] = [*kept[second][:2], kept[second][2][:-1]]
    kept[third] = [part.astype(float) for part in kept[third]]
    kept[fourth] = [part[:-1] for part in kept[fourth]]
    work.taken()
    same(lists_of("brute", kept=kept), whole)
    assert work.taken() == 4 * BLOCK


@pytest.mark.parametrize("kind", ["brute", "kdtree"])
def test_progress_counts_up_from_what_was_kept_and_leaves_the_end_to_its_caller(kind, work):
    kept, seen = Memory(), []
    lists_of(kind, kept=kept, progress=seen.append)
    assert seen == list(range(0, N, BLOCK))
    for name in list(kept)[3:]:
        del kept[name]
    seen.clear()
    lists_of(kind, kept=kept, progress=seen.append)
    assert seen == list(range(3 * BLOCK, N, BLOCK))
    seen.clear()
    lists_of(kind, kept=kept, progress=seen.append)
    assert seen == []


def test_a_search_that_is_stopped_leaves_no_blocks_to_its_threads(small, monkeypatch):
    """Else an interrupt would wait for the whole search: two threads are in a block each when the first is kept."""
    begun, real = [], exact.BruteSearch.nearest

    def search(self, queries, k, own):
        begun.append(int(own[0]))
        if len(begun) > 1:
            stopped.wait(10)
        return real(self, queries, k, own)

    class Full(Memory):
        def put(self, name, piece):
            threading.Timer(0.2, stopped.set).start()  # after what has not begun is cancelled
            raise Stopped

    stopped = threading.Event()
    monkeypatch.setattr(exact.BruteSearch, "nearest", search)
    points = read_points(WIDE)
    with pytest.raises(Stopped):
        find_neighbors(points, n_neighbors=6, search=search_for(points, threads=2), kept=Full())
    assert len(begun) <= 3


def test_what_small_searches_find_is_not_kept_and_what_long_ones_find_is_in_large_pieces():
    """By arithmetic alone: a piece is worth 20 s of one core's work, and rows the same for any number of threads."""
    kept = Memory()
    lists_of("brute", kept=kept)
    lists_of("kdtree", kept=kept)
    assert not kept
    search = ExactSearch(np.ones((50, 784)))
    search.prepared.rows = np.broadcast_to(np.float32(0), (100_000, 784))  # costs look at the shape only
    seconds, step = exact_seconds(search, 10), search.block_rows
    pieces = lists._pieces(100_000, step, seconds)
    assert 20 <= len(pieces) <= 60
    assert {len(piece) % step for piece in pieces[:-1]} == {0}
    assert len(pieces[0]) / 100_000 * seconds >= lists.PIECE_SECONDS
    assert [at for piece in pieces for at in (piece.start, piece.stop)][1:-1:2] == [p.start for p in pieces[1:]]
    assert (pieces[0].start, pieces[-1].stop) == (0, 100_000)


@pytest.mark.parametrize(("length", "count"), [(10, 2), (10_000, 0)])
def test_lists_that_take_longer_to_write_than_to_find_are_not_kept(length, count, monkeypatch):
    """Two pieces of 2.5 ms each: 16 bytes a neighbour may come to 25,000."""

    def each(starts):
        for _ in starts:
            yield lists.Lists(np.full(1, length), np.zeros(length, np.int64), np.zeros(length))

    monkeypatch.setattr(lists, "PIECE_SECONDS", 0.0025)
    kept = Memory()
    by_pieces(each, 2, 1, 0.005, kept, lambda done: None)
    assert len(kept) == count


def test_the_piece_of_a_descent_is_its_candidates(small, monkeypatch):
    """It is done once; recall and completion start from what it found. Another seed is another descent."""
    calls = []

    def descent(search, n_neighbors, random_state):
        calls.append(random_state)
        found, _ = search.nearest(search.rows, n_neighbors, exclude=np.arange(N))
        found = np.concatenate([np.arange(N)[:, None], found], axis=1)
        found[7, 3:] = -1  # to be completed
        return found

    monkeypatch.setattr(neighbors, "descent_candidates", descent)
    kept, real = Memory(), neighbors.measured_recall
    monkeypatch.setattr(neighbors, "measured_recall", stop_at(0))
    with pytest.raises(TypeError):  # stopped after the descent
        lists_of("brute", knn="nndescent", random_state=3, kept=kept)
    monkeypatch.setattr(neighbors, "measured_recall", real)
    found = lists_of("brute", knn="nndescent", random_state=3, kept=kept)
    assert calls == [3]
    np.testing.assert_array_equal(found.indices, lists_of("brute").indices)
    lists_of("brute", knn="nndescent", random_state=4, kept=kept)
    assert calls == [3, 4]


# ---- in a store ----------------------------------------------------------------------------------


def pieces_of(path):
    return sorted((path / "pieces_neighbors").glob("*"))


def fitted(path, stop, rows=WIDE, **changes):
    """A fit that is stopped at (stage, done)."""

    def report(stage, done, total):
        if stage == stop[0] and done >= stop[1]:
            raise Stopped

    arguments = {"n_neighbors": 8, "knn": "exact", "disconnected": "join", **changes}
    with pytest.raises(Stopped):
        KernelIsomap(store=path, progress=report, **arguments).fit(rows)


HALF, SEARCHED = ("neighbors", 6 * BLOCK), ("graph", 0)


def test_a_fit_keeps_its_pieces_goes_on_from_them_and_removes_them(work, tmp_path):
    fitted(tmp_path / "whole", SEARCHED)
    assert work.taken() == N
    whole = RunStore(tmp_path / "whole")
    assert pieces_of(tmp_path / "whole") == []
    fitted(tmp_path / "r", HALF)
    assert len(pieces_of(tmp_path / "r")) == 6 and work.taken() == 6 * BLOCK
    fitted(tmp_path / "r", SEARCHED)
    assert work.taken() == N - 6 * BLOCK
    assert pieces_of(tmp_path / "r") == []
    store = RunStore(tmp_path / "r")
    for name in ("neighbors_indptr", "neighbors_indices", "neighbors_distances"):
        np.testing.assert_array_equal(store.read_array(name), whole.read_array(name))
    assert store.needed(NeighborsRecord) == whole.needed(NeighborsRecord)


@pytest.mark.parametrize("change", [{"n_neighbors": 9}, {"metric": "manhattan"}, {"knn": "auto"}])
def test_pieces_of_another_search_are_not_used(change, work, tmp_path):
    fitted(tmp_path / "r", HALF)
    work.taken()
    fitted(tmp_path / "r", SEARCHED, **change)
    assert work.taken() == N
    assert pieces_of(tmp_path / "r") == [], "those of the other search go, too"


def test_the_seed_of_an_exact_search_is_none_of_its_pieces_business(work, tmp_path):
    fitted(tmp_path / "r", HALF, knn="auto", random_state=1)
    work.taken()
    fitted(tmp_path / "r", SEARCHED, knn="auto", random_state=2)
    assert work.taken() == N - 6 * BLOCK


def damage_file(path, how):
    content = path.read_bytes()
    if how == "delete":
        path.unlink()
    else:
        new = {"empty": b"", "cut": content[:-9], "zero": bytes(len(content)), "flip": content[:-1] + b"\xff"}[how]
        path.write_bytes(new)


@pytest.mark.parametrize("how", ["delete", "empty", "cut", "zero", "flip"])
def test_a_damaged_piece_is_searched_for_again(how, work, tmp_path):
    store = RunStore.create(tmp_path / "r")
    kept = store.pieces("neighbors", {"k": 6})
    whole = lists_of("brute", kept=kept)
    assert len(pieces_of(tmp_path / "r")) == BLOCKS
    work.taken()
    same(lists_of("brute", kept=kept), whole)
    assert work.taken() == 0
    damage_file(pieces_of(tmp_path / "r")[4], how)
    same(lists_of("brute", kept=kept), whole)
    assert work.taken() in (BLOCK, N % BLOCK)
    same(lists_of("brute", kept=kept), whole)
    assert work.taken() == 0, "the piece was put in the place of the damaged one"


def test_pieces_of_other_fields_are_not_found_and_all_of_them_are_dropped(tmp_path):
    store = RunStore.create(tmp_path / "r")
    store.write_array("order", np.arange(3))
    one, two = (store.pieces("neighbors", {"k": k, "metric": "cosine"}) for k in (6, 7))
    one.put("lists_0_10", [np.arange(5)])
    assert two.get("lists_0_10") is None
    same_fields = RunStore(tmp_path / "r").pieces("neighbors", json.loads('{"metric": "cosine", "k": 6}'))
    np.testing.assert_array_equal(same_fields.get("lists_0_10"), [np.arange(5)])
    two.put("lists_0_10", [np.arange(4)])
    two.drop([])
    assert len(two.get("lists_0_10")[0]) == 4
    two.drop()
    assert one.get("lists_0_10") is None and two.get("lists_0_10") is None
    assert not (tmp_path / "r" / "pieces_neighbors").exists()
    np.testing.assert_array_equal(store.read_array("order"), np.arange(3))
    two.drop()


def test_pieces_that_a_killed_fit_left_after_its_stage_are_removed_by_the_next(work, tmp_path, monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(TypeError):  # killed between the stage's end and the removal
        patch.setattr(Pieces, "drop", stop_at(0))
        KernelIsomap(n_neighbors=8, knn="exact", disconnected="join", store=tmp_path / "r").fit(WIDE)
    assert len(pieces_of(tmp_path / "r")) == BLOCKS
    fitted(tmp_path / "r", SEARCHED)
    assert pieces_of(tmp_path / "r") == []


def test_a_temporary_store_keeps_nothing(small, monkeypatch):
    put = []
    monkeypatch.setattr(Pieces, "put", lambda self, name, piece: put.append(name))
    fitted(None, SEARCHED)
    assert put == []
