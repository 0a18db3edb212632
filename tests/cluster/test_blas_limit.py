"""BLAS has one thread while anything of ours runs, and afterwards what it had: limits are a whole process's.

No cluster of a whole file may be open here (it would hold the limit).
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from scalemani.cluster import threads as blas_threads_module
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.threads import _let_any_thread_lift_it, single_blas_thread


def blas_threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads():
    """Set by this thread, and not claimed by it: threadpoolctl 3.8 would ignore all others."""
    with threadpool_limits(2, user_api="blas"):
        _let_any_thread_lift_it()
        assert blas_threads() == {2}, "BLAS is limited before this test: something did not give it back"
        yield


def test_blas_has_one_thread_inside_and_what_it_had_afterwards(two_blas_threads):
    with DaskCluster(threads=1):
        assert blas_threads() == {1}
        with DaskCluster(threads=1):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_overlapping_clusters_restore_the_limit_when_the_last_is_left(two_blas_threads):
    first, second = DaskCluster(threads=1), DaskCluster(threads=1)
    overlap(first, second)


def overlap(first, second):
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    between = blas_threads()
    second.__exit__(None, None, None)
    assert (between, blas_threads()) == ({1}, {2})


@pytest.mark.parametrize("cluster_first", [True, False])
def test_a_cluster_and_a_search_that_overlap_restore_the_limit(two_blas_threads, cluster_first):
    """Both limit BLAS; the one that ends last must not put back the other's limit for good."""
    users = [DaskCluster(threads=1), single_blas_thread()]
    overlap(*(users if cluster_first else users[::-1]))


def test_the_last_to_let_go_may_be_another_thread_than_the_first(two_blas_threads):
    here, there = single_blas_thread(), single_blas_thread()
    here.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(there.__enter__).result()
        here.__exit__(None, None, None)
        assert blas_threads() == {1}
        pool.submit(there.__exit__, None, None, None).result()
    assert blas_threads() == {2}


def test_a_failure_restores_the_limit(two_blas_threads):
    with pytest.raises(ZeroDivisionError), DaskCluster(threads=1):
        raise ZeroDivisionError
    assert blas_threads() == {2}


def test_the_workers_of_a_client_are_limited_and_restored(two_blas_threads, client):
    with DaskCluster() as cluster:
        assert list(cluster.client.run(blas_threads).values()) == [{1}]
    assert blas_threads() == {2}


def test_libraries_are_looked_for_where_a_module_has_come_and_not_for_each_task(monkeypatch):
    """Which takes milliseconds each time, and a task may take less."""
    looked, controller = [], blas_threads_module.threadpoolctl.ThreadpoolController
    monkeypatch.setattr(blas_threads_module, "_libraries", (-1, None))
    monkeypatch.setattr(
        blas_threads_module.threadpoolctl, "ThreadpoolController", lambda: looked.append(None) or controller()
    )
    for _ in range(5):
        with single_blas_thread():
            pass
    assert len(looked) == 1
    monkeypatch.setitem(sys.modules, "a_module_that_has_come", sys)
    with single_blas_thread():
        assert len(looked) == 2
