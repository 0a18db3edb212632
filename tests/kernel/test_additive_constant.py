"""The additive constant against closed forms, Cailliez's own 2n x 2n matrix, and the other two solvers.

`FULL_BASIS` is made small where the iteration itself is meant: up to that size the answer is dense.
"""

import warnings

import naive
import numpy as np
import pytest
import scipy.linalg as sl
from data import (
    flat_distances,
    neighbor_graph,
    random_distances,
    ring_distances,
    roll,
    roll_graph,
    star_distances,
    store_of,
    torus_distances,
    torus_steps,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani.errors import ConvergenceWarning, SolverError
from scalemani.kernel import eigensolver
from scalemani.kernel.constant import CailliezOperator, arnoldi_constant, power_constant, projected_constant, solve
from scalemani.kernel.operators import CenteredKernels, DenseKernels

pytestmark = pytest.mark.usefixtures("one_thread")


def constant_of(D, p=2, **options):
    return solve(DenseKernels(D), min(p, len(D) - 1), **options).constant


CLOSED_FORMS = {
    "ring of 40": (ring_distances(40), naive.constant_by_fourier(ring_distances(40)[0])),
    "ring of 101": (ring_distances(101), naive.constant_by_fourier(ring_distances(101)[0])),
    "torus 12 x 15": (torus_distances(12, 15), naive.constant_by_fourier(torus_steps(12, 15))),
    "star of three arms": (star_distances(4), (np.sqrt(3) - 1) / 2),
}


@pytest.mark.parametrize("basis", [1, 300])
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms(monkeypatch, name, basis):
    monkeypatch.setattr(eigensolver, "FULL_BASIS", basis)
    D, expected = CLOSED_FORMS[name]
    np.testing.assert_allclose(constant_of(D), expected, rtol=1e-6)


def test_the_ring_of_forty_is_the_published_number():
    """By value; by modulus the same matrix gives -49.4."""
    assert constant_of(ring_distances(40)) == pytest.approx(4.486, abs=5e-4)
    values = sl.eigvals(naive.cailliez_matrix(ring_distances(40)))
    assert values[np.abs(values).argmax()].real == pytest.approx(-49.4, abs=0.05)


@pytest.mark.parametrize("basis", [1, 300])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [2, 3, 4, 20, 100, 400])
def test_euclidean_distances_need_no_constant(monkeypatch, n, dtype, basis):
    """Also rounded to float32, where the exact c* of what is left is up to 1e-3 of the median."""
    monkeypatch.setattr(eigensolver, "FULL_BASIS", basis)
    assert constant_of(flat_distances(n).astype(dtype)) == 0.0


@pytest.mark.parametrize("D", [np.zeros((1, 1)) + d * (1 - np.eye(n)) for n in (2, 3) for d in (1.0, 1e-9, 1e9)])
def test_two_and_three_points_are_euclidean(D):
    assert constant_of(D) == 0.0


def test_all_points_in_one_place_need_no_constant(iterate):
    assert constant_of(np.zeros((30, 30))) == 0.0


def test_the_references_agree_with_each_other():
    """The 2n matrix, bisection on the lowest eigenvalue, and Newton: three different roads."""
    for D in (random_distances(12), ring_distances(9), naive.geodesics(roll_graph(60))):
        expected = naive.constant_by_matrix(D)
        assert naive.constant_by_newton(D) == pytest.approx(expected, rel=1e-9)
        assert naive.constant_by_bisection(D) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=12, deadline=None)
@given(st.integers(4, 90), st.integers(0, 10**6), st.sampled_from(["geodesic", "metric"]))
def test_random_distances_agree_with_the_matrix_of_cailliez(n, seed, kind):
    D = random_distances(n, seed) if kind == "metric" else random_geodesics(n, seed)
    before, eigensolver.FULL_BASIS = eigensolver.FULL_BASIS, 1
    try:
        found = constant_of(D)
    finally:
        eigensolver.FULL_BASIS = before
    np.testing.assert_allclose(found, naive.constant_by_matrix(D), rtol=1e-6, atol=1e-9 * D.max())


def random_geodesics(n, seed):
    """Of the graph of Gaussian points, joined by a ring so that it is connected."""
    points = np.random.default_rng(seed).standard_normal((n, 4))
    k = int(np.random.default_rng(seed).integers(2, 6))
    graph = neighbor_graph(points, min(k, n - 1)).toarray()
    for i in range(n):
        j = (i + 1) % n
        graph[i, j] = graph[j, i] = np.linalg.norm(points[i] - points[j])
    return naive.geodesics(graph)


@pytest.mark.parametrize("n", [150, 250, 400])
def test_the_iteration_agrees_with_newton_on_geodesics(iterate, n):
    """n above the block: nothing is dense; 16 of n columns are the start."""
    D = naive.geodesics(roll_graph(n))
    solution = solve(DenseKernels(D), 3)
    np.testing.assert_allclose(solution.constant, naive.constant_by_newton(D), rtol=1e-6)
    values, vectors = naive.top_pairs(naive.kernel(D, solution.constant), 3)
    np.testing.assert_allclose(solution.pairs.values, values, rtol=1e-8)
    naive.same_up_to_sign(solution.pairs.vectors, vectors, atol=1e-5)
    np.testing.assert_allclose(
        solution.unshifted, np.einsum("ij,ij->j", vectors, naive.kernels(D)[1] @ vectors), rtol=1e-6
    )
    assert solution.n_reads <= 25


def test_the_constant_is_tight(iterate):
    """K(c) is positive semidefinite and K(0.9 c) is not; over-shifting passes the first half alone."""
    D = naive.geodesics(roll_graph(200))
    c = constant_of(D)
    low, high = sl.eigvalsh(naive.kernel(D, c))[[0, -1]]
    assert low >= -1e-6 * high
    assert sl.eigvalsh(naive.kernel(D, 0.9 * c))[0] <= -0.09 * c**2 / 2


@pytest.mark.parametrize("scale", [2.0**-30, 1.0, 2.0**30])
def test_the_constant_scales_with_the_distances(iterate, scale):
    D = naive.geodesics(roll_graph(120))
    np.testing.assert_allclose(constant_of(D * scale), constant_of(D) * scale, rtol=1e-9)


# ---- bounds and projections --------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 30), st.integers(0, 1000), st.integers(0, 1000))
def test_every_vector_gives_a_lower_bound(n, seed, direction):
    D = random_distances(n, seed)
    K1, K2 = naive.kernels(D)
    v = np.random.default_rng(direction).standard_normal(n)
    v -= v.mean()
    v /= np.linalg.norm(v)
    a, b = v @ K1 @ v, v @ K2 @ v
    if 4 * a * a >= 2 * b:
        assert -2 * a + np.sqrt(4 * a * a - 2 * b) <= naive.constant_by_matrix(D) * (1 + 1e-9) + 1e-12


def test_a_growing_subspace_gives_a_rising_lower_bound():
    D = naive.geodesics(roll_graph(80))
    exact = naive.constant_by_newton(D)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((80, 79)) - 0)[0]
    basis = np.linalg.qr(basis - basis.mean(0))[0][:, :78]
    bounds = []
    for m in (2, 10, 30, 50, 70):
        Q = basis[:, :m]
        bounds.append(projected_constant(*(Q.T @ K @ Q for K in naive.kernels(D))))
    assert bounds == sorted(bounds)
    assert bounds[-1] <= exact * (1 + 1e-12)
    assert bounds[1] > 0


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 15), st.integers(0, 1000))
def test_the_projected_constant_ends_the_positive_semidefinite_set(m, seed):
    """Any symmetric pair: K(c) has lowest eigenvalue 0 there, or K2 was semidefinite."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, m, m))
    A, B = A + A.T, B + B.T
    c = projected_constant(A, B)
    lowest = sl.eigvalsh(B + 2 * c * A + c * c / 2 * np.eye(m))[0]
    size = np.abs(A).sum() * c + np.abs(B).sum() + c * c
    assert lowest >= -1e-5 * size
    if c > 0:
        assert abs(lowest) <= 1e-9 * size
    else:
        assert sl.eigvalsh(B)[0] >= -1e-6 * np.abs(sl.eigvalsh(B)).max()


def test_a_lower_bound_to_start_from_changes_nothing():
    K1, K2 = naive.kernels(random_distances(20))
    exact = projected_constant(K1, K2)
    assert projected_constant(K1, K2, 0.9 * exact) == pytest.approx(exact, rel=1e-12)


# ---- the operator of Cailliez ------------------------------------------------------------------


def test_the_operator_is_the_matrix_of_cailliez(cluster, tmp_path):
    """By products, from memory and from tiles; one read of D each."""
    D = np.asarray(naive.geodesics(roll_graph(60)), np.float32)
    D = np.minimum(D, D.T)
    matrix = naive.cailliez_matrix(D)
    z = np.random.default_rng(0).standard_normal((120, 3))
    for kernels in (DenseKernels(D), CenteredKernels(cluster, store_of(D, 16, tmp_path / "run"))):
        operator = CailliezOperator(kernels)
        assert operator.shape == (120, 120)
        atol = 1e-12 * np.abs(matrix).sum(1).max()
        np.testing.assert_allclose(operator @ z, matrix @ z, rtol=0, atol=atol)
        np.testing.assert_allclose(operator @ z[:, 0], matrix @ z[:, 0], rtol=0, atol=atol)
        assert kernels.n_reads == 2


def test_the_identity_of_cailliez_and_our_centring_differ_on_constants_alone():
    """Cailliez writes -I; the largest real eigenvalue is the same."""
    D = random_distances(15)
    K1, K2 = naive.kernels(D)
    written = np.block([[np.zeros((15, 15)), 2 * K2], [-np.eye(15), -4 * K1]])
    values = sl.eigvals(written)
    real = values.real[np.abs(values.imag) < 1e-7 * np.abs(values).max()]
    assert real.max() == pytest.approx(naive.constant_by_matrix(D), rel=1e-9)


@pytest.mark.parametrize("graph", [roll_graph(60), neighbor_graph(roll(100, 3, noise=0.5), 9)])
def test_plain_power_iteration_would_return_a_negative_number(graph):
    """The dominant eigenvalue is real, negative, near -4 max eig K1, and several times c*."""
    D = naive.geodesics(graph)
    values = sl.eigvals(naive.cailliez_matrix(D))
    dominant = values[np.abs(values).argmax()]
    assert abs(dominant.imag) < 1e-9 * abs(dominant)
    assert dominant.real == pytest.approx(-4 * sl.eigvalsh(naive.kernels(D)[0])[-1], rel=0.2)
    assert -dominant.real > 3 * naive.constant_by_matrix(D) > 0
    z = np.random.default_rng(0).standard_normal(2 * len(D))
    for _ in range(200):
        z = naive.cailliez_matrix(D) @ z
        z /= np.linalg.norm(z)
    assert z @ naive.cailliez_matrix(D) @ z == pytest.approx(dominant.real, rel=1e-6)


# ---- the other solvers -------------------------------------------------------------------------

SOLVABLE = {
    "ring of 40": ring_distances(40),
    "torus 6 x 7": torus_distances(6, 7),
    "roll of 60": naive.geodesics(roll_graph(60)),
    "random metric": random_distances(40),
}


@pytest.mark.parametrize("solver", ["power", "arnoldi"])
@pytest.mark.parametrize("name", SOLVABLE)
def test_the_other_solvers_agree_where_they_converge(name, solver):
    D = SOLVABLE[name]
    kernels = DenseKernels(D)
    solution = solve(kernels, 2, constant_solver=solver)
    expected = solve(DenseKernels(D), 2)
    np.testing.assert_allclose(solution.constant, expected.constant, rtol=1e-6)
    np.testing.assert_allclose(solution.pairs.values, expected.pairs.values, rtol=1e-6)
    assert solution.n_reads == kernels.n_reads > expected.n_reads


@pytest.mark.parametrize("n", [3, 60])
@pytest.mark.parametrize("solve_by", [power_constant, arnoldi_constant])
def test_they_say_that_they_fail_on_euclidean_data(solve_by, n):
    """c* = 0 is a defective eigenvalue there."""
    kernels = DenseKernels(flat_distances(n))
    with pytest.raises(SolverError, match=r"use constant_solver='ritz'"):
        solve_by(kernels, most_reads=300)
    assert kernels.n_reads <= 420


@pytest.mark.parametrize("n", [4, 10, 30])
def test_arnoldi_of_few_euclidean_points_returns_rounding_at_most(n):
    """Its basis then holds the whole space, and c(v) of whatever vector it ends with is 0."""
    assert arnoldi_constant(DenseKernels(flat_distances(n))) <= 1e-12


def test_power_iteration_that_runs_out_names_reads_and_residual():
    with pytest.raises(SolverError, match=r"in 5 reads of D \(residual [0-9.e+-]+, tol=1e-06\)"):
        power_constant(DenseKernels(ring_distances(40)), most_reads=5)


@pytest.mark.parametrize("seed", range(8))
def test_arnoldi_never_returns_a_wrong_constant(seed):
    """The eigenvalue of largest real part may be complex; c* is the largest real one."""
    D = random_distances(12, seed)
    try:
        found = arnoldi_constant(DenseKernels(D))
    except SolverError:
        return
    np.testing.assert_allclose(found, naive.constant_by_matrix(D), rtol=1e-6)


# ---- corrections, reads, warnings --------------------------------------------------------------


@pytest.mark.parametrize("correction", [None, 0.0, 0.25, 3, np.float32(0.5)])
def test_no_correction_and_numbers_are_taken_as_they_are(iterate, correction):
    D = naive.geodesics(roll_graph(120))
    solution = solve(DenseKernels(D), 3, correction=correction)
    c = float(correction or 0)
    assert solution.constant == c
    values, vectors = naive.top_pairs(naive.kernel(D, c), 3)
    np.testing.assert_allclose(solution.pairs.values, values, rtol=1e-8)
    naive.same_up_to_sign(solution.pairs.vectors, vectors, atol=1e-5)


@pytest.mark.parametrize("correction", [None, 1e-9, 1e-3])
def test_axes_past_the_rank_cost_no_reads(iterate, correction):
    """Three of the five are there; a tiny constant does not make the other two worth iterating for."""
    D = flat_distances(400).astype(np.float32)
    kernels = DenseKernels(D)
    assert solve(kernels, 5, correction=correction).n_reads <= 8


def test_the_largest_values_are_wanted_and_not_the_largest_in_modulus(iterate):
    """RING(40) without a correction: 40, 40, 4.52, 4.52 by value; 40, 40, -10.1, -10.1 by modulus."""
    values = solve(DenseKernels(ring_distances(40)), 4, correction=None).pairs.values
    np.testing.assert_allclose(values, [40.5, 40.5, 4.52, 4.52], rtol=0.02)
    modulus = np.sort(np.abs(sl.eigvalsh(naive.kernels(ring_distances(40))[1])))[::-1]
    assert modulus[2] > 2 * values[2]


def test_reads_are_counted_and_few(iterate):
    kernels = DenseKernels(naive.geodesics(roll_graph(300)))
    kernels.products(np.ones((300, 1)))
    solution = solve(kernels, 3)
    assert solution.n_reads == kernels.n_reads - 1
    assert 2 < solution.n_reads <= 20


def test_up_to_three_hundred_points_take_one_read():
    kernels = DenseKernels(naive.geodesics(roll_graph(150)))
    assert solve(kernels, 3).n_reads == kernels.n_reads == 1


def test_reads_that_run_out_are_warned_about_with_the_residual(iterate):
    kernels = DenseKernels(naive.geodesics(roll_graph(300)))
    with pytest.warns(ConvergenceWarning, match=r"after 2 reads of D the largest residual is \d\.\de-\d\d of") as said:
        solution = solve(kernels, 3, most_reads=2)
    assert len(said) == 1
    assert f"{solution.pairs.residuals.max():.1e}" in str(said[0].message)
    assert kernels.n_reads == 2
    assert not solution.pairs.converged


def test_a_finished_solve_is_silent(iterate):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(DenseKernels(naive.geodesics(roll_graph(150))), 3)


def test_the_constant_of_tiles_is_that_of_their_float32_distances(iterate, cluster, tmp_path):
    D = np.asarray(naive.geodesics(roll_graph(200)), np.float32)
    D = np.minimum(D, D.T)
    expected = naive.constant_by_newton(D)
    for tile in (16, 70, 256):
        kernels = CenteredKernels(cluster, store_of(D, tile, tmp_path / f"{tile}"))
        np.testing.assert_allclose(solve(kernels, 2).constant, expected, rtol=1e-6)
