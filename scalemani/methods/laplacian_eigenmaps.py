"""Laplacian eigenmaps as kernel PCA, the normalised form and diffusion maps."""

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from scalemani.aliases import F64, I64
from scalemani.embedding.laplacian import Resistances, degrees, scale_of, weights_of_lengths
from scalemani.errors import ScalemaniError
from scalemani.methods.base import Method
from scalemani.methods.lle import span_of, tell_of_far_rows
from scalemani.methods.sibling_arguments import LaplacianParameters
from scalemani.methods.sibling_words import LaplacianWords, of_resistances
from scalemani.methods.words import Section
from scalemani.parameters import Parameters
from scalemani.points.reading import row_numbers
from scalemani.projection.by_neighbors import BySpan, MeanPlacer, NystromPlacer
from scalemani.projection.kernel_values import KERNEL_VALUES, TrainingRows
from scalemani.projection.projector import Placer, Projector
from scalemani.steps.base import Step
from scalemani.steps.graph import GraphStep, NeighborsStep, trained
from scalemani.steps.pair_records import PairsRecord
from scalemani.steps.pairs import COORDINATES, LaplacianAxes, weighted
from scalemani.storage.run import RunStore

MOST_SOLVES = 100  # for commute times on the page: as many points


class LaplacianMethod(Method):
    """Sources: Belkin & Niyogi 2003; Ham, Lee, Mika & Schölkopf 2004; Coifman & Lafon 2006."""

    projector = "scalemani.methods.laplacian_eigenmaps:projector"
    kernel = (
        "scalemani.methods.laplacian_eigenmaps:kernel_of_new_rows",
        "scalemani.methods.laplacian_eigenmaps:kernel_of_training_rows",
    )
    kernel_name = "L+"
    words = LaplacianWords()
    parameters = LaplacianParameters

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        return NeighborsStep(), GraphStep(), LaplacianAxes()

    def measured(self, run: Any, rows: I64) -> Sequence[Section]:
        """Squared distances on the map against commute times, where the fit could make the factor that they need."""
        state = run.store.needed(PairsRecord)
        if state.trace is None:
            return ()
        rows = rows[:: -(-len(rows) // MOST_SOLVES)]
        i, j = np.triu_indices(len(rows), 1)
        known, on_map = commute_times(run, rows[i], rows[j], state.fields.scale), run.embedding()[rows]
        return (of_resistances(known, ((on_map[i] - on_map[j]) ** 2).sum(axis=1), state.fields.scale),)


def projector(store: RunStore, form: str) -> Projector | BySpan:
    """What places new points by a finished run."""
    state = store.needed(PairsRecord)
    if state.n_landmarks is not None:
        return span_of(store)
    fields, walk = state.fields, bool(state.fields.normalized) or state.fields.alpha is not None
    placer = NystromPlacer(
        store.read_array(COORDINATES),
        _weigh(store, fields),
        # of a diffusion λ of the walk, which is 1 - μ of the normalised form
        np.array(state.eigenvalues) if fields.alpha is None else 1 - np.array(state.eigenvalues),
        walk,
    )
    return _near(store, placer)


def _near(store: RunStore, placer: Placer) -> Projector:
    """What places new points by the training points near them."""
    found = Projector(store, trained(store), placer)
    found.lost = "no weights to the training points by which they could be placed"
    tell_of_far_rows(found, store)
    return found


def _weigh(store: RunStore, fields: Any) -> Callable[[I64, F64], F64]:
    """Weights of the edges of new points, with the density divided out for a diffusion."""
    affinity, sigma = weighted(store, fields)
    sums = degrees(affinity)

    def weigh(vertices: I64, lengths: F64) -> F64:
        weights = weights_of_lengths(lengths, sigma)
        if fields.alpha is None:
            return weights
        own = weights.sum(axis=1, keepdims=True)
        return np.asarray(weights / (own * sums[vertices]) ** fields.alpha)

    return weigh


def kernel_of_new_rows(store: RunStore, form: str) -> Projector:
    """What gives the kernel of new rows, each as the mean of the training points that it touches."""
    found = _near(store, _kernel(store))
    found.gives = KERNEL_VALUES
    return found


def kernel_of_training_rows(store: RunStore, form: str) -> TrainingRows:
    """What gives rows of L+ of training rows."""
    return TrainingRows(store.read_array("vertex"), _kernel(store))


def _kernel(store: RunStore) -> MeanPlacer:
    """What places rows by L+, times the fit's scale; a solve for each, so that its bits are its own.

    Raises ScalemaniError: Of the normalised form, a diffusion, or a fit by landmarks.
    """
    state = store.needed(PairsRecord)
    if state.n_landmarks is not None or state.fields.normalized or state.fields.alpha is not None:
        raise ScalemaniError(
            "the kernel of Laplacian eigenmaps is L+ on all rows: fit without normalized, alpha and landmarks, or take "
            "the inner products of coordinates"
        )
    resistances = Resistances(weighted(store, state.fields)[0])
    multiple = scale_of(state.fields.scale, resistances.degree)

    def values(columns: F64) -> F64:
        return np.stack([multiple * resistances.pseudo_inverse(one[:, None])[:, 0] for one in columns.T])

    return MeanPlacer(store.read_array("vertex"), values, _weigh(store, state.fields))


_made: WeakKeyDictionary[Any, Resistances] = WeakKeyDictionary()  # of models, as long as these live
_making = Lock()


def _resistances(run: Any) -> Resistances:
    """Those of a model, with the factor that the first call makes."""
    with _making:
        if run not in _made:
            found = Resistances(weighted(run.store, run.store.needed(PairsRecord).fields)[0])
            _ = found.factor
            _made[run] = found
        return _made[run]


def commute_times(run: Any, rows: ArrayLike, columns: ArrayLike, scale: str) -> F64:
    """Of the user's rows, broadcast; NaN where one is not in the graph."""
    total = len(run.vertex)
    numbers = [row_numbers(np.ravel(part), total).reshape(np.shape(part)) for part in (rows, columns)]
    try:
        pairs = np.broadcast_arrays(*numbers)
    except ValueError:
        raise ScalemaniError(
            f"rows and columns have shapes {np.shape(rows)} and {np.shape(columns)}, which don't go together"
        ) from None
    i, j = (run.vertex[part] for part in pairs)
    known, out = (i >= 0) & (j >= 0), np.full(np.shape(i), np.nan)
    run.check_current()
    out[known] = _resistances(run).commute_times(i[known], j[known], scale)
    return out
