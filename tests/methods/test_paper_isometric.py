"""The paper's experiments with isometric projection run in small, and hold what they promise."""

import os
import subprocess
import sys
from pathlib import Path

import paper_isometric
import pytest

TABLES = {
    "Swiss roll": ["isometric projection, σ 10, ridge 1e-06", "kernel PCA, σ 10", "straight lines"],
    "Digits": ["PCA, 9 axes", "LDA, axes of length 1", "isometric projection, ridge 0.01"],
    "Documents": ["5 classes", "isometric projection less K-means on terms: accuracy", "paired over all 6 draws"],
}


@pytest.mark.slow
def test_the_experiments_in_small_meet_their_figures_and_print_every_table(tmp_path):
    command = [sys.executable, paper_isometric.__file__, "--small", "--out", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=environment(), timeout=300)
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "tables.txt").read_text(encoding="utf-8")
    assert written.strip() == ran.stdout.strip()
    for title, rows in TABLES.items():
        after = written[written.index(title) :].splitlines()
        for row in rows:
            assert any(line.startswith(row) for line in after), f"{title} has no row {row!r}"


def environment():
    """With the package that is tested, wherever the subprocess runs, and UTF-8 for σ and ±."""
    source = str(Path(paper_isometric.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "PYTHONIOENCODING": "utf-8"}
