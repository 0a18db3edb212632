"""The shell draws and compares what the library does, into the kind of file that a name asks for."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from scalemani import Isomap, compare, load
from scalemani.formats.points import open_points
from scalemani.report import drawing


@pytest.fixture
def days(files, monkeypatch):
    """Two fits with ids, of which 100 rows are in both; few pixels do."""
    monkeypatch.setattr(drawing, "DPI", 40)
    frame = pd.read_csv("train.csv", index_col="who")
    frame.iloc[20:].to_csv("later.csv")
    Isomap(n_neighbors=8, store="a.zarr").fit(frame)
    Isomap(n_neighbors=8, store="b.zarr").fit(frame.iloc[20:])
    pd.DataFrame({"kind": ["a", "b"] * 60, "x": np.arange(120) / 7}).to_csv("of.csv", index=False)
    return files


@pytest.mark.slow
def test_a_picture_has_the_kind_that_its_name_says(days, program):
    for out, begin, more in (
        ("m.png", b"\x89PNG", "--color of.csv:kind --project test.csv --id-column who"),
        ("m.svg", b"<?xml", "--colour of.csv:x --axes 2,1"),
        ("m.pdf", b"%PDF", "--axes 2"),
        ("s.png", b"\x89PNG", "--what spectrum"),
        ("r.png", b"\x89PNG", "--what residual-variance"),
        ("d.png", b"\x89PNG", "--what shepard"),
    ):
        code, said, err = program(f"plot a.zarr {out} {more}")
        assert code == 0 and said.startswith(f"{out}: "), err
        assert Path(out).read_bytes().startswith(begin)
    assert imread("m.png").std() > 0.02


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("m.jpg", "m.jpg: a picture is a .png, .svg or .pdf; end the name so"),
        ("m.png --axes 1,3", "--axes 1,3: a.zarr has 2 axes; give one or two of 1 to 2"),
        ("m.png --axes 1,1", "--axes 1,1: a.zarr has 2 axes"),
        ("m.png --what spectrum --axes 1", "--axes is for the map: leave it out with --what spectrum"),
        ("m.png --what shepard --color of.csv:x", "--color is for the map"),
        ("m.png --id-column who", "--id-column says how a file of --project is read"),
        ("m.png --delimiter ;", "--delimiter says how a file of --project is read"),
        ("m.png --color of.csv:height", "height"),
        ("a.zarr/m.png", "a.zarr"),
        ("there.png", "there.png exists; give --overwrite"),
    ],
)
def test_what_can_not_be_drawn_is_said_in_one_line_and_nothing_is_made(days, program, words, said):
    (days / "there.png").write_text("mine")
    code, out, err = program(f"plot a.zarr {words}".replace(";", "';'"))
    assert code == 2 and out == "" and said in err and len(err.splitlines()) == 1
    assert (days / "there.png").read_text() == "mine" and not list(days.glob("**/m.*"))


def test_two_stores_are_compared(days, program):
    code, out, _ = program("compare a.zarr b.zarr --picture both.png --aligned b.csv")
    found = compare("a.zarr", "b.zarr")
    assert code == 0 and "100 on both maps, matched by their ids" in out
    assert "".join(out.split()) == "".join(f"{found}picture both.png laid upon b.csv".split())
    written = open_points("b.csv", id_column="id")
    assert written.ids == [f"train-{i}" for i in range(20, 120)]
    np.testing.assert_array_equal(written.values, found.aligned)
    assert imread("both.png").std() > 0.02
    assert json.loads(program("compare a.zarr b.zarr --json")[1]) == found.record()
    for words, said in (("--picture both.png", "both.png exists"), ("--aligned a.zarr/y.csv", "not apart")):
        code, _, err = program(f"compare a.zarr b.zarr {words}")
        assert code == 2 and said in err


def test_new_rows_are_placed_on_another_days_map(days, program):
    code, out, _ = program("project b.zarr test.csv y.csv --id-column who --align-to a.zarr")
    assert code == 0 and "aligned to a.zarr: 100 rows in common, 0.1" in out
    expected = load("b.zarr").transform(pd.read_csv("test.csv", index_col="who"), align_to="a.zarr")
    np.testing.assert_array_equal(open_points("y.csv", id_column="who").values, expected)
    assert program("project b.zarr test.csv z.csv --id-column who --align-to none.zarr")[0] == 2
    assert not (days / "z.csv").exists()
