"""Files at both ends: takes a file of points, gives an array with its row ids; writes coordinates.

Formats are told by the end of the name. Nothing is unpickled. What is written appears under its own
name only when it is complete: it is written beside it and renamed, so that a failure leaves nothing
half-written.
"""

import contextlib
import csv
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.user_arrays import open_member, write_table
from scalemani.errors import ScalemaniError
from scalemani.terminal.csv_points import read_csv

__all__ = ["PointsFile", "check_output", "open_points", "write_coordinates"]

_READABLE = ".npy, .npz[:key], .csv, .tsv or .zarr[:path]"
_WRITABLE = (".npy", ".csv", ".zarr")


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
    """

    values: Any
    ids: list[str] | None = None
    id_name: str = "id"


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
        values, ids, id_name = read_csv(path, delimiter or ("\t" if kind == ".tsv" else ","), id_column)
        return PointsFile(values, ids, id_name)
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


def check_output(spec: str, *, overwrite: bool = False) -> Path:
    """Refuse an output that can't be written, before any work.

    Raises
    ------
    ScalemaniError
        Unknown kind, no such directory, no right to write there, or the file exists and ``overwrite``
        is false.
    """
    path = Path(spec)
    if path.suffix.lower() not in _WRITABLE:
        raise ScalemaniError(f"{spec}: coordinates are written to .npy, .csv or .zarr; end the name so")
    if not path.parent.is_dir():
        raise ScalemaniError(f"{spec}: there is no directory {path.parent}; make it first")
    if path.exists() and not overwrite:
        raise ScalemaniError(f"{spec} exists; give --overwrite to replace it, or another name")
    if path.is_dir():
        from scalemani.engine.store import kind_of

        if path.suffix.lower() != ".zarr" or kind_of(path) == "run":
            raise ScalemaniError(f"{spec} is a directory or a fitted model, never replaced; give another name")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ScalemaniError(f"{spec} can't be written ({error.strerror}); give another path") from error
    return path


def write_coordinates(
    spec: str | Path,
    coordinates: NDArray[np.floating[Any]],
    *,
    ids: Sequence[str] | None = None,
    id_name: str = "id",
    names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write coordinates in the order of the rows, complete or not at all.

    Parameters
    ----------
    spec : str or Path
        ``y.csv``: a heading, then a row a point, ids first. ``y.npy``: the array; ids go to
        ``y.ids.csv`` beside it. ``y.zarr``: an array; with ids a group of ``coordinates`` and ``ids``.
    coordinates : ndarray, shape (n, p)
    ids : sequence of str, length n, optional
    id_name : str
        Heading of the ids.
    names : sequence of str, length p, optional
        Headings of the axes; ``axis_1`` and so on unless given.
    overwrite : bool
        Replace what is there.
    """
    path = check_output(str(spec), overwrite=overwrite)
    if ids is not None and len(ids) != len(coordinates):
        raise ScalemaniError(f"{len(ids)} ids for {len(coordinates)} rows of coordinates; give one id a row")
    heading = list(names) if names is not None else [f"axis_{a + 1}" for a in range(coordinates.shape[1])]
    kind = path.suffix.lower()
    if kind == ".csv":
        with renamed_when_complete(path) as partial:
            _write_csv(partial, coordinates, heading, ids, id_name)
    elif kind == ".npy":
        with renamed_when_complete(path) as partial:
            if ids is not None:
                with renamed_when_complete(path.with_suffix(".ids.csv")) as partial_ids:
                    _write_csv(partial_ids, coordinates[:, :0], [], ids, id_name)
            with partial.open("wb") as file:
                np.save(file, coordinates, allow_pickle=False)
    else:
        with renamed_when_complete(path) as partial:
            write_table(partial, coordinates, heading, ids, id_name)


@contextlib.contextmanager
def renamed_when_complete(path: Path) -> Any:
    """A name beside ``path`` to write to; it takes the place of ``path`` if the block ends well."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        yield partial
        if path.is_dir():  # a directory can't be renamed over one that has files in it
            old = path.with_name(f".{path.name}.{uuid.uuid4().hex}.old")
            path.rename(old)
            partial.rename(path)
            shutil.rmtree(old)
        else:
            os.replace(partial, path)
    except BaseException:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)
        raise


def _write_csv(
    path: Path,
    coordinates: NDArray[np.floating[Any]],
    heading: list[str],
    ids: Sequence[str] | None,
    id_name: str,
) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heading if ids is None else [id_name, *heading])
        for i, row in enumerate(coordinates):
            # repr of a Python float is the shortest text that reads back as the same number.
            cells = [repr(float(value)) for value in row]
            writer.writerow(cells if ids is None else [ids[i], *cells])
