"""One run in its store: takes arrays and records of steps, gives them back whole, and copies itself without D.

A run is one Zarr v3 group: its document (:mod:`scalemani.storage.records`), small arrays
(:mod:`scalemani.storage.arrays`), and D, one matrix of :mod:`scalemani.storage.tiles`. Nothing here is ever unpickled,
nothing outside the folder is followed to.

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

from scalemani.aliases import F32, I64
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.storage import arrays
from scalemani.storage.arrays import PIECES, check_size, fault_of, own_entries
from scalemani.storage.files import AnyPath, Location, checksum, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import REMEDY, check_no_links
from scalemani.storage.pieces import Pieces, digest
from scalemani.storage.records import Document, RunDocument, Step, StepRecord, canonical, read_back, versions
from scalemani.storage.targets import check_writable, kind_of, put_back
from scalemani.storage.tiles import LEDGER, Blocks, Form, Tiles, drop_matrix, read_form
from scalemani.storage.writer import Writer

DISTANCES = "distances"  # the folder of D
WITH_DISTANCES = ("first_", f"{PIECES}solve")  # how the names begin of what was read of D, which goes with it
ALSO_MADE = "another fit is making a run at {!r}: wait for it, or give another path"
LEFT_OUT = ("first_", "neighbors_")  # arrays that a model does without
ROW_IDS = "row_id"  # how the names of those begin that only name its rows


class RunStore:
    """A run's folder, open for reading and writing.

    path: The folder, made absolute, or a URL.
    identity: The run's id.
    Raises ScalemaniError: If there is no run at `path`, or one of another format version.
    Raises DamagedStoreError: If a link leads out of it, two folders down at most; what is below is looked at when used.
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
        self.identity = self._document.read().id
        self._opened: tuple[Tiles, int] | None = None  # D, with the CRC32C of its metadata
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
            raise ScalemaniError(ALSO_MADE.format(str(path)))
        return cls(start) if start == target else cls(start).moved_to(target, replace=replace)

    def guarded(self, check: Callable[[], None]) -> "RunStore":
        """This store, which calls `check` before it changes the document: it raises where another writer took over."""
        self._guard, self._document.held = check, True
        return self

    def remove(self) -> None:
        """Remove the whole run."""
        open_location(self.path).remove()

    def moved_to(self, path: AnyPath, *, replace: bool) -> "RunStore":
        """Move this run to `path`; with `replace`, a run that is there goes then. Refused where another comes first."""
        here, target = open_location(self.path), open_location(path).absolute()
        try:
            (target.replace_with if replace and kind_of(target) != "other" else target.take)(here)
        except OSError as error:
            self.remove()
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            raise ScalemaniError(ALSO_MADE.format(str(path))) from error
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
        else:
            self._document.catch_up()

    def _check_right(self) -> None:
        """Before anything of the run is changed: refuse it where another writer, or another run, has come."""
        self._guard()
        self.check_identity()

    def check_identity(self) -> None:
        """Refuse another run than the one that was opened."""
        if self.document.id != self.identity:
            raise DamagedStoreError(f"the run at {self.path!r} was replaced while it was in use")

    def record(self, kind: type[Step]) -> Step | None:
        """What a step recorded, or None where it is not finished."""
        return self.document.stages.get(kind.STEP)

    def needed(self, kind: type[Step]) -> Step:
        """What a step recorded; a DamagedStoreError where it is not finished."""
        found = self.record(kind)
        if found is None:
            raise DamagedStoreError(f"the run at {self.path!r} lacks its step {kind.STEP!r}; {REMEDY}")
        return found

    def finish(self, *records: StepRecord) -> None:
        """Record steps as done, and the arrays that were written; refuses a record that can't be read back."""
        self._check_right()
        found = {record.STEP: read_back(record) for record in records}
        self._change({**self.document.stages, **found}, {**self.document.arrays, **self._written})
        self._written = {}

    def forget(self, *names: str) -> None:
        """Take steps back: they will be run again."""
        self._check_right()
        document = self.document
        self._change({key: value for key, value in document.stages.items() if key not in names}, document.arrays)

    def _forget_arrays(self, gone: Callable[[str], bool]) -> None:
        """Before arrays are replaced or removed: a checksum is never that of another one."""
        self._check_right()
        self._written = {name: value for name, value in self._written.items() if not gone(name)}
        document = self.document
        self._change(document.stages, {name: value for name, value in document.arrays.items() if not gone(name)})

    # ---- arrays --------------------------------------------------------------------------------

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array of numbers whole; see :mod:`scalemani.storage.arrays`."""
        self._forget_arrays(lambda other: other == name)
        self._written[name] = arrays.write(open_location(self.path), name, array)

    def read_array(self, name: str) -> NDArray[Any]:
        """Read an array whole and check it, also by what it has to be (:mod:`scalemani.storage.arrays`).

        Raises DamagedStoreError: If it is missing, is not what was written, or can't be this run's.
        """
        document = self.document
        known = {**document.arrays, **self._written}.get(name)
        found = arrays.read(open_location(self.path), name, known)
        fault = fault_of(name, found, document.stages)
        if fault is not None:
            raise DamagedStoreError(f"{self.path!r}: {name!r} is not of this run ({fault}); {REMEDY}")
        return found

    def has_array(self, name: str) -> bool:
        """Whether an array of that name is there, recorded or not."""
        return (open_location(self.path) / name / "zarr.json").exists()

    def remove_array(self, name: str) -> None:
        """Remove one array, if it is there."""
        self._forget_arrays(lambda other: other == name)
        (open_location(self.path) / name).remove()

    def remove_arrays(self, prefix: str) -> None:
        """Remove the arrays whose names begin so."""
        self._forget_arrays(lambda name: name.startswith(prefix))
        self._remove_own(prefix)

    def _remove_own(self, *beginnings: str) -> None:
        """Remove what is the run's own, and none else's, of the entries whose names begin so."""
        for found in [entry for beginning in beginnings for entry in own_entries(open_location(self.path), beginning)]:
            found.remove()

    def pieces(self, stage: str, made_of: Any = None) -> Pieces:
        """What is finished of a stage that is not.

        made_of: JSON values of all that the pieces follow from: parameters and the data's fingerprint.
        """
        return Pieces(open_location(self.path) / f"{PIECES}{stage}", self._check_right, digest(made_of))

    # ---- D ---------------------------------------------------------------------------------------

    @property
    def has_distances(self) -> bool:
        """Whether D is there (finished or not)."""
        return self.metadata_sum is not None

    @property
    def metadata_sum(self) -> int | None:
        """CRC32C of the metadata of D, or None where the run has no D."""
        return self.document.arrays.get(DISTANCES)

    def create_distances(self, n: int, tile: int, compression: str | None = None) -> None:
        """Make D of n vertices, empty, in tiles of side `tile`, and an empty ledger.

        compression ({"lz4", "zstd"}): See :class:`Form`.
        """
        self.drop_distances()
        form = Form.of_distances(n, tile, compression)
        tiles = self._matrix(form)
        tiles.create()
        self._opened = tiles, checksum(form.text)
        self._written[DISTANCES] = checksum(form.text)
        self.finish()

    def _matrix(self, form: Form) -> Tiles:
        return Tiles(self.path, self.identity, DISTANCES, form, symmetric=True, check=self.check_identity)

    def drop_distances(self) -> None:
        """Remove D, its ledger and what was read of it."""
        self._forget_arrays(lambda name: name == DISTANCES or name.startswith(WITH_DISTANCES))
        self._opened = None
        drop_matrix(open_location(self.path) / DISTANCES, open_location(self.path) / LEDGER)
        self._remove_own(*WITH_DISTANCES)

    @property
    def tiles(self) -> Tiles:
        """D itself.

        Raises DamagedStoreError: If its metadata is not what was written, or it is not of the graph's vertices.
        """
        if self._opened is None:
            form, metadata_sum = read_form(open_location(self.path) / DISTANCES, self.metadata_sum)
            check_size(self.path, form.shape[0], self.document.stages)
            self._opened = self._matrix(form), metadata_sum
        return self._opened[0]

    def refresh(self) -> None:
        """Forget what was opened of a D that is not the run's any more: processes live longer than what they opened."""
        if self._opened is not None and self._opened[1] != self.metadata_sum:
            self._opened = None

    @property
    def blocks(self) -> Blocks:
        """The blocks that D was cut into when it was made."""
        return self.tiles.rows

    def read_columns(self, row: int, vertices: I64) -> F32:
        """Some columns of one upper tile: D of block `row` and `vertices`, all of one block that is not before it."""
        column = int(vertices[0]) // self.blocks.size
        return self.tiles.read(row, column)[:, vertices - self.blocks[column].start]

    def read_rows(self, vertices: I64) -> F32:
        """Rows of D, shape (l, n); see :meth:`Tiles.read_rows`."""
        self.refresh()
        return self.tiles.read_rows(vertices)

    # ---- the model -------------------------------------------------------------------------------

    def copy_without_distances(self, path: AnyPath, more: Callable[[Location], None] = lambda folder: None) -> None:
        """Copy the model, whole or not at all: everything but D, its ledger, its first read and the neighbour lists.

        more: Copies into a folder what the model needs besides its arrays, before there is a document.
        Raises ScalemaniError: If something is at `path`.
        Raises StoreInUseError: If a fit is at work there.
        Raises DamagedStoreError: If an array of the model is not what was written.
        """
        target, document = open_location(path).absolute(), self.document
        check_writable(target)
        with Writer(target):
            if kind_of(target) != "nothing":
                raise ScalemaniError(f"{str(target)!r} exists: give another path, or remove it")
            with target.built(1 << 20) as folder:
                sums = {name: arrays.write(folder, name, self.read_array(name)) for name in self._of_model()}
                more(folder)
                RunDocument(folder).write(document.changed(arrays=sums))

    def _of_model(self) -> list[str]:
        """Names of the arrays that a model needs."""
        return [name for name in self.document.arrays if not name.startswith((DISTANCES, *LEFT_OUT))]

    def bytes_without_distances(self, *more: str) -> int:
        """Bytes of what :meth:`copy_without_distances` copies, with other folders of the run."""
        folders = [open_location(self.path) / name for name in (*self._of_model(), *more)]
        return sum(file.size() for folder in folders for file in folder.rglob("*") if file.is_file())

    @property
    def revision(self) -> str:
        """A name of the model that the run holds: one with other arrays has another."""
        beside = (*LEFT_OUT, ROW_IDS)
        sums = {name: value for name, value in self.document.arrays.items() if not name.startswith(beside)}
        return blake2b(canonical(sums), digest_size=16).hexdigest()


Made = TypeVar("Made")


def opened_anew(path: str, identity: str) -> RunStore:
    """A run, for a task: what a process remembers of the ledger may be older than the damage."""
    store = RunStore(path)
    store.identity = identity
    return store


_opened = lru_cache(maxsize=4)(opened_anew)


def shared_run(path: str, identity: str) -> RunStore:
    """The run at a path, opened once in each process; a DamagedStoreError if another run is there by now."""
    store = _opened(path, identity)
    store.check_identity()
    store.refresh()
    return store


class OncePerProcess(Generic[Made]):
    """A function of a path and a run's id whose result is kept while the run's graph, which it is made of, is the same.

    make: (path, id) -> result; also as `__wrapped__`, for who wants it made anew.
    """

    def __init__(self, make: Callable[[str, str], Made]) -> None:
        self.__wrapped__, self.__doc__ = make, make.__doc__
        self._kept = lru_cache(maxsize=2)(lambda path, identity, graph: make(path, identity))
        self.cache_clear = self._kept.cache_clear

    def __call__(self, path: str, identity: str) -> Made:
        sums = shared_run(path, identity).document.arrays.items()
        return self._kept(path, identity, tuple(sorted(item for item in sums if item[0].startswith("graph_"))))
