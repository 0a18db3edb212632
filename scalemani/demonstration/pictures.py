"""Pictures of the experiment: takes points, coordinates and eigenvalues, gives matplotlib figures."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.reporting.drawing import COLOURS, GREY, NEGATIVE, POSITIVE, Figure, new_figure

__all__ = ["four_panels", "spectra", "unrolling"]

Array = NDArray[np.floating[Any]]


def four_panels(
    train: Array,
    test: Array,
    train_colour: Array,
    test_colour: Array,
    embeddings: Mapping[str, tuple[Array, Array]],
    *,
    colour_name: str = "",
) -> Figure:
    """Training points, test points, and two embeddings with the test points in them.

    Points are (n, 3) and (l, 3), a colour a row; `embeddings` has coordinates (n, p) and (l, p) by title, of which the
    first two axes are drawn.
    """
    figure = new_figure(11, 8.2)
    low, high = float(train_colour.min()), float(train_colour.max())
    dots: dict[str, Any] = {"cmap": COLOURS, "vmin": low, "vmax": high, "linewidths": 0}
    for place, (points, colour, name) in enumerate(
        [(train, train_colour, "training"), (test, test_colour, "test")], start=1
    ):
        axes: Any = figure.add_subplot(2, 2, place, projection="3d")
        axes.scatter(points[:, 0], points[:, 1], points[:, 2], c=colour, s=6, **dots)
        axes.set_title(f"({'ab'[place - 1]}) {len(points):,} {name} points")
        axes.view_init(elev=12, azim=-72)
        axes.set_box_aspect(np.ptp(points, axis=0))
        axes.tick_params(labelsize=7)
    for place, (title, (fitted, projected)) in enumerate(embeddings.items(), start=3):
        flat: Any = figure.add_subplot(2, 2, place)
        flat.scatter(fitted[:, 0], fitted[:, 1], color=GREY, s=26, linewidths=0, label="training")
        drawn = flat.scatter(projected[:, 0], projected[:, 1], c=test_colour, s=3, label="test", **dots)
        flat.set_title(f"({'abcd'[place - 1]}) {title}: test points projected")
        flat.set_xlabel("axis 1")
        flat.set_ylabel("axis 2")
        flat.set_aspect("equal", adjustable="datalim")
        flat.legend(loc="upper right", fontsize=8, markerscale=1.5)
        if place == 4:
            figure.colorbar(drawn, ax=figure.axes, shrink=0.6, label=colour_name)
    return figure


def spectra(eigenvalues: Mapping[str, Array]) -> Figure:
    """Whole spectra side by side by title, falling, negative eigenvalues in red."""
    figure = new_figure(11, 3.8)
    for place, (title, values) in enumerate(eigenvalues.items(), start=1):
        falling = np.sort(np.asarray(values, dtype=np.float64))[::-1]
        # Eigenvalues within rounding of 0 belong to neither sign.
        zero = 1e-6 * float(np.abs(falling).max())
        negative = falling < -zero
        order = np.arange(1, falling.size + 1)
        axes: Any = figure.add_subplot(1, len(eigenvalues), place)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.plot(order[~negative], falling[~negative], ".", ms=3, color=POSITIVE, label="positive or 0")
        if negative.any():
            label = f"negative: {int(negative.sum())} of {falling.size}, least {falling[-1]:.3g}"
            axes.plot(order[negative], falling[negative], ".", ms=3, color=NEGATIVE, label=label)
        axes.set_yscale("symlog", linthresh=1e-3 * float(np.abs(falling).max()))
        axes.set_title(title)
        axes.set_xlabel("number")
        axes.set_ylabel("eigenvalue")
        axes.legend(fontsize=8)
    return figure


def unrolling(parameters: Array, coordinates: Mapping[str, Array], name: str) -> Figure:
    """A known parameter of the test points against their first coordinate: a line is a perfect unrolling."""
    figure = new_figure(11, 3.8)
    for place, (title, projected) in enumerate(coordinates.items(), start=1):
        axes: Any = figure.add_subplot(1, len(coordinates), place)
        axes.plot(parameters, projected[:, 0], ".", ms=2, color=POSITIVE)
        axes.set_title(title)
        axes.set_xlabel(name)
        axes.set_ylabel("axis 1 of the test points")
    return figure
