"""What is said of locally linear embeddings and Laplacian eigenmaps."""

from collections.abc import Iterator, Sequence

from scalemani.methods.words import Account, Notice, Row, Section, Table, Words, by_landmarks
from scalemani.words import count, number, plain_number

MOST_SHOWN = 10  # eigenvalues after a fit


class SpectralWords(Words):
    """Of both."""

    def _by(self, s: Account) -> str:
        return f", by {count(s['n_landmarks'], 'landmark')}" if by_landmarks(s) else ""

    def lines(self, s: Account, *, everything: bool = False) -> Sequence[Row]:
        """What it is of, and eigenvalues."""
        shown = s["eigenvalues"] if everything else s["eigenvalues"][:MOST_SHOWN]
        more = f", and {len(s['eigenvalues']) - len(shown)} more" if len(shown) < len(s["eigenvalues"]) else ""
        lines = [*self.rows(s), ("eigenvalues", ", ".join(f"{value:.4g}" for value in shown) + more)]
        following = s["next_eigenvalue"]
        return lines if following is None else [*lines, ("next", f"{following:.4g}, which has no axis")]

    def notices(self, s: Account, tol: float, *, idle: bool) -> Iterator[Notice]:
        """What the fit warned of."""
        yield from (Notice(said) for said in s["warnings"])

    def loose(self, s: Account) -> str:
        """Nothing: it is no map of distances."""
        return ""

    def _table(self, s: Account) -> Table:
        return Table(["axis", "eigenvalue"], [[f"{a}", number(value)] for a, value in enumerate(s["eigenvalues"], 1)])


def _named(kernel: str) -> str:
    """A kernel, of a function without its module and digest."""
    return "given" if kernel == "precomputed" else kernel.partition(":")[2].partition("#")[0] or kernel


class LLEWords(SpectralWords):
    """Of a locally linear embedding."""

    def keeps(self, s: Account) -> str:
        """Weights."""
        return "how each point lies among its neighbours, and no distances"

    def title(self, s: Account, what: str) -> str:
        """With the kernel and the number of landmarks."""
        kernel = "" if s["kernel"] is None else f", {_named(s['kernel'])} kernel"
        return f"Locally linear embedding{kernel}: {what}{self._by(s)}"

    def rows(self, s: Account) -> Sequence[Row]:
        """How weights were found."""
        kernel = "" if s["kernel"] is None else f" in the features of the {_named(s['kernel'])} kernel"
        kernel += "" if s["gamma"] is None else f" (gamma {plain_number(s['gamma'])})"
        return [("weights", f"of each point's neighbours{kernel}, ridge {plain_number(s['reg'])}")]

    def sections(self, s: Account) -> Iterator[Section]:
        """What the numbers are."""
        words = (
            "Each point is rebuilt from its neighbours by weights that add up to 1, and the map is where the same "
            "weights rebuild all points best. The eigenvalue of an axis is the mean square of what is left on it. Axes "
            "are all of one length: distances on the map have no unit, and measures of distances say little of it."
        )
        yield Section("Locally linear embedding", [words], [self._table(s)])


class LaplacianWords(SpectralWords):
    """Of Laplacian eigenmaps and diffusion maps."""

    def keeps(self, s: Account) -> str:
        """Edges."""
        return "neighbours near one another, and no distances along the data"

    def title(self, s: Account, what: str) -> str:
        """With the number of landmarks."""
        name = "Laplacian eigenmaps" if s.get("alpha") is None else "Diffusion map"
        return f"{name}: {what}{self._by(s)}"

    def rows(self, s: Account) -> Sequence[Row]:
        """What edges weigh."""
        weights = "1" if s["sigma"] is None else f"exp(-d²/(2 sigma²)), sigma {plain_number(s['sigma'])}"
        rows = [("edges weigh", weights)]
        if s["trace"] is not None:
            shares = ", ".join(f"{100 / value / s['trace']:.2g} %" for value in s["eigenvalues"][:MOST_SHOWN])
            rows.append(("shares", f"{shares} of the kernel's trace, {s['trace']:.4g} ± {s['trace_error']:.2g}"))
        if s["forgotten"] is not None:
            rows.append(("commute times", f"correlation with the degrees' alone: {s['forgotten']:.2f}"))
        return rows

    def sections(self, s: Account) -> Iterator[Section]:
        """What the numbers are."""
        words = (
            "The map puts points near each other that a random walk along the graph's edges goes between quickly. "
            "Small eigenvalues are slow motions. Long data shows its length on several axes: axis 2 may repeat axis 1."
        )
        yield Section("Laplacian eigenmaps", [words], [self._table(s)])
