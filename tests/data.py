"""The small inputs that many tests share: points, graphs and distance matrices with known answers."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from scalemani.storage.run import RunStore

# ---- points ------------------------------------------------------------------------------------


def roll(n, seed=0, noise=0.0):
    """A Swiss roll (n, 3)."""
    rng = np.random.default_rng(seed)
    t, height = 1.5 * np.pi * (1 + 2 * rng.random(n)), 21 * rng.random(n)
    return np.column_stack([t * np.cos(t), height, t * np.sin(t)]) + noise * rng.standard_normal((n, 3))


def ring(n):
    """n points on the unit circle."""
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([np.cos(angle), np.sin(angle)])


def two(n):
    """Two blobs of n/2 points, 100 apart."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 3)) + np.where(np.arange(n)[:, None] < n // 2, 0.0, 100.0)


def dup(m, r):
    """m points, each r times, shuffled."""
    rng = np.random.default_rng(0)
    return rng.permutation(np.repeat(rng.standard_normal((m, 3)), r, axis=0))


def flat(n, d=3):
    """A uniform cube: with k = n - 1 its geodesics are Euclidean."""
    return np.random.default_rng(0).random((n, d))


# ---- graphs ------------------------------------------------------------------------------------


def graph_of(edges, weights, n):
    """A symmetric CSR graph from edges (e, 2), each once; stored zeros stay."""
    i, j = np.asarray(edges, np.int64).reshape(-1, 2).T
    rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
    order = np.lexsort((columns, rows))
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return sp.csr_array((np.tile(np.asarray(weights, float), 2)[order], columns[order], indptr), shape=(n, n))


def neighbor_graph(points, k):
    """The union graph of k nearest other points."""
    distances = cdist(points, points)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    pairs = {(min(i, j), max(i, j)) for i, row in enumerate(nearest) for j in row.tolist()}
    edges = np.array(sorted(pairs))
    return graph_of(edges, distances[edges[:, 0], edges[:, 1]], len(points))


def roll_graph(n, k=8, seed=0):
    """The graph of a roll; connected at these sizes."""
    return neighbor_graph(roll(n, seed), k)


def line_graph(n, weight=1.0):
    """0 - 1 - ... - n-1."""
    return graph_of(np.column_stack([np.arange(n - 1), np.arange(1, n)]), np.full(n - 1, weight), n)


def star_graph(n):
    """Vertex 0 with n - 1 unit arms."""
    return graph_of([(0, i) for i in range(1, n)], np.ones(n - 1), n)


def ring_graph(n):
    """n vertices in a ring, edges of the chord's length."""
    return graph_of([(i, (i + 1) % n) for i in range(n)], np.full(n, 2 * np.sin(np.pi / n)), n)


def torus_graph(a, b):
    """An a x b grid on a torus, unit edges."""
    number = np.arange(a * b).reshape(a, b)
    edges = [np.stack([number, np.roll(number, -1, axis)], -1).reshape(-1, 2) for axis in (0, 1)]
    return graph_of(np.concatenate(edges), np.ones(2 * a * b), a * b)


# ---- distances ---------------------------------------------------------------------------------


def circle_steps(n):
    """Steps from vertex 0 around a ring of n."""
    return np.minimum(np.arange(n), n - np.arange(n)).astype(float)


def ring_distances(n):
    """D of RING(n) with k = 2: steps along chords."""
    steps = circle_steps(n) * 2 * np.sin(np.pi / n)
    return steps[np.abs(np.arange(n)[:, None] - np.arange(n))]


def torus_steps(a, b):
    """Distances from vertex (0, 0) of the torus grid, shape (a, b)."""
    return circle_steps(a)[:, None] + circle_steps(b)


def torus_distances(a, b):
    """D of the torus grid."""
    i, j = np.divmod(np.arange(a * b), b)
    return torus_steps(a, b)[np.abs(i[:, None] - i), np.abs(j[:, None] - j)]


def star_distances(n):
    """D of the star."""
    D = np.full((n, n), 2.0)
    D[0], D[:, 0] = 1, 1
    np.fill_diagonal(D, 0)
    return D


def flat_distances(n, d=3):
    """Euclidean distances."""
    return cdist(flat(n, d), flat(n, d))


def random_distances(n, seed=0):
    """Shortest paths of a complete graph with random weights: a metric far from Euclidean."""
    from naive import geodesics

    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, (n, n))
    return geodesics(np.minimum(weights, weights.T) * (1 - np.eye(n)))


# ---- a run with given distances ----------------------------------------------------------------


def store_of(D, tile, path):
    """A run whose tiles hold D (as float32)."""
    store = RunStore.create(path)
    store.create_distances(len(D), tile)
    for row, here in enumerate(store.blocks):
        store.tiles.write(row, np.asarray(D[here, here.start :], np.float32))
    return store


# ---- strategies --------------------------------------------------------------------------------


@st.composite
def graphs(draw, most=24, connected=False):
    """Symmetric graphs with positive, zero, repeated and very unequal weights."""
    n = draw(st.integers(1, most))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1])
    edges = set(draw(st.lists(pairs, max_size=3 * n))) if n > 1 else set()
    if connected:
        edges |= {(draw(st.integers(0, i - 1)), i) for i in range(1, n)}
    chosen = sorted(edges)
    weight = st.one_of(st.sampled_from([0.0, 1.0, 0.1, 1e-6, 1e6]), st.floats(0, 100, width=32, allow_subnormal=False))
    return graph_of(chosen, draw(st.lists(weight, min_size=len(chosen), max_size=len(chosen))), n)
