"""Leaf: an orthonormal basis V ⟂ 1 that grows, with its images A_i V and the projected matrices V'A_i V.

What :mod:`scalemani.eigensolver` iterates on. Memory for `most` columns is taken once and filled column by column
(a page that is not written to costs nothing), and the projected matrices grow by borders: no copy of the basis is
ever made, and a new block of b columns costs 4 n m b multiplications an operator.
"""

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from scalemani import blas

Vectors = NDArray[np.float64]
ORTHOGONAL = 1e-9  # of a block that is taken as it is: far above rounding, far below what an iteration would notice
SMALLEST = 1e-3  # of a normalised direction: what is left of less than that, outside the basis, is mostly rounding


class Subspace:
    """The basis, its images and the projections.

    basis (n, b): Orthonormal, orthogonal to 1.
    images: A_i of the basis.
    most: Columns that it may grow to.
    columns: m, in use.
    projected: V'A_i V, symmetric.
    asymmetry: Largest difference of an entry of a V'A_i V from its mirror image, relative to the largest entry:
        rounding of the products, or a fault of the operator.
    """

    def __init__(self, basis: Vectors, images: tuple[Vectors, ...], most: int) -> None:
        self.columns = basis.shape[1]
        self._basis, self._images = _with_room(basis, most), tuple(_with_room(image, most) for image in images)
        self.projected: tuple[Vectors, ...] = ()
        self.asymmetry = 0.0
        self._project()

    @property
    def basis(self) -> Vectors:
        """V, shape (n, m)."""
        return self._basis[:, : self.columns]

    @property
    def images(self) -> tuple[Vectors, ...]:
        """A_i V, each (n, m)."""
        return tuple(image[:, : self.columns] for image in self._images)

    def _project(self) -> None:
        raw = tuple(blas.product(self.basis.T, image) for image in self.images)
        self._note_asymmetry(*(_asymmetry(a, a.T) for a in raw))
        self.projected = tuple((a + a.T) / 2 for a in raw)

    def _note_asymmetry(self, *found: float) -> None:
        self.asymmetry = float(np.max([self.asymmetry, *found]))  # a NaN stays

    def append(self, grown: Vectors, images: tuple[Vectors, ...]) -> None:
        """Take in a block of directions, orthonormal and orthogonal to the basis, with their images."""
        m, old_basis = self.columns, self.basis
        added = slice(m, m + grown.shape[1])
        for whole, part in zip((self._basis, *self._images), (grown, *images), strict=True):
            whole[:, added] = part  # the products are of what stands here: a block comes in either memory order
        grown, bordered = self._basis[:, added], []
        for old, whole in zip(self.projected, self._images, strict=True):
            new = whole[:, added]
            ours, theirs = blas.product(old_basis.T, new), blas.product(whole[:, :m].T, grown)
            corner = blas.product(grown.T, new)
            largest = max(float(np.abs(part).max(initial=0.0)) for part in (old, ours, corner))
            self._note_asymmetry(_asymmetry(ours, theirs, largest), _asymmetry(corner, corner.T, largest))
            side = (ours + theirs) / 2
            bordered.append(np.block([[old, side], [side.T, (corner + corner.T) / 2]]))
        self.columns, self.projected = added.stop, tuple(bordered)

    def rotate(self, u: Vectors) -> None:
        """Replace the basis by V u, u (m, k) with orthonormal columns: no product with A_i is needed."""
        k = u.shape[1]
        for whole in (self._basis, *self._images):
            whole[:, :k] = blas.product(whole[:, : self.columns], u)
        self.columns = k
        self.projected = tuple(blas.product(blas.product(u.T, p), u) for p in self.projected)

    def residuals(self, coefficients: tuple[float, ...], identity: float, u: Vectors, ritz: Vectors) -> Vectors:
        """K x - θ x of the Ritz vectors x = V u, K = Σ coefficients[i] A_i + identity · I."""
        shifted: Vectors = blas.product(self.basis, u * (identity - ritz))
        for coefficient, image in zip(coefficients, self.images, strict=True):
            if coefficient:
                shifted += blas.product(image, coefficient * u)
        return shifted

    def is_new(self, block: Vectors) -> bool:
        """Whether a block's columns are orthonormal, and orthogonal to 1 and to the basis, as new directions are."""
        if block.shape[0] != len(self._basis):
            return False
        inside = np.abs(np.matmul(block.T, block) - np.eye(block.shape[1])).max(initial=0.0)
        outside = np.abs(np.matmul(self.basis.T, block)).max(initial=0.0)
        mean = np.abs(block.sum(axis=0)).max(initial=0.0) / np.sqrt(len(block))
        return bool(max(inside, outside, mean) < ORTHOGONAL)

    def new_directions(self, candidates: Vectors) -> Vectors:
        """Orthonormal columns for the part of `candidates` that neither the basis nor 1 holds yet.

        Residuals of converged vectors are rounding noise, which normalising would blow up into copies of what the
        basis holds: orthogonalised AFTER normalising, three times, what loses its norm is dropped.
        """
        kept = candidates[:, np.linalg.norm(candidates, axis=0) > 0]
        for _ in range(3):
            if kept.shape[1] == 0:
                break
            kept = kept / np.linalg.norm(kept, axis=0)
            kept -= kept.mean(0)
            kept -= blas.product(self.basis, blas.product(self.basis.T, kept))
            kept = kept[:, np.linalg.norm(kept, axis=0) > SMALLEST]
            if kept.shape[1]:
                q, r, _ = sl.qr(kept, mode="economic", pivoting=True, overwrite_a=True, check_finite=False)
                kept = q[:, np.abs(np.diag(r)) > SMALLEST]
        return kept


def orthonormal(columns: Vectors) -> Vectors:
    """An orthonormal basis of the columns less their means, as wide as they are."""
    for _ in range(2):  # the second time takes what rounding left of the mean
        columns = np.linalg.qr(columns - columns.mean(0))[0]
    return columns


def gaussian_block(n: int, width: int, seed: int) -> Vectors:
    """A seeded Gaussian block, orthonormal and orthogonal to 1."""
    return orthonormal(np.random.default_rng(seed).standard_normal((n, width)))


def complement_of_ones(n: int) -> Vectors:
    """An orthonormal basis (n, n - 1) of the complement of 1 (Helmert's contrasts)."""
    k = np.arange(1, n)
    basis = np.where(np.arange(n)[:, None] < k, 1.0, 0.0)
    basis[k, k - 1] = -k
    normalised: Vectors = basis / np.sqrt(k * (k + 1.0))
    return normalised


def _with_room(columns: Vectors, most: int) -> Vectors:
    """The columns in column order, at the front of an array for `most` where these are more."""
    if most <= columns.shape[1]:
        return np.asfortranarray(columns)
    room = np.empty((len(columns), most), order="F")
    room[:, : columns.shape[1]] = columns
    return room


def _asymmetry(a: Vectors, mirrored: Vectors, largest: float | None = None) -> float:
    size = float(np.abs(a).max(initial=0.0)) if largest is None else largest
    return float(np.abs(a - mirrored).max(initial=0.0)) / max(size, np.finfo(float).tiny)
