"""The reads of D that a plan expects are near those that the fit takes."""

import numpy as np
import pytest
from data import roll, roll_graph

from scalemani import Isomap, KernelIsomap
from scalemani.geodesics.paths import geodesic_rows
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import first_block
from scalemani.kernel.operators import DenseKernels
from scalemani.kernel.start import nystrom_block, start_vertices
from scalemani.parameters import Parameters
from scalemani.steps.expected_reads import READS_SAMPLE, expected_reads, sampled_reads

K = 8
USUAL = 10**6  # columns of a basis that is never restarted
pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.usefixtures("quick_calibration", "one_thread"),
]


@pytest.fixture(scope="module")
def distances():
    """Of a roll, in an order in which what is near in number is near in space."""
    graph, order = roll_graph(700), np.argsort(roll(700)[:, 0])
    found = geodesic_rows(graph, order)[:, order].astype(np.float64)
    return np.minimum(found, found.T)


def taken(distances, parameters):
    """Reads after the first, from the block that a fit begins with."""
    n, p, kernels = len(distances), parameters.n_components, DenseKernels(distances)
    marks = start_vertices(n, n, 0)
    rows = distances[marks].astype(np.float32)
    options = {"correction": parameters.correction, "tol": parameters.tol}
    solve(
        kernels, p, start=lambda: nystrom_block(rows, marks, first_block(n, p), p, options["correction"], 0), **options
    )
    return kernels.n_reads - 1


@pytest.mark.parametrize("correction", [None, "cailliez"])
def test_expected_reads_are_of_the_right_size(correction):
    X = roll(700)
    model = KernelIsomap(n_neighbors=K, correction=correction)
    expected = model.plan(X).reads
    assert expected / 2 <= model.fit(X).n_passes_ <= 2 * expected


@pytest.mark.parametrize("components", [2, 10])
@pytest.mark.parametrize("correction", [None, "cailliez", "lingoes", "flip", 30.0])
def test_a_sample_tells_the_reads_of_every_correction(correction, components, distances):
    """To a quarter; the figures that hold for any data, to 2.5 here."""
    parameters = Parameters(n_components=components, correction=correction)
    reads, n = taken(distances, parameters), len(distances)
    sample = np.linspace(0, n, READS_SAMPLE, endpoint=False).astype(int)
    told = sampled_reads(distances[np.ix_(sample, sample)], parameters, n, USUAL, 1.0)
    assert abs(told - reads) <= max(1, reads / 4)
    assert reads / 2.5 <= expected_reads(parameters, n, USUAL) <= 2.5 * reads


def test_a_number_is_in_the_users_unit(distances):
    """0.001 in a unit of 2^-10 is 1 in the sample's, not nothing."""
    sample = distances[:: len(distances) // 310, :: len(distances) // 310]
    for c in (1e-3, 1e3):
        asked = Parameters(n_components=3, correction=c * 2.0**-10)
        plain = Parameters(n_components=3, correction=c)
        assert sampled_reads(sample, asked, 700, USUAL, 2.0**-10) == sampled_reads(sample, plain, 700, USUAL, 1.0)


def test_where_a_sample_can_not_tell(distances):
    """All of it in one block, or nearly; and constants that are sought in other ways."""
    sample = distances[:READS_SAMPLE, :READS_SAMPLE]
    assert sampled_reads(sample[:300, :300], Parameters(), 700, USUAL, 1.0) is None
    assert sampled_reads(sample, Parameters(n_components=60), 700, USUAL, 1.0) is None
    assert sampled_reads(sample, Parameters(constant_solver="arnoldi"), 700, USUAL, 1.0) is None
    assert sampled_reads(sample, Parameters(constant_solver="arnoldi", correction=None), 700, USUAL, 1.0) is not None


def test_more_points_more_axes_and_a_smaller_basis_take_more_reads():
    def reads(n, columns=USUAL, **options):
        return expected_reads(Parameters(**options), n, columns)

    assert reads(100_000) > reads(1000)
    assert reads(10_000, columns=64) > reads(10_000)
    for correction in ("lingoes", "flip", None, 1.0):
        assert reads(100_000, correction=correction) == reads(1000, correction=correction) < reads(1000)
        assert reads(1000, correction=correction, n_components=20) > reads(1000, correction=correction)
    # How a constant would be found is of no account where none is sought.
    assert reads(1000, correction="lingoes", constant_solver="power") < 10 < reads(1000, constant_solver="power")


@pytest.mark.parametrize("factor", [2.0**-200, 2.0**200])
def test_the_unit_is_of_no_account(factor):
    """Lengths of 1e-60 are 0 in float32, and of 1e60 inf."""
    model, X = Isomap(n_neighbors=K), roll(700)
    expected = model.plan(X).reads
    assert model.plan(factor * X).reads == expected
    assert expected / 2 <= model.fit(factor * X).n_passes_ <= 2 * expected


def test_small_fits_are_planned_without_a_read():
    model = Isomap(n_neighbors=K)
    assert model.plan(roll(200)).reads == model.fit(roll(200)).n_passes_ == 0
