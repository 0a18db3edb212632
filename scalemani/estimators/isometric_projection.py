"""Isometric projection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, check_is_fitted

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.estimators.embedder import Embedder
from scalemani.methods.isometric_arguments import IsometricArguments
from scalemani.parameters import parameter

if TYPE_CHECKING:
    from scalemani.model import Run

# of the run's store
BACK, MEAN, WEIGHTS = "map_back", "feature_mean", "map_weights"


@dataclass(eq=False, repr=False)
class IsometricProjection(Embedder, IsometricArguments):  # type: ignore[misc]  # its `kernel` is a parameter
    """Isometric projection: a linear map of the features that keeps geodesic distances as well as a linear map can.

    Geodesic distances along a neighbour graph are found as for :class:`scalemani.Isomap`, but not stored. New points
    are placed by their features alone: no graph, no D and, with the linear kernel, no training rows. Parameters that
    are not named here are those of :class:`scalemani.KernelIsomap`, which has more to say of them.

    Parameters
    ----------
    ridge : float or "loo", optional
        Penalty on the map, as a share of the largest variance of the features. It keeps new points near their training
        neighbours where there are as many features as rows. None: 1e-3, with a kernel 1e-4. 0 is the paper's.
        "loo": the value from 1e-8 to 1 that predicts Isomap's coordinates best, by leave-one-out
        (`spectrum_["left_out"]`); distances are stored meanwhile.
    scale : {"lstsq", "unit"}, default "lstsq"
        "lstsq": axes are as long as the geodesic distances say (the least strain). "unit": all of length 1, as in the
        paper (a'X'Xa = 1, with a ridge a'(X'X + αI)a = 1).
    kernel : {"linear", "rbf", "poly", "sigmoid", "cosine", "precomputed"}, default "linear"
        Of what features the map is linear: the columns of X, or values of a kernel, by scikit-learn's names. "rbf" is
        the paper's Gaussian kernel exp(-|x-y|²/σ²), with gamma = 1/σ². "precomputed": X is a dense (n, n) matrix of
        kernel values K, and neighbours are chosen by the distances that it says, the root of K_ii + K_jj - 2 K_ij;
        `transform` takes the values of new points to the n training points, (l, n).
    gamma : float, optional
        None: 1 over the squared median distance of some rows; for "poly" 1.
    degree, coef0 : float, default 3 and 1
        Of "poly" and "sigmoid".
    nystrom : int, optional
        Kernel values to so many rows, which stand for all (Nyström's features): for more than some thousand rows.
    supervised : bool, default True
        Whether y, where it is given to `fit`, holds labels to be used. False ignores it, for a pipeline that hands its
        y to every step.
    distances : {None, "stored", "recomputed"}, default None
        Whether D is stored while the map is made; None: only for ``ridge="loo"``. It is kept after that with
        ``keep_distances=True`` (here False unless given), which stores it, too.
    landmarks : int or array-like of int, optional
        As in `KernelIsomap`, where there are too many rows to find D. The map is fitted to the coordinates that
        landmark Isomap gives all rows, on up to 60 axes.
    indefinite : {"error", "drop"}, default "error"
        What is done about a kernel with negative eigenvalues on these rows, as "sigmoid" has them most of the time.

    Attributes
    ----------
    embedding_ : ndarray, shape (n_samples, n_components)
    eigenvalues_ : ndarray, shape (n_components,)
        Of the projected kernel. With "lstsq" and ``ridge=0`` they are the squared lengths of the axes; a ridge makes
        axes a little shorter than that.
    components_ : ndarray, shape (n_components, n_features)
        With the linear kernel: the weight of each feature on each axis; ``(X - mean_) @ components_.T`` places X.
    mean_ : ndarray, shape (n_features,)
    spectrum_ : dict
        `eigenvalues`, `next_eigenvalue`, `trace` of the projected kernel, `lengths` of the axes, `rank` (directions of
        the features), `ridge`, `scale`, `kernel`, `gamma`, `n_references`, `negative_share`; and of the graph as in
        `KernelIsomap`.

    Notes
    -----
    Cai, He & Han, "Isometric projection", report UIUCDCS-R-2006-2747 (2006). Its unsupervised form is ``fit(X)``, its
    supervised one ``fit(X, y)`` with a label for each row: edges join rows of one class, and the distance between
    classes is ten times the longest within one. A class that falls apart is joined by bridges, with a warning unless
    ``disconnected="join"``. No edges are looked for that leap (`shortcuts`). The more classes overlap, the more ridge
    it takes: try 1e-2, too.

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
    keep_distances: bool = parameter(False)

    def _adopt(self, run: Run) -> None:
        """The map, besides what any method has."""
        super()._adopt(run)
        for name in ("components_", "mean_"):
            if hasattr(self, name):
                delattr(self, name)
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
        from scalemani.kernel import blas

        check_is_fitted(self)
        if self.spectrum_["kernel"] != "linear":
            raise ScalemaniError(f"kernel={self.kernel!r}: only the linear kernel's map can be inverted")
        rows = check_array(Y, dtype=np.float64, input_name="Y", ensure_min_samples=0)
        if rows.shape[1] != len(self.components_):
            raise ScalemaniError(f"Y has shape {rows.shape}: (rows, {len(self.components_)}) is needed")
        found: F64 = self.mean_ + blas.product(rows, self._run.store.read_array(BACK))
        return found
