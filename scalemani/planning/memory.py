"""Memory, disk and tasks as arithmetic: a tile size and a basis that fit, or a refusal before any work.

A fit is four stages to the memory of a process: the neighbour search with the graph, the rows that give the solver's
first block, the geodesics, and the solving. Each is a table of parts (:mod:`scalemani.planning.terms` says what each
is), the client's and a worker's; where the worker is threads of the client's own process the two are one table. The
largest of the stages must stay within `memory_limit`, which is what a process holds above its size at the start.

What each kind of process may hold: takes the user's limit and the workers' own, says if a stage fits, or why not.

Client and workers may be processes on different hosts: the workers' memory limit, which Dask enforces by pausing and
killing them, is theirs alone, and the user's `memory_limit` holds for either.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scalemani.cluster import machine
from scalemani.cluster.client import tasks_in_flight
from scalemani.errors import DoesNotFitError
from scalemani.planning import terms
from scalemani.steps import distances
from scalemani.storage.files import open_location
from scalemani.storage.tiles import Blocks

Parts = Mapping[str, int]


@dataclass(frozen=True)
class Allowance:
    """Bytes that processes may hold above their size at the start.

    worker_memory: The memory limit that a worker was started with, where that is what bounds `worker`; else 0.
    """

    client: int
    worker: int
    worker_memory: int = 0

    @classmethod
    def of(cls, limit: int, worker_limit: int | None, worker_memory: int, *, one_process: bool) -> "Allowance":
        """The allowance of `limit`, which the user gave, and of the workers' own; one process keeps to both."""
        worker = limit if worker_limit is None else worker_limit
        if one_process and worker_limit is not None:
            worker = min(limit, worker)
        binds = worker_limit is not None and worker == worker_limit
        return cls(worker if one_process else limit, worker, worker_memory if binds else 0)

    def holds(self, client: Parts, worker: Parts) -> bool:
        """Whether a stage fits."""
        return sum(client.values()) <= self.client and sum(worker.values()) <= self.worker

    def excess(self, client: Parts, worker: Parts) -> float:
        """How many times what is allowed a stage needs, in the process that is worse off."""
        return max(sum(client.values()) / max(self.client, 1), sum(worker.values()) / max(self.worker, 1))

    def in_words(self, client: Parts, worker: Parts, threads: int, name: str) -> tuple[str, list[str]]:
        """What a stage needs and what is allowed, and what to do about that."""
        in_worker = sum(worker.values()) / max(self.worker, 1) > sum(client.values()) / max(self.client, 1)
        parts = worker if in_worker else client
        largest = max(parts, key=lambda part: parts[part])
        of = f"({threads} threads; the most in {name}: {parts[largest]:,} for {largest})"
        needs = f"{sum(parts.values()):,} bytes a process {of}"
        if self.worker_memory and (in_worker or not worker):
            return (
                f"{needs} and the workers' memory limit of {self.worker_memory:,} bytes allows {self.worker:,}, "
                "less than what pauses them and less what they hold already",
                ["start Dask workers with a larger --memory-limit"],
            )
        return f"{needs} and memory_limit allows {self.worker if in_worker else self.client:,}", ["raise memory_limit"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What any fit asks of a machine.

    n, edges: Vertices, and stored entries of the graph (two an edge; 0 where D is given).
    threads, workers: Tasks that a process of workers runs at once, and such processes.
    embedded: Whether a worker is threads of the client's process.
    points: Bytes that the client holds all along: points, their digests, the search.
    search: Bytes of the neighbour search and of the graph's making at their most, besides those.
    given: Whether D is given, and copied by the client.
    done: Stages that the store has, which take nothing.
    worker_limit, worker_memory: Bytes that a process of workers may add, if others than the user's, and the worker's
        memory limit behind it.
    """

    n: int
    edges: int
    components: int
    threads: int
    workers: int = 1
    embedded: bool = True
    points: int = 0
    search: int = 0
    given: bool = False
    done: tuple[str, ...] = ()
    worker_limit: int | None = None
    worker_memory: int = 0

    def allowance(self, limit: int) -> Allowance:
        """What the two kinds of process may add, where the user allows `limit`."""
        return Allowance.of(limit, self.worker_limit, self.worker_memory, one_process=self.embedded)


LARGEST_TILE = 2048  # 16 MiB of float32: long enough for BLAS, short enough for a task of seconds
SMALL_TILE = 256  # a smaller basis is better than tiles below this
SMALLEST_TILE = 16  # below this a tile is mostly overhead

MemoryParts = dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Work(Asked):
    """What a fit that has all of D asks of a machine.

    columns: The most vectors that a read of D multiplies by, which are also those of the first read.
    size: Bytes of a number in the products of a read.
    compressed: Whether D is, on the disk.
    least_columns, usual_columns: Columns of the solver's basis: the fewest that it works with, and those it takes
        unless told.
    start_vertices: Rows of D that give the solver's first block, at most; a smaller basis takes fewer (two a column).
    """

    columns: int
    size: int = 8
    compressed: bool = False
    least_columns: int = 1
    usual_columns: int = 1
    start_vertices: int = 0

    @property
    def window(self) -> int:
        """Tasks in flight, and the result that is being added."""
        return tasks_in_flight(self.threads * self.workers) + 1


@dataclass(frozen=True)
class Stage:
    """Parts of the memory of the two kinds of process, by name; `worker` is empty where there is one process."""

    client: MemoryParts
    worker: MemoryParts

    @property
    def peak(self) -> int:
        """Bytes of the larger process."""
        return max(sum(self.client.values()), sum(self.worker.values()))

    @property
    def parts(self) -> MemoryParts:
        """Parts of the larger process."""
        return max(self.client, self.worker, key=lambda parts: sum(parts.values()))


def stages(work: Work, tile: int, most_columns: int) -> dict[str, Stage]:
    """What each process holds at the most, stage by stage and part by part."""
    made = {
        "search": by_process(work, {"search and graph": work.search}, {}),
        "start": _start(work, most_columns),
        "geodesics": _geodesics(work, tile),
        "solve": _solve(work, tile, most_columns),
    }
    return {name: stage for name, stage in made.items() if name not in work.done and (stage.client or stage.worker)}


def _start(work: Work, most_columns: int) -> Stage:
    n, vertices = work.n, min(work.start_vertices, 2 * most_columns)
    if not vertices:
        return Stage({}, {})
    rows = terms.start_rows_bytes(n, vertices)
    part = terms.start_rows_bytes(n, distances.SOURCES_A_TASK)
    flying = terms.given_row_bytes(n) if work.given else min(work.window, start_tasks(vertices)) * part
    block = terms.start_block_bytes(n, vertices, work.columns)
    client = {"rows to start from": rows, "in flight, or the block": max(flying, block)}
    graph = terms.graph_bytes(n, work.edges) + terms.paths_bytes(n, work.edges)
    tasks = work.threads * terms.start_task_bytes(n, work.edges)
    return by_process(work, client, {} if work.given else {"graph": graph, f"{work.threads} tasks": tasks})


def _geodesics(work: Work, tile: int) -> Stage:
    n, m, size = work.n, work.columns, work.size
    if work.given:
        shares = terms.share_bytes(n, m) + terms.panel_bytes(tile, m, size)
        client = {"rows on their way": terms.given_task_bytes(n, tile), "their shares": shares}
        return by_process(work, {**client, "sums of the first read": terms.start_bytes(n, m, size)}, {})
    tasks = work.threads * terms.geodesic_task_bytes(n, work.edges, tile, m, size, work.compressed)
    client = {
        "shares in flight": terms.waiting_bytes(n, tile, 2 * m + terms.SUMS, work.window),
        "sums of the first read": terms.start_bytes(n, m, size),
    }
    graph = terms.graph_bytes(n, work.edges) + terms.paths_bytes(n, work.edges)
    worker = {"graph": graph, f"{work.threads} tasks": tasks}
    if not work.embedded:
        worker["vectors"] = terms.operand_bytes(n, m, size)
        client["graph"] = worker["graph"]
        client["sampled rows"] = terms.median_bytes(n, work.edges)
    else:  # one after the other
        worker[f"{work.threads} tasks"] = max(tasks, terms.median_bytes(n, work.edges))
    return by_process(work, client, worker)


def _solve(work: Work, tile: int, most_columns: int) -> Stage:
    n, m = work.n, work.columns
    waiting = terms.waiting_bytes(n, 0, 2 * m, min(work.window, Blocks(n, tile).read_runs + 1))
    operand = terms.operand_bytes(n, m, work.size)
    reading = waiting + operand + terms.products_bytes(n, m)
    task = terms.sweep_task_bytes(n, tile, m, work.size, work.compressed)
    if not work.given and "geodesics" not in work.done:
        task = max(task, terms.left_bytes(terms.geodesic_task_bytes(n, work.edges, tile, m, work.size)))
    tasks = work.threads * task
    growing = terms.growth_bytes(n, m)
    outputs = terms.outputs_bytes(n, work.components)
    basis = max(terms.basis_bytes(n, most_columns), terms.again_bytes(n, work.edges))  # one after the other
    graph = {} if work.given else {"graph": terms.graph_bytes(n, work.edges)}
    client = {
        **graph,
        "basis and images": basis,
        "a read, or the basis growing": max(reading, growing),
        "outputs": outputs,
    }
    worker = {**graph, f"{work.threads} tasks": tasks}
    return by_process(work, client, worker if work.embedded else {**worker, "vectors": operand})


def by_process(work: Asked, client: MemoryParts, worker: MemoryParts) -> Stage:
    """A stage from what client and worker hold of it, with what they hold in any; one table where they are one."""
    client = {"points": work.points, **client}
    if work.embedded:
        return Stage({**client, **worker, "cluster and code": machine.FIRST_USE}, {})
    return Stage(
        {**client, "cluster and code": machine.FIRST_USE},
        {**worker, "cluster and code": machine.FIRST_USE} if worker else {},
    )


def peak_bytes(work: Work, tile: int, most_columns: int) -> int:
    """Bytes of the largest process in the largest stage."""
    return max((stage.peak for stage in stages(work, tile, most_columns).values()), default=0)


@dataclass(frozen=True)
class Choice:
    """What the budget chose: the tile size, and the columns at which the solver's basis restarts."""

    tile: int
    most_columns: int


def choose(work: Work, limit: int, tile: int | None = None) -> Choice:
    """The largest basis, which saves reads of D, and of the tiles that go with it the largest, within `limit`.

    limit: Bytes a process may hold above its size at the start.
    Raises DoesNotFitError: If nothing fits; both numbers and the remedies are named.
    """
    sizes, allowed = list(tile_sizes(work.n)) if tile is None else [tile], work.allowance(limit)
    for columns in _bases(work):
        for size in sizes:
            worth_it = size >= min(sizes[0], SMALL_TILE) or columns == work.least_columns
            if worth_it and all(allowed.holds(s.client, s.worker) for s in stages(work, size, columns).values()):
                return Choice(size, columns)
    raise DoesNotFitError(refusal(work, limit, min(sizes, key=lambda size: peak_bytes(work, size, work.least_columns))))


def tile_sizes(n: int) -> Iterator[int]:
    """Tile sizes from the largest worth having for n vertices down, each about three quarters of the last."""
    size = max(SMALLEST_TILE, min(LARGEST_TILE, -(-n // (8 * 16)) * 16))
    while size > SMALLEST_TILE:
        yield size
        size = max(SMALLEST_TILE, 3 * size // 4 // 16 * 16)
    yield size


def _bases(work: Work) -> list[int]:
    """Basis sizes: the usual one, two between, the least, which takes nearly twice the reads of D."""
    usual, least = work.usual_columns, work.least_columns
    return sorted({usual - (usual - least) * part // 3 for part in range(4)}, reverse=True)


def refusal(work: Work, limit: int, tile: int) -> str:
    """Why nothing fits, and what would: one line."""
    by_name, allowed = stages(work, tile, work.least_columns), work.allowance(limit)
    name = max(by_name, key=lambda stage: allowed.excess(by_name[stage].client, by_name[stage].worker))
    said, change = allowed.in_words(by_name[name].client, by_name[name].worker, work.threads, name)
    if work.threads > 1 and name != "search":
        change.append("give a Dask scheduler whose workers have fewer threads")
    if work.columns > 16 and work.components > 8 and name != "search":
        change.append(f"ask for fewer components than {work.components}")
    return f"{work.n} vertices need {said}: {_or(change)}"


def _or(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, or {words[-1]}"


# ---- counts --------------------------------------------------------------------------------------


def start_tasks(vertices: int) -> int:
    """Tasks that find the rows of so many vertices to start from."""
    return -(-vertices // distances.SOURCES_A_TASK)


def task_count(n: int, tile: int, reads: int, start_vertices: int = 0, *, given: bool = False) -> int:
    """Tasks of a fit: the start's, one a row of tiles, the runs of every read; where D is given the last alone."""
    blocks = Blocks(n, tile)
    return (0 if given else start_tasks(start_vertices) + len(blocks)) + blocks.read_runs * reads


def disk_bytes(n: int, tile: int) -> int:
    """Bytes of the distance tiles: upper tiles only, the last of a row padded to full size."""
    blocks = -(-n // tile)
    return blocks * (blocks + 1) // 2 * tile * tile * 4


def stored_bytes(n: int, tile: int, compressed: bool) -> int:
    """Bytes that the distances take on the disk; where they are compressed a guess, a quarter less."""
    return disk_bytes(n, tile) * 3 // 4 if compressed else disk_bytes(n, tile)


def check_disk(path: str | os.PathLike[str], n: int, tile: int, model: int = 0, compressed: bool = False) -> None:
    """Refuse a store that doesn't fit on its disk.

    model: Bytes of what is kept besides the distances.
    Raises DoesNotFitError: Naming what is needed and what is free.
    """
    needed, free = stored_bytes(n, tile, compressed) + model, open_location(path).free_bytes()
    if needed > free:
        what, compress = "files" if model else "distances alone", "" if compressed else "compression, "
        raise DoesNotFitError(
            f"the {what} of {n} vertices need {needed:,} bytes and {free:,} are free at {str(path)!r}: give a store on "
            f"a larger disk, {compress}or free some space"
        )
