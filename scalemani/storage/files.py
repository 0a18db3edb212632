"""Where a run and its files are: a path of this machine (`FilePath`) or of object storage (`ObjectPath`).

:func:`open_location` gives one of the two. Both have the part of pathlib that stores use, and answer the same calls:

    put, put_new, write         a file: whole, in place of another; whole, where none is; a part of what is `built`
    read, read_into             no more than expected, and nothing but plain files
    remove, remove_at_once      with all below; so that no half of it keeps the name
    scratch_name, built         where something is made before it has its name
    replace_with, take          give it the name: in place of what has that; where nothing is
    interrupted, recover        what a kill in between left; the sole writer there puts that right
    normal, real, shared_name   one name for one place
    free_bytes, check_writable  before any work
"""

import os
import time
from collections.abc import Iterable
from typing import Any

import google_crc32c
import numpy as np

from scalemani.errors import ScalemaniError
from scalemani.storage.buckets import URL, refuse_near_url
from scalemani.storage.folders import FilePath
from scalemani.storage.objects import ObjectPath

TRIES, PAUSE = 5, 0.2  # of a put that another request prevents, which leaves nothing; seconds between them
Location = FilePath | ObjectPath
AnyPath = str | os.PathLike[str] | ObjectPath


def open_location(path: AnyPath) -> Location:
    """The place that a path or a URL names.

    Raises ScalemaniError: If it is a URL that is not known, or nearly one.

    >>> open_location("runs/a").name, open_location("runs/a") == FilePath("runs/a")
    ('a', True)
    """
    if isinstance(path, Location):
        return path
    said = os.fspath(path)
    if is_url(said):
        return ObjectPath.of(said)
    refuse_near_url(said)  # also of a Path, which takes one of two slashes away
    return FilePath(at_home(said))


def is_url(path: Any) -> bool:
    """Whether text is a URL, of whatever kind, and no path of this machine.

    >>> is_url("s3://bucket/run"), is_url("C:/run"), is_url("a:b")
    (True, False, False)
    """
    return isinstance(path, str) and "://" in path and URL.fullmatch(path) is not None


def at_home(path: str) -> str:
    """A path that begins with ``~`` or ``~user`` in that home folder; another as it is.

    ``./~`` is the name of a file or folder here. It comes back absolute: pathlib takes ``./`` away.

    Raises ScalemaniError: If there is no such user.

    >>> at_home("~/a") == os.path.expanduser("~/a"), at_home("a/~"), at_home("./~") == os.path.abspath("~")
    (True, 'a/~', True)
    """
    if not os.path.normpath(path).startswith("~"):
        return path
    if not path.startswith("~"):
        return os.path.abspath(path)
    found = os.path.expanduser(path)
    if found == path:
        raise ScalemaniError(f"{path!r}: there is no such user's home folder; give './{path}' for a file of that name")
    return found


def named(path: Any, argument: str) -> str:
    """The text of a path or URL that a user gave for an argument; a ScalemaniError where it is something else."""
    said = str(path) if isinstance(path, str | Location) else path
    said = os.fspath(said) if isinstance(said, str | os.PathLike) else None
    if isinstance(said, str) and said:
        return at_home(said)
    kind = "empty" if said == "" else f"of the type {type(path).__name__}"
    raise ScalemaniError(f"{argument} is {kind}: a path or a URL is needed")


def create_once(location: Location, content: bytes) -> bool:
    """Write a file whole unless one is there, which stays; whether this content is what is there now.

    Whoever put the same has done the same: it may have been this call, whose answer was lost on its way, so that the
    request was sent again. What only one may have put names who did. A reader that finds a part of a file
    (:meth:`FilePath.put_new`) finds no whole JSON, and may replace what a kill left.
    """
    for _ in range(TRIES):
        if location.put_new(content):
            return True
        try:
            return location.read(len(content)) == content
        except FileNotFoundError:
            time.sleep(PAUSE)  # refused in favour of another request that came to nothing, or it was removed
        except (OSError, ValueError):
            return False
    return False


def in_order(entries: Iterable[Location]) -> list[Location]:
    """Sorted by the parts of their names."""
    return sorted(entries, key=lambda entry: str(entry).split("/"))


def below(entry: Location, folder: Location) -> str:
    """The names of an entry below a folder that it is in, with "/" between them."""
    return str(entry)[len(str(folder)) + 1 :]


def checksum(content: Any) -> int:
    """CRC32C of bytes, of memory, or of an array's numbers in C order, which are read where they are."""
    contiguous: Any = content if isinstance(content, bytes) else np.ascontiguousarray(content)
    return int(google_crc32c.value(contiguous))
