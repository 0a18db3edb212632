"""Edges that leap are found where they ruin a map, and nowhere else."""

import numpy as np
import pytest
import scipy.sparse as sp
from data import dup, graph_of, neighbor_graph, ring
from scipy.sparse.csgraph import connected_components
from sklearn.datasets import load_digits, load_iris, load_wine

from scalemani.demo import swiss_roll
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.shortcuts import find_shortcuts, shortcut_sources
from scalemani.graph.edges import without_edges


def found_in(graph, seed=0, exempt=None):
    graph = sp.csr_array(graph.astype(np.float32))
    sources = shortcut_sources(graph.shape[0], seed)
    return find_shortcuts(graph, sources, geodesic_rows(graph, sources), exempt)


def leaping(graph, parameters):
    """Edges between points that are more than half a turn of the roll apart."""
    upper = sp.triu(graph).tocoo()
    far = np.abs(parameters[upper.row, 0] - parameters[upper.col, 0]) > 15
    return {(int(i), int(j)) for i, j in zip(upper.row[far], upper.col[far], strict=True)}


def first_axis(graph, truth):
    """Correlation of the first axis of classical scaling with the true length."""
    squares = geodesic_rows(graph, np.arange(graph.shape[0])).astype(float) ** 2
    squares = (squares + squares.T) / 2
    means = squares.mean(axis=0)
    kernel = -0.5 * (squares - means - means[:, None] + means.mean())
    axis = sp.linalg.eigsh(kernel, 1, which="LA")[1][:, 0]
    return abs(np.corrcoef(axis, truth)[0, 1])


#: Points, variance of the noise, k, seed: the map is ruined by 1 to 8 edges.
RUINED = [
    (1200, 0.25, 12, 0), (1200, 0.25, 15, 0), (1200, 0.25, 15, 1), (2000, 0.5, 10, 1),
    (1200, 0.25, 12, 2), (1200, 0.25, 15, 2), (2000, 0.5, 10, 2), (2000, 0.5, 10, 0),
]  # fmt: skip


@pytest.mark.parametrize(("n", "noise", "k", "seed"), RUINED)
def test_ruined_rolls_are_mended(n, noise, k, seed):
    roll = swiss_roll(n, noise_variance=noise, random_state=seed)
    graph = neighbor_graph(roll.points, k)
    found = found_in(graph)
    assert {tuple(edge) for edge in found.edges.tolist()} & leaping(graph, roll.parameters)
    assert found.negative_mass[1] < 0.5 * found.negative_mass[0]
    assert first_axis(graph, roll.parameters[:, 0]) < 0.9
    mended = without_edges(graph, found.edges)
    assert connected_components(mended, directed=False)[0] == 1
    assert first_axis(mended, roll.parameters[:, 0]) > 0.99
    np.testing.assert_allclose(found.lengths, graph[found.edges[:, 0], found.edges[:, 1]], rtol=1e-6)
    assert (found.flows > 0.0001).all() and found.harm > 0.02


def test_a_leap_that_shortens_few_distances_and_bends_the_map_is_found():
    """One edge of the demo's roll with 39 neighbours: without it the negative mass falls from 0.24 to 0.01."""
    roll = swiss_roll(1200, turns=1, even=True, random_state=0)
    graph = neighbor_graph(roll.points, 39)
    found = found_in(graph)
    assert len(found.edges) == 1 and found.negative_mass[0] > 0.2 > 0.02 > found.negative_mass[1]
    assert {tuple(edge) for edge in found.edges.tolist()} <= leaping(graph, roll.parameters)


def test_a_point_is_not_parted_from_its_own_sheet():
    """A vertex with one edge that leaps: its twelve other edges are as few as a bundle, and stay."""
    grid = np.array([[x, y, z] for z in (0, 5) for x in range(30) for y in range(10)], float)
    graph = sp.lil_array(neighbor_graph(grid, 8))
    one, other = 29 * 10 + 5, 300 + 29 * 10 + 5  # the far ends; the near ones are tied below
    graph[one, other] = graph[other, one] = 3.0
    for y in range(10):
        for x in range(2):
            graph[10 * x + y, 300 + 10 * x + y] = graph[300 + 10 * x + y, 10 * x + y] = 1.0
    assert found_in(sp.csr_array(graph)).edges.tolist() == [[one, other]]


def sphere(n, rng):
    points = rng.standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def torus(n, rng):
    u, v = 2 * np.pi * rng.random((2, n))
    return np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), np.sin(v)])


def clusters(n, rng):
    """Three clusters in a row, which a few edges tie together."""
    return rng.standard_normal((n, 2)) + np.array([5.5, 0.0]) * rng.integers(0, 3, n)[:, None]


def tree(n, rng):
    """Four arms from one place."""
    arm, along = rng.integers(0, 4, n), rng.random(n)
    turn = np.pi / 2 * arm
    return np.column_stack([along * np.cos(turn), along * np.sin(turn)]) + 0.01 * rng.standard_normal((n, 2))


def holed(n, rng):
    points = rng.random((3 * n, 2))
    return points[np.abs(points - 0.5).max(axis=1) > 0.25][:n]


def dumbbell(n, rng):
    """Two discs, and a strip between them that is a tenth as wide."""
    disc = rng.standard_normal((n, 2))
    disc /= np.maximum(np.linalg.norm(disc, axis=1), 1)[:, None]
    disc[: n // 2] += [3, 0]
    strip = np.column_stack([1 + rng.random(n // 8), 0.2 * rng.random(n // 8) - 0.1])
    return np.concatenate([disc, strip])


def thin_ring(n, rng):
    return ring(n)[rng.permutation(n)] * (1 + 0.02 * rng.standard_normal((n, 1)))


SOUND = {
    "roll": lambda n, rng: swiss_roll(n, random_state=rng).points,
    "sphere": sphere,
    "torus": torus,
    "ring": thin_ring,
    "tree": tree,
    "hole": holed,
    "dumbbell": dumbbell,
    "clusters": clusters,
    "cloud in 3 dimensions": lambda n, rng: rng.standard_normal((n, 3)),
    "cloud in 10 dimensions": lambda n, rng: rng.standard_normal((n, 10)),
    "cloud in 50 dimensions": lambda n, rng: rng.standard_normal((n, 50)),
    "cube": lambda n, rng: rng.random((n, 3)),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_clouds_are_not_suspected(name):
    for seed in range(3):
        graph = neighbor_graph(SOUND[name](900, np.random.default_rng(100 + seed)), 10)
        if connected_components(graph, directed=False)[0] == 1:
            assert not len(found_in(graph).edges), seed


@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_real_data_are_not_suspected(load):
    points = np.unique(load().data, axis=0)
    graph = neighbor_graph(points, 10)
    labels = connected_components(graph, directed=False)[1]
    inside = np.flatnonzero(labels == np.bincount(labels).argmax())
    assert not len(found_in(sp.csr_array(graph[inside][:, inside])).edges)


def ladder(n, rungs):
    """Two grids of n x 12 points, whose near ends are tied, and whose far ends are tied by some edges; these."""
    grid = np.array([[x, y, z] for z in (0, 1) for x in range(n) for y in range(12)])
    number = {tuple(point): at for at, point in enumerate(grid.tolist())}
    pairs = []
    for (x, y, z), at in number.items():
        steps = [(1, 0), (0, 1), (1, 1), (1, -1)]
        pairs += [(at, number[x + a, y + b, z]) for a, b in steps if (x + a, y + b, z) in number]
        if z == 0 and x == 0:
            pairs += [(at, number[0, y + b, 1]) for b in (-1, 0, 1) if 0 <= y + b < 12]
        if z == 0 and x == n - 1 and y < rungs:
            pairs.append((at, number[x, y, 1]))
    return graph_of(pairs, np.ones(len(pairs)), len(grid)), {
        (number[n - 1, y, 0], number[n - 1, y, 1]) for y in range(rungs)
    }


@pytest.mark.parametrize("rungs", [1, 2])
def test_the_edges_that_are_planted_are_those_that_are_found(rungs):
    graph, planted = ladder(40, rungs)
    assert {tuple(edge) for edge in found_in(graph).edges.tolist()} == planted


def test_a_bridge_is_not_suspected():
    """Two grids that one edge alone ties together."""
    graph, planted = ladder(40, 1)
    coo = sp.triu(graph).tocoo()
    half = graph.shape[0] // 2
    kept = [(i, j) for i, j in zip(coo.row, coo.col, strict=True) if (i < half) == (j < half) or (i, j) in planted]
    assert not len(found_in(graph_of(kept, np.ones(len(kept)), graph.shape[0])).edges)


def test_tiny_and_tied_graphs_have_none():
    for graph in (
        graph_of([(0, 1)], [1.0], 2),
        graph_of([(0, 1), (1, 2), (0, 2)], [0.0, 0.0, 0.0], 3),
        neighbor_graph(np.arange(5.0)[:, None], 4),
        neighbor_graph(np.unique(dup(30, 2), axis=0), 3),
    ):
        assert not len(found_in(graph).edges)
