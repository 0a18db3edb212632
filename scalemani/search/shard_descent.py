"""Approximate neighbours, an index of NN-descent for each shard: every row asks those that can hold nearer ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scalemani.search.descent import DescentRows, ShardIndex
from scalemani.search.evaluations import build_evaluations, query_evaluations
from scalemani.search.exact import ExactSearch
from scalemani.search.prepared_rows import I64
from scalemani.search.shard_searches import PartsInShards
from scalemani.search.shards import Parts

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
