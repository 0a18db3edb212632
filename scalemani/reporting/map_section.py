"""The map on the page: takes coordinates and colourings, gives a section for each with its legend in words."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.reporting.colouring import Colouring
from scalemani.reporting.drawing import MOST_DOTS, category_colours, png
from scalemani.reporting.maps import embedding_map
from scalemani.reporting.page import Picture, Section
from scalemani.reporting.words import count, number

__all__ = ["map_sections"]

MOST_MARKS = 2000
_COUNTED = (
    "These are paler where there are fewer; where several points share one, it shows the mean of their numbers or the "
    "mixture of their colours."
)


def map_sections(
    coordinates: NDArray[np.float64],
    n_dropped: int,
    colourings: Sequence[Colouring],
    landmarks: NDArray[np.int64] | None = None,
) -> Iterator[Section]:
    """A section for each colouring, or one without colours.

    `coordinates` are finite, `n_dropped` rows have none; `landmarks` are rows of them, and get a cross if they are few.
    """
    words, marks, end = [], None, ""
    if landmarks is not None and len(landmarks) <= MOST_MARKS:
        marks = coordinates[landmarks]
        what = "Strokes at the foot" if coordinates.shape[1] == 1 else "Crosses"
        end = f" {what} are the {len(landmarks):,} landmarks."
    if n_dropped:
        words.append(f"{count(n_dropped, 'row')} without coordinates {'is' if n_dropped == 1 else 'are'} left out.")
    many = len(coordinates) > MOST_DOTS
    if not colourings:
        caption = f"{_all(len(coordinates))} Darker where there are more. " if many and coordinates.shape[1] > 1 else ""
        yield Section("The map", words, pictures=[_picture(coordinates, None, caption, marks, end)])
    for i, colours in enumerate(colourings):
        caption = f"Coloured by {colours.name}. {_remarks(colours, coordinates.shape[1])}"
        caption += f"{_all(len(coordinates))} {_COUNTED} " if many and coordinates.shape[1] > 1 else ""
        heading = "The map" if len(colourings) == 1 else f"The map: {colours.name}"
        yield Section(heading, words if i == 0 else [], pictures=[_picture(coordinates, colours, caption, marks, end)])


def _all(n: int) -> str:
    return f"All {n:,} points are counted in the picture's pixels."


def _picture(
    coordinates: NDArray[np.float64], colours: Colouring | None, caption: str, marks: Any, end: str
) -> Picture:
    alt = "The embedding's first axes" + (f", coloured by {colours.name}." if colours else ".")
    legend = _legend(colours) if colours is not None and colours.codes is not None else []
    said = caption + _axes(coordinates.shape[1]) + end
    return Picture(png(embedding_map(coordinates, colours, marks=marks)), said, alt, legend)


def _axes(p: int) -> str:
    if p == 1:
        return "There is one axis."
    which = "" if p == 2 else "Axes 1, 2 and 3, two at a time. "
    return which + "One step is as long across as up."


def _remarks(colours: Colouring, p: int) -> str:
    """What a reader of the colours would get wrong without."""
    text = ""
    if colours.numbers is not None:
        known = colours.numbers[~colours.missing]
        beyond = int(((known < colours.limits[0]) | (known > colours.limits[1])).sum())
        if beyond:
            ends = f"the column goes from {number(known.min())} to {number(known.max())}"
            text += f"{count(beyond, 'value')} beyond the scale's ends {_have(beyond)} the end's colour ({ends}). "
    elif colours.n_categories > len(colours.categories):
        few = (
            f"the {len(colours.categories)} commonest have a colour each" if colours.categories else "none has a colour"
        )
        text += f"The column has {colours.n_categories:,} different values, too many to tell apart: {few}. "
    missing = int(colours.missing.sum())
    if missing:
        # Beside one axis, what has no number has no place.
        place = "left out" if p == 1 and colours.numbers is not None else "grey"
        text += f"{count(missing, 'row')} without a value {'is' if missing == 1 else 'are'} {place}. "
    return text


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


def _legend(colours: Colouring) -> list[tuple[str, str]]:
    *shown, others, missing = colours.counts()
    others_are = f"{colours.n_categories - len(colours.categories):,} others"
    further = others_are if colours.categories else "all values"
    entries = [*zip(colours.categories, shown, strict=True), (further, others), ("no value", missing)]
    return [
        (colour, f"{name} ({n:,})")
        for colour, (name, n) in zip(category_colours(colours), entries, strict=True)
        if n or name in colours.categories
    ]
