"""Isomap by raw stress."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from scalemani.estimators.embedder import Embedder
from scalemani.methods.sibling_arguments import StressArguments

if TYPE_CHECKING:
    from scalemani.model import Run


@dataclass(eq=False, repr=False)
class StressIsomap(StressArguments, Embedder):
    """Isomap whose map has the least raw stress: Σ (D_ij - |y_i - y_j|)² over all pairs of points.

    Geodesic distances are found as for :class:`scalemani.Isomap`, and so is its map, classical scaling. That starts
    limited-memory BFGS, each step of which reads the distances once; the first is Guttman's (SMACOF). New points are
    placed where their own stress is least. Parameters that are not named here are those of
    :class:`scalemani.KernelIsomap`. With ``metric="geodesic"`` it is metric scaling of given distances.

    Parameters
    ----------
    tol : float, default 1e-5
        It stops when two steps running each lower the stress by that share of it or less. It also stops after 300 reads
        of the distances, with a `ConvergenceWarning`; the same fit with the same `store` then goes on from there.
    start_points : int, optional
        It starts from the map of so many points, with the others placed by it, and not from classical scaling: there
        are fewer reads of D, and sometimes the map is another one.
    landmarks : int or array-like of int, optional
        As in `KernelIsomap`: the map of the landmarks has the least stress of their own distances, which are in
        memory, and every other point the least stress of its distances to them.

    Attributes
    ----------
    embedding_ : ndarray, shape (n_samples, n_components)
        Centred; identical rows, which count as one point in the stress, have identical coordinates.
    stress_ : ndarray, shape (n_reads,)
        Stress-1 after each read of D, of the best map so far: the root of the raw stress over Σ D_ij². The first is
        that of classical scaling, dilated to fit best. By landmarks of their own distances.
    stress_by_point_ : ndarray, shape (n_samples,)
        Σ_j (D_ij - |y_i - y_j|)² of each row, in the unit of the distances, squared; NaN of rows without one (by
        landmarks all but these).
    n_passes_ : int
        Reads of D after it was written: of classical scaling, and of the stress.
    spectrum_ : dict
        `stress_1` and `raw_stress` of the map, `stress_by_read` (`stress_`), `stress_1_of_start` (before it was
        dilated), `start_points`, `n_passes`, `converged`, `warnings`; and of the graph as in `KernelIsomap`. There are
        no eigenvalues: the axes of this map are those of its start, and their order says nothing.

    Notes
    -----
    Trosset & Büyükbaş, "Rehabilitating Isomap: Euclidean representation of geodesic structure" (2020); Guttman, "A
    general nonmetric technique for finding the smallest coordinate space for a configuration of points", Psychometrika
    33 (1968).

    Examples
    --------
    >>> import numpy as np
    >>> from scalemani import StressIsomap
    >>> angle = np.linspace(0, 3, 60)
    >>> arc = np.c_[np.cos(angle), np.sin(angle)]
    >>> model = StressIsomap(n_neighbors=4, n_components=1).fit(arc)
    >>> model.embedding_.shape, bool(model.stress_[-1] < 0.001)
    ((60, 1), True)
    """

    method = "scalemani.methods.stress:StressMethod"
    correction: None = field(default=None, init=False)
    constant_solver: str = field(default="ritz", init=False)
    projection: str = field(default="continuous", init=False)

    def _adopt(self, run: Run) -> None:
        """The stress, besides what any method has."""
        super()._adopt(run)
        self.stress_ = np.array(self.spectrum_["stress_by_read"])
        self.n_passes_ = int(self.spectrum_["n_passes"])
        self.stress_by_point_ = run.by_source("stress_by_point")
