"""Lists of neighbours, as the search gives them and the graph takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scalemani.search.account import Account

LEAST_RECALL = 0.95  # of an approximate search, of which less is warned about

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]


@dataclass(frozen=True)
class NeighborLists:
    """Neighbour lists of m rows: no row lists itself or another twice; each list is by (distance, content).

    indptr (m + 1,)
    indices (indptr[-1],)
    distances (indptr[-1],)
    method: "kdtree", "brute", "precomputed" or "nndescent".
    recall: Share of true neighbours that were found, on a sample of rows; 1.0 for an exact search.
    account: How many distances that took, and what was skipped; without those that measured the recall.
    left_out: Entries that are not in the lists, since their rows have nothing in common under the metric.
    """

    indptr: I64
    indices: I64
    distances: F64
    method: str
    recall: float
    account: Account | None = None
    left_out: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return len(self.indptr) - 1

    def without(self, out: NDArray[np.bool_]) -> NeighborLists:
        """Those without some entries (indptr[-1],), which are counted."""
        kept = np.concatenate([[0], np.cumsum(~out)])[self.indptr]
        return replace(
            self,
            indptr=kept,
            indices=self.indices[~out],
            distances=self.distances[~out],
            left_out=self.left_out + int(out.sum()),
        )


def even_lists(table: I64, lengths: F64, method: str, recall: float, account: Account) -> NeighborLists:
    """Lists of k neighbours each, from tables (m, k) of them and of their distances."""
    indptr = np.arange(len(table) + 1, dtype=np.int64) * table.shape[1]
    return NeighborLists(indptr, table.ravel(), lengths.ravel(), method, recall, account)
