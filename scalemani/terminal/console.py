"""How a command ends: with an exit code, and at most one line that says why.

0: every row asked for was written and is finite, or NaN was asked for. 2: wrong use (the command line,
the input, the parameters, a store that doesn't fit). 1: everything else, an interrupt included.
"""

import _thread
import contextlib
import io
import os
import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import click

from scalemani.errors import (
    ClusterLostError,
    DamagedStoreError,
    DiskFullError,
    DoesNotFitError,
    ScalemaniError,
    ScalemaniWarning,
    SelfCheckError,
    SolverError,
    StoreInUseError,
    StoreUnreachableError,
)
from scalemani.terminal.options import in_options
from scalemani.words import printable

__all__ = ["IncompleteResult", "Stopped", "give_missing_streams", "resume_command", "run"]

# Said in their own words; what a script may try again, or elsewhere, is no wrong use.
SAID = (ClusterLostError, DamagedStoreError, DiskFullError, SelfCheckError, SolverError, StoreUnreachableError)
NO_WRONG_USE = (DoesNotFitError, StoreInUseError)
# Sent after a stop, and ignored where it comes too late. Windows has none: there a dropped stop is told at the end.
AGAIN: int | None = getattr(signal, "SIGURG", None)
AGAIN_SECONDS = 0.1


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM. Not an ``Exception``, so that no library takes it for a failed task."""


class IncompleteResult(Exception):
    """The work is done and rows of it are NaN, which was not asked for."""


def give_missing_streams() -> None:
    """Put the null device where the program was started with standard streams closed (``2>&-``).

    The others write signs that their encoding lacks as escapes.

    To be called before any file is opened: the next one would get the number 2, and what is said on
    standard error would be written into it. Worker processes inherit the numbers.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is given, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


class CutShort(int):
    """The exit code of what was stopped: tasks may be in compiled code, around which Python can't be taken down."""


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command as a program does and return its exit code; nothing is raised but with ``--debug``."""
    debug = "--debug" in arguments
    try:
        with _signals_raise(), _one_line_warnings(everything=debug):
            code = command.main(list(arguments), prog_name="scalemani", standalone_mode=False)
            _flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return _say(" ".join(error.format_message().split()) + where, 2)
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except ScalemaniError as error:
        if debug:
            raise
        return _say(in_options(str(error)), 1 if isinstance(error, NO_WRONG_USE) else 2)
    except SAID as error:
        if debug:
            raise
        return _say(in_options(" ".join(str(error).split())), 1)
    except (KeyboardInterrupt, click.Abort):
        if debug:
            raise
        again = resume_command(arguments)
        return CutShort(_say(f"stopped; to go on: {again}" if again else "stopped", 1))
    except BrokenPipeError:
        _drop_output()  # the reader of a pipe has gone
        return 1
    except IncompleteResult as error:
        return _say(in_options(str(error)), 1)
    except Exception as error:
        lost = _output_lost(error) if isinstance(error, OSError) else None
        if debug:
            raise
        if lost:
            return _say(f"standard output can't be written: {lost}; send it where there is room", 1)
        cause = " ".join(str(error).split()) or "no message"
        return _say(f"{type(error).__name__}: {cause} (--debug shows where)", 1)


def resume_command(arguments: Sequence[str]) -> str | None:
    """The command that goes on where a fit or a projection stopped; ``None`` of the other commands.

    It must not replace the store, which holds what is finished. A file of coordinates comes only at the
    end, so what is there is still to be replaced.

    >>> resume_command(["fit", "my points.npy", "run.zarr", "--overwrite"])
    "scalemani fit 'my points.npy' run.zarr"
    >>> resume_command(["fit", "x.npy", "run.zarr", "--embedding", "y.npy", "--overwrite"])
    'scalemani fit x.npy run.zarr --embedding y.npy --overwrite-output'
    >>> resume_command(["project", "run.zarr", "x.npy", "y.npy", "--overwrite"])
    'scalemani project run.zarr x.npy y.npy --overwrite'
    """
    if not arguments or arguments[0] not in ("fit", "project"):
        return None
    words = list(arguments)
    if words[0] == "fit" and "--overwrite" in words:
        words = [word for word in words if word not in ("--overwrite", "--overwrite-output")]
        if any(word.split("=")[0] == "--embedding" for word in words):
            words.append("--overwrite-output")
    return shlex.join(["scalemani", *words])


def _say(message: str, code: int) -> int:
    if sys.stderr is not None:  # or print takes standard output
        print(f"scalemani: {printable(message)}", file=sys.stderr)
    return code


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_output() -> None:
    """What is still buffered has nowhere to go, and would fail once more when the interpreter ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _output_lost(error: OSError) -> str | None:
    """Why standard output can't be written, in the system's words; ``None`` of a failure elsewhere.

    Whether it fails again can't be asked: without buffering nothing is left to write. So where it was
    raised is looked at: all output goes through :func:`click.echo`.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code not in (click.echo.__code__, _flush.__code__):
        return None
    _drop_output()
    return error.strerror or type(error).__name__


class _Stops:
    """Raises :class:`Stopped` in the main thread, and again wherever nothing handles it.

    Python drops what is raised in a callback of the garbage collector, in ``__del__`` or in a callback of a weak
    reference, and any library may catch all. So from the first signal on a thread sends AGAIN, which is none of the
    user's signals, until the command has ended. Clean-up handles the exception, and is not disturbed.
    """

    def __init__(self) -> None:
        self.taken = self.over = False
        self._thread = threading.get_ident()

    def first(self, number: int, frame: FrameType | None) -> NoReturn:
        self.taken = True
        signal.signal(number, signal.SIG_DFL)
        if sys.stderr is not None:
            # Not print: the signal may have come in the middle of one. Tasks that run can't be broken off.
            # With SIGHUP the terminal may have gone.
            with contextlib.suppress(OSError):
                os.write(2, b"\nscalemani: stopping when the tasks that run are done; once more stops at once\n")
        if AGAIN is not None:
            # A thread of `threading` takes locks to start, which the main thread may hold just now.
            _thread.start_new_thread(self._remind, (AGAIN,))
        raise Stopped

    def again(self, number: int, frame: FrameType | None) -> None:
        handled = sys.exception()
        while handled is not None and not isinstance(handled, Stopped):
            handled = handled.__context__
        if self.taken and not self.over and handled is None:
            raise Stopped

    def _remind(self, number: int) -> None:
        while not self.over:
            time.sleep(AGAIN_SECONDS)
            if not self.over:
                signal.pthread_kill(self._thread, number)  # to the main thread: ends its waits


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGTERM, SIGHUP and Ctrl-C raise once; a second one ends the process at once.

    The store takes that too: a block that is not in its ledger is made again.
    """
    stops = _Stops()
    unraisable = sys.unraisablehook

    def pass_over(given: "sys.UnraisableHookArgs") -> None:
        if not issubclass(given.exc_type, Stopped):  # that is raised again: no traceback
            unraisable(given)

    # A job that a shell started in the background has SIGINT ignored; it is taken here all the same,
    # so that `kill -INT` is as clean as SIGTERM.
    numbers = [signal.SIGINT, signal.SIGTERM]
    closed = getattr(signal, "SIGHUP", None)  # the terminal was closed
    if closed is not None and signal.getsignal(closed) != signal.SIG_IGN:  # as nohup has it
        numbers.append(closed)
    before: dict[int, Any] = {}
    if AGAIN is not None:
        before[AGAIN] = signal.signal(AGAIN, stops.again)
    before.update({number: signal.signal(number, stops.first) for number in numbers})
    sys.unraisablehook = pass_over
    try:
        yield
        if stops.taken:  # and dropped, too late to be raised again
            raise Stopped
    finally:
        stops.over = True
        sys.unraisablehook = unraisable
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _one_line_warnings(*, everything: bool) -> Iterator[None]:
    """The package's own warnings as one line each; other packages' only when `everything` is asked for."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {printable(in_options(str(message)))}", file=sys.stderr)

    with warnings.catch_warnings():
        if not everything:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", ScalemaniWarning)
        warnings.showwarning = show
        yield


def refuse_nan(coordinates: Any, ids: list[str] | None, written: str, what: str = "coordinates") -> None:
    """Raise if a row isn't finite; the message names the first."""
    import numpy as np

    lost = np.flatnonzero(~np.isfinite(coordinates).all(axis=1))
    if lost.size:
        first = f"row {lost[0]}" + (f", {ids[lost[0]]!r}" if ids else "")
        raise IncompleteResult(
            f"{lost.size} of {len(coordinates)} rows have no {what} (the first: {first}); "
            f"{written} with NaN there, and --allow-nan accepts that"
        )
