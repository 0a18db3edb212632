"""Stage 5: takes the tiles of D, gives the two centred operators K1 = B(D) and K2 = B(D∘D) as products.

B(A) = -1/2 J A J with J = I - 11'/n. Nothing of size n x n is formed: one read of D multiplies a
block of vectors by D and by D∘D together, and centring is applied to the vectors. Every constant
shares these two operators: K(c) = K2 + 2c K1 + (c²/2) J is the kernel of the distances d + c off the
diagonal (Cailliez 1983; Choi & Choi 2004, whose equation 4 prints K(D̃²) where K(D²) is meant).

:class:`CentredKernels` works on a run's tiles, :class:`DenseKernels` on a matrix in memory; the
solvers can't tell them apart. What is taken of one tile, and the first read that is made while D is written,
are in :mod:`scalemani.kernel_shares`.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from scalemani import blas
from scalemani.engine.cluster import Cluster
from scalemani.engine.read_log import StoredReads
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import sweep
from scalemani.kernel_shares import (
    DistanceSums,
    FirstRead,
    Vectors,
    centred,
    first_reader,
    images_of,
    later_reader,
    usual_precision,
)
from scalemani.ritz import ReadBlock, ReadLog


class Kernels(Protocol):
    """What the solvers see: a size, a count of reads, and the two products."""

    n_reads: int
    precision: str

    @property
    def log(self) -> ReadLog | None: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    def products(self, vectors: Vectors, precision: str | None = None) -> tuple[Vectors, Vectors]: ...

    def start(self, width: int, make: Callable[[], Vectors]) -> ReadBlock: ...


class CentredKernels:
    """K1 and K2 over the tiles of a run.

    store: With every tile row finished.
    precision ({"float32", "float64"}): Of the products inside a tile (sums over tiles are float64). float32 leaves an
        error of about 2e-9 λ1/c² in the constant, which one float64 product then takes out
        (:func:`scalemani.corrections.refined`). By default float64 up to 20,000 vertices.
    on_read: Called with `n_reads` after every read.
    first: Made while D was written.
    reads: Where the blocks of a solve are kept, and those of one that was stopped are found.
    n_reads: Reads of D so far, those that were found kept counted; one that was made while D was written costs none.
    log: For the solver, over `reads`.
    sums: Known after the first read.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: RunStore,
        precision: str | None = None,
        on_read: Callable[[int], None] | None = None,
        first: FirstRead | None = None,
        reads: StoredReads | None = None,
    ) -> None:
        self.log = None if reads is None else StoredReadLog(reads, self._count)
        self._cluster, self._store, self._on_read = cluster, store, on_read
        n = store.blocks.n
        self.shape = (n, n)
        self.n_reads = 0
        self.precision = precision or usual_precision(n)
        if self.precision not in ("float32", "float64"):
            raise ValueError(f"precision={precision!r}: 'float32' or 'float64' is allowed")
        self._first = first
        self._sums = None if first is None else first.sums

    def start(self, width: int, make: Callable[[], Vectors]) -> ReadBlock:
        """A block (n, width) with its images: the first read's, or a new one that `make` gives, for a read."""
        first, self._first = self._first, None  # the solver's from here on: it is as large as the basis
        if first is not None and first.block.shape == (self.shape[0], width):
            same = self.precision == usual_precision(self.shape[0])  # the first read's
            return ReadBlock(first.block, first.images if same else self.products(first.block))
        self._sums = None  # so that the sums come from this read, too
        del first
        block = make()
        return ReadBlock(block, self.products(block))

    def products(self, vectors: Vectors, precision: str | None = None) -> tuple[Vectors, Vectors]:
        """K1 V and K2 V for V (n, m), from one read of D; every read checks every tile.

        precision ({"float32", "float64"}): Of these products alone.
        """
        m, precision = vectors.shape[1], precision or self.precision
        if self._sums is None:
            reader = first_reader(vectors, precision)
            first = FirstRead(vectors, sweep(self._cluster, self._store, reader, by_rows=True))
            self._sums, images = first.sums, first.images
        else:
            reader = later_reader(vectors, precision)
            images = images_of(sweep(self._cluster, self._store, reader), m)
        self._count()
        return images

    def _count(self) -> None:
        self.n_reads += 1
        if self._on_read is not None:
            self._on_read(self.n_reads)

    @property
    def sums(self) -> DistanceSums:
        """Row sums of D and D∘D, and row maxima; a read of D if there was none before."""
        if self._sums is None:
            self.products(np.zeros((self.shape[0], 1)))
        assert self._sums is not None
        return self._sums


class StoredReadLog:
    """The solver's log over the reads that a store keeps: one that is found counts as a read.

    count: Called with nothing for each.
    """

    def __init__(self, reads: StoredReads, count: Callable[[], None]) -> None:
        self._reads, self._count_one = reads, count

    def get(self, number: int) -> ReadBlock | None:
        """The block that a stopped solve has read as this one."""
        found = self._reads.get(number)
        if found is None:
            return None
        self._count_one()
        return ReadBlock(found[0], found[1:])

    def put(self, number: int, block: ReadBlock) -> None:
        """Keep a block with its images."""
        self._reads.put(number, (block.basis, *block.images))


class DenseKernels:
    """K1 and K2 of a distance matrix in memory; the same products, in float64.

    distances (n, n): Symmetric, zero diagonal.
    """

    def __init__(self, distances: Any) -> None:
        self.distances = np.asarray(distances, np.float64)
        self.shape = (len(self.distances), len(self.distances))
        self.n_reads, self.precision, self.log = 0, "float64", None
        d, squares = self.distances, self.distances**2
        cubes, fourths = float(blas.row_dots(d, squares).sum()), float(blas.row_dots(squares, squares).sum())
        self.sums = DistanceSums(d.sum(1), squares.sum(1), d.max(1), cubes, fourths)

    def start(self, width: int, make: Callable[[], Vectors]) -> ReadBlock:
        """A block (n, width) with its images."""
        block = make()
        return ReadBlock(block, self.products(block))

    def products(self, vectors: Vectors, precision: str | None = None) -> tuple[Vectors, Vectors]:
        """K1 V and K2 V in float64; counted as one read of D."""
        self.n_reads += 1
        v = centred(vectors)
        first, second = (-0.5 * centred(blas.product(d, v)) for d in (self.distances, self.distances**2))
        return first, second
