"""Leaf: the matrix products whose bits are promised, and the one memory order of what goes into them.

BLAS adds up in another order where the same operand has another shape or another memory order: with AVX-512 the last
bits differ. An array comes in either order, as it was computed, read from a store, or sent by a worker. So whatever
comes from elsewhere is laid out here first, and every product is made here, where a test records what goes in.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def by_rows(array: NDArray[Any], dtype: Any = None) -> NDArray[Any]:
    """The array with each row in one piece (C order); itself where it is so."""
    return np.ascontiguousarray(array, dtype)


def product(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """a @ b."""
    return a @ b


def row_dots(a: NDArray[Any], b: NDArray[Any]) -> Any:
    """The scalar product of each row of `a` with that of `b`."""
    return np.vecdot(a, b)
