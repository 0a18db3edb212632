"""Cells of any kind as numbers that are exact as float64, and matrices whose rows are read when they are asked for.

A cell that is no such number is named by row and column; so are numbers whose squares leave float64's range. Whoever
reads points by blocks (:mod:`scalemani.points.reading`) asks for a shape, a dtype, chunks and slices of rows, as Zarr
arrays have them: :class:`RowSource` gives these to formats that offer something else.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.words import one_line

LARGEST = 1e150  # squares stay in float64's range
LONG = re.compile(r"[+-]?[0-9]{16,40}", re.ASCII)  # may be more than the 2^53 up to which float64 is exact
FEW_LABELS = 12
SAME = 1e-6  # of a length, or of the typical one: what is smaller is rounding (of float32, or of 1 - a correlation)


def typical_distance(lengths: F64) -> float:
    """The median length of those that are more than rounding, beside which 1e-6 is nothing; 0 where there are none.

    >>> typical_distance(np.array([0.0, -1e-17, 1e-16, 2.0, 3.0, 4.0, np.inf]))
    3.0
    """
    finite = lengths[np.isfinite(lengths)]
    real = finite[finite > 1e-9 * finite.max(initial=0.0)]
    return float(np.median(real)) if len(real) else 0.0


def check_magnitude(values: Any) -> None:
    """Refuse numbers whose squares leave float64's range: distances would be inf, or all 0."""
    entries = values.data if sp.issparse(values) else values
    largest = max(abs(float(entries.max())), abs(float(entries.min()))) if entries.size else 0.0
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise ScalemaniError(
            f"X has values of size {largest:.1e}: between {1 / LARGEST:g} and {LARGEST:g} is allowed; rescale it"
        )


def inexact_labels(values: Sequence[Any]) -> bool:
    """Whether whole numbers would be others in float64, and name classes: two would be one, or there are few.

    values: Integers, or text of which some may be integers.
    """
    found = {one for one in set(values) if isinstance(one, int) or LONG.fullmatch(one)}
    if all(int(float(one)) == int(one) for one in found):
        return False
    return len(found) <= FEW_LABELS or len(set(map(float, found))) < len(found)


class RowSource(ABC):
    """A matrix of which consecutive rows are read when they are asked for.

    chunk_rows: Rows that are stored, and so decoded, together.
    chunks: Of the first chunk, as Zarr and HDF5 have it.
    """

    ndim = 2

    def __init__(self, shape: tuple[int, int], dtype: Any, chunk_rows: int | None = None) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.chunks = None if chunk_rows is None else (max(1, chunk_rows), shape[1])

    @abstractmethod
    def read(self, start: int, stop: int) -> Any:
        """Rows from `start` up to `stop`, 0 <= start <= stop <= rows, as a NumPy array or a SciPy CSR array."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, selection: Any) -> Any:
        """Consecutive rows, and of these any columns that NumPy can select.

        Raises ScalemaniError: If the rows are not a slice of step 1.
        """
        rows, *columns = selection if isinstance(selection, tuple) else (selection,)
        if not isinstance(rows, slice) or rows.step not in (None, 1):
            raise ScalemaniError(f"rows {rows!r} were asked for; a slice of consecutive ones, such as [0:10], is read")
        start, stop, _ = rows.indices(self.shape[0])
        found = self.read(start, max(start, stop))
        return found[:, columns[0]] if columns else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = self[:]
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype)


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


def numbers(values: NDArray[Any], name: str, first: int = 0, column: int = 0, label: Any = None) -> F64:
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


def _place(row: int, column: int, label: Any = None) -> str:
    return f"row {row}, column {column}" + ("" if label is None else f", {label!r}")


def _not_exact(name: str, value: Any) -> ScalemaniError:
    what = "number" if isinstance(value, Decimal) else "integer"
    return ScalemaniError(
        f"{name} holds the {what} {value}, which is not exact as float64 (the limit is 2**53, or 15 digits); subtract "
        "an offset or convert it to float64 yourself"
    )
