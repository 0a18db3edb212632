"""Objects of a store: takes a name and bytes, puts them in place whole or not at all, and says so where a disk is full.

Every file of a store is written beside its name and renamed, or linked where the first to come must stay, so that
what has a name is whole; a process that is killed leaves a `.partial`, which nothing reads.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from scalemani.engine.resources import free_disk
from scalemani.errors import DiskFullError

PARTIAL = ".partial"  # how the names end of what is being made
FULL = (errno.ENOSPC, errno.EDQUOT)


def checksum(array: NDArray[Any]) -> int:
    """CRC32C of an array's bytes in C order."""
    contiguous: Any = np.ascontiguousarray(array)  # read where it is: its bytes would be a copy
    return int(google_crc32c.value(contiguous))


def checksum_of(content: Any) -> int:
    """CRC32C of bytes, or of memory."""
    return int(google_crc32c.value(content if isinstance(content, bytes) else np.frombuffer(content, np.uint8)))


def beside(path: str | os.PathLike[str]) -> Path:
    """A name beside a path that nothing has: what is made there is renamed when it is whole."""
    target = Path(path).absolute()
    return target.with_name(f"{target.name}.{uuid.uuid4().hex}{PARTIAL}")


def folder_at(path: Path) -> None:
    """Make a folder and those above it; a file that has its name, which no run makes, goes."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        path.unlink()
        path.mkdir()


@contextmanager
def room_for(path: str | os.PathLike[str], needed: int) -> Iterator[None]:
    """Turn the system's word that a disk is full into an error with numbers.

    Parameters
    ----------
    path : path
        What is written, for the message and the free bytes.
    needed : int
        Bytes that it takes.

    Raises
    ------
    DiskFullError
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        free = free_disk(path)
        why = "the quota is used up" if error.errno == errno.EDQUOT else f"{free:,} bytes are free"
        raise DiskFullError(
            f"the disk of {str(path)!r} is full: {needed:,} bytes were to be written and {why}; free some, then give "
            "the same command again: what is finished is kept"
        ) from error


def remove_partials(folder: str | os.PathLike[str], *below: str) -> None:
    """Remove what a killed process was making in a folder, and in those below it that match; others are left alone."""
    for place in ("", *below):
        for left in Path(folder).glob(f"{place}*{PARTIAL}"):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def put(path: str | os.PathLike[str], content: Any) -> None:
    """Write a file whole, in the place of one that is there.

    Parameters
    ----------
    content : bytes-like

    Raises
    ------
    DiskFullError
    """
    target, partial = Path(path), beside(path)
    with room_for(target, memoryview(content).nbytes):
        try:
            _write(partial, content)
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def put_once(path: str | os.PathLike[str], content: Any) -> bool:
    """Write a file whole unless one is there, which stays; whether this one was put.

    Raises
    ------
    DiskFullError
    """
    target, partial = Path(path), beside(path)
    with room_for(target, memoryview(content).nbytes):
        try:
            _write(partial, content)
            os.link(partial, target)
        except FileExistsError:
            return False
        finally:
            partial.unlink(missing_ok=True)
    return True


def _write(path: Path, content: Any) -> None:
    """Without Python's buffer, and with every byte: a full disk may take a part of them."""
    left = memoryview(content).cast("B") if memoryview(content).nbytes else memoryview(b"")
    with path.open("xb", buffering=0) as stream:
        while left.nbytes:
            left = left[stream.write(left) or 0 :]
