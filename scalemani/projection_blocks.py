"""Stage 8, by blocks: takes a test set of any kind, gives its coordinates group by group, and keeps what is finished.

Where test points lie decides what placing them costs (a factor of ten on a roll of 40,000: neighbours are placed
together), so the rows of a large group are attached first, a part at a time, then placed in pieces of those that lie
together. Both are tasks; a part's attachments and a piece's coordinates are kept by the client as they come
(:mod:`scalemani.engine.kept`), each with a digest of what it was made from: a part's rows as they were read, a
piece's attachments, the model and the releases at work. When a group is finished a record takes their place
(:mod:`scalemani.engine.kept_groups`), so that neither memory nor disk holds more than one group's, however many rows
there are. A run that was stopped reads every row again, which is cheap, and makes what it does not find.

The client reads the rows and keeps the results: workers need to see neither test set nor output, and nothing of a
dead client's tasks can come in late. Parts, pieces and groups follow from the shape of the test set, and so does the
way to search for its neighbours (:mod:`scalemani.search.query_ways`): none follows from the workers or from the blocks
in which rows are stored, so a run finds its results again on another cluster, with the same bits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cached_property
from itertools import chain, groupby
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.engine.cluster import Cluster
from scalemani.engine.kept import KeptResults, digest
from scalemani.engine.kept_groups import KeptGroups, Record
from scalemani.engine.user_arrays import NewOutput
from scalemani.errors import LowRecallWarning, warn
from scalemani.neighbor_lists import LEAST_RECALL
from scalemani.projection import Attachments
from scalemani.projection_parts import Part, again, cut, sample, sizes
from scalemani.projection_tasks import ModelKey, attach, place, project, recall_of, shared_projector, way_for
from scalemani.search.query_ways import EXACT, INDEX, WAYS

Report = Callable[[str, int, int], None]
Vectors = NDArray[np.float64]

ROWS_A_GROUP = 1 << 18  # are sorted together; their attachments and coordinates are what the client holds
SEEDS_A_GROUP = 1 << 23  # of them, about: a radius may attach a row to thousands
ROWS_A_PIECE = 2048
LEAST_ROWS = 256  # fewer in a piece fill no batches
PIECES = 32  # of a group, where that gives no less: few are lost when a run is stopped


class Placing:
    """One test set on its way through one model.

    T (l, n_features): Anything with a shape that :meth:`Projector.blocks` reads.
    kept: Where results are kept and looked for; none are without.
    report: Called with the rows that are placed, those that were found first.
    """

    def __init__(
        self, key: ModelKey, T: Any, cluster: Cluster, kept: KeptResults | None = None, report: Report | None = None
    ) -> None:
        self._key, self._T, self._cluster, self._kept = key, T, cluster, kept
        self._report, self._done = report, 0
        self._projector = shared_projector(*key)
        self._total = int(T.shape[0])
        # Not the store's path: a model that was moved is the same.
        self._model = (*key[1:], __version__, np.__version__)
        self._digests: list[str] = []  # of the parts of the group in work
        self._names: list[str] = []  # of what is kept for it

    @cached_property
    def way(self) -> str:
        """How neighbours are searched for: it follows from the model and from how many rows there are.

        Warns by LowRecallWarning: By an index that misses more than 5 % of the true neighbours of some of the rows.
        """
        if not self._projector.is_long(self._total):
            return EXACT
        of = digest(("way", *self._model), np.array([self._total]))
        found = None if self._kept is None else self._kept.get("way", of, counts=0)
        if found is None:
            way, recall = self._one(way_for, self._total), 1.0
            if way == INDEX:
                recall = self._one(recall_of, sample(self._projector, self._T, self._total))
            found = [np.array([WAYS.index(way)]), np.array([recall])]
            if self._kept is not None:
                self._kept.put("way", of, found, counts=0)
        if found[1][0] < LEAST_RECALL:
            warn(
                f"NN-descent found {found[1][0]:.3f} of the true neighbours of some rows of X, and {LEAST_RECALL} is "
                "expected: fit with knn='exact' for an exact search",
                LowRecallWarning,
            )
        return WAYS[int(found[0][0])]

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk of the output, of which groups are whole numbers."""
        return self._sizes[1]

    @cached_property
    def _sizes(self) -> tuple[int, int, int]:
        """Rows of a part, of a chunk and of a group."""
        projector = self._projector
        rows = min(ROWS_A_GROUP, SEEDS_A_GROUP // projector.seeds_a_row)
        axes = len(projector.embedding.eigenvalues)
        return sizes(self._total, _piece_rows(self._total), rows, projector.n_features, axes, self.way)

    def groups(self, output: NewOutput | None = None) -> Iterator[tuple[int, Vectors]]:
        """Yield ``(start, coordinates)`` of consecutive groups of rows, in order; they are in `output` by then."""
        part_rows, _, group_rows = self._sizes
        groups = None
        if self._kept is not None:
            of = digest(("groups", self.way, *self._model), np.array(self._sizes))
            groups = KeptGroups(self._kept, output, of)
        every = cut(self._projector.blocks(self._T, "X"), part_rows)
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
            if groups is not None:
                groups.finish(first, self._digests, self._names, coordinates)
            yield first, coordinates

    def _finished(
        self, groups: KeptGroups, record: Record, first: int, parts: Iterator[Part]
    ) -> tuple[Vectors | None, Iterator[Part]]:
        """The coordinates of a group that was finished, if it was made from these rows; else these, from the first."""
        stop = first
        for at, (start, rows) in enumerate(parts):
            if at == len(record.digests) or record.digests[at] != self._of(self._name, rows):
                return None, chain(self._again(first, start), [(start, rows)], parts)
            stop = start + rows.shape[0]
        coordinates = groups.numbers(first, record) if stop == first + record.rows else None
        return coordinates, iter(()) if coordinates is not None else self._again(first, stop)

    def _again(self, start: int, stop: int) -> Iterator[Part]:
        return again(self._projector, self._T, start, stop, self._sizes[0])

    def _coordinates(self, parts: Iterator[Part]) -> Vectors:
        """Coordinates of the rows of a group."""
        if self._projector.kind == "geodesic":
            placed = []
            for start, (rows,) in self._made(project, parts, lambda rows: [rows]):
                placed.append((start, rows))
                self._count(len(rows))
            return np.concatenate([rows for _, rows in sorted(placed, key=lambda part: part[0])])
        found = dict(self._made(attach, parts, _arrays))
        return self._placed(min(found), Attachments.joined([Attachments(*found[at]) for at in sorted(found)]))

    @property
    def _name(self) -> str:
        """How the names of parts' results begin."""
        return "projected" if self._projector.kind == "geodesic" else "attached"

    def _made(
        self, function: Callable[..., Any], parts: Iterable[Part], arrays: Callable[[Any], list[NDArray[Any]]]
    ) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """Yield each part's first row and its result, found or made, in no order."""
        submitted: deque[tuple[int, str]] = deque()
        found: deque[tuple[int, list[NDArray[Any]]]] = deque()

        def missing() -> Iterator[tuple[ModelKey, Any, str]]:
            for start, rows in parts:
                of = self._of(self._name, rows)
                self._digests.append(of)
                there = self._find(f"{self._name}-{start}", of)
                if there is not None:
                    found.append((start, there))
                else:
                    submitted.append((start, of))
                    yield self._key, rows, self.way

        with closing(_results(self._cluster, function, missing())) as results:
            for result in results:
                while found:
                    yield found.popleft()
                start, of = submitted.popleft()
                made = arrays(result)
                self._keep(f"{self._name}-{start}", of, made)
                yield start, made
        yield from found

    def _placed(self, first: int, attached: Attachments) -> Vectors:
        """Coordinates of a group whose first row is `first`."""
        order = self._projector.order(attached)
        coordinates = np.empty((len(order), len(self._projector.embedding.eigenvalues)))
        step = _piece_rows(len(order))
        missing: list[tuple[NDArray[np.int64], str, str]] = []
        for at in range(0, len(order), step):
            rows, name = order[at : at + step], f"placed-{first}-{at}"
            of = self._of("placed", attached.take(rows))
            there = self._find(name, of)
            if there is None:
                missing.append((rows, name, of))
            else:
                coordinates[rows] = there[0]
                self._count(len(rows))
        tasks = ((self._key, attached.take(rows)) for rows, _, _ in missing)
        with closing(_results(self._cluster, place, tasks)) as results:
            for (rows, name, of), result in zip(missing, results, strict=True):
                self._keep(name, of, [result])
                coordinates[rows] = result
                self._count(len(rows))
        return coordinates

    def _one(self, function: Callable[..., Any], argument: Any) -> Any:
        """What one task gives."""
        with closing(_results(self._cluster, function, iter([(self._key, argument)]))) as results:
            return next(results)

    def _of(self, name: str, inputs: Any) -> str:
        return "" if self._kept is None else digest((name, self.way, *self._model), *_arrays(inputs))

    def _find(self, name: str, of: str) -> list[NDArray[Any]] | None:
        self._names.append(name)
        return None if self._kept is None else self._kept.get(name, of)

    def _keep(self, name: str, of: str, arrays: list[NDArray[Any]]) -> None:
        if self._kept is not None:
            self._kept.put(name, of, arrays)

    def _count(self, rows: int) -> None:
        self._done += rows
        if self._report is not None:
            self._report("project", self._done, self._total)


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
    """The arrays that a part's rows, or attachments, consist of."""
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
