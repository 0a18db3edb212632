"""A scan over numbers of neighbours, before a fit: which k give the same sound map, and with which edges leap.

Neighbours are searched for once, with the largest k. For each k a few hundred sampled points stand for all: their rows
of geodesic distances are found, and no D is made. Of their distances among one another come the negative mass and a map
(landmark MDS: de Silva and Tenenbaum 2003), in which other sampled points are placed; of their paths the shortcuts.
"""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.linalg as sl

from scalemani.aliases import F64, I64
from scalemani.cluster.machine import parse_memory
from scalemani.cluster.threads import single_blas_thread
from scalemani.embedding.agreement import superposition
from scalemani.embedding.quality import residual_variances
from scalemani.embedding.spectrum import MUCH_NEGATIVE
from scalemani.errors import ScalemaniError, unknown
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import power_of_two_scale, scaled
from scalemani.kernel import blas
from scalemani.kernel.start import centered_kernel
from scalemani.neighbors.lists import NeighborLists
from scalemani.parameters import SCANNED, Parameters
from scalemani.progress import reporting
from scalemani.steps.inputs import Input, check_sizes, read_input
from scalemani.steps.shortcuts import graph_shortcuts
from scalemani.words import aligned, percent

SAMPLED = 256  # points whose rows of distances are found
PLACED = 2000  # others, to whose places in the map distances are compared
AXES = 5  # of the map, at most, for the curve of residual variances
SAME = 0.98  # agreement of two maps that are taken for the same
BENT = 2.0  # times the least negative mass of a scan; much more than that, and a map is bent

_LEGEND = (
    "shortcuts: edges that leap, and the share of all shortest paths through the busiest; negative mass: 0 is flat;\n"
    "1 axis, ...: residual variance of a map with that many axes, 0 is best; as next: 1 is the same map as the next k's"
)


@dataclass(frozen=True, kw_only=True)
class Scanned:
    """What one number of neighbours gives.

    n_neighbors: k.
    n_parts: Parts of the graph; of several the largest is looked at, unless they are joined.
    largest: Share of the points in the largest part.
    n_shortcuts: Edges that leap from one part of the data to another.
    shortcut_flow: Share of all shortest paths that runs through the busiest of them; 0 without.
    negative_mass: Moduli of the negative eigenvalues over the trace, of the sampled points' distances.
    mass_without: The same without the shortcuts.
    residual_variances: 1 - r² of geodesic with embedded distances, with the first 1, 2, ... axes.
    agreement: Similarity of this map and the next k's; 1 is equal (1 - Procrustes' disparity). None for the last.
    """

    n_neighbors: int
    n_parts: int
    largest: float
    n_shortcuts: int
    shortcut_flow: float
    negative_mass: float
    mass_without: float
    residual_variances: tuple[float, ...]
    agreement: float | None = None


@dataclass(frozen=True)
class Scan:
    """What a scan found, and which k it recommends.

    ks: One :class:`Scanned` for each k, rising.
    recommended: A k, or None where no k gives a sound map.
    reason: Why, in words.
    n_points: Distinct points.
    axes: Axes of the map whose agreement is told.
    """

    ks: tuple[Scanned, ...]
    recommended: int | None
    reason: str
    n_points: int
    axes: int

    def record(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "n_points": self.n_points,
            "n_components": self.axes,
            "recommended": self.recommended,
            "reason": self.reason,
            "ks": [{**asdict(one), "residual_variances": list(one.residual_variances)} for one in self.ks],
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings, and a row of text for each k."""
        most = max(len(one.residual_variances) for one in self.ks)
        by_axes = [f"{p} axes" if p > 1 else "1 axis" for p in range(1, most + 1)]
        rows = []
        for one in self.ks:
            variances = [f"{value:.2g}" for value in one.residual_variances]
            leaps = f"{one.n_shortcuts} ({percent(one.shortcut_flow)})" if one.n_shortcuts else "none"
            agrees = "" if one.agreement is None else f"{one.agreement:.3f}"
            cells = [f"{one.n_neighbors}", f"{one.n_parts:,}", leaps, f"{one.negative_mass:.3f}"]
            rows.append([*cells, *variances, *[""] * (most - len(variances)), agrees])
        return ["k", "parts", "shortcuts", "negative mass", *by_axes, "as next"], rows

    def __str__(self) -> str:
        headings, rows = self.table()
        lines = aligned(headings, rows)  # but for the first column, which has numbers as well
        first = max(len(row[0]) for row in rows)
        lines = [f"{line[:first].strip():>{first}}{line[first:]}".rstrip() for line in lines]
        return "\n".join([*lines, _LEGEND, "", self.reason])


def scan(X: Any, n_neighbors: Iterable[int], *, progress: Any = False, **parameters: Any) -> Scan:
    """Look at several numbers of neighbours without a fit of any.

    X: As a fit takes it: rows of features, or with metric="precomputed" distances or neighbour lists.
    n_neighbors: The k to look at, such as ``range(4, 21)``.
    progress: As for :class:`scalemani.KernelIsomap`.
    parameters: Of an estimator, by name (:data:`scalemani.parameters.SCANNED`). With disconnected="error" the largest
        part of a graph is looked at.
    -> For each k the parts of the graph, shortcuts, negative mass, residual variance with 1 to 5 axes, and how
        similar its map is to that of the next k; and a recommendation. `print` it, or take its attributes.
    Raises ScalemaniError: Other parameters, wrong values, or X without neighbours to choose.

    Memory: X, the neighbour lists of the largest k, a graph, and 256 rows of distances.
    """
    ks = _numbers(n_neighbors)
    for name in parameters:
        if name not in SCANNED:
            raise unknown("a parameter of scan: ", name, SCANNED)
    asked = Parameters(**{**parameters, "n_neighbors": ks[-1]})
    asked.check()
    asked = asked.seeded(None)
    if asked.metric == "geodesic":
        raise ScalemaniError("metric='geodesic': given distances are final, and there are no neighbours to choose")
    with reporting(progress) as report, single_blas_thread():
        report("points", 0, 1)
        points = read_input(X, asked.metric, asked.metric_params, parse_memory(asked.memory_limit))
        check_sizes(asked, points)
        report("points", 1, 1)
        lists = points.lists(asked, None, lambda done: report("neighbors", done, points.n_distinct))
        if lists is None:
            raise ScalemaniError(
                "X is a finished graph, whose neighbours are chosen: give rows, distances, or neighbour lists in which "
                "each row stores its own 0"
            )
        report("neighbors", points.n_distinct, points.n_distinct)
        looked = []
        for done, k in enumerate(ks):
            report("scan", done, len(ks))
            looked.append(_look(points, lists, k, asked))
        report("scan", len(ks), len(ks))
    agreements = [_agreement(one, other) for one, other in pairwise(looked)]
    found = tuple(
        replace(look.found, agreement=agreement) for look, agreement in zip(looked, [*agreements, None], strict=True)
    )
    advice = recommended(found, parts=asked.disconnected != "error")
    return Scan(found, *advice, points.n_distinct, asked.n_components)


def _numbers(n_neighbors: Any) -> list[int]:
    """The k to look at, rising."""
    given = list(n_neighbors) if isinstance(n_neighbors, Iterable) else [n_neighbors]
    wrong = [k for k in given if not isinstance(k, Integral) or isinstance(k, bool) or k < 1]
    if wrong or not given:
        what = f"{wrong[0]!r} among n_neighbors" if wrong else "no number in n_neighbors"
        raise ScalemaniError(f"{what}: integers of 1 or more are needed, such as range(4, 21)")
    return sorted({int(k) for k in given})


@dataclass(frozen=True)
class _Look:
    """One k: what is said of it, and the map of the sampled points.

    sampled (m,): Their distinct rows.
    places (m, axes)
    """

    found: Scanned
    sampled: I64
    places: F64


def _look(points: Input, lists: NeighborLists, k: int, asked: Parameters) -> _Look:
    policy = "largest" if asked.disconnected == "error" else asked.disconnected
    graph = points.graph(replace(asked, n_neighbors=k, disconnected=policy), lists.nearest(k))
    chosen = np.random.default_rng(asked.random_state).permutation(points.n_distinct)[: SAMPLED + PLACED]
    vertex_of = graph.vertex_of(points.n_distinct)
    sources, others = (part[part >= 0] for part in (vertex_of[chosen[:SAMPLED]], vertex_of[chosen[SAMPLED:]]))
    rows = geodesic_rows(scaled(graph.matrix, power_of_two_scale(points.lengths(graph))), sources)
    leaps = graph_shortcuts(points, graph, asked.random_state)
    square = rows[:, sources].astype(np.float64)
    places, negative = _map((square + square.T) / 2, rows[:, others].astype(np.float64), max(AXES, asked.n_components))
    variances: list[float] = []
    both = np.concatenate([sources, others])
    with contextlib.suppress(ScalemaniError):  # all distances are equal, or there is one alone: nothing can be said
        variances = residual_variances(rows[:, both], places[:, :AXES], np.arange(len(sources))).tolist()
    found = Scanned(
        n_neighbors=k,
        n_parts=graph.n_components,
        largest=len(graph.order) / points.n_distinct,
        n_shortcuts=len(leaps.edges),
        shortcut_flow=float(leaps.flows.max(initial=0.0)),
        negative_mass=negative,
        mass_without=leaps.negative_mass[1] if len(leaps.edges) else negative,
        residual_variances=tuple(variances),
    )
    return _Look(found, graph.order[sources], places[: len(sources), : asked.n_components])


def _map(square: F64, rows: F64, most: int) -> tuple[F64, float]:
    """Landmark MDS: coordinates of the sampled points, then of others, on up to `most` axes; and the negative mass.

    square (m, m): Distances among the sampled points.
    rows (m, l): To the others.
    """
    squares = square**2
    means = squares.mean(axis=0)
    values, vectors = sl.eigh(centered_kernel(squares))
    values, vectors = values[::-1], vectors[:, ::-1]
    trace, negative = float(values.sum()), float(-values[values < 0].sum())
    some = values[:most] > 1e-9 * max(float(values[0]), 0.0)
    top, axes = values[:most][some], vectors[:, :most][:, some]
    placed = -0.5 * blas.product((rows**2 - means[:, None]).T, axes / np.sqrt(top))
    return np.vstack([axes * np.sqrt(top), placed]), negative / trace if trace > 0 else 0.0


def _agreement(one: _Look, other: _Look) -> float:
    """1 - Procrustes' disparity of two maps, of the points that both have."""
    common, here, there = np.intersect1d(one.sampled, other.sampled, return_indices=True)
    axes = min(one.places.shape[1], other.places.shape[1])
    if len(common) <= axes or not axes:
        return 0.0
    return 1.0 - superposition(one.places[here, :axes], other.places[there, :axes]).disparity


def recommended(found: Sequence[Scanned], *, parts: bool = False) -> tuple[int | None, str]:
    """A k and the reason: the middle of the longest run of sound k whose maps agree from one to the next.

    parts: Whether a graph in several parts is sound, as where they are joined.
    """
    whole = [parts or one.n_parts == 1 for one in found]
    least = min((one.mass_without for one, good in zip(found, whole, strict=True) if good), default=0.0)
    bent = [one.negative_mass > max(MUCH_NEGATIVE, BENT * least) for one in found]
    sound = [good and not one.n_shortcuts and not far for one, good, far in zip(found, whole, bent, strict=True)]
    runs: list[list[int]] = []
    for at, good in enumerate(sound):
        if good and at and sound[at - 1] and (found[at - 1].agreement or 0.0) >= SAME:
            runs[-1].append(at)
        elif good:
            runs.append([at])
    why = _why_not(found, whole, bent)
    if not runs:
        return None, f"No k is recommended. {why}{' Scan smaller k, too.' if whole[0] else ''}"
    run = max(runs, key=len)
    chosen = found[run[(len(run) - 1) // 2]].n_neighbors
    if len(found) == 1:
        said = f"Only k = {chosen} was looked at; no shortcut was found."
    elif len(run) == 1:
        said = (
            f"Take {chosen}, where no shortcut was found. But no other k of the scan gives the same map: scan the k "
            f"around {chosen}, too."
        )
    else:
        agree = math.floor(1000 * min(found[at].agreement or 0.0 for at in run[:-1])) / 1000
        same = f"k = {listed(run, found)} give the same map (agreement {agree:.3f} or more)"
        said = f"{same}, and no shortcut was found. Take the middle, {chosen}."
    if least > MUCH_NEGATIVE:
        said += (
            f" All maps have a negative mass of {least:.2g} or more: a closed or curved shape, or many shortcuts; look "
            "at fewer neighbours, too."
        )
    return chosen, f"{said} {why}".strip()


def _why_not(found: Sequence[Scanned], whole: Sequence[bool], bent: Sequence[bool]) -> str:
    """What is wrong with the k that are not sound."""
    parts = [at for at, good in enumerate(whole) if not good]
    leaping = [at for at, one in enumerate(found) if one.n_shortcuts]
    others = [at for at, far in enumerate(bent) if far and not found[at].n_shortcuts and whole[at]]
    said = []
    if parts:
        said.append(f"At k = {listed(parts, found)} the graph falls into parts.")
    if leaping:
        first = found[leaping[0]]
        edges = "1 edge leaps" if first.n_shortcuts == 1 else f"{first.n_shortcuts} edges leap"
        said.append(
            f"At k = {listed(leaping, found)}, edges leap from one part of the data to another. (At k = "
            f"{first.n_neighbors}: {edges}, and {percent(first.shortcut_flow)} of all shortest paths run through the "
            "busiest.) Such maps are bent; shortcuts='remove' may mend them."
        )
    if others:
        said.append(f"At k = {listed(others, found)} the negative mass is much larger: maps are bent by many edges.")
    return " ".join(said)


def listed(places: Sequence[int], found: Sequence[Scanned]) -> str:
    """The k at some places of a scan; of three and more that follow each other, the first and the last."""
    runs: list[list[int]] = []
    for at in places:
        if runs and at == runs[-1][-1] + 1:
            runs[-1].append(at)
        else:
            runs.append([at])
    words: list[str] = []
    for run in runs:
        ks = [str(found[at].n_neighbors) for at in run]
        words += [f"{ks[0]} to {ks[-1]}"] if len(ks) > 2 else ks
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
