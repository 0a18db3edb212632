"""Text of tables: takes a .csv, gives its rows of cells, whatever encoding, line ends and remarks others write."""

import codecs
import contextlib
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TextIO

from scalemani.errors import ScalemaniError

__all__ = ["EXACT", "MISSING", "TextTable", "cell_number", "is_number", "open_table"]

_LONGEST_LINE = 64 << 20  # characters: a million columns and more; a file without line ends is no table
_NO_DELIMITERS = '".+-\r\n\0'  # beside letters and digits: what numbers, quotes and lines are made of
_NO_TEXT = {
    b"\x1f\x8b": "compressed by gzip; unpack it first",
    b"PK": "a ZIP archive, as spreadsheets are; save it as UTF-8 text",
}
#: What tables have where a number is missing.
MISSING = {"", "na", "n/a", "#n/a", "#na", "null", "none", "nil", "-", "--", ".", "?", "*", "missing"}
EXACT = 2**53  # up to which every integer is a float64
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE | re.DOTALL)  # the first line of Excel's files


@dataclass
class TextTable:
    """An open table.

    Attributes
    ----------
    path : Path
    delimiter : str
    rows : iterator of (int, list of str)
        Number of the line and cells. Empty lines at the end are left out.
    remark : list of str or None
        The cells of a line with a mark (#, %) before the first row, if it has as many as that: its names.
    quoted : list of bool
        Of the first two rows: whether each cell is in quotes.
    """

    path: Path
    delimiter: str
    rows: Iterator[tuple[int, list[str]]] = field(default_factory=lambda: iter(()))
    remark: list[str] | None = None
    quoted: list[bool] = field(default_factory=list)


@contextlib.contextmanager
def open_table(path: Path, delimiter: str | None, decimal: str = ".") -> Iterator[TextTable]:
    r"""Open a table of text.

    Parameters
    ----------
    path : Path
    delimiter : str or None
        One character; ``\t`` written out is taken too. None: the one that the first line says (``sep=;``), else a tab
        for a .tsv and a comma for others.
    decimal : str
        Where it is a comma, a semicolon parts the cells in place of it.

    Raises
    ------
    ScalemaniError
        Another delimiter or decimal sign, neither UTF-8 nor UTF-16 with its mark, broken quotes, an empty line that is
        not at the end.
    """
    delimiter = "\t" if delimiter == r"\t" else delimiter
    if delimiter is not None and (len(delimiter) != 1 or delimiter.isalnum() or delimiter in _NO_DELIMITERS):
        shown = repr(delimiter[:20])
        raise ScalemaniError(f"--delimiter {shown}: give one character that no number has, such as ';'")
    if decimal not in (".", ","):
        raise ScalemaniError(f"--decimal {decimal[:20]!r}: give a point or a comma")
    with path.open("rb") as file:
        begin = file.read(2)
    if begin in _NO_TEXT:
        raise ScalemaniError(f"{path} is {_NO_TEXT[begin]}")
    marked = begin in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    try:
        with path.open(newline="", encoding="utf-16" if marked else "utf-8-sig") as text:
            yield _begun(path, text, delimiter, ";" if decimal == "," else ",")
    except UnicodeDecodeError as error:
        what = "UTF-16 text" if marked else "UTF-8 text, but perhaps Latin-1 or Windows-1252"
        raise ScalemaniError(f"{path} is not {what} ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise ScalemaniError(f"{path} is not a table ({error}); check --delimiter and quotes") from error


def _begun(path: Path, file: TextIO, delimiter: str | None, usual: str) -> TextTable:
    """The table behind what others write before it: a line that says the delimiter, and remarks."""
    lines = _lines(path, file)
    first, before = next(lines, None), 0
    said = _SEPARATOR_LINE.fullmatch(first) if first else None
    if said:
        if delimiter not in (None, said[1]):
            raise ScalemaniError(f"{path}, line 1 says sep={said[1]} and --delimiter {delimiter!r}; leave that out")
        first, before, delimiter = next(lines, None), 1, said[1]
    table = TextTable(path, delimiter or ("\t" if path.suffix.lower() == ".tsv" else usual))
    remarks: list[str] = []
    while first is not None and first[0] in "#%":
        remarks.append(first)
        first = next(lines, None)
    if first is None:  # names of rows may begin so
        rest, remarks = iter(remarks), []
    else:
        rest = chain([first], lines)
        width = len(_cells(first, table.delimiter))
        for number, remark in enumerate(remarks, before + 1):
            cells = [cell.strip() for cell in _cells(remark.lstrip("#% "), table.delimiter)]
            if len(cells) == width and any(map(is_number, cells)):
                raise ScalemaniError(
                    f"{path}, line {number} begins with {remark[0]!r} and has numbers: it may be a row, a heading or a "
                    "remark; remove it, or the sign"
                )
            table.remark = cells if len(cells) == width > 1 else table.remark
    table.rows = _numbered(table, rest, before + len(remarks))
    return table


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([_single(line) if delimiter == " " else line], delimiter=delimiter), [])


def _single(line: str) -> str:
    """A line in which runs of spaces are one: columns that are aligned with spaces."""
    return line if '"' in line else re.sub(" +", " ", line.strip(" ").replace(" \n", "\n").replace(" \r", "\r"))


def _numbered(table: TextTable, lines: Iterator[str], before: int) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its line. Empty lines at the end are none; elsewhere one may be a lost row."""
    empty = 0
    read: list[str] = []

    def noted() -> Iterator[str]:
        for line in lines:
            read.append(line)
            yield _single(line) if table.delimiter == " " else line
            if len(table.quoted) > 1:
                break
        yield from map(_single, lines) if table.delimiter == " " else lines

    reader = csv.reader(noted(), delimiter=table.delimiter)
    for row in reader:
        line = before + reader.line_num
        if not row or (len(row) == 1 and row[0].isspace()):  # a quoted empty cell is a row
            empty = empty or line
            read.clear()
        elif empty:
            raise ScalemaniError(
                f"{table.path}, line {empty}: an empty line before other rows; remove it or mend the row"
            )
        else:
            if len(table.quoted) < 2:
                quoted = table.delimiter.join('"' + cell.replace('"', '""') + '"' for cell in row)
                table.quoted.append("".join(read).rstrip("\r\n") == quoted)
                read.clear()
            yield line, row


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


def cell_number(cell: str, decimal: str = ".") -> float:
    """A cell's number; ``1_000``, which Python takes for a number, is text in a table.

    Raises
    ------
    ValueError
        If it is text, or an integer that no float64 is.
    """
    if decimal == ",":
        if "." in cell:
            raise ValueError(cell)
        cell = cell.replace(",", ".")
    if "_" in cell:
        raise ValueError(cell)
    number = float(cell)
    if not -EXACT < number < EXACT and cell.strip().lstrip("+-").isdecimal() and int(cell) != number:
        raise ValueError(cell)
    return number


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number."""
    try:
        cell_number(cell, decimal)
    except ValueError:
        return False
    return True
