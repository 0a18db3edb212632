"""Two maps of the same points compared: in numbers, in plain words and side by side."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.embedding.agreement import (
    LOOSE,
    Superposition,
    common_points,
    correlation_of_distances,
    matched,
    shared_neighbors,
    superposition,
)
from scalemani.errors import MapsDifferWarning, ScalemaniError, warn
from scalemani.model import Run, run_of
from scalemani.points.cells import unmasked
from scalemani.points.labels import row_labels
from scalemani.report.drawing import Coloring, color_bar, new_figure, own_words, plain_axes
from scalemani.report.maps import map_panel
from scalemani.words import count, percent, plain_number

NEIGHBORS = 10, 30, 100  # k of the shared neighbours
PAIRS = ", or rows=(rows of the one, rows of the other)"
CLOSE = 0.1  # of the map's spread: points that are no farther apart are in the same places


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """What :func:`compare` finds of the n points that two maps have in common.

    names: What the two maps are called.
    rows: Row numbers (n,) in the one and in the other; points without coordinates in both are left out.
    ids: Of these rows, where both maps have them.
    matched: How rows were matched, in words.
    sizes: Rows of each map, with coordinates or without.
    a (n, p): Coordinates on the one map.
    aligned (n, p): Those of the other, moved, turned, mirrored and scaled to lie on the one.
    scale: By which the other was multiplied.
    procrustes: Procrustes' statistic, from 0 (the same shape) to 1: the sum of squared distances between `a` and
        `aligned` over that of `a` from its centre (Gower 1975; SciPy's `procrustes` calls it disparity).
    displacement: Root mean squared distance between `a` and `aligned` over the map's spread, which is the root mean
        squared distance from its centre: the root of `procrustes`.
    displacements (n,): The distance of each point in that unit.
    neighbors: k -> shares (n,) of each point's k nearest on the one map that are among its k nearest on the other, for
        k of 10, 30 and 100 where there are more points; all axes count. By chance such a share is k / (n - 1).
    correlation_of_distances: Pearson's, of the distances on the one map with those on the other, over all pairs of
        points or a sample of 100,000; NaN where it means nothing. (The "distance correlation" of statistics is another
        number, Székely's.)
    """

    names: tuple[str, str]
    rows: tuple[I64, I64]
    ids: list[str] | None
    matched: str
    sizes: tuple[int, int]
    a: F64
    aligned: F64
    scale: float
    procrustes: float
    displacement: float
    displacements: F64
    neighbors: Mapping[int, F64]
    correlation_of_distances: float

    def record(self) -> dict[str, Any]:
        """The numbers of the whole as JSON values."""
        shared = {str(k): float(shares.mean()) for k, shares in self.neighbors.items()}
        chance = {str(k): self._chance(k) for k in self.neighbors}
        correlation = self.correlation_of_distances
        return {
            "n_rows": len(self.a),
            "rows_of_each": list(self.sizes),
            "matched": self.matched,
            "n_components": self.a.shape[1],
            "procrustes": self.procrustes,
            "displacement": self.displacement,
            "scale": self.scale,
            "shared_neighbors": shared,
            "shared_neighbors_by_chance": chance,
            "correlation_of_distances": None if np.isnan(correlation) else correlation,
        }

    def _chance(self, k: int) -> float:
        return k / (len(self.a) - 1)

    def __str__(self) -> str:
        far, (one, other), (m, n) = self.displacement, self.names, self.sizes
        where = "the same" if far <= CLOSE else "roughly the same" if far <= LOOSE else "different"
        correlation = self.correlation_of_distances
        rows = [
            ("points", f"{len(self.a):,} on both maps, matched {self.matched} ({one}: {m:,} rows; {other}: {n:,})"),
            ("places", f"{where}: {plain_number(far, 3)} of the map's spread apart (RMS; 0 is best)"),
            (
                "shape",
                f"Procrustes' statistic {plain_number(self.procrustes, 3)} (0 is the same, 1 quite another)",
            ),
            ("size", f"{other} was scaled by {plain_number(self.scale)}, and turned or mirrored, to lie on {one}"),
            *(
                (f"{k} nearest", f"{percent(float(shares.mean()))} are the same ({percent(self._chance(k))} by chance)")
                for k, shares in self.neighbors.items()
            ),
            (
                "distances",
                "all equal" if np.isnan(correlation) else f"on both maps correlated by {correlation:.3f} (1 is best)",
            ),
        ]
        return "\n".join(f"{name:<17}{said}" for name, said in rows)

    def plot(self, color: str = "neighbors", components: Any = (0, 1), ax: Any = None) -> Any:
        """Both maps side by side: on the left the one, on the right the other, laid upon it.

        color: "neighbors" colours by the shares of the middle one of the k, "displacement" by how far points are apart.
        components: Axes to draw, counted from 0; or one.
        ax: Two of matplotlib's Axes; those of a new figure (which is not pyplot's: ``axes[0].figure``) unless given.
        -> The two Axes, as an array.
        Raises ScalemaniError: Another colour, axes that are not there, or other than two Axes.
        """
        if color not in ("neighbors", "displacement"):
            raise ScalemaniError(f"color={color!r}: 'neighbors' or 'displacement' is allowed")
        shown = chosen_axes(components, self.a.shape[1])
        if color == "neighbors" and self.neighbors:
            k = [*self.neighbors][(len(self.neighbors) - 1) // 2]
            values, limits, label = self.neighbors[k], (0.0, 1.0), f"shared of the {k} nearest"
        else:
            most = float(np.quantile(self.displacements, 0.99)) or 1.0
            values, limits, label = self.displacements, (0.0, most), "apart / the map's spread"
        colors = Coloring("", values, limits)
        wide, high = np.ptp(self.a[:, list(shown * 2)[:2]], axis=0)
        panels = two_axes(ax, 6.0 if wide * 5 <= high * 4.7 else max(3.2, 4.7 * high / wide + 1.3))
        for axes, points, title in zip(panels, (self.a, self.aligned), self._titles(), strict=True):
            map_panel(axes, points, shown, colors)
            own_words(axes.title, title)
            if len(shown) == 1:
                axes.set_ylabel(label)
        if len(shown) > 1:
            both = np.vstack([self.a, self.aligned])[:, list(shown)]
            for axes in panels:  # the same stretch, or a map that shrank looks as large as the other
                axes.update_datalim(both)
                axes.autoscale_view()
            color_bar(panels[0].figure, list(panels), colors, label)
        return panels

    def _titles(self) -> tuple[str, str]:
        return self.names[0], f"{self.names[1]}, laid upon it"


def compare(a: Any, b: Any, rows: Any = None) -> Comparison:
    """Compare two maps of the same points, whatever their position, turn, mirror image and size.

    a, b: Fitted models, paths of stores, or coordinates (n, p) of as many axes.
    rows: Row numbers of the same points, (those in a, those in b). Without it rows are matched by their ids where both
        maps have them (`ids_`; arrays have none, frames their index), else by their numbers where both have as many.
    -> How far points are apart after the best turn and scale, which share of neighbours stays, how distances are
        correlated; ``print`` it, take its attributes, or `plot` it. Neighbours are found by k-d trees on all axes.
    Raises ScalemaniError: Rows that can't be matched (an id that several rows have; different numbers of rows), maps of
        different numbers of axes, or with fewer than p + 1 points in common.
    """
    (one, ids, name), (other, other_ids, other_name) = _map_of(a, "a"), _map_of(b, "b")
    names = (name, other_name) if name != other_name else ("a", "b")
    here, there, how = matched((ids, other_ids), (len(one), len(other)), names, rows, PAIRS)
    known, first, second = common_points((one, other), (here, there), names, how)
    laid = superposition(first, second)
    aligned = laid.of(second)
    unit = float(np.abs(first).max())  # in which no square is out of range
    spread = float(np.sqrt((((first - first.mean(axis=0)) / unit) ** 2).sum(axis=1).mean()))
    return Comparison(
        names=names,
        rows=(here[known], there[known]),
        ids=None if ids is None else [ids[row] for row in here[known]],
        matched=how,
        sizes=(len(one), len(other)),
        a=first,
        aligned=aligned,
        scale=laid.scale,
        procrustes=laid.disparity,
        displacement=laid.apart,
        displacements=np.asarray(np.linalg.norm((aligned - first) / unit, axis=1) / spread),
        neighbors=shared_neighbors(first, second, NEIGHBORS),
        correlation_of_distances=correlation_of_distances(first, second),
    )


def _map_of(given: Any, name: str) -> tuple[NDArray[Any], Sequence[str] | None, str]:
    """Coordinates, ids and what a map is called."""
    if isinstance(given, str | os.PathLike | Run) or hasattr(type(given), "fit"):
        run = run_of(given, "compare")
        return run.embedding(), run.ids, os.fspath(given) if isinstance(given, str | os.PathLike) else name
    given = unmasked(given, name)
    try:
        points = np.asarray(given if np.isrealobj(given) else "complex", np.float64)
    except (TypeError, ValueError) as error:
        raise ScalemaniError(f"{name} is no map: give a fitted model, a store's path or coordinates (n, p)") from error
    if points.ndim != 2 or 0 in points.shape:
        raise ScalemaniError(f"{name} has the shape {points.shape}: coordinates (n, p) of a map are needed")
    return points, row_labels(given), name


def laid_upon(run: Run, other: Any) -> Superposition:
    """What turns, mirrors and moves the map of a run, so that rows in common lie nearest to where they lie there.

    other: A fitted model, or the path of a store. Rows are matched by their ids where both have them, else by
        their numbers.
    Raises ScalemaniError: Maps of other numbers of axes, fewer than p + 1 rows in common, or rows that can't be
        matched.
    Warns by MapsDifferWarning: The maps are of another shape.
    """
    target, names = run_of(other, "align_to"), ("the map to align to", "this map")
    here, there, how = matched((target.ids, run.ids), (len(target.vertex), len(run.vertex)), names)
    _, first, second = common_points((target.embedding(), run.embedding()), (here, there), names, how)
    laid = superposition(first, second, scale=False)
    if laid.apart > LOOSE:
        warn(
            f"the {laid.n_points:,} rows in common, matched {how}, are {laid.apart:.2f} of the map's spread apart "
            f"(RMS) after alignment, where {LOOSE} or less is expected: the maps are of different shape, or these "
            "are not the same rows; compare shows both",
            MapsDifferWarning,
        )
    return laid


def two_axes(given: Any, height: float = 4.2) -> Any:
    """Two Axes side by side: those that are given, or of a new figure so many inches high."""
    panels = new_figure(11.0, height).subplots(1, 2) if given is None else np.ravel(np.asarray(given, object))
    if len(panels) != 2:
        raise ScalemaniError(f"ax has {len(panels)} Axes; two are needed, as of plt.subplots(1, 2)")
    return np.array([plain_axes(one) for one in panels], object)


def chosen_axes(components: Any, p: int) -> tuple[int, ...]:
    """One or two axes of p, from 0; the two first of one axis are that one."""
    some = (
        (components,)
        if isinstance(components, int | np.integer) or getattr(components, "shape", None) == ()
        else components
    )
    listed = tuple(some) if isinstance(some, Sequence | np.ndarray) and not isinstance(some, str) else ()
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in listed)
    if p == 1 and listed == (0, 1):
        listed = (0,)
    if not whole or not 1 <= len({*listed}) == len(listed) <= 2 or not all(0 <= one < p for one in listed):
        raise ScalemaniError(
            f"components={components!r}: the map has {count(p, 'axis', 'axes')}; give one or two of them, which count "
            f"from 0 to {p - 1}"
        )
    return tuple(map(int, listed))
