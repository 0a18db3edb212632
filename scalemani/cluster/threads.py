"""What holds for a whole process while anyone needs it, such as the limit on BLAS threads."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

import threadpoolctl

_libraries: tuple[int, Any] = (-1, None)  # modules when they were looked for, and their controller
Block = Callable[[], AbstractContextManager[None]]


def while_anyone(hold: Block) -> Block:
    """A block that holds for the whole process: the first thread to come enters it, the last one to go leaves it.

    If each saved and restored what was there, two that overlap could restore each other's for good.
    """
    lock, inside = threading.Lock(), list[AbstractContextManager[None]]()  # the same one for each

    @contextmanager
    @wraps(hold)
    def block() -> Iterator[None]:
        with lock:
            held = inside[0] if inside else hold()
            if not inside:
                held.__enter__()
            inside.append(held)
        try:
            yield
        finally:
            with lock:
                inside.pop()
                if not inside:
                    held.__exit__(None, None, None)

    return block


@while_anyone
@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold BLAS at one thread for as long as anyone is inside. Results never depend on it."""
    limiter = _controller().limit(limits=1, user_api="blas")
    _let_any_thread_lift_it()
    yield
    limiter.restore_original_limits()
    _let_any_thread_lift_it()


def _controller() -> Any:
    """The BLAS libraries of this process, looked for (4 ms, much for a task) where modules have come."""
    global _libraries
    if _libraries[0] != len(sys.modules):
        _libraries = (len(sys.modules), threadpoolctl.ThreadpoolController())
    return _libraries[1]


def _let_any_thread_lift_it() -> None:
    """threadpoolctl 3.8 ignores, in silence, every thread but the one that set OpenBLAS's limit last."""
    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear()
