"""Stage 3 against slow references: dictionaries of edges, all-pairs distances, Kruskal over components."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from scalemani.bridges import least_neighbors, shortest_bridges
from scalemani.errors import DisconnectedGraphError, ScalemaniError
from scalemani.graph import graph_from_sparse, make_graph, symmetric_graph
from scalemani.neighbors import find_neighbors, search_for


@dataclass(frozen=True)
class Lists:
    """Neighbour lists as stage 2 gives them."""

    indptr: np.ndarray
    indices: np.ndarray
    distances: np.ndarray


def lists_of(rows):
    """Lists from [(neighbour, distance), ...] for each row."""
    flat = [pair for row in rows for pair in row]
    return Lists(
        np.cumsum([0] + [len(row) for row in rows]),
        np.array([j for j, _ in flat], dtype=np.int64),
        np.array([d for _, d in flat], dtype=np.float64),
    )


def nearest_lists(points, k):
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    found = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return lists_of([[(int(j), distances[i, j]) for j in found[i]] for i in range(len(points))])


def radius_lists(points, radius):
    distances = cdist(points, points)
    n = len(points)
    return lists_of(
        [[(j, distances[i, j]) for j in range(n) if j != i and distances[i, j] <= radius] for i in range(n)]
    )


class NaiveSearch:
    """All pairs; counts what it is asked."""

    def __init__(self, points):
        self.distances = self.rows = cdist(points, points)
        self.tie_rank = np.arange(len(points))
        self.calls = self.queries = 0

    def nearest(self, queries, k, exclude=None):
        self.queries += len(queries)
        queries = queries.copy()
        queries[np.arange(len(queries)), exclude] = np.inf
        found = np.argsort(queries, axis=1, kind="stable")[:, :k]
        assert found.shape[1] == k < len(self.rows)
        return found, np.take_along_axis(queries, found, axis=1)

    def nearest_between(self, a, b):
        self.calls += 1
        assert not set(a.tolist()) & set(b.tolist())
        block = self.distances[np.ix_(a, b)]
        i, j = np.unravel_index(block.argmin(), block.shape)
        return int(a[i]), int(b[j]), float(block[i, j])


def edges(matrix):
    """The stored entries, zeros included."""
    coo = matrix.tocoo()
    return {
        (int(i), int(j)): float(w) for i, j, w in zip(coo.coords[0], coo.coords[1], coo.data, strict=True)
    }


def in_rows(graph):
    """The edges of a made graph between distinct rows."""
    return {(int(graph.order[v]), int(graph.order[w])): d for (v, w), d in edges(graph.matrix).items()}


def naive_graph(rows, kind):
    directed = {}
    for i, row in enumerate(rows):
        for j, d in row:
            if i != j:
                directed[i, j] = min(d, directed.get((i, j), np.inf))
    out = {}
    for (i, j), d in directed.items():
        other = directed.get((j, i))
        if kind == "mutual" and other is None:
            continue
        out[i, j] = out[j, i] = d if other is None else min(d, other)
    return out


def naive_component_count(n, pairs):
    label = list(range(n))
    for i, j in pairs:
        label = [label[i] if x == label[j] else x for x in label]
    return len(set(label))


def assert_well_formed(matrix):
    assert isinstance(matrix, sp.csr_array)
    assert matrix.dtype == np.float64
    for i in range(matrix.shape[0]):
        row = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
        assert (np.diff(row) > 0).all()
        assert i not in row
    found = edges(matrix)
    assert all(found[j, i] == w for (i, j), w in found.items())


def blobs(sizes, gap=100.0, seed=0, d=3):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(s, d)) + gap * i * np.eye(d)[0] for i, s in enumerate(sizes)])


# Lists to graph


@pytest.mark.parametrize("kind", ["union", "mutual"])
@pytest.mark.parametrize("seed", range(6))
def test_graph_equals_a_dictionary_of_edges(kind, seed):
    """Zeros, repeats and directions that differ are all there."""
    rng = np.random.default_rng(seed)
    rows = [[(int(j), float(rng.integers(0, 4))) for j in rng.integers(0, 12, size=5)] for _ in range(12)]
    matrix = symmetric_graph(lists_of(rows), kind)
    assert_well_formed(matrix)
    assert edges(matrix) == naive_graph(rows, kind)


def test_union_and_mutual_differ_where_one_end_lists():
    lists = lists_of([[(1, 1.0)], [(2, 0.5)], [(1, 0.5)]])
    assert edges(symmetric_graph(lists)) == {(0, 1): 1.0, (1, 0): 1.0, (1, 2): 0.5, (2, 1): 0.5}
    assert edges(symmetric_graph(lists, "mutual")) == {(1, 2): 0.5, (2, 1): 0.5}


@pytest.mark.parametrize("kind", ["union", "mutual"])
def test_weight_is_the_smaller_direction_to_the_last_bit(kind):
    above = np.nextafter(0.3, 1)
    assert edges(symmetric_graph(lists_of([[(1, above)], [(0, 0.3)]]), kind)) == {(0, 1): 0.3, (1, 0): 0.3}


def test_zero_length_edges_survive_and_connect():
    lists = lists_of([[(1, 0.0)], [(0, 0.0)], [(1, 0.0)], [(2, 1.0)]])
    graph = make_graph(symmetric_graph(lists))
    assert graph.n_components == 1
    assert graph.matrix.nnz == 6
    assert sorted(graph.matrix.data) == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]


def test_repeated_neighbour_is_not_summed():
    assert edges(symmetric_graph(lists_of([[(1, 2.0), (1, 2.0)], []]))) == {(0, 1): 2.0, (1, 0): 2.0}


@pytest.mark.parametrize("index", [-1, 3])
def test_index_out_of_range_names_the_row(index):
    with pytest.raises(ScalemaniError, match=rf"row 1 holds the index {index}; allowed are 0 to 2"):
        symmetric_graph(lists_of([[(1, 1.0)], [(index, 1.0)], [(0, 1.0)]]))


@pytest.mark.parametrize("distance", [-1.0, np.nan, np.inf])
def test_distance_that_paths_can_not_use_names_the_pair(distance):
    with pytest.raises(ScalemaniError, match=r"rows 1 and 0 is .*choose another metric"):
        symmetric_graph(lists_of([[(1, 1.0)], [(0, distance)]]))


# Finished graphs


def path_entries():
    """A path 0 - 1 - 2 whose first edge has length 0, and a zero diagonal entry."""
    return np.array([0, 1, 1, 2, 2]), np.array([1, 0, 2, 1, 2]), np.array([0.0, 0.0, 2.0, 2.0, 0.0])


@pytest.mark.parametrize("form", [sp.coo_array, sp.coo_matrix, sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_stored_zeros_of_a_sparse_graph_are_edges(form):
    rows, columns, data = path_entries()
    given = form(sp.coo_array((data, (rows, columns)), shape=(3, 3)))
    matrix = graph_from_sparse(given)
    assert_well_formed(matrix)
    assert edges(matrix) == {(0, 1): 0.0, (1, 0): 0.0, (1, 2): 2.0, (2, 1): 2.0}
    assert given.nnz == 5  # what was handed in is left alone


@pytest.mark.parametrize("form", ["lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
def test_every_sparse_format_and_real_dtype_is_read(form, dtype):
    dense = np.array([[0, 3, 0, 1], [3, 0, 2, 0], [0, 2, 0, 0], [1, 0, 0, 0]], dtype=dtype)
    matrix = graph_from_sparse(sp.coo_array(dense).asformat(form))
    assert_well_formed(matrix)
    assert edges(matrix) == {(i, j): float(dense[i, j]) for i, j in zip(*dense.nonzero(), strict=True)}


def test_padding_of_blocks_is_no_edge():
    """A BSR matrix stores whole blocks; its zeros taken as edges would be free shortcuts."""
    dense = np.array([[0.0, 3, 0, 0], [3, 0, 2, 0], [0, 2, 0, 5], [0, 0, 5, 0]])
    given = sp.bsr_array(dense, blocksize=(2, 2))
    assert given.nnz == 16
    assert len(edges(graph_from_sparse(given))) == 6


def test_repeated_entries_count_by_their_minimum():
    given = sp.coo_array(([5.0, 3.0, 3.0, 4.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert edges(graph_from_sparse(given)) == {(0, 1): 3.0, (1, 0): 3.0}


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_rounding_between_directions_is_evened_out_and_more_is_refused(scale):
    def given(share):
        return sp.coo_array(([scale, scale * (1 + share)], ([0, 1], [1, 0])), shape=(2, 2))

    assert edges(graph_from_sparse(given(1e-12))) == {(0, 1): scale, (1, 0): scale}
    with pytest.raises(ScalemaniError, match=r"not symmetric: \(0, 1\) is .* but \(1, 0\) is"):
        graph_from_sparse(given(1e-8))


def test_a_zero_against_a_missing_entry_is_not_symmetric():
    given = sp.coo_array(([1.0, 1.0, 0.0], ([0, 1, 2], [1, 0, 0])), shape=(3, 3))
    with pytest.raises(ScalemaniError, match=r"\(2, 0\) is 0.0 but \(0, 2\) is not stored"):
        graph_from_sparse(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.eye(3), "must be a SciPy sparse matrix; got ndarray"),
        (sp.csr_array((3, 4)), r"must be square.*\(3, 4\)"),
        (sp.csr_array((0, 0)), r"got shape \(0, 0\)"),
        (sp.csr_array(np.array([[0, np.nan], [1, 0]])), r"holds nan at \(0, 1\)"),
        (sp.csr_array(np.array([[0, 1], [np.inf, 0]])), r"holds inf at \(1, 0\)"),
        (sp.csr_array(np.array([[0, -2.0], [-2.0, 0]])), r"holds -2.0 at \(0, 1\)"),
        (sp.csr_array(np.array([[0, 1j], [1j, 0]])), "must be real; got dtype complex128"),
    ],
)
def test_what_is_no_graph_is_refused_in_one_line(given, message):
    with pytest.raises(ScalemaniError, match=message) as caught:
        graph_from_sparse(given)
    assert "\n" not in str(caught.value)


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
        make_graph(
            symmetric_graph(radius_lists(points, 4.0 * scale)), search=NaiveSearch(points), radius=4.0 * scale
        )
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
        make_graph(graph_from_sparse(given), disconnected=policy)
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
            "disconnected='drop' is unknown; allowed are 'error', 'join', 'largest'",
            lambda a: make_graph(a, disconnected="drop"),
        ),
        ("graph='both' is unknown; allowed are 'union', 'mutual'", lambda a: make_graph(a, kind="both")),
        ("graph='both' is unknown", lambda a: symmetric_graph(lists_of([[(1, 1.0)], [(0, 1.0)]]), "both")),
    ],
)
def test_unknown_choice_names_what_is_allowed(name, call):
    with pytest.raises(ScalemaniError, match=name):
        call(graph_from_sparse(sp.csr_array(np.ones((3, 3)))))


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


# The order


def test_matrix_is_the_graph_in_vertex_order():
    points = np.random.default_rng(0).normal(size=(300, 2))
    before = symmetric_graph(nearest_lists(points, 6))
    graph = make_graph(before, disconnected="join", search=NaiveSearch(points))
    assert sorted(graph.order.tolist()) == list(range(300))
    dense = before.toarray()
    for (i, j), w in zip(graph.bridges, graph.bridge_lengths, strict=True):
        dense[i, j] = dense[j, i] = w
    np.testing.assert_array_equal(graph.matrix.toarray(), dense[np.ix_(graph.order, graph.order)])
    coo = graph.matrix.tocoo()
    assert np.abs(coo.coords[0] - coo.coords[1]).mean() < 25  # 100 if the order were random


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_points(n):
    lists = lists_of([[(1 - i, 2.0)] if n == 2 else [] for i in range(n)])
    for kind in ("union", "mutual"):
        graph = make_graph(symmetric_graph(lists, kind), n_neighbors=1, kind=kind)
        assert graph.matrix.shape == (n, n)
        assert graph.matrix.nnz == 2 * (n - 1)
        assert graph.order.tolist() == list(range(n))
        assert graph.n_components == 1


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
    assert (
        make_graph(symmetric_graph(find_neighbors(points, n_neighbors=None, radius=least))).n_components == 1
    )
