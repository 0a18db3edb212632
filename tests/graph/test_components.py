"""Components of the graph: refused with advice, joined by shortest bridges, or the largest kept."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from naive_graph import (
    NaiveSearch,
    assert_well_formed,
    blobs,
    edges,
    in_rows,
    lists_of,
    naive_component_count,
    nearest_lists,
    radius_lists,
)
from scipy.spatial.distance import cdist

from scalemani.errors import DisconnectedGraphError, ScalemaniError
from scalemani.graph.build import given_edges, make_graph, symmetric_graph
from scalemani.graph.components import least_neighbors, shortest_bridges
from scalemani.neighbors.search import find_neighbors, search_for

# Components: refused


@pytest.mark.parametrize("kind", ["union", "mutual"])
def test_error_gives_the_least_k_that_joins(kind):
    """Two blobs of 12 with k = 7: the least k is found again by trying every k."""
    points = blobs([12, 12])
    n = len(points)
    asked = []

    def find_more(k):
        asked.append(k)
        return nearest_lists(points, k)

    def count(k):
        return make_graph(
            symmetric_graph(nearest_lists(points, k), kind), kind=kind, disconnected="largest"
        ).n_components

    least = next(k for k in range(1, n) if count(k) == 1)
    search = NaiveSearch(points)
    with pytest.raises(DisconnectedGraphError) as caught:
        make_graph(
            symmetric_graph(nearest_lists(points, 7), kind),
            search=search,
            n_neighbors=7,
            kind=kind,
            find_more=find_more,
        )
    message = str(caught.value)
    assert asked == [23]  # once: 4 k, or all that there are
    assert search.calls == 0
    assert f"(n_neighbors=7, graph={kind!r}) has 2 components of 12, 12 points" in message
    assert f"n_neighbors={least} is the least that joins them" in message
    assert "disconnected='join'" in message
    assert "disconnected='largest'" in message
    assert "\n" not in message


@pytest.mark.parametrize("kind", ["union", "mutual"])
@pytest.mark.parametrize("seed", range(5))
def test_least_neighbors_is_least(kind, seed):
    points = np.random.default_rng(seed).normal(size=(40, 2))

    def joined(k):
        return naive_component_count(40, edges(symmetric_graph(nearest_lists(points, k), kind))) == 1

    expected = next(k for k in range(1, 40) if joined(k))
    assert least_neighbors(nearest_lists(points, 39), kind) == expected
    assert least_neighbors(nearest_lists(points, expected), kind) == expected
    assert least_neighbors(nearest_lists(points, expected - 1), kind) is None


def test_beyond_four_k_the_error_gives_the_bridge():
    points = blobs([30, 31])
    with pytest.raises(DisconnectedGraphError) as caught:
        make_graph(
            symmetric_graph(nearest_lists(points, 5)),
            search=NaiveSearch(points),
            n_neighbors=5,
            find_more=lambda k: nearest_lists(points, k),
        )
    said = re.search(r"no n_neighbors up to 20 joins them: that takes a bridge of (\S+);", f"{caught.value}")
    shortest = cdist(points[:30], points[30:]).min()
    assert float(said[1]) == pytest.approx(shortest, rel=1e-5)  # six digits are printed


def test_longer_lists_are_never_asked_for_more_than_there_are():
    points = blobs([4, 4])
    asked = []
    with pytest.raises(DisconnectedGraphError, match="n_neighbors=4 is the least"):
        make_graph(
            symmetric_graph(nearest_lists(points, 3)),
            search=NaiveSearch(points),
            n_neighbors=3,
            find_more=lambda k: asked.append(k) or nearest_lists(points, k),
        )
    assert asked == [7]


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_error_of_a_radius_graph_gives_the_least_radius(scale):
    points = blobs([8, 8, 8], gap=20.0) * scale
    with pytest.raises(DisconnectedGraphError, match="radius=") as caught:
        make_graph(symmetric_graph(radius_lists(points, 4.0 * scale)), search=NaiveSearch(points), radius=4.0 * scale)
    least = float(re.search(r"; radius=(\S+) is the least", str(caught.value))[1])
    assert make_graph(symmetric_graph(radius_lists(points, least))).n_components == 1
    shorter = symmetric_graph(radius_lists(points, least * (1 - 1e-5)))
    assert make_graph(shorter, disconnected="largest").n_components > 1


def test_connected_graph_asks_for_nothing():
    points = blobs([30])

    def find_more(k):
        raise AssertionError("longer lists are for the message only")

    search = NaiveSearch(points)
    for policy in ("error", "join", "largest"):
        graph = make_graph(
            symmetric_graph(nearest_lists(points, 8)),
            disconnected=policy,
            search=search,
            n_neighbors=8,
            find_more=find_more,
        )
        assert graph.n_components == 1
        assert graph.bridges.shape == (0, 2)
        assert graph.bridge_lengths.shape == (0,)
    assert search.calls == 0


@pytest.mark.parametrize("policy", ["error", "join"])
def test_precomputed_graph_can_not_be_joined(policy):
    given = sp.block_diag([sp.csr_array(np.ones((3, 3))), sp.csr_array(np.ones((2, 2)))])
    with pytest.raises(DisconnectedGraphError) as caught:
        make_graph(given_edges(given).graph(), disconnected=policy)
    assert "the precomputed neighbour graph has 2 components of 3, 2 points" in str(caught.value)
    assert "'join' is impossible, since no distances between components are known" in str(caught.value)
    assert "disconnected='largest'" in str(caught.value)


def test_many_components_are_not_all_listed():
    with pytest.raises(DisconnectedGraphError, match=r"has 9 components of 1, 1, 1, 1, 1, \.\.\. points"):
        make_graph(sp.csr_array((9, 9)))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (
            "disconnected='drop': allowed are 'error', 'join', 'largest'",
            lambda a: make_graph(a, disconnected="drop"),
        ),
        ("graph='both': allowed are 'union', 'mutual'", lambda a: make_graph(a, kind="both")),
        ("graph='both': allowed", lambda a: symmetric_graph(lists_of([[(1, 1.0)], [(0, 1.0)]]), "both")),
    ],
)
def test_unknown_choice_names_what_is_allowed(name, call):
    with pytest.raises(ScalemaniError, match=name):
        call(given_edges(sp.csr_array(np.ones((3, 3)))).graph())


# Components: joined


def kruskal(labels, distances):
    """Bridges by sorting ALL pairs between components."""
    label = np.array(labels)
    out = []
    i, j = np.nonzero(label[:, None] < label[None, :])
    for e in np.argsort(distances[i, j], kind="stable"):
        if label[i[e]] != label[j[e]]:
            out.append((*sorted((int(i[e]), int(j[e]))), float(distances[i[e], j[e]])))
            label[label == label[j[e]]] = label[i[e]]
    return out


@pytest.mark.parametrize("small", [0, 1, 4, 7, 32])
@pytest.mark.parametrize("seed", range(8))
def test_bridges_are_a_minimum_spanning_tree_of_the_components(seed, small):
    """With components that interleave, and lists (`small`) of every reach."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(60, 2))
    labels = rng.integers(0, 9, size=60)
    labels[:9] = np.arange(9)
    search = NaiveSearch(points)
    bridges, lengths = shortest_bridges(labels, search, small)
    expected = kruskal(labels, search.distances)
    assert [(*b, w) for b, w in zip(bridges.tolist(), lengths.tolist(), strict=True)] == expected
    assert search.calls < 2 * 9
    assert small or not search.queries


@pytest.mark.parametrize("sizes", [(20, 3), (3, 20)])
def test_the_largest_component_is_not_asked_for_its_way_out(sizes):
    search = NaiveSearch(blobs(sizes))
    shortest_bridges(np.repeat([0, 1], sizes), search, small=0)
    assert search.calls == 1


def test_many_strays_are_joined_by_one_query():
    """500 single rows beside a component of 100: searches between sets would copy all rows 500 times."""
    points = np.random.default_rng(0).normal(size=(600, 2))
    labels = np.maximum(np.arange(600) - 99, 0)
    search = NaiveSearch(points)
    bridges, lengths = shortest_bridges(labels, search)
    assert search.queries == 500
    assert search.calls == 0
    assert sum(lengths) == pytest.approx(sum(w for *_, w in kruskal(labels, search.distances)), rel=1e-12)
    assert len(bridges) == 500


@pytest.mark.parametrize("side", [2, 5, 9])
def test_equal_bridges_add_no_ring(side):
    """Single points on a lattice: all ways are equally long; a bridge too many would close a ring."""
    points = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    for seed in range(5):
        shuffled = points[np.random.default_rng(seed).permutation(len(points))]
        bridges, lengths = shortest_bridges(np.arange(len(points)), NaiveSearch(shuffled), seed)
        assert bridges.shape == (len(points) - 1, 2)
        assert (lengths == 1.0).all()
        assert naive_component_count(len(points), bridges.tolist()) == 1


@pytest.mark.parametrize("c", [4, 5, 9])
def test_ring_of_equal_ways_in_one_round_is_cut(c):
    """Components on a ring, tied: each takes the way on to the next, and the last would close the ring."""

    class Onward:
        tie_rank = np.arange(c)

        def apart(self, distances):
            return np.zeros(distances.shape, bool)

        def nearest_between(self, a, b):
            after = (a + 1) % c
            onward = np.flatnonzero(np.isin(after, b))[0]
            return int(a[onward]), int(after[onward]), 1.0

    # A second point makes component 1 the largest, the one that isn't asked in the first round.
    bridges, _ = shortest_bridges(np.append(np.arange(c), 1), Onward(), small=0)
    assert len(bridges) == c - 1
    assert naive_component_count(c, bridges.tolist()) == 1


def test_join_adds_the_listed_bridges_and_nothing_else():
    points = blobs([20, 15, 10])
    before = symmetric_graph(nearest_lists(points, 4))
    search = NaiveSearch(points)
    graph = make_graph(before, disconnected="join", search=search, n_neighbors=4)
    assert_well_formed(graph.matrix)
    assert graph.n_components == 3
    assert graph.component_sizes.tolist() == [20, 15, 10]
    assert graph.bridges.shape == (2, 2)
    assert (np.diff(graph.bridge_lengths) >= 0).all()
    expected = edges(before)
    for (i, j), w in zip(graph.bridges.tolist(), graph.bridge_lengths, strict=True):
        assert w == search.distances[i, j]
        expected[i, j] = expected[j, i] = w
    assert in_rows(graph) == expected
    assert naive_component_count(45, expected) == 1


def test_isolated_points_are_components_of_one_and_can_be_joined():
    points = np.array([[0.0], [1.0], [10.0], [30.0]])
    matrix = symmetric_graph(radius_lists(points, 2.0))
    graph = make_graph(matrix, disconnected="join", search=NaiveSearch(points), radius=2.0)
    assert graph.component_sizes.tolist() == [2, 1, 1]
    assert graph.bridges.tolist() == [[1, 2], [2, 3]]
    assert graph.bridge_lengths.tolist() == [9.0, 20.0]
    alone = symmetric_graph(radius_lists(points, 0.1))
    everything = make_graph(alone, disconnected="join", search=NaiveSearch(points))
    assert everything.bridge_lengths.tolist() == [1.0, 9.0, 20.0]


def test_bridge_of_length_zero_is_an_edge():
    points = np.array([[0.0], [0.0], [5.0]])
    graph = make_graph(sp.csr_array((3, 3)), disconnected="join", search=NaiveSearch(points))
    assert graph.matrix.nnz == 4
    assert sorted(graph.matrix.data) == [0.0, 0.0, 5.0, 5.0]


def test_joined_graph_does_not_depend_on_the_order_of_the_rows():
    points = blobs([12, 9, 7], seed=3)
    shuffle = np.random.default_rng(1).permutation(len(points))

    def joined(rows):
        matrix = symmetric_graph(nearest_lists(rows, 3))
        graph = make_graph(matrix, disconnected="join", search=NaiveSearch(rows))
        assert len(graph.bridges) >= 2
        return in_rows(graph)

    found = {(int(shuffle[i]), int(shuffle[j])): d for (i, j), d in joined(points[shuffle]).items()}
    assert found == joined(points)


# Components: the largest


def test_largest_keeps_one_component_whole():
    points = blobs([10, 25, 15])
    before = symmetric_graph(nearest_lists(points, 4))
    graph = make_graph(before, disconnected="largest")
    assert_well_formed(graph.matrix)
    assert sorted(graph.order.tolist()) == list(range(10, 35))
    assert graph.component_sizes.tolist() == [25, 15, 10]
    assert in_rows(graph) == {e: w for e, w in edges(before).items() if 10 <= e[0] < 35}


def test_of_equally_large_components_the_first_is_kept():
    # Rows 1, 3 and rows 2, 4 have two points each; row 0 stands alone.
    lists = lists_of([[], [(3, 1.0)], [(4, 1.0)], [(1, 1.0)], [(2, 1.0)]])
    graph = make_graph(symmetric_graph(lists), disconnected="largest")
    assert sorted(graph.order.tolist()) == [1, 3]


# With the searches of stage 2


@pytest.mark.parametrize("policy", ["union", "mutual"])
@pytest.mark.parametrize("precomputed", [False, True])
def test_real_lists_and_searches_join_as_the_slow_ones(policy, precomputed):
    points = blobs([40, 50, 3, 1], seed=5)
    given, metric = (cdist(points, points), "precomputed") if precomputed else (points, "euclidean")
    lists = find_neighbors(given, n_neighbors=4, metric=metric, knn="exact")
    search = search_for(given, metric, None)
    matrix = symmetric_graph(lists, policy)
    expected = symmetric_graph(nearest_lists(points, 4), policy)
    assert edges(matrix).keys() == edges(expected).keys()
    graph = make_graph(matrix, disconnected="join", search=search, n_neighbors=4, kind=policy)
    slow = make_graph(expected, disconnected="join", search=NaiveSearch(points), n_neighbors=4, kind=policy)
    assert graph.n_components == slow.n_components > 1
    np.testing.assert_array_equal(graph.bridges, slow.bridges)
    # Two float64 formulas for one distance: a few units in the last place.
    np.testing.assert_allclose(graph.bridge_lengths, slow.bridge_lengths, rtol=1e-13)
    with pytest.raises(DisconnectedGraphError, match=r"that takes a bridge of|is the least that joins them"):
        make_graph(
            matrix,
            search=search,
            n_neighbors=4,
            kind=policy,
            find_more=lambda k: find_neighbors(given, n_neighbors=k, metric=metric, knn="exact"),
        )


def test_real_radius_graph_names_a_radius_that_joins():
    points = blobs([20, 20, 1], gap=15.0, seed=2)
    with pytest.raises(DisconnectedGraphError) as caught:
        make_graph(
            symmetric_graph(find_neighbors(points, n_neighbors=None, radius=3.0)),
            search=search_for(points, "euclidean", None),
            radius=3.0,
        )
    least = float(re.search(r"; radius=(\S+) is the least", str(caught.value))[1])
    assert make_graph(symmetric_graph(find_neighbors(points, n_neighbors=None, radius=least))).n_components == 1
