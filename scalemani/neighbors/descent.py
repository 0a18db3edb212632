"""Approximate neighbours by NN-descent (pynndescent), bit-equal for a seed.

Only candidates are taken from it: :func:`complete_lists` computes distances again in float64. Where a metric is a norm
between prepared rows, the descent searches those rows, so that parameters mean the same as in the exact search and a
common offset is taken off in float64, before anything becomes float32. Where there is no room for an index of all rows,
`DescentShards` makes one of each shard, one after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from scalemani.aliases import F64, I64
from scalemani.cluster.kernel_cache import announce
from scalemani.cluster.threads import single_blas_thread
from scalemani.errors import ScalemaniError
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.forms import CountForm, Form, FunctionForm, NormForm
from scalemani.neighbors.functions import one_numba_thread
from scalemani.neighbors.lists import SearchStats
from scalemani.neighbors.parts import ClusterSearch, Nearest
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows
from scalemani.points.rows import let_go
from scalemani.storage.pieces import Pieces

_EPSILON = 0.2  # how far a query looks beyond its k-th candidate: 99.8 % were found on images, 99.6 % with 0
_QUERIES = 8192  # at a time
_DENSE_BYTES = 2 << 30  # the most that CSR rows may take as dense float32
# What pynndescent has for CSR rows, of the metrics that are passed to it by name.
_SPARSE_NAMES = frozenset(
    ["canberra", "braycurtis", "hamming", "jensen_shannon", "symmetric_kl", "jaccard", "dice", "matching"]
    + ["kulsinski", "rogerstanimoto", "russellrao", "sokalsneath", "sokalmichener"]
)


def descent_obstacle(search: ExactSearch) -> str | None:
    """Why NN-descent can't search these rows with this metric, or None where it can."""
    form = search.form
    if form.alone:
        return "NN-descent does not know a kernel's distances"
    if isinstance(form, FunctionForm) and not form.compiled:
        return f"metric={form.name!r} is a plain function; NN-descent needs one compiled by numba.njit"
    if isinstance(form, FunctionForm) and form.keyword_only:
        return f"metric={form.name!r} is a function with parameters; bind them inside the function"
    if issparse(search.rows) and not _stays_csr(form):
        if isinstance(form, NormForm) and 4 * search.n_rows * search.prepared.width <= _DENSE_BYTES:
            return None
        return f"pynndescent has no metric={form.name!r} for sparse rows of this size"
    return None


def descent_candidates(search: ExactSearch, n_neighbors: int, random_state: int) -> I64:
    """Candidate neighbours of every row, from one thread: one piece of work, which can't be taken up half done.

    n_neighbors: Neighbours wanted, the row itself not counted.
    -> (m, n_neighbors + 1): As pynndescent gives them: the row itself among them, -1 where none was found, perhaps
        repeats.
    Raises ScalemaniError: As :class:`DescentRows`.
    """
    return ShardIndex(DescentRows(search), None, n_neighbors, random_state).own()


def complete_lists(search: ExactSearch, candidates: I64, k: int, queries: Any = None) -> tuple[I64, F64]:
    """Lists of exactly k rows from candidates, with -1 and repeats among them; too few are searched for exactly.

    queries (q, d): Whose lists; by default the rows themselves, each without itself.
    """
    own = np.full(len(candidates), -1) if queries is not None else np.arange(len(candidates))
    queries, found = search.rows if queries is None else queries, Nearest(len(candidates), k, search.tie_rank)
    _take(search, found, candidates, queries, own, np.arange(len(candidates)))
    return completed(search, found, queries, own)


def completed(search: ExactSearch, found: Nearest, queries: Any, own: I64) -> tuple[I64, F64]:
    """The lists (q, k) found and their distances; those that are too short are searched for exactly."""
    short = np.flatnonzero((found.table < 0).any(axis=1))
    if len(short):
        found.table[short], found.lengths[short] = search.nearest(queries[short], found.k, exclude=own[short])
    return found.table, found.lengths


def _take(search: ExactSearch, found: Nearest, candidates: I64, queries: Any, own: I64, some: I64) -> None:
    """Measure some of the queries, of which `own` (q,) are rows, to candidates (s, c), -1 for none, and merge these."""
    for start in range(0, len(some), _QUERIES):
        asking, there = some[start : start + _QUERIES], candidates[start : start + _QUERIES]
        mine = own[asking]
        good = (there >= 0) & (there != mine[:, None])
        stand_in = np.where(mine > 0, mine - 1, mine + 1)[:, None]  # another row; the distance from it is not used
        lengths = search.paired(queries[asking], np.where(good, there, stand_in))
        found.merge(asking, np.where(good, there, -1), np.where(good, lengths, np.inf), again=True)


class ShardIndex:
    """NN-descent among some of the rows: their own neighbours, and those of any other rows among them.

    there (s,): The rows it is made of; None for all.
    n_neighbors: Neighbours wanted, the row itself not counted.

    Answers have the same bits for the same batches of queries in the same order, whatever came before them. Within a
    batch a query that draws random numbers (its row lies on a tree's hyperplane, or too few candidates were found)
    leaves others to the next. They run on one thread, as pynndescent makes them.
    """

    def __init__(self, rows: DescentRows, there: I64 | None, n_neighbors: int, random_state: int) -> None:
        self._rows, self._there, self._k = rows, there, n_neighbors
        points = rows.take(slice(None) if there is None else there)
        self._asked = min(n_neighbors, points.shape[0])
        announce("pynndescent's search, in every process")
        with one_numba_thread(), _silent():  # with two threads 38 % of the rows of one seed differed from run to run
            from pynndescent import NNDescent  # here only: the import alone takes half a minute

            self._index = NNDescent(
                points,
                metric=rows.metric,
                metric_kwds=rows.keywords,
                n_neighbors=n_neighbors + 1,  # pynndescent counts the row itself
                random_state=random_state % 2**32,
                n_jobs=1,
            )

    def own(self) -> I64:
        """Candidates (s, n_neighbors + 1) of the rows it is made of: the row itself among them, -1 for none."""
        return self._named(self._index.neighbor_graph[0])

    def ask(self, rows: I64) -> I64:
        """Candidates (q, n_neighbors) of other rows, -1 for none."""
        queries = self._rows.take(rows)
        with one_numba_thread(), _silent():
            return self._named(self._index.query(queries, k=self._asked, epsilon=_EPSILON)[0])

    def ask_alone(self, queries: Any) -> I64:
        """Candidates (q, n_neighbors) of queries (q, d), which may be no rows of the index, -1 for none.

        Each row's follow from that row alone: random numbers that one query of a batch draws are gone for the next, so
        each is asked by itself, which takes some 20 microseconds.
        """
        converted, found = self._rows.convert(queries), np.full((queries.shape[0], self._k), -1)
        with one_numba_thread(), _silent():
            for row in range(len(found)):
                one = self._index.query(converted[row : row + 1], k=self._asked, epsilon=_EPSILON)[0]
                found[row, : self._asked] = one[0]
        return self._named(found)

    def _named(self, found: Any) -> I64:
        found = np.asarray(found, np.int64)
        return found if self._there is None else np.where(found >= 0, self._there[found], -1)


@contextmanager
def _silent() -> Iterator[None]:
    """Rows it found too few neighbours for are searched again by the caller."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
        yield


def _stays_csr(form: Form) -> bool:
    if isinstance(form, NormForm):
        return form.keeps_csr
    return form.name in _SPARSE_NAMES and (not isinstance(form, CountForm) or form.keeps_csr)


class DescentRows:
    """Rows as pynndescent takes them, float32, and its metric on them with its parameters in its order.

    Prepared rows are centred in float64 and scaled by a power of two where the metric is a norm between them: all of
    them alike, whichever are taken.

    Raises ScalemaniError: The metric or the kind of rows is beyond NN-descent.
    """

    def __init__(self, search: ExactSearch) -> None:
        obstacle = descent_obstacle(search)
        if obstacle is not None:
            raise ScalemaniError(f"{obstacle}; use knn='exact'")
        form, self._search = search.form, search
        self.metric: Any = form.name
        self.keywords: dict[str, Any] = {}
        self._center, self._factor = None, 1.0
        if isinstance(form, NormForm):
            names = {1.0: "manhattan", 2.0: "euclidean", float("inf"): "chebyshev"}
            self.metric = names.get(form.p, "minkowski")
            self.keywords = {"p": form.p} if self.metric == "minkowski" else {}
            self._center, self._factor = self._middle(search.prepared)
        elif isinstance(form, CountForm):
            unpacked = {"bit_hamming": "hamming", "bit_jaccard": "jaccard"}  # the same order of neighbours
            self.metric = unpacked.get(form.name, form.name)
        else:
            if isinstance(form, FunctionForm) and form.user_given:
                self.metric = form.function
            self.keywords = dict(form.params)

    def take(self, rows: Any) -> Any:
        """Rows for a slice or an array of indices."""
        prepared = self._search.prepared
        if not isinstance(self._search.form, NormForm):
            return self.convert(self._search.rows[rows])
        if prepared.sparse:
            return _as_float32(prepared.take(rows) * self._factor)
        listed = np.arange(prepared.count)[rows]
        out = np.empty((len(listed), prepared.width), np.float32)
        step = max(1, BLOCK_BYTES // (8 * prepared.width))
        for start in range(0, len(listed), step):
            some: Any = slice(start, start + step) if isinstance(rows, slice) else listed[start : start + step]
            out[start : start + step] = (prepared.take(some) - self._center) * self._factor
        return out

    def convert(self, queries: Any) -> Any:
        """Queries (q, d), which are no rows of the search, made what :meth:`take` makes of these."""
        form, prepared = self._search.form, self._search.prepared
        if isinstance(form, CountForm):
            return _as_float32(form.prepare(queries))
        if not isinstance(form, NormForm):
            return _as_float32(queries)
        ready = prepared.queries(queries)
        return _as_float32(ready * self._factor if prepared.sparse else (ready - self._center) * self._factor)

    @staticmethod
    def _middle(prepared: PreparedRows) -> tuple[Any, float]:
        """The middle of the prepared rows, unless they are CSR, and the factor that makes them about 1 in size."""
        step = max(1, BLOCK_BYTES // (8 * prepared.width))
        if prepared.sparse:
            size = max(float(np.abs(block.data).max(initial=0.0)) for _, block in prepared.blocks(step))
            return None, _power_of_two(size)
        center = prepared.midrange(step)
        return center, _power_of_two(max(float(np.abs(block - center).max()) for _, block in prepared.blocks(step)))


def _power_of_two(size: float) -> float:
    return float(2.0 ** -np.floor(np.log2(size))) if size > 0 else 1.0


def _as_float32(rows: Any) -> Any:
    if issparse(rows):
        return csr_array(rows, dtype=np.float32)
    return np.ascontiguousarray(rows, dtype=np.float32)


class DescentShards:
    """Lists of all rows from an index of each shard; the best of all are merged by (distance, rank).

    A row asks a shard (a run of clusters with at most `most_rows` rows) only if that can hold nearer ones than its list
    so far: exact lists from the rows' own clusters come first, and each index is made once. Queries go cluster by
    cluster: the batches, on which the last bits of an answer may hang, follow from the rows, the seed and the shards.
    """

    least_indexed = 2000  # rows; among fewer an exact search is the faster one

    def __init__(self, search: ClusterSearch, most_rows: int, k: int, random_state: int) -> None:
        self.search, self._search, self._seed = search, search.search, random_state
        self.shards = _runs_of_clusters(search.clusters.starts, most_rows)
        self.found = Nearest(search.n_rows, k, search.search.tie_rank)
        self._rows, self._own = DescentRows(search.search), np.arange(search.n_rows)

    @property
    def stats(self) -> SearchStats:
        """What it does; pynndescent doesn't count distances."""
        return SearchStats(n_shards=len(self.shards), n_clusters=self.search.clusters.count)

    def run(self, kept: Pieces | None, progress: Callable[[int], None]) -> tuple[I64, F64]:
        """Lists (m, k) and their distances; it goes on after the last shard kept."""
        sizes = "_".join(str(len(shard)) for shard in self.shards[:2])
        name = f"descent_shards_{len(self.shards)}_{sizes}_{abs(int(self._seed))}"
        first = 0 if kept is None else self._restored(kept.get(name))
        progress(self._search.n_rows * first // len(self.shards))
        with single_blas_thread():
            if not first and self.search.clusters.bounds is not None:
                for cluster in range(self.search.clusters.count):
                    rows = self.search.clusters.rows(cluster)
                    self.found.table[rows], self.found.lengths[rows] = self.search.among(rows, rows, self.found.k)
            for shard in range(first, len(self.shards)):
                let_go(self._search.rows)
                self._search_shard(self.shards[shard])
                if shard + 1 < len(self.shards):
                    if kept is not None:
                        kept.put(name, [np.array([shard + 1]), self.found.table, self.found.lengths])
                    progress(self._search.n_rows * (shard + 1) // len(self.shards))
        return completed(self._search, self.found, self._search.rows, self._own)

    def _search_shard(self, shard: range) -> None:
        """The rows of a shard, and those of others that it can hold neighbours of, ask its index."""
        order, starts = self.search.clusters.order, self.search.clusters.starts
        there = order[starts[shard.start] : starts[shard.stop]]
        index = None
        if len(there) >= self.least_indexed:
            index = ShardIndex(self._rows, there, self.found.k, self._seed)

        def ask(rows: I64) -> None:
            if index is None:
                candidates = self.search.among(there, rows, self.found.k)[0]
            else:
                candidates = index.own() if rows is there else index.ask(rows)
            _take(self._search, self.found, candidates, self._search.rows, self._own, rows)

        ask(there)
        for cluster in range(self.search.clusters.count):
            if cluster not in shard:
                rows = self._asking(cluster, shard)
                for start in range(0, len(rows), _QUERIES):
                    ask(rows[start : start + _QUERIES])

    def _asking(self, home: int, shard: range) -> I64:
        """Rows of a cluster that a shard may hold nearer ones for."""
        rows, bounds = self.search.clusters.rows(home), self.search.clusters.bounds
        if bounds is None:
            return rows
        limits = bounds.length(self.found.lengths[rows, -1])
        near = np.arange(shard.start, shard.stop)[~(bounds.apart(home)[shard.start : shard.stop] > limits.max())]
        if not len(near):
            return rows[:0]
        low = bounds.bounds(self._search.prepared.take(rows), home, near)
        return np.asarray(rows[low.min(axis=1) <= limits])

    def _restored(self, piece: Sequence[NDArray[Any]] | None) -> int:
        """Shards that are done in a piece that was kept; 0 where that is none of this search's."""
        shape = self.found.table.shape
        expected = [("i", (1,)), ("i", shape), ("f", shape)]
        if piece is None or [(part.dtype.kind, part.shape) for part in piece] != expected:
            return 0
        done, table, lengths = piece
        if not 0 < int(done[0]) < len(self.shards) or int(table.min()) < -1 or int(table.max()) >= len(table):
            return 0
        self.found.table, self.found.lengths = table.copy(), lengths.copy()
        return int(done[0])


def _runs_of_clusters(starts: I64, most_rows: int) -> list[range]:
    """Runs of clusters with at most so many rows each, about as many in all of them."""
    total, count, sizes = int(starts[-1]), len(starts) - 1, np.diff(starts)
    even = -(-total // -(-total // most_rows))
    shards, first = [], 0
    for cluster in range(count):
        rows = int(starts[cluster + 1] - starts[first])
        before = rows - int(sizes[cluster])
        if cluster > first and (rows > most_rows or 2 * rows - sizes[cluster] > 2 * even or before >= even):
            shards.append(range(first, cluster))
            first = cluster
    return [*shards, range(first, count)]
