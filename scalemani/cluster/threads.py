"""One limit on BLAS threads, shared by everything that runs at the same time in this process."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

_lock = threading.Lock()
_users = 0  # inside of the one below, in all threads
_limiter: Any = None
_libraries: tuple[int, Any] = (-1, None)  # modules when they were looked for, and their controller


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread for as long as anyone is inside. Results never depend on it.

    A limit is process-wide. If each caller saved and restored it, two that overlap could restore each
    other's for good: so the first one sets it, and the last one, in whichever thread, restores what
    was there before.
    """
    global _users, _limiter
    with _lock:
        if _users == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
            _let_any_thread_lift_it()
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limiter.restore_original_limits()
                _let_any_thread_lift_it()


def _controller() -> Any:
    """The BLAS libraries of this process; to look for them takes 4 ms, which is much for a task.

    They come with modules: they are looked for again where there are others than before.
    """
    global _libraries
    if _libraries[0] != len(sys.modules):
        _libraries = (len(sys.modules), threadpoolctl.ThreadpoolController())
    return _libraries[1]


def _let_any_thread_lift_it() -> None:
    """threadpoolctl 3.8 ignores, in silence, every thread but the one that set OpenBLAS's limit last.

    The count above is what keeps two threads from fighting over it.
    """
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    clear = getattr(controller, "clear_controlling_thread", None)
    if clear is not None:
        clear()
