"""A model without D: takes a run's document and arrays, writes them as a run of their own at another path."""

import shutil
from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import NDArray

from scalemani.engine import small_arrays
from scalemani.engine.document import RunDocument
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import beside, room_for
from scalemani.engine.places import Place
from scalemani.engine.replacing import making
from scalemani.engine.store_place import check_writable, kind_of
from scalemani.engine.writer import Writer
from scalemani.errors import ScalemaniError


def write_copy(
    target: Place,
    document: dict[str, Any],
    names: Iterable[str],
    read: Callable[[str], NDArray[Any]],
    more: Callable[[Place], None],
) -> None:
    """Write a run, whole or not at all.

    target: Absolute; folders above it are made.
    document: Its "arrays" are replaced by those that are written.
    read: Name -> array, checked.
    more: Copies what else belongs to the run, into the folder that it is given, before there is a document.
    Raises ScalemaniError: If something is at `target`.
    Raises StoreInUseError: If a fit is at work there.
    """
    check_writable(target)
    with Writer(target):
        if kind_of(target) != "nothing":
            raise ScalemaniError(f"{str(target)!r} exists: give another path, or remove it")
        if isinstance(target, ObjectPath):
            with making(target):
                _write(target, document, names, read, more)
            return
        partial = beside(target)
        try:
            with room_for(target, 1 << 20):
                partial.mkdir()
                _write(partial, document, names, read, more)
            partial.replace(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _write(
    place: Place,
    document: dict[str, Any],
    names: Iterable[str],
    read: Callable[[str], NDArray[Any]],
    more: Callable[[Place], None],
) -> None:
    sums = {name: small_arrays.write(place, name, read(name)) for name in names}
    more(place)
    RunDocument(place).write({**document, "arrays": sums})
