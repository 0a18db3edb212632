"""The basis that grows: identities of its projections, and the directions that it takes in; where it may begin.

Nyström's block is a first basis: it is here because what is asked of it is what is asked of any.
"""

import naive
import numpy as np
import pytest
from data import flat_distances, random_distances, ring_distances, roll_graph

from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import Subspace, complement_of_ones, first_block, gaussian_block, orthonormal
from scalemani.kernel.operators import DenseKernels
from scalemani.kernel.start import nystrom_block, start_vertices

pytestmark = pytest.mark.usefixtures("one_thread")

N = 90


def symmetric(seed, n=N):
    """A symmetric matrix with null vector 1."""
    A = np.random.default_rng(seed).standard_normal((n, n))
    return naive.doubly_centred(A + A.T)


A, B = symmetric(1), symmetric(2)


def block(width, seed=0, n=N):
    return gaussian_block(n, width, seed)


def space_of(basis, operators=(A, B), most=60):
    return Subspace(basis, tuple(K @ basis for K in operators), most)


def grow(space, candidates, operators=(A, B)):
    grown = space.new_directions(candidates)
    space.append(grown, tuple(K @ grown for K in operators))
    return grown


def check(space, operators=(A, B)):
    """Everything that is said of a space, from its basis."""
    V = space.basis
    assert V.shape == (len(operators[0]), space.columns)
    np.testing.assert_allclose(V.T @ V, np.eye(space.columns), rtol=0, atol=1e-13)
    assert np.abs(V.sum(0)).max() < 1e-12
    for K, image, projected in zip(operators, space.images, space.projected, strict=True):
        size = np.abs(K).max() * len(K)
        np.testing.assert_allclose(image, K @ V, rtol=0, atol=1e-14 * size)
        np.testing.assert_allclose(projected, V.T @ K @ V, rtol=0, atol=1e-14 * size)
        np.testing.assert_array_equal(projected, projected.T)


# ---- growth ------------------------------------------------------------------------------------


@pytest.mark.parametrize("widths", [(1,), (5, 1, 9), (16, 16, 16), (30, 2, 2, 2)])
def test_growth_by_borders_is_the_projection_from_scratch(widths):
    space = space_of(block(widths[0]))
    for seed, width in enumerate(widths[1:], start=1):
        assert grow(space, block(width, seed)).shape[1] == width
        check(space)
    assert space.columns == sum(widths)
    whole = space_of(space.basis.copy())
    for bordered, scratch in zip(space.projected, whole.projected, strict=True):
        np.testing.assert_allclose(bordered, scratch, rtol=0, atol=1e-13 * np.abs(scratch).max())


def test_the_basis_is_not_copied_when_it_grows():
    space = space_of(block(10))
    first = space.basis
    grow(space, block(10, 1))
    space.rotate(np.linalg.qr(np.random.default_rng(0).standard_normal((20, 6)))[0])
    assert np.shares_memory(first, space.basis)


def test_a_basis_that_can_not_grow_takes_no_room():
    basis = np.asfortranarray(complement_of_ones(N))
    space = space_of(basis, most=N - 1)
    assert np.shares_memory(space.basis, basis)
    check(space)


def test_a_rotation_needs_no_product():
    """K -> u'Ku for a basis V u, narrower than V; it then grows as any other."""
    space = space_of(block(24))
    before = space.basis.copy()
    u = np.linalg.qr(np.random.default_rng(3).standard_normal((24, 7)))[0]
    space.rotate(u)
    np.testing.assert_allclose(space.basis, before @ u, rtol=0, atol=1e-14)
    for K, projected in zip((A, B), space.projected, strict=True):
        np.testing.assert_allclose(projected, (before @ u).T @ K @ (before @ u), rtol=0, atol=1e-12)
    grow(space, block(16, 5))
    V = space.basis
    np.testing.assert_allclose(V.T @ V, np.eye(23), rtol=0, atol=1e-13)
    np.testing.assert_allclose(space.projected[1], V.T @ B @ V, rtol=0, atol=1e-12)


@pytest.mark.parametrize("coefficients", [(1.0, 0.0), (0.0, 1.0), (2.5, -1.0)])
def test_residuals_are_those_of_the_dense_operator(coefficients):
    """Of any combination with any vectors, Ritz or not."""
    space = space_of(block(12))
    rng = np.random.default_rng(0)
    u, values = rng.standard_normal((12, 3)), rng.standard_normal(3)
    K = coefficients[0] * A + coefficients[1] * B + 0.75 * np.eye(N)
    x = space.basis @ u
    np.testing.assert_allclose(space.residuals(coefficients, 0.75, u, values), K @ x - x * values, rtol=0, atol=1e-11)


# ---- symmetry ----------------------------------------------------------------------------------


def test_a_symmetric_operator_is_seen_to_be_symmetric():
    space = space_of(block(16))
    for seed in range(3):
        grow(space, block(10, seed + 1))
    assert space.asymmetry < 1e-13


@pytest.mark.parametrize("blocks", [1, 2], ids=["in the first block", "in a border"])
@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9])
def test_an_operator_that_is_not_symmetric_is_found_out(blocks, size):
    """One of two: what is reported is the difference over the largest entry, not more and not much less."""
    skew = np.random.default_rng(7).standard_normal((N, N))
    fault = B + size * (skew - skew.T)
    basis, later = block(10), block(10, 1)
    space = space_of(basis, (A, fault if blocks == 1 else B))
    if blocks == 2:
        grow(space, later, (A, fault))
    V = space.basis
    mixed = fault @ V if blocks == 1 else np.column_stack([B @ V[:, :10], fault @ V[:, 10:]])
    projected = V.T @ mixed
    expected = np.abs(projected - projected.T).max() / np.abs(projected).max()
    assert expected > 0.1 * size
    assert space.asymmetry == pytest.approx(expected, rel=0.3)


# ---- new directions ----------------------------------------------------------------------------


def test_new_directions_hold_what_the_basis_does_not():
    space = space_of(block(12))
    candidates = np.random.default_rng(9).standard_normal((N, 5)) * [1e-12, 1.0, 1e6, 1e-30, 1e30]
    grown = space.new_directions(candidates)
    assert grown.shape == (N, 5)
    everything = np.column_stack([np.ones(N) / np.sqrt(N), space.basis, grown])
    np.testing.assert_allclose(everything.T @ everything, np.eye(18), rtol=0, atol=1e-13)
    unit = candidates / np.linalg.norm(candidates, axis=0)
    np.testing.assert_allclose(everything @ (everything.T @ unit), unit, rtol=0, atol=1e-12)


def test_copies_of_the_basis_constants_and_zeros_are_dropped():
    space = space_of(block(12))
    copies = space.basis @ np.random.default_rng(0).standard_normal((12, 4))
    candidates = np.column_stack([copies, np.ones(N), np.zeros(N), 1e-20 * space.basis[:, :2]])
    assert space.new_directions(candidates).shape == (N, 0)
    assert space.new_directions(np.empty((N, 0))).shape == (N, 0)


@pytest.mark.parametrize("noise", [1e-16, 1e-12, 1e-5])
def test_rounding_noise_of_what_is_there_is_not_taken_in(noise):
    """A converged residual is noise: normalised, it would be a copy of the basis with some of the noise."""
    space = space_of(block(12))
    rng = np.random.default_rng(0)
    known, new = space.basis[:, :3], block(1, 5)
    candidates = np.column_stack([known + noise * rng.standard_normal((N, 3)), new])
    grown = space.new_directions(candidates)
    assert grown.shape[1] == 1
    assert abs(float((new.T @ grown)[0, 0])) > 0.9


def test_candidates_that_repeat_each_other_count_once():
    space = space_of(block(12))
    one, two = block(2, 4).T
    grown = space.new_directions(np.column_stack([one, 1e-7 * one, two, one + two, one + 1e-9 * two]))
    assert grown.shape[1] == 2
    naive.same_subspace(grown, orthonormal(space.new_directions(np.column_stack([one, two]))), atol=1e-9)


def test_more_candidates_than_there_is_room_for():
    """The basis and what is new are the whole complement of 1 at most."""
    space = space_of(block(80))
    assert space.new_directions(np.random.default_rng(0).standard_normal((N, 30))).shape[1] == N - 1 - 80


@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_the_complement_of_constants_is_whole(n):
    basis = complement_of_ones(n)
    np.testing.assert_allclose(basis @ basis.T, naive.centring(n), rtol=0, atol=1e-13)


# ---- Nyström's block --------------------------------------------------------------------------


def start_of(D, width, p=3, correction="cailliez", count=None, seed=0):
    """A block from the rows of some vertices, as a run asks for it."""
    n = len(D)
    vertices = start_vertices(n, 10 * width, seed) if count is None else np.arange(0, n, n // count)[:count]
    return nystrom_block(np.asarray(D[vertices], np.float32), vertices, width, p, correction, seed)


def check_block(V, n, width):
    assert V.shape == (n, width)
    np.testing.assert_allclose(V.T @ V, np.eye(width), rtol=0, atol=1e-13)
    assert np.abs(V.sum(0)).max() < 1e-12


@pytest.fixture(scope="module")
def distances():
    """Of a roll of 600 in the graph's own order; neighbours in number are not neighbours in space."""
    return naive.geodesics(roll_graph(600))


@pytest.mark.parametrize("correction", ["cailliez", "lingoes", "flip", None, 2.5])
def test_the_block_of_a_roll_is_near_what_is_sought(distances, correction):
    """Angles with the axes of a few degrees, of 25 with the lowest vector, where those of chance are 65 and more."""
    n, width = len(distances), first_block(len(distances), 3)
    V = start_of(distances, width, correction=correction)
    check_block(V, n, width)
    solution = solve(DenseKernels(distances), 3, correction=correction)
    found = solution.pairs.vectors
    if correction in ("cailliez", "lingoes"):
        kernel = naive.kernel(distances, solution.constant) + solution.nugget * naive.centring(n) * (
            correction == "lingoes"
        )
        lowest = np.linalg.eigh(kernel + np.abs(kernel).sum() / n)[1][:, :1]  # 1 is lifted out of the way
        found = np.column_stack([found, lowest])
    sines = np.linalg.norm(found - V @ (V.T @ found), axis=0)
    assert sines[:3].max() < 0.2, sines
    assert sines.max() < 0.5, sines
    chance = block(width, 0, n)
    assert np.linalg.norm(found - chance @ (chance.T @ found), axis=0).min() > 0.9


def test_it_saves_reads_and_changes_no_answer(distances, iterate):
    width = first_block(len(distances), 3)
    plain = DenseKernels(distances)
    begun = DenseKernels(distances)
    expected = solve(plain, 3)
    found = solve(begun, 3, start=lambda: start_of(distances, width))
    assert begun.n_reads < plain.n_reads
    assert found.constant == pytest.approx(expected.constant, rel=1e-6)
    np.testing.assert_allclose(found.pairs.values, expected.pairs.values, rtol=1e-6)


SYMMETRIC = {
    "a ring, every tenth point": (ring_distances(640), 64),
    "a ring, every second point": (ring_distances(400), 200),
    "all distances equal": (1.0 - np.eye(300), 100),
    "a line, every fourth point": (np.abs(np.arange(400.0)[:, None] - np.arange(400.0)), 100),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_vertices_and_equal_distances_give_a_whole_block(name, iterate):
    """Their kernels have few ranks or equal values: the noise fills what they leave, and nothing is missed."""
    D, count = SYMMETRIC[name]
    n, width = len(D), 16
    V = start_of(D, width, count=count)
    check_block(V, n, width)
    expected = naive.constant_by_newton(D)
    found = solve(DenseKernels(D), 3, start=lambda: V)
    np.testing.assert_allclose(found.constant, expected, rtol=1e-6, atol=1e-9)
    values = naive.top_pairs(naive.kernel(D, found.constant), 3)[0]
    np.testing.assert_allclose(found.pairs.values, values, rtol=1e-6, atol=1e-9 * values[0])


def test_what_vertices_on_a_mirror_cannot_see_is_found(iterate):
    """A grid, begun from vertices on its axis of symmetry: what comes of them is even, its longest axis is odd."""
    x, y = (side.ravel() for side in np.meshgrid(np.arange(41.0), np.arange(-4.0, 5) * 20, indexing="ij"))
    D = np.abs(x[:, None] - x) + np.abs(y[:, None] - y)
    vertices = np.flatnonzero(y == 0)
    V = nystrom_block(D[vertices].astype(np.float32), vertices, 16, 2, "cailliez", 0)
    check_block(V, len(D), 16)
    found = solve(DenseKernels(D), 2, start=lambda: V)
    assert found.constant == pytest.approx(naive.constant_by_newton(D), rel=1e-6)
    values, vectors = naive.top_pairs(naive.kernel(D, found.constant), 2)
    assert abs(float(vectors[:, 0] @ np.sign(y))) > 10, "the longest axis is the odd one"
    np.testing.assert_allclose(found.pairs.values, values, rtol=1e-6)


def test_vertices_in_one_place_are_no_fault():
    """All distances between them 0, and the same to everything else: given distances may be so."""
    D = random_distances(200)
    D[:40], D[:, :40] = D[0], D[:, :1]
    D[:40, :40] = 0
    V = nystrom_block(D[:40].astype(np.float32), np.arange(40), 16, 3, "cailliez", 0)
    check_block(V, 200, 16)


@pytest.mark.parametrize("n", [3, 4, 10, 33])
@pytest.mark.parametrize("correction", ["cailliez", "flip", None])
def test_few_points(n, correction):
    D = flat_distances(n)
    for width in {1, min(2, n - 2), n - 2}:
        vertices = np.arange(n - 1)
        V = nystrom_block(D[vertices].astype(np.float32), vertices, width, 1, correction, 0)
        check_block(V, n, width)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_the_rows_changes_nothing(scale):
    D = random_distances(300)
    np.testing.assert_allclose(
        *(np.abs(start_of(D * s, 16).T @ start_of(D, 16)).max(0) for s in (scale, 1.0)), atol=1e-3
    )


@pytest.mark.parametrize("n", [2, 5, 255, 256, 257, 2_000, 10_000, 100_000])
@pytest.mark.parametrize("most_columns", [20, 224])
def test_the_vertices_to_start_from_are_spread(n, most_columns):
    chosen = start_vertices(n, most_columns, 0)
    assert len(chosen) == min(max(128, n // 16), 512, 2 * most_columns, n // 2)
    assert (np.diff(chosen) > 0).all()
    edges = np.linspace(0, n, len(chosen) + 1).astype(int)
    assert ((chosen >= edges[:-1]) & (chosen < edges[1:])).all()
    np.testing.assert_array_equal(chosen, start_vertices(n, most_columns, 0))
