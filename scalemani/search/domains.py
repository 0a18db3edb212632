"""Rows that a metric can measure: what entries and whole rows must be, in tests and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.errors import ScalemaniError

_EPS = float(np.finfo(np.float64).eps)
_ROUNDED = 1 + 1e-6  # of float32's pi


@dataclass(frozen=True)
class Domain:
    """What is allowed.

    words: The rule, as messages and the documentation say it.
    entry: Whether each entry is bad, from entries and their columns; CSR rows show what they store.
    row: Whether each row is bad, from a block of rows.
    fault: What a bad row has.
    """

    words: str = "any numbers"
    entry: Callable[[Any, Any], Any] | None = None
    row: Callable[[Any], Any] | None = None
    fault: str = ""

    def check(self, metric: str, block: Any, start: int, name: str) -> None:
        """Raise where a block of rows, the first of them row `start` of `name`, holds what is not allowed."""
        takes = f"metric={metric!r} takes {self.words}: drop or change those rows, or use another metric"
        values, columns = (block.data, block.indices) if issparse(block) else (block, np.arange(block.shape[1]))
        bad = None if self.entry is None else self.entry(values, columns)
        if bad is not None and bad.any():
            at, count = int(np.argmax(bad)), int(bad.sum())
            row, column = divmod(at, block.shape[1])
            if issparse(block):
                row, column = int(np.searchsorted(block.indptr, at, side="right")) - 1, int(columns[at])
            raise ScalemaniError(
                f"Input {name} contains {values.flat[at]:g} at row {start + row}, column {column} ({count} such "
                f"entries in this block of rows); {takes}"
            )
        wrong = None if self.row is None else self.row(block)
        if wrong is not None and wrong.any():
            raise ScalemaniError(
                f"Input {name} has {self.fault} in row {start + int(np.argmax(wrong))} ({int(wrong.sum())} such rows "
                f"in this block of rows); {takes}"
            )


def _filled(block: Any) -> Any:
    """The number of entries other than 0 in each row; CSR blocks store no zeros."""
    return np.diff(block.indptr) if issparse(block) else np.count_nonzero(block, axis=1)


def _empty(block: Any) -> Any:
    return _filled(block) == 0


def _constant(block: Any) -> Any:
    """Rows whose entries are equal but for rounding."""
    found = _filled(block)
    if issparse(block):
        full = np.flatnonzero(found == block.shape[1])
        out = found == 0
        out[full] = _constant(block[full].toarray()) if len(full) else False
        return out
    low, high = (ends(block, axis=1).astype(np.float64) for ends in (np.min, np.max))
    return high - low <= 4 * block.shape[1] * _EPS * np.maximum(np.abs(low), np.abs(high))


def _not_angles(values: Any, columns: Any) -> Any:
    return np.abs(values) > np.where(columns == 0, np.pi / 2, 2 * np.pi) * _ROUNDED


def _negative(values: Any, columns: Any) -> Any:
    return values < 0


def _not_yes_or_no(values: Any, columns: Any) -> Any:
    return (values != 0) & (values != 1)


REAL = Domain()
NOT_ZERO = Domain("rows that are not all 0", row=_empty, fault="only zeros")
NOT_CONSTANT = Domain("rows whose entries are not all equal", row=_constant, fault="one number everywhere")
NON_NEGATIVE = Domain("numbers >= 0", _negative)
SHARES = Domain("numbers >= 0, and rows that are not all 0", _negative, _empty, "only zeros")
POSITIVE = Domain(
    "numbers > 0",
    lambda values, columns: values <= 0,
    lambda block: _filled(block) < block.shape[1],
    "entries of 0",
)
YES_OR_NO = Domain("0 and 1 (give X != 0 to compare which entries are there)", _not_yes_or_no)
YES_AND_NO = Domain(
    "0 and 1, and rows that hold both",
    _not_yes_or_no,
    lambda block: (_filled(block) == 0) | (_filled(block) == block.shape[1]),
    "one number everywhere",
)
BYTES = Domain(
    "packed bits (integers from 0 to 255)",
    lambda values, columns: (values < 0) | (values > 255) | (values != np.floor(values)),
)
ANGLES = Domain(
    "radians (latitude from -π/2 to π/2, then longitude from -2π to 2π; numpy.radians makes them of degrees)",
    _not_angles,
)
