"""Approximate neighbours by NN-descent (pynndescent), bit-equal for a seed, as lists of candidate indices.

Only indices are taken from it: distances are computed again in float64 by the caller. Where a metric is a
norm between prepared rows, the descent searches those rows, so that parameters mean the same as in the exact
search and a common offset is taken off in float64, before anything becomes float32.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from scalemani.aliases import I64
from scalemani.cluster.kernel_cache import announce
from scalemani.errors import ScalemaniError
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.forms import CountForm, Form, NormForm
from scalemani.neighbors.functions import one_numba_thread
from scalemani.neighbors.metric_forms import FunctionForm
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows

_EPSILON = 0.2  # how far a query looks beyond its k-th candidate: 99.8 % were found on images, 99.6 % with 0
_DENSE_BYTES = 2 << 30  # the most that CSR rows may take as dense float32
# What pynndescent has for CSR rows, of the metrics that are passed to it by name.
_SPARSE_NAMES = frozenset(
    ["canberra", "braycurtis", "hamming", "jensen_shannon", "symmetric_kl", "jaccard", "dice", "matching"]
    + ["kulsinski", "rogerstanimoto", "russellrao", "sokalsneath", "sokalmichener"]
)


def descent_obstacle(search: ExactSearch) -> str | None:
    """Why NN-descent can't search these rows with this metric, or None where it can."""
    form = search.form
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

    search: The rows and the metric.
    n_neighbors: Neighbours wanted, the row itself not counted.
    random_state: Seed.
    -> (m, n_neighbors + 1): As pynndescent gives them: the row itself among them, -1 where none was found, perhaps
        repeats.
    Raises ScalemaniError: The metric or the kind of rows is beyond NN-descent.
    """
    obstacle = descent_obstacle(search)
    if obstacle is not None:
        raise ScalemaniError(f"{obstacle}; use knn='exact'")
    rows = DescentRows(search)
    with one_numba_thread(), _silent():
        index = _index(rows, rows.take(slice(None)), n_neighbors, random_state)
        return np.asarray(index.neighbor_graph[0], dtype=np.int64)


class ShardIndex:
    """NN-descent among some of the rows: their own neighbours, and those of any other rows among them.

    there (s,): The rows it is made of.
    n_neighbors: Neighbours wanted, the row itself not counted.

    Answers have the same bits for the same batches of queries in the same order, whatever came before them. Within a
    batch a query that draws random numbers (its row lies on a tree's hyperplane, or too few candidates were found)
    leaves others to the next. They run on one thread, as pynndescent makes them.
    """

    def __init__(self, rows: DescentRows, there: I64, n_neighbors: int, random_state: int) -> None:
        self._rows, self._there, self._k = rows, there, n_neighbors
        with one_numba_thread(), _silent():
            self._index = _index(rows, rows.take(there), n_neighbors, random_state)

    def own(self) -> I64:
        """Candidates (s, n_neighbors + 1) of the rows it is made of: the row itself among them, -1 for none."""
        return self._named(self._index.neighbor_graph[0])

    def ask(self, rows: I64) -> I64:
        """Candidates (q, n_neighbors) of other rows, -1 for none."""
        queries = self._rows.take(rows)
        with one_numba_thread(), _silent():
            return self._named(self._index.query(queries, k=min(self._k, len(self._there)), epsilon=_EPSILON)[0])

    def ask_alone(self, queries: Any) -> I64:
        """Candidates (q, n_neighbors) of queries (q, d), which may be no rows of the index, -1 for none.

        Each row's follow from that row alone.
        Random numbers that one query of a batch draws are gone for the next: so each is asked by itself, which takes
        some 20 microseconds.
        """
        converted, k = self._rows.convert(queries), min(self._k, len(self._there))
        found = np.full((queries.shape[0], self._k), -1)
        with one_numba_thread(), _silent():
            for row in range(len(found)):
                found[row, :k] = self._index.query(converted[row : row + 1], k=k, epsilon=_EPSILON)[0][0]
        return self._named(found)

    def _named(self, found: Any) -> I64:
        found = np.asarray(found, np.int64)
        return np.where(found >= 0, self._there[found], -1)


def _index(rows: DescentRows, points: Any, n_neighbors: int, random_state: int) -> Any:
    # One numba thread: with two, 38 % of the rows of one seed differed from run to run.
    announce("pynndescent's search, in every process")
    from pynndescent import NNDescent  # here only: the import alone takes half a minute

    return NNDescent(
        points,
        metric=rows.metric,
        metric_kwds=rows.keywords,
        n_neighbors=n_neighbors + 1,  # pynndescent counts the row itself
        random_state=random_state % 2**32,
        n_jobs=1,
    )


@contextmanager
def _silent() -> Iterator[None]:
    """Rows it found too few neighbours for are searched again by the caller."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
        yield


def _stays_csr(form: Form) -> bool:
    if isinstance(form, (NormForm, CountForm)):
        return form.keeps_csr and (isinstance(form, NormForm) or form.name in _SPARSE_NAMES)
    return form.name in _SPARSE_NAMES


class DescentRows:
    """Rows as pynndescent takes them, float32, and its metric on them with its parameters in its order.

    Prepared rows are centred in float64 and scaled by a power of two where the metric is a norm between them: all of
    them alike, whichever are taken.
    """

    def __init__(self, search: ExactSearch) -> None:
        form, self._search = search.form, search
        self.metric: Any = form.name
        self.keywords: dict[str, Any] = {}
        self._centre, self._factor = None, 1.0
        if isinstance(form, NormForm):
            names = {1.0: "manhattan", 2.0: "euclidean", float("inf"): "chebyshev"}
            self.metric = names.get(form.p, "minkowski")
            self.keywords = {"p": form.p} if self.metric == "minkowski" else {}
            self._centre, self._factor = self._middle(search.prepared)
        elif isinstance(form, CountForm):
            unpacked = {"bit_hamming": "hamming", "bit_jaccard": "jaccard"}  # the same order of neighbours
            self.metric = unpacked.get(form.name, form.name)
        else:
            if isinstance(form, FunctionForm) and form.user_given:
                self.metric = form.function
            self.keywords = dict(form.params)

    def take(self, rows: Any) -> Any:
        """Rows for a slice or an array of indices."""
        form, given = self._search.form, self._search.rows
        if isinstance(form, CountForm):
            return _as_float32(form.prepare(given[rows]))
        if not isinstance(form, NormForm):
            return _as_float32(given[rows])
        prepared = self._search.prepared
        if prepared.sparse:
            return _as_float32(prepared.take(rows) * self._factor)
        listed = np.arange(prepared.count)[rows]
        out = np.empty((len(listed), prepared.width), np.float32)
        step = max(1, BLOCK_BYTES // (8 * prepared.width))
        for start in range(0, len(listed), step):
            some: Any = slice(start, start + step) if isinstance(rows, slice) else listed[start : start + step]
            out[start : start + step] = (prepared.take(some) - self._centre) * self._factor
        return out

    def convert(self, queries: Any) -> Any:
        """Queries (q, d), which are no rows of the search, made what :meth:`take` makes of these."""
        form, prepared = self._search.form, self._search.prepared
        if isinstance(form, CountForm):
            return _as_float32(form.prepare(queries))
        if not isinstance(form, NormForm):
            return _as_float32(queries)
        ready = prepared.queries(queries)
        return _as_float32(ready * self._factor if prepared.sparse else (ready - self._centre) * self._factor)

    @staticmethod
    def _middle(prepared: PreparedRows) -> tuple[Any, float]:
        """The middle of the prepared rows, unless they are CSR, and the factor that makes them about 1 in size."""
        step = max(1, BLOCK_BYTES // (8 * prepared.width))
        if prepared.sparse:
            size = max(float(np.abs(block.data).max(initial=0.0)) for _, block in prepared.blocks(step))
            return None, _power_of_two(size)
        centre = prepared.midrange(step)
        return centre, _power_of_two(max(float(np.abs(block - centre).max()) for _, block in prepared.blocks(step)))


def _power_of_two(size: float) -> float:
    return float(2.0 ** -np.floor(np.log2(size))) if size > 0 else 1.0


def _as_float32(rows: Any) -> Any:
    if issparse(rows):
        return csr_array(rows, dtype=np.float32)
    return np.ascontiguousarray(rows, dtype=np.float32)
