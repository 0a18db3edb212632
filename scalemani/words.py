"""Numbers, errors and texts of others in words: one way to say each, for messages, the terminal and the page."""

import math
from collections.abc import Sequence
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NOTHING = "–"  # stands on the page where there is no number


def plain_number(value: Any, digits: int = 4, least: float = 1e-4) -> str:
    """So many significant digits, in ASCII; below `least` and from 10,000,000 on with a power of ten.

    >>> plain_number(1234.56), plain_number(0.000123456), plain_number(2.5e12), plain_number(None)
    ('1,235', '0.0001235', '2.5e+12', 'none')
    """
    if value is None or isinstance(value, (str, bool)):
        return "none" if value is None else str(value)
    size = abs(float(value))
    # Rounded first: what is shown decides how it is shown.
    rounded = float(f"{value:.{digits}g}")
    if 1000 <= abs(rounded) and size < 9_999_999.5:
        return f"{value:,.0f}"
    if size == 0 or least <= size < 9_999_999.5 or not math.isfinite(size):
        return f"{rounded:.{digits}g}"
    factor, power = f"{value:.{digits - 1}e}".split("e")
    return f"{factor.rstrip('0').rstrip('.') if '.' in factor else factor}e{power}"


def number(value: Any, digits: int = 4) -> str:
    """The same as a page sets it.

    >>> number(1234.56), number(-0.0123456), number(3.14e-9), number(2.5e12), number(None)
    ('1,235', '−0.01235', '3.14 × 10⁻⁹', '2.5 × 10¹²', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING if value is None or math.isnan(value) else ("∞" if value > 0 else "−∞")
    factor, _, exponent = plain_number(value or 0.0, digits, least=1e-3).partition("e")
    return factor.replace("-", "−") + (f" × {power_of_ten(int(exponent))}" if exponent else "")


def power_of_ten(power: int) -> str:
    """As a page sets it.

    >>> power_of_ten(-9)
    '10⁻⁹'
    """
    return f"10{str(power).translate(_RAISED)}"


def two_digits(value: float) -> str:
    """Two significant digits, for what was found from a sample.

    >>> [two_digits(value) for value in (4.031, 13.75, 137.2, 0.5, 45678.0, 3.2e-9, 0.0)]
    ['4.0', '14', '140', '0.50', '46,000', '3.2e-09', '0']
    """
    rounded = float(f"{value:.2g}")
    if rounded == 0:
        return "0"
    if 10 <= abs(rounded) < 1e7:
        return f"{rounded:,.0f}"
    return f"{rounded:#.2g}" if 1e-3 <= abs(rounded) < 10 else f"{value:.1e}"


def percent(share: Any) -> str:
    """A share as a percentage, with as many digits as mean something.

    >>> percent(0.98765), percent(1.31), percent(0.0123), percent(-0.5), percent(2e-6), percent(0), percent(None)
    ('98.8 %', '131 %', '1.23 %', '−50.0 %', '< 0.01 %', '0 %', '–')
    """
    if share is None or not math.isfinite(share):
        return NOTHING
    if share == 0:
        return "0 %"
    size = abs(100 * float(share))
    sign = "−" if share < 0 else ""
    if size < 0.01:
        return f"{sign}< 0.01 %" if not sign else "> −0.01 %"
    return f"{sign}{size:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f} %"


def column(heading: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """A table's column of one unit and one number of decimals, so that numbers are compared by their length.

    >>> column("size", [5249556.0, 21717.0, None])
    ('size, × 10⁶', ['5.2496', '0.0217', '–'])
    >>> column("size", [12.25, 0.5])
    ('size', ['12.250', '0.500'])
    """
    known = [float(value) for value in values if value is not None and math.isfinite(value)]
    power = math.floor(math.log10(max(map(abs, known), default=0.0) or 1.0))
    shown = 0 if -2 <= power < 6 else power
    decimals = max(0, 4 - (power - shown))

    def cell(value: Any) -> str:
        if value is None or not math.isfinite(value):
            return NOTHING
        return f"{value / 10.0**shown:,.{decimals}f}".replace("-", "−")

    cells = [cell(value) for value in values]
    return (f"{heading}, × {power_of_ten(shown)}" if shown else heading), cells


def count(number_of: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(1200, "row"), count(2, "axis", "axes")
    ('1 row', '1,200 rows', '2 axes')
    """
    return f"{number_of:,} {noun if number_of == 1 else plural or noun + 's'}"


def bytes_in_words(count: float) -> str:
    """Bytes in the unit that leaves a few digits.

    >>> bytes_in_words(512), bytes_in_words(7_123_456), bytes_in_words(1.5e12)
    ('512 B', '7.1 MB', '1.5 TB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit in ("B", "kB") or count >= 99.5 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float, tenths: bool = False) -> str:
    """Seconds as a person says them, if they are few with `tenths` of one.

    >>> duration(4.2, tenths=True), duration(4.2), duration(75), duration(7260)
    ('4.2 s', '4 s', '1 min 15 s', '2 h 1 min')
    """
    if tenths and seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def short(text: str) -> str:
    """At most 60 letters of a text."""
    return text if len(text) <= 60 else text[:57] + "..."


def printable(text: str) -> str:
    r"""The text with control characters, escapes and marks of direction written out, as Python writes them.

    A name in a file can hold the signs by which a terminal moves its cursor, changes its title or types for its user;
    halves of surrogate pairs, of which Python makes the bytes of a name that are not UTF-8, can't be printed at all.

    >>> printable("a\x1b[2Jb"), printable("Gauß, K."), printable("gnp.x\u202e")
    ('a\\x1b[2Jb', 'Gauß, K.', 'gnp.x\\u202e')
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def one_line(error: BaseException, most: int = 200) -> str:
    """What an error of another library says, in one line of so many letters; its kind where it says nothing.

    >>> one_line(OSError("a\\nb")), one_line(EOFError())
    ('a b', 'EOFError')
    """
    return printable(" ".join(str(error).split())[:most]) or type(error).__name__


def aligned(headings: list[str], rows: list[list[str]]) -> list[str]:
    """A table as lines of text, the first column to the left and the others to the right.

    >>> aligned(["", "a"], [["x", "10"], ["long", "2"]])
    ['       a', 'x     10', 'long   2']
    """
    widths = [max(len(row[j]) for row in [headings, *rows]) for j in range(len(headings))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(row[j].rjust(widths[j]) for j in range(1, len(row)))])
        for row in [headings, *rows]
    ]
