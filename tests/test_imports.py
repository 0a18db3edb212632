"""What is asked for before any work (a name, a version, help) loads nothing but the standard library and click."""

import subprocess
import sys
from pathlib import Path

import pytest

import scalemani
from scalemani.terminal.cli import cli

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
PROGRAM = "import runpy; runpy.run_module('scalemani', run_name='__main__')"


def loaded(statements, *arguments):
    """Packages loaded by statements in a new process, and what they printed."""
    command = [sys.executable, "-c", REPORT, statements, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stderr.split()), done.stdout


@pytest.mark.parametrize("statement", ["import scalemani", "import scalemani; dir(scalemani); scalemani.__version__"])
def test_the_package_alone_loads_no_other(statement):
    assert loaded(statement)[0] == {"scalemani"}


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], *([name, "--help"] for name in sorted(cli.commands))])
def test_version_and_help_load_click_alone(arguments):
    packages, printed = loaded(PROGRAM, *arguments)
    assert packages == {"scalemani", "click"}
    assert scalemani.__version__ in printed or "Usage: scalemani" in printed


def test_the_report_sees_what_is_loaded():
    """The two claims above are about something: an estimator brings all of it."""
    assert loaded("from scalemani import Isomap")[0] >= {"numba", "sklearn", "scipy", "numpy", "zarr", "dask"}
