"""Neighbours shard by shard: every row asks the shards that can hold nearer ones, and the best are merged.

What a shard holds is searched part by part or by a k-d tree (:mod:`.shard_searches`), or by NN-descent
(:mod:`.shard_descent`); the lists of all rows are by (distance, rank) whatever the shards, and exact for the first two.
A row asks a part only if what bounds its distances to it (:mod:`.bounds`) does not exceed the row's k-th distance so
far, so that ties are never lost.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalemani.engine.blas_threads import single_blas_thread
from scalemani.row_files import let_go
from scalemani.search.account import Account
from scalemani.search.distance_forms import F64
from scalemani.search.exact import ExactSearch
from scalemani.search.kept_blocks import Kept
from scalemani.search.prepared_rows import I64
from scalemani.search.shards import Parts

Progress = Callable[[int], None]


class Sharded(ABC):
    """A search of all rows among themselves, shard by shard.

    search: The rows and the metric.
    shards: Parts of each shard.
    k: Neighbours of each row.
    name: Under which shards are kept: another one would not find those of earlier releases.
    method: As :class:`scalemani.neighbor_lists.NeighborLists` has it.
    exact: Whether the lists are.
    passes: Over the shards.
    table (m, k): Neighbours found so far, -1 where there are fewer.
    lengths (m, k): Their distances, inf where there are fewer.
    """

    name: str
    method: str
    exact = True
    passes = 1

    def __init__(self, search: ExactSearch, parts: Parts, shards: list[range], k: int) -> None:
        self.search, self.parts, self.shards, self.k = search, parts, shards, k
        count = search.n_rows
        self.table, self.lengths = np.full((count, k), -1), np.full((count, k), np.inf)
        self.account = Account(n_shards=len(shards), n_parts=parts.count, skipped_shards=[])
        self.asked = np.zeros((len(shards), len(shards)), np.int64)  # rows of one that asked the other
        self._shard_of = np.repeat(np.arange(len(shards)), [len(shard) for shard in shards])

    @abstractmethod
    def begin(self) -> None:
        """What comes before the shards."""

    @abstractmethod
    def step(self, turn: int, shard: int, progress: Callable[[float], None]) -> None:
        """Work of one shard in one pass; `progress` takes the share of it that is done."""

    def run(self, kept: Kept, name: str, progress: Progress) -> tuple[I64, F64]:
        """Lists (m, k) of all rows, going on from the last shard that was kept under a name."""
        steps = [(turn, shard) for turn in range(self.passes) for shard in range(len(self.shards))]
        done = self._restored(kept.get(name), len(steps))
        count = self.search.n_rows

        def said(share: float) -> None:
            progress(min(count - 1, int(count * share / len(steps))))

        said(done)
        with single_blas_thread():
            if not done:
                self.begin()
            for at in range(done, len(steps)):
                let_go(self.search.rows)
                self.step(*steps[at], lambda share, at=at: said(at + share))  # type: ignore[misc]
                if at + 1 < len(steps):
                    kept.put(name, self._state(at + 1))
                    said(at + 1)
        self._sum_up()
        return self.table, self.lengths

    def shard_rows(self, shard: int) -> I64:
        """Rows of a shard, part by part."""
        some = self.shards[shard]
        return self.parts.order[self.parts.starts[some.start] : self.parts.starts[some.stop]]

    def limits(self, rows: I64) -> F64:
        """The lengths beyond which nothing comes into these rows' lists."""
        found = self.lengths[rows, -1]
        return found if self.parts.cells is None else self.parts.cells.yardstick.length(found)

    def near_parts(self, home: int, some: range, limit: float) -> I64:
        """Parts of a run that may hold rows within a length of a row of part `home`, the nearest first."""
        others: I64 = np.arange(some.start, some.stop)
        others = others[others != home]
        if self.parts.cells is None:
            return others
        apart = self.parts.cells.apart(home)[others]
        near: I64 = others[apart <= limit]
        return near[np.argsort(self.parts.cells.between[home, near], kind="stable")]

    def bounds(self, queries: Any, home: int, parts: I64) -> tuple[F64, int]:
        """Lower bounds (q, c) on lengths to parts, and how many distances that took."""
        if self.parts.cells is None:
            return np.zeros((queries.shape[0], len(parts))), 0
        return self.parts.cells.bounds(queries, home, parts), queries.shape[0] * (len(parts) + 1)

    def merge(self, rows: I64, found: I64, lengths: F64, *, again: bool = False) -> None:
        """Take what was found (q, c) for some rows into their lists; `again` if it may be there already."""
        found = np.concatenate([self.table[rows], found], axis=1)
        lengths = np.concatenate([self.lengths[rows], lengths], axis=1)
        found, lengths = self._sorted(found, lengths)
        if again:
            twice = (found[:, 1:] == found[:, :-1]) & (found[:, 1:] >= 0)
            if twice.any():
                found[:, 1:][twice], lengths[:, 1:][twice] = -1, np.inf
                found, lengths = self._sorted(found, lengths)
        self.table[rows], self.lengths[rows] = found[:, : self.k], lengths[:, : self.k]

    def foreign(self, shard: int) -> Iterator[tuple[int, I64]]:
        """Rows outside a shard that have to ask it, with their own shard's number, in the order of their parts."""
        some = self.shards[shard]
        for home in range(self.parts.count):
            if home in some:
                continue
            rows = self.parts.rows(home)
            limits = self.limits(rows)
            near = self.near_parts(home, some, float(limits.max(initial=0.0)))
            if not len(near):
                continue
            if self.parts.cells is not None:
                low, count = self.bounds(self.search.prepared.take(rows), home, near)
                self.account.n_distances += count
                rows = rows[low.min(axis=1) <= limits]
            if len(rows):
                yield int(self._shard_of[home]), rows

    def _sorted(self, found: I64, lengths: F64) -> tuple[I64, F64]:
        order = np.lexsort((self.search.tie_rank[found], lengths), axis=1)
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(lengths, order, axis=1)

    def _sum_up(self) -> None:
        sizes = np.array([len(self.shard_rows(shard)) for shard in range(len(self.shards))])
        others = ~np.eye(len(sizes), dtype=bool)
        self.account.n_skipped = int((sizes[:, None] - self.asked)[others].sum())
        self.account.skipped_shards = np.argwhere((self.asked == 0) & others)[:100].tolist()

    # ---- what is kept of a search that is stopped --------------------------------------------------

    def _state(self, done: int) -> I64:
        head = np.array([done, self.account.n_distances])
        return np.concatenate([head, self.asked.ravel(), self.table.ravel(), self.lengths.ravel().view(np.int64)])

    def _restored(self, state: I64 | None, steps: int) -> int:
        """Steps that are done in a state that was kept; 0 where that is none of this search's."""
        pairs, size = self.asked.size, self.table.size
        good = state is not None and state.dtype == np.int64 and state.shape == (2 + pairs + 2 * size,)
        if state is None or not good or not 0 < int(state[0]) < steps:
            return 0
        self.account.n_distances = int(state[1])
        self.asked = state[2 : 2 + pairs].reshape(self.asked.shape).copy()
        table = state[2 + pairs : 2 + pairs + size].reshape(self.table.shape)
        if int(table.max(initial=-1)) >= len(table) or int(table.min(initial=-1)) < -1:
            return 0
        self.table = table.copy()
        self.lengths = np.ascontiguousarray(state[2 + pairs + size :]).view(np.float64).reshape(table.shape).copy()
        return int(state[0])
