"""Coordinates and the account of the spectrum: exact zeros where nothing is left, and dense sums elsewhere."""

import warnings

import naive
import numpy as np
import pytest
from data import flat_distances, ring_distances, roll_graph
from hypothesis import given
from hypothesis import strategies as st

from scalemani import KernelIsomap, load
from scalemani.cluster.threads import single_blas_thread
from scalemani.embedding.coordinates import make_embedding
from scalemani.embedding.spectrum import spectrum_account
from scalemani.errors import AdditiveConstantWarning, RankWarning
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import fixed_signs
from scalemani.kernel.operators import DenseKernels
from scalemani.storage.run import RunStore


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products are slower on more."""
    with single_blas_thread():
        yield


def fit(D, p, scale=1.0, **options):
    """Solution, sums and embedding of a dense D in units of `scale`."""
    kernels = DenseKernels(np.asarray(D) / scale)
    solution = solve(kernels, p, **options)
    return solution, kernels.sums, make_embedding(solution, kernels.sums, scale)


@pytest.fixture(scope="module")
def roll_distances():
    return naive.geodesics(roll_graph(90))


# ---- coordinates -------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", ["cailliez", None, 2.0])
def test_coordinates_are_those_of_dense_classical_scaling(roll_distances, correction):
    _, _, embedding = fit(roll_distances, 4, correction=correction)
    c = naive.constant_by_newton(roll_distances) if correction == "cailliez" else correction or 0.0
    values, vectors = naive.top_pairs(naive.kernel(roll_distances, c), 4)
    expected = vectors * np.sqrt(values)
    naive.same_up_to_sign(embedding.coordinates(), expected, atol=1e-6 * np.abs(expected).max())
    assert embedding.active.all()


def test_euclidean_points_come_back_up_to_a_motion():
    D = flat_distances(50)
    Y = fit(D, 3)[2].coordinates()
    np.testing.assert_allclose(np.linalg.norm(Y[:, None] - Y, axis=-1), D, atol=1e-10)
    assert np.abs(Y.mean(0)).max() < 1e-12


@pytest.mark.filterwarnings("ignore::scalemani.errors.RankWarning")
def test_all_axes_of_the_corrected_kernel_give_the_shifted_distances(roll_distances):
    """n - 2 axes are all there are: they reproduce d + c, which is what c* is for."""
    solution, _, embedding = fit(roll_distances, 89)
    Y = embedding.vectors * np.sqrt(np.maximum(embedding.eigenvalues, 0))
    np.testing.assert_allclose(
        np.linalg.norm(Y[:, None] - Y, axis=-1), naive.shifted(roll_distances, solution.constant), rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("correction", ["cailliez", None])
def test_scaled_distances_give_scaled_coordinates(roll_distances, scale, correction):
    """The tiles' unit is a power of two near the median edge; results are in the user's."""
    unit = fit(roll_distances, 3, correction=correction)
    power = 2.0 ** np.floor(np.log2(scale))
    scaled = fit(roll_distances * scale, 3, power, correction=correction)
    Y = unit[2].coordinates()
    np.testing.assert_allclose(scaled[2].coordinates(), Y * scale, rtol=0, atol=1e-7 * scale * np.abs(Y).max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AdditiveConstantWarning)
        ours, theirs = (spectrum_account(s, e, sums, 1.0, 1) for s, sums, e in (scaled, unit))
    np.testing.assert_allclose(ours["additive_constant"], theirs["additive_constant"] * scale, rtol=1e-7)
    np.testing.assert_allclose(ours["trace"], theirs["trace"] * scale**2, rtol=1e-7)
    np.testing.assert_allclose(ours["share"], theirs["share"], rtol=1e-7)


# ---- signs -------------------------------------------------------------------------------------


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 1000))
def test_the_entry_of_largest_modulus_is_positive(n, p, seed):
    V = np.random.default_rng(seed).standard_normal((n, p))
    fixed = fixed_signs(V)
    np.testing.assert_array_equal(np.abs(fixed), np.abs(V))
    assert (fixed[np.abs(fixed).argmax(0), np.arange(p)] >= 0).all()
    np.testing.assert_array_equal(fixed_signs(-V), fixed)
    np.testing.assert_array_equal(fixed_signs(fixed), fixed)


def test_of_entries_equal_to_rounding_the_first_decides():
    """Opposite points of a symmetric figure: the last bits must not choose the sign."""
    column = np.array([0.3, -0.7, 0.7, -0.7])
    for noise in (0.0, 1e-12, -1e-12):
        assert fixed_signs((column + noise * np.array([0, 1, -1, 0]))[:, None])[1, 0] > 0
        assert fixed_signs((-column + noise * np.array([0, 1, -1, 0]))[:, None])[1, 0] > 0


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_signs_are_saved_as_they_are_shown(roll_distances, tmp_path):
    _, _, embedding = fit(roll_distances, 3)
    model = KernelIsomap(n_components=3, metric="geodesic", store=tmp_path / "run").fit(roll_distances)
    np.testing.assert_array_equal(load(tmp_path / "run").embedding_, model.embedding_)
    vectors = RunStore(tmp_path / "run").read_array("vectors")
    assert (vectors[np.abs(vectors).argmax(0), np.arange(3)] > 0).all()
    assert (embedding.vectors[np.abs(embedding.vectors).argmax(0), np.arange(3)] > 0).all()


# ---- rank --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("correction", ["cailliez", None])
def test_columns_past_the_rank_are_exactly_zero_with_one_warning(dtype, correction):
    """Points on a line have one axis; of float32 distances the rest is rounding, far above 1e-12."""
    x = np.random.default_rng(0).random(40)
    D = np.abs(x[:, None] - x).astype(dtype)
    with pytest.warns(RankWarning, match=r"2 of 3 axes are past the rank .* n_components=1") as said:
        _, _, embedding = fit(D, 3, correction=correction)
    assert len(said) == 1
    Y = embedding.coordinates()
    assert (Y[:, 1:] == 0).all()
    np.testing.assert_allclose(np.abs(Y[:, 0]), np.abs(x - x.mean()), atol=1e-6)
    assert embedding.active.tolist() == [True, False, False]


def test_negative_eigenvalues_without_a_correction_are_zero_columns():
    """A square root of a negative number is neither NaN nor its modulus's."""
    D = ring_distances(12)
    positive = int((np.linalg.eigvalsh(naive.kernels(D)[1]) > 1e-6 * 12).sum())
    with pytest.warns(RankWarning, match=f"{11 - positive} of 11 axes"):
        _, _, embedding = fit(D, 11, correction=None)
    Y = embedding.coordinates()
    assert np.isfinite(Y).all()
    assert (Y[:, :positive].std(0) > 0).all()
    assert (Y[:, positive:] == 0).all()


def test_axes_that_are_nugget_only_are_exactly_zero_with_one_warning(roll_distances):
    """A large given constant lifts every axis; those not above c²/2 carry no geometry."""
    c = 1e3
    values = naive.top_pairs(naive.kernel(roll_distances, c), 89)[0]
    above = int((values > (1 + 1e-6) * c**2 / 2).sum())
    assert 0 < above < 89
    with pytest.warns(RankWarning, match=rf"{89 - above} of 89 axes are nugget only .* n_components={above}") as said:
        _, _, embedding = fit(roll_distances, 89, correction=c)
    assert len(said) == 1
    Y = embedding.coordinates()
    assert (Y[:, above:] == 0).all()
    assert (Y[:, :above].std(0) > 0).all()


def test_with_nothing_to_embed_all_columns_are_zero():
    with pytest.warns(RankWarning, match="2 of 2 axes"):
        _, _, embedding = fit(np.zeros((5, 5)), 2)
    np.testing.assert_array_equal(embedding.coordinates(), np.zeros((5, 2)))


def test_full_rank_is_silent(roll_distances):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(roll_distances, 3)


# ---- the spectrum's account --------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
@pytest.mark.parametrize("correction", ["cailliez", None, 0.5])
def test_the_account_equals_dense_traces(roll_distances, correction):
    scale = 0.25
    solution, sums, embedding = fit(roll_distances, 3, scale, correction=correction)
    account = spectrum_account(solution, embedding, sums, 7.0 / scale, n_passes=11)
    # a number is in the unit of the tiles here
    c = {"cailliez": naive.constant_by_newton(roll_distances), None: 0.0, 0.5: 0.5 * scale}[correction]
    K2, K = naive.kernels(roll_distances)[1], naive.kernel(roll_distances, c)
    values, vectors = naive.top_pairs(K, 3)
    plain = np.einsum("ij,ij->j", vectors, K2 @ vectors)
    expected = {
        "additive_constant": c,
        "median_distance": 7.0,
        "constant_over_median": c / 7.0,
        "shift": c**2 / 2,
        "trace": np.trace(K),
        "trace_unshifted": np.trace(K2),
        "eigenvalues": values,
        "eigenvalues_unshifted": plain,
        "share": values / np.trace(K),
        "share_unshifted": plain / np.trace(K2),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(account[name], value, rtol=1e-6, atol=1e-12, err_msg=name)
    assert account["n_passes"] == 11
    assert account["n_vertices"] == 90
    assert account["converged"] is True
    assert max(account["residuals"]) <= 1e-6


def test_the_account_is_json(roll_distances):
    import json

    solution, sums, embedding = fit(roll_distances, 3, correction=None)
    account = spectrum_account(solution, embedding, sums, 1.0, 1)
    assert json.loads(json.dumps(account, allow_nan=False)) == account


def test_shares_of_nothing_are_zero_and_not_nan():
    with pytest.warns(RankWarning):
        solution, sums, embedding = fit(np.zeros((5, 5)), 2)
    account = spectrum_account(solution, embedding, sums, 0.0, 1)
    assert account["share"] == account["share_unshifted"] == [0.0, 0.0]
    assert account["constant_over_median"] == 0.0


def test_a_constant_above_the_median_distance_is_warned_about_with_the_ratio(roll_distances):
    solution, sums, embedding = fit(roll_distances, 2)
    c = solution.constant
    about = r"is about 2\.5 times the median .* without a correction.* shortcut"
    with pytest.warns(AdditiveConstantWarning, match=about) as said:
        spectrum_account(solution, embedding, sums, c / 2.5, 1)
    assert len(said) == 1


def test_a_constant_below_the_median_distance_is_not(roll_distances):
    solution, sums, embedding = fit(roll_distances, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spectrum_account(solution, embedding, sums, solution.constant * 1.01, 1)


def test_means_are_the_training_means_of_the_projection(roll_distances):
    solution, _, embedding = fit(roll_distances, 2)
    expected = (naive.shifted(roll_distances, solution.constant) ** 2).mean(0)
    np.testing.assert_allclose(embedding.means, expected, rtol=1e-9)
