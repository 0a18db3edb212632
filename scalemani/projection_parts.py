"""Stage 8, the rows: takes a test set as blocks of any sizes, gives parts of one size, which are tasks' inputs.

Parts follow from the number of rows alone: the same rows in other chunks, or in another kind of array, are the same
parts.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from scalemani.projection import Projector
from scalemani.search.query_ways import PARTS

Part = tuple[int, Any]
"""Its first row's number, and its rows."""

PART_BYTES = 8 << 20  # of a part's rows as float64: a task's input
WIDE_BYTES = 32 << 20  # where queries that ask the same rows ask them together: the more of them, the better
MOST_ROWS, SHARED = 8192, 8  # of these, at most; and as many parts at least, so that cores share them
LEAST_ROWS = 256
CHUNK_BYTES = 8 << 20  # of the output
SAMPLES, SAMPLED = 8, 25  # runs of rows, for an index's recall, and rows in each


def sizes(total: int, piece: int, group: int, features: int, axes: int, way: str) -> tuple[int, int, int]:
    """Rows of a part, of a chunk of the output and of a group, each a whole number of the one before it.

    total: Rows of the test set.
    piece, group: Rows of a part and of a group, at most.
    features, axes: Columns of the test set and of the output.
    way: See :mod:`scalemani.search.query_ways`.

    >>> sizes(10**8, 2048, 1 << 18, 3, 2, "exact"), sizes(10**6, 2048, 1 << 18, 784, 50, "parts")
    ((2048, 262144, 262144), (5349, 16047, 256752))
    """
    part = min(piece, PART_BYTES // (8 * features))
    if way == PARTS:
        part = min(MOST_ROWS, WIDE_BYTES // (8 * features), max(LEAST_ROWS, -(-total // SHARED)))
    part = max(1, part)
    parts = max(1, group // part)
    a_chunk = max(1, min(parts, CHUNK_BYTES // (8 * max(1, axes) * part)))
    return part, a_chunk * part, parts // a_chunk * a_chunk * part


def cut(blocks: Iterable[Part], size: int) -> Iterator[Part]:
    """Parts of so many rows, of blocks that follow each other; the last may have fewer.

    >>> blocks = [(0, np.zeros((3, 1))), (3, np.ones((4, 1)))]
    >>> [(at, rows.ravel().tolist()) for at, rows in cut(blocks, 5)]
    [(0, [0.0, 0.0, 0.0, 1.0, 1.0]), (5, [1.0, 1.0])]
    """
    held: list[Any] = []
    first = 0
    for start, block in blocks:
        at, stop = start, start + block.shape[0]
        while at < stop:
            end = min(stop, (at // size + 1) * size)
            if not held:
                first = at
            held.append(block[at - start : end - start])
            at = end
            if at % size == 0:
                yield first, joined(held)
                held = []
    if held:
        yield first, joined(held)


def again(projector: Projector, T: Any, start: int, stop: int, size: int) -> Iterator[Part]:
    """The parts between two rows, read once more; `start` is where one begins."""
    if sp.issparse(T):  # of any format, and in memory
        for at, rows in cut(projector.blocks(T, "X"), size):
            if start <= at < stop:
                yield at, rows
        return
    for at in range(start, stop, size):
        blocks = projector.blocks(T[at : min(at + size, stop)], "X", at)
        yield at, joined([block for _, block in blocks])


def sample(projector: Projector, T: Any, total: int) -> Any:
    """Some rows of a test set, in runs that are evenly spread."""
    starts = sorted({total * run // SAMPLES for run in range(SAMPLES)})
    runs = [(at, min(at + SAMPLED, total)) for at in starts]
    return joined([rows for at, stop in runs for _, rows in again(projector, T, at, stop, SAMPLED)])


def joined(blocks: list[Any]) -> Any:
    """Rows of blocks, dense or CSR, one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    return sp.csr_array(sp.vstack(blocks, format="csr")) if sp.issparse(blocks[0]) else np.concatenate(blocks)
