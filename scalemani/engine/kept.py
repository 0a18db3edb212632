"""Results kept in a folder until the whole is written: takes arrays and what they were made from, gives them back.

A projection of many rows is many small results that depend on nothing but their input and the model. Each is put,
whole or not at all, as one file that names the digest of what it was made from and carries a CRC32C of every byte
behind it: ledger line and numbers in one, so that no state lies between them. A run that starts again asks for each
result by its name and that digest. What is missing, damaged, or was made from anything else (other rows, another
model, other blocks) is not found, and made again; nothing has to be compared beforehand, however long the test set is.

The folder has a fixed name beside the output, and goes when the output is in place. Of an output that is there no
part was ever under its name.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.objects import checksum_of, put, room_for
from scalemani.engine.writer import Writer
from scalemani.errors import ScalemaniError

SUFFIX = ".kept"
DTYPES = ("<f8", "<i8")  # what a result may hold
_CRC_DIGITS = 8


class KeptResults:
    """The results in one folder.

    Parameters
    ----------
    folder : Path
    writer : Writer
        The right to write there.

    Attributes
    ----------
    found, made : int
        Results that were there, and that were put, since this object was made.
    """

    def __init__(self, folder: Path, writer: Writer) -> None:
        self.folder, self._writer = folder, writer
        self.found = self.made = 0

    def check(self) -> None:
        """Refuse to go on where another process has taken the output over.

        Raises
        ------
        StoreInUseError
        """
        self._writer.check()

    def get(self, name: str, of: str) -> list[NDArray[Any]] | None:
        """The arrays of a result, or None where it has to be made.

        Parameters
        ----------
        name : str
        of : str
            What :func:`digest` says of everything it is made from.
        """
        try:
            arrays = _unpacked((self.folder / f"{name}{SUFFIX}").read_bytes(), name, of)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        self.found += 1
        return arrays

    def put(self, name: str, of: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Keep a result, in the place of one of that name.

        Raises
        ------
        DiskFullError, StoreInUseError
        """
        self.check()
        put(self.folder / f"{name}{SUFFIX}", _packed(name, of, arrays))
        self.made += 1


def digest(model: Sequence[str], *arrays: NDArray[Any]) -> str:
    """A name for what a result is made from: the same for the same bits, kinds and shapes, and for no others."""
    sums = hashlib.blake2b(json.dumps(list(model)).encode(), digest_size=16)
    for array in arrays:
        contiguous: Any = np.ascontiguousarray(array)
        sums.update(f"|{array.dtype.str}{array.shape}|".encode())
        sums.update(memoryview(contiguous).cast("B") if array.size else b"")
    return sums.hexdigest()


@contextmanager
def kept_results(out: str | os.PathLike[str], what: str = "projection") -> Iterator[KeptResults]:
    """The results kept for an output, found again by a run that was stopped; removed when the block ends well.

    Parameters
    ----------
    out : path
        What will be written.
    what : str
        What is at work, for messages.

    Raises
    ------
    StoreInUseError
        If another process works for that output.
    ScalemaniError
        If something that is no folder has the name.
    """
    target = Path(out).absolute()
    folder = target.with_name(f".{target.name}.scalemani.partial")
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
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)


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
