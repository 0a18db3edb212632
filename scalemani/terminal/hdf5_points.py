"""HDF5's files of points, .h5ad among them: takes a file and the path of a dataset in it, gives its rows.

A dataset is read by blocks, and so is a matrix in CSR form as AnnData writes it. Whatever a file says of itself is
held against its bytes first; links, virtual datasets and external storage, which would have other files read in its
name, are refused. What is damaged inside its structure is the HDF5 library's to find: on rare damage (a heap of zero
length) that library goes round for ever.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scalemani.cells import as_text
from scalemani.engine.foreign_zarr import LARGEST_RATIO, MOST_ROWS, UNQUESTIONED
from scalemani.engine.resources import free_memory
from scalemani.errors import ScalemaniError
from scalemani.optional import needed
from scalemani.row_source import RowSource
from scalemani.terminal.column_choice import short_list
from scalemani.terminal.printable import cause
from scalemani.terminal.sparse_hdf5 import form_of_sparse, read_sparse

__all__ = ["checked_dataset", "damage_said", "file_of", "node_at", "read_hdf5"]

_MOST_SEEN = 10_000  # nodes of a file that are looked through for what could be meant


def read_hdf5(path: Path, member: str | None) -> Any:
    """A matrix of an HDF5 file, opened for reading.

    member: Path of a dataset, or of a group that is a sparse matrix of AnnData's; may be left out where there is one.
    -> A CSR array in memory if the file has columns together (CSC) or a square matrix, which is a graph.
    Raises ScalemaniError: The file is damaged, or lacks the member; the matrix is no matrix of real numbers, is said to
        be larger than the file can hold, or leads out of it.
    """
    with damage_said(path):
        file = file_of(path)
        if member is None:
            found = _matrices(file)
            if len(found) != 1:
                raise ScalemaniError(f"{path} {_choice(path, found)}")
            member = found[0]
        name = f"{path}::{member.strip('/')}"
        node = node_at(file, path, member)
        form = form_of_sparse(node)
        if form is not None:
            return read_sparse(node, form, name, checked_dataset)
        if hasattr(node, "keys"):
            what = "a table (dataframe)" if as_text(node.attrs.get("encoding-type")) == "dataframe" else "a group"
            raise ScalemaniError(f"{name} is {what}, not a matrix; {path} {_choice(path, _matrices(file))}")
        if len(node.shape or ()) != 2:
            raise ScalemaniError(f"{name} has the shape {node.shape}; a matrix (rows, features) is needed")
        checked_dataset(node, name)
        if node.dtype.kind not in "biuf":
            raise ScalemaniError(f"{name} has dtype {node.dtype}; give real numbers (integer, float or bool)")
        return _Dataset(node, name)


@contextlib.contextmanager
def damage_said(path: Path) -> Iterator[None]:
    """Turn what HDF5 says of a damaged file, of many kinds, into one line."""
    try:
        yield
    except ScalemaniError:
        raise
    except Exception as error:
        raise ScalemaniError(f"{path} is not a whole HDF5 file ({cause(error)}); save it again") from error


def file_of(path: Path) -> Any:
    """An HDF5 file, open for reading.

    Raises ScalemaniError: If it is none, or h5py is not there.
    """
    h5py = needed("h5py", "hdf5", f"{path.name} is an HDF5 file")
    with damage_said(path):
        return h5py.File(path, "r")


def node_at(file: Any, path: Path, member: str) -> Any:
    """What is at a path inside the file, reached without links."""
    h5py = needed("h5py", "hdf5", f"{path.name} is an HDF5 file")
    node = file
    for part in member.strip("/").split("/"):
        if part in ("", ".", ".."):
            raise ScalemaniError(f"{path}::{member}: a path inside the file is needed, such as obsm/X_pca")
        if not hasattr(node, "keys") or part not in list(node):  # `in node` would follow a link
            raise ScalemaniError(f"{path} has nothing at {member!r}; it {_choice(path, _matrices(file))}")
        if not isinstance(node.get(part, getlink=True), h5py.HardLink):
            raise ScalemaniError(f"{path}::{member} is a link, which is not followed; give the path it leads to")
        node = node[part]
    return node


def checked_dataset(node: Any, name: str) -> Any:
    """The dataset, if its bytes are in this file and can be as many as it says.

    Raises ScalemaniError: In one line, before any of it is read.
    """
    h5py = needed("h5py", "hdf5", name)
    if not isinstance(node, h5py.Dataset) or node.shape is None:
        raise ScalemaniError(f"{name} is no dataset with a shape; write it again")
    if node.is_virtual or node.external:
        raise ScalemaniError(f"{name} lies in other files, which are not opened; copy it into this one")
    plist = node.id.get_create_plist()
    for number in range(plist.get_nfilters()):
        code, _, _, label = plist.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            said = label.decode("utf-8", "replace") or str(code)
            raise ScalemaniError(f"{name} needs the HDF5 filter {said!r}, which is not there; write it with gzip")
    size, stored = Path(node.file.filename).stat().st_size, int(node.id.get_storage_size())
    if len(node.shape) == 2 and node.shape[0] > MOST_ROWS:
        raise ScalemaniError(f"{name} says {node.shape[0]:,} rows; at most {MOST_ROWS:,} are read")
    if stored > size or (node.nbytes > UNQUESTIONED and node.nbytes > LARGEST_RATIO * stored):
        raise ScalemaniError(
            f"{name} says {node.nbytes:,} bytes and the file has {min(stored, size):,} for it: it is not whole, or not "
            "what it seems; write it again"
        )
    chunk = int(np.prod(node.chunks, dtype=float)) * node.dtype.itemsize if node.chunks else 0
    if chunk > (free := free_memory()):
        raise ScalemaniError(f"{name} has chunks of {chunk:,} bytes, of which {free:,} are free; write smaller ones")
    return node


class _Dataset(RowSource):
    """Rows of a dataset; damaged ones are said in one line where they are read."""

    def __init__(self, node: Any, name: str) -> None:
        super().__init__(node.shape, node.dtype, node.chunks[0] if node.chunks else None)
        self._node, self._name, self.attrs = node, name, node.attrs

    def read(self, start: int, stop: int) -> Any:
        try:
            return self._node[start:stop]
        except Exception as error:
            raise ScalemaniError(f"a chunk of {self._name} is damaged ({cause(error)}); write it again") from error


def _matrices(file: Any) -> list[str]:
    """Paths of what could be meant: datasets of two dimensions with numbers, and sparse matrices."""
    h5py = needed("h5py", "hdf5", "an HDF5 file")
    found: list[str] = []
    left, seen = [("", file)], 0
    while left and seen < _MOST_SEEN:
        at, group = left.pop()
        for key in group.keys():  # noqa: SIM118 - in the file's order, and without opening the members
            seen += 1
            if not isinstance(group.get(key, getlink=True), h5py.HardLink) or seen > _MOST_SEEN:
                continue
            name = f"{at}/{key}" if at else key
            node = group[key]
            if form_of_sparse(node) is not None or (
                isinstance(node, h5py.Dataset) and len(node.shape or ()) == 2 and node.dtype.kind in "biuf"
            ):
                found.append(name)
            elif isinstance(node, h5py.Group) and name.count("/") < 16:
                left.append((name, node))
    return sorted(found)


def _choice(path: Path, found: list[str]) -> str:
    """What a file holds, for a message."""
    if not found:
        return "holds no matrix of numbers"
    return f"holds {short_list(found)}; give one of them, as in {path}::{found[0]}"
