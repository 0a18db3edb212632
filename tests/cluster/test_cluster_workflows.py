"""What the cluster workflows ask of Slurm, Kubernetes and ssh: arithmetic, job scripts, manifests, command lines.

The scripts themselves are run, with --small, by .ci/run; nothing here starts a cluster.
"""

import copy
import itertools
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
import cluster_kubernetes
import cluster_slurm
import cluster_ssh
import numpy as np
import pytest
from clusters import certificates, fitting, kubernetes, manifest_rules, remote, slurm

from scalemani.errors import ScalemaniError

WORKFLOWS = Path(cluster_slurm.__file__).parent


@pytest.fixture
def certificate_folder(tmp_path):
    for name in certificates.FILES:
        (tmp_path / name).write_text("")
    return tmp_path


# ---- Slurm ---------------------------------------------------------------------------------------

SLURM = "points.npy run.zarr --interface ib0 --cores 16 --memory 64GiB --walltime 4:00:00 --partition long"


@pytest.mark.parametrize(
    ("walltime", "expected"),
    [("90", 5400), ("30:15", 1815), ("4:00:00", 14400), ("1-12", 129600), ("1-12:30", 131400), ("2-0:0:5", 172805)],
)
def test_time_limits_are_read_as_slurm_reads_them(walltime, expected):
    """The six forms of sbatch's manual; a lone number is minutes."""
    assert slurm.seconds(walltime) == expected


@pytest.mark.parametrize("walltime", ["10:00", "30:00", "4:00:00", "7-0"])
def test_the_last_worker_is_gone_a_minute_to_five_before_slurm_ends_its_job(walltime):
    lifetime, stagger = slurm.lifetime(walltime)
    assert 60 <= slurm.seconds(walltime) - (lifetime + stagger) <= 300
    assert 0 < stagger < lifetime - stagger


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--walltime 9:59", "a time limit of 599 s leaves workers no time; give 600 s"),
        ("--walltime tomorrow", "'tomorrow' is no time limit of Slurm's"),
        ("--memory 1000MiB", "a job of 1000MiB is too small"),
        ("--memory much", "'much' is no size"),
        ("--cores 0", "--cores 0 is less than 1"),
        ("--jobs 0", "--jobs 0 is less than 1"),
        ("--tls /nowhere", "/nowhere has no ca.pem"),
    ],
)
def test_what_slurm_could_not_run_is_refused_before_anything_starts(words, message):
    with pytest.raises(ScalemaniError, match=message):
        cluster_slurm.check(cluster_slurm.read_options(shlex.split(f"{SLURM} {words}")))


def test_an_interface_must_be_named():
    """Without one the scheduler would listen on every address of its node."""
    with pytest.raises(ScalemaniError, match="give --interface"):
        cluster_slurm.check(cluster_slurm.read_options(["points.npy", "run.zarr"]))


@pytest.mark.parametrize("secured", [False, True])
def test_a_workers_job_script_asks_for_what_was_given(secured, certificate_folder):
    extra = ["--tls", str(certificate_folder)] if secured else []
    options = cluster_slurm.read_options([*shlex.split(SLURM), *extra])
    script = cluster_slurm.worker_script(options)
    slurm.inspect(script, options)
    asked, (address, command) = slurm.directives(script), slurm.worker_command(script)
    assert (asked["--cpus-per-task"], asked["--mem"], asked["-t"], asked["-p"]) == ("16", "65536M", "4:00:00", "long")
    assert (command["--nthreads"], command["--memory-limit"], command["--interface"]) == ("16", "63.50GiB", "ib0")
    assert command["--lifetime"] == "13800s"
    assert address == ("tls" if secured else "tcp") + "://SCHEDULER:PORT"


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("--nthreads 16", "--nthreads 32", "threads are cores"),
        ("--cpus-per-task=16", "--cpus-per-task=8", "cores"),
        ("export OMP_NUM_THREADS=1", "export OMP_NUM_THREADS=16", "one BLAS thread"),
        ("--memory-limit 63.50GiB", "--memory-limit 64.00GiB", "the worker's memory is within"),
        ("--lifetime 13800s", "--lifetime 14400s", "ends before Slurm does"),
        ("--interface ib0", "--interface ib0 --host 0.0.0.0", "no other address"),
        ("--dashboard-address 127.0.0.1:0", "--dashboard-address :0", "dashboard"),
        ("#SBATCH --no-requeue", "#SBATCH --requeue", "not requeued"),
        ("tcp://", "tls://", "scheme"),
    ],
)
def test_the_inspection_finds_each_fault_by_its_name(before, after, rule):
    options = cluster_slurm.read_options(shlex.split(SLURM))
    script = cluster_slurm.worker_script(options)
    assert before in script
    with pytest.raises(RuntimeError, match=f"breaks: {rule}\n"):
        slurm.inspect(script.replace(before, after), options)


def test_the_clients_job_comes_back_with_the_same_command_and_python_gets_the_signal(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cluster_slurm.py"])
    options, words = cluster_slurm.read_options(shlex.split(SLURM)), ["--components", "3"]
    script = slurm.client_script(options, [*shlex.split(SLURM), "--print"], words, 180)
    asked = slurm.directives(script)
    assert asked["--signal"] == "B:USR1@180" and "--requeue" in asked and asked["--open-mode"] == "append"
    last = shlex.split(script.splitlines()[-1])
    assert last[:4] == ["cd", str(Path.cwd()), "&&", "exec"]  # exec: the batch shell, which is told, is Python
    assert last[6:] == [*shlex.split(SLURM), "--", *words]


def test_slurms_notice_stops_a_run_as_sigterm_does_and_is_remembered():
    """And SIGTERM alone, which preemption sends, is no reason to requeue: Slurm does that itself."""

    def stop(number, frame):
        raise InterruptedError(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGUSR1)}
    try:
        came = cluster_slurm.on_time_limit()
        with pytest.raises(InterruptedError, match=str(int(signal.SIGTERM))):
            signal.raise_signal(signal.SIGTERM)
        assert not came.is_set()
        with pytest.raises(InterruptedError, match=str(int(signal.SIGTERM))):
            signal.raise_signal(signal.SIGUSR1)
        assert came.is_set()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---- Kubernetes ----------------------------------------------------------------------------------

KUBERNETES = "/data/x.npy /data/run.zarr --image example.org/s:1 --claim shared --cores 8 --memory 32Gi --workers 20"


def settings_and_manifests(extra=""):
    options = cluster_kubernetes.read_options(shlex.split(f"{KUBERNETES} {extra}"))
    cluster_kubernetes.check(options, [])
    fields = kubernetes.Settings.__dataclass_fields__
    settings = kubernetes.Settings(**{name: getattr(options, name) for name in fields})
    job = kubernetes.fit_job(settings, [options.points, options.store])
    return settings, [kubernetes.dask_cluster(settings), kubernetes.network_policy(settings), job]


@pytest.mark.parametrize("extra", ["", "--tls-secret certificates"])
def test_manifests_have_documented_fields_and_commands_that_dask_reads(extra):
    settings, manifests = settings_and_manifests(extra)
    manifest_rules.inspect(manifests, settings)
    read = manifest_rules.parse_commands(manifests)
    scheme = "tls" if extra else "tcp"
    address = f"{scheme}://scalemani-scheduler.default.svc.cluster.local:8786"
    worker = read["worker"]
    assert (worker["scheduler"], worker["nthreads"], worker["protocol"]) == (address, 8, "tls" if extra else None)
    assert int(worker["memory_limit"]) == 32 * 2**30 - kubernetes.RESERVE
    assert read["fit"]["scheduler"] == address and read["scheduler"]["protocol"] == worker["protocol"]


def cluster_of(manifests):
    return manifests[0]["spec"]


@pytest.mark.parametrize(
    ("break_it", "rule"),
    [
        (lambda m: cluster_of(m)["scheduler"].pop("service"), "lacks service"),
        (lambda m: cluster_of(m)["worker"].update(replica=3), "has replica, which is not documented"),
        (lambda m: cluster_of(m)["worker"]["spec"].update(restartPolicy="Never"), "worker: restart policy"),
        (lambda m: m[2]["spec"]["template"]["spec"].update(restartPolicy="Always"), "client: restart policy"),
        (
            lambda m: cluster_of(m)["worker"]["spec"]["containers"][0]["volumeMounts"][0].update(mountPath="/other"),
            "worker: worker mounts the claim where all do",
        ),
        (
            lambda m: cluster_of(m)["worker"]["spec"]["containers"][0]["resources"]["limits"].update(memory="64Gi"),
            "worker: worker has a memory limit",
        ),
        (lambda m: m[2]["spec"]["template"]["spec"]["volumes"].clear(), "client: the claim"),
        (lambda m: m[0].update(apiVersion="kubernetes.dask.org/v2"), "apiVersion kubernetes.dask.org/v2"),
    ],
)
def test_each_fault_of_a_manifest_is_found(break_it, rule):
    settings, manifests = settings_and_manifests()
    broken = copy.deepcopy(manifests)
    break_it(broken)
    with pytest.raises(RuntimeError, match=rule):
        manifest_rules.inspect(broken, settings)


def test_certificates_that_one_pod_lacks_are_found():
    settings, manifests = settings_and_manifests()
    with pytest.raises(RuntimeError, match=r"client: certificates.*client: fit encrypts"):
        manifest_rules.inspect(manifests, replace(settings, tls_secret="certificates"))


def test_the_policy_lets_in_the_clusters_own_pods_and_the_operator_to_one_port():
    _, (cluster, policy, job) = settings_and_manifests()
    own = {"matchLabels": {"dask.org/cluster-name": cluster["metadata"]["name"]}}
    first, second = policy["spec"]["ingress"]
    assert policy["spec"]["podSelector"] == own and first == {"from": [{"podSelector": own}]}
    assert [port["port"] for port in second["ports"]] == [kubernetes.PORTS["http-dashboard"]]
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= own["matchLabels"].items()  # so that the client is one of them
    assert labels["dask.org/component"] != cluster["spec"]["scheduler"]["service"]["selector"]["dask.org/component"]


def test_a_fit_that_was_cut_off_runs_again_and_wrong_use_does_not():
    _, (_, _, job) = settings_and_manifests()
    rules = job["spec"]["podFailurePolicy"]["rules"]
    assert rules[0] == {
        "action": "FailJob",
        "onExitCodes": {"containerName": "fit", "operator": "In", "values": [2]},
    }
    assert job["spec"]["parallelism"] == 1  # one writer


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--mount /elsewhere", "/data/x.npy is not below --mount /elsewhere"),
        ("--memory 32GiB", "'32GiB' is no size of Kubernetes'"),
        ("--memory 900Mi", "a pod of 900Mi is too small"),
        ("--name Scalemani", "--name 'Scalemani' is no name"),
        ("--operator-namespace -x", "expected one argument"),
        ("--workers 0", "--workers 0 is less than 1"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_here(words, message, capsys):
    with pytest.raises((ScalemaniError, SystemExit)) as refusal:
        cluster_kubernetes.check(cluster_kubernetes.read_options(shlex.split(f"{KUBERNETES} {words}")), [])
    assert message in str(refusal.value) + capsys.readouterr().err


# ---- ssh -----------------------------------------------------------------------------------------

SSH = "points.npy run.zarr --hosts me@one,two --threads 8 --memory 20GiB --remote-python /opt/python"


def test_workers_listen_on_their_host_alone_and_their_pages_on_loopback(certificate_folder):
    options = cluster_ssh.read_options([*shlex.split(SSH), "--tls", str(certificate_folder)])
    command = cluster_ssh.worker_command(options, "me@one", "tls://10.0.0.1:9", 0)
    following = dict(itertools.pairwise(command))
    assert command[:3] == ["/opt/python", "-m", "distributed.cli.dask_worker"] and "tls://10.0.0.1:9" in command
    assert (following["--host"], following["--dashboard-address"]) == ("one", "127.0.0.1:0")
    assert (following["--nthreads"], following["--memory-limit"], following["--protocol"]) == ("8", "20GiB", "tls")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--hosts ,", "give --hosts"),
        ("--hosts=-oProxyCommand=x", "'-oProxyCommand=x' is no host"),
        ("--tunnel", "--tunnel is for one host, not 2"),
        ("--threads 0", "--threads 0 is less than 1"),
    ],
)
def test_hosts_that_can_not_be_reached_so_are_refused(words, message):
    with pytest.raises(ScalemaniError, match=message):
        cluster_ssh.check(cluster_ssh.read_options([*shlex.split(SSH), *words.split()]))


def test_ports_open_to_all_are_warned_about(capsys, certificate_folder):
    cluster_ssh.check(cluster_ssh.read_options(shlex.split(SSH)))
    assert "whoever reaches the scheduler's port can run code" in capsys.readouterr().err
    cluster_ssh.check(cluster_ssh.read_options([*shlex.split(SSH), "--tls", str(certificate_folder)]))
    assert capsys.readouterr().err == ""


@pytest.fixture
def shell(tmp_path):
    path = tmp_path / "ssh-stand-in"
    path.write_text(remote.STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    return [str(path)]


def until_dead(process):
    end = time.monotonic() + 20
    while fitting.alive(process):
        assert time.monotonic() < end, f"{process} is alive"
        time.sleep(0.01)


def test_a_remote_program_gets_its_words_and_variables_as_they_are_and_ends_with_the_block(shell):
    code = "import os, sys, time; print('said', sys.argv[1], os.environ['IT'], flush=True); time.sleep(60)"
    word = "two words; $HOME 'quoted'"
    with remote.Remote(shell, "host", [sys.executable, "-c", code, word], {"IT": "$x"}) as program:
        process = program.started(20)
        assert program.wait_for(r"said (.*)", 20) == f"{word} $x"
        assert fitting.alive(process)
    until_dead(process)


def test_a_remote_program_ends_when_this_process_is_killed(shell):
    code = (
        f"import sys; sys.path.append({str(WORKFLOWS)!r}); from clusters.remote import Remote; import time; "
        f"print(Remote({shell!r}, 'host', ['sleep', '60']).started(20), flush=True); time.sleep(60)"
    )
    client = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    process = int(client.stdout.readline())
    assert fitting.alive(process)
    client.send_signal(signal.SIGKILL)
    client.wait()
    client.stdout.close()
    until_dead(process)


def test_a_remote_program_that_fails_says_its_last_line(shell):
    message = r"host: .*ssh-stand-in and what it started .* no such thing"
    program = remote.Remote(shell, "host", ["sh", "-c", "echo no such thing; exit 3"])
    with program, pytest.raises(RuntimeError, match=message):
        program.wait_for(r"Scheduler at: (\S+)", 20)


DEAF = """#!/bin/sh
case "$*" in
*kill\\ -KILL*) exec {second};;
*) echo process 999999; trap '' TERM; exec sleep 60;;
esac
"""


@pytest.mark.parametrize("second", ["sleep 60", "false"])
def test_a_host_that_gives_no_answer_is_named_and_the_others_are_ended(tmp_path, monkeypatch, capsys, shell, second):
    """Neither the end of its input nor a second login comes through."""
    path = tmp_path / "deaf"
    path.write_text(DEAF.format(second=second))
    path.chmod(0o755)
    monkeypatch.setattr(remote, "KILLING", 0.1)
    monkeypatch.setattr(remote, "ENDING", 0.1)
    deaf = remote.Remote([str(path)], "far", ["true"])
    with remote.Remote(shell, "near", ["sleep", "60"]) as near:
        process = near.started(20)
        assert deaf.started(20) == 999999
        cluster_ssh.end_together([deaf, near])
        until_dead(process)
    assert "far gives no answer: process 999999 may still run there" in capsys.readouterr().err


# ---- all of them -----------------------------------------------------------------------------------


def test_the_fits_own_options_are_checked_before_a_cluster_is_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", X=np.eye(3))
    assert fitting.halves(["a", "--b", "--", "-p", "3"]) == (["a", "--b"], ["-p", "3"])
    expected = ["fit", f"{tmp_path}/x.npz:X", f"{tmp_path}/run.zarr", "-p", "3"]
    assert fitting.fit_words("x.npz:X", "run.zarr", ["-p", "3"]) == expected
    with pytest.raises(click.UsageError, match="--neighbours"):
        fitting.fit_words("x.npz:X", "run.zarr", ["--neighbours", "3"])
    with pytest.raises(ScalemaniError, match="leave it out"):
        fitting.fit_words("x.npz:X", "run.zarr", ["--scheduler", "tcp://h:1"])
    with pytest.raises(ScalemaniError, match="does not exist"):
        fitting.fit_words("y.npy", "run.zarr", [])
    with pytest.raises(ScalemaniError, match="give POINTS and STORE"):
        fitting.fit_words("x.npz:X", None, [])
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_commands_of_the_guide_are_those_that_the_tests_make_certificates_with():
    """workflows/cluster.md has each, so that what it says is what is tested."""
    guide = (WORKFLOWS / "cluster.md").read_text(encoding="utf-8")
    for command in certificates.openssl_commands(Path("certificates")):
        assert shlex.join(command) in guide.replace("\\\n  ", "")
    for name in certificates.environment("x"):
        assert name in guide
