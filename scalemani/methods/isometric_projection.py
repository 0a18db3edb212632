"""Isometric projection: the linear map of features that keeps geodesic distances best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.estimators import Embedder
from scalemani.methods.base import Method
from scalemani.methods.isometric_words import IsometricWords
from scalemani.model import Run
from scalemani.parameters import Arguments, Parameters, is_number, optional_count, parameter
from scalemani.projection.feature_map import FeatureMap
from scalemani.steps.base import Step
from scalemani.steps.features import MEAN, REFERENCES, kernel_of
from scalemani.steps.graph import GraphStep, NeighborsStep
from scalemani.steps.least_strain import BACK, WEIGHTS, Map
from scalemani.steps.passing_distances import PassingDistances
from scalemani.steps.features import Features
from scalemani.steps.records import DataRecord, FeaturesRecord
from scalemani.steps.shortcuts import ShortcutEdges
from scalemani.steps.sources import Sources
from scalemani.storage.run import RunStore


def _ridge(name: str, value: Any) -> None:
    if value is not None and not (is_number(value) and 0 <= float(value) < np.inf):
        raise ScalemaniError(f"{name}={value!r}: a number of 0 or more, or None for the usual one, is needed")


def _positive(name: str, value: Any) -> None:
    if value is not None and not (is_number(value) and 0 < float(value) < np.inf):
        raise ScalemaniError(f"{name}={value!r}: a positive number is needed")


def _number(name: str, value: Any) -> None:
    if not (is_number(value) and abs(float(value)) < np.inf):
        raise ScalemaniError(f"{name}={value!r}: a number is needed")


KERNELS = ("linear", "rbf", "poly", "sigmoid", "cosine")


@dataclass(eq=False, repr=False)
class IsometricArguments(Arguments):
    """What this method takes besides."""

    ridge: float | None = parameter(None, check=_ridge)
    scale: str = parameter("lstsq", choices=("lstsq", "unit"))
    kernel: str = parameter("linear", choices=KERNELS)
    gamma: float | None = parameter(None, check=_positive)
    degree: float = parameter(3, check=_positive)
    coef0: float = parameter(1.0, check=_number)
    nystrom: int | None = parameter(None, check=optional_count)
    indefinite: str = parameter("error", choices=("error", "drop"))


@dataclass
class IsometricParameters(IsometricArguments, Parameters):
    """What a fit of it works with."""

    def check(self) -> None:
        """Also that parameters of kernels go with one.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        super().check()
        if self.landmarks is not None:
            raise ScalemaniError(f"landmarks={self.landmarks!r}: isometric projection has no landmarks yet; leave it out")
        if self.kernel == "linear" and self.nystrom is not None:
            raise ScalemaniError(f"nystrom={self.nystrom} with kernel='linear': it is for the other kernels; leave it out")


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
    from scalemani.points.rows import load_rows

    rows = load_rows(store, [store.needed(DataRecord).n_distinct, n_features])[store.read_array(REFERENCES)]
    return FeatureMap(n_features, mean, weights, kernel_of(state.fields, state.gamma), rows)


@dataclass(eq=False, repr=False)
class IsometricProjection(Embedder, IsometricArguments):
    """Isometric projection: a linear map of the features that keeps geodesic distances as well as one can.

    Geodesic distances along a neighbour graph are found as for :class:`scalemani.Isomap`, but not stored. New points
    are placed by their features alone: no graph, no D and, with the linear kernel, no training rows. Parameters that
    are not named here are those of :class:`scalemani.KernelIsomap`, which has more to say of them.

    Parameters
    ----------
    ridge : float, optional
        Penalty on the map, as a share of the largest variance of the features: what keeps new points near where their
        training points are, if there are as many features as rows. None: 1e-3, with a kernel 1e-4. 0 is the paper's.
    scale : {"lstsq", "unit"}, default "lstsq"
        "lstsq": axes are as long as the geodesic distances say (the least strain). "unit": all of length 1, as in the
        paper (a'X'Xa = 1).
    kernel : {"linear", "rbf", "poly", "sigmoid", "cosine"}, default "linear"
        Of what features the map is linear: the columns of X, or values of a kernel, by scikit-learn's names. "rbf" is
        the paper's Gaussian kernel exp(-|x-y|²/σ²), with gamma = 1/σ².
    gamma : float, optional
        None: 1 over the squared median distance of some rows; for "poly" 1.
    degree, coef0 : float, default 3 and 1
        Of "poly" and "sigmoid".
    nystrom : int, optional
        Kernel values to so many rows, which stand for all (Nyström's features): for more than some thousand rows.
    indefinite : {"error", "drop"}, default "error"
        What is done about a kernel with negative eigenvalues on these rows, as "sigmoid" has them most of the time.

    Attributes
    ----------
    embedding_ : ndarray, shape (n_samples, n_components)
    eigenvalues_ : ndarray, shape (n_components,)
        Of the projected kernel: with "lstsq" the squared lengths of the axes.
    components_ : ndarray, shape (n_components, n_features)
        With the linear kernel: the weight of each feature on each axis; ``(X - mean_) @ components_.T`` places X.
    mean_ : ndarray, shape (n_features,)
    spectrum_ : dict
        `eigenvalues`, `next_eigenvalue`, `trace` of the projected kernel, `rank` (directions of the features), `ridge`,
        `scale`, `kernel`, `gamma`, `n_references`, `negative_share`; and of the graph as in `KernelIsomap`.

    Notes
    -----
    Cai, He & Han, "Isometric projection", report UIUCDCS-R-2006-2747 (2006). Its unsupervised form is ``fit(X)``, its
    supervised one ``fit(X, y)`` with a label for each row: edges are within classes, and classes are ten times the
    longest distance within one apart.

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import IsometricProjection
    >>> angle = np.linspace(0, 3, 60)
    >>> arc = np.c_[np.cos(angle), np.sin(angle)]
    >>> model = IsometricProjection(n_neighbors=4, n_components=1).fit(arc)
    >>> model.transform(arc[:3]).shape, model.components_.shape
    ((3, 1), (1, 2))
    """

    method = "scalemani.methods.isometric_projection:IsometricMethod"
    correction: None = field(default=None, init=False)
    constant_solver: str = field(default="ritz", init=False)
    projection: str = field(default="continuous", init=False)
    compression: None = field(default=None, init=False)
    keep_distances: bool = field(default=False, init=False)

    def _adopt(self, run: Run) -> None:
        """The map, besides what any method has."""
        super()._adopt(run)
        self.eigenvalues_ = np.array(self.spectrum_["eigenvalues"])
        for name in ("components_", "mean_"):
            vars(self).pop(name, None)
        if self.spectrum_["kernel"] == "linear":
            self.components_ = run.store.read_array(WEIGHTS).T
            self.mean_ = run.store.read_array(MEAN)

    def inverse_transform(self, Y: ArrayLike) -> F64:
        """Rows of features whose coordinates are given: mean + Y B, with B that fits the training rows best.

        Parameters
        ----------
        Y : array-like, shape (l, n_components)

        Returns
        -------
        ndarray, shape (l, n_features)

        Raises
        ------
        ScalemaniError
            With a kernel, which has no such map; or with other columns.
        """
        check_is_fitted(self)
        if self.spectrum_["kernel"] != "linear":
            raise ScalemaniError(f"kernel={self.kernel!r}: only the linear kernel's map can be turned round")
        rows = np.asarray(Y, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.components_):
            raise ScalemaniError(f"Y has shape {rows.shape}: (rows, {len(self.components_)}) is needed")
        return self.mean_ + rows @ self._run.store.read_array(BACK)
