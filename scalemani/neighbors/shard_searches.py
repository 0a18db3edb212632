"""Exact searches shard by shard: part by part, or by a k-d tree of each shard.

Exact nearest rows of queries among parts: takes queries in batches, gives what a search among all rows gives.

A query asks the part of the nearest centre, which gives it a k-th distance, then the parts whose lower bound
(:mod:`scalemani.neighbors.parts`) does not exceed that: some of the nearest first, then all that are left. Those of a
batch that ask the same part ask it together. A part is skipped only where all of its rows are farther than the k-th, so
that ties are kept, and lists are by (distance, rank) to the bit, whatever batch a query is in and whatever the parts
are.

Approximate neighbours, an index of NN-descent for each shard: every row asks those that can hold nearer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.aliases import F64, I64
from scalemani.cluster.threads import single_blas_thread
from scalemani.neighbors.descent import DescentRows, ShardIndex
from scalemani.neighbors.exact import BruteSearch, ExactSearch, TreeSearch, check_finite
from scalemani.neighbors.parts import Parts, Sharded
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows, build_evaluations, in_order, query_evaluations

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


class PartsInShards(Sharded):
    """Exact, by blocked search among the rows of each part: what is skipped is skipped part by part."""

    name, method = "PartsInShards", "brute"

    def begin(self) -> None:
        """Lists from the rows' own parts: their k-th distances are what allows to skip others."""
        self.search_at_home(range(self.parts.count))

    def search_at_home(self, parts: Iterable[int]) -> None:
        """Search for the rows of some parts among themselves."""
        for count in in_order(self._at_home, parts, self.search.threads):
            self.account.n_distances += count

    def step(self, turn: int, shard: int, progress: Callable[[float], None]) -> None:
        """All rows ask the parts of a shard."""

        def visit(home: int) -> tuple[int, int]:
            return self._visit(home, self.shards[shard])

        homes = range(self.parts.count)
        for home, (count, asked) in zip(homes, in_order(visit, homes, self.search.threads), strict=True):
            self.account.n_distances += count
            self.asked[self._shard_of[home], shard] += asked
            progress((home + 1) / (self.parts.count + 1))

    def _at_home(self, part: int) -> int:
        rows = self.parts.rows(part)
        if len(rows) < 2:
            return 0
        target = self.search.prepared.take(rows)
        self._ask(rows, target, rows, target, np.arange(len(rows)))
        return len(rows) ** 2

    def _visit(self, home: int, some: range) -> tuple[int, int]:
        """Distances computed, and rows that asked any of a run of parts, for the rows of one part."""
        rows = self.parts.rows(home)
        near = self.near_parts(home, some, float(self.limits(rows).max(initial=0.0)))
        if not len(near):
            return 0, 0
        queries = self.search.prepared.take(rows)
        low, count = self.bounds(queries, home, near)
        asked = np.zeros(len(rows), bool)
        for column, part in enumerate(near.tolist()):
            need = np.flatnonzero(low[:, column] <= self.limits(rows))
            if len(need):
                there = self.parts.rows(part)
                self._ask(rows[need], queries[need], there, self.search.prepared.take(there), np.full(len(need), -1))
                asked[need] = True
                count += len(need) * len(there)
        return count, int(asked.sum())

    def _ask(self, rows: I64, queries: Any, there: I64, target: Any, own: I64) -> None:
        """Search for some rows, as queries, among others, as target, and merge what is found."""
        prepared = PreparedRows.part(target, self.search.form, self.search.tie_rank[there])
        brute = BruteSearch(prepared)
        k = min(self.k, len(there) - int(own[0] >= 0))
        for start in range(0, len(rows), brute.batch):
            cut = slice(start, start + brute.batch)
            found, lengths = brute.nearest(queries[cut], k, own[cut], self.lengths[rows[cut], -1])
            self.merge(rows[cut], np.where(found >= 0, there[found], -1), lengths)


class TreesInShards(Sharded):
    """Exact, by a k-d tree of each shard, which is made twice: for its own rows, then for those of the others."""

    name, method, passes = "TreesInShards", "kdtree", 2

    def begin(self) -> None:
        """Nothing."""

    def step(self, turn: int, shard: int, progress: Callable[[float], None]) -> None:
        """The rows of a shard ask it, or those of the others."""
        there = self.shard_rows(shard)
        if not turn:
            engine = self._engine(there)
            self._ask(engine, there, there, np.arange(len(there)))
            return
        wanting = list(self.foreign(shard))
        for of, rows in wanting:
            self.asked[of, shard] += len(rows)
        if wanting:
            rows = np.concatenate([rows for _, rows in wanting])
            self._ask(self._engine(there), rows, there, np.full(len(rows), -1))

    def _dense(self, rows: I64) -> F64:
        found = self.search.prepared.take(rows)
        return np.asarray(found.toarray() if issparse(found) else found)

    def _engine(self, there: I64) -> TreeSearch | BruteSearch:
        prepared = PreparedRows.part(self._dense(there), self.search.form, self.search.tie_rank[there])
        if TreeSearch.possible(prepared):
            return TreeSearch(prepared, self.search.threads)
        return BruteSearch(prepared)

    def _ask(self, engine: TreeSearch | BruteSearch, rows: I64, there: I64, own: I64) -> None:
        k = min(self.k, len(there) - int(own[0] >= 0))
        if k < 1:
            return
        for start in range(0, len(rows), TreeSearch.batch):
            some, mine = rows[start : start + TreeSearch.batch], own[start : start + TreeSearch.batch]
            queries = self._dense(some)
            if isinstance(engine, TreeSearch) and engine.takes(queries):
                found, lengths = engine.nearest(queries, k, mine)
                self.merge(some, there[found], lengths)
                continue
            brute = engine if isinstance(engine, BruteSearch) else BruteSearch(engine.prepared)
            for at in range(0, len(some), brute.batch):
                cut = slice(at, at + brute.batch)
                found, lengths = brute.nearest(queries[cut], k, mine[cut])
                self.account.n_distances += len(found) * len(there)
                self.merge(some[cut], there[found], lengths)
        if isinstance(engine, TreeSearch):
            self.account.n_distances += int(engine.evaluations)
            self.account.counted = False


_QUERIES = 8192  # at a time


class DescentInShards(PartsInShards):
    """Lists from the rows' own parts, exact, then from an index of each shard.

    The former are what allows rows to skip shards before an index is made, so that each is made once. Distances are
    computed again in float64; a shard of few rows is searched exactly, part by part. Queries go part by part, too, so
    that the batches, on which the last bits of an answer may hang, follow from the rows, the seed and the shards.
    """

    name, method, exact = "DescentInShards", "nndescent", False
    least_indexed = 2000  # rows, below which blocked search is the faster one

    def __init__(self, search: ExactSearch, parts: Parts, shards: list[range], k: int, random_state: int) -> None:
        super().__init__(search, parts, shards, k)
        self._seed, self._rows = random_state, DescentRows(search)

    def begin(self) -> None:
        """Lists from the rows' own parts, but where nothing is skipped for them and an index finds these rows, too."""
        if self.parts.cells is not None:
            super().begin()
            return
        small = [shard for shard in range(len(self.shards)) if len(self.shard_rows(shard)) < self.least_indexed]
        self.search_at_home(part for shard in small for part in self.shards[shard])

    def step(self, turn: int, shard: int, progress: Callable[[float], None]) -> None:
        """The rows of a shard and those of others ask its index."""
        there = self.shard_rows(shard)
        if len(there) < self.least_indexed:
            super().step(turn, shard, progress)
            return
        self.account.counted = False
        index = ShardIndex(self._rows, there, self.k, self._seed)
        self.account.n_distances += build_evaluations(len(there), self.k)
        progress(0.5)
        self._take(there, index.own())
        for of, rows in self.foreign(shard):
            self.asked[of, shard] += len(rows)
            self.account.n_distances += query_evaluations(len(rows), self.k)
            for start in range(0, len(rows), _QUERIES):
                some = rows[start : start + _QUERIES]
                self._take(some, index.ask(some))

    def _take(self, rows: I64, candidates: Any) -> None:
        """Measure to candidates (q, c), -1 for none, and merge."""
        for start in range(0, len(rows), _QUERIES):
            some, found = rows[start : start + _QUERIES], candidates[start : start + _QUERIES]
            bad = (found < 0) | (found == some[:, None])
            stand_in = np.where(some > 0, some - 1, some + 1)[:, None]  # any other row; its distance is not used
            found = np.where(bad, stand_in, found)
            lengths = self.search.paired(self.search.rows[some], found)
            self.account.n_distances += found.size
            lengths[bad] = np.inf
            self.merge(some, np.where(bad, -1, found), lengths, again=True)
