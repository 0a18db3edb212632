"""A fit on a Slurm cluster, by dask-jobqueue: worker jobs that end before Slurm ends them, a client job that goes on.

    python workflows/cluster_slurm.py points.npy run.zarr --interface ib0 --jobs 20 --cores 16 --memory 64GiB \\
        --walltime 4:00:00 --print -- --components 3   # shows the job scripts of the client and of a worker
    python workflows/cluster_slurm.py --small --out tmp   # the scripts inspected and run, with stand-ins for Slurm

`--print` starts nothing. Save its first script as client.sh and `sbatch client.sh`: the client job holds the scheduler,
submits the workers' jobs, replaces each that ends, and is put back in the queue when its own time is up; or run the
command itself where it may stay (a login node, `salloc`). After any stop the same command goes on with what is
finished. POINTS, STORE and Python must have the same path on all nodes. Words after -- are those of `scalemani fit`.
Needs dask-jobqueue (`pip install ".[cluster]" -c constraints.txt`). See workflows/cluster.md.
"""

import argparse
import contextlib
import math
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from clusters import certificates, fitting, slurm
from clusters.fitting import say
from dask.utils import parse_bytes
from dask_jobqueue import SLURMCluster
from distributed import Client

from scalemani.errors import ScalemaniError
from scalemani.terminal.console import Stopped

SECONDS_BETWEEN_LOOKS = 15.0
SUBMITTING_SECONDS = 300.0  # for sbatch, where Slurm's controller is busy
NO_WORKER_SECONDS = 86400.0  # all jobs may end at about one time, and those in their place queue for hours
NOTICE = 180  # seconds before the end of the client's job at which Slurm is asked to say so


def main() -> int:
    own, words = fitting.halves(sys.argv[1:])
    options = read_options(own)
    if options.small:
        return small(options)
    check(options)
    fitting.check_goes_on(words)
    command = fitting.fit_words(options.points, options.store, words)
    if options.print:
        print(slurm.client_script(options, own, words, NOTICE))
        print(f"\n# ---- and of each worker, which the client submits\n\n{worker_script(options)}")
        return 0
    requeue = on_time_limit()
    try:
        code = fit(options, command)
    except (Stopped, KeyboardInterrupt):  # before the fit has begun, or at its end
        if not requeue.is_set():
            raise
        code = 1
    return requeued(code, options.store) if code != 0 and requeue.is_set() else code


def fit(options: argparse.Namespace, command: list[str]) -> int:
    with running(options) as client:
        return fitting.fit_on(client, options, command, hoped=math.ceil(options.jobs / 2))


def requeued(code: int, store: str) -> int:
    """Put this job back into the queue; the exit code, which Slurm then takes no notice of."""
    job = os.environ.get("SLURM_JOB_ID")
    if job is None:
        say(f"stopped by SIGUSR1, and this is no job of Slurm's: the same command goes on from {store}")
        return code
    say(f"the time is up: job {job} goes back into the queue and goes on from {store}")
    done = subprocess.run(["scontrol", "requeue", job], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        say(f"scontrol refused ({' '.join(done.stderr.split())}): submit the same script again")
    return code


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fitting.add_common(parser, "cluster-slurm", wait=None, no_worker=NO_WORKER_SECONDS)
    parser.add_argument("--interface", help="network that nodes see each other on, such as ib0 (ip -br address)")
    parser.add_argument("--jobs", type=int, default=4, help="worker jobs to keep in the queue (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=8, help="cores of a job, each a thread (default: %(default)s)")
    parser.add_argument("--memory", default="32GiB", help="memory of a job (default: %(default)s)")
    parser.add_argument("--walltime", default="1:00:00", help="time limit of a job, as Slurm writes it")
    parser.add_argument("--partition")
    parser.add_argument("--account")
    parser.add_argument("--local-directory", default="${TMPDIR:-/tmp}", help="a node's own disk, for Dask's files")
    parser.add_argument("--log-directory", help="of the jobs' outputs; where sbatch was called unless given")
    parser.add_argument("--tls", type=Path, metavar="DIR", help="ca.pem, cert.pem and key.pem, read by all nodes")
    parser.add_argument("--print", action="store_true", help="show the job scripts; start nothing")
    parser.add_argument("--small", action="store_true", help="a smoke test on this machine")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> None:
    """What can't work, before anything is started."""
    if options.interface is None:
        raise ScalemaniError("give --interface, the network that nodes see each other on; `ip -br address` lists them")
    for name in ("jobs", "cores"):
        if getattr(options, name) < 1:
            raise ScalemaniError(f"--{name} {getattr(options, name)} is less than 1; give 1 or more")
    slurm.worker_memory(options.memory)
    slurm.lifetime(options.walltime)
    if options.tls is not None:
        certificates.pem_files(options.tls)


def job_options(options: argparse.Namespace) -> dict:
    """What dask-jobqueue makes a worker's job of."""
    lifetime, stagger = slurm.lifetime(options.walltime)
    return {
        "cores": options.cores,
        "processes": 1,  # kernels leave the interpreter's lock, and threads of one process share the graph
        "memory": f"{slurm.worker_memory(options.memory)}B",
        "job_mem": f"{math.ceil(parse_bytes(options.memory) / 2**20)}M",
        "walltime": options.walltime,
        "interface": options.interface,
        "queue": options.partition,
        "account": options.account,
        "local_directory": options.local_directory,
        "log_directory": options.log_directory,
        "job_name": "scalemani-worker",
        "death_timeout": 120,  # a worker whose client has gone ends its job
        "job_script_prologue": [f"export {name}={value}" for name, value in fitting.ONE_THREAD.items()],
        # A job that Slurm starts again would be a second one of its name: the client replaces what ends.
        "job_extra_directives": ["--no-requeue"],
        "worker_extra_args": [
            *("--lifetime", f"{lifetime}s", "--lifetime-stagger", f"{stagger}s"),
            *("--dashboard-address", "127.0.0.1:0"),
        ],
    }


def worker_script(options: argparse.Namespace) -> str:
    """A worker's job script, without a scheduler."""
    secured = certificates.security(options.tls)
    made = {"security": secured, "protocol": "tls://"} if secured else {}
    scheme = "tls" if secured else "tcp"
    return SLURMCluster.job_cls(f"{scheme}://SCHEDULER:PORT", name="NAME", **job_options(options), **made).job_script()


@contextlib.contextmanager
def running(options: argparse.Namespace) -> Iterator[Client]:
    """A client of a scheduler in this process, with its jobs in the queue; all gone afterwards."""
    scheduler = {"interface": options.interface, "dashboard_address": "127.0.0.1:0"}
    secured = certificates.security(options.tls)
    with SLURMCluster(**job_options(options), security=secured, scheduler_options=scheduler) as cluster:
        say(f"scheduler {cluster.scheduler_address}, {options.jobs} jobs of {options.cores} cores")
        done = threading.Event()
        keeper = threading.Thread(target=keep_jobs, args=(cluster, options.jobs, done), daemon=True)
        keeper.start()
        try:
            with Client(cluster, set_as_default=False) as client:
                yield client
        finally:
            done.set()
            keeper.join(SUBMITTING_SECONDS)


def keep_jobs(cluster: SLURMCluster, jobs: int, done: threading.Event) -> None:
    """Submit jobs, and each again that has ended; what Slurm refuses is said and tried again."""
    said = ""
    while not done.is_set():
        try:
            cluster.sync(submitted, cluster, jobs, callback_timeout=SUBMITTING_SECONDS)
            said = ""
        except Exception as error:  # of any kind: without this thread no job is ever replaced
            line = " ".join(f"{type(error).__name__}: {error}".split())
            if line != said:
                say(f"a job could not be submitted, which is tried again every {SECONDS_BETWEEN_LOOKS:g} s: {line}")
            said = line
        done.wait(SECONDS_BETWEEN_LOOKS)


async def submitted(cluster: SLURMCluster, jobs: int) -> None:
    """Have `jobs` jobs, those that are lacking submitted now; on the cluster's loop.

    This is what its `scale` does later and unseen. That takes a job for submitted whose sbatch failed.

    Raises
    ------
    Exception
        What sbatch said.
    """
    while len(cluster.worker_spec) < jobs:
        cluster.worker_spec.update(cluster.new_worker_spec())
    try:
        await cluster._correct_state()
    finally:
        for name, job in list(cluster.workers.items()):
            if job.job_id is None:
                del cluster.workers[name]


def on_time_limit() -> threading.Event:
    """SIGUSR1, Slurm's notice by `--signal=B:USR1`, stops the fit as SIGTERM does; the event says that it was that."""
    came = threading.Event()

    def notice(number: int, frame: object) -> None:
        came.set()
        signal.raise_signal(signal.SIGTERM)

    signal.signal(signal.SIGUSR1, notice)
    return came


def small(options: argparse.Namespace) -> int:
    """Inspect the scripts, then fit with workers that bash starts from them, by stand-ins for sbatch and scancel."""
    out = options.out.absolute()
    points, store = fitting.small_points(out), out / "run.zarr"
    own = f"{points} {store} --interface lo --jobs 1 --cores 2 --memory 2GiB --walltime 20:00"
    options = read_options([*shlex.split(own), "--local-directory", str(out), "--wait", "60"])
    check(options)
    slurm.inspect(worker_script(options), options)
    words = [*fitting.SMALL_WORDS, "--overwrite"]
    print(slurm.client_script(options, own.split(), list(fitting.SMALL_WORDS), NOTICE))
    command = fitting.fit_words(options.points, options.store, words)
    with slurm.stand_ins(out / "slurm") as queue, running(options) as client:
        client.wait_for_workers(options.jobs, timeout=options.wait)
        addresses = [client.scheduler.address, *client.scheduler_info(n_workers=-1)["workers"]]
        if not all(address.startswith("tcp://127.0.0.1:") for address in addresses):
            raise RuntimeError(f"not on lo alone: {addresses}")
        code = fitting.fit_on(client, options, command, hoped=options.jobs)
    for job in queue.submitted():
        slurm.inspect(job.read_text(), options)
    left = fitting.left_of(queue.processes())
    if code != 0 or len(queue.submitted()) < options.jobs or left:
        raise RuntimeError(f"code {code}, {len(queue.submitted())} jobs submitted, processes left: {left}")
    print(f"{options.jobs} job by sbatch, as inspected, and gone:\n\n{queue.submitted()[0].read_text()}")
    fitting.check_same_bits(points, store)
    return 0


if __name__ == "__main__":
    fitting.ended_by(main)
