"""Stages 1 to 3 by kind of input: takes X, gives one interface that the pipeline walks without asking.

features   rows of numbers: distinct points, neighbours by search
distances  metric="precomputed", dense: neighbours chosen from the matrix
graph      metric="precomputed", sparse: the finished neighbour graph
geodesic   metric="geodesic", dense: D itself; there is no graph
"""

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.distance_matrix import DistanceMatrix
from scalemani.errors import DisconnectedGraphError, ScalemaniError
from scalemani.exact_search import ExactSearch
from scalemani.graph import Graph, graph_from_sparse, make_graph, symmetric_graph
from scalemani.neighbors import NeighborLists, find_neighbors
from scalemani.parameters import Parameters
from scalemani.points import Points, read_points
from scalemani.precomputed_search import PrecomputedSearch


class Input(Protocol):
    """What the pipeline needs of X.

    Attributes
    ----------
    kind : str
    n_rows, n_features : int
        As the user gave them.
    distinct : ndarray of int64, shape (n_rows,)
        Distinct point of each row.
    n_distinct : int
    fingerprint : str
    """

    kind: str
    n_rows: int
    n_features: int
    n_distinct: int
    distinct: NDArray[np.int64]
    fingerprint: str

    def lists(self, parameters: Parameters) -> NeighborLists | None: ...

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph: ...


class _Searched:
    """Features and dense distances: neighbours are searched for, components can be joined."""

    n_distinct: int

    def _search(self, parameters: Parameters) -> Any:
        raise NotImplementedError

    def _lists(self, parameters: Parameters, n_neighbors: int | None) -> NeighborLists:
        raise NotImplementedError

    def lists(self, parameters: Parameters) -> NeighborLists:
        """Neighbours of every distinct point."""
        return self._lists(parameters, parameters.n_neighbors)

    def graph(self, parameters: Parameters, lists: NeighborLists) -> Graph:
        """The connected graph in vertex order."""
        return make_graph(
            symmetric_graph(lists, parameters.graph),
            disconnected=parameters.disconnected,
            search=self._search(parameters),
            n_neighbors=parameters.n_neighbors,
            radius=parameters.radius,
            kind=parameters.graph,
            find_more=lambda k: self._lists(parameters, min(k, self.n_distinct - 1)),
        )


class FeatureInput(_Searched):
    """Rows of features; identical rows are one point."""

    kind = "features"

    def __init__(self, X: Any) -> None:
        self.points: Points = read_points(X)
        self.n_rows, self.n_features = self.points.n_rows, self.points.n_features
        self.n_distinct, self.distinct = self.points.n_distinct, self.points.distinct
        self.fingerprint = self.points.fingerprint()

    def _search(self, parameters: Parameters) -> ExactSearch:
        ranks = np.lexsort(self.points.digests.T[::-1]).argsort()
        return ExactSearch(self.points.rows, parameters.metric, parameters.metric_params, tie_rank=ranks)

    def _lists(self, parameters: Parameters, n_neighbors: int | None) -> NeighborLists:
        from scalemani.engine.cluster import cores

        return find_neighbors(
            self.points,
            n_neighbors=n_neighbors,
            radius=parameters.radius,
            metric=parameters.metric,
            metric_params=parameters.metric_params,
            knn=parameters.knn,
            random_state=parameters.random_state,
            threads=cores(),
        )


class DistanceInput(_Searched):
    """A dense matrix of distances to choose neighbours from; points are what it says they are."""

    kind = "distances"

    def __init__(self, X: Any) -> None:
        checked = DistanceMatrix(X)
        self.matrix = checked.block(slice(0, checked.n))
        self.n_rows = self.n_features = self.n_distinct = checked.n
        self.distinct = np.arange(checked.n)
        self.fingerprint = checked.fingerprint

    def _search(self, parameters: Parameters) -> PrecomputedSearch:
        return PrecomputedSearch(self.matrix)

    def _lists(self, parameters: Parameters, n_neighbors: int | None) -> NeighborLists:
        search, own = PrecomputedSearch(self.matrix), np.arange(self.n_rows)
        if parameters.radius is not None:
            indptr, indices, lengths = search.within(self.matrix, parameters.radius, exclude=own)
        else:
            k = min(int(n_neighbors or 1), self.n_rows - 1)
            nearest, far = search.nearest(self.matrix, k, exclude=own)
            indptr, indices, lengths = np.arange(0, nearest.size + 1, k), nearest.ravel(), far.ravel()
        return NeighborLists(indptr, indices, lengths, "precomputed", 1.0)


class GraphInput:
    """A sparse matrix that is the neighbour graph: n_neighbors is not applied."""

    kind = "graph"

    def __init__(self, X: Any) -> None:
        import hashlib

        self.matrix = graph_from_sparse(X)
        self.n_rows = self.n_features = self.n_distinct = self.matrix.shape[0]
        self.distinct = np.arange(self.n_rows)
        digest = hashlib.blake2b(digest_size=16)
        for part, kind in ((self.matrix.indptr, np.int64), (self.matrix.indices, np.int64), (self.matrix.data, float)):
            digest.update(np.ascontiguousarray(part, kind).tobytes())
        self.fingerprint = digest.hexdigest()

    def lists(self, parameters: Parameters) -> None:
        """There are none."""

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """The given graph in vertex order."""
        return make_graph(self.matrix, disconnected=parameters.disconnected)


class GeodesicInput:
    """A matrix that is D; inf between components is allowed."""

    kind = "geodesic"

    def __init__(self, X: Any) -> None:
        self.checked = DistanceMatrix(X, allow_inf=True)
        self.n_rows = self.n_features = self.n_distinct = self.checked.n
        self.distinct = np.arange(self.checked.n)
        self.fingerprint = self.checked.fingerprint

    def lists(self, parameters: Parameters) -> None:
        """There are none."""

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """No edges: which points are kept, in the given order."""
        labels = self.checked.labels
        sizes = np.bincount(labels)
        kept = np.arange(self.n_rows)
        if len(sizes) > 1:
            shown = ", ".join(map(str, np.sort(sizes)[::-1][:5]))
            if parameters.disconnected == "join":
                raise ScalemaniError(
                    f"the distances have {len(sizes)} components (sizes {shown}) and can't be joined: no distance "
                    "between them is known; use disconnected='largest'"
                )
            if parameters.disconnected == "error":
                raise DisconnectedGraphError(
                    f"the distances have {len(sizes)} components (sizes {shown}): use disconnected='largest', "
                    "or give finite distances"
                )
            kept = np.flatnonzero(labels == sizes.argmax())
        return Graph(
            matrix=sp.csr_array((len(kept), len(kept))),
            order=kept,
            bridges=np.empty((0, 2), np.int64),
            bridge_lengths=np.empty(0),
            n_components=len(sizes),
            component_sizes=sizes,
        )


def read_input(X: Any, metric: Any) -> Input:
    """X as what `metric` says it is, validated; nothing is written.

    Raises
    ------
    ScalemaniError
    """
    made: Any
    if metric == "geodesic":
        made = GeodesicInput(X)
    elif metric == "precomputed":
        made = GraphInput(X) if sp.issparse(X) else DistanceInput(X)
    else:
        made = FeatureInput(X)
    result: Input = made
    return result
