"""Kernels: sweeps over a graph in fixed orders, to and fro, that settle the sources of a batch wherever they lie.

A sweep relaxes what is dirty along one order of the vertices (:mod:`scalemani.engine.settling`). It settles every
path whose edges all ascend in that order, of all sources at once; and an order by the distance from a vertex far
off, taken to and fro, ascends along about half of all directions. So a few such orders, from vertices that are far
from each other, leave little to do after one or two rounds: on a surface each vertex is relaxed twice for sources
that lie together and about six times for sources all over it, in ten dimensions three or four times. It is the
fast sweeping method of eikonal solvers on unstructured meshes (Qian, Zhang and Zhao, SIAM J. Numer. Anal. 45, 2007,
83-107), which orders nodes by their distances from reference points, for paths along edges.

The orders belong to the graph, not to a batch: they are made once, and no batch pays for one.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

from scalemani.engine.bucket_search import BUCKETS, FAR, search
from scalemani.engine.kernel_cache import compiled
from scalemani.engine.settling import GLANCES, LINE, relax

cgutils: Any = untyped
#: Places ahead in the order at which a vertex's flag and pointer are fetched, and its edges and lanes: an order jumps
#: about in memory, and waiting for it would take half of the time where neighbours are many.
AHEAD, NEXT = 24, 12


def _prefetch(typingctx: Any, array: Any, place: Any) -> Any:
    """Fetch the cache line of array[place], of a C-contiguous (n,) array; a place behind its end does no harm."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        i32, address = ir.IntType(32), ir.IntType(8).as_pointer()
        data = context.make_array(sig.args[0])(context, builder, arguments[0]).data
        at = builder.bitcast(builder.gep(data, [arguments[1]]), address)
        kind = ir.FunctionType(ir.VoidType(), [address, i32, i32, i32])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(fetch, [at, *(ir.Constant(i32, option) for option in (0, 3, 1))])  # to read, into all caches, data
        return context.get_dummy_value()

    return signature, generate


prefetch: Any = intrinsic(_prefetch)


@compiled()
def sweep(
    indptr: Any, indices: Any, weights: Any, distance: Any, dirty: Any, orders: Any, most_work: int
) -> tuple[int, int, int, bool]:
    """Relax `distance` to its fixed point, or until the work is more than `most_work` after a sweep.

    Work is the edges relaxed, and one for every `GLANCES` flags looked at.

    distance (n, lanes): As :data:`scalemani.engine.settling.relax` takes it.
    dirty: A multiple of 8 long, 0 behind the n vertices.
    orders (count, n): Each is swept forwards, then backwards; after the last one the first.
    -> pops: Vertices relaxed.
    -> work
    -> sweeps
    -> settled
    """
    n = indptr.shape[0] - 1
    eights = dirty.view(np.uint64)
    flat = distance.reshape(-1)
    width = distance.shape[1]
    line = 64 * width // LINE  # numbers in a cache line
    pops = 0
    work = 0
    sweeps = 0
    while eights.any():
        if work > most_work:
            return pops, work, sweeps, False
        order = orders[sweeps // 2 % orders.shape[0]]
        backwards = sweeps % 2 == 1
        for i in range(n):
            v = order[n - 1 - i] if backwards else order[i]
            if i + AHEAD < n:
                a = order[n - 1 - i - AHEAD] if backwards else order[i + AHEAD]
                prefetch(dirty, a)
                prefetch(indptr, a)
                a = order[n - 1 - i - NEXT] if backwards else order[i + NEXT]
                if dirty[a] != 0:
                    for e in range(indptr[a], indptr[a] + 16, 15):
                        prefetch(indices, e)
                        prefetch(weights, e)
                    prefetch(flat, a * width)
                    prefetch(flat, a * width + line)
            if dirty[v] == 0:
                continue
            dirty[v] = 0
            pops += 1
            work += indptr[v + 1] - indptr[v]
            relax(distance, indices, weights, dirty, v, indptr[v], indptr[v + 1], n)
        work += n // GLANCES
        sweeps += 1
    return pops, work, sweeps, True


@compiled()
def sweep_orders(
    indptr: Any, indices: Any, steps: Any, orders: Any, distance: Any, nearest: Any, scratch: Any
) -> float:
    """Fill `orders` (count, n) with orders by the distance from vertices that are far from each other.

    The first one is a farthest vertex from the component's first, each other one a farthest from all before.
    Each component has its own, and the same stretch of every order.

    steps: Lengths of edges as :mod:`scalemani.engine.bucket_search` takes them.
    distance, nearest (n,)
    scratch (4, n)
    -> Vertices that wait in such a search, in the mean over those that it reaches.
    """
    n = indptr.shape[0] - 1
    part, component, after, before = scratch
    heads = np.full(BUCKETS, -1, np.int32)
    part[:] = 0
    graph = indptr, indices, steps, part, 0
    order = orders[0]
    waiting = 0
    distance[:] = FAR
    filled = 0
    for v in range(n):
        if distance[v] == FAR:
            low = filled
            filled, _ = search(*graph, v, distance, heads, after, before, order, low)
            for i in range(low, filled):
                component[order[i]] = v
                nearest[order[i]] = distance[order[i]]
    for k in range(orders.shape[0]):
        stretches = orders[max(k - 1, 0)].copy()  # where each component is
        distance[:] = FAR
        low = 0
        while low < n:
            start = stretches[low]
            high = low
            while high < n and component[stretches[high]] == component[start]:
                if nearest[stretches[high]] > nearest[start]:
                    start = stretches[high]
                high += 1
            _, waited = search(*graph, start, distance, heads, after, before, orders[k], low)
            waiting += waited
            for i in range(low, high):
                v = stretches[i]
                nearest[v] = distance[v] if k == 0 else min(nearest[v], distance[v])
            low = high
    return float(waiting / max(n * orders.shape[0], 1))
