"""Distances between rows, as the exact search needs them: a row-wise preparation, then distances of pairs.

Most metrics are a p-norm between prepared rows (cosine: unit rows; Mahalanobis: whitened rows; rank
correlation: unit rows of centred ranks), which gives one accurate formula, one tree and one shortlist for all
of them, and lets NN-descent search in that space too. Everything here depends on the rows of a pair alone,
never on the block they come in: sums run along one contiguous row, and matrix products give bounds only.

Formulas of metrics that are no norm: of pairs of rows (c, d), and of counts of features that rows have.

In formulas of counts, ``tt`` features are in both rows, ``a`` and ``b`` in each of them, out of ``d``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist
from scipy.special import rel_entr

from scalemani.aliases import F64


def canberra(a: F64, b: F64) -> F64:
    total = np.abs(a) + np.abs(b)
    share = np.divide(np.abs(a - b), total, out=np.zeros_like(a), where=total > 0)
    return np.asarray(np.add.reduce(share, axis=1))


def braycurtis(a: F64, b: F64) -> F64:
    total = np.add.reduce(np.abs(a + b), axis=1)
    gap = np.add.reduce(np.abs(a - b), axis=1)
    return np.asarray(np.divide(gap, total, out=np.zeros_like(gap), where=total > 0))


def jensen_shannon(a: F64, b: F64) -> F64:
    middle = (a + b) / 2
    terms = (rel_entr(a, middle) + rel_entr(b, middle)) / 2
    return np.asarray(np.maximum(np.add.reduce(terms, axis=1), 0.0))


def symmetric_kl(a: F64, b: F64) -> F64:
    logarithms = np.log(a) - np.log(b)  # not of a / b, whose rounding is another one for b / a
    return np.asarray(np.add.reduce((a - b) * logarithms, axis=1))


def tsss(a: F64, b: F64) -> F64:
    norm_a, norm_b = (np.sqrt(np.add.reduce(x * x, axis=1)) for x in (a, b))
    gap = a - b
    distance = np.sqrt(np.add.reduce(gap * gap, axis=1))
    product = norm_a * norm_b
    cosine = np.divide(np.add.reduce(a * b, axis=1), product, out=np.zeros_like(product), where=product > 0)
    theta = np.arccos(np.clip(cosine, -1, 1)) + np.radians(10)
    sector = (distance + np.abs(norm_a - norm_b)) ** 2 * theta / 2
    return np.asarray(product * np.sin(theta) / 2 * sector)


def yule(tt: F64, a: F64, b: F64, d: float) -> Any:
    tf, ft = a - tt, b - tt
    return np.where((tf == 0) | (ft == 0), 0.0, 2 * tf * ft / (tt * (d - tt - tf - ft) + tf * ft))


def russellrao(tt: F64, a: F64, b: F64, d: float) -> Any:
    return np.where((tt == a) & (tt == b), 0.0, (d - tt) / d)


def kulsinski(tt: F64, a: F64, b: F64, d: float) -> Any:
    unequal = a + b - 2 * tt
    return np.where(unequal == 0, 0.0, (unequal - tt + d) / (unequal + d))


def rogerstanimoto(tt: F64, a: F64, b: F64, d: float) -> Any:
    unequal = a + b - 2 * tt
    return 2 * unequal / (d + unequal)


def ratio(part: Any, whole: Any) -> Any:
    return np.where(part == 0, 0.0, part / whole)


EPS = float(np.finfo(np.float64).eps)
_SMALLEST = float(np.finfo(np.float64).tiny)


class Form(ABC):
    """A metric on prepared rows. Subclasses say how distances of pairs are made."""

    exact_bounds = False  # bounds() gives the distances themselves
    has_tree = False  # a k-d tree of prepared rows lists them in the order of this metric
    hold = False  # preparation is dear: prepared rows are kept
    limit: float | None = None  # from here on rows have nothing in common, and are no neighbours

    def __init__(self, name: str, prepare: Callable[[F64], F64] | None = None) -> None:
        self.name = name
        self.params: dict[str, Any] = {}  # as pynndescent takes them, in its order
        self._prepare = prepare

    def prepare(self, rows: Any) -> Any:
        """Rows (b, d) of any real dtype, dense or CSR, as float64 rows to measure between."""
        dense = np.ascontiguousarray(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
        return dense if self._prepare is None else np.ascontiguousarray(self._prepare(dense))

    def apart(self, distances: F64) -> NDArray[np.bool_]:
        """Whether rows at these distances have nothing in common."""
        return np.asarray(distances >= (np.nan if self.limit is None else self.limit))

    @abstractmethod
    def pairs(self, a: Any, b: Any) -> F64:
        """Distances between a[i] and b[i], prepared rows (c, d'); shape (c,)."""

    def bounds(self, a: Any, b: Any, centre: F64 | None) -> tuple[F64, F64] | None:
        """Bounds (q, m), lower and upper, of what ``pairs`` gives for all pairs; None where none is cheap."""
        return None


@dataclass(frozen=True)
class Scale:
    """How a distance follows from a p-norm t (and, for p = 2, from its square s)."""

    of_norm: Callable[[Any], Any]
    of_square: Callable[[Any], Any]
    norm: Callable[[Any], Any]  # the largest norm whose distance is at most r


IDENTITY = Scale(lambda t: t, np.sqrt, lambda r: r)
SQUARE = Scale(np.square, lambda s: s, np.sqrt)
HALF_SQUARE = Scale(lambda t: np.square(t) / 2, lambda s: s / 2, lambda r: np.sqrt(2 * r))
CLIPPED = Scale(
    lambda t: np.minimum(np.square(t) / 2, 1.0),
    lambda s: np.minimum(s / 2, 1.0),
    lambda r: np.where(np.less(r, 1), np.sqrt(2 * r), np.inf),
)
ROOT_HALF = Scale(lambda t: t / np.sqrt(2.0), lambda s: np.sqrt(s / 2), lambda r: np.sqrt(2.0) * r)
ARC = Scale(
    lambda t: 2 * np.arcsin(np.minimum(t / 2, 1.0)),
    lambda s: 2 * np.arcsin(np.minimum(np.sqrt(s) / 2, 1.0)),
    lambda r: np.where(np.less(r, np.pi), 2 * np.sin(np.minimum(r, np.pi) / 2), np.inf),
)
ARC_SHARE = Scale(
    lambda t: 2 * np.arcsin(np.minimum(t / 2, 1.0)) / np.pi,
    lambda s: 2 * np.arcsin(np.minimum(np.sqrt(s) / 2, 1.0)) / np.pi,
    lambda r: np.where(np.less(r, 1), 2 * np.sin(np.pi * np.minimum(r, 1) / 2), np.inf),
)


class NormForm(Form):
    """A p-norm between prepared rows, then an increasing function of it."""

    def __init__(
        self,
        name: str,
        p: float = 2.0,
        scale: Scale = IDENTITY,
        prepare: Callable[[F64], F64] | None = None,
        prepare_csr: Callable[[csr_array], csr_array] | None = None,
        hold: bool = False,
    ) -> None:
        super().__init__(name, prepare)
        self.p, self.scale, self.hold = p, scale, hold
        self._prepare_csr = prepare_csr
        self.has_tree = p <= 8 or np.isinf(p)  # beyond, the powers that a tree sums overflow or vanish

    def prepare(self, rows: Any) -> Any:
        """As :meth:`Form.prepare`; CSR rows stay CSR under a Euclidean norm if preparation keeps zeros."""
        if issparse(rows) and self.keeps_csr:
            assert self._prepare_csr is not None
            return self._prepare_csr(csr_array(rows, dtype=np.float64))
        return super().prepare(rows)

    @property
    def keeps_csr(self) -> bool:
        """Whether CSR rows stay CSR."""
        return self._prepare_csr is not None

    def pairs(self, a: Any, b: Any) -> F64:
        """Distances of pairs, from the differences of their entries."""
        if issparse(a):
            return np.asarray(self.scale.of_square(_square_sums(csr_array(a - b))))
        gap = a - b
        if self.p == 2:
            return np.asarray(self.scale.of_square(np.add.reduce(np.multiply(gap, gap, out=gap), axis=1)))
        np.abs(gap, out=gap)
        if self.p == 1:
            out = np.add.reduce(gap, axis=1)
        elif np.isinf(self.p):
            out = np.max(gap, axis=1)
        else:  # divided by the largest gap, so that powers neither overflow nor vanish
            top = np.max(gap, axis=1)
            share = np.divide(gap, top[:, None], out=np.zeros_like(gap), where=top[:, None] > 0)
            out = top * np.add.reduce(share**self.p, axis=1) ** (1 / self.p)
        return np.asarray(out)

    def bounds(self, a: Any, b: Any, centre: F64 | None) -> tuple[F64, F64] | None:
        """Bounds from a matrix product (p = 2) or from SciPy's table with its rounding error."""
        if self.p == 2:
            return self._product_bounds(a, b, centre)
        slack = (4 * a.shape[1] + 64) * EPS
        if self.p > 8 and np.isfinite(self.p):  # powers may overflow there: the largest gap bounds the norm
            table = cdist(a, b, "chebyshev")
            return table * (1 - slack), table * (a.shape[1] ** (1 / self.p) * (1 + slack))
        name = {1.0: "cityblock", float("inf"): "chebyshev"}.get(self.p, "minkowski")
        if name != "minkowski":
            table = cdist(a, b, name)
            return table * (1 - slack), table * (1 + slack)
        table = cdist(a, b, name, p=self.p)
        lost = (a.shape[1] * _SMALLEST) ** (1 / self.p)  # by powers below float64's range
        low = np.where(np.isfinite(table), table * (1 - slack) - lost, 0.0)  # powers beyond it bound nothing
        return np.maximum(low, 0.0), table * (1 + slack) + lost

    def _product_bounds(self, a: Any, b: Any, centre: F64 | None) -> tuple[F64, F64]:
        """|a|² + |b|² - 2 a·b is off by at most (2d + 32) u (|a| + |b|)², u = 2^-53, centring included:
        gamma_d for the product and for the squares, 2u for each centred entry; and the direct sum by gamma_d.
        (|a| + |b|)² <= 2 (|a|² + |b|²) makes the bound separable, and EPS = 2u leaves a factor of two."""
        if issparse(a):
            terms = max(int(np.diff(x.indptr).max(initial=0)) for x in (a, b))
            squares = [_square_sums(x) for x in (a, b)]
            product = np.asarray((a @ b.T).toarray())
        else:
            terms = a.shape[1]
            a, b = a - centre, b - centre
            squares = [np.add.reduce(x * x, axis=1) for x in (a, b)]
            product = a @ b.T
        beta = 2 * (2 * terms + 32) * EPS
        low, error = product, np.add.outer(squares[0], squares[1])
        low *= -2  # in place from here on: passes over a table cost as much as the product
        low += error
        error *= beta
        high = low + error
        low -= error
        np.maximum(low, 0, out=low)
        np.maximum(high, 0, out=high)
        return self.scale.of_square(low), self.scale.of_square(high)


class CountForm(Form):
    """Metrics of yes/no features, from the number of features that both rows have: integers, so exact."""

    exact_bounds = True

    def __init__(self, name: str, formula: Callable[..., Any], prepare: Callable[[F64], F64] | None = None) -> None:
        super().__init__(name, prepare or (lambda rows: (rows != 0).astype(np.float64)))
        self._formula = formula
        self.keeps_csr = prepare is None

    def prepare(self, rows: Any) -> Any:
        """Rows of 0 and 1; CSR rows stay CSR."""
        if issparse(rows) and self.keeps_csr:
            out = csr_array(rows, dtype=np.float64, copy=True)
            out.eliminate_zeros()
            out.data[:] = 1.0
            return out
        return super().prepare(rows)

    def pairs(self, a: Any, b: Any) -> F64:
        """Distances of pairs."""
        both = np.asarray(a.multiply(b).sum(axis=1) if issparse(a) else (a * b).sum(axis=1)).ravel()
        return self._measure(both, _row_counts(a), _row_counts(b), a.shape[1])

    def bounds(self, a: Any, b: Any, centre: F64 | None) -> tuple[F64, F64]:
        """The distances themselves, twice."""
        both = a @ b.T
        both = np.asarray(both.toarray() if issparse(both) else both)
        table = self._measure(both, _row_counts(a)[:, None], _row_counts(b)[None, :], a.shape[1])
        return table, table

    def _measure(self, both: F64, in_a: F64, in_b: F64, n_features: int) -> F64:
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0: the formulas name the value with where()
            return np.asarray(self._formula(both, in_a, in_b, float(n_features)), dtype=np.float64)


class PairForm(Form):
    """A metric given by a function of pairs of rows, with SciPy's table as a shortlist where it has one."""

    def __init__(
        self,
        name: str,
        function: Callable[[F64, F64], F64],
        prepare: Callable[[F64], F64] | None = None,
        table: str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name, prepare)
        self._function = function
        self._table = table
        self.params = dict(params or {})

    @property
    def has_table(self) -> bool:
        """Whether SciPy gives a shortlist."""
        return self._table is not None

    def pairs(self, a: Any, b: Any) -> F64:
        """Distances of pairs."""
        return np.asarray(self._function(a, b), dtype=np.float64)

    def bounds(self, a: Any, b: Any, centre: F64 | None) -> tuple[F64, F64] | None:
        """SciPy's table with its rounding error; where it has no finite value, no bound."""
        if self._table is None:
            return None
        slack = (4 * a.shape[1] + 64) * EPS
        with np.errstate(divide="ignore", invalid="ignore"):
            table = cdist(a, b, self._table)
        known = np.isfinite(table)
        return np.where(known, table * (1 - slack), 0.0), np.where(known, table * (1 + slack), np.inf)


def _row_counts(rows: Any) -> F64:
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()


def _square_sums(rows: csr_array) -> F64:
    """Sum of squares of each CSR row; shape (b,)."""
    out = np.zeros(rows.shape[0])
    filled = np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        out[filled] = np.add.reduceat(rows.data * rows.data, rows.indptr[filled])
    return out
