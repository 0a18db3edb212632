"""Two maps of the same points: one laid upon the other, and how far they agree.

A map says nothing by where it lies, how it is turned and which of its sides is up. So one is moved, turned, mirrored
and, if asked, scaled until its points lie nearest to those of the other: Procrustes analysis (Schönemann, "A
generalized solution of the orthogonal Procrustes problem", Psychometrika 31, 1966; Gower, "Generalized Procrustes
analysis", Psychometrika 40, 1975).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from scalemani.aliases import F64, I64
from scalemani.cluster.client import cores
from scalemani.errors import ScalemaniError
from scalemani.kernel import blas
from scalemani.points.reading import row_numbers
from scalemani.words import count

ROWS_TOGETHER = 8192  # whose lists of neighbours are compared at once
MOST = 1e300  # times that a map may be as large as another
PAIRS = 100_000  # of distances
LOOSE = 0.3  # of a map's spread: points of two maps that are farther apart on average make another shape


@dataclass(frozen=True, eq=False)
class Superposition:
    """What lays a map upon another one.

    middle, target (p,): Centre of the map, and where it comes to lie.
    turn (p, p): Orthogonal: a rotation, or one with a reflection.
    scale: Above 0; 1 where none was asked for.
    disparity: Procrustes' statistic: the least sum of squared distances between the maps' points that any turn and
        scale leave, over the sum of squares of the other map around its centre. From 0 (the same shape) to 1, and the
        same if the maps change places.
    apart: Root mean squared distance between the points as this lays them, over the other map's spread, which is their
        root mean squared distance from their centre.
    n_points: By which it was found.
    """

    middle: F64
    turn: F64
    target: F64
    scale: float
    disparity: float
    apart: float
    n_points: int

    def of(self, coordinates: F64) -> F64:
        """Coordinates (l, p) as they lie upon the other map; NaN stays. A row's bits depend on that row alone."""
        out = np.zeros(coordinates.shape) + self.target
        for axis, row in zip(((coordinates - self.middle) * self.scale).T, self.turn, strict=True):
            out += axis[:, None] * row
        return out


def superposition(target: F64, source: F64, *, scale: bool = True) -> Superposition:
    """What lays `source` upon `target` with the least sum of squared distances.

    target, source (n, p): The same points in the same order, finite.
    Raises ScalemaniError: All points of one of them lie in one place, or one is out of all proportion.
    """
    centers = [points.mean(axis=0) for points in (target, source)]
    sizes = [float(np.ptp(points, axis=0).max(initial=0.0)) for points in (target, source)]
    if not all(sizes):
        raise ScalemaniError("all points of a map lie in one place: nothing says how to turn it")
    there, here = (
        (points - center) / size for points, center, size in zip((target, source), centers, sizes, strict=True)
    )
    left, values, right = np.linalg.svd(blas.product(here.T, there))
    turn = blas.product(left, right)
    turned, sums = blas.product(here, turn), [float((points**2).sum()) for points in (there, here)]
    best = float(values.sum()) / sums[1]  # in the maps' sizes
    used = best if scale else sizes[1] / sizes[0]
    disparity, apart = (float(((there - by * turned) ** 2).sum()) / sums[0] for by in (best, used))
    factor = best * (sizes[0] / sizes[1]) if scale else 1.0
    if not MOST**-1 < factor < MOST:
        raise ScalemaniError(f"one map is more than {MOST:g} times as large as the other: rescale one")
    return Superposition(centers[1], turn, centers[0], factor, min(disparity, 1.0), float(np.sqrt(apart)), len(here))


def at_one(points: F64) -> F64:
    """Times the power of two that brings the largest near 1: no square is out of range."""
    return np.asarray(np.ldexp(points, -int(np.frexp(np.abs(points).max(initial=0.0))[1])))


def shared_neighbors(one: F64, other: F64, numbers: Sequence[int]) -> dict[int, F64]:
    """Which share of each point's k nearest in one map are among its k nearest in the other.

    one, other (n, p): The same points in the same order, finite. Those that are equal in both maps are one point.
    numbers: The k. Those that leave no two points out are passed over: all would be shared.
    -> For each k the shares (n,). By chance they are k / (n - 1).
    """
    points, which = np.unique(np.hstack([at_one(one), at_one(other)]), axis=0, return_inverse=True)
    some = [k for k in numbers if k < len(points) - 1]
    if not some:
        return {}
    near, also = (_nearest(part, max(some)) for part in np.split(points, [one.shape[1]], axis=1))
    found = {}
    for k in some:
        shares = np.empty(len(points))
        for start in range(0, len(points), ROWS_TOGETHER):
            rows = slice(start, start + ROWS_TOGETHER)
            both = np.sort(np.hstack([near[rows, :k], also[rows, :k]]), axis=1)
            shares[rows] = (both[:, 1:] == both[:, :-1]).sum(axis=1) / k
        found[k] = shares[which.ravel()]
    return found


def _nearest(points: F64, k: int) -> I64:
    """The k nearest others of each point (n, k), the nearest first."""
    found = cKDTree(points, balanced_tree=False).query(points, k + 1, workers=cores())[1]
    own = found == np.arange(len(points))[:, None]
    own[~own.any(axis=1), -1] = True  # of more than k points in one place
    return np.asarray(found[~own].reshape(len(points), k))


def correlation_of_distances(one: F64, other: F64, seed: int = 0) -> float:
    """Pearson's correlation of the two maps' distances over pairs of points: all, or 100,000 that are drawn.

    Not Székely's "distance correlation", a measure of dependence of two samples.

    -> NaN where the distances of a map are all equal, or there are fewer than two pairs.
    """
    n = len(one)
    if n * (n - 1) // 2 <= PAIRS:
        i, j = np.triu_indices(n, 1)
    else:
        i, step = np.random.default_rng(seed).integers([[0], [1]], n, (2, PAIRS))
        j = (i + step) % n
    x, y = (np.linalg.norm(points[i] - points[j], axis=1) for points in map(at_one, (one, other)))
    if len(x) < 2 or not (np.ptp(x) and np.ptp(y)):
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def matched(
    ids: Sequence[Sequence[str] | None], sizes: Sequence[int], names: Sequence[str], rows: Any = None, other: str = ""
) -> tuple[I64, I64, str]:
    """Which rows of two maps are of the same points, and how that is known, in words.

    ids, sizes, names: Of both: an id a row or None, the number of rows, and what messages call it.
    rows: Their numbers in the one and in the other, where the caller knows.
    other: What else the user could give, in messages.
    -> Row numbers (m,) in the one, rising unless they were given, and in the other.
    Raises ScalemaniError: Ids that name several rows; nothing by which rows could be matched; rows that are no pair of
        equally many row numbers.
    """
    if rows is not None:
        return *_given(rows, sizes), "as they were given"
    first, second = ids
    if first is not None and second is not None:
        places = [_places(some, name, other) for some, name in ((first, names[0]), (second, names[1]))]
        common = [(place, places[1][one]) for one, place in places[0].items() if one in places[1]]
        here, there = np.array(common, np.int64).reshape(-1, 2).T
        return here, there, "by their ids"
    if sizes[0] != sizes[1]:
        without = " and ".join(name for name, some in zip(names, ids, strict=True) if some is None)
        raise ScalemaniError(
            f"{names[0]} has {sizes[0]:,} rows and {names[1]} {sizes[1]:,}, and {without} no ids: give both ids "
            f"(name_rows, or --id-column of fit){other}"
        )
    return np.arange(sizes[0]), np.arange(sizes[0]), "by their numbers"


def _given(rows: Any, sizes: Sequence[int]) -> tuple[I64, I64]:
    if not isinstance(rows, tuple | list) or len(rows) != 2:
        raise ScalemaniError("rows is no pair: give (rows of the one map, rows of the other)")
    here, there = (np.asarray(row_numbers(one, size)) for one, size in zip(rows, sizes, strict=True))
    if len(here) != len(there):
        raise ScalemaniError(f"rows has {len(here):,} and {len(there):,} row numbers: give as many of the other map")
    return here, there


def _places(ids: Sequence[str], name: str, other: str) -> dict[str, int]:
    found = {one: row for row, one in enumerate(ids)}
    if len(found) < len(ids):
        twice = next(one for row, one in enumerate(ids) if found[one] != row)
        raise ScalemaniError(
            f"{name} has several rows with the id {twice!r:.60}: rows are matched by ids that differ; name the rows "
            f"anew (name_rows){other}"
        )
    return found


def common_points(
    maps: Sequence[ArrayLike], rows: Sequence[I64], names: Sequence[str], how: str
) -> tuple[I64, F64, F64]:
    """Which of the matched rows have coordinates in both maps, and these (m, p); `how` they were matched is said.

    Raises ScalemaniError: The maps have different numbers of axes, or fewer than p + 1 such rows.
    """
    one, other = (np.asarray(part, np.float64) for part in maps)
    p, q = one.shape[1], other.shape[1]
    if p != q:
        raise ScalemaniError(
            f"{names[0]} has {count(p, 'axis', 'axes')} and {names[1]} {q}: two maps of as many axes are needed; fit "
            "one of them again with n_components of the other"
        )
    one, other = one[rows[0]], other[rows[1]]
    known = np.flatnonzero(np.isfinite(one).all(axis=1) & np.isfinite(other).all(axis=1))
    if len(known) < p + 1:
        raise ScalemaniError(
            f"{names[0]} and {names[1]} have {count(len(known), 'row')} with coordinates in common, matched {how}: "
            f"{p + 1} or more are needed to lay maps of {count(p, 'axis', 'axes')} upon each other"
        )
    return known, one[known], other[known]
