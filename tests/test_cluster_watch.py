"""When a cluster is lost: a clock that the test moves, and what a scheduler may say of its workers."""

import dask
import pytest

from scalemani.cluster import health
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.health import LOOK_SECONDS, NO_WORKER_KEY, NO_WORKER_SECONDS, Watch
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.planning.memory import Allowance, Work, choose, peak_bytes, stages

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


def work(**more):
    return Work(
        n=100_000, edges=10**6, columns=16, components=2, threads=2, size=4, least_columns=64, usual_columns=160, **more
    )


def test_client_and_worker_keep_to_a_limit_of_their_own():
    """A client with plenty of memory, and a worker with little: the worker's stages fit, and those alone are small."""
    asked = work(embedded=False, worker_limit=500 << 20, worker_memory=1 << 30)
    chosen = choose(asked, 1 << 40)
    made = stages(asked, chosen.tile, chosen.most_columns).values()
    assert max(sum(stage.worker.values()) for stage in made) <= 500 << 20 < max(sum(s.client.values()) for s in made)
    assert choose(work(embedded=False), 1 << 40).tile > chosen.tile


def test_one_process_keeps_to_both_limits():
    asked = work(worker_limit=1 << 30)
    chosen = choose(asked, 1 << 40)
    assert peak_bytes(asked, chosen.tile, chosen.most_columns) <= 1 << 30
    assert chosen == choose(work(), 1 << 30) == choose(work(worker_limit=1 << 40), 1 << 30)


def test_a_refusal_names_the_limit_that_it_follows_from():
    asked = work(embedded=False, worker_limit=50 << 20, worker_memory=256 << 20)
    with pytest.raises(DoesNotFitError, match=r"memory limit of 268,435,456 bytes allows 52,428,800, .*--memory-limit"):
        choose(asked, 1 << 40)
    with pytest.raises(DoesNotFitError, match=r"memory_limit allows 10,485,760: raise memory_limit"):
        choose(asked, 10 << 20)
    assert Allowance.of(10, 20, 99, one_process=True) == Allowance(10, 10, 0)
