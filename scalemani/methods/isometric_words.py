"""What is said of an isometric projection: the map, and which features make its axes."""

from collections.abc import Iterator, Sequence

from scalemani.methods.words import (
    Account,
    Chart,
    Row,
    Section,
    Table,
    Words,
    feature_name,
    feature_tables,
)
from scalemani.words import count, number, plain_number


class IsometricWords(Words):
    """Of an isometric projection."""

    def form(self, s: Account) -> str:
        """With the kernel, and whether there were labels."""
        kernel = "" if s["kernel"] == "linear" else f", {s['kernel']} kernel"
        return f"Isometric projection{kernel}{', supervised' if s.get('n_classes') else ''}"

    def rows(self, s: Account) -> Sequence[Row]:
        """What the map is linear in, how many directions that has, and the ridge."""
        chosen = ""
        if s["left_out"]:
            error = dict(map(tuple, s["left_out"]))[s["ridge"]]
            end = ", an end of those tried" if s["ridge"] in (s["left_out"][0][0], s["left_out"][-1][0]) else ""
            chosen = f", chosen by leave-one-out (error {plain_number(error)}{end})"
        of = f"{self._kernel(s)}, {count(s['rank'], 'direction')}"
        return [*super().rows(s), ("map", f"{of}, ridge {plain_number(s['ridge'])}{chosen}")]

    def loose(self, s: Account) -> str:
        """The map may be too stiff; with labels it is not made to keep the distances of all."""
        if s.get("n_classes"):
            return ""
        other = "kernel='rbf', or Isomap" if s["kernel"] == "linear" else "more axes, or Isomap"
        return (
            f"A map that is linear in {'the features' if s['kernel'] == 'linear' else 'these kernel values'} can't "
            f"follow the distances along this data closely. Try {other}."
        )

    def sections(self, s: Account) -> Iterator[Section]:
        rows = [
            [f"{a}", number(value), number(length)]
            for a, (value, length) in enumerate(zip(s["eigenvalues"], s["lengths"], strict=True), 1)
        ]
        of = "features" if s["kernel"] == "linear" else "kernel values"
        words = f"Each axis is a weighted sum of the {of}. Its length is that of its column of coordinates."
        if s.get("n_classes"):
            words += (
                " With labels, the map is made to keep classes apart rather than distances within a class: the "
                "measures of distances above say little about it."
            )
        else:
            words += (
                " The eigenvalue says how much of the squared geodesic distances the axis shows. It is never larger "
                "than that of Isomap's axis."
            )
        yield Section("The linear map", [words], [Table(["axis", "eigenvalue", "length"], rows)])
        if s["features"]:
            yield _features_section(s)

    def _kernel(self, s: Account) -> str:
        if s["kernel"] == "linear":
            return "linear in the features"
        gamma = f" (gamma {plain_number(s['gamma'])})" if s["kernel"] in ("rbf", "poly", "sigmoid") else ""
        return f"linear in {s['kernel']} kernel values{gamma} to {count(s['n_references'], 'row')}"


def _features_section(s: Account) -> Section:
    """Which features make the axes, with their arrows on the first two."""
    tables = feature_tables(s["features"], {"moves it by": "moves", "weight": "weight"})
    words = [
        "Each table has the ten features that contribute most to an axis. The second column says how far a row moves "
        "along the axis if the feature grows by one standard deviation, the third if it grows by one unit."
    ]
    pictures = []
    if len(s["features"]) > 1:
        moved = {feature_name(one): one["on_first_two"] for axis in s["features"][:2] for one in axis}
        both = [[name.removeprefix("feature "), *ends] for name, ends in moved.items()]
        caption = (
            "Features on the first two axes. An arrow shows how far a row moves if that feature grows by one standard "
            "deviation. Features without a name are numbered from 0."
        )
        alt = "Arrows for the features that make most of axes 1 and 2."
        pictures.append(Chart("arrows", [both], caption, alt))
    return Section("Which features make the axes", words, tables, pictures)
