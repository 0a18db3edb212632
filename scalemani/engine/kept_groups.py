"""Finished groups of an output's rows: takes a group's numbers and what they were made from, gives them back.

While a group is in work each of its blocks is kept by itself (:mod:`.kept`). When it is finished its numbers go into
the output, or into one file where there is no output yet, a record of a few bytes a block says what they are, and the
blocks are dropped: what is kept beside an output is one group's blocks, however many rows there are. A record holds the
digest of what each block was made from, and the CRC32C of the numbers in the output: where any differs, the group is
made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.kept import KeptResults
from scalemani.engine.objects import checksum
from scalemani.engine.user_arrays import NewOutput

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Record:
    """What is known of a group that was finished.

    digests: Of what its parts were made from, in order.
    rows, blocks: Rows, and results that were kept for them.
    numbers (rows, axes): These, where they are not in the output.
    """

    digests: list[str]
    rows: int
    blocks: int
    crc: int
    numbers: F64 | None


class KeptGroups:
    """The groups of one output.

    output: Where finished groups go; else their numbers are kept.
    of: Digest of what all groups are made from besides their rows.
    """

    def __init__(self, kept: KeptResults, output: NewOutput | None, of: str) -> None:
        self._kept, self._output, self._of = kept, output, of

    def record(self, first: int) -> Record | None:
        """The record of the group whose first row has a number, if it was finished."""
        found = self._kept.get(_name(first), self._of, counts=0)
        if found is None or len(found) != (3 if self._output is None else 2):
            return None
        digests = [part.tobytes().hex() for part in found[0]]
        rows, blocks, crc = (int(number) for number in found[1])
        return Record(digests, rows, blocks, crc, found[2] if len(found) > 2 else None)

    def numbers(self, first: int, record: Record) -> F64 | None:
        """The numbers (rows, axes) of a finished group, or None where they are not what they were."""
        found = record.numbers
        if found is None and self._output is not None:
            found = self._output.read(first, first + record.rows)
        if found is None or len(found) != record.rows or checksum(found) != record.crc:
            return None
        self._kept.found += record.blocks
        return found

    def finish(self, first: int, digests: Sequence[str], names: Sequence[str], numbers: F64) -> None:
        """Take the numbers of a group, then drop the results of those names."""
        said = np.array([len(numbers), len(names), checksum(numbers)], np.int64)
        made_of = np.frombuffer(bytes.fromhex("".join(digests)), "<i8").reshape(len(digests), -1)
        arrays: list[NDArray[Any]] = [made_of, said]
        if self._output is None:
            arrays.append(numbers)
        else:
            self._kept.check()
            self._output.write(first, numbers)
        self._kept.put(_name(first), self._of, arrays, counts=0)
        self._kept.drop(names)


def _name(first: int) -> str:
    return f"group-{first}"
