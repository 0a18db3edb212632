"""Exact search by blocks: bounds on all distances make a shortlist, whose distances are then direct."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalemani.search.distance_forms import EPS, F64, NormForm
from scalemani.search.prepared_rows import BLOCK_BYTES, I64, PreparedRows

_TABLE_ROWS, _TABLE_COLUMNS = 512, 2048  # 8 MiB a table of bounds, a few tables at once


class BruteSearch:
    """Search among prepared rows by tables of bounds."""

    method = "brute"

    def __init__(self, prepared: PreparedRows) -> None:
        self._prepared = prepared
        fit = max(16, BLOCK_BYTES // (8 * prepared.width))
        self.batch = min(_TABLE_ROWS, fit)
        self._columns = min(_TABLE_COLUMNS, fit)
        form = prepared.form
        by_product = isinstance(form, NormForm) and form.p == 2 and not prepared.sparse
        # Products are of centred rows: under a large common offset their bounds would let every row through.
        self._centre: F64 | None = prepared.midrange(self._columns) if by_product else None

    def nearest(self, queries: Any, k: int, own: I64, limits: F64 | float = np.inf) -> tuple[I64, F64]:
        """The k nearest rows of each prepared query but its own, by (distance, tie_rank).

        Rows beyond ``limits`` (q,) need not be found: -1 at the distance inf is where there are fewer.
        """
        count = queries.shape[0]
        indices, distances = np.full((count, k), -1), np.full((count, k), np.inf)

        def limit(high: F64) -> F64:  # the k-th distance is under both of these
            here = np.partition(high, k - 1, axis=1)[:, k - 1] if high.shape[1] >= k else np.inf
            return np.asarray(np.minimum(np.minimum(distances[:, -1], here), limits))

        for at, rows, found in self._candidates(queries, own, limit):
            held = np.flatnonzero(indices.ravel() >= 0)
            at, rows, found = self._prepared.sorted(
                np.concatenate([held // k, at]),
                np.concatenate([indices.ravel()[held], rows]),
                np.concatenate([distances.ravel()[held], found]),
            )
            place = np.arange(len(at)) - np.searchsorted(at, np.arange(count))[at]
            keep = place < k
            indices[at[keep], place[keep]] = rows[keep]
            distances[at[keep], place[keep]] = found[keep]
        return indices, distances

    def within(self, queries: Any, radius: float, own: I64) -> tuple[I64, I64, F64]:
        """Lengths, rows and distances of each prepared query's list of rows at ``radius`` or less."""
        limit = np.full(queries.shape[0], radius)
        parts = list(self._candidates(queries, own, lambda high: limit))
        at, rows, found = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._prepared.lists(queries.shape[0], at, rows, found, radius)

    def _candidates(
        self, queries: Any, own: I64, limit: Callable[[F64], F64]
    ) -> Iterator[tuple[I64, I64, F64]]:
        """Pairs that may be at most ``limit(upper bounds)`` apart, by blocks, with their distances."""
        for start, columns in self._prepared.blocks(self._columns):
            low, high, exact = self._bounds(queries, columns, start, own)
            ends = limit(high) * (1 + 8 * EPS)  # a lower bound is rounded, too
            at, rows = np.nonzero(low <= ends[:, None])
            found = low[at, rows] if exact else self._prepared.distances(queries, at, rows, start, columns)
            yield at, rows + start, found

    def _bounds(self, queries: Any, columns: Any, start: int, own: I64) -> tuple[F64, F64, bool]:
        """Bounds (q, c) on distances to a block of rows, own rows NaN below and inf above; whether exact."""
        form = self._prepared.form
        found = form.bounds(queries, columns, self._centre)
        if found is None:
            shape = (queries.shape[0], columns.shape[0])
            at, rows = (index.ravel() for index in np.indices(shape))
            keep = rows + start != own[at]  # a function need not be defined between a row and itself
            at, rows = at[keep], rows[keep]
            table = np.full(shape, np.inf)
            table[at, rows] = self._prepared.distances(queries, at, rows, start, columns)
            found = table, table
        low, high = found
        mine = np.flatnonzero((own >= start) & (own < start + columns.shape[0]))
        if len(mine):
            low, high = (low.copy(), high) if low is high else (low, high)
            low[mine, own[mine] - start] = np.nan  # compares false with any limit
            high[mine, own[mine] - start] = np.inf
        return low, high, form.exact_bounds
