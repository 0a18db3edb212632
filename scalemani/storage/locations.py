"""A place of a store: takes what a user or a task names, gives a path of this machine or one in object storage.

Both have the part of pathlib's methods that stores use. What the system does better with files, or does with nothing
else (links, renames, locks of folders), is asked for by kind: ``isinstance(place, ObjectPath)``.
"""

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scalemani.errors import ScalemaniError
from scalemani.storage.buckets import URL, ObjectPath, refuse_near_url

Place = Path | ObjectPath
Named = str | os.PathLike[str] | ObjectPath
ENDLESS = 1 << 60  # bytes that are said to be free where nobody counts


def is_url(path: Any) -> bool:
    """Whether text is a URL, of whatever kind, and no path of this machine.

    >>> is_url("s3://bucket/run"), is_url("C:/run"), is_url("a:b")
    (True, False, False)
    """
    return isinstance(path, str) and "://" in path and URL.fullmatch(path) is not None


def place(path: Named) -> Place:
    """A path of either kind.

    Raises ScalemaniError: If it is a URL that is not known, or nearly one.

    >>> place("runs/a").name, place("runs/a") == Path("runs/a")
    ('a', True)
    """
    if isinstance(path, ObjectPath):
        return path
    said = os.fspath(path)
    if is_url(said):
        return ObjectPath.of(said)
    refuse_near_url(said)  # also of a Path, which takes one of two slashes away
    at = at_home(said)
    return path if isinstance(path, Path) and at == said else Path(at)


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
    """The text of a path or URL that a user gave for an argument.

    Raises ScalemaniError: If it is something else.
    """
    said = str(path) if isinstance(path, ObjectPath) else path
    said = os.fspath(said) if isinstance(said, str | os.PathLike) else None
    if isinstance(said, str) and said:
        return at_home(said)
    kind = "empty" if said == "" else f"of the type {type(path).__name__}"
    raise ScalemaniError(f"{argument} is {kind}: a path or a URL is needed")


def absolute(path: Named) -> Place:
    """The same whatever folder this process is in.

    >>> str(absolute("/a//b/../c"))
    '/a/c'
    """
    found = place(path)
    return found if isinstance(found, ObjectPath) else Path(os.path.abspath(found))


def real(path: Named) -> Place:
    """Absolute, with links followed where there are any: one name for one place."""
    found = place(path)
    return found if isinstance(found, ObjectPath) else Path(os.path.realpath(found))


def following(path: Named) -> Place:
    """Absolute; a link is followed, so that all see one folder, unless it leads nowhere: that is left to be refused."""
    found = place(path)
    return real(found) if not isinstance(found, ObjectPath) and os.path.exists(found) else absolute(found)


def is_there(path: Named) -> bool:
    """Whether anything has the name, be it a link that leads nowhere."""
    found = place(path)
    return found.exists() if isinstance(found, ObjectPath) else os.path.lexists(found)


def in_order(entries: Iterable[Place]) -> list[Place]:
    """Sorted by the parts of their names."""
    return sorted(entries, key=lambda entry: str(entry).split("/"))


def below(entry: Place, folder: Place) -> str:
    """The names of an entry below a folder that it is in, with "/" between them."""
    return str(entry)[len(str(folder)) + 1 :]


def names_in(folder: Place) -> set[str]:
    """Names of the entries of a folder."""
    return {entry.name for entry in folder.iterdir()} if isinstance(folder, ObjectPath) else set(os.listdir(folder))


def folder_of(path: Named) -> Path:
    """The folder that is there, nearest above a path that need not be; for a URL that of temporary files."""
    found = place(path).absolute()
    while isinstance(found, Path) and not found.is_dir() and found != found.parent:
        found = found.parent
    return found if isinstance(found, Path) else Path(tempfile.gettempdir())


def free_disk(path: Named) -> int:
    """Free bytes on the disk that a path is on, or will be; object storage has no end."""
    if isinstance(place(path), ObjectPath):
        return ENDLESS
    return shutil.disk_usage(folder_of(path)).free
