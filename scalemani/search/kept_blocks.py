"""Lists of neighbours piece by piece: takes an exact search and what is kept already, gives the lists of all rows.

A piece is a run of consecutive rows. Where it begins and ends follows from the rows and the metric alone, never from
a clock or the number of threads, so that any process of the same search finds it again; and lists have the same bits
whichever pieces were kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
Lists = tuple[I64, I64, F64]
"""Lengths (b,), rows and distances of the lists of b rows, one list after the other."""

PIECE_SECONDS = 20.0  # of one core's projected work, the least that a piece is kept for: milliseconds are spent on it
BYTES_A_SECOND = 10e6  # of a piece for each of those seconds, at most: 2 % of them on a disk of 500 MB/s


class Kept(Protocol):
    """Where pieces are kept: whole or not at all, and gone if they are damaged or another search's."""

    def get(self, name: str) -> I64 | None:
        """What was put under a name, or None."""

    def put(self, name: str, piece: I64) -> None:
        """Keep an array."""


class NothingKept:
    """Keeps nothing."""

    def get(self, name: str) -> I64 | None:
        """None."""

    def put(self, name: str, piece: I64) -> None:
        """Let it go."""


def by_pieces(
    each: Callable[[Sequence[int]], Iterator[Lists]],
    count: int,
    step: int,
    seconds: float,
    kept: Kept,
    progress: Callable[[int], None],
) -> Lists:
    """Lists of all rows, of which the pieces that are kept are not searched for.

    each: Starts of blocks -> the lists of ``step`` rows from each, in that order, as they are done.
    count: Rows, m.
    step: Rows of a block.
    seconds: Projected work of one core for all rows.
    kept: Less than two pieces' work keeps nothing.
    progress: Called with the rows that are done, first with those that were kept; never with all of them.
    """
    pieces = _pieces(count, step, seconds)
    if len(pieces) < 2:
        kept = NothingKept()
    found = [_unpacked(kept.get(_name(piece)), len(piece)) for piece in pieces]
    done = sum(len(piece) for piece, lists in zip(pieces, found, strict=True) if lists is not None)
    if done < count:
        progress(done)
    starts = [start for piece, lists in zip(pieces, found, strict=True) if lists is None for start in piece[::step]]
    with closing(_all_of(each(starts))) as blocks:
        for at, piece in enumerate(pieces):
            if found[at] is not None:
                continue
            parts: list[Lists] = []
            for start in piece[::step]:
                parts.append(next(blocks))
                done += len(parts[-1][0])
                if start + step >= piece.stop:
                    found[at] = lists = _joined(parts)
                    if 16 * len(lists[1]) <= BYTES_A_SECOND * seconds * len(piece) / count:
                        kept.put(_name(piece), _packed(lists))
                if done < count:
                    progress(done)
    return _joined([lists for lists in found if lists is not None])


def _pieces(count: int, step: int, seconds: float) -> list[range]:
    """Whole blocks that take PIECE_SECONDS at least."""
    rows = count if seconds < 2 * PIECE_SECONDS else max(step, -int(-count * PIECE_SECONDS / seconds // step) * step)
    return [range(start, min(start + rows, count)) for start in range(0, count, max(rows, 1))]


def _name(piece: range) -> str:
    return f"lists_{piece.start}_{piece.stop}"


def _all_of(blocks: Iterator[Lists]) -> Generator[Lists, None, None]:
    """As a generator, whose end ends the search."""
    yield from blocks


def _joined(parts: Sequence[Lists]) -> Lists:
    counts, rows, distances = zip(*parts, strict=True)
    return np.concatenate(counts), np.concatenate(rows), np.concatenate(distances)


def _packed(lists: Lists) -> I64:
    """One array of lengths, rows and the bits of distances."""
    counts, rows, distances = lists
    return np.concatenate([counts, rows, np.ascontiguousarray(distances, np.float64).view(np.int64)])


def _unpacked(piece: I64 | None, count: int) -> Lists | None:
    """The lists of so many rows, or None where that is not what was kept."""
    if piece is None or piece.dtype != np.int64 or piece.ndim != 1 or len(piece) < count:
        return None
    counts, rest = piece[:count], piece[count:]
    half = len(rest) // 2
    if counts.min(initial=0) < 0 or 2 * int(counts.sum()) != len(rest):
        return None
    return counts, rest[:half], np.ascontiguousarray(rest[half:]).view(np.float64)
