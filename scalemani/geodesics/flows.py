"""Kernels: how many shortest paths run through each edge of a graph, from the rows of distances of some sources.

A path from a source s to a vertex v is followed back from v: the vertex before it is the neighbour u with the
least d(s, u) + w(u, v). The paths through an edge are as many as the vertices behind it in the tree of the source:
a source costs one look at each edge, and no search has to keep which way it came.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F32, I64
from scalemani.cluster.kernel_cache import compiled


class Flows(NamedTuple):
    """Shortest paths through the stored entries of a graph: in row v and column u those that go from u to v.

    counts (entries,): Pairs of a source and a vertex whose path runs so.
    most (entries,): The largest count of one source.
    source (entries,): Its place among the sources; -1 where no path runs.
    """

    counts: I64
    most: NDArray[np.int32]
    source: NDArray[np.int32]


def path_flows(graph: Any, rows: F32) -> Flows:
    """Of the paths from some sources to every vertex.

    graph (n, n): Symmetric CSR; stored zeros are edges.
    rows (m, n): Distances from m sources, in the unit of the weights; inf is no path.

    On a path of three vertices the first edge carries both others, the second one of them:

    >>> import scipy.sparse as sp
    >>> path = sp.csr_array(([1.0, 1.0, 2.0, 2.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    >>> path_flows(path, np.array([[0, 1, 3]], np.float32)).counts.tolist()
    [0, 2, 0, 1]
    """
    csr = _arrays(graph)
    entries, n = len(csr[1]), graph.shape[0]
    counts, most, source = np.zeros(entries, np.int64), np.zeros(entries, np.int32), np.full(entries, -1, np.int32)
    scratch = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32)
    _count(*csr, np.ascontiguousarray(rows, np.float32), *scratch, counts, most, source)
    return Flows(counts, most, source)


def path_tree(graph: Any, row: F32) -> tuple[I64, NDArray[np.int32]]:
    """The tree of one source.

    -> before (n,): The entry by which each vertex is reached, in its own row; -1 for the source.
    -> behind (n,): Vertices whose path runs through it, itself counted.
    """
    n = graph.shape[0]
    before, behind, waiting = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32)
    _tree(*_arrays(graph), np.ascontiguousarray(row, np.float32), before, behind, waiting)
    return before, behind


def flows_bytes(n: int, edges: int) -> int:
    """What :func:`path_flows` holds besides the graph and the rows: three numbers an entry, three a vertex."""
    return 16 * edges + 16 * n


def _arrays(graph: Any) -> tuple[Any, Any, Any]:
    """A CSR array as the kernels take it."""
    return np.asarray(graph.indptr, np.int64), np.asarray(graph.indices, np.int32), np.asarray(graph.data, np.float32)


@compiled()
def _count(
    indptr: Any, indices: Any, weights: Any, rows: Any, before: Any, behind: Any, waiting: Any, counts: Any, most: Any,
    source: Any,
) -> None:  # fmt: skip
    """Add the trees of all rows up; `before`, `behind` and `waiting` (n,) are scratch."""
    for s in range(rows.shape[0]):
        _tree(indptr, indices, weights, rows[s], before, behind, waiting)
        for v in range(before.shape[0]):
            entry = before[v]
            if entry >= 0:
                counts[entry] += behind[v]
                if behind[v] > most[entry]:
                    most[entry] = behind[v]
                    source[entry] = s


@compiled()
def _tree(indptr: Any, indices: Any, weights: Any, row: Any, before: Any, behind: Any, waiting: Any) -> None:
    """Fill `before` and `behind`; `waiting` (n,) is scratch."""
    waiting[:] = 0
    for v in range(row.shape[0]):
        entry = -1
        if 0 < row[v] < np.inf:
            best = np.float32(np.inf)
            for e in range(indptr[v], indptr[v + 1]):
                along = row[indices[e]] + weights[e]
                if along < best:
                    best, entry = along, e
            u = indices[entry]
            if row[u] > row[v] or (row[u] == row[v] and u > v):
                entry = _earlier(indptr, indices, weights, row, v)
        before[v] = entry
        behind[v] = 1
        if entry >= 0:
            waiting[indices[entry]] += 1
    # A vertex that waits for no other is counted for the one before it, which then may wait for no other either.
    for leaf in range(row.shape[0]):
        v = leaf
        while waiting[v] == 0:
            waiting[v] = -1
            entry = before[v]
            if entry < 0:
                break
            u = indices[entry]
            behind[u] += behind[v]
            waiting[u] -= 1
            v = u


@compiled()
def _earlier(indptr: Any, indices: Any, weights: Any, row: Any, v: int) -> int:
    """The best entry of v by a vertex that comes before it: nearer, or as near with a lower number; -1 for none.

    Ties are broken by number, so that edges of length 0 make no circle.
    """
    best, entry = np.inf, -1
    for e in range(indptr[v], indptr[v + 1]):
        u = indices[e]
        if row[u] < row[v] or (row[u] == row[v] and u < v):
            along = row[u] + weights[e]
            if along < best:
                best, entry = along, e
    return entry
