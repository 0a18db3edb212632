"""Arrays of a run that are read whole: takes a folder, a name and numbers, gives them back with their bits or an error.

Each is a Zarr array of plain chunks with Zarr's own CRC32C behind each; the CRC32C of all of its numbers is in its
attributes, and that of its metadata's text goes into the run's document, so that no array stands for another.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from scalemani.engine.objects import beside, checksum, checksum_of, room_for
from scalemani.engine.schemas import MOST_METADATA_BYTES, array_bytes, checked_array_metadata, parsed, read_plain
from scalemani.errors import DamagedStoreError

CHUNK_BYTES = 32 << 20
MOST_BYTES = 1 << 50


def write(folder: Path, name: str, array: NDArray[Any]) -> int:
    """Write an array whole, in the place of one that is there; the CRC32C of its metadata.

    Raises
    ------
    TypeError
        If it holds anything but numbers.
    DiskFullError
    """
    data = np.ascontiguousarray(array)
    if data.dtype.kind not in "biuf":
        raise TypeError(f"{name!r} has dtype {data.dtype}: only numbers go into a store")
    rows = max(1, CHUNK_BYTES // max(1, data[:1].nbytes))
    target, partial = folder / name, beside(folder / name)
    with room_for(target, data.nbytes):
        try:
            created = zarr.create_array(
                str(partial),
                shape=data.shape,
                dtype=data.dtype,
                chunks=(max(1, min(len(data), rows)), *(max(1, side) for side in data.shape[1:])),
                compressors=Crc32cCodec(),
                attributes={"crc32c": checksum(data)},
                config={"write_empty_chunks": True},
            )
            if data.size:
                created[...] = data
            sum_of_metadata = checksum_of((partial / "zarr.json").read_bytes())
            if target.exists():
                old = beside(target)
                target.rename(old)
                partial.rename(target)
                shutil.rmtree(old, ignore_errors=True)
            else:
                partial.rename(target)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return sum_of_metadata


def read(folder: Path, name: str, metadata_sum: int | None, remedy: str) -> NDArray[Any]:
    """Read an array whole and check it.

    Parameters
    ----------
    metadata_sum : int or None
        What :func:`write` gave, where it is known.
    remedy : str
        What to do about damage, for messages.

    Raises
    ------
    DamagedStoreError
        If it is missing, or anything of it is not what was written.
    """
    place = folder / name

    def damaged(why: object) -> DamagedStoreError:
        return DamagedStoreError(f"{str(folder)!r}: {name!r} is damaged ({why}); {remedy}")

    if not (place / "zarr.json").exists():
        raise DamagedStoreError(f"{str(folder)!r} lacks {name!r}; {remedy}")
    content = read_plain(place / "zarr.json", MOST_METADATA_BYTES)
    if metadata_sum is not None and checksum_of(content) != metadata_sum:
        raise damaged("its metadata is not what was written")
    said = parsed(content, str(place / "zarr.json"))
    metadata = checked_array_metadata(said, str(place / "zarr.json"), MOST_BYTES)
    there = sum(file.stat().st_size for file in (place / "c").rglob("*") if file.is_file())
    if there < array_bytes(metadata):  # before memory is taken for it: missing chunks would read as fill
        raise damaged(f"{there:,} bytes of {array_bytes(metadata):,}")
    try:
        array: Any = zarr.open_array(str(place), mode="r")
        data = np.asarray(array[...])
    except (ValueError, RuntimeError, OSError, TypeError, KeyError) as error:
        raise damaged(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    if checksum(data) != metadata["attributes"].get("crc32c"):
        raise damaged("checksum differs")
    return data
