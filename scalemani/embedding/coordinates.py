"""Coordinates, from a correction's constant and its kernel's pairs.

Coordinates are Y = V |Λ|^{1/2} (n, p), Λ the eigenvalues of the corrected kernel; they are positive but for
"flip", whose pairs are K2's, signed and ordered by modulus. A correction with a constant adds a nugget g J to the
kernel (c²/2, Lingoes' s): an inner product that a point has only with itself. Of an eigenvalue λ only λ - g is
geometry, and of that only what is above the rounding of D, τ λ1 (:mod:`scalemani.kernel.far_rows`): axes with
λ <= g + τ λ1 are nugget only (g > 0) or past the rank, and are exactly 0 here and in the projection, with one warning.
For "flip" it is |λ| that must be above. Each eigenvector's sign is fixed so that its entry of largest modulus is
positive.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64
from scalemani.errors import RankWarning, warn
from scalemani.kernel.constant import Solution
from scalemani.kernel.eigensolver import fixed_signs
from scalemani.kernel.far_rows import RANK_TOLERANCE
from scalemani.kernel.operators import DistanceSums


@dataclass(frozen=True)
class Embedding:
    """The fitted axes, in the unit of the tiles (user's unit = tile unit x scale).

    vectors (n, p): V, orthonormal columns in vertex order, signs fixed.
    eigenvalues (p,): λ of the corrected kernel, descending; where `flipped`, of K2, signed, descending by modulus.
    constant: c, what is added to distances: d + c.
    nugget: g, what is added to every eigenvalue: c²/2, Lingoes' s, or 0.
    flipped: Whether the kernel has the moduli of its eigenvalues.
    means (n,): Mean of the corrected squared distances d² + 2c d + 2g (0 for j itself) over the training points i, for
        each j.
    counts (m,): Of landmarks: how many points each stands for (:mod:`scalemani.kernel.operators`). n is their number
        then in `vectors`, which are sums over these points, and in `means`, which are over all points and without 2g.
    tolerance: τ.
    """

    vectors: F64
    eigenvalues: F64
    constant: float
    nugget: float
    flipped: bool
    means: F64
    scale: float
    counts: F64 | None = None
    tolerance: float = RANK_TOLERANCE

    @property
    def on_points(self) -> F64:
        """V's entries on single points, (n, p)."""
        return self.vectors if self.counts is None else self.vectors / self.counts[:, None]

    @property
    def sizes(self) -> F64:
        """Eigenvalues of the positive kernel: |λ| where flipped, else λ; descending."""
        return np.abs(self.eigenvalues) if self.flipped else self.eigenvalues

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which axes carry geometry."""
        first = max(float(self.sizes[0]), 0.0)
        return self.sizes - self.nugget > self.tolerance * first

    def coordinates(self) -> F64:
        """Y (n, p) in the user's unit, in vertex order; 0 on axes that are not active."""
        roots = np.sqrt(np.where(self.active, self.sizes, 0.0))
        return self.on_points * (roots * self.scale)

    def emptiness(self) -> str | None:
        """What there is to say of axes that are 0; None if there are none."""
        asked = len(self.eigenvalues)
        empty = asked - int(self.active.sum())
        if not empty:
            return None
        nugget = "c²/2" if self.constant else "s"
        past = f"are past the rank of the kernel (λ <= {self.tolerance:.0e} λ1: rounding of float32 distances)"
        why = f"are nugget only (λ <= {nugget})" if self.nugget else past
        return f"{empty} of {asked} axes {why} and are 0: ask for n_components={max(asked - empty, 1)} or fewer"


def make_embedding(solution: Solution, sums: DistanceSums, scale: float) -> Embedding:
    """Coordinates from a solution; warns once of axes without geometry."""
    embedding = Embedding(
        vectors=fixed_signs(solution.pairs.vectors),
        eigenvalues=solution.pairs.values,
        constant=solution.constant,
        nugget=solution.nugget,
        flipped=solution.correction == "flip",
        means=sums.mean_squares(solution.constant, solution.nugget),
        scale=scale,
        counts=sums.counts,
        tolerance=solution.tolerance,
    )
    said = embedding.emptiness()
    if said is not None:
        warn(said, RankWarning)
    return embedding


def outputs_bytes(n: int, components: int) -> int:
    """Vectors, coordinates and their copies in the user's order, and the training means."""
    return 6 * 8 * n * components + 4 * 8 * n
