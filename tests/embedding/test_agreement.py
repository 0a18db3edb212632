"""Maps laid upon each other agree with SciPy's Procrustes, known turns are found, neighbours are counted as by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import procrustes
from scipy.spatial.distance import cdist, pdist
from scipy.stats import ortho_group

from scalemani.embedding import agreement
from scalemani.embedding.agreement import correlation_of_distances, shared_neighbors, superposition
from scalemani.errors import ScalemaniError

rng = np.random.default_rng(0)
MAP = rng.normal(size=(60, 3)) * [5, 2, 1] + [10, -3, 100]


@given(st.integers(0, 1000), st.integers(1, 4), st.sampled_from([1e-30, 1e-3, 1.0, 1e30]))
@settings(max_examples=30, deadline=None)
def test_procrustes_statistic_is_scipys_in_any_unit_and_the_same_both_ways(seed, p, unit):
    rng = np.random.default_rng(seed)
    one = rng.normal(size=(20, p))
    other = one @ rng.normal(size=(p, p)) + rng.normal(size=(20, p))
    expected = procrustes(one, other)[2]
    laid = superposition(one * unit, other)
    assert laid.disparity == pytest.approx(expected, rel=1e-9)
    assert superposition(other, one * unit).disparity == pytest.approx(expected, rel=1e-9)
    left = laid.of(other) / unit - one
    spread = ((one - one.mean(axis=0)) ** 2).sum()
    assert laid.apart**2 == pytest.approx((left**2).sum() / spread, rel=1e-9) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("reflected", [False, True])
def test_a_known_turn_shift_and_scale_are_found(reflected):
    turn = ortho_group.rvs(3, random_state=1)
    turn[0] *= -1 if (np.linalg.det(turn) < 0) != reflected else 1
    moved = 7 * MAP @ turn + [1, 2, 3]
    laid = superposition(MAP, moved)
    assert laid.scale == pytest.approx(1 / 7) and laid.disparity < 1e-28
    np.testing.assert_allclose(laid.of(moved), MAP, atol=1e-12)
    np.testing.assert_allclose(laid.turn, turn.T, atol=1e-12)
    unscaled = superposition(MAP, moved, scale=False)
    assert unscaled.scale == 1 and unscaled.disparity < 1e-28
    center = MAP.mean(axis=0)
    np.testing.assert_allclose(unscaled.of(moved), center + 7 * (MAP - center), atol=1e-11)
    assert unscaled.apart == pytest.approx(6)  # of points that are seven times as far from the middle


def test_a_rows_bits_depend_on_that_row_alone_and_nan_stays():
    laid = superposition(MAP, MAP[::-1] * [1, 2, 3])
    whole = laid.of(MAP)
    for rows in (slice(3, 4), slice(5, 19)):
        assert np.array_equal(laid.of(MAP[rows]), whole[rows])
    assert np.isnan(laid.of(np.full((2, 3), np.nan))).all()


def test_points_in_one_place_have_no_turn():
    with pytest.raises(ScalemaniError, match="in one place"):
        superposition(MAP, np.full_like(MAP, 0.1))


def nearest(points, k):
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    return [set(row) for row in np.argsort(distances, axis=1)[:, :k].tolist()]


def test_shared_neighbours_are_those_of_brute_force(monkeypatch):
    monkeypatch.setattr(agreement, "ROWS_TOGETHER", 7)
    other = MAP + rng.normal(size=MAP.shape)
    found = shared_neighbors(MAP, other, (1, 10, 30, 59, 60))
    assert [*found] == [1, 10, 30]  # of 59 others all 59 are shared
    for k, shares in found.items():
        expected = [len(a & b) / k for a, b in zip(nearest(MAP, k), nearest(other, k), strict=True)]
        np.testing.assert_allclose(shares, expected)


def test_by_chance_the_share_is_k_over_the_others():
    one, other = np.random.default_rng(1).normal(size=(2, 1500, 2))
    assert shared_neighbors(one, other, (30,))[30].mean() == pytest.approx(30 / 1499, rel=0.15)


def test_rows_at_one_place_in_both_maps_are_one_point():
    """Which of equal points are nearest is arbitrary, and not a matter of the maps."""
    places = rng.normal(size=(40, 2))
    one = np.repeat(places, 9, axis=0)
    other = one @ [[0.6, 0.8], [0.8, -0.6]]
    other[:] = np.repeat(other[::9], 9, axis=0)
    assert all((shares == 1).all() for shares in shared_neighbors(one, other, (10, 30)).values())
    flat = np.column_stack([MAP[:, 0], np.zeros(60)])  # of points in one place in one map alone
    heaped = np.column_stack([np.zeros(60), MAP[:, 1] > -3])
    assert 0 <= shared_neighbors(flat, heaped, (10,))[10].mean() <= 1


def test_the_correlation_of_distances_is_pearsons_of_all_pairs_or_close_to_it():
    other = MAP[:, :2] + rng.normal(size=(60, 2))
    assert correlation_of_distances(MAP, other) == pytest.approx(np.corrcoef(pdist(MAP), pdist(other))[0, 1])
    many = np.random.default_rng(2).normal(size=(700, 2))
    noisy = many + np.random.default_rng(3).normal(size=many.shape)
    exact = np.corrcoef(pdist(many), pdist(noisy))[0, 1]
    assert correlation_of_distances(many, noisy) == pytest.approx(exact, abs=0.01)
    assert np.isnan(correlation_of_distances(MAP[:2], MAP[:2]))
