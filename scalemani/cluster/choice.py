"""Whether tasks run in this thread or on a Dask cluster, which is imported only when one is needed."""

import sys
from typing import Any

from scalemani.cluster.client import Cluster

SYNCHRONOUS = "synchronous"  # a value of `scheduler`

SMALL = 2000**2
"""Distances from which threads pay. An embedded cluster takes 0.1-0.2 s to start and end, and 0.4 s to import once a
process. A fit of 2,000 points takes 0.4 s in this thread and 0.65 s on a cluster of two; at 3,000 both take 0.9 s."""


def open_cluster(scheduler: Any, distances: float, cost: float = 0) -> Cluster:
    """Where tasks are to run.

    scheduler: A client, an address, or "synchronous" for this thread. None: the active client if there is one, else
        this thread if the work is small, else threads of this process.
    distances: How many the tasks make or read.
    cost: Of one distance, in the neighbours or features that it takes; up to ten cost what SMALL was measured by.
    """
    if scheduler is None and distances * max(1, cost / 10) <= SMALL and not _has_active_client():
        scheduler = SYNCHRONOUS
    if isinstance(scheduler, str) and scheduler == SYNCHRONOUS:
        return Cluster()
    from scalemani.cluster.dask_cluster import DaskCluster  # here only: the import takes half a second

    return DaskCluster(scheduler)


def _has_active_client() -> bool:
    if "distributed" not in sys.modules:
        return False
    from scalemani.cluster.dask_cluster import active_client

    return active_client() is not None
