"""The report of a run: a finished store, with columns to colour its map by, as one page.

D is not read. The distances of a sample of points are computed again from the graph, which is less work than a read of
D. Where D itself was given there is no graph, and they come from the store, if it has them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.aliases import F64, I64
from scalemani.embedding.dimension import DistanceHistogram, local_dimensions, suggested_dimension
from scalemani.embedding.quality import quality_account
from scalemani.methods.base import estimator_of
from scalemani.methods.words import MOST_LEAPS, Chart, Notice, Section, Table, Words, class_rows, given_rows
from scalemani.model import Run
from scalemani.progress import Progress
from scalemani.report.charts import CHARTS, dimension_panels, distance_panels, residual_chart
from scalemani.report.drawing import coloring, png
from scalemani.report.kernel_view import kernel_sections
from scalemani.report.live import Column, values_of
from scalemani.report.map_facts import NEAREST, MapFacts, NewPoints, placed
from scalemani.report.maps import map_sections
from scalemani.report.page import Picture, page
from scalemani.report.words import dimension_in_words, notices, setting, which_to_follow
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


FEWEST_PAIRS = 200  # that say anything of a dimension


@dataclass(frozen=True, eq=False)
class Findings:
    """What the report says.

    coordinates (rows with coordinates, p)
    n_dropped_rows: Rows of the user's without coordinates.
    sample: Sampled points with distances to all; None where there are none.
    quality: As :func:`scalemani.embedding.quality.quality_account` gives it, of the sample.
    histogram: Of all geodesic distances, if the fit counted them.
    dimension: As :func:`scalemani.embedding.dimension.suggested_dimension` gives it; empty without a histogram.
    words: Of the method.
    marks: What some rows of `coordinates` are, and these; None of a method that marks none.
    leaps: What some pairs of them (c, 2) are, and these; None of a graph in which no edge leaps.
    measured: Of the sample, by the method.
    said: What else there is to know of the map.
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
    words: Words
    marks: tuple[str, I64] | None = None
    leaps: tuple[str, I64] | None = None
    measured: Sequence[Section] = ()
    said: Sequence[Notice] = ()

    @property
    def n_axes(self) -> int:
        """p."""
        return int(self.coordinates.shape[1])

    @property
    def residual_variances(self) -> list[float | None]:
        """With the first 1, 2, ... p axes; None where they say nothing."""
        said = self.quality if self.words.compared(self.spectrum).distances else None
        return [None] * self.n_axes if said is None else list(said["residual_variance"])


def lead(findings: Findings) -> str:
    """What the page is of, and which distances it calls geodesic."""
    which, what = "lengths of shortest paths from neighbour to neighbour", findings.words.keeps(findings.spectrum)
    if findings.spectrum.get("knn_method") == "geodesic":
        which = "those that were given"
    elif findings.spectrum.get("edge_weights") == "conformal":
        which += "; each step is divided by the square root of its ends' mean distances to their neighbours (C-Isomap)"
    if findings.spectrum.get("n_classes"):
        which += "; those between two classes are all set to ten times the longest within one"
    begun = f"This map keeps {what}. The page says what it shows, how far to trust it, and how it was made."
    kept = findings.words.compared(findings.spectrum).distances
    return f"{begun} Geodesic distances are {which}." if kept else begun


def sections(findings: Findings) -> Iterator[Section]:
    """The report below the map from top to bottom, each section drawn when it is asked for."""
    yield _in_short(findings)
    yield from _leaps(findings)
    yield _distances(findings)
    yield from _axes(findings)
    yield from (one.drawn(_drawn) for one in (*findings.words.sections(findings.spectrum), *findings.measured))
    yield _run(findings)


def _drawn(chart: Chart) -> Picture:
    return Picture(png(CHARTS[chart.name](*chart.of)), chart.caption, chart.alt)


def _in_short(f: Findings) -> Section:
    s = f.spectrum
    merged = s["n_rows"] - s["n_distinct"]
    rows = [
        ["points", f"{s['n_rows']:,}" + (f", of which {merged:,} are equal to others and merged" if merged else "")],
        *([["without coordinates", count(f.n_dropped_rows, "row")]] if f.n_dropped_rows else []),
        *map(list, [*given_rows(s), *class_rows(s)]),
        ["axes", f"{f.n_axes}"],
        *map(list, f.words.rows(s)),
    ]
    rows += [[heading, f"{value} ({best})"] for heading, value, _, best in _measures(f)]
    idle = int((np.abs(f.coordinates).max(axis=0, initial=0.0) == 0).sum())
    found = notices(f.words, s, float(f.parameters["tol"]), f.residual_variances[-1], idle, f.n_axes)
    found += [*f.words.of_map(f.coordinates), *f.said]
    return Section("In short", tables=[Table([], rows, words=True)], notices=found)


def _measures(f: Findings) -> list[tuple[str, str, str, str]]:
    """Name, value, meaning and best value of each measure of quality that there is."""
    if f.quality is None:
        return []
    q, k = f.quality, f.quality["n_neighbors"]
    none, all_, said = "0 is best", "1 is best", f.words.compared(f.spectrum)
    longer = none + said.stress
    found = [
        ("residual variance", q["residual_variance"][-1], "1 − r² of distances on the map with geodesic ones", none),
        ("normalised stress", q["normalised_stress"], "the differences of the two, relative to geodesic ones", longer),
        ("stress, rescaled", q["normalised_stress_scaled"], "the same with the map at its best scale", none),
        ("trustworthiness", q["trustworthiness"], f"whether the {k} nearest in the map are near along the data", all_),
        ("continuity", q["continuity"], f"whether the {k} nearest along the data are near in the map", all_),
    ]
    found = found if said.distances else found[3:]
    return [(name, number(value), words, best) for name, value, words, best in found if value is not None]


def _distances(f: Findings) -> Section:
    said = f.words.compared(f.spectrum)
    heading = f"How well {'distances' if said.distances else 'neighbours'} are kept"
    if f.sample is None or f.quality is None:
        return Section(heading, [said.missing if len(f.coordinates) > 2 else "Too few points to compare distances."])
    meanings = [[name, value, f"{what}; {best}"] for name, value, what, best in _measures(f)]
    table = Table(["measure", "value", "what it is"], meanings, words=True)
    if not said.distances:
        of = (
            f"These numbers compare the neighbours of {_whom(f)}, on the map and along the data. Points are near along "
        )
        return Section(heading, [of + "the data if a short path from neighbour to neighbour joins them."], [table])
    k = min(int(f.parameters.get("n_neighbors") or NEAREST), len(f.sample.points) - 1)
    few = f.sample.among_fewer()
    every, near = few.pairs(), f.sample.near_pairs(k)
    others = "any other point" if few is f.sample else f"{len(few.points):,} of the points"
    figure = distance_panels(every, near, said.added)
    caption = (
        f"Left: distances from {_whom(f)} to {others}. Right: to its {count(k, 'nearest neighbour')} along the data. "
        "On the black line the map keeps a distance. Below it, points are nearer on the map than along the data. The "
        "orange line is the median."
    )
    if 0 < said.added < float(every[1].max(initial=0.0)):
        caption += said.caption
    alt = "Distances in the embedding against geodesic distances, of all pairs and of nearest neighbours."
    words = [
        f"These numbers come from {count(f.quality['n_pairs'], 'pair')}: {_whom(f)} with all others. The left picture "
        "shows whether all distances are kept, the right one whether neighbours stay as near as they were.",
    ]
    return Section(heading, words, [table], [Picture(png(figure), caption, alt)])


def _whom(f: Findings) -> str:
    assert f.sample is not None
    m, n = len(f.sample.rows), len(f.sample.points)
    return "each point" if m == n else f"each of {m:,} sampled points"


def _axes(f: Findings) -> Iterator[Section]:
    said, words, pictures = f.words.axes(f.spectrum), list[str](), list[Picture]()
    measured = f.n_axes > 1 and any(value is not None for value in f.residual_variances)
    if measured:
        words.append(
            "Residual variance is 1 − r², where r is the correlation of distances on the map with geodesic distances. "
            "0 is a perfect map. Where the curve stops falling, more axes add little."
        )
        caption = f"Residual variance with the first 1, 2, ... axes, from pairs of {_whom(f)} with others."
        alt = "A curve of residual variance against the number of axes."
        pictures.append(Picture(png(residual_chart(f.residual_variances)), caption, alt))
    words += said.paragraphs
    pictures += said.drawn(_drawn).pictures
    if f.histogram is not None and f.histogram.counts.sum() >= FEWEST_PAIRS:
        words.append(dimension_in_words(f.dimension))
        figure = dimension_panels(f.histogram, *local_dimensions(f.histogram), f.dimension["correlation"])
        caption = (
            "Left: all geodesic distances. Right: the number of pairs nearer than r grows as a power of r; this is the "
            "power. Where it is level, it is the data's dimension at that scale. The estimate is from the shaded range."
        )
        alt = "A histogram of geodesic distances, and the local slope of the number of pairs over distance."
        pictures.append(Picture(png(figure), caption, alt))
    if len(words) > 1:
        words.append(which_to_follow(f.words.caution(f.spectrum), curve=measured))
    if words or pictures:
        yield Section("How many axes", words, pictures=pictures)


def _leaps(f: Findings) -> Iterator[Section]:
    """Edges that leap from one part of the data to another."""
    if f.leaps is None:
        return
    rows = [
        [f"{a:,} – {b:,}", number(edge["length"]), percent(edge["flow"])]
        for edge in f.spectrum["shortcut_edges"][:MOST_LEAPS]
        for a, b in [edge["rows"]]
    ]
    words = [
        f"These are {f.leaps[0]}. An edge counts as a leap if few other short ways join its two ends, but many long "
        "ways around do. "
        f"Without them {percent(f.spectrum['shortcut_harm'])} of the sampled distances are longer by at least a fifth."
    ]
    if f.spectrum["n_shortcuts"] > MOST_LEAPS:
        words.append(f"The {MOST_LEAPS} that most paths run through are listed.")
    yield Section("Edges that leap", words, [Table(["rows", "length", "share of all shortest paths"], rows)])


def _run(f: Findings) -> Section:
    s = f.spectrum
    unsaid = {"keep_distances"} | f.words.unused(f.parameters)
    given = {name: value for name, value in f.parameters.items() if value is not None and name not in unsaid}
    parameters = [[name, setting(value)] for name, value in given.items()]
    counted = [
        ["edges of the neighbour graph", f"{s['n_edges']:,}"],
        ["neighbour search", f"{s['knn_method']}, recall {percent(s['knn_recall'])}"],
        *map(list, f.words.of_the_run(s)),
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
    new: Sequence[NewPoints] = (),
    rows: int | None = None,
    seed: int = 0,
    name: str | None = None,
    report: Progress = lambda stage, done, total: None,
) -> str:
    """The page of a run; the same run gives the same page.

    `columns`, of a name and a value for each row of the fit, colour a map each: numbers, or text for categories. `rows`
    points (by their number at most 512) are sampled to compare distances. `new` points are placed by the model, as
    :meth:`scalemani.model.Run.transform` does, and drawn on the live map.
    """
    layers, said = placed(run, new, report)
    kept = np.flatnonzero(run.vertex >= 0)
    coordinates, sample, quality = measured(run, rows, seed, report)
    marks = run.method.words.marks(run.store)
    histogram, parameters = run.distance_histogram, estimator_of(run.store)().get_params(deep=False)
    marks = None if marks is None else (marks[0], np.searchsorted(kept, marks[1]))
    leaps, sampled = _leaping(run.spectrum, kept), None if sample is None else (sample.rows, sample.geodesic)
    facts = MapFacts(run, kept, coordinates, sampled, report)
    live, more, features = facts.live_map(
        [Column(column, values_of(values, kept)) for column, values in columns], layers, marks, leaps
    )
    own = () if sample is None else run.method.measured(run, kept[sample.rows])
    findings = Findings(
        name=run.store.path if name is None else name,
        spectrum=run.spectrum,
        parameters={name: value for name, value in run.parameters.items() if name in parameters},
        versions=run.store.document.versions,
        coordinates=coordinates,
        n_dropped_rows=len(run.vertex) - len(kept),
        sample=sample,
        quality=quality,
        histogram=histogram,
        dimension={} if histogram is None else suggested_dimension(histogram),
        words=run.method.words,
        marks=marks,
        leaps=leaps,
        measured=[*own, *features, *kernel_sections(run)],
        said=[*said, *more],
    )
    colorings = [coloring(column, values).of(kept) for column, values in columns]
    total, done = 5 + max(1, len(colorings)), count_from(1)  # of a method with one section of its own

    def drawn(parts: Iterator[Section]) -> Iterator[Section]:
        for part in parts:
            yield part
            report("pictures", next(done), total)

    still = list(drawn(map_sections(coordinates, findings.n_dropped_rows, colorings, marks, leaps)))
    what = f"{count(len(findings.coordinates), 'point')} on {count(findings.n_axes, 'axis', 'axes')}"
    return page(
        findings.words.title(findings.spectrum, what),
        lead(findings),
        list(drawn(sections(findings))),
        f"Made by scalemani {__version__} from {findings.name}",
        live=live,
        still=still,
    )


def measured(
    run: Run, rows: int | None, seed: int, report: Progress = lambda stage, done, total: None
) -> tuple[F64, Sample | None, Mapping[str, Any] | None]:
    """Coordinates of the rows that have some, sampled ones with their distances, and the quality of the map by these.

    rows: To be sampled; as many as :func:`sample_size` says unless given.
    """
    kept = np.flatnonzero(run.vertex >= 0)
    wanted = sample_size(len(kept)) if rows is None else rows
    recorder = _Recorder(run, kept, lambda done: report("distances", done, min(wanted, len(kept))))
    known = run.store.has_distances or not run.data.given
    quality = quality_account(recorder, n_rows=wanted, seed=seed) if known and len(kept) > 2 else None
    return recorder.embedding_[kept], None if quality is None else recorder.sample(), quality


def _leaping(s: Mapping[str, Any], kept: I64) -> tuple[str, I64] | None:
    """What the edges that leap are, and their ends among the rows that are kept."""
    if not s.get("n_shortcuts"):
        return None
    what = f"the {count(s['n_shortcuts'], 'edge')} that leap{'s' if s['n_shortcuts'] == 1 else ''}"
    what += ", taken out of the graph" if s["shortcuts_removed"] else ", still in the graph"
    return what, np.searchsorted(kept, np.array([edge["rows"] for edge in s["shortcut_edges"]]))


class _Recorder:
    """A model that keeps what it is asked for: the rows of which the quality is measured are those that are drawn."""

    def __init__(self, run: Run, kept: I64, report: Callable[[int], None]) -> None:
        self.embedding_ = run.embedding()
        self.n_neighbors = run.parameters["n_neighbors"]
        self._run, self._kept, self._report = run, kept, report
        self._kind = np.float32 if 1 / SAFE < run.spectrum.get("median_distance", 0.0) < SAFE else np.float64
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
