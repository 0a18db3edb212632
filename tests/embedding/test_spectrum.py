"""The account of the spectrum: every share against R, ape, scikit-learn or the whole dense spectrum, and its bounds."""

import json
import warnings
from types import SimpleNamespace

import naive
import numpy as np
import pytest
from data import flat_distances, ring, ring_distances, roll_graph
from sklearn.manifold import Isomap as ScikitIsomap
from test_oracles import CASES, oracle

from scalemani import Isomap, KernelIsomap, load
from scalemani.cluster.threads import single_blas_thread
from scalemani.embedding.coordinates import make_embedding
from scalemani.embedding.spectrum import negative_mass, spectrum_account
from scalemani.errors import AdditiveConstantWarning, RankWarning, UndeterminedAxesWarning
from scalemani.kernel.constant import solve
from scalemani.kernel.operators import DenseKernels
from scalemani.terminal.summary import fit_lines, info_lines, info_record, result_in

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

ALL = ("cailliez", "lingoes", "flip", None, 0.3)
ZERO = np.sqrt(np.finfo(float).eps)  # what ape takes for one


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products are slower on more."""
    with single_blas_thread():
        yield


def account(D, p, correction=None, scale=1.0, **options):
    """The account of a matrix in memory, in tiles of the unit `scale`."""
    kernels = DenseKernels(np.asarray(D, float) / scale)
    given = correction / scale if isinstance(correction, float) else correction
    solution = solve(kernels, p, correction=given, **options)
    embedding = make_embedding(solution, kernels.sums, scale)
    return spectrum_account(solution, embedding, kernels.sums, 1.0, solution.n_reads, options.get("tol", 1e-6))


def distances_of(values, n, seed=0):
    """Distances whose K2 has these eigenvalues on the complement of 1, and zeros; its vectors."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, len(values)))]))[0][:, 1:]
    K = basis * values @ basis.T
    squares = np.diag(K)[:, None] + np.diag(K) - 2 * K
    np.fill_diagonal(squares, 0)
    assert squares.min() >= 0
    return np.sqrt(squares), basis


@pytest.fixture(scope="module")
def roll_distances():
    return naive.geodesics(roll_graph(90))


# ---- other programs' shares ----------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_gof_is_that_of_cmdscale(case):
    values = oracle(case)
    np.testing.assert_allclose(account(values["D"], 3, "cailliez")["gof"], values["R_add_GOF"], rtol=1e-10)
    own = values["R_noadd_eig"]
    expected = [own[:3].sum() / np.abs(own).sum(), own[:3].sum() / np.maximum(own, 0).sum()]  # its definition
    np.testing.assert_allclose(account(values["D"], 3)["gof"], expected, rtol=1e-10)
    assert expected[1] - expected[0] > 1e-3, "no negative eigenvalues to tell them apart"


@pytest.mark.parametrize("case", CASES)
def test_relative_and_corrected_shares_are_those_of_ape(case):
    values = oracle(case)
    own, n = values["ape_none_Eigenvalues"], len(values["D"])
    found = account(values["D"], 3)
    np.testing.assert_allclose(found["relative_eig"], own[:3] / own.sum(), rtol=1e-8)
    corrected = (own - own.min()) / (own.sum() - (n - 1) * own.min())  # Legendre and Legendre's equation 9.27
    np.testing.assert_allclose(found["rel_corr_eig"], corrected[:3], rtol=1e-8)
    for correction in ("cailliez", "lingoes"):
        found, eigenvalues = account(values["D"], 3, correction), values[f"ape_{correction}_Corr_eig"]
        np.testing.assert_allclose(found["rel_corr_eig"], eigenvalues[:3] / eigenvalues.sum(), rtol=1e-8)
        pieces = int((eigenvalues > ZERO).sum())
        sticks = np.cumsum(1 / np.arange(pieces, 0, -1))[::-1] / pieces
        np.testing.assert_allclose(found["broken_stick"], sticks[:3], rtol=1e-12)
    np.testing.assert_allclose(found["relative_eig"], own[:3] / own.sum(), rtol=1e-8)  # of "lingoes"


@pytest.mark.parametrize("case", CASES)
def test_reconstruction_error_is_that_of_scikit_learn(case):
    D = oracle(case)["D"]
    model = ScikitIsomap(n_neighbors=len(D) - 1, n_components=3, metric="precomputed", eigen_solver="dense").fit(D)
    np.testing.assert_allclose(account(D, 3)["reconstruction_error"], model.reconstruction_error(), rtol=1e-10)


def test_the_reconstruction_error_of_points_that_are_all_shown_is_rounding():
    found = account(flat_distances(60), 3)
    assert found["reconstruction_error"] <= 1e-7 * found["trace"] / 60
    assert account(flat_distances(60), 2)["reconstruction_error"] >= 1e-3 * found["trace"] / 60


def test_broken_sticks_of_known_rank_have_as_many_pieces():
    """Points of a cube have three positive eigenvalues: all are seen with three axes or more."""
    expected = [11 / 18, 5 / 18, 2 / 18]
    np.testing.assert_allclose(account(flat_distances(60), 3)["broken_stick"], expected, rtol=1e-12)
    with pytest.warns(RankWarning):
        found = account(flat_distances(60), 4)["broken_stick"]
    np.testing.assert_allclose(found, [*expected, 0.0], rtol=1e-12)


# ---- the whole dense spectrum --------------------------------------------------------------------


def dense_spectrum(D, found):
    """All eigenvalues of the kernel of an account, and of K2, descending, without that of 1."""
    off_ones = np.linalg.svd(np.ones((1, len(D))))[2][1:].T
    own = np.linalg.eigvalsh(off_ones.T @ naive.kernels(D)[1] @ off_ones)[::-1]
    if found["correction"] == "lingoes":
        return own - own[-1], own
    if found["correction"] == "flip":
        return np.sort(np.abs(own))[::-1], own
    kernel = naive.kernel(D, found["additive_constant"])
    return np.linalg.eigvalsh(off_ones.T @ kernel @ off_ones)[::-1], own


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("correction", ALL)
def test_every_number_is_that_of_the_whole_spectrum(roll_distances, correction, scale):
    """Up to 300 points: no number is a bound, and all are in the user's unit."""
    found = account(roll_distances, 3, correction, scale)
    every, own = dense_spectrum(roll_distances, found)
    n, shown = 90, every[:3]
    expected = {
        "trace": every.sum(),
        "trace_unshifted": own.sum(),
        "next_eigenvalue": every[3],
        "gap": (every[2] - every[3]) / every[2],
        "most_negative_eigenvalue": own[-1],
        "negative_mass": -own[own < 0].sum(),
        "share": shown / every.sum(),
        "share_of_squares": shown**2 / (every**2).sum(),
        "reconstruction_error": np.sqrt((every[3:] ** 2).sum()) / n,
    }
    if correction != 0.3:  # of which only the pairs found are known
        expected["gof"] = [shown.sum() / np.abs(every).sum(), shown.sum() / np.maximum(every, 0).sum()]
    for name, value in expected.items():
        np.testing.assert_allclose(np.abs(found[name]), np.abs(value), rtol=1e-8, err_msg=name)
    assert found["complete"] is True and found["most_negative_eigenvalue"] < 0
    assert found["lingoes_constant"] == pytest.approx(-own[-1] if correction == "lingoes" else 0.0, rel=1e-9)
    assert (None in found["relative_eig"]) == (correction in ("cailliez", 0.3))


@pytest.mark.filterwarnings("ignore::scalemani.errors.RankWarning")
@pytest.mark.parametrize("correction", ALL)
def test_shares_of_all_axes_add_up_to_one(roll_distances, correction):
    """Identities of the trace and of the norm, whose sums no eigenvalue went into."""
    found = account(roll_distances, 89, correction)
    np.testing.assert_allclose(sum(found["share"]), 1, rtol=1e-9)
    np.testing.assert_allclose(sum(found["share_of_squares"]), 1, rtol=1e-9)
    np.testing.assert_allclose(sum(found["share_unshifted"]), 1, rtol=1e-9)
    assert found["next_eigenvalue"] is None and found["gap"] is None


@pytest.mark.parametrize("correction", ALL)
def test_from_a_part_of_the_spectrum_they_are_the_bounds_that_are_promised(iterate, correction):
    D = oracle("gauss120_k5")["D"]
    found = account(D, 3, correction)
    every, own = dense_spectrum(D, found)
    assert found["complete"] is False
    assert 0 < found["negative_mass"] <= -own[own < 0].sum() * (1 + 1e-12)
    assert own[-1] * (1 + 1e-12) <= found["most_negative_eigenvalue"] < 0
    exact = [every[:3].sum() / np.abs(every).sum(), every[:3].sum() / np.maximum(every, 0).sum()]
    assert (np.array(found["gof"]) >= np.array(exact) * (1 - 1e-6)).all()
    assert (np.array(found["share"]) >= every[:3] / np.abs(every).sum() * (1 - 1e-6)).all()
    # what the sums alone give is exact
    np.testing.assert_allclose(found["share_of_squares"], every[:3] ** 2 / (every**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(found["reconstruction_error"], np.sqrt((every[3:] ** 2).sum()) / 120, rtol=1e-6)


def test_negative_mass_is_seen_from_the_positive_side_too():
    """Two positive eigenvalues above the trace: what is missing is negative, though no negative one was found."""

    found = SimpleNamespace(positive=7.0, negative=-0.5)
    assert negative_mass(found, 4.0) == 3.0
    assert negative_mass(found, 6.9) == 0.5


# ---- the gap behind the last axis ----------------------------------------------------------------


@pytest.mark.parametrize("correction", ["cailliez", "lingoes", "flip", None])
@pytest.mark.parametrize("whole", [True, False])
def test_half_a_double_eigenvalue_is_warned_of_and_its_plane_is_right(correction, whole, request):
    """A ring's eigenvalues are double: one or three axes end within a pair, two or four behind one."""
    if not whole:
        request.getfixturevalue("iterate")
    D = ring_distances(60)
    angle = 2 * np.pi * np.arange(60) / 60
    kernels = DenseKernels(D)
    for p in (1, 2, 3):
        solution = solve(kernels, p, correction=correction)
        embedding = make_embedding(solution, kernels.sums, 1.0)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = spectrum_account(solution, embedding, kernels.sums, 1e9, 0)
        assert [one.category for one in said] == ([] if p == 2 else [UndeterminedAxesWarning]), p
        assert found["warnings"] == [str(one.message) for one in said]
        if p != 2:
            both, instead = f"axes {p} and {p + 1} are", f"n_components={p + 1}" + (" or 2" if p == 3 else "")
            assert both in found["warnings"][0] and found["warnings"][0].endswith(instead)
            assert abs(found["gap"]) < 1e-6
        first = solution.pairs.vectors[:, :2]
        plane = np.column_stack([np.cos(angle), np.sin(angle)]) / np.sqrt(30)
        assert np.linalg.norm(first - plane @ (plane.T @ first)) < 1e-5
    frequency = 3 if np.abs(solution.pairs.vectors[:, 2] @ np.exp(3j * angle)) > 1e-3 else 2
    last = np.column_stack([np.cos(frequency * angle), np.sin(frequency * angle)]) / np.sqrt(30)
    third = solution.pairs.vectors[:, 2]
    assert np.linalg.norm(third - last @ (last.T @ third)) < 1e-5


def test_a_gap_is_judged_by_the_tolerance():
    """A residual of tol turns a vector by a sine of up to tol / gap; above a tenth is too much."""
    close = 0.5 * (1 - 5e-6)
    D = distances_of([1.0, 0.5, close], 40)[0]
    for p, tol, warned in ((2, 1e-6, True), (2, 4e-7, False), (1, 1e-6, False), (3, 1e-6, False)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = account(D, p, tol=tol)
        assert bool(said) == warned == bool(found["warnings"])
        assert found["gap"] == pytest.approx([0.5, 5e-6, 1.0][p - 1], rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_last_axis_is_turned_by_no_more_than_its_residual_over_the_gap(seed):
    """Which is why the limit is a multiple of tol (Davis and Kahan's theorem)."""
    D, basis = distances_of(np.concatenate([[1.0, 0.9, 0.8, 0.72], np.linspace(0.7, 0.01, 390)]), 400, seed)
    solution = solve(DenseKernels(D), 3, correction=None, tol=1e-2, seed=seed)
    assert solution.pairs.converged and solution.pairs.residuals[2] > 1e-5
    residual, last = solution.pairs.residuals[2], solution.pairs.vectors[:, 2]
    sine = np.linalg.norm(last - basis[:, 2] * (basis[:, 2] @ last))
    assert 0 < sine <= residual / (0.1 - residual)
    assert sine > 0.1 * residual / 0.1, "the bound is far from what happens"


def test_of_equal_moduli_it_is_the_choice_that_is_undetermined():
    values = np.ones(59)
    values[:2] = 3, -3
    D, _ = distances_of(values, 60)
    with pytest.warns(UndeterminedAxesWarning, match="which of axes 1 and 2 comes first is not determined: the moduli"):
        account(D, 1, "flip")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        account(D, 2, "flip")


def test_axes_that_are_zero_are_not_called_undetermined():
    """K2's zeros are one eigenvalue s of Lingoes' kernel, many times over; no axis is made of them."""
    D, _ = distances_of([1.0, 0.5, 0.4, -0.01], 30)
    with pytest.warns(RankWarning, match="1 of 4 axes are nugget only") as said:
        found = account(D, 4, "lingoes")
    assert [one.category for one in said] == [RankWarning] and len(found["warnings"]) == 1
    assert abs(found["gap"]) < 1e-9


# ---- words and keys ------------------------------------------------------------------------------


def test_lingoes_constant_is_warned_of_where_it_outweighs_the_distances(roll_distances):
    kernels = DenseKernels(roll_distances)
    solution = solve(kernels, 2, correction="lingoes")
    embedding = make_embedding(solution, kernels.sums, 1.0)
    apart = np.sqrt(2 * solution.nugget)
    with pytest.warns(AdditiveConstantWarning, match=r"sqrt\(2s\) apart, about 2\.5 times the median"):
        found = spectrum_account(solution, embedding, kernels.sums, apart / 2.5, 1)
    assert found["constant_over_median"] == pytest.approx(2.5)


def test_a_number_below_the_least_constant_is_said_to_be(roll_distances):
    c = naive.constant_by_newton(roll_distances)
    assert any("c is less than c*" in said for said in account(roll_distances, 3, 0.9 * c)["warnings"])
    assert not any("c is less than c*" in said for said in account(roll_distances, 3, 1.1 * c)["warnings"])


@pytest.mark.parametrize("correction", ALL)
def test_the_account_is_json(roll_distances, correction):
    found = account(roll_distances, 3, correction)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_every_key_is_defined_where_users_look_and_is_in_info(tmp_path):
    """And what a fit warns of is in the store, too."""
    with pytest.warns(UndeterminedAxesWarning, match="axes 1 and 2 are not determined"):
        model = Isomap(n_neighbors=2, n_components=1, store=tmp_path / "r").fit(ring(40))
    there = load(tmp_path / "r").spectrum_
    assert there == model.spectrum_ and len(there["warnings"]) == 1
    words = KernelIsomap.__doc__
    assert [key for key in there if f"`{key}`" not in words] == []
    assert info_record(model)["spectrum"] == there
    assert info_record(model)["bounds"] == {}  # every eigenvalue of so few points was found
    model.spectrum_ = {**there, "complete": False}
    found = info_record(model)["bounds"]
    assert found["negative_mass"] == ["at least"] and found["gof"] == ["at most"] * 2 and "share" not in found
    model.spectrum_ = there
    text = "\n".join(info_lines(model, everything=True))
    for said in ("Rel_corr_eig", "Relative_eig", "Broken_stick", "GOF", "reconstruction error", "not determined"):
        assert said in text


def test_info_says_which_numbers_are_bounds_and_how_large_a_constant_is():
    found = account(1000 * ring_distances(320), 2)
    model = type("Fitted", (Isomap,), {"store_": "r", "embedding_": np.zeros((320, 2)), "kept_": range(320)})()
    model.spectrum_ = {**found, "n_rows": 320, "n_distinct": 320, "n_vertices": 320, "warnings": []}
    model.spectrum_ |= {"knn_method": "geodesic", "knn_recall": 1.0, "n_edges": 0}
    lines = [" ".join(line.split()) for line in info_lines(model, everything=True)]
    assert "constant none is added" in lines
    assert any("Rel_corr_eig, at most" in line and "share of" in line for line in lines)  # this one alone
    for bound in ("GOF of R's cmdscale at most", "sum at least", "without a correction at most −"):
        assert any(bound in line for line in lines), bound
    given = {"correction": "number", "additive_constant": 2e3, "constant_over_median": 4.0312, "median_distance": 496.2}
    model.spectrum_.update(given)
    model.spectrum_["shift"] = 1.0
    told = (
        "constant         2,000 is added to every distance, about 4.0 times the median distance of about 500: the map"
    )
    assert [line for line in info_lines(model) if line.startswith(told)]


def test_a_result_that_is_replaced_is_said_by_what_it_was_asked_for(tmp_path):
    store, points = str(tmp_path / "r"), ring(40)
    KernelIsomap(n_neighbors=4, correction=2.0, store=store).fit(points)
    before = result_in(store)
    assert not [line for line in fit_lines(load(store), store, before) if line.startswith("replaced")]
    model = Isomap(n_neighbors=4, store=store).fit(points)
    (line,) = [line for line in fit_lines(model, store, before) if line.startswith("replaced")]
    assert "(correction 2.0); what it had found was used again" in line
    assert not [line for line in fit_lines(model, store) if line.startswith("replaced")]
