"""Exact nearest rows: a k-d tree in low dimension, blocked brute force otherwise.

The tree lists candidates until no tie is left out; the blocked search makes a shortlist from bounds on all distances.
The distances returned are always direct ones in float64, and ties are broken by a rank that the caller derives from
the rows' content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.spatial import cKDTree

from scalemani.aliases import F64, I64
from scalemani.cluster.threads import single_blas_thread
from scalemani.errors import ScalemaniError
from scalemani.neighbors.forms import EPS, Form, NormForm, make_form
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows, in_order

_LARGEST_POWER = 1020  # of two: sums of p-th powers that stay in float64's range


def _powers_fit(rows: F64, p: float) -> bool:
    """Whether p-norms between rows (b, d') of this size can be summed from powers: a tree lists none where not."""
    largest = float(np.abs(rows).max(initial=0.0))
    if largest == 0 or np.isinf(p):
        return True
    return bool(p * (np.log2(largest) + 1) + np.log2(rows.shape[1]) < _LARGEST_POWER)


class TreeSearch:
    """Search by a k-d tree among prepared rows of few features under a norm, which are held, dense, as float64."""

    method = "kdtree"
    batch = 8192

    def __init__(self, prepared: PreparedRows, threads: int) -> None:
        assert isinstance(prepared.form, NormForm)
        self._prepared, self._threads = prepared, threads
        self._form, self._p = prepared.form, prepared.form.p
        self._tree = cKDTree(prepared.hold())
        # Relative error of the tree's norms: sums of width terms, and running sums along a path of the tree.
        self._slack = (4 * prepared.width + 256) * EPS

    @staticmethod
    def possible(prepared: PreparedRows) -> bool:
        """Whether a tree can list these rows."""
        assert isinstance(prepared.form, NormForm)
        return _powers_fit(prepared.hold(), prepared.form.p)

    def nearest(self, queries: Any, k: int, own: I64, limits: F64 | float = np.inf) -> tuple[I64, F64]:
        """The k nearest rows of each prepared query but its own, by (distance, tie_rank), also beyond `limits`."""
        if not _powers_fit(queries, self._p):  # queries far beyond the rows
            return BruteSearch(self._prepared).nearest(queries, k, own, limits)
        indices, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k))
        pending = np.arange(len(queries))
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
        if not _powers_fit(queries, self._p):
            return BruteSearch(self._prepared).within(queries, radius, own)
        reach = float(self._form.scale.norm(radius)) * (1 + self._slack)
        sizes = self._tree.query_ball_point(queries, reach, p=self._p, workers=self._threads, return_length=True)
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
        done = self._form.of_norm(norms[:, -1] * (1 - self._slack)) > found[:, -1]
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
        self._center: F64 | None = prepared.midrange(self._columns) if by_product else None

    def nearest(self, queries: Any, k: int, own: I64, limits: F64 | float = np.inf) -> tuple[I64, F64]:
        """The k nearest rows of each prepared query but its own, by (distance, tie_rank).

        Rows beyond ``limits`` (q,) need not be found: -1 at the distance inf is where there are fewer.
        """
        count = queries.shape[0]
        indices, distances = np.full((count, k), -1), np.full((count, k), np.inf)
        limits = np.broadcast_to(limits, count)
        for start in range(0, count, self.batch):
            cut = slice(start, start + self.batch)
            self._into(indices[cut], distances[cut], queries[cut], own[cut], limits[cut])
        return indices, distances

    def within(self, queries: Any, radius: float, own: I64) -> tuple[I64, I64, F64]:
        """Lengths, rows and distances of each prepared query's list of rows at ``radius`` or less."""
        parts: list[tuple[I64, I64, F64]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        for start in range(0, queries.shape[0], self.batch):
            block, mine = queries[start : start + self.batch], own[start : start + self.batch]
            for at, rows, found in self._candidates(block, mine, lambda high: np.full(len(high), radius)):
                parts.append((at + start, rows, found))
        at, rows, found = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._prepared.lists(queries.shape[0], at, rows, found, radius)

    def _into(self, indices: I64, distances: F64, queries: Any, own: I64, limits: F64) -> None:
        """Fill the empty lists (q, k) of one batch."""
        count, k = indices.shape

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

    def _candidates(self, queries: Any, own: I64, limit: Callable[[F64], F64]) -> Iterator[tuple[I64, I64, F64]]:
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
        found = form.bounds(queries, columns, self._center)
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


def engine_for(prepared: PreparedRows, low: bool, threads: int = 1) -> TreeSearch | BruteSearch:
    """The faster search among prepared rows: a k-d tree where they are low in dimension and it can list them."""
    return TreeSearch(prepared, threads) if low and TreeSearch.possible(prepared) else BruteSearch(prepared)


TREE_FEATURES = 10  # up to here a k-d tree is faster than products, on 50,000 normal rows


class ExactSearch:
    """Nearest rows among ``rows`` (m, d), of any real dtype; distances are computed in float64.

    metric, metric_params: One of pynndescent's names with its parameters, or a function of two rows.
    tie_rank (m,): Order among rows at equal distance; by default their position.
    threads: Results are the same for any number.
    hold: Whether all rows may be held as the metric takes them, for a k-d tree or because that is dear to make; the
        blocked search works on rows where they are.
    method: "kdtree" or "brute".
    low: Whether rows have so few features that k-d trees are the faster ones, of all or of some at a time.
    Raises ScalemaniError: Unknown metric or parameters; from the searches, a distance that is negative or not finite.

    >>> search = ExactSearch(np.array([[0.0], [1.0], [3.0]]))
    >>> indices, distances = search.nearest(np.array([[2.5]]), k=2)
    >>> indices.tolist(), distances.tolist()
    ([[2, 1]], [[0.5, 1.5]])
    """

    def __init__(
        self,
        rows: Any,
        metric: Any = "euclidean",
        metric_params: Mapping[str, Any] | None = None,
        tie_rank: I64 | None = None,
        threads: int = 1,
        hold: bool = True,
    ) -> None:
        rows = csr_array(rows) if issparse(rows) else np.asarray(rows)
        low, high = rows.min(axis=0), rows.max(axis=0)  # of each feature
        if issparse(rows):
            low, high = low.toarray().ravel(), high.toarray().ravel()
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        middle = low + (high - low) / 2  # unlike a mean it doesn't depend on the rows' order
        form = make_form(metric, metric_params, rows.shape[1], middle, non_negative=bool((low >= 0).all()))
        rank = np.arange(rows.shape[0]) if tie_rank is None else np.asarray(tie_rank, dtype=np.int64)
        form.hold = form.hold and hold
        self._set(rows, form, rank, threads, hold)

    def _set(self, rows: Any, form: Form, tie_rank: I64, threads: int, hold: bool = True) -> None:
        self.rows, self.form, self.threads = rows, form, threads
        self.prepared = PreparedRows(rows, form, tie_rank)
        self.low = isinstance(form, NormForm) and form.has_tree and self.prepared.width <= TREE_FEATURES
        self.low = self.low and not (hold and not TreeSearch.possible(self.prepared))
        self._engine = engine_for(self.prepared, self.low and hold, threads)
        self.method = self._engine.method

    @property
    def n_rows(self) -> int:
        """Number of rows searched among, m."""
        return self.prepared.count

    @property
    def tie_rank(self) -> I64:
        """Order among rows at equal distance (m,)."""
        return self.prepared.tie_rank

    @property
    def block_rows(self) -> int:
        """Rows that are searched for at a time."""
        return self._engine.batch

    def apart(self, distances: F64) -> Any:
        """Whether rows at these distances have nothing in common: no neighbours, whatever is asked for."""
        return self.form.apart(distances)

    def nearest(self, queries: Any, k: int, exclude: I64 | None = None) -> tuple[I64, F64]:
        """The k nearest rows (q, k) of each query (q, d), by (distance, tie_rank), and their distances.

        exclude (q,): A row that is never listed for each query: its own index, or -1 for none.
        """
        available = self.n_rows - (exclude is not None and bool((np.asarray(exclude) >= 0).any()))
        if not 1 <= k <= available:
            raise ScalemaniError(f"{k} nearest rows were asked for; there are {available} to choose from")
        none = np.empty((0, k), np.int64), np.empty((0, k))
        tables, lengths = zip(none, *self._by_blocks(queries, exclude, self._nearest(k)), strict=True)
        return np.concatenate(tables), np.concatenate(lengths)

    def within(self, queries: Any, radius: float, exclude: I64 | None = None) -> tuple[I64, I64, F64]:
        """All rows at ``radius`` or less, each query's by (distance, tie_rank): indptr (q + 1,), indices, distances."""
        none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        parts = zip(none, *self._by_blocks(queries, exclude, self._within(radius)), strict=True)
        counts, indices, distances = map(np.concatenate, parts)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), indices, distances

    def paired(self, queries: Any, indices: I64) -> F64:
        """Distances (q, k) from each query to the rows listed for it, bit-equal to what ``nearest`` gives."""
        queries, indices = self._checked(queries), np.asarray(indices, dtype=np.int64)
        count, k = indices.shape
        out = np.empty((count, k))
        step = max(1, BLOCK_BYTES // (8 * self.prepared.width * max(1, k)))
        for start in range(0, count, step):
            listed = indices[start : start + step]
            block = self.prepared.queries(queries[start : start + step])
            at = np.repeat(np.arange(len(listed)), k)
            out[start : start + step] = self.prepared.distances(block, at, listed.ravel()).reshape(-1, k)
        return out

    def nearest_between(self, a: I64, b: I64) -> tuple[int, int, float]:
        """The shortest pair (i in a, j in b, distance) between two disjoint index sets; ties by content."""
        a, b = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        if len(a) > len(b):  # the larger set is the one worth a tree
            j, i, distance = self.nearest_between(b, a)
            return i, j, distance
        found, distances = self.part(b, self.rows[b]).nearest(self.rows[a], 1)
        tied = np.flatnonzero(distances[:, 0] == distances.min())
        ranks = np.stack([self.tie_rank[a[tied]], self.tie_rank[b[found[tied, 0]]]])
        best = tied[np.lexsort((ranks.max(axis=0), ranks.min(axis=0)))[0]]
        return int(a[best]), int(b[found[best, 0]]), float(distances[best, 0])

    def part(self, members: I64, rows: Any, hold: bool = True) -> ExactSearch:
        """The search among `members` alone, whose rows are `rows`, with this one's form: its parameters and centre."""
        made = ExactSearch.__new__(ExactSearch)
        made._set(rows, self.form, self.tie_rank[members], self.threads, hold)
        return made

    def each_nearest(self, k: int, starts: Sequence[int]) -> Iterator[tuple[I64, F64]]:
        """The k nearest others of the rows themselves, (b, k), by blocks of ``block_rows`` from each of ``starts``."""
        return self._by_blocks(self.rows, np.arange(self.n_rows), self._nearest(k), starts)

    def each_within(self, radius: float, starts: Sequence[int]) -> Iterator[tuple[I64, I64, F64]]:
        """Lengths (b,), rows and distances of the lists of others within ``radius``, by blocks like the above."""
        return self._by_blocks(self.rows, np.arange(self.n_rows), self._within(radius), starts)

    def _nearest(self, k: int) -> Callable[[Any, I64], Any]:
        def search(block: Any, own: I64) -> tuple[I64, F64]:
            found, distances = self._engine.nearest(block, k, own)
            check_finite(self.form, distances)
            return found, distances

        return search

    def _within(self, radius: float) -> Callable[[Any, I64], Any]:
        return lambda block, own: self._engine.within(block, radius, own)

    def _by_blocks(
        self, queries: Any, exclude: I64 | None, search: Callable[[Any, I64], Any], starts: Sequence[int] | None = None
    ) -> Iterator[Any]:
        """What ``search`` gives for blocks of queries, in the order of their starts, as they are done."""
        queries = self._checked(queries)
        own = np.full(queries.shape[0], -1) if exclude is None else np.asarray(exclude, dtype=np.int64)
        step = self.block_rows
        starts = range(0, queries.shape[0], step) if starts is None else starts

        def task(start: int) -> Any:
            return search(self.prepared.queries(queries[start : start + step]), own[start : start + step])

        if self.method == "kdtree":  # its queries have threads of their own, and no products
            yield from map(task, starts)
            return
        with single_blas_thread():
            yield from in_order(task, starts, self.threads)

    def _checked(self, queries: Any) -> Any:
        queries = csr_array(queries) if issparse(queries) else np.asarray(queries)
        if queries.ndim != 2 or queries.shape[1] != self.rows.shape[1]:
            raise ScalemaniError(
                f"queries have shape {queries.shape}; the rows searched among have {self.rows.shape[1]} features"
            )
        return queries


def check_finite(form: Form, distances: F64) -> None:
    """Raise where lists (q, k) hold infinite distances, unless these say that rows have nothing in common."""
    if not (np.isfinite(distances) | form.apart(distances)).all():
        raise ScalemaniError(
            f"metric={form.name!r} gives infinite distances to the {distances.shape[1]} nearest rows; rescale the "
            "features or use another metric"
        )
