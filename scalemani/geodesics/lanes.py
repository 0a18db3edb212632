"""Kernels: the shortest paths of many sources at once, side by side, and what is made of their rows on the spot.

In batches. Sources that lie close together settle the vertices of a graph in nearly the same order. So every vertex
holds the distances of all sources of a batch in its `LINE` bytes (32 of float32, 16 of float64: the lanes), and the
vertices are relaxed in one common order, by windows: a window is swept until nothing in it is dirty, and a change
behind the window sends the sweep back. To relax a vertex is to pull (the least over its neighbours of distance +
weight, lane by lane), then to push its new distances to the same neighbours, which are in the cache by then; a
neighbour that a push has changed in any lane is dirty. (To push alone, or to pull and only look at what a push would
change, takes half the time a vertex and two to three times as many.) At the fixed point every distance is the least
over the neighbours of distance + weight, rounded, which is what Dijkstra's algorithm ends with: the order and the
windows decide the work, never a bit of the result.

Distances are finite or inf and never negative, so that their bit patterns have their order: minima are taken as
integers. (A minimum by comparing floats before a store makes LLVM write a masked store, which costs half of the whole
search on AMD's processors.)

By sweeps, wherever the sources of a batch lie. A sweep relaxes what is dirty along one order of the vertices, which
settles every path whose edges all ascend in that order, of all sources at once; and an order by the distance from a
vertex far off, taken to and fro, ascends along about half of all directions. So a few such orders, from vertices that
are far from each other, leave little to do after one or two rounds: on a surface each vertex is relaxed twice for
sources that lie together and about six times for sources all over it, in ten dimensions three or four times. It is the
fast sweeping method of eikonal solvers on unstructured meshes (Qian, Zhang and Zhao, SIAM J. Numer. Anal. 45, 2007,
83-107), which orders nodes by their distances from reference points, for paths along edges. The orders belong to the
graph, not to a batch: they are made once, and no batch pays for one.

Products. A projection needs of each row d of n distances only V'e and V'e², e = d less its least entry, for the p
columns of V. Taken from the lanes of a batch, they save the rows: n numbers a source that would be turned, written, and
read again. A point's distance to a landmark is the least over the points that it touches of the edge and their
distance. Each row's results have the same bits whatever other rows are in the call.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

from scalemani.cluster.kernel_cache import compiled
from scalemani.graph.order import BUCKETS, FAR, search

cgutils: Any = untyped
LINE = 128  # bytes that a vertex's lanes fill: two cache lines, which processors fetch together
SCATTERED = 64  # vertices that are turned from lanes into rows at a time: 8 kB, inside the first cache
GLANCES = 32  # flags of settled vertices that are passed over in the time of an edge
BLOCK = 8  # of them, and of lanes, that are turned in registers


def _relax(
    typingctx: Any, distance: Any, indices: Any, weights: Any, dirty: Any, v: Any, low: Any, high: Any, none: Any
) -> Any:
    """Pull and push vertex v over the edges low..high; the least changed vertex up to v, or `none`.

    distance (n, lanes) of float32 or float64, each row on a multiple of LINE bytes; weights of the same dtype
    or of float32; dirty (n,) of uint8.
    """
    whole = types.int64
    signature = whole(distance, indices, weights, dirty, whole, whole, whole, whole)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        double = sig.args[0].dtype == types.float64
        lanes = LINE // (8 if double else 4)
        number = ir.DoubleType() if double else ir.FloatType()
        bits = ir.IntType(64 if double else 32)
        floats, integers = ir.VectorType(number, lanes), ir.VectorType(bits, lanes)
        i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
        pointers = [
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(sig.args[:4], arguments[:4], strict=True)
        ]
        v, low, high, none = arguments[4:]
        lines = builder.bitcast(pointers[0], integers.as_pointer())
        minimum = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(integers, [integers, integers]), f"llvm.smin.v{lanes}i{bits.width}"
        )

        def load(vertex: Any) -> Any:
            line = builder.load(builder.gep(lines, [vertex]))
            line.align = LINE
            return line

        def store(value: Any, vertex: Any) -> None:
            builder.store(value, builder.gep(lines, [vertex])).align = LINE

        def neighbor(e: Any) -> Any:
            return builder.sext(builder.load(builder.gep(pointers[1], [e])), i64)

        def beyond(start: Any, e: Any) -> Any:
            """`start` plus the weight of edge e in every lane."""
            undefined = ir.Constant(floats, ir.Undefined)
            weight = builder.load(builder.gep(pointers[2], [e]))
            if weight.type != number:  # a sweep takes the graph as it is
                weight = builder.fpext(weight, number)
            one = builder.insert_element(undefined, weight, ir.Constant(i32, 0))
            all_lanes = builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(i32, lanes), [0] * lanes))
            return builder.bitcast(builder.fadd(builder.bitcast(start, floats), all_lanes), integers)

        step = ir.Constant(i64, 1)
        pulled = cgutils.alloca_once_value(builder, load(v))
        with cgutils.for_range_slice(builder, low, high, step, inc=True) as (e, _):
            through = beyond(load(neighbor(e)), e)
            builder.store(builder.call(minimum, [through, builder.load(pulled)]), pulled)
        here = builder.load(pulled)
        store(here, v)
        back = cgutils.alloca_once_value(builder, none)
        with cgutils.for_range_slice(builder, low, high, step, inc=True) as (e, _):
            u = neighbor(e)
            old = load(u)
            least = builder.call(minimum, [beyond(here, e), old])
            store(least, u)
            # Without a branch: mispredicted, one costs as much as the edge.
            whole_line = ir.IntType(8 * LINE)
            change = builder.bitcast(builder.xor(least, old), whole_line)
            changed = builder.icmp_unsigned("!=", change, ir.Constant(whole_line, 0))
            flag = builder.gep(pointers[3], [u])
            builder.store(builder.or_(builder.load(flag), builder.zext(changed, i8)), flag)
            behind = builder.and_(changed, builder.icmp_signed("<=", u, v))
            candidate = builder.select(behind, u, none)
            least_so_far = builder.load(back)
            closer = builder.icmp_signed("<", candidate, least_so_far)
            builder.store(builder.select(closer, candidate, least_so_far), back)
        return builder.load(back)

    return signature, generate


relax: Any = intrinsic(_relax)


@compiled()
def settle(
    indptr: Any, indices: Any, weights: Any, distance: Any, dirty: Any, window: int, most_work: int
) -> tuple[int, int, bool]:
    """Relax `distance` to its fixed point, or until the work is more than `most_work`.

    The graph's numbering is the order of the sweep. Work is the edges relaxed, and one for every `GLANCES`
    flags looked at in vain.

    dirty: A multiple of 8 long, 0 behind the n vertices.
    -> pops: Vertices relaxed.
    -> work
    -> settled
    """
    n = indptr.shape[0] - 1
    eights = dirty.view(np.uint64)
    pops = 0
    edges = 0
    glances = 0
    low = 0
    while low < n:
        high = min(low + window, n)
        back = low
        while low <= back < high:
            v = back
            glances += high - back
            back = n
            while v < high:
                if dirty[v] == 0:
                    v += 8 if v % 8 == 0 and eights[v // 8] == 0 else 1
                    continue
                dirty[v] = 0
                pops += 1
                edges += indptr[v + 1] - indptr[v]
                back = min(back, relax(distance, indices, weights, dirty, v, indptr[v], indptr[v + 1], n))
                v += 1
            if edges + glances // GLANCES > most_work:
                return pops, edges + glances // GLANCES, False
        low = (back // window) * window if back < low else high
    return pops, edges + glances // GLANCES, True


@compiled()
def renumber(
    indptr: Any,
    indices: Any,
    weights: Any,
    order: Any,
    rank: Any,
    new_indptr: Any,
    new_indices: Any,
    new_weights: Any,
) -> None:
    """The same graph with vertex order[a] called a, so that a sweep touches memory in sequence."""
    n = order.shape[0]
    for a in range(n):
        rank[order[a]] = a
    q = 0
    new_indptr[0] = 0
    for a in range(n):
        v = order[a]
        for e in range(indptr[v], indptr[v + 1]):
            new_indices[q] = rank[indices[e]]
            new_weights[q] = weights[e]
            q += 1
        new_indptr[a + 1] = q


@compiled()
def start_lanes(rank: Any, seed_indptr: Any, seeds: Any, starts: Any, batch: Any, distance: Any, dirty: Any) -> None:
    """Set `distance` to inf but for the seeds of the sources in `batch`, which become dirty."""
    distance[:] = np.inf
    dirty[:] = 0
    for b in range(batch.shape[0]):
        s = batch[b]
        for q in range(seed_indptr[s], seed_indptr[s + 1]):
            a = rank[seeds[q]]
            distance[a, b] = min(distance[a, b], starts[q])
            dirty[a] = 1


def _transpose(typingctx: Any, distance: Any, ranks: Any, targets: Any, lane: Any, column: Any, width: Any) -> Any:
    """Copy BLOCK vertices x BLOCK lanes: lane `lane` + b of vertex ranks[a] to address targets[b] + 4 (column + a).

    The register shuffles that LLVM does not find in two nested loops: three times as fast as those.
    """
    whole = types.int64
    signature = types.void(distance, ranks, targets, whole, whole, whole)

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        double = sig.args[0].dtype == types.float64
        number = ir.DoubleType() if double else ir.FloatType()
        block = ir.VectorType(number, BLOCK)
        singles = ir.VectorType(ir.FloatType(), BLOCK)
        lines, ranks, targets = (
            context.make_array(kind)(context, builder, value).data
            for kind, value in zip(sig.args[:3], arguments[:3], strict=True)
        )
        lane, column, width = arguments[3:]
        columns = []
        for a in range(BLOCK):
            at = builder.gep(ranks, [builder.add(column, ir.Constant(i64, a))])
            rank = builder.sext(builder.load(at), i64)
            start = builder.gep(lines, [builder.add(builder.mul(rank, width), lane)])
            line = builder.load(builder.bitcast(start, block.as_pointer()))
            line.align = BLOCK * number.get_abi_alignment(context.target_data)
            columns.append(builder.fptrunc(line, singles) if double else line)
        step = BLOCK // 2
        while step:  # exchange the off-diagonal halves of ever smaller squares
            left = [i if not i & step else BLOCK + i - step for i in range(BLOCK)]
            right = [i + step if not i & step else BLOCK + i for i in range(BLOCK)]
            masks = [ir.Constant(ir.VectorType(i32, BLOCK), mask) for mask in (left, right)]
            for a in range(BLOCK):
                if not a & step:
                    upper, under = columns[a], columns[a + step]
                    columns[a] = builder.shuffle_vector(upper, under, masks[0])
                    columns[a + step] = builder.shuffle_vector(upper, under, masks[1])
            step //= 2
        for b in range(BLOCK):
            at = builder.load(builder.gep(targets, [builder.add(lane, ir.Constant(i64, b))]))
            row = builder.gep(builder.inttoptr(at, ir.FloatType().as_pointer()), [column])
            builder.store(columns[b], builder.bitcast(row, singles.as_pointer())).align = 4
        return context.get_dummy_value()

    return signature, generate


transpose: Any = intrinsic(_transpose)


@compiled()
def scatter_lanes(distance: Any, rank: Any, batch: Any, first: int, targets: Any, rows: Any) -> None:
    """rows[batch[b], v - first] = lane b of vertex v, for vertices v from `first` on.

    targets (lanes,) is scratch of int64; rows is C-contiguous.
    """
    n = rank.shape[0]
    count = batch.shape[0]
    full = count // BLOCK * BLOCK
    for b in range(count):
        targets[b] = rows.ctypes.data + 4 * (batch[b] * rows.shape[1] - first)
    for start in range(first, n, SCATTERED):
        stop = min(start + SCATTERED, n)
        inside = start + (stop - start) // BLOCK * BLOCK
        for lane in range(0, full, BLOCK):
            for column in range(start, inside, BLOCK):
                transpose(distance, rank, targets, lane, column, distance.shape[1])
        for b in range(count):
            for v in range(start if b >= full else inside, stop):
                rows[batch[b], v - first] = distance[rank[v], b]


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

    distance (n, lanes): As :data:`scalemani.geodesics.lanes.relax` takes it.
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

    steps: Lengths of edges as :mod:`scalemani.graph.order` takes them.
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


@compiled()
def lane_products(distance: Any, rank: Any, axes: Any, batch: Any, nearest: Any, first: Any, second: Any) -> None:
    """Fill first[s], second[s] (p,) and nearest[s] for the sources s in `batch`, lane by lane.

    Distances are rounded to float32, as rows are, and summed over the vertices in their order, in float64: a
    source's results have the same bits in any batch. A vertex that is not reached makes them inf or NaN.

    distance (n, lanes)
    rank (n,): Row of each vertex in `distance`.
    axes (n, p)
    """
    n, lanes = distance.shape
    count = batch.shape[0]
    p = axes.shape[1]
    least = np.full(lanes, np.inf, distance.dtype)
    for a in range(n):
        for b in range(lanes):
            least[b] = min(least[b], distance[a, b])
    excess = np.empty(lanes)
    sums = np.zeros((p, lanes))
    squares = np.zeros((p, lanes))
    origin = np.empty(lanes)
    for b in range(lanes):
        origin[b] = np.float32(least[b])
    for v in range(n):
        a = rank[v]
        for b in range(lanes):
            excess[b] = np.float64(np.float32(distance[a, b])) - origin[b]
        for j in range(p):
            x = axes[v, j]
            for b in range(lanes):
                sums[j, b] += excess[b] * x
                squares[j, b] += excess[b] * excess[b] * x
    for b in range(count):
        nearest[batch[b]] = origin[b]
        for j in range(p):
            first[batch[b], j] = sums[j, b]
            second[batch[b], j] = squares[j, b]


@compiled()
def take_least(best: Any, rows: Any, starts: Any, known: Any, inside: Any) -> None:
    """best[rows[s]] = min(itself, starts[s] + known[inside[s]]), entry by entry, for each s.

    best (l, m)
    rows, inside (s,)
    starts (s,)
    known (b, m)
    """
    m = best.shape[1]
    for s in range(rows.shape[0]):
        row, at, start = rows[s], inside[s], starts[s]
        for j in range(m):
            best[row, j] = min(best[row, j], start + known[at, j])


@compiled()
def row_products(distances: Any, axes: Any, nearest: Any, first: Any, second: Any) -> None:
    """Fill nearest (l,) with the least entry of each row, first and second (l, p) with V'e and V'e², e what is above.

    distances (l, m)
    axes (m, p): V.
    """
    count, m = distances.shape
    p = axes.shape[1]
    for i in range(count):
        least = distances[i, 0]
        for j in range(1, m):
            least = min(least, distances[i, j])
        nearest[i] = least
        for a in range(p):
            first[i, a] = 0.0
            second[i, a] = 0.0
        for j in range(m):
            excess = np.float64(distances[i, j]) - np.float64(least)  # float() of a float32 stays one here
            square = excess * excess
            for a in range(p):
                first[i, a] += excess * axes[j, a]
                second[i, a] += square * axes[j, a]
