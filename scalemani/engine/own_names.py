"""The names below a run's place: takes one, says whether this package's own stages make it.

Whatever else lies there is somebody's: `repair` says so and leaves it alone, and `overwrite` refuses to remove it.
"""

import re

from scalemani.engine.document import COPY, ROOT
from scalemani.engine.expected_arrays import EXPECTED
from scalemani.engine.objects import LEFT
from scalemani.engine.places import Place, below, in_order

__all__ = ["first_stray", "is_own", "is_partial", "own_entries"]

DOCUMENTS = (ROOT, COPY)
DISTANCES = ("distances", "ledger", "landmark_rows", "distances_to_landmarks")  # of all pairs, or to landmarks
COUNTED = re.compile(r"solver_(vectors|first|second)_\d+|piece_[0-9a-f]{16}_\w+")  # reads, pieces of a search
INSIDE = re.compile(r"zarr\.json|c(/\d+)*|ledger|(ledger/)?\d+\.json")  # a folder of a run, as far down as there is any
OF_THE_SYSTEM = re.compile(r"\.nfs[0-9a-f]+|\.DS_Store|Thumbs\.db|desktop\.ini")  # which come by themselves


def is_own(name: str) -> bool:
    """Whether a run has, or while it is made may have, an entry of that name right below its place.

    >>> is_own("vectors"), is_own("solver_first_3"), is_own("out.zarr"), is_own("first_notes")
    (True, True, False, False)
    """
    name = LEFT.sub("", name)
    return name in DOCUMENTS or name in DISTANCES or name in EXPECTED or COUNTED.fullmatch(name) is not None


def is_partial(name: str) -> bool:
    """Whether it is the name of what was being made: of a file that a user calls so, it is not.

    >>> is_partial(f"ledger/3.json.{'0' * 32}.partial"), is_partial("film.partial")
    (True, False)
    """
    return LEFT.search(name) is not None


def own_entries(folder: Place, beginning: str) -> list[Place]:
    """Entries right below a run's place that are its own and whose names begin so."""
    return [entry for entry in folder.iterdir() if entry.name.startswith(beginning) and is_own(entry.name)]


def first_stray(folder: Place) -> str | None:
    """The first entry below a run's place, at any depth, that no run makes; None where there is none."""
    for entry in in_order(folder.iterdir()):  # a request, where all below are many
        if not is_own(entry.name) and not OF_THE_SYSTEM.fullmatch(entry.name):
            return entry.name
    return next((name for name in (below(entry, folder) for entry in folder.rglob("*")) if _is_stray(name)), None)


def _is_stray(name: str) -> bool:
    top, _, rest = name.partition("/")
    if OF_THE_SYSTEM.fullmatch(name.rpartition("/")[2]):
        return False
    return not is_own(top) or bool(rest and (top in DOCUMENTS or not INSIDE.fullmatch(LEFT.sub("", rest))))
