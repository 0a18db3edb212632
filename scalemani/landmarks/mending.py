"""Mends a run by landmarks: takes what :mod:`scalemani.landmarks.checking` found, makes that again and nothing else.

The landmarks are chosen again by the method and seed that are recorded, chunks are made of the graph, the landmarks'
own distances and the counts of the matrix, axes of those, coordinates of both: all have the bits that they had, which
checksums in the document confirm. What needs the points (all of a given D) is taken back, so that the same fit with the
same points makes it again and goes on.
"""

from collections.abc import Callable, Collection

import numpy as np

from scalemani.embedding import load_embedding
from scalemani.engine.audit import Fault
from scalemani.engine.chunked_audit import row_of
from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.errors import SelfCheckError
from scalemani.geodesics import shared_graph
from scalemani.landmarks.choice import choose_landmarks
from scalemani.landmarks.layout import COORDINATES, COUNTS, LANDMARKS, SQUARE, STAGE, Layout
from scalemani.landmarks.placing import place_all
from scalemani.landmarks.rows import compute_rows, count_cells
from scalemani.landmarks.solving import solve_landmarks
from scalemani.parameters import Parameters

Report = Callable[[str, int, int], None]
KINDS = ("matrix", "landmarks", "chunk", "square", "solve", "model", "placed")  # of faults mended here, in order
FROM_THE_POINTS = ("landmarks", "chunk")  # where D was given


def mend_landmarks(store: RunStore, faults: dict[str, list[Fault]], cluster: Cluster, report: Report) -> list[str]:
    """Mend what is wrong, what other things depend on first; the rest of a kind that goes to the fit stays.

    faults: By kind: of `KINDS`.
    -> done: A sentence each.
    """
    done: list[str] = []
    given = store.document["stages"]["data"]["fields"]["kind"] == "geodesic"
    if "matrix" in faults:
        layout = Layout.of(store)
        for fault in faults["matrix"]:
            layout.matrix(store, fault.name.split("/")[0]).write_metadata()
        done.append("the metadata of the distances to landmarks were written again")
    if "landmarks" in faults:
        return done + _chosen_again(store, given)
    if "chunk" in faults:
        done += _chunks(store, [row_of(fault.name) for fault in faults["chunk"]], given, cluster, report)
        return done
    if "square" in faults:
        done += _square(store, {fault.name for fault in faults["square"]}, cluster)
    if faults.keys() & {"solve", "model"}:
        done += _solved(store, cluster, report)
    elif "placed" in faults:
        done += _placed(store, cluster, report)
    return done


def _recorded(store: RunStore) -> Parameters | None:
    """What the fit was asked for; None where it has not ended."""
    fit = store.stage("fit")
    if fit is None:
        return None
    names = Parameters.__dataclass_fields__
    return Parameters(**{name: value for name, value in fit["fields"].items() if name in names})


def _chosen_again(store: RunStore, given: bool) -> list[str]:
    parameters, before = _recorded(store), store.named_arrays().get(LANDMARKS)
    if parameters is not None and not given:
        order, vertex = store.read_array("order"), store.read_array("vertex")
        graph = shared_graph(store.path, store.identity)
        landmarks, _ = choose_landmarks(None, parameters, graph, order, vertex)
        store.write_array(LANDMARKS, landmarks)
        store.finish_again(STAGE)
        if before in (None, store.named_arrays()[LANDMARKS]):
            return ["the landmarks were chosen again: they are those that they were"]
    layout = Layout.of(store)
    store.forget("fit", "solve", "geodesics", STAGE)
    layout.by_point(store).drop()
    layout.by_landmark(store).drop()
    for name in (LANDMARKS, SQUARE, COUNTS, COORDINATES):
        store.remove_array(name)
    return ["left to the same fit with the same points, which goes on: the landmarks and all that comes of them"]


def _chunks(
    store: RunStore, damaged: Collection[tuple[str, int]], given: bool, cluster: Cluster, report: Report
) -> list[str]:
    layout, state = Layout.of(store), store.stage("geodesics")
    for name, row in damaged:
        layout.matrix(store, name).unfinish(row)
    count = len(damaged)
    what = f"{count} block{'s' if count > 1 else ''} of distances to landmarks"
    if state is None:
        return [f"left to the same fit, which goes on: {what}"]
    if given:
        store.forget("geodesics")
        return [f"left to the same fit with the same points, which goes on: {what}"]
    graph = store.stage("graph")
    assert graph is not None
    compute_rows(store, None, graph["scale"], cluster, report)
    store.finish_again("geodesics")
    layout.by_landmark(store).drop()
    return [f"{what} {'was' if count == 1 else 'were'} made again from the graph"]


def _square(store: RunStore, names: Collection[str], cluster: Cluster) -> list[str]:
    """The landmarks' own distances, and the points of each."""
    layout = Layout.of(store)
    if SQUARE in names:
        found = layout.by_point(store).read_rows(store.read_array(LANDMARKS))
        store.write_array(SQUARE, np.ascontiguousarray(found.T))
    if COUNTS in names:
        store.write_array(COUNTS, count_cells(store, cluster))
    store.finish_again("geodesics")
    return [f"{name} was taken from the distances again" for name in sorted(names)]


def _solved(store: RunStore, cluster: Cluster, report: Report) -> list[str]:
    """Axes, constant and coordinates."""
    solved, fit = store.stage("solve"), store.stage("fit")
    assert solved is not None
    parameters = Parameters(**solved["fields"])
    try:
        solve_landmarks(store, parameters, cluster, {"solve": solved["fields"]}, report, again=True)
    except SelfCheckError:
        store.forget("fit", "solve", "geodesics", STAGE)
        return ["the distances to landmarks contradict one another: the same fit makes them again"]
    if fit is not None:
        store.finish_again("fit", fit)
    return ["the model was solved again from the distances to landmarks"]


def _placed(store: RunStore, cluster: Cluster, report: Report) -> list[str]:
    """Coordinates alone, by the model as it is."""
    solved, graph = store.stage("solve"), store.stage("graph")
    assert solved is not None and graph is not None
    embedding = load_embedding(store, solved, graph["scale"])
    form = solved["fields"]["projection"]
    store.write_array(COORDINATES, place_all(cluster, store, embedding, form, report))
    store.finish_again("solve")
    return ["the points were placed again by the model"]
