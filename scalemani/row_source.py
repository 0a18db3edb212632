"""Rows that lie elsewhere: takes a way to read consecutive rows, gives a matrix that can be sliced and is never whole.

What reads points by blocks (:mod:`scalemani.row_blocks`) asks for a shape, a dtype, chunks and slices of rows, as
Zarr arrays have them. Formats that offer something else get these here.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError

__all__ = ["RowSource"]


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
