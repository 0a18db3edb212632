"""Tables of a spectrum: takes its account, gives a row an axis, the shares by definition, and what has no axis."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalemani.bounds import side, sides
from scalemani.reporting.page import Table
from scalemani.reporting.words import column, number, percent

__all__ = ["MOST_ROWS", "tables_of_axes", "whole_spectrum"]

MOST_ROWS = 20
# Key of the account, heading, definition.
SHARES = (
    ("share", "share", "the eigenvalue over the trace, the sum of all"),
    (
        "share_unshifted",
        "unshifted",
        "the same without what the correction adds, over the trace without it; as negative "
        "eigenvalues lessen the trace, these may add up to more than 100 %",
    ),
    ("share_of_squares", "of squares", "the eigenvalue's square over the sum of all squares"),
    ("relative_eig", "Relative_eig", "as ape's pcoa: the uncorrected eigenvalue over their sum"),
    ("rel_corr_eig", "Rel_corr_eig", "as ape's pcoa: over the sum after a correction that leaves none negative"),
    ("broken_stick", "Broken_stick", "as ape's pcoa: the piece of a stick that is broken at random"),
)


def tables_of_axes(s: Mapping[str, Any]) -> list[Table]:
    """Eigenvalues, then shares by each definition, then the definitions; what an older fit lacks is left out."""
    p = len(s["eigenvalues"])
    numbers = ("axis", [f"{a + 1}" for a in range(p)])
    values = [numbers, column("eigenvalue", s["eigenvalues"])]
    if s["shift"]:
        values.append(column("without the shift", s["eigenvalues_unshifted"]))
    values.append(("residual", [number(v, 2) for v in s["residuals"]]))
    known = [
        (heading, s[key], words)
        for key, heading, words in SHARES
        if any(value is not None for value in s.get(key) or []) and (s["shift"] or key != "share_unshifted")
    ]
    if s["correction"] == "flip":
        known[0] = ("share", s["share"], "the eigenvalue's size over the sum of all sizes")
    keys = {heading: key for key, heading, _ in SHARES}
    shares = [numbers, *(_with_sides(heading, found, sides(s, keys[heading])) for heading, found, _ in known)]
    meanings = Table(["share", "what it is"], [[heading, words] for heading, _, words in known], words=True)
    return [_beside(values), _beside(shares), meanings]


def _with_sides(heading: str, values: Sequence[Any], which: Sequence[str]) -> tuple[str, list[str]]:
    """A column of shares: what bounds they are is in the heading, or before each where they differ."""
    cells = [percent(value) for value in values]
    if len(set(which)) == 1:
        return (f"{heading}, {which[0]}" if which[0] else heading), cells
    return heading, [f"{word} {cell}".lstrip() for word, cell in zip(which, cells, strict=True)]


def _beside(columns: Sequence[tuple[str, Sequence[str]]]) -> Table:
    rows = [list(cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    return Table([heading for heading, _ in columns], rows[:MOST_ROWS])


def whole_spectrum(s: Mapping[str, Any]) -> list[Table]:
    """What belongs to no axis."""
    trace = s["trace_unshifted"]
    what = "sizes of all eigenvalues, sum" if s["correction"] == "flip" else "trace: sum of all eigenvalues"
    rows = [[what, _bounded(s, "trace")]]
    if s["trace"] != trace:
        rows.append(["trace without a correction", number(trace)])
    if s.get("next_eigenvalue") is not None:
        rows.append(["next eigenvalue, which has no axis", number(s["next_eigenvalue"])])
    if s.get("gap") is not None:
        rows.append(["gap between the last axis and the next, relative", percent(s["gap"])])
    if s.get("most_negative_eigenvalue") is not None:
        rows.append(["lowest eigenvalue without a correction", _bounded(s, "most_negative_eigenvalue")])
    if s.get("negative_mass") is not None:
        share = f", {percent(s['negative_mass'] / trace)} of the trace without a correction" if trace > 0 else ""
        rows.append(["sizes of the negative eigenvalues, sum", _bounded(s, "negative_mass") + share])
    if s.get("gof"):
        gof = f"{side(s, 'gof')} {' and '.join(number(v) for v in s['gof'])}"
        rows.append(["GOF of R's cmdscale", gof.lstrip()])
    if s.get("reconstruction_error") is not None:
        rows.append(["reconstruction error of scikit-learn's Isomap", number(s["reconstruction_error"])])
    return [Table([], rows, words=True)]


def _bounded(s: Mapping[str, Any], key: str) -> str:
    """A number that is exact, or with the side on which the true one is; of a sum that has no part yet, none."""
    which = side(s, key)
    if which and not s[key]:
        return "none found"
    return f"{which} {number(s[key])}".lstrip()
