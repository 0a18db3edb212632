"""What runs in a worker's process beside the tasks, and whether every worker sees the store.

A task of ours runs with one BLAS thread, in a process that has seen the store; afterwards BLAS has what it had before.
So a worker that joins late, or is started again, needs no preparing, and a client that is killed leaves nothing behind.

To see the store is to read a file there as the client does: the store's own document or, where the client writes, a
file that it puts beside the store for that moment, so that a folder of the same name on another machine is none.
"""

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from scalemani import __version__
from scalemani.cluster.health import Calls
from scalemani.cluster.machine import free_memory, give_back
from scalemani.cluster.threads import single_blas_thread
from scalemani.errors import ScalemaniError, StoreUnreachableError, noted
from scalemani.storage.files import Location, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.records import MOST_DOCUMENT_BYTES, ROOT


class SharedFolder:
    """A store that workers see, or get no tasks.

    calls: Its `without_store` are the workers that don't.
    writing: Whether the caller is the one writer there; else there must be a store, and nothing is written.
    token: A process that has seen the store knows it, and runs tasks that carry it.
    """

    def __init__(self, calls: Calls, path: str, *, writing: bool) -> None:
        self._calls, self._path, self._writing = calls, open_location(path).absolute(), writing
        self.token = uuid.uuid4().hex

    def check(self) -> None:
        """Ask all workers; refuse, saying how many, where some don't see it."""
        if not self._writing and not read_text(str(self._path / ROOT)):
            return  # it is not here either, which the caller says
        seen = self.show()
        unseen = sorted(worker for worker, sees in seen.items() if not sees)
        if unseen:
            raise ScalemaniError(
                f"{len(unseen)} of {len(seen)} workers can't see the folder of the store {str(self._path)!r} "
                f"(first: {unseen[0]}): {self._path.unseen_remedy}"
            )

    def show(self) -> dict[str, bool]:
        """Whether each worker sees it; those that do know the token afterwards."""
        with self._file() as (file, text):
            seen = self._calls.ask(read_back, str(file), text, self.token)
        self._calls.without_store = {worker for worker, sees in seen.items() if not sees}
        return seen

    @contextmanager
    def _file(self) -> Iterator[tuple[Location, str]]:
        """A file and what is in it, as long as workers read it; the next writer removes what a kill leaves of one."""
        if not self._writing:
            root = self._path / ROOT
            yield root, read_text(str(root))
            return
        file = self._path.scratch_name()
        try:
            with room_for(file, len(self.token)):
                file.write(self.token.encode())
            yield file, self.token
        finally:
            file.remove()


MARGIN = 0.05  # of a worker's memory limit: its size is measured ten times a second, and Dask's own part is not ours

_process = uuid.uuid4().hex
_passed: set[str] = set()  # tokens that this process has read back


def process_name() -> str:
    """A name that no other process on any host has."""
    return f"{os.getpid()}-{_process}"


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker says of itself.

    process, host, version: Its process, the host's name, the version of this package.
    limit: Bytes of its own memory limit; None where it has none, or is not paused by it.
    room: Bytes that it may add before Dask pauses it, less a margin.
    free: Bytes free on its host.
    """

    process: str
    host: str
    version: str
    limit: int | None
    room: int | None
    free: int


def worker_info(dask_worker: Any) -> WorkerInfo:
    """What a worker is and may add; `dask_worker` is what ``Client.run`` hands in."""
    give_back()
    manager = dask_worker.memory_manager
    limit, pause = manager.memory_limit, manager.memory_pause_fraction
    limit = int(limit) if limit and pause else None
    room = None
    if limit is not None:
        room = max(0, int(limit * (pause - MARGIN)) - int(dask_worker.monitor.get_process_memory()))
    return WorkerInfo(process_name(), socket.gethostname(), __version__, limit, room, free_memory())


def read_text(path: str) -> str:
    """The text of a file as this process sees it; empty where it sees none."""
    try:
        return open_location(path).read(MOST_DOCUMENT_BYTES).decode()
    except (OSError, ValueError, ScalemaniError, StoreUnreachableError):
        return ""


def read_back(path: str, text: str, token: str) -> bool:
    """Whether this process reads in a file what the client does; one that does may run tasks with the token."""
    if not text or read_text(path) != text:
        return False
    _passed.add(token)
    return True


class UnseenWorker:
    """A task's answer where its process has not read back the run's token yet: the task was not begun."""


def guarded(token: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)`` with one BLAS thread, in a process that sees the run's store.

    Sums have the same bits then, and threads times tasks are not more than the cores.
    """
    if token is not None and token not in _passed:
        return UnseenWorker()
    with single_blas_thread():
        return noted(function, *arguments)
