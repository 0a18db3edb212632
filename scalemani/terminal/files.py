"""Files of points: takes a file's name, gives an array with its row ids.

Formats are told by the end of the name, and held against what the file is: nothing is unpickled, nothing is allocated
that a file only says it holds, and what is no plain file is not waited for. Ids and headings are given as they stand:
what a spreadsheet takes for a formula (``=...``) is written to a .csv as it came, since it must be found again by that
name; such files are for programs, and a spreadsheet should import their columns as text.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalemani.engine.places import at_home, is_url, place
from scalemani.engine.user_arrays import open_member
from scalemani.errors import ScalemaniError
from scalemani.terminal.csv_points import read_csv
from scalemani.terminal.h5ad_rows import ids_of, names_of
from scalemani.terminal.hdf5_points import read_hdf5
from scalemani.terminal.numpy_points import read_npy, read_npz
from scalemani.terminal.parquet_points import read_parquet
from scalemani.terminal.printable import printable

__all__ = ["PointsFile", "check_place", "open_points"]

_READABLE = ".npy, .npz[:key], .csv, .tsv, .zarr[:path], .h5ad::path, .h5[::path], .hdf5[::path] or .parquet[::columns]"
_MEMBERS = (".npz", ".zarr", ".h5ad", ".h5", ".hdf5", ".parquet")
_KINDS = (".npy", ".csv", ".tsv", *_MEMBERS)
_NAMED = (".csv", ".tsv", ".parquet", ".h5ad")  # have columns that can name the rows


@dataclass(frozen=True)
class PointsFile:
    """Points as read from a file.

    Attributes
    ----------
    values : array-like, shape (n, d)
        A memory map, NumPy array, SciPy sparse array, Zarr array or :class:`~scalemani.row_source.RowSource`; not
        validated here.
    ids : list of str or None
        One id a row, if the file has them.
    id_name : str
        Heading of the ids.
    names : list of str or None
        Headings of the features, if the file has them.
    """

    values: Any
    ids: list[str] | None = None
    id_name: str = "id"
    names: list[str] | None = None


def open_points(spec: str, *, delimiter: str | None = None, id_column: str | None = None) -> PointsFile:
    """Open a file of points, one row a point.

    Parameters
    ----------
    spec : str
        ``x.npy`` (memory-mapped), ``x.npz:key`` (the key may be left out where there is one array or a
        matrix saved by ``scipy.sparse.save_npz``), ``x.csv``, ``x.tsv``, ``x.zarr`` or ``x.zarr:path``;
        ``x.h5::dataset``, ``x.h5ad::obsm/X_pca`` (or ``::X``, ``::layers/counts``), ``x.parquet`` (all columns) or
        ``x.parquet::a,b``. One colon does for two.
    delimiter : str, optional
        Of a .csv; a comma unless given.
    id_column : str, optional
        The column that names the rows: of a .csv by heading or by number from 1, of a .parquet by name, of an .h5ad
        a column of obs or "obs_names", its index.

    Raises
    ------
    ScalemaniError
        The file is missing, damaged, of an unknown kind, holds Python objects or text, or lacks the
        key.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> name = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(name, np.eye(3))
    >>> open_points(name).values.shape
    (3, 3)
    """
    try:
        return _opened(spec, delimiter, id_column)
    except ScalemaniError as error:  # names of files, members and columns may hold anything
        if str(error).isprintable():
            raise
        raise type(error)(printable(str(error))) from error


def _opened(spec: str, delimiter: str | None, id_column: str | None) -> PointsFile:
    if is_url(spec):
        return PointsFile(_in_object_storage(spec, delimiter, id_column))
    path, kind, member = _split(at_home(spec))
    check_place(path, folder=kind == ".zarr")
    if kind in (".csv", ".tsv"):
        values, ids, id_name, names = read_csv(path, delimiter or ("\t" if kind == ".tsv" else ","), id_column)
        return PointsFile(values, ids, id_name, names)
    if delimiter is not None:
        raise ScalemaniError(f"{path.name}: --delimiter is for .csv files; leave it out")
    if id_column is not None and kind not in _NAMED:
        raise ScalemaniError(f"{path.name}: --id-column is for {', '.join(_NAMED)} files; leave it out")
    if kind == ".parquet":
        return PointsFile(*read_parquet(path, member, id_column))
    if kind == ".h5ad":
        values = read_hdf5(path, member)
        ids = None if id_column is None else ids_of(path, id_column, int(values.shape[0]))
        return PointsFile(values, ids, id_column or "id", names_of(path, member, int(values.shape[1])))
    readers: dict[str, Callable[[Path, str | None], Any]] = {
        ".npy": read_npy,
        ".npz": read_npz,
        ".zarr": open_member,
        ".h5": read_hdf5,
        ".hdf5": read_hdf5,
    }
    return PointsFile(readers[kind](path, member))


def _in_object_storage(spec: str, delimiter: str | None, id_column: str | None) -> Any:
    """A Zarr array in a bucket, by a URL such as ``s3://bucket/x.zarr`` or ``s3://bucket/x.zarr:path``."""
    head, _, tail = spec.rpartition(":")
    head = head.removesuffix(":")
    url, member = (head, tail) if head.lower().endswith(".zarr") else (spec, None)
    if not url.lower().rstrip("/").endswith(".zarr"):
        raise ScalemaniError(f"{spec}: points in a bucket are read from Zarr arrays; give a name in .zarr[:path]")
    if delimiter is not None or id_column is not None:
        raise ScalemaniError(f"{spec}: --delimiter and --id-column are for files with columns; leave them out")
    return open_member(place(url), member)


def check_place(path: Path, *, folder: bool) -> None:
    """Refuse what is missing, or of another kind: reading a pipe or a device may never end."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise ScalemaniError(f"{path} does not exist; give a file of points ({_READABLE})") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ScalemaniError(f"{path} can't be read ({why}); give a file of points ({_READABLE})") from error
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        what = "a directory" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a pipe or a device"
        needed = "directory (a Zarr store)" if folder else "plain file"
        raise ScalemaniError(f"{path} is {what}; a {path.suffix} is a {needed}: save what it gives, then give that")


def _split(spec: str) -> tuple[Path, str, str | None]:
    """Path, kind and member of a name such as ``a.npz:key``; a colon elsewhere is part of the path."""
    kind = Path(spec).suffix.lower()
    if kind in _KINDS and os.path.exists(spec):
        return Path(spec), kind, None
    heads = [spec[:at] for at, sign in enumerate(spec) if sign == ":" and Path(spec[:at]).suffix.lower() in _MEMBERS]
    if heads:
        head = next((head for head in heads if os.path.exists(head)), heads[-1])
        member = spec[len(head) + 1 :].removeprefix(":")
        return Path(head), Path(head).suffix.lower(), member or None
    if kind not in _KINDS:
        raise ScalemaniError(f"{spec}: can't tell its kind from its name; points are read from {_READABLE}")
    return Path(spec), kind, None
