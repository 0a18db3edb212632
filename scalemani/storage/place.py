"""A path for a run: takes it, says what is there and whether a run can be made; makes nothing that stays.

Where a run is while it is in use: takes the user's path or none, gives one; a temporary one goes by itself.
"""

import contextlib
import os
import shutil
import tempfile
import uuid
from multiprocessing.util import Finalize
from pathlib import Path

from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError, StoreUnreachableError
from scalemani.storage.arrays import first_stray
from scalemani.storage.buckets import ObjectPath
from scalemani.storage.files import set_aside
from scalemani.storage.json import read_json
from scalemani.storage.locations import Named, Place, absolute, following, is_there, place
from scalemani.storage.records import COPY, KEY, MOST_DOCUMENT_BYTES, ROOT
from scalemani.storage.writer import Writer


class StoreFolder:
    """Where a run is: the user's path, or a temporary folder that goes when nothing refers to it."""

    def __init__(self, path: str | None) -> None:
        self.temporary = path is None
        if path is None:
            try:
                self.path = tempfile.mkdtemp(prefix="scalemani-")
            except OSError as error:
                raise ScalemaniError(
                    f"a model with store=None needs a temporary folder, and none can be made ({error}): set TMPDIR to "
                    "a folder that can be written, or give fit a store path"
                ) from error
        else:  # a link is followed once, so that all see one folder; one that leads nowhere is left to be refused
            self.path = str(following(path))
        if self.temporary:
            # At the end of this process too, but not at that of one that is forked from it, which did not make it.
            self._remove = Finalize(self, shutil.rmtree, (self.path,), {"ignore_errors": True}, exitpriority=0)

    def discard(self) -> None:
        """Remove a temporary folder now; a user's path is never removed."""
        if self.temporary:
            self._remove()


OF_A_RUN = ("digests", "tie_rank", "order", "neighbors_indptr", "ledger")  # folders of a run whose document is lost


def kind_of(path: Named) -> str:
    """What is at a path: "nothing", "run" (a store of this package) or "other".

    An empty folder is "nothing": a run may be made there.
    """
    there = place(path)
    if not is_there(there):
        return "nothing"
    if there.is_dir() and not any(there.iterdir()):
        return "nothing"
    return "run" if _is_run(there) else "other"


def _is_run(there: Place) -> bool:
    """Whether a folder that is there is a run."""
    for name in (ROOT, COPY):  # a run whose root is damaged is still a run
        try:
            found = read_json(there / name, MOST_DOCUMENT_BYTES)
            if "stages" in found or KEY in found["attributes"]:
                return True
        except (DamagedStoreError, KeyError, TypeError):
            continue
    both = (there / ROOT).is_file() and (there / COPY).is_file()  # unreadable: nothing but overwrite helps
    return both and any((there / name).is_dir() for name in OF_A_RUN)


def check_outside(path: Named) -> None:
    """Refuse a path that lies in a run, where repair and overwrite would take it for a part of that.

    Raises ScalemaniError: Naming the run.
    """
    for parent in _above(absolute(path)):
        try:
            found = _is_run(parent)
        except (OSError, StoreUnreachableError):  # no right to look there, where nobody could write either
            continue
        if found:
            raise ScalemaniError(f"{str(path)!r} lies in the run at {str(parent)!r}: give a path outside of it")


def _above(target: Place) -> list[Place]:
    """The folders that a path is in, nearest first, links followed."""
    if isinstance(target, ObjectPath):
        names = target.key.split("/")[:-1]
        return [ObjectPath(target.bucket, "/".join(names[:count])) for count in range(len(names), 0, -1)]
    folder = Path(os.path.realpath(target.parent))
    return list(dict.fromkeys([folder, *folder.parents, *Path(os.path.realpath(target)).parents]))


def check_replaceable(path: Named) -> None:
    """Refuse to overwrite a run below whose place lies what no run makes: it would go with that.

    Raises ScalemaniError: Naming the first such entry.
    """
    there = absolute(path)
    stray = first_stray(there) if kind_of(there) == "run" else None
    if stray is not None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in stray)
        raise ScalemaniError(
            f"the run at {str(path)!r} can't be overwritten: {shown!r} in it is no part of a run and would be lost; "
            "move that elsewhere first"
        )


def put_back(path: Named) -> None:
    """Put back a run that was to be replaced at a path, if the one that was to replace it was killed in between.

    In object storage the new one takes the place.

    Raises StoreInUseError: If a fit is replacing it now.
    """
    if set_aside(path) is None:
        return
    try:
        with Writer(path):
            pass  # it settles what it finds
    except StoreInUseError:
        raise
    except (ScalemaniError, OSError):
        return  # no right to write there: who opens the run says where the old one is


def check_writable(path: Named, *, replacing: bool = False) -> None:
    """Refuse a path in a run, or at which no folder, or no object, can be made, before any work; leaves nothing behind.

    Raises ScalemaniError: Naming the path and the system's reason; with `replacing` also as :func:`check_replaceable`.
    """
    target = place(path).absolute()
    if isinstance(target, ObjectPath):
        try:
            target.check_right()
        except StoreUnreachableError as error:
            raise ScalemaniError(f"the store {str(path)!r} can't be written: {error}") from error
    check_outside(target)
    if replacing:
        check_replaceable(target)
    if isinstance(target, ObjectPath):
        return
    parent = target.parent  # what is made there is begun beside the path
    while not os.path.lexists(parent):
        parent = parent.parent
    probe = parent / f".scalemani-{uuid.uuid4().hex}"
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(target)  # its name may be too long
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise ScalemaniError(
            f"the store {str(path)!r} can't be written: {error.strerror}; give another path"
        ) from error
