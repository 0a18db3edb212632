"""A run by landmarks is the same product: verify, repair, export, resume, plan, command line, report.

The numerics are in test_landmarks.py. Each damage is found by verify and mended by repair to the bits that were there;
a projection meets it as an error that names the remedy.
"""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from corruption import tree
from data import ring_distances, roll

from scalemani import KernelIsomap, fitting, load
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError, DoesNotFitError, ScalemaniError, StoreMismatchError
from scalemani.integrity import repair, verify
from scalemani.steps import cuts, landmark_distances
from scalemani.steps.sources import Layout
from scalemani.storage.folders import PARTIAL, FilePath
from scalemani.storage.run import RunStore
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as run_program
from scalemani.terminal.summary import begun_line

pytestmark = [
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
    pytest.mark.usefixtures("quick_calibration"),
]
POINTS = roll(300)
TEST = roll(40, seed=1)
MATRIX = "distances_to_landmarks"
DOCUMENTS = ("zarr.json", "document.json")


@pytest.fixture(scope="module", autouse=True)
def small_blocks():
    """Five blocks of points, eight of landmarks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_POINTS", 64)
        yield


def estimator(store, **given):
    return KernelIsomap(**{"n_neighbors": 7, "landmarks": 24, "store": store, **given})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An undisturbed run."""
    return estimator(tmp_path_factory.mktemp("landmarks") / "run.zarr").fit(POINTS)


@pytest.fixture
def run(made, tmp_path):
    """A copy of it to be changed."""
    return Path(shutil.copytree(made.store_, tmp_path / "r"))


def flip(file, at=-1):
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def numbers(store):
    """Files with numbers and their ledgers: what must come back to the bit. Ledgers name the run."""
    found = {name: content for name, content in tree(store).items() if name not in DOCUMENTS}
    return {name: content for name, content in found.items() if not name.startswith(f"{MATRIX}/ledger")}


# ---- damage ------------------------------------------------------------------------------------

DAMAGE = {  # what is done to the folder of a run, what verify calls it
    "a bit of a chunk": (lambda run: flip(run / MATRIX / "c/2/0"), f"{MATRIX}/2"),
    "a short chunk": (lambda run: (run / MATRIX / "c/1/0").write_bytes(b"1234"), f"{MATRIX}/1"),
    "another row's line": (
        lambda run: shutil.copy(run / MATRIX / "ledger/3.json", run / MATRIX / "ledger/4.json"),
        f"{MATRIX}/4",
    ),
    "a lost line": (lambda run: (run / MATRIX / "ledger/3.json").unlink(), f"{MATRIX}/3"),
    "another chunk": (lambda run: shutil.copy(run / MATRIX / "c/1/0", run / MATRIX / "c/0/0"), f"{MATRIX}/0"),
    "metadata": (lambda run: flip(run / MATRIX / "zarr.json", 40), f"{MATRIX}/zarr.json"),
    "landmarks": (lambda run: flip(run / "landmarks/c/0"), "landmarks"),
    "counts": (lambda run: flip(run / "landmark_counts/c/0"), "landmark_counts"),
    "no square": (lambda run: shutil.rmtree(run / "landmark_square"), "landmark_square"),
    "coordinates": (lambda run: flip(run / "coordinates/c/0/0"), "coordinates"),
    "axes": (lambda run: flip(run / "vectors/c/0/0"), "vectors"),
    "left over rows": (lambda run: (run / "landmark_rows").mkdir(), "landmark_rows"),
    "a partial file": (lambda run: (run / MATRIX / f"c/1/0.{'a' * 32}{PARTIAL}").touch(), None),
}
OTHER_DAMAGE = {
    "a lost chunk": (lambda run: (run / MATRIX / "c/0/0").unlink(), f"{MATRIX}/0"),
    "no matrix": (lambda run: shutil.rmtree(run / MATRIX), f"{MATRIX}/0"),
    "no landmarks": (lambda run: shutil.rmtree(run / "landmarks"), "landmarks"),
    "square": (lambda run: flip(run / "landmark_square/c/0/0"), "landmark_square"),
}


def test_a_whole_run_is_whole(made):
    found = verify(made.store_)
    assert not found.faults
    assert (found.tile_rows, found.tiles) == (5, "blocks of distances to landmarks")


def test_many_kinds_of_damage_are_found_and_mended_to_the_same_bits(run, made):
    for damage, _ in DAMAGE.values():
        damage(run)
    found = verify(str(run))
    assert found.damaged
    assert {called for _, called in DAMAGE.values() if called} <= {fault.name for fault in found.faults}
    assert any(fault.name.endswith(PARTIAL) and fault.kind == "leftover" for fault in found.faults)
    assert all(remedy.startswith("--repair ") for remedy in found.remedies)
    done, left = repair(str(run))
    assert not left.faults
    assert "the landmarks were chosen again: they are those that they were" in done
    assert "5 blocks of distances to landmarks were made again from the graph" in done
    assert numbers(run) == numbers(made.store_)
    assert np.array_equal(load(run).embedding_, made.embedding_)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*DAMAGE, *OTHER_DAMAGE])
def test_each_damage_is_mended_alone(run, made, name):
    damage, called = {**DAMAGE, **OTHER_DAMAGE}[name]
    damage(run)
    assert called is None or called in {fault.name for fault in verify(str(run)).faults}
    done, left = repair(str(run))
    assert done
    assert not left.faults
    assert numbers(run) == numbers(made.store_)


@pytest.mark.slow
def test_repair_makes_no_row_of_a_graph_for_what_the_matrix_says(run, monkeypatch):
    flip(run / "landmark_square/c/0/0")
    flip(run / "coordinates/c/0/0")
    monkeypatch.setattr(landmark_distances, "compute_rows", None)
    before = tree(run / MATRIX)
    assert not repair(str(run))[1].faults
    assert tree(run / MATRIX) == before


@pytest.mark.slow
def test_a_run_that_was_stopped_behind_its_solution_keeps_its_projection(tmp_path):
    """It is the solution's, also before the fit is recorded."""
    paper = estimator(tmp_path / "run", projection="paper").fit(POINTS)
    store = RunStore(paper.store_)
    store.forget("fit")
    assert not verify(store.path).faults
    flip(tmp_path / "run" / "coordinates/c/0/0")
    assert not repair(store.path)[1].faults
    again = estimator(tmp_path / "run", projection="paper").fit(POINTS)
    assert np.array_equal(again.embedding_, paper.embedding_)


@pytest.mark.slow
def test_what_contradicts_the_graph_is_found_though_each_file_is_whole(run, made):
    """A chunk and its line by a program that knows the format; other arrays by one that knows the document."""
    store = RunStore(run)
    points = Layout.of(store).by_point(store)
    other = np.float32(1.01) * points.read(1, 0)
    points.unfinish(1)
    points.write(1, other)
    (fault,) = verify(str(run)).faults
    assert (fault.kind, fault.name) == ("chunk", f"{MATRIX}/1")
    assert "not those found from their other ends" in fault.problem
    assert not repair(str(run))[1].faults
    for name in ("coordinates", "landmark_counts"):
        array = store.read_array(name)
        array[:2] += 1
        store.write_array(name, array)
    store.finish()
    assert [fault.name for fault in verify(str(run)).faults] == ["landmark_counts"]  # which coordinates follow from
    assert not repair(str(run))[1].faults
    assert numbers(run) == numbers(made.store_)


def test_a_projection_names_the_remedy_where_a_chunk_is_damaged(run):
    model = load(run)
    for block in range(5):
        flip(run / MATRIX / f"c/{block}/0")
    with pytest.raises(
        DamagedStoreError, match=r"tile \(\d, 0\) of 'distances_to_landmarks' is damaged.*verify"
    ) as said:
        model.transform(TEST)
    assert "\n" not in str(said.value)


@pytest.mark.slow
def test_a_given_d_is_left_to_the_same_fit(tmp_path):
    D = ring_distances(60)
    given = {"metric": "geodesic", "n_neighbors": None, "landmarks": 12}
    model = estimator(tmp_path / "r", **given).fit(D)
    flip(tmp_path / "r" / MATRIX / "c/0/0")
    done, left = repair(str(tmp_path / "r"))
    assert left.damaged or not left.finished or done
    again = estimator(tmp_path / "r", **given).fit(D)
    assert np.array_equal(again.embedding_, model.embedding_)
    assert not verify(str(tmp_path / "r")).faults


# ---- copies ------------------------------------------------------------------------------------


def test_an_exported_model_places_points_with_the_same_bits(made, tmp_path):
    made.export(tmp_path / "copy")
    shutil.copytree(made.store_, tmp_path / "whole")
    copy = load(tmp_path / "copy")
    assert np.array_equal(copy.transform(TEST), made.transform(TEST))
    assert np.array_equal(copy.embedding_, made.embedding_)
    assert np.array_equal(copy.landmarks_, made.landmarks_)
    assert tree(tmp_path / "copy" / MATRIX) == tree(Path(made.store_) / MATRIX)
    assert not verify(str(tmp_path / "copy")).faults
    assert not list((tmp_path / "copy").glob("neighbors_*"))


def test_a_damaged_chunk_is_not_exported(run, tmp_path):
    flip(run / MATRIX / "c/2/0")
    with pytest.raises(DamagedStoreError):
        load(run).export(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


# ---- stops -------------------------------------------------------------------------------------


class Stop(Exception):
    """Of the user's own."""


@pytest.fixture
def found(monkeypatch):
    """Landmarks whose rows are found from the graph."""
    sources = []
    real = landmark_distances.geodesic_rows

    def counted(graph, here, **more):
        sources.extend(here.tolist())
        return real(graph, here, **more)

    monkeypatch.setattr(landmark_distances, "geodesic_rows", counted)
    return sources


SOME = [("landmarks", 1), ("geodesics", 3), ("geodesics", 10), ("coordinates", 2)]


@pytest.mark.parametrize("stops", [SOME, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def test_a_fit_that_is_stopped_goes_on_to_the_same_bits(tmp_path, made, found, stops):
    """At some reports, or at every one of each stage, one after the other on the same store."""
    seen = []

    def stop_at_the_next(stage, done, total):
        assert done <= total
        if stage == "geodesics" and done == 0:
            assert begun_line(str(tmp_path / "r")).endswith(
                "the landmarks, 0 of 13 blocks of distances to them are there"
            )
        if (stage, done) not in seen and (stops is None or (stage, done) in stops):
            seen.append((stage, done))
            raise Stop

    for _ in range(60):
        try:
            model = estimator(tmp_path / "r", progress=stop_at_the_next).fit(POINTS)
            break
        except Stop:
            pass
    wanted = (
        SOME if stops else [("points", 0), ("neighbors", 0), ("graph", 0), *SOME[:1], ("geodesics", 0), ("solve", 0)]
    )
    assert set(wanted) <= set(seen)  # which blocks are done when a stop is over depends on those in flight
    in_flight = 2 * 3 * sum(stage == "geodesics" and done < 8 for stage, done in seen)  # tasks of 3 that nobody kept
    assert 24 == len(set(found)) <= len(found) <= 24 + in_flight
    assert numbers(tmp_path / "r") == numbers(made.store_)
    assert np.array_equal(model.embedding_, made.embedding_)


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({"landmarks": 25}, "landmarks=24 where landmarks=25"),
        ({"landmarks": None}, "landmarks=24 where landmarks=None"),
        ({"landmark_method": "random"}, "landmark_method='maxmin' where landmark_method='random'"),
        ({"landmarks": np.arange(24)}, "landmarks=24 where landmarks="),
    ],
)
def test_other_landmarks_are_refused_by_the_name_of_the_field(made, other, field):
    with pytest.raises(StoreMismatchError, match=re.escape(field)):
        estimator(made.store_, **other).fit(POINTS)


# ---- plan, command line, report ----------------------------------------------------------------


def test_the_fit_does_what_its_plan_says(tmp_path, monkeypatch):
    shown = estimator(tmp_path / "r").plan(POINTS)
    assert not list(tmp_path.iterdir())
    counts = []
    real = Cluster.map

    def counted(self, function, tasks, shared=None):
        listed = list(tasks)
        counts.append(len(listed))
        return real(self, function, listed, shared)

    monkeypatch.setattr(Cluster, "map", counted)
    estimator(tmp_path / "r").fit(POINTS)
    store = RunStore(tmp_path / "r")
    assert shown.cut == Layout.of(store)
    assert sum(counts) == shown.tasks
    held = sum(file.stat().st_size for file in (tmp_path / "r" / MATRIX / "c").rglob("*/0"))
    assert shown.disk_distances == held
    assert held < shown.disk < held + 1_000_000
    assert set(shown.seconds) == {
        "neighbors",
        "graph",
        "shortcuts",
        "sources",
        "geodesics",
        "solve",
        "coordinates",
        "starting",
    }
    assert shown.refusal is None
    assert "landmarks        24, each farthest from those before it" in str(shown)


def test_what_does_not_fit_is_a_line_and_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(FilePath, "free_bytes", lambda path: 20_000)
    with pytest.raises(DoesNotFitError, match="24 landmarks need") as said:
        estimator(tmp_path / "r").fit(POINTS)
    assert "\n" not in str(said.value)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(fitting, "check_early", lambda *_: None)
    shown = estimator(tmp_path / "r").plan(POINTS)
    assert "24 landmarks need" in shown.refusal
    assert str(shown).startswith("verdict          does not fit")


@pytest.fixture
def program(capsys):
    """Exit code, standard output, standard error."""

    def call(command):
        code = run_program(cli, shlex.split(command))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_the_command_line_says_what_the_landmarks_are(program, made):
    code, out, _ = program(f"info {made.store_}")
    assert code == 0
    assert re.search(r"landmarks +24 by maxmin; no point is farther than [\d.]+ from one", out)
    assert re.search(r"along the graph; the median distance is about \d+", out)
    everything = " ".join(program(f"info {made.store_} --all")[1].split())
    assert "of 300 points to 24 landmarks" in everything
    assert "reads of the distances" not in everything
    record = json.loads(program(f"info {made.store_} --json")[1])
    assert record["spectrum"]["n_landmarks"] == record["parameters"]["landmarks"] == 24


@pytest.mark.slow
def test_the_command_line_takes_a_number_or_row_numbers(tmp_path, monkeypatch, program, made):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", POINTS)
    np.save("rows.npy", np.arange(0, 300, 10))
    (tmp_path / "rows.csv").write_text("row\n" + "\n".join(map(str, range(0, 300, 10))) + "\n")
    (tmp_path / "half.csv").write_text("1.5\n2\n3\n4\n")
    code, out, err = program("fit x.npy a.zarr -k 7 --landmarks rows.csv --landmark-method random")
    assert code == 0, err
    assert "landmarks        30 as given" in out
    assert sorted(load("a.zarr").landmarks_) == list(range(0, 300, 10))
    assert "nothing to do" in program("fit x.npy a.zarr -k 7 --landmarks rows.npy")[1]
    assert "no row numbers" in program("fit x.npy b.zarr --landmarks half.csv")[2]
    assert "does not exist" in program("fit x.npy b.zarr --landmarks some.npy")[2]
    assert "12, at random" in program("plan x.npy b.zarr --landmarks 12 --landmark-method random")[1]
    assert program(f"verify {made.store_}")[1].strip().endswith("5 blocks of distances to landmarks and 20 arrays")


def test_the_reach_is_that_of_the_farthest_point(made):
    D = made.geodesics(made.landmarks_)
    assert made.spectrum_["landmark_reach"] == pytest.approx(D.min(axis=0).max(), rel=1e-6)


@pytest.mark.slow
def test_the_report_draws_landmarks_and_says_what_its_numbers_are_of(made, program, tmp_path):
    from scalemani.report import maps

    drawn = []
    real = maps._mark_size
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "_mark_size", lambda m: drawn.append(m) or real(m))
        assert program(f"report {made.store_} {tmp_path}/r.html")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert drawn == [24]
    for words in (
        "300 points on 2 axes, by 24 landmarks",
        "no point is farther than",
        "Crosses are the 24 landmarks.",
        "each moved to its nearest landmark",
        "of 300 points to 24 landmarks",
    ):
        assert words in page
    assert "reads of the distances" not in page


def test_rows_of_d_come_from_the_graph_or_from_landmarks_of_a_given_d(made, tmp_path):
    rows_of = made.geodesics([3, 5])
    assert np.array_equal(rows_of, made.geodesics([3, 5], stored=False))
    assert made._run.distance_histogram is None
    D = ring_distances(60)
    model = estimator(tmp_path / "r", metric="geodesic", n_neighbors=None, landmarks=[1, 8, 20, 40]).fit(D)
    np.testing.assert_allclose(model.geodesics([20, 1]), D[[20, 1]], rtol=1e-6)
    with pytest.raises(ScalemaniError, match="1 of 2 rows are not landmarks"):
        model.geodesics([20, 2])


@pytest.mark.slow
def test_landmarks_that_are_chosen_again_keep_no_row_of_others(tmp_path):
    """Rows that a stopped fit left are of its landmarks."""

    def stop(stage, done, total):
        if (stage, done) == ("geodesics", 4):
            raise Stop

    with pytest.raises(Stop):
        estimator(tmp_path / "r", progress=stop).fit(POINTS)
    store = RunStore(tmp_path / "r")
    store.forget("sources")
    model = estimator(tmp_path / "r", landmarks=np.arange(24)).fit(POINTS)
    fresh = estimator(tmp_path / "s", landmarks=np.arange(24)).fit(POINTS)
    assert np.array_equal(model.embedding_, fresh.embedding_)


@pytest.mark.slow
def test_a_turned_matrix_whose_stage_is_lost_does_not_stand_for_the_rest(made, run):
    """As where the document's older copy takes its place: the rows are gone by then, and what was taken of them."""
    store = RunStore(run)
    store.forget("geodesics", "solve", "coordinates", "fit")
    for name in ("landmark_square", "landmark_counts"):
        store.remove_array(name)
    model = estimator(run).fit(POINTS)
    assert np.array_equal(model.embedding_, made.embedding_)
    assert not verify(str(run)).faults
