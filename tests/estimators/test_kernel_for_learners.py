"""The workflow that gives kernels to learners runs in small, and holds what it promises."""

import os
import subprocess
import sys
from pathlib import Path

import kernel_for_learners
import pytest


@pytest.mark.slow
def test_the_workflow_in_small_meets_its_figures_and_prints_the_table(tmp_path):
    command = [sys.executable, kernel_for_learners.__file__, "--small", "--out", str(tmp_path)]
    source = str(Path(kernel_for_learners.__file__).parents[1])
    around = {**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"}
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=around, timeout=300)
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "tables.txt").read_text(encoding="utf-8")
    assert written in ran.stdout
    for row in (*kernel_for_learners.CORRECTIONS, kernel_for_learners.MEDIAN, kernel_for_learners.RBF):
        assert any(line.startswith(row) for line in written.splitlines()), row
