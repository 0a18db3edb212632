"""The bottom eigenpairs of a graph's Laplacian, by a sparse factor, or by LOBPCG under algebraic multigrid.

Of symmetric weights A (n, n) and masses m > 0, with L = diag(A 1) - A and M = diag(m), the pairs sought are those of

    N = M^-1/2 L M^-1/2,   N u = μ u,   u'√m = 0.

m = 1 is L itself, m = A 1 the normalised Laplacian; what A has on its diagonal counts in its sums only.

L is singular, its null vector 1. With one vertex taken out it is positive definite, and for b'1 = 0 its solution, 0 at
that vertex, solves L x = b: less its mean it is L+ b. So one factor gives pairs (by Lanczos on N+), resistances and
traces, and no shift stands between them and L.
"""

import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import LinearOperator, eigsh, lobpcg

from scalemani.aliases import F64
from scalemani.errors import ConvergenceWarning, SolverError, needed, unknown, warn
from scalemani.kernel import blas
from scalemani.kernel.bottom import shifted_factor

SOLVERS = ("auto", "direct", "lobpcg")
FEW = 200  # vertices whose pairs are found densely
UNASKED = 10_000  # vertices up to which a factor is cheap whatever the graph
MOST_NONZEROS = 3e7  # of a factor, above which multigrid is faster
FLAT = 1.3  # but where nonzeros grow as n^e with e below this: graphs of surfaces
MOST_COUNTED = 2e9  # SuperLU counts them in 32 bits
GUARDS = 6  # columns of LOBPCG's block beyond those wanted
MOST_ITERATIONS = 500
SHIFT = 1e-8  # of the mean diagonal, for multigrid alone
LOST = 1e-15  # of N's largest diagonal entry: eigenvalues of no more are rounding
_APART = (
    "the Laplacian of the graph is singular beyond its constant vector: the graph falls apart, or weights that hold it "
    "together are lost beside the others; use binary weights"
)


class Pairs(NamedTuple):
    """Eigenpairs, and what comes behind them.

    values (p,): Rising (of a diffusion map: falling).
    vectors (n, p): A pair's vector is a column.
    next_value: The eigenvalue behind the last, for the gap; NaN where there is none.
    """

    values: F64
    vectors: F64
    next_value: float


def laplacian(affinity: sp.csr_array, masses: F64 | None = None) -> sp.csr_array:
    """L (n, n), or N where there are masses (n,)."""
    found = sp.csr_array(sp.diags_array(affinity.sum(axis=1)) - affinity)
    if masses is not None:
        roots = np.sqrt(masses)
        found.data /= np.repeat(roots, np.diff(found.indptr)) * roots[found.indices]
    return found


class GroundedFactor:
    """A factor of L without the vertex of largest degree.

    nonzeros: Of the factor; it takes some 12 bytes for each.
    """

    def __init__(self, affinity: sp.csr_array) -> None:
        matrix = laplacian(affinity)
        self._kept = np.delete(np.arange(matrix.shape[0]), matrix.diagonal().argmax())
        try:
            self._factor = shifted_factor(matrix[self._kept][:, self._kept], 0.0)
        except SolverError as error:  # a pivot of 0
            raise SolverError(_APART) from error
        self.nonzeros = self._factor.nonzeros

    def solve(self, sides: F64) -> F64:
        """A solution of L x = b for columns b (n,) or (n, m) that sum to 0; it is known up to a constant."""
        found = np.zeros(sides.shape)
        found[self._kept] = self._factor.solve(sides[self._kept])
        return found


def foretold_nonzeros(affinity: sp.csr_array, seed: int = 0) -> tuple[float, float]:
    """How many nonzeros the factor will have, and the exponent e of their growth as n^e.

    The nearest n/16 and n/8 vertices of a random one are factored.
    """
    n = affinity.shape[0]
    start = int(np.random.default_rng(seed).integers(n))
    near = breadth_first_order(affinity, start, return_predecessors=False)
    parts = (np.sort(near[: n // share]) for share in (16, 8))
    small, large = (GroundedFactor(affinity[part][:, part]).nonzeros for part in parts)
    exponent = float(np.log2(large / small))
    return large * 8**exponent, exponent


def suits_a_factor(affinity: sp.csr_array, seed: int) -> bool:
    """Whether a factor is cheaper than multigrid."""
    if affinity.shape[0] <= UNASKED:
        return True
    nonzeros, exponent = foretold_nonzeros(affinity, seed)
    return nonzeros < MOST_NONZEROS or (exponent < FLAT and nonzeros < MOST_COUNTED)


def bottom_pairs(
    affinity: sp.csr_array,
    masses: F64,
    n_pairs: int,
    solver: str = "auto",
    seed: int = 0,
    tol: float = 1e-10,
    factor: GroundedFactor | None = None,
) -> Pairs:
    """The pairs of N with the least eigenvalues but that of √m, unit vectors; signs as they come.

    affinity (n, n): Of a connected graph.
    solver: "direct" by a factor, "lobpcg" by multigrid (needs pyamg), "auto" by the size that a factor would have.
    tol: Residual, relative to the mean diagonal of N; for "direct" relative to the eigenvalue.
    factor: That there may be already.
    Raises SolverError: An eigenvalue is 0 but for rounding.
    """
    if solver not in SOLVERS:
        raise unknown("solver=", solver, SOLVERS)
    n = affinity.shape[0]
    if n <= max(FEW, 5 * (n_pairs + GUARDS)):
        values, vectors = np.linalg.eigh(laplacian(affinity, masses).toarray())
        values, vectors = values[1:], vectors[:, 1:]
    elif solver == "direct" or factor is not None or (solver == "auto" and suits_a_factor(affinity, seed)):
        values, vectors = _by_factor(factor or GroundedFactor(affinity), masses, n_pairs, seed, tol)
    else:
        values, vectors = _by_multigrid(laplacian(affinity, masses), masses, n_pairs, seed, tol)
    if values[0] <= LOST * (affinity.sum(axis=1) / masses).max():
        raise SolverError(_APART)
    return Pairs(values[:n_pairs], vectors[:, :n_pairs], float([*values, np.nan][n_pairs]))


def _by_factor(factor: GroundedFactor, masses: F64, n_pairs: int, seed: int, tol: float) -> tuple[F64, F64]:
    """Lanczos on N+ (ARPACK): its largest eigenvalues are 1 / μ."""
    n, roots = len(masses), np.sqrt(masses)
    null = roots / np.linalg.norm(roots)

    def off(vector: F64) -> F64:
        return np.asarray(vector - null * blas.product(null, vector))

    def inverse(vector: F64) -> F64:
        return off(roots * factor.solve(roots * off(vector.ravel())))

    rng = np.random.default_rng(seed)
    start = off(rng.standard_normal(n))
    operator = LinearOperator((n, n), matvec=inverse, dtype=np.float64)
    values, vectors = eigsh(operator, k=n_pairs + 1, which="LM", v0=start, tol=tol, rng=rng)
    if values.min() <= 0:  # N+ is positive but for rounding, which weighs as its largest eigenvalues then
        raise SolverError(_APART)
    order = np.argsort(-values)
    return 1 / values[order], vectors[:, order]


def _by_multigrid(matrix: sp.csr_array, masses: F64, n_pairs: int, seed: int, tol: float) -> tuple[F64, F64]:
    """LOBPCG under smoothed aggregation, whose one candidate is the null vector (Knyazev 2001)."""
    pyamg = needed("pyamg", "amg", "eigenpairs by multigrid (solver='direct' does without)")
    n, null = len(masses), np.sqrt(masses)[:, None]
    null /= np.linalg.norm(null)
    matrix = sp.csr_array((matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), matrix.shape)
    size = float(matrix.diagonal().mean())
    # Unshifted, a coarsest grid of one vertex is rounding, and would be inverted.
    regular = matrix + sp.csr_array(sp.diags_array(np.full(n, SHIFT * size)))
    smoother = ("jacobi", {"weighting": "local"})  # the default asks numpy's shared generator
    grids = pyamg.smoothed_aggregation_solver(regular, B=null, symmetry="symmetric", smooth=smoother)
    start = np.random.default_rng(seed).standard_normal((n, n_pairs + GUARDS))
    allowed = tol * size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the pairs wanted are judged below
        values, vectors = lobpcg(
            matrix, start, M=grids.aspreconditioner(), Y=null, tol=allowed, maxiter=MOST_ITERATIONS, largest=False
        )
    values, vectors = values[: n_pairs + 1], vectors[:, : n_pairs + 1]
    residual = float(np.linalg.norm(blas.product(matrix, vectors) - vectors * values, axis=0)[:n_pairs].max())
    if residual > 10 * allowed:
        warn(f"eigenpairs by multigrid: residual {residual:.1e} where {allowed:.1e} was asked for", ConvergenceWarning)
    return values, vectors
