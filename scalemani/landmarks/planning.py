"""What a fit by landmarks takes, before it takes it: takes X as read and the machine, gives a :class:`LandmarkPlan`.

The fit cuts its distances by the same arithmetic (:mod:`scalemani.landmarks.needs`) and refuses what this refuses.
Time is arithmetic on what a few seconds of the user's own graph show: rows of scattered landmarks, the first of the
landmarks themselves, a chunk on its way to the disk and back.
"""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from scalemani.engine import calibration
from scalemani.engine.cluster import Cluster
from scalemani.engine.resources import free_disk
from scalemani.engine.shortest_paths import PathGraph
from scalemani.errors import DoesNotFitError
from scalemani.geodesics import power_of_two_scale
from scalemani.landmarks import needs
from scalemani.landmarks.layout import Layout
from scalemani.landmarks.timing import choice_seconds, chunk_seconds, solving_seconds
from scalemani.parameters import Parameters
from scalemani.plan import STARTING, AnyPlan, scaled_graph
from scalemani.plan_text import landmark_plan_lines


@dataclass(frozen=True, kw_only=True)
class LandmarkPlan(AnyPlan):
    """What a fit by landmarks takes; as :class:`scalemani.plan.AnyPlan` has it, and:

    landmark_method: "maxmin", "random", or "given" of row numbers.
    landmarks_a_task, points_a_chunk: Rows that a task finds together, and points of a chunk of the matrix of distances.
        `tasks` are one a block of landmarks, and two a chunk of points, which is turned and then placed.
    disk_turning: Bytes more on the disk while the distances are turned.
    """

    n_landmarks: int
    landmark_method: str
    landmarks_a_task: int
    points_a_chunk: int
    disk_turning: int

    @property
    def layout(self) -> Layout:
        """How the distances are cut."""
        return Layout(self.n_vertices, self.n_landmarks, self.landmarks_a_task, self.points_a_chunk)

    def __str__(self) -> str:
        return "\n".join(landmark_plan_lines(self))


def make_landmark_plan(
    given: Any, parameters: Parameters, cluster: Cluster, limit: int, folder: str, *, n: int, edges: int, method: str
) -> LandmarkPlan:
    """The plan of a fit whose graph is known; one that does not fit says so in `refusal`.

    n, edges: Vertices and stored entries of the graph.
    """
    m = needs.count_of(parameters)
    work, refusal = needs.landmark_work(given, parameters, cluster, n, m, edges), None
    listed = n * (parameters.n_neighbors or 0) if given.kind in ("features", "distances") else 0
    model = needs.model_bytes(work, listed)
    try:
        layout = needs.choose_layout(work, limit)
        needs.check_landmark_disk(folder, layout, model)
    except DoesNotFitError as error:
        *_, layout = needs.layouts(n, m)
        refusal = str(error)
    rows, points = -(-m // layout.landmarks_a_task), -(-n // layout.points_a_chunk)
    return LandmarkPlan(
        n_rows=int(given.n_rows),
        n_distinct=int(given.n_distinct),
        n_vertices=n,
        n_edges=edges // 2,
        method=method,
        n_landmarks=m,
        landmark_method=parameters.landmark_method if isinstance(parameters.landmarks, Integral) else "given",
        landmarks_a_task=layout.landmarks_a_task,
        points_a_chunk=layout.points_a_chunk,
        tasks=(0 if work.given else rows) + 2 * points,
        threads=work.threads,
        workers=work.workers,
        memory_limit=limit,
        memory={name: stage.parts for name, stage in needs.stages(work, layout).items()},
        disk=needs.distance_bytes(layout) + model,
        disk_distances=needs.distance_bytes(layout),
        disk_turning=needs.turning_bytes(layout),
        disk_free=free_disk(folder),
        folder=folder,
        refusal=refusal,
    )


def with_landmark_seconds(
    plan: LandmarkPlan, parameters: Parameters, cluster: Cluster, matrix: Any, spent: dict[str, float]
) -> LandmarkPlan:
    """The plan with the time by stage, from what was spent on the first stages and a calibration of the others.

    matrix: The graph, in vertex order and the user's unit; None where D is given.
    """
    if plan.refusal is not None:
        return plan
    layout, slots, choice, row = plan.layout, plan.threads * plan.workers, 0.0, 0.0
    n, m = layout.n, layout.m
    if matrix is not None:
        scale = power_of_two_scale(np.asarray(matrix.data, np.float64))
        scaled = scaled_graph(matrix, scale)
        if plan.landmark_method == "maxmin":
            choice = choice_seconds(scaled, m)
        row = calibration.scattered_row_seconds(cluster, PathGraph(scaled), m)
        del scaled
    chunk = chunk_seconds(min(n, layout.points_a_chunk), m, parameters.n_components, plan.folder)
    written = (plan.disk_distances + plan.disk_turning) / chunk.disk
    together = layout.landmarks_a_task
    finding = -(-m // (together * slots)) * together * row
    seconds = {
        **spent,
        "landmarks": choice,
        "geodesics": max(finding + n * m * chunk.turned / slots, written),
        "solve": solving_seconds(m, parameters.n_components),
        "coordinates": n * m * chunk.placed / slots,
        "starting": STARTING,
    }
    return replace(plan, seconds=seconds)
