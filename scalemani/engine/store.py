"""One run on disk: takes arrays and stage states, gives them back whole. D itself is in :mod:`.tiles`.

A run is one Zarr v3 group. Its root attributes hold, as one JSON object under "scalemani", the
format version, the package versions, and a state per finished stage: the fields that identify it
(its fingerprint) and what it found. Small arrays are written whole and carry a CRC32C in their own
attributes. Nothing here is ever unpickled.
"""

import errno
import json
import os
import shutil
import uuid
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from scalemani.engine.tiles import Tiles, beside, checksum
from scalemani.errors import DamagedStoreError, ScalemaniError

FORMAT_VERSION = 2
READABLE = (1, 2)  # 1 knew no correction but a constant added to distances, of which it is read as ever
KEY = "scalemani"


def kind_of(path: str | os.PathLike[str]) -> str:
    """What is at a path: "nothing", "run" (a store of this package) or "other".

    An empty folder is "nothing": a run may be made there.
    """
    place = Path(path)
    if not os.path.lexists(place):
        return "nothing"
    if place.is_dir() and not any(place.iterdir()):
        return "nothing"
    try:
        document = json.loads((place / "zarr.json").read_bytes())
        return "run" if KEY in document["attributes"] else "other"
    except (OSError, ValueError, KeyError, TypeError):
        return "other"


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path at which no folder can be made, before any work; leaves nothing behind.

    Raises
    ------
    ScalemaniError
        Naming the path and the system's reason.
    """
    parent = Path(path).absolute().parent  # what is made there is begun beside the path
    while not os.path.lexists(parent):
        parent = parent.parent
    probe = parent / f".scalemani-{uuid.uuid4().hex}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise ScalemaniError(
            f"the store {str(path)!r} can't be written: {error.strerror}; give another path"
        ) from error


class RunStore(Tiles):
    """A run's folder, open for reading and writing.

    Parameters
    ----------
    path : str
        The folder; made absolute.

    Raises
    ------
    ScalemaniError
        If there is no run at `path`, or one of another format version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(os.path.abspath(path))
        found = kind_of(self.path)
        if found != "run":
            what = "nothing is there" if found == "nothing" else "what is there is not a scalemani run"
            raise ScalemaniError(
                f"the store {self.path!r} holds no run: {what}; make one with fit (a temporary one, store=None, goes "
                "with the model that made it)"
            )
        self._group = zarr.open_group(self.path, mode="r+", zarr_format=3)
        version = self.document.get("format_version")
        if version not in READABLE:
            readable = " and ".join(map(str, READABLE))
            raise ScalemaniError(
                f"the run at {self.path!r} has format version {version!r}; this release reads {readable}: "
                "use the release that wrote it, or fit again with overwrite"
            )

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], *, replace: bool = False, stages: dict[str, Any] | None = None
    ) -> "RunStore":
        """Make a run with no stage but the given ones; one that is there goes only when `replace` is true.

        Raises
        ------
        ScalemaniError
            If something else is at `path` (never removed), or a run is and `replace` is false.
        """
        target = os.path.abspath(path)
        found = kind_of(target)
        if found == "other":
            raise ScalemaniError(f"{target!r} exists and is not a scalemani run: it is left alone; give another path")
        if found == "run" and not replace:
            raise ScalemaniError(f"a run exists at {target!r}: resume it, or replace it with overwrite")
        document = {
            "format_version": FORMAT_VERSION,
            "id": uuid.uuid4().hex,
            "versions": _versions(),
            "stages": stages or {},
        }
        attributes: dict[str, Any] = {KEY: document}
        partial = beside(target)
        zarr.open_group(str(partial), mode="w-", zarr_format=3, attributes=attributes)
        return cls(partial).moved_to(target, replace=replace)

    def remove(self) -> None:
        """Remove the whole run."""
        shutil.rmtree(self.path, ignore_errors=True)

    def moved_to(self, path: str | os.PathLike[str], *, replace: bool) -> "RunStore":
        """Move this run to `path`; with `replace`, a run that is there goes when this one is in its place.

        Raises
        ------
        ScalemaniError
            If another process makes a run there at this moment.
        """
        target, old = Path(path).absolute(), beside(path)
        if replace and kind_of(target) == "run":
            target.rename(old)
        try:
            Path(self.path).rename(target)
        except OSError as error:
            self.remove()
            if old.exists():
                old.rename(target)
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            raise ScalemaniError(
                f"another fit is making a run at {str(path)!r}: wait for it, or give another path"
            ) from error
        shutil.rmtree(old, ignore_errors=True)
        return RunStore(target)

    # ---- root attributes: written by the client alone -------------------------------------------

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object of the run, read afresh."""
        try:
            document = json.loads((Path(self.path) / "zarr.json").read_bytes())["attributes"][KEY]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DamagedStoreError(
                f"{self.path!r}: the root attributes can't be read ({error}); fit again with overwrite"
            ) from error
        if not isinstance(document, dict):
            raise DamagedStoreError(f"{self.path!r}: the root attributes are damaged; fit again with overwrite")
        return dict(document)

    def stage(self, name: str) -> dict[str, Any] | None:
        """The state of a finished stage, or None."""
        state = self.document["stages"].get(name)
        return None if state is None else dict(state)

    def finish(self, name: str, fields: dict[str, Any], **found: Any) -> None:
        """Record a stage as done: its identifying `fields`, and what it found (JSON values)."""
        document = {**self.document, "format_version": FORMAT_VERSION}
        document["stages"] = {**document["stages"], name: {"fields": fields, **found}}
        self._group.attrs[KEY] = document

    def forget(self, *names: str) -> None:
        """Take stages back: they will be run again."""
        document = self.document
        document["stages"] = {key: value for key, value in document["stages"].items() if key not in names}
        self._group.attrs[KEY] = document

    # ---- small arrays ------------------------------------------------------------------------

    def write_array(self, name: str, array: NDArray[Any]) -> None:
        """Write an array whole; its CRC32C goes into the array's own attributes."""
        data = np.ascontiguousarray(array)
        if data.dtype.kind not in "biuf":
            raise TypeError(f"{name!r} has dtype {data.dtype}: only numbers go into a store")
        rows = max(1, (32 << 20) // max(1, data[:1].nbytes))
        created = self._group.create_array(
            name,
            shape=data.shape,
            dtype=data.dtype,
            chunks=(max(1, min(len(data), rows)), *(max(1, side) for side in data.shape[1:])),
            compressors=None,
            overwrite=True,
            attributes={"crc32c": checksum(data)},
            config={"write_empty_chunks": True},
        )
        if data.size:
            created[...] = data

    def read_array(self, name: str) -> NDArray[Any]:
        """Read an array whole and check it.

        Raises
        ------
        DamagedStoreError
            If it is missing or its CRC32C differs.
        """
        try:
            array = self._group[name]
        except KeyError as error:
            raise DamagedStoreError(f"{self.path!r} lacks {name!r}: fit again with overwrite") from error
        if not isinstance(array, zarr.Array):
            raise DamagedStoreError(f"{self.path!r}: {name!r} is not an array; fit again with overwrite")
        try:
            data = np.asarray(array[...])
        except ValueError as error:
            raise DamagedStoreError(
                f"{self.path!r}: {name!r} is damaged ({error}); fit again with overwrite"
            ) from error
        if checksum(data) != array.attrs.get("crc32c"):
            raise DamagedStoreError(f"{self.path!r}: {name!r} is damaged (checksum differs); fit again with overwrite")
        return data

    def copy_without_distances(self, path: str | os.PathLike[str]) -> None:
        """Copy the model: everything but D, its ledger, its first read and the neighbour lists.

        Raises
        ------
        ScalemaniError
            If something is at `path`.
        """
        target = Path(path).absolute()
        if kind_of(target) != "nothing":
            raise ScalemaniError(f"{str(path)!r} exists: give another path, or remove it")
        check_writable(target)
        partial = beside(target)
        try:
            left_out = shutil.ignore_patterns("distances", "ledger", "first_*", "neighbors_*", "*.partial")
            shutil.copytree(self.path, partial, ignore=left_out)
            partial.replace(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@lru_cache(maxsize=4)
def shared_run(path: str, identity: str) -> RunStore:
    """The run at a path, opened once in each process; `identity` is its id, so that a new run is opened anew."""
    store = RunStore(path)
    if store.document["id"] != identity:
        raise DamagedStoreError(f"the run at {path!r} was replaced while it was in use")
    return store


@cache
def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    names = ("scalemani", "numpy", "scipy", "zarr", "dask", "numba", "pynndescent", "scikit-learn")
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
