"""Metrics given by a function of two rows: the user's, plain or compiled, and pynndescent's transports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError
from scalemani.search.distance_forms import F64, Form, require_non_negative
from scalemani.search.parallel_numba import enters_parallel_regions, one_numba_thread


class FunctionForm(Form):
    """Distances by calling a function for each pair of rows.

    Parameters
    ----------
    name : str
        For messages.
    function : callable
        ``function(x, y, ...)`` of two float64 rows; a numba dispatcher is called from a compiled loop.
    params : mapping
        Further arguments: by keyword, or by position in this order.
    positional : bool
        Whether ``params`` go by position.
    distributions : bool
        Whether rows must be > 0 in sum and >= 0 (for ``sinkhorn``: > 0) in every entry.

    Notes
    -----
    A function with parallel regions of numba's is called from one thread of the process at a time, and runs on one.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        params: Mapping[str, Any],
        positional: bool = False,
        distributions: bool = False,
    ) -> None:
        super().__init__(name, self._checked if distributions else None)
        self.function = function
        self.params = dict(params)
        self.user_given = not positional
        self.keyword_only = bool(params) and not positional
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
        return out

    def _checked(self, rows: F64) -> F64:
        require_non_negative(self.name, rows)
        if self.name == "sinkhorn" and (rows == 0).any():
            raise ScalemaniError("metric='sinkhorn' needs entries > 0; add a small number to rows with zeros")
        if not rows.any(axis=1).all():
            raise ScalemaniError(f"metric={self.name!r} needs rows with a sum > 0 (rows are distributions)")
        return rows


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
            out[i] = function(a[i], b[i], **params)

    return loop
