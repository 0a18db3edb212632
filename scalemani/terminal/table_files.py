"""Coordinates for others' tools: takes coordinates with their names, gives the bytes of a .parquet or an HDF5 file.

The bytes are made in memory, where coordinates are already, and written as any others: a full disk is then met where it
is known what to say of it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError
from scalemani.optional import needed

__all__ = ["hdf5_bytes", "parquet_bytes"]

_ROWS_A_GROUP = 1 << 17  # of a .parquet: what a reader decodes at least


def parquet_bytes(
    coordinates: NDArray[np.floating[Any]], heading: list[str], ids: Sequence[str] | None, id_name: str
) -> memoryview:
    """A table with a column an axis, ids first.

    Raises ScalemaniError: pyarrow is not there, or the ids' heading is an axis's.
    """
    pyarrow, parquet = (needed(name, "parquet", "a .parquet") for name in ("pyarrow", "pyarrow.parquet"))
    columns: dict[str, Any] = {}
    if ids is not None:
        if id_name in heading:
            raise ScalemaniError(f"the ids are called {id_name!r}, as an axis is: give their column another heading")
        columns[id_name] = pyarrow.array(ids, type=pyarrow.string())
    columns.update({name: pyarrow.array(column) for name, column in zip(heading, coordinates.T.copy(), strict=True)})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), sink, row_group_size=_ROWS_A_GROUP)
    return memoryview(sink.getvalue())


def hdf5_bytes(
    coordinates: NDArray[np.floating[Any]], heading: list[str], ids: Sequence[str] | None, id_name: str
) -> bytes:
    """A file with the datasets `coordinates` and, if there are any, `ids`; names are attributes, as in a .zarr.

    Raises ScalemaniError: h5py is not there.
    """
    h5py = needed("h5py", "hdf5", "an HDF5 file")
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        file.attrs["axes"] = heading
        file.create_dataset("coordinates", data=coordinates)
        if ids is not None:
            file.attrs["id_name"] = id_name
            file.create_dataset("ids", data=np.array(ids, dtype=object), dtype=h5py.string_dtype())
        file.flush()
        image: bytes = file.id.get_file_image()
    return image
