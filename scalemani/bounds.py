"""What is exact in an account of a spectrum: takes the account, says which numbers are bounds, and of which side.

Only where every eigenvalue was found (`complete`), or where a correction is known to leave none negative, are the sums
over negative eigenvalues exact; :mod:`scalemani.spectrum` has the reasons.
"""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

__all__ = ["much_negative", "said_of_list", "side", "sides", "two_digits"]

LEAST, MOST, EXACT = "at least", "at most", ""
MUCH_NEGATIVE = 0.2  # of the trace: more than noise and the zigzag of paths make
LEAST_GAP = 10.0  # times tol: a residual of tol turns the last axis by a sine of up to tol/gap, here a tenth


def sides(s: Mapping[str, Any], key: str) -> list[str]:
    """Of each number in ``spectrum_[key]``: "at most", "at least", or "" where it is exact.

    s: ``spectrum_`` of a model; a fit of an earlier version says less of what is exact.
    key: Of a number, or of a list by axis.

    >>> sides({"correction": "flip", "complete": False, "shift": 0.0, "share": [0.5, 0.2]}, "share")
    ['at most', 'at most']
    """
    values = s[key] if isinstance(s[key], (list, tuple)) else [s[key]]
    # What has no number can't be a bound.
    return [EXACT if value is None else which for value, which in zip(values, _sides(s, key, len(values)), strict=True)]


def side(s: Mapping[str, Any], key: str) -> str:
    """The same of one number."""
    return sides(s, key)[0]


def much_negative(s: Mapping[str, Any]) -> str | None:
    """What it means that negative eigenvalues add up to more than a fifth of the trace; None where they don't.

    >>> much_negative({"negative_mass": 3.0, "trace_unshifted": 10.0})
    'a closed or curved shape, or shortcut edges between what is far apart: try fewer neighbours'
    >>> much_negative({"negative_mass": 1.0, "trace_unshifted": 10.0})
    """
    negative, trace = s.get("negative_mass"), s.get("trace_unshifted") or 0.0
    if not negative or not 0 < MUCH_NEGATIVE * trace < negative:
        return None
    if s.get("knn_method") == "geodesic":
        return "a closed or curved shape, or distances that no paths in flat space have"
    return "a closed or curved shape, or shortcut edges between what is far apart: try fewer neighbours"


def _sides(s: Mapping[str, Any], key: str, p: int) -> list[str]:
    kind, complete = s["correction"], bool(s.get("complete"))
    certain = kind in ("cailliez", "lingoes")  # their kernels have no negative eigenvalue
    if key == "gof" and not certain:
        # A given constant may leave negative eigenvalues, of which the lowest alone is known.
        of_all = complete and (not s["shift"] or s.get("lowest_ritz_value", -1.0) >= 0)
        return [EXACT if of_all else MOST] * p
    if complete or (key == "most_negative_eigenvalue" and kind == "lingoes" and s["shift"] and s.get("converged")):
        return [EXACT] * p
    if key == "negative_mass" or (key == "trace" and kind == "flip"):
        return [LEAST] * p
    if key == "most_negative_eigenvalue" or (key == "share" and kind == "flip"):
        return [MOST] * p
    if key == "rel_corr_eig" and not certain and not s["shift"]:
        # (λ + s) / (trace + (n - 1) s) with too small an s: it falls with s for λ above the mean eigenvalue.
        mean = s["trace_unshifted"] / max(s["n_vertices"] - 1, 1)
        return [MOST if value >= mean else LEAST for value in s["eigenvalues"]]
    return [EXACT] * p


def said_of_list(words: list[str], which: list[str], between: str = "  ") -> str:
    """Numbers in words with their sides, each of which is said once for those that follow.

    >>> said_of_list(["0.5", "0.2", "0.01"], ["at most", "at most", "at least"])
    'at most 0.5  0.2, at least 0.01'
    """
    runs = [(name, [word for word, _ in run]) for name, run in groupby(zip(words, which, strict=True), lambda w: w[1])]
    return ", ".join(f"{name} {between.join(run)}".lstrip() for name, run in runs)


def two_digits(value: float) -> str:
    """Two significant digits, for what was found from a sample.

    >>> [two_digits(value) for value in (4.031, 13.75, 137.2, 0.5, 45678.0, 3.2e-9, 0.0)]
    ['4.0', '14', '140', '0.50', '46,000', '3.2e-09', '0']
    """
    rounded = float(f"{value:.2g}")
    if rounded == 0:
        return "0"
    if 10 <= abs(rounded) < 1e7:
        return f"{rounded:,.0f}"
    return f"{rounded:#.2g}" if 1e-3 <= abs(rounded) < 10 else f"{value:.1e}"
