"""New points by their features alone: y = (f - mean) A, with f the row itself or its kernel values to some rows.

No graph and no D is needed. Each row's result depends on that row alone: products are made row by row.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist

from scalemani.aliases import F64
from scalemani.cluster.kernel_cache import compiled
from scalemani.embedding.isometric import panels
from scalemani.errors import OutOfReachWarning, warn
from scalemani.kernel import blas
from scalemani.neighbors.choice import SearchStrategy
from scalemani.points.reading import row_blocks

LEAST_REACH = 1e-3  # a Gaussian kernel's largest value of a row, below which all such rows land on one point
BEYOND = (
    "some rows are so far from the training rows that the Gaussian kernel is below "
    f"{LEAST_REACH:g} to all of them: such rows land near one point, wherever they are; fit with a smaller gamma"
)


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
        centre = np.zeros((1, columns.shape[1]))
        _products(mean[None], np.zeros(len(mean)), columns, centre)
        return np.asarray(blas.product(rows.astype(np.float64), columns)) - centre
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
        inner = _inner(rows, others)
        if self.name == "poly":
            with np.errstate(over="ignore", invalid="ignore"):  # is refused, or NaN
                return np.asarray((self.gamma * inner + self.coef0) ** self.degree)
        if self.name == "sigmoid":
            return np.asarray(np.tanh(self.gamma * inner + self.coef0))
        found: F64 = np.clip(inner, -1.0, 1.0)
        return found


def squared_distances(rows: Any, others: Any) -> F64:
    """|x - y|² (l, m) of dense or CSR rows."""
    if not issparse(rows):
        return np.asarray(cdist(rows, others, "sqeuclidean"))
    return np.maximum(_squares(rows)[:, None] + _squares(others) - 2 * _inner(rows, others), 0.0)


def _of_unit_size(rows: Any) -> Any:
    """Each row over its size, however large or small that is; a row of zeros as it is."""
    rows = csr_array(rows, dtype=np.float64) if issparse(rows) else np.asarray(rows, np.float64)
    largest = np.abs(rows).max(axis=1)
    rows = _divided(rows, largest.toarray().ravel() if issparse(rows) else largest)
    return _divided(rows, np.sqrt(_squares(rows)))


def _divided(rows: Any, by: F64) -> Any:
    """Each row over a number, unless that is 0."""
    by = np.where(by > 0, by, 1.0)
    if issparse(rows):
        return csr_array((rows.data / np.repeat(by, np.diff(rows.indptr)), rows.indices, rows.indptr), rows.shape)
    return rows / by[:, None]


def rounding_of_gaps(rows: Any) -> float:
    """What |x - y|² of sparse rows may be off by: it is the difference of larger numbers."""
    return 8 * float(np.finfo(float).eps) * float(_squares(rows).max())


def _inner(rows: Any, others: Any) -> F64:
    """<x, y> (l, m), each row by itself."""
    if issparse(rows):
        return np.asarray(blas.product(rows.astype(np.float64), others.T.astype(np.float64)).toarray())
    return row_products(rows, np.zeros(rows.shape[1]), np.ascontiguousarray(others.T, np.float64))


def _squares(rows: Any) -> F64:
    """The squared size of each row."""
    if issparse(rows):
        return np.asarray(rows.astype(np.float64).power(2).sum(axis=1), np.float64).ravel()
    return np.asarray(np.square(np.asarray(rows, np.float64)).sum(axis=1))


class FeatureMap:
    """What places rows of features; in the place of a :class:`scalemani.projection.projector.Projector`.

    mean (q,), weights (q, d)
    kernel, others: The features are this kernel's values to these rows (q, p); None where they are the rows themselves.
    check: Refuses rows that the metric of the fit can't take.
    """

    direct, n, seeds_a_row = True, 1, 1
    lost = "kernel values that are not finite"

    def __init__(
        self,
        n_features: int,
        mean: F64,
        weights: F64,
        kernel: Kernel | None = None,
        others: Any = None,
        check: Callable[[Any, int, str], None] | None = None,
    ) -> None:
        self.n_features, self.width = n_features, weights.shape[1]
        self._check, self._mean, self._weights, self._kernel, self._others = (
            check,
            mean,
            np.ascontiguousarray(weights),
            kernel,
            others,
        )

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Validated row blocks of a test set; `first` is the number of T's first row in messages."""
        like = None if self._kernel is None else self._others
        yield from row_blocks(T, name=name, n_features=self.n_features, like=like, first=first, check=self._check)

    def is_long(self, total: int) -> bool:
        """No: nothing is searched for."""
        return False

    def way(self, total: int) -> str:
        """Of searching, if there were any."""
        return SearchStrategy.EXACT

    def coordinates(self, block: Any, way: str = SearchStrategy.EXACT) -> F64:
        """Coordinates (l, d) of a validated block of rows."""
        if self._kernel is None:
            return row_products(block, self._mean, self._weights)
        out = np.empty((block.shape[0], self.width))
        for here in panels(len(out), len(self._mean)):
            values = self._kernel.values(block[here], self._others)
            if self._kernel.name == "rbf" and values.max(axis=1).min() < LEAST_REACH:
                warn(BEYOND, OutOfReachWarning)
            out[here] = row_products(values, self._mean, self._weights)
        return out
