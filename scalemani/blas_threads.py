"""A limit of one BLAS thread that may be asked for from several threads at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_held = threading.Lock()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Run with one BLAS thread.

    The limit is process-wide. If every caller saved and restored it, two that overlap could restore each
    other's for good (and threadpoolctl 3.8 lets only the thread that set a limit lift it): so whoever comes first
    sets and restores it, and those who come while it is held leave it alone. Results never depend on it.
    """
    if not _held.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        _held.release()
