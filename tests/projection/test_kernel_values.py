"""Values of a method's kernel are those of its formula, have the model's eigenpairs, and place new rows as it does.

The oracle is the formula on dense D: K = -1/2 J A J, A = (d + c)² or d² + 2s off the diagonal; L+ by a dense inverse.
"""

import contextlib

import dask.array as da
import numpy as np
import pytest
import zarr
from data import roll, two
from scipy.spatial.distance import cdist
from sklearn.decomposition import KernelPCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from scalemani import LLE, Isomap, IsometricProjection, KernelIsomap, LaplacianEigenmaps, StressIsomap, load
from scalemani.cluster import choice, machine
from scalemani.errors import DoesNotFitError, OutOfReachWarning, ScalemaniError, UnreachableWarning
from scalemani.projection import long
from scalemani.storage.run import RunStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.LooksLikeDistancesWarning"),
]

X, T = roll(150), roll(40, seed=1)
CORRECTIONS = ("cailliez", 4.0, "lingoes", "flip", None)
DEFINITE = ("cailliez", "lingoes", "flip")
EXACT = 1e-6  # of the largest value: D is float32


def fitted(store, **parameters):
    return KernelIsomap(**{"n_neighbors": 8, "n_components": 3, "store": store, **parameters}).fit(X)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def model(stores):
    """A model that no test may change."""
    return fitted(stores / "model.zarr")


def centered(A):
    J = np.eye(len(A)) - 1 / len(A)
    return -0.5 * J @ A @ J


def expected(model):
    """K of the training rows, by its formula."""
    found = model.spectrum_
    D, s = model.geodesics(np.arange(len(X))), found["lingoes_constant"]
    K = centered(((D + found["additive_constant"]) ** 2 + 2 * s) * (1 - np.eye(len(D))))
    if found["correction"] == "flip":
        values, V = np.linalg.eigh(K)
        K = (V * np.abs(values)) @ V.T
    return K


def assert_same(ours, theirs, relative=EXACT):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=relative * np.abs(theirs).max())


# ---- Isomap ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["continuous", "paper"])
@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
def test_the_kernel_has_the_models_eigenpairs_and_places_new_rows_as_the_model_does(stores, correction, form):
    model = fitted(stores / "corrections.zarr", correction=correction, projection=form)
    K, values = model.kernel(), model.eigenvalues_
    assert_same(K, expected(model))
    V = model.embedding_ / np.sqrt(np.abs(values))
    assert_same(K @ V, V * np.abs(values) if correction == "flip" else V * values)
    lowest, highest = np.linalg.eigvalsh(K)[[0, -1]]
    assert highest == pytest.approx(np.abs(values).max(), rel=EXACT)
    assert (lowest >= -EXACT * highest) == (correction in DEFINITE)
    assert correction in DEFINITE or lowest < -0.01 * highest
    gains, nugget = 1 / np.sqrt(np.abs(values)), model.spectrum_["shift"]
    if form == "continuous":
        gains = np.sqrt(np.abs(values)) / (np.abs(values) - nugget)
    assert_same(model.kernel(T) @ V * gains, model.transform(T))
    of_rows = K if form == "paper" else K - nugget * (np.eye(len(X)) - 1 / len(X))
    assert_same(model.kernel(X), of_rows)


def test_values_of_new_rows_are_those_of_their_geodesics(model):
    D, c = model.geodesics(np.arange(len(X))), model.additive_constant_
    near = cdist(T, X)
    nearest = np.argsort(near, axis=1)[:, :8]
    d = np.min([near[np.arange(len(T)), nearest[:, [j]].T][0][:, None] + D[nearest[:, j]] for j in range(8)], axis=0)
    means = ((D + c) ** 2 * (1 - np.eye(len(D)))).mean(axis=0)
    k = -0.5 * ((d + c) ** 2 - means)
    assert_same(model.kernel(T), k - k.mean(axis=1, keepdims=True))


def test_values_are_the_same_bits_in_memory_in_zarr_lazily_by_rows_and_in_groups(model, tmp_path, monkeypatch):
    K, of_new = model.kernel(), model.kernel(T)
    np.testing.assert_array_equal(model.kernel(B=T), of_new.T)
    np.testing.assert_array_equal(np.concatenate([model.kernel(T[i : i + 1]) for i in range(len(T))]), of_new)
    lazy = model.kernel(da.from_array(T, chunks=(7, 2)))
    assert isinstance(lazy, da.Array) and lazy.shape == of_new.shape
    np.testing.assert_array_equal(lazy.compute(scheduler="threads"), of_new)
    np.testing.assert_array_equal(model.kernel(B=da.from_array(T, chunks=(9, 3))).compute(), of_new.T)
    zarr.create_array(str(tmp_path / "T"), data=T, chunks=(6, 3))
    monkeypatch.setattr(long, "GROUP_BYTES", 8 * len(X) * 30)  # groups of 30 rows
    np.testing.assert_array_equal(model.kernel_to(tmp_path / "new", zarr.open_array(tmp_path / "T"))[:], of_new)
    made = model.kernel_to(tmp_path / "K")
    assert made.chunks[0] <= 30
    np.testing.assert_array_equal(made[:], K)
    monkeypatch.setattr(choice, "SMALL", 0)  # a cluster of threads, and not this thread alone
    np.testing.assert_array_equal(model.kernel(), K)
    np.testing.assert_array_equal(model.kernel(T), of_new)


def test_a_kernel_that_was_stopped_goes_on(model, tmp_path, monkeypatch):
    monkeypatch.setattr(long, "GROUP_BYTES", 8 * len(X) * 30)
    said = []

    def report(stage, done, total):
        said.append(done)
        if done > 60 and len(said) < 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model._run.kernel_to(tmp_path / "K", report=report)
    assert not (tmp_path / "K").exists()
    found = model._run.kernel_to(tmp_path / "K", report=lambda *of: said.append(of[1]))
    np.testing.assert_array_equal(found[:], model.kernel())
    assert [path.name for path in tmp_path.iterdir()] == ["K"]


def test_without_D_rows_come_from_the_graph(model, tmp_path):
    model.export(tmp_path / "copy.zarr")
    copy = load(tmp_path / "copy.zarr")
    assert_same(copy.kernel(), model.kernel())
    np.testing.assert_array_equal(copy.kernel(T), model.kernel(T))
    np.testing.assert_array_equal(load(model.store_).kernel(), model.kernel())


@pytest.mark.parametrize("metric", ["precomputed", "geodesic"])
def test_given_distances_have_the_same_kernel(model, metric):
    D = cdist(X, X) if metric == "precomputed" else model.geodesics(np.arange(len(X)))
    given = KernelIsomap(n_neighbors=8, n_components=3, metric=metric).fit(D)
    assert_same(given.kernel(), model.kernel())
    assert_same(given.kernel(D[:9]), model.kernel(X[:9]), 1e-5)


def test_no_kernel_reads_a_D_that_was_computed_and_flip_finds_its_eigenpairs_once(stores, tmp_path, monkeypatch):
    model, found, eigh = fitted(stores / "once.zarr", correction="flip"), [], np.linalg.eigh
    monkeypatch.setattr(RunStore, "read_rows", lambda *of: pytest.fail("tiles of D are read"))
    monkeypatch.setattr(np.linalg, "eigh", lambda K: found.append(K.shape) or eigh(K))
    monkeypatch.setattr(long, "GROUP_BYTES", 8 * len(X) * 30)
    model.kernel_to(tmp_path / "K")
    model.kernel(T)
    assert found == [(150, 150)]


def test_flip_has_the_same_bits_whatever_threads_BLAS_has(stores, tmp_path):
    model, found = fitted(stores / "threads.zarr", correction="flip"), []
    for threads in (1, 2):
        model.export(tmp_path / f"{threads}.zarr")
        with threadpool_limits(threads, user_api="blas"):
            copy = load(tmp_path / f"{threads}.zarr")
            found.append((copy.kernel(), copy.kernel(da.from_array(T)).compute(scheduler="synchronous")))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_corrections_with_the_same_axes_have_kernels_of_their_own(stores):
    flip = fitted(stores / "same.zarr", n_components=1, correction="flip")
    flipped = flip.kernel()
    none = fitted(stores / "same.zarr", n_components=1, correction=None)
    np.testing.assert_array_equal(none.embedding_, flip.embedding_)
    assert_same(none.kernel(), expected(none))
    assert np.abs(none.kernel() - flipped).max() > 0.01 * np.abs(flipped).max()
    with pytest.raises(ScalemaniError, match="fitted again"):
        flip.kernel()


def test_conformal_edges_and_a_kernel_without_a_constant():
    model = Isomap(n_neighbors=8, edge_weights="conformal").fit(X)
    assert_same(model.kernel(), expected(model))
    V = model.embedding_ / np.sqrt(model.eigenvalues_)
    assert_same(model.kernel(T) @ V / np.sqrt(model.eigenvalues_), model.transform(T))


def test_twins_have_the_same_values_and_rows_without_a_path_have_none():
    rows = np.concatenate([X, X[:20]])
    model = KernelIsomap(n_neighbors=8).fit(rows)
    K = model.kernel()
    np.testing.assert_array_equal(K[:20], K[len(X) :])
    np.testing.assert_array_equal(K[:, :20], K[:, len(X) :])
    apart = two(101)
    model = KernelIsomap(n_neighbors=6, disconnected="largest").fit(apart)
    kept = np.zeros(101, bool)
    kept[model.kept_] = True
    with pytest.warns(UnreachableWarning, match="50 of 101 rows have no place in the graph: their kernel values"):
        K = model.kernel()
    np.testing.assert_array_equal(np.isfinite(K), kept[:, None] & kept)


def test_scikit_learns_kernel_PCA_and_support_vector_machine_take_the_kernel(model):
    pca = KernelPCA(3, kernel="precomputed").fit(model.kernel())
    assert_same(np.abs(pca.transform(model.kernel())), np.abs(model.embedding_))
    nuggetless = 1 - model.spectrum_["shift"] / model.eigenvalues_
    assert_same(np.abs(pca.transform(model.kernel(T))), np.abs(model.transform(T) * nuggetless))
    labels = X[:, 0] > np.median(X[:, 0])
    alone = SVC(kernel="precomputed").fit(model.kernel(), labels)
    chained = make_pipeline(FunctionTransformer(model.kernel), SVC(kernel="precomputed")).fit(X, labels)
    for learner, rows in ((alone, model.kernel(T)), (chained, T)):
        assert learner.score(rows, T[:, 0] > np.median(X[:, 0])) > 0.85


# ---- Laplacian eigenmaps ---------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"weights": "gaussian", "scale": "walk"}], ids=["plain", "gaussian"])
def test_the_kernel_of_laplacian_eigenmaps_is_the_pseudo_inverse(parameters):
    model = LaplacianEigenmaps(n_neighbors=8, n_components=3, **parameters).fit(X)
    K, numbers = model.kernel(), np.arange(len(X))
    R = model.commute_times(numbers[:, None], numbers)
    assert_same(K, centered(R), 1e-10)  # squared distances of the kernel, whose columns sum to 0
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -EXACT * values[-1]
    assert_same(values[::-1][:3] / values[-1], model.eigenvalues_[0] / model.eigenvalues_, 1e-9)
    of_new = model.kernel(T)
    np.testing.assert_array_equal(model.kernel(T[5:6])[0], of_new[5])
    assert_same(model.kernel(X), K, 1e-12)
    if not parameters:  # weights of 1: the mean of the nearest training rows
        nearest = np.argsort(cdist(T, X), axis=1)[:, :8]
        assert_same(of_new, K[nearest].mean(axis=1), 1e-10)
        for rows in (X[:1] + 1e3, da.from_array(X[:1] + 1e3)):
            with pytest.warns(OutOfReachWarning, match="1 of 1 rows of A .* their kernel values say little"):
                np.asarray(model.kernel(rows))


# ---- what is refused -------------------------------------------------------------------------------


def refusals(stores):
    model, small = load(stores / "model.zarr"), load(stores / "model.zarr").set_params(memory_limit="100kB")
    landmarks = KernelIsomap(n_neighbors=8, landmarks=30).fit(X)
    given = KernelIsomap(metric="geodesic", keep_distances=False).fit(cdist(X, X))
    yield lambda out: model.kernel(T, T), ScalemaniError, "A and B are given"
    yield lambda out: model.kernel(T[:, :2]), ScalemaniError, "A has 2 features"
    yield lambda out: model.kernel(B=np.where(T > 0, T, np.nan)), ScalemaniError, "Input B contains NaN"
    yield lambda out: model.kernel_to(out, T[:, :2]), ScalemaniError, "A has 2 features"
    yield lambda out: small.kernel(), DoesNotFitError, r"180,000 bytes and memory_limit allows 100,000.*kernel_to"
    yield lambda out: landmarks.kernel(), ScalemaniError, "fit without landmarks"
    yield lambda out: landmarks.kernel_to(out, T), ScalemaniError, "fit without landmarks"
    yield lambda out: given.kernel_to(out), ScalemaniError, "D was given and is not kept"
    stress = StressIsomap(n_neighbors=8).fit(X)
    yield lambda out: stress.kernel(T), ScalemaniError, "stress gives no kernel"
    for other in (stress, IsometricProjection(n_neighbors=8).fit(X)):
        yield other.kernel_to, ScalemaniError, "gives no kernel"
    local = LLE(n_neighbors=8).fit(X)
    yield lambda out: local.kernel_to(out, T), ScalemaniError, "lle gives no kernel values of new rows"
    for parameters in ({"normalized": True}, {"alpha": 1.0}, {"landmarks": 40}):
        other = LaplacianEigenmaps(n_neighbors=8, **parameters).fit(X)
        yield other.kernel_to, ScalemaniError, "without normalized, alpha and landmarks"


def test_what_has_no_kernel_is_refused_in_a_line_before_any_file(stores, model, tmp_path):
    for call, kind, cause in refusals(stores):
        with pytest.raises(kind, match=cause) as caught:
            call(tmp_path / "out")
        assert "\n" not in str(caught.value)
        assert not [*tmp_path.iterdir()]


def test_flip_is_refused_where_all_eigenpairs_do_not_fit(stores, monkeypatch):
    model = fitted(stores / "flip.zarr", correction="flip")
    with monkeypatch.context() as patched, contextlib.ExitStack() as held:
        patched.setattr(machine, "free_memory", lambda: 10**6)
        held.enter_context(pytest.raises(DoesNotFitError, match="takes all 150 eigenpairs"))
        model.kernel(T)
    assert model.kernel(T).shape == (40, 150)
