"""Where test points touch the training points."""

from dataclasses import dataclass

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.geodesics.batches import first_seeds


@dataclass(frozen=True)
class Attachments:
    """Where test points touch the training points: CSR-like seeds in vertex numbers.

    indptr, vertices, lengths: Row s touches ``vertices[indptr[s]:indptr[s + 1]]`` at those lengths (user's unit).
    own (l,): The vertex that a row equals, or -1.
    """

    indptr: I64
    vertices: I64
    lengths: F64
    own: I64

    @classmethod
    def joined(cls, parts: "list[Attachments]") -> "Attachments":
        """Those of all the rows of `parts`, in their order."""
        counts = np.concatenate([np.diff(part.indptr) for part in parts])
        return cls(
            indptr=np.concatenate([[0], np.cumsum(counts)]),
            vertices=np.concatenate([part.vertices for part in parts]),
            lengths=np.concatenate([part.lengths for part in parts]),
            own=np.concatenate([part.own for part in parts]),
        )

    def take(self, rows: I64) -> "Attachments":
        """Those of some rows."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.arange(indptr[-1]) + np.repeat(self.indptr[rows] - indptr[:-1], counts)
        return Attachments(indptr, self.vertices[chosen], self.lengths[chosen], self.own[rows])

    def nearest(self) -> F64:
        """How far each row is from what it touches first; 0 where it touches nothing."""
        out, touched = np.zeros(len(self.own)), np.flatnonzero(np.diff(self.indptr))
        if len(touched):
            out[touched] = np.minimum.reduceat(self.lengths, self.indptr[touched])
        return out

    def by_place(self) -> I64:
        """The rows by the first vertex that each touches: near in number is near in space."""
        return np.argsort(first_seeds(self.indptr, self.vertices), kind="stable")

    def by_chunk(self, rows: int) -> I64:
        """The rows by the chunks of so many vertices that they touch, the first, then the last: few are read again."""
        touched = np.flatnonzero(np.diff(self.indptr))
        first, last = (np.zeros(len(self.own), np.int64) for _ in range(2))
        if len(touched):
            chunks, starts = self.vertices // rows, self.indptr[touched]
            first[touched] = np.minimum.reduceat(chunks, starts)
            last[touched] = np.maximum.reduceat(chunks, starts)
        return np.lexsort((last, first))
