"""How many shortest paths run through an edge, and how many ways lead from one place to another: against SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from data import graph_of, neighbor_graph, roll
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components, dijkstra, maximum_flow

from scalemani.geodesics.flows import path_flows, path_tree
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.ways import Neighborhoods


def random_graph(n, more, seed, weights=None):
    """A connected graph: a random tree and more edges, of random lengths."""
    rng = np.random.default_rng(seed)
    pairs = {(int(rng.integers(v)), v) for v in range(1, n)}
    pairs |= {tuple(sorted(map(int, rng.choice(n, 2, replace=False)))) for _ in range(more)}
    lengths = rng.integers(1, 64, len(pairs)) / 8 if weights is None else weights(rng, len(pairs))
    return graph_of(sorted(pairs), lengths, n)


def counted_by_scipy(graph, sources):
    """Paths through each edge by SciPy's predecessors, each path followed back to its source."""
    n, counts = graph.shape[0], {}
    _, before = dijkstra(graph, indices=sources, return_predecessors=True)
    for row in before:
        for vertex in range(n):
            while row[vertex] >= 0:
                edge = tuple(sorted((int(row[vertex]), int(vertex))))
                counts[edge] = counts.get(edge, 0) + 1
                vertex = row[vertex]
    return counts


def by_edge(graph, counts):
    """Both entries of an edge together."""
    both = sp.csr_array((counts, graph.indices, graph.indptr), shape=graph.shape)
    both = sp.triu(both + both.T).tocoo()
    return {(int(i), int(j)): int(c) for i, j, c in zip(both.row, both.col, both.data, strict=True) if c}


@pytest.mark.parametrize("seed", range(8))
def test_paths_through_an_edge_are_those_of_scipy(seed):
    """Random real lengths: each shortest path is the only one."""
    graph = random_graph(40, 90, seed, lambda rng, count: rng.random(count) + 0.1)
    sources = np.arange(0, 40, 3)
    flows = path_flows(graph, geodesic_rows(graph, sources))
    assert by_edge(graph, flows.counts) == counted_by_scipy(graph, sources)


def test_the_source_that_uses_an_edge_most_is_named():
    graph = neighbor_graph(roll(300), 6)
    rows = geodesic_rows(graph, np.arange(0, 300, 30))
    flows, alone = path_flows(graph, rows), [path_flows(graph, row[None]).counts for row in rows]
    used = flows.counts > 0
    np.testing.assert_array_equal(flows.counts, np.sum(alone, axis=0))
    np.testing.assert_array_equal(flows.most[used], np.max(alone, axis=0)[used])
    np.testing.assert_array_equal(flows.source[used], np.argmax(alone, axis=0)[used])
    assert (flows.source[~used] == -1).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.integers(0, 60), st.integers(0, 10**6))
def test_every_vertex_is_counted_once_at_its_source_whatever_is_tied(n, more, seed):
    """Lengths of few values, zeros too: paths are tied everywhere, and each vertex still has one."""
    graph = random_graph(n, more, seed, lambda rng, count: rng.integers(0, 3, count).astype(float))
    row = geodesic_rows(graph, [0])[0]
    before, behind = path_tree(graph, row)
    rows = np.repeat(np.arange(n), np.diff(graph.indptr))
    far = row > 0
    for vertex in np.flatnonzero(before >= 0):
        assert rows[before[vertex]] == vertex
        assert row[graph.indices[before[vertex]]] <= row[vertex]
    roots = before < 0
    assert not roots[far].any() or (row[roots & far] == 0).all() or behind[roots].sum() == n
    assert behind[roots].sum() == n  # no vertex is lost in a circle


@pytest.mark.parametrize("seed", range(12))
def test_ways_are_a_maximum_flow_and_each_cut_parts_the_places(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(60, int(rng.integers(20, 200)), seed)
    order = rng.permutation(60)
    starts, ends = order[:4], order[4:7]
    places = Neighborhoods(graph)
    ways, *cuts = places.ways(starts, ends, 1000)
    assert ways == flow_by_scipy(graph, starts, ends)
    for cut in cuts:
        assert len(cut) == ways
        lengths = places.take(cut)
        kept = places.graph.copy()
        kept.data[~np.isfinite(kept.data)] = 0
        kept.eliminate_zeros()
        labels = connected_components(kept, directed=False)[1]
        assert not set(labels[starts]) & set(labels[ends])
        places.put(cut, lengths)
    np.testing.assert_array_equal(places.weights, graph.data.astype(np.float32))
    assert places.ways(starts, ends, max(ways - 1, 1))[0] == min(ways, max(ways - 1, 1))


def flow_by_scipy(graph, starts, ends):
    n = graph.shape[0]
    coo = sp.csr_array((np.ones(graph.nnz, np.int32), graph.indices, graph.indptr), shape=graph.shape).tocoo()
    rows = np.concatenate([coo.row, np.full(len(starts), n), ends])
    columns = np.concatenate([coo.col, starts, np.full(len(ends), n + 1)])
    room = np.concatenate([coo.data, np.full(len(starts) + len(ends), 10**6)]).astype(np.int32)
    return maximum_flow(sp.csr_array((room, (rows, columns)), shape=(n + 2, n + 2)), n, n + 1).flow_value


@pytest.mark.parametrize("seed", range(6))
def test_ways_keep_to_the_vertices_that_they_may_use(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(50, 120, seed)
    order = rng.permutation(50)
    starts, ends, among = order[:3], order[3:6], order[6:25]
    some = np.sort(order[:25])
    inside = sp.csr_array(graph[some][:, some])
    found = Neighborhoods(graph).ways(starts, ends, 1000, among)[0]
    assert found == flow_by_scipy(inside, np.searchsorted(some, starts), np.searchsorted(some, ends))


def test_the_nearest_are_those_of_the_distances():
    graph = neighbor_graph(roll(400), 7)
    places = Neighborhoods(graph)
    rows = geodesic_rows(graph, [5, 90]).min(axis=0)
    found, last = places.nearest([5, 90], np.inf, 50)
    assert set(found) == set(np.argsort(rows, kind="stable")[:50])
    assert last == rows[found[-1]] == rows[found].max()
    within, _ = places.nearest([5, 90], 3.0, 400)
    assert set(within) == set(np.flatnonzero(rows <= 3.0))
    assert places.apart(5, int(rows.argmax()), 1.0) and not places.apart(5, 5, 0.0)
    again, _ = places.nearest([5, 90], np.inf, 50)
    np.testing.assert_array_equal(found, again)  # nothing is left behind
