"""Tables of points as text: takes a .csv, gives its numbers and, if asked for, its row ids."""

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NoReturn, TextIO

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError

__all__ = ["cell_number", "read_csv", "table_rows"]

_LIKELY_DELIMITERS = (";", "\t", "|", " ")
_ROWS_A_BLOCK = 4096
_LONGEST_LINE = 64 << 20  # characters: a million columns and more; a file without line ends is no table
_NO_DELIMITERS = '".+-\r\n\0'  # beside letters and digits: what numbers, quotes and lines are made of


def read_csv(
    path: Path, delimiter: str, id_column: str | None
) -> tuple[NDArray[np.float64], list[str] | None, str, list[str] | None]:
    r"""Read a table whose columns are numbers, but for one that may name the rows.

    The first line is a heading if the id column is given by name, or else if a column other than the
    ids has text there and a number below it, or if none of its cells is a number.

    Parameters
    ----------
    path : Path
    delimiter : str
        As :func:`table_rows` takes it.
    id_column : str or None
        A heading, or a column's number from 1.

    Returns
    -------
    values : ndarray of float64, shape (n, d)
    ids : list of str or None
    id_name : str
        ``"id"`` where the file has no heading.
    names : list of str or None
        Headings of the columns of numbers.

    Raises
    ------
    ScalemaniError
        No rows, a row with another number of cells, a cell that isn't a number, an empty line that is
        not at the end, no such id column.
    """
    return _read(path, table_rows(path, delimiter), delimiter, id_column)


def table_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    r"""Each row of a table with the number of its line.

    Parameters
    ----------
    path : Path
    delimiter : str
        One character; ``\t`` written out is taken too.

    Raises
    ------
    ScalemaniError
        Another delimiter, not UTF-8, broken quotes, an empty line that is not at the end.
    """
    delimiter = "\t" if delimiter == r"\t" else delimiter
    if len(delimiter) != 1 or delimiter.isalnum() or delimiter in _NO_DELIMITERS:
        shown = repr(delimiter[:20])
        raise ScalemaniError(f"--delimiter {shown}: give one character that no number has, such as ';'")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield from _numbered(path, file, delimiter)
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {error.start}"
        raise ScalemaniError(f"{path} is not UTF-8 text ({where}); save it as UTF-8") from error
    except csv.Error as error:
        raise ScalemaniError(f"{path} is not a table ({error}); check --delimiter and quotes") from error


def _numbered(path: Path, file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its line. Empty lines at the end are none; elsewhere one may be a lost row."""
    empty = 0
    reader = csv.reader(_lines(path, file), delimiter=delimiter)
    for row in reader:
        if not row:
            empty = empty or reader.line_num
        elif empty:
            raise ScalemaniError(f"{path}, line {empty}: an empty line before other rows; remove it or mend the row")
        else:
            yield reader.line_num, row


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """The lines, none of which is longer than memory likes, and none of which is of a file that is no text."""
    number = 0
    while line := file.readline(_LONGEST_LINE + 1):
        number += 1
        if len(line) > _LONGEST_LINE:
            raise ScalemaniError(
                f"{path}, line {number}: more than {_LONGEST_LINE:,} characters; give a line a row, or save an .npy"
            )
        if "\0" in line:
            raise ScalemaniError(f"{path}, line {number}: a zero byte, which no text has; save it as UTF-8 text")
        yield line


def _read(
    path: Path, rows: Iterator[tuple[int, list[str]]], delimiter: str, id_column: str | None
) -> tuple[NDArray[np.float64], list[str] | None, str, list[str] | None]:
    first = next(rows, None)
    second = next(rows, None)
    if first is None:
        raise ScalemaniError(f"{path} has no rows; give a row of numbers a point")
    width = len(first[1])
    heading = first[1] if _is_heading(first[1], second[1] if second else [], id_column) else None
    if heading and second is None:
        raise ScalemaniError(f"{path} has a heading and no rows below it; give a row of numbers a point")
    at = _id_position(path, heading, width, id_column)
    ids: list[str] = []
    blocks: list[NDArray[np.float64]] = []
    block: list[list[float]] = []
    kept = [row for row in ((None if heading else first), second) if row is not None]
    for line, row in chain(kept, rows):
        if len(row) != width:
            raise ScalemaniError(f"{path}, line {line}: {len(row)} cells, {width} in the first line; mend it")
        if at is not None:
            ids.append(row[at])
            row = row[:at] + row[at + 1 :]
        try:
            block.append([cell_number(cell) for cell in row])
        except ValueError:
            _refuse_text(path, line, row, heading, at, delimiter)
        if len(block) == _ROWS_A_BLOCK:
            blocks.append(np.array(block, dtype=np.float64))
            block = []
    if block:
        blocks.append(np.array(block, dtype=np.float64))
    values = np.concatenate(blocks)
    if values.shape[1] == 0:
        raise ScalemaniError(f"{path} has no column but the ids; check --delimiter {delimiter!r}")
    name = heading[at] if heading and at is not None else "id"
    names = None if heading is None else [text for column, text in enumerate(heading) if column != at]
    return values, (ids if at is not None else None), name, names


def cell_number(cell: str) -> float:
    """A cell's number; ``1_000``, which Python takes for a number, is text in a table.

    Raises
    ------
    ValueError
        If it is text.
    """
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def _is_number(cell: str) -> bool:
    try:
        cell_number(cell)
    except ValueError:
        return False
    return True


def _is_heading(first: list[str], second: list[str], id_column: str | None) -> bool:
    if id_column is not None and id_column in first and not _is_number(id_column):
        return True
    # Ids say nothing: text may stand over a number in their column too.
    skip = int(id_column[:9]) - 1 if id_column is not None and id_column.isdecimal() else -1
    above = [cell for j, cell in enumerate(first) if j != skip]
    below = [cell for j, cell in enumerate(second) if j != skip]
    if not any(cell.strip() for cell in above):
        return False  # names nothing: a row whose numbers are missing, which is refused by its line
    text_over_number = any(not _is_number(a) and _is_number(b) for a, b in zip(above, below, strict=False))
    return text_over_number or not any(_is_number(cell) for cell in above)


def _id_position(path: Path, heading: list[str] | None, width: int, id_column: str | None) -> int | None:
    if id_column is None:
        return None
    if heading and id_column in heading:
        return heading.index(id_column)
    if id_column.isdecimal() and len(id_column) < 10 and 1 <= int(id_column) <= width:
        return int(id_column) - 1
    known = short_list(heading) if heading else "no heading"
    raise ScalemaniError(
        f"{path} has no column {_short(id_column)!r} ({known}); give a heading or a number from 1 to {width}"
    )


def _refuse_text(
    path: Path, line: int, row: list[str], heading: list[str] | None, at: int | None, delimiter: str
) -> NoReturn:
    """Say which cell isn't a number, and the likeliest remedy."""
    column = next(j for j, cell in enumerate(row) if not _is_number(cell))
    cell = _short(row[column].strip())
    if len(row) == 1:
        for likely in _LIKELY_DELIMITERS:
            if likely in row[column].strip():
                raise ScalemaniError(f"{path}, line {line}: one cell {cell!r}; is it --delimiter {likely!r}?")
    number = column + 1 + (at is not None and column >= at)
    label = f"column {number}" + (f" ({_short(heading[number - 1])})" if heading else "")
    given = repr(cell) if cell else "an empty cell"
    remedy = "remove the column or mend the cell"
    if at is None:
        remedy = f"give --id-column {number} if the column names the rows, or " + remedy
    raise ScalemaniError(f"{path}, line {line}, {label}: {given} is not a number; {remedy}")


def short_list(names: list[str]) -> str:
    """The first twenty of some headings, each of no more than 60 letters.

    >>> short_list(["a", "b"])
    'a, b'
    """
    return ", ".join(map(_short, names[:20])) + (" and more" if len(names) > 20 else "")


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
