"""Numbers in words: takes a value, gives what stands on the page."""

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["SAID_OF_GIVEN", "column", "count", "number", "percent", "setting"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NOTHING = "–"
SAID_OF_GIVEN = {  # how given distances were taken, by the neighbour search; the others are of rows of features
    "geodesic": "the final distances (metric geodesic), for principal coordinates; metric precomputed would choose "
    "neighbours by them and measure along paths",
    "precomputed": "distances to choose neighbours by (metric precomputed), measured along paths; metric geodesic "
    "would take them as the final ones, for principal coordinates",
    "graph": "a neighbour graph (sparse, metric precomputed), measured along paths",
}


def number(value: Any, digits: int = 4) -> str:
    """So many significant digits; powers of ten where there would be many zeros.

    >>> number(1234.56), number(-0.0123456), number(3.14e-9), number(2.5e12), number(None)
    ('1,235', '−0.01235', '3.14 × 10⁻⁹', '2.5 × 10¹²', '–')
    """
    if value is None or not math.isfinite(value):
        return NOTHING if value is None or math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(float(value))
    if size == 0:
        return "0"
    if 1e-3 <= size < 9_999_999.5:
        # Rounded first: what is shown decides how it is shown.
        rounded = float(f"{size:.{digits}g}")
        text = f"{size:,.0f}" if rounded >= 1000 else f"{rounded:.{digits}g}"
    else:
        factor, power = f"{size:.{digits - 1}e}".split("e")
        text = f"{factor.rstrip('0').rstrip('.') if '.' in factor else factor} × {_power(int(power))}"
    return ("−" if value < 0 else "") + text


def _power(power: int) -> str:
    return f"10{str(power).translate(_RAISED)}"


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
    return (f"{heading}, × {_power(shown)}" if shown else heading), cells


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


def count(number_of: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(1200, "row"), count(2, "axis", "axes")
    ('1 row', '1,200 rows', '2 axes')
    """
    return f"{number_of:,} {noun if number_of == 1 else plural or noun + 's'}"


def setting(value: Any) -> str:
    """A parameter's value as it is given.

    >>> setting(None), setting(10), setting(1e-06), setting({"p": 3}), setting("union")
    ('none', '10', '1e-06', 'p = 3', 'union')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} = {setting(item)}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)
