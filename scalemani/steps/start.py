"""D of a fit: takes a run with its graph, leaves all of D in it, and what was read of it while it was written.

Where the solver begins: asks one stage for the geodesic rows of some vertices, and another for the block they give.

`starting_block` takes a run whose graph is there, gives the first block (n, b) of the solver, which is multiplied
while D is written. Up to 301 points that is the whole complement of 1; where so many axes are wanted that the block
would be half as wide as there are such vertices, it is a random one. `kept_block` gives the one that a stopped run has
made, if it has.
"""

from dataclasses import replace

import numpy as np
from msgspec.structs import asdict

from scalemani.aliases import F64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics import rows
from scalemani.kernel.eigensolver import first_block, start_block
from scalemani.kernel.operators import FIRST_BLOCK, FirstRead, first_reader
from scalemani.kernel.start import nystrom_block, start_count, start_vertices
from scalemani.parameters import Parameters
from scalemani.planning.plan import Plan
from scalemani.progress import Progress
from scalemani.steps import distances
from scalemani.steps.distances import given_rows, scattered_rows, write_given
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.steps.records import DistancesRecord, GraphRecord, SolveRecord, StartFields, StartRecord
from scalemani.storage.run import RunStore


def starting_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> F64:
    """The first block for `parameters.correction`, orthonormal and orthogonal to 1.

    given: X, needed where D was given.
    most_columns: Of the solver's basis, as planned.
    """
    graph, seed = store.needed(GraphRecord), parameters.random_state
    n, scale = graph.n_vertices, graph.scale
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
    state = store.record(StartRecord)
    if state is not None and FIRST_BLOCK in store.document.arrays:
        n, began = store.needed(GraphRecord).n_vertices, replace(parameters, **asdict(state.fields))
        if first_block(n, began.n_components) == first_block(n, parameters.n_components):
            return starting_block(store, given, began, cluster, state.most_columns)
    return starting_block(store, given, parameters, cluster, most_columns)


def as_begun(store: RunStore, parameters: Parameters, planned: Plan) -> Plan:
    """The plan with the basis that a stopped run of the same solve began with, where memory allows that still.

    Another basis would be right too, but end with other last bits.
    """
    state = store.record(StartRecord)
    if state is None or state.fields != _fields(parameters):
        return planned
    return replace(planned, most_columns=min(planned.most_columns, state.most_columns))


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
    solve = parameters.step_fields("features").solve
    return StartFields(
        n_components=solve.n_components, correction=solve.correction, random_state=parameters.random_state
    )


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
    if store.record(DistancesRecord) is not None:
        if store.has_distances or store.record(SolveRecord) is not None:
            return
        store.forget(DistancesRecord.STEP)  # D was dropped, and the model that was made of it is taken back
    n, scale = store.needed(GraphRecord).n_vertices, store.needed(GraphRecord).scale
    if not store.has_distances:
        store.create_distances(n, tile, parameters.compression)
    report("geodesics", len(store.blocks) - len(store.missing_rows()), len(store.blocks))
    block = kept_block(store, given, parameters, cluster, most_columns)
    reader = first_reader(block)
    if isinstance(given, GeodesicInput):
        matrix, order = given.checked, store.read_array("order")
        found = write_given(store, lambda here: matrix.part(order[here], order[here.start :]), scale, report, reader)
        sample = matrix.sample_within(order)
        median = float(np.median(sample)) / scale if len(sample) else 0.0
    else:
        found = distances.compute_distances(cluster, store, report, reader)
        graph = rows.shared_graph(store.path, store.identity)
        median = rows.sampled_median(graph, parameters.random_state)
    FirstRead(block, found).save(store)
    store.finish(DistancesRecord(tile_size=store.blocks.size, median=median))
