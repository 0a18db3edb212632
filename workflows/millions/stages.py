"""Seconds and memory by stage: takes the calls that report progress, gives a table."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from scalemani.progress import terminal_reporter

SAMPLED = 0.02  # seconds between looks at the memory


@dataclass
class Stage:
    """One row of the table.

    Attributes
    ----------
    seconds : float
    bytes : int
        Most that the process had resident of its own; pages of files, code among them, are the system's to take back.
    file_bytes : int
        Most of such pages.
    """

    name: str
    seconds: float = 0.0
    bytes: int = 0
    file_bytes: int = 0


class Stages:
    """Stages as they come; its :meth:`report` is what an estimator's ``progress`` takes.

    Parameters
    ----------
    rename : callable, optional
        Takes (stage, done, total), gives the stage's name in the table: one that is reported may be two there.

    Attributes
    ----------
    rows : list of Stage
    start_bytes : int
        Of the process's own, before any of them.
    """

    def __init__(self, rename: Callable[[str, int, int], str] = lambda stage, done, total: stage) -> None:
        self.rows: list[Stage] = []
        self.rename = rename
        self._talk, self._whole, self._began = terminal_reporter(), False, 0.0
        self._process, self._ended = psutil.Process(), threading.Event()
        self.start_bytes = self._held()[0]
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def report(self, stage: str, done: int, total: int) -> None:
        """A stage is at `done` of `total`."""
        self._talk(stage, done, total)
        if not self._whole:
            name = self.rename(stage, done, total)
            if not self.rows or self.rows[-1].name != name:
                self._begin(name)

    @contextmanager
    def whole(self, name: str) -> Iterator[None]:
        """All that happens inside is one stage, whatever is reported."""
        self._begin(name)
        self._whole = True
        try:
            yield
        finally:
            self._whole = False
            self._end()

    @contextmanager
    def parts(self, first: str) -> Iterator[None]:
        """What is reported inside are stages; what comes before is the first."""
        self._begin(first)
        try:
            yield
        finally:
            self._end()

    def close(self) -> None:
        """No more looks at the memory; the terminal as it was."""
        self._ended.set()
        self._thread.join()
        self._talk.close()

    def records(self) -> list[dict[str, Any]]:
        """The rows as JSON values."""
        return [vars(row) for row in self.rows]

    def _begin(self, name: str) -> None:
        self._end()
        self.rows.append(Stage(name))
        self._began = time.perf_counter()
        self._look()

    def _end(self) -> None:
        if self._began:
            self._look()
            self.rows[-1].seconds = time.perf_counter() - self._began
        self._began = 0.0

    def _look(self) -> None:
        own, of_files = self._held()
        if self._began:
            row = self.rows[-1]
            row.bytes, row.file_bytes = max(row.bytes, own), max(row.file_bytes, of_files)

    def _held(self) -> tuple[int, int]:
        """Bytes of the process's own, and in pages of files: Linux alone tells them apart."""
        info = self._process.memory_info()
        of_files = getattr(info, "shared", 0)
        return info.rss - of_files, of_files

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLED):
            self._look()


def stage_table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and lines."""
    lines = [
        [row["name"], f"{row['seconds']:,.1f}", megabytes(row["bytes"]), megabytes(row["file_bytes"])] for row in rows
    ]
    return ["", "seconds", "memory, MB", "pages of files, MB"], lines


def megabytes(number: float) -> str:
    return f"{number / 1e6:,.0f}"


def disk_bytes(place: Path) -> int:
    """Of all files under a folder."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
