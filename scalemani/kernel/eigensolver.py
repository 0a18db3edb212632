"""Extreme eigenpairs of a symmetric operator, or of a one-parameter family, from block products alone.

The operator is a combination Σ a_i A_i + a_0 I of symmetric A_i that share the null vector 1 (centred kernels), and one
call of `products(V)` gives every A_i V. :func:`block_rayleigh_ritz` keeps an orthonormal basis V ⟂ 1 with its images
(:class:`Subspace`); each round projects the A_i, asks `combine` for the coefficients (they may depend on the
projections: that is how the additive constant is found on the way), and appends residuals of Ritz vectors: those of
the largest values until they are done, and of the lowest in what is left of the block.

A pair that is done is not appended any more (locking). When the basis would pass `most_columns` it is replaced by its
extreme Ritz vectors (thick restart: no reads). `GUARDS` more vectors are followed, so that a cluster is found whole.

The low end is done by two estimates, both near the true error where they were compared with a solve to the end (to a
factor of 2 on a roll, a sphere, Gaussian points and images): what the parameter still rises by, from the ratio of its
last rises, and what the residual r of the lowest Ritz vector takes off its value, r²/spread. The spread is the distance
to the MEDIAN Ritz value: r lies outside the basis, which holds what is low, so it is made of the bulk.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from scalemani.aliases import F64
from scalemani.kernel import blas


@dataclass(frozen=True)
class ReadBlock:
    """A block of vectors whose images are known: the iteration takes it without a read.

    basis (n, b): Orthonormal columns, orthogonal to 1.
    images: A_i of the basis, for each A_i.
    """

    basis: F64
    images: tuple[F64, ...]


@dataclass(frozen=True)
class Combination:
    """What `combine` answers: K = Σ coefficients[i] A_i + identity · I, and how well the low end must be known.

    value: What must settle (the additive constant); where the low end is wanted, the iteration goes on while it is
        estimated to rise by more than tol/2 of itself.
    low_scale: Error of the lowest eigenvalue that is allowed, divided by tol/2; inf if the low end is not wanted.
    floor: Eigenvalues up to here carry nothing (past the rank, or nugget only): a pair is done as soon as its Ritz
        value plus residual is below.
    """

    coefficients: tuple[float, ...]
    identity: float = 0.0
    value: float = 0.0
    low_scale: float = np.inf
    floor: float = 0.0


@dataclass(frozen=True)
class RitzPairs:
    """The answer.

    values (p,): Largest eigenvalues, descending.
    vectors (n, p): Orthonormal, orthogonal to 1.
    forms: v'A_i v of each vector, for each A_i.
    residuals (p,): |K v - λ v| / max(|λ|, rounding level of K); 0 for a pair below the floor.
    lowest: Smallest Ritz value found (an upper bound of the smallest eigenvalue).
    low_vector (n,): Its vector.
    low_residual: |K v - λ v| of that.
    next_value: The Ritz value behind the last one (nan if there is none).
    asymmetry: Largest |v'A_i w - w'A_i v| over the basis, relative to the largest entry of A_i there: rounding, or a
        fault.
    change: What its value is estimated to rise by still, relative.
    """

    values: F64
    vectors: F64
    forms: tuple[F64, ...]
    residuals: F64
    lowest: float
    low_vector: F64
    low_residual: float
    next_value: float
    asymmetry: float
    combination: Combination
    change: float
    converged: bool


class ReadLog(Protocol):
    """The blocks that an iteration appended to its basis, by number, from 0 or 1 on: what a stopped run has read."""

    def get(self, number: int) -> ReadBlock | None:
        """The block that was read as this one; None if it wasn't."""
        ...

    def put(self, number: int, block: ReadBlock) -> None:
        """Keep a block; those behind it, if any, are of no use any more."""
        ...


ORTHOGONAL = 1e-9  # of a block that is taken as it is: far above rounding, far below what an iteration would notice
SMALLEST = 1e-3  # of a normalised direction: what is left of less than that, outside the basis, is mostly rounding


class Subspace:
    """An orthonormal basis V ⟂ 1 that grows, its images A_i V and the projected matrices V'A_i V.

    Memory for `most` columns is taken once and filled column by column (a page that is not written to costs nothing),
    and the projected matrices grow by borders: no copy of the basis is ever made, and a new block of b columns costs
    4 n m b multiplications an operator.

    basis (n, b): Orthonormal, orthogonal to 1.
    images: A_i of the basis.
    most: Columns that it may grow to.
    columns: m, in use.
    projected: V'A_i V, symmetric.
    asymmetry: Largest difference of an entry of a V'A_i V from its mirror image, relative to the largest entry:
        rounding of the products, or a fault of the operator.
    """

    def __init__(self, basis: F64, images: tuple[F64, ...], most: int) -> None:
        self.columns = basis.shape[1]
        self._basis, self._images = _with_room(basis, most), tuple(_with_room(image, most) for image in images)
        raw = tuple(blas.product(self.basis.T, image) for image in self.images)
        self.projected: tuple[F64, ...] = tuple((a + a.T) / 2 for a in raw)
        self.asymmetry = 0.0
        self._note_asymmetry(*(_asymmetry(a, a.T) for a in raw))

    @property
    def basis(self) -> F64:
        """V, shape (n, m)."""
        return self._basis[:, : self.columns]

    @property
    def images(self) -> tuple[F64, ...]:
        """A_i V, each (n, m)."""
        return tuple(image[:, : self.columns] for image in self._images)

    def _note_asymmetry(self, *found: float) -> None:
        self.asymmetry = float(np.max([self.asymmetry, *found]))  # a NaN stays

    def append(self, grown: F64, images: tuple[F64, ...]) -> None:
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

    def rotate(self, u: F64) -> None:
        """Replace the basis by V u, u (m, k) with orthonormal columns: no product with A_i is needed."""
        k = u.shape[1]
        for whole in (self._basis, *self._images):
            whole[:, :k] = blas.product(whole[:, : self.columns], u)
        self.columns = k
        self.projected = tuple(blas.product(blas.product(u.T, p), u) for p in self.projected)

    def residuals(self, coefficients: tuple[float, ...], identity: float, u: F64, ritz: F64) -> F64:
        """K x - θ x of the Ritz vectors x = V u, K = Σ coefficients[i] A_i + identity · I."""
        shifted = blas.product(self.basis, u * (identity - ritz))
        for coefficient, image in zip(coefficients, self.images, strict=True):
            if coefficient:
                shifted += blas.product(image, coefficient * u)
        return np.asarray(shifted)

    def is_new(self, block: F64) -> bool:
        """Whether a block's columns are orthonormal, and orthogonal to 1 and to the basis, as new directions are."""
        if block.shape[0] != len(self._basis):
            return False
        inside = np.abs(np.matmul(block.T, block) - np.eye(block.shape[1])).max(initial=0.0)
        outside = np.abs(np.matmul(self.basis.T, block)).max(initial=0.0)
        mean = np.abs(block.sum(axis=0)).max(initial=0.0) / np.sqrt(len(block))
        return bool(max(inside, outside, mean) < ORTHOGONAL)

    def new_directions(self, candidates: F64) -> F64:
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


def orthonormal(columns: F64) -> F64:
    """An orthonormal basis of the columns less their means, as wide as they are."""
    for _ in range(2):  # the second time takes what rounding left of the mean
        columns = np.linalg.qr(columns - columns.mean(0))[0]
    return columns


def gaussian_block(n: int, width: int, seed: int) -> F64:
    """A seeded Gaussian block, orthonormal and orthogonal to 1."""
    return orthonormal(np.random.default_rng(seed).standard_normal((n, width)))


def complement_of_ones(n: int) -> F64:
    """An orthonormal basis (n, n - 1) of the complement of 1 (Helmert's contrasts)."""
    k = np.arange(1, n)
    basis = np.where(np.arange(n)[:, None] < k, 1.0, 0.0)
    basis[k, k - 1] = -k
    return np.asarray(basis / np.sqrt(k * (k + 1.0)))


def _with_room(columns: F64, most: int) -> F64:
    """The columns in column order, at the front of an array for `most` where these are more."""
    if most <= columns.shape[1]:
        return np.asfortranarray(columns)
    room = np.empty((len(columns), most), order="F")
    room[:, : columns.shape[1]] = columns
    return room


def _asymmetry(a: F64, mirrored: F64, largest: float | None = None) -> float:
    size = float(np.abs(a).max(initial=0.0)) if largest is None else largest
    return float(np.abs(a - mirrored).max(initial=0.0)) / max(size, np.finfo(float).tiny)


Products = Callable[[F64], tuple[F64, ...]]

FULL_BASIS = 300  # up to this size the whole of 1-perp is the first block: one read, exact
GUARDS = 2
USUAL_COLUMNS = 320  # of a basis before it restarts: 20 reads of 16; with both images 768 MB at n = 100,000
STALLED = 20  # rounds that took less than 30 % off the least that was left: rounding has the last word


def first_block(n: int, n_top: int, block: int = 16) -> int:
    """Columns of the first block, the widest that is multiplied: all n - 1 where that is cheap, and exact."""
    width = max(block, n_top + GUARDS + block // 2)
    return n - 1 if n - 1 <= max(FULL_BASIS, 2 * width) else width


def basis_limits(width: int, n_top: int, block: int = 16) -> tuple[int, int]:
    """Columns at which a basis that began with `width` restarts: the fewest that leave room to grow, and the usual."""
    least = 2 * (max(n_top + GUARDS, block) + block) + 2 * max(width, n_top + GUARDS + block // 2)
    return least, max(USUAL_COLUMNS, 14 * width, least)


def start_block(n: int, width: int, seed: int) -> F64:
    """A first block (n, width): a seeded Gaussian one, or the whole complement of 1 where it is as wide."""
    return complement_of_ones(n) if width == n - 1 else gaussian_block(n, width, seed)


def block_rayleigh_ritz(
    products: Products,
    n: int,
    n_top: int,
    combine: Callable[[tuple[F64, ...]], Combination],
    *,
    low: bool,
    order: str = "value",
    tol: float = 1e-6,
    block: int = 16,
    most_reads: int = 100,
    most_columns: int | None = None,
    seed: int = 0,
    start: ReadBlock | None = None,
    log: ReadLog | None = None,
) -> RitzPairs:
    """The `n_top` largest eigenpairs of the combined operator on the complement of 1.

    products: V (n, b) -> (A_1 V, A_2 V, ...).
    n: Size; at least 2.
    n_top: Pairs wanted, at most n - 1.
    combine: Projected matrices V'A_i V -> Combination.
    low: Whether the lowest Ritz vectors are followed too.
    order ({"value", "modulus"}): What "largest" means.
    tol: Residual over Ritz value at which a top pair is done, unless it is rounding before. The low end is done when
        the estimated errors of the value (relative) and of the lowest Ritz value (over `low_scale`) are at most tol/2
        (module docstring).
    block: Columns of a read, unless more pairs are wanted; at least half of it is the low end's until that is done.
    most_reads: Guard; the answer then has ``converged=False``.
    most_columns: Basis columns at which the iteration restarts; see :func:`basis_limits`.
    seed: Of the Gaussian start block.
    start: To begin from instead, of any width.
    log: Has the blocks that a run which was stopped has read, of which the first ones that fit are taken without a
        read; new ones are put there.
    Raises ValueError: If `n_top` is not in 1..n-1.
    """
    if not 1 <= n_top <= n - 1:
        raise ValueError(f"{n_top} eigenpairs of an operator on {n} points: 1 to {n - 1} are allowed")
    n_low = block if low else 0
    n_high = n_top + GUARDS if low else max(n_top + GUARDS, block)
    reads = 0
    if start is None:
        basis = start_block(n, first_block(n, n_top, block), seed)
        start = ReadBlock(basis, products(basis))
        reads = 1
    width = start.basis.shape[1]
    least, usual = basis_limits(width, n_top, block)
    limit = min(max(most_columns or usual, least), n - 1)
    space = Subspace(start.basis, start.images, limit)
    del start
    rises, value, best, stalled = list[float](), 0.0, np.inf, 0
    while True:
        m = space.columns
        combination = combine(space.projected)
        rises.append(abs(combination.value - value) / max(abs(combination.value), np.finfo(float).tiny))
        value = combination.value
        small = combination.identity * np.eye(m)  # V'K V
        for coefficient, p in zip(combination.coefficients, space.projected, strict=True):
            small += coefficient * p
        ritz, u = sl.eigh(small)
        shown = np.abs(ritz) if order == "modulus" else ritz
        ranked = np.argsort(-shown, kind="stable")
        top, bottom = ranked[:n_high], ranked[n_high:][::-1][:n_low]
        chosen = np.concatenate([top, bottom])
        gaps = space.residuals(combination.coefficients, combination.identity, u[:, chosen], ritz[chosen])
        sizes = np.linalg.norm(gaps, axis=0)
        noise = 1e-15 * max(abs(ritz[0]), abs(ritz[-1]))
        relative = sizes[:n_top] / np.maximum(shown[top[:n_top]], 1e3 * noise + np.finfo(float).tiny)
        relative[shown[top[:n_top]] + sizes[:n_top] <= combination.floor] = 0.0
        unfinished = (relative > tol) & (sizes[:n_top] > rounding(n, ritz))
        spread = float(np.median(ritz) - ritz[0])
        rest = _rest_of(rises)
        low_error = np.inf  # of the lowest Ritz value, by estimate; no more than its residual in any case
        if len(bottom):
            residual = float(sizes[len(top)])
            low_error = min(residual, residual**2 / spread) if spread > 0 else residual
        allowed = max(tol / 2 * combination.low_scale, np.finfo(float).tiny)
        high_done = not unfinished.any()
        low_done = not low or (rest <= tol / 2 and low_error <= allowed)
        if m >= n - 1 or (high_done and low_done and m > n_top) or reads >= most_reads:
            break
        left = relative[unfinished].max(initial=0.0) / tol
        left = max(left, 0.0 if low_done else max(2 * rest / tol, low_error / allowed))
        best, stalled = (left, 0) if left < 0.7 * best else (best, stalled + 1)
        if stalled > STALLED:
            break
        taken = log.get(reads) if log is not None else None
        if taken is not None and space.is_new(taken.basis):
            grown = taken.basis
        else:
            taken = None
            floors = np.full(len(chosen), 0.05 * tol * max(shown[top[min(n_top, m) - 1]], 1e3 * noise))
            floors[len(top) :] = max(0.05 * np.sqrt(allowed * spread), 10 * noise)
            wanted = _wanted(unfinished, len(top), 0 if low_done else len(bottom), block, len(chosen))
            wanted &= sizes > np.minimum(floors, 0.1 * sizes[wanted].max(initial=0))
            grown = space.new_directions(gaps[:, wanted])
        del gaps  # the products need the memory
        if grown.shape[1] == 0:
            high_done = low_done = True  # the basis is invariant: nothing is left to find from it
            break
        if m + grown.shape[1] > limit:
            space.rotate(_kept(u, ranked, n_high, n_low))
        if taken is None:
            taken = ReadBlock(grown, products(grown))
            if log is not None:
                log.put(reads, taken)
        space.append(grown, taken.images)
        del grown, taken
        reads += 1
    found = u[:, top[:n_top]]
    lowest = space.residuals(combination.coefficients, combination.identity, u[:, :1], ritz[:1])
    return RitzPairs(
        values=ritz[top[:n_top]],
        vectors=blas.product(space.basis, found),
        forms=tuple((found * blas.product(p, found)).sum(axis=0) for p in space.projected),
        residuals=relative,
        lowest=float(ritz[0]),
        low_vector=blas.product(space.basis, u[:, 0]),
        low_residual=float(np.linalg.norm(lowest)),
        next_value=float(ritz[ranked[n_top]]) if m > n_top else float("nan"),
        asymmetry=space.asymmetry,
        combination=combination,
        change=float(rest) if m < n - 1 else 0.0,
        converged=bool(m >= n - 1 or (high_done and low_done)),
    )


def rounding(n: int, ritz: F64) -> float:
    """The residual that float64 products leave of any pair, beside the largest of these values."""
    return 4e-16 * float(np.sqrt(n) * np.abs(ritz).max())


def _rest_of(rises: list[float]) -> float:
    """What is left of a geometric series, by the larger of its last two ratios; the first rise, from 0, is none."""
    if rises[-1] == 0:
        return 0.0
    if len(rises) < 2:
        return np.inf
    ratios = [later / earlier if earlier else np.inf for earlier, later in pairwise(rises[1:][-3:])]
    ratio = min(max(ratios, default=0.95), 0.95)
    return rises[-1] * ratio / (1 - ratio)


def _wanted(unfinished: NDArray[np.bool_], n_high: int, n_low: int, block: int, followed: int) -> NDArray[np.bool_]:
    """Which residuals are appended: of unfinished pairs, with the guards; and the lowest, in the rest of the block."""
    wanted = np.zeros(followed, bool)
    wanted[: len(unfinished)] = unfinished
    wanted[len(unfinished) : n_high] = unfinished.any()
    wanted[n_high : n_high + min(n_low, max(block - int(wanted.sum()), block // 2))] = True
    return wanted


def _kept(u: F64, ranked: NDArray[np.intp], n_high: int, n_low: int) -> F64:
    """Ritz vectors that a restart keeps: twice as many of either end as are followed."""
    high = ranked[: 2 * n_high]
    return np.concatenate([u[:, high], u[:, ranked[len(high) :][::-1][: 2 * n_low]]], axis=1)


def fixed_signs(vectors: F64) -> F64:
    """Columns with their entry of largest modulus positive; of equal ones (to 1e-6) the first decides.

    >>> fixed_signs(np.array([[0.6, 0.0], [-0.8, -1.0]])).tolist()
    [[-0.6, -0.0], [0.8, 1.0]]
    """
    size = np.abs(vectors)
    deciding = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    signs = np.where(vectors[deciding, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return vectors * signs


def basis_bytes(n: int, most_columns: int) -> int:
    """The orthonormal basis and its two images."""
    return 3 * 8 * n * most_columns


def growth_bytes(n: int, columns: int) -> int:
    """Eight blocks: residuals, those that are appended, and their copies on the way to orthonormal directions."""
    return 8 * 8 * n * columns
