"""Whether a store is what it says it is, and mending what is not.

`verify` looks at files first (:mod:`scalemani.storage.audit`): every byte of the document, the ledger, the arrays and
the tiles. Then each step of the method holds what it left against what earlier steps left. It changes nothing.

`repair` mends what `verify` finds: the document from its copy, and what a step left by that step. What only the points
can give is taken back, so that the same fit with the same points makes it again and goes on.

A damaged tile of D, for example: reading it raises a DamagedStoreError (:meth:`scalemani.storage.tiles.Tiles.read`). A
fit that is still writing D makes the row of tiles again and warns (:mod:`scalemani.steps.distances`); once all of D was
written, a fit ends with that error. Then `verify` names the row, and `repair` makes it again from the graph; if D was
given, the same fit with the matrix does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from scalemani.cluster.choice import open_cluster
from scalemani.methods.base import method_of
from scalemani.parameters import Parameters
from scalemani.progress import Progress, no_progress
from scalemani.steps.base import Step, Work
from scalemani.steps.names import RowIds
from scalemani.steps.records import FitRecord
from scalemani.steps.sources import n_distances
from scalemani.storage.audit import Fault, array_faults, document_faults, name_faults
from scalemani.storage.files import Location, open_location
from scalemani.storage.json import check_no_links
from scalemani.storage.records import RunDocument
from scalemani.storage.run import RunStore
from scalemani.storage.targets import kind_of
from scalemani.storage.writer import Writer

OF_ANY = {  # kinds of fault that are no step's -> what a repair does
    "document": "restores it",
    "copy": "writes it again",
    "behind": "writes it again",
    "leftover": "removes it",
}
LOST = "fit again with overwrite: neither the document nor its copy can be read"
ROUNDS = 6  # what was hidden behind damage shows when that is mended


@dataclass(frozen=True)
class Verification:
    """What was found.

    remedies: What to do about each fault, in a few words.
    tile_rows, arrays: How many of `tiles` and of arrays were looked at.
    finished: Whether a fit is recorded; if not, the same fit goes on.
    marked: Whether a repair has left something to the same fit.
    tiles: What `tile_rows` counts, in words: rows of tiles, or blocks.
    lost: Whether neither the document nor its copy can be read, so that nothing can be mended.
    """

    path: str
    faults: tuple[Fault, ...]
    remedies: tuple[str, ...] = ()
    tile_rows: int = 0
    arrays: int = 0
    finished: bool = False
    marked: bool = False
    tiles: str = "rows of tiles"
    lost: bool = False

    @property
    def damaged(self) -> bool:
        """Whether anything is wrong; what a stopped run left is not."""
        return any(fault.kind not in ("leftover", "behind", "stray") for fault in self.faults)


def verify(path: str, scheduler: Any = None, report: Progress | None = None) -> Verification:
    """Look at every byte of a store.

    scheduler: Tiles are read by its workers; by threads of this process unless given.
    report: Called as report("verify", rows of tiles done, all of them).
    Raises ScalemaniError: If there is no run at `path`, or its method is not registered.
    Raises DamagedStoreError: If a link leads out of it.
    """
    if kind_of(path) != "run":
        RunStore(path)  # says what is there
    folder = open_location(path).normal()
    check_no_links(folder)
    faults = document_faults(folder)
    if any(fault.kind == "document" for fault in faults):  # nothing else can be held against it
        lost = not RunDocument(folder).whole()
        remedies = (LOST if lost else _remedy(fault, (), given=False) for fault in faults)
        return Verification(str(path), tuple(faults), tuple(remedies), lost=lost)
    store = RunStore(path)
    steps, names = _steps_in(store), store.document.arrays
    needed = set().union(*(step.left(store) for step in steps))
    elsewhere = {name for step in steps for name in step.matrices}
    faults += [*name_faults(store, needed.__contains__, elsewhere), *array_faults(store, elsewhere)]
    faults += [Fault("array", name, "it is missing") for name in sorted(needed - set(names) - {f.name for f in faults})]
    broken = {fault.name for fault in faults if fault.kind == "array"}
    with open_cluster(scheduler, n_distances(store)) as cluster:
        cluster.check_shared(store.path, writing=False)
        work = Work(store, recorded_parameters(store), cluster, report=report or no_progress)
        for step in steps:
            faults += step.audit(work, broken)
        broken |= {fault.name for fault in faults if fault.kind == "array"}
        faults += _together(work, steps, faults, broken)
    return Verification(
        str(path),
        tuple(faults),
        tuple(_remedy(fault, steps, given=work.given) for fault in faults),
        work.made.get("audited", 0),
        len(names),
        store.record(FitRecord) is not None,
        any(step.waits(store) for step in steps),
        next((step.tiles for step in steps if step.tiles), ""),
    )


def _steps_in(store: RunStore) -> Sequence[Step]:
    """All that may have left arrays in a run."""
    return *method_of(store).steps_in(store), RowIds()


def _together(work: Work, steps: Sequence[Step], faults: Sequence[Fault], broken: set[str]) -> Iterator[Fault]:
    """What the arrays say of one another, as far as they are whole: up to the first contradiction."""
    at = {fault.kind for fault in faults} - {"array", *OF_ANY, "stray"}
    for step in steps:
        if at & step.mends.keys() or any(kind_of_array(name, steps)[0].before_plan for name in broken):
            return
        found = list(step.check(work, broken))
        yield from found
        if found:
            return


def recorded_parameters(store: RunStore) -> Parameters:
    """What the fit was asked for, as far as the store says it."""
    fit = store.record(FitRecord)
    kind = method_of(store).parameters
    return kind() if fit is None else kind(**fit.parameters)


def kind_of_array(name: str, steps: Sequence[Step]) -> tuple[Step, str]:
    """The step whose array it is, and the kind of a fault in it: by the longest beginning of its name."""
    every = [(start, step, kind) for step in steps for start, kind in step.arrays.items() if name.startswith(start)]
    _, step, kind = max(every, key=lambda one: len(one[0]))
    return step, kind


def _remedy(fault: Fault, steps: Sequence[Step], *, given: bool) -> str:
    """What to do about a fault, in a few words."""
    if fault.kind == "stray":
        return "remove it, if it is not yours"
    if fault.kind in OF_ANY:
        return f"--repair {OF_ANY[fault.kind]}"
    step, kind = _step_of(fault, steps)
    if kind == "graph" or (given and kind in step.from_points):
        return "--repair, then the same fit makes it again"
    return f"--repair {step.mends[kind]}"


def _step_of(fault: Fault, steps: Sequence[Step]) -> tuple[Step, str]:
    if fault.kind == "array":
        return kind_of_array(fault.name, steps)
    return next((step, fault.kind) for step in steps if fault.kind in step.mends)


def repair(path: str, scheduler: Any = None, report: Progress | None = None) -> tuple[list[str], Verification]:
    """Verify a store, mend what is wrong and verify it again.

    -> done: What was done, a sentence each.
    -> left: What is wrong still. A damaged graph, or D that was given, takes the same fit again.
    Raises StoreInUseError: If a fit is at work there.
    """
    done: list[str] = []
    with Writer(path, "fit or repair") as writer:
        for _ in range(ROUNDS):
            found = verify(path, scheduler, report)
            did = _mend(path, found.faults, scheduler, report or no_progress, writer.check)
            done += did
            if not did:
                break
        else:
            found = verify(path, scheduler, report)
    return done, found


def _mend(
    path: str, faults: tuple[Fault, ...], scheduler: Any, report: Progress, guard: Callable[[], None]
) -> list[str]:
    """One round: mends what belongs to no step, then the first damaged step. Later ones may be right after that."""
    folder = open_location(path).normal()
    if any(fault.kind == "document" for fault in faults):
        return _restored(folder)
    store, done = RunStore(path).guarded(guard), list[str]()
    steps = _steps_in(store)
    if any(fault.kind in ("copy", "behind") for fault in faults):
        RunDocument(folder).write(store.document)
        done.append("the document's copy was written again")
    done += [_removed(folder, fault.name) for fault in faults if fault.kind == "leftover"]
    by_step: dict[str, dict[str, list[Fault]]] = {}
    for fault in faults:
        if fault.kind not in OF_ANY and fault.kind != "stray":
            step, kind = _step_of(fault, steps)
            unfinished = store.record(step.record) is None or step.mends.get(kind) == "removes it"
            if fault.kind == "array" and unfinished:
                store.remove_array(fault.name)
                done.append(f"{fault.name} was removed: it is made again when it is needed")
            else:
                by_step.setdefault(step.name, {}).setdefault(kind, []).append(fault)
    if not by_step:
        return done
    with open_cluster(scheduler, n_distances(store)) as cluster:
        cluster.check_shared(store.path)
        work = Work(store, recorded_parameters(store), cluster, report=report)
        waiting = False
        for at, step in enumerate(steps):
            if step.name in by_step:
                fit = store.record(FitRecord)
                did = step.remake(work, by_step[step.name], waiting=waiting)
                done += did
                if fit is not None and store.record(FitRecord) is None and store.record(step.record) is not None:
                    for later in steps[at + 1 :]:
                        later.run(work)  # what follows from it
                    store.finish(fit)
                if did and not step.waits(store) and store.record(step.record) is not None:
                    break
            waiting |= step.waits(store) or (step.name in by_step and store.record(step.record) is None)
    return done


def _restored(folder: Location) -> list[str]:
    """From what is whole; where only its text is not as it was written, what it says is newer than the copy."""
    document = RunDocument(folder)
    whole = document.whole()
    if not whole:
        return []  # both are lost: fit again with overwrite
    document.write(whole[0])
    return ["the document was restored; if a step is missing in it now, the same fit makes that again"]


def _removed(folder: Location, name: str) -> str:
    entry = folder / name
    entry.remove()
    return f"{name}, which a stopped run left, {'can not be' if entry.is_there() else 'was'} removed"
