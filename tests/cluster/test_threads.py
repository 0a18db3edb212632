"""Threads and sockets: what runs at once is never more than the cores, and nothing of ours answers from outside.

Work is counted where it happens: in the tasks of a cluster and in the blocks of a search, how many are inside at once
and how many threads BLAS may take for each of them. No compiled kernel has parallel regions of its own.
"""

import os
import socket
import threading

import numba
import numpy as np
import psutil
import pytest
from data import roll
from distributed import LocalCluster
from threadpoolctl import threadpool_info, threadpool_limits

from scalemani import KernelIsomap
from scalemani.cluster.client import cores
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.threads import _let_any_thread_lift_it
from scalemani.neighbors import exact
from scalemani.neighbors import exact as tree

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

X, T = roll(150), roll(40, seed=1)


class Inside:
    """Counts the threads that are inside at once, and those that BLAS may take for each; one for each process."""

    def __init__(self):
        self.lock, self.now = threading.Lock(), []
        self.busiest = self.calls = 0

    def __enter__(self):
        with self.lock:
            self.now.append(threading.get_ident())  # a task may be in a block
            self.calls += 1
            blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
            self.busiest = max(self.busiest, len(set(self.now)) * max(blas))

    def __exit__(self, *_):
        with self.lock:
            self.now.remove(threading.get_ident())


INSIDE = Inside()


def counted(function, *args):
    """One task, and what its process had at most until then."""
    with INSIDE:
        result = function(*args)
    return result, os.getpid(), INSIDE.busiest


@pytest.fixture
def busiest(monkeypatch, embedded):
    """The most at once by process, of tasks and of blocks; as the machine would have it, BLAS takes four threads."""
    found = {}
    real = DaskCluster.map

    def mapped(self, function, tasks, shared=None):
        for result, process, most in real(self, counted, ((function, *task) for task in tasks), shared):
            found[process] = max(found.get(process, 0), most)
            yield result

    def searched(real):
        def search(*args):
            with INSIDE:
                result = real(*args)
            found[os.getpid()] = max(found.get(os.getpid(), 0), INSIDE.busiest)
            return result

        return search

    monkeypatch.setattr(DaskCluster, "map", mapped)
    for kind in (exact.BruteSearch, tree.TreeSearch):
        monkeypatch.setattr(kind, "nearest", searched(kind.nearest))
    monkeypatch.setattr(exact, "_TABLE_ROWS", 16)
    INSIDE.busiest = INSIDE.calls = 0
    with threadpool_limits(4, user_api="blas"):
        _let_any_thread_lift_it()
        yield found


@pytest.mark.parametrize("features", [3, 20])
def test_tasks_and_blocks_times_their_blas_threads_are_no_more_than_the_cores(features, busiest):
    """Twenty features: blocks by threads of ours; three: one query with threads of SciPy's."""
    rows = np.hstack([X, np.zeros((len(X), features - 3))])
    model = KernelIsomap(n_neighbors=8).fit(rows)
    model.transform(np.hstack([T, np.zeros((len(T), features - 3))]))
    assert INSIDE.calls >= 15
    assert list(busiest) == [os.getpid()]
    assert 1 <= busiest[os.getpid()] <= cores()


@pytest.mark.slow
def test_so_are_those_of_two_processes(busiest):
    """Each with one thread, whatever BLAS would take there."""
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", **addresses) as local:
        model = KernelIsomap(n_neighbors=8, scheduler=local.scheduler_address).fit(X)
        model.transform(T)
    workers = {process: most for process, most in busiest.items() if process != os.getpid()}
    assert len(workers) == 2
    assert set(workers.values()) == {1}
    assert busiest[os.getpid()] <= cores(), "the search is here"


def test_one_query_of_the_tree_at_a_time_takes_no_more_threads_than_the_cores(monkeypatch):
    asked = []

    class Tree:
        def __init__(self, rows):
            self.real = real(rows)

        def query(self, rows, workers, **options):
            asked.append(workers)
            return self.real.query(rows, workers=workers, **options)

        def __getattr__(self, name):
            return getattr(self.real, name)

    real = tree.cKDTree
    monkeypatch.setattr(tree, "cKDTree", Tree)
    model = KernelIsomap(n_neighbors=8).fit(X)
    assert asked and set(asked) == {cores()}
    asked.clear()
    model.transform(T)
    assert set(asked) == {1}, "a task has one thread: the others have tasks of their own"


def test_no_kernel_has_parallel_regions():
    """Tasks are what is parallel: numba's threads would come on top, and its workqueue layer allows one caller."""
    import gc
    import importlib

    for name in ("geodesics.batches", "geodesics.reads", "graph.edges", "graph.order"):
        importlib.import_module(f"scalemani.{name}")
    ours = [
        found
        for found in gc.get_objects()
        if issubclass(type(found), numba.core.dispatcher.Dispatcher)  # others may lie about, or lack, their __class__
        and found.py_func.__module__.startswith("scalemani.")
    ]
    assert len(ours) >= 5
    assert not [found for found in ours if found.targetoptions.get("parallel")]


# ---- sockets -------------------------------------------------------------------------------------


def listening():
    """Ports that this process listens on."""
    return {(c.laddr.ip, c.laddr.port) for c in psutil.Process().net_connections("inet") if c.status == "LISTEN"}


def addresses():
    """All addresses of this machine but 127.0.0.1; 127.0.0.2 among them, where only a wildcard listens."""
    found = {("127.0.0.2", socket.AF_INET)}
    for interface in psutil.net_if_addrs().values():
        found |= {(each.address, each.family) for each in interface if each.family in (socket.AF_INET, socket.AF_INET6)}
    return sorted(found - {("127.0.0.1", socket.AF_INET)})


def answering(ports, places):
    """(address, port) at which something takes a connection."""
    found = []
    for address, family in places:
        for port in ports:
            place = socket.getaddrinfo(address, port, family, socket.SOCK_STREAM)[0][4]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.settimeout(1)
                if probe.connect_ex(place) == 0:
                    found.append((address, port))
    return found


def test_nothing_of_the_embedded_cluster_answers_at_another_address():
    """Scheduler, worker and both dashboards are tried at every address that the machine has."""
    before = listening()
    with DaskCluster(threads=2) as cluster:
        new = listening() - before
        ports = {port for _, port in new}
        information = cluster.client.scheduler_info(n_workers=-1)
        named = {*information["services"].values()}
        for worker in information["workers"].values():
            named |= set(worker["services"].values())
        assert named <= ports and len(named) >= 2, "the dashboards are among them"
        assert {address for address, _ in new} == {"127.0.0.1"}
        assert len(answering(ports, [("127.0.0.1", socket.AF_INET)])) == len(ports)
        assert answering(ports, addresses()) == []


def test_the_scan_finds_what_listens_at_another_address():
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        assert answering([port], addresses()) == [("127.0.0.2", port)]
