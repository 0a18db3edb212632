"""Exact search by a k-d tree, which lists candidates until no tie is left out; distances are then direct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from scalemani.search.distance_forms import EPS, F64, NormForm
from scalemani.search.evaluations import SAMPLED, leaf_rows
from scalemani.search.prepared_rows import BLOCK_BYTES, I64, PreparedRows

_LARGEST_POWER = 1020  # of two: sums of p-th powers that stay in float64's range


def _powers_fit(rows: F64, p: float) -> bool:
    """Whether p-norms between rows (b, d') of this size can be summed from powers: a tree lists none where not."""
    largest = float(np.abs(rows).max(initial=0.0))
    if largest == 0 or np.isinf(p):
        return True
    return bool(p * (np.log2(largest) + 1) + np.log2(rows.shape[1]) < _LARGEST_POWER)


class TreeSearch:
    """Search among prepared rows by a k-d tree.

    prepared: Rows of few features under a norm; they are held, dense, as float64.
    threads: Threads of a query.
    """

    method = "kdtree"
    batch = 8192

    def __init__(self, prepared: PreparedRows, threads: int) -> None:
        assert isinstance(prepared.form, NormForm)
        self._prepared, self._threads = prepared, threads
        self._p, self._scale = prepared.form.p, prepared.form.scale
        self._tree = cKDTree(prepared.hold())
        # Relative error of the tree's norms: sums of width terms, and running sums along a path of the tree.
        self._slack = (4 * prepared.width + 256) * EPS
        self.evaluations = 0.0  # distances that the tree computed, estimated
        self.asked = 0  # queries

    @property
    def prepared(self) -> PreparedRows:
        """The rows."""
        return self._prepared

    @staticmethod
    def possible(prepared: PreparedRows) -> bool:
        """Whether a tree can list these rows."""
        assert isinstance(prepared.form, NormForm)
        return _powers_fit(prepared.hold(), prepared.form.p)

    def takes(self, queries: F64) -> bool:
        """Whether the tree can list rows for these prepared queries."""
        return _powers_fit(queries, self._p)

    def nearest(self, queries: Any, k: int, own: I64) -> tuple[I64, F64]:
        """The k nearest rows of each prepared query but its own, by (distance, tie_rank)."""
        indices, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        pending = np.arange(len(queries))
        self.asked += len(queries)
        width = min(k + 2, self._prepared.count)
        while len(pending):
            step = max(1, BLOCK_BYTES // (8 * self._prepared.width * width))
            late = []
            for start in range(0, len(pending), step):
                some = pending[start : start + step]
                indices[some], distances[some], done = self._listed(queries[some], k, own[some], width)
                late.append(some[~done])
            pending = np.concatenate(late)
            width = min(2 * width, self._prepared.count)
        return indices, distances

    def within(self, queries: Any, radius: float, own: I64) -> tuple[I64, I64, F64]:
        """Lengths, rows and distances of each prepared query's list of rows at ``radius`` or less."""
        reach = float(self._scale.norm(radius)) * (1 + self._slack)
        sizes = self._tree.query_ball_point(
            queries, reach, p=self._p, workers=self._threads, return_length=True
        )
        parts = []
        for some in _groups(sizes, BLOCK_BYTES // (8 * self._prepared.width)):
            listed = self._tree.query_ball_point(queries[some], reach, p=self._p, workers=self._threads)
            at = np.repeat(np.arange(some.start, some.stop), sizes[some])
            rows = np.concatenate([np.empty(0, np.int64), *[np.asarray(one, np.int64) for one in listed]])
            keep = rows != own[at]
            at, rows = at[keep], rows[keep]
            parts.append((at, rows, self._prepared.distances(queries, at, rows)))
        at, rows, found = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._prepared.lists(len(queries), at, rows, found, radius)

    def _listed(self, queries: F64, k: int, own: I64, width: int) -> tuple[I64, F64, NDArray[np.bool_]]:
        """The k nearest of the ``width`` rows that the tree lists, and whether no other can be among them.

        Rows beyond the list are at least as far, but for rounding, as its last: unless that is beyond the
        k-th distance, one of them may tie with the k-th row and come before it by content.
        """
        norms, rows = self._tree.query(queries, k=width, p=self._p, workers=self._threads)
        norms, rows = norms.reshape(-1, width), rows.astype(np.int64).reshape(-1, width)
        some = slice(None, None, max(1, len(queries) // SAMPLED))
        sampled = leaf_rows(self._tree, queries[some], norms[some, -1], self._p)
        self.evaluations += sampled * len(queries) / len(queries[some])
        at = np.repeat(np.arange(len(queries)), width)
        found = self._prepared.distances(queries, at, rows.ravel()).reshape(-1, width)
        found[rows == own[:, None]] = np.inf
        # The tree's order is that of the distances but for rounding, ties and the row itself: the others are few.
        order = np.argsort(found, axis=1, kind="stable")
        rows, found = np.take_along_axis(rows, order, axis=1), np.take_along_axis(found, order, axis=1)
        tied = np.flatnonzero((found[:, 1:] == found[:, :-1]).any(axis=1))
        if len(tied):
            order = np.lexsort((self._prepared.tie_rank[rows[tied]], found[tied]), axis=1)
            rows[tied] = np.take_along_axis(rows[tied], order, axis=1)
        rows, found = rows[:, :k], found[:, :k]
        done = self._scale.of_norm(norms[:, -1] * (1 - self._slack)) > found[:, -1]
        return rows, found, done | (width == self._prepared.count)


def _groups(sizes: Any, limit: int) -> Iterator[slice]:
    """Consecutive slices whose sizes sum to about ``limit``, at least one row each."""
    start, total = 0, 0
    for at, size in enumerate(sizes):
        if at > start and total + size > limit:
            yield slice(start, at)
            start, total = at, 0
        total += int(size)
    yield slice(start, len(sizes))
