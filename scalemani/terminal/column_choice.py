"""Which columns of a table are read: takes the options of the command line and the table's names, gives positions."""

import csv
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scalemani.errors import ScalemaniError, nearest

__all__ = [
    *("MOST_LABELS", "Reading", "by_name", "chosen", "doubtful"),
    *("listed", "position", "quoted", "short", "short_list", "word"),
]

MOST_LABELS = 20  # values that a column takes and is taken for a label
_LABELS = {"label", "labels", "class", "classes", "target", "group", "cluster", "category", "species", "type", "y"}


@dataclass(frozen=True)
class Reading:
    """How a table is to be read: the options of the command line, None where one is not given.

    Attributes
    ----------
    delimiter, decimal : str or None
        Of a .csv or .tsv.
    heading : bool or None
        Whether the first line of a .csv or .tsv is a heading.
    id_column : str or None
        The column that names the rows.
    columns, ignore : str or None
        Columns to read and columns to leave out, with commas between.
    like : tuple of str or None
        Columns of a fit: these alone are taken, in the table's order, if it has them all and `columns` is not given.
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

    Raises
    ------
    ScalemaniError
        There is none, or there are two.
    """
    number = int(word) - 1 if word.isdecimal() and len(word) < 10 else -1
    found = [at for at, name in enumerate(names or []) if name == word]
    if 0 <= number < width and not found:
        return number
    if len(found) == 1:
        return found[0]
    if found:
        raise ScalemaniError(f"{where} has {len(found)} columns called {short(word)!r}; give a column's number from 1")
    close = nearest(word, names or [])
    known = short_list([name or "one without a name" for name in names]) if names else "no heading"
    meant = f"did you mean {short(close)!r}?" if close else f"give one of these, or a number from 1 to {width}"
    raise ScalemaniError(f"{where} has no column {short(word)!r} ({known}); {meant}")


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

    Parameters
    ----------
    where : str
        The file, for messages.
    names : list of str or None
    width : int
        Columns of the table.
    how : Reading
    apart : collection of int
        Columns that are read only if ``how.columns`` names them: the ids, an index.
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

    Parameters
    ----------
    where : str
    read : list of int
        The columns that are read.
    names : list of str or None
        Of all columns.
    counts, other, few : sequences of bool
        Which columns are the numbers of the rows, which take another whole number in each row, and which few of them.
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


def short(text: str) -> str:
    """At most 60 letters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."
