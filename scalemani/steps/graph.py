"""Neighbour lists, then the connected graph made of them."""

from typing import Any

import numpy as np

from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.geodesics.rows import power_of_two_scale, save_graph, shared_graph
from scalemani.graph.build import Graph
from scalemani.neighbors.lists import NeighborLists
from scalemani.parameters import Parameters
from scalemani.steps.base import ByKind, Step, Work
from scalemani.steps.inputs import Input
from scalemani.steps.sources import check_landmarks
from scalemani.storage.arrays import check_lists
from scalemani.storage.audit import Fault
from scalemani.storage.pieces import KeptPieces, drop_pieces
from scalemani.storage.run import RunStore

MAPS = ("order", "vertex", "vertex_of_distinct", "bridges", "bridge_lengths")
EDGES = ("graph_indptr", "graph_indices", "graph_weights")
OF_POINTS = {"features": ("digests",), "distances": ("tie_rank",), "graph": ("tie_rank",), "geodesic": ()}  # by kind


class NeighborsStep(Step):
    """Neighbour lists of the distinct rows."""

    name, title = "neighbors", "neighbours"
    before_plan = True
    arrays = {"neighbors_": "neighbors", "piece_": "neighbors"}
    mends = {"neighbors": "removes it"}

    def run(self, work: Work) -> None:
        """Find the lists, unless they or the graph made of them are there; they are held for the graph."""
        work.made[self.name] = self._lists(work)

    def _lists(self, work: Work) -> NeighborLists | None:
        store, points, parameters = work.store, work.points, work.parameters
        state, fields = store.stage(self.name), self.fields(parameters, points.kind)
        if state is not None and not differing(state, fields):
            drop_pieces(store)  # of a fit that was killed before it did
            if not state["listed"] or (store.stage("graph") is not None and store.stage(REDO) is None):
                return None
            try:
                parts = [store.read_array(f"neighbors_{part}") for part in ("indptr", "indices", "distances")]
                check_lists(store.path, "the neighbour lists", *parts)
                return NeighborLists(parts[0], parts[1], parts[2], state["method"], state["recall"])
            except DamagedStoreError:
                pass  # they are searched again
        made_of = {**fields, "random_state": None, "fingerprint": points.fingerprint}  # descents name theirs
        kept = KeptPieces(store, made_of) if work.keep_pieces else None
        lists: NeighborLists | None = points.lists(
            parameters, kept, lambda done: work.report(self.name, done, points.n_distinct)
        )
        if lists is not None:
            store.write_array("neighbors_indptr", lists.indptr)
            store.write_array("neighbors_indices", lists.indices)
            store.write_array("neighbors_distances", lists.distances)
        store.finish(
            self.name,
            fields,
            listed=lists is not None,
            method=lists.method if lists else points.kind,
            recall=float(lists.recall) if lists else 1.0,
            left_out=lists.left_out if lists else 0,
            **({"account": lists.account.record()} if lists and lists.account else {}),
        )
        drop_pieces(store)
        work.report(self.name, points.n_distinct, points.n_distinct)
        return lists

    def begun(self, store: RunStore) -> list[str]:
        """The lists."""
        return ["the neighbours"] if store.stage(self.name) is not None else []

    def account(self, store: RunStore) -> dict[str, Any]:
        """How neighbours were found."""
        state = store.stage(self.name)
        assert state is not None
        return {
            "knn_method": state["method"],
            "knn_recall": state["recall"],
            "knn_left_out": state.get("left_out", 0),
            "knn_account": state.get("account"),
        }


REDO = "redo"  # the stage that a repair leaves where the graph has to be made again, which takes the points


class GraphStep(Step):
    """The connected graph in vertex order, the maps from rows to vertices, and what projections need of the points."""

    name, title = "graph", "graph"
    before_plan = True
    arrays = {"": "graph"}  # whatever is no other step's
    mends = {"graph": "leaves it to the fit"}
    from_points = ("graph",)

    def run(self, work: Work) -> None:
        """Make it of the lists, unless it is there."""
        store, points = work.store, work.points
        again = store.stage(REDO)
        if store.stage(self.name) is not None and again is None:
            return
        work.report(self.name, 0, 1)
        graph = connected(points, work.made.pop(NeighborsStep.name, None), work.parameters)
        n = len(graph.order)
        vertex_of = np.full(points.n_distinct, -1, np.int64)
        vertex_of[graph.order] = np.arange(n)
        scale = power_of_two_scale(points.lengths(graph))
        if points.kind != "geodesic":
            save_graph(store, graph.matrix, scale)
        points.save(store)
        store.write_array("order", graph.order)
        store.write_array("vertex_of_distinct", vertex_of)
        store.write_array("vertex", vertex_of[points.distinct])
        store.write_array("bridges", graph.bridges)
        store.write_array("bridge_lengths", graph.bridge_lengths)
        store.finish(
            self.name,
            self.fields(work.parameters, points.kind),
            scale=scale,
            n_vertices=n,
            n_edges=int(graph.matrix.nnz // 2),
            n_components=int(graph.n_components),
            component_sizes=[int(size) for size in np.sort(graph.component_sizes)[::-1][:100]],
            n_bridges=len(graph.bridges),
        )
        if again is not None:
            # A damaged graph was made again. D stays if that is the same to the bit, else it goes with what hangs on
            # it; the mark goes last, so that a stop in between leaves this to be decided again.
            if recorded_graph(store) != again["fields"].get("arrays"):
                store.forget(*(name for name in store.document["stages"] if name not in KEPT))
                store.drop_distances()
            store.forget(REDO)
        work.report(self.name, 1, 1)

    def begun(self, store: RunStore) -> list[str]:
        """The graph."""
        return ["the graph"] if store.stage(self.name) is not None else []

    def left(self, store: RunStore) -> set[str]:
        """The maps, the edges and what new points are held against."""
        if store.stage(self.name) is None:
            return set()
        kind = store.document["stages"]["data"]["fields"]["kind"]
        return {*MAPS, *(EDGES if kind != "geodesic" else ()), *OF_POINTS[kind]}

    def check(self, work: Work, broken: set[str]) -> Any:
        """The vertices are each there once, and the graph is symmetric and as large as recorded."""
        store = work.store
        state = store.stage(self.name)
        if state is None:
            return
        n = state["n_vertices"]
        try:
            order = store.read_array("order")
            if len(order) != n or len(np.unique(order)) != n:
                raise DamagedStoreError(f"order is not one of {n} vertices")
            if not work.given:
                graph = shared_graph.__wrapped__(store.path, store.identity)
                if graph.shape[0] != n or graph.nnz != 2 * state["n_edges"]:
                    raise DamagedStoreError("the graph is not as large as recorded")
                work.made[self.name] = graph
        except (DamagedStoreError, ScalemaniError, ValueError) as error:
            yield Fault("array", "graph_indptr", str(error))

    def waits(self, store: RunStore) -> bool:
        """Whether a repair has left it to the fit."""
        return store.stage(REDO) is not None

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Mark it for the same fit, which has the points."""
        if self.waits(work.store):
            return []
        work.store.finish(REDO, {"stages": [self.name], "arrays": recorded_graph(work.store)})
        return ["left to the same fit with the same points, which goes on: the graph"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """Sizes of the points and of their graph."""
        data, state = store.stage("data"), store.stage(self.name)
        assert data is not None and state is not None
        return {
            "n_rows": data["fields"]["n_rows"],
            "n_distinct": data["n_distinct"],
            "n_edges": state["n_edges"],
            "n_components_of_graph": state["n_components"],
            "component_sizes": state["component_sizes"],
            "n_bridges": state["n_bridges"],
        }


KEPT = ("method", "data", "neighbors", "graph", "names", REDO)  # stages that do not hang on D


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
    arrays = store.document.get("arrays", {})
    return {name: value for name, value in arrays.items() if name.startswith("graph_") or name == "order"}


def differing(state: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The fields in which a finished stage differs; the seed is none where the search that ran is exact."""
    exact = "method" in state and state["method"] != "nndescent"
    return [
        name
        for name, value in wanted.items()
        if state["fields"].get(name) != value and not (exact and name == "random_state")
    ]
