"""Batches, orders, windows and the heap: they decide the work, never a bit of a row."""

import pickle
from dataclasses import astuple
from unittest.mock import patch

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from data import graph_of, graphs, line_graph, ring_graph, roll, roll_graph, star_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from scalemani.geodesics import batches as path_search
from scalemani.geodesics.batches import PathGraph, Work, workspace_bytes
from scalemani.geodesics.heap import heap_rows
from scalemani.geodesics.lanes import LINE
from scalemani.geodesics.paths import geodesic_rows, products_from_seeds, rows_from_seeds
from scalemani.graph.order import vertex_order

LANES = {"float32": LINE // 4, "float64": LINE // 8}


def large_graph(points, k=10):
    """The union graph of k neighbours, in vertex order, for more points than a dense matrix is good for."""
    far, near = cKDTree(points).query(points, k + 1)
    i = np.repeat(np.arange(len(points)), k)
    one_way = sp.csr_array((far[:, 1:].ravel(), (i, near[:, 1:].ravel())), shape=(len(points),) * 2)
    matrix = one_way.maximum(one_way.T).tocsr()
    order = vertex_order(matrix)
    return sp.csr_array(matrix[order][:, order])


@pytest.fixture(scope="module")
def roll_5000():
    return large_graph(roll(5000))


@pytest.fixture(scope="module")
def cloud_5000():
    """High intrinsic dimension: sources that are neighbours settle the graph in different orders."""
    return large_graph(np.random.default_rng(0).standard_normal((5000, 10)))


def float32_dijkstra(graph, sources):
    """Dijkstra's algorithm from every source at once, sums in float32: SciPy can't."""
    n, each = graph.shape[0], np.arange(len(sources))
    edges = np.full((n, n), np.inf, np.float32)
    np.minimum.at(edges, (np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices), graph.data.astype(np.float32))
    rows, done = np.full((len(sources), n), np.inf, np.float32), np.zeros((len(sources), n), bool)
    rows[each, sources] = 0
    for _ in range(n):
        nearest = np.argmin(np.where(done, np.inf, rows), axis=1)
        done[each, nearest] = True
        rows = np.minimum(rows, rows[each, nearest][:, None] + edges[nearest])
    return rows


@settings(max_examples=200, deadline=None)
@given(graphs(most=60), st.data())
def test_rows_are_a_float32_dijkstra_s_bit_for_bit(graph, data):
    """Zero weights, components, repeats and batches that are not full included."""
    sources = data.draw(st.lists(st.integers(0, graph.shape[0] - 1), min_size=3, max_size=70))
    rows = geodesic_rows(graph, sources, precision="float32")
    np.testing.assert_array_equal(rows, float32_dijkstra(graph, sources))


@settings(max_examples=60, deadline=None)
@given(graphs(most=60))
def test_rows_are_a_float64_dijkstra_s_rounded_once(graph):
    sources = np.arange(graph.shape[0])
    rows = geodesic_rows(graph, sources, precision="float64")
    np.testing.assert_array_equal(rows, naive.rounded_rows(graph, sources))


NO_ORDER, ANY_ORDER = {"MOST_SEPARATE": -1.0}, {"MOST_SEPARATE": np.inf, "REACH": 1}
FORCED = {
    "the heap alone": {**NO_ORDER, "FEW": 10**9},
    "batches that never pay": {**ANY_ORDER, "PATIENCE": 0.0},
    "batches that are given up half way": {**ANY_ORDER, "PATIENCE": 0.03},
    "orders for whatever batch": {**ANY_ORDER, "PATIENCE": 1e6},
    "windows of a few vertices": {**ANY_ORDER, "WINDOWS": (8,) * 4, "PATIENCE": 1e6},
    "one window": {**ANY_ORDER, "WINDOWS": (1 << 20,) * 4, "PATIENCE": 1e6},
    "sweeps for whatever batch": {**NO_ORDER, "PATIENCE": 1e6},
}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("forced", FORCED.values(), ids=FORCED)
def test_whatever_the_choices_the_bits_are_the_same(forced, precision):
    graph = roll_graph(700)
    sources = np.random.default_rng(0).integers(0, 700, 150)
    expected = geodesic_rows(graph, sources, precision=precision)
    with patch.multiple(path_search, **forced):
        np.testing.assert_array_equal(geodesic_rows(graph, sources, precision=precision), expected)


def test_each_way_was_really_forced():
    graph, sources = roll_graph(700), np.random.default_rng(0).integers(0, 700, 150)
    batches = -(-150 // LANES["float64"])
    works = {}
    for name, forced in FORCED.items():
        works[name] = Work()
        with patch.multiple(path_search, **forced):
            geodesic_rows(graph, sources, work=works[name])
    for name in ("the heap alone", "batches that never pay", "batches that are given up half way"):
        assert (works[name].heap_rows, works[name].batches) == (150, 0)
    assert works["the heap alone"].pops == 0
    assert works["batches that are given up half way"].sweeps > 0
    assert works["batches that are given up half way"].orders > 0
    for name in ("orders for whatever batch", "windows of a few vertices", "one window"):
        assert (works[name].heap_rows, works[name].batches, works[name].sweeps) == (0, batches, 0)
    swept = works["sweeps for whatever batch"]
    assert (swept.heap_rows, swept.batches) == (0, batches)
    assert swept.sweeps > batches


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_heap_settles_a_vertex_once_though_float32_can_t_tell_distances_apart(precision):
    """A cluster that float32 sees in one place, far off: keys rounded to it would let vertices in again and again,
    past the end of the heap's memory."""
    n, rng = 400, np.random.default_rng(0)
    ring = np.column_stack([np.arange(1, n), np.append(np.arange(2, n), 1)])
    edges = np.unique(np.sort(np.vstack([ring, rng.integers(1, n, (4000, 2)), [[0, n - 1]]]), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    tiny = np.abs(edges[:, 0] - edges[:, 1]) ** 2 * 1e-12  # the shortest path goes by every vertex
    graph = graph_of(edges, np.where(edges[:, 0] == 0, 1.0, tiny), n)
    arrays = PathGraph(graph, precision)
    room = graph.nnz + 2
    keys, names = np.full(room + 1000, -7), np.full(room + 1000, -7, np.int32)
    rows, distance = np.empty((1, n), np.float32), np.empty(n, precision)
    csr = arrays.indptr, arrays.indices, arrays.weights
    one = np.array([0, 1]), np.array([0]), np.zeros(1, np.float32), np.zeros(1, np.int64)
    heap_rows(*csr, *one, 0, keys, names, distance, rows)
    assert (keys[room:] == -7).all()
    assert (names[room:] == -7).all()
    if precision == "float64":
        np.testing.assert_array_equal(rows, naive.rounded_rows(graph, [0]))
        assert len(np.unique(distance)) > len(np.unique(rows))  # float32 can't tell them apart, indeed


# ---- counts of the work ------------------------------------------------------------------------


def pops_a_vertex(work, graph):
    return work.pops / work.batches / graph.shape[0]


@pytest.mark.parametrize("reverse", [False, True])
def test_neighbours_on_a_roll_are_solved_together(roll_5000, reverse):
    """Little more than one relaxation a vertex and batch, few orders, no heap: the measure of the whole method."""
    work = Work()
    sources = np.arange(1024, 2048)[:: -1 if reverse else 1]
    geodesic_rows(PathGraph(roll_5000, "float32"), sources, work=work)
    assert work.batches == 1024 // LANES["float32"]
    assert work.heap_rows == 0
    assert work.orders <= work.batches / 2
    assert pops_a_vertex(work, roll_5000) < 2.5


def test_a_cloud_in_ten_dimensions_takes_few_relaxations(cloud_5000):
    work = Work()
    geodesic_rows(PathGraph(cloud_5000, "float32"), np.arange(2048, 3072), work=work)
    assert work.heap_rows == 0
    assert pops_a_vertex(work, cloud_5000) < 4


SCATTERED = {"a line": 3.2, "a roll": 6.0, "a cloud": 6.0}  # relaxations a vertex and batch; measured: 2.0, 4.6, 3.8


@pytest.mark.parametrize("kind", SCATTERED)
def test_sources_all_over_the_graph_are_swept_together(kind, roll_5000, cloud_5000):
    """A few relaxations a vertex for a batch of 16 or 32, no order and no heap: the measure of sweeps."""
    graph = {"a line": line_graph(6000), "a roll": roll_5000, "a cloud": cloud_5000}[kind]
    sources = np.linspace(0, graph.shape[0] - 1, 64).astype(int)
    work = Work()
    rows = geodesic_rows(graph, sources, work=work)
    assert (work.orders, work.heap_rows) == (0, 0)
    assert pops_a_vertex(work, graph) < SCATTERED[kind]
    np.testing.assert_allclose(rows[::13], dijkstra(graph, indices=sources[::13]), rtol=2e-6)


def test_sweeps_reach_every_component():
    """Each has its own stretch of every order, from vertices that are far from each other in it."""
    graph = sp.csr_array(sp.block_diag([line_graph(50)] * 40 + [sp.csr_array((7, 7))], format="csr"))
    orders, _ = PathGraph(graph).orders()
    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(2007))
        assert (order[:2000].reshape(40, 50) // 50 == np.arange(40)[:, None]).all()
    np.testing.assert_array_equal(orders[0][:50], np.arange(50)[::-1])  # from the far end
    np.testing.assert_array_equal(orders[1][50:100], np.arange(50, 100))  # and back
    work = Work()
    sources = np.arange(0, 2000, 25)
    rows = geodesic_rows(graph, sources, work=work)
    assert work.heap_rows == 0
    assert pops_a_vertex(work, graph) < 2.5
    np.testing.assert_array_equal(rows, dijkstra(graph, indices=sources).astype(np.float32))


def test_a_graph_that_no_sweep_is_good_for_goes_to_the_heap_after_one_look():
    """Shortest paths that turn at every step: a random graph whose weights span ten decades."""
    rng = np.random.default_rng(0)
    edges = np.unique(np.sort(rng.integers(0, 5000, (20_000, 2)), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    graph = graph_of(edges, 10 ** rng.uniform(-5, 5, len(edges)), 5000)
    work = Work()
    with patch.multiple(path_search, PATIENCE=0.1):
        geodesic_rows(PathGraph(graph, "float32"), np.arange(0, 5000, 25), work=work)
    assert work.heap_rows >= 160
    assert work.sweeps > 0
    assert work.edges <= 2 * 0.2 * 200 * graph.nnz  # two looks at most, or what was settled


@pytest.mark.parametrize("kind", ["star", "line", "many components"])
def test_hubs_long_paths_and_components_take_one_relaxation_a_vertex(kind):
    n = 20_000
    graph = {
        "star": lambda: star_graph(n),
        "line": lambda: line_graph(n),
        "many components": lambda: sp.csr_array(sp.block_diag([line_graph(100)] * (n // 100), format="csr")),
    }[kind]()
    work = Work()
    sources = np.arange(n // 2, n // 2 + 64)
    rows = geodesic_rows(graph, sources, work=work)
    assert work.heap_rows == 0
    assert pops_a_vertex(work, graph) < 1.6  # an order is kept for batches beside the one that made it
    np.testing.assert_array_equal(rows[::9], dijkstra(graph, indices=sources[::9]).astype(np.float32))


def test_the_same_call_does_the_same_work(roll_5000):
    """Counts come from the graph and the sources alone, not from what a thread did before."""
    graph, works = PathGraph(roll_5000), [Work(), Work()]
    for work in works:
        geodesic_rows(graph, np.arange(300), work=work)
        geodesic_rows(graph, np.arange(0, 5000, 100), work=work)
    assert astuple(works[0]) == astuple(works[1])


def test_one_or_two_rows_are_left_to_the_heap():
    work = Work()
    geodesic_rows(roll_graph(300), [5, 6], work=work)
    assert astuple(work) == (0, 0, 0, 0, 0, 2)


# ---- precision ---------------------------------------------------------------------------------


def deviation(graph, sources, precision=None):
    exact = dijkstra(graph, indices=sources)
    rows = geodesic_rows(graph, sources, precision=precision)
    return (np.abs(rows - exact) / np.where(exact > 0, exact, 1)).max()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_float32_sums_stay_within_2e_6_of_scipy(roll_5000, cloud_5000, scale):
    sources = np.arange(0, 5000, 250)
    for graph in (roll_5000, cloud_5000):
        assert PathGraph(graph).precision == "float32"
        scaled = sp.csr_array((graph.data * scale, graph.indices, graph.indptr), shape=graph.shape)
        assert deviation(scaled, sources) < 2e-6


def test_weights_of_very_different_sizes_stay_within_2e_6_of_scipy(roll_5000):
    rng = np.random.default_rng(0)
    upper = sp.triu(roll_5000, 1).tocoo()
    for weights in (10 ** rng.uniform(-12, 8, upper.nnz), upper.data * np.where(rng.random(upper.nnz) < 0.5, 1, 1e-6)):
        graph = graph_of(np.column_stack([upper.row, upper.col]), weights, 5000)
        assert deviation(graph, np.arange(2000, 2064)) < 2e-6


@pytest.mark.parametrize(
    "make",
    [
        lambda: line_graph(100_000, weight=1.3),
        lambda: ring_graph(5000),
        lambda: large_graph((np.arange(20_000) + np.random.default_rng(0).random(20_000))[:, None], k=4),
    ],
    ids=["equal weights", "a ring", "long paths"],
)
def test_sums_are_float64_where_float32_would_drift(make):
    """Equal weights round equally; a path of 5,000 edges rounds 5,000 times."""
    graph = make()
    assert PathGraph(graph).precision == "float64"
    sources = np.arange(100, 132)
    assert deviation(graph, sources) < 2e-7
    assert deviation(graph, sources, "float32") > 2e-6


def test_small_graphs_are_summed_in_float64():
    assert PathGraph(roll_graph(300)).precision == "float64"


# ---- the interface -----------------------------------------------------------------------------


@pytest.mark.parametrize("first", [0, 1, 7, 64, 500, 699, 700])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_columns_from_a_vertex_on_are_those_of_the_whole_rows(first, precision):
    graph, sources = roll_graph(700), np.arange(300, 381)
    whole = geodesic_rows(graph, sources, precision=precision)
    np.testing.assert_array_equal(geodesic_rows(graph, sources, precision=precision, first=first), whole[:, first:])


def test_rows_go_into_a_given_array():
    graph, out = roll_graph(300), np.full((50, 200), -1, np.float32)
    assert geodesic_rows(graph, np.arange(50), first=100, out=out) is out
    np.testing.assert_array_equal(out, geodesic_rows(graph, np.arange(50))[:, 100:])


@pytest.mark.parametrize(
    "out", [np.empty((50, 300)), np.empty((50, 299), np.float32), np.empty((300, 50), np.float32).T]
)
def test_an_array_that_does_not_fit_is_refused(out):
    with pytest.raises(ValueError, match="C-contiguous float32"):
        geodesic_rows(roll_graph(300), np.arange(50), out=out)


def test_a_precision_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'float32', 'float64' or None"):
        geodesic_rows(line_graph(3), [0], precision="float16")


@pytest.mark.parametrize("length", [-1.0, np.nan, -np.inf])
def test_negative_lengths_and_nan_are_refused(length):
    with pytest.raises(ValueError, match="lengths of 0 or more"):
        rows_from_seeds(line_graph(4), [0, 2], [0, 3], [1.0, length])
    with pytest.raises(ValueError, match="lengths of 0 or more"):
        geodesic_rows(graph_of([(0, 1), (1, 2)], [1.0, length], 3), [0])


def test_weights_of_minus_zero_are_zero():
    rows = geodesic_rows(graph_of([(0, 1), (1, 2)], [-0.0, -0.0], 3), [0, 1, 2])
    assert rows.tolist() == [[0.0] * 3] * 3
    assert not np.signbit(rows).any()


def test_a_start_of_minus_zero_is_zero():
    """Minima are taken over bits, and -0.0 has those of a negative number."""
    starts = np.zeros(40)
    starts[::3] = -0.0
    rows = rows_from_seeds(line_graph(40), np.arange(41), np.arange(40), starts)
    np.testing.assert_array_equal(rows, np.abs(np.subtract.outer(np.arange(40), np.arange(40))))
    assert not np.signbit(rows).any()


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 63, 64, 65, 129])
@pytest.mark.parametrize("count", [1, 3, 15, 16, 17, 31, 32, 33, 70])
def test_every_size_of_graph_and_batch_is_right(n, count):
    graph = line_graph(n)
    sources = np.random.default_rng(count).integers(0, n, count)
    for precision in LANES:
        rows = geodesic_rows(graph, sources, precision=precision)
        np.testing.assert_array_equal(rows, np.abs(np.arange(n) - sources[:, None]))


def test_a_workspace_is_no_larger_than_it_says(roll_5000):
    for precision in LANES:
        graph = PathGraph(roll_5000, precision)
        space = graph.workspace()
        arrays = [v for v in vars(space).values() if isinstance(v, np.ndarray)]
        held = sum(v.nbytes for v in [*arrays, *space.renumbered, graph.orders()[0]])
        held += 12 * (graph.weights.size + 33) + 24 * 5000 + graph.weights.size  # a call's heap; the orders' making
        assert 0.8 * workspace_bytes(5000, graph.weights.size, 32) < held
        assert held <= workspace_bytes(5000, graph.weights.size, 32)


@pytest.mark.parametrize(
    ("indptr", "seeds", "starts"),
    [([], [], []), ([0, 5], [0], [1.0]), ([0, 1, 2], [0, 1], [1.0]), ([1, 1], [0], [1.0]), ([0, 2, 1], [0, 1], [1, 1])],
)
def test_pointers_that_do_not_fit_the_seeds_are_refused(indptr, seeds, starts):
    for find in (rows_from_seeds, lambda *given: products_from_seeds(*given, np.ones((3, 1)))):
        with pytest.raises(ValueError, match="pointers to"):
            find(line_graph(3), indptr, seeds, starts)


@pytest.mark.parametrize("first", [-1, 4, -(10**7)])
def test_a_first_vertex_outside_the_graph_is_refused(first):
    with pytest.raises(ValueError, match="0 to 3 is allowed"):
        geodesic_rows(line_graph(3), np.arange(3), first=first)


def test_axes_and_graphs_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(3, p\) is needed"):
        products_from_seeds(line_graph(3), [0, 1], [0], [0.0], np.ones((4, 1)))
    with pytest.raises(ValueError, match="square"):
        geodesic_rows(sp.csr_array((2, 5)), [0])


@pytest.mark.parametrize("away", [1e2, 1e6, 1e12])
def test_what_tells_vertices_apart_survives_a_source_that_is_far_away(away):
    """The long first edge is no part of what float32 sums."""
    graph, rng = roll_graph(700), np.random.default_rng(0)
    indptr, seeds = np.arange(0, 121, 3), rng.integers(0, 700, 120)
    starts, axes = rng.random(120), rng.standard_normal((700, 4))
    near, far = (products_from_seeds(graph, indptr, seeds, starts + d, axes, precision="float32") for d in (0, away))
    np.testing.assert_allclose(far[0], near[0] + away, rtol=1e-15)
    error = np.spacing(away + 1) * 700 + 1e-5  # of the starts as they were given, and of float32 sums
    np.testing.assert_allclose(far[1], near[1], rtol=0, atol=error * np.abs(near[1]).max())
    np.testing.assert_allclose(far[2], near[2], rtol=0, atol=error * np.abs(near[2]).max())


def test_a_graph_travels_without_its_workspaces():
    graph = PathGraph(roll_graph(300), "float32")
    expected = geodesic_rows(graph, np.arange(50))
    sent = pickle.dumps(graph)
    assert len(sent) < 2 * (graph.indptr.nbytes + graph.indices.nbytes + graph.weights.nbytes)
    np.testing.assert_array_equal(geodesic_rows(pickle.loads(sent), np.arange(50)), expected)


def test_sources_without_seeds_among_others_are_infinite():
    """More of them than there are seeds: a source's number is no bound of theirs."""
    graph = roll_graph(300)
    indptr = np.concatenate([np.zeros(60, int), [1, 3, 3, 4]])
    rows = rows_from_seeds(graph, indptr, [7, 7, 250, 9], [0.5, 1.0, 0.25, 0.0])
    assert np.isposinf(rows[:59]).all()
    assert np.isposinf(rows[61]).all()
    np.testing.assert_allclose(rows[59], 0.5 + geodesic_rows(graph, [7])[0], rtol=1e-6)
    np.testing.assert_array_equal(rows[62], geodesic_rows(graph, [9])[0])


@pytest.mark.parametrize(
    "forced", [{"MOST_SEPARATE": 99.0, "PATIENCE": 1e6}, {"MOST_SEPARATE": -1.0}], ids=["lanes", "heap"]
)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_products_are_those_of_the_rows(forced, precision):
    graph, rng = roll_graph(700), np.random.default_rng(0)
    indptr, seeds = np.arange(0, 151, 3), rng.integers(0, 700, 150)
    starts, axes = rng.random(150), rng.standard_normal((700, 5))
    least = starts.reshape(50, 3).min(axis=1)
    shorter = starts - np.repeat(least, 3)  # the first edge of each source is added behind the search
    rows = rows_from_seeds(graph, indptr, seeds, shorter, precision=precision).astype(float)
    with patch.multiple(path_search, **forced):
        nearest, first, second = products_from_seeds(graph, indptr, seeds, starts, axes, precision=precision)
    np.testing.assert_array_equal(nearest, rows.min(axis=1) + least)
    excess = rows - rows.min(axis=1, keepdims=True)
    np.testing.assert_allclose(first, excess @ axes, rtol=1e-12, atol=1e-12 * np.abs(first).max())
    np.testing.assert_allclose(second, excess**2 @ axes, rtol=1e-12, atol=1e-12 * np.abs(second).max())


def test_products_of_a_source_have_the_same_bits_in_any_batch():
    graph, rng = roll_graph(700), np.random.default_rng(0)
    seeds, axes = rng.integers(0, 700, 70), rng.standard_normal((700, 3))
    whole = products_from_seeds(graph, np.arange(71), seeds, np.zeros(70), axes)
    for some in (slice(0, 1), slice(5, 40), slice(69, None, -1)):
        few = seeds[some]
        for part, all_of_it in zip(
            products_from_seeds(graph, np.arange(len(few) + 1), few, np.zeros(len(few)), axes), whole, strict=True
        ):
            np.testing.assert_array_equal(part, all_of_it[some])


def test_products_of_a_row_that_misses_a_vertex_are_not_finite():
    graph = graph_of([(0, 1), (2, 3)], [1.0, 1.0], 4)
    nearest, first, _ = products_from_seeds(graph, [0, 1, 1], [0], [0.0], np.ones((4, 2)))
    assert nearest.tolist() == [0.0, np.inf]
    assert not np.isfinite(first).any()
