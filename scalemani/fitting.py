"""The stages of a fit by landmarks, in order: takes a run with its graph, leaves in it the model of the landmarks.

What a kill costs: a stage that is recorded stays, and within the distances every block of rows that was found and
every block of points that was turned. The choice of landmarks, the solve and the coordinates of all points have no
parts that are kept: the one that was at work is done again from its beginning, and coordinates with their solve, since
both are recorded together. What is done again has the same bits.

The whole way on one screen: read, plan, run each stage, skipping what the store says is done. No numerics.

`fit` takes X and :class:`Parameters`, gives a finished :class:`scalemani.model.Run`; `plan` goes as far as the graph
and gives what the rest would take. Errors come in this order, before a file is made: parameters, X, sizes, the path
and what is there (:mod:`scalemani.fitting`). Other late fields (solve) are solved again from the D that is there.

    stage                          in the store  module                    by landmarks
    1     points                   data          points                    points
    2     neighbours               neighbors     neighbors                 neighbors
    3     graph                    graph         graph                     graph
    -     landmarks                landmarks                               landmarks.choice
    -     where the solver starts  start         starting_block
    4     distances                geodesics     geodesics                 landmarks.rows
    5     kernel                                 kernel                    landmarks.kernels
    6, 7  constant, axes, model    solve         corrections, embedding    landmarks.solving
    8     test points                            projection                landmarks.placing
    -     all of it                fit           pipeline                  pipeline

Which run a fit works in: takes a path, the parameters and X's identity, gives a new run or the one that is there.

A run that is there is resumed when its fields agree, stage by stage; other data, neighbours or graph
is an error that names the field. One that is to be overwritten stays until the new run's graph is
known to be right: the new run is begun beside it.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from scalemani.cluster.client import Cluster
from scalemani.cluster.machine import parse_memory
from scalemani.errors import IN_A_SEARCH, DamagedStoreError, DoesNotFitError, ScalemaniError, StoreMismatchError
from scalemani.geodesics import rows
from scalemani.geodesics.landmarks import COUNTS, LANDMARKS, Layout, median_distance, symmetric_square
from scalemani.geodesics.rows import shared_graph
from scalemani.graph.build import Graph
from scalemani.model import Run
from scalemani.neighbors.choice import DESCENT
from scalemani.neighbors.lists import NeighborLists
from scalemani.parameters import Parameters
from scalemani.planning.needs import check_early, check_sizes, layout_of_store
from scalemani.planning.needs import check_early_by_landmarks as check_early_by_landmarks
from scalemani.planning.plan import (
    LandmarkPlan,
    Plan,
    make_landmark_plan,
    make_plan,
    plan_of_store,
    with_landmark_seconds,
    with_seconds,
)
from scalemani.progress import Progress, no_progress
from scalemani.steps import records
from scalemani.steps.axes import solve_landmarks, solve_run
from scalemani.steps.distances import compute_rows
from scalemani.steps.inputs import GeodesicInput, Input, read_input
from scalemani.steps.sources import check_landmarks, choose_landmarks
from scalemani.steps.start import as_begun, write_distances
from scalemani.storage.arrays import check_lists
from scalemani.storage.files import named, open_location
from scalemani.storage.records import Record, versions
from scalemani.storage.run import RunStore
from scalemani.storage.targets import StoreFolder, check_replaceable, check_writable, kind_of
from scalemani.storage.writer import Writer


def fit(X: Any, parameters: Parameters, report: Progress = no_progress, kind: str = "KernelIsomap") -> Run:
    """Fit kernel Isomap.

    X: What `parameters.metric` says it is.
    report: Called as report(stage, done, total).
    kind: Name of the estimator class, recorded for `load`.
    Raises ScalemaniError: Wrong use, before any file is made (a disconnected graph: after the neighbour search).

    One fit at a time works on a store; a second one is refused while the first lives (:mod:`scalemani.storage.writer`).
    """
    parameters.check()
    if parameters.store is not None:
        check_writable(StoreFolder(parameters.store).path, replacing=parameters.overwrite)
    limit, given = _read(X, parameters, report)
    folder = StoreFolder(parameters.store)
    try:
        with sole_writer(folder) as writer, Cluster(parameters.scheduler) as cluster:
            cluster.check_shared(folder.path)
            report = cluster.attended(report)
            if parameters.overwrite or kind_of(folder.path) != "run":
                _check_early(given, parameters, cluster, limit, folder.path)
            parameters, store = open_run(folder.path, parameters, given)
            store.guarded(writer.check)
            fields = parameters.step_fields(given.kind)
            with in_place(store, folder.path) as place:
                planned = _graph_and_plan(store, given, parameters, cluster, limit, fields, report)
            store = RunStore(place).guarded(writer.check)
            cluster.give_back()
            if isinstance(planned, Layout):
                fit_landmarks(store, given, parameters, cluster, planned, fields, report)
            else:
                columns = as_begun(store, parameters, planned).most_columns
                write_distances(store, given, parameters, cluster, planned.tile_size, columns, report)
                cluster.give_back()
                keep = not folder.temporary
                solve_run(store, given, parameters, cluster, columns, fields.solve, report, keep_reads=keep)
            _finish(store, parameters, kind)
    except BaseException:
        folder.discard()
        raise
    return Run(store, folder)


def plan(X: Any, parameters: Parameters, report: Progress = no_progress) -> Plan | LandmarkPlan:
    """What a fit of X takes, with the time by stage: neighbours and graph are made, the rest is arithmetic.

    Nothing stays on the disk. A run that is at the store's path already is not looked at.

    Raises ScalemaniError: What `fit` would raise before it makes a file; a fit that does not fit is a plan with a
        `refusal` where that depends on the graph.
    """
    limit, given = _read(X, parameters, report)
    folder = tempfile.gettempdir() if parameters.store is None else StoreFolder(parameters.store).path
    parameters = parameters.seeded(None)
    with Cluster(parameters.scheduler) as cluster:
        begun = time.perf_counter()
        _check_early(given, parameters, cluster, limit, folder)
        report("neighbors", 0, 1)
        lists = given.lists(parameters)
        report("neighbors", 1, 1)
        between = time.perf_counter()
        report("graph", 0, 1)
        graph = _connected(given, lists, parameters)
        report("graph", 1, 1)
        spent = {"neighbors": between - begun, "graph": time.perf_counter() - between}
        n, edges, method = len(graph.order), int(graph.matrix.nnz), lists.method if lists else given.kind
        matrix = None if given.kind == "geodesic" else graph.matrix
        if parameters.landmarks is not None:
            by = make_landmark_plan(given, parameters, cluster, limit, folder, n=n, edges=edges, method=method)
            return with_landmark_seconds(by, parameters, cluster, matrix, spent)
        made = make_plan(given, parameters, cluster, limit, folder, n=n, edges=edges, method=method)
        return with_seconds(made, parameters, cluster, matrix, spent)


def _read(X: Any, parameters: Parameters, report: Progress) -> tuple[int, Input]:
    """The bytes that a process may hold, and X as what the metric says it is."""
    parameters.check()
    limit = parse_memory(parameters.memory_limit)
    report("points", 0, 1)
    given = read_input(X, parameters.metric, parameters.metric_params, limit, _folder_of_rows(parameters.store))
    check_sizes(parameters, given)
    check_landmarks(given, parameters)
    report("points", 1, 1)
    return limit, given


def _folder_of_rows(store: Any) -> str | None:
    """Where points may be that memory can't hold: beside the store, if that is on a disk."""
    return None if store is None else named(store, "store")


def _check_early(given: Input, parameters: Parameters, cluster: Cluster, limit: int, folder: str) -> None:
    """Refuse, before the neighbour search, what can't fit whatever that finds."""
    check = check_early if parameters.landmarks is None else check_early_by_landmarks
    check(given, parameters, cluster, limit, folder)


def _graph_and_plan(
    store: RunStore,
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    limit: int,
    fields: records.StepFields,
    report: Progress,
) -> Plan | Layout:
    """Stages 2 and 3, and the plan of the others; a new run that does not fit leaves no file."""
    new = store.record(records.GraphRecord) is None
    _graph(store, given, _neighbors(store, given, parameters, fields, report), parameters, fields, report)
    if parameters.landmarks is not None:
        try:
            return layout_of_store(store, given, parameters, cluster, limit)
        except DoesNotFitError:
            if new:
                store.remove()
            raise
    made = plan_of_store(store, given, parameters, cluster, limit, fields, new=new)
    if made.refusal is not None:
        if new:
            store.remove()
        raise DoesNotFitError(made.refusal)
    return made


def _neighbors(
    store: RunStore, given: Input, parameters: Parameters, fields: records.StepFields, report: Progress
) -> NeighborLists | None:
    """Stage 2, unless it or the graph made of it is there."""
    state = store.record(records.NeighborsRecord)
    if state is not None and not differing(state.fields, fields.neighbors, exact=state.method != DESCENT):
        store.pieces("neighbors").drop()  # of a fit that was killed before it did
        made = store.record(records.GraphRecord) is not None and store.record(records.RedoRecord) is None
        if made or not state.listed:
            return None
        try:
            parts = [store.read_array(f"neighbors_{part}") for part in ("indptr", "indices", "distances")]
            check_lists(store.path, "the neighbour lists", *parts)
            return NeighborLists(parts[0], parts[1], parts[2], state.method, state.recall)
        except DamagedStoreError:
            pass  # they are searched again
    seedless = replace(fields.neighbors, random_state=None)  # descents name theirs
    made_of = {**asdict(seedless), "fingerprint": given.fingerprint}
    pieces = store.pieces("neighbors", made_of)
    kept = None if parameters.store is None else pieces
    lists = given.lists(parameters, kept, lambda done: report("neighbors", done, given.n_distinct))
    if lists is not None:
        store.write_array("neighbors_indptr", lists.indptr)
        store.write_array("neighbors_indices", lists.indices)
        store.write_array("neighbors_distances", lists.distances)
    account = lists.account if lists else None
    store.finish(
        records.NeighborsRecord(
            fields=fields.neighbors,
            listed=lists is not None,
            method=lists.method if lists else given.kind,
            recall=float(lists.recall) if lists else 1.0,
            left_out=lists.left_out if lists else 0,
            account=records.SearchRecord(**account.record()) if account else None,
        )
    )
    pieces.drop()
    report("neighbors", given.n_distinct, given.n_distinct)
    return lists


def _graph(
    store: RunStore,
    given: Input,
    lists: NeighborLists | None,
    parameters: Parameters,
    fields: records.StepFields,
    report: Progress,
) -> None:
    """Stage 3: the graph in vertex order, the composed map, and what the projection needs of the points."""
    again = store.record(records.RedoRecord)
    if store.record(records.GraphRecord) is not None and again is None:
        return
    report("graph", 0, 1)
    graph = _connected(given, lists, parameters)
    n = len(graph.order)
    vertex_of = np.full(given.n_distinct, -1, np.int64)
    vertex_of[graph.order] = np.arange(n)
    scale = rows.power_of_two_scale(given.lengths(graph))
    if given.kind != "geodesic":
        rows.save_graph(store, graph.matrix, scale)
    given.save(store)
    store.write_array("order", graph.order)
    store.write_array("vertex_of_distinct", vertex_of)
    store.write_array("vertex", vertex_of[given.distinct])
    store.write_array("bridges", graph.bridges)
    store.write_array("bridge_lengths", graph.bridge_lengths)
    store.finish(
        records.GraphRecord(
            fields=fields.graph,
            scale=scale,
            n_vertices=n,
            n_edges=int(graph.matrix.nnz // 2),
            n_components=int(graph.n_components),
            component_sizes=[int(size) for size in np.sort(graph.component_sizes)[::-1][:100]],
            n_bridges=len(graph.bridges),
        )
    )
    if again is not None:
        # A damaged graph was made again. D stays if that is the same to the bit, else it goes with what hangs on it;
        # the mark goes last, so that a stop in between leaves this to be decided again.
        if recorded_graph(store) != again.arrays:
            store.forget("fit", "solve", "geodesics", "landmarks", "start")
            store.drop_distances()
        store.forget(records.RedoRecord.STEP)
    report("graph", 1, 1)


def _connected(given: Input, lists: NeighborLists | None, parameters: Parameters) -> Graph:
    """The graph in vertex order, with points enough for the axes."""
    graph: Graph = given.graph(parameters, lists)
    n = len(graph.order)
    check_landmarks(given, parameters, graph)
    if parameters.n_components >= n:
        raise ScalemaniError(
            f"n_components={parameters.n_components} needs at least {parameters.n_components + 1} points; the largest "
            f"component has {n}"
        )
    return graph


def _finish(store: RunStore, parameters: Parameters, kind: str) -> None:
    """Record the whole of what was asked for, which `load` gives back; drop D where that was asked."""
    if not parameters.keep_distances:
        store.drop_distances()
    open_location(store.path).remove_scratch("distances/c/*/", "ledger/")  # no task of this run is at work any more
    kept = store.has_distances or parameters.landmarks is not None
    store.finish(records.FitRecord(fields=parameters.recorded(keep_distances=kept), estimator=kind))


def recorded_graph(store: RunStore) -> dict[str, int]:
    """Checksums of the arrays that D was made from, by name, as the document has them."""
    arrays = store.document.arrays
    return {name: value for name, value in arrays.items() if name.startswith("graph_") or name == "order"}


def open_run(path: str, parameters: Parameters, given: Input) -> tuple[Parameters, RunStore]:
    """The run to work in, and the parameters with their seed resolved.

    Raises StoreMismatchError: Naming the first field in which the run that is there differs.
    Raises ScalemaniError: If something else is there.
    """
    identity = records.DataFields(
        kind=given.kind, n_rows=given.n_rows, n_features=given.n_features, fingerprint=given.fingerprint
    )
    found = kind_of(path)
    if found != "run" or parameters.overwrite:
        seeded = parameters.seeded(None)
        data = records.DataRecord(fields=identity, seed=seeded.random_state, n_distinct=given.n_distinct)
        return seeded, RunStore.create(open_location(path).scratch_name() if found == "run" else path, steps=[data])
    store = RunStore(path)
    open_location(path).remove_scratch()  # at once: it may be a whole D
    data, graph = store.needed(records.DataRecord), store.record(records.GraphRecord)
    neighbors = store.record(records.NeighborsRecord)
    chosen, solved = store.record(records.LandmarksRecord), store.record(records.SolveRecord)
    finished = store.record(records.DistancesRecord) is not None
    seeded = parameters.seeded(data.seed)
    wanted = seeded.step_fields(given.kind)
    _refuse_other(path, data.fields, identity)
    # without a graph no distances hang on the neighbour lists: other ones may take their place
    if neighbors is not None and graph is not None:
        _refuse_other(path, neighbors.fields, wanted.neighbors, exact=neighbors.method != DESCENT)
        _refuse_other(path, graph.fields, wanted.graph)
    if finished or chosen is not None or store.has_distances:
        _refuse_other(path, chosen.fields if chosen else records.LandmarksFields(landmarks=None), wanted.landmarks)
    if store.record(records.FitRecord) is None:
        _refuse_other_versions(path, store.document.versions, searched=neighbors is not None)
    if parameters.tile_size is not None and store.has_distances and store.blocks.size != parameters.tile_size:
        raise _other(path, "tile_size", store.blocks.size, int(parameters.tile_size))
    if finished and chosen is None and not store.has_distances and solved is not None:
        _refuse_other(path, solved.fields, wanted.solve, " and its distances were dropped")
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


def differing(have: Record, wanted: Record, *, exact: bool = False) -> list[str]:
    """The fields in which a finished step differs; the seed is none where the search that ran was `exact`."""
    return [
        name
        for name, value in asdict(wanted).items()
        if getattr(have, name) != value and not (exact and name == "random_state")
    ]


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


def _refuse_other(path: str, have: Record, wanted: Record, more: str = "", *, exact: bool = False) -> None:
    """Name the first field in which a finished step differs from what is asked for."""
    for name in differing(have, wanted, exact=exact):
        raise _other(path, name, getattr(have, name), getattr(wanted, name), more)


def _other(path: str, name: str, have: Any, value: Any, more: str = "") -> StoreMismatchError:
    shown = "other data" if name == "fingerprint" else f"{name}={have!r}"
    asked = "" if name == "fingerprint" else f" where {name}={value!r} is asked for"
    return StoreMismatchError(
        f"the store {path!r} holds a run with {shown}{asked}{more}: give another path, or overwrite=True to "
        f"replace it{IN_A_SEARCH}"
    )


def fit_landmarks(
    store: RunStore,
    given: Input,
    parameters: Parameters,
    cluster: Cluster,
    layout: Layout,
    fields: records.StepFields,
    report: Progress,
) -> None:
    """Run the stages that the store lacks.

    layout: How the distances are cut, where they are not begun.
    fields: What the stages were asked for, as :meth:`Parameters.step_fields` gives it.
    """
    if store.record(records.LandmarksRecord) is None:
        report("landmarks", 0, 1)
        choose(store, given, parameters, layout, fields)
        report("landmarks", 1, 1)
    cluster.give_back()
    layout = Layout.of(store)
    if store.record(records.DistancesRecord) is None:
        compute_rows(store, given, store.needed(records.GraphRecord).scale, cluster, report)
        median = median_distance(symmetric_square(store), store.read_array(COUNTS))
        store.finish(records.DistancesRecord(tile_size=layout.points_a_chunk, median=median))
    layout.by_landmark(store).drop()
    cluster.give_back()
    solve_landmarks(store, parameters, cluster, fields.solve, report)


def choose(
    store: RunStore, given: Input | None, parameters: Parameters, layout: Layout, fields: records.StepFields
) -> None:
    """Choose the landmarks and record them with the layout of their distances."""
    given_distances = isinstance(given, GeodesicInput)
    graph = None if given_distances else shared_graph(store.path, store.identity)
    order, vertex = store.read_array("order"), store.read_array("vertex")
    landmarks, reach = choose_landmarks(given, parameters, graph, order, vertex)
    if reach is not None and given_distances:
        reach /= store.needed(records.GraphRecord).scale
    layout.by_point(store).drop()
    layout.by_landmark(store).drop()  # of other landmarks, where these are chosen again
    store.write_array(LANDMARKS, landmarks)
    store.finish(
        records.LandmarksRecord(
            fields=fields.landmarks,
            n_landmarks=len(landmarks),
            landmarks_a_task=layout.landmarks_a_task,
            points_a_chunk=layout.points_a_chunk,
            reach=reach,
        )
    )
