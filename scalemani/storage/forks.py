"""Forked children: threads of the parent are not in them, and what these did or held is refused there in one line."""

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NoReturn

from scalemani.errors import ScalemaniError

FIT, BUCKETS = "had a fit or a transform at work", "had used object storage"
CLIENT, REGIONS = "had made the Dask client that is to be used", "had run numba's parallel code by OpenMP"

_now: dict[object, str] = {}  # what this process does now, in those words; threads add and take away at once
_before: set[str] = set()  # what its parents did when it was forked
_clients: "weakref.WeakSet[Any]" = weakref.WeakSet()  # Dask's, of its parents


def _in_child() -> None:
    _leave_dask()
    _before.update(_now.values())
    _now.clear()
    try:
        if "numba" in sys.modules and sys.modules["numba"].threading_layer() == "omp":
            _before.add(REGIONS)  # numba would end the child
    except (ValueError, AttributeError):
        pass  # none ran, or numba is being imported


def _leave_dask() -> None:
    """Take from Dask what a fork has left without its threads, on which it would wait for ever."""
    threaded: Any = sys.modules.get("dask.threaded")
    distributed: Any = sys.modules.get("distributed")
    if threaded is not None:
        threaded.default_pool, threaded.pools_lock = None, threading.Lock()
        threaded.pools.clear()
    if distributed is not None and hasattr(distributed, "Client"):  # else it is being imported
        distributed.utils._offload_executor = ThreadPoolExecutor(1, thread_name_prefix="Dask-Offload")
        _clients.update(distributed.Client._instances)
        for client in _clients:
            client.get = _refuse  # what compute() calls


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise forked(CLIENT)


def is_of_parent(client: Any) -> bool:
    """Whether a Dask client was made before this process was forked."""
    return client in _clients


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def forked(what: str) -> ScalemaniError:
    """The error of a child that can't go on."""
    return ScalemaniError(
        f"this process was forked from one that {what}, and lacks the threads of that: start it by multiprocessing's "
        "'spawn' or 'forkserver' method"
    )


def check(what: str) -> None:
    """Refuse what this process can't do where it is such a child."""
    if what in _before:
        raise forked(what)


def begin(what: str, key: object = None) -> None:
    """Do from now on what a forked child can't go on with, unless this is one: as :func:`check`."""
    check(what)
    _now[what if key is None else key] = what


@contextmanager
def doing(what: str) -> Iterator[None]:
    """As :func:`begin`, for the length of a ``with`` block."""
    key = object()
    begin(what, key)
    try:
        yield
    finally:
        _now.pop(key, None)  # a child that was forked inside has none
