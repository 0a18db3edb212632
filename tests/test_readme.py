"""README's code and commands run as they stand."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from scalemani.demonstration.datasets import swiss_roll
from scalemani.demonstration.experiment import run_demo
from scalemani.errors import AdditiveConstantWarning
from scalemani.terminal.cli import cli
from scalemani.terminal.console import run

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def block(language, word):
    """The one fenced block of a language that holds a word."""
    (found,) = [text for text in re.findall(rf"```{language}\n(.*?)```", README, re.S) if word in text]
    return found


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_five_lines_of_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"X": swiss_roll(150, random_state=0).points, "new_points": swiss_roll(9, random_state=1).points}
    lines = block("python", "KernelIsomap")
    assert lines.count("\n") == 5
    exec(lines, names)
    assert names["model"].embedding_.shape == (150, 2)


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """The folder that the demo leaves, in which README has its readers type."""
    monkeypatch.setattr("scalemani.demonstration.experiment.png", lambda figure: b"\x89PNG")
    with pytest.warns(AdditiveConstantWarning):
        run_demo(tmp_path / "scalemani-demo", n_train=150, n_test=9)
    monkeypatch.chdir(tmp_path / "scalemani-demo")


def test_five_lines_of_shell(demo, capsys):
    assert Path("report.html").exists()
    lines = block("bash", "scalemani export").splitlines()
    assert len(lines) == 5
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "scalemani"
        assert run(cli, arguments) == 0, capsys.readouterr().err
    # The first column is of names.
    assert np.loadtxt("coordinates.csv", delimiter=",", skiprows=1, usecols=(1, 2)).shape == (9, 2)


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!https)([^)]+)\)", README)
    assert len(targets) >= 5
    for target in targets:
        assert (Path(__file__).parent.parent / target).exists(), target
