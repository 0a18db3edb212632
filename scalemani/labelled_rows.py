"""Labelled matrices: takes a two-dimensional xarray DataArray, gives its numbers, by blocks of rows.

Nothing of xarray is imported: who has a DataArray has it. Labels are kept by :mod:`scalemani.xarray`.
"""

from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError
from scalemani.row_source import RowSource

__all__ = ["is_labelled", "labelled_rows"]


def is_labelled(X: Any) -> bool:
    """Whether X is something of xarray's."""
    return type(X).__module__.partition(".")[0] == "xarray"


def labelled_rows(X: Any, name: str) -> Any:
    """The numbers of a DataArray: its Dask array if it has one, else a matrix of which blocks of rows are read.

    Parameters
    ----------
    X : xarray.DataArray, shape (rows, features)
        The first dimension is that of the rows.
    name : str
        What messages call it.

    Raises
    ------
    ScalemaniError
        A Dataset, or other than two dimensions.
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
    if X.chunks is not None and hasattr(X.data, "rechunk"):
        return X.data
    return _Labelled(X)


class _Labelled(RowSource):
    """Rows of a DataArray in memory or, opened without chunks, in a file of which only these rows are read."""

    def __init__(self, X: Any) -> None:
        super().__init__((int(X.shape[0]), int(X.shape[1])), X.dtype)
        self._X = X

    def read(self, start: int, stop: int) -> Any:
        return np.asarray(self._X[start:stop].data)
