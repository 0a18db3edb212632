"""A column of a file with a value for each row of a fit, to colour a map by, its labels, or row numbers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scalemani.aliases import I64
from scalemani.errors import ScalemaniError
from scalemani.formats.common import PointsFile, Values, column_of
from scalemani.formats.csv_text import MISSING, Reading, cell_number, is_number, open_table, position, short_list
from scalemani.formats.hdf5 import hdf5_column
from scalemani.formats.parquet import parquet_column
from scalemani.formats.points import check_options, check_place, open_points, split
from scalemani.points.cells import inexact_labels
from scalemani.points.labels import unpacked
from scalemani.storage.files import at_home
from scalemani.words import short

_TABLES = (".csv", ".tsv")
_HDF5 = (".h5", ".hdf5", ".h5ad")
_KINDS = (*_TABLES, *_HDF5, ".npy", ".npz", ".zarr", ".parquet")
_READABLE = (
    "FILE.csv:COLUMN, FILE.npy, FILE.npz:KEY, FILE.zarr:PATH, FILE.h5ad::obs/COLUMN, FILE.h5::DATASET or "
    "FILE.parquet::COLUMN"
)
_MOST_DIGITS = 18  # of a column's number: Python refuses to read thousands of them


def read_column(
    spec: str,
    n_rows: int,
    delimiter: str | None = None,
    decimal: str | None = None,
    ids: Sequence[str] | None = None,
) -> tuple[str, Values]:
    """A column with a value for each row, in the order of the rows.

    spec: ``x.csv:COLUMN`` (a heading, or a number from 1; may be left out where there is one column), ``x.npy``,
        ``x.npz:KEY``, ``x.zarr:PATH``, ``x.h5::DATASET``; an array with several columns takes a number behind it, as in
        ``x.npy:2``. ``x.h5ad::obs/COLUMN``, ``x.parquet::COLUMN``; one colon does for two.
    n_rows: Of the fit. A table with a row more than that has a heading.
    delimiter, decimal: Of a .csv; a comma (a semicolon where that is the decimal sign) and a point unless given.
    ids: Of the rows of the fit. A table that has them in another order is refused.
    -> name: For the page.
    -> values (n_rows,): Text of which every cell is a number, empty or NA is numbers, NaN where there is none.
    Raises ScalemaniError: The file is missing, damaged or of an unknown kind, has another number of rows, or lacks the
        column.
    """
    name, kind, behind = _parts(spec)
    path = Path(name)
    check_place(path, f"a file with a value for each row ({_READABLE})")
    if kind in _TABLES:
        return _from_table(path, behind or None, n_rows, delimiter, decimal, ids)
    check_options(path.name, kind, Reading(delimiter=delimiter, decimal=decimal))
    column = behind.removeprefix(":") or None  # where one colon leads inside, two do as well
    if kind == ".parquet":
        return parquet_column(path, column, n_rows)
    return _from_hdf5(path, column, n_rows) if kind in _HDF5 else _from_array(path, column, n_rows)


def read_labels(spec: str, points: str, source: PointsFile, how: Mapping[str, Any]) -> Any:
    """Labels of the rows, from what :func:`read_column` takes; None in the place of text that stands for no label.

    points, source: The file of the rows, and what was read of it.
    how: Options by which points are read; those of text count for labels in a text file alone.
    Raises ScalemaniError: Also where the labels are among the features, or the rows are others by their ids.
    """
    n_rows, (name, kind, column) = int(source.values.shape[0]), _parts(spec)
    text = [how["delimiter"], how["decimal"]] if kind in _TABLES else []
    _, values = read_column(spec, n_rows, *text)
    column, same = column.strip(":"), Path(name) == Path(at_home(points).partition("::")[0])
    if same and column in (source.names or ()):
        raise ScalemaniError(f"--labels {spec}: that column is read as a feature, too; add --ignore {column}")
    if source.ids is not None and kind in _TABLES and how["id_column"] and not same:
        try:
            ids = np.asarray(read_column(f"{name}:{how['id_column']}", n_rows, *text)[1])
            differ = ids != np.array(source.ids, dtype=float if ids.dtype.kind == "f" else object)
        except (ScalemaniError, ValueError):  # no such column, or none of numbers
            differ = np.zeros(n_rows, bool)
        if differ.any():
            raise ScalemaniError(
                f"--labels {spec}: row {int(np.argmax(differ))} has another id than that of POINTS; give a label for "
                "each row, in the order of POINTS"
            )
    if isinstance(values, np.ndarray):
        return values
    return [None if cell.strip().lower() in {*MISSING, "nan"} else cell for cell in values]


def _parts(spec: str) -> tuple[str, str, str]:
    """Name, kind and what is behind the colon."""
    return split(at_home(spec), _KINDS, _KINDS, f"can't tell its kind from its name; give {_READABLE}")


def read_row_numbers(spec: str) -> I64:
    """Row numbers from a file, shape (m,): a .npy or .npz:key of integers, or a .csv with one column.

    Raises ScalemaniError: The file is missing, damaged or of an unknown kind, or holds other things.
    """
    points = open_points(spec)
    values = _dense(points.values, spec, "a column of row numbers")
    shape = tuple(values.shape)
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 1):
        raise ScalemaniError(f"{spec} has shape {shape}; give one column of row numbers, the first row is 0")
    numbers = np.asarray(unpacked(values, values[:], spec)).reshape(-1)
    whole = numbers.dtype.kind in "iu" or (numbers.dtype.kind == "f" and bool((numbers == np.floor(numbers)).all()))
    if not whole or (numbers.size and not float(np.abs(numbers).max()) < 2**53):
        raise ScalemaniError(f"{spec} holds numbers that are no row numbers; give integers, the first row is 0")
    if points.names is None and numbers.size and numbers[0] == 0 and Path(spec).suffix.lower() in _TABLES:
        with open_table(Path(at_home(spec)), None) as table:
            if next(table.rows)[1] == ["0"]:
                raise ScalemaniError(
                    f"{spec}: the first line, 0, may be the heading that pandas writes, or the first row; put a name "
                    "in its place, or above it"
                )
    return numbers.astype(np.int64)


def _from_table(
    path: Path,
    column: str | None,
    n_rows: int,
    delimiter: str | None,
    decimal: str | None,
    ids: Sequence[str] | None,
) -> tuple[str, Values]:
    with open_table(path, delimiter, "." if decimal is None else decimal) as table:
        rows = list(table.rows)
    if table.remark and len(rows) == n_rows:
        rows.insert(0, (0, table.remark))
    if len(rows) not in (n_rows, n_rows + 1):
        raise ScalemaniError(
            f"{path} has {len(rows)} lines and the fit {n_rows} rows: give a line a row, in their order, with or "
            "without a heading"
        )
    heading = [cell.strip() for cell in rows.pop(0)[1]] if len(rows) == n_rows + 1 else None
    width = len(rows[0][1])
    if heading and len(heading) == width - 1:
        heading.insert(0, "")  # over the names of the rows, as R writes them
    for line, row in [(1, heading or rows[0][1]), *rows]:
        if len(row) != width:
            raise ScalemaniError(
                f"{path}, line {line}: {len(row)} cells, {width} in the others; check --delimiter, or mend it"
            )
    if column is None and width > 1:
        known = short_list(heading) if heading else "no heading"
        raise ScalemaniError(
            f"{path} has {width} columns ({known}); give a heading or a number from 1 to {width}, as in {path}:1"
        )
    at = 0 if column is None else position(str(path), column, heading, width)
    _check_order(path, [row for _, row in rows], ids)
    cells = [row[at].strip() for _, row in rows]
    values: Values = cells if inexact_labels(cells) else _as_numbers(cells, decimal or ".")
    sign = "," if decimal is None else "."
    if decimal != "." and isinstance(values, list) and not isinstance(_as_numbers(cells, sign), list):
        first = next(cell for cell in cells if cell.lower() not in MISSING)
        raise ScalemaniError(
            f"{path}, column {at + 1} is of numbers with the decimal sign {sign!r}, such as {first}; give --decimal "
            f"{sign!r}" + (", or --decimal . if they are text" if decimal is None else "")
        )
    name = heading[at] if heading else f"{path.name}, column {at + 1}" if width > 1 else path.name
    if heading is None and isinstance(values, list) and not isinstance(_as_numbers(cells[1:], decimal or "."), list):
        raise ScalemaniError(
            f"{path} has {n_rows} lines, as the fit has rows, and the first ({short(cells[0])}) is no number as the "
            "others are; give a value a row"
        )
    if heading is not None and column != name and not name.isdecimal() and is_number(name, decimal or "."):
        raise ScalemaniError(
            f"{path} has {n_rows + 1} lines and the fit {n_rows} rows, and the first ({name}) may be a heading or a "
            "row; give a value a row"
        )
    return name, values


def _check_order(path: Path, rows: Sequence[Sequence[str]], ids: Sequence[str] | None) -> None:
    """Refuse a table of which a column has the ids of the fit in another order, and none has them in that order."""
    listed, known = list(ids or ()), set(ids or ())
    named = [at for at, cell in enumerate(rows[0]) if cell in known]
    columns = [[row[at] for row in rows] for at in named]
    if columns and listed not in columns and any(sorted(cells) == sorted(listed) for cells in columns):
        raise ScalemaniError(f"{path} has the ids of the fit in another order: sort its lines as the points of the fit")


def _numbered(column: str | None, *, alone: bool = False) -> tuple[str | None, int | None]:
    """A path inside a file, and the column's number behind its last colon; or, if it may stand alone, that."""
    head, _, tail = (column or "").rpartition(":")
    if tail.isdecimal() and len(tail) <= _MOST_DIGITS and (head or alone):
        return head or None, int(tail)
    return column, None


def _as_numbers(cells: list[str], decimal: str) -> Values:
    """Numbers where every cell that has something is one; else the text."""
    there = [cell.lower() not in MISSING for cell in cells]
    try:
        numbers = [cell_number(cell, decimal) if known else np.nan for cell, known in zip(cells, there, strict=True)]
    except ValueError:
        return cells
    return np.array(numbers) if any(there) else cells


def _from_array(path: Path, column: str | None, n_rows: int) -> tuple[str, Values]:
    member, number = _numbered(column, alone=path.suffix.lower() == ".npy")
    given = f"{path}:{column}" if column is not None else str(path)
    if path.suffix.lower() == ".npy" and member is not None:
        raise ScalemaniError(f"{given}: an .npy has one array, without a name; give {path}, or {path}:1 for a column")
    of_member = f"{path}:{member}" if member is not None else str(path)
    array = _dense(open_points(of_member).values, given, "an array with a value for each row")
    values = column_of(array, of_member, n_rows, number)
    name = f"{member} of {path.name}" if member is not None else path.name
    name = f"{name}, column {number}" if number is not None and array.ndim == 2 and array.shape[1] > 1 else name
    return name, values


def _dense(array: Any, name: str, wanted: str) -> Any:
    if not hasattr(array, "ndim") or type(array).__module__.startswith("scipy."):
        raise ScalemaniError(f"{name} is a sparse matrix; give {wanted}")
    return array


def _from_hdf5(path: Path, column: str | None, n_rows: int) -> tuple[str, Values]:
    if column is None:
        raise ScalemaniError(
            f"{path}: say where in it, as in {path}::{'obs/NAME' if path.suffix == '.h5ad' else 'NAME'}"
        )
    member, number = _numbered(column)
    assert member is not None
    name = member.strip("/").removeprefix("obs/") if path.suffix.lower() == ".h5ad" else f"{member} of {path.name}"
    name = f"{name}, column {number}" if number is not None else name
    return name, hdf5_column(path, member, number, n_rows)
