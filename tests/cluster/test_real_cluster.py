"""Faults of a Dask cluster of real processes: each run ends right, with the bits of an undisturbed embedded one.

One cluster of two workers for all; a test puts back what it has broken.
"""

import os
import shutil
import signal
import subprocess
import threading
import warnings

import numpy as np
import pytest
from data import roll
from distributed import Client
from processes import Fleet, until

from scalemani import KernelIsomap, load
from scalemani.cluster import health
from scalemani.errors import BlindWorkerWarning, ClusterLostError, DoesNotFitError
from scalemani.steps import cuts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
]
N, TILE, LATE = 600, 64, 5 * 64  # ten rows of tiles; a task is held in the middle of the stage
X = roll(N)
SMALL = {"scalemani.steps.cuts.LARGEST_TILE": TILE}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(cuts, "LARGEST_TILE", TILE)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with Fleet(tmp_path_factory.mktemp("fleet")) as made:
        np.save(made.folder / "x.npy", X)
        yield made


@pytest.fixture(scope="module")
def expected():
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a module's fixture comes before a test's filters
        patch.setattr(cuts, "LARGEST_TILE", TILE)
        return KernelIsomap(n_neighbors=8, knn="exact").fit(X)


@pytest.fixture(autouse=True)
def whole(fleet):
    """All parties are there before and after a test."""
    fleet.forget_rows()
    yield
    fleet.let_go()
    if not fleet.scheduler.alive:
        fleet.restart_scheduler()
    fleet.wait_for_workers()


class Fit(threading.Thread):
    """A fit in this process, beside the test."""

    def __init__(self, fleet, store, **parameters):
        super().__init__(daemon=True)
        self.model, self.error, self.warned = None, None, []
        self.make = KernelIsomap(n_neighbors=8, knn="exact", store=str(store), scheduler=fleet.address, **parameters)
        self.start()

    def run(self):
        try:
            with warnings.catch_warnings(record=True) as self.warned:
                warnings.simplefilter("always")
                self.model = self.make.fit(X)
        except BaseException as error:
            self.error = error

    def result(self):
        self.join(60)
        assert not self.is_alive(), "the fit hangs"
        if self.error is not None:
            raise self.error
        return self.model


def command(fleet, store):
    method = ("--method", "kernel-isomap")
    return ("fit", fleet.folder / "x.npy", store, "--neighbors", "8", "--knn", "exact", *method, "--quiet")


def same(model, expected):
    np.testing.assert_array_equal(model.embedding_, expected.embedding_)
    assert model.additive_constant_ == expected.additive_constant_
    return True


def test_a_worker_killed_in_the_middle_of_a_task_costs_that_task_alone(fleet, expected, tmp_path):
    fleet.hold("geodesics", LATE)
    fit = Fit(fleet, tmp_path / "r")
    fleet.held()[0].kill()
    fleet.let_go()
    assert same(fit.result(), expected)
    computed = fleet.rows_computed()
    again = len(computed) - len(set(computed))
    assert again <= 1
    assert set(computed) == set(range(0, N, TILE))


def test_what_was_sent_to_workers_that_all_died_is_sent_again(fleet, expected, tmp_path):
    """The vectors of a read die with the last worker; the run waits for one to come back."""
    fleet.hold("read")
    fit = Fit(fleet, tmp_path / "r")
    fleet.held(2)
    for worker in fleet.workers:
        worker.kill()
    fleet.let_go()
    fleet.wait_for_workers(fleet.workers[:1])
    assert same(fit.result(), expected)


async def strike_off(dask_scheduler, name):
    """What a scheduler does with a worker that it has not heard of for its time to live, five minutes by default."""
    (address,) = [address for address, worker in dask_scheduler.workers.items() if worker.name == name]
    await dask_scheduler.remove_worker(address, stimulus_id="worker-ttl", close=False)


def test_a_worker_that_stops_answering_is_done_without(fleet, expected, tmp_path):
    """As one on a host that hangs: it is neither closed nor does it say good-bye."""
    fleet.hold("geodesics", LATE)
    fit = Fit(fleet, tmp_path / "r")
    stopped = fleet.held()[0]
    stopped.signal(signal.SIGSTOP)
    fleet.let_go()
    try:
        with Client(fleet.address, set_as_default=False) as client:
            client.run_on_scheduler(strike_off, name=stopped.name)
        assert same(fit.result(), expected)
    finally:
        stopped.kill()


def test_clients_that_are_killed_and_stopped_go_on_from_what_is_in_the_store(fleet, expected, tmp_path):
    """First by SIGKILL; what goes on then by SIGTERM, which says how to go on, while tasks run."""
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 1)):
        fleet.hold("geodesics", LATE)
        client = fleet.client(*command(fleet, tmp_path / "r"), settings=SMALL)
        fleet.held(2)
        client.signal(number)
        assert client.wait(20) == code, "it waits for tasks that are held"
        fleet.let_go()
        until(lambda: not list(fleet.gate.glob("held-*")), what="the end of what the gate held")
        computed = fleet.rows_computed()
        assert len(computed) - len(set(computed)) <= 2, "more than was in flight was computed twice"
    assert "stopped; to go on: scalemani fit" in client.errors.read_text().splitlines()[-1]
    assert not client.said("Traceback")
    assert same(Fit(fleet, tmp_path / "r").result(), expected)
    computed = fleet.rows_computed()
    assert len(computed) - len(set(computed)) <= 4


def test_a_run_whose_scheduler_dies_ends_with_one_line_and_goes_on_with_another(fleet, expected, tmp_path):
    fleet.hold("geodesics", LATE)
    client = fleet.client(*command(fleet, tmp_path / "r"), settings=SMALL)
    fleet.held(2)
    fleet.scheduler.kill()
    assert client.wait(60) == 1
    (line,) = client.errors.read_text().splitlines()
    assert f"scheduler at {fleet.address} is gone" in line
    assert "give the same command again" in line
    fleet.let_go()
    fleet.restart_scheduler()
    assert same(Fit(fleet, tmp_path / "r").result(), expected)
    computed = fleet.rows_computed()
    assert len(computed) - len(set(computed)) <= 4


def test_a_cluster_without_workers_for_too_long_is_lost(fleet, tmp_path, monkeypatch):
    monkeypatch.setattr(health, "NO_WORKER_SECONDS", 2.0)
    fleet.hold("geodesics", LATE)
    fit = Fit(fleet, tmp_path / "r")
    fleet.held(2)
    for worker in fleet.workers:
        worker.kill()
    with pytest.raises(ClusterLostError, match=r"has had no workers for \d+ s: start some; .*same command again"):
        fit.result()


def shrink(limit, dask_worker):
    dask_worker.memory_manager.memory_limit = limit


def test_workers_that_are_all_paused_for_too_long_are_no_cluster_and_a_pause_is(fleet, expected, tmp_path, monkeypatch):
    """Paused at their limits in the middle of a run: first for good, then for a moment."""
    monkeypatch.setattr(health, "NO_WORKER_SECONDS", 2.0)
    with Client(fleet.address, set_as_default=False) as client:
        fleet.hold("geodesics", LATE)
        fit = Fit(fleet, tmp_path / "r")
        fleet.held(2)
        client.run(shrink, 1 << 20)
        fleet.let_go()
        with pytest.raises(ClusterLostError, match=r"all 2 workers have taken no tasks .*2 of them paused"):
            fit.result()
        monkeypatch.setattr(health, "NO_WORKER_SECONDS", 30.0)
        client.run(shrink, 2 << 30)
        assert same(Fit(fleet, tmp_path / "r").result(), expected)


def test_a_fit_is_refused_by_the_limit_of_the_workers(fleet, tmp_path):
    with Client(fleet.address, set_as_default=False) as client:
        client.run(shrink, 200 << 20)
        try:
            with pytest.raises(DoesNotFitError, match=r"memory limit of 209,715,200 bytes.*--memory-limit"):
                Fit(fleet, tmp_path / "r").result()
        finally:
            client.run(shrink, 2 << 30)
    assert not (tmp_path / "r").exists()


@pytest.fixture
def shaded(tmp_path):
    """A folder, and a command that runs another where that folder is empty."""
    folder = tmp_path / "shared"
    folder.mkdir()
    hide = f'mount -t tmpfs none {folder} && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", hide, "sh")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("mount namespaces are not permitted here")
    return folder, prefix


def test_a_blind_worker_is_refused_at_the_start_and_gets_no_tasks_later(fleet, expected, shaded):
    folder, prefix = shaded
    fleet.hold("geodesics", LATE)
    fit = Fit(fleet, folder / "r")
    fleet.held(2)
    blind = fleet.add_worker(prefix=prefix)
    try:
        fleet.let_go()
        assert same(fit.result(), expected)
        (warned,) = [entry for entry in fit.warned if issubclass(entry.category, BlindWorkerWarning)]
        assert "can't see the folder of the store and gets no tasks" in str(warned.message)
        with pytest.raises(ValueError, match="1 of 3 workers can't see the folder of the store"):
            Fit(fleet, folder / "s").result()
    finally:
        blind.kill()
        fleet.workers.remove(blind)
    until(lambda: not os.path.exists(folder / "s"))


def test_a_cluster_that_is_left_alone_computes_each_row_once(fleet, expected, tmp_path):
    """So that the counts above are of what was lost; and what a cluster made is read without one."""
    Fit(fleet, tmp_path / "r").result()
    assert same(load(tmp_path / "r"), expected)
    computed = fleet.rows_computed()
    assert sorted(computed) == list(range(0, N, TILE))
