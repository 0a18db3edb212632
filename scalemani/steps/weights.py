"""Weights by which each point is rebuilt from its neighbours, found by blocks of points as tasks."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scalemani.aliases import F64, I64
from scalemani.embedding.isometric import MOST_NEGATIVE
from scalemani.embedding.kernel_functions import (
    FunctionKernel,
    Kernel,
    dense,
    function_kernel,
    grams_of_kernel,
    local_grams,
)
from scalemani.embedding.reconstruction import weights_of
from scalemani.errors import DamagedStoreError, ScalemaniError, ScalemaniWarning, warn
from scalemani.neighbors.lists import entries_of_rows
from scalemani.parameters import plain
from scalemani.points.rows import load_rows
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.features import usual_gamma
from scalemani.steps.graph import stored_lists
from scalemani.steps.pair_records import WeightsFields, WeightsRecord
from scalemani.steps.records import DataRecord, FitRecord
from scalemani.storage.audit import Fault
from scalemani.storage.run import RunStore, shared_run

INDPTR, INDICES, VALUES = "weights_indptr", "weights_indices", "weights_values"
ENTRIES = 1 << 22  # of neighbours' rows, or of their Gram matrices, in one task
EPS = float(np.finfo(np.float64).eps)
SAME = 1e-9  # of a weight, or of a kernel's value: other processors' sums
CHECKED = 64  # points whose weights are found again
SAMPLED = 200  # rows whose kernel values are looked at before a fit
MOST_LOST = 1e-5  # of squared distances to neighbours, in rounding: weights keep two digits at the usual ridge
FAINT = 1e-12  # of K(x, x): a value to another row, of which distances keep too few digits to order rows by
HALF, MANY = 0.5, 0.9  # of the points
GIVEN = "precomputed"
BEYOND = (
    "the kernel's values between most points and their neighbours are next to 0, as those between any two points are: "
    "which points are neighbours is chance; give a wider kernel (of 'rbf', a smaller gamma)"
)


class Weights(Step):
    """W, of I - W."""

    record, title = WeightsRecord, "weights"
    late = True
    from_distances = False
    arrays = {"weights_": "weights"}
    mends = {"weights": "finds them again"}

    def check_before(self, points: Any, parameters: Any) -> None:
        if points.kind not in ("features", "kernel"):
            raise ScalemaniError(
                f"metric={parameters.metric!r}: X holds distances, and weights are found from rows of features; give "
                "those with a metric of rows"
            )
        if not parameters.reg and parameters.kernel in (None, "linear") and parameters.n_neighbors > points.n_features:
            raise ScalemaniError(
                f"reg={parameters.reg} with n_neighbors={parameters.n_neighbors} and {points.n_features} features: "
                "more neighbours than features have many weights that rebuild a point; give a reg above 0, such as 1e-3"
            )
        check_kernel(points, parameters)

    def fields(self, parameters: Any, kind: str) -> WeightsFields:
        kernel = plain(parameters.kernel)
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
        own = lists.in_order(store.read_array("order"))
        return own.indptr, own.indices

    def _make(self, work: Work, fields: WeightsFields, indptr: I64, indices: I64) -> None:
        store, order = work.store, work.store.read_array("order")
        gamma = fields.gamma or 0.0
        if fields.kernel in ("rbf", "poly") and not gamma:
            gamma = 1.0 if fields.kernel == "poly" else usual_gamma(rows_in(store), order, 0)
        width = store.needed(DataRecord).fields.n_features
        step = max(1, ENTRIES // entries_of(int(np.diff(indptr).max()), width, fields.kernel))
        starts = range(0, len(order), step)
        shared = PointLists(indptr, indices, order, kernel_of(fields, gamma), fields.reg)
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
        lost, faint = shared.of(sampled(len(order)), values).digits(rows_in(store))
        check_digits(fields.kernel, lost)
        if faint.mean() > HALF:
            warn(BEYOND, ScalemaniWarning)
        for name, array in ((INDPTR, indptr), (INDICES, indices), (VALUES, values)):
            store.write_array(name, array)
        store.finish(WeightsRecord(fields=fields, gamma=gamma))

    def left(self, store: RunStore) -> set[str]:
        return {INDPTR, INDICES, VALUES} if store.record(WeightsRecord) is not None else set()

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Each point's weights add up to 1, and some are found again."""
        store, state = work.store, work.store.record(WeightsRecord)
        if state is None or any(name.startswith(("weights_", "points", "order")) for name in broken):
            return
        try:
            kernel = kernel_of(state.fields, state.gamma)
        except ScalemaniError:  # a function that is not known here
            return
        indptr, indices, values = (store.read_array(name) for name in (INDPTR, INDICES, VALUES))
        some = sampled(len(indptr) - 1)
        shared = PointLists(indptr, indices, store.read_array("order"), kernel, state.fields.reg).of(some, values)
        again = shared.weights(rows_in(store), 0, len(some))
        if (np.abs(again - shared.values) > SAME * np.abs(shared.values).max()).any():
            yield Fault("array", VALUES, "weights are not those of the points")

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        state = work.store.record(WeightsRecord)
        if waiting or state is None:
            return []
        try:
            indptr, indices = self._lists(work)
            function_kernel(state.fields.kernel)
        except (DamagedStoreError, ScalemaniError):  # of a function that is not known here
            work.store.forget("fit", "pairs", self.name)
            return ["left to the same fit with the same points, which goes on: the weights and the axes"]
        fit = work.store.record(FitRecord)
        self._make(work, state.fields, indptr, indices)
        if fit is not None:
            work.store.finish(fit)
        return ["the weights were found again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        state = store.needed(WeightsRecord)
        return {"kernel": state.fields.kernel, "gamma": state.gamma or None, "reg": state.fields.reg}

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """W, and neighbours' rows in tasks."""
        asked: Any = size.parameters
        k = int(asked.n_neighbors or 1)
        entries, each = size.n * k, entries_of(k, size.features, asked.kernel)
        task = 8 * 6 * min(max(ENTRIES, each), size.n * each)
        return Needs(
            client={"weights": 24 * entries},
            worker={"rows": size.points, f"tasks, {size.threads} at once": size.threads * task},
            disk=16 * entries + 8 * size.n,
        )


def entries_of(k: int, features: int, kernel: Any = None) -> int:
    """Numbers that a point's weights are found with: its neighbours' rows, or their Gram matrix if that is larger.

    Of given kernel values it is the point's own row.
    """
    return max(1, k * k, features + 1 if kernel == GIVEN else k * features)


def sampled(n: int) -> I64:
    """Some points, evenly spread."""
    return np.linspace(0, n - 1, min(n, CHECKED)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class PointLists:
    """What the tasks share: each point's list, and how weights are found.

    kernel: As :func:`kernel_of` gives it; a function goes along to the workers.
    targets: Points whose lists these are, where they are not all; values: their weights, where these are known.
    """

    indptr: I64
    indices: I64
    order: I64
    kernel: Any
    reg: float
    targets: I64 | None = field(default=None)
    values: F64 = field(default_factory=lambda: np.empty(0))

    def of(self, some: I64, values: F64) -> "PointLists":
        """The lists of some points, and their weights among those of all."""
        indptr, at = entries_of_rows(self.indptr, some)
        return replace(self, indptr=indptr, indices=self.indices[at], targets=some, values=values[at])

    def weights(self, rows: Any, start: int, stop: int) -> F64:
        """Those of the lists from `start` to `stop`, one after another."""
        out = np.empty(int(self.indptr[stop] - self.indptr[start]))
        for _, places, targets, listed in self._by_count(rows, start, stop):
            out[places] = found_weights(rows, targets, listed, self.kernel, self.reg)
        return out

    def digits(self, rows: Any) -> tuple[F64, NDArray[np.bool_]]:
        """The share of each point's squared distances to its neighbours that is rounding; whether values are faint."""
        lost, faint = np.zeros(len(self.indptr) - 1), np.zeros(len(self.indptr) - 1, bool)
        for here, _, targets, listed in self._by_count(rows, 0, len(lost)):
            values, own = near_values(rows, targets, listed, self.kernel)
            if own is not None:
                near = np.trace(grams_of(rows, targets, listed, self.kernel), axis1=1, axis2=2) / listed.shape[1]
                lost[here], faint[here] = lost_share(own, near), is_faint(values, own)
        return lost, faint

    def _by_count(self, rows: Any, start: int, stop: int) -> Iterator[tuple[I64, I64, Any, I64]]:
        """Points with equally many neighbours, where their weights go, what they are by, and their neighbours."""
        points = self.order[start:stop] if self.targets is None else self.order[self.targets[start:stop]]
        counts = np.diff(self.indptr[start : stop + 1])
        at = np.concatenate([[0], np.cumsum(counts)])
        for count in np.unique(counts[counts > 0]).tolist():
            here = np.flatnonzero(counts == count)
            places = at[here][:, None] + np.arange(count)
            targets = rows[points[here]]
            if self.kernel == GIVEN:
                targets = np.column_stack([targets, rows[points[here], points[here]]])
            yield here, places, targets, self.order[self.indices[self.indptr[start] + places]]


def kernel_of(fields: WeightsFields, gamma: float) -> Kernel | FunctionKernel | str | None:
    """The kernel of a fit; its name where its values are given, None of rows themselves."""
    if fields.kernel in ("rbf", "poly"):
        return Kernel(fields.kernel, gamma, fields.degree or 0.0, fields.coef0 or 0.0)
    return GIVEN if fields.kernel == GIVEN else function_kernel(fields.kernel)


def grams_of(rows: Any, targets: Any, listed: I64, kernel: Any) -> F64:
    """Local Gram matrices (m, k, k); of given values `rows` are K (n, n), and `targets` (m, n + 1) end with K(t, t)."""
    if kernel == GIVEN:
        return grams_of_kernel(rows, listed, targets[:, :-1], targets[:, -1])
    return local_grams(rows, targets, listed, kernel)


def near_values(rows: Any, targets: Any, listed: I64, kernel: Any) -> tuple[Any, Any]:
    """K(t, x) (m, k) of the neighbours and K(t, t) (m,), where both are None distances are not made of them."""
    if kernel == GIVEN:
        return np.take_along_axis(targets[:, :-1], listed, axis=1), targets[:, -1]
    if not isinstance(kernel, FunctionKernel) and getattr(kernel, "name", "") != "poly":
        return None, None
    near = [kernel.values(*map(dense, (targets[[at]], rows[some])))[0] for at, some in enumerate(listed)]
    return np.array(near, np.float64), kernel.own(dense(targets))


def is_faint(values: F64, own: F64) -> Any:
    """Whether a row has next to no kernel value to all its neighbours."""
    return np.abs(values).max(axis=1) < FAINT * np.abs(own)


def found_weights(rows: Any, targets: Any, listed: I64, kernel: Any, reg: float) -> F64:
    """Weights (m, k) of rows listed[i] that rebuild each target."""
    return weights_of(grams_of(rows, targets, listed, kernel), reg)


def lost_share(sizes: F64, squares: F64, eps: float = EPS) -> F64:
    """Of squared distances, found as differences of kernel values of some size, what is rounding; inf where all is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(squares > 0, eps * np.abs(sizes) / squares, np.inf))


def check_digits(kernel: Any, lost: F64) -> None:
    """Refuse kernel values that are so much larger than their differences that these are rounding.

    Raises ScalemaniError: One line: how much is lost, and what to do.
    """
    if (share := float(np.quantile(lost, MANY, method="higher"))) > MOST_LOST:  # between two infs there is none
        what = "make K of rows" if kernel == GIVEN else "give rows"
        said = f"differences of much larger values, and rounding is a share of {share:.0e} of them"
        raise ScalemaniError(
            f"kernel={kernel!r}: squared distances between neighbours are {said if share < 1 else '0 or rounding'}: "
            f"{what} whose columns have mean 0 and standard deviation 1"
        )


def check_kernel(points: Any, parameters: Any) -> None:
    """Refuse values between some of the rows that are no kernel's, or lost in rounding.

    Weights see differences of rows alone: values are centred before their eigenvalues are looked at.

    Raises ScalemaniError: One line: what is wrong, and what to do.
    """
    own, kernel, eps = function_kernel(parameters.kernel), parameters.kernel, EPS
    if own is None and kernel not in ("poly", GIVEN):
        return
    some = np.sort(np.random.default_rng(0).permutation(points.n_distinct)[:SAMPLED])
    if points.kind == "kernel":
        K, eps = points.kernel[np.ix_(some, some)], max(eps, points.eps)
    elif own is None:
        poly = Kernel("poly", parameters.gamma or 1.0, float(parameters.degree), float(parameters.coef0))
        K = poly.values(*[dense(points.points.rows[some])] * 2)
    else:
        kernel, K = own.name, _called(own, dense(points.points.rows[some]))
    if not np.isfinite(K).all():
        raise ScalemaniError(f"kernel={kernel!r}: values on these rows are not finite; give a smaller degree or gamma")
    centered = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values = np.linalg.eigvalsh((centered + centered.T) / 2)
    negative = -float(values[values < 0].sum()) / max(float(np.abs(values).sum()), 1e-300)
    if negative > MOST_NEGATIVE and values[0] < -8 * eps * len(K) * np.abs(K).max():
        raise ScalemaniError(
            f"kernel={kernel!r}: {100 * negative:.2g} % of the eigenvalues' moduli are negative on {len(K)} rows, so "
            "it is no kernel on these rows; use another one or other parameters"
        )
    squares = np.add.outer(np.diagonal(K), np.diagonal(K)) - 2 * K
    np.fill_diagonal(squares, np.inf)
    near = np.sort(squares, axis=1)[:, : min(int(parameters.n_neighbors), len(K) - 1)].mean(axis=1)
    check_digits(kernel, lost_share(np.diagonal(K), near, eps))


def _called(kernel: FunctionKernel, rows: F64) -> F64:
    """Values of a function between rows, unless they hang on more than two rows and their order."""
    given = rows.copy()
    K, before = kernel(rows, rows), repr(kernel)  # now: what it makes once, when it is first called, is no change
    slack = SAME * np.abs(K).max()
    for wrong, rule in (
        (rows != given, "changes the rows that it is given; let it work on copies"),
        (np.abs(K - K.T) > slack, "is not symmetric: K(x, y) is K(y, x); give (k(x, y) + k(y, x)) / 2"),
        (
            np.abs(kernel(rows[::2], rows[1::2]) - K[::2, 1::2]) > slack,
            "gives other values for the same two rows in other blocks: a value follows from its two rows alone",
        ),
        (
            np.array(repr(kernel) != before),
            "changes what it uses when it is called (a counter, a cache?), so that it can't be told from another "
            "function: take that out",
        ),
    ):
        if wrong.any():
            raise ScalemaniError(f"kernel={kernel.name!r} {rule}")
    return K


def rows_in(store: RunStore) -> Any:
    """The distinct rows, read once in each process."""
    return _rows(store.path, store.identity)


@lru_cache(maxsize=1)
def _rows(path: str, identity: str) -> Any:
    store = shared_run(path, identity)
    data = store.needed(DataRecord)
    rows = load_rows(store, [data.n_distinct, data.fields.n_features])
    return rows if issparse(rows) else np.asarray(rows)


def _weights(path: str, identity: str, start: int, stop: int, lists: PointLists) -> F64:
    return lists.weights(rows_in(shared_run(path, identity)), start, stop)
