"""Stage 5 by landmarks: takes the distances between m landmarks and how many points each stands for, gives K1 and K2.

The full method's kernel of n points, each put where its nearest landmark is, has eigenvectors that are constant on the
cells of the landmarks. With W the numbers of points in the cells (they add up to n), w = W/n, R = diag(√W) and
P = I - √w √w', they and their eigenvalues are those of

    -1/2 P R A R P,    A = D or D∘D between the landmarks,

an eigenvector u of it being x_i = u_i / √W_i on every point of cell i; with a constant, c²/2 is added as it is in the
full method, and c* is that of the n points. So everything is on the scale of the full method, and m = n is that.
Unweighted landmarks (W = 1) would give the constant of m points, which is smaller by far (it grows with their number),
and means over landmarks: on rolls of 3,000 points with 1,000 landmarks they are 10 to 40 times farther from the full
method's coordinates.

The solvers look for vectors that are orthogonal to 1. A reflection H takes √w to 1/√m, so that they find those of
H P R A R P H, which are turned back by :meth:`LandmarkKernels.on_points`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from scalemani import blas
from scalemani.kernel_shares import DistanceSums, Vectors, centred
from scalemani.ritz import ReadBlock


class LandmarkKernels:
    """K1 and K2 of landmarks that stand for all points; what :func:`scalemani.corrections.solve` asks of kernels.

    square (m, m): Symmetric, zero diagonal.
    counts (m,): Points of each landmark's cell, itself included.
    sums: Of the n points at their landmarks' places.
    """

    def __init__(self, square: Vectors, counts: NDArray[np.int64]) -> None:
        m = len(square)
        self.shape = (m, m)
        self.n_reads, self.precision, self.log = 0, "float64", None
        self._roots = np.sqrt(counts.astype(np.float64))
        towards = self._roots / np.linalg.norm(self._roots) - 1 / np.sqrt(m)
        length = float(np.linalg.norm(towards))
        self._mirror = towards / length if length > 1e-12 else np.zeros(m)
        weights = counts.astype(np.float64)
        squares = square**2
        self._scaled = self._roots[:, None] * square * self._roots, self._roots[:, None] * squares * self._roots
        self.sums = DistanceSums(
            row_sums=blas.product(square, weights),
            row_sums_squared=blas.product(squares, weights),
            row_maxima=square.max(axis=1),
            cubes=float(blas.product(blas.product(weights, square * squares), weights)),
            fourths=float(blas.product(blas.product(weights, squares**2), weights)),
            counts=weights,
        )

    def _reflected(self, columns: Vectors) -> Vectors:
        found: Vectors = columns - 2 * np.outer(self._mirror, blas.product(self._mirror, columns))
        return found

    def start(self, width: int, make: Callable[[], Vectors]) -> ReadBlock:
        """A block (m, width) with its images."""
        block = make()
        return ReadBlock(block, self.products(block))

    def products(self, vectors: Vectors, precision: str | None = None) -> tuple[Vectors, Vectors]:
        """K1 V and K2 V, in float64."""
        self.n_reads += 1
        operand = self._reflected(centred(vectors))
        first, second = (-0.5 * centred(self._reflected(blas.product(scaled, operand))) for scaled in self._scaled)
        return first, second

    def on_points(self, vectors: Vectors) -> Vectors:
        """√W u of each vector found, (m, p): the sum of its entries over a cell. Over W it is its entry on a point."""
        columns = vectors.reshape(len(vectors), -1)
        found: Vectors = self._roots[:, None] * self._reflected(columns)
        return found.reshape(vectors.shape)


def kernels_bytes(m: int) -> int:
    """The two scaled matrices, and copies while they are made."""
    return 6 * 8 * m * m
