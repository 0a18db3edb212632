"""Nearest rows when distances are given: the blocked search, on rows of a matrix.

Ties are broken by the digest of a row's sorted distances, which doesn't depend on the order of the rows; rows with the
same distances go by their position.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.neighbors.exact import BruteSearch, ExactSearch
from scalemani.neighbors.forms import Form
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows
from scalemani.points.digests import content_rank, row_digests


class _GivenForm(Form):
    """Distances from rows of the matrix, to rows that are numbers."""

    exact_bounds = True

    def pairs(self, a: Any, b: Any) -> F64:
        """Distances from each row a[i] to row number b[i]."""
        return np.asarray(a[np.arange(len(b)), b])

    def bounds(self, a: Any, b: Any, center: F64 | None) -> tuple[F64, F64]:
        table = np.asarray(a[:, b])
        return table, table


class _GivenRows(PreparedRows):
    """Rows of which the distances are given: each is its number."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        super().__init__(matrix, _GivenForm("precomputed"), None)

    def take(self, rows: Any) -> Any:
        return np.arange(self.count)[rows]

    @property
    def tie_rank(self) -> I64:
        """Order among rows at equal distance (m,), made when it is first asked for: it sorts every row."""
        if self._rank is None:
            step = max(1, BLOCK_BYTES // (8 * self.count))
            blocks = (self.rows[start : start + step] for start in range(0, self.count, step))
            self._rank = content_rank(np.concatenate([_sorted_digests(rows) for rows in blocks]))
        return self._rank


class PrecomputedSearch(ExactSearch):
    """Nearest rows by a matrix of distances; queries are rows of distances (q, m).

    distances (m, m): Validated: finite, >= 0, symmetric, zero on its diagonal. Zeros elsewhere are kept as they are.
    Raises ScalemaniError: The matrix is not square, or queries have another number of columns.
    """

    def __init__(self, distances: Any) -> None:
        self.rows = np.asarray(distances)
        if self.rows.ndim != 2 or self.rows.shape[0] != self.rows.shape[1]:
            raise ScalemaniError(
                f"X has shape {self.rows.shape}; metric='precomputed' needs a square matrix of distances"
            )
        self.prepared, self.threads, self.low = _GivenRows(self.rows), 1, False
        self.form, self.method = self.prepared.form, "precomputed"
        self._engine = BruteSearch(self.prepared)

    def nearest_between(self, a: I64, b: I64) -> tuple[int, int, float]:
        """The shortest pair (i in a, j in b, distance) between two disjoint index sets; ties by content."""
        a, b = np.asarray(a, dtype=np.int64), np.asarray(b, dtype=np.int64)
        best: tuple[float, int, int, int, int] = (np.inf, 0, 0, 0, 0)
        for start in range(0, len(a), self.block_rows):
            block = a[start : start + self.block_rows]
            table = self.rows[block][:, b].astype(np.float64)
            rows, columns = np.nonzero(table == table.min())
            for i, j in zip(block[rows].tolist(), b[columns].tolist(), strict=True):
                first, second = sorted((int(self.tie_rank[i]), int(self.tie_rank[j])))
                best = min(best, (float(table.min()), first, second, i, j))
        return best[3], best[4], best[0]

    def _checked(self, queries: Any) -> NDArray[Any]:
        table: NDArray[Any] = np.asarray(queries)
        if table.ndim != 2 or table.shape[1] != self.n_rows:
            raise ScalemaniError(
                f"rows of distances have shape {table.shape}; (rows, {self.n_rows}) is needed, a distance "
                "to each training row"
            )
        return table


def _sorted_digests(rows: NDArray[Any]) -> NDArray[np.uint64]:
    return row_digests(np.sort(np.asarray(rows, np.float64), axis=1))
