"""A store that workers must see, whoever hands them its path; what is left beside it, and what is not."""

import errno
import os

import pytest
from distributed import Client, LocalCluster
from stored_models import T, fitted

from scalemani import load
from scalemani.cluster import workers as worker_side
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import DiskFullError, ScalemaniError
from scalemani.integrity import repair, verify
from scalemani.model import Run
from scalemani.storage.folders import FilePath
from scalemani.storage.run import RunStore
from scalemani.storage.writer import Writer

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


@pytest.fixture(scope="module")
def worker():
    """A client with one worker in this process."""
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, memory_limit=0, **addresses) as local,
        Client(local, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def blind(monkeypatch):
    """What a worker reads there, which is another machine's folder of the same name, or none."""
    monkeypatch.setattr(worker_side, "read_back", lambda path, text, token: False)


CALLERS = {
    "fit": lambda path, scheduler: fitted(str(path.parent / "other"), scheduler=scheduler),
    "verify": lambda path, scheduler: verify(str(path), scheduler),
    "repair": lambda path, scheduler: repair(str(path), scheduler),
    "transform": lambda path, scheduler: Run(RunStore(str(path))).transform(T, scheduler),
    "project": lambda path, scheduler: Run(RunStore(str(path))).transform_to(T, str(path.parent / "y"), scheduler),
}


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("caller", CALLERS)
def test_whoever_hands_workers_a_store_says_that_they_do_not_see_it(run, worker, blind, caller):
    """And not that there is no run, which is what such a worker would say."""
    before = files(run.parent)
    with pytest.raises(ScalemaniError, match=r"1 of 1 workers can't see the folder of the store .* share$"):
        CALLERS[caller](run, worker)
    assert files(run.parent) == before


@pytest.mark.parametrize("caller", ["verify", "transform"])
def test_who_only_reads_writes_nothing_there(run, worker, monkeypatch, caller):
    """A saved model may be on a file system that can't be written to."""

    def refused(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(FilePath, "write", refused)
    CALLERS[caller](run, worker)


def test_workers_that_see_another_document_there_are_blind(run, worker, monkeypatch):
    there = worker_side.read_back
    monkeypatch.setattr(worker_side, "read_back", lambda path, text, token: there(path, text + " ", token))
    with pytest.raises(ScalemaniError, match="can't see the folder"):
        load(str(run)).set_params(scheduler=worker).transform(T)


def test_what_killed_clients_left_goes_and_nothing_else(tmp_path, worker):
    """At once, whatever the clocks say: nobody else is at work on this store."""
    left = f"run.zarr.{'a' * 32}.partial"
    others = [f"other.zarr.{'c' * 32}.partial", f"run.zarr.{'d' * 32}.txt", ".run.zarr-notes"]
    for name in (left, *others):
        (tmp_path / name).touch()
    with Writer(tmp_path / "run.zarr"), DaskCluster(worker) as cluster:
        cluster.check_shared(str(tmp_path / "run.zarr"))
    assert files(tmp_path) == sorted(others)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_with_numbers(tmp_path, worker, monkeypatch, number):
    def full(path, *parts):
        path.touch()  # a full disk still has room for a name
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FilePath, "write", full)
    with DaskCluster(worker) as cluster, pytest.raises(DiskFullError, match="32 bytes were to be written and"):
        cluster.check_shared(str(tmp_path / "run.zarr"))
    assert files(tmp_path) == []
