"""How time, memory and disk grow with the points and with the landmarks: a fit each, in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from millions.stages import megabytes
from scalemani.demo import aligned

POINTS = (100_000, 300_000, 1_000_000)
LANDMARKS = (250, 500, 1000, 2000, 4000)
FIXED_POINTS, FIXED_LANDMARKS = 300_000, 1000  # each run takes minutes at the most; 4,000 landmarks of them have 10 GB
SMALL = (500, 1000), (30,), 500, 30

Fit = Callable[[int, int], dict[str, Any]]


def growth(fit: Fit, *, small: bool) -> dict[str, list[dict[str, Any]]]:
    """Print both tables; `fit` takes points and landmarks, gives a run's record."""
    points, landmarks, n, m = SMALL if small else (POINTS, LANDMARKS, FIXED_POINTS, FIXED_LANDMARKS)
    found = {"points": [], "landmarks": []}
    for each in points:
        found["points"].append(fit(each, m))
    _say(f"points, at {m:,} landmarks", "points", found["points"])
    for each in landmarks:
        there = [one for one in found["points"] if (one["points"], one["landmarks"]) == (n, each)]
        found["landmarks"].append(there[0] if there else fit(n, each))
    _say(f"landmarks, at {n:,} points", "landmarks", found["landmarks"])
    return found


def in_a_process(out: Path, given: list[str]) -> Fit:
    """A fit by this workflow in a new process, so that no memory is in its figures that another left."""

    def fit(points: int, landmarks: int) -> dict[str, Any]:
        command = [sys.executable, sys.argv[0], "--fit-only", "--out", str(out), *given]
        command += ["--points", str(points), "--landmarks", str(landmarks)]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}; its message is above")
        found: dict[str, Any] = json.loads((out / "million.json").read_text())
        return found

    return fit


def _say(title: str, what: str, runs: list[dict[str, Any]]) -> None:
    names = [row["name"] for row in runs[-1]["stages"]]
    lines = []
    for run in runs:
        seconds = {row["name"]: row["seconds"] for row in run["stages"]}
        peak = max(row["bytes"] for row in run["stages"])
        lines.append(
            [
                f"{run[what]:,}",
                *(f"{seconds.get(name, 0):.1f}" for name in names),
                f"{sum(seconds.values()):.1f}",
                megabytes(peak),
                f"{run['disk_bytes'] / 1e9:.2f}",
            ]
        )
    print(f"\nseconds by {title}")
    print("\n".join(aligned([what, *names, "all", "memory, MB", "store, GB"], lines)))
