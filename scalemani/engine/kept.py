"""Results kept in a folder until the whole is written: takes arrays and what they were made from, gives them back.

A projection of many rows is many small results that depend on nothing but their input and the model. Each is put,
whole or not at all, as one file that names the digest of what it was made from and carries a CRC32C of every byte
behind it: ledger line and numbers in one, so that no state lies between them. A run that starts again asks for each
result by its name and that digest. What is missing, damaged, or was made from anything else (other rows, another
model, other blocks) is not found, and made again; nothing has to be compared beforehand, however long the test set is.

The folder has a fixed name beside the output, and goes when the output is in place. Of an output that is there no
part was ever under its name. Before an output gets its name the folder is told which file that will be, so that a
folder which a kill left behind a complete output is known, and goes (:func:`drop_finished`). In object storage an
output is copied to its name, its metadata last, and a part that a kill left there is known by the same word, and goes.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.bounded_json import read_plain
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import checksum_of, discard, put, room_for
from scalemani.engine.places import Named, Place, place
from scalemani.engine.replacing import remove_copied
from scalemani.engine.writer import Writer
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError

SUFFIX = ".kept"
WHOLE = "whole.txt"  # names what gets the output's name
IN_WORK, METADATA = "whole", "zarr.json"  # of an output in object storage, which is an array
MOST_BYTES = 1 << 50  # of a result
DTYPES = ("<f8", "<i8")  # what a result may hold
_CRC_DIGITS = 8


class KeptResults:
    """The results in one folder.

    writer: The right to write there.
    found, made: Results that were there, and that were put, since this object was made.
    """

    def __init__(self, folder: Place, writer: Writer) -> None:
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
        put(self.folder / f"{name}{SUFFIX}", _packed(name, of, arrays))
        self.made += counts

    def drop(self, names: Iterable[str]) -> None:
        """Let go of results that nothing needs any more."""
        self.check()
        for name in names:
            (self.folder / f"{name}{SUFFIX}").unlink(missing_ok=True)


def name_next(folder: Place, whole: Place) -> None:
    """Say in a folder of kept results that what is whole there gets the output's name next."""
    put(folder / WHOLE, _file_of(whole))


def drop_finished(out: Named) -> None:
    """Remove the kept results of an output that is complete, which a process left that was killed just then.

    Or, in object storage, what it had copied of one that is not.
    """
    target, folder = place(out).absolute(), _folder_of(out)
    try:
        if folder.is_symlink() or read_plain(folder / WHOLE, 100) != _file_of(target):
            return
        with Writer(target, "projection"):
            if isinstance(target, ObjectPath) and isinstance(folder, ObjectPath) and not (target / METADATA).is_file():
                remove_copied(folder / IN_WORK, target)
                (folder / WHOLE).unlink(missing_ok=True)
            else:
                discard(folder)
    except (DamagedStoreError, OSError, StoreInUseError):
        return  # nothing is there, or another process is at it


def _file_of(path: Place) -> bytes:
    """What a file or folder is, whatever its name; objects are copied, and are what the folder's name says."""
    if isinstance(path, ObjectPath):
        return b"copied"
    state = path.lstat()
    return f"{state.st_dev} {state.st_ino}".encode()


def _folder_of(out: Named) -> Place:
    target = place(out).absolute()
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
def kept_results(out: Named, what: str = "projection") -> Iterator[KeptResults]:
    """The results kept for an output, found again by a run that was stopped; removed when the block ends well.

    what: What is at work, for messages.
    Raises StoreInUseError: If another process works for that output.
    Raises ScalemaniError: If something that is no folder has the name.
    """
    target, folder = place(out).absolute(), _folder_of(out)
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
                discard(folder)
            raise
        discard(folder)


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
