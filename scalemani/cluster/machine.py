"""What the machine has: the memory that a process may hold, the room on a store's disk.

Takes what the user said and what the system says, gives bytes; what is needed of them is in
:mod:`scalemani.planning.memory`.
"""

import ctypes
import os
from collections.abc import Iterator
from numbers import Real
from pathlib import Path, PurePosixPath

from scalemani.errors import ScalemaniError

KEPT = 32 << 20  # freed arrays up to this size stay with the C library, and twice that with each thread (glibc)
FIRST_USE = 160 << 20  # an embedded cluster and compiled kernels, compiled here and now: 130 MiB were measured


def parse_memory(limit: int | float | str | None) -> int:
    """Bytes a process may hold: a positive number, text such as "4GB", or None for half of what is free."""
    if limit is None:
        return free_memory() // 2
    if isinstance(limit, str):
        from dask.utils import parse_bytes

        try:
            limit = parse_bytes(limit if limit.strip() else "nothing")
        except (ValueError, OverflowError) as error:
            raise ScalemaniError(f"memory_limit={limit!r}: give bytes, or text such as '4GB'") from error
    if not isinstance(limit, Real) or isinstance(limit, bool) or not 0 < limit < float("inf"):
        raise ScalemaniError(f"memory_limit={limit!r}: give a positive number of bytes, or text such as '4GB'")
    return int(limit)


def free_memory(system: str = "/") -> int:
    """Bytes that can still be used: what is available, caches included, within the control groups' limits.

    Cached files count as free: a run's own tiles are among them. A large number where the system says nothing.
    """
    said = [line.split()[1] for line in _lines(Path(system, "proc/meminfo")) if line.startswith("MemAvailable:")]
    available = int(said[0]) << 10 if said else None
    if available is None:
        try:
            available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            available = 1 << 40
    return min([available, *_group_room(Path(system))])


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


def give_back() -> None:
    """Return freed memory to the system where the C library can (glibc): a thread's arena keeps what it had at most.

    Without it the arrays of one stage stay resident during the next.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return
