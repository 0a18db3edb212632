"""Mends a store: takes what :mod:`scalemani.verification` found, makes that again, says what it did and what is left.

From the store alone come the document (from its copy), D's metadata, rows of tiles (from the graph), what was read of
D, and the model (from D); of a run by landmarks all of it (:mod:`scalemani.landmarks.mending`). A graph, all of a run
whose D was given, and a model whose D was dropped come from the points: their stage is marked, and the same fit with
the same points makes them again and goes on; D stays where the graph comes out the same to the bit.
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
from scalemani.engine.objects import checksum_of, discard, folder_at, put
from scalemani.engine.places import Place, absolute, place
from scalemani.engine.store import RunStore
from scalemani.engine.tile_files import COMPRESSIONS, metadata_text
from scalemani.engine.writer import Writer
from scalemani.errors import SelfCheckError
from scalemani.kernel_shares import FirstRead, first_reader
from scalemani.landmarks.layout import STAGE as BY_LANDMARKS
from scalemani.landmarks.mending import KINDS, mend_landmarks
from scalemani.opening import REDO, recorded_graph
from scalemani.parameters import Parameters
from scalemani.solving import solve_run
from scalemani.starting_block import FIELDS as START_FIELDS
from scalemani.starting_block import STAGE as START
from scalemani.starting_block import kept_block
from scalemani.verification import FINISHED_BY, MODEL, Report, Verification, stage_of, verify

ROUNDS = 4  # what was hidden behind damage shows when that is mended


def repair(path: str, scheduler: Any = None, report: Report | None = None) -> tuple[list[str], Verification]:
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


def _mend(path: str, faults: tuple[Fault, ...], scheduler: Any, report: Report, guard: Callable[[], None]) -> list[str]:
    """One round: what can be mended of these; what each depends on first."""
    folder = absolute(path)
    if any(fault.kind == "document" for fault in faults):
        return _restored(folder)
    store, done = RunStore(path).guarded(guard), list[str]()
    by_kind: dict[str, list[Fault]] = {}
    for fault in faults:
        kind = stage_of(fault.name) if fault.kind == "array" else fault.kind
        stage = FINISHED_BY.get(kind)
        if fault.kind == "array" and (stage is None or store.stage(stage) is None):
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
    if "graph" in by_kind and store.stage(REDO) is None:
        store.finish(REDO, {"stages": ["graph"], "arrays": recorded_graph(store)})
        done.append("left to the same fit with the same points, which goes on: the graph")
    if store.stage(BY_LANDMARKS) is not None:
        if by_kind.keys() & set(KINDS) and "graph" not in by_kind:
            with Cluster(scheduler) as cluster:
                cluster.check_shared(store.path)
                done += mend_landmarks(store, by_kind, cluster, report)
        return done
    broken, rows = by_kind.keys() & {"row", "first read", "solve", "model"}, by_kind.get("row", [])
    if not broken:
        return done
    given = store.document["stages"]["data"]["fields"]["kind"] == "geodesic"
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


def _restored(folder: Place) -> list[str]:
    """From what is whole; where only its text is not as it was written, what it says is newer than the copy."""
    document = RunDocument(folder)
    whole = document.whole()
    if not whole:
        return []  # both are lost: fit again with overwrite
    document.write(whole[0])
    return ["the document was restored: stages that its copy lacks are done again by the same fit"]


def _removed(folder: Place, name: str) -> str:
    entry = folder / name
    if isinstance(entry, Path) and entry.is_dir():
        shutil.rmtree(entry)
    else:
        discard(entry)
    return f"{name}, which a stopped run left, was removed"


def _metadata(store: RunStore) -> list[str]:
    """They follow from the sides of D and its tiles and one of three ways to compress: the text with that checksum."""
    stages, wanted = store.document["stages"], store.metadata_sum()
    if wanted is not None and "graph" in stages:
        n, metadata = stages["graph"]["n_vertices"], place(store.path) / "distances" / "zarr.json"
        known = stages.get("geodesics", {}).get("fields", {}).get("tile_size")
        for tile in range(1, n + 1) if known is None else (known,):
            for compression in (None, *COMPRESSIONS):
                text = metadata_text(n, tile, compression)
                if checksum_of(text) == wanted:
                    folder_at(metadata.parent)
                    put(metadata, text)
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
        discard(store.files.file(row, row).parent)
    for name in MODEL if model else ():
        store.remove_array(name)
    if distances:
        store.remove_array("distance_counts")
        store.remove_arrays("first_")
    read, axes = "what was read of D", "the model"
    names = {"row": f"{len(rows)} rows of D", "first read": read, "solve": axes, "model": axes}
    what = " and ".join(dict.fromkeys(name for kind, name in names.items() if kind in broken))
    return [f"left to the same fit with the same points, which goes on: {what}"]


def _read_again(store: RunStore, cluster: Cluster, report: Report) -> list[str]:
    """What was taken of D while it was written, with the block of the solver that it was taken for."""
    start, block = store.stage(START), np.zeros((store.blocks.n, 1))
    if start is not None:
        asked = {name: start["fields"][name] for name in START_FIELDS}
        block = kept_block(store, None, Parameters(**asked), cluster, int(start["most_columns"]))
    found = geodesics.compute_distances(cluster, store, report, first_reader(block))
    if start is None:
        store.remove_arrays("first_")  # of an earlier release, and the solver reads D again
    else:
        FirstRead(block, found).save(store)
    store.finish_again("geodesics")
    return ["D was read again for what is taken of all of it"]


def _dropped(store: RunStore) -> list[str]:
    store.forget("geodesics")
    store.drop_distances()
    return ["D contradicts the graph and was dropped: the same fit makes it again"]


def _solved_again(store: RunStore, cluster: Cluster, report: Report) -> list[str]:
    """Axes and constant, from D."""
    solved, fit, graph = store.stage("solve"), store.stage("fit"), store.stage("graph")
    assert graph is not None
    if solved is None:  # what the graph contradicts is D
        return _dropped(store)
    fields = {"projection": "continuous", **(fit["fields"] if fit else {}), **solved["fields"]}
    parameters = Parameters(**{name: fields[name] for name in (*solved["fields"], "projection")})
    start, n = store.stage(START), graph["n_vertices"]
    usual = basis_limits(first_block(n, parameters.n_components), parameters.n_components)[1]
    columns = min(n - 1, usual) if start is None else int(start["most_columns"])
    try:
        asked = {"solve": solved["fields"]}
        solve_run(store, None, parameters, cluster, columns, asked, report, keep_reads=True, again=True)
    except SelfCheckError:
        return _dropped(store)
    if fit is not None:
        store.finish_again("fit", fit)
    return ["the model was solved again from D"]
