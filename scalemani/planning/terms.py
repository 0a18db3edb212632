"""What each thing takes, in bytes: one function a term, n vertices, tiles of b, m columns;
:mod:`scalemani.planning.memory` adds them up.

Terms are what is held at once where it is most, so that a sum of terms is a bound. Small objects
(Python's, Zarr's, Dask's) are in `FIRST_USE`.
"""

from scalemani.geodesics.batches import workspace_bytes
from scalemani.neighbors.choice import GATHERED, lists_bytes
from scalemani.steps.rows import SOURCES_A_TASK

SAMPLED_ROWS = 64  # rows of D that give the median distance
KEPT = 32 << 20  # freed arrays up to this size stay with the C library, and twice that with each thread (glibc)
PANEL = 128  # rows of a tile that are multiplied at once
SUMS = 5  # columns of the first read behind the products
START_PANEL = 1024  # points that the solver's first block is carried to at once
CHECKED = 32  # rows of D that are found again for the self-check


# ---- before D: one process, the client's -------------------------------------------------------------


def symmetric_bytes(n: int, edges: int) -> int:
    """The making of the symmetric graph of `edges` stored entries and of its vertex order: 88 an entry, 80 a vertex."""
    return 88 * edges + 80 * n


# ---- the solver's start ------------------------------------------------------------------------------


def start_task_bytes(n: int, edges: int) -> int:
    """One task: its rows, and the search's workspace."""
    return start_rows_bytes(n, SOURCES_A_TASK) + workspace_bytes(n, edges)


def start_rows_bytes(n: int, vertices: int) -> int:
    """Rows of D of the vertices that the solver starts from, float32."""
    return 4 * vertices * n


def start_block_bytes(n: int, vertices: int, columns: int) -> int:
    """The first block from those rows: eight small matrices, two panels of rows in float64, the block and noise."""
    carrying = 2 * 8 * vertices * min(n, START_PANEL) + 8 * n * columns
    return 8 * 8 * vertices**2 + max(carrying, 7 * 8 * n * columns)


# ---- geodesics ---------------------------------------------------------------------------------------


def graph_bytes(n: int, edges: int) -> int:
    """The graph that a process keeps: float32 weights, indices and pointers as int64."""
    return 12 * edges + 8 * (n + 1)


def paths_bytes(n: int, edges: int) -> int:
    """The graph once more, as the kernels take it: float32 weights, int32 indices, int64 pointers; 4 an entry spare."""
    return 12 * edges + 8 * (n + 1)


def rows_bytes(n: int, tile: int) -> int:
    """A block of geodesic rows from its first vertex on, float32."""
    return 4 * tile * n


def tile_bytes(tile: int, compressed: bool = False) -> int:
    """A tile on its way to or from the disk: its file and, of one at the end, the part that is it; compressed bytes."""
    return (12 if compressed else 8) * tile * tile


def panel_bytes(tile: int, columns: int, size: int) -> int:
    """Products of one tile: 128 of its rows and their squares, the rows in float64 for the sums, and both results.

    The results are float64, with a block's product in the products' precision and what says where they are NaN.

    size: Bytes of a number in the products.
    """
    return min(tile, PANEL) * tile * (2 * size + 8) + (2 * 8 + size + 1) * tile * (2 * columns + SUMS)


def share_bytes(n: int, columns: int) -> int:
    """A tile row's share of the first read: D Ω, (D∘D) Ω, sums and maxima for n rows."""
    return 8 * (2 * columns + SUMS) * n


def check_bytes(n: int, edges: int, tile: int) -> int:
    """The check of a block of rows: six copies of a panel of the diagonal tile, or two rows searched again in float64.

    That search is on a graph and a workspace of its own.
    """
    again = paths_bytes(n, edges) + workspace_bytes(n, edges) + 2 * 4 * n
    return max(6 * 4 * min(tile, PANEL) * tile, again)


def geodesic_task_bytes(n: int, edges: int, tile: int, columns: int, size: int, compressed: bool = False) -> int:
    """One task: its rows, the search's workspace, which its thread keeps, and the check, or a tile and the share."""
    a_tile = max(tile_bytes(tile, compressed), 4 * tile * tile + panel_bytes(tile, columns, size))
    after = max(check_bytes(n, edges, tile), share_bytes(n, columns) + a_tile)
    return rows_bytes(n, tile) + workspace_bytes(n, edges) + after


def left_bytes(task: int) -> int:
    """What a thread's arena still holds of a task that is over; the next one on that thread uses it."""
    return min(task, 2 * KEPT)


def waiting_bytes(n: int, step: int, width: int, window: int) -> int:
    """Results (n - start, width) in float64 of `window` tasks that start `step` vertices apart, not yet added up."""
    count = min(window, -(-n // step)) if step else window
    return 8 * width * (count * n - step * count * (count - 1) // 2)


def median_bytes(n: int, edges: int) -> int:
    """The sampled rows that give the median distance: found, picked, and copied to be partitioned."""
    return paths_bytes(n, edges) + workspace_bytes(n, edges) + 13 * min(n, SAMPLED_ROWS) * n


def given_task_bytes(n: int, tile: int) -> int:
    """A block of a given D on its way into tiles: twice in float64, once in float32; and what is read at once."""
    return 20 * tile * n + tile_bytes(tile) + min(8 * n * n, GATHERED)


def given_row_bytes(n: int) -> int:
    """A row of a given D for one of some vertices: three times in float64, and what is read at once."""
    return 3 * 8 * n + min(8 * n * n, GATHERED)


# ---- solving -----------------------------------------------------------------------------------------


def operand_bytes(n: int, columns: int, size: int) -> int:
    """The block of vectors that a read of D multiplies by, once a process."""
    return size * columns * n


def sweep_task_bytes(n: int, tile: int, columns: int, size: int, compressed: bool = False) -> int:
    """One task of a read of D: a tile on its way, a panel at work, and the sums of the first read."""
    return tile_bytes(tile, compressed) + panel_bytes(tile, columns, size) + share_bytes(n, columns)


def products_bytes(n: int, columns: int) -> int:
    """The client's part in a read of D: the vectors centred, the sums of both products, and the two centred images."""
    return 8 * columns * n + 16 * columns * n + 24 * columns * n


def start_bytes(n: int, columns: int, size: int) -> int:
    """What the client holds while D is made: Ω, its centred copies, and the sums of the shares."""
    return (16 + size) * columns * n + share_bytes(n, columns)


def basis_bytes(n: int, most_columns: int) -> int:
    """The solver's orthonormal basis and its two images."""
    return 3 * 8 * n * most_columns


def again_bytes(n: int, edges: int) -> int:
    """The self-check, when the basis is gone: some rows of D found again, in one thread, and copies of them."""
    return paths_bytes(n, edges) + workspace_bytes(n, edges) + 2 * 4 * CHECKED * n


def growth_bytes(n: int, columns: int) -> int:
    """Eight blocks: residuals, those that are appended, and their copies on the way to orthonormal directions."""
    return 8 * 8 * n * columns


def outputs_bytes(n: int, components: int) -> int:
    """Vectors, coordinates and their copies in the user's order, and the training means."""
    return 6 * 8 * n * components + 4 * 8 * n


def model_bytes(n: int, edges: int, listed: int, columns: int, components: int, points: int) -> int:
    """What a store holds besides D: lists, graph, points, first read, vectors and maps."""
    first = 8 * n * (3 * columns + SUMS)
    return lists_bytes(n, listed) + graph_bytes(n, edges) + points + first + 8 * n * (components + 4)


def kept_reads_bytes(n: int, reads: int, columns: int) -> int:
    """What a store holds of the reads of an unfinished solve: blocks of vectors with both images."""
    return 3 * 8 * n * columns * reads
