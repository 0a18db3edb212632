"""The lowest singular vectors by one sparse factor, against dense ones and against other orders of elimination."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from data import flat, roll, roll_graph
from scipy.spatial import cKDTree

from scalemani.embedding.kernel_functions import local_grams
from scalemani.embedding.reconstruction import reconstruction, weights_of
from scalemani.errors import DoesNotFitError, SolverError
from scalemani.kernel import bottom
from scalemani.kernel.bottom import bottom_singular_vectors, dissection, shifted_factor


def residuals(X, k=10, reg=1e-3):
    """A of the k nearest others."""
    idx = cKDTree(X).query(X, k + 1)[1][:, 1:].astype(np.int64)
    weights = weights_of(local_grams(X, X, idx), reg)
    return reconstruction(np.arange(0, idx.size + 1, k), idx.ravel(), weights)


def sine(one, other):
    """Of the largest angle between two planes of orthonormal vectors."""
    return np.linalg.norm(other - one @ (one.T @ other), 2)


@pytest.fixture(params=["METIS", "SuperLU"])
def order(request, monkeypatch):
    """Either order of elimination."""
    if request.param == "METIS":
        pytest.importorskip("pymetis")
    else:
        monkeypatch.setitem(sys.modules, "pymetis", None)
    return request.param


@pytest.mark.parametrize("reg", [1e-3, 1e-6])
@pytest.mark.parametrize("X", [roll(400, 3), flat(300, 3)], ids=["roll", "cube"])
def test_the_pairs_are_those_of_a_dense_svd(X, reg, order):
    A = residuals(X, reg=reg)
    found = bottom_singular_vectors(A, 4)
    sigma, right = np.linalg.svd(A.toarray())[1:]
    np.testing.assert_allclose(found.sigma, sigma[::-1][1:6], rtol=1e-14 / sigma[-2] + 1e-12)
    assert sine(found.vectors, right[::-1][1:5].T) < 1e-12 / (sigma[-6] - sigma[-5])
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(4), atol=1e-13)
    np.testing.assert_allclose(found.vectors.sum(axis=0), 0, atol=1e-12)
    assert (found.vectors.max(axis=0) >= -found.vectors.min(axis=0)).all()
    assert found.turn <= 1e-9 and found.iterations < 12 and found.left_null < 1e-12 and found.nonzeros > A.nnz


def test_bits_hang_on_the_seed_and_planes_do_not(order):
    A = residuals(roll(500, 1))
    one, again, other = (bottom_singular_vectors(A, 2, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.vectors, again.vectors)
    np.testing.assert_array_equal(one.sigma, again.sigma)
    assert 0 < sine(one.vectors, other.vectors) < 1e-7


def test_a_space_that_goes_on_turning_is_said_to():
    """Of two equal singular values one vector is asked for; and the steps end too early."""
    n = 40
    ring = sp.csr_array(np.eye(n) - np.roll(np.eye(n), 1, axis=1) / 2 - np.roll(np.eye(n), -1, axis=1) / 2)
    found = bottom_singular_vectors(ring, 2, most=1)
    assert found.turn > 1e-9 and found.iterations == 1
    assert bottom_singular_vectors(ring, 2).sigma[0] == pytest.approx(1 - np.cos(2 * np.pi / n), rel=1e-12)


def test_as_many_vectors_as_there_are():
    A = residuals(flat(12, 2), k=5)
    found = bottom_singular_vectors(A, 11)
    np.testing.assert_allclose(found.sigma, np.linalg.svd(A.toarray(), compute_uv=False)[-2::-1], rtol=1e-9)


def test_each_further_closed_class_gives_a_null_vector_or_an_error():
    one = residuals(flat(40, 2))
    sigma = bottom_singular_vectors(sp.block_diag([one] * 3, format="csr"), 2).sigma
    assert sigma[1] < 1e-14 < 1e-4 < sigma[2]
    ring = sp.csr_array(np.eye(4) - np.roll(np.eye(4), 1, axis=1))
    with pytest.raises(SolverError, match=r"the sparse factor of .* points can't be made: Factor is exactly singular"):
        bottom_singular_vectors(sp.block_diag([ring] * 3, format="csr"), 2)


def test_a_laplacian_is_solved_for_in_the_same_order(order):
    graph = roll_graph(300)
    L = sp.csr_array(sp.csgraph.laplacian(graph))
    factor = shifted_factor(L, 1e-3)
    right = np.random.default_rng(0).normal(size=(300, 3))
    found = factor.solve(right)
    np.testing.assert_allclose(L @ found + 1e-3 * found, right, atol=1e-10)
    np.testing.assert_allclose(factor.solve(right[:, 0]), found[:, 0], rtol=1e-10)
    assert (factor.order is None) == (order == "SuperLU") and factor.nonzeros > L.nnz


def test_dissection_is_an_order_whose_factor_is_smaller():
    pytest.importorskip("pymetis")
    A = residuals(flat(3000, 4))
    order = dissection(A)
    np.testing.assert_array_equal(np.sort(order), np.arange(3000))
    np.testing.assert_array_equal(dissection(A), order)
    found = [bottom._factored(A + sp.eye_array(3000), some, 0.01).nonzeros for some in (order, None)]
    assert found[0] < 0.8 * found[1]


def test_what_does_not_fit_is_said(monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(bottom, "splu", full)
    with pytest.raises(DoesNotFitError, match=r"does not fit into memory.*: embed landmarks instead"):
        bottom_singular_vectors(residuals(flat(30, 2), 5), 2)


@pytest.mark.slow
def test_a_small_reg_leaves_the_plane_as_it_is(monkeypatch):
    """Where solving A'A gives a plane that is 4e-2 off: σ² is 4e-17."""
    pytest.importorskip("pymetis")
    A = residuals(roll(20_000), reg=1e-6)
    one = bottom_singular_vectors(A, 2)
    monkeypatch.setitem(sys.modules, "pymetis", None)
    other = bottom_singular_vectors(A, 2, seed=5)
    assert one.sigma[0] < 1e-7
    np.testing.assert_allclose(one.sigma, other.sigma, rtol=1e-5)
    assert sine(one.vectors, other.vectors) < 1e-5
