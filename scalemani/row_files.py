"""Rows that memory can't hold: takes blocks of them, gives one array that is a map of a file without a name.

The file is gone with the last array that looks into it, also after a kill: nothing is left behind. Pages of a map
belong to the system's cache; what a process is allowed to hold does not count them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scalemani.engine.objects import room_for

COPIED = 32 << 20  # bytes of rows on their way at once


class RowFile:
    """Dense rows in a file, one block after the other.

    folder: Where there is room; the system's folder for temporary files if None, or if nothing can be written there.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = writable(folder)
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115, it is held
        self.dtype: np.dtype[Any] | None = None
        self.n_rows = self.n_features = 0

    def add(self, block: NDArray[Any]) -> None:
        """Append rows (b, d); a dtype that the earlier ones don't have makes all of them its common one."""
        if self.dtype is None:
            self.dtype, self.n_features = block.dtype, block.shape[1]
        common = np.promote_types(self.dtype, block.dtype)
        if common != self.dtype:
            self._become(common)
        part = np.ascontiguousarray(block, common)
        with room_for(self.folder, part.nbytes):
            self._file.write(part.data)
            self._file.flush()
        self.n_rows += len(part)

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Leave some of the rows, ascending, and drop the others."""
        assert self.dtype is not None
        size, done = self.dtype.itemsize * self.n_features, 0
        everything = self._mapped(writable=True)
        for start, stop in _blocks(len(rows), size):  # each goes to where it is or further ahead
            taken = everything[rows[start:stop]]
            everything[done : done + len(taken)] = taken
            done += len(taken)
        del everything
        self._file.truncate(max(done, 1) * size)
        self.n_rows = done

    def array(self) -> NDArray[Any]:
        """The rows, read only, as a map of the file, which lives as long as it."""
        found = np.asarray(self._mapped())
        self._file.close()
        return found

    def _become(self, dtype: np.dtype[Any]) -> None:
        old, other = self._mapped(), RowFile(self.folder)
        for start, stop in _blocks(self.n_rows, dtype.itemsize * self.n_features):
            other.add(old[start:stop].astype(dtype))
        self._file.close()
        self._file, self.dtype = other._file, dtype

    def _mapped(self, writable: bool = False) -> NDArray[Any]:
        shape = (self.n_rows, self.n_features)
        return np.memmap(self._file, self.dtype, "r+" if writable else "r", shape=shape)  # type: ignore[call-overload, no-any-return, unused-ignore]


def map_of(array: Any) -> Any:
    """The memory map that an array looks into, or None."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def held_bytes(rows: Any) -> int:
    """Bytes of the process's own memory that rows, dense or CSR, take: none for a map."""
    if issparse(rows):
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)
    return 0 if map_of(rows) is not None else int(rows.nbytes)


def let_go(array: Any) -> None:
    """Give up the pages of a map that the process has looked at: the system has them, or reads them again."""
    found = map_of(array)
    if found is not None and hasattr(mmap, "MADV_DONTNEED"):
        found.madvise(mmap.MADV_DONTNEED)


def writable(folder: str | None) -> str:
    """The folder nearest above a path that need not be there, or the system's for temporary files."""
    if folder and "://" not in folder:
        place = Path(folder).absolute()
        while not place.is_dir() and place != place.parent:
            place = place.parent
        if os.access(place, os.W_OK | os.X_OK):
            return str(place)
    return tempfile.gettempdir()


def _blocks(count: int, size: int) -> Iterator[tuple[int, int]]:
    step = max(1, COPIED // max(1, size))
    for start in range(0, count, step):
        yield start, min(start + step, count)
