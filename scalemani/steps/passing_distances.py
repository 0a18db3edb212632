"""Rows of D are found, summed into M, and dropped: D is never stored.

M = -1/2 U' (D∘D) U is all that a linear map asks of D. With classes each class has its own D, and there is one distance
between classes (:func:`scalemani.embedding.isometric.projected_labels`). Parts are added up in the order of the rows,
and the sum so far is kept, so that a stopped fit goes on with the same bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.embedding.isometric import projected_labels
from scalemani.geodesics.batches import paths_bytes, workspace_bytes
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS, count_distances, new_counts
from scalemani.geodesics.rows import check_bytes, check_rows, graph_bytes, median_bytes, shared_graph
from scalemani.geodesics.rows import sampled_median as median_of_a_sample
from scalemani.kernel import blas
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.cuts import tile_sizes
from scalemani.steps.features import PROJECTED, fewer_directions, left_vectors, most_directions
from scalemani.steps.graph import CLASS_STARTS
from scalemani.steps.records import DataRecord, DistancesRecord, GraphRecord
from scalemani.steps.rows import RowMemory
from scalemani.storage.run import RunStore, shared_run

MADE_OF = ("graph_", "feature_", "order", CLASS_STARTS)  # arrays that the sums follow from
PANEL = 2048  # columns whose products are added up in float32
FILL = 10.0  # distance between classes, in the longest within one: from 2 on it changes next to nothing


class PassingDistances(Step):
    """M, summed over rows of D while they are in memory."""

    record, title = DistancesRecord, "geodesics"
    arrays = {DISTANCE_COUNTS: "sums", PROJECTED: "sums", "pieces_geodesics": "pieces"}
    mends = {"sums": "makes them again", "pieces": "removes it"}

    def run(self, work: Work) -> None:
        """Find all rows, and keep the sums; a run that was stopped goes on."""
        store = work.store
        if store.record(DistancesRecord) is None:
            self._make(work)
            return
        store.pieces(self.name).drop()  # of a fit that was killed before it did

    def _make(self, work: Work) -> None:
        store, graph, known = work.store, work.store.needed(GraphRecord), work.store.record(DistancesRecord)
        # where sums are damaged the cut is theirs: others give other bits
        size = known.tile_size if known is not None else int(work.cut)
        projected, counts, between = sums(work, size)
        if graph.n_classes is None:
            store.write_array(DISTANCE_COUNTS, counts)
        store.write_array(PROJECTED, projected)
        median = median_of_a_sample(shared_graph(store.path, store.identity), store.needed(DataRecord).seed)
        store.finish(DistancesRecord(tile_size=size, median=median, between=between))
        store.pieces(self.name).drop()

    def begun(self, store: RunStore) -> list[str]:
        """Whether there is a sum so far."""
        return ["sums over some rows of D"] if store.pieces(self.name).count("sum") else []

    def left(self, store: RunStore) -> set[str]:
        if store.record(DistancesRecord) is None:
            return set()
        classes = store.needed(GraphRecord).n_classes is not None
        return {PROJECTED} if classes else {PROJECTED, DISTANCE_COUNTS}

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        if waiting:
            return []
        self._make(work)
        return ["the sums over D were made again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """How far classes are apart, where there are any."""
        between = store.needed(DistancesRecord).between
        return {} if between is None else {"class_distance": between * store.needed(GraphRecord).scale}

    # ---- what it will take ----

    def cuts(self, size: FitSize) -> Iterator[int]:
        """The most rows at once first."""
        yield from tile_sizes(size.n) if size.parameters.tile_size is None else [size.parameters.tile_size]

    def needs(self, size: FitSize, cut: int) -> Needs:
        """Rows of D in tasks, and the sums."""
        n, edges, rank = size.n, size.edges, most_directions(size)
        rows, part = -(-n // cut), 8 * rank * rank
        task = 4 * cut * n + workspace_bytes(n, edges) + max(check_bytes(n, edges, cut), 16 * cut * rank + 3 * part)
        graph = graph_bytes(n, edges) + paths_bytes(n, edges)
        client = {"directions": 8 * n * rank, "sums": (4 + size.window) * part}
        worker = {
            "graph": graph,
            "directions as float32": 4 * n * rank,
            f"tasks, {size.threads} at once": max(size.threads * task, median_bytes(n, edges)),
        }
        return Needs(
            client=client if size.embedded else {**client, "graph": graph},
            worker=worker,
            scratch=0 if size.parameters.store is None else part,  # the sum so far
            remedies=fewer_directions(size),
            tasks=rows,
            pieces=[f"{rows} for rows of D"],
            lines=[("distances D", "not stored: only sums over its rows are kept")],
            numbers={"tile_size": cut},
        )

    def seconds(self, size: FitSize, cut: int, rates: Any) -> float:
        """A search for each row, and products of half of D with the directions."""
        rank = most_directions(size)
        some = np.ones((256, PANEL), np.float32)
        columns = np.ones((PANEL, rank), np.float32)
        product = rates.median(lambda: blas.product(some, columns))
        return float((size.n * rates.row + product * size.n**2 / 2 / some.size) / size.slots)


def sums(work: Work, size: int) -> tuple[F64, I64, float | None]:
    """M, counts of the distances, and the distance between classes, from `size` rows of D at once; the sum so far is
    kept.
    """
    store, report, graph = work.store, work.report, work.store.needed(GraphRecord)
    left, name = left_vectors(work), PassingDistances().name
    starts = np.array([0, graph.n_vertices]) if graph.n_classes is None else store.read_array(CLASS_STARTS)
    blocks = [
        (at, min(at + size, stop), stop)
        for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        for at in range(start, stop, size)
    ]
    made_of = {array: crc for array, crc in store.document.arrays.items() if array.startswith(MADE_OF)}
    pieces = store.pieces(name, {"rows": size, **made_of})
    total, counts, longest, done = np.zeros((left.shape[1],) * 2), new_counts(), 0.0, 0
    found = pieces.get("sum") if work.keep_pieces else None
    if found is not None:
        total, counts, longest, done = found[0].copy(), found[1].copy(), float(found[2][0]), int(found[3][0])
    report(name, done, len(blocks))
    tasks = [(store.path, store.identity, *block) for block in blocks[done:]]
    for part, counted, far in work.cluster.map(_passing, tasks, shared=Passing(left.astype(np.float32))):
        total += part
        counts += counted
        longest, done = max(longest, far), done + 1
        if work.keep_pieces and done < len(blocks):
            pieces.put("sum", [total, counts, np.array([longest]), np.array([done])])
        report(name, done, len(blocks))
    projected, between = -(total + total.T) / 2, None
    if graph.n_classes is not None:
        between = FILL * longest
        projected += projected_labels(np.add.reduceat(left, starts[:-1], axis=0), between)
    return projected * graph.scale**2, counts, between


@dataclass(frozen=True, eq=False)
class Passing:
    """What the tasks share, sent to each worker once.

    left (n, r): U.
    """

    left: F32
    memory: RowMemory = field(default_factory=RowMemory)


def _passing(path: str, identity: str, start: int, stop: int, end: int, work: Passing) -> tuple[F64, I64, float]:
    """One task: U_I' (1/2 S_II U_I + S_IJ U_J) of the vertices I and those behind them; counts, and the longest."""
    graph, left = shared_graph(path, identity), work.left
    n, count = len(left), stop - start
    out = work.memory.rows(count, n - start)
    rows = geodesic_rows(work.memory.paths(path, identity), np.arange(start, stop), first=start, out=out)
    upper = rows[:, : end - start]
    check_rows(graph, upper, start)
    counts, longest = new_counts(), float(upper.max())
    if end - start == n - start:
        count_distances(rows, counts, diagonal=True)
    np.multiply(upper, upper, out=upper)
    upper[:, :count] *= np.float32(0.5)
    products = np.zeros((count, left.shape[1]))
    for at in range(0, end - start, PANEL):
        panel = upper[:, at : at + PANEL]
        products += blas.product(blas.by_rows(panel), left[start + at : start + at + panel.shape[1]])
    shared_run(path, identity)  # raises if another run has taken this one's place
    return blas.product(left[start:stop].T.astype(np.float64), products), counts, longest
