"""What a fit takes, before it takes it: one :class:`Plan` for every method, made of what its steps say.

The fit makes the same plan and obeys it. Memory, disk and tasks are arithmetic on sizes
(:mod:`scalemani.planning.memory`); time is arithmetic on rates that :mod:`scalemani.planning.seconds` measures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from typing import Any

from scalemani.cluster.client import Cluster
from scalemani.errors import DoesNotFitError
from scalemani.geodesics.rows import shared_graph
from scalemani.parameters import Parameters
from scalemani.planning.memory import MemoryLimit, check_disk, choose, distances_of, holdings
from scalemani.planning.seconds import STARTING, Rates
from scalemani.steps.base import FitSize, Needs, Step
from scalemani.steps.inputs import SEARCHED, Input
from scalemani.steps.records import GraphRecord, NeighborsRecord
from scalemani.storage.files import open_location
from scalemani.storage.objects import ENDLESS
from scalemani.storage.run import RunStore
from scalemani.words import bytes_in_words, duration

SEARCHES = {"kdtree": "k-d tree, exact", "brute": "all pairs, exact", "nndescent": "NN-descent", "graph": "given"}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a fit takes. `numbers` are attributes, too.

    n_rows, n_distinct, n_vertices, n_edges: Rows of X, distinct ones, those in the graph, edges of the graph.
    method: How neighbours are searched for.
    tasks, threads, workers: Pieces of work, those that a process of workers does at once, such processes.
    memory_limit: Bytes a process may hold above its size at the start.
    memory: Step -> part -> bytes, of the process that holds most in that step.
    disk, disk_distances, disk_free: Bytes of the store, of the distances in it, and free there.
    refusal: Why the fit can't run, in one line.
    seconds: Step -> seconds, where time was asked for.
    cut: How D is cut, if the method makes any.
    numbers: What the steps of the method count (:class:`scalemani.steps.base.Needs`).
    """

    n_rows: int
    n_distinct: int
    n_vertices: int
    n_edges: int
    method: str
    tasks: int
    threads: int
    workers: int
    memory_limit: int
    memory: Mapping[str, Mapping[str, int]]
    disk: int
    disk_distances: int
    disk_free: int
    folder: str
    refusal: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    steps: Sequence[Step] = field(repr=False)
    size: FitSize = field(repr=False)
    cut: Any = field(repr=False)

    def __getattr__(self, name: str) -> Any:
        """A number of one of the steps."""
        if name in vars(self).get("numbers", {}):
            return self.numbers[name]
        raise AttributeError(f"the plan has no {name!r}")

    @property
    def memory_stage(self) -> str:
        """The step that holds most; "none" where all are done."""
        return max(self.memory, key=lambda name: sum(self.memory[name].values()), default="none")

    @property
    def memory_peak(self) -> int:
        """Bytes that a process holds at the most above its size at the start."""
        return sum(self.memory.get(self.memory_stage, {}).values())

    def record(self) -> dict[str, Any]:
        """All of it as JSON values."""
        own = [one.name for one in fields(self) if one.name not in ("steps", "size", "cut", "numbers")]
        found = {**deepcopy({name: getattr(self, name) for name in own}), **self.numbers}
        return {**found, "memory_peak": self.memory_peak, "memory_stage": self.memory_stage}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def size_of(
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    n: int,
    edges: int,
    done: tuple[str, ...] = (),
    begun: Any = None,
    factor: int = 0,
) -> FitSize:
    """The sizes of a fit of n vertices and `edges` stored entries.

    done, begun: Names of the steps that a store has, and how D is cut there.
    factor: Nonzeros of a sparse factor.
    """
    listed = n * (parameters.n_neighbors or 0) if given.kind in SEARCHED else 0
    return FitSize(
        n=n,
        edges=edges,
        features=given.n_features,
        listed=listed,
        parameters=parameters,
        points=given.held(),
        search=given.search_bytes(parameters, edges),
        given=given.kind == "geodesic",
        threads=cluster.threads,
        workers=cluster.workers,
        embedded=cluster.shares_process,
        done=done,
        begun=begun,
        factor=factor,
    )


def check_early(
    steps: Sequence[Step], given: Input, parameters: Parameters, cluster: Cluster, limit: int, folder: str
) -> None:
    """Refuse, before the neighbour search, what can't fit whatever it finds."""
    n = given.n_distinct
    if parameters.disconnected == "largest":  # that component may be small
        n = max(step.fewest(parameters) for step in steps)

    def chosen() -> tuple[FitSize, Any]:
        size = size_of(given, parameters, cluster, n, given.least_edges(parameters, n))
        cut, refusal = choose(steps, size, MemoryLimit.of(parameters, cluster, limit))
        if refusal is not None:
            raise DoesNotFitError(refusal)
        return size, cut

    size, cut = chosen()  # before a search is made, which takes memory itself
    if given.make_search(parameters):
        size, cut = chosen()  # again, since the search has its memory by then
    check_disk(folder, steps, size, cut)


def make_plan(
    steps: Sequence[Step], given: Input, size: FitSize, cluster: Cluster, limit: int, folder: str, method: str
) -> Plan:
    """The plan of a fit whose graph is known; one that does not fit says so in `refusal`.

    size: As :func:`size_of` gives it.
    method: How neighbours were found.
    """
    cut, refusal = choose(steps, size, MemoryLimit.of(size.parameters, cluster, limit))
    if refusal is None and size.begun is None:
        try:
            check_disk(folder, steps, size, cut)
        except DoesNotFitError as error:
            refusal = str(error)
    needs, maker = {step: step.needs(size, cut) for step in steps}, distances_of(steps)
    return Plan(
        n_rows=int(given.n_rows),
        n_distinct=int(given.n_distinct),
        n_vertices=size.n,
        n_edges=size.edges // 2,
        method=method,
        tasks=sum(asked.tasks for asked in needs.values()),
        threads=size.threads,
        workers=size.workers,
        memory_limit=limit,
        memory={holding.name: holding.parts for holding in holdings(steps, size, cut)},
        disk=sum(asked.disk for asked in needs.values()),
        disk_distances=0 if maker is None else needs[maker].disk,
        disk_free=open_location(folder).free_bytes(),
        folder=folder,
        refusal=refusal,
        numbers=_numbers(needs.values()),
        steps=steps,
        size=size,
        cut=cut,
    )


def _numbers(needs: Iterable[Needs]) -> dict[str, Any]:
    return {name: value for asked in needs for name, value in asked.numbers.items()}


def plan_of_store(
    steps: Sequence[Step],
    store: RunStore,
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    limit: int,
    *,
    new: bool,
) -> Plan:
    """The plan of what a store with a graph lacks; of the whole fit where the graph is `new`."""
    graph, maker = store.needed(GraphRecord), distances_of(steps)
    done = () if new else tuple(step.name for step in steps if step.finished(store, parameters))
    edges, begun = 0 if given.kind == "geodesic" else 2 * graph.n_edges, None if maker is None else maker.cut_in(store)
    behind = [step for step in steps if step.name not in done]
    factor = factor_of(behind, lambda: shared_graph(store.path, store.identity), parameters)
    size = size_of(given, parameters, cluster, graph.n_vertices, edges, done, begun, factor)
    return make_plan(steps, given, size, cluster, limit, store.path, store.needed(NeighborsRecord).method)


def factor_of(steps: Sequence[Step], graph: Callable[[], Any], parameters: Parameters) -> int:
    """Nonzeros of the largest factor that these steps make of a graph, which is read only for one that makes any."""
    return max((step.foretold(graph, parameters) for step in steps), default=0)


def with_seconds(plan: Plan, cluster: Cluster, matrix: Any, spent: Mapping[str, float]) -> Plan:
    """The plan with the time by step, from what was spent on the first ones and rates for the others.

    matrix: The graph, in vertex order and the user's unit; None where D is given.
    """
    if plan.refusal is not None:
        return plan
    steps, size, cut, rates = plan.steps, plan.size, plan.cut, Rates(cluster, matrix, plan.folder)
    for step in steps:
        size = step.sampled(size, cut, rates)
    told = {step.name: step.seconds(size, cut, rates) for step in steps}
    seconds = {**spent, **{name: taken for name, taken in told.items() if taken is not None}, "starting": STARTING}
    needs = [step.needs(size, cut) for step in steps]
    tasks = sum(asked.tasks for asked in needs)
    return replace(plan, seconds=seconds, size=size, tasks=tasks, numbers=_numbers(needs))


# ---- in words ------------------------------------------------------------------------------------------


def _lines(plan: Plan) -> list[str]:
    needs = {step: step.needs(plan.size, plan.cut) for step in plan.steps}
    scratch = {step.scratch_while: asked.scratch for step, asked in needs.items() if asked.scratch}
    merged, outside = plan.n_rows - plan.n_distinct, plan.n_distinct - plan.n_vertices
    points = f"{plan.n_rows:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    pieces = ", ".join(words for asked in needs.values() for words in asked.pieces)
    where = "" if plan.workers == 1 else f" on each of {plan.workers} workers"
    peak, allowed = bytes_in_words(plan.memory_peak), bytes_in_words(plan.memory_limit)
    free = f"and {bytes_in_words(plan.disk_free)} is free at" if plan.disk_free < ENDLESS else "in object storage, at"
    lines = [
        ("verdict", _verdict(plan, sum(scratch.values()))),
        ("points", points + (f", {outside:,} outside the largest component" if outside else "")),
        ("neighbours", SEARCHES.get(plan.method, plan.method)),
        *(line for asked in needs.values() for line in asked.lines),
        ("pieces of work", f"{plan.tasks:,} ({pieces}), {plan.threads} at once{where}" if plan.tasks else "none"),
        ("memory a process", f"{peak} above its size at the start; {allowed} is allowed"),
        ("disk", f"{bytes_in_words(plan.disk)}, {free} {plan.folder}"),
    ]
    labeled = [f"{label:<16} {text}" for label, text in lines]
    at = 1 + [label for label, _ in lines].index("memory a process")
    more = [_row(f"{when}, more", bytes_in_words(held)) for when, held in scratch.items()]
    return [*labeled[:at], *_memory(plan), *labeled[at:], *more, *_time(plan)]


def _row(title: str, value: str, indent: int = 2) -> str:
    return f"{'':<{indent}}{title:<{31 - indent}}{value:>10}"


def _memory(plan: Plan) -> list[str]:
    """By step, and by part where it is most."""
    titles, lines = dict(step.in_memory for step in plan.steps), []
    for name, parts in plan.memory.items():
        lines.append(_row(titles[name], bytes_in_words(sum(parts.values()))))
        if name == plan.memory_stage:
            lines += [_row(part, bytes_in_words(held), 4) for part, held in parts.items() if held]
    return lines


def _time(plan: Plan) -> list[str]:
    """By step, if it was asked for."""
    if not plan.seconds:
        return []
    titles = {step.name: step.title for step in plan.steps}
    whole = f"{'time':<16} about {duration(sum(plan.seconds.values()), tenths=True)}"
    return [whole, *(_row(titles.get(name, name), duration(s, tenths=True)) for name, s in plan.seconds.items())]


def _verdict(plan: Plan, scratch: int) -> str:
    """Whether the fit can run, or what does not let it."""
    if plan.refusal is None:
        return "fits"
    if plan.memory_peak > plan.memory_limit:
        peak, allowed = bytes_in_words(plan.memory_peak), bytes_in_words(plan.memory_limit)
        return f"does not fit: {peak} of memory, {allowed} is allowed"
    if plan.disk + scratch > plan.disk_free:
        needed, free = bytes_in_words(plan.disk + scratch), bytes_in_words(plan.disk_free)
        return f"does not fit: {needed} of disk, {free} is free"
    return f"does not fit: {plan.refusal}"
