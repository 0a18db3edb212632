"""Rows that are far off, and the tolerance τ of the rank, from the sums of the first read and the median distance.

An eigenvalue that is at most τ λ1 is taken as rounding of D, which is float32. τ = 1e-6 is right where all distances
are of one size. One point at a distance R makes λ1 about R², and τ λ1 would hide the axes of all others, although their
own distances are exact to float32's ε. What R's rounding does to those axes is much less: errors ε R² stand in one row
alone, which is nearly an eigenvector, so that they reach the others in second order only. With d the median distance
they are at most about n (ε R d + ε² R²). Points that are far off together, at a distance s from one another, have
eigenvalues of about s², and ε R/s takes the place of ε.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import I64
from scalemani.kernel.operators import DistanceSums

RANK_TOLERANCE = 1e-6  # τ: float32 tiles; eigenvalues within τ λ1 of 0 are rounding of D
FAR = 100.0  # median distances from the others at which a row is far off
MOST_FAR = 16  # rows whose distances from one another are looked at
EPS = 2.0**-24  # of a float32, relative


@dataclass(frozen=True, eq=False)
class FarRows:
    """Rows that are far from all others.

    vertices: Ascending; empty where there are none.
    times: The longest distance over the median one.
    tolerance: τ: eigenvalues up to τ λ1 are rounding.
    """

    vertices: I64
    times: float = 1.0
    tolerance: float = RANK_TOLERANCE

    def sentence(self, rows: list[int], tolerance: float) -> str:
        """What a reader should know; `rows` are their numbers in X, `tolerance` is the τ that was used."""
        shown = ", ".join(map(str, rows[:5])) + (f" and {len(rows) - 5:,} more" if len(rows) > 5 else "")
        where, them = (f"row {shown} of X is", "it") if len(rows) == 1 else (f"rows {shown} of X are", "them")
        said = "are kept as far as float32 distances hold them"
        if tolerance >= RANK_TOLERANCE:
            said = "may be lost, since float32 distances can't hold both"
        return (
            f"{where} far away, at up to {self.times:.1e} times the median distance: the first axes show little else, "
            f"and axes of the others {said}; fit without {them} to see the rest alone"
        )


def far_rows(sums: DistanceSums, median: float, between: Callable[[I64], NDArray[np.floating]]) -> FarRows:
    """The few rows whose mean distance is more than 100 medians above the others', and what they leave of the rank.

    between: Ascending vertices (k,) -> their distances from one another (k, k); called where there are few.
    """
    n, longest = sums.n, sums.maximum
    counts = np.ones(len(sums.row_sums)) if sums.counts is None else sums.counts
    means = sums.row_sums / max(n - 1, 1)
    far = np.flatnonzero(means - np.median(means) > FAR * median).astype(np.int64)
    if not (len(far) and median > 0) or counts[far].sum() > max(n // 10, 1):
        return FarRows(np.empty(0, np.int64))
    apart = longest if len(far) == 1 else 0.0
    if 1 < len(far) <= MOST_FAR:
        apart = float(between(far)[~np.eye(len(far), dtype=bool)].min())
    eps = EPS * longest / apart if apart > 0 else 1.0
    return FarRows(far, longest / median, min(RANK_TOLERANCE, n * eps * (median / longest + eps)))
