"""Files that are written: coordinates with ids as .npy, .csv, .zarr, .parquet or .h5, and the page of a report.

A file is written beside its name and renamed when it is complete, so that a failure leaves nothing half-written. The
writer of a name holds a lock on it, and removes what a killed process left there
(:class:`scalemani.storage.writer.Writer`). Parquet and HDF5 are made in memory, where coordinates are already, and
written as any other bytes: what a full disk means is then said in one place.
"""

import contextlib
import csv
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError, needed
from scalemani.storage.buckets import refuse_near_url, shown
from scalemani.storage.files import at_home, is_url
from scalemani.storage.folders import PARTIAL, FilePath, room_for
from scalemani.storage.pieces import name_next
from scalemani.storage.user_arrays import write_table
from scalemani.storage.writer import Writer

_ROWS_A_GROUP = 1 << 17  # of a .parquet: what a reader decodes at least


class _Table(NamedTuple):
    """Coordinates (n, p) with headings of the axes and, if there are any, an id a row under a heading of theirs."""

    coordinates: NDArray[np.floating[Any]]
    heading: list[str]
    ids: Sequence[str] | None
    id_name: str

    def parquet(self) -> memoryview:
        """A table with a column an axis, ids first."""
        pyarrow, parquet = (needed(name, "parquet", "a .parquet") for name in ("pyarrow", "pyarrow.parquet"))
        columns: dict[str, Any] = {}
        if self.ids is not None:
            if self.id_name in self.heading:
                raise ScalemaniError(
                    f"the ids are called {self.id_name!r}, as an axis is: give their column another heading"
                )
            columns[self.id_name] = pyarrow.array(self.ids, type=pyarrow.string())
        axes = zip(self.heading, self.coordinates.T.copy(), strict=True)
        columns.update({name: pyarrow.array(column) for name, column in axes})
        sink = pyarrow.BufferOutputStream()
        parquet.write_table(pyarrow.table(columns), sink, row_group_size=_ROWS_A_GROUP)
        return memoryview(sink.getvalue())

    def hdf5(self) -> bytes:
        """A file with the datasets `coordinates` and, if there are any, `ids`; names are attributes, as in a .zarr."""
        h5py = needed("h5py", "hdf5", "an HDF5 file")
        with h5py.File("memory", "w", driver="core", backing_store=False) as file:
            file.attrs["axes"] = self.heading
            file.create_dataset("coordinates", data=self.coordinates)
            if self.ids is not None:
                file.attrs["id_name"] = self.id_name
                file.create_dataset("ids", data=np.array(self.ids, dtype=object), dtype=h5py.string_dtype())
            file.flush()
            image: bytes = file.id.get_file_image()
        return image

    @contextlib.contextmanager
    def csv(self, path: Path, folder: Path | None) -> Iterator[None]:
        """A heading, then a row a point, ids first; the file has its name when the block ends well."""
        # Bytes, at most and about: the shortest text of a float64 has up to 24 characters.
        size = 25 * self.coordinates.size + sum(len(row.encode()) + 3 for row in self.ids or ())
        with renamed_when_complete(path, size, folder) as partial:
            with partial.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(self.heading if self.ids is None else [self.id_name, *self.heading])
                for i, row in enumerate(self.coordinates):
                    # repr of a Python float is the shortest text that reads back as the same number.
                    cells = [repr(float(value)) for value in row]
                    writer.writerow(cells if self.ids is None else [self.ids[i], *cells])
            yield


_EXTRAS = {".parquet": ("pyarrow.parquet", "parquet"), ".h5": ("h5py", "hdf5"), ".hdf5": ("h5py", "hdf5")}
_WRITABLE = (".npy", ".csv", ".zarr", *_EXTRAS)
_MOST_NAME = 230  # bytes, of the 255 that file systems take: names of ids and of kept results are longer


def check_output(
    spec: str, *, ids: bool = False, overwrite: bool = False, option: str = "--overwrite", store: str | None = None
) -> Path:
    """Refuse an output that can't be written, before any work.

    ids: Rows will be written with ids, which go to a file of their own beside a .npy.
    overwrite: What is there may be replaced.
    option: The option of the command line that allows it, for the message.
    store: Of the same command.
    Raises ScalemaniError: Unknown kind or one whose package is missing, no such directory, a name that is too long, a
        place in a run, no right to write there, or the file (or that of the ids) exists and ``overwrite`` is false.
    Raises StoreInUseError: What is there is being replaced now.
    """
    from scalemani.storage.targets import kind_of, put_back

    if is_url(spec):
        raise ScalemaniError(
            f"{shown(spec)}: the command line writes files; the estimator's transform_to and kernel_to write to buckets"
        )
    said = f"coordinates are written to {', '.join(_WRITABLE[:-1])} or {_WRITABLE[-1]}; end the name so"
    path = _named(spec, _WRITABLE, said)
    if path.suffix.lower() in _EXTRAS:
        needed(*_EXTRAS[path.suffix.lower()], path.name)
    if store is not None:
        _check_apart(spec, store)
    put_back(path)
    _check_place(path)
    of_ids = _ids_beside(path)
    for written in [path, of_ids] if ids and path.suffix.lower() == ".npy" else [path]:
        if os.path.lexists(written) and not overwrite:
            raise ScalemaniError(f"{written} exists; give {option} to replace it, or another name")
        if written is of_ids and written.is_dir():
            raise ScalemaniError(f"{written}, for the ids, is a directory; give another name than {spec}")
    if path.is_dir() and (path.suffix.lower() != ".zarr" or kind_of(path) == "run"):
        raise ScalemaniError(f"{spec} is a directory or a fitted model, never replaced; give another name")
    return path


def _check_apart(out: str, store: str) -> None:
    """Refuse an output and a store of which one is, or lies in, the other, before either is made."""
    if is_url(store):
        return
    here, there = (Path(os.path.realpath(at_home(path))) for path in (out, store))
    if here == there or here in there.parents or there in here.parents:
        raise ScalemaniError(f"{out} and the store {store} are not apart: give an output outside of the store")


def check_page(spec: str, *, overwrite: bool = False) -> Path:
    """Refuse a page that can't be written, before any work.

    Raises ScalemaniError: The name does not end as a page's, no such directory, no right to write there, a directory is
        there, or a file and ``overwrite`` is false.
    """
    return _check_file(spec, (".html", ".htm"), "a report is a page; end the name in .html", overwrite=overwrite)


def check_picture(spec: str, *, overwrite: bool = False) -> Path:
    """The same of a picture."""
    return _check_file(
        spec, (".png", ".svg", ".pdf"), "a picture is a .png, .svg or .pdf; end the name so", overwrite=overwrite
    )


def _check_file(spec: str, kinds: Sequence[str], said: str, *, overwrite: bool) -> Path:
    path = _named(spec, kinds, said)
    _check_place(path)
    if path.is_dir():
        raise ScalemaniError(f"{spec} is a directory, never replaced; give another name")
    if os.path.lexists(path) and not overwrite:
        raise ScalemaniError(f"{spec} exists; give --overwrite to replace it, or another name")
    return path


def write_page(path: Path, page: str | bytes) -> None:
    """Write a page, or a picture's bytes, complete or not at all."""
    content = page if isinstance(page, bytes) else page.encode()
    with renamed_when_complete(path, len(content)) as partial:
        partial.write_bytes(content)


def _named(spec: str, kinds: Sequence[str], said: str) -> Path:
    """The path that a name stands for, in a directory that is there and of one of the kinds; `said` is their remedy."""
    refuse_near_url(spec)
    path = Path(at_home(spec))
    if path.suffix.lower() not in kinds:
        raise ScalemaniError(f"{spec}: {said}")
    if not os.path.isdir(path.parent):
        raise ScalemaniError(f"{path}: there is no directory {path.parent}; make it first")
    if len(os.fsencode(path.name)) > _MOST_NAME:
        raise ScalemaniError(f"{path}: the name is longer than {_MOST_NAME} bytes; give a shorter one")
    return path


def _check_place(path: Path) -> None:
    """Refuse what lies in a run, or where nothing can be written."""
    from scalemani.storage.targets import check_outside

    check_outside(path)
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ScalemaniError(f"{path} can't be written ({error.strerror}); give another path") from error


def _ids_beside(path: Path) -> Path:
    return path.with_suffix(".ids.csv")


def write_coordinates(
    spec: str | Path,
    coordinates: NDArray[np.floating[Any]],
    *,
    ids: Sequence[str] | None = None,
    id_name: str = "id",
    names: Sequence[str] | None = None,
    overwrite: bool = False,
    folder: Path | None = None,
) -> None:
    """Write coordinates in the order of the rows, complete or not at all.

    spec: ``y.csv``: a heading, then a row a point, ids first. ``y.npy``: the array; ids go to ``y.ids.csv`` beside it.
        ``y.zarr``: an array; with ids a group of ``coordinates`` and ``ids``, as ``y.h5`` (``.hdf5``) always is.
        ``y.parquet``: a column an axis, ids first.
    coordinates (n, p)
    names: Headings of the axes; ``axis_1`` and so on unless given.
    folder: Of kept results, on the same disk: where files are written until they get their names; beside them unless
        given.
    Raises ScalemaniError: As :func:`check_output`, or ids that are not one a row.
    Raises DiskFullError: What was there is still there.
    """
    path = check_output(str(spec), ids=ids is not None, overwrite=overwrite)
    if ids is not None and len(ids) != len(coordinates):
        raise ScalemaniError(f"{len(ids)} ids for {len(coordinates)} rows of coordinates; give one id a row")
    heading = list(names) if names is not None else [f"axis_{axis + 1}" for axis in range(coordinates.shape[1])]
    kind, table = path.suffix.lower(), _Table(coordinates, heading, ids, id_name)
    if kind == ".csv":
        with table.csv(path, folder):
            pass
    elif kind == ".npy":
        # Both files are whole before either is renamed.
        with renamed_when_complete(path, coordinates.nbytes + 128, folder) as partial, contextlib.ExitStack() as both:
            if ids is not None:
                both.enter_context(_Table(coordinates[:, :0], [], ids, id_name).csv(_ids_beside(path), folder))
            with partial.open("wb") as file:
                np.save(file, coordinates, allow_pickle=False)
    elif kind == ".zarr":
        with renamed_when_complete(path, coordinates.nbytes, folder) as partial:
            write_table(partial, *table)
    else:
        made = table.parquet() if kind == ".parquet" else table.hdf5()
        with renamed_when_complete(path, len(made), folder) as partial:
            partial.write_bytes(made)


@contextlib.contextmanager
def renamed_when_complete(path: Path, needed: int, folder: Path | None = None) -> Iterator[Path]:
    """A name to write to; it takes the place of ``path`` if the block ends well, and goes if not.

    needed: Bytes that it will take, for the message of a full disk.
    folder: Of kept results, on the disk of ``path``: where it is written; beside it unless given.
    Raises StoreInUseError: Another process is writing it; not looked at with a ``folder``, whose results are one
        process's already.
    """
    target = FilePath(path)
    partial = target.scratch_name() if folder is None else FilePath(folder) / f".{uuid.uuid4().hex}{PARTIAL}"
    with contextlib.ExitStack() as held, room_for(path, needed):
        if folder is None:
            held.enter_context(Writer(path, "command"))
            with contextlib.suppress(OSError):
                target.recover()  # of a link itself: the writer's is what it leads to
        try:
            yield partial
            if folder is not None:
                name_next(partial.parent, partial)
            target.replace_with(partial)
        except BaseException:
            partial.remove()
            raise
