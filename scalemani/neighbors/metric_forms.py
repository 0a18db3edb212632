"""From a metric's name to its form: what rows become, and what is measured between them.

Definitions are pynndescent's, computed in float64, but for these. Its ``true_angular`` is 1 for equal
directions and falls as they part: here it is what its name says, the angle over pi, with the same
neighbours. ``dot`` is between unit rows, as NN-descent makes them. Distributions are not smoothed,
and ``sinkhorn``, whose iteration ends before it is symmetric, is the mean of both ways.
Rows are in the metric's domain (:mod:`scalemani.neighbors.metrics`): that was checked as they were read.

Metrics given by a function of two rows: the user's, plain or compiled, and pynndescent's transports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.stats import rankdata

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.neighbors.forms import (
    ARC,
    ARC_SHARE,
    CLIPPED,
    HALF_SQUARE,
    IDENTITY,
    ROOT_HALF,
    SQUARE,
    CountForm,
    Form,
    NormForm,
    PairForm,
    Scale,
    braycurtis,
    canberra,
    jensen_shannon,
    kulsinski,
    ratio,
    rogerstanimoto,
    russellrao,
    symmetric_kl,
    tsss,
    yule,
)
from scalemani.neighbors.functions import enters_parallel_regions, function_name, one_numba_thread
from scalemani.neighbors.metrics import apart_from, canonical_name, checked_parameters, function_parameters
from scalemani.points.cells import SAME, typical_distance

_SAMPLED = 24  # rows between which a function is called both ways: 600 calls
BOTH_WAYS = "a distance is the same both ways: give one that is, such as their mean"


class FunctionForm(Form):
    """Distances by calling a function for each pair of rows.

    name: For messages.
    function: ``function(x, y, ...)`` of two float64 rows; a numba dispatcher is called from a compiled loop.
    params: Further arguments: by keyword, or by position in this order.
    positional: Whether ``params`` go by position.

    A function with parallel regions of numba's is called from one thread of the process at a time, and runs on one.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        params: Mapping[str, Any],
        positional: bool = False,
    ) -> None:
        super().__init__(name)
        self.function = function
        self.params = dict(params)
        self.user_given = not positional
        self.keyword_only = bool(params) and not positional
        self._both_ways = name == "sinkhorn" and positional  # ends before it is symmetric
        self.compiled = hasattr(function, "py_func") and hasattr(function, "overloads")
        self._parallel = enters_parallel_regions(function)
        if self.compiled and (positional or not params):
            self._loop = _compiled_loop(function, tuple(params.values()))
        else:
            self._loop = _plain_loop(function, self.params)

    def pairs(self, a: Any, b: Any) -> F64:
        """Distances of pairs."""
        out = np.empty(len(a))
        with one_numba_thread() if self._parallel else nullcontext():
            self._loop(a, b, out)
            if self._both_ways:
                back = np.empty(len(a))
                self._loop(b, a, back)
                out = (out + back) / 2
        return out


def check_function(function: Callable[..., Any], params: Mapping[str, Any], rows: Any, numbers: Any) -> None:
    """Raise unless a user's function is a distance between some of the distinct rows, which messages call `numbers`.

    That is the same both ways, a number >= 0, and 0 between a row and itself.
    """
    name = getattr(function, "__name__", type(function).__name__)
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(numbers), min(_SAMPLED, len(numbers)), replace=False))
    block = rows[some].toarray() if issparse(rows) else rows[some]
    block = np.ascontiguousarray(block, dtype=np.float64)
    a, b = np.triu_indices(len(some))
    there, back = np.empty(len(a)), np.empty(len(a))
    with one_numba_thread() if enters_parallel_regions(function) else nullcontext():
        loop = _plain_loop(function, params)
        loop(block[a], block[b], there)
        identity = function_name(function)  # now: what it makes once, when it is first called, is no change
        loop(block[b], block[a], back)
    large = np.maximum(there, back)
    own, unequal = a == b, there != back
    slack = SAME * typical_distance(large[~own])
    with np.errstate(invalid="ignore"):  # inf - inf
        gap = np.abs(there - back)
    wrong = {
        "a distance is a number >= 0": ~own & ~((there >= 0) & (back >= 0)),
        "a distance is 0 there": own & ~(np.abs(there) <= slack),
        BOTH_WAYS: ~own & unequal & ~(gap <= np.maximum(SAME * large, slack)),
    }
    for rule, bad in wrong.items():
        if bad.any():
            at = int(np.argmax(bad))
            i, j = numbers[some[a[at]]], numbers[some[b[at]]]
            other = "itself" if i == j else f"row {j} of X, and {float(back[at])!r} the other way round"
            raise ScalemaniError(f"metric={name!r} gives {float(there[at])!r} between row {i} and {other}: {rule}")
    if function_name(function) != identity:
        raise ScalemaniError(
            f"metric={name!r} changes what it uses when it is called (a counter, a cache?), so that it can't be told "
            "from another function: take that out"
        )


def pynndescent_function(name: str) -> Callable[..., Any]:
    """pynndescent's own compiled distance (importing it takes half a minute)."""
    from pynndescent.distances import named_distances  # here only: the import is dear

    function: Callable[..., Any] = named_distances[name]
    return function


def _compiled_loop(function: Any, arguments: tuple[Any, ...]) -> Callable[[F64, F64, F64], None]:
    import numba

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def loop(a, b, out):  # type: ignore[no-untyped-def]
        for i in range(len(out)):
            out[i] = function(a[i], b[i], *arguments)

    compiled: Callable[[F64, F64, F64], None] = loop
    return compiled


def _plain_loop(function: Callable[..., Any], params: Mapping[str, Any]) -> Callable[[F64, F64, F64], None]:
    def loop(a: F64, b: F64, out: F64) -> None:
        for i in range(len(out)):
            found = function(a[i], b[i], **params)
            try:
                out[i] = float(found)
            except (TypeError, ValueError):
                raise ScalemaniError(f"the metric function gives {found!r:.60}; a number is needed") from None

    return loop


def make_form(
    metric: Any,
    metric_params: Mapping[str, Any] | None,
    n_features: int,
    centre: F64 | None = None,
    non_negative: bool = False,
) -> Form:
    """The form of a metric for rows of ``n_features`` columns.

    metric: pynndescent's name, or a function of two float64 rows (d,) that gives a number >= 0.
    metric_params: See :func:`scalemani.neighbors.metrics.checked_parameters`; keyword arguments of a function.
    n_features: Number of columns.
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
    form = _FORMS[name](name, params, np.zeros(n_features) if centre is None else centre)
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


def _unit_ranks(rows: F64) -> F64:
    return _unit_deviations(rankdata(rows, axis=1))


def _roots(rows: F64) -> F64:
    return _unit_rows(np.sqrt(rows))


def _roots_csr(rows: csr_array) -> csr_array:
    out = csr_array(rows, copy=True)
    out.data = np.sqrt(out.data)
    return _unit_csr(out)


def _on_sphere(rows: F64) -> F64:
    latitude, longitude = rows[:, 0], rows[:, 1]
    return np.stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=1
    )


def _shares(rows: F64) -> F64:
    return np.asarray(rows / np.add.reduce(rows, axis=1, keepdims=True))


def _cumulated(rows: F64) -> F64:
    return np.cumsum(_shares(rows), axis=1)


def _scaled(weights: F64, centre: F64) -> Callable[[F64], F64]:
    return lambda rows: (rows - centre) * weights


def _whitened(inverse: F64, centre: F64) -> Callable[[F64], F64]:
    values, vectors = np.linalg.eigh((inverse + inverse.T) / 2)
    if values[0] < -1e-8 * max(values[-1], 0.0) or values[-1] <= 0:
        raise ScalemaniError(
            f"metric_params['VI'] of metric='mahalanobis' has the eigenvalue {values[0]}; all must be >= 0"
        )
    factor = vectors * np.sqrt(np.maximum(values, 0.0))

    def prepare(rows: F64) -> F64:
        out = np.zeros_like(rows)
        shifted = rows - centre
        # Not by BLAS, whose bits depend on the number of rows.
        for column, weights in zip(shifted.T, factor, strict=True):
            out += column[:, None] * weights
        return out

    return prepare


def _norm(
    p: float | None = None, scale: Scale = IDENTITY, prepare: Any = None, csr: Any = None, hold: bool = False
) -> Any:
    def make(name: str, params: dict[str, Any], centre: F64) -> Form:
        power = params.get("p", 2.0) if p is None else p
        keep = csr if power == 2 else None
        return NormForm(name, power, scale, prepare, keep, hold)

    return make


def _seuclidean(name: str, params: dict[str, Any], centre: F64) -> Form:
    return NormForm(name, 2.0, prepare=_scaled(1 / np.sqrt(params["V"]), centre))


def _wminkowski(name: str, params: dict[str, Any], centre: F64) -> Form:
    p = params["p"]
    weights = (params["w"] > 0).astype(np.float64) if np.isinf(p) else params["w"] ** (1 / p)
    return NormForm(name, p, prepare=_scaled(weights, centre))


def _mahalanobis(name: str, params: dict[str, Any], centre: F64) -> Form:
    return NormForm(name, 2.0, prepare=_whitened(params["VI"], centre), hold=True)


def _wasserstein(name: str, params: dict[str, Any], centre: F64) -> Form:
    return NormForm(name, params["p"], prepare=_cumulated)


def _circular(name: str, params: dict[str, Any], centre: F64) -> Form:
    def function(a: F64, b: F64) -> F64:
        gap = a - b
        return np.asarray(np.add.reduce(np.abs(gap - np.median(gap, axis=1)[:, None]), axis=1))

    return PairForm(name, function, _cumulated, params={"p": 1})


def _transport(name: str, params: dict[str, Any], centre: F64) -> Form:
    if "max_iter" in params:
        params = {**params, "max_iter": int(params["max_iter"])}
    return FunctionForm(name, pynndescent_function(name), params, positional=True)


def _pair(function: Callable[[F64, F64], F64], table: str | None = None, prepare: Any = None) -> Any:
    return lambda name, params, centre: PairForm(name, function, prepare, table)


def _count(formula: Callable[..., Any], prepare: Callable[[F64], F64] | None = None) -> Any:
    return lambda name, params, centre: CountForm(name, formula, prepare)


def _bits(rows: F64) -> F64:
    return np.unpackbits(rows.astype(np.uint8), axis=1).astype(np.float64)


_FORMS: dict[str, Callable[[str, dict[str, Any], F64], Form]] = {
    "euclidean": _norm(2.0, csr=lambda rows: rows),
    "sqeuclidean": _norm(2.0, SQUARE, csr=lambda rows: rows),
    "manhattan": _norm(1.0),
    "chebyshev": _norm(float("inf")),
    "minkowski": _norm(csr=lambda rows: rows),
    "seuclidean": _seuclidean,
    "wminkowski": _wminkowski,
    "mahalanobis": _mahalanobis,
    "cosine": _norm(2.0, HALF_SQUARE, _unit_rows, _unit_csr),
    "dot": _norm(2.0, CLIPPED, _unit_rows, _unit_csr),
    "true_angular": _norm(2.0, ARC_SHARE, _unit_rows, _unit_csr),
    "correlation": _norm(2.0, HALF_SQUARE, _unit_deviations),
    "spearmanr": _norm(2.0, HALF_SQUARE, _unit_ranks, hold=True),
    "hellinger": _norm(2.0, ROOT_HALF, _roots, _roots_csr),
    "haversine": _norm(2.0, ARC, _on_sphere),
    "wasserstein_1d": _wasserstein,
    "circular_kantorovich": _circular,
    "kantorovich": _transport,
    "sinkhorn": _transport,
    "canberra": _pair(canberra, "canberra"),
    "braycurtis": _pair(braycurtis, "braycurtis"),
    "hamming": _pair(lambda a, b: np.count_nonzero(a != b, axis=1) / a.shape[1], "hamming"),
    "jensen_shannon": _pair(jensen_shannon, prepare=_shares),
    "symmetric_kl": _pair(symmetric_kl, prepare=_shares),
    "tsss": _pair(tsss),
    "jaccard": _count(lambda tt, a, b, d: ratio(a + b - 2 * tt, a + b - tt)),
    "dice": _count(lambda tt, a, b, d: ratio(a + b - 2 * tt, a + b)),
    "matching": _count(lambda tt, a, b, d: (a + b - 2 * tt) / d),
    "kulsinski": _count(kulsinski),
    "rogerstanimoto": _count(rogerstanimoto),
    "sokalmichener": _count(rogerstanimoto),
    "russellrao": _count(russellrao),
    "sokalsneath": _count(lambda tt, a, b, d: ratio(a + b - 2 * tt, a + b - 1.5 * tt)),
    "yule": _count(yule),
    "bit_hamming": _count(lambda tt, a, b, d: a + b - 2 * tt, _bits),
    "bit_jaccard": _count(lambda tt, a, b, d: np.where(a + b == 0, 0.0, -np.log(tt / (a + b - tt))), _bits),
}
