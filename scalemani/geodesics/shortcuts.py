"""Edges that leap: a few edges of a neighbour graph by which many paths go from one part of the data to another.

What tells such edges from others is how many ways lead past them (paths without a common edge). Nearby, between the
two ends of an edge that leaps, few or no other ways lead; far around many do, since both ends lie on one wide sheet,
such as a turn of a Swiss roll and the next. An edge of a sheet has many ways nearby. A bridge, a few edges
between two clusters, a thin ring and a tree have few ways far around, too: they are no shortcuts.

Where distances are nearly those of flat space (`LEAST_MASS`) no edge does harm, and none is looked for. Else:

    1. The edges that most paths from some sources run through are looked at (:mod:`scalemani.geodesics.flows`).
    2. A ball of vertices is placed on each side of such an edge, along the busiest path through it. A ball does not
       reach past the edge's middle. The minimum cut between the balls, among the vertices near by, is a bundle of b
       edges. It has the edge itself, and no more edges than a vertex has in the mean, or `WIDEST`. Balls of several
       sizes are tried, the largest first.
    3. Without the bundle, `RATIO` b + `MORE` ways and `SHEET` times those of a vertex lead from ball to ball around.
    4. The bundle is taken out. An edge is put back if its ends are near each other without all that were taken. The
       distances of the sources are found again. All is done once more until nothing is taken, or no distance grows.
    5. In the end edges with a short detour are put back, and those that do no harm (`HARM`). The others are shortcuts
       if distances are much nearer to those of flat space without them (`FLATTER`); or if one of them alone makes a
       share `ALONE` of the distances a third shorter, all together `TOGETHER`, and, where they are more than `FEW`,
       distances are nearer to those of flat space without.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from scalemani.aliases import F32, F64, I64
from scalemani.geodesics.batches import paths_bytes, workspace_bytes
from scalemani.geodesics.flows import Flows, flows_bytes, path_flows, path_tree
from scalemani.geodesics.paths import geodesic_rows
from scalemani.geodesics.ways import Neighborhoods, Pairs
from scalemani.graph.edges import row_numbers

SOURCES, FOLLOWED = 64, 32  # sampled vertices, and those of them whose paths are followed
CANDIDATES = 40  # edges that are looked at in a round
LEAST_FLOW = 0.01  # of a candidate, a share of all paths
# size of a ball over the mean degree; radius of what is near over the balls' reach
SCALES = (2.0, 1.3), (1.0, 1.3), (0.6, 1.2)
MOST_NEAR = 4000  # vertices
WIDEST = 24  # edges of a bundle
RATIO, MORE = 3, 3  # ways elsewhere that a bundle has: for each of its edges, and besides
SHEET = 1.2  # ways elsewhere at the least, in neighbours of a vertex
VISITS = 60.0  # of all vertices, that a round may take to count ways through the whole graph
DETOURS = 3.0, 5.0  # lengths of an edge, within which its ends are near without it: in a round, and in the end
LONGER, MUCH_LONGER = 1.2, 1.5  # times as long
GAIN = 0.005  # share of distances that become longer by a further round
HARM, ALONE, TOGETHER = 0.01, 0.02, 0.04  # shares of distances that are longer without one edge, much longer; all
FEW = 4  # edges that may leap though distances are no flatter without: more of them are a neck of the data
FLATTER = 0.5  # of the negative mass is left without: then the edges leap, however few distances they shorten
ROUNDS, PATIENCE = 12, 3  # at the most; in a row without a gain: distances grow when the last of several leaps goes
LEAST_MASS = 0.1  # negative mass of a map that is bent: leaps make it 0.14 and more, and a flat sheet has 0.01 to 0.07


class Shortcuts(NamedTuple):
    """What was found.

    edges (c, 2): Vertices, the lower first; that of most paths first.
    flows (c,): Share of all sampled shortest paths that ran through each when it was found.
    lengths (c,): In the unit of the graph.
    harm: Share of the distances between sampled points that are longer by a fifth or more without them.
    negative_mass: Moduli of negative eigenvalues over the trace, of the distances between sampled points: with these
        edges, and without.
    """

    edges: I64
    flows: F64
    lengths: F64
    harm: float
    negative_mass: tuple[float, float]


def shortcut_sources(n: int, seed: int) -> I64:
    """The vertices whose paths are followed, ascending."""
    return np.sort(np.random.default_rng([seed, 5]).choice(n, min(n, SOURCES), replace=False)).astype(np.int64)


def find_shortcuts(graph: sp.csr_array, sources: I64, rows: F32, exempt: I64 | None = None) -> Shortcuts:
    """The edges of a graph that leap.

    graph (n, n): Symmetric, connected, in vertex order; float32 lengths.
    sources (m,), rows (m, n): Vertices, and their distances to all.
    exempt (b, 2): Edges that are never suspected.
    """
    return _Finder(graph, sources, rows, exempt).found()


def shortcuts_bytes(n: int, edges: int) -> int:
    """What :func:`find_shortcuts` holds besides graph and rows: these once more, and scratch an entry and a vertex."""
    scratch = flows_bytes(n, edges) + 33 * edges + 40 * n
    return scratch + paths_bytes(n, edges) + workspace_bytes(n, edges) + 4 * n * SOURCES


class _Finder:
    """A graph from which edges are taken: `out` has them by their ends, the lower first, with length and flow."""

    def __init__(self, graph: sp.csr_array, sources: I64, rows: F32, exempt: I64 | None) -> None:
        self.places, self.sources, self.first = Neighborhoods(graph), sources, rows
        self.degree = len(graph.indices) / graph.shape[0]
        self.exempt = {(int(min(pair)), int(max(pair))) for pair in ([] if exempt is None else exempt)}
        self.out: dict[tuple[int, int], tuple[float, float]] = {}

    def found(self) -> Shortcuts:
        """All rounds, and what remains of what they took."""
        rows, grown, still, bent = self.first, 0.0, 0, _negative_mass(self.first[:, self.sources])
        if bent < LEAST_MASS and not self.exempt:  # far parts hide what one of them has
            return Shortcuts(np.empty((0, 2), np.int64), np.empty(0), np.empty(0), 0.0, (bent, bent))
        for _ in range(ROUNDS):
            if not self._round(np.ascontiguousarray(rows[:: max(1, len(rows) // FOLLOWED)])):
                break
            rows = geodesic_rows(self.places.graph, self.sources)
            before, grown = grown, float(np.mean(rows > LONGER * self.first))
            still = still + 1 if grown - before < GAIN else 0
            if still == PATIENCE:
                break
        if self._put_back(list(self.out), DETOURS[1]):
            rows = geodesic_rows(self.places.graph, self.sources)
        shares = {pair: self._harm(rows, pair) for pair in self.out}
        pairs = [pair for pair, (some, _) in shares.items() if some >= HARM]
        without = _negative_mass(rows[:, self.sources])
        together = float(np.mean(rows > MUCH_LONGER * self.first))
        alone = max((much for _, much in shares.values()), default=0.0)
        grave = alone >= ALONE and together >= TOGETHER and (len(pairs) <= FEW or without < bent)
        if not grave and without >= FLATTER * bent:
            pairs = []
        pairs.sort(key=lambda pair: -self.out[pair][1])
        lengths, flows = np.array([self.out[pair] for pair in pairs], np.float64).reshape(-1, 2).T
        harm = float(np.mean(rows > LONGER * self.first)) if pairs else 0.0
        edges = np.array(pairs, np.int64).reshape(-1, 2)
        return Shortcuts(edges, flows, lengths, harm, (bent, without))

    def _round(self, rows: F32) -> bool:
        """Look at the busiest edges; whether an edge was taken and not put back."""
        graph = self.places.graph
        flows, trees, taken = path_flows(graph, rows), dict[int, _Tree](), list[tuple[int, int]]()
        self.places.visits = 0
        for child, entry in busiest(graph, flows, rows.size):
            parent, source = int(graph.indices[entry]), int(flows.source[entry])
            pair = (min(child, parent), max(child, parent))
            if pair in self.out or pair in self.exempt or self.places.visits > VISITS * graph.shape[0]:
                continue
            if source not in trees:
                trees[source] = _Tree(graph, rows[source])
            for edge, length in self._bundle(trees[source], child, parent).items():
                both = self.places.entry(*edge), self.places.entry(*edge[::-1])
                self.out[edge] = length, float(flows.counts[[*both]].sum() / rows.size)
                taken.append(edge)
        self._put_back(taken, DETOURS[0])
        return any(pair in self.out for pair in taken)

    def _bundle(self, tree: "_Tree", child: int, parent: int) -> dict[tuple[int, int], float]:
        """Take out the few edges that join the two sides of an edge near by, if many ways lead around."""
        places, widest = self.places, min(int(self.degree), WIDEST)
        entry = places.entry(child, parent)
        length = float(places.weights[entry])
        for size, reaches in SCALES:
            many = max(int(np.ceil(size * self.degree)), 2)
            up, reach = self._ball(tree.up(parent), length, many)
            down, other = self._ball(tree.down(child), length, many)
            if np.isin(up, down).any():
                continue
            near, _ = places.nearest([parent, child], reaches * max(reach, other) + length, MOST_NEAR)
            ways, *cuts = places.ways(up, down, widest + 1, near)
            if ways > widest:
                continue
            pair = (min(child, parent), max(child, parent))
            cut = next((one for one in cuts if pair in self._ends(one)), None)
            if cut is None:
                continue
            if not self.exempt.isdisjoint(self._ends(cut)):
                return {}
            if self._is_star(cut):
                continue
            lengths, needed = places.take(cut), max(RATIO * ways + MORE, int(np.ceil(SHEET * self.degree)))
            if places.ways(up, down, needed)[0] >= needed:
                return dict(zip(self._ends(cut), lengths, strict=True))
            places.put(cut, lengths)
        return {}

    def _is_star(self, cut: Pairs) -> bool:
        """Whether a cut parts one vertex from its own sheet: most of its edges, and the others leap."""
        common = set.intersection(*(set(pair) for pair in self._ends(cut)))
        weights, indptr = self.places.weights, self.places.indptr
        return any(0 < np.isfinite(weights[indptr[v] : indptr[v + 1]]).sum() - len(cut) < len(cut) for v in common)

    def _ends(self, edges: Pairs) -> dict[tuple[int, int], None]:
        """The two vertices of each edge, the lower first."""
        both = [(row, int(self.places.indices[entry])) for row, entry in edges]
        return dict.fromkeys((min(pair), max(pair)) for pair in both)

    def _ball(self, path: Iterator[tuple[int, float]], length: float, many: int) -> tuple[I64, float]:
        """A ball on a path that leads away from one end of an edge, and how far it reaches from there.

        It is the first whose vertices are all nearer to its centre than the middle of the edge.

        path: Vertices, with how far each is from that end.
        """
        for center, gap in path:
            ball, radius = self.places.nearest([center], np.inf, many)
            if gap + length / 2 >= radius:
                break
        return ball, gap + radius

    def _put_back(self, pairs: list[tuple[int, int]], detour: float) -> int:
        """Put edges back whose ends are near each other without; their number."""
        count = 0
        for one, other in pairs:
            length = self.out[one, other][0]
            beside = [self.places.weights[self.places.indptr[v] : self.places.indptr[v + 1]] for v in (one, other)]
            finite = np.concatenate(beside)
            usual = float(np.median(np.append(finite[np.isfinite(finite)], length)))
            if not self.places.apart(one, other, detour * max(length, usual)):
                self.places.put([(one, self.places.entry(one, other))], [length])
                del self.out[one, other]
                count += 1
        return count

    def _harm(self, rows: F32, pair: tuple[int, int]) -> tuple[float, float]:
        """Shares of the pairs of sources that are longer, and much longer, than by way of an edge that was taken."""
        (one, other), among = pair, rows[:, self.sources]
        there = rows[:, [one]] + rows[:, other]
        over = np.minimum(there, there.T) + self.out[pair][0]
        return float(np.mean(among > LONGER * over)), float(np.mean(among > MUCH_LONGER * over))


class _Tree:
    """The shortest paths from one source."""

    def __init__(self, graph: sp.csr_array, row: F32) -> None:
        self.graph, self.row = graph, row
        self.before, self.behind = path_tree(graph, row)

    def up(self, vertex: int) -> Iterator[tuple[int, float]]:
        """The vertices before it, itself first, and how far each is."""
        start = float(self.row[vertex])
        while True:
            yield vertex, start - float(self.row[vertex])
            if self.before[vertex] < 0:
                return
            vertex = int(self.graph.indices[self.before[vertex]])

    def down(self, vertex: int) -> Iterator[tuple[int, float]]:
        """The vertices on the busiest path that goes on from it, itself first, and how far each is."""
        start, indices = float(self.row[vertex]), self.graph.indices
        while True:
            yield vertex, float(self.row[vertex]) - start
            others = indices[self.graph.indptr[vertex] : self.graph.indptr[vertex + 1]]
            entries = self.before[others]
            following = others[(entries >= 0) & (indices[entries] == vertex)]
            if not len(following):
                return
            vertex = int(following[self.behind[following].argmax()])


def busiest(graph: sp.csr_array, flows: Flows, total: int) -> list[tuple[int, int]]:
    """The edges that most paths run through: (row, entry) of the direction that one tree uses most."""
    n, rows = graph.shape[0], row_numbers(graph.indptr)
    used = np.flatnonzero(flows.counts >= LEAST_FLOW / 2 * total)
    ends = rows[used], graph.indices[used].astype(np.int64)
    names, place = np.unique(np.minimum(*ends) * n + np.maximum(*ends), return_inverse=True)
    both = np.bincount(place, flows.counts[used], len(names))
    found = []
    for name in np.argsort(-both, kind="stable")[:CANDIDATES]:
        if both[name] < LEAST_FLOW * total:
            break
        entries = used[place == name]
        entry = entries[np.argmax(flows.most[entries])]
        found.append((int(rows[entry]), int(entry)))
    return found


def _negative_mass(square: F32) -> float:
    """Moduli of negative eigenvalues over the trace of the kernel of some points' distances."""
    squares = ((square + square.T) / 2).astype(np.float64) ** 2
    means = squares.mean(axis=0)
    values = np.linalg.eigvalsh(-0.5 * (squares - means - means[:, None] + means.mean()))
    return float(-values[values < 0].sum() / max(values.sum(), np.finfo(float).tiny))
