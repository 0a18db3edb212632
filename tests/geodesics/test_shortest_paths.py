"""The shortest-path kernel against a fixpoint of relaxations (bit for bit) and against SciPy (to float32)."""

from concurrent.futures import ThreadPoolExecutor

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from data import graph_of, graphs, line_graph, roll_graph, star_graph, torus_distances, torus_graph
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani.geodesics.batches import PathGraph
from scalemani.geodesics.paths import geodesic_rows, rows_from_seeds

RTOL = 1e-6  # float32 weights, each rounded by 6e-8 at most, and a rounding of the sum


@settings(max_examples=80, deadline=None)
@given(graphs(), st.data())
def test_any_sources_give_the_fixpoint_of_relaxations_bit_for_bit(graph, data):
    """Any vertices, in any order, with repeats; zero weights and components included."""
    vertex = st.integers(0, graph.shape[0] - 1)
    sources = data.draw(st.lists(vertex, max_size=6))
    rows = geodesic_rows(graph, sources)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, naive.rounded_rows(graph, sources))


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_rows_agree_with_scipy(graph):
    n = graph.shape[0]
    np.testing.assert_allclose(geodesic_rows(graph, np.arange(n)), naive.geodesics(graph), rtol=2e-6)


def test_a_roll_agrees_with_scipy_and_with_the_fixpoint():
    graph = roll_graph(600)
    sources = np.random.default_rng(0).integers(0, 600, 40)
    rows = geodesic_rows(graph, sources)
    np.testing.assert_allclose(rows, naive.geodesics(graph)[sources], rtol=RTOL)
    np.testing.assert_array_equal(rows, naive.rounded_rows(graph, sources))


def test_a_row_has_the_same_bits_whatever_else_is_in_the_batch():
    graph = roll_graph(300)
    whole = geodesic_rows(graph, np.arange(300))
    order = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(geodesic_rows(graph, order), whole[order])
    np.testing.assert_array_equal(np.vstack([geodesic_rows(graph, [i]) for i in order[:20]]), whole[order[:20]])
    np.testing.assert_array_equal(geodesic_rows(graph, [7, 7, 3, 7]), whole[[7, 7, 3, 7]])


def test_a_torus_grid_has_its_closed_form():
    np.testing.assert_array_equal(geodesic_rows(torus_graph(6, 7), np.arange(42)), torus_distances(6, 7))


def test_a_long_line_counts_its_steps():
    """100,000 steps from one end: deep paths take no recursion."""
    rows = geodesic_rows(line_graph(100_000), [0, 99_999, 50_000])
    steps = np.arange(100_000)
    np.testing.assert_array_equal(rows, np.abs(steps - np.array([[0], [99_999], [50_000]])))


def test_a_star_is_two_arms_apart():
    """The hub's 20,000 entries all enter the heap at once."""
    rows = geodesic_rows(star_graph(20_001), [0, 1])
    assert rows[0, 0] == 0
    assert (rows[0, 1:] == 1).all()
    assert rows[1, 0] == 1
    assert rows[1, 1] == 0
    assert (rows[1, 2:] == 2).all()


def test_stored_zeros_are_edges_and_not_gaps():
    rows = geodesic_rows(graph_of([(0, 1), (1, 2), (2, 3)], [0.0, 2.0, 0.0], 4), [0, 3])
    assert rows.tolist() == [[0, 0, 2, 2], [2, 2, 0, 0]]


def test_no_path_is_infinite_and_never_zero():
    rows = geodesic_rows(graph_of([(0, 1), (2, 3)], [1.0, 1.0], 5), np.arange(5))
    reached = np.kron(np.diag([1, 1, 0]), np.ones((2, 2)))[:5, :5].astype(bool)
    reached[4, 4] = True
    assert np.isfinite(rows[reached]).all()
    assert np.isposinf(rows[~reached]).all()


def test_the_state_of_one_source_does_not_leak_into_the_next():
    """A source in a small component after one in a large one, and back."""
    graph = graph_of([(0, 1), (1, 2), (3, 4)], [1.0, 5.0, 2.0], 5)
    np.testing.assert_array_equal(geodesic_rows(graph, [0, 3, 2, 4, 0]), naive.rounded_rows(graph, [0, 3, 2, 4, 0]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
def test_every_form_of_csr_gives_the_same_bits(dtype, form):
    graph = roll_graph(120)
    other = form(graph.astype(dtype))
    other.indices, other.indptr = other.indices.astype(np.int64), other.indptr.astype(np.int64)
    np.testing.assert_array_equal(geodesic_rows(other, [5, 1]), geodesic_rows(graph, [5, 1]))


def test_the_graph_is_left_alone():
    graph = roll_graph(60)
    before = [part.copy() for part in (graph.indptr, graph.indices, graph.data)]
    geodesic_rows(graph, np.arange(60))
    for part, was in zip((graph.indptr, graph.indices, graph.data), before, strict=True):
        np.testing.assert_array_equal(part, was)


# ---- points outside the graph ------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_rows_from_seeds_are_rows_of_the_extended_graph(graph, data):
    """A test point is a new vertex whose edges no other path may use: here they lead out of it only."""
    n = graph.shape[0]
    vertex, length = st.integers(0, n - 1), st.sampled_from([0.0, 0.5, 1.0, 3.25, 1e-3])
    points = data.draw(st.lists(st.lists(st.tuples(vertex, length), max_size=4), max_size=4))
    flat = [seed for seeds in points for seed in seeds]
    indptr = np.cumsum([0] + [len(seeds) for seeds in points])
    rows = rows_from_seeds(graph, indptr, [v for v, _ in flat], [w for _, w in flat])
    assert rows.shape == (len(points), n)
    for row, seeds in zip(rows, points, strict=True):
        least = {v: min(w for u, w in seeds if u == v) for v, _ in seeds}
        extended = sp.csr_array(
            (
                np.concatenate([graph.data, list(least.values())]),
                np.concatenate([graph.indices, list(least)]).astype(np.int64),
                np.append(graph.indptr, graph.nnz + len(least)),
            ),
            shape=(n + 1, n + 1),
        )
        np.testing.assert_array_equal(row, naive.rounded_rows(extended, [n])[0, :n])


def test_a_seed_at_no_distance_gives_the_vertex_s_own_row():
    graph = roll_graph(150)
    np.testing.assert_array_equal(rows_from_seeds(graph, [0, 1], [17], [0.0]), geodesic_rows(graph, [17]))


def test_a_point_without_seeds_reaches_nothing():
    rows = rows_from_seeds(line_graph(4), [0, 0, 1], [2], [0.25])
    assert np.isposinf(rows[0]).all()
    assert rows[1].tolist() == [2.25, 1.25, 0.25, 1.25]


# ---- wrong use ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sources", [[-1], [5], [0, 99], [2**40]])
def test_sources_outside_the_graph_are_refused(sources):
    with pytest.raises(IndexError, match="vertices 0 to 4"):
        geodesic_rows(line_graph(5), sources)


@pytest.mark.parametrize("sources", [[0.0], [True, False], ["a"]])
def test_sources_that_are_no_integers_are_refused(sources):
    with pytest.raises(TypeError, match="integers are needed"):
        geodesic_rows(line_graph(5), sources)


def test_no_sources_give_no_rows():
    assert geodesic_rows(line_graph(5), []).shape == (0, 5)


# ---- threads -----------------------------------------------------------------------------------


def test_threads_at_once_give_the_same_bits():
    graph = PathGraph(roll_graph(500))  # one for all: each thread has a workspace of its own
    parts = np.array_split(np.arange(500), 16)
    alone = [geodesic_rows(graph, part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        for rows, expected in zip(pool.map(lambda part: geodesic_rows(graph, part), parts), alone, strict=True):
            np.testing.assert_array_equal(rows, expected)
