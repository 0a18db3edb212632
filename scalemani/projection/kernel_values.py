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

from scalemani.aliases import F32, F64, I64
from scalemani.embedding.coordinates import Embedding
from scalemani.geodesics.batches import PathGraph
from scalemani.geodesics.paths import rows_beyond_nearest
from scalemani.kernel import blas
from scalemani.neighbors.choice import SearchStrategy
from scalemani.projection.attachments import Attachments


def in_order(values: F64, vertex: I64) -> F64:
    """Columns by vertex (l, n) -> by the user's rows (l, N); NaN for rows that are no vertex."""
    out = values[:, vertex]
    out[:, vertex < 0] = np.nan
    return out


class GeodesicKernel:
    """Rows of K, in vertex order and the square of the user's unit, from rows of D.

    turn (n, n): S of "flip".
    """

    def __init__(self, embedding: Embedding, turn: F64 | None = None) -> None:
        self.embedding, self._turn = embedding, turn
        self._means = embedding.means - embedding.means.mean()

    def rows(self, distances: F32 | F64, own: I64, beyond: F64 | float = 0.0) -> F64:
        """Values (l, n) of rows of distances (l, n), in the unit of the tiles; each row by itself, NaN without a path.

        own (l,): The training point with which a row shares the nugget, or -1.
        beyond (l,): What all distances of a row are longer by.
        """
        c, g = self.embedding.constant, self.embedding.nugget
        nearest = np.asarray(distances.min(axis=1), np.float64)
        with np.errstate(invalid="ignore"):
            above = distances - nearest[:, None]  # nothing large is left to cancel, however far a row is
            values = -0.5 * (above * above + 2 * (nearest + beyond + c)[:, None] * above - self._means)
            values -= values.mean(axis=1, keepdims=True)
        known = np.flatnonzero(own >= 0)
        values[known, own[known]] += g
        values[known] -= g / values.shape[1]
        if self._turn is not None:
            for row in values:  # one by one: bits of a row don't depend on its batch
                row[:] = blas.product(row, self._turn)
        values[~np.isfinite(values).all(axis=1)] = np.nan
        return np.asarray(values * self.embedding.scale**2)


def by_eigenvalues(kernel: F64, function: Callable[[F64], F64], tolerance: float) -> F64:
    """V f(Λ) V' of a symmetric matrix V Λ V' (n, n); eigenvalues up to `tolerance` of the largest count as 0.

    >>> by_eigenvalues(np.diag([4.0, -1.0, 1e-9]), np.sign, 1e-6).tolist()
    [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
    """
    values, vectors = np.linalg.eigh((kernel + kernel.T) / 2)
    values[np.abs(values) <= tolerance * np.abs(values).max()] = 0.0
    return np.asarray(blas.product(vectors * function(values), blas.by_rows(vectors.T)))


class GeodesicKernelPlacer:
    """Kernel values of new rows by their geodesics to all training points; in the place of a `GraphPlacer`.

    vertex (N,): Of each of the user's rows, -1 where it is none.
    """

    def __init__(self, graph: PathGraph | None, kernel: GeodesicKernel, form: str, vertex: I64) -> None:
        self.width, self.scale = len(vertex), kernel.embedding.scale
        self._graph, self._kernel, self._shared, self._vertex = graph, kernel, form == "paper", vertex

    def order(self, found: Attachments) -> I64:
        """The order in which attached rows cost least to place."""
        return found.by_place()

    def place(self, found: Attachments) -> F64:
        """Values (l, N) of attached rows."""
        distances, beyond = rows_beyond_nearest(self._graph, found.indptr, found.vertices, found.lengths / self.scale)
        return self._values(distances, found.own, beyond)

    def place_known(self, distances: F64) -> F64:
        """Values (l, N) of rows of distances (l, n) to all vertices, in the graph's unit."""
        return self._values(distances, np.where((distances == 0).any(1), (distances == 0).argmax(1), -1))

    def _values(self, distances: F32 | F64, own: I64, beyond: F64 | float = 0.0) -> F64:
        own = own if self._shared else np.full(len(own), -1)
        return in_order(self._kernel.rows(distances, own, beyond), self._vertex)


class TrainingRows:
    """Kernel values of training rows by their numbers; in the place of a :class:`Projector`.

    vertex (N,): Of each of the user's rows, -1 where it is none.
    values: vertices (l,) -> rows of the kernel (l, n); a task asks for those that lie together.
    """

    direct, n_features, seeds_a_row, spare = False, 1, 1, 0
    lost = "no place in the graph"

    def __init__(self, vertex: I64, values: Callable[[I64], F64]) -> None:
        self.width = self.n = len(vertex)
        self._vertex, self._values = vertex, values

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Row numbers (l, 1), as they are."""
        yield first, T

    def is_long(self, total: int) -> bool:
        """No: nothing is searched for."""
        return False

    def way(self, total: int) -> str:
        """Of searching, if there were any."""
        return SearchStrategy.EXACT

    def attach(self, block: Any, way: str = SearchStrategy.EXACT) -> Attachments:
        """Each row touches itself."""
        own = self._vertex[block.ravel()]
        indptr = np.concatenate([[0], np.cumsum(own >= 0)])
        return Attachments(indptr, own[own >= 0], np.zeros(indptr[-1]), own)

    def beyond(self, found: Attachments) -> I64:
        """None: no training row is far from itself."""
        return np.empty(0, np.int64)

    def order(self, found: Attachments) -> I64:
        """By vertex: rows of one row of tiles together."""
        return np.argsort(found.own, kind="stable")

    def place(self, found: Attachments) -> F64:
        """Values (l, N); NaN of rows that are no vertex."""
        out, here = np.full((len(found.own), self.width), np.nan), found.own >= 0
        out[here] = in_order(self._values(found.own[here]), self._vertex)
        return out
