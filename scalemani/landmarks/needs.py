"""What a fit by landmarks asks of the machine: takes the sizes, gives how the distances are cut, or a refusal.

A block of landmarks' rows is a task's memory, in each thread; the rest of a worker is the graph. The disk holds the
distances twice while they are turned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from scalemani.engine import terms
from scalemani.engine.allowance import Asked
from scalemani.engine.budget import Stage, by_process
from scalemani.engine.cluster import Cluster
from scalemani.engine.farthest_points import farthest_points_bytes
from scalemani.engine.resources import free_disk
from scalemani.engine.shortest_paths import workspace_bytes
from scalemani.engine.store import RunStore
from scalemani.errors import DoesNotFitError
from scalemani.landmarks.kernels import kernels_bytes
from scalemani.landmarks.layout import STAGE, Layout
from scalemani.landmarks.placing import BATCH_BYTES, KEPT_BYTES
from scalemani.needs import asked_of, least_edges, make_search
from scalemani.parameters import Parameters

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
    if 8 * work.m**2 > terms.FIRST_USE // 10:
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
    kept = terms.lists_bytes(n, listed) + terms.graph_bytes(n, work.edges) + work.points
    return kept + 4 * work.m**2 + 8 * n * (work.components + 4)


def check_landmark_disk(path: str, layout: Layout, more: int = 0) -> None:
    """Refuse a store that doesn't fit on its disk.

    Raises DoesNotFitError: Naming what is needed and what is free.
    """
    needed, free = distance_bytes(layout) + turning_bytes(layout) + more, free_disk(path)
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


def check_early(given: Any, parameters: Parameters, cluster: Cluster, limit: int, folder: str) -> None:
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
    if store.stage(STAGE) is not None:
        return Layout.of(store)
    graph = store.stage("graph")
    assert graph is not None
    n, edges = graph["n_vertices"], 0 if given.kind == "geodesic" else 2 * graph["n_edges"]
    work = landmark_work(given, parameters, cluster, n, count_of(parameters), edges, done=("search",))
    layout = choose_layout(work, limit)
    check_landmark_disk(store.path, layout, 8 * n * (work.components + 4))
    return layout
