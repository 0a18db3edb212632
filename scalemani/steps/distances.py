"""D, square, in tiles: from the graph by tasks, or copied from a matrix that is given.

A task is a block of sources. It computes their rows with the graph that its process has cached, writes the tiles at and
behind the diagonal and puts its line into the ledger; each pair of blocks is written once, by one task. What a stopped
run has finished is not done again. While the rows are in memory, each consumer takes its part of them
(:mod:`scalemani.geodesics.reads`): the first read of D costs no reading, and distances are counted by their size. Rows
that an earlier run finished are read back for the consumers, and made again where they are damaged. Lengths in the
store are divided by `scale`, a power of two that brings the median edge near 1.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from msgspec.structs import asdict

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.cluster.tasks import waiting_bytes
from scalemani.embedding.dimension import DistanceHistogram
from scalemani.errors import DamagedStoreError, DamagedTilesWarning, warn
from scalemani.geodesics.batches import paths_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS, Consumer, DistanceCounts, row_results
from scalemani.geodesics.rows import check_rows, graph_bytes, median_bytes, sampled_median, shared_graph
from scalemani.kernel.operators import (
    FIRST_BLOCK,
    FIRST_FOUND,
    SUMS,
    first_read_bytes,
    first_reader,
    number_bytes,
    panel_bytes,
    share_bytes,
)
from scalemani.progress import Progress
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.cuts import (
    TileCut,
    block_columns,
    fewer_components,
    geodesic_task_bytes,
    given_task_bytes,
    tile_cuts,
)
from scalemani.steps.inputs import GeodesicInput
from scalemani.steps.records import DistancesRecord, GraphRecord, StartRecord
from scalemani.steps.rows import RowMemory
from scalemani.steps.start import kept_block
from scalemani.storage.audit import Fault, folder_faults, row_faults, size_faults
from scalemani.storage.files import checksum, open_location
from scalemani.storage.json import REMEDY
from scalemani.storage.run import RunStore, shared_run
from scalemani.storage.tiles import COMPRESSIONS, Blocks, Form, disk_bytes
from scalemani.words import bytes_in_words


def compute_distances(
    cluster: Cluster,
    store: RunStore,
    report: Progress,
    consumers: Mapping[str, Consumer],
    given: Callable[[slice], F32] | None = None,
) -> dict[str, Any]:
    """Fill the missing tile rows of D; what each consumer takes of all of D, by its name.

    given: Slice of vertices -> their distances to the vertices from its start on, where D is given: the client copies
        it then. Else tasks find them from the graph.

    Parts are added up in the order of the rows: the same bits for any number of workers, and wherever an earlier run
    was stopped.

    Raises DamagedStoreError: If the ledger does not name a tile row that its task has written. The task asks, on the
        host that wrote it: a network's folder may be remembered elsewhere as it was.
    Warns by DamagedTilesWarning: If tiles that an earlier run wrote were damaged, and were made again.
    """
    missing, total, remade = set(store.tiles.missing()), len(store.blocks), list[int]()
    done, found = total - len(missing), {name: one.begin(store, 0).result for name, one in consumers.items()}
    rows: Iterable[tuple[dict[str, Any], bool]]
    if given is None:
        tasks = [(store.path, store.identity, row) for row in range(total)]
        rows = cluster.map(_tile_row, tasks, shared=RowWork(consumers))
    else:
        rows = (_finished_row(store, consumers, row, partial(given, here)) for row, here in enumerate(store.blocks))
    for row, (parts, again) in enumerate(rows):
        for name, part in parts.items():
            consumers[name].combine(found[name], part)
        remade += [row] if again else []
        if row in missing:
            done += 1
            report("geodesics", done, total)
    if remade:
        warn(
            f"{len(remade)} of {total} tile rows of D in {store.path!r} were damaged (the first: {remade[0]}) "
            "and have been made again: look at the disk",
            DamagedTilesWarning,
        )
    return found


def _finished_row(
    store: RunStore, consumers: Mapping[str, Consumer], row: int, make: Callable[[], F32]
) -> tuple[dict[str, Any], bool]:
    """What consumers take of a row, which is made where it is missing or damaged; whether it was damaged."""
    done = store.tiles.done(row)
    if done:
        try:
            return row_results(store, consumers, row) if consumers else {}, False
        except DamagedStoreError:
            pass  # it is made again below
    upper = make()
    found = row_results(store, consumers, row, lambda use: store.tiles.write(row, upper, use))
    if not store.tiles.done(row):
        raise DamagedStoreError(f"{store.path!r}: tile row {row} of D was not written; {REMEDY}")
    return found, done


@dataclass(frozen=True, eq=False)
class RowWork:
    """What the tasks of a stage share, sent to each worker once; it goes with the stage."""

    consumers: Mapping[str, Consumer]
    memory: RowMemory = field(default_factory=RowMemory)


def _tile_row(path: str, identity: str, row: int, work: RowWork) -> tuple[dict[str, Any], bool]:
    """One task: the tiles (row, row..)."""
    store = shared_run(path, identity)
    return _finished_row(store, work.consumers, row, partial(_upper_rows, store, row, work.memory))


def _upper_rows(store: RunStore, row: int, memory: RowMemory) -> F32:
    """A block's rows of D from its own vertices on, found from the graph; in memory that is the thread's."""
    here, n = store.blocks[row], store.blocks.n
    out = memory.rows(here.stop - here.start, n - here.start)
    paths = memory.paths(store.path, store.identity)
    upper = geodesic_rows(paths, np.arange(here.start, here.stop), first=here.start, out=out)
    check_rows(shared_graph(store.path, store.identity), upper, here.start)
    return upper


def consumers_of(block: F64) -> dict[str, Consumer]:
    """What goes with every D: its first read, for a block of vectors, and the counts of its distances."""
    return {FIRST_FOUND: first_reader(block), DISTANCE_COUNTS: DistanceCounts()}


def save_found(store: RunStore, made: dict[str, Any]) -> None:
    """Write what the consumers of every D found, and take it out of `made`."""
    for name in (DISTANCE_COUNTS, FIRST_FOUND):
        store.write_array(name, made.pop(name))


def _median(work: Work) -> float:
    """The median distance of a sample, in the unit of the tiles."""
    store = work.store
    if not isinstance(work.points, GeodesicInput):
        return sampled_median(shared_graph(store.path, store.identity), work.parameters.random_state)
    sample = work.points.checked.sample_within(store.read_array("order"))
    return float(np.median(sample)) / store.needed(GraphRecord).scale if len(sample) else 0.0


NOT_KEPT = (
    "D was given and is not kept here (keep_distances=False, an export or a pickle): its rows are in what you gave"
)


class TileDistances(Step):
    """D, square, in tiles, and what was taken of it while it was written."""

    record, title = DistancesRecord, "geodesics"
    tiles = "rows of tiles"
    arrays = {"first_": "first read", "distance_counts": "first read"}
    mends = {"metadata": "writes it again", "row": "makes it again", "first read": "reads D again"}
    from_points = ("row", "first read")

    def run(self, work: Work) -> None:
        """Write D as tiles, read for the first time while they are written; a run that stopped goes on."""
        store = work.store
        if store.record(DistancesRecord) is not None:
            if work.consumers and store.has_distances:
                work.made |= self._fed(work, work.consumers)
            return
        work.report(self.name, len(store.blocks) - len(store.tiles.missing()), len(store.blocks))
        block = work.made.pop("start")
        work.made |= self._fed(work, consumers_of(block) | work.consumers)
        save_found(store, work.made)
        store.finish(DistancesRecord(tile_size=store.blocks.size, median=_median(work)))

    def _fed(self, work: Work, consumers: Mapping[str, Consumer]) -> dict[str, Any]:
        """What consumers take of all of D, whose missing rows are written."""
        store, points, given = work.store, work.points, None
        if isinstance(points, GeodesicInput):
            order, scale = store.read_array("order"), store.needed(GraphRecord).scale

            def given(here: slice) -> F32:
                return (points.checked.part(order[here], order[here.start :]) / scale).astype(np.float32)

        return compute_distances(work.cluster, store, work.report, consumers, given)

    def begun(self, store: RunStore) -> list[str]:
        """Rows of tiles that are there, in a user's word."""
        if not store.has_distances:
            return []
        rows = len(store.blocks)
        return [f"{rows - len(store.tiles.missing()):,} of {rows:,} pieces of the distances"]

    # ---- what is damaged ----

    def left(self, store: RunStore) -> set[str]:
        """Counts of the distances; where D is kept, what the solver begins with."""
        if store.record(DistancesRecord) is None:
            return set()
        return {DISTANCE_COUNTS} | ({FIRST_BLOCK, FIRST_FOUND} if store.has_distances else set())

    def audit(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """D's metadata, then every tile and its line in the ledger."""
        store = work.store
        faults = size_faults(store)
        yield from faults
        if not store.has_distances or faults:
            return
        rows, finished = len(store.blocks), store.record(DistancesRecord) is not None
        yield from folder_faults(store.tiles, finished)
        tasks = ((store.path, store.identity, row, finished) for row in range(rows))
        for done, found in enumerate(work.cluster.map(row_faults, tasks), 1):
            yield from found
            work.report("verify", done, rows)
        work.made["audited"] = rows

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Rows from the graph and what is read of D from the tiles; where D was given both wait for the fit."""
        store = work.store
        if "metadata" in faults:
            return _metadata(store)
        rows = sorted(int(fault.name) for fault in faults.get("row", []))
        if work.given or waiting or not store.has_distances:
            store.forget(self.name)  # at once
            for row in rows:
                store.tiles.unfinish(row)
                store.tiles.file(row, row).parent.remove()
            store.remove_array(DISTANCE_COUNTS)
            store.remove_arrays("first_")
            what = [f"{len(rows)} rows of D"] if rows else []
            what += ["what was read of D"] if "first read" in faults else []
            return [f"left to the same fit with the same points, which goes on: {' and '.join(what)}"]
        for row in rows:
            store.tiles.unfinish(row)
        done = [f"{len(rows)} of {len(store.blocks)} rows of tiles were made again from the graph"] if rows else []
        if "first read" in faults:
            _read_again(work)
            return [*done, "D was read again for what is taken of all of it"]
        compute_distances(work.cluster, store, work.report, {})
        return done

    # ---- what a fitted model asks ----

    def kept(self, store: RunStore) -> bool:
        return store.has_distances

    def drop(self, store: RunStore) -> None:
        store.drop_distances()

    def rows(self, store: RunStore, vertices: I64) -> F32 | None:
        """Rows of D, where it is kept."""
        return store.read_rows(vertices) if store.has_distances else None

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
                worker = {**graph, f"tasks, {threads} at once": max(working, median)}
            else:
                client |= {**graph, "sampled rows": median}
                worker = {**graph, f"tasks, {threads} at once": working, "vectors": each * m * n}
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

    def cut_in(self, store: RunStore) -> int | None:
        return store.blocks.size if store.has_distances else None


def _read_again(work: Work) -> None:
    """Read D for what is taken of it while it is written, with the block that it was taken for."""
    store = work.store
    start, block = store.record(StartRecord), np.zeros((store.blocks.n, 1))
    if start is not None:
        asked = replace(work.parameters, **asdict(start.fields))
        block = kept_block(store, None, asked, work.cluster, start.most_columns)
    save_found(store, compute_distances(work.cluster, store, work.report, consumers_of(block)))
    store.finish()


def drop_contradicting(store: RunStore) -> list[str]:
    """Drop D, which contradicts the graph."""
    store.forget(DistancesRecord.STEP)
    store.drop_distances()
    return ["D contradicts the graph and was dropped: the same fit makes it again"]


def _metadata(store: RunStore) -> list[str]:
    """Write D's metadata again: they follow from the sides of D and its tiles and one of three ways to compress."""
    state, wanted = store.record(DistancesRecord), store.metadata_sum
    if wanted is not None and state is not None:
        metadata = open_location(store.path) / "distances" / "zarr.json"
        for compression in (None, *COMPRESSIONS):
            text = Form.of_distances(store.needed(GraphRecord).n_vertices, state.tile_size, compression).text
            if checksum(text) == wanted:
                metadata.parent.make_folder()
                metadata.put(text)
                return ["the metadata of D were written again"]
    store.forget(DistancesRecord.STEP)
    store.drop_distances()
    return ["D was dropped, since its form is lost: the same fit makes it again"]


def stored_histogram(store: RunStore | str | os.PathLike[str]) -> DistanceHistogram | None:
    """What the fit in a store counted; None where D is not finished yet, or landmarks stand for it.

    Raises ScalemaniError: If there is no run, or the counts are damaged.
    """
    store = store if isinstance(store, RunStore) else RunStore(store)
    if store.record(DistancesRecord) is None or DISTANCE_COUNTS not in store.document.arrays:
        return None
    graph = store.needed(GraphRecord)
    counts = store.read_array(DISTANCE_COUNTS)
    return DistanceHistogram.of_counts(counts, graph.n_vertices, graph.scale, graph.n_edges)
