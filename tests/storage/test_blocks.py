"""Blocks cover everything exactly once, and how work is divided depends on the plan alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalemani.storage.tiles import Blocks

sizes = st.integers(0, 60), st.integers(1, 70)


@given(*sizes)
def test_blocks_cover_every_item_once_in_order(n, size):
    found = [i for part in Blocks(n, size) for i in range(n)[part]]
    assert found == list(range(n))


@given(*sizes)
def test_blocks_are_aligned_and_only_the_last_may_be_short(n, size):
    blocks = Blocks(n, size)
    assert [part.start for part in blocks] == [size * i for i in range(len(blocks))]
    lengths = [blocks.length(i) for i in range(len(blocks))]
    assert lengths[:-1] == [size] * (len(lengths) - 1)
    assert all(1 <= length <= size for length in lengths)
    assert sum(lengths) == n


@given(*sizes)
def test_upper_tiles_and_their_transposes_cover_every_pair(n, size):
    blocks = Blocks(n, size)
    seen = np.zeros((n, n), int)
    for row, column in blocks.tiles():
        assert row <= column
        seen[blocks[row], blocks[column]] += 1
        if row != column:
            seen[blocks[column], blocks[row]] += 1
    assert (seen == 1).all()


@given(*sizes, st.integers(1, 40))
def test_runs_are_the_tiles_in_order_cut_evenly(n, size, most):
    blocks = Blocks(n, size)
    runs = blocks.tile_runs(most)
    assert [tile for run in runs for tile in run] == blocks.tiles()
    lengths = [len(run) for run in runs]
    assert len(runs) == min(most, len(blocks.tiles()))
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert min(lengths, default=1) >= 1


def test_runs_depend_on_the_plan_alone(monkeypatch):
    """Not on processors: a sum over the runs in order has the same bits on any machine."""
    before = Blocks(1000, 64).tile_runs(7)
    monkeypatch.setattr("os.cpu_count", lambda: 99)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(99)), raising=False)
    assert Blocks(1000, 64).tile_runs(7) == before


@pytest.mark.parametrize("block", [-1, 3, 100])
def test_a_block_outside_is_refused(block):
    with pytest.raises(IndexError, match=rf"block {block} of 3"):
        Blocks(9, 3)[block]


@pytest.mark.parametrize(("n", "size"), [(-1, 2), (5, 0), (5, -3)])
def test_sizes_that_cover_nothing_are_refused(n, size):
    with pytest.raises(ValueError, match="the size must be 1 or more"):
        Blocks(n, size)
