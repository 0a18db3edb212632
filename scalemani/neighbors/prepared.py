"""Rows as a metric measures between them, their direct distances, and the order of rows at equal distance.

What every search returns is made here, from the two rows of a pair alone: no result depends on the block, the batch or
the order that rows come in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.neighbors.forms import Form

BLOCK_BYTES = 32 << 20  # prepared rows, or gathered pairs, held at once


class PreparedRows:
    """Rows (m, d) of any real dtype to search among, as a metric takes them; `tie_rank` (m,) orders equal distances."""

    def __init__(self, rows: Any, form: Form, tie_rank: I64 | None) -> None:
        self.rows, self.form, self._rank = rows, form, tie_rank
        sample = form.prepare(rows[:1])
        self.width = int(sample.shape[1])
        self.sparse = bool(issparse(sample))
        self._held: Any = form.prepare(rows) if form.hold else None
        self._given = False

    @classmethod
    def part(cls, block: Any, form: Form, tie_rank: I64) -> PreparedRows:
        """Rows (b, d') that are prepared already, to search among by themselves; `tie_rank` (b,) is theirs."""
        made = cls.__new__(cls)
        made.rows, made.form, made._rank = block, form, tie_rank
        made.width, made.sparse = int(block.shape[1]), bool(issparse(block))
        made._held, made._given = block, True
        return made

    @property
    def tie_rank(self) -> I64:
        """Order among rows at equal distance (m,)."""
        assert self._rank is not None
        return self._rank

    @property
    def count(self) -> int:
        """Number of rows, m."""
        return int(self.rows.shape[0])

    def take(self, rows: Any) -> Any:
        """Prepared rows for a slice or an array of indices."""
        return self.form.prepare(self.rows[rows]) if self._held is None else self._held[rows]

    def blocks(self, step: int) -> Iterator[tuple[int, Any]]:
        """All prepared rows as (start, block)."""
        for start in range(0, self.count, step):
            yield start, self.take(slice(start, start + step))

    def hold(self) -> F64:
        """All prepared rows, dense, kept from now on."""
        if self._given:
            return np.asarray(self._held)
        dense = self.rows.toarray() if issparse(self.rows) else self.rows
        self._held, self.sparse = self.form.prepare(dense), False
        return np.asarray(self._held)

    def queries(self, block: Any) -> Any:
        """Queries prepared to the same kind, dense or CSR, as the rows."""
        if issparse(block) and not self.sparse:
            block = block.toarray()
        elif self.sparse and not issparse(block):
            block = csr_array(block)
        return self.form.prepare(block)

    def midrange(self, step: int) -> F64:
        """The middle of each prepared feature's range, (d',): it doesn't depend on the order of the rows."""
        ends = [(block.min(axis=0), block.max(axis=0)) for _, block in self.blocks(step)]
        low, high = np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)
        return np.asarray(low + (high - low) / 2)

    def distances(self, queries: Any, at: I64, rows: I64, start: int = 0, columns: Any = None) -> F64:
        """Distances (c,) of pairs: prepared queries (q, d') at `at` (c,) to rows.

        rows (c,): Of all rows, or of the prepared block ``columns`` that begins at row ``start``.
        """
        out = np.empty(len(at))
        step = max(1, BLOCK_BYTES // (8 * self.width))
        for first in range(0, len(at), step):
            pick = slice(first, first + step)
            other = self.take(rows[pick]) if columns is None else columns[rows[pick]]
            out[pick] = self.form.pairs(queries[at[pick]], other)
        bad = ~(out >= 0)
        if bad.any():
            first = int(np.argmax(bad))
            raise ScalemaniError(
                f"metric={self.form.name!r} gives {out[first]} between a row and row "
                f"{start + int(rows[first])}; distances must be >= 0"
            )
        return out

    def sorted(self, at: I64, rows: I64, found: F64) -> tuple[I64, I64, F64]:
        """Pairs by query, then distance, then tie_rank."""
        order = np.lexsort((self.tie_rank[rows], found, at))
        return at[order], rows[order], found[order]

    def lists(self, count: int, at: I64, rows: I64, found: F64, radius: float) -> tuple[I64, I64, F64]:
        """Lengths (count,), rows and distances of each query's list of pairs at ``radius`` or less."""
        keep = found <= radius
        at, rows, found = self.sorted(at[keep], rows[keep], found[keep])
        return np.bincount(at, minlength=count).astype(np.int64), rows, found


AHEAD = 2  # calls a thread that are begun before the result of the first is taken: lost, if the search is killed


def in_order(task: Callable[[Any], Any], arguments: Iterable[Any], threads: int) -> Iterator[Any]:
    """Results of calls, from so many threads; a caller that stops early leaves no work behind.

    >>> list(in_order(lambda x: x * x, range(5), 2))
    [0, 1, 4, 9, 16]
    """
    waiting, given = deque[Any](), list(arguments)
    if threads == 1 or len(given) < 2:
        for argument in given:
            yield task(argument)
        return
    with ThreadPoolExecutor(threads) as pool:
        try:
            for argument in given:
                waiting.append(pool.submit(task, argument))
                if len(waiting) == AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
