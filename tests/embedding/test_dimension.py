"""Dimensions from histograms of distances: exact laws, data of known dimension, and the histogram that a fit leaves."""

import json
from dataclasses import asdict
from fractions import Fraction

import numpy as np
import pytest
from data import flat, neighbor_graph, ring_distances, roll, star_distances, two
from stored_models import fitted

from scalemani import KernelIsomap, load
from scalemani.embedding.dimension import (
    DistanceHistogram,
    broken_stick,
    correlation_dimension,
    hypersphere_dimension,
    local_dimensions,
    suggested_dimension,
)
from scalemani.errors import ScalemaniError
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS, bin_edges, count_distances, new_counts
from scalemani.steps.distances import stored_histogram
from scalemani.storage.run import RunStore

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


def histogram_of(D, n_edges=0):
    counts = new_counts()
    count_distances(np.ascontiguousarray(D, np.float32), counts, diagonal=True)
    return DistanceHistogram.of_counts(counts, len(D), n_edges=n_edges)


def histogram_by(nearer, longest, n_points=4000, n_edges=0):
    """Of pairs whose number within r is the integer next to nearer(r), up to a distance."""
    edges = bin_edges()
    edges = edges[(edges > 1e-20) & (edges <= longest)]
    counts = np.diff(np.round(nearer(edges)).astype(np.int64))
    first = np.flatnonzero(counts)[0]
    return DistanceHistogram(edges[first:], counts[first:], n_points, n_edges)


# ---- laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [0.5, 1, 2, 3.3, 8])
def test_a_power_law_has_its_exponent_at_every_scale(d):
    """Number of pairs within r as r^d, rounded: the error is that of the rounding."""
    law = histogram_by(lambda r: 8e6 * r**d, 1.0)
    found = correlation_dimension(law)
    assert found.dimension == pytest.approx(d, rel=1e-4)
    assert found.standard_error < 1e-4 * d
    r, slope = local_dimensions(law)
    many = law.nearer[:-1] > 1e4
    np.testing.assert_allclose(slope[many], d, rtol=1e-2)
    assert (r[1:] > r[:-1]).all() and law.edges[1] < r[0] < law.edges[2]


@pytest.mark.parametrize("d", [2, 3, 5, 10])
def test_a_hypersphere_has_its_dimension(d):
    """Density sin(r)^(d - 1) up to π, integrated bin by bin; bins of up to an eighth leave a few parts in a hundred."""
    fine = np.linspace(0, np.pi, 200_001)
    whole = np.cumsum(np.sin(fine) ** (d - 1))
    found = hypersphere_dimension(histogram_by(lambda r: 8e6 * np.interp(r, fine, whole / whole[-1]), 3.25))
    assert found.dimension == pytest.approx(d, rel=0.04)
    assert found.longest == pytest.approx(np.pi / 2, rel=0.1)
    assert found.standard_error < 0.1 * d


def test_the_range_can_be_given():
    """A plane at small distances, a line at large ones; the bins in the range are used, no others."""
    law = histogram_by(lambda r: np.where(r < 0.25, 4e6 * 4 * r**2, 4e6 * r), 1.0)
    for shortest, longest, d in ((None, 0.2, 2), (0.3, 0.9, 1), (0.1, 0.2, 2)):
        found = correlation_dimension(law, shortest, longest)
        assert found.dimension == pytest.approx(d, rel=1e-2)
        assert (shortest or 0) <= found.shortest < found.longest <= longest
    mixed = correlation_dimension(law, shortest=0.05, longest=0.9)
    assert 1.1 < mixed.dimension < 1.9
    assert mixed.standard_error > 0.05, "it is no straight line, and the error says so"
    assert mixed.n_pairs == law.nearer[law.edges[1:] <= 0.9][-1]


def test_the_range_starts_where_distances_are_paths():
    """As many pairs are nearer as there are edges; a histogram without a graph takes ten neighbours a point."""
    for n_edges, pairs in ((50_000, 50_000), (0, 5 * 4000)):
        law = histogram_by(lambda r: 8e6 * r**2, 1.0, n_edges=n_edges)
        found = correlation_dimension(law)
        assert law.nearer[law.edges[1:] < found.shortest][-1] < pairs <= law.nearer[law.edges[1:] == found.shortest]
        assert found.n_pairs <= law.n_pairs / 8 < law.nearer[law.edges[1:] > found.longest][0]


# ---- data of known dimension -------------------------------------------------------------------


def on_a_sphere(n):
    points = np.random.default_rng(0).standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def on_a_torus(n):
    u, v = 2 * np.pi * np.random.default_rng(0).random((2, n))
    ring = 2 + 0.7 * np.cos(u)
    return np.column_stack([ring * np.cos(v), ring * np.sin(v), 0.7 * np.sin(u)])


KNOWN = {  # points, dimension, and how near the two estimates were on several seeds, with a margin
    "line": (lambda n: np.random.default_rng(0).random((n, 1)) * [[3.0, 4.0]], 1, 0.05, 0.15),
    "roll": (roll, 2, 0.35, 0.6),
    "sphere": (on_a_sphere, 2, 0.2, 0.15),
    "torus": (on_a_torus, 2, 0.2, 0.3),
    "cube": (flat, 3, 0.9, 0.35),
    "gauss5": (lambda n: np.random.default_rng(0).standard_normal((n, 5)), 5, 2.0, 0.7),
}


@pytest.fixture(scope="module", params=KNOWN)
def known(request):
    points, d, *near = KNOWN[request.param]
    graph = neighbor_graph(points(500), 9)
    return histogram_of(geodesic_rows(graph, np.arange(500)), graph.nnz // 2), d, near


def test_known_dimensions_are_found(known):
    """By 500 points. The correlation dimension falls short where data end at an edge, the more in more dimensions."""
    histogram, d, near = known
    found = correlation_dimension(histogram), hypersphere_dimension(histogram)
    for one, within in zip(found, near, strict=True):
        assert one.dimension == pytest.approx(d, abs=within)
        assert 0 < one.standard_error < 0.4
        assert histogram.edges[0] < one.shortest < one.longest < histogram.edges[-1]
    assert found[0].dimension < d + 0.1
    assert suggested_dimension(histogram)["suggested"] == d


def test_every_pair_is_in_the_histogram(known):
    histogram, _, _ = known
    assert histogram.counts.sum() + histogram.zeros + histogram.unreached == histogram.n_pairs == 500 * 499 // 2
    assert histogram.counts[0] > 0 < histogram.counts[-1]


def test_the_unit_is_no_matter_if_it_is_a_power_of_two(known):
    histogram, _, _ = known
    moved = DistanceHistogram(histogram.edges * 2.0**-300, histogram.counts, 500, histogram.n_edges)
    for estimate in (correlation_dimension, hypersphere_dimension):
        one, other = asdict(estimate(histogram)), asdict(estimate(moved))
        for name, value in one.items():
            factor = 2.0**-300 if name in ("shortest", "longest") else 1.0
            assert other[name] == pytest.approx(value * factor, rel=1e-6)


def test_a_plain_account(known):
    histogram, _, _ = known
    found = suggested_dimension(histogram)
    assert json.loads(json.dumps(found)) == found
    assert found["correlation"] == asdict(correlation_dimension(histogram))
    assert found["hypersphere"] == asdict(hypersphere_dimension(histogram))
    rounded = {max(1, round(found[name]["dimension"])) for name in ("correlation", "hypersphere")}
    assert found["agree"] == (len(rounded) == 1)


@pytest.mark.parametrize("D", [np.zeros((1, 1)), np.zeros((3, 3)), 1 - np.eye(4), star_distances(9), ring_distances(5)])
def test_a_few_distances_have_no_dimension_and_no_error_of_another_kind(D):
    histogram = histogram_of(D)
    assert histogram.counts.sum() + histogram.zeros == histogram.n_pairs
    assert len(histogram.edges) == len(histogram.counts) + 1
    found = suggested_dimension(histogram)
    assert found["hypersphere"] is None
    assert found["suggested"] is None or found["correlation"] is not None
    with pytest.raises(ScalemaniError, match="bins of distances are in the range and 3 are needed"):
        hypersphere_dimension(histogram)


# ---- what a fit leaves -------------------------------------------------------------------------


def test_a_fit_counts_its_distances_in_the_users_unit(undisturbed):
    """Exactly those of D: float32 times a power of two has no rounding."""
    found = stored_histogram(undisturbed.store_)
    D = undisturbed.geodesics(np.arange(200))[np.triu_indices(200, 1)]
    np.testing.assert_array_equal(found.counts, np.histogram(D, found.edges)[0])
    assert (found.n_points, found.n_edges) == (200, undisturbed.spectrum_["n_edges"])
    assert (found.zeros, found.unreached, found.counts.sum()) == (0, 0, found.n_pairs)
    edges = found.edges / 2.0 ** np.floor(np.log2(found.edges))
    assert set(np.unique(edges)) == {1 + part / 8 for part in range(8)}
    assert suggested_dimension(found)["suggested"] == 2


def test_equal_and_dropped_rows_are_no_points():
    X = np.concatenate([two(60)[:40], roll(80) + 500])
    model = KernelIsomap(n_neighbors=7, disconnected="largest", correction=None).fit(np.concatenate([X, X]))
    assert stored_histogram(model.store_).n_points == model.spectrum_["n_vertices"] == 80


def test_given_distances_are_counted_too(tmp_path):
    upper = np.triu(geodesic_rows(neighbor_graph(roll(90), 8), np.arange(90)).astype(float))
    D = upper + upper.T
    model = KernelIsomap(metric="geodesic", correction=None, store=tmp_path / "run").fit(D * 1e5)
    found = stored_histogram(tmp_path / "run")
    assert (found.n_points, found.n_edges, found.counts.sum()) == (90, 0, 90 * 89 // 2)
    x = model.geodesics(np.arange(90))[np.triu_indices(90, 1)]
    np.testing.assert_array_equal(found.counts, np.histogram(x, found.edges)[0])


def test_counts_stay_with_a_model_without_distances(undisturbed, tmp_path):
    expected = stored_histogram(undisturbed.store_)
    undisturbed.export(tmp_path / "model")
    fitted(tmp_path / "run", keep_distances=False)
    for path in ("model", "run"):
        found = stored_histogram(tmp_path / path)
        np.testing.assert_array_equal(found.edges, expected.edges)
        np.testing.assert_array_equal(found.counts, expected.counts)


def test_a_model_of_a_release_that_did_not_count_is_loaded_and_has_none(undisturbed, tmp_path):
    undisturbed.export(tmp_path / "model")
    RunStore(tmp_path / "model").remove_arrays(DISTANCE_COUNTS)
    model = load(tmp_path / "model")
    np.testing.assert_array_equal(model.embedding_, undisturbed.embedding_)
    assert stored_histogram(model.store_) is None
    with pytest.raises(ScalemaniError, match="holds no run"):
        stored_histogram(tmp_path)


# ---- the broken stick --------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 7, 40])
def test_pieces_of_a_broken_stick_in_fractions(m):
    """MacArthur's closed form, in exact arithmetic; they add up to the stick."""
    exact = [sum(Fraction(1, i) for i in range(j, m + 1)) / m for j in range(1, m + 1)]
    assert sum(exact) == 1
    np.testing.assert_allclose(broken_stick(m), [float(length) for length in exact], rtol=1e-14)
    np.testing.assert_array_equal(broken_stick(m, 3), np.append(broken_stick(m), [0, 0])[:3])


def test_pieces_of_sticks_that_are_broken():
    """20,000 sticks in five: within four standard errors."""
    breaks = np.sort(np.random.default_rng(0).random((20_000, 4)), axis=1)
    pieces = -np.sort(-np.diff(breaks, prepend=0, append=1, axis=1), axis=1)
    np.testing.assert_array_less(np.abs(pieces.mean(0) - broken_stick(5)), 4 * pieces.std(0) / np.sqrt(20_000))
