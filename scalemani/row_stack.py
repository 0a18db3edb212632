"""Stage 1, keeping: takes validated blocks of rows as they are read, gives all of them, in memory or as a map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from scalemani.row_blocks import row_blocks
from scalemani.row_files import RowFile, map_of


class RowStack:
    """Rows of a source, as they come.

    source (N, d): As :func:`scalemani.row_blocks.as_source` gives it.
    memory: Bytes of dense rows that may be held; None for any number. CSR rows are held always.
    folder: Where a file of rows may be.
    """

    def __init__(self, source: Any, memory: int | None, folder: str | None) -> None:
        self._source, self._folder = source, folder
        self._memory = np.inf if memory is None else memory
        known = isinstance(source.shape[0], int)  # Dask may not know
        self._n_rows = source.shape[0] if known else 0
        size = source.shape[0] * source.shape[1] * np.dtype(source.dtype).itemsize if known else 0
        self._in_place = not issparse(source) and size > self._memory and _as_wanted(source)
        self._file: RowFile | None = None
        if size > self._memory and not self._in_place and not issparse(source):
            self._file = RowFile(folder)
        self._blocks: list[Any] = []
        self._held: NDArray[Any] | None = None
        self._filled = self._bytes = 0

    def add(self, start: int, block: Any) -> None:
        """The next rows; `start` is the number of the first."""
        if self._in_place:
            raw = self._source[start : start + len(block)]
            if raw.dtype.kind == "f" and np.signbit(raw[raw == 0]).any():  # -0.0 is 0.0 here: they need a copy
                self._in_place = False
                self._file = RowFile(self._folder)
                for _, earlier in row_blocks(self._source[: start + len(block)]):
                    self._file.add(earlier)
        elif self._file is not None:
            self._file.add(block)
        elif issparse(block):
            self._blocks.append(block)
        else:
            self._hold(block)

    def rows(self, first: NDArray[np.int64] | None) -> Any:
        """All rows, or those that are listed, ascending: an array, CSR, or a map, read only."""
        if self._in_place:
            if first is None:
                return self._source
            self._file = RowFile(self._folder)
            for start, block in row_blocks(self._source):
                here = first[np.searchsorted(first, start) : np.searchsorted(first, start + len(block))]
                self._file.add(block[here - start])
            return self._file.array()
        if self._file is not None:
            if first is not None:
                self._file.keep(first)
            return self._file.array()
        if self._held is None:
            rows = _joined(self._blocks)
        else:
            rows = self._held
        return rows if first is None else rows[first]

    def _hold(self, block: NDArray[Any]) -> None:
        if self._n_rows:  # filled in place: the rows are held once, not as blocks and again as a whole
            if self._held is None:
                self._held = np.empty((self._n_rows, block.shape[1]), block.dtype)
            elif block.dtype != self._held.dtype:
                self._held = self._held.astype(np.promote_types(self._held.dtype, block.dtype))
            self._held[self._filled : self._filled + len(block)] = block
            self._filled += len(block)
            return
        self._blocks.append(block)
        self._bytes += block.nbytes
        if self._bytes > self._memory:
            self._file = RowFile(self._folder)
            for earlier in self._blocks:
                self._file.add(earlier)
            self._blocks.clear()


def _as_wanted(source: Any) -> bool:
    """Whether a source is a map of rows as they are kept: whole, in one piece, of a native type exact as float64."""
    if not isinstance(source, np.ndarray) or map_of(source) is None:
        return False
    kind, size = source.dtype.kind, source.dtype.itemsize
    exact = (kind in "iu" and size < 8) or (kind == "f" and size <= 8)
    return exact and source.dtype.isnative and source.flags.c_contiguous


def _joined(blocks: list[Any]) -> Any:
    if issparse(blocks[0]):
        return csr_array(vstack(blocks, format="csr")) if len(blocks) > 1 else blocks[0]
    return np.concatenate(blocks)
