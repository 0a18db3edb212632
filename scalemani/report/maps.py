"""Maps: a figure of the embedding's first axes for each colouring, with its caption and legend in words.

Up to 20,000 points are dots; more are counted in pixels, so that a million points are drawn in seconds and make
no larger a page. Both directions have the same scale: the map is of distances.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scalemani.aliases import F64, I64, Floats
from scalemani.methods.words import Section
from scalemani.report.drawing import (
    CATEGORIES,
    COLORS,
    GRAY,
    MOST_DOTS,
    NEGATIVE,
    POSITIVE,
    WIDEST,
    Coloring,
    Figure,
    category_colors,
    color_bar,
    count_bar,
    dot_colors,
    new_figure,
    paint_counts,
    pixels,
    png,
    powers_of_ten,
    to_rgb,
)
from scalemani.report.page import Picture
from scalemani.words import count, number

ACROSS = 420  # pixels along the longer side of a map of many points
WIDTH, HEIGHT = 11.0, 7.2
MARK = "#111111"
MOST_MARKS = 2000  # rows that have a cross on the map


def embedding_map(
    coordinates: Floats,
    coloring: Coloring | None = None,
    *,
    marks: Floats | None = None,
    leaps: Floats | None = None,
) -> Figure:
    """The embedding's first axes: one, a map of two, or maps of each two of three.

    Coordinates (n, p) are finite, n >= 1; `marks` (m, p) get a cross, and the two ends of each of `leaps`
    (c, 2, p) a line; above 20,000 points are counted in pixels.
    """
    points = np.asarray(coordinates, dtype=np.float64)
    if points.shape[1] <= 2:
        components = tuple(range(points.shape[1]))
        figure = figure_for(points)
        panels: list[Any] = [figure.add_subplot()]
        pairs: list[tuple[int, ...]] = [components]
    else:
        # The first panel has some half of the width; two others stand in its height.
        figure = new_figure(WIDTH, min(6.6, max(4.6, _fitting(*np.ptp(points[:, :2], axis=0))[1] * 0.55 + 1)))
        grid = figure.add_gridspec(2, 2, width_ratios=[1.6, 1])
        panels = [figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])]
        pairs = [(0, 1), (0, 2), (1, 2)]
    for axes, some in zip(panels, pairs, strict=True):
        map_panel(axes, points, some, coloring, marks=marks, leaps=leaps)
    if coloring is not None and coloring.numbers is not None and points.shape[1] > 1:
        color_bar(figure, panels, coloring)
    return figure


def map_panel(
    axes: Any,
    points: Floats,
    components: Sequence[int],
    coloring: Coloring | None = None,
    *,
    marks: Floats | None = None,
    leaps: Floats | None = None,
) -> None:
    """One or two axes of a map, by their places from 0, on given axes; the rest is as in :func:`embedding_map`.

    A scale of numbers is the caller's to draw.
    """
    # No category is drawn over the others because it comes last; the order is the same each time.
    order = np.random.default_rng(0).permutation(len(points))
    shown, colors = points[order][:, list(components)], None if coloring is None else coloring.of(order)
    some = None if marks is None else marks[:, list(components)]
    axes.set_xlabel(f"axis {components[0] + 1}")
    if len(components) == 1:
        _one_axis(axes, shown[:, 0], colors, some)
        return
    _panel(axes, shown, colors)
    if some is not None and len(some) <= MOST_DOTS:
        axes.scatter(*some.T, marker="x", s=_mark_size(len(some)), c=MARK, linewidths=0.7)
    elif some is not None:
        _count(axes, some, Coloring("", codes=np.zeros(len(some), np.int64), categories=("",)), MARK)
    for ends in () if leaps is None else leaps:
        axes.plot(*ends[:, list(components)].T, "o-", color=NEGATIVE, markersize=4, linewidth=1.4)
    axes.set_ylabel(f"axis {components[1] + 1}")


def figure_for(points: Floats) -> Figure:
    """An empty figure for a map of one or two axes."""
    return new_figure(WIDTH, 3.6) if points.shape[1] == 1 else new_figure(*_fitting(*np.ptp(points, axis=0)))


def _fitting(width: float, height: float) -> tuple[float, float]:
    """Inches for a map of these sides, with room for labels: no wider or higher than the page shows at once."""
    steepness = height / width if width > 0 else (1.0 if height == 0 else np.inf)
    if steepness <= HEIGHT / WIDTH:
        return WIDTH, max(3.6, WIDTH * steepness + 0.6)
    return max(5.5, HEIGHT / steepness + 1.5), HEIGHT


def _panel(axes: Any, points: Floats, colors: Coloring | None) -> None:
    axes.set_aspect("equal", adjustable="datalim")
    axes.tick_params(labelsize=8)
    powers_of_ten(axes.xaxis, axes.yaxis)
    if len(points) <= MOST_DOTS:
        dots = {"color": POSITIVE} if colors is None else {"c": dot_colors(colors)}
        axes.scatter(points[:, 0], points[:, 1], s=_dot_size(len(points)), linewidths=0, **dots)
        return
    _count(axes, points, colors)


def _count(axes: Any, points: Floats, colors: Coloring | None, only: str | None = None) -> None:
    """Points counted in pixels, in their colours or in one alone; what is drawn already stays in view."""
    low, high = points.min(axis=0), points.max(axis=0)
    side = max(float((high - low).max()) / ACROSS, np.finfo(float).tiny)
    cells = np.minimum(((points - low) / side).astype(np.int64), ACROSS - 1)
    columns, rows = (int(cells[:, axis].max()) + 1 for axis in (0, 1))
    image = pixels(cells[:, 1] * columns + cells[:, 0], rows * columns, colors).reshape(rows, columns, 4)
    if only is not None:
        image[..., :3] = to_rgb(only)
    extent = (low[0], low[0] + columns * side, low[1], low[1] + rows * side)
    axes.imshow(image, origin="lower", extent=extent, interpolation="nearest", aspect="equal")
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.03)


def _dot_size(n: int) -> float:
    """Area of a dot: 60 points are seen, and 20,000 don't grow together."""
    return float(np.clip(9000 / max(n, 1), 2.5, 26))


def _mark_size(m: int) -> float:
    """Area of a cross: a few are seen, and thousands don't cover the map."""
    return float(np.clip(6000 / m, 3, 30))


def _one_axis(axes: Any, values: Floats, colors: Coloring | None, marks: Floats | None) -> None:
    """Against the numbers that colour it; else how many points lie where, a line a category."""
    powers_of_ten(axes.xaxis, axes.yaxis)
    if marks is not None:  # at the foot
        foot = np.zeros(len(marks))
        axes.scatter(marks[:, 0], foot, marker="|", s=30, c=MARK, linewidths=0.7, transform=axes.get_xaxis_transform())
    if colors is not None and colors.numbers is not None:
        known = ~colors.missing
        _against(axes, values[known], np.clip(colors.numbers[known], -WIDEST, WIDEST))
        axes.set_ylabel("value in the column")
        return
    edges = np.histogram_bin_edges(values, bins=int(np.clip(np.sqrt(len(values)), 8, 120)))
    axes.set_ylabel("points")
    if colors is None or colors.codes is None:
        axes.hist(values, bins=edges, color=POSITIVE)
        return
    kinds = len(colors.categories)
    groups = [(values[colors.codes == kind], CATEGORIES[kind]) for kind in range(kinds)]
    rest = values[(colors.codes < 0) | (colors.codes == kinds)]
    for group, color in [*groups, (rest, GRAY)]:
        if group.size:
            axes.hist(group, bins=edges, color=color, histtype="step", linewidth=1.6)


def _against(axes: Any, values: Floats, numbers: Floats) -> None:
    if len(values) <= MOST_DOTS:
        axes.scatter(values, numbers, s=_dot_size(len(values)), c=numbers, cmap=COLORS, linewidths=0)
        return
    counts, across, up = np.histogram2d(values, numbers, bins=(ACROSS, ACROSS // 3))
    count_bar(axes.figure, axes, paint_counts(axes, counts.T, (across[0], across[-1], up[0], up[-1])), "points")


_COUNTED = (
    "A pixel with fewer points is paler. One with several shows the mean of their numbers, or a mixture of their "
    "colours."
)


def map_sections(
    coordinates: F64,
    n_dropped: int,
    colorings: Sequence[Coloring],
    marks: tuple[str, I64] | None = None,
    leaps: tuple[str, I64] | None = None,
) -> Iterator[Section]:
    """A section for each colouring, or one without colours.

    `coordinates` are finite, `n_dropped` rows have none; `marks`: what some rows of them are, which get a cross if
    they are few, and these; `leaps`: what some pairs of rows (c, 2) are, which get a line.
    """
    words, crosses, end, lines = [], None, "", None
    if leaps is not None and coordinates.shape[1] > 1:
        lines, end = coordinates[leaps[1]], f" Red lines are {leaps[0]}."
    if marks is not None and len(marks[1]) <= MOST_MARKS:
        what, rows = marks
        crosses = coordinates[rows]
        end += f" {'Strokes at the foot' if coordinates.shape[1] == 1 else 'Crosses'} are the {len(rows):,} {what}."
    if n_dropped:
        words.append(f"{count(n_dropped, 'row')} without coordinates {'is' if n_dropped == 1 else 'are'} left out.")
    many = len(coordinates) > MOST_DOTS
    if not colorings:
        caption = f"{_all(len(coordinates))} Darker where there are more. " if many and coordinates.shape[1] > 1 else ""
        yield Section("The map", words, pictures=[_picture(coordinates, None, caption, crosses, lines, end)])
    for i, colors in enumerate(colorings):
        caption = f"Coloured by {colors.name}. {_remarks(colors, coordinates.shape[1])}"
        caption += f"{_all(len(coordinates))} {_COUNTED} " if many and coordinates.shape[1] > 1 else ""
        heading = "The map" if len(colorings) == 1 else f"The map: {colors.name}"
        yield Section(
            heading, words if i == 0 else [], pictures=[_picture(coordinates, colors, caption, crosses, lines, end)]
        )


def _all(n: int) -> str:
    return f"All {n:,} points are counted in the picture's pixels."


def _picture(coordinates: F64, colors: Coloring | None, caption: str, marks: Any, leaps: Any, end: str) -> Picture:
    alt = "The embedding's first axes" + (f", coloured by {colors.name}." if colors else ".")
    legend = legend_of(colors) if colors is not None and colors.codes is not None else []
    said = caption + _axes(coordinates.shape[1]) + end
    return Picture(png(embedding_map(coordinates, colors, marks=marks, leaps=leaps)), said, alt, legend)


def _axes(p: int) -> str:
    if p == 1:
        return "There is one axis."
    which = "" if p == 2 else "Axes 1, 2 and 3, two at a time. "
    return which + "Both directions have the same scale."


def _remarks(colors: Coloring, p: int) -> str:
    """What a reader of the colours would get wrong without."""
    text = ""
    if colors.numbers is not None:
        known = colors.numbers[~colors.missing]
        beyond = int(((known < colors.limits[0]) | (known > colors.limits[1])).sum())
        if beyond:
            ends = f"the column goes from {number(known.min())} to {number(known.max())}"
            have = "has" if beyond == 1 else "have"
            text += f"{count(beyond, 'value')} beyond the scale's ends {have} the end's colour ({ends}). "
    elif colors.n_categories > len(colors.categories):
        few = f"the {len(colors.categories)} commonest have a colour each" if colors.categories else "none has a colour"
        text += f"The column has {colors.n_categories:,} different values, too many to tell apart: {few}. "
    missing = int(colors.missing.sum())
    if missing:
        # Beside one axis, what has no number has no place.
        place = "left out" if p == 1 and colors.numbers is not None else "grey"
        text += f"{count(missing, 'row')} without a value {'is' if missing == 1 else 'are'} {place}. "
    return text


def legend_of(colors: Coloring) -> list[tuple[str, str]]:
    """Colours of categories with what they stand for, and how many rows that are."""
    *shown, others, missing = colors.counts()
    others_are = f"{colors.n_categories - len(colors.categories):,} others"
    further = others_are if colors.categories else "all values"
    entries = [*zip(colors.categories, shown, strict=True), (further, others), ("no value", missing)]
    return [
        (color, f"{name} ({n:,})")
        for color, (name, n) in zip(category_colors(colors), entries, strict=True)
        if n or name in colors.categories
    ]
