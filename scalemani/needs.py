"""What a fit asks of the machine: takes X as read and the parameters, gives the sizes that the arithmetic works on."""

from collections import Counter
from typing import Any

import numpy as np

from scalemani.eigensolver import basis_limits, first_block
from scalemani.engine import budget, terms
from scalemani.engine.cluster import Cluster, cores
from scalemani.engine.resources import parse_memory
from scalemani.errors import ScalemaniError
from scalemani.kernel_shares import usual_precision
from scalemani.nystrom_start import start_vertices
from scalemani.parameters import Parameters
from scalemani.row_files import held_bytes
from scalemani.search.exact import TREE_FEATURES
from scalemani.search.function_metrics import check_function
from scalemani.search.metrics import canonical_name, checked_parameters, function_parameters
from scalemani.search.shard_sizes import needed_bytes
from scalemani.search.ways import takes_descent


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
    """Attributes of :class:`scalemani.engine.allowance.Asked`."""
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
) -> budget.Work:
    """The arithmetic's view of a fit of n vertices and `edges` stored entries."""
    columns = first_block(n, parameters.n_components)
    least, usual = (min(n - 1, limit) for limit in basis_limits(columns, parameters.n_components))
    return budget.Work(
        **asked_of(given, parameters, cluster, n, edges, done),
        columns=columns,
        size=np.dtype(usual_precision(n)).itemsize,
        compressed=parameters.compression is not None,
        least_columns=least,
        usual_columns=usual,
        start_vertices=start_count(parameters, n, usual),
    )


def start_count(parameters: Parameters, n: int, most_columns: int) -> int:
    """Rows of D that :func:`scalemani.starting_block.starting_block` asks for; 0 where it does without."""
    width, count = first_block(n, parameters.n_components), len(start_vertices(n, most_columns, 0))
    return 0 if width == n - 1 or width >= count // 2 else count


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
    making = terms.symmetric_bytes(n, max(edges, listed)) + terms.lists_bytes(n, listed)
    if given.kind == "graph" and given.edges is not None:  # its directions are held beside it
        return making + 32 * len(given.edges.rows)
    if given.kind != "features":
        return making
    width = given.n_features if given._search is None else given._search.prepared.width
    taken = _methods(given, parameters)
    room, threads = given.room(parameters.n_neighbors or 0), cores()
    searching = min(max(needed_bytes(room, n, width, k, name, threads) for name in names) for names in taken)
    # The rows are written to the store, too.
    return max(making, searching + 2 * terms.lists_bytes(n, listed), 2 * held_bytes(given.points.rows))


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

    def chosen() -> budget.Choice:
        work = work_of(given, parameters, cluster, n, least_edges(given, parameters, n))
        return budget.choose(work, limit, parameters.tile_size)

    tile = chosen().tile  # before a search is made, which takes memory itself
    if make_search(given, parameters):
        tile = chosen().tile  # again, since the search has its memory by then
    budget.check_disk(folder, n, tile, compressed=parameters.compression is not None)


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
