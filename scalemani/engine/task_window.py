"""Tasks in a bounded window, on workers that may die: takes a function and tasks, gives results in their order.

Dask runs a dead worker's tasks on another. What was scattered to workers that have all died is lost to it, and the
tasks that need it with it: both are sent again here.
"""

import contextlib
import socket
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from scalemani.engine import cluster_watch
from scalemani.engine.cluster_calls import Calls, Cancelled
from scalemani.engine.cluster_watch import lost_task
from scalemani.engine.worker_side import Stranger, guarded
from scalemani.errors import BlindWorkerWarning, ClusterLostError

SCATTER_SECONDS = 5  # until a scheduler without workers says so; it is asked again


class _SendAgain(Exception):
    """What a task needs, or the workers that it may run on, are gone."""


@dataclass(eq=False)
class _Piece:
    """A task that was submitted."""

    task: tuple[Any, ...]
    future: Any = None
    only_on: frozenset[str] | None = None
    tries: int = 0

    @property
    def is_lost(self) -> bool:
        return self.future.status in ("cancelled", "lost")


class TaskWindow:
    """One run of a function over tasks.

    Parameters
    ----------
    calls : Calls
    function : callable
    shared : object or None
        The last argument of each task, sent to each worker once.
    most : int
        Tasks in flight at most.
    token : str or None
        What a process must have read back before its first task.
    show : callable
        Lets all workers read it; gives whether each could.
    """

    def __init__(
        self,
        calls: Calls,
        function: Callable[..., Any],
        shared: Any,
        most: int,
        token: str | None,
        show: Callable[[], dict[str, bool]],
    ) -> None:
        self._calls, self._client = calls, calls.client
        self._function, self._shared, self._most = function, shared, most
        self._token, self._show = token, show
        self._handle: Any = None
        self._warned: set[str] = set()

    def results(self, tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        """Yield what the tasks give, in order."""
        self._calls.watch.progress()
        self._scatter()
        waiting: deque[_Piece] = deque()
        try:
            for task in tasks:
                waiting.append(self._submitted(_Piece(task)))
                if len(waiting) >= self._most:
                    yield self._result(waiting.popleft(), waiting)
            while waiting:
                yield self._result(waiting.popleft(), waiting)
        finally:
            for piece in waiting:
                with contextlib.suppress(Exception):  # of a cluster that is gone
                    piece.future.cancel()

    def _scatter(self) -> None:
        """Send what is shared, to all workers at once where they are elsewhere."""
        if self._shared is None:
            return
        for tries in range(1, cluster_watch.TRIES + 1):
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
                    if tries == cluster_watch.TRIES:
                        raise ClusterLostError(lost_task(tries)) from error
                    self._calls.wait()
                    break

    def _submitted(self, piece: _Piece) -> _Piece:
        """Submit a piece, on workers that see the store where some are known not to."""
        handle = () if self._shared is None else (self._handle,)
        if not self._calls.watched:
            piece.future = self._client.submit(self._function, *piece.task, *handle, pure=False)
            return piece
        options: dict[str, Any] = {"key": f"{self._function.__name__}-{uuid.uuid4().hex}"}
        piece.only_on = frozenset(self._calls.seeing()) if self._calls.blind else None
        if piece.only_on:
            options |= {"workers": sorted(piece.only_on), "allow_other_workers": False}
        try:
            piece.future = self._client.submit(guarded, self._token, self._function, *piece.task, *handle, **options)
        except Exception as error:
            self._calls.check(error)
            raise
        return piece

    def _result(self, piece: _Piece, others: Iterable[_Piece]) -> Any:
        """What a piece gives, sent again with the others as often as it must be."""
        self._calls.watch.progress()
        for _ in range(cluster_watch.TRIES):
            found = self._answer(piece, others)
            while isinstance(found, Stranger):
                self._introduce(piece)
                found = self._answer(piece, others)
            if not isinstance(found, _SendAgain):
                return found
        raise ClusterLostError(lost_task(cluster_watch.TRIES))

    def _answer(self, piece: _Piece, others: Iterable[_Piece]) -> Any:
        """What a piece gave, or that it was sent again."""
        try:
            gathering = self._client.gather(piece.future, asynchronous=True)
            return self._calls.call(gathering, each_look=lambda: self._check_sent([piece, *others]))
        except ClusterLostError:
            raise
        except (Exception, *Cancelled) as error:
            if piece.future.status == "error":
                if type(error).__name__ == "KilledWorker":
                    raise ClusterLostError(lost_task(1 + getattr(error, "allowed_failures", 0))) from error
                raise
            if not self._calls.watched:
                raise
            self._calls.check(error)
            self._send_again([piece, *others])
            return _SendAgain()

    def _check_sent(self, pieces: list[_Piece]) -> None:
        """Break a wait off that would never end."""
        alive = self._calls.seeing() if any(piece.only_on for piece in pieces) else {}
        for piece in pieces:
            stuck = piece.only_on and piece.future.status == "pending" and not piece.only_on & set(alive)
            if piece.is_lost or stuck or (self._handle is not None and self._handle.status != "finished"):
                raise _SendAgain

    def _send_again(self, pieces: list[_Piece]) -> None:
        """Send what is lost, and what waits for it."""
        renewed = self._handle is not None and self._handle.status != "finished"
        if renewed:
            self._scatter()
        alive = set(self._calls.seeing())
        for piece in pieces:
            waits = piece.future.status == "pending" and (renewed or bool(piece.only_on and not piece.only_on & alive))
            if piece.is_lost or waits:
                with contextlib.suppress(Exception):
                    piece.future.cancel()
                self._submitted(piece)

    def _introduce(self, piece: _Piece) -> None:
        """A process that came late got the piece: let it read the token, and leave it out if it can't."""
        hosts = {address: about.get("host", address) for address, about in self._calls.workers().items()}
        seen = self._show()
        for worker in sorted(self._calls.blind - self._warned):
            self._warned.add(worker)
            warnings.warn(
                f"worker {worker} on host {hosts.get(worker, socket.gethostname())} can't see the folder of the store "
                "and gets no tasks: mount it there at the same path",
                BlindWorkerWarning,
                stacklevel=2,
            )
        if not any(seen.values()):
            self._calls.wait()
        self._submitted(piece)
