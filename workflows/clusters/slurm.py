"""Slurm's arithmetic and scripts: time limits, memory, the client's job, an inspection, stand-ins for a test.

Takes Slurm's own words, gives seconds, bytes and texts; nothing here needs Slurm or dask-jobqueue.
"""

import argparse
import contextlib
import math
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from dask.utils import parse_bytes

from clusters.fitting import ONE_THREAD
from scalemani.errors import ScalemaniError

#: Bytes of a job that no task has: its nanny, and what Slurm counts and Dask does not.
RESERVE = 512 * 2**20
SHORTEST = 600


def seconds(walltime: str) -> int:
    """Seconds of a time limit: "90", "30:00", "4:00:00", "1-12", "1-12:30" or "1-12:30:00", as Slurm reads them.

    Raises
    ------
    ScalemaniError
    """
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", walltime)
    if found is None:
        raise ScalemaniError(f"{walltime!r} is no time limit of Slurm's; give one such as 4:00:00 or 1-12:00:00")
    days, *rest = found.groups()
    numbers = [int(number) for number in rest if number is not None]
    if days is None and len(numbers) < 3:  # minutes, and minutes:seconds
        numbers.insert(0, 0)
    hours, minutes, left = (*numbers, 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + left


def lifetime(walltime: str) -> tuple[int, int]:
    """Seconds after which a worker ends itself, and by how much these differ between workers.

    The last is gone a twentieth of the time, 60 to 300 s, before Slurm ends its job: time to start before, and to
    finish a task and hand over results afterwards. They don't end all at once.

    Raises
    ------
    ScalemaniError
        The limit is shorter than ten minutes.
    """
    total = seconds(walltime)
    if total < SHORTEST:
        raise ScalemaniError(f"a time limit of {total} s leaves workers no time; give {SHORTEST} s (10:00) or more")
    margin = stagger = min(max(total // 20, 60), 300)
    return total - margin - stagger, stagger


def worker_memory(memory: str) -> int:
    """Bytes of the worker in a job of `memory`.

    Raises
    ------
    ScalemaniError
        Not a size, or one that leaves less than the reserve itself.
    """
    try:
        total = parse_bytes(memory)
    except ValueError:
        raise ScalemaniError(f"{memory!r} is no size; give one such as 64GiB") from None
    if total < 2 * RESERVE:
        raise ScalemaniError(f"a job of {memory} is too small; give 1GiB or more, half a GiB of it for Dask's own")
    return total - RESERVE


def client_script(options: argparse.Namespace, own: list[str], words: list[str], notice: int) -> str:
    """The client's job: Python is the batch shell itself, so that Slurm's signal comes to it."""
    own = [word for word in own if word != "--print"]
    script = Path(sys.argv[0]).absolute()
    command = shlex.join([sys.executable, str(script), *own, *(["--", *words] if words else [])])
    head = [
        "-J scalemani",
        *([f"-p {options.partition}"] if options.partition else []),
        *([f"-A {options.account}"] if options.account else []),
        "-n 1",
        f"--cpus-per-task={options.cores}",
        f"--mem={math.ceil(parse_bytes(options.memory) / 2**20)}M",
        f"-t {options.walltime}",
        "--requeue",
        "--open-mode=append",
        f"--signal=B:USR1@{notice}",
    ]
    lines = ["#!/usr/bin/env bash", *(f"#SBATCH {line}" for line in head)]
    lines += [f"export {name}={value}" for name, value in ONE_THREAD.items()]
    return "\n".join([*lines, f"cd {shlex.quote(os.getcwd())} && exec {command}"])


def directives(script: str) -> dict[str, str]:
    """The #SBATCH lines by option: "--mem=2G" and "-t 20:00" alike."""
    lines = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]
    parts = (re.split(r"[= ]", line, maxsplit=1) for line in lines)
    return {part[0]: part[1] if len(part) > 1 else "" for part in parts}


def worker_command(script: str) -> tuple[str, dict[str, str]]:
    """The scheduler's address and the options of the worker that a script starts."""
    line = next(line for line in script.splitlines() if "distributed.cli.dask_worker" in line)
    words = shlex.split(line)
    after = words[words.index("distributed.cli.dask_worker") + 1 :]
    options = {
        word: after[place + 1] if place + 1 < len(after) and not after[place + 1].startswith("--") else ""
        for place, word in enumerate(after)
        if word.startswith("--")
    }
    return after[0], options


def inspect(script: str, options: argparse.Namespace) -> None:
    """Hold a worker's job script against what was asked for.

    Raises
    ------
    RuntimeError
        Naming each line that differs.
    """
    asked, (address, command) = directives(script), worker_command(script)
    given, stagger = lifetime(options.walltime)
    exports = dict(
        line.removeprefix("export ").split("=") for line in script.splitlines() if line.startswith("export ")
    )
    job_bytes, worker_bytes = parse_bytes(f"{asked['--mem'].rstrip('M')}MiB"), parse_bytes(command["--memory-limit"])
    latest = _span(command["--lifetime"]) + _span(command["--lifetime-stagger"])
    rules = {
        "one task": asked["-n"] == "1",
        "cores": asked["--cpus-per-task"] == str(options.cores),
        "threads are cores": command["--nthreads"] == str(options.cores) and "--nworkers" not in command,
        "one BLAS thread": {name: exports.get(name) for name in ONE_THREAD} == ONE_THREAD,
        "memory": abs(job_bytes - parse_bytes(options.memory)) < 2**20,
        "the worker's memory is within": worker_bytes <= job_bytes - 0.9 * RESERVE,
        "time": seconds(asked["-t"]) == seconds(options.walltime),
        "ends before Slurm does": latest <= seconds(asked["-t"]) - 60 and latest == given + stagger,
        "not requeued": "--no-requeue" in asked,
        "local directory": command["--local-directory"] == options.local_directory,
        "interface": command["--interface"] == options.interface,
        "no other address": not {"--host", "--listen-address", "--contact-address"} & set(command),
        "dashboard": command["--dashboard-address"] == "127.0.0.1:0",
        "scheme": address.startswith("tls://" if options.tls else "tcp://"),
        "certificates": ("--tls-key" in command) == (options.tls is not None),
        "partition": asked.get("-p") == options.partition and asked.get("-A") == options.account,
        "ends without a scheduler": float(command["--death-timeout"]) > 0,
    }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise RuntimeError(f"the job script breaks: {', '.join(broken)}\n{script}")


def _span(span: str) -> int:
    """Seconds of "1020s"."""
    return int(span.removesuffix("s"))


# ---- stand-ins ----------------------------------------------------------------------------------

SBATCH = """#!/usr/bin/env bash
# Starts the script at once, in a process group of its own, and answers as sbatch does.
cd {folder}
number=$$ # two come at the same time
cp "${{@: -1}}" job-$number.sh
setsid bash job-$number.sh >job-$number.out 2>&1 </dev/null &
echo $! >job-$number.pid
echo "Submitted batch job $number"
"""

SCANCEL = """#!/usr/bin/env bash
cd {folder}
kill -TERM -- -$(cat job-$1.pid) 2>/dev/null
"""


class Queue:
    """The folder of the stand-ins: a script and a process number for each job that was submitted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def submitted(self) -> list[Path]:
        return sorted(self.folder.glob("job-*.sh"))

    def processes(self) -> list[int]:
        return [int(path.read_text()) for path in self.folder.glob("job-*.pid")]


@contextlib.contextmanager
def stand_ins(folder: Path) -> Iterator[Queue]:
    """`sbatch` and `scancel` on PATH that run jobs on this machine; what they left is ended."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("job-*"):
        old.unlink()
    for name, text in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (folder / name).write_text(text.format(folder=shlex.quote(str(folder))))
        (folder / name).chmod(0o755)
    before, queue = os.environ["PATH"], Queue(folder)
    os.environ["PATH"] = f"{folder}{os.pathsep}{before}"
    try:
        yield queue
    finally:
        os.environ["PATH"] = before
        for process in queue.processes():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, 15)
