"""The figures of Ham et al. in small."""

import subprocess
import sys

import paper_kernel_view
import pytest
from test_paper_isometric import environment


@pytest.mark.slow
def test_the_figures_in_small_are_drawn_and_isomaps_second_eigenvalue_stands_out(tmp_path):
    command = [sys.executable, paper_kernel_view.__file__, "--small", "--out", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment(), timeout=300)
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "tables.txt").read_text(encoding="utf-8")
    for name in paper_kernel_view.KNOWN:
        assert sum(line.startswith(name) for line in written.splitlines()) >= 2, name
    for number in range(1, 6):
        assert (tmp_path / f"figure{number}.png").read_bytes()[:4] == b"\x89PNG"
