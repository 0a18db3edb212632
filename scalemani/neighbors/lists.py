"""Lists of neighbours, what their search did in numbers, and how lists are made and kept piece by piece.

A piece is a run of consecutive rows. Where it begins and ends follows from the rows and the metric alone, never from a
clock or the number of threads, so that any process of the same search finds it again. Lists have the same bits
whichever pieces were kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.storage.pieces import Pieces

LEAST_RECALL = 0.95  # of an approximate search, of which less is warned about


@dataclass(frozen=True)
class NeighborLists:
    """Neighbour lists of m rows: no row lists itself or another twice; each list is by (distance, content).

    indptr, indices, distances (m + 1,), (indptr[-1],) twice: As in a CSR array.
    method: "kdtree", "brute", "precomputed" or "nndescent".
    recall: Share of true neighbours that were found, on a sample of rows; 1.0 for an exact search.
    stats: What the search did, without what measured the recall.
    left_out: Entries that are not in the lists, since their rows have nothing in common under the metric.
    """

    indptr: I64
    indices: I64
    distances: F64
    method: str
    recall: float
    stats: SearchStats | None = None
    left_out: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows, m."""
        return len(self.indptr) - 1

    def nearest(self, k: int) -> NeighborLists:
        """The first k of each list."""
        place = np.arange(len(self.indices)) - np.repeat(self.indptr[:-1], np.diff(self.indptr))
        return replace(self.without(place >= k), left_out=self.left_out)

    def in_order(self, order: I64) -> NeighborLists:
        """Those of the rows ``order``, which list no others: row ``order[a]`` becomes row a."""
        number = np.full(self.n_rows, -1, np.int64)
        number[order] = np.arange(len(order))
        indptr, at = entries_of_rows(self.indptr, order)
        return replace(self, indptr=indptr, indices=number[self.indices[at]], distances=self.distances[at])

    def part(self, start: int, stop: int) -> NeighborLists:
        """Those of rows that follow each other and list no others; the first of them is row 0."""
        indptr = self.indptr[start : stop + 1]
        here = slice(indptr[0], indptr[-1])
        return replace(
            self, indptr=indptr - indptr[0], indices=self.indices[here] - start, distances=self.distances[here]
        )

    def without(self, out: NDArray[np.bool_]) -> NeighborLists:
        """Those without some entries (indptr[-1],), which are counted."""
        indptr, left_out = np.concatenate([[0], np.cumsum(~out)])[self.indptr], self.left_out + int(out.sum())
        indices, distances = self.indices[~out], self.distances[~out]
        return replace(self, indptr=indptr, indices=indices, distances=distances, left_out=left_out)


def entries_of_rows(indptr: I64, rows: I64) -> tuple[I64, I64]:
    """The indptr of some rows of a CSR array, in their order, and where their entries stand among those of all."""
    counts = np.diff(indptr)[rows]
    of_rows = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return of_rows, np.arange(of_rows[-1]) + np.repeat(indptr[:-1][rows] - of_rows[:-1], counts)


def even_lists(table: I64, lengths: F64, method: str, recall: float, stats: SearchStats) -> NeighborLists:
    """Lists of k neighbours each, from tables (m, k) of them and of their distances."""
    indptr = np.arange(len(table) + 1, dtype=np.int64) * table.shape[1]
    return NeighborLists(indptr, table.ravel(), lengths.ravel(), method, recall, stats)


@dataclass(frozen=True)
class SearchStats:
    """What a search did.

    n_distances: Pairs, of two rows or of a row and a centre, whose distance or a bound on it was computed; None where
        that isn't counted: by SciPy's k-d tree and by pynndescent.
    n_shards: Indexes of NN-descent.
    n_clusters: Clusters of rows that were searched, or skipped, as a whole.
    """

    n_distances: int | None = None
    n_shards: int = 1
    n_clusters: int = 1

    def record(self) -> dict[str, Any]:
        """What is known, as JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Lists(NamedTuple):
    """Lengths (b,), rows and distances of the lists of b rows, one list after the other."""

    counts: I64
    indices: I64
    distances: F64
    n_distances: int = 0  # that were computed, if the search counts them


PIECE_SECONDS = 20.0  # of one core's projected work, the least that a piece is kept for: milliseconds are spent on it
BYTES_A_SECOND = 10e6  # of a piece for each of those seconds, at most: 2 % of them on a disk of 500 MB/s


def by_pieces(
    each: Callable[[Sequence[int]], Generator[Lists]],
    count: int,
    step: int,
    seconds: float,
    kept: Pieces | None,
    progress: Callable[[int], None],
    name: str = "lists",
) -> Lists:
    """Lists of all rows, of which the pieces that are kept are not searched for.

    each: Starts of blocks -> the lists of ``step`` rows from each, in that order, as they are done.
    seconds: Projected work of one core for all rows. Less than two pieces' work keeps nothing.
    progress: Called with the rows that are done, first with those that were kept; never with all of them.
    name: Of the search: pieces are kept under it.
    """
    pieces = _pieces(count, step, seconds)
    names = [f"{name}_{piece.start}_{piece.stop}" for piece in pieces]
    kept = None if len(pieces) < 2 else kept
    found = [
        _checked(kept.get(of), len(piece)) if kept is not None else None
        for of, piece in zip(names, pieces, strict=True)
    ]
    done = sum(len(piece) for piece, lists in zip(pieces, found, strict=True) if lists is not None)
    if done < count:
        progress(done)
    starts = [start for piece, lists in zip(pieces, found, strict=True) if lists is None for start in piece[::step]]
    with closing(each(starts)) as blocks:  # its end ends the search
        for at, piece in enumerate(pieces):
            if found[at] is not None:
                continue
            parts: list[Lists] = []
            for start in piece[::step]:
                parts.append(next(blocks))
                done += len(parts[-1].counts)
                if start + step >= piece.stop:
                    found[at] = lists = _joined(parts)
                    if kept is not None and 16 * len(lists.indices) <= BYTES_A_SECOND * seconds * len(piece) / count:
                        kept.put(names[at], [np.array([lists.n_distances]), *lists[:3]])
                if done < count:
                    progress(done)
    return _joined([lists for lists in found if lists is not None])


def _pieces(count: int, step: int, seconds: float) -> list[range]:
    """Whole blocks that take PIECE_SECONDS at least."""
    rows = count if seconds < 2 * PIECE_SECONDS else max(step, -int(-count * PIECE_SECONDS / seconds // step) * step)
    return [range(start, min(start + rows, count)) for start in range(0, count, max(rows, 1))]


def _joined(parts: Sequence[Lists]) -> Lists:
    counts, rows, distances, computed = zip(*parts, strict=True)
    return Lists(np.concatenate(counts), np.concatenate(rows), np.concatenate(distances), sum(computed))


def _checked(piece: Sequence[NDArray[Any]] | None, count: int) -> Lists | None:
    """The lists of so many rows, or None where that is not what was kept."""
    if piece is None or [(part.dtype.kind, part.ndim) for part in piece] != [("i", 1)] * 3 + [("f", 1)]:
        return None
    computed, counts, rows, distances = piece
    if len(computed) != 1 or computed[0] < 0 or len(counts) != count or counts.min(initial=0) < 0:
        return None
    if not int(counts.sum()) == len(rows) == len(distances):
        return None
    return Lists(counts, rows, distances, int(computed[0]))
