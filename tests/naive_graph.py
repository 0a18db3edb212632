"""Slow, obvious references of stage 3: lists by sorting all distances, graphs as dictionaries of edges."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist


@dataclass(frozen=True)
class Lists:
    """Neighbour lists as stage 2 gives them."""

    indptr: np.ndarray
    indices: np.ndarray
    distances: np.ndarray


def lists_of(rows):
    """Lists from [(neighbour, distance), ...] for each row."""
    flat = [pair for row in rows for pair in row]
    return Lists(
        np.cumsum([0] + [len(row) for row in rows]),
        np.array([j for j, _ in flat], dtype=np.int64),
        np.array([d for _, d in flat], dtype=np.float64),
    )


def nearest_lists(points, k):
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    found = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return lists_of([[(int(j), distances[i, j]) for j in found[i]] for i in range(len(points))])


def radius_lists(points, radius):
    distances = cdist(points, points)
    n = len(points)
    return lists_of(
        [[(j, distances[i, j]) for j in range(n) if j != i and distances[i, j] <= radius] for i in range(n)]
    )


class NaiveSearch:
    """All pairs; counts what it is asked."""

    def __init__(self, points):
        self.distances = self.rows = cdist(points, points)
        self.tie_rank = np.arange(len(points))
        self.calls = self.queries = 0

    def apart(self, distances):
        return np.zeros(distances.shape, bool)

    def nearest(self, queries, k, exclude=None):
        self.queries += len(queries)
        queries = queries.copy()
        queries[np.arange(len(queries)), exclude] = np.inf
        found = np.argsort(queries, axis=1, kind="stable")[:, :k]
        assert found.shape[1] == k < len(self.rows)
        return found, np.take_along_axis(queries, found, axis=1)

    def nearest_between(self, a, b):
        self.calls += 1
        assert not set(a.tolist()) & set(b.tolist())
        block = self.distances[np.ix_(a, b)]
        i, j = np.unravel_index(block.argmin(), block.shape)
        return int(a[i]), int(b[j]), float(block[i, j])


def edges(matrix):
    """The stored entries, zeros included."""
    coo = matrix.tocoo()
    return {(int(i), int(j)): float(w) for i, j, w in zip(coo.coords[0], coo.coords[1], coo.data, strict=True)}


def in_rows(graph):
    """The edges of a made graph between distinct rows."""
    return {(int(graph.order[v]), int(graph.order[w])): d for (v, w), d in edges(graph.matrix).items()}


def naive_graph(rows, kind):
    directed = {}
    for i, row in enumerate(rows):
        for j, d in row:
            if i != j:
                directed[i, j] = min(d, directed.get((i, j), np.inf))
    out = {}
    for (i, j), d in directed.items():
        other = directed.get((j, i))
        if kind == "mutual" and other is None:
            continue
        out[i, j] = out[j, i] = d if other is None else min(d, other)
    return out


def naive_component_count(n, pairs):
    label = list(range(n))
    for i, j in pairs:
        label = [label[i] if x == label[j] else x for x in label]
    return len(set(label))


def assert_well_formed(matrix):
    assert isinstance(matrix, sp.csr_array)
    assert matrix.dtype == np.float64
    for i in range(matrix.shape[0]):
        row = matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]]
        assert (np.diff(row) > 0).all()
        assert i not in row
    found = edges(matrix)
    assert all(found[j, i] == w for (i, j), w in found.items())


def blobs(sizes, gap=100.0, seed=0, d=3):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(s, d)) + gap * i * np.eye(d)[0] for i, s in enumerate(sizes)])
