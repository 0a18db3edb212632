"""One column of an array that a file holds, whatever the file: with a value for each row of a fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError
from scalemani.points.labels import unpacked

Values = NDArray[Any] | list[str]


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
        return np.asarray(unpacked(array, cells, name))
    texts = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells.tolist()]
    if cells.dtype.kind not in "OSUT" or not all(isinstance(text, str) for text in texts):
        raise ScalemaniError(f"{name} holds values of type {array.dtype}; give numbers or text")
    return [str(text) for text in texts]
