"""The lowest singular vectors of a sparse A with A 1 = 0, by one sparse factor; and such factors of a Laplacian.

A'A is never made: its lowest eigenvalues σ² are 1e-9 to 1e-19 where locally linear embedding has σ = 1e-5 to 1e-9, and
rounding A'A moves eigenvalues by 1e-16. Instead

    B = [[A, u], [e', 0]]

is factored, u with five unit entries and e with one, which A's two null vectors leave regular. Its inverse gives the
null vector z of A' (z'A = 0) and, with z and 1 taken out, the pseudoinverses of A and A'. A block of vectors goes
through (A'A)⁺ until it stops turning; its Ritz vectors come from the SVD of A V, whose σ are exact to rounding of A.

All that it costs is the factor. The order of elimination is METIS's nested dissection of the graph of A + A' where
pymetis is installed: in three and more dimensions it has half the nonzeros of SuperLU's own order, or fewer.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as sl
from scipy.sparse import block_array, csr_array, eye_array
from scipy.sparse.linalg import splu

from scalemani.aliases import F64, I64
from scalemani.errors import DoesNotFitError, SolverError
from scalemani.kernel import blas
from scalemani.kernel.eigensolver import fixed_signs

GUARDS = 10  # vectors that are followed besides those that are asked for
PIVOT = 0.01  # a diagonal entry that is this share of its column's largest is the pivot: it keeps the order
MOST_LEFT = 1e-6  # |z'A| of unit z: rounding leaves 1e-16 to 1e-12 of it


@dataclass(frozen=True)
class Factor:
    """L and U of a matrix whose rows and columns are taken in the order `order`; None: as they are."""

    lu: Any
    order: I64 | None

    @property
    def nonzeros(self) -> int:
        """Of L and U; each takes about 12 bytes."""
        return int(self.lu.nnz)

    def solve(self, right: F64, trans: str = "N") -> F64:
        """The solution of the matrix, or with trans="T" of its transpose, for a column (n,) or columns (n, b)."""
        if self.order is None:
            return np.asarray(self.lu.solve(right, trans))
        out = np.empty_like(right)
        out[self.order] = self.lu.solve(right[self.order], trans)
        return out


def shifted_factor(L: Any, shift: float) -> Factor:
    """The factor of a symmetric L + shift I that is positive definite; no pivots are sought."""
    return _factored(L + shift * eye_array(L.shape[0]), dissection(L), 0.0)


def dissection(A: Any) -> I64 | None:
    """The order of nested dissection of the graph of A + A' (n,); None without pymetis."""
    try:
        import pymetis
    except ImportError:
        return None
    i, j = A.tocoo().coords
    i, j = i[i != j], j[i != j]
    ends = np.concatenate([i, j]), np.concatenate([j, i])
    graph = csr_array((np.ones(2 * len(i), np.int8), ends), A.shape)
    adjacency = pymetis.CSRAdjacency(graph.indptr.astype(np.int32), graph.indices.astype(np.int32))
    return np.asarray(pymetis.nested_dissection(adjacency)[0], np.int64)


def _factored(matrix: Any, order: I64 | None, pivot: float) -> Factor:
    """LU in an order; in SuperLU's own where there is none."""
    matrix = matrix.tocsr() if order is None else matrix.tocsr()[order][:, order]
    own = "MMD_AT_PLUS_A" if order is None else "NATURAL"
    try:
        lu = splu(matrix.tocsc(), permc_spec=own, diag_pivot_thresh=pivot, options={"SymmetricMode": True})
    except MemoryError:
        raise DoesNotFitError(f"the sparse factor of {matrix.shape[0]:,} points {INSTEAD}") from None
    except RuntimeError as error:
        raise SolverError(f"the sparse factor of {matrix.shape[0]:,} points can't be made: {error}") from error
    return Factor(lu, order)


INSTEAD = "does not fit into memory, or SuperLU's 2e9 nonzeros: embed landmarks instead"


class PseudoInverse:
    """M+ of M = A'A, A sparse (n, n) with A 1 = 0, whose lists have one closed class; by one factor.

    rng: Draws u and e.
    closed: Points of that class, where it is not all: the left null vector is 0 at the others.
    left, wrong: That vector z, and |z'A|. nonzeros: Of the factor.
    Raises SolverError: The factor is singular. DoesNotFitError: It does not fit.
    """

    def __init__(self, A: Any, rng: np.random.Generator, closed: I64 | None = None) -> None:
        n = A.shape[0]
        entering, leaving = np.zeros((n, 1)), np.zeros((1, n))
        closed = np.arange(n) if closed is None else closed
        entering[rng.choice(closed, min(5, len(closed)), replace=False)] = leaving[0, rng.integers(n)] = 1.0
        order = dissection(A)
        self._factor = _factored(
            block_array([[A, csr_array(entering)], [csr_array(leaving), None]]),
            None if order is None else np.append(order, n),
            PIVOT,
        )
        self.nonzeros = self._factor.nonzeros
        self.left = self._factor.solve(np.append(np.zeros(n), 1.0), "T")[:n]
        self.left /= np.linalg.norm(self.left)
        self.wrong = float(np.linalg.norm(blas.product(A.T, self.left)))
        if not self.wrong <= MOST_LEFT:
            raise SolverError(
                f"the sparse factor of {n:,} points is off by {self.wrong:.1e}: is there one closed class?"
            )

    def half(self, block: F64) -> F64:
        """The pseudo-inverse of A' times columns (n, b) that sum to 0."""
        block = self._factor.solve(np.vstack([block, np.zeros((1, block.shape[1]))]), "T")[:-1]
        return np.asarray(block - self.left[:, None] * blas.product(self.left, block))

    def product(self, block: F64) -> F64:
        """M+ times columns (n, b)."""
        block = self.half(block - block.mean(axis=0))
        found = self._factor.solve(np.vstack([block, np.zeros((1, block.shape[1]))]))[:-1]
        return np.asarray(found - found.mean(axis=0))


@dataclass(frozen=True)
class BottomSingularVectors:
    """The lowest singular vectors of A, without the constant one.

    sigma (p + 1,): Singular values, ascending: one more than there are vectors, for the gap.
    vectors (n, p): Of unit size, orthogonal to 1; the entry of largest modulus is positive.
    turn: Sine of the angle by which the vectors' space turned in the last step; at most `tol`, else it did not settle.
    iterations: Steps.
    left_null: |z'A| of the left null vector: what is wrong with the factor.
    nonzeros: Of the factor.
    trace: `trace` of (A'A)⁺ and `trace_error`, its standard error; nothing where no vectors were drawn for it.
    """

    sigma: F64
    vectors: F64
    turn: float
    iterations: int
    left_null: float
    nonzeros: int
    trace: dict[str, float] = field(default_factory=dict)


def bottom_singular_vectors(
    A: Any, p: int, seed: int = 0, tol: float = 1e-9, most: int = 60, closed: I64 | None = None, probes: int = 0
) -> BottomSingularVectors:
    """The p lowest singular vectors of a sparse A (n, n), by :class:`PseudoInverse`, which says what may be asked.

    most: Steps; 3 to 7 are usual.
    probes: Vectors of random signs, by which the trace of (A'A)⁺ is estimated (Hutchinson 1990) behind the p pairs.

    Lists with more closed classes than one may pass: their further null vectors come first, with σ of rounding.
    """
    n, rng = A.shape[0], np.random.default_rng(seed)
    inverse = PseudoInverse(A, rng, closed)
    block, turn = rng.standard_normal((n, min(p + GUARDS, n - 1))), np.inf
    before = np.empty((n, 0))
    for step in range(1, most + 1):  # noqa: B007
        block = sl.qr(inverse.product(block), mode="economic", overwrite_a=True, check_finite=False)[0]
        _, sigma, rotation = sl.svd(blas.product(A, block), full_matrices=False, overwrite_a=True, check_finite=False)
        block = blas.product(block, rotation[::-1].T)
        wanted = block[:, :p]
        turn = float(np.linalg.norm(wanted - blas.product(before, blas.product(before.T, wanted)), 2))
        if turn <= tol:
            break
        before = wanted.copy()
    sigma, trace = sigma[::-1][: p + 1], dict[str, float]()
    if probes:
        signs = rng.choice([-1.0, 1.0], (n, probes))
        signs -= signs.mean(axis=0) + blas.product(wanted, blas.product(wanted.T, signs))
        forms = (inverse.half(signs) ** 2).sum(axis=0)
        trace["trace"] = float((1 / np.maximum(sigma[:p], 1e-150) ** 2).sum() + forms.mean())
        trace["trace_error"] = float(forms.std(ddof=1) / np.sqrt(probes))
    return BottomSingularVectors(sigma, fixed_signs(wanted), turn, step, inverse.wrong, inverse.nonzeros, trace)
