"""Packages that not every user has: takes a name, gives the module, or one line that says how to get it."""

import importlib
from typing import Any

from scalemani.errors import ScalemaniError

__all__ = ["needed"]


def needed(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional extra.

    extra: That brings it, as pyproject.toml calls it.
    purpose: What needs it: the beginning of the message.
    Raises ScalemaniError: It is not installed, or can't be imported.

    >>> needed("json", "json", "a .json").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        why = "is not installed" if isinstance(error, ModuleNotFoundError) else f"can't be imported ({error})"
        raise ScalemaniError(f"{purpose}: {package} {why}; pip install 'scalemani[{extra}]'") from error
