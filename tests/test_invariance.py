"""What the result does not depend on (tiles, threads, order, unit, offset, dtype, kind of array), and closed forms."""

import warnings

import dask.array as da
import naive
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import (
    flat,
    flat_distances,
    ring,
    ring_distances,
    ring_graph,
    roll,
    star_distances,
    star_graph,
    torus_distances,
    torus_graph,
    torus_steps,
)
from distributed import Client
from scipy.spatial.distance import cdist

from scalemani import Isomap, KernelIsomap, fitting
from scalemani.cluster import machine
from scalemani.parameters import Parameters
from scalemani.steps.cuts import LARGEST_TILE
from scalemani.steps.records import DistancesRecord
from scalemani.storage.run import RunStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.LooksLikeDistancesWarning"),
]

X = roll(200)
K = 8
P = 3


def fitted(rows, **arguments):
    return KernelIsomap(**{"n_neighbors": K, "n_components": P, "knn": "exact", **arguments}).fit(rows)


@pytest.fixture(scope="module")
def reference():
    return fitted(X)


def close(ours, theirs, relative=1e-5):
    """Coordinates agree to 1e-5 of their scale: float32 tiles (6e-8) times λ1/λp and the solver's tolerance (1e-6)."""
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=relative * np.abs(theirs).max())


# ---- plan ----------------------------------------------------------------------------------------


SLOW_TILES = [pytest.param(size, marks=pytest.mark.slow) for size in (200, LARGEST_TILE)]


@pytest.mark.parametrize("tile", [16, 37, *SLOW_TILES])
def test_the_tile_size_changes_nothing(tile, reference):
    run = fitting.fit(X, Parameters(n_neighbors=K, n_components=P, knn="exact", tile_size=tile))
    assert run.store.needed(DistancesRecord).tile_size == tile
    close(run.embedding(), reference.embedding_)
    close(run.transform(X + 0.1), reference.transform(X + 0.1))
    np.testing.assert_allclose(run.spectrum["additive_constant"], reference.additive_constant_, rtol=1e-6)
    rows = [0, 17, 199]
    np.testing.assert_allclose(run.geodesics(rows), reference.geodesics(rows), rtol=1e-6)


@pytest.mark.parametrize("tile", [64, pytest.param(151, marks=pytest.mark.slow)])
def test_the_tile_size_changes_nothing_where_the_solver_iterates(tile):
    """Above 300 points the solver starts from a random block: its path, and so its bits, hang on the sums."""
    rows = roll(400)
    default = Isomap(n_neighbors=K, n_components=P).fit(rows)
    run = fitting.fit(rows, Parameters(n_neighbors=K, n_components=P, correction=None, tile_size=tile))
    assert run.spectrum["n_passes"] > 1
    close(run.embedding(), default.embedding_)


def test_the_number_of_threads_changes_no_bit(reference, tmp_path):
    for threads in (1, 4):
        options = {"processes": False, "n_workers": 1, "dashboard_address": "127.0.0.1:0"}
        with Client(threads_per_worker=threads, **options) as client:
            model = fitted(X, scheduler=client, store=tmp_path / str(threads))
            np.testing.assert_array_equal(model.embedding_, reference.embedding_)
            np.testing.assert_array_equal(model.geodesics([3]), reference.geodesics([3]))
        assert model.additive_constant_ == reference.additive_constant_


def test_the_memory_limit_changes_nothing(monkeypatch, embedded, quick_calibration):
    """Smaller tiles, and a solver's basis that restarts earlier."""
    monkeypatch.setattr(machine, "FIRST_USE", 0)  # what a process holds after its first fit anyway, and much of it here
    rows = roll(700)
    default = Isomap(n_neighbors=K, n_components=P).fit(rows)
    needed = Isomap(n_neighbors=K, n_components=P).plan(rows).memory_peak
    model = Isomap(n_neighbors=K, n_components=P, memory_limit=0.58 * needed).fit(rows)
    assert RunStore(model.store_).blocks.size < RunStore(default.store_).blocks.size
    close(model.embedding_, default.embedding_)


# ---- data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_the_rows_changes_nothing(seed, reference):
    """No two distances of the roll are equal, so that the graph is the same but for names."""
    order = np.random.default_rng(seed).permutation(len(X))
    model = fitted(X[order])
    D = reference.geodesics(np.arange(len(X)))
    np.testing.assert_allclose(model.geodesics(np.arange(len(X))), D[np.ix_(order, order)], rtol=1e-6)
    np.testing.assert_allclose(model.additive_constant_, reference.additive_constant_, rtol=1e-6)
    close(model.embedding_, reference.embedding_[order])


@pytest.mark.parametrize(("scale", "correction"), [(1e-9, "cailliez"), (1e9, None), (3.0, "cailliez")])
def test_the_unit_scales_the_coordinates_and_nothing_else(scale, correction, reference):
    model = fitted(X * scale, correction=correction)
    plain = reference if correction == "cailliez" else fitted(X, correction=None)
    close(model.embedding_ / scale, plain.embedding_)
    close(model.transform((X + 0.1) * scale) / scale, plain.transform(X + 0.1))
    np.testing.assert_allclose(model.additive_constant_, plain.additive_constant_ * scale, rtol=1e-6)
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_ * scale**2, rtol=1e-5)
    np.testing.assert_allclose(model.spectrum_["share"], plain.spectrum_["share"], rtol=1e-5)
    # The median is that of sampled vertices, whose order hangs on rounding: 3 %.
    medians = [one.spectrum_["median_distance"] for one in (model, plain)]
    np.testing.assert_allclose(medians[0], medians[1] * scale, rtol=0.03)
    assert model.spectrum_["n_passes"] == plain.spectrum_["n_passes"]


def test_a_correction_in_numbers_has_the_unit_of_the_data():
    small, large = (fitted(X * scale, correction=5.0 * scale) for scale in (1.0, 1e3))
    assert small.additive_constant_ == 5.0 and large.additive_constant_ == 5e3
    close(large.embedding_ / 1e3, small.embedding_)


@pytest.mark.parametrize("offset", [1e6])
def test_a_common_offset_changes_nothing(offset):
    rows = np.round(X * 2**20) / 2**20  # exact with the offset
    close(fitted(rows + offset).embedding_, fitted(rows).embedding_)


def test_a_tiny_spread_around_one_loses_no_neighbour(reference):
    rows = X * 1e-6 + 1  # in float32 most of these would be equal
    close(fitted(rows).embedding_ * 1e6, reference.embedding_, 1e-4)  # 1 + 1e-5 keeps 11 digits


@pytest.fixture(scope="module")
def bytes_as_float64():
    rows = np.random.default_rng(0).integers(0, 256, (120, 6))
    model = fitted(rows.astype(np.float64))
    return rows, model.embedding_, model.transform(rows.astype(np.float64))


@pytest.mark.parametrize(
    "dtype",
    [np.uint8, np.float32, object]
    + [pytest.param(d, marks=pytest.mark.slow) for d in (np.int16, np.int64, np.float16, np.longdouble, ">f4")],
)
def test_the_dtype_changes_nothing(dtype, bytes_as_float64):
    """Values 0 to 255 are exact in all of these; their differences and squares are not."""
    rows, embedding, placed = bytes_as_float64
    model = fitted(rows.astype(dtype))
    np.testing.assert_array_equal(model.embedding_, embedding)
    np.testing.assert_array_equal(model.transform(rows.astype(dtype)), placed)


def test_the_kind_of_array_changes_nothing(reference, tmp_path):
    np.save(tmp_path / "x.npy", X)
    stored = zarr.create_array(tmp_path / "x.zarr", shape=X.shape, chunks=(77, 2), dtype="f8")
    stored[:] = X
    for kind in (np.load(tmp_path / "x.npy", mmap_mode="r"), da.from_array(X, chunks=(41, 2)), stored, X.tolist()):
        np.testing.assert_array_equal(fitted(kind).embedding_, reference.embedding_)
    close(fitted(sp.csr_array(X)).embedding_, reference.embedding_)


def test_every_way_to_the_same_graph_gives_the_same_model(reference):
    D = cdist(X, X)
    listed = np.argsort(D, axis=1)[:, 1 : K + 1]
    rows = np.repeat(np.arange(len(X)), K)
    G = sp.csr_array((D[rows, listed.ravel()], (rows, listed.ravel())), shape=D.shape)
    G = sp.csr_array(G.maximum(G.T))
    geodesic = naive.geodesics(G)
    for X_, metric in ((D, "precomputed"), (G, "precomputed"), (geodesic, "geodesic")):
        model = fitted(X_, metric=metric, knn="auto")
        close(model.embedding_, reference.embedding_)
        np.testing.assert_allclose(model.additive_constant_, reference.additive_constant_, rtol=1e-6)


# ---- closed forms --------------------------------------------------------------------------------


def closed(name):
    """Graph, points or None, and c of the closed form."""
    if name.startswith("ring"):
        n = int(name[4:])
        return ring_graph(n), ring(n), ring_distances(n), naive.constant_by_fourier(ring_distances(n)[0])
    return torus_graph(12, 15), None, torus_distances(12, 15), naive.constant_by_fourier(torus_steps(12, 15))


@pytest.mark.parametrize("name", ["ring101", "torus"])  # ring40: test_pitfalls
def test_the_constant_of_rings_and_tori_is_the_closed_form(name):
    graph, points, D, c = closed(name)
    inputs = [(graph, {"metric": "precomputed"}), (D, {"metric": "geodesic"})]
    if points is not None:
        inputs.append((points, {"n_neighbors": 2}))
    for rows, arguments in inputs:
        model = KernelIsomap(**{"n_components": 2, **arguments}).fit(rows)
        np.testing.assert_allclose(model.additive_constant_, c, rtol=1e-6)  # sums of 50 equal hops in float32 miss it


def test_the_eigenvalues_of_a_torus_are_taken_by_value_and_not_by_modulus():
    """Those of a ring: test_pitfalls."""
    graph, _, D, c = closed("torus")
    plain = Isomap(metric="precomputed", n_components=4).fit(graph)
    np.testing.assert_allclose(plain.eigenvalues_, naive.top_pairs(naive.kernel(D, 0.0), 4)[0], rtol=1e-5)
    shifted = KernelIsomap(metric="precomputed", n_components=4).fit(graph)
    np.testing.assert_allclose(shifted.eigenvalues_, naive.top_pairs(naive.kernel(D, c), 4)[0], rtol=1e-5)


def test_the_star():
    model = KernelIsomap(metric="precomputed", n_components=2).fit(star_graph(4))
    np.testing.assert_allclose(model.additive_constant_, (np.sqrt(3) - 1) / 2, rtol=1e-6)


@pytest.mark.parametrize("n", [100, 400])
def test_flat_data_has_no_constant_and_keeps_its_distances(n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelIsomap(n_neighbors=n - 1, n_components=3).fit(flat(n))
    assert model.additive_constant_ == 0
    np.testing.assert_allclose(cdist(model.embedding_, model.embedding_), flat_distances(n), rtol=0, atol=1e-5)
    given = KernelIsomap(metric="geodesic", n_components=3).fit(flat_distances(n).astype(np.float32))
    assert given.additive_constant_ == 0


@pytest.mark.parametrize("n", [2, 3])
def test_two_and_three_points_have_no_constant(n):
    D = cdist(flat(n), flat(n))
    for rows, arguments in ((flat(n), {"n_neighbors": n - 1}), (D, {"metric": "geodesic"})):
        model = KernelIsomap(n_components=n - 1, **arguments).fit(rows)
        assert model.additive_constant_ == 0
        np.testing.assert_allclose(cdist(model.embedding_, model.embedding_), D, atol=1e-6)


@pytest.mark.filterwarnings("ignore::scalemani.errors.UndeterminedAxesWarning")  # the arms of a star are alike
@pytest.mark.parametrize("name", ["star", pytest.param("ring40", marks=pytest.mark.slow)])
def test_the_three_solvers_find_one_constant(name):
    """End to end; power takes hundreds of reads, and a read of a small D is all overhead."""
    D = star_distances(7) if name == "star" else closed(name)[2]
    found = {
        solver: KernelIsomap(metric="geodesic", n_components=2, constant_solver=solver).fit(D)
        for solver in ("ritz", "power", "arnoldi")
    }
    c = found["ritz"].additive_constant_
    np.testing.assert_allclose(c, naive.constant_by_newton(D), rtol=1e-6)
    for solver in ("power", "arnoldi"):
        np.testing.assert_allclose(found[solver].additive_constant_, c, rtol=1e-6)
        assert found[solver].n_passes_ > found["ritz"].n_passes_
        np.testing.assert_allclose(found[solver].eigenvalues_, found["ritz"].eigenvalues_, rtol=1e-5)
