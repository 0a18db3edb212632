"""Which way queries go among rows that stay: takes the rows, the metric and how many queries there will be in all.

Exactly, among all rows or among parts of them that can hold the nearest (:mod:`.part_queries`), while that is the
cheaper way; through an index of NN-descent where it is far dearer. By arithmetic, by work that is counted for a seeded
sample of the rows, and never by a clock, a process or a batch: who asks for the same number gets the same way.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from scalemani.engine.terms import search_bytes
from scalemani.search.bounds import Yardstick
from scalemani.search.costs import exact_seconds, index_seconds, parts_seconds
from scalemani.search.descent import DescentRows, ShardIndex, descent_obstacle
from scalemani.search.distance_forms import F64
from scalemani.search.exact import ExactSearch
from scalemani.search.part_queries import PartQueries
from scalemani.search.prepared_rows import I64
from scalemani.search.shard_sizes import LEAST
from scalemani.search.shards import make_parts, part_count

EXACT, PARTS, INDEX = "exact", "parts", "nndescent"
WAYS = (EXACT, PARTS, INDEX)

WORTH = 20.0  # projected seconds for all queries, below which nothing is made for them
FAR = 3.0  # how many times dearer exact lists have to be than those of an index, which misses some
INDEX_BYTES = 4 << 30  # the most that an index may take: each process has its own
SEED = 0  # exact lists don't depend on it; those of an index are the same in every process
_SAMPLED = 200  # rows
_MAKING = 3.0  # tables of bounds between all rows and the centres that parts cost
_TYPICAL_LIST = 10  # rows, where a radius doesn't say


class QuerySearch:
    """Searches for queries, of which what a way needs is made once, when it is first asked.

    search: The rows and the metric.
    n_neighbors: Rows of each query's list.
    radius: Or all rows within it.
    approximate: Whether lists may come from an index.

    Threads of a process share it. Lists of a query follow from that query and the way alone; those of the exact ways
    have the same bits.
    """

    def __init__(self, search: ExactSearch, n_neighbors: int | None, radius: float | None, approximate: bool) -> None:
        self.search, self.radius = search, radius
        self.k = min(n_neighbors or _TYPICAL_LIST, search.n_rows)
        self._approximate = approximate and radius is None
        self._lock = threading.Lock()
        self._chosen: dict[int, str] = {}
        self._parts: PartQueries | None = None
        self._index: ShardIndex | None = None

    def is_long(self, total: int) -> bool:
        """Whether so many queries are worth a choice, which takes as long as what it may save."""
        return self.search.method == "brute" and not self.search.low and self._exact_seconds(total) >= WORTH

    def choose(self, total: int) -> str:
        """The way for so many queries in all: one of `WAYS`."""
        if not self.is_long(total):
            return EXACT
        with self._lock:
            if total not in self._chosen:
                self._chosen[total] = self._choice(total)
            return self._chosen[total]

    def nearest(self, queries: Any, way: str = EXACT) -> tuple[I64, F64]:
        """The nearest rows (q, k) of each query, by (distance, rank), and their distances."""
        if way == PARTS:
            return self._in_parts().nearest(queries, self.k)
        return self._by_index(queries) if way == INDEX else self.search.nearest(queries, self.k)

    def within(self, queries: Any, way: str = EXACT) -> tuple[I64, I64, F64]:
        """All rows within the radius of each query: indptr (q + 1,), rows, distances."""
        assert self.radius is not None
        if way == PARTS:
            return self._in_parts().within(queries, self.radius)
        return self.search.within(queries, self.radius)

    def recall(self, queries: Any) -> float:
        """Share of what is listed through the index for some queries that is no farther than the true k-th row."""
        _, found = self.nearest(queries, INDEX)
        _, true = self.search.nearest(queries, self.k)
        return float(np.mean(found <= true[:, -1:]))

    # ---- what it costs -----------------------------------------------------------------------------

    def _exact_seconds(self, total: int) -> float:
        return exact_seconds(self.search, self.k) / self.search.n_rows * total

    def _choice(self, total: int) -> str:
        way, seconds = EXACT, self._exact_seconds(total)
        if self.search.n_rows >= LEAST and Yardstick.known(self.search.form):
            making = parts_seconds(self.search, _MAKING * part_count(self.search.prepared))
            if making < seconds:
                by_parts = making + parts_seconds(self.search, self._pairs()) / self.search.n_rows * total
                way, seconds = (PARTS, by_parts) if by_parts < seconds else (way, seconds)
        if self._may_index() and FAR * index_seconds(self.search, self.k, total) < seconds:
            return INDEX
        return way

    def _pairs(self) -> float:
        """Distances that a query among the parts takes: counted for a sample of the rows, with these left in."""
        rng = np.random.default_rng([SEED, 4])
        sample = np.sort(rng.choice(self.search.n_rows, min(_SAMPLED, self.search.n_rows), replace=False))
        trial = PartQueries(self.search, self._made_parts().parts)
        if self.radius is not None:
            trial.within(self.search.rows[sample], self.radius)
        else:
            trial.nearest(self.search.rows[sample], min(self.k + 1, self.search.n_rows))
        return trial.pairs / len(sample)

    def _may_index(self) -> bool:
        count, width = self.search.n_rows, self.search.prepared.width
        fits = search_bytes(count, width, self.k, "nndescent", 1) <= INDEX_BYTES
        return self._approximate and fits and self.k < count and descent_obstacle(self.search) is None

    # ---- what is made ------------------------------------------------------------------------------

    def _in_parts(self) -> PartQueries:
        with self._lock:
            return self._made_parts()

    def _made_parts(self) -> PartQueries:
        if self._parts is None:
            parts = make_parts(self.search.prepared, SEED, self.search.n_rows, self.search.threads)
            self._parts = PartQueries(self.search, parts)
        return self._parts

    def _by_index(self, queries: Any) -> tuple[I64, F64]:
        with self._lock:
            if self._index is None:
                every = np.arange(self.search.n_rows)
                self._index = ShardIndex(DescentRows(self.search), every, self.k, SEED)
        found = np.sort(self._index.ask_alone(queries), axis=1)
        bad = found < 0
        bad[:, 1:] |= found[:, 1:] == found[:, :-1]
        lengths = self.search.paired(queries, np.where(bad, 0, found))
        lengths[bad] = np.inf
        order = np.lexsort((self.search.tie_rank[found], lengths), axis=1)
        found, lengths = np.take_along_axis(found, order, axis=1), np.take_along_axis(lengths, order, axis=1)
        short = np.flatnonzero(bad.any(axis=1))
        if len(short):
            found[short], lengths[short] = self.search.nearest(queries[short], self.k)
        return found, lengths
