"""Charts of the spectrum, of the dimension, and of distances in the map against those along the data."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial import Delaunay, cKDTree

from scalemani.aliases import F64
from scalemani.report.drawing import (
    CATEGORIES,
    COLORS,
    GRAY,
    NEGATIVE,
    POSITIVE,
    Figure,
    count_bar,
    new_figure,
    paint_counts,
    plain_axes,
    plain_numbers,
    powers_of_ten,
    signed_powers,
    whole_ticks,
)

Pairs = tuple[F64, F64]

LIGHT = "#92c5de"
ACCENT = "#e08214"
MOST_DOTTED_PAIRS = 8000
LINEAR = 1e-3  # of the largest eigenvalue: within it the axis is linear
CELLS = (230, 170)
MOST_LABELS = 12
SMALLEST_SHARE = 1e-6  # that has a place on a scale by powers of ten
MOST_EIGENVALUES = 16  # of a kernel
BANDS = 12  # of feature distance
LONG = 12.0  # times how near points are to others: no side of a triangle of their map
FEWEST_NEAR = 20  # pairs under which a slope says nothing


def drawn_on(ax: Any, width: float, height: float) -> Any:
    """The Axes that are given, or those of a new figure of so many inches."""
    return new_figure(width, height).add_subplot() if ax is None else plain_axes(ax)


def eigenvalue_chart(
    eigenvalues: Sequence[float],
    unshifted: Sequence[float],
    shift: float,
    next_value: float | None = None,
    most_negative: float | None = None,
    ax: Any = None,
) -> Any:
    """The axes' eigenvalues with and without the shift, what stands behind the last axis, and the lowest."""
    p = len(eigenvalues)
    axes = drawn_on(ax, _width(p), 3.8)
    place = np.arange(1, p + 1)
    axes.axhline(0, color="black", linewidth=0.8)
    # Flipped ones have either sign: a line through them would show what is not there.
    line = "o-" if min(eigenvalues) >= 0 else "o"
    axes.plot(place, eigenvalues, line, color=POSITIVE, linewidth=1.3, label="eigenvalue of the axis")
    if shift:
        axes.plot(place, unshifted, "o--", color=LIGHT, linewidth=1.3, label="without the shift")
        axes.axhline(shift, color=ACCENT, linewidth=1.2, linestyle="--", label="the shift alone")
    places, names = list(map(float, place)), [f"{a}" for a in place]
    behind = [(next_value, "s", GRAY, "next", "next, has no axis")]
    behind += [(most_negative, "D", NEGATIVE, "lowest", "lowest without a correction")] if most_negative else []
    for value, marker, color, name, label in behind:
        if value is not None:
            names.append(name)
            places.append(places[-1] + max(1, p / 14))  # so that words have room where numbers are close
            axes.plot(places[-1], value, marker, color=color, label=label)
    drawn = np.concatenate([line.get_ydata() for line in axes.get_lines()])
    largest = float(np.abs(eigenvalues).max())
    if largest > 1e-290:  # below, powers of ten end
        # Linear near 0, so that both signs have a place, and by powers of ten beyond.
        signed_powers(axes, int(np.floor(np.log10(LINEAR * largest))), float(drawn.min()), float(drawn.max()))
    _axis_numbers(axes, places, names, p)
    axes.set_ylabel("eigenvalue")
    axes.legend(fontsize=9)
    return axes


def feature_arrows(features: Sequence[Sequence[Any]]) -> Any:
    """An arrow for each feature: its name, and how far it moves a row along two axes; names give way to others."""
    axes = drawn_on(None, 7.0, 6.0)
    reach = 1.4 * max(max(abs(x), abs(y)) for _, x, y in features) or 1.0
    lowest = {True: -np.inf, False: -np.inf}  # of the next name, right and left
    for name, x, y in sorted(features, key=lambda feature: feature[2]):
        level = max(1.06 * y, lowest[x >= 0])
        lowest[x >= 0] = level + 0.07 * reach
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": POSITIVE, "linewidth": 1.3})
        axes.annotate(name, (1.04 * x, level), ha="left" if x >= 0 else "right", va="center", fontsize=9)
    axes.axhline(0, color=GRAY, linewidth=0.6)
    axes.axvline(0, color=GRAY, linewidth=0.6)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), xlabel="axis 1", ylabel="axis 2", aspect="equal")
    return axes


def _width(p: int) -> float:
    """Inches of a chart of p axes."""
    return min(11, 5.5 + 0.5 * p)


def _axis_numbers(axes: Any, places: Any, names: Sequence[str], p: int) -> None:
    """Ticks with names; of many axes only some have one, of what comes behind the p axes all."""
    step = max(1, round(p / 24))
    shown = [*range(0, p, step), *range(p, len(names))]
    axes.set_xticks([places[i] for i in shown], [names[i] for i in shown])
    axes.set_xlim(0.4, max(float(places[-1]), 4) + 0.6)
    axes.set_xlabel("axis")


def share_chart(
    share: Sequence[float],
    unshifted: Sequence[float] | None = None,
    corrected: Sequence[float] | None = None,
    broken_stick: Sequence[float] | None = None,
) -> Any:
    """Shares of the axes beside the broken stick's.

    `corrected` is what the stick is for where `share` is something else: no part is negative, and the sum is 1.
    """
    p = len(share)
    axes = drawn_on(None, _width(p), 3.8)
    place = np.arange(1, p + 1)
    lines = [
        (share, "o-", POSITIVE, "share of the axis"),
        (unshifted, "o--", LIGHT, "without the shift"),
        (corrected, "o:", GRAY, "after a correction"),
        (broken_stick, "-", ACCENT, "broken stick: chance"),
    ]
    for values, style, color, label in lines:
        if values is not None:
            percents = np.array([100 * v if v > SMALLEST_SHARE else np.nan for v in values])
            axes.plot(place, percents, style, color=color, markersize=5, linewidth=1.3, label=label)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    _axis_numbers(axes, place, [f"{a}" for a in place], p)
    axes.set_ylabel("share in %")
    axes.legend(fontsize=9)
    return axes


def dimension_panels(histogram: Any, scales: F64, slopes: F64, estimate: Mapping[str, Any] | None) -> Figure:
    """All geodesic distances (twenty at least) by length, and the correlation dimension scale by scale."""
    figure = new_figure(11, 3.8)
    left: Any = figure.add_subplot(1, 2, 1)
    left.stairs(histogram.counts / np.diff(histogram.edges), histogram.edges, fill=True, color=POSITIVE)
    left.set_xlim(0, float(histogram.edges[-1]))
    powers_of_ten(left.xaxis, left.yaxis)
    left.set(xlabel="geodesic distance", ylabel="pairs for a unit of distance")
    left.set_title(f"all {histogram.n_pairs:,} pairs", fontsize=11)
    right: Any = figure.add_subplot(1, 2, 2)
    known = histogram.nearer[1:] >= FEWEST_NEAR
    right.plot(scales[known], slopes[known], "o-", color=POSITIVE, markersize=3.5, linewidth=1, label="slope")
    top = 2.0
    if estimate is not None:
        value = estimate["dimension"]
        right.axvspan(estimate["shortest"], estimate["longest"], color=ACCENT, alpha=0.15, linewidth=0)
        right.axhline(value, color=ACCENT, linewidth=1.5, label=f"estimate: {value:.2f}")
        top = 2.2 * max(value, 0.5)
    right.set_ylim(0, max(top, float(np.quantile(slopes[known], 0.9)) if known.any() else top))
    right.set_xscale("log")
    if not known.any():  # equal distances have one bin and no slope: matplotlib finds no limits of its own
        right.set_xlim(float(histogram.edges[0]), float(histogram.edges[-1]))
    plain_numbers(right.xaxis)
    right.set(xlabel="distance r", ylabel="slope of log(pairs nearer than r)")
    right.set_title("correlation dimension by scale", fontsize=11)
    right.legend(fontsize=9, loc="lower left")
    return figure


def residual_chart(residual_variances: Sequence[float | None], ax: Any = None) -> Any:
    """Residual variance with the first 1, 2, ... axes (Tenenbaum, de Silva and Langford 2000, figure 2)."""
    axes, p = drawn_on(ax, 7.4, 3.8), len(residual_variances)
    place = np.arange(1, p + 1)
    values = np.array(residual_variances, dtype=np.float64)  # NaN for None
    axes.plot(place, values, "o-", color=POSITIVE, markersize=5)
    if p <= MOST_LABELS:
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.8}
        for a, value in zip(place[np.isfinite(values)], values[np.isfinite(values)], strict=True):
            where = {"xytext": (0, 8), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"{value:.3g}", (a, value), fontsize=8, bbox=paper, **where)
    axes.set_ylim(0, max(1.15 * float(np.nanmax(values)), 1e-9))
    axes.set_xlim(0.5, max(p, 2) + 0.5)
    whole_ticks(axes.xaxis)
    axes.set(xlabel="axes used", ylabel="residual variance, 1 − r²")
    return axes


def distance_panels(all_pairs: Pairs, near_pairs: Pairs, constant: float = 0.0) -> Figure:
    """Distances in the embedding against geodesic ones: of all sampled pairs, and of nearest neighbours alone.

    Each are (geodesic, embedded); `constant` was added to geodesic distances by the fit.
    """
    figure = new_figure(11, 4.9)
    for place, (name, (geodesic, embedded)) in enumerate(
        [("all distances", all_pairs), ("nearest neighbours only", near_pairs)], start=1
    ):
        axes: Any = figure.add_subplot(1, 2, place)
        pairs_chart(geodesic, embedded, "geodesic distance", "distance in the embedding", constant, axes)
        axes.set_title(f"{name}: {geodesic.size:,} pairs", fontsize=11)
    return figure


def pairs_chart(geodesic: F64, embedded: F64, name: str, other: str, constant: float = 0.0, ax: Any = None) -> Any:
    """One number of pairs of points against another that it should equal, with medians.

    `constant` may have been added to the first.
    """
    axes = drawn_on(ax, 7.0, 4.9)
    if (image := cloud_panel(axes, geodesic, embedded)) is not None:
        count_bar(axes.figure, axes, image, "pairs")
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    line = np.array([0.0, right])
    axes.plot(line, line, color="black", linewidth=1, label="equal")
    if 0 < constant < top:
        axes.plot(line, line + constant, color=NEGATIVE, linewidth=1, linestyle="--", label="equal, with the constant")
    across, up = _medians(geodesic, embedded)
    axes.plot(across, up, color=ACCENT, linewidth=1.8, label="median")
    # Where the pairs are not: they bend to one side of the diagonal.
    bent_up = across.size and up.mean() / top > across.mean() / right
    axes.legend(fontsize=8, loc="lower right" if bent_up else "upper left")
    axes.set(xlabel=name, ylabel=other)
    return axes


def _medians(x: F64, y: F64, parts: int = 30, least: int = 10) -> tuple[F64, F64]:
    """Medians of y in parts of equal width along x; parts with few pairs have none."""
    part = np.minimum((parts / (float(x.max(initial=0.0)) or 1.0) * x).astype(np.int64), parts - 1)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    found = [
        (float(np.median(x[inside])), float(np.median(y[inside])))
        for inside in (order[a:b] for a, b in pairwise(ends))
        if inside.size >= least
    ]
    across, up = np.array(found).reshape(-1, 2).T
    return across, up


def kernel_panels(view: Any) -> Figure:
    """Two lines of panels for each kernel of a :class:`scalemani.report.kernel_view.KernelView`.

    Eigenvalues, distances of all pairs and of neighbours in the graph, contours of feature distance from two points.
    """
    wide, lines = 3 if view.straight is None else 4, 2 * len(view.kernels)
    figure = new_figure(3.7 * wide, 3.1 * lines)
    for at, kernel in enumerate(view.kernels):
        feature = f"feature distance of {kernel.name}"
        mapped = view.embedded, "distance on the map"
        clouds = [(*mapped, kernel.distances, feature)]
        if view.straight is not None:  # of a further kernel not the same map again
            clouds.append((view.straight, "distance between rows of X", *(mapped if at == 0 else clouds[0][2:])))
        for local in (False, True):
            panels = [figure.add_subplot(lines, wide, wide * (2 * at + local) + one + 1) for one in range(wide)]
            spectrum_panel(panels[0], {kernel.name: kernel.eigenvalues}, log=local)
            for axes, (x, name, y, other) in zip(panels[1:-1], clouds, strict=True):
                cloud_panel(axes, view.pairs(x, local=local), view.pairs(y, local=local))
                of = f"{'neighbours' if local else 'all pairs'}, correlation {view.correlation(x, y, local=local):.3f}"
                axes.set(xlabel=name, ylabel=other)
                axes.set_title(of, fontsize=9)
            contour_panel(figure, panels[-1], view.points, kernel.distances, view.center if local else view.border)
            panels[-1].set_title(f"{kernel.name}: from the cross", fontsize=9)
    return figure


def spectrum_panel(axes: Any, eigenvalues: Mapping[str, F64], *, log: bool) -> None:
    """Eigenvalues over the first, a line for each kernel; those that are not above 0 have no logarithm."""
    for name, every in eigenvalues.items():
        values = every[:MOST_EIGENVALUES] / (every[0] if every[0] > 0 else 1.0)
        axes.plot(np.arange(1, len(values) + 1), values, "o-", markersize=4, linewidth=1.2, label=name)
    if log and any(every[0] > 0 for every in eigenvalues.values()):
        axes.set_yscale("log")
        axes.minorticks_off()  # they take longer than all else
        axes.set_ylim(top=1.6, bottom=min(0.1, axes.get_ylim()[0]))
    else:
        axes.axhline(0, color=GRAY, linewidth=0.8)
    whole_ticks(axes.xaxis)
    axes.set(xlabel="number", ylabel="eigenvalue / the first")
    axes.legend(fontsize=8)


def cloud_panel(axes: Any, x: F64, y: F64) -> Any:
    """Pairs of numbers from 0, as dots or as an image of counts, which is returned."""
    right, top = (1.03 * float(values.max(initial=0.0)) or 1.0 for values in (x, y))
    axes.set(xlim=(0, right), ylim=(0, top))
    powers_of_ten(axes.xaxis, axes.yaxis)
    if x.size <= MOST_DOTTED_PAIRS:
        axes.plot(x, y, ".", ms=3, color=POSITIVE, alpha=0.6, markeredgewidth=0)
        return None
    counts, _, _ = np.histogram2d(x, y, bins=CELLS, range=((0, right), (0, top)))
    return paint_counts(axes, counts.T, (0, right, 0, top))


def contour_panel(figure: Figure, axes: Any, points: F64, distances: F64, start: int) -> None:
    """Distances (m, m) from one of the points (m, p) as colours in even steps, and contours; with one axis a curve.

    Triangles of the contours that are long beside how near points are to others are no part of the map.
    """
    far, size = distances[start], np.ptp(points, axis=0)[:2]
    if points.shape[1] < 2 or len(points) < 4 or size.min() <= 1e-9 * size.max():
        axes.plot(points[:, 0], far, ".", ms=3, color=POSITIVE)
        axes.plot(points[start, 0], 0.0, "x", color=NEGATIVE, ms=8)
        axes.set(xlabel="axis 1", ylabel="distance")
        return
    steps = np.linspace(0.0, float(far.max()), BANDS + 1)
    colors = axes.scatter(*points[:, :2].T, s=5, c=steps[np.searchsorted(steps, far)], linewidths=0, cmap=COLORS)
    flat = points[:, :2] / size
    corners = Delaunay(flat, qhull_options="QJ Pp").simplices  # of points on a line, too
    longest = np.linalg.norm(flat[corners] - flat[np.roll(corners, 1, axis=1)], axis=2).max(axis=1)
    corners = corners[longest < LONG * np.median(cKDTree(flat).query(flat, 2)[0][:, 1])]
    if len(corners) and steps[1] > 0:
        axes.tricontour(*points[:, :2].T, corners, far, steps[1:-1], colors="black", linewidths=0.8)
    axes.plot(*points[start, :2], "x", color=NEGATIVE, ms=9, markeredgewidth=2.5)
    figure.colorbar(colors, ax=axes, pad=0.02, aspect=28)
    (left, low), (right, high) = points[:, :2].min(axis=0) - size / 20, points[:, :2].max(axis=0) + size / 20
    axes.set(xlabel="axis 1", ylabel="axis 2", xlim=(left, right), ylim=(low, high))
    powers_of_ten(axes.xaxis, axes.yaxis)


def scan_panels(scan: Any, left: Any, right: Any) -> None:
    """Residual variances by k, a curve for each number of axes; negative mass and agreement with the next k.

    Shaded are the k whose graph has shortcuts (red) or falls into parts (grey); a line is at the recommended one.
    """
    ks = np.array([one.n_neighbors for one in scan.ks], np.float64)
    most = max(len(one.residual_variances) for one in scan.ks)
    for p in range(most):
        values = [one.residual_variances[p] if p < len(one.residual_variances) else np.nan for one in scan.ks]
        label = "1 axis" if p == 0 else f"{p + 1} axes"
        left.plot(ks, values, "o-", color=CATEGORIES[p], markersize=4, linewidth=1.3, label=label)
    left.set_ylabel("residual variance, 1 − r²")
    left.set_ylim(bottom=0)
    right.plot(ks, [one.negative_mass for one in scan.ks], "s-", color=NEGATIVE, markersize=4, label="negative mass")
    agreement = [np.nan if one.agreement is None else one.agreement for one in scan.ks]
    right.plot(ks, agreement, "o-", color=POSITIVE, markersize=4, label="same as with the next k")
    right.set_ylim(bottom=0)
    middles = (ks[1:] + ks[:-1]) / 2 if len(ks) > 1 else ks[:0]
    bounds = np.concatenate([[ks[0] - 0.5], middles, [ks[-1] + 0.5]])
    ends = {one.n_neighbors: pair for one, pair in zip(scan.ks, pairwise(bounds), strict=True)}
    for axes in (left, right):
        for one in scan.ks:
            if one.n_shortcuts or one.n_parts > 1:
                color = NEGATIVE if one.n_shortcuts else GRAY
                axes.axvspan(*ends[one.n_neighbors], color=color, alpha=0.15, linewidth=0)
        if scan.recommended is not None:
            axes.axvline(scan.recommended, color="black", linewidth=1, linestyle="--", label="recommended")
        axes.set_xticks(ks[:: max(1, len(ks) // 12)])
        axes.set_xlim(ks[0] - 0.6, ks[-1] + 0.6)
        axes.set_xlabel("neighbours, k")
        axes.legend(fontsize=8, loc="best")


#: Charts that a method may ask for by their names (:class:`scalemani.methods.words.Chart`).
CHARTS: dict[str, Callable[..., Any]] = {
    "eigenvalues": eigenvalue_chart,
    "shares": share_chart,
    "arrows": feature_arrows,
    "pairs": pairs_chart,
    "kernel": kernel_panels,
}
