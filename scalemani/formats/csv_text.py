"""Text tables: a .csv as rows of cells, whatever encoding, line ends and remarks it has, and which columns are read."""

import codecs
import contextlib
import csv
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

from scalemani.errors import ScalemaniError, meant
from scalemani.words import short

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

    rows: Number of the line and cells. Empty lines at the end are left out.
    remark: The cells of a line with a mark (#, %) before the first row, if it has as many as that: its names.
    quoted: Of the first two lines of them: whether each cell is in quotes.
    """

    path: Path
    delimiter: str
    rows: Iterator[tuple[int, list[str]]] = field(default_factory=lambda: iter(()))
    remark: list[str] | None = None
    quoted: list[bool] = field(default_factory=list)


@contextlib.contextmanager
def open_table(path: Path, delimiter: str | None, decimal: str = ".") -> Iterator[TextTable]:
    r"""Open a table of text.

    delimiter: One character; ``\t`` written out is taken too. None: the one that the first line says (``sep=;``), else
        a tab for a .tsv and a comma for others.
    decimal: Where it is a comma, a semicolon parts the cells in place of it.
    Raises ScalemaniError: Another delimiter or decimal sign, neither UTF-8 nor UTF-16 with its mark, broken quotes, an
        empty line that is not at the end.
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
        begun, remarks = remarks, []
    else:
        begun = [first, *islice(lines, 1)]
        width = len(_cells(first, table.delimiter))
        for number, remark in enumerate(remarks, before + 1):
            cells = [cell.strip() for cell in _cells(remark.lstrip("#% "), table.delimiter)]
            if len(cells) == width and any(map(is_number, cells)):
                raise ScalemaniError(
                    f"{path}, line {number} begins with {remark[0]!r} and has numbers: it may be a row, a heading or a "
                    "remark; remove it, or the sign"
                )
            table.remark = cells if len(cells) == width > 1 else table.remark
    table.quoted = [_is_quoted(line, table.delimiter) for line in begun[:2]]
    table.rows = _numbered(table, chain(begun, lines), before + len(remarks))
    return table


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([_single(line) if delimiter == " " else line], delimiter=delimiter), [])


def _is_quoted(line: str, delimiter: str) -> bool:
    cells = ['"' + cell.replace('"', '""') + '"' for cell in _cells(line, delimiter)]
    return line.rstrip("\r\n") == delimiter.join(cells)


def _single(line: str) -> str:
    """A line in which runs of spaces are one: columns that are aligned with spaces."""
    return line if '"' in line else re.sub(" +", " ", line.strip(" ").replace(" \n", "\n").replace(" \r", "\r"))


def _numbered(table: TextTable, lines: Iterator[str], before: int) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its line. Empty lines at the end are none; elsewhere one may be a lost row."""
    empty = 0
    reader = csv.reader(map(_single, lines) if table.delimiter == " " else lines, delimiter=table.delimiter)
    for row in reader:
        line = before + reader.line_num
        if not row or (len(row) == 1 and row[0].isspace()):  # a quoted empty cell is a row
            empty = empty or line
        elif empty:
            raise ScalemaniError(
                f"{table.path}, line {empty}: an empty line before other rows; remove it or mend the row"
            )
        else:
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

    Raises ValueError: If it is text, or an integer that no float64 is.
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


MOST_LABELS = 20  # values that a column takes and is taken for a label
_LABELS = {"label", "labels", "class", "classes", "target", "group", "cluster", "category", "species", "type", "y"}


@dataclass(frozen=True)
class Reading:
    """How a table is to be read: the options of the command line, None where one is not given.

    delimiter, decimal: Of a .csv or .tsv.
    heading: Whether the first line of a .csv or .tsv is a heading.
    id_column: The column that names the rows.
    columns, ignore: Columns to read and columns to leave out, with commas between.
    like: Columns of a fit: these alone are taken, in the table's order, if it has them all and `columns` is not given.
    """

    delimiter: str | None = None
    id_column: str | None = None
    columns: str | None = None
    ignore: str | None = None
    decimal: str | None = None
    heading: bool | None = None
    like: tuple[str, ...] | None = None

    def words(self) -> list[str]:
        """Every column that an option names."""
        ids = [] if self.id_column is None else [self.id_column]
        return [*ids, *listed(self.columns), *listed(self.ignore)]


def listed(text: str | None) -> list[str]:
    """Columns with commas between; quotes go around one that has a comma.

    >>> listed('a,"b, c"')
    ['a', 'b, c']
    """
    return [] if not text else next(csv.reader([text], skipinitialspace=True))


def position(where: str, word: str, names: list[str] | None, width: int) -> int:
    """Where a column is that is given by its name or, only if none is called so, by its number from 1.

    Raises ScalemaniError: There is none, or there are two.
    """
    number = int(word) - 1 if word.isdecimal() and len(word) < 10 else -1
    found = [at for at, name in enumerate(names or []) if name == word]
    if 0 <= number < width and not found:
        return number
    if len(found) == 1:
        return found[0]
    if found:
        raise ScalemaniError(f"{where} has {len(found)} columns called {short(word)!r}; give a column's number from 1")
    known = short_list([name or "one without a name" for name in names]) if names else "no heading"
    what = meant(word, names or [], f"give one of these, or a number from 1 to {width}")
    raise ScalemaniError(f"{where} has no column {short(word)!r} ({known}); {what}")


def word(at: int, names: list[str] | None) -> str:
    """What an option calls a column: its number from 1 or, if another is called so, its name.

    >>> word(1, ["0", "1", "2"]), word(1, ["2", "a, b"])
    ('1', '"a, b"')
    """
    number = str(at + 1)
    return quoted(names[at]) if names and number in names else number


def by_name(where: str, names: list[str] | None, how: Reading) -> list[str]:
    """A note of the words that are names, and would be numbers of other columns."""
    numbers = {str(at + 1): name for at, name in enumerate(names or [])}
    words = [*listed(how.columns), *listed(how.ignore)]
    found = [one for one in words if one in (names or []) and one != numbers.get(one, one)]
    return [f"{where}: taken as names of columns, not as numbers: {short_list(found)}"] if found else []


def quoted(name: str) -> str:
    """A name as `listed` reads it."""
    return '"' + name.replace('"', '""') + '"' if "," in name or '"' in name else name


def chosen(where: str, names: list[str] | None, width: int, how: Reading, apart: Collection[int] = ()) -> list[int]:
    """Positions of the columns to read, in their order.

    where: The file, for messages.
    width: Columns of the table.
    apart: Columns that are read only if ``how.columns`` names them: the ids, an index.
    """
    if how.columns is not None:
        if how.ignore is not None:
            raise ScalemaniError(f"{where}: --columns and --ignore are both given; give one of them")
        found = [position(where, word, names, width) for word in listed(how.columns)]
        twice = [at for at in found if found.count(at) > 1]
        if twice:
            given = names[twice[0]] if names else str(twice[0] + 1)
            raise ScalemaniError(f"{where}: the column {given!r} is given twice; give each once")
    else:
        ignored = {*apart, *(position(where, word, names, width) for word in listed(how.ignore))}
        found = [at for at in range(width) if at not in ignored]
        known = Counter(names)
        if how.like and names and all(known[name] == 1 for name in how.like):
            liked = set(how.like)
            found = [at for at in found if names[at] in liked]
    if not found:
        raise ScalemaniError(f"{where} has no column but the ids and those left out; check --delimiter and --columns")
    return found


def doubtful(
    where: str,
    read: list[int],
    names: list[str] | None,
    counts: Sequence[bool],
    other: Sequence[bool],
    few: Sequence[bool],
) -> list[str]:
    """Notes of columns that are read as features and look like none.

    read: The columns that are read.
    names: Of all columns.
    counts, other, few: Which columns are the numbers of the rows, which take another whole number in each row, and
        which few of them.
    """
    if 2 * sum(few) > len(few):  # then that is what the data are
        few = [
            doubt and names is not None and names[at].lower() in _LABELS for at, doubt in zip(read, few, strict=True)
        ]
    other = [doubt and not counts[at] and 2 * sum(other) <= len(other) for at, doubt in enumerate(other)]
    notes = []
    for doubts, what in (
        (counts, "only counting the rows"),
        (other, "with another whole number in each row, as ids have"),
        (few, "with few whole values, as labels have"),
    ):
        found = [at for at, doubt in zip(read, doubts, strict=True) if doubt]
        if found:
            said = short_list([f"{at + 1} ({short(names[at])})" if names else str(at + 1) for at in found])
            column, feature, them = ("columns", "features", "them") if found[1:] else ("column", "a feature", "it")
            given = ",".join(word(at, names) for at in found)
            notes.append(f"{where}: {column} {said}, {what}, read as {feature}; --ignore {given} leaves {them} out")
    return notes


def short_list(names: list[str]) -> str:
    """The first twenty of some headings, each of no more than 60 letters; one with a comma is in quotes.

    >>> short_list(["a", "b"])
    'a, b'
    """
    return ", ".join(quoted(short(name)) for name in names[:20]) + (" and more" if len(names) > 20 else "")
