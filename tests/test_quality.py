"""Residual variance against a dense reference, its invariances, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from scalemani.errors import ScalemaniError
from scalemani.quality import embedded_distances, residual_variance, residual_variances


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
