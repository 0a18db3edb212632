"""Progress by stage: bars on a terminal or quiet lines, on standard error, from ``report(stage, done, total)`` calls.

A stage begins with its first report and ends when ``done`` reaches ``total``, or with the next stage's first report. A
total of 0 means that nobody knows it (how many reads a solver takes).
"""

import atexit
import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from scalemani.words import duration

_BETWEEN_LINES = 10.0  # seconds
Progress = Callable[[str, int, int], None]  # a step's name, what is done of it, of how much
_SPOKEN = {"neighbors": "neighbours", "solve": "axes"}  # names that people read otherwise


def no_progress(name: str, done: int, total: int) -> None:
    """Tell nobody."""


def terminal_reporter() -> "TerminalReporter | LineReporter":
    """The library's own progress, as ``progress=True`` asks for: bars on a terminal, lines elsewhere."""
    return TerminalReporter() if sys.stderr is not None and sys.stderr.isatty() else LineReporter()


@contextlib.contextmanager
def reporting(progress: Any) -> Iterator[Progress]:
    """The report function that an estimator's ``progress`` asks for, closed at the end of the block.

    progress: True makes a :func:`terminal_reporter`, which is closed however the block ends: a failure leaves no bar
        and no hidden cursor; what the package logs meanwhile (a compilation) is said too. A callable is its owner's to
        close. False gives one that says nothing.

    >>> with reporting(lambda *stage: print(stage)) as report:
    ...     report("geodesics", 1, 4)
    ('geodesics', 1, 4)
    """
    if callable(progress):
        yield progress
    elif not progress:
        yield no_progress
    else:
        reporter, logger, teller = terminal_reporter(), logging.getLogger("scalemani"), _Teller()
        level = logger.level
        logger.addHandler(teller)
        logger.setLevel(logging.INFO)
        try:
            yield reporter
        finally:
            logger.setLevel(level)
            logger.removeHandler(teller)
            reporter.close()


class _Teller(logging.Handler):
    """Says what is logged on standard error as it is now: a bar that is shown there lets lines pass above it."""

    def emit(self, record: logging.LogRecord) -> None:
        stream = sys.stderr
        if stream is not None:
            print(record.getMessage(), file=stream, flush=True)


class TerminalReporter:
    """One bar a stage with the share done and the time left; a finished stage leaves one line."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._bars: Any = None
        self._task: Any = None
        self._stage: str | None = None
        self._started = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        stage = _SPOKEN.get(stage, stage)
        if stage != self._stage:
            self._finish()
            self._begin(stage, total)
        if self._bars is None:
            return
        self._bars.update(self._task, completed=done, total=total or None)
        if 0 < total <= done:
            self._finish()

    def close(self) -> None:
        """Leave the terminal as it was; a stage that was not finished loses its bar."""
        atexit.unregister(self.close)
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def _begin(self, stage: str, total: int) -> None:
        # rich takes 0.1 s to import, which a silent run need not pay.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._stage, self._started = stage, time.monotonic()
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(file=self._file, stderr=self._file is None),
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._bars.add_task(stage, total=total or None)
        self._bars.start()
        # A failure between two reports would leave the cursor hidden.
        atexit.register(self.close)

    def _finish(self) -> None:
        if self._bars is None:
            return
        console = self._bars.console
        self.close()
        console.print(f"{self._stage}: {duration(time.monotonic() - self._started)}", highlight=False)


class LineReporter:
    """A line when a stage ends, and one every ten seconds while it runs, with the time left."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self._stage: str | None = None
        self._started = self._spoken = 0.0
        self._first = 0
        self._open = False

    def __call__(self, stage: str, done: int, total: int) -> None:
        now, stage = time.monotonic(), _SPOKEN.get(stage, stage)
        if stage != self._stage:
            # What a resumed run finds done says nothing about speed.
            self._stage, self._started, self._spoken, self._first, self._open = stage, now, now, done, True
        if not self._open:
            return
        if 0 < total <= done:
            self._open = False
            self._say(f"{stage}: {duration(now - self._started)}")
        elif now - self._spoken >= _BETWEEN_LINES and done > self._first:
            self._spoken = now
            if total == 0:
                self._say(f"{stage}: {done} done after {duration(now - self._started)}")
                return
            left = (now - self._started) * (total - done) / (done - self._first)
            self._say(f"{stage}: {done} of {total}, about {duration(left)} left")

    def close(self) -> None:
        """Nothing to undo: lines stay."""

    def _say(self, line: str) -> None:
        # sys.stderr is looked up now, since it may have been replaced since the start.
        file = self._file or sys.stderr
        if file is not None:  # closed at the start of the process; print would take standard output
            print(line, file=file, flush=True)
