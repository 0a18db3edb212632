"""Neighbourhoods in an embedding: takes geodesic distances from some rows to all points, gives how far they are kept.

Trustworthiness and continuity (Venna and Kaski, ICANN 2001; Neural Networks 19, 2006) on some rows: exact with every
row, an estimate with a few hundred. Only one row of embedded distances is held at once.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalemani.cells import unmasked
from scalemani.errors import ScalemaniError

__all__ = ["check_neighbors", "continuity", "preserved", "ranked_excess", "trustworthiness"]

Distances = NDArray[np.float64]


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
    """Trustworthiness and continuity."""
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


def preserved(excess: Distances, k: int, n: int) -> tuple[float, float]:
    """Trustworthiness and continuity from the mean over rows of what :func:`ranked_excess` yields."""
    trust, continuity = (1 - float(one) * 2 / (k * (2 * n - 3 * k - 1)) for one in excess)
    return trust, continuity


def check_neighbors(k: int, n: int) -> None:
    """Refuse a neighbourhood of no point, or of half of n points and more, where the measures leave 0 to 1."""
    if not 1 <= k < n / 2:
        raise ScalemaniError(f"n_neighbors={k}: 1 or more, and less than half of the {n} points, is allowed")


def ranked_excess(
    distances: NDArray[Any], points: Distances, rows: NDArray[np.int64], k: int
) -> Iterator[tuple[int, int]]:
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
