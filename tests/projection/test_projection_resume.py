"""A projection that is stopped goes on from what was finished, with the same bits; damaged or changed: made again.

Undisturbed results are `transform`'s, which keeps nothing. Blocks are counted as tasks that the client submits: a
task that is submitted twice was in flight when the run was stopped.
"""

import contextlib
import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import roll
from scipy.spatial.distance import cdist

from scalemani import KernelIsomap, load
from scalemani import model as run
from scalemani.errors import DiskFullError, ScalemaniError, StoreInUseError
from scalemani.formats.outputs import write_coordinates, write_page
from scalemani.projection import long
from scalemani.storage import pieces, user_arrays
from scalemani.storage.folders import FilePath
from scalemani.storage.pieces import kept_results
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as shell

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

X = roll(100)
T = roll(70, seed=1)
PARTS, PIECES = 14, 14  # of 5 rows, the pieces in groups of 30, 30 and 10


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that no test may change."""
    return KernelIsomap(n_neighbors=8, n_components=3, store=tmp_path_factory.mktemp("run") / "run.zarr").fit(X)


@pytest.fixture(scope="module")
def expected(model):
    with pytest.MonkeyPatch.context() as patched:
        small_blocks(patched)
        return model.transform(T)  # by a real cluster


def small_blocks(patched, rows=5):
    patched.setattr(long, "_piece_rows", lambda _: rows)
    patched.setattr(long, "ROWS_A_GROUP", 30)


class Stop(BaseException):
    """What ends a run in the middle, as a signal does."""


IN_FLIGHT = 8  # as many as a cluster of two threads has


class SeesAll:
    """Of a cluster, what is asked before a task is given."""

    check_shared = staticmethod(lambda *_, **__: None)


class Watch:
    """Stands for the cluster: counts tasks by their function, lets `results` come back, then stops the run."""

    def __init__(self, monkeypatch):
        small_blocks(monkeypatch)
        monkeypatch.setattr(run, "Cluster", lambda _: contextlib.nullcontext(SeesAll))
        monkeypatch.setattr(long, "_results", self._results)
        self.again()

    def again(self, results=None):
        self.submitted, self.results = Counter(), results

    def _results(self, _, function, tasks):
        waiting = deque()
        for task in itertools.chain(tasks, [None] * IN_FLIGHT):
            if task is not None:
                self.submitted[function.__name__] += 1
                waiting.append(task)
            if waiting and (task is None or len(waiting) == IN_FLIGHT):
                if self.results == 0:
                    raise Stop
                self.results = None if self.results is None else self.results - 1
                yield function(*waiting.popleft())


@pytest.fixture
def watch(monkeypatch):
    return Watch(monkeypatch)


def folder_of(out):
    return out.with_name(f".{out.name}.scalemani.partial")


def kept_files(out):
    return sorted(folder_of(out).glob("*.kept"))


def finished(out):
    """Results that need not be made again: those that are kept, and those of groups that are finished."""
    count, files = 0, kept_files(out)
    whole = {path.name.split("-")[1].removesuffix(".kept") for path in files if path.name.startswith("group-")}
    for path in files:
        if not path.name.startswith("group-"):  # those of a finished group may be left by a stop while they go
            row = int(path.name.removesuffix(".kept").split("-")[1])
            count += str(row // 30 * 30) not in whole
            continue
        _, heading, numbers = path.read_bytes().split(b"\n", 2)
        digests = np.prod(json.loads(heading)["arrays"][0][1])
        count += int(np.frombuffer(numbers, "<i8", 3, 8 * digests)[1])
    return count


def stopped(watch, model, rows, out, results):
    watch.again(results)
    with pytest.raises(Stop):
        model.transform_to(rows, out)
    assert not out.exists()


def finished_but_for_its_name(monkeypatch, model, rows, out):
    """The run is stopped before the output has its name: every group is finished."""
    with monkeypatch.context() as patched:
        patched.setattr(user_arrays.NewOutput, "finish", lambda *_: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            model.transform_to(rows, out)
    assert not out.exists() and finished(out) == PARTS + PIECES and len(kept_files(out)) == 3


def every_block_is_kept(monkeypatch, model, rows, out):
    """The run is stopped before its only group comes to the output."""
    monkeypatch.setattr(long, "ROWS_A_GROUP", 100)
    with monkeypatch.context() as patched:
        patched.setattr(user_arrays.NewOutput, "write", lambda *_: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            model.transform_to(rows, out)
    assert not out.exists() and len(kept_files(out)) == PARTS + PIECES


def same_and_clean(out, written, expected):
    np.testing.assert_array_equal(written[:], expected)
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def zarr_of(rows, path):
    array = zarr.create_array(path, shape=rows.shape, chunks=(20, 3), dtype="f8")
    array[:] = rows
    return array


# ---- stopped and started again -------------------------------------------------------------------


@pytest.mark.parametrize("results", [2, 9, 21, 27])
def test_what_was_finished_is_not_made_again(model, expected, watch, tmp_path, results):
    """By source: the blocks are the same whatever kind of array the rows come from."""
    sources = {2: T, 9: sp.csr_array(T), 21: zarr_of(T, tmp_path / "t.zarr"), 27: T.tolist()}
    out = tmp_path / "y.zarr"
    stopped(watch, model, sources[results], out, results)
    first = sum(watch.submitted.values())
    assert finished(out) == results
    assert first - results <= IN_FLIGHT
    watch.again()
    written = model.transform_to(sources[results], out)
    assert sum(watch.submitted.values()) == PARTS + PIECES - results
    same_and_clean(out, written, expected)


def test_a_run_that_is_stopped_at_every_result_ends_with_the_same_bits(model, expected, watch, tmp_path):
    out = tmp_path / "y.zarr"
    for stops in range(1, (PARTS + PIECES) // 4):
        stopped(watch, model, T, out, 4)
        assert finished(out) == 4 * stops
    watch.again()
    same_and_clean(out, model.transform_to(T, out), expected)
    assert watch.submitted.total() == 4


def test_progress_counts_at_once_what_was_there(model, watch, tmp_path):
    out, said = tmp_path / "y.zarr", []
    stopped(watch, model, T, out, 18)  # 6 parts, 6 pieces, 6 parts; so the first 30 rows are placed
    watch.again()
    model.set_params(progress=lambda *stage: said.append((*stage, watch.submitted["place"])))
    try:
        model.transform_to(T, out)
    finally:
        model.set_params(progress=False)
    assert [done for _, done, _, _ in said] == list(range(30, 71, 5))
    assert {(stage, total) for stage, _, total, _ in said} == {("project", 70)}
    assert said[0] == ("project", 30, 70, 0)  # before any is placed


def test_geodesic_distances_resume_too(watch, tmp_path):
    D = cdist(X, X)
    given = KernelIsomap(n_neighbors=8, metric="geodesic", store=tmp_path / "run.zarr").fit(D)
    out, rows = tmp_path / "y.zarr", cdist(T, X)
    undisturbed = given.transform(rows)
    stopped(watch, given, rows, out, 5)
    watch.again()
    written = given.transform_to(rows, out)
    assert watch.submitted == {"project": PARTS - 5}
    same_and_clean(out, written, undisturbed)


# ---- damaged or changed --------------------------------------------------------------------------


def flipped(at):
    def damage(path, _):
        content = bytearray(path.read_bytes())
        content[int(at * (len(content) - 1))] ^= 4
        path.write_bytes(content)

    return damage


def swapped(path, other):
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


DAMAGES = {
    **{f"flipped at {at}": (flipped(at), 1) for at in (0, 0.1, 0.5, 1)},
    "truncated": (lambda path, _: os.truncate(path, path.stat().st_size // 2), 1),
    "emptied": (lambda path, _: os.truncate(path, 0), 1),
    "longer": (lambda path, _: path.write_bytes(path.read_bytes() + b"\0" * 8), 1),
    "deleted": (lambda path, _: path.unlink(), 1),
    "swapped": (swapped, 2),
    "half-written stranger": (lambda path, _: (path.parent / f"{path.name}.1.partial").write_bytes(b"0"), 0),
}


@pytest.mark.parametrize("kind", ["attached", "placed"])
def test_damaged_results_are_made_again_and_no_others(model, expected, watch, tmp_path, monkeypatch, kind):
    out = tmp_path / "y.zarr"
    every_block_is_kept(monkeypatch, model, T, out)
    chosen = (path for path in kept_files(out) if path.name.startswith(kind))
    for damage, _ in DAMAGES.values():
        damage(next(chosen), next(chosen) if damage is swapped else None)
    watch.again()
    written = model.transform_to(T, out)
    task = {"attached": "attach", "placed": "place"}[kind]
    assert watch.submitted == {task: sum(again for _, again in DAMAGES.values())}
    same_and_clean(out, written, expected)


def test_a_changed_test_set_is_noticed_row_by_row(model, watch, tmp_path, monkeypatch):
    out, changed = tmp_path / "y.zarr", T.copy()
    every_block_is_kept(monkeypatch, model, T, out)
    changed[33] += 1e-9  # of the second group
    undisturbed = model.transform(changed)
    watch.again()
    written = model.transform_to(changed, out)
    assert watch.submitted["attach"] == 1 and 1 <= watch.submitted["place"] <= PIECES
    same_and_clean(out, written, undisturbed)


def test_a_group_that_was_finished_is_made_again_where_one_of_its_rows_has_changed(model, watch, tmp_path, monkeypatch):
    out, changed = tmp_path / "y.zarr", T.copy()
    finished_but_for_its_name(monkeypatch, model, T, out)
    changed[43] += 1e-9
    undisturbed = model.transform(changed)
    watch.again()
    written = model.transform_to(changed, out)
    assert watch.submitted == {"attach": 6, "place": 6}
    same_and_clean(out, written, undisturbed)


@pytest.mark.parametrize("rows", [T[::-1], T[:40], np.concatenate([T[35:], T[:35]]), T.astype("f4")])
def test_another_test_set_is_never_mixed_in(model, watch, tmp_path, monkeypatch, rows):
    out = tmp_path / "y.zarr"
    finished_but_for_its_name(monkeypatch, model, T, out)
    same_and_clean(out, model.transform_to(rows, out), model.transform(rows))


def test_other_block_sizes_are_never_mixed_in(model, expected, watch, tmp_path, monkeypatch):
    out = tmp_path / "y.zarr"
    finished_but_for_its_name(monkeypatch, model, T, out)
    small_blocks(monkeypatch, 7)
    same_and_clean(out, model.transform_to(T, out), expected)


@pytest.mark.parametrize(
    "change",
    [
        {"n_components": 2},
        pytest.param({"projection": "paper"}, marks=pytest.mark.slow),
        pytest.param({"n_neighbors": 7}, marks=pytest.mark.slow),
    ],
)
def test_another_model_is_never_mixed_in(model, watch, tmp_path, monkeypatch, change):
    """In the same store, too: its path says nothing."""
    out, store = tmp_path / "y.zarr", tmp_path / "run.zarr"
    shutil.copytree(model.store_, store)
    moved = load(store)
    finished_but_for_its_name(monkeypatch, model, T, out)
    watch.again(0)
    with pytest.raises(Stop):  # a moved model is the same, so the stop comes with the first task of another
        shutil.copytree(folder_of(out), folder_of(tmp_path / "z.zarr"))
        np.testing.assert_array_equal(moved.transform_to(T, tmp_path / "z.zarr")[:], model.transform(T))
    watch.again()
    arguments = {"n_neighbors": 8, "n_components": 3, **change}
    other = KernelIsomap(**arguments, store=store, overwrite="n_neighbors" in change).fit(X)
    written = other.transform_to(T, out)
    assert watch.submitted.total() == PARTS + PIECES
    same_and_clean(out, written, other.transform(T))


def test_an_alignment_is_never_mixed_with_another_or_with_none(model, expected, watch, tmp_path, monkeypatch):
    """In any order: groups that were finished so are made again otherwise."""
    other, turned = KernelIsomap(n_neighbors=7, n_components=3).fit(X), KernelIsomap(n_neighbors=8, n_components=3)
    aligned = model.transform(T, align_to=other)
    assert np.abs(aligned - expected).max() > 1e-6 * np.abs(expected).max()
    turned.fit(X * [1, 1.1, 1])
    for before, now, wanted in ((None, other, aligned), (other, None, expected), (turned, other, aligned)):
        out = tmp_path / f"{len(list(tmp_path.iterdir()))}.zarr"
        with monkeypatch.context() as patched:
            patched.setattr(user_arrays.NewOutput, "finish", lambda *_: (_ for _ in ()).throw(Stop))
            with pytest.raises(Stop):
                model.transform_to(T, out, align_to=before)
        same_and_clean(out, model.transform_to(T, out, align_to=now), wanted)
    watch.again()
    with monkeypatch.context() as patched:
        patched.setattr(user_arrays.NewOutput, "finish", lambda *_: (_ for _ in ()).throw(Stop))
        with pytest.raises(Stop):
            model.transform_to(T, tmp_path / "y", align_to=other)
    watch.again()
    same_and_clean(tmp_path / "y", model.transform_to(T, tmp_path / "y", align_to=other), aligned)
    assert not watch.submitted  # the same alignment goes on from what was finished


def test_a_result_that_was_made_from_something_else_is_not_found(tmp_path):
    with kept_results(tmp_path / "y") as results:
        numbers = [np.arange(6.0).reshape(3, 2), np.arange(3), np.empty((0, 2))]
        results.put("a", numbers, "of")
        for found, put in zip(results.get("a", "of"), numbers, strict=True):
            np.testing.assert_array_equal(found, put)
            assert found.dtype == put.dtype and found.shape == put.shape
        assert results.get("a", "of others") is None and results.get("b", "of") is None
        assert (results.found, results.made) == (1, 1)
    digests = [
        pieces.digest(model, *arrays)
        for model in (("a", "b"), ("ab", ""))
        for arrays in (
            [np.zeros((2, 3))],
            [np.zeros((3, 2))],
            [np.zeros(2), np.zeros((0, 3))],
            [np.zeros((2, 3), "i8")],
        )
    ]
    assert len(set(digests)) == len(digests) == 8


def test_one_projection_at_a_time_writes_an_output(model, tmp_path):
    out = tmp_path / "y.zarr"
    with kept_results(out), pytest.raises(StoreInUseError, match="another projection is at work"):
        model.transform_to(T, out)
    assert list(tmp_path.iterdir()) == []
    folder_of(out).touch()
    with pytest.raises(ScalemaniError, match="not a folder"):
        model.transform_to(T, out)


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture
def files(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("t.npy", T)
    lines = [f"row {i}," + ",".join(map(repr, row)) for i, row in enumerate(T.tolist())]
    Path("t.csv").write_text("\n".join(["who,x,y,z", *lines]) + "\n")
    zarr_of(T, "t.zarr")
    return tmp_path


@pytest.mark.parametrize(
    ("points", "out"),
    [("t.csv --id-column who", "y.csv"), ("t.csv --id-column who", "y.npy"), ("t.npy", "y.zarr"), ("t.zarr", "y.zarr")],
)
def test_the_same_command_goes_on(model, expected, watch, files, capsys, points, out):
    words = ["project", model.store_, *points.split(), out]
    reference = Path("expected").with_suffix(Path(out).suffix)
    ids = [f"row {i}" for i in range(70)] if "csv" in points else None
    write_coordinates(reference, expected, ids=ids, id_name="who")
    for _ in range(2):  # over an output that is there, as well
        watch.again(20)
        with pytest.raises(Stop):
            shell(cli, words)
        watch.again()
        assert shell(cli, words) == 0
        assert "20 blocks of 28 resumed" in capsys.readouterr().out
        assert sum(watch.submitted.values()) == PARTS + PIECES - 20
        assert contents(Path(out)) == contents(reference)
        assert not list(files.glob(".*"))
        words = [*words, "--overwrite"] if "--overwrite" not in words else words


def contents(path):
    """Bytes of a file, with those of its ids; or numbers and names of an array."""
    if path.is_dir():
        return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    ids = path.with_suffix(".ids.csv")
    return path.read_bytes(), ids.read_bytes() if ids.exists() else None


# ---- full disks ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 1 MiB, where the system lets the test make one."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def fill(disk, left):
    """Take the room of a disk but for `left` bytes."""
    with (disk / "filler").open("wb", buffering=0) as stream:
        stream.write(b"\0" * max(0, shutil.disk_usage(disk).free - left))


@pytest.mark.parametrize(("out", "pages"), [("y.csv", 8), ("y.npy", 29), ("y.zarr", 28)])
def test_a_full_disk_is_named_and_the_projection_goes_on_when_there_is_room(
    model, expected, watch, small_disk, files, capsys, monkeypatch, out, pages
):
    """Every block of the only group takes a page of 4 KiB, so the disk is full before, at, or behind the last."""
    monkeypatch.setattr(long, "ROWS_A_GROUP", 100)
    path = small_disk / out
    fill(small_disk, pages * 4096)
    words = ["project", model.store_, "t.npy", str(path)]
    assert shell(cli, words) == 1
    said = capsys.readouterr().err
    assert "is full" in said and "bytes were to be written" in said and "bytes are free" in said
    assert len(said.splitlines()) == 1 or said.splitlines()[-1].startswith("scalemani:")
    assert not path.exists()
    before = finished(path)
    assert 0 < before <= PARTS + PIECES
    (small_disk / "filler").unlink()
    watch.again()
    assert shell(cli, words) == 0
    assert sum(watch.submitted.values()) == PARTS + PIECES - before
    write_coordinates(f"expected{path.suffix}", expected)
    assert contents(path) == contents(Path(f"expected{path.suffix}"))


def test_an_array_that_finds_the_disk_full_is_named_too(model, expected, watch, small_disk):
    out = small_disk / "y.zarr"
    fill(small_disk, 14 * 4096)  # where the first group comes to the array
    with pytest.raises(DiskFullError, match=r"1,680 bytes were to be written and [\d,]+ bytes are free"):
        model.transform_to(T, out)
    assert not out.exists()
    (small_disk / "filler").unlink()
    watch.again()
    same_and_clean(out, model.transform_to(T, out), expected)
    assert watch.submitted == {"attach": PARTS - 6, "place": PIECES - 6}


@pytest.mark.parametrize("kind", ["csv", "npy", "zarr", "html"])
def test_writers_say_what_they_needed(tmp_path, monkeypatch, kind):
    """By a fault, so on any system; what was there stays."""
    out = tmp_path / f"y.{kind}"

    def write(numbers):
        if kind == "html":
            write_page(out, f"<p>{numbers}")
        else:
            write_coordinates(out, numbers, overwrite=True)

    write(np.zeros((2, 2)))
    before = contents(out)
    monkeypatch.setattr(FilePath, "replace_with", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space")))
    with pytest.raises(DiskFullError, match=r"[1-9][\d,]* bytes were to be written and [1-9][\d,]* bytes are free"):
        write(np.ones((2, 2)))
    assert contents(out) == before and [path.name for path in tmp_path.iterdir()] == [out.name]


# ---- real processes ------------------------------------------------------------------------------

SLOWLY = """
import sys, time
from scalemani.projection import long as projection_blocks
from scalemani.terminal.commands import main
projection_blocks.ROWS_A_GROUP, projection_blocks._piece_rows = 30, lambda _: 5
real = projection_blocks._results
def slowly(*arguments):
    for result in real(*arguments):
        time.sleep(float(sys.argv[1]))
        yield result
projection_blocks._results = slowly
main(sys.argv[2:])
"""


@pytest.mark.slow
def test_a_killed_process_leaves_what_the_next_one_goes_on_from(model, expected, files):
    out = files / "y.npy"
    words = ["project", model.store_, "t.npy", str(out)]
    for number, enough in ((signal.SIGKILL, 5), (signal.SIGTERM, 15)):
        with subprocess.Popen(
            [sys.executable, "-c", SLOWLY, "0.1", *words], stderr=subprocess.PIPE, text=True
        ) as child:
            deadline = time.monotonic() + 60
            while finished(out) < enough and child.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            child.send_signal(number)
            said = child.communicate(timeout=60)[1]
        assert child.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 1)
        assert enough <= finished(out) < PARTS + PIECES
        assert not out.exists()
    assert f"stopped; to go on: scalemani project {model.store_} t.npy {out}" in said
    before = finished(out)
    done = subprocess.run([sys.executable, "-c", SLOWLY, "0", *words], capture_output=True, text=True, check=True)
    assert f"{before} blocks of {PARTS + PIECES} resumed" in done.stdout
    np.testing.assert_array_equal(np.load(out), expected)
    assert not list(files.glob(".*"))


@pytest.mark.parametrize("name", ["y.zarr", "y.npy", "y.csv"])
def test_what_is_left_by_a_kill_after_the_output_got_its_name_goes_with_the_next_call(model, tmp_path, name):
    """The output is complete, and refused; of an unfinished one whose name something else has, the results stay."""
    out = tmp_path / name
    (folder_of(out)).mkdir()
    (folder_of(out) / "a.kept").write_text("")
    write_coordinates(out, np.ones((3, 2)), folder=folder_of(out))
    assert folder_of(out).is_dir()  # killed here
    content = out.read_bytes() if out.is_file() else None
    with pytest.raises(ScalemaniError, match="exists"):
        model.transform_to(T, out)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert content is None or out.read_bytes() == content
    (folder_of(out)).mkdir()
    (folder_of(out) / "whole.txt").write_text("1 1")
    with pytest.raises(ScalemaniError, match="exists"):
        model.transform_to(T, out)
    assert folder_of(out).is_dir()


def test_an_array_that_was_written_by_blocks_is_known_as_complete(model, tmp_path, monkeypatch):
    out = tmp_path / "y.zarr"
    with monkeypatch.context() as patched:
        patched.setattr(FilePath, "remove", lambda *_: None)  # killed before the folder goes
        model.transform_to(T, out)
    assert kept_files(out)
    with pytest.raises(ScalemaniError, match="exists"):
        model.transform_to(T, out)
    assert [path.name for path in tmp_path.iterdir()] == ["y.zarr"]
