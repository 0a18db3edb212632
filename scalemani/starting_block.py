"""Where the solver begins: asks one stage for the geodesic rows of some vertices, and another for the block they give.

`starting_block` takes a run whose graph is there, gives the first block (n, b) of the solver, which is multiplied
while D is written. Up to 301 points that is the whole complement of 1; where so many axes are wanted that the block
would be half as wide as there are such vertices, it is a random one. `kept_block` gives the one that a stopped run has
made, if it has.
"""

from dataclasses import replace
from typing import Any

from scalemani.eigensolver import first_block, start_block
from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError
from scalemani.inputs import GeodesicInput, Input
from scalemani.kernel_shares import FIRST_BLOCK
from scalemani.needs import start_count
from scalemani.nystrom_start import Vectors, nystrom_block, start_vertices
from scalemani.parameters import Parameters
from scalemani.plan import Plan
from scalemani.scattered_rows import given_rows, scattered_rows

STAGE = "start"
FIELDS = ("n_components", "correction", "random_state")  # of the parameters, which the block follows from


def starting_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> Vectors:
    """The first block for `parameters.correction`, orthonormal and orthogonal to 1.

    given: X, needed where D was given.
    most_columns: Of the solver's basis, as planned.
    """
    state = store.stage("graph")
    assert state is not None
    n, scale, seed = state["n_vertices"], state["scale"], parameters.random_state
    width = first_block(n, parameters.n_components)
    if not start_count(parameters, n, most_columns):
        return start_block(n, width, seed)
    vertices = start_vertices(n, most_columns, seed)
    if isinstance(given, GeodesicInput):
        rows = given_rows(given.checked, store.read_array("order"), vertices, scale)
    else:
        rows = scattered_rows(cluster, store, vertices)
    return nystrom_block(rows, vertices, width, parameters.n_components, parameters.correction_in(scale), seed)


def begun_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> Vectors:
    """The block that is lost with a damaged first read, if that was as wide as this solve's; else its own.

    A whole first read would have been taken for this solve, whatever it was made for, and the bits must be the same.
    """
    state, graph = store.stage(STAGE), store.stage("graph")
    if state is not None and graph is not None and FIRST_BLOCK in store.document.get("arrays", {}):
        n, began = graph["n_vertices"], replace(parameters, **state["fields"])
        if first_block(n, began.n_components) == first_block(n, parameters.n_components):
            return starting_block(store, given, began, cluster, int(state["most_columns"]))
    return starting_block(store, given, parameters, cluster, most_columns)


def as_begun(store: RunStore, parameters: Parameters, planned: Plan) -> Plan:
    """The plan with the basis that a stopped run of the same solve began with, where memory allows that still.

    Another basis would be right too, but end with other last bits.
    """
    state = store.stage(STAGE)
    if state is None or state["fields"] != _fields(parameters):
        return planned
    return replace(planned, most_columns=min(planned.most_columns, int(state["most_columns"])))


def kept_block(
    store: RunStore, given: Input | None, parameters: Parameters, cluster: Cluster, most_columns: int
) -> Vectors:
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
