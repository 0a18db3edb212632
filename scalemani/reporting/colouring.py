"""What colours a map: takes a column with a value for each row, gives numbers on a scale or categories.

Text is categories. Numbers are a scale, but for a few different whole numbers (labels of classes), whose
mixtures mean nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Colouring", "colouring"]

MOST_CATEGORIES = 12  # so many colours can still be told apart
LEAST_COVERED = 0.25  # of the rows by the commonest values; else they are names, and no colour says anything
TAIL = 0.01  # of the values at either end that may be far out without flattening the scale
WIDEST = 1e300  # the length of a scale is a float64
FAR = 4.0  # the whole range is this many times what lies between the tails: then those set the scale


@dataclass(frozen=True)
class Colouring:
    """A colour for each row.

    numbers (n,): NaN where a row has none.
    limits: Ends of the scale of `numbers`; values beyond have the colour of the end.
    codes (n,): Number of the row's category in `categories`; ``len(categories)`` for the others, -1 without a value.
    categories: The commonest first; at most twelve.
    n_categories: Different ones in the column.
    """

    name: str
    numbers: NDArray[np.float64] | None = None
    limits: tuple[float, float] = (0.0, 1.0)
    codes: NDArray[np.int64] | None = None
    categories: tuple[str, ...] = ()
    n_categories: int = 0

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Rows without a value."""
        if self.codes is not None:
            return np.asarray(self.codes < 0)
        assert self.numbers is not None
        return np.isnan(self.numbers)

    def counts(self) -> list[int]:
        """Rows in each category that has a colour of its own, then in the others, then without a value."""
        assert self.codes is not None
        kinds = len(self.categories)
        found = np.bincount(np.where(self.codes < 0, kinds + 1, self.codes), minlength=kinds + 2)
        return [int(n) for n in found]

    def of(self, rows: NDArray[Any]) -> "Colouring":
        """The same of some rows; scale and categories stay."""
        numbers = None if self.numbers is None else self.numbers[rows]
        codes = None if self.codes is None else self.codes[rows]
        return Colouring(self.name, numbers, self.limits, codes, self.categories, self.n_categories)


def colouring(name: str, values: NDArray[Any] | Sequence[str]) -> Colouring:
    """A colour for each value.

    values: NaN, infinite and empty values are none.

    >>> colouring("kind", ["b", "a", "b", ""]).categories
    ('b', 'a')
    >>> colouring("length", np.array([0.5, 2.0, np.nan])).limits
    (0.5, 2.0)
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        numbers = np.asarray(values, dtype=np.float64)
        if values.dtype.kind == "b":
            return _categories(name, ["yes" if value else "no" for value in values])
        finite = np.isfinite(numbers)
        numbers = np.where(finite, numbers, np.nan)
        different = np.unique(numbers[finite])
        if 0 < different.size <= MOST_CATEGORIES and (different == np.rint(different)).all():
            texts = ["" if np.isnan(value) else f"{value:.0f}" for value in numbers]
            return _categories(name, texts, order=[f"{value:.0f}" for value in different])
        return Colouring(name, numbers, _limits(numbers[finite]))
    return _categories(name, [str(value).strip() for value in values])


def _limits(finite: NDArray[np.float64]) -> tuple[float, float]:
    """The range, or what lies between its tails where a few values are far out."""
    if not finite.size:
        return 0.0, 1.0
    low, high = (float(np.clip(end, -WIDEST, WIDEST)) for end in (finite.min(), finite.max()))
    inner = [float(value) for value in np.quantile(finite, [TAIL, 1 - TAIL])]
    if high - low > FAR * (inner[1] - inner[0]) > 0:
        return inner[0], inner[1]
    margin = max(0.5, 1e-3 * abs(low))  # of a scale with one value
    return (low, high) if high > low else (low - margin, high + margin)


def _categories(name: str, texts: Sequence[str], order: Sequence[str] | None = None) -> Colouring:
    """Categories by how common they are, equal ones by their names, or in a given order."""
    found = Counter(text for text in texts if text)
    ranked = list(order) if order is not None else sorted(found, key=lambda text: (-found[text], text))
    shown = ranked[:MOST_CATEGORIES]
    if sum(found[text] for text in shown) < LEAST_COVERED * found.total():
        shown = []
    number = {text: i for i, text in enumerate(ranked)}
    codes = np.array([min(number[text], len(shown)) if text else -1 for text in texts], dtype=np.int64)
    return Colouring(name, codes=codes, categories=tuple(shown), n_categories=len(ranked))
