"""When a cluster is lost: a clock that the test moves, and what a scheduler may say of its workers."""

from types import SimpleNamespace

import dask
import pytest

from scalemani.cluster import health
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.health import LOOK_SECONDS, NO_WORKER_KEY, NO_WORKER_SECONDS, Watch
from scalemani.errors import ScalemaniError
from scalemani.methods.isomap import IsomapMethod
from scalemani.parameters import Parameters
from scalemani.planning.memory import MemoryLimit, choose, holdings
from scalemani.steps.base import FitSize

RUNNING, PAUSED = {"status": "running"}, {"status": "paused"}
BUSY = {"status": "paused", "metrics": {"task_counts": {"executing": 1}}}


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def watch(clock):
    return Watch(lambda: clock[0])


def test_workers_may_be_away_for_as_long_as_a_node_takes_to_start(watch, clock):
    assert NO_WORKER_SECONDS >= 240
    clock[0] += NO_WORKER_SECONDS - 1
    assert watch.look({}) is None
    clock[0] += 1
    assert "has had no workers for 300 s: start some; what is finished is in the store" in watch.look({})


@pytest.mark.parametrize("workers", [{"a": RUNNING}, {"a": PAUSED, "b": RUNNING}, {"a": BUSY}])
def test_a_worker_that_takes_tasks_or_is_at_one_is_enough(watch, clock, workers):
    """A task may take hours, and that is no sign of anything."""
    for _ in range(5):
        clock[0] += NO_WORKER_SECONDS
        assert watch.look(workers) is None
    clock[0] += NO_WORKER_SECONDS - 1
    assert watch.look({}) is None, "it was there until just now"


def test_a_wait_for_workers_is_said_once(watch, clock, caplog):
    with caplog.at_level("INFO", "scalemani"):
        for _ in range(3):
            clock[0] += health.SAY_SECONDS
            assert watch.look({}) is None
    assert caplog.messages == ["no Dask worker takes tasks now: this run waits 4 min 50 s for one"]
    watch.look({"a": RUNNING})
    clock[0] += health.SAY_SECONDS
    with caplog.at_level("INFO", "scalemani"):
        watch.look({})
    assert len(caplog.messages) == 2, "of another such time it is said again"


def test_results_are_progress_whatever_the_workers_say(watch, clock):
    for _ in range(5):
        clock[0] += NO_WORKER_SECONDS - 1
        watch.progress()
        assert watch.look({"a": PAUSED}) is None


def test_which_it_is_is_said(watch, clock):
    clock[0] += 2 * NO_WORKER_SECONDS
    assert (
        "all 2 workers have taken no tasks for 600 s, 1 of them paused at their memory limit (first: b)"
        in watch.look({"a": {"status": "init"}, "b": PAUSED})
    )
    assert "none of 1 workers has taken tasks" in watch.look({"a": {"status": "closing_gracefully"}})


def test_the_scheduler_is_not_asked_all_the_time(watch, clock):
    assert not watch.due
    clock[0] += LOOK_SECONDS
    assert watch.due
    watch.look({})
    assert not watch.due
    assert health.SCHEDULER_SECONDS + health.POLL_SECONDS < 60


@pytest.mark.parametrize(("asked", "seconds"), [(7200, 7200), ("7200", 7200), ("2h", 7200), ("90 minutes", 5400)])
def test_dasks_configuration_says_for_how_long_workers_may_be_away(clock, asked, seconds):
    """Slurm's may queue for hours; DASK_SCALEMANI__NO_WORKER_SECONDS is the same as a variable."""
    with dask.config.set({NO_WORKER_KEY: asked}):
        watch = Watch(lambda: clock[0])
    clock[0] += seconds - 1
    assert watch.look({}) is None
    clock[0] += 1
    assert f"no workers for {seconds} s" in watch.look({})
    named = dask.config.collect_env({"DASK_SCALEMANI__NO_WORKER_SECONDS": "7200"})
    assert dask.config.get(NO_WORKER_KEY, config=named) == 7200


@pytest.mark.parametrize("asked", [0, -1, "soon", [1], "nan"])
def test_what_is_no_time_is_refused_in_a_line_before_anything_is_done(asked):
    with dask.config.set({NO_WORKER_KEY: asked}), pytest.raises(ScalemaniError, match="seconds, or a time like '2h'"):
        DaskCluster(threads=1).__enter__()


# ---- the workers' own memory -------------------------------------------------------------------

STEPS, ENDLESS = IsomapMethod().steps(Parameters()), 1 << 40


def fit(**more):
    return FitSize(n=100_000, edges=10**6, parameters=Parameters(), threads=2, **more)


def allowed(limit, room=None, memory=0, *, one_process, asked=None):
    """The limit of a client, and of one worker that says what room it has and of which limit."""
    said = [SimpleNamespace(host="a", process=1, room=room, limit=memory, free=ENDLESS)]
    cluster = SimpleNamespace(infos=said, shares_process=one_process)
    return MemoryLimit.of(Parameters(memory_limit=asked), cluster, limit)


def test_client_and_worker_keep_to_a_limit_of_their_own():
    """A client with plenty of memory, and a worker with little: the worker's stages fit, and those alone are small."""
    apart = fit(embedded=False)
    small, refusal = choose(STEPS, apart, allowed(ENDLESS, 500 << 20, 1 << 30, one_process=False))
    assert refusal is None
    made = holdings(STEPS, apart, small)
    assert (
        max(sum(held.worker.values()) for held in made) <= 500 << 20 < max(sum(held.client.values()) for held in made)
    )
    assert choose(STEPS, apart, MemoryLimit(ENDLESS, ENDLESS))[0].tile > small.tile


def test_one_process_keeps_to_both_limits():
    one = fit()
    cut, _ = choose(STEPS, one, allowed(ENDLESS, 2 << 30, 4 << 30, one_process=True))
    assert max(held.peak for held in holdings(STEPS, one, cut)) <= 2 << 30
    assert cut == choose(STEPS, one, MemoryLimit(2 << 30, 2 << 30))[0]
    assert cut == choose(STEPS, one, allowed(2 << 30, ENDLESS, ENDLESS, one_process=True))[0]
    assert allowed(10, 20, 99, one_process=True) == MemoryLimit(10, 10)
    assert allowed(20, 10, 99, one_process=True) == MemoryLimit(10, 10, 99)


def test_what_the_user_allows_holds_for_the_workers_too():
    assert allowed(50, 20, 99, one_process=False, asked=15) == MemoryLimit(50, 15)
    assert allowed(50, 20, 99, one_process=False, asked=50) == MemoryLimit(50, 20, 99)
    assert allowed(50, one_process=False) == MemoryLimit(50, ENDLESS // 2)  # half of what is free on its host


def test_a_refusal_names_the_limit_that_it_follows_from():
    small = allowed(ENDLESS, 50 << 20, 256 << 20, one_process=False)
    _, refusal = choose(STEPS, fit(embedded=False), small)
    assert "memory limit of 268,435,456 bytes allows 52,428,800, " in refusal and "--memory-limit" in refusal
    small = allowed(10 << 20, 50 << 20, 256 << 20, one_process=False)
    _, refusal = choose(STEPS, fit(embedded=False), small)
    assert "memory_limit allows 10,485,760: raise memory_limit" in refusal
