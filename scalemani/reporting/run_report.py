"""Report of a run: takes a finished store and columns to colour by, gives one page.

D is not read: the rows of the sampled points are computed again from the graph, which is less work at any size. Where
D itself was given there is no graph, and the rows are taken from the store, if it has them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.geodesics import shared_paths
from scalemani.quality import residual_variances
from scalemani.reporting.colouring import colouring
from scalemani.reporting.page import Section, page
from scalemani.reporting.sample import Sample, sampled_points
from scalemani.reporting.sections import Findings, sections, title
from scalemani.run import Run

__all__ = ["run_page"]

Report = Callable[[str, int, int], None]
SOURCES = 32  # rows that are searched at once


def run_page(
    run: Run,
    columns: Sequence[tuple[str, Any]] = (),
    *,
    rows: int | None = None,
    seed: int = 0,
    name: str | None = None,
    report: Report = lambda stage, done, total: None,
) -> str:
    """The page of a run.

    Parameters
    ----------
    run : Run
    columns : sequence of (name, values)
        What colours the map: numbers, or text for categories, one a row of the fit; a picture each.
    rows : int, optional
        Points sampled for comparisons of distances.
    seed : int
        Of the sample.
    name : str, optional
        What the run is called on the page; its path unless given.
    report : callable
        Takes (stage, done, total).

    Returns
    -------
    str
        HTML; the same run gives the same page.

    Raises
    ------
    ScalemaniError
        If a column has another length, or `rows` or `seed` is no count.
    """
    colourings = [colouring(column, values) for column, values in columns]
    chosen = sampled_points(run.spectrum["n_vertices"], rows, seed)
    sample = _sample(run, chosen, report)
    coordinates = run.embedding()
    kept = np.flatnonzero(run.vertex >= 0)
    few = None if sample is None else sample.among_fewer(seed)
    findings = Findings(
        name=run.store.path if name is None else name,
        method=str(run.stages["fit"]["estimator"]),
        spectrum=run.spectrum,
        parameters=run.parameters,
        versions=run.store.document["versions"],
        coordinates=coordinates[kept],
        n_dropped_rows=len(coordinates) - len(kept),
        sample=sample,
        few=few,
        residual_variances=None if few is None else residual_variances(few.geodesic, few.points, few.rows).tolist(),
    )
    total = 4 + max(1, len(colourings))
    parts: list[Section] = []
    for part in sections(findings, [one.of(kept) for one in colourings]):
        parts.append(part)
        report("pictures", min(len(parts), total), total)
    return page(title(findings), "", parts, f"Made by scalemani {__version__} from {findings.name}")


def _sample(run: Run, chosen: NDArray[np.int64], report: Report) -> Sample | None:
    """Distances of the chosen vertices to all; None where there are no pairs or D was given and is gone."""
    first = np.unique(run.vertex, return_index=True)[1]
    vertices = run.vertex[first]
    points = run.embedding()[first[vertices >= 0]]  # a row of the user's for each vertex, in their order
    if len(points) < 3:
        return None
    parts = []
    for found in _rows(run, chosen):
        parts.append(found)
        report("distances", sum(map(len, parts)), len(chosen))
    if not parts:
        return None
    scale = np.float32(run.stages["graph"]["scale"])
    return Sample(chosen, np.concatenate(parts) * scale, points)


def _rows(run: Run, vertices: NDArray[np.int64]) -> Iterator[NDArray[np.float32]]:
    """Rows of D, a few at a time, in the unit of the tiles."""
    given = run.stages["data"]["fields"]["kind"] == "geodesic"
    if given and not run.store.has_distances:
        return
    for at in range(0, len(vertices), SOURCES):
        some = vertices[at : at + SOURCES]
        if given:
            yield run.store.read_rows(some)
        else:
            yield geodesic_rows(shared_paths(run.store.path, run.store.document["id"]), some)
