"""A run in object storage that takes the place of another: takes both, leaves one whole, whatever is killed.

Nothing is renamed there, so what is to come is made whole beside the place, in ``.<name>.scalemani/<hex>``, and copied
to it by the server. Before that a journal is put, ``.<name>.scalemani/replacing.json``, which names what comes: from
there on the old run is given up, and a kill anywhere leaves the new one to be brought to its place by who opens it
or works there next (:func:`settle`). Without a journal, what is beside the place is of a process that was killed
before, and goes: the run at the place was never touched.

A copy of a model (:func:`making`) and any other thing that is made in its place, metadata last, says so in the same
folder first; what it left there is removed in the same way.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from scalemani.errors import DamagedStoreError
from scalemani.storage.buckets import ObjectPath
from scalemani.storage.json import parsed

JOURNAL, MAKING = "replacing.json", "making.json"
HEADS = ("document.json", "zarr.json")  # of a run or an array: removed first, copied last, in this order
MOST_BYTES = 4096  # of a journal


def workshop(target: ObjectPath) -> ObjectPath:
    """Where what comes to a place is made."""
    return target.with_name(f".{target.name}.scalemani")


def beside(target: ObjectPath) -> ObjectPath:
    """A name there that nothing has."""
    return workshop(target) / uuid.uuid4().hex


def take_place(new: ObjectPath, target: ObjectPath) -> None:
    """Bring what is whole to its place, whatever is there.

    Raises StoreUnreachableError: The next to open it goes on from there.
    """
    (workshop(target) / JOURNAL).write_bytes(msgspec.json.encode({"comes": new.name}))
    _bring(new, target)


def coming(target: ObjectPath) -> ObjectPath | None:
    """What is on its way to a place, if its process was killed, or is at it."""
    try:
        content = (workshop(target) / JOURNAL).read_up_to(MOST_BYTES)
        name: str = parsed(content, str(target), dict[str, str])["comes"]
    except (FileNotFoundError, KeyError, ValueError, DamagedStoreError):
        return None
    return workshop(target) / name if name.isalnum() else None


def settle(target: ObjectPath) -> None:
    """Finish what was begun, and remove what a killed process was making; for the place's sole writer."""
    if next(workshop(target).iterdir(), None) is None:
        return
    new = coming(target)
    if new is not None:
        _bring(new, target)
    if (workshop(target) / MAKING).is_file() and not (target / HEADS[-1]).is_file():
        target.remove_all()
    workshop(target).remove_all()


@contextmanager
def making(target: ObjectPath) -> Iterator[ObjectPath]:
    """A place at which nothing is, to be filled, metadata last; empty again if the block ends badly, or is killed."""
    mark = workshop(target) / MAKING
    mark.write_bytes(b"{}")
    try:
        yield target
    except BaseException:
        target.remove_all()
        raise
    finally:
        mark.unlink(missing_ok=True)


def _bring(new: ObjectPath, target: ObjectPath) -> None:
    """Copy and remove, as often as need be: what is copied is removed only once the whole is in its place."""
    if any((new / head).is_file() for head in HEADS):
        target.remove_all()
        copy_all(new, target)
    (workshop(target) / JOURNAL).unlink(missing_ok=True)
    new.remove_all()


def remove_copied(new: ObjectPath, target: ObjectPath) -> None:
    """Take back what :func:`copy_all` may have copied, and nothing else."""
    for entry in new.rglob():
        (target / str(entry.relative_to(new))).unlink(missing_ok=True)


def copy_all(new: ObjectPath, target: ObjectPath) -> None:
    """Have the server copy everything below, its own metadata last."""
    found = {str(entry.relative_to(new)) for entry in new.rglob()}
    for name in (*sorted(found - {*HEADS}), *(head for head in HEADS if head in found)):
        (new / name).copy_to(target / name)
