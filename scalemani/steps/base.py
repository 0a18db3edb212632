"""What a step is: one thing that a fit makes and its run keeps.

A method is a sequence of steps (:mod:`scalemani.methods`). Fit, resume, plan, verify, repair, export and the model loop
over them and know none by name. A step that has nothing to say about a question inherits the answer here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster, tasks_in_flight
from scalemani.parameters import Parameters
from scalemani.progress import Progress, no_progress
from scalemani.steps.records import DataRecord
from scalemani.storage.audit import Fault
from scalemani.storage.files import Location
from scalemani.storage.records import Record, StepRecord
from scalemani.storage.run import RunStore

Parts = dict[str, int]  # bytes by what holds them
ByKind = Mapping[str, list[Fault]]  # faults of one store


@dataclass(frozen=True, kw_only=True)
class FitSize:
    """The sizes that memory, disk, tasks and time of every step follow from.

    n, edges: Vertices, and stored entries of the graph (two an edge; 0 where D is given).
    features: Columns of X.
    listed: Entries of the neighbour lists.
    points: Bytes that the client holds all along: points, their digests, the search.
    search: Bytes of the neighbour search and of the graph's making at their most, besides those.
    given: Whether D is given, and copied by the client.
    threads, workers: Tasks that a process of workers runs at once, and such processes.
    embedded: Whether a worker is threads of the client's process.
    done: Names of the steps that the store has.
    begun: How D is cut where a store has begun it.
    reads: Reads of D that a sample told of; 0 where none was asked.
    factor: Nonzeros of a sparse factor of the graph, where a step makes one.
    """

    n: int
    edges: int
    features: int = 0
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
    factor: int = 0

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

    points: X as it was read (:mod:`scalemani.steps.inputs`), with its rows; None for a check or repair of a store.
    y: Labels or targets of the rows of X, as they were given, for methods that take them; `points.distinct` has the
        point of each row.
    cut: How D is cut, as the plan chose it.
    keep_pieces: Whether finished pieces are kept for the case that the fit is stopped.
    consumers: What takes its part of each row of tiles of D (not of distances to landmarks) while that is in memory, or
        is read back (:class:`scalemani.geodesics.reads.Consumer`); name -> consumer, which a step puts here before D
        is made. What they find is in `made` by that name.
    made: What a step has in memory for later ones, by name.
    """

    store: RunStore
    parameters: Parameters
    cluster: Cluster
    points: Any = None
    y: Any = None
    cut: Any = None
    report: Progress = no_progress
    keep_pieces: bool = True
    consumers: dict[str, Any] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether D is what the user gave."""
        return self.store.needed(DataRecord).given


class Step:
    """One thing that a fit makes and its run keeps.

    record: What it says in the store; its name is the step's, also in progress.
    title: Of its line in a plan.
    tiles: What its audit counts, in words.
    matrices: Folders of its matrices, which are no arrays.
    before_plan: Whether the plan of the other steps needs what it finds.
    late: Whether a fit with other parameters makes it again. If not, such a fit is refused: steps behind it took long.
    from_distances: Whether it can't be made again where D is gone.
    arrays: How the names of its arrays begin -> the kind of a fault in one of them.
    mends: Kind of fault -> what a repair does about it, in words.
    from_points: Kinds of fault that can't be mended without X where D was given.
    """

    record: type[StepRecord] = StepRecord
    title = ""
    tiles = ""
    matrices: tuple[str, ...] = ()
    before_plan = False
    late = False
    from_distances = True
    arrays: Mapping[str, str] = {}
    mends: Mapping[str, str] = {}
    from_points: tuple[str, ...] = ()

    # ---- what it will take, from sizes alone ----

    scratch_while = ""  # when its scratch is there, in words

    @property
    def in_memory(self) -> tuple[str, str]:
        """Name and title of its line of memory."""
        return self.name, self.title

    def fewest(self, parameters: Parameters) -> int:
        """Vertices that it needs at the least."""
        return 1

    def check_before(self, points: Any, parameters: Parameters) -> None:
        """Refuse parameters that the points can't have, before a file is made."""

    def cuts(self, size: FitSize) -> Iterator[Any]:
        """Ways to cut D, the best first; of the steps of a method one has them."""
        return iter(())

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """Memory, disk and tasks."""
        return Needs()

    def foretold(self, graph: Callable[[], Any], parameters: Parameters) -> int:
        """Nonzeros that its sparse factor of the graph (n, n), which it asks for, will have; 0 where it makes none."""
        return 0

    def sampled(self, size: FitSize, cut: Any, rates: Any) -> FitSize:
        """The sizes with what a sample of the user's own graph tells of them."""
        return size

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float | None:
        """Seconds that it takes; None where it has no line of its own.

        rates: :class:`scalemani.planning.seconds.Rates`.
        """
        return None

    def cut_in(self, store: RunStore) -> Any:
        """How D is cut in a store that has begun it, else None."""
        return None

    def finished(self, store: RunStore, parameters: Parameters) -> bool:
        """Whether a store has what is asked for, as far as memory goes."""
        state: Any = store.record(self.record)
        return state is not None and (not self.late or state.fields == self.fields(parameters, "features"))

    # ---- the work ----

    @property
    def name(self) -> str:
        """Of the step."""
        return self.record.STEP

    def fields(self, parameters: Parameters, kind: str) -> Record | None:
        """All of the parameters that its result follows from; `kind` is that of the points."""
        return None

    def done(self, work: Work) -> bool:
        """Whether the store has it, as it is asked for."""
        return self.finished(work.store, work.parameters)

    def run(self, work: Work) -> None:
        """Make it and record it; nothing where it is there."""
        raise NotImplementedError

    def begun(self, store: RunStore) -> list[str]:
        """What a stopped run has of it, in words."""
        return []

    # ---- what is damaged ----

    def left(self, store: RunStore) -> set[str]:
        """Arrays that it has left and that a finished fit goes on needing."""
        return set()

    def audit(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Every byte of its matrices; arrays have been looked at, and `broken` ones are known."""
        return iter(())

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """What it left against what earlier steps left; files are whole, but for those of `broken` arrays."""
        return iter(())

    def waits(self, store: RunStore) -> bool:
        """Whether it waits for the same fit, which makes it again from the points."""
        return False

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Make again what is damaged, or leave it to the same fit; a sentence for each thing that was done.

        waiting: Whether an earlier step waits for the fit.
        """
        return []

    # ---- what a fitted model asks ----

    def account(self, store: RunStore) -> dict[str, Any]:
        """What it adds to `spectrum_`."""
        return {}

    def kept(self, store: RunStore) -> bool:
        """Whether distances that it left are there."""
        return False

    def drop(self, store: RunStore) -> None:
        """Remove the distances that can be made again (``keep_distances=False``)."""

    def rows(self, store: RunStore, vertices: I64) -> F32 | None:
        """Rows of D for some vertices, from what is stored; None where that can't be."""
        return None

    @property
    def exported(self) -> tuple[str, ...]:
        """Folders that `copy` takes along."""
        return ()

    def copy(self, store: RunStore, folder: Location) -> None:
        """Copy what an export takes along besides arrays."""

    def coordinates(self, store: RunStore) -> F64 | None:
        """Coordinates of all vertices, if it is this step that gives them."""
        return None
