"""A store by a stranger, whose checksums are all right: what it says is held against itself, and it runs nothing."""

import hashlib
import importlib
import shutil
import sys
import types

import click
import msgspec
import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hostile import one_line, sealed_array, sealed_document
from scipy.spatial.distance import cdist

from scalemani import KernelIsomap, errors, load
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.formats.columns import read_column
from scalemani.geodesics.reads import new_counts
from scalemani.geodesics.rows import shared_graph
from scalemani.neighbors import functions
from scalemani.neighbors.choice import SearchStrategy
from scalemani.projection.long import project, shared_projector
from scalemani.steps.records import BINS
from scalemani.storage.arrays import REAL, expected_of, fault_of
from scalemani.storage.files import checksum
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Form
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")

X = np.random.default_rng(0).random((24, 3))
FIT = {"n_neighbors": 4, "n_components": 2}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A finished run of each kind of input, which no test may change."""
    at = tmp_path_factory.mktemp("runs")
    for name, given, more in (
        ("dense", X, {}),
        ("sparse", sp.csr_array(np.where(X > 0.3, X, 0)), {}),
        ("distances", cdist(X, X), {"metric": "precomputed"}),
    ):
        KernelIsomap(**FIT, **more, store=at / name).fit(given)
    np.save(at / "x.npy", X)
    return at


@pytest.fixture
def copied(stores, tmp_path):
    """A copy of a run, to be changed."""

    def copy(name="dense"):
        return shutil.copytree(stores / name, tmp_path / name)

    return copy


# ---- arrays --------------------------------------------------------------------------------------------------


def spoils(name, array):
    """Arrays that can't stand for one: by what the table says of it."""
    expected = expected_of(name)
    yield array.astype(complex if expected.dtypes == REAL else np.longdouble)
    yield array[None]
    if len(array) and not expected.shape.startswith("*"):
        yield array[:-1]
        yield np.concatenate([array, array[-1:]])
    if array.dtype.kind == "f" and array.size:
        for value in (np.nan, np.inf, -np.inf):
            yield changed(array, value)
    if expected.least is not None and array.size:
        yield changed(array, int(expected.least) - 1)
        yield changed(array, -(10**6))
    if expected.below is not None and array.size:
        yield changed(array, 10**6)
    if expected.ascending:
        yield array[::-1].copy()
        yield changed(array, array[-1] + 1, at=len(array) // 2)
    if expected.once:
        yield changed(array, array[-1])


def changed(array, value, at=0):
    """One number is another."""
    made = array.copy()
    made.ravel()[at] = value
    return made


@pytest.mark.parametrize("kind", ["dense", "sparse", "distances"])
def test_every_array_that_a_run_has_is_in_the_table_and_held_against_it(stores, kind):
    store = RunStore(stores / kind)
    stages, count = store.document.stages, 0
    for name in store.document.arrays.keys() - {"distances"}:
        array = store.read_array(name)
        assert fault_of(name, array, stages) is None
        for wrong in spoils(name, array):
            said = fault_of(name, wrong, stages)
            assert said and said.isprintable(), (name, wrong)
            count += 1
    assert count > 40
    assert int(BINS) == len(new_counts())


def test_a_number_out_of_range_ends_no_process_and_is_said_in_one_line(stores, copied, tmp_path, capsys):
    """Each of these went on to a kernel or an index: 10^6 edges off, the process ended."""
    place, whole = copied(), RunStore(stores / "dense")
    for name, wrong in (
        ("graph_indices", lambda a: changed(a, 10**6)),
        ("graph_indices", lambda a: changed(a, -(10**6))),
        ("graph_indptr", lambda a: changed(a, 10**6, at=-1)),
        ("graph_weights", lambda a: changed(a, np.nan)),
        ("vertex", lambda a: changed(a, 10**6)),
        ("vertex_of_distinct", lambda a: changed(a, 24)),
        ("vectors", lambda a: a[:, :1]),
        ("means", lambda a: a.astype(int)),
        ("points", lambda a: a[:, :2]),
        ("digests", lambda a: a[:-1]),
    ):
        sealed_array(place, name, wrong(whole.read_array(name)))
        assert run(cli, ["project", str(place), str(stores / "x.npy"), str(tmp_path / "y.npy"), "--quiet"]) == 1, name
        _, err = capsys.readouterr()
        assert (
            err.startswith("scalemani: ")
            and (name if name != "graph_indptr" else "the graph") in err
            and err.count("\n") == 1
            and "debug" not in err
        )
        sealed_array(place, name, whole.read_array(name))
    assert run(cli, ["project", str(place), str(stores / "x.npy"), str(tmp_path / "y.npy"), "--quiet"]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), load(place).embedding_, atol=1e-6)


def test_lists_whose_parts_differ_in_length_and_edges_out_of_order_are_refused(copied):
    place, sparse = copied(), copied("sparse")
    store = RunStore(place)
    indptr, indices = store.read_array("graph_indptr"), store.read_array("graph_indices")
    for name, wrong in (("graph_indptr", np.minimum(indptr, indptr[-2])), ("graph_indices", indices[::-1])):
        sealed_array(place, name, wrong)
        with pytest.raises(DamagedStoreError, match=r"edges of the graph|edges out of order"):
            shared_graph.__wrapped__(str(place), store.identity)
        sealed_array(place, name, {"graph_indptr": indptr, "graph_indices": indices}[name])
    assert shared_graph.__wrapped__(str(place), store.identity).shape == (24, 24)
    store = RunStore(sparse)
    for name in ("points_data", "points_indices"):
        whole = store.read_array(name)
        sealed_array(sparse, name, whole[:-1])
        with pytest.raises(DamagedStoreError, match="the points are damaged"):
            load(sparse).transform(np.zeros((1, load(sparse).n_features_in_)))
        sealed_array(sparse, name, whole)
    sealed_array(sparse, "points_shape", np.array([24, 4]))
    with pytest.raises(DamagedStoreError, match="not of this run"):
        load(sparse).transform(np.zeros((1, load(sparse).n_features_in_)))


def test_neighbour_lists_that_are_none_are_searched_again(stores, copied):
    place = copied()
    RunStore(place).forget("fit", "solve", "geodesics", "start", "sources", "shortcuts", "graph")
    sealed_array(place, "neighbors_indptr", np.zeros(25, np.int64))
    model = KernelIsomap(**FIT, store=place).fit(X)
    np.testing.assert_array_equal(model.embedding_, load(stores / "dense").embedding_)


def test_distances_of_another_size_than_the_graph_are_refused(copied):
    place = copied()
    text = Form.of_distances(25, 25).text
    (place / "distances/zarr.json").write_bytes(text)
    sealed_document(place, lambda found: found["arrays"].update(distances=checksum(text)))
    with pytest.raises(DamagedStoreError, match="D is of 25 vertices and the graph of 24"):
        load(place).geodesics([0])


# ---- the document --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s["data"].update(n_distinct=25), "24 rows of 3 features make no 25 points"),
        (lambda s: s["data"]["fields"].update(kind="distances"), "24 rows of 3 features make no 24 points"),
        (lambda s: s["graph"].update(n_vertices=25), "a graph of 25 vertices for 24 points"),
        (lambda s: s["neighbors"]["fields"].update(n_neighbors=None), "no number and no radius"),
        (lambda s: s["fit"]["fields"].update(n_components=3), "3 axes were asked for, and 2 found"),
        (lambda s: s["solve"]["spectrum"].update(broken_stick=[1.0]), "broken_stick has 1 numbers for 2 axes"),
        (lambda s: s["solve"]["spectrum"].update(gof=[1.0]), "gof"),
        (lambda s: s["solve"]["spectrum"].update(eigenvalues=[None, None]), "eigenvalues"),
        (lambda s: s["fit"]["fields"].update(random_state=None), "random_state"),
    ],
)
def test_stages_that_contradict_one_another_are_refused(copied, change, words):
    place = copied()
    sealed_document(place, lambda found: change(found["stages"]))
    with pytest.raises(DamagedStoreError, match=words) as caught:
        load(place)
    one_line(caught.value)


def test_an_account_that_lacks_a_key_is_refused_in_one_line(copied, capsys):
    place = copied()
    whole = msgspec.to_builtins(RunStore(place).document.stages["solve"].spectrum)

    def account(keys):
        sealed_document(place, lambda found: found["stages"]["solve"].update(spectrum={k: whole[k] for k in keys}))

    for key in whole:
        account(whole.keys() - {key})
        code = run(cli, ["info", str(place)])
        out, err = capsys.readouterr()
        assert (code, err.count("\n"), key in err, out) == (1, 1, True, ""), err
        assert "debug" not in err
    account(whole)
    assert run(cli, ["info", str(place)]) == 0


# ---- metrics that are functions ------------------------------------------------------------------------------

CODE = """
import pathlib
pathlib.Path({mark!r}).mkdir(exist_ok=True)

def taxi(x, y):
    return float(abs(x - y).sum())

def __getattr__(name):
    pathlib.Path({lazy!r}).mkdir(exist_ok=True)
    raise AttributeError(name)
"""


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A module that leaves a mark where it is imported, another where it is asked for what it has not, and a store
    whose metric is its function."""
    at = tmp_path_factory.mktemp("strange")
    (at / "strange_metric.py").write_text(CODE.format(mark=str(at / "mark"), lazy=str(at / "lazy")))
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(at)
        KernelIsomap(**FIT, metric=importlib.import_module("strange_metric").taxi, store=at / "run").fit(X)
    return at


@pytest.fixture
def stranger(strange, tmp_path, monkeypatch):
    """A copy of that store, the marks' places, and nothing of the module is imported yet."""
    monkeypatch.syspath_prepend(strange)
    monkeypatch.setattr(functions, "_known", {})
    forget()
    for mark in ("mark", "lazy"):
        shutil.rmtree(strange / mark, ignore_errors=True)
    yield shutil.copytree(strange / "run", tmp_path / "strange"), strange / "mark", strange / "lazy"
    forget()


def forget():
    sys.modules.pop("strange_metric", None)
    functions._known.clear()
    shared_projector.cache_clear()


def test_a_store_does_not_say_what_is_imported(stranger, stores, tmp_path, capsys):
    place, mark, _ = stranger
    with pytest.raises(ScalemaniError, match="if you trust it, import 'strange_metric' first") as caught:
        load(place)
    one_line(caught.value)
    for command in (
        ["info"],
        ["project", str(stores / "x.npy"), str(tmp_path / "y.npy")],
        ["export", str(tmp_path / "m")],
    ):
        assert run(cli, [command[0], str(place), *command[1:], "--quiet"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not mark.exists() and "strange_metric" not in sys.modules


def test_where_its_module_is_imported_a_model_works_also_in_the_tasks_of_another_process(stranger):
    place, mark, _ = stranger
    importlib.import_module("strange_metric")
    model = load(place)
    expected = model.transform(X)
    np.testing.assert_allclose(expected, model.embedding_, atol=1e-6)
    key = model._run._key
    forget()  # as in a worker, which has the user's key and the store
    shutil.rmtree(mark)
    np.testing.assert_array_equal(project(key, X, SearchStrategy.EXACT)[0], expected)
    assert mark.exists()


def test_what_is_no_python_function_of_that_code_is_refused_and_nothing_is_run_to_find_it(stranger):
    place, _, lazy = stranger
    importlib.import_module("strange_metric")
    digest = hashlib.blake2b(b"", digest_size=4).hexdigest()  # of what has no code
    for metric in (
        *("posix:system", "os:system", "builtins:eval", "math:dist", "numpy:add", "", "sys:modules.os"),
        *("strange_metric:absent", "strange_metric:taxi", "strange_metric:taxi.__call__"),
    ):
        for stage in ("neighbors", "fit"):
            name = f"{metric or ':'}#{digest}"
            sealed_document(place, lambda found, s=stage, name=name: found["stages"][s]["fields"].update(metric=name))
        with pytest.raises(ScalemaniError, match=r"not there with the same code|a store does not say") as caught:
            load(place)
        one_line(caught.value)
    assert not lazy.exists()


def test_compiled_functions_and_static_methods_are_found(monkeypatch):
    made = types.ModuleType("made_up")

    class Kinds:
        @staticmethod
        def taxi(x, y):
            return abs(x - y).sum()

    def fast(x, y):
        return abs(x - y).sum()

    for function, name in ((Kinds.taxi, "Kinds.taxi"), (fast, "fast")):
        function.__module__, function.__qualname__ = "made_up", name
    made.Kinds, made.fast = Kinds, numba.njit(fast)
    names = [functions.function_name(function) for function in (Kinds.taxi, made.fast)]
    monkeypatch.setattr(functions, "_known", {})
    monkeypatch.setitem(sys.modules, "made_up", made)
    assert [functions.function_of(name) for name in names] == [Kinds.taxi, made.fast]


# ---- the command line ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("DiskFullError", 1),
        ("ClusterLostError", 1),
        ("DamagedStoreError", 1),
        ("SelfCheckError", 1),
        ("SolverError", 1),
        ("StoreUnreachableError", 1),
        ("StoreInUseError", 1),
        ("DoesNotFitError", 1),
        ("StoreMismatchError", 2),
    ],
)
def test_the_packages_own_failures_are_said_in_their_own_words(kind, code, capsys):
    @click.command()
    @click.option("--debug", is_flag=True)
    def fail(debug):
        raise getattr(errors, kind)("the words: do this")

    assert run(fail, []) == code
    assert capsys.readouterr() == ("", "scalemani: the words: do this\n")
    with pytest.raises(getattr(errors, kind)):
        run(fail, ["--debug"])


@pytest.mark.parametrize("spec", ["x.csv:" + "9" * 5000, "x.npy:" + "9" * 5000, "a" * 5000 + ".npy", "a\0.npy:1"])
def test_a_column_of_a_number_or_name_that_is_too_long_is_refused(tmp_path, monkeypatch, spec):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    np.save("x.npy", np.eye(2))
    with pytest.raises(ScalemaniError):
        read_column(spec, 2)
