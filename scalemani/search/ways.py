"""Which way a search for neighbours goes: takes the rows, the metric and the room, gives the search that is cheapest.

By arithmetic, and by what the bounds of parts leave to be measured for a seeded sample of rows; never by a clock or the
number of threads.
"""

from __future__ import annotations

import numpy as np

from scalemani.search.bounds import Yardstick
from scalemani.search.costs import descent_seconds, exact_seconds, parts_seconds
from scalemani.search.descent import descent_obstacle
from scalemani.search.exact import ExactSearch
from scalemani.search.kept_blocks import PIECE_SECONDS
from scalemani.search.shard_descent import DescentInShards
from scalemani.search.shard_searches import PartsInShards, TreesInShards
from scalemani.search.shard_sizes import LEAST, shard_rows
from scalemani.search.sharded import Sharded
from scalemani.search.shards import Parts, make_parts, shards_of

WORTH_PARTS = 20.0  # projected seconds, below which all pairs are looked at
_SAMPLED = 100  # rows
_NOT_YET = 1.5  # how many times what a row's final list asks for is asked for while its list is not final

PLAIN, DESCENT = "plain", "nndescent"


def takes_descent(knn: str, search: ExactSearch, n_neighbors: int) -> bool:
    """Whether NN-descent is asked for, or cheaper than all pairs."""
    if knn != "auto":
        return knn == "nndescent"
    if descent_obstacle(search) is not None:
        return False
    return descent_seconds(search, n_neighbors) < exact_seconds(search, n_neighbors)


def chosen_way(search: ExactSearch, knn: str, n_neighbors: int, random_state: int, room: int | None) -> Sharded | str:
    """A search by parts or shards, or PLAIN (all pairs, or one k-d tree), or DESCENT (one index of all rows).

    knn ({"auto", "exact", "nndescent"})
    room: Bytes that the search may take; see :func:`scalemani.search.shard_sizes.shard_rows`.
    """

    def most_rows(method: str) -> int:
        count, width = search.n_rows, search.prepared.width
        return shard_rows(room, count, width, n_neighbors, method, search.threads)

    descent = takes_descent(knn, search, n_neighbors)
    parts = None
    if knn != "nndescent" and search.method == "brute" and not search.low and Yardstick.known(search.form):
        seconds = exact_seconds(search, n_neighbors)
        if seconds >= WORTH_PARTS and search.n_rows >= LEAST:
            parts = make_parts(search.prepared, random_state, search.n_rows, search.threads)
            by_parts = parts_seconds(search, pairs_a_row(search, parts, n_neighbors, random_state))
            if by_parts < (descent_seconds(search, n_neighbors) if descent else seconds):
                pieces = max(1, int(by_parts / (2 * PIECE_SECONDS)))
                return PartsInShards(search, parts, shards_of(parts, -(-search.n_rows // pieces)), n_neighbors)
    if descent:
        rows = most_rows("nndescent")
        if rows >= search.n_rows:
            return DESCENT
        parts = make_parts(search.prepared, random_state, min(rows, LEAST), search.threads)
        return DescentInShards(search, parts, shards_of(parts, rows), n_neighbors, random_state)
    if search.method == "brute" and search.low:
        rows = most_rows("kdtree")
        parts = make_parts(search.prepared, random_state, rows, search.threads)
        return TreesInShards(search, parts, shards_of(parts, rows), n_neighbors)
    return PLAIN


def pairs_a_row(search: ExactSearch, parts: Parts, n_neighbors: int, random_state: int) -> float:
    """Pairs measured for a row, about, if rows ask those parts alone that can hold nearer ones: of a sample's lists."""
    assert parts.cells is not None
    rng = np.random.default_rng([abs(int(random_state)), 3])
    sample = np.sort(rng.choice(search.n_rows, min(_SAMPLED, search.n_rows), replace=False))
    _, lengths = search.nearest(search.rows[sample], n_neighbors, exclude=sample)
    limits = parts.cells.yardstick.length(lengths[:, -1])
    place = np.empty(search.n_rows, np.int64)
    place[parts.order] = np.arange(search.n_rows)
    homes = np.searchsorted(parts.starts, place[sample], side="right") - 1
    sizes, asked = np.diff(parts.starts), 0.0
    for row, home, limit in zip(sample, homes, limits, strict=True):
        others = np.flatnonzero(np.arange(parts.count) != home)
        low = parts.cells.bounds(search.prepared.take(slice(row, row + 1)), int(home), others)[0]
        asked += sizes[home] + _NOT_YET * sizes[others[low <= limit]].sum()
    return float(asked / len(sample)) + parts.count
