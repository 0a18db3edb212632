"""How many axes, in words: takes an account of a spectrum and estimates of the dimension, says what each suggests."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalemani.bounds import sides
from scalemani.reporting.words import count

__all__ = ["beside_the_stick", "dimension_in_words", "which_to_follow"]


def _mostly_constant(s: Mapping[str, Any]) -> bool:
    return bool(s["shift"]) and s["constant_over_median"] > 1


def beside_the_stick(s: Mapping[str, Any], shares: Sequence[float]) -> str:
    """How many leading axes have a larger share than the broken stick's piece, where that can be said.

    `shares` are without negative parts: `rel_corr_eig`, or `share` for "flip" and where there is none.
    """
    if _mostly_constant(s):
        return "Here the shares say little: most of each is the constant."
    above = [share > piece for share, piece in zip(shares, s["broken_stick"], strict=True)]
    n = above.index(False) if False in above else len(above)
    key = "share" if s["correction"] == "flip" or not s.get("rel_corr_eig") else "rel_corr_eig"
    if n and "at most" in sides(s, key)[:n]:
        return f"Here {'the first axis may' if n == 1 else f'the first {n} axes may'}: their shares are upper bounds."
    return f"Here {_these(n, len(above))}."


def _these(above: int, p: int) -> str:
    if above == 0:
        return "no axis does"
    if above == p:
        return "all axes do, so that more may be worth having" if p > 1 else "the one axis does"
    return "the first axis does" if above == 1 else f"the first {above} axes do"


def dimension_in_words(dimension: Mapping[str, Any]) -> str:
    """Estimates of the dimension, as :func:`scalemani.dimension.suggested_dimension` gives them."""
    names = {
        "correlation": "by how fast the number of near pairs grows (correlation dimension, which falls short where it "
        "is high)",
        "hypersphere": "by the shape of the distances' distribution (as on a sphere)",
    }
    parts = [
        f"{dimension[key]['dimension']:.2f} ± {dimension[key]['standard_error']:.2f} {name}"
        for key, name in names.items()
        if dimension.get(key) is not None
    ]
    if not parts:
        return "There are too few distances to estimate the dimension of the data from."
    agreed = f" Both suggest {count(dimension['suggested'], 'axis', 'axes')}." if dimension.get("agree") else ""
    return f"The dimension of the data, from geodesic distances: {'; '.join(parts)}.{agreed}"


def which_to_follow(s: Mapping[str, Any], *, curve: bool) -> str:
    """Which of the answers counts when they disagree; `curve` says that residual variance by axes is among them."""
    said = ""
    if _mostly_constant(s):
        said = (
            "The constant is above the median distance: judge by the shares without the shift, or by a fit with "
            "--correction none. "
        )
    if not curve:
        return f"{said}Where these disagree, the residual variance of a fit with more axes decides."
    return (
        f"{said}Where these disagree, residual variance has the final word: take the number of axes at which it stops "
        "falling, and 1 if it never falls."
    )
