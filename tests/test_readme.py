"""README's code and commands run as they stand."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from scalemani import load
from scalemani.demonstration import experiment
from scalemani.demonstration.datasets import swiss_roll
from scalemani.errors import AdditiveConstantWarning
from scalemani.reporting import map_section, sections
from scalemani.terminal.cli import cli
from scalemani.terminal.console import run

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def block(language, word):
    """The one fenced block of a language that holds a word."""
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", README, re.S) if word in text]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the demo leaves, without its pictures."""
    place = tmp_path_factory.mktemp("readme") / "scalemani-demo"
    with pytest.MonkeyPatch.context() as patched, pytest.warns(AdditiveConstantWarning):
        patched.setattr(experiment, "png", lambda figure: b"\x89PNG")
        experiment.run_demo(place, n_train=150, n_test=9)
    return place


@pytest.fixture
def demo(folder, monkeypatch):
    """In the folder in which README has its readers type; pictures take time and are not looked at."""
    for module in (sections, map_section):
        monkeypatch.setattr(module, "png", lambda figure: b"\x89PNG")
    monkeypatch.chdir(folder)


def test_five_lines_of_python(demo):
    names = {"numpy": np, "new_points": swiss_roll(9, random_state=1).points}
    exec(re.search(r"`(X = .*?)`", README)[1], names)
    lines = block("python", "Isomap")
    assert lines.count("\n") == 5
    exec(lines, names)
    assert names["model"].embedding_.shape == (150, 2)


def obeyed(lines, capsys):
    """What the program says to lines of shell, none of which fails."""
    said = []
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "scalemani"
        code = run(cli, arguments)
        out, err = capsys.readouterr()
        assert code == 0, err
        said.append(out)
    return "".join(said)


def test_five_lines_of_shell(demo, capsys):
    assert Path("report.html").exists()
    lines = block("bash", "scalemani export").splitlines()
    assert len(lines) == 5
    said = obeyed(lines, capsys)
    # The first column is of names.
    assert np.loadtxt("coordinates.csv", delimiter=",", skiprows=1, usecols=(1, 2)).shape == (9, 2)
    assert "replaced" not in said
    said = obeyed(block("bash", "--correction cailliez").splitlines(), capsys)
    assert "replaced         the result there with correction none" in said
    assert (load("isomap.model.zarr").spectrum_["correction"], load("run.zarr").spectrum_["correction"]) == (
        "none",
        "cailliez",
    )


@pytest.mark.slow
def test_six_lines_of_shell_by_landmarks(demo, capsys):
    lines = block("bash", "lm.zarr").replace("--landmarks 300", "--landmarks 60").splitlines()
    assert len(lines) == 6
    assert "60 by maxmin; no point is farther than" in obeyed([line.partition("  #")[0] for line in lines], capsys)
    assert np.loadtxt("placed.csv", delimiter=",", skiprows=1, usecols=(1, 2)).shape == (9, 2)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!https)([^)]+)\)", README)
    assert len(targets) >= 5
    for target in targets:
        assert (Path(__file__).parent.parent / target).exists(), target
