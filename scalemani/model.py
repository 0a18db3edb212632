"""A fitted run: takes a finished store, gives coordinates, projections, rows of D and a copy without D.

The store IS the saved model; this class is its face in memory. A run without a path of its own
lives in a temporary folder for as long as anything refers to it: the estimator, or a lazy result
of its projection. A pickle of it carries the files of its export, where one with a path carries that.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from scalemani.aliases import F64, I64
from scalemani.cluster.choice import open_cluster
from scalemani.cluster.client import Cluster
from scalemani.cluster.machine import parse_memory
from scalemani.embedding.agreement import Superposition
from scalemani.embedding.dimension import DistanceHistogram
from scalemani.errors import (
    DamagedStoreError,
    DoesNotFitError,
    ScalemaniError,
    UnreachableWarning,
    warn,
)
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.rows import shared_paths
from scalemani.methods.base import method_of
from scalemani.neighbors.functions import function_name, function_of, module_of
from scalemani.neighbors.metrics import is_function_name
from scalemani.points.reading import as_source, check_shape, row_numbers
from scalemani.progress import Progress
from scalemani.projection.long import LazyProjection, ModelKey, Placing, shared_projector
from scalemani.steps.distances import NOT_KEPT, stored_histogram
from scalemani.steps.names import row_ids, write_row_ids
from scalemani.steps.records import (
    DataRecord,
    DistancesRecord,
    FitRecord,
    GraphRecord,
    MethodRecord,
    NamesRecord,
    NeighborsRecord,
)
from scalemani.steps.sources import landmark_vertices
from scalemani.storage.files import named, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.pieces import Pieces, drop_finished, kept_results
from scalemani.storage.run import RunStore
from scalemani.storage.targets import StoreFolder, check_writable
from scalemani.storage.writer import Writer, who_writes

Laid = Superposition | None  # what lays a map upon another, if anything
PICKLE_BYTES = 256 << 20  # the most of a model that a pickle carries


class Run:
    """A store whose fit is finished.

    folder: Kept alive by this object.
    Raises ScalemaniError: If the fit in the store did not finish.
    """

    def __init__(self, store: RunStore, folder: StoreFolder | None = None) -> None:
        self.store, self.folder = store, folder or StoreFolder(store.path)
        self._id = store.identity
        if store.record(FitRecord) is None:
            at_work = who_writes(store.path)
            what = f"{at_work} is at work on it: wait for that" if at_work else "run the same fit again, which goes on"
            begun = method_of(store).steps_in(store)
            done = ", ".join(step.name for step in begun if step.name in store.document.stages)
            raise ScalemaniError(f"the fit in {store.path!r} is not finished (done: {done or 'nothing'}): {what}")
        self.method = method_of(store)
        self.steps = self.method.steps_in(store)
        self.data, self.fitted, self._revision = store.needed(DataRecord), store.needed(FitRecord), _solution(store)
        self._names, self._ids = store.record(NamesRecord), list[list[str] | None]()  # ids when they are asked for
        for step in self.steps:
            store.needed(step.record)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copies in one process share the run."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """With a path of its own by that, else whole but for D; a metric that is a function goes along."""
        path, identity, revision, *_ = self._key
        function = function_of(self._function) if self._function else None
        if self.folder.temporary:
            return _unpacked, (self._packed(), function)
        return _opened_again, (path, identity, revision, function)

    def _packed(self) -> dict[str, bytes]:
        """The files of the model without D, by name; refused where they are too large for a pickle."""
        size = self.store.bytes_without_distances(*(name for step in self.steps for name in step.exported))
        if size > PICKLE_BYTES:
            raise ScalemaniError(
                f"a model with store=None is pickled with all that it needs but D: this one has {size:,} bytes, and a "
                f"pickle carries {PICKLE_BYTES:,} at most; give fit a store path, then only the path is pickled"
            )
        with tempfile.TemporaryDirectory(prefix="scalemani-") as folder:
            model = Path(folder) / "model"
            self.export(model)
            files = [file for file in sorted(model.rglob("*")) if file.is_file()]
            return {file.relative_to(model).as_posix(): file.read_bytes() for file in files}

    @property
    def parameters(self) -> dict[str, Any]:
        """What the fit was asked for."""
        return self.fitted.parameters

    @cached_property
    def vertex(self) -> I64:
        """Vertex of each of the user's rows; -1 where its component was dropped."""
        return self.store.read_array("vertex")

    @property
    def spectrum(self) -> dict[str, Any]:
        """The account of the spectrum, with what the earlier stages counted."""
        spectrum: dict[str, Any] = {}
        for step in reversed(self.steps):
            spectrum |= step.account(self.store)
        spectrum["notes"] = self.method.words.notes(spectrum)
        return spectrum

    @cached_property
    def distance_histogram(self) -> DistanceHistogram | None:
        """Pairs of vertices by their distance, for :mod:`scalemani.embedding.dimension`; None where the fit did
        not count.
        """
        return stored_histogram(self.store)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, if the fit or its caller knew them."""
        named = self._names
        return None if named is None or named.features is None else list(named.features)

    def name_features(self, names: list[str] | None) -> None:
        """Record the names of the features in the store.

        Raises StoreInUseError: If a fit is at work there.
        Raises ScalemaniError: If it was fitted again since, or is gone.
        """
        if names != self.feature_names:
            named = NamesRecord(features=names)
            with self._written() as store:
                store.finish(named)
            self._names = named

    @property
    def ids(self) -> list[str] | None:
        """Ids of the user's rows, in their order, if the fit or its caller knew them; several rows may have one id."""
        if not self._ids:
            self._ids = [row_ids(self.store)]
        return self._ids[0]

    def name_rows(self, ids: list[str] | None) -> None:
        """Record the ids of the rows in the store, in the place of those that are there.

        Raises StoreInUseError: If a fit is at work there.
        Raises ScalemaniError: If there is not one id a row; if it was fitted again since, or is gone.
        """
        if ids is not None and len(ids) != len(self.vertex):
            raise ScalemaniError(f"{len(ids):,} ids for {len(self.vertex):,} rows of the fit; give one id a row")
        try:
            same = ids == self.ids
        except DamagedStoreError:  # which these mend
            same = False
        if not same:
            with self._written() as store:
                write_row_ids(store, ids)
            self._ids = [ids]

    @contextmanager
    def _written(self) -> Iterator[RunStore]:
        """The store, to be written to by this process alone."""
        with Writer(self.store.path, beats=not self.folder.temporary) as writer:
            self.check_current()
            yield RunStore(self.store.path).guarded(writer.check)

    def embedding(self) -> F64:
        """Coordinates (N, p) of the user's rows; NaN for those of dropped components."""
        every = (step.coordinates(self.store) for step in reversed(self.steps))
        return self._in_user_order(next(found for found in every if found is not None))

    def by_source(self, name: str) -> F64:
        """An array of the store with a number for each source of D, by the user's rows; NaN for the others."""
        values, chosen = self.store.read_array(name), landmark_vertices(self.store)
        if chosen is None:
            return self._in_user_order(values)
        every = np.full(self.store.needed(GraphRecord).n_vertices, np.nan)
        every[chosen] = values
        return self._in_user_order(every)

    def _in_user_order(self, values: NDArray[Any]) -> F64:
        """Rows by vertex -> rows by user row; NaN where there is no vertex."""
        out = np.full((len(self.vertex), *values.shape[1:]), np.nan)
        kept = self.vertex >= 0
        out[kept] = values[self.vertex[kept]]
        return out

    def geodesics(self, rows: ArrayLike, *, stored: bool = True) -> F64:
        """Rows of D in the user's order and unit, shape (len(rows), N); NaN to and from dropped rows.

        They are read where D is kept and `stored` is true, else found again from the graph (D that was given is always
        read): less work for a few rows of a large D, from whose numbers they may differ in the last bits.

        Raises ScalemaniError: If rows are not row numbers, or D was given and these rows of it are not kept.
        """
        self.check_current()
        total = len(self.vertex)
        vertices = self.vertex[row_numbers(rows, total)]
        known = vertices >= 0
        given = self.data.given
        every = (step.rows(self.store, vertices[known]) for step in self.steps) if stored or given else ()
        found = next((rows for rows in every if rows is not None), None)
        if found is None and given:
            raise ScalemaniError(NOT_KEPT)
        if found is None:
            found = geodesic_rows(shared_paths(self.store.path, self.store.identity), vertices[known])
            state = self.store.record(DistancesRecord)
            if state is not None and state.between is not None:  # of two classes, to which no path leads
                found[np.isinf(found)] = state.between
        out = np.full((len(vertices), total), np.nan)
        out[known] = self._in_user_order(found.T.astype(np.float64) * self.store.needed(GraphRecord).scale).T
        return out

    # ---- projection ------------------------------------------------------------------------------

    @property
    def _key(self) -> ModelKey:
        return self._key_of(self.method.projector)

    def _key_of(self, maker: str) -> ModelKey:
        """What names this fitted model in any process: path, run, solution, projection, a function's module, and which
        function makes what is asked of it.
        """
        self.check_current()
        module = module_of(self._function) if self._function else ""
        return (self.store.path, self._id, self._revision, self.fitted.fields["projection"], module, maker)

    @property
    def _function(self) -> str:
        """The name of the function that the metric or the kernel is; "" where neither is one."""
        asked = self.store.needed(NeighborsRecord).fields.metric, self.parameters.get("kernel")
        return next((str(name) for name in asked if is_function_name(name)), "")

    def check_current(self) -> None:
        """Refuse to answer from a store that is gone, or holds another fit by now."""
        if not open_location(self.store.path).is_dir():
            raise ScalemaniError(
                f"the store {self.store.path!r} is gone: a model fitted with store=None lives no longer than "
                "the object that fitted it; give fit a store path"
            )
        again = self.store.record(FitRecord) is None or _solution(self.store) != self._revision
        if again or self.store.document.id != self._id:
            raise _fitted_again(self.store.path)

    def transform(
        self,
        T: Any,
        scheduler: Any = None,
        report: Progress | None = None,
        kept: Pieces | None = None,
        laid: Laid = None,
    ) -> Any:
        """Coordinates of test points: NumPy (l, p), or a lazy Dask array for a Dask array.

        With `kept`, finished blocks are kept and found there (not those of a lazy result); with `laid` coordinates are
        those on another map, as :func:`scalemani.report.comparison.laid_upon` gives it.

        Warns by UnreachableWarning: Once, if rows have no path to the training points; they are NaN.
        Warns by OutOfReachWarning: Once, if rows lie so far from all training points that coordinates say little.
        """
        return self._placed(self._key, self._test_set(self._key, T, "X"), "X", scheduler, report, kept, laid)

    def transform_to(
        self, T: Any, out: Any, scheduler: Any = None, report: Progress | None = None, laid: Laid = None
    ) -> Any:
        """Coordinates of any test set's rows, written by blocks into a new Zarr array at `out`; returns it.

        What is finished is kept beside `out` until the whole is: the same call goes on where one was stopped. That is
        the output, a few bytes a block, and the blocks of one group of rows.
        The number of rows that are NaN is warned about.
        """
        return self._placed_to(self._key, self._test_set(self._key, T, "X"), "X", out, scheduler, report, laid)

    def kernel(
        self,
        A: Any = None,
        B: Any = None,
        scheduler: Any = None,
        report: Progress | None = None,
        memory_limit: Any = None,
    ) -> Any:
        """Values of the method's kernel: of A, or of all training rows, with B, or all training rows.

        None stands for the training rows, N of them: (N, N), (l, N) or (N, l).

        Raises ScalemaniError: If A and B are given, or the method has no kernel that is known between rows.
        Raises DoesNotFitError: If the values don't fit in memory.
        """
        if A is not None and B is not None:
            raise ScalemaniError(
                "A and B are given, and the kernel of new rows with new rows is not defined (the paper's equations 8 "
                "to 10 have a training row in each pair): give one of them"
            )
        key, T, name = self._kernel_rows(B if A is None else A, "A" if B is None else "B")
        shape, limit = (T.shape[0], len(self.vertex)), parse_memory(memory_limit)
        if not hasattr(T, "rechunk") and 8 * shape[0] * shape[1] > limit:
            raise DoesNotFitError(
                f"a kernel of {shape[0]:,} by {shape[1]:,} rows has {8 * shape[0] * shape[1]:,} bytes and memory_limit "
                f"allows {limit:,}: write it by blocks (kernel_to; in the shell to a .zarr), or raise memory_limit"
            )
        values = self._placed(key, T, name, scheduler, report)
        return values if B is None else values.T

    def kernel_to(self, out: Any, A: Any = None, scheduler: Any = None, report: Progress | None = None) -> Any:
        """The same values of A's rows, or of the training rows, by blocks as `transform_to` writes coordinates."""
        return self._placed_to(*self._kernel_rows(A, "A"), out, scheduler, report)

    def _kernel_rows(self, T: Any, name: str) -> tuple[ModelKey, Any, str]:
        """What gives kernel values of which rows: T's, or those of the training rows by their numbers."""
        maker = (self.method.kernel or (None, None))[T is None]
        if maker is None:
            rows = "" if self.method.kernel is None else " values of new rows"
            raise ScalemaniError(
                f"{self.store.needed(MethodRecord).name} gives no kernel{rows} (isomap, kernel-isomap and "
                "laplacian-eigenmaps do, lle of its training rows): take the inner products of coordinates"
            )
        key = self._key_of(maker)
        T = np.arange(len(self.vertex))[:, None] if T is None else T
        return key, self._test_set(key, T, name), name

    def kernel_rows(self, rows: I64, maker: str) -> F64:
        """Values (l, N) of one of `method.kernels`, of training rows by their numbers."""
        key = self._key_of(maker)
        return np.asarray(self._placed(key, self._test_set(key, rows[:, None], "rows"), "rows", None, None))

    def _placed(
        self,
        key: ModelKey,
        T: Any,
        name: str,
        scheduler: Any,
        report: Progress | None,
        kept: Pieces | None = None,
        laid: Laid = None,
    ) -> Any:
        """What a projector gives for the rows of T, a test set, which messages call by `name`."""
        if hasattr(T, "rechunk"):
            lazy = self._lazy(key, T, name)
            return lazy if laid is None else lazy.map_blocks(laid.of, dtype=np.float64, meta=np.empty((0, 0)))
        out = np.empty((int(T.shape[0]), shared_projector(*key).width))
        with self._cluster(key, scheduler, T) as cluster:
            placing = Placing(key, T, cluster, kept, report, name, laid)
            for start, rows in placing.groups():
                out[start : start + len(rows)] = rows
        placing.warn()
        self._warn_of_lost(key, int(np.isnan(out).all(axis=1).sum()), len(out))
        return out

    def _placed_to(
        self, key: ModelKey, T: Any, name: str, out: Any, scheduler: Any, report: Progress | None, laid: Laid = None
    ) -> Any:
        """The same, by blocks into a new Zarr array."""
        from scalemani.storage.user_arrays import NewOutput, open_output, refuse_existing  # here only: Zarr comes along

        out = named(out, "out")
        if np.isnan(T.shape[0]):
            raise ScalemaniError(
                f"{name} has rows that nobody has counted: call {name}.compute_chunk_sizes() first, or give "
                f"{name}.to_dask_array(lengths=True) of a data frame"
            )
        total = int(T.shape[0])
        drop_finished(out)
        refuse_existing(out)
        check_writable(out)
        lost = 0
        with kept_results(out) as kept, self._cluster(key, scheduler, T) as cluster:
            placing = Placing(key, T, cluster, kept, report, name, laid)
            shape = total, shared_projector(*key).width
            array = NewOutput(kept.folder, shape, min(placing.chunk_rows, max(1, total)))
            for _, rows in placing.groups(array):
                lost += int(np.isnan(rows).all(axis=1).sum())
            kept.check()
            array.finish(out)
        placing.warn()
        self._warn_of_lost(key, lost, total)
        return open_output(out)

    @contextmanager
    def _cluster(self, key: ModelKey, scheduler: Any, T: Any) -> Iterator[Cluster]:
        """Where a test set is placed: by its distances to the training points, each of a row's features and edges."""
        graph, projector = self.store.needed(GraphRecord), shared_projector(*key)
        edges = 0 if projector.direct else 2 * graph.n_edges / graph.n_vertices
        with open_cluster(scheduler, T.shape[0] * projector.n, T.shape[1] + edges) as cluster:
            cluster.check_shared(self.store.path, writing=False)
            yield cluster

    def _warn_of_lost(self, key: ModelKey, lost: int, total: int) -> None:
        if lost:
            of = shared_projector(*key)
            warn(f"{lost} of {total} rows have {of.lost}: their {of.gives} are NaN", UnreachableWarning)

    @property
    def spare(self) -> int:
        """Columns that a test set may have besides the features."""
        return int(shared_projector(*self._key).spare)

    def _test_set(self, key: ModelKey, T: Any, name: str) -> Any:
        """T as a source of rows, unless its kind, shape or number of features is wrong; no row is read."""
        source, projector = as_source(T, name), shared_projector(*key)
        check_shape(tuple(source.shape), name, projector.n_features, projector.spare)
        return T if sp.issparse(T) else source  # sparse rows of distances keep their stored zeros

    def _lazy(self, key: ModelKey, T: Any, name: str) -> Any:
        whole = T.rechunk({1: -1})
        return whole.map_blocks(
            LazyProjection(key, 0 if np.isnan(T.shape[0]) else int(T.shape[0]), self.folder, name),
            dtype=np.float64,
            chunks=(whole.chunks[0], (shared_projector(*key).width,)),
            meta=np.empty((0, 0)),
        )

    def export(self, path: Any) -> None:
        """Copy the model without D to a new folder, with what else it places new points by.

        Raises ScalemaniError: If something is at `path`.
        """
        path = named(path, "path")
        self.check_current()

        def more(folder: Any) -> None:
            for step in self.steps:
                step.copy(self.store, folder)

        self.store.copy_without_distances(path, more)


def run_of(model: Any, taker: str) -> Run:
    """The run of a fitted model, or at the path of a store; `taker` begins the message where it is neither."""
    if isinstance(model, str | os.PathLike):
        return Run(RunStore(named(model, "path")))
    run = model if isinstance(model, Run) else getattr(model, "_run", None)
    if not isinstance(run, Run):
        what = "not fitted" if hasattr(model, "fit") else "none"
        raise ScalemaniError(
            f"{taker} takes a fitted model of scalemani, or the path of a store; {type(model).__name__} is {what}"
        )
    return run


def _solution(store: RunStore) -> str:
    """A name of the solution in a finished run: corrections may have the same axes, and kernels of their own."""
    return f"{store.revision} {store.needed(FitRecord).fields['correction']}"


def _fitted_again(path: str) -> ScalemaniError:
    return ScalemaniError(
        f"the store {path!r} was fitted again since this model was made: load it again, or give each fit a path of its "
        "own"
    )


def _unpacked(files: dict[str, bytes], function: Any) -> Run:
    """A run out of a pickle, in a temporary folder of its own."""
    folder = StoreFolder(None)
    with room_for(folder.path, sum(map(len, files.values()))):
        for name, content in files.items():
            file = Path(folder.path) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return _knowing(Run(RunStore(folder.path), folder), function)


def _opened_again(path: str, identity: str, revision: str, function: Any) -> Run:
    """The run that a pickle names; refused where it is gone, or another is at the path by now."""
    run = _knowing(Run(RunStore(path)), function)
    if run._key[1:3] != (identity, revision):
        raise _fitted_again(path)
    return run


def _knowing(run: Run, function: Any) -> Run:
    if function is not None:
        function_name(function)  # known in this process from now on
    return run
