"""Constant and axes by landmarks: takes the landmarks' own distances, records these and all coordinates.

The (m, m) square is in memory, and the solver of the full method works on it (:mod:`scalemani.kernel.operators`), to a
tolerance that its cheap products allow. What is found is checked by rows that were turned and read back.

Stages 5 to 7 of a fit, in their order: takes a run with D, records the constant, the axes and their account in it.

The solver begins from what was read of D while it was written, the model is checked before it is recorded, and a
model that is there already stays until then.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import asdict

from scalemani.aliases import F32, I64
from scalemani.cluster.client import Cluster
from scalemani.embedding.coordinates import Embedding, make_embedding, record_model
from scalemani.embedding.spectrum import Remark, spectrum_account
from scalemani.errors import DamagedStoreError, FarRowsWarning, SelfCheckError
from scalemani.geodesics import rows as scaled_graph
from scalemani.geodesics.landmarks import COORDINATES, COUNTS, LANDMARKS, SQUARE, Layout, symmetric_square
from scalemani.geodesics.paths import geodesic_rows
from scalemani.kernel.constant import Solution, solve
from scalemani.kernel.far_rows import RANK_TOLERANCE, FarRows, far_rows
from scalemani.kernel.operators import CentredKernels, FirstRead, LandmarkKernels
from scalemani.parameters import Parameters
from scalemani.progress import Progress
from scalemani.projection.landmarks import place_all
from scalemani.steps.checks import CHECKED, check_fit, check_landmark_fit, checked_vertices
from scalemani.steps.distances import given_rows
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.steps.records import DistancesRecord, GraphRecord, SolveFields, SolveRecord
from scalemani.steps.start import begun_block
from scalemani.storage.files import checksum
from scalemani.storage.run import RunStore


def solve_run(
    store: RunStore,
    given: Input | None,
    parameters: Parameters,
    cluster: Cluster,
    most_columns: int,
    fields: SolveFields,
    report: Progress,
    *,
    keep_reads: bool,
    again: bool = False,
) -> None:
    """Solve for the correction that is asked for, and record the model; nothing if that is there already.

    store: With D, and what was read of it while it was written.
    given: X, whose rows are D's where D was given; not needed elsewhere.
    most_columns: Columns at which the solver's basis restarts.
    fields: What was asked for.
    keep_reads: Whether each read of D is kept in the store until the model is recorded there.
    again: Whether a model for this correction that is there is solved for again: it stays until the new one is
        recorded.
    Raises SelfCheckError: If what was found contradicts itself; nothing is recorded then.
    """
    state = store.record(SolveRecord)
    if state is not None and state.fields == fields and not again:
        store.pieces("solve").drop()  # of a fit that was killed before it did
        return
    scale, median = store.needed(GraphRecord).scale, store.needed(DistancesRecord).median
    report("solve", 0, 0)
    first = FirstRead.load(store)
    pieces = None
    if keep_reads:
        begun = None if first is None else [checksum(first.block), checksum(first.found)]
        pieces = store.pieces("solve", {**asdict(fields), "most_columns": most_columns, "first_read": begun})
    kernels = CentredKernels(cluster, store, on_read=lambda reads: report("solve", reads, 0), first=first, kept=pieces)

    @cache
    def far() -> FarRows:
        return far_rows(kernels.sums, median, lambda some: store.read_rows(some)[:, some])

    # Without the first read, which only damage takes away, far rows are not known before a product is made.
    if first is not None and far().tolerance < RANK_TOLERANCE:
        kernels.precision = "float64"  # float32 products lose what lies beside so large an eigenvalue
    del first  # the solver's from here on
    solution = solve(
        kernels,
        parameters.n_components,
        correction=parameters.correction_in(scale),
        constant_solver=parameters.constant_solver,
        tol=parameters.tol,
        seed=parameters.random_state,
        most_columns=most_columns,
        start=lambda: begun_block(store, given, parameters, cluster, most_columns),
        tolerance=lambda: far().tolerance if kernels.precision == "float64" else RANK_TOLERANCE,
    )
    embedding = make_embedding(solution, kernels.sums, scale)
    account = spectrum_account(
        solution, embedding, kernels.sums, median, kernels.n_reads, parameters.tol,
        [*_said_of(given), *said_of_far_rows(store, far().vertices, far(), solution.tolerance)],
    )  # fmt: skip
    try:
        account["self_check"] = _checked(store, given, parameters, solution, embedding, kernels)
    except SelfCheckError:
        if pieces is not None:
            pieces.drop()  # whatever was wrong is not begun from again
        raise
    record_model(store, embedding, fields, account)
    if pieces is not None:
        pieces.drop()
    report("solve", max(kernels.n_reads, 1), max(kernels.n_reads, 1))


def _said_of(given: Input | None) -> list[Remark]:
    """What was said of given distances."""
    return [(None, given.longer)] if isinstance(given, GeodesicInput) and given.longer is not None else []


def said_of_far_rows(store: RunStore, vertices: I64, far: FarRows, tolerance: float) -> list[Remark]:
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
        rows = geodesic_rows(scaled_graph.shared_graph(store.path, store.identity), vertices)
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


TIGHTER = 1e-3  # of the tolerance that is asked for: products of the square cost next to nothing
LEAST_TOL = 1e-10


def solve_landmarks(
    store: RunStore,
    parameters: Parameters,
    cluster: Cluster,
    fields: SolveFields,
    report: Progress,
    *,
    again: bool = False,
) -> None:
    """Solve for the correction that is asked for, place every point, and record the model; nothing if that is there.

    fields: What was asked for.
    again: Whether a model for this correction that is there is solved for again: it stays until the new one is
        recorded.
    Raises SelfCheckError: If what was found contradicts itself; nothing is recorded then.
    """
    state = store.record(SolveRecord)
    if state is not None and state.fields == fields and not again:
        return
    scale, median = store.needed(GraphRecord).scale, store.needed(DistancesRecord).median
    report("solve", 0, 1)
    square = symmetric_square(store)
    kernels = LandmarkKernels(square, store.read_array(COUNTS))
    far = far_rows(kernels.sums, median, lambda some: square[np.ix_(some, some)])
    solution = solve(
        kernels,
        parameters.n_components,
        correction=parameters.correction_in(scale),
        constant_solver=parameters.constant_solver,
        tol=_tolerance(parameters),
        seed=parameters.random_state,
        tolerance=lambda: far.tolerance,
    )
    pairs = solution.pairs
    vectors, low_vector = kernels.on_points(pairs.vectors), kernels.on_points(pairs.low_vector)
    solution = replace(solution, pairs=replace(pairs, vectors=vectors, low_vector=low_vector))
    embedding = make_embedding(solution, kernels.sums, scale)
    account = spectrum_account(
        solution, embedding, kernels.sums, median, 1, parameters.tol,
        said_of_far_rows(store, store.read_array(LANDMARKS)[far.vertices], far, solution.tolerance),
    )  # fmt: skip
    account |= {"n_landmarks": len(square)}
    checked = checked_landmarks(len(square), parameters.random_state)
    account["self_check"] = check_landmark_fit(
        read_back(store, checked), square, checked, solution, embedding, kernels.sums,
        projection=parameters.projection, tol=parameters.tol,
    )  # fmt: skip
    report("solve", 1, 1)
    coordinates = place_all(cluster, store, embedding, parameters.projection, report)
    record_model(store, embedding, fields, account, {COORDINATES: coordinates})


def _tolerance(parameters: Parameters) -> float:
    """A tighter one than was asked for, where that costs next to nothing."""
    if parameters.constant_solver != "ritz":
        return parameters.tol
    return min(parameters.tol, max(TIGHTER * parameters.tol, LEAST_TOL))


def checked_landmarks(m: int, seed: int) -> I64:
    """The landmarks by which a solution is checked, ascending."""
    return np.sort(np.random.default_rng(seed).choice(m, min(CHECKED, m), replace=False))


def read_back(store: RunStore, chosen: I64) -> F32:
    """Distances of some landmarks to all of them, (l, m), from the matrix of all points."""
    layout = Layout.of(store)
    return layout.by_point(store).read_rows(store.read_array(LANDMARKS)[chosen])


def check_square(store: RunStore) -> None:
    """Refuse landmarks' own distances that are not those of the matrix of all points."""
    layout = Layout.of(store)
    found = read_back(store, np.arange(layout.m))
    if not np.array_equal(found, store.read_array(SQUARE).T):
        raise DamagedStoreError(f"{store.path!r}: {SQUARE!r} is not of these landmarks; fit again")
