"""What estimators of all methods have in common, over :mod:`scalemani.fitting`; and `load`."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from scalemani.aliases import F64
from scalemani.errors import meant, naming_columns
from scalemani.parameters import Arguments, Parameters
from scalemani.points.labels import (
    check_labels,
    feature_labels,
    listed_labels,
    row_labels,
    unnumbered,
    warn_of_row_names,
)
from scalemani.progress import reporting
from scalemani.storage import forks as forks  # it must have seen a process before that is forked

if TYPE_CHECKING:  # else where they are used: compiled kernels and SciPy take as long to import as scikit-learn
    from scalemani.model import Run
    from scalemani.planning.plan import Plan


class Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, Arguments):
    """What the estimators of all methods do: fit, plan, place new points, load and export.

    A method's own estimator is derived from it, says in `method` whose steps it runs, and adds what only it answers.
    Parameters are the fields of :class:`scalemani.parameters.Arguments`; :class:`KernelIsomap` says what they mean,
    and so it does of the attributes that are set here: `embedding_`, `spectrum_`, `knn_recall_`, `kept_`, `landmarks_`,
    `random_state_`, `n_features_in_`, `feature_names_in_`, `ids_` and `store_`.
    """

    method: Any  # a :class:`scalemani.methods.base.Method`, or where its class is, as "module:name"

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Raises TypeError: A parameter is misspelt; the one that is meant is named."""
        known = signature(cls.__init__).parameters
        for name in given if not any(one.kind is one.VAR_KEYWORD for one in known.values()) else ():
            if name not in known:
                raise TypeError(f"{cls.__name__} has no parameter {name!r}; {meant(name, known, 'see its docstring')}")
        return object.__new__(cls)

    # ---- fit -------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Embed the rows of X.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features); (n, n) for the given metrics
            NumPy (any real dtype), memmap, SciPy sparse, data frame, DataArray, Dask array or Zarr array. Missing and
            masked cells are refused by row and column.
        y : array-like, shape (n_samples,), optional
            Labels, for methods that take them; the others ignore it.

        Returns
        -------
        self

        Raises
        ------
        ScalemaniError
            A ``ValueError``: what came, what is allowed, what to do; before any file is made.
        """
        from scalemani.fitting import fit

        names = unnumbered(feature_labels(X))
        warn_of_row_names(names)
        with naming_columns(names), reporting(self.progress) as report:
            self._adopt(fit(X, self._parameters(), report, type(self), y))
        self.name_features(names)
        self.name_rows(row_labels(X))
        return self

    def plan(self, X: Any, y: Any = None) -> Plan:
        """What `fit` takes on this machine: memory by parts, disk, tasks, reads of D and time by stage.

        Neighbours and graph are made, a few seconds of the rest are timed, and nothing is left on the disk.

        Returns
        -------
        scalemani.planning.plan.Plan
            With a `refusal` where the fit would not fit; ``print`` it, or take its ``record()``.

        Raises
        ------
        DoesNotFitError
            If the fit can't fit whatever its graph is.
        """
        from scalemani.fitting import plan

        with naming_columns(unnumbered(feature_labels(X))), reporting(self.progress) as report:
            return plan(X, self._parameters(), report, type(self), y)

    def _parameters(self) -> Parameters:
        from scalemani.methods.base import method_for

        return method_for(type(self)).parameters(**{one.name: getattr(self, one.name) for one in fields(self)})

    def fit_transform(self, X: Any, y: Any = None) -> F64:
        """The coordinates of the rows of X, shape (n_samples, n_components)."""
        return self.fit(X, y).embedding_

    def _check_features(self, names: Any, name: str, fit: str = "the model") -> list[str] | None:
        """Names of features, or None, held against those of the fit; None where they only count."""
        check_labels(getattr(self, "feature_names_in_", None), names, name, fit)
        return unnumbered(names)

    def _adopt(self, run: Run) -> None:
        """Take the results of a finished run as attributes."""
        from scalemani.steps.sources import landmark_rows

        self._run = run
        self.embedding_ = run.embedding()
        self.spectrum_ = run.spectrum
        self.knn_recall_ = float(self.spectrum_["knn_recall"])
        self.kept_ = np.flatnonzero(run.vertex >= 0)
        self.landmarks_ = landmark_rows(run.store)
        self.random_state_ = int(run.parameters["random_state"])
        self.n_features_in_ = run.data.fields.n_features
        if "eigenvalues" in self.spectrum_:
            self.eigenvalues_ = np.array(self.spectrum_["eigenvalues"])

    def name_features(self, names: Any) -> None:
        """Record the features' names with the model, so that a test set with others is refused, also after `load`.

        `fit` does it for data frames and DataArrays.

        Parameters
        ----------
        names : sequence, shape (n_features,), or None
            Of text, numbers, dates or tuples of these. None takes back what was recorded.
        """
        check_is_fitted(self)
        listed = None if names is None else listed_labels(names, "names")
        self._run.name_features(listed)
        self._take_names(listed)

    def name_rows(self, ids: Any) -> None:
        """Record the ids of the training rows with the model, also for `load` and `export`; they change no number.

        `fit` does it for pandas frames whose index does more than count the rows, and for DataArrays.

        Parameters
        ----------
        ids : sequence, shape (n_samples,), or None
            Of text, numbers, dates or tuples of these; several rows may have the same. None takes back what was
            recorded.
        """
        check_is_fitted(self)
        self._run.name_rows(None if ids is None else listed_labels(ids, "ids"))

    @property
    def ids_(self) -> Any:
        """Ids of the training rows as text, shape (n_samples,), in their order; absent where the rows have none."""
        if not hasattr(self, "_run") or self._run.ids is None:
            raise AttributeError(f"{type(self).__name__} has no ids_: its rows have no ids; name_rows gives them some")
        return np.array(self._run.ids, object)

    def _take_names(self, names: list[str] | None) -> None:
        if names is not None:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    @property
    def store_(self) -> str:
        """Path of the store."""
        return self._run.store.path

    # ---- use -------------------------------------------------------------------------------------

    def transform(self, X: Any, align_to: Any = None) -> Any:
        """Coordinates of test points, from the graph and not from D; by landmarks from their distances to all points.

        Parameters
        ----------
        X : array-like, shape (l, n_features)
            NumPy in, NumPy out; Dask in, lazy Dask out. For metric "precomputed" and "geodesic":
            distances to the n training rows, shape (l, n) (for "precomputed" also sparse: stored entries are edges,
            and of a fit to neighbour lists the nearest of them).
        align_to : fitted model or path of a store, optional
            Coordinates are those on that model's map, such as the last day's: this map is turned, mirrored and moved,
            not scaled, so that rows that both fits have lie nearest to their places there. They are matched by their
            ids where both fits have them (`ids_`), else by their numbers. `scalemani.compare` shows how far maps agree.

        Returns
        -------
        ndarray or dask.array.Array, shape (l, n_components)
            Each row depends on that row alone. NaN, with one warning, where no path leads to it.

        Raises
        ------
        ScalemaniError
            Wrong number of features, NaN or inf (named by row and column). Of `align_to`: another number of axes,
            fewer than p + 1 rows in common, or rows that can't be matched.

        Warns
        -----
        MapsDifferWarning
            The map of `align_to` is of another shape.
        """
        check_is_fitted(self)
        names = self._check_features(feature_labels(X), "X")
        laid = self._laid_upon(align_to)
        with naming_columns(names), reporting(self.progress) as report:
            return self._run.transform(X, self.scheduler, report, laid=laid)

    def _laid_upon(self, other: Any) -> Any:
        """What lays the map upon that of `align_to`; None without."""
        from scalemani.report.comparison import laid_upon

        return None if other is None else laid_upon(self._run, other)

    def transform_to(self, X: Any, out: str, align_to: Any = None) -> Any:
        """Coordinates of test points, written by blocks into a new Zarr array.

        Whatever stops it, the same call goes on from the blocks that were finished, with the same bits; they are
        kept in a hidden folder beside `out`, which goes when the array is whole. No bit depends on chunks or workers.
        Neighbours are exact, except where an index of NN-descent is far cheaper for so many rows (by arithmetic on the
        model and that number alone; never with knn="exact"): its recall is measured, with a warning below 0.95.

        Parameters
        ----------
        X : array-like, shape (l, n_features)
            Whatever `transform` takes; a Zarr or Dask array, or a memory map, is read by blocks.
        out : path or URL
            Nothing may be there yet.
        align_to : fitted model or path of a store, optional
            As for `transform`. What was kept of another alignment, or of none, is not gone on with.

        Returns
        -------
        zarr.Array, shape (l, n_components)
        """
        check_is_fitted(self)
        names = self._check_features(feature_labels(X), "X")
        laid = self._laid_upon(align_to)
        with naming_columns(names), reporting(self.progress) as report:
            return self._run.transform_to(X, out, self.scheduler, report, laid)

    def kernel(self, A: Any = None, B: Any = None) -> Any:
        """Values of the method's kernel, for learners that take one: ``SVC(kernel="precomputed")``, kernel PCA.

        `KernelIsomap` and `Isomap` have K, of which the model's eigenpairs are: K(c) by equations 8 to 10 of Choi &
        Choi, or the kernel of another correction. On the training rows K is positive semidefinite and symmetric to
        rounding, but indefinite for correction=None and for a number below the least constant. Training rows and new
        rows together have a larger least constant: a Gaussian process needs noise as well.

        A new row that equals a training row has that row's values where the correction adds no nugget, or with
        projection="paper". Else the nugget is left out of them, as the noise of a Gaussian process is
        (:mod:`scalemani.projection.kernel_values`).

        `LaplacianEigenmaps` has L+, the pseudo-inverse of the graph's Laplacian, times what `scale` says. Other methods
        have no kernel between rows. `LLE` and `IsometricProjection` have a parameter `kernel` in the place of this
        method.

        Parameters
        ----------
        A, B : array-like, shape (l, n_features), optional
            New rows, as `transform` takes them; None stands for the training rows. Not both are new.

        Returns
        -------
        ndarray or dask.array.Array, shape (n_samples, n_samples), (l, n_samples) of A or (n_samples, l) of B
            In the square of the unit of X. Dask in, lazy Dask out. NaN for training rows that are not in the graph,
            and for rows that no path leads to, with one warning.

        Raises
        ------
        ScalemaniError
            If A and B are both given; if the method has no kernel between rows; of a fit by landmarks, which has no
            distances between all rows; and where `transform` raises it.
        DoesNotFitError
            If the values are larger than `memory_limit` (`kernel_to` writes them by blocks), or if the eigenpairs that
            correction="flip" takes, all of them, do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> from scalemani import KernelIsomap
        >>> angle = np.linspace(0, 3, 60)
        >>> model = KernelIsomap(n_neighbors=4, n_components=1).fit(np.c_[np.cos(angle), np.sin(angle)])
        >>> K = model.kernel()
        >>> K.shape, bool(np.isclose(np.linalg.eigvalsh(K)[-1], model.eigenvalues_[0]))
        ((60, 60), True)
        """
        names = [self._names_of(rows, name) for rows, name in ((A, "A"), (B, "B"))]
        with naming_columns(names[A is None]), reporting(self.progress) as report:
            return self._run.kernel(A, B, self.scheduler, report, self.memory_limit)

    def kernel_to(self, out: str, A: Any = None) -> Any:
        """Write the kernel of A, or of the training rows, with all training rows, by blocks into a new Zarr array.

        The same call goes on where it was stopped, as that of `transform_to` does. 256 MiB of values are in memory at a
        time, with copies of them.

        Parameters
        ----------
        out : path or URL
            Nothing may be there yet.
        A : array-like, shape (l, n_features), optional
            New rows; None stands for the training rows.

        Returns
        -------
        zarr.Array, shape (l, n_samples)

        Raises
        ------
        ScalemaniError, DoesNotFitError
            Where `kernel` raises them, but for `memory_limit`; and if something is at `out`.
        """
        with naming_columns(self._names_of(A, "A")), reporting(self.progress) as report:
            return self._run.kernel_to(out, A, self.scheduler, report)

    def _names_of(self, rows: Any, name: str) -> list[str] | None:
        """Names of the features of new rows, held against those of the fit."""
        check_is_fitted(self)
        return None if rows is None else self._check_features(feature_labels(rows), name)

    def plot(self, color: Any = None, points: Any = None, components: Any = (0, 1), ax: Any = None) -> Any:
        """Draw the map on matplotlib's Axes, which are returned: see :func:`scalemani.plot.embedding`."""
        from scalemani.plot import embedding

        check_is_fitted(self)
        return embedding(self, color, points, components, ax)

    def geodesics(self, rows: ArrayLike, *, stored: bool = True) -> F64:
        """Rows of D, shape (len(rows), n_samples), in the order and unit of X.

        With landmarks always from the graph; where D was given, those of landmarks alone.
        """
        check_is_fitted(self)
        return self._run.geodesics(rows, stored=stored)

    def export(self, path: Any) -> None:
        """Copy the model, without D (distances to landmarks go along), to a new store."""
        check_is_fitted(self)
        self._run.export(path)

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __dask_tokenize__(self) -> Any:
        """Of all it has: Dask names a dataclass by its fields alone, whatever was fitted."""
        from dask.base import normalize_token

        return normalize_token((type(self), vars(self)))

    def __sklearn_tags__(self) -> Any:
        from scalemani.neighbors.metrics import GIVEN_METRICS

        tags = super().__sklearn_tags__()
        given = isinstance(self.metric, str) and self.metric in GIVEN_METRICS
        values = isinstance(kernel := getattr(self, "kernel", None), str) and kernel == "precomputed"
        tags.input_tags.sparse = (not given or self.metric == "precomputed") and not values
        tags.input_tags.pairwise = given or values
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_run")


def load(path: Any) -> Any:
    """The fitted estimator that a store holds.

    Parameters
    ----------
    path : path or URL
        Of a store made by `fit` or `export`.

    Raises
    ------
    ScalemaniError
        If there is no finished run, or its method or its metric is of a module that is not imported yet: a store does
        not say what is imported.
    """
    from scalemani.methods.base import estimator_of
    from scalemani.model import Run
    from scalemani.neighbors.functions import function_of
    from scalemani.neighbors.metrics import is_function_name
    from scalemani.storage.files import named
    from scalemani.storage.run import RunStore

    run = Run(RunStore(named(path, "path")))
    recorded = run.parameters
    for one in ("metric", "kernel"):
        if is_function_name(recorded.get(one)):
            recorded[one] = function_of(recorded[one])
    kind = estimator_of(run.store)
    allowed = kind().get_params(deep=False)
    model = kind(store=run.store.path, **{name: value for name, value in recorded.items() if name in allowed})
    model._adopt(run)
    model._take_names(run.feature_names)
    return model
