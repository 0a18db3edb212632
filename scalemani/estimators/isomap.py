"""Isomap and kernel Isomap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scalemani.estimators.embedder import Embedder

if TYPE_CHECKING:
    from scalemani.model import Run


@dataclass(eq=False, repr=False)  # an __init__ of its own, which inspect.signature finds
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
    ids_ : ndarray of str, shape (n_samples,)
        Ids of the training rows, where they have any (`name_rows`).
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
