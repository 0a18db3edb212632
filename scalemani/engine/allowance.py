"""What each kind of process may hold: takes the user's limit and the workers' own, says if a stage fits, or why not.

Client and workers may be processes on different hosts: the workers' memory limit, which Dask enforces by pausing and
killing them, is theirs alone, and the user's `memory_limit` holds for either.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Parts = Mapping[str, int]


@dataclass(frozen=True)
class Allowance:
    """Bytes that processes may hold above their size at the start.

    worker_memory: The memory limit that a worker was started with, where that is what bounds `worker`; else 0.
    """

    client: int
    worker: int
    worker_memory: int = 0

    @classmethod
    def of(cls, limit: int, worker_limit: int | None, worker_memory: int, *, one_process: bool) -> "Allowance":
        """The allowance of `limit`, which the user gave, and of the workers' own; one process keeps to both."""
        worker = limit if worker_limit is None else worker_limit
        if one_process and worker_limit is not None:
            worker = min(limit, worker)
        binds = worker_limit is not None and worker == worker_limit
        return cls(worker if one_process else limit, worker, worker_memory if binds else 0)

    def holds(self, client: Parts, worker: Parts) -> bool:
        """Whether a stage fits."""
        return sum(client.values()) <= self.client and sum(worker.values()) <= self.worker

    def excess(self, client: Parts, worker: Parts) -> float:
        """How many times what is allowed a stage needs, in the process that is worse off."""
        return max(sum(client.values()) / max(self.client, 1), sum(worker.values()) / max(self.worker, 1))

    def in_words(self, client: Parts, worker: Parts, threads: int, name: str) -> tuple[str, list[str]]:
        """What a stage needs and what is allowed, and what to do about that."""
        in_worker = sum(worker.values()) / max(self.worker, 1) > sum(client.values()) / max(self.client, 1)
        parts = worker if in_worker else client
        largest = max(parts, key=lambda part: parts[part])
        of = f"({threads} threads; the most in {name}: {parts[largest]:,} for {largest})"
        needs = f"{sum(parts.values()):,} bytes a process {of}"
        if self.worker_memory and (in_worker or not worker):
            return (
                f"{needs} and the workers' memory limit of {self.worker_memory:,} bytes allows {self.worker:,}, "
                "less than what pauses them and less what they hold already",
                ["start Dask workers with a larger --memory-limit"],
            )
        return f"{needs} and memory_limit allows {self.worker if in_worker else self.client:,}", ["raise memory_limit"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What any fit asks of a machine.

    n, edges: Vertices, and stored entries of the graph (two an edge; 0 where D is given).
    threads, workers: Tasks that a process of workers runs at once, and such processes.
    embedded: Whether a worker is threads of the client's process.
    points: Bytes that the client holds all along: points, their digests, the search.
    search: Bytes of the neighbour search and of the graph's making at their most, besides those.
    given: Whether D is given, and copied by the client.
    done: Stages that the store has, which take nothing.
    worker_limit, worker_memory: Bytes that a process of workers may add, if others than the user's, and the worker's
        memory limit behind it.
    """

    n: int
    edges: int
    components: int
    threads: int
    workers: int = 1
    embedded: bool = True
    points: int = 0
    search: int = 0
    given: bool = False
    done: tuple[str, ...] = ()
    worker_limit: int | None = None
    worker_memory: int = 0

    def allowance(self, limit: int) -> Allowance:
        """What the two kinds of process may add, where the user allows `limit`."""
        return Allowance.of(limit, self.worker_limit, self.worker_memory, one_process=self.embedded)
