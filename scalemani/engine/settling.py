"""Kernels: the shortest paths of many sources at once, side by side in one sweep over the graph.

Sources that lie close together settle the vertices of a graph in nearly the same order (what others take is in
:mod:`scalemani.engine.sweeping`). So every vertex holds the distances of all sources of a batch in its `LINE` bytes
(32 of float32, 16 of float64: the lanes), and the vertices are relaxed in one common order, by windows: a window is
swept until nothing in it is dirty, and a change behind the window sends the sweep back. To relax a vertex is to pull
(the least over its neighbours of distance + weight, lane by lane), then to push its new distances to the same
neighbours, which are in the cache by then; a neighbour that a push has changed in any lane is dirty. (To push alone,
or to pull and only look at what a push would change, takes half the time a vertex and two to three times as many.)
At the fixed point every distance is the least over the neighbours of distance + weight,
rounded, which is what Dijkstra's algorithm ends with: the order and the windows decide the work,
never a bit of the result.

Distances are finite or inf and never negative, so that their bit patterns have their order: minima
are taken as integers. (A minimum by comparing floats before a store makes LLVM write a masked store,
which costs half of the whole search on AMD's processors.)
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic

from scalemani.engine.kernel_cache import compiled

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

        def neighbour(e: Any) -> Any:
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
            through = beyond(load(neighbour(e)), e)
            builder.store(builder.call(minimum, [through, builder.load(pulled)]), pulled)
        here = builder.load(pulled)
        store(here, v)
        back = cgutils.alloca_once_value(builder, none)
        with cgutils.for_range_slice(builder, low, high, step, inc=True) as (e, _):
            u = neighbour(e)
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
