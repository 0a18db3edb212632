"""A plan says what the fit then does: the same tiles, tasks, reads and bytes; and what does not fit leaves no file."""

import json
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from data import ring_distances, roll, roll_graph, two

from scalemani import Isomap, KernelIsomap, fitting
from scalemani.cluster import machine
from scalemani.cluster.client import Cluster
from scalemani.errors import DoesNotFitError
from scalemani.kernel import constant
from scalemani.kernel.eigensolver import block_rayleigh_ritz
from scalemani.kernel.start import start_count
from scalemani.methods import REGISTRY
from scalemani.methods.base import method_for
from scalemani.methods.isomap import IsomapMethod
from scalemani.neighbors import choice
from scalemani.neighbors import choice as ways
from scalemani.parameters import Parameters
from scalemani.planning.plan import check_early, make_plan
from scalemani.planning.plan import size_of as size_of_fit
from scalemani.steps import start
from scalemani.steps.base import Needs
from scalemani.steps.distances import TileDistances
from scalemani.steps.graph import GraphStep, NeighborsStep
from scalemani.steps.inputs import read_input
from scalemani.steps.records import GraphRecord, NeighborsRecord
from scalemani.storage.folders import FilePath
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

K = 8
STEPS = IsomapMethod().steps(Parameters())
pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.usefixtures("quick_calibration"),
]


@pytest.fixture
def plans(monkeypatch):
    """The plans that fits made."""
    made = []
    original = fitting.plan_of_store

    def kept(*arguments, **more):
        made.append(original(*arguments, **more))
        return made[-1]

    monkeypatch.setattr(fitting, "plan_of_store", kept)
    return made


@pytest.fixture
def tasks(monkeypatch):
    """Numbers of tasks of each round on the cluster."""
    counts = []
    original = Cluster.map

    def counted(self, function, tasks, shared=None):
        listed = list(tasks)
        counts.append(len(listed))
        return original(self, function, listed, shared)

    monkeypatch.setattr(Cluster, "map", counted)
    return counts


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_fit_makes_the_plan_that_was_shown(tmp_path, plans, tasks):
    X = roll(700)
    model = KernelIsomap(n_neighbors=K, store=tmp_path / "run")
    shown = model.plan(X)
    assert not list(tmp_path.iterdir())
    tasks.clear()
    model.fit(X)
    (made,) = plans
    ours, theirs = shown.record(), made.record()
    # a fit counts its reads
    for changing in ("disk_free", "memory_limit", "folder", "seconds", "reads", "tasks", "disk_solving"):
        del ours[changing], theirs[changing]
    assert ours == theirs
    # Tasks: 32 of the points whose paths are followed for shortcuts each, 32 vertices to start from,
    # one a row of tiles, and the runs of every read.
    assert shown.start_vertices == 128
    assert tasks == [2, 4, shown.tile_rows, *[shown.tasks_a_read] * model.n_passes_]
    assert shown.tasks == 2 + 4 + shown.tile_rows + shown.reads * shown.tasks_a_read
    # Bytes: those of D exactly; the rest of the store, whose small files are JSON, about.
    store = RunStore(tmp_path / "run")
    assert store.blocks == Blocks(shown.n_vertices, shown.tile_size)
    assert size_of(tmp_path / "run" / "distances" / "c") == shown.disk_distances
    assert shown.disk_distances < shown.disk
    assert size_of(tmp_path / "run") == pytest.approx(shown.disk, rel=0.15)
    assert shown.n_edges == store.needed(GraphRecord).n_edges
    assert shown.method == store.needed(NeighborsRecord).method


@pytest.mark.parametrize(("n", "components", "columns"), [(303, 2, 96), (320, 54, 300), (320, 53, 300), (4000, 2, 96)])
def test_the_vertices_to_start_from_are_those_that_a_fit_asks_for(n, components, columns, monkeypatch):
    asked, parameters = [], Parameters(n_components=components, random_state=0)

    def rows(cluster, store, vertices):
        asked.append(len(vertices))
        return np.ones((len(vertices), n), np.float32)

    monkeypatch.setattr(start, "scattered_rows", rows)
    store = SimpleNamespace(needed=lambda kind: SimpleNamespace(n_vertices=n, scale=1.0))
    start.starting_block(store, None, parameters, None, columns)
    assert start_count(n, parameters.n_components, columns) == sum(asked)


@pytest.mark.parametrize(
    ("X", "options"),
    [
        (ring_distances(40), {"metric": "geodesic"}),
        (ring_distances(40), {"metric": "precomputed", "n_neighbors": 3}),
        (roll_graph(90), {"metric": "precomputed"}),
        (roll(90), {"n_neighbors": None, "radius": 12.0}),
        (two(80), {"n_neighbors": 5, "disconnected": "largest"}),
        (two(80), {"n_neighbors": 5, "disconnected": "join", "graph": "mutual"}),
    ],
)
def test_every_kind_of_input_has_a_plan(X, options, plans):
    model = Isomap(**options)
    shown = model.plan(X)
    model.fit(X)
    assert shown.refusal is None
    assert (plans[0].tile_size, plans[0].memory) == (shown.tile_size, shown.memory)
    looked = [] if options.get("metric") == "geodesic" else ["shortcuts"]
    assert list(shown.seconds) == ["neighbors", "graph", *looked, "geodesics", "solve", "starting"]
    assert all(0 <= seconds < 60 for seconds in shown.seconds.values())
    json.dumps(shown.record(), allow_nan=False)


@pytest.mark.parametrize("kind", ["union", "mutual"])
def test_no_graph_has_fewer_edges_than_it_may_be_refused_for(kind):
    for X in (roll(300), two(120), np.random.default_rng(0).standard_normal((150, 6))):
        parameters = Parameters(n_neighbors=4, graph=kind, disconnected="join")
        given = read_input(X, "euclidean")
        graph = given.graph(parameters, given.lists(parameters))
        assert (0 if kind == "mutual" else 4 * len(X)) == given.least_edges(parameters, len(X)) <= graph.matrix.nnz


def test_a_fit_is_not_refused_for_edges_that_it_may_not_have(monkeypatch):
    """Union graphs have from n k to 2 n k entries; here an entry is dear, and all else together takes 64 of them."""
    X = roll(100)
    edges = 2 * Isomap(n_neighbors=K).plan(X).n_edges
    assert edges + 128 < 2 * len(X) * K
    monkeypatch.setattr(GraphStep, "needs", lambda self, size, cut: Needs(client={"graph": size.edges << 24}))
    Isomap(n_neighbors=K, memory_limit=(edges + 64) << 24).fit(X)


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({}, "kdtree"),
        ({"metric": "canberra"}, "brute"),
        ({"metric": "minkowski", "metric_params": {"p": 9.0}}, "brute"),  # no tree, whatever the features
        ({"knn": "nndescent"}, "nndescent"),
    ],
)
def test_the_search_that_will_be_taken_is_planned_for(options, method, monkeypatch, cluster):
    counted = []
    monkeypatch.setattr(choice, "search_bytes", lambda n, width, k, name, threads: counted.append(name) or 0)
    parameters = Parameters(n_neighbors=K, **options)
    given = read_input(roll(300), parameters.metric, parameters.metric_params)
    check_early(STEPS, given, parameters, cluster, 1 << 40, ".")
    counted.clear()
    given.search_bytes(parameters, 3000)
    assert counted[-1] == method
    if method != "nndescent":
        assert given.lists(parameters).method == method
        assert counted == [method]


def test_a_choice_of_nn_descent_is_planned_for(monkeypatch, cluster):
    """knn="auto", where the exact search would take longer."""
    parameters, given = Parameters(n_neighbors=K), read_input(roll(300), "euclidean")
    check_early(STEPS, given, parameters, cluster, 640 << 20, ".")
    monkeypatch.setattr(ways, "exact_seconds", lambda *_: 1e9)
    with pytest.raises(DoesNotFitError, match="for search and graph"):
        check_early(STEPS, given, parameters, cluster, 640 << 20, ".")


def test_a_given_matrix_is_written_without_tasks(tasks):
    model, D = Isomap(metric="geodesic"), ring_distances(400)
    shown = model.plan(D)
    tasks.clear()
    model.fit(D)
    assert tasks == [shown.tasks_a_read] * model.n_passes_
    assert shown.tasks == shown.reads * shown.tasks_a_read
    assert f"{shown.tasks:,} (0 for D, {shown.tasks_a_read} a read)" in str(shown)


def test_the_solver_is_held_to_the_basis_that_was_planned(monkeypatch, plans):
    """A limit between what the usual basis and a smaller one need."""
    X, widest = roll(700), []
    original = block_rayleigh_ritz

    def watched(products, n, n_top, combine, **options):
        widest.append(options["most_columns"])
        return original(products, n, n_top, combine, **options)

    monkeypatch.setattr(constant, "block_rayleigh_ritz", watched)
    monkeypatch.setattr(machine, "FIRST_USE", 0)
    KernelIsomap(n_neighbors=K, memory_limit="4GB").fit(X)
    KernelIsomap(n_neighbors=K, memory_limit=0.85 * plans[0].memory_peak).fit(X)
    assert widest == [plan.most_columns for plan in plans]
    assert widest[1] < widest[0]


@pytest.mark.parametrize("landmarks", [None, 20])
@pytest.mark.parametrize("X", [roll(400), ring_distances(400)], ids=["features", "geodesic"])
@pytest.mark.parametrize("method", REGISTRY.values(), ids=list(REGISTRY))
def test_every_step_says_what_it_holds_and_the_peak_is_the_most_of_them(method, X, landmarks, cluster):
    made = method_for(method.load())
    parameters = made.parameters(metric="geodesic" if X.shape[0] == X.shape[1] else "euclidean", landmarks=landmarks)
    given, steps = read_input(X, parameters.metric), made.steps(parameters)
    size = size_of_fit(given, parameters, cluster, 400, 5000)
    shown = make_plan(steps, given, size, cluster, 1 << 36, ".", "kdtree")
    assert shown.refusal is None
    held = dict[str, int]()
    for step in steps:
        needs = step.needs(shown.size, shown.cut)
        parts = {**needs.client, **needs.worker}
        assert all(part and isinstance(part, str) and count >= 0 for part, count in parts.items())
        if parts:
            held[step.in_memory[0]] = sum(parts.values()) + given.held() + machine.FIRST_USE
        assert min(needs.disk, needs.scratch, needs.tasks) >= 0
        assert all(getattr(shown, name) == value for name, value in needs.numbers.items())
    assert {name: sum(parts.values()) for name, parts in shown.memory.items()} == held
    assert shown.memory_peak == max(held.values()) == held[shown.memory_stage]


# ---- refusals ------------------------------------------------------------------------------------


def test_a_fit_that_does_not_fit_is_refused_before_any_file(tmp_path, monkeypatch):
    searched = []
    monkeypatch.setattr(NeighborsStep, "run", lambda *_: searched.append(1))
    model = Isomap(n_neighbors=K, store=tmp_path / "run", memory_limit="100MB")
    with pytest.raises(DoesNotFitError, match=r"400 points need [\d,]+ bytes .* memory_limit allows 100,000,000: "):
        model.fit(roll(400))
    with pytest.raises(DoesNotFitError, match="400 points need"):
        model.plan(roll(400))
    assert not searched
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"n_neighbors": None, "radius": 25.0}, {"disconnected": "largest"}])
@pytest.mark.parametrize("there", [False, True])
def test_what_only_the_graph_can_tell_leaves_no_file_either(tmp_path, monkeypatch, options, there):
    """A run that is there to be overwritten stays."""
    path = tmp_path / "run"
    if there:
        Isomap(store=path).fit(roll(60))
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(GraphStep, "needs", lambda self, size, cut: Needs(client={"graph": size.edges << 40}))
    if "radius" not in options:
        monkeypatch.setattr(fitting, "check_early", lambda *_: None)
    with pytest.raises(DoesNotFitError, match="for graph"):
        Isomap(**options, store=path, overwrite=True).fit(roll(100))
    assert sorted(tmp_path.rglob("*")) == before
    shown = Isomap(**options, store=path).plan(roll(100))
    assert shown.refusal is not None
    told = str(shown).splitlines()[0]
    assert re.fullmatch(r"verdict          does not fit: [\d.]+ \wB of memory, [\d.]+ \wB is allowed", told)
    full = replace(shown, memory_limit=shown.memory_peak, disk=2000, disk_free=1000)
    assert str(full).startswith("verdict          does not fit: 2 kB of disk, 1 kB is free\n")


def test_a_full_disk_is_refused_before_any_file(tmp_path, monkeypatch):
    monkeypatch.setattr(FilePath, "free_bytes", lambda _: 1000)
    with pytest.raises(DoesNotFitError, match=r"need [\d,]+ bytes and 1,000 are free"):
        Isomap(n_neighbors=K, store=tmp_path / "run").fit(roll(100))
    assert not list(tmp_path.iterdir())


def test_a_stopped_run_goes_on_with_less_memory(tmp_path, monkeypatch):
    """What is done takes no memory again; the tiles that are there keep their size."""
    X, path = roll(700), tmp_path / "run"
    first = Isomap(n_neighbors=K, store=path).fit(X)
    tile = RunStore(path).blocks.size
    needs = TileDistances.needs
    dear = {"rows": 1 << 50}
    monkeypatch.setattr(TileDistances, "needs", lambda *sizes: replace(needs(*sizes), client=dear))
    again = Isomap(n_neighbors=K, n_components=1, store=path, memory_limit="1GB").fit(X)
    assert RunStore(path).blocks.size == tile
    np.testing.assert_allclose(again.eigenvalues_, first.eigenvalues_[:1], rtol=1e-5)


# ---- the command line ------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", roll(320))

    def call(command):
        code = run(cli, shlex.split(command))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_plan_for_people_fits_a_terminal(tmp_path, program):
    code, out, err = program("plan points.npy run.zarr --neighbors 8 -p 3 --quiet")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80 + len(str(tmp_path))
    assert out.startswith("verdict          fits\n")
    for said in ("320 rows", "k-d tree", "edges", "rows of tiles", "reads of D", "a process", "cluster and code"):
        assert said in out
    assert "geodesics" in out[out.index("time  ") :]
    assert [path.name for path in tmp_path.iterdir()] == ["points.npy"]


def test_a_plan_for_programs_is_the_record(program):
    code, out, _ = program("plan points.npy --neighbors 8 --memory-limit 4GB --json --quiet")
    assert code == 0
    found = json.loads(out)
    shown = KernelIsomap(n_neighbors=8, memory_limit="4GB").plan(np.load("points.npy")).record()
    assert found.keys() == shown.keys()
    assert {**found, "seconds": 0, "disk_free": 0} == json.loads(json.dumps({**shown, "seconds": 0, "disk_free": 0}))
    assert set(found) == {
        *("n_rows", "n_distinct", "n_vertices", "n_edges", "method", "tasks", "threads", "workers", "memory_limit"),
        *("memory", "memory_peak", "memory_stage", "disk", "disk_distances", "disk_free", "folder", "refusal"),
        *("seconds", "tile_size", "tile_rows", "most_columns", "start_vertices", "reads", "tasks_a_read"),
        "disk_solving",
    }


def test_a_plan_that_does_not_fit_is_code_1_with_one_line(tmp_path, program):
    code, out, err = program("plan points.npy run.zarr --memory-limit 50MB --quiet")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "--memory-limit allows 50,000,000: raise --memory-limit" in err
    assert program("plan absent.npy --quiet")[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["points.npy"]
