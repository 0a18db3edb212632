"""scikit-learn estimators over :mod:`scalemani.fitting`; the store of a fit is the saved model."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from scalemani.aliases import F64
from scalemani.errors import naming_columns
from scalemani.parameters import Arguments, Parameters
from scalemani.points.labels import check_labels, feature_labels, label_text, unnumbered, warn_of_row_names
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
    `random_state_`, `n_features_in_`, `feature_names_in_` and `store_`.
    """

    method: Any  # a :class:`scalemani.methods.base.Method`, or where its class is, as "module:name"

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

    def name_features(self, names: Any) -> None:
        """Record the features' names with the model, so that a test set with others is refused, also after `load`.

        `fit` does it for data frames and DataArrays.

        Parameters
        ----------
        names : sequence, shape (n_features,), or None
            Of text, numbers, dates or tuples of these. None takes back what was recorded.
        """
        check_is_fitted(self)
        listed = None if names is None else [str(label_text(name)) for name in names]  # NumPy's text is no str to JSON
        self._run.name_features(listed)
        self._take_names(listed)

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

    def transform(self, X: Any) -> Any:
        """Coordinates of test points, from the graph and not from D; by landmarks from their distances to all points.

        Parameters
        ----------
        X : array-like, shape (l, n_features)
            NumPy in, NumPy out; Dask in, lazy Dask out. For metric "precomputed" and "geodesic":
            distances to the n training rows, shape (l, n) (for "precomputed" also sparse: stored entries are edges,
            and of a fit to neighbour lists the nearest of them).

        Returns
        -------
        ndarray or dask.array.Array, shape (l, n_components)
            Each row depends on that row alone. NaN, with one warning, where no path leads to it.

        Raises
        ------
        ScalemaniError
            Wrong number of features, NaN or inf (named by row and column).
        """
        check_is_fitted(self)
        names = self._check_features(feature_labels(X), "X")
        with naming_columns(names), reporting(self.progress) as report:
            return self._run.transform(X, self.scheduler, report)

    def transform_to(self, X: Any, out: str) -> Any:
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

        Returns
        -------
        zarr.Array, shape (l, n_components)
        """
        check_is_fitted(self)
        names = self._check_features(feature_labels(X), "X")
        with naming_columns(names), reporting(self.progress) as report:
            return self._run.transform_to(X, out, self.scheduler, report)

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
        tags.input_tags.sparse = not given or self.metric == "precomputed"
        tags.input_tags.pairwise = given
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_run")


class KernelIsomap(Embedder):
    """Kernel Isomap out of core.

    Geodesic distances along a neighbour graph are written into a Zarr store tile by tile; the
    least additive constant c that makes their kernel positive semidefinite is found on operators,
    with the leading eigenpairs, from about a dozen reads of them; test points are placed with the
    Mercer kernel that results.

    Parameters
    ----------
    n_neighbors : int or None, default 10
        Nearest OTHER points of each point. None with `radius`.
    n_components : int, default 2
        Axes of the embedding.
    radius : float, optional
        Neighbours within this distance instead (with ``n_neighbors=None``).
    metric : str or callable, default "euclidean"
        pynndescent's names (docs/metrics.md: the rows that each takes), or a function of two rows, the same both ways.
        "precomputed": X is a dense (n, n) matrix of distances to choose neighbours from, or a sparse matrix. If every
        row of that stores its own 0, as scikit-learn's KNeighborsTransformer and RadiusNeighborsTransformer write it,
        it holds neighbour lists: n_neighbors or radius chooses from what is stored, in `fit` and `transform`. Else it
        is the finished graph: every stored entry is an edge, in one direction or both, zeros too. "geodesic": X is D
        itself, the final distances; without a correction that is principal coordinates.
    metric_params : dict, optional
        Its parameters, such as ``{"p": 3}``.
    graph : {"union", "mutual"}, default "union"
        An edge if either end lists the other, or only if both do.
    disconnected : {"error", "join", "largest"}, default "error"
        With several components: refuse; add the shortest bridges along a minimum spanning tree of
        them; or embed the largest (the other rows are NaN).
    correction : {"cailliez", "lingoes", "flip", None} or float, default "cailliez"
        What makes a positive semidefinite kernel of the distances (:mod:`scalemani.kernel.constant`): the least
            constant c added to them, or a number in their unit; the least s with d² + 2s; the moduli of the
            eigenvalues; or nothing.
    constant_solver : {"ritz", "power", "arnoldi"}, default "ritz"
        How Cailliez' constant is found. "power" is power iteration on the SHIFTED Cailliez matrix: right, but
        hundreds to thousands of reads of D. (Plain power iteration is wrong: the dominant
        eigenvalue of that matrix is negative.) "arnoldi" is ARPACK's, for its largest real part.
    projection : {"continuous", "paper"}, default "continuous"
        How `transform` places points (:mod:`scalemani.projection.projector`). "paper" shrinks every point
        that is not a training row.
    knn : {"auto", "exact", "nndescent"}, default "auto"
        Neighbour search; "auto" takes the cheaper by arithmetic, pynndescent's compilation counted.
    tol : float, default 1e-6
        Residual over eigenvalue, and relative error of the constant.
    store : path or URL, optional
        Zarr store of the run. One that is there is resumed, or refused if it holds other data or
        parameters. None: a temporary folder that lives as long as the model or a lazy result of it; a pickle of such a
        model carries it whole but for D, up to 256 MiB (above that pickling fails), while that of a model with a path
        names the path. Leave it None in a grid search or a cross-validation: each fit needs a store of its own.
    scheduler : str or distributed.Client, optional
        Dask scheduler, or "synchronous": this thread alone, with the same bits and no Dask. None: the active client, or
        else this thread up to some thousand points and threads of this process above that. An asynchronous client is
        used from any thread but that of its event loop (``await asyncio.to_thread(model.fit, X)``).
    memory_limit : int or str, optional
        Bytes a process may hold above its size at the start ("4GB"), pages of memory-mapped input aside, which the
        system takes back; tiles follow from it. None: half of what is free.
    random_state : int, RandomState, Generator or None, default 0
        Of the neighbour search and the solver's start. None is resolved to an integer that the
        store records.
    progress : bool or callable, default False
        True for bars on a terminal; or ``report(stage, done, total)``.
    overwrite : bool, default False
        Replace the run that is at `store`.
    keep_distances : bool, default True
        False drops D after the fit; the model needs no D (with landmarks it does, and keeps what it has).
    compression : {None, "lz4", "zstd"}, default None
        Of D on disk, by Blosc: a quarter to a third less disk for more time. A run that is resumed keeps its own.
    landmarks : int or array-like of int, optional
        For clouds beyond about 100,000 points: distances from m landmarks alone to all points, the kernel of these m,
        and every point placed by its distances to them (:mod:`scalemani.steps.sources`). A number, or row numbers
        of X (negative ones count from the end).
    landmark_method : {"maxmin", "random"}, default "maxmin"
        How a number of them is chosen: each the point farthest from those before it along the graph, or at random.
    edge_weights : {"plain", "conformal"}, default "plain"
        "conformal" (C-Isomap: de Silva & Tenenbaum 2003): an edge is divided by sqrt(M_i M_j), M_i the mean distance of
        point i to its own neighbours; of a new point to those that it finds. It undoes a stretching that spaces the
        points out, if they were even before that, and errs where density has other reasons. Lengths have no unit then.
    shortcuts : {"warn", "remove", "keep"}, default "warn"
        A few edges of the graph that leap from one part of the data to another, as from a turn of a Swiss roll to the
        next, bend the whole map. They are looked for in every graph (:mod:`scalemani.geodesics.shortcuts`). "warn":
        ShortcutWarning names them. "remove": they are taken out; the graph stays connected. "keep": they are not looked
        for. In a graph that you give they are never removed. Bridges of disconnected="join" and edges between clusters
        are no shortcuts.

    Attributes
    ----------
    embedding_ : ndarray, shape (n_samples, n_components)
        NaN for rows of dropped components; identical rows have identical coordinates.
    eigenvalues_ : ndarray, shape (n_components,)
        Of the kernel with its correction, descending; for "flip" signed, by modulus.
    additive_constant_ : float
        c, in the unit of the distances; 0 for "lingoes", "flip" and None.
    n_passes_ : int
        Reads of D after it was written; the solver's first block is read while D is written, for
        nothing. 0 up to 301 points. By landmarks 1: their own distances, then in memory.
    residuals_ : ndarray, shape (n_components,)
        |K v - λ v| / λ.
    knn_recall_ : float
        Of the neighbour lists against exact ones on a sample; 1 for an exact search.
    spectrum_ : dict
        The account of the spectrum (:mod:`scalemani.embedding.spectrum` explains), as JSON values in the unit of X. K2
        is the kernel of the distances as they are, K the one that these axes are of, with eigenvalues λ; lists are by
        axis.

        - `correction` ("none", "number" for None, a float), `additive_constant` c, `lingoes_constant` s; `shift`: what
          it adds to λ, c²/2 or s; `median_distance`, `max_distance`, `constant_over_median`: c or sqrt(2s) over it;
        - `eigenvalues` λ, `eigenvalues_unshifted` v'K2v; `next_eigenvalue` λ_{p+1}, `gap` (λ_p - λ_{p+1}) / λ_p;
          `residuals`, `converged`; `n_passes`; `trace` of K (for "flip" at least that), `trace_unshifted` of K2;
        - `lowest_ritz_value` of K, `most_negative_eigenvalue` of K2: not higher than that; `negative_mass`: the moduli
          of K2's negative eigenvalues add up to that or more; `complete`: all of K2's were found, bounds are exact;
        - `share` λ / trace K, `share_unshifted` v'K2v / trace K2 (may be above 1), `share_of_squares` λ² / ||K||²
          (Mardia); `gof`: R's cmdscale, Σλ over the sum of all moduli, over that of all positive ones: at most that;
        - ape's pcoa: `relative_eig` (of K2; None where λ is of K(c)), `rel_corr_eig`, `broken_stick` (what chance
          would give); `reconstruction_error`: scikit-learn's, sqrt(||K||² - Σλ²) / n;
        - `constant_solver`; `n_rows`, `n_distinct`, `n_vertices`; `n_edges`, `edge_weights`, `n_components_of_graph`,
          `component_sizes`, `n_bridges`; `n_shortcuts`: edges that leap, `shortcuts_removed`; if there are any,
          `shortcut_edges` (rows at the ends, length, flow: share of all sampled shortest paths through it) and
          `shortcut_harm`: share of sampled distances that are longer by a fifth or more without; `knn_method`,
          `knn_recall`; `knn_left_out`: listed neighbours that are no edges, since the rows have nothing in common;
          `knn_account`: distances that were evaluated, where they are counted, clusters and shards; `warnings`: in
          words, those of the spectrum; `notes`: what much negative mass means;
          `self_check`: the largest deviation in each check that the fit passed (:mod:`scalemani.steps.checks`);
        - by landmarks all of it is of the n points put where their nearest landmarks are; `n_landmarks`,
          `landmark_method`, `landmark_reach`: the largest distance from a point to its landmark ("maxmin").
    landmarks_ : ndarray of int, shape (m,), or None
        Rows that are landmarks, ascending by their place in the graph.
    kept_ : ndarray of int
        Rows that are in the graph's kept component(s).
    store_ : str
        Path of the store.
    random_state_ : int
        The seed that was used.
    n_features_in_ : int
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Labels of the features as text, of whatever type they are, if X has any that do more than count.

    Notes
    -----
    Choi & Choi, "Kernel Isomap", Electronics Letters 40 (2004) and "Robust kernel Isomap", Pattern
    Recognition 40 (2007); Cailliez, "The analytical solution of the additive constant problem",
    Psychometrika 48 (1983); Lingoes, "Some boundary conditions for a monotone analysis of symmetric
    matrices", Psychometrika 36 (1971).

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import KernelIsomap
    >>> angle = np.linspace(0, 3, 60)
    >>> arc = np.c_[np.cos(angle), np.sin(angle)]
    >>> model = KernelIsomap(n_neighbors=4, n_components=1).fit(arc)
    >>> model.embedding_.shape, model.transform(arc[:3]).shape
    ((60, 1), (3, 1))
    """

    method = "scalemani.methods.isomap:IsomapMethod"

    def _adopt(self, run: Run) -> None:
        """The solution, besides what any method has."""
        super()._adopt(run)
        found = self.spectrum_
        self.eigenvalues_ = np.array(found["eigenvalues"])
        self.additive_constant_ = float(found["additive_constant"])
        self.n_passes_ = int(found["n_passes"])
        self.residuals_ = np.array(found["residuals"])


@dataclass(eq=False, repr=False)
class Isomap(KernelIsomap):
    """Isomap out of core: :class:`KernelIsomap` with no additive constant.

    The largest eigenvalues give the axes and negative ones are left out, as in Tenenbaum, de Silva & Langford (2000).
    Parameters and attributes are those of :class:`KernelIsomap` without `correction` and `constant_solver`.

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import Isomap
    >>> line = np.arange(20.0)[:, None] * [[1.0, 1.0]]
    >>> round(float(np.ptp(Isomap(n_neighbors=2, n_components=1).fit_transform(line))), 3)
    26.87
    """

    correction: None = field(default=None, init=False)
    constant_solver: str = field(default="ritz", init=False)


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
    if is_function_name(recorded["metric"]):
        recorded["metric"] = function_of(recorded["metric"])
    kind = estimator_of(run.store)
    allowed = kind().get_params(deep=False)
    model = kind(store=run.store.path, **{name: value for name, value in recorded.items() if name in allowed})
    model._adopt(run)
    model._take_names(run.feature_names)
    return model
