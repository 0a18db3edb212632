"""Labels of the rows of X: any list, array or column of whole numbers or text becomes the class of each row."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from scalemani.aliases import I64
from scalemani.errors import ScalemaniError
from scalemani.points.cells import as_text
from scalemani.words import one_line

_ALLOWED = "labels are whole numbers, booleans or text, one for each row of X"


@dataclass(frozen=True)
class Labels:
    """The class of each row.

    codes (N,): Place of each row's class among the sorted labels.
    names: Of the classes, in that order, as text.
    """

    codes: I64
    names: list[str]

    def marked(self, digests: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Digests (N, 2) of rows and their classes: equal rows of two classes are two points.

        Raises ScalemaniError: If there are more or fewer rows than labels.
        """
        if len(digests) != len(self.codes):
            raise ScalemaniError(
                f"y has {len(self.codes)} labels and X has {len(digests)} rows; give one label for each row"
            )
        marks = [blake2b(b"class " + name.encode("utf-8", "surrogatepass"), digest_size=16) for name in self.names]
        found = np.frombuffer(b"".join(mark.digest() for mark in marks), "<u8").astype(np.uint64).reshape(-1, 2)
        # Both parts are as good as random: two pairs that differ are the same with a chance of 2^-128.
        marked: NDArray[np.uint64] = digests ^ found[self.codes]
        return marked


def read_labels(y: Any) -> Labels:
    """The classes that labels say.

    y (N,): Whole numbers, also as floats, booleans or text: an array, a list, or a column of a data frame.
    Raises ScalemaniError: Not one label a row, one that is missing or masked (its row is named), values that are no
        labels, or one class alone.
    """
    values = _values(y)
    if values.ndim != 1:
        remedy = "give its one column, as y.ravel()" if values.ndim == 2 and values.shape[1] == 1 else "give one list"
        raise ScalemaniError(f"y has shape {values.shape}; {_ALLOWED}, shape (n,): {remedy}")
    if values.dtype.kind in "OST":
        values = _of_one_kind(values.astype(object))
    if values.dtype.kind == "f":
        _check_whole(values)
    elif values.dtype.kind not in "biuUO":
        raise ScalemaniError(f"y has dtype {values.dtype}; {_ALLOWED}: number the classes")
    found, codes = np.unique(values, return_inverse=True)
    names = [str(int(label) if values.dtype.kind == "f" else label) for label in found.tolist()]
    if len(names) < 2:
        said = f"is {names[0]!r:.60} in all {len(values)} rows" if names else "is empty"
        raise ScalemaniError(
            f"y {said}; two classes or more are needed, not one class: give their labels, or leave y out"
        )
    return Labels(codes.astype(np.int64), names)


def read_some_labels(y: Any) -> tuple[I64, NDArray[Any]]:
    """The classes of the rows that have a label.

    y (N,): As :func:`read_labels` takes it, but that None, NaN or a masked entry stands for no label.
    -> Place of each row's class among the sorted labels (N,), -1 without one; and the labels.
    Raises ScalemaniError: As :func:`read_labels`.

    >>> read_some_labels([8, None, 3, 8])
    (array([ 1, -1,  0,  1]), array([3, 8]))
    """
    lost = np.ma.getmaskarray(y) if np.ma.isMaskedArray(y) else None
    values = _values(np.ma.getdata(y) if lost is not None else y)
    if values.ndim != 1:
        read_labels(values)  # says what is wrong
    known = np.array([not _is_missing(value) for value in values.tolist()], bool)
    known &= True if lost is None else ~lost
    filled = values[known] if not known.any() else np.where(known, values, values[known.argmax()])
    codes = read_labels(filled).codes
    first = np.unique(codes, return_index=True)[1]
    return np.where(known, codes, -1), np.array(filled[first].tolist())


def _values(y: Any) -> NDArray[Any]:
    """What y holds, in memory; nothing of it is masked."""
    y = y.compute() if hasattr(y, "compute") else y
    if issparse(y):
        raise ScalemaniError(f"y is a sparse matrix; {_ALLOWED}: give an array, as y.toarray().ravel()")
    try:  # NumPy makes text of all that is in a list with text, NaN too
        values = np.array(y, object) if isinstance(y, list | tuple) else np.asanyarray(y)
    except ValueError as error:
        raise ScalemaniError(f"y can't be read as labels ({one_line(error)}); {_ALLOWED}") from error
    _check_all_there(np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else np.zeros(0, bool), "is masked")
    return np.asarray(values)


def _of_one_kind(values: NDArray[Any]) -> NDArray[Any]:
    """Objects as numbers, or as text if all of them are."""
    _check_all_there(np.array([_is_missing(value) for value in values], bool), "is missing")
    texts = [as_text(value) for value in values]
    if values.size and None not in texts:
        return np.array(texts, object)
    for row, (value, text) in enumerate(zip(values, texts, strict=True)):
        if text is not None or not isinstance(value, Real):
            raise ScalemaniError(f"y holds {value!r:.60} at row {row}; {_ALLOWED}, all of one kind")
    numbers = np.array(values.tolist())
    rounded = numbers.dtype.kind == "f" and any(isinstance(one, Integral) and int(one) != float(one) for one in values)
    if numbers.dtype.kind == "O" or rounded:
        raise ScalemaniError(f"y holds whole numbers too large to be told apart; {_ALLOWED}: give them as text")
    return numbers


def _is_missing(value: Any) -> bool:
    """Whether an object stands for no label; nothing of pandas is imported."""
    if value is None or value is np.ma.masked or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def _check_whole(values: NDArray[Any]) -> None:
    """Refuse floats that are no whole numbers."""
    _check_all_there(np.isnan(values), "is missing")
    broken = ~(np.isfinite(values) & (values == np.floor(values)))
    if broken.any():
        row = int(broken.argmax())
        raise ScalemaniError(
            f"y looks like a continuous target ({values[row]} at row {row}); labels are needed: whole numbers or text"
        )


def _check_all_there(lost: NDArray[np.bool_], what: str) -> None:
    """Refuse labels of which some are lost."""
    if lost.any():
        row = int(np.argwhere(lost)[0, 0])
        raise ScalemaniError(
            f"y {what} at row {row} ({int(lost.sum())} of {len(lost)} labels); {_ALLOWED}: give these rows a label, or "
            "leave them out"
        )
