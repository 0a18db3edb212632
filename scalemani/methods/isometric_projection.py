"""Isometric projection: the linear map of features that keeps geodesic distances best."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.methods.base import Method
from scalemani.methods.isometric_arguments import IsometricParameters
from scalemani.methods.isometric_words import IsometricWords
from scalemani.neighbors.metrics import domain_check, is_function_name
from scalemani.parameters import Parameters
from scalemani.points.rows import load_rows
from scalemani.projection.feature_map import FeatureMap
from scalemani.steps.base import Step
from scalemani.steps.distances import TileDistances
from scalemani.steps.features import MEAN, REFERENCES, Features, kernel_of
from scalemani.steps.graph import GraphStep, NeighborsStep
from scalemani.steps.inputs import Input, KernelInput
from scalemani.steps.landmark_distances import LandmarkDistances
from scalemani.steps.least_strain import WEIGHTS, ManyAxes, ManyCoordinates, Map, Targets, moves
from scalemani.steps.map_records import FeaturesRecord
from scalemani.steps.passing_distances import PassingDistances
from scalemani.steps.records import DataRecord, NeighborsRecord
from scalemani.steps.shortcuts import ShortcutEdges
from scalemani.steps.sources import Sources, has_landmarks
from scalemani.steps.start import Start
from scalemani.storage.run import RunStore


class IsometricMethod(Method):
    """Source: Cai, He and Han 2006.

    A plan of it has the number tile_size: the rows of D that a task finds together.
    """

    projector = "scalemani.methods.isometric_projection:projector"
    words = IsometricWords()
    parameters = IsometricParameters
    takes_labels = True

    def read(self, X: Any, y: Any, parameters: Parameters, memory: int | None, folder: str | None) -> Input:
        """Rows, rows with labels, or kernel values."""
        assert isinstance(parameters, IsometricParameters)
        y = y if parameters.supervised else None
        if parameters.kernel == "precomputed":
            if y is not None:
                raise ScalemaniError(
                    "labels with kernel='precomputed': y is for rows of features; give those, or leave y out"
                )
            return KernelInput(X)
        found: Input = super().read(X, y, parameters, memory, folder)
        return found

    def loadings(self, store: RunStore) -> F64 | None:
        """Those of the map, if it is linear in the features."""
        return moves(store)

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """The graph, the features, one pass over D, and the map."""
        assert isinstance(parameters, IsometricParameters)
        return _steps(
            landmarks=parameters.landmarks is not None, stored=parameters.stores, loo=parameters.ridge == "loo"
        )

    def steps_in(self, store: RunStore) -> Sequence[Step]:
        """The same, by what the run says."""
        stages = store.document.stages
        return _steps(landmarks=has_landmarks(store), stored="start" in stages, loo="solve" in stages)


def _steps(*, landmarks: bool, stored: bool, loo: bool) -> Sequence[Step]:
    first = NeighborsStep(), GraphStep(), ShortcutEdges(), Sources()
    if landmarks:
        return *first, LandmarkDistances(), ManyAxes(), ManyCoordinates(), Features(), Map()
    if not stored:
        return *first, Features(), PassingDistances(), Map()
    return *first, Features(), Start(), TileDistances(), *([Targets()] if loo else []), Map()


def projector(store: RunStore, form: str) -> FeatureMap:
    """What places new points by a finished run."""
    state, n_features = store.needed(FeaturesRecord), store.needed(DataRecord).fields.n_features
    metric = store.needed(NeighborsRecord).fields.metric
    check = None if is_function_name(metric) else domain_check(metric)
    mean, weights = store.read_array(MEAN), store.read_array(WEIGHTS)
    if state.fields.kernel == "linear":
        return FeatureMap(n_features, mean, weights, check=check)
    if state.fields.kernel == "precomputed":  # a column for each training row, of which some may not be in the graph
        order = store.read_array("order")
        means, placed = np.zeros(n_features), np.zeros((n_features, weights.shape[1]))
        means[order], placed[order] = mean, weights
        return FeatureMap(n_features, means, placed)
    rows = load_rows(store, [store.needed(DataRecord).n_distinct, n_features])[store.read_array(REFERENCES)]
    return FeatureMap(n_features, mean, weights, kernel_of(state.fields, state.gamma), rows, check)
