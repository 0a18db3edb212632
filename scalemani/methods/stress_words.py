"""What is said of maps of least stress."""

from collections.abc import Iterator, Sequence

from scalemani.methods.words import Account, Compared, Row, Section, Table, Words, by_landmarks
from scalemani.words import number, percent, plain_number


class StressWords(Words):
    """Of a map of least stress."""

    def form(self, s: Account) -> str:
        return "Isomap by raw stress"

    def rows(self, s: Account) -> Sequence[Row]:
        """How far distances on the map are off."""
        off = f"distances on the map are off by about {percent(s['stress_1'])} (stress-1), long ones counting most"
        more = "" if s["converged"] else "; the stress was still falling: the same fit goes on"
        return [*super().rows(s), ("kept", off + more)]

    def compared(self, s: Account) -> Compared:
        """The normalised stress of the sampled pairs is what stress-1 is of all."""
        return Compared(stress="; stress-1, of the sampled pairs alone")

    def sections(self, s: Account) -> Iterator[Section]:
        """What the numbers are, and how the stress fell."""
        of = "the landmarks" if by_landmarks(s) else "all points"
        words = (
            "Raw stress is the sum of squared differences between geodesic distances and distances on the map, over "
            f"all pairs of {of}. The map is made to have the least. Stress-1 is the root of raw stress over the sum of "
            "squared distances: about the share by which distances are off, long ones counting most. 0 is a perfect "
            "map. Compare maps of the same data by it; more axes lower it."
        )
        turn = "The search starts from classical scaling. Axes keep its order, and have no shares of variance."
        values, last = s["stress_by_read"], len(s["stress_by_read"])
        shown = sorted({1, 2, 3, 5, 10, 20, 50, 100, 200, 500, last} & set(range(1, last + 1)))
        rows = [["the start, as it was", number(s["stress_1_of_start"])]]
        rows += [[f"{k}" if k > 1 else "1, which dilates the start", number(values[k - 1])] for k in shown]
        yield Section("Raw stress", [words, turn], [Table(["read of the distances", "stress-1 so far"], rows)])

    def of_the_run(self, s: Account) -> Sequence[Row]:
        """Stress-1, that of the start, and what it took."""
        points, by = s["start_points"], by_landmarks(s)
        start = "classical scaling" if points is None else f"a map by {points:,} points"
        before, after, raw = map(plain_number, (s["stress_1_of_start"], s["stress_1"], s["raw_stress"]))
        of = "landmarks" if by else "points"
        return [
            ("stress-1", f"{after}, from {before} of {start}"),
            ("raw stress", f"{raw}, the sum of squared differences of distances over all pairs of {of}"),
            *([] if by else [("reads of the distances, once written", f"{s['n_passes']}")]),
        ]
