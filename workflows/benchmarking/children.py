"""What is measured in a process of its own: a fit with its transform by either library, and the geodesic stage.

Run by :func:`run`: a new interpreter, so that nothing which another measurement loaded, compiled or left in
memory is in the figures. The last line that a child prints is its result as JSON.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def run(task: str, *, apart: bool = True, **arguments: Any) -> dict[str, Any]:
    """What one of `TASKS` found in a new process; not `apart` in this one, where seconds and bytes don't matter."""
    if not apart:
        return TASKS[task](**arguments)
    command = [sys.executable, __file__, task, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{task} failed with code {done.returncode}; its message is above")
    return json.loads(done.stdout.splitlines()[-1])


def hold_cores(cores: int) -> None:
    """Keep this process on some cores; before any library asks how many there are."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def peak_memory() -> int:
    """Most bytes that were resident since this program started.

    On Linux ``ru_maxrss`` is at least the size of the process that started this one; VmHWM is not.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)


def fit(
    *, library: str, points: str, neighbors: int, cores: int, out: str, test: str | None = None, repeats: int = 3
) -> dict[str, Any]:
    """``Isomap(n_neighbors).fit``, and the transform of a test set if there is one, by one library.

    Imports are not in the seconds; loading compiled kernels is. Without its distances: they are removed when a fit by
    scalemani ends, and its transform has no use for them.
    """
    import numpy as np

    X = np.load(points)
    if library == "scikit-learn":
        from sklearn.manifold import Isomap

        model = Isomap(n_neighbors=neighbors, n_jobs=cores)
    else:
        from scalemani import Isomap

        model = Isomap(n_neighbors=neighbors, keep_distances=False)
    found: dict[str, Any] = {"start_bytes": peak_memory()}
    started = time.perf_counter()
    model.fit(X)
    found |= {"seconds": time.perf_counter() - started, "peak_bytes": peak_memory()}
    np.save(out, model.embedding_)
    if test is not None:
        rows, times = np.load(test), []
        for _ in range(repeats):
            started = time.perf_counter()
            placed = model.transform(rows)
            times.append(time.perf_counter() - started)
        np.save(f"{out}.test.npy", np.asarray(placed))
        found |= {"rows": len(rows), "transform_seconds": times}
    return found


def stage(*, graph: str, store: str, cores: int, tile: int | None, checked: int = 16) -> dict[str, Any]:
    """The geodesic stage alone, a thread a core: a graph to D as tiles in a new store.

    The first read of D is in it, which needs no reading. Tiles are as large as a fit makes them where memory
    allows, unless said.
    """
    import numpy as np
    from benchmarking.graphs import read_graph
    from benchmarking.rates import relative_deviation
    from scipy.sparse.csgraph import dijkstra

    from scalemani import geodesics
    from scalemani.eigensolver import first_block, start_block
    from scalemani.engine.budget import tile_sizes
    from scalemani.engine.cluster import Cluster
    from scalemani.engine.store import RunStore
    from scalemani.kernel_shares import first_reader

    matrix = read_graph(Path(graph))
    n = matrix.shape[0]
    tile = tile or next(tile_sizes(n))
    with Cluster(threads=cores) as cluster:
        run = RunStore.create(store)
        geodesics.save_graph(run, matrix, 1.0)
        run.create_distances(n, tile)
        reader = first_reader(start_block(n, first_block(n, 2), 0))
        found: dict[str, Any] = {"n": n, "cores": cores, "tile": tile, "start_bytes": peak_memory()}
        started = time.perf_counter()
        geodesics.compute_distances(cluster, run, lambda *_: None, reader)
        seconds = time.perf_counter() - started
    found |= {"seconds": seconds, "pairs_per_second": n * n / seconds, "peak_bytes": peak_memory()}
    files = [path.stat().st_size for path in Path(store, "distances").rglob("*") if path.is_file()]
    found |= {"disk_bytes": sum(files), "tasks": len(run.blocks), "tiles": len(files) - 1}  # one file describes them
    vertices = np.linspace(0, n - 1, min(n, checked)).astype(int)
    truth = dijkstra(matrix.astype(np.float64), directed=True, indices=vertices)
    return found | {"deviation": relative_deviation(run.read_rows(vertices), truth)}


def kernels() -> dict[str, Any]:
    """Seconds that the first call of each kernel takes more than its second, and how many had to be compiled."""
    import numpy as np
    from scipy.sparse import csr_array

    from scalemani.engine import shortest_paths, vertex_order

    n = 64
    path = csr_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    path = csr_array(path + path.T)

    def call_all() -> float:
        started = time.perf_counter()
        vertex_order.vertex_order(path)
        for precision in ("float32", "float64"):
            shortest_paths.geodesic_rows(path, np.arange(n), precision=precision)
            shortest_paths.rows_from_seeds(path, [0, 2], [0, 1], [0.5, 0.25], precision=precision)
        return time.perf_counter() - started

    seconds = call_all() - call_all()
    modules = [module for name, module in sys.modules.items() if name.startswith("scalemani.")]
    made = {id(value): value for module in modules for value in vars(module).values()}
    stats = [kernel.stats for kernel in made.values() if hasattr(kernel, "stats")]
    return {
        "seconds": seconds,
        "hits": sum(sum(one.cache_hits.values()) for one in stats),
        "misses": sum(sum(one.cache_misses.values()) for one in stats),
    }


TASKS = {"fit": fit, "stage": stage, "kernels": kernels}

if __name__ == "__main__":
    name, given = sys.argv[1], json.loads(sys.argv[2])
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    if "cores" in given:
        hold_cores(given["cores"])
    print(json.dumps(TASKS[name](**given)))
