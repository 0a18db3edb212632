"""Leaf: extreme eigenpairs of a symmetric operator, or of a one-parameter family, from block products.

Takes anything with products; sees no Zarr and no Dask. The operator is a combination
Σ a_i A_i + a_0 I of symmetric A_i that share the null vector 1 (centred kernels), and one call of
`products(V)` gives every A_i V. A block Rayleigh-Ritz iteration keeps an orthonormal basis V ⟂ 1 with
its images (:mod:`scalemani.subspace`); each round projects the A_i, asks `combine` for the coefficients (they may
depend on the projections: that is how the additive constant is found on the way), and appends residuals of Ritz
vectors: those of the largest values until they are done, and of the lowest in what is left of the block.

A pair that is done is not appended any more (locking). When the basis would pass `most_columns` it is replaced by its
extreme Ritz vectors (thick restart: no reads). `GUARDS` more vectors are followed, so that a cluster is found whole.

The low end is done by two estimates, both near the true error where they were compared with a solve to the end (to a
factor of 2 on a roll, a sphere, Gaussian points and images): what the parameter still rises by, from the ratio of its
last rises, and what the residual r of the lowest Ritz vector takes off its value, r²/spread. The spread is the distance
to the MEDIAN Ritz value: r lies outside the basis, which holds what is low, so it is made of the bulk.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from scalemani import blas
from scalemani.ritz import Combination, ReadBlock, ReadLog, RitzPairs
from scalemani.subspace import Subspace, complement_of_ones, gaussian_block

Vectors = NDArray[np.float64]
Products = Callable[[Vectors], tuple[Vectors, ...]]

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


def start_block(n: int, width: int, seed: int) -> Vectors:
    """A first block (n, width): a seeded Gaussian one, or the whole complement of 1 where it is as wide."""
    return complement_of_ones(n) if width == n - 1 else gaussian_block(n, width, seed)


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
        ritz, u = sl.eigh(_combined(space.projected, combination))
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
        low_error = _low_error(sizes[len(top)], spread) if len(bottom) else np.inf
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


def rounding(n: int, ritz: Vectors) -> float:
    """The residual that float64 products leave of any pair, beside the largest of these values."""
    return 4e-16 * float(np.sqrt(n) * np.abs(ritz).max())


def _combined(projected: tuple[Vectors, ...], combination: Combination) -> Vectors:
    """V'K V."""
    small: Vectors = combination.identity * np.eye(len(projected[0]))
    for coefficient, p in zip(combination.coefficients, projected, strict=True):
        small += coefficient * p
    return small


def _rest_of(rises: list[float]) -> float:
    """What is left of a geometric series, by the larger of its last two ratios; the first rise, from 0, is none."""
    if rises[-1] == 0:
        return 0.0
    if len(rises) < 2:
        return np.inf
    ratios = [later / earlier if earlier else np.inf for earlier, later in pairwise(rises[1:][-3:])]
    ratio = min(max(ratios, default=0.95), 0.95)
    return rises[-1] * ratio / (1 - ratio)


def _low_error(residual: float, spread: float) -> float:
    """How far the lowest Ritz value is above an eigenvalue, by estimate; no further than the residual in any case."""
    return min(residual, residual**2 / spread) if spread > 0 else residual


def _wanted(unfinished: NDArray[np.bool_], n_high: int, n_low: int, block: int, followed: int) -> NDArray[np.bool_]:
    """Which residuals are appended: of unfinished pairs, with the guards; and the lowest, in the rest of the block."""
    wanted = np.zeros(followed, bool)
    wanted[: len(unfinished)] = unfinished
    wanted[len(unfinished) : n_high] = unfinished.any()
    wanted[n_high : n_high + min(n_low, max(block - int(wanted.sum()), block // 2))] = True
    return wanted


def _kept(u: Vectors, ranked: NDArray[np.intp], n_high: int, n_low: int) -> Vectors:
    """Ritz vectors that a restart keeps: twice as many of either end as are followed."""
    high = ranked[: 2 * n_high]
    return np.concatenate([u[:, high], u[:, ranked[len(high) :][::-1][: 2 * n_low]]], axis=1)
