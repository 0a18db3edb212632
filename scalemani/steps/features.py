"""The features that a linear map is made of: the directions in which those of the training points vary.

They are the columns of X (``kernel="linear"``), or kernel values to all training points, or to m of them (Nyström).
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.spatial.distance import pdist

from scalemani.aliases import F32, F64, I64
from scalemani.embedding.isometric import (
    FEW_ENTRIES,
    LEADING,
    MOST_COLUMNS,
    MOST_NEGATIVE,
    Basis,
    basis_of_gram,
    basis_of_rows,
    centered_product,
    contrast,
    landmark_map,
    panels,
)
from scalemani.embedding.kernel_functions import Kernel, rounding_of_gaps, squared_distances
from scalemani.errors import ScalemaniError
from scalemani.kernel import blas
from scalemani.points.rows import load_rows
from scalemani.steps.base import ByKind, FitSize, Needs, Step, Work
from scalemani.steps.map_records import FeaturesFields, FeaturesRecord, MapRecord
from scalemani.steps.records import DataRecord, DistancesRecord, FitRecord
from scalemani.storage.arrays import array_bytes
from scalemani.storage.run import RunStore

MEAN, LOADINGS, SPREAD, REFERENCES = "feature_mean", "feature_loadings", "feature_spread", "feature_references"
PROJECTED = "projected_kernel"  # M, which the map is made of
LEAST_CONTRAST = 1e-8  # of kernel values
MOST_ROUNDING = 1e-8  # of the exponents of a Gaussian kernel
SAMPLED = 1000  # rows whose median distance is the width of a Gaussian kernel
CANDIDATES = 10  # rows that are drawn for each of Nyström's; those farthest from one another are kept


class Features(Step):
    """The directions in which the features vary."""

    record, title = FeaturesRecord, "features"
    arrays = {"feature_": "features"}
    mends = {"features": "makes them again"}

    def check_before(self, points: Any, parameters: Any) -> None:
        """There are rows of features, and as many as Nyström's rows."""
        if points.kind not in ("features", "kernel"):
            raise ScalemaniError(
                f"metric={parameters.metric!r}: X holds distances, and a map of features needs rows of features; give "
                "those with a metric of rows"
            )
        if parameters.stores and points.class_starts is not None:
            what = "keep_distances=True" if parameters.keep_distances else "distances='stored'"
            what = "ridge='loo'" if parameters.ridge == "loo" else what
            raise ScalemaniError(f"{what} with labels: distances are found only within classes; leave one of them out")
        if parameters.nystrom is not None and parameters.nystrom > points.n_distinct:
            raise ScalemaniError(
                f"nystrom={parameters.nystrom}: X has {points.n_distinct} distinct rows; give that many or fewer"
            )

    def fields(self, parameters: Any, kind: str) -> FeaturesFields:
        linear = parameters.kernel == "linear"
        return FeaturesFields(
            kernel=parameters.kernel,
            gamma=None if linear or parameters.gamma is None else float(parameters.gamma),
            degree=float(parameters.degree) if parameters.kernel == "poly" else None,
            coef0=float(parameters.coef0) if parameters.kernel in ("poly", "sigmoid") else None,
            nystrom=None if linear or parameters.nystrom is None else int(parameters.nystrom),
            random_state=None if parameters.nystrom is None else parameters.random_state,
        )

    def run(self, work: Work) -> None:
        """Make them of the rows of X, unless they are there."""
        store = work.store
        if store.record(FeaturesRecord) is None:
            work.report(self.name, 0, 1)
            parameters: Any = work.parameters
            self._make(work, self.fields(parameters, ""), indefinite=parameters.indefinite)
            work.report(self.name, 1, 1)
        asked: Any = work.parameters
        if asked.stores and PROJECTED not in store.document.arrays:
            work.consumers[PROJECTED] = ProjectedKernel(left_vectors(work).astype(np.float32))

    def _make(self, work: Work, fields: FeaturesFields, indefinite: str) -> None:
        store = work.store
        order, seed = store.read_array("order"), fields.random_state or 0
        given = None if work.points is None else getattr(work.points, "kernel", None)  # values, in the place of rows
        rows: Any = rows_of(work) if given is None else None
        references, gamma = np.empty(0, np.int64), 0.0
        if fields.kernel == "linear":
            basis = basis_of_rows(rows, seed, order)
        else:
            usual = fields.kernel in ("rbf", "sigmoid")
            gamma = fields.gamma or (usual_gamma(rows, order, seed) if usual else 1.0)
            kernel = kernel_of(fields, gamma)
            if fields.kernel == "rbf" and issparse(rows) and gamma * rounding_of_gaps(rows) > MOST_ROUNDING:
                raise ScalemaniError(
                    "kernel='rbf' with sparse X: its rows lie so far from 0 that differences between them are lost in "
                    "rounding; bring X nearer to 0, or give it dense"
                )
            if fields.nystrom is None:
                references = order
                gram = _values(kernel, rows, order, order) if given is None else given[np.ix_(order, order)]
                _check_values(gram, fields)
                basis = basis_of_gram(gram)
            else:
                references = _spread_out(rows, order, fields.nystrom, seed)
                square = kernel.values(rows[references], rows[references])
                _check_values(square, fields)
                within, negative = landmark_map(square)
                values = _values(kernel, rows, order, references)
                inner = basis_of_rows(blas.product(values, within))
                # of K(t, Z) itself, whose product with B are the features
                basis = Basis(values.mean(axis=0), blas.product(within, inner.loadings), inner.spread, negative)
            if basis.negative > MOST_NEGATIVE and indefinite != "drop":
                raise ScalemaniError(
                    f"kernel={fields.kernel!r}: {100 * basis.negative:.2g} % of the eigenvalues' moduli are negative, "
                    "so it is no kernel on these rows; use another one or other parameters, or indefinite='drop' to "
                    "leave them out"
                )
        if not basis.rank:
            raise ScalemaniError("X has rows that don't differ in any feature: there is no direction to map")
        for name, values in ((MEAN, basis.mean), (LOADINGS, basis.loadings), (SPREAD, basis.spread)):
            store.write_array(name, values)
        store.write_array(REFERENCES, references)
        store.finish(
            FeaturesRecord(
                fields=fields,
                gamma=gamma,
                rank=basis.rank,
                width=len(basis.mean),
                n_references=len(references),
                negative=basis.negative,
            )
        )

    def left(self, store: RunStore) -> set[str]:
        return {MEAN, LOADINGS, SPREAD, REFERENCES} if store.record(FeaturesRecord) is not None else set()

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """From the rows that the store has."""
        store, state = work.store, work.store.record(FeaturesRecord)
        if waiting or state is None:
            return []
        if state.fields.kernel == "precomputed":  # not stored
            gone = () if store.has_distances else (DistancesRecord.STEP,)
            store.forget(FitRecord.STEP, MapRecord.STEP, self.name, *gone)
            return ["left to the same fit with the same kernel values, which goes on: the features' directions"]
        before, fit, linear = store.document.arrays, store.record(FitRecord), state.fields.kernel == "linear"
        self._make(work, state.fields, indefinite="drop")  # whoever asked for an error had none
        names = {MEAN, LOADINGS, SPREAD} | (set() if linear else {REFERENCES})
        if any(store.document.arrays[name] != before.get(name) for name in names):  # by another processor
            store.forget(FitRecord.STEP, MapRecord.STEP, *(() if store.has_distances else (DistancesRecord.STEP,)))
            store.remove_array(PROJECTED)
            return ["the features' directions were made again, and differ; the same fit makes what follows from them"]
        if fit is not None:
            store.finish(fit)
        return ["the features' directions were made again"]

    def account(self, store: RunStore) -> dict[str, Any]:
        """The kernel, and how many directions there are."""
        state = store.needed(FeaturesRecord)
        return {
            "kernel": state.fields.kernel,
            "gamma": state.gamma if state.fields.kernel != "linear" else None,
            "rank": state.rank,
            "n_references": state.n_references,
            "negative_share": state.negative,
        }

    # ---- what it will take ----

    def needs(self, size: FitSize, cut: Any) -> Needs:
        """A kernel matrix with its eigenvectors, or U, and R of the rows' QR."""
        n, rank, width = size.n, most_directions(size), feature_count(size)
        parameters: Any = size.parameters
        if parameters.kernel != "linear" and parameters.nystrom is None:
            return Needs(
                client={"kernel matrix and eigenvectors": 5 * 8 * n * n},
                remedies=fewer_directions(size),
                disk=array_bytes(n, 8 * rank),
            )
        most = n if width <= MOST_COLUMNS or n * width <= FEW_ENTRIES else LEADING
        return Needs(
            client={"directions": 2 * 8 * n * rank, "their factors": 6 * 8 * width * min(width, n, most)},
            disk=array_bytes(width, 8 * rank),
        )


class ProjectedKernel:
    """U' (D∘D) U of the upper tiles, those on the diagonal by half: a consumer, and its own part.

    left (n, r): U.
    """

    def __init__(self, left: F32, blocks: Any = None) -> None:
        self._left, self._blocks = left, blocks
        self.result = None if blocks is None else np.zeros((left.shape[1],) * 2)

    def begin(self, store: RunStore, row: int) -> "ProjectedKernel":
        """Nothing taken yet."""
        return ProjectedKernel(self._left, store.blocks)

    def take(self, row: int, column: int, tile: F32) -> None:
        """One tile's part, added up in float32 within it."""
        squares = tile * tile if row != column else np.float32(0.5) * tile * tile
        products = blas.product(squares, self._left[self._blocks[column]])
        self.result += blas.product(self._left[self._blocks[row]].T.astype(np.float64), products.astype(np.float64))

    def combine(self, total: F64, part: F64) -> None:
        """Add them."""
        total += part


def fewer_directions(size: FitSize) -> list[str]:
    """What to ask for instead of kernel values to all rows."""
    asked: Any = size.parameters
    whole = asked.kernel != "linear" and asked.nystrom is None
    return ["give nystrom=500, which stands for all rows by some"] if whole else []


def feature_count(size: FitSize) -> int:
    """Features: columns of X, or rows whose kernel values they are."""
    asked: Any = size.parameters
    return size.features if asked.kernel == "linear" else int(asked.nystrom or size.n)


def most_directions(size: FitSize) -> int:
    """Directions of the features at the most, before they are known."""
    n, p, parameters = size.n, size.features, size.parameters
    asked: Any = parameters
    if asked.kernel != "linear":
        return int(asked.nystrom or n - 1)
    whole = p <= MOST_COLUMNS or n * p <= FEW_ENTRIES
    return max(1, min(p, n - 1) if whole else min(LEADING, n - 1))


def rows_of(work: Work) -> Any:
    """The distinct rows: of X, or as a store has them."""
    if work.points is not None:
        return work.points.points.rows
    data = work.store.needed(DataRecord)
    return load_rows(work.store, [data.n_distinct, data.fields.n_features])


def kernel_of(fields: FeaturesFields, gamma: float) -> Kernel:
    """The kernel function of a fit."""
    return Kernel(fields.kernel, gamma, fields.degree or 0.0, fields.coef0 or 0.0)


def basis_in(store: RunStore) -> Basis:
    """The directions of a run that has them."""
    state = store.needed(FeaturesRecord)
    mean, loadings, spread = (store.read_array(name) for name in (MEAN, LOADINGS, SPREAD))
    return Basis(mean, loadings, spread, state.negative)


def left_vectors(work: Work) -> F64:
    """U (n, r) in vertex order, from the rows and what is stored: the same bits in a fit that goes on."""
    if "left" in work.made:
        found: F64 = work.made["left"]
        return found
    store, basis = work.store, basis_in(work.store)
    state, order = store.needed(FeaturesRecord), store.read_array("order")
    linear = state.fields.kernel == "linear"
    if not linear and state.fields.nystrom is None:
        left = basis.loadings * basis.spread  # eigenvectors of K
    else:
        rows, left = rows_of(work), np.empty((len(order), basis.rank))
        references = None if linear else rows[store.read_array(REFERENCES)]
        for here in panels(len(left), len(basis.mean)):
            part = rows[order[here]]
            if references is not None:
                part = kernel_of(state.fields, state.gamma).values(part, references)
            left[here] = centered_product(part, basis.mean, basis.loadings) / basis.spread
    left -= left.mean(axis=0)  # the mean's rounding matters in the directions of least spread
    work.made["left"] = left
    return left


def _values(kernel: Kernel, rows: Any, order: I64, references: I64) -> F64:
    """K of the rows in vertex order and some of them."""
    others, out = rows[references], np.empty((len(order), len(references)))
    for here in panels(len(order), len(references)):
        out[here] = kernel.values(rows[order[here]], others)
    return out


def usual_gamma(rows: Any, order: I64, seed: int) -> float:
    """1 / median² of the distances in a sample of the rows."""
    some = rows[_sample(order, SAMPLED, seed)]
    median = float(np.median(pdist(some.toarray() if issparse(some) else some))) if some.shape[0] > 1 else 0.0
    if not median > 0:
        raise ScalemaniError("gamma=None: the median distance of a sample of the rows is 0; give gamma a number")
    return 1 / median**2


def _check_values(gram: F64, fields: FeaturesFields) -> None:
    """Refuse kernel values that are not finite, or that hardly differ from row to row."""
    remedy = "bring X nearer to 0 and to a size of 1, or give other parameters of the kernel"
    if fields.degree is not None and fields.degree % 1:
        remedy = "give a whole degree, or a larger coef0: powers of negative numbers are not numbers"
    if not np.isfinite(gram).all():
        raise ScalemaniError(f"kernel={fields.kernel!r}: its values on these rows are not finite; {remedy}")
    if (differ := contrast(gram)) < LEAST_CONTRAST:
        raise ScalemaniError(
            f"kernel={fields.kernel!r}: its values differ from row to row by {differ:.0e} of their size, less than "
            f"rounding leaves; {remedy}"
        )


def _spread_out(rows: Any, order: I64, count: int, seed: int) -> I64:
    """Distinct rows, each the farthest from those before it, among a sample of ten times as many."""
    if count > len(order):
        raise ScalemaniError(f"nystrom={count}: {len(order)} rows are in the graph; give that many or fewer")
    candidates = _sample(order, CANDIDATES * count, seed)
    some = rows[candidates]
    chosen, far = [0], np.full(len(candidates), np.inf)
    for _ in range(count - 1):
        far = np.minimum(far, squared_distances(some, some[chosen[-1] : chosen[-1] + 1])[:, 0])
        chosen.append(int(far.argmax()))
    return np.sort(candidates[chosen])


def _sample(order: I64, count: int, seed: int) -> I64:
    """Some of the rows, ascending; all if there are no more."""
    return np.sort(np.random.default_rng(seed).choice(order, min(len(order), count), replace=False))
