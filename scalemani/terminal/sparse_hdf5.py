"""Sparse matrices in HDF5 as AnnData writes them: takes a group, gives rows; indices are checked before use."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from scalemani.cells import as_text
from scalemani.engine.resources import free_memory
from scalemani.errors import ScalemaniError
from scalemani.row_source import RowSource
from scalemani.terminal.printable import cause

__all__ = ["form_of_sparse", "read_sparse"]

_FORMS = {"csr_matrix": "csr", "csc_matrix": "csc", "csr": "csr", "csc": "csc"}
_ENTRIES = 1 << 21  # read together: 32 MiB with their columns


def form_of_sparse(node: Any) -> str | None:
    """ "csr" or "csc" for a group that is such a matrix, None for anything else."""
    said = as_text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format")))  # the second until AnnData 0.7
    return _FORMS.get(said or "") if hasattr(node, "keys") else None


def read_sparse(group: Any, form: str, name: str, checked: Callable[[Any, str], Any]) -> Any:
    """The matrix of a group: its rows by blocks, or a CSR array in memory if it is CSC or square.

    group (h5py.Group): With "data", "indices" and "indptr".
    form ({"csr", "csc"})
    checked: Gives back a dataset (and its name) that can be read.
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
    data, indices, indptr = (_part(group, part, name, checked) for part in ("data", "indices", "indptr"))
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
        try:
            data, indices = self._data[low:high], self._indices[low:high].astype(np.int64)
        except Exception as error:
            raise ScalemaniError(f"a chunk of {self._name} is damaged ({cause(error)}); write it again") from error
        if indices.size and not (0 <= indices.min() and indices.max() < self.shape[1]):
            raise _damaged(self._name, f"an index outside of its {self.shape[1]:,} columns")
        ends = self._ends[start : stop + 1] - low
        return csr_array((data, indices, ends), shape=(stop - start, self.shape[1]))


def _part(group: Any, part: str, name: str, checked: Callable[[Any, str], Any]) -> Any:
    # A hard link is what `get` says of a plain member; h5py is not imported here.
    if type(group.get(part, getlink=True)).__name__ != "HardLink":
        raise ScalemaniError(f"{name}/{part} is a link, which is not followed; write the matrix again")
    found = checked(group[part], f"{name}/{part}")
    if len(found.shape) != 1:
        raise _damaged(name, f"{part!r} of the shape {found.shape}")
    return found


def _damaged(name: str, what: str) -> ScalemaniError:
    return ScalemaniError(f"{name} is no whole sparse matrix (it has {what}); write it again")
