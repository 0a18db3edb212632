"""`scalemani verify`: each kind of fault, what it prints, its exit codes, what it mends and what it refuses."""

import json
import re
import shutil

import numpy as np
import pytest
from corruption import changed, rows_of, tree
from damaged_worlds import comparable
from msgspec.structs import replace
from stored_models import fitted, same

from scalemani import KernelIsomap, integrity, load
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError, StoreInUseError
from scalemani.integrity import repair, verify
from scalemani.steps.checks import CHECKED
from scalemani.storage.files import open_location
from scalemani.storage.folders import PARTIAL
from scalemani.storage.records import RunDocument
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles
from scalemani.storage.writer import Writer
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as run_command

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


def flip(path, at=-1):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def other_constant(run):
    """A document that is whole, and says what its arrays do not."""
    document = RunDocument(run).read()
    solve = document.stages["solve"]
    other = replace(solve, constant=solve.constant * 1.01)
    RunDocument(open_location(run)).write(document.changed(stages={**document.stages, "solve": other}))


LEFT_LINE = f"ledger/0.json.{'a' * 32}{PARTIAL}"
DAMAGE = {  # kind of fault: what is done, the fault's name, and what its problem says
    "document": (lambda run: flip(run / "zarr.json", 40), "zarr.json", "."),
    "copy": (lambda run: (run / "document.json").write_bytes(b""), "document.json", "not JSON"),
    "array": (lambda run: flip(run / "vectors/c/0/0"), "vectors", "checksum differs"),
    "metadata": (lambda run: (run / "distances/zarr.json").unlink(), "distances/zarr.json", "No such file"),
    "row": (lambda run: flip(run / "distances/c/1/6"), "1", r"tile \(1, 6\): checksum differs"),
    "model": (other_constant, "self-check", "projected"),
    "leftover": (lambda run: (run / LEFT_LINE).write_bytes(b"x"), LEFT_LINE, "stopped run"),
    "stray": (lambda run: (run / "vectors/Thumbs.db").write_bytes(b"x"), "vectors/Thumbs.db", "no part"),
}


def said(capsys, *arguments):
    """Exit code, lines on standard output, lines on standard error."""
    code = run_command(cli, ["verify", *map(str, arguments), "--quiet"])
    out, err = capsys.readouterr()
    return code, out.splitlines(), [line for line in err.splitlines() if not line.startswith("warning: ")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE)
def test_each_kind_of_fault_is_said_in_a_line_and_mended(kind, undisturbed, run, capsys, monkeypatch):
    damage, name, problem = DAMAGE[kind]
    before = tree(run)
    damage(run)
    touched = changed(before, tree(run))
    code, out, err = said(capsys, run)
    harmless = kind in ("leftover", "stray")
    assert code == (0 if harmless else 1)
    faults = [line for line in out if "--repair" in line or "remove it" in line]
    assert len(faults) == 1 and name in faults[0] and re.search(problem, faults[0])
    assert str(run) not in faults[0]
    assert bool(err) == (not harmless) == (f"{run}: whole" not in out[-1])
    rows, real = [], Tiles.write
    monkeypatch.setattr(Tiles, "write", lambda self, row, *a: rows.append(row) or real(self, row, *a))
    code, out, err = said(capsys, run, "--repair")
    assert (code, err) == (0, []) and "whole" in out[-1]
    assert any(line.startswith("repair: ") for line in out) == (kind != "stray")
    assert set(rows) == (rows_of(touched) if kind == "row" else set())
    same(load(run), undisturbed)
    now, wanted = comparable(run), comparable(undisturbed.store_)
    assert changed(now, wanted) == ({name} if kind == "stray" else set())


def test_a_whole_store_takes_a_line_and_a_missing_one_is_wrong_use(run, tmp_path, capsys):
    before = tree(run)
    code, out, err = said(capsys, run)
    assert (code, err) == (0, []) and out == [f"{run}: whole, 7 rows of tiles and 20 arrays"]
    assert tree(run) == before, "it changes nothing"
    code, out, err = said(capsys, tmp_path / "nothing")
    assert code == 2 and not out and len(err) == 1 and "nothing is there" in err[0]
    assert said(capsys, tmp_path / "nothing", "--repair")[0] == 2
    assert not (tmp_path / "nothing").exists()


def test_several_faults_are_in_columns_and_in_json(undisturbed, run, capsys):
    for kind in ("array", "copy", "row", "leftover"):
        DAMAGE[kind][0](run)
    flip(run / "ledger/4.json")
    flip(run / "points/c/0/0")
    code, out, _ = said(capsys, run)
    assert code == 1 and len(out) == 6
    assert len({re.search("--repair|remove it", line).start() for line in out}) == 1, "in columns"
    code, out, _ = said(capsys, run, "--json")
    record = json.loads("\n".join(out))
    assert code == 1 and record["damaged"] and record["finished"]
    found = {(fault["kind"], fault["name"]) for fault in record["faults"]}
    assert found >= {("row", "1"), ("row", "4"), ("array", "points"), ("array", "vectors"), ("copy", "document.json")}
    assert all(fault["remedy"] for fault in record["faults"])
    code, out, err = said(capsys, run, "--repair")
    assert code == 1 and "same fit" in err[0] and any("the same fit makes it again" in line for line in out)
    same(fitted(run), undisturbed)  # the points come from the user
    assert said(capsys, run)[0] == 0
    assert not changed(comparable(run), comparable(undisturbed.store_))


def test_a_run_that_goes_on_is_neither_damaged_nor_finished(run, capsys):
    store = RunStore(run)
    store.forget("fit", "solve", "geodesics")
    store.tiles.unfinish(3)
    code, out, err = said(capsys, run)
    assert (code, err) == (0, []) and "row that was not finished" in out[0] and "same one goes on" in out[-1]


def test_a_store_that_is_being_written_is_not_mended(run, capsys):
    flip(run / "vectors/c/0/0")
    before = tree(run)
    with Writer(run):
        code, out, err = said(capsys, run, "--repair")
        with pytest.raises(StoreInUseError):
            repair(str(run))
    assert code == 1 and not out and len(err) == 1 and "at work" in err[0]
    assert tree(run) == before


def test_a_store_is_read_once_in_a_task_a_row(run, monkeypatch):
    tiles, tasks, real, real_map = [], [], Tiles.read_as, Cluster.map
    monkeypatch.setattr(
        Tiles, "read_as", lambda self, line, i, j, *a: tiles.append((i, j)) or real(self, line, i, j, *a)
    )
    monkeypatch.setattr(Cluster, "map", lambda self, work, given: real_map(self, work, map(noted, given)))
    monkeypatch.setattr(integrity, "_together", lambda *a: [])  # a few tiles, however many there are: see below

    def noted(task):
        tasks.append(task[2])
        return task

    assert not verify(str(run)).faults
    assert tasks == list(range(7))
    assert sorted(tiles) == [(i, j) for i in range(7) for j in range(i, 7)]


def test_what_is_held_against_one_another_takes_few_tiles(run, monkeypatch):
    tiles, real = [], Tiles.read_as
    monkeypatch.setattr(
        Tiles, "read_as", lambda self, line, i, j, *a: tiles.append((i, j)) or real(self, line, i, j, *a)
    )
    assert not verify(str(run)).faults
    assert 0 < len(tiles) - 28 <= CHECKED  # all are read once for their checksums


@pytest.mark.slow
def test_distances_that_were_given_are_left_to_the_same_fit(run, tmp_path, capsys):
    D = load(run).geodesics(np.arange(90))[:, :90]
    D = np.minimum(D, D.T)
    store = tmp_path / "given"

    def fit():
        return KernelIsomap(metric="geodesic", store=store).fit(D)

    first = fit()
    shutil.copytree(store, tmp_path / "before")
    flip(store / "distances/c/0/1")
    flip(store / "means/c/0")
    code, out, err = said(capsys, store, "--repair")
    assert (code, err) == (0, []) and sum("same fit" in line for line in out) == 2  # the distances, and the model
    np.testing.assert_array_equal(fit().embedding_, first.embedding_)
    assert said(capsys, store)[0] == 0
    assert not changed(comparable(store), comparable(tmp_path / "before"))


# ---- what would be used without a word -----------------------------------------------------------


def test_an_array_under_another_name_is_damage(tmp_path):
    """Arrays of a stage that is not finished are whole by themselves, and the document does not know them yet."""
    store = RunStore.create(tmp_path / "r")
    for name in ("array_0", "array_1"):
        store.write_array(name, np.full(4, int(name[-1])))
    (tmp_path / "r/array_0").rename(tmp_path / "r/array_2")
    (tmp_path / "r/array_1").rename(tmp_path / "r/array_0")
    with pytest.raises(DamagedStoreError, match="another array"):
        RunStore(tmp_path / "r").read_array("array_0")


def test_what_the_document_says_is_there_is_never_done_without(run, tmp_path):
    """Rows of D from the graph may differ in their last bits, and a report would lack a section."""
    model = load(run)
    (run / "distance_counts/zarr.json").unlink()
    with pytest.raises(DamagedStoreError, match="distance_counts"):
        model._run.distance_histogram  # noqa: B018
    with pytest.raises(DamagedStoreError, match="distance_counts"):
        model.export(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    metadata = run / "distances/zarr.json"
    text = metadata.read_text()
    for new in (text.replace("200", "199"), text + "\n"):
        metadata.write_text(new)
        with pytest.raises(DamagedStoreError, match="not what was written"):
            load(run).geodesics([0])
    metadata.unlink()
    with pytest.raises(DamagedStoreError, match=r"distances/zarr\.json"):
        load(run).geodesics([0])


def test_a_lost_ledger_is_no_lost_run(undisturbed, run):
    """Half-finished: its rows are made again, in a folder that is made again."""
    RunStore(run).forget("fit", "solve", "geodesics")
    shutil.rmtree(run / "ledger")
    assert {fault.kind for fault in verify(str(run)).faults} == {"leftover"}
    same(fitted(run), undisturbed)


def test_a_document_that_is_lost_or_another_runs_comes_from_the_other_file(run, tmp_path):
    """Of two whole documents the run's own is the one whose arrays are in place; either may be in either file."""
    mine, texts = RunStore(run).document, {name: (run / name).read_bytes() for name in ("zarr.json", "document.json")}
    theirs = RunStore.create(tmp_path / "theirs", steps=mine.stages.values())
    RunDocument(open_location(tmp_path / "theirs")).write(theirs.document.changed(arrays={**mine.arrays, "vectors": 1}))
    other = (tmp_path / "theirs" / "zarr.json").read_bytes()
    for new in (
        {"zarr.json": b""},
        {"zarr.json": other},
        {"zarr.json": texts["document.json"], "document.json": texts["zarr.json"]},
    ):
        for name, text in {**texts, **new}.items():
            (run / name).write_bytes(text)
        assert {fault.kind for fault in verify(str(run)).faults} & {"document"}
        if new["zarr.json"] == b"":
            with pytest.raises(DamagedStoreError, match=r"zarr\.json"):
                load(run)
        assert RunDocument(run).whole()[0] == mine
    done, left = repair(str(run))
    assert not left.faults and len(done) == 1 and RunStore(run).document == mine


def test_a_run_whose_document_is_lost_altogether_may_be_overwritten(run, capsys):
    """As every message about it says; without that it is left alone."""
    for name in ("zarr.json", "document.json"):
        (run / name).write_bytes(b"{")
    found = verify(str(run))
    assert {fault.name for fault in found.faults} == {"zarr.json", "document.json"} and found.damaged
    for mend in ([], ["--repair"]):  # neither sends the reader to what does not help
        code, out, err = said(capsys, run, *mend)
        assert code == 1 and "overwrite" in out[0] and "overwrite" in err[0] and "repair" not in f"{out} {err}"
    done, left = repair(str(run))
    assert done == [] and left.damaged and left.lost
    with pytest.raises(DamagedStoreError, match="overwrite"):
        fitted(run)
    same(fitted(run, overwrite=True), fitted(None))
