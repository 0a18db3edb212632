"""What lies in a chunked matrix's folder against its ledger: takes the matrix, gives each file that is not as written.

As :mod:`.audit` does it for D: each byte of the metadata, of the ledger's lines and of the chunks, and the names of all
files.
"""

from collections.abc import Iterator

import numpy as np

from scalemani.engine.audit import Fault, cause
from scalemani.engine.chunked_matrix import ChunkedMatrix, Matrix
from scalemani.engine.own_names import is_partial
from scalemani.engine.places import below, in_order, place
from scalemani.engine.schemas import MOST_LINE_BYTES, read_plain
from scalemani.engine.tiles import line_text
from scalemani.errors import DamagedStoreError

CHUNK, METADATA = "chunk", "matrix"  # kinds of faults


def name_of(matrix: ChunkedMatrix, row: int) -> str:
    """What a fault calls a row of chunks; :func:`row_of` is its inverse."""
    return f"{matrix.name}/{row}"


def row_of(name: str) -> tuple[str, int]:
    """The matrix and the row that a fault names.

    >>> row_of("landmark_rows/12")
    ('landmark_rows', 12)
    """
    matrix, _, row = name.rpartition("/")
    return matrix, int(row)


def folder_faults(matrix: ChunkedMatrix) -> Iterator[Fault]:
    """Metadata that are not what was written, and entries that are no part of a matrix."""
    name = matrix.name
    try:
        matrix.check_metadata()
    except (DamagedStoreError, OSError) as error:
        yield Fault(METADATA, f"{name}/zarr.json", cause(error, matrix.path))
    rows, columns = range(len(matrix.rows)), range(len(matrix.columns))
    wanted = {"zarr.json", *(f"ledger/{row}.json" for row in rows)}
    wanted |= {f"c/{row}/{column}" for row in rows for column in columns}
    folder = place(matrix.path) / name
    for file in in_order(folder.rglob("*")):
        entry = below(file, folder)
        if not file.is_dir() and entry not in wanted:
            left = is_partial(entry)
            said = "a stopped run was making it" if left else "it is no part of a run"
            yield Fault("leftover" if left else "stray", f"{name}/{entry}", said)


def row_problem(matrix: ChunkedMatrix, row: int, *, finished: bool) -> str | None:
    """What is wrong with the ledger's line of a row of chunks; None of a whole one, or of one that is not made yet.

    finished: Whether the matrix is said to be whole: a row without a line is a fault then.
    """
    line = place(matrix.path) / matrix.name / "ledger" / f"{row}.json"
    if not line.exists():
        return "the ledger has no line of it" if finished else None
    try:
        sums = matrix.sums(row)
    except DamagedStoreError:
        return "its line in the ledger is damaged, or another run's"
    if read_plain(line, MOST_LINE_BYTES) != line_text(matrix.identity, row, sums):
        return "its line in the ledger is not as it was written"
    return None


def checked_chunk(matrix: ChunkedMatrix, row: int, column: int, buffer: Matrix | None = None) -> Matrix:
    """A chunk whose numbers are distances.

    Raises DamagedStoreError: With what is wrong and no more.
    """
    try:
        found = matrix.read(row, column, buffer)
    except DamagedStoreError as error:
        raise DamagedStoreError(cause(error, matrix.path)) from error
    least, largest = float(found.min()), float(found.max())  # NaN, if there is one
    if not (least >= 0 and np.isfinite(largest)):
        raise DamagedStoreError(f"chunk ({row}, {column}) has distances from {least} to {largest}")
    return found
