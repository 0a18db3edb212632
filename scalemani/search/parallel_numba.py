"""Compiled code with parallel regions: one thread of this process in it at a time, which uses one thread.

numba's workqueue layer aborts the process when two threads are in parallel regions at once, and a reduction's last
bits follow from the number of threads. pynndescent has such regions, its optimal transport by Sinkhorn too, and a
user's metric may have them. Regions that other libraries enter meanwhile are beyond this package.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from scalemani.engine.forks import REGIONS, check

_region = threading.RLock()


@contextmanager
def one_numba_thread() -> Iterator[None]:
    """Wait for the other threads of this process to leave their parallel regions, and run this one's on one thread."""
    import numba  # here only: most searches need none of it

    check(REGIONS)
    with _region:
        threads = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            yield
        finally:
            numba.set_num_threads(threads)


def enters_parallel_regions(function: Any) -> bool:
    """Whether a function, or a compiled one that it calls by a name of its module or closure, has parallel regions.

    function: A numba dispatcher or a plain function; other callables are not looked into.

    >>> import numba
    >>> @numba.njit
    ... def plain(x, y): return abs(x - y).sum()
    >>> @numba.njit(parallel=True)
    ... def spread(x, y): return abs(x - y).sum()
    >>> @numba.njit
    ... def calls(x, y): return 2 * spread(x, y)
    >>> [enters_parallel_regions(function) for function in (plain, spread, calls)]
    [False, True, True]
    """
    seen: list[Any] = []
    waiting = [function]
    while waiting:
        here = waiting.pop()
        if any(here is other for other in seen):
            continue
        seen.append(here)
        if getattr(here, "targetoptions", {}).get("parallel"):
            return True
        python = getattr(here, "py_func", here)
        if hasattr(python, "__code__"):
            waiting += [called for called in _named(python) if _is_dispatcher(called)]
    return False


def _is_dispatcher(value: Any) -> bool:
    """A function that numba compiled, or will."""
    return hasattr(value, "py_func") and hasattr(value, "targetoptions")


def _named(python: Any) -> Iterator[Any]:
    """What a Python function's code names: globals, attributes of modules among them, and what it closes over."""
    names = python.__code__.co_names
    known = [python.__globals__[name] for name in names if name in python.__globals__]
    yield from known
    for module in known:
        if isinstance(module, ModuleType):
            yield from (getattr(module, name) for name in names if hasattr(module, name))
    for cell in python.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents
