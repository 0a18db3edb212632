"""Kernels are kept between processes where that can be done; elsewhere they run too, and one warning says so.

The tests may run as root, whom no permission stops: what must not be written to is a regular file where a
directory is needed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import scalemani

PACKAGE = Path(scalemani.__file__).parent

KERNELS = """
from scalemani.cluster.kernel_cache import compiled
from other import step
@compiled()
def climb(n):
    total = 0
    for i in range(n):
        total = step(total)
    return total
"""
OTHER = """
from scalemani.cluster.kernel_cache import compiled
@compiled()
def step(total):
    return total + {size}
"""
# Statements to run, then how often kernels were found and compiled, and what was warned of.
COUNTED = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    exec(sys.argv[1])
kernels = {
    id(value): value
    for name, module in list(sys.modules.items())
    if name.partition(".")[0] in ("scalemani", "kernels", "other")
    for value in vars(module).values()
    if hasattr(value, "py_func") and hasattr(value, "stats")
}
print(json.dumps({
    "answer": answer,
    "hits": sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels.values()),
    "misses": sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels.values()),
    "warnings": [f"{type(one.message).__name__}: {one.message}" for one in seen],
}))
"""
CLIMB = "from kernels import climb; answer = climb(10)"
FIT = """
import numpy as np
from scalemani import KernelIsomap
points = np.random.default_rng(0).standard_normal((120, 2))
model = KernelIsomap(knn="exact", disconnected="join").fit(points)
answer = [*model.embedding_.shape, *model.transform(points[:3]).shape]
"""


def counted(statements, *, path, home=None, cache=None):
    """The report of some statements in a new process that imports from `path`."""
    hidden = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "PYTHONPATH", "PYTHONWARNINGS")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {
        "PYTHONPATH": os.pathsep.join(map(str, (path, PACKAGE.parent))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_OPT": "1",
    }
    if home is not None:
        environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home)}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [sys.executable, "-c", COUNTED, statements]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=path, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def written(place):
    """A directory with two kernel files, one of which uses the other."""
    place.mkdir()
    (place / "kernels.py").write_text(KERNELS)
    (place / "other.py").write_text(OTHER.format(size=1))
    return place


@pytest.fixture
def kernels(tmp_path):
    """Two such files, to be changed."""
    return written(tmp_path / "kernels")


def unwritable(tmp_path):
    """A path at which no directory can be made, whoever asks."""
    path = tmp_path / "not-a-directory"
    path.write_text("")
    return path


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """Two such files and what a first process kept of them: the directory, the cache, the report; none may change."""
    place = written(tmp_path_factory.mktemp("warm") / "kernels")
    return place, place.parent / "cache", counted(CLIMB, path=place, cache=place.parent / "cache")


@pytest.fixture
def cache(warm, tmp_path):
    """What the first process kept, to be damaged; it is valid for the same directory."""
    shutil.copytree(warm[1], tmp_path / "cache")
    return tmp_path / "cache"


def test_a_second_process_compiles_nothing_and_a_file_without_kernels_costs_nothing(warm, cache):
    place, _, first = warm
    assert (first["answer"], first["hits"], first["misses"]) == (10, 0, 3)
    plain = place / "plain.py"  # it comes, which is a change, between the processes
    plain.write_text("LEAF = 16\n")
    second = counted(CLIMB, path=place, cache=cache)
    plain.unlink()
    assert (second["answer"], second["misses"]) == (10, 0)
    assert second["hits"] > 0
    assert first["warnings"] == second["warnings"] == []


def test_a_change_in_another_kernel_file_is_seen(warm, cache):
    """Numba alone would go on adding 1."""
    other = warm[0] / "other.py"
    before = other.stat()
    other.write_text(OTHER.format(size=2))
    try:
        assert counted(CLIMB, path=warm[0], cache=cache)["answer"] == 20
    finally:
        other.write_text(OTHER.format(size=1))
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_without_a_directory_there_is_one_warning_when_a_kernel_is_called(kernels, tmp_path):
    (kernels / "__pycache__").write_text("")
    statements = "import kernels; before = len(seen); answer = before, kernels.climb(10)"
    done = counted(statements, path=kernels, home=unwritable(tmp_path))
    assert done["answer"] == [0, 10]
    (warning,) = done["warnings"]
    assert warning.startswith("ScalemaniWarning: ")
    assert "NUMBA_CACHE_DIR" in warning
    assert "\n" not in warning


@pytest.mark.slow
def test_a_disk_that_fills_up_before_the_kernel_is_kept(kernels, tmp_path):
    """No file may grow beyond 0 bytes from the first call on, as on a full disk."""
    pytest.importorskip("resource", reason="limits of a process are POSIX")
    statements = (
        "import resource\nfrom kernels import climb\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))\n"
        "answer = climb(10)"
    )
    done = counted(statements, path=kernels, cache=tmp_path / "cache")
    assert done["answer"] == 10
    (warning,) = done["warnings"]
    assert "NUMBA_CACHE_DIR" in warning
    assert counted(CLIMB, path=kernels, cache=tmp_path / "cache")["answer"] == 10


@pytest.mark.parametrize(("ending", "keep"), [(".nbi", 0), pytest.param(".nbc", 40, marks=pytest.mark.slow)])
def test_a_damaged_file_is_compiled_again_and_kept(warm, cache, ending, keep):
    """As a power cut leaves it; numba alone raises whatever unpickling raises."""
    damaged = list(cache.rglob(f"*{ending}"))
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:keep])
    again = counted(CLIMB, path=warm[0], cache=cache)
    assert (again["answer"], again["warnings"]) == (10, [])
    assert again["misses"] > 0
    assert counted(CLIMB, path=warm[0], cache=cache)["misses"] == 0


# ---- the package -------------------------------------------------------------------------------


@pytest.mark.long
def test_a_whole_fit_in_a_second_process_compiles_nothing(tmp_path):
    first = counted(FIT, path=PACKAGE.parent, cache=tmp_path / "cache")
    second = counted(FIT, path=PACKAGE.parent, cache=tmp_path / "cache")
    assert first["answer"] == second["answer"] == [120, 2, 3, 2]
    assert first["misses"] > 0
    assert second["misses"] == 0
    assert second["hits"] > 0


@pytest.mark.slow
def test_a_read_only_installation_fits_with_one_warning(tmp_path):
    place = tmp_path / "site"
    shutil.copytree(PACKAGE, place / "scalemani", ignore=shutil.ignore_patterns("__pycache__"))
    for directory in [place, *(path for path in place.rglob("*") if path.is_dir())]:
        (directory / "__pycache__").write_text("")
    done = counted(FIT, path=place, home=unwritable(tmp_path))
    assert done["answer"] == [120, 2, 3, 2]
    # So few points of a cloud need a large shift; that warning is about them.
    warned = [warning for warning in done["warnings"] if not warning.startswith("AdditiveConstantWarning")]
    assert len(warned) == 1, warned
    assert "NUMBA_CACHE_DIR" in warned[0]


LOGGED = """
import logging
heard = []
logger = logging.getLogger("scalemani")
logger.setLevel(logging.INFO)
logger.addHandler(type("Heard", (logging.Handler,), {"emit": lambda self, record: heard.append(record.getMessage())})())
from kernels import climb
climb(10), climb(10.0)
answer = heard
"""


@pytest.mark.slow
def test_a_compilation_is_announced_once(kernels, tmp_path):
    """At logging.INFO, before it begins; not where the code is kept already, and in true words where it can't be."""
    said = [counted(LOGGED, path=kernels, cache=tmp_path / "cache")["answer"] for _ in range(2)]
    assert said == [["compiling, once per machine"], []]
    (kernels / "__pycache__").write_text("")
    nowhere = counted(LOGGED, path=kernels, home=unwritable(tmp_path))
    assert nowhere["answer"] == ["compiling, in every process"]


@pytest.mark.slow
def test_a_fit_without_the_compiler_is_refused_in_a_line(tmp_path):
    program = FIT + "\nprint(answer)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode != 0 and done.stdout == ""
    assert "ScalemaniError: NUMBA_DISABLE_JIT is set" in done.stderr.splitlines()[-1]
