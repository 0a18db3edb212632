"""Quality of an embedding: takes geodesic and embedded distances, gives residual variances.

Reads what a fit left and changes nothing. The measure is Tenenbaum, de Silva and Langford's (Science
290, 2000): 1 - r², r the correlation of geodesic with embedded distances over pairs of points. Adding
a constant to every geodesic distance leaves it as it is, so it compares corrections fairly.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scalemani.errors import ScalemaniError

__all__ = ["embedded_distances", "residual_variance", "residual_variances"]


def residual_variance(geodesic: ArrayLike, embedded: ArrayLike) -> float:
    """1 - r² between two sets of distances over the same pairs.

    Parameters
    ----------
    geodesic, embedded : array-like, any one shape
        Distances in the same order; pairs that are not finite in both are left out.

    Returns
    -------
    float
        Between 0 (proportional up to a constant) and 1.

    Raises
    ------
    ScalemaniError
        The shapes differ, fewer than two pairs are finite, or a set is constant.

    Examples
    --------
    >>> residual_variance([1.0, 2.0, 4.0], [5.0, 7.0, 11.0])
    0.0
    """
    x = np.asarray(geodesic, dtype=np.float64).ravel()
    y = np.asarray(embedded, dtype=np.float64).ravel()
    if x.shape != y.shape:
        raise ScalemaniError(
            f"{x.size} geodesic and {y.size} embedded distances; give both for the same pairs"
        )
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    if x.size < 2:
        raise ScalemaniError(f"{x.size} pairs have finite distances; give at least 2")
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.dot(x, x)) * float(np.dot(y, y))
    if not scale > 0:
        raise ScalemaniError("all distances of a set are equal; there is no correlation to take")
    return max(0.0, 1.0 - float(np.dot(x, y)) ** 2 / scale)


def embedded_distances(embedding: NDArray[np.floating[Any]], rows: ArrayLike) -> NDArray[np.float64]:
    """Euclidean distances from some rows to every row of an embedding.

    Parameters
    ----------
    embedding : ndarray, shape (n, p)
    rows : array-like of int, shape (m,)

    Returns
    -------
    ndarray of float64, shape (m, n)
    """
    points = np.asarray(embedding, dtype=np.float64)
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(points[np.asarray(rows)], points))


def residual_variances(
    geodesic: NDArray[np.floating[Any]], embedding: NDArray[np.floating[Any]], rows: ArrayLike
) -> NDArray[np.float64]:
    """Residual variance with the first 1, 2, ... p axes, over the pairs of some rows with all rows.

    Parameters
    ----------
    geodesic : ndarray, shape (m, n)
        Geodesic distances from `rows`, as ``model.geodesics(rows)`` gives them.
    embedding : ndarray, shape (n, p)
    rows : array-like of int, shape (m,)
        Every row for the exact figure, a few hundred for an estimate.

    Returns
    -------
    ndarray of float64, shape (p,)
    """
    chosen = np.asarray(rows)
    pairs = np.ones(geodesic.shape, dtype=bool)
    # A point's distance to itself is no pair. A pair of two chosen rows is met from both ends, which
    # would weigh it twice: it counts from the first of them.
    rank = np.full(embedding.shape[0], chosen.size)
    rank[chosen] = np.arange(chosen.size)
    pairs &= rank[np.newaxis, :] > np.arange(chosen.size)[:, np.newaxis]
    x = np.asarray(geodesic)[pairs]
    axes = range(1, embedding.shape[1] + 1)
    return np.array([residual_variance(x, embedded_distances(embedding[:, :p], chosen)[pairs]) for p in axes])
