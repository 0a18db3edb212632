"""C-Isomap, edge_weights="conformal": edges divided by their ends' mean distances to neighbours, also of new points.

The oracle is a conformal fishbowl (tests/oracles): its `about` says how it was made, by NumPy and SciPy alone.
"""

import pickle
import shutil
from pathlib import Path

import naive
import numpy as np
import pytest
import scipy.sparse as sp
from corruption import tree
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsTransformer, RadiusNeighborsTransformer
from test_oracles import oracle

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import DamagedStoreError, DisconnectedGraphError, ScalemaniError, StoreMismatchError
from scalemani.geodesics.rows import shared_graph
from scalemani.integrity import repair, verify
from scalemani.steps.records import GraphRecord
from scalemani.storage.run import RunStore

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.LooksLikeDistancesWarning"),
]
BOWL = oracle("fishbowl220_k10")
X, T, K = BOWL["X"], BOWL["T"], int(BOWL["k"])
D, FAR = cdist(X, X), cdist(T, X)


def conformal(**arguments):
    return Isomap(**{"n_neighbors": K, "edge_weights": "conformal", **arguments})


def nearest(distances, k, own=False):
    """The k nearest of each row, itself left out where it is among them."""
    return np.argsort(distances, axis=1, kind="stable")[:, int(own) : k + int(own)]


def same(ours, theirs, relative=1e-6):
    """After signs of axes."""
    signs = np.sign(np.nansum(ours * theirs, axis=0))
    np.testing.assert_allclose(ours * signs, theirs, rtol=0, atol=relative * np.nanmax(np.abs(theirs)))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return conformal(store=tmp_path_factory.mktemp("bowl") / "run").fit(X)


@pytest.fixture
def run(model, tmp_path):
    return Path(shutil.copytree(model.store_, tmp_path / "copy"))


# ---- the oracle ----------------------------------------------------------------------------------


def test_means_edges_and_paths_are_the_oracle_s(model):
    store = RunStore(model.store_)
    vertex = store.read_array("vertex")
    np.testing.assert_allclose(store.read_array("neighbor_means")[vertex], BOWL["mean_distance"], rtol=1e-14)
    graph, scale = shared_graph(store.path, store.identity), store.needed(GraphRecord).scale
    i, j = vertex[BOWL["edges"].T]
    assert graph.nnz == 2 * len(i)
    np.testing.assert_allclose(graph[i, j] * scale, BOWL["conformal"], rtol=1e-7)
    lengths = np.median(graph.data)
    assert 1 <= lengths < 2  # the scale follows the lengths that are divided
    found = model.geodesics(BOWL["landmarks"])
    np.testing.assert_allclose(found, BOWL["landmark_distances"], rtol=1e-6)


def test_the_map_and_new_points_are_the_oracle_s(model):
    same(model.embedding_, BOWL["embedding"])
    np.testing.assert_allclose(model.eigenvalues_, BOWL["eigenvalues"][:2], rtol=1e-6)
    signs = np.sign((model.embedding_ * BOWL["embedding"]).sum(axis=0))
    scale = np.abs(BOWL["embedding"]).max()
    np.testing.assert_allclose(model.transform(T) * signs, BOWL["T_embedding"], rtol=0, atol=1e-6 * scale)


def likeness(found):
    """Correlation of distances on the map with those on the disc that the bowl was made of."""
    apart = [cdist(points, points)[np.triu_indices(len(X), 1)] for points in (found, BOWL["disc"][: len(X)])]
    return np.corrcoef(*apart)[0, 1]


def test_it_undoes_a_conformal_map_where_plain_edges_do_not(model):
    assert likeness(model.embedding_) > 0.97
    assert likeness(Isomap(n_neighbors=K).fit(X).embedding_) < 0.75
    assert likeness(KernelIsomap(n_neighbors=K, edge_weights="conformal", landmarks=60).fit(X).embedding_) > 0.9


# ---- every kind of input -------------------------------------------------------------------------


def test_distances_and_neighbour_lists_give_the_same(model):
    """New points too: by their distances, and by lists as scikit-learn's transformers write them."""
    dense = conformal(metric="precomputed").fit(D)
    lister = KNeighborsTransformer(n_neighbors=K).fit(X)
    lists = conformal(metric="precomputed").fit(lister.transform(X))
    for other, new in ((dense, FAR), (lists, lister.transform(T))):
        same(other.embedding_, model.embedding_)
        signs = np.sign((other.embedding_ * model.embedding_).sum(axis=0))
        np.testing.assert_allclose(other.transform(new) * signs, model.transform(T), rtol=0, atol=1e-5)


@pytest.mark.parametrize("landmarks", [None, 70])
def test_within_a_radius_the_mean_is_over_all_that_are(landmarks):
    radius = float(np.sort(D, axis=1)[:, 8].max())
    lists = [np.flatnonzero((row <= radius) & (np.arange(len(X)) != i)) for i, row in enumerate(D)]
    M, paths = naive.conformal(D, lists)
    ours = conformal(n_neighbors=None, radius=radius, landmarks=landmarks).fit(X)
    np.testing.assert_allclose(ours.geodesics(np.arange(len(X))), paths, rtol=1e-6)
    given = RadiusNeighborsTransformer(radius=radius).fit(X)
    listed = conformal(n_neighbors=None, radius=radius, landmarks=landmarks, metric="precomputed")
    same(listed.fit(given.transform(X)).embedding_, ours.embedding_, 1e-5)
    if landmarks is None:
        coordinates, *pairs = naive.scaled(paths)
        same(ours.embedding_, coordinates)
        inside = [np.flatnonzero(row <= radius) for row in FAR]
        rows = [
            naive.conformal_rows(paths, M, near[None], row[None, near])[0]
            for near, row in zip(inside, FAR, strict=True)
        ]
        same(ours.transform(T), naive.placed(np.array(rows), *pairs), 1e-5)


def test_of_a_mutual_graph_the_mean_is_over_the_point_s_own_list(tmp_path):
    near = nearest(D, 14, own=True)
    lists = [np.array([j for j in row if i in near[j]]) for i, row in enumerate(near)]
    M = np.array([D[i, row].mean() for i, row in enumerate(near)])
    lengths = np.full(D.shape, np.inf)
    for i, row in enumerate(lists):
        lengths[i, row] = D[i, row] / np.sqrt(M[i] * M[row])
    ours = conformal(n_neighbors=14, graph="mutual").fit(X)
    np.testing.assert_allclose(ours.geodesics(np.arange(len(X))), naive.dense_paths(lengths), rtol=1e-6)


def test_landmarks_are_the_full_method_where_all_points_are(model):
    every = conformal(landmarks=len(X)).fit(X)
    same(every.embedding_, model.embedding_, 1e-5)
    signs = np.sign((every.embedding_ * model.embedding_).sum(axis=0))
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(every.transform(T) * signs, model.transform(T), rtol=0, atol=1e-5 * scale)
    few = conformal(landmarks=90).fit(X)
    same(few.embedding_, model.embedding_, 0.1)
    np.testing.assert_allclose(few.transform(X), few.embedding_, rtol=0, atol=1e-9)
    assert not verify(few.store_).faults


# ---- components ----------------------------------------------------------------------------------


def test_bridges_are_divided_in_the_same_way():
    """And keep their length in the user's unit beside the graph."""
    rows = np.concatenate([X, 0.3 * X[:80] + 40])
    apart = cdist(rows, rows)
    ours = conformal(disconnected="join").fit(rows)
    lists = nearest(apart, K, own=True)
    across = apart[: len(X), len(X) :]
    i, j = np.unravel_index(across.argmin(), across.shape)
    _, paths = naive.conformal(apart, lists, [(i, len(X) + j)])
    np.testing.assert_allclose(ours.geodesics(np.arange(len(rows))), paths, rtol=1e-6)
    np.testing.assert_allclose(RunStore(ours.store_).read_array("bridge_lengths"), [across.min()])
    largest = conformal(disconnected="largest").fit(rows)
    same(largest.embedding_[: len(X)], conformal().fit(X).embedding_)
    assert np.isnan(largest.embedding_[len(X) :]).all()
    np.testing.assert_allclose(largest.transform(X[:9]), largest.embedding_[:9], rtol=0, atol=1e-9)


def test_a_point_with_nobody_within_the_radius_has_the_mean_of_its_bridges():
    radius = float(np.sort(D, axis=1)[:, 8].max())
    rows = np.concatenate([X, [[0.0, 0.0, 9.0]]])
    apart = cdist(rows, rows)
    lists = [np.flatnonzero((row <= radius) & (np.arange(len(rows)) != i)) for i, row in enumerate(apart)]
    assert len(lists[-1]) == 0
    _, paths = naive.conformal(apart, lists, [(int(apart[-1, :-1].argmin()), len(X))])
    ours = conformal(n_neighbors=None, radius=radius, disconnected="join").fit(rows)
    np.testing.assert_allclose(ours.geodesics(np.arange(len(rows))), paths, rtol=1e-6)
    with pytest.raises(DisconnectedGraphError):
        conformal(n_neighbors=None, radius=radius).fit(rows)


# ---- new points ----------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", ["cailliez", None])
def test_training_rows_are_where_they_were_and_no_row_depends_on_others(correction):
    model = KernelIsomap(n_neighbors=K, edge_weights="conformal", correction=correction).fit(X)
    scale = np.abs(model.embedding_).max()
    np.testing.assert_allclose(model.transform(X), model.embedding_, rtol=0, atol=1e-9 * scale)
    mixed = np.concatenate([T, X[:5]])
    whole = model.transform(mixed)
    np.testing.assert_array_equal(np.concatenate([model.transform(row[None]) for row in mixed]), whole)
    np.testing.assert_array_equal(model.transform(mixed[::-1])[::-1], whole)


def test_new_points_are_placed_by_the_mean_of_their_own_distances(model):
    near = nearest(FAR, K)
    far = np.take_along_axis(FAR, near, 1)
    M, paths = naive.conformal(D, nearest(D, K, own=True))
    coordinates, *pairs = naive.scaled(paths)
    signs = np.sign((model.embedding_ * coordinates).sum(axis=0))
    expected = naive.placed(naive.conformal_rows(paths, M, near, far), *pairs)
    np.testing.assert_allclose(model.transform(T) * signs, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("power", [-400, -3, 7, 300])
def test_lengths_have_no_unit(model, power):
    """The bits of the map and of new points are those of any unit that is a power of two."""
    other = conformal().fit(np.ldexp(X, power))
    np.testing.assert_array_equal(other.embedding_, model.embedding_)
    np.testing.assert_array_equal(other.transform(np.ldexp(T, power)), model.transform(T))


def test_a_new_row_at_distance_0_of_others_is_at_their_place():
    """Under cosine rows of one direction are at distance 0 without being equal."""
    rng = np.random.default_rng(0)
    rows = rng.random((80, 3)) + 0.2
    model = Isomap(n_neighbors=6, metric="cosine", edge_weights="conformal", disconnected="join").fit(rows)
    twice = model.transform(2 * rows[:9])
    np.testing.assert_allclose(twice, model.embedding_[:9], rtol=0, atol=2e-2 * np.abs(model.embedding_).max())


# ---- what is refused -----------------------------------------------------------------------------


def refused(given, message, path, **arguments):
    with pytest.raises(ScalemaniError, match=message) as caught:
        conformal(store=path, **arguments).fit(given)
    assert "\n" not in str(caught.value)


def test_distances_without_lists_are_refused_before_a_file_is_made(tmp_path):
    graph = sp.csr_array(np.where(D < 0.6, D, 0))
    refused(D, "metric='geodesic'.*use edge_weights='plain'", tmp_path / "a", metric="geodesic")
    refused(graph, "finished graph.*use edge_weights='plain'", tmp_path / "b", metric="precomputed")
    refused(X, "'conformed': did you mean 'conformal'", tmp_path / "c", edge_weights="conformed")
    assert list(tmp_path.iterdir()) == []


def test_a_mean_of_0_is_refused(tmp_path):
    rows = np.array(D[:30, :30])
    rows[0, :5] = rows[:5, 0] = 0
    rows[:5, :5] = 0
    refused(rows, "row 0 to its neighbours is 0; ask for more", tmp_path / "a", metric="precomputed", n_neighbors=3)


def test_resume_refuses_other_edges(model, run):
    for given, other in (("conformal", "plain"), ("plain", "conformal")):
        path = run if given == "conformal" else run.parent / "plain"
        Isomap(n_neighbors=K, store=path, edge_weights=given).fit(X)
        with pytest.raises(StoreMismatchError, match=f"edge_weights='{given}' where edge_weights='{other}'"):
            Isomap(n_neighbors=K, store=path, edge_weights=other).fit(X)


# ---- the store -----------------------------------------------------------------------------------


def test_a_loaded_an_exported_and_a_pickled_model_place_alike(model, run, tmp_path):
    expected = model.transform(T)
    np.testing.assert_array_equal(model.transform_to(T, tmp_path / "out.zarr")[:], expected)
    model.export(tmp_path / "export")
    assert load(run).edge_weights == "conformal"
    for other in (load(run), load(tmp_path / "export"), pickle.loads(pickle.dumps(conformal().fit(X)))):
        np.testing.assert_array_equal(other.transform(T), expected)


def test_damaged_means_are_found_and_made_again(model, run):
    before = tree(run)
    assert not verify(run).faults
    chunk = run / "neighbor_means/c/0"
    content = bytearray(chunk.read_bytes())
    content[20] ^= 1
    chunk.write_bytes(content)
    with pytest.raises(DamagedStoreError, match="neighbor_means"):
        load(run).transform(T)
    assert [(fault.kind, fault.name) for fault in verify(run).faults] == [("array", "neighbor_means")]
    assert any("left to the same fit" in said for said in repair(run)[0])
    again = conformal(store=run).fit(X)
    np.testing.assert_array_equal(again.transform(T), model.transform(T))
    assert not verify(run).faults
    assert tree(run)["neighbor_means/c/0"] == before["neighbor_means/c/0"]


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan])
def test_means_that_no_edge_can_be_divided_by_are_not_of_the_run(run, value):
    store = RunStore(run)
    means = store.read_array("neighbor_means").copy()
    means[3] = value
    store.write_array("neighbor_means", means)
    store.finish()
    with pytest.raises(DamagedStoreError, match="neighbor_means"):
        load(run).transform(T)
    assert [fault.name for fault in verify(run).faults] == ["neighbor_means"]
