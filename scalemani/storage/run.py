"""One run in its store: takes arrays and records of steps, gives them back whole, and copies itself without D.

A run is one Zarr v3 group. Its document (:mod:`scalemani.storage.records`) holds the package versions, a checksum of
each array's metadata, and a record for each finished step. Small arrays are in :mod:`scalemani.storage.arrays`, D is in
:mod:`scalemani.storage.distances`. Nothing here is ever unpickled, nothing outside the folder is followed to.

Workers live longer than what they opened: D is dropped and made again with other tiles, a graph is repaired under the
same id. So what a process keeps of a run is compared with the run's document each time that it is asked for.
"""

import errno
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.storage import arrays
from scalemani.storage import arrays as small_arrays
from scalemani.storage.arrays import PIECES, check_size, checked_array
from scalemani.storage.distances import Distances
from scalemani.storage.files import AnyPath, Location, checksum_of, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import REMEDY, check_no_links
from scalemani.storage.pieces import Pieces, digest
from scalemani.storage.records import Document, RunDocument, Step, StepRecord, canonical, read_back, versions
from scalemani.storage.targets import check_writable, kind_of, put_back
from scalemani.storage.writer import Writer


def write_copy(
    target: Location,
    document: Document,
    names: Iterable[str],
    read: Callable[[str], NDArray[Any]],
    more: Callable[[Location], None],
) -> None:
    """Write a run, whole or not at all.

    target: Absolute; folders above it are made.
    document: Its arrays are replaced by those that are written.
    read: Name -> array, checked.
    more: Copies what else belongs to the run, into the folder that it is given, before there is a document.
    Raises ScalemaniError: If something is at `target`.
    Raises StoreInUseError: If a fit is at work there.
    """
    check_writable(target)
    with Writer(target):
        if kind_of(target) != "nothing":
            raise ScalemaniError(f"{str(target)!r} exists: give another path, or remove it")
        with target.built(1 << 20) as folder:
            sums = {name: arrays.write(folder, name, read(name)) for name in names}
            more(folder)
            RunDocument(folder).write(document.changed(arrays=sums))


LEFT_OUT = ("first_", "neighbors_")  # arrays that a model does without


class RunStore(Distances):
    """A run's folder, open for reading and writing.

    path: The folder, made absolute, or a URL.
    Raises ScalemaniError: If there is no run at `path`, or one of another format version.
    Raises DamagedStoreError: If a link leads out of it, as far as two folders down; what is below is looked at when it
        is used.
    """

    def __init__(self, path: AnyPath) -> None:
        here = open_location(path).normal()
        self.path = str(here)
        put_back(self.path)
        found = kind_of(self.path)
        if found != "run":
            what = "nothing is there" if found == "nothing" else "what is there is not a scalemani run"
            old = here.interrupted()
            what += f" ({here.INTERRUPTED.format(repr(str(old)))})" if old else ""
            raise ScalemaniError(
                f"the store {self.path!r} holds no run: {what}; make one with fit (a fit that is given no store leaves "
                "none behind)"
            )
        check_no_links(here, levels=2)
        self._document = RunDocument(here)
        document = self._document.read()
        super().__init__(self.path, document.id)
        self._written: dict[str, int] = {}
        self._guard: Callable[[], None] = lambda: None

    @classmethod
    def create(cls, path: AnyPath, *, replace: bool = False, steps: Iterable[StepRecord] = ()) -> "RunStore":
        """Make a run with no step but the given ones; one that is there goes only when `replace` is true.

        Raises ScalemaniError: If something else is at `path` (never removed), or a run is and `replace` is false.
        """
        found = kind_of(target := open_location(path).normal())
        if found == "other":
            raise ScalemaniError(f"'{target}' exists and is not a scalemani run: it is left alone; give another path")
        if found == "run" and not replace:
            raise ScalemaniError(f"a run exists at {str(target)!r}: resume it, or replace it with overwrite")
        stages = {step.STEP: step for step in steps}
        document = Document(id=uuid.uuid4().hex, versions=versions(), arrays={}, stages=stages)
        start = target.start_name() if found == "nothing" else target.scratch_name()
        try:
            with room_for(target, len(canonical(document))):
                start.mkdir(parents=True)
            begun = RunDocument(start).begin(document)
        except BaseException:
            if start != target:
                start.remove()
            raise
        if not begun:
            raise _also_made(path)
        return cls(start) if start == target else cls(start).moved_to(target, replace=replace)

    def guarded(self, check: Callable[[], None]) -> "RunStore":
        """This store, which calls `check` before it changes the document: it raises where another writer took over."""
        self._guard, self._document.held = check, True
        return self

    def remove(self) -> None:
        """Remove the whole run."""
        open_location(self.path).remove()

    def moved_to(self, path: AnyPath, *, replace: bool) -> "RunStore":
        """Move this run to `path`; with `replace`, a run that is there goes when this one is in its place.

        Raises ScalemaniError: If another process makes a run there at this moment.
        """
        here, target = open_location(self.path), open_location(path).absolute()
        try:
            (target.replace_with if replace and kind_of(target) != "other" else target.take)(here)
        except OSError as error:
            self.remove()
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            raise _also_made(path) from error
        return RunStore(target)

    # ---- the document: written by the client alone ----------------------------------------------

    @property
    def document(self) -> Document:
        """The run's document, as it is now."""
        return self._document.read()

    def _change(self, stages: dict[str, Any], arrays: dict[str, int]) -> None:
        """Write the document with these, if they are others."""
        document = self.document
        if stages != document.stages or arrays != document.arrays:
            self._document.write(document.changed(stages=stages, arrays=arrays))

    def _check_right(self) -> None:
        """Before anything of the run is changed: it is this writer's still, and the run that was opened."""
        self._guard()
        self.check_identity()

    def check_identity(self) -> None:
        """Refuse to write into another run than the one that was opened."""
        if self.document.id != self.identity:
            raise DamagedStoreError(f"the run at {self.path!r} was replaced while it was in use")

    def record(self, kind: type[Step]) -> Step | None:
        """What a step recorded, or None where it is not finished."""
        return self.document.stages.get(kind.STEP)

    def needed(self, kind: type[Step]) -> Step:
        """What a step recorded that has to be finished.

        Raises DamagedStoreError: If it is not.
        """
        found = self.record(kind)
        if found is None:
            raise DamagedStoreError(f"the run at {self.path!r} lacks its step {kind.STEP!r}; {REMEDY}")
        return found

    def finish(self, *records: StepRecord) -> None:
        """Record steps as done, and the arrays that were written.

        Raises StoreInUseError: If another writer has taken over.
        Raises DamagedStoreError: If a record holds what can't be read back.
        """
        self._check_right()
        found = {record.STEP: read_back(record) for record in records}
        self._change({**self.document.stages, **found}, {**self.document.arrays, **self._written})
        self._written = {}

    def forget(self, *names: str) -> None:
        """Take steps back: they will be run again."""
        self._check_right()
        document = self.document
        self._change({key: value for key, value in document.stages.items() if key not in names}, document.arrays)

    def _without(self, gone: Callable[[str], bool]) -> dict[str, int]:
        """The arrays that are recorded, without some, of which those that were written are forgotten too."""
        self._written = {name: value for name, value in self._written.items() if not gone(name)}
        return {name: value for name, value in self.document.arrays.items() if not gone(name)}

    def _forget_arrays(self, gone: Callable[[str], bool]) -> None:
        """Before arrays are replaced or removed: a checksum is never that of another one."""
        self._check_right()
        self._change(self.document.stages, self._without(gone))

    # ---- arrays --------------------------------------------------------------------------------

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array whole; see :mod:`scalemani.storage.arrays`.

        Raises TypeError: If it holds anything but numbers.
        """
        self._forget_arrays(lambda other: other == name)
        self._written[name] = small_arrays.write(open_location(self.path), name, array)

    def read_array(self, name: str) -> NDArray[Any]:
        """Read an array whole and check it, also by what it has to be (:mod:`scalemani.storage.arrays`).

        Raises DamagedStoreError: If it is missing, is not what was written, or can't be this run's.
        """
        document = self.document
        known = {**document.arrays, **self._written}.get(name)
        found = small_arrays.read(open_location(self.path), name, known)
        return checked_array(self.path, name, found, document.stages)

    def remove_array(self, name: str) -> None:
        """Remove one array, if it is there."""
        self._forget_arrays(lambda other: other == name)
        (open_location(self.path) / name).remove()

    def remove_arrays(self, prefix: str) -> None:
        """Remove the arrays whose names begin so."""
        self._forget_arrays(lambda name: name.startswith(prefix))
        self._remove_own(prefix)

    def pieces(self, stage: str, made_of: Any = None) -> Pieces:
        """What is finished of a stage that is not.

        made_of: JSON values of all that the pieces follow from: parameters and the data's fingerprint.
        """
        return Pieces(open_location(self.path) / f"{PIECES}{stage}", self._check_right, digest(made_of))

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        super().create_distances(n, tile, compression)
        self._written["distances"] = checksum_of(self.tiles.form.text)
        self.finish()

    @property
    def has_distances(self) -> bool:
        return "distances" in self.document.arrays

    def metadata_sum(self) -> int | None:
        return self.document.arrays.get("distances")

    def check_size(self, n: int) -> None:
        check_size(self.path, n, self.document.stages)

    def drop_distances(self) -> None:
        self._forget_arrays(self._goes_with_distances)
        super().drop_distances()

    def copy_without_distances(self, path: AnyPath, more: Callable[[Location], None] = lambda folder: None) -> None:
        """Copy the model: everything but D, its ledger, its first read and the neighbour lists.

        `more` copies into a folder what the model needs besides its arrays.

        Raises ScalemaniError: If something is at `path`.
        Raises DamagedStoreError: If an array of the model is not what was written.
        """
        write_copy(open_location(path).absolute(), self.document, self._of_model(), self.read_array, more)

    def _of_model(self) -> list[str]:
        """Names of the arrays that a model needs."""
        return [name for name in self.document.arrays if not name.startswith(("distances", *LEFT_OUT))]

    def bytes_without_distances(self, *more: str) -> int:
        """Bytes of what :meth:`copy_without_distances` copies, with other folders of the run."""
        folders = [open_location(self.path) / name for name in (*self._of_model(), *more)]
        return sum(file.size() for folder in folders for file in folder.rglob("*") if file.is_file())

    @property
    def revision(self) -> str:
        """A name of the model that the run holds: one with other arrays has another."""
        sums = {name: value for name, value in self.document.arrays.items() if not name.startswith(LEFT_OUT)}
        return blake2b(canonical(sums), digest_size=16).hexdigest()

    def state_of(self, *prefixes: str) -> tuple[tuple[str, int], ...]:
        """Names and checksums of the arrays that begin so: other arrays, another state."""
        return tuple(sorted(item for item in self.document.arrays.items() if item[0].startswith(prefixes)))


def _also_made(path: AnyPath) -> ScalemaniError:
    return ScalemaniError(f"another fit is making a run at {str(path)!r}: wait for it, or give another path")


Made = TypeVar("Made")


@lru_cache(maxsize=4)
def _opened(path: str, identity: str) -> RunStore:
    return _same(RunStore(path), identity)


def shared_run(path: str, identity: str) -> RunStore:
    """The run at a path, opened once in each process.

    Raises DamagedStoreError: If another run is at the path by now.
    """
    store = _same(_opened(path, identity), identity)
    store.refresh()
    return store


def _same(store: RunStore, identity: str) -> RunStore:
    if store.document.id != identity:
        raise DamagedStoreError(f"the run at {store.path!r} was replaced while it was in use")
    return store


class OncePerProcess(Generic[Made]):
    """A function of a path and a run's id whose result is kept while the arrays that it is made of are the same.

    make: (path, id) -> result; also as `__wrapped__`, for who wants it made anew.
    prefix: How the names of those arrays begin.
    """

    def __init__(self, make: Callable[[str, str], Made], prefix: str, maxsize: int = 2) -> None:
        self.__wrapped__, self.__doc__, self._prefix = make, make.__doc__, prefix
        self._kept = lru_cache(maxsize)(lambda path, identity, state: make(path, identity))

    def __call__(self, path: str, identity: str) -> Made:
        return self._kept(path, identity, shared_run(path, identity).state_of(self._prefix))

    def cache_clear(self) -> None:
        """Forget what is kept."""
        self._kept.cache_clear()


def once_per_process(prefix: str) -> Callable[[Callable[[str, str], Made]], OncePerProcess[Made]]:
    """Decorator: :class:`OncePerProcess` of a function, and of the arrays whose names begin so."""
    return lambda make: OncePerProcess(make, prefix)
