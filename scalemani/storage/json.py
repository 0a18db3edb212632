"""Files of a store, read as if a stranger wrote them: takes a path, gives its bytes or its JSON, or says what is off.

The size is bounded before a byte is read. What is no plain file (a link, a pipe, a device) is never read, so that
nothing hangs and no path leads out of the store. msgspec refuses what a run never writes: NaN, infinities, half
surrogates, text that is not UTF-8, and lists a hundred thousand deep. A repeated key passes: what it would change has a
checksum.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from scalemani.errors import DamagedStoreError
from scalemani.storage.files import AnyPath, Location, open_location

DEPTH = 32  # levels of folders below a store that are looked at; a run has 4
REMEDY = "'scalemani verify' says what can be mended, or fit again with overwrite"  # about all that is damaged


def damaged(where: str, what: str) -> DamagedStoreError:
    """The error of one line: where, what is wrong, what to do. Control characters of a file never reach a terminal."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in what)
    return DamagedStoreError(f"{where}: {shown if len(shown) <= 240 else shown[:237] + '...'}; {REMEDY}")


def read_plain(path: AnyPath, most_bytes: int) -> bytes:
    """The bytes of a plain file, or an object, of a store, no more than `most_bytes`.

    Raises DamagedStoreError: If it is missing, larger, or anything but a plain file.
    Raises StoreUnreachableError: If nobody can say which.
    """
    try:
        return open_location(path).read(most_bytes)
    except (OSError, ValueError) as error:
        raise damaged(repr(str(path)), f"can't be read: {getattr(error, 'strerror', None) or error}") from error


def read_json(path: AnyPath, most_bytes: int, kind: Any = Any) -> Any:
    """The value in a JSON file of a store.

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
    """The JSON value of bytes that were read, refused as by :func:`read_json`; `where` names them in errors."""
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


def check_no_links(folder: AnyPath, levels: int = DEPTH) -> None:
    """Refuse a store with anything but folders and plain files, so many levels down; it may be a link itself."""
    for entry, what in open_location(folder).strange_entries(levels):
        raise damaged(repr(entry), what)


def check_inside(folder: AnyPath, name: str) -> Location:
    """The path of a store's entry, whose parts are checked one by one: no links, no way up."""
    path = open_location(folder)
    for part in name.split("/"):
        path = path / part
        if part in ("", ".", "..") or "\0" in part or path.is_symlink():
            raise damaged(repr(str(path)), "leads out of the store")
    return path
