"""How large numbers may be, and what of distances is rounding: takes points or distances, refuses the impossible."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from scalemani.errors import ScalemaniError

LARGEST = 1e150  # squares stay in float64's range
SAME = 1e-6  # of a length, or of the typical one: what is smaller is rounding (of float32, or of 1 - a correlation)


def typical_distance(lengths: NDArray[np.float64]) -> float:
    """The median length of those that are more than rounding, beside which 1e-6 is nothing; 0 where there are none.

    >>> typical_distance(np.array([0.0, -1e-17, 1e-16, 2.0, 3.0, 4.0, np.inf]))
    3.0
    """
    finite = lengths[np.isfinite(lengths)]
    real = finite[finite > 1e-9 * finite.max(initial=0.0)]
    return float(np.median(real)) if len(real) else 0.0


def check_magnitude(values: Any, name: str = "X") -> None:
    """Refuse numbers whose squares leave float64's range: distances would be inf, or all 0."""
    entries = values.data if sp.issparse(values) else values
    largest = max(abs(float(entries.max())), abs(float(entries.min()))) if entries.size else 0.0
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise ScalemaniError(
            f"{name} has values of size {largest:.1e}: between {1 / LARGEST:g} and {LARGEST:g} is allowed; rescale it"
        )
