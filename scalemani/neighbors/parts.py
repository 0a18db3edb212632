"""Neighbours shard by shard: every row asks the shards that can hold nearer ones, and the best are merged.

What a shard holds is searched part by part or by a k-d tree (:mod:`scalemani.neighbors.shard_searches`), or by
NN-descent (:mod:`scalemani.neighbors.shard_searches`); the lists of all rows are by (distance, rank) whatever the
shards, and exact for the first two. A row asks a part only if what bounds its distances to it
(:mod:`scalemani.neighbors.parts`) does not exceed the row's k-th distance so far, so that ties are never lost.

What a metric tells of rows without measuring between them: takes prepared rows and centres, gives lower bounds.

For norms (and increasing functions of them) distances from a centre obey the triangle inequality, and under the
Euclidean norm a row that is nearer to its own centre than to another lies beyond a hyperplane (Uhlmann, "Satisfying
general proximity/similarity queries with metric trees", Information Processing Letters 40, 1991, for the former).
Some metrics of counts and shares obey the triangle inequality, too. Of others nothing is known.

Rows cut into parts that are close in space, and parts into shards that fit into memory.

Takes prepared rows and a seed, gives the order of the rows by part; it follows from these alone, never from the
number of threads. Exact lists don't depend on it at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scalemani.aliases import F64, I64
from scalemani.cluster.threads import single_blas_thread
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.forms import EPS, CountForm, Form, NormForm, PairForm
from scalemani.neighbors.lists import Account, Kept
from scalemani.neighbors.metrics import METRICS
from scalemani.neighbors.prepared import BLOCK_BYTES, PreparedRows, in_order
from scalemani.points.rows import let_go

_LOST = 1e-150  # norms below this may vanish in a square


class Yardstick:
    """Lengths that obey the triangle inequality, of which a metric's distances are an increasing function.

    form: The metric, of which :meth:`known` is true.
    centre (d',): What products of dense rows under the Euclidean norm are centred on: any point in the midst of them.
    """

    def __init__(self, form: Form, centre: F64 | None = None) -> None:
        self._form = NormForm(form.name, form.p) if isinstance(form, NormForm) else form
        self._scale = form.scale if isinstance(form, NormForm) else None
        self.euclidean = isinstance(form, NormForm) and form.p == 2
        self._centre = centre

    @staticmethod
    def known(form: Form) -> bool:
        """Whether a metric is one that has such lengths."""
        bounded = isinstance(form, CountForm) or (isinstance(form, PairForm) and form.has_table)
        return isinstance(form, NormForm) or (bounded and METRICS[form.name].proper)

    def table(self, a: Any, b: Any) -> tuple[F64, F64]:
        """Bounds (q, c), lower and upper, on the lengths between prepared rows and centres."""
        centre = self._centre
        if self.euclidean and not issparse(a) and centre is None:
            centre = np.zeros(a.shape[1])
        found = self._form.bounds(a, b, centre)
        assert found is not None
        return found

    def length(self, distances: F64) -> F64:
        """The longest lengths whose distances are no more than these."""
        found = distances if self._scale is None else np.asarray(self._scale.norm(distances))
        return np.asarray(found * (1 + 32 * EPS) + _LOST)


class Cells:
    """Parts of the rows, each about a centre: what bounds distances to the rows of a part.

    centres (C, d'): Prepared.
    reach (C,): Upper bound on the length from each centre to its rows; -inf for a part without rows.
    """

    def __init__(self, yardstick: Yardstick, centres: Any) -> None:
        self.yardstick, self.centres = yardstick, centres
        self.between, self._wide = yardstick.table(centres, centres)
        self.reach = np.full(centres.shape[0], -np.inf)
        self._doubt = 0.0  # by how much a row's squared length to its own centre may be the larger one

    @property
    def count(self) -> int:
        """Number of parts, C."""
        return int(self.centres.shape[0])

    def nearest(self, block: Any) -> tuple[Any, F64, float]:
        """The part of each prepared row (b,): the nearest centre's; the length to it at most; and how sure that is."""
        low, high = self.yardstick.table(block, self.centres)
        parts = high.argmin(axis=1)
        lengths, doubt = high[np.arange(len(parts)), parts], 0.0
        if self.yardstick.euclidean:
            np.multiply(high, high, out=high)
            high -= low * low
            doubt = float(high.max(initial=0.0))
        return parts, lengths, doubt

    def learn(self, parts: Any, lengths: F64, doubt: float) -> None:
        """Know that rows with such parts and lengths, as :meth:`nearest` gives them, are there."""
        np.maximum.at(self.reach, parts, lengths)
        self._doubt = max(self._doubt, doubt)

    def renumber(self, old: Any) -> None:
        """Number the parts anew: part i is what was ``old[i]``; pieces of one part are parts with its bounds."""
        self.centres, self.reach = self.centres[old], self.reach[old]
        self.between, self._wide = self.between[np.ix_(old, old)], self._wide[np.ix_(old, old)]

    def apart(self, home: int) -> F64:
        """Lower bound (C,) on the length between any row of a part and any of each part."""
        return np.asarray(self._lowered(self.between[home] - self.reach[home] - self.reach, self.between[home]))

    def bounds(self, block: Any, home: int, parts: Any) -> F64:
        """Lower bounds (q, c) on the lengths from each prepared row of part `home` to any row of some parts."""
        listed = np.append(np.asarray(parts, np.int64), home)
        low, high = self.yardstick.table(block, self.centres[listed])
        ball = self._lowered(low[:, :-1] - self.reach[listed[:-1]], low[:, :-1])
        if not self.yardstick.euclidean:
            return np.asarray(ball)
        between = self._wide[home, listed[:-1]]
        gap = low[:, :-1] ** 2 * (1 - 8 * EPS) - high[:, -1:] ** 2 * (1 + 8 * EPS) - self._doubt * (1 + 8 * EPS)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            plane = np.where(between > 0, gap / (2 * between) * (1 - 16 * EPS), 0.0)
        return np.asarray(np.maximum(ball, plane))

    @staticmethod
    def _lowered(bound: F64, terms: F64) -> F64:
        """A difference of lengths, less what its rounding may have added."""
        return bound - 16 * EPS * np.abs(terms)


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


Done = Callable[[int], None]


class Sharded(ABC):
    """A search of all rows among themselves, shard by shard.

    search: The rows and the metric.
    shards: Parts of each shard.
    k: Neighbours of each row.
    name: Under which shards are kept: another one would not find those of earlier releases.
    method: As :class:`scalemani.neighbors.lists.NeighborLists` has it.
    exact: Whether the lists are.
    passes: Over the shards.
    table (m, k): Neighbours found so far, -1 where there are fewer.
    lengths (m, k): Their distances, inf where there are fewer.
    """

    name: str
    method: str
    exact = True
    passes = 1

    def __init__(self, search: ExactSearch, parts: Parts, shards: list[range], k: int) -> None:
        self.search, self.parts, self.shards, self.k = search, parts, shards, k
        count = search.n_rows
        self.table, self.lengths = np.full((count, k), -1), np.full((count, k), np.inf)
        self.account = Account(n_shards=len(shards), n_parts=parts.count, skipped_shards=[])
        self.asked = np.zeros((len(shards), len(shards)), np.int64)  # rows of one that asked the other
        self._shard_of = np.repeat(np.arange(len(shards)), [len(shard) for shard in shards])

    @abstractmethod
    def begin(self) -> None:
        """What comes before the shards."""

    @abstractmethod
    def step(self, turn: int, shard: int, progress: Callable[[float], None]) -> None:
        """Work of one shard in one pass; `progress` takes the share of it that is done."""

    def run(self, kept: Kept, name: str, progress: Done) -> tuple[I64, F64]:
        """Lists (m, k) of all rows, going on from the last shard that was kept under a name."""
        steps = [(turn, shard) for turn in range(self.passes) for shard in range(len(self.shards))]
        done = self._restored(kept.get(name), len(steps))
        count = self.search.n_rows

        def said(share: float) -> None:
            progress(min(count - 1, int(count * share / len(steps))))

        said(done)
        with single_blas_thread():
            if not done:
                self.begin()
            for at in range(done, len(steps)):
                let_go(self.search.rows)
                self.step(*steps[at], lambda share, at=at: said(at + share))  # type: ignore[misc]
                if at + 1 < len(steps):
                    kept.put(name, [self._state(at + 1)])
                    said(at + 1)
        self._sum_up()
        return self.table, self.lengths

    def shard_rows(self, shard: int) -> I64:
        """Rows of a shard, part by part."""
        some = self.shards[shard]
        return self.parts.order[self.parts.starts[some.start] : self.parts.starts[some.stop]]

    def limits(self, rows: I64) -> F64:
        """The lengths beyond which nothing comes into these rows' lists."""
        found = self.lengths[rows, -1]
        return found if self.parts.cells is None else self.parts.cells.yardstick.length(found)

    def near_parts(self, home: int, some: range, limit: float) -> I64:
        """Parts of a run that may hold rows within a length of a row of part `home`, the nearest first."""
        others: I64 = np.arange(some.start, some.stop)
        others = others[others != home]
        if self.parts.cells is None:
            return others
        apart = self.parts.cells.apart(home)[others]
        near: I64 = others[apart <= limit]
        return near[np.argsort(self.parts.cells.between[home, near], kind="stable")]

    def bounds(self, queries: Any, home: int, parts: I64) -> tuple[F64, int]:
        """Lower bounds (q, c) on lengths to parts, and how many distances that took."""
        if self.parts.cells is None:
            return np.zeros((queries.shape[0], len(parts))), 0
        return self.parts.cells.bounds(queries, home, parts), queries.shape[0] * (len(parts) + 1)

    def merge(self, rows: I64, found: I64, lengths: F64, *, again: bool = False) -> None:
        """Take what was found (q, c) for some rows into their lists; `again` if it may be there already."""
        found = np.concatenate([self.table[rows], found], axis=1)
        lengths = np.concatenate([self.lengths[rows], lengths], axis=1)
        found, lengths = self._sorted(found, lengths)
        if again:
            twice = (found[:, 1:] == found[:, :-1]) & (found[:, 1:] >= 0)
            if twice.any():
                found[:, 1:][twice], lengths[:, 1:][twice] = -1, np.inf
                found, lengths = self._sorted(found, lengths)
        self.table[rows], self.lengths[rows] = found[:, : self.k], lengths[:, : self.k]

    def foreign(self, shard: int) -> Iterator[tuple[int, I64]]:
        """Rows outside a shard that have to ask it, with their own shard's number, in the order of their parts."""
        some = self.shards[shard]
        for home in range(self.parts.count):
            if home in some:
                continue
            rows = self.parts.rows(home)
            limits = self.limits(rows)
            near = self.near_parts(home, some, float(limits.max(initial=0.0)))
            if not len(near):
                continue
            if self.parts.cells is not None:
                low, count = self.bounds(self.search.prepared.take(rows), home, near)
                self.account.n_distances += count
                rows = rows[low.min(axis=1) <= limits]
            if len(rows):
                yield int(self._shard_of[home]), rows

    def _sorted(self, found: I64, lengths: F64) -> tuple[I64, F64]:
        order = np.lexsort((self.search.tie_rank[found], lengths), axis=1)
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(lengths, order, axis=1)

    def _sum_up(self) -> None:
        sizes = np.array([len(self.shard_rows(shard)) for shard in range(len(self.shards))])
        others = ~np.eye(len(sizes), dtype=bool)
        self.account.n_skipped = int((sizes[:, None] - self.asked)[others].sum())
        self.account.skipped_shards = np.argwhere((self.asked == 0) & others)[:100].tolist()

    # ---- what is kept of a search that is stopped --------------------------------------------------

    def _state(self, done: int) -> I64:
        head = np.array([done, self.account.n_distances])
        return np.concatenate([head, self.asked.ravel(), self.table.ravel(), self.lengths.ravel().view(np.int64)])

    def _restored(self, piece: Sequence[NDArray[Any]] | None, steps: int) -> int:
        """Steps that are done in a state that was kept; 0 where that is none of this search's."""
        state = piece[0] if piece else None
        pairs, size = self.asked.size, self.table.size
        good = state is not None and state.dtype == np.int64 and state.shape == (2 + pairs + 2 * size,)
        if state is None or not good or not 0 < int(state[0]) < steps:
            return 0
        self.account.n_distances = int(state[1])
        self.asked = state[2 : 2 + pairs].reshape(self.asked.shape).copy()
        table = state[2 + pairs : 2 + pairs + size].reshape(self.table.shape)
        if int(table.max(initial=-1)) >= len(table) or int(table.min(initial=-1)) < -1:
            return 0
        self.table = table.copy()
        self.lengths = np.ascontiguousarray(state[2 + pairs + size :]).view(np.float64).reshape(table.shape).copy()
        return int(state[0])
