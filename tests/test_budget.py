"""Memory is arithmetic: what is projected is allowed, and what is measured is projected."""

import gc
import shutil
import tracemalloc

import numpy as np
import pytest
from data import line_graph
from hypothesis import given
from hypothesis import strategies as st

from scalemani import geodesics
from scalemani.engine import budget
from scalemani.engine.blocks import Blocks
from scalemani.engine.budget import check_disk, choose_tile, disk_bytes, parse_memory, task_bytes
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
    assert "scheduler whose workers have fewer threads" in message
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


@pytest.fixture
def system(tmp_path):
    """A system that says what it is told to: file -> text."""

    def made(files=()):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/meminfo").write_text("MemTotal: 64 kB\nMemFree: 8 kB\nMemAvailable: 40 kB\nCached: 30 kB\n")
        for name, text in dict(files).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(tmp_path)

    return made


def test_the_cache_is_free_memory(system):
    """MemAvailable and not MemFree: a read of the tiles would leave nothing for the next fit."""
    assert budget._free_memory(system()) == 40 << 10


GROUPS = {
    "v2": ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "9000\n"}, 9000),
    "v2, of a parent": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": "9000\n",
        },
        9000,
    ),
    "v2, in use but for the cache": (
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "9000\n",
            "sys/fs/cgroup/memory.current": "8000\n",
            "sys/fs/cgroup/memory.stat": "anon 3000\ninactive_file 4000\nactive_file 1000\n",
        },
        6000,
    ),
    "v2, none": ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 40 << 10),
    "v2, beyond the machine": ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "900000\n"}, 40 << 10),
    "v1": (
        {
            "proc/self/cgroup": "5:devices:/\n4:cpu,memory:/job\n0::/\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "9000\n",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 4000\ntotal_active_file 1000\n",
        },
        6000,
    ),
    "v1, the container's own tree": (
        {"proc/self/cgroup": "4:memory:/job\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9000\n"},
        9000,
    ),
    "v1, none": (
        {"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"},
        40 << 10,
    ),
    "used up": (
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "9000\n",
            "sys/fs/cgroup/memory.current": "9500\n",
        },
        0,
    ),
}


@pytest.mark.parametrize("name", GROUPS)
def test_free_memory_is_within_the_control_groups_limits(system, name):
    files, expected = GROUPS[name]
    assert budget._free_memory(system(files)) == expected


def test_a_system_that_says_nothing_of_caches_is_asked_for_its_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(budget.os, "sysconf", {"SC_AVPHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert budget._free_memory(str(tmp_path)) == 7 * 4096

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(budget.os, "sysconf", unknown)
    assert budget._free_memory(str(tmp_path)) == 1 << 40


@pytest.mark.parametrize(("n", "tile"), [(100, 16), (96, 16), (33, 64)])
def test_disk_bytes_are_the_bytes_of_all_chunks(tmp_path, n, tile):
    """Also measured: the files of a finished D."""
    store = RunStore.create(tmp_path / "run")
    store.create_distances(n, tile)
    for row, here in enumerate(store.blocks):
        store.write_tile_row(row, np.ones((here.stop - here.start, n - here.start), np.float32))
    files = (tmp_path / "run" / "distances" / "c").rglob("*")
    assert sum(p.stat().st_size for p in files if p.is_file()) == disk_bytes(n, tile)


def test_columns_are_planned_for():
    """1,000 components at 100,000 vertices: 2.4 GB of operand and sums alone."""
    assert task_bytes(100_000, 16, 1000) >= 24 * 1000 * 100_000
    with pytest.raises(ScalemaniError, match=r"need 2,\d{3},\d{3},\d{3} bytes"):
        choose_tile(100_000, 1 << 31, 1, columns=1000)
    assert choose_tile(100_000, 1 << 31, 1) == budget.LARGEST_TILE
    assert budget.SMALLEST_TILE <= choose_tile(100_000, 1 << 32, 1, columns=1000) <= budget.LARGEST_TILE


def test_the_search_holds_sixteen_bytes_a_vertex():
    """A float64 distance and two int32 of the heap, on top of the rows and their check."""
    n = 10**6
    assert task_bytes(n, 16, columns=1) == 4 * 16 * n + 16 * n + 16 * n


@pytest.mark.parametrize("name", ["run", "not/there/yet/run"])
def test_a_disk_that_is_too_small_is_refused_with_both_numbers(tmp_path, monkeypatch, name):
    asked = []

    def usage(place):
        asked.append(place)
        return shutil._ntuple_diskusage(10**9, 10**9 - free, free)

    monkeypatch.setattr(budget.shutil, "disk_usage", usage)
    needed = free = disk_bytes(1000, 64)
    check_disk(tmp_path / name, 1000, 64)
    free -= 1
    with pytest.raises(ScalemaniError, match=rf"1000 vertices need {needed:,} bytes and {free:,} are free.*larger"):
        check_disk(str(tmp_path / name), 1000, 64)
    assert asked == [tmp_path, tmp_path]
    assert not list(tmp_path.iterdir())


# ---- measured <= projected ---------------------------------------------------------------------
# tracemalloc sees NumPy's arrays; the search's own 16 n bytes are numba's and come on top.

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
@pytest.mark.parametrize("columns", [budget.SWEEP_COLUMNS, 150])
@pytest.mark.parametrize(("n", "tile"), SIZES)
def test_a_sweep_task_stays_within_its_projection(tmp_path, n, tile, columns, precision):
    """Both kinds of read: the first one takes sums as well."""
    store = empty_run(tmp_path / "run", n, tile)
    store.write_tile_row(0, np.ones((tile, n), np.float32))
    operand = np.ones((n, columns), precision)
    for share, width in ((_SHARES[precision], 2 * columns), (_SUM_SHARES[precision], 2 * columns + 2)):
        run = [(0, 0), (0, 1)]
        measured = peak(_add_run, share, store.path, store.document["id"], run, width, True, operand)
        assert measured + operand.nbytes <= task_bytes(n, tile, columns) + SLACK
