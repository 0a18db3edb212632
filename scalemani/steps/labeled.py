"""Rows of features with labels: neighbours and edges within each class alone, classes one after another.

Equal rows of two classes are two points. The graph of each class is connected, by bridges where it falls apart; no path
leads from one class to another.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_array
from scipy.sparse.csgraph import connected_components

from scalemani.aliases import I64
from scalemani.errors import DisconnectedGraphError, ScalemaniError, ScalemaniWarning, warn
from scalemani.graph.build import Graph, make_graph, symmetric_graph
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.lists import NeighborLists, SearchStats
from scalemani.neighbors.metrics import GIVEN_METRICS
from scalemani.neighbors.search import Done, find_neighbors, silent
from scalemani.parameters import Parameters
from scalemani.points.classes import Labels, read_labels
from scalemani.points.rows import COPIED, RowFile, map_of
from scalemani.steps.inputs import FeatureInput, Input
from scalemani.storage.pieces import Pieces


class LabeledInput(FeatureInput):
    """Rows of features that have labels.

    class_names: Labels as text, sorted.
    by_class (n_distinct,): Distinct points, class by class.
    class_starts (c + 1,): Where each class begins there, and n_distinct.
    """

    class_starts: I64

    def __init__(
        self, X: Any, labels: Labels, metric: Any, memory: int | None = None, folder: str | None = None
    ) -> None:
        super().__init__(X, metric, memory, folder, labels)
        self._folder, self.class_names = folder, labels.names
        classes = np.empty(self.n_distinct, np.int64)
        classes[self.distinct] = labels.codes
        self.by_class = np.argsort(classes, kind="stable").astype(np.int64)
        self.class_starts = np.concatenate([[0], np.cumsum(np.bincount(classes))]).astype(np.int64)
        alone = np.flatnonzero(self._sizes == 1)
        if len(alone) == len(self.class_names):
            raise ScalemaniError(
                f"y has {len(alone)} classes of one distinct row each, and no edge is within one; give labels that "
                "several rows have, or leave y out"
            )
        if len(alone):
            warn(
                f"{len(alone)} of {len(self.class_names)} classes of y have a single distinct row (the first: "
                f"{self.class_names[alone[0]]!r:.60}): such a class is a single point",
                ScalemaniWarning,
            )

    @property
    def _sizes(self) -> I64:
        """Distinct points of each class."""
        return np.diff(self.class_starts)

    def search_bytes(self, parameters: Parameters, edges: int) -> int:
        """Also a copy of the largest class's rows."""
        return super().search_bytes(parameters, edges) + self.held() * int(self._sizes.max()) // self.n_distinct

    def least_edges(self, parameters: Parameters, n: int) -> int:
        """Each vertex has its neighbours, or all others of its class."""
        k = parameters.n_neighbors
        if k is None or parameters.graph == "mutual":
            return 0
        return int((self._sizes * np.minimum(self._sizes - 1, k)).sum())

    def _each_class(self) -> Iterator[tuple[int, int, I64]]:
        """Where each class begins and ends among the points by class, and its distinct points, ascending."""
        for start, stop in zip(self.class_starts[:-1].tolist(), self.class_starts[1:].tolist(), strict=True):
            yield start, stop, self.by_class[start:stop]

    def _search_among(self, members: I64) -> ExactSearch:
        """The search among some rows: a copy of them, in a file where all rows are in one."""
        rows = self.points.rows
        if map_of(rows) is None:
            return self._search.part(members, rows[members], self.holds)  # type: ignore[no-any-return]
        file, step = RowFile(self._folder), max(1, COPIED // rows[:1].nbytes)
        for start in range(0, len(members), step):
            file.add(rows[members[start : start + step]])
        return self._search.part(members, file.array(), self.holds)  # type: ignore[no-any-return]

    def _lists(
        self, parameters: Parameters, n_neighbors: int | None, kept: Pieces | None = None, progress: Done = silent
    ) -> NeighborLists:
        """Lists of each class, put together."""
        self.make_search(parameters)
        found: list[NeighborLists] = []
        for start, stop, members in self._each_class():
            if stop - start == 1:
                continue
            search = self._search_among(members)
            found.append(
                find_neighbors(
                    search.rows,
                    n_neighbors=None if n_neighbors is None else min(n_neighbors, stop - start - 1),
                    radius=parameters.radius,
                    knn=parameters.knn,
                    random_state=parameters.random_state,
                    search=search,
                    room=self.room(n_neighbors or 0),
                    kept=kept and Pieces(kept.folder, kept.check, kept.of, f"class_{start}_"),
                    progress=lambda done, before=start: progress(before + done),  # type: ignore[misc]
                )
            )
        return self._together(found)

    def _together(self, found: list[NeighborLists]) -> NeighborLists:
        """Lists of all points from those of the classes of more than one."""
        starts, large = self.class_starts[:-1], self._sizes > 1
        counts = np.zeros(self.n_distinct, np.int64)  # of the points by class
        counts[np.repeat(large, self._sizes)] = np.concatenate([np.diff(lists.indptr) for lists in found])
        computed = [lists.stats.n_distances for lists in found if lists.stats is not None]
        known = [number for number in computed if number is not None]
        return NeighborLists(
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.concatenate([lists.indices + start for lists, start in zip(found, starts[large], strict=True)]),
            np.concatenate([lists.distances for lists in found]),
            method=max((lists.method for lists in found), key="nndescent".__eq__),  # that one if any is
            recall=min(lists.recall for lists in found),
            stats=SearchStats(
                sum(known) if len(known) == len(found) else None,
                n_shards=sum(lists.stats.n_shards for lists in found if lists.stats is not None),
                n_clusters=sum(lists.stats.n_clusters for lists in found if lists.stats is not None),
            ),
            left_out=sum(lists.left_out for lists in found),
        ).in_order(np.argsort(self.by_class))

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """The graph of each class, connected and in vertex order, one after another."""
        self.make_search(parameters)
        assert lists is not None
        ordered = lists.in_order(self.by_class)
        graphs = [
            self._graph_of(name, ordered.part(start, stop), members, parameters)
            for name, (start, stop, members) in zip(self.class_names, self._each_class(), strict=True)
        ]
        bridges = np.concatenate([one.bridges for one in graphs])
        lengths = np.concatenate([one.bridge_lengths for one in graphs])
        by_length = np.argsort(lengths, kind="stable")
        graph = Graph(
            matrix=csr_array(block_diag([one.matrix for one in graphs], format="csr")),
            order=np.concatenate([one.order for one in graphs]),
            bridges=bridges[by_length],
            bridge_lengths=lengths[by_length],
            n_components=len(graphs),
            component_sizes=np.sort(self._sizes)[::-1],
            means=np.concatenate([one.means for one in graphs]) if parameters.edge_weights == "conformal" else None,
        )
        return self._in_range(graph)

    def _graph_of(self, name: str, lists: NeighborLists, members: I64, parameters: Parameters) -> Graph:
        """The graph of one class, with the numbers that its points have among all."""
        matrix, conformal = symmetric_graph(lists, parameters.graph), parameters.edge_weights == "conformal"
        alone, apart = len(members) == 1, connected_components(matrix, directed=False, return_labels=False) > 1
        if apart and parameters.disconnected != "join":
            warn(
                f"the class {name!r:.60} of y falls apart into several parts, which bridges join: distances across a "
                "bridge are those of a gap; more neighbours may join them by data",
                ScalemaniWarning,
            )
        try:
            graph = make_graph(
                matrix,
                disconnected="join",
                search=self._search_among(members) if apart else None,
                kind=parameters.graph,
                conformal=lists if conformal and not alone else None,
            )
        except DisconnectedGraphError as error:
            raise DisconnectedGraphError(
                f"the class {name!r:.60} of y falls apart, and its parts have nothing in common under this metric: "
                "use another one, or leave the rows out that have nothing in common with others of their class"
            ) from error
        except ScalemaniError as error:
            raise ScalemaniError(f"in the class {name!r:.60} of y: {error}") from error
        means = np.ones(1) if conformal and alone else graph.means  # no edge is divided by it
        return replace(graph, order=members[graph.order], bridges=members[graph.bridges], means=means)


def read_labeled(X: Any, y: Any, parameters: Parameters, memory: int | None = None, folder: str | None = None) -> Input:
    """Rows of features and their labels, validated, as :func:`scalemani.steps.inputs.read_input` reads rows alone.

    Raises ScalemaniError: Also for labels that can't be taken (:func:`scalemani.points.classes.read_labels`), for given
        distances, and for landmarks.
    """
    if isinstance(parameters.metric, str) and parameters.metric in GIVEN_METRICS:
        raise ScalemaniError(
            f"metric={parameters.metric!r} takes no labels, which are for rows of features; leave y out, or give "
            "features and another metric"
        )
    if parameters.landmarks is not None:
        raise ScalemaniError(
            "landmarks with labels: each class has a graph of its own, and landmarks need a single one; leave one of "
            "them out"
        )
    if parameters.shortcuts == "remove":
        raise ScalemaniError("shortcuts='remove' with labels: no edges are looked for that leap; leave one of them out")
    return LabeledInput(X, read_labels(y), parameters.metric, memory, folder)
