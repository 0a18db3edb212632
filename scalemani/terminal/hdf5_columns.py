"""Columns of HDF5 files: takes a file and a path inside it, gives a value for each row of a fit.

A path leads to a dataset, or to a column of obs as AnnData writes it: numbers, text, categories, or values with the
missing ones marked.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.cells import as_text
from scalemani.engine.foreign_zarr import MOST_ROWS
from scalemani.errors import ScalemaniError
from scalemani.packed_rows import unpacked
from scalemani.terminal.column_choice import short_list
from scalemani.terminal.hdf5_points import checked_dataset, damage_said, file_of, node_at

__all__ = ["hdf5_column"]

_MASKED = ("nullable-integer", "nullable-boolean", "nullable-string-array")


def hdf5_column(path: Path, member: str, number: int | None, n_rows: int) -> NDArray[Any] | list[str]:
    """A column of an HDF5 file.

    member: Path of a dataset or of a column of obs, such as "obs/fate".
    number: From 1, of the columns of a dataset that has several.
    -> (n_rows,): Missing numbers are NaN, missing text is empty. Categories are text, whatever they are called.
    Raises ScalemaniError: The file is damaged or lacks the member, which has another number of rows or other than
        numbers and text.
    """
    name = f"{path}::{member.strip('/')}"
    with damage_said(path), file_of(path) as file:
        node = node_at(file, path, member)
        if not hasattr(node, "keys"):
            return _values(node, name, n_rows, number)
        kind, there = as_text(node.attrs.get("encoding-type")), list(node.keys())
        if kind == "dataframe":
            raise ScalemaniError(f"{name} is a table ({short_list(there)}); give one of its columns, as in {name}/NAME")
        if number is not None or not (kind == "categorical" or kind in _MASKED):
            raise ScalemaniError(f"{name} is a group or a sparse matrix; give a dataset or a column of obs")
        parts = {part: node_at(file, path, f"{member}/{part}") for part in there}
        if kind == "categorical" and {"codes", "categories"} <= parts.keys():
            return _of_categories(parts["codes"], parts["categories"], name, n_rows)
        if kind in _MASKED and {"values", "mask"} <= parts.keys():
            return _masked(parts["values"], parts["mask"], name, n_rows)
        raise ScalemaniError(f"{name} says {kind} and has {short_list(there)}, which is not whole; write it again")


def _values(node: Any, name: str, n_rows: int, number: int | None = None) -> NDArray[Any] | list[str]:
    """A dataset of numbers or of text; one column of it."""
    checked_dataset(node, name)
    if len(node.shape) not in (1, 2) or node.shape[0] != n_rows:
        raise ScalemaniError(f"{name} has shape {node.shape} and the fit {n_rows} rows: give a value a row, in order")
    width = node.shape[1] if len(node.shape) == 2 else 1
    if (number is None and width != 1) or (number is not None and not 1 <= number <= width):
        raise ScalemaniError(f"{name} has {width} columns; give a number from 1 to {width} behind it, as in {name}:1")
    cells = node[:, (number or 1) - 1] if len(node.shape) == 2 else node[:]
    if cells.dtype.kind in "biuf":
        return np.asarray(unpacked(node, cells, name))
    texts = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells.tolist()]
    if cells.dtype.kind not in "OSU" or not all(isinstance(text, str) for text in texts):
        raise ScalemaniError(f"{name} holds values of type {node.dtype}; give numbers or text")
    return texts


def _of_categories(codes: Any, categories: Any, name: str, n_rows: int) -> list[str]:
    """The name of each row's category; empty where it has none."""
    n_names = categories.shape[0] if len(getattr(categories, "shape", None) or ()) == 1 else MOST_ROWS + 1
    if n_names > MOST_ROWS:
        raise ScalemaniError(f"{name} has no list of at most {MOST_ROWS:,} categories; write it again")
    names = [str(one) for one in list(_values(categories, f"{name}/categories", n_names))]
    rows = np.asarray(_values(codes, f"{name}/codes", n_rows))
    if rows.dtype.kind not in "iu" or (rows.size and not -1 <= int(rows.min()) <= int(rows.max()) < n_names):
        raise ScalemaniError(f"{name} has codes that are no numbers of its {n_names:,} categories; write it again")
    return [names[code] if code >= 0 else "" for code in rows.tolist()]


def _masked(values: Any, mask: Any, name: str, n_rows: int) -> NDArray[Any] | list[str]:
    """Values, those without one being NaN or empty."""
    found = _values(values, f"{name}/values", n_rows)
    missing = np.asarray(_values(mask, f"{name}/mask", n_rows)).astype(bool)
    if isinstance(found, list):
        return ["" if gone else text for text, gone in zip(found, missing.tolist(), strict=True)]
    return np.where(missing, np.nan, found) if missing.any() else found
