"""Coordinates of points by their distances to the training points: a linear map of products with the model's axes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.embedding.coordinates import Embedding
from scalemani.geodesics.lanes import row_products
from scalemani.geodesics.paths import PathGraph, products_from_seeds
from scalemani.kernel import blas


class Axes:
    """The model's axes, as a row of D is placed on them.

    form ({"continuous", "paper"})
    vectors (n, a): V of the axes that carry geometry, less its column means.
    gains (a,): What V'k_t is multiplied by, the user's unit included.
    width, scale: Axes, and the user's unit in that of the distances.
    """

    def __init__(self, embedding: Embedding, form: str) -> None:
        self.embedding, self.form = embedding, form
        self.width, self.scale = len(embedding.eigenvalues), embedding.scale
        values = embedding.eigenvalues[embedding.active]
        if form == "continuous":
            gains = np.sqrt(np.abs(values)) / (values - embedding.nugget)
        else:
            gains = np.sign(values) / np.sqrt(np.abs(values))
        self.gains = gains * embedding.scale
        chosen = blas.by_rows(embedding.vectors[:, embedding.active])
        self.vectors: F64 = chosen - chosen.mean(axis=0)
        self._on_points = self.embedding.on_points[:, embedding.active]
        self._mean_products = blas.product(embedding.means, self.vectors)

    def place_rows(self, distances: NDArray[Any], own: I64, beyond: F64 | float = 0.0) -> F64:
        """Coordinates (l, p) of rows of distances (l, n), in the unit of the tiles; each row by itself.

        own (l,): The training point that a row equals, or -1.
        beyond (l,): What all distances of a row are longer by.
        """
        count, wide = len(own), self.vectors.shape[1]
        nearest, first, second = np.empty(count), np.empty((count, wide)), np.empty((count, wide))
        row_products(blas.by_rows(distances), self.vectors, nearest, first, second)
        return self.place(nearest + beyond, first, second, own)

    def place_known(self, distances: F64) -> F64:
        """The same of any points: one that is at distance 0 of a training point is that."""
        return self.place_rows(distances, np.where((distances == 0).any(1), (distances == 0).argmax(1), -1))

    def place_seeds(self, graph: PathGraph, indptr: I64, seeds: I64, lengths: F64, own: I64) -> F64:
        """The same of points that touch vertices of the graph; fastest where they lie together."""
        return self.place(*products_from_seeds(graph, indptr, seeds, lengths, self.vectors), own)

    def place(self, nearest: F64, first: F64, second: F64, own: I64) -> F64:
        """Coordinates from each row's least entry d0 and V'e, V'e², with e = d - d0 (the paper's step 7); of NaN, NaN.

        With V less its column means, V'1 = 0 to the last bit, so every constant in k_t drops out, 2g too:
        -2 V'k_t = V'e² + 2 (d0 + c) V'e - V'm. Nothing large is left to cancel, however far t is.
        """
        y = np.zeros((len(nearest), len(self.embedding.eigenvalues)))
        with np.errstate(invalid="ignore"):
            k = -0.5 * (second + 2 * (nearest + self.embedding.constant)[:, None] * first - self._mean_products)
        if self.form == "paper":  # d̃² = 0 at its own vertex, where it is 2g by the formula
            known = np.flatnonzero(own >= 0)
            k[known] += self.embedding.nugget * self._on_points[own[known]]
        y[:, self.embedding.active] = k * self.gains
        y[~np.isfinite(k).all(axis=1) | ~np.isfinite(nearest)] = np.nan
        return y
