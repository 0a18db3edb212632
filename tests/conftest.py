"""Fixtures that more than one file needs; data and references are in data.py and naive.py."""

import pytest

from scalemani.engine.cluster import Cluster


@pytest.fixture(scope="module")
def cluster():
    """One embedded cluster of two threads for a file's tests."""
    with Cluster(threads=2) as made:
        yield made
