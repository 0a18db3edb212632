"""Pieces of a stage that is not finished, kept in a run's store: takes arrays by name, gives them back whole.

Each is one array of the store, with its CRC32C, under a name that holds a digest of what the piece follows from: a
fit with other parameters does not find it. All of them go when the stage is finished.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.places import place
from scalemani.engine.store import RunStore
from scalemani.errors import DamagedStoreError

_BEGINNING = "piece_"


class KeptPieces:
    """Pieces of one stage of one fit.

    fields: JSON values of all that the pieces follow from: parameters and the data's fingerprint.
    """

    def __init__(self, store: RunStore, fields: Mapping[str, Any]) -> None:
        text = json.dumps(fields, sort_keys=True)
        self._store = store
        self._beginning = f"{_BEGINNING}{blake2b(text.encode(), digest_size=8).hexdigest()}_"

    def get(self, name: str) -> NDArray[Any] | None:
        """What was put under a name; None where nothing was, or it is damaged: it is to be computed again."""
        try:
            return self._store.read_array(self._beginning + name)
        except DamagedStoreError:  # or not there
            return None

    def put(self, name: str, piece: NDArray[np.int64]) -> None:
        """Keep an array, in the place of one that is there."""
        self._store.write_array(self._beginning + name, piece)


def drop_pieces(store: RunStore) -> None:
    """Remove all pieces of a store, of whatever fit."""
    if any(place(store.path).glob(f"{_BEGINNING}*")):  # else the document need not be looked at
        store.remove_arrays(_BEGINNING)
