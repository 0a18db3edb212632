"""What is measured in a process of its own: fits with their transform by either library, and single stages.

Run by :func:`run`: a new interpreter, so that nothing which another measurement loaded, compiled or left in
memory is in the figures. The last line that a child prints is its result as JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from scalemani.geodesics import rows as scaled_graph

SAMPLED = 0.02  # seconds between looks at a child's memory


def run(task: str, *, apart: bool = True, cold: bool = False, **arguments: Any) -> dict[str, Any]:
    """What one of `TASKS` found in a new process; not `apart` in this one, where seconds and bytes don't matter.

    Parameters
    ----------
    cold : bool
        Whether the child finds no compiled kernels, as after an installation.

    Returns
    -------
    dict
        Also `process_seconds`, imports and all; `tree_bytes`, the most that the child and its own children had
        resident together (shared pages count in each), and `processes`, the most that there were.
    """
    started = time.perf_counter()
    if not apart:
        found = TASKS[task](**arguments)
        return found | {"process_seconds": time.perf_counter() - started, "tree_bytes": peak_memory(), "processes": 1}
    command = [sys.executable, __file__, task, json.dumps(arguments)]
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty} if cold else None
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        tree = Tree(child.pid)
        printed, _ = child.communicate()
        tree.join()
    if child.returncode:
        raise SystemExit(f"{task} failed with code {child.returncode}; its message is above")
    found = json.loads(printed.splitlines()[-1])
    found["process_seconds"] = time.perf_counter() - started
    # one process's own peak is exact, what is sampled may have missed it
    return found | {"tree_bytes": max(tree.most_bytes, found.get("peak_bytes", 0)), "processes": tree.most_processes}


class Tree(threading.Thread):
    """Looks at the resident memory of a process with all that come from it, until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.most_bytes, self.most_processes = pid, 0, 0
        self.start()

    def run(self) -> None:
        import psutil  # distributed takes it too

        try:
            root = psutil.Process(self.pid)
            while root.is_running() and root.status() != psutil.STATUS_ZOMBIE:
                sizes = []
                for process in [root, *root.children(recursive=True)]:
                    try:
                        sizes.append(process.memory_info().rss)
                    except psutil.Error:  # it has ended
                        continue
                self.most_bytes = max(self.most_bytes, sum(sizes))
                self.most_processes = max(self.most_processes, len(sizes))
                time.sleep(SAMPLED)
        except psutil.Error:
            pass


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
    *, method: str, points: str, neighbors: int, cores: int, out: str, test: str | None = None, repeats: int = 3
) -> dict[str, Any]:
    """A fit by `method` (our "Isomap" or "KernelIsomap", or "scikit-learn"), and the transform of a test set.

    Imports are not in the seconds; loading compiled kernels is. Without its distances: they are removed when a fit by
    scalemani ends, and its transform has no use for them.
    """
    import numpy as np

    X = np.load(points)
    if method == "scikit-learn":
        from sklearn.manifold import Isomap

        model = Isomap(n_neighbors=neighbors, n_jobs=cores)
    else:
        import scalemani

        quiet()
        model = getattr(scalemani, method)(n_neighbors=neighbors, keep_distances=False)
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


def quiet() -> None:
    """The constant is in the tables: no warning of it."""
    import warnings

    from scalemani.errors import AdditiveConstantWarning

    warnings.filterwarnings("ignore", category=AdditiveConstantWarning)


def whole(
    *, points: str, rows: int, store: str, neighbors: int, cores: int, components: int, memory_limit: str | None
) -> dict[str, Any]:
    """``KernelIsomap.fit`` with Cailliez' constant into a store that is kept: seconds by stage, memory, disk, reads."""
    import numpy as np

    from scalemani import KernelIsomap
    from scalemani.formats.points import open_points

    quiet()
    X = np.ascontiguousarray(open_points(points).values[:rows])
    began: dict[str, float] = {}
    started = time.perf_counter()

    def report(stage: str, done: int, total: int) -> None:
        began.setdefault(stage, time.perf_counter() - started)

    model = KernelIsomap(neighbors, components, store=store, memory_limit=memory_limit, disconnected="join")
    model.set_params(progress=report).fit(X)
    seconds = time.perf_counter() - started
    spectrum = model.spectrum_
    kept = ("additive_constant", "constant_over_median", "converged", "n_vertices", "knn_method", "knn_recall")
    found: dict[str, Any] = {name: spectrum[name] for name in kept}
    found |= {"seconds": seconds, "peak_bytes": peak_memory(), "began": began, "shape": list(model.embedding_.shape)}
    files = [path.stat().st_size for path in Path(store).rglob("*") if path.is_file()]
    return found | {"n": len(X), "reads": model.n_passes_, "disk_bytes": sum(files), "cores": cores}


def read_cost(**arguments: Any) -> dict[str, Any]:
    """One read of D by the product against a plain loop; see :mod:`benchmarking.read_cost`."""
    from benchmarking.read_cost import measure

    return measure(**arguments)


def stage(*, graph: str, store: str, cores: int, tile: int | None, checked: int = 16) -> dict[str, Any]:
    """The geodesic stage alone, a thread a core: a graph to D as tiles in a new store.

    The first read of D is in it, which needs no reading. Tiles are as large as a fit makes them where memory
    allows, unless said.
    """
    import numpy as np
    from benchmarking.graphs import read_graph
    from benchmarking.rates import relative_deviation
    from scipy.sparse.csgraph import dijkstra

    from scalemani.cluster.dask_cluster import DaskCluster
    from scalemani.kernel.eigensolver import first_block, start_block
    from scalemani.kernel.operators import first_reader
    from scalemani.steps import distances
    from scalemani.steps.cuts import tile_sizes
    from scalemani.storage.run import RunStore

    matrix = read_graph(Path(graph))
    n = matrix.shape[0]
    tile = tile or next(tile_sizes(n))
    with DaskCluster(threads=cores) as cluster:
        run = RunStore.create(store)
        scaled_graph.save_graph(run, matrix, 1.0)
        run.create_distances(n, tile)
        reader = first_reader(start_block(n, first_block(n, 2), 0))
        found: dict[str, Any] = {"n": n, "cores": cores, "tile": tile, "start_bytes": peak_memory()}
        started = time.perf_counter()
        distances.compute_distances(cluster, run, lambda *_: None, {"first": reader})
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

    from scalemani.geodesics import paths
    from scalemani.graph import order

    n = 64
    path = csr_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    path = csr_array(path + path.T)

    def call_all() -> float:
        started = time.perf_counter()
        order.vertex_order(path)
        for precision in ("float32", "float64"):
            paths.geodesic_rows(path, np.arange(n), precision=precision)
            paths.rows_from_seeds(path, [0, 2], [0, 1], [0.5, 0.25], precision=precision)
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


TASKS = {"fit": fit, "stage": stage, "kernels": kernels, "whole": whole, "read_cost": read_cost}

if __name__ == "__main__":
    name, given = sys.argv[1], json.loads(sys.argv[2])
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    if "cores" in given:
        hold_cores(given["cores"])
    print(json.dumps(TASKS[name](**given)))
