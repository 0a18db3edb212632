"""How many rows a shard may have: takes the bytes that there are, gives rows, by arithmetic that a plan makes, too."""

from __future__ import annotations

from typing import Any

from scalemani.engine import terms
from scalemani.row_files import held_bytes

LEAST = 4096  # rows: smaller shards save little and are many


def shard_rows(room: int | None, count: int, width: int, n_neighbors: int, method: str, threads: int) -> int:
    """Rows of a shard: all of them, or the half, the fourth and so on, until that fits.

    room: Bytes that the search may take besides the rows and two copies of the lists; None for any number.
    count: Rows, m.
    width: Features of a row as the metric takes them.
    method: "kdtree", "brute" or "nndescent".

    >>> shard_rows(None, 100_000, 784, 10, "nndescent", 2), shard_rows(2 << 30, 200_000, 784, 10, "nndescent", 2)
    (100000, 100000)
    """
    rows = count
    while room is not None and rows > LEAST and working_bytes(rows, count, width, n_neighbors, method, threads) > room:
        rows = -(-rows // 2)
    return rows


def working_bytes(rows: int, count: int, width: int, n_neighbors: int, method: str, threads: int) -> int:
    """Bytes of a search whose shards have so many rows of all."""
    found = terms.search_bytes(rows, width, n_neighbors, method, threads)
    if rows == count and method != "brute":
        return found
    found += terms.parts_bytes(count, width, n_neighbors) if count >= LEAST else 0
    if method == "kdtree":
        return found + rows * (8 * width + 24)
    if method == "brute":
        return found
    return max(found, terms.search_bytes(count, width, n_neighbors, "brute", threads))


def needed_bytes(room: int | None, count: int, width: int, n_neighbors: int, method: str, threads: int) -> int:
    """Bytes of a search whose shards are as large as there is room for."""
    rows = shard_rows(room, count, width, n_neighbors, method, threads)
    return working_bytes(rows, count, width, n_neighbors, method, threads)


def search_room(memory: int, rows: Any, n_rows: int, n_distinct: int, n_neighbors: int) -> int:
    """Bytes that a search may take, of those a process may hold, besides the points and two copies of the lists."""
    held = held_bytes(rows) + 8 * n_rows + 32 * n_distinct
    return max(0, memory - terms.FIRST_USE - held - 2 * terms.lists_bytes(n_distinct, n_distinct * n_neighbors))
