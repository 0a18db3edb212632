"""Coordinates of least raw stress: by reads of D from its tiles, or in memory from the distances between landmarks.

Each read of D gives the stress of one trial and its gradient (:mod:`scalemani.embedding.stress`). What it gave is kept
until the map is recorded, by a digest of the trial: a fit that was stopped makes the same trials, and finds them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from msgspec import structs

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.tasks import waiting_bytes
from scalemani.embedding.coordinates import make_embedding
from scalemani.embedding.stress import MEMORY, SUMS, minimize, place, share
from scalemani.errors import ConvergenceWarning, ScalemaniError, SelfCheckError, warn
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import Reader, sweep
from scalemani.geodesics.rows import again_bytes, graph_bytes, shared_graph
from scalemani.kernel.constant import solve
from scalemani.kernel.operators import DenseKernels
from scalemani.projection.stress_map import StressAxes
from scalemani.steps.axes import Axes, LandmarkAxes, TileAxes, stored_embedding
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.checks import CHECKED, some_of
from scalemani.steps.inputs import GeodesicInput
from scalemani.steps.landmark_distances import read_back
from scalemani.steps.map_records import StressFields, StressRecord
from scalemani.steps.placement import Placement
from scalemani.steps.records import DistancesRecord, FitRecord, GraphRecord, PlacementRecord, SolveFields, SolveRecord
from scalemani.steps.rows import given_rows
from scalemani.steps.sources import LANDMARKS, has_landmarks, symmetric_square
from scalemani.storage.audit import Fault
from scalemani.storage.pieces import digest
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks

COORDINATES, BY_POINT = ALL = ("stress_coordinates", "stress_by_point")
CLASSICAL_TOL = 1e-4  # of the axes that it starts from
ALLOWED = 1e-5  # of a row's distances found again, relative: their stress can't be farther off
LARGEST = 1e306  # raw stress: a float64 holds no more
USUAL_READS = 20


class _Classical(Axes):
    """Classical scaling, where it starts: to a moderate tolerance, and nobody is told of its spectrum."""

    title, from_distances = "classical scaling", False

    def fields(self, parameters: Any, kind: str) -> SolveFields:
        """With a tolerance of its own."""
        return super().fields(replace(parameters, tol=CLASSICAL_TOL), kind)

    def solve(self, work: Work) -> None:
        super().solve(replace(work, parameters=replace(work.parameters, tol=CLASSICAL_TOL)))

    def account(self, store: RunStore) -> dict[str, Any]:
        """Nothing: the map has its own."""
        return {}


class ClassicalAxes(_Classical, TileAxes):
    """Of all points."""


class ClassicalLandmarks(_Classical, LandmarkAxes):
    """Of the landmarks."""


class Stress(Step):
    """The least stress of all distances, by reads of D."""

    record, title = StressRecord, "least stress"
    late = True
    from_distances = False  # D is made again from the graph
    arrays = {"stress_": "stress", "pieces_stress": "pieces"}
    mends = {"stress": "solves again", "pieces": "removes it"}

    def fields(self, parameters: Any, kind: str) -> StressFields:
        """Axes, when it stops, and where it starts."""
        p, tol, seed = int(parameters.n_components), float(parameters.tol), int(parameters.random_state)
        start = None if parameters.start_points is None else int(parameters.start_points)
        return StressFields(n_components=p, tol=tol, random_state=seed, start_points=start)

    def check_before(self, points: Any, parameters: Any) -> None:
        """The points that it may start from are there."""
        asked, there = parameters.start_points, points.n_distinct
        if asked is not None and asked > there:
            raise ScalemaniError(f"start_points={asked}: X has {there} distinct rows; give that many or fewer")

    def finished(self, store: RunStore, parameters: Any) -> bool:
        """Not before it has converged: the same fit goes on."""
        state = store.record(StressRecord)
        return super().finished(store, parameters) and state is not None and state.converged

    def run(self, work: Work) -> None:
        """Look for the least stress, unless it is there; from the map that is there, where that has not converged.

        Raises SelfCheckError: If the map is not that of distances found again; nothing is recorded then.
        Raises ScalemaniError: If the stress is beyond float64 in the user's unit.
        """
        store, fields = work.store, self.fields(work.parameters, "")
        pieces = store.pieces(self.name)
        if self.done(work):
            pieces.drop()  # of a fit that was killed before it did
            return
        scale, before, state = store.needed(GraphRecord).scale, list[float](), store.record(StressRecord)
        if state is not None and state.fields == fields and not state.converged:
            start, before = store.read_array(COORDINATES) / scale, state.stresses
        else:
            start, state = self.start(store, fields), None
        work.report(self.name, 0, 0)
        found = minimize(self.reads(work, fields), start, fields.tol)
        work.report(self.name, len(found.stresses), len(found.stresses))
        if not found.stresses[-1] * scale * scale < LARGEST:
            raise ScalemaniError(
                f"coordinates of up to {np.abs(found.coordinates).max() * scale:.0e}: the raw stress is above "
                f"{LARGEST:g}; divide what you gave, by 1e50 or so"
            )
        vertices = some_of(len(start), CHECKED, fields.random_state)
        rows = self.again(work, vertices)
        try:
            off = check_stress(
                store.read_rows(vertices) if rows is None else rows, vertices, found.coordinates, found.by_point
            )
        except SelfCheckError:
            pieces.drop()  # whatever was wrong is not begun from again
            raise
        said = [] if fields.start_points is not None else list(store.needed(SolveRecord).spectrum.warnings)
        if not found.converged:
            said.append(
                f"after {len(found.stresses)} reads of the distances steps still lower the stress by more than tol="
                f"{fields.tol:g} of it: fit again with the same store, which goes on from here, or give a larger tol"
            )
            warn(said[-1], ConvergenceWarning)
        store.forget(FitRecord.STEP, PlacementRecord.STEP, self.name)
        store.write_array(COORDINATES, found.coordinates * scale)
        store.write_array(BY_POINT, found.by_point * scale**2)
        store.finish(
            StressRecord(
                fields=fields,
                stresses=[*before, *(found.stress_1(stress) for stress in found.stresses)],
                undilated=found.stress_1(found.undilated) if state is None else state.undilated,
                raw=found.stresses[-1] * scale**2,
                converged=found.converged,
                self_check=off,
                warnings=said,
            )
        )
        pieces.drop()

    def reads(self, work: Work, fields: StressFields) -> Callable[[F64], F64]:
        """What reads D; a read that a stopped fit made is found among the pieces."""
        store, width = work.store, fields.n_components + SUMS
        pieces = store.pieces(self.name, structs.asdict(fields) | {"of": store.document.arrays.get("distance_counts")})
        numbers = count()

        def read(X: F64) -> F64:
            number, of = next(numbers), digest(pieces.of, X)
            work.report(self.name, number, 0)
            known = pieces.get(f"read_{number}", of) if work.keep_pieces else None
            if known is not None:
                return known[0]
            found = sweep(work.cluster, store, Reader(share, X, width))
            if work.keep_pieces:
                pieces.put(f"read_{number}", [found], of)
            return found

        return read

    def start(self, store: RunStore, fields: StressFields) -> F64:
        """Classical scaling (n, p), in the unit of the tiles; or where the map of some points has the others."""
        if fields.start_points is None:
            return stored_embedding(store).coordinates() / store.needed(GraphRecord).scale
        chosen = some_of(store.blocks.n, fields.start_points, fields.random_state)
        rows = store.read_rows(chosen).astype(np.float64)
        square = (rows[:, chosen] + rows[:, chosen].T) / 2
        kernels = DenseKernels(square)
        pairs = solve(kernels, fields.n_components, correction=None, tol=CLASSICAL_TOL, seed=fields.random_state)
        first = make_embedding(pairs, kernels.sums, 1.0).coordinates()
        few = minimize(lambda X: share(square, X)[0], first, fields.tol).coordinates
        found = place(np.ascontiguousarray(rows.T), few)
        found[chosen] = few
        return found

    def again(self, work: Work, vertices: I64) -> F32 | None:
        """Rows of D, found in another way; None where there is none."""
        store = work.store
        if isinstance(work.points, GeodesicInput):
            scale = store.needed(GraphRecord).scale
            return given_rows(work.points.checked, store.read_array("order"), vertices, scale)
        graph = work.made.get("graph") if work.points is None else shared_graph(store.path, store.identity)
        return None if work.given or graph is None else geodesic_rows(graph, vertices)

    def begun(self, store: RunStore) -> list[str]:
        """How many reads of D are kept."""
        reads = store.pieces(self.name).count("read_")
        return [f"{reads} reads of the distances for the least stress"] if reads else []

    def left(self, store: RunStore) -> set[str]:
        return set(ALL) if store.record(StressRecord) is not None else set()

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """The stress of some points, of distances that are found again, is what was recorded."""
        store = work.store
        lost = store.record(StressRecord) is None or store.record(DistancesRecord) is None
        if lost or broken & {*ALL, LANDMARKS}:
            return
        X, scale = store.read_array(COORDINATES), store.needed(GraphRecord).scale
        vertices = some_of(len(X), CHECKED)
        rows = self.again(work, vertices)
        if rows is None:
            return
        try:
            check_stress(rows, vertices, X / scale, store.read_array(BY_POINT) / scale**2)
        except SelfCheckError as error:
            yield Fault("stress", COORDINATES, str(error))

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Solve again from D; without D the fit does."""
        store, state = work.store, work.store.record(StressRecord)
        if waiting or state is None:
            return []
        read = store.record(DistancesRecord) is not None and (store.has_distances or has_landmarks(store))
        if not read or (store.record(SolveRecord) is None and state.fields.start_points is None):
            store.forget(FitRecord.STEP, self.name, *(() if store.has_distances else (DistancesRecord.STEP,)))
            for name in ALL:
                store.remove_array(name)
            return ["left to the same fit, which goes on: the map of least stress"]
        store.forget(FitRecord.STEP, self.name)
        self.run(replace(work, parameters=replace(work.parameters, **structs.asdict(state.fields)), keep_pieces=True))
        return ["the map of least stress was looked for again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """The stress by read, normalised, and what it began with."""
        state = store.needed(StressRecord)
        points = state.fields.start_points  # whose rows take a read, in place of those of classical scaling
        passes = store.needed(SolveRecord).spectrum.n_passes if points is None else 1
        return {
            "stress_1": state.stresses[-1],
            "raw_stress": state.raw,
            "stress_by_read": state.stresses,
            "stress_1_of_start": state.undilated,
            "start_points": points,
            "n_passes": passes + (0 if has_landmarks(store) else len(state.stresses)),
            "converged": state.converged,
            "median_distance": store.needed(DistancesRecord).median * store.needed(GraphRecord).scale,
            "warnings": state.warnings,
            "self_check": {"stress": state.self_check},
        }

    def coordinates(self, store: RunStore) -> F64 | None:
        return store.read_array(COORDINATES)

    # ---- what it will take ----

    scratch_while = "while the stress falls"

    def fewest(self, parameters: Any) -> int:
        return int(parameters.n_components) + 1

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """Steps and gradients that are remembered, and a read of D; what reads gave stays until the end."""
        n, p = size.n, size.parameters.n_components
        runs, width = Blocks(n, cut.tile).read_runs, p + SUMS
        reading = waiting_bytes(n, 0, width, min(size.window, runs + 1)) + 3 * 8 * n * width
        task = 3 * 4 * cut.tile**2 + 8 * (n + 2 * cut.tile) * width
        kept = 0 if size.parameters.store is None else 8 * n * width * USUAL_READS
        graph = {} if size.given else {"graph": graph_bytes(n, size.edges)}
        steps = max(8 * n * p * (2 * MEMORY + 8), again_bytes(n, size.edges, 2 * CHECKED))  # then the check
        start = getattr(size.parameters, "start_points", None) or 0
        steps = max(steps, 24 * n * start + 12 * 8 * start**2)  # before
        return Needs(
            client={**graph, "steps and gradients": steps, "a read": reading},
            worker={**graph, f"tasks, {size.threads} at once": size.threads * task, "coordinates": 8 * n * p},
            disk=8 * n * (p + 1),
            scratch=kept,
            tasks=USUAL_READS * runs,
            pieces=[f"{runs} a read for the stress"],
            lines=[("stress", f"about {USUAL_READS} steps, each a read of D")],
            numbers={"stress_reads": USUAL_READS},
        )

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        side, p = min(cut.tile, 512), size.parameters.n_components
        tile, points = np.ones((side, side), np.float32), np.random.default_rng(0).random((2 * side, p))
        each = rates.median(lambda: share(tile, points[:side], points[side:])) + rates.on_disk(tile)[1]
        return float(USUAL_READS * size.n * (size.n + cut.tile) / 2 * each / tile.size / size.slots)


class LandmarkStress(Stress):
    """The least stress of the landmarks' own distances, in memory."""

    def reads(self, work: Work, fields: StressFields) -> Callable[[F64], F64]:
        square = symmetric_square(work.store)
        return lambda X: share(square, X)[0]

    def again(self, work: Work, vertices: I64) -> F32 | None:
        """From the matrix of all points."""
        return read_back(work.store, vertices)

    def coordinates(self, store: RunStore) -> F64 | None:
        """None: all points are placed by the landmarks."""
        return None

    def needs(self, size: FitSize, cut: Any) -> Needs:
        m, p = cut.m, size.parameters.n_components
        return Needs(client={"square": 3 * 8 * m * m, "steps and gradients": 8 * m * p * (2 * MEMORY + 8)})

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        square, points = np.ones((256, 256)), np.random.default_rng(0).random((256, size.parameters.n_components))
        return float(2 * USUAL_READS * rates.median(lambda: share(square, points)) * (cut.m / 256) ** 2)


class StressPlacement(Placement):
    """Coordinates of all vertices, each by its own stress of distances to the landmarks."""

    model = ALL

    def axes(self, store: RunStore, form: str) -> StressAxes:
        return stress_axes(store)

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        """Each entry read, and some steps of each point."""
        points, fixed = np.random.default_rng(0).random((2, 64, size.parameters.n_components))
        fixed = np.tile(fixed, (4, 1))
        rows = np.sqrt(((points[:, None] - fixed) ** 2).sum(axis=2)) * 1.1
        placed = rates.median(lambda: place(rows, fixed))
        read = rates.on_disk(rows.astype(np.float32))[1]
        return float(cut.n * cut.m * (read + placed) / rows.size / size.slots)


def stress_axes(store: RunStore) -> StressAxes:
    """What places rows of distances by a run whose map is there."""
    return StressAxes(store.read_array(COORDINATES), store.needed(GraphRecord).scale)


def check_stress(rows: F32, vertices: I64, X: F64, by_point: F64) -> float:
    """The largest deviation of the stress of some points from that of their rows of D, found again.

    rows (m, n), vertices (m,), X (n, p), by_point (n,): In the unit of the tiles.
    -> Roots of both, apart, over the length of the row.
    Raises SelfCheckError: If it is larger than rounding of D allows.
    """
    worst = 0.0
    for row, vertex in zip(rows.astype(np.float64), vertices, strict=True):
        own = np.sqrt(((row - np.sqrt(((X - X[vertex]) ** 2).sum(axis=1))) ** 2).sum())
        worst = float(np.max([worst, abs(own - np.sqrt(by_point[vertex])) / max(np.sqrt((row**2).sum()), 1e-300)]))
    if not worst <= ALLOWED:
        raise SelfCheckError(
            f"the stress of points is not that of their distances found again ({worst:.1e} of these apart, where "
            f"{ALLOWED:.0e} is allowed): the map, or D, is damaged"
        )
    return worst
