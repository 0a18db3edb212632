"""Which points are landmarks: takes the graph or a given D and the parameters, gives their vertices.

"maxmin" takes the point farthest along the graph from those before it (:mod:`scalemani.geodesics.farthest`), which
bounds how far any point is from a landmark; "random" draws them; or the user names rows of X. They are kept in the
order of the vertices, in which what is near in number is near in space: rows of near landmarks are found together.
"""

import math
import time
from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F64, I64
from scalemani.cluster.machine import FIRST_USE
from scalemani.errors import ScalemaniError
from scalemani.geodesics.farthest import farthest_points, farthest_points_bytes
from scalemani.geodesics.rows import graph_bytes, shared_graph
from scalemani.graph.build import Graph
from scalemani.parameters import Parameters
from scalemani.points.reading import row_numbers
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.steps.pair_records import PairsRecord
from scalemani.steps.records import FitRecord, GraphRecord, SourcesFields, SourcesRecord
from scalemani.storage.files import Location
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Form, Tiles

# Arrays, and the two matrices.
LANDMARKS = "landmarks"  # (m,) their vertices, ascending
ROWS, POINTS = "landmark_rows", "distances_to_landmarks"  # (m, n), until it is turned, and (n, m)
SQUARE = "landmark_square"  # (m, m) of the landmarks among themselves, as their rows have it
COUNTS = "landmark_counts"  # (m,) points that each stands for
COORDINATES = "coordinates"  # (n, p) of all points


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
    rows = row_numbers(landmarks, given.n_rows, "landmarks")
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


class Sources(Step):
    """Which vertices D has rows of: all, or some landmarks."""

    record, title = SourcesRecord, "landmarks"
    arrays = {LANDMARKS: "landmarks"}
    mends = {"landmarks": "chooses them again"}
    from_points = ("landmarks",)

    def check_before(self, points: Any, parameters: Parameters) -> None:
        check_landmarks(points, parameters)

    def fields(self, parameters: Parameters, kind: str) -> SourcesFields:
        """How landmarks are chosen; of given row numbers a digest (they may be many)."""
        landmarks = parameters.landmarks
        if landmarks is None:
            return SourcesFields(landmarks=None)
        if not isinstance(landmarks, Integral):
            numbers = np.sort(np.asarray(landmarks).astype("<i8"))
            of = blake2b(numbers.tobytes(), digest_size=4).hexdigest()
            return SourcesFields(landmarks=f"{len(numbers)} given rows ({of})")
        seed = parameters.random_state if parameters.landmark_method != "maxmin" else None
        return SourcesFields(landmarks=int(landmarks), landmark_method=parameters.landmark_method, random_state=seed)

    def run(self, work: Work) -> None:
        """Choose them, and record how the distances to them are cut."""
        store, parameters = work.store, work.parameters
        if store.record(SourcesRecord) is not None:
            return
        fields = self.fields(parameters, work.points.kind)
        if parameters.landmarks is None:
            store.finish(SourcesRecord(fields=fields))
            return
        work.report("landmarks", 0, 1)
        given = isinstance(work.points, GeodesicInput)
        graph = None if given else shared_graph(store.path, store.identity)
        chosen, reach = choose_landmarks(
            work.points, parameters, graph, store.read_array("order"), store.read_array("vertex")
        )
        if reach is not None and given:
            reach /= store.needed(GraphRecord).scale
        layout = work.cut
        layout.drop(store)  # of other landmarks, where these are chosen again
        store.write_array(LANDMARKS, chosen)
        store.finish(
            SourcesRecord(
                fields=fields,
                n_landmarks=len(chosen),
                landmarks_a_task=layout.landmarks_a_task,
                points_a_chunk=layout.points_a_chunk,
                reach=reach,
            )
        )
        work.report("landmarks", 1, 1)

    def begun(self, store: RunStore) -> list[str]:
        return ["the landmarks"] if has_landmarks(store) else []

    def left(self, store: RunStore) -> set[str]:
        return {LANDMARKS} if has_landmarks(store) else set()

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Choose them again from the graph; else take back all that comes of them."""
        store = work.store
        if waiting:
            return []
        before = store.document.arrays.get(LANDMARKS)
        if store.record(FitRecord) is not None and not work.given:
            order, vertex = store.read_array("order"), store.read_array("vertex")
            graph = shared_graph(store.path, store.identity)
            chosen, _ = choose_landmarks(None, work.parameters, graph, order, vertex)
            store.write_array(LANDMARKS, chosen)
            store.finish()
            if before in (None, store.document.arrays[LANDMARKS]):
                return ["the landmarks were chosen again: they are those that they were"]
        layout = Layout.of(store)
        store.forget("fit", "coordinates", "solve", "geodesics", self.name)
        layout.drop(store)
        for name in (LANDMARKS, SQUARE, COUNTS, COORDINATES):
            store.remove_array(name)
        return ["left to the same fit with the same points, which goes on: the landmarks and all that comes of them"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """How landmarks were chosen, and how far any point is from one at most; nothing where there are none."""
        state, graph = store.needed(SourcesRecord), store.needed(GraphRecord)
        if state.n_landmarks is None:
            return {}
        return {
            "n_landmarks": state.n_landmarks,
            "landmark_method": state.fields.landmark_method or "given",
            "landmark_reach": None if state.reach is None else state.reach * graph.scale,
        }

    # ---- what it will take ----

    def fewest(self, parameters: Parameters) -> int:
        return 1 if parameters.landmarks is None else landmark_count(parameters)

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The graph and a search of it, or two rows of a given D."""
        if size.parameters.landmarks is None:
            return Needs()
        m, way = landmark_count(size.parameters), _way(size.parameters)
        how = {"maxmin": "each farthest from those before it", "random": "at random", "given": "given by their rows"}
        search = {"graph": graph_bytes(size.n, size.edges), "choice": farthest_points_bytes(size.n, size.edges)}
        return Needs(
            client={"choice": 2 * 8 * size.n} if size.given else search,
            lines=[("landmarks", f"{m:,}, {how[way]}")],
            numbers={"n_landmarks": m, "landmark_method": way},
            counted=[f"{m} landmarks"],
        )

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float | None:
        """About log m searches of the graph, of which the first are timed; no time where none is made."""
        if size.parameters.landmarks is None:
            return None
        if size.given or _way(size.parameters) != "maxmin":
            return 0.0
        farthest_points(sp.diags_array([np.ones(3), np.ones(3)], offsets=[-1, 1], format="csr"), 2)  # compiled code
        m = landmark_count(size.parameters)
        few = min(FEW, m)
        begun = time.perf_counter()
        farthest_points(rates.scaled, few)
        return (time.perf_counter() - begun) * (1 + _harmonic(m)) / (1 + _harmonic(few))


def source_count(parameters: Parameters, n: int) -> int:
    """Vertices that D has rows of, for n of them in all."""
    return n if parameters.landmarks is None else landmark_count(parameters)


def n_distances(store: RunStore) -> int:
    """Distances in a run; 0 as long as it has no graph."""
    graph = store.record(GraphRecord)
    n = 0 if graph is None else graph.n_vertices
    return n * (Layout.of(store).m if has_landmarks(store) else n)


def has_landmarks(store: RunStore) -> bool:
    """Whether D of a run has the rows of landmarks alone."""
    state = store.record(SourcesRecord)
    return state is not None and state.n_landmarks is not None


def landmark_rows(store: RunStore) -> I64 | None:
    """The first of the user's rows that is each landmark, in the order of their vertices; None where all points are."""
    chosen = landmark_vertices(store)
    return None if chosen is None else np.asarray(first_rows(store)[chosen])


def landmark_vertices(store: RunStore) -> I64 | None:
    """Their vertices, ascending; None where all points are."""
    pairs = store.record(PairsRecord)  # of a method without distances
    name = "pair_landmarks" if pairs is not None and pairs.n_landmarks is not None else LANDMARKS
    return store.read_array(name) if name != LANDMARKS or has_landmarks(store) else None


def first_rows(store: RunStore) -> I64:
    """The first of the user's rows that is each vertex (n,)."""
    vertex = store.read_array("vertex")
    rows = np.flatnonzero(vertex >= 0)[::-1]
    first = np.empty(store.needed(GraphRecord).n_vertices, np.int64)
    first[vertex[rows]] = rows  # the first of several is set last
    return first


@dataclass(frozen=True)
class Layout:
    """How the distances of n points to m landmarks are cut.

    landmarks_a_task: Rows that a task finds together.
    points_a_chunk: Points of a chunk of either matrix.
    """

    n: int
    m: int
    landmarks_a_task: int
    points_a_chunk: int

    @classmethod
    def of(cls, store: RunStore) -> "Layout":
        """The layout of a run whose landmarks are chosen."""
        state = store.needed(SourcesRecord)
        m = state.n_landmarks or 0
        return cls(store.needed(GraphRecord).n_vertices, m, state.landmarks_a_task, state.points_a_chunk)

    def by_landmark(self, store: RunStore) -> Tiles:
        """The matrix (m, n), in which a row is a landmark's."""
        return self.matrix(store, ROWS)

    def by_point(self, store: RunStore) -> Tiles:
        """The matrix (n, m), in which a row is a point's."""
        return self.matrix(store, POINTS)

    def matrix(self, store: RunStore, name: str, folder: Location | None = None) -> Tiles:
        """That of a name.

        folder: Where it is, if not with the run.
        """
        shape, tile = (self.m, self.n), (self.landmarks_a_task, self.points_a_chunk)
        if name == POINTS:
            shape, tile = (self.n, self.m), (self.points_a_chunk, self.m)
        form = Form(shape, tile, {"name": name, "unit": "edge length / scale"})
        if folder is not None:
            return Tiles(str(folder), store.identity, name, form)
        return Tiles(store.path, store.identity, name, form, check=store.check_identity)

    def drop(self, store: RunStore) -> None:
        """Remove both."""
        self.by_point(store).drop()
        self.by_landmark(store).drop()


def symmetric_square(store: RunStore) -> F64:
    """Distances between the landmarks, (m, m), float64: the mean of what was found from either end."""
    square = store.read_array(SQUARE).astype(np.float64)
    return (square + square.T) / 2


FEW = 8  # landmarks whose choice is timed: two and a half searches of the graph, and one for the first


def _harmonic(m: int) -> float:
    return math.log(m) + 0.5772


def _way(parameters: Parameters) -> str:
    return parameters.landmark_method if isinstance(parameters.landmarks, Integral) else "given"


def landmark_count(parameters: Parameters) -> int:
    """Landmarks that are asked for."""
    asked = parameters.landmarks
    return int(asked) if isinstance(asked, Integral) else len(asked)


def fewer_landmarks(size: FitSize) -> list[str]:
    """The remedy where many landmarks are what takes the memory."""
    m = landmark_count(size.parameters)
    return [f"ask for fewer landmarks than {m}"] if 8 * m**2 > FIRST_USE // 10 else []
