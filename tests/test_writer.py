"""One writer at a time: a second one is refused while the first lives, takes over when it is dead, and is noticed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from stored_models import X, fitted, same

from scalemani import KernelIsomap
from scalemani.engine import writer as writer_module
from scalemani.engine.writer import DEAD_AFTER, LENGTH, Writer
from scalemani.errors import ScalemaniError, StoreInUseError
from scalemani.terminal.cli import cli
from scalemani.terminal.console import run as run_command

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


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
from scalemani.engine.writer import Writer
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
    monkeypatch.setattr(writer_module, "put_once", None)
    assert KernelIsomap(n_neighbors=8).fit(X).embedding_.shape == (200, 2)
    with pytest.raises(ScalemaniError, match="integer"):
        KernelIsomap(n_neighbors="x", store=tmp_path / "run").fit(X)


def test_a_beat_needs_no_room_on_the_disk(quick, tmp_path, monkeypatch):
    from scalemani.errors import DiskFullError

    def full(path, content):
        raise DiskFullError("full")

    with Writer(tmp_path / "run") as writer:
        monkeypatch.setattr(writer_module, "put", full)
        before = said(tmp_path / "run")["beat"]
        until(lambda: said(tmp_path / "run")["beat"] > before + 1)
        writer.check()
