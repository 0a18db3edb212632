"""Isomap with the least raw stress in the place of classical scaling, on all points or by landmarks."""

from collections.abc import Sequence
from typing import Any

from scalemani.methods.base import Method
from scalemani.methods.isomap import projector_by
from scalemani.methods.sibling_arguments import StressParameters
from scalemani.methods.stress_words import StressWords
from scalemani.projection.projector import Projector
from scalemani.steps.base import Step
from scalemani.steps.distances import TileDistances
from scalemani.steps.graph import GraphStep, NeighborsStep
from scalemani.steps.landmark_distances import LandmarkDistances
from scalemani.steps.map_records import StressRecord
from scalemani.steps.shortcuts import ShortcutEdges
from scalemani.steps.sources import Sources, has_landmarks
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


class StressMethod(Method):
    """Source: Trosset & Büyükbaş, "Rehabilitating Isomap: Euclidean representation of geodesic structure", 2020."""

    projector = "scalemani.methods.stress:projector"
    words = StressWords()
    parameters = StressParameters

    def steps(self, parameters: Any) -> Sequence[Step]:
        """Isomap's, then the least stress; classical scaling is left out where it does not start from that."""
        return _steps(landmarks=parameters.landmarks is not None, classical=parameters.start_points is None)

    def steps_in(self, store: RunStore) -> Sequence[Step]:
        """The same, by what the run says."""
        state = store.record(StressRecord)
        return _steps(landmarks=has_landmarks(store), classical=state is None or state.fields.start_points is None)


def _steps(*, landmarks: bool, classical: bool) -> Sequence[Step]:
    first = NeighborsStep(), GraphStep(), ShortcutEdges(), Sources()
    if landmarks:
        return *first, LandmarkDistances(), ClassicalLandmarks(), LandmarkStress(), StressPlacement()
    axes = [ClassicalAxes()] if classical else []
    return *first, Start(Stress()), TileDistances(), *axes, Stress()


def projector(store: RunStore, form: str) -> Projector:
    """What places new points by a finished run: each where its own stress is least."""
    return projector_by(store, stress_axes(store))
