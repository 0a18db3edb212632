"""What a fit by landmarks takes, before it takes it: takes X as read and the machine, gives a :class:`LandmarkPlan`.

The fit cuts its distances by the same arithmetic (:mod:`scalemani.planning.needs`) and refuses what this refuses.
Time is arithmetic on what a few seconds of the user's own graph show: rows of scattered landmarks, the first of the
landmarks themselves, a chunk on its way to the disk and back.

What a fit takes, before it takes it: takes X as read and the machine, gives a :class:`Plan`, or its refusal.

The fit makes the same plan and obeys it. Memory, disk and tasks are arithmetic (:mod:`scalemani.planning.memory`);
time is arithmetic on rates that :mod:`scalemani.planning.seconds` measures for the plan that is asked for.

What a plan says to people: takes a plan, gives lines.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.cluster.client import Cluster
from scalemani.cluster.machine import free_memory
from scalemani.errors import DoesNotFitError
from scalemani.geodesics.batches import PathGraph
from scalemani.geodesics.landmarks import Layout
from scalemani.geodesics.rows import power_of_two_scale
from scalemani.kernel.eigensolver import first_block
from scalemani.kernel.operators import later_reader, usual_precision
from scalemani.kernel.start import start_count
from scalemani.parameters import Parameters
from scalemani.planning import memory as budget
from scalemani.planning import needs, terms
from scalemani.planning import seconds as calibration
from scalemani.planning.needs import points_bytes, work_of
from scalemani.planning.seconds import (
    READS_SAMPLE,
    choice_seconds,
    chunk_seconds,
    expected_reads,
    sampled_reads,
    solving_seconds,
)
from scalemani.progress import duration
from scalemani.steps import distances as scattered_rows
from scalemani.steps.records import DistancesRecord, GraphRecord, NeighborsRecord, SolveRecord, StepFields
from scalemani.storage.files import open_location
from scalemani.storage.objects import ENDLESS
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks

STARTING = 4.0  # seconds: a process with its imports, a cluster, a store, the first use of compiled code


@dataclass(frozen=True, kw_only=True)
class AnyPlan:
    """What any fit takes.

    n_rows, n_distinct, n_vertices, n_edges: Rows of X, distinct ones, those in the graph, edges of the graph.
    tasks, threads, workers: Pieces of work, those that a process of workers does at once, such processes.
    memory_limit: Bytes a process may hold above its size at the start.
    memory: Stage -> part -> bytes, of the process that holds most in that stage.
    disk, disk_distances, disk_free: Bytes of the store, of the distances in it, and free there.
    refusal: Why the fit can't run, in one line.
    seconds: Stage -> seconds, where time was asked for.
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

    @property
    def memory_stage(self) -> str:
        """The stage that holds most; "none" where all are done."""
        return max(self.memory, key=lambda stage: sum(self.memory[stage].values()), default="none")

    @property
    def memory_peak(self) -> int:
        """Bytes that a process holds at the most above its size at the start."""
        return sum(self.memory.get(self.memory_stage, {}).values())

    def record(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {**asdict(self), "memory_peak": self.memory_peak, "memory_stage": self.memory_stage}


@dataclass(frozen=True, kw_only=True)
class Plan(AnyPlan):
    """What a fit that has all of D takes; as :class:`AnyPlan` has it, and:

    tile_size, tile_rows, most_columns: Side of a tile of D, rows of tiles, columns at which the solver's basis
        restarts.
    start_vertices: Points whose rows of D are found before the others, for the solver's first block; 0 for a few
        hundred points.
    reads, tasks_a_read: Reads of D that are expected after it is written, and pieces of work of each. `tasks` are
        these, one for 32 of the points to start from and one a row of tiles (none of the last two where D is given).
    disk_solving: Bytes more on the disk while it is solved: reads that are kept until then.
    """

    tile_size: int
    tile_rows: int
    most_columns: int
    start_vertices: int
    reads: int
    tasks_a_read: int
    disk_solving: int

    def __str__(self) -> str:
        return "\n".join(plan_lines(self))


def make_plan(
    given: Any,
    parameters: Parameters,
    cluster: Cluster,
    limit: int,
    folder: str,
    *,
    n: int,
    edges: int,
    method: str,
    tile: int | None = None,
    done: tuple[str, ...] = (),
) -> Plan:
    """The plan of a fit whose graph is known; one that does not fit says so in `refusal`.

    n, edges: Vertices and stored entries of the graph.
    tile: The tile size of D where it was begun.
    done: Stages, of "search", "start", "geodesics" and "solve", that the store has.
    """
    work, refusal = work_of(given, parameters, cluster, n, edges, done), None
    try:
        chosen = budget.choose(work, limit, tile or parameters.tile_size)
    except DoesNotFitError as error:
        smallest = tile or parameters.tile_size or budget.SMALLEST_TILE
        chosen, refusal = budget.Choice(smallest, work.least_columns), str(error)
    listed = n * (parameters.n_neighbors or 0) if given.kind in ("features", "distances") else 0
    distances = budget.stored_bytes(n, chosen.tile, work.compressed)
    model = terms.model_bytes(n, edges, listed, work.columns, work.components, points_bytes(given))
    reads = expected_reads(parameters, n, chosen.most_columns)
    kept = 0 if parameters.store is None else terms.kept_reads_bytes(n, reads, work.columns)
    if refusal is None and tile is None:
        try:
            budget.check_disk(folder, n, chosen.tile, model + kept, work.compressed)
        except DoesNotFitError as error:
            refusal = str(error)
    blocks = Blocks(n, chosen.tile)
    beginning = 0 if "start" in done else start_count(n, parameters.n_components, chosen.most_columns)
    return Plan(
        n_rows=int(given.n_rows),
        n_distinct=int(given.n_distinct),
        n_vertices=n,
        n_edges=edges // 2,
        method=method,
        tile_size=chosen.tile,
        tile_rows=len(blocks),
        most_columns=chosen.most_columns,
        start_vertices=beginning,
        reads=reads,
        tasks=budget.task_count(n, chosen.tile, reads, beginning, given=work.given),
        tasks_a_read=blocks.read_runs,
        threads=work.threads,
        workers=work.workers,
        memory_limit=limit,
        memory={name: stage.parts for name, stage in budget.stages(work, chosen.tile, chosen.most_columns).items()},
        disk=distances + model,
        disk_distances=distances,
        disk_solving=kept,
        disk_free=open_location(folder).free_bytes(),
        folder=folder,
        refusal=refusal,
    )


def plan_of_store(
    store: RunStore,
    given: Any,
    parameters: Parameters,
    cluster: Cluster,
    limit: int,
    fields: StepFields,
    *,
    new: bool,
) -> Plan:
    """The plan of what a store with a graph lacks, which one that is `new` has just been given."""
    graph, solved, written = store.needed(GraphRecord), store.record(SolveRecord), store.record(DistancesRecord)
    done = {  # a wider block, for more axes, is begun again from rows of D: they take less than the basis does then
        "search": not new,
        "start": written is not None,
        "geodesics": written is not None,
        "solve": solved is not None and solved.fields == fields.solve,
    }
    return make_plan(
        given,
        parameters,
        cluster,
        limit,
        store.path,
        n=graph.n_vertices,
        edges=0 if given.kind == "geodesic" else 2 * graph.n_edges,
        method=store.needed(NeighborsRecord).method,
        tile=store.blocks.size if store.has_distances else None,
        done=tuple(name for name, is_done in done.items() if is_done),
    )


# ---- time --------------------------------------------------------------------------------------------


def with_seconds(plan: Plan, parameters: Parameters, cluster: Cluster, matrix: Any, spent: dict[str, float]) -> Plan:
    """The plan with the time by stage, from what was spent on the first stages and a calibration of the others.

    matrix: The graph, in vertex order and the user's unit; None where D is given.
    """
    if plan.refusal is not None:
        return plan
    n, tile, reads, scattered = plan.n_vertices, plan.tile_size, plan.reads, 0.0
    side = min(tile, calibration.SAMPLE_TILE)
    vectors = np.random.default_rng(0).standard_normal((2 * side, first_block(n, parameters.n_components)))
    reader = later_reader(vectors, usual_precision(n))
    share = partial(_share, reader.share, reader.operand[:side], reader.operand[side:])
    scale = 1.0 if matrix is None else power_of_two_scale(np.asarray(matrix.data, np.float64))
    graph = None if matrix is None else PathGraph(scaled_graph(matrix, scale))
    rates = calibration.measure(cluster, graph, side, share, plan.folder)
    if graph is not None and reads:
        sample = calibration.sample_distances(cluster, graph, READS_SAMPLE, scattered_rows.SOURCES_A_TASK)
        reads = sampled_reads(sample.distances, parameters, n, plan.most_columns, scale) or reads
        scattered = sample.row
    slots = plan.threads * plan.workers
    reading = calibration.read_seconds(rates, n, tile, slots, plan.disk_distances, free_memory())
    if reads:
        reading += calibration.algebra_seconds(n, min(plan.most_columns // 2, 8 * reads))
    first = budget.start_tasks(plan.start_vertices)
    seconds = {
        **spent,
        "geodesics": calibration.start_seconds(scattered, first, scattered_rows.SOURCES_A_TASK, slots)
        + calibration.geodesic_seconds(rates, n, tile, slots, plan.disk_distances),
        "solve": reads * reading,
        "starting": STARTING,
    }
    tasks = budget.task_count(n, tile, reads, plan.start_vertices, given=matrix is None)
    return replace(plan, seconds=seconds, reads=reads, tasks=tasks)


def scaled_graph(matrix: Any, scale: float) -> sp.csr_array:
    """The graph as stage 4 stores it: any unit in float32's range."""
    weights = (np.asarray(matrix.data, np.float64) / scale).astype(np.float32)
    return sp.csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)


def _share(share: Any, there: Any, here: Any, tile: Any) -> Any:
    return share(tile, there, here)


def size(count: float) -> str:
    """Bytes in the unit that leaves a few digits.

    >>> size(512), size(7_123_456), size(1.5e12)
    ('512 B', '7.1 MB', '1.5 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


METHODS = {"kdtree": "k-d tree, exact", "brute": "all pairs, exact", "nndescent": "NN-descent", "graph": "given"}
STAGES = {
    "search": "neighbours and graph",
    "neighbors": "neighbours",
    "solve": "constant and axes",
    "start": "the solver's start",
}


def _verdict(plan: Any, more: int) -> str:
    """Whether the fit can run, or what does not let it; `more` is what the disk holds for a while."""
    if plan.refusal is None:
        return "fits"
    if plan.memory_peak > plan.memory_limit:
        return f"does not fit: {size(plan.memory_peak)} of memory, {size(plan.memory_limit)} is allowed"
    if plan.disk + more > plan.disk_free:
        return f"does not fit: {size(plan.disk + more)} of disk, {size(plan.disk_free)} is free"
    return f"does not fit: {plan.refusal}"


def plan_lines(plan: Any) -> list[str]:
    """The lines of ``scalemani plan``."""
    tiles = f"{plan.tile_rows} rows of tiles (squares of {plan.tile_size:,} x {plan.tile_size:,})"
    reads = f"about {plan.reads}" if plan.reads else "none"
    before = plan.tasks - plan.reads * plan.tasks_a_read
    made = "the solver's start and D" if before and plan.start_vertices else "D"
    return [
        *_head(plan, plan.disk_solving),
        f"distances D      {tiles}, {size(plan.disk_distances)}",
        f"reads of D       {reads}, besides the one while it is written",
        *_work(plan, f"{before} for {made}, {plan.tasks_a_read} a read"),
        *_disk_and_time(plan, "while it is solved, more", plan.disk_solving),
    ]


def landmark_plan_lines(plan: Any) -> list[str]:
    """The lines of ``scalemani plan`` for a fit by landmarks."""
    how = {"maxmin": "each farthest from those before it", "random": "at random", "given": "given by their rows"}
    rows, chunks = -(-plan.n_landmarks // plan.landmarks_a_task), -(-plan.n_vertices // plan.points_a_chunk)
    found, matrix = plan.tasks - 2 * chunks, f"{plan.n_vertices:,} x {plan.n_landmarks:,}, {size(plan.disk_distances)}"
    found_in = f"{found} of {plan.landmarks_a_task} landmarks or fewer, " if found else ""
    assert found in (0, rows)
    return [
        *_head(plan, plan.disk_turning),
        f"landmarks        {plan.n_landmarks:,}, {how[plan.landmark_method]}",
        f"their distances  {matrix} in {_blocks(chunks)} of {plan.points_a_chunk:,} points",
        *_work(plan, f"{found_in}{chunks} to turn and {chunks} to place a block of points"),
        *_disk_and_time(plan, "while they are turned, more", plan.disk_turning),
    ]


def _blocks(count: int) -> str:
    return f"{count:,} block{'' if count == 1 else 's'}"


def _head(plan: Any, more: int) -> list[str]:
    merged, outside = plan.n_rows - plan.n_distinct, plan.n_distinct - plan.n_vertices
    points = f"{plan.n_rows:,} rows" + (f", {merged:,} merged with equal ones" if merged else "")
    return [
        f"verdict          {_verdict(plan, more)}",
        f"points           {points}" + (f", {outside:,} outside the largest component" if outside else ""),
        f"neighbours       {METHODS.get(plan.method, plan.method)}",
        f"graph            {plan.n_edges:,} edges",
    ]


def _work(plan: Any, counts: str) -> list[str]:
    """Tasks and memory."""
    where, largest = "" if plan.workers == 1 else f" on each of {plan.workers} workers", plan.memory_stage
    lines = [
        f"pieces of work   {plan.tasks:,} ({counts}), {plan.threads} at once{where}",
        f"memory a process {size(plan.memory_peak)} above its size at the start; {size(plan.memory_limit)} is allowed",
    ]
    for stage, parts in plan.memory.items():
        lines.append(f"  {STAGES.get(stage, stage):<29}{size(sum(parts.values())):>10}")
        if stage == largest:
            lines += [f"    {name:<27}{size(held):>10}" for name, held in parts.items() if held]
    return lines


def _disk_and_time(plan: Any, while_: str, more: int) -> list[str]:
    free = f"and {size(plan.disk_free)} is free at" if plan.disk_free < ENDLESS else "in object storage, at"
    lines = [f"disk             {size(plan.disk)}, {free} {plan.folder}"]
    if more:
        lines.append(f"  {while_:<29}{size(more):>10}")
    if plan.seconds:
        lines.append(f"time             about {duration(sum(plan.seconds.values()), tenths=True)}")
        spent = {STAGES.get(name, name): duration(seconds, tenths=True) for name, seconds in plan.seconds.items()}
        lines += [f"  {name:<29}{said:>10}" for name, said in spent.items()]
    return lines


@dataclass(frozen=True, kw_only=True)
class LandmarkPlan(AnyPlan):
    """What a fit by landmarks takes; as :class:`scalemani.planning.plan.AnyPlan` has it, and:

    landmark_method: "maxmin", "random", or "given" of row numbers.
    landmarks_a_task, points_a_chunk: Rows that a task finds together, and points of a chunk of the matrix of distances.
        `tasks` are one a block of landmarks, and two a chunk of points, which is turned and then placed.
    disk_turning: Bytes more on the disk while the distances are turned.
    """

    n_landmarks: int
    landmark_method: str
    landmarks_a_task: int
    points_a_chunk: int
    disk_turning: int

    @property
    def layout(self) -> Layout:
        """How the distances are cut."""
        return Layout(self.n_vertices, self.n_landmarks, self.landmarks_a_task, self.points_a_chunk)

    def __str__(self) -> str:
        return "\n".join(landmark_plan_lines(self))


def make_landmark_plan(
    given: Any, parameters: Parameters, cluster: Cluster, limit: int, folder: str, *, n: int, edges: int, method: str
) -> LandmarkPlan:
    """The plan of a fit whose graph is known; one that does not fit says so in `refusal`.

    n, edges: Vertices and stored entries of the graph.
    """
    m = needs.count_of(parameters)
    work, refusal = needs.landmark_work(given, parameters, cluster, n, m, edges), None
    listed = n * (parameters.n_neighbors or 0) if given.kind in ("features", "distances") else 0
    model = needs.model_bytes(work, listed)
    try:
        layout = needs.choose_layout(work, limit)
        needs.check_landmark_disk(folder, layout, model)
    except DoesNotFitError as error:
        *_, layout = needs.layouts(n, m)
        refusal = str(error)
    rows, points = -(-m // layout.landmarks_a_task), -(-n // layout.points_a_chunk)
    return LandmarkPlan(
        n_rows=int(given.n_rows),
        n_distinct=int(given.n_distinct),
        n_vertices=n,
        n_edges=edges // 2,
        method=method,
        n_landmarks=m,
        landmark_method=parameters.landmark_method if isinstance(parameters.landmarks, Integral) else "given",
        landmarks_a_task=layout.landmarks_a_task,
        points_a_chunk=layout.points_a_chunk,
        tasks=(0 if work.given else rows) + 2 * points,
        threads=work.threads,
        workers=work.workers,
        memory_limit=limit,
        memory={name: stage.parts for name, stage in needs.stages(work, layout).items()},
        disk=needs.distance_bytes(layout) + model,
        disk_distances=needs.distance_bytes(layout),
        disk_turning=needs.turning_bytes(layout),
        disk_free=open_location(folder).free_bytes(),
        folder=folder,
        refusal=refusal,
    )


def with_landmark_seconds(
    plan: LandmarkPlan, parameters: Parameters, cluster: Cluster, matrix: Any, spent: dict[str, float]
) -> LandmarkPlan:
    """The plan with the time by stage, from what was spent on the first stages and a calibration of the others.

    matrix: The graph, in vertex order and the user's unit; None where D is given.
    """
    if plan.refusal is not None:
        return plan
    layout, slots, choice, row = plan.layout, plan.threads * plan.workers, 0.0, 0.0
    n, m = layout.n, layout.m
    if matrix is not None:
        scale = power_of_two_scale(np.asarray(matrix.data, np.float64))
        scaled = scaled_graph(matrix, scale)
        if plan.landmark_method == "maxmin":
            choice = choice_seconds(scaled, m)
        row = calibration.scattered_row_seconds(cluster, PathGraph(scaled), m)
        del scaled
    chunk = chunk_seconds(min(n, layout.points_a_chunk), m, parameters.n_components, plan.folder)
    written = (plan.disk_distances + plan.disk_turning) / chunk.disk
    together = layout.landmarks_a_task
    finding = -(-m // (together * slots)) * together * row
    seconds = {
        **spent,
        "landmarks": choice,
        "geodesics": max(finding + n * m * chunk.turned / slots, written),
        "solve": solving_seconds(m, parameters.n_components),
        "coordinates": n * m * chunk.placed / slots,
        "starting": STARTING,
    }
    return replace(plan, seconds=seconds)
