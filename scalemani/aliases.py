"""Types of arrays that many files name, by their numbers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]
