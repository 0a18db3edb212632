"""From a metric's name to its form: what rows become, and what is measured between them.

Definitions are pynndescent's, computed in float64, but for these. Its ``true_angular`` is 1 for equal
directions and falls as they part: here it is what its name says, the angle over pi, with the same
neighbours. ``dot`` is between unit rows, as NN-descent makes them. Distributions are not smoothed,
and ``sinkhorn``, whose iteration ends before it is symmetric, is the mean of both ways.
Rows are in the metric's domain (:mod:`.domains`): that was checked as they were read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import rankdata

from scalemani.errors import ScalemaniError
from scalemani.search.distance_forms import (
    ARC,
    ARC_SHARE,
    CLIPPED,
    F64,
    HALF_SQUARE,
    IDENTITY,
    ROOT_HALF,
    SQUARE,
    CountForm,
    Form,
    NormForm,
    PairForm,
    Scale,
)
from scalemani.search.function_metrics import FunctionForm, pynndescent_function
from scalemani.search.metrics import apart_from, canonical_name, checked_parameters, function_parameters
from scalemani.search.pair_formulas import (
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


def make_form(
    metric: Any,
    metric_params: Mapping[str, Any] | None,
    n_features: int,
    centre: F64 | None = None,
    non_negative: bool = False,
) -> Form:
    """The form of a metric for rows of ``n_features`` columns.

    metric: pynndescent's name, or a function of two float64 rows (d,) that gives a number >= 0.
    metric_params: See :func:`scalemani.search.metrics.checked_parameters`; keyword arguments of a function.
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
