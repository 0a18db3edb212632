"""A path for a run: takes it, says what is there and whether a run can be made; makes nothing that stays."""

import contextlib
import os
import uuid

from scalemani.engine.document import COPY, KEY, ROOT
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import set_aside
from scalemani.engine.places import Named, is_there, place
from scalemani.engine.schemas import MOST_DOCUMENT_BYTES, read_json
from scalemani.engine.writer import Writer
from scalemani.errors import DamagedStoreError, ScalemaniError, StoreInUseError, StoreUnreachableError

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
    for name in (ROOT, COPY):  # a run whose root is damaged is still a run
        try:
            found = read_json(there / name, MOST_DOCUMENT_BYTES)
            if "stages" in found or KEY in found["attributes"]:
                return "run"
        except (DamagedStoreError, KeyError, TypeError):
            continue
    both = (there / ROOT).is_file() and (there / COPY).is_file()  # unreadable: nothing but overwrite helps
    return "run" if both and any((there / name).is_dir() for name in OF_A_RUN) else "other"


def put_back(path: Named) -> None:
    """Put back a run that was to be replaced at a path, if the one that was to replace it was killed in between.

    In object storage the new one takes the place.

    Raises
    ------
    StoreInUseError
        If a fit is replacing it now.
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


def check_writable(path: Named) -> None:
    """Refuse a path at which no folder, or no object, can be made, before any work; leaves nothing behind.

    Raises
    ------
    ScalemaniError
        Naming the path and the system's reason.
    """
    target = place(path).absolute()
    if isinstance(target, ObjectPath):
        try:
            target.check_right()
        except StoreUnreachableError as error:
            raise ScalemaniError(f"the store {str(path)!r} can't be written: {error}") from error
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
