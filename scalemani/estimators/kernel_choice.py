"""Which kernel and how many neighbours: planes of kernel LLE, by how a linear SVM tells the labelled rows apart there.

Rows without a label take part in the planes alone. Of each plane three errors are found. The training error is what
DeCoste chose by. Cross-validation of the SVM alone is as hopeful: the plane has seen all rows. So the choice is by a
third: the plane is fitted without a fold, that fold is placed in it, and the SVM of the others is scored there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from scalemani.aliases import F64, I64
from scalemani.embedding.kernel_functions import FunctionKernel
from scalemani.errors import ScalemaniError, SolverError, keeping_warnings, unknown
from scalemani.estimators.lle import LLE
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
CLEAR = 2.0  # standard errors by which a plane is worse and not only unlucky

_LEGEND = (
    "In %: errors of a linear SVM with C = {C:g} on {n:,} labelled rows. training: on its own rows. SVM alone: on\n"
    "{folds} folds, in a plane that has seen all rows. held out: on each fold, placed in a plane of the other rows."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    """One kernel with one number of neighbours.

    name: Of the kernel.
    parameters: Of :class:`scalemani.LLE`.
    training, alone, held_out: Shares of the labelled rows that the SVM has wrong; NaN without a plane.
    alone_error, held_out_error: Standard errors of these.
    plane (n, p): Whitened coordinates of all rows; svm: What tells the labelled ones apart there.
    wrong (n_labelled,): Rows that were wrong when they were held out.
    warnings: What the fit of all rows warned of.
    failure: Why there is no plane.
    """

    name: str
    n_neighbors: int
    parameters: dict[str, Any]
    training: float = np.nan
    alone: float = np.nan
    held_out: float = np.nan
    alone_error: float = np.nan
    held_out_error: float = np.nan
    plane: F64 | None = None
    svm: Any = None
    wrong: NDArray[np.bool_] | None = None
    warnings: tuple[str, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class Choice:
    """What :func:`choose_kernel` found.

    tried: One :class:`Tried` for each kernel and number of neighbours, as they were given.
    best: That with the fewest errors of held-out rows; of equals the first.
    codes (n,): Class of each row among `classes`, -1 without a label.
    """

    tried: tuple[Tried, ...]
    best: Tried
    codes: I64
    classes: NDArray[Any]
    folds: int
    C: float

    @property
    def as_good(self) -> list[Tried]:
        """Others that are worse than the best by less than two standard errors of the difference, row by row."""
        assert self.best.wrong is not None
        found = []
        for one in self.tried:
            if one is not self.best and one.wrong is not None:
                more, less = int((one.wrong & ~self.best.wrong).sum()), int((self.best.wrong & ~one.wrong).sum())
                spread = more + less - (more - less) ** 2 / len(one.wrong)
                found += [one] if more - less <= CLEAR * np.sqrt(spread) else []
        return found

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings, and a row of text for each that was tried; errors in %."""
        rows = []
        for one in self.tried:
            pairs = (one.alone, one.alone_error), (one.held_out, one.held_out_error)
            cells = [f"{100 * one.training:.1f}", *(f"{100 * share:.1f} ± {100 * error:.1f}" for share, error in pairs)]
            rows.append([one.name, str(one.n_neighbors), *(["no plane", "", ""] if one.failure else cells)])
        return ["kernel", "k", "training", "SVM alone", "held out"], rows

    def __str__(self) -> str:
        headings, rows = self.table()
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        widths[0] = -widths[0]
        lines = [
            "  ".join(
                f"{cell:{'<' if width < 0 else '>'}{abs(width)}}" for cell, width in zip(row, widths, strict=True)
            )
            for row in [headings, *rows]
        ]
        legend = _LEGEND.format(folds=self.folds, C=self.C, n=int((self.codes >= 0).sum()))
        return "\n".join([*(line.rstrip() for line in lines), legend, "", *self._said()])

    def _said(self) -> Iterator[str]:
        """The advice, what the best's fit warned of, and why others have no plane."""
        best, others = self.best, len(self.as_good)
        share = f"{100 * best.held_out:.1f} %"
        yield f"Take {best.name} with {best.n_neighbors} neighbours: {share} of held-out rows are wrong."
        if others:
            yield (
                f"Of the other planes {others} may be as good: they are worse by at most {CLEAR:g} standard errors of "
                "the difference."
            )
        yield from (f"Its fit warned: {sentence}" for sentence in best.warnings)
        for failure in dict.fromkeys(one.failure for one in self.tried if one.failure):
            where = "; ".join(f"{one.name}, k = {one.n_neighbors}" for one in self.tried if one.failure == failure)
            yield f"No plane with {where}: {failure}"

    def draw(self, path: Any = None) -> Any:
        """The planes as a picture: a row for each kernel, a column for each number of neighbours.

        The SVM's line is solid, its margins are dashed, and what it has wrong is ringed; rows without a label are grey.

        path: Of a PNG file to write. Returns matplotlib's Figure.
        """
        from scalemani.report.drawing import png
        from scalemani.report.planes import Plane, planes_figure

        if self.best.plane is None or self.best.plane.shape[1] != 2:
            raise ScalemaniError("planes are drawn of two axes; choose with n_components=2")
        shown = [
            Plane(
                f"{one.name}\nk = {one.n_neighbors}: {100 * one.held_out:.1f} % wrong held out",
                one.plane,
                self.codes,
                one.svm,
            )
            if one.plane is not None
            else Plane(f"{one.name}\nk = {one.n_neighbors}: no plane")
            for one in self.tried
        ]
        figure = planes_figure(
            shown, [str(one).removesuffix(".0") for one in self.classes], len({one.n_neighbors for one in self.tried})
        )
        if path is not None:
            Path(path).write_bytes(png(figure))
        return figure


def choose_kernel(
    X: Any,
    y: Any,
    kernels: Any = USUAL_KERNELS,
    n_neighbors: Any = USUAL_NEIGHBORS,
    *,
    n_components: int = 2,
    C: float = 2.0,
    folds: int = 10,
    random_state: Any = 0,
    progress: Any = False,
    **parameters: Any,
) -> Choice:
    """Try kernels and numbers of neighbours of :class:`scalemani.LLE` by a linear SVM of some labels.

    X (n, d): As a fit takes it; it is held in memory.
    y (n,): Labels, whole numbers or text; None or NaN where a row has none. (-1 is a label.)
    kernels: Names ("linear", "rbf", "poly"), functions of two blocks of rows, or dicts of LLE's parameters such as
        ``{"kernel": "rbf", "gamma": 3}``.
    n_neighbors: A number or several.
    C: Of the SVM, which works on axes of length sqrt(n); its errors hang on the product of both.
    folds: Of cross-validation, stratified, and the same ones for all.
    random_state: Of folds and fits.
    parameters: Of all fits, by name (:data:`OPTIONS`).
    -> Three errors for each (:class:`Choice`): `print` it, `draw` it, or take its `best`.
    Raises ScalemaniError: Parameters, rows or labels that no fit takes, before any fit; or no plane can be made.

    A kernel with a number of neighbours that a plane can't be made with (lists that lead into several sets of points)
    is told of and left out. The least of many errors is itself a little hopeful.

    Source: DeCoste, "Visualizing Mercer kernel feature spaces via kernelized locally-linear embeddings" (2001).

    >>> import numpy as np
    >>> from scalemani import choose_kernel
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    >>> choice = choose_kernel(X + 2.5 * y[:, None], np.where(rng.random(60) < 0.7, y, np.nan), "linear", 9, folds=3)
    >>> choice.best.n_neighbors, choice.classes.tolist()
    (9, [0.0, 1.0])
    """
    combinations = _combinations(kernels, n_neighbors, n_components, random_state, parameters)
    positive("C", C)
    if not isinstance(folds, Integral) or isinstance(folds, bool) or folds < 2:
        raise ScalemaniError(f"folds={folds!r}: an integer of 2 or more is needed")
    blocks = [block for _, block in row_blocks(X)]
    rows: Any = vstack(blocks, format="csr") if issparse(blocks[0]) else np.concatenate(blocks)
    codes, classes = read_some_labels(y)
    if rows.shape[0] != len(codes):
        raise ScalemaniError(f"y has {len(codes)} entries and X has {rows.shape[0]} rows; give one for each, or None")
    labelled = np.flatnonzero(codes >= 0)
    counts = np.bincount(codes[labelled])
    if counts.min() < folds:
        raise ScalemaniError(
            f"class {classes[counts.argmin()]!s:.60} has {counts.min()} labelled rows: folds={folds} needs as many in "
            "each; give fewer folds, or more labels"
        )
    made = StratifiedKFold(int(folds), shuffle=True, random_state=combinations[0][1]["random_state"])
    parts = list(made.split(labelled, codes[labelled]))
    fewest = rows.shape[0] - max(len(test) for _, test in parts)
    for _, one in combinations:
        if one["n_neighbors"] >= fewest:
            raise ScalemaniError(
                f"n_neighbors={one['n_neighbors']}: without a fold there are {fewest} rows; give fewer neighbours"
            )
    tried = []
    with reporting(progress) as report:
        for done, (name, one) in enumerate(combinations):
            report("kernels", done, len(combinations))
            tried.append(_try(rows, codes, labelled, parts, SVC(kernel="linear", C=C), name, one))
        report("kernels", len(combinations), len(combinations))
    good = [one for one in tried if one.failure is None]
    if not good:
        raise ScalemaniError(f"no plane can be made; with {tried[0].n_neighbors} neighbours: {tried[0].failure}")
    return Choice(tuple(tried), min(good, key=lambda one: one.held_out), codes, classes, int(folds), float(C))


def _combinations(
    kernels: Any, n_neighbors: Any, n_components: int, random_state: Any, parameters: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any]]]:
    """Name and parameters of LLE, checked, for each kernel and number of neighbours."""
    single = isinstance(kernels, str | Mapping) or not isinstance(kernels, Iterable)
    listed: Sequence[Any] = [kernels] if single else list(kernels)
    ks = list(n_neighbors) if isinstance(n_neighbors, Iterable) and not isinstance(n_neighbors, str) else [n_neighbors]
    for what, given in (("kernels", listed), ("n_neighbors", ks)):
        if not given:
            raise ScalemaniError(f"{what} is empty: give one at least")
    found: list[tuple[str, dict[str, Any]]] = []
    for kernel in listed:
        if not (kernel is None or callable(kernel) or isinstance(kernel, Mapping) or kernel in KERNELS):
            raise unknown("a kernel: ", kernel, KERNELS, "a function of two blocks of rows, a dict of LLE's parameters")
        own = dict(kernel) if isinstance(kernel, Mapping) else {"kernel": kernel}
        for name in [*own, *parameters]:
            if name not in OPTIONS:
                raise unknown("a parameter to try: ", name, OPTIONS)
        both = {"kernel": "linear", **parameters, **own}
        if isinstance(both["kernel"], str) and both["kernel"] == "precomputed":
            raise ScalemaniError("kernel='precomputed': kernels are tried on rows of features; give these")
        if both.get("metric", "") in GIVEN_METRICS:
            raise ScalemaniError(f"metric={both['metric']!r}: weights are found from rows of features; give these")
        for k in ks:
            asked = {**both, "n_neighbors": k, "n_components": n_components, "random_state": random_state}
            checked = LLE(**asked)._parameters()
            checked.check()
            if not found:
                random_state = checked.seeded(None).random_state  # one for all, whatever was given
            found.append(
                (
                    _named({"kernel": both["kernel"], **own}),
                    {**asked, "n_neighbors": int(k), "random_state": random_state},
                )
            )
    return found


def _named(own: Mapping[str, Any]) -> str:
    """A kernel and what else was given of it.

    >>> _named({"kernel": "poly", "degree": 2, "coef0": 0.001})
    'poly, degree 2, coef0 0.001'
    """
    others = [f"{name} {value}" for name, value in own.items() if name != "kernel"]
    kernel = own.get("kernel") or "linear"
    return ", ".join([FunctionKernel(kernel).name if callable(kernel) else kernel, *others])


def _try(
    rows: Any, codes: I64, labelled: I64, parts: Sequence[Any], svm: Any, name: str, parameters: dict[str, Any]
) -> Tried:
    """One kernel with one number of neighbours."""
    known, wrong = codes[labelled], np.empty(len(labelled), bool)
    tried = {"name": name, "n_neighbors": parameters["n_neighbors"], "parameters": parameters}
    with keeping_warnings() as said:
        try:
            model = LLE(**parameters).fit(rows)
            plane, warned = model.embedding_, tuple(sentence for sentence, _ in said)
            for train, test in parts:
                others = np.setdiff1d(np.arange(len(codes)), labelled[test])
                model = LLE(**parameters).fit(rows[others])
                svm.fit(model.embedding_[np.searchsorted(others, labelled[train])], known[train])
                wrong[test] = svm.predict(model.transform(rows[labelled[test]])) != known[test]
        except (ScalemaniError, SolverError) as error:
            return Tried(**tried, failure=str(error))
    alone = (cross_val_predict(svm, plane[labelled], known, cv=parts) != known).mean()
    svm.fit(plane[labelled], known)
    training = (svm.predict(plane[labelled]) != known).mean()
    errors = [float(np.sqrt(share * (1 - share) / len(known))) for share in (alone, wrong.mean())]
    return Tried(
        **tried,
        training=float(training),
        alone=float(alone),
        held_out=float(wrong.mean()),
        alone_error=errors[0],
        held_out_error=errors[1],
        plane=plane,
        svm=svm,
        wrong=wrong,
        warnings=warned,
    )


class KernelChoice(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """The plane of :func:`choose_kernel`'s best kernel and number of neighbours, and the SVM that classifies in it.

    Parameters
    ----------
    kernels, n_neighbors, n_components, C, folds, random_state, progress
        As :func:`choose_kernel` takes them.
    parameters : dict, optional
        Of all fits, by name.

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

    def __init__(
        self,
        kernels: Any = USUAL_KERNELS,
        n_neighbors: Any = USUAL_NEIGHBORS,
        n_components: int = 2,
        *,
        C: float = 2.0,
        folds: int = 10,
        random_state: Any = 0,
        progress: Any = False,
        parameters: Any = None,
    ) -> None:
        self.kernels = kernels
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.C = C
        self.folds = folds
        self.random_state = random_state
        self.progress = progress
        self.parameters = parameters

    def fit(self, X: Any, y: Any) -> Self:
        """Choose, and fit the best to all rows; labels y (n,) are None or NaN where a row has none."""
        asked = {name: value for name, value in self.get_params(deep=False).items() if name != "parameters"}
        self.choice_ = choose_kernel(X, y, **asked, **(self.parameters or {}))
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
