"""Exact nearest rows of queries among parts: takes queries in batches, gives what a search among all rows gives.

A query asks the part of the nearest centre, which gives it a k-th distance, then the parts whose lower bound
(:mod:`.bounds`) does not exceed that: some of the nearest first, then all that are left. Those of a batch that ask the
same part ask it together. A part is skipped only where all of its rows are farther than the k-th, so that ties are
kept, and lists are by (distance, rank) to the bit, whatever batch a query is in and whatever the parts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from scalemani.engine.blas_threads import single_blas_thread
from scalemani.search.brute import BruteSearch
from scalemani.search.distance_forms import F64
from scalemani.search.exact import ExactSearch, check_finite
from scalemani.search.in_order import in_order
from scalemani.search.prepared_rows import BLOCK_BYTES, I64, PreparedRows
from scalemani.search.shards import Parts

_FIRST = 4  # of the nearest parts after a query's own: what they give rules out others
_LEAST = 32  # queries of a thread at once
_BOUNDED = 512  # queries at once, whose lengths to all centres are a table


class PartQueries:
    """Queries of rows that are cut into parts. Threads of a process may ask at the same time.

    search: The rows and the metric.
    parts: With the cells that bound distances to them.
    pairs: Distances, and bounds on them, that were computed up to now: a count of the work.
    """

    def __init__(self, search: ExactSearch, parts: Parts) -> None:
        assert parts.cells is not None
        self.search, self.parts, self.cells = search, parts, parts.cells
        self.pairs = 0

    def nearest(self, queries: Any, k: int) -> tuple[I64, F64]:
        """The k nearest rows (q, k) of each query and their distances, as :meth:`ExactSearch.nearest` gives them.

        queries (q, d)
        k: At most as many as there are rows.
        """
        count = queries.shape[0]
        table, lengths = np.full((count, k), -1), np.full((count, k), np.inf)

        def some(rows: slice) -> None:
            _Nearest(self, queries[rows], table[rows], lengths[rows]).run()

        with single_blas_thread():
            for _ in in_order(some, list(self._cuts(count)), self.search.threads):
                pass
        check_finite(self.search.form, lengths)
        return table, lengths

    def within(self, queries: Any, radius: float) -> tuple[I64, I64, F64]:
        """All rows within a radius, as :meth:`ExactSearch.within` gives them: indptr (q + 1,), rows and distances."""
        count = queries.shape[0]
        found: list[tuple[I64, I64, F64]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        with single_blas_thread():
            for rows in self._cuts(count):
                prepared = self.search.prepared.queries(queries[rows])
                low = self.bounds(prepared)[1]
                limit = self.cells.yardstick.length(np.asarray(radius))
                for part, asking in _by_part(~(low > limit)):
                    brute, there = self.brute(part)
                    for start in range(0, len(asking), brute.batch):
                        mine = asking[start : start + brute.batch]
                        sizes, listed, far = brute.within(prepared[mine], radius, np.full(len(mine), -1))
                        found.append((np.repeat(mine, sizes) + rows.start, there[listed], far))
                    self.pairs += len(asking) * len(there)
        at, listed, far = (np.concatenate(column) for column in zip(*found, strict=True))
        sizes, listed, far = self.search.prepared.lists(count, at, listed, far, radius)
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), listed, far

    def brute(self, part: int) -> tuple[BruteSearch, I64]:
        """The search among the rows of a part, and which these are."""
        there = self.parts.rows(part)
        prepared = self.search.prepared
        return BruteSearch(PreparedRows.part(prepared.take(there), prepared.form, prepared.tie_rank[there])), there

    def bounds(self, prepared: Any) -> tuple[I64, F64]:
        """Each query's part (q,), that of the nearest centre, and lower bounds (q, C) on lengths to all parts.

        The bounds hold for any query and any `home`: a row of another part lies on that side of the plane between the
        two centres, wherever the query does. The nearest centre's are the sharpest.
        """
        homes = np.concatenate(
            [
                np.empty(0, np.int64),
                *(self.cells.nearest(prepared[at : at + _BOUNDED])[0] for at in range(0, prepared.shape[0], _BOUNDED)),
            ]
        ).astype(np.int64, copy=False)
        low, every = np.empty((len(homes), self.parts.count)), np.arange(self.parts.count)
        for home, mine in _groups(homes):
            low[mine] = self.cells.bounds(prepared[mine], home, every)
        self.pairs += 2 * low.size
        return homes, low

    def _cuts(self, count: int) -> Iterator[slice]:
        """Runs of queries whose prepared rows, and whose bounds on all parts, are not too many bytes."""
        fit = BLOCK_BYTES // (8 * max(self.search.prepared.width, self.parts.count))
        share = max(_LEAST, -(-count // self.search.threads))
        step = max(1, min(fit, share))
        for start in range(0, count, step):
            yield slice(start, min(start + step, count))


class _Nearest:
    """Lists of one run of queries, filled where they are."""

    def __init__(self, among: PartQueries, queries: Any, table: I64, lengths: F64) -> None:
        self._among, self._table, self._lengths = among, table, lengths
        self._rank = among.search.tie_rank
        self._queries = among.search.prepared.queries(queries)

    def run(self) -> None:
        homes, low = self._among.bounds(self._queries)
        for home, mine in _groups(homes):
            self._ask(home, mine)
        low[np.arange(len(homes)), homes] = np.inf  # done
        first = np.argpartition(low, min(_FIRST, low.shape[1]) - 1, axis=1)[:, :_FIRST]
        wanted = np.zeros(low.shape, bool)
        np.put_along_axis(wanted, first, True, axis=1)
        for part, asking in _by_part(wanted & self._may(low)):
            self._ask(part, asking[self._may(low[asking, part][:, None], asking)[:, 0]])
        low[wanted] = np.inf
        for part, asking in _by_part(self._may(low)):
            self._ask(part, asking[self._may(low[asking, part][:, None], asking)[:, 0]])

    def _may(self, low: F64, some: Any = slice(None)) -> Any:
        """Where a part may hold rows as near as the k-th; bounds that are no numbers rule nothing out."""
        limits = self._among.cells.yardstick.length(self._lengths[some, -1])
        return ~((low > limits[:, None]) | np.isposinf(low))

    def _ask(self, part: int, asking: I64) -> None:
        if not len(asking):
            return
        brute, there = self._among.brute(part)
        k = min(self._table.shape[1], len(there))
        for start in range(0, len(asking), brute.batch):
            mine = asking[start : start + brute.batch]
            none = np.full(len(mine), -1)
            found, lengths = brute.nearest(self._queries[mine], k, none, self._lengths[mine, -1])
            self._merge(mine, np.where(found >= 0, there[found], -1), lengths)
        self._among.pairs += len(asking) * len(there)

    def _merge(self, rows: I64, found: I64, lengths: F64) -> None:
        found = np.concatenate([self._table[rows], found], axis=1)
        lengths = np.concatenate([self._lengths[rows], lengths], axis=1)
        order = np.lexsort((self._rank[found], lengths), axis=1)[:, : self._table.shape[1]]
        self._table[rows] = np.take_along_axis(found, order, axis=1)
        self._lengths[rows] = np.take_along_axis(lengths, order, axis=1)


def _by_part(wanted: Any) -> Iterator[tuple[int, I64]]:
    """Each part that any query wants (q, C), with the queries that do."""
    for part in np.flatnonzero(wanted.any(axis=0)):
        yield int(part), np.flatnonzero(wanted[:, part])


def _groups(homes: I64) -> Iterator[tuple[int, I64]]:
    """Each part that is the home of any query, with these."""
    order = np.argsort(homes, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(homes[order])) + 1) if len(order) else ():
        yield int(homes[mine[0]]), mine
