"""The explorable map: what the page holds equals the data, and a real browser answers the mouse and the keys by it."""

import base64
import csv
import gzip
import io
import json
import re
import shutil
import subprocess
import time
from importlib.resources import files

import numpy as np
import pytest
from chromium import browser, chromium

from scalemani.report.drawing import new_figure, png
from scalemani.report.live import Arrows, Column, Edges, Layer, LiveMap, pack, sample, script
from scalemani.report.page import Picture, Section, page

NASTY = "<b id='b'>bold</b><script>window.ran = 1</script></script><!-- \x1b[2J\u202e"
BLUE = (0, 114, 178)  # of the commonest category
MIDDLE = (32, 144, 140)  # of the scale of numbers


# ---- what the page holds ----


def unpacked(packed, blob, n):
    """Whole numbers of a stored array."""
    planes = np.frombuffer(gzip.decompress(base64.b64decode(packed.blobs[blob])), np.uint8)
    return sum(plane.astype(np.int64) << 8 * i for i, plane in enumerate(planes.reshape(-1, n)))


def summed(packed, blob, n):
    codes = unpacked(packed, blob, n)
    return np.cumsum(np.where(codes % 2, -(codes + 1) // 2, codes // 2))


def texts(packed, blob):
    return gzip.decompress(base64.b64decode(packed.blobs[blob])).decode("utf-8").split("\0")


def numbers(packed, entry, n):
    """Values of an axis or a column, NaN where there is none."""
    codes = unpacked(packed, entry["blob"], n)
    assert codes.max() <= entry["top"]
    found = np.where(codes > 0, entry["low"] + (codes - 1) * entry["step"], np.nan)
    if "far" in entry:
        [said] = texts(packed, entry["far"])
        for i, value in json.loads(said).items():
            found[int(i)] = value
    return found


@pytest.mark.parametrize(("n", "size"), [(1, 1.0), (2, 1e-30), (5000, 1e30), (30_000, 1.0)])
def test_coordinates_and_numbers_are_kept_to_half_a_step(n, size):
    rng = np.random.default_rng(0)
    coordinates = size * np.column_stack([rng.normal(size=n), np.full(n, 3.0), rng.normal(size=n)])
    skewed = size * rng.gamma(2, size=n)
    skewed[:: max(n // 50, 1)] *= 1e9
    skewed[n // 2] = np.nan
    few = rng.integers(0, 40, n).astype(float)
    columns = [Column("skewed", skewed), Column("few", few), Column("none", np.full(n, np.nan))]
    packed = pack(LiveMap(coordinates, np.arange(n), columns=columns, other=-coordinates))
    said = packed.facts["points"]
    for entries, of in ((said["axes"], coordinates), (packed.facts["other"], -coordinates)):
        for entry, values in zip(entries, of.T, strict=True):
            error = np.abs(numbers(packed, entry, n) - values).max()
            assert error <= 0.51 * entry["step"] + 1e-15 * size
            assert entry["step"] * 65_000 <= np.ptp(values) * 1.001
    first, whole, none = said["columns"]
    back = numbers(packed, first, n)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(skewed))
    high = first["low"] + first["step"] * (first["top"] - 1)
    inside = (skewed >= first["low"]) & (skewed <= high * (1 + 1e-12))
    if n > 2:
        assert inside.mean() > 0.9
        # What is far beyond the scale is no number of the scale.
        np.testing.assert_array_equal(back[~inside], skewed[~inside])
        assert f"{(~inside).sum() - 1:,} values beyond the scale's ends" in first["about"]
    assert np.abs(back - skewed)[inside].max(initial=0) <= 0.51 * first["step"]
    if "texts" in whole:
        assert [texts(packed, whole["texts"])[code] for code in unpacked(packed, whole["blob"], n)] == [
            f"{v:.0f}" for v in few
        ]
    else:
        np.testing.assert_array_equal(numbers(packed, whole, n), few)
    assert np.isnan(numbers(packed, none, n)).all()


def test_texts_ids_and_rows_come_back():
    kinds = ["b", "a", "", "b", " a ", NASTY]
    rows = np.array([0, 2, 3, 9, 10, 1_000_000])
    ids = ["7", "-7", "0", "123456789012345", "5", "6"]
    packed = pack(LiveMap(np.eye(6)[:, :2], rows, ids, [Column(NASTY, kinds)]))
    said = packed.facts["points"]
    np.testing.assert_array_equal(summed(packed, said["rows"], 6), rows)
    assert list(map(str, summed(packed, said["whole"], 6))) == ids
    [column] = said["columns"]
    names = texts(packed, column["texts"])
    shown = NASTY.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
    assert [names[code] for code in unpacked(packed, column["blob"], 6)] == [
        "b", "a", "", "b", "a", shown,
    ]  # fmt: skip
    assert json.loads(packed.json) == packed.facts
    assert "<" not in packed.json
    for unlike in ("007", "+5", "1e3", "1234567890123456", "x"):
        packed = pack(LiveMap(np.eye(2), np.arange(2), ["1", unlike]))
        assert texts(packed, packed.facts["points"]["ids"]) == ["1", unlike]
        assert "rows" not in packed.facts["points"]


def many(n, ids, columns, p=4):
    """A map as hard to pack as any: nothing of it follows from anything else."""
    rng = np.random.default_rng(0)
    kinds = [f"kind {i}" for i in rng.integers(0, 20, n)]
    numbers = [Column(f"number {i}", rng.normal(size=n)) for i in range(columns - 1)]
    quality = [Column("kept", rng.integers(0, 11, n) / 10), Column("distortion", rng.random(n))]
    distances = (np.array([5, 7]), rng.random((2, n)))
    x = rng.normal(size=(n, p))
    return LiveMap(x, np.arange(n), ids, [Column("kind", kinds), *numbers], quality, distances)


def test_a_hundred_thousand_points_take_less_than_they_may():
    n, rng = 100_000, np.random.default_rng(1)
    letters = rng.integers(ord("A"), ord("Z") + 1, (n, 10), dtype=np.uint32)
    packed = pack(many(n, letters.view("U10").ravel().tolist(), 5))
    assert len(packed.json) + sum(map(len, packed.blobs)) < 4_100_000
    said = packed.facts["points"]
    assert len(said["axes"]) == 4
    assert len(said["columns"]) == 7
    assert len(packed.facts["rings"]) == 2
    assert not packed.left_out
    assert "one part in 65,535 of" in packed.exactness


@pytest.mark.slow
def test_a_million_points_take_less_than_they_may_and_what_does_not_fit_is_named():
    n = 1_000_000
    ids = [str(i) for i in np.random.default_rng(1).permutation(n)]
    packed = pack(many(n, ids, 3, p=6))
    assert len(packed.json) + sum(map(len, packed.blobs)) < 18_500_000
    said = packed.facts["points"]
    assert "whole" in said
    assert len(said["axes"]) >= 4
    assert [column["name"] for column in said["columns"]][:3] == ["kind", "number 0", "number 1"]
    assert all(any(name in note for note in packed.notes) for name in packed.left_out[:6])
    assert {"axis 5", "axis 6"} <= set(packed.left_out)


def test_a_sample_keeps_every_occupied_place_and_what_edges_name():
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(50_000, 2)), [[30, 30], [30.1, 30], [-40, 5]]])
    edges = Edges("bridges", np.array([[3, 50_000], [4, 49_000]]))
    distances = (np.array([17]), np.arange(50_003.0)[None])
    live = LiveMap(x, np.arange(50_003), columns=[Column("length", x[:, 0].copy())], edges=[edges], rings=distances)
    kept = sample(live, 6000)
    assert len(np.unique(kept)) == 6000
    assert set(kept) > {50_000, 50_001, 50_002, 3, 4, 49_000, 17}
    low, span = x.min(axis=0), np.ptp(x, axis=0)
    places = np.minimum((x - low) / span * 256, 255).astype(int)
    assert len(np.unique(places[kept], axis=0)) == len(np.unique(places, axis=0))
    packed = pack(live, 6000)
    np.testing.assert_array_equal(summed(packed, packed.facts["points"]["rows"], 6000), kept)
    pairs = np.array(packed.facts["edges"][0]["pairs"])
    np.testing.assert_array_equal(kept[pairs], edges.pairs)
    [ring] = packed.facts["rings"]
    assert kept[ring["at"]] == 17
    assert np.abs(numbers(packed, ring, 6000) - kept).max() <= 0.51 * ring["step"]
    assert "sample of 6,000 of the 50,003 points" in packed.notes[0]


def test_a_page_with_a_map_lets_no_other_script_run():
    live = LiveMap(np.eye(3)[:, :2], np.arange(3), [NASTY, "b", "c"], [Column(NASTY, [NASTY, "", "x"])])
    document = page("t", "l", [], live=live, still=[Section("still", ["words"])])
    scripts = re.findall(r"<script>(.*?)</script>", document, re.DOTALL)
    assert scripts == [script()]
    assert "</script" not in scripts[0]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', document)[1]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-")
    assert "script-src" not in page("t", "l", [], still=[Section("still", ["words"])])
    assert document.index('id="map"') < document.index('<details id="map-pictures" open>') < document.index("<p>words")


def test_the_script_stays_small():
    lines = script().splitlines()
    assert len(lines) < 600
    assert max(map(len, lines)) <= 120


@pytest.mark.skipif(shutil.which("tsc") is None, reason="no TypeScript is installed here")
def test_the_script_has_its_types():
    program = str(files("scalemani.report").joinpath("map.js"))
    line = [
        "tsc",
        "--allowJs",
        "--checkJs",
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--lib",
        "es2022,dom",
        program,
    ]
    made = subprocess.run(line, capture_output=True, check=False, text=True)
    assert made.returncode == 0, made.stdout


# ---- in a browser ----

in_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="no chromium (nor chrome) is installed here"),
]


class Shown:
    """A page with a map in a tab, worked by the mouse and the keyboard."""

    def __init__(self, tab, path, live):
        self.tab, self.live, self.url = tab, live, path.as_uri()
        picture = Picture(png(new_figure(3, 2)), "caption", "alt")
        text = page("A map", "Lead.", [Section("In short")], live=live, still=[Section("The map", pictures=[picture])])
        path.write_text(text, encoding="utf-8")
        self.open()

    def open(self):
        self.tab.open(self.url)
        self.wait("document.getElementById('map').dataset.ready === 'yes'")

    def wait(self, expression):
        end = time.monotonic() + 20
        while not self.tab.value(expression):
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def drawn(self):
        """The middle of the map in pixels and in the data, and pixels to a unit, after the next frame."""
        self.tab.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return json.loads(self.tab.value("document.getElementById('map-over').dataset.view"))

    def place(self, i, axes=(0, 1)):
        """Pixels of a point in the window."""
        x, y = self.live.coordinates[i, list(axes)]
        return self.at(x, y)

    def at(self, x, y):
        middle, down, x0, y0, across, up = self.drawn()
        box = "(box => [box.left, box.top])(document.getElementById('map-over').getBoundingClientRect())"
        left, top = self.tab.value(box)
        return left + middle + (x - x0) * across, top + down - (y - y0) * up

    def mouse(self, kind, place, **more):
        button = {"button": "left", "clickCount": 1} if kind in ("mousePressed", "mouseReleased") else {}
        button |= {"buttons": 1} if kind == "mousePressed" else {}
        self.tab.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], **button, **more)

    def drag(self, places, **more):
        self.mouse("mousePressed", places[0], **more)
        for place in places[1:]:
            self.mouse("mouseMoved", place, buttons=1, button="left", **more)
        self.mouse("mouseReleased", places[-1], **more)

    def click(self, place):
        self.drag([place])

    def key(self, key, modifiers=0):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
            more = text if kind == "keyDown" else {}
            self.tab.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers, **more
            )

    def text(self, name):
        return self.tab.value(f"document.getElementById('map-{name}').innerText")

    def press(self, name):
        self.tab.value(f"document.getElementById('map-{name}').click()")

    def choose(self, menu, label):
        """As if by hand: the option that reads so."""
        self.tab.value(
            f"(menu => {{ menu.selectedIndex = [...menu.options].findIndex(one => one.text === {json.dumps(label)});"
            f" menu.dispatchEvent(new Event('change', {{ bubbles: true }})); }})(document.getElementById('map-{menu}'))"
        )

    def tick(self, label):
        labels = "[...document.querySelectorAll('#map-extras label')]"
        found = f"{labels}.find(one => one.innerText.includes({json.dumps(label)}))"
        self.tab.value(f"{found}.querySelector('input').click()")

    def mode(self, name):
        self.tab.value(f"document.querySelector('#map [name=mode][value={name}]').click()")

    def saved(self):
        """Rows of the CSV that the page would save."""
        self.tab.value(
            "window.saved = null; window.made ??= URL.createObjectURL;"
            "URL.createObjectURL = blob => { blob.text().then(text => { window.saved = text; });"
            "return window.made.call(URL, blob); }"
        )
        self.press("csv")
        self.wait("window.saved !== null")
        return list(csv.DictReader(io.StringIO(self.tab.value("window.saved"))))

    def ink(self, colour):
        """How many pixels of the points' canvas have about this colour."""
        self.drawn()
        return self.tab.value(
            "(drawn => { const canvas = document.createElement('canvas');"
            "[canvas.width, canvas.height] = [drawn.width, drawn.height];"
            "const context = canvas.getContext('2d'); context.drawImage(drawn, 0, 0);"
            "const bytes = context.getImageData(0, 0, canvas.width, canvas.height).data; let found = 0;"
            f"for (let i = 0; i < bytes.length; i += 4) found += bytes[i + 3] > 90 && {list(colour)}.every("
            "(part, k) => Math.abs(part - bytes[i + k]) < 5);"
            "return found; })(document.getElementById('map-points'))"
        )


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as made:
        made.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        made.call("Browser.setDownloadBehavior", behavior="deny")
        made.width(1280)
        yield made


def small_map():
    """300 points in a heap and 20 in another corner, three lone ones, with everything that a map can show."""
    rng = np.random.default_rng(0)
    x = np.vstack(
        [
            rng.normal(size=(300, 4)),
            rng.normal(size=(20, 4)) * 0.2 + [9, 9, 0, 0],
            [[-9, 9, 1, 5], [-9, -9, 2, -5], [9, -9, 3, 0]],
        ]
    )
    n = len(x)
    kinds = ["heap"] * 300 + [NASTY] * 20 + ['lone, "quoted"'] * 2 + [""]
    length = rng.normal(size=n)
    length[4] = np.nan
    step = np.arange(0.0, n)
    ring = np.array([322, 0])
    distances = np.abs(x[ring][:, None] - x).sum(axis=-1)
    return LiveMap(
        x, np.arange(n) + 5, [f"id {i}" for i in range(n)],
        [Column("kind", kinds, "which group"), Column("length", length), Column(NASTY, step)],
        [Column("neighbours kept", rng.integers(0, 11, n) / 10, "1 is best")],
        (ring, distances),
        [Layer("new points", np.array([[0.0, 6, 0, 0], [np.nan] * 4]), ["fresh", "far"])],
        [Edges("bridges", np.array([[320, 321]]))],
        Arrows("correlation", [NASTY, "second"], rng.uniform(-1, 1, (4, 2))),
        x * 0.7,
        ["axis 1 (40 %)"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown(tab, tmp_path_factory):
    return Shown(tab, tmp_path_factory.mktemp("map") / "map.html", small_map())


class TestTheMapInABrowser:
    pytestmark = in_browser

    @pytest.fixture(autouse=True)
    def as_at_the_start(self, shown):
        yield
        shown.mode("move")
        shown.press("clear")
        shown.press("home")
        asked = [event["request"]["url"] for event in shown.tab.named("Network.requestWillBeSent")]
        assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [shown.url]
        assert shown.tab.named("Runtime.consoleAPICalled") == shown.tab.named("Runtime.exceptionThrown") == []
        assert [e for e in shown.tab.named("Log.entryAdded") if e["entry"]["level"] in ("warning", "error")] == []
        assert shown.tab.value("[typeof window.ran, document.querySelectorAll('b, i b').length]") == ["undefined", 0]

    def test_hovering_says_which_point_it_is(self, shown):
        shown.mouse("mouseMoved", shown.place(320))
        lines = shown.text("tip").split("\n")
        assert lines[0] == "id 320"
        assert "row\t325" in lines
        assert 'kind\tlone, "quoted"' in lines
        assert any(line.startswith("neighbours kept\t") for line in lines)
        assert len(lines) <= 12
        shown.mouse("mouseMoved", shown.at(-5, 5))
        assert shown.tab.value("document.getElementById('map-tip').hidden")

    def test_lasso_and_box_choose_exactly_what_they_enclose(self, shown):
        live = shown.live
        group = {f"id {i}" for i in range(300, 320)}
        shown.mode("lasso")
        shown.drag([shown.at(*at) for at in [(7, 7), (11, 7), (11, 11), (9, 10.5), (7, 11)]])
        assert shown.text("said") == "20 of 323 points selected"
        rows = shown.saved()
        assert {row["id"] for row in rows} == group
        for row in rows:
            i = int(row["row"]) - 5
            assert row["kind"] == NASTY.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")
            assert abs(float(row["length"]) - live.columns[1].values[i]) < 1e-4
            for k, name in enumerate(["axis 1 (40 %)", "axis 2", "axis 3", "axis 4"]):
                assert abs(float(row[name]) - live.coordinates[i, k]) < 7e-4
        # A hole is outside, by even and odd crossings.
        square = [(-9.7, -9.7), (9.7, -9.7), (9.7, 9.7), (-9.7, 9.7), (-9.7, -9.7)]
        hole = [(-5, -5), (5, -5), (5, 5), (-5, 5), (-5, -5)]
        shown.drag([shown.at(*at) for at in square + hole])
        inner = np.abs(live.coordinates[:, :2]).max(axis=1) < 5
        assert {row["id"] for row in shown.saved()} == {f"id {i}" for i in np.flatnonzero(~inner)}
        assert 'lone, "quoted"' in {row["kind"] for row in shown.saved()}
        shown.mode("box")
        shown.drag([shown.at(7, 7), shown.at(11, 11)])
        assert {row["id"] for row in shown.saved()} == group
        table = shown.text("summary")
        assert f"mean {live.columns[2].values[300:320].mean():.0f}" in table
        assert "(100 %)" in table
        shown.press("clear")
        assert shown.tab.value("document.getElementById('map-selection').hidden")
        shown.mode("move")

    def test_search_finds_exact_ids_first_and_picks(self, shown):
        find = "(box => { box.value = 'ID 32'; box.oninput(); })(document.getElementById('map-find'))"
        shown.tab.value(find)
        shown.wait("document.getElementById('map-hits').innerText.includes('id 320')")
        buttons = shown.tab.value("[...document.querySelectorAll('#map-hits button')].map(one => one.innerText)")
        assert buttons == ["id 32", "id 320", "id 321", "id 322"]
        shown.tab.value("document.querySelectorAll('#map-hits button')[1].click()")
        assert shown.text("picked").startswith("id 320")
        shown.tab.value("(box => { box.value = ''; box.oninput(); })(document.getElementById('map-find'))")

    def test_colours_filters_and_only_what_is_shown_can_be_chosen(self, shown):
        shown.choose("colour", "kind")
        groups = "[...document.querySelectorAll('#map-kinds-0 button')]"
        assert shown.ink(BLUE) > 500
        assert shown.tab.value(f"{groups}.map(one => one.querySelector('span:last-child').innerText)") == [
            "300",
            "20",
            "2",
            "1",
        ]
        shown.tab.value(f"{groups}[0].click()")
        assert shown.ink(BLUE) == 0
        assert shown.text("shown").startswith("23 of 323 shown, by kind")
        shown.mouse("mouseMoved", shown.place(0))
        assert shown.tab.value("document.getElementById('map-tip').hidden")
        shown.press("view")
        assert shown.text("said") == "23 of 323 points selected"
        # A double click shows a group alone.
        box = f"(box => [box.left + 40, box.top + 8])({groups}[1].getBoundingClientRect())"
        place = shown.tab.value(box)
        for clicks in (1, 2):
            for kind in ("mousePressed", "mouseReleased"):
                shown.tab.call(
                    "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=clicks
                )
        assert shown.text("shown").startswith("20 of 323 shown")
        # Numbers are filtered by the ends of a range, beside the other filter.
        shown.choose("colour", "length")
        slider = "document.querySelectorAll('#map-legend input')[0]"
        shown.tab.value(f"{slider}.value = '32768'; {slider}.dispatchEvent(new Event('input', {{ bubbles: true }}))")
        length = shown.live.columns[1].values
        limit = (np.nanmin(length) + np.nanmax(length)) / 2
        assert shown.text("shown").startswith(f"{int((length[300:320] >= limit).sum())} of 323 shown, by kind, length")
        shown.tab.value("document.querySelector('#map-shown button').click()")
        assert shown.tab.value("document.getElementById('map-shown').hidden")
        shown.press("clear")

    def test_zooming_and_moving_keep_the_place(self, shown):
        before = shown.place(321)
        scale = shown.drawn()[4]
        shown.mouse("mouseWheel", before, deltaX=0, deltaY=-400)
        shown.wait(f"JSON.parse(document.getElementById('map-over').dataset.view)[4] > {scale * 1.5}")
        np.testing.assert_allclose(shown.place(321), before, atol=0.5)
        shown.drag([before, (before[0] + 60, before[1] - 40)])
        np.testing.assert_allclose(shown.place(321), (before[0] + 60, before[1] - 40), atol=0.5)
        shown.choose("colour", "length")
        np.testing.assert_allclose(shown.place(321), (before[0] + 60, before[1] - 40), atol=0.5)
        shown.press("home")
        np.testing.assert_allclose(shown.place(321), before, atol=0.5)

    def test_axes_layers_edges_arrows_and_the_map_without_the_constant(self, shown):
        shown.choose("x", "axis 3")
        shown.choose("y", "axis 4")
        shown.mouse("mouseMoved", shown.place(321, (2, 3)))
        assert shown.text("tip").startswith("id 321")
        shown.choose("x", "axis 1 (40 %)")
        shown.choose("y", "axis 2")
        assert shown.tab.value("[...document.querySelectorAll('#map-extras input')].map(one => one.checked)") == [
            True, True, False, False,
        ]  # fmt: skip
        shown.mouse("mouseMoved", shown.at(0, 6))
        assert shown.text("tip").startswith("new points: fresh")
        for label in ("arrows: correlation", "without the constant"):
            shown.tick(label)
        shown.drawn()
        # The right half has the same points nearer to the middle.
        middle = shown.drawn()[0]
        left = shown.tab.value("document.getElementById('map-over').getBoundingClientRect().left")
        width = shown.tab.value("document.getElementById('map-over').getBoundingClientRect().width")
        half = (width - 114) / 2
        x, y = shown.at(*(0.7 * shown.live.coordinates[322, :2]))
        assert left + middle < x
        shown.mouse("mouseMoved", (x + half + 56, y))
        assert shown.text("tip").startswith("id 322")
        for label in ("arrows", "without the constant"):
            shown.tick(label)

    def test_distances_from_a_clicked_point(self, shown):
        shown.choose("colour", "distance from a clicked point")
        shown.click(shown.place(322))
        assert shown.text("about") == "Distances along the data from id 322."
        near = int(np.argmin(np.abs(shown.live.coordinates[:300] - shown.live.coordinates[0]).sum(axis=1)[1:])) + 1
        shown.tab.value(f"(box => {{ box.value = 'id {near}'; box.oninput(); }})(document.getElementById('map-find'))")
        shown.tab.value("document.getElementById('map-find').focus()")
        shown.key("Enter")
        assert f"from id 0, the nearest to id {near} of the 2 points" in shown.text("about")
        far = float(re.search(r"distance\s+([\d.]+)", shown.text("picked"))[1])
        assert far == pytest.approx(shown.live.rings[1][1, near], rel=1e-2)
        shown.choose("colour", "kind")

    def test_everything_is_reached_by_keys(self, shown):
        shown.open()
        reached = []
        for _ in range(40):
            shown.key("Tab")
            focused = "(one => one.id || one.value || one.tagName)(document.activeElement)"
            reached.append(shown.tab.value(focused))
            if reached[-1] == "SUMMARY":
                break
        ids = {f"map-{name}" for name in ("over", "in", "out", "home", "colour", "x", "find", "view")}
        assert ids | {"move"} <= set(reached)  # the arrow keys lead from "move" to "lasso" and "box"
        shown.tab.value("document.getElementById('map-over').focus()")
        assert shown.tab.value("getComputedStyle(document.activeElement).outlineStyle") != "none"
        home = shown.drawn()
        shown.key("+")
        shown.key("ArrowRight")
        moved = shown.drawn()
        assert moved[4] > home[4]
        assert moved[2] > home[2]
        shown.key("0")
        assert shown.drawn() == home
        shown.key("Enter")
        assert shown.text("said").startswith("Picked id ")
        shown.press("view")
        assert shown.text("said") == "323 of 323 points selected"
        shown.key("Escape")
        assert shown.text("said") == "No point is selected"

    def test_a_narrow_window_and_another_size_of_pixels(self, shown):
        home = shown.drawn()
        shown.tab.call("Emulation.setDeviceMetricsOverride", width=500, height=900, deviceScaleFactor=2, mobile=False)
        shown.wait("document.getElementById('map-over').width > 800")
        assert shown.tab.value("document.documentElement.scrollWidth") <= 500
        wide, high = shown.tab.value("[over.clientWidth, over.clientHeight]")
        assert 0.9 * wide <= high <= wide
        shown.choose("colour", "kind")
        assert shown.ink(BLUE) > 500
        assert shown.drawn()[4] < home[4]
        np.testing.assert_allclose(shown.drawn()[2:4], home[2:4])
        shown.mouse("mouseMoved", shown.place(320))
        assert shown.text("tip").startswith("id 320")
        below = shown.tab.value("document.getElementById('map-colour').getBoundingClientRect().top")
        assert below > shown.tab.value("document.getElementById('map-over').getBoundingClientRect().bottom")
        shown.tab.width(1280)
        shown.wait("document.getElementById('map-over').width > 800")

    def test_pictures_are_folded_away_only_where_scripts_run(self, shown):
        assert shown.tab.value("document.getElementById('map-pictures').open") is False
        shown.tab.call("Emulation.setScriptExecutionDisabled", value=True)
        shown.tab.open(shown.url)
        shown.tab.call("Emulation.setScriptExecutionDisabled", value=False)
        assert shown.tab.value(
            "[document.images[0].getBoundingClientRect().width > 100, document.getElementById('map').hidden]"
        ) == [True, True]
        shown.open()


FEW = {
    "one": np.zeros((1, 2)),
    "two": np.array([[0.0, 1], [1, 0]]),
    "equal": np.full((5, 3), 7.0),
    "tiny": np.array([[1e-30, 0], [0, 2e-30], [3e-30, 1e-30]]),
    "huge": np.array([[1e30, 0], [0, 2e30], [3e30, 1e30]]),
    "far off": np.array([[1e9, 0], [1e9 + 1, 2], [1e9 + 3, 1]]),
    "line": np.array([[0.0], [1], [3], [4]]),
    "level": np.array([[0.0, 5], [1, 5], [3, 5]]),
}


class TestMapsOfFewPoints:
    pytestmark = in_browser

    @pytest.mark.parametrize("name", FEW)
    def test_a_map_of_any_few_points_is_drawn_and_searched(self, tab, tmp_path, name):
        x = FEW[name]
        columns = [
            Column("same", np.full(len(x), 2.5)),
            Column("none", np.full(len(x), np.nan)),
            Column("kind", ["a"] * len(x)),
        ]
        shown = Shown(tab, tmp_path / "map.html", LiveMap(x, np.arange(len(x)), columns=columns))
        for label in ("none", "kind", "same"):
            shown.choose("colour", label)
        if x.shape[1] > 1:
            shown.mouse("mouseMoved", shown.place(0))
            assert shown.text("tip").startswith("row ")
        assert shown.ink(MIDDLE) > 20
        shown.press("view")
        assert shown.text("said") == f"{len(x)} of {len(x)} points selected"
        back = shown.saved()
        assert [int(row["row"]) for row in back] == list(range(len(x)))
        np.testing.assert_allclose(
            [float(row["axis 1"]) for row in back], x[:, 0], rtol=1e-5, atol=2e-5 * np.ptp(x[:, 0])
        )
        assert tab.named("Runtime.exceptionThrown") == tab.named("Runtime.consoleAPICalled") == []

    def test_a_map_of_thousands_saves_what_was_given(self, tab, tmp_path):
        """All ways in which numbers and names are packed, read by the page's script."""
        n, rng = 5000, np.random.default_rng(0)
        length = rng.gamma(2, size=n)
        length[::125] = 1e6 + np.arange(40)
        length[7] = np.nan
        ids = [str(i) for i in rng.permutation(n) - 40]
        x = rng.normal(size=(n, 2))
        shown = Shown(tab, tmp_path / "map.html", LiveMap(x, 3 * np.arange(n), ids, [Column("length", length)]))
        assert " values beyond the scale's ends" in shown.text("about")
        assert "1 point without a value" in shown.text("about")
        shown.press("view")
        back = shown.saved()
        assert [row["id"] for row in back] == ids
        assert [int(row["row"]) for row in back] == list(range(0, 3 * n, 3))
        found = np.array([float(row["length"] or "nan") for row in back])
        np.testing.assert_allclose(found, length, atol=6e-4)
        np.testing.assert_array_equal(found[::125], length[::125])
        np.testing.assert_allclose([float(row["axis 2"]) for row in back], x[:, 1], atol=6e-4)
