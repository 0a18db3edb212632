"""Distances to landmarks: takes the graph (or a given D) and the landmarks, gives every point's distances to them.

Rows of D are found by landmark, a task a block of landmarks that are near each other, and written as the matrix
`landmark_rows` (m, n); then they are turned once into `distances_to_landmarks` (n, m), whose chunks hold some points'
distances to all landmarks: what a point's placing reads is its neighbours' rows there, m numbers each. Both have a
ledger, so that a stopped run goes on; the first goes when the second is whole. The square of the landmarks' own
distances, from which everything else is solved, is taken from the rows as they are found (`landmark_square`), and the
points that lie nearest to each are counted while they are turned (`landmark_counts`).
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.chunked_matrix import ChunkedMatrix
from scalemani.engine.cluster import Cluster
from scalemani.engine.shared_runs import shared_run
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError
from scalemani.geodesics import RowMemory
from scalemani.inputs import GeodesicInput, Input
from scalemani.landmarks.layout import COUNTS, LANDMARKS, SQUARE, Layout
from scalemani.scattered_rows import given_rows

Report = Callable[[str, int, int], None]


def compute_rows(store: RunStore, given: Input | None, scale: float, cluster: Cluster, report: Report) -> None:
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


def count_cells(
    store: RunStore, cluster: Cluster, report: Callable[[int], None] = lambda done: None
) -> NDArray[np.int64]:
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
    landmarks: NDArray[np.int64],
) -> Iterator[NDArray[np.float32]]:
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


def _row_block(path: str, identity: str, block: int, memory: RowMemory) -> NDArray[np.float32]:
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


def _check(found: NDArray[np.float32], landmarks: NDArray[np.int64]) -> None:
    if not np.isfinite(found.max()) or found[np.arange(len(found)), landmarks].any():
        raise DamagedStoreError("rows of landmarks hold infinite distances, or none of 0 to themselves")


def _columns(rows: ChunkedMatrix, block: int, landmarks: NDArray[np.int64]) -> NDArray[np.float32]:
    """The landmarks' columns of a finished block, whose every chunk is read and checked."""
    found = np.empty((rows.rows.length(block), len(landmarks)), np.float32)
    buffer = np.empty(rows.chunk, np.float32)
    for column, there in enumerate(rows.columns):
        part = rows.read(block, column, buffer)
        low, high = np.searchsorted(landmarks, (there.start, there.stop))
        found[:, low:high] = part[:, landmarks[low:high] - there.start]
    return found


def _turn(path: str, identity: str, block: int) -> NDArray[np.int64]:
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


def cells(distances: NDArray[np.float32], here: slice, landmarks: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of some points are in the cell of each landmark, shape (m,).

    distances (points, m)
    here: Their vertices.
    landmarks (m,)
    """
    nearest = distances.argmin(axis=1)
    low, high = np.searchsorted(landmarks, (here.start, here.stop))
    nearest[landmarks[low:high] - here.start] = np.arange(low, high)
    return np.bincount(nearest, minlength=len(landmarks))
