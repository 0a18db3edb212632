"""Planes of labelled points, and where a support vector machine parts them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.report.drawing import CATEGORIES, GRAY, Figure, new_figure

SIDE, LEGEND = 3.0, 0.4  # inches
BESIDE = 0.05  # of a side, around the outermost points
FINE = 240  # cells along a side, where regions are drawn
INK, PALE = "#222222", 0.22  # of lines and rings; opacity of a class's region


@dataclass(frozen=True, eq=False)
class Plane:
    """One panel.

    coordinates (n, 2), codes (n,): Of the points, and their classes, -1 without one; without coordinates an empty one.
    svm: With scikit-learn's `predict`, of two classes also `decision_function`.
    """

    title: str
    coordinates: F64 | None = None
    codes: I64 | None = None
    svm: Any = None


def planes_figure(planes: Sequence[Plane], names: Sequence[str], columns: int) -> Figure:
    """Panels, row by row: dots in their classes' colours, ringed where the machine has them wrong.

    Of two classes the machine's line is solid and its margins are dashed; of more, each has a pale region.

    names: Of the classes. One with signs that no font may have, or that are taken for a formula, is numbered instead.
    """
    lines = -(-len(planes) // columns)
    figure = new_figure(SIDE * columns, SIDE * lines + LEGEND)
    for at, plane in enumerate(planes):
        axes = figure.add_subplot(lines, columns, at + 1)
        axes.set_title(plane.title, fontsize=8)
        axes.set(xticks=[], yticks=[], aspect="equal")
        if plane.coordinates is not None and plane.codes is not None:
            _panel(axes, plane.coordinates, plane.codes, plane.svm, len(names))
    unlabeled = any(plane.codes is not None and (plane.codes < 0).any() for plane in planes)
    _legend(figure, [*map(_drawn, range(len(names)), names)], unlabeled=unlabeled)
    return figure


def _drawn(number: int, name: str) -> str:
    return name if name.isascii() and name.isprintable() and "$" not in name else f"class {number + 1}"


def _legend(figure: Figure, names: Sequence[str], *, unlabeled: bool) -> None:
    known = zip([_color(code) for code in range(len(names))], names, strict=True)
    axes = figure.axes[0]
    handles = [
        axes.scatter([], [], s=20, color=color, label=name)
        for color, name in [*known, *([(GRAY, "no label")] if unlabeled else [])]
    ]
    handles.append(axes.scatter([], [], s=32, facecolors="none", edgecolors=INK, label="wrong in training"))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(8, len(handles)), fontsize=8, frameon=False)


def _color(code: int) -> str:
    return CATEGORIES[code % len(CATEGORIES)]


def _panel(axes: Any, points: F64, codes: I64, svm: Any, n_classes: int) -> None:
    low, high = points.min(axis=0), points.max(axis=0)
    half = (0.5 + BESIDE) * (float((high - low).max()) or 1.0)
    across, up = (np.linspace(middle - half, middle + half, FINE) for middle in (low + high) / 2)
    axes.set(xlim=across[[0, -1]], ylim=up[[0, -1]])
    size = float(np.clip(3000 / len(points), 1.5, 14))
    order = np.random.default_rng(0).permutation(len(points))  # no class is drawn over the others
    colors = np.array([*map(_color, range(n_classes)), GRAY])[codes]
    axes.scatter(*points[order].T, s=size, c=colors[order], linewidths=0, zorder=2)
    if svm is None:
        return
    known = np.flatnonzero(codes >= 0)
    wrong = points[known[svm.predict(points[known]) != codes[known]]]
    axes.scatter(*wrong.T, s=2.5 * size + 6, facecolors="none", edgecolors=INK, linewidths=0.6, zorder=3)
    cells = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    if n_classes == 2:
        heights = svm.decision_function(cells).reshape(FINE, FINE)
        for level, style in ((-1.0, "dashed"), (0.0, "solid"), (1.0, "dashed")):
            if heights.min() < level < heights.max():
                axes.contour(across, up, heights, [level], colors=INK, linestyles=style, linewidths=0.9)
        return
    found = svm.predict(cells).reshape(FINE, FINE)
    for code in np.unique(found).tolist():
        axes.contourf(across, up, found == code, [0.5, 1.5], colors=[_color(code)], alpha=PALE, zorder=0)
