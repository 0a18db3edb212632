"""Metrics given by a function of two rows: the user's, plain or compiled, and pynndescent's transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.errors import ScalemaniError
from scalemani.magnitudes import SAME, typical_distance
from scalemani.search.distance_forms import F64, Form
from scalemani.search.metric_functions import function_name
from scalemani.search.parallel_numba import enters_parallel_regions, one_numba_thread

_SAMPLED = 24  # rows between which a function is called both ways: 600 calls
BOTH_WAYS = "a distance is the same both ways: give one that is, such as their mean"


class FunctionForm(Form):
    """Distances by calling a function for each pair of rows.

    name: For messages.
    function: ``function(x, y, ...)`` of two float64 rows; a numba dispatcher is called from a compiled loop.
    params: Further arguments: by keyword, or by position in this order.
    positional: Whether ``params`` go by position.

    A function with parallel regions of numba's is called from one thread of the process at a time, and runs on one.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        params: Mapping[str, Any],
        positional: bool = False,
    ) -> None:
        super().__init__(name)
        self.function = function
        self.params = dict(params)
        self.user_given = not positional
        self.keyword_only = bool(params) and not positional
        self._both_ways = name == "sinkhorn" and positional  # ends before it is symmetric
        self.compiled = hasattr(function, "py_func") and hasattr(function, "overloads")
        self._parallel = enters_parallel_regions(function)
        if self.compiled and (positional or not params):
            self._loop = _compiled_loop(function, tuple(params.values()))
        else:
            self._loop = _plain_loop(function, self.params)

    def pairs(self, a: Any, b: Any) -> F64:
        """Distances of pairs."""
        out = np.empty(len(a))
        with one_numba_thread() if self._parallel else nullcontext():
            self._loop(a, b, out)
            if self._both_ways:
                back = np.empty(len(a))
                self._loop(b, a, back)
                out = (out + back) / 2
        return out


def check_function(function: Callable[..., Any], params: Mapping[str, Any], rows: Any, numbers: Any) -> None:
    """Raise unless a user's function is a distance between some of the distinct rows, which messages call `numbers`.

    That is the same both ways, a number >= 0, and 0 between a row and itself.
    """
    name = getattr(function, "__name__", type(function).__name__)
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(numbers), min(_SAMPLED, len(numbers)), replace=False))
    block = rows[some].toarray() if issparse(rows) else rows[some]
    block = np.ascontiguousarray(block, dtype=np.float64)
    a, b = np.triu_indices(len(some))
    there, back = np.empty(len(a)), np.empty(len(a))
    with one_numba_thread() if enters_parallel_regions(function) else nullcontext():
        loop = _plain_loop(function, params)
        loop(block[a], block[b], there)
        identity = function_name(function)  # now: what it makes once, when it is first called, is no change
        loop(block[b], block[a], back)
    large = np.maximum(there, back)
    own, unequal = a == b, there != back
    slack = SAME * typical_distance(large[~own])
    with np.errstate(invalid="ignore"):  # inf - inf
        gap = np.abs(there - back)
    wrong = {
        "a distance is a number >= 0": ~own & ~((there >= 0) & (back >= 0)),
        "a distance is 0 there": own & ~(np.abs(there) <= slack),
        BOTH_WAYS: ~own & unequal & ~(gap <= np.maximum(SAME * large, slack)),
    }
    for rule, bad in wrong.items():
        if bad.any():
            at = int(np.argmax(bad))
            i, j = numbers[some[a[at]]], numbers[some[b[at]]]
            other = "itself" if i == j else f"row {j} of X, and {float(back[at])!r} the other way round"
            raise ScalemaniError(f"metric={name!r} gives {float(there[at])!r} between row {i} and {other}: {rule}")
    if function_name(function) != identity:
        raise ScalemaniError(
            f"metric={name!r} changes what it uses when it is called (a counter, a cache?), so that it can't be told "
            "from another function: take that out"
        )


def pynndescent_function(name: str) -> Callable[..., Any]:
    """pynndescent's own compiled distance (importing it takes half a minute)."""
    from pynndescent.distances import named_distances  # here only: the import is dear

    function: Callable[..., Any] = named_distances[name]
    return function


def _compiled_loop(function: Any, arguments: tuple[Any, ...]) -> Callable[[F64, F64, F64], None]:
    import numba

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def loop(a, b, out):  # type: ignore[no-untyped-def]
        for i in range(len(out)):
            out[i] = function(a[i], b[i], *arguments)

    compiled: Callable[[F64, F64, F64], None] = loop
    return compiled


def _plain_loop(function: Callable[..., Any], params: Mapping[str, Any]) -> Callable[[F64, F64, F64], None]:
    def loop(a: F64, b: F64, out: F64) -> None:
        for i in range(len(out)):
            found = function(a[i], b[i], **params)
            try:
                out[i] = float(found)
            except (TypeError, ValueError):
                raise ScalemaniError(f"the metric function gives {found!r:.60}; a number is needed") from None

    return loop
