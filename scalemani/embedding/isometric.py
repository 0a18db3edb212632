"""Isometric projection: the linear map of features whose distances strain geodesic ones least. Pure functions.

Every form has features F (n, q), a row a point: the columns of X, or of a kernel matrix. Centred, JF = U Σ V'. Among
all Y = J F A the least strain ||K2 - Y Y'||, K2 = -1/2 J (D∘D) J, is at

    M = U' K2 U = G Λ G',   Y = U T G Λ^1/2,   A = V Σ^-1 T G Λ^1/2,   T² = σ² / (σ² + α),

with T M T in the place of M where there is a ridge α (A'(F'JF + αI)A = I). So all that is asked of D is M (r, r), one
read; and new points need mean and A alone: y(t) = (f(t) - mean) A.

Source: Cai, He and Han, "Isometric projection" (report UIUCDCS-R-2006-2747, 2006): equations 3 and 4, without the
Λ^1/2, which its normalisation a'X'Xa = 1 leaves out (`scale="unit"`). X is centred, which equation 4 does not do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl
from scipy.sparse import issparse

from scalemani.aliases import F64
from scalemani.kernel import blas

MOST_COLUMNS = 2000  # features whose covariance is factored whole; of more, leading directions are sought
LEADING, GUARDS = 400, 10  # such directions, of which the last 10 are dropped
POWERS = 2  # iterations for them
FEW_ENTRIES = 1 << 24  # of X, for which all directions are found whatever its shape
LEAST_OF_GRAM = 1e-10  # eigenvalues of a centred kernel matrix below this, of the largest, are rounding
LEAST_OF_LANDMARKS = 1e-12  # the same of the kernel among Nyström's landmarks
MOST_NEGATIVE = 1e-6  # share of a kernel matrix's eigenvalues, by modulus, that rounding may make negative
GRID = tuple(10.0 ** (half / 2) for half in range(-16, 1))  # ridges that leave-one-out chooses from
PANEL = 1 << 21  # entries of rows at once


@dataclass(frozen=True)
class Basis:
    """The directions in which the features of the training points vary: f -> (f - mean) @ loadings / spread is U's row.

    mean (q,): Of the features.
    loadings (q, r): V; of a kernel matrix Q Θ^-1/2.
    spread (r,): σ, descending.
    negative: Of a kernel matrix, the share of its eigenvalues' moduli that is negative.
    """

    mean: F64
    loadings: F64
    spread: F64
    negative: float = 0.0

    @property
    def rank(self) -> int:
        """r."""
        return len(self.spread)


def panels(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, each of some 16 MiB of float64."""
    step = max(1, PANEL // max(1, width))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def basis_of_rows(rows: Any, seed: int = 0, order: Any = None) -> Basis:
    """The directions of rows of features.

    rows (n, q): Dense, a map of a file, or CSR, which is never made dense.
    order: Numbers of the rows that count; all of them unless given.

    All directions of up to 2,000 features, else the 390 leading ones. Directions of rounding are left out: those with
    σ <= max(max(n, q) eps σ1, eps(dtype) |F|), the second term being what the numbers themselves are rounded by (0 for
    integers). The mean is taken away twice, or its rounding error would count as a direction.
    """
    order = np.arange(rows.shape[0]) if order is None else order
    n, q = len(order), rows.shape[1]

    def part(here: slice) -> Any:
        taken = rows[order[here]]
        return taken if issparse(taken) else np.asarray(taken, np.float64)

    mean, size = _mean_of(part, n, q, 0.0)
    if not issparse(rows) and (q <= MOST_COLUMNS or n * q <= FEW_ENTRIES):
        rest = _mean_of(part, n, q, mean)[0]
        factor = part(slice(0, n)) - mean - rest if n < q else np.empty((0, q))
        for here in panels(n, q) if n >= q else ():
            factor = sl.qr(np.vstack([factor, part(here) - mean - rest]), mode="r", check_finite=False)[0][:q]
        _, spread, right = sl.svd(factor, full_matrices=False)
        loadings = right.T
    else:
        spread, loadings = _leading(part, n, q, mean, seed)
    eps = np.finfo(rows.dtype).eps if rows.dtype.kind == "f" else 0.0
    kept = spread > max(max(n, q) * np.finfo(float).eps * spread[0], eps * size)
    return Basis(mean, blas.by_rows(loadings[:, kept]), spread[kept])


def _mean_of(part: Callable[[slice], Any], n: int, q: int, shift: Any) -> tuple[F64, float]:
    """The mean of rows less `shift`, and the size of all rows, |F|."""
    total, squares = np.zeros(q), 0.0
    for here in panels(n, q):
        rows = part(here)
        if issparse(rows):
            total += np.asarray(rows.sum(axis=0), np.float64).ravel()
            squares += float((np.asarray(rows.data, np.float64) ** 2).sum())
        else:
            total += (rows - shift).sum(axis=0)
            squares += float((rows**2).sum())
    return total / n, float(np.sqrt(squares))


def centered_product(rows: Any, mean: F64, columns: F64) -> F64:
    """(rows - mean) @ columns; CSR rows stay as they are."""
    if issparse(rows):
        return np.asarray(blas.product(rows, columns) - blas.product(mean, columns))
    return np.asarray(blas.product(rows - mean, columns))


def _leading(part: Callable[[slice], Any], n: int, q: int, mean: F64, seed: int) -> tuple[F64, F64]:
    """The largest σ and V by a random block and two power iterations (Halko, Martinsson & Tropp 2011): 7 passes."""
    width = min(LEADING, n - 1, q)
    block = np.random.default_rng(seed).standard_normal((q, width))

    def forth(columns: F64) -> F64:
        out = np.empty((n, columns.shape[1]))
        for here in panels(n, q):
            out[here] = centered_product(part(here), mean, columns)
        return out

    def back(columns: F64) -> F64:
        out = np.zeros((q, columns.shape[1]))
        for here in panels(n, q):
            rows, some = part(here), columns[here]
            out += blas.product(rows.T, some) if issparse(rows) else blas.product((rows - mean).T, some)
            if issparse(rows):
                out -= np.outer(mean, some.sum(axis=0))
        return out

    for _ in range(POWERS):
        block = sl.qr(back(sl.qr(forth(block), mode="economic")[0]), mode="economic")[0]
    basis = sl.qr(forth(block), mode="economic")[0]
    right = sl.svd(back(basis), full_matrices=False)[0][:, : width if width < LEADING else width - GUARDS]
    _, spread, turn = sl.svd(forth(right), full_matrices=False)  # so that U's columns are orthogonal to rounding
    return spread, blas.product(right, turn.T)


# ---- kernels -----------------------------------------------------------------------------------------


def contrast(gram: F64) -> float:
    """How far the values of a kernel matrix (m, m) differ from row to row, as a share of the largest of them.

    It is the mean of the centred matrix's diagonal over that value. What rounding leaves is about 1e-16 m.
    """
    size = float(np.abs(gram).max())
    return abs(float(np.diagonal(gram).mean() - gram.mean())) / size if size else 0.0


def basis_of_gram(gram: F64) -> Basis:
    """The directions of a kernel matrix (n, n): J gram J = Q Θ Q', eigenvalues of rounding left out; U is Q."""
    mean = gram.mean(axis=0)
    centered = gram - mean - mean[:, None] + mean.mean()
    values, vectors = sl.eigh((centered + centered.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    moduli = float(np.abs(values).sum())
    negative = float(-values[values < 0].sum()) / moduli if moduli else 0.0
    kept = values > LEAST_OF_GRAM * values[0]
    spread = np.sqrt(values[kept])
    loadings = vectors[:, kept] / spread
    loadings -= loadings.mean(axis=0)  # a row's own mean drops out then, to the last bit
    return Basis(mean, loadings, spread, negative)


def landmark_map(square: F64) -> tuple[F64, float]:
    """B such that F = K(X, Z) B are Nyström's features (B B' inverts K(Z, Z)), and the negative share of K(Z, Z)."""
    values, vectors = sl.eigh((square + square.T) / 2)
    negative = float(-values[values < 0].sum() / np.abs(values).sum())
    kept = values > LEAST_OF_LANDMARKS * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept]), negative


# ---- the map -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeastStrain:
    """The map of least strain.

    eigenvalues (d,): λ, descending; the squared lengths of the axes (`scale="lstsq"`, no ridge).
    weights (q, d): A.
    turn (r, d): Y = U turn.
    trace: The sum of all eigenvalues.
    """

    eigenvalues: F64
    weights: F64
    turn: F64
    trace: float


def least_strain(
    basis: Basis, projected: F64, n_components: int, ridge: float = 0.0, scale: str = "lstsq", tolerance: float = 1e-7
) -> LeastStrain:
    """The map of a projected kernel.

    projected (r, r): M = U' K2 U.
    ridge: ρ: α = ρ σ1².
    scale ({"lstsq", "unit"}): Whether axes are as long as D says (least strain), or of length 1 (the paper's).
    tolerance: Axes with λ <= tolerance λ1 are 0, which float32 distances leave of those that are 0; so are those past
        the rank.

    >>> basis = Basis(np.zeros(1), np.ones((1, 1)), np.array([2.0]))
    >>> least_strain(basis, np.array([[9.0]]), 1).weights
    array([[1.5]])
    """
    spread = basis.spread
    shrink = spread / np.sqrt(spread**2 + ridge * spread[0] ** 2)
    inside = shrink[:, None] * (projected + projected.T) / 2 * shrink
    values, vectors = sl.eigh(inside)
    found = min(n_components, len(values))
    values, vectors = values[::-1][:found], vectors[:, ::-1][:, :found]
    active = values > tolerance * max(float(values[0]), 0.0)
    length = np.where(active, np.sqrt(np.maximum(values, 0.0)) if scale == "lstsq" else 1.0, 0.0)
    turn = np.zeros((len(spread), n_components))
    turn[:, :found] = shrink[:, None] * vectors * length
    eigenvalues = np.zeros(n_components)
    eigenvalues[:found] = values
    return LeastStrain(eigenvalues, blas.product(basis.loadings, turn / spread[:, None]), turn, float(np.trace(inside)))


def projected_labels(sums: F64, fill: float) -> F64:
    """What squared distances `fill`² between classes add to M, by the sums of U's rows in each class, (c, r).

    -1/2 U' S U of S = fill² (11' - E), E the class blocks, is fill²/2 Σ_c (U_c'1)(U_c'1)', since U'1 = 0.
    """
    return np.asarray(fill**2 / 2 * blas.product(sums.T, sums))


def left_out_error(left: F64, spread: F64, targets: F64, ridge: float) -> float:
    """Relative error of ridge-regressing `targets` on the features, each row left out in turn.

    left (n, r), spread (r,): U and σ.
    targets (n, d): Centred; Isomap's own coordinates.
    ridge: ρ.

    No difference of numbers near 1 is taken: at full rank r = n - 1, where α cancels, ρ = 0 has a value, too.
    """
    n, r = left.shape
    alpha, inside = ridge * spread[0] ** 2, blas.product(left.T, targets)
    if r == n - 1:
        weights = 1 / (spread**2 + alpha)
        residual, rest = blas.product(left * weights, inside), blas.product(left**2, weights)
    else:
        weights = alpha / (spread**2 + alpha)
        residual = targets - blas.product(left, inside) + blas.product(left * weights, inside)
        rest = 1 - 1 / n - (left**2).sum(axis=1) + blas.product(left**2, weights)
    return float(np.sqrt(((residual / rest[:, None]) ** 2).sum() / (targets**2).sum()))
