"""Stage 5 on one tile: takes tiles of D and a block of vectors, gives their shares of D V, (D∘D) V and row sums.

The first read of D takes, from the same tiles as the products, what the spectrum's account and the
projection need: row sums of D and of D∘D, the sums of all cubes and fourth powers, and row maxima. It is made while D
is written: :func:`first_reader` says what stage 4 takes of the rows that it has in memory, and what it found is a
:class:`FirstRead` in the store, from which every solve that begins with a block as wide begins without a read. Read
back from the tiles, it has the same bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani import blas
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import Reader
from scalemani.errors import DamagedStoreError

Vectors = NDArray[np.float64]
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

    row_sums: Vectors
    row_sums_squared: Vectors
    row_maxima: Vectors
    cubes: float
    fourths: float
    counts: Vectors | None = None

    @property
    def n(self) -> int:
        """Points."""
        return len(self.row_sums) if self.counts is None else int(self.counts.sum())

    def over_points(self, rows: Vectors) -> float:
        """The sum over points of a number a row."""
        return float(rows.sum() if self.counts is None else blas.product(rows, self.counts))

    @property
    def maximum(self) -> float:
        """The largest distance."""
        return float(self.row_maxima.max())

    def trace(self, constant: float = 0.0, nugget: float | None = None) -> float:
        """Trace of K2 + 2c K1 + g J: ΣD²/(2n) + c ΣD/n + g (n - 1).

        constant: c.
        nugget: g; c²/2 unless given, as in K(c).
        """
        n, g = self.n, _nugget(constant, nugget)
        squares, distances = self.over_points(self.row_sums_squared), self.over_points(self.row_sums)
        return squares / (2 * n) + constant * distances / n + g * (n - 1)

    def squared_norm(self, constant: float = 0.0, nugget: float | None = None) -> float:
        """||K2 + 2c K1 + g J||_F², the sum of the squares of all eigenvalues; parameters as in :meth:`trace`.

        The kernel is -1/2 J A J, A = D∘D + 2c D - 2g I, and with row sums a_i of A

            4 ||K||_F² = Σ A_ij² - (2/n) Σ a_i² + (Σ a_i)²/n².
        """
        n, c, g = self.n, constant, _nugget(constant, nugget)
        rows = self.row_sums_squared + 2 * c * self.row_sums - 2 * g
        squares = self.fourths + 4 * c * self.cubes + 4 * c**2 * self.over_points(self.row_sums_squared) + 4 * g**2 * n
        return max((squares - 2 / n * self.over_points(rows**2) + (self.over_points(rows) / n) ** 2) / 4, 0.0)

    def mean_squares(self, constant: float = 0.0, nugget: float | None = None) -> Vectors:
        """Mean of d² + 2c d + 2g, off the diagonal, over i, for each j: the training means of the projection."""
        n, g = self.n, _nugget(constant, nugget)
        return (self.row_sums_squared + 2 * constant * self.row_sums + 2 * g * (n - 1)) / n


def _nugget(constant: float, given: float | None) -> float:
    return constant**2 / 2 if given is None else given


def centred(columns: Vectors) -> Vectors:
    """J A by rows: every column less its mean.

    >>> centred(np.array([[1.0], [3.0]])).ravel().tolist()
    [-1.0, 1.0]
    """
    columns = blas.by_rows(columns)
    result: Vectors = columns - columns.mean(axis=0)
    return result


def usual_precision(n: int) -> str:
    """Of the products inside a tile: "float64" up to 20,000 vertices, else "float32"."""
    return "float64" if n <= FLOAT64_BELOW else "float32"


def images_of(found: Vectors, m: int) -> tuple[Vectors, Vectors]:
    """K1 V and K2 V from the first 2 m columns, D J V and (D∘D) J V."""
    return -0.5 * centred(found[:, :m]), -0.5 * centred(found[:, m : 2 * m])


def first_reader(block: Vectors, precision: str | None = None) -> Reader:
    """What the first read of D takes of each tile for a block (n, m); its 2 m + 5 columns are a :class:`FirstRead`'s.

    block (n, m)
    precision ({"float32", "float64"}): Of the products; see :class:`scalemani.kernel.CentredKernels`.
    """
    operand = centred(block).astype(precision or usual_precision(len(block)))
    return Reader(_products_and_sums, operand, 2 * block.shape[1] + SUMS, maxima=1)


def later_reader(vectors: Vectors, precision: str | None = None) -> Reader:
    """What every other read takes for a block (n, m): its 2 m columns are D V and (D∘D) V of the centred vectors."""
    operand = centred(vectors).astype(precision or usual_precision(len(vectors)))
    return Reader(_products, operand, 2 * vectors.shape[1])


@dataclass(frozen=True)
class FirstRead:
    """What a read by :func:`first_reader` found.

    block (n, m): Ω, orthonormal and orthogonal to 1.
    found (n, 2 m + 5): D Ω, (D∘D) Ω, the row sums of D and of D∘D, two columns that add up to Σd³ and Σd⁴, the row
        maxima of D.
    """

    block: Vectors
    found: Vectors

    @property
    def images(self) -> tuple[Vectors, Vectors]:
        """K1 Ω and K2 Ω."""
        return images_of(self.found, self.block.shape[1])

    @property
    def sums(self) -> DistanceSums:
        """Row sums and maxima."""
        sums, squared, cubes, fourths, maxima = (column.copy() for column in self.found[:, -SUMS:].T)
        return DistanceSums(sums, squared, maxima, float(cubes.sum()), float(fourths.sum()))

    def save(self, store: RunStore) -> None:
        """Write it beside D, with which it goes."""
        store.write_array(FIRST_BLOCK, self.block)
        store.write_array(FIRST_FOUND, self.found)

    @classmethod
    def load(cls, store: RunStore) -> "FirstRead | None":
        """What :meth:`save` wrote, or None: a run without it, or with an earlier release's fewer sums, or damage.

        D is read again then.
        """
        try:
            first = cls(store.read_array(FIRST_BLOCK), store.read_array(FIRST_FOUND))
        except DamagedStoreError:
            return None
        return first if first.found.shape[1] == 2 * first.block.shape[1] + SUMS else None


# ---- shares of one tile (module-level: they are sent to workers) ---------------------------------

Pair = tuple[Vectors, Vectors | None]


def _products(tile: NDArray[np.float32], there: NDArray[Any], here: NDArray[Any] | None, sums: int = 0) -> Pair:
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


def _products_and_sums(tile: NDArray[np.float32], there: NDArray[Any], here: NDArray[Any] | None) -> Pair:
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
