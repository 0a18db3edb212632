"""Measures of an embedding against dense references and scikit-learn, their invariances, and what they refuse."""

import json

import naive
import numpy as np
import pytest
from data import neighbor_graph, roll
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn import manifold

from scalemani import Isomap
from scalemani.embedding import quality
from scalemani.embedding.quality import (
    continuity,
    embedded_distances,
    normalized_stress,
    quality_account,
    residual_variance,
    residual_variances,
    trustworthiness,
)
from scalemani.errors import ScalemaniError


def dense(D, Y):
    """1 - r² over every pair once, by NumPy's own correlation of condensed distances."""
    return 1 - np.corrcoef(squareform(D, checks=False), pdist(Y))[0, 1] ** 2


@pytest.fixture
def case():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)) * [5, 3, 1, 0.2]
    return squareform(pdist(X)), X


def test_every_row_gives_the_dense_figure_for_each_number_of_axes(case):
    D, X = case
    found = residual_variances(D, X, np.arange(60))
    np.testing.assert_allclose(found, [dense(D, X[:, :p]) for p in (1, 2, 3, 4)], rtol=1e-12, atol=1e-14)
    assert found[3] < 1e-14 < found[2] < found[1] < found[0]


def test_a_sample_counts_each_pair_once_in_any_order(case):
    D, X = case
    rows = np.array([7, 3, 50])
    pairs = [(i, j) for a, i in enumerate(rows) for j in range(60) if j != i and j not in rows[:a]]
    x = [D[i, j] for i, j in pairs]
    y = [np.linalg.norm(X[i, :2] - X[j, :2]) for i, j in pairs]
    expected = 1 - np.corrcoef(x, y)[0, 1] ** 2
    assert residual_variances(D[rows], X, rows)[1] == pytest.approx(expected, rel=1e-12)
    assert residual_variances(D[rows[::-1]], X, rows[::-1])[1] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 1e3), st.floats(0, 1e3))
def test_scale_and_an_added_constant_change_nothing(scale, constant):
    rng = np.random.default_rng(0)
    x, y = rng.random(50), rng.random(50)
    # 1e-6: a constant of 1e3 over distances of 1e-3 leaves ten digits of them.
    assert residual_variance(scale * x + constant, y) == pytest.approx(residual_variance(x, y), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e-140, 1e140, 1e200])
def test_sizes_whose_squares_are_out_of_range(case, scale):
    D, X = case
    x, y = D.ravel(), squareform(pdist(X[:, :2])).ravel()
    for measure in (residual_variance, normalized_stress):
        assert measure(x * scale, y * scale) == pytest.approx(measure(x, y), rel=1e-9)
    for size in (scale, 1.0):
        found = normalized_stress(x * scale, y * size, scaled=True)
        assert found == pytest.approx(normalized_stress(x, y, scaled=True), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_the_account_of_a_model_in_any_unit(scale):
    X = roll(60)
    plain, scaled = (quality_account(Isomap(n_neighbors=6).fit(X * unit)) for unit in (1.0, scale))
    for name, value in plain.items():
        np.testing.assert_allclose(scaled[name], value, rtol=1e-4, err_msg=name)


def test_pairs_without_a_path_are_left_out():
    x, y = [1.0, 2.0, np.inf, 4.0, 5.0], [1.0, 2.5, 3.0, np.nan, 4.0]
    assert residual_variance(x, y) == residual_variance([1, 2, 5], [1, 2.5, 4])


def test_embedded_distances_are_those_of_the_rows(case):
    D, X = case
    np.testing.assert_allclose(embedded_distances(X, [5, 1]), D[[5, 1]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("x", "y", "what"),
    [([1, 2], [1], "2 geodesic and 1"), ([1, np.inf], [1, 2], "1 pairs"), ([1, 1], [1, 2], "equal")],
)
def test_refusals(x, y, what):
    with pytest.raises(ScalemaniError, match=what):
        residual_variance(x, y)


# ---- stress ------------------------------------------------------------------------------------


def test_the_stress_is_that_of_scikit_learn_over_the_squares(case):
    """SMACOF gives the raw stress of what it found."""
    D, _ = case
    found, raw = manifold.smacof(D, n_components=2, n_init=1, max_iter=20, random_state=0)
    x, y = squareform(D), pdist(found)
    assert normalized_stress(x, y) == pytest.approx(np.sqrt(raw / (x**2).sum()), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 100))
def test_the_best_scale_is_where_no_other_is_better_and_both_denominators_agree(factor, seed):
    x, y = np.random.default_rng(seed).random((2, 40))
    best = normalized_stress(x, factor * y, scaled=True)
    assert best == pytest.approx(normalized_stress(x, y, scaled=True), rel=1e-9)
    assert all(best <= normalized_stress(x, scale * y) + 1e-12 for scale in np.linspace(0.1, 3, 30))
    congruence = (x @ y) / np.sqrt((x @ x) * (y @ y))
    assert best == pytest.approx(np.sqrt(1 - congruence**2), rel=1e-7)
    assert best == pytest.approx(normalized_stress(y, x, scaled=True), rel=1e-7)


def test_stress_by_hand():
    assert normalized_stress([3, 4], [3, 4]) == 0
    assert normalized_stress([3, 4], [0, 0]) == normalized_stress([3, 4], [0, 0], scaled=True) == 1
    assert normalized_stress([3, 4], [6, 8]) == pytest.approx(1, rel=1e-15)
    assert normalized_stress([3, 4, np.inf, 1], [3, 9, 2, np.nan]) == pytest.approx(1, rel=1e-15)
    for x, y in (([0, 0], [1, 2]), ([np.nan], [1])):
        with pytest.raises(ScalemaniError, match="above 0"):
            normalized_stress(x, y)


# ---- neighbourhoods ----------------------------------------------------------------------------


def slow_trustworthiness(ranked, chosen_by, k, rows):
    """By the definition, from whole matrices: neighbours by the one, ranks by the other."""
    n, total = len(ranked), 0
    for i in rows:
        others = [j for j in range(n) if j != i]
        near = sorted(others, key=lambda j: (chosen_by[i, j], j))[:k]
        for j in near:
            rank = 1 + sum(ranked[i, other] < ranked[i, j] for other in others)
            total += max(0, rank - k)
    return 1 - 2 * total / (len(rows) * k * (2 * n - 3 * k - 1))


@pytest.fixture(scope="module")
def folded():
    """A roll's geodesic distances, and its points from the side: sheets lie on each other."""
    X = roll(90)
    return naive.geodesics(neighbor_graph(X, 8)), X[:, [0, 2]] @ [[1.0, 0.2], [0.1, 0.3]]


@pytest.mark.parametrize("k", [1, 5, 20, 44])
def test_every_row_gives_scikit_learns_trustworthiness_and_a_slow_continuity(folded, k):
    D, Y = folded
    rows = np.arange(len(Y))
    trust = manifold.trustworthiness(D, Y, n_neighbors=k, metric="precomputed")
    assert trustworthiness(D, Y, rows, n_neighbors=k) == pytest.approx(trust, rel=1e-13)
    assert continuity(D, Y, rows, n_neighbors=k) == pytest.approx(slow_trustworthiness(cdist(Y, Y), D, k, rows))
    assert trust < 0.99 or k == 44


@pytest.mark.parametrize("k", [1, 7, 29])
def test_continuity_is_scikit_learns_trustworthiness_with_the_spaces_swapped(case, k):
    D, X = case
    rows = np.arange(60)
    swapped = manifold.trustworthiness(X[:, :2], X, n_neighbors=k)
    assert continuity(D, X[:, :2], rows, n_neighbors=k) == pytest.approx(swapped, rel=1e-13)
    assert trustworthiness(D, X, rows, n_neighbors=k) == continuity(D, X, rows, n_neighbors=k) == 1


@pytest.mark.parametrize("rows", [[17], [80, 3, 41, 4], [-1, 0]])
def test_a_sample_is_the_mean_over_its_rows_against_all_points(folded, rows):
    D, Y = folded
    at = np.arange(90)[rows]
    for k in (3, 12):
        found = trustworthiness(D[rows], Y, rows, n_neighbors=k), continuity(D[rows], Y, rows, n_neighbors=k)
        slow = slow_trustworthiness(D, cdist(Y, Y), k, at), slow_trustworthiness(cdist(Y, Y), D, k, at)
        assert found == pytest.approx(slow, rel=1e-13)


def test_equal_distances_share_the_best_rank():
    """A line of unit steps: both neighbours at a distance have its first rank, in whatever order they come."""
    D = np.abs(np.subtract.outer(np.arange(9.0), np.arange(9.0)))
    Y = np.random.default_rng(0).random((9, 2))
    for k in (1, 2, 4):
        slow = slow_trustworthiness(D, cdist(Y, Y), k, range(9))
        assert trustworthiness(D, Y, np.arange(9), n_neighbors=k) == pytest.approx(slow, rel=1e-13)
        assert trustworthiness(D, np.arange(9.0)[:, None], np.arange(9), n_neighbors=k) == 1


def test_twins_are_each_others_nearest(folded):
    """Distance 0 is not what tells a row from itself."""
    D, Y = folded
    twice = np.repeat(np.arange(40), 2)
    D, Y = D[np.ix_(twice, twice)], Y[twice]
    rows = np.arange(80)
    assert trustworthiness(D, Y, rows, n_neighbors=1) == continuity(D, Y, rows, n_neighbors=1) == 1
    assert trustworthiness(D, Y, rows, n_neighbors=5) == pytest.approx(
        slow_trustworthiness(D, cdist(Y, Y), 5, rows), rel=1e-13
    )


def test_rows_of_dropped_components_are_no_points(folded):
    """Scattered NaN, as a fit leaves them: the figures are those of the others alone."""
    D, Y = folded
    wide = np.arange(90) + np.arange(90) // 9  # rows 9, 19, ... are lost
    spread = np.full((100, 100), np.nan)
    spread[np.ix_(wide, wide)] = D
    embedding = np.full((100, 2), np.nan)
    embedding[wide] = Y
    rows = np.array([0, 9, 10, 55, 99])
    at = np.searchsorted(wide, np.setdiff1d(rows, [9, 99]))
    for measure in (trustworthiness, continuity):
        assert measure(spread[rows], embedding, rows) == measure(D[at], Y, at)
        with pytest.raises(ScalemaniError, match="none of 2 rows is a point"):
            measure(spread[[9, 99]], embedding, [9, 99])
    spread[10, 20] = np.nan
    with pytest.raises(ScalemaniError, match="row 10 has distances that are NaN"):
        trustworthiness(spread[rows], embedding, rows)


def test_half_of_the_points_are_too_many_neighbours(folded):
    """The rule of scikit-learn, with its own numbers."""
    D, Y = folded
    for k in (0, 45, 90):
        with pytest.raises(ScalemaniError, match=f"n_neighbors={k}: 1 or more, and less than half of the 90 points"):
            continuity(D, Y, np.arange(90), n_neighbors=k)
    with pytest.raises(ValueError, match="less than n_samples / 2"):
        manifold.trustworthiness(D, Y, n_neighbors=45, metric="precomputed")
    with pytest.raises(ScalemaniError, match=r"shape \(90, 90\), 3 rows"):
        trustworthiness(D, Y, [1, 2, 3])


# ---- of a fitted model -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Isomap(n_neighbors=8, n_components=3, store=tmp_path_factory.mktemp("quality") / "run").fit(roll(160))


def test_the_account_of_every_row_is_what_the_measures_say_of_the_whole(model, monkeypatch):
    D, Y, rows = model.geodesics(np.arange(160)), model.embedding_, np.arange(160)
    whole = quality_account(model, 160, 6)
    upper = np.triu_indices(160, 1)
    x, y = D[upper], cdist(Y, Y)[upper]
    assert (whole["n_points"], whole["n_rows"], whole["n_pairs"], whole["n_neighbors"]) == (160, 160, 12720, 6)
    # 1e-6: rows that are found again differ from D in float32's last bits.
    np.testing.assert_allclose(whole["residual_variance"], residual_variances(D, Y, rows), rtol=1e-6, atol=1e-12)
    assert whole["normalised_stress"] == pytest.approx(normalized_stress(x, y), rel=1e-6)
    assert whole["normalised_stress_scaled"] == pytest.approx(normalized_stress(x, y, scaled=True), rel=1e-6)
    assert whole["trustworthiness"] == pytest.approx(trustworthiness(D, Y, rows, n_neighbors=6), abs=1e-6)
    assert whole["continuity"] == pytest.approx(continuity(D, Y, rows, n_neighbors=6), abs=1e-6)
    monkeypatch.setattr(quality, "ENTRIES", 160 * 7)
    again = quality_account(model, 160, 6)
    for name, value in whole.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-12)


def test_a_sample_holds_few_rows_reads_no_tile_and_is_near_the_whole(model, monkeypatch):
    asked = []
    real = type(model).geodesics
    monkeypatch.setattr(
        type(model), "geodesics", lambda self, rows, **how: asked.append(len(rows)) or real(self, rows, **how)
    )
    monkeypatch.setattr("scalemani.geodesics.reads.read_tiles", None)
    monkeypatch.setattr(quality, "ENTRIES", 160 * 7)
    found = quality_account(model, 40)
    assert asked == [7, 7, 7, 7, 7, 5]
    assert (found["n_rows"], found["n_pairs"], found["n_neighbors"]) == (40, 40 * 120 + 40 * 39 // 2, 8)
    whole = quality_account(model, 1000)
    np.testing.assert_allclose(found["residual_variance"], whole["residual_variance"], rtol=0.2)
    assert found["trustworthiness"] == pytest.approx(whole["trustworthiness"], abs=0.01)
    assert quality_account(model, 40) == found != quality_account(model, 40, seed=1)
    assert json.loads(json.dumps(found)) == found


def test_the_account_leaves_dropped_rows_out():
    X = np.concatenate([roll(40) + 1000, roll(100)])
    model = Isomap(n_neighbors=6, disconnected="largest").fit(X)
    alone = Isomap(n_neighbors=6).fit(X[40:])
    found, expected = quality_account(model), quality_account(alone)
    assert found["n_points"] == found["n_rows"] == 100
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5)


def test_numbers_without_a_meaning_are_none():
    """Two points have no correlation and no neighbourhood; equal distances have no correlation."""
    found = quality_account(Isomap(n_neighbors=1, n_components=1).fit([[0.0], [1.0]]))
    assert found["residual_variance"] == [None]
    assert found["trustworthiness"] is found["continuity"] is found["n_neighbors"] is None
    assert found["normalised_stress"] < 1e-6


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"n_rows": 0}, "at least 1 row"),
        ({"seed": -1}, "a seed of 0"),
        ({"n_neighbors": 80}, "half of the 160"),
        ({"n_neighbors": 0}, "n_neighbors=0"),
    ],
)
def test_the_account_refuses_before_any_row_is_found(model, given, what, monkeypatch):
    monkeypatch.setattr(type(model), "geodesics", None)
    with pytest.raises(ScalemaniError, match=what):
        quality_account(model, **given)
