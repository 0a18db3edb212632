"""Nearest rows when distances are given: the same methods as the exact search, on rows of a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError

_BLOCK_BYTES = 32 << 20


class PrecomputedSearch:
    """Nearest rows by a matrix of distances.

    distances (m, m): Validated: finite, >= 0, symmetric, zero on its diagonal. Zeros elsewhere are kept as they are.
    Raises ScalemaniError: The matrix is not square, or queries have another number of columns.

    Ties are broken by the digest of a row's sorted distances, which doesn't depend on the order of the rows;
    rows with the same distances go by their position.
    """

    method = "precomputed"

    def __init__(self, distances: Any) -> None:
        self.rows = np.asarray(distances)
        if self.rows.ndim != 2 or self.rows.shape[0] != self.rows.shape[1]:
            raise ScalemaniError(
                f"X has shape {self.rows.shape}; metric='precomputed' needs a square matrix of distances"
            )

    @cached_property
    def tie_rank(self) -> I64:
        """Order among rows at equal distance (m,); made when it is first asked for, since it sorts every row."""
        digests = np.concatenate([_sorted_digests(self.rows[block]) for block in self._blocks(len(self.rows))])
        order = np.lexsort((digests[:, 1], digests[:, 0]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return rank

    @property
    def n_rows(self) -> int:
        """Number of rows searched among, m."""
        return len(self.rows)

    def apart(self, distances: F64) -> Any:
        """Given distances are taken as they are: none says that rows have nothing in common."""
        return np.zeros(distances.shape, bool)

    def nearest(self, queries: Any, k: int, exclude: I64 | None = None) -> tuple[I64, F64]:
        """The k nearest rows of each query, a row (m,) of distances; see ExactSearch.nearest."""
        available = self.n_rows - (exclude is not None)
        if not 1 <= k <= available:
            raise ScalemaniError(f"{k} nearest rows were asked for; there are {available} to choose from")
        queries = self._checked(queries)
        indices, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        for block in self._blocks(len(queries)):
            table = np.array(queries[block], dtype=np.float64)
            if exclude is not None:
                own = np.flatnonzero(exclude[block] >= 0)
                table[own, exclude[block][own]] = np.inf
            order = np.lexsort((np.broadcast_to(self.tie_rank, table.shape), table), axis=1)[:, :k]
            indices[block] = order
            distances[block] = np.take_along_axis(table, order, axis=1)
        return indices, distances

    def within(self, queries: Any, radius: float, exclude: I64 | None = None) -> tuple[I64, I64, F64]:
        """All rows at a distance of at most ``radius``; see ExactSearch.within."""
        queries = self._checked(queries)
        counts, indices, distances = [], [], []
        for block in self._blocks(len(queries)):
            table = np.array(queries[block], dtype=np.float64)
            near = table <= radius
            if exclude is not None:
                own = np.flatnonzero(exclude[block] >= 0)
                near[own, exclude[block][own]] = False
            at, rows = np.nonzero(near)
            order = np.lexsort((self.tie_rank[rows], table[at, rows], at))
            counts.append(near.sum(axis=1))
            indices.append(rows[order])
            distances.append(table[at, rows][order])
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *counts]))])
        return (
            indptr.astype(np.int64),
            np.concatenate([np.empty(0, np.int64), *indices]).astype(np.int64),
            np.concatenate([np.empty(0), *distances]),
        )

    @property
    def block_rows(self) -> int:
        """Rows that are searched for at a time."""
        return max(1, _BLOCK_BYTES // (8 * self.n_rows))

    def each_nearest(self, k: int, starts: Sequence[int]) -> Iterator[tuple[I64, F64]]:
        """The k nearest others of the rows themselves, by blocks; see ExactSearch.each_nearest."""
        for own in self._own(starts):
            yield self.nearest(self.rows[own], k, exclude=own)

    def each_within(self, radius: float, starts: Sequence[int]) -> Iterator[tuple[I64, I64, F64]]:
        """Lengths, rows and distances of the lists of others within ``radius``, by blocks like the above."""
        for own in self._own(starts):
            indptr, indices, distances = self.within(self.rows[own], radius, exclude=own)
            yield np.diff(indptr), indices, distances

    def paired(self, queries: Any, indices: I64) -> F64:
        """Distances (q, k) from each query to the rows listed for it."""
        taken = np.take_along_axis(self._checked(queries), np.asarray(indices), axis=1)
        return np.asarray(taken, dtype=np.float64)

    def nearest_between(self, a: I64, b: I64) -> tuple[int, int, float]:
        """The shortest pair (i in a, j in b, distance) between two disjoint index sets; ties by content."""
        a, b = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        best: tuple[float, int, int, int, int] | None = None
        for block in self._blocks(len(a)):
            table = self.rows[a[block]][:, b].astype(np.float64)
            rows, columns = np.nonzero(table == table.min())
            for i, j in zip(a[block][rows], b[columns], strict=True):
                first, second = sorted((int(self.tie_rank[i]), int(self.tie_rank[j])))
                pair = (float(table.min()), first, second, int(i), int(j))
                best = pair if best is None else min(best, pair)
        assert best is not None
        return best[3], best[4], best[0]

    def _blocks(self, count: int) -> list[slice]:
        return [slice(start, start + self.block_rows) for start in range(0, count, self.block_rows)]

    def _own(self, starts: Sequence[int]) -> Iterator[I64]:
        """Numbers of the rows in each block."""
        for start in starts:
            yield np.arange(start, min(start + self.block_rows, self.n_rows))

    def _checked(self, queries: Any) -> NDArray[Any]:
        table: NDArray[Any] = np.asarray(queries)
        if table.ndim != 2 or table.shape[1] != self.n_rows:
            raise ScalemaniError(
                f"rows of distances have shape {table.shape}; (rows, {self.n_rows}) is needed, a distance "
                "to each training row"
            )
        return table


def _sorted_digests(rows: NDArray[Any]) -> NDArray[np.uint64]:
    ordered = np.sort(np.asarray(rows, dtype="<f8"), axis=1) + 0.0
    raw = b"".join(blake2b(row.tobytes(), digest_size=16).digest() for row in ordered)
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64).reshape(-1, 2)
