"""What is said by kind of run: its correction, its landmarks, distances that were given.

The terminal and the page ask here, and name none of these themselves. `s` is `spectrum_` of a model.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from scalemani.embedding.spectrum import much_negative, side, sides
from scalemani.words import count, number, plain_number, two_digits

Account = Mapping[str, Any]

_GIVEN = {  # how given distances were taken, by the neighbour search; the others are of rows of features
    "geodesic": "the final distances (metric geodesic), for principal coordinates; metric precomputed would choose "
    "neighbours by them and measure along paths",
    "precomputed": "distances to choose neighbours by (metric precomputed), measured along paths; metric geodesic "
    "would take them as the final ones, for principal coordinates",
    "graph": "a neighbour graph (sparse, metric precomputed), measured along paths",
}
_TITLES = {"none": "Isomap", "lingoes": "Isomap, Lingoes' correction", "flip": "Isomap, spectrum flipped"}


def title(s: Account, n_points: int, n_axes: int) -> str:
    """What a page is about."""
    by = f", by {count(s['n_landmarks'], 'landmark')}" if by_landmarks(s) else ""
    kind = _TITLES.get(correction_of(s), "Kernel Isomap")
    return f"{kind}: {count(n_points, 'point')} on {count(n_axes, 'axis', 'axes')}{by}"


def given_rows(s: Account) -> list[list[str]]:
    """A name and what is said of distances that were given; nothing of others."""
    return [["given", _GIVEN[s["knn_method"]]]] if s.get("knn_method") in _GIVEN else []


class Fact(NamedTuple):
    """What a number of the account is called, and on which side of the true one it is: "at least", "at most" or ""."""

    label: str
    value: Any
    side: str


def facts(s: Account) -> dict[str, Fact]:
    """The numbers that belong to no axis, by their keys; what an account lacks is left out."""
    labels = {
        "trace": "sizes of all eigenvalues, sum" if correction_of(s) == "flip" else "trace: sum of all eigenvalues",
        "trace_unshifted": "trace without a correction",
        "next_eigenvalue": "next eigenvalue, which has no axis",
        "gap": "gap between the last axis and the next, relative",
        "most_negative_eigenvalue": "lowest eigenvalue without a correction",
        "negative_mass": "sizes of the negative eigenvalues, sum",
        "gof": "GOF of R's cmdscale",
        "reconstruction_error": "reconstruction error of scikit-learn's Isomap",
    }
    return {key: Fact(label, s[key], side(s, key)) for key, label in labels.items() if s.get(key) is not None}


def bounds(s: Account) -> dict[str, list[str]]:
    """The numbers that are not exact, with the side of each, as JSON values."""
    found = {key: sides(s, key) for key in (*facts(s), "share", "rel_corr_eig") if s.get(key) is not None}
    return {key: which for key, which in found.items() if any(which)}


# ---- corrections -----------------------------------------------------------------------------------------------------


def correction_of(s: Account) -> str:
    """ "none", "flip", "lingoes", "cailliez", or "number" for a constant that was given."""
    return str(s["correction"] or "none")


def correction_line(s: Account) -> str:
    """Which correction it is, and how large its constant, on a terminal."""
    kind = correction_of(s)
    if kind in ("none", "flip"):
        return kind if kind == "none" else "flip: the moduli of the eigenvalues"
    median = f"about {two_digits(s['constant_over_median'])} times the median distance"
    if kind == "lingoes":
        return f"lingoes: constant s = {plain_number(_lingoes(s))}; sqrt(2s) is {median}"
    at = f"of about {two_digits(s['median_distance'])}"
    return f"{kind}: constant c = {plain_number(s['additive_constant'])}, {median} {at}"


def correction_cell(s: Account) -> str:
    """The same on a page."""
    kind = correction_of(s)
    if kind in ("none", "flip"):
        return kind
    if kind == "lingoes":
        return f"lingoes, constant {number(_lingoes(s))}"
    name = "cailliez, c*" if kind == "cailliez" else "a given constant, c"
    ratio = two_digits(s["constant_over_median"])
    return f"{name} = {number(s['additive_constant'])}: about {ratio} times the median distance"


def _lingoes(s: Account) -> Any:
    return s.get("lingoes_constant", s["shift"])


def share_is(s: Account, usual: str) -> str:
    """What the shares are, which are usually something else."""
    return "the eigenvalue's size over the sum of all sizes" if correction_of(s) == "flip" else usual


def shares_for_the_stick(s: Account) -> str:
    """The key of the shares without negative parts, which are compared with the broken stick's pieces."""
    return "share" if correction_of(s) == "flip" or not s.get("rel_corr_eig") else "rel_corr_eig"


def about_the_correction(s: Account) -> list[str]:
    """The correction and its constant, in a sentence or two, and what much negative mass means."""
    much = much_negative(s)
    said = f"Without a correction, negative eigenvalues are more than a fifth of the trace: {much}."
    return [*_said_of_the_correction(s), *([] if much is None else [said])]


def _said_of_the_correction(s: Account) -> list[str]:
    kind, shift = correction_of(s), s["shift"]
    if kind == "none":
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


# ---- landmarks -------------------------------------------------------------------------------------------------------

MOST_MARKS = 2000  # landmarks that have a cross on the map
_CHOSEN = {"maxmin": ("by maxmin", "each the farthest from those before it along the graph")}
_CHOSEN |= {"random": ("at random", "drawn at random"), "given": ("as given", "given by their rows")}


def by_landmarks(s: Account) -> bool:
    """Whether the distances are those to landmarks alone."""
    return "n_landmarks" in s


def distance_lines(s: Account) -> list[list[str]]:
    """On a terminal: how many landmarks there are and how far from the points; distances are to these alone."""
    if not by_landmarks(s):
        return []
    m, reach = s["n_landmarks"], s["landmark_reach"]
    median = f"the median distance is about {two_digits(s['median_distance'])}"
    far = f"; no point is farther than {plain_number(reach)} from one, along the graph; {median}"
    return [
        ["landmarks", f"{m:,} {_CHOSEN[s['landmark_method']][0]}{'' if reach is None else far}"],
        ["distances", f"to landmarks: {s['n_vertices']:,} points x {m:,}"],
    ]


def reads_lines(s: Account) -> list[list[str]]:
    """On a terminal: how often D was read, which landmarks have none of."""
    return [] if by_landmarks(s) else [["reads of D", f"{s['n_passes']}"]]


def landmark_rows(s: Account) -> list[list[str]]:
    """On a page: how many there are, how they were chosen, and how far any point is from one."""
    if not by_landmarks(s):
        return []
    reach = s.get("landmark_reach")
    within = [] if reach is None else [["reach of the landmarks", f"no point is farther than {number(reach)} from one"]]
    return [["landmarks", f"{s['n_landmarks']:,}, {_CHOSEN[s['landmark_method']][1]}"], *within]


def distance_rows(s: Account) -> list[list[str]]:
    """On a page: the median and the largest distance, and what there is of them."""
    median, largest = f"about {two_digits(s['median_distance'])}", number(s.get("max_distance"))
    if by_landmarks(s):
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


def about_the_numbers(s: Account) -> list[str]:
    """What the numbers of the spectrum are of, where that is not plain."""
    if not by_landmarks(s):
        return []
    return [
        f"All numbers here are of the {s['n_vertices']:,} points put where their nearest landmarks are, "
        f"{s['n_landmarks']:,} places: eigenvalues, trace and constant are on the scale of a fit of all distances, and "
        "approximate those of it. Points between the landmarks were placed as new points are.",
    ]


def why_no_sample(s: Account) -> str:
    """Why distances in the map can't be compared with geodesic ones, where these were given."""
    if by_landmarks(s):
        return (
            "The geodesic distances were given, and the store has only those to the landmarks: distances between other "
            "points in the map can't be compared with them."
        )
    return (
        "The geodesic distances were given, not computed, and are no longer in the store: distances in the map can't "
        "be compared with them. Fit with --keep-distances to have them compared."
    )


def marks(rows: Any, n_axes: int) -> tuple[Any, str]:
    """Rows that get a mark on the map, or None, and what the caption says of these."""
    if rows is None or len(rows) > MOST_MARKS:
        return None, ""
    return rows, f" {'Strokes at the foot' if n_axes == 1 else 'Crosses'} are the {len(rows):,} landmarks."
