"""What a fit by landmarks asks of the machine: takes the sizes, gives how the distances are cut, or a refusal.

A block of landmarks' rows is a task's memory, in each thread; the rest of a worker is the graph. The disk holds the
distances twice while they are turned.

What a fit asks of the machine: takes X as read and the parameters, gives the sizes that the arithmetic works on.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from scalemani.cluster import machine
from scalemani.cluster.client import Cluster, cores
from scalemani.cluster.machine import parse_memory
from scalemani.errors import DoesNotFitError, ScalemaniError
from scalemani.geodesics.batches import workspace_bytes
from scalemani.geodesics.farthest import farthest_points_bytes
from scalemani.geodesics.landmarks import Layout
from scalemani.kernel.eigensolver import basis_limits, first_block
from scalemani.kernel.operators import kernels_bytes, usual_precision
from scalemani.kernel.start import start_count
from scalemani.neighbors import choice
from scalemani.neighbors.choice import needed_bytes, takes_descent
from scalemani.neighbors.exact import TREE_FEATURES
from scalemani.neighbors.metric_forms import check_function
from scalemani.neighbors.metrics import canonical_name, checked_parameters, function_parameters
from scalemani.parameters import Parameters
from scalemani.planning import memory, terms
from scalemani.planning.memory import Asked, Stage, by_process
from scalemani.points.rows import held_bytes
from scalemani.projection.landmarks import BATCH_BYTES, KEPT_BYTES
from scalemani.steps.records import GraphRecord, LandmarksRecord
from scalemani.storage.files import open_location
from scalemani.storage.run import RunStore


def worker_limit(parameters: Parameters, cluster: Cluster) -> tuple[int | None, int]:
    """What a process of workers may add, where that is not what the client may; and the memory limit behind it, or 0.

    Dask pauses a worker before its own limit is reached, and the client's free memory, which is what is allowed
    unless the user says more, is that of another host.
    """
    hosts = Counter(host for host, _ in {(said.host, said.process) for said in cluster.accounts})
    found = [(said.room, said.limit) for said in cluster.accounts if said.room is not None and said.limit is not None]
    if parameters.memory_limit is not None:
        found.append((parse_memory(parameters.memory_limit), 0))
    elif not cluster.shares_process:
        found += [(said.free // 2 // hosts[said.host], 0) for said in cluster.accounts if said.room is None]
    room, limit = min(found, default=(None, 0))
    return (room, limit) if cluster.accounts else (None, 0)


def asked_of(
    given: Any, parameters: Parameters, cluster: Cluster, n: int, edges: int, done: tuple[str, ...]
) -> dict[str, Any]:
    """Attributes of :class:`scalemani.planning.memory.Asked`."""
    room, own = worker_limit(parameters, cluster)
    return {
        "n": n,
        "edges": edges,
        "components": parameters.n_components,
        "threads": cluster.threads,
        "workers": cluster.workers,
        "embedded": cluster.shares_process,
        "points": points_bytes(given),
        "search": search_part_bytes(given, parameters, edges),
        "given": given.kind == "geodesic",
        "done": done,
        "worker_limit": room,
        "worker_memory": own,
    }


def work_of(
    given: Any, parameters: Parameters, cluster: Cluster, n: int, edges: int, done: tuple[str, ...] = ()
) -> memory.Work:
    """The arithmetic's view of a fit of n vertices and `edges` stored entries."""
    columns = first_block(n, parameters.n_components)
    least, usual = (min(n - 1, limit) for limit in basis_limits(columns, parameters.n_components))
    return memory.Work(
        **asked_of(given, parameters, cluster, n, edges, done),
        columns=columns,
        size=np.dtype(usual_precision(n)).itemsize,
        compressed=parameters.compression is not None,
        least_columns=least,
        usual_columns=usual,
        start_vertices=start_count(n, parameters.n_components, usual),
    )


def points_bytes(given: Any) -> int:
    """What the client holds of X all along: rows, digests and maps, and what the search made of them."""
    total = 8 * int(given.n_rows)
    if given.kind == "features":
        total += held_bytes(given.points.rows) + 32 * given.n_distinct
        if given.n_features <= TREE_FEATURES and given.holds:
            total += given.n_distinct * (8 * given.n_features + 24)
    elif given.kind == "geodesic":
        total += 3 * 8 * int(given.n_rows)
    else:
        total += held_bytes(given.matrix)
    return total


def search_part_bytes(given: Any, parameters: Parameters, edges: int) -> int:
    """The search and the making of the graph, one after the other."""
    if given.kind == "geodesic":
        return 0
    n, k = given.n_distinct, parameters.n_neighbors or max(1, edges // max(given.n_distinct, 1))
    listed = 0 if given.kind == "graph" else n * k
    making = terms.symmetric_bytes(n, max(edges, listed)) + choice.lists_bytes(n, listed)
    if given.kind == "graph" and given.edges is not None:  # its directions are held beside it
        return making + 32 * len(given.edges.rows)
    if given.kind != "features":
        return making
    width = given.n_features if given._search is None else given._search.prepared.width
    taken = _methods(given, parameters)
    room, threads = given.room(parameters.n_neighbors or 0), cores()
    searching = min(max(needed_bytes(room, n, width, k, name, threads) for name in names) for names in taken)
    # The rows are written to the store, too.
    return max(making, searching + 2 * choice.lists_bytes(n, listed), 2 * held_bytes(given.points.rows))


def _methods(given: Any, parameters: Parameters) -> list[tuple[str, ...]]:
    """What the search may be, each with what it works with: several before it is made, then one."""
    search, k = given._search, parameters.n_neighbors
    if search is None:
        low = given.n_features <= TREE_FEATURES
        exact: list[tuple[str, ...]] = [("kdtree",), ("brute",)] if low else [("brute",)]
        return [(*names, "nndescent") for names in exact] if parameters.knn == "nndescent" else exact
    exactly = "kdtree" if search.low else search.method
    if parameters.radius is None and k is not None and takes_descent(parameters.knn, search, k):
        return [(exactly, "nndescent")]  # what NN-descent leaves out is searched for exactly
    return [(exactly,)]


def least_edges(given: Any, parameters: Parameters, n: int) -> int:
    """Stored entries of a graph of n vertices at least, before it is made; 0 where nothing is known."""
    if given.kind == "graph":
        return int(given.matrix.nnz) if n == given.n_distinct else 0
    if given.kind == "geodesic" or parameters.n_neighbors is None or parameters.graph == "mutual":
        return 0
    return min(n * (n - 1), n * parameters.n_neighbors)


def check_early(given: Any, parameters: Parameters, cluster: Cluster, limit: int, folder: str) -> None:
    """Refuse, before the neighbour search, what can't fit whatever it finds."""
    # The largest component may be small.
    n = given.n_distinct if parameters.disconnected != "largest" else parameters.n_components + 1

    def chosen() -> memory.Choice:
        work = work_of(given, parameters, cluster, n, least_edges(given, parameters, n))
        return memory.choose(work, limit, parameters.tile_size)

    tile = chosen().tile  # before a search is made, which takes memory itself
    if make_search(given, parameters):
        tile = chosen().tile  # again, since the search has its memory by then
    memory.check_disk(folder, n, tile, compressed=parameters.compression is not None)


def make_search(given: Any, parameters: Parameters) -> bool:
    """Make the search as the fit would, and only now, since it takes memory; whether there was none yet."""
    if given.kind != "features" or given._search is not None:
        return False
    given._search = given._make_search(parameters)
    return True


def check_sizes(parameters: Parameters, given: Any) -> None:
    """Refuse more neighbours or axes than the distinct rows allow, and a metric that is none on these rows."""
    n, k, p = given.n_distinct, parameters.n_neighbors, parameters.n_components
    repeats = f" ({given.n_rows} rows, {given.n_rows - n} of them repeats)" if n < given.n_rows else ""
    if n < 2:
        raise ScalemaniError(
            f"X has {n} distinct sample(s){repeats} while a minimum of 2 is required: n_samples = {given.n_rows}"
        )
    if isinstance(parameters.metric, str) and given.kind == "features":
        checked_parameters(canonical_name(parameters.metric), parameters.metric_params, given.n_features)
    elif given.kind == "features":
        numbers = np.unique(given.distinct, return_index=True)[1]
        check_function(parameters.metric, function_parameters(parameters.metric_params), given.points.rows, numbers)
    if given.kind in ("features", "distances") and k is not None and k >= n:
        raise ScalemaniError(f"n_neighbors={k} needs at least {k + 1} distinct rows; X has {n}{repeats}")
    if p >= n:
        raise ScalemaniError(f"n_components={p} needs at least {p + 1} distinct rows; X has {n}{repeats}")


MOST_A_TASK = 64  # landmarks: two batches of the search, whose rows lie near each other
A_BATCH = 32  # lanes
LEAST_A_TASK = 4
CHUNK_BYTES = 16 << 20  # of points' distances: a read of some milliseconds
MOST_POINTS, LEAST_POINTS = 8192, 64  # of a chunk


@dataclass(frozen=True, kw_only=True)
class LandmarkWork(Asked):
    """What a fit by landmarks asks of a machine."""

    m: int


def landmark_work(
    given: Any, parameters: Parameters, cluster: Cluster, n: int, m: int, edges: int, done: tuple[str, ...] = ()
) -> LandmarkWork:
    """The arithmetic's view of a fit of n vertices, m landmarks and `edges` stored entries."""
    return LandmarkWork(**asked_of(given, parameters, cluster, n, edges, done), m=m)


def stages(work: LandmarkWork, layout: Layout) -> dict[str, Stage]:
    """What each process holds at the most, stage by stage and part by part."""
    n, m, here = work.n, work.m, layout.landmarks_a_task
    graph = {} if work.given else {"graph": terms.graph_bytes(n, work.edges)}
    paths = {} if work.given else {"graph, twice": terms.graph_bytes(n, work.edges) + terms.paths_bytes(n, work.edges)}
    chunk = 4 * layout.points_a_chunk
    rows = 4 * here * n + chunk * here + (0 if work.given else workspace_bytes(n, work.edges))
    turning = 2 * chunk * m + chunk * here
    square = 8 * m * m
    outputs = 3 * 8 * n * work.components + 3 * 8 * n
    threads = 1 if work.given else work.threads
    made = {
        "search": ({"search and graph": work.search}, {}),
        "landmarks": ({**graph, "choice": 2 * 8 * n if work.given else farthest_points_bytes(n, work.edges)}, {}),
        "geodesics": ({"square": square}, {**paths, f"{threads} tasks": threads * max(rows, turning)}),
        "solve": ({**graph, "square, its kernels and basis": 2 * square + kernels_bytes(m) + 4 * square}, {}),
        "coordinates": (
            {"square": square, "outputs": outputs},
            {**graph, f"{work.threads} tasks": work.threads * (BATCH_BYTES + 2 * chunk * m), "chunks kept": KEPT_BYTES},
        ),
    }
    return {name: by_process(work, *parts) for name, parts in made.items() if name not in work.done}


def layouts(n: int, m: int, slots: int = 1) -> Iterator[Layout]:
    """Layouts from the fastest to the smallest, for so many tasks at once: each should have two, of a batch or more."""
    points = max(LEAST_POINTS, min(MOST_POINTS, CHUNK_BYTES // (4 * m) // 16 * 16, -(-n // 16) * 16))
    here = min(MOST_A_TASK, max(min(-(-m // 8), A_BATCH), m // (2 * slots) // A_BATCH * A_BATCH))
    while here > LEAST_A_TASK:
        yield Layout(n, m, here, points)
        here = max(LEAST_A_TASK, here // 2)
    while points > LEAST_POINTS:
        yield Layout(n, m, min(here, m), points)
        points = max(LEAST_POINTS, points // 2)
    yield Layout(n, m, min(here, m), points)


def choose_layout(work: LandmarkWork, limit: int) -> Layout:
    """The fastest layout that fits.

    Raises DoesNotFitError: If none does; both numbers and the remedies are named.
    """
    allowed = work.allowance(limit)
    for layout in layouts(work.n, work.m, work.threads * work.workers):
        if all(allowed.holds(stage.client, stage.worker) for stage in stages(work, layout).values()):
            return layout
    by_name = stages(work, layout)
    name = max(by_name, key=lambda stage: allowed.excess(by_name[stage].client, by_name[stage].worker))
    said, change = allowed.in_words(by_name[name].client, by_name[name].worker, work.threads, name)
    if 8 * work.m**2 > machine.FIRST_USE // 10:
        change.append(f"ask for fewer landmarks than {work.m}")
    if work.threads > 1 and name != "search":
        change.append("give a Dask scheduler whose workers have fewer threads")
    raise DoesNotFitError(f"{work.n} vertices and {work.m} landmarks need {said}: {', or '.join(change)}")


def distance_bytes(layout: Layout) -> int:
    """Bytes on the disk of the distances of all points to the landmarks."""
    chunk = layout.points_a_chunk
    return 4 * layout.m * (-(-layout.n // chunk) * chunk)


def turning_bytes(layout: Layout) -> int:
    """Bytes on the disk of the same by landmark, until they are turned."""
    here, chunk = layout.landmarks_a_task, layout.points_a_chunk
    return 4 * (-(-layout.m // here) * here) * (-(-layout.n // chunk) * chunk)


def model_bytes(work: LandmarkWork, listed: int) -> int:
    """What a store holds besides them: lists, graph, points, coordinates and maps."""
    n = work.n
    kept = choice.lists_bytes(n, listed) + terms.graph_bytes(n, work.edges) + work.points
    return kept + 4 * work.m**2 + 8 * n * (work.components + 4)


def check_landmark_disk(path: str, layout: Layout, more: int = 0) -> None:
    """Refuse a store that doesn't fit on its disk.

    Raises DoesNotFitError: Naming what is needed and what is free.
    """
    needed, free = distance_bytes(layout) + turning_bytes(layout) + more, open_location(path).free_bytes()
    if needed > free:
        raise DoesNotFitError(
            f"the distances of {layout.n} vertices to {layout.m} landmarks need {needed:,} bytes, of which "
            f"{turning_bytes(layout):,} go when they are turned, and {free:,} are free at {path!r}: give a store on a "
            "larger disk, fewer landmarks, or free some space"
        )


def count_of(parameters: Parameters) -> int:
    """Landmarks that are asked for."""
    asked = parameters.landmarks
    return int(asked) if isinstance(asked, Integral) else len(asked)


def check_early_by_landmarks(given: Any, parameters: Parameters, cluster: Cluster, limit: int, folder: str) -> None:
    """Refuse, before the neighbour search, what can't fit whatever it finds."""
    m = count_of(parameters)
    n = given.n_distinct if parameters.disconnected != "largest" else m  # the largest component may be small
    edges = least_edges(given, parameters, n)

    def chosen() -> Layout:
        return choose_layout(landmark_work(given, parameters, cluster, n, m, edges), limit)

    layout = chosen()  # before a search is made, which takes memory itself
    if make_search(given, parameters):
        layout = chosen()  # again, since the search has its memory by then
    check_landmark_disk(folder, layout)


def layout_of_store(store: RunStore, given: Any, parameters: Parameters, cluster: Cluster, limit: int) -> Layout:
    """The layout that a store with a graph has, or the one to begin with."""
    if store.record(LandmarksRecord) is not None:
        return Layout.of(store)
    graph = store.needed(GraphRecord)
    n, edges = graph.n_vertices, 0 if given.kind == "geodesic" else 2 * graph.n_edges
    work = landmark_work(given, parameters, cluster, n, count_of(parameters), edges, done=("search",))
    layout = choose_layout(work, limit)
    check_landmark_disk(store.path, layout, 8 * n * (work.components + 4))
    return layout
