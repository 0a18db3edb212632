"""What a person sees while a run goes on: stages, time left, and a terminal left as it was."""

import io
import logging
import time

import pytest

from scalemani import progress
from scalemani.progress import LineReporter, TerminalReporter, reporting, terminal_reporter
from scalemani.words import duration


class Clock:
    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress.time, "monotonic", clock.monotonic)
    return clock


def test_lines_are_few_and_time_left_comes_from_the_pace(clock):
    file = io.StringIO()
    report = LineReporter(file)
    for done in range(101):
        report("geodesics", done, 100)
        clock.now += 1
    report("project", 0, 5)
    report("project", 5, 5)
    lines = file.getvalue().splitlines()
    assert lines[0] == "geodesics: 10 of 100, about 1 min 30 s left"
    assert lines[-2:] == ["geodesics: 1 min 40 s", "project: 0 s"]
    assert len(lines) == 11


def test_a_resumed_stage_is_timed_from_where_it_was_taken_up(clock):
    file = io.StringIO()
    report = LineReporter(file)
    report("geodesics", 900, 1000)
    clock.now += 20
    report("geodesics", 950, 1000)
    assert file.getvalue() == "geodesics: 950 of 1000, about 20 s left\n"


@pytest.mark.parametrize("kind", [LineReporter, TerminalReporter])
def test_a_stage_of_unknown_length_ends_when_its_length_is_known(kind):
    file = io.StringIO()
    report = kind(file)
    for done in range(3):
        report("solve", done, 0)
    assert "axes: " not in file.getvalue()
    report("solve", 3, 3)
    report("solve", 3, 3)
    report.close()
    assert file.getvalue().count("axes: 0 s") == 1


def test_a_terminal_gets_bars_that_go_away(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    file = Terminal()
    report = TerminalReporter(file)
    report("graph", 0, 4)
    report("graph", 2, 4)
    time.sleep(0.6)  # the bar is drawn four times a second
    report("geodesics", 1, 4)
    report.close()
    written = file.getvalue()
    assert "2/4" in written
    assert "graph: 1 s" in written
    hidden, shown = written.rfind("\x1b[?25l"), written.rfind("\x1b[?25h")
    assert -1 < hidden < shown, "the cursor is left hidden"


def test_without_a_terminal_lines_are_given(monkeypatch, capsys):
    assert isinstance(terminal_reporter(), LineReporter)
    terminal_reporter()("points", 1, 1)
    assert capsys.readouterr().err == "points: 0 s\n"


def test_closed_standard_error_gets_nothing_and_standard_output_neither(monkeypatch, capsys):
    monkeypatch.setattr(progress.sys, "stderr", None)
    terminal_reporter()("points", 1, 1)
    assert capsys.readouterr().out == ""


def test_a_reporter_is_closed_when_the_work_fails_and_a_callers_is_not(monkeypatch):
    closed = []

    class Reporter:
        def __call__(self, stage, done, total):
            raise AssertionError("nothing is reported")

        def close(self):
            closed.append(self)

    monkeypatch.setattr(progress, "terminal_reporter", Reporter)
    for given in (True, Reporter(), False):
        with pytest.raises(OSError, match="disk"), reporting(given) as report:
            made = report
            raise OSError("disk")
        assert (made in closed) == (given is True)
    assert len(closed) == 1
    made("graph", 1, 1)  # of False: says nothing


def test_durations():
    assert [duration(s) for s in (0, 59.4, 60, 3599, 3600)] == [
        "0 s",
        "59 s",
        "1 min 0 s",
        "59 min 59 s",
        "1 h 0 min",
    ]


def test_what_the_package_logs_is_said_while_progress_is_shown(capsys):
    """Such as that it compiles, during which no bar moves."""
    logger = logging.getLogger("scalemani")
    with reporting(True) as report:
        report("graph", 0, 1)
        logger.info("compiling, once per machine")
        report("graph", 1, 1)
    logger.info("not shown")
    assert capsys.readouterr().err == "compiling, once per machine\ngraph: 0 s\n"
