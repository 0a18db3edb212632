"""Fits beside one another: in threads, on one store, inside a Dask task, after a fork; and an active client."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from data import roll
from distributed import Client

from scalemani import KernelIsomap, load
from scalemani.errors import ScalemaniError

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

X = roll(60)


def client(threads):
    return Client(processes=False, n_workers=1, threads_per_worker=threads, dashboard_address="127.0.0.1:0")


def at_once(*functions):
    """What each returns or raises, started together."""
    found = [None] * len(functions)
    start = threading.Barrier(len(functions))

    def run(i):
        start.wait()
        try:
            found[i] = functions[i]()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    return found


@pytest.fixture(scope="module")
def expected():
    return KernelIsomap(n_neighbors=8).fit(X).embedding_


def test_fits_in_two_threads_are_quiet_and_right(expected, capfd):
    found = at_once(*[lambda: KernelIsomap(n_neighbors=8).fit(X).embedding_] * 3)
    for one in found:
        np.testing.assert_array_equal(one, expected)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_of_two_fits_on_one_store_each_is_right_or_refused(expected, tmp_path):
    for attempt in range(3):
        path = tmp_path / str(attempt)
        found = at_once(*[lambda path=path: KernelIsomap(n_neighbors=8, store=path).fit(X).embedding_] * 2)
        right = [one for one in found if isinstance(one, np.ndarray)]
        assert right and all(isinstance(one, ScalemaniError) for one in found if not isinstance(one, np.ndarray)), found
        for one in (*right, load(path).embedding_):
            np.testing.assert_array_equal(one, expected)


@pytest.mark.timeout(100)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_fit_inside_a_dask_task_ends(threads, expected, tmp_path):
    """A task that waits for tasks on its own one thread would wait for ever."""

    def work():
        return KernelIsomap(n_neighbors=8, store=tmp_path / "r").fit(X).embedding_

    with client(threads) as active:
        np.testing.assert_array_equal(active.submit(work).result(timeout=60), expected)


def test_an_active_client_is_taken_with_the_default_arguments(expected):
    with client(2):
        model = KernelIsomap(n_neighbors=8).fit(X)
        np.testing.assert_array_equal(model.embedding_, expected)
        np.testing.assert_allclose(model.transform(X), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_fit_where_its_parent_only_imported(tmp_path):
    program = """
import os, sys, warnings
import numpy as np
from scalemani import KernelIsomap, load
warnings.simplefilter("ignore")
X = np.load("x.npy")
child = os.fork()
if child == 0:
    try:
        KernelIsomap(n_neighbors=8, store="child").fit(X)
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert load(tmp_path / "child").embedding_.shape == (60, 2)
