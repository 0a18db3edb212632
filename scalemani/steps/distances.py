"""Distances to landmarks: takes the graph (or a given D) and the landmarks, gives every point's distances to them.

Rows of D are found by landmark, a task a block of landmarks that are near each other, and written as the matrix
`landmark_rows` (m, n); then they are turned once into `distances_to_landmarks` (n, m), whose chunks hold some points'
distances to all landmarks: what a point's placing reads is its neighbours' rows there, m numbers each. Both have a
ledger, so that a stopped run goes on; the first goes when the second is whole. The square of the landmarks' own
distances, from which everything else is solved, is taken from the rows as they are found (`landmark_square`), and the
points that lie nearest to each are counted while they are turned (`landmark_counts`).

Stage 4: takes the graph (or a matrix of geodesic distances), gives D as tiles in the run's store.

One task a block of sources: it looks in the ledger, computes its rows with the graph that its
process has cached, writes the tiles at and behind the diagonal and puts its line in the ledger;
each pair of blocks is written once, by one task. What a stopped run has finished is not done again.
While a task has its rows in memory it takes from them what a :class:`Reader` asks for, so that the
first read of D costs no reading, and counts the distances by their size (:mod:`scalemani.geodesics.reads`);
rows that an earlier run finished are read back for both, and made again where they are not what was written.
Lengths in the store are divided by `scale`, a power of two that brings the median edge near 1.

Stage 4 where D is given: takes a matrix of geodesic distances by rows, gives it as tiles in the run's store.

Stage 4 for a few sources: takes the graph, or a given D, and vertices, gives their rows of D; nothing is written.

The sources may lie anywhere: a batch of them is swept in the graph's own orders (:mod:`scalemani.geodesics.lanes`).
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError, DamagedTilesWarning, warn
from scalemani.geodesics.batches import PathGraph
from scalemani.geodesics.landmarks import COUNTS, LANDMARKS, SQUARE, Layout
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS, Reader, RowShares, new_counts, row_shares
from scalemani.geodesics.rows import check_rows, shared_graph
from scalemani.points.given_matrix import DistanceMatrix
from scalemani.progress import Progress
from scalemani.steps.inputs import GeodesicInput, Input
from scalemani.storage.json import REMEDY
from scalemani.storage.run import RunStore, shared_run
from scalemani.storage.tiles import Tiles, Use


def compute_distances(cluster: Cluster, store: RunStore, report: Progress, reader: Reader) -> F64:
    """Fill the missing tile rows of D; returns what `reader` takes of all of D, whose counts go into the store.

    -> (n, w): Shares are combined in the order of the rows: the same bits for any number of workers, and wherever an
        earlier run was stopped.
    Raises DamagedStoreError: If the ledger does not name a tile row that its task has written. The task asks, on the
        host that wrote it: a network's folder may be remembered elsewhere as it was.
    Warns by DamagedTilesWarning: If tiles that an earlier run wrote were damaged, and were made again.
    """
    missing, blocks = set(store.missing_rows()), store.blocks
    total, identity = len(blocks), store.identity
    done = total - len(missing)
    found, counts, remade = np.zeros((blocks.n, reader.width)), new_counts(), list[int]()
    tasks = [(store.path, identity, row) for row in range(total)]
    for row, part in enumerate(cluster.map(_tile_row, tasks, shared=RowWork(reader))):
        reader.combine(found[blocks[row].start :], part.total)
        counts += part.counts
        remade += [row] if part.remade else []
        if row in missing:
            done += 1
            report("geodesics", done, total)
    warn_remade(store, remade)
    store.write_array(DISTANCE_COUNTS, counts)
    return found


def warn_remade(store: RunStore, rows: list[int]) -> None:
    """Say once that rows of tiles were damaged, if any were."""
    if rows:
        warn(
            f"{len(rows)} of {len(store.blocks)} tile rows of D in {store.path!r} were damaged (the first: {rows[0]}) "
            "and have been made again: look at the disk",
            DamagedTilesWarning,
        )


class RowMemory:
    """What a process keeps from task to task of the stage; empty where it is sent.

    Memory for a thread's rows, since pages that are touched for the first time cost up to a third of a task; and
    the graph with the searches' workspaces.
    """

    def __init__(self) -> None:
        self._threads = threading.local()
        self._lock = threading.Lock()
        self._paths: PathGraph | None = None

    def paths(self, path: str, identity: str) -> PathGraph:
        """The graph of a run as the kernels take it."""
        with self._lock:
            if self._paths is None:
                self._paths = PathGraph(shared_graph(path, identity))
            return self._paths

    def __reduce__(self) -> tuple[type["RowMemory"], tuple[()]]:
        return RowMemory, ()

    def rows(self, count: int, width: int) -> F32:
        """An array (count, width) with anything in it, which the thread's next call gives again."""
        size = count * width
        if getattr(self._threads, "flat", np.empty(0)).size < size:
            vars(self._threads).pop("flat", None)  # before the larger one is there
            self._threads.flat = np.empty(size, np.float32)
        found: F32 = self._threads.flat[:size].reshape(count, width)
        return found


@dataclass(frozen=True, eq=False)
class RowWork:
    """What the tasks of a stage share, sent to each worker once; it goes with the stage."""

    reader: Reader
    memory: RowMemory = field(default_factory=RowMemory)


def _tile_row(path: str, identity: str, row: int, work: RowWork) -> RowShares:
    """One task: the tiles (row, row..); returns their shares."""
    store, reader = shared_run(path, identity), work.reader
    done = store.tile_row_done(row)
    if done:
        try:
            return row_shares(store, reader, row)
        except DamagedStoreError:
            pass  # it is made again below
    upper = _upper_rows(store, row, work.memory)
    shares = row_shares(store, reader, row, lambda use: store.write_tile_row(row, upper, use))
    _check_written(store, row)
    return replace(shares, remade=done)


def _check_written(store: RunStore, row: int) -> None:
    if not store.tile_row_done(row):
        raise DamagedStoreError(f"{store.path!r}: tile row {row} of D was not written; {REMEDY}")


def _upper_rows(store: RunStore, row: int, memory: RowMemory) -> F32:
    """A block's rows of D from its own vertices on, found from the graph; in memory that is the thread's."""
    here, n = store.blocks[row], store.blocks.n
    out = memory.rows(here.stop - here.start, n - here.start)
    paths = memory.paths(store.path, store.identity)
    upper = geodesic_rows(paths, np.arange(here.start, here.stop), first=here.start, out=out)
    check_rows(shared_graph(store.path, store.identity), upper, here.start)
    return upper


def remake_rows(cluster: Cluster, store: RunStore, rows: list[int], report: Progress) -> None:
    """Make rows of tiles again from the graph, whatever is there of them; they have the bits that they had."""
    for row in rows:
        store.unfinish(row)
    tasks = [(store.path, store.identity, row) for row in rows]
    for done, _ in enumerate(cluster.map(_remade, tasks, shared=RowMemory()), 1):
        report("geodesics", done, len(rows))


def _remade(path: str, identity: str, row: int, memory: RowMemory) -> None:
    """One task."""
    store = shared_run(path, identity)
    store.write_tile_row(row, _upper_rows(store, row, memory))
    _check_written(store, row)


def write_given(
    store: RunStore,
    read_upper: Callable[[slice], F64],
    scale: float,
    report: Progress,
    reader: Reader,
) -> F64:
    """Write a matrix of geodesic distances, taken as D itself, as tiles; returns what `reader` takes of D.

    The counts of its distances go into the store.

    read_upper: Slice of vertices -> their distances to the vertices from its start on, user's unit.
    -> (n, w)
    """
    blocks = store.blocks
    found, counts = np.zeros((blocks.n, reader.width)), new_counts()

    def write(row: int, here: slice, use: Use) -> None:
        store.write_tile_row(row, (read_upper(here) / scale).astype(np.float32), use)

    remade = []
    for row, here in enumerate(blocks):
        part = None
        if store.tile_row_done(row):
            try:
                part = row_shares(store, reader, row)
            except DamagedStoreError:
                remade.append(row)
        part = part or row_shares(store, reader, row, partial(write, row, here))
        reader.combine(found[here.start :], part.total)
        counts += part.counts
        report("geodesics", row + 1, len(blocks))
    warn_remade(store, remade)
    store.write_array(DISTANCE_COUNTS, counts)
    return found


SOURCES_A_TASK = 32  # scattered rows of D that a task finds: as many as a batch of the search has lanes


def scattered_rows(cluster: Cluster, store: RunStore, vertices: I64) -> F32:
    """Rows of D for some vertices, found from the graph by the cluster; shape (m, n), in the unit of the tiles."""
    identity, n = store.identity, len(store.read_array("order"))
    rows = np.empty((len(vertices), n), np.float32)
    parts = [slice(at, at + SOURCES_A_TASK) for at in range(0, len(vertices), SOURCES_A_TASK)]
    tasks = [(store.path, identity, vertices[part]) for part in parts]
    for part, found in zip(parts, cluster.map(_some_rows, tasks, shared=RowMemory()), strict=True):
        rows[part] = found
    return rows


def _some_rows(path: str, identity: str, sources: I64, memory: RowMemory) -> F32:
    """One task."""
    return geodesic_rows(memory.paths(path, identity), sources)


def given_rows(matrix: DistanceMatrix, order: I64, vertices: I64, scale: float) -> F32:
    """Rows of a given D for some vertices, shape (m, n), in the unit of the tiles; one row in float64 at a time."""
    rows = np.empty((len(vertices), len(order)), np.float32)
    for row, vertex in zip(rows, vertices, strict=True):
        row[:] = matrix.part(order[vertex : vertex + 1], order)[0] / scale
    return rows


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
