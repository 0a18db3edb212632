"""Workflows that wait: for workers, for Slurm, and for a time limit that comes before the first worker does.

Nothing here starts a cluster; Slurm's and Dask's part is played by a few lines.
"""

import argparse
import asyncio
import contextlib
import itertools
import shlex
import signal
import subprocess
import sys
import threading

import cluster_kubernetes
import cluster_slurm
import pytest
from clusters import fitting

from scalemani.cluster import health
from scalemani.cluster.health import Watch
from scalemani.errors import ClusterLostError, ScalemaniError
from scalemani.terminal.console import Stopped

SLURM = "points.npy run.zarr --interface ib0 --cores 16 --memory 64GiB --walltime 4:00:00"
KUBERNETES = "/data/x.npy /data/run.zarr --image example.org/s:1 --claim shared"


@pytest.fixture
def as_program(monkeypatch):
    """Signals do what they do to a workflow that runs as a program, and are put back."""

    def stop(number, frame):
        raise Stopped

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}
    signal.signal(signal.SIGTERM, stop)
    monkeypatch.setattr(sys, "argv", ["cluster_slurm.py", *shlex.split(SLURM)])
    monkeypatch.setattr(cluster_slurm.fitting, "fit_words", lambda *words: ["fit"])
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("job", ["17", None])
@pytest.mark.parametrize("refused", [0, 1])
def test_notice_before_the_fit_begins_puts_the_job_back_too(as_program, monkeypatch, capsys, job, refused):
    """Workers queue for hours, and the client's own time is up meanwhile; what scontrol refuses is said."""
    called = []

    def waiting(options, command):
        signal.raise_signal(signal.SIGUSR1)

    def scontrol(words, **_):
        called.append(words)
        return subprocess.CompletedProcess(words, refused, "", "Job is\npending execution")

    monkeypatch.setattr(cluster_slurm, "fit", waiting)
    monkeypatch.setattr(cluster_slurm.subprocess, "run", scontrol)
    monkeypatch.setenv("SLURM_JOB_ID", job or "") if job else monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert cluster_slurm.main() == 1
    said = capsys.readouterr().err
    assert called == ([["scontrol", "requeue", "17"]] if job else [])
    assert ("scontrol refused (Job is pending execution)" in said) == bool(job and refused)
    assert ("this is no job of Slurm's" in said) == (job is None)


def test_preemption_before_the_fit_begins_requeues_nothing(as_program, monkeypatch):
    monkeypatch.setattr(cluster_slurm, "fit", lambda *_: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Stopped):
        cluster_slurm.main()


def test_a_fit_that_comes_back_must_not_start_over(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cluster_slurm.py", *shlex.split(SLURM), "--print", "--", "--overwrite"])
    with pytest.raises(ScalemaniError, match="--overwrite would start the fit over each time"):
        cluster_slurm.main()
    options = cluster_kubernetes.read_options(shlex.split(KUBERNETES))
    with pytest.raises(ScalemaniError, match="--overwrite would start the fit over each time"):
        cluster_kubernetes.check(options, ["--overwrite"])


class Job:
    """One of dask-jobqueue's: it has a number once it is submitted."""

    job_id = None


class Slurm:
    """A cluster of dask-jobqueue's as far as jobs are submitted; the first `refused` times sbatch fails."""

    def __init__(self, refused):
        self.worker_spec, self.workers, self.refused, self.submitted = {}, {}, refused, []

    def new_worker_spec(self):
        return {len(self.worker_spec): "spec"}

    async def _correct_state(self):
        """As distributed's: jobs that failed to start are kept as if they had."""
        for name in self.worker_spec.keys() - self.workers.keys():
            self.workers[name] = Job()
            if len(self.submitted) < self.refused:
                self.submitted.append(None)
                raise RuntimeError("sbatch: error: Batch job submission failed:\nUnable to contact slurm controller")
            self.submitted.append(name)
            self.workers[name].job_id = str(name)

    def sync(self, function, *arguments, callback_timeout):
        return asyncio.run(function(*arguments))


def test_jobs_that_slurm_refuses_are_said_and_submitted_later(monkeypatch, capsys):
    cluster, done, looks = Slurm(refused=3), threading.Event(), itertools.count(1)
    monkeypatch.setattr(done, "wait", lambda seconds: done.set() if next(looks) == 6 else None)
    cluster_slurm.keep_jobs(cluster, 2, done)
    assert sorted(cluster.workers) == [0, 1] and all(job.job_id for job in cluster.workers.values())
    said = capsys.readouterr().err
    assert said.count("submission failed: Unable to contact slurm controller") == 1, "and once, not at each look"
    del cluster.workers[0]  # as when its worker has ended
    done.clear()
    looks = itertools.count(6)
    monkeypatch.setattr(done, "wait", lambda seconds: done.set())
    cluster_slurm.keep_jobs(cluster, 2, done)
    assert sorted(cluster.workers) == [0, 1] and cluster.submitted[-1] == 0


# ---- workers ------------------------------------------------------------------------------------


class Waits:
    """A client whose workers come or don't; says for how many it was asked to wait, and how long."""

    def __init__(self, there):
        self.there, self.asked = there, []

    def wait_for_workers(self, count, timeout):
        self.asked.append((count, timeout))
        if count > self.there:
            raise TimeoutError

    def scheduler_info(self, n_workers):
        return {"workers": {str(worker): {"nthreads": 4} for worker in range(self.there)}}

    def as_current(self):
        return contextlib.nullcontext()


def read_common(words, **defaults):
    parser = argparse.ArgumentParser()
    fitting.add_common(parser, "out", **defaults)
    return parser.parse_args(words)


def test_a_share_of_the_workers_is_waited_for_but_not_for_long(monkeypatch):
    monkeypatch.setattr(fitting, "run", lambda cli, words: Watch()._patience)
    monkeypatch.setattr(fitting, "hold_signals", lambda: None)
    client = Waits(3)
    assert fitting.fit_on(client, read_common([]), ["fit"], hoped=8) == health.NO_WORKER_SECONDS
    assert client.asked == [(1, 600), (8, fitting.GATHERING)]
    assert fitting.fit_on(client, read_common(["--no-worker-seconds", "7200"]), ["fit"]) == 7200
    slurm_like = read_common([], wait=None, no_worker=86400.0)
    assert fitting.fit_on(client, slurm_like, ["fit"]) == 86400 and client.asked[-2] == (1, None)
    with pytest.raises(ClusterLostError, match="no worker has come within 3 s"):
        fitting.fit_on(Waits(0), read_common(["--wait", "3"]), ["fit"])


def test_slurms_client_waits_for_workers_as_long_as_it_takes():
    options = cluster_slurm.read_options(shlex.split(SLURM))
    assert options.wait is None and options.no_worker_seconds >= 4 * 3600
