"""Stage 8, by blocks: takes a test set of any kind, gives its coordinates group by group, and keeps what is finished.

Where test points lie decides what placing them costs (a factor of ten on a roll of 40,000: neighbours are placed
together), so the rows of a large group are attached first, a part at a time, then placed in pieces of those that lie
together. Both are tasks; a part's attachments and a piece's coordinates are kept by the client as they come
(:mod:`scalemani.engine.kept`), each with a digest of what it was made from: a part's rows as they were read, a
piece's attachments, the model and the releases at work. A run that was stopped reads every row again, which is
cheap, and makes what it does not find. So it is a task's result that is resumed, not a block of consecutive rows:
coordinates are put back in the order of the rows when their group is complete.

The client reads the rows and keeps the results: workers need to see neither test set nor output, and nothing of a
dead client's tasks can come in late. Parts, pieces and groups follow from the shape of the test set and never from
the workers, so a run finds its results again on another cluster, with the same bits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani import __version__
from scalemani.engine.cluster import Cluster
from scalemani.engine.kept import KeptResults, digest
from scalemani.projection import Attachments
from scalemani.projection_tasks import ModelKey, attach, place, project, shared_projector

Report = Callable[[str, int, int], None]
Vectors = NDArray[np.float64]
Part = tuple[int, Any]  # its first row's number, and its rows

ROWS_A_GROUP = 1 << 18  # are sorted together; their attachments and coordinates are what the client holds
SEEDS_A_GROUP = 1 << 23  # of them, about: a radius may attach a row to thousands
ROWS_A_PIECE = 2048
LEAST_ROWS = 256  # fewer in a piece fill no batches
PIECES = 32  # of a group, where that gives no less: few are lost when a run is stopped
PART_BYTES = 8 << 20  # of a part's rows as float64: a task's input


class Placing:
    """One test set on its way through one model.

    Parameters
    ----------
    key : tuple
        Of the fitted model.
    T : array-like, shape (l, n_features)
        Anything with a shape that :meth:`Projector.blocks` reads.
    cluster : Cluster
    kept : KeptResults, optional
        Where results are kept and looked for; none are without.
    report : callable, optional
        Called with the rows that are placed, those that were found first.
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
        self._part_rows = max(1, min(_piece_rows(self._total), PART_BYTES // (8 * self._projector.n_features)))
        rows = min(ROWS_A_GROUP, SEEDS_A_GROUP // self._projector.seeds_a_row)
        self._group_rows = max(1, rows // self._part_rows) * self._part_rows

    def groups(self) -> Iterator[tuple[int, Vectors]]:
        """Yield ``(start, coordinates)`` of consecutive groups of rows, in order."""
        for _, parts in groupby(self._parts(), lambda part: part[0] // self._group_rows):
            if self._projector.kind == "geodesic":
                placed = []
                for start, (rows,) in self._made("projected", project, parts, lambda rows: [rows]):
                    placed.append((start, rows))
                    self._count(len(rows))
                placed.sort(key=lambda part: part[0])
                yield placed[0][0], np.concatenate([rows for _, rows in placed])
            else:
                found = dict(self._made("attached", attach, parts, _arrays))
                first = min(found)
                yield first, self._placed(first, Attachments.joined([Attachments(*found[at]) for at in sorted(found)]))

    def _parts(self) -> Iterator[Part]:
        """Validated rows, cut at multiples of a part's and wherever the source's own blocks end."""
        for start, block in self._projector.blocks(self._T, "X"):
            at, stop = start, start + block.shape[0]
            while at < stop:
                end = min(stop, (at // self._part_rows + 1) * self._part_rows)
                yield at, block[at - start : end - start]
                at = end

    def _made(
        self,
        name: str,
        function: Callable[..., Any],
        parts: Iterable[Part],
        arrays: Callable[[Any], list[NDArray[Any]]],
    ) -> Iterator[tuple[int, list[NDArray[Any]]]]:
        """Yield each part's first row and its result, found or made, in no order."""
        submitted: deque[tuple[int, str]] = deque()
        found: deque[tuple[int, list[NDArray[Any]]]] = deque()

        def missing() -> Iterator[tuple[ModelKey, Any]]:
            for start, rows in parts:
                of = self._of(name, rows)
                there = self._find(f"{name}-{start}", of)
                if there is not None:
                    found.append((start, there))
                else:
                    submitted.append((start, of))
                    yield self._key, rows

        with closing(_results(self._cluster, function, missing())) as results:
            for result in results:
                while found:
                    yield found.popleft()
                start, of = submitted.popleft()
                made = arrays(result)
                self._keep(f"{name}-{start}", of, made)
                yield start, made
        yield from found

    def _placed(self, first: int, attached: Attachments) -> Vectors:
        """Coordinates of a group whose first row is `first`."""
        order = attached.by_place()
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

    def _of(self, name: str, inputs: Any) -> str:
        return "" if self._kept is None else digest((name, *self._model), *_arrays(inputs))

    def _find(self, name: str, of: str) -> list[NDArray[Any]] | None:
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

    Examples
    --------
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
        return [inputs.indptr, inputs.indices, inputs.data, np.array(inputs.shape)]
    return [np.asarray(inputs)]
