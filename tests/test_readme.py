"""README's blocks run as they stand, one after the other, from an empty folder; its lines are commands there are."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest

from scalemani import Isomap, KernelIsomap, load
from scalemani.terminal.commands import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?:<!-- not run: ([^>\n]+) -->\n)?```(\w*)\n(.*?)^```", README, re.S | re.M)
REASONS = {"installation", "installation, and a server"}
REASONS |= {"your own bucket", "your own files", "hours, and your own files"}


def test_what_does_not_run_is_little_and_says_why():
    reasons = [reason for reason, _, _ in BLOCKS if reason]
    assert set(reasons) == REASONS and len(reasons) <= 8
    assert {language for _, language, _ in BLOCKS} == {"bash", "python"}
    assert len(BLOCKS) - len(reasons) >= 11


def test_every_line_of_shell_is_a_command_that_there_is():
    """Those that a test can't run, too."""
    lines = [line for _, language, text in BLOCKS if language == "bash" for line in text.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("scalemani ")]
    assert len(commands) >= 20
    for _, name, *arguments in commands:
        cli.commands[name].make_context(name, arguments)


@pytest.mark.slow  # a process for each line
@pytest.mark.timeout(900)
def test_all_blocks_run_in_order_from_an_empty_folder(tmp_path):
    script = ["set -euo pipefail"]
    for reason, language, text in BLOCKS:
        if not reason:
            script.append(text if language == "bash" else f"python -W error - <<'PYTHON'\n{text}PYTHON")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    made = tmp_path / "scalemani-demo"
    assert "replaced         the result there with correction none" in done.stdout
    assert "300 by maxmin; no point is farther than" in done.stdout
    for name, kind in (("run.zarr", KernelIsomap), ("isomap.model.zarr", Isomap), ("roll.zarr", Isomap)):
        assert type(load(made / name)) is kind
    for name in ("placed.csv", "by_landmarks.csv"):
        assert np.loadtxt(made / name, delimiter=",", skiprows=1, usecols=(1, 2)).shape == (3000, 2)
    written = pd.read_csv(made / "coordinates.csv").iloc[:, 1:]
    np.testing.assert_allclose(written, load(made / "roll.zarr").embedding_, atol=1e-12)
    assert list(pd.read_parquet(made / "cells.parquet")["obs_names"]) == list(
        anndata.read_h5ad(made / "cells.h5ad").obs_names
    )
    assert not (made / "planned.zarr").exists()


def test_links_lead_somewhere():
    targets = re.findall(r"\]\((?!https)([^)]+)\)", README)
    assert len(targets) >= 5
    for target in targets:
        assert (ROOT / target).exists(), target
