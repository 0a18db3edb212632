"""A graph within classes is that of each class, found by sorting all distances of its rows and by dense paths."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

from scalemani.errors import DisconnectedGraphError, ScalemaniError, ScalemaniWarning
from scalemani.neighbors import exact
from scalemani.neighbors import lists as kept_lists
from scalemani.parameters import Parameters
from scalemani.points.digests import row_digests
from scalemani.steps import labeled
from scalemani.steps.graph import connected
from scalemani.steps.inputs import check_sizes, read_input
from scalemani.steps.labeled import read_labeled
from scalemani.storage.files import open_location
from scalemani.storage.pieces import Pieces

RNG = np.random.default_rng(5)
SIZES = {"one": 1, "few": 4, "some": 23, "two": 2, "most": 61}
LABELS = RNG.permutation(np.repeat(list(SIZES), list(SIZES.values())))
X = RNG.standard_normal((len(LABELS), 3))
X[LABELS == "some"] += np.where(RNG.random(23) < 0.5, 0, 40)[:, None]  # it falls apart
WAYS = {
    "union": {"n_neighbors": 6},
    "mutual": {"n_neighbors": 4, "graph": "mutual"},
    "conformal": {"n_neighbors": 6, "edge_weights": "conformal"},
    "radius": {"n_neighbors": None, "radius": 1.2},
    "cosine": {"n_neighbors": 6, "metric": "cosine"},
    "brute": {"n_neighbors": 6, "metric": "canberra"},
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:1 of . classes of y:scalemani.errors.ScalemaniWarning"),
    pytest.mark.filterwarnings("ignore:the class '[a-z]+' of y falls apart into several parts"),
]


def read(X, y, **given):
    parameters = Parameters(**{"n_neighbors": 6, **given})
    points = read_labeled(X, y, parameters)
    check_sizes(parameters, points)
    return parameters, points


def made(X, y, **given):
    parameters, points = read(X, y, **given)
    lists = points.lists(parameters)
    return points, lists, connected(points, lists, parameters)


def near(D, way):
    """Row -> its neighbours, nearest first, by sorting."""
    away = D + np.diag(np.full(len(D), np.inf))
    order = np.argsort(away, axis=1)
    if way.get("radius") is not None:
        return [[j for j in row if away[i, j] <= way["radius"]] for i, row in enumerate(order)]
    return [row[: min(way["n_neighbors"], len(D) - 1)].tolist() for row in order]


def reference(D, way):
    """Edges of one class with distances D: inf where there is none; and the bridges, by Kruskal."""
    n, lists = len(D), near(D, way)
    listed = np.zeros((n, n), bool)
    for i, row in enumerate(lists):
        listed[i, row] = True
    edge = listed & listed.T if way.get("graph") == "mutual" else listed | listed.T
    part, bridges = np.arange(n), []
    pairs = sorted((not edge[i, j], D[i, j], i, j) for i in range(n) for j in range(i))
    for new, length, i, j in pairs:
        if part[i] != part[j]:
            part[part == part[i]] = part[j]
            if new:
                edge[i, j] = edge[j, i] = True
                bridges.append((length, j, i))
    W = np.where(edge, D, np.inf)
    if way.get("edge_weights") == "conformal" and n > 1:
        means = np.array([D[i, row].mean() for i, row in enumerate(lists)])
        W /= np.sqrt(np.outer(means, means))
    return W, bridges


def dense(graph):
    """Weights by distinct row, inf where there is no edge."""
    n = graph.matrix.shape[0]
    W, rows = np.full((n, n), np.inf), np.repeat(np.arange(n), np.diff(graph.matrix.indptr))
    W[graph.order[rows], graph.order[graph.matrix.indices]] = graph.matrix.data
    return W


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture(params=["dense", "sparse"])
def kind(request):
    return {"dense": np.asarray, "sparse": sp.csr_array}[request.param]


def test_edges_bridges_and_paths_are_those_of_each_class_alone(way, kind):
    _, lists, graph = made(kind(X), LABELS, **way)
    D = cdist(X, X, way.get("metric", "euclidean"))
    W, bridges = np.full(D.shape, np.inf), []
    for name in SIZES:
        rows = np.flatnonzero(LABELS == name)
        W[np.ix_(rows, rows)], found = reference(D[np.ix_(rows, rows)], way)
        bridges += [(length, rows[i], rows[j]) for length, i, j in found]
        for row, listed in zip(rows, near(D[np.ix_(rows, rows)], way), strict=True):
            assert lists.indices[lists.indptr[row] : lists.indptr[row + 1]].tolist() == rows[listed].tolist()
    made_of = dense(graph)
    assert (np.isfinite(made_of) == np.isfinite(W)).all()
    close = {"rtol": 1e-12, "atol": 1e-14}  # SciPy takes cosines from 1
    np.testing.assert_allclose(made_of[np.isfinite(W)], W[np.isfinite(W)], **close)
    assert graph.bridges.tolist() == [[i, j] for _, i, j in sorted(bridges)]
    assert bridges or way.get("metric") in ("cosine", "canberra")
    np.testing.assert_allclose(graph.bridge_lengths, [length for length, _, _ in sorted(bridges)], **close)
    paths = dijkstra(sp.csr_array(np.where(np.isfinite(W), W, 0)))[np.ix_(graph.order, graph.order)]
    np.testing.assert_allclose(dijkstra(graph.matrix), paths, **close)
    assert (np.isfinite(paths) == (LABELS[graph.order][:, None] == LABELS[graph.order])).all()


def test_classes_lie_one_behind_the_other(way, kind):
    points, _, graph = made(kind(X), LABELS, **way)
    names = sorted(SIZES)
    assert points.class_names == names and points.class_starts.dtype == np.int64
    assert np.diff(points.class_starts).tolist() == [SIZES[name] for name in names]
    assert LABELS[graph.order].tolist() == np.repeat(names, [SIZES[name] for name in names]).tolist()
    assert sorted(graph.order) == list(range(len(X)))
    assert graph.n_components == 5 and graph.component_sizes.tolist() == [61, 23, 4, 2, 1]
    assert graph.matrix.has_sorted_indices and graph.matrix.indptr[-1] == graph.matrix.nnz == len(graph.matrix.data)


def test_each_class_has_the_order_and_lists_of_a_search_of_its_own(kind):
    points, lists, graph = made(kind(X), LABELS)
    rows = np.flatnonzero(LABELS == "most")
    parameters = Parameters(n_neighbors=6)
    alone = read_input(kind(X[rows]), "euclidean")
    found = alone.lists(parameters)
    assert [lists.indptr[r + 1] - lists.indptr[r] for r in rows] == np.diff(found.indptr).tolist()
    start, stop = points.class_starts[sorted(SIZES).index("most") :][:2]
    assert graph.order[start:stop].tolist() == rows[alone.graph(parameters, found).order].tolist()


def test_equal_rows_are_one_point_in_a_class_and_two_in_two(kind):
    rows = X[[0, 1, 2, 3, 0, 0, 4, 1]]
    points = read(kind(rows), [0, 0, 1, 1, 1, 0, 0, 0], n_neighbors=2, n_components=1)[1]
    assert points.distinct.tolist() == [0, 1, 2, 3, 4, 0, 5, 1]
    assert points.by_class.tolist() == [0, 1, 5, 2, 3, 4] and points.class_starts.tolist() == [0, 3, 6]
    assert len(np.unique(points.points.digests, axis=0)) == points.n_distinct == 6
    same = read_input(kind(rows), "euclidean").points
    assert len(same.digests) == 5 and (same.digests == row_digests(same.rows)).all(), "as ever without labels"
    _, lists, graph = made(kind(rows), [0, 0, 1, 1, 1, 0, 0, 0], n_neighbors=2, n_components=1)
    assert not np.isfinite(dense(graph)[0, 4]) and 4 not in lists.indices[: lists.indptr[1]]


def test_the_fingerprint_is_of_rows_and_labels():
    prints = [read(X, y)[1].fingerprint for y in (LABELS, LABELS[::-1], np.where(LABELS == "two", "few", LABELS))]
    assert len({*prints, read_input(X, "euclidean").fingerprint}) == 4
    assert read(X, LABELS.tolist())[1].fingerprint == prints[0]
    assert read(sp.csr_array(X), LABELS)[1].fingerprint != prints[0]


def test_recall_is_the_least_and_counts_are_sums(monkeypatch):
    real, recalls = labeled.find_neighbors, iter([0.99, 0.97, 1.0, 0.98])
    monkeypatch.setattr(
        labeled,
        "find_neighbors",
        lambda *args, **given: replace(real(*args, **given), recall=next(recalls), left_out=2),
    )
    parameters, points = read(X, LABELS, metric="canberra")
    lists = points._lists(parameters, 6)
    assert lists.recall == 0.97 and lists.left_out == 8 and lists.method == "brute"
    assert lists.stats.n_distances == sum(size**2 for size in SIZES.values() if size > 1)


def test_every_row_is_counted_on_the_way():
    parameters, points = read(X, LABELS)
    done = []
    points.lists(parameters, progress=done.append)
    assert done == sorted(done) and done[-1] < len(X)


def test_pieces_of_two_classes_are_not_mixed_up(tmp_path, monkeypatch):
    monkeypatch.setattr(exact, "_TABLE_ROWS", 8)
    monkeypatch.setattr(kept_lists, "PIECE_SECONDS", 0.0)
    monkeypatch.setattr(kept_lists, "BYTES_A_SECOND", 1e30)
    y = np.arange(len(X)) % 2  # classes of nearly one size
    parameters, points = read(X, y, metric="canberra")
    kept = Pieces(open_location(str(tmp_path)) / "pieces", lambda: None)
    first, again = points.lists(parameters, kept), points.lists(parameters, kept)
    assert kept.count("class_") == kept.count("") >= 4
    assert (first.indices == again.indices).all() and (y[first.indices] == np.repeat(y, 6)).all()


def test_rows_in_a_file_have_the_same_graph(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    parameters = Parameters(n_neighbors=6)
    points = read_labeled(mapped, LABELS, parameters, memory=2000, folder=str(tmp_path))
    assert not points.holds
    graph, held = points.graph(parameters, points.lists(parameters)), made(X, LABELS)[2]
    assert (dense(graph) == dense(held)).all() and (graph.order == held.order).all()


def test_there_are_as_many_edges_as_the_plan_counts_on_at_the_least(way):
    parameters, points = read(X, LABELS, **way)
    assert points.least_edges(parameters, len(X)) <= made(X, LABELS, **way)[2].matrix.nnz
    assert points.search_bytes(parameters, 100) > read_input(X, "euclidean").search_bytes(parameters, 100)


# ---- what is refused, and what is said ----------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"y": LABELS[:-1]}, "y has 90 labels and X has 91 rows"),
        ({"metric": "precomputed"}, "metric='precomputed' takes no labels"),
        ({"metric": "geodesic"}, "metric='geodesic' takes no labels"),
        ({"landmarks": 5}, "landmarks with labels: each class"),
        ({"landmarks": np.array([0, 1])}, "landmarks with labels: each class"),
        ({"y": np.arange(len(X))}, "91 classes of one distinct row each"),
        ({"y": X[:, 0]}, "continuous target"),
        ({"n_components": 91}, "n_components=91 needs at least 92"),
    ],
)
def test_wrong_use_is_refused_in_one_line(given, said):
    y = given.get("y", LABELS)
    with pytest.raises(ScalemaniError, match=said) as raised:
        read(X, y, **{name: value for name, value in given.items() if name != "y"})
    assert "\n" not in str(raised.value)


@pytest.mark.filterwarnings("default")
def test_a_class_of_one_row_is_named():
    y = LABELS.copy()
    y[np.flatnonzero(LABELS == "most")[0]] = "a"
    with pytest.warns(ScalemaniWarning, match=r"2 of 6 classes of y have a single distinct row \(the first: 'a'\)"):
        read(X, y)
    rows = X[[0, 0, 1, 2]]
    with pytest.warns(ScalemaniWarning, match=r"1 of 2 classes .* 'a'"):
        read(rows, ["a", "a", "b", "b"], n_components=1)


def test_a_conformal_class_of_one_row_has_a_mean_that_can_be_stored():
    graph = made(X, LABELS, edge_weights="conformal")[2]
    assert (graph.means > 0).all() and (graph.means[LABELS[graph.order] == "one"] == 1).all()


def test_a_class_that_nothing_joins_is_named():
    some = np.array([[int(digit) for digit in f"{number:04b}"] for number in range(1, 13)], float)
    rows = np.block([[some, np.zeros((12, 4))], [np.zeros((12, 4)), some]])
    y = ["apart"] * 24 + ["whole"] * 12
    with (
        pytest.warns(ScalemaniWarning, match="nothing in common"),
        pytest.raises(DisconnectedGraphError, match="the class 'apart' of y falls apart"),
    ):
        made(np.vstack([rows, rows[:12]]), y, metric="jaccard", n_neighbors=14)


def test_a_conformal_class_of_rows_at_no_distance_is_named():
    rows = np.vstack([np.outer(np.arange(1, 8.0), [1, 2, 3]), X[:9]])
    with pytest.raises(ScalemaniError, match="in the class 'line' of y: edge_weights='conformal' divides"):
        made(rows, ["line"] * 7 + ["other"] * 9, metric="cosine", edge_weights="conformal", n_neighbors=3)
