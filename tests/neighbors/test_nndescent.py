"""NN-descent against the exact search. One file, so that one process compiles pynndescent (about 90 s)."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster
from scipy.stats import wasserstein_distance

from scalemani import KernelIsomap
from scalemani.neighbors.descent import descent_candidates
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.forms import CountForm
from scalemani.neighbors.metrics import METRICS as KNOWN
from scalemani.neighbors.metrics import PARAMETERS, REFUSED, metric_names
from scalemani.neighbors.search import find_neighbors, search_for
from scalemani.points.rows import read_points

pytestmark = [pytest.mark.slow, pytest.mark.nndescent]

K = 8


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    t = 1.5 * np.pi * (1 + 2 * rng.random(1200))
    X = np.stack([t * np.cos(t), 21 * rng.random(1200), t * np.sin(t)], axis=1)
    return np.round(X * 2**20) / 2**20  # an offset of 1e6 is exact


@pytest.fixture(scope="module")
def lists(rows):
    return find_neighbors(read_points(rows), n_neighbors=K, knn="nndescent", random_state=3)


def test_the_lists_are_those_of_the_exact_search(rows, lists):
    exact = find_neighbors(read_points(rows), n_neighbors=K, knn="exact")
    assert lists.method == "nndescent"
    share = np.mean(lists.distances <= exact.distances.reshape(-1, K)[:, -1].repeat(K))
    assert share > 0.98
    assert abs(lists.recall - share) < 0.02
    same = (lists.indices == exact.indices).reshape(-1, K).all(axis=1)
    assert same.mean() > 0.9
    assert np.array_equal(lists.distances.reshape(-1, K)[same], exact.distances.reshape(-1, K)[same])


def test_nearly_every_row_gets_k_others_from_the_descent_itself(rows):
    """Rows with fewer are searched exactly, which would hide a descent that counts the row itself."""
    candidates = descent_candidates(search_for(read_points(rows)), K, 3)
    others = (candidates >= 0) & (candidates != np.arange(len(rows))[:, None])
    assert np.mean(others.sum(axis=1) >= K) > 0.99


def test_every_row_lists_k_others_once(lists):
    table = lists.indices.reshape(-1, K)
    assert all(len(set(row)) == K and i not in row for i, row in enumerate(table.tolist()))
    assert table.min() >= 0
    assert (np.diff(lists.distances.reshape(-1, K), axis=1) >= 0).all()


def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(rows, lists):
    import numba

    threads = numba.get_num_threads()
    again = find_neighbors(read_points(rows), n_neighbors=K, knn="nndescent", random_state=3, threads=2)
    assert np.array_equal(again.indices, lists.indices)
    assert np.array_equal(again.distances, lists.distances)
    assert numba.get_num_threads() == threads


def test_two_threads_at_once_take_turns(rows, lists):
    search, found = search_for(read_points(rows)), [None, None]

    def work(slot):
        found[slot] = descent_candidates(search, K, 3)

    workers = [threading.Thread(target=work, args=(slot,)) for slot in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert np.array_equal(found[0], found[1])


CHANGES = [lambda X: X + 1e6, lambda X: X + 1e8, lambda X: X * 2.0**-30, lambda X: X * 2.0**30]


@pytest.mark.parametrize("change", CHANGES)
def test_an_offset_or_a_scale_loses_no_neighbour(rows, lists, change):
    """Float32 steps by 8 at 1e8, where the roll is 30 across: it must be centred before."""
    moved = find_neighbors(read_points(change(rows)), n_neighbors=K, knn="nndescent", random_state=3)
    assert moved.recall > 0.98
    first, second = (np.sort(found.indices.reshape(-1, K), axis=1) for found in (moved, lists))
    assert (first == second).all(axis=1).mean() > 0.9


def test_a_norm_on_prepared_rows_is_the_metric_that_was_asked_for(rows):
    """Mahalanobis, cosine and their like go through the same compiled Euclidean distance."""
    wide = np.hstack([rows, rows[::-1] / 3])
    for metric, params in (
        ("cosine", None),
        ("correlation", None),
        ("seuclidean", {"V": wide.var(axis=0)}),
        ("mahalanobis", {"VI": np.linalg.inv(np.cov(wide.T))}),
    ):
        found = find_neighbors(read_points(wide), n_neighbors=K, metric=metric, metric_params=params, knn="nndescent")
        assert found.recall > 0.95, metric


def test_names_and_parameters_are_pynndescents():
    import inspect

    from pynndescent.distances import named_distances

    assert set(named_distances) <= set(metric_names()) | set(REFUSED)
    for name, of in KNOWN.items():
        known = {named_distances[alias] for alias in (name, *of.aliases) if alias in named_distances}
        # dot and direct_cosine: two functions with one meaning, on the unit rows that NNDescent makes of both
        assert len(known) == 1 or name == "dot", name
        parameters = list(inspect.signature(named_distances[name].py_func).parameters)[2:]
        theirs = {"sigma": "V", "vinv": "VI"}
        assert [theirs.get(p, p) for p in parameters] == list(PARAMETERS.get(name, ())), name


PARAMS = {
    "minkowski": {"p": 3},
    "seuclidean": {"V": np.arange(1.0, 7)},
    "wminkowski": {"w": np.arange(1.0, 7), "p": 3},
    "mahalanobis": {"VI": np.diag(np.arange(1.0, 7)) + 0.1},
    "wasserstein_1d": {"p": 2},
    "circular_kantorovich": {"p": 1},
}


# spearmanr has SciPy for an oracle, without 13 s of compilation; kantorovich has its own test, and sinkhorn
# goes through the same loop.
COMPARED = [metric for metric in KNOWN if metric not in ("spearmanr", "kantorovich", "sinkhorn")]


@pytest.mark.long
def test_kantorovich_is_the_transport_distance_between_bins():
    X = np.random.default_rng(0).random((6, 6)) + 0.05
    cost = np.abs(np.arange(6.0)[:, None] - np.arange(6))
    found = ExactSearch(X, "kantorovich", {"cost": cost}).paired(X, np.tile(np.arange(6), (6, 1)))
    bins = np.arange(6)
    expected = [[wasserstein_distance(bins, bins, x, y) for y in X] for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", COMPARED)
def test_distances_are_pynndescents(metric):
    from pynndescent.distances import named_distances

    rng = np.random.default_rng(1)
    d = 2 if metric == "haversine" else 6
    if metric.startswith("bit"):
        X = rng.integers(1, 256, (12, d)).astype(np.uint8)
    else:
        X = rng.random((12, d)) + 0.05
        if isinstance(ExactSearch(X, metric, PARAMS.get(metric)).form, CountForm) or metric == "hamming":
            X = (X > 0.5).astype(float)
    if metric == "dot":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    function, params = named_distances[metric], PARAMS.get(metric, {})
    arguments = [params[key] for key in PARAMETERS.get(metric, ()) if key in params]
    expected = np.array([[float(function(x, y, *arguments)) for y in X] for x in X])
    if metric == "true_angular":  # pynndescent's falls as directions part
        expected = 1 - expected
    found = ExactSearch(X, metric, params).paired(X, np.tile(np.arange(12), (12, 1)))
    off = ~np.eye(12, dtype=bool)
    # 3e-4: some of pynndescent's sum in float32, and 1 - cos loses half of their digits
    np.testing.assert_allclose(found[off], expected[off], rtol=3e-4, atol=1e-6)


def test_a_metric_given_by_name_to_pynndescent_agrees_with_the_exact_search(rows):
    X = np.abs(np.hstack([rows, rows[::-1]])) + 0.1
    found = find_neighbors(read_points(X), n_neighbors=K, metric="canberra", knn="nndescent")
    assert found.recall > 0.95


def test_sparse_rows_are_searched_as_they_are():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(900, 3)) @ rng.normal(size=(3, 60))  # three dimensions: a graph can be found
    X = sp.csr_array(np.maximum(hidden - 1, 0) * (hidden.max(axis=1) > 1)[:, None])
    found = find_neighbors(read_points(X), n_neighbors=K, metric="cosine", knn="nndescent")
    assert found.method == "nndescent"
    assert found.recall > 0.95


@pytest.mark.long
def test_a_compiled_function_is_a_metric(rows):
    import numba

    @numba.njit
    def gap(x, y):
        return np.abs(x - y).sum()

    found = find_neighbors(read_points(rows), n_neighbors=K, metric=gap, knn="nndescent")
    assert found.recall > 0.98
    exact = find_neighbors(read_points(rows), n_neighbors=K, metric="manhattan", knn="exact")
    assert np.mean(found.indices == exact.indices) > 0.9


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
@pytest.mark.parametrize("graph", ["union", "mutual"])
def test_a_fit_on_approximate_lists_repeats_itself_and_places_its_training_rows(rows, graph):
    """The same seed gives the same bits for other numbers of workers; training rows land on themselves."""
    arguments = {"n_neighbors": 8, "n_components": 3, "knn": "nndescent", "graph": graph, "disconnected": "join"}
    model = KernelIsomap(**arguments).fit(rows)
    assert model.spectrum_["knn_method"] == "nndescent"
    with LocalCluster(processes=False, n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0",
                      worker_dashboard_address="127.0.0.1:0") as local, Client(local) as client:  # fmt: skip
        again = KernelIsomap(**arguments, scheduler=client).fit(rows)
    np.testing.assert_array_equal(again.embedding_, model.embedding_)
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(rows), model.embedding_, rtol=0, atol=1e-5 * scale)
