"""Forked children: threads of the parent are not in them, and what these did or held is refused there in one line."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from scalemani.errors import ScalemaniError

FIT, BUCKETS = "had a fit or a transform at work", "had used object storage"
CLIENT, REGIONS = "had made the Dask client that is to be used", "had run numba's parallel code by OpenMP"

_now: Counter[str] = Counter()  # what this process does now, by those words
_before: set[str] = set()  # what its parents did when it was forked


def _in_child() -> None:
    _before.update(what for what, count in _now.items() if count > 0)
    _now.clear()
    try:
        if "numba" in sys.modules and sys.modules["numba"].threading_layer() == "omp":
            _before.add(REGIONS)  # numba would end the child
    except (ValueError, AttributeError):
        pass  # none ran, or numba is being imported


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


def begin(what: str) -> None:
    """Do from now on what a forked child can't go on with, unless this is one: as :func:`check`."""
    check(what)
    _now[what] += 1


@contextmanager
def doing(what: str) -> Iterator[None]:
    """As :func:`begin`, for the length of a ``with`` block."""
    begin(what)
    try:
        yield
    finally:
        _now[what] -= 1
