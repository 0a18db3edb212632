"""The whole way on one screen: read, plan, run each stage, skipping what the store says is done. No numerics.

`fit` takes X and :class:`Parameters`, gives a finished :class:`scalemani.run.Run`; `plan` goes as far as the graph
and gives what the rest would take. Errors come in this order, before a file is made: parameters, X, sizes, the path
and what is there (:mod:`scalemani.opening`). Other late fields (solve) are solved again from the D that is there.

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
"""

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from scalemani import geodesics
from scalemani.engine.cluster import Cluster
from scalemani.engine.expected_arrays import check_lists
from scalemani.engine.kept_pieces import KeptPieces, drop_pieces
from scalemani.engine.objects import remove_partials
from scalemani.engine.places import named
from scalemani.engine.resources import parse_memory
from scalemani.engine.store import RunStore, check_writable, kind_of
from scalemani.engine.store_folder import StoreFolder
from scalemani.errors import DamagedStoreError, DoesNotFitError, ScalemaniError
from scalemani.graph import Graph
from scalemani.inputs import Input, read_input
from scalemani.landmarks.choice import check_landmarks
from scalemani.landmarks.fitting import fit_landmarks
from scalemani.landmarks.layout import Layout
from scalemani.landmarks.needs import check_early as check_early_by_landmarks
from scalemani.landmarks.needs import layout_of_store
from scalemani.landmarks.planning import LandmarkPlan, make_landmark_plan, with_landmark_seconds
from scalemani.needs import check_early, check_sizes
from scalemani.neighbors import NeighborLists
from scalemani.opening import REDO, differing, in_place, open_run, recorded_graph, sole_writer
from scalemani.parameters import Parameters
from scalemani.plan import Plan, make_plan, plan_of_store, with_seconds
from scalemani.run import Run
from scalemani.solving import solve_run
from scalemani.starting_block import as_begun
from scalemani.written_distances import write_distances

Report = Callable[[str, int, int], None]


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


def fit(X: Any, parameters: Parameters, report: Report = quiet, kind: str = "KernelIsomap") -> Run:
    """Fit kernel Isomap.

    X: What `parameters.metric` says it is.
    report: Called as report(stage, done, total).
    kind: Name of the estimator class, recorded for `load`.
    Raises ScalemaniError: Wrong use, before any file is made (a disconnected graph: after the neighbour search).

    One fit at a time works on a store; a second one is refused while the first lives (:mod:`scalemani.engine.writer`).
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
            fields = parameters.stage_fields(given.kind)
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
                solve_run(store, given, parameters, cluster, columns, fields, report, keep_reads=not folder.temporary)
            _finish(store, parameters, kind)
    except BaseException:
        folder.discard()
        raise
    return Run(store, folder)


def plan(X: Any, parameters: Parameters, report: Report = quiet) -> Plan | LandmarkPlan:
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


def _read(X: Any, parameters: Parameters, report: Report) -> tuple[int, Input]:
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
    fields: dict[str, Any],
    report: Report,
) -> Plan | Layout:
    """Stages 2 and 3, and the plan of the others; a new run that does not fit leaves no file."""
    new = store.stage("graph") is None
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
    store: RunStore, given: Input, parameters: Parameters, fields: dict[str, Any], report: Report
) -> NeighborLists | None:
    """Stage 2, unless it or the graph made of it is there."""
    state = store.stage("neighbors")
    if state is not None and not differing(state, fields["neighbors"]):
        drop_pieces(store)  # of a fit that was killed before it did
        if not state["listed"] or (store.stage("graph") is not None and store.stage(REDO) is None):
            return None
        try:
            parts = [store.read_array(f"neighbors_{part}") for part in ("indptr", "indices", "distances")]
            check_lists(store.path, "the neighbour lists", *parts)
            return NeighborLists(parts[0], parts[1], parts[2], state["method"], state["recall"])
        except DamagedStoreError:
            pass  # they are searched again
    made_of = {**fields["neighbors"], "random_state": None, "fingerprint": given.fingerprint}  # descents name theirs
    kept = None if parameters.store is None else KeptPieces(store, made_of)
    lists = given.lists(parameters, kept, lambda done: report("neighbors", done, given.n_distinct))
    if lists is not None:
        store.write_array("neighbors_indptr", lists.indptr)
        store.write_array("neighbors_indices", lists.indices)
        store.write_array("neighbors_distances", lists.distances)
    store.finish(
        "neighbors",
        fields["neighbors"],
        listed=lists is not None,
        method=lists.method if lists else given.kind,
        recall=float(lists.recall) if lists else 1.0,
        left_out=lists.left_out if lists else 0,
        **({"account": lists.account.record()} if lists and lists.account else {}),
    )
    drop_pieces(store)
    report("neighbors", given.n_distinct, given.n_distinct)
    return lists


def _graph(
    store: RunStore,
    given: Input,
    lists: NeighborLists | None,
    parameters: Parameters,
    fields: dict[str, Any],
    report: Report,
) -> None:
    """Stage 3: the graph in vertex order, the composed map, and what the projection needs of the points."""
    again = store.stage(REDO)
    if store.stage("graph") is not None and again is None:
        return
    report("graph", 0, 1)
    graph = _connected(given, lists, parameters)
    n = len(graph.order)
    vertex_of = np.full(given.n_distinct, -1, np.int64)
    vertex_of[graph.order] = np.arange(n)
    scale = geodesics.power_of_two_scale(given.lengths(graph))
    if given.kind != "geodesic":
        geodesics.save_graph(store, graph.matrix, scale)
    given.save(store)
    store.write_array("order", graph.order)
    store.write_array("vertex_of_distinct", vertex_of)
    store.write_array("vertex", vertex_of[given.distinct])
    store.write_array("bridges", graph.bridges)
    store.write_array("bridge_lengths", graph.bridge_lengths)
    store.finish(
        "graph",
        fields["graph"],
        scale=scale,
        n_vertices=n,
        n_edges=int(graph.matrix.nnz // 2),
        n_components=int(graph.n_components),
        component_sizes=[int(size) for size in np.sort(graph.component_sizes)[::-1][:100]],
        n_bridges=len(graph.bridges),
    )
    if again is not None:
        # A damaged graph was made again. D stays if that is the same to the bit, else it goes with what hangs on it;
        # the mark goes last, so that a stop in between leaves this to be decided again.
        if recorded_graph(store) != again["fields"].get("arrays"):
            store.forget("fit", "solve", "geodesics", "landmarks", "start", "reads")
            store.drop_distances()
        store.forget(REDO)
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
    remove_partials(store.path, "distances/c/*/", "ledger/")  # no task of this run is at work any more
    kept = store.has_distances or parameters.landmarks is not None
    store.finish("fit", {**parameters.recorded(), "keep_distances": kept}, estimator=kind)
