"""Isomap and kernel Isomap, on all points or by landmarks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.machine import parse_memory
from scalemani.embedding.coordinates import Embedding
from scalemani.embedding.isometric import panels
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import shared_paths
from scalemani.methods.base import Method
from scalemani.methods.isomap_words import IsomapWords
from scalemani.parameters import Parameters
from scalemani.projection.kernel_values import GeodesicKernel, GeodesicKernelPlacer, TrainingRows, by_eigenvalues
from scalemani.projection.projector import GraphPlacer, Projector
from scalemani.steps.axes import LandmarkAxes, TileAxes, stored_embedding
from scalemani.steps.base import Step
from scalemani.steps.distances import NOT_KEPT, TileDistances
from scalemani.steps.graph import GraphStep, NeighborsStep, trained
from scalemani.steps.landmark_distances import LandmarkDistances
from scalemani.steps.placement import Placement, landmark_placer
from scalemani.steps.records import DataRecord, FitRecord
from scalemani.steps.shortcuts import ShortcutEdges
from scalemani.steps.sources import Sources, has_landmarks
from scalemani.steps.start import Start
from scalemani.storage.run import RunStore

KERNELS = {"lingoes": "K2 + sJ", "flip": "|K2|"}  # by the correction; of a constant K(c)


class IsomapMethod(Method):
    """Sources: Tenenbaum, de Silva & Langford 2000; Choi & Choi 2004, 2007; by landmarks de Silva & Tenenbaum 2003.

    A plan of it has these numbers. On all points: tile_size, tile_rows (side of a tile, rows of tiles), most_columns
    (at which the solver's basis restarts), start_vertices (points whose rows of D are found before the others, for the
    solver's first block), reads (of D that are expected after it is written), tasks_a_read, and disk_solving (bytes
    more on the disk while it is solved: reads that are kept until then). By landmarks: n_landmarks, landmark_method
    ("maxmin", "random", or "given" of row numbers), landmarks_a_task, points_a_chunk (rows that a task finds together,
    points of a chunk), and disk_turning (bytes more while the distances are turned).
    """

    projector = "scalemani.methods.isomap:projector"
    kernel = "scalemani.methods.isomap:kernel_of_new_rows", "scalemani.methods.isomap:kernel_of_training_rows"
    words = IsomapWords()

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """All vertices are sources of D, or some landmarks are."""
        return _steps(all_vertices=parameters.landmarks is None)

    def kernels(self, store: RunStore) -> Mapping[str, str]:
        """That of the correction, and the one without."""
        asked, own = store.needed(FitRecord).fields["correction"], "scalemani.methods.isomap:kernel_by_the_graph"
        if asked is None:
            return {"K2": own}
        return {KERNELS.get(asked, "K(c)"): own, "K2": "scalemani.methods.isomap:uncorrected_kernel"}

    def steps_in(self, store: RunStore) -> Sequence[Step]:
        """The same, by what the run says of its sources."""
        return _steps(all_vertices=not has_landmarks(store))


def _steps(*, all_vertices: bool) -> Sequence[Step]:
    first = NeighborsStep(), GraphStep(), ShortcutEdges(), Sources()
    if all_vertices:
        return *first, Start(), TileDistances(), TileAxes()
    return *first, LandmarkDistances(), LandmarkAxes(), Placement()


def projector(store: RunStore, form: str) -> Projector:
    """What places new points by a finished run."""
    embedding = stored_embedding(store)
    if has_landmarks(store):
        return Projector(store, trained(store), landmark_placer(store, embedding, form))
    given = store.needed(DataRecord).given
    graph = None if given else shared_paths(store.path, store.identity)
    return Projector(store, trained(store), GraphPlacer(graph, embedding, form))


def kernel_of_new_rows(store: RunStore, form: str) -> Projector:
    """What gives values of K of new rows with all training rows."""
    embedding, vertex = _of_all_rows(store), store.read_array("vertex")
    turn = _by_eigenvalues(store, embedding, np.sign) if embedding.flipped else None
    graph = None if store.needed(DataRecord).given else shared_paths(store.path, store.identity)
    placer = GeodesicKernelPlacer(graph, GeodesicKernel(embedding, turn), form, vertex)
    return Projector(store, trained(store), placer)


def kernel_of_training_rows(store: RunStore, form: str, *, stored: bool = True) -> TrainingRows:
    """What gives values of K of training rows with all of them, from D, or from the graph where D is gone."""
    embedding, vertex = _of_all_rows(store), store.read_array("vertex")
    if embedding.flipped:
        whole = _by_eigenvalues(store, embedding, np.abs, stored=stored)
        return TrainingRows(vertex, lambda vertices: whole[vertices])
    _check_rows(store)
    kernel = GeodesicKernel(embedding)
    return TrainingRows(vertex, lambda vertices: kernel.rows(_rows(store, vertices, stored), vertices))


def kernel_by_the_graph(store: RunStore, form: str) -> TrainingRows:
    """The same from the graph, unless D was given: less work for scattered rows than a read of D."""
    return kernel_of_training_rows(store, form, stored=False)


def uncorrected_kernel(store: RunStore, form: str) -> TrainingRows:
    """The same of K2, with means of squared distances from all rows."""
    embedding, vertex = _of_all_rows(store), store.read_array("vertex")
    _check_rows(store)
    n, every = len(embedding.vectors), np.arange(len(embedding.vectors))
    means = [np.square(_rows(store, every[here], False), dtype=np.float64).mean(axis=1) for here in panels(n, n)]
    plain = replace(embedding, constant=0.0, nugget=0.0, flipped=False, means=np.concatenate(means))
    return TrainingRows(vertex, lambda vertices: GeodesicKernel(plain).rows(_rows(store, vertices, False), vertices))


def _of_all_rows(store: RunStore) -> Embedding:
    """The model of a finished run on all points.

    Raises ScalemaniError: By landmarks.
    """
    if has_landmarks(store):
        raise ScalemaniError(
            "landmarks: the fit has no distances between all training rows, and no kernel of them: fit without "
            "landmarks, or take the inner products of coordinates"
        )
    return stored_embedding(store)


def _check_rows(store: RunStore) -> None:
    """Refuse where rows of D are neither kept nor found again."""
    if store.needed(DataRecord).given and not store.has_distances:
        raise ScalemaniError(NOT_KEPT)


def _rows(store: RunStore, vertices: I64, stored: bool) -> F32:
    """Rows of D (l, n); from the store if they are `stored` there, or were given."""
    found = TileDistances().rows(store, vertices) if stored or store.needed(DataRecord).given else None
    return geodesic_rows(shared_paths(store.path, store.identity), vertices) if found is None else found


def _by_eigenvalues(
    store: RunStore, embedding: Embedding, function: Callable[[F64], F64], *, stored: bool = True
) -> F64:
    """A function of K's eigenvalues, as a matrix (n, n), from all eigenpairs.

    Raises DoesNotFitError: If they don't fit in memory.
    """
    _check_rows(store)
    n, free = len(embedding.vectors), parse_memory(None)
    if 6 * 8 * n * n > free:
        raise DoesNotFitError(
            f"the kernel of correction='flip' takes all {n:,} eigenpairs, with {6 * 8 * n * n:,} bytes, and half of "
            f"the free memory is {free:,}: fit with correction='cailliez' or 'lingoes'"
        )
    kernel, whole, every = GeodesicKernel(embedding), np.empty((n, n)), np.arange(n)
    for here in panels(n, n):
        whole[here] = kernel.rows(_rows(store, every[here], stored), every[here])
    return by_eigenvalues(whole, function, embedding.tolerance)
