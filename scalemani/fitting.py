"""The way of a fit: read the points, plan, run each step of the method, skip what the store has. No numerics.

`fit` gives a finished :class:`scalemani.model.Run`; `plan` goes as far as the graph and gives what the rest would take.
Errors come in this order, before a file is made: parameters, X, sizes, the path and what is there.

A run that is there is resumed where its fields agree, step by step; other data, neighbours or graph are an error that
names the field. Steps that are late (the solver's start, the axes, the coordinates) are made again from what is there.
A run that is to be overwritten stays until the new run's graph is known to be right: the new one is begun beside it.
What a kill costs is the piece that was at work: finished steps stay, and within a step finished pieces.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scalemani.cluster.choice import open_cluster
from scalemani.cluster.client import Cluster
from scalemani.cluster.machine import parse_memory
from scalemani.errors import IN_A_SEARCH, DoesNotFitError, StoreMismatchError
from scalemani.methods import REGISTRY, USUAL
from scalemani.methods.base import Method, check_method, method_for, record_of
from scalemani.model import Run
from scalemani.neighbors.choice import SearchStrategy
from scalemani.parameters import Parameters
from scalemani.planning.plan import Plan, check_early, factor_of, make_plan, plan_of_store, size_of, with_seconds
from scalemani.progress import Progress, no_progress
from scalemani.steps.base import Step, Work
from scalemani.steps.graph import connected, differing
from scalemani.steps.inputs import Input, check_sizes
from scalemani.steps.records import (
    DataFields,
    DataRecord,
    DistancesRecord,
    FitRecord,
    GraphRecord,
    MethodRecord,
    NeighborsRecord,
)
from scalemani.steps.sources import source_count
from scalemani.storage.files import named, open_location
from scalemani.storage.records import versions
from scalemani.storage.run import RunStore
from scalemani.storage.targets import StoreFolder, check_replaceable, check_writable, kind_of
from scalemani.storage.writer import Writer


def fit(X: Any, parameters: Parameters, report: Progress = no_progress, estimator: Any = None, y: Any = None) -> Run:
    """Run the steps of a method.

    X: What `parameters.metric` says it is.
    report: Called as report(step, done, total).
    estimator: Whose method it is; its word is recorded for `load`.
    y: Labels of the rows of X, for methods that take them.
    Raises ScalemaniError: Wrong use, before any file is made (a disconnected graph: after the neighbour search).

    One fit at a time works on a store; a second one is refused while the first lives (:mod:`scalemani.storage.writer`).
    """
    estimator = estimator or REGISTRY[USUAL].load()
    parameters.check()
    if parameters.store is not None:
        check_writable(StoreFolder(parameters.store).path, replacing=parameters.overwrite)
    method = method_for(estimator)
    steps = method.steps(parameters)
    limit, points = _read(X, y, parameters, method, steps, report)
    folder = StoreFolder(parameters.store)
    try:
        with sole_writer(folder) as writer, _cluster(points, parameters) as cluster:
            cluster.check_shared(folder.path)
            report = cluster.attended(report)
            if parameters.overwrite or kind_of(folder.path) != "run":
                check_early(steps, points, parameters, cluster, limit, folder.path)
            parameters, store = open_run(folder.path, parameters, points, steps, record_of(estimator))
            check_method(store.guarded(writer.check), estimator)
            work = Work(store, parameters, cluster, points, y, report=report, keep_pieces=not folder.temporary)
            with in_place(store, folder.path) as place:
                new = store.record(GraphRecord) is None
                for step in steps:
                    if step.before_plan:
                        step.run(work)
                work.cut = _cut(work, steps, limit, new=new)
            work.store = store = RunStore(place).guarded(writer.check)
            for step in steps:
                if not step.before_plan:
                    cluster.give_back()
                    step.run(work)
            _finish(work, method, record_of(estimator))
    except BaseException:
        folder.discard()
        raise
    return Run(store, folder)


def _cut(work: Work, steps: Sequence[Step], limit: int, *, new: bool) -> Any:
    """How D is cut; a new run that does not fit leaves no file."""
    made = plan_of_store(steps, work.store, work.points, work.parameters, work.cluster, limit, new=new)
    if made.refusal is not None:
        if new:
            work.store.remove()
        raise DoesNotFitError(made.refusal)
    return made.cut


def _finish(work: Work, method: Method, record: MethodRecord) -> None:
    """Record the whole of what was asked for, which `load` gives back; drop distances where that was asked.

    The method goes with it: until then a model that was there before is what it was.
    """
    store, parameters = work.store, work.parameters
    steps = method.steps_in(store)  # D may be of an earlier fit, whose steps were others
    if not parameters.keep_distances:
        for step in steps:
            step.drop(store)
    open_location(store.path).remove_scratch("distances/c/*/", "ledger/")  # no task of this run is at work any more
    kept = any(step.kept(store) for step in steps)
    store.finish(record, FitRecord(fields={**parameters.recorded(), "keep_distances": kept}))


def plan(X: Any, parameters: Parameters, report: Progress = no_progress, estimator: Any = None, y: Any = None) -> Plan:
    """What a fit of X takes, with the time by stage: neighbours and graph are made, the rest is arithmetic.

    Nothing stays on the disk. A run that is at the store's path already is not looked at.

    Raises ScalemaniError: What `fit` would raise before it makes a file; a fit that does not fit is a plan with a
        `refusal` where that depends on the graph.
    """
    method = method_for(estimator or REGISTRY[USUAL].load())
    steps = method.steps(parameters)
    limit, given = _read(X, y, parameters, method, steps, report)
    folder = tempfile.gettempdir() if parameters.store is None else StoreFolder(parameters.store).path
    parameters = parameters.seeded(None)
    with _cluster(given, parameters) as cluster:
        begun = time.perf_counter()
        check_early(steps, given, parameters, cluster, limit, folder)
        report("neighbors", 0, 1)
        lists = given.lists(parameters)
        report("neighbors", 1, 1)
        between = time.perf_counter()
        report("graph", 0, 1)
        graph = connected(given, lists, parameters)
        report("graph", 1, 1)
        spent = {"neighbors": between - begun, "graph": time.perf_counter() - between}
        factor = factor_of(steps, lambda: graph.matrix, parameters)
        size = size_of(given, parameters, cluster, len(graph.order), int(graph.matrix.nnz), factor=factor)
        made = make_plan(steps, given, size, cluster, limit, folder, lists.method if lists else given.kind)
        return with_seconds(made, cluster, None if given.kind == "geodesic" else graph.matrix, spent)


def _read(
    X: Any, y: Any, parameters: Parameters, method: Method, steps: Sequence[Step], report: Progress
) -> tuple[int, Input]:
    """The bytes that a process may hold, and X as the method reads it."""
    parameters.check()
    limit = parse_memory(parameters.memory_limit)
    report("points", 0, 1)
    given: Input = method.read(X, y, parameters, limit, _folder_of_rows(parameters.store))
    check_sizes(parameters, given)
    for step in steps:
        step.check_before(given, parameters)
    report("points", 1, 1)
    return limit, given


def _cluster(given: Input, parameters: Parameters) -> Cluster:
    """Where the tasks of this fit run: by the distances that it makes, each at the cost of the neighbours it may pass.

    A radius and a finished graph may make every point a neighbour of every other.
    """
    n, k = given.n_distinct, parameters.n_neighbors
    neighbors = 0 if given.kind == "geodesic" else n if k is None or given.kind == "graph" else k
    return open_cluster(parameters.scheduler, n * source_count(parameters, n), neighbors)


def _folder_of_rows(store: Any) -> str | None:
    """Where points may be that memory can't hold: beside the store, if that is on a disk."""
    return None if store is None else named(store, "store")


def open_run(
    path: str, parameters: Parameters, points: Input, steps: Sequence[Step], method: MethodRecord
) -> tuple[Parameters, RunStore]:
    """The run to work in, and the parameters with their seed resolved.

    Raises StoreMismatchError: Naming the first field in which the run that is there differs.
    Raises ScalemaniError: If something else is there.
    """
    identity = DataFields(
        kind=points.kind, n_rows=points.n_rows, n_features=points.n_features, fingerprint=points.fingerprint
    )
    found = kind_of(path)
    if found != "run" or parameters.overwrite:
        seeded = parameters.seeded(None)
        data = DataRecord(fields=identity, seed=seeded.random_state, n_distinct=points.n_distinct)
        place = open_location(path).scratch_name() if found == "run" else path
        return seeded, RunStore.create(place, steps=[data, method])
    store = RunStore(path)
    open_location(path).remove_scratch()  # at once: it may be a whole D
    data, known = store.needed(DataRecord), store.document.stages
    seeded = parameters.seeded(data.seed)
    _refuse_other(path, data.fields, identity)
    wanted = {step.name: step.fields(seeded, points.kind) for step in steps}
    # without a graph no distances hang on the neighbour lists: other ones may take their place
    for step in steps if GraphRecord.STEP in known else ():
        if not step.late and step.name in known and wanted[step.name] is not None:
            exact = getattr(known[step.name], "method", SearchStrategy.DESCENT) != SearchStrategy.DESCENT
            _refuse_other(path, known[step.name].fields, wanted[step.name], exact=exact)
    if FitRecord.STEP not in known:
        _refuse_other_versions(path, store.document.versions, searched=NeighborsRecord.STEP in known)
    if parameters.tile_size is not None and store.has_distances and store.blocks.size != parameters.tile_size:
        raise _other(path, "tile_size", store.blocks.size, int(parameters.tile_size))
    if DistancesRecord.STEP in known and not any(step.kept(store) for step in steps):
        for step in steps:
            if step.late and step.from_distances and step.name in known:
                _refuse_other(path, known[step.name].fields, wanted[step.name], " and its distances were dropped")
    return seeded, store


def sole_writer(folder: StoreFolder) -> Writer:
    """The right to write at a user's path, for a ``with`` block; nobody else knows of a temporary one.

    Raises StoreInUseError: On entering, while another fit lives that writes there.
    """
    return Writer(folder.path, beats=not folder.temporary)


@contextmanager
def in_place(store: RunStore, path: str) -> Iterator[str]:
    """Put a run that was begun beside `path` there when the block ends well; remove it when not.

    Yields the path, at which the run is afterwards.
    """
    target = str(open_location(path).normal())
    try:
        yield target
        if store.path != target:
            check_replaceable(target)  # once more: a search is long
    except BaseException:
        if store.path != target:
            store.remove()
        raise
    if store.path != target:
        store.moved_to(target, replace=True)


def _refuse_other_versions(path: str, begun: dict[str, str], *, searched: bool) -> None:
    """An unfinished run goes on under the releases that it was begun with, or its numbers would be of two kinds.

    Of this package each release counts, of the numerical ones each minor release, of pynndescent while it searches.
    """
    here = versions()
    for name in ("scalemani", "numpy", "scipy", "numba", *(() if searched else ("pynndescent",))):
        parts = None if name == "scalemani" else 2
        then, now = begun.get(name, "unknown"), here[name]
        if "unknown" not in (then, now) and then.split(".")[:parts] != now.split(".")[:parts]:
            raise StoreMismatchError(
                f"the store {path!r} holds an unfinished run begun with {name} {then} where {name} {now} is installed: "
                "go on under that release, give another path, or overwrite=True to replace it"
            )


def _refuse_other(path: str, have: Any, wanted: Any, more: str = "", *, exact: bool = False) -> None:
    """Name the first field in which a finished step differs from what is asked for."""
    for name in differing(have, wanted, exact=exact):
        raise _other(path, name, getattr(have, name), getattr(wanted, name), more)


def _other(path: str, name: str, have: Any, value: Any, more: str = "") -> StoreMismatchError:
    shown = "other data, labels or kernel" if name == "fingerprint" else f"{name}={have!r}"
    asked = "" if name == "fingerprint" else f" where {name}={value!r} is asked for"
    return StoreMismatchError(
        f"the store {path!r} holds a run with {shown}{asked}{more}: give another path, or overwrite=True to "
        f"replace it{IN_A_SEARCH}"
    )
