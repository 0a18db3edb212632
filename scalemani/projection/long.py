"""Test sets of any length: their coordinates, group by group, with what is finished kept.

:class:`Placing` cuts the rows into parts, attaches each to the graph, then places them in pieces of those that lie
together: on a roll of 40,000 that costs a tenth of placing them as they come. Both are tasks. The client reads the rows
and keeps the results (:mod:`scalemani.storage.pieces`), each with a digest of what it was made from: the rows or
attachments, the model and the releases at work. When a group is finished a record takes their place
(:mod:`scalemani.storage.user_arrays`), so that neither memory nor disk holds more than one group's. A run that was
stopped reads every row again, which is cheap, and makes what it does not find. Workers see neither test set nor output,
and nothing of a dead client's tasks can come in late.

Parts, pieces, groups and the way to search follow from the number of rows alone, not from the workers or from the
blocks in which rows are stored: a run finds its results again on another cluster, with the same bits.

A process makes the projector of a model once. Its key changes when the store is fitted again, so that no process
answers for another solution.
"""

from __future__ import annotations

import importlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property, lru_cache
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.aliases import F64, I64
from scalemani.cluster.client import Cluster
from scalemani.embedding.agreement import Superposition
from scalemani.errors import LowRecallWarning, OutOfReachWarning, warn
from scalemani.neighbors.choice import SearchStrategy
from scalemani.neighbors.functions import import_for
from scalemani.neighbors.lists import LEAST_RECALL
from scalemani.progress import Progress
from scalemani.projection.attachments import Attachments
from scalemani.projection.projector import Projector
from scalemani.storage.forks import FIT, doing
from scalemani.storage.pieces import Pieces, digest
from scalemani.storage.run import shared_run

if TYPE_CHECKING:
    from scalemani.storage.user_arrays import KeptGroups, NewOutput, Record

ModelKey = tuple[str, str, str, str, str, str]
"""Path of the store, id of its run, revision of its solution, form of the projection, the module of a metric that is a
function, which the user's process has imported ("" for none: a store alone does not say what is imported), and the
function that makes the projector, as "module:name"."""


class LazyProjection:
    """The function of a lazy result; it keeps a temporary run's folder, and travels without it."""

    def __init__(self, key: ModelKey, total: int, folder: Any, name: str = "X") -> None:
        self._key, self._total, self._folder, self._name = key, total, folder, name

    def __call__(self, block: Any, block_info: Any = None) -> F64:
        start = block_info[0]["array-location"][0][0] if block_info else 0
        with doing(FIT):
            start = 0 if np.isnan(start) else int(start)
            rows = validated(self._key, block, start, self._name)
            found, far = project(self._key, rows, shared_projector(*self._key).way(self._total))
            warn_of_far(self._key, len(far), start + far, len(found), self._name)
            return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_folder": None}

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        return *self._key, self._total


@lru_cache(maxsize=4)
def shared_projector(path: str, identity: str, revision: str, form: str, module: str, maker: str) -> Projector:
    """The projector of a model, made once in each process."""
    if module:
        import_for(module)
    found, _, name = maker.partition(":")
    made: Projector = getattr(importlib.import_module(found), name)(shared_run(path, identity), form)
    return made


def validated(key: ModelKey, block: Any, start: int = 0, name: str = "X") -> Any:
    """A block checked as a test set; `start` is its first row's number."""
    projector = shared_projector(*key)
    pieces = [piece for _, piece in projector.blocks(block, name, start)]
    return joined(pieces) if pieces else np.empty((0, projector.n_features))


def way_for(key: ModelKey, total: int) -> str:
    """One task: the way to search for the neighbours of a test set of so many rows."""
    return shared_projector(*key).way(total)


def recall_of(key: ModelKey, block: Any) -> float:
    """One task: the share of the true neighbours of a validated block that an index finds."""
    return shared_projector(*key).search.recall(block)


def attach(key: ModelKey, block: Any, way: str) -> Attachments:
    """One task: where the rows of a validated block touch the training points."""
    return shared_projector(*key).attach(block, way)


def place(key: ModelKey, found: Attachments) -> F64:
    """One task: coordinates of attached rows."""
    return shared_projector(*key).place(found)


def project(key: ModelKey, block: Any, way: str) -> tuple[F64, I64]:
    """One task: coordinates of a validated block, and the numbers of its rows that lie beyond reach."""
    return shared_projector(*key).placed(block, way)


def warn_of_far(key: ModelKey, count: int, rows: Any, total: int, name: str) -> None:
    """Warn of so many rows beyond reach, if there are any; the first of them are named."""
    if count:
        shown = ", ".join(map(str, rows[:SHOWN])) + (f" and {count - SHOWN:,} more" if count > SHOWN else "")
        of = shared_projector(*key)
        what = f"{count:,} of {total:,} rows of {name} ({shown}) are {of.far}: their {of.gives} say little"
        warn(what, OutOfReachWarning)


Part = tuple[int, Any]
"""Its first row's number, and its rows."""

PART_BYTES = 8 << 20  # of a part's rows as float64: a task's input
WIDE_BYTES = 32 << 20  # where queries that ask the same rows ask them together: the more of them, the better
MOST_ROWS, SHARED = 8192, 8  # of these, at most; and as many parts at least, so that cores share them
LEAST_ROWS = 256
SHOWN = 5  # rows beyond reach
CHUNK_BYTES = 8 << 20  # of the output
SAMPLES, SAMPLED = 8, 25  # runs of rows, for an index's recall, and rows in each


def sizes(total: int, piece: int, group: int, features: int, axes: int, way: str) -> tuple[int, int, int]:
    """Rows of a part, of a chunk of the output and of a group, each a whole number of the one before it.

    total: Rows of the test set.
    piece, group: Rows of a part and of a group, at most.
    features, axes: Columns of the test set and of the output.
    way: See :mod:`scalemani.neighbors.choice`.

    >>> sizes(10**8, 2048, 1 << 18, 3, 2, "exact"), sizes(10**6, 2048, 1 << 18, 784, 50, "clusters")
    ((2048, 262144, 262144), (5349, 16047, 256752))
    """
    part = min(piece, PART_BYTES // (8 * features))
    if way == SearchStrategy.CLUSTERS:
        part = min(MOST_ROWS, group, WIDE_BYTES // (8 * features), max(LEAST_ROWS, -(-total // SHARED)))
    part = max(1, part)
    parts = max(1, group // part)
    a_chunk = max(1, min(parts, CHUNK_BYTES // (8 * max(1, axes) * part)))
    return part, a_chunk * part, parts // a_chunk * a_chunk * part


def cut(blocks: Iterable[Part], size: int) -> Iterator[Part]:
    """Parts of so many rows, of blocks that follow each other; the last may have fewer.

    >>> blocks = [(0, np.zeros((3, 1))), (3, np.ones((4, 1)))]
    >>> [(at, rows.ravel().tolist()) for at, rows in cut(blocks, 5)]
    [(0, [0.0, 0.0, 0.0, 1.0, 1.0]), (5, [1.0, 1.0])]
    """
    held: list[Any] = []
    first = 0
    for start, block in blocks:
        at, stop = start, start + block.shape[0]
        while at < stop:
            end = min(stop, (at // size + 1) * size)
            if not held:
                first = at
            held.append(block[at - start : end - start])
            at = end
            if at % size == 0:
                yield first, joined(held)
                held = []
    if held:
        yield first, joined(held)


def again(projector: Projector, T: Any, start: int, stop: int, size: int, name: str = "X") -> Iterator[Part]:
    """The parts between two rows, read once more; `start` is where one begins."""
    if sp.issparse(T):  # of any format, and in memory
        for at, rows in cut(projector.blocks(T, name), size):
            if start <= at < stop:
                yield at, rows
        return
    for at in range(start, stop, size):
        blocks = projector.blocks(T[at : min(at + size, stop)], name, at)
        yield at, joined([block for _, block in blocks])


def sample(projector: Projector, T: Any, total: int, name: str = "X") -> Any:
    """Some rows of a test set, in runs that are evenly spread."""
    starts = sorted({total * run // SAMPLES for run in range(SAMPLES)})
    runs = [(at, min(at + SAMPLED, total)) for at in starts]
    return joined([rows for at, stop in runs for _, rows in again(projector, T, at, stop, SAMPLED, name)])


def joined(blocks: list[Any]) -> Any:
    """Rows of blocks, dense or CSR, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    return sp.csr_array(sp.vstack(blocks, format="csr")) if sp.issparse(blocks[0]) else np.concatenate(blocks)


ROWS_A_GROUP = 1 << 18  # are sorted together; their attachments and coordinates are what the client holds
SEEDS_A_GROUP = 1 << 23  # of them, about: a radius may attach a row to thousands
GROUP_BYTES = 256 << 20  # of a group's coordinates, or kernel values to all training rows
ROWS_A_PIECE = 2048
PIECES = 32  # of a group, where that gives no less: few are lost when a run is stopped


class Placing:
    """One test set on its way through one model.

    T (l, n_features): Anything with a shape that :meth:`Projector.blocks` reads.
    kept: Where results are kept and looked for; none are without.
    report: Called with the rows that are placed.
    name: What T is called in messages.
    laid: Lays coordinates upon another map.

    beyond, far: How many rows lie beyond reach, and the first of them; not of groups that were finished before.
    """

    def __init__(
        self,
        key: ModelKey,
        T: Any,
        cluster: Cluster,
        kept: Pieces | None = None,
        report: Progress | None = None,
        name: str = "X",
        laid: Superposition | None = None,
    ) -> None:
        self._key, self._T, self._cluster, self._kept, self._T_name = key, T, cluster, kept, name
        self._report, self._done = report, 0
        self._projector = shared_projector(*key)
        self._total = int(T.shape[0])
        # Not the store's path: a model that was moved is the same.
        self._model: tuple[str, ...] = (*key[1:], __version__, np.__version__)
        self._laid = laid
        if laid is not None:  # what is kept of one alignment is none of another's
            self._model += (digest(laid.scale, laid.middle, laid.turn, laid.target),)
        self._digests: list[str] = []  # of the parts of the group in work
        self._names: list[str] = []  # of what is kept for it
        self.beyond, self.far = 0, list[int]()

    @cached_property
    def way(self) -> str:
        """How neighbours are searched for: it follows from the model and from how many rows there are.

        Warns by LowRecallWarning: By an index that misses more than 5 % of the true neighbours of some of the rows.
        """
        if not self._projector.is_long(self._total):
            return SearchStrategy.EXACT
        of = digest(("way", *self._model), np.array([self._total]))
        found = None if self._kept is None else self._kept.get("way", of, counts=0)
        if found is None:
            way, recall = self._one(way_for, self._total), 1.0
            if way == SearchStrategy.DESCENT:
                recall = self._one(recall_of, sample(self._projector, self._T, self._total, self._T_name))
            found = [np.array([list(SearchStrategy).index(SearchStrategy(way))]), np.array([recall])]
            if self._kept is not None:
                self._kept.put("way", found, of, counts=0)
        if found[1][0] < LEAST_RECALL:
            warn(
                f"NN-descent found {found[1][0]:.3f} of the true neighbours of some rows of {self._T_name}, and "
                f"{LEAST_RECALL} is expected: fit with knn='exact' for an exact search",
                LowRecallWarning,
            )
        return list(SearchStrategy)[int(found[0][0])]

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk of the output, of which groups are whole numbers."""
        return self._sizes[1]

    @cached_property
    def _sizes(self) -> tuple[int, int, int]:
        """Rows of a part, of a chunk and of a group."""
        projector = self._projector
        axes = projector.width
        rows = max(1, min(ROWS_A_GROUP, SEEDS_A_GROUP // projector.seeds_a_row, GROUP_BYTES // (8 * max(1, axes))))
        piece = min(_piece_rows(self._total), rows)
        return sizes(self._total, piece, rows, projector.n_features, axes, self.way)

    def groups(self, output: NewOutput | None = None) -> Iterator[tuple[int, F64]]:
        """Yield ``(start, coordinates)`` of consecutive groups of rows, in order; they are in `output` by then."""
        part_rows, _, group_rows = self._sizes
        groups = None
        if self._kept is not None:
            from scalemani.storage.user_arrays import KeptGroups  # here only: Zarr comes along

            of = digest(("groups", self.way, *self._model), np.array(self._sizes))
            groups = KeptGroups(self._kept, output, of)
        every = cut(self._projector.blocks(self._T, self._T_name), part_rows)
        for number, parts in groupby(every, lambda part: part[0] // group_rows):
            first, left = number * group_rows, iter(parts)
            record = None if groups is None else groups.record(first)
            if groups is not None and record is not None:
                coordinates, left = self._finished(groups, record, first, left)
                if coordinates is not None:
                    self._count(len(coordinates))
                    yield first, coordinates
                    continue
            self._digests, self._names = [], []
            coordinates = self._coordinates(left)
            if self._laid is not None:
                coordinates = self._laid.of(coordinates)
            if groups is not None:
                groups.finish(first, self._digests, self._names, coordinates)
            yield first, coordinates

    def _finished(
        self, groups: KeptGroups, record: Record, first: int, parts: Iterator[Part]
    ) -> tuple[F64 | None, Iterator[Part]]:
        """The coordinates of a group that was finished, if it was made from these rows; else these, from the first."""
        stop = first
        for at, (start, rows) in enumerate(parts):
            if at == len(record.digests) or record.digests[at] != self._of(self._name, rows):
                return None, chain(self._again(first, start), [(start, rows)], parts)
            stop = start + rows.shape[0]
        coordinates = groups.numbers(first, record) if stop == first + record.rows else None
        return coordinates, iter(()) if coordinates is not None else self._again(first, stop)

    def _again(self, start: int, stop: int) -> Iterator[Part]:
        return again(self._projector, self._T, start, stop, self._sizes[0], self._T_name)

    def _coordinates(self, parts: Iterator[Part]) -> F64:
        named = ((start, f"{self._name}-{start}", rows) for start, rows in parts)
        if self._projector.direct:
            placed = {}
            for start, (rows, far) in self._made(project, named, self._digests, self.way):
                placed[start] = rows, start + far
                self._count(len(rows))
            every, beyond = (np.concatenate([placed[start][at] for start in sorted(placed)]) for at in (0, 1))
            self._note(beyond)
            return every
        found = dict(self._made(attach, named, self._digests, self.way))
        attached = Attachments.joined([Attachments(*found[at]) for at in sorted(found)])
        self._note(min(found) + self._projector.beyond(attached))
        return self._placed(min(found), attached)

    def _note(self, far: I64) -> None:
        """Rows that lie beyond reach."""
        self.beyond += len(far)
        self.far += far[: SHOWN - len(self.far)].tolist()

    def warn(self) -> None:
        """Warn of them."""
        warn_of_far(self._key, self.beyond, self.far, self._total, self._T_name)

    @property
    def _name(self) -> str:
        """How the names of parts' results begin."""
        return "projected" if self._projector.direct else "attached"

    def _made(
        self, function: Callable[..., Any], named: Iterable[tuple[Any, str, Any]], digests: list[str], *more: Any
    ) -> Iterator[tuple[Any, list[NDArray[Any]]]]:
        """Yield what each result is of and its arrays, found or made, in no order.

        named: What it is of, the result's name, and what it is made from.
        digests: Those of what they are made from are put behind it.
        more: Arguments of every task.
        """
        submitted: deque[tuple[Any, str, str]] = deque()
        found: deque[tuple[Any, list[NDArray[Any]]]] = deque()

        def missing() -> Iterator[tuple[Any, ...]]:
            for at, name, inputs in named:
                of = self._of(name.partition("-")[0], inputs)
                digests.append(of)
                there = self._find(name, of)
                if there is not None:
                    found.append((at, there))
                else:
                    submitted.append((at, name, of))
                    yield self._key, inputs, *more

        with closing(_results(self._cluster, function, missing())) as results:
            for result in results:
                while found:
                    yield found.popleft()
                at, name, of = submitted.popleft()
                made = _arrays(result)
                self._keep(name, of, made)
                yield at, made
        yield from found

    def _placed(self, first: int, attached: Attachments) -> F64:
        """Coordinates of a group whose first row is `first`."""
        order = self._projector.order(attached)
        coordinates, step = np.empty((len(order), self._projector.width)), _piece_rows(len(order))
        pieces = {f"placed-{first}-{at}": order[at : at + step] for at in range(0, len(order), step)}
        named = ((rows, name, attached.take(rows)) for name, rows in pieces.items())
        for rows, (placed,) in self._made(place, named, []):
            coordinates[rows] = placed
            self._count(len(rows))
        return coordinates

    def _one(self, function: Callable[..., Any], argument: Any) -> Any:
        with closing(_results(self._cluster, function, iter([(self._key, argument)]))) as results:
            return next(results)

    def _of(self, name: str, inputs: Any) -> str:
        return "" if self._kept is None else digest((name, self.way, *self._model), *_arrays(inputs))

    def _find(self, name: str, of: str) -> list[NDArray[Any]] | None:
        self._names.append(name)
        return None if self._kept is None else self._kept.get(name, of)

    def _keep(self, name: str, of: str, arrays: list[NDArray[Any]]) -> None:
        if self._kept is not None:
            self._kept.put(name, arrays, of)

    def _count(self, rows: int) -> None:
        self._done += rows
        if self._report is not None:
            stage = "project" if self._projector.gives == "coordinates" else self._projector.gives
            self._report(stage, self._done, self._total)


def _results(cluster: Cluster, function: Callable[..., Any], tasks: Iterator[Any]) -> Any:
    """The results of tasks; closing this takes back what is in flight."""
    yield from cluster.map(function, tasks)


def _piece_rows(rows: int) -> int:
    """Rows of a piece of so many: eight pieces of a few, so that cores share them, and 32 of more.

    >>> [_piece_rows(rows) for rows in (0, 7, 1000, 2048, 10_000, 100_000, 1_000_000)]
    [1, 1, 125, 256, 313, 2048, 2048]
    """
    return max(1, min(ROWS_A_PIECE, max(-(-rows // PIECES), min(LEAST_ROWS, -(-rows // 8)))))


def _arrays(inputs: Any) -> list[NDArray[Any]]:
    """The arrays that a part's rows, its coordinates or attachments consist of."""
    if isinstance(inputs, tuple):
        return list(inputs)
    if isinstance(inputs, Attachments):
        # in the kinds that are kept: what is found has to give the same digest as what was made
        return [
            inputs.indptr.astype(np.int64, copy=False),
            inputs.vertices.astype(np.int64, copy=False),
            inputs.lengths.astype(np.float64, copy=False),
            inputs.own.astype(np.int64, copy=False),
        ]
    if sp.issparse(inputs):
        at = (inputs.indptr.astype(np.int64, copy=False), inputs.indices.astype(np.int64, copy=False))
        return [*at, inputs.data, np.array(inputs.shape)]
    return [np.asarray(inputs)]
