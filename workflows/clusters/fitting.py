"""A fit on whatever cluster a workflow has made: takes command lines and a client, gives exit codes and single lines.

The words after ``--`` on a workflow's command line are those of ``scalemani fit``, which runs in this process on
Dask's active client. Signals end the cluster before the process: what a ``with`` block started, it ends.
"""

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
import dask
import numpy as np
from distributed import Client

from scalemani.cluster.health import NO_WORKER_KEY
from scalemani.demo import swiss_roll
from scalemani.errors import ClusterLostError, ScalemaniError
from scalemani.formats.points import open_points
from scalemani.model import Run
from scalemani.storage.run import RunStore
from scalemani.terminal.commands import cli
from scalemani.terminal.console import Stopped, run

STOPPED_BY = (signal.SIGTERM, signal.SIGINT)

#: One thread of BLAS and OpenMP a task: the tasks of a worker are as many as its cores.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

GATHERING = 60.0  # seconds from the first worker on

SMALL_POINTS, SMALL_WORDS = 400, ("--components", "3", "--memory-limit", "1GB")


def halves(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words before the first ``--``, a workflow's own, and after it, those of ``scalemani fit``."""
    words = list(arguments)
    cut = words.index("--") if "--" in words else len(words)
    return words[:cut], words[cut + 1 :]


def add_common(
    parser: argparse.ArgumentParser, name: str, *, wait: float | None = 600, no_worker: float | None = None
) -> None:
    """Arguments that all three have, with defaults of the waits; --out holds what --small leaves."""
    parser.add_argument("points", nargs="?", help="rows: .npy, .npz:key, .csv or .zarr:path, on the shared file system")
    parser.add_argument("store", nargs="?", help="store of the fit, on the shared file system")
    first = "as long as it takes" if wait is None else f"{wait:g}"
    later = "300, or Dask's configuration" if no_worker is None else f"{no_worker:g}"
    parser.add_argument("--wait", type=float, default=wait, help=f"seconds to wait for a worker (default: {first})")
    parser.add_argument(
        "--no-worker-seconds",
        type=float,
        default=no_worker,
        help=f"seconds that a fit goes on waiting when all workers have gone (default: {later})",
    )
    parser.add_argument("--out", type=Path, default=Path(name), help="directory of what --small makes")


def fit_words(points: str | None, store: str | None, words: Sequence[str]) -> list[str]:
    """The command line of ``scalemani``, checked before anything is started.

    Paths are made absolute, since workers may start in another directory.

    Raises
    ------
    ScalemaniError, click.UsageError
        No points or store, an option that ``scalemani fit`` lacks, or a file that can't be read.
    """
    if points is None or store is None:
        raise ScalemaniError("give POINTS and STORE, both on a file system that all machines share, or --small")
    given = [absolute(points), str(Path(store).absolute()), *words]
    context = cli.commands["fit"].make_context("fit", list(given))
    if context.params["scheduler"] is not None:
        raise ScalemaniError("--scheduler is not for a workflow that makes its own cluster; leave it out")
    open_points(given[0], delimiter=context.params["delimiter"], id_column=context.params["id_column"])
    return ["fit", *given]


def absolute(spec: str) -> str:
    """``file`` or ``file:member`` with the file's path made absolute."""
    path, colon, member = spec.partition(":")
    return f"{Path(path).absolute()}{colon}{member}"


def check_goes_on(words: Sequence[str]) -> None:
    """Refuse a command that starts over, where it is given again and again by itself.

    Raises
    ------
    ScalemaniError
    """
    if "--overwrite" in words:
        raise ScalemaniError(
            "--overwrite would start the fit over each time the client comes back: leave it out (remove an old store)"
        )


def fit_on(client: Client, options: argparse.Namespace, words: Sequence[str], *, hoped: int = 1) -> int:
    """Fit on a client's workers as soon as there is one, or soon after; the exit code of ``scalemani fit``.

    The fit is planned for the workers that are there. So `hoped` of them are waited for, but `GATHERING` seconds at
    the most; more may come and go while it runs. Signals are held afterwards, so that nothing breaks off the ending.

    Parameters
    ----------
    options : Namespace
        With `wait` and `no_worker_seconds`, as :func:`add_common` has them.

    Raises
    ------
    ClusterLostError
        If no worker comes in time.
    """
    try:
        client.wait_for_workers(1, timeout=options.wait)
    except TimeoutError:
        raise ClusterLostError(f"no worker has come within {options.wait:g} s: look at the logs of the jobs") from None
    with contextlib.suppress(TimeoutError):
        client.wait_for_workers(hoped, timeout=GATHERING)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    say(f"{len(workers)} workers, {sum(worker['nthreads'] for worker in workers)} threads; more are used as they come")
    own = {} if options.no_worker_seconds is None else {NO_WORKER_KEY: options.no_worker_seconds}
    with client.as_current(), dask.config.set(own):
        code = run(cli, list(words))
    hold_signals()
    return code


def hold_signals() -> None:
    for number in STOPPED_BY:
        signal.signal(number, signal.SIG_IGN)


def ended_by(main: Callable[[], int]) -> NoReturn:
    """Run a workflow as a program: its exit code, one line for what it refuses, clean ends by SIGTERM and Ctrl-C."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        hold_signals()
        raise Stopped

    for number in STOPPED_BY:
        signal.signal(number, stop)
    try:
        code = main()
    except click.UsageError as error:
        code = _refused(error.format_message(), 2)
    except ScalemaniError as error:
        code = _refused(str(error), 2)
    except ClusterLostError as error:
        code = _refused(str(error), 1)
    except (Stopped, KeyboardInterrupt):
        code = _refused("stopped; the same command goes on", 1)
    except (OSError, RuntimeError) as error:
        code = _refused(f"{type(error).__name__}: {' '.join(str(error).split())}", 1)
    sys.exit(code)


def _refused(message: str, code: int) -> int:
    say(f"{Path(sys.argv[0]).name}: {message}")
    return code


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- the smoke tests ----------------------------------------------------------------------------


def small_points(folder: Path) -> Path:
    """A Swiss roll that a smoke test fits."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "points.npy"
    np.save(path, swiss_roll(SMALL_POINTS, random_state=0).points)
    return path


def check_same_bits(points: Path, store: Path) -> None:
    """The fit in a store has the bits of one on threads of this process."""
    alone = store.parent / "alone.zarr"
    code = run(cli, ["fit", str(points), str(alone), *SMALL_WORDS, "--quiet", "--overwrite"])
    found, expected = (Run(RunStore(str(path))).embedding() for path in (store, alone))
    if code != 0 or not np.array_equal(found, expected):
        raise RuntimeError(f"{store} and {alone} differ by up to {np.abs(found - expected).max()}")
    print(f"{len(found)} rows, {found.shape[1]} axes: the same bits as on threads of one process")


def left_of(processes: Sequence[int], seconds: float = 20) -> list[int]:
    """Those that are still there after a while in which they may end."""
    end = time.monotonic() + seconds
    while (left := [process for process in processes if alive(process)]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def alive(process: int) -> bool:
    """Whether a process of this machine is there and no zombie."""
    with contextlib.suppress(OSError):
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
