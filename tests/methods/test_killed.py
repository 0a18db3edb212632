"""Fits of every method whose process is killed, twice, in the step that takes longest: they end with the same bits.

pytest -m long -s tests/methods/test_killed.py
"""

import subprocess
import sys
import time

import numpy as np
import pytest
from data import roll

pytestmark = pytest.mark.long
KINDS = [  # points, estimator, its parameters
    (4000, "Isomap", {}),
    (4000, "KernelIsomap", {}),
    (3000, "IsometricProjection", {"kernel": "rbf"}),
    (60_000, "LLE", {}),
    (10_000, "LLE", {"kernel": "poly", "degree": 2}),
    (60_000, "LLE", {"landmarks": 1000}),
    (60_000, "LaplacianEigenmaps", {}),
    (60_000, "LaplacianEigenmaps", {"alpha": 1.0, "weights": "gaussian"}),
    (60_000, "LaplacianEigenmaps", {"landmarks": 1000}),
]
FIT = """
import sys, warnings
import numpy as np, scalemani
warnings.simplefilter("ignore")
name, points, store, parameters = sys.argv[1:]
def said(step, done, total):
    print(step, done, total, flush=True)
made = getattr(scalemani, name)(n_neighbors=10, store=store, disconnected="largest", progress=said, **eval(parameters))
np.save(store + ".npy", made.fit(np.load(points)).embedding_)
"""


def fit(name, points, store, parameters, step=None, after=0.0):
    """Fit in a process; kill it `after` seconds of a step where one is named. What was said, with its times."""
    command = [sys.executable, "-c", FIT, name, str(points), str(store), repr(parameters)]
    said, begun = [], time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            said.append((line.split()[0], time.monotonic() - begun))
            if said[-1][0] == step:
                time.sleep(after)
                assert process.poll() is None, "the kill comes too late"
                process.kill()
                return said
    assert process.returncode == 0
    return said


def longest(said):
    """The step that took longest, and its seconds."""
    ends = {}
    for step, at in said:
        ends[step] = at
    begun = said[0][1]
    taken = {}
    for step, at in ends.items():
        taken[step], begun = at - begun, at
    return max(taken.items(), key=lambda item: item[1])


@pytest.mark.parametrize("size, name, parameters", KINDS, ids=[f"{name}{given}" for _, name, given in KINDS])
def test_a_fit_killed_twice_in_its_longest_step_ends_with_the_same_bits(tmp_path, size, name, parameters):
    points = tmp_path / "x.npy"
    np.save(points, roll(size))
    step, seconds = longest(fit(name, points, tmp_path / "once", parameters))
    for share in (0.3, 0.6):
        fit(name, points, tmp_path / "killed", parameters, step, share * seconds)
    fit(name, points, tmp_path / "killed", parameters)
    print(f"{name} {parameters}: killed twice in {step} of {seconds:.1f} s")
    assert np.array_equal(np.load(tmp_path / "once.npy"), np.load(tmp_path / "killed.npy"))
