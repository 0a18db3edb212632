"""Stage 8: takes blocks of test points, gives their coordinates, from the store and nothing else.

A test point t is one more source: its edges into the graph are to its nearest training points, and its geodesics
d_t (n,) come from the same kernel as the training rows; D is not read. (Of conformal edges they are divided as those of
the fit are, by the mean of t's own distances. By landmarks the training set are these, and
d_t comes from the distances to them: :mod:`scalemani.projection.landmarks`.) Then, with the corrected squared
distances d̃² = d² + 2c d + 2g to EVERY training point (g the correction's nugget) and their TRAINING means m,

    k_t = -1/2 (d̃² - m), less its mean;      y_t = |Λ|^{1/2} (Λ - g)^{-1} V' k_t     ("continuous").

| correction | c | g | Λ, V | y_t |
|---|---|---|---|---|
| "cailliez", a number c | c | c²/2 | of K(c) | Λ^{1/2} (Λ - c²/2)^{-1} V' k_t |
| "lingoes" | 0 | s | of K2 + s J | Λ^{1/2} (Λ - s)^{-1} V' k_t |
| "flip" | 0 | 0 | of K2, signed | sign(Λ) abs(Λ)^{-1/2} V' k_t |
| None | 0 | 0 | of K2 | Λ^{-1/2} V' k_t |

A training row seen as a test row gives k_t = K_i - g (e_i - 1/n) of the kernel K whose pairs these are (K2 for "flip"),
so V' k_t = (Λ - g) V_i and y_t = Y_i exactly, and every other point is on the same scale. The paper's form (Choi &
Choi, equations 8-11 read with c in 8-9 and Λ^{-1/2} in 11) sets d̃ = 0 at t's own vertex, which gives k_t = K_i there,
and takes y = sign(Λ) |Λ|^{-1/2} V' k_t ("paper"): it too returns training rows, but shrinks every other point by
1 - g/λ_a on axis a, c²/(2 λ_a) in the paper's own case. Lingoes' kernel has it in the same way; without a nugget the
two forms are one.

A row EQUAL to a training row (as float64) starts at that vertex alone: attached through neighbours,
a mutual or approximate graph would give it other paths. Each row's result depends on that row alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F64, I64
from scalemani.geodesics.batches import PathGraph
from scalemani.graph.build import conformal_lengths, mean_lengths
from scalemani.graph.edges import pointers, row_numbers, shortest
from scalemani.neighbors.choice import QuerySearch, SearchStrategy
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.functions import function_of
from scalemani.neighbors.metrics import domain_check, is_function_name
from scalemani.points.digests import RowIndex, content_rank, row_digests
from scalemani.points.given_matrix import distance_rows
from scalemani.points.reading import row_blocks
from scalemani.points.rows import load_rows
from scalemani.projection.attachments import Attachments
from scalemani.storage.run import RunStore

MEANS = "neighbor_means"  # the array in a run's store
BATCH_BYTES = 32 << 20  # rows of given distances held at once by one task, float64


class Placer(Protocol):
    """What places attached rows, in the user's unit.

    width: Axes.
    scale: The user's unit in that of the graph.
    """

    width: int
    scale: float

    def order(self, found: Attachments) -> I64:
        """The order in which attached rows cost least to place."""

    def place(self, found: Attachments) -> F64:
        """Coordinates (l, p) of attached rows; fastest where they lie together."""

    def place_known(self, distances: F64) -> F64:
        """Coordinates (l, p) of rows of distances (l, n) to all vertices, in the graph's unit."""


class GraphPlacer:
    """Places rows by their geodesics to all training points, which are found from the graph.

    graph: None where D was given: rows bring their distances then.
    axes: What places rows of distances, such as :class:`scalemani.projection.linear_map.Axes`.
    """

    def __init__(self, graph: PathGraph | None, axes: Any) -> None:
        self.axes, self._graph = axes, graph
        self.width, self.scale = axes.width, axes.scale

    def order(self, found: Attachments) -> I64:
        """The order in which attached rows cost least to place."""
        return found.by_place()

    def place(self, found: Attachments) -> F64:
        """Coordinates (l, p) of attached rows; fastest where they lie together."""
        lengths = found.lengths / self.scale
        placed: F64 = self.axes.place_seeds(self._graph, found.indptr, found.vertices, lengths, found.own)
        return placed

    def place_known(self, distances: F64) -> F64:
        """Coordinates (l, p) of rows of distances (l, n) to all vertices, in the graph's unit."""
        placed: F64 = self.axes.place_known(distances)
        return placed


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What new rows are held against: how the training points and their graph were made.

    kind: Of the points: "features", "distances", "graph" or "geodesic".
    listed: Whether neighbour lists were chosen from.
    conformal: Whether edges are divided by their ends' mean distances to neighbours.
    n, n_edges: Vertices and edges of the graph.
    """

    kind: str
    n_distinct: int
    n_features: int
    n_neighbors: int | None
    radius: float | None
    metric: str
    metric_params: dict[str, Any] | None
    knn: str | None
    listed: bool
    conformal: bool
    n: int
    n_edges: int


class Projector:
    """A fitted run, ready to place test points.

    store: Whose fit is finished.
    placer: What places attached rows.

    direct: Whether rows are placed by what they hold, and not by where they touch the training points.
    gives: What rows get, in words.
    lost: Why a row has none.
    spare: Columns that a test set may have besides the features.
    reach, far: From the nearest training point, beyond which they say little; and where a row is then.
    """

    gives = "coordinates"
    lost = "no finite path to the training points"
    spare = 0
    reach, far = np.inf, ""

    def __init__(self, store: RunStore, trained: Trained, placer: Placer) -> None:
        self.kind, self.n_features = trained.kind, trained.n_features
        self.direct = self.kind == "geodesic"
        self.n_neighbors, self.radius = trained.n_neighbors, trained.radius
        self.width, self._placer = placer.width, placer
        self.vertex_of = store.read_array("vertex_of_distinct")
        self.n, self._edges = trained.n, trained.n_edges
        self._means = store.read_array(MEANS) if trained.conformal else None
        self._choose = self.kind == "graph" and trained.listed  # from what sparse rows store
        if self.kind == "features":
            self._rows = load_rows(store, [trained.n_distinct, trained.n_features])
            self._check = domain_check(trained.metric)
            digests = store.read_array("digests")
            self._index = RowIndex(digests)
            metric = function_of(trained.metric) if is_function_name(trained.metric) else trained.metric
            search = ExactSearch(self._rows, metric, trained.metric_params, tie_rank=content_rank(digests))
            self.search = QuerySearch(search, self.n_neighbors, self.radius, approximate=trained.knn != "exact")
        elif self.kind != "geodesic":
            self._tie_rank = store.read_array("tie_rank")

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Validated row blocks of a test set: rows of features, or of distances to the training points.

        `first` is the number of T's first row in messages.
        """
        if self.kind == "features":
            like, check = self._rows, self._check
            yield from row_blocks(T, name=name, n_features=self.n_features, like=like, first=first, check=check)
        else:
            yield from distance_rows(T, self.n_features, name, sparse=self.kind != "geodesic", first=first)

    @property
    def seeds_a_row(self) -> int:
        """Training points that a test row touches, about: as many as they touch one another."""
        return max(1, -(-2 * self._edges // self.n))

    def is_long(self, total: int) -> bool:
        """Whether a test set of so many rows is worth asking for the cheapest way to search for its neighbours."""
        return self.kind == "features" and self.search.is_long(total)

    def way(self, total: int) -> str:
        """The way to search for the neighbours of a test set of so many rows (:mod:`scalemani.neighbors.choice`)."""
        return self.search.choose(total) if self.is_long(total) else SearchStrategy.EXACT

    def placed(self, block: Any, way: str = SearchStrategy.EXACT) -> tuple[F64, I64]:
        """Coordinates (l, p) of a validated block of test rows, and the numbers of those that lie beyond reach.

        Coordinates are NaN where no path leads to the training points.
        """
        if self.kind == "geodesic":
            out = np.empty((block.shape[0], self.width))
            step = max(1, BATCH_BYTES // (8 * self.n))
            for at in range(0, len(out), step):
                out[at : at + step] = self._place_rows(_dense(block[at : at + step]))
            return out, np.empty(0, np.int64)
        found = self.attach(block, way)
        return self.place(found), self.beyond(found)

    def beyond(self, found: Attachments) -> I64:
        """Numbers of the attached rows that lie beyond reach."""
        return np.flatnonzero(found.nearest() > self.reach)

    def order(self, found: Attachments) -> I64:
        """The order in which attached rows cost least to place."""
        return self._placer.order(found)

    def place(self, found: Attachments) -> F64:
        """Coordinates (l, p) of attached rows; fastest where they lie together."""
        return self._placer.place(found)

    def attach(self, block: Any, way: str = SearchStrategy.EXACT) -> Attachments:
        """The training points that each test row touches, searched for one of the ways."""
        if self.kind == "features":
            own = self._index.find(row_digests(block))
            if self.radius is not None:
                indptr, indices, lengths = self.search.within(block, way)
            else:
                nearest, far = self.search.nearest(block, way)
                step = nearest.shape[1]
                indptr, indices, lengths = np.arange(0, nearest.size + 1, step), nearest.ravel(), far.ravel()
            lengths = np.where(self.search.search.apart(lengths), np.inf, lengths)  # no edges, as in the fit
        else:
            indptr, indices, lengths, own = self._from_distances(block)
        return self._to_vertices(indptr, indices, lengths, own)

    def _from_distances(self, block: Any) -> tuple[Any, Any, Any, I64]:
        """Edges from rows of distances to the training points: stored entries, or the nearest ones."""
        if sp.issparse(block):
            csr = sp.csr_array(block)
            indptr, indices, lengths = csr.indptr, csr.indices, np.asarray(csr.data, np.float64)
            if self._choose:
                row_of, count = row_numbers(indptr), int(csr.shape[0])
                indptr, indices, lengths = shortest(row_of, indices, lengths, count, self.n_neighbors, self.radius)
            zero: I64 = np.flatnonzero(lengths == 0)[::-1]  # the first of several is set last
            own = np.full(csr.shape[0], -1)
            own[row_numbers(indptr)[zero]] = indices[zero]
            return indptr, indices, lengths, own
        rows = _dense(block)
        own = np.where((rows == 0).any(1), (rows == 0).argmax(1), -1)
        if self.radius is not None:
            csr_rows, indices = np.nonzero(rows <= self.radius)
            return pointers(csr_rows, len(rows)), indices, rows[csr_rows, indices], own
        k = min(self.n_neighbors, rows.shape[1])
        indices = np.lexsort((np.broadcast_to(self._tie_rank, rows.shape), rows), axis=1)[:, :k]
        lengths = np.take_along_axis(rows, indices, 1)
        return np.arange(0, indices.size + 1, k), indices.ravel(), lengths.ravel(), own

    def _to_vertices(self, indptr: Any, indices: Any, lengths: Any, own: I64) -> Attachments:
        """Distinct rows -> vertices: an equal row touches only itself, dropped points are no seeds."""
        row_of, there = row_numbers(indptr), np.isfinite(lengths)
        known = own >= 0
        keep = ~known[row_of] & (self.vertex_of[indices] >= 0) & there
        touched, far = self.vertex_of[indices[keep]], lengths[keep]
        if self._means is not None:
            means = mean_lengths(pointers(row_of[there], len(own)), lengths[there])
            far = conformal_lengths(far, means[row_of[keep]], self._means[touched])
        rows = np.concatenate([row_of[keep], np.flatnonzero(known)])
        vertices = np.concatenate([touched, self.vertex_of[own[known]]])
        distances = np.concatenate([far, np.zeros(int(known.sum()))])
        inside = vertices >= 0  # a row equal to a dropped point has no place in the graph
        order = np.argsort(rows[inside], kind="stable")
        return Attachments(
            indptr=pointers(rows[inside], len(own)),
            vertices=vertices[inside][order],
            lengths=distances[inside][order],
            own=np.where(known, self.vertex_of[np.maximum(own, 0)], -1),
        )

    def _in_vertex_order(self, rows: F64) -> F64:
        ordered = np.empty((len(rows), self.n))
        kept = self.vertex_of >= 0
        ordered[:, self.vertex_of[kept]] = rows[:, kept]
        return ordered

    def _place_rows(self, rows: F64) -> F64:
        """Coordinates of rows of geodesics to the distinct training rows, in the user's unit."""
        return self._placer.place_known(self._in_vertex_order(rows) / self._placer.scale)


def _dense(block: Any) -> F64:
    return np.asarray(block.toarray() if sp.issparse(block) else block, np.float64)
