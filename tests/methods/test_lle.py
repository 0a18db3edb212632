"""Locally linear embedding through a store, against the dense reference's arrays and scikit-learn's.

Of the oracles' arrays, local Gram matrices and distances in feature spaces are no part of a run:
tests/embedding/test_reconstruction.py compares them.

Landmarks make another map, not a nearer look at the full one. Of 1,500 points of a roll, k = 10, the sine of the
largest angle between both planes, and the share of the true sheet's variance that no affine map of the axes explains:

    landmarks       50     100    200    500    1000   1500   none
    sine            1.00   1.00   1.00   0.98   0.88   0      0
    sheet's rest    0.88   0.89   0.88   0.001  0.017  0.051  0.051
"""

from pathlib import Path
from types import SimpleNamespace

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import flat, ring, roll
from sklearn.manifold import LocallyLinearEmbedding
from sklearn.svm import SVC

from scalemani import LLE, choose_kernel, load
from scalemani.embedding import reconstruction
from scalemani.embedding.kernel_functions import Kernel, local_grams
from scalemani.errors import (
    DisconnectedGraphError,
    DoesNotFitError,
    OutOfReachWarning,
    ScalemaniError,
    ScalemaniWarning,
    StoreMismatchError,
)
from scalemani.integrity import verify
from scalemani.methods.words import landmark_rows_of
from scalemani.neighbors.choice import SearchStrategy, choose_search
from scalemani.steps import pairs, weights
from scalemani.steps.inputs import KernelInput
from scalemani.steps.listed import KernelSearch

NEAR_CHANCE = "ignore:the next eigenvalue"
ORACLES = Path(__file__).parent.parent / "oracles"
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly_2_0.001": {"kernel": "poly", "degree": 2, "coef0": 0.001},
    "poly_3_1": {"kernel": "poly", "degree": 3, "coef0": 1},
    "rbf_3": {"kernel": "rbf", "gamma": 3.0},
}
ROLL, NEW = roll(300), roll(25, seed=1)


def oracle(name):
    return {key.removeprefix(f"{name}_"): value for key, value in np.load(ORACLES / "lle.npz").items() if name in key}


def assert_close(found, expected, tol=1e-6):
    """But for signs, to a share of the largest number."""
    signs = np.sign((found * expected).sum(axis=0))
    assert np.abs(found * signs - expected).max() <= tol * np.abs(expected).max()


def sine(one, other):
    """Of the largest angle between two subspaces of centred columns."""
    one, other = (np.linalg.qr(axes - axes.mean(axis=0))[0] for axes in (one, other))
    return np.linalg.norm(other - one @ (one.T @ other), 2)


def sheet(X):
    """Where points of a roll are on its sheet."""
    t = np.hypot(X[:, 0], X[:, 2])
    return np.column_stack([(t * np.sqrt(1 + t * t) + np.arcsinh(t)) / 2, X[:, 1]])


def rest(Y, S):
    """Share of S that no affine map of Y explains."""
    Y, S = Y - Y.mean(axis=0), S - S.mean(axis=0)
    return ((S - Y @ np.linalg.lstsq(Y, S, rcond=None)[0]) ** 2).sum() / (S**2).sum()


def by_point(model):
    """Neighbours (n, k) of the rows of X, nearest first, and W (n, n), of a store whose rows are all distinct."""
    store, n = model._run.store, model.embedding_.shape[0]
    lists, order = store.read_array("neighbors_indices").reshape(n, -1), store.read_array("order")
    W = np.zeros((n, n))
    found = (sp.eye_array(n) - pairs.residuals(store)).tocoo()
    W[order[found.row], order[found.col]] = found.data
    return lists, W


def blobs(apart=20.0):
    """Two blobs of 30 points with two points between, whose lists lead to either: one component, two closed classes."""
    rng = np.random.default_rng(0)
    between = np.array([[0.4 * apart, 0, 0], [0.6 * apart, 0, 0]])
    return np.vstack([rng.normal(size=(30, 3)), rng.normal(size=(30, 3)) + [apart, 0, 0], between])


# ---- oracles -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("name", ["scurve", "gauss10"])
def test_a_map_is_the_references(name, tmp_path):
    expected = oracle(name)
    X, k = expected["X"], int(expected["k"])
    made = LLE(k, 3, reg=float(expected["reg"]), store=tmp_path / "run").fit(X)
    model = load(made.store_)
    lists, W = by_point(model)
    np.testing.assert_array_equal(lists, expected["idx"])
    assert_close(np.take_along_axis(W, lists, axis=1), expected["weights"], 1e-9)
    values = np.array(model.spectrum_["eigenvalues"])
    np.testing.assert_allclose(values, expected["eigenvalues"][1:4], rtol=1e-9)
    assert model.spectrum_["next_eigenvalue"] == pytest.approx(expected["eigenvalues"][4], rel=1e-9)
    assert values.sum() == pytest.approx(expected["sklearn_error"], rel=1e-6)
    assert_close(model.embedding_, expected["embedding"])
    assert_close(model.embedding_ / np.sqrt(len(X)), expected["V"])
    assert_close(model.transform(expected["T"]), expected["T_embedding"])
    assert sine(model.embedding_, expected["sklearn_embedding"]) < 1e-6
    np.testing.assert_allclose(model.embedding_.T @ model.embedding_, len(X) * np.eye(3), atol=1e-9 * len(X))


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("name", ["scurve", "gauss10"])
def test_new_rows_have_the_references_neighbours_and_weights(name):
    expected = oracle(name)
    X, T, idx = expected["X"], expected["T"], expected["T_idx"]
    model = LLE(int(expected["k"]), 3).fit(X)
    placed = np.einsum("lk,lkp->lp", expected["T_weights"], model.embedding_[idx])
    assert_close(model.transform(T), placed, 1e-9)
    assert_close(reconstruction.weights_of(local_grams(X, T, idx)), expected["T_weights"], 1e-9)


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("name", ["scurve", "gauss10"])
def test_a_ridge_of_a_millionth_is_the_references_where_eigenvalues_are_rounding_of_a_square(name):
    expected = oracle(name)
    found = LLE(int(expected["k"]), 10, reg=1e-6).fit(expected["X"]).spectrum_["eigenvalues"]
    np.testing.assert_allclose(found, expected["eigenvalues_reg1e-6"][1:11], rtol=1e-6)


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("name", ["scurve", "gauss10"])
def test_all_axes_of_the_kernels_scale_are_the_pseudo_inverse(name):
    expected = oracle(name)
    n, k = len(expected["X"]), int(expected["k"])
    model = LLE(k, n - 1, scale="kernel").fit(expected["X"])
    values = np.array(model.spectrum_["eigenvalues"])
    np.testing.assert_allclose(1 / values[:5], expected["Mplus_top_eigenvalues"], rtol=1e-9)
    assert values[-1] == pytest.approx(expected["largest"], rel=1e-9) and model.spectrum_["next_eigenvalue"] is None
    np.testing.assert_allclose((model.embedding_**2).sum(axis=0), 1 / values, rtol=1e-9)
    rows = model.embedding_[:3] @ model.embedding_.T
    # The reference's own rows are right to about 1e-6.
    assert np.abs(rows - expected["Mplus_first_rows"]).max() < 1e-5 * np.abs(expected["Mplus_first_rows"]).max()


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("name", KERNELS)
def test_a_map_of_a_kernels_features_is_the_references(name):
    given = np.load(ORACLES / "klle.npz")
    expected = {key.removeprefix(f"{name}_"): value for key, value in given.items() if key.startswith(name)}
    X, T, y, k = given["X"], given["T"], given["y"], int(given["k"])
    model = LLE(k, 2, reg=float(given["reg"]), **KERNELS[name]).fit(X)
    lists, W = by_point(model)
    np.testing.assert_array_equal(lists, expected["idx"])  # Euclidean ones, by a kernel of rows of one length
    assert_close(np.take_along_axis(W, lists, axis=1), expected["weights"], 1e-9)
    np.testing.assert_allclose(model.spectrum_["eigenvalues"], expected["eigenvalues"][1:3], rtol=1e-9)
    assert_close(model.embedding_, expected["embedding"])
    assert_close(model.embedding_ / np.sqrt(len(X)), expected["V"])
    placed = model.transform(T)
    assert_close(placed, expected["T_embedding"])
    separated = SVC(kernel="linear", C=float(given["C"])).fit(model.embedding_, y)
    assert abs((separated.predict(model.embedding_) != y).sum() - expected["svm_errors"]) <= 1
    assert abs((separated.predict(placed) != given["T_y"]).sum() - expected["svm_errors_T"]) <= 1


def test_the_linear_kernel_is_none():
    plain, linear = (LLE(8, 2, kernel=kernel).fit(ROLL) for kernel in (None, "linear"))
    np.testing.assert_array_equal(linear.embedding_, plain.embedding_)
    np.testing.assert_array_equal(linear.transform(NEW), plain.transform(NEW))


def test_a_wide_gaussian_kernel_is_nearly_linear():
    plain, wide = (LLE(8, 2, **given).fit(ROLL) for given in ({}, {"kernel": "rbf", "gamma": 1e-12}))
    assert sine(wide.embedding_, plain.embedding_) < 1e-4
    assert LLE(8, 2, kernel="rbf").fit(ROLL).spectrum_["gamma"] > 0


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("X", [ROLL, flat(250, 4) * [1, 2, 3, 4]], ids=["roll", "box"])
def test_scikit_learns_plane_is_the_same(X):
    theirs = LocallyLinearEmbedding(n_neighbors=9, n_components=2, eigen_solver="dense").fit(X)
    model = LLE(9, 2).fit(X)
    assert sine(model.embedding_, theirs.embedding_) < 1e-6
    assert sum(model.spectrum_["eigenvalues"]) == pytest.approx(theirs.reconstruction_error_, rel=1e-6)


# ---- rows and their forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"kernel": "rbf"}, {"landmarks": 60}], ids=["plain", "kernel", "landmarks"])
@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_rows_one_by_one_have_the_bits_of_their_batch(as_given, given):
    X, T = (np.where(np.abs(rows) < 0.5, 0.0, rows) for rows in (ROLL, NEW))
    model = LLE(8, 2, **given).fit(as_given(X))
    placed = model.transform(as_given(T))
    alone = [model.transform(as_given(T[row : row + 1])) for row in range(len(T))]
    np.testing.assert_array_equal(np.concatenate(alone), placed)
    assert np.isfinite(placed).all()
    if not given.get("landmarks"):
        np.testing.assert_array_equal(model.transform(as_given(X)), model.embedding_)


@pytest.mark.parametrize("given", [{}, {"landmarks": 60}], ids=["plain", "landmarks"])
@pytest.mark.parametrize(
    "as_given",
    [
        lambda X: X.astype(np.float32),
        np.asfortranarray,
        lambda X: da.from_array(X, chunks=(70, 2)),
        lambda X: zarr.array(X, chunks=(70, 3)),
        sp.csr_array,
    ],
    ids=["float32", "fortran", "dask", "zarr", "csr"],
)
def test_every_form_of_rows_has_one_map(as_given, given):
    X = ROLL.astype(np.float32).astype(np.float64)
    expected, found = (LLE(8, 2, **given).fit(rows) for rows in (X, as_given(X)))
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)
    T = NEW.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(np.asarray(found.transform(as_given(T))), expected.transform(T))


def test_new_rows_spread_as_training_rows_do():
    placed = LLE(8, 2).fit(roll(600)).transform(roll(300, seed=1))
    np.testing.assert_allclose(placed.std(axis=0), 1, atol=0.1)


def test_twins_are_one_point():
    model, again = LLE(8, 2).fit(ROLL), LLE(8, 2).fit(np.vstack([ROLL, ROLL[:9]]))
    np.testing.assert_array_equal(again.embedding_[300:], again.embedding_[:9])
    np.testing.assert_array_equal(again.embedding_[:300], model.embedding_)


# ---- closed classes ----------------------------------------------------------------------------------


def test_lists_that_lead_into_two_classes_are_refused_though_the_graph_is_connected():
    message = r"lead into 2 closed sets of points \(sizes \d+, \d+\).*disconnected='largest'"
    with pytest.raises(DisconnectedGraphError, match=message) as caught:
        LLE(8, 2).fit(blobs())
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("error")
def test_the_largest_class_is_kept_with_what_leads_into_it_alone():
    X = blobs()
    model = LLE(8, 2, disconnected="largest").fit(X)
    kept = model.kept_
    assert set(kept) in ({*range(30)}, {*range(30, 60)})
    assert np.isnan(np.delete(model.embedding_, kept, axis=0)).all() and np.isfinite(model.embedding_[kept]).all()
    alone = LLE(8, 2).fit(X[kept])
    assert sine(model.embedding_[kept], alone.embedding_) < 1e-9
    assert min(model.spectrum_["eigenvalues"]) > 1e-12  # a second null vector would be 1e-30
    assert np.isfinite(model.transform(X[kept] + 0.01)).all()


def test_a_second_component_is_left_out():
    far = ROLL[:40] + 1000
    model = LLE(8, 2, disconnected="largest").fit(np.vstack([far, ROLL]))
    np.testing.assert_array_equal(model.kept_, np.arange(40, 340))
    assert np.isnan(model.embedding_[:40]).all()
    assert sine(model.embedding_[40:], LLE(8, 2).fit(ROLL).embedding_) < 1e-9
    with pytest.raises(DisconnectedGraphError, match="2 components") as caught:
        LLE(8, 2).fit(np.vstack([far, ROLL]))
    assert "'join'" not in str(caught.value) and "disconnected='largest'" in str(caught.value)


def test_a_small_closed_class_is_warned_of():
    rng = np.random.default_rng(0)
    tight, chain = rng.normal(size=(12, 2)), np.column_stack([100 * 1.3 ** np.arange(30), np.zeros(30)])
    X = np.vstack([tight * 0.01, chain + rng.normal(size=(30, 2))])
    with pytest.warns(ScalemaniWarning, match="no neighbour list leads out of 12 of the 42 points"):
        LLE(5, 2).fit(X)


def test_axes_that_are_chance_are_warned_of():
    """A ring has its eigenvalues in pairs, and one axis is asked for."""
    with pytest.warns(ScalemaniWarning, match="which of the two is shown is chance") as said:
        model = LLE(4, 1).fit(ring(80))
    assert model.spectrum_["warnings"] == [str(said[0].message)]
    assert model.spectrum_["next_eigenvalue"] < 1.1 * model.spectrum_["eigenvalues"][0]


# ---- landmarks ---------------------------------------------------------------------------------------


def test_all_points_as_landmarks_are_the_full_map():
    full, some = LLE(8, 2).fit(ROLL), LLE(8, 2, landmarks=300).fit(ROLL)
    assert sine(some.embedding_, full.embedding_) < 1e-6
    np.testing.assert_allclose(some.spectrum_["eigenvalues"], full.spectrum_["eigenvalues"], rtol=1e-6)


@pytest.mark.parametrize("scale", ["whitened", "kernel"])
def test_landmarks_make_a_smoother_map(scale):
    """A third of the points; see the table above."""
    X = roll(1500)
    model = LLE(10, 2, landmarks=500, scale=scale).fit(X)
    assert rest(model.embedding_, sheet(X)) < 0.01 and model.spectrum_["n_landmarks"] == 500
    sizes = (model.embedding_**2).mean(axis=0)
    expected = 1.0 if scale == "whitened" else 1 / np.array(model.spectrum_["eigenvalues"]) / len(X)
    np.testing.assert_allclose(sizes, expected, rtol=1e-6)
    assert rest(model.transform(roll(300, seed=1)), sheet(roll(300, seed=1))) < 0.01


def test_no_distances_to_landmarks_are_told_of():
    """There are none."""
    model = LLE(8, 2, landmarks=60).fit(ROLL)
    assert [name for name, _ in landmark_rows_of(model.spectrum_)] == ["landmarks"]


def test_named_landmarks_lie_where_they_are_placed():
    chosen = np.arange(0, 300, 4)
    model = LLE(8, 2, landmarks=chosen).fit(ROLL)
    np.testing.assert_allclose(model.transform(ROLL[chosen]), model.embedding_[chosen], atol=1e-9)
    np.testing.assert_array_equal(np.sort(model.landmarks_), chosen)
    assert LLE(8, 2).fit(ROLL).landmarks_ is None and len(LLE(8, 2, landmarks=60).fit(ROLL).landmarks_) == 60


# ---- the plan, and what is refused ---------------------------------------------------------------------


def test_a_plan_tells_of_the_factor(quick_calibration):
    plan = LLE(8, 2).plan(ROLL)
    assert "factor           about" in str(plan) and "million nonzeros" in str(plan)
    assert plan.memory["pairs"]["factor"] > 0 and plan.refusal is None
    assert "factor" not in str(LLE(8, 2, landmarks=60).plan(ROLL))


def test_a_factor_that_does_not_fit_is_refused_with_landmarks_named(tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "BYTES", 3000)  # of a nonzero: some 400 MB in all
    with pytest.raises(DoesNotFitError, match=r"for factor\).*landmarks=1000, for which no factor is made") as caught:
        LLE(8, 2, memory_limit="200MB", store=tmp_path / "run").fit(ROLL)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())
    LLE(8, 2, memory_limit="200MB", landmarks=60, store=tmp_path / "run").fit(ROLL)


def test_a_task_holds_what_the_plan_says(monkeypatch):
    """Of more neighbours than features, whose Gram matrices are larger than their rows."""
    assert weights.entries_of(20, 3) == 400 and weights.entries_of(5, 100) == 500
    seen, whole = [], weights.PointLists.weights

    def watched(self, rows, start, stop):
        seen.append(stop - start)
        return whole(self, rows, start, stop)

    expected = LLE(8, 2).fit(ROLL).embedding_
    monkeypatch.setattr(weights, "ENTRIES", 8 * 8 * 40)
    monkeypatch.setattr(weights.PointLists, "weights", watched)
    np.testing.assert_array_equal(LLE(8, 2).fit(ROLL).embedding_, expected)
    assert sum(seen) == 300 and max(seen) == 40


SOME = np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "rfb"}, "kernel='rfb': did you mean 'rbf'"),
        ({"kernel": "sigmoid"}, "allowed are 'linear', 'rbf', 'poly', 'precomputed', None or a function of two"),
        ({"scale": "whitend"}, "scale='whitend': did you mean 'whitened'"),
        ({"reg": -1}, "reg=-1: a number from 0 on"),
        ({"reg": float("nan")}, "reg=nan"),
        ({"reg": 0}, "reg=0 with n_neighbors=5 and 4 features"),
        ({"kernel": "rbf", "gamma": 0}, "gamma=0: a positive number"),
        ({"kernel": "rbf", "gamma": -2.0}, r"gamma=-2.0: a positive number"),
        ({"gamma": 2.0}, "gamma=2.0 with kernel=None"),
        ({"kernel": "linear", "gamma": 2.0}, "gamma=2.0 with kernel='linear'"),
        ({"kernel": "poly", "degree": 0}, "degree=0: a positive number"),
        ({"kernel": "poly", "coef0": -1}, "coef0=-1"),
        ({"n_neighbors": None, "radius": 1.0}, "radius=1.0: lists of one length are needed; give n_neighbors"),
        ({"disconnected": "join"}, "disconnected='join': bridges are in no neighbour list"),
        ({"metric": "precomputed"}, "metric='precomputed': X holds distances, and weights are found from rows"),
        ({"metric": "geodesic"}, "metric='geodesic': X holds distances"),
        ({"n_neighbors": 60}, "n_neighbors=60 needs at least 61 distinct rows"),
        ({"n_components": 60}, "n_components=60 needs at least 61 distinct rows"),
        ({"n_components": 3, "landmarks": 3}, "3 landmarks: n_components=3 needs at least 4"),
        ({"kernel": "rbf", "landmarks": 20}, "kernel='rbf' with landmarks"),
    ],
)
def test_what_can_not_be_meant_is_refused_in_one_line_before_any_file(given, message, tmp_path):
    X = np.abs(np.subtract.outer(SOME[:, 0], SOME[:, 0])) if given.get("metric") else SOME
    with pytest.raises(ScalemaniError, match=message) as caught:
        LLE(**{"n_neighbors": 5, "store": tmp_path / "run", **given}).fit(X)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_polynomial_kernel_has_neighbours_of_its_own_where_rows_have_several_lengths(kind, tmp_path):
    """All pairs by a dense kernel matrix: neighbours, weights, and the axes as singular vectors."""
    X = np.random.default_rng(0).standard_normal((200, 3)) + [3, 0, 0]
    model = LLE(12, kernel="poly", degree=2, coef0=1, store=tmp_path / "run").fit(kind(X))
    K = (X @ X.T + 1) ** 2
    squares = np.diag(K)[:, None] + np.diag(K) - 2 * K
    np.fill_diagonal(squares, np.inf)
    idx, W = np.argsort(squares, axis=1)[:, :12], np.zeros((200, 200))
    for i, near in enumerate(idx):
        C = K[i, i] - K[i, near][:, None] - K[i, near] + K[np.ix_(near, near)]
        w = np.linalg.solve(C + 1e-3 * np.trace(C) * np.eye(12), np.ones(12))
        W[i, near] = w / w.sum()
    _, sigma, V = np.linalg.svd(np.eye(200) - W)
    np.testing.assert_allclose(model.spectrum_["eigenvalues"], sigma[[-2, -3]] ** 2, rtol=1e-6)
    expected = V[[-2, -3]].T * 200**0.5
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(expected), atol=1e-5)
    T = X[:9] + 0.01
    placed = model.transform(kind(T))
    assert all(np.array_equal(load(tmp_path / "run").transform(kind(T[i : i + 1]))[0], placed[i]) for i in range(9))


def test_weights_that_nothing_determines_are_refused():
    X = SOME @ np.diag([1, 1, 0, 0])
    with pytest.raises(ScalemaniError, match="reg=0: a row has neighbours that rebuild it with many weights"):
        LLE(4, 2, reg=0).fit(X)


def test_kernel_values_that_overflow_are_refused():
    with pytest.raises(
        ScalemaniError, match="kernel='poly': values on these rows are not finite; give a smaller degree"
    ):
        LLE(5, 2, kernel="poly", degree=2000).fit(SOME / np.linalg.norm(SOME, axis=1)[:, None])


def test_a_row_alone_is_left_out_or_told_of():
    with pytest.raises(DisconnectedGraphError, match="components"):
        LLE(5, 2, graph="mutual").fit(np.vstack([SOME, [[50.0] * 4]]))
    model = LLE(5, 2, graph="mutual", disconnected="largest").fit(np.vstack([SOME, [[50.0] * 4]]))
    assert 60 not in model.kept_ and np.isnan(model.embedding_[60]).all()


# ---- given kernel values, and kernel functions ---------------------------------------------------------


def linear(x, y):
    return x @ y.T


def poly(x, y):
    return (x @ y.T + 1.0) ** 2


def rbf(x, y):
    return np.exp(-0.3 * ((x[:, None] - y) ** 2).sum(axis=2))


SHEET, BESIDE = ROLL / 8, NEW / 8
BUILT_IN = {
    linear: {"kernel": "linear"},
    poly: {"kernel": "poly", "degree": 2, "coef0": 1},
    rbf: {"kernel": "rbf", "gamma": 0.3},
}


def with_own(kernel, new, rows):
    """K(t, x), and K(t, t) in one more column."""
    return np.column_stack([kernel(new, rows), np.diagonal(kernel(new, new))])


@pytest.fixture(scope="module", params=BUILT_IN, ids=lambda kernel: kernel.__name__)
def both(request):
    """A kernel, and the fit by its name."""
    return request.param, LLE(8, 2, **BUILT_IN[request.param]).fit(SHEET)


def test_given_kernel_values_make_the_map_of_their_kernel(both, tmp_path):
    kernel, expected = both
    LLE(8, 2, kernel="precomputed", store=tmp_path / "run").fit(kernel(SHEET, SHEET))
    model = load(tmp_path / "run")
    assert np.array_equal(by_point(model)[0], by_point(expected)[0])
    assert_close(by_point(model)[1], by_point(expected)[1], 1e-9)
    np.testing.assert_allclose(model.spectrum_["eigenvalues"], expected.spectrum_["eigenvalues"], rtol=1e-6)
    signs = np.sign((model.embedding_ * expected.embedding_).sum(axis=0))
    np.testing.assert_allclose(model.embedding_ * signs, expected.embedding_, atol=1e-6)
    T = with_own(kernel, BESIDE, SHEET)
    placed = model.transform(T)
    np.testing.assert_allclose(placed * signs, expected.transform(BESIDE), atol=1e-6)
    np.testing.assert_array_equal(np.asarray(model.transform(da.from_array(T, chunks=(4, 50)))), placed)
    assert all(np.array_equal(model.transform(T[i : i + 1])[0], placed[i]) for i in range(len(T)))
    np.testing.assert_array_equal(model.transform(kernel(SHEET, SHEET)), model.embedding_)
    assert model.transform(T[:0]).shape == (0, 2) and not verify(str(tmp_path / "run")).faults


def test_a_rows_value_to_itself_is_known_or_asked_for():
    """It is in the ridge of the row's weights: of a Gaussian kernel it is 1, of others it is the user's to say."""
    gaussian, other = (LLE(8, 2, kernel="precomputed").fit(kernel(SHEET, SHEET)) for kernel in (rbf, poly))
    T = with_own(rbf, BESIDE, SHEET)
    np.testing.assert_array_equal(gaussian.transform(T[:, :-1]), gaussian.transform(T))
    message = r"kernel values of row 3 to 300 .* not that to itself.* give K\(t, t\) in one more column, the last$"
    with pytest.raises(ScalemaniError, match=message):
        other.transform(np.vstack([poly(SHEET[:3], SHEET), poly(BESIDE, SHEET)]))
    with pytest.raises(ScalemaniError, match=r"larger than the mean of .* no kernel's is"):
        gaussian.transform(3 * T[:, :-1])
    with pytest.raises(ScalemaniError, match=r"X has 302 features, .* expecting 300 features as input \(or 301\)"):
        other.transform(np.ones((2, 302)))


def test_a_kernel_function_makes_the_map_of_its_name(both, tmp_path):
    kernel, expected = both
    LLE(8, 2, kernel=kernel, store=tmp_path / "run").fit(SHEET)
    model = load(tmp_path / "run")
    assert model.kernel is kernel and kernel.__name__ in model._run.method.words.title(model.spectrum_, "")
    assert_close(by_point(model)[1], by_point(expected)[1], 1e-9)
    assert_close(model.embedding_, expected.embedding_)
    placed = model.transform(BESIDE)
    assert_close(placed, expected.transform(BESIDE))
    assert all(np.array_equal(model.transform(BESIDE[i : i + 1])[0], placed[i]) for i in range(len(placed)))
    with pytest.raises(StoreMismatchError):
        LLE(8, 2, kernel=lambda x, y: 2 * kernel(x, y), store=tmp_path / "run").fit(SHEET)


def test_a_kernels_neighbours_are_no_work_for_an_index():
    """However many rows there are: NN-descent knows no such distances."""
    many = SimpleNamespace(n_rows=10**6, prepared=SimpleNamespace(width=100, count=10**6), low=False, method="brute")
    for search in (KernelSearch(SHEET, Kernel("poly"), None), KernelInput(VALUES)._search):
        many.form, many.rows = search.form, SHEET
        assert choose_search(many, "auto", 8, 0, None).strategy == SearchStrategy.EXACT


def test_a_kernel_function_is_given_dense_rows():
    X = np.where(np.abs(SHEET) < 0.1, 0.0, SHEET)
    dense, sparse = LLE(8, 2, kernel=poly).fit(X), LLE(8, 2, kernel=poly).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.embedding_, dense.embedding_)
    np.testing.assert_array_equal(sparse.transform(sp.csr_array(BESIDE)), dense.transform(BESIDE))


class Counting:
    calls = 0

    def __call__(self, x, y):
        self.calls += 1
        return x @ y.T


VALUES = rbf(SHEET, SHEET)


@pytest.mark.parametrize(
    ("X", "given", "message"),
    [
        (SHEET, {"kernel": lambda x, y: x @ y.T + np.arange(len(x))[:, None]}, "is not symmetric"),
        (SHEET, {"kernel": lambda x, y: (x - x.mean(axis=0)) @ (y - x.mean(axis=0)).T}, "in other blocks"),
        (SHEET, {"kernel": lambda x, y: -(x @ y.T)}, "moduli are negative on 200 rows, so it is no kernel"),
        (SHEET, {"kernel": lambda x, y: x @ y.T + np.inf}, "gives values that are not finite"),
        (SHEET, {"kernel": lambda x, y: float(x[0] @ y[0])}, r"of shape \(\) for 200 and 200 rows"),
        (SHEET, {"kernel": lambda x, y: linear(x, y).astype(np.float32)}, "gives float32 .*float64 numbers"),
        (SHEET, {"kernel": Counting()}, "changes what it uses when it is called"),
        (SHEET, {"kernel": linear, "gamma": 2.0}, "gamma=2.0 with kernel=.*it is for other kernels"),
        (SHEET, {"kernel": linear, "metric": "cosine"}, "metric='cosine' with kernel="),
        (SHEET, {"kernel": linear, "knn": "nndescent"}, "knn='nndescent' with kernel=.*use 'exact' or 'auto'"),
        (SHEET, {"kernel": linear, "landmarks": 20}, "kernel=.* with landmarks"),
        (SHEET, {"kernel": "precomputed"}, r"shape \(300, 3\); values of all pairs"),
        (sp.csr_array(VALUES), {"kernel": "precomputed"}, "X is sparse"),
        (VALUES + np.triu(VALUES, 1), {"kernel": "precomputed"}, "is not symmetric"),
        (1 - VALUES, {"kernel": "precomputed"}, "larger than the mean of the two on the diagonal"),
        (np.tanh(3 * linear(SHEET, SHEET) - 1) + 2 * np.eye(300), {"kernel": "precomputed"}, "so it is no kernel"),
        (VALUES, {"kernel": "precomputed", "metric": "cosine"}, "metric='cosine' with kernel='precomputed'"),
        (VALUES, {"kernel": "precomputed", "landmarks": 20}, "kernel='precomputed' with landmarks"),
        (SHEET + 1e7, {"kernel": "poly"}, "kernel='poly': .*rounding is a share .* columns have mean 0"),
        (SHEET + 1e7, {"kernel": poly}, "kernel='poly': .*rounding is a share .* columns have mean 0"),
        (poly(SHEET + 1e5, SHEET + 1e5), {"kernel": "precomputed"}, "rounding is a share .*: make K of rows"),
    ],
)
def test_what_is_no_kernel_is_refused_in_one_line_before_any_file(X, given, message, tmp_path):
    with pytest.raises(ScalemaniError, match=message) as caught:
        LLE(**{"n_neighbors": 5, "store": tmp_path / "run", **given}).fit(X)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_values_that_only_a_kernels_differences_have_are_taken():
    """-|x - y|² is none by itself; squared distances and weights are those of the rows."""

    def squares(x, y):
        return -((x[:, None] - y) ** 2).sum(axis=2)

    assert_close(by_point(LLE(8, 2, kernel=squares).fit(SHEET))[1], by_point(LLE(8, 2).fit(SHEET))[1], 1e-9)
    LLE(8, 2, kernel="poly").fit(SHEET + 10)  # digits enough


@pytest.mark.filterwarnings("ignore:no neighbour list leads out", NEAR_CHANCE)
def test_rows_beyond_the_reach_of_a_kernel_are_told_of():
    far = BESIDE[:2] + 100
    for model, T in (
        (LLE(8, 2, kernel=rbf).fit(SHEET), far),
        (LLE(8, 2, kernel="precomputed").fit(rbf(SHEET, SHEET)), rbf(far, SHEET)),
    ):
        with pytest.warns(OutOfReachWarning, match="2 of 2 rows .* away from all training rows"):
            model.transform(T)
    with pytest.warns(ScalemaniWarning, match="which points are neighbours is chance; give a wider kernel"):
        LLE(8, 2, kernel=lambda x, y: rbf(1e3 * x, 1e3 * y), disconnected="largest").fit(SHEET[:60])


def test_kernels_are_chosen_among_functions():
    y = np.arange(300) % 2
    choice = choose_kernel(SHEET, y, [poly, "linear"], 8, folds=2)
    assert [one.name for one in choice.tried] == ["poly", "linear"] and "poly" in str(choice)
    with pytest.raises(ScalemaniError, match="kernel='precomputed': kernels are tried on rows of features"):
        choose_kernel(SHEET, y, {"kernel": "precomputed"})
