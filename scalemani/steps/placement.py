"""Coordinates of all points, where the axes are those of some: each is placed as a test point is."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.cluster.client import Cluster
from scalemani.geodesics.lanes import row_products
from scalemani.geodesics.rows import graph_bytes
from scalemani.parameters import Parameters
from scalemani.progress import Progress
from scalemani.projection.landmarks import BATCH_BYTES, KEPT_BYTES, LandmarkPlacer
from scalemani.projection.linear_map import Axes
from scalemani.steps.axes import MODEL, stored_embedding
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.cuts import sample_points
from scalemani.steps.landmark_distances import some_chunks
from scalemani.steps.records import DistancesRecord, PlacementFields, PlacementRecord
from scalemani.steps.sources import COORDINATES, COUNTS, LANDMARKS, SQUARE, Layout, fewer_landmarks
from scalemani.storage.audit import Fault
from scalemani.storage.run import RunStore, shared_run

PLACED = 64  # points of a chunk that are placed again
SAME = 1e-9  # of the longest coordinate of an axis: another processor's sums may differ in the last bits


class Placement(Step):
    """The coordinates of all vertices.

    model: Arrays that they follow from.
    """

    model: tuple[str, ...] = MODEL
    record, title = PlacementRecord, "coordinates"
    late = True
    arrays = {COORDINATES: "placed"}
    mends = {"placed": "places the points again"}

    def fields(self, parameters: Parameters, kind: str) -> PlacementFields:
        """The form of the projection; axes that are solved again take the coordinates back."""
        return PlacementFields(projection=parameters.projection)

    def axes(self, store: RunStore, form: str) -> Any:
        """What places rows of distances to the landmarks."""
        return Axes(stored_embedding(store), form)

    def run(self, work: Work) -> None:
        """Place all points by the axes."""
        if self.done(work):
            return
        store, form = work.store, work.parameters.projection
        store.write_array(COORDINATES, place_all(work.cluster, store, self.axes(store, form), work.report))
        store.finish(PlacementRecord(fields=self.fields(work.parameters, "")))

    def left(self, store: RunStore) -> set[str]:
        return {COORDINATES} if store.record(PlacementRecord) is not None else set()

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Some points of some chunks are placed again."""
        store = work.store
        state = store.record(PlacementRecord)
        others = {COORDINATES, SQUARE, COUNTS, LANDMARKS, *self.model}
        if state is None or store.record(DistancesRecord) is None or broken & others:
            return
        layout, coordinates = Layout.of(store), store.read_array(COORDINATES)
        placer = landmark_placer(store, self.axes(store, state.fields.projection))
        points, longest = layout.by_point(store), np.abs(coordinates).max(axis=0, initial=0.0)
        for block in some_chunks(store):
            here = points.rows[block]
            inside = _few(here.stop - here.start)
            again = placer.axes.place_rows(points.read(block, 0)[inside], placer.landmark_of[here][inside])
            if (np.abs(again - coordinates[here][inside]) > SAME * longest).any():
                yield Fault("array", COORDINATES, "points are not where the model places them")
                return

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Place all points again by the model as it is."""
        store = work.store
        if waiting:
            return []
        form = store.needed(PlacementRecord).fields.projection
        found = place_all(work.cluster, store, self.axes(store, form), work.report)
        store.write_array(COORDINATES, found)
        store.finish()
        return ["the points were placed again"]

    def coordinates(self, store: RunStore) -> F64 | None:
        return store.read_array(COORDINATES)

    # ---- what it will take ----

    def needs(self, size: FitSize, cut: Layout) -> Needs:
        """Chunks of distances in each task, and some that the process keeps."""
        n, m, components, chunks = cut.n, cut.m, size.parameters.n_components, -(-cut.n // cut.points_a_chunk)
        graph = {} if size.given else {"graph": graph_bytes(n, size.edges)}
        tasks = size.threads * (BATCH_BYTES + 2 * 4 * cut.points_a_chunk * m)
        return Needs(
            client={"square": 8 * m * m, "outputs": 3 * 8 * n * components + 3 * 8 * n},
            worker={**graph, f"tasks, {size.threads} at once": tasks, "chunks kept": KEPT_BYTES},
            remedies=fewer_landmarks(size),
            disk=8 * n * (components + 4),
            tasks=chunks,
            pieces=[f"{chunks} to place one"],
        )

    def seconds(self, size: FitSize, cut: Layout, rates: Any) -> float:
        """Each entry read and multiplied with the axes."""
        points, m, components = sample_points(cut), cut.m, size.parameters.n_components
        rows = np.random.default_rng(0).random((m, points), np.float32)
        axes, found = np.ones((m, components)), np.empty((points, components))
        nearest, second = np.empty(points), np.empty((points, components))
        row_products(rows.T[:2].copy(), axes, nearest[:2], found[:2], second[:2])  # loads compiled code
        placed = rates.median(lambda: row_products(rows.T.copy(), axes, nearest, found, second))
        return float(cut.n * m * (rates.on_disk(rows)[1] + placed) / rows.size / size.slots)


def _few(count: int) -> I64:
    return np.linspace(0, count, min(count, PLACED), endpoint=False).astype(np.int64)


def landmark_placer(store: RunStore, axes: Any) -> LandmarkPlacer:
    """What places points by their distances to the landmarks."""
    return LandmarkPlacer(Layout.of(store).by_point(store), store.read_array(LANDMARKS), axes)


def place_all(cluster: Cluster, store: RunStore, axes: Any, report: Progress) -> F64:
    """Coordinates (n, p) of every vertex, in the user's unit; a task a block of points."""
    layout = Layout.of(store)
    points = layout.by_point(store).rows
    out = np.empty((layout.n, axes.width))
    tasks = [(store.path, store.identity, block) for block in range(len(points))]
    for block, found in enumerate(cluster.map(_place_block, tasks, shared=_Model(axes))):
        out[points[block]] = found
        report("coordinates", block + 1, len(points))
    return out


class _Model:
    """What the tasks share, sent to each worker once: the axes of a model that is not recorded yet."""

    def __init__(self, axes: Any) -> None:
        self.axes = axes
        self._lock = threading.Lock()
        self._placer: LandmarkPlacer | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Model, (self.axes,)

    def placer(self, store: RunStore) -> LandmarkPlacer:
        """Made once in each process."""
        with self._lock:
            if self._placer is None:
                self._placer = landmark_placer(store, self.axes)
            return self._placer


def _place_block(path: str, identity: str, block: int, model: _Model) -> F64:
    store = shared_run(path, identity)
    placer = model.placer(store)
    points = Layout.of(store).by_point(store)
    here = points.rows[block]
    placed: F64 = placer.axes.place_rows(points.read(block, 0), placer.landmark_of[here])
    return placed
