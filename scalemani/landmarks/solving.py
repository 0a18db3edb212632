"""Constant and axes by landmarks: takes the landmarks' own distances, records these and all coordinates.

The (m, m) square is in memory, and the solver of the full method works on it (:mod:`scalemani.landmarks.kernels`), to a
tolerance that its cheap products allow. What is found is checked by rows that were turned and read back.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.corrections import solve
from scalemani.embedding import make_embedding, record_model
from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError
from scalemani.far_rows import far_rows
from scalemani.landmarks.kernels import LandmarkKernels
from scalemani.landmarks.layout import COORDINATES, COUNTS, LANDMARKS, SQUARE, Layout, symmetric_square
from scalemani.landmarks.placing import Report, place_all
from scalemani.parameters import Parameters
from scalemani.self_check import CHECKED, check_landmark_fit
from scalemani.solving import said_of_far_rows
from scalemani.spectrum import spectrum_account

TIGHTER = 1e-3  # of the tolerance that is asked for: products of the square cost next to nothing
LEAST_TOL = 1e-10


def solve_landmarks(
    store: RunStore,
    parameters: Parameters,
    cluster: Cluster,
    fields: dict[str, Any],
    report: Report,
    *,
    again: bool = False,
) -> None:
    """Solve for the correction that is asked for, place every point, and record the model; nothing if that is there.

    fields: What the stages were asked for, as :meth:`Parameters.stage_fields` gives it.
    again: Whether a model for this correction that is there is solved for again: it stays until the new one is
        recorded.
    Raises SelfCheckError: If what was found contradicts itself; nothing is recorded then.
    """
    state, graph, distances = store.stage("solve"), store.stage("graph"), store.stage("geodesics")
    if state is not None and state["fields"] == fields["solve"] and not again:
        return
    assert graph is not None and distances is not None
    report("solve", 0, 1)
    square = symmetric_square(store)
    kernels = LandmarkKernels(square, store.read_array(COUNTS))
    far = far_rows(kernels.sums, distances["median"], lambda some: square[np.ix_(some, some)])
    solution = solve(
        kernels,
        parameters.n_components,
        correction=parameters.correction_in(graph["scale"]),
        constant_solver=parameters.constant_solver,
        tol=_tolerance(parameters),
        seed=parameters.random_state,
        tolerance=lambda: far.tolerance,
    )
    pairs = solution.pairs
    vectors, low_vector = kernels.on_points(pairs.vectors), kernels.on_points(pairs.low_vector)
    solution = replace(solution, pairs=replace(pairs, vectors=vectors, low_vector=low_vector))
    embedding = make_embedding(solution, kernels.sums, graph["scale"])
    account = spectrum_account(
        solution, embedding, kernels.sums, distances["median"], 1, parameters.tol,
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
    record_model(store, embedding, fields["solve"], account, {COORDINATES: coordinates})


def _tolerance(parameters: Parameters) -> float:
    """A tighter one than was asked for, where that costs next to nothing."""
    if parameters.constant_solver != "ritz":
        return parameters.tol
    return min(parameters.tol, max(TIGHTER * parameters.tol, LEAST_TOL))


def checked_landmarks(m: int, seed: int) -> NDArray[np.int64]:
    """The landmarks by which a solution is checked, ascending."""
    return np.sort(np.random.default_rng(seed).choice(m, min(CHECKED, m), replace=False))


def read_back(store: RunStore, chosen: NDArray[np.int64]) -> NDArray[np.float32]:
    """Distances of some landmarks to all of them, (l, m), from the matrix of all points."""
    layout = Layout.of(store)
    return layout.by_point(store).read_rows(store.read_array(LANDMARKS)[chosen])


def check_square(store: RunStore) -> None:
    """Refuse landmarks' own distances that are not those of the matrix of all points."""
    layout = Layout.of(store)
    found = read_back(store, np.arange(layout.m))
    if not np.array_equal(found, store.read_array(SQUARE).T):
        raise DamagedStoreError(f"{store.path!r}: {SQUARE!r} is not of these landmarks; fit again")
