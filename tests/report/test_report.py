"""The report is one page that needs nothing else, and its pictures are whole."""

import base64
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from scalemani.demo import four_panels, spectra, unrolling
from scalemani.report.drawing import png
from scalemani.report.page import Picture, Section, Table, page

PNG = b"\x89PNG\r\n\x1a\n"


class Reader(HTMLParser):
    """Collects references, and text but that of programs and styles; checks that tags close in order."""

    VOID = ("meta", "img", "br", "link", "input")

    def __init__(self):
        super().__init__()
        self.open, self.text, self.references = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.references += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


def read(document):
    reader = Reader()
    reader.feed(document)
    reader.close()
    assert not reader.open
    return reader


def test_every_text_is_escaped_and_every_picture_is_inside():
    nasty = '<script>alert("x")</script> & "quoted" \'single\''
    picture = Picture(PNG + b"data", nasty, nasty)
    document = page(nasty, nasty, [Section(nasty, [nasty], [Table([nasty], [[nasty]])], [picture])], nasty)
    reader = read(document)
    assert "<script" not in document
    assert "".join(reader.text).count(nasty) == 9
    assert len(reader.references) == 1
    assert base64.b64decode(reader.references[0].removeprefix("data:image/png;base64,")) == picture.png


def test_nothing_is_fetched_from_elsewhere():
    document = page("t", "l", [Section("h", pictures=[Picture(PNG, "c", "a")])])
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"base64,[^\"]*", "", document))


def pictures():
    rng = np.random.default_rng(0)
    train, test = rng.random((40, 3)), rng.random((60, 3))
    both = {"Isomap": (train, test), "kernel Isomap": (train[:, ::-1], test[:, ::-1])}
    values = {"K": np.array([3.0, 1.0, 0.0, -0.5]), "K(c)": np.array([4.0, 2.0, 1.0, 0.0])}
    return [
        four_panels(train, test, train[:, 0], test[:, 0], both, color_name="x"),
        spectra(values),
        unrolling(test[:, 0], {name: pair[1] for name, pair in both.items()}, "x"),
    ]


@pytest.mark.slow
def test_pictures_hold_every_point_and_are_the_same_twice():
    ours, same = pictures(), pictures()
    panels, spectrum, _ = ours
    counts = [len(axes.collections[-1].get_offsets()) for axes in panels.axes[:4]]
    assert counts == [40, 60, 60, 60]
    assert "negative: 1 of 4, least -0.5" in [t.get_text() for t in spectrum.axes[0].get_legend().get_texts()]
    assert len(spectrum.axes[1].get_legend().get_texts()) == 1
    for first, second in zip(ours, same, strict=True):
        # Once each: drawing a figure again may move its layout by a hair.
        drawn = png(first)
        assert drawn.startswith(PNG)
        assert drawn == png(second)


def test_pictures_leave_pyplot_alone():
    code = "import sys, scalemani.demo; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("n", [1, 2])
def test_spectra_of_few_eigenvalues(n):
    assert png(spectra({"K": np.arange(n) - 1.0})).startswith(PNG)
