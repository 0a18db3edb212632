"""What a method says of a fitted model, as plain data: the terminal and the page lay it out, and know no method.

`s` is the account of the model (`spectrum_`), of which a method knows the keys that its own steps put there. Here is
what is said of a method that says nothing itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalemani.aliases import F64, I64
from scalemani.steps.sources import landmark_rows
from scalemani.storage.run import RunStore
from scalemani.words import count, number, percent, plain_number, two_digits

Account = Mapping[str, Any]
Row = tuple[str, str]  # a name and what is said
CHOSEN = {  # how landmarks were chosen, in a word, and in a sentence
    "maxmin": ("by maxmin", "each the farthest from those before it along the graph"),
    "random": ("at random", "drawn at random"),
    "given": ("as given", "given by their rows"),
}
MOST_LEAPS = 20  # edges that have a line of their own
MOST_AXES = 10  # whose shares a line has

_GIVEN = {  # how a given matrix was taken, by the neighbour search; the others are of rows of features
    "geodesic": "the final distances (metric geodesic), for principal coordinates; metric precomputed would choose "
    "neighbours by them and measure along paths",
    "precomputed": "distances to choose neighbours by (metric precomputed), measured along paths; metric geodesic "
    "would take them as the final ones, for principal coordinates",
    "kernel": "kernel values: neighbours are chosen by the distances that they say, the root of K_ii + K_jj - 2 K_ij",
    "graph": "a neighbour graph (sparse, metric precomputed), measured along paths",
}


def given_rows(s: Account) -> list[Row]:
    """What is said of a matrix that was given; nothing of others."""
    return [("given", _GIVEN[s["knn_method"]])] if s.get("knn_method") in _GIVEN else []


def by_landmarks(s: Account) -> bool:
    """Whether the distances are those to landmarks alone."""
    return "n_landmarks" in s


def landmark_rows_of(s: Account) -> list[Row]:
    """How many there are, and how far from the points where there are distances."""
    if not by_landmarks(s):
        return []
    m, reach = s["n_landmarks"], s.get("landmark_reach")
    median = f"; the median distance is about {two_digits(s['median_distance'])}" if "median_distance" in s else ""
    far = f"; no point is farther than {plain_number(reach)} from one, along the graph{median}"
    return [("landmarks", f"{m:,} {CHOSEN[s['landmark_method']][0]}{'' if reach is None else far}")]


def axis_rows(shares: Sequence[float | None], of: str, bound: str = "", off: float = 0.0) -> list[Row]:
    """What each axis holds, and all of them; nothing where that is not known.

    of: What the shares are of.
    bound: "at most" of shares that may be smaller.
    off: Standard error of each, as a share of it.

    >>> axis_rows([0.75, 0.125], "of the variance")
    [('axes hold', '75.0 %, 12.5 % of the variance, 87.5 % together')]
    """
    known = [share for share in shares if share is not None]
    if not known or len(known) < len(shares):
        return []
    said = ", ".join(map(percent, known[:MOST_AXES])) + (", ..." if len(known) > MOST_AXES else "")
    both = f", {percent(sum(known))} together" if len(known) > 1 else ""
    error = f", give or take {two_digits(100 * off)} % of each" if off else ""
    over = "; more than 100 %, as negative eigenvalues count against it" if round(100 * sum(known)) > 100 else ""
    return [("axes hold", f"{bound} {said} {of}{both}{error}{over}".lstrip())]


def class_rows(s: Account) -> list[Row]:
    """How many classes the rows have, where they had labels."""
    if not s.get("n_classes"):
        return []
    bridged = f"; {count(s['n_bridges'], 'bridge')} within them" if s["n_bridges"] else ""
    apart = f", {plain_number(s['class_distance'])} apart" if s.get("class_distance") else ""
    return [("classes", f"{s['n_classes']:,}{apart}: edges are within classes alone{bridged}")]


def shortcut_rows(s: Account, *, everything: bool = False) -> list[Row]:
    """What is said of edges that leap; nothing where there are none. `everything`: that too, and a line for each."""
    n = s.get("n_shortcuts") or 0
    if not n:
        looked = "none was found" if "n_shortcuts" in s else "not looked for"
        return [("shortcuts", looked)] if everything and s.get("knn_method") != "geodesic" else []
    done = "taken out of the graph" if s["shortcuts_removed"] else "still in the graph: the map is bent by them"
    rows = [("shortcuts", f"{n:,} edge{'' if n == 1 else 's'} that leap{'s' if n == 1 else ''}, {done}")]
    for edge in s["shortcut_edges"][: MOST_LEAPS if everything else 0]:
        (a, b), length = edge["rows"], plain_number(edge["length"])
        rows.append(
            ("", f"rows {a} and {b} (from 0), length {length}, {100 * edge['flow']:.3g} % of all shortest paths")
        )
    return [*rows, ("", f"and {n - MOST_LEAPS:,} more")] if everything and n > MOST_LEAPS else rows


@dataclass(frozen=True)
class Table:
    """Headings (none for a list of names and values) and rows of cells; numbers are formatted by the caller.

    With `words` the last column is text, which wraps.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: bool = False


@dataclass(frozen=True)
class Notice:
    """Something to know: what is so, then what it means and what to do; a warning or a remark."""

    headline: str
    words: Sequence[str] = ()
    warning: bool = True


@dataclass(frozen=True)
class Chart:
    """A picture that the page draws: one of :mod:`scalemani.report.charts` by its name, of some numbers.

    alt: What it shows, for those who can't see it.
    """

    name: str
    of: Sequence[Any]
    caption: str
    alt: str


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, then notices, then tables, then pictures, some of which are yet to be drawn."""

    heading: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Any] = ()
    notices: Sequence[Notice] = ()

    def drawn(self, draw: Any) -> "Section":
        """The same with a picture for each chart."""
        pictures = [draw(one) if isinstance(one, Chart) else one for one in self.pictures]
        return replace(self, pictures=pictures)


MOST_TABLES = 5  # axes with a table of features


def feature_tables(axes: Sequence[Sequence[Account]], columns: Mapping[str, str]) -> list[Table]:
    """A table an axis of the features that go with it, the strongest first.

    axes: Each feature's number, its name or None, and its numbers by their keys.
    columns: Heading -> key.
    """
    return [
        Table(
            [f"axis {a}", *columns],
            [[feature_name(one), *(number(one[key]) for key in columns.values())] for one in of],
        )
        for a, of in enumerate(axes[:MOST_TABLES], 1)
    ]


def feature_name(one: Account) -> str:
    """The feature's name, or its number, from 0 on."""
    return str(one["name"]) if one["name"] is not None else f"feature {one['feature']}"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What is to say where distances in the map are compared with geodesic ones.

    added: What the method adds to each distance, which gets a line in the picture.
    caption: Of that line.
    stress: What makes stress large, after the best value of it.
    missing: Why there is nothing to compare, where D was given and is gone.
    distances: Whether they are meant to be alike: else stress and residual variance say nothing.
    """

    added: float = 0.0
    caption: str = ""
    stress: str = ""
    missing: str = (
        "The geodesic distances were given, not computed, and are no longer in the store: distances in the map can't "
        "be compared with them. Fit with --keep-distances to have them compared."
    )
    distances: bool = True


class Words:
    """What is said of a fitted model."""

    def title(self, s: Account, what: str) -> str:
        """Of the page; `what` are its points and axes in words."""
        return what

    def keeps(self, s: Account) -> str:
        """What the map keeps."""
        given = s.get("knn_method") == "geodesic"
        return "the distances that were given" if given else "distances along the data"

    def notes(self, s: Account) -> list[str]:
        """Sentences that go into the account."""
        return []

    def plain(self, s: Account) -> Sequence[Row]:
        """What matters to who looks at the map, in words that anyone reads; for the terminal."""
        return self.rows(s)

    def bounds(self, s: Account) -> dict[str, list[str]]:
        """Of numbers that are not exact, by their keys, "at least" or "at most" for each."""
        return {}

    def rows(self, s: Account) -> Sequence[Row]:
        """The same in short, for the head of the page."""
        return landmark_rows_of(s)

    def notices(self, s: Account, tol: float, *, idle: bool) -> Iterator[Notice]:
        """What a reader of the map has to know; `idle` says that an axis has every point at 0."""
        yield from (Notice(said) for said in s.get("warnings", []))

    def of_map(self, coordinates: F64) -> Iterator[Notice]:
        """The same, as the coordinates (n, p) show it."""
        return iter(())

    def unused(self, parameters: Account) -> set[str]:
        """Parameters that mean nothing beside the others."""
        return set()

    def compared(self, s: Account) -> Compared:
        """Of distances in the map and geodesic ones."""
        return Compared()

    def axes(self, s: Account) -> Section:
        """Of how many axes are worth having, beside residual variance and the dimension of the data."""
        return Section("")

    def caution(self, s: Account) -> str:
        """What comes before the advice on answers that disagree."""
        return ""

    def sections(self, s: Account) -> Iterator[Section]:
        """Sections of the page that only this method has."""
        return iter(())

    def of_the_run(self, s: Account) -> Sequence[Row]:
        """What was counted and measured, for the foot of the page."""
        return []

    def loose(self, s: Account) -> str:
        """What it means where distances in the map follow geodesic ones loosely; "" where it says nothing."""
        return (
            "Distances in the map follow those along the data loosely. More axes may keep them better; if those bring "
            "it down slowly, the data has no flat map."
        )

    def marks(self, store: RunStore) -> tuple[str, I64] | None:
        """What some rows of the user's are, which get a mark on the map, and these rows: landmarks, where there are."""
        rows = landmark_rows(store)
        return None if rows is None else ("landmarks", rows)
