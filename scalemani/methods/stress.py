"""Isomap with the least raw stress in the place of classical scaling, on all points or by landmarks."""

from collections.abc import Sequence
from typing import Any

from scalemani.methods.isomap import IsomapMethod, projector_by
from scalemani.methods.sibling_arguments import StressParameters
from scalemani.methods.stress_words import StressWords
from scalemani.projection.projector import Projector
from scalemani.steps.base import Step
from scalemani.steps.distances import TileDistances
from scalemani.steps.landmark_distances import LandmarkDistances
from scalemani.steps.map_records import StressRecord
from scalemani.steps.start import Start
from scalemani.steps.stress import (
    ClassicalAxes,
    ClassicalLandmarks,
    LandmarkStress,
    Stress,
    StressPlacement,
    stress_axes,
)
from scalemani.storage.run import RunStore


class StressMethod(IsomapMethod):
    """Source: Trosset & Büyükbaş, "Rehabilitating Isomap: Euclidean representation of geodesic structure", 2020."""

    projector = "scalemani.methods.stress:projector"
    kernel = None
    words = StressWords()
    parameters = StressParameters

    def steps(self, parameters: Any) -> Sequence[Step]:
        """Without classical scaling where some points are started from."""
        return _started(super().steps(parameters), parameters.start_points)

    def steps_in(self, store: RunStore) -> Sequence[Step]:
        """The same, by what the run says."""
        state = store.record(StressRecord)
        return _started(super().steps_in(store), None if state is None else state.fields.start_points)

    def from_graph(self, *, all_vertices: bool) -> Sequence[Step]:
        if all_vertices:
            return Start(Stress()), TileDistances(), ClassicalAxes(), Stress()
        return LandmarkDistances(), ClassicalLandmarks(), LandmarkStress(), StressPlacement()


def _started(steps: Sequence[Step], start_points: int | None) -> Sequence[Step]:
    return [step for step in steps if start_points is None or not isinstance(step, ClassicalAxes)]


def projector(store: RunStore, form: str) -> Projector:
    """What places new points by a finished run: each where its own stress is least."""
    return projector_by(store, stress_axes(store))
