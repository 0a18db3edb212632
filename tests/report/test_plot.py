"""Pictures are drawn on the Axes that are given and nowhere else, with what the model has, and maps are compared."""

import io
import sys

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from data import roll
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy.spatial import procrustes
from scipy.spatial.distance import pdist

import scalemani
from scalemani import LLE, Isomap, KernelIsomap, StressIsomap, compare, kernel_view, plot, scan
from scalemani.errors import MapsDifferWarning, ScalemaniError
from scalemani.report import maps
from scalemani.report.drawing import CATEGORIES, GRAY, picture, to_rgb

X = roll(120)
KINDS = pd.Series(np.where(X[:, 1] > 10, "_up $x$", "down"), name="kind $\x1b$").astype("category")
IDS = [f"r{i}" for i in range(120)]


@pytest.fixture(scope="module")
def model():
    return Isomap(n_neighbors=8, n_components=3).fit(X)


@pytest.fixture
def ax():
    return Figure().subplots(1, 2)[0]


def dots(axes):
    """Where dots are, and their colours, in the order of their places."""
    (found,) = [part for part in axes.collections if len(part.get_offsets()) > 0 and part.get_gid() is None][:1]
    order = np.lexsort(found.get_offsets().T)
    colors = found.get_facecolors()
    return np.asarray(found.get_offsets())[order], colors[order] if len(colors) > 1 else colors


def in_order(points):
    return points[np.lexsort(points.T)]


def colour_of(axes, point):
    places, colors = dots(axes)
    return colors[np.linalg.norm(places - point, axis=1).argmin()][:3]


# ---- the map -------------------------------------------------------------------------------------


def test_the_map_is_drawn_on_the_given_axes_alone(model, ax):
    before, loaded = len(ax.figure.axes), "matplotlib.pyplot" in sys.modules
    assert model.plot(ax=ax) is ax
    np.testing.assert_array_equal(dots(ax)[0], in_order(model.embedding_[:, :2]))
    assert len(ax.figure.axes) == before and len(ax.collections) == 1 and ax.get_legend() is None
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("axis 1", "axis 2") and ax.get_aspect() == 1
    other = ax.figure.axes[1]
    assert not other.collections and not other.lines
    assert ("matplotlib.pyplot" in sys.modules) == loaded  # whose current figure it would be


def test_any_two_axes_or_one_are_drawn_and_others_refused(model, ax):
    model.plot(components=(2, 0), ax=ax)
    np.testing.assert_array_equal(dots(ax)[0], in_order(model.embedding_[:, [2, 0]]))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("axis 3", "axis 1")
    alone = model.plot(color=X[:, 0], components=1)
    assert alone.get_xlabel() == "axis 2"
    np.testing.assert_allclose(dots(alone)[0], in_order(np.column_stack([model.embedding_[:, 1], X[:, 0]])))
    one = Isomap(n_neighbors=8, n_components=1).fit(X).plot()
    assert one.get_xlabel() == "axis 1" and sum(bar.get_height() for bar in one.patches) == 120
    for wrong in ((0, 3), (0, 0), (0, 1, 2), (), "01", 0.5, -1, (True, 1)):
        with pytest.raises(ScalemaniError, match="which count from 0 to 2") as refused:
            model.plot(components=wrong)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [KINDS, KINDS.astype(object), KINDS.tolist(), KINDS.astype("string")])
def test_categories_get_their_colours_and_a_legend_in_their_own_words(model, ax, kind):
    model.plot(kind, ax=ax)
    texts = ax.get_legend().get_texts()
    up, down = (X[:, 1] > 10).sum(), (X[:, 1] <= 10).sum()
    assert {text.get_text() for text in texts} == {f"_up $x$ ({up})", f"down ({down})"}
    assert not any(text.get_parse_math() for text in texts)  # a formula that is none would be an error
    commonest = up >= down
    row = np.flatnonzero((X[:, 1] > 10) == commonest)[0]
    np.testing.assert_allclose(colour_of(ax, model.embedding_[row, :2]), to_rgb(CATEGORIES[0]))
    if isinstance(kind, pd.Series):
        assert ax.get_legend().get_title().get_text() == "kind $\\x1b$"
    ax.figure.canvas.draw()


def test_numbers_get_a_bar_and_rows_without_a_value_are_grey(model, ax):
    values = pd.Series(X[:, 0], name="height").astype("Float64")
    values[7] = pd.NA
    model.plot(values, ax=ax)
    np.testing.assert_allclose(colour_of(ax, model.embedding_[7, :2]), to_rgb(GRAY))
    bar = next(one for one in ax.figure.axes if one.get_label() == "<colorbar>")
    assert bar.get_ylabel() == "height"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["no value (1)"]
    known = np.delete(X[:, 0], 7)
    assert bar.get_ylim() == pytest.approx((known.min(), known.max()))


def test_projected_points_are_crosses_and_rows_without_coordinates_are_left_out(ax):
    model = Isomap(n_neighbors=4, n_components=2, disconnected="largest").fit(np.vstack([X, X[:6] + 1000]))
    placed = np.vstack([model.transform(X[:5] + 0.01), [[np.nan] * 2]])
    model.plot(["a"] * 100 + ["b"] * 26, placed, ax=ax)
    there, crosses = ax.collections
    assert len(there.get_offsets()) == 120
    np.testing.assert_array_equal(crosses.get_offsets(), placed[:5])
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["a (100)", "b (20)", "other points (5)"]
    assert plot.embedding(model, points=placed[5:]).get_legend() is None  # none that has a place
    for colours in (None, np.arange(126.0)):  # without categories, too, crosses are explained
        words = plot.embedding(model, colours, placed).get_legend().get_texts()
        assert [text.get_text() for text in words] == ["other points (5)"]


def test_many_points_are_counted(model, ax, monkeypatch):
    monkeypatch.setattr(model._run, "embedding", lambda: np.random.default_rng(0).normal(size=(20_001, 3)))
    model.plot(points=0.1 * np.random.default_rng(1).normal(size=(20_001, 3)), ax=ax)
    assert not ax.collections and len(ax.images) == 2
    (low, high), extents = ax.get_xlim(), [image.get_extent() for image in ax.images]
    assert low <= min(one[0] for one in extents) and max(one[1] for one in extents) <= high  # both are in view
    assert maps.MOST_DOTS == 20_000


def test_wrong_colours_and_points_are_refused_in_one_line(model):
    for how, said in (
        ({"color": "kind"}, r"give a value for each row, such as frame\['kind'\]"),
        ({"color": X}, "color has the shape"),
        ({"color": X[:5, 0]}, r"\(5,\) and the fit 120 rows"),
        ({"color": [[1], [1, 2]] * 60}, "color has lists in it"),
        ({"points": X[:, :2]}, r"coordinates \(m, 3\)"),
        ({"points": [["a"] * 3]}, "points are no numbers"),
        ({"ax": Figure().subplots(2, 2)}, "ax is of type ndarray: give one plain Axes"),
        ({"ax": Figure().add_subplot(projection="polar")}, "ax is of type PolarAxes"),
    ):
        with pytest.raises(ScalemaniError, match=said) as refused:
            model.plot(**how)
        assert "\n" not in str(refused.value)
    for no_model in (Isomap(), 3):
        with pytest.raises(ScalemaniError, match="plot takes a fitted model"):
            plot.embedding(no_model)


def test_a_series_of_other_rows_or_in_another_order_is_refused(days):
    values = pd.Series(X[:110, 0], IDS[:110])
    np.testing.assert_array_equal(dots(days[0].plot(values))[1], dots(days[0].plot(values.to_numpy()))[1])
    np.testing.assert_array_equal(dots(days[0].plot(values.reset_index(drop=True)))[1], dots(days[0].plot(values))[1])
    for other in (values[::-1], pd.Series(X[:110, 0], IDS[10:])):
        with pytest.raises(ScalemaniError, match=r"give color\.reindex\(X\.index\) .*, or color\.to_numpy\(\)"):
            days[0].plot(other)


@pytest.mark.slow
def test_columns_at_the_ends_of_what_numbers_can_be_are_drawn(model):
    for values in ([np.nan] * 120, [np.inf] * 120, np.linspace(-1.0, 1.0, 120) * 1.7e308, [1e300, -1e300] * 60):
        for components in ((0, 1), 0):
            picture(model.plot(values, components=components).figure, ".png")
    for values, said in (
        ([2**63 - 1, 2**63 - 2] * 60, ["9223372036854775806 (60)", "9223372036854775807 (60)"]),
        (pd.array([True, None, False] * 40, "boolean"), ["no (40)", "yes (40)", "no value (40)"]),
    ):
        assert [text.get_text() for text in model.plot(values).get_legend().get_texts()] == said


# ---- charts --------------------------------------------------------------------------------------


def test_charts_have_the_models_numbers_on_the_given_axes(model, ax):
    assert plot.spectrum(model, ax) is ax
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), model.eigenvalues_)
    lle = LLE(n_neighbors=8).fit(X)
    np.testing.assert_array_equal(plot.spectrum(lle).lines[1].get_ydata(), lle.eigenvalues_)
    variance = plot.residual_variance(model).lines[0].get_ydata()
    geodesic, every = model.geodesics(range(120)), np.triu_indices(120, 1)
    for p in (1, 2, 3):
        r = np.corrcoef(geodesic[every], pdist(model.embedding_[:, :p]))[0, 1]
        assert variance[p - 1] == pytest.approx(1 - r * r, abs=1e-6)
    drawn = plot.shepard(model).lines[0].get_xydata()
    expected = np.column_stack([geodesic[every], pdist(model.embedding_)])
    np.testing.assert_allclose(in_order(drawn), in_order(expected), rtol=1e-5, atol=1e-5)
    with pytest.raises(ScalemaniError, match="lle keeps neighbours and no distances"):
        plot.shepard(lle)
    with pytest.raises(ScalemaniError, match="stress has no eigenvalues"):
        plot.spectrum(StressIsomap(n_neighbors=8).fit(X[:40]))


def test_a_scan_is_drawn_on_two_axes():
    found = scan(X, [6, 8])
    given = Figure().subplots(1, 2)
    assert list(plot.scan(found, given)) == list(given)
    np.testing.assert_array_equal(given[1].lines[0].get_ydata(), [one.negative_mass for one in found.ks])
    assert len(plot.scan(found)) == 2
    with pytest.raises(ScalemaniError, match="two are needed"):
        plot.scan(found, given[:1])
    with pytest.raises(ScalemaniError, match=r"as scalemani\.scan gives it"):
        plot.scan(X)


@pytest.mark.slow
def test_the_end_of_a_name_says_what_is_written(model, tmp_path):
    for kind, begin in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        content = [picture(plot.spectrum(model).figure, kind) for _ in range(2)]
        assert content[0].startswith(begin) and content[0] == content[1]
    figure = plot.spectrum(model).figure
    assert imread(io.BytesIO(picture(figure, ".png"))).shape[1] == pytest.approx(300 * figure.get_figwidth(), abs=1)
    view = kernel_view(model, 20)
    view.draw(tmp_path / "v.PDF")
    assert (tmp_path / "v.PDF").read_bytes().startswith(b"%PDF")
    with pytest.raises(ScalemaniError, match=r"a picture is a \.png, \.svg or \.pdf"):
        view.draw(tmp_path / "v.jpg")
    assert not (tmp_path / "v.jpg").exists()


# ---- two maps ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def days():
    """Two fits of points of which 100 are in both, in another order, by ids."""
    frame = pd.DataFrame(X, IDS)
    return [Isomap(n_neighbors=8).fit(rows) for rows in (frame[:110], frame[10:].iloc[::-1])]


def test_maps_are_matched_by_ids_in_any_order(days):
    found = compare(*days)
    common = IDS[10:110]
    assert found.ids == common and found.matched == "by their ids" and found.sizes == (110, 110)
    ours, theirs = (pd.DataFrame(model.embedding_, model.ids_).loc[common].to_numpy() for model in days)
    np.testing.assert_array_equal(found.a, ours)
    assert found.procrustes == pytest.approx(procrustes(ours, theirs)[2])
    assert found.displacement == pytest.approx(found.procrustes**0.5)
    assert np.sqrt((found.displacements**2).mean()) == pytest.approx(found.displacement)
    assert found.correlation_of_distances == pytest.approx(np.corrcoef(pdist(ours), pdist(theirs))[0, 1])
    assert [*found.neighbors] == [10, 30] and found.neighbors[10].mean() > 0.8
    said = str(found)
    assert "matched by their ids" in said and "places           the same: " in said and "(10.1 % by chance)" in said
    assert found.record()["shared_neighbors_by_chance"]["10"] == pytest.approx(10 / 99)
    panels = found.plot()
    assert [len(dots(panel)[0]) for panel in panels] == [100, 100]
    given = Figure().subplots(1, 2)
    assert list(found.plot("displacement", ax=given)) == list(given)
    with pytest.raises(ScalemaniError, match="'neighbors' or 'displacement'"):
        found.plot("red")


def test_stores_arrays_and_given_rows_are_compared(model, tmp_path):
    model.export(tmp_path / "model")
    turned = model.embedding_[:, [1, 2, 0]] * -3
    found = compare(tmp_path / "model", turned)
    assert found.matched == "by their numbers" and found.procrustes < 1e-20 and found.scale == pytest.approx(1 / 3)
    assert found.names == (str(tmp_path / "model"), "b")
    np.testing.assert_allclose(found.aligned, model.embedding_, atol=1e-9)
    assert (found.neighbors[30] == 1).all() and found.correlation_of_distances == pytest.approx(1)
    some = compare(model, turned[::2], rows=(np.arange(0, 120, 2), np.arange(60)))
    assert some.procrustes < 1e-20 and len(some.a) == 60
    holed = turned.copy()
    holed[4] = np.nan
    assert compare(model, holed).rows[0].tolist() == [*range(4), *range(5, 120)]
    assert [panel.get_ylabel() for panel in some.plot(components=2)] == ["shared of the 10 nearest"] * 2
    for unit in (1e300, 1e-90):  # squares are out of range
        found = compare(model.embedding_ * unit, turned * 1e200)
        assert found.correlation_of_distances == pytest.approx(1) and (found.neighbors[30] == 1).all()
        assert found.displacements.max() < 1e-9
    apart = compare(np.random.default_rng(0).normal(size=(120, 3)), turned)
    assert apart.procrustes > 0.9 and "places           different: " in str(apart)


def test_maps_that_can_not_be_compared_are_refused_in_one_line(days, model):
    Y = model.embedding_
    twice = pd.DataFrame(Y[:, :2], ["x"] * 120)
    for a, b, rows, said in (
        (Y, Y[:5], None, "a has 120 rows and b 5, and a and b no ids"),
        (days[0], Y[:, :2], None, "a has 110 rows and b 120, and b no ids"),
        (days[0], twice, None, "b has several rows with the id 'x'"),
        (Y, Y[:, :2], None, "a has 3 axes and b 2"),
        (Y, Y, ([0, 1, 2], [3, 4, 5]), "have 3 rows with coordinates in common, matched as they were given: 4 or more"),
        (Y, Y, 5, "rows is no pair"),
        (Y, Y, ([0], [0, 1]), "1 and 2 row numbers"),
        (Y, Y, ([0], [120]), "asked for"),
        (Y, "nothing", None, "nothing is there"),
        (Y, object(), None, "b is no map"),
        (Y, Isomap(), None, "not fitted"),
        (Y, Y[0], None, "has the shape"),
        (Y * 1e200, Y * 1e-200, None, "one map is more than 1e+300 times as large"),
        (Y, Y * 1j, None, "b is no map"),
        (Y, np.ma.masked_less(Y, 0), None, "b has masked entries"),
    ):
        with pytest.raises(ScalemaniError) as refused:
            compare(a, b, rows)
        assert "\n" not in str(refused.value)
        assert said in str(refused.value)


# ---- aligned projections -------------------------------------------------------------------------


def test_projected_rows_lie_on_the_other_days_map(days, tmp_path):
    """Rows that both fits have come to lie near their places on that map, with one step as long as it was."""
    first, second = days
    assert np.abs(second.transform(X[20:100]) - first.embedding_[20:100]).max() > 1  # as it is another way round
    aligned = second.transform(X[20:100], align_to=first)
    spread = np.sqrt((first.embedding_**2).sum(axis=1).mean())
    apart = np.sqrt(((aligned - first.embedding_[20:100]) ** 2).sum(axis=1).mean())
    assert apart < 0.1 * spread
    np.testing.assert_allclose(pdist(aligned), pdist(second.transform(X[20:100])), rtol=1e-9)
    first.export(tmp_path / "first")
    lazy = second.transform(da.from_array(X[20:100], chunks=(30, 3)), align_to=tmp_path / "first")
    assert np.array_equal(lazy.compute(), aligned)
    assert np.array_equal(second.transform(X[50:51], align_to=first), aligned[30:31])
    assert np.array_equal(second.transform_to(X[20:100], str(tmp_path / "o.zarr"), align_to=first)[:], aligned)


def test_what_can_not_be_aligned_is_refused_and_what_disagrees_is_warned_about(days, model):
    for other, said in (
        (model, "the map to align to has 120 rows and this map 110, and the map to align to no ids"),
        (Isomap(n_neighbors=8, n_components=3).fit(pd.DataFrame(X, IDS)), "has 3 axes and this map 2"),
        (
            Isomap(n_neighbors=8).fit(pd.DataFrame(X, [f"q{i}" for i in range(120)])),
            "have 0 rows with coordinates",
        ),
        (3, "align_to takes a fitted model"),
    ):
        with pytest.raises(ScalemaniError, match=said) as refused:
            days[0].transform(X[:3], align_to=other)
        assert "\n" not in str(refused.value)
    strange = KernelIsomap(n_neighbors=8, correction=None).fit(np.random.default_rng(0).normal(size=(120, 3)))
    plain = KernelIsomap(n_neighbors=8, correction=None).fit(X)
    with pytest.warns(MapsDifferWarning, match=r"the 120 rows in common, matched by their numbers, are [01]\."):
        strange.transform(X[:3], align_to=plain)


def test_it_is_part_of_the_package():
    assert scalemani.plot is plot and {"plot", "compare"} <= set(dir(scalemani))
