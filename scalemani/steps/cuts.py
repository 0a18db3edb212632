"""How D may be cut, best first, and the bytes of a task on a piece of it.

A fit on all points cuts D into square tiles, and its solver restarts at a number of columns. A fit by landmarks cuts
its (n, m) distances into blocks of landmarks and chunks of points. The first cut whose memory is allowed is taken.
"""

from collections.abc import Iterator
from typing import NamedTuple

from scalemani.geodesics.batches import workspace_bytes
from scalemani.geodesics.rows import check_bytes
from scalemani.kernel.eigensolver import basis_limits, first_block
from scalemani.kernel.operators import panel_bytes, share_bytes
from scalemani.neighbors.prepared import BLOCK_BYTES
from scalemani.steps.base import FitSize
from scalemani.steps.sources import Layout
from scalemani.storage.tiles import tile_bytes

LARGEST_TILE = 2048  # 16 MiB of float32: long enough for BLAS, short enough for a task of seconds
SMALL_TILE = 256  # a smaller basis is better than tiles below this
SMALLEST_TILE = 16  # below this a tile is mostly overhead


class TileCut(NamedTuple):
    """Side of a tile, and the columns at which the solver's basis restarts."""

    tile: int
    most_columns: int


def tile_cuts(size: FitSize) -> Iterator[TileCut]:
    """The largest basis first, which saves reads of D; and with each the tiles from the largest down."""
    n, tile = size.n, size.begun or size.parameters.tile_size
    sizes, bases = list(tile_sizes(n)) if tile is None else [int(tile)], basis_sizes(n, size.parameters.n_components)
    for columns in bases:
        for side in sizes:
            if side >= min(sizes[0], SMALL_TILE) or columns == bases[-1]:
                yield TileCut(side, columns)


def tile_sizes(n: int) -> Iterator[int]:
    """Tile sizes from the largest worth having for n vertices down, each about three quarters of the last."""
    size = max(SMALLEST_TILE, min(LARGEST_TILE, -(-n // (8 * 16)) * 16))
    while size > SMALLEST_TILE:
        yield size
        size = max(SMALLEST_TILE, 3 * size // 4 // 16 * 16)
    yield size


def basis_sizes(n: int, n_components: int) -> list[int]:
    """Columns of the solver's basis: the usual ones, two numbers between, the least, with nearly twice the reads."""
    columns = first_block(n, n_components)
    least, usual = (min(n - 1, limit) for limit in basis_limits(columns, n_components))
    return sorted({usual - (usual - least) * part // 3 for part in range(4)}, reverse=True)


def block_columns(size: FitSize) -> int:
    """Columns of the solver's first block, and of every read of D at the most."""
    return first_block(size.n, size.parameters.n_components)


def fewer_components(size: FitSize) -> list[str]:
    """The remedy where many axes are what takes the memory."""
    asked = size.parameters.n_components
    return [f"ask for fewer components than {asked}"] if block_columns(size) > 16 and asked > 8 else []


MOST_A_TASK = 64  # landmarks: two batches of the search, whose rows lie near each other
A_BATCH = 32  # lanes
LEAST_A_TASK = 4
CHUNK_BYTES = 16 << 20  # of points' distances: a read of some milliseconds
MOST_POINTS, LEAST_POINTS = 8192, 64  # of a chunk
SAMPLE_ENTRIES = 4 << 20  # of a chunk that is timed


def layouts(n: int, m: int, slots: int = 1) -> Iterator[Layout]:
    """Layouts from the fastest to the smallest, for so many tasks at once: each should have two, of a batch or more."""
    points = max(LEAST_POINTS, min(MOST_POINTS, CHUNK_BYTES // (4 * m) // 16 * 16, -(-n // 16) * 16))
    here = min(MOST_A_TASK, max(min(-(-m // 8), A_BATCH), m // (2 * slots) // A_BATCH * A_BATCH))
    while here > LEAST_A_TASK:
        yield Layout(n, m, here, points)
        here = max(LEAST_A_TASK, here // 2)
    while points > LEAST_POINTS:
        yield Layout(n, m, min(here, m), points)
        points = max(LEAST_POINTS, points // 2)
    yield Layout(n, m, min(here, m), points)


def sample_points(layout: Layout) -> int:
    """Points of a chunk that is timed."""
    return max(1, min(layout.n, layout.points_a_chunk, SAMPLE_ENTRIES // layout.m))


# ---- bytes of a task: n vertices, tiles of b, blocks of m columns ------------------------------------


def geodesic_task_bytes(n: int, edges: int, tile: int, columns: int, size: int, compressed: bool = False) -> int:
    """One task: its rows, the search's workspace, which its thread keeps, and the check, or a tile and the share."""
    a_tile = max(tile_bytes(tile, compressed), 4 * tile * tile + panel_bytes(tile, columns, size))
    after = max(check_bytes(n, edges, tile), share_bytes(n, columns) + a_tile)
    return 4 * tile * n + workspace_bytes(n, edges) + after


def scattered_task_bytes(n: int, edges: int, sources: int) -> int:
    """One task of scattered rows: these, and the search's workspace."""
    return 4 * sources * n + workspace_bytes(n, edges)


def sweep_task_bytes(n: int, tile: int, columns: int, size: int, compressed: bool = False) -> int:
    """One task of a read of D: a tile on its way, a panel at work, and the sums of the first read."""
    return tile_bytes(tile, compressed) + panel_bytes(tile, columns, size) + share_bytes(n, columns)


def given_task_bytes(n: int, tile: int) -> int:
    """A block of a given D on its way into tiles: twice in float64, once in float32; and what is read at once."""
    return 20 * tile * n + tile_bytes(tile) + min(8 * n * n, BLOCK_BYTES)


def given_row_bytes(n: int) -> int:
    """A row of a given D for one of some vertices: three times in float64, and what is read at once."""
    return 3 * 8 * n + min(8 * n * n, BLOCK_BYTES)
