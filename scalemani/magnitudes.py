"""How large numbers may be: takes points or distances, refuses those whose squares float64 can't hold."""

from typing import Any

import scipy.sparse as sp

from scalemani.errors import ScalemaniError

LARGEST = 1e150  # squares stay in float64's range


def check_magnitude(values: Any, name: str = "X") -> None:
    """Refuse numbers whose squares leave float64's range: distances would be inf, or all 0.

    Raises
    ------
    ScalemaniError
    """
    entries = values.data if sp.issparse(values) else values
    largest = max(abs(float(entries.max())), abs(float(entries.min()))) if entries.size else 0.0
    if largest > LARGEST or 0 < largest < 1 / LARGEST:
        raise ScalemaniError(
            f"{name} has values of size {largest:.1e}: between {1 / LARGEST:g} and {LARGEST:g} is allowed; rescale it"
        )
