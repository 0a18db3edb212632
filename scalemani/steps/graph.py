"""Neighbour lists, then the connected graph made of them."""

from typing import Any

import numpy as np
from msgspec.structs import asdict

from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.geodesics.rows import WITHOUT, graph_bytes, power_of_two_scale, save_graph, shared_graph
from scalemani.graph.build import Graph
from scalemani.neighbors.choice import SearchStrategy, lists_bytes
from scalemani.neighbors.lists import NeighborLists
from scalemani.parameters import Parameters, metric_name, plain
from scalemani.projection.projector import MEANS, Trained
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.inputs import Input
from scalemani.steps.records import (
    DataRecord,
    GraphFields,
    GraphRecord,
    NeighborsFields,
    NeighborsRecord,
    RedoRecord,
    SearchRecord,
)
from scalemani.steps.sources import check_landmarks
from scalemani.storage.arrays import check_lists
from scalemani.storage.audit import Fault
from scalemani.storage.records import Record
from scalemani.storage.run import RunStore

MAPS = ("order", "vertex", "vertex_of_distinct", "bridges", "bridge_lengths")
CLASS_STARTS = "class_starts"  # (c + 1,) the first vertex of each class, where rows had labels, and n
EDGES = ("graph_indptr", "graph_indices", "graph_weights")
RANK = ("tie_rank",)
OF_POINTS = {"features": ("digests",), "distances": RANK, "kernel": RANK, "graph": RANK, "geodesic": ()}  # by kind


class NeighborsStep(Step):
    """Neighbour lists of the distinct rows."""

    record, title = NeighborsRecord, "neighbours"
    before_plan = True
    arrays = {"neighbors_": "neighbors", "pieces_": "pieces"}
    mends = {"neighbors": "removes it", "pieces": "removes it"}

    def fields(self, parameters: Parameters, kind: str) -> NeighborsFields:
        """The neighbourhoods that are asked for."""
        given = kind == "geodesic"
        approximate = kind == "features" and parameters.knn != "exact"
        return NeighborsFields(
            n_neighbors=None if given or parameters.n_neighbors is None else int(parameters.n_neighbors),
            radius=None if given or parameters.radius is None else float(parameters.radius),
            metric=metric_name(parameters.metric),
            metric_params=plain(parameters.metric_params),
            knn=parameters.knn if kind == "features" else None,
            random_state=parameters.random_state if approximate else None,
        )

    def run(self, work: Work) -> None:
        """Find the lists, unless they or the graph made of them are there; they are held for the graph."""
        work.made[self.name] = self._lists(work)

    def _lists(self, work: Work) -> NeighborLists | None:
        store, points, parameters = work.store, work.points, work.parameters
        state, fields = store.record(NeighborsRecord), self.fields(parameters, points.kind)
        if state is not None and not differing(state.fields, fields, exact=state.method != SearchStrategy.DESCENT):
            store.pieces(self.name).drop()  # of a fit that was killed before it did
            if not state.listed or (store.record(GraphRecord) is not None and store.record(RedoRecord) is None):
                return None
            try:
                return stored_lists(store)
            except DamagedStoreError:
                pass  # they are searched again
        made_of = {**asdict(fields), "random_state": None, "fingerprint": points.fingerprint}  # descents name theirs
        pieces = store.pieces(self.name, made_of)
        kept = pieces if work.keep_pieces else None
        lists: NeighborLists | None = points.lists(
            parameters, kept, lambda done: work.report(self.name, done, points.n_distinct)
        )
        if lists is not None:
            store.write_array("neighbors_indptr", lists.indptr)
            store.write_array("neighbors_indices", lists.indices)
            store.write_array("neighbors_distances", lists.distances)
        stats = lists.stats if lists else None
        store.finish(
            NeighborsRecord(
                fields=fields,
                listed=lists is not None,
                method=lists.method if lists else points.kind,
                recall=float(lists.recall) if lists else 1.0,
                left_out=lists.left_out if lists else 0,
                account=SearchRecord(**stats.record()) if stats else None,
            )
        )
        pieces.drop()
        work.report(self.name, points.n_distinct, points.n_distinct)
        return lists

    def begun(self, store: RunStore) -> list[str]:
        return ["the neighbours"] if store.record(NeighborsRecord) is not None else []

    def account(self, store: RunStore) -> dict[str, Any]:
        state = store.needed(NeighborsRecord)
        return {
            "knn_method": state.method,
            "knn_recall": state.recall,
            "knn_left_out": state.left_out,
            "knn_account": state.account.as_dict() if state.account else None,
        }

    # ---- what it will take ----

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The lists; the memory of the search counts with the graph's."""
        return Needs(disk=lists_bytes(size.n, size.listed))


class GraphStep(Step):
    """The connected graph in vertex order, the maps from rows to vertices, and what projections need of the points."""

    record, title = GraphRecord, "graph"
    before_plan = True
    arrays = {"": "graph"}  # whatever is no other step's
    mends = {"graph": "leaves it to the fit"}
    from_points = ("graph",)

    def fields(self, parameters: Parameters, kind: str) -> GraphFields:
        """How edges are made, and what is done about components."""
        return GraphFields(
            graph=parameters.graph, disconnected=parameters.disconnected, edge_weights=parameters.edge_weights
        )

    def run(self, work: Work) -> None:
        """Make it of the lists, unless it is there."""
        store, points = work.store, work.points
        again = store.record(RedoRecord)
        if store.record(GraphRecord) is not None and again is None:
            return
        work.report(self.name, 0, 1)
        graph = connected(points, work.made.pop(NeighborsRecord.STEP, None), work.parameters)
        n = len(graph.order)
        vertex_of = graph.vertex_of(points.n_distinct)
        scale = power_of_two_scale(points.lengths(graph))
        if points.kind != "geodesic":
            save_graph(store, graph.matrix, scale)
        points.save(store)
        store.write_array("order", graph.order)
        store.write_array("vertex_of_distinct", vertex_of)
        store.write_array("vertex", vertex_of[points.distinct])
        store.write_array("bridges", graph.bridges)
        store.write_array("bridge_lengths", graph.bridge_lengths)
        if graph.means is not None:
            store.write_array(MEANS, graph.means)
        if points.class_starts is not None:
            store.write_array(CLASS_STARTS, points.class_starts)
        store.finish(
            GraphRecord(
                fields=self.fields(work.parameters, points.kind),
                scale=scale,
                n_vertices=n,
                n_edges=int(graph.matrix.nnz // 2),
                n_components=int(graph.n_components),
                component_sizes=[int(size) for size in np.sort(graph.component_sizes)[::-1][:100]],
                n_bridges=len(graph.bridges),
                n_classes=None if points.class_starts is None else len(points.class_starts) - 1,
            )
        )
        if again is not None:
            # A damaged graph was made again. D stays if that is the same to the bit, else it goes with what hangs on
            # it; the mark goes last, so that a stop in between leaves this to be decided again.
            if recorded_graph(store) != again.arrays:
                store.forget(*(name for name in store.document.stages if name not in KEPT))
                store.drop_distances()
            store.forget(RedoRecord.STEP)
        work.report(self.name, 1, 1)

    def begun(self, store: RunStore) -> list[str]:
        return ["the graph"] if store.record(GraphRecord) is not None else []

    def left(self, store: RunStore) -> set[str]:
        """The maps, the edges and what new points are held against."""
        state = store.record(GraphRecord)
        if state is None:
            return set()
        kind = store.needed(DataRecord).fields.kind
        more = {MEANS} if state.fields.edge_weights == "conformal" else set()
        more |= set() if state.n_classes is None else {CLASS_STARTS}
        return {*MAPS, *(EDGES if kind != "geodesic" else ()), *OF_POINTS[kind]} | more

    def check(self, work: Work, broken: set[str]) -> Any:
        """The vertices are each there once, and the graph is symmetric and as large as recorded."""
        store = work.store
        state = store.record(GraphRecord)
        if state is None:
            return
        n = state.n_vertices
        try:
            order = store.read_array("order")
            if len(order) != n or len(np.unique(order)) != n:
                raise DamagedStoreError(f"order is not one of {n} vertices")
            if not work.given and WITHOUT not in broken:
                graph = shared_graph.__wrapped__(store.path, store.identity)
                removed = len(store.read_array(WITHOUT)) if WITHOUT in store.document.arrays else 0
                if graph.shape[0] != n or graph.nnz != 2 * (state.n_edges - removed):
                    raise DamagedStoreError("the graph is not as large as recorded")
                work.made[self.name] = graph
        except (DamagedStoreError, ScalemaniError, ValueError) as error:
            yield Fault("array", "graph_indptr", str(error))

    def waits(self, store: RunStore) -> bool:
        """Whether a repair has left it to the fit."""
        return store.record(RedoRecord) is not None

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Mark it for the same fit, which has the points."""
        if self.waits(work.store):
            return []
        work.store.finish(RedoRecord(arrays=recorded_graph(work.store)))
        return ["left to the same fit with the same points, which goes on: the graph"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """Sizes of the points and of their graph."""
        data, state = store.needed(DataRecord), store.needed(GraphRecord)
        return {
            "n_rows": data.fields.n_rows,
            "n_distinct": data.n_distinct,
            "n_vertices": state.n_vertices,
            "n_edges": state.n_edges,
            "n_components_of_graph": state.n_components,
            "component_sizes": state.component_sizes,
            "n_bridges": state.n_bridges,
            "edge_weights": state.fields.edge_weights,
            **({} if state.n_classes is None else {"n_classes": state.n_classes}),
        }

    # ---- what it will take ----

    @property
    def in_memory(self) -> tuple[str, str]:
        """The search counts here: one comes after the other, and a fit that has a graph needs neither."""
        return "search", "neighbours and graph"

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The search or the making of the graph, whichever is more; the graph and the points on the disk."""
        return Needs(
            client={"search and graph": size.search},
            disk=graph_bytes(size.n, size.edges) + size.points,
            lines=[("graph", f"{size.edges // 2:,} edges")],
        )


def stored_lists(store: RunStore) -> NeighborLists:
    """The neighbour lists of a run that has them."""
    state = store.needed(NeighborsRecord)
    parts = [store.read_array(f"neighbors_{part}") for part in ("indptr", "indices", "distances")]
    check_lists(store.path, "the neighbour lists", *parts)
    return NeighborLists(parts[0], parts[1], parts[2], state.method, state.recall)


KEPT = ("method", "data", "neighbors", "graph", "names", RedoRecord.STEP)  # stages that do not hang on D


def connected(points: Input, lists: NeighborLists | None, parameters: Parameters) -> Graph:
    """The graph in vertex order, with points enough for the axes."""
    graph: Graph = points.graph(parameters, lists)
    n = len(graph.order)
    check_landmarks(points, parameters, graph)
    if parameters.n_components >= n:
        raise ScalemaniError(
            f"n_components={parameters.n_components} needs at least {parameters.n_components + 1} points; the largest "
            f"component has {n}"
        )
    return graph


def recorded_graph(store: RunStore) -> dict[str, int]:
    """Checksums of the arrays that D was made from, by name, as the document has them."""
    arrays = store.document.arrays
    return {name: value for name, value in arrays.items() if name in (*EDGES, "order")}


def differing(have: Record, wanted: Record, *, exact: bool = False) -> list[str]:
    """The fields in which a finished step differs from what is asked for.

    exact: Whether an exact search ran, whose result follows from no seed.
    """
    return [
        name
        for name, value in asdict(wanted).items()
        if getattr(have, name) != value and not (exact and name == "random_state")
    ]


def trained(store: RunStore) -> Trained:
    """What new rows of a run are held against."""
    data, neighbors, graph = store.needed(DataRecord), store.needed(NeighborsRecord), store.needed(GraphRecord)
    asked = neighbors.fields
    return Trained(
        kind=data.fields.kind,
        n_distinct=data.n_distinct,
        n_features=data.fields.n_features,
        n_neighbors=asked.n_neighbors,
        radius=asked.radius,
        metric=asked.metric,
        metric_params=asked.params,
        knn=asked.knn,
        listed=neighbors.listed,
        conformal=graph.fields.edge_weights == "conformal",
        n=graph.n_vertices,
        n_edges=graph.n_edges,
    )
