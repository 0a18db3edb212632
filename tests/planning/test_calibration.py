"""The time of a plan: arithmetic on rates, and rates that are those of the work."""

from types import SimpleNamespace

import numpy as np
import pytest
from data import line_graph, ring_distances, roll

from scalemani import KernelIsomap
from scalemani.geodesics.batches import PathGraph
from scalemani.parameters import Parameters
from scalemani.planning import seconds
from scalemani.steps import axes
from scalemani.steps.axes import TileAxes
from scalemani.steps.base import FitSize
from scalemani.steps.cuts import TileCut
from scalemani.steps.distances import TileDistances
from scalemani.steps.start import Start

K = 8
pytestmark = pytest.mark.usefixtures("quick_calibration")


def test_time_is_arithmetic_on_the_rates(monkeypatch):
    def told(step, threads, tile=125, **more):
        """Seconds of a step; a D of 1,000 vertices has 2.25 MB in tiles of 125."""
        given = {"row": 2e-3, "entries": lambda n, tile, columns: seconds.Entries(1e-8, 4e-9), "disk": 1e9, **more}
        size = FitSize(n=1000, edges=10_000, parameters=Parameters(n_neighbors=8), threads=threads, reads=2)
        return step.seconds(size, TileCut(tile, 96), SimpleNamespace(algebra=lambda n, columns: 0.0, **given))

    # 8 rows of tiles on 2 threads are 4 rounds; 1,000 rows of 2 ms, and half a million entries and the diagonal's half.
    entries = 1000 * (1000 + 125) / 2
    assert told(TileDistances(), 2) == pytest.approx((2 + 1e-8 * entries) / 2)
    assert told(TileDistances(), 16) == pytest.approx((2 + 1e-8 * entries) / 8)
    assert told(TileDistances(), 2, disk=2.25e5) == 10
    # Two reads, from memory or, where there is none, from the disk.
    assert told(TileAxes(), 2) == pytest.approx(2 * 4e-9 * entries / 2)
    assert told(TileAxes(), 2, disk=2.25e5) == pytest.approx(2 * 4e-9 * entries / 2)
    monkeypatch.setattr(axes, "free_memory", lambda: 10**6)
    assert told(TileAxes(), 2, disk=2.25e5) == 20
    # 128 rows are 4 tasks of 32, on 3 threads 2 rounds.
    assert told(Start(), 3, sample=SimpleNamespace(row=1e-2)) == pytest.approx(0.64)


def test_the_time_counts_the_start_at_the_rate_of_scattered_rows(monkeypatch):
    sample = seconds.Sample(ring_distances(320), 100.0)
    monkeypatch.setattr(seconds, "sample_distances", lambda cluster, graph, count, together: sample)
    shown = KernelIsomap(n_neighbors=K).plan(roll(700))
    rounds = -(-4 // (shown.threads * shown.workers))
    assert shown.seconds["start"] == rounds * 3200


@pytest.mark.parametrize(("count", "together"), [(30, 7), (64, 16), (100, 16)])
def test_sampled_distances_are_the_vertices_own(count, together, cluster):
    """In their order, whatever was found when."""
    graph = line_graph(64)
    sample = seconds.sample_distances(cluster, PathGraph(graph), count, together)
    where = np.linspace(0, 64, min(64, count), endpoint=False).astype(int)
    np.testing.assert_array_equal(sample.distances, np.abs(where[:, None] - where))
    assert sample.row > 0


def test_a_sample_of_a_large_graph_is_what_there_is_time_for(cluster, monkeypatch):
    monkeypatch.setattr(seconds, "SAMPLE_SECONDS", 0.0)
    distances = seconds.sample_distances(cluster, PathGraph(line_graph(640)), 320, 16).distances
    assert distances.shape == (16 * cluster.threads, 16 * cluster.threads)
    assert (np.diff(distances[0]) > 0).all()
    np.testing.assert_array_equal(distances, distances.T)
