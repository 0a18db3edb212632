"""Exact nearest rows: a k-d tree in low dimension, blocked brute force otherwise.

Candidates come from a tree or from cheap bounds; the distances that are returned are always those of
``Form.pairs``, so that no result depends on the block, the batch or the order that rows come in. Ties are broken
by ``tie_rank``, which the caller derives from the rows' content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.spatial import cKDTree

from scalemani.blas_threads import single_blas_thread
from scalemani.distance_forms import EPS, F64, Form, NormForm
from scalemani.errors import ScalemaniError
from scalemani.metric_forms import make_form

I64 = NDArray[np.int64]

TREE_FEATURES = 12  # up to here a k-d tree visits few of the rows
_TABLE_ROWS, _TABLE_COLUMNS = 512, 2048  # 8 MiB a table of bounds, a few tables at once
_BLOCK_BYTES = 32 << 20  # prepared rows, or gathered pairs, held at once


class ExactSearch:
    """Nearest rows among ``rows``.

    Parameters
    ----------
    rows : NDArray or csr_array, shape (m, d)
        Rows to search among, of any real dtype; distances are computed in float64.
    metric : str or callable
        One of pynndescent's names, or a function of two rows.
    metric_params : mapping, optional
        The metric's parameters, by SciPy's or pynndescent's names.
    tie_rank : NDArray[int64], shape (m,), optional
        Order among rows at equal distance; by default their position.
    threads : int
        Number of threads; results are the same for any number.

    Raises
    ------
    ScalemaniError
        Unknown metric or parameters, or (from the searches) a distance that is negative or not finite.
    """

    def __init__(
        self,
        rows: Any,
        metric: Any = "euclidean",
        metric_params: Mapping[str, Any] | None = None,
        tie_rank: I64 | None = None,
        threads: int = 1,
    ) -> None:
        rows = csr_array(rows) if issparse(rows) else np.asarray(rows)
        form = make_form(metric, metric_params, rows.shape[1], _midrange(rows))
        self._set(rows, form, np.arange(rows.shape[0]) if tie_rank is None else np.asarray(tie_rank), threads)

    def _set(self, rows: Any, form: Form, tie_rank: I64, threads: int) -> None:
        self.rows, self.form, self.tie_rank, self.threads = rows, form, tie_rank, threads
        sample = form.prepare(rows[:1])
        self.width = int(sample.shape[1])
        low = self.width <= TREE_FEATURES and form.tree_p is not None
        self.method = "kdtree" if low else "brute"
        self._held: Any = None
        self._tree: cKDTree | None = None
        self._centre: F64 | None = None
        if low:
            dense = form.prepare(rows.toarray() if issparse(rows) else rows)
            self._held = dense
            self._tree = cKDTree(dense)
        elif form.hold:
            self._held = form.prepare(rows)
        if self._tree is None and isinstance(form, NormForm) and form.p == 2 and not issparse(sample):
            self._centre = self._prepared_midrange()

    @property
    def n_rows(self) -> int:
        """Number of rows searched among, m."""
        return int(self.rows.shape[0])

    def nearest(self, queries: Any, k: int, exclude: I64 | None = None) -> tuple[I64, F64]:
        """The k nearest rows of each query, by (distance, tie_rank).

        Parameters
        ----------
        queries : NDArray or csr_array, shape (q, d)
        k : int
        exclude : NDArray[int64], shape (q,), optional
            A row that is never listed for each query: its own index, or -1.

        Returns
        -------
        indices : NDArray[int64], shape (q, k)
        distances : NDArray[float64], shape (q, k)
        """
        available = self.n_rows - (exclude is not None)
        if not 1 <= k <= available:
            raise ScalemaniError(f"{k} nearest rows were asked for; there are {available} to choose from")
        search = self._tree_nearest if self._tree is not None else self._brute_nearest
        parts = self._by_blocks(queries, exclude, lambda block, own: search(block, k, own))
        return (
            np.concatenate([np.empty((0, k), np.int64), *[part[0] for part in parts]]),
            np.concatenate([np.empty((0, k)), *[part[1] for part in parts]]),
        )

    def within(self, queries: Any, radius: float, exclude: I64 | None = None) -> tuple[I64, I64, F64]:
        """All rows at a distance of at most ``radius``, each query's by (distance, tie_rank).

        Returns
        -------
        indptr : NDArray[int64], shape (q + 1,)
        indices, distances : NDArray, shape (indptr[-1],)
        """
        search = self._tree_within if self._tree is not None else self._brute_within
        parts = self._by_blocks(queries, exclude, lambda block, own: search(block, radius, own))
        counts = np.concatenate([np.empty(0, np.int64), *[part[0] for part in parts]])
        return (
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            np.concatenate([np.empty(0, np.int64), *[part[1] for part in parts]]),
            np.concatenate([np.empty(0), *[part[2] for part in parts]]),
        )

    def paired(self, queries: Any, indices: I64) -> F64:
        """Distances (q, k) from each query to the rows listed for it, bit-equal to what ``nearest`` gives."""
        indices = np.asarray(indices, dtype=np.int64)
        k = indices.shape[1]
        out = np.empty(indices.shape)
        step = max(1, _BLOCK_BYTES // (8 * self.width * max(1, k)))
        for start in range(0, len(indices), step):
            listed = indices[start : start + step]
            block = self._prepared_queries(queries[start : start + step])
            out[start : start + step] = self._distances(
                block, np.repeat(np.arange(len(listed)), k), listed.ravel()
            ).reshape(listed.shape)
        return out

    def nearest_between(self, a: I64, b: I64) -> tuple[int, int, float]:
        """The shortest pair (i in a, j in b, distance) between two disjoint index sets; ties by content."""
        a, b = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        if len(a) > len(b):
            j, i, distance = self.nearest_between(b, a)
            return i, j, distance
        part = ExactSearch.__new__(ExactSearch)
        part._set(self.rows[b], self.form, self.tie_rank[b], self.threads)
        found, distances = part.nearest(self.rows[a], 1)
        tied = np.flatnonzero(distances[:, 0] == distances.min())
        ranks = np.stack([self.tie_rank[a[tied]], self.tie_rank[b[found[tied, 0]]]])
        best = tied[np.lexsort((ranks.max(axis=0), ranks.min(axis=0)))[0]]
        return int(a[best]), int(b[found[best, 0]]), float(distances[best, 0])

    # blocks of queries ------------------------------------------------------------------------------------------

    def _by_blocks(self, queries: Any, exclude: I64 | None, search: Callable[[Any, I64], Any]) -> list[Any]:
        queries = csr_array(queries) if issparse(queries) else np.asarray(queries)
        if queries.ndim != 2 or queries.shape[1] != self.rows.shape[1]:
            raise ScalemaniError(
                f"queries have shape {queries.shape}; the rows searched among have {self.rows.shape[1]} features"
            )
        own = np.full(queries.shape[0], -1) if exclude is None else np.asarray(exclude, dtype=np.int64)
        step = 8192 if self._tree is not None else self._steps()[0]

        def task(start: int) -> Any:
            return search(self._prepared_queries(queries[start : start + step]), own[start : start + step])

        starts = range(0, queries.shape[0], step)
        with single_blas_thread():
            if self.threads == 1 or self._tree is not None or len(starts) < 2:
                return [task(start) for start in starts]
            with ThreadPoolExecutor(self.threads) as pool:
                return list(pool.map(task, starts))

    def _prepared_queries(self, block: Any) -> Any:
        if self._tree is not None and issparse(block):
            block = block.toarray()
        elif not issparse(block) and issparse(self.rows):
            block = csr_array(block)
        return self.form.prepare(block)

    def _steps(self) -> tuple[int, int]:
        fit = max(16, _BLOCK_BYTES // (8 * self.width))
        return min(_TABLE_ROWS, fit), min(_TABLE_COLUMNS, fit)

    def _prepared(self, rows: Any) -> Any:
        """Prepared rows for an index array or slice."""
        if self._held is not None:
            return self._held[rows]
        return self.form.prepare(self.rows[rows])

    def prepared_blocks(self) -> Iterator[tuple[int, Any]]:
        """The rows as the form measures between them, as (start, block)."""
        step = self._steps()[1]
        for start in range(0, self.n_rows, step):
            yield start, self._prepared(slice(start, start + step))

    def _prepared_midrange(self) -> F64:
        blocks = [(block.min(axis=0), block.max(axis=0)) for _, block in self.prepared_blocks()]
        low = np.min([block[0] for block in blocks], axis=0)
        return np.asarray(low + (np.max([block[1] for block in blocks], axis=0) - low) / 2)

    # distances --------------------------------------------------------------------------------------------------

    def _distances(self, block: Any, at: I64, rows: I64, start: int = 0, columns: Any = None) -> F64:
        """Distances of pairs (block[at], row): ``rows`` index all rows, or the prepared block ``columns``."""
        out = np.empty(len(at))
        step = max(1, _BLOCK_BYTES // (8 * self.width))
        for first in range(0, len(at), step):
            pick = slice(first, first + step)
            other = self._prepared(rows[pick]) if columns is None else columns[rows[pick]]
            out[pick] = self.form.pairs(block[at[pick]], other)
        bad = ~(out >= 0)
        if bad.any():
            first = int(np.argmax(bad))
            raise ScalemaniError(
                f"metric={self.form.name!r} gives {out[first]} between a row and row {start + int(rows[first])}; "
                "distances must be >= 0"
            )
        return out

    def _bounds(self, block: Any, columns: Any, start: int, own: I64) -> tuple[F64, F64, bool]:
        """Bounds (b, c) on the distances to a block of rows; own rows get NaN below and inf above."""
        found = self.form.bounds(block, columns, self._centre)
        exact = found is None or self.form.exact_bounds
        if found is None:
            shape = (block.shape[0], columns.shape[0])
            at, rows = (index.ravel() for index in np.indices(shape))
            keep = rows + start != own[at]  # a function need not be defined between a row and itself
            table = np.full(shape, np.inf)
            table[at[keep], rows[keep]] = self._distances(block, at[keep], rows[keep], start, columns)
            found = table, table
        low, high = found
        mine = np.flatnonzero((own >= start) & (own < start + columns.shape[0]))
        if len(mine):
            low, high = (low.copy(), high.copy()) if low is high else (low, high)
            low[mine, own[mine] - start] = np.nan
            high[mine, own[mine] - start] = np.inf
        return low, high, exact

    def _candidates(self, block: Any, own: I64, limit: Callable[[F64], F64]) -> Iterator[tuple[I64, I64, F64]]:
        """Pairs that may be at most ``limit(upper bounds)`` apart, by blocks of rows, with their distances."""
        for start, columns in self.prepared_blocks():
            low, high, exact = self._bounds(block, columns, start, own)
            at, rows = np.nonzero(low <= (limit(high) * (1 + 8 * EPS))[:, None])
            found = low[at, rows] if exact else self._distances(block, at, rows, start, columns)
            yield at, rows + start, found

    # brute force ------------------------------------------------------------------------------------------------

    def _brute_nearest(self, block: Any, k: int, own: I64) -> tuple[I64, F64]:
        count = block.shape[0]
        indices, distances = np.full((count, k), -1), np.full((count, k), np.inf)

        def limit(high: F64) -> F64:  # neither bound can be beaten by fewer than k rows
            in_block = np.partition(high, k - 1, axis=1)[:, k - 1] if high.shape[1] >= k else np.inf
            return np.asarray(np.minimum(distances[:, -1], in_block))

        for at, rows, found in self._candidates(block, own, limit):
            held = np.flatnonzero(indices.ravel() >= 0)
            at = np.concatenate([held // k, at])
            rows = np.concatenate([indices.ravel()[held], rows])
            found = np.concatenate([distances.ravel()[held], found])
            at, rows, found = self._sorted(at, rows, found)
            place = np.arange(len(at)) - np.searchsorted(at, np.arange(count))[at]
            keep = place < k
            indices[at[keep], place[keep]] = rows[keep]
            distances[at[keep], place[keep]] = found[keep]
        self._check_finite(distances)
        return indices, distances

    def _brute_within(self, block: Any, radius: float, own: I64) -> tuple[I64, I64, F64]:
        parts = list(self._candidates(block, own, lambda high: np.full(len(high), radius)))
        at, rows, found = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._lists(block.shape[0], at, rows, found, radius)

    # k-d tree ---------------------------------------------------------------------------------------------------

    def _tree_nearest(self, block: Any, k: int, own: I64) -> tuple[I64, F64]:
        assert self._tree is not None and isinstance(self.form, NormForm)
        indices, distances = np.empty((len(block), k), np.int64), np.empty((len(block), k))
        pending = np.arange(len(block))
        width = min(k + 2, self.n_rows)
        while len(pending):
            step = max(1, _BLOCK_BYTES // (8 * self.width * width))
            late = []
            for start in range(0, len(pending), step):
                some = pending[start : start + step]
                done = self._tree_listed(block[some], k, own[some], width)
                indices[some], distances[some] = done[0], done[1]
                late.append(some[~done[2]])
            pending = np.concatenate(late)  # rows whose ties at the k-th place may go on
            width = min(2 * width, self.n_rows)
        self._check_finite(distances)
        return indices, distances

    def _tree_listed(self, block: F64, k: int, own: I64, width: int) -> tuple[I64, F64, NDArray[np.bool_]]:
        """The k nearest of the ``width`` rows that the tree lists, and whether no other row can belong to them."""
        assert self._tree is not None and isinstance(self.form, NormForm)
        norms, rows = self._tree.query(block, k=width, p=self.form.p, workers=self.threads)
        norms, rows = norms.reshape(-1, width), rows.reshape(-1, width).astype(np.int64)
        at = np.repeat(np.arange(len(block)), width)
        found = self._distances(block, at, rows.ravel())
        found[rows.ravel() == own[at]] = np.inf
        at, flat, found = self._sorted(at, rows.ravel(), found)
        flat, found = flat.reshape(-1, width)[:, :k], found.reshape(-1, width)[:, :k]
        beyond = self.form.scale.of_norm(norms[:, -1] * (1 - self._tree_slack()))
        return flat, found, (beyond > found[:, -1]) | (width == self.n_rows)

    def _tree_within(self, block: Any, radius: float, own: I64) -> tuple[I64, I64, F64]:
        assert self._tree is not None and isinstance(self.form, NormForm)
        reach = self.form.scale.norm(radius) * (1 + self._tree_slack())
        sizes = self._tree.query_ball_point(
            block, reach, p=self.form.p, workers=self.threads, return_length=True
        )
        parts = []
        for some in _groups(sizes, _BLOCK_BYTES // (8 * self.width)):
            listed = self._tree.query_ball_point(block[some], reach, p=self.form.p, workers=self.threads)
            at = np.repeat(np.arange(some.start, some.stop), sizes[some])
            rows = np.concatenate([np.empty(0, np.int64), *[np.asarray(one, np.int64) for one in listed]])
            keep = rows != own[at]
            at, rows = at[keep], rows[keep]
            parts.append((at, rows, self._distances(block, at, rows)))
        at, rows, found = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._lists(len(block), at, rows, found, radius)

    def _tree_slack(self) -> float:
        return (4 * self.width + 256) * EPS  # the tree's running sums along a path, and its own distance

    # order ------------------------------------------------------------------------------------------------------

    def _sorted(self, at: I64, rows: I64, found: F64) -> tuple[I64, I64, F64]:
        order = np.lexsort((self.tie_rank[rows], found, at))
        return at[order], rows[order], found[order]

    def _lists(self, count: int, at: I64, rows: I64, found: F64, radius: float) -> tuple[I64, I64, F64]:
        keep = found <= radius
        at, rows, found = self._sorted(at[keep], rows[keep], found[keep])
        return np.bincount(at, minlength=count).astype(np.int64), rows, found

    def _check_finite(self, distances: F64) -> None:
        if not np.isfinite(distances).all():
            raise ScalemaniError(
                f"metric={self.form.name!r} gives infinite distances between near rows; rescale the features or use "
                "another metric"
            )


def _groups(sizes: Any, limit: int) -> Iterator[slice]:
    """Consecutive slices whose sizes sum to about ``limit``, at least one row each."""
    start, total = 0, 0
    for at, size in enumerate(sizes):
        if at > start and total + size > limit:
            yield slice(start, at)
            start, total = at, 0
        total += int(size)
    yield slice(start, len(sizes))


def _midrange(rows: Any) -> F64:
    """The middle of each feature's range, (d,): unlike a mean it doesn't depend on the order of the rows."""
    if issparse(rows):
        low, high = (np.asarray(x.toarray(), np.float64).ravel() for x in (rows.min(axis=0), rows.max(axis=0)))
    else:
        low, high = np.asarray(rows.min(axis=0), np.float64), np.asarray(rows.max(axis=0), np.float64)
    return np.asarray(low + (high - low) / 2)
