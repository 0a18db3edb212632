"""Weights by which each point is rebuilt from its neighbours, found by blocks of points as tasks."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from scalemani.aliases import F64, I64
from scalemani.embedding.kernel_functions import Kernel, local_grams
from scalemani.embedding.reconstruction import weights_of
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.points.rows import load_rows
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.features import usual_gamma
from scalemani.steps.graph import stored_lists
from scalemani.steps.listed import lists_of
from scalemani.steps.pair_records import WeightsFields, WeightsRecord
from scalemani.steps.records import DataRecord, FitRecord, GraphRecord
from scalemani.storage.audit import Fault
from scalemani.storage.run import RunStore, shared_run

INDPTR, INDICES, VALUES = "weights_indptr", "weights_indices", "weights_values"
ENTRIES = 1 << 22  # of neighbours' rows, or of their Gram matrices, in one task
SAME = 1e-9  # of a weight: other processors' sums
CHECKED = 64  # points whose weights are found again


class Weights(Step):
    """W, of I - W."""

    record, title = WeightsRecord, "weights"
    late = True
    from_distances = False
    arrays = {"weights_": "weights"}
    mends = {"weights": "finds them again"}

    def check_before(self, points: Any, parameters: Any) -> None:
        """Rows of features."""
        if points.kind != "features":
            raise ScalemaniError(
                f"metric={parameters.metric!r}: X holds distances, and weights are found from rows of features; give "
                "those with a metric of rows"
            )
        if not parameters.reg and parameters.kernel in (None, "linear") and parameters.n_neighbors > points.n_features:
            raise ScalemaniError(
                f"reg={parameters.reg} with n_neighbors={parameters.n_neighbors} and {points.n_features} features: "
                "more neighbours than features have many weights that rebuild a point; give a reg above 0, such as 1e-3"
            )

    def fields(self, parameters: Any, kind: str) -> WeightsFields:
        """Kernel and ridge."""
        kernel = parameters.kernel
        return WeightsFields(
            kernel=None if kernel == "linear" else kernel,
            gamma=None if parameters.gamma is None else float(parameters.gamma),
            degree=float(parameters.degree) if kernel == "poly" else None,
            coef0=float(parameters.coef0) if kernel == "poly" else None,
            reg=float(parameters.reg),
        )

    def run(self, work: Work) -> None:
        """Find them, unless they are there."""
        if self.done(work):
            return
        indptr, indices = self._lists(work)
        work.store.forget("fit", "pairs", self.name)
        self._make(work, self.fields(work.parameters, work.points.kind), indptr, indices)

    def _lists(self, work: Work) -> tuple[I64, I64]:
        """The points' lists by vertices: of earlier weights, as they were stored, or searched for again."""
        store = work.store
        if store.record(WeightsRecord) is not None:
            try:
                return store.read_array(INDPTR), store.read_array(INDICES)
            except DamagedStoreError:
                pass
        try:
            lists = stored_lists(store)
        except DamagedStoreError:
            if work.points is None:
                raise
            lists = work.points.lists(work.parameters)
        return lists_of(lists, store.read_array("order"), store.needed(DataRecord).n_distinct)

    def _make(self, work: Work, fields: WeightsFields, indptr: I64, indices: I64) -> None:
        store, order = work.store, work.store.read_array("order")
        gamma = fields.gamma or 0.0
        if fields.kernel in ("rbf", "poly") and not gamma:
            gamma = 1.0 if fields.kernel == "poly" else usual_gamma(rows_in(store), order, 0)
        step = max(1, ENTRIES // entries_of(int(np.diff(indptr).max()), store.needed(DataRecord).fields.n_features))
        starts = range(0, len(order), step)
        shared = Lists(indptr, indices, order, fields, gamma)
        tasks = [(store.path, store.identity, start, min(start + step, len(order))) for start in starts]
        values = np.empty(len(indices))
        for done, found in enumerate(work.cluster.map(_weights, tasks, shared=shared)):
            start, stop = tasks[done][2:]
            values[indptr[start] : indptr[stop]] = found
            work.report(self.name, done + 1, len(tasks))
        if not np.isfinite(values).all():
            raise ScalemaniError(
                f"kernel={fields.kernel!r}: values on these rows are not finite; give a smaller degree or gamma"
            )
        for name, array in ((INDPTR, indptr), (INDICES, indices), (VALUES, values)):
            store.write_array(name, array)
        store.finish(WeightsRecord(fields=fields, gamma=gamma))

    def left(self, store: RunStore) -> set[str]:
        """The weights."""
        return {INDPTR, INDICES, VALUES} if store.record(WeightsRecord) is not None else set()

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Each point's weights add up to 1, and some are found again."""
        store, state = work.store, work.store.record(WeightsRecord)
        if state is None or any(name.startswith(("weights_", "points", "order")) for name in broken):
            return
        matrix = weight_matrix(store)
        some = np.linspace(0, matrix.shape[0] - 1, CHECKED).astype(np.int64)
        part = matrix[some]
        shared = Lists(part.indptr, part.indices, store.read_array("order"), state.fields, state.gamma, some)
        again = shared.weights(rows_in(store), 0, len(some))
        if (np.abs(again - part.data) > SAME * np.abs(part.data).max()).any():
            yield Fault("array", VALUES, "weights are not those of the points")

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """From the lists."""
        state = work.store.record(WeightsRecord)
        if waiting or state is None:
            return []
        try:
            indptr, indices = self._lists(work)
        except DamagedStoreError:
            work.store.forget("fit", "pairs", self.name)
            return ["left to the same fit with the same points, which goes on: the weights and the axes"]
        fit = work.store.record(FitRecord)
        self._make(work, state.fields, indptr, indices)
        if fit is not None:
            work.store.finish(fit)
        return ["the weights were found again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """The kernel."""
        state = store.needed(WeightsRecord)
        return {"kernel": state.fields.kernel, "gamma": state.gamma or None, "reg": state.fields.reg}

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """W, and neighbours' rows in tasks."""
        k = int(size.parameters.n_neighbors or 1)
        entries, each = size.n * k, entries_of(k, size.features)
        task = 8 * 6 * min(max(ENTRIES, each), size.n * each)
        return Needs(
            client={"weights": 24 * entries},
            worker={"rows": size.points, f"{size.threads} tasks": size.threads * task},
            disk=16 * entries + 8 * size.n,
        )


def entries_of(k: int, features: int) -> int:
    """Numbers that a point's weights are found with: its neighbours' rows, or their Gram matrix if that is larger."""
    return max(1, k * max(k, features))


@dataclass(frozen=True, eq=False)
class Lists:
    """What the tasks share: each point's list, and how weights are found.

    targets: Points whose lists these are, where they are not all.
    """

    indptr: I64
    indices: I64
    order: I64
    fields: WeightsFields
    gamma: float
    targets: I64 | None = field(default=None)

    def weights(self, rows: Any, start: int, stop: int) -> F64:
        """Those of the lists from `start` to `stop`, one after another."""
        points = self.order[start:stop] if self.targets is None else self.order[self.targets[start:stop]]
        counts = np.diff(self.indptr[start : stop + 1])
        out = np.empty(int(counts.sum()))
        at = np.concatenate([[0], np.cumsum(counts)])
        for count in np.unique(counts[counts > 0]).tolist():
            here = np.flatnonzero(counts == count)
            places = at[here][:, None] + np.arange(count)
            listed = self.order[self.indices[self.indptr[start] + places]]
            out[places] = found_weights(rows, rows[points[here]], listed, self.fields, self.gamma)
        return out


def found_weights(rows: Any, targets: Any, listed: I64, fields: WeightsFields, gamma: float) -> F64:
    """Weights (m, k) of rows listed[i] that rebuild each target."""
    kernel = None
    if fields.kernel in ("rbf", "poly"):
        kernel = Kernel(fields.kernel, gamma, fields.degree or 0.0, fields.coef0 or 0.0)
    return weights_of(local_grams(rows, targets, listed, kernel), fields.reg)


def weight_matrix(store: RunStore) -> csr_array:
    """W (n, n), in vertex order."""
    indptr, indices, values = (store.read_array(name) for name in (INDPTR, INDICES, VALUES))
    n = store.needed(GraphRecord).n_vertices
    return csr_array((values, indices, indptr), shape=(n, n))


def rows_in(store: RunStore) -> Any:
    """The distinct rows, read once in each process."""
    return _rows(store.path, store.identity)


@lru_cache(maxsize=1)
def _rows(path: str, identity: str) -> Any:
    store = shared_run(path, identity)
    data = store.needed(DataRecord)
    rows = load_rows(store, [data.n_distinct, data.fields.n_features])
    return rows if issparse(rows) else np.asarray(rows)


def _weights(path: str, identity: str, start: int, stop: int, lists: Lists) -> F64:
    """One task."""
    return lists.weights(rows_in(shared_run(path, identity)), start, stop)
