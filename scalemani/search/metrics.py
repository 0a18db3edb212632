"""Names and parameters of the metrics: pynndescent's names, checked without importing pynndescent.

Parameters go by SciPy's names or by pynndescent's; they mean the same in the exact and in the
approximate search. Whatever is missing or unknown is named before any work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError

# Canonical name -> the other names of the same metric, as pynndescent 0.7 lists them.
ALIASES: dict[str, tuple[str, ...]] = {
    "euclidean": ("l2",),
    "sqeuclidean": (),
    "manhattan": ("taxicab", "l1"),
    "chebyshev": ("linfinity", "linfty", "linf"),
    "minkowski": (),
    "seuclidean": ("standardised_euclidean",),
    "wminkowski": ("weighted_minkowski",),
    "mahalanobis": (),
    "canberra": (),
    "cosine": (),
    "dot": ("direct_cosine",),
    "correlation": (),
    "haversine": (),
    "braycurtis": (),
    "spearmanr": (),
    "tsss": (),
    "true_angular": (),
    "hellinger": (),
    "kantorovich": ("wasserstein",),
    "wasserstein_1d": ("wasserstein-1d", "kantorovich-1d", "kantorovich_1d"),
    "circular_kantorovich": ("circular_wasserstein",),
    "sinkhorn": (),
    "jensen_shannon": ("jensen-shannon",),
    "symmetric_kl": ("symmetric-kl", "symmetric_kullback_liebler"),
    "hamming": (),
    "jaccard": (),
    "dice": (),
    "matching": (),
    "kulsinski": (),
    "rogerstanimoto": (),
    "russellrao": (),
    "sokalsneath": (),
    "sokalmichener": (),
    "yule": (),
    "bit_hamming": (),
    "bit_jaccard": (),
}

# Known to pynndescent, but no length of an edge.
REFUSED: dict[str, str] = {
    "inner_product": "it is negative for similar rows, and a distance is >= 0; use 'cosine' or 'euclidean'",
}

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

_CANONICAL = {alias: name for name, aliases in ALIASES.items() for alias in (name, *aliases)}


def metric_names() -> list[str]:
    """Every name that is accepted, aliases included, sorted."""
    return sorted(_CANONICAL)


def canonical_name(metric: Any) -> str:
    """The canonical name of a metric given by name.

    Raises
    ------
    ScalemaniError
        The name is unknown, or known to pynndescent but no length.
    """
    if isinstance(metric, str) and metric in _CANONICAL:
        return _CANONICAL[metric]
    if isinstance(metric, str) and metric in REFUSED:
        raise ScalemaniError(f"metric={metric!r} can't be used: {REFUSED[metric]}")
    raise ScalemaniError(
        f"metric={metric!r} is not known; supported are {', '.join(metric_names())}, 'precomputed', "
        "'geodesic', or a function of two rows"
    )


def checked_parameters(
    name: str, metric_params: Mapping[str, Any] | None, n_features: int
) -> dict[str, Any]:
    """The parameters of a metric, complete and in pynndescent's order.

    Parameters
    ----------
    name : str
        Canonical name.
    metric_params : mapping, optional
        By SciPy's names (``p``, ``V``, ``w``, ``VI``) or pynndescent's (``sigma``, ``vinv``, ``cost``, ...).
    n_features : int
        Number of columns of the points.

    Returns
    -------
    dict
        Every parameter of the metric; arrays as float64.

    Raises
    ------
    ScalemaniError
        A parameter is missing, unknown, of the wrong shape or out of its range.
    """
    given: dict[str, Any] = {}
    for key, value in (metric_params or {}).items():
        given[_SYNONYMS.get(key, key)] = value
    allowed = PARAMETERS.get(name, ())
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        takes = f"takes {', '.join(allowed)}" if allowed else "takes no parameters"
        raise ScalemaniError(f"metric_params has {', '.join(unknown)}, but metric={name!r} {takes}")
    checked: dict[str, Any] = {}
    for key in allowed:
        if key in given:
            checked[key] = _checked(name, key, given[key], n_features)
        elif (name, key) in _DEFAULTS:
            checked[key] = _DEFAULTS[name, key]
        else:
            raise ScalemaniError(f"metric={name!r} needs metric_params={{'{key}': ...}}: {_SHAPES[key]}")
    return checked


def _checked(name: str, key: str, value: Any, n_features: int) -> Any:
    label = f"metric_params[{key!r}] of metric={name!r}"
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ScalemaniError(f"{label} is {value!r}; a number or an array of numbers is needed") from error
    if key not in _SHAPES:
        return _checked_number(label, key, array, value)
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
    return array


def _checked_number(label: str, key: str, array: Any, value: Any) -> float:
    good = array.ndim == 0 and (float(array) >= 1 if key == "p" else 0 < float(array) < np.inf)
    if not good:
        raise ScalemaniError(f"{label} is {value!r}; {'p >= 1' if key == 'p' else 'a number > 0'} is needed")
    return float(array)
