"""Which points are landmarks: takes the graph or a given D and the parameters, gives their vertices.

"maxmin" takes the point farthest along the graph from those before it (:mod:`scalemani.geodesics.farthest`), which
bounds how far any point is from a landmark; "random" draws them; or the user names rows of X. They are kept in the
order of the vertices, in which what is near in number is near in space: rows of near landmarks are found together.
"""

import math
import time
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F64, I64
from scalemani.cluster.machine import FIRST_USE
from scalemani.errors import ScalemaniError
from scalemani.geodesics.farthest import farthest_points, farthest_points_bytes
from scalemani.geodesics.rows import graph_bytes
from scalemani.graph.build import Graph
from scalemani.parameters import Parameters
from scalemani.points.reading import row_numbers
from scalemani.steps.base import FitSize, Needs, Step
from scalemani.steps.inputs import GeodesicInput, Input


def check_landmarks(given: Input, parameters: Parameters, graph: Graph | None = None) -> None:
    """Refuse landmarks that X, or its graph where that is known, does not have.

    Raises ScalemaniError: More landmarks than points; row numbers that X has not, that are one point, or that no path
        leads to.
    """
    landmarks = parameters.landmarks
    if landmarks is None:
        return
    n, what = (given.n_distinct, "distinct rows") if graph is None else (len(graph.order), "points in its component")
    if isinstance(landmarks, Integral):
        if int(landmarks) > n:
            raise ScalemaniError(f"landmarks={int(landmarks)}: X has {n} {what}; give that many or fewer")
        return
    rows = row_numbers(landmarks, given.n_rows)
    points = given.distinct[rows]
    order = np.argsort(points, kind="stable")
    same = np.flatnonzero(np.diff(points[order]) == 0)
    if len(same):
        a, b = rows[order[same[0]]], rows[order[same[0] + 1]]
        raise ScalemaniError(
            f"landmarks: rows {min(a, b)} and {max(a, b)} are one point ({len(same)} of {len(rows)} landmarks repeat "
            "another); name each point once"
        )
    if graph is not None:
        lost = ~np.isin(points, graph.order)
        if lost.any():
            raise ScalemaniError(
                f"landmarks: no path leads to {int(lost.sum())} of {len(rows)} of them (the first: row "
                f"{rows[int(lost.argmax())]}), which are outside the component that is kept; leave them out"
            )


def choose_landmarks(
    given: Input | None, parameters: Parameters, graph: Any, order: I64, vertex: I64
) -> tuple[I64, float | None]:
    """The vertices of the landmarks, ascending, and how far from them any vertex is at most.

    given: X, needed where D was given.
    graph: In vertex order and the unit of the tiles; None where D was given.
    order, vertex: Distinct point of each vertex; vertex of each row of X.
    -> vertices (m,)
    -> reach: In the unit of `graph`, or the user's where D was given; None where it was not asked for ("maxmin" alone
        does).
    """
    landmarks, n = parameters.landmarks, len(order)
    if not isinstance(landmarks, Integral):
        return np.sort(vertex[row_numbers(landmarks, len(vertex))]), None
    count = int(landmarks)
    if parameters.landmark_method == "random":
        rng = np.random.default_rng(parameters.random_state)
        return np.sort(rng.choice(n, count, replace=False)).astype(np.int64), None
    if graph is not None:
        found = farthest_points(graph, count)
        return np.sort(found.vertices), found.reach
    assert isinstance(given, GeodesicInput)
    return _farthest_of_given(given, order, count)


def _farthest_of_given(given: GeodesicInput, order: I64, count: int) -> tuple[I64, float | None]:
    """As :func:`farthest_points`, from rows of D: one for each landmark."""

    def row(vertex: int) -> F64:
        found: F64 = given.checked.part(order[vertex : vertex + 1], order)[0]
        return found

    chosen = np.empty(count, np.int64)
    nearest, following = np.full(len(order), np.inf), int(row(0).argmax())
    for at in range(count):
        chosen[at] = following
        np.minimum(nearest, row(following), out=nearest)
        nearest[following] = -1.0  # never again, also where others are at distance 0
        following = int(nearest.argmax())
    return np.sort(chosen), max(float(nearest.max()), 0.0)


class Landmarks(Step):
    """Which vertices are landmarks."""

    name, title = "landmarks", "landmarks"

    # ---- what it will take ----

    def fewest(self, parameters: Parameters) -> int:
        """All landmarks are vertices."""
        return landmark_count(parameters)

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The graph and a search of it, or two rows of a given D."""
        m, way = landmark_count(size.parameters), _way(size.parameters)
        how = {"maxmin": "each farthest from those before it", "random": "at random", "given": "given by their rows"}
        search = {"graph": graph_bytes(size.n, size.edges), "choice": farthest_points_bytes(size.n, size.edges)}
        return Needs(
            client={"choice": 2 * 8 * size.n} if size.given else search,
            lines=[("landmarks", f"{m:,}, {how[way]}")],
            numbers={"n_landmarks": m, "landmark_method": way},
            counted=[f"{m} landmarks"],
        )

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        """About log m searches of the graph, of which the first are timed; no time where none is made."""
        if size.given or _way(size.parameters) != "maxmin":
            return 0.0
        farthest_points(sp.diags_array([np.ones(3), np.ones(3)], offsets=[-1, 1], format="csr"), 2)  # compiled code
        m = landmark_count(size.parameters)
        few = min(FEW, m)
        begun = time.perf_counter()
        farthest_points(rates.scaled, few)
        return (time.perf_counter() - begun) * (1 + _harmonic(m)) / (1 + _harmonic(few))


FEW = 8  # landmarks whose choice is timed: two and a half searches of the graph, and one for the first


def _harmonic(m: int) -> float:
    return math.log(m) + 0.5772


def _way(parameters: Parameters) -> str:
    """How landmarks are chosen."""
    return parameters.landmark_method if isinstance(parameters.landmarks, Integral) else "given"


def landmark_count(parameters: Parameters) -> int:
    """Landmarks that are asked for."""
    asked = parameters.landmarks
    return int(asked) if isinstance(asked, Integral) else len(asked)


def fewer_landmarks(size: FitSize) -> list[str]:
    """The remedy where many landmarks are what takes the memory."""
    m = landmark_count(size.parameters)
    return [f"ask for fewer landmarks than {m}"] if 8 * m**2 > FIRST_USE // 10 else []
