"""The demo: takes a directory, gives the paper's experiment as printed figures, pictures and a page.

A noisy Swiss roll (noise variance 0.25) of 1,200 points is fitted with 4 neighbours and three
components by Isomap and by kernel Isomap, and 3,000 other points of it are projected into both.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigvalsh

from scalemani.bounds import two_digits
from scalemani.demonstration.datasets import Manifold, swiss_roll, write_table
from scalemani.demonstration.pictures import four_panels, spectra, unrolling
from scalemani.engine.places import named
from scalemani.errors import ScalemaniError
from scalemani.quality import residual_variance, residual_variances
from scalemani.reporting.drawing import png
from scalemani.reporting.page import Picture, Section, Table, page

__all__ = ["Outcome", "fit_both", "run_demo", "table"]

NOISE_VARIANCE = 0.25
N_NEIGHBORS = 4
N_COMPONENTS = 3
TITLES = {"Isomap": "isomap.zarr", "kernel Isomap": "kernel_isomap.zarr"}
PAIRS = 1000  # test points among which true and embedded distances are compared

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """One method on the roll.

    Attributes
    ----------
    spectrum : dict
        ``spectrum_`` of the model.
    train, test : ndarray, shapes (n, 3) and (l, 3)
        Coordinates of the training and of the test points.
    residual_variances : ndarray, shape (3,)
        1 - r² of geodesic against embedded distances over all training pairs, with 1, 2, 3 axes.
    test_residual_variance : float
        1 - r² of distances between true parameters against embedded distances of test points, 2 axes.
    kernel_eigenvalues : ndarray, shape (n,)
        Of the whole kernel matrix, rising.
    seconds : tuple of float
        Of the fit and of the projection.
    """

    spectrum: dict[str, Any]
    train: Array
    test: Array
    residual_variances: Array
    test_residual_variance: float
    kernel_eigenvalues: Array
    seconds: tuple[float, float]


def run_demo(
    out: str | Path,
    *,
    n_train: int = 1200,
    n_test: int = 3000,
    seed: int = 0,
    say: Callable[[str], Any] = lambda line: None,
    progress: Any = False,
) -> dict[str, Outcome]:
    """Run the experiment and write its report and pictures, and its points as ``points.csv`` and ``new.csv``.

    Where each of ``points.csv`` lies on the roll, the length along it and the width across, is in ``colours.csv``.

    Parameters
    ----------
    out : str or Path
        Directory; made if it is not there. Fits and pictures of an earlier demo in it are replaced.
    n_train, n_test, seed : int
    say : callable
        Takes each line of the summary.
    progress : bool or callable
        As the estimators take it.

    Raises
    ------
    ScalemaniError
        The directory can't be made.
    """
    place = Path(named(out, "out"))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScalemaniError(f"{out}: no directory can be made there ({error.strerror}); give another") from error
    train = swiss_roll(n_train, noise_variance=NOISE_VARIANCE, random_state=seed)
    test = swiss_roll(n_test, noise_variance=NOISE_VARIANCE, random_state=seed + 1_000_003)
    say(
        f"noisy Swiss roll: {n_train:,} training and {n_test:,} test points, "
        f"noise variance {NOISE_VARIANCE}, k = {N_NEIGHBORS}, {N_COMPONENTS} components"
    )
    for name, manifold in (("points", train), ("new", test)):
        write_table(place / f"{name}.csv", name, manifold.points)
    write_table(place / "colours.csv", "points", train.parameters, ("length", "width"))
    outcomes = fit_both(train, test, place, progress=progress)
    for line in aligned(*table(outcomes)):
        say(line)
    pictures = _pictures(train, test, outcomes)
    for name, picture in pictures.items():
        (place / f"{name}.png").write_bytes(picture.png)
    (place / "report.html").write_text(_page(train, test, outcomes, pictures), encoding="utf-8")
    say(f"report: {place / 'report.html'}")
    return outcomes


def fit_both(
    train: Manifold,
    test: Manifold,
    place: Path,
    *,
    n_neighbors: int = N_NEIGHBORS,
    n_components: int = N_COMPONENTS,
    progress: Any = False,
    **parameters: Any,
) -> dict[str, Outcome]:
    """Isomap and kernel Isomap on one data set, test points projected, by title.

    Parameters
    ----------
    train, test : Manifold
    place : Path
        Directory of the two stores; ones that are there are replaced.
    n_neighbors, n_components, progress, parameters
        Of both estimators.
    """
    from scalemani import Isomap, KernelIsomap

    outcomes = {}
    for (title, name), estimator in zip(TITLES.items(), (Isomap, KernelIsomap), strict=True):
        model = estimator(
            n_neighbors=n_neighbors,
            n_components=n_components,
            store=str(place / name),
            overwrite=True,
            progress=progress,
            **parameters,
        )
        started = time.perf_counter()
        fitted = np.asarray(model.fit_transform(train.points))
        between = time.perf_counter()
        projected = np.asarray(model.transform(test.points))
        ended = time.perf_counter()
        rows = np.arange(len(fitted))
        geodesic = np.asarray(model.geodesics(rows))
        some = slice(0, PAIRS)
        outcomes[title] = Outcome(
            spectrum=dict(model.spectrum_),
            train=fitted,
            test=projected,
            residual_variances=residual_variances(geodesic, fitted, rows),
            test_residual_variance=residual_variance(
                _distances(test.parameters[some]), _distances(projected[some, :2])
            ),
            kernel_eigenvalues=_kernel_eigenvalues(geodesic, model.additive_constant_),
            seconds=(between - started, ended - between),
        )
    return outcomes


def _distances(points: Array) -> Array:
    from scipy.spatial.distance import pdist

    return np.asarray(pdist(points))


def _kernel_eigenvalues(geodesic: Array, constant: float) -> Array:
    """All eigenvalues of K(c), dense: possible here, with 1,200 points."""
    squared = (geodesic + constant * (1 - np.eye(len(geodesic)))) ** 2
    squared = (squared + squared.T) / 2
    rows = squared.mean(axis=1)
    kernel = -0.5 * (squared - rows[:, None] - rows[None, :] + rows.mean())
    return np.asarray(eigvalsh(kernel))


def table(outcomes: dict[str, Outcome]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the comparison, a column a method."""
    n_axes = next(iter(outcomes.values())).train.shape[1]

    def row(name: str, cell: Callable[[Outcome], str]) -> list[str]:
        return [name, *(cell(outcome) for outcome in outcomes.values())]

    rows = [
        row("constant added", lambda o: f"{o.spectrum['additive_constant']:.4f}"),
        row("c* / median geodesic distance, about", lambda o: two_digits(o.spectrum["constant_over_median"])),
        row("least eigenvalue of the kernel", lambda o: f"{o.kernel_eigenvalues[0]:.4g}"),
    ]
    rows += [
        [f"eigenvalue {a + 1}", *(f"{o.spectrum['eigenvalues'][a]:.4g}" for o in outcomes.values())]
        for a in range(n_axes)
    ]
    rows += [
        [
            "residual variance, " + ("1 axis" if a == 0 else f"{a + 1} axes"),
            *(f"{o.residual_variances[a]:.5f}" for o in outcomes.values()),
        ]
        for a in range(n_axes)
    ]
    rows += [
        row("test points against the truth, 2 axes", lambda o: f"{o.test_residual_variance:.5f}"),
        row("reads of the distances", lambda o: f"{o.spectrum['n_passes']}"),
        row("seconds, fit and projection", lambda o: f"{o.seconds[0]:.1f} + {o.seconds[1]:.1f}"),
    ]
    return ["", *outcomes], rows


def aligned(headings: list[str], rows: list[list[str]]) -> list[str]:
    """A table as lines of text, the first column to the left and the others to the right.

    Examples
    --------
    >>> aligned(["", "a"], [["x", "10"], ["long", "2"]])
    ['       a', 'x     10', 'long   2']
    """
    widths = [max(len(row[j]) for row in [headings, *rows]) for j in range(len(headings))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(row[j].rjust(widths[j]) for j in range(1, len(row)))])
        for row in [headings, *rows]
    ]


def _pictures(train: Manifold, test: Manifold, outcomes: dict[str, Outcome]) -> dict[str, Picture]:
    length, test_length, name = train.parameters[:, 0], test.parameters[:, 0], train.names[0]
    coordinates = {title: (o.train, o.test) for title, o in outcomes.items()}
    figure = four_panels(train.points, test.points, length, test_length, coordinates, colour_name=name)
    constant = outcomes["kernel Isomap"].spectrum["additive_constant"]
    names = {"Isomap": "Isomap: K(0)", "kernel Isomap": f"kernel Isomap: K(c*), c* = {constant:.3f}"}
    values = {names[title]: o.kernel_eigenvalues for title, o in outcomes.items()}
    projected = {title: o.test for title, o in outcomes.items()}
    return {
        "figure1": Picture(
            png(figure),
            "(a) training points and (b) test points, coloured by their true length along the roll; "
            "(c), (d) the first two axes, training points in grey and projected test points in colour.",
            "Two Swiss rolls in space; below them two flat maps in which the colour runs along axis 1.",
        ),
        "spectra": Picture(
            png(spectra(values)),
            "All eigenvalues of the two kernel matrices, on a scale that is linear near 0. The constant "
            "lifts the negative ones to 0 and above.",
            "Falling eigenvalues; the left picture ends in negative ones, the right picture has none.",
        ),
        "unrolling": Picture(
            png(unrolling(test_length, projected, name)),
            "Axis 1 of the projected test points against what it should recover.",
            "Two clouds that follow a line.",
        ),
    }


_SPECTRA_TEXT = (
    "Isomap's matrix of squared geodesic distances, doubly centred, is no kernel: some of its eigenvalues "
    "are negative, so that no set of points has these distances. Kernel Isomap adds to every distance "
    "between different points the least constant c* that makes it one."
)
_READING_TEXT = [
    "Residual variance is 1 - r², r the correlation of geodesic with embedded distances over pairs of "
    "points: 0 is a perfect map. For test points the true distances on the flat sheet are known, and the "
    "embedded ones are compared with those.",
    "Eigenvalues of kernel Isomap contain the shift c*²/2 in every direction: they are larger than "
    "Isomap's without carrying more geometry.",
]


def _comparison(outcomes: dict[str, Outcome]) -> list[str]:
    """A sentence on the two methods, where the figures bear it out."""
    plain, kernel = outcomes["Isomap"], outcomes["kernel Isomap"]
    ratio = kernel.spectrum["constant_over_median"]
    if ratio <= 1 or kernel.residual_variances[-1] <= plain.residual_variances[-1]:
        return []
    return [
        f"Here c* is about {two_digits(ratio)} times the median geodesic distance, so that most of the corrected "
        "distances is the constant, and kernel Isomap pays for being a kernel with a larger residual variance. Sparse "
        "graphs, whose paths zigzag, and shortcut edges both raise c*."
    ]


def _page(train: Manifold, test: Manifold, outcomes: dict[str, Outcome], pictures: dict[str, Picture]) -> str:
    sections = [
        Section("Figures", tables=[Table(*table(outcomes))]),
        Section("Embeddings and projections", pictures=[pictures["figure1"], pictures["unrolling"]]),
        Section("Spectra", [_SPECTRA_TEXT], pictures=[pictures["spectra"]]),
        Section("How to read it", [*_READING_TEXT, *_comparison(outcomes)]),
    ]
    lead = (
        f"{len(train.points):,} points of a noisy Swiss roll are unrolled by Isomap and by kernel Isomap "
        f"(Choi and Choi), and {len(test.points):,} points that neither has seen are placed in both maps."
    )
    return page("Kernel Isomap on a noisy Swiss roll", lead, sections, "Made by: scalemani demo")
