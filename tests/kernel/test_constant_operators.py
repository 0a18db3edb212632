"""The constant and the axes at n = 100,000 where both have closed forms, through products alone: no D anywhere.

D of a ring or a torus grid is translation-invariant: its product is a convolution, and its kernels have the Fourier
basis for eigenvectors.
"""

import tracemalloc

import naive
import numpy as np
import pytest
import scipy.fft
from data import circle_steps, ring_distances, torus_distances, torus_steps

from scalemani.kernel.constant import solve
from scalemani.kernel.eigensolver import ReadBlock, basis_limits, first_block
from scalemani.kernel.operators import DenseKernels

pytestmark = pytest.mark.usefixtures("one_thread")

N = 100_000
MOST_READS = 20


class InvariantKernels:
    """K1 and K2 of a translation-invariant D, from the distances of one vertex as an array over the group.

    A column at a time: what a solve holds in memory beside the images is the solver's own.
    """

    precision = "float64"

    def __init__(self, distances):
        self.group, self.shape = distances.shape, (distances.size, distances.size)
        self.log, self.n_reads, self.columns = None, 0, 0
        self._transforms = [scipy.fft.rfftn(power) for power in (distances, distances**2)]

    def products(self, V, precision=None):
        self.n_reads += 1
        self.columns += V.shape[1]
        images = tuple(np.empty_like(V, order="F") for _ in self._transforms)
        for j, column in enumerate(V.T):
            wave = scipy.fft.rfftn((column - column.mean()).reshape(self.group))
            for image, transform in zip(images, self._transforms, strict=True):
                product = scipy.fft.irfftn(transform * wave, s=self.group).ravel()
                image[:, j] = -0.5 * (product - product.mean())
        return images

    def start(self, width, make):
        block = make()
        return ReadBlock(block, self.products(block))


def ring_steps(n):
    """Distances from one vertex of a ring, along chords."""
    return circle_steps(n) * 2 * np.sin(np.pi / n)


def waves(group, *frequencies):
    """Orthonormal cosine and sine of each frequency of the group, shape (n, 2 x frequencies)."""
    places = np.meshgrid(*(2 * np.pi * np.arange(size) / size for size in group), indexing="ij")
    phases = [sum(f * place for f, place in zip(frequency, places, strict=True)).ravel() for frequency in frequencies]
    columns = np.column_stack([turn(phase) for phase in phases for turn in (np.cos, np.sin)])
    return columns / np.linalg.norm(columns, axis=0)


@pytest.fixture(scope="module")
def ring():
    """Ten axes of a ring: kernels, solution, and the most bytes that the solver held beside what was there before."""
    kernels = InvariantKernels(ring_steps(N))
    return (kernels, *measured(kernels, 10))


def measured(kernels, p, **options):
    """A solution, and the most bytes that were allocated at once for it."""
    tracemalloc.start()
    try:
        solution = solve(kernels, p, **options)
        return solution, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def allowed(n, p, most_columns=None):
    """(3 x basis columns + 8 x block columns) x n x 8 bytes."""
    width = first_block(n, p)
    return (3 * (most_columns or basis_limits(width, p)[1]) + 8 * width) * n * 8


@pytest.mark.parametrize(
    ("steps", "D"), [(ring_steps(40), ring_distances(40)), (torus_steps(6, 9), torus_distances(6, 9))]
)
def test_the_convolution_is_the_product_with_the_matrix(steps, D):
    V = np.random.default_rng(0).standard_normal((len(D), 3))
    for ours, theirs in zip(InvariantKernels(steps).products(V), DenseKernels(D).products(V), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12 * np.abs(theirs).max())


@pytest.mark.slow
def test_the_constant_of_a_ring_of_a_hundred_thousand(ring):
    """sqrt(n/2) chords for even n (frequency 2, where K1 is 0); 4e-10 from it was seen, after 6 products."""
    kernels, solution, _ = ring
    expected = naive.constant_by_fourier(ring_steps(N))
    assert expected == pytest.approx(np.sqrt(N / 2), rel=1e-6)
    np.testing.assert_allclose(solution.constant, expected, rtol=1e-6)
    assert solution.pairs.converged
    assert solution.n_reads == kernels.n_reads < MOST_READS


def test_its_axes_are_the_odd_frequencies_in_planes(ring):
    """Double eigenvalues: of each only the plane is determined, and it is right; values are those of K(c)."""
    pairs, c = ring[1].pairs, ring[1].constant
    for plane in range(5):
        frequency = 2 * plane + 1
        columns = slice(2 * plane, 2 * plane + 2)
        naive.same_subspace(pairs.vectors[:, columns], waves((N,), (frequency,)), atol=1e-5)
        a, b = (-np.fft.fft(ring_steps(N) ** power)[frequency].real / 2 for power in (1, 2))
        np.testing.assert_allclose(pairs.values[columns], b + 2 * c * a + c * c / 2, rtol=1e-9)


def test_the_solver_holds_what_the_budget_says_and_less_than_a_gibibyte(ring):
    """By arithmetic, and measured; the room for the basis counts in full, though few of its pages are touched."""
    width = first_block(N, 10)
    kernels, _, peak = ring
    assert allowed(N, 10) < 2**30
    assert 3 * basis_limits(width, 10)[1] * N * 8 <= peak <= allowed(N, 10)
    assert kernels.columns <= kernels.n_reads * width


def test_so_it_does_when_it_restarts():
    n, p = 20_000, 10
    least = basis_limits(first_block(n, p), p)[0]
    kernels = InvariantKernels(torus_steps(100, 200))
    solution, peak = measured(kernels, p, most_columns=least)
    assert kernels.columns > least, "it was never restarted"
    assert peak <= allowed(n, p, least)
    np.testing.assert_allclose(solution.constant, naive.constant_by_fourier(torus_steps(100, 200)), rtol=1e-6)


@pytest.mark.slow
def test_the_constant_and_the_planes_of_a_torus_of_a_hundred_thousand():
    """2e-8 from the closed form was seen, after 7 products; the longer side's waves come first."""
    steps = torus_steps(250, 400)
    kernels = InvariantKernels(steps)
    solution = solve(kernels, 4)
    np.testing.assert_allclose(solution.constant, naive.constant_by_fourier(steps), rtol=1e-6)
    assert solution.pairs.converged
    assert kernels.n_reads < MOST_READS
    naive.same_subspace(solution.pairs.vectors[:, :2], waves((250, 400), (0, 1)), atol=1e-5)
    naive.same_subspace(solution.pairs.vectors[:, 2:], waves((250, 400), (1, 0)), atol=1e-5)


def test_four_equal_values_of_a_square_torus_are_one_space():
    """Also where the last column cuts through them: the fourth is then a guard. The three are inside."""
    square = waves((90, 90), (0, 1), (1, 0))
    four, three = (solve(InvariantKernels(torus_steps(90, 90)), p).pairs for p in (4, 3))
    naive.same_subspace(four.vectors, square, atol=1e-5)
    inside = np.linalg.norm(square.T @ three.vectors, axis=0)
    np.testing.assert_allclose(inside, 1, rtol=0, atol=1e-9)
    assert three.next_value == pytest.approx(three.values[-1], rel=1e-6)


@pytest.mark.parametrize("steps", [ring_steps(9_999), torus_steps(80, 125)], ids=["ring", "torus"])
@pytest.mark.parametrize("correction", ["lingoes", "flip", None])
def test_the_other_corrections(steps, correction):
    """Lingoes' constant is the lowest frequency's; the values are the frequencies', for "flip" by modulus."""
    kernels = InvariantKernels(steps)
    solution = solve(kernels, 4, correction=correction)
    own = -np.fft.fftn(steps**2).real.ravel()[1:] / 2
    shift = -own.min() if correction == "lingoes" else 0.0
    assert solution.nugget == pytest.approx(shift, rel=1e-6)
    order = np.argsort(-np.abs(own) if correction == "flip" else -own, kind="stable")[:4]
    np.testing.assert_allclose(solution.pairs.values, own[order] + shift, rtol=1e-6)
    assert solution.n_reads < MOST_READS
