"""Quality of an embedding: how well its distances show the geodesic ones.

Of the whole: the residual variance 1 - r² (Tenenbaum, de Silva and Langford, Science 290, 2000), which an added
constant leaves as it is, so that it compares corrections fairly; and the normalised stress, which it does not. Of
neighbourhoods: trustworthiness and continuity (Venna and Kaski, ICANN 2001; Neural Networks 19, 2006). With every row
they are exact, with a few hundred an estimate. :func:`quality_account` has all of them of a fitted model.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.points.cells import unmasked


def trustworthiness(geodesic: ArrayLike, embedding: ArrayLike, rows: ArrayLike, *, n_neighbors: int = 10) -> float:
    """How far neighbours in the embedding are neighbours along the data.

    1 - 2 / (m k (2n - 3k - 1)) Σ_i Σ_j (r(i, j) - k) over m points i and those of their k nearest points j in the
    embedding that are no k nearest along the data, r(i, j) the rank of j among the n - 1 others by geodesic distance
    (Venna and Kaski 2001, where m = n). Equal distances share the best of their ranks.

    geodesic (m, N): Distances from `rows` to every row; any will do, such as those of the features. inf is allowed.
    embedding (N, p): Rows that are not finite (of dropped components) are no points: they count in nothing.
    rows (m,): Every row for the exact figure, a few hundred for an estimate.
    n_neighbors: k, less than half of the n points.
    -> From 0 to 1, which is a neighbourhood without intruders.
    Raises ScalemaniError: The shapes don't fit, k is too large, no row is a point, or a distance between points is NaN.
    """
    return _preserved(geodesic, embedding, rows, n_neighbors)[0]


def continuity(geodesic: ArrayLike, embedding: ArrayLike, rows: ArrayLike, *, n_neighbors: int = 10) -> float:
    """How far neighbours along the data are neighbours in the embedding: :func:`trustworthiness` the other way round.

    Of the k nearest along the data, those that are no k nearest in the embedding count, by their rank there.

    geodesic, embedding, rows, n_neighbors: As for :func:`trustworthiness`.
    -> From 0 to 1, which is a neighbourhood that nobody has left.
    Raises ScalemaniError: As for :func:`trustworthiness`.
    """
    return _preserved(geodesic, embedding, rows, n_neighbors)[1]


def _preserved(geodesic: ArrayLike, embedding: ArrayLike, rows: ArrayLike, k: int) -> tuple[float, float]:
    points = np.asarray(unmasked(np.asanyarray(embedding), "embedding"), np.float64)
    distances = np.atleast_2d(np.asarray(unmasked(np.asanyarray(geodesic), "geodesic")))
    chosen = np.atleast_1d(np.asarray(rows))
    if points.ndim != 2 or distances.shape != (len(chosen), len(points)):
        raise ScalemaniError(
            f"distances of shape {distances.shape}, {len(chosen)} rows and an embedding of shape {points.shape}: "
            "(rows, points) and (points, axes) are needed"
        )
    found = list(ranked_excess(distances, points, chosen, k))
    if not found:
        raise ScalemaniError(f"none of {len(chosen)} rows is a point of the embedding: give rows that are")
    return preserved(np.mean(found, axis=0), k, int(np.isfinite(points).all(axis=1).sum()))


def preserved(excess: F64, k: int, n: int) -> tuple[float, float]:
    """Trustworthiness and continuity from the mean over rows of what :func:`ranked_excess` yields."""
    trust, continuity = (1 - float(one) * 2 / (k * (2 * n - 3 * k - 1)) for one in excess)
    return trust, continuity


def check_neighbors(k: int, n: int) -> None:
    """Refuse a neighbourhood of no point, or of half of n points and more, where the measures leave 0 to 1."""
    if not 1 <= k < n / 2:
        raise ScalemaniError(f"n_neighbors={k}: 1 or more, and less than half of the {n} points, is allowed")


def ranked_excess(distances: NDArray[Any], points: F64, rows: I64, k: int) -> Iterator[tuple[int, int]]:
    """Σ max(0, rank - k) of each row's k neighbours: of those in the embedding, and of those along the data.

    distances (m, N)
    points (N, p)
    rows (m,): Those that are no points are passed over.
    Raises ScalemaniError: If k is too large, or a distance between points is NaN.
    """
    kept = np.asarray(np.isfinite(points).all(axis=1))
    n = int(kept.sum())
    check_neighbors(k, n)
    place, inside = np.cumsum(kept) - 1, points[kept]
    for row, whole in zip(np.arange(len(points))[rows], distances, strict=True):
        if not kept[row]:
            continue
        own = int(place[row])
        along = np.delete(whole[kept], own)
        if np.isnan(along).any():
            raise ScalemaniError(f"row {row} has distances that are NaN: give its distances to all {n} points")
        across = np.delete(np.linalg.norm(inside - inside[own], axis=1), own)
        yield _excess(across, along, k), _excess(along, across, k)


def _excess(near: NDArray[Any], ranked: NDArray[Any], k: int) -> int:
    """Σ max(0, rank - k) of the k nearest by `near`, the first of equals, in their ranks by `ranked`.

    A rank is 1 and the number of those before: all are told apart by the k, which is less work than to sort them.
    """
    last = np.partition(near, k - 1)[k - 1]
    nearest = np.flatnonzero(near < last)
    nearest = np.concatenate([nearest, np.flatnonzero(near == last)[: k - len(nearest)]])
    theirs = np.sort(ranked[nearest])
    before = np.cumsum(np.bincount(np.searchsorted(theirs, ranked, "right"), minlength=k + 1))[:k]
    return int(np.maximum(before + 1 - k, 0).sum())


ENTRIES = 8 << 20  # of rows of D that are held at once: some 300 MB while they are found and put in order


def residual_variance(geodesic: ArrayLike, embedded: ArrayLike) -> float:
    """1 - r² between two sets of distances over the same pairs.

    geodesic, embedded: In the same order, of any one shape; pairs that are not finite in both, or masked, are left out.
    -> Between 0 (proportional up to a constant) and 1.
    Raises ScalemaniError: The shapes differ, fewer than two pairs are finite, or a set is constant.

    >>> residual_variance([1.0, 2.0, 4.0], [5.0, 7.0, 11.0])
    0.0
    """
    x, y = _pairs(geodesic, embedded)
    if x.size < 2:
        raise ScalemaniError(f"{x.size} pairs have finite distances; give at least 2")
    x, y = (part - part.mean() for part in (_at_one(x), _at_one(y)))
    scale = float(np.dot(x, x)) * float(np.dot(y, y))
    if not scale > 0:
        raise ScalemaniError("all distances of a set are equal; there is no correlation to take")
    return max(0.0, 1.0 - float(np.dot(x, y)) ** 2 / scale)


def normalized_stress(geodesic: ArrayLike, embedded: ArrayLike, *, scaled: bool = False) -> float:
    """sqrt(Σ (d_geodesic - d_embedded)² / Σ d_geodesic²) over pairs of points.

    The root of metric scaling's normalised stress (Borg and Groenen, "Modern Multidimensional Scaling", 2005, section
    11.1); Kruskal's stress-1 (Psychometrika 29, 1964) has the embedded distances in the denominator. An embedding in
    another unit, or of distances to which a constant was added, has a large one.

    geodesic, embedded: As for :func:`residual_variance`.
    scaled: With the embedding times the factor that makes it least, Σ xy / Σ y². That is the least stress-1, too: both
        are sqrt(1 - c²) of Tucker's congruence c = Σ xy / sqrt(Σ x² Σ y²).
    -> 0 where all distances are equal; 1 if every embedded one is 0; with `scaled` at most 1.
    Raises ScalemaniError: The shapes differ, or no pair has a finite positive geodesic distance.

    >>> normalized_stress([3.0, 4.0], [3.0, 9.0]), normalized_stress([3.0, 4.0], [6.0, 8.0], scaled=True)
    (1.0, 0.0)
    """
    x, y = _pairs(geodesic, embedded)
    y = _at_one(y, None if scaled else x)
    x = _at_one(x)
    whole = float(np.dot(x, x))
    if not whole > 0:
        raise ScalemaniError(f"{x.size} pairs have finite distances, and no geodesic one is above 0")
    squares = float(np.dot(y, y))
    factor = float(np.dot(x, y)) / squares if scaled and squares > 0 else 1.0
    return float(np.linalg.norm(x - factor * y) / np.sqrt(whole))


def _pairs(geodesic: ArrayLike, embedded: ArrayLike) -> tuple[F64, F64]:
    """Both distances of the pairs that have them."""
    x, y = (np.ma.asarray(part, np.float64).filled(np.nan).ravel() for part in (geodesic, embedded))
    if x.shape != y.shape:
        raise ScalemaniError(f"{x.size} geodesic and {y.size} embedded distances; give both for the same pairs")
    finite = np.isfinite(x) & np.isfinite(y)
    return x[finite], y[finite]


def _at_one(values: F64, like: F64 | None = None) -> F64:
    """Times the power of two that brings the largest, or that of `like`, near 1: no square is out of range."""
    largest = np.abs(values if like is None else like).max(initial=0.0)
    return np.asarray(np.ldexp(values, -int(np.frexp(largest)[1])))


def embedded_distances(embedding: NDArray[np.floating[Any]], rows: ArrayLike) -> F64:
    """Euclidean distances (m, n) from some rows (m,) to every row of an embedding (n, p)."""
    points = np.asarray(embedding, dtype=np.float64)
    return np.asarray(cdist(points[np.asarray(rows)], points))


def residual_variances(
    geodesic: NDArray[np.floating[Any]], embedding: NDArray[np.floating[Any]], rows: ArrayLike
) -> F64:
    """Residual variance with the first 1, 2, ... p axes, (p,), over the pairs of some rows with all rows.

    geodesic (m, n): Geodesic distances from `rows`, as ``model.geodesics(rows)`` gives them.
    embedding (n, p)
    rows (m,): Every row for the exact figure, a few hundred for an estimate.
    """
    chosen = np.asarray(rows)
    # A point's distance to itself is no pair. A pair of two chosen rows is met from both ends, which
    # would weigh it twice: it counts from the first of them.
    rank = np.full(embedding.shape[0], chosen.size)
    rank[chosen] = np.arange(chosen.size)
    pairs = rank > np.arange(chosen.size)[:, np.newaxis]
    x = np.asarray(geodesic)[pairs]
    axes = range(1, embedding.shape[1] + 1)
    return np.array([residual_variance(x, embedded_distances(embedding[:, :p], chosen)[pairs]) for p in axes])


# ---- of a fitted model ---------------------------------------------------------------------------


def quality_account(model: Any, n_rows: int = 256, n_neighbors: int | None = None, seed: int = 0) -> dict[str, Any]:
    """How well a fitted model's embedding shows its geodesic distances, from rows at random against all points.

    The rows of D are found again from the graph, a few at a time: D is not read (unless it was given). Rows that the
    fit dropped are left out; equal rows count as often as they are there.

    n_rows: How many at most.
    n_neighbors: Of the neighbourhoods; by default the model's, or 10, and always less than half of the points.
    seed: Of the choice of rows.
    -> JSON values. "n_points", "n_rows", "n_pairs" (each once), "n_neighbors"; "residual_variance" with the first
        1, 2, ... p axes (Tenenbaum's curve); "normalised_stress", and "normalised_stress_scaled" at the best scale of
        the embedding; "trustworthiness", "continuity". None where a number has no meaning, as between equal distances.
    Raises ScalemaniError: `n_rows` or `n_neighbors` is out of range, or D was given and is not kept.
    """
    points = np.asarray(model.embedding_, np.float64)
    kept = np.flatnonzero(np.isfinite(points).all(axis=1))
    n, limit = len(kept), (len(kept) - 1) // 2
    if not all(isinstance(one, int | np.integer) for one in (n_rows, seed)) or n_rows < 1 or seed < 0:
        raise ScalemaniError(f"n_rows={n_rows!r}, seed={seed!r}: at least 1 row, and a seed of 0 or more, are needed")
    k = min(getattr(model, "n_neighbors", None) or 10, limit) if n_neighbors is None else n_neighbors
    if k or n_neighbors is not None:
        check_neighbors(k, n)
    rows = np.sort(np.random.default_rng(seed).choice(kept, min(n_rows, n), replace=False))
    moments, excess = _Moments(points.shape[1]), [np.empty((0, 2))]
    down = -int(np.frexp(np.abs(points[kept]).max(initial=0.0))[1])  # to a unit whose squares are in range
    small = np.ldexp(points, down)
    rank = np.full(len(points), -1)  # of dropped rows: no partner
    rank[kept], rank[rows] = len(rows), np.arange(len(rows))
    step = max(1, ENTRIES // len(points))  # rows of D, as many at once as may be held
    for at in range(0, len(rows), step):
        some = rows[at : at + step]
        geodesic = model.geodesics(some, stored=False)
        if k:
            excess.append(np.array(list(ranked_excess(geodesic, points, some, k)), float))
        for i, row in enumerate(some):
            others = np.flatnonzero(rank > at + i)
            moments.add(np.ldexp(geodesic[i, others], down), _by_axes(small[others], small[row]))
    trust, kept_near = preserved(np.concatenate(excess).mean(axis=0), k, n) if k else (None, None)
    return {
        "n_points": n,
        "n_rows": len(rows),
        "n_pairs": moments.count,
        "n_neighbors": k or None,
        **moments.account(),
        "trustworthiness": trust,
        "continuity": kept_near,
    }


def _by_axes(points: F64, origin: F64) -> Iterator[F64]:
    """Distances from a point with the first 1, 2, ... axes."""
    squares = np.zeros(len(points))
    for axis in range(points.shape[1]):
        squares += (points[:, axis] - origin[axis]) ** 2
        yield np.sqrt(squares)


class _Moments:
    """Sums over pairs that come a row at a time, of geodesic (x) and embedded (y) distances with 1, 2, ... p axes.

    Those of the residual variance are about the means, which move as pairs come (Chan, Golub and LeVeque, The American
    Statistician 37, 1983): plain sums would lose the digits of a small one.
    """

    def __init__(self, axes: int) -> None:
        self.count = 0
        self.mean_x, self.mean_y = 0.0, np.zeros(axes)
        self.xx, self.yy, self.xy = 0.0, np.zeros(axes), np.zeros(axes)
        self.raw = np.zeros(4)  # Σ x², Σ y², Σ xy, Σ (x - y)² with all axes

    def add(self, x: F64, embedded: Iterator[F64]) -> None:
        """Take in a row's pairs."""
        if not len(x):
            return
        before, self.count = self.count, self.count + len(x)
        weight, step_x = before * len(x) / self.count, x.mean() - self.mean_x
        dx = x - x.mean()
        self.xx += dx @ dx + weight * step_x**2
        for axis, y in enumerate(embedded):
            step_y = y.mean() - self.mean_y[axis]
            dy = y - y.mean()
            self.yy[axis] += dy @ dy + weight * step_y**2
            self.xy[axis] += dx @ dy + weight * step_x * step_y
            self.mean_y[axis] += step_y * len(x) / self.count
        self.raw += [x @ x, y @ y, x @ y, (x - y) @ (x - y)]
        self.mean_x += step_x * len(x) / self.count

    def account(self) -> dict[str, Any]:
        """The measures of the whole."""
        xx, yy, xy, apart = self.raw
        varies = self.xx * self.yy
        return {
            "residual_variance": [
                max(0.0, 1 - float(c**2 / v)) if v > 0 else None for c, v in zip(self.xy, varies, strict=True)
            ],
            "normalised_stress": float(np.sqrt(apart / xx)) if xx > 0 else None,
            "normalised_stress_scaled": float(np.sqrt(max(0.0, 1 - xy**2 / (xx * yy)))) if xx * yy > 0 else None,
        }
