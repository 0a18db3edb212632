"""Manners of the command line: takes a command, gives an exit code and at most one line of cause.

0: every row asked for was written and is finite, or NaN was asked for. 2: wrong use (the command line,
the input, the parameters, a store that doesn't fit). 1: everything else, an interrupt included.
"""

import contextlib
import os
import shlex
import signal
import sys
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
)
from scalemani.terminal.printable import printable

__all__ = ["IncompleteResult", "Stopped", "resume_command", "run"]


# Said in their own words; what a script may try again, or elsewhere, is no wrong use.
SAID = (ClusterLostError, DamagedStoreError, DiskFullError, SelfCheckError, SolverError)
NO_WRONG_USE = (DoesNotFitError, StoreInUseError)


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM. Not an ``Exception``, so that no library takes it for a failed task."""


class IncompleteResult(Exception):
    """The work is done and rows of it are NaN, which was not asked for."""


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command as a program does and return its exit code; nothing is raised but with ``--debug``.

    Parameters
    ----------
    command : click.Command
    arguments : sequence of str
        Without the program's name.
    """
    debug = "--debug" in arguments
    try:
        with _signals_raise(), _one_line_warnings(everything=debug):
            code = command.main(list(arguments), prog_name="scalemani", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        return _say(error.format_message().replace("\n", " ") + where, 2)
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except ScalemaniError as error:
        if debug:
            raise
        return _say(str(error), 1 if isinstance(error, NO_WRONG_USE) else 2)
    except SAID as error:
        if debug:
            raise
        return _say(" ".join(str(error).split()), 1)
    except (KeyboardInterrupt, click.Abort):
        if debug:
            raise
        again = resume_command(arguments)
        return _say(f"stopped; to go on: {again}" if again else "stopped", 1)
    except BrokenPipeError:
        # The reader of a pipe has gone; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except IncompleteResult as error:
        return _say(str(error), 1)
    except Exception as error:
        if debug:
            raise
        cause = " ".join(str(error).split()) or "no message"
        return _say(f"{type(error).__name__}: {cause} (--debug shows where)", 1)


def resume_command(arguments: Sequence[str]) -> str | None:
    """The command that goes on where a fit or a projection stopped; ``None`` of the other commands.

    It must not replace the store, which holds what is finished. A file of coordinates comes only at the
    end, so what is there is still to be replaced.

    Examples
    --------
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
    print(f"scalemani: {printable(message)}", file=sys.stderr)
    return code


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGTERM, SIGHUP and Ctrl-C raise once; a second one ends the process at once.

    The store takes that too: a block that is not in its ledger is made again.
    """

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        # Not print: the signal may have come in the middle of one. Tasks that run can't be broken off.
        os.write(2, b"\nscalemani: stopping when the tasks that run are done; once more stops at once\n")
        raise Stopped

    # A job that a shell started in the background has SIGINT ignored; it is taken here all the same,
    # so that `kill -INT` is as clean as SIGTERM.
    numbers = [signal.SIGINT, signal.SIGTERM]
    closed = getattr(signal, "SIGHUP", None)  # the terminal was closed
    if closed is not None and signal.getsignal(closed) != signal.SIG_IGN:  # as nohup has it
        numbers.append(closed)
    before: dict[int, Any] = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _one_line_warnings(*, everything: bool) -> Iterator[None]:
    """The package's own warnings as one line each; other packages' only when `everything` is asked for."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {printable(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        if not everything:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", ScalemaniWarning)
        warnings.showwarning = show
        yield
