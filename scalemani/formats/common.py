"""What readers of every kind of file do: one line for damage, sizes held against bytes, one column of an array."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError
from scalemani.points.cells import inexact_labels
from scalemani.points.labels import unpacked
from scalemani.storage.user_arrays import LARGEST_RATIO, MOST_ROWS, UNQUESTIONED
from scalemani.words import one_line

Values = NDArray[Any] | list[str]


@dataclass(frozen=True)
class PointsFile:
    """Points as read from a file.

    values (n, d): A memory map, NumPy array, SciPy sparse array, Zarr array or
        :class:`~scalemani.points.cells.RowSource`; not validated here.
    ids: One id a row, if the file has them.
    names: Headings of the features, if the file has them.
    notes: What was taken for what without being asked for, a line each.
    """

    values: Any
    ids: list[str] | None = None
    id_name: str = "id"
    names: list[str] | None = None
    notes: Sequence[str] = ()


@contextlib.contextmanager
def damage_said(what: str, remedy: str = "save it again") -> Iterator[None]:
    """Turn what another library says of damage, in errors of many kinds, into one line: `what` is wrong, and why."""
    try:
        yield
    except ScalemaniError:
        raise
    except Exception as error:
        raise ScalemaniError(f"{what} ({one_line(error)}); {remedy}") from error


def check_size(name: str, rows: int, said: int, there: int, size: int) -> None:
    """Refuse what a file only claims to hold, before any of it is read.

    rows, said: What the file says that it has, and bytes.
    there, size: Bytes that the file has for it, as it says, and bytes of the file.
    """
    if rows > MOST_ROWS:
        raise ScalemaniError(f"{name} says {rows:,} rows; at most {MOST_ROWS:,} are read")
    if there > size or (said > UNQUESTIONED and said > LARGEST_RATIO * there):
        raise ScalemaniError(
            f"{name} says {said:,} bytes and the file has {min(there, size):,} for it: it is not whole, or not what it "
            "seems; write it again"
        )


def column_of(array: Any, name: str, n_rows: int, number: int | None = None) -> Values:
    """Numbers as they are, text as text; dates, complex numbers and records are refused.

    array: Of NumPy, Zarr or h5py, with one column or several.
    number: Of the column, from 1, where there are several.
    """
    shape = tuple(array.shape)
    if len(shape) not in (1, 2) or shape[0] != n_rows:
        raise ScalemaniError(f"{name} has shape {shape} and the fit {n_rows} rows: give a value a row, in their order")
    width = shape[1] if len(shape) == 2 else 1
    if (number is None and width != 1) or (number is not None and not 1 <= number <= width):
        raise ScalemaniError(f"{name} has {width} columns; give a number from 1 to {width} behind it, as in {name}:1")
    cells = array[:, (number or 1) - 1] if len(shape) == 2 else array[:]
    if cells.dtype.kind in "biuf":
        numbers = np.asarray(unpacked(array, cells, name))
        labels = numbers.dtype.kind in "iu" and inexact_labels(numbers.tolist())
        return list(map(str, numbers.tolist())) if labels else numbers
    texts = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells.tolist()]
    if cells.dtype.kind not in "OSUT" or not all(isinstance(text, str) for text in texts):
        raise ScalemaniError(f"{name} holds values of type {array.dtype}; give numbers or text")
    return [str(text) for text in texts]
