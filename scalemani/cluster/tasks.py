"""Tasks in a bounded window, whose results come in the order of the tasks from workers that may die or come later.

Dask runs a dead worker's tasks on another. An operand that was scattered to workers that have all died is lost to it,
and so are the tasks that need it: both are sent again here. A result waits in the worker that made it; this process
fetches one at a time.
"""

import contextlib
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from scalemani.cluster import health
from scalemani.cluster.health import Calls, Cancelled, lost_task
from scalemani.cluster.workers import SharedFolder, UnseenWorker, guarded
from scalemani.errors import BlindWorkerWarning, ClusterLostError, Once, noted, warn

SCATTER_SECONDS = 5  # until a scheduler without workers says so; it is asked again


class _Room(Exception):
    """More tasks may be in flight than are."""


class _Unanswered(Exception):
    """A wait that gave nothing, though its task did not fail; the cause is what the cluster said, if anything."""


@dataclass(eq=False)
class _Piece:
    """A task that was submitted."""

    task: tuple[Any, ...]
    future: Any = None
    only_on: frozenset[str] | None = None

    @property
    def is_lost(self) -> bool:
        return self.future.status in ("cancelled", "lost")

    def cancel(self) -> None:
        """Take it back, unless it has failed; the cluster may be gone."""
        if self.future.status != "error":
            with contextlib.suppress(Exception):
                self.future.cancel()


class TaskWindow:
    """One run of a function over tasks.

    shared: The last argument of each task, sent to each worker once.
    most: Gives how many tasks may be in flight now; asked at each result, and while one is waited for.
    folder: What a process must have read back before its first task.
    """

    def __init__(
        self,
        calls: Calls,
        function: Callable[..., Any],
        shared: Any,
        most: Callable[[], int],
        folder: SharedFolder | None,
    ) -> None:
        self._calls, self._client = calls, calls.client
        self._function, self._shared, self._most, self._folder = function, shared, most, folder
        self._handle: Any = None
        self._pieces: deque[_Piece] = deque()  # in flight, the one that is waited for first
        self._tasks: Iterator[tuple[Any, ...]] | None = None  # none once there are no more
        self._warned, self._once = set[str](), Once()

    def results(self, tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield what the tasks give, in order."""
        self._calls.watch.progress()
        self._scatter()
        self._tasks = iter(tasks)
        try:
            self._fill()
            while self._pieces:
                found = self._result(self._pieces[0])
                self._pieces.popleft()
                yield found
                self._fill()
        finally:
            for piece in self._pieces:
                piece.cancel()

    def _fill(self) -> None:
        """Submit tasks until as many are in flight as may be."""
        for _ in range(self._room()):
            if self._tasks is None or (task := next(self._tasks, None)) is None:
                self._tasks = None
                return
            self._pieces.append(self._submitted(_Piece(task)))

    def _room(self) -> int:
        return 0 if self._tasks is None else self._most() - len(self._pieces)

    def _scatter(self) -> None:
        """Send what is shared, to all workers at once where they are elsewhere."""
        if self._shared is None:
            return
        for tries in range(1, health.TRIES + 1):
            while True:
                try:
                    sending = self._client._scatter(
                        self._shared, broadcast=self._calls.watched, hash=False, timeout=SCATTER_SECONDS
                    )
                    self._handle = self._calls.call(sending)
                    return
                except TimeoutError:  # no workers
                    self._calls.look()
                except (OSError, KeyError, *Cancelled) as error:  # one died just now
                    self._calls.check(error)
                    if tries == health.TRIES:
                        raise ClusterLostError(lost_task(tries)) from error
                    self._calls.wait()
                    break

    def _submitted(self, piece: _Piece) -> _Piece:
        """Submit a piece, on workers that see the store where some are known not to."""
        handle = () if self._shared is None else (self._handle,)
        options: dict[str, Any] = {"key": f"{self._function.__name__}-{uuid.uuid4().hex}"}
        if not self._calls.watched:
            piece.future = self._client.submit(noted, self._function, *piece.task, *handle, **options)
            return piece
        piece.only_on = frozenset(self._calls.seeing()) if self._calls.without_store else None
        if piece.only_on:
            options |= {"workers": sorted(piece.only_on), "allow_other_workers": False}
        token = None if self._folder is None else self._folder.token
        try:
            piece.future = self._client.submit(guarded, token, self._function, *piece.task, *handle, **options)
        except Exception as error:
            self._calls.check(error)
            raise
        return piece

    def _result(self, piece: _Piece) -> Any:
        """What a piece gives, with what was lost sent again as often as it may be.

        Raises ClusterLostError: If its workers, or what it needs, were lost `health.TRIES` times.
        Raises Exception: The task's own error, or this process's, such as one of memory for the result.
        """
        self._calls.watch.progress()
        cause: BaseException | None = None
        tries, lost = 0, False
        while tries < health.TRIES:
            try:
                found = self._answer(piece)
                if not isinstance(found, UnseenWorker):
                    return self._once.result(found)
                self._introduce(piece)
            except _Room:  # here, and not in the wait: what reads the tasks has errors of its own
                self._fill()
            except _Unanswered as error:
                cause, tries = error.__cause__ or cause, tries + 1
                lost = self._send_again()
        if not lost and cause is not None:
            raise cause
        raise ClusterLostError(lost_task(tries)) from cause

    def _answer(self, piece: _Piece) -> Any:
        """What a piece gave.

        Raises _Room: The wait was broken off for that.
        Raises _Unanswered: It may give that when it is asked, or sent, again.
        """
        try:
            return self._calls.call(self._client.gather(piece.future, asynchronous=True), each_look=self._look)
        except (ClusterLostError, _Unanswered, _Room):
            raise
        except (Exception, *Cancelled) as error:
            if piece.future.status == "error":
                if type(error).__name__ == "KilledWorker":
                    raise ClusterLostError(lost_task(1 + getattr(error, "allowed_failures", 0))) from error
                raise
            if not self._calls.watched:
                raise
            self._calls.check(error)
            if isinstance(error, (OSError, *Cancelled)):  # of a connection, or of what was asked for
                raise _Unanswered from error
            raise

    def _look(self) -> None:
        """Break a wait off that would never end, or while workers that have come have nothing to do."""
        alive = self._calls.seeing() if any(piece.only_on for piece in self._pieces) else {}
        if self._handle_is_lost or any(piece.is_lost or self._stuck(piece, alive) for piece in self._pieces):
            raise _Unanswered
        if self._room() > 0:
            raise _Room

    @property
    def _handle_is_lost(self) -> bool:
        return self._handle is not None and self._handle.status != "finished"

    @staticmethod
    def _stuck(piece: _Piece, alive: Iterable[str]) -> bool:
        """Whether a piece waits for workers that have all gone."""
        only_on = piece.only_on or frozenset()
        return bool(only_on) and piece.future.status == "pending" and only_on.isdisjoint(alive)

    def _send_again(self) -> bool:
        """Send what is lost, and what waits for it; whether there was any."""
        renewed = self._handle_is_lost
        if renewed:
            self._scatter()
        alive = set(self._calls.seeing())
        lost = [
            piece
            for piece in self._pieces
            if piece.is_lost or (renewed and piece.future.status == "pending") or self._stuck(piece, alive)
        ]
        for piece in lost:
            piece.cancel()
            self._submitted(piece)
        if not lost:
            self._calls.wait()  # before it is asked again
        return bool(lost)

    def _introduce(self, piece: _Piece) -> None:
        """A process that came late got the piece: let it read what it must, and leave it out if it can't."""
        assert self._folder is not None
        hosts = {address: about.get("host") for address, about in self._calls.workers().items()}
        seen = self._folder.show()
        for worker in sorted(self._calls.without_store - self._warned):
            self._warned.add(worker)
            host = hosts.get(worker) or urlsplit(worker).hostname or "unknown"  # it may have gone by now
            warn(
                f"worker {worker} on host {host} can't see the folder of the store and gets no tasks: mount it there "
                "at the same path",
                BlindWorkerWarning,
            )
        if not any(seen.values()):
            self._calls.wait()
        self._submitted(piece)


def waiting_bytes(n: int, step: int, width: int, window: int) -> int:
    """Results (n - start, width) in float64 of `window` tasks that start `step` vertices apart, not yet added up."""
    count = min(window, -(-n // step)) if step else window
    return 8 * width * (count * n - step * count * (count - 1) // 2)
