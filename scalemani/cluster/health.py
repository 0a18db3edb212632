"""Answers of a cluster that are waited for without hanging, and the reasons why one can't go on.

Losing workers is no error: Dask runs their tasks elsewhere, and a cluster that grows and shrinks by itself, or waits in
a queue, may have none for minutes. A run ends when the scheduler is gone, or when there was no worker for several
minutes: every wait looks twice a second whether there still is somebody to wait for.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from scalemani.errors import ClusterLostError, ScalemaniError
from scalemani.words import duration

POLL_SECONDS = 0.5  # a wait for a task is interrupted that often
SAY_SECONDS = 10.0  # with no worker that takes tasks, until that is said
LOOK_SECONDS = 2.0  # the scheduler is asked for its workers that often, while nothing comes in
NO_WORKER_SECONDS = 300.0  # with no worker, or none that takes tasks: a node of an autoscaled cluster starts in 1-4 min
NO_WORKER_KEY = "scalemani.no-worker-seconds"  # of Dask's configuration, in its place
SCHEDULER_SECONDS = 45.0  # a scheduler answers in milliseconds; one that was cut off sends no sign that it is gone
ASK_SECONDS = 30.0  # for a worker's answer about itself; one that is stopped or cut off gives none
TRIES = 5  # of a task whose workers die, or whose operand was lost with them
AGAIN = "what is finished is in the store: give the same command again to go on"
Workers = Mapping[str, Mapping[str, Any]]  # by address, as the scheduler's ``identity`` gives them
Cancelled = (asyncio.CancelledError, concurrent.futures.CancelledError)


def lost_task(tries: int) -> str:
    """The line for a task that no worker survives."""
    return (
        f"{tries} workers died one after the other at the same piece of work, most often for want of memory: give them "
        f"a larger memory limit, or a smaller memory_limit here; {AGAIN}"
    )


def no_worker_seconds() -> float:
    """How long a run goes on without a worker: what Dask's configuration says, such as "2h", or the usual."""
    import dask
    from dask.utils import parse_timedelta

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
    """The time since anything last went on, by a clock of which only differences count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = self._looked = clock()
        self._patience, self._said = no_worker_seconds(), False

    def progress(self) -> None:
        """A task is done."""
        self._since = self._looked = self._clock()

    @property
    def due(self) -> bool:
        """Whether it is time to look at the workers."""
        return self._clock() - self._looked >= LOOK_SECONDS

    def look(self, workers: Workers) -> str | None:
        """Judge the workers; a line if the run can't go on.

        A worker that takes no further tasks may still be at one, which counts as going on.
        """
        now = self._looked = self._clock()
        if any(worker.get("status") == "running" or _busy(worker) for worker in workers.values()):
            self._since, self._said = now, False
        waited = now - self._since
        if waited >= SAY_SECONDS and not self._said:
            self._said = True
            left = duration(self._patience - waited)
            logging.getLogger("scalemani").info("no Dask worker takes tasks now: this run waits %s for one", left)
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


class Calls:
    """Calls of one client.

    watched: Whether the cluster can be lost: not where it is in this process.
    without_store: Workers that don't see the store, and so count for nothing.
    """

    def __init__(self, client: Any, *, watched: bool) -> None:
        self.client, self.watched = client, watched
        self.watch = Watch()
        self.without_store: set[str] = set()
        self._address = client.scheduler.address
        self._counted, self._threads = -math.inf, 0

    def call(self, coroutine: Coroutine[Any, Any, Any], each_look: Callable[[], None] = lambda: None) -> Any:
        """Run a coroutine on the client's loop and wait for it.

        each_look: Called whenever the workers have been looked at; what it raises ends the wait.
        Raises ClusterLostError: If the scheduler or the workers are lost in the meantime.
        """

        def look() -> None:
            if self.watched:
                self.check()
                if self.watch.due:
                    self.look()
                    each_look()

        return self._wait(coroutine, look)

    def _wait(self, coroutine: Coroutine[Any, Any, Any], look: Callable[[], None]) -> Any:
        """A coroutine's answer; `look` is called twice a second until it comes, and may raise."""
        answer = self._start(coroutine)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    return answer.result(timeout=POLL_SECONDS)
                if answer.done():
                    return answer.result()  # its own TimeoutError
                look()
        finally:
            answer.cancel()

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> "concurrent.futures.Future[Any]":
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop)
        except (RuntimeError, AttributeError) as error:  # the loop has ended
            coroutine.close()
            raise self.lost() from error

    def lost(self) -> ClusterLostError:
        """The error that the scheduler is gone."""
        return ClusterLostError(
            f"the Dask scheduler at {self._address} is gone, or the way to it: {AGAIN}, on a scheduler that runs"
        )

    def check(self, error: BaseException | None = None) -> None:
        """Raise that the scheduler is gone, or was for a moment, as an error says: then it has forgotten all tasks."""
        if self.client.status != "running" or getattr(error, "reason", None) == "scheduler-connection-lost":
            raise self.lost() from error

    def workers(self) -> Workers:
        """The workers as the scheduler knows them now; it is lost if it gives no answer for `SCHEDULER_SECONDS`."""
        until = time.monotonic() + SCHEDULER_SECONDS

        def look() -> None:
            self.check()
            if time.monotonic() > until:
                raise self.lost()

        self.check()
        try:
            found: Workers = self._wait(self.client.scheduler.identity(n_workers=-1), look)["workers"]
        except (OSError, *Cancelled) as error:
            raise self.lost() from error
        seeing = (about for address, about in found.items() if address not in self.without_store)
        self._counted, self._threads = time.monotonic(), sum(int(about["nthreads"]) for about in seeing)
        return found

    def threads(self) -> int:
        """Threads of the workers that see the store; the scheduler is asked now and then, or once where it is ours."""
        if time.monotonic() - self._counted >= (LOOK_SECONDS if self.watched else math.inf):
            self.workers()
        return self._threads

    def seeing(self) -> dict[str, Mapping[str, Any]]:
        """The workers that see the store."""
        return {address: about for address, about in self.workers().items() if address not in self.without_store}

    def look(self) -> None:
        """Raise that the workers are gone, or do nothing, where that has been so for too long."""
        reason = self.watch.look(self.seeing())
        if reason is not None:
            raise ClusterLostError(reason)

    def wait(self) -> None:
        """Let a moment pass in which workers may come."""
        time.sleep(POLL_SECONDS)
        self.look()

    def ask(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Run a function in each worker; gives what each answered, without those that died or don't answer."""
        self.watch.progress()
        found: dict[str, Any] = self.call(self._ask(list(self.workers()), function, arguments))
        for answer in found.values():
            if isinstance(answer, Exception):
                raise answer
        return found

    async def _ask(self, workers: list[str], function: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
        def run(worker: str) -> Any:
            return self.client._run(function, *arguments, workers=[worker], on_error="return")

        jobs = {worker: asyncio.ensure_future(run(worker)) for worker in workers}
        if jobs:
            await asyncio.wait(jobs.values(), timeout=ASK_SECONDS)
        found = {}
        for worker, job in jobs.items():
            if not job.done():
                job.cancel()
            elif job.exception() is None and not isinstance(job.result().get(worker), OSError | None):
                found[worker] = job.result()[worker]
        return found
