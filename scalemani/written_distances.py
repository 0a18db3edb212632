"""D of a fit: takes a run with its graph, leaves all of D in it, and what was read of it while it was written."""

from collections.abc import Callable

import numpy as np

from scalemani import geodesics
from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.given_distances import write_given
from scalemani.inputs import GeodesicInput, Input
from scalemani.kernel_shares import FirstRead, first_reader
from scalemani.parameters import Parameters
from scalemani.starting_block import kept_block

Report = Callable[[str, int, int], None]


def write_distances(
    store: RunStore,
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    tile: int,
    most_columns: int,
    report: Report,
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
        found = geodesics.compute_distances(cluster, store, report, reader)
        graph = geodesics.shared_graph(store.path, store.document["id"])
        median = geodesics.sampled_median(graph, parameters.random_state)
    FirstRead(block, found).save(store)
    store.finish("geodesics", {"tile_size": store.blocks.size}, median=median)
