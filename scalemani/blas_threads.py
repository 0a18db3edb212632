"""One limit on BLAS threads, shared by everything that runs at the same time in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_limiter: Any = None


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread for as long as anyone is inside.

    A limit is process-wide: if each caller saved and restored it, two that overlap could restore each
    other's. So the first one in sets it, and the last one out restores what was there before.
    """
    global _users, _limiter
    with _lock:
        if _users == 0:
            _limiter = ThreadpoolController().limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limiter.restore_original_limits()
                _limiter = None
