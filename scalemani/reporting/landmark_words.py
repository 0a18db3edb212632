"""Landmarks on the page: takes the account of a spectrum, gives rows and sentences; none of a fit without them."""

from collections.abc import Mapping
from typing import Any

from scalemani.bounds import two_digits
from scalemani.reporting.words import number

__all__ = ["NO_SAMPLE_BY_LANDMARKS", "about_landmarks", "distance_rows", "landmark_rows"]

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
