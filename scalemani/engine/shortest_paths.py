"""Pure kernels: a symmetric CSR graph and sources in, rows of geodesic distances out.

A source is a vertex (training rows), or a set of vertices with a starting distance each (a test
point outside the graph: its distances are the least over its neighbours of edge + path). Weights
are float32; they are summed in float64 and rounded once, since fifty equal roundings along a path
of equal edges move the additive constant by 4e-6 of itself (a ring of 101 points). The same graph
and source give the same bits, whatever else is in the batch. No I/O, no Dask; the kernel releases
the GIL and spawns no threads.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray


@njit(cache=True, nogil=True)
def _sift_up(heap, slot, distance, i):  # type: ignore[no-untyped-def]
    """Move heap[i] towards the root of the 4-ary heap until its parent is no farther."""
    v = heap[i]
    key = distance[v]
    while i > 0:
        parent = (i - 1) >> 2
        if distance[heap[parent]] <= key:
            break
        heap[i] = heap[parent]
        slot[heap[i]] = i
        i = parent
    heap[i] = v
    slot[v] = i


@njit(cache=True, nogil=True)
def _pop(heap, slot, distance, size):  # type: ignore[no-untyped-def]
    """Take the nearest vertex off a heap of `size` vertices."""
    nearest = heap[0]
    slot[nearest] = -1
    size -= 1
    if size > 0:
        v = heap[size]
        key = distance[v]
        i = 0
        while True:
            child = 4 * i + 1
            if child >= size:
                break
            best = child
            for other in range(child + 1, min(child + 4, size)):
                if distance[heap[other]] < distance[heap[best]]:
                    best = other
            if distance[heap[best]] >= key:
                break
            heap[i] = heap[best]
            slot[heap[i]] = i
            i = best
        heap[i] = v
        slot[v] = i
    return nearest


@njit(cache=True, nogil=True)
def _dijkstra(indptr, indices, weights, seed_indptr, seeds, starts, rows):  # type: ignore[no-untyped-def]
    """Fill rows (l, n): row s from seeds[seed_indptr[s]:seed_indptr[s + 1]], each with its start."""
    n = indptr.shape[0] - 1
    heap = np.empty(n, np.int32)
    slot = np.full(n, -1, np.int32)
    distance = np.empty(n, np.float64)
    for s in range(rows.shape[0]):
        distance[:] = np.inf
        size = 0
        for q in range(seed_indptr[s], seed_indptr[s + 1]):
            v = seeds[q]
            if starts[q] < distance[v]:
                distance[v] = starts[q]
                if slot[v] < 0:
                    heap[size] = v
                    slot[v] = size
                    size += 1
                _sift_up(heap, slot, distance, slot[v])
        while size > 0:
            u = _pop(heap, slot, distance, size)
            size -= 1
            reach = distance[u]
            for e in range(indptr[u], indptr[u + 1]):
                v = indices[e]
                through = reach + np.float64(weights[e])
                if through < distance[v]:
                    distance[v] = through
                    if slot[v] < 0:
                        heap[size] = v
                        slot[v] = size
                        size += 1
                    _sift_up(heap, slot, distance, slot[v])
        for v in range(n):
            rows[s, v] = distance[v]


def _arrays(graph: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """The three CSR arrays in the one set of dtypes that the kernel is compiled for."""
    return (
        np.ascontiguousarray(graph.indptr, np.int64),
        np.ascontiguousarray(graph.indices, np.int32),
        np.ascontiguousarray(graph.data, np.float32),
    )


def _vertices(graph: Any, vertices: ArrayLike) -> NDArray[np.int64]:
    """Vertex numbers as int64, refused when they are none or outside the graph."""
    given = np.asarray(vertices)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(f"vertices of dtype {given.dtype}: integers are needed")
    wanted = given.astype(np.int64).ravel()
    n = graph.shape[0]
    if wanted.size and not (0 <= wanted.min() and wanted.max() < n):
        raise IndexError(f"vertices {wanted.min()} to {wanted.max()} given: the graph has vertices 0 to {n - 1}")
    return wanted


def geodesic_rows(graph: Any, sources: ArrayLike) -> NDArray[np.float32]:
    """Geodesic distances from any vertices to every vertex.

    Parameters
    ----------
    graph : scipy.sparse CSR matrix or array, shape (n, n)
        Symmetric; stored entries are edges (stored zeros too), weights >= 0.
    sources : array-like of int, shape (l,)
        Any vertices, in any order, repeats included.

    Returns
    -------
    ndarray of float32, shape (l, n)
        In the unit of the weights; inf where there is no path.

    Raises
    ------
    IndexError
        If a source is not a vertex.
    TypeError
        If sources are not integers.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> path = sp.csr_array(([1.0, 1.0, 2.0, 2.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    >>> geodesic_rows(path, [0, 2])
    array([[0., 1., 3.],
           [3., 2., 0.]], dtype=float32)
    """
    wanted = _vertices(graph, sources)
    return rows_from_seeds(graph, np.arange(len(wanted) + 1), wanted, np.zeros(len(wanted)))


def rows_from_seeds(graph: Any, indptr: ArrayLike, seeds: ArrayLike, starts: ArrayLike) -> NDArray[np.float32]:
    """Geodesic distances from points outside the graph, each attached to some of its vertices.

    Parameters
    ----------
    graph : scipy.sparse CSR matrix or array, shape (n, n)
        As for :func:`geodesic_rows`.
    indptr : array-like of int, shape (l + 1,)
        Point s is attached to ``seeds[indptr[s]:indptr[s + 1]]``; to none is allowed (a row of inf).
    seeds : array-like of int
        Vertices.
    starts : array-like of float
        Length of the edge to each seed, >= 0.

    Returns
    -------
    ndarray of float32, shape (l, n)
    """
    pointers = np.ascontiguousarray(indptr, np.int64)
    vertices = _vertices(graph, seeds)
    with np.errstate(over="ignore"):  # too far for float32 is inf: no finite path
        lengths = np.ascontiguousarray(starts, np.float32)
    rows = np.empty((len(pointers) - 1, graph.shape[0]), np.float32)
    _dijkstra(*_arrays(graph), pointers, vertices, lengths, rows)
    return rows
