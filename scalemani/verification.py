"""Whether a store is what it says it is: takes a path, gives every fault with what mends it.

Files first (:mod:`scalemani.engine.audit`): every byte of the document, the ledger, the arrays and the tiles. Then what
they say together: the graph is symmetric and as large as recorded, and rows of D that are found again from the graph
agree with D, with the sums of its first read and with the model (:mod:`scalemani.self_check`). Nothing is changed;
:mod:`scalemani.repair` mends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.embedding import Embedding, load_embedding
from scalemani.engine.audit import (
    Fault,
    array_faults,
    document_faults,
    ledger_faults,
    metadata_faults,
    name_faults,
    row_faults,
)
from scalemani.engine.cluster import Cluster
from scalemani.engine.distance_counts import DISTANCE_COUNTS
from scalemani.engine.places import absolute
from scalemani.engine.schemas import check_no_links
from scalemani.engine.shortest_paths import geodesic_rows
from scalemani.engine.store import RunStore, kind_of
from scalemani.errors import DamagedStoreError, ScalemaniError, SelfCheckError
from scalemani.geodesics import shared_graph
from scalemani.kernel_shares import FIRST_BLOCK, FIRST_FOUND, FirstRead
from scalemani.landmarks.checking import contradictions, left_matrices, matrix_faults, needed_landmark_arrays
from scalemani.landmarks.layout import LANDMARKS, POINTS, ROWS, STAGE, Layout
from scalemani.landmarks.mending import FROM_THE_POINTS
from scalemani.opening import REDO
from scalemani.self_check import CHECKED, check_stored

Report = Callable[[str, int, int], None]
STAGE_OF = {  # whose arrays begin so
    "neighbors_": "neighbors",
    "piece_": "neighbors",
    "first_": "first read",
    "distance_counts": "first read",
    "solver_": "reads",
    "vectors": "solve",
    "eigenvalues": "solve",
    "means": "solve",
    "landmarks": "landmarks",
    "landmark_": "square",
    "coordinates": "placed",
}
MODEL = ("vectors", "eigenvalues", "means")
MAPS = ("order", "vertex", "vertex_of_distinct", "bridges", "bridge_lengths")
GRAPH = {  # besides the maps, by what was given
    "features": ("graph_indptr", "graph_indices", "graph_weights", "digests"),
    "distances": ("graph_indptr", "graph_indices", "graph_weights", "tie_rank"),
    "graph": ("graph_indptr", "graph_indices", "graph_weights", "tie_rank"),
    "geodesic": (),
}
FINISHED_BY = {  # the stage that records them
    "graph": "graph",
    "first read": "geodesics",
    "solve": "solve",
    "landmarks": "landmarks",
    "square": "geodesics",
    "placed": "solve",
}
MENDS = {  # by kind of fault or stage of the array: what --repair does
    "document": "restores it",
    "copy": "writes it again",
    "behind": "writes it again",
    "metadata": "writes it again",
    "row": "makes it again",
    "leftover": "removes it",
    "first read": "reads D again",
    "reads": "removes it",
    "neighbors": "removes it",
    "solve": "solves again",
    "model": "solves again",
    "chunk": "makes it again",
    "matrix": "writes it again",
    "landmarks": "chooses them again",
    "square": "takes it from the distances again",
    "placed": "places the points again",
}


@dataclass(frozen=True)
class Verification:
    """What was found.

    tile_rows, arrays: How many were looked at; of a run by landmarks blocks of distances to these.
    finished: Whether a fit is recorded; if not, the same fit goes on.
    marked: Whether a repair has left the graph to the same fit.
    landmarks: Whether it is a run by landmarks.
    """

    path: str
    faults: tuple[Fault, ...]
    tile_rows: int = 0
    arrays: int = 0
    finished: bool = False
    marked: bool = False
    landmarks: bool = False

    @property
    def damaged(self) -> bool:
        """Whether anything is wrong; what a stopped run left is not."""
        return any(fault.kind not in ("leftover", "behind", "stray") for fault in self.faults)


def stage_of(array: str) -> str:
    """The stage that an array is of; "graph" where it is none of the others'."""
    return next((stage for prefix, stage in STAGE_OF.items() if array.startswith(prefix)), "graph")


def needed_arrays(store: RunStore) -> set[str]:
    """The arrays that the finished stages of a run have left, and that a finished fit goes on needing."""
    stages = store.document["stages"]
    needed = needed_landmark_arrays(stages)
    if "graph" in stages:
        needed |= {*MAPS, *GRAPH[stages["data"]["fields"]["kind"]]}
    if "solve" in stages:
        needed |= set(MODEL)
    if "geodesics" in stages and "start" in stages:  # earlier releases took less of D
        needed |= {DISTANCE_COUNTS} | ({FIRST_BLOCK, FIRST_FOUND} if store.has_distances else set())
    return needed


def remedy(fault: Fault, *, given: bool, repaired: bool = False, landmarks: bool = False) -> str:
    """What to do about a fault, in a few words.

    given: Whether D was given, so that its rows are not found from a graph.
    repaired: Whether the repair has done what it can.
    landmarks: Whether it is a run by landmarks.
    """
    if fault.kind == "stray":
        return "remove it, if it is not yours"
    kind = stage_of(fault.name) if fault.kind == "array" else fault.kind
    from_the_points = FROM_THE_POINTS if landmarks else ("row", "solve", "first read", "model")
    if kind == "graph" or (given and kind in from_the_points):
        return "the same fit makes it again" if repaired else "--repair, then the same fit makes it again"
    return f"--repair {MENDS[kind]}"


def verify(path: str, scheduler: Any = None, report: Report | None = None) -> Verification:
    """Look at every byte of a store.

    scheduler: Tiles are read by its workers; by threads of this process unless given.
    report: Called as report("verify", rows of tiles done, all of them).
    Raises ScalemaniError: If there is no run at `path`.
    Raises DamagedStoreError: If a link leads out of it.
    """
    if kind_of(path) != "run":
        RunStore(path)  # says what is there
    folder = absolute(path)
    check_no_links(folder)
    faults = document_faults(folder)
    if any(fault.kind == "document" for fault in faults):
        return Verification(str(path), tuple(faults))  # nothing else can be held against it
    store = RunStore(path)
    names, stages = store.named_arrays(), store.document["stages"]
    needed = needed_arrays(store)
    faults += [*name_faults(store, needed.__contains__, {POINTS, ROWS}), *left_matrices(store)]
    faults += [*array_faults(store, {POINTS, ROWS}), *metadata_faults(store)]
    named = {fault.name for fault in faults}
    faults += [Fault("array", name, "it is missing") for name in sorted(needed - set(names) - named)]
    rows = 0
    if STAGE in stages:
        layout, whole = Layout.of(store), not any(fault.name == LANDMARKS for fault in faults)
        rows = len(layout.by_point(store).rows)
        with Cluster(scheduler) as cluster:
            cluster.check_shared(store.path, writing=False)
            faults += matrix_faults(store, cluster, report or (lambda *_: None), whole=whole)
    if store.has_distances and not _has(faults, "metadata"):
        faults += ledger_faults(store)
        rows = len(store.blocks)
        with Cluster(scheduler) as cluster:
            cluster.check_shared(store.path, writing=False)
            finished = store.stage("geodesics") is not None
            tasks = ((store.path, store.identity, row, finished) for row in range(rows))
            for done, found in enumerate(cluster.map(row_faults, tasks), 1):
                faults += found
                if report is not None:
                    report("verify", done, rows)
    faults += _together(store, faults)
    return Verification(
        str(path), tuple(faults), rows, len(names), "fit" in stages, REDO in stages, landmarks=STAGE in stages
    )


def _has(faults: list[Fault], *kinds: str) -> bool:
    return any(fault.kind in kinds for fault in faults)


def _together(store: RunStore, faults: list[Fault]) -> Iterator[Fault]:
    """What the arrays say of one another, as far as they are whole."""
    stages = store.document["stages"]
    if "graph" not in stages or _has(faults, "metadata", "row", "chunk", "matrix"):
        return
    broken = {stage_of(fault.name) for fault in faults if fault.kind == "array"}
    given = stages["data"]["fields"]["kind"] == "geodesic"
    if "graph" in broken:
        return
    n = stages["graph"]["n_vertices"]
    try:
        order = store.read_array("order")
        if len(order) != n or len(np.unique(order)) != n:
            raise DamagedStoreError(f"order is not one of {n} vertices")
        if given and STAGE in stages:
            yield from contradictions(store, None, {fault.name for fault in faults if fault.kind == "array"})
        if given:
            return  # D is what was given, and what is made of it can't be found in another way
        graph = shared_graph.__wrapped__(store.path, store.identity)
        if graph.shape[0] != n or graph.nnz != 2 * stages["graph"]["n_edges"]:
            raise DamagedStoreError("the graph is not as large as recorded")
    except (DamagedStoreError, ScalemaniError, ValueError) as error:
        yield Fault("array", "graph_indptr", str(error))
        return
    if STAGE in stages:
        yield from contradictions(store, graph, {fault.name for fault in faults if fault.kind == "array"})
        return
    vertices = np.sort(np.random.default_rng(0).choice(n, min(n, CHECKED), replace=False))
    model = _model(store, stages) if "solve" in stages and "solve" not in broken else None
    first = FirstRead.load(store) if "geodesics" in stages and "first read" not in broken else None
    try:
        check_stored(
            store,
            geodesic_rows(graph, vertices),
            vertices,
            model,
            None if first is None else first.sums,
            residuals=_residuals(stages),
            projection=stages["fit"]["fields"]["projection"] if "fit" in stages else "continuous",
            seed=0,
            distances="geodesics" in stages and store.has_distances,
        )
    except SelfCheckError as error:
        yield Fault("model", "self-check", str(error))


def _model(store: RunStore, stages: dict[str, Any]) -> Embedding:
    return load_embedding(store, stages["solve"], stages["graph"]["scale"])


def _residuals(stages: dict[str, Any]) -> NDArray[np.float64]:
    return np.array(stages["solve"]["spectrum"]["residuals"] if "solve" in stages else [], np.float64)
