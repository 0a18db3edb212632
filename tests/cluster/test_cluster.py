"""Tasks on a cluster: results in order, errors to the caller, nothing left behind, nothing open to the network."""

import functools
import logging
import threading
import time

import numpy as np
import psutil
import pytest
from data import roll
from distributed import Client, Future, LocalCluster

from scalemani import KernelIsomap
from scalemani.cluster import dask_cluster as cluster_module
from scalemani.cluster import workers
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import ScalemaniError
from scalemani.storage.run import RunStore
from scalemani.storage.writer import Writer


def late_for_even(i):
    time.sleep(0.02 if i % 2 == 0 else 0)
    return i


def fail_at(i, which):
    if i == which:
        raise FloatingPointError(f"task {i}")
    return i


def add(i, shared):
    return i + shared.sum()


# ---- map ---------------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_tasks(cluster):
    """Tasks finish in another order; there are more of them than fit the window."""
    assert list(cluster.map(late_for_even, [(i,) for i in range(40)])) == list(range(40))


def test_no_tasks_give_no_results(cluster):
    assert list(cluster.map(late_for_even, [])) == []


def test_a_shared_operand_reaches_every_task(cluster):
    shared = np.arange(5.0)
    assert list(cluster.map(add, [(i,) for i in range(20)], shared=shared)) == [i + 10 for i in range(20)]


def test_shared_operands_of_two_maps_are_not_mixed_up(cluster):
    """Equal shapes, another content, one after the other and interleaved."""
    first = cluster.map(add, [(i,) for i in range(10)], shared=np.zeros(3))
    second = cluster.map(add, [(i,) for i in range(10)], shared=np.ones(3))
    assert [a + b for a, b in zip(first, second, strict=True)] == [2 * i + 3 for i in range(10)]


def test_tasks_in_flight_are_bounded(cluster):
    """Tasks are taken from the iterator as results leave: a million of them never exist at once."""
    taken = []

    def tasks():
        for i in range(100):
            taken.append(i)
            yield (i,)

    window = 2 * 2 + 4
    for received, _ in enumerate(cluster.map(fail_at, ((i, -1) for (i,) in tasks()))):
        assert len(taken) <= received + window


def test_an_error_in_a_task_is_raised_after_the_results_before_it(cluster):
    taken = []

    def tasks():
        for i in range(100):
            taken.append(i)
            yield (i, 5)

    received = []
    with pytest.raises(FloatingPointError, match="task 5"):
        for result in cluster.map(fail_at, tasks()):
            received.append(result)
    assert received == [0, 1, 2, 3, 4]
    assert len(taken) < 20


STARTED = []


def slow_unless_first(i):
    STARTED.append(i)
    time.sleep(0.4 if i > 2 else 0)
    return i


def unfinished(dask_scheduler):
    return sum(task.state in ("processing", "queued", "waiting", "no-worker") for task in dask_scheduler.tasks.values())


def stopped(cluster):
    for _ in range(200):
        if cluster.client.run_on_scheduler(unfinished) == 0:
            return True
        time.sleep(0.02)
    return False


def test_an_error_cancels_the_others_in_flight_and_the_cluster_goes_on(cluster, monkeypatch):
    """Eight are in flight when the first one fails."""
    cancelled = []
    monkeypatch.setattr(Future, "cancel", lambda self, **_: cancelled.append(self.key))
    with pytest.raises(FloatingPointError):
        list(cluster.map(fail_at, [(i, 0) for i in range(100)]))
    assert len(set(cancelled)) == 7
    assert list(cluster.map(late_for_even, [(1,), (2,)])) == [1, 2]


def test_leaving_a_map_early_cancels_what_has_not_started(cluster):
    STARTED.clear()
    results = cluster.map(slow_unless_first, [(i,) for i in range(1, 100)])
    assert next(results) == 1
    results.close()
    assert stopped(cluster)
    assert len(STARTED) <= 6, "of eight in flight, two at a time, the last were started all the same"


# ---- which cluster -----------------------------------------------------------------------------


def test_the_active_client_is_used_and_left_open(client):
    with DaskCluster() as cluster:
        assert cluster.client is client
        assert not cluster.embedded
        assert cluster.threads == 1
        assert list(cluster.map(late_for_even, [(3,)])) == [3]
    assert client.status == "running"


def test_a_client_that_is_given_is_used_and_left_open(client):
    with DaskCluster(client) as cluster:
        assert cluster.client is client
    assert client.status == "running"


def test_an_embedded_cluster_is_closed_and_does_not_become_the_active_one():
    with DaskCluster(threads=3) as cluster:
        made = cluster.client
        assert cluster.embedded
        assert cluster.threads == 3
        with pytest.raises(ValueError, match="client"):
            cluster_module.default_client()
    assert made.status == "closed"


def test_it_is_closed_when_the_work_fails():
    with pytest.raises(ZeroDivisionError), DaskCluster(threads=1) as cluster:
        raise ZeroDivisionError
    assert cluster.client.status == "closed"


def test_an_address_where_nothing_answers_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(cluster_module, "Client", ImpatientClient)
    with pytest.raises(ScalemaniError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:1': check the address"):
        DaskCluster("tcp://127.0.0.1:1").__enter__()


class ImpatientClient(Client):
    """The library waits 15 s for a scheduler; here half a second is enough."""

    def __init__(self, address, **options):
        super().__init__(address, **{**options, "timeout": "500ms"})


@pytest.mark.parametrize("scheduler", ["nonsense://x", 17])
def test_what_is_no_address_is_an_error_that_names_it(scheduler):
    with pytest.raises(ScalemaniError, match=r"no Dask scheduler answers at"):
        DaskCluster(scheduler).__enter__()


def test_a_scheduler_without_workers_is_refused():
    options = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=0, processes=False, memory_limit=0, **options) as local,
        Client(local, set_as_default=False) as made,
        pytest.raises(ScalemaniError, match="no workers: start some"),
    ):
        DaskCluster(made).__enter__()


def levels():
    return [handler.level for handler in logging.getLogger("distributed").handlers]


class Fails:
    """Of a start that fails after it has begun, as where threads run out."""

    def __init__(self, *_, **__):
        assert set(levels()) == {logging.CRITICAL}
        raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("scheduler", "part"), [(None, "LocalCluster"), (None, "Client"), ("tcp://127.0.0.1:1", "Client")]
)
def test_a_cluster_that_does_not_start_leaves_dasks_log_as_it_was(monkeypatch, scheduler, part):
    before = levels()
    monkeypatch.setattr(cluster_module, part, Fails)
    for _ in range(2):  # the second start is quiet again
        with pytest.raises(RuntimeError, match="new thread"):
            DaskCluster(scheduler, threads=1).__enter__()
        assert levels() == before


# ---- the network -------------------------------------------------------------------------------


def listening():
    """Addresses that this process listens on."""
    return {c.laddr for c in psutil.Process().net_connections("inet") if c.status == psutil.CONN_LISTEN}


def test_nothing_listens_off_this_machine():
    """Scheduler, worker and both dashboards."""
    before = listening()
    with DaskCluster(threads=2) as cluster:
        list(cluster.map(late_for_even, [(i,) for i in range(4)]))
        new = listening() - before
        assert {address.ip for address in new} <= {"127.0.0.1"}
    assert listening() <= before


# ---- paths that workers share ------------------------------------------------------------------


def test_a_path_that_workers_see_passes_and_leaves_nothing(client, tmp_path):
    with Writer(tmp_path / "deep" / "run.zarr"), DaskCluster() as cluster:
        cluster.check_shared(str(tmp_path / "deep" / "run.zarr"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "another file"])
def test_a_path_that_a_worker_does_not_see_is_refused_before_any_file(client, tmp_path, monkeypatch, text):
    """A worker that reads nothing, or another machine's folder of the same name."""
    monkeypatch.setattr(workers, "read_text", lambda path: text)
    with pytest.raises(ScalemaniError, match=r"1 of 1 workers can't see .*run.zarr.* share"):
        KernelIsomap(store=str(tmp_path / "run.zarr"), n_neighbors=4).fit(roll(60))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_without_a_path_workers_that_see_the_temporary_folder_are_used(client):
    """What counts is whether they see it, not what they are."""
    model = KernelIsomap(n_neighbors=6, disconnected="join").fit(roll(60))
    assert np.isfinite(model.embedding_).all()


# ---- a real cluster of processes ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
@pytest.mark.filterwarnings("ignore::scalemani.errors.ShortcutWarning")
def test_two_processes_give_the_bits_of_the_embedded_cluster(tmp_path, capsys):
    """Tiles, embedding and constant; 500 points in tiles of 64."""
    X = roll(500)
    make = functools.partial(KernelIsomap, n_neighbors=8, n_components=3, knn="exact")
    here = make(store=str(tmp_path / "here.zarr")).fit(X)
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0",
        worker_dashboard_address="127.0.0.1:0",
    ) as local:  # fmt: skip
        there = make(store=str(tmp_path / "there.zarr"), scheduler=local.scheduler_address, progress=True).fit(X)
        projected = there.transform(roll(40, seed=1))
    assert "Dask: 2 workers with 2 threads\n" in capsys.readouterr().err
    ours, theirs = RunStore(here.store_), RunStore(there.store_)
    assert len(ours.blocks) > 4
    for row, column in ours.blocks.tiles():
        np.testing.assert_array_equal(theirs.tiles.read(row, column), ours.tiles.read(row, column))
    assert there.additive_constant_ == here.additive_constant_
    np.testing.assert_array_equal(there.embedding_, here.embedding_)
    np.testing.assert_array_equal(projected, here.transform(roll(40, seed=1)))
    assert threading.active_count() < 200
