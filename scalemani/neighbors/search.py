"""Stage 2: takes points, gives each row's nearest other rows, exactly or by NN-descent with its recall."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from scalemani.aliases import F64, I64
from scalemani.errors import LowRecallWarning, ScalemaniError, unknown, warn
from scalemani.neighbors.choice import DESCENT, chosen_way, exact_seconds
from scalemani.neighbors.descent import descent_candidates
from scalemani.neighbors.exact import ExactSearch, check_finite
from scalemani.neighbors.lists import (
    LEAST_RECALL,
    Account,
    Kept,
    Lists,
    NeighborLists,
    NothingKept,
    by_pieces,
    even_lists,
)
from scalemani.neighbors.parts import Sharded
from scalemani.neighbors.precomputed import PrecomputedSearch
from scalemani.neighbors.prepared import build_evaluations
from scalemani.points.digests import content_rank, row_digests
from scalemani.points.rows import Points

__all__ = ["Done", "NeighborLists", "Search", "check_size", "find_neighbors", "search_for", "silent"]

Search: TypeAlias = ExactSearch | PrecomputedSearch

RECALL_SAMPLE = 200  # rows
KNN = ("auto", "exact", "nndescent")
_TYPICAL_LIST = 10  # rows, where a radius doesn't say
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
    search: Search | None = None,
    room: int | None = None,
    kept: Kept | None = None,
    progress: Done = silent,
) -> NeighborLists:
    """Find each row's neighbours among the other rows.

    points: Distinct rows; for ``metric="precomputed"`` the (m, m) matrix of distances.
    n_neighbors: Number of OTHER rows in each list; None with ``radius``.
    radius: All other rows at this distance or less, so that lists may be empty; always an exact search.
    metric, metric_params: See :class:`scalemani.neighbors.exact.ExactSearch`, or "precomputed".
    knn ({"auto", "exact", "nndescent"}): "auto" takes the exact search while its projected cost is the smaller; the
        choice follows from the rows, ``n_neighbors``, the metric and the seed alone, never from a clock or the number
        of threads.
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
    kept = NothingKept() if kept is None else kept
    if radius is not None and knn == "nndescent":
        raise ScalemaniError("knn='nndescent' finds n_neighbors only; with radius use 'exact' or 'auto'")
    lists = None
    if n_neighbors is not None and isinstance(search, ExactSearch):
        way = chosen_way(search, knn, n_neighbors, random_state, room)
        if isinstance(way, Sharded):
            lists = _by_shards(way, random_state, kept, progress)
        elif way == DESCENT:
            progress(0)
            lists = _by_descent(search, n_neighbors, random_state, kept)
    if lists is None:
        lists = _by_search(search, n_neighbors, None if radius is None else float(radius), kept, progress)
    out = search.apart(lists.distances)
    return lists.without(out) if out.any() else lists


def search_for(
    points: Any,
    metric: Any = "euclidean",
    metric_params: Mapping[str, Any] | None = None,
    threads: int = 1,
    hold: bool = True,
) -> Search:
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


def _by_search(
    search: Search, n_neighbors: int | None, radius: float | None, kept: Kept, progress: Done
) -> NeighborLists:
    """Exact lists, by pieces."""

    def each(starts: Sequence[int]) -> Iterator[Lists]:
        if radius is not None:
            yield from search.each_within(radius, starts)
            return
        assert n_neighbors is not None
        for table, lengths in search.each_nearest(n_neighbors, starts):
            yield np.full(len(table), n_neighbors), table.ravel(), lengths.ravel()

    seconds = exact_seconds(search, n_neighbors or _TYPICAL_LIST)
    counts, indices, distances = by_pieces(each, search.n_rows, search.block_rows, seconds, kept, progress)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    count = search.n_rows
    account = Account(count * count)
    if isinstance(search, ExactSearch) and search.method == "kdtree":
        account = Account(search.evaluations(count), counted=False)
    return NeighborLists(indptr, indices, distances, search.method, 1.0, account)


def _by_shards(way: Sharded, random_state: int, kept: Kept, progress: Done) -> NeighborLists:
    """Lists by parts or shards; what NN-descent left short is searched for exactly."""
    sizes = "_".join(str(len(shard)) for shard in way.shards[:2])
    table, lengths = way.run(kept, f"{way.name}_{len(way.shards)}_{sizes}_{abs(int(random_state))}", progress)
    search, k = way.search, way.k
    if way.exact:
        check_finite(search.form, lengths)
        return even_lists(table, lengths, way.method, 1.0, way.account)
    short = np.flatnonzero(~np.isfinite(lengths[:, -1]))
    if len(short):
        table[short], lengths[short] = search.nearest(search.rows[short], k, exclude=short)
    return _with_recall(search, table, lengths, random_state, way.account)


def _by_descent(search: ExactSearch, n_neighbors: int, random_state: int, kept: Kept) -> NeighborLists:
    name, shape = f"descent_{abs(int(random_state))}", (search.n_rows, n_neighbors + 1)
    piece = kept.get(name)
    candidates = piece[0] if piece else None
    if candidates is None or candidates.shape != shape:
        candidates = descent_candidates(search, n_neighbors, random_state)
        kept.put(name, [candidates])
    table, lengths = complete_lists(search, candidates, n_neighbors)
    account = Account(build_evaluations(search.n_rows, n_neighbors) + candidates.size, counted=False)
    return _with_recall(search, table, lengths, random_state, account)


def _with_recall(search: ExactSearch, table: I64, lengths: F64, random_state: int, account: Account) -> NeighborLists:
    """Lists of NN-descent, with the share of true neighbours in them."""
    recall = measured_recall(search, lengths, random_state)
    if recall < LEAST_RECALL:
        warn(
            f"NN-descent found {recall:.3f} of the true neighbours on a sample of "
            f"{min(RECALL_SAMPLE, len(table))} rows, and {LEAST_RECALL} is expected: use knn='exact', or "
            f"more than {lengths.shape[1]} neighbours",
            LowRecallWarning,
        )
    return even_lists(table, lengths, "nndescent", recall, account)


def complete_lists(search: ExactSearch, candidates: I64, n_neighbors: int) -> tuple[I64, F64]:
    """Lists of exactly ``n_neighbors`` other rows from candidates with the row itself, -1 and repeats.

    Distances are computed in float64; rows with too few candidates left are searched exactly.
    """
    own = np.arange(len(candidates))
    ordered = np.sort(candidates, axis=1)
    good = (ordered >= 0) & (ordered != own[:, None])
    good[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    short = good.sum(axis=1) < n_neighbors
    stand_in = own[:, None] - 1  # any other row; its distance is not used
    lengths = search.paired(search.rows, np.where(good, ordered, stand_in))
    lengths[~good] = np.inf
    order = np.lexsort((search.tie_rank[ordered], lengths), axis=1)[:, :n_neighbors]
    table = np.take_along_axis(ordered, order, axis=1)
    lengths = np.take_along_axis(lengths, order, axis=1)
    if short.any():
        table[short], lengths[short] = search.nearest(search.rows[short], n_neighbors, exclude=own[short])
    return table, lengths


def measured_recall(search: ExactSearch, lengths: F64, random_state: int) -> float:
    """Share of true neighbours found on a seeded sample: listed rows no farther than the true k-th.

    lengths (m, k): Distances in each row's list.
    """
    count, k = lengths.shape
    rng = np.random.default_rng([abs(int(random_state)), 1])
    sample = np.sort(rng.choice(count, min(RECALL_SAMPLE, count), replace=False))
    _, true = search.nearest(search.rows[sample], k, exclude=sample)
    return float(np.mean(lengths[sample] <= true[:, -1:]))
