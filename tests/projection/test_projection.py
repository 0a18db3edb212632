"""Test points are placed as step 7 says: training rows land on themselves, all others on the same scale."""

import warnings

import dask.array as da
import naive
import numpy as np
import pytest
import scipy.sparse as sp
from data import flat, roll, two
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import RankWarning, ScalemaniError, UnreachableWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.LooksLikeDistancesWarning"),
]

X = roll(120)
T = roll(40, seed=1)
FORMS = ("continuous", "paper")


def graph_of_rows(points, k):
    """The union graph of k nearest others, as SciPy sparse."""
    D = cdist(points, points)
    near = np.argsort(D, axis=1)[:, 1 : k + 1]
    rows = np.repeat(np.arange(len(points)), k)
    listed = sp.csr_array((D[rows, near.ravel()], (rows, near.ravel())), shape=D.shape)
    return sp.csr_array(listed.maximum(listed.T)), D


def assert_same(ours, theirs, relative=1e-5):
    """To 1e-5 of the scale: d is float32 in the tiles (6e-8) and in the projection, and V'k_t amplifies it by λ1/λp."""
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=relative * np.nanmax(np.abs(theirs)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that no test may change."""
    return KernelIsomap(n_neighbors=8, n_components=3, store=tmp_path_factory.mktemp("run") / "run.zarr").fit(X)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((g, c, f), marks=[] if c == "cailliez" or (g, f) == ("union", "continuous") else pytest.mark.slow)
        for g in ("union", "mutual")
        for c in ("cailliez", 4.0, None)
        for f in FORMS
    ],
    ids=lambda param: "-".join(map(str, param)),
)
def fitted(request, stores):
    """A model, its kind of graph and its form of projection. Fits on one graph are solved on one D."""
    graph, correction, form = request.param
    arguments = {"graph": graph, "disconnected": "join", "correction": correction, "projection": form}
    return KernelIsomap(n_neighbors=8, n_components=3, store=stores / graph, **arguments).fit(X), graph, form


# ---- training rows land on themselves ------------------------------------------------------------


def test_training_rows_land_on_themselves(fitted):
    # Under a mutual graph many points are joined to fewer points than they list: attached through
    # their lists they would get shorter paths.
    model = fitted[0]
    assert_same(model.transform(X), model.embedding_)


@pytest.mark.parametrize("form", FORMS)
def test_training_rows_of_sparse_counts_land_on_themselves_under_cosine(form):
    counts = sp.random_array((90, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    model = KernelIsomap(n_neighbors=8, metric="cosine", disconnected="join", projection=form).fit(counts)
    for rows in (counts, counts.toarray(), sp.coo_array(counts)):
        assert_same(model.transform(rows), model.embedding_)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "arguments",
    [{"metric": "precomputed"}, {"metric": "precomputed", "n_neighbors": None, "radius": 9.0}, {"metric": "geodesic"}],
)
def test_training_rows_of_distances_land_on_themselves(arguments, form):
    D = cdist(X, X)
    model = KernelIsomap(**{"n_neighbors": 8, "n_components": 3, "projection": form, **arguments}).fit(D)
    assert_same(model.transform(D), model.embedding_)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_distances_are_projected_into_a_given_graph(form, run):
    G, D = graph_of_rows(X, 8)
    model = KernelIsomap(metric="precomputed", n_neighbors=8, n_components=3, projection=form).fit(G)
    assert_same(model.transform(D), model.embedding_)
    points = run
    if form == "paper":
        points = KernelIsomap(n_neighbors=8, n_components=3, projection=form).fit(X)
    assert_same(model.transform(cdist(T, X)), points.transform(T))


def test_a_radius_graph_takes_test_points_by_its_radius():
    model = KernelIsomap(n_neighbors=None, radius=9.0, n_components=3).fit(X)
    assert_same(model.transform(X), model.embedding_)
    D = model.geodesics(np.arange(len(X)))
    near = cdist(T, X)
    d = np.array([(near[i][near[i] <= 9.0][:, None] + D[near[i] <= 9.0]).min(0) for i in range(len(T))])
    assert_same(model.transform(T), naive_projection(D, d, model.additive_constant_, 3, model.embedding_))


def test_twins_have_the_same_coordinates_and_minus_zero_is_zero():
    rows = np.concatenate([X, X[:20]])
    rows[3, 1] = 0.0
    rows[len(X) + 3] = rows[3]
    rows[len(X) + 3, 1] = -0.0
    model = KernelIsomap(n_neighbors=8, n_components=3).fit(rows)
    assert model.spectrum_["n_distinct"] == len(X)
    np.testing.assert_array_equal(model.embedding_[:20], model.embedding_[len(X) :])
    placed = model.transform(rows)
    np.testing.assert_array_equal(placed[:20], placed[len(X) :])
    assert_same(placed, model.embedding_)
    for same in (rows.astype(object), np.asfortranarray(rows), rows.astype(np.longdouble), sp.csr_array(rows)):
        np.testing.assert_allclose(model.transform(same), placed, rtol=0, atol=1e-10)


def test_sparse_rows_of_distances_keep_their_zeros(run):
    """Stored entries are a test point's edges, and a stored 0 says which training point it is."""
    G, _ = graph_of_rows(X, 8)
    model = KernelIsomap(metric="precomputed", n_components=3).fit(G)
    own = sp.csr_array((np.zeros(120), np.arange(120), np.arange(121)), shape=(120, 120))
    assert_same(model.transform(own), model.embedding_)
    near = cdist(T, X)
    nearest = np.argsort(near, axis=1)[:, :8]
    lengths = np.take_along_axis(near, nearest, 1)
    edges = sp.csr_array((lengths.ravel(), nearest.ravel(), np.arange(0, 321, 8)), (40, 120))
    assert_same(model.transform(edges), run.transform(T))


def taxi(a, b):
    """A function is a metric."""
    return float(np.abs(a - b).sum())


def test_a_function_of_two_rows_is_projected_too(tmp_path):
    model = KernelIsomap(n_neighbors=8, metric=taxi, store=tmp_path / "r").fit(X)
    assert_same(model.transform(X), model.embedding_)
    named = KernelIsomap(n_neighbors=8, metric="manhattan").fit(X)
    assert_same(model.transform(T), named.transform(T))
    try:
        there = load(tmp_path / "r").transform(T)
    except ScalemaniError as error:  # a test module can't always be imported again
        assert "taxi" in str(error)
    else:
        np.testing.assert_array_equal(there, model.transform(T))


# ---- all other points are on the same scale ------------------------------------------------------


def naive_projection(D, d, c, p, embedding, form="continuous"):
    """Step 7, dense: D (n, n) training geodesics, d (l, n) of test points; signs from `embedding`."""
    n = len(D)
    K = naive.kernel(D, c)
    values, V = naive.top_pairs(K, p)
    V = V * np.sign((V * embedding).sum(0))
    means = (naive.shifted(D, c) ** 2).mean(0)
    shifted = d + c
    if form == "paper":
        shifted = np.where(d == 0, 0.0, shifted)
    k = -0.5 * (shifted**2 - means)
    k -= k.mean(1, keepdims=True)
    assert n == k.shape[1]
    if form == "paper":
        return k @ V / np.sqrt(values)
    return k @ V * np.sqrt(values) / (values - c * c / 2)


def test_held_out_points_are_where_the_dense_reference_puts_them(fitted):
    (model, graph, form), k = fitted, 8
    G, _ = graph_of_rows(X, k)
    D = model.geodesics(np.arange(len(X)))
    if graph == "union":
        np.testing.assert_allclose(D, naive.geodesics(G), rtol=1e-6)
    near = cdist(T, X)
    nearest = np.argsort(near, axis=1)[:, :k]  # a test point has k edges, whatever the training graph's kind
    d = np.array([(near[i, nearest[i]][:, None] + D[nearest[i]]).min(0) for i in range(len(T))])
    expected = naive_projection(D, d, model.additive_constant_, 3, model.embedding_, form)
    assert_same(model.transform(T), expected)


@pytest.fixture(scope="module")
def digits():
    images = load_digits().data
    order = np.random.default_rng(0).permutation(len(images))
    return images[order[:900]], images[order[900:]]


@pytest.fixture(scope="module")
def digits_models(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {
            form: KernelIsomap(n_neighbors=10, n_components=10, projection=form, store=folder / "run.zarr")
            .set_params(disconnected="join")
            .fit(digits[0])
            .transform(digits[1])
            for form in FORMS
        }
    return load(folder / "run.zarr"), made


def test_held_out_digits_are_spread_as_the_training_digits_are(digits, digits_models):
    """Training rows equal to themselves can't see a shrinkage: the spread of OTHER rows does."""
    model, placed = digits_models
    trained = model.embedding_
    solid = model.eigenvalues_ >= 2 * model.additive_constant_**2 / 2
    assert solid.sum() >= 3
    spread = np.std(placed["continuous"], axis=0) / np.std(trained, axis=0)
    assert ((0.85 < spread) & (spread < 1.15))[solid].all(), spread
    shrunk = np.std(placed["paper"], axis=0) / np.std(trained, axis=0)
    expected = 1 - model.additive_constant_**2 / (2 * model.eigenvalues_)
    np.testing.assert_allclose(shrunk / spread, expected, rtol=1e-3)
    assert shrunk[-1] < 0.75 * spread[-1] and shrunk[-1] < 0.75


def test_a_point_between_two_training_rows_lands_between_them():
    """On a line the exact answer is known, with and without the constant."""
    line = np.arange(40.0)[:, None] * [[3.0, 4.0]]
    model = Isomap(n_neighbors=2, n_components=1).fit(line)
    middle = model.transform((line[10:11] + line[11:12]) / 2)
    np.testing.assert_allclose(middle, model.embedding_[10:12].mean(0, keepdims=True), rtol=1e-6)


# ---- rows that have no place ---------------------------------------------------------------------


def test_no_rows_give_no_rows(run):
    assert run.transform(X[:0]).shape == (0, 3)
    assert run.transform(sp.csr_array((0, 3))).shape == (0, 3)
    assert run.transform(da.from_array(X[:0], chunks=(7, 3))).compute().shape == (0, 3)


def test_wrong_test_rows_are_named(run):
    for wrong, words in (
        (T[:, :2], "2 features.* 3 features"),
        (np.where(np.arange(40)[:, None] == 17, np.nan, T), "NaN at row 17, column 0"),
        (np.where(np.arange(40)[:, None] == 17, -np.inf, T), "inf at row 17, column 0"),
        (T[0], r"reshape\(1, -1\)"),
        (T * 1j, "omplex"),
        (T.astype(str), "dtype"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            run.transform(wrong)
        assert "\n" not in str(caught.value)


def test_rows_beyond_the_radius_are_nan_with_one_warning():
    model = KernelIsomap(n_neighbors=None, radius=9.0, n_components=2).fit(X)
    rows = np.concatenate([T[:3], T[:2] + 1e4, X[:1]])
    with pytest.warns(UnreachableWarning, match="2 of 6") as caught:
        placed = model.transform(rows)
    assert len(caught) == 1
    np.testing.assert_array_equal(np.isnan(placed).all(1), [False, False, False, True, True, False])
    assert_same(placed[5], model.embedding_[0])


def test_a_far_point_of_a_neighbour_graph_is_where_the_dense_reference_puts_it():
    model = Isomap(n_neighbors=8, n_components=2).fit(X)
    D = model.geodesics(np.arange(len(X)))
    far = X[:1] + [[1e4, 0, 0]]
    near = cdist(far, X)
    nearest = np.argsort(near[0])[:8]
    d = (near[0, nearest][:, None] + D[nearest]).min(0)[None]
    assert_same(model.transform(far), naive_projection(D, d, 0.0, 2, model.embedding_), 1e-2)  # d is float32 at 1e4


def test_rows_of_dropped_components_are_nan():
    rows = two(60)
    rows = np.concatenate([rows, rows[:10] + [[0, 500, 0]]])
    model = KernelIsomap(n_neighbors=5, disconnected="largest").fit(rows)
    lost = np.setdiff1d(np.arange(70), model.kept_)
    assert set(model.spectrum_["component_sizes"]) == {30, 10} and len(lost) == 40
    assert model.embedding_.shape == (70, 2)  # always a row for each row that came
    assert np.isnan(model.embedding_[lost]).all() and not np.isnan(model.embedding_[model.kept_]).any()
    with pytest.warns(UnreachableWarning, match=rf"{len(lost)} of 70") as caught:
        placed = model.transform(rows)
    assert len(caught) == 1
    assert_same(placed, model.embedding_)
    D = model.geodesics(np.arange(70))
    assert np.isnan(D[lost]).all() and np.isnan(D[:, lost]).all()
    assert np.isfinite(D[np.ix_(model.kept_, model.kept_)]).all()


def test_infinite_distances_between_components_are_accepted_as_in_the_fit():
    apart = cdist(X[:60], X[:60])
    apart[:20, 20:] = apart[20:, :20] = np.inf
    model = KernelIsomap(metric="geodesic", disconnected="largest").fit(apart)
    with pytest.warns(UnreachableWarning, match="20 of 60"):
        placed = model.transform(apart)
    assert_same(placed, model.embedding_)


def test_a_point_beyond_float32_is_said_to_be_so(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UnreachableWarning)
        placed = run.transform(np.full((1, 3), 1e45))
    assert placed.shape == (1, 3)


def test_axes_past_the_rank_are_zero_in_the_projection_too():
    line = (np.arange(40)[:, None] + 0.5 * flat(40, 1)) * [[1.0, 2.0, 3.0]]
    with pytest.warns(RankWarning) as caught:
        model = KernelIsomap(n_neighbors=4, n_components=3).fit(line)
    assert len(caught) == 1
    assert (model.embedding_[:, 1:] == 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        placed = model.transform(line[3:7] + 1e-3)
    assert (placed[:, 1:] == 0).all() and (placed[:, 0] != 0).all()
