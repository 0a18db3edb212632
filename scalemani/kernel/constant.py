"""The constant of a correction and the leading eigenpairs of its kernel, from the centred operators K1 and K2.

A geodesic D is seldom Euclidean: K2 = -1/2 J (D∘D) J then has negative eigenvalues, and no coordinates have the inner
products that it asks for. Each correction makes a kernel of it, and each is a combination a1 K1 + a2 K2 + a0 J whose
coefficients may depend on the lowest eigenvalue, so that one block iteration finds constant and pairs together:

| correction | kernel | added to each eigenvalue (the nugget) |
|---|---|---|
| "cailliez", a number c | K2 + 2c K1 + (c²/2) J: distances d + c | c²/2 |
| "lingoes" | K2 + s J, s = max(0, -λmin(K2)): squared distances d² + 2s | s |
| "flip" | K2 with the moduli of its eigenvalues | 0 |
| None | K2, its largest eigenvalues | 0 |

Sources: Cailliez (Psychometrika 48, 1983); Lingoes (Psychometrika 36, 1971); flip: Pękalska, Paclík and Duin (Journal
of Machine Learning Research 2, 2001).

c* is the least c >= 0 for which K(c) = K2 + 2c K1 + (c²/2) J is positive semidefinite; it is the largest real
eigenvalue of the 2n x 2n matrix M = [[0, 2 K2], [-I, -4 K1]] (Cailliez 1983), and the PSD set is
[c*, ∞). For a unit vector v ⟂ 1 with k_i = v'K_i v and 4 k1² >= 2 k2,

    c(v) = -2 k1 + sqrt(4 k1² - 2 k2) <= c*,   with equality at the null vector of K(c*).

So every subspace gives a lower bound, a growing one a rising bound, and the subspace that finds the embedding finds
the constant too (`constant_solver="ritz"`: about a dozen reads of D).

Never run plain power iteration on M: its dominant eigenvalue is real and negative, near
-4 max eig(K1), 6 to 190 times larger than c* in modulus, and that is what it returns (so do "LM" Lanczos
and randomised range finders). `"power"` iterates M + σI, σ just above 4 max eig(K1), which is right and slow: hundreds
to thousands of reads. `"arnoldi"` asks ARPACK for the largest real part: tens to a thousand, and it fails on
Euclidean data, where c* = 0 is a defective eigenvalue (counts: README).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sl
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from scalemani.aliases import F64
from scalemani.errors import ConvergenceWarning, SolverError, warn
from scalemani.kernel import blas
from scalemani.kernel.eigensolver import Combination, RitzPairs, block_rayleigh_ritz, first_block, start_block
from scalemani.kernel.far_rows import RANK_TOLERANCE
from scalemani.kernel.operators import Kernels, centered

DEFINITE = ("cailliez", "lingoes")  # whose kernels have no negative eigenvalue: found at the low end of the spectrum

READS_OF_METHODS = {"power": 20_000, "arnoldi": 3_000}


class CailliezOperator(LinearOperator):  # type: ignore[misc]
    """M = [[0, 2 K2], [-I, -4 K1]] by products: (x, y) -> (2 K2 y, -x - 4 K1 y), one read of D each.

    kernels: Operators of shape (n, n).

    Its largest REAL eigenvalue is c*; its dominant eigenvalue is not (module docstring).
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        n = kernels.shape[0]
        super().__init__(np.dtype(np.float64), (2 * n, 2 * n))

    def _matmat(self, vectors: F64) -> F64:
        n = self.kernels.shape[0]
        x, y = vectors[:n], vectors[n:]
        k1y, k2y = self.kernels.products(y)
        return np.vstack([2 * k2y, -centered(x) - 4 * k1y])


def projected_constant(k1: F64, k2: F64, start: float = 0.0, tolerance: float = RANK_TOLERANCE) -> float:
    """c* of a pair of small symmetric matrices (projections of K1 and K2).

    Newton's iteration on the lowest eigenvalue of K(c): from below, each step takes the lowest eigenvector v of
    K(c) and goes to c(v), which never passes c*. Symmetric eigenproblems only: all eigenvalues are real.

    k1, k2 (m, m)
    start: A lower bound of the answer to start from.
    tolerance: τ (:mod:`scalemani.kernel.far_rows`).
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
    limit = most_reads or READS_OF_METHODS["power"]
    rng = np.random.default_rng(seed)
    v = centered(rng.standard_normal((n, 1)))
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
    start = np.vstack([np.zeros((n, 1)), centered(rng.standard_normal((n, 1)))]).ravel()
    limit = most_reads or READS_OF_METHODS["arnoldi"]
    try:
        _, vectors = eigs(
            operator, k=1, which="LR", v0=start, ncv=min(2 * n - 1, 40), maxiter=max(1, limit // 38), tol=tol, rng=rng
        )
    except (ArpackNoConvergence, ArithmeticError, RuntimeError) as error:
        raise SolverError(
            f"Arnoldi iteration did not find the constant in {kernels.n_reads} reads of D ({error}); "
            "use constant_solver='ritz'"
        ) from error
    vector: Any = vectors[:, 0]
    vector = (vector * np.exp(-1j * np.angle(vector[np.abs(vector).argmax()]))).real
    return _constant_of(vector[n:, None], kernels)


def _constant_of(v: F64, kernels: Kernels) -> float:
    """c(v) of one vector, or 0 where v puts no bound: one read of D."""
    unit = centered(v)
    unit = unit / np.linalg.norm(unit)
    a, b = (float(blas.product(unit[:, 0], image[:, 0])) for image in kernels.products(unit))
    inside = 4 * a * a - 2 * b
    return max(0.0, -2 * a + float(np.sqrt(inside))) if inside >= 0 else 0.0


Combine = Callable[[tuple[F64, ...], float], Combination]  # of the projections and τ
MOST_READS = 200
FLOAT32_GOOD = 100.0  # λ1/c² up to which float32 products leave c right to 1e-6, with a margin of 2 to 4
LARGEST = 1e75  # of a given c: the account of the spectrum takes its fourth power


@dataclass(frozen=True)
class Solution:
    """A correction's constant with its kernel's leading pairs, in the unit of D.

    correction ({"cailliez", "lingoes", "flip", "none", "number"})
    constant: c, what is added to distances; 0 for the others.
    nugget: What the correction adds to every eigenvalue: c²/2, Lingoes' s, or 0.
    pairs: Of the corrected kernel: values descending, for "flip" by modulus and signed; vectors orthonormal and
        orthogonal to 1.
    unshifted (p,): v'K2v for each vector: its eigenvalue share without the shift.
    negative, positive: Sums of the negative and of the positive Ritz values of K2 in the last basis; neither is larger
        in modulus than the sum of K2's own eigenvalues of that sign (Cauchy's interlacing).
    most_negative: The lowest of them: an upper bound of the smallest eigenvalue of K2, and converged for "lingoes".
    n_reads: Reads of D that this took.
    tolerance: τ, by which rounding was told from eigenvalues.
    """

    correction: str
    constant: float
    nugget: float
    pairs: RitzPairs
    unshifted: F64
    negative: float
    positive: float
    most_negative: float
    n_reads: int
    tolerance: float = RANK_TOLERANCE

    @property
    def lingoes(self) -> float:
        """Lingoes' s, what is added to squared distances is twice it; 0 for the others."""
        return self.nugget if self.correction == "lingoes" else 0.0


def solve(
    kernels: Kernels,
    n_components: int,
    *,
    correction: str | float | None = "cailliez",
    constant_solver: str = "ritz",
    tol: float = 1e-6,
    block: int = 16,
    seed: int = 0,
    most_reads: int | None = None,
    most_columns: int | None = None,
    start: Callable[[], F64] | None = None,
    tolerance: Callable[[], float] = lambda: RANK_TOLERANCE,
) -> Solution:
    """The constant that `correction` asks for, and the leading pairs of its kernel.

    n_components: Pairs wanted, 1 to n - 1.
    correction ({"cailliez", "lingoes", "flip", None} or float): Module docstring; a number is c, in the unit of D.
    constant_solver ({"ritz", "power", "arnoldi"}): How c* is found.
    tol: Residual over eigenvalue, and relative error of the constant.
    most_columns: Columns at which the solver's basis restarts.
    start: Gives the first block, where the kernels have no images of one already; a Gaussian one by default.
    tolerance: Gives τ (:mod:`scalemani.kernel.far_rows`), once D has been read.
    Raises SolverError: If "power" or "arnoldi" can't find c* here, or a number is out of range.
    Warns by ConvergenceWarning: If the reads ran out, or gained nothing any more; the residual is named.
    """
    before = kernels.n_reads
    n = kernels.shape[0]
    name = correction if isinstance(correction, str) else "none" if correction is None else "number"
    projected_k2, tau = np.empty((0, 0)), 0.0

    def combine(projected: tuple[F64, ...]) -> Combination:
        nonlocal projected_k2, tau
        projected_k2, tau = projected[1], tau or tolerance()
        return chosen(projected, tau)

    if correction == "lingoes":
        chosen = lingoes(tol)
    elif correction == "flip":
        chosen = plain
    elif correction is None:
        chosen = number(0.0)
    elif not isinstance(correction, str):
        if not abs(float(correction)) <= LARGEST:
            raise SolverError(
                f"correction={correction:g} in the unit of the distances is out of range; give a smaller one"
            )
        chosen = number(float(correction))
    elif constant_solver == "power":
        chosen = number(power_constant(kernels, tol=tol, seed=seed))
    elif constant_solver == "arnoldi":
        chosen = number(arnoldi_constant(kernels, tol=tol, seed=seed))
    else:
        chosen = cailliez(tol)
    left, width = (most_reads or MOST_READS) + kernels.n_reads, first_block(n, n_components, block)
    low = correction == "lingoes" or (correction == "cailliez" and constant_solver == "ritz")
    pairs = block_rayleigh_ritz(
        kernels.products,
        n,
        n_components,
        combine,
        # An argument and no name: held by the iteration alone. The read that it may take is counted below.
        start=kernels.start(width, start or partial(start_block, n, width, seed)),
        low=low,
        order="modulus" if correction == "flip" else "value",
        tol=tol,
        block=block,
        most_reads=left - kernels.n_reads,
        most_columns=most_columns,
        log=kernels.log,
    )
    if not pairs.converged:
        rise = f", and the constant may still rise by {pairs.change:.1e} of itself" if low else ""
        warn(
            f"after {kernels.n_reads - before} reads of D the largest residual is {pairs.residuals.max():.1e} of its "
            f"eigenvalue{rise} (tol={tol:g})",
            ConvergenceWarning,
        )
    if low and name == "cailliez" and kernels.precision == "float32":
        pairs = refined(pairs, kernels)
    unshifted = sl.eigvalsh(projected_k2)
    return Solution(
        correction=name,
        constant=0.0 if name == "lingoes" else pairs.combination.value,
        nugget=pairs.combination.identity,
        pairs=pairs,
        unshifted=pairs.forms[1],
        negative=float(unshifted[unshifted < 0].sum()),
        positive=float(unshifted[unshifted > 0].sum()),
        most_negative=float(unshifted[0]),
        n_reads=kernels.n_reads - before,
        tolerance=tau,
    )


def refined(pairs: RitzPairs, kernels: Kernels) -> RitzPairs:
    """Pairs of K(c) for the c of the lowest Ritz vector by a float64 product; as they are where float32 does.

    Float32 products leave an error of up to 2e-9 λ1/c² in c, by what they do to v'K1v and v'K2v of that vector v. c(v)
    itself is off by the square of v's error: one more read, of one column, brings c to 1e-8 while λ1/c² <= 5e3 and to
    1e-6 while it is below 2e4.
    """
    c = pairs.combination.value
    if not (c > 0 and float(pairs.values[0]) > FLOAT32_GOOD * c * c):
        return pairs
    v = pairs.low_vector[:, None]
    a, b = (float(blas.product(v.T, image)[0, 0]) for image in kernels.products(v, "float64"))
    inside = 4 * a * a - 2 * b
    better = -2 * a + float(np.sqrt(inside)) if inside >= 0 else c
    k1, k2 = pairs.forms
    combination = replace(pairs.combination, coefficients=(2 * better, 1.0), identity=better**2 / 2, value=better)
    values = k2 + 2 * better * k1 + better**2 / 2
    following = pairs.next_value + float(values[-1] - pairs.values[-1])
    return replace(pairs, combination=combination, values=values, lowest=0.0, next_value=following)


# ---- one function a correction: what is made of the projections of K1 and K2 -------------------------


def plain(projected: tuple[F64, ...], tau: float) -> Combination:
    """K2 as it is; eigenvalues within τ of 0 are rounding of D."""
    largest = float(np.abs(sl.eigvalsh(projected[1])).max())
    return Combination((0.0, 1.0), floor=tau * largest)


def number(c: float) -> Combine:
    """K(c) of a given c."""

    def combine(projected: tuple[F64, ...], tau: float) -> Combination:
        if c == 0:
            return plain(projected, tau)
        k1, k2 = projected
        largest = float(sl.eigvalsh(k2 + 2 * c * k1)[-1]) + c * c / 2
        floor = max((1 + tau) * c * c / 2, tau * largest)
        return Combination((2 * c, 1.0), c * c / 2, c, floor=floor)

    return combine


def cailliez(tol: float) -> Combine:
    """K(c) of the least c for which it is positive semidefinite on the subspace, a rising lower bound of c*."""
    last = 0.0

    def combine(projected: tuple[F64, ...], tau: float) -> Combination:
        nonlocal last
        k1, k2 = projected
        c = last = projected_constant(k1, k2, last, tau)
        if c == 0:
            largest = float(np.abs(sl.eigvalsh(k2)).max())
            return Combination((0.0, 1.0), 0.0, 0.0, largest * tau / tol, tau * largest)
        values, vectors = sl.eigh(k2 + 2 * c * k1 + c * c / 2 * np.eye(len(k1)))
        v = vectors[:, 0]
        rise = 2 * float(blas.product(blas.product(v, k1), v)) + c
        slope = max(rise, 0.0)  # dλmin/dc: an error e of λmin is one of e/slope in c
        floor = max((1 + tau) * c * c / 2, tau * float(values[-1]))
        return Combination((2 * c, 1.0), c * c / 2, c, c * slope, floor)

    return combine


def lingoes(tol: float) -> Combine:
    """K2 + s J, s from the lowest Ritz value; 0 where that is within τ of 0, relative to the largest."""

    def combine(projected: tuple[F64, ...], tau: float) -> Combination:
        ends = sl.eigvalsh(projected[1])
        largest = float(np.abs(ends).max())
        if ends[0] >= -tau * largest:
            return Combination((0.0, 1.0), 0.0, 0.0, largest * tau / tol, tau * largest)
        s = -float(ends[0])
        floor = max((1 + tau) * s, tau * (float(ends[-1]) + s))
        return Combination((0.0, 1.0), s, s, s, floor)

    return combine
