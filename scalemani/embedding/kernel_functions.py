"""Kernel functions of rows, and the Gram matrices of a row's neighbours in their feature spaces. Pure functions.

Each row's numbers depend on that row alone: they are the same bits in a block of one row and of thousands.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist

from scalemani.aliases import F64, I64
from scalemani.cluster.kernel_cache import compiled
from scalemani.embedding.isometric import panels
from scalemani.errors import ScalemaniError
from scalemani.kernel import blas
from scalemani.neighbors.functions import enters_parallel_regions, function_name, function_of, one_numba_thread
from scalemani.neighbors.metrics import is_function_name


@compiled()
def _products(rows: Any, mean: Any, columns: Any, out: Any) -> None:
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            x = rows[i, j] - mean[j]
            if x != 0.0:
                for a in range(columns.shape[1]):
                    out[i, a] += x * columns[j, a]


def row_products(rows: Any, mean: F64, columns: F64) -> F64:
    """(rows - mean) @ columns, each row by itself; CSR rows stay as they are.

    rows (l, q), mean (q,), columns (q, d)
    """
    if issparse(rows):  # SciPy adds a row's entries up one after the other
        center = np.zeros((1, columns.shape[1]))
        _products(mean[None], np.zeros(len(mean)), columns, center)
        return np.asarray(blas.product(rows.astype(np.float64), columns)) - center
    out = np.zeros((len(rows), columns.shape[1]))
    _products(np.ascontiguousarray(rows, np.float64), mean, columns, out)
    return out


@dataclass(frozen=True)
class Kernel:
    """A kernel function of two rows, by scikit-learn's names.

    name: "rbf" exp(-gamma |x - y|²), "poly" (gamma <x, y> + coef0)^degree, "sigmoid" tanh(gamma <x, y> + coef0),
        "cosine" <x, y> / (|x| |y|), 0 with a row of zeros.
    """

    name: str
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 1.0

    def values(self, rows: Any, others: Any) -> F64:
        """K (l, m), each row by itself."""
        if self.name == "rbf":
            return np.asarray(np.exp(-self.gamma * squared_distances(rows, others)))
        if self.name == "cosine":
            rows, others = _of_unit_size(rows), _of_unit_size(others)
        return self.of_inner(_inner(rows, others))

    def of_inner(self, inner: F64) -> F64:
        """K from <x, y>; "cosine" of rows of unit size."""
        if self.name == "poly":
            with np.errstate(over="ignore", invalid="ignore"):  # is refused, or NaN
                return np.asarray((self.gamma * inner + self.coef0) ** self.degree)
        if self.name == "sigmoid":
            return np.asarray(np.tanh(self.gamma * inner + self.coef0))
        found: F64 = np.clip(inner, -1.0, 1.0)
        return found

    def own(self, rows: Any) -> F64:
        """K(x, x) of each row, for "poly" and "sigmoid"."""
        return self.of_inner(squared_sizes(rows))


@dataclass(frozen=True, repr=False)
class FunctionKernel:
    """A user's kernel function, of two blocks of dense rows (a, D) and (b, D): all their values (a, b)."""

    function: Callable[[F64, F64], Any]

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    def __repr__(self) -> str:
        return function_name(self.function)

    def __call__(self, rows: F64, others: F64) -> F64:
        """K (a, b).

        Raises ScalemaniError: Values that are no finite numbers, or not (a, b) of them.
        """
        with one_numba_thread() if enters_parallel_regions(self.function) else nullcontext():
            found = np.asarray(self.function(rows, others))
        wanted = len(rows), len(others)
        if found.shape != wanted or (found.dtype != np.float64 and found.dtype.kind not in "biu"):
            raise ScalemaniError(
                f"kernel={self.name!r} gives {found.dtype} of shape {found.shape} for {wanted[0]} and {wanted[1]} "
                f"rows: a kernel function takes two blocks of rows and gives float64 numbers of shape {wanted}"
            )
        if not np.isfinite(found).all():
            raise ScalemaniError(f"kernel={self.name!r} gives values that are not finite; rescale the rows")
        return np.asarray(found, np.float64)

    values = __call__

    def own(self, rows: F64) -> F64:
        """K(x, x) of each row."""
        blocks = (rows[at : at + _OWN] for at in range(0, len(rows), _OWN))
        return np.concatenate([np.empty(0), *(np.diagonal(self(block, block)) for block in blocks)])


_OWN = 64  # rows of which a function's values to themselves are found together


def function_kernel(given: Any) -> FunctionKernel | None:
    """The kernel that a function is, or its recorded name; None of all others."""
    if is_function_name(given):
        given = function_of(given)
    return FunctionKernel(given) if callable(given) else None


def squared_distances(rows: Any, others: Any) -> F64:
    """|x - y|² (l, m) of dense or CSR rows."""
    if not issparse(rows):
        return np.asarray(cdist(rows, others, "sqeuclidean"))
    return np.maximum(squared_sizes(rows)[:, None] + squared_sizes(others) - 2 * _inner(rows, others), 0.0)


def _of_unit_size(rows: Any) -> Any:
    """Each row over its size, however large or small that is; a row of zeros as it is."""
    rows = csr_array(rows, dtype=np.float64) if issparse(rows) else np.asarray(rows, np.float64)
    largest = np.abs(rows).max(axis=1)
    rows = _divided(rows, largest.toarray().ravel() if issparse(rows) else largest)
    return _divided(rows, np.sqrt(squared_sizes(rows)))


def _divided(rows: Any, by: F64) -> Any:
    """Each row over a number, unless that is 0."""
    by = np.where(by > 0, by, 1.0)
    if issparse(rows):
        return csr_array((rows.data / np.repeat(by, np.diff(rows.indptr)), rows.indices, rows.indptr), rows.shape)
    return rows / by[:, None]


def rounding_of_gaps(rows: Any) -> float:
    """What |x - y|² of sparse rows may be off by: it is the difference of larger numbers."""
    return 8 * float(np.finfo(float).eps) * float(squared_sizes(rows).max())


def _inner(rows: Any, others: Any) -> F64:
    """<x, y> (l, m), each row by itself."""
    if issparse(rows):
        return np.asarray(blas.product(rows.astype(np.float64), others.T.astype(np.float64)).toarray())
    return row_products(rows, np.zeros(rows.shape[1]), np.ascontiguousarray(others.T, np.float64))


def squared_sizes(rows: Any) -> F64:
    """The squared size of each row."""
    if issparse(rows):
        return np.asarray(rows.astype(np.float64).power(2).sum(axis=1), np.float64).ravel()
    return np.asarray(np.square(np.asarray(rows, np.float64)).sum(axis=1))


# ---- the neighbours of a row -------------------------------------------------------------------------


def local_grams(rows: Any, targets: Any, idx: I64, kernel: Kernel | Callable[[F64, F64], Any] | None = None) -> F64:
    """C (m, k, k), C_jl = <y - x_j, y - x_l>: how each target y sees its neighbours x from where it lies.

    rows (n, D), targets (m, D): Dense or CSR, of which a panel's neighbours are made dense; in training the same rows.
    idx (m, k): The rows that are each target's neighbours.
    kernel: Differences are taken in its feature space: C_jl = K(y, y) - K(y, x_j) - K(y, x_l) + K(x_j, x_l). A function
        of two blocks of rows is one, too, and called once for each target. None: the rows themselves.

    Source: DeCoste, "Visualizing Mercer kernel feature spaces via kernelized locally-linear embeddings" (2001),
    equation 13.
    """
    m, k = idx.shape
    out = np.empty((m, k, k))
    for here in panels(m, (k + 1) * max(rows.shape[1], k)):
        near = dense(rows[idx[here].ravel()]).reshape(len(idx[here]), k, rows.shape[1])
        out[here] = _local_grams(near, dense(targets[here])[:, None], kernel)
    return out


def dense(rows: Any) -> F64:
    """Rows as kernel functions take them."""
    return np.asarray(rows.toarray() if issparse(rows) else rows, np.float64)


def _local_grams(near: F64, own: F64, kernel: Any) -> F64:
    """The same from a panel's neighbours (m, k, D) and targets (m, 1, D)."""
    name = kernel.name if isinstance(kernel, Kernel) else ""
    if name == "cosine":
        near, own = (_of_unit_size(rows.reshape(-1, rows.shape[2])).reshape(rows.shape) for rows in (near, own))
    if kernel is None or name in ("rbf", "cosine"):
        gaps = near - own
        grams: F64 = blas.product(gaps, gaps.swapaxes(1, 2))
        return _gaussian(grams, kernel.gamma) if name == "rbf" else grams
    both = np.concatenate([own, near], axis=1)
    if name:
        values = kernel.of_inner(blas.product(both, both.swapaxes(1, 2)))
    else:
        values = np.array([kernel(some, some) for some in both])
    return _from_own(values[:, 0, 0], values[:, 0, 1:], values[:, 1:, 1:])


def _gaussian(grams: F64, gamma: float) -> F64:
    """The Gaussian kernel's matrices from the rows' own: expm1 of squared distances, so that 1 - 1 is never taken."""
    squares = np.diagonal(grams, axis1=1, axis2=2)
    sums = squares[:, :, None] + squares[:, None, :]
    each = np.expm1(-gamma * squares)
    between = np.expm1(-gamma * np.maximum(sums - 2 * grams, 0.0))
    return np.asarray(between - (each[:, :, None] + each[:, None, :]))


def _from_own(own: F64, near: F64, between: F64) -> F64:
    """C from K(y, y) (m,), K(y, x) (m, k) and K(x, x) (m, k, k)."""
    with np.errstate(invalid="ignore"):  # of infinite values: NaN
        return np.asarray(between - (near[:, :, None] + near[:, None, :]) + own[:, None, None])


def grams_of_kernel(K: F64, idx: I64, values: F64 | None = None, own: F64 | None = None) -> F64:
    """:func:`local_grams` from a kernel matrix K (n, n).

    values (m, n), own (m,): Of targets that are not the training rows, K(y, x) and K(y, y).
    """
    near = np.take_along_axis(K if values is None else values, idx, axis=1)
    return _from_own(np.diagonal(K) if own is None else own, near, K[idx[:, :, None], idx[:, None, :]])
