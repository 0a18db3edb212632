"""Imported by the workers of tests (``--preload``): holds their tasks where a test asks for it, and counts them.

A task waits while ``hold-<stage>`` is in the folder, and says so by ``held-<process group>-<...>``. So a worker can
be killed in the middle of a block, whatever the machine's speed. What a task computes is left alone.
"""

import functools
import os
import time
import uuid
from pathlib import Path

from scalemani.geodesics import reads
from scalemani.steps import distances, landmark_distances

GATE = Path(os.environ["SCALEMANI_GATE"])


def wait(stage, first):
    """Wait at the gate."""
    hold = GATE / f"hold-{stage}"
    try:
        asked = first >= int(hold.read_text() or 1 << 60)
    except FileNotFoundError:
        return
    if asked:
        held = GATE / f"held-{os.getpgid(0)}-{uuid.uuid4().hex}"
        held.touch()
        while hold.exists():
            time.sleep(0.02)
        held.unlink(missing_ok=True)


def geodesic_rows(found, *arguments, **options):
    """Each call that says which vertex is the first is one block of D; the others are rows for the solver's start."""
    if "first" in options:
        with open(GATE / "rows.log", "a") as log:
            log.write(f"{options['first']}\n")
        wait("geodesics", options["first"])
    return found(*arguments, **options)


def read(found, *arguments):
    wait("read", 0)
    return found(*arguments)


def put_up(module, name, gate):
    """Put a gate before a function; once, however often a worker loads this file."""
    function = getattr(module, name)
    if not hasattr(function, "behind_a_gate"):
        gated = functools.wraps(function)(functools.partial(gate, function))
        gated.behind_a_gate = True
        setattr(module, name, gated)


put_up(distances, "geodesic_rows", geodesic_rows)
put_up(landmark_distances, "geodesic_rows", geodesic_rows)
put_up(reads, "_read", read)
