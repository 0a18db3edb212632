"""Memory and disk as arithmetic: the first cut of D that fits, or a refusal before any work.

Each step says what the client and a worker process hold at the most, part by part, from sizes alone. What any step
holds comes on top here: the points, the cluster and the code. Where the worker is threads of the client's own process
the two tables are one. Steps run one after the other, so the largest of them must stay within `memory_limit`, which is
what a process may hold above its size at the start.

Client and workers may be processes on different hosts: the workers' memory limit, which Dask enforces by pausing and
killing them, is theirs alone, and the user's `memory_limit` holds for either.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scalemani.cluster import machine
from scalemani.cluster.client import Cluster
from scalemani.cluster.machine import parse_memory
from scalemani.errors import DoesNotFitError
from scalemani.parameters import Parameters
from scalemani.steps.base import FitSize, Needs, Parts, Step
from scalemani.storage.files import open_location


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that processes may hold above their size at the start.

    worker_memory: The memory limit that a worker was started with, where that is what bounds `worker`; else 0.
    """

    client: int
    worker: int
    worker_memory: int = 0

    @classmethod
    def of(cls, parameters: Parameters, cluster: Cluster, limit: int) -> "MemoryLimit":
        """What the user's `limit` and the workers' own allow; one process keeps to both.

        Dask pauses a worker before its own limit is reached, and the client's free memory, which is what is allowed
        unless the user says more, is that of another host.
        """
        workers = cluster.infos
        hosts = Counter(host for host, _ in {(said.host, said.process) for said in workers})
        found = [(said.room, said.limit) for said in workers if said.room is not None and said.limit is not None]
        if parameters.memory_limit is not None and workers:
            found.append((parse_memory(parameters.memory_limit), 0))
        elif not cluster.shares_process:
            found += [(said.free // 2 // hosts[said.host], 0) for said in workers if said.room is None]
        room, memory = min(found, default=(limit, 0))
        if not cluster.shares_process:
            return cls(limit, room, memory)
        return cls(limit, limit) if limit < room else cls(room, room, memory)

    def excess(self, holding: "Holding") -> float:
        """How many times what is allowed a step needs, in the process that is worse off."""
        client, worker = sum(holding.client.values()), sum(holding.worker.values())
        return max(client / max(self.client, 1), worker / max(self.worker, 1))

    def in_words(self, holding: "Holding", threads: int) -> tuple[str, list[str]]:
        """What a step needs and what is allowed, and what to do about that."""
        client, worker = holding.client, holding.worker
        in_worker = sum(worker.values()) / max(self.worker, 1) > sum(client.values()) / max(self.client, 1)
        parts = worker if in_worker else client
        largest = max(parts, key=lambda part: parts[part])
        of = f"for {holding.title} ({threads} threads; {parts[largest]:,} of them for {largest})"
        needs = f"{sum(parts.values()):,} bytes a process {of}"
        if self.worker_memory and (in_worker or not worker):
            return (
                f"{needs} and the workers' memory limit of {self.worker_memory:,} bytes allows {self.worker:,}, "
                "less than what pauses them and less what they hold already",
                ["start Dask workers with a larger --memory-limit"],
            )
        return f"{needs} and memory_limit allows {self.worker if in_worker else self.client:,}", ["raise memory_limit"]


@dataclass(frozen=True)
class Holding:
    """What the two kinds of process hold during a step; `worker` is empty where there is one process.

    name, title: Of the line in a plan.
    """

    name: str
    title: str
    needs: Needs
    client: Parts
    worker: Parts

    @property
    def parts(self) -> Parts:
        """Parts of the larger process."""
        return max(self.client, self.worker, key=lambda parts: sum(parts.values()))

    @property
    def peak(self) -> int:
        """Bytes of the larger process."""
        return sum(self.parts.values())


def holdings(steps: Sequence[Step], size: FitSize, cut: Any) -> list[Holding]:
    """What is held during each step that is to be done and holds anything."""
    code, found = {"cluster and code": machine.FIRST_USE}, []
    for step in steps:
        needs = Needs() if step.name in size.done else step.needs(size, cut)
        if needs.client or needs.worker:
            apart = {} if size.embedded else needs.worker
            client = {"points": size.points, **needs.client, **(needs.worker if size.embedded else {}), **code}
            found.append(Holding(*step.in_memory, needs, client, {**apart, **code} if apart else {}))
    return found


def choose(steps: Sequence[Step], size: FitSize, limit: MemoryLimit) -> tuple[Any, str | None]:
    """The best cut of D within a limit; if none is, the one that needs least, and why that does not fit."""
    least, worst, maker = None, float("inf"), distances_of(steps)
    for cut in (None,) if maker is None else maker.cuts(size):
        excess = max((limit.excess(holding) for holding in holdings(steps, size, cut)), default=0.0)
        if excess <= 1:
            return cut, None
        if excess <= worst:
            least, worst = cut, excess
    return least, refusal(steps, size, limit, least)


def distances_of(steps: Sequence[Step]) -> Step | None:
    """The step that makes D, which the others follow in how that is cut; None of a method without D."""
    return next((step for step in steps if type(step).cuts is not Step.cuts), None)


def refusal(steps: Sequence[Step], size: FitSize, limit: MemoryLimit, cut: Any) -> str:
    """Why a cut does not fit, and what would: one line."""
    most = max(holdings(steps, size, cut), key=limit.excess)
    said, change = limit.in_words(most, size.threads)
    if size.threads > 1 and most.needs.worker:
        change.append("give a Dask scheduler whose workers have fewer threads")
    return f"{counted(steps, size, cut)} need {said}: {_or([*change, *most.needs.remedies])}"


def check_disk(folder: str | os.PathLike[str], steps: Sequence[Step], size: FitSize, cut: Any) -> None:
    """Refuse a store that doesn't fit on its disk.

    Raises DoesNotFitError: Naming what is needed and what is free.
    """
    asked = {step: step.needs(size, cut) for step in steps}
    needed, free = sum(needs.disk + needs.scratch for needs in asked.values()), open_location(folder).free_bytes()
    if needed > free:
        more = [f" ({needs.scratch:,} of them {step.scratch_while})" for step, needs in asked.items() if needs.scratch]
        change = [remedy for needs in asked.values() for remedy in needs.disk_remedies]
        raise DoesNotFitError(
            f"the files of {counted(steps, size, cut)} need {needed:,} bytes{''.join(more)} and {free:,} are free at "
            f"{str(folder)!r}: give {_or(['a store on a larger disk', *change, 'free some space'])}"
        )


def counted(steps: Sequence[Step], size: FitSize, cut: Any) -> str:
    """What the fit is of, such as "300 points and 24 landmarks"."""
    return " and ".join([f"{size.n:,} points", *(words for step in steps for words in step.needs(size, cut).counted)])


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, or {words[-1]}"
