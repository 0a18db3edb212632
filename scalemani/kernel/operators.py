"""The two centred operators K1 = B(D) and K2 = B(D∘D) as products, with the sums that a spectrum's account needs.

B(A) = -1/2 J A J with J = I - 11'/n. Nothing of size n x n is formed: one read of D multiplies a block of vectors by D
and by D∘D together, and centring is applied to the vectors. Every constant shares these two operators:
K(c) = K2 + 2c K1 + (c²/2) J is the kernel of the distances d + c off the diagonal (Cailliez 1983; Choi & Choi 2004,
whose equation 4 prints K(D̃²) where K(D²) is meant). :class:`CenteredKernels` works on a run's tiles,
:class:`DenseKernels` on a matrix in memory; the solvers can't tell them apart.

The first read of D takes, from the same tiles as the products, what the account and the projection need. It is made
while D is written: :func:`first_reader` says what is taken of the rows that are in memory then. What it found is a
:class:`FirstRead` in the store, from which every solve that begins with a block as wide begins without a read. Read
back from the tiles, it has the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.client import Cluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics.reads import Reader, sweep
from scalemani.kernel import blas
from scalemani.kernel.eigensolver import ReadBlock
from scalemani.storage.pieces import Pieces, digest
from scalemani.storage.run import RunStore

FIRST_BLOCK, FIRST_FOUND = "first_block", "first_found"  # names of its arrays
SUMS = 5  # columns of the first read behind the products: row sums of D and D∘D, cubes, fourth powers, row maxima
FLOAT64_BELOW = 20_000  # vertices up to which products are float64 by default: twice the time of float32, no loss
PANEL = 128  # rows of a tile that are multiplied at once: their copies and squares stay in the processor's cache


@dataclass(frozen=True)
class DistanceSums:
    """What the first read of D finds besides the products, in the units of the tiles.

    row_sums, row_sums_squared (n,): Sums of each row of D and of D∘D.
    row_maxima (n,): The largest distance of each row: the eccentricity of its vertex.
    cubes, fourths: Sums of d³ and d⁴ over all of D.
    counts: Where a row stands for several points at one place: how many. All sums are over points then; else each is
        one.
    """

    row_sums: F64
    row_sums_squared: F64
    row_maxima: F64
    cubes: float
    fourths: float
    counts: F64 | None = None

    @property
    def n(self) -> int:
        """Points."""
        return len(self.row_sums) if self.counts is None else int(self.counts.sum())

    def over_points(self, rows: F64) -> float:
        """The sum over points of a number a row."""
        return float(rows.sum() if self.counts is None else blas.product(rows, self.counts))

    @property
    def maximum(self) -> float:
        """The largest distance."""
        return float(self.row_maxima.max())

    def trace(self, constant: float = 0.0, nugget: float = 0.0) -> float:
        """Trace of K2 + 2c K1 + g J: ΣD²/(2n) + c ΣD/n + g (n - 1)."""
        n, squares, distances = self.n, self.over_points(self.row_sums_squared), self.over_points(self.row_sums)
        return squares / (2 * n) + constant * distances / n + nugget * (n - 1)

    def squared_norm(self, constant: float, nugget: float) -> float:
        """||K2 + 2c K1 + g J||_F², the sum of the squares of all eigenvalues.

        The kernel is -1/2 J A J, A = D∘D + 2c D - 2g I, and with row sums a_i of A

            4 ||K||_F² = Σ A_ij² - (2/n) Σ a_i² + (Σ a_i)²/n².
        """
        n, c, g = self.n, constant, nugget
        rows = self.row_sums_squared + 2 * c * self.row_sums - 2 * g
        squares = self.fourths + 4 * c * self.cubes + 4 * c**2 * self.over_points(self.row_sums_squared) + 4 * g**2 * n
        return max((squares - 2 / n * self.over_points(rows**2) + (self.over_points(rows) / n) ** 2) / 4, 0.0)

    def mean_squares(self, constant: float, nugget: float) -> F64:
        """Mean of d² + 2c d + 2g, off the diagonal, over i, for each j: the training means of the projection."""
        return (self.row_sums_squared + 2 * constant * self.row_sums + 2 * nugget * (self.n - 1)) / self.n


def centered(columns: F64) -> F64:
    """J A by rows: every column less its mean.

    >>> centered(np.array([[1.0], [3.0]])).ravel().tolist()
    [-1.0, 1.0]
    """
    columns = blas.by_rows(columns)
    return np.asarray(columns - columns.mean(axis=0))


def usual_precision(n: int) -> str:
    """Of the products inside a tile: "float64" up to 20,000 vertices, else "float32"."""
    return "float64" if n <= FLOAT64_BELOW else "float32"


def images_of(found: F64, m: int) -> tuple[F64, F64]:
    """K1 V and K2 V from the first 2 m columns, D J V and (D∘D) J V."""
    return -0.5 * centered(found[:, :m]), -0.5 * centered(found[:, m : 2 * m])


def first_reader(block: F64, precision: str | None = None) -> Reader:
    """What the first read of D takes of each tile for a block (n, m); its 2 m + 5 columns are a :class:`FirstRead`'s.

    block (n, m)
    precision ({"float32", "float64"}): Of the products; see :class:`scalemani.kernel.operators.CenteredKernels`.
    """
    operand = centered(block).astype(precision or usual_precision(len(block)))
    return Reader(_products_and_sums, operand, 2 * block.shape[1] + SUMS, maxima=1)


def later_reader(vectors: F64, precision: str | None = None) -> Reader:
    """What every other read takes: for a block (n, m) 2 m columns, D V and (D∘D) V of the centred vectors."""
    operand = centered(vectors).astype(precision or usual_precision(len(vectors)))
    return Reader(_products, operand, 2 * vectors.shape[1])


@dataclass(frozen=True)
class FirstRead:
    """What a read by :func:`first_reader` found.

    block (n, m): Ω, orthonormal and orthogonal to 1.
    found (n, 2 m + 5): D Ω, (D∘D) Ω, row sums of D and of D∘D, two columns that add up to Σd³ and Σd⁴, row maxima.
    """

    block: F64
    found: F64

    @property
    def images(self) -> tuple[F64, F64]:
        """K1 Ω and K2 Ω."""
        return images_of(self.found, self.block.shape[1])

    @property
    def sums(self) -> DistanceSums:
        """Row sums and maxima."""
        sums, squared, cubes, fourths, maxima = (column.copy() for column in self.found[:, -SUMS:].T)
        return DistanceSums(sums, squared, maxima, float(cubes.sum()), float(fourths.sum()))

    @classmethod
    def load(cls, store: RunStore) -> "FirstRead | None":
        """What the run has of one, or None: a run without it, or with other sums, or damage.

        D is read again then.
        """
        try:
            first = cls(store.read_array(FIRST_BLOCK), store.read_array(FIRST_FOUND))
        except DamagedStoreError:
            return None
        return first if first.found.shape[1] == 2 * first.block.shape[1] + SUMS else None


# ---- shares of one tile (module-level: they are sent to workers) ---------------------------------

Pair = tuple[F64, F64 | None]


def _products(tile: F32, there: NDArray[Any], here: NDArray[Any] | None, sums: int = 0) -> Pair:
    """D V and (D∘D) V in the operand's precision, added up over panels of rows in float64."""
    m = there.shape[1]
    ours = np.empty((tile.shape[0], 2 * m + sums))
    theirs = None if here is None else np.zeros((tile.shape[1], 2 * m + sums))
    for at in range(0, len(tile), PANEL):
        rows = slice(at, at + PANEL)
        panel = blas.by_rows(tile[rows], there.dtype)
        for factor, columns in ((panel, slice(0, m)), (panel * panel, slice(m, 2 * m))):
            ours[rows, columns] = blas.product(factor, there)
            if here is not None and theirs is not None:
                theirs[:, columns] += blas.product(factor.T, here[rows])
    return ours, theirs


def _products_and_sums(tile: F32, there: NDArray[Any], here: NDArray[Any] | None) -> Pair:
    """The same, with the sums of powers in float64 whatever the operand is, and the row maxima.

    Of cubes and fourth powers only the total is asked for: both halves of a tile stand with the rows it is read by.
    """
    ours, theirs = _products(tile, there, here, SUMS)
    halves = 1.0 if theirs is None else 2.0
    for at in range(0, len(tile), PANEL):
        rows = slice(at, at + PANEL)
        single = blas.by_rows(tile[rows])
        ours[rows, -1] = single.max(axis=1)
        panel = single.astype(np.float64)
        squares = panel * panel
        ours[rows, -5] = panel.sum(axis=1)
        ours[rows, -4] = squares.sum(axis=1)
        ours[rows, -3] = halves * blas.row_dots(panel, squares)  # no copy of the cubes
        ours[rows, -2] = halves * blas.row_dots(squares, squares)
        if theirs is not None:
            np.maximum(theirs[:, -1], single.max(axis=0), out=theirs[:, -1])
            theirs[:, -5] += panel.sum(axis=0)
            theirs[:, -4] += squares.sum(axis=0)
    return ours, theirs


class CenteredKernels:
    """K1 and K2 over the tiles of a run.

    store: With every tile row finished.
    precision ({"float32", "float64"}): Of the products inside a tile (sums over tiles are float64). float32 leaves an
        error of about 2e-9 λ1/c² in the constant, which one float64 product then takes out
        (:func:`scalemani.kernel.constant.refined`). By default float64 up to 20,000 vertices.
    on_read: Called with `n_reads` after every read.
    first: The read of D that was taken while it was written.
    kept: Where the blocks of a solve are kept, and those of one that was stopped are found: `log`, for the solver.
    n_reads: Reads of D so far, those that were found kept counted; one that was made while D was written costs none.
    sums: Known after the first read.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: RunStore,
        precision: str | None = None,
        on_read: Callable[[int], None] | None = None,
        first: FirstRead | None = None,
        kept: Pieces | None = None,
    ) -> None:
        self.log = None if kept is None else KeptReads(kept, self._count)
        self._cluster, self._store, self._on_read = cluster, store, on_read
        n = store.blocks.n
        self.shape = (n, n)
        self.n_reads = 0
        self.precision = precision or usual_precision(n)
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"precision={precision!r}: 'float32' or 'float64' is allowed")
        self._first = first
        self._sums = None if first is None else first.sums

    def start(self, width: int, make: Callable[[], F64]) -> ReadBlock:
        """A block (n, width) with its images: the first read's, or a new one that `make` gives, for a read."""
        first, self._first = self._first, None  # the solver's from here on: it is as large as the basis
        if first is not None and first.block.shape == (self.shape[0], width):
            same = self.precision == usual_precision(self.shape[0])  # the first read's
            return ReadBlock(first.block, first.images if same else self.products(first.block))
        self._sums = None  # so that the sums come from this read, too
        del first
        block = make()
        return ReadBlock(block, self.products(block))

    def products(self, vectors: F64, precision: str | None = None) -> tuple[F64, F64]:
        """K1 V and K2 V for V (n, m), from one read of D; every read checks every tile.

        precision ({"float32", "float64"}): Of these products alone.
        """
        m, precision = vectors.shape[1], precision or self.precision
        if self._sums is None:
            reader = first_reader(vectors, precision)
            first = FirstRead(vectors, sweep(self._cluster, self._store, reader, by_rows=True))
            self._sums, images = first.sums, first.images
        else:
            reader = later_reader(vectors, precision)
            images = images_of(sweep(self._cluster, self._store, reader), m)
        self._count()
        return images

    def _count(self) -> None:
        self.n_reads += 1
        if self._on_read is not None:
            self._on_read(self.n_reads)

    @property
    def sums(self) -> DistanceSums:
        """Row sums of D and D∘D, and row maxima; a read of D if there was none before."""
        if self._sums is None:
            self.products(np.zeros((self.shape[0], 1)))
        assert self._sums is not None
        return self._sums


class KeptReads:
    """The solver's log: what each read gave, kept until the model is recorded; a read that is found counts as one.

    A read of a large D takes half a minute, and a solve some twenty. Each is a piece of three arrays (n, b): a block
    of vectors and its images by both kernels. It is made from the solve and the reads before it.

    count: Called for each that is found.
    """

    def __init__(self, pieces: Pieces, count: Callable[[], None]) -> None:
        self._pieces, self._count_one = pieces, count
        self._made_of = dict[int, str]()  # number of a read -> digest of all reads before it

    def get(self, number: int) -> ReadBlock | None:
        """The block that a stopped solve has read as this one; None where it is not there, or not what was kept."""
        found = self._pieces.get(f"read_{number}", self._of(number))
        if found is None or len(found) != 3 or len({part.shape for part in found}) != 1:
            return None
        if found[0].ndim != 2 or not found[0].size:
            return None
        self._count_one()
        return self._known(number, ReadBlock(found[0], (found[1], found[2])))

    def put(self, number: int, block: ReadBlock) -> None:
        """Keep a block with its images. Unless it is the one that was kept, later ones are taken for damaged."""
        self._pieces.put(f"read_{number}", [block.basis, *block.images], self._of(number))
        self._known(number, block)

    def _of(self, number: int) -> str:
        return self._made_of.get(number, self._pieces.of)

    def _known(self, number: int, block: ReadBlock) -> ReadBlock:
        self._made_of[number + 1] = digest(self._of(number), block.basis)
        return block


class DenseKernels:
    """K1 and K2 of a distance matrix in memory, in float64, whose rows may be landmarks that stand for all points.

    square (m, m): Symmetric, zero diagonal.
    counts (m,): Points of each landmark's cell, itself included; by default one each.
    sums: Of the n points at their landmarks' places.

    The full method's kernel of n points, each put where its nearest landmark is, has eigenvectors that are constant on
    the cells of the landmarks. With W the numbers of points in the cells (they add up to n), w = W/n, R = diag(√W) and
    P = I - √w √w', they and their eigenvalues are those of

        -1/2 P R A R P,    A = D or D∘D between the landmarks,

    an eigenvector u of it being x_i = u_i / √W_i on every point of cell i; with a constant, c²/2 is added as it is in
    the full method, and c* is that of the n points. So everything is on the scale of the full method, and m = n is
    that. Unweighted landmarks (W = 1) would give the constant of m points, which is smaller by far (it grows with
    their number), and means over landmarks: on rolls of 3,000 points with 1,000 landmarks they are 10 to 40 times
    farther from the full method's coordinates.

    The solvers look for vectors that are orthogonal to 1. A reflection H takes √w to 1/√m, so that they find those of
    H P R A R P H, which :meth:`on_points` turns back.
    """

    def __init__(self, square: F64, counts: I64 | None = None) -> None:
        m = len(square)
        self.shape = (m, m)
        self.n_reads, self.precision = 0, "float64"
        self.log: KeptReads | None = None
        square = np.asarray(square, np.float64)
        weights = np.ones(m) if counts is None else counts.astype(np.float64)
        self._roots = np.sqrt(weights)
        towards = self._roots / np.linalg.norm(self._roots) - 1 / np.sqrt(m)
        length = float(np.linalg.norm(towards))
        self._mirror = towards / length if length > 1e-12 else np.zeros(m)
        squares = square**2
        self._scaled = self._roots[:, None] * square * self._roots, self._roots[:, None] * squares * self._roots
        self.sums = DistanceSums(
            row_sums=blas.product(square, weights),
            row_sums_squared=blas.product(squares, weights),
            row_maxima=square.max(axis=1),
            cubes=float(blas.product(blas.product(weights, square * squares), weights)),
            fourths=float(blas.product(blas.product(weights, squares**2), weights)),
            counts=None if counts is None else weights,
        )

    def _reflected(self, columns: F64) -> F64:
        return np.asarray(columns - 2 * np.outer(self._mirror, blas.product(self._mirror, columns)))

    def start(self, width: int, make: Callable[[], F64]) -> ReadBlock:
        """A block (m, width) with its images."""
        block = make()
        return ReadBlock(block, self.products(block))

    def products(self, vectors: F64, precision: str | None = None) -> tuple[F64, F64]:
        """K1 V and K2 V, in float64; counted as one read of D."""
        self.n_reads += 1
        operand = self._reflected(centered(vectors))
        first, second = (-0.5 * centered(self._reflected(blas.product(scaled, operand))) for scaled in self._scaled)
        return first, second

    def on_points(self, vectors: F64) -> F64:
        """√W u of each vector found, (m, p): the sum of its entries over a cell. Over W it is its entry on a point."""
        columns = vectors.reshape(len(vectors), -1)
        return (self._roots[:, None] * self._reflected(columns)).reshape(vectors.shape)


Kernels: TypeAlias = CenteredKernels | DenseKernels  # what the solvers see


def kernels_bytes(m: int) -> int:
    """The two scaled matrices, and copies while they are made."""
    return 6 * 8 * m * m


def number_bytes(n: int) -> int:
    """Of a number in the products."""
    return np.dtype(usual_precision(n)).itemsize


def panel_bytes(tile: int, columns: int, size: int) -> int:
    """Products of one tile: 128 of its rows and their squares, the rows in float64 for the sums, and both results.

    The results are float64, with a block's product in the products' precision and what says where they are NaN.

    size: Bytes of a number in the products.
    """
    return min(tile, PANEL) * tile * (2 * size + 8) + (2 * 8 + size + 1) * tile * (2 * columns + SUMS)


def share_bytes(n: int, columns: int) -> int:
    """A tile row's share of the first read: D Ω, (D∘D) Ω, sums and maxima for n rows."""
    return 8 * (2 * columns + SUMS) * n


def first_read_bytes(n: int, columns: int, size: int) -> int:
    """What the client holds while D is made: Ω, its centred copies, and the sums of the shares."""
    return (16 + size) * columns * n + share_bytes(n, columns)


def products_bytes(n: int, columns: int) -> int:
    """The client's part in a read of D: the vectors centred, the sums of both products, and the two centred images."""
    return 8 * columns * n + 16 * columns * n + 24 * columns * n
