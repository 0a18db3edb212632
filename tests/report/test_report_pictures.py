"""Pictures show what they are given: pixels are coloured where points are, in their colours, however many they are."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from scalemani.report import drawing, maps
from scalemani.report.charts import distance_panels, eigenvalue_chart, residual_chart, share_chart
from scalemani.report.drawing import CATEGORIES, GRAY, coloring, dot_colors, pixels, png
from scalemani.report.maps import embedding_map
from scalemani.report.sections import Sample
from scalemani.words import number, percent

N = 300


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, 3)) * [8, 3, 1]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Fewer pixels than a page has: enough to see what is there."""
    monkeypatch.setattr(drawing, "DPI", 50)


def image(figure):
    """RGB pixels of a figure, or of a PNG, shape (height, width, 3), from 0 to 1."""
    found = imread(io.BytesIO(figure if isinstance(figure, bytes) else png(figure)))
    assert found.ndim == 3
    return found[..., :3]


def inked(picture, color=None):
    """Pixels that are not white; with a colour, those near it."""
    if color is None:
        return int((picture < 0.99).any(axis=2).sum())
    return int((np.abs(picture - to_rgb(color)).max(axis=2) < 0.05).sum())


# ---- maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 3])
def test_each_category_is_there_in_its_colour_and_no_other(points, p):
    kinds = np.where(points[:, 0] < -4, "left", np.where(points[:, 0] > 4, "right", "middle")).tolist()
    picture = image(embedding_map(points[:, :p], coloring("side", kinds)))
    assert all(inked(picture, CATEGORIES[i]) > 20 for i in range(3))
    shown, others = (sum(inked(picture, color) for color in some) for some in (CATEGORIES[:3], CATEGORIES[3:]))
    assert others < shown / 20  # at the rims of dots colours in between come up by chance


def test_numbers_colour_from_end_to_end_and_what_has_none_is_grey(points):
    values = points[:, 0].copy()
    values[:40] = np.nan
    values[40] = np.inf
    colors = coloring("x", values)
    assert colors.missing.sum() == 41
    rgba = dot_colors(colors)
    np.testing.assert_allclose(rgba[:41, :3], np.tile(to_rgb(GRAY), (41, 1)))
    low, high = np.nanargmin(np.where(np.isinf(values), np.nan, values)), np.nanargmax(values[41:]) + 41
    np.testing.assert_allclose(rgba[low, :3], to_rgb("#440154"), atol=0.01)  # viridis from end to end
    np.testing.assert_allclose(rgba[high, :3], to_rgb("#fde725"), atol=0.01)


def test_pixels_hold_the_mean_of_numbers_and_the_mixture_of_categories():
    index = np.array([0, 0, 0, 2, 2])
    rgba = pixels(index, 4, coloring("k", ["a", "a", "b", "a", ""]))
    first, second = np.array(to_rgb(CATEGORIES[0])), np.array(to_rgb(CATEGORIES[1]))
    np.testing.assert_allclose(rgba[0, :3], (2 * first + second) / 3)
    np.testing.assert_allclose(rgba[2, :3], first)
    assert rgba[1, 3] == rgba[3, 3] == 0 < rgba[2, 3] < rgba[0, 3]
    numbers = coloring("x", np.array([0.1, 0.9, np.nan, 0.5, np.nan]))
    same = dot_colors(coloring("x", np.array([0.1, 0.5, 0.9])))[1, :3]
    rgba = pixels(index, 4, numbers)
    np.testing.assert_allclose(rgba[[0, 2], :3], [same, same], atol=1e-6)
    np.testing.assert_allclose(
        pixels(np.array([1, 1]), 3, coloring("x", np.array([np.nan, np.nan])))[1, :3], to_rgb(GRAY)
    )


def test_more_points_make_no_larger_picture():
    """120,000 points, in pixels, are fewer bytes than 3,000 dots, and their density is seen."""
    rng = np.random.default_rng(0)
    many = rng.normal(size=(120_000, 2))
    counted, dotted = png(embedding_map(many)), png(embedding_map(many[:3000]))
    assert len(counted) < 4 * len(dotted) < 1e6
    picture = image(counted)
    height, width, _ = picture.shape
    core = picture[2 * height // 5 : 3 * height // 5, 2 * width // 5 : 3 * width // 5]
    rim = picture[height // 3 : height // 2, width // 5 : width // 4]
    assert core.mean() < rim.mean() - 0.1


@pytest.mark.parametrize(
    ("coordinates", "most_dots"), [(np.zeros((5, 2)), 0), (np.zeros((1, 3)), 1), (np.ones((4, 1)), 0)]
)
def test_degenerate_maps_are_drawn(coordinates, most_dots, monkeypatch):
    monkeypatch.setattr(maps, "MOST_DOTS", most_dots)
    assert inked(image(embedding_map(coordinates))) > 200


# ---- charts --------------------------------------------------------------------------------------


def test_every_eigenvalue_is_drawn_at_its_height():
    axes = eigenvalue_chart([9.0, 4.0, -2.0], [8.0, 3.0, -2.5], 0.5, 1.5, -3.0)
    drawn = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    assert list(drawn["eigenvalue of the axis"]) == [9, 4, -2]
    assert list(drawn["without the shift"]) == [8, 3, -2.5]
    assert list(drawn["the shift alone"]) == [0.5, 0.5]
    assert list(drawn["next, has no axis"]) == [1.5]
    assert list(drawn["lowest without a correction"]) == [-3]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3", "next", "lowest"]
    places = dict(zip((text.get_text() for text in axes.get_yticklabels()), axes.get_yticks(), strict=True))
    assert places == {"0": 0} | {
        f"${sign}10^{{{k}}}$": float(f"{sign}1e{k}") for k in range(-3, 1) for sign in ("", "-")
    }


ODD = [
    (eigenvalue_chart, [0.0], [0.0], 0.0),
    (eigenvalue_chart, [1e300, 1e-300], [1e300, 0.0], 0.0),
    (share_chart, [0.6, 0.0, -0.1], [0.0, 0.0, 0.0], None, [0.5, 0.3, 0.2]),
    (share_chart, [0.0, 0.0]),
    (residual_chart, [0.5, None, 0.1]),
    (distance_panels, (np.zeros(3), np.zeros(3)), (np.zeros(0), np.zeros(0))),
    (distance_panels, (np.full(9000, 1e200), np.full(9000, 1e-200)), (np.ones(2), np.zeros(2)), 0.5),
]


@pytest.mark.parametrize("given", ODD)
def test_charts_of_odd_numbers_are_drawn(given):
    chart, *arguments = given
    assert inked(image(chart(*arguments))) > 200


def test_pairs_are_counted_where_they_are():
    """Along a parabola, whose two directions can't be taken for each other."""
    geodesic = np.linspace(0.5, 10, 20_000)
    figure = distance_panels((geodesic, geodesic**2), (geodesic[:50], geodesic[:50] ** 2))
    counts = figure.axes[0].images[0].get_array()
    assert counts.sum() == 20_000
    rows, columns = np.nonzero(counts.filled(0))
    # Cells are a hundredth high at most, and the ends of the axes lie three hundredths beyond the pairs.
    across, up = ((at + 0.5) / counts.shape[1 - i] * 1.03 for i, at in enumerate((columns, rows)))
    np.testing.assert_allclose(up, across**2, atol=0.015)
    median = next(line for line in figure.axes[0].get_lines() if line.get_label() == "median")
    np.testing.assert_allclose(median.get_ydata(), median.get_xdata() ** 2, rtol=1e-3)


# ---- what is drawn of -----------------------------------------------------------------------------


def test_pairs_of_a_sample_are_each_once_and_neighbours_are_the_nearest(points):
    rows = np.array([3, 50, 299])
    D = np.linalg.norm(points[:, None] - points[None], axis=2)
    sample = Sample(rows, D[rows].astype(np.float32), points[:, :2])
    geodesic, embedded = sample.pairs()
    pairs = [(i, j) for a, i in enumerate(rows) for j in range(N) if j != i and j not in rows[:a]]
    np.testing.assert_allclose(geodesic, [D[i, j] for i, j in pairs], rtol=1e-6)
    np.testing.assert_allclose(embedded, [np.linalg.norm(points[i, :2] - points[j, :2]) for i, j in pairs])
    near, far = sample.near_pairs(4)
    expected = [np.sort(np.delete(D[i], i))[:4] for i in rows]
    np.testing.assert_allclose(np.sort(near.reshape(3, 4)), expected, rtol=1e-6)
    assert (far <= near * (1 + 1e-6)).all()  # an axis less


def test_fewer_others_keep_the_sampled_points(points, monkeypatch):
    monkeypatch.setattr("scalemani.report.sections.MOST_OTHERS", 30)
    rows = np.arange(0, N, 60)
    D = np.linalg.norm(points[rows][:, None] - points[None], axis=2)
    few = Sample(rows, D, points).among_fewer()
    assert 30 <= len(few.points) <= 30 + len(rows)
    np.testing.assert_array_equal(few.points[few.rows], points[rows])
    np.testing.assert_allclose(few.geodesic[:, few.rows], D[:, rows])


@pytest.mark.parametrize(
    ("values", "categories", "different"),
    [
        (["b", "a", "b", " b ", ""], ("b", "a"), 2),
        (np.array([2, 0, 1, 1]), ("0", "1", "2"), 3),
        (np.array([1.0, np.nan, 3.0]), ("1", "3"), 2),
        (np.array([True, False, True]), ("yes", "no"), 2),
        ([f"kind {i % 20}" for i in range(40)], 12, 20),
        ([f"name {i}" for i in range(100)], (), 100),
        (["", ""], (), 0),
    ],
)
def test_text_and_few_whole_numbers_are_categories(values, categories, different):
    found = coloring("x", values)
    assert found.numbers is None
    assert found.n_categories == different
    assert found.categories == categories or len(found.categories) == categories
    assert sum(found.counts()) == len(values)


def test_others_and_rows_without_a_value_are_counted_apart():
    texts = [f"k{i}" for i in range(14) for _ in range(14 - i)]
    found = coloring("x", [*texts, "", " ", ""])
    assert found.counts() == [14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2 + 1, 3]
    assert found.of(np.array([0, len(texts) - 1, len(texts)])).counts() == [1, *[0] * 11, 1, 1]


@pytest.mark.parametrize("values", [np.array([0.5, 1, 2]), np.arange(13), np.full(3, np.nan), np.full(3, 1e30)])
def test_other_numbers_are_a_scale(values):
    found = coloring("x", values)
    assert found.categories == ()
    assert found.limits[0] < found.limits[1]


def test_the_widest_scale_has_a_length():
    low, high = coloring("x", np.array([-1.7e308, 0.5, 1.7e308])).limits
    assert -1e300 <= low < high <= 1e300


def test_a_value_far_out_does_not_flatten_the_scale():
    values = np.append(np.linspace(0.1, 1, 199), 1e9)
    low, high = coloring("x", values).limits
    assert 0.1 <= low < 0.2 < 0.9 < high <= 1


def test_numbers_in_words():
    assert number(999_951.0) == "999,951"
    assert number(float("nan")) == "–"
    assert number(-float("inf")) == "−∞"
    assert number(9.9996) == "10"
    assert percent(0.99951) == "100 %"
    assert percent(-2e-6) == "> −0.01 %"
