"""Leaf: what the block iteration of :mod:`scalemani.eigensolver` takes and answers, as data."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class ReadBlock:
    """A block of vectors whose images are known: the iteration takes it without a read.

    basis (n, b): Orthonormal columns, orthogonal to 1.
    images: A_i of the basis, for each A_i.
    """

    basis: Vectors
    images: tuple[Vectors, ...]


@dataclass(frozen=True)
class Combination:
    """What `combine` answers: K = Σ coefficients[i] A_i + identity · I, and how well the low end must be known.

    value: What must settle (the additive constant); where the low end is wanted, the iteration goes on while it is
        estimated to rise by more than tol/2 of itself.
    low_scale: Error of the lowest eigenvalue that is allowed, divided by tol/2; inf if the low end is not wanted.
    floor: Eigenvalues up to here carry nothing (past the rank, or nugget only): a pair is done as soon as its Ritz
        value plus residual is below.
    """

    coefficients: tuple[float, ...]
    identity: float = 0.0
    value: float = 0.0
    low_scale: float = np.inf
    floor: float = 0.0


@dataclass(frozen=True)
class RitzPairs:
    """The answer.

    values (p,): Largest eigenvalues, descending.
    vectors (n, p): Orthonormal, orthogonal to 1.
    forms: v'A_i v of each vector, for each A_i.
    residuals (p,): |K v - λ v| / max(|λ|, rounding level of K); 0 for a pair below the floor.
    lowest: Smallest Ritz value found (an upper bound of the smallest eigenvalue).
    low_vector (n,): Its vector.
    low_residual: |K v - λ v| of that.
    next_value: The Ritz value behind the last one (nan if there is none).
    asymmetry: Largest |v'A_i w - w'A_i v| over the basis, relative to the largest entry of A_i there: rounding, or a
        fault.
    change: What its value is estimated to rise by still, relative.
    """

    values: Vectors
    vectors: Vectors
    forms: tuple[Vectors, ...]
    residuals: Vectors
    lowest: float
    low_vector: Vectors
    low_residual: float
    next_value: float
    asymmetry: float
    combination: Combination
    change: float
    converged: bool


class ReadLog(Protocol):
    """The blocks that an iteration appended to its basis, by number, from 0 or 1 on: what a stopped run has read."""

    def get(self, number: int) -> ReadBlock | None:
        """The block that was read as this one; None if it wasn't."""
        ...

    def put(self, number: int, block: ReadBlock) -> None:
        """Keep a block; those behind it, if any, are of no use any more."""
        ...
