"""Compiled kernels, kept on disk between processes where that can be done.

Numba's own ``cache=True`` raises while a module is imported if it finds no directory to write to, and in the
middle of a run if the disk is full when a kernel has been compiled. Here both cost one warning and a compilation in
each process.
Where there is nothing to compile for, since NUMBA_DISABLE_JIT is set, kernels refuse: as Python they would overflow.
"""

import functools
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar, cast

from numba import njit
from numba.core.caching import NullCache

from scalemani.errors import ScalemaniError, ScalemaniWarning, warn

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_said = False  # the warning below: once a process, however many kernels it is true of


def compiled(**options: Any) -> Callable[[Kernel], Kernel]:
    """Decorate a kernel: ``numba.njit`` that releases the GIL and keeps its machine code on disk.

    Numba keeps it beside the module, else in the user's cache directory; the environment variable
    ``NUMBA_CACHE_DIR`` goes before both.

    A kernel may use functions and constants of other kernel files in its directory and in those beside it: all of
    these files are part of what the kept code is valid for. (Numba alone looks at the decorated function's own
    file, and goes on with the old code when what it inlined from another one has changed.)

    **options: Of ``numba.njit``, such as ``fastmath``.
    """

    def decorate(function: Kernel) -> Kernel:
        kernel: Any = njit(**{"nogil": True, **options})(function)
        if not _is_compiled(kernel):
            return cast(Any, _refuse)  # type: ignore[no-any-return]
        try:
            kernel.enable_caching()
        except (RuntimeError, OSError) as error:
            kernel._cache = _ForgivingCache(kernel._cache, error)
        else:
            kept = kernel._cache._cache_file  # the other kernel files are a part of what a kept kernel is valid for
            kept._source_stamp = (kept._source_stamp, _hash_of_kernels(Path(function.__code__.co_filename).parents[1]))
            kernel._cache = _ForgivingCache(kernel._cache)
        return kernel  # type: ignore[no-any-return]

    return decorate


def _is_compiled(kernel: Any) -> bool:
    return hasattr(kernel, "enable_caching")  # else NUMBA_DISABLE_JIT is set, and it is the function itself


def _refuse(*_: Any) -> NoReturn:
    raise ScalemaniError(
        "NUMBA_DISABLE_JIT is set, and scalemani's kernels need numba's compiler: unset it, or set it to 0"
    )


def check_compiler() -> None:
    """Refuse to begin where kernels would refuse."""
    if not _is_compiled(njit(_refuse)):
        _refuse()


@functools.cache
def announce(what: str) -> None:
    """Say once a process, at ``logging.INFO``, that something is compiled: it may take long and shows no progress."""
    logging.getLogger("scalemani").info("compiling, %s", what)


class _ForgivingCache(NullCache):  # type: ignore[misc, unused-ignore]
    """Numba's cache of one function, or none for a reason; what goes wrong in it is a kernel that isn't there."""

    def __init__(self, cache: Any, reason: Exception | None = None) -> None:
        self._inner = cache
        self._reason = reason

    @property
    def cache_path(self) -> Any:
        return self._inner.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = None
        try:
            found = self._inner.load_overload(sig, target_context)
        except Exception:  # a damaged file raises whatever unpickling raises
            try:
                self._inner.flush()  # an index that can't be read could not be added to either
            except OSError as error:
                self._reason = error
        if found is None:
            announce("once per machine" if self._reason is None else "in every process")
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._reason is None:
            try:
                self._inner.save_overload(sig, data)
            except OSError as error:
                self._reason = error
        if self._reason is not None:
            _say(self._reason)

    def flush(self) -> None:
        self._inner.flush()


def _say(reason: Exception) -> None:
    global _said
    if _said:
        return
    _said = True
    cause = " ".join(str(reason).split())
    warn(
        f"compiled kernels can't be kept ({cause}): every process compiles them again; set the environment variable "
        "NUMBA_CACHE_DIR to a directory that can be written",
        ScalemaniWarning,
    )


@functools.cache
def _hash_of_kernels(directory: Path) -> str:
    """One hash over the files of a package's folders that take their decorator from here; empty without sources."""
    digest = hashlib.sha256()
    for path in sorted(directory.glob("*/*.py")):
        text = path.read_bytes()
        if b"kernel_cache import" in text:
            digest.update(f"{path.parent.name}/{path.name}".encode() + b"\0" + text)
    return digest.hexdigest()
