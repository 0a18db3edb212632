"""How pictures look: colours and scales, and what colours a point, as matplotlib's figures and PNG bytes.

The only file that knows matplotlib. Figures are made without pyplot: a caller's plotting state stays as it is, and no
display is needed. In the pictures of a page no text of the user's is drawn: a label from a file may hold signs that no
font here has; it stands beside the picture. Elsewhere it is drawn letter by letter, and no formula is made of it. Text
colours by category, numbers by a scale, but for a few different whole numbers: these are labels of classes, whose
mixtures mean nothing.
"""

import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, Normalize, to_hex
from matplotlib.colors import to_rgb as to_rgb
from matplotlib.figure import Figure as Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.words import printable, short

MOST_CATEGORIES = 12  # so many colours can still be told apart
LEAST_COVERED = 0.25  # of the rows by the commonest values; else they are names, and no colour says anything
TAIL = 0.01  # of the values at either end that may be far out without flattening the scale
EXACT = 2.0**53  # whole numbers up to this are exact in float64
WIDEST = 1e300  # the length of a scale is a float64
FAR = 4.0  # the whole range is this many times what lies between the tails: then those set the scale


@dataclass(frozen=True)
class Coloring:
    """A colour for each row.

    numbers (n,): NaN where a row has none.
    limits: Ends of the scale of `numbers`; values beyond have the colour of the end.
    codes (n,): Number of the row's category in `categories`; ``len(categories)`` for the others, -1 without a value.
    categories: The commonest first; at most twelve.
    n_categories: Different ones in the column.
    """

    name: str
    numbers: F64 | None = None
    limits: tuple[float, float] = (0.0, 1.0)
    codes: I64 | None = None
    categories: tuple[str, ...] = ()
    n_categories: int = 0

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Rows without a value."""
        if self.codes is not None:
            return np.asarray(self.codes < 0)
        assert self.numbers is not None
        return np.isnan(self.numbers)

    def counts(self) -> list[int]:
        """Rows in each category that has a colour of its own, then in the others, then without a value."""
        assert self.codes is not None
        kinds = len(self.categories)
        found = np.bincount(np.where(self.codes < 0, kinds + 1, self.codes), minlength=kinds + 2)
        return [int(n) for n in found]

    def of(self, rows: NDArray[Any]) -> "Coloring":
        """The same of some rows; scale and categories stay."""
        numbers = None if self.numbers is None else self.numbers[rows]
        codes = None if self.codes is None else self.codes[rows]
        return Coloring(self.name, numbers, self.limits, codes, self.categories, self.n_categories)


def coloring(name: str, values: NDArray[Any] | Sequence[str]) -> Coloring:
    """A colour for each value.

    values: NaN, infinite and empty values are none.

    >>> coloring("kind", ["b", "a", "b", ""]).categories
    ('b', 'a')
    >>> coloring("length", np.array([0.5, 2.0, np.nan])).limits
    (0.5, 2.0)
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        numbers = np.asarray(values, dtype=np.float64)
        if values.dtype.kind == "b":
            return _categories(name, ["yes" if value else "no" for value in values])
        finite = np.isfinite(numbers)
        numbers = np.where(finite, numbers, np.nan)
        different = np.unique(numbers[finite])
        whole = (different == np.rint(different)) & (np.abs(different) <= EXACT)
        if 0 < different.size <= MOST_CATEGORIES and whole.all():
            texts = ["" if np.isnan(value) else f"{value:.0f}" for value in numbers]
            return _categories(name, texts, order=[f"{value:.0f}" for value in different])
        return Coloring(name, numbers, _limits(numbers[finite]))
    return _categories(name, [str(value).strip() for value in values])


def _limits(finite: F64) -> tuple[float, float]:
    """The range, or what lies between its tails where a few values are far out."""
    if not finite.size:
        return 0.0, 1.0
    low, high = (float(np.clip(end, -WIDEST, WIDEST)) for end in (finite.min(), finite.max()))
    inner = [float(value) for value in np.quantile(finite, [TAIL, 1 - TAIL])]
    if high - low > FAR * (inner[1] - inner[0]) > 0:
        return inner[0], inner[1]
    margin = max(0.5, 1e-3 * abs(low))  # of a scale with one value
    return (low, high) if high > low else (low - margin, high + margin)


def _categories(name: str, texts: Sequence[str], order: Sequence[str] | None = None) -> Coloring:
    """Categories by how common they are, equal ones by their names, or in a given order."""
    found = Counter(text for text in texts if text)
    ranked = list(order) if order is not None else sorted(found, key=lambda text: (-found[text], text))
    shown = ranked[:MOST_CATEGORIES]
    if sum(found[text] for text in shown) < LEAST_COVERED * found.total():
        shown = []
    number = {text: i for i, text in enumerate(ranked)}
    codes = np.array([min(number[text], len(shown)) if text else -1 for text in texts], dtype=np.int64)
    return Coloring(name, codes=codes, categories=tuple(shown), n_categories=len(ranked))


COLORS = "viridis"  # even in lightness, so that it survives grey print and colour-blind eyes
GRAY = "#b8b8b8"
NEGATIVE = "#b2182b"
POSITIVE = "#2166ac"
# Okabe and Ito's, the yellow darker for white paper, then some of Tol's.
CATEGORIES = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9",
    "#332288", "#999933", "#882255", "#d8c42c", "#8c564b", "#1fbfb8",
)  # fmt: skip
DPI = 110
PRINTED = 300  # dots an inch of a picture that is a file of its own, as journals ask for
MOST_DOTS = 20_000  # above it points are counted in pixels: the page stays small, and no dot hides others
LIGHTEST = 0.92  # of the scale of colours, where it is light on white paper
FAINTEST = 0.45  # opacity of a pixel with one point beside those with many


def scale_colors(n: int) -> list[str]:
    """The scale of numbers as n colours, "#rrggbb", from its low end."""
    return [to_hex(color) for color in colormaps[COLORS](np.linspace(0, 1, n))]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure whose parts keep clear of each other; sizes in inches."""
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def plain_axes(given: Any) -> Any:
    """Axes of matplotlib's that a picture can be drawn on.

    Raises ScalemaniError: Anything else, as the array of plt.subplots(2, 2), a Figure, or Axes in polar coordinates.
    """
    if not isinstance(given, Axes) or given.name != "rectilinear":
        what = type(given).__name__
        raise ScalemaniError(f"ax is of type {what}: give one plain Axes of matplotlib, such as plt.subplots()[1]")
    return given


# Kinds of files, with what is left out of them: version and date, so that the same figure gives the same bytes.
PICTURES: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Creator": None, "Date": None},
    ".pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}


def kind_of_picture(path: Any) -> str:
    """The end of a picture's name, which says its kind.

    Raises ScalemaniError: A name with another end.
    """
    kind = Path(path).suffix.lower()
    if kind not in PICTURES:
        raise ScalemaniError(f"{path}: a picture is a .png, .svg or .pdf; end the name so")
    return kind


def png(drawn: Any) -> bytes:
    """A figure, or that of Axes, as a PNG file, for a page."""
    return picture(drawn.figure, ".png", DPI)


def picture(figure: Figure, kind: str, dpi: int = PRINTED) -> bytes:
    """The figure as a file of one of the kinds of :data:`PICTURES`, for print."""
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "scalemani"}):
        figure.savefig(buffer, format=kind[1:], metadata=PICTURES[kind], dpi=dpi)
    return buffer.getvalue()


def whole_ticks(axis: Any) -> None:
    """Ticks at whole numbers only."""
    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def powers_of_ten(*axes: Any) -> None:
    """One power of ten for a whole axis, written as such."""
    for axis in axes:
        form = ScalarFormatter(useMathText=True)
        form.set_powerlimits((-3, 5))
        axis.set_major_formatter(form)


def plain_numbers(axis: Any) -> None:
    """Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten, written out."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float, position: int | None = None) -> str:
    if 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    digit, power = f"{value:.0e}".split("e")
    return rf"${digit} \times 10^{{{int(power)}}}$"


def signed_powers(axes: Any, least: int, low: float, high: float) -> None:
    """Upwards by powers of ten of either sign, linear between those of 10^least; ticks at 0 and at powers.

    Matplotlib's own ticks of such a scale may write one power more on either side of 0, one upon the other.
    """
    axes.set_yscale("symlog", linthresh=10.0**least)
    most = int(np.ceil(np.log10(max(abs(low), abs(high), 10.0**least))))
    powers = range(least, most + 1, 1 + (most - least) // 8)
    ticks = {0.0: "0"}
    for power in powers:
        if 10.0**power <= high:
            ticks[10.0**power] = f"$10^{{{power}}}$"
        if -(10.0**power) >= low:
            ticks[-(10.0**power)] = f"$-10^{{{power}}}$"
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.yaxis.set_minor_locator(NullLocator())


def category_colors(coloring: Coloring) -> list[str]:
    """A colour for each category of the legend, then those of the others and of rows without a value."""
    return [*CATEGORIES[: len(coloring.categories)], GRAY, GRAY]


def dot_colors(coloring: Coloring) -> F64:
    """RGBA (n, 4) of dots; rows without a value are grey."""
    if coloring.codes is not None:
        table = np.array([to_rgb(color) for color in category_colors(coloring)])
        kinds = len(coloring.categories)
        rgb = table[np.where(coloring.codes < 0, kinds, coloring.codes)]
    else:
        assert coloring.numbers is not None
        rgb = np.asarray(colormaps[COLORS](Normalize(*coloring.limits)(coloring.numbers)))[:, :3]
        rgb[coloring.missing] = to_rgb(GRAY)
    return np.column_stack([rgb, np.ones(len(rgb))])


def pixels(index: I64, size: int, coloring: Coloring | None) -> F64:
    """RGBA (size, 4) of pixels with many points: the mean of numbers, the mixture of categories, paler where few are.

    `index` (n,) is the pixel of each point. Without a colouring the colours show how many points there are.
    """
    counts = np.bincount(index, minlength=size).astype(np.float64)
    filled = counts > 0
    rgba = np.zeros((size, 4))
    if not filled.any():
        return rgba
    # A pixel in a hundred may be fuller than the fullest colour: one heap of equal points leaves the rest visible.
    fullest = max(2.0, float(np.quantile(counts[filled], 0.99)))
    depth = np.clip(np.log1p(counts) / np.log1p(fullest), 0, 1)
    if coloring is None:
        rgba[filled] = colormaps[COLORS](LIGHTEST * (1 - depth[filled]))
        return rgba
    rgba[:, :3] = to_rgb(GRAY)
    rgba[filled, 3] = FAINTEST + (1 - FAINTEST) * depth[filled]
    known = ~coloring.missing
    share = np.bincount(index[known], minlength=size).astype(np.float64)
    some = share > 0
    if coloring.codes is not None:
        table = np.array([to_rgb(color) for color in category_colors(coloring)[:-1]])
        for channel in range(3):
            weights = table[coloring.codes[known], channel]
            mixed = np.bincount(index[known], weights=weights, minlength=size)
            rgba[some, channel] = mixed[some] / share[some]
    else:
        assert coloring.numbers is not None
        sums = np.bincount(index[known], weights=coloring.numbers[known], minlength=size)
        rgba[some, :3] = colormaps[COLORS](Normalize(*coloring.limits)(sums[some] / share[some]))[:, :3]
    return rgba


def own_words(text: Any, said: str) -> None:
    """Give a text of matplotlib's words of the user's: no formula is made of them, and no sign moves the line."""
    text.set_text(printable(short(said)))
    text.set_parse_math(False)


def legend(
    axes: Any,
    entries: Sequence[tuple[str, str]],
    title: str = "",
    crosses: Sequence[tuple[str, str]] = (),
    *,
    above: bool = False,
) -> None:
    """Colours of dots and of crosses, and what they stand for, to the right of a picture, or above it."""
    signs = ["o"] * len(entries) + ["x"] * len(crosses)
    entries = [*entries, *crosses]
    if not entries:
        return
    dots = [
        Line2D([], [], marker=sign, linestyle="", color=color, markersize=5)
        for sign, (color, _) in zip(signs, entries, strict=True)
    ]
    where = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.01), "ncols": 2} if above else {}
    where = where or {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)}
    look = {"fontsize": 8, "title_fontsize": 8, "borderaxespad": 0.0, "frameon": False}
    made = axes.legend(dots, ["-"] * len(dots), title=title and "-", **where, **look)
    for text, (_, said) in zip(made.get_texts(), entries, strict=True):
        own_words(text, said)
    if title:
        own_words(made.get_title(), title)


def color_bar(figure: Any, axes: Any, coloring: Coloring, label: str = "") -> None:
    """The scale of a colouring by numbers; arrows where values lie beyond its ends."""
    assert coloring.numbers is not None
    low, high = coloring.limits
    known = coloring.numbers[~coloring.missing]
    below, above = bool((known < low).any()), bool((known > high).any())
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}
    scale = ScalarMappable(Normalize(low, high), COLORS)
    bar = figure.colorbar(scale, ax=axes, shrink=0.85, pad=0.02, aspect=28, extend=extend[below, above])
    own_words(bar.ax.yaxis.label, label)
    powers_of_ten(bar.ax.yaxis)


def paint_counts(axes: Any, counts: F64, extent: tuple[float, float, float, float]) -> Any:
    """A table of counts (rows upwards) as an image; empty cells stay white."""
    shown = np.ma.masked_equal(counts, 0)
    norm = LogNorm(1, max(2.0, float(counts.max())))
    return axes.imshow(
        shown, origin="lower", extent=extent, aspect="auto", cmap=_on_paper(), norm=norm, interpolation="nearest"
    )


def _on_paper() -> ListedColormap:
    """Darker for more, and not so light at the other end that it is lost on white."""
    return ListedColormap(colormaps[COLORS](np.linspace(LIGHTEST, 0, 256)))


def count_bar(figure: Figure, axes: Any, image: Any, what: str) -> None:
    """The scale of an image of counts."""
    bar = figure.colorbar(image, ax=axes, shrink=0.85, pad=0.02, aspect=28, label=what)
    plain_numbers(bar.ax.yaxis)
    bar.ax.minorticks_off()
