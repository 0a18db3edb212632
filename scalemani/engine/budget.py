"""Memory and disk as arithmetic: the tile size that fits, or a refusal before any work.

What a worker thread holds at once, in bytes, for n vertices, tiles of b and sweeps of m columns:
 - a geodesic task: one block of rows, 4 b n, the search's own 16 n (distances in
   float64, the heap and each vertex's place in it in int32), and the check of the rows:
   flags, b n, then four copies of the diagonal tile, 16 b², and Zarr's own of a tile, 4 b²;
 - a sweep task: a tile, Zarr's copy of it, and it and its square in the product's precision,
   8 b² + 16 b², its shares of the two products while they are put together, 64 m b, the operand
   and the sums, 24 m n.
The larger of the two, times the threads of the worker, plus the graph, must stay below
`memory_limit`.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scalemani.errors import ScalemaniError

LARGEST_TILE = 2048  # 16 MiB of float32: long enough for BLAS, short enough for a task of seconds
SMALLEST_TILE = 16  # below this a tile is mostly overhead
SWEEP_COLUMNS = 32  # columns that a read of D is planned for, unless more are named


def parse_memory(limit: int | float | str | None) -> int:
    """Bytes a worker may hold: a number, text such as "4GB", or None for half of what is free.

    Raises
    ------
    ScalemaniError
        If it is neither, or not positive.
    """
    if limit is None:
        return _free_memory() // 2
    if isinstance(limit, str):
        from dask.utils import parse_bytes

        try:
            limit = parse_bytes(limit)
        except ValueError as error:
            raise ScalemaniError(f"memory_limit={limit!r}: give bytes, or text such as '4GB'") from error
    if not isinstance(limit, (int, float)) or isinstance(limit, bool) or not 0 < limit < float("inf"):
        raise ScalemaniError(f"memory_limit={limit!r}: give a positive number of bytes, or text such as '4GB'")
    return int(limit)


def _free_memory(system: str = "/") -> int:
    """Bytes that can still be used: what is available, caches included, within the control groups' limits.

    Pages of cached files are given up when memory is asked for, and a run's own tiles fill the cache:
    they count as free. A large number where the system says nothing.
    """
    available = _available(Path(system, "proc/meminfo"))
    if available is None:
        try:
            available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            available = 1 << 40
    return min([available, *_group_room(Path(system))])


def _available(meminfo: Path) -> int | None:
    """MemAvailable in bytes."""
    for line in _lines(meminfo):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return None


def _group_room(system: Path) -> Iterator[int]:
    """Bytes left in each control group that this process is in and that has a limit, versions 1 and 2."""
    for line in _lines(system / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names, prefix = system / "sys/fs/cgroup", ("memory.max", "memory.current"), ""
        elif "memory" in controllers.split(","):
            root = system / "sys/fs/cgroup/memory"
            names, prefix = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"
        else:
            continue
        here = PurePosixPath(path.strip().lstrip("/"))
        for group in {root / part for part in (here, *here.parents)}:  # a limit holds for all groups below
            limit, used = (next(iter(_lines(group / name)), "").strip() for name in names)
            if limit.isdecimal() and int(limit) < 1 << 60:  # version 1 says 2^63, rounded, for none
                counts = dict(entry.split()[:2] for entry in _lines(group / "memory.stat"))
                files = sum(int(counts.get(f"{prefix}{kind}", 0)) for kind in ("inactive_file", "active_file"))
                yield max(0, int(limit) - max(0, int(used or 0) - files))


def _lines(path: Path) -> list[str]:
    """Lines of a file of the system's; none where it is not there or can't be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def task_bytes(n: int, tile: int, columns: int = SWEEP_COLUMNS) -> int:
    """The most that one task holds at once (module docstring), sweeps having `columns`."""
    geodesics = 4 * tile * n + 16 * n + max(tile * n, 20 * tile * tile)
    sweep = 24 * tile * tile + columns * (24 * n + 64 * tile)
    return max(geodesics, sweep)


def choose_tile(n: int, limit: int, threads: int, edges: int = 0, columns: int = SWEEP_COLUMNS) -> int:
    """The tile size for n vertices: large, but eight blocks or more where n allows, within `limit`.

    Parameters
    ----------
    n : int
        Vertices.
    limit : int
        Bytes a worker may hold.
    threads : int
        Tasks a worker runs at once.
    edges : int
        Stored entries of the graph, which every worker caches once (12 bytes each).
    columns : int
        The most that a read of D multiplies by: those of many components need memory, too.

    Raises
    ------
    ScalemaniError
        If not even the smallest tile fits; both numbers and the remedy are named.
    """
    eighth = -(-n // (8 * 16)) * 16
    tile = max(SMALLEST_TILE, min(LARGEST_TILE, eighth))
    graph = 12 * edges
    while tile > SMALLEST_TILE and graph + threads * task_bytes(n, tile, columns) > limit:
        tile = max(SMALLEST_TILE, tile // 2 // 16 * 16)
    needed = graph + threads * task_bytes(n, tile, columns)
    if needed > limit:
        raise ScalemaniError(
            f"{n} vertices need {needed:,} bytes a worker ({threads} threads) and memory_limit allows {limit:,}: "
            "raise memory_limit, or give a Dask scheduler whose workers have fewer threads"
        )
    return tile


def disk_bytes(n: int, tile: int) -> int:
    """Bytes of the distance tiles: upper tiles only, the last of a row padded to full size."""
    blocks = -(-n // tile)
    return blocks * (blocks + 1) // 2 * tile * tile * 4


def check_disk(path: str | os.PathLike[str], n: int, tile: int) -> None:
    """Refuse a store whose tiles don't fit on its disk.

    Parameters
    ----------
    path : path-like
        The store, which need not be there yet.

    Raises
    ------
    ScalemaniError
        Naming what is needed and what is free.
    """
    place = Path(path).absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    needed, free = disk_bytes(n, tile), shutil.disk_usage(place).free
    if needed > free:
        raise ScalemaniError(
            f"the distances of {n} vertices need {needed:,} bytes and {free:,} are free at {str(place)!r}: "
            "give a store on a larger disk, or free some space"
        )
