"""Laplacian eigenmaps."""

from dataclasses import dataclass, field

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from scalemani.aliases import F64
from scalemani.estimators.embedder import Embedder
from scalemani.methods.sibling_arguments import LaplacianArguments
from scalemani.parameters import parameter


@dataclass(eq=False, repr=False)
class LaplacianEigenmaps(LaplacianArguments, Embedder):
    """Laplacian eigenmaps as kernel PCA: points are near each other if a random walk soon goes from one to the other.

    Over all axes, squared distances are effective resistances or commute times. No distances along the data are found.
    Parameters that are not named here are those of :class:`scalemani.KernelIsomap`.

    Parameters
    ----------
    weights : {"binary", "gaussian"}, default "binary"
        An edge weighs 1, or exp(-d²/(2 sigma²)) of its length d.
    sigma : float, optional
        None: the median length of an edge.
    scale : {"resistance", "ham", "walk"}, default "resistance"
        What squared distances over all axes are. "resistance": effective resistances R, each edge a wire that conducts
        as much as it weighs. "walk": vol R, the steps of the random walk from one point to the other and back, vol the
        sum of all degrees. "ham": n R, the commute times of Ham et al., of a walk in continuous time.
    normalized : bool, default False
        The eigenvectors of the random walk instead: scikit-learn's SpectralEmbedding on the same graph.
    alpha : float, optional
        If given, the map is a diffusion map, with so much of the density of points divided out: 0 none of it, 1 all.
    time : float, default 1
        Steps of the diffusion: each axis is multiplied by its eigenvalue to this power.
    landmarks : int or array-like of int, optional
        Where the factor would not fit into memory: these points alone are solved for, and each other lies at a weighted
        mean of the eight landmarks nearest to it. Only with the Euclidean metric.

    Attributes
    ----------
    embedding_ : ndarray, shape (n_samples, n_components)
    eigenvalues_ : ndarray, shape (n_components,)
    spectrum_ : dict
        `eigenvalues` (rising; of a diffusion falling), `next_eigenvalue`, `sigma`, `trace` of the kernel with
        `trace_error`, `warnings`; `forgotten`: the correlation of sampled resistances with 1/deg_i + 1/deg_j, near 1
        where resistances say what degrees points have and nothing else; and of the graph as in `KernelIsomap`.

    Notes
    -----
    Belkin & Niyogi (2003); Ham, Lee, Mika & Schölkopf (2004); Coifman & Lafon (2006).

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import LaplacianEigenmaps
    >>> angle = 2 * np.pi * np.arange(9) / 9
    >>> model = LaplacianEigenmaps(n_neighbors=2).fit(np.c_[np.cos(angle), np.sin(angle)])
    >>> model.commute_times([0, 0], [1, 4]).round(6)  # i (n - i) / n, i steps along a ring of n
    array([0.888889, 2.222222])
    """

    method = "scalemani.methods.laplacian_eigenmaps:LaplacianMethod"
    correction: None = field(default=None, init=False)
    constant_solver: str = field(default="ritz", init=False)
    projection: str = field(default="continuous", init=False)
    compression: None = field(default=None, init=False)
    edge_weights: str = field(default="plain", init=False)
    shortcuts: str = field(default="keep", init=False)
    keep_distances: bool = parameter(False)

    def commute_times(self, rows: ArrayLike, columns: ArrayLike, scale: str | None = None) -> F64:
        """Commute times between rows of X, or effective resistances, by `scale`: exact, by solves with the Laplacian.

        The first call makes a sparse factor, which stays in memory as long as the model.

        Parameters
        ----------
        rows, columns : array-like of int
            Row numbers of X, broadcast against each other.
        scale : {"resistance", "ham", "walk"}, optional
            As in the fit unless given.

        Returns
        -------
        ndarray
            NaN to and from rows that are not in the graph.
        """
        from scalemani.methods.laplacian_eigenmaps import commute_times

        check_is_fitted(self)
        return commute_times(self._run, rows, columns, self.scale if scale is None else scale)
