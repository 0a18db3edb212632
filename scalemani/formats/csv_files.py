"""Points from a .csv: its numbers, and the names of its rows and columns.

:func:`_layout` alone decides, from the first rows, what the first line and the first column are. What these leave open
is asked: a refusal names the option that settles it.
"""

import contextlib
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.formats.common import PointsFile
from scalemani.formats.csv_text import (
    EXACT,
    MISSING,
    MOST_LABELS,
    Reading,
    TextTable,
    by_name,
    cell_number,
    chosen,
    doubtful,
    is_number,
    listed,
    open_table,
    position,
    word,
)
from scalemani.words import short

_ROWS_A_BLOCK = 4096
_ROWS_OF_EVIDENCE = 500  # by which is decided what the lines and columns are
_NO_VALUE = ("", "na", "n/a", "#n/a", "nan", "null", "none", ".", "-")  # what programs write where a value is missing
_DELIMITERS = (",", ";", "\t", "|", " ")
_UNNAMED = re.compile(r"(Unnamed: \d+|\.\.\.\d+)?")  # as pandas and readr call a column without a name
# Numbers as float() does not read them: 0x1F, 1,5, 1'000, 2.0D+00, 50%.
_MISSHAPEN = re.compile(r"[+-]?(0x[0-9a-f]+|[\d.,' ]*\d[\d.,' ]*([ed][+-]?\d+)?\s*%?)", re.IGNORECASE)
_SHORT_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?(e[+-]?\d+)?", re.IGNORECASE)

Row = tuple[int, list[str]]


@dataclass(frozen=True)
class _Layout:
    """What the lines and columns of a table are.

    names: The heading.
    first: 0 if the first line is a row, 1 if it is the heading.
    cells, width: Cells of a row, and those of them before the empty ones that a delimiter at the end of each line
        makes.
    ids: Column that names the rows.
    unnamed: Whether the first column has no name, and so names the rows.
    read: Columns of numbers.
    """

    names: list[str] | None
    first: int
    cells: int
    width: int
    ids: int | None
    unnamed: bool
    read: list[int]
    notes: list[str]


def read_csv(path: Path, how: Reading) -> PointsFile:
    """Read a table whose columns are numbers, but for one that may name the rows.

    Raises ScalemaniError: No rows, a row with another number of cells, a cell that isn't a number, an empty line that
        is not at the end, no such column, a first line or column that may be this or that.
    """
    decimal = "." if how.decimal is None else how.decimal
    with open_table(path, how.delimiter, decimal) as table:
        head = list(islice(table.rows, _ROWS_A_BLOCK))
        if not head:
            raise ScalemaniError(f"{path} has no rows; give a row of numbers a point")
        if decimal == table.delimiter and not any("," in cell for _, row in head for cell in row):
            raise ScalemaniError(f"{path} has no quoted cell with a decimal comma, and commas part its cells; mend it")
        layout = _layout(table, head, how, decimal)
        rows = head[layout.first :]
        if not rows:
            raise ScalemaniError(f"{path} has a heading and no rows below it; give a row of numbers a point")
        blocks: list[F64] = []
        ids: list[str] = []
        while rows:
            blocks.append(_numbers(table, rows, layout, decimal, ids))
            rows = list(islice(table.rows, _ROWS_A_BLOCK))
    values = np.concatenate(blocks)
    asked = layout.names is None and how.columns is None and how.like is None and len(layout.read) > 1
    if asked and layout.read[0] == 0 and _counting(values[:, 0]):
        raise ScalemaniError(
            f"{path}: column 1 has no name and counts the rows; give --id-column 1 if it names them, --ignore 1 to "
            "leave it out, or --columns with all to read it"
        )
    names = None if layout.names is None else [layout.names[at] for at in layout.read]
    notes = _notes(path, values, layout, how)
    if layout.ids is None:
        return PointsFile(values, names=names, notes=notes)
    if layout.unnamed and layout.ids == 0 and not _are_row_names(ids):
        raise ScalemaniError(
            f"{path}: column 1 has no name and repeats or misses some; give --id-column 1 or --ignore 1"
        )
    return PointsFile(values, ids, (layout.names[layout.ids] if layout.names else "") or "id", names, notes)


# ---- what the first line and the first column are -------------------------------------------------------------------


def _layout(table: TextTable, head: list[Row], how: Reading, decimal: str) -> _Layout:
    """What the first line and the first column are, by the first rows; what may be this or that is asked about."""
    first, body = [cell.strip() for cell in head[0][1]], [row for _, row in head[1:_ROWS_OF_EVIDENCE]]
    cells = len(body[0]) if body else len(first)
    width = max((at + 1 for row in body for at, cell in enumerate(row) if cell.strip()), default=cells)
    same = all(len(row) == cells for row in body)
    width = width if same and not any(first[width:]) else cells
    if len(first) == cells + 1 and not first[-1]:
        first = first[:-1]  # a delimiter at the end of the heading alone
    short_by_one = bool(body) and same and len(first) == width - 1 and how.heading is not False
    column = [row[0] for row in body]
    # Decimal commas make two cells of one: 1,5 and 2,5 under "x".
    commas = width == 2 and table.delimiter == "," and all(map(is_number, column))
    # No cell stands over the names of the rows, as R writes them.
    heading = unnamed = short_by_one and (how.id_column == "1" or (_are_row_names(column) and not commas))
    names: list[str] | None = ["", *first] if heading else None
    if not heading:
        if body and len(first) not in (cells, width):
            _refuse_width(table, head[1][0], cells, len(first), decimal)
        heading = _is_heading(table, first[:width], body, how, decimal)
        names = first[:width] if heading else table.remark[:width] if table.remark and how.heading is None else None
    where = str(table.path)
    nameless = [at for at, name in enumerate(names or []) if _UNNAMED.fullmatch(name)]
    ids = 0 if how.id_column == "1" and 0 in nameless else None  # though another may be called 1
    if how.id_column is not None and ids is None:
        ids = position(where, how.id_column, names, width)
    unnamed = unnamed or (0 in nameless and ids != 0 and _are_row_names(column))
    unnamed = unnamed and ("1" in (names or []) or "1" not in listed(how.ignore))
    apart = {at for at in (ids, 0 if unnamed else None) if at is not None}
    read = chosen(where, names, width, how, apart)
    if unnamed and ids is None and 0 not in read:
        ids = 0
    notes: list[str] = []
    if names is not None and how.columns is None and body:
        for number in [at + 1 for at in read if at in nameless]:
            given = f" or --id-column {number} if it names the rows" if ids is None else ""
            given = "" if str(number) in names else f"give --ignore {number}{given}, or "
            raise ScalemaniError(f"{where}: column {number} has no name in the heading; {given}name it")
        second, *rest = [[row[at] for at in read] for row in body if len(row) == cells]
        repeats = len(set(names)) < len(names)
        if _marked(second, rest, decimal) or (repeats and rest and _whole(second) and not any(map(_whole, rest))):
            doubt = f"{where}: line {head[1][0]} may be a second heading"
            if repeats:
                raise ScalemaniError(f"{doubt}, since the first repeats names; leave one line of names")
            notes.append(f"{doubt}, and is read as a row")
    return _Layout(names, int(heading), cells, width, ids, unnamed, read, notes)


def _are_row_names(column: list[str]) -> bool:
    """Whether cells without a heading name rows: none is empty, and they are text or whole numbers without repeats."""
    cells = [cell.strip() for cell in column]
    if not all(cells) or not cells:
        return False
    if all(_missing(cell) or is_number(cell) for cell in cells):
        return len(set(cells)) == len(cells) and all(re.fullmatch(r"[+-]?\d+", cell) for cell in cells)
    return not any(_MISSHAPEN.fullmatch(cell) and not is_number(cell) for cell in cells)


def _is_heading(table: TextTable, first: list[str], body: list[list[str]], how: Reading, decimal: str) -> bool:
    """Whether the first line names the columns.

    Raises ScalemaniError: It may be either.
    """
    if how.heading is not None:
        return how.heading
    width = len(first)
    if how.like and set(how.like) <= set(first):
        return True
    if any(word in first and not (word.isdecimal() and 0 < int(word[:9]) <= width) for word in how.words()):
        return True
    if not any(first):
        return False  # names nothing: a row whose numbers are missing, which is refused by its line
    if table.quoted[0] and body and not table.quoted[1]:
        return True
    number = int(how.id_column[:9]) - 1 if how.id_column is not None and how.id_column.isdecimal() else -1
    apart = number if 0 <= number < width else None  # ids say little: text may stand over a number there
    numbers = [at for at, cell in enumerate(first) if at != apart and is_number(cell, decimal)]
    others = [at for at in range(width) if at != apart and at not in numbers]
    odd = [at for at in others if _MISSHAPEN.fullmatch(first[at])]
    if not numbers:
        return not odd and not all(_missing(first[at]) for at in others)
    if apart is not None and not first[apart] and body and all(row[apart].strip() for row in body if len(row) == width):
        return True  # nothing over the ids
    over = [at for at in others if not first[at]]
    if over == [0] == others and apart is None and _are_row_names([row[0] for row in body]):
        return True  # no name over the names of the rows
    if odd or any(_missing(first[at]) for at in others):
        if over != [0] or not body or not all(row[0].strip() for row in body):
            return False  # a row that is refused by its line
        _ask(table, first)
    below = [row for row in body if len(row) >= width]
    text = [at for at in others if below and is_number(below[0][at], decimal)]
    if apart is not None and not is_number(first[apart]) and len(below) > 1:
        text += [apart] if all(is_number(row[apart]) for row in below) else []
    marked = _marked([first[at] for at in numbers], [[row[at] for at in numbers] for row in below], decimal)
    if text and marked:
        return True
    if text or (marked and table.remark is None):
        _ask(table, first)
    return False


def _missing(cell: str) -> bool:
    return cell.lower() in MISSING or cell.lower() in ("true", "false")


@np.errstate(all="ignore")  # of numbers near the largest
def _marked(first: list[str], body: list[list[str]], decimal: str) -> bool:
    """Whether numbers look like names of columns: by a mark which they have and next to none of the rows below has."""
    if not all(
        len(cell) <= 14 and _SHORT_NUMBER.fullmatch(cell.strip()) and is_number(cell, decimal) for cell in first
    ):
        return False  # no one names a column so
    top, d = np.array([cell_number(cell, decimal) for cell in first]), len(first)
    rows = [row for row in body if len(row) == d]
    below = np.full((len(rows), d), np.nan)
    for i, row in enumerate(rows):
        with contextlib.suppress(ValueError):
            below[i] = [cell_number(cell, decimal) for cell in row]
    below = below[np.isfinite(below).all(axis=1)]
    if not len(below) or (len(set(top.tolist())) < d and abs(top).min() <= 1):
        return False  # no other repeats, of which 0, 0, 1 may be a point
    steps, rises = np.diff(below, axis=1), bool((np.diff(top) > 0).all())
    if _whole(first):
        if d > 1 and top[0] in (0, 1) and (np.diff(top) == 1).all() and (steps == 1).all(axis=1).mean() <= 0.5:
            return True  # 0, 1, 2 or 1, 2, 3
        if (d != 2 or rises) and np.mean([_whole(row) for row in rows]) <= 0.05:
            return True  # whole numbers over others
    elif (
        all(decimal in cell for cell in first)
        and len(rows) > 3
        and not any(decimal in cell for row in rows for cell in row)
    ):
        return True  # decimals over none
    even = (abs(steps - steps[:, :1]) <= 1e-6 * abs(steps[:, :1])).all(axis=1)
    step = np.diff(top)[:1]
    if d > 2 and step[0] and np.allclose(np.diff(top), step, rtol=1e-6, atol=0) and even.mean() <= 0.1:
        return True  # 400, 410, 420
    low, high = below.min(axis=0), below.max(axis=0)
    many = len(below) > 9
    far = (np.maximum(low - top, top - high) > (high - low) * (0.5 if many else 1)).mean()
    if (many or (d > 1 and len(below) > 3)) and (far == 1 or (far >= 0.5 and (rises or many) and d > 2)):
        return True  # beyond all that is below
    return d > 4 and rises and bool((steps > 0).all(axis=1).mean() <= 0.02)


def _whole(cells: list[str]) -> bool:
    return all(cell.strip().lstrip("+-").isdecimal() for cell in cells)


def _ask(table: TextTable, first: list[str]) -> NoReturn:
    shown = short(table.delimiter.join(first))
    raise ScalemaniError(
        f"{table.path}: the first line ({shown}) may be a heading or a row; give --heading or --no-heading"
    )


# ---- numbers --------------------------------------------------------------------------------------------------------


def _numbers(table: TextTable, rows: list[Row], layout: _Layout, decimal: str, ids: list[str]) -> F64:
    """The numbers of some rows; their ids are put behind others."""
    read, at, cells, width = layout.read, layout.ids, layout.cells, layout.width
    for line, row in rows:
        if len(row) not in (cells, width):
            _refuse_width(table, line, len(row), cells, decimal)
        if width < cells and any(cell.strip() for cell in row[width:]):
            raise ScalemaniError(f"{table.path}, line {line}: a cell beyond the last column; mend it")
    given = [row[column] for _, row in rows for column in read]
    if at is not None:
        ids += [row[at] for _, row in rows]
    found: F64
    try:
        plain = decimal == "." and "_" not in "".join(given)  # cell_number is slower
        values = map(float, given) if plain else (cell_number(cell, decimal) for cell in given)
        found = np.fromiter(values, float, len(given)).reshape(len(rows), len(read))
        doubted = [rows[i] for i in np.flatnonzero((abs(found) >= EXACT).any(axis=1))]
    except ValueError:
        found, doubted = np.empty(0), rows
    for line, row in doubted:
        if not all(is_number(row[column], decimal) for column in read):
            _refuse_text(table, line, row, layout, decimal)
    return found


def _refuse_width(table: TextTable, line: int, cells: int, expected: int, decimal: str) -> NoReturn:
    other = _other_reading(table, decimal)
    names = "give --id-column 1 if the first names the rows, or " if cells == expected + 1 else ""
    remedy = f"is it {other}?" if other else f"{names}mend it"
    raise ScalemaniError(f"{table.path}, line {line}: {cells} cells, {expected} in the first line; {remedy}")


def _refuse_text(table: TextTable, line: int, row: list[str], layout: _Layout, decimal: str) -> NoReturn:
    """Say which cell isn't a number, and the likeliest remedy."""
    column = next(at for at in layout.read if not is_number(row[at], decimal))
    cell, number = row[column].strip(), column + 1
    other = _other_reading(table, decimal)
    if other:
        raise ScalemaniError(f"{table.path}, line {line}: {short(cell)!r} is not a number; is it {other}?")
    label = f"column {number}" + (f" ({short(layout.names[column])})" if layout.names else "")
    given = repr(short(cell)) if cell else "an empty cell"
    said = word(column, layout.names)
    what, remedy = "is not a number", f"give --ignore {said}, or mend the cell"
    if layout.ids is None:
        remedy = f"give --id-column {said} if the column names the rows, --ignore {said} to leave it out, or mend it"
    if layout.names and cell == layout.names[column].strip():
        remedy = "if this is a second heading, take the line out (tail -n +2 FILE is a file without its heading)"
    elif cell.casefold() in _NO_VALUE and layout.ids is not None:
        what = "is no value"
        remedy = f"fill the cell, take the row out, or give --ignore {said} to leave the column out"
    elif cell.lstrip("+-").isdecimal():
        what, remedy = "is beyond 2**53 and not exact as float64", "subtract an offset first, or " + remedy
    elif "," in cell and decimal == "." and re.fullmatch(r"[+-]?[\d.,]+", cell):
        remedy = (
            f"give --delimiter {table.delimiter!r} --decimal ',' if the comma is its decimal sign, or remove the comma"
        )
    elif "." in cell and decimal == ",":
        remedy = "with --decimal ',' no cell has a point; mend it"
    heading = ", or give --heading if the line names the columns" if line == 1 else ""
    raise ScalemaniError(f"{table.path}, line {line}, {label}: {given} {what}; {remedy}{heading}")


def _other_reading(table: TextTable, decimal: str) -> str | None:
    """The options with which the first rows are numbers, if there are any others than those given."""
    for sign in (".", ","):
        for delimiter in _DELIMITERS:
            if (delimiter, sign) == (table.delimiter, decimal):
                continue
            try:
                with open_table(table.path, delimiter) as other:
                    rows = [row for _, row in islice(other.rows, 20)]
            except ScalemaniError:
                continue
            below = rows[1:] or rows
            width = len(below[0])
            numbers = all(is_number(cell, sign) for row in below for cell in row[width > 1 :])
            commas = sign == "." or any("," in cell for row in below for cell in row)
            odd = any(_MISSHAPEN.fullmatch(cell) and not is_number(cell, sign) for cell in rows[0])
            alone = sign == "," and all(is_number(row[0], sign) == ("," in row[0]) for row in rows)
            even = {len(row) for row in below} == {width} and len(rows[0]) in (width, max(width - 1, 1))
            if even and (width > 1 or alone) and commas and numbers and not odd:
                return f"--delimiter {delimiter!r}" + (f" --decimal {sign!r}" if "," in sign + decimal else "")
    return None


# ---- notes ----------------------------------------------------------------------------------------------------------


def _notes(path: Path, values: F64, layout: _Layout, how: Reading) -> list[str]:
    """What was taken for what without being asked for, and which features look like none."""
    notes = list(layout.notes)
    if layout.unnamed and how.id_column is None and layout.ids == 0:
        notes.append(f"{path}: column 1 has no name and is taken for the names of the rows")
    elif layout.unnamed and 0 not in layout.read:
        notes.append(f"{path}: column 1 has no name and is left out")
    if layout.names is None and how.heading is None and how.like is None:
        notes.append(f"{path} has no heading: line 1 is a row; give --heading if it names the columns")
    notes += by_name(str(path), layout.names, how)
    if how.like is not None or how.columns is not None:
        return notes
    n = len(values)
    kinds = [len(np.unique(column)) if (column == np.floor(column)).all() else 0 for column in values.T]
    counts = [_counting(column) for column in values.T]
    other = [2 < n == found for found in kinds]
    few = [1 < found <= min(MOST_LABELS, n // 4) for found in kinds]
    return notes + doubtful(str(path), layout.read, layout.names, counts, other, few)


def _counting(column: F64) -> bool:
    """Whether a column is 0, 1, 2 and so on, or from another whole number on, in any order."""
    n, least = len(column), column.min()
    return bool(n > 2 and least == np.floor(least) and (np.sort(column) == np.arange(n) + least).all())
