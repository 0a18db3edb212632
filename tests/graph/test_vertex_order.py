"""The vertex order: a permutation, deterministic, near in number where near in space, robust in extremes."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

from scalemani.graph.order import LEAF, vertex_order

MANY = 100_000


def graph_of(i, j, weights, n):
    """Both directions of edges, stored zeros kept, under shuffled numbers."""
    number = np.random.default_rng(7).permutation(n)
    i, j = number[i], number[j]
    return sp.coo_array(
        (np.concatenate([weights, weights]), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n)
    ).tocsr()


def grid(side):
    """A square grid with lengths that don't tie, rows shuffled; and the place of each row."""
    rng = np.random.default_rng(0)
    number = np.arange(side * side).reshape(side, side)
    i = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    j = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    return graph_of(i, j, rng.uniform(0.9, 1.1, i.size), side * side)


def roll(n, k):
    rng = np.random.default_rng(0)
    t = 1.5 * np.pi * (1 + 2 * rng.random(n))
    points = np.stack([t * np.cos(t), 21 * rng.random(n), t * np.sin(t)], axis=1)
    distances, found = cKDTree(points).query(points, k + 1)
    directed = sp.coo_array(
        (distances[:, 1:].ravel(), (np.repeat(np.arange(n), k), found[:, 1:].ravel())), shape=(n, n)
    ).tocsr()
    return directed.maximum(directed.T).tocsr()  # no zeros here that this could lose


def line(n, weights):
    return graph_of(np.arange(n - 1), np.arange(1, n), weights, n)


def star(weights):
    return graph_of(np.zeros(weights.size, int), np.arange(1, weights.size + 1), weights, weights.size + 1)


def gaps(matrix, order):
    """|i - j| of each edge, in the numbers that `order` gives."""
    number = np.empty(order.size, dtype=np.int64)
    number[order] = np.arange(order.size)
    coo = matrix.tocoo()
    return np.abs(number[coo.coords[0]] - number[coo.coords[1]])


def assert_permutation(order, n):
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize(
    ("matrix", "mean", "far"),
    [
        # Found when written: 90 and 0.045, 72 and 0.059. By chance: n / 3 and 0.95.
        pytest.param(grid(100), 110, 0.06, id="grid of 100 x 100"),
        pytest.param(roll(10_000, 10), 90, 0.07, id="roll of 10,000"),
    ],
)
def test_neighbours_are_near_in_number(matrix, mean, far):
    n = matrix.shape[0]
    order = vertex_order(matrix)
    assert_permutation(order, n)
    found = gaps(matrix, order)
    by_chance = gaps(matrix, np.random.default_rng(1).permutation(n))
    assert found.mean() < mean
    assert (found > 256).mean() < far
    assert found.mean() < by_chance.mean() / 25
    assert (found > 256).mean() < (by_chance > 256).mean() / 10


def test_blocks_of_sixteen_hold_together():
    """Aligned blocks are what a batch of sources is: most of their vertices touch another of the block."""
    matrix = grid(50)
    order = vertex_order(matrix)
    number = np.empty(order.size, dtype=np.int64)
    number[order] = np.arange(order.size)
    coo = matrix.tocoo()
    within = (number[coo.coords[0]] // LEAF) == (number[coo.coords[1]] // LEAF)
    # A 4 x 4 square has 24 inner edges of the 32 that 16 vertices own, a random set none.
    assert within.mean() > 0.62  # 0.66 when written


@pytest.mark.parametrize("weights", ["random", "ones", "zeros", "some zeros"])
def test_a_long_line_is_put_in_its_order(weights):
    rng = np.random.default_rng(0)
    lengths = {
        "random": rng.random(MANY - 1),
        "ones": np.ones(MANY - 1),
        "zeros": np.zeros(MANY - 1),
        "some zeros": rng.integers(0, 2, MANY - 1).astype(float),
    }[weights]
    matrix = line(MANY, lengths)
    order = vertex_order(matrix)
    assert_permutation(order, MANY)
    assert gaps(matrix, order).max() == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "matrix",
    [
        pytest.param(star(np.ones(MANY - 1)), id="star"),
        pytest.param(star(np.zeros(MANY - 1)), id="star of zero edges"),
        pytest.param(sp.csr_array((MANY, MANY)), id="no edges"),
        pytest.param(graph_of(np.arange(0, MANY, 2), np.arange(1, MANY, 2), np.ones(MANY // 2), MANY), id="pairs"),
        pytest.param(
            graph_of(
                np.concatenate([np.arange(MANY // 2 - 1), np.zeros(MANY // 2, int)]),
                np.concatenate([np.arange(1, MANY // 2), np.arange(MANY // 2, MANY)]),
                np.ones(MANY - 1),
                MANY,
            ),
            id="comet",
        ),
    ],
)
def test_extremes_take_neither_recursion_nor_quadratic_time(matrix):
    """Quadratic time would be hours here; the limit is a minute for what takes a tenth of a second."""
    assert_permutation(vertex_order(matrix), MANY)


def test_components_stay_together():
    """Pieces are numbered one after another; none is dealt over the others' numbers."""
    pieces = [grid(7), line(40, np.ones(39)), grid(12), line(3, np.ones(2)), sp.csr_array((1, 1))]
    piece = np.repeat(np.arange(5), [p.shape[0] for p in pieces])
    shuffle = np.random.default_rng(0).permutation(piece.size)
    piece, matrix = piece[shuffle], sp.block_diag(pieces, format="csr")[shuffle][:, shuffle]
    order = vertex_order(matrix)
    assert_permutation(order, matrix.shape[0])
    assert np.count_nonzero(np.diff(piece[order])) == 4


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 18, 31, 32, 33, 49])
def test_small_lines(n):
    matrix = line(n, np.ones(n - 1)) if n > 1 else sp.csr_array((n, n))
    assert_permutation(vertex_order(matrix), n)


@pytest.mark.parametrize("power", [-900, -30, 30, 900])
def test_units_change_nothing(power):
    """Powers of two are exact; the largest ones would overflow in a sum along a path."""
    matrix = grid(20)
    scaled = matrix.copy()
    scaled.data *= 2.0**power
    np.testing.assert_array_equal(vertex_order(scaled), vertex_order(matrix))


def test_input_is_left_alone():
    matrix = grid(10)
    before = matrix.copy()
    vertex_order(matrix)
    np.testing.assert_array_equal(matrix.indices, before.indices)
    np.testing.assert_array_equal(matrix.data, before.data)


def test_threads_at_once_give_the_same_order():
    matrix = grid(60)
    alone = vertex_order(matrix)
    with ThreadPoolExecutor(4) as pool:
        for order in pool.map(lambda _: vertex_order(matrix), range(8)):
            np.testing.assert_array_equal(order, alone)


def test_another_process_gives_the_same_order(tmp_path):
    """With another seed of hashes, and one thread."""
    matrix = grid(30)
    sp.save_npz(tmp_path / "graph.npz", matrix)
    program = (
        "import sys, numpy as np, scipy.sparse as sp\n"
        "from scalemani.graph.order import vertex_order\n"
        "np.save(sys.argv[2], vertex_order(sp.load_npz(sys.argv[1])))\n"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONHASHSEED": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": root}
    arguments = [str(tmp_path / "graph.npz"), str(tmp_path / "order.npy")]
    subprocess.run([sys.executable, "-c", program, *arguments], env=environment, check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "order.npy"), vertex_order(matrix))
