"""The demo, small: its figures are those of dense computations, its page is whole and needs nothing else."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from scalemani import load
from scalemani.demo import run_demo, swiss_roll, table
from scalemani.errors import AdditiveConstantWarning, ScalemaniError


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    lines = []
    with pytest.warns(AdditiveConstantWarning):
        outcomes = run_demo(out, n_train=200, n_test=60, say=lines.append)
    return out, outcomes, lines


def test_the_constant_makes_a_kernel_of_what_is_none(demo):
    _, outcomes, _ = demo
    plain, kernel = outcomes["Isomap"], outcomes["kernel Isomap"]
    assert plain.spectrum["additive_constant"] == 0
    assert plain.kernel_eigenvalues[0] < -1e-3 * plain.kernel_eigenvalues[-1]
    # D is kept in float32: 1e-6 of the largest eigenvalue.
    assert abs(kernel.kernel_eigenvalues[0]) < 1e-6 * kernel.kernel_eigenvalues[-1]


def test_eigenvalues_are_the_dense_ones(demo):
    for outcome in demo[1].values():
        np.testing.assert_allclose(outcome.spectrum["eigenvalues"], outcome.kernel_eigenvalues[::-1][:2], rtol=1e-5)


def test_residual_variances_are_the_dense_ones(demo):
    out, outcomes, _ = demo
    D = load(str(out / "isomap.zarr")).geodesics(np.arange(200))[np.triu_indices(200, 1)]
    true = pdist(swiss_roll(60, turns=1, even=True, random_state=1_000_003).parameters)
    for outcome in outcomes.values():
        dense = 1 - np.corrcoef(D, pdist(outcome.train[:, :2]))[0, 1] ** 2
        assert outcome.residual_variances[1] == pytest.approx(dense, rel=1e-6)
        dense = 1 - np.corrcoef(true, pdist(outcome.test[:, :2]))[0, 1] ** 2
        assert outcome.test_residual_variance == pytest.approx(dense, rel=1e-9)


def test_what_is_printed_is_on_the_page_with_all_pictures_inside(demo):
    out, outcomes, lines = demo
    page = (out / "report.html").read_text(encoding="utf-8")
    _, rows = table(outcomes)
    printed = "\n".join(lines)
    for row in rows:
        for cell in row:
            assert cell in printed
            assert cell in page
    assert page.count('src="data:image/png;base64,') == 3
    assert page.count("<img") == 3
    for name in ("figure1", "spectra", "unrolling"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_tables_are_of_the_same_points(demo):
    roll = swiss_roll(200, turns=1, even=True, random_state=0)
    for name, headings, values in (("points", "x,y,z", roll.points), ("colours", "length,width", roll.parameters)):
        first, *rows = (demo[0] / f"{name}.csv").read_text(encoding="utf-8").splitlines()
        assert first == f"name,{headings}"
        assert [row.split(",")[0] for row in rows] == [f"points{i}" for i in range(200)]
        np.testing.assert_array_equal([list(map(float, row.split(",")[1:])) for row in rows], values)


def test_pictures_come_before_the_numbers(demo):
    page = (demo[0] / "report.html").read_text(encoding="utf-8")
    assert page.index("<img") < page.index("<table")


@pytest.mark.slow
def test_both_maps_of_the_demo_are_good(tmp_path):
    """As it is run by a user: no constant that bends a map, no warning of one, and a kernel without negative values."""
    outcomes = run_demo(tmp_path)
    roll = swiss_roll(3000, turns=1, even=True, random_state=1_000_003).parameters
    for outcome in outcomes.values():
        for axis in (0, 1):
            assert abs(np.corrcoef(outcome.test[:, axis], roll[:, axis])[0, 1]) > 0.99
        assert min(outcome.recovered.values()) > 0.99
    assert outcomes["Isomap"].kernel_eigenvalues[0] < -700
    kernel = outcomes["kernel Isomap"]
    assert kernel.kernel_eigenvalues[0] > -1e-6 * kernel.kernel_eigenvalues[-1]
    assert "Both maps are the flat sheet." in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_second_demo_takes_the_place_of_the_first(demo):
    out, outcomes, _ = demo
    with pytest.warns(AdditiveConstantWarning):
        again = run_demo(out, n_train=200, n_test=60)
    np.testing.assert_array_equal(again["kernel Isomap"].test, outcomes["kernel Isomap"].test)


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ScalemaniError, match="no directory"):
        run_demo(tmp_path / "file" / "demo")
