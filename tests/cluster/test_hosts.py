"""Three hosts with addresses of their own, on one machine: network namespaces joined by a bridge.

A scheduler with the client, and two workers on a directory that all of them see; one host is cut off in the middle of
a run, as by a pulled cable: nobody is told, and no packet comes back. Where namespaces are not permitted it is skipped.
"""

import os
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from data import roll
from processes import Fleet

from scalemani import KernelIsomap, load
from scalemani.steps import cuts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.skipif(shutil.which("ip") is None, reason="there is no `ip` command"),
]
N, TILE = 600, 64
NET = "10.213.{}.{}"


def ip(*words, check=True):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=check)


class Hosts:
    """Hosts 1 to `count`, each a namespace with one cable to a bridge that is in a namespace of its own."""

    def __init__(self, count):
        self.mark = f"sm{os.getpid() % 100000}"
        self.count, self.subnet = count, os.getpid() % 250 + 1
        self.names = [f"{self.mark}-{host}" for host in range(count + 1)]  # the first has the bridge

    def __enter__(self):
        try:
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            bridge = self.names[0]
            ip("-n", bridge, "link", "add", "bridge", "type", "bridge")
            ip("-n", bridge, "link", "set", "bridge", "up")
            for host in range(1, self.count + 1):
                ends = ("type", "veth", "peer", "name", "eth", "netns", self.names[host])
                ip("-n", bridge, "link", "add", f"cable{host}", *ends)
                ip("-n", bridge, "link", "set", f"cable{host}", "master", "bridge", "up")
                ip("-n", self.names[host], "address", "add", f"{self.address(host)}/24", "dev", "eth")
                ip("-n", self.names[host], "link", "set", "eth", "up")
        except subprocess.CalledProcessError as error:
            self.__exit__(None, None, None)
            pytest.skip(f"network namespaces are not permitted here: {error.stderr.strip()}")
        return self

    def __exit__(self, *error):
        for name in self.names:  # their links go with them
            ip("netns", "delete", name, check=False)

    def address(self, host):
        return NET.format(self.subnet, host)

    def on(self, host):
        """A command that runs another on a host."""
        return ("ip", "netns", "exec", self.names[host])

    def cut(self, host):
        """Pull the cable at the bridge: neither end of a connection is told."""
        ip("-n", self.names[0], "link", "set", f"cable{host}", "down")


@pytest.fixture
def hosts():
    with Hosts(3) as made:
        yield made


def test_a_host_that_is_cut_off_in_the_middle_of_a_run_is_done_without(hosts, tmp_path, monkeypatch):
    """The worker on it holds a task and half of what was sent; its connections die by their time-outs alone."""
    X = roll(N)
    np.save(tmp_path / "x.npy", X)
    fleet = Fleet(tmp_path, DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="5s")
    fleet.address = f"tcp://{hosts.address(1)}:8786"
    try:
        fleet.start_scheduler(host=hosts.address(1), prefix=hosts.on(1))
        for host in (2, 3):
            fleet.add_worker(host=hosts.address(host), prefix=hosts.on(host), wait=False)
        fleet.wait_for_workers()
        fleet.hold("geodesics", 3 * TILE)
        client = fleet.client(
            *("fit", tmp_path / "x.npy", tmp_path / "r", "-k8", "--knn", "exact", "--method", "kernel-isomap", "-q"),
            settings={"scalemani.steps.cuts.LARGEST_TILE": TILE},
            prefix=hosts.on(1),
        )
        fleet.held(2)
        hosts.cut(3)
        (fleet.gate / "hold-geodesics").unlink()
        assert client.wait(90) == 0, client.errors.read_text()
        assert fleet.scheduler.said(f"Remove worker addr: tcp://{hosts.address(3)}:")
    finally:
        fleet.__exit__(None, None, None)
    monkeypatch.setattr(cuts, "LARGEST_TILE", TILE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        here, there = KernelIsomap(n_neighbors=8, knn="exact").fit(X), load(tmp_path / "r")
    np.testing.assert_array_equal(there.embedding_, here.embedding_)
    assert there.additive_constant_ == here.additive_constant_
    assert set(fleet.rows_computed()) == set(range(0, N, TILE))
