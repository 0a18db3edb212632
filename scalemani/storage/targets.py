"""Where a run is to be: what is at a path, and whether a run can be made there; temporary folders go by themselves."""

import shutil
import tempfile
from multiprocessing.util import Finalize

from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError, StoreUnreachableError
from scalemani.storage.arrays import first_stray
from scalemani.storage.files import AnyPath, Location, open_location
from scalemani.storage.json import read_json
from scalemani.storage.records import COPY, KEY, MOST_DOCUMENT_BYTES, ROOT
from scalemani.storage.writer import Writer

OF_A_RUN = ("digests", "tie_rank", "order", "neighbors_indptr", "ledger")  # folders of a run whose document is lost


class StoreFolder:
    """Where a run is: the user's path, or a temporary folder that goes when nothing refers to it."""

    def __init__(self, path: str | None) -> None:
        self.temporary = path is None
        if path is not None:
            self.path = str(open_location(path).shared_name())
            return
        try:
            self.path = tempfile.mkdtemp(prefix="scalemani-")
        except OSError as error:
            raise ScalemaniError(
                f"a model with store=None needs a temporary folder, and none can be made ({error}): set TMPDIR to "
                "a folder that can be written, or give fit a store path"
            ) from error
        # At the end of this process too, but not at that of one that is forked from it, which did not make it.
        self._remove = Finalize(self, shutil.rmtree, (self.path,), {"ignore_errors": True}, exitpriority=0)

    def discard(self) -> None:
        """Remove a temporary folder now; a user's path is never removed."""
        if self.temporary:
            self._remove()


def kind_of(path: AnyPath) -> str:
    """What is at a path: "run" (a store of this package), "other", or "nothing", which an empty folder is too."""
    there = open_location(path)
    if not there.is_there() or (there.is_dir() and not any(there.iterdir())):
        return "nothing"
    return "run" if _is_run(there) else "other"


def _is_run(there: Location) -> bool:
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


def check_outside(path: AnyPath) -> None:
    """Refuse a path that lies in a run, where repair and overwrite would take it for a part of that."""
    for parent in open_location(path).normal().above():
        try:
            found = _is_run(parent)
        except (OSError, StoreUnreachableError):  # no right to look there, where nobody could write either
            continue
        if found:
            raise ScalemaniError(f"{str(path)!r} lies in the run at {str(parent)!r}: give a path outside of it")


def check_replaceable(path: AnyPath) -> None:
    """Refuse to overwrite a run with something in it that no run makes, naming that: it would go with the run."""
    there = open_location(path).normal()
    stray = first_stray(there) if kind_of(there) == "run" else None
    if stray is not None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in stray)
        raise ScalemaniError(
            f"the run at {str(path)!r} can't be overwritten: {shown!r} in it is no part of a run and would be lost; "
            "move that elsewhere first"
        )


def check_writable(path: AnyPath, *, replacing: bool = False) -> None:
    """Refuse a path in a run, or one that can't be written, before any work; leaves nothing behind.

    Raises ScalemaniError: Naming the path and the system's reason; with `replacing` also as :func:`check_replaceable`.
    """
    target = open_location(path).absolute()
    try:
        target.check_writable()
    except (OSError, StoreUnreachableError) as error:
        why = f"{error.strerror}; give another path" if isinstance(error, OSError) else error
        raise ScalemaniError(f"the store {str(path)!r} can't be written: {why}") from error
    check_outside(target)
    if replacing:
        check_replaceable(target)


def put_back(path: AnyPath) -> None:
    """Finish at a path what a kill interrupted: the old run or the new one is there. Refused where a fit is at it."""
    if open_location(path).interrupted() is None:
        return
    try:
        with Writer(path):
            pass  # it recovers what it finds
    except StoreInUseError:
        raise
    except (ScalemaniError, OSError):
        return  # no right to write there: who opens the run says where the old one is
