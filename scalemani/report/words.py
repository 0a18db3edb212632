"""Advice: takes the numbers of a run, gives what they mean and what to do, in plain words.

Numbers in words: takes a value, gives what stands on the page.

How many axes, in words: takes an account of a spectrum and estimates of the dimension, says what each suggests.

Landmarks on the page: takes the account of a spectrum, gives rows and sentences; none of a fit without them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scalemani.embedding.spectrum import LEAST_GAP, much_negative, side, sides
from scalemani.neighbors.lists import LEAST_RECALL
from scalemani.report.page import Notice
from scalemani.words import NOTHING, count, number, percent, power_of_ten, two_digits

SAID_OF_GIVEN = {  # how given distances were taken, by the neighbour search; the others are of rows of features
    "geodesic": "the final distances (metric geodesic), for principal coordinates; metric precomputed would choose "
    "neighbours by them and measure along paths",
    "precomputed": "distances to choose neighbours by (metric precomputed), measured along paths; metric geodesic "
    "would take them as the final ones, for principal coordinates",
    "graph": "a neighbour graph (sparse, metric precomputed), measured along paths",
}


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


NO_SAMPLE_BY_LANDMARKS = (
    "The geodesic distances were given, and the store has only those to the landmarks: distances between other points "
    "in the map can't be compared with them."
)
_HOW = {
    "maxmin": "each the farthest from those before it along the graph",
    "random": "drawn at random",
    "given": "given by their rows",
}


def landmark_rows(s: Mapping[str, Any]) -> list[list[str]]:
    """How many there are, how they were chosen, and how far any point is from one."""
    if "n_landmarks" not in s:
        return []
    reach = s.get("landmark_reach")
    within = [] if reach is None else [["reach of the landmarks", f"no point is farther than {number(reach)} from one"]]
    return [["landmarks", f"{s['n_landmarks']:,}, {_HOW[s['landmark_method']]}"], *within]


def about_landmarks(s: Mapping[str, Any]) -> list[str]:
    """What the numbers of the spectrum are of."""
    if "n_landmarks" not in s:
        return []
    n, m = s["n_vertices"], s["n_landmarks"]
    return [
        f"All numbers here are of the {n:,} points put where their nearest landmarks are, {m:,} places: eigenvalues, "
        "trace and constant are on the scale of a fit of all distances, and approximate those of "
        "it. Points between the landmarks were placed as new points are.",
    ]


def distance_rows(s: Mapping[str, Any]) -> list[list[str]]:
    """The median and the largest distance, and what there is of them."""
    median, largest = f"about {two_digits(s['median_distance'])}", number(s.get("max_distance"))
    if "n_landmarks" in s:
        return [
            ["distances", f"of {s['n_vertices']:,} points to {s['n_landmarks']:,} landmarks"],
            ["median geodesic distance, at the landmarks' places", median],
            ["largest geodesic distance between landmarks", largest],
        ]
    return [
        ["median geodesic distance, of a sample", median],
        ["largest geodesic distance", largest],
        ["reads of the distances, once written", f"{s['n_passes']}"],
    ]


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
