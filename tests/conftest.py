"""Fixtures that more than one file needs; data and references are in data.py and naive.py."""

import platform
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster
from stored_models import fitted
from threadpoolctl import threadpool_info

from scalemani.cluster import choice
from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.cluster.threads import single_blas_thread
from scalemani.demo import swiss_roll
from scalemani.kernel import eigensolver
from scalemani.planning import seconds
from scalemani.terminal import commands, console

collect_ignore = ["gate.py", "tally.py"]  # they are of other processes, and change what they are imported beside

#: Files that take longest, longest first, so that processes end together. The first of the default suite compiles the
#: kernels while the second and the fourth, which another process begins with, need none.
FIRST = (
    *("test_memory.py", "test_nndescent.py"),  # slow
    *("test_path_search.py", "test_kernel_cache.py", "test_first_read.py", "test_exact_search.py"),
    *("test_constant_precision.py", "test_invariance.py", "test_projection.py", "test_pitfalls.py", "test_resume.py"),
    *("test_terms.py", "test_corrections.py", "test_budget.py", "test_plan.py", "test_oracles.py", "test_bad_input.py"),
    *("test_run_report.py", "test_saved_models.py", "test_self_check.py", "test_cli.py", "test_geodesics.py"),
)


def pytest_configure(config):
    """Processes take files in the order of collection; xdist's own order is by numbers of tests."""
    config.option.loadscopereorder = False


def pytest_report_header():
    """The processor, and the kernels that BLAS has chosen for it: last bits hang on them."""
    kernels = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return f"processor: {models[0] if models else platform.processor()}; BLAS: {', '.join(sorted(kernels))}"


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(scope="module")
def cluster():
    """One embedded cluster of two threads for a file's tests."""
    with DaskCluster(threads=2) as made:
        yield made


@pytest.fixture
def embedded(monkeypatch):
    """Small fits take an embedded cluster too, where they would take this thread."""
    monkeypatch.setattr(choice, "SMALL", 0)


@pytest.fixture
def client():
    """An active client, as a user may have one: one worker in this process."""
    addresses = {"dashboard_address": "127.0.0.1:0", "worker_dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, memory_limit=0, **addresses) as local,
        Client(local) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def one_thread():
    """Small products are slower on more."""
    with single_blas_thread():
        yield


@pytest.fixture
def iterate(monkeypatch):
    """Small problems go through the iteration too."""
    monkeypatch.setattr(eigensolver, "FULL_BASIS", 1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """An undisturbed run; no test may change it."""
    return fitted(tmp_path_factory.mktemp("reference") / "run.zarr")


@pytest.fixture
def run(undisturbed, tmp_path):
    """The path of a copy of the undisturbed run, to be changed; that a moved run is the same is a claim of its own."""
    return Path(shutil.copytree(undisturbed.store_, tmp_path / "r"))


@pytest.fixture
def quick_calibration(monkeypatch):
    """A plan's rates from a glance, where they are not what is tested."""
    monkeypatch.setattr(seconds, "GEODESIC_SECONDS", 0.01)
    monkeypatch.setattr(seconds, "DISK_SAMPLE", 1 << 16)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A directory with a roll of 120 training and 30 test points in it, made the current one."""
    monkeypatch.chdir(tmp_path)
    train, test = swiss_roll(120, random_state=0).points, swiss_roll(30, random_state=1).points
    np.save("train.npy", train)
    np.save("test.npy", test)
    for name, rows in (("train", train), ("test", test)):
        lines = [f"{name}-{i}," + ",".join(map(repr, row)) for i, row in enumerate(rows.tolist())]
        (tmp_path / f"{name}.csv").write_text("\n".join(["who,x,y,z", *lines]) + "\n")
    return tmp_path


@pytest.fixture
def program(capsys):
    """Runs the program in this process: exit code, standard output, standard error."""

    def call(command):
        code = console.run(commands.cli, shlex.split(command))
        out, err = capsys.readouterr()
        return code, out, err

    return call
