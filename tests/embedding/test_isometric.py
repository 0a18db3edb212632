"""The linear map of least strain against a dense reference in NumPy and SciPy, and against what it must be."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from scalemani.embedding import isometric
from scalemani.embedding.isometric import (
    basis_of_gram,
    basis_of_rows,
    centered_product,
    landmark_map,
    least_strain,
    left_out_error,
    projected_labels,
)

ORACLES = Path(__file__).parent.parent / "oracles"
FORMS = {"": (0.0, "lstsq"), "_unit": (0.0, "unit"), "_ridge": (1e-3, "lstsq")}


def with_left(rows):
    """The directions of rows, and U."""
    basis = basis_of_rows(rows)
    left = centered_product(rows, basis.mean, basis.loadings) / basis.spread
    return basis, left - left.mean(axis=0)


def of_kernel(gram):
    """The same of a kernel matrix."""
    basis = basis_of_gram(gram)
    return basis, basis.loadings * basis.spread


def oracle(name):
    """The dense reference's arrays, with rows X and T, and D without inf."""
    found = dict(np.load(ORACLES / f"isometric_{name}.npz"))
    if name == "wide":
        found["X"], found["T"] = (
            counts / np.linalg.norm(counts, axis=1)[:, None] for counts in (found["counts"], found["counts_T"] * 1.0)
        )
    if name == "supervised":
        found["S"] = np.where(np.isfinite(found["D"]), found["D"] ** 2, 0.0)
        found["D"] = np.where(np.isfinite(found["D"]), found["D"], found["fill"] * found["longest"])
    return found


def kernel_of(distances):
    squares = distances**2
    means = squares.mean(axis=0)
    return -0.5 * (squares - means - means[:, None] + means.mean())


def assert_axes(found, expected, tol=1e-9):
    """Columns agree but for their signs, to a share of the largest number."""
    signs = np.sign((found * expected).sum(axis=0))
    assert np.abs(found * signs - expected).max() <= tol * np.abs(expected).max()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["linear", "wide", "supervised"])
def test_the_map_of_rows_is_the_references(name, form):
    expected, (ridge, scale) = oracle(name), FORMS[form]
    basis, left = with_left(expected["X"])
    assert basis.rank == expected["rank"]
    np.testing.assert_allclose(basis.spread, expected["singular_values"], rtol=1e-9)
    np.testing.assert_allclose(basis.mean, expected["mean"], rtol=1e-12, atol=1e-15)
    axes = expected["W"].shape[1]
    found = least_strain(basis, left.T @ kernel_of(expected["D"]) @ left, axes, ridge, scale)
    np.testing.assert_allclose(found.eigenvalues, expected[f"lam{form}"], rtol=1e-9)
    assert_axes(found.weights, expected[f"W{form}"])
    assert_axes(left @ found.turn, expected[f"Y{form}"])
    assert_axes((expected["T"] - basis.mean) @ found.weights, expected[f"YT{form}"])


def test_one_distance_between_classes_needs_no_entry_of_d():
    expected = oracle("supervised")
    basis, left = with_left(expected["X"])
    sums = np.array([left[expected["labels"] == label].sum(axis=0) for label in range(4)])
    within = -0.5 * left.T @ expected["S"] @ left
    projected = within + projected_labels(sums, float(expected["fill"] * expected["longest"]))
    np.testing.assert_allclose(projected, left.T @ kernel_of(expected["D"]) @ left, atol=1e-9 * np.abs(projected).max())
    fill = 1e6 * float(expected["longest"])
    limit = least_strain(basis, within + projected_labels(sums, fill), 3).eigenvalues / (fill**2 / 2)
    np.testing.assert_allclose(limit, expected["limit"], rtol=1e-9)


@pytest.mark.parametrize("name", ["linear", "wide", "supervised"])
def test_leaving_each_row_out_is_what_the_closed_form_says(name):
    expected = oracle(name)
    basis, left = with_left(expected["X"])
    found = [left_out_error(left, basis.spread, expected["isomap_Y"], ridge) for ridge in expected["rhos"]]
    np.testing.assert_allclose(found, expected["left_out"], rtol=1e-9)


def test_the_closed_form_is_really_leaving_rows_out():
    rng = np.random.default_rng(0)
    X, Y, ridge = rng.normal(size=(30, 5)) + 7, rng.normal(size=(30, 2)), 0.03
    Y -= Y.mean(axis=0)
    basis, left = with_left(X)
    alpha, error = ridge * basis.spread[0] ** 2, 0.0
    for row in range(30):
        kept = np.arange(30) != row
        mean, target = X[kept].mean(axis=0), Y[kept].mean(axis=0)
        centered = X[kept] - mean
        weights = np.linalg.solve(centered.T @ centered + alpha * np.eye(5), centered.T @ (Y[kept] - target))
        error += ((Y[row] - target - (X[row] - mean) @ weights) ** 2).sum()
    expected = np.sqrt(error / (Y**2).sum())
    assert left_out_error(left, basis.spread, Y, ridge) == pytest.approx(expected, rel=1e-9)


def gaussian(sigma):
    return lambda rows, others: np.exp(-cdist(rows, others, "sqeuclidean") / sigma**2)


def cosine(rows, others):
    return rows @ others.T / np.linalg.norm(rows, axis=1)[:, None] / np.linalg.norm(others, axis=1)


def kernels(expected):
    width = float(expected["sigma_wide"])
    return {
        "narrow": gaussian(float(expected["sigma_narrow"])),
        "wide": gaussian(width),
        "truncated": gaussian(width),
        "cubic": lambda rows, others: (1 + rows @ others.T / width**2) ** 3,
        "cosine": cosine,
    }


@pytest.mark.parametrize("name", ["narrow", "wide", "truncated", "cubic", "cosine"])
def test_the_map_of_a_kernel_matrix_is_the_references(name, monkeypatch):
    if name == "truncated":
        monkeypatch.setattr(isometric, "LEAST_OF_GRAM", 1e-8)
    expected = oracle("kernel")
    kernel = kernels(expected)[name]
    basis, left = of_kernel(kernel(expected["X"], expected["X"]))
    assert basis.rank == expected[f"{name}_rank"]
    found = least_strain(basis, left.T @ kernel_of(expected["D"]) @ left, 2, float(expected[f"{name}_rho"]))
    np.testing.assert_allclose(found.eigenvalues, expected[f"{name}_lam"], rtol=1e-9)
    assert_axes(left @ found.turn, expected[f"{name}_Y"])
    placed = (kernel(expected["T"], expected["X"]) - basis.mean) @ found.weights
    assert_axes(placed, expected[f"{name}_YT"])
    if f"{name}_left_out" in expected:
        error = left_out_error(left, basis.spread, expected["isomap_Y"], float(expected[f"{name}_rho"]))
        assert error == pytest.approx(float(expected[f"{name}_left_out"]), rel=1e-9)


def test_nystroms_features_are_the_references():
    expected = oracle("kernel")
    kernel, some = kernels(expected)["wide"], expected["X"][expected["nystrom_rows"]]
    within, negative = landmark_map(kernel(some, some))
    basis, left = with_left(kernel(expected["X"], some) @ within)
    assert negative < 1e-6
    largest = basis_of_gram(kernel(expected["X"], expected["X"])).spread[0]
    ridge = 1e-4 * largest**2 / basis.spread[0] ** 2
    found = least_strain(basis, left.T @ kernel_of(expected["D"]) @ left, 2, ridge)
    np.testing.assert_allclose(found.eigenvalues, expected["nystrom_lam"], rtol=1e-9)
    assert_axes(left @ found.turn, expected["nystrom_Y"])
    placed = (kernel(expected["T"], some) @ within - basis.mean) @ found.weights
    assert_axes(placed, expected["nystrom_YT"])


def test_the_linear_kernels_matrix_gives_the_map_of_the_rows():
    expected = oracle("wide")
    X, T, projected = expected["X"], expected["T"], kernel_of(expected["D"])
    rows, left = with_left(X)
    gram, of_gram = of_kernel(X @ X.T)
    one = least_strain(rows, left.T @ projected @ left, 3, 1e-3)
    other = least_strain(gram, of_gram.T @ projected @ of_gram, 3, 1e-3)
    np.testing.assert_allclose(other.eigenvalues, one.eigenvalues, rtol=1e-7)
    assert_axes((T @ X.T - gram.mean) @ other.weights, (T - rows.mean) @ one.weights, 1e-7)


@pytest.mark.parametrize("name", ["wide", "kernel"])
def test_with_as_many_directions_as_there_are_it_is_isomap(name):
    expected = oracle(name)
    if name == "wide":
        basis, left = with_left(expected["X"])
    else:
        basis, left = of_kernel(kernels(expected)["narrow"](expected["X"], expected["X"]))
    assert basis.rank == len(left) - 1
    axes = expected["isomap_Y"].shape[1]
    found = least_strain(basis, left.T @ kernel_of(expected["D"]) @ left, axes)
    np.testing.assert_allclose(found.eigenvalues, expected["isomap_lam"], rtol=1e-10)
    assert_axes(left @ found.turn, expected["isomap_Y"], 1e-10)


def test_csr_rows_are_the_same_rows():
    expected = oracle("wide")
    dense, sparse = with_left(expected["X"])[0], basis_of_rows(sp.csr_array(expected["X"]))
    np.testing.assert_allclose(sparse.spread, dense.spread, rtol=1e-9)
    along = np.abs((sparse.loadings * dense.loadings).sum(axis=0))
    assert along[dense.spread > 1.01 * np.r_[dense.spread[1:], 0]].min() > 1 - 1e-6


def test_many_columns_are_read_for_their_leading_directions(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 60)) * np.geomspace(1, 1e-3, 60) @ np.linalg.qr(rng.normal(size=(60, 60)))[0] + 5
    monkeypatch.setattr(isometric, "MOST_COLUMNS", 10)
    monkeypatch.setattr(isometric, "FEW_ENTRIES", 100)
    monkeypatch.setattr(isometric, "LEADING", 30)
    monkeypatch.setattr(isometric, "PANEL", 1000)
    basis, left = with_left(X)
    expected = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
    assert basis.rank == 20
    np.testing.assert_allclose(basis.spread, expected[:20], rtol=1e-3)
    np.testing.assert_allclose(left.T @ left, np.eye(20), atol=1e-12)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
def test_numbers_rounding_makes_no_direction(kind):
    """Columns that follow from others, on an offset, and rounded to the type that they have."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 16, (300, 20))
    X = np.hstack([X, X @ rng.integers(0, 3, (20, 5))]) / (1 if kind is np.uint8 else 7)
    X = X.astype(float if kind is np.uint8 else kind) + (601 if kind is np.float64 else 0)
    X = X.astype(np.int64) if kind is np.uint8 else X
    assert basis_of_rows(X).rank == 20


@given(st.integers(0, 10**6), st.integers(2, 6), st.floats(1e-6, 1e6))
def test_no_linear_map_strains_less_and_units_do_not_matter(seed, axes, unit):
    rng = np.random.default_rng(seed)
    X, points = rng.normal(size=(40, 6)), rng.normal(size=(40, 3))
    D = cdist(points, points) * (1 + 0.1 * rng.random())
    projected = kernel_of(D)
    basis, left = with_left(X * unit)
    found = least_strain(basis, left.T @ projected @ left, axes)
    Y = left @ found.turn
    np.testing.assert_allclose(Y, (X * unit - basis.mean) @ found.weights, atol=1e-8 * np.abs(Y).max())
    best = ((projected - Y @ Y.T) ** 2).sum()
    for _ in range(5):
        weights = found.weights + 1e-3 * rng.normal(size=found.weights.shape) * np.abs(found.weights).max()
        other = (X * unit - basis.mean) @ weights
        assert ((projected - other @ other.T) ** 2).sum() >= best * (1 - 1e-12)
    own = np.linalg.eigvalsh(projected)[::-1]
    assert (found.eigenvalues <= own[:axes] + 1e-9 * own[0]).all()
