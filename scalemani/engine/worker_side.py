"""What runs in a worker's process, beside the tasks: takes the worker, says what it is; takes a task, guards it.

Nothing is left in a worker: BLAS has one thread while a task of ours runs, and what it had before afterwards. So a
worker that joins late, or is started again, needs no preparing, and a client that is killed leaves none behind.
"""

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scalemani import __version__
from scalemani.engine.blas_threads import single_blas_thread
from scalemani.engine.places import place
from scalemani.engine.resources import free_memory, give_back
from scalemani.errors import ScalemaniError, StoreUnreachableError

MARGIN = 0.05  # of a worker's memory limit: its size is measured ten times a second, and Dask's own part is not ours

_process = uuid.uuid4().hex
_passed: set[str] = set()  # tokens that this process has read back


def process_name() -> str:
    """A name that no other process on any host has."""
    return f"{os.getpid()}-{_process}"


@dataclass(frozen=True)
class Account:
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


def account(dask_worker: Any) -> Account:
    """What a worker is and may add; `dask_worker` is what ``Client.run`` hands in."""
    give_back()
    manager = dask_worker.memory_manager
    limit, pause = manager.memory_limit, manager.memory_pause_fraction
    limit = int(limit) if limit and pause else None
    room = None
    if limit is not None:
        room = max(0, int(limit * (pause - MARGIN)) - int(dask_worker.monitor.get_process_memory()))
    return Account(process_name(), socket.gethostname(), __version__, limit, room, free_memory())


def read_text(path: str) -> str:
    """The text of a file as a worker sees it; empty where it sees none."""
    try:
        return place(path).read_text()
    except (OSError, UnicodeDecodeError, ScalemaniError, StoreUnreachableError):
        return ""


def read_back(path: str, text: str, token: str) -> bool:
    """Whether this process reads in a file what the client does; one that does may run tasks with the token."""
    if not text or read_text(path) != text:
        return False
    _passed.add(token)
    return True


@dataclass(frozen=True)
class Stranger:
    """A task's answer where its process has not read back the run's token yet: the task was not begun."""


def guarded(token: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)`` with one BLAS thread, in a process that sees the run's store.

    Sums have the same bits then, and threads times tasks are not more than the cores.
    """
    if token is not None and token not in _passed:
        return Stranger()
    with single_blas_thread():
        return function(*arguments)
