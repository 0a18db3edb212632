"""Planes with a machine's lines: what is ringed is wrong, and lines lie where the machine says."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.svm import SVC

from scalemani.report.drawing import CATEGORIES, GRAY, png
from scalemani.report.planes import Plane, planes_figure

RNG = np.random.default_rng(0)
POINTS, CODES = RNG.normal(size=(60, 2)), np.arange(60) % 3


def lines(axes, level):
    """Vertices of the contours."""
    made = [one for one in axes.collections if getattr(one, "levels", np.empty(0)).tolist() == [level]]
    return np.concatenate([path.vertices for one in made for path in one.get_paths()])


def test_of_two_classes_line_and_margins_lie_where_the_svm_says():
    codes = CODES % 2
    points = POINTS + 3 * codes[:, None]
    svm = SVC(kernel="linear", C=2).fit(points, codes)
    axes = planes_figure([Plane("", points, codes, svm)], ["a", "b"], 1).axes[0]
    for level in (-1.0, 0.0, 1.0):
        np.testing.assert_allclose(svm.decision_function(lines(axes, level)), level, atol=1e-6)
    wrong = points[svm.predict(points) != codes]
    rings = [one for one in axes.collections if len(one.get_facecolors()) == 0 and len(one.get_offsets()) == len(wrong)]
    assert {*map(tuple, rings[0].get_offsets().data)} == {*map(tuple, wrong)}


def test_of_three_classes_each_has_a_region_and_rows_without_one_are_grey():
    codes = np.where(np.arange(60) < 6, -1, CODES)
    svm = SVC(kernel="linear", C=2).fit(POINTS[6:], codes[6:])
    figure = planes_figure([Plane("", POINTS, codes, svm), Plane("empty")], ["a", "b", "c"], 2)
    dots = next(one for one in figure.axes[0].collections if len(one.get_offsets()) == 60)
    shown = [to_hex(color) for color in dots.get_facecolors()]
    assert shown.count(GRAY) == 6
    assert {color for color in shown if color != GRAY} == {*CATEGORIES[:3]}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "a",
        "b",
        "c",
        "no label",
        "wrong in training",
    ]
    assert not figure.axes[1].collections


@pytest.mark.parametrize("name", [r"$\frac$", "類", "a\nb"])
def test_a_class_with_a_name_that_can_not_be_drawn_is_numbered(name):
    figure = planes_figure([Plane("", POINTS, CODES % 2)], [name, "b"], 1)
    assert figure.legends[0].get_texts()[0].get_text() == "class 1"
    assert png(figure)[:4] == b"\x89PNG"


def test_points_in_one_place_are_drawn():
    png(planes_figure([Plane("", np.ones((5, 2)), np.zeros(5, int))], ["a"], 1))
