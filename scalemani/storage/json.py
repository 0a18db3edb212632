"""Files of a store, read as if a stranger wrote them: takes a path, gives its bytes or its JSON, or says what is off.

The size is bounded before a byte is read. What is no plain file (a link, a pipe, a device) is never read, so that
nothing hangs and no path leads out of the store. JSON is read by msgspec, which refuses what a run never writes: NaN,
infinities, half surrogates, text that is not UTF-8, and lists a hundred thousand deep. A repeated key passes: what it
would change has a checksum.
"""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from scalemani.errors import DamagedStoreError
from scalemani.storage.buckets import ObjectPath
from scalemani.storage.locations import Named, Place, place

DEPTH = 32  # levels of folders below a store that are looked at; a run has 4
REMEDY = "'scalemani verify' says what can be mended, or fit again with overwrite"  # about all that is damaged


def damaged(where: str, what: str) -> DamagedStoreError:
    """The error of one line: where, what is wrong, what to do. Control characters of a file never reach a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in what)
    return DamagedStoreError(f"{where}: {shown if len(shown) <= 240 else shown[:237] + '...'}; {REMEDY}")


def read_plain(path: Named, most_bytes: int) -> bytes:
    """The bytes of a plain file, or an object, of a store, no more than `most_bytes`.

    Raises DamagedStoreError: If it is missing, larger, or anything but a plain file.
    Raises StoreUnreachableError: If nobody can say which.
    """
    where = repr(str(path))
    if isinstance(path, ObjectPath):
        try:
            return path.read_up_to(most_bytes)
        except ValueError as error:
            raise damaged(where, str(error)) from error
        except FileNotFoundError as error:
            raise damaged(where, f"can't be read: {_reason(error)}") from error
    try:
        with open_plain(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > most_bytes:
                raise damaged(where, f"has {size:,} bytes, where at most {most_bytes:,} are expected")
            content = _up_to(file, size + 1)  # a reader takes memory for what it is asked for, not for what is there
    except (OSError, ValueError) as error:
        why = "it is a symbolic link, which a store never holds" if os.path.islink(path) else _reason(error)
        raise damaged(where, f"can't be read: {why}") from error
    if len(content) > size:
        raise damaged(where, "grew while it was read")
    return content


def open_plain(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> io.FileIO:
    """A plain file, open without a buffer; nothing is waited for, and no link is followed at the end of the path.

    Raises OSError: As the system says; a link is ELOOP.
    Raises ValueError: If it is anything but a plain file.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe waits for its other end
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a plain file")
        return io.FileIO(descriptor, "rb" if flags == os.O_RDONLY else "rb+")
    except BaseException:
        os.close(descriptor)
        raise


def read_into(path: Named, memory: Any) -> int:
    """Read a plain file or an object of a store into memory; its bytes, of which no more than there is room are read.

    Raises OSError: As :func:`open_plain`.
    Raises ValueError: If it has more, or is anything but a plain file.
    """
    if isinstance(path, ObjectPath):
        return path.read_into(memory)
    room, done = memoryview(memory).cast("B"), 0
    with open_plain(path) as stream:
        while done < room.nbytes and (read := stream.readinto(room[done:])):
            done += read
        if done == room.nbytes and stream.read(1):
            raise ValueError(f"more than {room.nbytes} bytes")
    return done


def _up_to(file: io.FileIO, most: int) -> bytes:
    """What a file still has, but for what is beyond `most` bytes; one read need not give all of it."""
    with io.BufferedReader(file) as whole:
        return whole.read(most)


def read_json(path: Named, most_bytes: int, kind: Any = Any) -> Any:
    """The value in a JSON file of a store.

    most_bytes: A larger file is refused before it is read.
    kind: What it has to be: a type as msgspec takes them.
    Raises DamagedStoreError: As :func:`read_plain`; or it is no JSON, or none of that kind.

    >>> import os, tempfile
    >>> name = os.path.join(tempfile.mkdtemp(), "x.json")
    >>> with open(name, "w") as file: _ = file.write('{"a": [1, 2]}')
    >>> read_json(name, 100, dict[str, list[int]])
    {'a': [1, 2]}
    """
    return parsed(read_plain(path, most_bytes), repr(str(path)), kind)


def parsed(content: bytes, where: str, kind: Any = Any) -> Any:
    """The JSON value of bytes that were read; `where` names them in errors.

    Raises DamagedStoreError: As :func:`read_json`.
    """
    with refused(where):
        return msgspec.json.decode(content, type=kind)


@contextmanager
def refused(where: str) -> Iterator[None]:
    """Say in one line what msgspec refuses in the block."""
    try:
        yield
    except RecursionError as error:
        raise damaged(where, "is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise damaged(where, f"is not UTF-8 text (byte {error.start})") from error
    except msgspec.ValidationError as error:
        raise damaged(where, f"is not what a run writes ({error})") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise damaged(where, f"is not JSON as a run writes it ({error})") from error


def check_no_links(folder: Named, levels: int = DEPTH) -> None:
    """Refuse a store that holds anything but folders and plain files; the folder itself may be a link.

    One entry costs no more than its name: kinds come with the listing.

    levels: Of folders that are listed.
    Raises DamagedStoreError: Naming the first that is found.
    """
    if isinstance(folder, ObjectPath):
        return  # there are none
    left = [(os.fspath(folder), levels - 1)]
    while left:
        at, below = left.pop()
        try:
            with os.scandir(at) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        raise damaged(repr(entry.path), "is a symbolic link, which a store never holds")
                    if entry.is_dir(follow_symlinks=False):
                        left += [(entry.path, below - 1)] if below else []
                    elif not entry.is_file(follow_symlinks=False):
                        raise damaged(repr(entry.path), "is neither a folder nor a plain file")
        except FileNotFoundError:
            continue  # what another process finished or dropped meanwhile
        except OSError as error:
            raise damaged(repr(at), f"can't be listed: {_reason(error)}") from error


def check_inside(folder: Named, name: str) -> Place:
    """The path of a store's entry, whose parts are checked one by one: no links, no way up."""
    path = place(folder)
    for part in name.split("/"):
        path = path / part
        if part in ("", ".", "..") or "\0" in part or path.is_symlink():
            raise damaged(repr(str(path)), "leads out of the store")
    return path


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)
