"""Pairs at an end of a spectrum and the coordinates that they make: of I - W, or of a graph's Laplacian."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import structs
from scipy.sparse import csr_array

from scalemani.aliases import F64, I64
from scalemani.embedding.kernel_functions import local_grams
from scalemani.embedding.laplacian import (
    Resistances,
    affinities,
    degrees,
    diffusion,
    kernel_pca,
    laplacian_pairs,
    random_walk,
    scale_of,
)
from scalemani.embedding.reconstruction import (
    closed_classes,
    landmark_weights,
    reconstruction,
    ritz_in_span,
    weights_of,
)
from scalemani.errors import ScalemaniError, ScalemaniWarning, SolverError, warn
from scalemani.geodesics.rows import shared_graph
from scalemani.kernel import blas
from scalemani.kernel.bottom import bottom_singular_vectors
from scalemani.kernel.graph_pairs import foretold_nonzeros, laplacian, suits_a_factor
from scalemani.neighbors.exact import ExactSearch
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.pair_records import PairsFields, PairsRecord
from scalemani.steps.records import FitRecord, GraphRecord
from scalemani.steps.sources import check_landmarks, choose_landmarks
from scalemani.steps.weights import INDICES, INDPTR, VALUES, rows_in
from scalemani.storage.run import RunStore

COORDINATES, LANDMARKS, MAP = "pair_coordinates", "pair_landmarks", "pair_map"
LEAST_GAP = 0.1  # of the next eigenvalue over the last, below which the axes are not determined
NEAREST = 8  # landmarks that a point is rebuilt from
REG = 1e-3  # of those weights
PROBES = 10  # for the trace of a kernel, besides the pairs that are known
FORGOTTEN = 0.9  # correlation with degrees, above which commute times say little else
MOST_TURN = 1e-4  # of the axes in the solver's last step
LEAST_SIGMA = 1e-13  # a singular value of I - W: of less, vectors are rounding
LEAST_RITZ = 1e-13  # of the mean square of a landmark's column: eigenvalues of less are rounding
SMALL = 2000  # points, up to which a factor may be full
BYTES, MARGIN = 12, 1.5  # of a nonzero of a factor; and how many more there may be than foretold


@dataclass(frozen=True)
class Found:
    """What a solver gives.

    eigenvalues (p,), following: In their order, and the next; NaN if there is none.
    coordinates (n, p); map (m, p): What places rows by their weights of landmarks.
    numbers: Of the record.
    said: What to warn of.
    """

    eigenvalues: F64
    following: float
    coordinates: F64
    map: F64 | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    said: tuple[str, ...] = ()


class Axes(Step):
    """The axes; a method says of what."""

    record, title = PairsRecord, "axes"
    late = True
    from_distances = False
    arrays = {"pair_": "pairs"}
    mends = {"pairs": "solves again"}

    def check_before(self, points: Any, parameters: Any) -> None:
        check_landmarks(points, parameters)

    def fields(self, parameters: Any, kind: str) -> PairsFields:
        some = parameters.landmarks
        said = None if some is None else str(some if np.ndim(some) == 0 else np.sort(np.asarray(some)).tolist())
        return PairsFields(
            n_components=int(parameters.n_components),
            scale=parameters.scale,
            random_state=int(parameters.random_state),
            landmarks=said,
            landmark_method=None if some is None else parameters.landmark_method,
        )

    def solved(self, store: RunStore, fields: PairsFields, Z: csr_array | None) -> Found:
        """The pairs; in the span of Z (n, m) where there are landmarks."""
        raise NotImplementedError

    def run(self, work: Work) -> None:
        """Solve, unless the pairs that are asked for are there."""
        if self.done(work):
            return
        work.report(self.title, 0, 1)
        work.store.forget(FitRecord.STEP, self.name)
        work.store.remove_arrays("pair_")  # of landmarks, too, which other parameters may not have
        fields = self.fields(work.parameters, "")
        if fields.landmarks is not None:
            self._choose(work)
        self._make(work.store, fields)
        work.report(self.title, 1, 1)

    def _choose(self, work: Work) -> None:
        """The landmarks, along the graph."""
        store = work.store
        graph, order, vertex = (
            shared_graph(store.path, store.identity),
            store.read_array("order"),
            store.read_array("vertex"),
        )
        store.write_array(LANDMARKS, choose_landmarks(work.points, work.parameters, graph, order, vertex)[0])

    def _make(self, store: RunStore, fields: PairsFields) -> None:
        chosen = None if fields.landmarks is None else store.read_array(LANDMARKS)
        Z, near = (None, None) if chosen is None else weights_of_landmarks(store, chosen)
        found = self.solved(store, fields, Z)
        said, p = list(found.said), fields.n_components
        size = abs(found.following) if fields.alpha is None else 1 - found.following
        if abs(found.following - found.eigenvalues[-1]) < LEAST_GAP * size:
            said.append(
                f"the next eigenvalue ({found.following:.4g}) is near that of the last axis "
                f"({found.eigenvalues[-1]:.4g}): which of the two is shown is chance; try another number of axes"
            )
        if not np.isfinite(found.coordinates).all():
            raise ScalemaniError("axes of eigenvalue 0 have no length; ask for fewer")
        for sentence in said:
            warn(sentence, ScalemaniWarning)
        store.write_array(COORDINATES, found.coordinates)
        if found.map is not None:
            store.write_array(MAP, found.map)
        store.finish(
            PairsRecord(
                fields=fields,
                eigenvalues=found.eigenvalues[:p].tolist(),
                next_eigenvalue=None if np.isnan(found.following) else float(found.following),
                n_landmarks=None if chosen is None else len(chosen),
                reach=None if near is None else float(near.max()),
                warnings=said,
                **found.numbers,
            )
        )

    def left(self, store: RunStore) -> set[str]:
        """Coordinates, and what landmarks place rows by."""
        state = store.record(PairsRecord)
        if state is None:
            return set()
        return {COORDINATES} | ({LANDMARKS, MAP} if state.n_landmarks else set())

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        store, state = work.store, work.store.record(PairsRecord)
        if waiting or state is None:
            return []
        fit = store.record(FitRecord)
        if any(fault.name == LANDMARKS for fault in faults["pairs"]):
            self._choose(work)
        self._make(store, state.fields)
        if fit is not None:
            store.finish(fit)
        return ["the axes were solved again"]

    def coordinates(self, store: RunStore) -> F64:
        return store.read_array(COORDINATES)

    def account(self, store: RunStore) -> dict[str, Any]:
        """Eigenvalues, how they were found, and what was warned of."""
        state = store.needed(PairsRecord)
        names = "eigenvalues", "next_eigenvalue", "factor_nonzeros", "trace", "trace_error", "forgotten", "warnings"
        found = {name: getattr(state, name) for name in names}
        found |= {name: getattr(state.fields, name) for name in ("scale", "normalized", "alpha", "time")}
        found["sigma"] = state.sigma or None
        if state.n_landmarks is not None:
            found |= {"n_landmarks": state.n_landmarks, "landmark_method": state.fields.landmark_method}
        return found

    def foretold(self, graph: Callable[[], Any], parameters: Any) -> int:
        """Of I - W and of L alike: their patterns are the graph's."""
        if parameters.landmarks is not None:
            return 0
        lengths = graph()
        return self.nonzeros(csr_array((np.ones(len(lengths.data)), lengths.indices, lengths.indptr), lengths.shape))

    def nonzeros(self, edges: csr_array) -> int:
        """Of the factor of this pattern."""
        return int(foretold_nonzeros(edges)[0]) if edges.shape[0] > SMALL else edges.shape[0] ** 2

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """The factor and a block of vectors; by landmarks their square."""
        n, p, m = size.n, size.parameters.n_components, size.parameters.landmarks
        block = 8 * n * 5 * (p + 10)
        if m is not None:
            m = int(m) if np.ndim(m) == 0 else len(m)
            client = {"rows": size.points, "landmarks' square": 6 * 8 * m * m, "weights": 40 * n * NEAREST}
            return Needs(client=client, disk=8 * (n + m) * p)
        return Needs(
            client={"factor": int(MARGIN * BYTES * size.factor), "matrix": 40 * (size.edges + n), "vectors": block},
            remedies=["give landmarks=1000, for which no factor is made"],
            disk=8 * n * p,
            lines=[("factor", f"about {size.factor / 1e6:,.1f} million nonzeros")],
        )


def longest_edge(store: RunStore) -> float:
    """Of the graph, in the user's unit."""
    return float(shared_graph(store.path, store.identity).data.max()) * store.needed(GraphRecord).scale


def weights_of_landmarks(store: RunStore, chosen: I64, targets: Any = None) -> tuple[csr_array, F64]:
    """Z: weights of the training points, or of `targets`, of the landmarks nearest to them; and how near one is."""
    rows, order = rows_in(store), store.read_array("order")
    of = rows[order[chosen]]
    known = targets is None
    targets = rows[order] if known else targets
    idx, far = ExactSearch(of).nearest(targets, min(NEAREST, len(chosen)))
    weights = weights_of(local_grams(of, targets, idx), REG, far == 0)
    return landmark_weights(idx, weights, len(chosen), chosen if known else None), far[:, 0]


# ---- locally linear embedding ------------------------------------------------------------------------


class LocalAxes(Axes):
    """Of A = I - W: its smallest singular values; A'A is never made."""

    def solved(self, store: RunStore, fields: PairsFields, Z: csr_array | None) -> Found:
        """By a factor of A, or by A Z."""
        p, A = fields.n_components, residuals(store)
        if Z is None:
            probes = PROBES if fields.scale == "kernel" else 0
            found = bottom_singular_vectors(A, p, fields.random_state, closed=closed_class(store), probes=probes)
            apart = len(found.sigma) == p or found.sigma[p] > (1 + LEAST_GAP) * found.sigma[p - 1]
            if found.turn > MOST_TURN and apart:  # else two axes turn into one another, which is warned of
                raise SolverError(
                    f"the axes turned by {found.turn:.1g} in the last of {found.iterations} steps: they are not found; "
                    "give more neighbours, or a larger reg"
                )
            sigma, vectors, turned = found.sigma, found.vectors, None
            numbers: dict[str, Any] = {"factor_nonzeros": found.nonzeros, **found.trace}
        else:
            inside = blas.product(A, Z)
            values, vectors, turned = ritz_in_span(blas.product(inside.T, inside), Z, p)
            sigma, numbers = np.sqrt(np.maximum(values, 0.0)), {}
            if values[p - 1] <= LEAST_RITZ * float(inside.power(2).sum() / inside.shape[1]):
                raise SolverError(f"an eigenvalue by landmarks ({values[p - 1]:.1e}) is rounding: give a larger reg")
            sizes = np.linalg.norm(vectors, axis=0)
            vectors, turned = vectors / sizes, turned / sizes
        if sigma[p - 1] < LEAST_SIGMA:
            raise SolverError(
                f"the axes are rounding: the largest of their singular values is {sigma[p - 1]:.1e}; give a larger reg"
            )
        times = np.sqrt(len(vectors)) if fields.scale == "whitened" else 1 / sigma[:p]
        following = float(sigma[p] ** 2) if len(sigma) > p else np.nan
        return Found(sigma[:p] ** 2, following, vectors * times, None if turned is None else turned * times, numbers)


def residuals(store: RunStore) -> csr_array:
    """A = I - W."""
    return csr_array(reconstruction(*(store.read_array(name) for name in (INDPTR, INDICES, VALUES))))


def closed_class(store: RunStore) -> I64:
    """The vertices to which all lists lead."""
    return np.flatnonzero(closed_classes(store.read_array(INDPTR), store.read_array(INDICES))[0] == 0)


# ---- Laplacian eigenmaps -----------------------------------------------------------------------------


class LaplacianAxes(Axes):
    """Of L, of its normalised form, or of a diffusion."""

    def check_before(self, points: Any, parameters: Any) -> None:
        """There is a graph, and for landmarks there are rows of features."""
        if points.kind == "geodesic":
            raise ScalemaniError(
                "metric='geodesic': given distances are final and have no edges to weigh; use metric='precomputed' to "
                "choose neighbours by them"
            )
        if parameters.landmarks is not None and points.kind != "features":
            raise ScalemaniError(
                f"landmarks with metric={parameters.metric!r}: points are rebuilt from landmarks by their features, "
                "and X holds distances; leave landmarks out, or give rows of features"
            )
        super().check_before(points, parameters)

    def nonzeros(self, edges: csr_array) -> int:
        return super().nonzeros(edges) if suits_a_factor(edges, 0) else 0

    def fields(self, parameters: Any, kind: str) -> PairsFields:
        return structs.replace(
            super().fields(parameters, kind),
            weights=parameters.weights,
            sigma=None if parameters.sigma is None else float(parameters.sigma),
            normalized=bool(parameters.normalized),
            alpha=None if parameters.alpha is None else float(parameters.alpha),
            time=None if parameters.alpha is None else float(parameters.time),
        )

    def solved(self, store: RunStore, fields: PairsFields, Z: csr_array | None) -> Found:
        """By a factor of L or by multigrid, or in the span of Z."""
        affinity, sigma = weighted(store, fields)
        p, seed, degree = fields.n_components, fields.random_state, degrees(affinity)
        numbers: dict[str, Any] = {"sigma": sigma or 0.0}
        if fields.alpha is not None:
            pairs = diffusion(affinity, p, fields.alpha, fields.time or 0.0, seed=seed)
            return Found(pairs.values, pairs.next_value, pairs.vectors, None, numbers)
        if Z is not None:
            mass = degree if fields.normalized else None
            energy = blas.product(blas.product(Z.T, laplacian(affinity)), Z)
            values, vectors, turned = ritz_in_span(csr_array(energy), Z, p, mass)
            if values[0] <= LEAST_RITZ * (1.0 if fields.normalized else float(degree.mean())):
                raise SolverError(
                    f"an eigenvalue by landmarks ({values[0]:.1e}) is rounding: parts of the graph hang together by "
                    "weights that are lost; use weights='binary'"
                )
            times = 1.0 if fields.normalized else np.sqrt(scale_of(fields.scale, degree) / values[:p])
            following = float(values[p]) if len(values) > p else np.nan
            return Found(values[:p], following, vectors * times, turned * times, numbers)
        known = Resistances(affinity) if suits_a_factor(affinity, seed) else None
        factor = None if known is None else known.factor
        numbers["factor_nonzeros"] = 0 if factor is None else factor.nonzeros
        way = "lobpcg" if factor is None else "direct"
        pairs = laplacian_pairs(affinity, p, bool(fields.normalized), way, seed, factor=factor)
        if fields.normalized:
            return Found(pairs.values, pairs.next_value, random_walk(pairs, degree), None, numbers)
        Y = kernel_pca(pairs, degree, fields.scale)
        if known is None:  # solves would take a factor
            return Found(pairs.values, pairs.next_value, Y, None, numbers)
        forgotten, said = known.forgotten(seed=seed), list[str]()
        numbers["forgotten"] = None if np.isnan(forgotten) else forgotten
        numbers["trace"], numbers["trace_error"] = known.trace(PROBES, seed, pairs)
        if forgotten > FORGOTTEN:
            said.append(
                f"commute times follow from the points' degrees alone (correlation {forgotten:.2f}), as is usual "
                "for many points of many dimensions: distances on the map say little; try normalized=True"
            )
        return Found(pairs.values, pairs.next_value, Y, None, numbers, tuple(said))


def weighted(store: RunStore, fields: PairsFields) -> tuple[csr_array, float | None]:
    """A of the stored graph, with its diagonal for a diffusion, and σ in the user's unit."""
    graph, scale = shared_graph(store.path, store.identity), store.needed(GraphRecord).scale
    n = store.needed(GraphRecord).n_vertices
    lengths = csr_array((graph.data.astype(np.float64) * scale, graph.indices, graph.indptr), shape=(n, n))
    affinity, sigma = affinities(lengths, fields.weights or "binary", fields.sigma)
    if fields.alpha is not None:
        affinity = csr_array(affinity + csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n)))
    return affinity, sigma
