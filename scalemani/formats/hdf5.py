"""HDF5 and .h5ad files: rows of a dataset or a sparse matrix, single columns, names of rows and columns.

A dataset is read by blocks, and so is a matrix in CSR form as AnnData writes it. h5py alone reads both. What a file
says of itself is held against its bytes first. Links, virtual datasets and external storage, by which a file would have
others read in its name, are refused, and the indices of a sparse matrix are checked before compiled code uses them.
Damage inside HDF5's own structure is its library's to find: on rare damage (a heap of zero length) that never ends.
"""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from scalemani.cluster.machine import free_memory
from scalemani.errors import ScalemaniError, meant, nearest, needed
from scalemani.formats.common import Values, check_size, column_of, damage_said
from scalemani.formats.csv_text import short_list
from scalemani.points.cells import RowSource, as_text
from scalemani.storage.user_arrays import MOST_ROWS

_MASKED = ("nullable-integer", "nullable-boolean", "nullable-string-array")


def hdf5_column(path: Path, member: str, number: int | None, n_rows: int) -> Values:
    """A column of an HDF5 file.

    member: Path of a dataset or of a column of obs, such as "obs/fate".
    number: From 1, of the columns of a dataset that has several.
    -> (n_rows,): Missing numbers are NaN, missing text is empty. Categories are text, whatever they are called.
    Raises ScalemaniError: The file is damaged or lacks the member, which has another number of rows or other than
        numbers and text.
    """
    name = f"{path}::{member.strip('/')}"
    with _damage_said(path), _file_of(path) as file:
        node = _node_at(file, path, member)
        if not hasattr(node, "keys"):
            return _values(node, name, n_rows, number)
        kind, there = as_text(node.attrs.get("encoding-type")), list(node.keys())
        if kind == "dataframe":
            raise ScalemaniError(f"{name} is a table ({short_list(there)}); give one of its columns, as in {name}/NAME")
        if number is not None or not (kind == "categorical" or kind in _MASKED):
            raise ScalemaniError(f"{name} is a group or a sparse matrix; give a dataset or a column of obs")
        parts = {part: _node_at(file, path, f"{member}/{part}") for part in there}
        if kind == "categorical" and {"codes", "categories"} <= parts.keys():
            return _of_categories(parts["codes"], parts["categories"], name, n_rows)
        if kind in _MASKED and {"values", "mask"} <= parts.keys():
            return _masked(parts["values"], parts["mask"], name, n_rows)
        raise ScalemaniError(f"{name} says {kind} and has {short_list(there)}, which is not whole; write it again")


def _values(node: Any, name: str, n_rows: int, number: int | None = None) -> Values:
    """A dataset of numbers or of text; one column of it."""
    return column_of(_checked_dataset(node, name), name, n_rows, number)


def _of_categories(codes: Any, categories: Any, name: str, n_rows: int) -> list[str]:
    """The name of each row's category; empty where it has none."""
    n_names = categories.shape[0] if len(getattr(categories, "shape", None) or ()) == 1 else MOST_ROWS + 1
    if n_names > MOST_ROWS:
        raise ScalemaniError(f"{name} has no list of at most {MOST_ROWS:,} categories; write it again")
    names = [str(one) for one in list(_values(categories, f"{name}/categories", n_names))]
    rows = np.asarray(_values(codes, f"{name}/codes", n_rows))
    if rows.dtype.kind not in "iu" or (rows.size and not -1 <= int(rows.min()) <= int(rows.max()) < n_names):
        raise ScalemaniError(f"{name} has codes that are no numbers of its {n_names:,} categories; write it again")
    return [names[code] if code >= 0 else "" for code in rows.tolist()]


def _masked(values: Any, mask: Any, name: str, n_rows: int) -> Values:
    """Values, those without one being NaN or empty."""
    found = _values(values, f"{name}/values", n_rows)
    missing = np.asarray(_values(mask, f"{name}/mask", n_rows)).astype(bool)
    if isinstance(found, list):
        return ["" if gone else text for text, gone in zip(found, missing.tolist(), strict=True)]
    return np.where(missing, np.nan, found) if missing.any() else found


_FORMS = {"csr_matrix": "csr", "csc_matrix": "csc", "csr": "csr", "csc": "csc"}
_ENTRIES = 1 << 21  # read together: 32 MiB with their columns


def _form_of_sparse(node: Any) -> str | None:
    """ "csr" or "csc" for a group that is such a matrix, None for anything else."""
    said = as_text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format")))  # the second until AnnData 0.7
    return _FORMS.get(said or "") if hasattr(node, "keys") else None


def _read_sparse(group: Any, form: str, name: str) -> Any:
    """The matrix of a group: its rows by blocks, or a CSR array in memory if it is CSC or square.

    group (h5py.Group): With "data", "indices" and "indptr".
    form ({"csr", "csc"})
    Raises ScalemaniError: A part is missing or of another length, indices lead out of the shape, or memory is too small
        for a CSC or square matrix.
    """
    said = group.attrs.get("shape", group.attrs.get("h5sparse_shape"))
    shape = tuple(int(side) for side in np.atleast_1d(said)) if said is not None else ()
    if len(shape) != 2 or min(shape) < 0:
        raise _damaged(name, f"the shape {shape!r}")
    links = [part for part in ("data", "indices", "indptr") if part not in group.keys()]  # noqa: SIM118 - no links
    if links:
        raise _damaged(name, f"no {links[0]!r}")
    data, indices, indptr = (_part(group, part, name) for part in ("data", "indices", "indptr"))
    if data.dtype.kind not in "biuf":
        raise ScalemaniError(f"{name} has dtype {data.dtype}; give real numbers (integer, float or bool)")
    if indices.dtype.kind not in "iu" or indptr.dtype.kind not in "iu" or len(data) != len(indices):
        raise _damaged(name, "values and indices that don't belong together")
    major, minor = shape if form == "csr" else shape[::-1]
    if len(indptr) != major + 1:
        raise _damaged(name, f"{len(indptr):,} ends of rows for the shape {shape}")
    ends = indptr[:].astype(np.int64)
    if ends[0] != 0 or ends[-1] != len(data) or (np.diff(ends) < 0).any():
        raise _damaged(name, "ends of rows that are out of order")
    rows = _Rows(data, indices, ends, minor, name)
    if form == "csr" and major != minor:
        return rows
    needed = (data.dtype.itemsize + 8) * len(data) * 2
    if needed > (free := free_memory()):
        raise ScalemaniError(
            f"{name} is read as a whole, which takes {needed:,} bytes, and {free:,} are free; write it by rows (csr)"
        )
    whole = rows.read(0, major)
    if form == "csr":
        return whole
    return csr_array(csc_array((whole.data, whole.indices, whole.indptr), shape=shape))


class _Rows(RowSource):
    """Rows of a CSR matrix; of its arrays only the ends of rows are held."""

    def __init__(self, data: Any, indices: Any, ends: Any, width: int, name: str) -> None:
        n = len(ends) - 1
        each = max(1, len(data) // max(1, n))
        super().__init__((n, width), data.dtype, max(1, min(n, _ENTRIES // each)))
        self._data, self._indices, self._ends, self._name = data, indices, ends, name

    def read(self, start: int, stop: int) -> Any:
        low, high = int(self._ends[start]), int(self._ends[stop])
        with damage_said(f"a chunk of {self._name} is damaged", "write it again"):
            data, indices = self._data[low:high], self._indices[low:high].astype(np.int64)
        if indices.size and not (0 <= indices.min() and indices.max() < self.shape[1]):
            raise _damaged(self._name, f"an index outside of its {self.shape[1]:,} columns")
        ends = self._ends[start : stop + 1] - low
        return csr_array((data, indices, ends), shape=(stop - start, self.shape[1]))


def _part(group: Any, part: str, name: str) -> Any:
    if _is_link(group, part):
        raise ScalemaniError(f"{name}/{part} is a link, which is not followed; write the matrix again")
    found = _checked_dataset(group[part], f"{name}/{part}")
    if len(found.shape) != 1:
        raise _damaged(name, f"{part!r} of the shape {found.shape}")
    return found


def _damaged(name: str, what: str) -> ScalemaniError:
    return ScalemaniError(f"{name} is no whole sparse matrix (it has {what}); write it again")


_INDEX = "obs_names"  # what AnnData calls it, whatever its heading is
_MOST_NAMED = 1_000_000  # columns whose names are read


def ids_of(path: Path, column: str, n_rows: int) -> list[str]:
    """A column of obs as text.

    column: Its name, or "obs_names" for the index.
    Raises ScalemaniError: There is no such column, or it is not of text or whole numbers, or has another length.
    """
    with _damage_said(path), _file_of(path) as file:
        obs = _node_at(file, path, "obs")
        if not hasattr(obs, "keys"):
            raise ScalemaniError(f"{path}::obs is no table of AnnData's; save it again with a release from 0.7 on")
        index = _index_of(obs)
        name = index if column == _INDEX else column
        if name is None or name not in obs.keys():  # noqa: SIM118 - `in obs` would follow a link
            there = [_INDEX, *(key for key in obs.keys() if key != index)]  # noqa: SIM118
            what = meant(column, there, "give one of these")
            raise ScalemaniError(f"{path}::obs has no column {column!r} ({short_list(there)}); {what}")
        found = _texts(file, path, f"obs/{name}")
    if len(found) != n_rows:
        raise ScalemaniError(f"{path}: {len(found):,} names in obs for {n_rows:,} rows; give a matrix with a row each")
    return found


def names_of(path: Path, member: str | None, n_features: int) -> list[str] | None:
    """The names in var where the columns of a matrix are those of var, else None.

    Raises ScalemaniError: They are damaged.
    """
    if (member or "").strip("/").split("/")[0] not in ("X", "layers") or n_features > _MOST_NAMED:
        return None
    with _damage_said(path), _file_of(path) as file:
        var = _node_at(file, path, "var") if "var" in file.keys() else None  # noqa: SIM118 - no links
        name = None if var is None else _index_of(var)
        if name is None:
            return None
        found = _texts(file, path, f"var/{name}")
    return found if len(found) == n_features else None


def _index_of(table: Any) -> str | None:
    return as_text(table.attrs.get("_index"))


def _texts(file: Any, path: Path, member: str) -> list[str]:
    """Strings or whole numbers of a dataset, or of a column with its missing ones marked."""
    node = _node_at(file, path, member)
    other = ScalemaniError(f"{path}::{member} is not of text or whole numbers; give {_INDEX} or another column")
    if hasattr(node, "keys"):
        if as_text(node.attrs.get("encoding-type")) != "nullable-string-array":
            raise other
        node = _node_at(file, path, f"{member}/values")
    _checked_dataset(node, f"{path}::{member}")
    if len(node.shape) != 1 or node.shape[0] > MOST_ROWS or node.dtype.kind not in "OSiu":
        raise other
    cells = node[:].tolist()
    return [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell) for cell in cells]


_MOST_SEEN = 10_000  # nodes of a file that are looked through for what could be meant


def read_hdf5(path: Path, member: str | None) -> Any:
    """A matrix of an HDF5 file, opened for reading.

    member: Path of a dataset, or of a group that is a sparse matrix of AnnData's; may be left out where there is one.
    -> A CSR array in memory if the file has columns together (CSC) or a square matrix, which is a graph.
    Raises ScalemaniError: The file is damaged, or lacks the member; the matrix is no matrix of real numbers, is said to
        be larger than the file can hold, or leads out of it.
    """
    with _damage_said(path):
        file = _file_of(path)
        if member is None:
            found = _matrices(file)
            if len(found) != 1:
                raise ScalemaniError(f"{path} {_choice(path, found)}")
            member = found[0]
        name = f"{path}::{member.strip('/')}"
        node = _node_at(file, path, member)
        form = _form_of_sparse(node)
        if form is not None:
            return _read_sparse(node, form, name)
        if hasattr(node, "keys"):
            what = "a table (dataframe)" if as_text(node.attrs.get("encoding-type")) == "dataframe" else "a group"
            raise ScalemaniError(f"{name} is {what}, not a matrix; {path} {_choice(path, _matrices(file))}")
        if len(node.shape or ()) != 2:
            raise ScalemaniError(f"{name} has the shape {node.shape}; a matrix (rows, features) is needed")
        _checked_dataset(node, name)
        if node.dtype.kind not in "biuf":
            raise ScalemaniError(f"{name} has dtype {node.dtype}; give real numbers (integer, float or bool)")
        return _Dataset(node, name)


def _file_of(path: Path) -> Any:
    """An HDF5 file, open for reading.

    Raises ScalemaniError: If it is none, or h5py is not there.
    """
    return needed("h5py", "hdf5", f"{path.name} is an HDF5 file").File(path, "r")


def _damage_said(path: Path) -> contextlib.AbstractContextManager[None]:
    return damage_said(f"{path} is not a whole HDF5 file")


def _is_link(group: Any, part: str) -> bool:
    """Whether a member is none of the group's own: a hard link is what `get` says of a plain one."""
    return type(group.get(part, getlink=True)).__name__ != "HardLink"


def _node_at(file: Any, path: Path, member: str) -> Any:
    """What is at a path inside the file, reached without links."""
    node = file
    for part in member.strip("/").split("/"):
        if part in ("", ".", ".."):
            raise ScalemaniError(f"{path}::{member}: a path inside the file is needed, such as obsm/X_pca")
        if not hasattr(node, "keys") or part not in list(node):  # `in node` would follow a link
            near = nearest(part, list(node)) if hasattr(node, "keys") else None
            guess = f"did you mean {f'{node.name}/{near}'.strip('/')!r}? It" if near else "it"
            raise ScalemaniError(f"{path} has nothing at {member!r}; {guess} {_choice(path, _matrices(file))}")
        if _is_link(node, part):
            raise ScalemaniError(f"{path}::{member} is a link, which is not followed; give the path it leads to")
        node = node[part]
    return node


def _checked_dataset(node: Any, name: str) -> Any:
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
    size, rows = Path(node.file.filename).stat().st_size, node.shape[0] if len(node.shape) == 2 else 0
    check_size(name, rows, node.nbytes, int(node.id.get_storage_size()), size)
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
        with damage_said(f"a chunk of {self._name} is damaged", "write it again"):
            return self._node[start:stop]


def _matrices(file: Any) -> list[str]:
    """Paths of what could be meant: datasets of two dimensions with numbers, and sparse matrices."""
    found, numbers = list[str](), iter(range(_MOST_SEEN))

    def look(name: str, node: Any) -> bool | None:
        dense = len(getattr(node, "shape", None) or ()) == 2 and node.dtype.kind in "biuf"
        if dense or _form_of_sparse(node) is not None:
            found.append(name)
        return None if next(numbers, None) is not None else True  # which ends the visit

    file.visititems(look)  # no links are followed, and nothing is visited twice
    return sorted(found)


def _choice(path: Path, found: list[str]) -> str:
    if not found:
        return "holds no matrix of numbers"
    return f"holds {short_list(found)}; give one of them, as in {path}::{found[0]}"
