"""Names in an .h5ad: takes the file, gives the names of its rows (obs) or those of the columns of X (var)."""

from pathlib import Path
from typing import Any

from scalemani.cells import as_text
from scalemani.engine.foreign_zarr import MOST_ROWS
from scalemani.errors import ScalemaniError
from scalemani.terminal.column_choice import short_list
from scalemani.terminal.hdf5_points import checked_dataset, damage_said, file_of, node_at

__all__ = ["ids_of", "names_of"]

_INDEX = "obs_names"  # what AnnData calls it, whatever its heading is
_MOST_NAMED = 1_000_000  # columns whose names are read


def ids_of(path: Path, column: str, n_rows: int) -> list[str]:
    """A column of obs as text.

    column: Its name, or "obs_names" for the index.
    Raises ScalemaniError: There is no such column, or it is not of text or whole numbers, or has another length.
    """
    with damage_said(path), file_of(path) as file:
        obs = node_at(file, path, "obs")
        if not hasattr(obs, "keys"):
            raise ScalemaniError(f"{path}::obs is no table of AnnData's; save it again with a release from 0.7 on")
        index = _index_of(obs)
        name = index if column == _INDEX else column
        if name is None or name not in obs.keys():  # noqa: SIM118 - `in obs` would follow a link
            there = [_INDEX, *(key for key in obs.keys() if key != index)]  # noqa: SIM118
            raise ScalemaniError(f"{path}::obs has no column {column!r} ({short_list(there)}); give one of these")
        found = _texts(file, path, f"obs/{name}")
    if len(found) != n_rows:
        raise ScalemaniError(f"{path}: {len(found):,} names in obs for {n_rows:,} rows; give a matrix with a row each")
    return found


def names_of(path: Path, member: str | None, n_features: int) -> list[str] | None:
    """The names in var where the columns of a matrix are those of var, else None.

    Raises ScalemaniError: They are damaged.
    """
    if (member or "").strip("/").split("/")[0] not in ("X", "layers") or n_features > _MOST_NAMED:
        return None
    with damage_said(path), file_of(path) as file:
        var = node_at(file, path, "var") if "var" in file.keys() else None  # noqa: SIM118 - no links
        name = None if var is None else _index_of(var)
        if name is None:
            return None
        found = _texts(file, path, f"var/{name}")
    return found if len(found) == n_features else None


def _index_of(table: Any) -> str | None:
    return as_text(table.attrs.get("_index"))


def _texts(file: Any, path: Path, member: str) -> list[str]:
    """Strings or whole numbers of a dataset, or of a column with its missing ones marked."""
    node = node_at(file, path, member)
    if hasattr(node, "keys"):
        if as_text(node.attrs.get("encoding-type")) != "nullable-string-array":
            raise ScalemaniError(f"{path}::{member} is not of text or whole numbers; give {_INDEX} or another column")
        node = node_at(file, path, f"{member}/values")
    checked_dataset(node, f"{path}::{member}")
    if len(node.shape) != 1 or node.shape[0] > MOST_ROWS or node.dtype.kind not in "OSiu":
        raise ScalemaniError(f"{path}::{member} is not of text or whole numbers; give {_INDEX} or another column")
    cells = node[:].tolist()
    return [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell) for cell in cells]
