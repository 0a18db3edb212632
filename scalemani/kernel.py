"""Stage 5: takes the tiles of D, gives the two centred operators K1 = B(D) and K2 = B(D∘D) as products.

B(A) = -1/2 J A J with J = I - 11'/n. Nothing of size n x n is formed: one read of D multiplies a
block of vectors by D and by D∘D together, and centring is applied to the vectors. Every constant
shares these two operators: K(c) = K2 + 2c K1 + (c²/2) J is the kernel of the distances d + c off the
diagonal (Cailliez 1983; Choi & Choi 2004, whose equation 4 prints K(D̃²) where K(D²) is meant). The
first read also takes, from the same tiles, what the spectrum's account and the projection need: row
sums of D and of D∘D.

:class:`CentredKernels` works on a run's tiles, :class:`DenseKernels` on a matrix in memory; the
solvers can't tell them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from scalemani.engine.cluster import Cluster
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import Share, sweep

Vectors = NDArray[np.float64]
FLOAT64_BELOW = 20_000  # vertices up to which products are float64 by default: twice the time of float32, no loss


@dataclass(frozen=True)
class DistanceSums:
    """What the first read of D finds besides the products, in the units of the tiles.

    Attributes
    ----------
    row_sums, row_sums_squared : ndarray, shape (n,)
        Sums of each row of D and of D∘D.
    """

    row_sums: Vectors
    row_sums_squared: Vectors

    @property
    def n(self) -> int:
        """Vertices."""
        return len(self.row_sums)

    def trace(self, constant: float) -> float:
        """Trace of K(c): ΣD²/(2n) + c ΣD/n + c² (n - 1)/2."""
        n = self.n
        return float(
            self.row_sums_squared.sum() / (2 * n) + constant * self.row_sums.sum() / n + constant**2 * (n - 1) / 2
        )

    def mean_squares(self, constant: float) -> Vectors:
        """Mean of (d_ij + c (1 - δ_ij))² over i, for each j: the training means of the projection."""
        n = self.n
        return (self.row_sums_squared + 2 * constant * self.row_sums + constant**2 * (n - 1)) / n


class Kernels(Protocol):
    """What the solvers see: a size, a count of reads, and the two products."""

    n_reads: int

    @property
    def shape(self) -> tuple[int, int]: ...

    def products(self, vectors: Vectors) -> tuple[Vectors, Vectors]: ...


def centred(columns: Vectors) -> Vectors:
    """J A: every column less its mean.

    >>> centred(np.array([[1.0], [3.0]])).ravel().tolist()
    [-1.0, 1.0]
    """
    result: Vectors = columns - columns.mean(axis=0)
    return result


class CentredKernels:
    """K1 and K2 over the tiles of a run.

    Parameters
    ----------
    cluster : Cluster
    store : RunStore
        With every tile row finished.
    precision : {"float32", "float64"}, optional
        Of the products inside a tile (sums over tiles are float64). float32 gives the constant to
        1e-6 while λ1/c² <= 2e3, and 6e-5 at 5e4; float64 reaches 1e-6 throughout. By default
        float64 up to 20,000 vertices.
    on_read : callable, optional
        Called with `n_reads` after every read.

    Attributes
    ----------
    n_reads : int
        Reads of D so far.
    sums : DistanceSums
        Known after the first read.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: RunStore,
        precision: str | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> None:
        self._cluster, self._store, self._on_read = cluster, store, on_read
        n = store.blocks.n
        self.shape = (n, n)
        self.n_reads = 0
        self.precision = precision or ("float64" if n <= FLOAT64_BELOW else "float32")
        if self.precision not in _SHARES:
            raise ValueError(f"precision={precision!r}: 'float32' or 'float64' is allowed")
        self._sums: DistanceSums | None = None

    def products(self, vectors: Vectors) -> tuple[Vectors, Vectors]:
        """K1 V and K2 V for V (n, m), from one read of D."""
        m = vectors.shape[1]
        first = self._sums is None
        share, width = (_SUM_SHARES if first else _SHARES)[self.precision], 2 * m + (2 if first else 0)
        operand = centred(vectors).astype(self.precision)
        total = sweep(self._cluster, self._store, share, operand, width, verify=first)
        self.n_reads += 1
        if self._on_read is not None:
            self._on_read(self.n_reads)
        if first:
            self._sums = DistanceSums(total[:, 2 * m].copy(), total[:, 2 * m + 1].copy())
        return -0.5 * centred(total[:, :m]), -0.5 * centred(total[:, m : 2 * m])

    @property
    def sums(self) -> DistanceSums:
        """Row sums of D and D∘D; a read of D if there was none before."""
        if self._sums is None:
            self.products(np.zeros((self.shape[0], 1)))
        assert self._sums is not None
        return self._sums


class DenseKernels:
    """K1 and K2 of a distance matrix in memory; the same products, in float64.

    Parameters
    ----------
    distances : array-like, shape (n, n)
        Symmetric, zero diagonal.
    """

    def __init__(self, distances: Any) -> None:
        self.distances = np.asarray(distances, np.float64)
        self.shape = (len(self.distances), len(self.distances))
        self.n_reads = 0
        self.sums = DistanceSums(self.distances.sum(1), (self.distances**2).sum(1))

    def products(self, vectors: Vectors) -> tuple[Vectors, Vectors]:
        """K1 V and K2 V; counted as one read of D."""
        self.n_reads += 1
        v = centred(vectors)
        return -0.5 * centred(self.distances @ v), -0.5 * centred(self.distances**2 @ v)


# ---- shares of one tile (module-level: they are sent to workers) ---------------------------------


def _both_products(
    tile: NDArray[Any], there: NDArray[Any], here: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    squared = tile * tile
    ours = np.hstack([tile @ there, squared @ there])
    return ours, None if here is None else np.hstack([tile.T @ here, squared.T @ here])


def _wide(
    tile: NDArray[np.float32], there: NDArray[Any], here: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    return _both_products(tile.astype(np.float64), there, here)


def _with_sums(
    tile: NDArray[np.float32], there: NDArray[Any], here: NDArray[Any] | None
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    working = np.asarray(tile, there.dtype)
    ours, theirs = _both_products(working, there, here)
    wide = np.asarray(working, np.float64)
    ours = np.column_stack([ours, wide.sum(1), np.einsum("ij,ij->i", wide, wide)])
    return ours, None if theirs is None else np.column_stack([theirs, wide.sum(0), np.einsum("ij,ij->j", wide, wide)])


_SHARES: dict[str, Share] = {"float32": _both_products, "float64": _wide}
_SUM_SHARES: dict[str, Share] = {"float32": _with_sums, "float64": _with_sums}
