"""Stage 3: takes neighbour lists or a finished graph, gives a connected symmetric graph in vertex order.

Graphs are CSR arrays whose STORED entries are the edges: a zero-length edge is an entry that holds
0, and no operation here may treat it as absent. Hence the graphs are built from indices, never by
``G.maximum(G.T)`` or sums, which lose such entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.sparse.csgraph import connected_components

from scalemani.aliases import F64, I64
from scalemani.errors import DisconnectedGraphError, ScalemaniError, ScalemaniWarning, unknown, warn
from scalemani.graph.components import NOTHING_JOINS, least_neighbors, shortest_bridges, what_to_do
from scalemani.graph.edges import csr_of, renumbered, row_numbers, shortest, two_directions, with_edges
from scalemani.graph.order import vertex_order
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.lists import NeighborLists
from scalemani.points.cells import SAME, typical_distance

__all__ = ["Graph", "given_edges", "make_graph", "symmetric_graph", "vertex_order"]

KINDS = ("union", "mutual")
POLICIES = ("error", "join", "largest")


@dataclass(frozen=True)
class Graph:
    """A connected symmetric neighbour graph.

    Attributes
    ----------
    matrix : csr_array of shape (n, n), float64
        Symmetric bit for bit, indices sorted, no diagonal; stored zeros are edges. Vertices are in
        vertex order: neighbours in space are near in number.
    order : ndarray of shape (n,), int64
        The distinct row of each vertex; rows that were dropped aren't in it.
    bridges : ndarray of shape (b, 2), int64
        Distinct rows joined by ``disconnected="join"``, from the shortest bridge to the longest.
    bridge_lengths : ndarray of shape (b,), float64
        In the units of the distances.
    n_components : int
        Components before the policy was applied.
    component_sizes : ndarray of shape (n_components,), int64
        Points in each, the largest first.
    means : ndarray of shape (n,), float64, or None
        Mean distance of each vertex to its neighbours, where edges were divided by them.
    """

    matrix: csr_array
    order: I64
    bridges: I64
    bridge_lengths: F64
    n_components: int
    component_sizes: I64
    means: F64 | None = None

    def vertex_of(self, m: int) -> I64:
        """The vertex of each of m distinct rows, -1 of one that was dropped."""
        found = np.full(m, -1, np.int64)
        found[self.order] = np.arange(len(self.order))
        return found


def symmetric_graph(lists: NeighborLists, kind: str = "union") -> csr_array:
    """Make one symmetric graph of directed neighbour lists.

    Parameters
    ----------
    lists : NeighborLists
        Neighbours of m distinct rows.
    kind : {"union", "mutual"}
        An edge where either end lists the other, or only where both do.

    Returns
    -------
    csr_array of shape (m, m), float64
        The weight is the smaller of the two directions' distances; zeros are stored.

    Raises
    ------
    ScalemaniError
        Unknown `kind`; an index outside 0 to m - 1 (such as the -1 of a search that found too few);
        a distance that is negative or not finite.
    """
    _check_choice("graph", kind, KINDS)
    m = len(lists.indptr) - 1
    rows, columns = row_numbers(lists.indptr), np.asarray(lists.indices, dtype=np.int64)
    outside = (columns < 0) | (columns >= m)
    if outside.any():
        e = int(outside.argmax())
        raise ScalemaniError(
            f"the neighbour list of distinct row {rows[e]} holds the index {columns[e]}; "
            f"allowed are 0 to {m - 1}; search again, or use knn='exact'"
        )
    distances = np.asarray(lists.distances, dtype=np.float64)
    bad = ~((distances >= 0) & np.isfinite(distances))
    if bad.any():
        e = int(bad.argmax())
        raise ScalemaniError(
            f"the distance between distinct rows {rows[e]} and {columns[e]} is {distances[e]}; "
            "paths need finite distances that are not negative; choose another metric"
        )
    rows, columns, there, back = two_directions(rows, columns, distances, m)
    return _joined(rows, columns, there, back, kind, m)


def _joined(
    rows: I64,
    columns: I64,
    there: F64,
    back: F64,
    kind: str,
    m: int,
) -> csr_array:
    """The symmetric graph of directed edges, as :func:`two_directions` gives them; the smaller length counts."""
    one_way = ~np.isfinite(back)
    if kind == "mutual":
        rows, columns, there, back = rows[~one_way], columns[~one_way], there[~one_way], back[~one_way]
        one_way = one_way[~one_way]
    weights = np.minimum(there, back)
    return csr_of(
        np.concatenate([rows, columns[one_way]]),
        np.concatenate([columns, rows[one_way]]),
        np.concatenate([weights, weights[one_way]]),
        m,
    )


@dataclass(frozen=True)
class GivenEdges:
    """The edges of a sparse matrix of distances, checked.

    Attributes
    ----------
    rows, columns : ndarray of shape (e,), int64
        Each direction once, sorted by row, then column; none from a row to itself.
    there, back : ndarray of shape (e,), float64
        Lengths of (row, column) and of (column, row); inf where that direction isn't stored.
    m : int
        Rows of the matrix.
    lists : bool
        Whether most rows store their own 0, as the neighbour lists of scikit-learn's transformers do (but for a row
        that has more twins than neighbours).
    """

    rows: I64
    columns: I64
    there: F64
    back: F64
    m: int
    lists: bool

    @property
    def symmetric(self) -> bool:
        """Whether every edge is stored in both directions."""
        return bool(np.isfinite(self.back).all())

    def graph(self, kind: str = "union") -> csr_array:
        """The finished graph: every edge that is stored (for "mutual", in both directions)."""
        return _joined(self.rows, self.columns, self.there, self.back, kind, self.m)

    def nearest(self, n_neighbors: int | None, radius: float | None) -> NeighborLists:
        """Lists of the nearest of the stored neighbours of each row; as many as there are where they are fewer."""
        indptr, nearest, lengths = shortest(self.rows, self.columns, self.there, self.m, n_neighbors, radius)
        most = int(np.bincount(self.rows, minlength=1).max())
        stored = f"X stores up to {most} neighbours of a row, and "
        if n_neighbors is not None and most < n_neighbors:
            warn(f"{stored}n_neighbors={n_neighbors} are asked for: all that are stored are used", ScalemaniWarning)
        elif n_neighbors is not None and self.symmetric and len(nearest) < len(self.rows):
            warn(
                f"{stored}the nearest {n_neighbors} (n_neighbors) are used, since rows store their own 0, as neighbour "
                "lists do; to use every edge, leave the diagonal out",
                ScalemaniWarning,
            )
        return NeighborLists(indptr, nearest, lengths, "graph", 1.0)


def given_edges(matrix: Any) -> GivenEdges:
    """Read the edges of a sparse matrix of distances.

    Stored zeros are zero-length edges (formats that pad with zeros, DIA and BSR, can't tell one from no edge: there a
    zero is no edge). An edge may be stored in one direction. Of entries given more than once the smallest counts. Up to
    1e-6 of a length, or of the median one, is rounding: directions that differ by less are made equal by the smaller,
    and negative lengths of that size are 0. The diagonal is no edge.

    Raises
    ------
    ScalemaniError
        Not sparse, not square, not real; similarities; an entry that is NaN, infinite or negative, or an edge whose
        directions differ: one such entry is named.

    Warns
    -----
    ScalemaniWarning
        When all edges have length 1 and some one direction: neighbours without their distances.
    """
    if not issparse(matrix):
        raise ScalemaniError(
            f"a finished neighbour graph must be a SciPy sparse matrix; got {type(matrix).__name__}; "
            "dense distances are for choosing neighbours from"
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise ScalemaniError(
            "a precomputed neighbour graph must be square, with a row and a column for each point; "
            f"got shape {tuple(int(s) for s in matrix.shape)}"
        )
    if matrix.dtype.kind not in "fiub":
        raise ScalemaniError(f"a precomputed neighbour graph must be real; got dtype {matrix.dtype}")
    coo = matrix.tocoo()
    rows, columns = coo.row.astype(np.int64), coo.col.astype(np.int64)
    weights = coo.data.astype(np.float64)
    if matrix.format in ("bsr", "dia"):
        rows, columns, weights = rows[weights != 0], columns[weights != 0], weights[weights != 0]
    own = rows == columns
    least = SAME * typical_distance(weights[~own])
    bad = ~((weights >= -least) & np.isfinite(weights))
    if bad.any():
        e = int(bad.argmax())
        raise ScalemaniError(
            f"the precomputed neighbour graph holds {weights[e]} at ({rows[e]}, {columns[e]}); edges need "
            "finite lengths that are not negative; leave an entry out where there is no edge"
        )
    m = int(matrix.shape[0])
    lists = 2 * len(np.unique(rows[own])) > m
    if lists and not own.all() and weights[own].min() >= weights[~own].max() > weights[~own].min():
        raise ScalemaniError(
            f"the precomputed neighbour graph looks like similarities: its diagonal ({weights[own].min():g}) is its "
            "largest; entries are distances, 0 on the diagonal, such as 1 - S"
        )
    rows, columns, there, back = two_directions(rows, columns, np.maximum(weights, 0.0), m)
    larger = np.where(np.isfinite(back), np.maximum(there, back), there)
    differs = larger - np.minimum(there, back) > np.maximum(SAME * larger, least)
    if differs.any():
        e = int(differs.argmax())
        raise ScalemaniError(
            f"the precomputed neighbour graph is not symmetric: ({rows[e]}, {columns[e]}) is "
            f"{float(there[e])!r} but ({columns[e]}, {rows[e]}) is {float(back[e])!r}; give an edge one length, "
            "in one direction or in both"
        )
    found = GivenEdges(rows, columns, there, back, m, lists)
    if len(there) and (there == 1).all() and not found.symmetric:
        warn(
            "every edge of the precomputed neighbour graph has length 1: paths count steps, not distances; for "
            "distances make the graph with mode='distance'",
            ScalemaniWarning,
        )
    return found


def make_graph(
    matrix: csr_array,
    *,
    disconnected: str = "error",
    search: ExactSearch | None = None,
    n_neighbors: int | None = None,
    radius: float | None = None,
    kind: str = "union",
    find_more: Callable[[int], NeighborLists] | None = None,
    conformal: NeighborLists | None = None,
) -> Graph:
    """Apply the policy for components, weigh the edges and put the vertices in order.

    Parameters
    ----------
    matrix : csr_array of shape (m, m)
        From :func:`symmetric_graph` or :func:`given_edges`.
    disconnected : {"error", "join", "largest"}
        With several components: refuse; add the shortest bridges along a minimum spanning tree of
        the components; or keep the largest (of equally large ones that with the smallest first row).
    search : optional
        An exact search among the m rows; None where distances between components aren't known.
    n_neighbors, radius, kind
        How `matrix` was made, for the message.
    find_more : callable, optional
        ``find_more(k)`` gives the lists of k neighbours; called for the message only.
    conformal : NeighborLists, optional
        The lists that `matrix` was made of, whose mean distances edges and bridges are divided by
        (:func:`conformal_lengths`).

    Returns
    -------
    Graph

    Raises
    ------
    DisconnectedGraphError
        Several components and ``disconnected="error"``, or "join" without a `search` or between
        rows that have nothing in common under the metric. The message gives their number and sizes
        and what would join them.
    ScalemaniError
        Unknown `disconnected` or `kind`; a vertex that is at distance 0 from all of its neighbours in `conformal`.
    """
    _check_choice("disconnected", disconnected, POLICIES)
    _check_choice("graph", kind, KINDS)
    m = int(matrix.shape[0])
    labels = _component_labels(matrix)
    counts = np.bincount(labels, minlength=1)
    sizes = np.sort(counts)[::-1].astype(np.int64)
    kept = np.arange(m, dtype=np.int64)
    bridges, lengths = np.empty((0, 2), dtype=np.int64), np.empty(0)
    if sizes.size > 1:
        if disconnected == "largest":
            # Labels follow first rows, and argmax takes the first of equals.
            kept = np.flatnonzero(labels == counts.argmax()).astype(np.int64)
        elif disconnected == "join" and search is not None:
            bridges, lengths = shortest_bridges(labels, search)
            if search.apart(lengths).any():
                made = _how_made(n_neighbors, radius, kind)
                raise DisconnectedGraphError(f"{made} has {_sizes(sizes)}; {NOTHING_JOINS}")
            matrix = with_edges(matrix, bridges, lengths)
        else:
            least = None if find_more is None else lambda k: least_neighbors(find_more(k), kind)
            made = _how_made(n_neighbors, radius, kind)
            remedy = what_to_do(labels, disconnected, search, n_neighbors, radius, least)
            raise DisconnectedGraphError(f"{made} has {_sizes(sizes)}; {remedy}")
    means = None if conformal is None else neighbor_means(matrix, conformal, kept)
    if kept.size < m:
        matrix = renumbered(matrix, kept)
    if means is not None:
        ends = np.repeat(means, np.diff(matrix.indptr)), means[matrix.indices]
        matrix = csr_array((conformal_lengths(matrix.data, *ends), matrix.indices, matrix.indptr), shape=matrix.shape)
    permutation = vertex_order(matrix)
    return Graph(
        matrix=renumbered(matrix, permutation),
        order=kept[permutation],
        bridges=bridges,
        bridge_lengths=lengths,
        n_components=int(sizes.size),
        component_sizes=sizes,
        means=None if means is None else means[permutation],
    )


def neighbor_means(matrix: csr_array, lists: NeighborLists, kept: I64) -> F64:
    """Mean distance of each of the rows `kept` (n,) to those that it lists; if it lists none, to those it is joined to.

    Raises ScalemaniError: If one is 0, by which no edge can be divided.
    """
    means = mean_lengths(lists.indptr, lists.distances)[kept]
    alone = np.isnan(means)
    if alone.any():
        means[alone] = mean_lengths(matrix.indptr, matrix.data)[kept[alone]]
    if not means.all():
        raise ScalemaniError(
            f"edge_weights='conformal' divides by mean distances, and that of distinct row {kept[means.argmin()]} to "
            "its neighbours is 0; ask for more neighbours, or use edge_weights='plain'"
        )
    return means


def mean_lengths(indptr: Any, lengths: F64) -> F64:
    """The mean of each list's lengths, added up in their order; NaN of an empty list."""
    counts = np.diff(indptr)
    sums = np.bincount(row_numbers(indptr), lengths, minlength=len(counts))
    means: F64 = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def conformal_lengths(lengths: F64, here: F64, there: F64) -> F64:
    """Lengths over the roots of the products of their ends' mean distances; a length of 0 stays 0 (C-Isomap).

    They have the same bits from either end, and in any unit that is a power of two.
    """
    (here, first), (there, second) = np.frexp(here), np.frexp(there)
    powers = first + second  # of two, beside which the products are near 1
    roots = np.sqrt(np.ldexp(here * there, powers & 1))
    divided: F64 = np.ldexp(lengths, -(powers >> 1))
    np.divide(divided, roots, out=divided, where=divided > 0)
    return divided


def _component_labels(matrix: csr_array) -> I64:
    """The component of each row, numbered by first rows. Stored zeros connect."""
    labels = connected_components(matrix, directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)


def _how_made(n_neighbors: int | None, radius: float | None, kind: str) -> str:
    """Name the graph by the parameters that made it."""
    if n_neighbors is not None:
        return f"the neighbour graph (n_neighbors={n_neighbors}, graph={kind!r})"
    if radius is not None:
        return f"the neighbour graph (radius={radius:g})"
    return "the precomputed neighbour graph"


def _sizes(sizes: I64) -> str:
    """The number of components and the sizes of the largest few."""
    listed = ", ".join(str(size) for size in sizes[:5])
    return f"{sizes.size} components of {listed}{', ...' if sizes.size > 5 else ''} points"


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise unknown(f"{name}=", value, allowed)


def symmetric_bytes(n: int, edges: int) -> int:
    """Making the symmetric graph of `edges` stored entries and its vertex order: 88 an entry, 80 a vertex."""
    return 88 * edges + 80 * n
