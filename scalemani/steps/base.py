"""What a step is: one thing that a fit makes and its run keeps.

A method is a sequence of steps (:mod:`scalemani.methods.base`). Fit, resume, plan, verify, repair, export and the model
loop over them and know none by name. A step that has nothing to say about a question inherits the answer here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalemani.cluster.client import Cluster, tasks_in_flight
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
    begun: How D is cut where a store has begun it.
    reads: Reads of D that a sample told of; 0 where none was asked.
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
    begun: Any = None
    reads: int = 0

    @property
    def slots(self) -> int:
        """Tasks that all workers run at once."""
        return self.threads * self.workers

    @property
    def window(self) -> int:
        """Tasks in flight, and the result that is being added."""
        return tasks_in_flight(self.slots) + 1


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a step takes, and what a plan says of it.

    client, worker: Bytes that the client and each worker process hold at the most, by what holds them.
    remedies: What to ask for instead, where that is too much.
    disk, scratch: Bytes that it leaves on the disk, and that are there besides while it is at work.
    disk_remedies: What to ask for instead, where they are too much.
    tasks, pieces: Pieces of work that it gives to the cluster, and these in words.
    lines: Of the plan: what of, and what.
    numbers: Attributes of the plan, which are keys of its record too.
    counted: What it counts besides vertices, such as "24 landmarks".
    """

    client: Parts = field(default_factory=dict)
    worker: Parts = field(default_factory=dict)
    remedies: Sequence[str] = ()
    disk: int = 0
    scratch: int = 0
    disk_remedies: Sequence[str] = ()
    tasks: int = 0
    pieces: Sequence[str] = ()
    lines: Sequence[tuple[str, str]] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    counted: Sequence[str] = ()


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

    scratch_while = ""  # when its scratch is there, in words
    recorded = ""  # name of the record that says that it is done, if not its own

    @property
    def in_memory(self) -> tuple[str, str]:
        """Name and title of its line of memory."""
        return self.name, self.title

    def fewest(self, parameters: Parameters) -> int:
        """Vertices that it needs at the least."""
        return 1

    def cuts(self, size: FitSize) -> Iterator[Any]:
        """Ways to cut D, the best first; of the steps of a method one has them."""
        return iter(())

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """Memory, disk and tasks."""
        return Needs()

    def sampled(self, size: FitSize, cut: Any, rates: Any) -> FitSize:
        """The sizes with what a sample of the user's own graph tells of them."""
        return size

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float | None:
        """Seconds that it takes; None where it has no line of its own.

        rates: :class:`scalemani.planning.seconds.Rates`.
        """
        return None

    def begun(self, store: RunStore) -> Any:
        """How D is cut in a store that has begun it, else None."""
        return None

    def finished(self, store: RunStore, fields: dict[str, Any]) -> bool:
        """Whether a store has what is asked for.

        fields: As :meth:`Parameters.stage_fields` gives them.
        """
        name = self.recorded or self.name
        state = store.stage(name)
        return state is not None and bool(state["fields"] == fields.get(name, state["fields"]))

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
