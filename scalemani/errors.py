"""The exceptions and warnings that a caller may want to handle differently.

Everything a user can cause is a :class:`ScalemaniError`, which is a ``ValueError``: scikit-learn's
conventions hold, and the command line turns it into one line and exit code 2 (1 where a machine is too small, or a
store in use).
"""

import importlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from types import FrameType
from typing import Any

IN_A_SEARCH = "; in a grid search leave store=None"  # ends messages of stores in use; the shell leaves it out


class ScalemaniError(ValueError):
    """Wrong use: input, parameters or a store that can't be worked with, said before any long step."""


def nearest(value: Any, names: Iterable[str]) -> str | None:
    """The name that a value is nearest to, whatever the case of its letters; None where it is like none of them."""
    lower = {name.lower(): name for name in reversed([*names])}
    near = get_close_matches(value.lower(), lower, n=1) if isinstance(value, str) else []
    return lower[near[0]] if near else None


_MOST_NAMES = 12  # that are listed beside a guess


def unknown(what: str, value: Any, allowed: Iterable[str], more: str = "") -> ScalemaniError:
    """What is raised for a name that is not among those allowed: the nearest of them is named.

    >>> print(unknown("correction=", "Caillez", ("cailliez", "lingoes"), "None or a number"))
    correction='Caillez': did you mean 'cailliez'? Allowed are 'cailliez', 'lingoes', None or a number
    """
    names = list(allowed)
    near = nearest(value, names)
    guess = f"did you mean {near!r}? Allowed" if near else "allowed"
    shown = [f"{len(names)} names"] if near and len(names) > _MOST_NAMES else [repr(name) for name in names]
    listed = ", ".join([*shown, *([more] if more else [])])
    return ScalemaniError(f"{what}{value!r}: {guess} are {listed}")


class DisconnectedGraphError(ScalemaniError):
    """The neighbour graph has several components and ``disconnected="error"``."""


class DoesNotFitError(ScalemaniError):
    """A fit would need more memory than `memory_limit`, or more disk than is free; the message names both numbers."""


class StoreMismatchError(ScalemaniError):
    """A store holds a run with other data, parameters or versions; the message names the field."""


class DiskFullError(RuntimeError):
    """A disk was full in the middle of the work; the message says what was to be written and what is free."""


class StoreInUseError(ScalemaniError):
    """Another fit is at work on a store; the message names its host and process."""


class StoreUnreachableError(RuntimeError):
    """A bucket can't be reached, or refuses; the message says which and why. What was finished is in the store."""


class ClusterLostError(RuntimeError):
    """The Dask scheduler or its workers are gone, or can't go on; what was finished is in the store."""


class DamagedStoreError(RuntimeError):
    """A store lacks, or holds damaged, what it says it holds."""


class SelfCheckError(RuntimeError):
    """What a fit found contradicts itself: the message names what, by how much, and what is allowed."""


class SolverError(RuntimeError):
    """A solver that the user chose can't give a right answer on this input."""


class ScalemaniWarning(UserWarning):
    """Base of every warning given here."""


class LowRecallWarning(ScalemaniWarning):
    """The approximate neighbour search missed more than 5 % of the true neighbours on a sample."""


class LooksLikeDistancesWarning(ScalemaniWarning):
    """A matrix given as features is square, symmetric and zero on its diagonal."""


class NoPathLengthsWarning(ScalemaniWarning):
    """Distances given as geodesic break the triangle inequality: they are used as they are."""


class FeatureNamesWarning(ScalemaniWarning):
    """Names of features can't be compared since one side has none, or a name says that its column is no feature."""


class AdditiveConstantWarning(ScalemaniWarning):
    """The additive constant is larger than the median geodesic distance."""


class BlindWorkerWarning(ScalemaniWarning):
    """A Dask worker that joined in the middle of a run can't see the store, and gets no tasks."""


class ShortcutWarning(ScalemaniWarning):
    """A few edges of the neighbour graph leap from one part of the data to another, and bend the map."""


class RankWarning(ScalemaniWarning):
    """Axes without geometry were asked for; their coordinates are 0."""


class FarRowsWarning(ScalemaniWarning):
    """A few rows are a hundred median distances and more from all others; the message names them."""


class UndeterminedAxesWarning(ScalemaniWarning):
    """The eigenvalue behind the last axis equals its own: rounding chooses a direction of their plane."""


class ConvergenceWarning(ScalemaniWarning):
    """An iteration ended before its residual reached the tolerance; the message names the residual."""


class DamagedTilesWarning(ScalemaniWarning):
    """Distances that an earlier run had finished were damaged on the disk, and were made again."""


class MapsDifferWarning(ScalemaniWarning):
    """Two maps that are laid upon each other are not of the same shape: what is placed by them is not comparable."""


class NothingInCommonWarning(ScalemaniWarning):
    """Entries of neighbour lists are as far apart as the metric goes; they are no edges."""


class UnreachableWarning(ScalemaniWarning):
    """Rows have no path to the training points; their coordinates are NaN."""


class OutOfReachWarning(ScalemaniWarning):
    """Rows lie far beyond the training rows, by their edges, weights or kernel: where they land says little."""


_BETWEEN = ("scalemani", "sklearn", "joblib", "importlib")  # what may stand between a caller's line and a warning


_kept: ContextVar[list[tuple[str, type[ScalemaniWarning]]] | None] = ContextVar("kept", default=None)


@contextmanager
def keeping_warnings() -> Iterator[list[tuple[str, type[ScalemaniWarning]]]]:
    """Keep what the block warns of, for :func:`warn` in the process where the user is."""
    said: list[tuple[str, type[ScalemaniWarning]]] = []
    token = _kept.set(said)
    try:
        yield said
    finally:
        _kept.reset(token)


@dataclass(frozen=True)
class Warned:
    """A task's result, and what it warned of."""

    result: Any
    said: list[tuple[str, type[ScalemaniWarning]]]


def noted(function: Callable[..., Any], *arguments: Any) -> Any:
    """``function(*arguments)``, as a :class:`Warned` where it warned of something."""
    with keeping_warnings() as said:
        result = function(*arguments)
    return Warned(result, said) if said else result


class Once:
    """Warns of what many tasks say, each thing once."""

    def __init__(self) -> None:
        self._said: set[tuple[str, type[ScalemaniWarning]]] = set()

    def result(self, found: Any) -> Any:
        """What :func:`noted` gave, after its warnings."""
        if not isinstance(found, Warned):
            return found
        for said in found.said:
            if said not in self._said:
                self._said.add(said)
                warn(*said)
        return found.result


def warn(message: str, category: type[ScalemaniWarning]) -> None:
    """Warn at the line that called the package, however deep the warning comes from.

    That is the first line outside `_BETWEEN` beyond the outermost one of this package: scikit-learn wraps
    ``transform`` and its pipelines call it, and Numba calls back what compiles for it.
    """
    kept = _kept.get()
    if kept is not None:
        kept.append((message, category))
        return
    frame: FrameType | None = sys._getframe(1)
    caller = None
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package == "scalemani":
            caller = None
        elif caller is None and (package not in _BETWEEN or frame.f_back is None):
            caller = frame
        frame = frame.f_back
    at = caller or sys._getframe(1)
    known = at.f_globals
    registry = known.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, at.f_code.co_filename, at.f_lineno, known.get("__name__"), registry)


@contextmanager
def naming_columns(names: Sequence[object] | None) -> Iterator[None]:
    """Add the name to the number of a column, where an error of the block says one.

    >>> with naming_columns(["height", "weight"]):
    ...     raise ScalemaniError("X contains NaN at row 3, column 1")
    Traceback (most recent call last):
    scalemani.errors.ScalemaniError: X contains NaN at row 3, column 1, 'weight'
    """
    try:
        yield
    except (ScalemaniError, TypeError) as error:
        said = error.args[0] if error.args else None
        if names is not None and isinstance(said, str):
            known = {str(number): f", {str(name)[:60]!r}" for number, name in enumerate(names)}
            said = re.sub(r"\bcolumn (\d+)\b(?!, ['\"])", lambda at: at[0] + known.get(at[1], ""), said)
            error.args = (said, *error.args[1:])
        raise


def import_declared(method: str) -> None:
    """Import what installed packages have as the entry point of that name in the group `scalemani.methods`."""
    from importlib.metadata import entry_points

    for point in entry_points(group="scalemani.methods", name=method):
        point.load()


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
