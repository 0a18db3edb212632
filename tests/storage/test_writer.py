"""One writer at a time: a second one is refused while the first lives, takes over when it is dead, and is noticed."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import psutil
import pytest
from stored_models import X, fitted, same

from scalemani import KernelIsomap
from scalemani.errors import ScalemaniError, StoreInUseError
from scalemani.integrity import repair
from scalemani.steps.records import NamesRecord
from scalemani.storage import folders
from scalemani.storage import writer as writer_module
from scalemani.storage.files import create_once, open_location
from scalemani.storage.folders import FilePath
from scalemani.storage.run import RunStore
from scalemani.storage.targets import kind_of
from scalemani.storage.writer import DEAD_AFTER, LENGTH, Writer
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as run_command

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


class Killed(BaseException):
    """As a kill is: nothing is cleared up behind it."""


def object_of(path):
    return Path(path).with_name(f".{Path(path).name}.writer.json")


def said(path):
    return json.loads(object_of(path).read_bytes())


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(writer_module, "BEAT", 0.02)
    monkeypatch.setattr(writer_module, "SETTLE", 0.01)


@pytest.fixture
def elsewhere(quick, tmp_path):
    """Leaves the object of a writer on another machine, which no process number is looked up for."""

    def leave(**changed):
        with Writer(tmp_path / "run"):
            found = said(tmp_path / "run")
        found |= {"writer": "0" * 32, "boot": "another", "host": "node7", "seconds": 0.02, **changed}
        object_of(tmp_path / "run").write_bytes(json.dumps(found).encode().ljust(LENGTH))
        return tmp_path / "run"

    return leave


def until(condition):
    """Wait for what another thread does; 20 s are for a machine at a standstill."""
    for _ in range(2000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_it_says_who_writes_and_goes_with_the_block(quick, tmp_path):
    with Writer(tmp_path / "run"):
        found = said(tmp_path / "run")
        assert found["pid"] == os.getpid() and found["seconds"] == 0.02
        until(lambda: said(tmp_path / "run")["beat"] >= found["beat"] + 3)
        assert said(tmp_path / "run")["writer"] == found["writer"]
    assert list(tmp_path.iterdir()) == []


def test_folders_that_it_made_go_with_it_unless_they_are_used(tmp_path):
    with Writer(tmp_path / "a" / "b" / "run"):
        assert object_of(tmp_path / "a" / "b" / "run").exists()
    assert list(tmp_path.iterdir()) == []
    with Writer(tmp_path / "a" / "b" / "run"):
        (tmp_path / "a" / "mine").write_text("")
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["mine"]


def test_a_second_one_of_this_process_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with Writer(tmp_path / "run"):
        for path in (tmp_path / "run", tmp_path / "link", f"{tmp_path}/./run"):
            with pytest.raises(StoreInUseError, match=r"another fit is at work .*this process; wait"), Writer(path):
                raise AssertionError("two writers")
        with Writer(tmp_path / "other"):
            pass
    with Writer(tmp_path / "run"):
        pass


OTHER = """
import sys, time
from scalemani.storage.writer import Writer
with Writer(sys.argv[1]):
    print("in", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """A process that writes at `run`; it ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(tmp_path / "run")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"in\n"
    yield process
    process.kill()
    process.communicate()


def test_a_living_process_of_this_machine_is_refused_at_once_and_a_killed_one_taken_over_at_once(
    other, tmp_path, monkeypatch, capsys
):
    """Without waiting for a beat, either way; also where the process stands still."""
    monkeypatch.setattr(writer_module, "BEAT", 1e6)  # any wait would not end
    np.save(tmp_path / "X.npy", X)
    os.kill(other.pid, signal.SIGSTOP)
    for fit in (lambda: fitted(tmp_path / "run"), lambda: Writer(tmp_path / "run").__enter__()):
        with pytest.raises(StoreInUseError, match=f"process {other.pid} on this machine; wait for it, or give another"):
            fit()
    assert run_command(cli, ["fit", str(tmp_path / "X.npy"), str(tmp_path / "run"), "-q"]) != 0
    assert f"process {other.pid}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    other.kill()
    other.wait()
    assert object_of(tmp_path / "run").exists(), "what it left"
    monkeypatch.setattr(writer_module, "BEAT", 5.0)
    fitted(tmp_path / "run")
    assert not object_of(tmp_path / "run").exists()


def test_a_process_that_got_the_number_of_a_dead_one_is_not_it(elsewhere):
    with Writer(elsewhere()) as writer:
        found = said(writer._target)
    boot = found["boot"]
    path = elsewhere(boot=boot, pid=os.getppid(), started=found["started"] - 1e6)
    with Writer(path):
        assert said(path)["pid"] == os.getpid()


def test_a_writer_elsewhere_that_beats_is_refused_and_named(elsewhere):
    path = elsewhere(pid=77)
    ended = threading.Event()

    def beat():
        for number in range(1, 10_000):
            if ended.wait(0.005):
                return
            found = {**said(path), "beat": number}
            object_of(path).with_suffix(".new").write_bytes(json.dumps(found).encode().ljust(LENGTH))
            object_of(path).with_suffix(".new").replace(object_of(path))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(StoreInUseError, match="process 77 on node7"), Writer(path):
            raise AssertionError("two writers")
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff" * 40, b"[" * 50_000])
def test_one_elsewhere_that_is_silent_is_taken_over_after_the_beats_that_it_missed(elsewhere, monkeypatch, content):
    """Also where what it left can't be read."""
    path, waited = elsewhere(), []
    if content is not None:
        object_of(path).write_bytes(content)
    monkeypatch.setattr(writer_module.time, "sleep", waited.append)
    with Writer(path):
        assert said(path)["pid"] == os.getpid()
    assert sum(waited) >= DEAD_AFTER * 0.02


def test_one_that_was_taken_over_while_it_stood_still_notices_and_writes_nothing_more(quick, tmp_path, monkeypatch):
    """In the middle of a fit: the next stage is not recorded."""
    monkeypatch.setattr(writer_module, "BEAT", 1e3)  # its own next beat would be of the same moment

    def taken_over(stage, done, total):
        if (stage, done) == ("geodesics", 2):
            found = {**said(tmp_path / "run"), "writer": "f" * 32}
            object_of(tmp_path / "run").write_bytes(json.dumps(found).encode().ljust(LENGTH))

    with pytest.raises(StoreInUseError, match="took over while this one stood still"):
        fitted(tmp_path / "run", progress=taken_over)
    assert said(tmp_path / "run")["writer"] == "f" * 32, "the other's object was removed"
    document = json.loads((tmp_path / "run" / "zarr.json").read_bytes())["attributes"]["scalemani"]
    assert "geodesics" not in document["stages"]
    object_of(tmp_path / "run").unlink()
    same(fitted(tmp_path / "run"), fitted(None))


def test_of_many_that_come_at_once_no_two_write(quick, tmp_path):
    """Processes' claims are files', so threads past the register of their own process show the race."""
    with ThreadPoolExecutor(3) as pool:
        for attempt in range(3):
            writers = [Writer(tmp_path / f"{attempt}") for _ in range(3)]
            list(pool.map(Writer._claim, writers))
            here = [writer for writer in writers if said(tmp_path / f"{attempt}")["writer"] == writer._id]
            assert len(here) == 1
            for writer in writers:
                with pytest.raises(StoreInUseError) if writer is not here[0] else nullcontext():
                    writer.check()


def test_a_store_of_its_own_needs_no_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(writer_module, "create_once", None)
    assert KernelIsomap(n_neighbors=8).fit(X).embedding_.shape == (200, 2)
    with pytest.raises(ScalemaniError, match="integer"):
        KernelIsomap(n_neighbors="x", store=tmp_path / "run").fit(X)


def test_a_beat_needs_no_room_on_the_disk(quick, tmp_path, monkeypatch):
    from scalemani.errors import DiskFullError

    def full(path, content):
        raise DiskFullError("full")

    with Writer(tmp_path / "run") as writer:
        monkeypatch.setattr(FilePath, "put", full)
        before = said(tmp_path / "run")["beat"]
        until(lambda: said(tmp_path / "run")["beat"] > before + 1)
        writer.check()


# ---- who is dead, and what a dead one left -----------------------------------------------------


def test_a_writer_that_was_taken_over_and_outlived_has_lost(tmp_path):
    """The other one is done, and has removed the object."""
    with Writer(tmp_path / "run") as writer:
        writer.check()
        object_of(tmp_path / "run").unlink()
        with pytest.raises(StoreInUseError, match="took over while this one stood still"):
            writer.check()
    assert not object_of(tmp_path / "run").exists()


def denied(*_):
    raise psutil.AccessDenied


def hidden(*_):
    raise psutil.NoSuchProcess(1)


@pytest.mark.parametrize("answer", [denied, hidden])
def test_a_process_that_may_live_is_waited_for(elsewhere, monkeypatch, answer):
    """Another user's is there, though nothing is told of it; one that is surely gone is not waited for."""
    with Writer(elsewhere()) as writer:
        boot = said(writer._target)["boot"]
    waited = []
    monkeypatch.setattr(writer_module.time, "sleep", waited.append)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: 1.0)  # also for what this writer says of itself
    monkeypatch.setattr(psutil.Process, "status", answer)
    with Writer(elsewhere(boot=boot, pid=os.getppid(), seconds=7.0)):
        assert sum(waited) >= DEAD_AFTER * 7
    waited.clear()
    with Writer(elsewhere(boot=boot, pid=2**31, seconds=7.0)):
        assert sum(waited) < 7


def test_a_pipe_in_the_place_of_the_object_is_waited_for_as_an_unreadable_one_is(quick, tmp_path):
    os.mkfifo(object_of(tmp_path / "run"))
    with Writer(tmp_path / "run"):
        assert said(tmp_path / "run")["pid"] == os.getpid()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EPERM, errno.ENOSYS])
def test_a_file_system_without_links_has_one_writer_too(quick, tmp_path, monkeypatch, number):
    def link(*_):
        raise OSError(number, "no links")

    monkeypatch.setattr(folders.os, "link", link)
    with Writer(tmp_path / "run"):
        assert not create_once(open_location(object_of(tmp_path / "run")), b"another")
        with ThreadPoolExecutor(8) as pool:
            put = list(
                pool.map(lambda i: create_once(open_location(tmp_path / "line"), f"{i}".encode() * 999), range(40))
            )
    assert put.count(True) == 1 and [entry.name for entry in tmp_path.iterdir()] == ["line"]
    assert (tmp_path / "line").read_text() == f"{put.index(True)}" * 999
    monkeypatch.setattr(folders.os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        create_once(open_location(tmp_path / "other"), b"")


def test_names_are_recorded_by_a_writer_alone_and_in_the_fit_that_they_are_of(tmp_path):
    model = fitted(tmp_path / "run")
    with Writer(tmp_path / "run"), pytest.raises(StoreInUseError):
        model.name_features(["a"] * X.shape[1])
    assert RunStore(tmp_path / "run").record(NamesRecord) is None
    model.name_features([f"x{i}" for i in range(X.shape[1])])
    assert model._run.feature_names[0] == "x0" and not object_of(tmp_path / "run").exists()
    RunStore.create(tmp_path / "run", replace=True)
    with pytest.raises(ScalemaniError, match="fitted again since"):
        model.name_features(None)


# Between the renames of an overwrite nothing is at the path; before and after them the rest is rubbish.
def test_a_run_whose_overwriting_was_killed_is_at_its_path_again(tmp_path, monkeypatch):
    """At each rename; for who loads it, and for the next fit; the old one or the new one, and nothing beside."""
    store = RunStore.create(tmp_path / "run")
    store.finish(NamesRecord(features=None))
    real = os.rename
    for stop in (1, 2):
        calls = []

        def rename(*names, calls=calls, stop=stop):
            calls.append(names)
            if len(calls) == stop:
                raise Killed
            real(*names)

        new = RunStore.create(open_location(tmp_path / "run").scratch_name())
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(folders.os, "rename", rename)
            patch.setattr(folders.os.path, "lexists", lambda path: True)  # no clearing up after a kill
            new.moved_to(tmp_path / "run", replace=True)
        assert kind_of(tmp_path / "run") == ("run" if stop == 1 else "nothing")
        assert len(list(tmp_path.iterdir())) == 2
        assert RunStore(tmp_path / "run").record(NamesRecord) is not None
        with Writer(tmp_path / "run"):
            assert sorted(path.name for path in tmp_path.iterdir()) == [".run.writer.json", "run"]


def test_only_what_a_writer_of_that_path_left_is_removed(tmp_path):
    ours, old = f"run.{'0' * 32}.partial", f"run.{'1' * 32}.old.partial"
    others = ["run.partial", f"run.{'0' * 31}.partial", f"run2.{'0' * 32}.partial", f"run.{'0' * 32}.partial.txt"]
    for name in (ours, old, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text(name)
    with Writer(tmp_path / "run"):
        assert (tmp_path / "run" / "thesis.txt").read_text() == old, "what had the name has it again"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["run", *others])
    with Writer(tmp_path / "run"), Writer(tmp_path / "run2"):
        pass
    assert not (tmp_path / others[2]).exists()


def test_an_old_run_that_cannot_be_put_back_is_named_and_stays(tmp_path, monkeypatch):
    old = tmp_path / f"run.{'1' * 32}.old.partial"
    RunStore.create(old)
    monkeypatch.setattr(folders.os, "rename", denied_rename)
    with pytest.raises(ScalemaniError, match=r"nothing is there \(the run that was to be replaced is .*old"):
        RunStore(tmp_path / "run")
    assert kind_of(old) == "run"


def denied_rename(*_):
    raise PermissionError(errno.EPERM, "denied")


@pytest.mark.parametrize("by", ["the overwrite itself", "the next writer"])
def test_an_old_run_whose_successor_was_in_place_never_comes_back(tmp_path, monkeypatch, by):
    """Killed with half of it removed; then the user removes the store."""
    path = tmp_path / "run"
    RunStore.create(path).finish(NamesRecord(features=None))

    def killed(left):
        (Path(left) / "zarr.json").unlink()
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(FilePath, "remove", killed)
        if by == "the overwrite itself":
            RunStore.create(open_location(path).scratch_name()).moved_to(path, replace=True)
        else:
            RunStore.create(tmp_path / f"run.{'1' * 32}.old.partial")  # as one killed right after the second rename
            Writer(path).__enter__()
    assert len([left for left in tmp_path.iterdir() if left.suffix == ".partial"]) == 1
    shutil.rmtree(path)
    assert kind_of(path) == "nothing"
    with pytest.raises(ScalemaniError, match=r"nothing is there; make one"):
        RunStore(path)
    with Writer(path):
        assert kind_of(path) == "nothing"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["r" * 255, "ü" * 127, "r" + "ü" * 126])
def test_a_name_as_long_as_the_file_system_takes(tmp_path, monkeypatch, name):
    path = tmp_path / name
    RunStore.create(path).finish(NamesRecord(features=None))
    new = RunStore.create(open_location(path).scratch_name())
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(FilePath, "remove", lambda *_: (_ for _ in ()).throw(Killed))
        new.moved_to(path, replace=True)
    assert len(list(tmp_path.iterdir())) == 2
    with Writer(path), pytest.raises(StoreInUseError), Writer(path):
        pass
    assert [left.name for left in tmp_path.iterdir()] == [name]
    path.rename(open_location(path).scratch_name().with_suffix(".old.partial"))
    assert RunStore(path).path == str(path)
    with Writer(path), Writer(tmp_path / (name[:-1] + "x")):
        pass  # another long name is another path


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_named_in_one_line(tmp_path, monkeypatch, number):
    RunStore.create(tmp_path / "run")

    def denied(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(folders, "_write", denied)
    with pytest.raises(ScalemaniError, match=r"right to write there") as caught:
        repair(tmp_path / "run")
    message = str(caught.value)
    assert "\n" not in message and repr(str(tmp_path)) in message and os.strerror(number) in message
    monkeypatch.undo()
    with Writer(tmp_path / "run"):
        pass  # it is not taken to be at work
