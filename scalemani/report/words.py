"""What the numbers of a run mean and what to do, in plain words: notices, and sentences beside the charts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scalemani.embedding.spectrum import LEAST_GAP, much_negative, side, sides
from scalemani.neighbors.lists import LEAST_RECALL
from scalemani.report.kinds import correction_of, shares_for_the_stick
from scalemani.report.page import Notice
from scalemani.words import NOTHING, count, number, percent, power_of_ten, two_digits


def column(heading: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """A table's column of one unit and one number of decimals, so that numbers are compared by their length.

    >>> column("size", [5249556.0, 21717.0, None])
    ('size, × 10⁶', ['5.2496', '0.0217', '–'])
    >>> column("size", [12.25, 0.5])
    ('size', ['12.250', '0.500'])
    """
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    power = math.floor(math.log10(max(map(abs, known), default=0.0) or 1.0))
    shown = 0 if -2 <= power < 6 else power
    decimals = max(0, 4 - (power - shown))

    def cell(value: Any) -> str:
        if value is None or not math.isfinite(value):
            return NOTHING
        return f"{value / 10.0**shown:,.{decimals}f}".replace("-", "−")

    cells = [cell(value) for value in values]
    return (f"{heading}, × {power_of_ten(shown)}" if shown else heading), cells


def setting(value: Any) -> str:
    """A parameter's value as it is given.

    >>> setting(None), setting(10), setting(1e-06), setting({"p": 3}), setting("union")
    ('none', '10', '1e-06', 'p = 3', 'union')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} = {setting(item)}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)


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
    if n and "at most" in sides(s, shares_for_the_stick(s))[:n]:
        return f"Here {'the first axis may' if n == 1 else f'the first {n} axes may'}: their shares are upper bounds."
    return f"Here {_these(n, len(above))}."


def _these(above: int, p: int) -> str:
    if above == 0:
        return "no axis does"
    if above == p:
        return "all axes do, so that more may be worth having" if p > 1 else "the one axis does"
    return "the first axis does" if above == 1 else f"the first {above} axes do"


def dimension_in_words(dimension: Mapping[str, Any]) -> str:
    """Estimates of the dimension, as :func:`scalemani.embedding.dimension.suggested_dimension` gives them."""
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


NEAR_TIE = 0.01  # relative gap behind the last axis under which a reader should not trust where the cut is
SOME_NEGATIVE = 0.1  # of the trace
LARGE_RESIDUAL = 0.1  # residual variance with all axes


def notices(spectrum: Mapping[str, Any], tol: float, residual_variance: float | None, idle_axes: int) -> list[Notice]:
    """What a reader of the map has to know: warnings, then remarks.

    spectrum: ``spectrum_`` of the model.
    residual_variance: With all axes.
    idle_axes: Axes on which every point is at 0.
    """
    found = [
        *_about_the_graph(spectrum),
        *_about_the_shift(spectrum),
        *_about_the_axes(spectrum, tol, idle_axes),
        *_about_the_fit(residual_variance),
    ]
    return sorted(found, key=lambda notice: not notice.warning)


def _about_the_graph(s: Mapping[str, Any]) -> Iterator[Notice]:
    dropped = s["n_distinct"] - s["n_vertices"]
    if dropped > 0:
        yield Notice(
            f"{count(dropped, 'point')} of {s['n_distinct']:,} {'is' if dropped == 1 else 'are'} not in the map.",
            [
                "The neighbour graph is in several parts, and only the largest is embedded. More neighbours, or "
                "--disconnected join, bring the others in.",
            ],
        )
    if s.get("n_bridges"):
        yield Notice(
            f"The graph was in several parts, joined by {count(s['n_bridges'], 'bridge')}.",
            [
                "Distances across a bridge are those of a gap, not of the data: how the parts lie to each other "
                "means little. More neighbours may join them by data.",
            ],
        )
    recall = s.get("knn_recall")
    if recall is not None and recall < LEAST_RECALL:
        yield Notice(
            f"The neighbour search found {percent(recall)} of the true neighbours in a sample.",
            ["Missing neighbours lengthen paths. --knn exact finds all."],
        )


def _about_the_shift(s: Mapping[str, Any]) -> Iterator[Notice]:
    ratio = s.get("constant_over_median") or 0.0
    if ratio > 1:
        yield Notice(
            f"The correction puts points about {two_digits(ratio)} median distances further apart.",
            [
                "Most of each corrected distance is then the constant, which is the same for all pairs: the map shows "
                "mostly the constant, and later axes carry little of the data.",
                "Compare a fit with --correction none, and look at the shares without the shift. Edges that leap "
                "across a gap (shortcuts) raise the constant: try fewer neighbours, or --graph mutual. The zigzag "
                "paths of a sparse graph raise it too: there, try more.",
            ],
        )
    negative, trace = s.get("negative_mass"), s.get("trace_unshifted") or 0.0
    if correction_of(s) == "none" and negative and trace > 0 and negative > SOME_NEGATIVE * trace:
        least, much = f"{side(s, 'negative_mass')} ".lstrip(), much_negative(s)
        yield Notice(
            f"Negative eigenvalues add up to {least}{percent(negative / trace)} of the trace.",
            [
                "No points in flat space have exactly these distances. The axes show the best of the positive part, "
                "and the negative part is left out." + (f" So much means {much}." if much else ""),
            ],
            warning=False,
        )


def _about_the_axes(s: Mapping[str, Any], tol: float, idle: int) -> Iterator[Notice]:
    p = len(s["eigenvalues"])
    if not s.get("converged", True):
        worst = max(s["residuals"], default=0.0)
        yield Notice(
            f"The solver stopped before its tolerance: residual {number(worst, 2)}, asked for {number(tol, 2)}.",
            [
                "The last axes may be turned a little. A larger --tol says what is good enough; the same fit again "
                "changes nothing.",
            ],
        )
    if idle:
        yield Notice(
            f"{count(idle, 'axis', 'axes')} of {p} {'carries' if idle == 1 else 'carry'} nothing.",
            [
                "Every point is at 0 there: the data has no further directions, or none above the constant's share. "
                f"Ask for {count(max(p - idle, 1), 'axis', 'axes')} or fewer.",
            ],
        )
    gap = s.get("gap")
    if gap is not None and gap < NEAR_TIE and not idle:
        fewer = "" if p == 1 else f", or for fewer than {p}"
        yield Notice(
            f"The eigenvalue of axis {p} and the next, which has no axis, differ by {percent(max(gap, 0.0))} only.",
            [f"Small changes of the data may swap or mix the two. Ask for {count(p + 1, 'axis', 'axes')}{fewer}."],
            warning=gap < LEAST_GAP * tol,
        )


def _about_the_fit(residual_variance: float | None) -> Iterator[Notice]:
    if residual_variance is not None and residual_variance > LARGE_RESIDUAL:
        yield Notice(
            f"Residual variance is {number(residual_variance, 3)} with all axes.",
            [
                "Distances in the map follow those along the data loosely. More axes may keep them better; if those "
                "bring it down slowly, the data has no flat map.",
            ],
        )
