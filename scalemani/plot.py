"""Pictures of a fitted model on matplotlib's Axes, your own or new ones: the map, and what says how good it is.

Each function takes ``ax``, draws on it and nowhere else, and returns it. Without one a new figure is made, which is not
pyplot's: ``plot.embedding(model).figure.savefig("map.png")`` writes it, and ``.figure`` alone shows it in a notebook.
No state of matplotlib is set, and nothing is shown.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.model import Run, run_of
from scalemani.planning.scan import Scan
from scalemani.points.cells import inexact_labels, unmasked
from scalemani.points.labels import label_text
from scalemani.report import charts
from scalemani.report.comparison import chosen_axes, two_axes
from scalemani.report.drawing import GRAY, MOST_DOTS, Coloring, color_bar, coloring, legend, plain_axes
from scalemani.report.maps import MARK, figure_for, legend_of, map_panel
from scalemani.report.sections import Sample, measured
from scalemani.steps.records import MethodRecord

__all__ = ["embedding", "residual_variance", "scan", "shepard", "spectrum"]


def embedding(
    model: Any, color: Any = None, points: Any = None, components: Any = (0, 1), ax: Any = None, *, name: str = ""
) -> Any:
    """Draw the map: two axes against one another, or one.

    Up to 20,000 points are dots. More are counted in pixels: paler where there are fewer, in the mean of their numbers
    or the mixture of their categories' colours. One step is as long across as up. Axes of the picture are named from 1,
    as in the report.

    Parameters
    ----------
    model : fitted estimator, or path of a store
    color : array-like, shape (n_samples,), optional
        A number, text or category for each training row, such as a column of a data frame. Text, categories, booleans
        and up to twelve different whole numbers get a colour each and a legend; other numbers a scale with a colour
        bar. Rows without a value are grey. Values go by their order; a pandas Series with the labels of the fit's rows
        in another order is refused.
    points : array-like, shape (m, n_components), optional
        Coordinates of other points, as `transform` gives them: crosses on the map; more than 20,000 are counted too.
    components : (int, int) or int, default (0, 1)
        The axes to draw, counted from 0. One alone is drawn against the numbers of `color`, or as a histogram; it is
        what (0, 1) means for a map of one axis.
    ax : matplotlib.axes.Axes, optional
    name : str
        Of the colours, above the legend or beside the bar; that of a pandas Series unless given.

    Returns
    -------
    matplotlib.axes.Axes
        Training rows whose `embedding_` is NaN (of dropped components) are left out, as are `points` that are.

    Raises
    ------
    ScalemaniError
        Colours of another number or of other rows, axes that are not there, points of other numbers of axes.
    """
    run = run_of(model, "plot")
    whole = run.embedding()
    kept = np.flatnonzero(np.isfinite(whole).all(axis=1))
    shown = chosen_axes(components, whole.shape[1])
    colors = None if color is None else _colors(color, run, name).of(kept)
    new = None if points is None else _placed(points, whole.shape[1])
    axes = figure_for(whole[kept][:, list(shown)]).add_subplot() if ax is None else plain_axes(ax)
    map_panel(axes, whole[kept], shown, colors, marks=new)
    crosses = [(MARK, f"other points ({len(new):,})")] if new is not None else []
    counted = crosses if new is not None and len(new) > MOST_DOTS else []
    if colors is not None and colors.codes is not None:
        legend(axes, [*legend_of(colors), *counted], colors.name, [] if counted else crosses)
    elif colors is not None and len(shown) > 1:
        color_bar(axes.figure, axes, colors, colors.name)
        missing = int(colors.missing.sum())
        gray = [(GRAY, f"no value ({missing:,})")] if missing else []
        legend(axes, [*gray, *counted], "", [] if counted else crosses, above=True)
    elif colors is not None and colors.name:
        axes.set_ylabel(colors.name, parse_math=False)
    elif len(shown) > 1:
        legend(axes, counted, "", [] if counted else crosses, above=True)
    return axes


def _colors(values: Any, run: Run, name: str) -> Coloring:
    """A value for each training row as colours."""
    n = len(run.vertex)
    if isinstance(values, str):
        raise ScalemaniError(f"color={values!r} is text: give a value for each row, such as frame[{values!r}]")
    named = name or str(getattr(values, "name", None) or "")
    try:
        found = np.asarray(unmasked(np.asanyarray(values), "color"))
    except ValueError as error:  # NumPy's, of lists of several lengths
        raise ScalemaniError("color has lists in it: give a number, text or category for each row") from error
    if found.shape != (n,):
        raise ScalemaniError(f"color has the shape {found.shape} and the fit {n:,} rows; give a value for each")
    index = [] if run.ids is None or not hasattr(values, "iloc") else list(map(label_text, values.index))
    if index and index != run.ids and set(index) & set(run.ids or ()):
        raise ScalemaniError(
            "color has the index of other rows, or of these in another order, than the fit: give "
            "color.reindex(X.index) by the X of the fit, or color.to_numpy() if its values are in the order of the fit"
        )
    labels = str(getattr(values, "dtype", "")) == "category" or (
        found.dtype.kind in "iu" and inexact_labels(found.tolist())
    )
    if found.dtype.kind in "biuf" and not labels:
        return coloring(named, found)
    texts = ["" if one is None or str(one) in ("nan", "<NA>", "NaT") else str(one) for one in found.tolist()]
    if {type(one) for one, text in zip(found.tolist(), texts, strict=True) if text} == {bool}:
        texts = [text and ("yes" if one else "no") for one, text in zip(found.tolist(), texts, strict=True)]
    elif found.dtype.kind == "O" and not labels:  # may be numbers, some missing
        with contextlib.suppress(TypeError, ValueError):
            numbers = [float(one) if text else np.nan for one, text in zip(found.tolist(), texts, strict=True)]
            return coloring(named, np.array(numbers))
    return coloring(named, texts)


def _placed(points: Any, p: int) -> F64 | None:
    """Coordinates of other points that have them."""
    try:
        found = np.asarray(points, np.float64)
    except (TypeError, ValueError) as error:
        raise ScalemaniError(f"points are no numbers: coordinates (m, {p}) are needed, as transform gives") from error
    if found.ndim != 2 or found.shape[1] != p:
        raise ScalemaniError(
            f"points have the shape {found.shape}: coordinates (m, {p}) are needed, as transform gives"
        )
    found = found[np.isfinite(found).all(axis=1)]
    return found if len(found) else None


def spectrum(model: Any, ax: Any = None) -> Any:
    """Draw the eigenvalues of the axes, with and without a constant, and those behind the last axis.

    Raises ScalemaniError: The method has none (raw stress).
    """
    run = run_of(model, "plot")
    s = run.spectrum
    if "eigenvalues" not in s:
        raise ScalemaniError(f"{_method(run)} has no eigenvalues: draw its residual_variance")
    values = s["eigenvalues"]
    behind = s.get("next_eigenvalue"), s.get("most_negative_eigenvalue")
    return charts.eigenvalue_chart(values, s.get("eigenvalues_unshifted", values), s.get("shift", 0.0), *behind, ax=ax)


def residual_variance(model: Any, ax: Any = None, *, rows: int | None = None, random_state: int = 0) -> Any:
    """Draw the residual variance 1 - r² with the first 1, 2, ... axes: where it stops falling, further axes add little.

    rows: Points that are sampled, whose geodesic distances are found again; as for the report unless given.
    Raises ScalemaniError: The method keeps no distances, or they are gone.
    """
    _, _, quality = _sampled(model, rows, random_state)
    return charts.residual_chart(list(quality["residual_variance"]), ax)


def shepard(model: Any, ax: Any = None, *, rows: int | None = None, random_state: int = 0) -> Any:
    """Draw distances on the map against geodesic distances, of sampled points with others (Shepard's diagram).

    rows, random_state: As for :func:`residual_variance`, whose errors it has.
    """
    run, sample, _ = _sampled(model, rows, random_state)
    names = "geodesic distance", "distance in the embedding"
    added = run.method.words.compared(run.spectrum).added
    return charts.pairs_chart(*sample.among_fewer().pairs(), *names, added, ax)


def _sampled(model: Any, rows: int | None, seed: int) -> tuple[Run, Sample, Any]:
    """Sampled points' distances, and the quality of the map by them."""
    run = run_of(model, "plot")
    said = run.method.words.compared(run.spectrum)
    if not said.distances:
        raise ScalemaniError(f"{_method(run)} keeps neighbours and no distances: isomap and stress are drawn so")
    _, sample, quality = measured(run, rows, seed)
    if sample is None or quality is None:
        raise ScalemaniError(said.missing if len(run.vertex) > 2 else "too few points to compare distances")
    return run, sample, quality


def _method(run: Run) -> str:
    return run.store.needed(MethodRecord).name


def scan(found: Scan, ax: Sequence[Any] | None = None) -> Any:
    """Draw a scan over numbers of neighbours: residual variance on one of two Axes, negative mass on the other.

    found: What :func:`scalemani.scan` gives.
    -> The two Axes, as an array.
    """
    if not isinstance(found, Scan):
        raise ScalemaniError(f"a scan is drawn, as scalemani.scan gives it, not what is a {type(found).__name__}")
    panels = two_axes(ax)
    charts.scan_panels(found, *panels)
    return panels
