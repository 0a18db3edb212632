"""Leaf: metrics that are functions of two rows, named so that a store can say which one it was made with.

A store holds no code. It holds the function's module and qualified name, and a digest of its byte
code, so that another function of the same name is another metric. The process that fitted knows the
function; others import it by its name.
"""

import functools
import hashlib
import importlib
from typing import Any

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
    bound = ""
    if isinstance(function, functools.partial):
        bound = repr((function.args, sorted(function.keywords.items())))
    python = function.func if bound else function
    python = getattr(python, "py_func", python)  # what numba compiled
    code = getattr(python, "__code__", None)
    module, qualified = getattr(python, "__module__", None), getattr(python, "__qualname__", None)
    if module is None or qualified is None:
        raise ScalemaniError(
            f"metric={type(function).__name__} object has no name that a store can record: define the metric with def"
        )
    text = b"" if code is None else _content(python, code)
    text += bound.encode()
    name = f"{module}:{qualified}#{hashlib.blake2b(text, digest_size=4).hexdigest()}"
    _known[name] = function
    return name


def _content(function: Any, code: Any) -> bytes:
    """What a function does: its byte code with the names, constants, defaults and closed-over values it uses."""
    constants = [c.co_code if hasattr(c, "co_code") else c for c in code.co_consts]
    closed = [_shown(cell.cell_contents) for cell in function.__closure__ or ()]
    kept = (code.co_names, constants, function.__defaults__, function.__kwdefaults__, closed)
    return bytes(code.co_code) + repr(kept).encode()


def _shown(value: Any) -> str:
    """A closed-over value in words that are the same in every process."""
    return str(getattr(value, "__qualname__", None) or repr(value))


def is_function_name(metric: Any) -> bool:
    """Whether a recorded metric is the name of a function."""
    return isinstance(metric, str) and ":" in metric and "#" in metric


def function_of(name: str) -> Any:
    """The function of that name.

    Raises
    ------
    ScalemaniError
        If it is not known here, can't be imported, or has other code by now.
    """
    if name in _known:
        return _known[name]
    module, _, rest = name.partition(":")
    qualified = rest.partition("#")[0]
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
        if function_name(found) == name:
            return found
    except (ImportError, AttributeError):
        pass
    raise ScalemaniError(
        f"the metric of this run is the function {qualified} of {module}, which is not there with the same code: "
        "define it in a module that can be imported, or fit again"
    )
