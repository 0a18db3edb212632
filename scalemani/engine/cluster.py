"""The only file that imports dask.distributed: a client, tasks in a bounded window, results in order.

Takes a scheduler (None, an address or a client) and gives a :class:`Cluster`: `map` runs a function over tasks and
yields the results in the order of the tasks, never of the workers, so that sums over them have fixed
bits. What many tasks share (the block of vectors in a sweep) is sent to each worker once. Embedded,
the cluster is one in-process worker whose threads are the cores; nothing of it listens anywhere but
on 127.0.0.1, and its memory manager is off (memory follows from `engine.budget`).
"""

import logging
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from distributed import Client, LocalCluster, Security, default_client, rejoin, secede
from distributed.worker import thread_state  # type: ignore[attr-defined]

from scalemani.engine.blas_threads import hold_blas, release_blas
from scalemani.engine.resources import give_back
from scalemani.errors import ScalemaniError


class _QuietLogs:
    """Dask's log lines stay off the terminal while any embedded cluster is open.

    Levels are a whole process's: the first to come sets them, the last to go restores them.
    """

    def __init__(self) -> None:
        self._lock, self._users = threading.Lock(), 0
        self._levels: list[tuple[logging.Handler, int]] = []

    def hold(self) -> None:
        with self._lock:
            if self._users == 0:
                self._levels = [(handler, handler.level) for handler in logging.getLogger("distributed").handlers]
                for handler, _ in self._levels:
                    handler.setLevel(logging.CRITICAL)
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for handler, level in self._levels:
                    handler.setLevel(level)


_quiet_logs = _QuietLogs()
_starting = threading.Lock()  # a process's first scheduler imports its pages: two at once trip over them


def _read_text(path: str) -> str:
    """The text of a file as a worker sees it; empty where it sees none."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _quiet_timeouts(loop: Any, context: dict[str, Any]) -> None:
    """Pass over a timeout nobody waits for any more.

    A batched send that is closed while it waits leaves one behind, now and then, and asyncio would
    print it to the user's terminal.
    """
    if type(context.get("exception")).__name__ != "TimeoutError":
        loop.default_exception_handler(context)


_process = uuid.uuid4().hex


def _hold_and_name() -> str:
    """Hold BLAS in a worker's process; returns a name that no other process on any host has."""
    hold_blas()
    return f"{os.getpid()}-{_process}"


def cores() -> int:
    """Processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def check_certificates(address: Any) -> None:
    """Refuse a tls:// address without readable certificates in Dask's configuration: Client would hang for 30 s."""
    if not str(address).startswith("tls://"):
        return
    try:
        context = Security().get_connection_args("client")["ssl_context"]
    except OSError as error:  # ssl's errors are of its kind
        raise ScalemaniError(f"the TLS certificates for {address!r} can't be read: {error}; give PEM files") from error
    if context is None:
        raise ScalemaniError(
            f"{address!r} needs TLS certificates, and Dask's configuration has none: set "
            "DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and ..__CLIENT__KEY"
        )


def tasks_in_flight(threads: int) -> int:
    """Tasks that :meth:`Cluster.map` has submitted and not yet handed over, for all threads of a cluster."""
    return 2 * threads + 4


class Cluster:
    """A client for the length of a ``with`` block.

    Parameters
    ----------
    scheduler : None, str or distributed.Client
        None: the active client if there is one, else an embedded in-process worker. A string is the
        address of a scheduler, such as "tcp://10.0.0.1:8786".
    threads : int, optional
        Threads of the embedded worker; the cores by default.

    Raises
    ------
    ScalemaniError
        If no scheduler answers at the address, or it has no workers.
    """

    def __init__(self, scheduler: Any = None, threads: int | None = None) -> None:
        self._scheduler = scheduler
        self._threads = threads or cores()
        self._local: LocalCluster | None = None
        self._owned = False
        self._seceded = False
        self._processes: dict[str, str] = {}  # of workers by address
        self.client: Client

    def __enter__(self) -> "Cluster":
        if isinstance(self._scheduler, Client):
            self.client = self._scheduler
        elif self._scheduler is None:
            try:
                self.client = default_client()
            except ValueError:
                self._embed()
            else:
                self._leave_the_pool()
        else:
            check_certificates(self._scheduler)
            try:
                self.client = Client(self._scheduler, timeout="15s", set_as_default=False)
            except (OSError, ValueError, TypeError) as error:
                raise ScalemaniError(
                    f"no Dask scheduler answers at {self._scheduler!r}: check the address (tls:// where it has "
                    "certificates, all signed by one authority), or leave scheduler out"
                ) from error
            self._owned = True
        if not self.embedded and not self.client.scheduler_info(n_workers=-1)["workers"]:
            self._close()
            raise ScalemaniError("the Dask scheduler has no workers: start some, or leave scheduler out")
        hold_blas()  # here too when the workers are elsewhere: what the client adds up has the same bits then
        if not self.embedded:
            try:
                self._processes = self.client.run(_hold_and_name)
            except BaseException:
                release_blas()
                self._close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            release_blas()
            if not self.embedded and self.client.status == "running":
                self.client.run(release_blas)
        finally:
            self._close()

    def _leave_the_pool(self) -> None:
        """Called from inside a task: give its thread back, or the tasks it waits for might never get one."""
        if hasattr(thread_state, "execution_state"):
            secede()
            self._seceded = True

    def _embed(self) -> None:
        _quiet_logs.hold()
        with _starting:
            self._local = LocalCluster(
                processes=False,
                n_workers=1,
                threads_per_worker=self._threads,
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address="127.0.0.1:0",
                silence_logs=False,  # restores levels in the order of closing: two at once undo each other
            )
        loop: Any = self._local.loop
        loop = loop.asyncio_loop
        loop.call_soon_threadsafe(loop.set_exception_handler, _quiet_timeouts)
        self.client = Client(self._local, set_as_default=False)
        self._owned = True

    def _close(self) -> None:
        if self._owned:
            self.client.close()
        if self._local is not None:
            self._local.close()
            _quiet_logs.release()
        if self._seceded:
            rejoin()

    @property
    def embedded(self) -> bool:
        """Whether the workers are threads of this process."""
        return self._local is not None

    @property
    def shares_process(self) -> bool:
        """Whether any worker is in this process: the embedded one, or one of a client with ``processes=False``."""
        return self.embedded or f"{os.getpid()}-{_process}" in self._processes.values()

    @property
    def threads(self) -> int:
        """Tasks that run at once in one process, whose workers may be several."""
        return max(self._threads_by_process().values(), default=1)

    @property
    def workers(self) -> int:
        """Processes that run tasks."""
        return max(1, len(self._threads_by_process()))

    def _threads_by_process(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for worker, threads in self.client.nthreads().items():
            process = self._processes.get(worker, worker)  # a worker that came since is a process
            found[process] = found.get(process, 0) + threads
        return found

    def give_back(self) -> None:
        """Have all processes return freed memory to the system, between stages."""
        give_back()
        if not self.embedded:
            self.client.run(give_back)

    def check_shared(self, path: str) -> None:
        """Refuse a store path that not every worker sees: each must read back a token put beside it.

        Raises
        ------
        ScalemaniError
            Naming the workers that don't see it.
        """
        if self.embedded:
            return
        parent = Path(path).absolute().parent
        while not parent.exists():
            parent = parent.parent
        token = uuid.uuid4().hex
        probe = parent / f".scalemani-{token}"
        probe.write_text(token)
        try:
            seen = self.client.run(_read_text, str(probe))
        finally:
            probe.unlink()
        blind = sorted(worker for worker, text in seen.items() if text != token)
        if blind:
            raise ScalemaniError(
                f"{len(blind)} of {len(seen)} workers can't see the folder of the store {path!r} (first: {blind[0]}): "
                "give a path on a file system that all of them share"
            )

    def map(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], shared: Any = None) -> Iterator[Any]:
        """Yield ``function(*task)`` for each task, in order; ``function(*task, shared)`` if `shared` is given.

        At most two tasks a thread and four more are in flight; `shared` is sent to each worker once.
        An error in a task is raised here, after the others in flight are cancelled.
        """
        handle = () if shared is None else (self.client.scatter(shared, broadcast=not self.embedded, hash=False),)
        window = tasks_in_flight(sum(self.client.nthreads().values()))
        waiting: deque[Any] = deque()
        try:
            for task in tasks:
                waiting.append(self.client.submit(function, *task, *handle, pure=False))
                if len(waiting) >= window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
