"""Mends a store: takes what :mod:`scalemani.integrity` found, makes that again, says what it did and what is left.

From the store alone come the document (from its copy), D's metadata, rows of tiles (from the graph), what was read of
D, and the model (from D); of a run by landmarks all of it (:mod:`scalemani.steps.landmark_checks`). A graph, all of a
run whose D was given, and a model whose D was dropped come from the points: their stage is marked, and the same fit
with the same points makes them again and goes on; D stays where the graph comes out the same to the bit.

Whether a store is what it says it is: takes a path, gives every fault with what mends it.

Files first (:mod:`scalemani.storage.audit`): every byte of the document, the ledger, the arrays and the tiles. Then
    what they say together: the graph is symmetric and as large as recorded, and rows of D that are found again from the
    graph agree with D, with the sums of its first read and with the model (:mod:`scalemani.steps.checks`). Nothing is
    changed;
:mod:`scalemani.integrity` mends.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import asdict

from scalemani.cluster.client import Cluster
from scalemani.embedding.coordinates import load_embedding
from scalemani.errors import DamagedStoreError, ScalemaniError, SelfCheckError
from scalemani.fitting import recorded_graph
from scalemani.geodesics.landmarks import LANDMARKS, POINTS, ROWS, Layout
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.reads import DISTANCE_COUNTS
from scalemani.geodesics.rows import shared_graph
from scalemani.kernel.eigensolver import basis_limits, first_block
from scalemani.kernel.operators import FIRST_BLOCK, FIRST_FOUND, FirstRead, first_reader
from scalemani.parameters import Parameters
from scalemani.progress import Progress
from scalemani.steps import distances as geodesics
from scalemani.steps import records
from scalemani.steps.axes import solve_run
from scalemani.steps.checks import CHECKED, check_stored
from scalemani.steps.landmark_checks import (
    FROM_THE_POINTS,
    KINDS,
    contradictions,
    left_matrices,
    matrix_faults,
    mend_landmarks,
    needed_landmark_arrays,
)
from scalemani.steps.start import kept_block
from scalemani.storage.audit import (
    Fault,
    array_faults,
    document_faults,
    folder_faults,
    name_faults,
    row_faults,
    size_faults,
)
from scalemani.storage.files import Location, checksum_of, open_location
from scalemani.storage.json import check_no_links
from scalemani.storage.records import RunDocument
from scalemani.storage.run import RunStore
from scalemani.storage.targets import kind_of
from scalemani.storage.tiles import COMPRESSIONS, Form
from scalemani.storage.writer import Writer

STAGE_OF = {  # whose arrays begin so
    "neighbors_": "neighbors",
    "pieces_": "pieces",
    "first_": "first read",
    "distance_counts": "first read",
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
    "pieces": "removes it",
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
    stages = store.document.stages
    needed = needed_landmark_arrays(store)
    if "graph" in stages:
        needed |= {*MAPS, *GRAPH[store.needed(records.DataRecord).fields.kind]}
    if "solve" in stages:
        needed |= set(MODEL)
    if "geodesics" in stages and "start" in stages:  # not of landmarks
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


def verify(path: str, scheduler: Any = None, report: Progress | None = None) -> Verification:
    """Look at every byte of a store.

    scheduler: Tiles are read by its workers; by threads of this process unless given.
    report: Called as report("verify", rows of tiles done, all of them).
    Raises ScalemaniError: If there is no run at `path`.
    Raises DamagedStoreError: If a link leads out of it.
    """
    if kind_of(path) != "run":
        RunStore(path)  # says what is there
    folder = open_location(path).normal()
    check_no_links(folder)
    faults = document_faults(folder)
    if any(fault.kind == "document" for fault in faults):
        return Verification(str(path), tuple(faults))  # nothing else can be held against it
    store = RunStore(path)
    names, stages = store.document.arrays, store.document.stages
    needed = needed_arrays(store)
    faults += [*name_faults(store, needed.__contains__, {POINTS, ROWS}), *left_matrices(store)]
    faults += [*array_faults(store, {POINTS, ROWS}), *size_faults(store)]
    named = {fault.name for fault in faults}
    faults += [Fault("array", name, "it is missing") for name in sorted(needed - set(names) - named)]
    rows = 0
    if records.LandmarksRecord.STEP in stages:
        layout, whole = Layout.of(store), not any(fault.name == LANDMARKS for fault in faults)
        rows = len(layout.by_point(store).rows)
        with Cluster(scheduler) as cluster:
            cluster.check_shared(store.path, writing=False)
            faults += matrix_faults(store, cluster, report or (lambda *_: None), whole=whole)
    if store.has_distances and not _has(faults, "metadata"):
        finished, rows = store.record(records.DistancesRecord) is not None, len(store.blocks)
        faults += folder_faults(store.tiles, finished)
        with Cluster(scheduler) as cluster:
            cluster.check_shared(store.path, writing=False)
            tasks = ((store.path, store.identity, row, finished) for row in range(rows))
            for done, found in enumerate(cluster.map(row_faults, tasks), 1):
                faults += found
                if report is not None:
                    report("verify", done, rows)
    faults += _together(store, faults)
    return Verification(
        str(path),
        tuple(faults),
        rows,
        len(names),
        "fit" in stages,
        records.RedoRecord.STEP in stages,
        records.LandmarksRecord.STEP in stages,
    )


def _has(faults: list[Fault], *kinds: str) -> bool:
    return any(fault.kind in kinds for fault in faults)


def _together(store: RunStore, faults: list[Fault]) -> Iterator[Fault]:
    """What the arrays say of one another, as far as they are whole."""
    stages, record = store.document.stages, store.record(records.GraphRecord)
    if record is None or _has(faults, "metadata", "row", "chunk", "matrix"):
        return
    broken = {stage_of(fault.name) for fault in faults if fault.kind == "array"}
    given = store.needed(records.DataRecord).given
    if "graph" in broken:
        return
    n, solved, fit = record.n_vertices, store.record(records.SolveRecord), store.record(records.FitRecord)
    try:
        order = store.read_array("order")
        if len(order) != n or len(np.unique(order)) != n:
            raise DamagedStoreError(f"order is not one of {n} vertices")
        if given and records.LandmarksRecord.STEP in stages:
            yield from contradictions(store, None, {fault.name for fault in faults if fault.kind == "array"})
        if given:
            return  # D is what was given, and what is made of it can't be found in another way
        graph = shared_graph.__wrapped__(store.path, store.identity)
        if graph.shape[0] != n or graph.nnz != 2 * record.n_edges:
            raise DamagedStoreError("the graph is not as large as recorded")
    except (DamagedStoreError, ScalemaniError, ValueError) as error:
        yield Fault("array", "graph_indptr", str(error))
        return
    if records.LandmarksRecord.STEP in stages:
        yield from contradictions(store, graph, {fault.name for fault in faults if fault.kind == "array"})
        return
    vertices = np.sort(np.random.default_rng(0).choice(n, min(n, CHECKED), replace=False))
    model = load_embedding(store) if solved is not None and "solve" not in broken else None
    first = FirstRead.load(store) if "geodesics" in stages and "first read" not in broken else None
    try:
        check_stored(
            store,
            geodesic_rows(graph, vertices),
            vertices,
            model,
            None if first is None else first.sums,
            residuals=np.array(solved.spectrum.residuals if solved else [], np.float64),
            projection=fit.fields.projection if fit else "continuous",
            seed=0,
            distances="geodesics" in stages and store.has_distances,
        )
    except SelfCheckError as error:
        yield Fault("model", "self-check", str(error))


ROUNDS = 4  # what was hidden behind damage shows when that is mended


def repair(path: str, scheduler: Any = None, report: Progress | None = None) -> tuple[list[str], Verification]:
    """Verify a store, mend what is wrong and verify it again.

    -> done: What was done, a sentence each.
    -> left: What is wrong still; "graph" and what was given need the fit.
    Raises StoreInUseError: If a fit is at work there.
    """
    done: list[str] = []
    with Writer(path, "fit or repair") as writer:
        for _ in range(ROUNDS):
            found = verify(path, scheduler, report)
            did = _mend(path, found.faults, scheduler, report or (lambda *_: None), writer.check)
            done += did
            if not did:
                break
        else:
            found = verify(path, scheduler, report)
    return done, found


def _mend(
    path: str, faults: tuple[Fault, ...], scheduler: Any, report: Progress, guard: Callable[[], None]
) -> list[str]:
    """One round: what can be mended of these; what each depends on first."""
    folder = open_location(path).normal()
    if any(fault.kind == "document" for fault in faults):
        return _restored(folder)
    store, done = RunStore(path).guarded(guard), list[str]()
    by_kind: dict[str, list[Fault]] = {}
    for fault in faults:
        kind = stage_of(fault.name) if fault.kind == "array" else fault.kind
        stage = FINISHED_BY.get(kind)
        if fault.kind == "array" and (stage is None or stage not in store.document.stages):
            store.remove_array(fault.name)
            done.append(f"{fault.name} was removed: it is made again when it is needed")
        else:
            by_kind.setdefault(kind, []).append(fault)
    if by_kind.keys() & {"copy", "behind"}:
        RunDocument(folder).write(store.document)
        done.append("the document's copy was written again")
    if "leftover" in by_kind:
        done += [_removed(folder, fault.name) for fault in by_kind["leftover"]]
    if "metadata" in by_kind:
        return done + _metadata(store)
    if "graph" in by_kind and store.record(records.RedoRecord) is None:
        store.finish(records.RedoRecord(arrays=recorded_graph(store)))
        done.append("left to the same fit with the same points, which goes on: the graph")
    if store.record(records.LandmarksRecord) is not None:
        if by_kind.keys() & set(KINDS) and "graph" not in by_kind:
            with Cluster(scheduler) as cluster:
                cluster.check_shared(store.path)
                done += mend_landmarks(store, by_kind, cluster, report)
        return done
    broken, rows = by_kind.keys() & {"row", "first read", "solve", "model"}, by_kind.get("row", [])
    if not broken:
        return done
    given = store.needed(records.DataRecord).given
    if given or "graph" in by_kind or not store.has_distances:
        return done + _left_to_the_fit(store, broken, [int(fault.name) for fault in rows])
    with Cluster(scheduler) as cluster:
        cluster.check_shared(store.path)
        if rows:
            geodesics.remake_rows(cluster, store, sorted(int(fault.name) for fault in rows), report)
            done.append(f"{len(rows)} of {len(store.blocks)} rows of tiles were made again from the graph")
        if "first read" in broken:
            done += _read_again(store, cluster, report)
        if not rows and "first read" not in broken:
            done += _solved_again(store, cluster, report)
    return done


def _restored(folder: Location) -> list[str]:
    """From what is whole; where only its text is not as it was written, what it says is newer than the copy."""
    document = RunDocument(folder)
    whole = document.whole()
    if not whole:
        return []  # both are lost: fit again with overwrite
    document.write(whole[0])
    return ["the document was restored: stages that its copy lacks are done again by the same fit"]


def _removed(folder: Location, name: str) -> str:
    entry = folder / name
    entry.remove()
    return f"{name}, which a stopped run left, {'can not be' if entry.is_there() else 'was'} removed"


def _metadata(store: RunStore) -> list[str]:
    """They follow from the sides of D and its tiles and one of three ways to compress: the text with that checksum."""
    graph, finished, wanted = (
        store.record(records.GraphRecord),
        store.record(records.DistancesRecord),
        store.metadata_sum(),
    )
    if wanted is not None and graph is not None:
        n, metadata = graph.n_vertices, open_location(store.path) / "distances" / "zarr.json"
        for tile in range(1, n + 1) if finished is None else (finished.tile_size,):
            for compression in (None, *COMPRESSIONS):
                text = Form.of_distances(n, tile, compression).text
                if checksum_of(text) == wanted:
                    metadata.parent.make_folder()
                    metadata.put(text)
                    return ["the metadata of D were written again"]
    store.forget("geodesics")
    store.drop_distances()
    return ["D was dropped, since its form is lost: the same fit makes it again"]


def _left_to_the_fit(store: RunStore, broken: set[str], rows: list[int]) -> list[str]:
    """What comes from the points alone: stages are taken back, and their arrays, so that the fit makes them again."""
    model, distances = bool(broken & {"solve", "model"}), bool(broken & {"row", "first read"})
    distances |= not store.has_distances
    store.forget(*(("fit", "solve") if model else ()), *(("geodesics",) if distances else ()))  # at once
    for row in rows:
        store.unfinish(row)
        store.tiles.file(row, row).parent.remove()
    for name in MODEL if model else ():
        store.remove_array(name)
    if distances:
        store.remove_array("distance_counts")
        store.remove_arrays("first_")
    read, axes = "what was read of D", "the model"
    names = {"row": f"{len(rows)} rows of D", "first read": read, "solve": axes, "model": axes}
    what = " and ".join(dict.fromkeys(name for kind, name in names.items() if kind in broken))
    return [f"left to the same fit with the same points, which goes on: {what}"]


def _read_again(store: RunStore, cluster: Cluster, report: Progress) -> list[str]:
    """What was taken of D while it was written, with the block of the solver that it was taken for."""
    start, block = store.record(records.StartRecord), np.zeros((store.blocks.n, 1))
    if start is not None:
        block = kept_block(store, None, Parameters(**asdict(start.fields)), cluster, start.most_columns)
    found = geodesics.compute_distances(cluster, store, report, first_reader(block))
    if start is not None:
        FirstRead(block, found).save(store)
    store.finish()
    return ["D was read again for what is taken of all of it"]


def _dropped(store: RunStore) -> list[str]:
    store.forget("geodesics")
    store.drop_distances()
    return ["D contradicts the graph and was dropped: the same fit makes it again"]


def _solved_again(store: RunStore, cluster: Cluster, report: Progress) -> list[str]:
    """Axes and constant, from D."""
    solved, fit = store.record(records.SolveRecord), store.record(records.FitRecord)
    if solved is None:  # what the graph contradicts is D
        return _dropped(store)
    projection = fit.fields.projection if fit else "continuous"
    parameters = Parameters(**{**asdict(solved.fields), "projection": projection})
    start, n = store.record(records.StartRecord), store.needed(records.GraphRecord).n_vertices
    usual = basis_limits(first_block(n, parameters.n_components), parameters.n_components)[1]
    columns = min(n - 1, usual) if start is None else start.most_columns
    try:
        solve_run(store, None, parameters, cluster, columns, solved.fields, report, keep_reads=True, again=True)
    except SelfCheckError:
        return _dropped(store)
    if fit is not None:
        store.finish(fit)
    return ["the model was solved again from D"]
