"""What the machine says it has, and what the user says it may take."""

import shutil

import numpy as np
import pytest

from scalemani.cluster import machine
from scalemani.cluster.machine import parse_memory
from scalemani.errors import ScalemaniError
from scalemani.storage.files import open_location


@pytest.mark.parametrize(
    ("given_limit", "expected"),
    [
        ("4GB", 4 * 10**9),
        ("4GiB", 4 << 30),
        ("512 MiB", 512 << 20),
        (1e6, 10**6),
        (12345, 12345),
        ("1e3", 1000),
        (np.int64(10**9), 10**9),
    ],
)
def test_memory_is_read_from_numbers_and_text(given_limit, expected):
    assert parse_memory(given_limit) == expected


@pytest.mark.parametrize(
    "limit", ["lots", "", " ", "1e400", "4 parsecs", 0, -1, "-4GB", True, float("nan"), [4], b"4GB", float("inf")]
)
def test_memory_that_is_none_is_refused_with_what_is_allowed(limit):
    with pytest.raises(ScalemaniError, match=r"memory_limit=.*'4GB'"):
        parse_memory(limit)


def test_no_limit_is_half_of_what_is_free(monkeypatch):
    monkeypatch.setattr(machine, "free_memory", lambda: 10 << 30)
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
    assert machine.free_memory(system()) == 40 << 10


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
    assert machine.free_memory(system(files)) == expected


def test_a_system_that_says_nothing_of_caches_is_asked_for_its_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.os, "sysconf", {"SC_AVPHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert machine.free_memory(str(tmp_path)) == 7 * 4096

    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr(machine.os, "sysconf", unknown)
    assert machine.free_memory(str(tmp_path)) == 1 << 40


@pytest.mark.parametrize("name", ["run", "not/there/yet/run"])
def test_the_disk_is_that_of_the_nearest_folder(tmp_path, monkeypatch, name):
    asked = []

    def usage(place):
        asked.append(place)
        return shutil._ntuple_diskusage(9, 2, 7)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert open_location(tmp_path / name).free_bytes() == 7
    assert asked == [tmp_path] == [open_location(str(tmp_path / name)).nearest_folder()]
    assert not list(tmp_path.iterdir())
