"""How many distances a search computed, where the library that did it doesn't say: estimates, and what they rest on.

k-d tree    SciPy's search is best first: it opens the leaves whose boxes are nearer than the last row it lists, and
            measures to all of their rows. Those leaves are looked up for some queries of each batch.
NN-descent  Evaluations a row in units of its list's length, the row itself included, counted with a metric that counts
            its calls (pynndescent 0.7, lists of 10 and 20): 20 to 29 for the index of a roll or of images of a
            bump, 5,000 to 100,000 of them, 34 to 65 of normal rows of 10 or 30 features; 3 and 19 to 87 a query.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scalemani.search.distance_forms import F64

SAMPLED = 16  # queries of a batch
BUILD_EVALUATIONS = 36.0  # within a factor of two of each count
QUERY_EVALUATIONS = 16.0  # of five


def leaf_rows(tree: Any, queries: F64, norms: F64, p: float) -> int:
    """Rows in the leaves that a best-first search for some queries opens.

    queries (q, d)
    norms (q,): From each query to the last row that was listed for it.
    p: Of the norm.

    >>> from scipy.spatial import cKDTree
    >>> tree = cKDTree(np.arange(8.0)[:, None], leafsize=2)
    >>> leaf_rows(tree, np.array([[0.4]]), np.array([0.6]), 2.0)
    2
    """
    found = 0
    for query, norm in zip(queries, norms, strict=True):
        sides = np.maximum(np.maximum(tree.mins - query, query - tree.maxes), 0.0)
        waiting = [(tree.tree, sides)]
        while waiting:
            node, sides = waiting.pop()
            if np.linalg.norm(sides, p) > norm:
                continue
            if node.split_dim == -1:
                found += node.end_idx - node.start_idx
                continue
            at, gap = node.split_dim, query[node.split_dim] - node.split
            beyond = sides.copy()
            beyond[at] = max(beyond[at], abs(gap))
            near, far = (node.lesser, node.greater) if gap < 0 else (node.greater, node.lesser)
            waiting += [(far, beyond), (near, sides)]
    return int(found)


def build_evaluations(count: int, n_neighbors: int) -> int:
    """Estimate for the making of an index of `count` rows by NN-descent."""
    return int(BUILD_EVALUATIONS * count * (n_neighbors + 1))


def query_evaluations(count: int, n_neighbors: int) -> int:
    """Estimate for so many queries of such an index."""
    return int(QUERY_EVALUATIONS * count * (n_neighbors + 1))
