"""What a step sees of a cluster: it runs functions over tasks and gives the results in the order of the tasks.

So sums over results have fixed bits, wherever the tasks ran. The base class runs them in this thread and imports no
Dask; :class:`scalemani.cluster.dask_cluster.DaskCluster` runs them on workers.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from scalemani.cluster.kernel_cache import check_compiler
from scalemani.cluster.machine import give_back
from scalemani.cluster.threads import single_blas_thread
from scalemani.errors import Once, noted
from scalemani.progress import Progress
from scalemani.storage.forks import FIT, doing


def cores() -> int:
    """Processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def tasks_in_flight(threads: int) -> int:
    """Tasks that :meth:`Cluster.map` has submitted and not yet handed over, for all threads of a cluster."""
    return 2 * threads + 4


class Cluster:
    """Runs functions over tasks for the length of a ``with`` block: here in this thread, in a subclass on workers."""

    _leaving: contextlib.ExitStack

    def __enter__(self) -> Self:
        check_compiler()
        with contextlib.ExitStack() as leaving:
            leaving.enter_context(doing(FIT))
            leaving.enter_context(self._connection())
            # here too when the workers are elsewhere: what the client adds up has the same bits then
            leaving.enter_context(single_blas_thread())
            self._leaving = leaving.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.close()

    def _connection(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    @property
    def shares_process(self) -> bool:
        """Whether any task runs in this process."""
        return True

    @property
    def infos(self) -> tuple[Any, ...]:
        """What workers on a scheduler said of themselves at the start."""
        return ()

    @property
    def threads(self) -> int:
        """Tasks that run at once in one process, whose workers may be several."""
        return 1

    @property
    def workers(self) -> int:
        """Processes that run tasks."""
        return 1

    def give_back(self) -> None:
        """Have all processes return freed memory to the system, between stages."""
        give_back()

    def attended(self, report: Progress) -> Progress:
        """A progress function that raises ClusterLostError where the scheduler is gone: a stage may not ask for it."""
        return report

    def check_shared(self, path: str, *, writing: bool = True) -> None:
        """Refuse a store's path that not every worker sees, saying how many don't; nothing is written to one only read.

        A worker that joins later must see it before its first task; one that can't gets no tasks.
        """

    def map(self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], shared: Any = None) -> Iterator[Any]:
        """Yield ``function(*task)`` for each task, in order; ``function(*task, shared)`` if `shared` is given.

        Raises Exception: A task's own.
        """
        more, once = () if shared is None else (shared,), Once()
        for task in tasks:
            yield once.result(noted(function, *task, *more))
