"""Isometric projection through a store, against the dense reference's arrays and against what it must be."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from scalemani import Isomap, IsometricProjection, load
from scalemani.errors import (
    OutOfReachWarning,
    RankWarning,
    ScalemaniError,
    ScalemaniWarning,
    StoreMismatchError,
)
from scalemani.integrity import repair, verify

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.ShortcutWarning"),
    pytest.mark.filterwarnings("ignore:ridge=0 with as many directions"),
]
ORACLES = Path(__file__).parent.parent / "oracles"
DIGITS, LABELS = load_digits(return_X_y=True)
FORMS = [("", {"ridge": 0}), ("_unit", {"ridge": 0, "scale": "unit"}), ("_ridge", {})]
SEEN, NEW = slice(0, 600), slice(600, 900)


def oracle(name):
    found = dict(np.load(ORACLES / f"isometric_{name}.npz"))
    if name == "wide":
        found["X"], found["T"] = (
            counts / np.linalg.norm(counts, axis=1)[:, None] for counts in (found["counts"], found["counts_T"] * 1.0)
        )
    return found


def assert_close(found, expected, tol):
    signs = np.sign((found * expected).sum(axis=0))
    assert np.abs(found * signs - expected).max() <= tol * np.abs(expected).max()


def assert_same(model, expected, form=""):
    """What is promised of a fit whose D is in float32."""
    np.testing.assert_allclose(model.eigenvalues_, expected[f"lam{form}"], rtol=1e-6)
    assert_close(model.embedding_, expected[f"Y{form}"], 1e-5)
    assert_close(model.transform(expected["T"]), expected[f"YT{form}"], 1e-5)


@pytest.mark.parametrize("distances", [None, "stored"])
@pytest.mark.parametrize(
    ("form", "given"), [("", {"ridge": 0}), ("_unit", {"ridge": 0, "scale": "unit"}), ("_ridge", {})]
)
@pytest.mark.parametrize("name", ["linear", "wide"])
def test_a_linear_map_is_the_references(name, form, given, distances):
    expected = oracle(name)
    model = IsometricProjection(int(expected["k"]), 3, distances=distances, **given).fit(expected["X"])
    assert_same(model, expected, form)
    assert_close(model.components_.T, expected[f"W{form}"], 1e-5)
    placed = (expected["T"] - model.mean_) @ model.components_.T
    np.testing.assert_allclose(model.transform(expected["T"]), placed, atol=1e-9 * np.abs(placed).max())


@pytest.mark.parametrize(
    ("form", "given"), [("", {"ridge": 0}), ("_unit", {"ridge": 0, "scale": "unit"}), ("_ridge", {})]
)
def test_a_supervised_map_is_the_references(form, given):
    expected = oracle("supervised")
    model = IsometricProjection(int(expected["k"]), 5, **given).fit(expected["X"], expected["labels"])
    assert_same(model, expected, form)


def test_csr_rows_give_the_map_of_the_dense_ones():
    expected = oracle("wide")
    rows, dense = sp.csr_array(expected["X"]), IsometricProjection(7, 3).fit(expected["X"])
    model = IsometricProjection(7, 3).fit(rows)
    np.testing.assert_allclose(model.eigenvalues_, dense.eigenvalues_, rtol=1e-6)
    assert_close(model.transform(sp.csr_array(expected["T"])), expected["YT_ridge"], 1e-5)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("wide", {"kernel": "rbf"}),
        ("cubic", {"kernel": "poly", "ridge": 1e-8}),
        ("cosine", {"kernel": "cosine", "ridge": 0}),
    ],
)
def test_a_map_of_kernel_values_is_the_references(name, given):
    expected = oracle("kernel")
    gamma = 1 / float(expected["sigma_wide"]) ** 2
    given = given if given["kernel"] == "cosine" else {**given, "gamma": gamma}
    model = IsometricProjection(int(expected["k"]), 2, **given).fit(expected["X"])
    assert model.spectrum_["rank"] == expected[f"{name}_rank"]
    np.testing.assert_allclose(model.eigenvalues_, expected[f"{name}_lam"], rtol=1e-6)
    assert_close(model.embedding_, expected[f"{name}_Y"], 1e-5)
    assert_close(model.transform(expected["T"]), expected[f"{name}_YT"], 1e-5)


def test_all_rows_as_nystroms_are_the_whole_kernel():
    X, T = DIGITS[:200], DIGITS[200:260]
    whole = IsometricProjection(14, 3, kernel="rbf").fit(X)
    some = IsometricProjection(14, 3, kernel="rbf", nystrom=200, ridge=1e-4).fit(X)
    np.testing.assert_allclose(some.eigenvalues_, whole.eigenvalues_, rtol=0.01)
    assert np.corrcoef(pdist(some.transform(T)), pdist(whole.transform(T)))[0, 1] > 0.999


def test_the_usual_width_of_a_gaussian_kernel_is_the_median_distance():
    X = DIGITS[:300]
    model = IsometricProjection(14, 2, kernel="rbf").fit(X)
    assert model.spectrum_["gamma"] == pytest.approx(1 / np.median(pdist(X)) ** 2)


def test_rows_beyond_the_kernels_reach_are_told_of():
    model = IsometricProjection(14, 2, kernel="rbf").fit(DIGITS[:200])
    with pytest.warns(OutOfReachWarning, match=r"2 of 3 rows of X \(1, 2\) are so far"):
        model.transform(np.vstack([DIGITS[200:201], DIGITS[201:203] + 1000]))


def test_a_sigmoid_that_is_no_kernel_is_refused_unless_asked():
    X = DIGITS[:150]
    with pytest.raises(ScalemaniError, match="negative, so it is no kernel on these rows"):
        IsometricProjection(14, 2, kernel="sigmoid").fit(X)
    model = IsometricProjection(14, 2, kernel="sigmoid", indefinite="drop").fit(X)
    assert model.spectrum_["negative_share"] > 1e-6 and np.isfinite(model.transform(DIGITS[150:160])).all()


# ---- held-out rows: training rows alone hide every fault ---------------------------------------------


@pytest.mark.parametrize("offset", [0, 601])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32])
def test_new_rows_spread_as_training_rows_do(kind, offset):
    X = (DIGITS[SEEN] + offset).astype(kind)
    model = IsometricProjection(10, 5, ridge=0).fit(X)
    spread = pdist(model.transform((DIGITS[NEW] + offset).astype(kind))).mean() / pdist(model.embedding_).mean()
    assert 0.8 < spread < 1.1


def test_units_of_features_do_not_matter():
    one, other = (IsometricProjection(10, 3, metric="cosine").fit(DIGITS[SEEN] * unit) for unit in (1, 1e9))
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, rtol=1e-6)


def test_no_axis_is_longer_than_isomaps():
    X = DIGITS[SEEN]
    assert (
        IsometricProjection(10, 5, ridge=0).fit(X).eigenvalues_ <= Isomap(10, 5).fit(X).eigenvalues_ * (1 + 1e-6)
    ).all()


def test_landmarks_stand_for_all_distances():
    X, T = DIGITS[:1400], DIGITS[1400:]
    whole, some = IsometricProjection(10, 5).fit(X), IsometricProjection(10, 5, landmarks=175).fit(X)
    expected, found = whole.transform(T), some.transform(T)
    left, _, right = np.linalg.svd((found - found.mean(0)).T @ (expected - expected.mean(0)))
    off = np.linalg.norm((found - found.mean(0)) @ left @ right - (expected - expected.mean(0)))
    assert off / np.linalg.norm(expected - expected.mean(0)) < 0.06


def test_the_ridge_that_leaving_rows_out_chooses_is_of_least_error():
    model = IsometricProjection(14, 3, ridge="loo").fit(DIGITS[:300])
    errors = dict(map(tuple, model.spectrum_["left_out"]))
    assert len(errors) == 17 and errors[model.spectrum_["ridge"]] == min(errors.values())
    fixed = IsometricProjection(14, 3, ridge=model.spectrum_["ridge"]).fit(DIGITS[:300])
    np.testing.assert_allclose(fixed.eigenvalues_, model.eigenvalues_, rtol=1e-6)


def test_labels_part_classes_and_a_search_finds_a_ridge():
    X, y, T, wanted = DIGITS[SEEN], LABELS[SEEN], DIGITS[NEW], LABELS[NEW]
    steps = make_pipeline(IsometricProjection(n_components=9), KNeighborsClassifier(5))
    search = GridSearchCV(steps, {"isometricprojection__ridge": [1e-3, 1e-2]}, cv=3).fit(X, y)
    plain = make_pipeline(PCA(9), KNeighborsClassifier(5)).fit(X, y)
    assert search.score(T, wanted) > plain.score(T, wanted)


def test_what_is_turned_round_is_the_best_guess_of_the_features():
    X = DIGITS[SEEN]
    model = IsometricProjection(10, 5).fit(X)
    Y = model.embedding_
    guess = np.linalg.lstsq(Y, X - X.mean(axis=0), rcond=None)[0]
    np.testing.assert_allclose(model.inverse_transform(Y), X.mean(axis=0) + Y @ guess, atol=1e-8)


@pytest.mark.parametrize(("n", "features"), [(90, 5), (60, 300)])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_left_out_change_nothing(n, features, sparse):
    """Their mean neither, which shows in new rows alone."""
    rng = np.random.default_rng(0)
    kept, other, T = (rng.normal(size=(rows, features)) + 5 for rows in (n, 20, 30))
    X = np.vstack([kept, other * 0.1 + 60])
    as_given = sp.csr_array if sparse else np.asarray
    model = IsometricProjection(8, 2, disconnected="largest").fit(as_given(X))
    alone = IsometricProjection(8, 2).fit(as_given(kept))
    assert len(model.kept_) == n and model.spectrum_["rank"] == alone.spectrum_["rank"]
    np.testing.assert_allclose(model.mean_, alone.mean_, rtol=1e-12)
    placed, expected = model.transform(as_given(T)), alone.transform(as_given(T))
    assert_close(placed, expected, 1e-5)


def test_sparse_bytes_are_the_numbers_that_they_are():
    rows = sp.random(200, 60, 0.2, random_state=1, format="csr").toarray() * 255
    for kernel in ("cosine", "rbf"):
        made = [
            IsometricProjection(10, 2, kernel=kernel, nystrom=40).fit(as_given(rows.astype("u1")))
            for as_given in (sp.csr_array, np.asarray)
        ]
        np.testing.assert_allclose(made[0].eigenvalues_, made[1].eigenvalues_, rtol=1e-6)


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ridge": -1}, "ridge=-1: allowed are .*a number from 0 to 1e"),
        ({"ridge": "best"}, "ridge='best'"),
        ({"scale": "long"}, "scale='long'"),
        ({"kernel": "rfb"}, "rbf"),
        ({"kernel": "rbf", "gamma": 0}, "gamma=0: a positive number"),
        ({"kernel": "poly", "degree": -1}, "degree=-1: a positive number"),
        ({"kernel": "poly", "coef0": float("nan")}, "coef0=nan"),
        ({"kernel": "rbf", "nystrom": 10**6}, "nystrom=1000000: X has 60 distinct rows"),
        ({"nystrom": 10}, "nystrom=10 with kernel='linear'"),
        ({"gamma": 2.0}, "gamma=2.0 with kernel='linear'"),
        ({"ridge": 1e300}, "from 0 to 1e"),
        ({"metric": "precomputed"}, "a map of features needs rows of features"),
        ({"distances": "kept"}, "distances='kept'"),
        ({"ridge": "loo", "distances": "recomputed"}, "needs them stored"),
        ({"ridge": "loo", "landmarks": 20}, "with landmarks"),
    ],
)
def test_what_can_not_be_meant_is_refused_in_one_line_before_any_file(given, message, tmp_path):
    X = DIGITS[:60, 4:] if given.get("metric") != "precomputed" else np.abs(np.subtract.outer(range(60), range(60)))
    with pytest.raises(ScalemaniError, match=message) as caught:
        IsometricProjection(5, 2, store=tmp_path / "run", **given).fit(X)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "poly", "degree": 2000}, "values on these rows are not finite"),
        ({"kernel": "rbf", "gamma": 1e-15}, "differ from row to row by"),
        ({"kernel": "rbf", "gamma": 1e-15, "nystrom": 20}, "differ from row to row by"),
    ],
)
def test_kernel_values_that_say_nothing_are_refused(given, message):
    with pytest.raises(ScalemaniError, match=message):
        IsometricProjection(10, 2, **given).fit(DIGITS[:60])


def test_rows_whose_kernel_values_overflow_are_said_to_have_no_coordinates():
    model = IsometricProjection(10, 2, kernel="poly", gamma=1e-3).fit(DIGITS[:60])
    with pytest.warns(ScalemaniWarning, match="1 of 3 rows have kernel values that are not finite"):
        placed = model.transform(np.vstack([DIGITS[:2], DIGITS[2:3] * 1e120]))
    assert np.isfinite(placed[:2]).all() and np.isnan(placed[2]).all()


def test_labels_go_with_neither_landmarks_nor_stored_distances(tmp_path):
    for given in ({"landmarks": 20}, {"ridge": "loo"}, {"distances": "stored"}):
        with pytest.raises(ScalemaniError, match="labels"):
            IsometricProjection(5, 2, store=tmp_path / "run", **given).fit(DIGITS[:100], LABELS[:100])
    assert not list(tmp_path.iterdir())


def test_other_features_are_refused(tmp_path):
    model = IsometricProjection(5, 2).fit(DIGITS[:60])
    with pytest.raises(ScalemaniError, match="X has 63 features"):
        model.transform(DIGITS[:5, :63])
    with pytest.raises(ScalemaniError, match="only the linear kernel"):
        IsometricProjection(5, 2, kernel="rbf").fit(DIGITS[:60]).inverse_transform(np.zeros((1, 2)))


def test_axes_past_the_rank_are_0_with_one_warning():
    X = np.random.default_rng(0).random((80, 2))
    with pytest.warns(RankWarning, match="ask for n_components=2") as said:
        model = IsometricProjection(10, 4, ridge=0).fit(X)
    assert len(said) == 1 and not model.embedding_[:, 2:].any() and not model.transform(X)[:, 2:].any()


# ---- the store ---------------------------------------------------------------------------------------


def test_no_distances_are_stored_and_another_ridge_finds_none_again(tmp_path):
    X, stages = DIGITS[:300], []
    first = IsometricProjection(14, 3, store=tmp_path / "run").fit(X)
    assert not (tmp_path / "run" / "distances").exists()

    def report(stage, done, total):
        stages.append(stage)

    again = IsometricProjection(14, 5, ridge=0.1, store=tmp_path / "run", progress=report).fit(X)
    assert "geodesics" not in stages and "map" in stages
    assert np.array_equal(again.embedding_, IsometricProjection(14, 5, ridge=0.1).fit(X).embedding_)
    with pytest.raises(StoreMismatchError, match="kernel='linear' where kernel='rbf'"):
        IsometricProjection(14, 3, kernel="rbf", store=tmp_path / "run").fit(X)
    with pytest.raises(ScalemaniError, match="fitted again"):
        first.transform(X)


def test_a_fit_that_is_stopped_among_the_rows_of_distances_goes_on_from_there(tmp_path):
    done_first = []

    def stop(stage, done, total):
        if (stage, done) == ("geodesics", 3):
            raise KeyboardInterrupt

    def note(stage, done, total):
        if stage == "geodesics":
            done_first.append(done)

    fit = {"n_neighbors": 14, "n_components": 3, "store": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        IsometricProjection(**fit, progress=stop).fit(DIGITS[:300])
    model = IsometricProjection(**fit, progress=note).fit(DIGITS[:300])
    assert done_first[0] == 3
    assert np.array_equal(model.embedding_, IsometricProjection(14, 3).fit(DIGITS[:300]).embedding_)


@pytest.mark.parametrize("given", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "nystrom": 40}])
def test_a_copy_places_rows_without_the_graph(given, tmp_path):
    X, T = DIGITS[:200], DIGITS[200:230]
    model = IsometricProjection(14, 2, store=tmp_path / "run", **given).fit(X)
    expected = model.transform(T)
    model.export(tmp_path / "copy")
    shutil.rmtree(tmp_path / "run")
    for name in (tmp_path / "copy").iterdir():
        if name.name.startswith(("graph_", "digests", "order", *(() if given else ("points",)))):
            shutil.rmtree(name)
    from scalemani.methods.isometric_projection import projector
    from scalemani.storage.run import RunStore

    placed = projector(RunStore(tmp_path / "copy"), "continuous").placed(T)[0]
    assert np.array_equal(placed, expected)


def test_labelled_runs_are_whole_and_mended(tmp_path):
    X, y = DIGITS[:300], LABELS[:300]
    model = IsometricProjection(8, 9, store=tmp_path / "run").fit(X, y)
    assert not verify(str(tmp_path / "run")).damaged
    for name in ("projected_kernel", "feature_spread", "map_weights"):
        file = next(file for file in (tmp_path / "run" / name / "c").rglob("*") if file.is_file())
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        assert verify(str(tmp_path / "run")).damaged
        done, left = repair(str(tmp_path / "run"))
        assert done and not left.damaged
    assert np.array_equal(load(tmp_path / "run").embedding_, model.embedding_)
    with pytest.raises(StoreMismatchError, match="other data, labels or kernel"):
        IsometricProjection(8, 9, store=tmp_path / "run").fit(X, 9 - y)


# ---- kernel values that are given --------------------------------------------------------------------


UNIT = DIGITS[:400] / np.linalg.norm(DIGITS[:400], axis=1)[:, None]


def test_given_kernel_values_make_the_map_that_their_features_make():
    """Of unit rows, whose products are their cosines, and whose distances are the kernel's."""
    X, T = UNIT[:300], UNIT[300:]
    by_rows = IsometricProjection(14, 3, kernel="cosine").fit(X)
    given = IsometricProjection(14, 3, kernel="precomputed").fit(X @ X.T)
    np.testing.assert_allclose(given.eigenvalues_, by_rows.eigenvalues_, rtol=1e-6)
    assert_close(given.transform(T @ X.T), by_rows.transform(T), 1e-5)
    assert_close(given.transform(X @ X.T), given.embedding_, 1e-9)
    assert given.n_features_in_ == 300 and given.__sklearn_tags__().input_tags.pairwise


def test_given_kernel_values_go_with_landmarks_and_rows_outside_the_largest_component():
    X = np.vstack([UNIT[:200], UNIT[200:203] @ np.diag(np.r_[np.zeros(60), np.ones(4)]) + 40])
    model = IsometricProjection(3, 2, kernel="precomputed", disconnected="largest").fit(X @ X.T)
    kept = model.kept_
    assert 2 < len(kept) < 203
    assert_close(model.transform(X[kept] @ X.T), model.embedding_[kept], 1e-9)
    by_landmarks = IsometricProjection(10, 2, kernel="precomputed", landmarks=60).fit(UNIT[:200] @ UNIT[:200].T)
    whole = IsometricProjection(10, 2, kernel="precomputed").fit(UNIT[:200] @ UNIT[:200].T)
    assert np.corrcoef(pdist(by_landmarks.embedding_), pdist(whole.embedding_))[0, 1] > 0.99


K = UNIT[:60] @ UNIT[:60].T


@pytest.mark.parametrize(
    ("X", "given", "message"),
    [
        (UNIT[:60], {}, r"X has shape \(60, 64\)"),
        (sp.csr_array(K), {}, "X is sparse"),
        (K + np.triu(np.full((60, 60), 0.1), 1), {}, "is not symmetric"),
        (1 - K, {}, "is larger than the mean of the two on the diagonal"),
        (-K, {}, "is negative on the diagonal"),
        (np.where(np.eye(60, k=3), np.nan, K), {}, "NaN"),
        (K, {"metric": "cosine"}, "metric='cosine' with kernel='precomputed'"),
        (K, {"nystrom": 10}, "nystrom=10 with kernel='precomputed'"),
        (K, {"gamma": 1.0}, "gamma=1.0 with kernel='precomputed'"),
        (K, {"y": LABELS[:60]}, "labels with kernel='precomputed'"),
    ],
)
def test_what_are_no_kernel_values_is_refused_before_any_file(X, given, message, tmp_path):
    y = given.pop("y", None) if "y" in given else None
    with pytest.raises(ScalemaniError, match=message) as caught:
        IsometricProjection(5, 2, kernel="precomputed", store=tmp_path / "run", **given).fit(X, y)
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


def test_damaged_directions_of_given_kernel_values_are_made_by_the_same_fit(tmp_path):
    fit = {"n_neighbors": 14, "n_components": 3, "kernel": "precomputed", "store": tmp_path / "run"}
    G = UNIT[:200] @ UNIT[:200].T
    expected = IsometricProjection(**fit).fit(G).embedding_
    damage(tmp_path / "run", "feature_loadings")
    repair(str(tmp_path / "run"))
    again = IsometricProjection(**fit).fit(G)
    assert np.array_equal(again.embedding_, expected) and not verify(str(tmp_path / "run")).damaged


# ---- what was wrong once -----------------------------------------------------------------------------


def damage(path, name):
    file = next(file for file in (path / name / "c").rglob("*") if file.is_file())
    content = bytearray(file.read_bytes())
    content[-5] ^= 1  # the last four are a checksum
    file.write_bytes(content)


def test_distances_are_kept_where_that_is_asked_for(tmp_path):
    fit = {"n_neighbors": 14, "n_components": 3, "store": tmp_path / "run"}
    kept = IsometricProjection(**fit, keep_distances=True).fit(DIGITS[:200])
    assert (tmp_path / "run" / "distances").exists()
    assert np.array_equal(kept.geodesics([3]), Isomap(14, 3).fit(DIGITS[:200]).geodesics([3]))
    IsometricProjection(**fit, ridge=0.1).fit(DIGITS[:200])
    assert not (tmp_path / "run" / "distances").exists()
    with pytest.raises(ScalemaniError, match="keep_distances=True with distances='recomputed'"):
        IsometricProjection(keep_distances=True, distances="recomputed").fit(DIGITS[:60])
    with pytest.raises(ScalemaniError, match="keep_distances=True with labels"):
        IsometricProjection(5, 2, keep_distances=True).fit(DIGITS[:100], LABELS[:100])


def test_features_of_a_stopped_fit_are_made_again_as_they_were(tmp_path, monkeypatch):
    """Not with the usual parameters: a linear fit went on with the sums of kernel values, and its map was wrong."""
    fit = {"n_neighbors": 14, "n_components": 2, "kernel": "rbf", "nystrom": 30, "store": tmp_path / "run"}

    def stop(stage, done, total):
        if stage == "map":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        IsometricProjection(**fit, progress=stop).fit(DIGITS[:200])
    damage(tmp_path / "run", "feature_mean")
    assert repair(str(tmp_path / "run"))[0]
    with pytest.raises(StoreMismatchError, match="kernel"):
        IsometricProjection(14, 2, store=tmp_path / "run").fit(DIGITS[:200])
    expected = IsometricProjection(14, 2, kernel="rbf", nystrom=30).fit(DIGITS[:200])
    assert np.array_equal(IsometricProjection(**fit).fit(DIGITS[:200]).embedding_, expected.embedding_)


@pytest.mark.parametrize("name", ["vectors", "eigenvalues", "means", "projected_kernel"])
def test_a_model_whose_distances_are_gone_is_repaired(name, tmp_path):
    model = IsometricProjection(14, 2, ridge="loo", store=tmp_path / "run").fit(DIGITS[:200])
    expected = model.embedding_
    damage(tmp_path / "run", name)
    assert repair(str(tmp_path / "run"))[0] and not verify(str(tmp_path / "run")).damaged
    again = load(tmp_path / "run")
    assert_close(again.embedding_, expected, 1e-6)
    assert again.spectrum_["ridge"] == model.spectrum_["ridge"]


def test_sums_are_made_again_in_the_cut_that_they_had(tmp_path, monkeypatch):
    X = DIGITS[:300]
    with monkeypatch.context() as small:
        small.setattr("scalemani.steps.cuts.LARGEST_TILE", 32)
        first = IsometricProjection(14, 2, store=tmp_path / "run").fit(X).embedding_
    damage(tmp_path / "run", "projected_kernel")
    repair(str(tmp_path / "run"))
    assert np.array_equal(load(tmp_path / "run").embedding_, first)


def test_cosines_do_not_depend_on_the_size_of_rows():
    X = np.random.default_rng(0).standard_normal((200, 5))
    model = IsometricProjection(9, 2, kernel="cosine").fit(X)
    expected = model.transform(X[:5])
    for size in (1e-300, 1e-170, 1e-155, 1e155, 1e300):
        for kind in (np.asarray, sp.csr_array):
            np.testing.assert_allclose(
                model.transform(kind(X[:5] * size)), expected, atol=1e-9 * np.abs(expected).max()
            )


def test_sparse_rows_too_far_from_0_for_a_gaussian_kernel_are_told_so():
    X = np.random.default_rng(1).standard_normal((200, 5))
    X[:, 0] += 1e6
    assert np.isfinite(IsometricProjection(9, 2, kernel="rbf").fit(X).embedding_).all()
    with pytest.raises(ScalemaniError, match="bring X nearer to 0, or give it dense"):
        IsometricProjection(9, 2, kernel="rbf").fit(sp.csr_array(X))


def test_a_broken_power_of_negative_numbers_is_told_so():
    with pytest.raises(ScalemaniError, match="give a whole degree"):
        IsometricProjection(9, 2, kernel="poly", degree=0.5).fit(np.random.default_rng(0).standard_normal((60, 5)))


@pytest.mark.parametrize(
    ("given", "message"),
    [({"degree": None, "kernel": "poly"}, "is needed"), ({"ridge": np.ones(2)}, "allowed are 'loo', None")],
)
def test_parameters_that_are_no_numbers_are_refused_in_one_line(given, message):
    with pytest.raises(ScalemaniError, match=message):
        IsometricProjection(5, 2, **given).fit(DIGITS[:60])


def test_another_seed_goes_on_where_nothing_was_drawn(tmp_path):
    fit = {"n_neighbors": 14, "n_components": 2, "knn": "exact", "store": tmp_path / "run"}
    IsometricProjection(**fit, random_state=1).fit(DIGITS[:100])
    IsometricProjection(**fit, random_state=2, ridge=0.1).fit(DIGITS[:100])


def test_rows_that_the_metric_can_not_take_are_not_placed():
    model = IsometricProjection(14, 2, metric="hellinger").fit(DIGITS[:200])
    with pytest.raises(ScalemaniError, match="hellinger"):
        model.transform(-DIGITS[:3])


def test_a_pipeline_may_keep_its_labels_to_itself():
    X, y = DIGITS[:200], LABELS[:200]
    alone = IsometricProjection(14, 2, supervised=False).fit(X, y + 0.5)
    assert np.array_equal(alone.embedding_, IsometricProjection(14, 2).fit(X).embedding_)


def test_a_class_that_falls_apart_is_told_of_and_no_edges_are_looked_for_that_leap():
    X, y = np.vstack([DIGITS[:60], DIGITS[60:90] + 100]), np.repeat([0, 1, 1], 30)
    with pytest.warns(ScalemaniWarning, match="the class '1' of y falls apart"):
        model = IsometricProjection(8, 2).fit(X, y)
    assert model.spectrum_["n_classes"] == 2 and model.spectrum_["n_bridges"] and "n_shortcuts" not in model.spectrum_
    assert model.spectrum_["class_distance"] == pytest.approx(np.nanmax(model.geodesics(range(90))))
    with pytest.raises(ScalemaniError, match="shortcuts='remove' with labels"):
        IsometricProjection(8, 2, shortcuts="remove").fit(X, y)


def test_the_plan_counts_what_is_left_on_the_disk_and_what_wide_rows_take(tmp_path):
    X = np.random.default_rng(0).standard_normal((900, 12))
    for given in ({}, {"landmarks": 240}, {"kernel": "rbf"}, {"kernel": "rbf", "landmarks": 100, "nystrom": 400}):
        model = IsometricProjection(8, 2, store=tmp_path / "run", overwrite=True, **given)
        planned = model.plan(X).record()["disk"]
        model.fit(X)
        left = sum(file.stat().st_size for file in (tmp_path / "run").rglob("*") if file.is_file())
        assert left <= 1.05 * planned + 100_000, given
    wide = IsometricProjection(5, 2).plan(np.random.default_rng(0).standard_normal((60, 30_000)).astype("f4"))
    assert sum(wide.record()["memory"]["features"].values()) < 400 << 20


def test_full_lda_is_the_limit_of_the_supervised_map():
    """Where there are more features than rows each class is one point: the least-norm map onto a simplex."""
    rng = np.random.default_rng(0)
    X, T, y = rng.standard_normal((40, 60)), rng.standard_normal((30, 60)), np.arange(40) % 4
    model = IsometricProjection(5, 3, ridge=0).fit(X, y)
    simplex = np.eye(4)[y] * model.spectrum_["class_distance"] / 2**0.5
    mean = X.mean(axis=0)
    lda = (T - mean) @ np.linalg.pinv(X - mean) @ (simplex - simplex.mean(axis=0))
    np.testing.assert_allclose(pdist(model.transform(T)), pdist(lda), rtol=5e-3)


@pytest.mark.slow
def test_what_worker_processes_warn_of_is_said_here_and_once():
    from distributed import LocalCluster

    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", **addresses) as local:
        model = IsometricProjection(14, 2, kernel="rbf", scheduler=local.scheduler_address).fit(DIGITS[:200])
        with pytest.warns(OutOfReachWarning) as said:
            model.transform(np.repeat(DIGITS[:1000] + 1000, 10, axis=0))
    assert len(said) == 1


def test_data_arrays_go_in_and_come_out():
    import xarray as xr

    from scalemani.xarray import isometric_projection, transform

    da = xr.DataArray(DIGITS[:200], dims=("image", "pixel"), coords={"kind": ("image", LABELS[:200])})
    found = isometric_projection(da, labels=da["kind"], n_neighbors=8, n_components=3)
    model = IsometricProjection(8, 3).fit(DIGITS[:200], LABELS[:200])
    assert np.array_equal(found.values, model.embedding_) and found.dims == ("image", "component")
    assert found.name == "isometric_projection" and found.attrs["ridge"] == 1e-3 and "correction" not in found.attrs
    np.testing.assert_array_equal(transform(model, da[:5]).values, model.transform(DIGITS[:5]))
