"""Exact neighbours among clusters of the rows: a row asks those clusters alone that can hold its neighbours.

`make_clusters` cuts the rows into clusters that are close in space. `TriangleBounds` gives lower bounds on distances
from a row to all rows of a cluster. `ClusterSearch` finds the neighbours of the rows themselves, or of queries: a row
asks its own cluster first, which gives it a k-th distance, and then each cluster whose bound does not exceed the k-th
distance so far. Ties are never skipped, so that lists are by (distance, rank) to the bit, whatever the clusters are and
whichever block a row is in.

For norms (and increasing functions of them) lengths from a centre obey the triangle inequality, and under the Euclidean
norm a row that is nearer to its own centre than to another lies beyond a hyperplane (Uhlmann, "Satisfying general
proximity/similarity queries with metric trees", Information Processing Letters 40, 1991, for the former). Some metrics
of counts and shares obey the triangle inequality, too. Of others nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.aliases import F64, I64
from scalemani.cluster.threads import single_blas_thread
from scalemani.neighbors.exact import ExactSearch, check_finite, engine_for
from scalemani.neighbors.forms import EPS, CountForm, Form, NormForm, PairForm
from scalemani.neighbors.metrics import METRICS
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows, in_order
from scalemani.points.rows import let_go

MOST_CLUSTERS = 2048
CENTER_BYTES = 16 << 20
_SAMPLED = 16  # rows a centre, of which it becomes the mean
_ROUNDS = 3
_TABLE_BYTES = 8 << 20  # of bounds between a block of rows and all centres
_FIRST = 4  # of the nearest clusters after a row's own: what they give rules out others
_LEAST = 32  # queries of a thread at once
_MOST = 8192  # rows at once
_LOST = 1e-150  # norms below this may vanish in a square


class TriangleBounds:
    """Lower bounds on lengths from rows to the rows of each cluster; a metric's distances increase with lengths.

    form: The metric, of which :meth:`known` is true.
    middle (d',): What products of dense rows under the Euclidean norm are centred on: any point in the midst of them.
    centres (C, d'): One for each cluster, prepared.
    reach (C,): Upper bound on the length from each centre to its rows; -inf for a cluster without rows.
    """

    def __init__(self, form: Form, middle: F64 | None, centers: Any) -> None:
        self._form = NormForm(form.name, form.p) if isinstance(form, NormForm) else form
        self._scale = form.scale if isinstance(form, NormForm) else None
        self.euclidean = isinstance(form, NormForm) and form.p == 2
        self._middle, self.centers = middle, centers
        self.reach = np.full(centers.shape[0], -np.inf)
        self._doubt = 0.0  # by how much a row's squared length to its own centre may be the larger one

    @staticmethod
    def known(form: Form) -> bool:
        """Whether a metric has such lengths."""
        bounded = isinstance(form, CountForm) or (isinstance(form, PairForm) and form.has_table)
        return isinstance(form, NormForm) or (bounded and METRICS[form.name].proper)

    @property
    def count(self) -> int:
        """Number of clusters, C."""
        return int(self.centers.shape[0])

    @cached_property
    def between(self) -> tuple[F64, F64]:
        """Bounds (C, C), lower and upper, on the lengths between centres."""
        return self.table(self.centers, self.centers)

    def table(self, a: Any, b: Any) -> tuple[F64, F64]:
        """Bounds (q, c), lower and upper, on the lengths between prepared rows and centres."""
        middle = self._middle
        if self.euclidean and not issparse(a) and middle is None:
            middle = np.zeros(a.shape[1])
        found = self._form.bounds(a, b, middle)
        assert found is not None
        return found

    def length(self, distances: F64) -> F64:
        """The longest lengths whose distances are no more than these."""
        found = distances if self._scale is None else np.asarray(self._scale.norm(distances))
        return np.asarray(found * (1 + 32 * EPS) + _LOST)

    def nearest(self, block: Any) -> tuple[Any, F64, float]:
        """The cluster of each prepared row (b,): the nearest centre's; the length to it at most; the doubt in it."""
        low, high = self.table(block, self.centers)
        clusters = high.argmin(axis=1)
        lengths, doubt = high[np.arange(len(clusters)), clusters], 0.0
        if self.euclidean:
            np.multiply(high, high, out=high)
            high -= low * low
            doubt = float(high.max(initial=0.0))
        return clusters, lengths, doubt

    def learn(self, clusters: Any, lengths: F64, doubt: float) -> None:
        """Take rows, as :meth:`nearest` gives them, into their clusters."""
        np.maximum.at(self.reach, clusters, lengths)
        self._doubt = max(self._doubt, doubt)

    def renumber(self, old: Any) -> None:
        """Number the clusters anew: cluster i is what was ``old[i]``; pieces of one have its bounds."""
        low, high = self.between
        self.centers, self.reach = self.centers[old], self.reach[old]
        self.between = low[np.ix_(old, old)], high[np.ix_(old, old)]

    def apart(self, home: int) -> F64:
        """Lower bound (C,) on the length between any row of a cluster and any of each cluster."""
        between = self.between[0][home]
        return np.asarray(self._lowered(between - self.reach[home] - self.reach, between))

    def bounds(self, block: Any, home: int, clusters: Any) -> F64:
        """Lower bounds (q, c) on the lengths from each prepared row to any row of some clusters.

        They hold for any row and any `home`: a row of another cluster lies on that side of the plane between the two
        centres, wherever the block's rows do. The nearest centre's are the sharpest.
        """
        listed = np.append(np.asarray(clusters, np.int64), home)
        low, high = self.table(block, self.centers[listed])
        ball = self._lowered(low[:, :-1] - self.reach[listed[:-1]], low[:, :-1])
        if not self.euclidean:
            return np.asarray(ball)
        between = self.between[1][home, listed[:-1]]
        gap = low[:, :-1] ** 2 * (1 - 8 * EPS) - high[:, -1:] ** 2 * (1 + 8 * EPS) - self._doubt * (1 + 8 * EPS)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            plane = np.where(between > 0, gap / (2 * between) * (1 - 16 * EPS), 0.0)
        return np.asarray(np.maximum(ball, plane))

    @staticmethod
    def _lowered(bound: F64, terms: F64) -> F64:
        """A difference of lengths, less what its rounding may have added."""
        return bound - 16 * EPS * np.abs(terms)


@dataclass(frozen=True)
class Clusters:
    """Rows by cluster.

    order (m,): Rows, cluster after cluster, ascending in each.
    starts (C + 1,): Where each cluster begins in that order.
    bounds: What bounds distances to the clusters, which it numbers alike; None where nothing does.
    """

    order: I64
    starts: I64
    bounds: TriangleBounds | None

    @property
    def count(self) -> int:
        """Number of clusters, C."""
        return len(self.starts) - 1

    def rows(self, cluster: int) -> I64:
        """Rows of a cluster, ascending."""
        return self.order[self.starts[cluster] : self.starts[cluster + 1]]

    def homes(self, positions: Any) -> I64:
        """The cluster of the rows at some positions in the order."""
        return np.asarray(np.searchsorted(self.starts, positions, side="right") - 1)


def cluster_count(n: int, width: int) -> int:
    """How many clusters of n rows are tried: as many as rows in each, which makes the least of both together."""
    return int(min(np.sqrt(n), MOST_CLUSTERS, max(2, CENTER_BYTES // (8 * width))))


def make_clusters(search: ExactSearch, seed: int, most_rows: int | None = None, least_rows: int = 1) -> Clusters:
    """Clusters that are close in space where the metric says what that is, else runs of rows; whatever the threads.

    most_rows: Larger clusters are cut, anyhow.
    least_rows: Of a cluster, on average: a k-d tree is worth its making.
    """
    prepared = search.prepared
    most_rows = prepared.count if most_rows is None else most_rows
    if not TriangleBounds.known(search.form):
        runs = _even(prepared.count, max(1, -(-prepared.count // most_rows)))
        return Clusters(np.arange(prepared.count), _sums(runs), None)
    with single_blas_thread():
        count = max(1, min(cluster_count(prepared.count, prepared.width), prepared.count // least_rows))
        bounds = _centers(prepared, count, np.random.default_rng([abs(int(seed)), 2]))
        home_of = np.empty(prepared.count, np.int64)
        step = _step(prepared, bounds.count)

        def nearest(start: int) -> Any:
            return bounds.nearest(prepared.take(slice(start, start + step)))

        starts = range(0, prepared.count, step)
        for start, (homes, lengths, doubt) in zip(starts, in_order(nearest, starts, search.threads), strict=True):
            home_of[start : start + step] = homes
            bounds.learn(homes, lengths, doubt)
    sizes = np.bincount(home_of, minlength=bounds.count)
    sequence = _neighboring(bounds.between[0], sizes)
    position = np.empty(bounds.count, np.int64)
    position[sequence] = np.arange(len(sequence))
    order = np.argsort(position[home_of], kind="stable")
    # In their new order; the pieces of one that is too large share its centre.
    pieces: I64 = np.maximum(1, -(-sizes[sequence] // most_rows))
    cut = [_even(size, n) for size, n in zip(sizes[sequence].tolist(), pieces.tolist(), strict=True)]
    bounds.renumber(np.repeat(sequence, pieces))
    return Clusters(order.astype(np.int64, copy=False), _sums(np.concatenate(cut)), bounds)


def _centers(prepared: PreparedRows, count: int, rng: np.random.Generator) -> TriangleBounds:
    """Centres: sampled rows; under the Euclidean norm the means of those nearest to each."""
    rows = rng.choice(prepared.count, min(prepared.count, _SAMPLED * count), replace=False)
    centers = prepared.take(np.sort(rows[:count]))
    dense = not issparse(centers)
    middle = centers.mean(axis=0) if dense else None
    bounds = TriangleBounds(prepared.form, middle, centers)
    if bounds.euclidean and dense:
        for _ in range(_ROUNDS):
            bounds = TriangleBounds(prepared.form, middle, _means(prepared, np.sort(rows), bounds))
    return bounds


def _means(prepared: PreparedRows, rows: I64, bounds: TriangleBounds) -> F64:
    """The mean of the rows nearest to each centre; a centre without rows stays."""
    sums, counts = np.zeros_like(bounds.centers), np.zeros(bounds.count)
    step = _step(prepared, bounds.count)
    for start in range(0, len(rows), step):
        block = prepared.take(rows[start : start + step])
        nearest = bounds.table(block, bounds.centers)[1].argmin(axis=1)
        np.add.at(counts, nearest, 1)
        np.add.at(sums, nearest, block)
    filled = counts > 0
    return np.asarray(np.where(filled[:, None], sums / np.maximum(counts, 1)[:, None], bounds.centers))


def _step(prepared: PreparedRows, count: int) -> int:
    return max(1, min(_TABLE_BYTES // (8 * count), BLOCK_BYTES // (8 * prepared.width)))


def _neighboring(between: F64, sizes: Any) -> I64:
    """Clusters with rows, in an order in which near ones are near: halves between two that are far apart, and so on."""
    waiting, sequence = [np.flatnonzero(sizes > 0)], []
    while waiting:
        some = waiting.pop()
        if len(some) < 3:
            sequence.extend(some.tolist())
            continue
        one = some[between[some[0], some].argmax()]
        other = some[between[one, some].argmax()]
        some = some[np.argsort(between[one, some] - between[other, some], kind="stable")]
        total = np.cumsum(sizes[some])
        half = int(np.clip(np.searchsorted(total, total[-1] / 2), 1, len(some) - 1))
        waiting += [some[half:], some[:half]]
    return np.asarray(sequence, np.int64)


def _even(size: int, pieces: int) -> I64:
    return np.diff(np.arange(pieces + 1) * int(size) // pieces)


def _sums(sizes: I64) -> I64:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


class Nearest:
    """The k nearest rows found so far of each query: table (q, k) and lengths (q, k); -1 at inf for none."""

    def __init__(self, count: int, k: int, tie_rank: I64) -> None:
        self.k, self._rank = k, tie_rank
        self.table, self.lengths = np.full((count, k), -1), np.full((count, k), np.inf)

    def merge(self, some: Any, found: I64, lengths: F64, *, again: bool = False) -> None:
        """Take rows (b, c) found for some queries into their lists; `again` if they may be there already."""
        found = np.concatenate([self.table[some], found], axis=1)
        lengths = np.concatenate([self.lengths[some], lengths], axis=1)
        found, lengths = self._sorted(found, lengths)
        if again:
            twice = (found[:, 1:] == found[:, :-1]) & (found[:, 1:] >= 0)
            if twice.any():
                found[:, 1:][twice], lengths[:, 1:][twice] = -1, np.inf
                found, lengths = self._sorted(found, lengths)
        self.table[some], self.lengths[some] = found[:, : self.k], lengths[:, : self.k]

    def _sorted(self, found: I64, lengths: F64) -> tuple[I64, F64]:
        order = np.lexsort((self._rank[found], lengths), axis=1)
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(lengths, order, axis=1)


class ClusterSearch:
    """Exact neighbours among clusters, with the methods of ExactSearch. Threads of a process may search at once.

    clusters: With bounds, but for :meth:`among`.
    pairs: Distances, and bounds on them, that :meth:`nearest` and :meth:`within` computed: a count of the work.
    """

    def __init__(self, search: ExactSearch, clusters: Clusters) -> None:
        self.search, self.clusters = search, clusters
        self.n_rows, self.method = search.n_rows, "kdtree" if search.low else "brute"
        self.block_rows = max(1, min(_MOST, _TABLE_BYTES // (8 * max(search.prepared.width, clusters.count))))
        self._threads = 1 if search.low else search.threads  # blocks at once; a tree's queries have their own
        self.pairs = 0

    @property
    def bounds(self) -> TriangleBounds:
        """The bounds of the clusters."""
        assert self.clusters.bounds is not None
        return self.clusters.bounds

    def each_nearest(self, k: int, starts: Sequence[int]) -> Iterator[tuple[I64, F64, int]]:
        """As :meth:`ExactSearch.each_nearest`, of rows in the clusters' order, with how much was computed for each."""

        def block(start: int) -> tuple[I64, F64, int]:
            let_go(self.search.rows)
            at = np.arange(start, min(start + self.block_rows, self.n_rows))
            return self._lists(self.search.prepared.take(self.clusters.order[at]), k, self.clusters.homes(at), at)

        with single_blas_thread():
            for table, lengths, pairs in in_order(block, starts, self._threads):
                check_finite(self.search.form, lengths)
                yield table, lengths, pairs

    def nearest(self, queries: Any, k: int) -> tuple[I64, F64]:
        """The k nearest rows (q, k) of each query (q, d) and their distances, as ExactSearch.nearest gives them."""

        def block(some: slice) -> tuple[I64, F64, int]:
            prepared = self.search.prepared.queries(queries[some])
            return self._lists(prepared, k, self._homes(prepared))

        none = np.empty((0, k), np.int64), np.empty((0, k)), 0
        with single_blas_thread():
            found = [none, *in_order(block, self._cuts(queries.shape[0]), self._threads)]
        tables, distances, pairs = zip(*found, strict=True)
        self.pairs += sum(pairs)
        lengths = np.concatenate(distances)
        check_finite(self.search.form, lengths)
        return np.concatenate(tables), lengths

    def within(self, queries: Any, radius: float) -> tuple[I64, I64, F64]:
        """All rows within a radius, as ExactSearch.within gives them: indptr (q + 1,), rows and distances."""
        count, every = queries.shape[0], np.arange(self.clusters.count)
        found: list[tuple[I64, I64, F64]] = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        limit = self.bounds.length(np.asarray(radius))
        with single_blas_thread():
            for cut in self._cuts(count):
                prepared = self.search.prepared.queries(queries[cut])
                for home, mine in _groups(self._homes(prepared)):
                    may = ~(self.bounds.bounds(prepared[mine], home, every) > limit)
                    self.pairs += 2 * may.size
                    for cluster, some in _by_cluster(may):
                        asking, there = mine[some], self.clusters.rows(cluster)
                        sizes, listed, far = self._engine(there).within(
                            self._dense(prepared[asking]), radius, np.full(len(asking), -1)
                        )
                        found.append((np.repeat(asking, sizes) + cut.start, there[listed], far))
                        self.pairs += len(asking) * len(there)
        at, listed, far = (np.concatenate(column) for column in zip(*found, strict=True))
        sizes, listed, far = self.search.prepared.lists(count, at, listed, far, radius)
        return _sums(sizes), listed, far

    def among(self, there: I64, rows: I64, k: int) -> tuple[I64, F64]:
        """The k nearest (b, k) of rows among the rows `there`, the same or others; -1 at inf where there are fewer."""
        found, every = Nearest(len(rows), k, self.search.tie_rank), np.arange(len(rows))
        own = every if rows is there else None
        self._ask(found, there, self.search.prepared.take(rows), every, own)
        return found.table, found.lengths

    def _lists(self, queries: Any, k: int, homes: I64, at: I64 | None = None) -> tuple[I64, F64, int]:
        """Lists (q, k) of prepared queries, their distances, and how many distances and bounds that took.

        homes (q,): The cluster that each begins with.
        at (q,): Positions in the clusters' order of queries that are rows themselves.
        """
        found, every = Nearest(len(homes), k, self.search.tie_rank), np.arange(self.clusters.count)
        low, pairs = np.full((len(homes), len(every)), np.inf), 0  # inf: it need not be asked
        for home, mine in _groups(homes):
            near = every
            if at is None:
                pairs += self._ask(found, self.clusters.rows(home), queries, mine) + low[mine].size
            else:
                pairs += self._ask(
                    found, self.clusters.rows(home), queries, mine, own=at[mine] - self.clusters.starts[home]
                )
                limit = self.bounds.length(found.lengths[mine, -1]).max()
                near = np.flatnonzero(~(self.bounds.apart(home) > limit))
            low[mine[:, None], near] = self.bounds.bounds(queries[mine], home, near)
            pairs += len(mine) * (len(near) + 1)
        low[np.arange(len(homes)), homes] = np.inf
        first = np.argpartition(low, min(_FIRST, low.shape[1]) - 1, axis=1)[:, :_FIRST]
        wanted = np.zeros(low.shape, bool)
        np.put_along_axis(wanted, first, True, axis=1)
        pairs += self._ask_all(found, queries, low, wanted)
        low[wanted] = np.inf
        pairs += self._ask_all(found, queries, low, np.ones(low.shape, bool))
        return found.table, found.lengths, pairs

    def _ask_all(self, found: Nearest, queries: Any, low: F64, wanted: Any) -> int:
        """Ask the wanted clusters (q, C) that can hold nearer rows; bounds that are no numbers rule nothing out."""

        def may(low: F64, some: Any) -> Any:
            return ~((low > self.bounds.length(found.lengths[some, -1])[:, None]) | np.isposinf(low))

        pairs = 0
        for cluster, asking in _by_cluster(wanted & may(low, slice(None))):
            still = may(low[asking, cluster][:, None], asking)[:, 0]
            pairs += self._ask(found, self.clusters.rows(cluster), queries, asking[still])
        return pairs

    def _ask(self, found: Nearest, there: I64, queries: Any, asking: I64, own: I64 | None = None) -> int:
        """Search some rows for some of the queries; `own` are the positions in them of those that are such rows."""
        k = min(found.k, len(there) - (own is not None))
        if k < 1 or not len(asking):
            return 0
        own = np.full(len(asking), -1) if own is None else own
        limits = found.lengths[asking, -1]
        near, lengths = self._engine(there).nearest(self._dense(queries[asking]), k, own, limits)
        found.merge(asking, np.where(near >= 0, there[near], -1), lengths)
        return len(asking) * len(there)

    def _engine(self, there: I64) -> Any:
        prepared = self.search.prepared
        block = self._dense(prepared.take(there))
        part = PreparedRows.part(block, prepared.form, prepared.tie_rank[there])
        return engine_for(part, self.search.low, self.search.threads)

    def _dense(self, block: Any) -> Any:
        return block.toarray() if self.search.low and issparse(block) else block

    def _homes(self, prepared: Any) -> I64:
        """The cluster with the nearest centre of each query (q,)."""
        starts = range(0, prepared.shape[0], _step(self.search.prepared, self.clusters.count))
        found = [self.bounds.nearest(prepared[at : at + starts.step])[0] for at in starts]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _cuts(self, count: int) -> list[slice]:
        """Runs of queries whose prepared rows, and whose bounds on all clusters, are not too many bytes."""
        fit = BLOCK_BYTES // (8 * max(self.search.prepared.width, self.clusters.count))
        step = max(1, min(fit, max(_LEAST, -(-count // self._threads))))
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _by_cluster(wanted: Any) -> Iterator[tuple[int, I64]]:
    """Each cluster that any query wants (q, C), with the queries that do."""
    for cluster in np.flatnonzero(wanted.any(axis=0)):
        yield int(cluster), np.flatnonzero(wanted[:, cluster])


def _groups(homes: I64) -> Iterator[tuple[int, I64]]:
    """Each cluster that is the home of any query, with these."""
    order = np.argsort(homes, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(homes[order])) + 1) if len(order) else ():
        yield int(homes[mine[0]]), mine
