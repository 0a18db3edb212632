"""Files of points: takes a file's name, gives an array with its row ids.

Formats are told by the end of the name. Nothing is unpickled.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.user_arrays import open_member
from scalemani.errors import ScalemaniError
from scalemani.terminal.csv_points import read_csv

__all__ = ["PointsFile", "open_points"]

_READABLE = ".npy, .npz[:key], .csv, .tsv or .zarr[:path]"


@dataclass(frozen=True)
class PointsFile:
    """Points as read from a file.

    Attributes
    ----------
    values : array-like, shape (n, d)
        A memory map, NumPy array, SciPy sparse array or Zarr array; not validated here.
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
        matrix saved by ``scipy.sparse.save_npz``), ``x.csv``, ``x.tsv``, ``x.zarr`` or ``x.zarr:path``.
    delimiter : str, optional
        Of a .csv; a comma unless given.
    id_column : str, optional
        Of a .csv: the column that names the rows, by heading or by number from 1.

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
    path, kind, member = _split(spec)
    if not path.exists():
        raise ScalemaniError(f"{path} does not exist; give a file of points ({_READABLE})")
    if kind in (".csv", ".tsv"):
        values, ids, id_name, names = read_csv(path, delimiter or ("\t" if kind == ".tsv" else ","), id_column)
        return PointsFile(values, ids, id_name, names)
    for option, value in (("--delimiter", delimiter), ("--id-column", id_column)):
        if value is not None:
            raise ScalemaniError(f"{path.name}: {option} is for .csv files; leave it out")
    readers: dict[str, Callable[[Path, str | None], Any]] = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".zarr": open_member,
    }
    return PointsFile(readers[kind](path, member))


def _split(spec: str) -> tuple[Path, str, str | None]:
    """Path, kind and member of a name such as ``a.npz:key``; a colon elsewhere is part of the path."""
    kind, member = Path(spec).suffix.lower(), None
    if kind not in (".npy", ".npz", ".csv", ".tsv", ".zarr") or not Path(spec).exists():
        head, colon, tail = spec.rpartition(":")
        if colon and Path(head).suffix.lower() in (".npz", ".zarr"):
            spec, kind, member = head, Path(head).suffix.lower(), tail
    if kind not in (".npy", ".npz", ".csv", ".tsv", ".zarr"):
        raise ScalemaniError(f"{spec}: can't tell its kind from its name; points are read from {_READABLE}")
    return Path(spec), kind, member or None


def _read_npy(path: Path, member: str | None) -> NDArray[Any]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError, OSError) as error:
        if "objects" in str(error).lower():
            raise _holds_objects(path) from error
        raise _not_whole(path, error) from error


def _read_npz(path: Path, member: str | None) -> Any:
    try:
        # Opened here, since np.load leaves a damaged archive that it opened itself unclosed.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            keys = sorted(archive.files)
            if member is None and {"format", "shape"} <= set(keys):
                from scipy.sparse import load_npz

                return load_npz(path)
            if member is None and len(keys) == 1:
                member = keys[0]
            if member is None or member not in keys:
                what = "holds several arrays" if member is None else f"has no array {member!r}"
                listed = ", ".join(keys) or "it is empty"
                raise ScalemaniError(f"{path} {what}; give one of its own, as in {path}:KEY ({listed})")
            return archive[member]
    except ScalemaniError:
        raise
    except Exception as error:  # zipfile, zlib, NumPy and SciPy each raise their own kinds for a damaged file
        if "pickle" in str(error).lower():
            raise _holds_objects(path) from error
        raise _not_whole(path, error) from error


def _holds_objects(path: Path) -> ScalemaniError:
    return ScalemaniError(f"{path} holds Python objects, which are never unpickled; save it with a numeric dtype")


def _not_whole(path: Path, error: Exception) -> ScalemaniError:
    return ScalemaniError(f"{path} is not a whole {path.suffix} file ({_first_line(error)}); save it again")


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
