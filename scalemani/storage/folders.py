"""Paths of this machine, with what a store asks of a place; :mod:`scalemani.storage.files` lists that.

Every file is written to a scratch name, `<name>.<hex>.partial`, and renamed, or linked where the first to come must
stay: what has a name is whole. Replacing a folder is two renames: the old one to `.old.partial`, the new one into
place. If the process dies between them, `recover` renames the old one back. Once the new one is in place the old one
loses that name before anything of it is removed.
"""

import errno
import hashlib
import io
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import PosixPath
from typing import Any

from scalemani.errors import DiskFullError, ScalemaniError

PARTIAL = ".partial"  # how scratch names end
OLD = ".old"  # before that, in the name of what something else is replacing
MOST_NAME = 100  # bytes of a name that scratch names begin with; file systems take 255, or 143
LEFT = re.compile(rf"\.[0-9a-f]{{32}}({OLD})?{PARTIAL}\Z")
FULL = (errno.ENOSPC, errno.EDQUOT)
NO_LINKS = (errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.ENOSYS, errno.EACCES)  # of SMB and FUSE mounts


class FilePath(PosixPath):
    """A path of this machine."""

    __slots__ = ()
    REMOTE = False  # whether each look at it is a request to a server
    INTERRUPTED = "the run that was to be replaced is {}: give it its name again"
    unseen_remedy = "give a path on a file system that all of them share"
    in_bucket = None  # a bucket's own store and the key in it, for packages that read it in their own way

    # ---- names -----------------------------------------------------------------------------------

    def normal(self) -> "FilePath":
        """Absolute, whatever folder this process is in, without "..".

        >>> str(FilePath("/a//b/../c").normal())
        '/a/c'
        """
        return FilePath(os.path.abspath(self))

    def real(self) -> "FilePath":
        """Absolute, with symlinks resolved: one name for one place."""
        return FilePath(os.path.realpath(self))

    def shared_name(self) -> "FilePath":
        """As :meth:`real`, so that every process uses the same folder; a broken link as it is: opening it fails."""
        return self.real() if self.exists() else self.normal()

    def above(self) -> list["FilePath"]:
        """The folders that it is in, nearest first, links resolved."""
        folder, own = self.parent.real(), self.real()
        return list(dict.fromkeys([folder, *folder.parents, *own.parents]))

    def nearest_folder(self) -> "FilePath":
        """The folder that is there: itself, or the nearest above."""
        found = self.absolute()
        while not found.is_dir() and found != found.parent:
            found = found.parent
        return found

    def scratch_name(self) -> "FilePath":
        """A name beside it that nothing has: what is made there gets this name when it is whole."""
        target = self.absolute()
        return target.with_name(f"{short_name(target.name)}.{uuid.uuid4().hex}{PARTIAL}")

    def start_name(self) -> "FilePath":
        """Where something starts that two processes may begin at once: a scratch name, since a rename decides."""
        return self.scratch_name()

    # ---- what is there ---------------------------------------------------------------------------

    def is_there(self) -> bool:
        """Whether anything has the name, be it a broken link."""
        return os.path.lexists(self)

    def is_begun(self) -> bool:
        """Whether a part of an array has this name: never, since arrays are made at scratch names."""
        return False

    def size(self) -> int:
        return self.stat().st_size

    def names(self) -> set[str]:
        return set(os.listdir(self))

    def identity(self) -> bytes:
        """What file or folder it is, whatever its name."""
        state = self.lstat()
        return f"{state.st_dev} {state.st_ino}".encode()

    def strange_entries(self, levels: int) -> Iterator[tuple[str, str]]:
        """Entries that are neither folders nor plain files, and what they are; the folder itself may be a link.

        levels: Of folders that are listed. One entry costs no more than its name: kinds come with the listing.
        """
        left = [(str(self), levels - 1)]
        while left:
            at, below = left.pop()
            try:
                with os.scandir(at) as entries:
                    for entry in entries:
                        if entry.is_symlink():
                            yield entry.path, "is a symbolic link, which a store never holds"
                        elif entry.is_dir(follow_symlinks=False):
                            left += [(entry.path, below - 1)] if below else []
                        elif not entry.is_file(follow_symlinks=False):
                            yield entry.path, "is neither a folder nor a plain file"
            except FileNotFoundError:
                continue  # what another process finished or dropped meanwhile
            except OSError as error:
                yield at, f"can't be listed: {error.strerror or error}"

    def bytes_below(self) -> int:
        """Bytes of all files below; links are followed, each folder once. What is no file is refused."""
        total, left, seen = 0, [str(self)], set[str]()
        while left:
            at = os.path.realpath(left.pop())
            if at in seen:
                continue
            seen.add(at)
            with os.scandir(at) as entries:
                for entry in entries:
                    if entry.is_dir():
                        left.append(entry.path)
                        continue
                    try:
                        state = entry.stat()
                    except OSError:
                        continue  # a link to nothing is a chunk that isn't there
                    if not stat.S_ISREG(state.st_mode):  # a pipe, a socket or a device: reading it might never end
                        raise ScalemaniError(f"{entry.path!r} is neither a folder nor a plain file; remove it")
                    total += state.st_size
        return total

    # ---- reading ---------------------------------------------------------------------------------

    def open_plain(self, flags: int = os.O_RDONLY) -> io.FileIO:
        """A plain file, open without a buffer; nothing is waited for, and no link is followed at the end of the path.

        Raises OSError: As the system says.
        Raises ValueError: If it is anything but a plain file.
        """
        try:  # a pipe would wait for its other end
            descriptor = os.open(self, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if self.is_symlink():
                why = "it is a symbolic link, which a store never holds"
                raise OSError(error.errno, why, str(self)) from error
            raise
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError("it is not a plain file")
            return io.FileIO(descriptor, "rb" if flags == os.O_RDONLY else "rb+")
        except BaseException:
            os.close(descriptor)
            raise

    def read(self, most: int) -> bytes:
        """The whole file; ValueError, and nothing is read, where it has more bytes or is no plain file."""
        with self.open_plain() as file:
            size = os.fstat(file.fileno()).st_size
            if size > most:
                raise ValueError(f"it has {size:,} bytes, where at most {most:,} are expected")
            with io.BufferedReader(file) as whole:  # one read of the file itself need not give all of it
                content = whole.read(size + 1)  # a reader takes memory for what it is asked for, not for what is there
        if len(content) > size:
            raise ValueError("it grew while it was read")
        return content

    def read_into(self, memory: Any) -> int:
        """Read the file into memory; how many bytes those are. ValueError where it has more than there is room."""
        room, done = memoryview(memory).cast("B"), 0
        with self.open_plain() as stream:
            while done < room.nbytes and (read := stream.readinto(room[done:])):
                done += read
            if done == room.nbytes and stream.read(1):
                raise ValueError(f"more than {room.nbytes} bytes")
        return done

    # ---- writing ---------------------------------------------------------------------------------

    def put(self, content: Any) -> None:
        """Write the file whole, in place of one that is there."""
        partial = self.scratch_name()
        with room_for(self, memoryview(content).nbytes):
            try:
                _write(partial, content)
                os.replace(partial, self)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise

    def put_new(self, content: Any) -> bool:
        """Write the file whole unless one is there; whether none was, as far as the answer says.

        Where the file system has no links it is made under its name, and a reader may find a part of it.
        """
        partial = self.scratch_name()
        with room_for(self, memoryview(content).nbytes):
            try:
                _write(partial, content)
                os.link(partial, self)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in NO_LINKS:
                    raise
                return self._create(content)
            finally:
                partial.unlink(missing_ok=True)
        return True

    def _create(self, content: Any) -> bool:
        """Whether the file was made where none was."""
        try:
            _write(self, content)
        except FileExistsError:
            return False
        except BaseException:
            self.unlink(missing_ok=True)
            raise
        return True

    def write(self, *parts: Any) -> None:
        """Write a new file of a folder that is being :meth:`built`: it need not be whole before that is."""
        self.parent.mkdir(parents=True, exist_ok=True)
        with self.open("xb") as stream:
            for part in parts:
                stream.write(part)

    def write_in_place(self, content: bytes) -> None:
        """Write over the beginning of the file, which takes no room on a full disk."""
        with self.open_plain(os.O_RDWR) as stream:
            stream.write(content)

    def make_folder(self) -> None:
        """Make it and the folders above it; a file that has its name, which no run makes, goes."""
        try:
            self.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            self.unlink()
            self.mkdir()

    def make_folders(self) -> "list[FilePath]":
        """Make it and the folders above it; those that were not there, lowest first."""
        missing = [folder for folder in (self, *self.parents) if not folder.exists()]
        self.mkdir(parents=True, exist_ok=True)
        return missing

    def remove(self) -> None:
        """Remove the file or folder if it is there; a link itself."""
        if self.is_dir() and not self.is_symlink():
            shutil.rmtree(self, ignore_errors=True)
        else:
            self.unlink(missing_ok=True)

    def remove_at_once(self) -> None:
        """Remove a folder if it is there; a stop in between leaves no half of it under its name."""
        if self.exists():
            self.rename(self.scratch_name()).remove()

    def remove_scratch(self, *below: str) -> None:
        """Remove what a killed process was making in this folder, and in those below it that match; nothing else."""
        for left in (found for at in ("", *below) for found in self.glob(f"{at}*{PARTIAL}")):
            if LEFT.search(left.name):
                left.remove()

    # ---- one thing in the place of another -------------------------------------------------------

    @contextmanager
    def built(self, needed: int, *, replace: bool = False) -> "Iterator[FilePath]":
        """A new folder, which gets this name when the block ends well, and goes when not.

        needed: Bytes, for the message of a full disk.
        replace: What is there is replaced; else nothing may be there.
        """
        partial = self.scratch_name()
        with room_for(self, needed):
            try:
                partial.mkdir()
                yield partial
                (self.replace_with if replace else self.take)(partial)
            except BaseException:
                partial.remove()
                raise

    def take(self, new: Any) -> None:
        """Give a folder that is whole this name, which nothing but an empty folder has; else an OSError."""
        os.rename(new, self)

    def take_back(self, new: Any) -> bool:
        """Whether a `take` of `new` that was stopped had done a part, which is removed: never, since it is a rename."""
        return False

    def replace_with(self, new: Any) -> None:
        """Give a file or folder that is whole this name, in place of what has that, which an OSError leaves there."""
        folders = new.is_dir() or (self.is_dir() and not self.is_symlink())
        if not folders or not os.path.lexists(self):
            os.replace(new, self)
            return
        whole = self.scratch_name()  # a folder can't be renamed over one that has files in it
        old = whole.with_name(f"{whole.name.removesuffix(PARTIAL)}{OLD}{PARTIAL}")
        os.rename(self, old)
        try:
            os.rename(new, self)
        except BaseException:
            if not os.path.lexists(self):
                os.rename(old, self)
            raise
        self._remove_left(old)

    def interrupted(self) -> "FilePath | None":
        """What had this name, which nothing has now, since its replacing was killed in between."""
        target = self.absolute()
        if os.path.lexists(target) and not (target.is_dir() and not any(target.iterdir())):
            return None
        return max((left for left in target._left() if left.stem.endswith(OLD)), default=None)

    def recover(self) -> None:
        """Put back what was being replaced, and remove what a killed process was making; for the sole writer here.

        Raises OSError: It can't be put back; nothing was removed.
        """
        target = self.absolute()
        old = target.interrupted()
        if old is not None:
            os.rename(old, target)
        for left in target._left():
            target._remove_left(left)

    def _left(self) -> "list[FilePath]":
        """What has a scratch name of this one."""
        if not self.parent.is_dir():
            return []
        start = short_name(self.name)
        names = [name for name in os.listdir(self.parent) if name.startswith(start) and LEFT.match(name, len(start))]
        return [self.with_name(name) for name in names]

    def _remove_left(self, left: "FilePath") -> None:
        """Remove what has a scratch name and is of no use.

        A folder that was replaced is renamed first: killed in between, half of it would be put back.
        """
        if left.stem.endswith(OLD):
            try:
                left = left.rename(self.scratch_name())
            except OSError:
                return  # it is whole, and goes the next time
        left.remove()

    # ---- before any work -------------------------------------------------------------------------

    def free_bytes(self) -> int:
        """Free bytes on the disk that it is on, or will be."""
        return shutil.disk_usage(self.nearest_folder()).free

    def check_writable(self) -> None:
        """Make a folder beside it, or above it, and remove it; OSError where that can't be, or the name is too long."""
        parent = self.parent
        while not os.path.lexists(parent):
            parent = parent.parent
        probe = parent / f".scalemani-{uuid.uuid4().hex}"
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(self)  # its name may be too long
        probe.mkdir()
        probe.rmdir()


def _write(path: FilePath, content: Any) -> None:
    """Write without Python's buffer, and every byte: a full disk may take a part of them."""
    left = memoryview(content).cast("B") if memoryview(content).nbytes else memoryview(b"")
    with path.open("xb", buffering=0) as stream:
        while left.nbytes:
            left = left[stream.write(left) or 0 :]


@contextmanager
def room_for(path: object, needed: int) -> Iterator[None]:
    """Turn the system's word that a disk is full into an error with numbers.

    path: What is written, for the message and the free bytes; in object storage no disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        free = FilePath(str(path)).free_bytes()
        why = "the quota is used up" if error.errno == errno.EDQUOT else f"{free:,} bytes are free"
        raise DiskFullError(
            f"the disk of {str(path)!r} is full: {needed:,} bytes were to be written and {why}; free some, then give "
            "the same command again: what is finished is kept"
        ) from error


def short_name(name: str) -> str:
    """What scratch names begin with: the name, or where it is long its beginning and a digest, the same each time."""
    content = os.fsencode(name)
    if len(content) <= MOST_NAME:
        return name
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return f"{content[: MOST_NAME - 20].decode(errors='ignore')}-{digest}"  # no part of a character
