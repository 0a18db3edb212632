"""JSON of a store, read as if a stranger wrote it: takes a path, gives its value, or one line that says what is off.

The size is bounded before a byte is read, and so are depth and the digits of integers. What JSON leaves open is
refused: NaN, repeated keys, text that is not UTF-8. What is no plain file (a link, a pipe, a device) is never read, so
that nothing hangs and no path leads out of the store.
"""

import io
import json
import math
import os
import stat
from typing import Any

from scalemani.errors import DamagedStoreError
from scalemani.storage.buckets import ObjectPath
from scalemani.storage.locations import Named, Place, place

DEPTH = 32  # levels of lists and objects; a run's document has 7
DIGITS = 400  # of an integer: float64's largest has 309
MAY_BE_INFINITE = "metric_params"  # Minkowski's p; the one place where a run records an infinity
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


def read_json(path: Named, most_bytes: int) -> Any:
    """The value in a JSON file of a store.

    most_bytes: A larger file is refused before it is read.
    Raises DamagedStoreError: As :func:`read_plain`; or not UTF-8, not JSON, NaN or an infinity (but below
        "metric_params"), a key twice in one object, more than 32 levels, an integer of more than 400 digits.

    >>> import os, tempfile
    >>> name = os.path.join(tempfile.mkdtemp(), "x.json")
    >>> with open(name, "w") as file: _ = file.write('{"a": [1, 2]}')
    >>> read_json(name, 100)
    {'a': [1, 2]}
    """
    return parsed(read_plain(path, most_bytes), repr(str(path)))


def parsed(content: bytes, where: str) -> Any:
    """The JSON value of bytes that were read; `where` names them in errors.

    Raises DamagedStoreError: As :func:`read_json`.
    """
    try:
        value = json.loads(
            content.decode("utf-8"),
            parse_constant=_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError as error:
        raise damaged(where, f"is not UTF-8 text (byte {error.start})") from error
    except RecursionError as error:
        raise damaged(where, f"is nested deeper than {DEPTH} levels") from error
    except ValueError as error:
        raise damaged(where, f"is not JSON as a run writes it ({error})") from error
    _look_through(value, where)
    return value


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


# ---- the hooks of the parser -------------------------------------------------------------------------


def _constant(text: str) -> float:
    if text == "NaN":
        raise ValueError("it has NaN")
    return float(text)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is beyond float64")
    return number


def _integer(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"an integer has {len(text):,} digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice[:40]!r} is there twice")
    return found


def _look_through(value: Any, where: str) -> None:
    """Refuse what the parser can't: depth, infinities in the wrong place, halves of surrogate pairs."""
    level: list[tuple[Any, bool]] = [([value], False)]
    for _ in range(DEPTH + 1):
        below: list[tuple[Any, bool]] = []
        for container, allowed in level:
            for key, item in container.items() if isinstance(container, dict) else ((None, part) for part in container):
                if key is not None:
                    _check_text(key, where)
                infinite = allowed or key == MAY_BE_INFINITE
                if isinstance(item, dict | list):
                    below.append((item, infinite))
                elif isinstance(item, str):
                    _check_text(item, where)
                elif isinstance(item, float) and math.isinf(item) and not infinite:
                    raise damaged(where, "is not JSON as a run writes it (it has an infinity)")
        if not below:
            return
        level = below
    raise damaged(where, f"is nested deeper than {DEPTH} levels")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise damaged(where, "has a text with half of a surrogate pair") from error


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error)
