"""How many axes the data have, by the histogram of their geodesic distances.

:class:`DistanceHistogram` counts all n (n - 1)/2 pairs while D is written, so that nothing of D is read for it, and a
model without D has it, too. Two estimates are made of it, with their errors:

- the correlation dimension (Grassberger and Procaccia, Physica D 9, 1983): while r is small, the number of pairs
  nearer than r grows like r^d. Along the data the sheets of a fold are not near. It falls short of d where the
  data end at an edge, and the more the higher d is, since few points have no near ones: n points show no
  more than 2 log10(n) dimensions (Eckmann and Ruelle, Physica D 56, 1992);
- the hypersphere dimension (Granata and Carnevale, Scientific Reports 6:31377, 2016): below its maximum at r_max, the
  density of geodesic distances is that of a d-dimensional sphere, sin(π r / 2 r_max)^(d - 1). Around r_max there are
  pairs enough, so that few points show high dimensions. It puts long strips between 1 and 2, and some closed
  shapes, such as a product of circles, too high.

Also here: the broken stick, which shares of the spectrum are held against.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.geodesics.reads import bin_edges


@dataclass(frozen=True, eq=False)
class DistanceHistogram:
    """How many pairs of points are how far apart; each pair counts once.

    edges (m + 1,): Ascending, in the user's unit, 8 bins an octave; shape (1,) where no distance is positive and
        finite.
    counts (m,): Pairs with edges[i] <= d < edges[i + 1]; the first and the last are not 0.
    n_points: Vertices of the graph: distinct points that the fit kept.
    n_edges: Of the graph; 0 where distances were given.
    zeros, unreached: Pairs at distance 0, and pairs without a path: counts.sum() + zeros + unreached is `n_pairs`.
    """

    edges: F64
    counts: I64
    n_points: int
    n_edges: int = 0
    zeros: int = 0
    unreached: int = 0

    @property
    def n_pairs(self) -> int:
        """n (n - 1)/2."""
        return self.n_points * (self.n_points - 1) // 2

    @property
    def middles(self) -> F64:
        """The middle of each bin, shape (m,)."""
        return np.asarray(self.edges[:-1] + np.diff(self.edges) / 2)

    @property
    def nearer(self) -> I64:
        """Pairs at a positive distance below each bin's upper edge, shape (m,)."""
        return np.cumsum(self.counts)

    @classmethod
    def of_counts(cls, counts: I64, n_points: int, scale: float = 1.0, n_edges: int = 0) -> "DistanceHistogram":
        """From what :func:`scalemani.geodesics.reads.count_distances` counted.

        counts (2042,)
        scale: The unit of the counted distances in the user's: a power of two, so that edges are exact.
        """
        finite = counts[1:-1]
        found = np.flatnonzero(finite)
        first, last = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        edges = bin_edges()[first : last + 1] * scale
        return cls(edges, finite[first:last].copy(), n_points, n_edges, int(counts[0]), int(counts[-1]))


NEAR_PAIRS = 5  # a point, where the number of the graph's edges is not known: some ten neighbours of each
MOST_SHARE = 1 / 8  # of all pairs in the range of the correlation dimension: beyond it edges of the data show
FEWEST_BINS = 4  # half an octave
LEAST_SHARE = 0.02  # of all pairs below the densest distance: bins of fewer jump
BELOW_MAXIMUM = 2.0  # standard deviations of the distances that the hypersphere's fit reaches down
BLOCKS = 4  # of a range, each left out in turn


@dataclass(frozen=True)
class DimensionEstimate:
    """A dimension, and from what.

    standard_error: By the jackknife over four blocks of the range's bins, each left out in turn (Künsch, Annals of
        Statistics 17, 1989): how far the estimate hangs on where it is taken. What another sample would change is
        mostly less; what no scale shows (the shortfall in high dimensions) is not in it.
    shortest, longest: The range of distances, in the user's unit.
    n_pairs: Pairs of points nearer than `longest`.
    """

    dimension: float
    standard_error: float
    shortest: float
    longest: float
    n_bins: int
    n_pairs: int


def local_dimensions(histogram: DistanceHistogram) -> tuple[F64, F64]:
    """The correlation dimension scale by scale: slopes of log(number of pairs nearer than r) over log(r).

    -> r, slope (m - 1,): r in the geometric middle of a bin. The first ones are of a few pairs; a plateau is the
        dimension.
    """
    nearer = np.log(histogram.nearer)
    logarithms = np.log(histogram.edges[1:])
    return np.exp((logarithms[1:] + logarithms[:-1]) / 2), np.diff(nearer) / np.diff(logarithms)


def correlation_dimension(
    histogram: DistanceHistogram, shortest: float | None = None, longest: float | None = None
) -> DimensionEstimate:
    """Grassberger and Procaccia's dimension from geodesic distances: the slope of log(pairs nearer than r) over log(r).

    shortest, longest: The range of r. By default from where as many pairs are nearer as the graph has edges (below,
        distances are single edges) to where an eighth of all pairs is; half an octave at least. Pairs at distance 0 are
        left out.
    Raises ScalemaniError: Fewer than three bins are in the range.
    """
    nearer, edges = histogram.nearer, histogram.edges[1:]
    near = histogram.n_edges or NEAR_PAIRS * histogram.n_points
    last = max(int(np.searchsorted(nearer, MOST_SHARE * histogram.n_pairs, "right")) - 1, 0)
    first = min(int(np.searchsorted(nearer, near)), max(last + 1 - FEWEST_BINS, 0))
    place = np.arange(len(edges))
    used = (place >= first if shortest is None else edges >= shortest) & (
        place <= last if longest is None else edges <= longest
    )
    x, y = np.log(edges[used]), np.log(nearer[used])
    return _estimate(x, y, np.ones(len(x)), edges[used], nearer[used])


def hypersphere_dimension(histogram: DistanceHistogram) -> DimensionEstimate:
    """Granata and Carnevale's dimension: the density of geodesic distances below its maximum as that of a sphere.

    log p(r) is fitted with (d - 1) log sin(π r / 2 r_max) and a constant, from two standard deviations of the
    distances below r_max up to it, each bin by its pairs.

    Raises ScalemaniError: Fewer than three bins are in the range.
    """
    counts = histogram.counts
    if len(counts) < 3:
        raise _too_few(len(counts))
    r = histogram.middles / _densest(histogram)
    spread = np.sqrt(np.average((r - np.average(r, weights=counts)) ** 2, weights=counts))
    used = (counts > 0) & (r <= 1) & (r >= 1 - BELOW_MAXIMUM * spread)
    x = np.log(np.sin(np.pi / 2 * r[used]))
    y = np.log(counts[used] / np.diff(histogram.edges)[used])
    found = _estimate(x, y, counts[used], histogram.middles[used], histogram.nearer[used])
    return replace(found, dimension=found.dimension + 1)


def suggested_dimension(histogram: DistanceHistogram) -> dict[str, Any]:
    """Both estimates in plain numbers, and the whole number of axes that they suggest.

    -> "correlation", "hypersphere": the fields of a :class:`DimensionEstimate`, or None where there are too few
        distances; "suggested": the larger of them, rounded, at least 1 (None without either), since the one falls short
        at edges and in high dimensions and the other on long strips; "agree": whether both round to it.
    """
    found: dict[str, DimensionEstimate | None] = {}
    for name, estimate in (("correlation", correlation_dimension), ("hypersphere", hypersphere_dimension)):
        try:
            found[name] = estimate(histogram)
        except ScalemaniError:
            found[name] = None
    whole = [max(1, round(one.dimension)) for one in found.values() if one is not None]
    return {
        **{name: None if one is None else asdict(one) for name, one in found.items()},
        "suggested": max(whole, default=None),
        "agree": len(set(whole)) == 1,
    }


def _densest(histogram: DistanceHistogram) -> float:
    """Where the density of distances is highest: the vertex of a parabola through its logarithm, over seven bins.

    Bins are taken three at a time: few pairs, or lengths that many edges share, make single ones jump.
    """
    three, middles = np.ones(3), histogram.middles
    density = np.convolve(histogram.counts, three, "same") / np.convolve(np.diff(histogram.edges), three, "same")
    enough = histogram.nearer >= LEAST_SHARE * histogram.counts.sum()
    at = int(np.where(enough, density, 0.0).argmax())
    near = np.arange(max(0, at - 3), min(len(density), at + 4))
    near = near[density[near] > 0]
    place = middles[near] / middles[at]
    bent, leaning, _ = np.polyfit(place - 1, np.log(density[near]), 2) if len(near) > 3 else (0, 0, 0)
    vertex = 1 - leaning / (2 * bent) if bent < 0 else 1.0
    return float(np.clip(vertex, place[0], place[-1]) * middles[at])


def _estimate(x: F64, y: F64, weights: Any, r: F64, nearer: I64) -> DimensionEstimate:
    """The slope of a weighted straight line through the bins of a range, with its error."""
    count = len(x)
    if count < 3:
        raise _too_few(count)
    blocks = np.array_split(np.arange(count), min(BLOCKS, count))
    left_out = np.array([_slope(np.delete(x, b), np.delete(y, b), np.delete(weights, b)) for b in blocks])
    error = np.sqrt((len(blocks) - 1) * left_out.var())
    return DimensionEstimate(_slope(x, y, weights), float(error), float(r[0]), float(r[-1]), count, int(nearer[-1]))


def _slope(x: F64, y: F64, weights: Any) -> float:
    dx, dy = x - np.average(x, weights=weights), y - np.average(y, weights=weights)
    return float((weights * dx * dy).sum() / (weights * dx * dx).sum())


def _too_few(count: int) -> ScalemaniError:
    return ScalemaniError(
        f"{count} bins of distances are in the range and 3 are needed: give more points, or a wider range"
    )


# ---- the broken stick ----------------------------------------------------------------------------


def broken_stick(pieces: int, count: int | None = None) -> F64:
    """Expected lengths of the pieces of a unit stick that is broken at random, the longest first.

    The j-th of m pieces has (1/m) Σ_{i=j..m} 1/i (MacArthur, PNAS 43, 1957), those past the last 0. An axis whose share
    of the spectrum is no larger shows no more than chance would. The m of ape's pcoa is the number of
    positive eigenvalues after the correction: n - 2 with Cailliez' or Lingoes'.

    count: Lengths to return; m by default.

    >>> broken_stick(3, 4).round(4).tolist()
    [0.6111, 0.2778, 0.1111, 0.0]
    """
    lengths = np.zeros(max(pieces, count or 0))
    lengths[:pieces] = np.cumsum(1 / np.arange(pieces, 0, -1.0))[::-1] / max(pieces, 1)
    return lengths[:count]
