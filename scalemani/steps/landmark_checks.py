"""Mends a run by landmarks: takes what :mod:`scalemani.steps.landmark_checks` found, makes that again and nothing else.

The landmarks are chosen again by the method and seed that are recorded, chunks are made of the graph, the landmarks'
own distances and the counts of the matrix, axes of those, coordinates of both: all have the bits that they had, which
checksums in the document confirm. What needs the points (all of a given D) is taken back, so that the same fit with the
same points makes it again and goes on.

Whether a store's landmarks are what it says: takes a run by landmarks, gives every fault.

Every byte of its matrices and of their ledgers is looked at, the cells of the landmarks are counted again, and then
what the parts say together: some rows are found again from the graph, the landmarks' own distances are those of the
matrix, the model places landmarks where its axes have them, and some points are placed a second time.
"""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from msgspec.structs import asdict

from scalemani.aliases import F32, I64
from scalemani.cluster.client import Cluster
from scalemani.embedding.coordinates import load_embedding
from scalemani.errors import DamagedStoreError, SelfCheckError
from scalemani.geodesics.batches import MOST_HOPS
from scalemani.geodesics.landmarks import (
    COORDINATES,
    COUNTS,
    LANDMARKS,
    POINTS,
    ROWS,
    SQUARE,
    Layout,
    symmetric_square,
)
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import shared_graph
from scalemani.kernel.operators import LandmarkKernels
from scalemani.parameters import Parameters
from scalemani.progress import Progress
from scalemani.projection.landmarks import LandmarkPlacer, place_all
from scalemani.steps.axes import check_square, checked_landmarks, read_back, solve_landmarks
from scalemani.steps.checks import check_centred, check_placed, check_same
from scalemani.steps.distances import cells, compute_rows, count_cells
from scalemani.steps.records import DataRecord, DistancesRecord, FitRecord, GraphRecord, LandmarksRecord, SolveRecord
from scalemani.steps.sources import choose_landmarks
from scalemani.storage.audit import Fault, fault_of_row, folder_faults, opened_anew, row_of, row_problem
from scalemani.storage.files import open_location
from scalemani.storage.run import RunStore

LOOKED_AT = 8  # landmarks whose rows are found again, and chunks in which they and some points are looked at
PLACED = 64  # points of a chunk that are placed again
SAME = 1e-9  # of the longest coordinate of an axis: another processor's sums may differ in the last bits
MEANS_ALLOWED = 1e-9


def needed_landmark_arrays(store: RunStore) -> set[str]:
    """The arrays that the finished stages of a run by landmarks have left; none of any other run."""
    stages = store.document.stages
    if LandmarksRecord.STEP not in stages:
        return set()
    square = {SQUARE, COUNTS} if "geodesics" in stages else set()
    return {LANDMARKS} | square | ({COORDINATES} if "solve" in stages else set())


def left_matrices(store: RunStore) -> Iterator[Fault]:
    """Folders of matrices that are not of the run any more; before there are landmarks the same fit removes them."""
    stages, folder = store.document.stages, open_location(store.path)
    if "fit" not in stages and LandmarksRecord.STEP not in stages:
        return
    used: set[str] = (
        set() if LandmarksRecord.STEP not in stages else {POINTS} if "geodesics" in stages else {POINTS, ROWS}
    )
    for name in sorted({POINTS, ROWS} - used):
        if (folder / name).exists():
            yield Fault("leftover", name, "distances to landmarks that a stopped run left")


def matrix_faults(store: RunStore, cluster: Cluster, report: Progress, *, whole: bool) -> Iterator[Fault]:
    """Of the matrices, and of the counts that follow from them.

    whole: Whether the array of landmarks is.
    """
    layout, finished = Layout.of(store), store.record(DistancesRecord) is not None
    wanted = [layout.by_point(store)] if finished else [layout.by_point(store), layout.by_landmark(store)]
    there = [matrix for matrix in wanted if finished or matrix.exists]
    for matrix in there:
        yield from folder_faults(matrix, finished)
    tasks = [
        (store.path, store.identity, matrix.name, row, finished, whole)
        for matrix in there
        for row in range(len(matrix.rows))
    ]
    counts, damaged = np.zeros(layout.m, np.int64), False
    for done, (fault, part) in enumerate(cluster.map(_row, tasks), 1):
        report("verify", done, len(tasks))
        if fault is not None:
            damaged = True
            yield fault
        elif part is not None:
            counts += part
    if finished and whole and not damaged:
        try:
            if not np.array_equal(store.read_array(COUNTS), counts):
                yield Fault("array", COUNTS, "the points nearest to each landmark are others")
        except DamagedStoreError:
            pass  # it is among the faults of arrays


def _row(path: str, identity: str, name: str, row: int, finished: bool, whole: bool) -> tuple[Fault | None, I64 | None]:
    """One task: a row of chunks; its fault, and the cells of its points."""
    store = opened_anew(path, identity)
    matrix, found = Layout.of(store).matrix(store, name), list[I64]()

    def use(row: int, column: int, chunk: F32) -> None:
        if name != POINTS or not whole:
            return
        here, landmarks = matrix.rows[row], store.read_array(LANDMARKS)
        low, high = np.searchsorted(landmarks, (here.start, here.stop))
        if chunk[landmarks[low:high] - here.start, np.arange(low, high)].any():
            raise DamagedStoreError("landmarks are not at 0 from themselves")
        found.append(cells(chunk, here, landmarks))

    try:
        problem = row_problem(matrix, row, finished=finished, use=use)
    except DamagedStoreError as error:
        problem = str(error)
    fault = None if problem is None else fault_of_row(matrix, row, problem)
    return fault, found[0] if found else None


def contradictions(store: RunStore, graph: Any, broken: set[str]) -> Iterator[Fault]:
    """What the matrix, the arrays and the graph say of one another; each of them is whole as a file.

    graph: None where D was given.
    broken: Arrays that are not whole.
    """
    stages = store.document.stages
    if LANDMARKS in broken or "geodesics" not in stages:
        return
    if graph is not None:
        again = _found_again(store, graph)
        if again is not None:
            yield again
            return
    if SQUARE not in broken:
        try:
            check_square(store)
        except DamagedStoreError:
            yield Fault("array", SQUARE, "it is not the landmarks' part of their distances")
            return
    if "solve" in stages and not broken & {SQUARE, COUNTS, "vectors", "eigenvalues", "means"}:
        yield from _of_the_model(store, COORDINATES not in broken)


def _some(store: RunStore) -> list[int]:
    """Chunks of points that are looked at, ascending."""
    count = len(Layout.of(store).by_point(store).rows)
    chosen: list[int] = np.sort(np.random.default_rng(1).choice(count, min(count, LOOKED_AT), replace=False)).tolist()
    return chosen


def _found_again(store: RunStore, graph: Any) -> Fault | None:
    """Rows of some landmarks, from the graph."""
    layout = Layout.of(store)
    points, landmarks = layout.by_point(store), store.read_array(LANDMARKS)
    chosen = np.sort(np.random.default_rng(0).choice(layout.m, min(layout.m, LOOKED_AT), replace=False))
    rows = geodesic_rows(graph, landmarks[chosen]).astype(np.float64)
    for block in _some(store):
        here = points.rows[block]
        try:
            check_same(points.read(block, 0)[:, chosen].T.astype(np.float64), rows[:, here], MOST_HOPS)
        except SelfCheckError as error:
            return fault_of_row(points, block, str(error))
    return None


def _of_the_model(store: RunStore, placed: bool) -> Iterator[Fault]:
    """Means, axes and coordinates."""
    solved, layout = store.needed(SolveRecord), Layout.of(store)
    embedding, form = load_embedding(store), _form(solved)
    chosen = checked_landmarks(layout.m, 0)
    try:
        sums = LandmarkKernels(symmetric_square(store), store.read_array(COUNTS)).sums
        means = sums.mean_squares(embedding.constant, embedding.nugget)
        if not np.allclose(means, embedding.means, rtol=MEANS_ALLOWED, atol=MEANS_ALLOWED * float(np.abs(means).max())):
            raise SelfCheckError("the means are not those of the landmarks' distances")
        check_centred(embedding.vectors)
        check_placed(read_back(store, chosen), chosen, embedding, np.array(solved.spectrum.residuals), form)
    except SelfCheckError as error:
        yield Fault("model", "self-check", str(error))
        return
    if not placed:
        return
    coordinates, placer = store.read_array(COORDINATES), LandmarkPlacer(store, embedding, form)
    points, longest = layout.by_point(store), np.abs(coordinates).max(axis=0, initial=0.0)
    for block in _some(store):
        here = points.rows[block]
        inside = _few(here.stop - here.start)
        again = placer.axes.place_rows(points.read(block, 0)[inside], placer.landmark_of[here][inside])
        if (np.abs(again - coordinates[here][inside]) > SAME * longest).any():
            yield Fault("array", COORDINATES, "points are not where the model places them")
            return


def _form(solved: SolveRecord) -> str:
    """The projection by which points are placed."""
    return solved.fields.projection or "continuous"


def _few(count: int) -> I64:
    return np.linspace(0, count, min(count, PLACED), endpoint=False).astype(np.int64)


KINDS = ("matrix", "landmarks", "chunk", "square", "solve", "model", "placed")  # of faults mended here, in order
FROM_THE_POINTS = ("landmarks", "chunk")  # where D was given


def mend_landmarks(store: RunStore, faults: dict[str, list[Fault]], cluster: Cluster, report: Progress) -> list[str]:
    """Mend what is wrong, what other things depend on first; the rest of a kind that goes to the fit stays.

    faults: By kind: of `KINDS`.
    -> done: A sentence each.
    """
    done: list[str] = []
    given = store.needed(DataRecord).given
    if "matrix" in faults:
        layout = Layout.of(store)
        for fault in faults["matrix"]:
            layout.matrix(store, fault.name.split("/")[0]).write_metadata()
        done.append("the metadata of the distances to landmarks were written again")
    if "landmarks" in faults:
        return done + _chosen_again(store, given)
    if "chunk" in faults:
        done += _chunks(store, [row_of(fault.name) for fault in faults["chunk"]], given, cluster, report)
        return done
    if "square" in faults:
        done += _square(store, {fault.name for fault in faults["square"]}, cluster)
    if faults.keys() & {"solve", "model"}:
        done += _solved(store, cluster, report)
    elif "placed" in faults:
        done += _placed(store, cluster, report)
    return done


def _recorded(store: RunStore) -> Parameters | None:
    """What the fit was asked for; None where it has not ended."""
    fit = store.record(FitRecord)
    return None if fit is None else Parameters(**{**asdict(fit.fields), "metric_params": fit.fields.params})


def _chosen_again(store: RunStore, given: bool) -> list[str]:
    parameters, before = _recorded(store), store.document.arrays.get(LANDMARKS)
    if parameters is not None and not given:
        order, vertex = store.read_array("order"), store.read_array("vertex")
        graph = shared_graph(store.path, store.identity)
        landmarks, _ = choose_landmarks(None, parameters, graph, order, vertex)
        store.write_array(LANDMARKS, landmarks)
        store.finish()
        if before in (None, store.document.arrays[LANDMARKS]):
            return ["the landmarks were chosen again: they are those that they were"]
    layout = Layout.of(store)
    store.forget("fit", "solve", "geodesics", LandmarksRecord.STEP)
    layout.by_point(store).drop()
    layout.by_landmark(store).drop()
    for name in (LANDMARKS, SQUARE, COUNTS, COORDINATES):
        store.remove_array(name)
    return ["left to the same fit with the same points, which goes on: the landmarks and all that comes of them"]


def _chunks(
    store: RunStore, damaged: Collection[tuple[str, int]], given: bool, cluster: Cluster, report: Progress
) -> list[str]:
    layout, state = Layout.of(store), store.record(DistancesRecord)
    for name, row in damaged:
        layout.matrix(store, name).unfinish(row)
    count = len(damaged)
    what = f"{count} block{'s' if count > 1 else ''} of distances to landmarks"
    if state is None:
        return [f"left to the same fit, which goes on: {what}"]
    if given:
        store.forget("geodesics")
        return [f"left to the same fit with the same points, which goes on: {what}"]
    compute_rows(store, None, store.needed(GraphRecord).scale, cluster, report)
    store.finish()
    layout.by_landmark(store).drop()
    return [f"{what} {'was' if count == 1 else 'were'} made again from the graph"]


def _square(store: RunStore, names: Collection[str], cluster: Cluster) -> list[str]:
    """The landmarks' own distances, and the points of each."""
    layout = Layout.of(store)
    if SQUARE in names:
        found = layout.by_point(store).read_rows(store.read_array(LANDMARKS))
        store.write_array(SQUARE, np.ascontiguousarray(found.T))
    if COUNTS in names:
        store.write_array(COUNTS, count_cells(store, cluster))
    store.finish()
    return [f"{name} was taken from the distances again" for name in sorted(names)]


def _solved(store: RunStore, cluster: Cluster, report: Progress) -> list[str]:
    """Axes, constant and coordinates."""
    fields, fit = store.needed(SolveRecord).fields, store.record(FitRecord)
    parameters = Parameters(**asdict(fields))
    try:
        solve_landmarks(store, parameters, cluster, fields, report, again=True)
    except SelfCheckError:
        store.forget("fit", "solve", "geodesics", LandmarksRecord.STEP)
        return ["the distances to landmarks contradict one another: the same fit makes them again"]
    if fit is not None:
        store.finish(fit)
    return ["the model was solved again from the distances to landmarks"]


def _placed(store: RunStore, cluster: Cluster, report: Progress) -> list[str]:
    """Coordinates alone, by the model as it is."""
    embedding, form = load_embedding(store), _form(store.needed(SolveRecord))
    store.write_array(COORDINATES, place_all(cluster, store, embedding, form, report))
    store.finish()
    return ["the points were placed again by the model"]
