"""What a process keeps of a run from task to task: takes a path and a run's id, gives the run, or what is made of it.

Workers live longer than what they opened: D is dropped and made again with other tiles, a graph is repaired under the
same id. So what is kept is compared with the run's document each time that it is asked for.

A model without D: takes a run's document and arrays, writes them as a run of their own at another path.

One run in its store: takes arrays and stage states, gives them back whole. D itself is in
    :mod:`scalemani.storage.distances`.

A run is one Zarr v3 group. Its document (:mod:`scalemani.storage.records`) holds the format version, the package
versions, a checksum of each array's metadata, and a state per finished stage: fields that identify it (its fingerprint)
and what it found. Small arrays are in :mod:`scalemani.storage.arrays`. Nothing here is ever unpickled, nothing outside
the folder is followed to.
"""

import errno
import shutil
import uuid
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.storage import arrays
from scalemani.storage import arrays as small_arrays
from scalemani.storage.arrays import PIECES, check_size, checked_array
from scalemani.storage.buckets import ObjectPath
from scalemani.storage.distances import Distances
from scalemani.storage.files import beside, checksum_of, discard, room_for, set_aside, take_place
from scalemani.storage.json import check_no_links
from scalemani.storage.locations import Named, Place, absolute, is_url, place
from scalemani.storage.pieces import Pieces, digest
from scalemani.storage.place import check_writable, kind_of, put_back
from scalemani.storage.records import RunDocument, canonical, versions
from scalemani.storage.replacing import making
from scalemani.storage.writer import Writer


def write_copy(
    target: Place,
    document: dict[str, Any],
    names: Iterable[str],
    read: Callable[[str], NDArray[Any]],
    more: Callable[[Place], None],
) -> None:
    """Write a run, whole or not at all.

    target: Absolute; folders above it are made.
    document: Its "arrays" are replaced by those that are written.
    read: Name -> array, checked.
    more: Copies what else belongs to the run, into the folder that it is given, before there is a document.
    Raises ScalemaniError: If something is at `target`.
    Raises StoreInUseError: If a fit is at work there.
    """
    check_writable(target)
    with Writer(target):
        if kind_of(target) != "nothing":
            raise ScalemaniError(f"{str(target)!r} exists: give another path, or remove it")
        if isinstance(target, ObjectPath):
            with making(target):
                _write(target, document, names, read, more)
            return
        partial = beside(target)
        try:
            with room_for(target, 1 << 20):
                partial.mkdir()
                _write(partial, document, names, read, more)
            partial.replace(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write(
    place: Place,
    document: dict[str, Any],
    names: Iterable[str],
    read: Callable[[str], NDArray[Any]],
    more: Callable[[Place], None],
) -> None:
    sums = {name: arrays.write(place, name, read(name)) for name in names}
    more(place)
    RunDocument(place).write({**document, "arrays": sums})


FORMAT_VERSION = 3
LEFT_OUT = ("first_", "neighbors_")  # arrays that a model does without
READABLE = (1, 2, 3)  # 1 knew no correction but a constant added to distances; 2 had checksums of the numbers alone


class RunStore(Distances):
    """A run's folder, open for reading and writing.

    path: The folder, made absolute, or a URL.
    Raises ScalemaniError: If there is no run at `path`, or one of another format version.
    Raises DamagedStoreError: If a link leads out of it, as far as two folders down; what is below is looked at when it
        is used.
    """

    def __init__(self, path: Named) -> None:
        self.path = str(absolute(path))
        put_back(self.path)
        found = kind_of(self.path)
        if found != "run":
            what = "nothing is there" if found == "nothing" else "what is there is not a scalemani run"
            old = set_aside(self.path)
            ends = "is to take its place is {}: a fit finishes that", "was to be replaced is {}: give it its name again"
            what += f" (the run that {ends[0 if is_url(self.path) else 1].format(repr(str(old)))})" if old else ""
            raise ScalemaniError(
                f"the store {self.path!r} holds no run: {what}; make one with fit (a fit that is given no store leaves "
                "none behind)"
            )
        check_no_links(place(self.path), levels=2)
        self._document = RunDocument(place(self.path))
        document = self._document.read()
        super().__init__(self.path, document["id"])
        self._written: dict[str, int] = {}
        self._guard: Callable[[], None] = lambda: None
        version = document.get("format_version")
        if version not in READABLE:
            raise ScalemaniError(
                f"the run at {self.path!r} has format version {version!r}; this release reads "
                f"{' and '.join(map(str, READABLE))}: use the release that wrote it, or fit again with overwrite"
            )

    @classmethod
    def create(cls, path: Named, *, replace: bool = False, stages: dict[str, Any] | None = None) -> "RunStore":
        """Make a run with no stage but the given ones; one that is there goes only when `replace` is true.

        Raises ScalemaniError: If something else is at `path` (never removed), or a run is and `replace` is false.
        """
        found = kind_of(target := absolute(path))
        if found == "other":
            raise ScalemaniError(f"'{target}' exists and is not a scalemani run: it is left alone; give another path")
        if found == "run" and not replace:
            raise ScalemaniError(f"a run exists at {str(target)!r}: resume it, or replace it with overwrite")
        document = {
            "format_version": FORMAT_VERSION,
            "id": uuid.uuid4().hex,
            "versions": versions(),
            "stages": stages or {},
            "arrays": {},
        }
        if isinstance(target, ObjectPath) and found == "nothing":
            if not RunDocument(target).begin(document):
                raise _also_made(path)
            return cls(target)
        partial = beside(target)
        try:
            with room_for(target, len(canonical(document))):
                partial.mkdir(parents=True)
            RunDocument(partial).begin(document)
        except BaseException:
            discard(partial)
            raise
        return cls(partial).moved_to(target, replace=replace)

    def guarded(self, check: Callable[[], None]) -> "RunStore":
        """This store, which calls `check` before it changes the document: it raises where another writer took over."""
        self._guard, self._document.held = check, True
        return self

    def remove(self) -> None:
        """Remove the whole run."""
        discard(place(self.path))

    def moved_to(self, path: Named, *, replace: bool) -> "RunStore":
        """Move this run to `path`; with `replace`, a run that is there goes when this one is in its place.

        Raises ScalemaniError: If another process makes a run there at this moment.
        """
        here, target = place(self.path), place(path).absolute()
        try:
            if isinstance(target, ObjectPath) or (replace and kind_of(target) == "run"):
                take_place(here, target)
            else:
                Path(self.path).rename(target)
        except OSError as error:
            self.remove()
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            raise _also_made(path) from error
        return RunStore(target)

    # ---- the document: written by the client alone ----------------------------------------------

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of the run, as it is now."""
        return dict(self._document.read())

    def _change(self, stages: dict[str, Any], arrays: dict[str, int]) -> None:
        self._check_right()
        self._document.write({**self.document, "format_version": FORMAT_VERSION, "stages": stages, "arrays": arrays})

    def _check_right(self) -> None:
        """Before anything of the run is changed: it is this writer's still, and the run that was opened."""
        self._guard()
        self.check_identity()

    def check_identity(self) -> None:
        """Refuse to write into another run than the one that was opened."""
        if self._document.read()["id"] != self.identity:
            raise DamagedStoreError(f"the run at {self.path!r} was replaced while it was in use")

    def stage(self, name: str) -> dict[str, Any] | None:
        """The state of a finished stage, or None."""
        state = self.document["stages"].get(name)
        return None if state is None else dict(state)

    def finish(self, name: str, fields: dict[str, Any], **found: Any) -> None:
        """Record a stage as done, by its `fields` and what it found (JSON values), and the arrays that were written.

        Raises StoreInUseError: If another writer has taken over.
        """
        stages = {**self.document["stages"], name: {"fields": fields, **found}}
        self._change(stages, {**self.named_arrays(), **self._written})
        self._written = {}

    def finish_again(self, name: str, state: dict[str, Any] | None = None) -> None:
        """Record the arrays that were written again with their stage as it is, or (`state`) as it was."""
        self.finish(name, **(state or self.document["stages"][name]))

    def forget(self, *names: str) -> None:
        """Take stages back: they will be run again."""
        stages = {key: value for key, value in self.document["stages"].items() if key not in names}
        self._change(stages, self.named_arrays())

    def named_arrays(self) -> dict[str, int]:
        """What is recorded; where an earlier release recorded nothing, what is there: a change must not lose it."""
        found = self.document.get("arrays")
        return small_arrays.found(place(self.path)) if found is None else dict(found)

    def _forget_arrays(self, gone: Callable[[str], bool]) -> None:
        """Before arrays are replaced or removed: a checksum is never that of another one."""
        self._check_right()
        self._written = {name: value for name, value in self._written.items() if not gone(name)}
        arrays = self.named_arrays()
        kept = {name: value for name, value in arrays.items() if not gone(name)}
        if kept != arrays:
            self._change(self.document["stages"], kept)

    # ---- arrays --------------------------------------------------------------------------------

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array whole; see :mod:`scalemani.storage.arrays`.

        Raises TypeError: If it holds anything but numbers.
        """
        self._forget_arrays(lambda other: other == name)
        self._written[name] = small_arrays.write(place(self.path), name, array)

    def read_array(self, name: str) -> NDArray[Any]:
        """Read an array whole and check it, also by what it has to be (:mod:`scalemani.storage.arrays`).

        Raises DamagedStoreError: If it is missing, is not what was written, or can't be this run's.
        """
        document = self.document
        known = {**document.get("arrays", {}), **self._written}.get(name)
        found = small_arrays.read(place(self.path), name, known)
        return checked_array(self.path, name, found, document["stages"])

    def remove_array(self, name: str) -> None:
        """Remove one array, if it is there."""
        self._forget_arrays(lambda other: other == name)
        discard(place(self.path) / name)

    def remove_arrays(self, prefix: str) -> None:
        """Remove the arrays whose names begin so."""
        self._forget_arrays(lambda name: name.startswith(prefix))
        self._remove_own(prefix)

    def pieces(self, stage: str, made_of: Any = None) -> Pieces:
        """What is finished of a stage that is not; see `PIECES` for those that keep any.

        made_of: JSON values of all that the pieces follow from: parameters and the data's fingerprint.
        """
        return Pieces(place(self.path) / PIECES[stage], self._check_right, digest(made_of))

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        super().create_distances(n, tile, compression)
        text = self.tiles.form.text
        self._change(self.document["stages"], {**self.named_arrays(), "distances": checksum_of(text)})

    @property
    def has_distances(self) -> bool:
        arrays = self.document.get("arrays")
        return super().has_distances if arrays is None else "distances" in arrays

    def metadata_sum(self) -> int | None:
        found: int | None = self.document.get("arrays", {}).get("distances")
        return found

    def check_size(self, n: int) -> None:
        check_size(self.path, n, self.document["stages"])

    def drop_distances(self) -> None:
        self._forget_arrays(self._goes_with_distances)
        super().drop_distances()

    def copy_without_distances(self, path: Named, more: Callable[[Place], None] = lambda folder: None) -> None:
        """Copy the model: everything but D, its ledger, its first read and the neighbour lists.

        `more` copies into a folder what the model needs besides its arrays.

        Raises ScalemaniError: If something is at `path`.
        Raises DamagedStoreError: If an array of the model is not what was written.
        """
        document = {**self.document, "format_version": FORMAT_VERSION}
        write_copy(place(path).absolute(), document, self._of_model(), self.read_array, more)

    def _of_model(self) -> list[str]:
        """Names of the arrays that a model needs."""
        names = self.document.get("arrays") or small_arrays.found(place(self.path))
        return [name for name in names if not name.startswith(("distances", *LEFT_OUT))]

    def bytes_without_distances(self, *more: str) -> int:
        """Bytes of what :meth:`copy_without_distances` copies, with other folders of the run."""
        folders = [place(self.path) / name for name in (*self._of_model(), *more)]
        return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())

    def state_of(self, *prefixes: str) -> tuple[tuple[str, int], ...]:
        """Names and checksums of the arrays that begin so: other arrays, another state."""
        arrays: dict[str, int] = self.document.get("arrays", {})
        return tuple(sorted(item for item in arrays.items() if item[0].startswith(prefixes)))


def _also_made(path: Named) -> ScalemaniError:
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
    if store.document["id"] != identity:
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
