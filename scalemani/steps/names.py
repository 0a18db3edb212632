"""The ids of a run's rows, which no fit follows from: one text, and where in it each id begins."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from scalemani.errors import DamagedStoreError
from scalemani.steps.base import ByKind, Step, Work
from scalemani.steps.records import NamesRecord
from scalemani.storage.arrays import check_lists
from scalemani.storage.audit import Fault, cause
from scalemani.storage.json import REMEDY
from scalemani.storage.run import ROW_IDS, RunStore

STARTS, TEXT = f"{ROW_IDS}_starts", f"{ROW_IDS}_text"
HALVES = "surrogatepass"  # half of a surrogate pair, which a data frame may hold, is kept as it is


def row_ids(store: RunStore) -> list[str] | None:
    """The ids in the order of the user's rows; None where they have none."""
    if STARTS not in store.document.arrays:
        return None
    starts, text = store.read_array(STARTS), store.read_array(TEXT)
    check_lists(store.path, "ids of rows", starts, text)
    letters = text.tobytes()
    try:
        return [letters[start:stop].decode("utf-8", HALVES) for start, stop in pairwise(starts.tolist())]
    except UnicodeDecodeError as error:
        raise DamagedStoreError(f"{store.path!r}: {TEXT!r} is no text in UTF-8; {REMEDY}") from error


def write_row_ids(store: RunStore, ids: Sequence[str] | None) -> None:
    """Put the ids of all rows in the place of those that are there; None takes them away."""
    store.remove_arrays(ROW_IDS)
    if ids is None:
        return
    every = [one.encode("utf-8", HALVES) for one in ids]
    store.write_array(STARTS, np.cumsum([0, *map(len, every)], dtype=np.int64))
    store.write_array(TEXT, np.frombuffer(b"".join(every), np.uint8))
    store.finish(store.record(NamesRecord) or NamesRecord(features=None))


class RowIds(Step):
    """Ids of rows, as verify and repair look at them; no fit makes them."""

    record = NamesRecord
    arrays = {ROW_IDS: "ids"}
    mends = {"ids": "removes the ids of rows; the same fit gives them again"}

    def run(self, work: Work) -> None:
        """Nothing: they are given, and follow from no other step."""

    def check(self, work: Work, broken: set[str]) -> Iterator[Fault]:
        """Whether the text is as long as the ids together, and is text."""
        if not broken & {STARTS, TEXT}:
            try:
                row_ids(work.store)
            except DamagedStoreError as error:
                yield Fault("ids", TEXT, cause(error, work.store.path))

    def remake(self, work: Work, faults: ByKind, *, waiting: bool) -> list[str]:
        """Nothing here says what they were."""
        work.store.remove_arrays(ROW_IDS)
        return ["the ids of rows were removed; the same fit gives them again"]
