"""measured peak <= projected peak <= allowed, in fresh processes; minutes."""

import json
import subprocess
import sys

import pytest

from scalemani.cluster.machine import FIRST_USE

pytestmark = pytest.mark.slow

FIT = """
import json, sys, warnings
import numpy as np
from scalemani import KernelIsomap, fitting

n, limit = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
turn = 1.5 * np.pi * (1 + 2 * rng.random(n))
X = np.column_stack([turn * np.cos(turn), 21 * rng.random(n), turn * np.sin(turn)])
plans, original = [], fitting.plan_of_store
fitting.plan_of_store = lambda *a, **k: plans.append(original(*a, **k)) or plans[-1]

def resident(field):  # ru_maxrss would be at least the size of the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(field))

start = resident("VmRSS:")
warnings.simplefilter("ignore")
KernelIsomap(memory_limit=limit).fit(X)
measured = resident("VmHWM:") - start
(plan,) = plans
print(json.dumps({"measured": measured, "projected": plan.memory_peak, "allowed": plan.memory_limit,
                  "tile": plan.tile_size}))
"""


def fitted(n, limit):
    done = subprocess.run([sys.executable, "-c", FIT, str(n), limit], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="VmHWM is read from /proc")
def test_measured_is_projected_and_projected_is_allowed():
    """At three limits; a lower one gives smaller tiles. (Half of the first use is compilation, mostly cached.)"""
    found = [fitted(10_000, limit) for limit in ("290MB", "350MB", "2GB")]
    for one in found:
        assert one["measured"] <= one["projected"] <= one["allowed"], found
        assert one["measured"] >= 0.45 * (one["projected"] - FIRST_USE // 2), found
    tiles = [one["tile"] for one in found]
    assert tiles[0] < tiles[1] < tiles[2], found
