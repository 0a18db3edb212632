"""Rows of D as they were found, looked at before they are written: takes them with the graph, refuses what can't be."""


import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.errors import DamagedStoreError

MOST_ASYMMETRY = 2e-6  # relative |d_ij - d_ji| that is rounding whatever the path: some thirty hops summed in float32
PANEL = 128  # rows that are compared with their columns at once
ROUNDING = 2.0**-24  # of each hop's sum in float32, relative to the distance at most


def check_rows(graph: sp.csr_array, upper: NDArray[np.float32], start: int) -> None:
    """Finite, zero on the diagonal, and equal from either end of a path, on the rows' own block.

    The two sums of a path of h hops may differ by 2 h roundings, and the unit of the weights is near
    their median: a distance d has about d hops, most of the time. Where that does not excuse what is found
    (many hops are much shorter), the two rows of the worst pair are summed again in float64, where they agree.
    """
    if not np.isfinite(upper.max()):
        raise DamagedStoreError(f"geodesic rows from vertex {start} hold infinite distances in a connected graph")
    square = upper[:, : len(upper)]
    worst, pair = 0.0, (0, 0)
    for at in range(0, len(square), PANEL):
        ours, theirs = square[at : at + PANEL, at:], square[at:, at : at + PANEL].T
        longer, excess = np.maximum(ours, theirs), np.abs(ours - theirs)
        excess -= (np.float32(MOST_ASYMMETRY) + np.float32(2 * ROUNDING) * longer) * longer
        i, j = np.unravel_index(excess.argmax(), excess.shape)
        if excess[i, j] > worst:
            worst, pair = float(excess[i, j]), (at + int(i), at + int(j))
    found = np.array([square[pair], square[pair[::-1]]], np.float64)
    apart = worst > 0 and not _same_in_float64(graph, start + np.array(pair), found)
    if apart or np.diagonal(square).any():
        raise DamagedStoreError(f"geodesic rows from vertex {start} are not symmetric")


def _same_in_float64(graph: sp.csr_array, pair: NDArray[np.int64], found: NDArray[np.float64]) -> bool:
    """Whether two vertices are as far from either end, and what was found within the roundings of n hops of it."""
    exact = geodesic_rows(graph, pair, precision="float64")[[0, 1], pair[::-1]].astype(np.float64)
    return bool(
        abs(exact[0] - exact[1]) <= MOST_ASYMMETRY * exact.max()
        and (np.abs(found - exact) <= 2 * ROUNDING * graph.shape[0] * exact).all()
    )
