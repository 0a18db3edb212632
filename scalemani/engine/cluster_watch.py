"""Whether a cluster can still go on: takes what the scheduler says of its workers, gives the reason why not.

Losing workers is no error: Dask runs their tasks elsewhere, and a cluster that grows and shrinks by itself, or waits
in a queue, may have none for minutes. What ends a run is to have nobody who works for longer than that.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import dask
from dask.utils import parse_timedelta

from scalemani.errors import ScalemaniError

POLL_SECONDS = 0.5  # a wait for a task is interrupted that often
LOOK_SECONDS = 2.0  # the scheduler is asked for its workers that often, while nothing comes in
NO_WORKER_SECONDS = 300.0  # with no worker, or none that takes tasks: a node of an autoscaled cluster starts in 1-4 min
NO_WORKER_KEY = "scalemani.no-worker-seconds"  # of Dask's configuration, in its place
SCHEDULER_SECONDS = 45.0  # a scheduler answers in milliseconds; one that was cut off sends no sign that it is gone
TRIES = 5  # of a task whose workers die, or whose operand was lost with them
AGAIN = "what is finished is in the store: give the same command again to go on"


def lost_scheduler(address: str) -> str:
    """The line for a scheduler that is gone."""
    return f"the Dask scheduler at {address} is gone, or the way to it: {AGAIN}, on a scheduler that runs"


def lost_task(tries: int) -> str:
    """The line for a task that no worker survives."""
    return (
        f"{tries} workers died one after the other at the same piece of work, most often for want of memory: give them "
        f"a larger memory limit, or a smaller memory_limit here; {AGAIN}"
    )


def no_worker_seconds() -> float:
    """How long a run goes on without a worker: what Dask's configuration says, such as "2h", or the usual.

    Raises ScalemaniError: If that is no time.
    """
    asked = dask.config.get(NO_WORKER_KEY, None)
    if asked is None:
        return NO_WORKER_SECONDS
    try:
        seconds = float(parse_timedelta(asked, default="s"))
    except (ValueError, TypeError, KeyError, AttributeError):
        seconds = math.nan
    if not seconds > 0:
        raise ScalemaniError(f"{NO_WORKER_KEY} in Dask's configuration is {asked!r}: give seconds, or a time like '2h'")
    return seconds


class Watch:
    """The time since anything last went on.

    clock: Seconds, of which only differences count.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = self._looked = clock()
        self._patience = no_worker_seconds()

    def progress(self) -> None:
        """A task is done."""
        self._since = self._looked = self._clock()

    @property
    def due(self) -> bool:
        """Whether it is time to look at the workers."""
        return self._clock() - self._looked >= LOOK_SECONDS

    def look(self, workers: Mapping[str, Mapping[str, Any]]) -> str | None:
        """Judge the workers as the scheduler's ``identity`` gives them; a line if the run can't go on.

        A worker that takes no further tasks may still be at one, which counts as going on.
        """
        now = self._looked = self._clock()
        if any(worker.get("status") == "running" or _busy(worker) for worker in workers.values()):
            self._since = now
            return None
        waited = now - self._since
        if waited < self._patience:
            return None
        if not workers:
            return f"the Dask scheduler has had no workers for {waited:.0f} s: start some; {AGAIN}"
        paused = sorted(address for address, worker in workers.items() if worker.get("status") == "paused")
        if paused:
            return (
                f"all {len(workers)} workers have taken no tasks for {waited:.0f} s, {len(paused)} of them paused at "
                f"their memory limit (first: {paused[0]}): start workers with more memory; {AGAIN}"
            )
        return f"none of {len(workers)} workers has taken tasks for {waited:.0f} s: start others; {AGAIN}"


def _busy(worker: Mapping[str, Any]) -> bool:
    return bool(worker.get("metrics", {}).get("task_counts", {}).get("executing"))
