"""The report of a run: a finished store, with columns to colour its map by, as one page.

D is not read. The distances of a sample of points are computed again from the graph, which is less work than a read of
D. Where D itself was given there is no graph, and they come from the store, if it has them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.aliases import F64, I64
from scalemani.embedding.dimension import DistanceHistogram, local_dimensions, suggested_dimension
from scalemani.embedding.quality import quality_account
from scalemani.embedding.spectrum import sides
from scalemani.model import Run
from scalemani.progress import Progress
from scalemani.report import kinds
from scalemani.report.charts import dimension_panels, distance_panels, eigenvalue_chart, residual_chart, share_chart
from scalemani.report.drawing import Colouring, colouring, png
from scalemani.report.maps import map_sections
from scalemani.report.page import Notice, Picture, Section, Table, page
from scalemani.report.words import (
    beside_the_stick,
    column,
    dimension_in_words,
    notices,
    setting,
    which_to_follow,
)
from scalemani.words import count, number, percent

MOST_POINTS = 512  # a figure over their pairs with all others is good to a few parts in a hundred
MOST_DISTANCES = 25_000_000  # held at once: 100 MB, and some seconds to find them
LEAST_POINTS = 32
MOST_OTHERS = 20_000  # points to which all distances are drawn; neighbours are sought among all


def sample_size(n: int) -> int:
    """How many points are sampled of n, unless asked otherwise.

    >>> sample_size(60), sample_size(10_000), sample_size(100_000), sample_size(2_000_000)
    (60, 512, 250, 32)
    """
    return min(n, MOST_POINTS, max(LEAST_POINTS, MOST_DISTANCES // max(n, 1)))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some points' rows (m,), rising, distances (m, n) to all in the user's unit, and all coordinates (n, p)."""

    rows: I64
    geodesic: NDArray[Any]
    points: F64

    def among_fewer(self, seed: int = 0) -> "Sample":
        """The same points with at most 20,000 others, drawn at random."""
        n = len(self.points)
        if n <= MOST_OTHERS:
            return self
        others = np.random.default_rng(seed).choice(n, MOST_OTHERS, replace=False)
        kept = np.union1d(others, self.rows)
        return Sample(np.searchsorted(kept, self.rows), self.geodesic[:, kept], self.points[kept])

    def pairs(self) -> tuple[F64, F64]:
        """Geodesic and embedded distances of each pair of a sampled point with another, once."""
        rank = np.full(len(self.points), len(self.rows))
        rank[self.rows] = np.arange(len(self.rows))
        geodesic, embedded = [], []
        for i, row in enumerate(self.rows):
            others = np.flatnonzero(rank > i)
            geodesic.append(self.geodesic[i, others].astype(np.float64))
            embedded.append(self._embedded(int(row), others))
        return np.concatenate(geodesic), np.concatenate(embedded)

    def near_pairs(self, k: int) -> tuple[F64, F64]:
        """Geodesic and embedded distances of each sampled point to its k nearest others along the data."""
        k = min(k, len(self.points) - 1)
        geodesic, embedded = [], []
        for i, row in enumerate(self.rows):
            distances = self.geodesic[i].astype(np.float64)
            distances[row] = np.inf  # by its number: another point may be at distance 0
            near = np.argpartition(distances, k - 1)[:k] if k else np.empty(0, np.int64)
            geodesic.append(distances[near])
            embedded.append(self._embedded(int(row), near))
        return np.concatenate(geodesic), np.concatenate(embedded)

    def _embedded(self, row: int, others: I64) -> F64:
        return np.asarray(np.linalg.norm(self.points[others] - self.points[row], axis=1))


MOST_ROWS = 20
# Key of the account, heading, definition.
SHARES = (
    ("share", "share", "the eigenvalue over the trace, the sum of all"),
    (
        "share_unshifted",
        "unshifted",
        "the same without what the correction adds, over the trace without it; as negative "
        "eigenvalues lessen the trace, these may add up to more than 100 %",
    ),
    ("share_of_squares", "of squares", "the eigenvalue's square over the sum of all squares"),
    ("relative_eig", "Relative_eig", "as ape's pcoa: the uncorrected eigenvalue over their sum"),
    ("rel_corr_eig", "Rel_corr_eig", "as ape's pcoa: over the sum after a correction that leaves none negative"),
    ("broken_stick", "Broken_stick", "as ape's pcoa: the piece of a stick that is broken at random"),
)


def tables_of_axes(s: Mapping[str, Any]) -> list[Table]:
    """Eigenvalues, then shares by each definition, then the definitions."""
    p = len(s["eigenvalues"])
    numbers = ("axis", [f"{a + 1}" for a in range(p)])
    values = [numbers, column("eigenvalue", s["eigenvalues"])]
    if s["shift"]:
        values.append(column("without the shift", s["eigenvalues_unshifted"]))
    values.append(("residual", [number(v, 2) for v in s["residuals"]]))
    known = [
        (heading, s[key], words)
        for key, heading, words in SHARES
        if any(value is not None for value in s.get(key) or []) and (s["shift"] or key != "share_unshifted")
    ]
    known[0] = ("share", s["share"], kinds.share_is(s, known[0][2]))
    keys = {heading: key for key, heading, _ in SHARES}
    shares = [numbers, *(_with_sides(heading, found, sides(s, keys[heading])) for heading, found, _ in known)]
    meanings = Table(["share", "what it is"], [[heading, words] for heading, _, words in known], words=True)
    return [_beside(values), _beside(shares), meanings]


def _with_sides(heading: str, values: Sequence[Any], which: Sequence[str]) -> tuple[str, list[str]]:
    """A column of shares: what bounds they are is in the heading, or before each where they differ."""
    cells = [percent(value) for value in values]
    if len(set(which)) == 1:
        return (f"{heading}, {which[0]}" if which[0] else heading), cells
    return heading, [f"{word} {cell}".lstrip() for word, cell in zip(which, cells, strict=True)]


def _beside(columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    rows = [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    return Table([heading for heading, _ in columns], rows[:MOST_ROWS])


def whole_spectrum(s: Mapping[str, Any]) -> list[Table]:
    """What belongs to no axis."""
    trace, rows = s["trace_unshifted"], []
    for key, fact in kinds.facts(s).items():
        values = fact.value if isinstance(fact.value, (list, tuple)) else [fact.value]
        said = percent(fact.value) if key == "gap" else f"{fact.side} {' and '.join(map(number, values))}".lstrip()
        if fact.side and not any(values):
            said = "none found"
        if key == "negative_mass" and trace > 0:
            said += f", {percent(fact.value / trace)} of the trace without a correction"
        if key != "trace_unshifted" or fact.value != s["trace"]:
            rows.append([fact.label, said])
    return [Table([], rows, words=True)]


FEWEST_PAIRS = 200  # that say anything of a dimension
NEAREST = 10  # neighbours that are compared where the fit has no number of them


@dataclass(frozen=True, eq=False)
class Findings:
    """What the report says.

    coordinates (rows with coordinates, p)
    n_dropped_rows: Rows of the user's without coordinates.
    sample: Sampled points with distances to all; None where there are none.
    quality: As :func:`scalemani.embedding.quality.quality_account` gives it, of the sample.
    histogram: Of all geodesic distances, if the fit counted them.
    dimension: As :func:`scalemani.embedding.dimension.suggested_dimension` gives it; empty without a histogram.
    landmarks: Rows of `coordinates` that are landmarks, of a fit by these.
    """

    name: str
    spectrum: Mapping[str, Any]
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]
    coordinates: F64
    n_dropped_rows: int
    sample: Sample | None
    quality: Mapping[str, Any] | None
    histogram: DistanceHistogram | None
    dimension: Mapping[str, Any]
    landmarks: I64 | None = None

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
        *kinds.landmark_rows(s),
        *kinds.given_rows(s),
        ["axes", f"{f.n_axes}"],
        ["correction", kinds.correction_cell(s)],
    ]
    rows += [[heading, f"{value} ({best})"] for heading, value, _, best in _measures(f)]
    idle = int((np.abs(f.coordinates).max(axis=0, initial=0.0) == 0).sum())
    found = notices(s, float(f.parameters["tol"]), f.residual_variances[-1], idle)
    return Section("In short", tables=[Table([], rows, words=True)], notices=found)


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
    heading, too_few = "How well distances are kept", "Too few points to compare distances."
    if f.sample is None or f.quality is None:
        return Section(
            heading,
            [kinds.why_no_sample(f.spectrum) if len(f.coordinates) > 2 else too_few],
        )
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
    stick, corrected = s.get("broken_stick"), s[kinds.shares_for_the_stick(s)]
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
    words = [*kinds.about_the_numbers(s), *kinds.about_the_correction(s)]
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
        *kinds.distance_rows(s),
        ["fitted with", ", ".join(f"{name} {version}" for name, version in f.versions.items())],
    ]
    tables = [Table(["parameter", "value"], parameters, words=True), Table([], counted, words=True)]
    said = s.get("warnings")
    notices = [Notice("What the fit warned of, word by word", list(said), warning=False)] if said else []
    return Section("The run", tables=tables, notices=notices)


SAFE = 1e30  # float32 holds distances of this size, and of its inverse


def run_page(
    run: Run,
    columns: Sequence[tuple[str, Any]] = (),
    *,
    rows: int | None = None,
    seed: int = 0,
    name: str | None = None,
    report: Progress = lambda stage, done, total: None,
) -> str:
    """The page of a run; the same run gives the same page.

    `columns`, of a name and a value for each row of the fit, colour a map each: numbers, or text for categories. `rows`
    points (by their number at most 512) are sampled to compare distances.
    """
    kept = np.flatnonzero(run.vertex >= 0)
    wanted = sample_size(len(kept)) if rows is None else rows
    recorder = _Recorder(run, kept, lambda done: report("distances", done, min(wanted, len(kept))))
    landmarks = run.landmarks
    known = run.store.has_distances or not run.data.given
    quality = quality_account(recorder, n_rows=wanted, seed=seed) if known and len(kept) > 2 else None
    histogram = run.distance_histogram
    findings = Findings(
        name=run.store.path if name is None else name,
        spectrum=run.spectrum,
        parameters=run.parameters,
        versions=run.store.document.versions,
        coordinates=recorder.embedding_[kept],
        n_dropped_rows=len(run.vertex) - len(kept),
        sample=None if quality is None else recorder.sample(),
        quality=quality,
        histogram=histogram,
        dimension={} if histogram is None else suggested_dimension(histogram),
        landmarks=None if landmarks is None else np.searchsorted(kept, landmarks),
    )
    colourings = [colouring(column, values).of(kept) for column, values in columns]
    parts: list[Section] = []
    total = 5 + max(1, len(colourings))
    for part in sections(findings, colourings):
        parts.append(part)
        report("pictures", len(parts), total)
    return page(
        kinds.title(findings.spectrum, len(findings.coordinates), findings.n_axes),
        lead(findings),
        parts,
        f"Made by scalemani {__version__} from {findings.name}",
    )


class _Recorder:
    """A model that keeps what it is asked for: the rows of which the quality is measured are those that are drawn."""

    def __init__(self, run: Run, kept: I64, report: Callable[[int], None]) -> None:
        self.embedding_ = run.embedding()
        self.n_neighbors = run.parameters["n_neighbors"]
        self._run, self._kept, self._report = run, kept, report
        self._kind = np.float32 if 1 / SAFE < run.spectrum["median_distance"] < SAFE else np.float64
        self._rows: list[I64] = []
        self._distances: list[NDArray[np.floating[Any]]] = []

    def geodesics(self, rows: I64, *, stored: bool) -> F64:
        """Rows of D, as the model gives them."""
        found = self._run.geodesics(rows, stored=stored)
        self._rows.append(np.searchsorted(self._kept, rows))
        self._distances.append(found[:, self._kept].astype(self._kind))
        self._report(sum(map(len, self._rows)))
        return found

    def sample(self) -> Sample:
        """All of them, among the rows with coordinates."""
        return Sample(np.concatenate(self._rows), np.concatenate(self._distances), self.embedding_[self._kept])
