"""One row far away, or a few: the axes of all others are those of the dense kernel, or the warning says why not."""

import naive
import numpy as np
import pytest

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import AdditiveConstantWarning, FarRowsWarning, RankWarning
from scalemani.kernel import operators

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.ShortcutWarning"),  # so few points of a roll have some
]


def roll(n):
    rng = np.random.default_rng(0)
    u, v = rng.random(n), rng.random(n)
    t = 1.5 * np.pi * (1 + 2 * u)
    return np.c_[t * np.cos(t), 21 * v, t * np.sin(t)]


def with_far(n, *far):
    return np.r_[roll(n), np.array(far, float).reshape(-1, 3)]


def dense_axes(model, p):
    """Coordinates by a dense solve of the model's own float32 distances, and its constant."""
    n = model.spectrum_["n_rows"]
    D = model.geodesics(range(n)).astype(np.float64)
    values, vectors = naive.top_pairs(naive.kernel((D + D.T) / 2, model.spectrum_["additive_constant"]), p)
    return vectors * np.sqrt(values)


def correlations(ours, theirs):
    return [abs(np.corrcoef(a, b)[0, 1]) if a.std() else 0.0 for a, b in zip(ours.T, theirs.T, strict=True)]


@pytest.mark.parametrize(
    ("kind", "n", "far", "p"),
    [
        (Isomap, 200, [[1e6, 10, 0]], 3),  # solved at once
        (Isomap, 400, [[1e6, 10, 0]], 3),  # iterated
        (KernelIsomap, 400, [[1e6, 10, 0]], 3),
        (Isomap, 200, [[1e6, 10, 0], [0, -1e6, 0]], 4),
        (Isomap, 200, [[1e6, 10, 0], [0, 3e4, 0]], 4),
    ],
)
def test_axes_of_the_others_are_those_of_the_dense_kernel(kind, n, far, p, tmp_path):
    X = with_far(n, *far)
    rows = ", ".join(str(n + i) for i in range(len(far)))
    with pytest.warns(FarRowsWarning, match=rf"rows? {rows} of X (is|are) far away.*are kept") as said:
        model = kind(n_neighbors=8, n_components=p, store=tmp_path / "run").fit(X)
    assert not [w for w in said if w.category not in (FarRowsWarning, AdditiveConstantWarning)]
    expected = dense_axes(model, p)[:n]
    found = model.embedding_[:n]
    np.testing.assert_allclose(correlations(found, expected), 1, atol=1e-6)
    np.testing.assert_allclose(found.std(0), expected.std(0), rtol=1e-5)
    assert model.spectrum_["converged"] and "far away" in model.spectrum_["warnings"][0]
    again = load(tmp_path / "run")
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    np.testing.assert_allclose(again.transform(X[:9]), model.embedding_[:9], atol=1e-4 * np.abs(found).max(0).min())


def test_a_point_a_million_times_as_far_as_the_others_are_wide():
    """Points in a cube: their eigenvalues are 1e-11 of the first, and float32 still holds them."""
    X = np.r_[np.random.default_rng(1).random((200, 3)), [[1e6, 0.5, 0.5]]]
    with pytest.warns(FarRowsWarning):
        model = Isomap(n_neighbors=200, n_components=3).fit(X)
    expected = dense_axes(model, 3)[:200]
    np.testing.assert_allclose(correlations(model.embedding_[:200], expected), 1, atol=1e-6)


def test_what_float32_products_would_lose_is_multiplied_in_float64(monkeypatch):
    monkeypatch.setattr(operators, "FLOAT64_BELOW", 100)
    with pytest.warns(FarRowsWarning):
        model = Isomap(n_neighbors=8, n_components=3).fit(with_far(400, [1e6, 10, 0]))
    np.testing.assert_allclose(correlations(model.embedding_[:400], dense_axes(model, 3)[:400]), 1, atol=1e-6)


def test_given_distances_and_landmarks_keep_them_too():
    X = with_far(320, [1e6, 10, 0])
    with pytest.warns(FarRowsWarning):
        full = Isomap(n_neighbors=8, n_components=3).fit(X)
    D = full.geodesics(range(321)).astype(np.float64)
    with pytest.warns(FarRowsWarning, match="row 320 of X"):
        given = Isomap(metric="geodesic", n_components=3).fit(np.maximum(D, D.T))
    np.testing.assert_allclose(correlations(given.embedding_[:320], full.embedding_[:320]), 1, atol=1e-6)
    with pytest.warns(FarRowsWarning, match="row 320 of X"):
        by = Isomap(n_neighbors=8, n_components=3, landmarks=160).fit(X)
    assert min(correlations(by.embedding_[:320], full.embedding_[:320])) > 0.999


def test_rows_that_are_far_away_together_take_the_digits_and_are_named():
    """Rounding of their distances to the others is larger than their distances from one another."""
    X = with_far(200, [1e6, 10, 0], [1e6, 11.03, 0])
    with (
        pytest.warns(FarRowsWarning, match="rows 200, 201 of X are far away.*may be lost.*without them"),
        pytest.warns(RankWarning, match="3 of 4 axes .*rounding of float32 distances"),
    ):
        model = Isomap(n_neighbors=8, n_components=4).fit(X)
    assert not model.embedding_[:, 1:].any()


def test_two_halves_far_apart_are_no_outliers(recwarn):
    """Which of them would be far away?"""
    X = np.r_[roll(60), roll(60) + [1e6, 0, 0]]
    Isomap(n_neighbors=8, n_components=1, disconnected="join").fit(X)
    assert not [w for w in recwarn if w.category is FarRowsWarning]
