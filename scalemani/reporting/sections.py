"""Sections of the report: takes what was found in a run, gives headings, words, tables and pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.bounds import two_digits
from scalemani.dimension import local_dimensions
from scalemani.distance_histogram import DistanceHistogram
from scalemani.reporting.advice import about_the_correction, notices
from scalemani.reporting.axes_words import beside_the_stick, dimension_in_words, which_to_follow
from scalemani.reporting.charts import dimension_panels, distance_panels, eigenvalue_chart, residual_chart, share_chart
from scalemani.reporting.colouring import Colouring
from scalemani.reporting.drawing import png
from scalemani.reporting.landmark_words import NO_SAMPLE_BY_LANDMARKS, about_landmarks, distance_rows, landmark_rows
from scalemani.reporting.map_section import map_sections
from scalemani.reporting.page import Notice, Picture, Section, Table
from scalemani.reporting.sample import Sample
from scalemani.reporting.spectrum_tables import MOST_ROWS, tables_of_axes, whole_spectrum
from scalemani.reporting.words import SAID_OF_GIVEN, count, number, percent, setting

__all__ = ["Findings", "lead", "sections", "title"]

FEWEST_PAIRS = 200  # that say anything of a dimension
NEAREST = 10  # neighbours that are compared where the fit has no number of them
NO_SAMPLE = (
    "The geodesic distances were given, not computed, and are no longer in the store: distances in the map can't be "
    "compared with them. Fit with --keep-distances to have them compared."
)


@dataclass(frozen=True, eq=False)
class Findings:
    """What the report says.

    coordinates (rows with coordinates, p)
    n_dropped_rows: Rows of the user's without coordinates.
    sample: Sampled points with distances to all; None where there are none.
    quality: As :func:`scalemani.quality.quality_account` gives it, of the sample.
    histogram: Of all geodesic distances, if the fit counted them.
    dimension: As :func:`scalemani.dimension.suggested_dimension` gives it; empty without a histogram.
    landmarks: Rows of `coordinates` that are landmarks, of a fit by these.
    """

    name: str
    spectrum: Mapping[str, Any]
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]
    coordinates: NDArray[np.float64]
    n_dropped_rows: int
    sample: Sample | None
    quality: Mapping[str, Any] | None
    histogram: DistanceHistogram | None
    dimension: Mapping[str, Any]
    landmarks: NDArray[np.int64] | None = None

    @property
    def n_axes(self) -> int:
        """p."""
        return int(self.coordinates.shape[1])

    @property
    def residual_variances(self) -> list[float | None]:
        """With the first 1, 2, ... p axes; None where distances are all equal."""
        return [None] * self.n_axes if self.quality is None else list(self.quality["residual_variance"])


def lead(findings: Findings) -> str:
    """What the page is of, and which distances it calls geodesic."""
    what, which = "distances along the data", "lengths of shortest paths from neighbour to neighbour"
    if findings.spectrum.get("knn_method") == "geodesic":
        what, which = "the distances that were given", "those that were given"
    begun = f"A map that keeps {what}: what it shows, how far it can be trusted, and how it was made."
    return f"{begun} Geodesic distances are {which}."


def title(findings: Findings) -> str:
    """What the page is about."""
    correction = findings.spectrum["correction"]
    kinds = {"cailliez": "Kernel Isomap", "lingoes": "Isomap, Lingoes' correction", "flip": "Isomap, spectrum flipped"}
    kind = kinds.get(correction, "Isomap" if correction in (None, "none") else "Kernel Isomap")
    points, axes = count(len(findings.coordinates), "point"), count(findings.n_axes, "axis", "axes")
    by = "" if findings.landmarks is None else f", by {count(len(findings.landmarks), 'landmark')}"
    return f"{kind}: {points} on {axes}{by}"


def sections(findings: Findings, colourings: Sequence[Colouring]) -> Iterator[Section]:
    """The report from top to bottom, each section drawn when it is asked for."""
    yield _in_short(findings)
    yield from map_sections(findings.coordinates, findings.n_dropped_rows, colourings, findings.landmarks)
    yield _distances(findings)
    yield _axes(findings)
    yield _spectrum(findings)
    yield _run(findings)


def _in_short(f: Findings) -> Section:
    s = f.spectrum
    merged = s["n_rows"] - s["n_distinct"]
    rows = [
        ["points", f"{s['n_rows']:,}" + (f", of which {merged:,} are equal to others and merged" if merged else "")],
        *([["without coordinates", count(f.n_dropped_rows, "row")]] if f.n_dropped_rows else []),
        *landmark_rows(s),
        *([["given", given]] if (given := SAID_OF_GIVEN.get(str(s.get("knn_method")))) else []),
        ["axes", f"{f.n_axes}"],
        ["correction", _correction(s)],
    ]
    rows += [[heading, f"{value} ({best})"] for heading, value, _, best in _measures(f)]
    idle = int((np.abs(f.coordinates).max(axis=0, initial=0.0) == 0).sum())
    found = notices(s, float(f.parameters["tol"]), f.residual_variances[-1], idle)
    return Section("In short", tables=[Table([], rows, words=True)], notices=found)


def _correction(s: Mapping[str, Any]) -> str:
    kind, ratio = s["correction"], two_digits(s["constant_over_median"])
    if kind in (None, "none"):
        return "none"
    if kind == "flip":
        return "flip"
    if kind == "lingoes":
        return f"lingoes, constant {number(s.get('lingoes_constant', s['shift']))}"
    name = "cailliez, c*" if kind == "cailliez" else "a given constant, c"
    return f"{name} = {number(s['additive_constant'])}: about {ratio} times the median distance"


def _measures(f: Findings) -> list[tuple[str, str, str, str]]:
    """Name, value, meaning and best value of each measure of quality that there is."""
    if f.quality is None:
        return []
    q, k = f.quality, f.quality["n_neighbors"]
    none, all_ = "0 is best", "1 is best"
    longer = f"{none}; the constant makes it large" if f.spectrum["shift"] else none
    found = [
        ("residual variance", q["residual_variance"][-1], "1 − r² of geodesic with embedded distances", none),
        ("normalised stress", q["normalised_stress"], "differences of the two, relative to geodesic ones", longer),
        ("stress, rescaled", q["normalised_stress_scaled"], "the same with the map at its best scale", none),
        ("trustworthiness", q["trustworthiness"], f"whether the {k} nearest in the map are near along the data", all_),
        ("continuity", q["continuity"], f"whether the {k} nearest along the data are near in the map", all_),
    ]
    return [(name, number(value), words, best) for name, value, words, best in found if value is not None]


def _distances(f: Findings) -> Section:
    heading = "How well distances are kept"
    if f.sample is None or f.quality is None:
        without = NO_SAMPLE if f.landmarks is None else NO_SAMPLE_BY_LANDMARKS
        return Section(heading, [without if len(f.coordinates) > 2 else "Too few points to compare distances."])
    k = min(int(f.parameters.get("n_neighbors") or NEAREST), len(f.sample.points) - 1)
    few = f.sample.among_fewer()
    every, near = few.pairs(), f.sample.near_pairs(k)
    others = "any other point" if few is f.sample else f"{len(few.points):,} of the points"
    constant = float(f.spectrum["additive_constant"])
    figure = distance_panels(every, near, constant)
    caption = (
        f"Distances of {_whom(f)}: on the left to {others}, on the right to its {count(k, 'nearest neighbour')} "
        "along the data. On the black line the map keeps a distance; below it, points are nearer in the map than they "
        "are along the data. Orange is the median."
    )
    if 0 < constant < float(every[1].max(initial=0.0)):
        caption += " On the dashed line are distances with the constant, which is what the correction asks for."
    alt = "Distances in the embedding against geodesic distances, of all pairs and of nearest neighbours."
    words = [
        f"Measured on {count(f.quality['n_pairs'], 'pair')}, of {_whom(f)} with all others. The left picture shows "
        "whether the whole is kept, the right one whether neighbours stay as near as they were.",
    ]
    meanings = [[name, value, f"{what}; {best}"] for name, value, what, best in _measures(f)]
    table = Table(["measure", "value", "what it is"], meanings, words=True)
    return Section(heading, words, [table], [Picture(png(figure), caption, alt)])


def _whom(f: Findings) -> str:
    assert f.sample is not None
    m, n = len(f.sample.rows), len(f.sample.points)
    return "each point" if m == n else f"each of {m:,} sampled points"


def _axes(f: Findings) -> Section:
    s, words, pictures = f.spectrum, [], []
    measured = f.n_axes > 1 and any(value is not None for value in f.residual_variances)
    if measured:
        words.append(
            "Residual variance is 1 − r², r the correlation of geodesic with embedded distances over pairs of points: "
            "0 is a perfect map. Where the curve stops falling, further axes add little."
        )
        caption = f"Residual variance with the first axes, over the pairs of {_whom(f)} with others."
        alt = "A curve of residual variance against the number of axes."
        pictures.append(Picture(png(residual_chart(f.residual_variances)), caption, alt))
    stick, corrected = s.get("broken_stick"), s["share"]
    if s["correction"] != "flip":  # whose parts are sizes
        corrected = s.get("rel_corr_eig") or corrected
    same = np.allclose(corrected, s["share"], rtol=1e-6)
    if stick:
        after = "" if same else " (after a correction, so that no part is negative: Rel_corr_eig below)"
        words.append(
            "A stick broken at random has some long pieces by chance: an axis with a larger share than the piece of "
            f"its number shows more than that{after}. {beside_the_stick(s, corrected)}"
        )
    if f.n_axes > 1:
        unshifted = s["share_unshifted"] if s["shift"] else None
        caption = "Shares of the axes" + (" and of the pieces of a stick that is broken at random" if stick else "")
        caption += ", on a log scale; what is 0 or less is not on it."
        alt = "A point for the share of each axis, falling."
        pictures.append(
            Picture(png(share_chart(s["share"], unshifted, None if same else corrected, stick)), caption, alt)
        )
    if f.histogram is not None and f.histogram.counts.sum() >= FEWEST_PAIRS:
        words.append(dimension_in_words(f.dimension))
        figure = dimension_panels(f.histogram, *local_dimensions(f.histogram), f.dimension["correlation"])
        caption = (
            "Left, all geodesic distances of the run. Right, how fast the number of pairs grows with distance, as a "
            "power of it: a level stretch is the dimension of the data at that scale. Shaded is the estimate's range."
        )
        alt = "A histogram of geodesic distances, and the local slope of the number of pairs over distance."
        pictures.append(Picture(png(figure), caption, alt))
    if len(words) > 1:
        words.append(which_to_follow(s, curve=measured))
    return Section("How many axes", words, pictures=pictures)


def _spectrum(f: Findings) -> Section:
    s = f.spectrum
    behind = s.get("next_eigenvalue"), s.get("most_negative_eigenvalue")
    figure = eigenvalue_chart(s["eigenvalues"], s["eigenvalues_unshifted"], s["shift"], *behind)
    caption = "Eigenvalues of the kernel matrix; their unit is the square of the distances'."
    if s["shift"]:
        caption += " The dashed line without dots is what the correction adds to each: an axis near it shows nothing."
    picture = Picture(png(figure), caption, "A bar for the eigenvalue of each axis.")
    tables = [*tables_of_axes(s), *whole_spectrum(s)]
    words = [*about_landmarks(s), *about_the_correction(s)]
    if f.n_axes > MOST_ROWS:
        words.append(f"The tables have the first {MOST_ROWS} of {f.n_axes} axes; scalemani info STORE --json has all.")
    return Section("Spectrum and constant", words, tables, [picture])


def _run(f: Findings) -> Section:
    s = f.spectrum
    given = {name: value for name, value in f.parameters.items() if value is not None and name != "keep_distances"}
    parameters = [[name, setting(value)] for name, value in given.items()]
    counted = [
        ["edges of the neighbour graph", f"{s['n_edges']:,}"],
        ["neighbour search", f"{s['knn_method']}, recall {percent(s['knn_recall'])}"],
        *distance_rows(s),
        ["fitted with", ", ".join(f"{name} {version}" for name, version in f.versions.items())],
    ]
    tables = [Table(["parameter", "value"], parameters, words=True), Table([], counted, words=True)]
    said = s.get("warnings")
    notices = [Notice("What the fit warned of, word by word", list(said), warning=False)] if said else []
    return Section("The run", tables=tables, notices=notices)
