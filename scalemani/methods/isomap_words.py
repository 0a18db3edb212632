"""What is said of Isomap and kernel Isomap: their corrections, their landmarks, their spectrum.

Shares, traces and bounds are those of :mod:`scalemani.embedding.spectrum`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scalemani.embedding.spectrum import LEAST_GAP, much_negative, of_sizes, side, sides
from scalemani.kernel.constant import DEFINITE
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
from scalemani.words import column, count, number, percent, plain_number, two_digits

_TITLES = {"none": "Isomap", "lingoes": "Isomap, Lingoes' correction", "flip": "Isomap, spectrum flipped"}
_NEAR_TIE = 0.01  # relative gap behind the last axis under which a reader should not trust where the cut is
_SOME_NEGATIVE = 0.1  # of the trace
_MOST_ROWS = 20
_SMALL = 0.2  # a constant over the median distance
# Key of the account, heading, definition.
_SHARES = (
    ("share", "share", "the eigenvalue over the trace, the sum of all"),
    (
        "share_unshifted",
        "unshifted",
        "the same before the correction; negative eigenvalues make that trace smaller, so these shares may add up to "
        "more than 100 %",
    ),
    ("share_of_squares", "of squares", "the eigenvalue's square over the sum of all squares"),
    ("relative_eig", "Relative_eig", "as in ape's pcoa: eigenvalue over sum, without a correction"),
    (
        "rel_corr_eig",
        "Rel_corr_eig",
        "as in ape's pcoa: eigenvalue over sum, after a correction that leaves none negative",
    ),
    (
        "broken_stick",
        "Broken_stick",
        "as in ape's pcoa: the mean piece of a stick that is broken at random",
    ),
)


# Numbers that belong to no axis.
_FACTS = {
    "trace": "trace: sum of all eigenvalues",
    "trace_unshifted": "trace without a correction",
    "next_eigenvalue": "next eigenvalue, which has no axis",
    "gap": "gap between the last axis and the next, relative",
    "most_negative_eigenvalue": "lowest eigenvalue without a correction",
    "negative_mass": "sizes of the negative eigenvalues, sum",
    "gof": "GOF of R's cmdscale",
    "reconstruction_error": "reconstruction error of scikit-learn's Isomap",
}
_WITHOUT_A_CONSTANT = {
    "none": "No correction: the distances are embedded as they are. If no points in flat space have these distances, "
    "some eigenvalues are negative. Those are left out.",
    "flip": "Every eigenvalue counts by its size, whatever its sign, and the axes are in the order of size. An axis "
    "with a negative eigenvalue shows how the distances differ from those in flat space.",
}
_OF_SIZES = {  # where eigenvalues count by their size
    "share": "the eigenvalue's size over the sum of all sizes",
    "trace": "sizes of all eigenvalues, sum",
}


class IsomapWords(Words):
    """Of one account, which says itself whether there is a correction and whether there are landmarks."""

    def form(self, s: Account) -> str:
        return _TITLES.get(_correction_of(s), "Kernel Isomap")

    def notes(self, s: Account) -> list[str]:
        much = much_negative(s)
        return [f"negative eigenvalues add up to more than a fifth of the trace: {much}"] if much else []

    def rows(self, s: Account) -> list[Row]:
        """Landmarks, the constant and what it means, and what the axes hold."""
        key, of = "share", "of the variance"
        if s["shift"]:
            key, of = "share_unshifted", "of the variance without the constant"
        elif of_sizes(s):
            of = "of the sizes of all eigenvalues"
        conformal = s.get("edge_weights") == "conformal"
        edges = [("edges", "conformal (C-Isomap): lengths have no unit")] if conformal else []
        bound = sides(s, key)[0] if key == "share" else ""
        return [*edges, *super().rows(s), ("constant", _constant(s)), *axis_rows(s[key], of, bound)]

    def bounds(self, s: Account) -> dict[str, list[str]]:
        found = {key: sides(s, key) for key in (*_FACTS, "share", "rel_corr_eig") if s.get(key) is not None}
        return {key: which for key, which in found.items() if any(which)}

    def notices(self, s: Account, tol: float, *, idle: bool) -> Iterator[Notice]:
        """Of a large constant, of negative eigenvalues, and of axes that are not determined."""
        yield from _about_the_shift(s)
        yield from _about_the_pairs(s, tol, idle=idle)

    def compared(self, s: Account) -> Compared:
        """The constant is added to each distance."""
        return Compared(
            added=float(s["additive_constant"]),
            caption=" The dashed line shows distances with the constant added, at which the correction aims.",
            stress="; the constant makes it large" if s["shift"] else "",
            missing=_NOT_KEPT if by_landmarks(s) else Compared.missing,
        )

    def axes(self, s: Account) -> Section:
        """Shares beside the pieces of a broken stick."""
        stick, corrected = s.get("broken_stick"), s[_shares_for_the_stick(s)]
        same = bool(np.allclose(corrected, s["share"], rtol=1e-6))
        words, charts = [], []
        if stick:
            after = "" if same else " (after a correction, so that no part is negative: Rel_corr_eig below)"
            words.append(
                "If a stick is broken at random, some pieces are long by chance. An axis shows more than chance if its "
                f"share is larger than the piece of the same number{after}. {beside_the_stick(s, corrected)}"
            )
        if len(s["eigenvalues"]) > 1:
            unshifted = s["share_unshifted"] if s["shift"] else None
            caption = f"Shares of the axes{', and the pieces of a broken stick' if stick else ''}, on a log scale."
            caption += " Shares of 0 or less are not drawn."
            of = [s["share"], unshifted, None if same else corrected, stick]
            charts.append(Chart("shares", of, caption, "A point for the share of each axis, falling."))
        return Section("", words, pictures=charts)

    def caution(self, s: Account) -> str:
        """Shares that are mostly the constant say little."""
        how = "judge by the shares without the shift, or by a fit with --correction none"
        return f"The constant is larger than the median distance: {how}. " if _mostly_constant(s) else ""

    def sections(self, s: Account) -> Iterator[Section]:
        behind = s.get("next_eigenvalue"), s.get("most_negative_eigenvalue")
        caption = "Eigenvalues of the kernel, in the square of the distances' unit."
        if s["shift"]:
            caption += (
                " The dashed line without dots is what the correction adds to each. An axis near it shows nothing."
            )
        of = [s["eigenvalues"], s["eigenvalues_unshifted"], s["shift"], *behind]
        chart = Chart("eigenvalues", of, caption, "A bar for the eigenvalue of each axis.")
        words, p = [*_about_the_numbers(s), *about_the_correction(s)], len(s["eigenvalues"])
        if p > _MOST_ROWS:
            words.append(f"The tables have the first {_MOST_ROWS} of {p} axes; scalemani info STORE --json has all.")
        yield Section("Spectrum and constant", words, [*_tables_of_axes(s), *_whole_spectrum(s)], [chart])

    def of_the_run(self, s: Account) -> list[Row]:
        """The median and the largest distance, and what there is of them."""
        median, largest = f"about {two_digits(s['median_distance'])}", number(s.get("max_distance"))
        if by_landmarks(s):
            return [
                ("distances", f"of {s['n_vertices']:,} points to {s['n_landmarks']:,} landmarks"),
                ("median geodesic distance, at the landmarks' places", median),
                ("largest geodesic distance between landmarks", largest),
            ]
        return [
            ("median geodesic distance, of a sample", median),
            ("largest geodesic distance", largest),
            ("reads of the distances, once written", f"{s['n_passes']}"),
        ]


_NOT_KEPT = (
    "The geodesic distances were given, and the store has only those to the landmarks: distances between other points "
    "in the map can't be compared with them."
)


def _about_the_numbers(s: Account) -> list[str]:
    """What the numbers of the spectrum are of, where that is not plain."""
    if not by_landmarks(s):
        return []
    return [
        f"These numbers are of all {s['n_vertices']:,} points, each moved to its nearest landmark: "
        f"{s['n_landmarks']:,} places. So eigenvalues, trace and constant are on the scale of a fit to all distances, "
        "and approximate it. On the map, points between the landmarks are placed as new points are.",
    ]


# ---- corrections -----------------------------------------------------------------------------------------------------


def _correction_of(s: Account) -> str:
    """ "none", "flip", "lingoes", "cailliez", or "number" for a constant that was given."""
    return str(s["correction"] or "none")


def _constant(s: Account) -> str:
    """What is added to the distances, beside the median distance, and what that means for the map."""
    kind, ratio = _correction_of(s), s.get("constant_over_median") or 0.0
    if kind in _WITHOUT_A_CONSTANT:
        return "none is added" + ("; negative eigenvalues count by their size (flip)" if kind == "flip" else "")
    if not s["shift"]:
        return "none is needed: these are distances of points in flat space" if kind in DEFINITE else "0, as asked for"
    means = "a part of what the map shows, the same in every direction" if ratio > _SMALL else "small beside them"
    means = "the map shows mostly this constant" if ratio > 1 else means
    times = f"{two_digits(ratio)} times the median distance of about {two_digits(s['median_distance'])}"
    if kind == "lingoes":
        added = f"2 x {plain_number(s['lingoes_constant'])} is added to every squared distance"
        return f"{added}; its root is about {times}: {means}"
    return f"{plain_number(s['additive_constant'])} is added to every distance, about {times}: {means}"


def _meaning(s: Account, key: str, usual: str) -> str:
    """What a number is, which is usually something else."""
    return _OF_SIZES.get(key, usual) if of_sizes(s) else usual


def _shares_for_the_stick(s: Account) -> str:
    """The key of the shares without negative parts, which are compared with the broken stick's pieces."""
    return "share" if of_sizes(s) or not s.get("rel_corr_eig") else "rel_corr_eig"


def about_the_correction(s: Account) -> list[str]:
    """The correction and its constant, in a sentence or two, and what much negative mass means."""
    much = much_negative(s)
    said = f"Without a correction, negative eigenvalues are more than a fifth of the trace: {much}."
    return [*_correction_in_words(s), *([] if much is None else [said])]


def _correction_in_words(s: Account) -> list[str]:
    kind, shift = _correction_of(s), s["shift"]
    if kind in _WITHOUT_A_CONSTANT:
        return [_WITHOUT_A_CONSTANT[kind]]
    if not shift:
        needless = "No constant is needed: up to rounding these are distances of points in flat space."
        asked = "The constant is 0, as it was asked for: distances are embedded as they are."
        return [needless if kind in DEFINITE else asked]
    flat = (
        "This part is the same in every direction and says nothing about the data. An axis whose eigenvalue is hardly "
        "larger shows nothing."
    )
    ratio = (
        f"about {two_digits(s['constant_over_median'])} times the median geodesic distance "
        f"(about {two_digits(s['median_distance'])})"
    )
    if s.get("lingoes_constant"):
        return [
            f"Lingoes' constant is {number(shift)}. Twice this number is added to every squared distance between "
            "different points. It is the smallest that leaves no negative eigenvalue. Two points at distance 0 would "
            f"then be {ratio} apart.",
            f"The constant is added to each eigenvalue. {flat}",
        ]
    given = "It is the smallest that leaves no negative eigenvalue." if kind in DEFINITE else "It was asked for."
    return [
        f"The constant is {number(s['additive_constant'])}, {ratio}. It is added to every distance between different "
        f"points. {given}",
        f"This adds half of its square, {number(shift)}, to each eigenvalue. {flat}",
    ]


# ---- the spectrum ----------------------------------------------------------------------------------------------------


def _mostly_constant(s: Account) -> bool:
    return bool(s["shift"]) and s["constant_over_median"] > 1


def beside_the_stick(s: Account, shares: Sequence[float]) -> str:
    """How many leading axes have a larger share than the broken stick's piece, where that can be said.

    `shares` are without negative parts: `rel_corr_eig`, or `share` for "flip" and where there is none.
    """
    if _mostly_constant(s):
        return "Here the shares say little: most of each is the constant."
    above = [share > piece for share, piece in zip(shares, s["broken_stick"], strict=True)]
    n = above.index(False) if False in above else len(above)
    if n and "at most" in sides(s, _shares_for_the_stick(s))[:n]:
        which = "the first axis may: its share is" if n == 1 else f"the first {n} axes may: their shares are"
        return f"Here {which} not known exactly, but at most as large as drawn."
    return f"Here {_these(n, len(above))}."


def _these(above: int, p: int) -> str:
    if above == 0:
        return "no axis does"
    if above == p:
        return "all axes do, so that more may be worth having" if p > 1 else "the one axis does"
    return "the first axis does" if above == 1 else f"the first {above} axes do"


def _about_the_shift(s: Account) -> Iterator[Notice]:
    ratio = s.get("constant_over_median") or 0.0
    if ratio > 1:
        yield Notice(
            f"The correction puts points about {two_digits(ratio)} median distances further apart.",
            [
                "So most of every corrected distance is this constant. It is the same for all pairs: the map shows "
                "mostly the constant, and later axes say little about the data.",
                "Compare a fit with --correction none, and look at the shares without the shift. Edges that leap "
                "across a gap (shortcuts) make the constant large: try fewer neighbours, or --graph mutual. So does a "
                "sparse graph, whose paths zigzag: try more neighbours.",
            ],
        )
    negative, trace = s.get("negative_mass"), s.get("trace_unshifted") or 0.0
    if not s["shift"] and not of_sizes(s) and negative and trace > 0 and negative > _SOME_NEGATIVE * trace:
        least, much = f"{side(s, 'negative_mass')} ".lstrip(), much_negative(s)
        yield Notice(
            f"Negative eigenvalues add up to {least}{percent(negative / trace)} of the trace.",
            [
                "No points in flat space have exactly these distances. The axes show the positive part as well as they "
                "can; the negative part is left out." + (f" So much means {much}." if much else ""),
            ],
            warning=False,
        )


def _about_the_pairs(s: Account, tol: float, *, idle: bool) -> Iterator[Notice]:
    p = len(s["eigenvalues"])
    if not s.get("converged", True):
        worst = max(s["residuals"], default=0.0)
        yield Notice(
            f"The solver stopped before its tolerance: residual {number(worst, 2)}, asked for {number(tol, 2)}.",
            [
                "The last axes may be turned a little. The same fit again changes nothing. If this is good enough, "
                "give a larger --tol.",
            ],
        )
    gap = s.get("gap")
    if gap is not None and gap < _NEAR_TIE and not idle:
        fewer = "" if p == 1 else f", or for fewer than {p}"
        yield Notice(
            f"The eigenvalue of axis {p} and the next, which has no axis, differ by {percent(max(gap, 0.0))} only.",
            [f"Small changes of the data may swap or mix the two. Ask for {count(p + 1, 'axis', 'axes')}{fewer}."],
            warning=gap < LEAST_GAP * tol,
        )


def _tables_of_axes(s: Account) -> list[Table]:
    """Eigenvalues, then shares by each definition, then the definitions."""
    p = len(s["eigenvalues"])
    numbers = ("axis", [f"{a + 1}" for a in range(p)])
    values = [numbers, column("eigenvalue", s["eigenvalues"])]
    if s["shift"]:
        values.append(column("without the shift", s["eigenvalues_unshifted"]))
    values.append(("residual", [number(v, 2) for v in s["residuals"]]))
    known = [
        (key, heading, _meaning(s, key, words))
        for key, heading, words in _SHARES
        if any(value is not None for value in s.get(key) or []) and (s["shift"] or key != "share_unshifted")
    ]
    shares = [numbers, *(_with_sides(heading, s[key], sides(s, key)) for key, heading, _ in known)]
    meanings = Table(["share", "what it is"], [[heading, words] for _, heading, words in known], words=True)
    return [_beside(values), _beside(shares), meanings]


def _with_sides(heading: str, values: Sequence[Any], which: Sequence[str]) -> tuple[str, list[str]]:
    """A column of shares: what bounds they are is in the heading, or before each where they differ."""
    cells = [percent(value) for value in values]
    if len(set(which)) == 1:
        return (f"{heading}, {which[0]}" if which[0] else heading), cells
    return heading, [f"{word} {cell}".lstrip() for word, cell in zip(which, cells, strict=True)]


def _beside(columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    rows = [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    return Table([heading for heading, _ in columns], rows[:_MOST_ROWS])


def _whole_spectrum(s: Account) -> list[Table]:
    trace, rows = s["trace_unshifted"], []
    for key, label in _FACTS.items():
        value = s.get(key)
        if value is None or (key == "trace_unshifted" and value == s["trace"]):
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        said = percent(value) if key == "gap" else f"{side(s, key)} {' and '.join(map(number, values))}".lstrip()
        if side(s, key) and not any(values):
            said = "none found"
        if key == "negative_mass" and trace > 0:
            said += f", {percent(value / trace)} of the trace without a correction"
        rows.append([_meaning(s, key, label), said])
    return [Table([], rows, words=True)]
