"""The report and info of methods without distances show their own numbers, and none that say nothing of their maps."""

from pathlib import Path

import numpy as np
import pytest
from data import flat, roll
from test_report import read

from scalemani import LLE, LaplacianEigenmaps
from scalemani.model import Run
from scalemani.report import maps, sections
from scalemani.report.sections import run_page
from scalemani.storage.run import RunStore
from scalemani.terminal.summary import info_lines
from scalemani.words import number, percent, two_digits

pytestmark = [
    pytest.mark.filterwarnings("ignore:the next eigenvalue"),
    pytest.mark.filterwarnings("ignore:commute times follow"),
]
ORACLES = Path(__file__).parent.parent / "oracles"
OF_DISTANCES = "stress", "residual variance", "Geodesic distances", "How many axes", "tol", "landmark_method"


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What the page and info say of a fit, with how many pictures there are."""
    for module in (sections, maps):
        monkeypatch.setattr(module, "png", lambda figure: b"\x89PNG\r\n\x1a\n")

    def call(model, X):
        model.set_params(store=tmp_path / "run").fit(X)
        page = run_page(Run(RunStore(tmp_path / "run")), name="it")
        return (
            " ".join("".join(read(page).text).split()),
            "\n".join(info_lines(model, everything=True)),
            page.count("<img"),
        )

    return call


@pytest.fixture(scope="module")
def curve():
    """An S-curve, with the singular values of I - W from dense ones, rising, without the constant vector's."""
    found = {name.removeprefix("scurve_"): value for name, value in np.load(ORACLES / "lle.npz").items()}
    W = np.zeros((len(found["X"]),) * 2)
    np.put_along_axis(W, found["idx"], found["weights"], axis=1)
    return found["X"], int(found["k"]), np.linalg.svd(np.eye(len(W)) - W, compute_uv=False)[-2::-1]


def test_lle_shows_singular_values_and_no_measure_of_distances(said, curve):
    X, k, sigma = curve
    page, info, pictures = said(LLE(k, 2), X)
    for words in (*OF_DISTANCES, "share", "coef0"):
        assert words not in page
        assert words not in info
    for value in (*sigma[:2], *sigma[:3] ** 2):
        assert number(value) in page
    assert f"{number((sigma[2] / sigma[1]) ** 2)} times that of axis 2" in page
    assert f"error {sum(sigma[:2] ** 2):.4g}, the sum" in info
    assert "trustworthiness" in page
    assert "no unit" in page
    assert pictures == 2


def test_lle_with_the_kernels_scale_shows_shares_of_its_trace(said, curve):
    X, k, sigma = curve
    model = LLE(k, 2, scale="kernel")
    page, info, _ = said(model, X)
    trace, error = model.spectrum_["trace"], model.spectrum_["trace_error"]
    whole = float((1 / sigma**2).sum())
    assert abs(trace - whole) < 4 * error < whole / 100
    for value in sigma[:2]:
        assert f"{percent(1 / value**2 / trace)} ± " in page
        assert f"{percent(1 / value**2 / trace)} ± " in info
    assert "no unit" not in page


def test_laplacian_eigenmaps_show_what_the_map_has_of_resistances(said):
    model, X = LaplacianEigenmaps(8, 3), roll(90)  # so few points that all pairs are compared
    page, info, pictures = said(model, X)
    i, j = np.triu_indices(len(X), 1)
    # Over all pairs, resistances add up to n times the trace of L+, squared distances to n times that of the axes.
    trace = model.commute_times(i, j).sum() / len(X)
    assert f"map add up to {two_digits(100 * sum(1 / model.eigenvalues_) / trace)} % of those with all axes" in page
    for value in model.eigenvalues_:
        share = 1 / value / model.spectrum_["trace"]
        assert (
            f"{percent(share)} ± {number(100 * share * model.spectrum_['trace_error'] / model.spectrum_['trace'], 2)}"
            in page
        )
    assert f"(correlation {model.spectrum_['forgotten']:.2f} with" in page
    assert "says little" not in page
    for words in (*OF_DISTANCES, "time1.0", "--time"):
        assert words not in page
        assert words not in info
    assert pictures == 3


def test_many_dimensions_are_told_that_degrees_say_it_all(said):
    page, _, _ = said(LaplacianEigenmaps(10, 2), np.random.default_rng(0).standard_normal((600, 8)))
    assert "shows little but how many neighbours points have" in page


@pytest.mark.parametrize("form", [{}, {"normalized": True}, {"alpha": 1.0, "weights": "gaussian"}])
def test_overtones_of_axis_1_are_named(said, form):
    t = np.linspace(0, 1, 200)
    strip = np.c_[8 * t, np.random.default_rng(0).uniform(0, 1, 200)]
    assert "Axes 2, 3 repeat axis 1." in said(LaplacianEigenmaps(12, 3, **form), strip)[0]


def test_a_square_has_two_axes_of_its_own(said):
    assert "repeat" not in said(LaplacianEigenmaps(10, 2), flat(400, 2))[0]


@pytest.mark.parametrize("method", [LLE, LaplacianEigenmaps])
def test_landmarks_are_named_and_shares_are_not(said, method):
    page, info, _ = said(method(10, 2, landmarks=60), roll(300))
    assert "by 60 landmarks" in page
    assert "solved for 60 landmarks. So eigenvalues are larger" in page
    assert "landmarks 60 by maxmin" in " ".join(info.split())
    assert "Commute times" not in page
    assert "trace" not in page


def test_a_diffusion_shows_what_its_time_leaves(said):
    model = LaplacianEigenmaps(10, 2, alpha=1.0, weights="gaussian", time=3)
    page, info, _ = said(model, roll(200))
    for value in model.eigenvalues_:
        assert number(value**3) in page
        assert number(value**3) in info
    assert "to the power 3" in info
    assert "--scale" not in info
    assert "times as far from 1 as that of axis 2" in page
