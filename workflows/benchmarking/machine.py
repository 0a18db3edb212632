"""What the figures depend on besides the code: processor, cores, memory, versions; and tables of figures."""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

PACKAGES = ("scalemani", "numpy", "scipy", "numba", "scikit-learn", "zarr", "dask", "pynndescent")


def facts() -> dict[str, Any]:
    """Processor, cores that this process may use, memory in bytes, what else runs, system, versions of packages."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def say(*words: object) -> None:
    """What is being measured, to whoever waits."""
    print(*words, file=sys.stderr, flush=True)


def processor() -> str:
    """Its name where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # run from a folder of sources
        return str(getattr(sys.modules.get(name), "__version__", "not installed"))


def table(title: str, headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table with its title above it; numbers to the right, what comes first to the left."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "\n".join([f"### {title}", "", *("| " + " | ".join(line) + " |" for line in lines), ""])


def amount(number: float, digits: int = 3) -> str:
    """A number for people: three digits that count.

    >>> amount(1234.5), amount(12.345), amount(0.012345)
    ('1,234', '12.3', '0.0123')
    """
    if number == 0 or number != number or abs(number) == float("inf"):
        return f"{number:g}"
    before = len(str(int(abs(number))))
    return f"{number:,.0f}" if before >= digits else f"{number:.{digits}g}"
