"""New points by their nearest training points alone: no path is followed, and no D is needed."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.embedding.laplacian import place_unnormalized, place_walk
from scalemani.embedding.reconstruction import placed
from scalemani.kernel import blas
from scalemani.neighbors.choice import QuerySearch, SearchStrategy
from scalemani.neighbors.exact import ExactSearch
from scalemani.points.given_matrix import kernel_distances, kernel_rows
from scalemani.points.reading import as_source, check_shape, row_blocks
from scalemani.projection.attachments import Attachments
from scalemani.projection.kernel_values import in_order
from scalemani.projection.projector import Projector, Trained
from scalemani.storage.run import RunStore

MOST_WEIGHT = 10.0  # by which a row is rebuilt: with more it is extrapolated


def by_count(found: Attachments) -> Iterator[tuple[I64, I64]]:
    """Rows that touch equally many training points, and where these stand (m, k) in `found.vertices`."""
    counts = np.where(found.own < 0, np.diff(found.indptr), 0)
    for count in np.unique(counts[counts > 0]).tolist():
        here = np.flatnonzero(counts == count)
        yield here, found.indptr[here][:, None] + np.arange(count)


class Rebuilt(Projector):
    """By the weights that rebuild a row from its nearest training rows; a training row lies where it lay.

    find: (rows, targets, numbers of each target's neighbours) -> weights.
    coordinates (n, p), order (n,): Of the vertices, and their distinct rows.
    search: Among the training rows, where it is not by the metric.
    """

    lost = "no neighbours among the training points"

    def __init__(
        self,
        store: RunStore,
        trained: Trained,
        find: Callable[[Any, Any, I64], F64],
        coordinates: F64,
        order: I64,
        search: ExactSearch | None = None,
    ) -> None:
        super().__init__(store, trained, NystromPlacer(coordinates))  # for its width: `placed` does without
        if search is not None:
            self.search = QuerySearch(search, trained.n_neighbors, None, approximate=False)
        self.direct, self._find, self._known, self._order = True, find, coordinates, order

    def placed(self, block: Any, way: str = SearchStrategy.EXACT) -> tuple[F64, I64]:
        """Coordinates (l, p) of a validated block of rows, and the numbers of those beyond reach."""
        found = self.attach(block, way)
        far = [self.beyond(found)]
        out = np.full((len(found.own), self.width), np.nan)
        own = found.own >= 0
        out[own] = self._known[found.own[own]]
        for here, places in by_count(found):
            vertices = found.vertices[places]
            weights = self._find(self._rows, block[here], self._order[vertices])
            out[here] = placed(vertices, weights, self._known)
            far.append(here[np.abs(weights).max(axis=1) > MOST_WEIGHT])
        return out, np.unique(np.concatenate(far))


class RebuiltByKernel(Rebuilt):
    """The same of rows of kernel values to the training rows (l, n), or with K(t, t) in one more column.

    kernel (n, n): Among the training rows.
    """

    spare = 1

    def __init__(self, store: RunStore, trained: Trained, find: Any, coordinates: F64, order: I64, kernel: F64) -> None:
        super().__init__(store, trained, find, coordinates, order)
        self._rows, self._diagonal = kernel, kernel.diagonal().copy()

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Validated row blocks of a test set (l, n + 1); `first` is the number of T's first row in messages."""
        source = as_source(T, name, first)
        check_shape(tuple(source.shape), name, self.n_features, self.spare)
        for start, block in row_blocks(source, name=name, n_features=source.shape[1], first=first):
            yield start, kernel_rows(block, self._rows, name, first + start)

    def attach(self, block: Any, way: str = SearchStrategy.EXACT) -> Attachments:
        """The training points that each row touches, by the distances that its kernel values say."""
        return super().attach(kernel_distances(block[:, :-1], block[:, -1], self._diagonal), way)


class NystromPlacer:
    """By the weights of the edges to its nearest training points, as the eigenvectors' own equation has it.

    coordinates (n, p): Of the vertices.
    weigh: (vertices (m, k), lengths (m, k)) -> weights (m, k) of those edges.
    eigenvalues (p,), walk: λ of L; or with `walk` μ of the normalised form.
    """

    def __init__(self, coordinates: F64, weigh: Any = None, eigenvalues: Any = None, walk: bool = False) -> None:
        self.width, self.scale = coordinates.shape[1], 1.0
        self._known, self._weigh, self._eigenvalues, self._walk = coordinates, weigh, eigenvalues, walk

    def order(self, found: Attachments) -> I64:
        """As they come."""
        return np.arange(len(found.own))

    def place(self, found: Attachments) -> F64:
        """Coordinates (l, p) of attached rows; those of a training row where one is equal to it."""
        out = np.full((len(found.own), self.width), np.nan)
        own = found.own >= 0
        out[own] = self._known[found.own[own]]
        place = place_walk if self._walk else place_unnormalized
        for here, places in by_count(found):
            vertices = found.vertices[places]
            out[here] = place(self._weigh(vertices, found.lengths[places]), vertices, self._known, self._eigenvalues)
        return out

    def place_known(self, distances: F64) -> F64:
        """No rows of D are asked for."""
        raise NotImplementedError


class MeanPlacer(NystromPlacer):
    """Kernel values of rows as weighted means of the training points that they touch, in the feature space.

    φ(t) = Σ a_j φ(j) / Σ a: harmonic at t, as a function on the graph is at a vertex where nothing enters. It is what
    `NystromPlacer` gives less the eigenvalue in its divisor, and defined on all axes.

    vertex (N,): Of each of the user's rows, -1 where it is none.
    values: columns (n, l) -> the kernel's products with them, as rows (l, n).
    weigh: (vertices (m, k), lengths) -> weights.
    """

    def __init__(self, vertex: I64, values: Callable[[F64], F64], weigh: Callable[[I64, F64], F64]) -> None:
        self.width, self.scale = len(vertex), 1.0
        self._vertex, self._values, self._weigh, self._n = vertex, values, weigh, int(vertex.max()) + 1

    def place(self, found: Attachments) -> F64:
        """Values (l, N); those of a training row where one is equal to it, NaN where a row has no weights."""
        count, own = len(found.own), np.flatnonzero(found.own >= 0)
        columns, out = np.zeros((self._n, count)), np.full((count, self.width), np.nan)
        columns[found.own[own], own] = 1.0
        for here, places in by_count(found):
            weights = self._weigh(found.vertices[places], found.lengths[places])
            sums = weights.sum(axis=1, keepdims=True)
            columns[found.vertices[places], here[:, None]] = weights / np.where(sums > 0, sums, 1.0)
        there = columns.any(axis=0)
        if there.any():
            out[there] = in_order(self._values(columns[:, there]), self._vertex)
        return out


class BySpan:
    """By a row's weights of the landmarks nearest to it; in the place of a :class:`Projector`.

    weigh: rows -> Z (l, m), and how far each row is from its nearest landmark.
    map (m, p)
    reach: From the nearest landmark, beyond which a row's coordinates say little.
    """

    direct, n, seeds_a_row, spare = True, 1, 1, 0
    gives = "coordinates"
    lost = "no landmarks near them"

    def __init__(
        self, n_features: int, rows: Any, weigh: Callable[[Any], Any], map: F64, check: Any, reach: float
    ) -> None:
        self.n_features, self.width, self.reach = n_features, map.shape[1], reach
        self.far = f"more than {reach:.3g} away from all landmarks, twice as far as any training row"
        self._rows, self._weigh, self._map, self._check = rows, weigh, map, check

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Validated row blocks of a test set; `first` is the number of T's first row in messages."""
        like, check = self._rows, self._check
        yield from row_blocks(T, name=name, n_features=self.n_features, like=like, first=first, check=check)

    def is_long(self, total: int) -> bool:
        """No: the landmarks are few."""
        return False

    def way(self, total: int) -> str:
        """Exact."""
        return SearchStrategy.EXACT

    def placed(self, block: Any, way: str = SearchStrategy.EXACT) -> tuple[F64, I64]:
        """Coordinates (l, p) of a validated block of rows, and the numbers of those beyond reach."""
        weights, nearest = self._weigh(block)
        return np.asarray(blas.product(weights, self._map)), np.flatnonzero(nearest > self.reach)
