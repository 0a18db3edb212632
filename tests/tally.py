"""Imported by every process of a test (workers by ``--preload``): a line in a log for each block that is computed.

What is computed is left alone; each block begins a moment later (`PACE`), so that a stage lasts long enough for a test
to choose a moment in it. The log is opened for appending, and a line is one write: lines of many processes stay whole.
"""

import functools
import os
import sys
import time
from hashlib import blake2b

import numpy as np

import scalemani.fitting  # noqa: F401 - calls by what it has imported are counted, too
from scalemani.geodesics import reads
from scalemani.neighbors.exact import BruteSearch
from scalemani.projection import long
from scalemani.projection import long as projection_tasks
from scalemani.steps import distances, graph
from scalemani.steps import rows as scattered_rows
from scalemani.storage.run import RunStore

LOG = os.environ["SCALEMANI_TALLY"]
PACE = float(os.environ.get("SCALEMANI_PACE", "0"))
ON = False  # a place for a client's settings to name, so that it imports this


def say(kind, key):
    place = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(place, f"{kind} {key}\n".encode())
    finally:
        os.close(place)
    time.sleep(PACE)


def digest(*arrays):
    """A name for a block's input."""
    sums = blake2b(digest_size=8)
    for array in arrays:
        sums.update(np.ascontiguousarray(array).tobytes())
    return sums.hexdigest()


def tally(owner, name, kind, key):
    """Have a function's calls written down, wherever it was imported to; once, however often this file is loaded."""
    function = getattr(owner, name)
    if hasattr(function, "tallied"):
        return

    @functools.wraps(function)
    def tallied(*arguments, **options):
        block = key(*arguments)
        if block is not None:
            say(kind, block)
        return function(*arguments, **options)

    tallied.tallied = True
    setattr(owner, name, tallied)
    for module in [module for at, module in sys.modules.items() if at.startswith("scalemani.")]:
        if vars(module).get(name) is function:
            setattr(module, name, tallied)


tally(BruteSearch, "nearest", "search", lambda self, queries, k, own, *limits: int(own[0]) if own[0] >= 0 else None)
tally(graph, "connected", "graph", lambda *_: "made")
tally(RunStore, "write_array", "array", lambda self, name, array: name)
tally(scattered_rows, "_some_rows", "start", lambda path, identity, sources, memory: int(sources[0]))
tally(distances, "_upper_rows", "rows", lambda store, row, memory: row)
tally(reads, "_read", "read", lambda path, identity, run, reader: f"{digest(reader.operand)}-{run[0][0]}-{run[0][1]}")
tally(projection_tasks, "attach", "attach", lambda key, block, way: digest(block))
tally(projection_tasks, "place", "place", lambda key, found: digest(found.indptr, found.vertices, found.lengths))
assert long.attach is projection_tasks.attach, "a client sends what a worker counts"
