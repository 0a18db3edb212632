"""Leaf: metrics that are functions of two rows, named so that a store can say which one it was made with.

A store holds no code. It holds the function's module and qualified name, and a digest of what it
does, so that another function of the same name is another metric. The process that fitted knows the
function; others find it by its name where its module is imported already: a stranger's store must not
choose what is imported and run.
"""

import contextlib
import functools
import importlib
import inspect
import sys
import types
from typing import Any

from scalemani.errors import ScalemaniError
from scalemani.search.function_digest import function_digest

_known: dict[str, Any] = {}


def function_name(function: Any) -> str:
    """A name under which :func:`function_of` finds the function again, here or where it can be imported.

    Raises ScalemaniError: If it uses what can't be told from another of its kind (:mod:`.function_digest`).
    """
    inner = getattr(function, "func", None) if isinstance(function, functools.partial) else function
    inner = inspect.getattr_static(inner, "py_func", inner)  # what numba compiled
    module, qualified = (getattr(inner, part, None) for part in ("__module__", "__qualname__"))
    if not isinstance(module, str) or not isinstance(qualified, str):
        module, qualified = type(inner).__module__, type(inner).__qualname__  # an object that can be called
    name = f"{module}:{qualified}#{function_digest(function)}"
    _known[name] = function
    return name


def is_function_name(metric: Any) -> bool:
    """Whether a recorded metric is the name of a function."""
    return isinstance(metric, str) and ":" in metric and "#" in metric


def function_of(name: str) -> Any:
    """The function of that name, which a store may have said: nothing is imported or run to find it.

    Raises ScalemaniError: If it is not known here: its module is not imported yet, or has no Python function of that
        name and code.
    """
    if name in _known:
        if function_name(_known[name]) != name:
            raise ScalemaniError(
                f"the metric function {_parts(name)[1]!r} is another since the fit: its object, a global or a helper "
                "has changed; set that back, or fit again"
            )
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

    Raises ScalemaniError: As :func:`function_of`.
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
