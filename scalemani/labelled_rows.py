"""Labelled matrices: takes a DataArray of xarray's or a data frame, gives its numbers by blocks of rows, and labels.

Nothing of xarray or pandas is imported: who has a DataArray has it. Labels are text here, whatever they are there, and
are held against those of a fit in one place, :func:`check_labels`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scalemani.cells import as_text, check_exact, numbers
from scalemani.errors import FeatureNamesWarning, ScalemaniError, warn
from scalemani.packed_rows import TAKEN_AWAY, Packing, unpacked_rows
from scalemani.row_source import RowSource

__all__ = [
    "check_labels",
    "feature_labels",
    "frame_rows",
    "is_frame",
    "is_labelled",
    "label_text",
    "labelled_rows",
    "unnumbered",
    "warn_of_row_names",
]

_MOST_SHOWN = 8


def is_labelled(X: Any) -> bool:
    """Whether X is something of xarray's."""
    return type(X).__module__.partition(".")[0] == "xarray"


def is_frame(X: Any) -> bool:
    """Whether X is a table of columns: pandas', polars', Dask's, Arrow's."""
    return hasattr(X, "shape") and (hasattr(X, "columns") or hasattr(X, "column_names"))


def labelled_rows(X: Any, name: str) -> Any:
    """The numbers of a DataArray: its Dask array if it has one, else a matrix of which blocks of rows are read.

    X (rows, features): The first dimension is that of the rows.
    Raises ScalemaniError: A Dataset, other than two dimensions, or values that are still packed.
    """
    if not hasattr(X, "isel") or hasattr(X, "data_vars"):
        raise ScalemaniError(
            f"{name} is an xarray {type(X).__name__}: give a DataArray (rows, features), such as "
            "dataset.to_array('feature').transpose(..., 'feature')"
        )
    if X.ndim != 2:
        remedy = (
            f"stack the features into one, as in X.stack(feature={tuple(X.dims[1:])!r})"
            if X.ndim > 2
            else f"add one, as in X.expand_dims('feature', axis={X.ndim})"
        )
        raise ScalemaniError(
            f"{name} has the dimensions {tuple(X.dims)!r}; two are needed, of rows and of features: {remedy}"
        )
    packing = None
    if X.dtype.kind in "biuf":
        packing = Packing(X.dtype, {key: X.attrs[key] for key in TAKEN_AWAY if key in X.attrs}, name)
        if packing.scales or packing.stored != packing.dtype:
            raise ScalemaniError(
                f"{name} has the attributes scale_factor, add_offset or _Unsigned: if its values are still packed, "
                "open it with mask_and_scale=True or give xarray.decode_cf(dataset); if not, remove them"
            )
    rows = X.data if X.chunks is not None and hasattr(X.data, "rechunk") else _Labelled(X)
    return unpacked_rows(rows, packing, name)


class _Labelled(RowSource):
    """Rows of a DataArray in memory or, opened without chunks, in a file of which only these rows are read."""

    def __init__(self, X: Any) -> None:
        super().__init__((int(X.shape[0]), int(X.shape[1])), X.dtype)
        self._X = X

    def read(self, start: int, stop: int) -> Any:
        return np.asanyarray(self._X[start:stop].data)


def frame_rows(X: Any, name: str) -> Any:
    """The numbers of a data frame: as they lie if all columns are of one NumPy dtype, else column by column.

    A frame as a whole would round integers beside floats, and make numbers of categories.

    Raises ScalemaniError: Naming a column of another kind.
    """
    if hasattr(X, "to_dask_array"):
        made = np.empty((0, len(X.columns)))
        return X.map_partitions(lambda part: np.asarray(frame_rows(part, name)), meta=made)
    kinds = X.schema.types if hasattr(X, "schema") and hasattr(X.schema, "types") else list(X.dtypes)
    if kinds and all(isinstance(kind, np.dtype) and kind == kinds[0] and kind.kind in "biuf" for kind in kinds):
        return np.asarray(X)
    return _Frame(X, [str(kind) for kind in kinds], name)


class _Frame(RowSource):
    """Rows of a data frame whose columns are of several dtypes, or of none of NumPy's."""

    def __init__(self, X: Any, kinds: list[str], name: str) -> None:
        super().__init__((int(X.shape[0]), int(X.shape[1])), np.float64)
        self._X, self._labels, self._name = X, feature_labels(X) or [], name
        for at, kind in enumerate(kinds):
            if kind.lower().startswith(("category", "dictionary")):  # of numbers they would pass for these
                self._refuse(at, kind)

    def read(self, start: int, stop: int) -> Any:
        out = np.empty((stop - start, self.shape[1]))
        for at, label in enumerate(self._labels):
            cells = np.asarray(self._column(at)[start:stop])
            if cells.ndim != 1 or cells.dtype.kind not in "biufcO":
                self._refuse(at, cells.dtype)
            if cells.dtype.kind in "Oc":
                try:
                    cells = numbers(cells.astype(object)[:, None], self._name, start, at, label)[:, 0]
                except TypeError:
                    self._refuse(at, type(cells[0]).__name__)
            check_exact(cells, self._name)
            out[:, at] = cells
        return out

    def _column(self, at: int) -> Any:
        if hasattr(self._X, "iloc"):
            return self._X.iloc[:, at]
        return self._X.column(at) if hasattr(self._X, "column") else self._X[:, at]

    def _refuse(self, at: int, kind: Any) -> None:
        raise ScalemaniError(
            f"{self._name} has the column {self._labels[at]!r} of dtype {kind}; give real numbers (integer, float or "
            "bool), such as codes of your own"
        )


def feature_labels(X: Any) -> list[str] | None:
    """The labels of the features as text; None where there are none.

    X: A data frame, or a DataArray whose second dimension has coordinates.
    """
    if is_frame(X):
        return [label_text(label) for label in (X.column_names if hasattr(X, "column_names") else X.columns)]
    if is_labelled(X) and getattr(X, "ndim", 0) == 2 and X.dims[1] in getattr(X, "coords", ()):
        return [label_text(label) for label in X.coords[X.dims[1]].values]
    return None


def label_text(label: Any) -> str:
    """A label as text: the same for equal labels of one type."""
    if isinstance(label, np.datetime64) and not np.isnat(label):
        label = label.astype("datetime64[us]").item()
    return str(tuple(map(label_text, label))) if isinstance(label, tuple) else as_text(label) or str(label)


def unnumbered(labels: Sequence[str] | None) -> list[str] | None:
    """Labels; None where they only count the features from 0, as those of a frame to which nobody gave any."""
    return None if labels is None or list(labels) == _counted(len(labels)) else list(labels)


def warn_of_row_names(labels: Sequence[str] | None) -> None:
    """Warn where pandas read a column without a heading, which usually holds the names of the rows."""
    for at, label in enumerate(labels or ()):
        if label == f"Unnamed: {at}":
            warn(
                f"X has a column {label!r}, as pandas calls one without a heading, and it is read as a feature: if it "
                f"names the rows, read the file with index_col={at}",
                FeatureNamesWarning,
            )


def _counted(n: int) -> list[str]:
    return [str(number) for number in range(n)]


def check_labels(known: Sequence[str] | None, given: Sequence[str] | None, name: str, fit: str) -> None:
    """Hold the labels of features against those of the fit.

    known, given: Of the fit, and of what is to be placed; None where there are none.
    name, fit: What messages call the latter, and the fit.
    Raises ScalemaniError: They are others, or in another order.
    Warns by FeatureNamesWarning: One of the two has none, so that nobody can tell.
    """
    if known is None and given is None:
        return
    n = max(len(labels) for labels in (known, given) if labels is not None)
    ours, theirs = (_counted(n) if labels is None else list(labels) for labels in (known, given))
    if len(ours) == len(theirs) and all(map(_same, ours, theirs)):
        return
    nameless = unnumbered(known) is None or unnumbered(given) is None
    if nameless and (given is None or set(ours) != set(theirs)):
        has, other = ("no feature names", "them") if unnumbered(given) is None else ("feature names", "none")
        warn(
            f"{name} has {has} and {fit} has {other}: whether these are the same features, in the same order, can't be "
            "checked",
            FeatureNamesWarning,
        )
        return
    what = "in another order" if sorted(ours) == sorted(theirs) else "which are others"
    raise ScalemaniError(
        f"{name} has the columns {_shown(theirs)}; {fit} was fitted on {_shown(ours)}, {what}: give {name} with those "
        "names, in that order"
    )


def _same(one: str, other: str) -> bool:
    """Whether two labels are the same text, or the same number."""
    if one == other:
        return True
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _shown(labels: list[str]) -> str:
    return ", ".join(labels[:_MOST_SHOWN]) + (f" and {len(labels) - _MOST_SHOWN} more" * (len(labels) > _MOST_SHOWN))
