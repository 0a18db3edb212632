"""The constant and the axes: found from D, checked, and recorded; a model that was there is replaced.

From tiles of D the solver begins with what was read of D while it was written. By landmarks the square of their own
distances is in memory, and the same solver works on it, to a tolerance that its cheap products allow.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import asdict

from scalemani.aliases import F64, I64
from scalemani.cluster.machine import KEPT, free_memory
from scalemani.cluster.tasks import waiting_bytes
from scalemani.embedding.coordinates import Embedding, make_embedding, outputs_bytes
from scalemani.embedding.spectrum import Remark, spectrum_account
from scalemani.errors import FarRowsWarning, SelfCheckError
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import again_bytes, graph_bytes, shared_graph
from scalemani.kernel.constant import Solution, solve
from scalemani.kernel.eigensolver import basis_bytes, basis_limits, first_block, growth_bytes
from scalemani.kernel.far_rows import RANK_TOLERANCE, FarRows, far_rows
from scalemani.kernel.operators import (
    SUMS,
    CenteredKernels,
    DenseKernels,
    DistanceSums,
    FirstRead,
    kernels_bytes,
    number_bytes,
    products_bytes,
)
from scalemani.parameters import Parameters
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.checks import (
    CHECKED,
    check_centered,
    check_fit,
    check_placed,
    check_stored,
    checked_vertices,
    some_of,
)
from scalemani.steps.cuts import TileCut, block_columns, fewer_components, geodesic_task_bytes, sweep_task_bytes
from scalemani.steps.distances import drop_contradicting
from scalemani.steps.expected_reads import expected_reads, sampled_reads
from scalemani.steps.inputs import GeodesicInput
from scalemani.steps.landmark_distances import read_back
from scalemani.steps.records import (
    DistancesRecord,
    FitRecord,
    GraphRecord,
    PlacementRecord,
    SolveFields,
    SolveRecord,
    SpectrumRecord,
    StartRecord,
)
from scalemani.steps.rows import given_rows
from scalemani.steps.sources import COUNTS, LANDMARKS, SQUARE, Layout, fewer_landmarks, has_landmarks, symmetric_square
from scalemani.steps.start import begun_block
from scalemani.storage.audit import Fault
from scalemani.storage.files import checksum
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks, disk_bytes

MODEL = ("vectors", "eigenvalues", "means")
TIGHTER = 1e-3  # of the tolerance that is asked for: products of the square cost next to nothing
LEAST_TOL = 1e-10
MEANS_ALLOWED = 1e-9  # relative: the means are made again of the same numbers


class Axes(Step):
    """Constant and axes; what they are solved from is the subclass's."""

    record, title = SolveRecord, "constant and axes"
    late = True
    arrays = {"vectors": "solve", "eigenvalues": "solve", "means": "solve", "pieces_solve": "pieces"}
    mends = {"solve": "solves again", "model": "solves again", "pieces": "removes it"}
    from_points: tuple[str, ...] = ("solve", "model")

    def fields(self, parameters: Parameters, kind: str) -> SolveFields:
        return SolveFields(
            n_components=int(parameters.n_components),
            correction=parameters.correction_in(1.0),
            constant_solver=parameters.constant_solver,
            tol=float(parameters.tol),
            random_state=parameters.random_state,
        )

    def run(self, work: Work) -> None:
        """Solve for the correction that is asked for, and record the model; nothing if that is there already.

        Raises SelfCheckError: If what was found contradicts itself; nothing is recorded then.
        """
        if self.done(work):
            work.store.pieces("solve").drop()  # of a fit that was killed before it did
            return
        self.solve(work)

    def solve(self, work: Work) -> None:
        """Solve, whatever is there: it stays until the new model is recorded."""
        raise NotImplementedError

    def _record(
        self,
        work: Work,
        solution: Solution,
        sums: DistanceSums,
        reads: int,
        remarks: list[Remark],
        check: Callable[[Embedding], dict[str, float]],
    ) -> None:
        """Check a solution, and put its model in the place of the one that is there."""
        store, scale, median = work.store, *_units(work.store)
        embedding = make_embedding(solution, sums, scale)
        account = spectrum_account(solution, embedding, sums, median, reads, work.parameters.tol, remarks)
        try:
            account["self_check"] = check(embedding)
        except SelfCheckError:
            store.pieces("solve").drop()  # whatever was wrong is not begun from again
            raise
        store.forget(SolveRecord.STEP, PlacementRecord.STEP, FitRecord.STEP)
        store.write_array("vectors", embedding.vectors)
        store.write_array("eigenvalues", embedding.eigenvalues)
        store.write_array("means", embedding.means)
        store.finish(
            SolveRecord(
                fields=self.fields(work.parameters, ""),
                constant=embedding.constant,
                nugget=embedding.nugget,
                tolerance=embedding.tolerance,
                spectrum=SpectrumRecord(
                    **account, n_landmarks=len(embedding.vectors) if has_landmarks(store) else None
                ),
            )
        )
        store.pieces("solve").drop()

    def begun(self, store: RunStore) -> list[str]:
        """How many reads of D are kept."""
        reads = store.pieces("solve").count("read_")
        return [f"{reads} reads of the distances"] if reads else []

    def left(self, store: RunStore) -> set[str]:
        return set(MODEL) if store.record(SolveRecord) is not None else set()

    def account(self, store: RunStore) -> dict[str, Any]:
        """What the spectrum says, and how the constant was found."""
        state = store.needed(SolveRecord)
        return {**state.spectrum.as_dict(), "constant_solver": state.fields.constant_solver}

    def coordinates(self, store: RunStore) -> F64 | None:
        """Those of the points that the axes were solved from."""
        return stored_embedding(store).coordinates()


def stored_embedding(store: RunStore) -> Embedding:
    """The model of a run whose axes are there."""
    state = store.needed(SolveRecord)
    return Embedding(
        vectors=store.read_array("vectors"),
        eigenvalues=store.read_array("eigenvalues"),
        constant=state.constant,
        nugget=state.nugget,
        flipped=state.fields.correction == "flip",
        means=store.read_array("means"),
        scale=store.needed(GraphRecord).scale,
        counts=store.read_array(COUNTS).astype(np.float64) if has_landmarks(store) else None,
        tolerance=state.tolerance,
    )


def _units(store: RunStore) -> tuple[float, float]:
    """The unit of the tiles in the user's, and the median distance in that of the tiles."""
    return store.needed(GraphRecord).scale, store.needed(DistancesRecord).median


def _residuals(store: RunStore) -> F64:
    state = store.record(SolveRecord)
    return np.array(state.spectrum.residuals if state else [], np.float64)


class TileAxes(Axes):
    """Constant and axes from tiles of D."""

    def solve(self, work: Work) -> None:
        """Solve on the tiles; where pieces are kept, each read of D is in the store until the model is recorded."""
        store, given, parameters, cluster, report = work.store, work.points, work.parameters, work.cluster, work.report
        (scale, median), most_columns = _units(store), work.cut.most_columns
        report("solve", 0, 0)
        first = FirstRead.load(store)
        pieces = None
        if work.keep_pieces:
            begun = None if first is None else [checksum(first.block), checksum(first.found)]
            asked = asdict(self.fields(parameters, ""))
            pieces = store.pieces("solve", {**asked, "most_columns": most_columns, "first_read": begun})
        kernels = CenteredKernels(
            cluster, store, on_read=lambda reads: report("solve", reads, 0), first=first, kept=pieces
        )

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

        def check(embedding: Embedding) -> dict[str, float]:
            vertices = checked_vertices(store, parameters.random_state)
            if isinstance(given, GeodesicInput):
                rows = given_rows(given.checked, store.read_array("order"), vertices, scale)
            else:
                rows = geodesic_rows(shared_graph(store.path, store.identity), vertices)
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

        longer = given.longer if isinstance(given, GeodesicInput) else None  # was said when they were read
        remarks: list[Remark] = [] if longer is None else [(None, longer)]
        remarks += said_of_far_rows(store, far().vertices, far(), solution.tolerance)
        self._record(work, solution, kernels.sums, kernels.n_reads, remarks, check)
        report("solve", max(kernels.n_reads, 1), max(kernels.n_reads, 1))

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Rows of D that are found again agree with D, with the sums of its first read and with the model."""
        store, graph = work.store, work.made.get("graph")
        if graph is None or work.given:  # D is what was given, and what is made of it can't be found in another way
            return
        n = graph.shape[0]
        vertices = some_of(n, CHECKED)
        solved, read = store.record(SolveRecord) is not None, store.record(DistancesRecord) is not None
        model = stored_embedding(store) if solved and not broken & set(MODEL) else None
        first = FirstRead.load(store) if read and not any(name.startswith("first_") for name in broken) else None
        try:
            check_stored(
                store,
                geodesic_rows(graph, vertices),
                vertices,
                model,
                None if first is None else first.sums,
                residuals=_residuals(store),
                projection=work.parameters.projection,
                distances=read and store.has_distances,
            )
        except SelfCheckError as error:
            yield Fault("model", "self-check", str(error))

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Solve again from D; without D the fit does."""
        store = work.store
        if work.given or waiting or not store.has_distances:
            store.forget("fit", self.name, *(() if store.has_distances else ("geodesics",)))  # at once
            for name in MODEL:
                store.remove_array(name)
            if not store.has_distances:
                store.remove_array("distance_counts")
                store.remove_arrays("first_")
            return ["left to the same fit with the same points, which goes on: the model"]
        state, start = store.record(SolveRecord), store.record(StartRecord)
        if state is None:  # what the graph contradicts is D
            return drop_contradicting(store)
        n, p = store.needed(GraphRecord).n_vertices, state.fields.n_components
        usual = basis_limits(first_block(n, p), p)[1]
        columns = min(n - 1, usual) if start is None else start.most_columns
        parameters = replace(work.parameters, **asdict(state.fields))
        try:
            self.solve(replace(work, parameters=parameters, cut=TileCut(store.blocks.size, columns), keep_pieces=True))
        except SelfCheckError:
            return drop_contradicting(store)
        return ["the model was solved again from D"]

    # ---- what it will take ----

    scratch_while = "while it is solved"

    def fewest(self, parameters: Parameters) -> int:
        return parameters.n_components + 1

    def needs(self, size: FitSize, cut: TileCut) -> Needs:
        """The basis with a read of D or its own growth, then the self-check and the outputs.

        Of each read a block of vectors with both images stays in the store, which a stopped run goes on from.
        """
        n, edges, m, each = size.n, size.edges, block_columns(size), number_bytes(size.n)
        compressed, components = size.parameters.compression is not None, size.parameters.n_components
        reads, runs = self._reads(size, cut), Blocks(n, cut.tile).read_runs
        kept = 0 if size.parameters.store is None else 3 * 8 * n * m * reads
        reading = waiting_bytes(n, 0, 2 * m, min(size.window, runs + 1)) + each * m * n + products_bytes(n, m)
        task = sweep_task_bytes(n, cut.tile, m, each, compressed)
        if not size.given and "geodesics" not in size.done:
            left = 2 * KEPT  # of a task that is over, with its thread
            task = max(task, min(left, geodesic_task_bytes(n, edges, cut.tile, m, each)))
        graph = {} if size.given else {"graph": graph_bytes(n, edges)}
        vectors = {} if size.embedded else {"vectors": each * m * n}
        return Needs(
            client={
                **graph,  # the basis is gone when it is checked
                "basis and images": max(basis_bytes(n, cut.most_columns), again_bytes(n, edges, 2 * CHECKED)),
                "a read, or the basis growing": max(reading, growth_bytes(n, m)),
                "outputs": outputs_bytes(n, components),
            },
            worker={**graph, f"tasks, {size.threads} at once": size.threads * task, **vectors},
            remedies=fewer_components(size),
            disk=8 * n * (3 * m + SUMS + components + 4),  # the first read, vectors and maps
            scratch=kept,
            tasks=reads * runs,
            pieces=[f"{runs} a read"],
            lines=[("reads of D", f"{f'about {reads}' if reads else 'none'} after D is written")],
            numbers={"most_columns": cut.most_columns, "reads": reads, "tasks_a_read": runs, "disk_solving": kept},
        )

    def sampled(self, size: FitSize, cut: TileCut, rates: Any) -> FitSize:
        """With the reads that a sample takes."""
        if size.given or not self._reads(size, cut):
            return size
        told = sampled_reads(rates.sample.distances, size.parameters, size.n, cut.most_columns, rates.scale)
        return replace(size, reads=told or 0)

    def seconds(self, size: FitSize, cut: TileCut, rates: Any) -> float:
        """Reads of D, from memory or from the disk, and the solver's own work after each."""
        n, reads = size.n, self._reads(size, cut)
        if not reads:
            return 0.0
        read = n * (n + cut.tile) / 2 * rates.entries(n, cut.tile, block_columns(size)).read / size.slots
        disk = disk_bytes(n, cut.tile, size.parameters.compression is not None)
        uncached = disk / rates.disk if disk > free_memory() else 0.0
        return float(reads * (max(read, uncached) + rates.algebra(n, min(cut.most_columns // 2, 8 * reads))))

    def _reads(self, size: FitSize, cut: TileCut) -> int:
        return size.reads or expected_reads(size.parameters, size.n, cut.most_columns)


class LandmarkAxes(Axes):
    """Constant and axes from the landmarks' own distances."""

    from_points: tuple[str, ...] = ()

    def solve(self, work: Work) -> None:
        """Solve on the square of the landmarks, each of which stands for the points that are nearest to it."""
        store, parameters, report = work.store, work.parameters, work.report
        scale, median = _units(store)
        report("solve", 0, 1)
        square = symmetric_square(store)
        kernels = DenseKernels(square, store.read_array(COUNTS))
        far = far_rows(kernels.sums, median, lambda some: square[np.ix_(some, some)])
        tol = parameters.tol
        if parameters.constant_solver == "ritz":
            tol = min(tol, max(TIGHTER * tol, LEAST_TOL))
        solution = solve(
            kernels,
            parameters.n_components,
            correction=parameters.correction_in(scale),
            constant_solver=parameters.constant_solver,
            tol=tol,
            seed=parameters.random_state,
            tolerance=lambda: far.tolerance,
        )
        pairs = solution.pairs
        vectors, low_vector = kernels.on_points(pairs.vectors), kernels.on_points(pairs.low_vector)
        solution = replace(solution, pairs=replace(pairs, vectors=vectors, low_vector=low_vector))

        def check(embedding: Embedding) -> dict[str, float]:
            checked = some_of(len(square), CHECKED, parameters.random_state)
            return check_fit(
                None, read_back(store, checked), checked, solution, embedding, kernels.sums, square=square,
                precision="float64", projection=parameters.projection, tol=parameters.tol,
            )  # fmt: skip

        vertices = store.read_array(LANDMARKS)[far.vertices]
        self._record(work, solution, kernels.sums, 1, said_of_far_rows(store, vertices, far, solution.tolerance), check)
        report("solve", 1, 1)

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """The means and axes are those of the landmarks' distances, and the model places landmarks where they are."""
        store = work.store
        lost = store.record(SolveRecord) is None or store.record(DistancesRecord) is None
        if lost or broken & {SQUARE, COUNTS, LANDMARKS, *MODEL}:
            return
        embedding, chosen = stored_embedding(store), some_of(Layout.of(store).m, CHECKED)
        try:
            sums = DenseKernels(symmetric_square(store), store.read_array(COUNTS)).sums
            means = sums.mean_squares(embedding.constant, embedding.nugget)
            allowed = MEANS_ALLOWED * float(np.abs(means).max())
            if not np.allclose(means, embedding.means, rtol=MEANS_ALLOWED, atol=allowed):
                raise SelfCheckError("the means are not those of the landmarks' distances")
            check_centered(embedding.vectors)
            form = work.parameters.projection
            check_placed(read_back(store, chosen), chosen, embedding, _residuals(store), form)
        except SelfCheckError as error:
            yield Fault("model", "self-check", str(error))

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        store = work.store
        if waiting:
            return []
        fields = asdict(store.needed(SolveRecord).fields)
        try:
            self.solve(replace(work, parameters=replace(work.parameters, **fields)))
        except SelfCheckError:
            store.forget("fit", "coordinates", self.name, "geodesics", "sources")
            return ["the distances to landmarks contradict one another: the same fit makes them again"]
        return ["the model was solved again from the distances to landmarks"]

    def coordinates(self, store: RunStore) -> F64 | None:
        """None: the axes are the landmarks', and all points are placed by them."""
        return None

    # ---- what it will take ----

    def needs(self, size: FitSize, cut: Layout) -> Needs:
        """The square, which is in the client alone."""
        square, graph = 8 * cut.m**2, {} if size.given else {"graph": graph_bytes(size.n, size.edges)}
        return Needs(
            client={**graph, "square, its kernels and basis": 6 * square + kernels_bytes(cut.m)},
            remedies=fewer_landmarks(size),
            disk=4 * cut.m**2,
        )

    def seconds(self, size: FitSize, cut: Layout, rates: Any) -> float:
        """Products of a square like this or smaller, and what is made before them."""
        side = min(cut.m, SIDE)
        square = np.random.default_rng(0).random((side, side))
        width = max(1, min(first_block(side, size.parameters.n_components), side - 1))
        begun = time.perf_counter()
        kernels = DenseKernels(square + square.T, np.ones(side, np.int64))
        made = time.perf_counter() - begun
        product = rates.median(lambda: kernels.products(np.ones((side, width))))
        return float((made + PRODUCTS * product) * (cut.m / side) ** 2)


def said_of_far_rows(store: RunStore, vertices: I64, far: FarRows, tolerance: float) -> list[Remark]:
    """What there is to say of `vertices` that are far from all others, if there are any, by their rows in X."""
    rows = np.flatnonzero(np.isin(store.read_array("vertex"), vertices))
    return [(FarRowsWarning, far.sentence(rows.tolist(), tolerance))] if len(vertices) else []


SIDE = 512  # of the square whose products are timed
PRODUCTS = 24  # of the solver, about: 12 blocks of vectors, each by both kernels
