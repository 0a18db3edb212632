"""Waiting for a cluster's answers without hanging: takes a client and coroutines of it, gives what they give.

Each wait is interrupted twice a second to see whether there still is somebody to wait for.
"""

import asyncio
import concurrent.futures
import contextlib
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from scalemani.engine import cluster_watch
from scalemani.engine.cluster_watch import Watch, lost_scheduler
from scalemani.errors import ClusterLostError

ASK_SECONDS = 30.0  # for a worker's answer about itself; one that is stopped or cut off gives none
Cancelled = (asyncio.CancelledError, concurrent.futures.CancelledError)


class Calls:
    """Calls of one client.

    watched: Whether the cluster can be lost: not where it is in this process.
    blind: Workers that don't see the store, and so count for nothing.
    """

    def __init__(self, client: Any, *, watched: bool) -> None:
        self.client, self.watched = client, watched
        self.watch = Watch()
        self.blind: set[str] = set()
        self._address = client.scheduler.address
        self._counted, self._threads = -math.inf, 0

    def call(self, coroutine: Coroutine[Any, Any, Any], each_look: Callable[[], None] = lambda: None) -> Any:
        """Run a coroutine on the client's loop and wait for it.

        each_look: Called whenever the workers have been looked at; what it raises ends the wait.
        Raises ClusterLostError: If the scheduler or the workers are lost in the meantime.
        """
        answer = self._start(coroutine)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    return answer.result(timeout=cluster_watch.POLL_SECONDS)
                if answer.done():
                    return answer.result()  # its own TimeoutError
                if self.watched:
                    self.check()
                    if self.watch.due:
                        self.look()
                        each_look()
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
        return ClusterLostError(lost_scheduler(self._address))

    def check(self, error: BaseException | None = None) -> None:
        """Raise that the scheduler is gone, where it is, or where an error says that it was for a moment.

        After a connection is made anew the scheduler knows nothing of what was asked before.
        """
        if self.client.status != "running" or getattr(error, "reason", None) == "scheduler-connection-lost":
            raise self.lost() from error

    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """The workers by address, as the scheduler knows them now.

        Raises ClusterLostError: If it gives no answer for `cluster_watch.SCHEDULER_SECONDS`.
        """
        self.check()
        answer = self._start(self.client.scheduler.identity(n_workers=-1))
        until = time.monotonic() + cluster_watch.SCHEDULER_SECONDS
        try:
            while True:
                try:
                    return self._count(answer.result(cluster_watch.POLL_SECONDS)["workers"])
                except TimeoutError:
                    self.check()
                    if time.monotonic() > until:
                        raise self.lost() from None
                except (OSError, *Cancelled) as error:
                    raise self.lost() from error
        finally:
            answer.cancel()

    def _count(self, workers: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
        seeing = (about for address, about in workers.items() if address not in self.blind)
        self._counted, self._threads = time.monotonic(), sum(int(about["nthreads"]) for about in seeing)
        return workers

    def threads(self) -> int:
        """Threads of the workers that see the store; the scheduler is asked now and then, or once where it is ours."""
        if time.monotonic() - self._counted >= (cluster_watch.LOOK_SECONDS if self.watched else math.inf):
            self.workers()
        return self._threads

    def seeing(self) -> dict[str, Mapping[str, Any]]:
        """The workers but for the blind."""
        return {address: about for address, about in self.workers().items() if address not in self.blind}

    def look(self) -> None:
        """Raise that the workers are gone, or do nothing, where that has been so for too long."""
        reason = self.watch.look(self.seeing())
        if reason is not None:
            raise ClusterLostError(reason)

    def wait(self) -> None:
        """Let a moment pass in which workers may come."""
        time.sleep(cluster_watch.POLL_SECONDS)
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
