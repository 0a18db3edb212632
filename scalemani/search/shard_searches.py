"""Exact searches shard by shard: part by part, or by a k-d tree of each shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.search.brute import BruteSearch
from scalemani.search.distance_forms import F64
from scalemani.search.in_order import in_order
from scalemani.search.prepared_rows import I64, PreparedRows
from scalemani.search.sharded import Sharded
from scalemani.search.tree import TreeSearch


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
