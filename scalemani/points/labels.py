"""Matrices that say more than their numbers: packed arrays, DataArrays and data frames, and the labels of features.

Packed arrays (netCDF, Zarr, HDF5) give the cells as they are stored, and attributes of the netCDF conventions say what
they mean (:class:`Packing`): a value is ``cell * scale_factor + add_offset``, in float64. A cell is missing if it
equals `_FillValue` or a `missing_value`, or lies outside of `valid_min`, `valid_max` or `valid_range`. `_Unsigned` says
how integers are to be taken. What HDF5 and Zarr themselves call the fill value is only what a cell has that was never
written: it marks nothing, except in arrays that xarray wrote in Zarr's format 2, where it is the one place for
`_FillValue`, and where it is that of netCDF's library.

Nothing of xarray or pandas is imported: who has a DataArray has it. Labels are text here, whatever they are there;
:func:`check_labels` holds them against those of a fit.
"""

import base64
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import FeatureNamesWarning, ScalemaniError, nearest, warn
from scalemani.points.cells import RowSource, as_text, check_exact, numbers, unmasked
from scalemani.words import one_line

Cells = NDArray[Any]

_SCALE, _OFFSET, _UNSIGNED = "scale_factor", "add_offset", "_Unsigned"
_FILLS = ("_FillValue", "missing_value")
_OF_FORMAT = "fill_value"
_OF_NETCDF = (15 * 2.0**119, -32767, -(2**31) + 1, -(2**63) + 2)  # of cells that were never written
_BOUNDS = ("valid_min", "valid_max", "valid_range")
# Layers of Dask's that change no cell.
_AS_THEY_ARE = (
    *("original-", "array-", "from-zarr-", "rechunk-", "getitem-"),
    *("concatenate-", "stack-", "transpose-", "reshape-", "astype-"),
)
_MOST_NUMBERS = 100  # of an attribute
TAKEN_AWAY = (_SCALE, _OFFSET, _UNSIGNED, *_FILLS)  # by xarray, from the attributes of what it unpacks
_KNOWN = (*TAKEN_AWAY, *_BOUNDS)


class Packing:
    """How the cells of an array are to be taken.

    dtype: Of the cells, of real numbers.
    attributes: Those of the array that say something about it.
    Raises ScalemaniError: Naming an attribute that can't be read.
    """

    def __init__(self, dtype: np.dtype[Any], attributes: dict[str, Any], name: str) -> None:
        self._name, self._given = name, attributes
        self.stored = self.dtype = dtype
        unsigned = attributes.get(_UNSIGNED)
        signed = {"true": "u", "false": "i"}.get(str(as_text(unsigned) or unsigned).lower())
        if signed is not None and dtype.kind in "iu":
            self.dtype = np.dtype(f"{signed}{dtype.itemsize}")
        self._scale, self._offset = self._one(_SCALE, 1.0), self._one(_OFFSET, 0.0)
        if self._scale == 0:
            raise ScalemaniError(f"{name} has the scale_factor 0, which leaves nothing of its values; mend it")
        self.scales = self._scale != 1 or self._offset != 0
        self._tests: list[tuple[str, Callable[[Cells], Cells]]] = []
        for attribute in (*_FILLS, _OF_FORMAT):
            for value in self._numbers(attribute):
                self._add_fill(attribute, value)
        both = self._numbers("valid_range")
        if len(both) not in (0, 2):
            raise ScalemaniError(f"{name} has the valid_range {both}; two numbers are needed: mend it")
        for bound in self._numbers("valid_min") + both[:1]:
            self._add_bound("its least valid value is", np.less, bound)
        for bound in self._numbers("valid_max") + both[1:]:
            self._add_bound("its largest valid value is", np.greater, bound)

    def _numbers(self, attribute: str) -> list[Any]:
        """The numbers of an attribute, which may be text as Zarr's JSON needs it for NaN."""
        found: list[Any] = []
        for value in np.ravel(np.asarray(self._given.get(attribute, []), object))[: _MOST_NUMBERS + 1].tolist():
            value = value if as_text(value) is None else _number_in(str(as_text(value)))
            if len(found) == _MOST_NUMBERS or not isinstance(value, Real):
                raise ScalemaniError(
                    f"{self._name} has the {attribute} {self._given[attribute]!r:.60}, which is no number, or are "
                    f"more than {_MOST_NUMBERS} of them: mend it, or remove that attribute"
                )
            found.append(value)
        return found

    def _one(self, attribute: str, default: float) -> float:
        found = self._numbers(attribute)
        if len(found) > 1 or not np.isfinite(found).all():
            raise ScalemaniError(
                f"{self._name} has the {attribute} {found}; one finite number is needed: unpack the values yourself"
            )
        return float(found[0]) if found else default

    def _add_fill(self, attribute: str, value: Any) -> None:
        if np.isnan(value):
            return  # NaN is refused in any case
        if self.dtype.kind != "f":
            limits = np.iinfo(f"i{self.dtype.itemsize}").min, np.iinfo(f"u{self.dtype.itemsize}").max
            limits = (0, 1) if self.dtype.kind == "b" else limits
            if not limits[0] <= value <= limits[1] or value != int(value):
                return  # no cell can be that
        with np.errstate(over="ignore"):
            cell = np.array(value).astype(self.dtype)[()]
        self._tests.append((f"its {attribute} is {cell}", lambda cells: cells == cell))

    def _add_bound(self, said: str, outside: Callable[..., Cells], bound: Any) -> None:
        """A bound of the cells, or of the values if it is a float and the cells are packed as integers."""
        if self.scales and self.dtype.kind in "iu" and isinstance(bound, float):
            self._tests.append((f"{said} {bound:g}", lambda cells: outside(self._scaled(cells), bound)))
            return
        if bound < 0 and self.stored.kind == "i" and self.dtype.kind == "u":
            bound += 1 << 8 * self.dtype.itemsize
        self._tests.append((f"{said} {bound:g}", lambda cells: outside(cells, bound)))

    @property
    def says_nothing(self) -> bool:
        """Whether cells are values as they are."""
        return not self.scales and not self._tests and self.stored == self.dtype

    def _scaled(self, cells: Cells) -> Cells:
        if not self.scales:
            return cells
        check_exact(cells, self._name)
        return cells.astype(np.float64) * self._scale + self._offset

    def values(self, stored: Any) -> Cells:
        """The values of cells, NaN where they are missing."""
        cells = np.asarray(unmasked(stored, self._name)).astype(self.dtype, copy=False)
        missing = np.zeros(cells.shape, bool)
        for _, test in self._tests:
            missing |= test(cells)
        if not missing.any():
            return self._scaled(cells)
        values = self._scaled(np.where(missing, self.dtype.type(0), cells))
        check_exact(values, self._name)
        return np.where(missing, np.nan, values.astype(np.float64))

    def values_of_rows(self, stored: Any, first: int) -> Cells:
        """The values of rows of cells, of which none is missing; `first` is the number of the first row.

        Raises ScalemaniError: Naming row, column and attribute.
        """
        cells = np.asarray(stored).astype(self.dtype, copy=False)
        for said, test in self._tests:
            missing = test(cells)
            if missing.any():
                row, column = np.argwhere(missing)[0].tolist()
                raise ScalemaniError(
                    f"Input {self._name} contains NaN at row {first + row}, column {column}, where the cell "
                    f"{cells[row, column]} is missing: {said} ({int(missing.sum())} such entries in this block of "
                    "rows); drop or fill those rows"
                )
        return self._scaled(cells)


class _ValuesOfRows(RowSource):
    """Rows of an array, in memory or in a file, of which only these are read; `values` makes numbers of them."""

    def __init__(self, X: Any, dtype: Any, values: Callable[[Any, int], Any], chunk_rows: int | None = None) -> None:
        super().__init__((int(X.shape[0]), int(X.shape[1])), dtype, chunk_rows)
        self._X, self._values = X, values

    def read(self, start: int, stop: int) -> Any:
        return self._values(self._X[start:stop], start)


def unpacked_rows(X: Any, packing: Packing | None, name: str) -> Any:
    """A matrix with its values in place of its cells; a Dask array stays one, and has NaN where cells are missing."""
    if packing is None or packing.says_nothing or len(X.shape) != 2:
        return X
    if hasattr(X, "map_blocks"):
        return X.map_blocks(packing.values)
    dtype, chunks = np.float64 if packing.scales else packing.dtype, getattr(X, "chunks", None)
    return _ValuesOfRows(
        X,
        dtype,
        lambda cells, start: packing.values_of_rows(unmasked(cells, name, start), start),
        int(chunks[0]) if chunks else None,
    )


def packing_of(X: Any, name: str) -> Packing | None:
    """How the cells of an array with attributes (Zarr, HDF5, netCDF4; or Dask's of these) are to be taken.

    None: as they are.
    """
    X = _under(X, name)
    if hasattr(X, "ncattrs"):  # a netCDF4 variable unpacks itself, unless it is told not to
        if set(X.ncattrs()) & set(_KNOWN) and not (X.mask and X.scale):
            raise ScalemaniError(f"{name} gives its cells as they are stored: call its set_auto_maskandscale(True)")
        return None
    given: Any = getattr(X, "attrs", None)
    dtype = getattr(X, "dtype", None)
    if not hasattr(given, "__getitem__") or not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
        return None
    try:
        found = {attribute: given[attribute] for attribute in _KNOWN if attribute in given}
    except Exception as error:  # h5py has no type for some, and raises several kinds for damaged ones
        raise ScalemaniError(f"{name} has attributes that can't be read ({one_line(error)}); write it again") from error
    metadata = getattr(X, "metadata", None)
    if getattr(metadata, "zarr_format", None) == 2 and "_ARRAY_DIMENSIONS" in given and X.fill_value is not None:
        found[_OF_FORMAT] = X.fill_value
    unwritten = getattr(X, "fillvalue", None)  # of HDF5
    if "_FillValue" not in found and dtype.itemsize > 1 and unwritten in _OF_NETCDF:
        found[_OF_FORMAT] = unwritten
    packing = Packing(dtype, found, name)
    return None if packing.says_nothing else packing


def _under(X: Any, name: str) -> Any:
    """The array of which a Dask array gives the cells as they are, all or some; any other X itself."""
    layers = getattr(getattr(X, "dask", None), "layers", {})
    found = [next(iter(layer.values())) for key, layer in layers.items() if key.startswith("original-")]
    if not found or not all(key.startswith(_AS_THEY_ARE) for key in layers):
        return X
    if len(found) > 1 and any(packing_of(one, name) for one in found):
        raise ScalemaniError(
            f"{name} puts several arrays together of which some are packed (they have attributes such as scale_factor "
            "or _FillValue): unpack each of them before, as xarray.open_mfdataset does"
        )
    exact = len(found) == 1 and np.can_cast(found[0].dtype, X.dtype)
    return found[0] if exact else X


def unpacked(X: Any, cells: Any, name: str) -> Any:
    """The values of some cells of an array, NaN where they are missing."""
    packing = packing_of(X, name)
    return cells if packing is None else packing.values(cells)


def _number_in(text: str) -> float | None:
    """A number in text, or in base64 as xarray writes it into Zarr's format 3."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError, struct.error):
        return float(struct.unpack("<d", base64.b64decode(text, validate=True))[0])
    return None


_MOST_SHOWN = 8


def is_labeled(X: Any) -> bool:
    """Whether X is something of xarray's."""
    return type(X).__module__.partition(".")[0] == "xarray"


def is_frame(X: Any) -> bool:
    """Whether X is a table of columns: pandas', polars', Dask's, Arrow's."""
    return hasattr(X, "shape") and (hasattr(X, "columns") or hasattr(X, "column_names"))


def labeled_rows(X: Any, name: str) -> Any:
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
    in_chunks = X.chunks is not None and hasattr(X.data, "rechunk")
    rows = X.data if in_chunks else _ValuesOfRows(X, X.dtype, lambda part, start: np.asanyarray(part.data))
    return unpacked_rows(rows, packing, name)


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
    if is_labeled(X) and getattr(X, "ndim", 0) == 2 and X.dims[1] in getattr(X, "coords", ()):
        return [label_text(label) for label in X.coords[X.dims[1]].values]
    return None


def row_labels(X: Any) -> list[str] | None:
    """The labels of the rows as text; None where there are none, or they only count the rows from 0.

    X: A pandas frame, by its index, or a DataArray whose first dimension has coordinates.
    """
    labels: Any = None
    if is_labeled(X) and getattr(X, "ndim", 0) == 2 and X.dims[0] in getattr(X, "coords", ()):
        labels = X.coords[X.dims[0]].values
    elif is_frame(X) and hasattr(X, "iloc") and not hasattr(X, "to_dask_array"):  # which would be computed
        labels = X.index
    if labels is None or (getattr(labels, "start", None), getattr(labels, "step", None)) == (0, 1):
        return None
    return unnumbered([label_text(label) for label in labels])


def label_text(label: Any) -> str:
    """A label as text: the same for equal labels of one type."""
    if isinstance(label, np.datetime64) and not np.isnat(label):
        label = label.astype("datetime64[us]").item()
    return str(tuple(map(label_text, label))) if isinstance(label, tuple) else as_text(label) or str(label)


def listed_labels(given: Any, name: str) -> list[str]:
    """Labels as text; NumPy's text is no str to JSON.

    Raises ScalemaniError: What is given is one text, no list, or has several columns.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) != 1:
        what = getattr(given, "shape", type(given).__name__)
        raise ScalemaniError(f"{name} is no list of labels ({what}): give one for each, such as ['a', 'b']")
    return [str(label_text(one)) for one in given]


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
    fitted, found = set(ours), set(theirs)
    lost, more = [one for one in ours if one not in found], [one for one in theirs if one not in fitted]
    what = f"without {_shown(more)}" if more and not lost else "in another order"
    if lost:
        near = nearest(lost[0], more)
        what = f"and {_shown(lost)} {'is' if len(lost) == 1 else 'are'} missing"
        what += f" (is {near} meant for {lost[0]}?)" if near else ""
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
