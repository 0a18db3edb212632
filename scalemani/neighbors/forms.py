"""A metric's form: what rows become, once and each by itself, and what is measured between them.

Most metrics are a p-norm between prepared rows (cosine: unit rows; Mahalanobis: whitened rows; rank correlation: unit
rows of centred ranks). That gives one accurate formula, one tree and one shortlist for all of them, and lets NN-descent
search in that space, too. Metrics of yes and no follow from counts of features; the others have a formula for pairs of
rows, or are functions. Everything here depends on the rows of a pair alone, never on the block they come in: sums run
along one contiguous row, and matrix products give bounds only.

Definitions are pynndescent's, computed in float64, but for these. Its ``true_angular`` is 1 for equal directions and
falls as they part: here it is what its name says, the angle over pi, with the same neighbours. ``dot`` is between unit
rows, as NN-descent makes them. Distributions are not smoothed, and ``sinkhorn``, whose iteration ends before it is
symmetric, is the mean of both ways. Rows are in the metric's domain: that was checked as they were read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist
from scipy.special import rel_entr
from scipy.stats import rankdata

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.neighbors.functions import enters_parallel_regions, one_numba_thread, pair_loop, pynndescent_function
from scalemani.neighbors.metrics import apart_from, canonical_name, checked_parameters, function_parameters

Prepare: TypeAlias = Callable[[F64], F64] | None
"""What each row becomes, from blocks of dense rows in float64."""
EPS = float(np.finfo(np.float64).eps)
_SMALLEST = float(np.finfo(np.float64).tiny)


class Form(ABC):
    """A metric on prepared rows. Subclasses say how distances of pairs are made."""

    exact_bounds = False  # bounds() gives the distances themselves
    has_tree = False  # a k-d tree of prepared rows lists them in the order of this metric
    hold = False  # preparation is dear: prepared rows are kept
    alone = False  # no index knows these distances: all pairs are compared
    limit: float | None = None  # from here on rows have nothing in common, and are no neighbours

    def __init__(self, name: str, prepare: Prepare = None) -> None:
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

    def bounds(self, a: Any, b: Any, center: F64 | None) -> tuple[F64, F64] | None:
        """Bounds (q, m), lower and upper, of what ``pairs`` gives for all pairs; None where none is cheap."""
        return None


@dataclass(frozen=True)
class Scale:
    """How a distance follows from the square of a Euclidean norm, and the largest norm whose distance is at most r."""

    of_square: Callable[[Any], Any]
    norm: Callable[[Any], Any]


def _arc(half_turn: float) -> Scale:
    """The angle between unit rows, in a unit of which a half turn has so many."""
    radian = np.pi / half_turn
    return Scale(
        lambda s: 2 * np.arcsin(np.minimum(np.sqrt(s) / 2, 1.0)) / radian,
        lambda r: np.where(np.less(r, half_turn), 2 * np.sin(radian * np.minimum(r, half_turn) / 2), np.inf),
    )


IDENTITY = Scale(np.sqrt, lambda r: r)
SQUARE = Scale(lambda s: s, np.sqrt)
HALF_SQUARE = Scale(lambda s: s / 2, lambda r: np.sqrt(2 * r))
CLIPPED = Scale(lambda s: np.minimum(s / 2, 1.0), lambda r: np.where(np.less(r, 1), np.sqrt(2 * r), np.inf))
ROOT_HALF = Scale(lambda s: np.sqrt(s / 2), lambda r: np.sqrt(2.0) * r)


class NormForm(Form):
    """A p-norm between prepared rows, then an increasing function of it."""

    def __init__(
        self, name: str, p: float = 2.0, scale: Scale = IDENTITY, prepare: Prepare = None, csr: Any = None
    ) -> None:
        super().__init__(name, prepare)
        self.p, self.scale = p, scale
        self._prepare_csr = csr if p == 2 else None
        self.keeps_csr = self._prepare_csr is not None
        self.has_tree = p <= 8 or np.isinf(p)  # beyond, the powers that a tree sums overflow or vanish

    def prepare(self, rows: Any) -> Any:
        """As :meth:`Form.prepare`; CSR rows stay CSR under a Euclidean norm if preparation keeps zeros."""
        if issparse(rows) and self._prepare_csr is not None:
            return self._prepare_csr(csr_array(rows, dtype=np.float64))
        return super().prepare(rows)

    def of_norm(self, norms: F64) -> F64:
        """The distances of prepared rows whose differences have these norms."""
        return np.asarray(self.scale.of_square(np.square(norms)) if self.p == 2 else norms)

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

    def bounds(self, a: Any, b: Any, center: F64 | None) -> tuple[F64, F64] | None:
        """Bounds from a matrix product (p = 2) or from SciPy's table with its rounding error."""
        if self.p == 2:
            return self._product_bounds(a, b, center)
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

    def _product_bounds(self, a: Any, b: Any, center: F64 | None) -> tuple[F64, F64]:
        """|a|² + |b|² - 2 a·b is off by at most (2d + 32) u (|a| + |b|)², u = 2^-53, centring included:
        gamma_d for the product and for the squares, 2u for each centred entry; and the direct sum by gamma_d.
        (|a| + |b|)² <= 2 (|a|² + |b|²) makes the bound separable, and EPS = 2u leaves a factor of two."""
        if issparse(a):
            terms = max(int(np.diff(x.indptr).max(initial=0)) for x in (a, b))
            squares = [_square_sums(x) for x in (a, b)]
            product = np.asarray((a @ b.T).toarray())
        else:
            terms = a.shape[1]
            a, b = a - center, b - center
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

    def __init__(self, name: str, formula: Callable[..., Any], prepare: Prepare = None) -> None:
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
        both = np.asarray(a.multiply(b).sum(axis=1) if issparse(a) else (a * b).sum(axis=1)).ravel()
        return self._measure(both, _row_counts(a), _row_counts(b), a.shape[1])

    def bounds(self, a: Any, b: Any, center: F64 | None) -> tuple[F64, F64]:
        both = a @ b.T
        both = np.asarray(both.toarray() if issparse(both) else both)
        table = self._measure(both, _row_counts(a)[:, None], _row_counts(b), a.shape[1])
        return table, table

    def _measure(self, both: F64, in_a: F64, in_b: F64, n_features: int) -> F64:
        unequal = in_a + in_b - 2 * both
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 between equal rows
            found = np.asarray(self._formula(both, unequal, in_a, in_b, float(n_features)), dtype=np.float64)
        np.copyto(found, 0.0, where=unequal == 0)
        return found


class PairForm(Form):
    """A metric given by a function of pairs of rows, with SciPy's table as a shortlist where it has one."""

    def __init__(
        self, name: str, function: Callable[[F64, F64], F64], prepare: Prepare = None, table: str | None = None
    ) -> None:
        super().__init__(name, prepare)
        self._function, self._table = function, table
        self.has_table = table is not None  # of SciPy's, which gives a shortlist

    def pairs(self, a: Any, b: Any) -> F64:
        return np.asarray(self._function(a, b), dtype=np.float64)

    def bounds(self, a: Any, b: Any, center: F64 | None) -> tuple[F64, F64] | None:
        """SciPy's table with its rounding error; where it has no finite value, no bound."""
        if self._table is None:
            return None
        slack = (4 * a.shape[1] + 64) * EPS
        with np.errstate(divide="ignore", invalid="ignore"):
            table = cdist(a, b, self._table)
        known = np.isfinite(table)
        return np.where(known, table * (1 - slack), 0.0), np.where(known, table * (1 + slack), np.inf)


class FunctionForm(Form):
    """Distances by calling a function of two float64 rows for each pair; one of numba's from a compiled loop.

    params: Further arguments: by keyword, or (`positional`) by position in this order.

    A function with parallel regions of numba's is called from one thread of the process at a time, and runs on one.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], params: Mapping[str, Any], positional: bool = False
    ) -> None:
        super().__init__(name)
        self.function = function
        self.params = dict(params)
        self.user_given = not positional
        self.keyword_only = bool(params) and not positional
        self._both_ways = name == "sinkhorn" and positional  # ends before it is symmetric
        self.compiled = hasattr(function, "py_func") and hasattr(function, "overloads")
        self._parallel = enters_parallel_regions(function)
        self._loop = pair_loop(function, self.params, positional)

    def pairs(self, a: Any, b: Any) -> F64:
        out = np.empty(len(a))
        with one_numba_thread() if self._parallel else nullcontext():
            self._loop(a, b, out)
            if self._both_ways:
                back = np.empty(len(a))
                self._loop(b, a, back)
                out = (out + back) / 2
        return out


def _row_counts(rows: Any) -> F64:
    return np.asarray(rows.sum(axis=1), dtype=np.float64).ravel()


def _square_sums(rows: csr_array) -> F64:
    """Sum of squares of each CSR row; shape (b,)."""
    out = np.zeros(rows.shape[0])
    filled = np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        out[filled] = np.add.reduceat(rows.data * rows.data, rows.indptr[filled])
    return out


def make_form(
    metric: Any,
    metric_params: Mapping[str, Any] | None,
    n_features: int,
    center: F64 | None = None,
    non_negative: bool = False,
) -> Form:
    """The form of a metric for rows of ``n_features`` columns.

    metric, metric_params: See :class:`scalemani.neighbors.exact.ExactSearch`; keyword arguments of a function.
    centre (n_features,): Taken off rows before they are scaled, so that a large common offset costs no digits.
    non_negative: Whether no row that is searched among has a negative entry.
    Raises ScalemaniError: Unknown metric, or a parameter that is missing, unknown or out of range.
    """
    if callable(metric):
        called = getattr(metric, "__name__", type(metric).__name__)
        return FunctionForm(called, metric, function_parameters(metric_params))
    name = canonical_name(metric)
    params = checked_parameters(name, metric_params, n_features)
    if name == "haversine" and n_features != 2:
        raise ScalemaniError(f"metric='haversine' needs 2 features (latitude, longitude); X has {n_features}")
    form = _form(name, params, np.zeros(n_features) if center is None else center)
    form.limit = apart_from(name, n_features, non_negative)
    return form


def _unit_rows(rows: F64) -> F64:
    top = np.max(np.abs(rows), axis=1, keepdims=True)
    scaled = np.divide(rows, top, out=np.zeros_like(rows), where=top > 0)  # or squares overflow
    norm = np.sqrt(np.add.reduce(scaled * scaled, axis=1, keepdims=True))
    return np.asarray(np.divide(scaled, norm, out=scaled, where=norm > 0))


def _unit_csr(rows: csr_array) -> csr_array:
    counts = np.diff(rows.indptr)
    out = csr_array(rows, copy=True)
    filled = np.flatnonzero(counts)
    if len(filled):
        top = np.maximum.reduceat(np.abs(rows.data), rows.indptr[filled])
        scaled = rows.data / np.repeat(top, counts[filled])
        norms = np.sqrt(np.add.reduceat(scaled * scaled, rows.indptr[filled]))
        out.data = scaled / np.repeat(norms, counts[filled])
    return out


def _unit_deviations(rows: F64) -> F64:
    return _unit_rows(rows - np.add.reduce(rows, axis=1, keepdims=True) / rows.shape[1])


def _on_sphere(rows: F64) -> F64:
    latitude, longitude = rows[:, 0], rows[:, 1]
    level = np.cos(latitude)
    return np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1)


def _shares(rows: F64) -> F64:
    return np.asarray(rows / np.add.reduce(rows, axis=1, keepdims=True))


def _cumulated(rows: F64) -> F64:
    return np.cumsum(_shares(rows), axis=1)


def _whitened(inverse: F64, center: F64) -> Callable[[F64], F64]:
    values, vectors = np.linalg.eigh((inverse + inverse.T) / 2)
    if values[0] < -1e-8 * max(values[-1], 0.0) or values[-1] <= 0:
        raise ScalemaniError(
            f"metric_params['VI'] of metric='mahalanobis' has the eigenvalue {values[0]}; all must be >= 0"
        )
    factor = vectors * np.sqrt(np.maximum(values, 0.0))

    def prepare(rows: F64) -> F64:
        out = np.zeros_like(rows)
        shifted = rows - center
        # Not by BLAS, whose bits depend on the number of rows.
        for column, weights in zip(shifted.T, factor, strict=True):
            out += column[:, None] * weights
        return out

    return prepare


def _bits(rows: F64) -> F64:
    return np.unpackbits(rows.astype(np.uint8), axis=1).astype(np.float64)


# Formulas of metrics that are no norm, with what rows become and the table of SciPy's that is a shortlist.


def _canberra(a: F64, b: F64) -> F64:
    total = np.abs(a) + np.abs(b)
    share = np.divide(np.abs(a - b), total, out=np.zeros_like(a), where=total > 0)
    return np.asarray(np.add.reduce(share, axis=1))


def _braycurtis(a: F64, b: F64) -> F64:
    total = np.add.reduce(np.abs(a + b), axis=1)
    gap = np.add.reduce(np.abs(a - b), axis=1)
    return np.asarray(np.divide(gap, total, out=np.zeros_like(gap), where=total > 0))


def _jensen_shannon(a: F64, b: F64) -> F64:
    middle = (a + b) / 2
    terms = (rel_entr(a, middle) + rel_entr(b, middle)) / 2
    return np.asarray(np.maximum(np.add.reduce(terms, axis=1), 0.0))


def _symmetric_kl(a: F64, b: F64) -> F64:
    logarithms = np.log(a) - np.log(b)  # not of a / b, whose rounding is another one for b / a
    return np.asarray(np.add.reduce((a - b) * logarithms, axis=1))


def _tsss(a: F64, b: F64) -> F64:
    norm_a, norm_b = (np.sqrt(np.add.reduce(x * x, axis=1)) for x in (a, b))
    gap = a - b
    distance = np.sqrt(np.add.reduce(gap * gap, axis=1))
    product = norm_a * norm_b
    cosine = np.divide(np.add.reduce(a * b, axis=1), product, out=np.zeros_like(product), where=product > 0)
    theta = np.arccos(np.clip(cosine, -1, 1)) + np.radians(10)
    sector = (distance + np.abs(norm_a - norm_b)) ** 2 * theta / 2
    return np.asarray(product * np.sin(theta) / 2 * sector)


def _circular(a: F64, b: F64) -> F64:
    gap = a - b
    return np.asarray(np.add.reduce(np.abs(gap - np.median(gap, axis=1)[:, None]), axis=1))


_PAIRS: dict[str, tuple[Any, ...]] = {
    "canberra": (_canberra, None, "canberra"),
    "braycurtis": (_braycurtis, None, "braycurtis"),
    "hamming": (lambda a, b: np.count_nonzero(a != b, axis=1) / a.shape[1], None, "hamming"),
    "jensen_shannon": (_jensen_shannon, _shares),
    "symmetric_kl": (_symmetric_kl, _shares),
    "tsss": (_tsss,),
    "circular_kantorovich": (_circular, _cumulated),
}

# Formulas of counts, but for rows that are equal: their distance is 0. Features are `tt` in both rows, `u` in one of
# them alone, `a` and `b` in each, `d` in all.


def _yule(tt: F64, u: F64, a: F64, b: F64, d: float) -> Any:
    product = (a - tt) * (b - tt)
    return np.where(product == 0, 0.0, 2 * product / (tt * (d - tt - u) + product))


_COUNTS: dict[str, Callable[..., Any]] = {
    "jaccard": lambda tt, u, a, b, d: u / (tt + u),
    "dice": lambda tt, u, a, b, d: u / (a + b),
    "matching": lambda tt, u, a, b, d: u / d,
    "kulsinski": lambda tt, u, a, b, d: (u - tt + d) / (u + d),
    "rogerstanimoto": lambda tt, u, a, b, d: 2 * u / (d + u),
    "sokalmichener": lambda tt, u, a, b, d: 2 * u / (d + u),
    "russellrao": lambda tt, u, a, b, d: (d - tt) / d,
    "sokalsneath": lambda tt, u, a, b, d: u / (tt / 2 + u),
    "yule": _yule,
    "bit_hamming": lambda tt, u, a, b, d: u,
    "bit_jaccard": lambda tt, u, a, b, d: -np.log(tt / (tt + u)),
}

# p-norms between prepared rows. Where `p` is missing it is the parameter of that name, or 2.
_NORMS: dict[str, dict[str, Any]] = {
    "euclidean": {"csr": lambda rows: rows},
    "sqeuclidean": {"scale": SQUARE, "csr": lambda rows: rows},
    "manhattan": {"p": 1.0},
    "chebyshev": {"p": float("inf")},
    "minkowski": {"csr": lambda rows: rows},
    "seuclidean": {},
    "wminkowski": {},
    "mahalanobis": {},
    "cosine": {"scale": HALF_SQUARE, "prepare": _unit_rows, "csr": _unit_csr},
    "dot": {"scale": CLIPPED, "prepare": _unit_rows, "csr": _unit_csr},
    "true_angular": {"scale": _arc(1.0), "prepare": _unit_rows, "csr": _unit_csr},
    "correlation": {"scale": HALF_SQUARE, "prepare": _unit_deviations},
    "spearmanr": {"scale": HALF_SQUARE, "prepare": lambda rows: _unit_deviations(rankdata(rows, axis=1))},
    "hellinger": {
        "scale": ROOT_HALF,
        "prepare": lambda rows: _unit_rows(np.sqrt(rows)),
        "csr": lambda rows: _unit_csr(rows.sqrt()),
    },
    "haversine": {"scale": _arc(np.pi), "prepare": _on_sphere},
    "wasserstein_1d": {"prepare": _cumulated},
}


def _form(name: str, params: dict[str, Any], center: F64) -> Form:
    if name in _COUNTS:
        return CountForm(name, _COUNTS[name], _bits if name.startswith("bit_") else None)
    if name in _PAIRS:
        found = PairForm(name, *_PAIRS[name])
        found.params = params
        return found
    if name not in _NORMS:  # optimal transport
        if "max_iter" in params:
            params = {**params, "max_iter": int(params["max_iter"])}
        return FunctionForm(name, pynndescent_function(name), params, positional=True)
    options = {"p": params.get("p", 2.0), **_NORMS[name]}
    if name in ("seuclidean", "wminkowski"):
        if name == "seuclidean":
            weights = 1 / np.sqrt(params["V"])
        else:
            weights = (params["w"] > 0).astype(float) if np.isinf(params["p"]) else params["w"] ** (1 / params["p"])
        options["prepare"] = lambda rows: (rows - center) * weights
    elif name == "mahalanobis":
        options["prepare"] = _whitened(params["VI"], center)
    form = NormForm(name, **options)
    form.hold = name in ("mahalanobis", "spearmanr")
    return form
