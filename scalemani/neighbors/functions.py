"""Metrics that are functions of two rows: called for pairs, checked, and named so that a store can say which one.

A store holds no code. It holds the function's module and qualified name, and a digest of what it does, so that another
function of the same name is another metric. The process that fitted knows the function; others find it by its name
where its module is imported already: a stranger's store must not choose what is imported and run.

The digest is of a function's code and of all that this sees: its defaults, what it closes over, the globals that it
names, the object that it is bound to, and in turn the code and the state of these. It is the same in every process.
Python's own functions and those of installed packages go by their names. What can't be told from another of its kind
is refused. Nothing is called or imported to find out.

Compiled code with parallel regions runs on one thread, and one thread of this process is in it at a time: numba's
workqueue layer aborts the process when two are in parallel regions at once, and a reduction's last bits follow from the
number of threads. pynndescent has such regions, and a user's metric may have them. Regions that other libraries enter
meanwhile are beyond this package.
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
import threading
import types
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import PurePath
from types import ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse

from scalemani.aliases import F64
from scalemani.errors import ScalemaniError
from scalemani.points.cells import SAME, typical_distance
from scalemani.storage.forks import REGIONS, check

_SAMPLED = 24  # rows between which a function is called both ways: 600 calls
BOTH_WAYS = "a distance is the same both ways: give one that is, such as their mean"

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, slice)
_CONTAINERS = (tuple, list, dict, set, frozenset)
_HIDING = (eval, exec, compile, globals, __import__, importlib.import_module, os.getenv, os.environ)  # in no code
_STATELESS = (
    "__module__ __doc__ __dict__ __weakref__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotations_cache__ __annotate__ __annotate_func__ __abstractmethods__ _abc_impl __parameters__ "
    "__orig_bases__ __type_params__ __dataclass_fields__ __dataclass_params__ __slots__ __classdictcell__"
)  # of a class
_BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType)
_FIELD = type(vars(namedtuple("_FIELD", "field"))["field"])  # of the class of named tuples: a descriptor written in C


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
        elif kind is _FIELD:
            yield self.of(value.__reduce__()[1])  # its index and its docstring
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
        f"the function uses {what}: a store can't tell it from another of its kind. Give it numbers and arrays "
        "(functools.partial binds them), or give its values, as metric='precomputed' or kernel='precomputed'"
    )


_region = threading.RLock()


@contextmanager
def one_numba_thread() -> Iterator[None]:
    """Wait for the other threads of this process to leave their parallel regions, and run this one's on one thread."""
    import numba  # here only: most searches need none of it

    check(REGIONS)
    with _region:
        threads = numba.get_num_threads()
        numba.set_num_threads(1)
        try:
            yield
        finally:
            numba.set_num_threads(threads)


def enters_parallel_regions(function: Any) -> bool:
    """Whether a function, or a compiled one that it calls by a name of its module or closure, has parallel regions.

    function: A numba dispatcher or a plain function; other callables are not looked into.

    >>> import numba
    >>> @numba.njit
    ... def plain(x, y): return abs(x - y).sum()
    >>> @numba.njit(parallel=True)
    ... def spread(x, y): return abs(x - y).sum()
    >>> @numba.njit
    ... def calls(x, y): return 2 * spread(x, y)
    >>> [enters_parallel_regions(function) for function in (plain, spread, calls)]
    [False, True, True]
    """
    seen, waiting = list[Any](), [function]
    while waiting:
        here = waiting.pop()
        if any(here is other for other in seen):
            continue
        seen.append(here)
        if getattr(here, "targetoptions", {}).get("parallel"):
            return True
        python = getattr(here, "py_func", here)
        if hasattr(python, "__code__"):  # of what it names, what numba compiled or will
            waiting += [used for used in _named(python) if hasattr(used, "py_func") and hasattr(used, "targetoptions")]
    return False


def _named(python: Any) -> Iterator[Any]:
    """What a Python function's code names: globals, attributes of modules among them, and what it closes over."""
    names = python.__code__.co_names
    known = [python.__globals__[name] for name in names if name in python.__globals__]
    yield from known
    for module in known:
        if isinstance(module, ModuleType):
            yield from (getattr(module, name) for name in names if hasattr(module, name))
    for cell in python.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            yield cell.cell_contents


_known: dict[str, Any] = {}


def function_name(function: Any) -> str:
    """A name under which :func:`function_of` finds the function again, here or where it can be imported.

    Raises ScalemaniError: If it uses what can't be told from another of its kind
        (:mod:`scalemani.neighbors.functions`).
    """
    inner = getattr(function, "func", None) if isinstance(function, functools.partial) else function
    inner = inspect.getattr_static(inner, "py_func", inner)  # what numba compiled
    module, qualified = (getattr(inner, part, None) for part in ("__module__", "__qualname__"))
    if not isinstance(module, str) or not isinstance(qualified, str):
        module, qualified = type(inner).__module__, type(inner).__qualname__  # an object that can be called
    name = f"{module}:{qualified}#{function_digest(function)}"
    _known[name] = function
    return name


def function_of(name: str) -> Any:
    """The function of that name, which a store may have said: nothing is imported or run to find it.

    Raises ScalemaniError: If it is not known here: its module is not imported yet, or has no Python function of that
        name and code.
    """
    module, _, rest = name.partition(":")
    qualified = rest.partition("#")[0]
    if name in _known:
        if function_name(_known[name]) != name:
            raise ScalemaniError(
                f"the function {qualified!r} is another since the fit: its object, a global or a helper "
                "has changed; set that back, or fit again"
            )
        return _known[name]
    if module not in sys.modules:
        raise ScalemaniError(
            f"this run was made with the function {qualified!r} of the module {module!r}, and a store does not say "
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
        f"this run was made with the function {qualified!r} of {module!r}, which is not there with the same code: "
        "define it in a module that can be imported, or fit again"
    )


def module_of(name: str) -> str:
    """The module of a function that is known here, for another process of the same user to import.

    Raises ScalemaniError: As :func:`function_of`.
    """
    function_of(name)
    return name.partition(":")[0]


def import_for(name: str) -> None:
    """Import a module that :func:`module_of` named in the user's process, as unpickling a function does."""
    with suppress(ImportError):  # then the function is missed, in words
        importlib.import_module(name)


def check_function(function: Callable[..., Any], params: Mapping[str, Any], rows: Any, numbers: Any) -> None:
    """Raise unless a user's function is a distance between some of the distinct rows, which messages call `numbers`."""
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


def pynndescent_function(name: str) -> Any:
    """pynndescent's own compiled distance (importing it takes half a minute)."""
    from pynndescent.distances import named_distances  # here only: the import is dear

    return named_distances[name]


def pair_loop(
    function: Callable[..., Any], params: Mapping[str, Any], positional: bool
) -> Callable[[F64, F64, F64], None]:
    """What calls a function for each pair of rows a[i], b[i] and writes out[i]; compiled where the function is."""
    if not (hasattr(function, "py_func") and hasattr(function, "overloads") and (positional or not params)):
        return _plain_loop(function, params)
    import numba

    arguments = tuple(params.values())

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
    def loop(a, b, out):  # type: ignore[no-untyped-def]
        for i in range(len(out)):
            out[i] = function(a[i], b[i], *arguments)

    return loop  # type: ignore[no-any-return, unused-ignore]


def _plain_loop(function: Callable[..., Any], params: Mapping[str, Any]) -> Callable[[F64, F64, F64], None]:
    def loop(a: F64, b: F64, out: F64) -> None:
        for i in range(len(out)):
            found = function(a[i], b[i], **params)
            try:
                out[i] = float(found)
            except (TypeError, ValueError):
                raise ScalemaniError(f"the metric function gives {found!r:.60}; a number is needed") from None

    return loop
