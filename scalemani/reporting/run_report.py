"""Report of a run: takes a finished store and columns to colour by, gives one page.

D is not read: the rows of the sampled points are found again from the graph, which is less work than a read for any
sample. Where D itself was given there is no graph, and they come from the store, if it has them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.dimension import suggested_dimension
from scalemani.quality import quality_account
from scalemani.reporting.colouring import colouring
from scalemani.reporting.page import Section, page
from scalemani.reporting.sample import Sample, sample_size
from scalemani.reporting.sections import Findings, lead, sections, title
from scalemani.run import Run

__all__ = ["run_page"]

Report = Callable[[str, int, int], None]
SAFE = 1e30  # float32 holds distances of this size, and of its inverse


def run_page(
    run: Run,
    columns: Sequence[tuple[str, Any]] = (),
    *,
    rows: int | None = None,
    seed: int = 0,
    name: str | None = None,
    report: Report = lambda stage, done, total: None,
) -> str:
    """The page of a run; the same run gives the same page.

    `columns`, of a name and a value for each row of the fit, colour a map each: numbers, or text for categories. `rows`
    points (by their number at most 512) are sampled to compare distances.
    """
    kept = np.flatnonzero(run.vertex >= 0)
    wanted = sample_size(len(kept)) if rows is None else rows
    recorder = _Recorder(run, kept, lambda done: report("distances", done, min(wanted, len(kept))))
    landmarks = run.landmarks
    known = run.store.has_distances or run.stages["data"]["fields"]["kind"] != "geodesic"
    quality = quality_account(recorder, n_rows=wanted, seed=seed) if known and len(kept) > 2 else None
    histogram = run.distance_histogram
    findings = Findings(
        name=run.store.path if name is None else name,
        spectrum=run.spectrum,
        parameters=run.parameters,
        versions=run.store.document["versions"],
        coordinates=recorder.embedding_[kept],
        n_dropped_rows=len(run.vertex) - len(kept),
        sample=None if quality is None else recorder.sample(),
        quality=quality,
        histogram=histogram,
        dimension={} if histogram is None else suggested_dimension(histogram),
        landmarks=None if landmarks is None else np.searchsorted(kept, landmarks),
    )
    colourings = [colouring(column, values).of(kept) for column, values in columns]
    parts: list[Section] = []
    total = 5 + max(1, len(colourings))
    for part in sections(findings, colourings):
        parts.append(part)
        report("pictures", len(parts), total)
    return page(title(findings), lead(findings), parts, f"Made by scalemani {__version__} from {findings.name}")


class _Recorder:
    """A model that keeps what it is asked for: the rows of which the quality is measured are those that are drawn."""

    def __init__(self, run: Run, kept: NDArray[np.int64], report: Callable[[int], None]) -> None:
        self.embedding_ = run.embedding()
        self.n_neighbors = run.parameters["n_neighbors"]
        self._run, self._kept, self._report = run, kept, report
        self._kind = np.float32 if 1 / SAFE < run.spectrum["median_distance"] < SAFE else np.float64
        self._rows: list[NDArray[np.int64]] = []
        self._distances: list[NDArray[np.floating[Any]]] = []

    def geodesics(self, rows: NDArray[np.int64], *, stored: bool) -> NDArray[np.float64]:
        """Rows of D, as the model gives them."""
        found = self._run.geodesics(rows, stored=stored)
        self._rows.append(np.searchsorted(self._kept, rows))
        self._distances.append(found[:, self._kept].astype(self._kind))
        self._report(sum(map(len, self._rows)))
        return found

    def sample(self) -> Sample:
        """All of them, among the rows with coordinates."""
        return Sample(np.concatenate(self._rows), np.concatenate(self._distances), self.embedding_[self._kept])
