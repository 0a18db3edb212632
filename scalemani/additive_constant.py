"""Stage 6: takes the centred operators, gives the additive constant c*: on a subspace, or by a solver of its own.

c* is the least c >= 0 for which K(c) = K2 + 2c K1 + (c²/2) J is positive semidefinite; it is the largest real
eigenvalue of the 2n x 2n matrix M = [[0, 2 K2], [-I, -4 K1]] (Cailliez 1983), and the PSD set is
[c*, ∞). For a unit vector v ⟂ 1 with k_i = v'K_i v and 4 k1² >= 2 k2,

    c(v) = -2 k1 + sqrt(4 k1² - 2 k2) <= c*,   with equality at the null vector of K(c*).

So every subspace gives a lower bound, a growing one a rising bound, and the subspace that finds the embedding finds
the constant too (:mod:`scalemani.corrections`, `constant_solver="ritz"`: about a dozen reads of D).

Never run plain power iteration on M: its dominant eigenvalue is real and negative, near
-4 max eig(K1), 6 to 190 times larger than c* in modulus, and that is what it returns (so do "LM" Lanczos
and randomised range finders). `"power"` iterates M + σI, σ just above 4 max eig(K1), which is right and slow: hundreds
to thousands of reads. `"arnoldi"` asks ARPACK for the largest real part: tens to a thousand, and it fails on
Euclidean data, where c* = 0 is a defective eigenvalue (counts: README).
"""

from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from scalemani import blas
from scalemani.eigensolver import block_rayleigh_ritz
from scalemani.errors import SolverError
from scalemani.far_rows import RANK_TOLERANCE
from scalemani.kernel import Kernels
from scalemani.kernel_shares import centred
from scalemani.ritz import Combination

Vectors = NDArray[np.float64]
CONSTANT_SOLVERS = ("ritz", "power", "arnoldi")
MOST_READS = {"power": 20_000, "arnoldi": 3_000}


class CailliezOperator(LinearOperator):  # type: ignore[misc]
    """M = [[0, 2 K2], [-I, -4 K1]] by products: (x, y) -> (2 K2 y, -x - 4 K1 y), one read of D each.

    kernels: Operators of shape (n, n).

    Its largest REAL eigenvalue is c*; its dominant eigenvalue is not (module docstring).
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        n = kernels.shape[0]
        super().__init__(np.dtype(np.float64), (2 * n, 2 * n))

    def _matmat(self, vectors: Vectors) -> Vectors:
        n = self.kernels.shape[0]
        x, y = vectors[:n], vectors[n:]
        k1y, k2y = self.kernels.products(y)
        return np.vstack([2 * k2y, -centred(x) - 4 * k1y])

    def _matvec(self, vector: Vectors) -> Vectors:
        result: Vectors = self._matmat(vector.reshape(-1, 1)).ravel()
        return result


def projected_constant(k1: Vectors, k2: Vectors, start: float = 0.0, tolerance: float = RANK_TOLERANCE) -> float:
    """c* of a pair of small symmetric matrices (projections of K1 and K2).

    Newton's iteration on the lowest eigenvalue of K(c): from below, each step takes the lowest eigenvector v of
    K(c) and goes to c(v), which never passes c*. Symmetric eigenproblems only: all eigenvalues are real.

    k1, k2 (m, m)
    start: A lower bound of the answer to start from.
    tolerance: τ (:mod:`scalemani.far_rows`).
    -> 0 where the lowest eigenvalue of K2 is within τ of 0, relative to the largest.

    The star with three unit arms has c* = (sqrt(3) - 1)/2:

    >>> d = np.array([[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0.0]])
    >>> j = np.eye(4) - 0.25
    >>> round(projected_constant(-0.5 * j @ d @ j, -0.5 * j @ (d * d) @ j), 12)
    0.366025403784
    """
    ends = sl.eigvalsh(k2)
    if ends[0] >= -tolerance * np.abs(ends).max():
        return 0.0
    identity = np.eye(len(k1))
    c = max(start, 0.0)
    for _ in range(100):  # 4 to 7 steps are usual
        lowest, v = sl.eigh(k2 + 2 * c * k1 + c * c / 2 * identity, subset_by_index=[0, 0])
        if lowest[0] >= 0:
            break
        a, b = (float(blas.product(blas.product(v[:, 0], k), v[:, 0])) for k in (k1, k2))
        rise = -2 * a + np.sqrt(max(4 * a * a - 2 * b, 0.0))
        if not rise > c * (1 + 1e-15):
            break
        c = float(rise)
    return c


def power_constant(kernels: Kernels, *, tol: float = 1e-6, seed: int = 0, most_reads: int | None = None) -> float:
    """c* by power iteration on M + σI, σ = 1.01 · 4 max eig(K1).

    The residual |M z - c z| / (c |z|) must reach `tol`, and c is read off z's lower half v as c(v),
    whose error is of second order.

    Raises SolverError: If the reads run out, as they do on Euclidean data (c* = 0: no gap).
    """
    operator = CailliezOperator(kernels)
    n = kernels.shape[0]
    top = block_rayleigh_ritz(
        kernels.products, n, 1, lambda _: Combination((1.0, 0.0)), low=False, tol=1e-2, block=4, seed=seed
    )
    sigma = 1.01 * 4 * max(float(top.values[0]), 0.0)
    limit = most_reads or MOST_READS["power"]
    rng = np.random.default_rng(seed)
    v = centred(rng.standard_normal((n, 1)))
    z = np.vstack([np.zeros_like(v), v])
    z /= np.linalg.norm(z)
    residual = np.inf
    for _ in range(limit):
        image = operator.matmat(z)
        c = float(blas.product(z.T, image)[0, 0])
        residual = float(np.linalg.norm(image - c * z)) / max(abs(c), np.finfo(float).tiny)
        if c > 0 and residual <= tol:
            return _constant_of(z[n:], kernels)
        z = image + sigma * z
        z /= np.linalg.norm(z)
    raise SolverError(
        f"shifted power iteration did not find the constant in {limit} reads of D (residual {residual:.1e}, "
        f"tol={tol:g}); use constant_solver='ritz'"
    )


def arnoldi_constant(kernels: Kernels, *, tol: float = 1e-6, seed: int = 0, most_reads: int | None = None) -> float:
    """c* by ARPACK's Arnoldi iteration on M, asking for the largest real part.

    Raises SolverError: If it does not converge, as on Euclidean data, or n is too small for it.
    """
    operator = CailliezOperator(kernels)
    n = kernels.shape[0]
    if 2 * n < 8:
        raise SolverError(f"Arnoldi needs 4 or more points and got {n}; use constant_solver='ritz'")
    rng = np.random.default_rng(seed)
    start = np.vstack([np.zeros((n, 1)), centred(rng.standard_normal((n, 1)))]).ravel()
    limit = most_reads or MOST_READS["arnoldi"]
    try:
        _, vectors = eigs(
            operator, k=1, which="LR", v0=start, ncv=min(2 * n - 1, 40), maxiter=max(1, limit // 38), tol=tol
        )
    except (ArpackNoConvergence, ArithmeticError, RuntimeError) as error:
        raise SolverError(
            f"Arnoldi iteration did not find the constant in {kernels.n_reads} reads of D ({error}); "
            "use constant_solver='ritz'"
        ) from error
    vector: Any = vectors[:, 0]
    vector = (vector * np.exp(-1j * np.angle(vector[np.abs(vector).argmax()]))).real
    return _constant_of(vector[n:, None], kernels)


def _constant_of(v: Vectors, kernels: Kernels) -> float:
    """c(v) of one vector, or 0 where v puts no bound: one read of D."""
    unit = centred(v)
    unit = unit / np.linalg.norm(unit)
    k1v, k2v = kernels.products(unit)
    a, b = (float(blas.product(unit[:, 0], image[:, 0])) for image in (k1v, k2v))
    inside = 4 * a * a - 2 * b
    return max(0.0, -2 * a + float(np.sqrt(inside))) if inside >= 0 else 0.0
