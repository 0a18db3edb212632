"""Every correction to the end: constants, coordinates, projection, the saved model, and solving again on one D.

The oracles are ape's pcoa (tests/oracles), dense eigenproblems, and what each correction promises: the distances
between ALL of its coordinates are those it says it embeds.
"""

import json
import shlex
import shutil

import naive
import numpy as np
import pytest
from data import flat_distances, random_distances, roll, roll_graph
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from test_oracles import CASES, oracle, same_subspaces

from scalemani import KernelIsomap, load
from scalemani.cluster.threads import single_blas_thread
from scalemani.embedding.coordinates import make_embedding
from scalemani.errors import RankWarning, ScalemaniError
from scalemani.kernel.constant import solve
from scalemani.kernel.operators import DenseKernels
from scalemani.parameters import CORRECTIONS
from scalemani.storage.tiles import Tiles
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

ALL = (*CORRECTIONS, None, 4.0)
FORMS = ("continuous", "paper")
X, T = roll(120), roll(40, seed=1)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products are slower on more."""
    with single_blas_thread():
        yield


def fit(D, p, **options):
    """Solution and embedding of a matrix in memory."""
    kernels = DenseKernels(D)
    solution = solve(kernels, p, **options)
    return solution, make_embedding(solution, kernels.sums, 1.0)


@pytest.fixture(scope="module")
def far_from_euclidean():
    """A metric of 90 points with large negative eigenvalues, exact in float32."""
    return random_distances(90).astype(np.float32).astype(float)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The store of a fit to X; another correction is solved for in a copy, from the same D."""
    path = tmp_path_factory.mktemp("base") / "run.zarr"
    return path, KernelIsomap(n_neighbors=8, n_components=5, store=path).fit(X)


@pytest.fixture
def copied(base, tmp_path):
    shutil.copytree(base[0], tmp_path / "r")
    return tmp_path / "r"


def solved(path, correction, **arguments):
    return KernelIsomap(n_neighbors=8, n_components=5, correction=correction, store=path, **arguments).fit(X)


# ---- constants and coordinates -------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_lingoes_agrees_with_ape(case):
    values = oracle(case)
    solution, embedding = fit(values["D"], 3, correction="lingoes")
    np.testing.assert_allclose(solution.nugget, values["ape_lingoes_const"].item(), rtol=1e-12)
    np.testing.assert_allclose(solution.nugget, -values["numpy_eig_K2"].min(), rtol=1e-12)
    expected = values["ape_lingoes_Corr_eig"][:3]
    np.testing.assert_allclose(embedding.eigenvalues, expected, rtol=1e-10)
    same_subspaces(embedding.coordinates(), values["ape_lingoes_vectors3"], expected, 1e-10)
    assert (solution.correction, solution.constant) == ("lingoes", 0.0)


@pytest.mark.parametrize("case", CASES)
def test_flip_is_the_dense_kernel_with_the_moduli_of_its_eigenvalues(case):
    values = oracle(case)
    solution, embedding = fit(values["D"], 12, correction="flip")
    own, vectors = np.linalg.eigh(naive.kernels(values["D"])[1])
    order = np.argsort(-np.abs(own), kind="stable")[:12]
    assert (own[order] < 0).any(), "nothing to flip"
    np.testing.assert_allclose(embedding.eigenvalues, own[order], rtol=1e-10)
    expected = np.abs(own[order])
    same_subspaces(embedding.coordinates(), vectors[:, order] * np.sqrt(expected), expected, 1e-10)
    assert (solution.correction, solution.constant, solution.nugget) == ("flip", 0.0, 0.0)


def test_the_iteration_finds_both_ends_that_lingoes_and_flip_need(iterate):
    D = naive.geodesics(roll_graph(90))
    own = np.linalg.eigvalsh(naive.kernels(D)[1])
    solution, embedding = fit(D, 4, correction="lingoes")
    np.testing.assert_allclose([solution.nugget, -solution.most_negative], -own[0], rtol=1e-6)
    np.testing.assert_allclose(embedding.eigenvalues, own[::-1][:4] - own[0], rtol=1e-6)
    flipped = fit(D, 8, correction="flip")[1]
    by_modulus = own[np.argsort(-np.abs(own))][:8]
    assert (by_modulus < 0).sum() > 1
    np.testing.assert_allclose(flipped.eigenvalues, by_modulus, rtol=1e-6)
    assert (np.diff(flipped.sizes) <= 0).all() and (flipped.coordinates().std(0) > 0).all()


@pytest.mark.filterwarnings("ignore::scalemani.errors.RankWarning")
def test_all_axes_together_have_the_distances_that_the_correction_embeds(far_from_euclidean):
    """Lingoes: d² + 2s. Flip: d² again, when the axes of negative eigenvalues are subtracted."""
    squares = far_from_euclidean**2
    solution, embedding = fit(far_from_euclidean, 89, correction="lingoes")
    Y = embedding.vectors * np.sqrt(np.maximum(embedding.eigenvalues, 0))
    off = ~np.eye(90, dtype=bool)
    np.testing.assert_allclose(cdist(Y, Y)[off] ** 2, squares[off] + 2 * solution.nugget, rtol=1e-9)
    embedding = fit(far_from_euclidean, 89, correction="flip")[1]
    Y = embedding.coordinates()
    there = embedding.eigenvalues > 0
    signed = cdist(Y[:, there], Y[:, there]) ** 2 - cdist(Y[:, ~there], Y[:, ~there]) ** 2
    np.testing.assert_allclose(signed, squares, atol=1e-5 * squares.max())  # axes under τ λ1 are left out


@pytest.mark.parametrize("correction", ["lingoes", "flip"])
def test_euclidean_distances_need_no_correction(correction):
    """Float32 leaves eigenvalues of about 1e-8 of the largest on either side of 0: they are rounding."""
    D = flat_distances(60).astype(np.float32)
    solution, embedding = fit(D, 3, correction=correction)
    assert solution.nugget == solution.constant == 0
    np.testing.assert_allclose(embedding.coordinates(), fit(D, 3, correction=None)[1].coordinates(), atol=1e-10)


# ---- axes without geometry -----------------------------------------------------------------------


def test_axes_that_lingoes_constant_alone_makes_positive_are_zero_with_one_warning(far_from_euclidean):
    """With K2's negative eigenvalues lifted above 0 there are n - 2 positive ones; only K2's own carry geometry."""
    own = np.linalg.eigvalsh(naive.kernels(far_from_euclidean)[1])
    positive = int((own > 1e-6 * (own[-1] - own[0])).sum())
    assert 0 < positive < 88
    words = rf"{89 - positive} of 89 axes are nugget only \(λ <= s\) and are 0: ask for n_components={positive} or"
    with pytest.warns(RankWarning, match=words) as said:
        _, embedding = fit(far_from_euclidean, 89, correction="lingoes")
    assert len(said) == 1
    Y = embedding.coordinates()
    assert (Y[:, positive:] == 0).all() and (Y[:, :positive].std(0) > 0).all()


@pytest.mark.parametrize("correction", ["lingoes", "flip"])
def test_columns_past_the_rank_are_exactly_zero_with_one_warning(correction):
    x = np.random.default_rng(0).random(40)
    D = np.abs(x[:, None] - x).astype(np.float32)
    with pytest.warns(RankWarning, match=r"2 of 3 axes are past the rank .* n_components=1") as said:
        model = KernelIsomap(metric="geodesic", n_components=3, correction=correction).fit(D)
    assert len(said) == 1 and model.spectrum_["warnings"] == [str(said[0].message)]
    for placed in (model.embedding_, model.transform(D)):
        assert (placed[:, 1:] == 0).all()
        np.testing.assert_allclose(np.abs(placed[:, 0]), np.abs(x - x.mean()), atol=1e-6)


def test_geometry_below_the_rounding_of_d_is_none_however_small_the_nugget_is():
    """λ - g = 1e-8 λ1 is above τ g where g = 1e-5 λ1, and the projection would magnify rounding 3e5 times."""
    line = np.linspace(-1, 1, 20)
    basis = np.linalg.qr(np.column_stack([np.ones(20), line, np.random.default_rng(0).standard_normal((20, 18))]))[0]
    K = basis[:, 1:] * np.array([1.0, 1e-8, *[0.0] * 16, -1e-5]) @ basis[:, 1:].T
    D = np.sqrt(np.maximum(np.diag(K)[:, None] + np.diag(K) - 2 * K, 0) * (1 - np.eye(20)))
    with pytest.warns(RankWarning, match="1 of 2 axes"):
        solution, embedding = fit(D, 2, correction="lingoes")
    np.testing.assert_allclose(solution.nugget, 1e-5, rtol=1e-6)
    assert embedding.active.tolist() == [True, False]
    np.testing.assert_allclose(embedding.eigenvalues - solution.nugget, [1.0, 1e-8], rtol=1e-6)


# ---- projection ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paths(base, tmp_path_factory):
    """Two stores whose distances serve every correction: of X, and of given distances."""
    folder = tmp_path_factory.mktemp("paths")
    shutil.copytree(base[0], folder / "points")
    return folder / "points", folder / "given"


@pytest.fixture(scope="module", params=[(c, form) for c in ALL for form in FORMS], ids=lambda p: f"{p[0]}-{p[1]}")
def placed(request, paths):
    """A model of every correction and form, its correction, its form."""
    correction, form = request.param
    return solved(paths[0], correction, projection=form), correction, form


def test_training_rows_land_on_themselves_to_rounding(placed, paths, far_from_euclidean):
    """float64 products, and distances that float32 holds: nothing is left but rounding. Single rows, too."""
    model, correction, form = placed
    assert (model.embedding_.std(0) > 0).all(), "nothing to compare"
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(model.transform(X[7:8]), model.embedding_[7:8], rtol=0, atol=1e-10 * scale)
    given = KernelIsomap(metric="geodesic", n_components=8, correction=correction, projection=form, store=paths[1])
    Y = given.fit_transform(far_from_euclidean)
    np.testing.assert_allclose(given.transform(far_from_euclidean), Y, rtol=0, atol=1e-10 * np.abs(Y).max())


def test_new_points_are_where_the_dense_formula_puts_them(placed):
    """The table of corrections, with matrices: corrected squared distances, their kernel, one row of products."""
    model, correction, form = placed
    D, near = model.geodesics(np.arange(120)), cdist(T, X)
    nearest = np.argsort(near, axis=1)[:, :8]
    d = np.array([(near[i, nearest[i]][:, None] + D[nearest[i]]).min(0) for i in range(len(T))])
    c = model.additive_constant_
    s = max(0.0, -np.linalg.eigvalsh(naive.kernels(D)[1])[0]) if correction == "lingoes" else 0.0
    training = (D**2 + 2 * c * D + c**2 + 2 * s) * (1 - np.eye(120))
    new = (d + c) ** 2 + 2 * s
    values, V = np.linalg.eigh(naive.doubly_centred(training))
    order = np.argsort(-np.abs(values) if correction == "flip" else -values)[:5]
    values, V = values[order], V[:, order] * np.sign((V[:, order] * model.embedding_).sum(0))
    k = -0.5 * (new - training.mean(0))
    if correction == "flip":
        y = k @ V * np.sign(values) / np.sqrt(np.abs(values))
    elif form == "paper":
        y = k @ V / np.sqrt(values)
    else:
        y = k @ V * np.sqrt(values) / (values - c**2 / 2 - s)
    np.testing.assert_allclose(model.transform(T), y, rtol=0, atol=1e-5 * np.abs(y).max())


@pytest.mark.parametrize("correction", ["flip", None])
def test_without_a_nugget_the_two_forms_are_one(copied, correction):
    one, other = (solved(copied, correction, projection=form).transform(T) for form in FORMS)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * np.abs(one).max())


def test_held_out_digits_are_spread_as_the_training_digits_are_under_lingoes(tmp_path):
    """Training rows can't see a shrinkage by 1 - s/λ; other rows can, and the paper's form has it."""
    images = load_digits().data[np.random.default_rng(0).permutation(1797)[:500]]
    spread = {}
    for form in FORMS:
        model = KernelIsomap(n_components=4, correction="lingoes", projection=form, disconnected="join")
        model.set_params(store=tmp_path / "r").fit(images[:300])
        spread[form] = np.std(model.transform(images[300:]), axis=0) / np.std(model.embedding_, axis=0)
    s = model.spectrum_["lingoes_constant"]
    assert ((0.85 < spread["continuous"]) & (spread["continuous"] < 1.15)).all(), spread
    np.testing.assert_allclose(spread["paper"] / spread["continuous"], 1 - s / model.eigenvalues_, rtol=1e-3)
    assert spread["paper"][-1] < 0.9 * spread["continuous"][-1]


# ---- the stored model ----------------------------------------------------------------------------


@pytest.mark.parametrize("correction", ["lingoes", "flip"])
def test_the_stored_model_and_its_export_place_points_as_the_fitted_one_does(copied, correction):
    model = solved(copied, correction)
    model.export(copied.parent / "model")
    for path in (copied, copied.parent / "model"):
        there = load(path)
        assert there.correction == correction and there.spectrum_ == model.spectrum_
        np.testing.assert_array_equal(there.embedding_, model.embedding_)
        np.testing.assert_array_equal(there.transform(T), model.transform(T))


def test_another_correction_is_solved_for_on_the_same_distances(base, copied, monkeypatch):
    """No geodesic is computed again, the answers are a fresh fit's to the last bit, and c* comes back as it was."""
    written, real = [], Tiles.write
    monkeypatch.setattr(Tiles, "write", lambda *a, **k: (written.append(a), real(*a, **k))[1])
    again = {correction: solved(copied, correction) for correction in ALL[1:]}
    back = solved(copied, "cailliez")
    assert not written
    np.testing.assert_array_equal(back.embedding_, base[1].embedding_)
    assert back.spectrum_ == base[1].spectrum_
    fresh = solved(None, "lingoes")
    assert written
    np.testing.assert_array_equal(again["lingoes"].embedding_, fresh.embedding_)
    assert again["lingoes"].spectrum_ == fresh.spectrum_
    assert len({model.embedding_.tobytes() for model in again.values()}) == 4
    with pytest.raises(ScalemaniError, match="fitted again"):
        again["flip"].transform(T)


# ---- the command line ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "correction", "said"),
    [
        ("lingoes", "lingoes", "is added to every squared distance"),
        ("flip", "flip", "count by their size (flip)"),
        ("4.0", 4.0, "4 is added to every distance"),
    ],
)
def test_the_command_line_takes_every_correction(word, correction, said, copied, monkeypatch, capsys):
    monkeypatch.chdir(copied.parent)
    np.save("x.npy", X)
    assert run(cli, shlex.split(f"fit x.npy r -k 8 -p 5 --correction {word} --embedding y.npy")) == 0
    assert said in capsys.readouterr().out
    np.testing.assert_array_equal(np.load("y.npy"), solved(copied, correction).embedding_)
    assert run(cli, shlex.split("info r --json")) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["parameters"]["correction"] == correction
    assert record["spectrum"]["correction"] == {4.0: "number"}.get(correction, correction)
