"""Mends a store: takes what :mod:`scalemani.verification` found, makes that again, says what it did and what is left.

From the store alone come the document (from its copy), D's metadata, rows of tiles (from the graph), what was read of
D, and the model (from D). A graph, and all of a run whose D was given, come from the points: their stage is marked, and
the same fit with the same points makes them again and goes on; D stays where the graph comes out the same to the bit.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scalemani import geodesics
from scalemani.eigensolver import basis_limits, first_block
from scalemani.engine.audit import Fault
from scalemani.engine.cluster import Cluster
from scalemani.engine.document import RunDocument
from scalemani.engine.objects import checksum_of, put
from scalemani.engine.store import RunStore
from scalemani.engine.tile_files import COMPRESSIONS, metadata_text
from scalemani.engine.writer import Writer
from scalemani.errors import DamagedStoreError
from scalemani.kernel_shares import FIRST_BLOCK, FirstRead, first_reader
from scalemani.opening import REDO
from scalemani.parameters import Parameters
from scalemani.solving import solve_run
from scalemani.starting_block import STAGE as START
from scalemani.verification import Report, Verification, stage_of, verify

ROUNDS = 4  # what was hidden behind damage shows when that is mended


def repair(path: str, scheduler: Any = None, report: Report | None = None) -> tuple[list[str], Verification]:
    """Verify a store, mend what is wrong and verify it again.

    Returns
    -------
    done : list of str
        What was done, a sentence each.
    left : Verification
        What is wrong still; "graph" and what was given need the fit.

    Raises
    ------
    StoreInUseError
        If a fit is at work there.
    DiskFullError
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
    path: str, faults: tuple[Fault, ...], scheduler: Any, report: Report, guard: Callable[[], None]
) -> list[str]:
    """One round: what can be mended of these; what each depends on first."""
    folder = Path(path).absolute()
    by_kind: dict[str, list[Fault]] = {}
    for fault in faults:
        kind = stage_of(fault.name) if fault.kind == "array" else fault.kind
        by_kind.setdefault(kind, []).append(fault)
    if "document" in by_kind:
        return _restored(folder)
    store, done = RunStore(path).guarded(guard), []
    if "copy" in by_kind:
        RunDocument(folder).write(store.document)
        done.append("the document's copy was written again")
    if "leftover" in by_kind:
        done += [_removed(folder, fault.name) for fault in by_kind["leftover"]]
    if "metadata" in by_kind:
        return done + _metadata(store)
    given = store.document["stages"]["data"]["fields"]["kind"] == "geodesic"
    if by_kind.keys() & {"neighbors", "reads"}:
        for fault in by_kind.get("neighbors", []) + by_kind.get("reads", []):
            store.remove_arrays(fault.name)
            done.append(f"{fault.name} was removed: it is made again when it is needed")
    if "graph" in by_kind:
        if store.stage(REDO) is None:
            store.finish(REDO, {"stages": ["graph"]})
            done.append("the graph is marked: the same fit with the same points makes it again, and goes on")
        return done
    with Cluster(scheduler) as cluster:
        if "row" in by_kind or "first read" in by_kind:
            rows = sorted(int(fault.name) for fault in by_kind.get("row", []))
            done += _distances(store, cluster, rows, report, given=given, read="first read" in by_kind)
        elif "solve" in by_kind or "model" in by_kind:
            done += _model(store, cluster, report, given=given)
    return done


def _restored(folder: Path) -> list[str]:
    document = RunDocument(folder)
    try:
        document.write(document.copy())
    except DamagedStoreError:
        return []  # both are lost: fit again with overwrite
    return ["the document was restored from its copy: stages that it lacks are done again by the same fit"]


def _removed(folder: Path, name: str) -> str:
    place = folder / name
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    return f"{name}, which a stopped run left, was removed"


def _metadata(store: RunStore) -> list[str]:
    """They follow from D's size, its tiles' and one of three ways to compress: the one with the right checksum."""
    document = store.document
    wanted, geodesic = document.get("arrays", {}).get("distances"), document["stages"].get("geodesics")
    graph = document["stages"].get("graph")
    if wanted is not None and geodesic is not None and graph is not None:
        place = Path(store.path) / "distances" / "zarr.json"
        place.parent.mkdir(exist_ok=True)
        for compression in (None, *COMPRESSIONS):
            text = metadata_text(graph["n_vertices"], geodesic["fields"]["tile_size"], compression)
            if checksum_of(text) == wanted:
                put(place, text)
                return ["the metadata of D were written again"]
    store.forget("geodesics")
    store.drop_distances()
    return ["D was dropped, since its form is lost: the same fit makes it again"]


def _distances(
    store: RunStore, cluster: Cluster, rows: list[int], report: Report, *, given: bool, read: bool
) -> list[str]:
    """Rows of tiles, and what was read of them."""
    state = store.stage("geodesics")
    if given:
        for row in rows:
            store.unfinish(row)
        if state is not None:
            store.forget("geodesics")
        return ["the distances are marked: the same fit with the same matrix writes what is missing"]
    done = []
    if rows:
        geodesics.remake_rows(cluster, store, rows, report)
        done.append(f"{len(rows)} of {len(store.blocks)} rows of tiles were made again from the graph")
    if read and state is not None:
        try:
            block = store.read_array(FIRST_BLOCK)
        except DamagedStoreError:
            block = None
            store.remove_arrays("first_")
        n = store.blocks.n
        reader = first_reader(np.zeros((n, 1)) if block is None else block)
        found = geodesics.compute_distances(cluster, store, report, reader)
        if block is not None:
            FirstRead(block, found).save(store)
        store.finish("geodesics", state["fields"], **{key: value for key, value in state.items() if key != "fields"})
        done.append("D was read again for its sums")
    return done


def _model(store: RunStore, cluster: Cluster, report: Report, *, given: bool) -> list[str]:
    """Axes and constant, from D."""
    solved, fit, graph = store.stage("solve"), store.stage("fit"), store.stage("graph")
    assert solved is not None and graph is not None
    store.forget("fit", "solve")
    if given or not store.has_distances or store.stage("geodesics") is None:
        return ["the model is marked: the same fit solves again"]
    fields = {"projection": "continuous", **(fit["fields"] if fit else {}), **solved["fields"]}
    asked = {name: fields[name] for name in (*solved["fields"], "projection")}
    parameters, n = Parameters(**asked), graph["n_vertices"]
    start = store.stage(START)
    usual = basis_limits(first_block(n, parameters.n_components), parameters.n_components)[1]
    columns = min(n - 1, usual) if start is None else int(start["most_columns"])
    solve_run(store, None, parameters, cluster, columns, {"solve": solved["fields"]}, report, keep_reads=True)
    if fit is not None:
        store.finish("fit", fit["fields"], estimator=fit["estimator"])
    return ["the model was solved again from D"]
