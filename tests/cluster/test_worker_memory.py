"""A worker with a limit of its own, which Dask enforces: what is planned keeps it from being paused or killed."""

import numpy as np
import pytest
from data import roll
from processes import Fleet

from scalemani import load
from scalemani.storage.tiles import Blocks

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
N, LIMIT = 20_000, 1 << 30


def test_a_worker_of_one_gibibyte_finishes_twenty_thousand_points(tmp_path):
    """The client has no limit but its host's; the worker's log says of each pause, its nanny's of each kill."""
    np.save(tmp_path / "x.npy", roll(N))
    with Fleet(tmp_path, 1, memory_limit="1GiB", nanny=True) as fleet:
        client = fleet.client("fit", tmp_path / "x.npy", tmp_path / "r", "--neighbors", "10", "--knn", "exact")
        assert client.wait(1000) == 0, client.errors.read_text()
        said = fleet.workers[0].errors.read_text()
        for trouble in ("Pausing worker", "Restarting", "exceeded"):
            assert trouble not in said
        assert said.count("Registered to:") == 1
        computed = fleet.rows_computed()
    model = load(tmp_path / "r")
    assert len(model.embedding_) == N
    starts = [block.start for block in Blocks(N, computed[1] - computed[0])]
    assert computed == starts, "a row was computed twice, or not"
