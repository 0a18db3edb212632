"""Which kernel and how many neighbours: planes of kernel LLE, by how a linear SVM tells the labelled rows apart there.

Rows without a label take part in the planes alone. Each plane's errors are counted in three ways. DeCoste chose by the
training error. Cross-validation of the SVM alone is too low as well: the plane has seen all rows. So the choice is by
a third: plane and SVM are made without a fold, and the fold is placed in the plane as new rows are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted, column_or_1d

from scalemani.aliases import I64
from scalemani.embedding.kernel_functions import FunctionKernel
from scalemani.errors import ScalemaniError, SolverError, keeping_warnings, unknown
from scalemani.estimators.lle import LLE
from scalemani.estimators.tried_kernels import Choice as Choice
from scalemani.estimators.tried_kernels import Tried as Tried
from scalemani.methods.isometric_arguments import positive
from scalemani.methods.sibling_arguments import KERNELS
from scalemani.neighbors.metrics import GIVEN_METRICS
from scalemani.points.classes import read_some_labels
from scalemani.points.reading import row_blocks
from scalemani.progress import reporting

USUAL_KERNELS, USUAL_NEIGHBORS = ("linear", "rbf"), (5, 8, 12, 20)
OPTIONS = (  # that may be tried, and where it is done
    *("kernel", "gamma", "degree", "coef0", "reg", "metric", "metric_params", "knn"),
    *("scheduler", "memory_limit"),
)


@dataclass(eq=False, repr=False)
class KernelChoice(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """The plane of :func:`choose_kernel`'s best kernel and number of neighbours, and the SVM that classifies in it.

    Some kernels and numbers of neighbours make no plane: too few rows are left without a fold, or LLE refuses them.
    These are left out, and `print(choice_)` says why. The least of many errors is itself a little too low.

    Parameters
    ----------
    kernels : str, callable, dict or list of these
        Names ("linear", "rbf", "poly"), functions of two blocks of rows, or dicts of LLE's parameters such as
        ``{"kernel": "rbf", "gamma": 3}``.
    n_neighbors : int or list of int
    n_components : int, default 2
    C : float, default 2
        Of the SVM. It is for axes as LLE makes them, Y'Y / n = I; on other lengths the same C means something else.
    folds : int, default 10
        Of cross-validation, stratified, and the same ones for all.
    random_state
        Of folds and fits.
    parameters : dict, optional
        Of all fits, by name (:data:`OPTIONS`).

    Attributes
    ----------
    choice_ : Choice
    best_params_ : dict
        Of :class:`scalemani.LLE`.
    best_estimator_ : LLE
        Fitted to all rows, labelled or not.
    svm_ : sklearn.svm.SVC
        Fitted to the labelled rows of that plane.
    classes_ : ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import KernelChoice
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.normal(size=(60, 3)) + 2 * y[:, None]
    >>> model = KernelChoice(kernels="linear", n_neighbors=[9, 12], folds=3).fit(X, y)
    >>> model.transform(X[:5]).shape, bool((model.predict(X) == y).mean() > 0.8)
    ((5, 2), True)
    """

    kernels: Any = USUAL_KERNELS
    n_neighbors: Any = USUAL_NEIGHBORS
    n_components: int = 2
    C: float = field(default=2.0, kw_only=True)
    folds: int = field(default=10, kw_only=True)
    random_state: Any = field(default=0, kw_only=True)
    progress: Any = field(default=False, kw_only=True)
    parameters: Any = field(default=None, kw_only=True)

    def fit(self, X: Any, y: Any) -> Self:
        """Choose, and fit the best to all rows; labels y (n,) are None or NaN where a row has none."""
        if y is None:
            raise ScalemaniError("KernelChoice requires y to be passed, but the target y is None; give labels")
        if getattr(y, "ndim", 1) == 2 and not np.ma.isMaskedArray(y):
            y = column_or_1d(y, warn=True)
        self.choice_ = self._choose(X, y)
        best = self.choice_.best
        self.best_params_, self.svm_, self.classes_ = best.parameters, best.svm, self.choice_.classes
        self.best_estimator_ = LLE(**best.parameters).fit(X)
        self.n_features_in_ = self.best_estimator_.n_features_in_
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """Coordinates (l, p) of rows in the plane."""
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class (l,) of each row, by where it lies in the plane."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.svm_.predict(np.asarray(self.transform(X)))])

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _choose(self, X: Any, y: Any) -> Choice:
        combinations, C, folds = self._combinations(), self.C, self.folds
        positive("C", C)
        if not isinstance(folds, Integral) or isinstance(folds, bool) or folds < 2:
            raise ScalemaniError(f"folds={folds!r}: an integer of 2 or more is needed")
        blocks = [block for _, block in row_blocks(X)]
        rows: Any = vstack(blocks, format="csr") if issparse(blocks[0]) else np.concatenate(blocks)
        codes, classes = read_some_labels(y)
        n, labeled = rows.shape[0], np.flatnonzero(codes >= 0)
        if n != len(codes):
            raise ScalemaniError(f"y has {len(codes)} entries and X has {n} rows; give one for each, or None")
        counts = np.bincount(codes[labeled])
        if counts.min() < folds:
            raise ScalemaniError(
                f"class {classes[counts.argmin()]!s:.60} has {counts.min()} labelled rows: folds={folds} needs as many "
                "in each; give fewer folds, or more labels"
            )
        made = StratifiedKFold(int(folds), shuffle=True, random_state=combinations[0][1]["random_state"])
        parts = list(made.split(labeled, codes[labeled]))
        fewest, least = n - max(len(test) for _, test in parts), min(one["n_neighbors"] for _, one in combinations)
        if least >= fewest:
            raise ScalemaniError(f"n_neighbors={least}: without a fold there are {fewest} rows; give fewer neighbours")
        tried = []
        with reporting(self.progress) as report:
            for done, (name, one) in enumerate(combinations):
                report("kernels", done, len(combinations))
                tried.append(_try(rows, codes, labeled, parts, SVC(kernel="linear", C=C), name, one))
            report("kernels", len(combinations), len(combinations))
        good = [one for one in tried if one.failure is None]
        if not good:
            raise ScalemaniError(f"no plane can be made; with {tried[0].n_neighbors} neighbours: {tried[0].failure}")
        return Choice(tuple(tried), min(good, key=lambda one: one.held_out), codes, classes, int(folds), float(C))

    def _combinations(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and parameters of LLE, checked, for each kernel and number of neighbours."""
        (kernels, ks), given = map(_listed, (self.kernels, self.n_neighbors)), self.parameters or {}
        for what, values in (("kernels", kernels), ("n_neighbors", ks)):
            if not values:
                raise ScalemaniError(f"{what} is empty: give one at least")
        seed = self.random_state
        found: list[tuple[str, dict[str, Any]]] = []
        for kernel in kernels:
            if not (kernel is None or callable(kernel) or isinstance(kernel, Mapping) or kernel in KERNELS):
                others = "a function of two blocks of rows, a dict of LLE's parameters"
                raise unknown("a kernel: ", kernel, KERNELS, others)
            own = dict(kernel) if isinstance(kernel, Mapping) else {"kernel": kernel}
            for name in [*own, *given]:
                if name not in OPTIONS:
                    raise unknown("a parameter to try: ", name, OPTIONS)
            both = {"kernel": "linear", **given, **own}
            if isinstance(both["kernel"], str) and both["kernel"] == "precomputed":
                raise ScalemaniError("kernel='precomputed': kernels are tried on rows of features; give these")
            if both.get("metric", "") in GIVEN_METRICS:
                raise ScalemaniError(f"metric={both['metric']!r}: weights are found from rows of features; give these")
            name = _named({"kernel": both["kernel"], **own})
            for k in ks:
                asked = {**both, "n_neighbors": k, "n_components": self.n_components, "random_state": seed}
                checked = LLE(**asked)._parameters()
                checked.check()
                seed = checked.seeded(None).random_state  # one for all, whatever was given
                found.append((name, {**asked, "n_neighbors": int(k), "random_state": seed}))
        return found


def choose_kernel(
    X: Any, y: Any, kernels: Any = USUAL_KERNELS, n_neighbors: Any = USUAL_NEIGHBORS, **options: Any
) -> Choice:
    """Try kernels and numbers of neighbours of :class:`scalemani.LLE` by a linear SVM of some labels.

    X (n, d): As a fit takes it; it is held in memory.
    y (n,): Labels, whole numbers or text; None or NaN where a row has none. (-1 is a label.)
    options: `n_components`, `C`, `folds`, `random_state` and `progress` of :class:`KernelChoice`, and parameters of all
        fits (:data:`OPTIONS`).
    -> Three errors for each (:class:`Choice`): `print` it, `draw` it, or take its `best`.

    Source: DeCoste, "Visualizing Mercer kernel feature spaces via kernelized locally-linear embeddings" (2001).
    """
    own = {one.name: options.pop(one.name) for one in fields(KernelChoice)[2:-1] if one.name in options}
    return KernelChoice(kernels, n_neighbors, **own, parameters=options)._choose(X, y)


def _listed(given: Any) -> list[Any]:
    """One of something, or several, as a list."""
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping)
    return list(given) if several else [given]


def _named(own: Mapping[str, Any]) -> str:
    """A kernel and what else was given of it.

    >>> _named({"kernel": "poly", "degree": 2, "coef0": 0.001})
    'poly, degree 2, coef0 0.001'
    """
    others = [f"{name} {value}" for name, value in own.items() if name != "kernel"]
    kernel = own.get("kernel") or "linear"
    return ", ".join([FunctionKernel(kernel).name if callable(kernel) else kernel, *others])


def _try(
    rows: Any, codes: I64, labeled: I64, parts: Sequence[Any], svm: Any, name: str, parameters: dict[str, Any]
) -> Tried:
    """One kernel with one number of neighbours."""
    known, wrong = codes[labeled], np.empty(len(labeled), bool)
    tried = {"name": name, "n_neighbors": parameters["n_neighbors"], "parameters": parameters}
    with keeping_warnings() as said:
        try:
            model = LLE(**parameters).fit(rows)
            plane, warned = model.embedding_, tuple(sentence for sentence, _ in said)
            for train, test in parts:
                others = np.setdiff1d(np.arange(len(codes)), labeled[test])
                model = LLE(**parameters).fit(rows[others])
                svm.fit(model.embedding_[np.searchsorted(others, labeled[train])], known[train])
                wrong[test] = svm.predict(model.transform(rows[labeled[test]])) != known[test]
        except (ScalemaniError, SolverError) as error:
            return Tried(**tried, failure=str(error))
    alone = (cross_val_predict(svm, plane[labeled], known, cv=parts) != known).mean()
    svm.fit(plane[labeled], known)
    return Tried(
        **tried,
        training=float((svm.predict(plane[labeled]) != known).mean()),
        alone=float(alone),
        held_out=float(wrong.mean()),
        plane=plane,
        svm=svm,
        wrong=wrong,
        warnings=warned,
    )
