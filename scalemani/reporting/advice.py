"""Advice: takes the numbers of a run, gives what they mean and what to do, in plain words."""

from collections.abc import Iterator, Mapping
from typing import Any

from scalemani.bounds import LEAST_GAP, much_negative, side, two_digits
from scalemani.neighbor_lists import LEAST_RECALL
from scalemani.reporting.page import Notice
from scalemani.reporting.words import count, number, percent

__all__ = ["about_the_correction", "notices"]

NEAR_TIE = 0.01  # relative gap behind the last axis under which a reader should not trust where the cut is
SOME_NEGATIVE = 0.1  # of the trace
LARGE_RESIDUAL = 0.1  # residual variance with all axes
UNCORRECTED = (None, "none")


def notices(spectrum: Mapping[str, Any], tol: float, residual_variance: float | None, idle_axes: int) -> list[Notice]:
    """What a reader of the map has to know: warnings, then remarks.

    spectrum: ``spectrum_`` of the model; what an older fit lacks is passed over.
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
    if s["correction"] in UNCORRECTED and negative and trace > 0 and negative > SOME_NEGATIVE * trace:
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


def about_the_correction(s: Mapping[str, Any]) -> list[str]:
    """The correction and its constant, in a sentence or two, and what much negative mass means."""
    much = much_negative(s)
    said = f"Without a correction, negative eigenvalues are more than a fifth of the trace: {much}."
    return [*_said_of_the_correction(s), *([] if much is None else [said])]


def _said_of_the_correction(s: Mapping[str, Any]) -> list[str]:
    kind, shift = s["correction"], s["shift"]
    if kind in UNCORRECTED:
        return [
            "No correction: distances are embedded as they are. Where no points in flat space have them, some "
            "eigenvalues are negative and are left out.",
        ]
    if kind == "flip":
        return [
            "Negative eigenvalues are taken with their sign flipped, and axes are in the order of their size whatever "
            "the sign: an axis with a negative eigenvalue shows how the distances fail to be those of flat space.",
        ]
    if not shift and kind not in ("cailliez", "lingoes"):
        return ["The constant is 0, as it was asked for: distances are embedded as they are."]
    if not shift:
        return ["No constant is needed: up to rounding these are distances of points in flat space."]
    flat = "It is the same in every direction and carries nothing of the data: an axis near it is without content."
    ratio = (
        f"about {two_digits(s['constant_over_median'])} times the median geodesic distance "
        f"(about {two_digits(s['median_distance'])})"
    )
    if kind == "lingoes":
        return [
            f"Lingoes' constant is {number(shift)}: twice it is added to every squared distance between different "
            "points, the least that leaves no negative eigenvalue. Points that were equal would be as far apart as "
            f"{ratio}.",
            f"The constant itself is added to each eigenvalue. {flat}",
        ]
    given = "the least that leaves no negative eigenvalue" if kind == "cailliez" else "as it was asked for"
    return [
        f"The constant is {number(s['additive_constant'])}, {ratio}. It is added to every distance between different "
        f"points, {given}.",
        f"Half of its square, {number(shift)}, is thereby added to each eigenvalue. {flat}",
    ]
