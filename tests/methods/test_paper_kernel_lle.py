"""The kernel LLE paper's experiment runs in small, and holds what it promises."""

import subprocess
import sys

import paper_kernel_lle
import pytest
from test_paper_isometric import environment


@pytest.mark.slow
def test_the_experiment_in_small_meets_its_figures_and_leaves_tables_and_pictures(tmp_path):
    command = [sys.executable, paper_kernel_lle.__file__, "--small", "--out", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment(), timeout=300)
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "tables.txt").read_text(encoding="utf-8")
    for row in ("rows of length 1  ", "KLLE, rows of length 1", "POLY 2 .001   8", "By held-out rows"):
        assert any(line.startswith(row) for line in written.splitlines()), row
    assert written.splitlines()[0] in ran.stdout
    for name in ("planes.png", "choice.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
