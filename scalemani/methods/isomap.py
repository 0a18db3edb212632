"""Isomap and kernel Isomap, on all points or by landmarks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.cluster.machine import parse_memory
from scalemani.embedding.isometric import panels
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.geodesics.paths import PathGraph, geodesic_rows
from scalemani.geodesics.rows import shared_paths
from scalemani.methods.base import Method
from scalemani.methods.isomap_words import IsomapWords
from scalemani.methods.words import Words
from scalemani.parameters import Parameters
from scalemani.projection.kernel_values import KERNEL_VALUES, GeodesicKernel, TrainingRows, signs
from scalemani.projection.linear_map import Axes
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
from scalemani.storage.run import RunStore, shared_run

FIRST = NeighborsStep(), GraphStep(), ShortcutEdges(), Sources()

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
    kernel: tuple[str, str] | None = (
        "scalemani.methods.isomap:kernel_of_new_rows",
        "scalemani.methods.isomap:kernel_of_training_rows",
    )
    words: Words = IsomapWords()

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """All vertices are sources of D, or some landmarks are."""
        return *FIRST, *self.from_graph(all_vertices=parameters.landmarks is None)

    def kernels(self, store: RunStore) -> Mapping[str, str]:
        """That of the correction, and the one without."""
        if self.kernel is None:  # of a method that is derived from this one
            return {}
        asked, own = store.needed(FitRecord).fields["correction"], self.kernel[1]
        if asked is None:
            return {"K2": own}
        return {KERNELS.get(asked, "K(c)"): own, "K2": "scalemani.methods.isomap:uncorrected_kernel"}

    def steps_in(self, store: RunStore) -> Sequence[Step]:
        """The same, by what the run says of its sources."""
        return *FIRST, *self.from_graph(all_vertices=not has_landmarks(store))

    def from_graph(self, *, all_vertices: bool) -> Sequence[Step]:
        """The steps behind the graph and the sources."""
        if all_vertices:
            return Start(), TileDistances(), TileAxes()
        return LandmarkDistances(), LandmarkAxes(), Placement()


def projector(store: RunStore, form: str) -> Projector:
    """What places new points by a finished run."""
    return projector_by(store, Axes(stored_embedding(store), form))


def projector_by(store: RunStore, axes: Any) -> Projector:
    """The same by what places rows of distances to the sources of D."""
    if has_landmarks(store):
        return Projector(store, trained(store), landmark_placer(store, axes))
    return Projector(store, trained(store), GraphPlacer(_paths(store), axes))


def _paths(store: RunStore) -> PathGraph | None:
    """The graph that geodesics are found from; None where D was given."""
    return None if store.needed(DataRecord).given else shared_paths(store.path, store.identity)


def kernel_of_new_rows(store: RunStore, form: str) -> Projector:
    """What gives values of K of new rows with all training rows."""
    found = projector_by(store, _kernel(store, nugget=form == "paper"))
    found.gives = KERNEL_VALUES
    return found


def kernel_of_training_rows(store: RunStore, form: str) -> TrainingRows:
    """What gives values of K of training rows with all of them.

    By geodesics from the graph, which takes as long as D took: of a D that is kept, each group of rows would read most
    tiles.
    """
    kernel = _kernel(store, nugget=True, stored=_given_rows(store))
    return TrainingRows(store.read_array("vertex"), GraphPlacer(_paths(store), kernel))


def uncorrected_kernel(store: RunStore, form: str) -> TrainingRows:
    """The same of K2, with means of squared distances from all rows."""
    embedding, stored = stored_embedding(store), _given_rows(store)
    n, paths = len(embedding.vectors), _paths(store)
    means = []
    for here in panels(n, n):
        rows = geodesic_rows(paths, np.arange(n)[here]) if stored is None else stored(np.arange(n)[here])
        means.append(np.square(rows, dtype=np.float64).mean(axis=1))
    plain = replace(embedding, constant=0.0, nugget=0.0, flipped=False, means=np.concatenate(means))
    kernel = GeodesicKernel(plain, store.read_array("vertex"), nugget=False, stored=stored)
    return TrainingRows(store.read_array("vertex"), GraphPlacer(paths, kernel))


def _given_rows(store: RunStore) -> Callable[[I64], F32] | None:
    """What reads rows of a D that was given; None of another.

    Raises ScalemaniError: If it is not kept.
    """
    if not store.needed(DataRecord).given:
        return None
    if not store.has_distances:
        raise ScalemaniError(NOT_KEPT)
    return store.read_rows


def _kernel(store: RunStore, **how: Any) -> GeodesicKernel:
    """K of a finished run on all points.

    Raises ScalemaniError: By landmarks.
    """
    if has_landmarks(store):
        raise ScalemaniError(
            "landmarks: the fit has no distances between all training rows, and no kernel of them: fit without "
            "landmarks, or take the inner products of coordinates"
        )
    embedding = stored_embedding(store)
    with _turning:  # threads wait for the one that makes it
        turn = _turn(store.path, store.identity, store.revision) if embedding.flipped else None
    return GeodesicKernel(embedding, store.read_array("vertex"), turn=turn, **how)


_turning = Lock()


@lru_cache(maxsize=1)
def _turn(path: str, identity: str, revision: str) -> F64:
    """S of "flip", by all eigenpairs; that of one model at a time is held.

    Raises DoesNotFitError: If they don't fit in memory.
    """
    store = shared_run(path, identity)
    embedding = stored_embedding(store)
    n, free = len(embedding.vectors), parse_memory(None)
    if 6 * 8 * n * n > free:
        raise DoesNotFitError(
            f"the kernel of correction='flip' takes all {n:,} eigenpairs, with {6 * 8 * n * n:,} bytes, and half of "
            f"the free memory is {free:,}: fit with correction='cailliez' or 'lingoes'"
        )
    every, whole = np.arange(n), np.empty((n, n))
    kernel = GeodesicKernel(embedding, every, nugget=True, stored=_given_rows(store))
    rows = TrainingRows(every, GraphPlacer(_paths(store), kernel))
    for here in panels(n, n):
        whole[here] = rows.place(rows.attach(every[here]))
    return signs(whole, embedding.tolerance)
