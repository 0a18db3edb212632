"""The demo: an experiment on a Swiss roll, as printed figures, pictures and a page in a directory.

A roll of one turn and 1,200 points is fitted with 30 neighbours and two components by Isomap and by kernel Isomap, and
3,000 other points of it are placed in both maps. The paper's own roll (Choi and Choi, "Robust kernel Isomap", Pattern
Recognition 40, 2007) has more turns, more noise and 4 neighbours (``workflows/paper_swiss_roll.py``): there the
constant is 4 times the median distance and bends the map.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh

from scalemani.aliases import F64, Floats
from scalemani.embedding.quality import residual_variance, residual_variances
from scalemani.errors import ScalemaniError, ScalemaniWarning
from scalemani.formats.outputs import write_coordinates
from scalemani.kernel.far_rows import RANK_TOLERANCE
from scalemani.report.drawing import COLORS, GRAY, NEGATIVE, POSITIVE, Figure, new_figure, png
from scalemani.report.page import Picture, Section, Table, page
from scalemani.storage.files import named
from scalemani.words import aligned as aligned
from scalemani.words import two_digits


@dataclass(frozen=True)
class Manifold:
    """Points (n, 3) of a known surface, and where each lies on it before noise: lengths (n, 2) called `names`."""

    points: F64
    parameters: F64
    names: tuple[str, str]


def swiss_roll(
    n: int, *, noise_variance: float = 0.0, turns: float = 1.5, even: bool = False, random_state: Any = None
) -> Manifold:
    """A spiral sheet: (t cos t, h, t sin t), t uniform in [1.5 π, 4.5 π], h uniform in [0, 21].

    The sizes are those of most published rolls (and of scikit-learn). The parameters are arc length
    from the inner edge, ``s(t) = (t sqrt(1 + t²) + asinh t) / 2`` less its value there, and h: the
    roll is a flat sheet, so geodesic distances are straight lines between them.

    noise_variance: Of the Gaussian noise added to each coordinate; the paper's noisy roll has 0.25.
    turns: Of the spiral: t ends at (1.5 + 2 `turns`) π.
    even: As many points on each piece of the sheet; with t uniform they are three times as dense inside as outside.
    random_state: As ``numpy.random.default_rng`` takes it.

    >>> roll = swiss_roll(5, random_state=0)
    >>> roll.points.shape, roll.parameters.shape
    ((5, 3), (5, 2))
    """
    rng = np.random.default_rng(random_state)
    inner, along = 1.5 * np.pi, rng.random(n)
    t = inner * (1 + 4 * turns / 3 * along)
    if even:
        steps = np.linspace(inner, inner + 2 * np.pi * turns, 10_000)
        lengths = _arc_length(steps)
        t = np.interp(lengths[0] + along * (lengths[-1] - lengths[0]), lengths, steps)
    height = 21 * rng.random(n)
    surface = np.column_stack([t * np.cos(t), height, t * np.sin(t)])
    noise = np.sqrt(noise_variance) * rng.standard_normal((n, 3))
    length = _arc_length(t) - _arc_length(np.array(inner))
    return Manifold(surface + noise, np.column_stack([length, height]), ("length along the roll", "height"))


def _arc_length(t: F64) -> F64:
    return 0.5 * (t * np.sqrt(1 + t * t) + np.arcsinh(t))


def four_panels(
    train: Floats,
    test: Floats,
    train_color: Floats,
    test_color: Floats,
    embeddings: Mapping[str, tuple[Floats, Floats]],
    *,
    color_name: str = "",
) -> Figure:
    """Training points, test points, and two embeddings with the test points in them.

    Points are (n, 3) and (l, 3), a colour a row; `embeddings` has coordinates (n, p) and (l, p) by title, of which the
    first two axes are drawn.
    """
    figure = new_figure(11, 8.2)
    low, high = float(train_color.min()), float(train_color.max())
    dots: dict[str, Any] = {"cmap": COLORS, "vmin": low, "vmax": high, "linewidths": 0}
    for place, (points, color, name) in enumerate(
        [(train, train_color, "training"), (test, test_color, "test")], start=1
    ):
        axes: Any = figure.add_subplot(2, 2, place, projection="3d")
        axes.scatter(points[:, 0], points[:, 1], points[:, 2], c=color, s=6, **dots)
        axes.set_title(f"({'ab'[place - 1]}) {len(points):,} {name} points")
        axes.view_init(elev=12, azim=-72)
        axes.set_box_aspect(np.ptp(points, axis=0))
        axes.tick_params(labelsize=7)
    for place, (title, (fitted, projected)) in enumerate(embeddings.items(), start=3):
        flat: Any = figure.add_subplot(2, 2, place)
        flat.scatter(fitted[:, 0], fitted[:, 1], color=GRAY, s=26, linewidths=0, label="training")
        drawn = flat.scatter(projected[:, 0], projected[:, 1], c=test_color, s=3, label="test", **dots)
        flat.set_title(f"({'abcd'[place - 1]}) {title}: test points projected")
        flat.set_xlabel("axis 1")
        flat.set_ylabel("axis 2")
        flat.set_aspect("equal", adjustable="datalim")
        flat.legend(loc="upper right", fontsize=8, markerscale=1.5)
        if place == 4:
            figure.colorbar(drawn, ax=figure.axes, shrink=0.6, label=color_name)
    return figure


def spectra(eigenvalues: Mapping[str, Floats]) -> Figure:
    """Whole spectra side by side by title, falling, negative eigenvalues in red."""
    figure = new_figure(11, 3.8)
    for place, (title, values) in enumerate(eigenvalues.items(), start=1):
        falling = np.sort(np.asarray(values, dtype=np.float64))[::-1]
        # Eigenvalues within rounding of 0 belong to neither sign.
        zero = 1e-6 * float(np.abs(falling).max())
        negative = falling < -zero
        order = np.arange(1, falling.size + 1)
        axes: Any = figure.add_subplot(1, len(eigenvalues), place)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.plot(order[~negative], falling[~negative], ".", ms=3, color=POSITIVE, label="positive or 0")
        if negative.any():
            label = f"negative: {int(negative.sum())} of {falling.size}, least {falling[-1]:.3g}"
            axes.plot(order[negative], falling[negative], ".", ms=3, color=NEGATIVE, label=label)
        axes.set_yscale("symlog", linthresh=1e-3 * float(np.abs(falling).max()))
        axes.set_title(title)
        axes.set_xlabel("number")
        axes.set_ylabel("eigenvalue")
        axes.legend(fontsize=8)
    return figure


def unrolling(parameters: Floats, coordinates: Mapping[str, Floats], name: str) -> Figure:
    """A known parameter of the test points against their first coordinate: a line is a perfect unrolling."""
    figure = new_figure(11, 3.8)
    for place, (title, projected) in enumerate(coordinates.items(), start=1):
        axes: Any = figure.add_subplot(1, len(coordinates), place)
        axes.plot(parameters, projected[:, 0], ".", ms=2, color=POSITIVE)
        axes.set_title(title)
        axes.set_xlabel(name)
        axes.set_ylabel("axis 1 of the test points")
    return figure


ROLL: dict[str, Any] = {"turns": 1, "even": True}
N_NEIGHBORS = 30  # paths zigzag little, and none of these edges leaps from one turn to the next
N_COMPONENTS = 2
TITLES = {"Isomap": "isomap.zarr", "kernel Isomap": "kernel_isomap.zarr"}
GOOD = 0.99  # correlation of what the map recovers with the truth
PAIRS = 1000  # test points among which true and embedded distances are compared


@dataclass(frozen=True)
class Outcome:
    """One method on the roll.

    train, test (n, p) and (l, p): Coordinates of the training and of the test points.
    residual_variances (p,): 1 - r² of geodesic against embedded distances over all training pairs, with 1, 2, ... axes.
    test_residual_variance: 1 - r² of true against embedded distances of test points, on 2 axes.
    recovered: Correlation of each true parameter of the test points with a linear function of their first two axes.
    kernel_eigenvalues (n,): Of the whole kernel matrix, rising.
    seconds: Of the fit and of the projection, everything compiled before.
    """

    spectrum: dict[str, Any]
    train: F64
    test: F64
    residual_variances: F64
    test_residual_variance: float
    recovered: dict[str, float]
    kernel_eigenvalues: F64
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
    Fits and pictures of an earlier demo in `out` are replaced; `say` takes each line of the summary.
    """
    place = Path(named(out, "out"))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScalemaniError(f"{out}: no directory can be made there ({error.strerror}); give another") from error
    train = swiss_roll(n_train, **ROLL, random_state=seed)
    test = swiss_roll(n_test, **ROLL, random_state=seed + 1_000_003)
    say(
        f"Swiss roll: {n_train:,} points to fit and {n_test:,} to place in the maps, {N_NEIGHBORS} neighbours, "
        f"{N_COMPONENTS} axes"
    )
    _compile_kernels()
    for file, values, heading, prefix in (
        ("points", train.points, ("x", "y", "z"), "points"),
        ("new", test.points, ("x", "y", "z"), "new"),
        ("colours", train.parameters, ("length", "width"), "points"),
    ):  # tables to try the command line on, with a name for each point
        ids = [f"{prefix}{row}" for row in range(len(values))]
        write_coordinates(place / f"{file}.csv", values, ids=ids, id_name="name", names=heading, overwrite=True)
    outcomes = fit_both(train, test, place, progress=progress)
    for line in aligned(*table(outcomes)):
        say(line)
    pictures = _pictures(train, test, outcomes)
    for name, picture in pictures.items():
        (place / f"{name}.png").write_bytes(picture.png)
    (place / "report.html").write_text(_page(train, test, outcomes, pictures), encoding="utf-8")
    say(f"report: {place / 'report.html'}")
    return outcomes


def _compile_kernels() -> None:
    """A small fit and projection before those that are timed: what is compiled once per machine is in no figure."""
    from scalemani import KernelIsomap

    roll = swiss_roll(400, **ROLL, random_state=0).points  # from 301 on the solver iterates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScalemaniWarning)
        KernelIsomap(n_neighbors=10).fit(roll).transform(roll[:9])


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
    """Isomap and kernel Isomap on one data set, by title, in two stores in `place`; test points are projected."""
    from scipy.spatial.distance import pdist

    from scalemani import Isomap, KernelIsomap

    outcomes = {}
    for (title, name), estimator in zip(TITLES.items(), (Isomap, KernelIsomap), strict=True):
        model = estimator(
            n_neighbors=n_neighbors,
            n_components=n_components,
            store=str(place / name),
            overwrite=True,
            progress=(lambda stage, *counts, of=title: progress(f"{of}, {stage}", *counts))
            if callable(progress)
            else progress,
            **parameters,
        )
        started = time.perf_counter()
        fitted = np.asarray(model.fit_transform(train.points))
        between = time.perf_counter()
        projected = np.asarray(model.transform(test.points))
        ended = time.perf_counter()
        rows, some = np.arange(len(fitted)), slice(0, PAIRS)
        geodesic = np.asarray(model.geodesics(rows))
        outcomes[title] = Outcome(
            spectrum=dict(model.spectrum_),
            train=fitted,
            test=projected,
            residual_variances=residual_variances(geodesic, fitted, rows),
            test_residual_variance=residual_variance(pdist(test.parameters[some]), pdist(projected[some, :2])),
            recovered=_recovered(test, projected[:, :2]),
            kernel_eigenvalues=_kernel_eigenvalues(geodesic, model.additive_constant_),
            seconds=(between - started, ended - between),
        )
    return outcomes


def _recovered(test: Manifold, coordinates: F64) -> dict[str, float]:
    axes = np.column_stack([np.ones(len(coordinates)), coordinates])
    found = axes @ np.linalg.lstsq(axes, test.parameters, rcond=None)[0]
    pairs = zip(test.names, test.parameters.T, found.T, strict=True)
    return {name: float(np.corrcoef(true, line)[0, 1]) for name, true, line in pairs}


def _kernel_eigenvalues(geodesic: F64, constant: float) -> F64:
    """All eigenvalues of K(c), dense: possible here, with 1,200 points."""
    squared = (geodesic + constant * (1 - np.eye(len(geodesic)))) ** 2
    squared = (squared + squared.T) / 2
    rows = squared.mean(axis=1)
    kernel = -0.5 * (squared - rows[:, None] - rows[None, :] + rows.mean())
    return np.asarray(eigvalsh(kernel))


def table(outcomes: dict[str, Outcome]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the comparison, a column a method."""

    def row(name: str, cell: Callable[[Outcome], str]) -> list[str]:
        return [name, *(cell(outcome) for outcome in outcomes.values())]

    def by_axis(name: str, form: str, values: Callable[[Outcome], Sequence[float]]) -> list[list[str]]:
        cells = [[format(value, form) for value in values(outcome)] for outcome in outcomes.values()]
        return [[name.format(a), *of_axis] for a, of_axis in enumerate(zip(*cells, strict=True), start=1)]

    rows = [
        [f"new points: {name}, r", *(f"{outcome.recovered[name]:.4f}" for outcome in outcomes.values())]
        for name in next(iter(outcomes.values())).recovered
    ]
    rows += [
        row("new points: distances against the true ones, 1 - r²", lambda o: f"{o.test_residual_variance:.5f}"),
        *by_axis("distances along the graph, 1 - r², axes up to {}", ".5f", lambda o: o.residual_variances.tolist()),
        row("negative eigenvalues of the matrix", lambda o: f"{_n_negative(o)} of {len(o.kernel_eigenvalues):,}"),
        row("the least of them", lambda o: f"{o.kernel_eigenvalues[0]:.4g}" if _n_negative(o) else "none"),
        *by_axis("eigenvalue {}", ".4g", lambda o: list(o.spectrum["eigenvalues"])),
        row("constant added", lambda o: f"{o.spectrum['additive_constant']:.4f}"),
        row("constant / median distance, about", lambda o: two_digits(o.spectrum["constant_over_median"])),
        row("reads of the distances", lambda o: f"{o.spectrum['n_passes']}"),
        row("seconds, fit + placing new points", lambda o: f"{o.seconds[0]:.1f} + {o.seconds[1]:.1f}"),
    ]
    return ["", *outcomes], rows


def _n_negative(outcome: Outcome) -> int:
    """Negative eigenvalues of the kernel matrix; D is kept in float32, so that the least are rounding."""
    values = outcome.kernel_eigenvalues
    return int((values < -RANK_TOLERANCE * values[-1]).sum())


def _pictures(train: Manifold, test: Manifold, outcomes: dict[str, Outcome]) -> dict[str, Picture]:
    length, test_length, name = train.parameters[:, 0], test.parameters[:, 0], train.names[0]
    coordinates = {title: (o.train, o.test) for title, o in outcomes.items()}
    figure = four_panels(train.points, test.points, length, test_length, coordinates, color_name=name)
    constant = outcomes["kernel Isomap"].spectrum["additive_constant"]
    names = {"Isomap": "Isomap: K(0)", "kernel Isomap": f"kernel Isomap: K(c*), c* = {constant:.3f}"}
    values = {names[title]: o.kernel_eigenvalues for title, o in outcomes.items()}
    projected = {title: o.test for title, o in outcomes.items()}
    return {
        "figure1": Picture(
            png(figure),
            "(a) The points that were fitted and (b) the new ones, coloured by how far along the rolled-up sheet they "
            "are. (c), (d) The two maps: fitted points in grey, new points, placed in it, in colour.",
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
            "Axis 1 of the new points against what it should recover, their true length along the sheet.",
            "Two clouds that follow a line.",
        ),
    }


_SPECTRA_TEXT = (
    "Isomap's matrix of squared geodesic distances, doubly centred, is no kernel: some of its eigenvalues "
    "are negative, so that no set of points has these distances. Kernel Isomap adds to every distance "
    "between different points the least constant c* that makes it one."
)
_READING_TEXT = [
    "r is a correlation: 1 is perfect. It says how well a new point's place on the sheet can be read from the map. "
    "1 - r² of distances is called residual variance: 0 is perfect. True distances are those on the flat sheet.",
    "Eigenvalues of kernel Isomap contain the shift c*²/2 in every direction: they are larger than "
    "Isomap's without carrying more geometry.",
    "Seconds are without compilation, which is done once per machine, before.",
]


def _comparison(outcomes: dict[str, Outcome]) -> list[str]:
    """A sentence on the two methods, where the figures bear it out."""
    kernel = outcomes["kernel Isomap"]
    ratio = two_digits(kernel.spectrum["constant_over_median"])
    if all(min(outcome.recovered.values()) > GOOD for outcome in outcomes.values()):
        return [
            "Both maps are the flat sheet. Isomap's distances are a little nearer to the true ones, since nothing is "
            f"added to them. Kernel Isomap adds a constant, here about {ratio} times the median distance, and has a "
            "true kernel for it: no negative eigenvalue."
        ]
    if kernel.spectrum["constant_over_median"] <= 1:
        return []
    return [
        f"Here c* is about {ratio} times the median geodesic distance, so that most of the corrected distances is the "
        "constant, and it bends the map of kernel Isomap. Sparse graphs, whose paths zigzag, and shortcut edges both "
        "raise c*."
    ]


def _page(train: Manifold, test: Manifold, outcomes: dict[str, Outcome], pictures: dict[str, Picture]) -> str:
    sections = [
        Section("The maps", _comparison(outcomes), pictures=[pictures["figure1"], pictures["unrolling"]]),
        Section("In numbers", _READING_TEXT, tables=[Table(*table(outcomes))]),
        Section("Eigenvalues", [_SPECTRA_TEXT], pictures=[pictures["spectra"]]),
    ]
    lead = (
        f"{len(train.points):,} points of a rolled-up sheet are unrolled by Isomap and by kernel Isomap (Choi and "
        f"Choi), and {len(test.points):,} points that neither has seen are placed in both maps."
    )
    return page("A Swiss roll, unrolled", lead, sections, "Made by: scalemani demo")
