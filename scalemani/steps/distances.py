"""D in tiles, from the graph or from a given matrix; and rows of D of a few vertices.

A task finds a block of rows with the graph that its process has cached, writes the tiles at and behind the diagonal,
and puts its line in the ledger. What a stopped run has finished is not done again. While the rows are in memory a
:class:`Reader` takes from them what it asks for, so that the first read of D costs no reading, and the distances are
counted by their size (:mod:`scalemani.geodesics.reads`). Rows that an earlier run finished are read back for both, and
made again where they are damaged. Lengths in the store are divided by `scale`, a power of two that brings the median
edge near 1. A given D is cut into tiles by the client, block by block.

Scattered rows are for the solver's start: nothing of them is written.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.cluster.tasks import waiting_bytes
from scalemani.errors import DamagedStoreError, DamagedTilesWarning, warn
from scalemani.geodesics.batches import PathGraph, paths_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS, Reader, RowShares, new_counts, row_shares
from scalemani.geodesics.rows import check_rows, graph_bytes, median_bytes, shared_graph
from scalemani.kernel.operators import SUMS, first_read_bytes, number_bytes, panel_bytes, share_bytes
from scalemani.points.given_matrix import DistanceMatrix
from scalemani.progress import Progress, bytes_in_words
from scalemani.steps.base import FitSize, Needs, Step
from scalemani.steps.cuts import (
    TileCut,
    block_columns,
    fewer_components,
    geodesic_task_bytes,
    given_task_bytes,
    tile_cuts,
)
from scalemani.storage.json import REMEDY
from scalemani.storage.run import RunStore, shared_run
from scalemani.storage.tiles import Blocks, Use, disk_bytes


def compute_distances(cluster: Cluster, store: RunStore, report: Progress, reader: Reader) -> F64:
    """Fill the missing tile rows of D; returns what `reader` takes of all of D, whose counts go into the store.

    -> (n, w): Shares are combined in the order of the rows: the same bits for any number of workers, and wherever an
        earlier run was stopped.
    Raises DamagedStoreError: If the ledger does not name a tile row that its task has written. The task asks, on the
        host that wrote it: a network's folder may be remembered elsewhere as it was.
    Warns by DamagedTilesWarning: If tiles that an earlier run wrote were damaged, and were made again.
    """
    missing, blocks = set(store.missing_rows()), store.blocks
    total, identity = len(blocks), store.document["id"]
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
    identity, n = store.document["id"], len(store.read_array("order"))
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


class TileDistances(Step):
    """D, square, in tiles."""

    name, title = "geodesics", "geodesics"

    # ---- what it will take ----

    def cuts(self, size: FitSize) -> Iterator[TileCut]:
        """The largest basis and tiles first."""
        return tile_cuts(size)

    def needs(self, size: FitSize, cut: TileCut) -> Needs:
        """Rows of D in tasks, and the first read, which the client adds up; a given D is cut by the client."""
        n, edges, m, each, threads = size.n, size.edges, block_columns(size), number_bytes(size.n), size.threads
        compressed, rows, side = size.parameters.compression is not None, len(Blocks(n, cut.tile)), f"{cut.tile:,}"
        disk, tasks = disk_bytes(n, cut.tile, compressed), 0 if size.given else rows
        sums = {"sums of the first read": first_read_bytes(n, m, each)}
        if size.given:
            shares = share_bytes(n, m) + panel_bytes(cut.tile, m, each)
            client = {"rows on their way": given_task_bytes(n, cut.tile), "their shares": shares, **sums}
            worker = {}
        else:
            graph, median = {"graph": graph_bytes(n, edges) + paths_bytes(n, edges)}, median_bytes(n, edges)
            working = threads * geodesic_task_bytes(n, edges, cut.tile, m, each, compressed)
            client = {"shares in flight": waiting_bytes(n, cut.tile, 2 * m + SUMS, size.window), **sums}
            if size.embedded:  # the sampled rows come after the tasks
                worker = {**graph, f"{threads} tasks": max(working, median)}
            else:
                client |= {**graph, "sampled rows": median}
                worker = {**graph, f"{threads} tasks": working, "vectors": each * m * n}
        return Needs(
            client=client,
            worker=worker,
            remedies=fewer_components(size),
            disk=disk,
            disk_remedies=[] if compressed else ["compression"],
            tasks=tasks,
            pieces=[f"{tasks} for D"],
            lines=[("distances D", f"{rows} rows of tiles (squares of {side} x {side}), {bytes_in_words(disk)}")],
            numbers={"tile_size": cut.tile, "tile_rows": rows},
        )

    def seconds(self, size: FitSize, cut: TileCut, rates: Any) -> float:
        """Rounds of rows of tiles, or the disk where that takes longer."""
        n, slots, rows = size.n, size.slots, len(Blocks(size.n, cut.tile))
        searched = 0.0 if size.given else n * rates.row
        written = n * (n + cut.tile) / 2 * rates.entries(n, cut.tile, block_columns(size)).written
        rounds = -(-rows // slots) * slots / rows
        reaching = disk_bytes(n, cut.tile, size.parameters.compression is not None) / rates.disk
        return float(max(rounds * (searched + written) / slots, reaching))

    def begun(self, store: RunStore) -> int | None:
        """The side of its tiles."""
        return store.blocks.size if store.has_distances else None
