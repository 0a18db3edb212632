"""Fits that warn of edges that leap, or remove them: the same map however they are run, kept and mended."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from data import neighbor_graph
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsTransformer

from scalemani import Isomap, KernelIsomap, load, scan
from scalemani.demo import swiss_roll
from scalemani.errors import ScalemaniError, ShortcutWarning, StoreMismatchError
from scalemani.geodesics.paths import geodesic_rows
from scalemani.graph.edges import without_edges
from scalemani.integrity import repair, verify
from scalemani.steps.records import ShortcutsRecord
from scalemani.storage.run import RunStore
from scalemani.terminal.summary import info_lines

pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
ROLL = swiss_roll(1200, noise_variance=0.25, random_state=0)
K = 15  # four edges leap


def along(model):
    """Correlation of the first axis with the true length."""
    return abs(np.corrcoef(model.embedding_[:, 0], ROLL.parameters[:, 0])[0, 1])


@pytest.fixture(scope="module")
def mended():
    return Isomap(n_neighbors=K, shortcuts="remove").fit(ROLL.points)


@pytest.fixture(scope="module")
def edges(mended):
    return np.array([edge["rows"] for edge in mended.spectrum_["shortcut_edges"]])


def test_a_fit_warns_and_says_what_to_do(edges):
    with pytest.warns(
        ShortcutWarning, match="4 edges of the graph leap .* shortcuts='remove' to take them out"
    ) as told:
        model = Isomap(n_neighbors=K).fit(ROLL.points)
    (said,) = [str(one.message) for one in told if one.category is ShortcutWarning]
    assert along(model) < 0.9
    assert [one["rows"] for one in model.spectrum_["shortcut_edges"]] == edges.tolist()
    assert model.spectrum_["n_shortcuts"] == 4 and not model.spectrum_["shortcuts_removed"]
    fewer = int(said.partition("n_neighbors=")[2].partition(",")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShortcutWarning)
        assert 7 <= fewer < K and along(Isomap(n_neighbors=fewer).fit(ROLL.points)) > 0.99


def test_removed_edges_leave_the_paths_of_the_graph_without_them(mended, edges):
    """The oracle is a graph by NumPy, from which the named edges are taken."""
    assert along(mended) > 0.99
    assert mended.spectrum_["shortcuts_removed"] and mended.spectrum_["n_shortcuts"] == len(edges) == 4
    lengths = [one["length"] for one in mended.spectrum_["shortcut_edges"]]
    np.testing.assert_allclose(lengths, np.linalg.norm(np.subtract(*ROLL.points[edges.T]), axis=1), rtol=1e-6)
    graph = without_edges(neighbor_graph(ROLL.points, K), edges)
    rows = [0, 5, 700]
    np.testing.assert_allclose(mended.geodesics(rows), geodesic_rows(graph, rows), rtol=1e-5)


def test_new_points_are_placed_by_the_mended_graph(mended):
    """A training point comes back to its place."""
    placed = mended.transform(ROLL.points[:40])
    np.testing.assert_allclose(placed, mended.embedding_[:40], atol=2e-3 * np.abs(mended.embedding_).max())


def test_keep_does_not_look():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShortcutWarning)
        model = Isomap(n_neighbors=K, shortcuts="keep").fit(ROLL.points)
    assert along(model) < 0.9 and "n_shortcuts" not in model.spectrum_


@pytest.mark.parametrize("how", [{"landmarks": 150}, {"correction": "lingoes"}, {"edge_weights": "conformal"}])
def test_every_method_with_a_graph_removes_them(how, edges):
    model = (KernelIsomap if "correction" in how else Isomap)(n_neighbors=K, shortcuts="remove", **how).fit(ROLL.points)
    assert along(model) > 0.98
    if "edge_weights" not in how:
        assert [one["rows"] for one in model.spectrum_["shortcut_edges"]] == edges.tolist()


def test_distances_to_choose_neighbours_by_are_mended_too(mended):
    model = Isomap(n_neighbors=K, metric="precomputed", shortcuts="remove").fit(cdist(ROLL.points, ROLL.points))
    assert model.spectrum_["n_shortcuts"] == 4
    assert along(model) == pytest.approx(along(mended), abs=1e-4)


def test_a_graph_that_was_given_is_only_warned_of(tmp_path):
    graph = neighbor_graph(ROLL.points, K)
    with pytest.warns(ShortcutWarning, match="leave them out of the graph"):
        Isomap(metric="precomputed").fit(graph)
    for X, metric in ((graph, "precomputed"), (cdist(ROLL.points[:60], ROLL.points[:60]), "geodesic")):
        with pytest.raises(ScalemaniError, match="shortcuts='remove' with X that is"):
            Isomap(metric=metric, shortcuts="remove", store=tmp_path / "r").fit(X)
    assert not list(tmp_path.iterdir())


def test_final_distances_have_no_edges():
    model = Isomap(metric="geodesic").fit(cdist(ROLL.points[:60], ROLL.points[:60]))
    assert "n_shortcuts" not in model.spectrum_
    assert not [line for line in info_lines(model) if line.startswith("shortcuts ")]


def test_bridges_are_not_suspected():
    """Two rolls that are joined by one bridge, over which half of all paths go."""
    sheet = np.random.default_rng(0).random((500, 2)) * [10, 4]
    both = np.concatenate([np.c_[sheet, np.zeros(500)], np.c_[sheet, np.full(500, 30.0)]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShortcutWarning)
        model = Isomap(n_neighbors=8, disconnected="join").fit(both)
    assert model.spectrum_["n_bridges"] == 1


def test_wrong_words_are_refused():
    with pytest.raises(ScalemaniError, match=r"shortcuts='delete'.*'warn', 'remove', 'keep'"):
        Isomap(shortcuts="delete").fit(ROLL.points)


# ---- a store -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kept(tmp_path_factory, mended):
    path = tmp_path_factory.mktemp("shortcuts") / "run"
    model = Isomap(n_neighbors=K, shortcuts="remove", store=path).fit(ROLL.points)
    np.testing.assert_array_equal(model.embedding_, mended.embedding_)
    return path


@pytest.fixture
def copied(kept, tmp_path):
    load(kept)
    subprocess.run(["cp", "-r", kept, tmp_path / "copy"], check=True)
    return tmp_path / "copy"


def test_a_store_gives_it_all_back(kept, mended):
    model = load(kept)
    assert model.shortcuts == "remove" and model.spectrum_ == mended.spectrum_
    np.testing.assert_array_equal(model.transform(ROLL.points[:9]), mended.transform(ROLL.points[:9]))
    assert not verify(kept).damaged


def test_an_exported_model_places_points_as_the_run_does(kept, tmp_path):
    load(kept).export(tmp_path / "model")
    there = load(tmp_path / "model")
    assert there.spectrum_ == load(kept).spectrum_
    np.testing.assert_array_equal(there.transform(ROLL.points[:9]), load(kept).transform(ROLL.points[:9]))


def test_a_run_with_them_is_no_run_without(kept, copied, tmp_path):
    with pytest.raises(StoreMismatchError, match="shortcuts='remove' where shortcuts='warn' is asked for"):
        Isomap(n_neighbors=K, store=copied).fit(ROLL.points)
    plain = Isomap(n_neighbors=K, shortcuts="keep", store=tmp_path / "plain").fit(ROLL.points)
    with pytest.warns(ShortcutWarning):  # it was not looked for; now it is, and D is as it was
        again = Isomap(n_neighbors=K, store=tmp_path / "plain").fit(ROLL.points)
    np.testing.assert_array_equal(again.embedding_, plain.embedding_)
    with pytest.raises(StoreMismatchError, match="shortcuts='warn' where shortcuts='remove'"):
        Isomap(n_neighbors=K, shortcuts="remove", store=tmp_path / "plain").fit(ROLL.points)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("name", ["graph_without", "shortcut_lengths", "shortcut_flows"])
def test_damaged_edges_are_looked_for_again(copied, name, lost, mended):
    chunk = next(file for file in (copied / name / "c").rglob("*") if file.is_file())
    content = chunk.read_bytes()
    chunk.unlink() if lost else chunk.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    faults = verify(copied).faults
    assert faults and all(name in fault.name for fault in faults)
    done, found = repair(copied)
    assert any("they are those that they were" in said for said in done) and not found.damaged
    assert chunk.read_bytes() == content
    np.testing.assert_array_equal(load(copied).geodesics([3], stored=False), mended.geodesics([3], stored=False))


@pytest.mark.slow
def test_a_fit_that_is_killed_behind_the_look_goes_on_with_the_same_bits(tmp_path, mended):
    path = tmp_path / "run"
    np.save(tmp_path / "x.npy", ROLL.points)
    code = (
        "import os, sys, numpy as n; from scalemani import Isomap\n"
        "def tell(step, done, total):\n"
        "    if step == 'geodesics': os._exit(9)\n"
        f"Isomap(n_neighbors={K}, shortcuts='remove', store=sys.argv[1], progress=tell).fit(n.load(sys.argv[2]))"
    )
    stopped = subprocess.run([sys.executable, "-W", "ignore", "-c", code, path, tmp_path / "x.npy"], check=False)
    assert stopped.returncode == 9 and RunStore(path).record(ShortcutsRecord).n_shortcuts == 4
    model = Isomap(n_neighbors=K, shortcuts="remove", store=path).fit(ROLL.points)
    np.testing.assert_array_equal(model.embedding_, mended.embedding_)


def chunk_of(store, name):
    return next(file for file in (store / name / "c").rglob("*") if file.is_file())


def spoil(store, name):
    chunk = chunk_of(store, name)
    chunk.write_bytes(bytes([chunk.read_bytes()[0] ^ 1]) + chunk.read_bytes()[1:])


@pytest.mark.parametrize("name", ["graph_weights", "order", "vertex"])
def test_a_damaged_graph_and_damaged_edges_take_one_repair_and_one_fit(copied, name, mended):
    spoil(copied, name)
    spoil(copied, "graph_without")
    done, _ = repair(copied)
    assert any("the shortcut edges" in said for said in done)
    rows = [(copied / "distances").stat().st_mtime_ns, chunk_of(copied, "distances").stat().st_mtime_ns]
    model = Isomap(n_neighbors=K, shortcuts="remove", store=copied).fit(ROLL.points)
    np.testing.assert_array_equal(model.embedding_, mended.embedding_)
    assert model.spectrum_ == mended.spectrum_ and not verify(copied).damaged
    assert rows[1] == chunk_of(copied, "distances").stat().st_mtime_ns  # D stayed


def test_a_repair_of_an_unfinished_run_looks_with_the_seed_of_the_run(tmp_path):
    def stop(step, done, total):
        if step == "geodesics":
            raise KeyboardInterrupt

    how = {"n_neighbors": K, "shortcuts": "remove", "random_state": 7}
    wanted = Isomap(**how).fit(ROLL.points)
    with pytest.raises(KeyboardInterrupt):
        Isomap(**how, store=tmp_path / "run", progress=stop).fit(ROLL.points)
    spoil(tmp_path / "run", "graph_without")
    repair(tmp_path / "run")
    model = Isomap(**how, store=tmp_path / "run").fit(ROLL.points)
    assert model.spectrum_["shortcut_edges"] == wanted.spectrum_["shortcut_edges"]
    np.testing.assert_array_equal(model.embedding_, wanted.embedding_)


def test_distances_that_were_made_with_the_edges_are_made_again(tmp_path, mended):
    """As a store of a release that did not look has them."""
    Isomap(n_neighbors=K, shortcuts="keep", store=tmp_path / "run").fit(ROLL.points)
    RunStore(tmp_path / "run").forget("shortcuts", "fit")
    model = Isomap(n_neighbors=K, shortcuts="remove", store=tmp_path / "run").fit(ROLL.points)
    np.testing.assert_array_equal(model.embedding_, mended.embedding_)
    assert not verify(tmp_path / "run").damaged


def test_neighbour_lists_are_no_finished_graph(mended):
    lists = KNeighborsTransformer(n_neighbors=K).fit_transform(ROLL.points)
    model = Isomap(n_neighbors=K, metric="precomputed", shortcuts="remove").fit(lists)
    assert model.spectrum_["n_shortcuts"] == 4
    with pytest.warns(ShortcutWarning, match=r"use n_neighbors=\d+, where none was found"):
        Isomap(n_neighbors=K, metric="precomputed").fit(lists)


@pytest.mark.parametrize("k", [12, 15])
def test_a_scan_finds_what_a_fit_finds(k):
    for seed in (0, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ShortcutWarning)
            model = Isomap(n_neighbors=k, random_state=seed).fit(ROLL.points)
        assert scan(ROLL.points, [k], random_state=seed).ks[0].n_shortcuts == model.spectrum_["n_shortcuts"] > 0


@pytest.mark.parametrize("workers", [1, 3])
def test_the_same_edges_for_any_number_of_workers(workers, mended):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, dashboard_address=None) as here,
        Client(here, set_as_default=False) as client,
    ):
        model = Isomap(n_neighbors=K, shortcuts="remove", scheduler=client).fit(ROLL.points)
    assert model.spectrum_["shortcut_edges"] == mended.spectrum_["shortcut_edges"]


def test_rows_that_repeat_are_named_by_their_first(mended):
    twice = np.concatenate([ROLL.points[:1], ROLL.points])
    found = Isomap(n_neighbors=K, shortcuts="remove").fit(twice).spectrum_["shortcut_edges"]
    shifted = [[row + 1 if row else 0 for row in one["rows"]] for one in mended.spectrum_["shortcut_edges"]]
    assert sorted(sorted(one["rows"]) for one in found) == sorted(map(sorted, shifted))


def test_no_look_is_made_where_there_is_nothing_to_see():
    for X in (np.zeros((2, 2)) + [[0, 0], [1, 1]], np.arange(5.0)[:, None]):
        model = Isomap(n_neighbors=1, n_components=1, shortcuts="remove").fit(X)
        assert model.spectrum_["n_shortcuts"] == 0


def test_what_is_said_is_json(mended):
    json.dumps(mended.spectrum_, allow_nan=False)
