"""Laplacian eigenmaps and diffusion maps through a store, against the dense reference's arrays and scikit-learn's.

Landmarks against the full map, of 1,500 points of a roll, k = 10: the sine of the largest angle between both planes.

    landmarks        50     100    200    500    1000   1500
    resistance       0.97   0.84   0.084  0.024  0.011  0
    normalised       0.97   0.84   0.084  0.023  0.011  0
    Gaussian         0.95   0.89   0.094  0.024  0.008  0
"""

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from weakref import ref

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import flat, neighbor_graph, ring, roll
from sklearn.manifold import SpectralEmbedding

from scalemani import LaplacianEigenmaps, load
from scalemani.errors import (
    DisconnectedGraphError,
    DoesNotFitError,
    ScalemaniError,
    ScalemaniWarning,
    UnreachableWarning,
)
from scalemani.kernel import graph_pairs
from scalemani.steps import pairs

ORACLE = dict(np.load(Path(__file__).parent.parent / "oracles" / "laplacian.npz"))
NEAR_CHANCE = "ignore:the next eigenvalue"
FROM_DEGREES = "ignore:commute times follow"
ROLL, NEW = roll(300), roll(25, seed=1)
K = int(ORACLE["k"])
FORMS = {
    "binary": {},
    "gaussian": {"weights": "gaussian"},
    "normalised": {"normalized": True},
    "diffusion": {"weights": "gaussian", "alpha": 1},
    "landmarks": {"landmarks": 60},
}


def assert_close(found, expected, tol=1e-6):
    """But for signs, to a share of the largest number. Lengths of edges are float32 in a store."""
    signs = np.sign((found * expected).sum(axis=0))
    assert np.abs(found * signs - expected).max() <= tol * np.abs(expected).max()


def sine(one, other):
    """Of the largest angle between two subspaces of centred columns."""
    one, other = (np.linalg.qr(axes - axes.mean(axis=0))[0] for axes in (one, other))
    return np.linalg.norm(other - one @ (one.T @ other), 2)


def of_edges(edges, n, lengths=1.0):
    """A given graph."""
    A = np.zeros((n, n))
    A[edges[:, 0], edges[:, 1]] = A[edges[:, 1], edges[:, 0]] = lengths
    return sp.csr_array(A)


def every(n):
    """All pairs."""
    return np.arange(n)[:, None], np.arange(n)


# ---- oracles -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_a_map_is_the_references(weights, tmp_path):
    expected = {key.removeprefix(f"{weights}_"): value for key, value in ORACLE.items() if key.startswith(weights)}
    made = LaplacianEigenmaps(K, 3, weights=weights, store=tmp_path / "run").fit(ORACLE["X"])
    model = load(made.store_)
    values = np.array(model.spectrum_["eigenvalues"])
    np.testing.assert_allclose(values, expected["eigenvalues"][1:4], rtol=1e-6)
    assert model.spectrum_["next_eigenvalue"] == pytest.approx(expected["eigenvalues"][4], rel=1e-6)
    assert model.spectrum_["sigma"] == (pytest.approx(expected["sigma"], rel=1e-6) if "sigma" in expected else None)
    assert_close(model.embedding_, expected["embedding"])
    assert_close(model.embedding_ * np.sqrt(values), expected["V"])
    assert_close(model.transform(ORACLE["T"]), expected["T_unnormalised"])
    off = model.spectrum_["trace"] - expected["Lplus_trace"]
    assert abs(off) < 4 * model.spectrum_["trace_error"] < expected["Lplus_trace"] / 5


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_commute_times_are_the_references(weights):
    expected = {key.removeprefix(f"{weights}_"): value for key, value in ORACLE.items() if key.startswith(weights)}
    model, n = LaplacianEigenmaps(K, 3, weights=weights).fit(ORACLE["X"]), 240
    R = model.commute_times(*every(n))
    assert_close(R[:5], expected["resistance_first_rows"])
    np.testing.assert_allclose(R.sum() / (2 * n), expected["Lplus_trace"], rtol=1e-6)
    np.testing.assert_allclose(R.mean(axis=1) - R.sum() / (2 * n * n), expected["Lplus_diagonal"], rtol=1e-6)
    np.testing.assert_allclose(model.commute_times(0, 7, "ham"), n * R[0, 7], rtol=1e-12)
    np.testing.assert_allclose(model.commute_times(0, 7, "walk") / R[0, 7], expected["volume"], rtol=1e-6)


@pytest.mark.filterwarnings(NEAR_CHANCE)
def test_the_graph_is_the_references():
    model = LaplacianEigenmaps(K, 3).fit(ORACLE["X"])
    store = model._run.store
    order, scale = store.read_array("order"), store.document.stages["graph"].scale
    indptr, indices, lengths = (store.read_array(f"graph_{part}") for part in ("indptr", "indices", "weights"))
    rows, columns = order[np.repeat(np.arange(240), np.diff(indptr))], order[indices]
    upper = rows < columns
    found = sorted(zip(rows[upper].tolist(), columns[upper].tolist(), (lengths[upper] * scale).tolist(), strict=True))
    there = sorted(zip(*ORACLE["edges"].T.tolist(), ORACLE["distances"].tolist(), strict=True))
    np.testing.assert_array_equal([edge[:2] for edge in found], [edge[:2] for edge in there])
    np.testing.assert_allclose([edge[2] for edge in found], [edge[2] for edge in there], rtol=1e-6)


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_a_normalised_map_is_the_references(weights):
    expected = {
        key.removeprefix(f"{weights}_normalised_"): value for key, value in ORACLE.items() if key.startswith(weights)
    }
    model = LaplacianEigenmaps(K, 3, weights=weights, normalized=True).fit(ORACLE["X"])
    np.testing.assert_allclose(model.spectrum_["eigenvalues"], expected["eigenvalues"], rtol=1e-6)
    assert_close(model.embedding_, expected["F"])
    affinity = pairs.weighted(model._run.store, model._run.store.needed(pairs.PairsRecord).fields)[0]
    degree = affinity.sum(axis=1)[model._run.vertex]
    assert_close(model.embedding_ * np.sqrt(degree)[:, None], expected["U"])
    assert_close(model.transform(ORACLE["T"]), ORACLE[f"{weights}_T_normalised"])


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("time", [1, 4])
@pytest.mark.parametrize("alpha", [0, 0.5, 1])
def test_a_diffusion_map_is_the_references(alpha, time):
    model = LaplacianEigenmaps(K, 2, weights="gaussian", alpha=alpha, time=time).fit(ORACLE["X"])
    values = ORACLE[f"diffusion_alpha{alpha}_eigenvalues"]
    np.testing.assert_allclose(model.spectrum_["eigenvalues"], values[1:3], rtol=1e-6)
    assert model.spectrum_["next_eigenvalue"] == pytest.approx(values[3], rel=1e-6)
    assert_close(model.embedding_, ORACLE[f"diffusion_alpha{alpha}_t{time}"])
    more = LaplacianEigenmaps(K, 5, weights="gaussian", alpha=alpha).fit(ORACLE["X"])
    np.testing.assert_allclose(more.spectrum_["eigenvalues"], values[1:], rtol=1e-6)


@pytest.mark.filterwarnings(FROM_DEGREES)
@pytest.mark.parametrize("name", ["path", "cycle", "star", "complete"])
def test_small_graphs_have_their_closed_forms(name):
    edges, R = ORACLE[f"{name}_edges"], ORACLE[f"{name}_resistance"]
    model = LaplacianEigenmaps(n_components=6, metric="precomputed").fit(of_edges(edges, 7))
    i, j = every(7)
    steps = np.abs(i - j)
    center = (steps > 0) * (2.0 - ((i == 0) | (j == 0)))
    forms = {"path": steps, "cycle": steps * (7 - steps) / 7, "star": center, "complete": (steps > 0) * 2 / 7}
    for expected in (R, forms[name]):
        np.testing.assert_allclose(model.commute_times(i, j), expected, atol=1e-12)
    np.testing.assert_allclose(model.commute_times(i, j, "ham"), 7 * R, atol=1e-11)
    np.testing.assert_allclose(model.commute_times(i, j, "walk"), 2 * len(edges) * R, atol=1e-11)
    Y = model.embedding_
    np.testing.assert_allclose(Y @ Y.T, ORACLE[f"{name}_Lplus"], atol=1e-12)
    np.testing.assert_allclose(((Y[i] - Y[j]) ** 2).sum(axis=-1), R, atol=1e-12)
    assert model.spectrum_["trace"] == pytest.approx(np.trace(ORACLE[f"{name}_Lplus"]))  # few points: exact
    assert model.spectrum_["trace_error"] == 0


@pytest.mark.parametrize(("scale", "what"), [("walk", "walk"), ("ham", "chain"), ("resistance", None)])
@pytest.mark.filterwarnings(NEAR_CHANCE, FROM_DEGREES)
def test_a_weighted_graphs_commute_times_are_those_of_hitting_times(scale, what):
    A, n = ORACLE["weighted_A"], 25
    lengths = np.zeros_like(A)
    lengths[A > 0] = np.sqrt(-2 * np.log(A[A > 0]))
    model = LaplacianEigenmaps(
        n_components=n - 1, metric="precomputed", weights="gaussian", sigma=1.0, scale=scale
    ).fit(sp.csr_array(lengths))
    inverse = np.linalg.pinv(np.diag(A.sum(axis=1)) - A)
    np.testing.assert_allclose(inverse, ORACLE["weighted_Lplus"], atol=1e-12)
    own = np.diagonal(inverse)
    expected = own[:, None] + own - 2 * inverse if what is None else ORACLE[f"weighted_commute_{what}"]
    assert_close(model.commute_times(*every(n)), expected)
    Y = model.embedding_
    assert_close(((Y[:, None] - Y) ** 2).sum(axis=-1), expected)


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("X", [ROLL, flat(250, 2) * [2, 1]], ids=["roll", "sheet"])
def test_scikit_learns_map_of_the_same_affinity_is_the_same(X):
    affinity = (neighbor_graph(X, 9).toarray() > 0).astype(float)
    theirs = SpectralEmbedding(2, affinity="precomputed", eigen_solver="arpack", random_state=0).fit(affinity)
    model = LaplacianEigenmaps(9, 2, normalized=True).fit(X)
    assert_close(model.embedding_, theirs.embedding_)


def test_landmarks_of_a_graph_are_none_of_its_rows(tmp_path):
    """Rows are rebuilt from landmarks by features."""
    lengths = np.abs(np.subtract.outer(np.arange(60.0), np.arange(60.0)))
    with pytest.raises(ScalemaniError, match="landmarks with metric='precomputed'") as caught:
        LaplacianEigenmaps(3, 2, metric="precomputed", landmarks=10, store=tmp_path / "run").fit(lengths)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


# ---- rows and their forms ----------------------------------------------------------------------------


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_rows_one_by_one_have_the_bits_of_their_batch(as_given, form):
    X, T = (np.where(np.abs(rows) < 0.5, 0.0, rows) for rows in (ROLL, NEW))
    model = LaplacianEigenmaps(8, 2, **FORMS[form]).fit(as_given(X))
    placed = model.transform(as_given(T))
    alone = [model.transform(as_given(T[row : row + 1])) for row in range(len(T))]
    np.testing.assert_array_equal(np.concatenate(alone), placed)
    assert np.isfinite(placed).all()
    if form != "landmarks":
        np.testing.assert_array_equal(model.transform(as_given(X)), model.embedding_)


@pytest.mark.filterwarnings(NEAR_CHANCE)
@pytest.mark.parametrize("form", ["gaussian", "landmarks"])
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
def test_every_form_of_rows_has_one_map(as_given, form):
    X = ROLL.astype(np.float32).astype(np.float64)
    expected, found = (LaplacianEigenmaps(8, 2, **FORMS[form]).fit(rows) for rows in (X, as_given(X)))
    np.testing.assert_array_equal(found.embedding_, expected.embedding_)
    T = NEW.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal(np.asarray(found.transform(as_given(T))), expected.transform(T))


@pytest.mark.parametrize("form", FORMS)
def test_new_rows_spread_as_training_rows_do(form):
    model = LaplacianEigenmaps(8, 2, **{**FORMS[form], **({"landmarks": 250} if form == "landmarks" else {})})
    spread = model.fit(roll(600)).transform(roll(300, seed=1)).std(axis=0) / model.embedding_.std(axis=0)
    np.testing.assert_allclose(spread, 1, atol=0.1)


def test_a_factor_and_multigrid_lead_to_one_map(monkeypatch):
    pytest.importorskip("pyamg")
    X = flat(600, 2) * [3, 1]
    expected = LaplacianEigenmaps(8, 2).fit(X)
    monkeypatch.setattr(graph_pairs, "suits_a_factor", lambda *_: False)
    monkeypatch.setattr(pairs, "suits_a_factor", lambda *_: False)
    found = LaplacianEigenmaps(8, 2).fit(X)
    assert_close(found.embedding_, expected.embedding_)
    np.testing.assert_allclose(found.spectrum_["eigenvalues"], expected.spectrum_["eigenvalues"], rtol=1e-6)


# ---- parts of the graph ------------------------------------------------------------------------------


def test_a_second_component_is_left_out_and_no_walk_leads_there():
    far = ROLL[:40] + 1000
    X = np.vstack([far, ROLL])
    model, alone = LaplacianEigenmaps(8, 2, disconnected="largest").fit(X), LaplacianEigenmaps(8, 2).fit(ROLL)
    np.testing.assert_array_equal(model.kept_, np.arange(40, 340))
    assert np.isnan(model.embedding_[:40]).all()
    assert_close(model.embedding_[40:], alone.embedding_, 1e-9)
    found = model.commute_times([0, 0, 50, 50], [1, 50, 0, 60])
    np.testing.assert_array_equal(np.isnan(found), [True, True, True, False])
    assert found[3] == pytest.approx(alone.commute_times(10, 20), rel=1e-9)
    with pytest.raises(DisconnectedGraphError, match="2 components"):
        LaplacianEigenmaps(8, 2).fit(X)


def test_bridges_join_what_falls_apart():
    X = np.vstack([ROLL[:100], ROLL[:100] + 100])
    model = LaplacianEigenmaps(12, 1, disconnected="join").fit(X)
    halves = np.sign(model.embedding_[:, 0])
    assert model.spectrum_["n_bridges"] == 1 and (halves[:100] == halves[0]).all() and (halves[100:] != halves[0]).all()
    with pytest.raises(ScalemaniError, match="has weight 0 and joins nothing; use weights='binary' or a larger sigma"):
        LaplacianEigenmaps(12, 1, disconnected="join", weights="gaussian", sigma=1.0).fit(X)


def test_two_closed_classes_of_lists_are_nothing_to_a_graph():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(30, 3)), rng.normal(size=(30, 3)) + [20, 0, 0], [[8, 0, 0], [12, 0, 0]]])
    model = LaplacianEigenmaps(8, 1).fit(X)
    assert len(model.kept_) == 62 and (np.sign(model.embedding_[:30]) != np.sign(model.embedding_[30:60])).all()


def test_commute_times_are_of_one_factor_for_the_life_of_a_model(monkeypatch, tmp_path):
    made = []
    factor = graph_pairs.GroundedFactor.__init__
    monkeypatch.setattr(
        graph_pairs.GroundedFactor, "__init__", lambda self, A: (made.append(ref(self)), factor(self, A))[1]
    )
    model = load(LaplacianEigenmaps(8, 2, store=tmp_path / "run").fit(ROLL).store_)
    made.clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(model.commute_times, [0] * 8, range(1, 9)))
    assert len(made) == 1 and found == [model.commute_times(0, column) for column in range(1, 9)]
    assert copy.deepcopy(model).commute_times(0, 1) == found[0] and len(made) == 1
    assert pickle.loads(pickle.dumps(model)).commute_times(0, 1) == found[0] and len(made) == 2  # it is not pickled
    del model
    gc.collect()
    assert [one() for one in made] == [None, None]
    old = load(tmp_path / "run")
    LaplacianEigenmaps(9, 2, store=tmp_path / "run", overwrite=True).fit(ROLL)
    with pytest.raises(ScalemaniError, match="was fitted again"):
        old.commute_times(0, 1)


def test_rows_of_commute_times_are_broadcast_and_checked():
    model = LaplacianEigenmaps(8, 2, scale="ham").fit(ROLL)
    found = model.commute_times([[0], [5]], [1, 2, 5])
    assert found.shape == (2, 3) and found[1, 2] == 0
    np.testing.assert_allclose(model.commute_times(1, 0), found[0, 0], rtol=1e-12)
    np.testing.assert_allclose(found, 300 * model.commute_times([[0], [5]], [1, 2, 5], scale="resistance"), rtol=1e-12)
    for rows, columns, given, message in (
        ([300], [0], {}, "300"),
        ([0.5], [0], {}, "row numbers are needed"),
        ([0], [1], {"scale": "walks"}, "scale='walks': did you mean 'walk'"),
    ):
        with pytest.raises(ScalemaniError, match=message) as caught:
            model.commute_times(rows, columns, **given)
        assert "\n" not in str(caught.value)


# ---- what is warned of -------------------------------------------------------------------------------


@pytest.mark.filterwarnings(NEAR_CHANCE)
def test_commute_times_that_forget_geometry_are_warned_of():
    with pytest.warns(ScalemaniWarning, match=r"degrees alone \(correlation (0.9|1.0)") as said:
        model = LaplacianEigenmaps(10, 2).fit(np.random.default_rng(0).normal(size=(1000, 8)))
    assert model.spectrum_["forgotten"] > 0.9 and str(said[0].message) in model.spectrum_["warnings"]


@pytest.mark.filterwarnings("error")
def test_a_roll_and_normalised_maps_are_not_warned_of():
    assert abs(LaplacianEigenmaps(10, 2).fit(roll(600)).spectrum_["forgotten"]) < 0.5
    X = np.random.default_rng(0).normal(size=(500, 8)) * [5, 3, 1, 1, 1, 1, 1, 1]
    assert LaplacianEigenmaps(10, 2, normalized=True).fit(X).spectrum_["forgotten"] is None


@pytest.mark.parametrize("form", ["binary", "normalised", "diffusion"])
def test_axes_that_are_chance_are_warned_of(form):
    """A ring has its eigenvalues in pairs, and one axis is asked for."""
    with pytest.warns(ScalemaniWarning, match="which of the two is shown is chance"):
        LaplacianEigenmaps(4, 1, **FORMS[form]).fit(ring(80))


# ---- landmarks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["binary", "gaussian", "normalised"])
def test_landmarks_come_near_the_full_map(form):
    """See the table above."""
    X, given = roll(1500), FORMS[form]
    full = LaplacianEigenmaps(10, 2, **given).fit(X)
    some = LaplacianEigenmaps(10, 2, landmarks=500, **given).fit(X)
    assert sine(some.embedding_, full.embedding_) < 0.03
    ratio = np.array(some.spectrum_["eigenvalues"]) / full.spectrum_["eigenvalues"]
    assert (ratio > 1).all() and (ratio < 1.1).all()  # of vectors among fewer: never lower
    spread = some.embedding_.std(axis=0) / full.embedding_.std(axis=0)
    np.testing.assert_allclose(spread, 1, atol=0.05)


@pytest.mark.parametrize("form", ["binary", "gaussian", "normalised"])
def test_all_points_as_landmarks_are_the_full_map(form):
    full, some = (LaplacianEigenmaps(8, 2, **FORMS[form], landmarks=m).fit(ROLL) for m in (None, 300))
    assert_close(some.embedding_, full.embedding_, 1e-9)


@pytest.mark.parametrize("scale", ["ham", "walk"])
def test_scales_are_those_of_the_full_map_by_landmarks_too(scale):
    plain, scaled = (LaplacianEigenmaps(8, 2, landmarks=60, scale=some).fit(ROLL) for some in ("resistance", scale))
    multiple = 300 if scale == "ham" else 2 * plain.spectrum_["n_edges"]
    assert_close(scaled.embedding_, np.sqrt(multiple) * plain.embedding_, 1e-12)


# ---- the plan, and what is refused ---------------------------------------------------------------------


def test_a_factor_that_does_not_fit_is_refused_with_landmarks_named(tmp_path, monkeypatch, quick_calibration):
    assert "million nonzeros" in str(LaplacianEigenmaps(8, 2).plan(ROLL))
    monkeypatch.setattr(pairs, "BYTES", 3000)  # of a nonzero: some 400 MB in all
    with pytest.raises(DoesNotFitError, match=r"for factor\).*landmarks=1000, for which no factor is made") as caught:
        LaplacianEigenmaps(8, 2, memory_limit="200MB", store=tmp_path / "run").fit(ROLL)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())
    LaplacianEigenmaps(8, 2, memory_limit="200MB", landmarks=60, store=tmp_path / "run").fit(ROLL)


SOME = np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weights": "binry"}, "weights='binry': did you mean 'binary'"),
        ({"scale": "walks"}, "scale='walks': did you mean 'walk'"),
        ({"weights": "gaussian", "sigma": 0}, "sigma=0: a positive number"),
        ({"weights": "gaussian", "sigma": -1}, "sigma=-1: a positive number"),
        ({"weights": "gaussian", "sigma": float("nan")}, "sigma=nan"),
        ({"sigma": 1.0}, "sigma=1.0 with weights='binary'"),
        ({"alpha": -1}, "alpha=-1: a number from 0 on"),
        ({"alpha": 1, "normalized": True}, "alpha=1 with normalized, landmarks or a scale"),
        ({"alpha": 1, "landmarks": 20}, "alpha=1 with normalized, landmarks or a scale"),
        ({"alpha": 1, "scale": "ham"}, "alpha=1 with normalized, landmarks or a scale"),
        ({"alpha": 1, "time": -1}, "time=-1: a number from 0 on"),
        ({"time": 2}, "time=2 without alpha"),
        ({"normalized": True, "scale": "walk"}, "scale='walk' with normalized=True"),
        ({"n_neighbors": 60}, "n_neighbors=60 needs at least 61 distinct rows"),
        ({"n_components": 60}, "n_components=60 needs at least 61 distinct rows"),
        ({"n_components": 3, "landmarks": 3}, "3 landmarks: n_components=3 needs at least 4"),
        ({"metric": "geodesic"}, "metric='geodesic': given distances are final and have no edges"),
        ({"radius": 1.0}, "both n_neighbors=5 and radius=1.0"),
    ],
)
def test_what_can_not_be_meant_is_refused_in_one_line_before_any_file(given, message, tmp_path):
    X = np.abs(np.subtract.outer(SOME[:, 0], SOME[:, 0])) if given.get("metric") else SOME
    with pytest.raises(ScalemaniError, match=message) as caught:
        LaplacianEigenmaps(**{"n_neighbors": 5, "store": tmp_path / "run", **given}).fit(X)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.filterwarnings(NEAR_CHANCE, FROM_DEGREES)
def test_a_row_alone_is_left_out_or_told_of():
    X = np.vstack([SOME, [[50.0] * 4]])
    with pytest.raises(DisconnectedGraphError, match="of 60, 1 points"):
        LaplacianEigenmaps(n_neighbors=None, radius=5.0, n_components=1).fit(X)
    model = LaplacianEigenmaps(n_neighbors=None, radius=5.0, n_components=1, disconnected="largest").fit(X)
    assert 60 not in model.kept_ and np.isnan(model.commute_times(0, 60))
    with pytest.warns(UnreachableWarning):
        assert np.isnan(model.transform(X[60:])).all()
