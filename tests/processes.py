"""A Dask cluster of real processes on loopback, or on hosts of a test's own, and `scalemani` beside it as a process.

Takes a folder for logs and scratch, gives a :class:`Fleet` whose parties can be killed, stopped and started again; in
the end nothing of it is left. Each party is the leader of a process group, which its nanny's worker is in too, and
is ended as that group, by number. A worker imports :mod:`gate`, which holds tasks at places that a test chooses.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
STARTING = 60  # seconds for a process to come up, on a machine with much else to do
CONFIG = {  # of every party: short enough for tests, long enough for a crowded machine
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "60s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    "DASK_DISTRIBUTED__ADMIN__LOG_FORMAT": "%(message)s",
    "DASK_LOGGING__DISTRIBUTED": "info",
    "PYTHONUNBUFFERED": "1",
}
CLIENT = """
import importlib, json, sys
for place, value in json.loads(sys.argv[1]).items():
    module, name = place.rsplit(".", 1)
    setattr(importlib.import_module(module), name, value)
from scalemani.terminal.commands import main
main(sys.argv[2:])
"""


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds=STARTING, what="it"):
    """Wait for something that gives true, and give that back."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


class Party:
    """One process, or a nanny with its worker.

    Parameters
    ----------
    name : str
        Of its log, ``<name>.log``; `errors` has what it wrote to stderr.
    """

    def __init__(self, name, command, folder, environment):
        self.name, self.command, self.folder, self.environment = name, command, folder, environment
        self.log, self.errors, self.process = folder / f"{name}.log", folder / f"{name}.err", None

    def start(self):
        """Start it, again where it has ended; what it wrote before stays in its log."""
        assert not self.alive
        self.begun = self.errors.stat().st_size if self.errors.exists() else 0
        with open(self.log, "ab") as out, open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=self.environment,
                cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        return self

    @property
    def alive(self):
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self):
        return self.process.pid

    def said(self, text):
        """Whether it has written a text to stderr since it was last started."""
        with open(self.errors, "rb") as errors:
            errors.seek(self.begun)
            return text.encode() in errors.read()

    def signal(self, number):
        """Send a signal to all of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self):
        """SIGKILL to all of it, a stopped one as well; it is gone afterwards."""
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait(STARTING)

    def restart(self):
        self.kill()
        return self.start()

    def wait(self, seconds=STARTING):
        """Its exit code."""
        return self.process.wait(seconds)


class Fleet:
    """A scheduler, workers and clients; all of them end with the ``with`` block.

    Parameters
    ----------
    folder : Path
        For logs and the workers' scratch.
    workers : int
    memory_limit : str
        Of each worker.
    nanny : bool
    threads : int
        Of each worker.
    """

    def __init__(self, folder, workers=2, *, memory_limit="2GiB", nanny=False, threads=1, **config):
        self.folder = folder
        self.gate = folder / "gate"
        self.gate.mkdir(parents=True, exist_ok=True)
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.options = {"memory_limit": memory_limit, "nanny": nanny, "threads": threads}
        self.environment = {**os.environ, **CONFIG, "SCALEMANI_GATE": str(self.gate), **config}
        # a test's own functions are run there, too
        self.environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parent), *filter(None, sys.path)])
        self.parties, self.workers, self.scheduler, self.count = [], [], None, workers

    def __enter__(self):
        try:
            self.start_scheduler()
            for _ in range(self.count):
                self.add_worker(wait=False)
            self.wait_for_workers()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error):
        for party in reversed(self.parties):
            party.kill()

    def party(self, name, command, *, prefix=()):
        """A process of the fleet's, not started yet."""
        with_us = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()  # where a test is itself killed
        made = Party(name, [*with_us, *prefix, *map(str, command)], self.folder, self.environment)
        self.parties.append(made)
        return made

    def start_scheduler(self, *, host="127.0.0.1", prefix=()):
        """The scheduler, at the address that it keeps when it is started again."""
        port = self.address.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", port]
        self.scheduler = self.party("scheduler", [*command, "--no-dashboard", "--no-show"], prefix=prefix).start()
        until(lambda: self.scheduler.said("Scheduler at"), what="the scheduler's start")
        return self.scheduler

    def add_worker(self, *, host="127.0.0.1", prefix=(), wait=True, **options):
        """One more worker; `prefix` is a command that runs it somewhere else."""
        chosen = {**self.options, **options}
        name = f"worker-{len(self.workers)}"
        command = [
            *(sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--host", host, "--name", name),
            *("--nthreads", chosen["threads"], "--memory-limit", chosen["memory_limit"], "--no-dashboard"),
            *("--local-directory", self.folder / f"{name}-scratch", "--preload", HERE / "gate.py"),
            "--nanny" if chosen["nanny"] else "--no-nanny",
        ]
        made = self.party(name, command, prefix=prefix).start()
        self.workers.append(made)
        if wait:
            self.wait_for_workers([made])
        return made

    def wait_for_workers(self, workers=None):
        """Until workers, or all, are known to the scheduler; those that have ended are started first."""
        for worker in workers or self.workers:
            if not worker.alive:
                worker.start()
        for worker in workers or self.workers:
            until(lambda worker=worker: worker.said("Registered to:"), what=f"{worker.name}'s start")

    def restart_scheduler(self):
        """Another scheduler at the same address, and the workers anew."""
        self.scheduler.restart()
        until(lambda: self.scheduler.said("Scheduler at"), what="the scheduler's start")
        for worker in self.workers:
            worker.kill()
        self.wait_for_workers()

    def client(self, *arguments, settings=None, prefix=()):
        """``scalemani ARGUMENTS --scheduler ...`` as a process that has been started.

        Parameters
        ----------
        settings : dict, optional
            Dotted name of a constant -> its value in that process.
        """
        import json

        count = sum(party.name.startswith("client") for party in self.parties)
        command = [sys.executable, "-c", CLIENT, json.dumps(settings or {}), *arguments, "--scheduler", self.address]
        return self.party(f"client-{count}", command, prefix=prefix).start()

    # ---- the gate ------------------------------------------------------------------------------

    def hold(self, stage, first=0):
        """Have tasks of a stage ("geodesics", or "read") wait, those of rows from vertex `first` on."""
        for old in self.gate.glob("held-*"):
            old.unlink()
        (self.gate / f"hold-{stage}").write_text(str(first))

    def let_go(self):
        for held in self.gate.glob("hold-*"):
            held.unlink()

    def held(self, count=1, among=None):
        """The workers that wait in a task, once they are that many (of `among`)."""
        among = among or self.workers

        def waiting():
            groups = {int(path.name.split("-")[1]) for path in self.gate.glob("held-*")}
            found = [worker for worker in among if worker.alive and worker.pid in groups]
            return found if len(found) >= count else None

        return until(waiting, what="a task at the gate")

    def rows_computed(self):
        """First vertices of the blocks of rows that were computed, in order, since the log was last emptied."""
        log = self.gate / "rows.log"
        return [int(line) for line in log.read_text().split()] if log.exists() else []

    def forget_rows(self):
        (self.gate / "rows.log").unlink(missing_ok=True)
