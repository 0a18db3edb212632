"""The way in: `find_neighbors` gives each row's nearest other rows, exactly or by NN-descent with its recall.

`choice` says which search is the cheapest; here it runs, and its lists are made complete.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from scalemani.aliases import F64
from scalemani.errors import LowRecallWarning, ScalemaniError, unknown, warn
from scalemani.neighbors.choice import Chosen, SearchStrategy, choose_search
from scalemani.neighbors.descent import DescentShards, complete_lists, descent_candidates
from scalemani.neighbors.exact import ExactSearch
from scalemani.neighbors.lists import (
    LEAST_RECALL,
    Lists,
    NeighborLists,
    SearchStats,
    by_pieces,
    even_lists,
)
from scalemani.neighbors.precomputed import PrecomputedSearch
from scalemani.points.digests import content_rank, row_digests
from scalemani.points.rows import Points
from scalemani.storage.pieces import Pieces

__all__ = ["Done", "NeighborLists", "check_size", "find_neighbors", "search_for", "silent"]

RECALL_SAMPLE = 200  # rows
KNN = ("auto", "exact", "nndescent")
Done = Callable[[int], None]
"""Takes the number of rows that are done."""


def silent(done: int) -> None:
    """Report nothing."""


def find_neighbors(
    points: Any,
    *,
    n_neighbors: int | None,
    radius: float | None = None,
    metric: Any = "euclidean",
    metric_params: Mapping[str, Any] | None = None,
    knn: str = "auto",
    random_state: int = 0,
    threads: int = 1,
    search: ExactSearch | None = None,
    room: int | None = None,
    kept: Pieces | None = None,
    progress: Done = silent,
) -> NeighborLists:
    """Find each row's neighbours among the other rows.

    points: Distinct rows; for ``metric="precomputed"`` the (m, m) matrix of distances.
    n_neighbors: Number of OTHER rows in each list; None with ``radius``.
    radius: All other rows at this distance or less, so that lists may be empty; always an exact search.
    metric, metric_params: See :class:`scalemani.neighbors.exact.ExactSearch`, or "precomputed".
    knn ({"auto", "exact", "nndescent"}): "auto" takes the exact search while its projected cost is the smaller.
    random_state: Seed of NN-descent and of the sample for recall.
    threads: Threads of the exact search; lists are bit-equal for any number.
    search: A search made by :func:`search_for` from the same points, to be used again.
    room: Bytes that the search may take besides the points and two copies of the lists: rows are searched shard by
        shard where it takes more at once (with a radius by blocks of rows).
    kept: Where finished pieces are kept, and found by the next call with the same arguments. NN-descent is one piece:
        it can't be taken up half done, but what follows it (recall, completion of short lists) can.
    progress: Called with the number of rows that are done, from those that were kept to less than all.
    -> Without rows that have nothing in common under the metric, so that lists may be shorter than asked for.
    Raises ScalemaniError: ``n_neighbors`` and ``radius`` both given, neither, or out of range; too few distinct rows; a
        metric that is unknown.
    Warns by LowRecallWarning: NN-descent missed more than 5 % of the true neighbours on a sample.
    """
    if knn not in KNN:
        raise unknown("knn=", knn, KNN)
    check_size(points, n_neighbors, radius)
    if search is None:
        search = search_for(points, metric, metric_params, threads=threads)
    if isinstance(search, PrecomputedSearch) and knn == "nndescent":
        raise ScalemaniError("knn='nndescent' needs points; with metric='precomputed' use 'exact' or 'auto'")
    if radius is not None and knn == "nndescent":
        raise ScalemaniError("knn='nndescent' finds n_neighbors only; with radius use 'exact' or 'auto'")
    chosen = choose_search(search, knn, n_neighbors, random_state, room)
    if chosen.strategy == SearchStrategy.DESCENT:
        assert n_neighbors is not None
        lists = _descent_lists(search, chosen, n_neighbors, random_state, kept, progress)
    else:
        lists = _exact_lists(search, chosen, n_neighbors, radius, random_state, kept, progress)
    out = search.apart(lists.distances)
    return lists.without(out) if out.any() else lists


def search_for(
    points: Any,
    metric: Any = "euclidean",
    metric_params: Mapping[str, Any] | None = None,
    threads: int = 1,
    hold: bool = True,
) -> ExactSearch:
    """The exact search among distinct rows, ties broken by content.

    points: Distinct rows; for ``metric="precomputed"`` the (m, m) matrix of distances.
    metric, metric_params, threads, hold: See :class:`scalemani.neighbors.exact.ExactSearch`.
    """
    if isinstance(metric, str) and metric == "precomputed":
        if metric_params:
            raise ScalemaniError("metric='precomputed' takes no metric_params")
        return PrecomputedSearch(points.rows if isinstance(points, Points) else points)
    rows = points.rows if isinstance(points, Points) else points
    digests = points.digests if isinstance(points, Points) else row_digests(rows)
    return ExactSearch(rows, metric, metric_params, tie_rank=content_rank(digests), threads=threads, hold=hold)


def check_size(points: Any, n_neighbors: Any, radius: Any) -> None:
    """Raise unless exactly one of ``n_neighbors`` and ``radius`` is given, and the points allow it."""
    if n_neighbors is not None and radius is not None:
        raise ScalemaniError(
            f"n_neighbors={n_neighbors} and radius={radius} are both given; set the one not wanted to None"
        )
    if n_neighbors is None and radius is None:
        raise ScalemaniError("n_neighbors and radius are both None; give one of them")
    if radius is not None:
        if isinstance(radius, bool) or not isinstance(radius, Real) or not float(radius) >= 0:
            raise ScalemaniError(f"radius={radius!r} is no distance; a number >= 0 is needed")
        return
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, (int, np.integer)) or n_neighbors < 1:
        raise ScalemaniError(f"n_neighbors={n_neighbors!r}; an integer >= 1 is needed")
    if isinstance(points, Points):
        n_rows, n_distinct = points.n_rows, points.n_distinct
    else:
        n_rows = n_distinct = points.shape[0]
    if n_neighbors >= n_distinct:
        merged = f" ({n_rows} rows, {n_rows - n_distinct} of them repeats)" if n_distinct < n_rows else ""
        single = " (1 sample)" if n_rows == 1 else ""
        raise ScalemaniError(
            f"n_neighbors={n_neighbors} needs at least {n_neighbors + 1} distinct rows; "
            f"X has {n_distinct}{merged}{single}"
        )


def _exact_lists(
    search: ExactSearch,
    chosen: Chosen,
    n_neighbors: int | None,
    radius: float | None,
    random_state: int,
    kept: Pieces | None,
    progress: Done,
) -> NeighborLists:
    """Exact lists, by pieces: among all rows, or among clusters."""
    among, name = (search, "lists") if chosen.clusters is None else (chosen.clusters, f"clusters_{abs(random_state)}")

    def each(starts: Sequence[int]) -> Generator[Lists]:
        if n_neighbors is None:
            assert radius is not None
            yield from (Lists(*lists) for lists in search.each_within(float(radius), starts))
            return
        for table, lengths, *counted in among.each_nearest(n_neighbors, starts):
            yield Lists(np.full(len(table), n_neighbors), table.ravel(), lengths.ravel(), *counted)

    count = search.n_rows
    found = by_pieces(each, count, among.block_rows, chosen.seconds, kept, progress, name)
    n_distances = None if among.method == "kdtree" else count * count
    if chosen.clusters is not None:  # in the clusters' order
        table, lengths = found.indices.reshape(count, -1), found.distances.reshape(count, -1)
        position, n_clusters = np.argsort(chosen.clusters.clusters.order), chosen.clusters.clusters.count
        stats = SearchStats(n_distances and found.n_distances, n_clusters=n_clusters)
        return even_lists(table[position], lengths[position], among.method, 1.0, stats)
    indptr = np.concatenate([[0], np.cumsum(found.counts)]).astype(np.int64)
    return NeighborLists(indptr, found.indices, found.distances, among.method, 1.0, SearchStats(n_distances))


def _descent_lists(
    search: ExactSearch, chosen: Chosen, n_neighbors: int, random_state: int, kept: Pieces | None, progress: Done
) -> NeighborLists:
    """Lists by NN-descent, from one index or one a shard, with the share of true neighbours in them.

    What it left short is searched for exactly.
    """
    stats = SearchStats()
    if chosen.clusters is not None:
        shards = DescentShards(chosen.clusters, chosen.shard_rows, n_neighbors, random_state)
        (table, lengths), stats = shards.run(kept, progress), shards.stats
    else:
        progress(0)
        name, shape = f"descent_{abs(int(random_state))}", (search.n_rows, n_neighbors + 1)
        piece = None if kept is None else kept.get(name)
        candidates = piece[0] if piece else None
        if candidates is None or candidates.shape != shape:
            candidates = descent_candidates(search, n_neighbors, random_state)
            if kept is not None:
                kept.put(name, [candidates])
        table, lengths = complete_lists(search, candidates, n_neighbors)
    recall = measured_recall(search, lengths, random_state)
    if recall < LEAST_RECALL:
        warn(
            f"NN-descent found {recall:.3f} of the true neighbours on a sample of "
            f"{min(RECALL_SAMPLE, len(table))} rows, and {LEAST_RECALL} is expected: use knn='exact', or "
            f"more than {lengths.shape[1]} neighbours",
            LowRecallWarning,
        )
    return even_lists(table, lengths, "nndescent", recall, stats)


def measured_recall(search: ExactSearch, lengths: F64, random_state: int) -> float:
    """Share of true neighbours found on a seeded sample: listed rows no farther than the true k-th.

    lengths (m, k): Distances in each row's list.
    """
    count, k = lengths.shape
    rng = np.random.default_rng([abs(int(random_state)), 1])
    sample = np.sort(rng.choice(count, min(RECALL_SAMPLE, count), replace=False))
    _, true = search.nearest(search.rows[sample], k, exclude=sample)
    return float(np.mean(lengths[sample] <= true[:, -1:]))
