"""What is asked for before any work (a name, a version, help) loads nothing but the standard library and click."""

import subprocess
import sys
from pathlib import Path

import scalemani
from scalemani.terminal.commands import cli

ROOT = Path(scalemani.__file__).parent.parent

# Whole packages beyond the standard library that the statements bring in; what a start of Python loads isn't counted.
REPORT = """
import sys
before = set(sys.modules)
try:
    exec(sys.argv.pop(1))
except SystemExit as end:
    assert not end.code, end.code
found = {name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(found), file=sys.stderr)
"""
# The program with each of these command lines in turn, a line of `-` after each.
PROGRAM = """
import runpy
for line in {lines!r}:
    sys.argv[1:] = line
    try:
        runpy.run_module("scalemani", run_name="__main__")
    except SystemExit as end:
        assert not end.code, (line, end.code)
    print("-", flush=True)
"""


def loaded(statements):
    """Packages loaded by statements in a new process, and what they printed."""
    command = [sys.executable, "-c", REPORT, statements]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stderr.split()), done.stdout


def test_the_package_alone_loads_no_other():
    assert loaded("import scalemani; dir(scalemani); scalemani.__version__")[0] == {"scalemani"}


def test_version_and_help_load_click_alone():
    """All in one process: what any of them loads is among what they load together."""
    lines = [["--version"], ["--help"], *([name, "--help"] for name in sorted(cli.commands))]
    packages, printed = loaded(PROGRAM.format(lines=lines))
    assert packages == {"scalemani", "click"}
    *said, end = printed.split("\n-\n")
    assert (len(said), end) == (len(lines), "")
    assert said[0] == f"scalemani, version {scalemani.__version__}"
    for line, text in zip(lines[1:], said[1:], strict=True):
        assert text.startswith(f"Usage: {' '.join(['scalemani', *line[:-1]])} "), text


# what a fit needs, and what it needs only on a cluster, or with an array of the user's in Zarr's or Dask's
NUMBERS, OTHERS = {"numba", "sklearn", "scipy", "numpy"}, {"zarr", "dask", "distributed", "tornado"}
SMALL = "import numpy as np; from scalemani import Isomap; X = np.arange(40.0)[:, None] * [1.0, 2.0]; "
SMALL += "model = Isomap(n_neighbors=3, n_components=1).fit(X); model.transform(X + 0.1)"


def test_an_estimator_loads_no_kernels_until_it_is_used():
    """Compiled kernels take as long to import as scikit-learn."""
    packages, _ = loaded("from scalemani import Isomap; Isomap()")
    assert packages >= {"sklearn"} and not packages & {"numba", "pynndescent", *OTHERS}


def test_a_small_fit_loads_neither_dask_nor_zarr():
    packages, _ = loaded(SMALL)
    assert packages >= NUMBERS and not packages & OTHERS


def test_the_report_sees_what_is_loaded():
    """The claims above are about something: a cluster and an output in Zarr's format bring the rest."""
    script = SMALL + "; import tempfile; model.set_params(scheduler=None).transform_to(X, tempfile.mkdtemp() + '/out')"
    script += "; from scalemani.cluster.dask_cluster import DaskCluster"
    assert loaded(script)[0] >= NUMBERS | OTHERS
