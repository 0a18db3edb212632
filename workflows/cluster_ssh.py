"""A fit on machines that ssh reaches: starts a scheduler and workers there, fits, ends them by process number.

    python workflows/cluster_ssh.py points.npy run.zarr --hosts node1,node2,node3 --threads 16 --memory 60GiB \\
        --tls certificates -- --components 3
    python workflows/cluster_ssh.py points.npy run.zarr --hosts big-machine --threads 64 --tunnel
    python workflows/cluster_ssh.py --small --out tmp   # on this machine, with a stand-in for ssh

The first host has the scheduler; each has a worker (a host named twice has two). ssh must log in without a question
(keys, an agent). POINTS and STORE must have the same path on all hosts and here, where the client is. What was started
ends with this process, however that ends, and after any stop the same command goes on with what is finished. Words
after -- are those of `scalemani fit`. --tls lets only holders of a certificate in; --tunnel listens on the loopback of
one host. Without either, whoever reaches the port can run code on the hosts. See workflows/cluster.md.
"""

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from clusters import certificates, fitting
from clusters.fitting import say
from clusters.remote import STAND_IN, Remote, Tunnel
from distributed import Client

from scalemani.errors import ScalemaniError

STARTS_IN = 60.0  # seconds that a login and the import of Dask may take


def main() -> int:
    own, words = fitting.halves(sys.argv[1:])
    options = read_options(own)
    if options.small:
        return small(options)
    hosts = check(options)
    command = fitting.fit_words(options.points, options.store, words)
    with running(hosts, options) as client:
        return fitting.fit_on(client, options, command, hoped=len(hosts))


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fitting.add_common(parser, "cluster-ssh")
    parser.add_argument("--hosts", default="", help="names for ssh, with commas; the first has the scheduler too")
    parser.add_argument("--threads", type=int, default=1, help="cores to use of a host (default: %(default)s)")
    parser.add_argument("--memory", default="auto", help="memory of a worker; all of the host's unless given")
    parser.add_argument("--interface", help="network that hosts see each other on; the hosts' names unless given")
    parser.add_argument("--port", type=int, default=0, help="of the scheduler; a free one unless given")
    parser.add_argument("--tls", type=Path, metavar="DIR", help="ca.pem, cert.pem and key.pem, read by all hosts")
    parser.add_argument("--tunnel", action="store_true", help="one host: reach its loopback through ssh")
    parser.add_argument("--remote-python", default=sys.executable, help="Python on the hosts (default: %(default)s)")
    parser.add_argument("--remote-shell", default="ssh", help="ssh, or what takes its arguments")
    parser.add_argument("--local-directory", default="/tmp", help="a host's own disk, for Dask's files")
    parser.add_argument("--small", action="store_true", help="a smoke test on this machine")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> list[str]:
    """The hosts; what can't work is refused before anything is started."""
    hosts = [host for host in options.hosts.split(",") if host]
    if not hosts:
        raise ScalemaniError("give --hosts, names that ssh knows, such as --hosts node1,node2")
    if strange := [host for host in hosts if host.startswith("-")]:
        raise ScalemaniError(f"{strange[0]!r} is no host: ssh would take it for an option")
    if options.threads < 1:
        raise ScalemaniError(f"--threads {options.threads} is less than 1; give 1 or more")
    if options.tunnel and len(set(hosts)) > 1:
        raise ScalemaniError(f"--tunnel is for one host, not {len(set(hosts))}, whose workers must talk; give --tls")
    if options.tls is not None:
        certificates.pem_files(options.tls)
    elif not options.tunnel:
        say("warning: without --tls or --tunnel whoever reaches the scheduler's port can run code on the hosts")
    return hosts


def dask_command(options: argparse.Namespace, kind: str, host: str) -> list[str]:
    """A scheduler or a worker on a host, listening on one address of it."""
    if options.tunnel:
        where = ["--host", "127.0.0.1"]
    elif options.interface:
        where = ["--interface", options.interface]
    else:
        where = ["--host", host.rpartition("@")[2]]
    program = [options.remote_python, "-m", f"distributed.cli.dask_{kind}", *where]
    return [*program, "--dashboard-address", "127.0.0.1:0", *certificates.flags(options.tls)]


def worker_command(options: argparse.Namespace, host: str, scheduler: str, number: int) -> list[str]:
    return [
        *dask_command(options, "worker", host),
        scheduler,
        *("--nthreads", str(options.threads), "--memory-limit", options.memory, "--name", f"{host}-{number}"),
        *("--local-directory", options.local_directory, "--death-timeout", "60"),
    ]


@contextlib.contextmanager
def running(hosts: list[str], options: argparse.Namespace) -> Iterator[Client]:
    """A client of a scheduler with workers on the hosts; all of them gone afterwards."""
    shell = shlex.split(options.remote_shell)
    with contextlib.ExitStack() as stack:
        command = [*dask_command(options, "scheduler", hosts[0]), "--port", str(options.port)]
        scheduler = stack.enter_context(Remote(shell, hosts[0], command, fitting.ONE_THREAD))
        say(f"scheduler on {hosts[0]}: process {scheduler.started(STARTS_IN)}")
        address = scheduler.wait_for(r"Scheduler at:\s+((?:tcp|tls)://\S+:\d+)", STARTS_IN)
        workers = []
        stack.callback(end_together, workers)
        for number, host in enumerate(hosts):
            command = worker_command(options, host, address, number)
            workers.append(Remote(shell, host, command, fitting.ONE_THREAD))
        for worker in workers:
            say(f"worker on {worker.host}: process {worker.started(STARTS_IN)}")
        if options.tunnel:
            here, there = free_port(), int(address.rpartition(":")[2])
            stack.enter_context(Tunnel(shell, hosts[0], here, there))
            address = f"{address.partition('://')[0]}://127.0.0.1:{here}"
        secured = certificates.security(options.tls)
        with Client(address, security=secured, timeout=STARTS_IN, set_as_default=False) as client:
            yield client


def end_together(workers: list[Remote]) -> None:
    """All at once, so that the last is not kept waiting by the others."""
    for worker in workers:
        worker.let_go()
    for worker in workers:
        worker.end()  # which raises nothing, so that each gets its turn


def free_port() -> int:
    """A port of this machine's loopback that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


# ---- the smoke test -----------------------------------------------------------------------------


def small(options: argparse.Namespace) -> int:
    """A "host" on this machine's loopback, stopped by SIGTERM as the fit begins; then one through a tunnel goes on."""
    out = options.out.absolute()
    points, store = fitting.small_points(out), out / "run.zarr"
    shutil.rmtree(store, ignore_errors=True)
    shell = out / "ssh-stand-in"
    shell.write_text(STAND_IN.format(python=sys.executable))
    shell.chmod(0o755)
    secured = certificates.make_certificates(out / "certificates")
    print("TLS" if secured else "no TLS: there is no openssl here")
    common = ["--remote-shell", shlex.quote(str(shell)), "--local-directory", str(out), "--memory", "1GiB"]
    tls = ["--tls", str(out / "certificates")] if secured else []
    before = [str(points), str(store), "--hosts", "127.0.0.1", *common, *tls, "--"]
    lines = stopped_in_mid_run([*before, *fitting.SMALL_WORDS])
    processes = [int(line.rpartition("process ")[2]) for line in lines if ": process " in line]
    left = fitting.left_of(processes)
    if len(processes) != 2 or left:
        raise RuntimeError(
            f"{len(processes)} processes were started, {len(left)} are left: {left}\n" + "\n".join(lines)
        )
    print("stopped by SIGTERM; scheduler and worker are gone; the same store, by a tunnel:")
    after = read_options([str(points), str(store), "--hosts", "127.0.0.1", *common, "--tunnel"])
    command = fitting.fit_words(after.points, after.store, fitting.SMALL_WORDS)
    with running(check(after), after) as client:
        code = fitting.fit_on(client, after, command)
    if code != 0:
        raise RuntimeError(f"the fit ended with code {code}")
    fitting.check_same_bits(points, store)
    return 0


def stopped_in_mid_run(arguments: list[str]) -> list[str]:
    """Run this workflow and end it by SIGTERM when its workers are there; the lines that it said."""
    command = [sys.executable, __file__, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ)
    lines, stopped = [], False
    assert child.stderr is not None
    for line in child.stderr:
        lines.append(line.rstrip())
        if not stopped and " threads; " in line:
            child.send_signal(signal.SIGTERM)
            stopped = True
    code = child.wait(30)
    if not stopped or code != 1:
        raise RuntimeError(f"SIGTERM should end it with code 1, not {code}\n" + "\n".join(lines))
    return lines


if __name__ == "__main__":
    fitting.ended_by(main)
