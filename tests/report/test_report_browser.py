"""The report in a real browser: nothing is fetched, nothing complains, every picture is seen, nothing sticks out."""

import numpy as np
import pytest
from chromium import browser, chromium

from scalemani import KernelIsomap
from scalemani.demo import swiss_roll
from scalemani.model import Run
from scalemani.report.drawing import png
from scalemani.report.maps import embedding_map
from scalemani.report.page import Picture, Section, page
from scalemani.report.sections import run_page
from scalemani.storage.run import RunStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium (nor chrome) is installed here"),
    pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning"),
]
NASTY = "<b id='b'>bold</b><script>window.ran = 1; console.error('ran')</script>" + "long" * 60
SIZES = "[...document.images].map(image => [image.naturalWidth, image.naturalHeight])"
INK = """[...document.images].map(image => {
    const canvas = document.createElement('canvas');
    canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const bytes = context.getImageData(0, 0, canvas.width, canvas.height).data;
    let inked = 0;
    for (let i = 0; i < bytes.length; i += 4) inked += bytes[i] + bytes[i + 1] + bytes[i + 2] < 720;
    return inked;
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages by name: of runs of many kinds, and of a map of 120,000 points."""
    folder = tmp_path_factory.mktemp("pages")
    roll = swiss_roll(150, noise_variance=0.25, random_state=0)
    apart = np.vstack([roll.points, roll.points[:9] + 1e4])
    length = np.append(roll.parameters[:, 0], np.full(9, np.nan))
    kinds = [NASTY if value > 40 else f"kind {value // 10:.0f}" for value in np.nan_to_num(length)]
    fits = {
        "dropped": ({"n_components": 3, "disconnected": "largest"}, [("length", length), (NASTY, kinds)], apart),
        "line": ({"n_components": 1, "correction": None}, [("length", roll.parameters[:, 0])], roll.points),
        "twelve": ({"n_components": 12}, [], roll.points),
    }
    for name, (parameters, columns, points) in fits.items():
        store = folder / f"{name}.zarr"
        KernelIsomap(n_neighbors=6, store=store, **parameters).fit(points)
        text = run_page(Run(RunStore(store)), columns, name=f"{name} <i>&</i>")
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    many = Picture(png(embedding_map(np.random.default_rng(0).normal(size=(120_000, 3)))), "many", "many")
    (folder / "many.html").write_text(page("Many", "", [Section("Map", pictures=[many])]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as made:
        made.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        yield made


@pytest.mark.parametrize(("name", "figures"), [("dropped", 8), ("line", 5), ("twelve", 7), ("many", 1)])
def test_a_page_opens_offline_with_every_figure_and_no_complaint(pages, tab, name, figures):
    tab.width(1200)
    tab.open((pages / f"{name}.html").as_uri())
    assert tab.value("document.readyState") == "complete"
    sizes = tab.value(SIZES)
    assert len(sizes) == figures
    assert all(width > 500 and height > 300 for width, height in sizes)
    assert all(inked > 2000 for inked in tab.value(INK))
    assert tab.value("[...document.images].every(image => image.alt && image.getBoundingClientRect().width > 300)")
    # What a file says is text: no element and no script has come of it.
    programs = "[...document.scripts].filter(script => !script.id).length"  # what the map holds has an id
    elements = "document.querySelectorAll('b, i:not(.kinds i)').length"
    assert tab.value(f"[{programs}, {elements}, typeof window.ran]") == [int(name != "many"), 0, "undefined"]
    asked = [event["request"]["url"] for event in tab.named("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("data:")] == [(pages / f"{name}.html").as_uri()]
    assert tab.named("Runtime.consoleAPICalled") == tab.named("Runtime.exceptionThrown") == []
    assert [event for event in tab.named("Log.entryAdded") if event["entry"]["level"] in ("warning", "error")] == []


@pytest.mark.parametrize("width", [1200, 380])
@pytest.mark.parametrize("name", ["dropped", "twelve"])
def test_nothing_sticks_out_of_the_window(pages, tab, name, width):
    """Wide tables scroll within themselves, long names break, pictures shrink."""
    tab.width(width)
    tab.open((pages / f"{name}.html").as_uri())
    assert tab.value("document.documentElement.scrollWidth") <= width


def test_a_broken_page_would_be_seen(tmp_path, tab):
    """The claims above are about something."""
    (tmp_path / "broken.html").write_text(
        "<img src='data:image/png;base64,AAAA'><script>console.error('so')</script><script src='gone.js'></script>"
    )
    tab.open((tmp_path / "broken.html").as_uri())
    assert tab.value(SIZES) == [[0, 0]]
    assert len(tab.named("Runtime.consoleAPICalled")) == 1
    assert len([event for event in tab.named("Log.entryAdded") if event["entry"]["level"] == "error"]) == 1
    asked = [event["request"]["url"] for event in tab.named("Network.requestWillBeSent")]
    assert [url.rsplit("/", 1)[1] for url in asked] == ["broken.html", "gone.js"]
