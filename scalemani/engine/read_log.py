"""What each read of D gave the solver, kept until the model is recorded: a solve that was stopped goes on from there.

A read of a large D takes half a minute, and a solve some twenty. Each is three arrays of the run, a block of vectors
and its images by both kernels, bound to what the solve was asked for; what is damaged, or another solve's, is none.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.places import place
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError

STAGE = "reads"
PARTS = ("vectors", "first", "second")
_BEGINNING = "solver_"
Block = tuple[NDArray[np.float64], ...]


class StoredReads:
    """The reads of one solve.

    fields: JSON values: what the reads follow from. Those of a solve that was asked for anything else are removed.
    """

    def __init__(self, store: RunStore, fields: dict[str, Any]) -> None:
        self._store, self._fields = store, fields
        state = store.stage(STAGE)
        self.count = 0
        if state is not None and state["fields"] == fields:
            self.count = int(state["count"])
        elif state is not None:
            self.clear()

    def get(self, number: int) -> Block | None:
        """A block and its images, arrays (n, b); None where they are not there, or not what was written."""
        if number >= self.count:
            return None
        try:
            found = tuple(self._store.read_array(f"{_BEGINNING}{part}_{number}") for part in PARTS)
        except DamagedStoreError:
            self.count = number
            return None
        return found if all(part.ndim == 2 and part.dtype == np.float64 for part in found) else None

    def put(self, number: int, block: Block) -> None:
        """Keep a block and its images; those behind it are of another way and go."""
        for part, array in zip(PARTS, block, strict=True):
            self._store.write_array(f"{_BEGINNING}{part}_{number}", array)
        self._store.finish(STAGE, self._fields, count=number + 1)
        self.count = number + 1

    def clear(self) -> None:
        """Remove all of them."""
        drop_reads(self._store)
        self.count = 0


def drop_reads(store: RunStore) -> None:
    """Remove all reads of a store, of whatever solve: also those that one left which was killed when it was done."""
    if store.stage(STAGE) is not None:
        store.forget(STAGE)
    if any(place(store.path).glob(f"{_BEGINNING}*")):
        store.remove_arrays(_BEGINNING)
