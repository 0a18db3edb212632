"""Figures of "A kernel view of the dimensionality reduction of manifolds" (Ham, Lee, Mika and Schölkopf, ICML 2004).

Isomap, Laplacian eigenmaps and LLE are kernel PCA of kernels of their own. On an S-curve of 1,350 points, k = 10, these
are looked at by `scalemani.kernel_view`: their eigenvalues, distances in feature space beside those on the map, between
the points and along the sheet, and contours of feature distance. Then the curve grows from 600 to 3,000 points, and 16
coefficients of each kernel are followed: the 16 largest between two of the first 300 points, as they are and after
n K / trace.

The tables have beside their numbers, in brackets, those of an own computation with dense matrices.

    python workflows/paper_kernel_view.py --out view      # tables, figure1.png to figure5.png; a minute or two
    python workflows/paper_kernel_view.py --small         # 400 points, some seconds

It ends with code 1 if a ratio of eigenvalues, or the share of the first two, is off by over 10 % in full size; with
--small, if the second eigenvalue over the third is not larger for Isomap than for L+ and M+.
"""

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from scalemani import LLE, Isomap, LaplacianEigenmaps, kernel_view
from scalemani.demo import aligned
from scalemani.errors import ScalemaniWarning
from scalemani.report.charts import cloud_panel, contour_panel, spectrum_panel
from scalemani.report.drawing import new_figure, png

METHODS: dict[str, Callable[[], Any]] = {
    "Isomap": lambda: Isomap(10, 2),
    "L+, weights 1": lambda: LaplacianEigenmaps(10, 2),
    "L+, Gaussian": lambda: LaplacianEigenmaps(10, 2, weights="gaussian"),
    "M+": lambda: LLE(10, 2, scale="kernel"),
}
SHIFTED = "λmax I - M"  # of LLE, centred
KNOWN = {  # second eigenvalue / third, third / fourth, share of the first two in the positive sum
    "Isomap": (6.64, 1.48, 0.957),
    "L+, weights 1": (2.24, 1.77, 0.409),
    "L+, Gaussian": (2.25, 1.79, 0.442),
    "M+": (1.32, 2.29, 0.992),
    SHIFTED: (1.0, 1.0, 0.002),
}
ALIKE = {  # correlation of feature distance with distances on the map, between rows of X, along the sheet
    "Isomap": (1.000, 0.868, 1.000),
    "L+, weights 1": (0.971, 0.881, 0.982),
    "L+, Gaussian": (0.960, 0.877, 0.973),
    "M+": (1.000, 0.853, 0.992),
    SHIFTED: (-0.04, -0.03, -0.02),
}
STABLE = {  # standard deviation over mean as n grows: as they are, n K / trace, its second half
    "Isomap": (0.013, 0.016, 0.010),
    "L+, weights 1": (0.035, 0.030, 0.015),
    "L+, Gaussian": (0.038, 0.030, 0.011),
    "M+": (0.29, 0.036, 0.013),
}
FARTHEST = 0.1  # from what is known
COEFFICIENTS, AMONG = 16, 300


def s_curve(n: int, seed: int) -> tuple[Any, Any]:
    """Points (n, 3) of an S 2 high, and where they lie on its sheet (n, 2), which is 9.42 long."""
    rng = np.random.default_rng(seed)
    along, up = 3 * np.pi * (rng.random(n) - 0.5), 2 * rng.random(n)
    return np.column_stack([np.sin(along), up, np.sign(along) * (np.cos(along) - 1)]), np.column_stack([along, up])


def fitted(name: str, X: Any) -> Any:
    """A method's model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScalemaniWarning)  # small gaps
        return METHODS[name]().fit(X)


# ---- one size ----------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A kernel of a view of all points."""

    view: Any
    kernel: Any

    @property
    def numbers(self) -> tuple[float, float, float]:
        """As in KNOWN."""
        e = self.kernel.eigenvalues
        return e[1] / e[2], e[2] / e[3], e[:2].sum() / e[e > 0].sum()

    def correlations(self, sheet: Any) -> tuple[float, ...]:
        """As in ALIKE."""
        others = self.view.embedded, self.view.straight, cdist(sheet, sheet)
        return tuple(self.view.correlation(self.kernel.distances, other) for other in others)


def kernels(X: Any) -> dict[str, Seen]:
    """Of all methods."""
    found = {}
    for name in METHODS:
        view = kernel_view(fitted(name, X), len(X))
        found[name] = Seen(view, view.kernels[0])
    lle = found["M+"].view
    own = lle.points / np.linalg.norm(lle.points, axis=0)  # of this kernel all axes are of one length
    found[SHIFTED] = Seen(replace(lle, points=own, embedded=cdist(own, own)), lle.kernels[1])
    return found


def tables(found: dict[str, Seen], sheet: Any, *, full: bool) -> str:
    """Eigenvalues and correlations, those that are known in brackets."""

    def beside(values: Any, known: Any, digits: int) -> list[str]:
        pairs = zip(values, known, strict=True)
        return [f"{one:.{digits}f}" + (f" ({other:.{digits}f})" if full else "") for one, other in pairs]

    spectra, alike = [], []
    for name, seen in found.items():
        e = seen.kernel.eigenvalues
        leading = ", ".join(f"{value:.3g}" for value in e[:5] / e[0])
        spectra.append([name, leading, *beside(seen.numbers, KNOWN[name], 3)])
        near = seen.view.correlation(seen.kernel.distances, seen.view.embedded, local=True)
        alike.append([name, *beside(seen.correlations(sheet[seen.view.rows]), ALIKE[name], 3), f"{near:.3f}"])
    told = " (dense reference)" if full else ""
    first = aligned(["kernel", "eigenvalues / first", "2nd / 3rd", "3rd / 4th", "first two of the positive"], spectra)
    heads = ["kernel", "the map", "rows of X", "the sheet", "the map, neighbours"]
    second = aligned(heads, alike)
    return "\n".join(
        [f"Eigenvalues{told}", *first, "", f"Correlation of feature distance with distance on{told}", *second]
    )


def pictures(found: dict[str, Seen], X: Any, sheet: Any) -> dict[str, Any]:
    """Figures 1 to 4: the maps, spectra, distances, contours."""
    figures = {}
    figures["figure1.png"] = figure = new_figure(3.2 * (1 + len(METHODS)), 3.2)
    panels = {"S-curve, from the side": X[:, [0, 2]], **{name: found[name].view.points for name in METHODS}}
    for at, (name, plane) in enumerate(panels.items()):
        axes: Any = figure.add_subplot(1, len(panels), at + 1)
        rows = found[name].view.rows if at else slice(None)
        axes.scatter(*plane[:, :2].T, s=4, c=sheet[rows, 0], linewidths=0)
        axes.set_title(name, fontsize=9)
    figures["figure2.png"] = figure = new_figure(9.6, 4.2)
    for log in (False, True):
        spectrum_panel(figure.add_subplot(1, 2, 1 + log), {n: s.kernel.eigenvalues for n, s in found.items()}, log=log)
    figures["figure3.png"] = figure = new_figure(14.0, 2.9 * len(found))
    figures["figure4.png"] = contours = new_figure(8.6, 3.0 * len(found))
    for at, (name, seen) in enumerate(found.items()):
        view, feature = seen.view, seen.kernel.distances
        for local in (False, True):
            for place, (x, y, across, up) in enumerate(
                [
                    (view.straight, view.embedded, "between rows of X", "on the map"),
                    (view.embedded, feature, "on the map", f"feature, {name}"),
                ]
            ):
                axes = figure.add_subplot(len(found), 4, 4 * at + 2 * place + local + 1)
                cloud_panel(axes, view.pairs(x, local=local), view.pairs(y, local=local))
                axes.set(xlabel=across, ylabel=up)
                r = view.correlation(x, y, local=local)
                axes.set_title(f"{'neighbours' if local else 'all pairs'}, correlation {r:.3f}", fontsize=9)
            axes = contours.add_subplot(len(found), 2, 2 * at + local + 1)
            contour_panel(contours, axes, view.points, feature, view.center if local else view.border)
            axes.set_title(f"{name}: feature distance from the cross", fontsize=9)
    return figures


# ---- as n grows --------------------------------------------------------------------------------------


def followed(X: Any, sizes: list[int]) -> dict[str, tuple[Any, Any]]:
    """Of each method 16 coefficients (sizes, 16), and trace / n (sizes,), of the first 600, ... rows."""
    found, pairs = {}, np.triu_indices(min(AMONG, sizes[0]), 1)
    for name in METHODS:
        every, traces = [], []
        for n in sizes:
            with tempfile.TemporaryDirectory() as folder:
                K = fitted(name, X[:n]).kernel_to(Path(folder) / "K.zarr")[:]
            every.append(K[pairs])
            traces.append(np.trace(K) / n)
        largest = np.argsort(-np.abs(every[-1]))[:COEFFICIENTS]
        found[name] = np.array(every)[:, largest], np.array(traces)
    return found


def spread(values: Any) -> float:
    """Standard deviation over mean of columns, and of these the mean."""
    return float((values.std(axis=0) / np.abs(values.mean(axis=0))).mean())


def stability(grown: dict[str, tuple[Any, Any]], sizes: list[int], *, full: bool) -> tuple[str, Any]:
    """Figure 5: spreads, and curves."""
    rows, figure = [], new_figure(3.4 * len(grown), 5.6)
    for at, (name, (values, traces)) in enumerate(grown.items()):
        scaled = values / traces[:, None]
        three = [spread(values), spread(scaled), spread(scaled[len(sizes) // 2 :])]
        known = [f" ({one})" if full else "" for one in STABLE[name]]
        rows.append([name, *(f"{one:.3f}{other}" for one, other in zip(three, known, strict=True))])
        for line, (what, shown) in enumerate({"K": values, "n K / trace": scaled}.items()):
            axes: Any = figure.add_subplot(2, len(grown), len(grown) * line + at + 1)
            axes.plot(sizes, shown, linewidth=1)
            axes.set_title(f"{name}: {what}", fontsize=9)
            axes.set(xlabel="points", ylim=(min(1.1 * shown.min(), 0.0), max(1.1 * shown.max(), 0.0)))
    heads = ["kernel", "as they are", "n K / trace", "second half of n"]
    said = f"Spread of {COEFFICIENTS} coefficients over their mean, {sizes[0]:,} to {sizes[-1]:,} points"
    return "\n".join([said + (" (reference, of other coefficients)" if full else ""), *aligned(heads, rows)]), figure


# ---- all ---------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the points; other curves have other eigenvalues")
    parser.add_argument("--small", action="store_true", help="a test of some seconds")
    parser.add_argument("--out", type=Path, help="a directory for the tables as text and the pictures")
    asked = parser.parse_args()
    full, start = not asked.small and asked.seed == 0, time.perf_counter()
    n, sizes = (400, [200, 300, 400]) if asked.small else (1350, [*range(600, 3001, 400)])
    X, sheet = s_curve(n, asked.seed)
    found = kernels(X)
    texts = [tables(found, sheet, full=full)]
    print(texts[0], end="\n\n", flush=True)
    text, figure = stability(followed(s_curve(sizes[-1], asked.seed)[0], sizes), sizes, full=full)
    texts.append(text)
    print(text, f"({time.perf_counter() - start:.0f} s)", sep="\n")
    if asked.out is not None:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "tables.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8")
        for name, one in {**pictures(found, X, sheet), "figure5.png": figure}.items():
            (asked.out / name).write_bytes(png(one))
    numbers = {name: seen.numbers for name, seen in found.items()}
    missed = [
        f"{name}: {one:.3f} where {other} is known"
        for name in (KNOWN if full else ())
        for one, other in zip(numbers[name], KNOWN[name], strict=True)
        if not abs(one - other) <= max(FARTHEST * other, 5e-4)  # 0.002 has one digit
    ]
    if not numbers["Isomap"][0] > max(numbers[name][0] for name in numbers if name != "Isomap"):
        missed.append("the second eigenvalue stands out by more in another kernel than in Isomap's")
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
