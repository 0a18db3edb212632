"""NumPy's files of points, .npy and .npz: what a file says of itself is checked before it is believed."""

import contextlib
import math
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.cluster.machine import free_memory
from scalemani.errors import ScalemaniError, meant
from scalemani.formats.common import damage_said

_DEFLATE = 1032  # zlib makes no data smaller than by this factor
_SPARSE = {"csr", "csc", "coo", "bsr", "dia"}  # what scipy.sparse.save_npz writes
_MOST_MEMBERS = 10_000


def read_npy(path: Path, member: str | None) -> NDArray[Any]:
    """The array of an .npy as a memory map.

    Raises ScalemaniError: It is damaged, shorter than it says, or holds Python objects.
    """
    with _damage_said(path):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(path: Path, member: str | None) -> Any:
    """An array of an .npz, or the matrix that ``scipy.sparse.save_npz`` saved there.

    Raises ScalemaniError: It is damaged, says more than its bytes can hold or than memory can, holds Python objects, or
        lacks the key.
    """
    with _damage_said(path), zipfile.ZipFile(path) as archive:
        found = archive.infolist()
        if len(found) > _MOST_MEMBERS:
            raise ScalemaniError(f"{path} has {len(found):,} members; at most {_MOST_MEMBERS:,} are looked at")
        members = {info.filename.removesuffix(".npy"): info for info in found}
        if member is None and {"format", "shape"} <= set(members):
            for info in members.values():
                _check_member(path, archive, info)
            return _sparse(path)
        if member is None and len(members) == 1:
            member = next(iter(members))
        if member is None or member not in members:
            what = "holds several arrays" if member is None else f"has no array {member!r}; {meant(member, members)}"
            listed = ", ".join(sorted(members)) or "it is empty"
            raise ScalemaniError(f"{path} {what.removesuffix('; ')}; give one of its own, as in {path}:KEY ({listed})")
        _check_member(path, archive, members[member])
        with archive.open(members[member]) as file:
            return np.lib.format.read_array(file, allow_pickle=False)


@contextlib.contextmanager
def _damage_said(path: Path) -> Iterator[None]:
    """One line for damage, of which NumPy, zipfile, zlib and SciPy speak in errors of many kinds, and for objects."""
    try:
        with damage_said(f"{path} is not a whole {path.suffix} file"):
            yield
    except ScalemaniError as error:
        if re.search("objects|pickle", str(error.__cause__)):
            raise _holds_objects(path) from error
        raise


def _check_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Hold the shape that a member's header says against its bytes, those in the archive, and memory."""
    name = f"{path}:{info.filename.removesuffix('.npy')}"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ScalemaniError(f"{name} is compressed in a way that NumPy does not write; save it again")
    if info.file_size > _DEFLATE * info.compress_size + 1024 or info.compress_size > path.stat().st_size:
        raise ScalemaniError(
            f"{name} says {info.file_size:,} bytes, which {info.compress_size:,} can't hold; save it again"
        )
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, _, dtype = read[min(version[0], 2)](file)
        begin = file.tell()
    if dtype.hasobject:
        raise _holds_objects(path)
    said, free = math.prod(shape) * dtype.itemsize, free_memory()
    if min(shape, default=0) < 0 or begin + said != info.file_size:
        there = max(info.file_size - begin, 0)
        raise ScalemaniError(f"{name} has {there:,} bytes for a shape {shape} of {dtype}; save it again")
    if said > free:
        raise ScalemaniError(
            f"{name} takes {said:,} bytes of memory, of which {free:,} are free; save it as an .npy, which is read "
            "where it lies"
        )


def _sparse(path: Path) -> Any:
    """A matrix whose indices lie in its shape: compiled code that works on it doesn't look."""
    from scipy.sparse import load_npz

    with path.open("rb") as file:
        found: Any = load_npz(file)
    if found.format not in _SPARSE:
        raise ScalemaniError(f"{path} is a sparse matrix of the format {found.format!r}; save it as csr")
    if found.format in ("csr", "csc", "bsr"):
        found.check_format(full_check=True)
    return found


def _holds_objects(path: Path) -> ScalemaniError:
    return ScalemaniError(f"{path} holds Python objects, which are never unpickled; save it with a numeric dtype")
