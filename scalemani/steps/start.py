"""D of a fit: takes a run with its graph, leaves all of D in it, and what was read of it while it was written.

Where the solver begins: asks one stage for the geodesic rows of some vertices, and another for the block they give.

`starting_block` takes a run whose graph is there, gives the first block (n, b) of the solver, which is multiplied
while D is written. Up to 301 points that is the whole complement of 1; where so many axes are wanted that the block
would be half as wide as there are such vertices, it is a random one. `kept_block` gives the one that a stopped run has
made, if it has.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics import rows
from scalemani.geodesics.batches import paths_bytes
from scalemani.geodesics.rows import graph_bytes
from scalemani.kernel.eigensolver import first_block, start_block
from scalemani.kernel.operators import FIRST_BLOCK, FirstRead, first_reader
from scalemani.kernel.start import nystrom_block, start_block_bytes, start_count, start_vertices
from scalemani.parameters import Parameters
from scalemani.progress import Progress
from scalemani.steps import distances
from scalemani.steps.base import FitSize, Needs, Step
from scalemani.steps.cuts import TileCut, block_columns, fewer_components, given_row_bytes, scattered_task_bytes
from scalemani.steps.distances import SOURCES_A_TASK, given_rows, scattered_rows, write_given
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.storage.run import RunStore

STAGE = "start"
FIELDS = ("n_components", "correction", "random_state")  # of the parameters, which the block follows from


def starting_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """The first block for `parameters.correction`, orthonormal and orthogonal to 1.

    given: X, needed where D was given.
    most_columns: Of the solver's basis, as planned.
    """
    state = store.stage("graph")
    assert state is not None
    n, scale, seed = state["n_vertices"], state["scale"], parameters.random_state
    width = first_block(n, parameters.n_components)
    if not start_count(n, parameters.n_components, most_columns):
        return start_block(n, width, seed)
    vertices = start_vertices(n, most_columns, seed)
    if isinstance(given, GeodesicInput):
        rows = given_rows(given.checked, store.read_array("order"), vertices, scale)
    else:
        rows = scattered_rows(cluster, store, vertices)
    return nystrom_block(rows, vertices, width, parameters.n_components, parameters.correction_in(scale), seed)


def begun_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """The block that is lost with a damaged first read, if that was as wide as this solve's; else its own.

    A whole first read would have been taken for this solve, whatever it was made for, and the bits must be the same.
    """
    state, graph = store.stage(STAGE), store.stage("graph")
    if state is not None and graph is not None and FIRST_BLOCK in store.document.get("arrays", {}):
        n, began = graph["n_vertices"], replace(parameters, **state["fields"])
        if first_block(n, began.n_components) == first_block(n, parameters.n_components):
            return starting_block(store, given, began, cluster, int(state["most_columns"]))
    return starting_block(store, given, parameters, cluster, most_columns)


def as_begun(store: RunStore, parameters: Parameters, most_columns: int) -> int:
    """The basis that a stopped run of the same solve began with, where memory allows that still; else the planned one.

    Another basis would be right too, but end with other last bits.
    """
    state = store.stage(STAGE)
    if state is None or state["fields"] != _fields(parameters):
        return most_columns
    return min(most_columns, int(state["most_columns"]))


def kept_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """:func:`starting_block`, kept in the store until D is written: one that is there is not made again."""
    state, fields = store.stage(STAGE), _fields(parameters)
    if state is not None and state["fields"] == fields and state["most_columns"] == most_columns:
        try:
            return store.read_array(FIRST_BLOCK)
        except DamagedStoreError:
            pass  # it is made again, with the same bits
    block = starting_block(store, given, parameters, cluster, most_columns)
    store.write_array(FIRST_BLOCK, block)
    store.finish(STAGE, fields, most_columns=most_columns)
    return block


def _fields(parameters: Parameters) -> dict[str, Any]:
    """What the block follows from besides the graph and the basis."""
    correction = parameters.correction
    return {
        "n_components": int(parameters.n_components),
        "correction": correction if isinstance(correction, str | None) else float(correction),
        "random_state": parameters.random_state,
    }


def write_distances(
    store: RunStore,
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    tile: int,
    most_columns: int,
    report: Progress,
) -> None:
    """Write D as tiles, read for the first time while they are written; a run that stopped goes on.

    tile: Side of a tile, where D is not begun.
    most_columns: Of the solver's basis, which the first block follows from.
    """
    if store.stage("geodesics") is not None:
        if store.has_distances or store.stage("solve") is not None:
            return
        store.forget("geodesics")  # D was dropped, and the model that was made of it is taken back
    state = store.stage("graph")
    assert state is not None
    n = state["n_vertices"]
    if not store.has_distances:
        store.create_distances(n, tile, parameters.compression)
    report("geodesics", len(store.blocks) - len(store.missing_rows()), len(store.blocks))
    block = kept_block(store, given, parameters, cluster, most_columns)
    reader = first_reader(block)
    if isinstance(given, GeodesicInput):
        matrix, order = given.checked, store.read_array("order")
        found = write_given(
            store, lambda here: matrix.part(order[here], order[here.start :]), state["scale"], report, reader
        )
        sample = matrix.sample_within(order)
        median = float(np.median(sample)) / state["scale"] if len(sample) else 0.0
    else:
        found = distances.compute_distances(cluster, store, report, reader)
        graph = rows.shared_graph(store.path, store.document["id"])
        median = rows.sampled_median(graph, parameters.random_state)
    FirstRead(block, found).save(store)
    store.finish("geodesics", {"tile_size": store.blocks.size}, median=median)


class Start(Step):
    """The block of vectors that the solver begins with."""

    name, title = "start", "the solver's start"

    # ---- what it will take ----

    recorded = "geodesics"  # nothing is begun from it once D is there: for more axes it takes less than the basis then

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
        worker = {"graph": graph_bytes(n, edges) + paths_bytes(n, edges), f"{size.threads} tasks": searched}
        return Needs(
            client=client,
            worker={} if size.given else worker,
            remedies=fewer_components(size),
            tasks=tasks,
            pieces=[f"{tasks} to start from"] if tasks else [],
            numbers=numbers,
        )

    def seconds(self, size: FitSize, cut: TileCut, rates: Any) -> float | None:
        """Rounds of tasks."""
        tasks = self._tasks(size, cut)
        return -(-tasks // size.slots) * SOURCES_A_TASK * float(rates.sample.row) if tasks else None

    def _tasks(self, size: FitSize, cut: TileCut) -> int:
        """One for some of the rows; a given D is read by the client."""
        return 0 if size.given else -(-self._vertices(size, cut) // SOURCES_A_TASK)

    def _vertices(self, size: FitSize, cut: TileCut) -> int:
        """Points whose rows of D are found before the others."""
        done = self.name in size.done
        return 0 if done else start_count(size.n, size.parameters.n_components, cut.most_columns)
