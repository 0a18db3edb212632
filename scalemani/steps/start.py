"""The block of vectors that the solver begins with: made before D, which is multiplied by it while it is written.

Up to 301 points it is the whole complement of 1. Above, it is made from the rows of D of a few vertices (Nystrom's
approximation); where so many axes are wanted that it would be half as wide as there are such vertices, it is random.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec.structs import asdict

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics.batches import paths_bytes
from scalemani.geodesics.rows import graph_bytes
from scalemani.kernel.eigensolver import first_block, start_block
from scalemani.kernel.operators import FIRST_BLOCK
from scalemani.kernel.start import nystrom_block, start_block_bytes, start_count, start_vertices
from scalemani.parameters import Parameters
from scalemani.steps.base import FitSize, Needs, Step, Work
from scalemani.steps.cuts import TileCut, block_columns, fewer_components, given_row_bytes, scattered_task_bytes
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.steps.records import DistancesRecord, GraphRecord, SolveRecord, StartFields, StartRecord
from scalemani.steps.rows import SOURCES_A_TASK, given_rows, scattered_rows
from scalemani.storage.run import RunStore


def starting_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """The first block for `parameters.correction`, orthonormal and orthogonal to 1.

    given: X, needed where D was given.
    most_columns: Of the solver's basis, as planned.
    """
    graph = store.needed(GraphRecord)

    def rows(vertices: I64) -> F32:
        if isinstance(given, GeodesicInput):
            return given_rows(given.checked, store.read_array("order"), vertices, graph.scale)
        return scattered_rows(cluster, store, vertices)

    axes, correction = parameters.n_components, parameters.correction_in(graph.scale)
    return block_from(rows, graph.n_vertices, axes, correction, parameters.random_state, most_columns)


def block_from(
    rows: Callable[[I64], F32], n: int, n_components: int, correction: str | float | None, seed: int, most_columns: int
) -> F64:
    """The first block of a D of n vertices, whose `rows` are asked for where it is made of them."""
    width = first_block(n, n_components)
    if not start_count(n, n_components, most_columns):
        return start_block(n, width, seed)
    vertices = start_vertices(n, most_columns, seed)
    return nystrom_block(rows(vertices), vertices, width, n_components, correction, seed)


def begun_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """The block of a first read that was damaged, made again; if it was not as wide as this solve's, a new one.

    A first read is taken for this solve whatever solve it was made for, so one that was lost must have the same bits.
    """
    state = store.record(StartRecord)
    if state is not None and FIRST_BLOCK in store.document.arrays:
        n, began = store.needed(GraphRecord).n_vertices, replace(parameters, **asdict(state.fields))
        if first_block(n, began.n_components) == first_block(n, parameters.n_components):
            return starting_block(store, given, began, cluster, state.most_columns)
    return starting_block(store, given, parameters, cluster, most_columns)


def kept_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """:func:`starting_block`, kept in the store until D is written: one that is there is not made again."""
    wanted = StartRecord(fields=_fields(parameters), most_columns=most_columns)
    if store.record(StartRecord) == wanted:
        try:
            return store.read_array(FIRST_BLOCK)
        except DamagedStoreError:
            pass  # it is made again, with the same bits
    block = starting_block(store, given, parameters, cluster, most_columns)
    store.write_array(FIRST_BLOCK, block)
    store.finish(wanted)
    return block


def _fields(parameters: Parameters) -> StartFields:
    """What the block follows from besides the graph and the basis."""
    return StartFields(
        n_components=int(parameters.n_components),
        correction=parameters.correction_in(1.0),
        random_state=parameters.random_state,
    )


class Start(Step):
    """The block of vectors that the solver begins with.

    last: The step for which D is made again where it is gone; None where D that was dropped is never asked for.
    """

    record, title = StartRecord, "the solver's start"
    late = True

    def __init__(self, last: Step | None = None) -> None:
        self.last = last

    def fields(self, parameters: Parameters, kind: str) -> StartFields:
        """What the block follows from besides the graph and the basis."""
        return _fields(parameters)

    def run(self, work: Work) -> None:
        """Make the block, unless D is there, which has been multiplied by it.

        A basis that a stopped run of the same solve began with is kept where memory allows it still: another one would
        be right too, but end with other last bits.
        """
        store, parameters = work.store, work.parameters
        state = store.record(StartRecord)
        if state is not None and state.fields == _fields(parameters):
            work.cut = work.cut._replace(most_columns=min(work.cut.most_columns, state.most_columns))
        done = store.record(SolveRecord) is not None if self.last is None else self.last.done(work)
        if store.record(DistancesRecord) is not None and (store.has_distances or done):
            return
        if not store.has_distances:  # empty, and what was read of another D goes with that
            store.forget(DistancesRecord.STEP)  # of a D that was dropped
            n = store.needed(GraphRecord).n_vertices
            store.create_distances(n, work.cut.tile, parameters.compression)
        work.made[self.name] = kept_block(store, work.points, parameters, work.cluster, work.cut.most_columns)

    # ---- what it will take ----

    def finished(self, store: RunStore, parameters: Parameters) -> bool:
        """Once D is there nothing is begun from it; for more axes it takes less than the basis does then."""
        return store.record(DistancesRecord) is not None

    def needs(self, size: FitSize, cut: TileCut) -> Needs:
        """Rows of D, then the block; nothing where the block is a random one."""
        n, edges, vertices = size.n, size.edges, self._vertices(size, cut)
        numbers = {"start_vertices": vertices}
        if not vertices:
            return Needs(numbers=numbers)
        rows, task, tasks = 4 * n * vertices, 4 * n * SOURCES_A_TASK, self._tasks(size, cut)
        flying = given_row_bytes(n) if size.given else min(size.window, tasks) * task
        block = start_block_bytes(n, vertices, block_columns(size))
        client = {"rows to start from": rows, "in flight, or the block": max(flying, block)}
        searched = size.threads * scattered_task_bytes(n, edges, SOURCES_A_TASK)
        worker = {"graph": graph_bytes(n, edges) + paths_bytes(n, edges), f"tasks, {size.threads} at once": searched}
        return Needs(
            client=client,
            worker={} if size.given else worker,
            remedies=fewer_components(size),
            tasks=tasks,
            pieces=[f"{tasks} to start from"] if tasks else [],
            numbers=numbers,
        )

    def seconds(self, size: FitSize, cut: TileCut, rates: Any) -> float | None:
        tasks = self._tasks(size, cut)
        return -(-tasks // size.slots) * SOURCES_A_TASK * float(rates.sample.row) if tasks else None

    def _tasks(self, size: FitSize, cut: TileCut) -> int:
        """One for some of the rows; a given D is read by the client."""
        return 0 if size.given else -(-self._vertices(size, cut) // SOURCES_A_TASK)

    def _vertices(self, size: FitSize, cut: TileCut) -> int:
        """Points whose rows of D are found before the others."""
        done = self.name in size.done
        return 0 if done else start_count(size.n, size.parameters.n_components, cut.most_columns)
