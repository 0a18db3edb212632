"""The time of a plan: arithmetic on rates, and rates that are those of the work."""

import numpy as np
import pytest
from data import line_graph, ring_distances, roll

from scalemani import KernelIsomap
from scalemani.geodesics.batches import PathGraph
from scalemani.planning import seconds

K = 8
pytestmark = pytest.mark.usefixtures("quick_calibration")


def test_time_is_arithmetic_on_the_rates():
    rates = seconds.Rates(row=2e-3, entry_written=1e-8, entry_read=4e-9, disk=1e9)
    # 8 rows of tiles on 2 threads are 4 rounds; 1,000 rows of 2 ms, and half a million entries and the diagonal's half.
    entries = 1000 * (1000 + 125) / 2
    assert seconds.geodesic_seconds(rates, 1000, 125, 2, 0) == pytest.approx((2 + 1e-8 * entries) / 2)
    assert seconds.geodesic_seconds(rates, 1000, 125, 16, 0) == pytest.approx((2 + 1e-8 * entries) / 8)
    assert seconds.geodesic_seconds(rates, 1000, 125, 2, 10**10) == 10
    assert seconds.read_seconds(rates, 1000, 125, 2, 10**6, 10**9) == pytest.approx(4e-9 * entries / 2)
    assert seconds.read_seconds(rates, 1000, 125, 2, 10**10, 10**9) == 10
    # 8 tasks of 32 rows on 3 threads are 3 rounds.
    assert seconds.start_seconds(1e-2, 8, 32, 3) == pytest.approx(0.96)


def test_the_time_counts_the_start_at_the_rate_of_scattered_rows(monkeypatch):
    sample = seconds.Sample(ring_distances(320), 100.0)
    monkeypatch.setattr(seconds, "sample_distances", lambda cluster, graph, count, together: sample)
    shown = KernelIsomap(n_neighbors=K).plan(roll(700))
    rounds = -(-4 // (shown.threads * shown.workers))
    assert rounds * 3200 <= shown.seconds["geodesics"] < rounds * 3200 + 60


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
