"""Objects of a store: takes a name and bytes, puts them in place whole or not at all, and says so where a disk is full.

Every file of a store is written beside its name and renamed, or linked where the first to come must stay, so that
what has a name is whole; a process that is killed leaves a `.partial`, which nothing reads. A folder that takes the
place of another sets that aside first, as `.old.partial`, and :func:`settle` puts it back after a kill in between.
Once the other is in place the old one loses that name before anything of it is removed: it is rubbish and never a run.

In object storage a put is whole by itself, and one may be told to leave what is there; how a run takes the place of
another there is in :mod:`scalemani.storage.replacing`.
"""

import errno
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from scalemani.errors import DamagedStoreError, DiskFullError
from scalemani.storage import replacing
from scalemani.storage.buckets import ObjectPath
from scalemani.storage.json import read_plain
from scalemani.storage.locations import Named, Place, free_disk, place

PARTIAL = ".partial"  # how the names end of what is being made
OLD = ".old"  # before that, of what another is taking the place of
MOST_NAME = 100  # bytes of a name that names beside it begin with; file systems take 255, or 143
LEFT = re.compile(rf"\.[0-9a-f]{{32}}({OLD})?{PARTIAL}\Z")
TRIES, PAUSE = 5, 0.2  # of a put that another request prevents, which leaves nothing; seconds between them
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_LINKS = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EACCES)  # of SMB and FUSE mounts


def checksum(array: NDArray[Any]) -> int:
    """CRC32C of an array's bytes in C order."""
    contiguous: Any = np.ascontiguousarray(array)  # read where it is: its bytes would be a copy
    return int(google_crc32c.value(contiguous))


def checksum_of(content: Any) -> int:
    """CRC32C of bytes, or of memory."""
    return int(google_crc32c.value(content if isinstance(content, bytes) else np.frombuffer(content, np.uint8)))


@overload
def beside(path: Path) -> Path:
    """On this machine."""


@overload
def beside(path: Named) -> Place:
    """Wherever it is."""


def beside(path: Named) -> Place:
    """A name beside a path that nothing has: what is made there takes its place when it is whole."""
    target = place(path).absolute()
    return replacing.beside(target) if isinstance(target, ObjectPath) else _beside(target)


def _beside(target: Path) -> Path:
    return target.with_name(f"{short(target.name)}.{uuid.uuid4().hex}{PARTIAL}")


def short(name: str) -> str:
    """What names beside one begin with: itself, or where it is long its beginning and a digest, the same each time."""
    content = os.fsencode(name)
    if len(content) <= MOST_NAME:
        return name
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return f"{content[: MOST_NAME - 20].decode(errors='ignore')}-{digest}"  # no part of a character


def folder_at(path: Place) -> None:
    """Make a folder and those above it; a file that has its name, which no run makes, goes."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        path.unlink()
        path.mkdir()


@contextmanager
def room_for(path: Named, needed: int) -> Iterator[None]:
    """Turn the system's word that a disk is full into an error with numbers.

    path: What is written, for the message and the free bytes.
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


def remove_partials(folder: Named, *below: str) -> None:
    """Remove what a killed process was making in a folder, and in those below it that match; others are left alone."""
    root = place(folder)
    if isinstance(root, ObjectPath):
        return  # there a put leaves nothing
    for at in ("", *below):
        for left in root.glob(f"{at}*{PARTIAL}"):
            if LEFT.search(left.name):
                discard(left)


def discard(path: Place) -> None:
    """Remove a file or a folder, if it is there; of a link itself."""
    if isinstance(path, ObjectPath):
        path.remove_all()
    elif path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def take_place(new: Named, target: Named) -> None:
    """Give a file or folder that is whole its name, in the place of what has that.

    Raises OSError: What was there is there again.
    """
    comes, there = place(new), place(target)
    if isinstance(comes, ObjectPath) or isinstance(there, ObjectPath):
        assert isinstance(comes, ObjectPath) and isinstance(there, ObjectPath)
        replacing.take_place(comes, there)
        return
    folders = comes.is_dir() or (there.is_dir() and not there.is_symlink())
    if not folders or not os.path.lexists(there):
        os.replace(comes, there)
        return
    whole = _beside(there.absolute())  # a folder can't be renamed over one that has files in it
    old = whole.with_name(f"{whole.name.removesuffix(PARTIAL)}{OLD}{PARTIAL}")
    os.rename(there, old)
    try:
        os.rename(comes, there)
    except BaseException:
        if not os.path.lexists(there):
            os.rename(old, there)
        raise
    _discard_old(old, there)


def set_aside(path: Named) -> Place | None:
    """What had the name of a path at which nothing is now, since what was to take its place was killed in between.

    In object storage it is the new one, which will take it.
    """
    target = place(path).absolute()
    if isinstance(target, ObjectPath):
        return replacing.coming(target)
    if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
        return None
    return max((left for left in _left_beside(target) if left.stem.endswith(OLD)), default=None)


def settle(path: Named) -> None:
    """Put back what was set aside, and remove what a killed process was making beside a path; for its sole writer.

    In object storage what was begun is finished instead.

    Raises OSError: It can't be put back; nothing was removed.
    """
    target = place(path).absolute()
    if isinstance(target, ObjectPath):
        replacing.settle(target)
        return
    old = set_aside(target)
    if isinstance(old, Path):
        os.rename(old, target)
    for left in _left_beside(target):
        _discard_old(left, target)


def _discard_old(left: Path, target: Path) -> None:
    """Remove what has no use beside a path that has what it should.

    What was set aside is renamed first: killed in between, half of it would be put back once the path is free.
    """
    if left.stem.endswith(OLD):
        rubbish = _beside(target.absolute())
        try:
            left = left.rename(rubbish)
        except OSError:
            return  # it is whole, and goes the next time
    discard(left)


def _left_beside(target: Path) -> list[Path]:
    """Entries that have the name of one that was, or was to be, at a path."""
    if not target.parent.is_dir():
        return []
    start = short(target.name)
    names = [name for name in os.listdir(target.parent) if name.startswith(start) and LEFT.match(name, len(start))]
    return [target.with_name(name) for name in names]


def put(path: Named, content: Any) -> None:
    """Write a file whole, in the place of one that is there."""
    target = place(path)
    if isinstance(target, ObjectPath):
        target.write_bytes(content)
        return
    partial = _beside(target.absolute())
    with room_for(target, memoryview(content).nbytes):
        try:
            _write(partial, content)
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def put_once(path: Named, content: Any) -> bool:
    """Write a file whole unless one is there, which stays; whether this content is what is there now.

    Whoever put the same has done the same: it may have been this call, whose answer was lost on its way from a server
    of objects or files, so that the request was sent again. What only one may have put names who did.

    Where the file system has no links it is made under its name, and a reader may find a part of it: what is read as
    JSON with a schema is none until it is whole, and a part that a killed process left can be replaced.
    """
    target = place(path)
    for _ in range(TRIES):
        if _put_new(target, content):
            return True
        try:
            return read_plain(target, memoryview(content).nbytes) == bytes(content)
        except DamagedStoreError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                return False
            time.sleep(PAUSE)  # refused in favour of another request that came to nothing, or it was removed
    return False


def _put_new(target: Place, content: Any) -> bool:
    """Whether a file was put where none was, as far as the answer says."""
    if isinstance(target, ObjectPath):
        try:
            target.write_bytes(content, once=True)
        except FileExistsError:
            return False
        return True
    partial = _beside(target.absolute())
    with room_for(target, memoryview(content).nbytes):
        try:
            _write(partial, content)
            os.link(partial, target)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            return _created(target, content)
        finally:
            partial.unlink(missing_ok=True)
    return True


def _created(target: Path, content: Any) -> bool:
    """Whether a file was made where none was."""
    try:
        _write(target, content)
    except FileExistsError:
        return False
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    return True


def _write(path: Path, content: Any) -> None:
    """Without Python's buffer, and with every byte: a full disk may take a part of them."""
    left = memoryview(content).cast("B") if memoryview(content).nbytes else memoryview(b"")
    with path.open("xb", buffering=0) as stream:
        while left.nbytes:
            left = left[stream.write(left) or 0 :]
