"""Points of methods that read neighbour lists: each list is a point's own, and all of them must lead into one class.

Weights that rebuild points from their lists have one null vector for each closed class of the directed lists: a set in
which every point leads to every other, and that no list leaves. A connected graph may have several.
"""

from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from scalemani.embedding.kernel_functions import FunctionKernel, Kernel, function_kernel, squared_sizes
from scalemani.embedding.reconstruction import closed_classes
from scalemani.errors import DisconnectedGraphError, ScalemaniError, ScalemaniWarning, warn
from scalemani.graph.build import Graph
from scalemani.graph.components import JOIN
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.forms import Form
from scalemani.neighbors.lists import NeighborLists
from scalemani.parameters import Parameters
from scalemani.points.digests import content_rank
from scalemani.points.rows import save_rows
from scalemani.steps.inputs import FeatureInput, KernelInput
from scalemani.storage.run import RunStore

SAME_SIZE = 1e-9  # relative: of squares of rows' lengths, which are one
ROUNDING = 1e-12  # of a function's values, which in other blocks of rows have other last digits
FEW = 0.5  # share of the points that are in the closed class, below which there is a warning


class OneClosedClass:
    """An input whose graph is of the points that lead into one closed class."""

    distinct: Any
    n_distinct: int

    def graph(self, parameters: Parameters, lists: NeighborLists | None) -> Graph:
        """The graph of those points."""
        try:
            graph: Graph = super().graph(parameters, lists)  # type: ignore[misc]
        except DisconnectedGraphError as error:  # bridges are in no list
            raise DisconnectedGraphError(str(error).replace(JOIN, "")) from None
        assert lists is not None
        own = lists.in_order(graph.order)
        classes, inside = closed_classes(own.indptr, own.indices)
        sizes = np.bincount(classes[classes >= 0])
        if len(sizes) > 1 and parameters.disconnected != "largest":
            said = ", ".join(map(str, sizes[:5].tolist()))
            raise DisconnectedGraphError(
                f"the neighbour lists lead into {len(sizes)} closed sets of points (sizes {said}), which no list "
                "leaves; each would be one point of the map: give more neighbours, or disconnected='largest' to keep "
                "the points that lead into the largest alone"
            )
        if sizes[0] < FEW * inside.sum():
            warn(
                f"no neighbour list leads out of {sizes[0]:,} of the {inside.sum():,} points: these make the map, "
                "and the others follow from them; more neighbours may help",
                ScalemaniWarning,
            )
        if inside.all():
            return graph
        kept = np.flatnonzero(inside)
        return replace(graph, matrix=graph.matrix[kept][:, kept], order=graph.order[kept])


class ListedRows(OneClosedClass, FeatureInput):
    """Rows of features; neighbours by a kernel where that has others than the metric.

    The fingerprint names the kernel then: other kernels have other lists.
    """

    def __init__(self, X: Any, parameters: Any, memory: int | None = None, folder: str | None = None) -> None:
        super().__init__(X, parameters.metric, memory, folder)
        self._by = searched_by(self.points.rows, parameters)
        if self._by is not None:
            self.fingerprint = blake2b(f"{self.fingerprint} {self._by}".encode(), digest_size=16).hexdigest()

    def make_search(self, parameters: Any) -> bool:
        """By the kernel where it asks for that, else as of any rows."""
        if self._search is None and self._by is not None:
            self._search = KernelSearch(self.points.rows, self._by, content_rank(self.points.digests))
            return True
        return super().make_search(parameters)


class ListedKernel(OneClosedClass, KernelInput):
    """Kernel values; new rows are placed by those among the training rows, which go into the store."""

    def save(self, store: RunStore) -> None:
        """Write the values, and the order in which ties are broken."""
        super().save(store)
        save_rows(store, self.kernel)


def searched_by(rows: Any, asked: Any) -> Kernel | FunctionKernel | None:
    """The kernel that neighbours are searched by; None where they are the nearest by the metric.

    asked: Has kernel (of a function this or its recorded name), gamma, degree and coef0.

    "poly" has Euclidean neighbours among rows of one length, if it grows with the scalar product.
    """
    if asked.kernel != "poly":
        return function_kernel(asked.kernel)
    gamma, degree, coef0 = asked.gamma or 1.0, float(asked.degree), float(asked.coef0)
    squares = squared_sizes(rows)
    grows = degree % 2 == 1 or gamma * squares.max() <= coef0 or rows.min() >= 0
    if grows and np.ptp(squares) <= SAME_SIZE * squares.max():
        return None
    kernel, least = Kernel("poly", gamma, degree, coef0), 0.0 if rows.min() >= 0 else -float(squares.max())
    if not np.isfinite(kernel.of_inner(np.array([least, float(squares.max())]))).all():
        raise ScalemaniError("kernel='poly': values on these rows are not finite; give a smaller degree or gamma")
    return kernel


class KernelSearch(ExactSearch):
    """Nearest rows by the distances of a kernel's features, the root of K(x, x) - 2 K(x, y) + K(y, y)."""

    def __init__(self, rows: Any, kernel: Kernel | FunctionKernel, tie_rank: Any) -> None:
        self._set(csr_array(rows) if issparse(rows) else np.asarray(rows), _KernelForm(kernel), tie_rank, 1)


class _KernelForm(Form):
    """These distances, between blocks of rows: of a function by each pair alone, so that they hang on no block."""

    alone = True

    def __init__(self, kernel: Kernel | FunctionKernel) -> None:
        super().__init__("kernel")
        self._kernel, self.exact_bounds = kernel, isinstance(kernel, Kernel)

    def pairs(self, a: Any, b: Any) -> Any:
        values = [self._kernel.values(both, both) for both in np.stack([a, b], axis=1)]
        squares = [K[0, 0] - (K[0, 1] + K[1, 0]) + K[1, 1] for K in values]
        return np.sqrt(np.maximum(squares, 0.0))

    def bounds(self, a: Any, b: Any, center: Any) -> tuple[Any, Any]:
        """The distances themselves, twice; of a function with what rounding may leave."""
        own = self._kernel.own(a)[:, None] + self._kernel.own(b)
        values = self._kernel.values(a, b)
        squares = own - 2 * values
        if self.exact_bounds:
            table = np.sqrt(np.maximum(squares, 0.0))
            return table, table
        slack = ROUNDING * (np.abs(own) + 2 * np.abs(values))
        return np.sqrt(np.maximum(squares - slack, 0.0)), np.sqrt(np.maximum(squares + slack, 0.0))
