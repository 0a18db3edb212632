"""Stage 3 against slow references: lists and finished graphs made symmetric, and put in vertex order."""

import numpy as np
import pytest
import scipy.sparse as sp
from naive_graph import (
    NaiveSearch,
    assert_well_formed,
    edges,
    lists_of,
    naive_graph,
    nearest_lists,
)

from scalemani.errors import ScalemaniError
from scalemani.graph import graph_from_sparse, make_graph, symmetric_graph

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
