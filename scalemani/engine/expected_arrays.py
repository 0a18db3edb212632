"""What each array of a run has to be: takes its name, its numbers and the document's stages, says what is wrong.

Checksums say that an array is what was written, not who wrote it: a stranger makes them anew. Kernels and indexing
trust the arrays of a run, and an index that is out of range ends the process. So every array that is read is held
against this table, by what the document says of the run's size. Nothing is copied: the least and the largest number
tell, and NaN is both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.bounded_json import REMEDY
from scalemani.errors import DamagedStoreError

__all__ = ["check_lists", "check_size", "checked_array", "fault_of"]

REAL = "a real dtype"
BINS = "2042"  # of counted distances; not imported, since their kernel would come along
Bound = int | str | None


@dataclass(frozen=True)
class Expected:
    """What an array has to be.

    dtypes: Names, or `REAL`.
    shape: A side each: a number, a size of the run (plus 1: "vertices+1"), or "*" for any.
    least, below: No number is less than `least`, none as large as `below` (a size of the run). Floats are finite
        besides.
    ascending: Whether it begins with 0 and never falls; "strictly": rises from any number.
    once: Whether every vertex is in it once, or is the place of one entry; negative numbers aside.
    """

    dtypes: str
    shape: str
    least: Bound = None
    below: Bound = None
    ascending: bool | str = False
    once: bool = False


EXPECTED = {
    "digests": Expected("uint64", "points 2"),
    "points": Expected(REAL, "points features"),
    "points_data": Expected(REAL, "*"),
    "points_indices": Expected("int32 int64", "*", 0, "features"),
    "points_indptr": Expected("int32 int64", "points+1", 0, ascending=True),
    "points_shape": Expected("int64", "2", 1),
    "tie_rank": Expected("int64", "points", 0, "points"),
    "neighbors_indptr": Expected("int64", "points+1", 0, ascending=True),
    "neighbors_indices": Expected("int64", "*", 0, "points"),
    "neighbors_distances": Expected("float64", "*", 0),
    "graph_indptr": Expected("int64", "vertices+1", 0, ascending=True),
    "graph_indices": Expected("int32", "entries", 0, "vertices"),
    "graph_weights": Expected("float32", "entries", 0),
    "order": Expected("int64", "vertices", 0, "points", once=True),
    "vertex_of_distinct": Expected("int64", "points", -1, "vertices", once=True),
    "vertex": Expected("int64", "rows", -1, "vertices"),
    "bridges": Expected("int64", "bridges 2", 0, "points"),
    "bridge_lengths": Expected("float64", "bridges", 0),
    "first_block": Expected("float64", "vertices *"),
    "first_found": Expected("float64", "vertices *"),
    "distance_counts": Expected("int64", BINS, 0, "pairs+1"),
    "vectors": Expected("float64", "trained axes"),
    "eigenvalues": Expected("float64", "axes"),
    "means": Expected("float64", "trained"),
    "landmarks": Expected("int64", "landmarks", 0, "vertices", ascending="strictly"),
    "landmark_counts": Expected("int64", "landmarks", 1, "vertices+1"),
    "landmark_square": Expected("float32", "landmarks landmarks", 0),
    "coordinates": Expected("float64", "vertices axes"),
}
NUMBERED = {"solver_": Expected("float64", "vertices *")}  # their names go on


def fault_of(name: str, array: NDArray[Any], stages: Mapping[str, Any]) -> str | None:
    """What is wrong with an array, in a few words; None of one that is right, or that the table has not.

    stages: Of the run's document, which has its schema's form. A size that no finished stage says is any.
    """
    expected = EXPECTED.get(name) or next((one for start, one in NUMBERED.items() if name.startswith(start)), None)
    if expected is None:
        return None
    sizes, kind = _sizes(stages), array.dtype.kind
    if not (kind in "biuf" if expected.dtypes == REAL else array.dtype.name in expected.dtypes.split()):
        return f"dtype {array.dtype}, where {expected.dtypes} is expected"
    sides = [_number(side, sizes) for side in expected.shape.split()]
    if len(sides) != array.ndim or any(one not in (None, had) for one, had in zip(sides, array.shape, strict=True)):
        said = ", ".join("any" if side is None else str(side) for side in sides)
        return f"shape {array.shape}, where ({said}) is expected"
    least, below = _number(expected.least, sizes), _number(expected.below, sizes)
    if array.size and (kind == "f" or least is not None or below is not None):
        lowest, highest = array.min(), array.max()
        if kind == "f" and not (np.isfinite(lowest) and np.isfinite(highest)):
            return "numbers that are not finite"
        if (least is not None and lowest < least) or (below is not None and highest >= below):
            most = "any" if below is None else below - 1
            return f"numbers from {lowest} to {highest}, where {least} to {most} is right"
    if expected.ascending == "strictly":
        if (array[1:] <= array[:-1]).any():
            return "numbers that do not ascend"
    elif expected.ascending and (array[0] != 0 or (array[1:] < array[:-1]).any()):
        return "pointers that do not ascend from 0"
    if expected.once:
        found = np.bincount(array[array >= 0])
        if found.max(initial=0) > 1 or sizes["vertices"] not in (None, int(found.sum())):
            return "not every vertex once"
    return None


def _sizes(stages: Mapping[str, Any]) -> dict[str, int | None]:
    """Sizes of the run, None of those that no finished stage says."""
    data, graph, solved, chosen = (stages.get(name) for name in ("data", "graph", "solve", "landmarks"))
    n, m = graph and graph["n_vertices"], chosen and chosen["n_landmarks"]
    return {
        "rows": data and data["fields"]["n_rows"],
        "features": data and data["fields"]["n_features"],
        "points": data and data["n_distinct"],
        "vertices": n,
        "landmarks": m,
        "trained": m or n,
        "pairs": n and n * (n - 1) // 2,
        "entries": graph and 2 * graph["n_edges"],
        "bridges": graph and graph["n_bridges"],
        "axes": solved and solved["fields"]["n_components"],
    }


def _number(bound: Bound, sizes: Mapping[str, int | None]) -> int | None:
    """A bound or side as a number; None where any will do."""
    if bound is None or bound == "*" or isinstance(bound, int):
        return None if isinstance(bound, str) else bound
    name, _, more = bound.partition("+")
    size = int(name) if name.isdecimal() else sizes[name]
    return None if size is None else size + int(more or 0)


def checked_array(path: str, name: str, array: NDArray[Any], stages: Mapping[str, Any]) -> NDArray[Any]:
    """An array of the run at `path`, unless something is wrong with it."""
    fault = fault_of(name, array, stages)
    if fault is not None:
        raise DamagedStoreError(f"{path!r}: {name!r} is not of this run ({fault}); {REMEDY}")
    return array


def check_size(path: str, n: int, stages: Mapping[str, Any]) -> None:
    """Refuse distances of another number of vertices than the graph's."""
    vertices = _sizes(stages)["vertices"]
    if vertices not in (None, n):
        raise DamagedStoreError(f"{path!r}: D is of {n} vertices and the graph of {vertices}; {REMEDY}")


def check_lists(path: str, what: str, indptr: NDArray[Any], *parts: NDArray[Any]) -> None:
    """Refuse lists (CSR) whose parts are not as long as their pointers say.

    indptr (m + 1,): Ascending from 0.
    parts (indptr[-1],)
    """
    if any(len(part) != indptr[-1] for part in parts):
        lengths = " and ".join(f"{len(part):,}" for part in parts)
        raise DamagedStoreError(
            f"{path!r}: {what} are damaged ({lengths} entries, where the pointers say {int(indptr[-1]):,}); {REMEDY}"
        )
