"""A method that is written beside the package is fitted, resumed, mended, planned, shown and saved as its own are.

toy.py is all there is of it. What holds of every method is in test_contract.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from data import ring_distances, roll

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreMismatchError
from scalemani.geodesics import geodesic_rows
from scalemani.geodesics.rows import shared_graph
from scalemani.integrity import repair, verify
from scalemani.storage.records import STEPS, StepRecord
from scalemani.storage.run import RunStore
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run
from scalemani.terminal.summary import begun_line

X, T = roll(300), roll(40, seed=1)


pytestmark = pytest.mark.filterwarnings("ignore::scalemani.errors.ScalemaniWarning")


class Stop(Exception):
    """Of the user's own."""


def estimator(toy, store, **given):
    return toy.Toy(**{"n_neighbors": 7, "start": 3, "store": store, **given})


@pytest.fixture(scope="module")
def made(toy, tmp_path_factory):
    """An undisturbed run."""
    return estimator(toy, tmp_path_factory.mktemp("toy") / "run.zarr").fit(X)


@pytest.fixture
def program(capsys):
    """Exit code, standard output, standard error."""

    def call(*words):
        code = run(cli, [str(word) for word in words])
        return code, *capsys.readouterr()

    return call


def test_its_axes_are_distances_along_the_graph(made):
    store = RunStore(made.store_)
    vertex = store.read_array("vertex")
    rows = geodesic_rows(shared_graph(store.path, store.identity), vertex[3:5])
    scale = store.document.stages["graph"].scale
    assert np.array_equal(made.embedding_, rows.T[vertex].astype(np.float64) * scale)
    assert np.array_equal(made.embedding_, made.geodesics([3, 4]).T)
    assert made.reach() == made.spectrum_["reach"] == made.embedding_.max()


def test_a_training_row_is_placed_where_it_is_and_others_at_most_an_edge_farther(made):
    assert np.array_equal(made.transform(X), made.embedding_)
    placed = made.transform(T)
    gap = np.linalg.norm(T[:, None] - X[None], axis=2)
    nearest = gap.argmin(axis=1)
    assert (placed <= made.embedding_[nearest] + gap.min(axis=1)[:, None] + 1e-9).all()
    far = made.transform_to(T, str(Path(made.store_).parent / "placed.zarr"))
    assert np.array_equal(far[:], placed)


def test_a_fit_that_was_stopped_after_its_graph_says_what_is_there_and_searches_no_more(toy, made, tmp_path):
    seen = []

    def stop(stage, done, total):
        seen.append(stage)
        if stage == "toy" and seen.count("toy") == 1:
            raise Stop

    for _ in range(2):
        begun = begun_line(str(tmp_path / "r"))
        at = len(seen)
        try:
            model = estimator(toy, tmp_path / "r", progress=stop).fit(X)
        except Stop:
            continue
    assert begun.endswith("goes on; the neighbours, the graph are there")
    assert "graph" not in seen[at:]
    assert np.array_equal(model.embedding_, made.embedding_)


def test_other_parameters_of_its_own_make_its_step_again_and_other_neighbours_are_refused(toy, tmp_path):
    first = estimator(toy, tmp_path / "r").fit(X)
    seen = []
    other = estimator(toy, tmp_path / "r", start=9, progress=lambda stage, *_: seen.append(stage)).fit(X)
    assert "toy" in seen and "graph" not in seen
    assert np.array_equal(other.embedding_, other.geodesics([9, 10]).T)
    with pytest.raises(StoreMismatchError, match="n_neighbors=7 where n_neighbors=8"):
        estimator(toy, tmp_path / "r", n_neighbors=8).fit(X)
    with pytest.raises(ScalemaniError, match="was fitted again"):
        first.transform(T)


def test_a_run_of_a_method_with_other_steps_is_not_gone_on_with(toy, made, tmp_path):
    made.export(tmp_path / "r")
    Isomap(n_neighbors=7, store=tmp_path / "s").fit(X)
    with pytest.raises(StoreMismatchError, match="of the method 'toy' where 'isomap' is asked for: give another path"):
        Isomap(n_neighbors=7, store=tmp_path / "r").fit(X)
    with pytest.raises(StoreMismatchError, match="of the method 'isomap' where 'toy' is asked for"):
        estimator(toy, tmp_path / "s").fit(X)
    assert np.array_equal(load(tmp_path / "r").embedding_, made.embedding_)
    KernelIsomap(n_neighbors=7, store=tmp_path / "s").fit(X)
    assert type(load(tmp_path / "s")) is KernelIsomap  # its steps are the same, with other axes


def test_a_damaged_byte_of_its_array_is_found_and_mended_to_the_same_bits(made, tmp_path):
    made.export(tmp_path / "r")
    chunk = tmp_path / "r" / "toy_axes" / "c" / "0" / "0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(DamagedStoreError, match="toy_axes"):
        load(tmp_path / "r")
    (fault,), (remedy,) = verify(str(tmp_path / "r")).faults, verify(str(tmp_path / "r")).remedies
    assert (fault.kind, fault.name, remedy) == ("array", "toy_axes", "--repair finds them again")
    done, left = repair(str(tmp_path / "r"))
    assert done == ["the distances to a few rows were found again"] and not left.faults
    assert chunk.read_bytes() == whole


def test_an_array_that_can_not_be_its_own_is_refused_by_what_its_record_says(toy, tmp_path):
    """Checksums are right: by a program that knows the format."""
    store = RunStore(estimator(toy, tmp_path / "r").fit(X).store_)
    axes = store.read_array("toy_axes")
    for wrong, said in ((axes[:, :1], "shape"), (axes - 1, "numbers from -1"), (axes.astype(int), "dtype")):
        store.write_array("toy_axes", wrong)
        store.finish()
        with pytest.raises(DamagedStoreError, match=said):
            load(store.path)
        assert [fault.name for fault in verify(store.path).faults] == ["toy_axes"]
    store.write_array("toy_axes", axes * 1.01)
    store.finish()
    assert [fault.problem for fault in verify(store.path).faults] == ["other distances than those along the graph"]


def test_wrong_use_is_one_line_before_any_file(toy, tmp_path):
    for given, said in (({"start": -1}, "start=-1: a row number"), ({"start": 299}, "rows up to 299")):
        with pytest.raises(ScalemaniError, match=said) as error:
            estimator(toy, tmp_path / "r", **given).fit(X)
        assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_its_plan_has_its_own_lines(toy, tmp_path):
    plan = estimator(toy, tmp_path / "r").plan(X)
    assert plan.rows == plan.record()["rows"] == 2
    assert plan.disk_distances == 0 and plan.refusal is None
    assert set(plan.seconds) == {"neighbors", "graph", "toy", "starting"}
    assert "rows of D        2, from row 3 on" in str(plan)
    small = estimator(toy, tmp_path / "r", memory_limit=1000).plan
    with pytest.raises(ScalemaniError, match="300 points need"):
        small(X)
    assert not list(tmp_path.iterdir())


def test_the_command_line_fits_and_shows_it(made, program, tmp_path):
    np.save(tmp_path / "x.npy", X)
    code, out, err = program("fit", tmp_path / "x.npy", tmp_path / "r", "-k", 7, "--method", "toy")
    assert code == 0, err
    assert "method           toy" in out and "first row        0" in out
    assert "reach            at most" in program("info", tmp_path / "r")[1]
    record = json.loads(program("info", made.store_, "--json")[1])
    assert record["parameters"]["start"] == 3 and record["bounds"] == {"reach": ["at most"]}
    assert program("verify", made.store_)[1].endswith(": whole, 14 arrays\n")
    code, out, _ = program("plan", tmp_path / "x.npy", "-k", 7, "--method", "toy")
    assert code == 0 and "pieces of work   none" in out
    assert program("project", made.store_, tmp_path / "x.npy", tmp_path / "y.npy")[0] == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), made.embedding_)
    assert program("report", made.store_, tmp_path / "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for words in (
        "Distances from row 3: 300 points on 2 axes",
        "Crosses are the 2 starts.",
        "Each axis is a row of D.",
    ):
        assert words in page
    for words in ("orrection", "igenvalue", "andmark", "Spectrum"):
        assert words not in page.replace("landmark_method", "")
    code, _, err = program("fit", tmp_path / "x.npy", tmp_path / "s", "--method", "toy", "--correction", "flip")
    assert code == 2 and "--method toy has no --correction" in err


def test_it_is_derived_as_scikit_learn_wants_it(toy, made, tmp_path):
    from sklearn.base import clone

    assert clone(made).get_params() == made.get_params()
    assert list(made.get_feature_names_out()) == ["toy0", "toy1"]
    loaded = load(made.store_)
    assert type(loaded) is toy.Toy and loaded.start == 3
    assert not hasattr(made, "eigenvalues_")


def test_distances_that_are_given_do_as_well(toy, tmp_path):
    D = ring_distances(60)
    model = estimator(toy, tmp_path / "r", metric="geodesic", n_neighbors=None).fit(D)
    assert np.allclose(model.embedding_, D[:, 3:5])
    assert np.allclose(model.transform(D[:5]), D[:5, 3:5])
    assert not verify(str(tmp_path / "r")).faults


# ---- without its module ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["load", *(pytest.param(c, marks=pytest.mark.slow) for c in ("info", "verify", "report", "fit"))]
)
def test_where_its_module_is_not_imported_one_line_says_which_to_import(made, tmp_path, command):
    np.save(tmp_path / "x.npy", X)
    if command == "load":
        store = repr(made.store_)
        code = f"import scalemani\ntry:\n    scalemani.load({store})\nexcept ValueError as error:\n    exit(error)"
        words = ["-c", code]
    else:
        more = {"report": [made.store_, tmp_path / "r.html"], "fit": [tmp_path / "x.npy", made.store_, "-q"]}
        words = ["-m", "scalemani", command, *map(str, more.get(command, [made.store_]))]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode and not done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert "import toy first" in line


def test_a_step_that_nobody_knows_is_refused_by_its_name(made, tmp_path, program):
    made.export(tmp_path / "r")

    class Later(StepRecord, frozen=True, kw_only=True):
        STEP: ClassVar[str] = "later"

    RunStore(tmp_path / "r").finish(Later())
    del STEPS["later"]
    with pytest.raises(ScalemaniError, match="a step 'later' that this scalemani does not know") as said:
        load(tmp_path / "r")
    assert "\n" not in str(said.value)
    assert "'later'" in program("info", tmp_path / "r")[2]


@pytest.mark.slow
def test_the_command_line_finds_a_method_that_a_package_declares(tmp_path):
    """By its entry point, in a process that has not imported it."""
    declared = tmp_path / "toy-1.0.dist-info"
    declared.mkdir()
    (declared / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (declared / "entry_points.txt").write_text("[scalemani.methods]\ntoy = toy\n")
    np.save(tmp_path / "x.npy", roll(80))
    places = os.pathsep.join([str(tmp_path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    for words in (["fit", "x.npy", "run", "--method", "toy", "-k", "6"], ["info", "run"], ["verify", "run"]):
        command = [sys.executable, "-m", "scalemani", *words]
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": places}, capture_output=True)
        assert done.returncode == 0, done.stderr
