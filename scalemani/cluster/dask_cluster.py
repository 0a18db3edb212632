"""The only file that imports dask.distributed: a client, the workers it meets, tasks on them.

A cluster that nobody gave is embedded: one worker in this process, whose threads are the cores. It listens on
127.0.0.1 alone, and its memory manager is off (memory follows from :mod:`scalemani.planning.memory`). A cluster
that can't go on (:mod:`scalemani.cluster.health`) is a ``ClusterLostError``.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, LocalCluster, Security, default_client, rejoin, secede
from distributed.worker import thread_state  # type: ignore[attr-defined]

from scalemani import __version__
from scalemani.cluster.client import Cluster, cores, tasks_in_flight
from scalemani.cluster.health import Calls
from scalemani.cluster.machine import give_back
from scalemani.cluster.tasks import TaskWindow
from scalemani.cluster.threads import while_anyone
from scalemani.cluster.workers import SharedFolder, WorkerInfo, process_name, worker_info
from scalemani.errors import ScalemaniError
from scalemani.progress import Progress
from scalemani.storage.forks import CLIENT, forked, is_of_parent
from scalemani.words import count

CLOSING_SECONDS = 5.0  # for the good-byes of a cluster that may not answer
_AT_THE_END = {"TimeoutError", "CommClosedError", "StreamClosedError", "ClosedClientError", "AllExit"}
_starting = threading.Lock()  # a process's first scheduler imports its pages: two at once trip over them


@while_anyone
@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep Dask's log off the terminal while any cluster of ours is open."""
    levels = [(handler, handler.level) for handler in logging.getLogger("distributed").handlers]
    for handler, _ in levels:
        handler.setLevel(logging.CRITICAL)
    yield
    for handler, level in levels:
        handler.setLevel(level)


def be_quiet_in(loop: Any) -> None:
    """Have a loop of ours say nothing of what nobody waits for any more when a cluster ends.

    A batched send that is closed while it waits may leave a timeout behind, and asyncio would print it.
    """

    def pass_over(asyncio_loop: Any, context: dict[str, Any]) -> None:
        if type(context.get("exception")).__name__ not in _AT_THE_END:
            asyncio_loop.default_exception_handler(context)

    asyncio_loop = loop.asyncio_loop
    asyncio_loop.call_soon_threadsafe(asyncio_loop.set_exception_handler, pass_over)


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


def active_client() -> Client | None:
    """The client that Dask would use here."""
    try:
        active: Client = default_client()
    except ValueError:
        return None
    return active


class DaskCluster(Cluster):
    """A client for the length of a ``with`` block.

    scheduler: None: the active client if there is one, else an embedded in-process worker. A string is the address of a
        scheduler, such as "tcp://10.0.0.1:8786".
    threads: Threads of the embedded worker; the cores by default.
    Raises ScalemaniError: If no scheduler answers at the address, or it has no workers, or they have another version;
        if the client is not connected, works on this thread's event loop, or was made before this process was forked.
    Raises ClusterLostError: Later, from any method: the scheduler is gone, or no worker works for longer than
        `health.NO_WORKER_SECONDS`.
    """

    client: Client
    _calls: Calls
    _ours: contextlib.ExitStack  # what is to be closed

    def __init__(self, scheduler: Any = None, threads: int | None = None) -> None:
        self._scheduler = scheduler
        self._threads = threads or cores()
        self.embedded = False  # whether the workers are threads of this process
        self._infos: dict[str, WorkerInfo] = {}  # of workers by address, at the start
        self._folder: SharedFolder | None = None  # that workers must see, each before its first task
        self._at_start = 0  # threads

    @contextmanager
    def _connection(self) -> Iterator[None]:
        with contextlib.ExitStack() as self._ours:
            self._find_client()
            self._calls = Calls(self.client, watched=not self.embedded)
            if not self.embedded:
                self._meet_the_workers()
            self._at_start = self._calls.threads()
            yield

    def _find_client(self) -> None:
        active = active_client() if self._scheduler is None else None
        if isinstance(self._scheduler, Client):
            self._take(self._scheduler)
        elif active is not None:
            if hasattr(thread_state, "execution_state"):
                secede()  # inside a task: give its thread back, or the tasks it waits for might never get one
                self._ours.callback(rejoin)
            self._take(active)
        elif self._scheduler is None:
            self._embed()
        else:
            check_certificates(self._scheduler)
            self._connect(self._scheduler)

    def _take(self, client: Client) -> None:
        """Use a user's client, or an asynchronous one's scheduler; refuse one that can't answer a waiting thread."""
        if is_of_parent(client):
            raise forked(CLIENT)
        if client.scheduler is None:
            raise ScalemaniError(
                "the Dask client is not connected: await it if it is asynchronous, give another, or leave scheduler out"
            )
        with contextlib.suppress(RuntimeError):  # no loop runs in this thread
            if asyncio.get_running_loop() is getattr(client.loop, "asyncio_loop", None):
                raise ScalemaniError(
                    "the Dask client works on the event loop that this call would stop: give the call a thread of its "
                    "own, such as await asyncio.to_thread(model.fit, X)"
                )
        if not client.asynchronous:
            self.client = client
        else:
            self._connect(client.scheduler.address, client.security)

    def _embed(self) -> None:
        self._ours.enter_context(quiet_logs())
        with _starting:
            local = LocalCluster(
                processes=False,
                n_workers=1,
                threads_per_worker=self._threads,
                memory_limit=0,
                dashboard_address="127.0.0.1:0",
                worker_dashboard_address="127.0.0.1:0",
                silence_logs=False,  # restores levels in the order of closing: two at once undo each other
            )
        self._ours.callback(local.close)
        be_quiet_in(local.loop)
        self.client = Client(local, set_as_default=False)
        self._ours.callback(self.client.close)
        self.embedded = True

    def _connect(self, address: Any, security: Any = None) -> None:
        self._ours.enter_context(quiet_logs())
        try:
            self.client = Client(address, timeout="15s", set_as_default=False, security=security)
        except (OSError, ValueError, TypeError) as error:
            raise ScalemaniError(
                f"no Dask scheduler answers at {address!r}: check the address (tls:// where it has "
                "certificates, all signed by one authority), give 'synchronous' for this thread, or leave scheduler out"
            ) from error
        self._ours.callback(self._disconnect)
        be_quiet_in(self.client.loop)

    def _disconnect(self) -> None:
        with contextlib.suppress(Exception):  # of a cluster that is lost
            self.client.close(timeout=CLOSING_SECONDS)

    def _meet_the_workers(self) -> None:
        """Ask each worker what it is; refuse none, and another version of the package, which may give other bits."""
        if not self._calls.workers():
            raise ScalemaniError("the Dask scheduler has no workers: start some, or leave scheduler out")
        remedy = f"install scalemani {__version__} in the workers' Python too"
        try:
            self._infos = self._calls.ask(worker_info)
        except ImportError as error:
            raise ScalemaniError(f"a worker can't import what it needs ({error}): {remedy}") from error
        for worker, info in sorted(self._infos.items()):
            if info.version != __version__:
                raise ScalemaniError(f"worker {worker} on {info.host} has scalemani {info.version}: {remedy}")
        known = count(len(self._infos), "worker"), count(self._calls.threads(), "thread")
        logging.getLogger("scalemani").info("Dask: %s with %s", *known)

    @property
    def shares_process(self) -> bool:
        """Whether any worker is in this process: the embedded one, or one of a client with ``processes=False``."""
        return self.embedded or any(info.process == process_name() for info in self._infos.values())

    @property
    def infos(self) -> tuple[WorkerInfo, ...]:
        return tuple(self._infos.values())

    @property
    def threads(self) -> int:
        return max(self._threads_by_process().values(), default=1)

    @property
    def workers(self) -> int:
        return max(1, len(self._threads_by_process()))

    def _threads_by_process(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for worker, about in self._calls.workers().items():
            info = self._infos.get(worker)
            process = info.process if info else worker  # a worker that came since is a process
            found[process] = found.get(process, 0) + int(about["nthreads"])
        return found

    def give_back(self) -> None:
        super().give_back()
        if not self.embedded:
            self._calls.ask(give_back)

    def attended(self, report: Progress) -> Progress:
        def attending(stage: str, done: int, total: int) -> None:
            self._calls.check()
            report(stage, done, total)

        return attending

    def check_shared(self, path: str, *, writing: bool = True) -> None:
        if self.embedded:
            return
        self._folder = SharedFolder(self._calls, path, writing=writing)
        self._folder.check()

    def map(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], shared: Any = None) -> Iterator[Any]:
        """See :meth:`Cluster.map`; `shared` is sent to each worker once.

        At most two tasks a thread and four more are in flight, more of them as workers come. An error in a task is
        raised here, after the others in flight are cancelled.

        Raises ClusterLostError: As the class says, or if a task's workers died `health.TRIES` times.
        """
        yield from TaskWindow(self._calls, function, shared, self._in_flight, self._folder).results(tasks)

    def _in_flight(self) -> int:
        """Tasks that may be in flight now.

        Results wait in the workers' processes. Where that is this one they are counted in its plan, whose threads are
        those of the start; elsewhere each worker that comes brings the room for its own.
        """
        threads = self._calls.threads()
        return tasks_in_flight(min(threads, self._at_start) if self.shares_process else threads)
