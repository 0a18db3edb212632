"""The pages in docs/: short, linked, reached from the index; their blocks run in order beside the demo's tables."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from documents import REASONS, ROOT, anchors, blocks, check_command, commands, links

from scalemani.demo import ROLL, swiss_roll
from scalemani.formats.outputs import write_coordinates
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

PAGES = sorted((ROOT / "docs").glob("*.md"))
LINKED = [*PAGES, *(ROOT / "workflows").glob("*.md"), *ROOT.glob("*.md")]
MOST_WORDS = 1500
RUN = [page for page in PAGES if any(not block.reason and block.language for block in blocks(page))]
RUN = [page for page in RUN if page.name not in {"methods.md", "store-format.md", "metrics.md"}]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in links(page):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https" and re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), link
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists(), link
        assert not parts.fragment or parts.fragment in anchors(target), link


def test_every_page_is_short_and_in_the_index():
    index = {(ROOT / "docs" / link.split("#")[0]).resolve() for link in links(ROOT / "docs/README.md")}
    for page in PAGES:
        assert page in index or page.name == "README.md", page
        lines = page.read_text(encoding="utf-8").splitlines()
        if page.name == "metrics.md":
            lines = [line for line in lines if not line.startswith("|")]
        assert len(" ".join(lines).split()) < MOST_WORDS or page.name == "store-format.md", page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_there_and_blocks_that_do_not_run_say_why(page):
    for words in commands(page):
        check_command(words)
    reasons = {block.reason for block in blocks(page) if block.reason}
    assert reasons <= REASONS


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """The current folder is a new one with the tables that `scalemani demo` leaves beside its report (test_demo.py)."""
    fitted, new = swiss_roll(1200, **ROLL, random_state=0), swiss_roll(3000, **ROLL, random_state=1_000_003)
    for name, values, heading, prefix in (
        ("points", fitted.points, ("x", "y", "z"), "points"),
        ("new", new.points, ("x", "y", "z"), "new"),
        ("colours", fitted.parameters, ("length", "width"), "points"),
    ):
        ids = [f"{prefix}{row}" for row in range(len(values))]
        write_coordinates(tmp_path / f"{name}.csv", values, ids=ids, id_name="name", names=heading)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def run_blocks(page, *, long):
    """In this process, so that nothing is imported or compiled anew; what another program does, in a shell."""
    for block in blocks(page):
        if block.reason or (block.long and not long):
            continue
        if block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), {"__name__": "__main__"})
            continue
        for line in block.text.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "scalemani" and not set(">|;&$") & set(line.split("#")[0]):
                assert run(cli, words[1:]) == 0, line
            elif words:
                _in_a_shell(line)


def _in_a_shell(line):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    subprocess.run(["bash", "-euo", "pipefail", "-c", line], env=env, check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_blocks_run_in_order(page, tables):
    run_blocks(page, long=False)


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page in RUN if any(block.long for block in blocks(page))])
def test_long_blocks_run_too(page, tables):
    run_blocks(page, long=True)
