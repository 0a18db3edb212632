"""Sections of the report: takes what was found in a run, gives headings, words, tables and pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.reporting.advice import about_the_correction, notices
from scalemani.reporting.charts import distance_panels, eigenvalue_chart, residual_chart
from scalemani.reporting.colouring import Colouring
from scalemani.reporting.drawing import png
from scalemani.reporting.map_section import map_sections
from scalemani.reporting.page import Picture, Section, Table
from scalemani.reporting.sample import Sample
from scalemani.reporting.words import column, count, number, percent, setting

__all__ = ["Findings", "sections", "title"]

NEAREST = 10  # neighbours that are compared where the fit has no number of them
MOST_ROWS = 40  # of the table of axes
NO_SAMPLE = (
    "The geodesic distances were given, not computed, and are no longer in the store: distances in the map can't be "
    "compared with them. Fit with --keep-distances to have them compared."
)


@dataclass(frozen=True, eq=False)
class Findings:
    """What the report says.

    Attributes
    ----------
    name, method : str
    spectrum, parameters, versions : mapping
    coordinates : ndarray, shape (rows with coordinates, p)
    n_dropped_rows : int
        Rows of the user's without coordinates.
    sample, few : Sample or None
        Sampled points with distances to all, and to at most 20,000.
    residual_variances : list of float or None
        With the first 1, 2, ... p axes.
    """

    name: str
    method: str
    spectrum: Mapping[str, Any]
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]
    coordinates: NDArray[np.float64]
    n_dropped_rows: int
    sample: Sample | None
    few: Sample | None
    residual_variances: Sequence[float] | None

    @property
    def n_axes(self) -> int:
        """p."""
        return int(self.coordinates.shape[1])


def title(findings: Findings) -> str:
    """What the page is about."""
    correction = findings.spectrum["correction"]
    kinds = {"cailliez": "Kernel Isomap", "lingoes": "Isomap, Lingoes' correction", "flip": "Isomap, spectrum flipped"}
    kind = kinds.get(correction, "Isomap" if correction in (None, "none") else "Kernel Isomap")
    points, axes = count(len(findings.coordinates), "point"), count(findings.n_axes, "axis", "axes")
    return f"{kind}: {points} on {axes}"


def sections(findings: Findings, colourings: Sequence[Colouring]) -> Iterator[Section]:
    """The report from top to bottom, each section drawn when it is asked for.

    Parameters
    ----------
    findings : Findings
    colourings : sequence of Colouring
        Of the rows of `coordinates`.
    """
    yield _in_short(findings)
    yield from map_sections(findings.coordinates, findings.n_dropped_rows, colourings)
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
        ["axes", f"{f.n_axes}"],
        ["correction", _correction(s)],
    ]
    if f.residual_variances is not None:
        rows.append(["residual variance with all axes", number(f.residual_variances[-1])])
    idle = int((np.abs(f.coordinates).max(axis=0, initial=0.0) == 0).sum())
    last = None if f.residual_variances is None else f.residual_variances[-1]
    found = notices(s, float(f.parameters["tol"]), last, idle)
    return Section("In short", tables=[Table([], rows, words=True)], notices=found)


def _correction(s: Mapping[str, Any]) -> str:
    kind, ratio = s["correction"], number(s["constant_over_median"], 3)
    if kind in (None, "none"):
        return "none"
    if kind == "flip":
        return "flip"
    if kind == "lingoes":
        return f"lingoes, constant {number(s.get('lingoes_constant', s['shift']))}"
    name = "cailliez, c*" if kind == "cailliez" else "a given constant, c"
    return f"{name} = {number(s['additive_constant'])}: {ratio} times the median distance"


def _distances(f: Findings) -> Section:
    heading = "How well distances are kept"
    if f.sample is None or f.few is None:
        return Section(heading, [NO_SAMPLE if len(f.coordinates) > 2 else "Too few points to compare distances."])
    k = min(int(f.parameters.get("n_neighbors") or NEAREST), len(f.sample.points) - 1)
    figure = distance_panels(f.few.pairs(), f.sample.near_pairs(k), float(f.spectrum["additive_constant"]))
    caption = (
        f"Distances of {_whom(f)}: on the left to any other point, on the right to its {count(k, 'nearest neighbour')} "
        "along the data. On the line the map keeps a distance; below it, points are nearer in the map than they are "
        "along the data."
    )
    alt = "Distances in the embedding against geodesic distances, of all pairs and of nearest neighbours."
    words = [
        "Geodesic distances are lengths of shortest paths along the data. The left picture shows whether the whole is "
        "kept, the right one whether neighbours stay as near as they were.",
    ]
    return Section(heading, words, pictures=[Picture(png(figure), caption, alt)])


def _whom(f: Findings) -> str:
    assert f.sample is not None
    m, n = len(f.sample.rows), len(f.sample.points)
    return "each point" if m == n else f"each of {m:,} sampled points"


def _axes(f: Findings) -> Section:
    words, pictures = [], []
    if f.residual_variances is not None:
        words.append(
            "Residual variance is 1 − r², r the correlation of geodesic with embedded distances over pairs of points: "
            "0 is a perfect map. Where the curve stops falling, further axes add little."
        )
        caption = f"Residual variance with the first axes, over the pairs of {_whom(f)} with others."
        alt = "A curve of residual variance against the number of axes."
        pictures.append(Picture(png(residual_chart(f.residual_variances)), caption, alt))
    return Section("How many axes", words, pictures=pictures)


def _spectrum(f: Findings) -> Section:
    s = f.spectrum
    behind = s.get("next_eigenvalue"), s.get("most_negative_eigenvalue")
    figure = eigenvalue_chart(s["eigenvalues"], s["eigenvalues_unshifted"], s["shift"], *behind)
    caption = "Eigenvalues of the kernel matrix; their unit is the square of the distances'."
    picture = Picture(png(figure), caption, "A bar for the eigenvalue of each axis.")
    return Section("Spectrum and constant", about_the_correction(s), [_table_of_axes(f), _whole_spectrum(s)], [picture])


def _table_of_axes(f: Findings) -> Table:
    s = f.spectrum
    columns = [
        ("axis", [f"{a + 1}" for a in range(f.n_axes)]),
        column("eigenvalue", s["eigenvalues"]),
        ("share", [percent(v) for v in s["share"]]),
    ]
    if s["shift"]:
        columns.append(column("without the shift", s["eigenvalues_unshifted"]))
        columns.append(("its share", [percent(v) for v in s["share_unshifted"]]))
    columns.append(("residual", [number(v, 2) for v in s["residuals"]]))
    rows = [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    return Table([heading for heading, _ in columns], rows[:MOST_ROWS])


def _whole_spectrum(s: Mapping[str, Any]) -> Table:
    """What belongs to no axis; a fit of an earlier version has not all of it."""
    trace = s["trace_unshifted"]
    rows = [["trace (sum of all eigenvalues)", number(s["trace"])]]
    if s["shift"]:
        rows.append(["trace without the shift", number(trace)])
    if s.get("next_eigenvalue") is not None:
        rows.append(["next eigenvalue, which has no axis", number(s["next_eigenvalue"])])
    if s.get("gap") is not None:
        rows.append(["gap behind the last axis, relative", percent(s["gap"])])
    if s.get("most_negative_eigenvalue") is not None:
        rows.append(["lowest eigenvalue without a correction", number(s["most_negative_eigenvalue"])])
    if s.get("negative_mass") is not None:
        share = f", {percent(s['negative_mass'] / trace)} of the trace" if trace > 0 else ""
        rows.append(["negative eigenvalues, sum of their sizes, at least", number(s["negative_mass"]) + share])
    return Table([], rows, words=True)


def _run(f: Findings) -> Section:
    s = f.spectrum
    given = {name: value for name, value in f.parameters.items() if value is not None and name != "keep_distances"}
    parameters = [[name, setting(value)] for name, value in given.items()]
    counted = [
        ["edges of the neighbour graph", f"{s['n_edges']:,}"],
        ["neighbour search", f"{s['knn_method']}, recall {percent(s['knn_recall'])}"],
        ["median geodesic distance", number(s["median_distance"])],
        ["largest geodesic distance", number(s.get("max_distance"))],
        ["reads of the distances, once written", f"{s['n_passes']}"],
        ["fitted with", ", ".join(f"{name} {version}" for name, version in f.versions.items())],
    ]
    tables = [Table(["parameter", "value"], parameters, words=True), Table([], counted, words=True)]
    return Section("The run", tables=tables)
