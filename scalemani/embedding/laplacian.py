"""Laplacian eigenmaps as kernel PCA, commute times, the normalised form and diffusion maps. Pure functions.

Of symmetric weights A (n, n) between neighbours, deg = A 1 and L = diag(deg) - A, the pseudo-inverse L+ is a kernel:
its squared distances are the effective resistances R_ij = L+_ii + L+_jj - 2 L+_ij, and with L v = λ v its kernel PCA is
Y = V Λ^-1/2. A random walk on the graph goes from i to j and back in vol R_ij steps, vol = Σ deg; the chain in
continuous time with rates -L takes n R_ij, which is the commute time of Ham et al. All are SQUARED distances.

Sources: Belkin and Niyogi (2003); Ham, Lee, Mika and Schölkopf, "A kernel view of the dimensionality reduction of
manifolds" (ICML 2004), equation 23; Coifman and Lafon, "Diffusion maps" (2006); Bengio et al. (2004) for new points.
"""

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from scalemani.aliases import F64, I64
from scalemani.embedding.isometric import panels
from scalemani.errors import ScalemaniError, unknown
from scalemani.kernel import blas
from scalemani.kernel.eigensolver import fixed_signs
from scalemani.kernel.graph_pairs import GroundedFactor, Pairs, bottom_pairs

WEIGHTS = ("binary", "gaussian")
SCALES = ("resistance", "ham", "walk")
LEAST_MASS = 1e-290  # of a point: digits are lost below
LEAST_LENGTH = 1e-150  # of an axis: the squares that distances are made of are 0 below
ROUNDING = 1e-13  # of the walk's largest eigenvalue, which is 1


def degrees(affinity: sp.csr_array) -> F64:
    """A 1, (n,)."""
    return np.asarray(affinity.sum(axis=1), np.float64)


def weights_of_lengths(lengths: F64, sigma: float | None) -> F64:
    """What edges of these lengths weigh: 1 without a σ, "binary", else exp(-d² / 2σ²), "gaussian"."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ones(lengths.shape) if sigma is None else np.exp(-0.5 * (lengths / sigma) ** 2)


def affinities(
    graph: sp.csr_array, weights: str = "binary", sigma: float | None = None
) -> tuple[sp.csr_array, float | None]:
    """The weights A of a graph's edges, and the σ that they were made with.

    graph (n, n): Symmetric lengths; every stored entry is an edge, one of length 0 too.
    weights: "binary", 1 for each edge, or "gaussian", exp(-d² / 2σ²).
    sigma: σ, the median length of an edge unless given.
    Raises ScalemaniError: σ is no length, or a weight is 0 in floating point, which would take the edge out.
    """
    if weights not in WEIGHTS:
        raise unknown("weights=", weights, WEIGHTS)
    if weights == "binary":
        sigma = None
    else:
        sigma = float(np.median(graph.data)) if sigma is None else float(sigma)
        if not 0 < sigma < np.inf:
            raise ScalemaniError(f"weights='gaussian' with sigma={sigma:g}: give a length above 0")
    values = weights_of_lengths(graph.data, sigma)
    if not values.all():
        raise ScalemaniError(
            f"weights='gaussian' with sigma={sigma:.3g}: an edge of length {graph.data.max():.3g} has weight 0 and "
            "joins nothing; use weights='binary' or a larger sigma"
        )
    return sp.csr_array((values, graph.indices, graph.indptr), shape=graph.shape), sigma


def laplacian_pairs(
    affinity: sp.csr_array,
    n_components: int,
    normalized: bool = False,
    solver: str = "auto",
    seed: int = 0,
    tol: float = 1e-10,
    factor: GroundedFactor | None = None,
) -> Pairs:
    """The bottom pairs but the constant one of L, or of I - D^-1/2 A D^-1/2: unit vectors, signs fixed.

    The arguments are those of :func:`scalemani.kernel.graph_pairs.bottom_pairs`.

    >>> path = sp.csr_array(np.diag(np.ones(2), 1) + np.diag(np.ones(2), -1))
    >>> laplacian_pairs(path, 1).values.round(12), laplacian_pairs(path, 1).next_value
    (array([1.]), 3.0...)
    """
    masses = degrees(affinity) if normalized else np.ones(affinity.shape[0])
    values, vectors, behind = bottom_pairs(affinity, masses, n_components, solver, seed, tol, factor)
    return Pairs(values, fixed_signs(vectors), behind)


def scale_of(scale: str, degree: F64) -> float:
    """What resistances are multiplied by."""
    if scale not in SCALES:
        raise unknown("scale=", scale, SCALES)
    return {"resistance": 1.0, "ham": float(len(degree)), "walk": float(degree.sum())}[scale]


def kernel_pca(pairs: Pairs, degree: F64, scale: str = "resistance") -> F64:
    """Y (n, p) = V Λ^-1/2 of pairs of L; over all axes its squared distances are R, n R ("ham") or vol R ("walk")."""
    return np.asarray(pairs.vectors * np.sqrt(scale_of(scale, degree) / pairs.values))


def random_walk(pairs: Pairs, degree: F64) -> F64:
    """F (n, p) = D^-1/2 U of normalised pairs, signs fixed: right eigenvectors of D^-1 A."""
    return fixed_signs(pairs.vectors / np.sqrt(degree)[:, None])


def diffusion(
    affinity: sp.csr_array,
    n_components: int,
    alpha: float = 1.0,
    time: float = 1.0,
    solver: str = "auto",
    seed: int = 0,
    tol: float = 1e-10,
) -> Pairs:
    """The diffusion map: eigenvalues λ of the walk, falling, and coordinates ψ λ^t (ψ of the first, 1, is 1).

    affinity (n, n): A with its diagonal (1, for Gaussian weights).
    alpha: How much of the density is divided out: A_ij / (q_i q_j)^α, q = A 1; 1 leaves the geometry alone.
    time: t; 0 leaves ψ as it is.

    The walk's pairs are 1 - μ of the Laplacian's with the row sums as masses: the same solvers serve.

    Raises ScalemaniError: λ^t is no length of an axis: it is 0 in floating point, or λ is rounding, or negative where t
        is not whole. Or α is too large.
    """
    sums = degrees(affinity) ** -alpha
    rows = np.repeat(sums, np.diff(affinity.indptr))
    values = affinity.data * rows * sums[affinity.indices]
    even = sp.csr_array((values, affinity.indices, affinity.indptr), shape=affinity.shape)
    masses = degrees(even)
    if not LEAST_MASS < masses.min() <= masses.max() < 1 / LEAST_MASS:
        raise ScalemaniError(f"alpha={alpha:.15g}: densities to this power are out of range; give a smaller alpha")
    pairs = bottom_pairs(even, masses, n_components, solver, seed, tol)
    values = 1 - pairs.values
    _check_lengths(values, time)
    psi = fixed_signs(pairs.vectors * np.sqrt(masses.sum() / masses)[:, None])
    return Pairs(values, psi * values**time, 1 - pairs.next_value)


def _check_lengths(values: F64, time: float) -> None:
    """Refuse λ^t that are no lengths of axes."""
    sizes = np.abs(values)
    with np.errstate(under="ignore"):
        short = sizes**time < LEAST_LENGTH
    lost, rooted = (sizes < ROUNDING) & (time > 0), (values < 0) & (time % 1 != 0)
    if not (short | lost | rooted).any():
        return
    axis = int((lost | rooted).argmax() if (lost | rooted).any() else sizes.argmin())
    fewer = f"ask for {axis} axes or fewer" if axis else "give other neighbours or weights"
    if lost[axis]:
        why, remedy = "is rounding of 0", fewer
    elif rooted[axis]:
        why, remedy = "is negative and has no such power", f"give a whole time, or {fewer}"
    else:
        most = int(np.log(LEAST_LENGTH) / np.log(sizes[axis]))
        why, remedy = "to this power is as good as 0", f"give a time of {most} or less"
    raise ScalemaniError(f"time={time:.15g}: eigenvalue {values[axis]:.3g} of axis {axis + 1} {why}; {remedy}")


class Resistances:
    """Effective resistances of any pairs of vertices of a connected graph, exact, by solves with one factor of L.

    The factor is made when it is first asked for.
    """

    def __init__(self, affinity: sp.csr_array) -> None:
        self.affinity = affinity
        self.degree = degrees(affinity)

    @cached_property
    def factor(self) -> GroundedFactor:
        """Of L without one vertex."""
        return GroundedFactor(self.affinity)

    def pseudo_inverse(self, columns: F64) -> F64:
        """L+ times columns (n, m)."""
        found = self.factor.solve(columns - columns.mean(axis=0))
        return np.asarray(found - found.mean(axis=0))

    def _unit(self, vertices: I64) -> F64:
        """Columns of L+, (n, m)."""
        columns = np.zeros((len(self.degree), len(vertices)))
        columns[vertices, np.arange(len(vertices))] = 1.0
        return self.pseudo_inverse(columns)

    def commute_times(self, rows: ArrayLike, columns: ArrayLike, scale: str = "resistance") -> F64:
        """R between vertices, n R ("ham") or vol R ("walk"); rows and columns are broadcast against each other.

        It takes a solve for each distinct vertex.
        """
        multiple = scale_of(scale, self.degree)
        first, second = np.broadcast_arrays(rows, columns)
        vertices, places = np.unique(np.concatenate([first.ravel(), second.ravel()]), return_inverse=True)
        i, j = places[: first.size], places[first.size :]
        order = np.argsort(i)
        ends = np.searchsorted(i[order], np.arange(len(vertices) + 1))
        own, between = np.empty(len(vertices)), np.empty(first.size)
        for here in panels(len(vertices), len(self.degree)):
            found = self._unit(vertices[here])[vertices]
            own[here] = found[np.arange(here.start, here.stop), np.arange(found.shape[1])]
            pairs = order[ends[here.start] : ends[here.stop]]
            between[pairs] = found[j[pairs], i[pairs] - here.start]
        return np.asarray(multiple * (own[i] + own[j] - 2 * between).reshape(first.shape))

    def trace(self, n_probes: int = 32, seed: int = 0, pairs: Pairs | None = None) -> tuple[float, float]:
        """The trace of L+ and its standard error, by random signs (Hutchinson 1990); exact where n_probes >= n.

        pairs: Of L, that are known: their part, most of the trace's spread, is taken as it is.
        """
        n = len(self.degree)
        if n_probes >= n:
            return float(sum(self._unit(np.arange(n)[here])[here].trace() for here in panels(n, n))), 0.0
        known, vectors = (np.empty(0), np.empty((n, 0))) if pairs is None else (1 / pairs.values, pairs.vectors)
        rng, forms = np.random.default_rng(seed), np.empty(n_probes)
        for here in panels(n_probes, n):
            signs = rng.choice([-1.0, 1.0], (here.stop - here.start, n)).T
            part = blas.product(known, blas.product(vectors.T, signs) ** 2)
            forms[here] = (signs * self.pseudo_inverse(signs)).sum(axis=0) - part
        return float(known.sum() + forms.mean()), float(forms.std(ddof=1) / np.sqrt(n_probes))

    def forgotten(self, n_vertices: int = 30, seed: int = 0) -> float:
        """The correlation of R_ij with 1 / deg_i + 1 / deg_j among random vertices; NaN where all degrees are equal.

        Near 1 (in high dimension, on many points) R says what degrees vertices have and forgets where they lie.
        """
        n, rng = len(self.degree), np.random.default_rng(seed)
        chosen = rng.choice(n, min(n, n_vertices), replace=False)
        i, j = (chosen[side] for side in np.triu_indices(len(chosen), 1))
        local = 1 / self.degree[i] + 1 / self.degree[j]
        if np.ptp(local) <= 1e-12 * local.max():
            return float("nan")
        return float(np.corrcoef(self.commute_times(i, j), local)[0, 1])


# ---- new points --------------------------------------------------------------------------------


def _nystrom(weights: F64, neighbors: I64, vectors: F64, less: F64, times: F64) -> F64:
    """Σ a_j v_j / (times Σ a - less), (m, p), a column after another: bits of a row don't depend on its batch."""
    total, found = np.zeros((len(weights), 1)), np.zeros((len(weights), vectors.shape[1]))
    for near, weight in zip(neighbors.T, weights.T, strict=True):
        total += weight[:, None]
        found += weight[:, None] * vectors[near]
    divisor = total * times - less
    defined = np.all(divisor > 0, axis=1, keepdims=True)
    return np.where(defined, found / np.where(defined, divisor, 1.0), np.nan)


def place_unnormalized(weights: F64, neighbors: I64, vectors: F64, values: F64) -> F64:
    """Entries of L's vectors at new points, (m, p): Σ a_j v_j / (Σ a - λ).

    weights (m, k), neighbours (m, k): Of each new point to its nearest training points, and which these are.
    vectors (n, p), values (p,): V and λ; coordinates Y instead of V give coordinates.

    A row where Σ a <= λ has no such entries, and is NaN.
    """
    return _nystrom(weights, neighbors, vectors, values, np.ones_like(values))


def place_walk(weights: F64, neighbors: I64, vectors: F64, values: F64) -> F64:
    """The same of F, (m, p): Σ a_j F_j / (Σ a (1 - μ)); NaN where no weight is above 0, or μ >= 1."""
    return _nystrom(weights, neighbors, vectors, np.zeros_like(values), 1 - values)
