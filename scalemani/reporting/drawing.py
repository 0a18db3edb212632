"""Manners of the pictures: takes sizes, points and counts, gives matplotlib figures, pixels and PNG bytes.

The only file that knows matplotlib. Figures are made without pyplot, so that nothing of a caller's plotting
state is touched and no display is needed. No text of the user's is drawn: a label from a file may hold signs
that no font here has, or that are taken for formulas; it stands beside the picture, on the page.
"""

import io

from matplotlib.figure import Figure

__all__ = ["COLOURS", "GREY", "NEGATIVE", "POSITIVE", "Figure", "new_figure", "png"]

COLOURS = "viridis"  # even in lightness, so that it survives grey print and colour-blind eyes
GREY = "#b8b8b8"
NEGATIVE = "#b2182b"
POSITIVE = "#2166ac"
DPI = 110


def new_figure(width: float, height: float) -> Figure:
    """An empty figure whose parts keep clear of each other; sizes in inches."""
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    buffer = io.BytesIO()
    # Without the version of matplotlib in it, the same figure gives the same bytes.
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
