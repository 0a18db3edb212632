"""Locally linear embedding."""

from dataclasses import dataclass, field

from scalemani.estimators.embedder import Embedder
from scalemani.methods.sibling_arguments import LLEArguments
from scalemani.parameters import parameter


@dataclass(eq=False, repr=False)
class LLE(LLEArguments, Embedder):
    """Locally linear embedding: each point is a weighted mean of its neighbours, and the map keeps these weights.

    No distances are found. W has the weights. The axes are the lowest singular vectors of I - W, found with one sparse
    factor; they are right even where eigenvalues of (I - W)'(I - W) are rounding. Parameters that are not named here
    are those of :class:`scalemani.KernelIsomap`.

    Parameters
    ----------
    reg : float, default 1e-3
        What is added to the diagonal of each point's Gram matrix before its weights are found, as a share of the trace.
        More makes the weights more even.
    kernel : {None, "linear", "rbf", "poly", "precomputed"} or callable, default None
        The kernel in whose features weights and neighbours are found (kernel LLE), by scikit-learn's names. None and
        "linear": the features of X. For a function all rows are compared with all others, and for "poly" if they differ
        in length.
        A function takes two blocks of dense rows, (a, n_features) and (b, n_features), and gives their (a, b) values,
        as those of sklearn.metrics.pairwise do.
        "precomputed": X is the matrix of kernel values, (n_samples, n_samples), which the store keeps. `transform`
        then takes the values of new rows to the training rows, (l, n_samples). If the diagonal of X is not one number
        (that of a Gaussian kernel is 1), one more column at the end is needed: each new row's value to itself.
    gamma, degree, coef0 : float
        Of "rbf", exp(-gamma |x - y|²), and "poly", (gamma <x, y> + coef0)^degree. gamma=None is 1 over the squared
        median distance of some rows, for "poly" 1.
    scale : {"whitened", "kernel"}, default "whitened"
        "whitened": all axes have one length, Y'Y / n = I. "kernel": kernel PCA of the pseudo-inverse of
        (I - W)'(I - W); an axis is 1 over its singular value long.
    disconnected : {"error", "largest"}, default "error"
        What is done if the graph has several components, or if going from neighbour list to neighbour list can end in
        separate sets of points: each of these would become one point. "largest": the other rows are NaN.
    landmarks : int or array-like of int, optional
        Where the factor would not fit into memory: these points alone are solved for, and each other lies at a weighted
        mean of the eight landmarks nearest to it. It is another, smoother map. Only with the Euclidean metric.
    metric : str or callable, default "euclidean"
        By this the neighbours are chosen, of new points too. The weights are Euclidean with any metric.

    Attributes
    ----------
    embedding_ : ndarray, shape (n_samples, n_components)
    eigenvalues_ : ndarray, shape (n_components,)
    spectrum_ : dict
        `eigenvalues` (rising), `next_eigenvalue`, `kernel`, `gamma`, `reg`, `factor_nonzeros`, `warnings`, with scale
        "kernel" `trace` and `trace_error`; and of the graph as in `KernelIsomap`.

    Notes
    -----
    Roweis & Saul, Science 290 (2000); DeCoste (2001); Vladymyrov & Carreira-Perpiñán (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import LLE
    >>> angle = np.linspace(0, 3, 60)
    >>> model = LLE(n_neighbors=4, n_components=1).fit(np.c_[np.cos(angle), np.sin(angle)])
    >>> model.embedding_.shape
    (60, 1)
    """

    method = "scalemani.methods.lle:LLEMethod"
    correction: None = field(default=None, init=False)
    constant_solver: str = field(default="ritz", init=False)
    projection: str = field(default="continuous", init=False)
    compression: None = field(default=None, init=False)
    edge_weights: str = field(default="plain", init=False)
    shortcuts: str = field(default="keep", init=False)
    keep_distances: bool = parameter(False)
