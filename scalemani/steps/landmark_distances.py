"""Distances of all points to the landmarks: rows by landmark, found by tasks and turned once into rows by point.

A task finds the rows of landmarks that lie near each other, and writes them into the matrix `landmark_rows` (m, n).
They are then turned into `distances_to_landmarks` (n, m), a chunk of which holds some points' distances to all
landmarks: what placing a point reads is its neighbours' rows there. Both have a ledger, so that a stopped run goes on;
the first goes when the second is whole. While they are turned the landmarks' own distances are taken, from which
everything else is solved (`landmark_square`), and the points nearest to each landmark counted (`landmark_counts`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError, ScalemaniError, SelfCheckError
from scalemani.geodesics.batches import MOST_HOPS, paths_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import graph_bytes
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.checks import check_same, some_of
from scalemani.steps.cuts import layouts, sample_points, scattered_task_bytes
from scalemani.steps.inputs import GeodesicInput
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
from scalemani.storage.files import Location
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
            compute_rows(work)
            median = median_distance(symmetric_square(store), store.read_array(COUNTS))
            store.finish(DistancesRecord(tile_size=Layout.of(store).points_a_chunk, median=median))
        Layout.of(store).by_landmark(store).drop()

    def begun(self, store: RunStore) -> list[str]:
        """Blocks that were found or turned."""
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
        store, layout, whole = work.store, Layout.of(work.store), LANDMARKS not in broken
        finished = store.record(DistancesRecord) is not None
        points, rows = layout.by_point(store), layout.by_landmark(store)
        if finished and rows.folder.exists():
            yield Fault("leftover", ROWS, "distances to landmarks that a stopped run left")
        there = [points] if finished else [matrix for matrix in (points, rows) if matrix.exists]
        for matrix in there:
            yield from folder_faults(matrix, finished)
        blocks = [(matrix.name, row) for matrix in there for row in range(len(matrix.rows))]
        tasks = [(store.path, store.identity, *block, finished, whole) for block in blocks]
        counts, damaged = np.zeros(layout.m, np.int64), False
        for done, (fault, part) in enumerate(work.cluster.map(_audited, tasks), 1):
            work.report("verify", done, len(tasks))
            if fault is not None:
                damaged = True
                yield fault
            elif part is not None:
                counts += part
        lost = not finished or not whole or damaged or COUNTS in broken
        if not lost and not np.array_equal(store.read_array(COUNTS), counts):
            yield Fault("array", COUNTS, "the points nearest to each landmark are others")
        work.made["audited"] = len(points.rows)

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
            found = read_back(store, np.arange(Layout.of(store).m))
            if not np.array_equal(found, store.read_array(SQUARE).T):
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
            turn_rows(store, work.cluster)
            store.finish()
            names = sorted({fault.name for fault in faults["square"]})
            done += [f"{name} was taken from the distances again" for name in names]
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
        compute_rows(work)
        store.finish()
        layout.by_landmark(store).drop()
        return [f"{what} {'was' if count == 1 else 'were'} made again from the graph"]

    # ---- what a fitted model asks ----

    def kept(self, store: RunStore) -> bool:
        """Always: new points are placed by them."""
        return True

    def rows(self, store: RunStore, vertices: I64) -> F32 | None:
        """Rows of landmarks, where D was given: those of others are in what the user gave."""
        if not store.needed(DataRecord).given:
            return None
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

    @property
    def exported(self) -> tuple[str, ...]:
        return (POINTS,)

    def copy(self, store: RunStore, folder: Location) -> None:
        """Take the matrix (n, m) along, each chunk checked."""
        layout = Layout.of(store)
        ours, theirs = layout.by_point(store), layout.matrix(store, POINTS, folder)
        theirs.create()
        for row in range(len(ours.rows)):
            theirs.write(row, ours.read(row, 0))

    # ---- what it will take ----

    scratch_while = "while they are turned"

    def cuts(self, size: FitSize) -> Iterator[Layout]:
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
            worker={**graph, f"tasks, {threads} at once": threads * max(rows + 4 * chunk * here, turned)},
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


def compute_rows(work: Work) -> None:
    """Fill both matrices and write what is taken of them; what a stopped run finished stays.

    Raises DamagedStoreError: If a landmark is not 0 from itself, or has no finite path to some point.
    """
    store, given, layout = work.store, work.points, Layout.of(work.store)
    rows, points = layout.by_landmark(store), layout.by_point(store)
    blocks, total = range(len(rows.rows)), len(rows.rows) + len(points.rows)
    rows.create()
    done = len(blocks) - len(rows.missing())
    work.report("geodesics", done, total)
    found: Iterable[Any]
    if isinstance(given, GeodesicInput):
        order, scale = store.read_array("order"), store.needed(GraphRecord).scale
        make = partial(given_rows, given.checked, order, scale=scale)
        found = map(partial(_finish_row, store, rows, make), blocks)
    else:
        tasks = [(store.path, store.identity, block) for block in blocks]
        found = work.cluster.map(_row_block, tasks, shared=RowMemory())
    for block, _ in enumerate(found, 1):
        work.report("geodesics", max(done, block), total)
    points.create()
    turn_rows(store, work.cluster, lambda block: work.report("geodesics", len(blocks) + block, total))
    missing = points.missing()
    if missing:
        raise DamagedStoreError(f"{store.path!r}: {len(missing)} blocks of distances to landmarks were not written")


def _row_block(path: str, identity: str, block: int, memory: RowMemory) -> None:
    """One task: rows of a block of landmarks."""
    store = shared_run(path, identity)
    rows = Layout.of(store).by_landmark(store)

    def make(landmarks: I64) -> F32:
        out = memory.rows(len(landmarks), rows.shape[1])
        return geodesic_rows(memory.paths(path, identity), landmarks, out=out)

    _finish_row(store, rows, make, block)


def _finish_row(store: RunStore, rows: Tiles, make: Callable[[I64], F32], block: int) -> None:
    """Write a block of rows of landmarks, unless it is there: then every chunk is read and checked."""
    if rows.done(block):
        try:
            buffer = rows.new_buffer()
            for column in rows.columns_of(block):
                rows.read(block, column, buffer)
            return
        except DamagedStoreError:
            rows.unfinish(block)
    landmarks = store.read_array(LANDMARKS)[rows.rows[block]]
    found = make(landmarks)
    if not np.isfinite(found.max()) or found[np.arange(len(found)), landmarks].any():
        raise DamagedStoreError("rows of landmarks hold infinite distances, or none of 0 to themselves")
    rows.write(block, found)


def turn_rows(store: RunStore, cluster: Cluster, report: Callable[[int], None] = lambda done: None) -> None:
    """Turn the blocks of points that are not turned yet; write the landmarks' own distances and their cells' sizes."""
    layout = Layout.of(store)
    square, counts, at = np.empty((layout.m, layout.m), np.float32), np.zeros(layout.m, np.int64), 0
    tasks = [(store.path, store.identity, block) for block in range(len(layout.by_point(store).rows))]
    for done, (own, part) in enumerate(cluster.map(_turn, tasks), 1):
        square[:, at : at + len(own)] = own.T
        at, counts = at + len(own), counts + part
        report(done)
    store.write_array(SQUARE, square)
    store.write_array(COUNTS, counts)


def _turn(path: str, identity: str, block: int) -> tuple[F32, I64]:
    """One task: the distances of a block of points to all landmarks, from the rows of these.

    -> own (k, m): Of the landmarks among the points.
    -> counts (m,): The points of each landmark's cell.
    """
    store = shared_run(path, identity)
    layout, landmarks = Layout.of(store), store.read_array(LANDMARKS)
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
    return cells(turned, points.rows[block], landmarks)


def cells(distances: F32, here: slice, landmarks: I64) -> tuple[F32, I64]:
    """Distances of the landmarks among some points, and how many of the points are in each landmark's cell, (m,).

    A point is of the landmark that is nearest, the first of several; a landmark is always of its own.

    distances (points, m)
    here: Their vertices.
    landmarks (m,)
    """
    low, high = np.searchsorted(landmarks, (here.start, here.stop))
    inside, nearest = landmarks[low:high] - here.start, distances.argmin(axis=1)
    nearest[inside] = np.arange(low, high)
    return distances[inside], np.bincount(nearest, minlength=len(landmarks))


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


def read_back(store: RunStore, chosen: I64) -> F32:
    """Distances of some landmarks to all of them, (l, m), from the matrix of all points."""
    layout = Layout.of(store)
    return layout.by_point(store).read_rows(store.read_array(LANDMARKS)[chosen])


def _audited(
    path: str, identity: str, name: str, row: int, finished: bool, whole: bool
) -> tuple[Fault | None, I64 | None]:
    """One task: a row of chunks; its fault, and the cells of its points where the array of landmarks is `whole`."""
    store = opened_anew(path, identity)
    matrix, found = Layout.of(store).matrix(store, name), list[I64]()

    def use(row: int, column: int, chunk: F32) -> None:
        if name == POINTS and whole:
            here, landmarks = matrix.rows[row], store.read_array(LANDMARKS)
            own, counts = cells(chunk, here, landmarks)
            if np.diagonal(own, np.searchsorted(landmarks, here.start)).any():
                raise DamagedStoreError("landmarks are not at 0 from themselves")
            found.append(counts)

    try:
        problem = row_problem(matrix, row, finished=finished, use=use)
    except DamagedStoreError as error:
        problem = str(error)
    fault = None if problem is None else fault_of_row(matrix, row, problem)
    return fault, found[0] if found else None


def some_chunks(store: RunStore) -> list[int]:
    """Chunks of points that are looked at, ascending."""
    return [int(block) for block in some_of(len(Layout.of(store).by_point(store).rows), LOOKED_AT, 1)]


def _found_again(store: RunStore, graph: Any) -> Fault | None:
    """Rows of some landmarks, from the graph."""
    layout = Layout.of(store)
    points, landmarks = layout.by_point(store), store.read_array(LANDMARKS)
    chosen = some_of(layout.m, LOOKED_AT)
    rows = geodesic_rows(graph, landmarks[chosen]).astype(np.float64)
    for block in some_chunks(store):
        here = points.rows[block]
        try:
            check_same(points.read(block, 0)[:, chosen].T.astype(np.float64), rows[:, here], MOST_HOPS)
        except SelfCheckError as error:
            return fault_of_row(points, block, str(error))
    return None
