"""What a step is: one thing that a fit makes and its run keeps.

A method is a sequence of steps (:mod:`scalemani.methods.base`). Fit, resume, plan, verify, repair, export and the model
loop over them and know none by name. A step that has nothing to say about a question inherits the answer here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalemani.cluster.client import Cluster
from scalemani.parameters import Parameters
from scalemani.progress import Progress, no_progress
from scalemani.storage.audit import Fault
from scalemani.storage.run import RunStore

Parts = dict[str, int]  # bytes by what holds them


@dataclass(frozen=True, kw_only=True)
class FitSize:
    """The sizes that memory, disk, tasks and time of every step follow from.

    n, edges: Vertices, and stored entries of the graph (two an edge; 0 where D is given).
    listed: Entries of the neighbour lists.
    points: Bytes that the client holds all along: points, their digests, the search.
    search: Bytes of the neighbour search and of the graph's making at their most, besides those.
    given: Whether D is given, and copied by the client.
    threads, workers: Tasks that a process of workers runs at once, and such processes.
    embedded: Whether a worker is threads of the client's process.
    done: Names of the steps that the store has.
    """

    n: int
    edges: int
    listed: int = 0
    parameters: Parameters
    points: int = 0
    search: int = 0
    given: bool = False
    threads: int = 1
    workers: int = 1
    embedded: bool = True
    done: tuple[str, ...] = ()


@dataclass
class Work:
    """All that a step works with.

    points: X as it was read (:mod:`scalemani.steps.inputs`); None where a repair or a check has only the store.
    y: Labels or targets of X's rows, if the method takes any.
    cut: How D is cut, as the plan chose it.
    made: What earlier steps of this fit hold in memory for later ones, by their names.
    """

    store: RunStore
    parameters: Parameters
    cluster: Cluster
    points: Any = None
    y: Any = None
    cut: Any = None
    report: Progress = no_progress
    keep_pieces: bool = True
    made: dict[str, Any] = field(default_factory=dict)


class Step:
    """One thing that a fit makes and its run keeps.

    name: Of its record in the store, and of its line of progress.
    title: Of its line in a plan.
    arrays: Every array that it leaves in the store.
    """

    name = ""
    title = ""
    arrays: Mapping[str, Any] = {}

    # ---- what it will take, from sizes alone ----

    def cuts(self, size: FitSize) -> Iterator[Any]:
        """Ways to cut D, the best first; of the steps of a method one has them."""
        return iter(())

    def memory(self, size: FitSize, cut: Any) -> tuple[Parts, Parts]:
        """Bytes that the client and each worker process hold at the most, by what holds them."""
        return {}, {}

    def disk(self, size: FitSize, cut: Any) -> int:
        """Bytes that it leaves on the disk."""
        return 0

    def scratch(self, size: FitSize, cut: Any) -> int:
        """Bytes more that are on the disk while it is at work."""
        return 0

    def tasks(self, size: FitSize, cut: Any) -> int:
        """Pieces of work that it gives to the cluster."""
        return 0

    # ---- the work ----

    def fields(self, parameters: Parameters, kind: str) -> dict[str, Any]:
        """All of the parameters that its result follows from."""
        return {}

    def run(self, work: Work) -> None:
        """Make it and record it; nothing where it is there."""
        raise NotImplementedError

    def check(self, work: Work) -> Iterator[Fault]:
        """What it left against what earlier steps left; its files have been checked already."""
        return iter(())

    def remake(self, work: Work, faults: Sequence[Fault]) -> list[str]:
        """Make again what is damaged: a sentence for each thing that was done."""
        return []
