"""Names, domains and parameters of the metrics: pynndescent's names, checked without importing pynndescent.

Parameters go by SciPy's names or by pynndescent's; they mean the same in the exact and in the approximate search.
Whatever is missing or unknown is named before any work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.errors import ScalemaniError, unknown

_EPS = float(np.finfo(np.float64).eps)
_ROUNDED = 1 + 1e-6  # of float32's pi


@dataclass(frozen=True)
class Domain:
    """What is allowed.

    words: The rule, as messages and the documentation say it.
    entry: Whether each entry is bad, from entries and their columns; CSR rows show what they store.
    row: Whether each row is bad, from a block of rows.
    fault: What a bad row has.
    """

    words: str = "any numbers"
    entry: Callable[[Any, Any], Any] | None = None
    row: Callable[[Any], Any] | None = None
    fault: str = ""

    def check(self, metric: str, block: Any, start: int, name: str) -> None:
        """Raise where a block of rows, the first of them row `start` of `name`, holds what is not allowed."""
        takes = f"metric={metric!r} takes {self.words}: drop or change those rows, or use another metric"
        values, columns = (block.data, block.indices) if issparse(block) else (block, np.arange(block.shape[1]))
        bad = None if self.entry is None else self.entry(values, columns)
        if bad is not None and bad.any():
            at, count = int(np.argmax(bad)), int(bad.sum())
            row, column = divmod(at, block.shape[1])
            if issparse(block):
                row, column = int(np.searchsorted(block.indptr, at, side="right")) - 1, int(columns[at])
            raise ScalemaniError(
                f"Input {name} contains {values.flat[at]:g} at row {start + row}, column {column} ({count} such "
                f"entries in this block of rows); {takes}"
            )
        wrong = None if self.row is None else self.row(block)
        if wrong is not None and wrong.any():
            raise ScalemaniError(
                f"Input {name} has {self.fault} in row {start + int(np.argmax(wrong))} ({int(wrong.sum())} such rows "
                f"in this block of rows); {takes}"
            )


def _filled(block: Any) -> Any:
    """The number of entries other than 0 in each row; CSR blocks store no zeros."""
    return np.diff(block.indptr) if issparse(block) else np.count_nonzero(block, axis=1)


def _constant(block: Any) -> Any:
    """Rows whose entries are equal but for rounding."""
    found = _filled(block)
    if issparse(block):
        full = np.flatnonzero(found == block.shape[1])
        out = found == 0
        out[full] = _constant(block[full].toarray()) if len(full) else False
        return out
    low, high = (ends(block, axis=1).astype(np.float64) for ends in (np.min, np.max))
    return high - low <= 4 * block.shape[1] * _EPS * np.maximum(np.abs(low), np.abs(high))


REAL = Domain()
NOT_CONSTANT = Domain("rows whose entries are not all equal", row=_constant, fault="one number everywhere")
NON_NEGATIVE = Domain("numbers >= 0", lambda values, columns: values < 0)
NOT_ZERO = Domain("rows that are not all 0", row=lambda block: _filled(block) == 0, fault="only zeros")
SHARES = replace(NOT_ZERO, words="numbers >= 0, and rows that are not all 0", entry=NON_NEGATIVE.entry)
POSITIVE = Domain(
    "numbers > 0", lambda values, columns: values <= 0, lambda block: _filled(block) < block.shape[1], "entries of 0"
)
YES_OR_NO = Domain(
    "0 and 1 (give X != 0 to compare which entries are there)", lambda values, columns: (values != 0) & (values != 1)
)
YES_AND_NO = Domain(
    "0 and 1, and rows that hold both",
    YES_OR_NO.entry,
    lambda block: (_filled(block) == 0) | (_filled(block) == block.shape[1]),
    "one number everywhere",
)
BYTES = Domain(
    "packed bits (integers from 0 to 255)",
    lambda values, columns: (values < 0) | (values > 255) | (values != np.floor(values)),
)
ANGLES = Domain(
    "radians (latitude from -π/2 to π/2, then longitude from -2π to 2π; numpy.radians makes them of degrees)",
    lambda values, columns: np.abs(values) > np.where(columns == 0, np.pi / 2, 2 * np.pi) * _ROUNDED,
)


@dataclass(frozen=True)
class Metric:
    """What is known of a metric by name; docs/metrics.md has the same table."""

    domain: Domain  # rows that it takes
    proper: bool  # it obeys the triangle inequality (and may be 0 between different rows)
    maximum: float | None = None  # of any rows; None where there is none, or parameters set it
    apart: float | None = None  # from this distance on, rows have nothing in common, and are no neighbours
    non_negative: bool = False  # that holds where no training row has a negative entry
    by_feature: bool = False  # both numbers are for one feature
    aliases: tuple[str, ...] = ()  # as pynndescent and SciPy list them


METRICS: dict[str, Metric] = {
    "euclidean": Metric(REAL, True, aliases=("l2",)),
    "sqeuclidean": Metric(REAL, False),
    "manhattan": Metric(REAL, True, aliases=("taxicab", "l1", "cityblock")),
    "chebyshev": Metric(REAL, True, aliases=("linfinity", "linfty", "linf")),
    "minkowski": Metric(REAL, True),
    "seuclidean": Metric(REAL, True, aliases=("standardised_euclidean",)),
    "wminkowski": Metric(REAL, True, aliases=("weighted_minkowski",)),
    "mahalanobis": Metric(REAL, True),
    "canberra": Metric(REAL, True, 1.0, 1.0, by_feature=True),
    "cosine": Metric(NOT_ZERO, False, 2.0, 1.0, non_negative=True),
    "dot": Metric(NOT_ZERO, False, 1.0, 1.0, aliases=("direct_cosine",)),
    "correlation": Metric(NOT_CONSTANT, False, 2.0),
    "haversine": Metric(ANGLES, True, math.pi),
    "braycurtis": Metric(NON_NEGATIVE, False, 1.0, 1.0),
    "spearmanr": Metric(NOT_CONSTANT, False, 2.0),
    "tsss": Metric(SHARES, False),
    "true_angular": Metric(NOT_ZERO, True, 1.0, 0.5, non_negative=True),
    "hellinger": Metric(SHARES, True, 1.0, 1.0),
    "kantorovich": Metric(SHARES, True, aliases=("wasserstein",)),
    "wasserstein_1d": Metric(SHARES, True, aliases=("wasserstein-1d", "kantorovich-1d", "kantorovich_1d")),
    "circular_kantorovich": Metric(SHARES, True, aliases=("circular_wasserstein",)),
    "sinkhorn": Metric(POSITIVE, False),
    "jensen_shannon": Metric(SHARES, False, math.log(2), math.log(2), aliases=("jensen-shannon",)),
    "symmetric_kl": Metric(POSITIVE, False, aliases=("symmetric-kl", "symmetric_kullback_liebler")),
    "hamming": Metric(REAL, True, 1.0, 1.0),
    "jaccard": Metric(YES_OR_NO, True, 1.0, 1.0),
    "dice": Metric(YES_OR_NO, False, 1.0, 1.0),
    "matching": Metric(YES_OR_NO, True, 1.0, 1.0),
    "kulsinski": Metric(YES_OR_NO, True, 1.0, 1.0),
    "rogerstanimoto": Metric(YES_OR_NO, True, 1.0, 1.0),
    "russellrao": Metric(YES_OR_NO, True, 1.0, 1.0),
    "sokalsneath": Metric(YES_OR_NO, True, 1.0, 1.0),
    "sokalmichener": Metric(YES_OR_NO, True, 1.0, 1.0),
    "yule": Metric(YES_AND_NO, False, 2.0, 2.0),
    "bit_hamming": Metric(BYTES, True, 8.0, 8.0, by_feature=True),
    "bit_jaccard": Metric(BYTES, False, math.inf, math.inf),
}

# Known to pynndescent, but no length of an edge.
REFUSED = {"inner_product": "it is negative for similar rows, and a distance is >= 0; use 'cosine' or 'euclidean'"}

# Parameter -> its other name. pynndescent takes them by position: the order of PARAMETERS is its order.
_SYNONYMS = {"sigma": "V", "vinv": "VI"}
PARAMETERS: dict[str, tuple[str, ...]] = {
    "minkowski": ("p",),
    "seuclidean": ("V",),
    "wminkowski": ("w", "p"),
    "mahalanobis": ("VI",),
    "kantorovich": ("cost", "max_iter"),
    "wasserstein_1d": ("p",),
    "circular_kantorovich": ("p",),
    "sinkhorn": ("cost", "regularization"),
}
_DEFAULTS: dict[tuple[str, str], float] = {
    ("minkowski", "p"): 2.0,
    ("wminkowski", "p"): 2.0,
    ("wasserstein_1d", "p"): 1.0,
    ("circular_kantorovich", "p"): 1.0,
    ("kantorovich", "max_iter"): 100_000,
    ("sinkhorn", "regularization"): 1.0,
}
_SHAPES = {
    "V": "variances, shape (n_features,)",
    "w": "weights, shape (n_features,)",
    "VI": "the inverse covariance matrix, shape (n_features, n_features)",
    "cost": "costs between bins, shape (n_features, n_features)",
}

_CANONICAL = {alias: name for name, known in METRICS.items() for alias in (name, *known.aliases)}
GIVEN_METRICS = ("precomputed", "geodesic")


def metric_names() -> list[str]:
    """Every name that is accepted, aliases included, sorted."""
    return sorted(_CANONICAL)


def is_function_name(metric: Any) -> bool:
    """Whether a recorded metric is the name of a function."""
    return isinstance(metric, str) and ":" in metric and "#" in metric


def canonical_name(metric: Any) -> str:
    """The canonical name of a metric given by name.

    Raises ScalemaniError: The name is unknown, or known to pynndescent but no length.
    """
    if isinstance(metric, str) and metric in _CANONICAL:
        return _CANONICAL[metric]
    if isinstance(metric, str) and metric in REFUSED:
        raise ScalemaniError(f"metric={metric!r} can't be used: {REFUSED[metric]}")
    raise unknown("metric=", metric, (*metric_names(), *GIVEN_METRICS), "or a function of two rows")


def domain_check(metric: Any) -> Callable[[Any, int, str], None] | None:
    """What raises unless a metric takes a block of rows: ``check(block, number of its first row, name of X)``."""
    name = _CANONICAL.get(metric) if isinstance(metric, str) else None
    return None if name is None else partial(METRICS[name].domain.check, name)


def apart_from(name: str, n_features: int, non_negative: bool) -> float | None:
    """The distance from which on rows of so many features have nothing in common, less its rounding; None for none."""
    known = METRICS[name]
    if known.apart is None or (known.non_negative and not non_negative):
        return None
    return known.apart * (n_features if known.by_feature else 1) * (1 - 1e-12 - 4 * n_features * np.finfo(float).eps)


def checked_parameters(name: str, metric_params: Mapping[str, Any] | None, n_features: int) -> dict[str, Any]:
    """Every parameter of a metric, by its canonical name, in pynndescent's order; arrays as float64.

    metric_params: By SciPy's names (``p``, ``V``, ``w``, ``VI``) or pynndescent's (``sigma``, ``vinv``, ``cost``, ...).
    Raises ScalemaniError: A parameter is missing, unknown, of the wrong shape or out of its range.
    """
    given = {_SYNONYMS.get(key, key): value for key, value in (metric_params or {}).items()}
    allowed = PARAMETERS.get(name, ())
    for key in sorted(set(given) - set(allowed), key=str):
        if not allowed:
            raise ScalemaniError(f"metric_params has {key}, but metric={name!r} takes no parameters: leave it out")
        raise unknown(f"metric_params of metric={name!r} has ", key, allowed)
    checked: dict[str, Any] = {}
    for key in allowed:
        if key in given:
            checked[key] = _checked(name, key, given[key], n_features)
            if name == "circular_kantorovich" and checked[key] != 1:
                raise ScalemaniError(
                    f"metric_params['p'] of metric={name!r} is {given[key]!r}; others than 1 depend "
                    "on which row comes first: give 1, or leave it out"
                )
        elif (name, key) in _DEFAULTS:
            checked[key] = _DEFAULTS[name, key]
        else:
            raise ScalemaniError(f"metric={name!r} needs metric_params={{'{key}': ...}}: {_SHAPES[key]}")
    return checked


def function_parameters(params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keyword arguments of a function as a store gives them back: numbers, strings, and arrays of numbers.

    Raises ScalemaniError: If one is anything else.
    """
    found = dict(params or {})
    for key, value in found.items():
        if isinstance(value, (list, tuple, np.ndarray)):
            try:
                found[key] = np.asarray(np.asarray(value).tolist())
            except ValueError:  # lists of several lengths
                found[key] = np.empty(0, object)
        elif isinstance(value, np.generic):
            found[key] = value.item()
        kind = found[key].dtype.kind if isinstance(found[key], np.ndarray) else "f"
        if kind not in "biuf" or not isinstance(found[key], (type(None), bool, int, float, str, np.ndarray)):
            raise ScalemaniError(
                f"metric_params[{key!r}] of a function is a {type(value).__name__}: a number, a string or an array of "
                "numbers is needed; functools.partial binds anything else"
            )
    return found


def _checked(name: str, key: str, value: Any, n_features: int) -> Any:
    label = f"metric_params[{key!r}] of metric={name!r}"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScalemaniError(f"{label} is {value!r}; a number or an array of numbers is needed") from error
    if key not in _SHAPES:
        if array.ndim or not (array >= 1 if key == "p" else 0 < array < np.inf):
            raise ScalemaniError(f"{label} is {value!r}; {'p >= 1' if key == 'p' else 'a number > 0'} is needed")
        return float(array)
    shape = (n_features,) if key in ("V", "w") else (n_features, n_features)
    if array.shape != shape:
        raise ScalemaniError(f"{label} has shape {array.shape}; {shape} is needed for {n_features} features")
    if not np.isfinite(array).all():
        raise ScalemaniError(f"{label} has entries that are not finite")
    if key == "V" and (array <= 0).any():
        raise ScalemaniError(f"{label} holds {array.min()}; variances are > 0: drop constant features first")
    if key in ("w", "cost") and (array < 0).any():
        raise ScalemaniError(f"{label} holds {array.min()}; entries >= 0 are needed")
    if key in ("VI", "cost") and (np.abs(array - array.T) > 1e-8 * np.abs(array).max()).any():
        raise ScalemaniError(f"{label} is not symmetric")
    if not array.any():
        raise ScalemaniError(f"{label} is 0 everywhere, so that all rows are at distance 0; give some that are > 0")
    if key == "cost" and array.diagonal().any():
        raise ScalemaniError(f"{label} has {array.diagonal().max()} on its diagonal; a bin costs nothing to itself: 0")
    return array
