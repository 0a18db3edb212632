"""New points by their features alone: y = (f - mean) A, with f the row itself or its kernel values to some rows.

No graph and no D is needed. Each row's result depends on that row alone: products are made row by row.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.embedding.isometric import panels
from scalemani.embedding.kernel_functions import Kernel, row_products
from scalemani.neighbors.choice import SearchStrategy
from scalemani.points.reading import row_blocks

LEAST_REACH = 1e-3  # a Gaussian kernel's largest value of a row, below which all such rows land on one point


class FeatureMap:
    """What places rows of features; in the place of a :class:`scalemani.projection.projector.Projector`.

    mean (q,), weights (q, d)
    kernel, others: The features are this kernel's values to these rows (q, p); None where they are the rows themselves.
    check: Refuses rows that the metric of the fit can't take.
    """

    direct, n, seeds_a_row, spare = True, 1, 1, 0
    gives, lost = "coordinates", "kernel values that are not finite"
    far = f"so far that the Gaussian kernel is below {LEAST_REACH:g} to all training rows (fit with a smaller gamma)"

    def __init__(
        self,
        n_features: int,
        mean: F64,
        weights: F64,
        kernel: Kernel | None = None,
        others: Any = None,
        check: Callable[[Any, int, str], None] | None = None,
    ) -> None:
        self.n_features, self.width = n_features, weights.shape[1]
        self._check, self._mean, self._weights, self._kernel, self._others = (
            check,
            mean,
            np.ascontiguousarray(weights),
            kernel,
            others,
        )

    def blocks(self, T: Any, name: str, first: int = 0) -> Iterator[tuple[int, Any]]:
        """Validated row blocks of a test set; `first` is the number of T's first row in messages."""
        like = None if self._kernel is None else self._others
        yield from row_blocks(T, name=name, n_features=self.n_features, like=like, first=first, check=self._check)

    def is_long(self, total: int) -> bool:
        """No: nothing is searched for."""
        return False

    def way(self, total: int) -> str:
        """Of searching, if there were any."""
        return SearchStrategy.EXACT

    def placed(self, block: Any, way: str = SearchStrategy.EXACT) -> tuple[F64, I64]:
        """Coordinates (l, d) of a validated block of rows, and the numbers of those beyond the kernel's reach."""
        far = np.zeros(block.shape[0], bool)
        if self._kernel is None:
            return row_products(block, self._mean, self._weights), np.flatnonzero(far)
        out = np.empty((len(far), self.width))
        for here in panels(len(out), len(self._mean)):
            values = self._kernel.values(block[here], self._others)
            far[here] = self._kernel.name == "rbf" and values.max(axis=1) < LEAST_REACH
            out[here] = row_products(values, self._mean, self._weights)
        return out, np.flatnonzero(far)
