"""Memory is arithmetic: what is projected is allowed, and what is measured is projected."""

import gc
import tracemalloc

import numpy as np
import pytest
from data import line_graph
from hypothesis import given
from hypothesis import strategies as st

from scalemani import geodesics
from scalemani.engine import budget
from scalemani.engine.blocks import Blocks
from scalemani.engine.budget import choose_tile, disk_bytes, parse_memory, task_bytes
from scalemani.engine.store import RunStore
from scalemani.engine.sweep import _add_run
from scalemani.errors import ScalemaniError
from scalemani.geodesics import _tile_row, save_graph
from scalemani.kernel import _SHARES, _SUM_SHARES


@given(st.integers(1, 300_000), st.integers(1 << 20, 1 << 36), st.integers(1, 64), st.integers(0, 10**7))
def test_the_chosen_tile_fits_or_is_refused(n, limit, threads, edges):
    try:
        tile = choose_tile(n, limit, threads, edges)
    except ScalemaniError:
        assert 12 * edges + threads * task_bytes(n, budget.SMALLEST_TILE) > limit
    else:
        assert budget.SMALLEST_TILE <= tile <= budget.LARGEST_TILE
        assert 12 * edges + threads * task_bytes(n, tile) <= limit


@given(st.integers(1, 10**6))
def test_plenty_of_memory_gives_eight_blocks_or_tiles_of_the_largest_size(n):
    tile = choose_tile(n, 1 << 50, 1)
    assert tile == budget.LARGEST_TILE or len(Blocks(n, tile)) <= 8
    assert tile % 16 == 0
    assert tile == budget.LARGEST_TILE or n < 2048 or len(Blocks(n, tile)) >= 7


def test_the_tile_grows_with_memory():
    tiles = [choose_tile(100_000, limit, 2) for limit in (1 << 28, 1 << 29, 1 << 30, 1 << 31, 1 << 40)]
    assert tiles == sorted(tiles)
    assert tiles[0] < tiles[-1] == budget.LARGEST_TILE


def test_a_refusal_names_both_numbers_and_the_remedy():
    with pytest.raises(ScalemaniError) as caught:
        choose_tile(1_000_000, 64 << 20, 4, edges=10**7)
    needed = 12 * 10**7 + 4 * task_bytes(1_000_000, budget.SMALLEST_TILE)
    message = str(caught.value)
    assert "1000000 vertices" in message
    assert f"need {needed:,} bytes" in message
    assert f"allows {64 << 20:,}:" in message
    assert "raise memory_limit" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("given_limit", "expected"),
    [("4GB", 4 * 10**9), ("4GiB", 4 << 30), ("512 MiB", 512 << 20), (1e6, 10**6), (12345, 12345), ("1e3", 1000)],
)
def test_memory_is_read_from_numbers_and_text(given_limit, expected):
    assert parse_memory(given_limit) == expected


@pytest.mark.parametrize("limit", ["lots", "4 parsecs", 0, -1, "-4GB", True, float("nan"), [4], b"4GB", float("inf")])
def test_memory_that_is_none_is_refused_with_what_is_allowed(limit):
    with pytest.raises(ScalemaniError, match=r"memory_limit=.*'4GB'"):
        parse_memory(limit)


def test_no_limit_is_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr(budget, "_free_memory", lambda: 10 << 30)
    assert parse_memory(None) == 5 << 30


@pytest.mark.parametrize(("n", "tile"), [(100, 16), (96, 16), (33, 64)])
def test_disk_bytes_are_the_bytes_of_all_chunks(tmp_path, n, tile):
    """Also measured: the files of a finished D."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(n, tile)
    for row, here in enumerate(store.blocks):
        store.write_tile_row(row, np.ones((here.stop - here.start, n - here.start), np.float32))
    files = (tmp_path / "run" / "distances" / "c").rglob("*")
    assert sum(p.stat().st_size for p in files if p.is_file()) == disk_bytes(n, tile)


# ---- measured <= projected ---------------------------------------------------------------------
# tracemalloc sees NumPy's arrays; the search's own 12 n bytes are numba's and come on top.

SLACK = 256 << 10  # Zarr's and Python's own small objects
SIZES = [(3200, 400), (3200, 160), (1600, 800)]


def peak(function, *arguments):
    function(*arguments)  # imports, compiled code and cached openings are no part of a task
    gc.collect()
    tracemalloc.start()
    try:
        function(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def empty_run(path, n, tile):
    store = RunStore.create(path)
    store.create_distances(n, tile)
    return store


@pytest.mark.parametrize(("n", "tile"), SIZES)
def test_a_geodesic_task_stays_within_its_projection(tmp_path, n, tile, monkeypatch):
    store = empty_run(tmp_path / "run", n, tile)
    save_graph(store, line_graph(n), 1.0)
    monkeypatch.setattr(RunStore, "tile_row_done", lambda self, row: False)
    measured = peak(_tile_row, store.path, store.document["id"], 0)
    geodesics.shared_graph.cache_clear()
    assert 4 * n * tile <= measured <= task_bytes(n, tile) + SLACK


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize(("n", "tile"), SIZES)
def test_a_sweep_task_stays_within_its_projection(tmp_path, n, tile, precision):
    """Both kinds of read: the first one takes sums as well."""
    store = empty_run(tmp_path / "run", n, tile)
    store.write_tile_row(0, np.ones((tile, n), np.float32))
    operand = np.ones((n, budget.SWEEP_COLUMNS), precision)
    for share, width in ((_SHARES[precision], 64), (_SUM_SHARES[precision], 66)):
        run = [(0, 0), (0, 1)]
        measured = peak(_add_run, share, store.path, store.document["id"], run, width, True, operand)
        assert measured + operand.nbytes <= task_bytes(n, tile) + SLACK
