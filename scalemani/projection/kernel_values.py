"""Values of a method's kernel, in the place of coordinates: of rows with each of the user's training rows.

With d̃² = d² + 2c d + 2g between training points (0 on the diagonal; g the correction's nugget), their means m and the
mean of these, equations 8 to 10 of Choi and Choi are

    K_ij = -1/2 (d̃²_ij - m_i - m_j + mean m),      k_tj = -1/2 (d̃²_tj - m_t - m_j + mean m), m_t the mean of d̃²_t.

K is the kernel of which the model's eigenpairs are. k_t is what :mod:`scalemani.projection.projector` places t by, so
that y_t = |Λ|^{1/2} (Λ - g)^{-1} V' k_t. A new row equal to training row i has K_i in the "paper" form, and
K_i - g (e_i - 1/n) in the "continuous" one: the nugget is an inner product that a point has with itself alone, as the
noise of a Gaussian process is. "flip" takes k_t S for k_t, S = V sign(Λ) V' of all axes that are not rounding. That is
the kernel with the moduli of K2's eigenvalues, and new rows have their inner products on all axes.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.threads import single_blas_thread
from scalemani.embedding.coordinates import Embedding
from scalemani.geodesics.paths import PathGraph, rows_beyond_nearest
from scalemani.kernel import blas
from scalemani.neighbors.choice import SearchStrategy
from scalemani.projection.attachments import Attachments
from scalemani.projection.projector import Placer, Projector

KERNEL_VALUES = "kernel values"


def in_order(values: F64, vertex: I64) -> F64:
    """Columns by vertex (l, n) -> by the user's rows (l, N); NaN for rows that are no vertex."""
    out = values[:, vertex]
    out[:, vertex < 0] = np.nan
    return out


class GeodesicKernel:
    """Rows of K from rows of distances; in the place of :class:`scalemani.projection.linear_map.Axes`.

    vertex (N,): Of each of the user's rows, -1 where it is none.
    nugget: Whether a row that equals a training point shares the nugget with it.
    turn (n, n): S of "flip".
    stored: Training points (l,) -> their rows of distances, where these are not found from the graph.
    width, scale: The user's rows, and his unit in that of the distances.
    """

    def __init__(
        self,
        embedding: Embedding,
        vertex: I64,
        *,
        nugget: bool,
        turn: F64 | None = None,
        stored: Callable[[I64], F32] | None = None,
    ) -> None:
        self.width, self.scale = len(vertex), embedding.scale
        self._embedding, self._vertex, self._turn, self._stored = embedding, vertex, turn, stored
        self._nugget = embedding.nugget if nugget else 0.0
        self._means = embedding.means - embedding.means.mean()

    def rows(self, distances: NDArray[Any], own: I64, beyond: F64 | float = 0.0) -> F64:
        """Values (l, n) in vertex order and the square of the user's unit, of rows of distances (l, n) in the unit of
        the tiles; each row by itself, NaN without a path.

        own (l,): The training point that a row equals, or -1.
        beyond (l,): What all distances of a row are longer by.
        """
        nearest = np.asarray(distances.min(axis=1), np.float64)
        with np.errstate(invalid="ignore"):
            above = distances - nearest[:, None]  # nothing large is left to cancel, however far a row is
            values = -0.5 * (above * above + 2 * (nearest + beyond + self._embedding.constant)[:, None] * above)
            values += 0.5 * self._means
            values -= values.mean(axis=1, keepdims=True)
        known = np.flatnonzero(own >= 0)
        values[known, own[known]] += self._nugget
        values[known] -= self._nugget / values.shape[1]
        if self._turn is not None:
            with single_blas_thread():
                for row in values:  # one by one: bits of a row don't depend on its batch
                    row[:] = blas.product(row, self._turn)
        values[~np.isfinite(values).all(axis=1)] = np.nan
        return np.asarray(values * self.scale**2)

    def place_known(self, distances: F64) -> F64:
        """Values (l, N) of rows of distances (l, n); one that is at distance 0 of a training point is that."""
        own = np.where((distances == 0).any(1), (distances == 0).argmax(1), -1)
        return in_order(self.rows(distances, own), self._vertex)

    def place_seeds(self, graph: PathGraph | None, indptr: I64, seeds: I64, lengths: F64, own: I64) -> F64:
        """Values (l, N) of rows that touch vertices of the graph; fastest where they lie together."""
        if self._stored is None:
            distances, beyond = rows_beyond_nearest(graph, indptr, seeds, lengths)
            return in_order(self.rows(distances, own, beyond), self._vertex)
        distances, known = np.full((len(own), len(self._means)), np.inf, np.float32), own >= 0
        distances[known] = self._stored(own[known])
        return in_order(self.rows(distances, own), self._vertex)


def signs(kernel: F64, tolerance: float) -> F64:
    """V sign(Λ) V' of a symmetric matrix V Λ V' (n, n); eigenvalues up to `tolerance` of the largest count as 0.

    >>> signs(np.diag([4.0, -1.0, 1e-9]), 1e-6).tolist()
    [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    with single_blas_thread():  # the same bits in any process
        values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
        values[np.abs(values) <= tolerance * np.abs(values).max()] = 0.0
        return np.asarray(blas.product(vectors * np.sign(values), blas.by_rows(vectors.T)))


class TrainingRows(Projector):
    """Places training rows by their numbers: each touches itself.

    vertex (N,): Of each of the user's rows, -1 where it is none.
    """

    kind, direct, n_features, _edges = "numbers", False, 1, 0
    gives, lost = KERNEL_VALUES, "no place in the graph"

    def __init__(self, vertex: I64, placer: Placer) -> None:
        self.width = self.n = len(vertex)
        self._vertex, self._placer = vertex, placer

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Row numbers (l, 1), as they are."""
        yield first, T

    def attach(self, block: Any, way: str = SearchStrategy.EXACT) -> Attachments:
        """Each row at itself; a row that is no vertex touches nothing."""
        own = self._vertex[block.ravel()]
        indptr = np.concatenate([[0], np.cumsum(own >= 0)])
        return Attachments(indptr, own[own >= 0], np.zeros(indptr[-1]), own)
