"""The exact search against one slow reference: all distances, then every row sorted by (distance, rank)."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

from scalemani.errors import ScalemaniError
from scalemani.neighbors import exact as brute_search
from scalemani.neighbors import exact as exact_search
from scalemani.neighbors import exact as tree_search
from scalemani.neighbors import precomputed
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.metrics import METRICS as KNOWN
from scalemani.neighbors.metrics import REFUSED, canonical_name, metric_names
from scalemani.neighbors.precomputed import PrecomputedSearch
from scalemani.neighbors.prepared import PreparedRows


def roll(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    return np.stack([t * np.cos(t), 21 * rng.random(n), t * np.sin(t)], axis=1)


def slow_nearest(D, k, rank, exclude=None):
    """Indices and distances by sorting every row of D by (distance, rank)."""
    D = D.copy()
    if exclude is not None:
        D[np.arange(len(D)), exclude] = np.inf
    order = np.array([np.lexsort((rank, row))[:k] for row in D])
    return order, np.take_along_axis(D, order, axis=1)


@pytest.fixture(params=["kdtree", "brute"])
def either(request, monkeypatch):
    """Both strategies on low-dimensional rows; small blocks, so that results must be put together."""
    monkeypatch.setattr(exact_search, "TREE_FEATURES", 12 if request.param == "kdtree" else 0)
    monkeypatch.setattr(brute_search, "_TABLE_ROWS", 13)
    monkeypatch.setattr(brute_search, "_TABLE_COLUMNS", 29)
    monkeypatch.setattr(tree_search.TreeSearch, "batch", 17)
    return request.param


# SciPy's name and arguments for each metric that SciPy has: an independent definition.
D5 = np.random.default_rng(5).random((5, 5))
PARAMS = {
    "minkowski": {"p": 3},
    "seuclidean": {"V": np.arange(1.0, 6)},
    "wminkowski": {"w": np.arange(1.0, 6), "p": 3},
    "mahalanobis": {"VI": D5 @ D5.T + np.eye(5)},
}
SCIPY = {
    "euclidean": ("euclidean", {}),
    "sqeuclidean": ("sqeuclidean", {}),
    "manhattan": ("cityblock", {}),
    "chebyshev": ("chebyshev", {}),
    "minkowski": ("minkowski", PARAMS["minkowski"]),
    "seuclidean": ("seuclidean", PARAMS["seuclidean"]),
    "wminkowski": ("minkowski", PARAMS["wminkowski"]),
    "mahalanobis": ("mahalanobis", PARAMS["mahalanobis"]),
    "canberra": ("canberra", {}),
    "cosine": ("cosine", {}),
    "correlation": ("correlation", {}),
    "braycurtis": ("braycurtis", {}),
    "hamming": ("hamming", {}),
}
BINARY = {
    "jaccard": "jaccard",
    "dice": "dice",
    "matching": "hamming",
    "rogerstanimoto": "rogerstanimoto",
    "russellrao": "russellrao",
    "yule": "yule",
}


@pytest.mark.parametrize("metric", SCIPY)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_distances_are_scipys(metric, kind, either):
    rng = np.random.default_rng(1)
    X = rng.random((120, 5)) * (rng.random((120, 5)) < 0.8) + 0.1 * np.eye(120, 5)
    X = X[X.any(axis=1)]
    name, params = SCIPY[metric]
    D = cdist(X, X, name, **params)
    rows = X if kind == "dense" else sp.csr_array(X)
    search = ExactSearch(rows, metric, PARAMS.get(metric))
    own = np.arange(len(X))
    indices, distances = search.nearest(rows, 6, exclude=own)
    # 1e-12: SciPy's cosine and correlation are 1 - x, good to 1e-16 of 1 and not of themselves
    np.testing.assert_allclose(distances, slow_nearest(D, 6, own, own)[1], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(np.take_along_axis(D, indices, 1), distances, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("metric", BINARY)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_binary_distances_are_scipys(metric, kind):
    X = np.random.default_rng(2).random((90, 14)) < 0.4
    D = cdist(X, X, BINARY[metric])
    if metric == "russellrao":  # pynndescent's is 0 between rows that are equal; SciPy's is not
        D[(X[:, None] == X).all(axis=2)] = 0
    rows = X if kind == "dense" else sp.csr_array(X.astype(float))
    own = np.arange(90)
    indices, distances = ExactSearch(rows, metric).nearest(rows, 7, exclude=own)
    assert np.array_equal(indices, slow_nearest(distances_of(X, metric), 7, own, own)[0])
    np.testing.assert_allclose(distances, slow_nearest(D, 7, own, own)[1], rtol=1e-14)


def distances_of(X, metric, **params):
    """The whole matrix by ``paired``, one query at a time."""
    search = ExactSearch(X, metric, params)
    every = np.arange(X.shape[0])[None, :]
    return np.concatenate([search.paired(X[i : i + 1], every) for i in range(X.shape[0])])


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "chebyshev", "minkowski", "cosine", "hamming"])
def test_ties_at_the_kth_place_go_by_rank(metric, either):
    """A grid has dozens of rows at one distance; each rank gives its own choice, the one of the reference."""
    X = np.array([[i, j, k] for i in range(1, 6) for j in range(5) for k in range(5)], dtype=float)
    own = np.arange(len(X))
    params = {"p": 4} if metric == "minkowski" else {}
    D = distances_of(X, metric, **params)
    for seed in range(3):
        rank = np.random.default_rng(seed).permutation(len(X))
        search = ExactSearch(X, metric, params, tie_rank=rank)
        for k in (1, 4, 9, len(X) - 1):
            indices, distances = search.nearest(X, k, exclude=own)
            assert np.array_equal(indices, slow_nearest(D, k, rank, own)[0])
            assert np.array_equal(distances, slow_nearest(D, k, rank, own)[1])


def test_ties_of_a_clipped_distance_go_by_rank():
    """``dot`` is 1 for every row at a right angle or more, however far beyond it is."""
    angles = np.linspace(0, 2 * np.pi, 41)[:-1]
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    rank = np.random.default_rng(0).permutation(40)
    indices, distances = ExactSearch(X, "dot", tie_rank=rank).nearest(X[:1], 39, exclude=np.array([0]))
    tied = indices[0][distances[0] == 1]
    assert len(tied) >= 19
    assert np.array_equal(np.argsort(rank[tied]), np.arange(len(tied)))


METRICS = [m for m in KNOWN if m not in ("kantorovich", "sinkhorn")]


@pytest.mark.usefixtures("one_thread")  # else each of the 85 searches looks for BLAS libraries to limit
@pytest.mark.parametrize("metric", METRICS)
def test_no_result_depends_on_the_batch_or_the_threads(metric, either):
    """Alone, in sevens, all at once, reversed, by two threads, and by ``paired``: the same bits."""
    rng = np.random.default_rng(3)
    d = 2 if metric == "haversine" else 5
    X = rng.integers(1, 256, (70, d)).astype(np.uint8) if metric.startswith("bit") else rng.random((70, d))
    search = ExactSearch(X, metric, PARAMS.get(metric))
    indices, distances = search.nearest(X, 5)
    listed = search.within(X, float(np.median(distances)))
    for size in (1, 7):
        parts = [search.nearest(X[i : i + size], 5) for i in range(0, 70, size)]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), indices)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), distances)
    assert np.array_equal(search.nearest(X[::-1], 5)[1][::-1], distances)
    threaded = ExactSearch(X, metric, PARAMS.get(metric), threads=2)
    assert np.array_equal(threaded.nearest(X, 5)[1], distances)
    assert all(map(np.array_equal, threaded.within(X, float(np.median(distances))), listed))
    assert np.array_equal(search.paired(X, indices), distances)
    near = distances <= np.median(distances)
    assert np.array_equal(np.diff(listed[0]) >= near.sum(axis=1), np.ones(70, bool))
    for i in range(70):
        part = slice(listed[0][i], listed[0][i + 1])
        assert np.array_equal(listed[2][part][:5], distances[i][near[i]])


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_symmetric_and_zero_between_equal_rows(metric):
    rng = np.random.default_rng(4)
    d = 2 if metric == "haversine" else 5
    X = rng.integers(1, 256, (40, d)).astype(np.uint8) if metric.startswith("bit") else rng.random((40, d))
    search = ExactSearch(X, metric, PARAMS.get(metric))
    D = search.paired(X, np.tile(np.arange(40), (40, 1)))
    assert np.array_equal(D, D.T)
    assert not np.diagonal(D).any()
    assert (D >= 0).all()


CHANGES = [lambda X: X + 1e6, lambda X: X * 1e-6 + 1, lambda X: X * 1e-9, lambda X: X * 1e9]


@pytest.mark.parametrize("change", CHANGES)
def test_offsets_and_scales_leave_the_neighbours(change, either):
    X = np.round(roll(300) * 2**20) / 2**20  # so that an offset of 1e6 is exact
    wide = np.hstack([X, np.random.default_rng(0).integers(-99, 99, (300, 15)) / 64])
    own = np.arange(300)
    for rows in (X, wide):
        clean = ExactSearch(rows).nearest(rows, 10, exclude=own)[0]
        moved = change(rows)
        found = ExactSearch(moved).nearest(moved, 10, exclude=own)[0]
        # x * 1e-6 + 1 keeps ten digits of x, and ties may be nearer
        assert np.mean(found == clean) >= (0.999 if change(0.0) == 1 else 1)


def test_an_offset_does_not_fill_the_shortlist(monkeypatch):
    """Without centring, the bounds of products around 1e14 let every pair through to a direct distance."""
    measured = []
    plain = PreparedRows.distances

    def counted(self, queries, at, *rest):
        measured.append(len(at))
        return plain(self, queries, at, *rest)

    monkeypatch.setattr(PreparedRows, "distances", counted)
    X = np.random.default_rng(0).normal(size=(600, 20)) + 1e6
    ExactSearch(X).nearest(X, 10, exclude=np.arange(600))
    assert sum(measured) < 1.1 * 600 * 10


def test_small_integers_do_not_overflow(either):
    X = np.random.default_rng(0).integers(0, 256, (300, 6))
    own = np.arange(300)
    for dtype in (np.uint8, np.int16, np.int64, np.float32):
        found = ExactSearch(X.astype(dtype)).nearest(X.astype(dtype), 8, exclude=own)
        clean = ExactSearch(X.astype(np.float64)).nearest(X.astype(np.float64), 8, exclude=own)
        assert all(map(np.array_equal, found, clean))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["euclidean", "manhattan", "cosine"]), st.integers(-12, 12))
def test_the_shortlist_never_loses_a_row(seed, metric, exponent):
    """Rows in tight clusters far from the origin and from each other, where products lose all digits."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(4, 16)) * 10.0**exponent
    X = np.repeat(centers, 15, axis=0) + rng.normal(size=(60, 16)) * 10.0 ** rng.integers(-10, 1)
    own = np.arange(60)
    for rows in (X, sp.csr_array(X)):
        search = ExactSearch(rows, metric)
        D = search.paired(rows, np.tile(own, (60, 1)))
        expected = slow_nearest(D, 6, own, own)
        indices, distances = search.nearest(rows, 6, exclude=own)
        assert np.array_equal(distances, expected[1])
        assert np.array_equal(indices, expected[0])


def test_within_lists_exactly_the_rows_at_the_radius_or_less(either):
    X = roll(300)
    D = distances_of(X, "euclidean")
    radius = np.sort(D[0])[7]  # a distance that occurs: the row at it belongs to the list
    own = np.arange(300)
    indptr, indices, distances = ExactSearch(X).within(X, radius, exclude=own)
    np.fill_diagonal(D, np.inf)
    assert indptr[1] == 7
    assert np.array_equal(np.diff(indptr), (D <= radius).sum(axis=1))
    for i in range(300):
        part = slice(indptr[i], indptr[i + 1])
        assert np.array_equal(distances[part], D[i][indices[part]])
        assert (np.diff(distances[part]) >= 0).all()
    empty = ExactSearch(X).within(X, 0.0, exclude=own)
    assert empty[0][-1] == 0


def test_the_shortest_pair_between_two_sets_is_the_references(either):
    X = np.random.default_rng(0).integers(0, 6, (80, 3)).astype(float)  # many ties
    rank = np.random.default_rng(1).permutation(80)
    search, a, b = ExactSearch(X, tie_rank=rank), np.arange(0, 30), np.arange(30, 80)
    X[:30, 0] += 7
    search = ExactSearch(X, tie_rank=rank)
    D = cdist(X, X)
    pairs = [(D[i, j], *sorted((rank[i], rank[j])), i, j) for i in a for j in b]
    expected = min(pairs)
    assert search.nearest_between(a, b) == (expected[3], expected[4], pytest.approx(expected[0], rel=1e-15))
    assert search.nearest_between(b, a)[:2] == (expected[4], expected[3])


def test_a_function_is_a_metric_and_is_not_called_between_a_row_and_itself():
    X = roll(40)

    def gap(x, y, power=1):
        assert (x != y).any()
        return float((np.abs(x - y) ** power).sum())

    own = np.arange(40)
    found = ExactSearch(X, gap, {"power": 1}).nearest(X, 5, exclude=own)
    assert np.array_equal(found[0], ExactSearch(X, "manhattan").nearest(X, 5, exclude=own)[0])
    for wrong in (lambda x, y: -1.0, lambda x, y: float("nan")):
        with pytest.raises(ScalemaniError, match=">= 0"):
            ExactSearch(X, wrong).nearest(X, 5, exclude=own)
    with pytest.raises(ScalemaniError, match="infinite"):
        ExactSearch(X, lambda x, y: float("inf")).nearest(X, 5, exclude=own)


def test_every_alias_is_its_metric():
    assert len(metric_names()) == len(set(metric_names())) == sum(1 + len(one.aliases) for one in KNOWN.values())
    for name, known in KNOWN.items():
        assert {canonical_name(alias) for alias in (name, *known.aliases)} == {name}


@pytest.mark.parametrize(
    ("metric", "params", "message"),
    [
        ("euclid", None, "metric='euclid': did you mean 'euclidean'. Allowed are .* names.* or a function of two rows"),
        ("Manhatten", None, "did you mean 'manhattan'"),
        (3, None, "metric=3: allowed are 'bit_hamming'"),
        ("inner_product", None, "negative for similar rows"),
        ("seuclidean", None, r"needs metric_params=\{'V': ...\}: variances, shape \(n_features,\)"),
        ("mahalanobis", {}, "'VI': ...}: the inverse covariance"),
        ("wminkowski", {"p": 3}, "'w'"),
        ("euclidean", {"p": 3}, "p, but metric='euclidean' takes no parameters"),
        ("minkowski", {"q": 3}, "metric_params of metric='minkowski' has 'q': allowed are 'p'"),
        ("minkowski", {"P": 3}, "did you mean 'p'"),
        ("wminkowski", {"w": np.zeros(5)}, "0 everywhere"),
        ("circular_kantorovich", {"p": 2}, "depend on which row comes first: give 1"),
        ("minkowski", {"p": 0.5}, "p >= 1"),
        ("minkowski", {"p": "three"}, "'three'"),
        ("seuclidean", {"V": [1, 2]}, r"shape \(2,\); \(5,\) is needed for 5 features"),
        ("seuclidean", {"V": [1, 2, 0, 1, 1]}, "variances are > 0"),
        ("mahalanobis", {"VI": -np.eye(5)}, "eigenvalue -1"),
        ("mahalanobis", {"VI": np.triu(np.ones((5, 5)))}, "not symmetric"),
        ("haversine", None, "2 features"),
    ],
)
def test_wrong_metrics_and_parameters_are_named(metric, params, message):
    with pytest.raises(ScalemaniError, match=message) as caught:
        ExactSearch(np.random.default_rng(0).random((9, 5)), metric, params)
    assert "\n" not in str(caught.value)


def test_parameters_go_by_either_librarys_names():
    X = np.random.default_rng(0).random((30, 5))
    for metric, mine, other in (("seuclidean", "V", "sigma"), ("mahalanobis", "VI", "vinv")):
        value = PARAMS[metric][mine]
        first, second = (ExactSearch(X, metric, {key: value}).nearest(X, 3)[1] for key in (mine, other))
        assert np.array_equal(first, second)


def test_known_values_of_the_metrics_that_scipy_lacks():
    signed = np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [1, 1, 0], [2, 0, 0]])
    X = np.abs(signed)

    def between(metric, i, j, rows=X, **params):
        return float(ExactSearch(rows, metric, params).paired(rows[i : i + 1], np.array([[j]]))[0, 0])

    assert between("true_angular", 0, 1) == pytest.approx(0.5)
    assert between("true_angular", 0, 2, signed) == pytest.approx(1)
    assert between("dot", 0, 2, signed) == 1
    assert between("dot", 0, 3) == pytest.approx(1 - np.sqrt(0.5))
    assert between("cosine", 0, 4) == 0
    assert between("hellinger", 0, 1) == pytest.approx(1)
    assert between("hellinger", 0, 3) == pytest.approx(np.sqrt(1 - np.sqrt(0.5)))
    assert between("wasserstein_1d", 0, 1) == pytest.approx(1)
    assert between("spearmanr", 0, 1) == pytest.approx(1.5)
    a, b = np.random.default_rng(0).integers(0, 5, (2, 12)).astype(float)  # ranks with ties
    assert between("spearmanr", 0, 1, np.stack([a, b])) == pytest.approx(1 - spearmanr(a, b).statistic)
    # 1e-4: rows are smoothed by float32's eps
    assert between("jensen_shannon", 0, 1) == pytest.approx(np.log(2), rel=1e-4)
    turn = np.array([[0.0, 0.0], [0.0, np.pi / 2], [np.pi / 2, 1.0], [0.0, np.pi]])
    arcs = [between("haversine", 0, j, turn) for j in (1, 2, 3)]
    assert arcs == pytest.approx([np.pi / 2, np.pi / 2, np.pi])
    bits = np.array([[0b1100], [0b1010]], dtype=np.uint8)
    assert between("bit_hamming", 0, 1, bits) == 2
    assert between("bit_jaccard", 0, 1, bits) == pytest.approx(np.log(3))
    assert set(REFUSED).isdisjoint(metric_names())


def test_too_many_neighbours_and_wrong_queries_are_named():
    X = roll(10)
    with pytest.raises(ScalemaniError, match="10 nearest rows were asked for; there are 9"):
        ExactSearch(X).nearest(X, 10, exclude=np.arange(10))
    with pytest.raises(ScalemaniError, match=r"queries have shape \(10, 2\)"):
        ExactSearch(X).nearest(X[:, :2], 1)
    assert ExactSearch(X).nearest(X[:0], 3)[0].shape == (0, 3)
    assert ExactSearch(X).within(X[:0], 1.0)[0].tolist() == [0]


def test_precomputed_distances_give_the_same_lists_as_the_points():
    X = roll(150)
    search, D, own = ExactSearch(X), cdist(X, X), np.arange(150)
    given_distances = PrecomputedSearch(D)
    expected = search.nearest(X, 6, exclude=own)
    found = given_distances.nearest(D, 6, exclude=own)
    assert np.array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-14)
    assert np.array_equal(given_distances.paired(D, found[0]), found[1])
    radius = expected[1].mean()
    ours, theirs = (s.within(rows, radius, exclude=own) for s, rows in ((given_distances, D), (search, X)))
    assert all(map(np.allclose, ours, theirs))
    a, b = own[:40], own[40:]
    assert given_distances.nearest_between(a, b)[:2] == search.nearest_between(a, b)[:2]


def test_precomputed_ties_do_not_depend_on_the_order_of_the_rows():
    x = np.random.default_rng(0).integers(0, 12, (30, 2))
    D = np.abs(x[:, None] - x).sum(axis=2).astype(float)  # many ties, and hardly two rows alike
    move = np.random.default_rng(1).permutation(30)
    found = PrecomputedSearch(D).nearest(D, 4, exclude=np.arange(30))
    moved = PrecomputedSearch(D[move][:, move]).nearest(D[move][:, move], 4, exclude=np.arange(30))
    unlike = [i for i in range(30) if (np.sort(D, axis=1) == np.sort(D[i])).all(axis=1).sum() == 1]
    back = np.argsort(move)
    indices, distances = move[moved[0]][back], moved[1][back]
    clear = np.isin(found[0], unlike).all(axis=1) & np.isin(indices, unlike).all(axis=1)
    assert clear.any()
    assert np.array_equal(found[1], distances)
    assert np.array_equal(found[0][clear], indices[clear])


def test_precomputed_distances_must_fit():
    with pytest.raises(ScalemaniError, match=r"shape \(3, 2\)"):
        PrecomputedSearch(np.zeros((3, 2)))
    with pytest.raises(ScalemaniError, match=r"\(rows, 3\) is needed"):
        PrecomputedSearch(np.zeros((3, 3))).nearest(np.zeros((1, 2)), 1)


@pytest.mark.parametrize("metric", [("minkowski", {"p": 3}), ("minkowski", {"p": 8}), ("euclidean", None)])
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("unit", [2.0**398, 2.0**-398])  # about 1e120 and 1e-120
def test_powers_that_leave_float64_change_nothing(metric, far, unit):
    """Where they would, a tree lists no row at all; far queries may leave it where the rows don't."""
    rng = np.random.default_rng(0)
    rows, queries = rng.standard_normal((60, 3)), rng.standard_normal((20, 3))
    plain = ExactSearch(rows, *metric)
    if far:
        search = ExactSearch(rows, *metric)
        indices, distances = search.nearest(queries * unit, 5)
        np.testing.assert_array_equal(distances, search.paired(queries * unit, indices))
        every = search.paired(queries * unit, np.tile(np.arange(60), (20, 1)))
        np.testing.assert_array_equal(distances, np.sort(every, axis=1)[:, :5])
        return
    search = ExactSearch(rows * unit, *metric)
    indices, distances = search.nearest(queries * unit, 5)
    expected = plain.nearest(queries, 5)
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_allclose(distances / unit, expected[1], rtol=1e-12)
    for radius in (0.0, 1.0, 9.0):
        found, wanted = search.within(queries * unit, radius * unit), plain.within(queries, radius)
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[1], wanted[1])
        np.testing.assert_allclose(found[2] / unit, wanted[2], rtol=1e-12)


def test_given_distances_are_sorted_only_when_ties_are_asked_for(monkeypatch):
    """A run that goes on after its graph asks for none."""
    sorted_rows = []

    def digests(rows):
        sorted_rows.append(len(rows))
        return given_digests(rows)

    given_digests = precomputed._sorted_digests
    monkeypatch.setattr(precomputed, "_sorted_digests", digests)
    search = PrecomputedSearch(cdist(np.eye(9), np.eye(9)))
    assert sorted_rows == []
    assert sorted(search.tie_rank) == list(range(9))
    search.nearest(search.rows, 3)
    assert sorted_rows == [9]
