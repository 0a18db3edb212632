"""What a search for neighbours did, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Account:
    """What a search did.

    n_distances: Pairs, of two rows or of a row and a centre, whose distance or a bound on it was computed.
    counted: Whether each was counted; else the number is an estimate (:mod:`.evaluations`).
    n_skipped: Pairs of a row and a shard without it that were skipped.
    skipped_shards: Pairs (i, j), at most 100, of shards such that no row of i asked j.
    """

    n_distances: int = 0
    counted: bool = True
    n_shards: int = 1
    n_parts: int = 1
    n_skipped: int = 0
    skipped_shards: list[list[int]] | None = None

    def record(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return asdict(self)
