"""Tasks in flight: as many as the workers that are there can take, and errors that say what they are.

One cluster of three threads in this process, which a test may have taken for one elsewhere.
"""

import threading
import warnings

import pytest
from distributed import Client, Future, LocalCluster

from scalemani.cluster import health
from scalemani.cluster import tasks as task_window
from scalemani.cluster import workers as worker_side
from scalemani.cluster.client import tasks_in_flight
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.tasks import TaskWindow
from scalemani.errors import BlindWorkerWarning, ClusterLostError


@pytest.fixture(scope="module")
def three_threads():
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=3, processes=False, memory_limit=0, **addresses) as local,
        Client(local, set_as_default=False) as made,
    ):
        yield made


@pytest.fixture
def cluster(three_threads, monkeypatch):
    monkeypatch.setattr(health, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(health, "LOOK_SECONDS", 0.02)
    with DaskCluster(three_threads) as made:
        yield made


def window(cluster, function, most):
    return TaskWindow(cluster._calls, function, None, most, None)


def taken(tasks, into):
    for task in tasks:
        into.append(task)
        yield task


def same(i):
    return i


# ---- as many as there is room for --------------------------------------------------------------


def test_more_tasks_are_in_flight_once_more_workers_have_come_and_fewer_when_they_go(cluster):
    most, seen, counts = [2], [], []
    for i in window(cluster, same, lambda: most[0]).results(taken([(i,) for i in range(40)], seen)):
        counts.append(len(seen) - i)
        most[0] = 6 if i < 20 else 3
    assert counts == [2] + [6] * 20 + [5, 4] + [3] * 15 + [2, 1]


BEGUN = threading.Event()


def first_waits_for_the_fourth(i):
    if i == 3:
        BEGUN.set()
    return BEGUN.wait(10) if i == 0 else True


def test_workers_that_come_in_the_middle_of_a_long_task_get_others_at_once(cluster):
    """Not when its result is there: a row of a large D takes an hour."""
    BEGUN.clear()
    asked = []

    def most():
        asked.append(None)
        return 2 if len(asked) < 4 else 5

    assert all(window(cluster, first_waits_for_the_fourth, most).results((i,) for i in range(6)))


@pytest.mark.parametrize(("shares", "threads", "expected"), [(True, 100, 3), (True, 2, 2), (False, 100, 100)])
def test_where_results_wait_in_this_process_there_are_no_more_than_it_planned_for(
    cluster, monkeypatch, shares, threads, expected
):
    monkeypatch.setattr(cluster._calls, "threads", lambda: threads)
    monkeypatch.setattr(DaskCluster, "shares_process", property(lambda self: shares))
    assert cluster._in_flight() == tasks_in_flight(expected)


def test_the_scheduler_is_asked_for_its_workers_now_and_then(cluster, monkeypatch):
    asked, workers = [], cluster._calls.workers
    monkeypatch.setattr(cluster._calls, "workers", lambda: asked.append(None) or workers())
    monkeypatch.setattr(health, "LOOK_SECONDS", 60.0)
    assert list(cluster.map(same, [(i,) for i in range(30)])) == list(range(30))
    assert not [None for _ in asked][1:]


# ---- what a wait says --------------------------------------------------------------------------


@pytest.fixture
def gathering(cluster, monkeypatch):
    """What happens before each answer is fetched, by number."""
    happens, fetched, gather = {}, [], cluster.client._gather

    async def instead(futures, **options):
        fetched.append(futures)
        await happens.get(len(fetched), happens.get("always", nothing))(futures)
        return await gather(futures, **options)

    monkeypatch.setattr(cluster.client, "gather", lambda futures, asynchronous: instead(futures))
    return happens, fetched


async def nothing(future):
    """Of note."""


def raising(error):
    async def happening(future):
        raise error

    return happening


async def lose(future):
    await future.client._cancel([future], force=True)


def test_results_are_fetched_one_at_a_time(cluster, gathering):
    """So that what this process holds does not depend on how many are in flight."""
    assert list(cluster.map(same, [(i,) for i in range(12)])) == list(range(12))
    assert all(isinstance(future, Future) for future in gathering[1]) and len(gathering[1]) == 12


@pytest.mark.parametrize("error", [MemoryError("for a result"), ImportError("of its class"), ValueError("17")])
def test_an_error_of_this_process_is_raised_as_it_is_and_nothing_is_sent_again(cluster, gathering, error):
    gathering[0]["always"] = raising(error)
    with pytest.raises(type(error)) as raised:
        list(cluster.map(same, [(1,)]))
    assert raised.value is error and len(gathering[1]) == 1


def test_a_connection_that_breaks_is_tried_again_and_named_in_the_end(cluster, gathering, monkeypatch):
    sent, submit = [], cluster.client.submit
    monkeypatch.setattr(cluster.client, "submit", lambda *args, **more: sent.append(args) or submit(*args, **more))
    gathering[0][1] = raising(ConnectionResetError("by a peer"))
    assert list(cluster.map(same, [(1,), (2,)])) == [1, 2]
    assert len(sent) == 2, "what was not lost was sent again"
    gathering[0]["always"] = raising(ConnectionResetError("for good"))
    with pytest.raises(ConnectionResetError, match="for good"):
        list(cluster.map(same, [(1,)]))


def test_what_is_lost_again_and_again_is_a_lost_cluster_with_its_cause(cluster, gathering):
    gathering[0][1] = lose
    assert list(cluster.map(same, [(1,)])) == [1]
    gathering[0]["always"] = lose
    with pytest.raises(ClusterLostError, match="5 workers died one after the other") as raised:
        list(cluster.map(same, [(1,)]))
    assert type(raised.value.__cause__).__name__ == "FutureCancelledError"


def test_an_error_in_reading_the_tasks_is_the_callers_and_no_task_is_left_out(cluster):
    """Also where it comes while a result is waited for: an OSError there is no lost connection."""
    BEGUN.clear()
    asked = []

    def most():
        asked.append(None)
        return 2 if len(asked) < 4 else 5

    def tasks():
        yield from ((0,), (1,), (2,))
        raise OSError("the test set is gone")

    with pytest.raises(OSError, match="the test set is gone"):
        list(window(cluster, first_waits_for_the_fourth, most).results(tasks()))
    BEGUN.set()


class Unseen:
    """A folder that nobody sees, until all do."""

    token = "unseen"

    def __init__(self, calls, worker):
        self.calls, self.worker = calls, worker

    def show(self):
        self.calls.without_store = {self.worker}
        worker_side._passed.add(self.token)
        return {self.worker: False, "another": True}


def test_a_blind_worker_that_has_gone_by_then_is_warned_about_by_its_own_address(cluster, monkeypatch):
    monkeypatch.setattr(cluster._calls, "without_store", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder = Unseen(cluster._calls, "tcp://10.9.8.7:1234")
        assert list(TaskWindow(cluster._calls, same, None, lambda: 2, folder).results([(1,)])) == [1]
    (warned,) = [entry for entry in caught if entry.category is BlindWorkerWarning]
    assert "worker tcp://10.9.8.7:1234 on host 10.9.8.7 can't see" in str(warned.message)
    worker_side._passed.discard(Unseen.token)
    assert task_window.urlsplit("tls://[fe80::1]:80").hostname == "fe80::1"
