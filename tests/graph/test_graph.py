"""Stage 3 against slow references: lists and finished graphs made symmetric, and put in vertex order."""

import naive
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.manifold
from naive_graph import (
    NaiveSearch,
    assert_well_formed,
    edges,
    lists_of,
    naive_graph,
    nearest_lists,
)
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsTransformer, RadiusNeighborsTransformer, kneighbors_graph
from sklearn.pipeline import make_pipeline

from scalemani import Isomap, load
from scalemani.errors import ScalemaniError, ScalemaniWarning, StoreMismatchError, UnreachableWarning
from scalemani.graph.build import given_edges, make_graph, symmetric_graph
from scalemani.points.given_matrix import DistanceMatrix

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
    matrix = given_edges(given).graph()
    assert_well_formed(matrix)
    assert edges(matrix) == {(0, 1): 0.0, (1, 0): 0.0, (1, 2): 2.0, (2, 1): 2.0}
    assert given.nnz == 5  # what was handed in is left alone


@pytest.mark.parametrize("form", ["lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
def test_every_sparse_format_and_real_dtype_is_read(form, dtype):
    dense = np.array([[0, 3, 0, 1], [3, 0, 2, 0], [0, 2, 0, 0], [1, 0, 0, 0]], dtype=dtype)
    matrix = given_edges(sp.coo_array(dense).asformat(form)).graph()
    assert_well_formed(matrix)
    assert edges(matrix) == {(i, j): float(dense[i, j]) for i, j in zip(*dense.nonzero(), strict=True)}


def test_padding_of_blocks_is_no_edge():
    """A BSR matrix stores whole blocks; its zeros taken as edges would be free shortcuts."""
    dense = np.array([[0.0, 3, 0, 0], [3, 0, 2, 0], [0, 2, 0, 5], [0, 0, 5, 0]])
    given = sp.bsr_array(dense, blocksize=(2, 2))
    assert given.nnz == 16
    assert len(edges(given_edges(given).graph())) == 6


def test_repeated_entries_count_by_their_minimum():
    given = sp.coo_array(([5.0, 3.0, 3.0, 4.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert edges(given_edges(given).graph()) == {(0, 1): 3.0, (1, 0): 3.0}


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_rounding_between_directions_is_evened_out_and_more_is_refused(scale):
    def given(share):
        return sp.coo_array(([scale, scale * (1 + share)], ([0, 1], [1, 0])), shape=(2, 2))

    assert edges(given_edges(given(1e-12)).graph()) == {(0, 1): scale, (1, 0): scale}
    assert edges(given_edges(given(5e-7)).graph()) == {(0, 1): scale, (1, 0): scale}
    with pytest.raises(ScalemaniError, match=r"not symmetric: \(0, 1\) is .* but \(1, 0\) is"):
        given_edges(given(1e-5)).graph()


def test_what_is_rounding_beside_the_other_edges_is_zero_or_the_same():
    """As of 1 - correlation of equal rows."""
    given = sp.coo_array(
        ([1.0, 1.0, -2e-16, 1e-16, 3e-16, 4e-16, 1e-17], ([0, 1, 2, 0, 1, 2, 2], [1, 0, 0, 2, 2, 1, 2])), shape=(3, 3)
    )
    assert edges(given_edges(given).graph()) == {
        (0, 1): 1.0, (1, 0): 1.0, (0, 2): 0.0, (2, 0): 0.0, (1, 2): 3e-16, (2, 1): 3e-16,
    }  # fmt: skip
    with pytest.raises(ScalemaniError, match=r"holds -0.001 at \(2, 0\)"):
        given_edges(sp.coo_array(([1.0, 1.0, -1e-3], ([0, 1, 2], [1, 0, 0])), shape=(3, 3))).graph()


def test_an_edge_in_one_direction_is_an_edge_whatever_its_length():
    given = sp.coo_array(([1.0, 1.0, 0.0, 2.0], ([0, 1, 2, 0], [1, 0, 0, 3])), shape=(4, 4))
    expected = {(0, 1): 1.0, (1, 0): 1.0, (2, 0): 0.0, (0, 2): 0.0, (0, 3): 2.0, (3, 0): 2.0}
    assert edges(given_edges(given).graph()) == expected
    assert edges(given_edges(given).graph("mutual")) == {(0, 1): 1.0, (1, 0): 1.0}


def test_neighbours_without_their_distances_are_warned_of():
    """Links of length 1 in both directions may be meant; a directed list of neighbours is not."""
    listed = kneighbors_graph(np.random.default_rng(0).random((30, 2)), 4)
    given_edges(listed.maximum(listed.T)).graph()
    with pytest.warns(ScalemaniWarning, match="length 1: paths count steps.*mode='distance'"):
        given_edges(listed).graph()


def test_similarities_are_no_lengths():
    S = np.exp(-np.random.default_rng(0).random((6, 6)))
    np.fill_diagonal(S, 1)
    with pytest.raises(ScalemaniError, match=r"looks like similarities: its diagonal \(1\)"):
        given_edges(sp.csr_array(np.maximum(S, S.T))).graph()


# As scikit-learn makes them

POINTS = np.random.default_rng(0).random((120, 3))
OTHERS = np.r_[np.random.default_rng(1).random((15, 3)), POINTS[:5]]


@pytest.mark.parametrize(
    ("transformer", "parameters", "points"),
    [
        (KNeighborsTransformer(n_neighbors=8, mode="distance"), {"n_neighbors": 8}, POINTS),
        (KNeighborsTransformer(n_neighbors=20, mode="distance"), {"n_neighbors": 8}, POINTS.astype(np.float32)),
        (KNeighborsTransformer(n_neighbors=8, mode="distance"), {"n_neighbors": 8}, np.r_[POINTS, POINTS[:9]]),
        (KNeighborsTransformer(n_neighbors=8, mode="distance", metric="cosine"), {"n_neighbors": 8}, POINTS),
        (RadiusNeighborsTransformer(radius=0.6, mode="distance"), {"n_neighbors": None, "radius": 0.4}, POINTS),
    ],
)
def test_its_transformers_feed_this_isomap_as_they_feed_its_own(transformer, parameters, points):
    ours, theirs = (
        make_pipeline(transformer, kind(metric="precomputed", n_components=3, **parameters)).fit(points)
        for kind in (Isomap, sklearn.manifold.Isomap)
    )
    expected = theirs[-1].embedding_
    naive.same_up_to_sign(ours[-1].embedding_, expected, atol=1e-6)
    signs = np.sign((ours[-1].embedding_ * expected).sum(0))
    np.testing.assert_allclose(ours.transform(OTHERS) * signs, theirs.transform(OTHERS), atol=1e-6)


def test_of_a_radius_graph_the_nearest_are_taken_with_a_warning():
    """Its rows store their own 0: but a finished graph may, too, and it is symmetric as this is."""
    pipe = [RadiusNeighborsTransformer(radius=0.6, mode="distance"), Isomap(metric="precomputed", n_neighbors=6)]
    with pytest.warns(ScalemaniWarning, match=r"nearest 6 \(n_neighbors\) are used.*leave the diagonal out"):
        ours = make_pipeline(*pipe).fit(POINTS)[-1].embedding_
    np.testing.assert_allclose(ours, Isomap(n_neighbors=6).fit(POINTS).embedding_, atol=1e-6)


def test_lists_are_lists_though_a_row_with_many_twins_is_not_in_its_own():
    """Of 12 equal rows 9 are listed: for some of them others only."""
    points = np.r_[POINTS, np.repeat(POINTS[:1], 11, axis=0)]
    listed = KNeighborsTransformer(n_neighbors=8, mode="distance").fit_transform(points)
    itself = listed.tocoo()
    assert 100 < (itself.row == itself.col).sum() < len(points)
    ours, theirs = (
        kind(metric="precomputed", n_neighbors=6, n_components=3).fit_transform(listed)
        for kind in (Isomap, sklearn.manifold.Isomap)
    )
    naive.same_up_to_sign(ours, theirs, atol=1e-6)


def test_lists_that_are_shorter_than_asked_for_are_told():
    listed = KNeighborsTransformer(n_neighbors=8, mode="distance").fit_transform(POINTS)
    with pytest.warns(ScalemaniWarning, match="up to 8 neighbours of a row, and n_neighbors=9 are asked for"):
        Isomap(metric="precomputed", n_neighbors=9).fit(listed)


def test_zeros_of_a_dense_matrix_that_mean_no_edge_are_told():
    """Most of them are, of a graph that was made dense; of some equal points few are."""
    graph = kneighbors_graph(POINTS, 8, mode="distance").toarray()
    with pytest.warns(ScalemaniWarning, match="9.% of the distances in X are 0.*give a sparse matrix"):
        DistanceMatrix(np.maximum(graph, graph.T))
    DistanceMatrix(np.kron(np.ones((3, 3)), cdist(POINTS[:9], POINTS[:9])))


def test_a_store_keeps_whether_neighbours_were_chosen(tmp_path):
    transformer = KNeighborsTransformer(n_neighbors=12, mode="distance")
    listed = transformer.fit_transform(POINTS)
    model = Isomap(metric="precomputed", n_neighbors=6, store=tmp_path / "run").fit(listed)
    again, test = load(tmp_path / "run"), transformer.transform(OTHERS)
    np.testing.assert_array_equal(again.transform(test), model.transform(test))
    with pytest.raises(StoreMismatchError):
        Isomap(metric="precomputed", n_neighbors=6, store=tmp_path / "run").fit(model_graph(listed))


def model_graph(listed):
    """The same edges as a finished graph."""
    coo = listed.tocoo()
    away = coo.row != coo.col
    return sp.csr_array((coo.data[away], (coo.row[away], coo.col[away])), shape=coo.shape)


def test_a_row_without_neighbours_has_no_place():
    transformer = RadiusNeighborsTransformer(radius=0.4, mode="distance").fit(POINTS)
    model = Isomap(metric="precomputed", n_neighbors=None, radius=0.4).fit(transformer.transform(POINTS))
    test = transformer.transform(np.r_[OTHERS[:2], [[50.0, 50, 50]]])
    with pytest.warns(UnreachableWarning, match="1 of 3 rows"):
        placed = model.transform(test)
    assert np.isnan(placed).all(1).tolist() == [False, False, True]


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
        given_edges(given).graph()
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
