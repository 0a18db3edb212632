"""The block iteration against prescribed spectra: what it returns is true, and what it reports is true.

`FULL_BASIS` is made small where the iteration itself is meant: up to that size the answer is dense.
"""

from itertools import pairwise

import naive
import numpy as np
import pytest
import scipy.linalg as sl
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemani.kernel import eigensolver
from scalemani.kernel.eigensolver import (
    Combination,
    ReadBlock,
    basis_limits,
    block_rayleigh_ritz,
    first_block,
    start_block,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def plain(_):
    """K = A."""
    return Combination((1.0,))


class Operator:
    """A symmetric matrix with a prescribed spectrum on the complement of 1, whose reads are counted."""

    def __init__(self, spectrum, seed=0):
        spectrum = np.sort(np.asarray(spectrum, float))[::-1]
        n = len(spectrum) + 1
        gaussian = np.random.default_rng(seed).standard_normal((n, n - 1))
        q = np.linalg.qr(np.column_stack([np.ones(n), gaussian]))[0][:, 1:]
        self.values, self.vectors = spectrum, q
        self.matrix = (q * spectrum) @ q.T
        self.matrix = (self.matrix + self.matrix.T) / 2
        self.n, self.reads, self.columns = n, 0, 0

    def products(self, V):
        self.reads += 1
        self.columns += V.shape[1]
        return (self.matrix @ V,)

    def solve(self, p, combine=plain, low=False, **options):
        return block_rayleigh_ritz(self.products, self.n, p, combine, low=low, **options)


def check(operator, pairs, p, rtol=1e-10, tol=1e-6):
    """Values, orthonormality, the residuals as they are, and those that are reported."""
    scale = np.abs(operator.values).max()
    np.testing.assert_allclose(pairs.values, operator.values[:p], rtol=rtol, atol=1e-12 * scale)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(p), atol=1e-10)
    assert np.abs(pairs.vectors.sum(0)).max() < 1e-9
    residuals = np.linalg.norm(operator.matrix @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    relative = residuals / np.maximum(np.abs(pairs.values), 1e-12 * scale)
    assert (relative[pairs.residuals > 0] <= tol * 1.01).all()
    # below 1e-9 both are rounding
    np.testing.assert_allclose(pairs.residuals[pairs.values > 0], relative[pairs.values > 0], rtol=0.05, atol=1e-9)
    np.testing.assert_allclose(pairs.forms[0], pairs.values, rtol=0, atol=1e-10 * scale)


MOST_READS = 30  # 5 to 22 were measured
SPECTRA = {
    "geometric": 0.9 ** np.arange(199),
    "slow decay": 1 / np.arange(1, 250),
    "a cluster of five": np.r_[3.0, 2.0 + 1e-9 * np.arange(5), np.linspace(1, 0, 194)],
    "equal values at the top": np.r_[[5.0] * 4, np.linspace(1, -1, 195)],
    "equal pairs throughout": np.repeat(np.linspace(2, 0.01, 100), 2)[:199],
    "gaps of 1e-6": np.r_[1.0, 1 - 1e-6, 1 - 2e-6, np.linspace(0.5, 0, 196)],
    "indefinite, the low end larger": np.r_[3.0, 2.0, 1.0, np.linspace(0.5, -0.5, 193), -7.0, -8.0, -9.0],
    "one far above a plateau": np.r_[1e6, 1 + 1e-3 * np.linspace(1, 0, 198)],
}


@pytest.mark.parametrize("name", SPECTRA)
def test_prescribed_spectra_are_found(iterate, name):
    operator = Operator(SPECTRA[name])
    pairs = operator.solve(3)
    assert pairs.converged
    check(operator, pairs, 3)
    assert operator.reads <= MOST_READS, "copies of converged directions in the basis would need many more"


@pytest.mark.parametrize("multiplicity", [2, 3, 6, 12])
def test_an_eigenspace_is_found_whole(iterate, multiplicity):
    operator = Operator(np.r_[[2.0] * multiplicity, np.linspace(1, -1, 200)])
    pairs = operator.solve(multiplicity, block=4)
    check(operator, pairs, multiplicity)
    naive.same_subspace(pairs.vectors, operator.vectors[:, :multiplicity], atol=1e-5)
    assert pairs.next_value < 1.5


def test_values_are_the_largest_and_not_the_largest_in_modulus(iterate):
    operator = Operator(np.r_[2.0, 1.0, np.linspace(0.1, -0.1, 150), -50.0, -60.0])
    pairs = operator.solve(2, lambda _: Combination((1.0,), low_scale=60.0), low=True)
    np.testing.assert_allclose(pairs.values, [2.0, 1.0], rtol=1e-9)
    assert pairs.lowest == pytest.approx(-60.0, rel=1e-6)


def test_with_all_values_negative_the_largest_are_nearest_to_zero(iterate):
    operator = Operator(-(1.0 + np.arange(120)))
    pairs = operator.solve(2, lambda _: Combination((1.0,), floor=-np.inf))
    np.testing.assert_allclose(pairs.values, [-1.0, -2.0], rtol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 20, 60, 200, 301, 302, 500])
@pytest.mark.parametrize("basis", [1, 300])
def test_every_size_by_iteration_and_by_the_whole_basis(monkeypatch, n, basis):
    monkeypatch.setattr(eigensolver, "FULL_BASIS", basis)
    operator = Operator(np.linspace(2, -1, n - 1) ** 3)
    p = min(3, n - 1)
    pairs = operator.solve(p, low=True, block=4)
    assert pairs.converged
    check(operator, pairs, p)
    if basis == 300 and n <= 301:
        assert operator.reads == 1


@pytest.mark.parametrize("n", [2, 3, 10, 60, 150])
@pytest.mark.parametrize("basis", [1, 300])
def test_all_pairs_but_the_null_one_may_be_asked_for(monkeypatch, n, basis):
    monkeypatch.setattr(eigensolver, "FULL_BASIS", basis)
    operator = Operator(np.linspace(3, -1, n - 1))
    pairs = operator.solve(n - 1)
    np.testing.assert_allclose(pairs.values, operator.values, atol=1e-9)
    assert pairs.vectors.shape == (n, n - 1)


@pytest.mark.parametrize("p", [0, -1, 10, 11])
def test_other_numbers_of_pairs_are_refused(p):
    with pytest.raises(ValueError, match="1 to 9 are allowed"):
        Operator(np.arange(9.0)).solve(p)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9, 1e-30, 1e30])
def test_the_unit_changes_nothing_but_the_unit(iterate, scale):
    spectrum = np.r_[5.0, 3.0, np.linspace(1, -1, 150)]
    unit, scaled = Operator(spectrum), Operator(spectrum * scale)
    a, b = unit.solve(2, low=True), scaled.solve(2, low=True)
    np.testing.assert_allclose(b.values, a.values * scale, rtol=1e-10)
    np.testing.assert_allclose(np.abs(b.vectors), np.abs(a.vectors), atol=1e-5)
    assert scaled.reads == unit.reads


@pytest.mark.parametrize("rank", [0, 1, 2, 5])
def test_few_ranks_end_the_iteration_by_themselves(iterate, rank):
    """The basis becomes invariant: what is past the rank is zero, not noise, and no reads are wasted."""
    operator = Operator(np.r_[1.0 + np.arange(rank), np.zeros(150 - rank)])
    pairs = operator.solve(4, lambda _: Combination((1.0,), floor=1e-9))
    assert pairs.converged
    np.testing.assert_allclose(pairs.values, operator.values[:4], atol=1e-12)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(4), atol=1e-10)
    assert operator.reads <= 6


@pytest.mark.parametrize("most_columns", [20, 40, 60])
def test_a_restarted_iteration_finds_the_same(iterate, most_columns):
    operator = Operator(np.linspace(1, 0, 250) ** 2)
    pairs = operator.solve(3, most_columns=most_columns, block=4)
    assert pairs.converged
    check(operator, pairs, 3)
    limit = max(most_columns, basis_limits(first_block(operator.n, 3, 4), 3, 4)[0])
    assert operator.columns > limit, "it was never restarted"


def test_a_restart_keeps_the_basis_small(iterate, monkeypatch):
    """The largest product of the basis with itself is seen through `combine`."""
    sizes = []

    def combine(projected):
        sizes.append(len(projected[0]))
        return Combination((1.0,))

    Operator(np.linspace(1, 0, 250) ** 2).solve(3, combine, block=4, most_columns=30)
    assert max(sizes) <= 40
    assert any(later < earlier for earlier, later in pairwise(sizes))


def test_when_reads_run_out_it_says_so_with_its_true_residuals(iterate):
    operator = Operator(np.linspace(1, 0, 400))
    pairs = operator.solve(3, most_reads=3)
    assert operator.reads == 3
    assert not pairs.converged
    residuals = np.linalg.norm(operator.matrix @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    np.testing.assert_allclose(pairs.residuals, residuals / pairs.values, rtol=1e-6)
    assert pairs.residuals.max() > 1e-6


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-8])
def test_the_tolerance_is_reached_and_not_much_more(iterate, tol):
    operator = Operator(SPECTRA["slow decay"])
    pairs = operator.solve(3, tol=tol)
    check(operator, pairs, 3, rtol=max(tol, 1e-10), tol=tol)
    assert operator.reads <= 6 - np.log10(tol)


def test_the_same_seed_gives_the_same_bits_and_another_the_same_answer(iterate):
    operator = Operator(SPECTRA["geometric"])
    first, again, other = (operator.solve(3, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.vectors, again.vectors)
    assert not np.array_equal(first.vectors, other.vectors)
    naive.same_up_to_sign(other.vectors, first.vectors, atol=1e-4)


def test_a_start_whose_images_are_known_saves_its_read_and_changes_no_bit(iterate):
    operator, other = Operator(SPECTRA["geometric"]), Operator(SPECTRA["geometric"])
    basis = start_block(operator.n, first_block(operator.n, 3), 0)
    fresh = operator.solve(3)
    begun = other.solve(3, start=ReadBlock(basis, (other.matrix @ basis,)))
    np.testing.assert_array_equal(begun.vectors, fresh.vectors)
    assert other.reads == operator.reads - 1


@pytest.mark.parametrize("width", [3, 16, 60])
def test_a_start_may_have_any_width(iterate, width):
    operator = Operator(SPECTRA["slow decay"])
    basis = start_block(operator.n, width, 0)
    pairs = operator.solve(3, start=ReadBlock(basis, (operator.matrix @ basis,)))
    assert pairs.converged
    check(operator, pairs, 3)


def test_a_start_that_holds_everything_needs_no_read_at_all():
    operator = Operator(np.linspace(2, -1, 40))
    basis = start_block(operator.n, operator.n - 1, 0)
    pairs = operator.solve(3, start=ReadBlock(basis, (operator.matrix @ basis,)))
    check(operator, pairs, 3)
    assert operator.reads == 0


@pytest.mark.parametrize("n", [2, 3, 40, 301, 400])
def test_start_blocks_are_orthonormal_and_orthogonal_to_constants(n):
    for width in {1, min(16, n - 1), n - 1}:
        block = start_block(n, width, 0)
        np.testing.assert_allclose(block.T @ block, np.eye(width), atol=1e-13)
        assert np.abs(block.sum(0)).max() < 1e-12
        assert np.array_equal(block, start_block(n, width, 1)) == (width == n - 1)


def test_coefficients_may_follow_the_projections(iterate):
    """Two operators and the identity: K = A + aB + bI with a found on the way, as the constant is."""
    A, B = Operator(np.linspace(2, -3, 150), seed=1), Operator(np.linspace(1, 0.1, 150), seed=2)

    def products(V):
        return A.matrix @ V, B.matrix @ V

    def combine(projected):
        a = float(sl.eigvalsh(projected[0])[-1])
        return Combination((1.0, a), 0.5, value=a, low_scale=1.0)

    pairs = block_rayleigh_ritz(products, 151, 2, combine, low=True, tol=1e-8)
    assert pairs.combination.value == pytest.approx(2.0, rel=1e-6)
    K = A.matrix + pairs.combination.value * B.matrix + 0.5 * naive.centring(151)
    values, vectors = naive.top_pairs(K, 2)
    np.testing.assert_allclose(pairs.values, values, rtol=1e-9)
    naive.same_up_to_sign(pairs.vectors, vectors, atol=1e-5)
    for form, M in zip(pairs.forms, (A.matrix, B.matrix), strict=True):
        np.testing.assert_allclose(form, np.einsum("ij,ik,kj->j", pairs.vectors, M, pairs.vectors), rtol=1e-8)


def test_pairs_below_the_floor_need_no_residual(iterate):
    """What carries nothing is not iterated for: a flat plateau under the floor costs few reads."""
    operator = Operator(np.r_[9.0, 8.0, 1 + 1e-7 * np.linspace(1, 0, 300)])

    def combine(_):
        return Combination((1.0,), floor=1.5)

    pairs = operator.solve(6, combine)
    np.testing.assert_allclose(pairs.values[:2], [9.0, 8.0], rtol=1e-10)
    assert (pairs.residuals[2:] == 0).all()
    assert (pairs.values[2:] < 1.5).all()
    assert pairs.converged


# ---- modulus, gaps, guards -----------------------------------------------------------------------

TWO_SIDED = {
    "both ends": np.r_[5.0, -4.0, 3.0, -2.0, np.linspace(0.5, -0.5, 195)],
    "all negative": -(np.arange(1.0, 200.0) ** 2),
    "signs in pairs": np.r_[np.repeat([4.0, 3.0, 2.0], 2) * [1, -1, 1, -1, 1, -1], np.linspace(0.5, -0.5, 193)],
    "rank 1, negative": np.r_[-7.0, np.zeros(198)],
    "zero": np.zeros(199),
}


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("name", TWO_SIDED)
def test_by_modulus_both_ends_are_found_with_their_signs(iterate, name, scale):
    operator = Operator(TWO_SIDED[name] * scale)
    size = max(np.abs(operator.values).max(), np.finfo(float).tiny)
    pairs = operator.solve(4, lambda _: Combination((1.0,), floor=1e-9 * size), order="modulus")
    assert pairs.converged
    order = np.argsort(-np.abs(operator.values), kind="stable")[:4]
    np.testing.assert_allclose(np.abs(pairs.values), np.abs(operator.values[order]), rtol=1e-9, atol=1e-12 * size)
    np.testing.assert_allclose(np.sort(pairs.values), np.sort(operator.values[order]), rtol=1e-9, atol=1e-12 * size)
    found = operator.matrix @ pairs.vectors - pairs.vectors * pairs.values
    assert np.linalg.norm(found, axis=0).max() <= 1e-6 * size
    assert abs(pairs.next_value) <= np.abs(pairs.values).min() * (1 + 1e-6) + 1e-12 * size


@pytest.mark.parametrize("gap", [0.1, 0.5])
def test_an_axis_with_a_gap_is_within_a_hundred_thousandth(iterate, gap):
    """tol is of the residual; the angle is that over the gap."""
    operator = Operator(np.r_[(1 - gap) ** np.arange(4), np.linspace(0.5 * (1 - gap) ** 3, -0.3, 395)])
    pairs = operator.solve(4)
    naive.same_up_to_sign(pairs.vectors, operator.vectors[:, :4], atol=1e-5)


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_a_cut_through_a_cluster_leaves_axes_inside_its_space(iterate, p):
    """Of four values 1e-6 apart any axes of their space do; the value behind the last says that there are more."""
    cluster = 2 * (1 - 1e-6 * np.arange(4))
    operator = Operator(np.r_[cluster, np.linspace(1, -1, 300)])
    pairs = operator.solve(p)
    assert np.linalg.norm(operator.vectors[:, :4].T @ pairs.vectors, axis=0).min() == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(pairs.values, 2.0, rtol=5e-6)
    if p < 4:
        assert pairs.next_value == pytest.approx(2.0, rel=1e-5)
    else:
        assert pairs.next_value < 1.5


@pytest.mark.parametrize("p", [3, 6])
def test_no_member_of_a_cluster_is_skipped(iterate, p):
    """A block of four, five values equal but for rounding, and a sixth that must not stand in for one of them."""
    operator = Operator(np.r_[[2.0] * 5, 1.9, np.linspace(1, -1, 300)])
    pairs = operator.solve(p, block=4)
    np.testing.assert_allclose(pairs.values, operator.values[:p], rtol=1e-9)


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("name", ["geometric", "gaps of 1e-6", "indefinite, the low end larger"])
@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scales_of_the_spectra(iterate, name, low, scale):
    operator = Operator(SPECTRA[name] * scale)
    pairs = operator.solve(3, lambda _: Combination((1.0,), low_scale=10 * scale), low=low)
    assert pairs.converged
    np.testing.assert_allclose(pairs.values, operator.values[:3], rtol=1e-9)
    # half of tol x low_scale is allowed; where values crowd at the low end, three times that was seen
    assert not low or pairs.lowest == pytest.approx(operator.values[-1], abs=3e-5 * scale)


@pytest.mark.parametrize("name", ["decay", "cluster", "rank 1"])
def test_two_thousand(name):
    """By reflections: V = H diag(λ) H with a Householder H that maps the last unit vector to 1, nothing is formed."""
    n, p = 2_000, 4
    values = {
        "decay": 0.97 ** np.arange(n - 1),
        "cluster": np.r_[[3.0] * 3, 2.0, np.linspace(1, -2, n - 5)],
        "rank 1": np.r_[1.0, np.zeros(n - 2)],
    }[name]
    ones, last = np.full(n, n**-0.5), np.eye(1, n, n - 1).ravel()
    mirror = (ones - last) / np.linalg.norm(ones - last)
    mixed = np.random.default_rng(0).standard_normal(n - 1)  # a second reflection, of all but the last: none is sparse
    mixed = np.r_[mixed / np.linalg.norm(mixed), 0.0]
    spectrum = np.r_[values, 0.0][:, None]
    reads = []

    def reflected(V, *axes):
        for axis in axes:
            V = V - 2 * np.outer(axis, axis @ V)
        return V

    def products(V):
        reads.append(V.shape[1])
        return (reflected(spectrum * reflected(V, mirror, mixed), mixed, mirror),)

    pairs = block_rayleigh_ritz(products, n, p, lambda _: Combination((1.0,), floor=1e-9), low=False)
    assert pairs.converged
    np.testing.assert_allclose(pairs.values, values[:p], rtol=1e-9, atol=1e-12)
    exact = reflected(np.eye(n, p), mixed, mirror)
    count = {"decay": p, "cluster": 3, "rank 1": 1}[name]
    naive.same_subspace(pairs.vectors[:, :count], exact[:, :count], atol=1e-4)
    assert len(reads) <= MOST_READS


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_spectrum_within_its_residual(data):
    """Each returned value is within its true residual of an eigenvalue (Weyl), and none above it is missed."""
    n = data.draw(st.integers(3, 80))
    value = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 1e-8]), st.floats(-10, 10))
    spectrum = np.array(data.draw(st.lists(value, min_size=n - 1, max_size=n - 1)))
    p = data.draw(st.integers(1, min(5, n - 1)))
    before, eigensolver.FULL_BASIS = eigensolver.FULL_BASIS, 1
    try:
        operator = Operator(spectrum)
        pairs = operator.solve(p, low=data.draw(st.booleans()), block=data.draw(st.integers(2, 12)))
    finally:
        eigensolver.FULL_BASIS = before
    residuals = np.linalg.norm(operator.matrix @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    assert (np.abs(pairs.values[:, None] - operator.values).min(1) <= residuals + 1e-12).all()
    np.testing.assert_allclose(pairs.values, operator.values[:p], rtol=1e-6, atol=1e-6 * np.abs(spectrum).max())
