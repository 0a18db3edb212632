"""Charts: takes what a run counted and a sample's distances, gives figures."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.reporting.drawing import (
    GREY,
    NEGATIVE,
    POSITIVE,
    Figure,
    count_bar,
    new_figure,
    paint_counts,
    powers_of_ten,
    whole_ticks,
)

__all__ = ["distance_panels", "eigenvalue_chart", "residual_chart"]

Array = NDArray[np.float64]
Pairs = tuple[Array, Array]

LIGHT = "#92c5de"
ACCENT = "#e08214"
MOST_DOTTED_PAIRS = 4000
CELLS = (230, 170)
MOST_LABELS = 12


def eigenvalue_chart(
    eigenvalues: Sequence[float],
    unshifted: Sequence[float],
    shift: float,
    next_value: float | None = None,
    most_negative: float | None = None,
) -> Figure:
    """The axes' eigenvalues with and without the shift, what stands behind the last axis, and the lowest.

    Parameters
    ----------
    eigenvalues, unshifted : sequence of float, length p
    shift : float
        What the correction adds to every eigenvalue; 0 for none.
    next_value, most_negative : float, optional
        The first eigenvalue that has no axis; the lowest of the kernel without a correction.
    """
    p = len(eigenvalues)
    figure = new_figure(min(11, 5.5 + 0.5 * p), 3.8)
    axes: Any = figure.add_subplot()
    place = np.arange(1, p + 1)
    width = 0.4 if shift else 0.6
    axes.bar(place - (width / 2 if shift else 0), eigenvalues, width, color=POSITIVE, label="eigenvalue of the axis")
    if shift:
        axes.bar(place + width / 2, unshifted, width, color=LIGHT, label="without the shift")
        axes.axhline(shift, color=NEGATIVE, linewidth=1.2, linestyle="--", label="the shift alone")
    names, last = [f"{a}" for a in place], p
    if next_value is not None:
        last += 1
        axes.bar(last, next_value, 0.6, color=GREY, label="next, has no axis")
        names.append("next")
    if most_negative is not None:
        last += 1
        axes.bar(last, most_negative, 0.6, color=NEGATIVE, label="lowest, no correction")
        names.append("lowest")
    step = max(1, round(p / 24))
    shown = [*range(0, p, step), *range(p, last)]
    axes.set_xticks([i + 1 for i in shown], [names[i] for i in shown])
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlim(0.4, max(last, 4) + 0.6)
    axes.set_xlabel("axis")
    axes.set_ylabel("eigenvalue")
    powers_of_ten(axes.yaxis)
    axes.legend(fontsize=9)
    return figure


def residual_chart(residual_variances: Sequence[float]) -> Figure:
    """Residual variance with the first 1, 2, ... axes (Tenenbaum, de Silva and Langford 2000, figure 2)."""
    p = len(residual_variances)
    figure = new_figure(7.4, 3.8)
    axes: Any = figure.add_subplot()
    place = np.arange(1, p + 1)
    axes.plot(place, residual_variances, "o-", color=POSITIVE, markersize=5)
    if p <= MOST_LABELS:
        for a, value in zip(place, residual_variances, strict=True):
            axes.annotate(f"{value:.3g}", (a, value), (0, 7), textcoords="offset points", ha="center", fontsize=8)
    axes.set_ylim(0, max(1.15 * float(np.max(residual_variances)), 1e-3))
    axes.set_xlim(0.5, max(p, 3) + 0.5)
    whole_ticks(axes.xaxis)
    axes.set_xlabel("axes used")
    axes.set_ylabel("residual variance, 1 − r²")
    return figure


def distance_panels(all_pairs: Pairs, near_pairs: Pairs, constant: float = 0.0) -> Figure:
    """Distances in the embedding against geodesic ones: of all sampled pairs, and of nearest neighbours alone.

    Parameters
    ----------
    all_pairs, near_pairs : tuples of (geodesic, embedded), ndarrays of one shape
    constant : float
        Added to geodesic distances by the fit.
    """
    figure = new_figure(11, 4.9)
    for place, (name, (geodesic, embedded)) in enumerate(
        [("all distances", all_pairs), ("nearest neighbours only", near_pairs)], start=1
    ):
        axes: Any = figure.add_subplot(1, 2, place)
        _compare(figure, axes, geodesic, embedded, constant)
        axes.set_title(f"{name}: {geodesic.size:,} pairs", fontsize=11)
        axes.set_xlabel("geodesic distance")
        axes.set_ylabel("distance in the embedding")
    return figure


def _compare(figure: Figure, axes: Any, geodesic: Array, embedded: Array, constant: float) -> None:
    right, top = (1.03 * max(float(values.max(initial=0.0)), 1e-300) for values in (geodesic, embedded))
    if geodesic.size <= MOST_DOTTED_PAIRS:
        axes.plot(geodesic, embedded, ".", ms=3, color=POSITIVE, alpha=0.5, markeredgewidth=0)
    else:
        counts, _, _ = np.histogram2d(geodesic, embedded, bins=CELLS, range=((0, right), (0, top)))
        count_bar(figure, axes, paint_counts(axes, counts.T, (0, right, 0, top)), "pairs")
    line = np.array([0.0, right])
    axes.plot(line, line, color="black", linewidth=1, label="equal")
    if 0 < constant < top:
        axes.plot(line, line + constant, color=NEGATIVE, linewidth=1, linestyle="--", label="equal, with the constant")
    axes.plot(*_medians(geodesic, embedded), color=ACCENT, linewidth=1.8, label="median")
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    # Where the pairs are not.
    axes.legend(
        fontsize=8, loc="lower right" if np.median(embedded) / top > np.median(geodesic) / right else "upper left"
    )


def _medians(x: Array, y: Array, parts: int = 30, least: int = 10) -> tuple[Array, Array]:
    """Medians of y in parts of equal width along x; parts with few pairs have none."""
    part = np.minimum((parts * x / max(float(x.max(initial=0.0)), 1e-300)).astype(np.int64), parts - 1)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    found = [
        (float(np.median(x[inside])), float(np.median(y[inside])))
        for inside in (order[a:b] for a, b in pairwise(ends))
        if inside.size >= least
    ]
    across, up = np.array(found).reshape(-1, 2).T
    return across, up
