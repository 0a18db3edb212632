"""The only block arithmetic: aligned ranges, and the promise that they cover everything once.

Vertices 0..n-1 are cut into blocks of `size` (the last may be shorter). D is symmetric, so only
the tiles (I, J) with I <= J are kept; every pair of vertices lies in exactly one of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

MOST_RUNS = 32  # enough for a handful of workers to finish together, few enough to add up (n, w) each
RUN_ENTRIES = 1 << 22  # entries of D that are worth a task of their own


@dataclass(frozen=True)
class Blocks:
    """`n` items in aligned blocks of `size`.

    Raises ValueError: If `n` is negative or `size` is below 1.
    """

    n: int
    size: int

    def __post_init__(self) -> None:
        if self.n < 0 or self.size < 1:
            raise ValueError(f"blocks of {self.size} items over {self.n} items: the size must be 1 or more")

    def __len__(self) -> int:
        return -(-self.n // self.size)

    def __getitem__(self, block: int) -> slice:
        if not 0 <= block < len(self):
            raise IndexError(f"block {block} of {len(self)}")
        start = block * self.size
        return slice(start, min(start + self.size, self.n))

    def __iter__(self) -> Iterator[slice]:
        return (self[block] for block in range(len(self)))

    def length(self, block: int) -> int:
        """Items in one block."""
        part = self[block]
        return int(part.stop - part.start)

    def tiles(self) -> list[tuple[int, int]]:
        """Every upper tile (I, J), I <= J, row by row."""
        count = len(self)
        return [(row, column) for row in range(count) for column in range(row, count)]

    @property
    def read_runs(self) -> int:
        """Runs of tiles, a task each, that one read of all tiles is cut into."""
        tiles = len(self) * (len(self) + 1) // 2
        return max(1, min(MOST_RUNS, max(2, self.n**2 // 2 // RUN_ENTRIES), tiles))

    def tile_runs(self, most: int) -> list[list[tuple[int, int]]]:
        """The upper tiles in at most `most` consecutive runs of nearly equal number.

        The runs depend on `n`, `size` and `most` alone, never on workers, so that a sum over runs in
        this order has the same bits wherever it is computed.
        """
        tiles = self.tiles()
        count = max(1, min(most, len(tiles)))
        cuts = [len(tiles) * part // count for part in range(count + 1)]
        return [tiles[a:b] for a, b in pairwise(cuts) if b > a]
