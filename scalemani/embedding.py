"""Stage 7: takes the constant and its kernel's pairs, gives coordinates, the spectrum's account and the model.

Coordinates are Y = V Λ^{1/2} (n, p). In K(c), (c²/2) J is a nugget: an inner product that a point
has only with itself. Axes with λ <= (1 + τ) c²/2 are nugget only, axes with λ <= τ λ1 are past the
rank: they carry no geometry and are exactly 0 here and in the projection, with one warning. Signs:
the entry of largest modulus is positive, and the vectors are saved so.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.additive_constant import RANK_TOLERANCE
from scalemani.corrections import Solution
from scalemani.engine.store import RunStore
from scalemani.errors import AdditiveConstantWarning, RankWarning
from scalemani.kernel_shares import DistanceSums

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Embedding:
    """The fitted axes, in the unit of the tiles (user's unit = tile unit x scale).

    Attributes
    ----------
    vectors : ndarray, shape (n, p)
        V, orthonormal columns in vertex order, signs fixed.
    eigenvalues : ndarray, shape (p,)
        λ of K(c), descending.
    constant : float
        c.
    means : ndarray, shape (n,)
        Mean of (d_ij + c (1 - δ_ij))² over the training points i, for each j.
    scale : float
    """

    vectors: Vectors
    eigenvalues: Vectors
    constant: float
    means: Vectors
    scale: float

    @property
    def nugget(self) -> float:
        """c²/2."""
        return self.constant**2 / 2

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which axes carry geometry."""
        first = float(self.eigenvalues[0])
        return self.eigenvalues > max((1 + RANK_TOLERANCE) * self.nugget, RANK_TOLERANCE * first, 0.0)

    def coordinates(self) -> Vectors:
        """Y (n, p) in the user's unit, in vertex order; 0 on axes that are not active."""
        roots = np.sqrt(np.where(self.active, self.eigenvalues, 0.0))
        return self.vectors * (roots * self.scale)


def fixed_signs(vectors: Vectors) -> Vectors:
    """Columns with their entry of largest modulus positive; of equal ones (to 1e-6) the first decides.

    >>> fixed_signs(np.array([[0.6, 0.0], [-0.8, -1.0]])).tolist()
    [[-0.6, -0.0], [0.8, 1.0]]
    """
    size = np.abs(vectors)
    deciding = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    signs = np.where(vectors[deciding, np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return vectors * signs


def make_embedding(solution: Solution, sums: DistanceSums, scale: float) -> Embedding:
    """Coordinates from a solution; warns once of axes without geometry.

    Warns
    -----
    RankWarning
    """
    pairs = solution.pairs
    embedding = Embedding(
        vectors=fixed_signs(pairs.vectors),
        eigenvalues=pairs.values,
        constant=solution.constant,
        means=sums.mean_squares(solution.constant),
        scale=scale,
    )
    empty = int((~embedding.active).sum())
    if empty:
        asked = len(pairs.values)
        why = "are nugget only (λ <= c²/2)" if solution.constant else "are past the rank of the kernel"
        warnings.warn(
            f"{empty} of {asked} axes {why} and are 0: ask for n_components={max(asked - empty, 1)} or fewer",
            RankWarning,
            stacklevel=2,
        )
    return embedding


def spectrum_account(
    solution: Solution, embedding: Embedding, sums: DistanceSums, median: float, n_passes: int
) -> dict[str, Any]:
    """What the spectrum says, in the user's unit, as JSON values; warns when c swamps the distances.

    Parameters
    ----------
    median : float
        Median off-diagonal distance, in the unit of the tiles.

    Warns
    -----
    AdditiveConstantWarning
        When c > median(D).
    """
    area = embedding.scale**2
    c, pairs = solution.constant, solution.pairs
    trace, plain = sums.trace(c), sums.trace(0.0)
    ratio = c / median if median > 0 else 0.0
    if ratio > 1:
        warnings.warn(
            f"the additive constant is {ratio:.1f} times the median geodesic distance: the embedding shows "
            "mostly the shift; look at the shares without it, compare a fit with no correction, and check the graph "
            "for shortcut edges",
            AdditiveConstantWarning,
            stacklevel=2,
        )
    return {
        "additive_constant": c * embedding.scale,
        "median_distance": median * embedding.scale,
        "max_distance": sums.maximum * embedding.scale,
        "constant_over_median": ratio,
        "shift": embedding.nugget * area,
        "trace": trace * area,
        "trace_unshifted": plain * area,
        "eigenvalues": [float(v) for v in pairs.values * area],
        "eigenvalues_unshifted": [float(v) for v in solution.unshifted * area],
        "share": [float(v / trace) if trace > 0 else 0.0 for v in pairs.values],
        "share_unshifted": [float(v / plain) if plain > 0 else 0.0 for v in solution.unshifted],
        "residuals": [float(v) for v in pairs.residuals],
        "lowest_ritz_value": pairs.lowest * area,
        "converged": pairs.converged,
        "n_passes": n_passes,
        "n_vertices": sums.n,
    }


def save_embedding(store: RunStore, embedding: Embedding) -> None:
    """Write the arrays of the model (its numbers go into the stage's state)."""
    store.write_array("vectors", embedding.vectors)
    store.write_array("eigenvalues", embedding.eigenvalues)
    store.write_array("means", embedding.means)


def load_embedding(store: RunStore, constant: float, scale: float) -> Embedding:
    """Read the model's axes back; `constant` and `scale` as the solve and graph stages recorded them."""
    return Embedding(
        vectors=store.read_array("vectors"),
        eigenvalues=store.read_array("eigenvalues"),
        constant=constant,
        means=store.read_array("means"),
        scale=scale,
    )
