"""Weights, closed classes and landmarks of locally linear embedding against dense references and scikit-learn."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from data import flat, roll
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.manifold import LocallyLinearEmbedding
from sklearn.svm import SVC

from scalemani.embedding import isometric
from scalemani.embedding.kernel_functions import Kernel, grams_of_kernel, local_grams
from scalemani.embedding.reconstruction import (
    closed_classes,
    landmark_weights,
    placed,
    reconstruction,
    ritz_in_span,
    weights_of,
)
from scalemani.kernel.bottom import bottom_singular_vectors

ORACLES = Path(__file__).parent.parent / "oracles"
KERNELS = {
    "linear": None,
    "poly_2_0.001": Kernel("poly", 1.0, 2, 0.001),
    "poly_3_1": Kernel("poly", 1.0, 3, 1.0),
    "rbf_3": Kernel("rbf", 3.0),
}
EVERY = {**KERNELS, "cosine": Kernel("cosine"), "sigmoid": Kernel("sigmoid", 0.1), "own": lambda x, y: np.exp(x @ y.T)}


def nearest(squares, k):
    """Columns of the k smallest numbers of each row, ties by number."""
    return np.argsort(squares, axis=1, kind="stable")[:, :k]


def others(squares, k):
    """The same, without the row itself."""
    return nearest(squares + np.diag(np.full(len(squares), np.inf)), k)


def between(kernel, rows, points):
    """Squared distances in a kernel's feature space."""
    if kernel is None:
        return cdist(rows, points, "sqeuclidean")
    own = [np.array([kernel.values(x[None], x[None])[0, 0] for x in some]) for some in (rows, points)]
    return np.maximum(own[0][:, None] - 2 * kernel.values(rows, points) + own[1], 0)


def residuals(idx, weights):
    """A."""
    return reconstruction(np.arange(0, idx.size + 1, idx.shape[1]), idx.ravel(), weights)


def assert_axes(found, expected, tol=1e-6):
    """To a share of the largest number, signs included."""
    assert np.abs(found - expected).max() <= tol * np.abs(expected).max()


def sine(one, other):
    """Of the largest angle between two planes."""
    one, other = np.linalg.qr(one)[0], np.linalg.qr(other)[0]
    return np.linalg.norm(other - one @ (one.T @ other), 2)


# ---- oracles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["scurve", "gauss10"])
def test_locally_linear_embedding_is_the_references(name):
    expected = {key.removeprefix(f"{name}_"): value for key, value in np.load(ORACLES / "lle.npz").items()}
    X, T, k, reg = (expected[key] for key in ("X", "T", "k", "reg"))
    idx, near = others(between(None, X, X), k), nearest(between(None, T, X), k)
    np.testing.assert_array_equal(idx, expected["idx"])
    np.testing.assert_array_equal(near, expected["T_idx"])
    weights = weights_of(local_grams(X, X, idx), reg)
    of_new = weights_of(local_grams(X, T, near), reg)
    assert_axes(weights, expected["weights"], 1e-9)
    assert_axes(of_new, expected["T_weights"], 1e-9)

    found = bottom_singular_vectors(residuals(idx, weights), 10)
    np.testing.assert_allclose(found.sigma**2, expected["eigenvalues"][1:], rtol=1e-9)
    np.testing.assert_allclose(found.sigma[:5] ** -2, expected["Mplus_top_eigenvalues"], rtol=1e-9)
    assert (found.sigma[:3] ** 2).sum() == pytest.approx(expected["sklearn_error"], rel=1e-6)
    V = found.vectors[:, :3]
    assert_axes(V, expected["V"])
    assert_axes(V * np.sqrt(len(X)), expected["embedding"])
    assert sine(V, expected["sklearn_embedding"]) < 1e-6
    assert_axes(placed(near, of_new, V * np.sqrt(len(X))), expected["T_embedding"])

    loose = bottom_singular_vectors(residuals(idx, weights_of(local_grams(X, X, idx), 1e-6)), 10)
    np.testing.assert_allclose(loose.sigma**2, expected["eigenvalues_reg1e-6"][1:], rtol=1e-6)


@pytest.mark.parametrize("name", ["scurve", "gauss10"])
def test_all_vectors_together_are_the_kernel(name):
    """M's pseudoinverse, and its largest eigenvalue."""
    expected = {key.removeprefix(f"{name}_"): value for key, value in np.load(ORACLES / "lle.npz").items()}
    found = bottom_singular_vectors(residuals(expected["idx"], expected["weights"]), len(expected["X"]) - 1)
    assert found.sigma[-1] ** 2 == pytest.approx(expected["largest"], rel=1e-9)
    rows = (found.vectors[:3] / found.sigma**2) @ found.vectors.T
    assert_axes(rows, expected["Mplus_first_rows"], 1e-5)  # the reference's own accuracy is 1e-6


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_locally_linear_embedding_is_the_references(name):
    oracle, kernel = np.load(ORACLES / "klle.npz"), KERNELS[name]
    expected = {key.removeprefix(f"{name}_"): value for key, value in oracle.items() if key.startswith(name)}
    X, T, k, reg = (oracle[key] for key in ("X", "T", "k", "reg"))
    squares, near = between(kernel, X, X), nearest(between(kernel, T, X), k)
    idx = others(squares, k)
    np.testing.assert_array_equal(idx, expected["idx"])
    np.testing.assert_allclose(np.sqrt(np.take_along_axis(squares, idx, 1)), expected["dist"], rtol=1e-9)
    grams = local_grams(X, X, idx, kernel)
    assert_axes(grams[0], expected["C0"], 1e-12)
    weights = weights_of(grams, reg)
    assert_axes(weights, expected["weights"], 1e-9)

    found = bottom_singular_vectors(residuals(idx, weights), 4)
    np.testing.assert_allclose(found.sigma**2, expected["eigenvalues"][1:], rtol=1e-9)
    assert_axes(found.vectors[:, :2], expected["V"])
    Y = found.vectors[:, :2] * np.sqrt(len(X))
    assert_axes(Y, expected["embedding"])
    Z = placed(near, weights_of(local_grams(X, T, near, kernel), reg), Y)
    assert_axes(Z, expected["T_embedding"])
    separated = SVC(kernel="linear", C=float(oracle["C"])).fit(Y, oracle["y"])
    assert abs((separated.predict(Y) != oracle["y"]).sum() - expected["svm_errors"]) <= 1
    assert abs((separated.predict(Z) != oracle["T_y"]).sum() - expected["svm_errors_T"]) <= 1


@pytest.mark.parametrize("X", [roll(300, 1), flat(250, 4) @ np.diag([1.0, 2, 3, 4])], ids=["roll", "box"])
def test_scikit_learns_axes_span_the_same(X):
    k, p = 9, 2
    theirs = LocallyLinearEmbedding(n_neighbors=k, n_components=p, eigen_solver="dense").fit(X)
    idx = others(cdist(X, X), k)
    found = bottom_singular_vectors(residuals(idx, weights_of(local_grams(X, X, idx))), p)
    assert sine(found.vectors, theirs.embedding_) < 1e-6
    assert (found.sigma[:p] ** 2).sum() == pytest.approx(theirs.reconstruction_error_, rel=1e-6)


# ---- weights -----------------------------------------------------------------------------------------


def neighbors(seed=0, m=30, k=6, D=7):
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(80, D)), rng.normal(size=(m, D))
    return X, T, nearest(cdist(T, X), k)


@pytest.mark.parametrize("name", EVERY)
def test_local_grams_are_differences_of_kernel_values(name):
    (X, T, idx), kernel = neighbors(), EVERY[name]
    call = kernel if callable(kernel) else lambda x, y: x @ y if kernel is None else kernel.values(x[None], y[None])
    K, values, own = ([[np.squeeze(call(x, y)) for y in b] for x in a] for a, b in ((X, X), (T, X), (T, T)))
    expected = grams_of_kernel(np.array(K), idx, np.array(values), np.diagonal(own))
    found = local_grams(X, T, idx, kernel)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(K).max())
    np.testing.assert_array_equal(found, found.swapaxes(1, 2))
    at_home = others(cdist(X, X), 5)
    np.testing.assert_allclose(
        grams_of_kernel(np.array(K), at_home), local_grams(X, X, at_home, kernel), atol=1e-12 * np.abs(K).max()
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", EVERY)
def test_a_rows_weights_hang_on_no_other_row(name, sparse, monkeypatch):
    X, T, idx = neighbors(D=50)
    X, T = (np.where(np.abs(rows) > 1, rows, 0.0) for rows in (X, T))
    grams = local_grams(X, T, idx, EVERY[name])
    if sparse:
        X, T = sp.csr_array(X), sp.csr_array(T)
    weights = weights_of(grams)
    coordinates = np.random.default_rng(0).normal(size=(80, 1))
    for i in range(len(grams)):
        alone = local_grams(X, T[[i]], idx[[i]], EVERY[name])
        np.testing.assert_array_equal(alone[0], grams[i])
        np.testing.assert_array_equal(weights_of(alone)[0], weights[i])
        there = placed(idx[[i]], weights[[i]], coordinates)
        np.testing.assert_array_equal(there[0], placed(idx, weights, coordinates)[i])
    monkeypatch.setattr(isometric, "PANEL", 1000)
    np.testing.assert_array_equal(local_grams(X, T, idx, EVERY[name]), grams)


def test_the_linear_kernel_gives_plain_weights():
    X = np.load(ORACLES / "klle.npz")["X"]
    idx = others(cdist(X, X), 8)
    plain = weights_of(local_grams(X, X, idx))
    for kernel in (Kernel("poly", 1.0, 1, 0.0), lambda x, y: x @ y.T, Kernel("cosine")):  # rows are of unit size
        np.testing.assert_allclose(weights_of(local_grams(X, X, idx, kernel)), plain, atol=1e-12)
    np.testing.assert_allclose(weights_of(grams_of_kernel(X @ X.T, idx)), plain, atol=1e-12)


@pytest.mark.parametrize("gamma", [1e-6, 1e-12, 1e-100])
def test_a_wide_gaussian_kernel_is_linear(gamma):
    X, T, idx = neighbors()
    plain = local_grams(X, T, idx)
    found = local_grams(X, T, idx, Kernel("rbf", gamma)) / (2 * gamma)
    np.testing.assert_allclose(found, plain, atol=max(1e-13, 100 * gamma) * np.abs(plain).max())


@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(1e-3, 1e3))
def test_weights_sum_to_one_and_neither_move_nor_scale_with_the_rows(seed, k, unit):
    X, T, idx = neighbors(seed, 5, k, 4)
    weights = weights_of(local_grams(X, T, idx))
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-9)
    moved = weights_of(local_grams(unit * X + 1, unit * T + 1, idx))
    np.testing.assert_allclose(moved, weights, atol=1e-7 * np.abs(weights).max() * max(1, 1 / unit))


def test_a_row_among_equals_has_equal_weights_and_one_at_a_neighbour_all_weight_there():
    X = np.array([[0.0, 0], [0, 0], [0, 0], [1, 0]])
    assert weights_of(local_grams(X, X[:1], np.array([[1, 2]]))).tolist() == [[0.5, 0.5]]
    idx = np.array([[3, 1, 2]])
    grams = local_grams(X, X[:1], idx)
    assert 0 < np.abs(weights_of(grams) - [[0, 0.5, 0.5]]).max() < 1e-3
    assert weights_of(grams, equal=cdist(X[:1], X[idx[0]]) == 0).tolist() == [[0, 1, 0]]


def test_whole_numbers_are_taken_as_numbers():
    X = np.array([[250], [3], [255]], np.uint8)
    assert local_grams(X, X, np.array([[1, 2], [0, 2], [0, 1]]))[0].tolist() == [[247**2, -247 * 5], [-247 * 5, 25]]


def test_a_kernel_that_overflows_gives_nan_and_no_warning():
    X, T, idx = neighbors()
    assert np.isnan(local_grams(X * 1e60, T * 1e60, idx, Kernel("poly"))).any()


# ---- lists -------------------------------------------------------------------------------------------


def lists(*rows):
    return np.cumsum([0, *map(len, rows)]), np.array([j for row in rows for j in row], np.int64)


def test_two_blobs_and_two_points_between_them_have_two_closed_classes():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + [20, 0], [[8, 0], [12, 0]]])
    idx = others(cdist(X, X), 12)
    classes, kept = closed_classes(np.arange(0, idx.size + 1, 12), idx.ravel())
    assert sp.csgraph.connected_components(residuals(idx, np.ones((62, 12)) / 12), directed=False)[0] == 1
    assert classes.max() == 1 and set(classes[60:]) == {-1}
    assert not kept[60:].any()  # they lead to both
    assert kept[:30].all() != kept[30:60].all()
    A = residuals(idx, weights_of(local_grams(X, X, idx)))
    assert np.linalg.svd(A.toarray(), compute_uv=False)[-2] < 1e-14


def test_rows_that_lead_to_the_largest_class_alone_are_kept():
    # 0 1 2 and 5 6 are closed; 3 leads to the first, 4 to 3 and to the second, 7 to 4
    indptr, indices = lists([1], [2], [0], [0, 1], [3, 5], [6], [5], [4, 0])
    classes, kept = closed_classes(indptr, indices)
    assert classes.tolist() == [0, 0, 0, -1, -1, 1, 1, -1]
    assert kept.tolist() == [True] * 4 + [False] * 4
    assert closed_classes(*lists([1], [0], [3], [2]))[0].tolist() == [0, 0, 1, 1]  # of two alike, the first
    assert closed_classes(*lists([], [0]))[0].tolist() == [0, -1]  # a list without entries
    assert closed_classes(*lists([1, 1], [0, 0]))[0].tolist() == [0, 0]  # a neighbour twice


# ---- landmarks ---------------------------------------------------------------------------------------


def test_landmarks_are_themselves_and_others_are_rebuilt_from_them():
    X = roll(200, 2)
    landmarks = np.arange(0, 200, 4)
    idx = nearest(cdist(X, X[landmarks]), 8)
    weights = weights_of(local_grams(X[landmarks], X, idx))
    Z = landmark_weights(idx, weights, 50, landmarks)
    np.testing.assert_array_equal(Z.toarray()[landmarks], np.eye(50))
    np.testing.assert_allclose(Z.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(landmark_weights(idx, weights, 50)[1] @ X[landmarks], placed(idx, weights, X[::4])[1])


@pytest.mark.parametrize("mass", [None, np.linspace(1, 2, 200)])
def test_ritz_vectors_are_the_lowest_of_the_span(mass):
    X = roll(200, 2)
    landmarks, idx = np.arange(0, 200, 4), others(cdist(X, X), 8)
    A = residuals(idx, weights_of(local_grams(X, X, idx)))
    near = nearest(cdist(X, X[landmarks]), 8)
    Z = landmark_weights(near, weights_of(local_grams(X[landmarks], X, near)), 50, landmarks)
    images = A @ Z
    values, V, U = ritz_in_span((images.T @ images).tocsr(), Z, 3, mass)
    size = np.ones(200) if mass is None else mass
    np.testing.assert_allclose(V, Z @ U, atol=1e-12)
    np.testing.assert_allclose(V.T @ (size[:, None] * V), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(size @ V, 0, atol=1e-6)
    np.testing.assert_allclose(V.T @ (A.T @ (A @ V)), np.diag(values[:3]), atol=1e-8 * values[2])
    assert len(values) == 4
    exact = bottom_singular_vectors(A, 3).sigma[:3] ** 2
    assert mass is not None or (values[:3] > exact * (1 - 1e-9)).all()


def test_with_every_row_a_landmark_it_is_the_whole_method():
    X = flat(150, 2)
    idx = others(cdist(X, X), 8)
    A = residuals(idx, weights_of(local_grams(X, X, idx)))
    Z = landmark_weights(idx, np.zeros(idx.shape), 150, np.arange(150))
    values, V, _ = ritz_in_span((A.T @ A).tocsr(), Z, 3)
    found = bottom_singular_vectors(A, 3)
    np.testing.assert_allclose(values, found.sigma**2, rtol=1e-4)
    assert sine(V, found.vectors) < 1e-6
