"""What is said of locally linear embeddings and Laplacian eigenmaps, which keep no distances along the data."""

from collections.abc import Callable, Iterator, Sequence
from math import sqrt

import numpy as np
from numpy.polynomial.chebyshev import chebfit

from scalemani.aliases import F64
from scalemani.methods.words import (
    Account,
    Chart,
    Compared,
    Notice,
    Row,
    Section,
    Table,
    Words,
    axis_rows,
    by_landmarks,
)
from scalemani.steps.pairs import FORGOTTEN
from scalemani.words import count, number, percent, plain_number, two_digits

REPEATED = 0.9  # of an axis' variance, that polynomials of axis 1 explain: it shows nothing else
_ABOUT = {
    "whitened": "Weights W write each point as a weighted mean of its neighbours. On the map, the same weights do so "
    "with the least error. The axes are singular vectors of I − W. The square of a singular value is the eigenvalue: "
    "the mean squared error on that axis. All axes have one length, so distances on the map have no unit.",
    "kernel": "Weights W write each point as a weighted mean of its neighbours. The axes are those of kernel PCA with "
    "M+, the pseudo-inverse of M = (I − W)'(I − W). The variance of an axis is proportional to 1 over its eigenvalue.",
    "laplacian": "The axes are those of kernel PCA with L+, the pseudo-inverse of the graph's Laplacian. The variance "
    "of an axis is proportional to 1 over its eigenvalue. With all axes, squared distances would be {}. For effective "
    "resistances, each edge is a wire whose conductance is its weight.",
    "normalised": "The axes are the slowest patterns of a random walk along the graph's edges: a step multiplies each "
    "by 1 less its eigenvalue. All axes have one length, so distances on the map have no unit.",
    "diffusion": "Two points are near each other on the map if a random walk along the graph's edges spreads alike "
    "from both. A step multiplies each axis by its eigenvalue, and the map shows the walk after as many steps as time "
    "says.",
}
_SQUARES = {  # of distances, by the scale
    "resistance": "effective resistances between points",
    "ham": "commute times of a chain in continuous time, n times the effective resistances",
    "walk": "commute times of the random walk along the graph's edges",
}


class SpectralWords(Words):
    """Of both; `matrix` is what shares are of."""

    matrix: str

    def made(self, s: Account) -> list[Row]:
        """What the map is made of."""
        return []

    def rows(self, s: Account) -> Sequence[Row]:
        """Also what the axes hold of all there are, where that is known."""
        trace = s["trace"]
        shares = [] if trace is None else [1 / value / trace for value in s["eigenvalues"]]
        off = (s["trace_error"] or 0.0) / (trace or 1.0)
        return [*super().rows(s), *self.made(s), *axis_rows(shares, "of the variance of all axes", off=off)]

    def of_the_run(self, s: Account) -> list[Row]:
        """The trace, where it is known."""
        error = f" ± {s['trace_error']:.2g}, estimated" if s["trace_error"] else ""
        return [] if s["trace"] is None else [("trace", f"of {self.matrix}: {s['trace']:.4g}{error}")]

    def columns(self, s: Account, say: Callable[..., str]) -> list[tuple[str, list[str]]]:
        """What there is of each axis; each share as well as the trace is known."""
        found = [("eigenvalues", list(map(say, s["eigenvalues"])))]
        if s["trace"] is not None:
            shares, off = [1 / value / s["trace"] for value in s["eigenvalues"]], s["trace_error"] / s["trace"]
            found.append(("shares", [f"{percent(a)} ± {say(100 * a * off, 2)} %" for a in shares]))
        return found

    def _gap(self, s: Account) -> str:
        """How far the next eigenvalue is from the last axis'; those of a diffusion fall from 1."""
        start = 0 if s["alpha"] is None else 1
        last, following = abs(s["eigenvalues"][-1] - start), abs((s["next_eigenvalue"] or 0.0) - start)
        if not last > 0:
            return ""
        far = plain_number(following / last) + (" times as far from 1 as" if start else " times")
        return f" It is {far} that of axis {len(s['eigenvalues'])}."

    def compared(self, s: Account) -> Compared:
        """Distances on the map are not those along the data."""
        return Compared(distances=False)

    def unused(self, parameters: Account) -> set[str]:
        """The tolerance of other solvers, and parameters of other forms."""
        given, diffused = parameters.get, parameters.get("alpha") is not None
        unused = {"tol", "normalized" if diffused else "time", "scale" if diffused or given("normalized") else "tol"}
        unused.update(() if given("landmarks") is not None else ["landmark_method"])
        return unused.union(() if given("kernel") == "poly" else ["degree", "coef0"])

    def of_map(self, coordinates: F64) -> Iterator[Notice]:
        """Axes that are polynomials of the first, as a string's overtones are of its first tone."""
        x, others = coordinates[:, 0], coordinates[:, 1:] - coordinates[:, 1:].mean(axis=0)
        degree, width = min(max(coordinates.shape[1], 4), 12), float(np.ptp(x))
        if not others.size or not width or len(x) <= 10 * degree:
            return
        left = chebfit(2 * (x - x.min()) / width - 1, others, degree, full=True)[1][0]
        same = np.flatnonzero(left < (1 - REPEATED) * (others**2).sum(axis=0)) + 2 if left.size else left
        if same.size:
            axes = f"Axis {same[0]} repeats" if same.size == 1 else f"Axes {', '.join(map(str, same))} repeat"
            words = "If the data is much longer than wide, several axes show its length. More axes may show its width."
            yield Notice(f"{axes} axis 1.", [words], warning=False)

    def _section(self, s: Account, heading: str, about: str) -> Section:
        """What the numbers are, and a table of them."""
        words, columns = [_ABOUT[about].format(_SQUARES.get(s["scale"]))], self.columns(s, number)
        if by_landmarks(s):
            words.append(
                f"The map is solved for {s['n_landmarks']:,} landmarks. So eigenvalues are larger than those of a fit "
                "without landmarks, and shares are not known."
            )
        if (following := s["next_eigenvalue"]) is not None:
            words.append(f"The next eigenvalue, {number(following)}, has no axis.{self._gap(s)}")
        rows = [[f"{a}", *cells] for a, cells in enumerate(zip(*(cells for _, cells in columns), strict=True), 1)]
        table = Table(["axis", *(name.removesuffix("s") for name, _ in columns)], rows)
        return Section(heading, words, [table])


def _named(kernel: str) -> str:
    """A kernel, of a function without its module and digest."""
    return "given" if kernel == "precomputed" else kernel.partition(":")[2].partition("#")[0] or kernel


class LLEWords(SpectralWords):
    """Of a locally linear embedding."""

    matrix = "M+"

    def keeps(self, s: Account) -> str:
        return "how each point lies among its neighbours, and no distances"

    def form(self, s: Account) -> str:
        return "Locally linear embedding" + ("" if s["kernel"] is None else f", {_named(s['kernel'])} kernel")

    def made(self, s: Account) -> list[Row]:
        """How weights were found, and what is left."""
        kernel = "" if s["kernel"] is None else f" in the features of the {_named(s['kernel'])} kernel"
        kernel += "" if s["gamma"] is None else f" (gamma {plain_number(s['gamma'])})"
        weights = ("weights", f"of each point's neighbours{kernel}, ridge {plain_number(s['reg'])}")
        error = f"error {plain_number(sum(s['eigenvalues']))}, the sum of the eigenvalues"
        return [weights, ("reconstruction", error)]

    def columns(self, s: Account, say: Callable[..., str]) -> list[tuple[str, list[str]]]:
        """Singular values of I - W, and their squares."""
        return [("singular values", [say(sqrt(value)) for value in s["eigenvalues"]]), *super().columns(s, say)]

    def sections(self, s: Account) -> Iterator[Section]:
        yield self._section(s, "Locally linear embedding", s["scale"])


class LaplacianWords(SpectralWords):
    """Of Laplacian eigenmaps and diffusion maps."""

    matrix = "L+"

    def keeps(self, s: Account) -> str:
        return "neighbours near one another, and no distances along the data"

    def form(self, s: Account) -> str:
        form = "Laplacian eigenmaps" if s["alpha"] is None else "Diffusion map"
        return f"{form}{', normalised' if s['normalized'] else ''}"

    def made(self, s: Account) -> list[Row]:
        """What edges weigh, and whether the map says more than how many neighbours points have."""
        weights = "1" if s["sigma"] is None else f"exp(-d²/(2 sigma²)), sigma {plain_number(s['sigma'])}"
        r = s["forgotten"] or 0.0
        little = f"shows little but how many neighbours points have: {percent(r * r)} of its distances are that"
        return [("edges weigh", weights), *([("the map", little)] if r > FORGOTTEN else [])]

    def of_the_run(self, s: Account) -> list[Row]:
        if (r := s["forgotten"]) is None:
            return super().of_the_run(s)
        said = f"degrees explain {percent(r * r)} of them (correlation {r:.2f} with 1/deg_i + 1/deg_j)"
        return [*super().of_the_run(s), ("commute times", said)]

    def columns(self, s: Account, say: Callable[..., str]) -> list[tuple[str, list[str]]]:
        """Of a diffusion also what eigenvalues come to in its time."""
        power = [] if s["alpha"] is None else [say(value ** s["time"]) for value in s["eigenvalues"]]
        return super().columns(s, say) + ([(f"to the power {plain_number(s['time'])}", power)] if power else [])

    def sections(self, s: Account) -> Iterator[Section]:
        form, name = ("laplacian", "Laplacian eigenmaps") if s["alpha"] is None else ("diffusion", "Diffusion map")
        yield self._section(s, name, "normalised" if s["normalized"] else form)


def of_resistances(known: F64, on_map: F64, scale: str) -> Section:
    """What there is on the map of squared distances over all axes, by pairs of points."""
    shown = two_digits(100 * float(on_map.sum() / max(known.sum(), 1e-300)))
    words = f"Squared distances on the map add up to {shown} % of those with all axes, which are {_SQUARES[scale]}."
    caption = f"Squared distances of {count(len(known), 'sampled pair')} on the map and over all axes."
    chart = Chart("pairs", [known, on_map, "over all axes", "squared distance on the map"], caption, caption)
    return Section("Commute times", [words], pictures=[chart])
