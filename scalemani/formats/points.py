"""Files of points: a file's name gives an array with its row ids.

The end of a name says the format. What the file says of itself is held against its bytes: nothing is unpickled, nothing
is allocated that a file only claims to hold, and a pipe or a device is not waited for. Ids and headings stay as they
stand: what a spreadsheet takes for a formula (``=...``) must be found again by that name in the .csv that is written.
"""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalemani.errors import ScalemaniError, near_file
from scalemani.formats.common import PointsFile
from scalemani.formats.csv_files import read_csv
from scalemani.formats.csv_text import Reading, chosen
from scalemani.formats.hdf5 import ids_of, names_of, read_hdf5
from scalemani.formats.numpy_files import read_npy, read_npz
from scalemani.formats.parquet import read_parquet
from scalemani.points.cells import RowSource
from scalemani.storage.files import at_home, is_url
from scalemani.storage.user_arrays import open_member
from scalemani.words import printable

_READABLE = (
    ".npy, .npz[:key], .csv[::columns], .tsv[::columns], .zarr[:path], .h5ad::path, .h5[::path], .hdf5[::path] or "
    ".parquet[::columns]"
)
_TEXT = (".csv", ".tsv")
_MEMBERS = (*_TEXT, ".npz", ".zarr", ".h5ad", ".h5", ".hdf5", ".parquet")
_KINDS = (".npy", *_MEMBERS)
_NAMED = (".csv", ".tsv", ".parquet", ".h5ad")  # have columns that can name the rows


def open_points(spec: str, **options: Any) -> PointsFile:
    """Open a file of points, one row a point.

    spec: ``x.npy`` (memory-mapped), ``x.npz:key`` (the key may be left out where there is one array or a matrix saved
        by ``scipy.sparse.save_npz``), ``x.csv``, ``x.tsv``, ``x.zarr`` or ``x.zarr:path``; ``x.h5::dataset``,
        ``x.h5ad::obsm/X_pca`` (or ``::X``, ``::layers/counts``), ``x.parquet`` (all columns) or ``x.parquet::a,b``, as
        ``x.csv::a,b``. One colon does for two.
    **options: Those of :class:`~scalemani.formats.csv_text.Reading`.
    Raises ScalemaniError: The file is missing, damaged, of an unknown kind, holds Python objects or text, or lacks the
        key.

    >>> import numpy as np, tempfile, os
    >>> name = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(name, np.eye(3))
    >>> open_points(name).values.shape
    (3, 3)
    """
    try:
        return _opened(spec, Reading(**options))
    except ScalemaniError as error:  # names of files, members and columns may hold anything
        if str(error).isprintable():
            raise
        raise type(error)(printable(str(error))) from error


def _opened(spec: str, how: Reading) -> PointsFile:
    if is_url(spec):
        said = "points in a bucket are read from Zarr arrays; give a name in .zarr[:path]"
        url, kind, behind = split(spec, (".zarr",), (".zarr",), said)
        check_options(spec, kind, how)
        return PointsFile(open_member(url, behind.removeprefix(":") or None))
    said = f"can't tell its kind from its name; points are read from {_READABLE}"
    name, kind, behind = split(at_home(spec), _KINDS, _MEMBERS, said)
    path, member = Path(name), behind.removeprefix(":") or None  # one colon does for two
    check_place(path)
    check_options(path.name, kind, how)
    if member is not None and kind in (*_TEXT, ".parquet"):
        if how.columns is not None:
            raise ScalemaniError(f"{spec} and --columns both name columns; give one of them")
        how = replace(how, columns=member)
    if kind in _TEXT:
        return read_csv(path, how)
    if kind == ".parquet":
        return read_parquet(path, how)
    if kind == ".h5ad":
        values = read_hdf5(path, member)
        ids = None if how.id_column is None else ids_of(path, how.id_column, int(values.shape[0]))
        names = names_of(path, member, int(values.shape[1]))
        if names is not None:
            values, names = _taken(spec, values, names, how)
        elif how.columns is not None or how.ignore is not None:
            raise ScalemaniError(f"{spec}: its columns have no names; leave --columns and --ignore out")
        return PointsFile(values, ids, how.id_column or "id", names)
    readers: dict[str, Callable[[Path, str | None], Any]] = {
        ".npy": read_npy,
        ".npz": read_npz,
        ".zarr": open_member,
        ".h5": read_hdf5,
        ".hdf5": read_hdf5,
    }
    return PointsFile(readers[kind](path, member))


def check_options(name: str, kind: str, how: Reading) -> None:
    """Refuse options of other kinds of files."""
    for kinds, options in ((_TEXT, ("delimiter", "decimal", "heading")), (_NAMED, ("id_column", "columns", "ignore"))):
        for option in options:
            if kind not in kinds and getattr(how, option) is not None:
                said = f"--{option.replace('_', '-')}"
                raise ScalemaniError(f"{name}: {said} is for {', '.join(kinds)} files; leave it out")


def _taken(spec: str, values: Any, names: list[str], how: Reading) -> tuple[Any, list[str]]:
    """The columns of a matrix that are asked for by name."""
    at = chosen(spec, names, len(names), how)
    if at == list(range(len(names))):
        return values, names
    taken = _Taken(values, at) if isinstance(values, RowSource) else values[:, at]
    return taken, [names[column] for column in at]


class _Taken(RowSource):
    """Some columns of other rows."""

    def __init__(self, rows: RowSource, at: list[int]) -> None:
        super().__init__((rows.shape[0], len(at)), rows.dtype, rows.chunks[0] if rows.chunks else None)
        self._rows, self._at = rows, at

    def read(self, start: int, stop: int) -> Any:
        return self._rows[start:stop, self._at]


def check_place(path: Path, wanted: str = f"a file of points ({_READABLE})") -> None:
    """Refuse what is missing, or of another kind: reading a pipe or a device may never end."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise ScalemaniError(f"{path} does not exist{near_file(str(path)) or f'; give {wanted}'}") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ScalemaniError(f"{path} can't be read ({why}); give {wanted}") from error
    folder = path.suffix.lower() == ".zarr"
    if not (stat.S_ISDIR(mode) if folder else stat.S_ISREG(mode)):
        what = "a directory" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a pipe or a device"
        needed = "directory (a Zarr store)" if folder else "plain file"
        raise ScalemaniError(f"{path} is {what}; a {path.suffix} is a {needed}: save what it gives, then give that")


def split(spec: str, kinds: Sequence[str], members: Sequence[str], said: str) -> tuple[str, str, str]:
    """Name, kind and what is behind the colon of ``a.npz:key``; a colon elsewhere is part of the name.

    kinds, members: Kinds that are read, and those of them behind which something may stand.
    said: Of a name of another kind.
    """
    ends = [at for at, sign in enumerate(spec) if sign == ":" and Path(spec[:at]).suffix.lower() in members]
    known = [
        *([(spec, "")] if Path(spec).suffix.lower() in kinds else []),
        *((spec[:at], spec[at + 1 :]) for at in ends),
    ]
    if not known:
        raise ScalemaniError(f"{spec}: {said}")
    # Path.exists raises where a name is too long.
    name, behind = next((one for one in known if os.path.exists(one[0])), known[-1])
    return name, Path(name).suffix.lower(), behind
