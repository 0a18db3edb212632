"""Coordinates of least raw stress: by reads of D from its tiles, or in memory from the distances between landmarks.

Each read of D gives the stress of one trial and its gradient (:mod:`scalemani.embedding.stress`). What it gave is kept
until the map is recorded, by a digest of the trial: a fit that was stopped makes the same trials, and finds them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from msgspec import structs

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.tasks import waiting_bytes
from scalemani.embedding.coordinates import make_embedding
from scalemani.embedding.stress import MEMORY, SUMS, Minimum, minimise, place, share
from scalemani.errors import ConvergenceWarning, ScalemaniError, SelfCheckError, warn
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import Reader, sweep
from scalemani.geodesics.rows import again_bytes, graph_bytes, shared_graph
from scalemani.kernel.constant import solve
from scalemani.kernel.operators import DenseKernels
from scalemani.projection.linear_map import Axes as PlacingAxes
from scalemani.projection.stress_map import Start, StressAxes
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

COORDINATES, BY_POINT = "stress_coordinates", "stress_by_point"
WEIGHTS, OFFSET = "stress_start_weights", "stress_start_offset"  # of where new points begin
ALL = (COORDINATES, BY_POINT, WEIGHTS, OFFSET)
CLASSICAL_TOL = 1e-4  # of the axes that it starts from
ALLOWED = 1e-5  # of a row's distances found again, relative: their stress can't be farther off
USUAL_READS = 20


class _Classical(Axes):
    """Of classical scaling, which is where it starts: to a moderate tolerance, and nobody is told of its spectrum."""

    title, from_distances = "classical scaling", False

    def fields(self, parameters: Any, kind: str) -> SolveFields:
        """With a tolerance of its own."""
        return super().fields(replace(parameters, tol=CLASSICAL_TOL), kind)

    def solve(self, work: Work) -> None:
        """To that."""
        super().solve(replace(work, parameters=replace(work.parameters, tol=CLASSICAL_TOL)))

    def account(self, store: RunStore) -> dict[str, Any]:
        """Nothing: the map has its own."""
        return {}

    def coordinates(self, store: RunStore) -> F64 | None:
        """None, for the same reason."""
        return None


class ClassicalAxes(_Classical, TileAxes):
    """Of all points."""


class ClassicalLandmarks(_Classical, LandmarkAxes):
    """Of the landmarks."""


class Stress(Step):
    """The least stress of all distances, by reads of D.

    checked: Arrays that its check is made of.
    """

    checked: tuple[str, ...] = ALL
    record, title = StressRecord, "least stress"
    late = True
    from_distances = False  # D is made again from the graph
    arrays = {"stress_": "stress", "pieces_stress": "pieces"}
    mends = {"stress": "solves again", "pieces": "removes it"}

    def fields(self, parameters: Any, kind: str) -> StressFields:
        """Axes, when it stops, and where it starts."""
        return StressFields(
            n_components=int(parameters.n_components),
            tol=float(parameters.tol),
            start_points=None if parameters.start_points is None else int(parameters.start_points),
            random_state=int(parameters.random_state),
        )

    def check_before(self, points: Any, parameters: Any) -> None:
        """The points that it may start from are there."""
        asked = parameters.start_points
        if asked is not None and int(asked) > points.n_distinct:
            raise ScalemaniError(
                f"start_points={asked}: X has {points.n_distinct} distinct rows; give that many or fewer"
            )

    def run(self, work: Work) -> None:
        """Look for the least stress, unless it is there."""
        store = work.store
        if self.done(work):
            store.pieces(self.name).drop()  # of a fit that was killed before it did
            return
        fields = self.fields(work.parameters, "")
        found, start, reads, check = self.solved(work, fields)
        self._record(store, fields, found, start, reads, check)

    def _record(
        self,
        store: RunStore,
        fields: StressFields,
        found: Minimum,
        start: Start,
        reads: int,
        check: Callable[[F64], float],
    ) -> None:
        """Check a map against rows of D that are found again, and record it."""
        scale, said = store.needed(GraphRecord).scale, list[str]()
        try:
            off = check(found.coordinates)
        except SelfCheckError:
            store.pieces(self.name).drop()  # whatever was wrong is not begun from again
            raise
        if not found.converged:
            said.append(
                f"after {len(found.stresses)} reads of the distances the stress still falls by more than tol="
                f"{fields.tol:g} of it a step: the map is not final; give a larger tol, or more axes"
            )
            warn(said[-1], ConvergenceWarning)
        solved = store.record(SolveRecord) if fields.start_points is None else None
        store.forget(FitRecord.STEP, PlacementRecord.STEP, self.name)
        store.write_array(COORDINATES, found.coordinates * scale)
        store.write_array(BY_POINT, found.by_point * scale**2)
        store.write_array(WEIGHTS, start.weights)
        store.write_array(OFFSET, start.offset)
        store.finish(
            StressRecord(
                fields=fields,
                stresses=[found.stress_1(stress) for stress in found.stresses],
                undilated=found.stress_1(found.undilated),
                raw=found.stresses[-1] * scale**2,
                reads=reads,
                converged=found.converged,
                self_check=off,
                n_landmarks=len(found.coordinates) if has_landmarks(store) else None,
                warnings=said + (solved.spectrum.warnings if solved is not None else []),
            )
        )
        store.pieces(self.name).drop()

    def solved(self, work: Work, fields: StressFields) -> tuple[Minimum, Start, int, Callable[[F64], float]]:
        """The minimum, where new points begin, reads of D, and the check."""
        store, p, reads = work.store, fields.n_components, 0
        made_of = structs.asdict(fields) | {"distances": store.document.arrays.get("distance_counts")}
        pieces = store.pieces(self.name, made_of)

        def read(X: F64) -> F64:
            nonlocal reads
            of = digest(pieces.of, X)
            known = pieces.get(f"read_{reads}", of) if work.keep_pieces else None
            found = sweep(work.cluster, store, Reader(share, X, p + SUMS)) if known is None else known[0]
            if known is None and work.keep_pieces:
                pieces.put(f"read_{reads}", [found], of)
            reads += 1
            work.report(self.name, reads, 0)
            return found

        work.report(self.name, 0, 0)
        start, points = (_from_axes if fields.start_points is None else _from_points)(store, fields)
        found = minimise(read, points, fields.tol)
        work.report(self.name, reads, reads)
        reads += 0 if fields.start_points is None else 1

        def check(X: F64) -> float:
            vertices = some_of(len(X), CHECKED, fields.random_state)
            if isinstance(work.points, GeodesicInput):
                scale = store.needed(GraphRecord).scale
                rows = given_rows(work.points.checked, store.read_array("order"), vertices, scale)
            elif work.given:
                rows = store.read_rows(vertices)  # for a repair, which has no points
            else:
                rows = geodesic_rows(shared_graph(store.path, store.identity), vertices)
            return check_stress(rows, vertices, X, found.by_point)

        return found, start.onto(points, found.coordinates), reads, check

    def begun(self, store: RunStore) -> list[str]:
        """How many reads of D are kept."""
        reads = store.pieces(self.name).count("read_")
        return [f"{reads} reads of the distances for the least stress"] if reads else []

    def left(self, store: RunStore) -> set[str]:
        """The map, and where new points begin."""
        return set(ALL) if store.record(StressRecord) is not None else set()

    def again(self, store: RunStore, graph: Any, vertices: I64) -> F32 | None:
        """Rows of distances of some points, found in another way; None where there is none."""
        return None if graph is None or store.record(DistancesRecord) is None else geodesic_rows(graph, vertices)

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """The stress of some points, of distances that are found again, is what was recorded."""
        store = work.store
        if store.record(StressRecord) is None or broken & set(self.checked):
            return
        X, scale = store.read_array(COORDINATES), store.needed(GraphRecord).scale
        vertices = some_of(len(X), CHECKED)
        rows = self.again(store, None if work.given else work.made.get("graph"), vertices)
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
        if not self._can(store, state.fields):
            store.forget(FitRecord.STEP, self.name, *(() if store.has_distances else (DistancesRecord.STEP,)))
            for name in ALL:
                store.remove_array(name)
            return ["left to the same fit, which goes on: the map of least stress"]
        kept = [store.record(kind) for kind in (FitRecord, PlacementRecord)]
        self._record(store, state.fields, *self.solved(replace(work, keep_pieces=True), state.fields))
        store.finish(*(one for one in kept if one is not None))
        return ["the map of least stress was looked for again"]

    def _can(self, store: RunStore, fields: StressFields) -> bool:
        """Whether the store has what it takes."""
        started = fields.start_points is not None or store.record(SolveRecord) is not None
        return store.has_distances and started

    def account(self, store: RunStore) -> dict[str, Any]:
        """The stress by read, normalised, and what it began with."""
        state = store.needed(StressRecord)
        median, solved = store.needed(DistancesRecord).median, store.record(SolveRecord)
        before = solved.spectrum.n_passes if solved is not None and state.fields.start_points is None else 0
        return {
            "stress_1": state.stresses[-1],
            "raw_stress": state.raw,
            "stress_by_read": state.stresses,
            "stress_1_of_start": state.undilated,
            "start_points": state.fields.start_points,
            "n_passes": state.reads + before,
            "converged": state.converged,
            "median_distance": median * store.needed(GraphRecord).scale,
            "warnings": state.warnings,
            "self_check": {"stress": state.self_check},
        }

    def coordinates(self, store: RunStore) -> F64 | None:
        """Those of all vertices."""
        return store.read_array(COORDINATES)

    # ---- what it will take ----

    scratch_while = "while the stress falls"

    def fewest(self, parameters: Any) -> int:
        """One more than axes."""
        return int(parameters.n_components) + 1

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """Steps and gradients that are remembered, and a read of D; what reads gave stays until the end."""
        n, p = size.n, size.parameters.n_components
        runs, width = Blocks(n, cut.tile).read_runs, p + SUMS
        start = getattr(size.parameters, "start_points", None) or 0
        reading = waiting_bytes(n, 0, width, min(size.window, runs + 1)) + 3 * 8 * n * width
        task = 3 * 4 * cut.tile**2 + 8 * (n + 2 * cut.tile) * width
        kept = 0 if size.parameters.store is None else 8 * n * width * USUAL_READS
        graph = {} if size.given else {"graph": graph_bytes(n, size.edges)}
        steps = max(8 * n * p * (2 * MEMORY + 8), again_bytes(n, size.edges, 2 * CHECKED))  # then the check
        client = {**graph, "steps and gradients": steps, "a read": reading}
        return Needs(
            client=client | ({"rows to start from": 12 * n * start + 12 * 8 * start**2} if start else {}),
            worker={**graph, f"{size.threads} tasks": size.threads * task, "coordinates": 8 * n * p},
            remedies=["fewer start_points"] if start else [],
            disk=8 * n * (2 * p + 1),
            scratch=kept,
            tasks=USUAL_READS * runs,
            pieces=[f"{runs} a read for the stress"],
            lines=[("stress", f"about {USUAL_READS} steps, each a read of D")],
            numbers={"stress_reads": USUAL_READS},
        )

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        """Reads of D from memory."""
        side, p = min(cut.tile, 512), size.parameters.n_components
        tile, points = np.ones((side, side), np.float32), np.random.default_rng(0).random((2 * side, p))
        each = rates.median(lambda: share(tile, points[:side], points[side:])) + rates.on_disk(tile)[1]
        return float(USUAL_READS * size.n * (size.n + cut.tile) / 2 * each / tile.size / size.slots)


class LandmarkStress(Stress):
    """The least stress of the landmarks' own distances, in memory."""

    checked = (*ALL, LANDMARKS)

    def solved(self, work: Work, fields: StressFields) -> tuple[Minimum, Start, int, Callable[[F64], float]]:
        """From classical scaling of the landmarks."""
        store = work.store
        work.report(self.name, 0, 1)
        square = symmetric_square(store)
        start, points = _from_axes(store, fields)
        found = minimise(lambda X: share(square, X)[0], points, fields.tol)
        work.report(self.name, 1, 1)

        def check(X: F64) -> float:
            chosen = some_of(len(X), CHECKED, fields.random_state)
            return check_stress(read_back(store, chosen), chosen, X, found.by_point)

        return found, start.onto(points, found.coordinates), 0, check

    def again(self, store: RunStore, graph: Any, vertices: I64) -> F32 | None:
        """From the matrix of all points."""
        return read_back(store, vertices) if store.record(DistancesRecord) is not None else None

    def _can(self, store: RunStore, fields: StressFields) -> bool:
        return store.record(SolveRecord) is not None and store.record(DistancesRecord) is not None

    def coordinates(self, store: RunStore) -> F64 | None:
        """None: all points are placed by the landmarks."""
        return None

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The square, and its steps."""
        m, p = cut.m, size.parameters.n_components
        return Needs(client={"square": 3 * 8 * m * m, "steps and gradients": 8 * m * p * (2 * MEMORY + 8)})

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        """Reads of the square."""
        square, points = np.ones((256, 256)), np.random.default_rng(0).random((256, size.parameters.n_components))
        return float(2 * USUAL_READS * rates.median(lambda: share(square, points)) * (cut.m / 256) ** 2)


class StressPlacement(Placement):
    """Coordinates of all vertices, each by its own stress of distances to the landmarks."""

    model = ALL

    def axes(self, store: RunStore, form: str) -> StressAxes:
        """The landmarks' map."""
        return stress_axes(store)

    def seconds(self, size: FitSize, cut: Any, rates: Any) -> float:
        """Each entry read, and some steps of each point."""
        points, fixed = np.random.default_rng(0).random((2, 64, size.parameters.n_components))
        fixed = np.tile(fixed, (4, 1))
        rows = np.sqrt(((points[:, None] - fixed) ** 2).sum(axis=2)) * 1.1
        placed = rates.median(lambda: place(rows, fixed, points + 0.1))
        read = rates.on_disk(rows.astype(np.float32))[1]
        return float(cut.n * cut.m * (read + placed) / rows.size / size.slots)


def stress_axes(store: RunStore) -> StressAxes:
    """What places rows of distances by a run whose map is there."""
    start = Start(store.read_array(WEIGHTS), store.read_array(OFFSET))
    return StressAxes(store.read_array(COORDINATES), start, store.needed(GraphRecord).scale)


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


def _from_axes(store: RunStore, fields: StressFields) -> tuple[Start, F64]:
    """By classical scaling of this run: where new points begin, and its points (n, p) in the unit of the tiles."""
    embedding = stored_embedding(store)
    return Start.of(PlacingAxes(embedding, "continuous")), embedding.coordinates() / embedding.scale


def _from_points(store: RunStore, fields: StressFields) -> tuple[Start, F64]:
    """The same from the least stress of some points, by which the others are placed: a read of D."""
    n = store.blocks.n
    chosen = some_of(n, int(fields.start_points or n), fields.random_state)
    rows = store.read_rows(chosen).T.astype(np.float64)
    square = (rows[chosen] + rows[chosen].T) / 2
    kernels = DenseKernels(square)
    solution = solve(kernels, fields.n_components, correction=None, tol=CLASSICAL_TOL, seed=fields.random_state)
    embedding = make_embedding(solution, kernels.sums, 1.0)
    start = Start.of(PlacingAxes(embedding, "continuous"))
    few = minimise(lambda X: share(square, X)[0], embedding.coordinates(), fields.tol)
    here = start.onto(embedding.coordinates(), few.coordinates)
    points = place(rows, few.coordinates, here.rows(rows))
    points[chosen] = few.coordinates
    weights = np.zeros((n, fields.n_components))
    weights[chosen] = here.weights
    return Start(weights, here.offset), points
