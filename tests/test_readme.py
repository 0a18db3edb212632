"""README's blocks run as they stand, one after the other, from an empty folder; its lines are commands there are."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from documents import REASONS, ROOT, blocks, check_command, commands

from scalemani import Isomap, KernelIsomap, load

README = ROOT / "README.md"
MOST_LINES = 150
LARGEST_PICTURE = 250_000


def test_readme_is_short_and_its_picture_is_small():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert (ROOT / "notebooks/demo.png").stat().st_size < LARGEST_PICTURE


def test_what_does_not_run_is_little_and_says_why():
    reasons = [block.reason for block in blocks(README) if block.reason]
    assert set(reasons) <= REASONS and len(reasons) <= 2
    assert {block.language for block in blocks(README)} == {"bash", "python"}
    assert len(blocks(README)) - len(reasons) >= 5


def test_every_line_of_shell_is_a_command_that_there_is():
    """Those in tables and sentences too."""
    assert len(commands(README)) >= 12
    for words in commands(README):
        check_command(words)


@pytest.mark.slow  # a process for each line
@pytest.mark.timeout(400)
def test_all_blocks_run_in_order_from_an_empty_folder(tmp_path):
    script = ["set -euo pipefail"]
    for block in blocks(README):
        if not block.reason:
            is_shell = block.language == "bash"
            script.append(block.text if is_shell else f"python -W error - <<'PYTHON'\n{block.text}PYTHON")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    made = tmp_path / "scalemani-demo"
    for name, kind in (("run.zarr", KernelIsomap), ("isomap.model.zarr", Isomap), ("roll.zarr", Isomap)):
        assert type(load(made / name)) is kind
    assert np.loadtxt(made / "placed.csv", delimiter=",", skiprows=1, usecols=(1, 2)).shape == (3000, 2)
    written = pd.read_csv(made / "coordinates.csv").iloc[:, 1:]
    np.testing.assert_allclose(written, load(made / "roll.zarr").embedding_, atol=1e-9)  # pandas rounds last digits
    for name in ("map.html", "scan.html"):
        assert "</html>" in (made / name).read_text(encoding="utf-8")
