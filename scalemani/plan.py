"""What a fit takes, before it takes it: takes X as read and the machine, gives a :class:`Plan`, or its refusal.

The fit makes the same plan and obeys it. Memory, disk and tasks are arithmetic (:mod:`scalemani.engine.budget`);
time is arithmetic on rates that :mod:`scalemani.engine.calibration` measures for the plan that is asked for.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.eigensolver import first_block
from scalemani.engine import budget, calibration, terms
from scalemani.engine.blocks import Blocks
from scalemani.engine.cluster import Cluster
from scalemani.engine.resources import free_disk, free_memory
from scalemani.engine.shortest_paths import PathGraph
from scalemani.engine.store import RunStore
from scalemani.errors import DoesNotFitError
from scalemani.expected_reads import READS_SAMPLE, expected_reads, sampled_reads
from scalemani.geodesics import power_of_two_scale
from scalemani.kernel_shares import later_reader, usual_precision
from scalemani.needs import points_bytes, start_count, work_of
from scalemani.parameters import Parameters
from scalemani.plan_text import plan_lines

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
    beginning = 0 if "start" in done else start_count(parameters, n, chosen.most_columns)
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
        disk_free=free_disk(folder),
        folder=folder,
        refusal=refusal,
    )


def plan_of_store(
    store: RunStore,
    given: Any,
    parameters: Parameters,
    cluster: Cluster,
    limit: int,
    fields: dict[str, Any],
    *,
    new: bool,
) -> Plan:
    """The plan of what a store with a graph lacks, which one that is `new` has just been given."""
    found, graph, solved = (store.stage(name) for name in ("neighbors", "graph", "solve"))
    assert found is not None and graph is not None
    done = {  # a wider block, for more axes, is begun again from rows of D: they take less than the basis does then
        "search": not new,
        "start": store.stage("geodesics") is not None,
        "geodesics": store.stage("geodesics") is not None,
        "solve": solved is not None and solved["fields"] == fields["solve"],
    }
    return make_plan(
        given,
        parameters,
        cluster,
        limit,
        store.path,
        n=graph["n_vertices"],
        edges=0 if given.kind == "geodesic" else 2 * graph["n_edges"],
        method=found["method"],
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
        sample = calibration.sample_distances(cluster, graph, READS_SAMPLE, terms.SOURCES_A_TASK)
        reads = sampled_reads(sample.distances, parameters, n, plan.most_columns, scale) or reads
        scattered = sample.row
    slots = plan.threads * plan.workers
    reading = calibration.read_seconds(rates, n, tile, slots, plan.disk_distances, free_memory())
    if reads:
        reading += calibration.algebra_seconds(n, min(plan.most_columns // 2, 8 * reads))
    first = budget.start_tasks(plan.start_vertices)
    seconds = {
        **spent,
        "geodesics": calibration.start_seconds(scattered, first, terms.SOURCES_A_TASK, slots)
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
