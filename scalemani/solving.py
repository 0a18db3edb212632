"""Stages 5 to 7 of a fit, in their order: takes a run with D, records the constant, the axes and their account in it.

The solver begins from what was read of D while it was written, the model is checked before it is recorded, and a
model that is there already stays until then.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani import geodesics
from scalemani.corrections import Solution, solve
from scalemani.embedding import Embedding, make_embedding, record_model
from scalemani.engine.cluster import Cluster
from scalemani.engine.objects import checksum
from scalemani.engine.read_log import StoredReads, drop_reads
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.store import RunStore
from scalemani.errors import FarRowsWarning, SelfCheckError
from scalemani.far_rows import RANK_TOLERANCE, FarRows, far_rows
from scalemani.inputs import GeodesicInput, Input
from scalemani.kernel import CentredKernels
from scalemani.kernel_shares import FirstRead
from scalemani.parameters import Parameters
from scalemani.scattered_rows import given_rows
from scalemani.self_check import check_fit, checked_vertices
from scalemani.spectrum import Remark, spectrum_account
from scalemani.starting_block import begun_block

Report = Callable[[str, int, int], None]


def solve_run(
    store: RunStore,
    given: Input | None,
    parameters: Parameters,
    cluster: Cluster,
    most_columns: int,
    fields: dict[str, Any],
    report: Report,
    *,
    keep_reads: bool,
    again: bool = False,
) -> None:
    """Solve for the correction that is asked for, and record the model; nothing if that is there already.

    store: With D, and what was read of it while it was written.
    given: X, whose rows are D's where D was given; not needed elsewhere.
    most_columns: Columns at which the solver's basis restarts.
    fields: What the stages were asked for, as :meth:`Parameters.stage_fields` gives it.
    keep_reads: Whether each read of D is kept in the store until the model is recorded there.
    again: Whether a model for this correction that is there is solved for again: it stays until the new one is
        recorded.
    Raises SelfCheckError: If what was found contradicts itself; nothing is recorded then.
    """
    state, graph, distances = store.stage("solve"), store.stage("graph"), store.stage("geodesics")
    if state is not None and state["fields"] == fields["solve"] and not again:
        drop_reads(store)
        return
    assert graph is not None and distances is not None
    report("solve", 0, 0)
    first = FirstRead.load(store)
    reads = None
    if keep_reads:
        begun = None if first is None else [checksum(first.block), checksum(first.found)]
        reads = StoredReads(store, {**fields["solve"], "most_columns": most_columns, "first_read": begun})
    kernels = CentredKernels(cluster, store, on_read=lambda reads: report("solve", reads, 0), first=first, reads=reads)

    @cache
    def far() -> FarRows:
        return far_rows(kernels.sums, distances["median"], lambda some: store.read_rows(some)[:, some])

    # Without the first read, which only damage takes away, far rows are not known before a product is made.
    if first is not None and far().tolerance < RANK_TOLERANCE:
        kernels.precision = "float64"  # float32 products lose what lies beside so large an eigenvalue
    del first  # the solver's from here on
    solution = solve(
        kernels,
        parameters.n_components,
        correction=parameters.correction_in(graph["scale"]),
        constant_solver=parameters.constant_solver,
        tol=parameters.tol,
        seed=parameters.random_state,
        most_columns=most_columns,
        start=lambda: begun_block(store, given, parameters, cluster, most_columns),
        tolerance=lambda: far().tolerance if kernels.precision == "float64" else RANK_TOLERANCE,
    )
    embedding = make_embedding(solution, kernels.sums, graph["scale"])
    account = spectrum_account(
        solution, embedding, kernels.sums, distances["median"], kernels.n_reads, parameters.tol,
        [*_said_of(given), *said_of_far_rows(store, far().vertices, far(), solution.tolerance)],
    )  # fmt: skip
    try:
        account["self_check"] = _checked(store, given, parameters, solution, embedding, kernels)
    except SelfCheckError:
        if reads is not None:
            reads.clear()  # whatever was wrong is not begun from again
        raise
    record_model(store, embedding, fields["solve"], account)
    if reads is not None:
        reads.clear()
    report("solve", max(kernels.n_reads, 1), max(kernels.n_reads, 1))


def _said_of(given: Input | None) -> list[Remark]:
    """What was said of given distances."""
    return [(None, given.longer)] if isinstance(given, GeodesicInput) and given.longer is not None else []


def said_of_far_rows(store: RunStore, vertices: NDArray[np.int64], far: FarRows, tolerance: float) -> list[Remark]:
    """What there is to say of `vertices` that are far from all others, if there are any, by their rows in X."""
    rows = np.flatnonzero(np.isin(store.read_array("vertex"), vertices))
    return [(FarRowsWarning, far.sentence(rows.tolist(), tolerance))] if len(vertices) else []


def _checked(
    store: RunStore,
    given: Input | None,
    parameters: Parameters,
    solution: Solution,
    embedding: Embedding,
    kernels: CentredKernels,
) -> dict[str, Any]:
    """The self-check, with the rows that it needs found again."""
    vertices = checked_vertices(store, parameters.random_state)
    if isinstance(given, GeodesicInput):
        rows = given_rows(given.checked, store.read_array("order"), vertices, embedding.scale)
    else:
        rows = geodesic_rows(geodesics.shared_graph(store.path, store.document["id"]), vertices)
    return check_fit(
        store,
        rows,
        vertices,
        solution,
        embedding,
        kernels.sums,
        precision=kernels.precision,
        projection=parameters.projection,
        tol=parameters.tol,
        seed=parameters.random_state,
    )
