"""Stage 8, as tasks: takes the key of a fitted model and rows, gives their coordinates, in any process.

A process makes the projector of a model once, from its store, and keeps it. The key changes when
the store is fitted again, so that no process answers for another solution.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.engine.forks import FIT, doing
from scalemani.engine.shared_runs import shared_run
from scalemani.projection import Attachments, Projector
from scalemani.search.metric_functions import import_for

ModelKey = tuple[str, str, str, str, str]
"""Path of the store, id of its run, revision of its solution, form of the projection, and the module of a metric that
is a function, which the user's process has imported ("" for none): a store alone does not say what is imported."""


class LazyProjection:
    """The function of a lazy result; it keeps a temporary run's folder, and travels without it."""

    def __init__(self, key: ModelKey, total: int, folder: Any) -> None:
        self._key, self._total, self._folder = key, total, folder

    def __call__(self, block: Any, block_info: Any = None) -> NDArray[np.float64]:
        start = block_info[0]["array-location"][0][0] if block_info else 0
        with doing(FIT):
            rows = validated(self._key, block, 0 if np.isnan(start) else int(start))
            return project(self._key, rows, shared_projector(*self._key).way(self._total))

    def __getstate__(self) -> dict[str, Any]:
        return {"_key": self._key, "_total": self._total, "_folder": None}

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return *self._key, self._total


@lru_cache(maxsize=4)
def shared_projector(path: str, identity: str, revision: str, form: str, module: str) -> Projector:
    """The projector of a model, made once in each process."""
    if module:
        import_for(module)
    return Projector(shared_run(path, identity), form)


def validated(key: ModelKey, block: Any, start: int = 0) -> Any:
    """A block checked as a test set; `start` is its first row's number."""
    projector = shared_projector(*key)
    pieces = [piece for _, piece in projector.blocks(block, "X", start)]
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return np.empty((0, projector.n_features))
    return sp.csr_array(sp.vstack(pieces)) if sp.issparse(pieces[0]) else np.concatenate(pieces)


def way_for(key: ModelKey, total: int) -> str:
    """One task: the way to search for the neighbours of a test set of so many rows."""
    return shared_projector(*key).way(total)


def recall_of(key: ModelKey, block: Any) -> float:
    """One task: the share of the true neighbours of a validated block that an index finds."""
    return shared_projector(*key).search.recall(block)


def attach(key: ModelKey, block: Any, way: str) -> Attachments:
    """One task: where the rows of a validated block touch the training points."""
    return shared_projector(*key).attach(block, way)


def place(key: ModelKey, found: Attachments) -> NDArray[np.float64]:
    """One task: coordinates of attached rows."""
    return shared_projector(*key).place(found)


def project(key: ModelKey, block: Any, way: str) -> NDArray[np.float64]:
    """One task: coordinates of a validated block."""
    return shared_projector(*key).coordinates(block, way)
