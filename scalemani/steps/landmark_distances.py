"""Distances of all points to the landmarks: rows of D by landmark, turned once into chunks by point.

A task finds the rows of a block of landmarks that are near each other and writes them into `landmark_rows` (m, n).
When all are there, each chunk of `distances_to_landmarks` (n, m) is made of them: to place a point takes its
neighbours' rows there, m numbers each. Both matrices have a ledger, so that a stopped run goes on; the first goes when
the second is whole. The square of the landmarks' own distances, from which the axes are solved, is taken from the rows
as they are found (`landmark_square`), and the points that lie nearest to each landmark are counted while they are
turned (`landmark_counts`).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalemani.aliases import F32, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics.batches import paths_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import graph_bytes
from scalemani.progress import Progress, bytes_in_words
from scalemani.steps.base import FitSize, Needs, Step
from scalemani.steps.cuts import layouts, sample_points, scattered_task_bytes
from scalemani.steps.distances import RowMemory, given_rows
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.steps.sources import fewer_landmarks, landmark_count
from scalemani.storage.chunked_matrix import COUNTS, LANDMARKS, SQUARE, STAGE, ChunkedMatrix, Layout
from scalemani.storage.run import RunStore, shared_run


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
    rows: ChunkedMatrix,
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


def _columns(rows: ChunkedMatrix, block: int, landmarks: I64) -> F32:
    """The landmarks' columns of a finished block, whose every chunk is read and checked."""
    found = np.empty((rows.rows.length(block), len(landmarks)), np.float32)
    buffer = np.empty(rows.chunk, np.float32)
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
        turned, buffer = np.empty((points.rows.length(block), layout.m), np.float32), np.empty(rows.chunk, np.float32)
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


class LandmarkDistances(Step):
    """Distances of all points to the landmarks."""

    name, title = "geodesics", "geodesics"

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

    def begun(self, store: RunStore) -> Layout | None:
        """The layout that was recorded with the landmarks."""
        return None if store.stage(STAGE) is None else Layout.of(store)
