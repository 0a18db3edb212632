"""Rows of geodesic distances from a symmetric CSR graph and sources: pure functions, without I/O or Dask.

A source is a vertex (training rows), or a set of vertices with a starting distance each (a test point outside the
graph: its distances are the least over its neighbours of edge + path). How sources are solved is in
:mod:`scalemani.geodesics.batches`; it decides nothing but the work: the same graph and source give the same bits,
whatever else is in the call. The kernels release the GIL and spawn no threads.

Precision. Weights are float32. Sums along paths are float32, too: h roundings of a path of h edges make about
3e-8 √h. They are float64, rounded once, where that would not do: on small graphs, on graphs with a weight that many
edges share (equal roundings add up: 4e-6 of the additive constant of a ring of 101 points), and where paths have more
than `MOST_HOPS` edges.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from scalemani.aliases import F32, F64, I64
from scalemani.geodesics.batches import PathGraph, Sources, Work, find_products, find_rows, first_seeds, workspace_bytes

__all__ = [
    "PathGraph",
    "Work",
    "first_seeds",
    "geodesic_rows",
    "near_rows_from_seeds",
    "products_from_seeds",
    "rows_from_seeds",
    "workspace_bytes",
]


def geodesic_rows(
    graph: Any,
    sources: ArrayLike,
    *,
    first: int = 0,
    out: F32 | None = None,
    precision: str | None = None,
    work: Work | None = None,
) -> F32:
    """Geodesic distances from any vertices to every vertex.

    graph (n, n): Symmetric; stored entries are edges (stored zeros too), weights >= 0.
    sources (l,): Any vertices, in any order, repeats included; fastest where they are neighbours, or 32 (float64: 16)
        or more.
    first: The first vertex whose distances are wanted.
    out (l, n - first): Filled and returned. (Memory that is touched for the first time can cost more than the search.)
    precision ({"float32", "float64"}): Of the sums along paths (:class:`PathGraph`); for a graph that is not one yet.
    work: The work done is added to it.
    -> (l, n - first): In the unit of the weights; inf where there is no path.
    Raises IndexError: If a source is not a vertex.
    Raises TypeError: If sources are not integers.
    Raises ValueError: If `out` or `first` is not such, or a weight is negative or NaN.

    >>> import scipy.sparse as sp
    >>> path = sp.csr_array(([1.0, 1.0, 2.0, 2.0], ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    >>> geodesic_rows(path, [0, 2])
    array([[0., 1., 3.],
           [3., 2., 0.]], dtype=float32)
    """
    wanted = _vertices(graph, sources)
    if not 0 <= first <= graph.shape[0]:
        raise ValueError(f"first={first}: 0 to {graph.shape[0]} is allowed")
    sources = Sources(np.arange(len(wanted) + 1), wanted, np.zeros(len(wanted), np.float32))
    return find_rows(_prepared(graph, precision), sources, first, work or Work(), out)


def rows_from_seeds(
    graph: Any,
    indptr: ArrayLike,
    seeds: ArrayLike,
    starts: ArrayLike,
    *,
    precision: str | None = None,
    work: Work | None = None,
) -> F32:
    """Geodesic distances from points outside the graph, each attached to some of its vertices.

    graph, precision, work: As for :func:`geodesic_rows`.
    indptr (l + 1,): Point s is attached to ``seeds[indptr[s]:indptr[s + 1]]``; to none is allowed (a row of inf).
    starts: Length of the edge to each seed, >= 0.
    -> (l, n)
    Raises IndexError, TypeError, ValueError: If a seed is no vertex or no integer, or a start is negative or NaN.
    """
    sources = _outside(graph, indptr, seeds, starts)
    return find_rows(_prepared(graph, precision), sources, 0, work or Work())


def products_from_seeds(
    graph: Any,
    indptr: ArrayLike,
    seeds: ArrayLike,
    starts: ArrayLike,
    axes: F64,
    *,
    precision: str | None = None,
    work: Work | None = None,
) -> tuple[F64, F64, F64]:
    """What a projection needs of the rows that :func:`rows_from_seeds` gives, without the rows.

    graph, indptr, seeds, starts, precision, work: As for :func:`rows_from_seeds`.
    axes (n, p): V.
    -> nearest (l,): The least entry of each row d, in float64; inf where nothing is reached.
    -> first, second (l, p): V'e and V'e² for e = d - nearest; not finite where a vertex is not reached.
    Raises IndexError, TypeError, ValueError: As for :func:`rows_from_seeds`.
    """
    paths = _prepared(graph, precision)
    if axes.ndim != 2 or axes.shape[0] != paths.shape[0]:
        raise ValueError(f"axes of shape {axes.shape}: ({paths.shape[0]}, p) is needed")
    sources, least = _nearer(paths, indptr, seeds, starts)
    nearest, first, second = find_products(paths, sources, np.ascontiguousarray(axes), work or Work())
    return nearest + least, first, second


def near_rows_from_seeds(
    graph: Any, indptr: ArrayLike, seeds: ArrayLike, starts: ArrayLike, *, precision: str | None = None
) -> tuple[F32, F64]:
    """The rows of :func:`rows_from_seeds` less what each has at the least, and that; however far a source is.

    graph, indptr, seeds, starts, precision: As for :func:`rows_from_seeds`.
    -> (l, n), (l,): A row is their sum.
    Raises IndexError, TypeError, ValueError: As for :func:`rows_from_seeds`.
    """
    paths = _prepared(graph, precision)
    sources, least = _nearer(paths, indptr, seeds, starts)
    return find_rows(paths, sources, 0, Work()), least


def _nearer(graph: Any, indptr: ArrayLike, seeds: ArrayLike, starts: ArrayLike) -> tuple[Sources, F64]:
    """Sources brought nearer by their first edge, and the length of that.

    A far source's first edge would drown in float32 what tells the vertices apart: it is added behind the search.
    """
    lengths = np.asarray(starts, np.float64)
    sources = _outside(graph, indptr, seeds, lengths)
    least = np.zeros(len(sources.indptr) - 1)
    attached = np.diff(sources.indptr) > 0
    if attached.any():
        least[attached] = np.minimum.reduceat(lengths, sources.indptr[:-1][attached])
    with np.errstate(invalid="ignore"):  # inf - inf: no finite path, as it was
        beyond = lengths - np.repeat(least, np.diff(sources.indptr))
    return sources._replace(starts=np.where(np.isnan(beyond), np.inf, beyond).astype(np.float32)), least


def _outside(graph: Any, indptr: ArrayLike, seeds: ArrayLike, starts: ArrayLike) -> Sources:
    """Sources that are no vertices, in the kernels' dtypes."""
    vertices = _vertices(graph, seeds)
    with np.errstate(over="ignore"):  # too far for float32 is inf: no finite path
        lengths = np.asarray(starts, np.float64).astype(np.float32) + np.float32(0)  # -0.0 has the bits of a negative
    pointers = np.ascontiguousarray(indptr, np.int64).ravel()
    ends = len(pointers) and pointers[0] == 0 and pointers[-1] == len(vertices) == len(lengths)
    if not ends or (np.diff(pointers) < 0).any():
        raise ValueError(
            f"indptr of {len(pointers)} pointers to {len(vertices)} seeds and {len(lengths)} starts: "
            "from 0 up to all of them is needed"
        )
    if not (lengths >= 0).all():
        raise ValueError("starts that are negative or NaN: lengths of 0 or more are needed")
    return Sources(pointers, vertices, lengths)


def _prepared(graph: Any, precision: str | None) -> PathGraph:
    return graph if isinstance(graph, PathGraph) else PathGraph(graph, precision)


def _vertices(graph: Any, vertices: ArrayLike) -> I64:
    """Vertex numbers as int64, refused when they are none or outside the graph."""
    given = np.asarray(vertices)
    if given.size and not np.issubdtype(given.dtype, np.integer):
        raise TypeError(f"vertices of dtype {given.dtype}: integers are needed")
    wanted = given.astype(np.int64).ravel()
    n = graph.shape[0]
    if wanted.size and not (0 <= wanted.min() and wanted.max() < n):
        raise IndexError(f"vertices {wanted.min()} to {wanted.max()} given: the graph has vertices 0 to {n - 1}")
    return wanted
