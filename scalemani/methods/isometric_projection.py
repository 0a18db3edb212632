"""Isometric projection: the linear map of features that keeps geodesic distances best."""

from collections.abc import Sequence

from scalemani.methods.base import Method
from scalemani.methods.isometric_arguments import IsometricParameters
from scalemani.methods.isometric_words import IsometricWords
from scalemani.parameters import Parameters
from scalemani.points.rows import load_rows
from scalemani.projection.feature_map import FeatureMap
from scalemani.steps.base import Step
from scalemani.steps.features import MEAN, REFERENCES, Features, kernel_of
from scalemani.steps.graph import GraphStep, NeighborsStep
from scalemani.steps.least_strain import WEIGHTS, Map
from scalemani.steps.map_records import FeaturesRecord
from scalemani.steps.passing_distances import PassingDistances
from scalemani.steps.records import DataRecord
from scalemani.steps.shortcuts import ShortcutEdges
from scalemani.steps.sources import Sources
from scalemani.storage.run import RunStore


class IsometricMethod(Method):
    """Source: Cai, He and Han 2006.

    A plan of it has the number tile_size: the rows of D that a task finds together.
    """

    projector = "scalemani.methods.isometric_projection:projector"
    words = IsometricWords()
    parameters = IsometricParameters
    takes_labels = True

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """The graph, the features, one pass over D, and the map."""
        return NeighborsStep(), GraphStep(), ShortcutEdges(), Sources(), Features(), PassingDistances(), Map()


def projector(store: RunStore, form: str) -> FeatureMap:
    """What places new points by a finished run."""
    state, n_features = store.needed(FeaturesRecord), store.needed(DataRecord).fields.n_features
    mean, weights = store.read_array(MEAN), store.read_array(WEIGHTS)
    if state.fields.kernel == "linear":
        return FeatureMap(n_features, mean, weights)
    rows = load_rows(store, [store.needed(DataRecord).n_distinct, n_features])[store.read_array(REFERENCES)]
    return FeatureMap(n_features, mean, weights, kernel_of(state.fields, state.gamma), rows)
