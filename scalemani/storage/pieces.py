"""Unfinished work: pieces that are kept in a folder until the whole is there, and found by a run that starts again.

A piece is one file of arrays, put whole or not at all, with its name, a digest of all that it was made from, and a
CRC32C of every byte behind that. Who asks for a piece gives the name and the digest: one that is missing, damaged, or
made from anything else (other rows, another model, other parameters) is not there, and is made again.

A stage of a fit keeps its pieces in a folder of the run (:meth:`scalemani.storage.run.RunStore.pieces`), which goes
when the stage is finished. A projection keeps them in a folder beside its output (:func:`kept_results`), which goes
when the output is in place. An output gets its final name only when it is complete. Before that the folder is told
which file will get the name: so :func:`drop_finished` knows a folder that a kill left beside a complete output and, in
object storage, where the server copies an output, a part of one.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError
from scalemani.storage.files import AnyPath, Location, checksum, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import read_plain
from scalemani.storage.writer import Writer

SUFFIX = ".kept"
WHOLE = "whole.txt"  # names what gets the output's name
IN_WORK = "whole"  # an output in object storage, which is an array
MOST_BYTES = 1 << 50  # of a piece
DTYPES = ("<f8", "<i8")  # what a piece may hold
_CRC_DIGITS = 8


class Pieces:
    """The pieces in one folder, which is made with the first of them.

    check: Called before anything is changed: it raises where another process has taken over.
    of: Digest of what the pieces were made from (:func:`digest`), where it is the same for all.
    prefix: Before all names, which others may use in the same folder.
    found, made: Pieces that were there, and that were put, since this object was made.
    """

    def __init__(self, folder: Location, check: Callable[[], None], of: str = "", prefix: str = "") -> None:
        self.folder, self.check, self.of, self._prefix = folder, check, of, prefix
        self.found = self.made = 0

    def get(self, name: str, of: str | None = None, counts: int = 1) -> list[NDArray[Any]] | None:
        """The arrays of a piece, not to be written to, or None where it has to be made.

        of: Digest of what it is made from, if not that of all.
        counts: As how many it counts among those that were found.
        """
        try:
            content = read_plain(self.folder / f"{self._prefix}{name}{SUFFIX}", MOST_BYTES)
            arrays = _unpacked(content, name, self.of if of is None else of)
        except (DamagedStoreError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        self.found += counts
        return arrays

    def put(self, name: str, arrays: Sequence[NDArray[Any]], of: str | None = None, counts: int = 1) -> None:
        """Keep a piece, of integers and floats, in the place of one of that name."""
        self.check()
        with room_for(self.folder, 4096):
            self.folder.make_folder()
        (self.folder / f"{self._prefix}{name}{SUFFIX}").put(_packed(name, self.of if of is None else of, arrays))
        self.made += counts

    def count(self, beginning: str) -> int:
        """How many there are whose names begin so, whatever they were made from."""
        return len(list(self.folder.glob(f"{self._prefix}{beginning}*{SUFFIX}")))

    def drop(self, names: Iterable[str] | None = None) -> None:
        """Let go of pieces that nothing needs any more: of these, or of all and their folder."""
        if names is None and not self.folder.exists():
            return
        self.check()
        for name in names or ():
            (self.folder / f"{self._prefix}{name}{SUFFIX}").unlink(missing_ok=True)
        if names is None:
            self.folder.remove()


def is_whole(file: Location) -> bool:
    """Whether a file is a piece as it was put, whatever it was made from."""
    try:
        _heading(read_plain(file, MOST_BYTES))
    except (DamagedStoreError, ValueError):
        return False
    return True


def digest(said: Any, *arrays: NDArray[Any]) -> str:
    """A name for what a piece is made from: the same for the same bits, kinds and shapes, and for no others.

    said: JSON values.
    """
    sums = hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16)
    for array in arrays:
        contiguous: Any = np.ascontiguousarray(array)
        sums.update(f"|{array.dtype.str}{array.shape}|".encode())
        sums.update(memoryview(contiguous).cast("B") if array.size else b"")
    return sums.hexdigest()


def _packed(name: str, of: str, arrays: Sequence[NDArray[Any]]) -> bytes:
    """A file's bytes, in memory of their own size: pieces may be as large as a basis."""
    plain: list[Any] = [np.ascontiguousarray(array, DTYPES[array.dtype.kind == "i"]) for array in arrays]
    said = json.dumps({"name": name, "of": of, "arrays": [[array.dtype.str, array.shape] for array in plain]}).encode()
    gap = b" " * (-(_CRC_DIGITS + len(said) + 2) % 8)  # numbers lie where a processor reads them best
    parts = [b"\n" + said + gap + b"\n", *plain]
    return b"".join([_digits(reduce(google_crc32c.extend, parts, 0)), *parts])


def _digits(crc: int) -> bytes:
    """The first letters of a file, from the checksum of the rest of it."""
    return f"{crc:0{_CRC_DIGITS}x}".encode()


def _heading(content: bytes) -> bytes:
    """What is said before a piece's numbers; ValueError where a byte of the file is not as it was put."""
    if content[:_CRC_DIGITS] != _digits(checksum(memoryview(content)[_CRC_DIGITS:])):
        raise ValueError("damaged")
    return content[_CRC_DIGITS + 1 : content.index(b"\n", _CRC_DIGITS + 1)]


def _unpacked(content: bytes, name: str, of: str) -> list[NDArray[Any]]:
    """The arrays of a file's bytes; ValueError, KeyError or TypeError where they are not what was put."""
    said = _heading(content)
    heading, at = json.loads(said), _CRC_DIGITS + len(said) + 2
    if heading["name"] != name or heading["of"] != of:
        raise ValueError("made from something else")
    arrays = []
    for dtype, shape in heading["arrays"]:
        if dtype not in DTYPES:
            raise ValueError(dtype)
        count = int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(content, dtype, count, at).reshape(shape) if count else np.empty(shape, dtype))
        at += 8 * count
    return arrays


# ---- beside an output ----------------------------------------------------------------------------


@contextmanager
def kept_results(out: AnyPath) -> Iterator[Pieces]:
    """The pieces of a projection's output, found again by a run that was stopped; removed when the block ends well.

    Raises StoreInUseError: If another process works for that output.
    Raises ScalemaniError: If something that is no folder has the name.
    """
    target, folder = open_location(out).absolute(), _folder_of(out)
    target.parent.mkdir(parents=True, exist_ok=True)
    with Writer(target, "projection") as writer:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise ScalemaniError(f"{str(folder)!r} is not a folder of unfinished results: remove it, then try again")
        with room_for(folder, 4096):
            folder.mkdir(exist_ok=True)
        try:
            yield Pieces(folder, writer.check)
        except BaseException:
            if not any(folder.glob(f"*{SUFFIX}")):  # nothing to go on from: a wrong test set leaves no trace
                folder.remove()
            raise
        folder.remove()


def name_next(folder: Location, whole: Location) -> None:
    """Say in a folder of pieces that what is whole there gets the output's name next."""
    (folder / WHOLE).put(whole.identity())


def drop_finished(out: AnyPath) -> None:
    """Remove the pieces of an output that is complete, which a process left that was killed just then.

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
