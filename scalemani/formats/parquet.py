"""Parquet files: columns of numbers as rows that are read group by group, or one column as a whole."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError, meant, needed
from scalemani.formats.common import PointsFile, Values, check_size, damage_said
from scalemani.formats.csv_text import (
    EXACT,
    MOST_LABELS,
    Reading,
    by_name,
    chosen,
    doubtful,
    position,
    quoted,
    short_list,
)
from scalemani.points.cells import RowSource, inexact_labels

_BATCH_BYTES = 8 << 20
_BUFFER = 1 << 20  # of each column: pages are read as they are needed, whatever a row group holds


def read_parquet(path: Path, how: Reading) -> PointsFile:
    """Columns of numbers of a table.

    how: All columns but the ids and a data frame's index are read unless others are given.
    Missing floats are NaN. Notes say which features look like none, by the statistics in the file.
    Raises ScalemaniError: The file is damaged, lacks a column, has two of one name or other than numbers in those that
        are read.
    """
    with _opened(path) as file:
        schema = file.schema_arrow
        names, id_column = _chosen(path, schema, how)
        _check_size(path, file.metadata, len(names))
        ids = None if id_column is None else _ids(file, id_column)
        source = _Columns(file, path, names, np.result_type(*(_dtype(schema.field(name).type) for name in names)))
        notes = by_name(str(path), schema.names, how)
        notes += [] if how.columns or how.like else _notes(path, file, names)
        return PointsFile(source, ids, id_column or "id", names, notes)


def parquet_column(path: Path, name: str | None, n_rows: int) -> tuple[str, Values]:
    """The name of a column of a table, and its value for each row of a fit.

    name: May be left out where there is one column.
    -> values (n_rows,): Missing numbers are NaN, missing text is empty. A dictionary (categories of text) is text.
    Raises ScalemaniError: The file is damaged, lacks the column or has two of its name, has another number of rows, or
        dates or the like.
    """
    types = needed("pyarrow.types", "parquet", f"{path.name} is a Parquet file")
    with _opened(path) as file:
        there: list[str] = file.schema_arrow.names
        name = there[0] if name is None and len(there) == 1 else name
        if name is None or there.count(name) != 1:
            what = "several columns" if name is None else f"no column {name!r}" if name not in there else "two of them"
            one = meant(name, there, f"give one, as in {path}::{there[0]}")
            raise ScalemaniError(f"{path} has {what} ({short_list(there)}); {one}")
        _check_size(path, file.metadata, 1)
        if file.metadata.num_rows != n_rows:
            raise ScalemaniError(
                f"{path} has {file.metadata.num_rows} rows and the fit {n_rows}: give a value a row, in their order"
            )
        kind = file.schema_arrow.field(name).type
        text = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_dictionary(kind) or types.is_string(text) or types.is_large_string(text)):
            if _dtype(kind) is None:
                raise ScalemaniError(f"{path}::{name} holds values of type {kind}; give numbers or text")
            column = file.read(columns=[name], use_threads=False).column(name)
            if types.is_boolean(kind):
                column = column.cast("int8")
            if types.is_integer(kind) and inexact_labels(column.drop_null().unique().to_pylist()):
                return name, ["" if one is None else str(one) for one in column.to_pylist()]
            return name, np.asarray(column.to_numpy())
        return name, _ids(file, name)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file, what pyarrow says of damage being turned into one line."""
    parquet = needed("pyarrow.parquet", "parquet", f"{path.name} is a Parquet file")
    with damage_said(f"{path} is not a whole Parquet file"):
        yield parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)


def _chosen(path: Path, schema: Any, how: Reading) -> tuple[list[str], str | None]:
    """Names of the columns to read, all of them numbers, and of the column that names the rows."""
    there: list[str] = schema.names
    ids = None if how.id_column is None else position(str(path), how.id_column, there, len(there))
    index = {there.index(name) for name in _index_columns(schema) if name in there}
    names = [
        there[at] for at in chosen(str(path), there, len(there), how, index | ({ids} if ids is not None else set()))
    ]
    twice = [name for name in names if there.count(name) > 1]
    if twice:
        raise ScalemaniError(f"{path} has two columns called {twice[0]!r}; rename one")
    text = [name for name in names if _dtype(schema.field(name).type) is None]
    if text:
        numbers = [name for name in names if name not in text]
        shown = ",".join(map(quoted, numbers[:3]))
        given = f"choose columns, as in {path}::{shown}" if numbers else "choose columns of numbers"
        named = "" if ids is not None else f", or give --id-column {text[0]} if it names the rows"
        raise ScalemaniError(f"{path} has other than numbers in {short_list(text)}; {given}{named}")
    return names, None if ids is None else there[ids]


def _index_columns(schema: Any) -> list[str]:
    """Columns that are the index of the data frame which was saved."""
    try:
        index = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        return [name for name in index if isinstance(name, str)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _dtype(kind: Any) -> np.dtype[Any] | None:
    """NumPy's dtype of a column of numbers, None of any other."""
    types = needed("pyarrow.types", "parquet", "a Parquet file")
    if types.is_boolean(kind):
        return np.dtype(bool)
    if types.is_decimal(kind):
        return np.dtype(np.float64)
    return np.dtype(kind.to_pandas_dtype()) if types.is_integer(kind) or types.is_floating(kind) else None


def _check_size(path: Path, metadata: Any, columns: int) -> None:
    """Hold the number of rows that the file says against its bytes."""
    rows, groups = metadata.num_rows, [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    if rows != sum(groups) or min(groups, default=0) < 0:
        raise ScalemaniError(f"{path} says {rows:,} rows, and its row groups {sum(groups):,}; write it again")
    size = path.stat().st_size
    check_size(str(path), rows, 8 * rows * columns, size, size)


def _notes(path: Path, file: Any, names: list[str]) -> list[str]:
    """Which columns of integers look like row numbers or labels, by their least and largest."""
    n, metadata = file.metadata.num_rows, file.metadata
    places = {file.schema.column(at).path: at for at in range(len(file.schema))}
    counts, few = [], []
    for name in names:
        kind = _dtype(file.schema_arrow.field(name).type)
        groups = range(metadata.num_row_groups) if kind is not None and kind.kind in "iu" and n > 2 else ()
        said = [metadata.row_group(group).column(places[name]).statistics for group in groups]
        known = said and all(one is not None and one.has_min_max for one in said)
        low, high = (min(one.min for one in said), max(one.max for one in said)) if known else (0, 0)
        counts.append(bool(known) and high == low + n - 1)
        few.append(0 < high - low < min(MOST_LABELS, n // 4))
    there = file.schema_arrow.names
    return doubtful(str(path), [there.index(name) for name in names], there, counts, [False] * len(names), few)


def _ids(file: Any, column: str) -> list[str]:
    cells = [cell for batch in file.iter_batches(columns=[column]) for cell in batch.column(0).to_pylist()]
    return ["" if cell is None else str(cell) for cell in cells]


class _Columns(RowSource):
    """Rows of some columns. Blocks that follow each other are decoded once; others begin at their row group."""

    def __init__(self, file: Any, path: Path, names: list[str], dtype: Any) -> None:
        groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        super().__init__((sum(groups), len(names)), dtype)
        self._file, self._path, self._names = file, path, names
        self._starts = np.concatenate([[0], np.cumsum(groups, dtype=np.int64)])
        self._lock = threading.Lock()
        self._next = -1  # the row that `_rest`, and what is decoded behind it, begins with; -1 before the first
        self._rest = np.empty((0, len(names)), dtype)
        self._behind: Iterator[Any] = iter(())

    def read(self, start: int, stop: int) -> Any:
        with self._lock, damage_said(f"a row group of {self._path} is damaged", "write it again"):
            if start != self._next:
                self._rest, self._behind = self._rest[:0], self._from(start)
            self._next = -1  # after an error
            parts = [self._rest]
            while (missing := stop - start - sum(map(len, parts))) > 0:
                parts.append(next(self._behind))
            cut = len(parts[-1]) + missing
            parts[-1], self._rest, self._next = parts[-1][:cut], parts[-1][cut:], stop
            return np.concatenate(parts)

    def _from(self, row: int) -> Iterator[Any]:
        """Batches from a row on."""
        group = max(0, int(np.searchsorted(self._starts, row, side="right")) - 1)
        batches = self._file.iter_batches(
            batch_size=max(1, _BATCH_BYTES // (8 * self.shape[1])),
            row_groups=range(group, len(self._starts) - 1),
            columns=self._names,
            use_threads=False,
        )
        first = int(self._starts[group])
        for batch in batches:
            out = np.empty((batch.num_rows, self.shape[1]), self.dtype)
            for j, name in enumerate(self._names):  # by name: columns come in the order of the file
                out[:, j] = self._column(batch.column(name), name, first)
            yield out[max(0, row - first) :]
            first += len(out)
        raise EOFError("it has fewer rows than it says")

    def _column(self, column: Any, name: str, first: int) -> Any:
        types = needed("pyarrow.types", "parquet", "a Parquet file")
        if column.null_count and not types.is_floating(column.type):
            row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise ScalemaniError(
                f"{self._path} has an empty cell at row {row}, column {name!r}; fill it or drop the row"
            )
        if types.is_decimal(column.type):
            exact = column.to_pylist()
            values = np.array([float(value) for value in exact])
            lost = any(
                abs(given) > EXACT and given != value for given, value in zip(exact, values.tolist(), strict=True)
            )
        else:
            values = column.to_numpy(zero_copy_only=False)
            wide = values.dtype.kind in "iu" and values.dtype.itemsize == 8 and self.dtype.kind == "f" and values.size
            lost = wide and max(int(values.max()), -int(values.min())) > EXACT
        if lost:
            raise ScalemaniError(
                f"{self._path} holds an integer beyond 2**53 in {name!r}, which is not exact as float64; subtract an "
                "offset first"
            )
        return values
