"""Fits beside one another: in threads, on one store, inside a Dask task, after a fork; and an active client."""

import asyncio
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


@pytest.mark.parametrize("where", ["embedded", "synchronous"])
def test_fits_in_two_threads_are_quiet_and_right(expected, capfd, request, where):
    if where == "embedded":
        request.getfixturevalue(where)
    found = at_once(*[lambda: KernelIsomap(n_neighbors=8).fit(X).embedding_] * 3)
    for one in found:
        np.testing.assert_array_equal(one, expected)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_of_two_fits_on_one_store_each_is_right_or_refused(expected, tmp_path, embedded):
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


FORKS = """
import os, signal, sys, threading, warnings
import dask.array as da
import numpy as np
from distributed import Client
from scalemani import KernelIsomap, load
from scalemani.cluster import choice
choice.SMALL = float(sys.argv[1])
warnings.simplefilter("ignore")
X = np.load("x.npy")
blocks = da.from_array(X, chunks=(20, 3))

def fit(points=X, **more):
    return KernelIsomap(n_neighbors=8, **more).fit(points)

def child(work):  # what it gives or says, within the time that signal.alarm allows
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writes, str(said).encode())
        os._exit(0)
    os.close(writes)
    said = os.read(reads, 9999).decode()
    os.waitpid(pid, 0)
    return said

print("first", child(lambda: fit().embedding_.sum()))
model = fit(store="here")
print("fit", child(lambda: fit().embedding_.sum()))
print("twice", child(lambda: child(lambda: fit().embedding_.sum())))
print("transform", child(lambda: np.abs(model.transform(X) - model.embedding_).max() < 1e-6))
print("load", child(lambda: load("here").embedding_.sum()))
lazy = model.transform(blocks)
placed = lazy.compute()  # on threads that Dask keeps, as those that read blocks are kept
print("blocks", child(lambda: fit(blocks).embedding_.sum()))
print("lazy", child(lambda: np.array_equal(lazy.compute(), placed)))
temporary = fit()
pid = os.fork()
if pid == 0:
    del temporary
    sys.exit(0)
os.waitpid(pid, 0)
print("kept", temporary.transform(X).shape)
begun, ended = threading.Event(), threading.Event()
def report(stage, done, total):
    if stage == "geodesics":
        begun.set()
        ended.wait(60)
thread = threading.Thread(target=lambda: fit(progress=report))
thread.start()
begun.wait(60)
print("during", child(lambda: fit().embedding_.sum()))
print("during_lazy", child(lambda: lazy.compute()))
ended.set()
thread.join()
with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
    print("client", child(lambda: fit().embedding_.sum()))
    print("client_blocks", child(lambda: fit(blocks).embedding_.sum()))
    print("client_lazy", child(lambda: lazy.compute()))
print("after", child(lambda: fit().embedding_.sum()))
"""


EARLY = """
import os, signal
import numpy as np
from distributed import Client
from scalemani import KernelIsomap
if __name__ == "__main__":
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        if os.fork() == 0:
            signal.alarm(30)
            try:
                KernelIsomap(n_neighbors=8).fit(np.load("x.npy"))
            except ValueError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_a_child_of_a_process_that_has_fitted_nothing_is_told_to_spawn_too(tmp_path):
    """A fit is what imports most of the package; the parent had the client alone."""
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", EARLY]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90)
    assert "forked from one that had made the Dask client" in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("small", [0, 1e9])  # an embedded cluster, and none
def test_a_forked_child_does_the_same_or_says_to_spawn(expected, tmp_path, small):
    """And never waits for ever: for a thread of its parent, say; nor does its end take the parent's files with it."""
    np.save(tmp_path / "x.npy", X)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(small)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    refused = {name: said.pop(name) for name in list(said) if name.startswith(("during", "client"))}
    right = str(expected.sum())
    assert said == {
        **dict.fromkeys(("first", "fit", "twice", "load", "blocks", "after"), right),
        "transform": "True",
        "lazy": "True",
        "kept": "(60, 2)",
    }
    assert len(refused) == 5
    reasons = {"during": "had a fit or a transform at work", "client": "had made the Dask client"}
    for name, line in refused.items():
        reason = reasons[name.split("_")[0]]
        assert line.startswith("ScalemaniError: this process was forked from one that " + reason)
        assert line.endswith("start it by multiprocessing's 'spawn' or 'forkserver' method")


@pytest.mark.timeout(100)
def test_an_asynchronous_client_is_used_from_a_thread_and_refused_on_its_own_loop(expected, embedded):
    def fit(**more):
        return KernelIsomap(n_neighbors=8, **more).fit(X).embedding_

    async def work():
        np.testing.assert_array_equal(fit(), expected)  # embedded, while this loop runs, as in a notebook
        arguments = {"processes": False, "n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        async with Client(asynchronous=True, **arguments) as active:
            for more in ({}, {"scheduler": active}):
                np.testing.assert_array_equal(await asyncio.to_thread(fit, **more), expected)
                with pytest.raises(ScalemaniError, match=r"event loop .* await asyncio.to_thread\(model.fit, X\)"):
                    fit(**more)
        with pytest.raises(ScalemaniError, match="the Dask client is not connected"):
            fit(scheduler=active)

    asyncio.run(work())
