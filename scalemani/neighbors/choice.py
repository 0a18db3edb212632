"""Which search is the cheapest, for the rows themselves and for queries, and what it takes, in seconds and in bytes.

By arithmetic, and by work that is counted for a seeded sample of the rows; never by a clock, a process or the number of
threads, or the same seed would give another graph. Seconds are of one core, measured once; only their ratios matter.
Bytes are upper bounds, from sizes alone.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from scalemani.aliases import F64, I64
from scalemani.cluster import machine
from scalemani.neighbors.descent import DescentRows, ShardIndex, complete_lists, descent_obstacle
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.forms import CountForm, FunctionForm, NormForm, PairForm
from scalemani.neighbors.parts import ClusterSearch, TriangleBounds, cluster_count, make_clusters
from scalemani.neighbors.prepared import BLOCK_BYTES
from scalemani.points.rows import held_bytes


class SearchStrategy(StrEnum):
    """How neighbours are searched for."""

    EXACT = "exact"  # among all rows
    CLUSTERS = "clusters"  # exactly, among clusters of them that can hold the nearest
    DESCENT = "nndescent"  # by an index of NN-descent, or one a shard


def search_bytes(n: int, width: int, neighbors: int, method: str, threads: int) -> int:
    """A neighbour search at work, besides the rows and the lists.

    width: Features of a row as the metric takes them.
    method: "kdtree" (a query for 8,192 rows), "brute" (six tables of bounds a thread, four arrays of gathered rows),
        "nndescent" or anything else (nothing).
    """
    if method == "kdtree":
        pairs = min(n, 8192) * (neighbors + 2)
        return 6 * min(BLOCK_BYTES, 8 * pairs * width) + 80 * pairs
    if method == "brute":
        tables = 6 * min(8 << 20, 8 * 512 * n)
        return threads * (tables + 4 * min(BLOCK_BYTES, 8 * 512 * min(n, 4 * neighbors) * width))
    if method == "nndescent":  # imported and compiled; rows in float32, their trees, candidates and heaps
        return (640 << 20) + n * (12 * width + 60 * (neighbors + 1))
    return 0


def cluster_bytes(n: int, width: int, neighbors: int) -> int:
    """Rows in clusters: their order, centres five times, tables between centres six, and the lists found so far."""
    clusters = cluster_count(n, width)
    return 40 * n + 6 * 8 * clusters**2 + 5 * 8 * clusters * width + 16 * n * neighbors


def lists_bytes(n: int, listed: int) -> int:
    """Neighbour lists of `listed` entries in all: int64 indices and float64 distances."""
    return 8 * (n + 1) + 16 * listed


DESCENT_START = 85.0  # pynndescent imports for 28 s and compiles for 57 s in every process
_QUERY_EVALUATIONS = 16.0  # of an index, in units of the list's length: within a factor of five of each count
_TABLE = 45e-9  # an entry of a table of bounds: its minimum, its comparison


def exact_seconds(search: ExactSearch, n_neighbors: int) -> float:
    """Projected seconds for all neighbours of all rows, exactly: by k-d trees where there may be some."""
    count = float(search.n_rows)
    if search.form.name == "precomputed":
        return count * count * _TABLE
    if search.method == "kdtree" or search.low:
        a_row = 35e-6 * 1.7 ** (search.prepared.width - 3) * (n_neighbors + 10) / 20  # of 50,000 normal rows
        return float(count * min(a_row * np.log2(count + 1) / 16, count * 100e-9))
    return count * count * (_TABLE + _pair_seconds(search))


def cluster_seconds(search: ExactSearch, pairs: float) -> float:
    """Projected seconds for all neighbours of all rows from clusters, so many pairs measured for each."""
    return float(search.n_rows) * pairs * (_TABLE + _pair_seconds(search))


def descent_seconds(search: ExactSearch, n_neighbors: int) -> float:
    """Projected seconds for NN-descent from one thread, its compilation counted."""
    evaluations = 60.0 * search.n_rows * (n_neighbors + 1)
    return DESCENT_START + evaluations * (20e-9 + _evaluation_seconds(search))


def _pair_seconds(search: ExactSearch) -> float:
    """Of one pair in a blocked exact search."""
    form, width = search.form, float(search.prepared.width)
    if issparse(search.rows) and getattr(form, "keeps_csr", False):
        per_row = float(search.rows.nnz) / max(1, search.n_rows)
        return 2e-9 * per_row * max(per_row / width, 0.02) + 10e-9
    if isinstance(form, CountForm) or (isinstance(form, NormForm) and form.p == 2):
        return 0.06e-9 * width
    if isinstance(form, NormForm):
        return (1e-9 if form.p in (1.0, np.inf) else 25e-9) * width
    if isinstance(form, PairForm):
        return (2e-9 if form.has_table else 150e-9) * width
    return _evaluation_seconds(search)


def _evaluation_seconds(search: ExactSearch) -> float:
    """Of one distance in compiled code."""
    form, width = search.form, float(search.prepared.width)
    if isinstance(form, FunctionForm):
        if not form.user_given:
            return 2e-9 * width * width  # optimal transport
        return 3e-9 * width if form.compiled else 2e-6
    if issparse(search.rows):
        return 5e-9 * float(search.rows.nnz) / max(1, search.n_rows)
    return (0.4e-9 if isinstance(form, NormForm) and form.p in (1.0, 2.0, np.inf) else 10e-9) * width


LEAST = 4096  # rows: smaller shards save little and are many


def shard_rows(room: int | None, count: int, width: int, n_neighbors: int, method: str, threads: int) -> int:
    """Rows of a shard: all of them, or the half, the fourth and so on, until that fits.

    room: Bytes that the search may take besides the rows and two copies of the lists; None for any number.

    >>> shard_rows(None, 100_000, 784, 10, "nndescent", 2), shard_rows(2 << 30, 200_000, 784, 10, "nndescent", 2)
    (100000, 100000)
    """
    rows = count
    while room is not None and rows > LEAST and working_bytes(rows, count, width, n_neighbors, method, threads) > room:
        rows = -(-rows // 2)
    return rows


def working_bytes(rows: int, count: int, width: int, n_neighbors: int, method: str, threads: int) -> int:
    """Bytes of a search whose shards have so many rows of all."""
    found = search_bytes(rows, width, n_neighbors, method, threads)
    if rows == count and method != "brute":
        return found
    found += cluster_bytes(count, width, n_neighbors) if count >= LEAST else 0
    if method == "kdtree":
        return found + rows * (8 * width + 24)
    return found if method == "brute" else max(found, search_bytes(count, width, n_neighbors, "brute", threads))


def needed_bytes(room: int | None, count: int, width: int, n_neighbors: int, method: str, threads: int) -> int:
    """Bytes of a search whose shards are as large as there is room for."""
    rows = shard_rows(room, count, width, n_neighbors, method, threads)
    return working_bytes(rows, count, width, n_neighbors, method, threads)


def search_room(memory: int, rows: Any, n_rows: int, n_distinct: int, n_neighbors: int) -> int:
    """Bytes that a search may take, of those a process may hold, besides the points and two copies of the lists."""
    held = held_bytes(rows) + 8 * n_rows + 32 * n_distinct
    lists = lists_bytes(n_distinct, n_distinct * n_neighbors)
    return max(0, memory - machine.FIRST_USE - held - 2 * lists)


WORTH_CLUSTERS = 20.0  # projected seconds of a search, below which all pairs are looked at, and no choice is made
_TREE_ROWS = 8192  # of a cluster that a k-d tree searches
_SAMPLED = 200  # rows


class Chosen(NamedTuple):
    """The search of all rows among themselves.

    clusters: What searches among clusters, or says which shards a row asks.
    seconds: Projected for one core.
    shard_rows: Rows of a shard of NN-descent at most: all rows where one index is made.
    """

    strategy: SearchStrategy
    clusters: ClusterSearch | None = None
    seconds: float = 0.0
    shard_rows: int = 0


def takes_descent(knn: str, search: ExactSearch, n_neighbors: int) -> bool:
    """Whether NN-descent is asked for, or cheaper than all pairs."""
    if knn != "auto":
        return knn == "nndescent"
    if descent_obstacle(search) is not None:
        return False
    return descent_seconds(search, n_neighbors) < exact_seconds(search, n_neighbors)


def choose_search(
    search: ExactSearch, knn: str, n_neighbors: int | None, random_state: int, room: int | None
) -> Chosen:
    """The cheapest search of all rows in `room` bytes; within a radius (no `n_neighbors`) there is but one."""
    if n_neighbors is None or search.form.name == "precomputed":
        return Chosen(SearchStrategy.EXACT, seconds=exact_seconds(search, n_neighbors or _TYPICAL_LIST))
    count, width = search.n_rows, search.prepared.width
    seconds, descent = exact_seconds(search, n_neighbors), takes_descent(knn, search, n_neighbors)
    may = knn != "nndescent" and search.method == "brute" and not search.low and TriangleBounds.known(search.form)
    if may and seconds >= WORTH_CLUSTERS and count >= LEAST:
        clusters = ClusterSearch(search, make_clusters(search, random_state))
        in_clusters = cluster_seconds(search, counted_pairs(clusters, n_neighbors, None, random_state))
        if in_clusters < (descent_seconds(search, n_neighbors) if descent else seconds):
            return Chosen(SearchStrategy.CLUSTERS, clusters, in_clusters)
    if descent:
        rows = shard_rows(room, count, width, n_neighbors, "nndescent", search.threads)
        if rows >= count:
            return Chosen(SearchStrategy.DESCENT, shard_rows=count)
        clusters = ClusterSearch(search, make_clusters(search, random_state, min(rows, LEAST)))
        return Chosen(SearchStrategy.DESCENT, clusters, shard_rows=rows)
    if search.method == "brute" and search.low:  # memory can't hold one tree of all rows
        clusters = ClusterSearch(search, make_clusters(search, random_state, least_rows=_TREE_ROWS))
        return Chosen(SearchStrategy.CLUSTERS, clusters, seconds)
    return Chosen(SearchStrategy.EXACT, seconds=seconds)


def counted_pairs(among: ClusterSearch, n_neighbors: int, radius: float | None, random_state: int) -> float:
    """Distances and bounds that a row takes among clusters: counted for a sample of the rows, with these left in."""
    search, trial = among.search, ClusterSearch(among.search, among.clusters)
    rng = np.random.default_rng([abs(int(random_state)), 4])
    sample = search.rows[np.sort(rng.choice(search.n_rows, min(_SAMPLED, search.n_rows), replace=False))]
    if radius is not None:
        trial.within(sample, radius)
    else:
        trial.nearest(sample, min(n_neighbors + 1, search.n_rows))
    return float(trial.pairs / sample.shape[0])


FAR = 3.0  # how many times dearer exact lists have to be than those of an index, which misses some
INDEX_BYTES = 4 << 30  # the most that an index may take: each process has its own
SEED = 0  # exact lists don't depend on it; those of an index are the same in every process
_MAKING = 3.0  # tables of bounds between all rows and the centres that clusters cost
_TYPICAL_LIST = 10  # rows, where a radius doesn't say


class QuerySearch:
    """Searches for queries; what a strategy needs is made once, when it is first asked for.

    n_neighbors, radius: Rows of each query's list, or all rows within it.
    approximate: Whether lists may come from an index.

    Threads of a process share it. Lists of a query follow from that query and the strategy alone; those of the exact
    ones have the same bits.
    """

    def __init__(self, search: ExactSearch, n_neighbors: int | None, radius: float | None, approximate: bool) -> None:
        self.search, self.radius = search, radius
        self.k = min(n_neighbors or _TYPICAL_LIST, search.n_rows)
        self._approximate = approximate and radius is None
        self._lock = threading.RLock()
        self._chosen: dict[int, SearchStrategy] = {}
        self._clusters: ClusterSearch | None = None
        self._index: ShardIndex | None = None

    def is_long(self, total: int) -> bool:
        """Whether so many queries are worth a choice, which takes as long as what it may save."""
        return self.search.method == "brute" and not self.search.low and self._exact_seconds(total) >= WORTH_CLUSTERS

    def choose(self, total: int) -> SearchStrategy:
        """The strategy for so many queries in all."""
        if not self.is_long(total):
            return SearchStrategy.EXACT
        with self._lock:
            if total not in self._chosen:
                self._chosen[total] = self._choice(total)
            return self._chosen[total]

    def nearest(self, queries: Any, strategy: str = SearchStrategy.EXACT) -> tuple[I64, F64]:
        """The nearest rows (q, k) of each query, by (distance, rank), and their distances."""
        if strategy == SearchStrategy.CLUSTERS:
            return self._among_clusters().nearest(queries, self.k)
        return self._by_index(queries) if strategy == SearchStrategy.DESCENT else self.search.nearest(queries, self.k)

    def within(self, queries: Any, strategy: str = SearchStrategy.EXACT) -> tuple[I64, I64, F64]:
        """All rows within the radius of each query: indptr (q + 1,), rows, distances."""
        assert self.radius is not None
        search = self._among_clusters() if strategy == SearchStrategy.CLUSTERS else self.search
        return search.within(queries, self.radius)

    def recall(self, queries: Any) -> float:
        """Share of what is listed through the index for some queries that is no farther than the true k-th row."""
        found, true = self._by_index(queries)[1], self.search.nearest(queries, self.k)[1]
        return float(np.mean(found <= true[:, -1:]))

    def _exact_seconds(self, total: int) -> float:
        return exact_seconds(self.search, self.k) / self.search.n_rows * total

    def _choice(self, total: int) -> SearchStrategy:
        strategy, seconds, prepared = SearchStrategy.EXACT, self._exact_seconds(total), self.search.prepared
        if self.search.n_rows >= LEAST and TriangleBounds.known(self.search.form):
            making = cluster_seconds(self.search, _MAKING * cluster_count(self.search.n_rows, prepared.width))
            if making < seconds:
                pairs = counted_pairs(self._among_clusters(), self.k, self.radius, SEED)
                in_clusters = making + cluster_seconds(self.search, pairs) / self.search.n_rows * total
                if in_clusters < seconds:
                    strategy, seconds = SearchStrategy.CLUSTERS, in_clusters
        return SearchStrategy.DESCENT if self._may_index() and FAR * self._index_seconds(total) < seconds else strategy

    def _index_seconds(self, total: int) -> float:
        """Projected seconds for an index of NN-descent and so many queries of it."""
        asked = _QUERY_EVALUATIONS * total * (self.k + 1) * (20e-9 + _evaluation_seconds(self.search))
        return descent_seconds(self.search, self.k) + asked

    def _may_index(self) -> bool:
        count, width = self.search.n_rows, self.search.prepared.width
        fits = search_bytes(count, width, self.k, "nndescent", 1) <= INDEX_BYTES
        return self._approximate and fits and self.k < count and descent_obstacle(self.search) is None

    def _among_clusters(self) -> ClusterSearch:
        with self._lock:
            if self._clusters is None:
                self._clusters = ClusterSearch(self.search, make_clusters(self.search, SEED))
            return self._clusters

    def _by_index(self, queries: Any) -> tuple[I64, F64]:
        with self._lock:
            if self._index is None:
                self._index = ShardIndex(DescentRows(self.search), None, self.k, SEED)
        return complete_lists(self.search, self._index.ask_alone(queries), self.k, queries)
