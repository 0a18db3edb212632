"""What a function does, in bytes that are the same in every process: its code and all that this sees.

That is its defaults, what it closes over, the globals that it names, the object that it is bound to, and in turn the
code and the state of these. Python's own functions and those of installed packages go by their names. What can't be
told from another of its kind is refused. Nothing is called or imported to find out: a store may have said which
function it is.
"""

from __future__ import annotations

import builtins
import dis
import functools
import importlib
import inspect
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, slice)
_CONTAINERS = (tuple, list, dict, set, frozenset)
_HIDING = (eval, exec, compile, globals, __import__, importlib.import_module, os.getenv, os.environ)  # in no code
_STATELESS = (
    "__module__ __doc__ __dict__ __weakref__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotations_cache__ __annotate__ __annotate_func__ __abstractmethods__ _abc_impl __parameters__ "
    "__orig_bases__ __type_params__ __dataclass_fields__ __dataclass_params__ __slots__ __classdictcell__"
)  # of a class
_BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType)


def function_digest(function: Any) -> str:
    """Eight hexadecimal digits.

    Raises ScalemaniError: The function uses something that can't be told from another of its kind.
    """
    try:
        walked = _Walk().of(function, named=type(function) is not types.FunctionType)
        return blake2b(walked, digest_size=4).hexdigest()
    except RecursionError:
        raise _refused("values that are too deeply nested") from None


class _Walk:
    """One walk through all that a function sees; what it meets again on the way down goes by its depth."""

    def __init__(self) -> None:
        self._above: dict[int, int] = {}
        self._done: dict[int, bytes] = {}
        self._kept: list[Any] = []  # or another value could get the same id

    def of(self, value: Any, named: bool = True) -> bytes:
        """A value in bytes; `named` lets what an installed package defines go by its name."""
        kind = type(value)
        if kind in _PLAIN:
            return f"{kind.__name__}:{value!r}".encode()
        key = id(value)
        if key in self._above:
            return f"above:{self._above[key]}".encode()
        if key not in self._done:
            self._above[key] = len(self._above)
            self._kept.append(value)
            state = blake2b(kind.__name__.encode(), digest_size=16)
            for part in self._parts(value, kind, named):
                state.update(len(part).to_bytes(8, "little") + part)
            del self._above[key]
            self._done[key] = state.digest()
        return self._done[key]

    def _parts(self, value: Any, kind: type, named: bool) -> Iterator[bytes]:
        """What a value is made of."""
        if any(value is one for one in _HIDING):
            raise _refused(f"{value.__name__}(), which may use anything" if callable(value) else "os.environ")
        if named and _installed(kind.__module__) and _found_by_name(value):
            yield _name(value).encode()
        elif kind is types.CodeType:
            yield from self._code(value)
        elif kind is types.FunctionType:
            yield from self._function(value)
        elif kind is types.MethodType:
            yield from map(self.of, (value.__func__, value.__self__))
        elif kind is functools.partial:
            yield from map(self.of, (value.func, value.args, value.keywords, vars(value)))
        elif kind in (staticmethod, classmethod):
            yield from map(self.of, (kind.__name__, value.__func__))
        elif kind is functools.cached_property:
            yield self.of(value.func)
        elif kind is property:
            yield from map(self.of, (value.fget, value.fset, value.fdel))
        elif kind is types.ModuleType:
            if not _installed(value.__name__):
                raise _refused(f"the module {value.__name__!r} as a whole")
            yield value.__name__.encode()
        elif kind in _BUILT_IN:
            yield value.__qualname__.encode()
            yield self.of(value.__module__ if value.__self__ is None else value.__self__)
        elif kind.__module__ == "builtins" and hasattr(value, "__objclass__"):  # a slot, or a method written in C
            yield _name(value.__objclass__).encode() + value.__name__.encode()
        elif issubclass(kind, type):
            yield from self._class(value)
        elif kind is type(_wrapper):
            yield self.of(value.__wrapped__)
        elif type(inspect.getattr_static(value, "py_func", None)) is types.FunctionType:
            yield self.of(value.py_func, named=False)  # what numba compiled
            yield self.of(getattr(value, "targetoptions", None))
        elif kind is np.ufunc:
            modules = [sys.modules.get(name) for name in ("numpy", "scipy.special")]
            if not any(vars(module).get(value.__name__) is value for module in modules if module):
                raise _refused("a universal function made of another")
            yield value.__name__.encode()
        elif issubclass(kind, np.dtype):
            yield repr(value).encode()
        else:
            yield from self._object(value, kind)

    def _code(self, code: Any) -> Iterator[bytes]:
        arguments = code.co_argcount + code.co_kwonlyargcount
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        yield from map(self.of, (code.co_code, code.co_exceptiontable, shape, code.co_names))
        yield from map(self.of, (code.co_consts, code.co_varnames[:arguments]))

    def _function(self, function: Any) -> Iterator[bytes]:
        yield from map(self.of, (function.__code__, function.__defaults__, function.__kwdefaults__, vars(function)))
        for cell in function.__closure__ or ():
            try:
                held = cell.cell_contents
            except ValueError:  # nothing yet
                held = NotImplemented
            yield self.of(held)
        for name, *attributes in _globals_of(function.__code__):
            scope = function.__globals__
            value = scope[name] if name in scope else vars(builtins).get(name, NotImplemented)
            while attributes and type(value) is types.ModuleType and attributes[0] in vars(value):
                value = vars(value)[attributes.pop(0)]
            yield self.of(value)

    def _class(self, value: Any) -> Iterator[bytes]:
        yield value.__qualname__.encode()
        yield from map(self.of, (type(value), *value.__bases__))
        for name, part in vars(value).items():
            if name not in _STATELESS.split():
                yield name.encode()
                yield self.of(part)

    def _object(self, value: Any, kind: type) -> Iterator[bytes]:
        """The class of an object and its state."""
        yield self.of(kind)
        base = next(one for one in kind.__mro__ if one in (*_PLAIN, *_CONTAINERS, np.ndarray, object))
        if base is dict:
            yield from map(self.of, (part for item in dict.items(value) for part in item))
        elif base in (tuple, list):
            yield from map(self.of, base.__iter__(value))
        elif base in (set, frozenset):
            yield from sorted(map(self.of, base.__iter__(value)))
        elif base is np.ndarray:
            yield f"{value.dtype!r}{value.shape}".encode()
            yield from map(self.of, value.flat) if value.dtype.hasobject else [np.ascontiguousarray(value).tobytes()]
        elif issubclass(kind, np.generic):
            yield np.ndarray.tobytes(np.asarray(value))
            return
        elif base is not object:
            yield repr(base.__repr__(value)).encode()
        slots = [one for of in kind.__mro__ for one in vars(of).values() if type(one) is types.MemberDescriptorType]
        own = inspect.getattr_static(value, "__dict__", None)
        state = object.__getattribute__(value, "__dict__") if own is not None else {}
        if base is object and kind.__basicsize__ - 8 * len(slots) > _Empty.__basicsize__:
            raise _refused(f"a {_name(kind)}, whose state is not in Python")
        if state:
            yield self.of(state)
        for slot in slots:
            try:
                held = slot.__get__(value)
            except AttributeError:  # nothing yet
                held = NotImplemented
            yield self.of(held)


@functools.lru_cache
def _wrapper() -> None:
    """Its type is what functools.lru_cache makes."""


class _Empty:
    """The size of an object without a state of its own."""


def _globals_of(code: Any) -> Iterator[tuple[str, ...]]:
    """Names of globals in a function's code, each with the attributes that are taken of it at once."""
    steps = list(dis.get_instructions(code))
    for at, step in enumerate(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            chain = [step.argval]
            for after in steps[at + 1 :]:
                if after.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                chain.append(after.argval)
            yield tuple(chain)
        elif step.opname == "IMPORT_NAME" and (steps[at - 2].argval or not _installed(step.argval)):
            raise _refused(f"the module {step.argval!r}, which it imports as it runs (import it above the function)")
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from _globals_of(inner)


def _installed(module: Any) -> bool:
    """Whether a module, by its name, is Python's own or of an installed package: a user's may have the name of one."""
    top = str(module).partition(".")[0]
    found = sys.modules.get(top)
    try:
        origin = getattr(found, "__file__", None) if found else getattr(find_spec(top), "origin", None)
    except (ImportError, ValueError):
        return False
    if origin in (None, "built-in", "frozen"):
        return top in sys.stdlib_module_names and top != "__main__"
    own = any(PurePath(origin).is_relative_to(sysconfig.get_path(part)) for part in ("stdlib", "platstdlib"))
    return own or top == "scalemani" or bool({"site-packages", "dist-packages"} & set(PurePath(origin).parts))


def _found_by_name(value: Any) -> bool:
    """Whether an installed package holds a value under its name, so that nothing else is to be known of it."""
    module, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualified, str) or not _installed(module):
        return False
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = None if found is None else inspect.getattr_static(found, part, None)
    return found is value


def _name(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _refused(what: str) -> ScalemaniError:
    return ScalemaniError(
        f"the metric function uses {what}: a store can't tell it from another of its kind. Give it numbers and arrays "
        "(functools.partial binds them), or give the distances with metric='precomputed'"
    )
