"""What is said of locally linear embeddings, Laplacian eigenmaps and maps of least stress."""

from collections.abc import Iterator, Sequence

from scalemani.methods.words import Account, Notice, Row, Section, Table, Words, by_landmarks
from scalemani.words import count, number, plain_number

MOST_SHOWN = 10  # eigenvalues after a fit


class SpectralWords(Words):
    """Of the first two."""

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


class LLEWords(SpectralWords):
    """Of a locally linear embedding."""

    def keeps(self, s: Account) -> str:
        """Weights."""
        return "how each point lies among its neighbours, and no distances"

    def title(self, s: Account, what: str) -> str:
        """With the kernel and the number of landmarks."""
        kernel = "" if s["kernel"] is None else f", {s['kernel']} kernel"
        return f"Locally linear embedding{kernel}: {what}{self._by(s)}"

    def rows(self, s: Account) -> Sequence[Row]:
        """How weights were found."""
        kernel = "" if s["kernel"] is None else f" in the features of an {s['kernel']} kernel"
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


class StressWords(Words):
    """Of a map of least stress."""

    def title(self, s: Account, what: str) -> str:
        """With the number of landmarks."""
        by = f", by {count(s['n_landmarks'], 'landmark')}" if by_landmarks(s) else ""
        return f"Isomap by raw stress: {what}{by}"

    def lines(self, s: Account, *, everything: bool = False) -> Sequence[Row]:
        """The stress, before and after, and what it took."""
        of = " between landmarks" if by_landmarks(s) else ""
        lines = [
            *self.rows(s),
            ("raw stress", f"{plain_number(s['raw_stress'])}, the sum of squares over all pairs{of}"),
        ]
        if everything:
            lines.append(("by read", ", ".join(plain_number(value) for value in s["stress_by_read"])))
        return lines if by_landmarks(s) else [*lines, ("reads of D", f"{s['n_passes']}")]

    def rows(self, s: Account) -> Sequence[Row]:
        """Stress-1, and that of the start."""
        points = s["start_points"]
        start = "classical scaling" if points is None else f"a map by {points:,} points"
        more = "" if s["converged"] else "; it still falls"
        before, after = plain_number(s["stress_1_of_start"]), plain_number(s["stress_1"])
        return [("stress-1", f"{after}, from {before} of {start}{more}")]

    def notices(self, s: Account, tol: float, *, idle: bool) -> Iterator[Notice]:
        """What the fit warned of."""
        yield from (Notice(said) for said in s["warnings"])

    def sections(self, s: Account) -> Iterator[Section]:
        """What the numbers are, and how the stress fell."""
        of = "the landmarks" if by_landmarks(s) else "all points"
        words = (
            "The map has the least sum of squared differences between geodesic distances and its own, over all pairs "
            f"of {of}: the raw stress. Stress-1 is the root of its share of the sum of squared distances: about the "
            "share by which distances are off, long ones counting most. 0 is a perfect map. It compares maps of the "
            "same data; more axes lower it."
        )
        turn = "Axes have no order and no shares, as those of classical scaling have: distances alone count."
        values, last = s["stress_by_read"], len(s["stress_by_read"])
        shown = sorted({1, 2, 3, 5, 10, 20, 50, 100, 200, 500, last} & set(range(1, last + 1)))
        rows = [["the start, as it was", number(s["stress_1_of_start"])]]
        rows += [[f"{k}" if k > 1 else "1, which dilates the start", number(values[k - 1])] for k in shown]
        yield Section("Raw stress", [words, turn], [Table(["read of the distances", "stress-1 so far"], rows)])

    def of_the_run(self, s: Account) -> Sequence[Row]:
        """What it took."""
        return [] if by_landmarks(s) else [("reads of the distances, once written", f"{s['n_passes']}")]
