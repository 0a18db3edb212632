"""Rows cut into parts that are close in space, and parts into shards that fit into memory.

Takes prepared rows and a seed, gives the order of the rows by part; it follows from these alone, never from the
number of threads. Exact lists don't depend on it at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.engine.blas_threads import single_blas_thread
from scalemani.search.bounds import Cells, Yardstick
from scalemani.search.distance_forms import F64
from scalemani.search.in_order import in_order
from scalemani.search.prepared_rows import BLOCK_BYTES, I64, PreparedRows

MOST_PARTS = 2048
CENTRE_BYTES = 16 << 20
_SAMPLED = 16  # rows a centre, of which it becomes the mean
_ROUNDS = 3
_TABLE_BYTES = 8 << 20


@dataclass(frozen=True)
class Parts:
    """Rows by part.

    order (m,): Rows, part after part.
    starts (C + 1,): Where each part begins in that order.
    cells: What bounds distances to the parts, which it numbers alike; None where nothing does.
    """

    order: I64
    starts: I64
    cells: Cells | None

    @property
    def count(self) -> int:
        """Number of parts, C."""
        return len(self.starts) - 1

    def rows(self, part: int) -> I64:
        """Rows of a part, ascending."""
        return self.order[self.starts[part] : self.starts[part + 1]]

    def size(self, part: int) -> int:
        """Number of rows of a part."""
        return int(self.starts[part + 1] - self.starts[part])


def part_count(prepared: PreparedRows) -> int:
    """How many parts are tried: as many as rows in each, which makes the least of both together."""
    fit = max(2, CENTRE_BYTES // (8 * prepared.width))
    return int(min(np.sqrt(prepared.count), MOST_PARTS, fit))


def make_parts(prepared: PreparedRows, seed: int, most_rows: int, threads: int = 1) -> Parts:
    """Parts that are close in space where the metric says what that is; else runs of rows.

    most_rows: Larger parts are cut, anyhow.
    """
    if not Yardstick.known(prepared.form):
        return _runs(prepared.count, most_rows)
    with single_blas_thread():
        cells = _cells(prepared, np.random.default_rng([abs(int(seed)), 2]))
        part_of = np.empty(prepared.count, np.int64)
        step = _step(prepared, cells.count)

        def nearest(start: int) -> Any:
            return cells.nearest(prepared.take(slice(start, start + step)))

        starts = range(0, prepared.count, step)
        for start, (parts, lengths, doubt) in zip(starts, in_order(nearest, starts, threads), strict=True):
            part_of[start : start + step] = parts
            cells.learn(parts, lengths, doubt)
    sizes = np.bincount(part_of, minlength=cells.count)
    sequence = _neighbouring(cells.between, sizes)
    place = np.empty(cells.count, np.int64)
    place[sequence] = np.arange(len(sequence))
    order = np.argsort(place[part_of], kind="stable")
    return _cut(order.astype(np.int64, copy=False), sizes[sequence], sequence, cells, most_rows)


def shards_of(parts: Parts, most_rows: int) -> list[range]:
    """Runs of parts with at most so many rows each, about as many in all of them."""
    total = int(parts.starts[-1])
    even = -(-total // -(-total // most_rows))
    shards, first = [], 0
    for part in range(parts.count):
        rows = int(parts.starts[part + 1] - parts.starts[first])
        before = rows - parts.size(part)
        if part > first and (rows > most_rows or 2 * rows - parts.size(part) > 2 * even or before >= even):
            shards.append(range(first, part))
            first = part
    return [*shards, range(first, parts.count)]


def _cells(prepared: PreparedRows, rng: np.random.Generator) -> Cells:
    """Centres: sampled rows; under the Euclidean norm the means of those nearest to each."""
    count = max(1, part_count(prepared))
    rows = rng.choice(prepared.count, min(prepared.count, _SAMPLED * count), replace=False)
    centres = prepared.take(np.sort(rows[:count]))
    dense = not issparse(centres)
    middle = centres.mean(axis=0) if dense else None
    yardstick = Yardstick(prepared.form, middle)
    if not (yardstick.euclidean and dense):
        return Cells(yardstick, centres)
    for _ in range(_ROUNDS):
        centres = _means(prepared, np.sort(rows), centres, yardstick)
    return Cells(yardstick, centres)


def _means(prepared: PreparedRows, rows: I64, centres: F64, yardstick: Yardstick) -> F64:
    """The mean of the rows nearest to each centre; a centre without rows stays."""
    sums, counts = np.zeros_like(centres), np.zeros(len(centres))
    step = _step(prepared, len(centres))
    for start in range(0, len(rows), step):
        block = prepared.take(rows[start : start + step])
        nearest = yardstick.table(block, centres)[1].argmin(axis=1)
        np.add.at(counts, nearest, 1)
        np.add.at(sums, nearest, block)
    filled = counts > 0
    return np.asarray(np.where(filled[:, None], sums / np.maximum(counts, 1)[:, None], centres))


def _step(prepared: PreparedRows, count: int) -> int:
    return max(1, min(_TABLE_BYTES // (8 * count), BLOCK_BYTES // (8 * prepared.width)))


def _neighbouring(between: F64, sizes: Any) -> I64:
    """Parts with rows, in an order in which near ones are near: halves between two that are far apart, and so on."""
    waiting, sequence = [np.flatnonzero(sizes > 0)], []
    while waiting:
        some = waiting.pop()
        if len(some) < 3:
            sequence.extend(some.tolist())
            continue
        one = some[between[some[0], some].argmax()]
        other = some[between[one, some].argmax()]
        some = some[np.argsort(between[one, some] - between[other, some], kind="stable")]
        total = np.cumsum(sizes[some])
        half = int(np.clip(np.searchsorted(total, total[-1] / 2), 1, len(some) - 1))
        waiting += [some[half:], some[:half]]
    return np.asarray(sequence, np.int64)


def _cut(order: I64, sizes: I64, sequence: I64, cells: Cells, most_rows: int) -> Parts:
    """Parts in their new order; the pieces of one that is too large share its centre."""
    pieces = np.maximum(1, -(-sizes // most_rows))
    starts = np.concatenate(
        [[0], np.cumsum(np.concatenate([_even(size, n) for size, n in zip(sizes, pieces, strict=True)]))]
    )
    cells.renumber(np.repeat(sequence, pieces))
    return Parts(order, starts.astype(np.int64), cells)


def _even(size: int, pieces: int) -> I64:
    return np.diff(np.arange(pieces + 1) * int(size) // pieces)


def _runs(count: int, most_rows: int) -> Parts:
    pieces = max(1, -(-count // most_rows))
    return Parts(np.arange(count), np.concatenate([[0], np.cumsum(_even(count, pieces))]).astype(np.int64), None)
