"""The reads of D that a plan expects are near those that the fit takes."""

import pytest
from data import roll

from scalemani import Isomap, KernelIsomap

K = 8
pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.usefixtures("quick_calibration"),
]


@pytest.mark.parametrize("correction", [None, "cailliez"])
def test_expected_reads_are_of_the_right_size(correction):
    X = roll(700)
    model = KernelIsomap(n_neighbors=K, correction=correction)
    assert model.plan(X).reads / 2 <= model.fit(X).n_passes_ <= 2 * model.plan(X).reads


@pytest.mark.parametrize("factor", [2.0**-200, 2.0**200])
def test_the_unit_is_of_no_account(factor):
    """Lengths of 1e-60 are 0 in float32, and of 1e60 inf."""
    model, X = Isomap(n_neighbors=K), roll(700)
    assert model.plan(factor * X).reads == model.plan(X).reads
    assert model.plan(factor * X).reads / 2 <= model.fit(factor * X).n_passes_ <= 2 * model.plan(X).reads


def test_small_fits_are_planned_without_a_read():
    model = Isomap(n_neighbors=K)
    assert model.plan(roll(200)).reads == model.fit(roll(200)).n_passes_ == 0
