"""Approximate neighbours by NN-descent (pynndescent), bit-equal for a seed, as lists of candidate indices.

Only indices are taken from it: distances are computed again in float64 by the caller. Where a metric is a
norm between prepared rows, the descent searches those rows, so that parameters mean the same as in the exact
search and a common offset is taken off in float64, before anything becomes float32.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from scalemani.errors import ScalemaniError
from scalemani.search.distance_forms import CountForm, Form, NormForm
from scalemani.search.exact import ExactSearch
from scalemani.search.function_metrics import FunctionForm
from scalemani.search.parallel_numba import one_numba_thread
from scalemani.search.prepared_rows import BLOCK_BYTES

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


def descent_candidates(search: ExactSearch, n_neighbors: int, random_state: int) -> NDArray[np.int64]:
    """Candidate neighbours of every row, from one thread: one piece of work, which can't be taken up half done.

    Parameters
    ----------
    search : ExactSearch
        The rows and the metric.
    n_neighbors : int
        Neighbours wanted, the row itself not counted.
    random_state : int
        Seed.

    Returns
    -------
    NDArray[int64], shape (m, n_neighbors + 1)
        As pynndescent gives them: the row itself among them, -1 where none was found, perhaps repeats.

    Raises
    ------
    ScalemaniError
        The metric or the kind of rows is beyond NN-descent.
    """
    obstacle = descent_obstacle(search)
    if obstacle is not None:
        raise ScalemaniError(f"{obstacle}; use knn='exact'")
    rows, metric, keywords = _descent_input(search)
    # One numba thread: with two, 38 % of the rows of one seed differed from run to run.
    with one_numba_thread(), warnings.catch_warnings():
        from pynndescent import NNDescent  # here only: the import alone takes half a minute

        # Rows it found too few neighbours for are searched again by the caller.
        warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
        index = NNDescent(
            rows,
            metric=metric,
            metric_kwds=keywords,
            n_neighbors=n_neighbors + 1,  # pynndescent counts the row itself
            random_state=random_state % 2**32,
            n_jobs=1,
        )
        return np.asarray(index.neighbor_graph[0], dtype=np.int64)


def _stays_csr(form: Form) -> bool:
    if isinstance(form, (NormForm, CountForm)):
        return form.keeps_csr and (isinstance(form, NormForm) or form.name in _SPARSE_NAMES)
    return form.name in _SPARSE_NAMES


def _descent_input(search: ExactSearch) -> tuple[Any, Any, dict[str, Any]]:
    """Float32 rows, and pynndescent's metric on them with its parameters in pynndescent's order."""
    form = search.form
    if isinstance(form, NormForm):
        names = {1.0: "manhattan", 2.0: "euclidean", float("inf"): "chebyshev"}
        name = names.get(form.p, "minkowski")
        return _normed_rows(search), name, {"p": form.p} if name == "minkowski" else {}
    if isinstance(form, CountForm):
        unpacked = {"bit_hamming": "hamming", "bit_jaccard": "jaccard"}  # the same order of neighbours
        return _as_float32(form.prepare(search.rows)), unpacked.get(form.name, form.name), {}
    if isinstance(form, FunctionForm):
        metric = form.function if form.user_given else form.name
        return _as_float32(search.rows), metric, dict(form.params)
    return _as_float32(search.rows), form.name, dict(form.params)


def _normed_rows(search: ExactSearch) -> Any:
    """Prepared rows, centred in float64 and scaled by a power of two, then float32."""
    prepared = search.prepared
    if prepared.sparse:
        rows = prepared.take(slice(None))
        return _as_float32(rows * _power_of_two(float(np.abs(rows.data).max(initial=0.0))))
    step = max(1, BLOCK_BYTES // (8 * prepared.width))
    centre = prepared.midrange(step)
    size = max(float(np.abs(block - centre).max()) for _, block in prepared.blocks(step))
    out = np.empty((search.n_rows, prepared.width), np.float32)
    for start, block in prepared.blocks(step):
        out[start : start + len(block)] = (block - centre) * _power_of_two(size)
    return out


def _power_of_two(size: float) -> float:
    return float(2.0 ** -np.floor(np.log2(size))) if size > 0 else 1.0


def _as_float32(rows: Any) -> Any:
    if issparse(rows):
        return csr_array(rows, dtype=np.float32)
    return np.ascontiguousarray(rows, dtype=np.float32)
