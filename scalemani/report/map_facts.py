"""What the live map shows of a run beside its coordinates: how well each point is kept, edges, arrows, other points."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scalemani.aliases import F64, I64
from scalemani.cluster.machine import parse_memory
from scalemani.embedding.agreement import at_one, superposition
from scalemani.embedding.by_point import correlations, neighbors_kept, spread_out, stress_by_point
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.geodesics.rows import shared_graph
from scalemani.methods.words import Notice, Section, feature_tables
from scalemani.model import Run
from scalemani.points.rows import load_rows
from scalemani.progress import Progress
from scalemani.report.live import Arrows, Column, Edges, Layer, LiveMap
from scalemani.steps.records import GraphRecord
from scalemani.steps.sources import first_rows
from scalemani.steps.uncorrected import without_constant
from scalemani.words import count, percent

NEAREST = 10  # neighbours that are compared where the fit has no number of them
MOST_RINGS = 24  # points from which distances to all others are handed on
ALL_POINTS = 200_000  # whose neighbours in the map are sought; of more a sample
EASY_AXES = 4  # with more of them a search in the map takes longer
COMPARED = 5e9  # numbers, which take some ten seconds
LEAST_SAMPLE = 1000
MULTIPLIED = 4e9  # numbers of the features times axes; of more rows a sample
STRONGEST = 10  # in a table
NAMED_AXES = 10  # that have a table, if the page shows as many


@dataclass(frozen=True, eq=False)
class NewPoints:
    """Points that are placed by the model: their file's name, what `transform` takes, and a name for each or None."""

    name: str
    rows: Any
    ids: Sequence[str] | None = None


def placed(run: Run, new: Sequence[NewPoints], report: Progress) -> tuple[list[Layer], list[Notice]]:
    """New points where the model places them, and what is to be said of those that it can't place.

    Warns by UnreachableWarning and OutOfReachWarning: As :meth:`scalemani.model.Run.transform` does.
    """
    layers, said = list[Layer](), list[Notice]()
    for one in new:
        found = np.asarray(run.transform(one.rows, None, report))
        kept = np.flatnonzero(np.isfinite(found).all(axis=1))
        lost = len(found) - len(kept)
        if lost:
            headline = f"{count(lost, 'row')} of {one.name} {'is' if lost == 1 else 'are'} not on the map."
            said.append(Notice(headline, ["No path leads to them from the points of the fit."]))
        ids = list(map(str, range(len(found)))) if one.ids is None and lost else one.ids
        name = "new points" if len(new) == 1 else f"new points: {one.name}"
        layers.append(Layer(name, found[kept], None if ids is None else [str(ids[int(i)]) for i in kept]))
    return layers, said


@dataclass(frozen=True, eq=False)
class MapFacts:
    """What is found for the live map of a run.

    kept (n,): The user's rows that have coordinates (n, p).
    sampled: Some of these by their positions (m,), with geodesic distances (m, n) to all; None where there are none.
    """

    run: Run
    kept: I64
    coordinates: F64
    sampled: tuple[I64, NDArray[Any]] | None
    report: Progress

    def live_map(
        self,
        columns: Sequence[Column],
        layers: Sequence[Layer],
        marks: tuple[str, I64] | None,
        leaps: tuple[str, I64] | None,
    ) -> tuple[LiveMap, list[Notice], list[Section]]:
        """The map, what is to be said of what it has not, and a section about features."""
        ids = None if self.run.ids is None else [self.run.ids[row] for row in self.kept]
        if marks is not None:
            names = [f"row {row}" for row in self.kept[marks[1]]] if ids is None else [ids[i] for i in marks[1]]
            layers = [*layers, Layer(marks[0], self.coordinates[marks[1]], names, drawn=False)]
        other, said = self._other()
        arrows, sections = self._features()
        live = LiveMap(
            coordinates=self.coordinates,
            rows=self.kept,
            ids=ids,
            columns=columns,
            quality=list(self._quality()),
            rings=self._rings(),
            layers=layers,
            edges=list(self._edges(leaps)),
            arrows=arrows,
            other=other,
            axis_names=self._axis_names(),
        )
        return live, said, sections

    @cached_property
    def _vertex(self) -> I64:
        return self.run.vertex[self.kept]

    @cached_property
    def _of_vertex(self) -> I64:
        """The first point that is each vertex."""
        return np.searchsorted(self.kept, first_rows(self.run.store))

    def _quality(self) -> Iterator[Column]:
        n, k = len(self._of_vertex), int(self.run.parameters["n_neighbors"] or NEAREST)
        if not self.run.data.given and n > 1:
            points = at_one(self.coordinates)[self._of_vertex]
            p = int((np.ptp(points, axis=0) > 0).sum()) or 1
            most = int(max(ALL_POINTS * min(1, EASY_AXES / p) ** 2, COMPARED / (n * p), LEAST_SAMPLE))
            rows = None if n <= min(most, ALL_POINTS) else _some(n, min(most, ALL_POINTS))
            graph = shared_graph(self.run.store.path, self.run.store.identity)
            about = f"Share of its {k} nearest along the data that are among its {k} nearest on the map. 1 is best."
            about += "" if rows is None else f" Measured for a sample of {len(rows):,} points."
            yield Column("neighbours kept", neighbors_kept(graph, points, k, rows)[self._vertex], about)
        said = self.run.method.words.compared(self.run.spectrum)
        if self.sampled is not None and said.distances:
            positions, geodesic = self.sampled
            about = f"Normalised stress of its distances to {count(len(positions), 'sampled point')}. 0 is best"
            points = self.coordinates
            yield Column("stress of distances", stress_by_point(geodesic, points, positions), f"{about}{said.stress}.")

    def _rings(self) -> tuple[I64, NDArray[Any]] | None:
        if self.sampled is None:
            return None
        positions, geodesic = self.sampled
        chosen = spread_out(geodesic[:, positions], MOST_RINGS)
        return positions[chosen], geodesic[chosen]

    def _edges(self, leaps: tuple[str, I64] | None) -> Iterator[Edges]:
        if leaps is not None:
            yield Edges("edges that leap", leaps[1], f"These are {leaps[0]}.")
        graph, store = self.run.store.needed(GraphRecord), self.run.store
        if graph.n_bridges:
            pairs = store.read_array("vertex_of_distinct")[store.read_array("bridges")]
            about = "They join parts of the graph: distances across one are those of a gap, not of the data."
            yield Edges("bridges", self._of_vertex[pairs], about)

    def _axis_names(self) -> list[str]:
        spectrum = self.run.spectrum
        shares, sides = spectrum.get("share"), self.run.method.words.bounds(spectrum).get("share")
        names = [f"axis {axis}" for axis in range(1, self.coordinates.shape[1] + 1)]
        if shares is None or len(shares) != len(names):
            return names
        bounds = [f"{side} " if side else "" for side in sides or [""] * len(names)]
        return [f"{name} ({side}{percent(of)})" for name, side, of in zip(names, bounds, shares, strict=True)]

    def _features(self) -> tuple[Arrows | None, list[Section]]:
        """Arrows of features; tables of them where the method has none of its own."""
        values, said = self.run.method.loadings(self.run.store), ""
        linear = values is not None
        if values is None:
            values, said = self._correlations()
        if values is None:
            return None, []
        given = self.run.feature_names
        names = [f"feature {j}" for j in range(values.shape[1])] if given is None else given
        values = np.nan_to_num(values)  # a feature or an axis that is constant goes with nothing
        order = [axis[of[axis] != 0] for of in values for axis in [np.argsort(-np.abs(of), kind="stable")]]
        chosen = np.flatnonzero(values.any(axis=0))
        if not chosen.size:
            return None, []
        name = "how far a standard deviation of the feature moves a point" if linear else "correlation with the axis"
        arrows = Arrows(name, [names[j] for j in chosen], values[:, chosen])
        if linear:
            return arrows, []
        axes = [
            [{"feature": int(j), "name": None if given is None else given[j], "r": of[j]} for j in axis[:STRONGEST]]
            for axis, of in zip(order[:NAMED_AXES], values, strict=False)
        ]
        words = (
            f"Each table has the features that correlate most with an axis (Pearson's r{said}). A correlation shows "
            "straight-line relations only: to see others, colour the map by the feature."
            f"{'' if given else ' Features have no names here: feature 0 is the first column.'}"
        )
        return arrows, [Section("Which features go with an axis", [words], feature_tables(axes, {"correlation": "r"}))]

    def _correlations(self) -> tuple[F64 | None, str]:
        """Of the features with the axes (p, q), and of how many points that is."""
        store, data = self.run.store, self.run.data
        sparse = store.has_array("points_shape")
        whole = [data.n_distinct, data.fields.n_features]
        if data.fields.kind != "features" or (not sparse and 8 * whole[0] * whole[1] > parse_memory(None)):
            return None, ""
        rows, order = load_rows(store, whole), store.read_array("order")
        each = (rows.nnz / whole[0] if issparse(rows) else whole[1]) * (self.coordinates.shape[1] + 4)
        most = max(LEAST_SAMPLE, int(MULTIPLIED / max(each, 1)))
        chosen = np.arange(len(order)) if len(order) <= most else _some(len(order), most)
        counts = np.bincount(self._vertex, minlength=len(order))[chosen]
        said = "" if len(chosen) == len(order) else f", over a sample of {len(chosen):,} points"
        points = self.coordinates[self._of_vertex[chosen]]
        return correlations(rows, order[chosen], points, counts), said

    def _other(self) -> tuple[F64 | None, list[Notice]]:
        """Coordinates without the constant that was added; why there are none, if one was."""
        try:
            found = without_constant(self.run.store, self.report)
            if found is None:
                return None, []
            return superposition(self.coordinates, found[self._vertex], scale=False).of(found[self._vertex]), []
        except (ScalemaniError, DamagedStoreError) as error:
            words = f"There is none: {error}. A fit with --correction none has that map."
            return None, [Notice("The map without the constant is not shown beside this one.", [words], warning=False)]


def _some(n: int, most: int) -> I64:
    """Some of n numbers, ascending; the same each time."""
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))
