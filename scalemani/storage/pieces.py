"""What each read of D gave the solver, kept until the model is recorded: a solve that was stopped goes on from there.

A read of a large D takes half a minute, and a solve some twenty. Each is three arrays of the run, a block of vectors
and its images by both kernels, bound to what the solve was asked for; what is damaged, or another solve's, is none.

Results kept in a folder until the whole is written: takes arrays and what they were made from, gives them back.

A projection of many rows is many small results that depend on nothing but their input and the model. Each is put,
whole or not at all, as one file that names the digest of what it was made from and carries a CRC32C of every byte
behind it: ledger line and numbers in one, so that no state lies between them. A run that starts again asks for each
result by its name and that digest. What is missing, damaged, or was made from anything else (other rows, another
model, other blocks) is not found, and made again; nothing has to be compared beforehand, however long the test set is.

The folder has a fixed name beside the output, and goes when the output is in place. Of an output that is there no
part was ever under its name. Before an output gets its name the folder is told which file that will be, so that a
folder which a kill left behind a complete output is known, and goes (:func:`drop_finished`). In object storage an
output is copied to its name, its metadata last, and a part that a kill left there is known by the same word, and goes.

Pieces of a stage that is not finished, kept in a run's store: takes arrays by name, gives them back whole.

Each is one array of the store, with its CRC32C, under a name that holds a digest of what the piece follows from: a
fit with other parameters does not find it. All of them go when the stage is finished.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError
from scalemani.steps.records import ReadsRecord
from scalemani.storage.files import AnyPath, Location, checksum_of, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import read_plain
from scalemani.storage.run import RunStore
from scalemani.storage.writer import Writer

SUFFIX = ".kept"
WHOLE = "whole.txt"  # names what gets the output's name
IN_WORK = "whole"  # the name of an output that is an array, until it is
MOST_BYTES = 1 << 50  # of a result
DTYPES = ("<f8", "<i8")  # what a result may hold
_CRC_DIGITS = 8


class KeptResults:
    """The results in one folder.

    writer: The right to write there.
    found, made: Results that were there, and that were put, since this object was made.
    """

    def __init__(self, folder: Location, writer: Writer) -> None:
        self.folder, self._writer = folder, writer
        self.found = self.made = 0

    def check(self) -> None:
        """Refuse to go on where another process has taken the output over."""
        self._writer.check()

    def get(self, name: str, of: str, counts: int = 1) -> list[NDArray[Any]] | None:
        """The arrays of a result, or None where it has to be made.

        of: What :func:`digest` says of everything it is made from.
        counts: As how many it counts among those that were found.
        """
        try:
            arrays = _unpacked(read_plain(self.folder / f"{name}{SUFFIX}", MOST_BYTES), name, of)
        except (DamagedStoreError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        self.found += counts
        return arrays

    def put(self, name: str, of: str, arrays: Sequence[NDArray[Any]], counts: int = 1) -> None:
        """Keep a result, in the place of one of that name."""
        self.check()
        (self.folder / f"{name}{SUFFIX}").put(_packed(name, of, arrays))
        self.made += counts

    def drop(self, names: Iterable[str]) -> None:
        """Let go of results that nothing needs any more."""
        self.check()
        for name in names:
            (self.folder / f"{name}{SUFFIX}").unlink(missing_ok=True)


def name_next(folder: Location, whole: Location) -> None:
    """Say in a folder of kept results that what is whole there gets the output's name next."""
    (folder / WHOLE).put(whole.identity())


def drop_finished(out: AnyPath) -> None:
    """Remove the kept results of an output that is complete, which a process left that was killed just then.

    Or, in object storage, what it had copied of one that is not.
    """
    target, folder = open_location(out).absolute(), _folder_of(out)
    try:
        if folder.is_symlink() or read_plain(folder / WHOLE, 100) != target.identity():
            return
        with Writer(target, "projection"):
            if target.take_back(folder / IN_WORK):
                (folder / WHOLE).unlink(missing_ok=True)
            else:
                folder.remove()
    except (DamagedStoreError, OSError, StoreInUseError):
        return  # nothing is there, or another process is at it


def _folder_of(out: AnyPath) -> Location:
    target = open_location(out).absolute()
    return target.with_name(f".{target.name}.scalemani.partial")


def digest(model: Sequence[str], *arrays: NDArray[Any]) -> str:
    """A name for what a result is made from: the same for the same bits, kinds and shapes, and for no others."""
    sums = hashlib.blake2b(json.dumps(list(model)).encode(), digest_size=16)
    for array in arrays:
        contiguous: Any = np.ascontiguousarray(array)
        sums.update(f"|{array.dtype.str}{array.shape}|".encode())
        sums.update(memoryview(contiguous).cast("B") if array.size else b"")
    return sums.hexdigest()


@contextmanager
def kept_results(out: AnyPath, what: str = "projection") -> Iterator[KeptResults]:
    """The results kept for an output, found again by a run that was stopped; removed when the block ends well.

    what: What is at work, for messages.
    Raises StoreInUseError: If another process works for that output.
    Raises ScalemaniError: If something that is no folder has the name.
    """
    target, folder = open_location(out).absolute(), _folder_of(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with Writer(target, what) as writer:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise ScalemaniError(f"{str(folder)!r} is not a folder of unfinished results: remove it, then try again")
        with room_for(folder, 4096):
            folder.mkdir(exist_ok=True)
        try:
            yield KeptResults(folder, writer)
        except BaseException:
            if not any(folder.glob(f"*{SUFFIX}")):  # nothing to go on from: a wrong test set leaves no trace
                folder.remove()
            raise
        folder.remove()


def _packed(name: str, of: str, arrays: Sequence[NDArray[Any]]) -> bytes:
    plain = [np.ascontiguousarray(array, DTYPES[array.dtype.kind == "i"]) for array in arrays]
    heading = {"name": name, "of": of, "arrays": [[array.dtype.str, array.shape] for array in plain]}
    behind = b"\n".join([b"", json.dumps(heading).encode(), b"".join(array.tobytes() for array in plain)])
    return f"{checksum_of(behind):0{_CRC_DIGITS}x}".encode() + behind


def _unpacked(content: bytes, name: str, of: str) -> list[NDArray[Any]]:
    """The arrays of a file's bytes; ValueError, KeyError or TypeError where they are not what was put."""
    behind = content[_CRC_DIGITS:]
    if content[:_CRC_DIGITS] != f"{checksum_of(behind):0{_CRC_DIGITS}x}".encode():
        raise ValueError("damaged")
    _, said, numbers = behind.split(b"\n", 2)
    heading = json.loads(said)
    if heading["name"] != name or heading["of"] != of:
        raise ValueError("made from something else")
    arrays, at = [], 0
    for dtype, shape in heading["arrays"]:
        if dtype not in DTYPES:
            raise ValueError(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(numbers, dtype, count, at).reshape(shape))
        at += 8 * count
    return arrays


_BEGINNING = "piece_"


class KeptPieces:
    """Pieces of one stage of one fit.

    fields: JSON values of all that the pieces follow from: parameters and the data's fingerprint.
    """

    def __init__(self, store: RunStore, fields: Mapping[str, Any]) -> None:
        text = json.dumps(fields, sort_keys=True)
        self._store = store
        self._beginning = f"{_BEGINNING}{blake2b(text.encode(), digest_size=8).hexdigest()}_"

    def get(self, name: str) -> NDArray[Any] | None:
        """What was put under a name; None where nothing was, or it is damaged: it is to be computed again."""
        try:
            return self._store.read_array(self._beginning + name)
        except DamagedStoreError:  # or not there
            return None

    def put(self, name: str, piece: I64) -> None:
        """Keep an array, in the place of one that is there."""
        self._store.write_array(self._beginning + name, piece)


def drop_pieces(store: RunStore) -> None:
    """Remove all pieces of a store, of whatever fit."""
    if any(open_location(store.path).glob(f"{_BEGINNING}*")):  # else the document need not be looked at
        store.remove_arrays(_BEGINNING)


PARTS = ("vectors", "first", "second")
_READ_BEGINNING = "solver_"
Block = tuple[F64, ...]


class StoredReads:
    """The reads of one solve.

    fields: JSON values: what the reads follow from. Those of a solve that was asked for anything else are removed.
    """

    def __init__(self, store: RunStore, fields: dict[str, Any]) -> None:
        self._store, self._fields = store, fields
        state = store.record(ReadsRecord)
        self.count = 0
        if state is not None and state.fields == fields:
            self.count = state.count
        elif state is not None:
            self.clear()

    def get(self, number: int) -> Block | None:
        """A block and its images, arrays (n, b); None where they are not there, or not what was written."""
        if number >= self.count:
            return None
        try:
            found = tuple(self._store.read_array(f"{_READ_BEGINNING}{part}_{number}") for part in PARTS)
        except DamagedStoreError:
            self.count = number
            return None
        return found if all(part.ndim == 2 and part.dtype == np.float64 for part in found) else None

    def put(self, number: int, block: Block) -> None:
        """Keep a block and its images; those behind it are of another way and go."""
        for part, array in zip(PARTS, block, strict=True):
            self._store.write_array(f"{_READ_BEGINNING}{part}_{number}", array)
        self._store.finish(ReadsRecord(fields=self._fields, count=number + 1))
        self.count = number + 1

    def clear(self) -> None:
        """Remove all of them."""
        drop_reads(self._store)
        self.count = 0


def drop_reads(store: RunStore) -> None:
    """Remove all reads of a store, of whatever solve: also those that one left which was killed when it was done."""
    if any(open_location(store.path).glob(f"{_READ_BEGINNING}*")):
        store.forget(ReadsRecord.STEP, arrays=_READ_BEGINNING)
