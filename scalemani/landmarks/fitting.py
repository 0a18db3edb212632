"""The stages of a fit by landmarks, in order: takes a run with its graph, leaves in it the model of the landmarks.

What a kill costs: a stage that is recorded stays, and within the distances every block of rows that was found and
every block of points that was turned. The choice of landmarks, the solve and the coordinates of all points have no
parts that are kept: the one that was at work is done again from its beginning, and coordinates with their solve, since
both are recorded together. What is done again has the same bits.
"""

from typing import Any

from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.geodesics import shared_graph
from scalemani.inputs import GeodesicInput, Input
from scalemani.landmarks.choice import choose_landmarks
from scalemani.landmarks.layout import COUNTS, LANDMARKS, STAGE, Layout, median_distance, symmetric_square
from scalemani.landmarks.rows import Report, compute_rows
from scalemani.landmarks.solving import solve_landmarks
from scalemani.parameters import Parameters


def fit_landmarks(
    store: RunStore,
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    layout: Layout,
    fields: dict[str, Any],
    report: Report,
) -> None:
    """Run the stages that the store lacks.

    layout: How the distances are cut, where they are not begun.
    fields: What the stages were asked for, as :meth:`Parameters.stage_fields` gives it.
    """
    if store.stage(STAGE) is None:
        report("landmarks", 0, 1)
        choose(store, given, parameters, layout, fields)
        report("landmarks", 1, 1)
    cluster.give_back()
    layout = Layout.of(store)
    if store.stage("geodesics") is None:
        graph = store.stage("graph")
        assert graph is not None
        compute_rows(store, given, graph["scale"], cluster, report)
        median = median_distance(symmetric_square(store), store.read_array(COUNTS))
        store.finish("geodesics", {"tile_size": layout.points_a_chunk}, median=median)
    layout.by_landmark(store).drop()
    cluster.give_back()
    solve_landmarks(store, parameters, cluster, fields, report)


def choose(
    store: RunStore, given: Input | None, parameters: Parameters, layout: Layout, fields: dict[str, Any]
) -> None:
    """Choose the landmarks and record them with the layout of their distances."""
    state = store.stage("graph")
    assert state is not None
    given_distances = isinstance(given, GeodesicInput)
    graph = None if given_distances else shared_graph(store.path, store.document["id"])
    order, vertex = store.read_array("order"), store.read_array("vertex")
    landmarks, reach = choose_landmarks(given, parameters, graph, order, vertex)
    if reach is not None and given_distances:
        reach /= state["scale"]
    layout.by_point(store).drop()
    layout.by_landmark(store).drop()  # of other landmarks, where these are chosen again
    store.write_array(LANDMARKS, landmarks)
    store.finish(
        STAGE,
        fields[STAGE],
        n_landmarks=len(landmarks),
        landmarks_a_task=layout.landmarks_a_task,
        points_a_chunk=layout.points_a_chunk,
        reach=reach,
    )
