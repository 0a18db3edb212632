"""Distances that are given as a dense matrix (NumPy, memmap, Dask or Zarr), validated.

It is read by blocks of rows, never whole unless it already is. Distances are finite (inf may separate components where
that is allowed), non-negative, symmetric, with a zero diagonal; what is smaller than 1e-6 of the typical distance is
rounding there (on the diagonal 1e-3), as 1 - numpy.corrcoef leaves it, and is read as 0.
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError, ScalemaniWarning, warn
from scalemani.points.cells import SAME, typical_distance, unmasked
from scalemani.points.reading import as_source, row_blocks

BLOCK_BYTES = 64 << 20
CORNER = 64  # points whose distances from one another are kept for a look at triangles
ROOT = SAME**0.5  # of the typical distance: a diagonal by the roots of |x|² + |y|² - 2xy in float32
ROUGH = 0.01  # of a side: what three digits round it by, twice


class DistanceMatrix:
    """A validated square matrix of distances.

    matrix (n, n): NumPy, memmap, Dask or Zarr; real.
    allow_inf: Whether inf may stand between components.
    fingerprint: Of its float64 content, without the rounding that is read as 0.
    labels (n,): Component of each point (all 0 where there is no inf).
    row_longest (n,): Longest finite distance of each row.
    sample, sample_rows (s,): Seeded random off-diagonal finite distances and their rows: the same number of each row
        that has any, at least 1,000 where no point is alone.
    corner, corner_points (k, k) and (k,): The distances of some seeded points from one another, and which they are.
    Raises ScalemaniError: Naming row and column, what is allowed and what to do.
    """

    def __init__(self, matrix: Any, name: str = "X", *, allow_inf: bool = False) -> None:
        if sp.issparse(matrix):
            raise ScalemaniError(
                f"{name} is sparse: distances are dense (n, n); a sparse matrix is a graph (metric='precomputed')"
            )
        self.matrix = as_source(matrix, name)
        self.name = name
        self._check_form()
        self.n = int(self.matrix.shape[0])
        self.labels = np.full(self.n, -1)
        self._allow_inf = allow_inf
        self._diagonal, self._largest = np.zeros(self.n), np.zeros(self.n)
        self._lowest: tuple[float, int, int] = (0.0, 0, 0)  # of all entries, with its row and column
        self._apart: tuple[float, str] = (0.0, "")  # the largest difference of two directions, and what to say of it
        self.corner_points = np.sort(np.random.default_rng(1).choice(self.n, min(CORNER, self.n), replace=False))
        self.corner = np.zeros((len(self.corner_points), len(self.corner_points)))
        digest = hashlib.blake2b(digest_size=16)
        self.row_longest = np.zeros(self.n)
        samples, sampled = [np.empty(0)], [np.empty(0, np.int64)]
        rng = np.random.default_rng(0)
        each = -(-1000 // max(self.n - 1, 1)) if self.n > 1 else 0
        self._sketch = SymmetrySketch(self.n) if is_chunked(self.matrix) else None
        for rows, given in self._row_blocks():
            self._note(given, rows)
            block = _rounded(given, rows, slice(0, self.n))
            self._check_block(block, rows)
            inside = (self.corner_points >= rows.start) & (self.corner_points < rows.stop)
            self.corner[inside] = block[self.corner_points[inside] - rows.start][:, self.corner_points]
            digest.update(np.ascontiguousarray(block).tobytes())
            self.row_longest[rows] = np.max(block, axis=1, where=np.isfinite(block), initial=0.0)
            at, columns = _partners(np.isfinite(block), rows.start, rng.integers(1, max(self.n, 2), (len(block), each)))
            samples.append(block[at, columns])
            sampled.append(at + rows.start)
        if self._sketch is not None:
            self._search_asymmetry(self._sketch.suspects())
        self.fingerprint = digest.hexdigest()
        self.sample, self.sample_rows = np.concatenate(samples), np.concatenate(sampled)
        self._judge(typical_distance(self.sample))
        if 0.5 < (none := np.mean(self.sample == 0) if len(self.sample) else 0.0) < 1:
            warn(
                f"{none:.0%} of the distances in {name} are 0, which says that those points are the same: if 0 stands "
                f"for no edge, give a sparse matrix, scipy.sparse.csr_array({name})",
                ScalemaniWarning,
            )

    def sample_within(self, kept: I64) -> F64:
        """The sampled distances between the points `kept`, whole components."""
        inside = np.zeros(self.n, bool)
        inside[kept] = True
        return self.sample[inside[self.sample_rows]]

    def longer_sides(self) -> str | None:
        """What to say where a sampled triangle has a side longer than the two others together; None if none has."""
        c, k = self.corner, len(self.corner)
        sure = c * (1 - max(ROUGH, 10 * _share(self.matrix.dtype))) - 1.5 * _last_place(c)
        longer = np.array([(sure > c[:, [m]] + c[m]) & np.isfinite(c) for m in range(k)]).reshape(k, k, k)
        found = int(longer.sum()) // 2
        if not found:
            return None
        m, i, j = np.argwhere(longer)[0]
        a, b, via = self.corner_points[[i, j, m]]
        return (
            f"{self.name} breaks the triangle inequality, as some dissimilarities do: {found:,} of "
            f"{k * (k - 1) * (k - 2) // 6:,} sampled triangles have a side longer than the two others together (rows "
            f"{a} and {b} are at {c[i, j]:.4g}, and by row {via} at {c[i, m] + c[m, j]:.4g}). They are taken as the "
            "final distances, as metric='geodesic' says (principal coordinates); metric='precomputed' would choose "
            "neighbours by them and measure along paths; of Bray-Curtis dissimilarities and of squared distances take "
            "the root"
        )

    @property
    def step(self) -> int:
        """Rows read at once."""
        return max(1, BLOCK_BYTES // (8 * self.n))

    def _row_blocks(self) -> Iterator[tuple[slice, F64]]:
        """All rows, by `step`; chunks are read once where a row of them can be held."""
        if not is_chunked(self.matrix):
            for start in range(0, self.n, self.step):
                rows = slice(start, min(start + self.step, self.n))
                yield rows, np.asarray(unmasked(self.matrix[rows, :], self.name, rows.start), np.float64)
            return
        for slab in whole_chunks(self.matrix, BLOCK_BYTES):
            held = unmasked(self.matrix[slab, :], self.name, slab.start)
            for start in range(slab.start, slab.stop, self.step):
                rows = slice(start, min(start + self.step, slab.stop))
                yield rows, np.asarray(held[rows.start - slab.start : rows.stop - slab.start], np.float64)

    def block(self, rows: slice, columns: slice = slice(None)) -> F64:
        """A part of it as float64, rounding read as 0."""
        found = np.asarray(unmasked(self.matrix[rows, columns], self.name, rows.start), np.float64)
        return _rounded(found, rows, slice(*columns.indices(self.n)))

    def part(self, rows: I64, columns: I64) -> F64:
        """The distances of chosen rows to chosen columns, in the order given; runs of rows are read at once."""
        out = np.empty((len(rows), len(columns)))
        for at in range(0, len(rows), self.step):
            chosen = rows[at : at + self.step]
            if len(chosen) and (np.diff(chosen) == 1).all():
                out[at : at + self.step] = self.block(slice(int(chosen[0]), int(chosen[-1]) + 1))[:, columns]
            else:
                for i, row in enumerate(chosen):
                    out[at + i] = self.block(slice(int(row), int(row) + 1))[0, columns]
        return out

    def _check_form(self) -> None:
        shape = tuple(self.matrix.shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            made = "scipy.spatial.distance.squareform makes one of a condensed vector"
            raise ScalemaniError(
                f"{self.name} has shape {shape}: a distance matrix is square (n, n); "
                + (made if len(shape) == 1 or 1 in shape else "for features use another metric")
            )
        if shape[0] == 0:
            raise ScalemaniError(f"{self.name} has 0 sample(s) (shape={shape}) while a minimum of 1 is required")
        kind = np.dtype(self.matrix.dtype).kind
        if kind not in "biuf":
            raise ScalemaniError(f"{self.name} has dtype {self.matrix.dtype}: distances are real numbers; convert it")

    def _note(self, given: F64, rows: slice) -> None:
        """What may be rounding, or may not: that is told when the size of distances is known."""
        self._refuse(np.isnan(given), rows, "NaN", "distances are numbers >= 0; remove or fill the row")
        self._diagonal[rows] = given.diagonal(rows.start)
        self._largest[rows] = given.max(axis=1)
        if given.min() < min(self._lowest[0], 0.0):
            i, j = np.unravel_index(int(given.argmin()), given.shape)
            self._lowest = (float(given[i, j]), rows.start + int(i), int(j))

    def _judge(self, typical: float) -> None:
        """Refuse what was noted, if it is more than rounding beside the typical distance."""
        allowed = _share(self.matrix.dtype) * typical
        own = max(allowed, ROOT * typical)
        off = np.flatnonzero(np.abs(self._diagonal) > own)
        similar = np.isfinite(self._diagonal) & (self._diagonal >= (1 - SAME) * self._largest)
        if len(off) == self.n > 1 and similar.all():
            raise ScalemaniError(
                f"{self.name} looks like similarities: the diagonal ({self._diagonal.min():g} to "
                f"{self._diagonal.max():g}) is the largest of each row; distances are 0 there: give such as 1 - S"
            )
        if len(off):
            raise ScalemaniError(
                f"{self.name} has {self._diagonal[off[0]]:g} on its diagonal at row {off[0]}: a point is at distance 0 "
                f"of itself (up to {own:.1g} is rounding here); numpy.fill_diagonal(D, 0) sets that"
            )
        lowest, i, j = self._lowest
        if lowest < -allowed:
            raise ScalemaniError(
                f"{self.name} has a negative distance at row {i}, column {j} ({lowest:g}): distances are >= 0; check "
                "how they were made"
            )
        if self._apart[0] > allowed:
            raise ScalemaniError(self._apart[1])

    def _check_block(self, block: F64, rows: slice) -> None:
        if not self._allow_inf:
            remedy = "distances are finite; use metric='geodesic' with disconnected='largest'"
            self._refuse(np.isinf(block), rows, "inf", remedy)
        if self._sketch is None:
            self._check_symmetry(block, rows)
        else:
            self._sketch.add(rows, block)
        self._label(block, np.arange(rows.start, rows.stop))

    def _label(self, block: F64, own: I64) -> None:
        """Components from the pattern of inf, which must be that of whole components."""
        finite = np.isfinite(block)
        if finite.all() and (self.labels == self.labels[0]).all():
            self.labels[:] = 0
            return
        for reached, row in zip(finite, own, strict=True):
            if self.labels[row] < 0:
                self.labels[reached & (self.labels < 0)] = self.labels.max() + 1
            if (reached != (self.labels == self.labels[row])).any():
                raise ScalemaniError(
                    f"{self.name} is infinite between some points that others connect (row {row}): inf must separate "
                    "whole components; give geodesic distances, or metric='precomputed'"
                )

    def _check_symmetry(self, block: F64, rows: slice) -> None:
        """Compare with the transposed part at and behind the diagonal (each pair once)."""
        ahead = block[:, rows.start :]
        for start in range(rows.start, self.n, self.step):
            there = slice(start, min(start + self.step, self.n))
            mine = ahead[:, there.start - rows.start : there.stop - rows.start]
            theirs = self.block(there, rows).T
            self._compare(mine, theirs, np.arange(rows.start, rows.stop), there.start)

    def _search_asymmetry(self, suspects: I64) -> None:
        """Compare some rows with their columns: one more pass for as many as a block has rows."""
        for at in range(0, len(suspects), self.step):
            some = suspects[at : at + self.step]
            mine, theirs = np.empty((len(some), self.n)), np.empty((len(some), self.n))
            for rows, block in self._row_blocks():
                own = np.flatnonzero((some >= rows.start) & (some < rows.stop))
                mine[own] = block[some[own] - rows.start]
                theirs[:, rows] = block[:, some].T
            self._compare(mine, theirs, some, 0)

    def _compare(self, mine: F64, theirs: F64, rows: I64, start: int) -> None:
        """Note the entry (rows, start..) that differs most from that across, of those that differ by a share."""
        with np.errstate(invalid="ignore"):
            gaps = np.where(mine == theirs, 0.0, np.abs(mine - theirs))
            gaps[gaps <= _share(self.matrix.dtype) * np.maximum(mine, theirs)] = 0.0
        if gaps.max(initial=0.0) > self._apart[0]:
            i, j = np.unravel_index(int(gaps.argmax()), gaps.shape)
            said = (
                f"{self.name} is not symmetric: {mine[i, j]:g} at row {rows[i]}, column {start + j} "
                f"and {theirs[i, j]:g} across; distances are symmetric: use (D + D.T)/2 if that is what you mean"
            )
            self._apart = float(gaps[i, j]), said

    def _refuse(self, bad: NDArray[np.bool_], rows: slice, what: str, remedy: str) -> None:
        if bad.any():
            i, j = np.argwhere(bad)[0]
            if rows.start + i == j:
                remedy = "a point is at distance 0 of itself; numpy.fill_diagonal(D, 0) sets that"
            raise ScalemaniError(f"{self.name} has {what} at row {rows.start + i}, column {j}: {remedy}")


def _last_place(numbers: F64) -> float:
    """The unit in which finite numbers are whole, such as 0.001 of those rounded to three decimals; 0 for none."""
    for unit in (1.0, 0.1, 0.01, 0.001, 1e-4, 1e-5, 1e-6):
        counts = numbers[np.isfinite(numbers)] / unit
        if (np.abs(counts - np.rint(counts)) <= SAME * np.maximum(counts, 1)).all():
            return unit
    return 0.0


def _share(dtype: Any) -> float:
    """The share of a distance that is rounding in a matrix of this dtype."""
    return max(SAME, 4 * float(np.finfo(dtype).eps)) if np.dtype(dtype).kind == "f" else SAME


def _rounded(block: F64, rows: slice, columns: slice) -> F64:
    """The block with 0 for what is negative, and on the matrix's diagonal; itself where that changes nothing."""
    own = np.arange(max(rows.start, columns.start), min(rows.stop, columns.stop))
    at = own - rows.start, own - columns.start
    negative = block.size > 0 and bool(block.min() < 0)
    if negative or block[at].any():
        block = np.maximum(block, 0.0)
        block[at] = 0.0
    return block


def _partners(finite: NDArray[np.bool_], start: int, shifts: I64) -> tuple[I64, I64]:
    """Rows (s,) of a block that begins at row `start`, and a column for each: another point that it reaches."""
    count, n = finite.shape
    columns = (np.arange(start, start + count)[:, None] + shifts) % n
    chosen = np.ones(columns.shape, bool)
    for i in np.flatnonzero(~finite.all(1)):  # a drawn column may be of another component there
        others = np.flatnonzero(finite[i])
        others = others[others != start + i]
        chosen[i] = len(others) > 0
        columns[i] = others[shifts[i] % len(others)] if len(others) else 0
    at = np.nonzero(chosen)[0]
    return at, columns[chosen]


def kernel_values(X: Any) -> F64:
    """A dense matrix of kernel values K (n, n), validated, as float64.

    Raises ScalemaniError: Sparse, not square, not symmetric, or with values that no kernel has.
    """
    if sp.issparse(X):
        raise ScalemaniError("kernel='precomputed': X is sparse, and a dense matrix of kernel values is needed")
    K = np.concatenate([np.asarray(block) for _, block in row_blocks(X, name="X")])
    if K.shape[0] != K.shape[1]:
        raise ScalemaniError(f"kernel='precomputed': X has shape {K.shape}; values of all pairs, (n, n), are needed")
    share, K = _share(K.dtype), K.astype(np.float64)
    sizes = np.add.outer(np.abs(K.diagonal()), np.abs(K.diagonal()))
    for bad, what in (
        (np.abs(K - K.T) > share * sizes, "is not symmetric: use (K + K.T) / 2 if that is what you mean"),
        (
            np.abs(K) > (0.5 + share) * sizes,
            "is larger than the mean of the two on the diagonal, which no kernel's is; distances are for other methods",
        ),
        (np.diag(K.diagonal() < 0), "is negative on the diagonal, where a kernel is not"),
    ):
        if bad.any():
            i, j = np.argwhere(bad)[0]
            raise ScalemaniError(f"kernel='precomputed': X has {K[i, j]:g} at row {i}, column {j}, and it {what}")
    return np.asarray((K + K.T) / 2)


def kernel_distances(K: F64, own: F64 | None = None, others: F64 | None = None) -> F64:
    """The distances that a kernel says, the root of K_ii + K_jj - 2 K_ij; what rounding leaves is 0.

    own (l,), others (n,): K_ii and K_jj, where K (l, n) is of other rows.
    """
    sizes = np.add.outer(K.diagonal() if own is None else own, K.diagonal() if others is None else others)
    squares = sizes - 2 * K
    squares[squares < 8 * _EPS * sizes] = 0.0
    return np.asarray(np.sqrt(squares), np.float64)


def kernel_rows(block: Any, K: F64, name: str, first: int = 0) -> F64:
    """K(t, x) of new rows t to all training rows x, with K(t, t) behind them, (l, n + 1).

    block (l, n) or (l, n + 1): Without K(t, t) that is the value which all training rows have, or that of the training
        row which t is.
    K (n, n): Among the training rows. first: What messages call the first row.
    Raises ScalemaniError: K(t, t) is not known, or the values are no kernel's.
    """
    block, own = np.asarray(block.toarray() if sp.issparse(block) else block), np.diagonal(K)
    eps = max(_EPS, float(np.finfo(block.dtype).eps)) if block.dtype.kind == "f" else _EPS
    rows = np.asarray(block, np.float64)
    if rows.shape[1] == len(K):
        mine = np.full(len(rows), own.max())
        if np.ptp(own) > 4 * _EPS * own.max():
            same = (own - 2 * rows).argmin(axis=1)
            mine = own[same]
            unknown = (np.abs(rows - K[same]) > 8 * eps * np.add.outer(mine, own)).any(axis=1)
            if unknown.any():
                raise ScalemaniError(
                    f"{name} has kernel values of row {first + int(unknown.argmax())} to {len(own)} training rows, and "
                    "not that to itself, which differs from row to row: give K(t, t) in one more column, the last"
                )
        rows = np.column_stack([rows, mine])
    bad = np.abs(rows[:, :-1]) > (0.5 + max(SAME, 4 * eps)) * np.add.outer(rows[:, -1], own)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise ScalemaniError(
            f"{name} has {rows[i, j]:g} at row {first + i}, column {j}, which is larger than the mean of K(t, t) = "
            f"{rows[i, -1]:g} and the training row's {own[j]:g}: no kernel's is; give K(t, t) in one more column, the "
            "last"
        )
    return rows


def distance_rows(T: Any, n: int, name: str, *, sparse: bool, first: int = 0) -> Iterator[tuple[int, Any]]:
    """Validated blocks of rows of distances to n training rows, for the projection.

    T (l, n): Dense (NumPy, memmap, Dask, Zarr); with `sparse` also SciPy sparse, whose stored entries (zeros too) are
        edges; repeated entries count by their minimum. inf means no path.
    Raises ScalemaniError: Shape, dtype, NaN and negative values, named by row and column.
    """
    if sp.issparse(T):
        if not sparse:
            raise ScalemaniError(f"{name} is sparse: distances to every training row are needed, dense (rows, {n})")
        coo = sp.coo_array(T)
        order = np.lexsort((coo.data, coo.col, coo.row))
        rows, columns, data = coo.row[order], coo.col[order], coo.data[order]
        kept = np.ones(len(order), bool)
        kept[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        indptr = np.searchsorted(rows[kept], np.arange(coo.shape[0] + 1))
        T = sp.csr_array((data[kept], columns[kept], indptr), shape=coo.shape)
    matrix = T if sp.issparse(T) else as_source(T, name, first)
    if len(matrix.shape) != 2 or matrix.shape[1] != n:
        raise ScalemaniError(
            f"{name} has shape {tuple(matrix.shape)}: distances to the {n} training rows, (rows, {n}), are needed"
        )
    if np.dtype(matrix.dtype).kind not in "biuf":
        raise ScalemaniError(f"{name} has dtype {matrix.dtype}: distances are real numbers; convert it")
    step = max(1, BLOCK_BYTES // (8 * n))
    for start in range(0, matrix.shape[0], step):
        block = unmasked(matrix[start : start + step], name, first + start)
        values: F64 = np.asarray(block.data if sp.issparse(block) else block, np.float64)
        bad = ~(values >= -SAME * typical_distance(values))
        if bad.any():
            where = "a stored entry"
            if not sp.issparse(block):
                where = "row {}, column {}".format(*(np.argwhere(bad)[0] + [first + start, 0]))
            raise ScalemaniError(f"{name} has {values[bad][0]} at {where}: distances are numbers >= 0")
        if values.min(initial=0.0) < 0:  # rounding
            values = np.maximum(values, 0.0)
            if sp.issparse(block):
                block = sp.csr_array((values, block.indices, block.indptr), shape=block.shape)
        yield start, block if sp.issparse(block) else values


_VECTORS = 3
_EPS = float(np.finfo(np.float64).eps)
_SLAB = 16  # blocks' bytes that rows of whole chunks may take, in the matrix's own dtype


class SymmetrySketch:
    """Whether a square matrix of n rows that is read by its chunks is symmetric, from one pass over its rows.

    Its products with a few random vectors are compared with those of its transpose. Two rows that differ
    from their columns by more than the rounding of such a sum are told apart with probability one; what
    that difference is worth is then for the pairs themselves to say. Symmetric matrices are read once.
    """

    def __init__(self, n: int) -> None:
        self._vectors = np.random.default_rng(0).standard_normal((n, _VECTORS))
        self._by_rows, self._by_columns, self._norms = np.zeros((n, _VECTORS)), np.zeros((n, _VECTORS)), np.zeros(n)

    def add(self, rows: slice, block: F64) -> None:
        """Take in some rows (b, n); inf counts as 0, its pattern is for the caller to compare."""
        finite = np.isfinite(block)
        if not finite.all():
            block = np.where(finite, block, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is suspected
            self._by_rows[rows] = block @ self._vectors
            self._by_columns += block.T @ self._vectors[rows]
            self._norms[rows] = np.linalg.norm(block, axis=1)

    def suspects(self) -> I64:
        """Rows (s,), ascending, that differ from their columns by more than rounding of the sums.

        Terms have random signs: partial sums of n of them, and the sum of their roundings, grow as √n.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.abs(self._by_rows - self._by_columns).max(axis=1)
            rounding = 16 * _EPS * np.sqrt(len(apart)) * self._norms
        return np.flatnonzero(~(apart <= rounding) | ~np.isfinite(rounding))


def is_chunked(matrix: Any) -> bool:
    """Whether a part of the matrix costs the reading of whole chunks (Dask, Zarr, HDF5)."""
    return not isinstance(matrix, np.ndarray) and bool(getattr(matrix, "chunks", None))


def whole_chunks(matrix: Any, block_bytes: int) -> Iterator[slice]:
    """Slices of rows that cut no chunk, each of about `block_bytes` as float64 or one chunk, if that can be held."""
    n, width = (int(size) for size in matrix.shape)
    given = matrix.chunks[0]
    sizes = given if isinstance(given, tuple) else [min(given, n - at) for at in range(0, n, given)]
    rows = max(1, block_bytes // (8 * width))
    most = max(rows, _SLAB * block_bytes // (np.dtype(matrix.dtype).itemsize * width))
    start = stop = 0
    for size in sizes:
        if stop > start and stop + size - start > rows:
            yield slice(start, stop)
            start = stop
        stop += int(size)
        while stop - start > most:  # a chunk that can't be held is read several times
            yield slice(start, start + most)
            start += most
    if stop > start:
        yield slice(start, stop)
