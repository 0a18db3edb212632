"""How well each point of a map is kept, and which features go with its axes: one number a point, or a feature and axis.

The measures of the whole map are in :mod:`scalemani.embedding.quality`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from scalemani.aliases import F64, I64
from scalemani.cluster.client import cores
from scalemani.embedding.isometric import panels
from scalemani.graph.edges import row_numbers, shortest
from scalemani.kernel import blas

SAME = 1e-6  # relative: distances in the map that differ by less are equal, as on a grid
BLOCK = 50_000  # points whose neighbours are sought at once
ROUNDING = 1e-12  # of a sparse feature's mean square: its variance is lost below


def neighbors_kept(graph: Any, coordinates: F64, k: int, rows: I64 | None = None) -> F64:
    """The share of a vertex's k nearest in the graph that are among as many nearest in the map.

    Of a vertex with fewer than k edges all count. Of points that are equally far in the map any may be the nearest.

    graph (n, n): CSR, a length an edge.
    coordinates (n, p)
    rows: The vertices that are asked for; all of them unless given.
    -> (n,), NaN of the others, of vertices without edges, and where so many points lie on one place of the map that
        nearest ones can't be told.
    """
    n = len(coordinates)
    rows, share = np.arange(n) if rows is None else rows, np.full(n, np.nan)
    tree = cKDTree(coordinates, balanced_tree=False)  # a balanced one is slow where many points are equal
    for at in range(0, len(rows), BLOCK):
        here = rows[at : at + BLOCK]
        edges = graph[here]
        starts, ends, _ = shortest(row_numbers(edges.indptr), edges.indices, edges.data, len(here), k, None)
        counts = np.diff(starts)
        if not len(ends):
            continue
        nearest = tree.query(coordinates[here], k=np.arange(1, min(int(counts.max()) + 1, n) + 1), workers=cores())[0]
        last = nearest[np.arange(len(here)), counts]  # the first is the vertex, or one in its place
        beginnings = row_numbers(starts)
        far = np.linalg.norm(coordinates[here][beginnings] - coordinates[ends], axis=1)
        kept = np.bincount(beginnings, far <= last[beginnings] * (1 + SAME), minlength=len(here))
        known = (counts > 0) & (last > 0)
        share[here[known]] = kept[known] / counts[known]
    return share


def stress_by_point(geodesic: NDArray[Any], coordinates: F64, rows: I64) -> F64:
    """Normalised stress of each point's distances to some: sqrt(Σ (d_geodesic - d_embedded)² / Σ d_geodesic²).

    geodesic (m, n): Distances from these; pairs that have none count in nothing.
    coordinates (n, p)
    rows (m,): Which these are.
    -> (n,), NaN where no distance is above 0.
    """
    found, down = np.full(len(coordinates), np.nan), -int(np.frexp(np.abs(coordinates).max(initial=0.0))[1])
    points = np.ldexp(coordinates, down)  # in a unit whose squares are in range
    for here in panels(len(coordinates), 3 * len(rows)):
        along = np.ldexp(geodesic[:, here].astype(np.float64), down)
        finite = np.isfinite(along)
        along[~finite] = 0
        apart = np.where(finite, along - cdist(points[rows], points[here]), 0)
        whole = (along**2).sum(axis=0)
        known = whole > 0
        found[here][known] = np.sqrt((apart**2).sum(axis=0)[known] / whole[known])
    return found


def spread_out(square: NDArray[Any], most: int) -> list[int]:
    """Some of m points by their distances (m, m) from one another, each the farthest from those before it."""
    chosen = [int(square[0].argmax())] if len(square) else []
    nearest = np.full(len(square), np.inf)
    while chosen and len(chosen) < most:
        np.minimum(nearest, square[chosen[-1]], out=nearest)
        if not nearest.max() > 0:
            break
        chosen.append(int(nearest.argmax()))
    return chosen


def correlations(rows: Any, order: I64, coordinates: F64, counts: I64) -> F64:
    """Pearson's correlation of each feature with each axis, over points.

    rows (m, q): Dense, a map of a file, or CSR, which is never made dense.
    order (n,): Which of them the coordinates (n, p) are of.
    counts (n,): Points that each stands for.
    -> (p, q), NaN of a feature or an axis that is constant.
    """
    q, weights = rows.shape[1], counts / counts.sum()
    axes = coordinates - blas.product(weights, coordinates)
    size = np.abs(axes).max(axis=0)
    axes /= np.where(size > 0, size, 1)
    sparse = issparse(rows)
    mean, least, most = np.zeros(q), np.full(q, np.inf), np.full(q, -np.inf)
    for here in panels(len(order), q):
        part = rows[order[here]]
        mean += np.asarray(blas.product(part.T, weights[here])).ravel()
        ends = part.min(axis=0), part.max(axis=0)
        low, high = (end.toarray().ravel() for end in ends) if sparse else ends
        least, most = np.minimum(least, low), np.maximum(most, high)
    unit = np.where(most > least, most - least, np.maximum(np.abs(most), 1))  # squares could be out of range
    shift = np.zeros(q) if sparse else mean
    inside, squares = np.zeros((q, axes.shape[1])), np.zeros(q)
    for here in panels(len(order), q):
        part = rows[order[here]]
        part = part.multiply(1 / unit).tocsr() if sparse else (part - shift) / unit
        inside += blas.product(part.T, axes[here] * weights[here, None])
        squares += np.asarray(blas.product((part.multiply(part) if sparse else part * part).T, weights[here])).ravel()
    variance = squares - (mean / unit) ** 2 if sparse else squares
    variance[(most <= least) | (variance < ROUNDING * squares)] = np.nan
    spread = blas.product(weights, axes**2)
    return (inside / np.sqrt(variance)[:, None] / np.sqrt(np.where(size > 0, spread, np.nan))).T
