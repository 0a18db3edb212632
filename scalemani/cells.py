"""Leaf of stage 1: takes cells of any kind, gives numbers that are exact as float64, or says which cell is not one."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError

__all__ = ["as_text", "check_exact", "check_kind", "numbers", "one_line", "unmasked"]

_EXACT_INTEGER = 2**53  # up to this magnitude every integer is a float64
_WANTED = "give real numbers (integer, float or bool)"
_NOT_NUMBERS = (str, bytes, list, tuple, np.ndarray, date, timedelta, np.datetime64, np.timedelta64)


def check_kind(dtype: np.dtype[Any], name: str) -> None:
    """Refuse a dtype that is not of real numbers; objects are looked at one by one later."""
    if dtype.kind == "c":
        raise ScalemaniError(f"Complex data not supported: {name} has dtype {dtype}; give real numbers")
    if dtype.kind not in "biufO":
        raise ScalemaniError(f"{name} has dtype {dtype}; {_WANTED}")


def check_exact(values: NDArray[Any], name: str) -> None:
    """Refuse 64-bit integers that float64 may round."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return
    large = (values > _EXACT_INTEGER) | (values < -_EXACT_INTEGER if values.dtype.kind == "i" else False)
    if large.any():
        raise _not_exact(name, values[large].flat[0])


def unmasked(values: Any, name: str, first: int = 0) -> Any:
    """Values in memory, without their mask: masked cells are refused. `first` is the number of the first row."""
    values = values.compute() if hasattr(values, "compute") else values
    if not np.ma.isMaskedArray(values):
        return values
    masked = np.argwhere(np.ma.getmaskarray(values))
    if len(masked):
        at = masked[0].tolist()
        where = _place(first + at[0], at[1]) if len(at) == 2 else f"{at}"
        raise ScalemaniError(
            f"{name} has masked entries; fill or drop them first ({len(masked)} in this block of rows, the first at "
            f"{where})"
        )
    return values.data


def numbers(values: NDArray[Any], name: str, first: int = 0, column: int = 0, label: Any = None) -> NDArray[np.float64]:
    """Objects (rows, columns) as float64, NaN where a value is missing.

    Messages count rows from `first`, columns from `column`, and add the column's `label`.
    """
    out = np.empty(values.shape)
    for (row, at), value in np.ndenumerate(values):
        out[row, at] = _number(value, name, (first + row, column + at, label))
    return out


def _number(value: Any, name: str, at: tuple[int, int, Any]) -> float:
    """One object as float64."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return float("nan")
    if isinstance(value, (complex, np.complexfloating)):
        raise ScalemaniError(f"Complex data not supported: {name} holds {value!r} at {_place(*at)}; give real numbers")
    if isinstance(value, _NOT_NUMBERS):
        raise ScalemaniError(f"{name} holds {value!r} at {_place(*at)}; {_WANTED}")
    if isinstance(value, (int, np.integer)) and abs(int(value)) > _EXACT_INTEGER:
        raise _not_exact(name, value)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ScalemaniError
        message = f"{name} holds something that is no number at {_place(*at)}: {one_line(error)}"
        raise kind(message) from error
    # A decimal is kept if the shortest text of its float64 is that decimal: 0.1 is, 2**53 + 1 is not.
    if isinstance(value, Decimal) and value.is_finite() and Decimal(repr(found)) != value:
        raise _not_exact(name, value)
    return found


def as_text(value: Any) -> str | None:
    """Text that a file's attribute holds, be it in bytes or alone in an array; None if it is something else."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return value if isinstance(value, str) else None


def one_line(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split())[:300]


def _place(row: int, column: int, label: Any = None) -> str:
    return f"row {row}, column {column}" + ("" if label is None else f", {label!r}")


def _not_exact(name: str, value: Any) -> ScalemaniError:
    what = "number" if isinstance(value, Decimal) else "integer"
    return ScalemaniError(
        f"{name} holds the {what} {value}, which is not exact as float64 (the limit is 2**53, or 15 digits); subtract "
        "an offset or convert it to float64 yourself"
    )
