"""What a search will cost, by arithmetic and not by a clock.

The choice between the exact search and NN-descent must be the same on every machine and for any number of
threads, or the same seed would give another graph.

The figures are seconds on one core, measured once; only their ratios matter.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import issparse

from scalemani.search.distance_forms import CountForm, NormForm, PairForm
from scalemani.search.evaluations import query_evaluations
from scalemani.search.exact import ExactSearch
from scalemani.search.function_metrics import FunctionForm
from scalemani.search.precomputed import PrecomputedSearch

DESCENT_START = 85.0  # pynndescent imports for 28 s and compiles for 57 s in every process
_SORTED = 150e-9  # an entry of a given row, sorted with its rank
_TABLE = 45e-9  # an entry of a table of bounds: its minimum, its comparison


def exact_seconds(search: ExactSearch | PrecomputedSearch, n_neighbors: int) -> float:
    """Projected seconds for all neighbours of all rows, exactly: by k-d trees where there may be some."""
    count = float(search.n_rows)
    if isinstance(search, PrecomputedSearch):
        return count * count * _SORTED
    if search.method == "kdtree" or search.low:
        a_row = 35e-6 * 1.7 ** (search.prepared.width - 3) * (n_neighbors + 10) / 20  # of 50,000 normal rows
        return float(count * min(a_row * np.log2(count + 1) / 16, count * 100e-9))
    return count * count * (_TABLE + _pair_seconds(search))


def parts_seconds(search: ExactSearch, pairs: float) -> float:
    """Projected seconds for all neighbours of all rows from their parts, so many pairs measured for each."""
    return float(search.n_rows) * pairs * (_TABLE + _pair_seconds(search))


def descent_seconds(search: ExactSearch, n_neighbors: int) -> float:
    """Projected seconds for NN-descent from one thread, its compilation counted."""
    evaluations = 60.0 * search.n_rows * (n_neighbors + 1)
    return DESCENT_START + evaluations * (20e-9 + _evaluation_seconds(search))


def index_seconds(search: ExactSearch, n_neighbors: int, total: int) -> float:
    """Projected seconds for an index of NN-descent and so many queries of it."""
    asked = query_evaluations(total, n_neighbors) * (20e-9 + _evaluation_seconds(search))
    return descent_seconds(search, n_neighbors) + asked


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
