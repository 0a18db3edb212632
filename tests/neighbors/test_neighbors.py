"""Stage 2 without pynndescent: exact lists, ties by content, what is refused. See also test_nndescent.py."""

import threading
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from scalemani.cluster.threads import single_blas_thread
from scalemani.errors import LowRecallWarning, ScalemaniError
from scalemani.neighbors import search as neighbors
from scalemani.neighbors.choice import descent_seconds, exact_seconds, takes_descent
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.search import complete_lists, find_neighbors, measured_recall, search_for
from scalemani.points.rows import read_points


def rows_of(lists):
    return [set(lists.indices[a:b].tolist()) for a, b in pairwise(lists.indptr)]


def blobs(n=200, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def grid():
    """64 points, up to 26 of them at one of three distances from another."""
    return np.array([[i, j, k] for i in range(4) for j in range(4) for k in range(4)], dtype=float)


@pytest.mark.parametrize("d", [3, 40])
def test_each_row_lists_k_distinct_others_the_nearest(d):
    X = blobs(d=d)
    lists = find_neighbors(read_points(X), n_neighbors=7, knn="exact")
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    assert lists.method == ("kdtree" if d == 3 else "brute")
    assert lists.recall == 1.0
    assert np.array_equal(lists.indptr, np.arange(201) * 7)
    assert rows_of(lists) == [set(row) for row in np.argsort(D, axis=1)[:, :7].tolist()]
    assert np.array_equal(lists.indices.reshape(200, 7), np.argsort(D, axis=1)[:, :7])
    np.testing.assert_allclose(lists.distances.reshape(200, 7), np.sort(D, axis=1)[:, :7], rtol=1e-14)


def test_twins_are_no_neighbours_of_each_other():
    """With every row twice, k = 3 means three other points; a list by position would hold a twin."""
    X = blobs(40)
    twice = np.repeat(X, 2, axis=0)[np.random.default_rng(1).permutation(80)]
    points = read_points(twice)
    lists = find_neighbors(points, n_neighbors=3)
    assert lists.n_rows == 40
    assert all(len(listed) == 3 and i not in listed for i, listed in enumerate(rows_of(lists)))
    assert lists.distances.min() > 0
    clean = find_neighbors(read_points(X), n_neighbors=3)
    back = {tuple(row): i for i, row in enumerate(X)}
    order = [back[tuple(row)] for row in points.rows]
    assert [{order[j] for j in listed} for listed in rows_of(lists)] == [rows_of(clean)[i] for i in order]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine", "hamming"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_ties_are_broken_by_content_never_by_position(metric, kind):
    X = grid() + 1
    move = np.random.default_rng(0).permutation(64)
    first = rows_of(find_neighbors(read_points(kind(X)), n_neighbors=5, metric=metric))
    second = rows_of(find_neighbors(read_points(kind(X[move])), n_neighbors=5, metric=metric))
    assert [{int(move[j]) for j in second[i]} for i in np.argsort(move)] == first


@pytest.mark.parametrize("d", [3, 30])
def test_lists_are_bit_equal_for_any_number_of_threads(d):
    points = read_points(blobs(1500, d))
    one, two = (find_neighbors(points, n_neighbors=6, threads=t) for t in (1, 2))
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.distances, two.distances)


def test_a_radius_lists_all_other_rows_within_it_and_lists_may_be_empty():
    X = np.vstack([blobs(50) * 0.1, [[100.0, 0, 0]]])
    lists = find_neighbors(read_points(X), n_neighbors=None, radius=0.3)
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    assert rows_of(lists) == [set(np.flatnonzero(row <= 0.3).tolist()) for row in D]
    assert rows_of(lists)[50] == set()
    assert lists.recall == 1.0


def test_all_rows_are_neighbours_at_the_largest_k_and_at_an_infinite_radius():
    points = read_points(blobs(30))
    for lists in (
        find_neighbors(points, n_neighbors=29),
        find_neighbors(points, n_neighbors=None, radius=np.inf),
    ):
        assert rows_of(lists) == [set(range(30)) - {i} for i in range(30)]


def test_precomputed_distances_keep_their_zeros():
    D = np.array([[0.0, 0.0, 3.0], [0.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    lists = find_neighbors(D, n_neighbors=1, metric="precomputed")
    assert lists.indices.tolist() == [1, 0, 1]
    assert lists.distances.tolist() == [0, 0, 2]
    assert lists.method == "precomputed"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 5}, r"=5 needs at least 6 distinct rows; X has 4 \(10 rows, 6 of them repeats\)"),
        ({"n_neighbors": 4}, "needs at least 5 distinct rows; X has 4"),
        ({"n_neighbors": 3, "radius": 1.0}, "n_neighbors=3 and radius=1.0 are both given"),
        ({"n_neighbors": None}, "both None"),
        ({"n_neighbors": None, "radius": -1.0}, "radius=-1.0 .* >= 0"),
        ({"n_neighbors": None, "radius": float("nan")}, "radius=nan"),
        ({"n_neighbors": None, "radius": "far"}, "radius='far'"),
        ({"n_neighbors": None, "radius": 1.0, "knn": "nndescent"}, "n_neighbors only"),
        ({"n_neighbors": 2.0}, "n_neighbors=2.0; an integer >= 1"),
        ({"n_neighbors": True}, "integer >= 1"),
        ({"n_neighbors": 0}, "n_neighbors=0; an integer >= 1"),
        ({"n_neighbors": 2, "knn": "fast"}, "knn='fast': allowed are 'auto', 'exact', 'nndescent'"),
        ({"n_neighbors": 2, "metric": "euclid"}, "did you mean 'euclidean'"),
        ({"n_neighbors": 2, "metric": lambda x, y: 1.0, "knn": "nndescent"}, "numba.njit; use knn='exact'"),
    ],
)
def test_wrong_use_is_one_line_with_the_numbers(options, message):
    points = read_points(np.repeat(blobs(4), [4, 2, 2, 2], axis=0))
    with pytest.raises(ScalemaniError, match=message) as caught:
        find_neighbors(points, **options)
    assert "\n" not in str(caught.value)


def test_one_row_is_too_few_and_says_so_in_scikit_learns_words():
    with pytest.raises(ScalemaniError, match="1 sample"):
        find_neighbors(read_points([[1.0, 2.0]]), n_neighbors=1)


def test_candidates_with_self_missing_rows_and_repeats_become_full_lists():
    """What NN-descent may hand over: -1 must not become the last row, nor a repeat a second edge."""
    search = search_for(read_points(blobs(60)))
    exact, lengths = search.nearest(search.rows, 4, exclude=np.arange(60))
    candidates = np.concatenate([np.arange(60)[:, None], exact], axis=1)
    candidates[3, 2:] = -1
    candidates[7] = [7, 7, candidates[7, 1], candidates[7, 1], candidates[7, 2]]
    candidates[9] = candidates[9][::-1].copy()
    candidates[11] = [*exact[11], exact[11, 0]]  # enough rows, and one of them twice
    nearest_the_last = int(np.flatnonzero(exact[:, 0] == 59)[0])
    candidates[nearest_the_last] = [*exact[nearest_the_last], -1]  # enough rows, and -1, which indexes row 59
    found, distances = complete_lists(search, candidates, 4)
    assert np.array_equal(found, exact)
    assert np.array_equal(distances, lengths)


def test_spare_candidates_are_cut_to_the_nearest():
    search = search_for(read_points(blobs(60)))
    exact, _ = search.nearest(search.rows, 9, exclude=np.arange(60))
    shuffled = np.random.default_rng(0).permuted(exact, axis=1)
    found, _ = complete_lists(search, shuffled, 4)
    assert np.array_equal(found, exact[:, :4])


def test_recall_is_the_share_of_true_neighbours_and_does_not_punish_ties():
    search = search_for(read_points(blobs(150)))
    _, lengths = search.nearest(search.rows, 10, exclude=np.arange(150))
    assert measured_recall(search, lengths, 0) == 1.0
    worse = lengths.copy()
    worse[:, 7:] += 100
    assert measured_recall(search, worse, 0) == pytest.approx(0.7)
    tied = search_for(read_points(grid()))
    _, lengths = tied.nearest(tied.rows, 2, exclude=np.arange(64))
    assert (lengths == 1).all()
    assert measured_recall(tied, lengths, 0) == 1.0


def test_low_recall_is_warned_about_with_its_value(monkeypatch):
    points = read_points(blobs(150))

    def poor(search, n_neighbors, random_state):
        listed, _ = search.nearest(search.rows, n_neighbors + 3, exclude=np.arange(150))
        return np.concatenate([np.arange(150)[:, None], listed[:, 3:]], axis=1)

    monkeypatch.setattr(neighbors, "descent_candidates", poor)
    with pytest.warns(LowRecallWarning, match="found 0.700 of the true neighbours"):
        lists = find_neighbors(points, n_neighbors=10, knn="nndescent")
    assert lists.recall == pytest.approx(0.7)
    assert lists.method == "nndescent"


def test_the_choice_follows_from_the_data_alone(monkeypatch):
    def refused(*_):
        raise AssertionError("NN-descent was taken")

    monkeypatch.setattr(neighbors, "descent_candidates", refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        find_neighbors(read_points(blobs(800, 20)), n_neighbors=5)  # far too small for 85 s of compilation
    chosen = []
    for n in (10**4, 10**5, 10**6):
        search = ExactSearch(blobs(50, 100))
        search.prepared.rows = np.broadcast_to(np.float32(0), (n, 100))  # costs look at the shape only
        chosen.append(descent_seconds(search, 10) < exact_seconds(search, 10))
    assert chosen == [False, True, True]
    plain = search_for(read_points(blobs(50)), lambda x, y: float(abs(x - y).sum()))
    assert not takes_descent("auto", plain, 5)


def test_the_limit_of_blas_threads_is_always_lifted():
    from threadpoolctl import threadpool_info

    def blas():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before, entered, go = blas(), threading.Event(), threading.Event()

    def other():
        with single_blas_thread():
            entered.set()
            go.wait(10)

    for _ in range(2):
        thread = threading.Thread(target=other)
        with single_blas_thread():
            assert set(blas()) == {1}
            thread.start()
            entered.wait(10)
        go.set()  # the other comes out last
        thread.join()
        assert blas() == before
    other()
    assert blas() == before
