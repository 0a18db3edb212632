"""What is said of an isometric projection: the map, and which features make its axes."""

from collections.abc import Iterator, Sequence

from scalemani.methods.words import Account, Chart, Notice, Row, Section, Table, Words
from scalemani.words import count, number, plain_number

MOST_TABLES = 5  # axes with a table of features


class IsometricWords(Words):
    """Of one account."""

    def title(self, s: Account, what: str) -> str:
        """With the kernel."""
        kernel = "" if s["kernel"] == "linear" else f", {s['kernel']} kernel"
        return f"Isometric projection{kernel}: {what}"

    def lines(self, s: Account, *, everything: bool = False) -> Sequence[Row]:
        """The map in numbers."""
        lines = [
            ("map", f"{self._kernel(s)}, {count(s['rank'], 'direction')}, ridge {plain_number(s['ridge'])}"),
            ("eigenvalues", ", ".join(plain_number(value) for value in s["eigenvalues"])),
        ]
        following = s["next_eigenvalue"]
        return lines if following is None else [*lines, ("next", plain_number(following))]

    def rows(self, s: Account) -> Sequence[Row]:
        """The same in short."""
        return [("map", f"{self._kernel(s)}, ridge {plain_number(s['ridge'])}")]

    def notices(self, s: Account, tol: float, *, idle: bool) -> Iterator[Notice]:
        """What a ridge of 0 does where there are as many features as rows."""
        if s["ridge"] == 0 and (s["kernel"] != "linear" or s["rank"] >= s["n_vertices"] - 1):
            yield Notice(
                "The map may run through every training point.",
                ["There are as many features as rows, and ridge is 0. New points may land anywhere: give a ridge."],
            )

    def sections(self, s: Account) -> Iterator[Section]:
        """A table of the axes."""
        values = s["eigenvalues"]
        rows = [[f"{a + 1}", number(value), number(max(value, 0.0) ** 0.5)] for a, value in enumerate(values)]
        yield Section(
            "The linear map",
            [
                "Each axis is a weighted sum of the features. The eigenvalue of an axis is the part of the squared "
                "geodesic distances that it shows; it is never larger than that of Isomap's axis."
            ],
            [Table(["axis", "eigenvalue", "length"], rows)],
        )
        if s["features"]:
            yield _features_section(s)

    def _kernel(self, s: Account) -> str:
        if s["kernel"] == "linear":
            return "linear in the columns of X"
        return f"linear in {s['kernel']} kernel values to {count(s['n_references'], 'row')}"


def _features_section(s: Account) -> Section:
    """Which features make the axes, with their arrows on the first two."""
    tables = []
    for a, features in enumerate(s["features"][:MOST_TABLES], 1):
        rows = [[_name_of(one), number(one["moves"]), number(one["weight"])] for one in features]
        tables.append(Table([f"axis {a}", "moves it by", "weight"], rows))
    words = [
        "The ten features that make most of each axis. A row whose feature is one standard deviation larger lies "
        "further along the axis by the second column; the weight is that of one unit of the feature."
    ]
    pictures = []
    if len(s["features"]) > 1:
        moved = {one["feature"]: one["on_first_two"] for axis in s["features"][:2] for one in axis}
        both = [[str(feature + 1), *moved[feature]] for feature in sorted(moved)]
        words.append("Each arrow is a feature, by its column's number from 1 on: how far it moves a row.")
        alt = "Arrows for the features that make most of axes 1 and 2."
        pictures.append(Chart("arrows", [both], "Features on the first two axes", alt))
    return Section("Which features make the axes", words, tables, pictures)


def _name_of(one: Account) -> str:
    """The feature's name, or its column, from 1 on."""
    return str(one["name"]) if one["name"] is not None else f"column {one['feature'] + 1}"
