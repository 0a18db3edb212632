"""X by kind of input, with one interface that the steps use without asking which it is.

features   rows of numbers: distinct points, neighbours by search
distances  metric="precomputed", dense: neighbours chosen from the matrix
kernel     kernel="precomputed", dense: kernel values, which say distances to choose neighbours by
graph      metric="precomputed", sparse: the finished neighbour graph, or neighbour lists to choose from
geodesic   metric="geodesic", dense: D itself; there is no graph
"""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F64, I64
from scalemani.cluster.client import cores
from scalemani.errors import DisconnectedGraphError, NoPathLengthsWarning, NothingInCommonWarning, ScalemaniError, warn
from scalemani.geodesics.rows import check_reach, power_of_two_scale
from scalemani.graph.build import Graph, given_edges, make_graph, symmetric_bytes, symmetric_graph
from scalemani.graph.edges import row_numbers, two_directions
from scalemani.neighbors.choice import lists_bytes, needed_bytes, search_room, takes_descent
from scalemani.neighbors.exact import TREE_FEATURES
from scalemani.neighbors.functions import BOTH_WAYS, check_function
from scalemani.neighbors.lists import NeighborLists
from scalemani.neighbors.metrics import (
    GIVEN_METRICS,
    canonical_name,
    checked_parameters,
    domain_check,
    function_parameters,
)
from scalemani.neighbors.precomputed import PrecomputedSearch
from scalemani.neighbors.search import Done, find_neighbors, search_for, silent
from scalemani.parameters import Parameters
from scalemani.points.cells import SAME, check_magnitude, typical_distance
from scalemani.points.classes import Labels
from scalemani.points.given_matrix import DistanceMatrix, kernel_distances, kernel_values
from scalemani.points.rows import Points, held_bytes, read_points, save_rows, warn_of_distances
from scalemani.storage.pieces import Pieces
from scalemani.storage.run import RunStore

SEARCHED = ("features", "distances", "kernel")  # kinds whose neighbours are chosen by n_neighbors


class Input:
    """What the steps need of X. What a kind of input does not say of itself is as for a given D.

    n_rows, n_features: As the user gave them.
    distinct (n_rows,): Distinct point of each row.
    class_starts (c + 1,): The first vertex of each class, and n, where rows have labels: edges are within classes.
    """

    kind: str
    n_rows: int
    n_features: int
    n_distinct: int
    distinct: I64
    fingerprint: str
    class_starts: I64 | None = None

    def lists(
        self, parameters: Parameters, kept: Pieces | None = None, progress: Done = silent
    ) -> NeighborLists | None:
        """Neighbours of every distinct point, if there are any."""
        return None

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """The connected graph in vertex order."""
        raise NotImplementedError

    def lengths(self, graph: Graph) -> F64:
        """Lengths whose median sets the scale of the store."""
        return np.asarray(graph.matrix.data, np.float64)

    def save(self, store: RunStore) -> None:
        """Write what a projection needs besides the graph."""

    def held(self) -> int:
        """Bytes of X that the client holds all along: rows, digests and maps, and what the search made of them."""
        raise NotImplementedError

    def search_bytes(self, parameters: Parameters, edges: int) -> int:
        """Bytes of the search and of the making of a graph of `edges` stored entries, one after the other."""
        return 0

    def make_search(self, parameters: Parameters) -> bool:
        """Make what the search keeps, which takes memory; whether there was none yet."""
        return False

    def least_edges(self, parameters: Parameters, n: int) -> int:
        """Stored entries of a graph of n vertices at least, before it is made; 0 where nothing is known."""
        return 0


class _ByEdges(Input):
    """Inputs with a graph."""

    matrix: Any  # of given distances

    def held(self) -> int:
        """The given distances, and a number a row."""
        return 8 * self.n_rows + held_bytes(self.matrix)

    def search_bytes(self, parameters: Parameters, edges: int) -> int:
        n = self.n_distinct
        listed = n * _neighbors(parameters, edges, n)
        return symmetric_bytes(n, max(edges, listed)) + lists_bytes(n, listed)

    def least_edges(self, parameters: Parameters, n: int) -> int:
        """Each vertex has its neighbours, unless edges may be one-sided and go."""
        k = parameters.n_neighbors
        return 0 if k is None or parameters.graph == "mutual" else min(n * (n - 1), n * k)

    def _in_range(self, graph: Graph) -> Graph:
        """The graph, unless its paths may leave float32: none is longer than all edges together."""
        lengths = self.lengths(graph)
        check_reach(float(lengths.sum()) / 2, power_of_two_scale(lengths))
        return graph


def _neighbors(parameters: Parameters, edges: int, n: int) -> int:
    """Neighbours of a row; within a radius as many as the edges tell."""
    return parameters.n_neighbors or max(1, edges // max(n, 1))


class _Searched(_ByEdges):
    """Features and dense distances: neighbours are searched for, components can be joined."""

    _searched: Any  # what find_neighbors takes
    _search: Any = None  # there, or made by make_search

    def room(self, n_neighbors: int) -> int | None:
        """Bytes that the search may take besides the points and two copies of the lists; None for any number."""
        return None

    def _lists(
        self, parameters: Parameters, n_neighbors: int | None, kept: Pieces | None = None, progress: Done = silent
    ) -> NeighborLists:
        self.make_search(parameters)
        return find_neighbors(
            self._searched,
            n_neighbors=n_neighbors,
            radius=parameters.radius,
            metric=parameters.metric,
            metric_params=parameters.metric_params,
            knn=parameters.knn,
            random_state=parameters.random_state,
            search=self._search,
            room=self.room(n_neighbors or 0),
            kept=kept,
            progress=progress,
        )

    def lists(self, parameters: Parameters, kept: Pieces | None = None, progress: Done = silent) -> NeighborLists:
        """Neighbours of every distinct point; finished pieces go into `kept`, and what is there is not searched for.

        `progress` is called with the number of points that are done.
        """
        lists = self._lists(parameters, parameters.n_neighbors, kept, progress)
        if lists.left_out:
            warn(
                f"{lists.left_out} of {lists.left_out + len(lists.indices)} entries of the neighbour lists are rows "
                f"that have nothing in common under metric={self._search.form.name!r}: they are no edges",
                NothingInCommonWarning,
            )
        if callable(parameters.metric):
            _check_both_ways(lists, self._search.form.name, self.distinct)
        return lists

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """The connected graph in vertex order."""
        self.make_search(parameters)
        assert lists is not None
        graph = make_graph(
            symmetric_graph(lists, parameters.graph),
            disconnected=parameters.disconnected,
            search=self._search,
            n_neighbors=parameters.n_neighbors,
            radius=parameters.radius,
            kind=parameters.graph,
            find_more=lambda k: self._lists(parameters, min(k, self.n_distinct - 1)),
            conformal=lists if parameters.edge_weights == "conformal" else None,
        )
        return self._in_range(graph)


def _check_both_ways(lists: NeighborLists, name: str, distinct: I64) -> None:
    """Refuse a function whose distance between two rows that list each other depends on which comes first."""
    rows, columns, there, back = two_directions(
        row_numbers(lists.indptr), lists.indices, lists.distances, len(lists.indptr) - 1
    )
    rounding = SAME * np.maximum(np.maximum(there, back), typical_distance(there))
    bad = np.isfinite(back) & (np.abs(there - back) > rounding)
    if bad.any():
        at = int(np.argmax(bad))
        first = np.unique(distinct, return_index=True)[1]
        raise ScalemaniError(
            f"metric={name!r} gives {float(there[at])!r} between row {first[rows[at]]} and row {first[columns[at]]} of "
            f"X, and {float(back[at])!r} the other way round: {BOTH_WAYS}"
        )


class FeatureInput(_Searched):
    """Rows of features that `metric` takes; identical rows are one point. See :func:`read_input` for the others."""

    kind = "features"

    def __init__(
        self, X: Any, metric: Any, memory: int | None = None, folder: str | None = None, labels: Labels | None = None
    ) -> None:
        self.memory, held = memory, None if memory is None else memory // 4
        check = domain_check(metric)
        self.points: Points = read_points(X, memory=held, folder=folder, check=check, labels=labels)
        self.n_rows, self.n_features = self.points.n_rows, self.points.n_features
        self.n_distinct, self.distinct = self.points.n_distinct, self.points.distinct
        self.fingerprint = self.points.fingerprint()
        self._searched = self.points
        check_magnitude(self.points.rows)
        if self.n_rows == self.n_features:
            warn_of_distances(self.points)

    def save(self, store: RunStore) -> None:
        """Write the distinct rows and their digests."""
        save_rows(store, self.points.rows)
        store.write_array("digests", self.points.digests)

    @property
    def holds(self) -> bool:
        """Whether the search may hold all rows once more, as the metric takes them."""
        return self.memory is None or self.n_distinct * (8 * self.n_features + 24) <= self.memory // 4

    def room(self, n_neighbors: int) -> int | None:
        if self.memory is None:
            return None
        return search_room(self.memory, self.points.rows, self.n_rows, self.n_distinct, n_neighbors)

    def held(self) -> int:
        """Rows, maps and digests; the rows once more in a tree."""
        total = 8 * self.n_rows + held_bytes(self.points.rows) + 32 * self.n_distinct
        tree = self.n_features <= TREE_FEATURES and self.holds
        return total + self.n_distinct * (8 * self.n_features + 24) if tree else total

    def search_bytes(self, parameters: Parameters, edges: int) -> int:
        """The search, or the making of the graph, or the rows on their way to the store."""
        n, k, threads = self.n_distinct, _neighbors(parameters, edges, self.n_distinct), cores()
        width = self.n_features if self._search is None else self._search.prepared.width
        room = self.room(parameters.n_neighbors or 0)
        searching = min(
            max(needed_bytes(room, n, width, k, name, threads) for name in names) for names in self._ways(parameters)
        )
        rows = 2 * held_bytes(self.points.rows)
        return max(super().search_bytes(parameters, edges), searching + 2 * lists_bytes(n, n * k), rows)

    def _ways(self, parameters: Parameters) -> list[tuple[str, ...]]:
        """What the search may be, each with what it works with: several before it is made, then one."""
        search, k = self._search, parameters.n_neighbors
        if search is None:
            low = self.n_features <= TREE_FEATURES
            exact: list[tuple[str, ...]] = [("kdtree",), ("brute",)] if low else [("brute",)]
            return [(*names, "nndescent") for names in exact] if parameters.knn == "nndescent" else exact
        exactly = "kdtree" if search.low else search.method
        if parameters.radius is None and k is not None and takes_descent(parameters.knn, search, k):
            return [(exactly, "nndescent")]  # what NN-descent leaves out is searched for exactly
        return [(exactly,)]

    def make_search(self, parameters: Parameters) -> bool:
        """A tree, or rows as the metric takes them."""
        if self._search is not None:
            return False
        metric, extra = parameters.metric, parameters.metric_params
        self._search = search_for(self.points, metric, extra, threads=cores(), hold=self.holds)
        return True


class DistanceInput(_Searched):
    """A dense matrix of distances to choose neighbours from; points are what it says they are."""

    kind = "distances"

    def __init__(self, X: Any) -> None:
        checked = DistanceMatrix(X)
        self.matrix = checked.block(slice(0, checked.n))
        check_magnitude(self.matrix)
        self.n_rows = self.n_features = self.n_distinct = checked.n
        self.distinct = np.arange(checked.n)
        self.fingerprint = checked.fingerprint
        self._searched = self.matrix
        self._search = PrecomputedSearch(self.matrix)

    def save(self, store: RunStore) -> None:
        """Write the order in which ties between training points are broken."""
        store.write_array("tie_rank", self._search.tie_rank)


class KernelInput(DistanceInput):
    """A matrix of kernel values; neighbours are chosen by the distances that they say.

    kernel (n, n): As float64; eps: of its own dtype.
    """

    kind = "kernel"

    def __init__(self, X: Any) -> None:
        self.kernel, dtype = kernel_values(X), np.dtype(getattr(X, "dtype", float))
        self.eps = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
        super().__init__(kernel_distances(self.kernel))
        self._search.method = "kernel"
        self.fingerprint = hashlib.blake2b(self.kernel.tobytes(), digest_size=16).hexdigest()

    def held(self) -> int:
        return super().held() + held_bytes(self.kernel)


class GraphInput(_ByEdges):
    """A sparse matrix of distances: the finished neighbour graph, or neighbour lists to choose from.

    Lists are what scikit-learn's KNeighborsTransformer and RadiusNeighborsTransformer write: every row stores its own
    0. There n_neighbors or radius chooses from what is stored, as in scikit-learn's Isomap; else every edge counts.
    """

    kind = "graph"

    def __init__(self, X: Any) -> None:
        edges = given_edges(X)
        self.matrix = edges.graph()
        self.listed = edges.lists
        self.edges = edges if edges.lists or not edges.symmetric else None  # the graph says it all
        check_magnitude(self.matrix)
        self.n_rows = self.n_features = self.n_distinct = self.matrix.shape[0]
        self.distinct = np.arange(self.n_rows)
        digest = hashlib.blake2b(digest_size=16)
        if self.edges is not None:
            digest.update(b"lists" if edges.lists else b"")
            digest.update(np.isfinite(edges.back).tobytes())
        for part, kind in ((self.matrix.indptr, np.int64), (self.matrix.indices, np.int64), (self.matrix.data, float)):
            digest.update(np.ascontiguousarray(part, kind).tobytes())
        self.fingerprint = digest.hexdigest()

    def search_bytes(self, parameters: Parameters, edges: int) -> int:
        """The making of the graph, and the directions that are held beside it."""
        n = self.n_distinct
        more = 0 if self.edges is None else 32 * len(self.edges.rows)
        return symmetric_bytes(n, edges) + lists_bytes(n, 0) + more

    def least_edges(self, parameters: Parameters, n: int) -> int:
        """All that are given, if all points are kept."""
        return int(self.matrix.nnz) if n == self.n_distinct else 0

    def lists(
        self, parameters: Parameters, kept: Pieces | None = None, progress: Done = silent
    ) -> NeighborLists | None:
        """The nearest of the given neighbours; None for a finished graph."""
        if self.edges is None or not self.listed:
            return None
        return self.edges.nearest(parameters.n_neighbors, parameters.radius)

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """The given graph in vertex order."""
        kind = parameters.graph
        if lists is not None:
            matrix = symmetric_graph(lists, kind)
        else:
            matrix = self.matrix if self.edges is None else self.edges.graph(kind)
        conformal = lists if parameters.edge_weights == "conformal" else None
        return self._in_range(make_graph(matrix, disconnected=parameters.disconnected, conformal=conformal))

    def save(self, store: RunStore) -> None:
        """Write the order in which ties between training points are broken: nothing but their number is known."""
        store.write_array("tie_rank", np.arange(self.n_rows))


class GeodesicInput(Input):
    """A matrix that is D; inf between components is allowed."""

    kind = "geodesic"

    def __init__(self, X: Any) -> None:
        self.checked = DistanceMatrix(X, allow_inf=True)
        self.longer = self.checked.longer_sides()
        check_magnitude(self.checked.row_longest)
        self.n_rows = self.n_features = self.n_distinct = self.checked.n
        self.distinct = np.arange(self.checked.n)
        self.fingerprint = self.checked.fingerprint

    def held(self) -> int:
        """Maps and what is known of each row: D stays where it is."""
        return (8 + 3 * 8) * self.n_rows

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """No edges: which points are kept, in the given order."""
        labels = self.checked.labels
        sizes = np.bincount(labels)
        kept = np.arange(self.n_rows)
        if len(sizes) > 1:
            shown = ", ".join(map(str, np.sort(sizes)[::-1][:5]))
            said = f"the distances have {len(sizes)} components (sizes {shown})"
            if parameters.disconnected == "join":
                why = "no distance between them is known"
                raise ScalemaniError(f"{said} and can't be joined: {why}; use disconnected='largest'")
            if parameters.disconnected == "error":
                raise DisconnectedGraphError(f"{said}: use disconnected='largest', or give finite distances")
            kept = np.flatnonzero(labels == sizes.argmax())
        check_reach(float(self.checked.row_longest[kept].max()), power_of_two_scale(self.checked.sample_within(kept)))
        if self.longer is not None:
            warn(self.longer, NoPathLengthsWarning)
        return Graph(
            matrix=sp.csr_array((len(kept), len(kept))),
            order=kept,
            bridges=np.empty((0, 2), np.int64),
            bridge_lengths=np.empty(0),
            n_components=len(sizes),
            component_sizes=sizes,
        )

    def lengths(self, graph: Graph) -> F64:
        """Sampled distances between the points that are kept."""
        return self.checked.sample_within(graph.order)


def read_input(
    X: Any,
    metric: Any,
    metric_params: dict[str, Any] | None = None,
    memory: int | None = None,
    folder: str | None = None,
) -> Input:
    """X as what `metric` says it is, validated; no store is written.

    Rows of features that take more than a fourth of `memory`, the bytes that the process may hold, are read where they
    are, or from a file without a name in `folder`.

    Raises ScalemaniError: Also for parameters of a metric that has none.
    """
    if metric_params and isinstance(metric, str) and metric in GIVEN_METRICS:
        raise ScalemaniError(
            f"metric={metric!r} takes no metric_params, and {metric_params!r} is given: distances are used as "
            "they are; leave it out"
        )
    if metric == "geodesic":
        return GeodesicInput(X)
    if metric == "precomputed":
        return GraphInput(X) if sp.issparse(X) else DistanceInput(X)
    return FeatureInput(X, metric, memory, folder)


def check_sizes(parameters: Parameters, given: Any) -> None:
    """Refuse more neighbours or axes than the distinct rows allow, and a metric that is none on these rows."""
    n, k, p = given.n_distinct, parameters.n_neighbors, parameters.n_components
    repeats = f" ({given.n_rows} rows, {given.n_rows - n} of them repeats)" if n < given.n_rows else ""
    if n < 2:
        raise ScalemaniError(
            f"X has {n} distinct sample(s){repeats} while a minimum of 2 is required: n_samples = {given.n_rows}"
        )
    metric, extra = parameters.metric, parameters.metric_params
    if given.kind == "features" and isinstance(metric, str):
        checked_parameters(canonical_name(metric), extra, given.n_features)
    elif given.kind == "features" and callable(metric):
        numbers = np.unique(given.distinct, return_index=True)[1]
        check_function(metric, function_parameters(extra), given.points.rows, numbers)
    if given.kind in SEARCHED and given.class_starts is None and k is not None and k >= n:
        raise ScalemaniError(f"n_neighbors={k} needs at least {k + 1} distinct rows; X has {n}{repeats}")
    if parameters.edge_weights == "conformal" and given.kind == "graph" and not given.listed:
        raise ScalemaniError(
            "edge_weights='conformal' divides by mean distances to neighbours, and X is a finished graph, without "
            "neighbour lists; store each row's own 0 to make it lists, or use edge_weights='plain'"
        )
    if p >= n:
        raise ScalemaniError(f"n_components={p} needs at least {p + 1} distinct rows; X has {n}{repeats}")
