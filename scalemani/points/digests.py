"""Rows known by content: 128-bit digests, the order of ties by them, and which rows are the first of their kind."""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from scalemani.aliases import I64


def row_digests(block: Any) -> NDArray[np.uint64]:
    """128-bit digests of the rows' content as float64, -0.0 counting as 0.0.

    block (b, d)
    -> (b, 2): Equal rows have equal digests, whatever their dtype. Dense and CSR rows are digested differently.
    """
    if issparse(block):
        canonical = csr_array(block, copy=True)
        canonical.sum_duplicates()
        canonical.sort_indices()
        canonical.eliminate_zeros()
        columns, values = canonical.indices.astype("<i8"), canonical.data.astype("<f8")
        parts = [columns[a:b].tobytes() + values[a:b].tobytes() for a, b in pairwise(canonical.indptr)]
    else:
        rows = np.asarray(block).astype("<f8", order="C") + 0.0
        content, size = rows.tobytes(), 8 * rows.shape[1]  # slices of bytes: a third of the time of slices of an array
        parts = [content[at : at + size] for at in range(0, len(content), size)]
    raw = b"".join([blake2b(part, digest_size=16).digest() for part in parts])
    return np.frombuffer(raw, dtype="<u8").astype(np.uint64).reshape(-1, 2)


def digest_order(digests: NDArray[np.uint64]) -> I64:
    """Rows by digest, those with equal ones in their own order; shape (m,).

    >>> digest_order(np.array([[7, 0], [1, 9], [1, 2], [1, 9]], np.uint64)).tolist()
    [2, 1, 3, 0]
    """
    order = np.argsort(np.ascontiguousarray(digests[:, 0]), kind="stable")
    heads = digests[order, 0]
    same = heads[1:] == heads[:-1]
    if same.any():  # twins, hardly ever others: two words are compared for these alone
        tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
        rows = order[tied]
        order[tied] = rows[np.lexsort((digests[rows, 1], digests[rows, 0]))]
    return order.astype(np.int64, copy=False)


def content_rank(digests: NDArray[np.uint64]) -> I64:
    """Rank of each row by its digest (m, 2): the order in which ties are broken, by content.

    >>> content_rank(np.array([[7, 0], [1, 9], [1, 2]], np.uint64)).tolist()
    [2, 1, 0]
    """
    order = digest_order(digests)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def first_occurrences(digests: NDArray[np.uint64]) -> tuple[I64, I64]:
    """Rows that are the first of their kind, ascending (m,), and each row's place among them (N,)."""
    order = digest_order(digests)  # twins stay in order
    ordered = digests[order]
    starts = np.ones(len(order), np.bool_)
    starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    heads = order[starts]
    first = np.sort(heads)
    place = np.empty(len(digests), np.int64)
    place[first] = np.arange(len(first))
    distinct = np.empty(len(digests), np.int64)
    distinct[order] = place[heads[np.cumsum(starts) - 1]]
    return first.astype(np.int64), distinct


class RowIndex:
    """Finds rows by content.

    digests (m, 2): Digests of the known rows, as :func:`row_digests` gives them; all different.
    """

    def __init__(self, digests: NDArray[np.uint64]) -> None:
        self._order = digest_order(digests)
        self._sorted = digests[self._order]

    def find(self, digests: NDArray[np.uint64]) -> I64:
        """Index of the known row with each digest, -1 where there is none; shape (q,)."""
        heads = self._sorted[:, 0]
        low = np.searchsorted(heads, digests[:, 0], side="left")
        high = np.searchsorted(heads, digests[:, 0], side="right")
        found = np.full(len(digests), -1, np.int64)
        for step in range(int((high - low).max(initial=0))):  # once, but for equal first words
            rows = np.flatnonzero(low + step < high)
            at = low[rows] + step
            same = self._sorted[at, 1] == digests[rows, 1]
            found[rows[same]] = self._order[at[same]]
        return found
