"""How near the constant is to a dense solve's, on random data of many kinds, with products in either precision.

What float32 products can know of c* depends on λ1/c²: their rounding is of the size of D∘D, c² is what is sought in
it. `FULL_BASIS` is made small: the iteration itself is meant.
"""

import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import naive
import numpy as np
import pytest
import scipy.linalg as sl
from data import graph_of, neighbor_graph, random_distances, roll, store_of
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import scalemani
from scalemani.errors import ConvergenceWarning
from scalemani.geodesics.reads import PartialRead
from scalemani.kernel import eigensolver
from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import basis_limits, first_block
from scalemani.kernel.operators import CenteredKernels, DenseKernels
from scalemani.kernel.start import nystrom_block, start_vertices
from scalemani.storage.tiles import Blocks

pytestmark = pytest.mark.usefixtures("one_thread")

TOL = 1e-6
FLOAT32 = 5e-11  # times λ1/c², the error that is allowed to float32 products where it is above tol; 1.4e-11 was seen
HOPELESS = 1e5  # λ1/c² behind which float32 may say that it did not get there, as it then must


@pytest.fixture(autouse=True)
def iterated(monkeypatch):
    monkeypatch.setattr(eigensolver, "FULL_BASIS", 1)


class TilesInMemory:
    """As much of a store and of a cluster as a read of D asks of them: the tiles' arithmetic without files or tasks."""

    def __init__(self, D, size):
        self.distances, self.blocks = D, Blocks(len(D), size)
        self.path = self.identity = "memory"

    def map(self, function, tasks, shared):
        for _, _, run in tasks:
            partial = PartialRead(self, shared, run[0][0])
            for row, column in run:
                partial.take(row, column, self.distances[self.blocks[row], self.blocks[column]])
            yield partial.result


# ---- data --------------------------------------------------------------------------------------


def geodesics(points, k):
    """Along the union graph of k neighbours, joined to a ring of all points so that it is connected."""
    n = len(points)
    graph = neighbor_graph(points, k)
    around = np.arange(n)
    ring = graph_of(np.c_[around, (around + 1) % n], np.linalg.norm(points - np.roll(points, -1, 0), axis=1), n)
    return naive.geodesics(graph.maximum(ring))


def strip(rng, n, k):
    """A plane rectangle: the more neighbours, the nearer to Euclidean."""
    return geodesics(rng.random((n, 2)) * [1, rng.choice([1.0, 3.0, 10.0])], k)


def sphere(rng, n, k):
    points = rng.standard_normal((n, 3))
    return geodesics(points / np.linalg.norm(points, axis=1, keepdims=True), k)


def disturbed(rng, n, k):
    """Euclidean distances, and a random number more of a size between 1e-5 and 0.3: no metric always."""
    points, noise = rng.random((n, 3)), np.triu(rng.random((n, n)) * 10 ** rng.uniform(-5, -0.5), 1)
    return cdist(points, points) + noise + noise.T


KINDS = {
    "roll": lambda rng, n, k: geodesics(roll(n, rng, noise=0.3 * rng.random()), k),
    "sphere": sphere,
    "Gaussian": lambda rng, n, k: geodesics(rng.standard_normal((n, rng.integers(2, 12))), k),
    "strip": strip,
    "metric": lambda rng, n, k: random_distances(n, rng),
    "disturbed": disturbed,
}


def distances(kind, n, k, seed):
    """As tiles hold them: float32, symmetric."""
    D = KINDS[kind](np.random.default_rng(seed), n, min(k, n // 3)).astype(np.float32)
    return np.minimum(D, D.T)


data_sets = st.tuples(st.sampled_from(sorted(KINDS)), st.sampled_from([5, 8, 12, 20, 40]), st.integers(0, 10**6))


# ---- the claim ---------------------------------------------------------------------------------


def check(D, started):
    """Constants by products in either precision against Newton's on the whole matrices; tightness. Whether c* > 0."""
    n = len(D)
    K1, K2 = naive.kernels(D)
    own = sl.eigvalsh(K2)
    if own[0] > -1e-5 * own[-1]:
        return False  # at the threshold where c is 0 by rule; or beside it
    c = naive.constant_by_newton(D)
    ratio = sl.eigvalsh(K2 + 2 * c * K1 + c * c / 2 * naive.centring(n), subset_by_index=[n - 1, n - 1])[0] / c**2
    assert lowest_of(D, 0.9 * c) <= -0.09 * c**2 / 2
    start = block_of(D) if started else None
    found = {"in memory": solve(DenseKernels(D), 3, tol=TOL, start=start).constant}
    tiles = TilesInMemory(D, n // 3)
    for precision in ("float64", "float32"):
        kernels = CenteredKernels(tiles, tiles, precision)
        with warnings.catch_warnings():
            if precision == "float32" and ratio > HOPELESS:
                warnings.simplefilter("ignore", ConvergenceWarning)
            found[precision] = solve(kernels, 3, tol=TOL, start=start).constant
    for name, constant in found.items():
        allowed = max(TOL, FLOAT32 * ratio) if name == "float32" else TOL
        assert abs(constant / c - 1) <= allowed, f"{name}: {constant / c - 1:.1e}, λ1/c² = {ratio:.0f}"
    assert lowest_of(D, 0.9 * found["float64"]) <= -0.09 * found["float64"] ** 2 / 2 * (1 - 1e-6)
    return True


def lowest_of(D, c):
    """The smallest eigenvalue of K(c); that of the vector 1 is 0."""
    return float(sl.eigvalsh(naive.kernel(D, c), subset_by_index=[0, 0])[0])


def block_of(D):
    """A start as a run makes it."""
    width = first_block(len(D), 3)
    vertices = start_vertices(len(D), basis_limits(width, 3)[1], 0)
    return lambda: nystrom_block(D[vertices], vertices, width, 3, "cailliez", 0)


def few(examples):
    return settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize(("fewest", "most"), [(60, 120), pytest.param(200, 400, marks=pytest.mark.slow)])
@few(30)
@given(data_set=data_sets, size=st.floats(0, 1), started=st.booleans())
def test_the_constant_is_a_dense_solves(fewest, most, data_set, size, started):
    """Thirty sets: to tol in float64; in float32 to tol while λ1/c² <= 2e4, and to 5e-11 of that beyond."""
    kind, k, seed = data_set
    assume(check(distances(kind, fewest + int(size * (most - fewest)), k, seed), started))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "k"),
    [("disturbed", 0)]
    + [
        pytest.param(*each, marks=pytest.mark.long)
        for each in (("roll", 10), ("strip", 40), ("sphere", 12), ("Gaussian", 8))
    ],
)
def test_so_it_is_of_two_thousand(kind, k):
    assert check(distances(kind, 2_000, k, 0), started=kind != "roll")


@pytest.mark.parametrize(("n", "k", "seed", "least"), [(317, 40, 263237, 1e3), (150, 40, 1, 1e3)])
def test_float32_products_reach_tol_by_one_product_in_float64(n, k, seed, least):
    """Nearly Euclidean strips: λ1/c² is in the thousands, and without its one float64 product float32 misses tol."""
    D = geodesics(np.random.default_rng(seed).random((n, 2)) * [1, 10.0], k).astype(np.float32)
    D = np.minimum(D, D.T)
    c = naive.constant_by_newton(D)
    assert naive.top_pairs(naive.kernel(D, c), 1)[0][0] > least * c**2
    assert check(D, started=False)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_tiles_in_memory_are_multiplied_as_those_of_a_store(cluster, tmp_path, precision):
    D = distances("roll", 90, 8, 0)
    V = np.random.default_rng(0).standard_normal((90, 4))
    tiles = TilesInMemory(D, 32)
    stored = CenteredKernels(cluster, store_of(D, 32, tmp_path / "run"), precision)
    for ours, theirs in zip(CenteredKernels(tiles, tiles, precision).products(V), stored.products(V), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_is_the_matrix_of_cailliez(kind):
    """Its largest real eigenvalue, 2n x 2n, in general arithmetic."""
    D = distances(kind, 60, 8, 0)
    assert naive.constant_by_newton(D) == pytest.approx(naive.constant_by_matrix(D), rel=1e-7)


# ---- the same bits -----------------------------------------------------------------------------

FIT = """
import hashlib, json, warnings
import numpy as np
from scalemani import KernelIsomap
from scalemani.kernel import eigensolver

eigensolver.FULL_BASIS = 1
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
turn = 1.5 * np.pi * (1 + 2 * rng.random(500))
X = np.c_[turn * np.cos(turn), 21 * rng.random(500), turn * np.sin(turn)]
model = KernelIsomap(n_neighbors=8, n_components=3, knn="exact", random_state=7, keep_distances=False).fit(X)
bits = hashlib.sha256(model.embedding_.tobytes()).hexdigest()
print(json.dumps([bits, model.additive_constant_.hex(), model.n_passes_]))
"""


@pytest.mark.slow
def test_five_processes_with_one_seed_give_the_same_bits():
    """Of coordinates and constant, whatever BLAS has been told of threads."""
    path = str(Path(scalemani.__file__).parents[1])
    seen = Counter()
    for threads in ("", "", "", "1", "4"):
        environment = {**os.environ, "PYTHONPATH": path} | ({"OPENBLAS_NUM_THREADS": threads} if threads else {})
        done = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, env=environment, check=True)
        seen[tuple(json.loads(done.stdout.splitlines()[-1]))] += 1
    assert len(seen) == 1, seen
    ((_, _, reads),) = seen
    assert reads > 1, "the iteration is not in it"
