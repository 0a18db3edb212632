"""Locally linear embedding, of rows or of a kernel's features, by a sparse factor or by landmarks."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.kernel import blas
from scalemani.kernel.bottom import PseudoInverse
from scalemani.methods.base import Method
from scalemani.methods.sibling_arguments import LLEParameters
from scalemani.methods.sibling_words import LLEWords
from scalemani.neighbors.metrics import domain_check, is_function_name
from scalemani.parameters import Parameters
from scalemani.points.digests import content_rank
from scalemani.projection.by_neighbors import MOST_WEIGHT, BySpan, MeanPlacer, Rebuilt, RebuiltByKernel
from scalemani.projection.kernel_values import TrainingRows
from scalemani.projection.projector import Projector
from scalemani.steps.base import Step
from scalemani.steps.graph import GraphStep, NeighborsStep, trained
from scalemani.steps.listed import KernelSearch, ListedKernel, ListedRows, searched_by
from scalemani.steps.pair_records import PairsRecord, WeightsRecord
from scalemani.steps.pairs import (
    COORDINATES,
    LANDMARKS,
    MAP,
    LocalAxes,
    closed_class,
    longest_edge,
    residuals,
    weights_of_landmarks,
)
from scalemani.steps.records import DataRecord, NeighborsRecord
from scalemani.steps.weights import GIVEN, Weights, found_weights, kernel_of, rows_in
from scalemani.storage.run import RunStore

FAR = 2.0  # times how far training rows are apart, beyond which new rows are told of


class LLEMethod(Method):
    """Sources: Roweis & Saul 2000; with a kernel DeCoste 2001; by landmarks Vladymyrov & Carreira-Perpiñán 2013."""

    projector = "scalemani.methods.lle:projector"
    kernel = None, "scalemani.methods.lle:kernel_of_training_rows"
    kernel_name = "M+"
    words = LLEWords()
    parameters = LLEParameters

    def read(self, X: Any, y: Any, parameters: Parameters, memory: int | None, folder: str | None) -> Any:
        """Rows whose neighbour lists lead into one class; other kinds are refused by a step."""
        from scalemani.neighbors.metrics import GIVEN_METRICS

        assert isinstance(parameters, LLEParameters)
        if parameters.kernel == GIVEN:
            return ListedKernel(X)
        if parameters.metric in GIVEN_METRICS:
            return super().read(X, y, parameters, memory, folder)
        return ListedRows(X, parameters, memory, folder)

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """The lists, weights that rebuild points, and the axes."""
        return NeighborsStep(), GraphStep(), Weights(), LocalAxes()

    def kernels(self, store: RunStore) -> Mapping[str, str]:
        """Both that have the axes: M+, and the largest eigenvalue less M, in which all axes weigh alike."""
        return {**super().kernels(store), "J(λmax I - M)J": "scalemani.methods.lle:shifted_kernel"}


def kernel_of_training_rows(store: RunStore, form: str) -> TrainingRows:
    """What gives rows of M+ of training rows; a solve for each, so that its bits are its own.

    Raises ScalemaniError: Of a fit by landmarks.
    """
    state = store.needed(PairsRecord)
    if state.n_landmarks is not None:
        raise ScalemaniError(
            "the kernel of LLE is M+ on all rows: fit without landmarks, or take the inner products of coordinates"
        )
    rng = np.random.default_rng(state.fields.random_state)
    inverse = PseudoInverse(residuals(store), rng, closed_class(store))
    return _training_rows(store, lambda columns: np.stack([inverse.product(one[:, None])[:, 0] for one in columns.T]))


def shifted_kernel(store: RunStore, form: str) -> TrainingRows:
    """What gives rows of J (λmax I - M) J, M = (I - W)'(I - W), of training rows."""
    A = residuals(store)
    M, n = csr_array(blas.product(A.T, A)), A.shape[0]
    start = np.random.default_rng(0).standard_normal(n)
    largest = float(eigsh(M, 1, which="LA", v0=start, return_eigenvectors=False)[0])

    def values(columns: F64) -> F64:
        return np.asarray((largest * (columns - columns.mean(axis=0)) - blas.product(M, columns)).T)  # M 1 = 0

    return _training_rows(store, values)


def _training_rows(store: RunStore, values: Callable[[F64], F64]) -> TrainingRows:
    """Training rows by a kernel's products with columns (n, l), as rows (l, n)."""
    vertex = store.read_array("vertex")
    return TrainingRows(vertex, MeanPlacer(vertex, values, lambda _, lengths: np.ones_like(lengths)))


def projector(store: RunStore, form: str) -> Rebuilt | BySpan:
    """What places new points by a finished run."""
    if store.needed(PairsRecord).n_landmarks is not None:
        return span_of(store)
    state = store.needed(WeightsRecord)
    find = partial(found_weights, kernel=kernel_of(state.fields, state.gamma), reg=state.fields.reg)
    rows, coordinates, order = rows_in(store), store.read_array(COORDINATES), store.read_array("order")
    if state.fields.kernel == GIVEN:
        found: Rebuilt = RebuiltByKernel(store, trained(store), find, coordinates, order, rows)
    else:
        kernel = searched_by(rows, state.fields)
        search = None if kernel is None else KernelSearch(rows, kernel, content_rank(store.read_array("digests")))
        found = Rebuilt(store, trained(store), find, coordinates, order, search)
    tell_of_far_rows(found, store, f", or rebuilt from some by weights above {MOST_WEIGHT:g}")
    return found


def tell_of_far_rows(found: Projector, store: RunStore, more: str = "") -> None:
    """Have a projector tell of rows that are far from all training rows, beside how far these are apart."""
    found.reach = FAR * longest_edge(store) or np.inf
    found.far = f"more than {found.reach:.3g} away from all training rows, twice the graph's longest edge{more}"


def span_of(store: RunStore) -> BySpan:
    """What places new points by their weights of landmarks."""
    chosen, metric = store.read_array(LANDMARKS), store.needed(NeighborsRecord).fields.metric
    check = None if is_function_name(metric) else domain_check(metric)
    weigh = partial(weights_of_landmarks, store, chosen)
    within, n_features = store.needed(PairsRecord).reach, store.needed(DataRecord).fields.n_features
    reach = np.inf if within is None else FAR * max(within, longest_edge(store))
    return BySpan(n_features, rows_in(store), weigh, store.read_array(MAP), check, reach)
