"""What went wrong once in methods that read neighbours and no distances, each with its right value."""

import re
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from data import ring, roll

from scalemani import LLE, LaplacianEigenmaps, StressIsomap
from scalemani.embedding.reconstruction import reconstruction
from scalemani.errors import OutOfReachWarning, ScalemaniError, ScalemaniWarning, SolverError, StoreMismatchError
from scalemani.integrity import repair, verify
from scalemani.projection import long

pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")
X = roll(300)


def damage(path, name):
    file = next(file for file in (path / name / "c").rglob("*") if file.is_file())
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)


def heavy_tails():
    """Lists that lead into a class of 7 of 600 points."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 8))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return rows * np.exp(1.5 * rng.normal(size=(600, 1)))


def test_a_small_closed_class_has_the_axes_of_a_dense_svd(tmp_path):
    with pytest.warns(ScalemaniWarning, match="leads out of 7 of the 600 points"):
        model = LLE(n_neighbors=5, store=tmp_path / "run").fit(heavy_tails())
    parts = (model._run.store.read_array(f"weights_{name}") for name in ("indptr", "indices", "values"))
    sigma = np.linalg.svd(reconstruction(*parts).toarray(), compute_uv=False)
    np.testing.assert_allclose(model.spectrum_["eigenvalues"], sigma[[-2, -3]] ** 2, rtol=1e-6)


@pytest.mark.parametrize("given", [{}, {"landmarks": 40}, {"landmarks": 40, "normalized": True}])
def test_weights_that_are_lost_beside_others_are_refused(given):
    rng = np.random.default_rng(0)
    blobs = np.r_[rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) + [11, 0]]
    with pytest.raises(SolverError, match=r"use (weights=)?'?binary"):
        LaplacianEigenmaps(disconnected="join", weights="gaussian", n_neighbors=8, **given).fit(blobs)


def test_another_kernel_does_not_take_the_lists_of_the_one_before(tmp_path):
    for first, then in (({}, {"kernel": "poly", "degree": 5}), ({"kernel": "poly", "degree": 2}, {})):
        LLE(store=tmp_path / "run", overwrite=True, **first).fit(X)
        with pytest.raises(StoreMismatchError):
            LLE(store=tmp_path / "run", **then).fit(X)


def test_a_polynomial_of_even_degree_has_neighbours_of_its_own_on_rows_of_one_length():
    """u and -u are one point in its features."""
    U = np.random.default_rng(0).normal(size=(300, 3))
    U /= np.linalg.norm(U, axis=1)[:, None]
    assert LLE(kernel="poly", degree=2, coef0=0.0).fit(U).spectrum_["knn_method"] == "brute"
    assert LLE(kernel="poly", degree=3, coef0=0.0).fit(U).spectrum_["knn_method"] == "kdtree"


def test_other_weights_need_no_neighbour_lists(tmp_path):
    expected = LLE(reg=1e-2).fit(X).embedding_
    first = LLE(store=tmp_path / "run").fit(X)
    damage(tmp_path / "run", "neighbors_indices")
    repair(str(tmp_path / "run"))
    first.export(tmp_path / "copy")
    for name in ("run", "copy"):
        assert np.array_equal(LLE(store=tmp_path / name, reg=1e-2).fit(X).embedding_, expected)
    for name in ("neighbors_indices", "weights_indices"):
        if (tmp_path / "run" / name).exists():
            damage(tmp_path / "run", name)
    repair(str(tmp_path / "run"))
    assert np.array_equal(LLE(store=tmp_path / "run", reg=1e-2).fit(X).embedding_, expected)
    assert not verify(str(tmp_path / "run")).damaged


def test_powers_of_eigenvalues_that_are_no_lengths_are_refused_with_what_helps():
    few, all_pairs = np.random.default_rng(0).normal(size=(12, 3)), sp.csr_array(1.0 - np.eye(8))
    many = {"n_neighbors": 5, "n_components": 2, "alpha": 1}
    graph = {"metric": "precomputed", "alpha": 0}
    for X, given, message in (
        (
            ring(40),
            {"n_neighbors": 2, "n_components": 39, "alpha": 0, "time": 0.5},
            r"time=0.5: eigenvalue -0\.\S+ of axis \d+ is negative.*give a whole time, or ask",
        ),
        (few, {**many, "time": 1e6}, r"time=1000000: eigenvalue 0\.\d+ of axis 2 .* as good as 0"),
        (all_pairs, graph, r"time=1: eigenvalue \S+ of axis 1 is rounding of 0; give other neighbours"),
    ):
        with pytest.raises(ScalemaniError, match=message) as caught:
            LaplacianEigenmaps(**given).fit(X)
        assert "\n" not in str(caught.value)
        if "give a time of" in str(caught.value):
            most = float(str(caught.value).split()[-3])
            model = LaplacianEigenmaps(**{**given, "time": most}).fit(X)
            assert (model.embedding_**2).max(axis=0).min() > 0
    still = LaplacianEigenmaps(**{**many, "time": 0}).fit(few)
    assert np.isfinite(still.embedding_).all() and np.ptp(still.embedding_, axis=0).min() > 0.1
    assert np.isfinite(LaplacianEigenmaps(**graph, time=0).fit(all_pairs).embedding_).all()


@pytest.mark.parametrize("given", [{"reg": 1e-15}, {"reg": 1e-9, "landmarks": 300}])
def test_axes_that_are_rounding_are_refused(given):
    with pytest.raises(SolverError, match="larger reg"):
        LLE(**given).fit(X)


def test_small_things():
    with pytest.raises(ScalemaniError, match=r"shapes \(2,\) and \(3,\)"):
        LaplacianEigenmaps().fit(X).commute_times([0, 1], [1, 2, 3])
    with pytest.raises(ScalemaniError, match="normalized='no': True or False"):
        LaplacianEigenmaps(normalized="no").fit(X)
    with pytest.raises(ScalemaniError, match="metric='cosine' with kernel='poly'"):
        LLE(kernel="poly", metric="cosine").fit(X)
    sparse = sp.random(300, 50, density=0.2, random_state=0, format="csr")
    assert np.isfinite(LLE(kernel="poly", degree=2).fit(sparse).eigenvalues_).all()


FORMS = {
    "lle": (LLE, {}),
    "kernel": (LLE, {"kernel": "poly"}),
    "lle by landmarks": (LLE, {"landmarks": 60}),
    "laplacian": (LaplacianEigenmaps, {}),
    "laplacian by landmarks": (LaplacianEigenmaps, {"landmarks": 60}),
    "all are landmarks": (LaplacianEigenmaps, {"landmarks": 300}),
}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", FORMS)
def test_new_rows_far_from_all_training_rows_are_told_of_once(form, tmp_path, monkeypatch):
    monkeypatch.setattr(long, "ROWS_A_PIECE", 16)  # rows in many tasks
    kind, given = FORMS[form]
    model = kind(10, 2, **given).fit(X)
    near, far = roll(100, seed=1), X[:7] + 1e3 * np.arange(1, 8)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transform(np.vstack([X, near]))
    T = np.vstack([near[:40], far, near[40:]])
    said = r"^7 of 107 rows of X \(40, 41, 42, 43, 44 and 2 more\) are more than \S+ away from all (training|landm)"
    for place in (model.transform, lambda rows: model.transform_to(rows, str(tmp_path / "out.zarr"))):
        with pytest.warns(OutOfReachWarning, match=said) as caught:
            place(T)
        assert len(caught) == 1 and "\n" not in str(caught[0].message)
    lazy = model.transform(da.from_array(T, chunks=(45, 3)))
    with pytest.warns(OutOfReachWarning, match=r"^5 of 45 rows of X \(40, 41, 42, 43, 44\)"):
        lazy.compute(scheduler="synchronous")


@pytest.mark.filterwarnings("default")
def test_rows_that_are_extrapolated_by_large_weights_are_told_of():
    steps = np.concatenate([np.full(20, 0.05), np.full(6, 1e-3)]).cumsum()
    line = np.c_[steps, steps**2]
    model = LLE(2, 1, reg=1e-9).fit(line)
    for beyond, said in (
        (1e-3, ""),
        (0.05, r"1 of 1 rows of X \(0\) are .*, or rebuilt from some by weights above 10"),
    ):
        new = np.array([[steps[-1] + beyond, (steps[-1] + beyond) ** 2]])  # nearer than the longest edge
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.transform(new)
        assert len(caught) == bool(said) and all(re.match(said, str(one.message)) for one in caught)


@pytest.mark.parametrize("kind", [LLE, LaplacianEigenmaps])
def test_landmarks_go_with_the_euclidean_metric_alone(kind, tmp_path):
    def city(x, y):
        return np.abs(x - y).sum()

    for metric in ("manhattan", "cosine", "sqeuclidean", ("minkowski", {"p": 3}), city):
        name, params = metric if isinstance(metric, tuple) else (metric, None)
        with pytest.raises(ScalemaniError, match=r"landmarks with metric='.*Euclidean geometry; use metric=") as caught:
            kind(10, 2, landmarks=60, metric=name, metric_params=params, store=tmp_path / "run").fit(X)
        assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())
    expected = kind(10, 2, landmarks=60).fit(X).embedding_
    for params in (None, {"p": 2}):
        found = kind(10, 2, landmarks=60, metric="minkowski", metric_params=params).fit(X).embedding_
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_weights_are_euclidean_among_the_neighbours_of_any_metric():
    """As the docstring says."""
    model = LLE(6, 2, metric="manhattan").fit(X)
    order, idx = model._run.store.read_array("order"), model._run.store.read_array("weights_indices")
    for vertex in (0, 17):
        listed, own = order[idx[6 * vertex : 6 * vertex + 6]], order[vertex]
        assert set(listed) == set(np.argsort(np.abs(X - X[own]).sum(axis=1))[1:7])
        C = (X[listed] - X[own]) @ (X[listed] - X[own]).T
        expected = np.linalg.solve(C + 1e-3 * np.trace(C) * np.eye(6), np.ones(6))
        found = model._run.store.read_array("weights_values")[6 * vertex : 6 * vertex + 6]
        np.testing.assert_allclose(found, expected / expected.sum(), rtol=1e-9)


@pytest.mark.parametrize("kind", [LLE, LaplacianEigenmaps, StressIsomap])
def test_data_arrays_go_in_and_come_out(kind, tmp_path):
    xr = pytest.importorskip("xarray")
    import scalemani.xarray as wrapped

    da = xr.DataArray(X, dims=("row", "axis"), coords={"row": np.arange(300) * 2})
    name, tells, more = {
        LLE: ("lle", {"reg": 1e-2}, {"reg", "eigenvalues"}),
        LaplacianEigenmaps: ("laplacian_eigenmaps", {"alpha": 1.0}, {"alpha", "eigenvalues"}),
        StressIsomap: ("stress", {}, {"stress_1", "raw_stress"}),
    }[kind]
    found = getattr(wrapped, name)(da.T, "row", n_neighbors=8, **tells, store=str(tmp_path / "run"))
    model = kind(8, **tells).fit(X)
    assert found.name == name and found.dims == ("row", "component") and {*found.attrs} == {*more, "store"}
    np.testing.assert_array_equal(found.values, model.embedding_)
    np.testing.assert_array_equal(found["row"], da["row"])
    np.testing.assert_array_equal(wrapped.transform(str(tmp_path / "run"), da[:5]).values, model.transform(X[:5]))


def changing(x, y):
    x -= x.mean(axis=0)
    return x @ y.T


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("rows", "given", "message"),
    [
        (X * 1e-150, {"kernel": "poly"}, "neighbours are 0 or rounding: give rows whose columns have mean 0"),
        (X + 1e12, {"kernel": "poly"}, "neighbours are 0 or rounding"),
        (X, {"kernel": lambda x, y: np.ones((len(x), len(y)))}, "neighbours are 0 or rounding"),
        (np.zeros((30, 30)), {"kernel": "precomputed"}, "neighbours are 0 or rounding: make K of rows"),
        (X, {"kernel": changing}, "kernel='changing' changes the rows that it is given; let it work on copies"),
        (np.repeat(X[:12], 20, axis=0), {"landmarks": 13}, "landmarks=13: X has 12 distinct rows; give that many"),
    ],
)
def test_kernels_and_landmarks_that_say_nothing_are_refused_before_any_file(rows, given, message, tmp_path):
    with pytest.raises(ScalemaniError, match=message) as caught:
        LLE(n_neighbors=5, store=tmp_path / "run", **given).fit(rows)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [LLE, LaplacianEigenmaps])
def test_a_fit_without_landmarks_leaves_nothing_of_one_with_them(kind, tmp_path):
    kind(10, 2, landmarks=40, store=tmp_path / "run").fit(X)
    kind(10, 3, store=tmp_path / "run").fit(X)
    assert not verify(str(tmp_path / "run")).faults
    assert [found.name for found in (tmp_path / "run").glob("pair_*")] == ["pair_coordinates"]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_density_to_a_power_that_is_no_number_is_refused():
    with pytest.raises(ScalemaniError, match="alpha=200: densities to this power are out of range; give a smaller al"):
        LaplacianEigenmaps(alpha=200).fit(X)
    even = 2 * np.pi * np.arange(40) / 40
    model = LaplacianEigenmaps(n_neighbors=2, alpha=100).fit(np.c_[np.cos(even), np.sin(even)])
    np.testing.assert_allclose(model.eigenvalues_, (1 + 2 * np.cos(2 * np.pi / 40)) / 3, rtol=1e-9)
