"""Leaf: metrics that are functions of two rows, named so that a store can say which one it was made with.

A store holds no code. It holds the function's module and qualified name, and a digest of its byte
code, so that another function of the same name is another metric. The process that fitted knows the
function; others find it by its name where its module is imported already: a stranger's store must not
choose what is imported and run.
"""

import contextlib
import functools
import hashlib
import importlib
import inspect
import sys
import types
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError

_known: dict[str, Any] = {}


def function_name(function: Any) -> str:
    """A name under which :func:`function_of` finds the function again, here or where it can be imported.

    Raises
    ------
    ScalemaniError
        If it has no name of its own (a callable object).

    >>> def city_block(x, y): return abs(x - y).sum()
    >>> function_name(city_block).split("#")[0].split(":")[1]
    'city_block'
    """
    python, bound = function, b""
    if isinstance(function, functools.partial):
        python, bound = function.func, _content((function.args, function.keywords))
    python = getattr(python, "py_func", python)  # what numba compiled
    code = getattr(python, "__code__", None)
    module, qualified = getattr(python, "__module__", None), getattr(python, "__qualname__", None)
    if module is None or qualified is None:
        raise ScalemaniError(
            f"metric={type(function).__name__} object has no name that a store can record: define the metric with def"
        )
    text = bound if code is None else _function_content(python) + bound
    name = f"{module}:{qualified}#{hashlib.blake2b(text, digest_size=4).hexdigest()}"
    _known[name] = function
    return name


def _function_content(function: Any) -> bytes:
    """What a function does: its code, its defaults, and the values it closes over."""
    closed = [cell.cell_contents for cell in function.__closure__ or ()]
    return _content((function.__code__, function.__defaults__, function.__kwdefaults__, closed))


def _content(value: Any) -> bytes:
    """A value in bytes that are the same in every process.

    Raises
    ------
    ScalemaniError
        If it is of a kind that has none.
    """
    if isinstance(value, types.CodeType):
        return bytes(value.co_code) + _content((value.co_names, value.co_consts))
    if isinstance(value, types.FunctionType):
        return value.__qualname__.encode() + _function_content(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, dict):
        return _content(sorted(value.items()))
    if isinstance(value, tuple | list):
        return b"(" + b",".join(_content(item) for item in value) + b")"
    if isinstance(value, frozenset):
        return _content(sorted(map(repr, value)))
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic | type(...)):
        return f"{type(value).__name__}:{value!r}".encode()
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if name is None:
        raise ScalemaniError(
            f"the metric function uses a {type(value).__name__} that a store can't tell from another: "
            "pass plain numbers or arrays"
        )
    return f"{getattr(value, '__module__', '')}:{name}".encode()


def is_function_name(metric: Any) -> bool:
    """Whether a recorded metric is the name of a function."""
    return isinstance(metric, str) and ":" in metric and "#" in metric


def function_of(name: str) -> Any:
    """The function of that name, which a store may have said: nothing is imported or run to find it.

    Raises
    ------
    ScalemaniError
        If it is not known here: its module is not imported yet, or has no Python function of that name and code.
    """
    if name in _known:
        return _known[name]
    module, qualified = _parts(name)
    if module not in sys.modules:
        raise ScalemaniError(
            f"the metric of this run is the function {qualified!r} of the module {module!r}, and a store does not say "
            f"what is imported: if you trust it, import {module!r} first, in Python, and load the run then"
        )
    found: Any = sys.modules[module]
    try:
        for part in qualified.split("."):
            found = inspect.getattr_static(found, part)
            found = found.__func__ if isinstance(found, staticmethod) else found
        plain = isinstance(inspect.getattr_static(found, "py_func", found), types.FunctionType)
        if plain and function_name(found) == name:
            return found
    except (AttributeError, RecursionError, ScalemaniError, TypeError, ValueError):
        pass  # ScalemaniError: it uses what has no name; the others: it isn't there, or is another
    raise ScalemaniError(
        f"the metric of this run is the function {qualified!r} of {module!r}, which is not there with the same code: "
        "define it in a module that can be imported, or fit again"
    )


def module_of(name: str) -> str:
    """The module of a function that is known here, for another process of the same user to import.

    Raises
    ------
    ScalemaniError
        As :func:`function_of`.
    """
    function_of(name)
    return _parts(name)[0]


def import_for(name: str) -> None:
    """Import a module that :func:`module_of` named in the user's process, as unpickling a function does."""
    with contextlib.suppress(ImportError):  # then the function is missed, in words
        importlib.import_module(name)


def _parts(name: str) -> tuple[str, str]:
    module, _, rest = name.partition(":")
    return module, rest.partition("#")[0]
