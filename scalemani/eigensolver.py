"""Leaf: extreme eigenpairs of a symmetric operator, or of a one-parameter family, from block products.

Takes anything with products; sees no Zarr and no Dask. The operator is a combination
Σ a_i A_i + a_0 I of symmetric A_i that share the null vector 1 (centred kernels), and one call of
`products(V)` gives every A_i V. A block Rayleigh-Ritz iteration keeps an orthonormal basis V ⟂ 1 with
its images; each round projects the A_i, asks `combine` for the coefficients (they may depend on the
projections: that is how the additive constant is found on the way), takes the highest and the lowest
Ritz vectors, and appends the directions of their residuals.

Residuals of converged vectors are rounding noise, which normalising would blow up into copies of what the basis
holds: they are not appended (locking), and what is appended is orthogonalised against 1 and the basis after
normalising, twice, and dropped where it loses its norm. When the basis would pass `most_columns` it is replaced by
its extreme Ritz vectors (thick restart: no reads). A cluster is found whole: `guards` more vectors are followed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

Vectors = NDArray[np.float64]
Products = Callable[[Vectors], tuple[Vectors, ...]]

FULL_BASIS = 300  # up to this size the whole of 1-perp is the first block: one read, exact
GUARDS = 2


@dataclass(frozen=True)
class Start:
    """A first block whose images are known: the iteration begins from it without a read.

    Attributes
    ----------
    basis : ndarray, shape (n, b)
        Orthonormal columns, orthogonal to 1, as :func:`start_block` makes them.
    images : tuple of ndarray, each (n, b)
        A_i of the basis, for each A_i.
    """

    basis: Vectors
    images: tuple[Vectors, ...]


@dataclass(frozen=True)
class Combination:
    """What `combine` answers: K = Σ coefficients[i] A_i + identity · I, and how well the low end must be known.

    Attributes
    ----------
    coefficients : tuple of float
    identity : float
    value : float
        The parameter (the additive constant); the iteration goes on while it rises by more than `tol`.
    low_scale : float
        Error of the lowest eigenvalue that is allowed, divided by `tol`; inf if the low end is not wanted.
    floor : float
        Eigenvalues up to here carry nothing (past the rank, or nugget only): a pair is done as soon as
        its Ritz value plus residual is below.
    """

    coefficients: tuple[float, ...]
    identity: float = 0.0
    value: float = 0.0
    low_scale: float = np.inf
    floor: float = 0.0


@dataclass(frozen=True)
class RitzPairs:
    """The answer.

    Attributes
    ----------
    values : ndarray, shape (p,)
        Largest eigenvalues, descending.
    vectors : ndarray, shape (n, p)
        Orthonormal, orthogonal to 1.
    forms : tuple of ndarray, each (p,)
        v'A_i v of each vector, for each A_i.
    residuals : ndarray, shape (p,)
        |K v - λ v| / max(|λ|, rounding level of K); 0 for a pair below the floor.
    lowest : float
        Smallest Ritz value found (an upper bound of the smallest eigenvalue).
    low_residual : float
        |K v - λ v| of its vector.
    next_value : float
        The Ritz value behind the last one (nan if there is none).
    asymmetry : float
        Largest |v'A_i w - w'A_i v| over the basis, relative to the largest entry of A_i there: rounding, or a fault.
    combination : Combination
        The last one.
    change : float
        Relative rise of its value in the last round.
    converged : bool
    """

    values: Vectors
    vectors: Vectors
    forms: tuple[Vectors, ...]
    residuals: Vectors
    lowest: float
    low_residual: float
    next_value: float
    asymmetry: float
    combination: Combination
    change: float
    converged: bool


def first_block(n: int, n_top: int, block: int = 16, *, low: bool = True) -> int:
    """Columns of the first block, the widest that is multiplied: all n - 1 where that is cheap, and exact."""
    n_low = block // 2 if low else 0
    width = max(block, max(n_top + GUARDS, block - n_low) + n_low)
    return n - 1 if n - 1 <= max(FULL_BASIS, 2 * width) else width


def basis_limits(width: int, n_top: int, block: int = 16, *, low: bool = True) -> tuple[int, int]:
    """Columns at which a basis that began with `width` restarts: the fewest that leave room to grow, and the usual."""
    n_low = block // 2 if low else 0
    least = 2 * (max(n_top + GUARDS, block - n_low) + n_low) + 2 * width
    return least, max(10 * width, least)


def start_block(n: int, width: int, seed: int) -> Vectors:
    """A first block (n, width): a seeded Gaussian one, or the whole complement of 1 where it is as wide."""
    return _complement_of_ones(n) if width == n - 1 else _gaussian_block(n, width, seed)


def block_rayleigh_ritz(
    products: Products,
    n: int,
    n_top: int,
    combine: Callable[[tuple[Vectors, ...]], Combination],
    *,
    low: bool,
    order: str = "value",
    tol: float = 1e-6,
    block: int = 16,
    most_reads: int = 100,
    most_columns: int | None = None,
    seed: int = 0,
    start: Start | None = None,
) -> RitzPairs:
    """The `n_top` largest eigenpairs of the combined operator on the complement of 1.

    Parameters
    ----------
    products : callable
        V (n, b) -> (A_1 V, A_2 V, ...).
    n : int
        Size; at least 2.
    n_top : int
        Pairs wanted, at most n - 1.
    combine : callable
        Projected matrices V'A_i V -> Combination.
    low : bool
        Whether the lowest Ritz vectors are followed too.
    order : {"value", "modulus"}
        What "largest" means.
    tol : float
        Residual over Ritz value at which a top pair is done; relative rise of the value and relative
        error of the lowest Ritz value (r²/gap) at which the low end is.
    block : int
        Columns of the first block, at least; half of it is given to the low end.
    most_reads : int
        Guard; the answer then has ``converged=False``.
    most_columns : int, optional
        Basis columns at which the iteration restarts; four blocks and more.
    seed : int
        Of the Gaussian start block.
    start : Start, optional
        To begin from instead, of any width.

    Raises
    ------
    ValueError
        If `n_top` is not in 1..n-1.
    """
    if not 1 <= n_top <= n - 1:
        raise ValueError(f"{n_top} eigenpairs of an operator on {n} points: 1 to {n - 1} are allowed")
    n_low = block // 2 if low else 0
    n_high = max(n_top + GUARDS, block - n_low)
    reads = 0
    if start is None:
        basis = start_block(n, first_block(n, n_top, block, low=low), seed)
        start = Start(basis, products(basis))
        reads = 1
    basis, images = start.basis, start.images
    width = basis.shape[1]
    keep = 2 * (n_high + n_low)
    least, usual = basis_limits(width, n_top, block, low=low)
    limit = max(most_columns or usual, least)
    value = 0.0
    while True:
        m = basis.shape[1]
        projected = tuple(_symmetric(basis.T @ image) for image in images)
        combination = combine(projected)
        change = abs(combination.value - value) / max(abs(combination.value), np.finfo(float).tiny)
        value = combination.value
        small = sum((a * p for a, p in zip(combination.coefficients, projected, strict=True)), np.zeros((m, m)))
        small[np.diag_indices(m)] += combination.identity
        ritz, u = sl.eigh(small)
        ranked = np.argsort(-np.abs(ritz) if order == "modulus" else -ritz, kind="stable")
        top = ranked[:n_high]
        bottom = ranked[len(top) :][::-1][:n_low] if order == "value" else ranked[:0]
        chosen = np.concatenate([top, bottom])
        gaps = _residuals(basis, images, combination, u[:, chosen], ritz[chosen])
        sizes = np.linalg.norm(gaps, axis=0)
        noise = 1e-15 * max(abs(ritz[0]), abs(ritz[-1]))
        relative = sizes[:n_top] / np.maximum(np.abs(ritz[top[:n_top]]), 1e3 * noise + np.finfo(float).tiny)
        shown = np.abs(ritz) if order == "modulus" else ritz
        relative[shown[top[:n_top]] + sizes[:n_top] <= combination.floor] = 0.0
        high_done = bool((relative <= tol).all())
        low_error = _low_error(ritz, sizes[len(top)]) if len(bottom) else 0.0
        low_done = not low or (low_error <= tol * combination.low_scale and change <= tol)
        if m >= n - 1 or (high_done and low_done and m > n_top) or reads >= most_reads:
            break
        wanted = np.concatenate([_unfinished(relative, len(top), tol), np.full(len(bottom), not low_done)])
        floor = 0.05 * tol * max(abs(ritz[top[min(n_top, m) - 1]]), 1e3 * noise)
        grown = _new_directions(gaps[:, wanted & (sizes > np.minimum(floor, 0.1 * sizes.max()))], basis)
        if grown.shape[1] == 0:
            high_done = low_done = True  # the basis is invariant: nothing is left to find from it
            break
        if m + grown.shape[1] > limit:
            basis, images = _restart(basis, images, u, keep)
        added = products(grown)
        reads += 1
        basis = np.hstack([basis, grown])
        images = tuple(np.hstack([image, new]) for image, new in zip(images, added, strict=True))
    found = top[:n_top]
    return RitzPairs(
        values=ritz[found],
        vectors=basis @ u[:, found],
        forms=tuple(np.einsum("ij,ij->j", u[:, found], p @ u[:, found]) for p in projected),
        residuals=relative,
        lowest=float(ritz[0]),
        low_residual=float(np.linalg.norm(_residuals(basis, images, combination, u[:, :1], ritz[:1]))),
        next_value=float(ritz[ranked[n_top]]) if m > n_top else float("nan"),
        asymmetry=max(_asymmetry(basis.T @ image) for image in images),
        combination=combination,
        change=float(change),
        converged=bool(m >= n - 1 or (high_done and low_done)),
    )


def _symmetric(a: Vectors) -> Vectors:
    return (a + a.T) / 2


def _asymmetry(a: Vectors) -> float:
    return float(np.abs(a - a.T).max() / max(np.abs(a).max(), np.finfo(float).tiny))


def _gaussian_block(n: int, width: int, seed: int) -> Vectors:
    """A seeded Gaussian block, orthonormal and orthogonal to 1."""
    gaussian = np.random.default_rng(seed).standard_normal((n, width))
    for _ in range(2):  # the second time takes what rounding left of the mean
        gaussian = np.linalg.qr(gaussian - gaussian.mean(0))[0]
    return gaussian


def _complement_of_ones(n: int) -> Vectors:
    """An orthonormal basis (n, n - 1) of the complement of 1 (Helmert's contrasts)."""
    k = np.arange(1, n)
    basis = np.where(np.arange(n)[:, None] < k, 1.0, 0.0)
    basis[k, k - 1] = -k
    normalised: Vectors = basis / np.sqrt(k * (k + 1.0))
    return normalised


def _residuals(
    basis: Vectors, images: tuple[Vectors, ...], combination: Combination, u: Vectors, ritz: Vectors
) -> Vectors:
    """K x - θ x for the Ritz vectors x = V u."""
    shifted = basis @ (u * (combination.identity - ritz))
    for coefficient, image in zip(combination.coefficients, images, strict=True):
        if coefficient:
            shifted += coefficient * (image @ u)
    return shifted


def _low_error(ritz: Vectors, residual: float) -> float:
    """How far the lowest Ritz value may be above an eigenvalue: min(r, r²/gap), gap to the next cluster."""
    away = ritz[ritz > ritz[0] + residual]
    gap = float(away[0] - ritz[0]) if len(away) else 0.0
    return min(residual, residual**2 / gap) if gap > 0 else residual


def _unfinished(relative: Vectors, followed: int, tol: float) -> NDArray[np.bool_]:
    """Which top residuals to append: those of wanted pairs above tol, and guards while any pair is unfinished."""
    open_pairs = relative > tol
    guards = np.full(followed - len(relative), bool(open_pairs.any()))
    return np.concatenate([open_pairs, guards])


def _new_directions(residuals: Vectors, basis: Vectors) -> Vectors:
    """Orthonormal columns for the part of `residuals` that neither the basis nor 1 holds yet."""
    kept = residuals[:, np.linalg.norm(residuals, axis=0) > 0]
    for _ in range(3):
        if kept.shape[1] == 0:
            break
        kept = kept / np.linalg.norm(kept, axis=0)
        kept = kept - kept.mean(0)
        kept = kept - basis @ (basis.T @ kept)
        kept = kept[:, np.linalg.norm(kept, axis=0) > 1e-3]
        if kept.shape[1]:
            q, r, _ = sl.qr(kept, mode="economic", pivoting=True)
            kept = q[:, np.abs(np.diag(r)) > 1e-3]
    return kept


def _restart(basis: Vectors, images: tuple[Vectors, ...], u: Vectors, keep: int) -> tuple[Vectors, tuple[Vectors, ...]]:
    """The same iteration from the extreme Ritz vectors: half of `keep` from either end."""
    columns = np.concatenate([u[:, : keep // 2], u[:, -(keep - keep // 2) :]], axis=1)
    return basis @ columns, tuple(image @ columns for image in images)
