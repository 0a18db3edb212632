"""Laplacian eigenmaps, resistances and diffusion maps against closed forms, a dense reference and scikit-learn."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from data import graph_of, neighbor_graph, ring, roll
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra
from sklearn.manifold import SpectralEmbedding

from scalemani.embedding.laplacian import (
    Resistances,
    affinities,
    degrees,
    diffusion,
    kernel_pca,
    laplacian_pairs,
    place_unnormalized,
    place_walk,
    random_walk,
)
from scalemani.errors import ConvergenceWarning, ScalemaniError, SolverError
from scalemani.kernel import graph_pairs
from scalemani.kernel.graph_pairs import GroundedFactor, foretold_nonzeros

ORACLE = dict(np.load(Path(__file__).parent.parent / "oracles" / "laplacian.npz"))
GRAPHS = ("path", "cycle", "star", "complete")
SOLVERS = ("direct", "lobpcg")
CLOSED = {  # resistance between vertices i and j of 7
    "path": lambda i, j: np.abs(i - j),
    "cycle": lambda i, j: np.abs(i - j) * (7 - np.abs(i - j)) / 7,
    "star": lambda i, j: (i != j) * np.where((i == 0) | (j == 0), 1.0, 2.0),
    "complete": lambda i, j: (i != j) * 2 / 7,
}


def near(found, expected, tol=1e-10):
    """Equal to a share of the largest number."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tol * np.abs(expected).max())


def sine(U, V):
    """Of the largest angle between two column spaces."""
    U, V = np.linalg.qr(U)[0], np.linalg.qr(V)[0]
    return np.linalg.norm(V - U @ (U.T @ V), 2)


def roll_weights(weights):
    return affinities(graph_of(ORACLE["edges"], ORACLE["distances"], 240), weights)


def everyone(n):
    return np.arange(n)[:, None], np.arange(n)


# ---- what the reference says -------------------------------------------------------------------


def test_the_oracle_holds_nothing_that_is_not_tested():
    of_roll = {
        *("eigenvalues", "V", "embedding", "Lplus_diagonal", "resistance_first_rows", "Lplus_trace", "volume"),
        *("normalised_eigenvalues", "normalised_U", "normalised_F", "T_unnormalised", "T_normalised"),
    }
    tested = {"X", "T", "k", "edges", "distances", "T_idx", "gaussian_sigma", "about"}
    tested |= {f"{name}_{array}" for name in GRAPHS for array in ("edges", "resistance", "Lplus")}
    tested |= {f"weighted_{array}" for array in ("A", "Lplus", "commute_walk", "commute_chain")}
    tested |= {f"{weights}_{array}" for weights in ("binary", "gaussian") for array in of_roll}
    tested |= {f"diffusion_alpha{a}_{array}" for a in ("0", "0.5", "1") for array in ("t1", "t4", "eigenvalues")}
    assert tested == ORACLE.keys()


@pytest.mark.parametrize("name", GRAPHS)
def test_resistances_are_the_closed_forms(name):
    edges = ORACLE[f"{name}_edges"]
    found = Resistances(affinities(graph_of(edges, np.ones(len(edges)), 7))[0])
    i, j = everyone(7)
    near(found.commute_times(i, j), CLOSED[name](i, j))
    near(found.commute_times(i, j), ORACLE[f"{name}_resistance"])
    near(found.pseudo_inverse(np.eye(7)), ORACLE[f"{name}_Lplus"])


def test_commute_times_are_those_of_the_walk_and_of_the_chain():
    """The reference solved for hitting times."""
    found = Resistances(sp.csr_array(ORACLE["weighted_A"]))
    near(found.commute_times(*everyone(25), "walk"), ORACLE["weighted_commute_walk"])
    near(found.commute_times(*everyone(25), "ham"), ORACLE["weighted_commute_chain"])
    near(found.pseudo_inverse(np.eye(25)), ORACLE["weighted_Lplus"])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_the_rolls_pairs_and_coordinates_are_the_references(weights, solver):
    affinity, sigma = roll_weights(weights)
    degree, expected = degrees(affinity), {key: ORACLE[f"{weights}_{key}"] for key in ("eigenvalues", "V", "embedding")}
    pairs = laplacian_pairs(affinity, 6, solver=solver, tol=1e-13 if solver == "direct" else 1e-12)
    near([*pairs.values, pairs.next_value], expected["eigenvalues"][1:])
    near(pairs.vectors[:, :3], expected["V"])
    near(kernel_pca(pairs, degree)[:, :3], expected["embedding"])
    near(kernel_pca(pairs, degree, "ham")[:, :3], np.sqrt(240) * expected["embedding"])
    volume = ORACLE[f"{weights}_volume"]
    assert degree.sum() == pytest.approx(volume, rel=1e-12)
    near(kernel_pca(pairs, degree, "walk")[:, :3], np.sqrt(volume) * expected["embedding"])
    assert sigma == (ORACLE["gaussian_sigma"] if weights == "gaussian" else None)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_the_rolls_normalised_pairs_are_the_references(weights, solver):
    affinity = roll_weights(weights)[0]
    pairs = laplacian_pairs(affinity, 3, True, solver, tol=1e-13 if solver == "direct" else 1e-12)
    near(pairs.values, ORACLE[f"{weights}_normalised_eigenvalues"])
    near(pairs.vectors, ORACLE[f"{weights}_normalised_U"])
    near(random_walk(pairs, degrees(affinity)), ORACLE[f"{weights}_normalised_F"])


@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_the_rolls_resistances_and_trace_are_the_references(weights):
    found = Resistances(roll_weights(weights)[0])
    i, j = everyone(240)
    near(found.commute_times(i[:5], j), ORACLE[f"{weights}_resistance_first_rows"])
    near(np.diagonal(found.pseudo_inverse(np.eye(240))), ORACLE[f"{weights}_Lplus_diagonal"])
    trace, error = found.trace(240)
    assert trace == pytest.approx(ORACLE[f"{weights}_Lplus_trace"], rel=1e-10) and error == 0
    guesses = np.array([found.trace(60, seed) for seed in range(20)])
    assert abs(guesses[:, 0].mean() - trace) < 3 * np.sqrt((guesses[:, 1] ** 2).mean() / 20)
    guess, error = found.trace(60, pairs=laplacian_pairs(found.affinity, 8))
    assert 0 < error < 0.25 * guesses[:, 1].mean() and abs(guess - trace) < 4 * error


@pytest.mark.parametrize("weights", ["binary", "gaussian"])
def test_new_points_are_where_the_reference_puts_them(weights):
    affinity, sigma = roll_weights(weights)
    neighbors = ORACLE["T_idx"]
    lengths = np.linalg.norm(ORACLE["X"][neighbors] - ORACLE["T"][:, None], axis=2)
    assert neighbors.shape[1] == ORACLE["k"]
    near(np.sort(np.linalg.norm(ORACLE["T"][:, None] - ORACLE["X"], axis=2))[:, : ORACLE["k"]], lengths)
    near_by = np.ones_like(lengths) if weights == "binary" else np.exp(-(lengths**2) / (2 * sigma**2))
    pairs = laplacian_pairs(affinity, 3, tol=1e-13)
    placed = place_unnormalized(near_by, neighbors, kernel_pca(pairs, degrees(affinity)), pairs.values)
    near(placed, ORACLE[f"{weights}_T_unnormalised"])
    pairs = laplacian_pairs(affinity, 3, True, tol=1e-13)
    placed = place_walk(near_by, neighbors, random_walk(pairs, degrees(affinity)), pairs.values)
    near(placed, ORACLE[f"{weights}_T_normalised"])


@pytest.mark.parametrize("time", [1, 4])
@pytest.mark.parametrize("alpha", ["0", "0.5", "1"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_diffusion_maps_are_the_references(solver, alpha, time):
    affinity = sp.csr_array(roll_weights("gaussian")[0] + sp.eye_array(240))
    found = diffusion(affinity, 4, float(alpha), time, solver, tol=1e-13 if solver == "direct" else 1e-12)
    near([1, *found.values, found.next_value], ORACLE[f"diffusion_alpha{alpha}_eigenvalues"])
    near(found.vectors[:, :2], ORACLE[f"diffusion_alpha{alpha}_t{time}"])


# ---- solvers -----------------------------------------------------------------------------------


def s_curve(n):
    rng = np.random.default_rng(1)
    t = 3 * np.pi * (rng.random(n) - 0.5)
    return np.c_[np.sin(t), 5 * rng.random(n), np.sign(t) * (np.cos(t) - 1)]


def sphere(n):
    points = np.random.default_rng(2).normal(size=(n, 3)) * [1, 1.3, 1.7]
    return points / np.linalg.norm(points, axis=1)[:, None] * [1, 1.2, 1.5]


def clouds(n):
    rng = np.random.default_rng(3)
    return rng.normal(size=(n, 4)) + 3 * (rng.random((n, 1)) < 0.3)


def noisy_ring(n):
    return ring(n) + 0.1 * np.random.default_rng(4).normal(size=(n, 2))


@pytest.mark.parametrize("points", [roll, s_curve, sphere, clouds, noisy_ring])
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_normalised_form_is_scikit_learns(points, solver):
    affinity = affinities(neighbor_graph(points(500), 10), "gaussian")[0]
    learned = SpectralEmbedding(2, affinity="precomputed", eigen_solver="arpack", random_state=0)
    narrow = affinity.indices.astype(np.int32), affinity.indptr.astype(np.int32)  # scikit-learn's demand
    expected = learned.fit_transform(sp.csr_array((affinity.data, *narrow), affinity.shape))
    pairs = laplacian_pairs(affinity, 2, True, solver)
    found = random_walk(pairs, degrees(affinity))
    assert sine(found, expected) < 1e-6
    if np.diff([*pairs.values, pairs.next_value]).min() > 1e-3 * pairs.next_value:
        near(found, expected, 1e-6)


@pytest.fixture(scope="module")
def cloud():
    """A 3-d Gaussian cloud of 3,000 points, each row weighted by its 10 nearest."""
    points = np.random.default_rng(0).normal(size=(3000, 3))
    return affinities(neighbor_graph(points, 10), "gaussian")[0]


@pytest.mark.parametrize("normalized", [False, True])
def test_both_solvers_give_one_answer(cloud, normalized):
    one, other = (laplacian_pairs(cloud, 4, normalized, solver) for solver in SOLVERS)
    np.testing.assert_allclose([*one.values, one.next_value], [*other.values, other.next_value], rtol=1e-6)
    near(one.vectors, other.vectors, 1e-6)
    for pairs in (one, other):
        np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(4), atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_seed_gives_the_same_bits(cloud, solver):
    one = laplacian_pairs(cloud, 2, solver=solver, seed=5)
    np.random.rand(3)  # noqa: NPY002 - the shared generator doesn't matter
    again = laplacian_pairs(cloud, 2, solver=solver, seed=5)
    np.testing.assert_array_equal(one.vectors, again.vectors)


def test_without_metis_the_answer_is_the_same(cloud, monkeypatch):
    expected, nonzeros = laplacian_pairs(cloud, 3, solver="direct"), GroundedFactor(cloud).nonzeros
    monkeypatch.setitem(sys.modules, "pymetis", None)
    near(laplacian_pairs(cloud, 3, solver="direct").vectors, expected.vectors, 1e-8)
    assert GroundedFactor(cloud).nonzeros > nonzeros


def test_the_size_of_the_factor_is_foretold_and_chooses_the_solver(cloud, monkeypatch):
    nonzeros, exponent = foretold_nonzeros(cloud)
    assert 0.5 < nonzeros / GroundedFactor(cloud).nonzeros < 2 and 1 < exponent < 2
    asked = []
    monkeypatch.setattr(graph_pairs, "UNASKED", 100)
    for way in ("_by_factor", "_by_multigrid"):
        found = np.ones(2), np.ones((3000, 2))
        monkeypatch.setattr(graph_pairs, way, lambda *_, way=way, found=found: asked.append(way) or found)
    laplacian_pairs(cloud, 1)
    monkeypatch.setattr(graph_pairs, "MOST_NONZEROS", 1000)
    laplacian_pairs(cloud, 1)
    monkeypatch.setattr(graph_pairs, "FLAT", 3.0)
    laplacian_pairs(cloud, 1)
    assert asked == ["_by_factor", "_by_multigrid", "_by_factor"]


def test_without_pyamg_the_way_out_is_said(cloud, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyamg", None)
    with pytest.raises(ScalemaniError, match=r"solver='direct'.*pip install 'scalemani\[amg\]'"):
        laplacian_pairs(cloud, 2, solver="lobpcg")


@pytest.mark.parametrize("solver", SOLVERS)
def test_eigenvalues_that_are_all_equal_are_found(solver):
    """Of a complete graph: n, n - 1 times."""
    one, other = (laplacian_pairs(sp.csr_array(1.0 - np.eye(250)), 3, solver=solver) for _ in range(2))
    np.testing.assert_allclose([*one.values, one.next_value], 250)
    np.testing.assert_allclose(one.vectors.T @ one.vectors, np.eye(3), atol=1e-8)
    np.testing.assert_array_equal(one.vectors, other.vectors)


def test_an_iteration_that_ends_early_warns_with_its_residual(cloud, monkeypatch):
    monkeypatch.setattr(graph_pairs, "MOST_ITERATIONS", 3)
    with pytest.warns(ConvergenceWarning, match="residual"):
        laplacian_pairs(cloud, 2, solver="lobpcg")


# ---- resistances -------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 60))
def test_on_a_tree_resistance_is_the_length_of_the_path(seed, n):
    rng = np.random.default_rng(seed)
    edges = np.c_[[rng.integers(child) for child in range(1, n)], np.arange(1, n)]
    lengths = rng.uniform(0.01, 10, n - 1)
    paths = dijkstra(graph_of(edges, lengths, n), directed=False)
    found = Resistances(graph_of(edges, 1 / lengths, n))
    near(found.commute_times(*everyone(n)), paths)
    i, j = rng.integers(n, size=(2, 5))
    np.testing.assert_allclose(found.commute_times(i, j), paths[i, j], atol=1e-10 * paths.max())


def test_coordinates_of_all_axes_are_as_far_apart_as_resistance():
    affinity = roll_weights("gaussian")[0]
    Y = kernel_pca(laplacian_pairs(affinity, 239), degrees(affinity))
    i, j = np.random.default_rng(0).integers(240, size=(2, 50))
    np.testing.assert_allclose(((Y[i] - Y[j]) ** 2).sum(axis=1), Resistances(affinity).commute_times(i, j), atol=1e-10)


def test_what_resistance_has_forgotten():
    """Little on a roll, nearly all in 8 dimensions; where all degrees are equal there is nothing to compare with."""
    high = np.random.default_rng(0).normal(size=(1000, 8))
    flat = Resistances(affinities(neighbor_graph(roll(1000), 10))[0]).forgotten()
    assert abs(flat) < 0.4 < 0.9 < Resistances(affinities(neighbor_graph(high, 10))[0]).forgotten()
    edges = ORACLE["cycle_edges"]
    assert np.isnan(Resistances(graph_of(edges, np.ones(len(edges)), 7)).forgotten())


# ---- new points, and what is refused -----------------------------------------------------------


def test_a_vertex_given_its_own_edges_returns_to_its_place():
    affinity = affinities(graph_of(ORACLE["cycle_edges"], np.arange(1.0, 8), 7), "gaussian")[0]
    neighbors, weights = affinity.indices.reshape(7, 2), affinity.data.reshape(7, 2)
    pairs = laplacian_pairs(affinity, 1)
    near(place_unnormalized(weights, neighbors, pairs.vectors, pairs.values), pairs.vectors)
    pairs = laplacian_pairs(affinity, 2, True)
    vectors = random_walk(pairs, degrees(affinity))
    near(place_walk(weights, neighbors, vectors, pairs.values), vectors)


def test_bits_of_a_new_point_do_not_depend_on_its_batch_and_far_ones_are_nan():
    rng = np.random.default_rng(0)
    vectors, neighbors, weights = rng.normal(size=(50, 3)), rng.integers(50, size=(20, 9)), rng.random((20, 9))
    values = np.array([0.1, 0.2, 0.4])
    weights[3], weights[4] = 0.0, 0.04
    for place in (place_unnormalized, place_walk):
        together = place(weights, neighbors, vectors, values)
        for turned in (np.asfortranarray(weights), weights):
            alone = [place(turned[row : row + 1], neighbors[row : row + 1], vectors, values) for row in range(20)]
            np.testing.assert_array_equal(np.concatenate(alone), together)
        missing = np.isnan(together)
        assert missing[3].all() and missing[4].all() == (place is place_unnormalized) and missing.sum() <= 6


def test_an_edge_of_length_0_is_an_edge_of_weight_1():
    graph = graph_of([(0, 1), (1, 2)], [0.0, 3.0], 3)
    for weights in ("binary", "gaussian"):
        assert affinities(graph, weights, 1.0 if weights == "gaussian" else None)[0].toarray()[0, 1] == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda graph: affinities(graph, "gaussian", 1.0), "length 50 has weight 0.*'binary'"),
        (lambda graph: affinities(graph, "gaussian", 0.0), "above 0"),
        (lambda graph: affinities(graph, "gauss"), "did you mean 'gaussian'"),
        (lambda graph: laplacian_pairs(graph, 1, solver="amg"), "allowed are 'auto', 'direct', 'lobpcg'"),
        (lambda graph: kernel_pca(laplacian_pairs(graph, 1), degrees(graph), "commute"), "scale='commute'"),
    ],
)
def test_what_has_no_answer_is_refused_in_one_line(make, message):
    with pytest.raises(ScalemaniError, match=message) as raised:
        make(graph_of([(0, 1), (1, 2)], [1.0, 50.0], 3))
    assert "\n" not in str(raised.value)


def test_a_graph_that_falls_apart_has_no_resistances():
    with pytest.raises(SolverError, match="binary weights"):
        Resistances(graph_of([(0, 1), (2, 3)], [1.0, 1.0], 4)).commute_times(0, 1)


@pytest.mark.parametrize("n", [20, 300])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_weight_that_is_lost_beside_the_others_joins_nothing(solver, n):
    half = np.arange(n // 2)
    edges = np.concatenate([np.c_[half, (half + 1) % half.size] + start for start in (0, half.size)])
    weights = np.random.default_rng(0).uniform(0.5, 1, n)
    joined = graph_of(np.r_[edges, [(0, n - 1)]], np.r_[weights, 1e-100], n)
    with pytest.raises(SolverError, match="binary weights"):
        laplacian_pairs(joined, 2, solver=solver)
