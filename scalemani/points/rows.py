"""The distinct rows of any array of points, in memory or as a map of a file, and every row's place among them.

Identical rows are one point of the manifold: each counts once in the graph and in every mean, and all of them
get the same coordinates. Rows are equal when they are equal as float64, -0.0 being 0.0.

Rows that memory can't hold go into a file without a name (:class:`RowFile`), which is gone with the last array that
looks into it, also after a kill: nothing is left behind. Pages of a map belong to the system's cache; what a process is
allowed to hold does not count them.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from scalemani.aliases import I64
from scalemani.errors import DamagedStoreError, LooksLikeDistancesWarning, warn
from scalemani.points.classes import Labels
from scalemani.points.digests import first_occurrences, row_digests
from scalemani.points.reading import as_source, check_shape, row_blocks
from scalemani.storage.arrays import check_lists
from scalemani.storage.files import open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import REMEDY
from scalemani.storage.run import RunStore


class RowStack:
    """Rows of a source, as they come.

    source (N, d): As :func:`scalemani.points.reading.as_source` gives it.
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
                self._file = RowFile(self._folder, (rows for _, rows in row_blocks(self._source[: start + len(raw)])))
        elif self._file is not None:
            self._file.add(block)
        elif issparse(block):
            self._blocks.append(block)
        else:
            self._hold(block)

    def rows(self, first: I64 | None) -> Any:
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
        rows = _joined(self._blocks) if self._held is None else self._held
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
            self._file = RowFile(self._folder, self._blocks)
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


COPIED = 32 << 20  # bytes of rows on their way at once


class RowFile:
    """Dense rows in a file, one block after the other.

    folder: Where there is room; the system's folder for temporary files if None, or if nothing can be written there.
    blocks: The first rows.
    """

    def __init__(self, folder: str | None = None, blocks: Iterable[NDArray[Any]] = ()) -> None:
        self.folder = writable(folder)
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115, it is held
        self.dtype: np.dtype[Any] | None = None
        self.n_rows = self.n_features = 0
        for block in blocks:
            self.add(block)

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

    def keep(self, rows: I64) -> None:
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
        old, blocks = self._mapped(), _blocks(self.n_rows, dtype.itemsize * self.n_features)
        other = RowFile(self.folder, (old[start:stop].astype(dtype) for start, stop in blocks))
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
    if folder:
        place = open_location(folder).nearest_folder()
        if os.access(place, os.W_OK | os.X_OK):
            return str(place)
    return tempfile.gettempdir()


def _blocks(count: int, size: int) -> Iterator[tuple[int, int]]:
    step = max(1, COPIED // max(1, size))
    for start in range(0, count, step):
        yield start, min(start + step, count)


@dataclass(frozen=True)
class Points:
    """Distinct rows, in the order of their first occurrence.

    rows (m, d): Distinct rows; a real dtype that is exact as float64.
    distinct (N,): Distinct index of each row the user gave.
    digests (m, 2): 128-bit digest of each distinct row's float64 content, with labels also of its class.
    """

    rows: Any
    distinct: I64
    digests: NDArray[np.uint64]

    @property
    def n_rows(self) -> int:
        """Number of rows the user gave, N."""
        return len(self.distinct)

    @property
    def n_distinct(self) -> int:
        """Number of distinct rows, m."""
        return len(self.digests)

    @property
    def n_features(self) -> int:
        """Number of columns, d."""
        return int(self.rows.shape[1])

    def fingerprint(self) -> str:
        """Hex digest of the shape and of every row's content, in the user's order."""
        state = blake2b(f"{self.n_rows},{self.n_features};".encode(), digest_size=16)
        state.update(np.ascontiguousarray(self.digests[self.distinct], dtype="<u8").tobytes())
        return state.hexdigest()


def read_points(
    X: Any,
    memory: int | None = None,
    folder: str | None = None,
    check: Callable[[Any, int, str], None] | None = None,
    labels: Labels | None = None,
) -> Points:
    """Read ``X`` by blocks of rows, once, and merge identical rows, with labels those of a class.

    X (N, d): NumPy array or memory map, SciPy sparse matrix, Dask array, Zarr array, or anything NumPy can convert.
    memory: Bytes of dense rows that may be held. More than that stay where they are, if ``X`` is a memory map whose
        rows are what is wanted (it is read twice where they are not), or go into a file: ``rows`` is a map then.
    folder: Where there is room for that file; it has no name there, and is gone with the rows.
    check: As for :func:`scalemani.points.reading.row_blocks`.
    labels: Of the rows.
    Raises ScalemaniError: ``X`` is empty, not two-dimensional, not real and numeric, or not finite (row and column are
        named); other labels than one a row.
    Raises TypeError: An object array holds something that is no number.
    Raises DiskFullError: No room for the rows.
    """
    source = as_source(X, "X")
    check_shape(source.shape, "X", None)
    kept = RowStack(source, memory, folder)
    digests = []
    for start, block in row_blocks(source, check=check):
        digests.append(row_digests(block))
        kept.add(start, block)
    n_rows = sum(map(len, digests))
    check_shape((n_rows, source.shape[1]), "X", None)
    every = np.concatenate(digests)
    if labels is not None:
        every = labels.marked(every)
    first, distinct = first_occurrences(every)
    rows = kept.rows(None if len(first) == n_rows else first)
    return Points(rows, distinct, every if len(first) == n_rows else every[first])


def save_rows(store: RunStore, rows: Any) -> None:
    """Write the distinct training rows, dense or CSR."""
    if issparse(rows):
        csr = csr_array(rows)
        store.write_array("points_data", csr.data)
        store.write_array("points_indices", csr.indices)
        store.write_array("points_indptr", csr.indptr)
        store.write_array("points_shape", np.asarray(csr.shape, np.int64))
    else:
        store.write_array("points", rows)


def load_rows(store: RunStore, shape: list[int]) -> Any:
    """Read the distinct training rows back; `shape` is what the run says of them."""
    if not store.has_array("points_shape"):
        return store.read_array("points")
    data, indices, indptr = (store.read_array(f"points_{part}") for part in ("data", "indices", "indptr"))
    check_lists(store.path, "the points", indptr, data, indices)
    said = store.read_array("points_shape").tolist()
    if said != shape:
        raise DamagedStoreError(f"{store.path!r}: the points are not of this run; {REMEDY}")
    return csr_array((data, indices, indptr), shape=tuple(said))


def looks_like_distances(points: Points) -> bool:
    """Whether a matrix given as features is square, symmetric, non-negative and zero on its diagonal.

    Of more than 512 rows 256 evenly spaced ones are compared. Below three rows symmetry says little: False.
    """
    n = points.n_rows
    if n != points.n_features or n < 3:
        return False
    sample = np.arange(n) if n <= 512 else np.linspace(0, n - 1, 256).astype(np.int64)
    rows = (points.rows[row : row + 1] for row in points.distinct[sample])
    part = np.stack([np.ravel(row.toarray() if issparse(row) else row)[sample] for row in rows])
    if part.dtype.kind == "b":
        return False
    scale = np.abs(part).max()
    symmetric = bool((np.abs(part.astype(np.float64) - part.T) <= 1e-6 * scale).all())
    return bool(scale > 0 and part.min() >= 0 and not np.diagonal(part).any() and symmetric)


def warn_of_distances(points: Points) -> None:
    """Warn where rows of features look like distances between them."""
    n = points.n_rows
    if looks_like_distances(points):
        warn(
            f"X, shape ({n}, {n}), is symmetric with a zero diagonal: if it holds distances, use metric='precomputed' "
            "or metric='geodesic'",
            LooksLikeDistancesWarning,
        )
