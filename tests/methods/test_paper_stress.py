"""The experiment of the paper on raw stress runs in small, and holds what it promises."""

import subprocess
import sys

import paper_stress
import pytest
from test_paper_isometric import environment


@pytest.mark.slow
def test_the_experiment_in_small_meets_its_figures_and_leaves_tables_and_a_picture(tmp_path):
    command = [sys.executable, paper_stress.__file__, "--small", "--out", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment(), timeout=300)
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "tables.txt").read_text(encoding="utf-8")
    assert written.strip() == ran.stdout.strip()
    for title in ("Stress-1 of 500 points", "Reads of the distances of 500 points", "By landmarks, 500 points"):
        after = written[written.index(title) :].splitlines()[1:]
        assert all(any(line.startswith(name) for line in after) for name in paper_stress.DATA)
    assert (tmp_path / "maps.png").read_bytes()[:4] == b"\x89PNG"
