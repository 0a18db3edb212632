"""Locally linear embedding."""

from dataclasses import dataclass, field

from scalemani.estimators.embedder import KernelRows
from scalemani.methods.sibling_arguments import LLEArguments
from scalemani.parameters import parameter


@dataclass(eq=False, repr=False)
class LLE(LLEArguments, KernelRows):
    """Locally linear embedding: where the weights that rebuild each point from its neighbours rebuild all points best.

    No distances are found. The axes are singular vectors of I - W by one sparse factor, right where eigenvalues of
    (I - W)'(I - W) are rounding. Parameters that are not named here are those of :class:`scalemani.KernelIsomap`.

    Parameters
    ----------
    reg : float, default 1e-3
        Ridge of the weights, as a share of the trace of each point's Gram matrix.
    kernel : {None, "linear", "rbf", "poly", "precomputed"} or callable, default None
        Weights are found in the features of this kernel, by scikit-learn's names (kernel LLE). Neighbours are those of
        its features (of "poly" by comparing all rows where they differ in length). A function takes two blocks of dense
        rows, (a, n_features) and (b, n_features), and gives their (a, b) values, as those of sklearn.metrics.pairwise
        do; all rows are compared by it. "precomputed": X is the matrix of kernel values, (n_samples, n_samples), which
        the store keeps. `transform` then takes the values of new rows to the training rows, (l, n_samples). The ridge
        of a row's weights also takes its value to itself: unless that is one number for all training rows, as of a
        Gaussian kernel, give it in one more column, the last.
    gamma, degree, coef0 : float
        Of a kernel by name. gamma=None is 1 over the squared median distance of some rows, for "poly" 1.
    scale : {"whitened", "kernel"}, default "whitened"
        Axes of one length, Y'Y / n = I; or the kernel PCA of the pseudo-inverse of (I - W)'(I - W).
    disconnected : {"error", "largest"}, default "error"
        What is done where the neighbour lists lead into several sets of points that no list leaves.
    landmarks : int or array-like of int, optional
        The map in the span of so many points' weights: another, smoother map, for clouds whose factor does not fit.
        Only with the Euclidean metric.
    metric : str or callable, default "euclidean"
        Chooses the neighbours, of new points too. Weights that rebuild a point from them are Euclidean with any metric.

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
