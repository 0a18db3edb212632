"""Isomap and kernel Isomap, on all points or by landmarks."""

from collections.abc import Sequence
from typing import Any

from scalemani.geodesics.rows import shared_paths
from scalemani.methods.base import Method
from scalemani.methods.isomap_words import IsomapWords
from scalemani.parameters import Parameters
from scalemani.projection.linear_map import Axes
from scalemani.projection.projector import GraphPlacer, Projector
from scalemani.steps.axes import LandmarkAxes, TileAxes, stored_embedding
from scalemani.steps.base import Step
from scalemani.steps.distances import TileDistances
from scalemani.steps.graph import GraphStep, NeighborsStep, trained
from scalemani.steps.landmark_distances import LandmarkDistances
from scalemani.steps.placement import Placement, landmark_placer
from scalemani.steps.records import DataRecord
from scalemani.steps.shortcuts import ShortcutEdges
from scalemani.steps.sources import Sources, has_landmarks
from scalemani.steps.start import Start
from scalemani.storage.run import RunStore


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
    words = IsomapWords()

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """All vertices are sources of D, or some landmarks are."""
        return _steps(all_vertices=parameters.landmarks is None)

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
    return projector_by(store, Axes(stored_embedding(store), form))


def projector_by(store: RunStore, axes: Any) -> Projector:
    """The same by what places rows of distances to the sources of D."""
    if has_landmarks(store):
        return Projector(store, trained(store), landmark_placer(store, axes))
    given = store.needed(DataRecord).given
    graph = None if given else shared_paths(store.path, store.identity)
    return Projector(store, trained(store), GraphPlacer(graph, axes))
