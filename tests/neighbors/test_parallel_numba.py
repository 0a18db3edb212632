"""numba's workqueue layer ends a process that enters parallel regions from two threads: no two fits do.

What is run here with that layer is real but for pynndescent, which compiles for a minute: a stand-in enters parallel
regions of the same kind for as long (what pynndescent itself finds is in test_nndescent.py).
"""

import os
import signal
import subprocess
import sys
import threading

import numba
import numpy as np
import pytest

from scalemani.neighbors import functions
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.functions import enters_parallel_regions, one_numba_thread

PROGRAM = """
import sys, threading, types, warnings
meet = globals().get("meet", lambda: None)
import numba, numpy as np
from scalemani import KernelIsomap
warnings.simplefilter("ignore")

@numba.njit(parallel=True, nogil=True)
def taxi(x, y):
    total = 0.0
    for i in numba.prange(len(x)):
        total += abs(x[i] - y[i])
    return total

class NNDescent:
    def __init__(self, rows, n_neighbors, **_):
        rows = np.asarray(rows, float)
        meet()
        for _ in range(100):
            taxi(WIDE, WIDE)
        gaps = ((rows[:, None] - rows) ** 2).sum(axis=2)
        self.neighbor_graph = (np.argsort(gaps, axis=1)[:, :n_neighbors], None)

sys.modules["pynndescent"] = types.SimpleNamespace(NNDescent=NNDescent)

def at_once(*functions):
    found, start = [None] * len(functions), threading.Barrier(len(functions))
    def run(i):
        start.wait()
        found[i] = functions[i]()
    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return found

WIDE = np.ones(100_000)  # a region of some tens of microseconds: two that start together do overlap
X = np.random.default_rng(0).normal(size=(24, 3))
T = np.random.default_rng(1).normal(size=(12, 3))
descent = lambda: KernelIsomap(n_neighbors=5, disconnected="join", knn="nndescent").fit(X)
def both():
    model = KernelIsomap(n_neighbors=5, disconnected="join", metric=taxi).fit(X)
    placed = model.transform(T)
    return at_once(lambda: descent() and placed, *[lambda: model.transform(T)] * 2)

taxi(X[0], X[1])
CASES = {"fits": lambda: at_once(*[lambda: descent().embedding_] * 2), "fit and transforms": both}
for case in sys.argv[1:]:
    first, *others = CASES[case]()
    for other in others:
        np.testing.assert_array_equal(first, other)
assert numba.threading_layer() == "workqueue"
print("done")
"""


def run(*cases, **environment):
    known = {"NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", environment.pop("before", "") + PROGRAM, *cases]
    return subprocess.run(command, env={**os.environ, **known}, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_fits_and_transforms_at_once_in_one_process_end_well():
    done = run("fits", "fit and transforms")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


WITHOUT = """
import contextlib, threading
from scalemani.neighbors import descent, forms, functions
meet = threading.Barrier(2, timeout=60).wait  # both fits are in the search before either enters a region
descent.one_numba_thread = forms.one_numba_thread = functions.one_numba_thread = contextlib.nullcontext
"""


@pytest.mark.slow
def test_without_taking_turns_the_process_would_end():
    """That the layer is the one that ends it, and that the fits above do meet."""
    done = run("fits", before=WITHOUT)
    assert done.returncode == -signal.SIGABRT
    assert "workqueue" in done.stderr


# ---- turns ---------------------------------------------------------------------------------------


@numba.njit(parallel=True)
def spread(x, y):
    return np.abs(x - y).sum()


@numba.njit
def plain(x, y):
    return np.abs(x - y).sum()


@numba.njit
def deep(x, y):
    return 2 * spread(x, y)


@numba.njit
def by_module(x, y):
    return parallel_numba_test.spread(x, y)


parallel_numba_test = sys.modules[__name__]


def closing_over(function):
    @numba.njit
    def metric(x, y):
        return function(x, y)

    return metric


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (spread, True),
        (deep, True),
        (by_module, True),
        (closing_over(deep), True),
        (lambda x, y: spread(x, y), True),
        (plain, False),
        (closing_over(plain), False),
        (lambda x, y: plain(x, y), False),
        (np.linalg.norm, False),
        (max, False),
    ],
)
def test_functions_with_parallel_regions_are_known_without_calling_them(function, expected):
    assert enters_parallel_regions(function) is expected


def test_threads_take_turns_with_one_numba_thread_each_and_get_theirs_back():
    before, inside, most = numba.get_num_threads(), [], []

    def work():
        with one_numba_thread():
            inside.append(numba.get_num_threads())
            most.append(len(inside) - len(most))
            done.wait(0.01)
        return numba.get_num_threads()

    done, after = threading.Event(), []
    threads = [threading.Thread(target=lambda: after.append(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(inside) == {1} and set(after) == {before}
    assert set(most) == {1}, "two were inside at once"


def test_a_search_by_such_a_metric_takes_turns_and_others_do_not(monkeypatch):
    turns = []

    class Turn:
        def __enter__(self):
            turns.append(threading.get_ident())

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("scalemani.neighbors.forms.one_numba_thread", Turn)
    rows = np.random.default_rng(0).normal(size=(30, 4))
    for metric, taken in (
        (lambda x, y: abs(x - y).sum() + 0 * len(str(spread)), True),
        (lambda x, y: abs(x - y).sum(), False),
    ):
        ExactSearch(rows, metric).nearest(rows, 3)
        assert bool(turns) is taken
        turns.clear()
    assert functions._region.acquire(blocking=False)
    functions._region.release()
