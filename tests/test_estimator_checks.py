"""The estimators keep scikit-learn's conventions, and travel by their store's path."""

import copy
import gc
import os
import pickle
import shutil
import subprocess
import sys

import joblib
import numpy as np
import pytest
from data import roll
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from scalemani import Isomap, KernelChoice, KernelIsomap, StressIsomap, load
from scalemani import model as run
from scalemani.errors import ScalemaniError

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

#: Checks that may fail, each with its reason. scikit-learn's own Isomap has none, and neither have these.
EXPECTED_FAILURES: dict[str, str] = {}

X = roll(80)


def checked(estimator):
    """scikit-learn's checks of one estimator, as parameters of a test."""
    quiet = (
        "ignore::sklearn.exceptions.SkipTestWarning",
        "ignore::scalemani.errors.RankWarning",  # some checks fit one feature or two clusters of points
        "ignore::scalemani.errors.LooksLikeDistancesWarning",  # one fits a kernel matrix
    )
    made = parametrize_with_checks([estimator], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)

    def decorate(test):
        for line in quiet:
            test = pytest.mark.filterwarnings(line)(test)
        return made(test)

    return decorate


@pytest.mark.slow
@checked(KernelIsomap(n_neighbors=5, disconnected="join"))
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.long  # the same code but for a parameter
@checked(Isomap(n_neighbors=5, disconnected="join"))
def test_scikit_learns_own_checks_of_isomap(estimator, check):
    check(estimator)


@pytest.mark.long  # minutes
@pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")  # a few of its planes are near chance
@checked(KernelChoice("linear", [4, 10, 15, 30], folds=3))  # sets of 10 rows and more, in up to three clusters
def test_scikit_learns_own_checks_of_a_choice_of_kernel(estimator, check):
    check(estimator)


@pytest.mark.long
@checked(StressIsomap(n_neighbors=5, disconnected="join"))
def test_scikit_learns_own_checks_of_raw_stress(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return KernelIsomap(n_neighbors=8, n_components=3, store=tmp_path_factory.mktemp("m") / "run.zarr").fit(X)


@pytest.mark.parametrize("kind", [KernelIsomap, Isomap])
def test_parameters_go_in_and_come_out_as_they_are(kind, tmp_path):
    given = {
        "n_neighbors": 7,
        "n_components": 3,
        "metric": "manhattan",
        "metric_params": {"a": [1]},
        "graph": "mutual",
        "disconnected": "largest",
        "projection": "paper",
        "knn": "exact",
        "tol": 1e-4,
        "store": tmp_path,
        "memory_limit": "1GB",
        "random_state": 3,
        "progress": print,
        "overwrite": True,
        "keep_distances": False,
    }
    made = kind(**given)
    for name, value in given.items():
        assert made.get_params()[name] is value  # nothing is checked, converted or copied before fit
    copied = clone(made)
    assert {**copied.get_params(), "metric_params": None} == {**made.get_params(), "metric_params": None}
    assert not hasattr(copied, "embedding_")


def test_isomap_has_no_correction():
    assert set(KernelIsomap().get_params()) - set(Isomap().get_params()) == {"correction", "constant_solver"}
    ours = Isomap(n_neighbors=8).fit(X)
    assert ours.additive_constant_ == 0
    same = KernelIsomap(n_neighbors=8, correction=None).fit(X)
    np.testing.assert_array_equal(ours.embedding_, same.embedding_)


def test_before_fit_every_use_says_so():
    for name, arguments in (("transform", [X]), ("geodesics", [[0]]), ("export", ["x"]), ("transform_to", [X, "x"])):
        with pytest.raises(NotFittedError):
            getattr(KernelIsomap(), name)(*arguments)


def test_output_is_a_data_frame_where_that_is_set(model):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, index=[f"row {i}" for i in range(len(X))], columns=["x", "y", "z"])
    named = KernelIsomap(n_neighbors=8, n_components=3).set_output(transform="pandas")
    fitted = named.fit_transform(frame)
    names = ["kernelisomap0", "kernelisomap1", "kernelisomap2"]
    assert list(fitted.columns) == names == list(model.get_feature_names_out())
    assert list(fitted.index) == list(frame.index)
    assert list(named.feature_names_in_) == ["x", "y", "z"]
    out = named.transform(frame.iloc[:5])
    assert list(out.columns) == names and list(out.index) == list(frame.index[:5])
    np.testing.assert_array_equal(out.to_numpy(), named.set_output(transform="default").transform(frame.iloc[:5]))
    assert list(Isomap(n_neighbors=8, n_components=1).fit(X).get_feature_names_out()) == ["isomap0"]


def test_a_pickle_holds_the_path_and_not_the_arrays(model):
    text = pickle.dumps(model)
    assert len(text) < 20_000 + 2 * model.embedding_.nbytes
    assert model.store_.encode() in text
    there = pickle.loads(text)
    np.testing.assert_array_equal(there.embedding_, model.embedding_)
    np.testing.assert_array_equal(there.transform(X[:9] + 0.1), model.transform(X[:9] + 0.1))
    np.testing.assert_array_equal(there.geodesics([3]), model.geodesics([3]))


@pytest.mark.slow
def test_joblib_and_another_process_read_the_same_model(model, tmp_path):
    joblib.dump(model, tmp_path / "model.joblib")
    np.save(tmp_path / "t.npy", X[:4] + 0.1)
    program = (
        "import joblib, numpy as np, sys; d = sys.argv[1]; m = joblib.load(d + '/model.joblib'); "
        "np.save(d + '/y.npy', m.transform(np.load(d + '/t.npy')))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model.transform(X[:4] + 0.1))


def test_a_deep_copy_is_the_same_model(model):
    np.testing.assert_array_equal(copy.deepcopy(model).transform(X[:5]), model.transform(X[:5]))


@pytest.mark.slow
def test_copies_and_pickles_of_a_model_without_a_store_outlive_it(monkeypatch):
    """The pickle has the model but for D: coordinates, projections and distances along the graph are the same bits."""
    points = roll(1000)  # D would be 4 MB
    model = KernelIsomap(n_neighbors=8).fit(points)
    copies, text = [copy.deepcopy(model), copy.copy(model)], pickle.dumps(model)
    expected, path = model.transform(X), model.store_
    near, geodesics, spectrum = model.embedding_, model.geodesics([0, 7], stored=False), model.spectrum_
    assert len(text) < 600_000
    monkeypatch.setattr(run, "PICKLE_BYTES", 50_000)
    with pytest.raises(
        ScalemaniError, match=r"[\d,]+ bytes, and a pickle carries 50,000 at most; give fit a store path"
    ):
        pickle.dumps(model)
    monkeypatch.undo()
    del model
    gc.collect()
    while copies:
        np.testing.assert_array_equal(copies.pop().transform(X), expected)
    gc.collect()
    assert not os.path.exists(path)
    there = pickle.loads(text)
    again = pickle.loads(pickle.dumps(there))
    first = there.store_
    assert len({path, first, again.store_}) == 3
    for one in (there, again):
        np.testing.assert_array_equal(one.embedding_, near)
        np.testing.assert_array_equal(one.transform(X), expected)
        np.testing.assert_array_equal(one.geodesics([0, 7]), geodesics)
        assert one.spectrum_ == spectrum
    del there, one
    gc.collect()
    assert not os.path.exists(first)
    np.testing.assert_array_equal(again.transform(X), expected)


def test_a_pickle_of_a_store_that_was_fitted_again_or_is_gone_is_refused(tmp_path):
    model = KernelIsomap(n_neighbors=8, store=tmp_path / "r").fit(X)
    text = pickle.dumps(model)
    KernelIsomap(n_neighbors=9, store=tmp_path / "r", overwrite=True).fit(X)
    for wrong in (lambda: pickle.loads(text), lambda: pickle.dumps(model)):
        with pytest.raises(ScalemaniError, match="was fitted again since this model was made"):
            wrong()
    shutil.rmtree(tmp_path / "r")
    with pytest.raises(ScalemaniError, match="nothing is there"):
        pickle.loads(text)


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_models_come_back_from_worker_processes(model):
    """As scikit-learn's own: unions, votes and grid searches with n_jobs=2; a metric in a closure goes along."""
    weights = np.array([1.0, 1.0, 0.5])
    own = Isomap(n_neighbors=8, metric=lambda x, y: float((weights * np.abs(x - y)).sum()))
    labels = (X[:, 1] > np.median(X[:, 1])).astype(int)
    union = FeatureUnion([("i", KernelIsomap(n_neighbors=8, n_components=3)), ("own", own)], n_jobs=2).fit(X)
    np.testing.assert_array_equal(union.transform(X[:9])[:, :3], model.transform(X[:9]))
    np.testing.assert_array_equal(union.transform(X[:9])[:, 3:], own.fit(X).transform(X[:9]))
    pipe = make_pipeline(KernelIsomap(n_neighbors=8), KNeighborsClassifier())
    votes = [VotingClassifier([("a", pipe), ("b", pipe)], n_jobs=jobs).fit(X, labels).predict(X) for jobs in (None, 2)]
    np.testing.assert_array_equal(*votes)
    grid = {"kernelisomap__n_neighbors": [7, 8]}
    scores = [
        GridSearchCV(pipe, grid, n_jobs=jobs, cv=2).fit(X, labels).cv_results_["mean_test_score"] for jobs in (None, 2)
    ]
    np.testing.assert_array_equal(*scores)


def test_a_grid_search_at_one_store_is_told_to_leave_it_out(tmp_path):
    search = GridSearchCV(
        make_pipeline(KernelIsomap(n_neighbors=8, store=tmp_path / "r"), KNeighborsClassifier()),
        {"kernelisomap__n_components": [1, 2]},
        cv=2,
        error_score="raise",
    )
    with pytest.raises(ScalemaniError, match="in a grid search leave store=None"):
        search.fit(X, (X[:, 1] > np.median(X[:, 1])).astype(int))


def test_load_gives_the_fitted_estimator_back(model):
    there = load(model.store_)
    assert type(there) is KernelIsomap
    passing = {"store", "scheduler", "memory_limit", "progress", "overwrite"}
    kept = {name: value for name, value in model.get_params().items() if name not in passing}
    assert {name: value for name, value in there.get_params().items() if name not in passing} == kept
    for name in ("embedding_", "eigenvalues_", "residuals_", "kept_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(model, name))
    names = ("additive_constant_", "n_passes_", "knn_recall_", "spectrum_", "store_", "random_state_", "n_features_in_")
    for name in names:
        assert getattr(there, name) == getattr(model, name)
    np.testing.assert_array_equal(there.transform(X + 0.1), model.transform(X + 0.1))


def test_attributes_have_the_shapes_and_meanings_that_are_documented(model):
    assert model.embedding_.shape == (80, 3) and model.embedding_.dtype == np.float64
    assert (np.diff(model.eigenvalues_) <= 0).all() and model.eigenvalues_.shape == model.residuals_.shape == (3,)
    np.testing.assert_allclose((model.embedding_**2).sum(0), model.eigenvalues_, rtol=1e-9)  # Y'Y = Λ
    np.testing.assert_allclose(model.embedding_.sum(0), 0, atol=1e-9 * np.abs(model.embedding_).max())
    biggest = np.abs(model.embedding_).argmax(0)
    assert (model.embedding_[biggest, range(3)] > 0).all()
    assert (model.residuals_ <= model.tol).all()
    np.testing.assert_array_equal(model.kept_, np.arange(80))
    assert model.additive_constant_ == model.spectrum_["additive_constant"]
    assert model.knn_recall_ == 1.0 and model.n_passes_ == 0 and model.random_state_ == 0
    D = model.geodesics(np.arange(80))
    np.testing.assert_allclose(D, D.T, rtol=1e-6)
    off = D[~np.eye(80, dtype=bool)]
    np.testing.assert_allclose(model.spectrum_["median_distance"], np.median(off), rtol=0.05)
    c = model.additive_constant_
    squares = ((off + c) ** 2).sum()
    np.testing.assert_allclose(model.spectrum_["trace"], squares / 160, rtol=1e-6)
    np.testing.assert_allclose(model.spectrum_["share"], model.eigenvalues_ / model.spectrum_["trace"], rtol=1e-12)


@pytest.mark.slow
def test_it_stands_in_a_pipeline_and_in_a_search():
    y = (X[:, 0] > 0).astype(int)
    chain = make_pipeline(StandardScaler(), Isomap(n_neighbors=8), KNeighborsClassifier(3)).fit(X, y)
    assert chain.score(X, y) > 0.9
    search = GridSearchCV(chain, {"isomap__n_components": [1, 3]}, cv=2).fit(X, y)
    assert search.best_params_["isomap__n_components"] in (1, 3)


def test_fitting_again_replaces_every_result():
    model = KernelIsomap(n_neighbors=8, n_components=2).fit(X)
    first = model.store_
    model.set_params(n_components=1).fit(X[:60, :2])
    assert model.embedding_.shape == (60, 1) and model.n_features_in_ == 2 and model.store_ != first
    gc.collect()
    assert not os.path.exists(first)
