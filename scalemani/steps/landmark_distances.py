"""Distances of all points to the landmarks: rows by landmark, found by tasks and turned once into rows by point.

A task finds the rows of landmarks that lie near each other, and writes them into the matrix `landmark_rows` (m, n).
They are then turned into `distances_to_landmarks` (n, m), a chunk of which holds some points' distances to all
landmarks: what placing a point reads is its neighbours' rows there. Both have a ledger, so that a stopped run goes on;
the first goes when the second is whole. The landmarks' own distances, from which everything else is solved, are taken
from the rows as they are found (`landmark_square`). The points that lie nearest to each landmark are counted while they
are turned (`landmark_counts`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError, ScalemaniError, SelfCheckError
from scalemani.geodesics.batches import MOST_HOPS, paths_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import graph_bytes
from scalemani.progress import Progress
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.checks import check_same
from scalemani.steps.cuts import layouts, sample_points, scattered_task_bytes
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.steps.records import DataRecord, DistancesRecord, GraphRecord
from scalemani.steps.rows import RowMemory, given_rows
from scalemani.steps.sources import (
    COUNTS,
    LANDMARKS,
    POINTS,
    ROWS,
    SQUARE,
    Layout,
    fewer_landmarks,
    has_landmarks,
    landmark_count,
    symmetric_square,
)
from scalemani.storage.audit import Fault, fault_of_row, folder_faults, row_of, row_problem
from scalemani.storage.files import Location, open_location
from scalemani.storage.run import RunStore, opened_anew, shared_run
from scalemani.storage.tiles import Tiles
from scalemani.words import bytes_in_words

LOOKED_AT = 8  # landmarks whose rows are found again, and chunks in which they and some points are looked at


class LandmarkDistances(Step):
    """Distances of all points to the landmarks."""

    record, title = DistancesRecord, "geodesics"
    tiles = "blocks of distances to landmarks"
    matrices = (POINTS, ROWS)
    arrays = {"landmark_": "square"}
    mends = {
        "chunk": "makes it again",
        "matrix": "writes it again",
        "square": "takes it from the distances again",
    }
    from_points = ("chunk",)

    def run(self, work: Work) -> None:
        """Find them and turn them; what a stopped run finished stays."""
        store = work.store
        if store.record(DistancesRecord) is None:
            compute_rows(store, work.points, store.needed(GraphRecord).scale, work.cluster, work.report)
            median = median_distance(symmetric_square(store), store.read_array(COUNTS))
            store.finish(DistancesRecord(tile_size=Layout.of(store).points_a_chunk, median=median))
        Layout.of(store).by_landmark(store).drop()

    def begun(self, store: RunStore) -> list[str]:
        """Blocks that were found or turned."""
        if not has_landmarks(store):
            return []
        layout = Layout.of(store)
        found, turned = layout.by_landmark(store), layout.by_point(store)
        total, left = len(found.rows) + len(turned.rows), len(turned.missing())
        done = total - left - (len(found.missing()) if left else 0)
        return [f"{done:,} of {total:,} blocks of distances to them"]

    # ---- what is damaged ----

    def left(self, store: RunStore) -> set[str]:
        """What is taken of the distances while they are found."""
        return {SQUARE, COUNTS} if store.record(DistancesRecord) is not None else set()

    def audit(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Every chunk of the matrices and its line in the ledger, and the counts that follow from them."""
        yield from left_matrices(work.store)
        if has_landmarks(work.store):
            yield from matrix_faults(work.store, work.cluster, work.report, whole=LANDMARKS not in broken)
            work.made["audited"] = len(Layout.of(work.store).by_point(work.store).rows)

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Rows of some landmarks are found again from the graph; the landmarks' own distances are the matrix'."""
        store = work.store
        if LANDMARKS in broken or store.record(DistancesRecord) is None:
            return
        graph = work.made.get("graph")
        again = None if graph is None else _found_again(store, graph)
        if again is not None:
            yield again
        elif SQUARE not in broken:
            try:
                check_square(store)
            except DamagedStoreError:
                yield Fault("array", SQUARE, "it is not the landmarks' part of their distances")

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Chunks from the graph, and what is taken of the distances from these."""
        store, layout, done = work.store, Layout.of(work.store), list[str]()
        if waiting:
            return []
        if "matrix" in faults:
            for fault in faults["matrix"]:
                layout.matrix(store, fault.name.split("/")[0]).write_metadata()
            done.append("the metadata of the distances to landmarks were written again")
        if "chunk" in faults:
            return done + self._chunks(work, [row_of(fault.name) for fault in faults["chunk"]])
        if "square" in faults:
            names = {fault.name for fault in faults["square"]}
            if SQUARE in names:
                found = layout.by_point(store).read_rows(store.read_array(LANDMARKS))
                store.write_array(SQUARE, np.ascontiguousarray(found.T))
            if COUNTS in names:
                store.write_array(COUNTS, count_cells(store, work.cluster))
            store.finish()
            done += [f"{name} was taken from the distances again" for name in sorted(names)]
        return done

    def _chunks(self, work: Work, damaged: list[tuple[str, int]]) -> list[str]:
        store, layout, count = work.store, Layout.of(work.store), len(damaged)
        for name, row in damaged:
            layout.matrix(store, name).unfinish(row)
        what = f"{count} block{'s' if count > 1 else ''} of distances to landmarks"
        if store.record(DistancesRecord) is None:
            return [f"left to the same fit, which goes on: {what}"]
        if work.given:
            store.forget(self.name)
            return [f"left to the same fit with the same points, which goes on: {what}"]
        compute_rows(store, None, store.needed(GraphRecord).scale, work.cluster, work.report)
        store.finish()
        layout.by_landmark(store).drop()
        return [f"{what} {'was' if count == 1 else 'were'} made again from the graph"]

    # ---- what a fitted model asks ----

    def kept(self, store: RunStore) -> bool:
        """Always: new points are placed by them."""
        return True

    def rows(self, store: RunStore, vertices: I64) -> F32 | None:
        """Rows of landmarks, where D was given: those of others are in what the user gave."""
        return rows_of_landmarks(store, vertices) if store.needed(DataRecord).given else None

    @property
    def exported(self) -> tuple[str, ...]:
        """The matrix (n, m)."""
        return (POINTS,)

    def copy(self, store: RunStore, folder: Location) -> None:
        """Take the matrix (n, m) along, each chunk checked."""
        copy_points(store, folder)

    # ---- what it will take ----

    scratch_while = "while they are turned"

    def cuts(self, size: FitSize) -> Iterator[Layout]:
        """The fastest first."""
        begun = size.begun
        return layouts(size.n, landmark_count(size.parameters), size.slots) if begun is None else iter([begun])

    def needs(self, size: FitSize, cut: Layout) -> Needs:
        """Rows of a block of landmarks in each task, or a chunk that is turned; a given D is read by the client."""
        n, m, edges, threads = cut.n, cut.m, size.edges, 1 if size.given else size.threads
        here, chunk = cut.landmarks_a_task, cut.points_a_chunk
        found, chunks = 0 if size.given else -(-m // here), -(-n // chunk)
        rows = 4 * here * n if size.given else scattered_task_bytes(n, edges, here)
        graph = {} if size.given else {"graph, twice": graph_bytes(n, edges) + paths_bytes(n, edges)}
        turned = 4 * chunk * (2 * m + here)  # by point, as they are written, and a block by landmark
        searched = [f"{found} of {here} landmarks or fewer"] if found else []
        disk, scratch = 4 * m * chunks * chunk, 4 * (-(-m // here) * here) * chunks * chunk
        blocks = f"{chunks:,} block{'' if chunks == 1 else 's'} of {chunk:,} points"
        return Needs(
            client={"square": 8 * m**2},
            worker={**graph, f"{threads} tasks": threads * max(rows + 4 * chunk * here, turned)},
            remedies=fewer_landmarks(size),
            disk=disk,
            scratch=scratch,
            disk_remedies=["fewer landmarks"],
            tasks=found + chunks,
            pieces=[*searched, f"{chunks} to turn a block of points"],
            lines=[("their distances", f"{n:,} x {m:,}, {bytes_in_words(disk)} in {blocks}")],
            numbers={"landmarks_a_task": here, "points_a_chunk": chunk, "disk_turning": scratch},
        )

    def seconds(self, size: FitSize, cut: Layout, rates: Any) -> float:
        """Rows found in rounds, then each entry written, read, turned, held against the others and written again."""
        n, m, here, slots, needs = cut.n, cut.m, cut.landmarks_a_task, size.slots, self.needs(size, cut)
        finding = 0.0 if size.given else -(-m // (here * slots)) * here * rates.scattered(m)
        rows = np.random.default_rng(0).random((m, sample_points(cut)), np.float32)
        written, read = rates.on_disk(rows)
        turned = rates.median(lambda: np.ascontiguousarray(rows.T).argmin(axis=1))
        each = (2 * written + read + turned) / rows.size
        return float(max(finding + n * m * each / slots, (needs.disk + needs.scratch) / rates.disk))

    def cut_in(self, store: RunStore) -> Layout | None:
        """The layout that was recorded with the landmarks."""
        return Layout.of(store) if has_landmarks(store) else None


def compute_rows(store: RunStore, given: Input | None, scale: float, cluster: Cluster, report: Progress) -> None:
    """Fill both matrices, and `landmark_square` (m, m), float32 as found; what a stopped run finished stays.

    given: X, needed where D was given.
    Raises DamagedStoreError: If a landmark is not 0 from itself, or has no finite path to some point.
    """
    layout = Layout.of(store)
    rows, points = layout.by_landmark(store), layout.by_point(store)
    landmarks = store.read_array(LANDMARKS)
    total = len(rows.rows) + len(points.rows)
    rows.create()
    done = total - len(rows.missing()) - len(points.rows)
    square = np.empty((layout.m, layout.m), np.float32)
    report("geodesics", done, total)
    for block, part in enumerate(_row_blocks(store, given, scale, cluster, rows, landmarks)):
        square[rows.rows[block]] = part
        report("geodesics", max(done, block + 1), total)
    store.write_array(SQUARE, square)
    points.create()
    turned = count_cells(store, cluster, lambda block: report("geodesics", len(rows.rows) + block, total))
    store.write_array(COUNTS, turned)
    missing = points.missing()
    if missing:
        raise DamagedStoreError(f"{store.path!r}: {len(missing)} blocks of distances to landmarks were not written")


def count_cells(store: RunStore, cluster: Cluster, report: Callable[[int], None] = lambda done: None) -> I64:
    """Turn the blocks of points that are not turned yet; the points of each landmark's cell, shape (m,)."""
    layout = Layout.of(store)
    counts = np.zeros(layout.m, np.int64)
    tasks = [(store.path, store.identity, block) for block in range(len(layout.by_point(store).rows))]
    for done, part in enumerate(cluster.map(_turn, tasks), 1):
        counts += part
        report(done)
    return counts


def _row_blocks(
    store: RunStore,
    given: Input | None,
    scale: float,
    cluster: Cluster,
    rows: Tiles,
    landmarks: I64,
) -> Iterator[F32]:
    """The landmarks' columns of each block of rows, which are found and written where they are not there."""
    if isinstance(given, GeodesicInput):
        order = store.read_array("order")
        for block, here in enumerate(rows.rows):
            found = given_rows(given.checked, order, landmarks[here], scale)
            _check(found, landmarks[here])
            rows.write(block, found)
            yield found[:, landmarks]
        return
    tasks = [(store.path, store.identity, block) for block in range(len(rows.rows))]
    yield from cluster.map(_row_block, tasks, shared=RowMemory())


def _row_block(path: str, identity: str, block: int, memory: RowMemory) -> F32:
    """One task: rows of a block of landmarks; returns their distances to the landmarks."""
    store = shared_run(path, identity)
    layout, landmarks = Layout.of(store), store.read_array(LANDMARKS)
    rows = layout.by_landmark(store)
    if rows.done(block):
        try:
            return _columns(rows, block, landmarks)
        except DamagedStoreError:
            rows.unfinish(block)
    here = landmarks[rows.rows[block]]
    out = memory.rows(len(here), layout.n)
    found = geodesic_rows(memory.paths(path, identity), here, out=out)
    _check(found, here)
    rows.write(block, found)
    return found[:, landmarks]


def _check(found: F32, landmarks: I64) -> None:
    if not np.isfinite(found.max()) or found[np.arange(len(found)), landmarks].any():
        raise DamagedStoreError("rows of landmarks hold infinite distances, or none of 0 to themselves")


def _columns(rows: Tiles, block: int, landmarks: I64) -> F32:
    """The landmarks' columns of a finished block, whose every chunk is read and checked."""
    found = np.empty((rows.rows.length(block), len(landmarks)), np.float32)
    buffer = rows.new_buffer()
    for column, there in enumerate(rows.columns):
        part = rows.read(block, column, buffer)
        low, high = np.searchsorted(landmarks, (there.start, there.stop))
        found[:, low:high] = part[:, landmarks[low:high] - there.start]
    return found


def _turn(path: str, identity: str, block: int) -> I64:
    """One task: the distances of a block of points to all landmarks, from the rows of these; the points of each cell.

    A point is of the landmark that is nearest, the first of several; a landmark is always of its own.
    """
    store = shared_run(path, identity)
    layout = Layout.of(store)
    rows, points = layout.by_landmark(store), layout.by_point(store)
    turned = None
    if points.done(block):
        try:
            turned = points.read(block, 0)
        except DamagedStoreError:
            points.unfinish(block)
    if turned is None:
        turned, buffer = np.empty((points.rows.length(block), layout.m), np.float32), rows.new_buffer()
        for row, here in enumerate(rows.rows):
            turned[:, here] = rows.read(row, block, buffer).T
        points.write(block, turned)
    return cells(turned, points.rows[block], store.read_array(LANDMARKS))


def cells(distances: F32, here: slice, landmarks: I64) -> I64:
    """How many of some points are in the cell of each landmark, shape (m,).

    distances (points, m)
    here: Their vertices.
    landmarks (m,)
    """
    nearest = distances.argmin(axis=1)
    low, high = np.searchsorted(landmarks, (here.start, here.stop))
    nearest[landmarks[low:high] - here.start] = np.arange(low, high)
    return np.bincount(nearest, minlength=len(landmarks))


def median_distance(square: F64, counts: I64) -> float:
    """Median distance between points of different cells, each put where its landmark is.

    >>> apart = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 4.0], [4.0, 4.0, 0.0]])
    >>> median_distance(apart, np.array([1, 1, 1])), median_distance(apart, np.array([9, 9, 1]))
    (4.0, 1.0)
    """
    upper = np.triu_indices(len(square), 1)
    distances, pairs = square[upper], np.outer(counts, counts)[upper]
    order = np.argsort(distances)
    below = np.cumsum(pairs[order])
    return float(distances[order[np.searchsorted(below, below[-1] / 2)]])


def rows_of_landmarks(store: RunStore, vertices: I64) -> F32:
    """Rows of D of some landmarks, (l, n), from the distances of all points to them: the whole matrix is read.

    Raises ScalemaniError: If a vertex is no landmark.
    """
    layout, landmarks = Layout.of(store), store.read_array(LANDMARKS)
    at = np.minimum(np.searchsorted(landmarks, vertices), len(landmarks) - 1)
    lost = int((landmarks[at] != vertices).sum())
    if lost:
        raise ScalemaniError(
            f"{lost} of {len(vertices)} rows are not landmarks, and D was given: only distances to the {layout.m} "
            "landmarks are kept (landmarks_); the others are in what you gave"
        )
    points, found = layout.by_point(store), np.empty((len(vertices), layout.n), np.float32)
    for block, here in enumerate(points.rows):
        found[:, here] = points.read(block, 0)[:, at].T
    return found


def copy_points(store: RunStore, folder: Location) -> None:
    """Copy the matrix (n, m) and its ledger into another folder of the same run, each chunk checked."""
    layout = Layout.of(store)
    ours, theirs = layout.by_point(store), layout.matrix(store, POINTS, folder)
    theirs.create()
    for row in range(len(ours.rows)):
        theirs.write(row, ours.read(row, 0))


def read_back(store: RunStore, chosen: I64) -> F32:
    """Distances of some landmarks to all of them, (l, m), from the matrix of all points."""
    layout = Layout.of(store)
    return layout.by_point(store).read_rows(store.read_array(LANDMARKS)[chosen])


def check_square(store: RunStore) -> None:
    """Refuse landmarks' own distances that are not those of the matrix of all points."""
    layout = Layout.of(store)
    found = read_back(store, np.arange(layout.m))
    if not np.array_equal(found, store.read_array(SQUARE).T):
        raise DamagedStoreError(f"{store.path!r}: {SQUARE!r} is not of these landmarks; fit again")


def left_matrices(store: RunStore) -> Iterator[Fault]:
    """Folders of matrices that are not of the run any more; before there are landmarks the same fit removes them."""
    stages, folder = store.document.stages, open_location(store.path)
    if "fit" not in stages and not has_landmarks(store):
        return
    used: set[str] = set() if not has_landmarks(store) else {POINTS} if "geodesics" in stages else {POINTS, ROWS}
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


def some_chunks(store: RunStore) -> list[int]:
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
    for block in some_chunks(store):
        here = points.rows[block]
        try:
            check_same(points.read(block, 0)[:, chosen].T.astype(np.float64), rows[:, here], MOST_HOPS)
        except SelfCheckError as error:
            return fault_of_row(points, block, str(error))
    return None
