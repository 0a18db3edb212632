"""Stage 4 by landmarks, on the disk: takes a run whose landmarks are chosen, gives its matrices.

Names of all arrays of a run by landmarks, and how the matrices that :mod:`scalemani.steps.distances` writes are cut.

A large matrix of a run in its store: takes rows of chunks as they are computed, gives parts of it back, checked.

Float32 of any shape in chunks of any shape, one plain file or object each in the layout of a Zarr array (any Zarr
reader reads it). A row of chunks is done when its line is in the ledger, `<name>/ledger/<row>.json`, with the CRC32C of
each chunk's file and the run's id: it is put after the files are in place, and every read compares. The symmetric D of
the full method, of which only the upper tiles are kept, is :mod:`scalemani.storage.tiles`; this is for distances to
landmarks.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from scalemani.aliases import F32, F64, I64
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.steps.records import GraphRecord, LandmarksRecord
from scalemani.storage.files import Location, checksum, create_once, open_location
from scalemani.storage.folders import room_for
from scalemani.storage.json import REMEDY, check_inside, read_json, read_plain
from scalemani.storage.records import MOST_LINE_BYTES, MOST_METADATA_BYTES, Line
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Blocks, line_text


class ChunkedMatrix:
    """A matrix of a run.

    path, identity: Of the run: its folder, and its id.
    shape, chunk: Of the matrix and of its chunks, of which the last are filled up with NaN.
    """

    def __init__(self, path: str, identity: str, name: str, shape: tuple[int, int], chunk: tuple[int, int]) -> None:
        self.path, self.identity, self.name = path, identity, name
        self.shape, self.chunk = shape, chunk
        self.rows, self.columns = Blocks(shape[0], chunk[0]), Blocks(shape[1], chunk[1])
        self.folder = open_location(path).normal() / name
        self._lines: dict[int, list[int]] = {}

    @property
    def _metadata(self) -> bytes:
        said = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunk)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "NaN",
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "attributes": {"name": self.name, "unit": "edge length / scale"},
            "storage_transformers": [],
        }
        return json.dumps(said, indent=2).encode()

    @property
    def exists(self) -> bool:
        """Whether its folder is there, finished or not."""
        return (self.folder / "zarr.json").exists()

    def create(self) -> None:
        """Make it, empty; one that is there with the same shapes stays, with what is in it."""
        place = self.folder / "zarr.json"
        if self.exists:
            try:
                if read_plain(place, MOST_METADATA_BYTES) == self._metadata:
                    return
            except (DamagedStoreError, OSError):
                pass
        self.drop()  # in a bucket also what is left of one that was being dropped
        with room_for(self.folder, MOST_METADATA_BYTES):
            self.folder.make_folder()
            self._ledger.make_folder()
        place.put(self._metadata)

    def drop(self) -> None:
        """Remove it, at once: a stop in between leaves no half of it in place."""
        self._lines = {}
        self.folder.remove_at_once()

    def write_metadata(self) -> None:
        """Write its metadata again, and nothing else: they follow from the shapes."""
        self.folder.make_folder()
        self._ledger.make_folder()
        (self.folder / "zarr.json").put(self._metadata)

    def check_metadata(self) -> None:
        """Refuse one whose metadata is not what was written."""
        place = self.folder / "zarr.json"
        if read_plain(place, MOST_METADATA_BYTES) != self._metadata:
            raise DamagedStoreError(f"{str(place)!r} is not what was written; {REMEDY}")

    # ---- writing ---------------------------------------------------------------------------------

    def write(self, row: int, values: F32) -> None:
        """Write a row of chunks, then its line in the ledger.

        values (rows of the block, columns)
        """
        sums, buffer = [], np.empty(self.chunk, np.float32)
        for column, there in enumerate(self.columns):
            part = values[:, there]
            buffer[: len(part), : part.shape[1]] = part
            buffer[len(part) :], buffer[:, part.shape[1] :] = np.nan, np.nan
            place = self._inside(f"c/{row}/{column}")
            with room_for(place, buffer.nbytes):
                place.parent.make_folder()
            place.put(buffer)
            sums.append(checksum(buffer))
        self._confirm(row, sums)

    def _confirm(self, row: int, sums: list[int]) -> None:
        """Put a row's line; the same one that is there stays, a damaged one or another run's is replaced."""
        self._lines.pop(row, None)
        line, place = line_text(self.identity, row, sums), self._inside(f"ledger/{row}.json")
        if not create_once(place, line) and self._line(row) != sums:
            place.put(line)

    def unfinish(self, row: int) -> None:
        """Take a row's line out of the ledger: its chunks will be made again."""
        self._lines.pop(row, None)
        (self._ledger / f"{row}.json").unlink(missing_ok=True)

    # ---- the ledger ------------------------------------------------------------------------------

    @property
    def _ledger(self) -> Location:
        return self.folder / "ledger"

    def _inside(self, entry: str) -> Location:
        """Where an entry of the folder is, unless a link leads there."""
        return check_inside(self.path, f"{self.name}/{entry}")

    def _line(self, row: int) -> list[int] | None:
        """The checksums of a row's chunks; None where there is no whole line of this run."""
        place = self._ledger / f"{row}.json"
        try:
            line: Line = read_json(place, MOST_LINE_BYTES, Line)
        except (DamagedStoreError, OSError):
            return None
        mine = line.run == self.identity and line.row == row
        return line.crc32c if mine and len(line.crc32c) == len(self.columns) else None

    def done(self, row: int) -> bool:
        """Whether the ledger says that this row of chunks is in place."""
        return self._line(row) is not None

    def missing(self) -> list[int]:
        """Rows of chunks that the ledger does not have."""
        try:
            there = self._ledger.names()
        except OSError:
            there = set()
        return [row for row in range(len(self.rows)) if f"{row}.json" not in there or not self.done(row)]

    def sums(self, row: int) -> list[int]:
        """The checksums of a row's chunks.

        Raises DamagedStoreError: If the ledger has no whole line of it.
        """
        return list(self._recorded(row))

    def _recorded(self, row: int) -> list[int]:
        if row not in self._lines:
            found = self._line(row)
            if found is None:
                raise DamagedStoreError(
                    f"{self.path!r}: the ledger of row {row} of {self.name!r} is missing or damaged; {REMEDY}"
                )
            self._lines[row] = found
        return self._lines[row]

    # ---- reading ---------------------------------------------------------------------------------

    def read(self, row: int, column: int, buffer: F32 | None = None) -> F32:
        """One chunk's part of the matrix, checked.

        buffer: The chunk is read into it, and is gone with the next one.
        Raises DamagedStoreError: If the ledger lacks it, or its file is not the one that the ledger knows.
        """
        buffer = np.empty(self.chunk, np.float32) if buffer is None else buffer
        line = self._recorded(row)
        try:
            if self._inside(f"c/{row}/{column}").read_into(buffer.data) != buffer.nbytes:
                raise ValueError(f"not {buffer.nbytes} bytes")
            if checksum(buffer) != line[column]:
                raise ValueError("checksum differs")
        except (OSError, ValueError) as error:
            self._lines.pop(row, None)
            if self._recorded(row) != line:
                return self.read(row, column, buffer)  # the row was made again since
            why = "its file is missing" if isinstance(error, FileNotFoundError) else str(error)
            raise DamagedStoreError(
                f"{self.path!r}: chunk ({row}, {column}) of {self.name!r} is damaged ({why}); {REMEDY}"
            ) from error
        return buffer[: self.rows.length(row), : self.columns.length(column)]

    def chunks_of(self, indices: I64) -> Iterator[tuple[I64, I64, F32]]:
        """For a matrix whose chunks are whole rows: yield (places in `indices`, rows inside, chunk), chunk by chunk."""
        blocks = indices // self.chunk[0]
        order = np.argsort(blocks, kind="stable")
        cuts = np.flatnonzero(np.diff(blocks[order])) + 1
        for places in np.split(order, cuts) if len(order) else ():
            block = int(blocks[places[0]])
            yield places, indices[places] - block * self.chunk[0], self.read(block, 0)

    def read_rows(self, indices: I64) -> F32:
        """Some rows, (l, columns), of a matrix whose chunks are whole rows."""
        out = np.empty((len(indices), self.shape[1]), np.float32)
        for places, inside, chunk in self.chunks_of(indices):
            out[places] = chunk[inside]
        return out


# Arrays.
LANDMARKS = "landmarks"  # (m,) their vertices, ascending
ROWS, POINTS = "landmark_rows", "distances_to_landmarks"  # (m, n), until it is turned, and (n, m)
SQUARE = "landmark_square"  # (m, m) of the landmarks among themselves, as their rows have it
COUNTS = "landmark_counts"  # (m,) points that each stands for
COORDINATES = "coordinates"  # (n, p) of all points


@dataclass(frozen=True)
class Layout:
    """How the distances of n points to m landmarks are cut.

    landmarks_a_task: Rows that a task finds together.
    points_a_chunk: Points of a chunk of either matrix.
    """

    n: int
    m: int
    landmarks_a_task: int
    points_a_chunk: int

    @classmethod
    def of(cls, store: RunStore) -> "Layout":
        """The layout of a run whose landmarks are chosen."""
        chosen, graph = store.needed(LandmarksRecord), store.needed(GraphRecord)
        return cls(graph.n_vertices, chosen.n_landmarks, chosen.landmarks_a_task, chosen.points_a_chunk)

    def by_landmark(self, store: RunStore) -> ChunkedMatrix:
        """The matrix (m, n), in which a row is a landmark's."""
        chunk = self.landmarks_a_task, self.points_a_chunk
        return ChunkedMatrix(store.path, store.identity, ROWS, (self.m, self.n), chunk)

    def by_point(self, store: RunStore) -> ChunkedMatrix:
        """The matrix (n, m), in which a row is a point's."""
        return ChunkedMatrix(store.path, store.identity, POINTS, (self.n, self.m), (self.points_a_chunk, self.m))

    def matrix(self, store: RunStore, name: str) -> ChunkedMatrix:
        """That of this name."""
        return self.by_point(store) if name == POINTS else self.by_landmark(store)


def landmark_account(store: RunStore) -> dict[str, Any]:
    """How landmarks were chosen, and how far any point is from one at most; nothing where there are none."""
    chosen = store.record(LandmarksRecord)
    if chosen is None:
        return {}
    return {
        "n_landmarks": chosen.n_landmarks,
        "landmark_method": chosen.fields.landmark_method or "given",
        "landmark_reach": None if chosen.reach is None else chosen.reach * store.needed(GraphRecord).scale,
    }


def rows_of_landmarks(store: RunStore, vertices: I64) -> F32:
    """Rows of D of some landmarks, (l, n), from the distances of all points to them: the whole matrix is read.

    Raises ScalemaniError: If a vertex is no landmark.
    """
    layout, landmarks = Layout.of(store), store.read_array(LANDMARKS)
    at = np.minimum(np.searchsorted(landmarks, vertices), len(landmarks) - 1)
    lost = int((landmarks[at] != vertices).sum())
    if lost:
        raise ScalemaniError(
            f"{lost} of {len(vertices)} rows are not landmarks, and D was given: only distances to the {layout.m} "
            "landmarks are kept (landmarks_); the others are in what you gave"
        )
    points, found = layout.by_point(store), np.empty((len(vertices), layout.n), np.float32)
    for block, here in enumerate(points.rows):
        found[:, here] = points.read(block, 0)[:, at].T
    return found


def copy_points(store: RunStore, folder: Location) -> None:
    """Copy the matrix (n, m) and its ledger into another folder of the same run, each chunk checked."""
    ours = Layout.of(store).by_point(store)
    theirs = ChunkedMatrix(str(folder), store.identity, POINTS, ours.shape, ours.chunk)
    theirs.create()
    for row in range(len(ours.rows)):
        theirs.write(row, ours.read(row, 0))


def symmetric_square(store: RunStore) -> F64:
    """Distances between the landmarks, (m, m), float64: the mean of what was found from either end."""
    square = store.read_array(SQUARE).astype(np.float64)
    return (square + square.T) / 2


def median_distance(square: F64, counts: I64) -> float:
    """Median distance between points of different cells, each put where its landmark is.

    >>> apart = np.array([[0.0, 1.0, 4.0], [1.0, 0.0, 4.0], [4.0, 4.0, 0.0]])
    >>> median_distance(apart, np.array([1, 1, 1])), median_distance(apart, np.array([9, 9, 1]))
    (4.0, 1.0)
    """
    upper = np.triu_indices(len(square), 1)
    distances, pairs = square[upper], np.outer(counts, counts)[upper]
    order = np.argsort(distances)
    below = np.cumsum(pairs[order])
    return float(distances[order[np.searchsorted(below, below[-1] / 2)]])


def first_rows(store: RunStore, vertex: I64) -> I64:
    """The first row of X that is each landmark, (m,), in the order of their vertices.

    vertex (n_rows,): Of each row; -1 where it was dropped.
    """
    rows = np.flatnonzero(vertex >= 0)[::-1]
    first = np.empty(Layout.of(store).n, np.int64)
    first[vertex[rows]] = rows  # the first of several is set last
    found: I64 = first[store.read_array(LANDMARKS)]
    return found
