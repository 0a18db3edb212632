"""The centred operators over tiles: what dense centring gives, from counted reads."""

import shutil

import naive
import numpy as np
import pytest
from data import flat_distances, random_distances, ring_distances, store_of

from scalemani.errors import DamagedStoreError
from scalemani.kernel.operators import CenteredKernels, DenseKernels, centered
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import Tiles

N = 53
EPS = {"float32": 1e-5, "float64": 1e-12}  # sums of 53 products; float32's own rounding is 6e-8 a product


@pytest.fixture(scope="module")
def distances():
    D = random_distances(N).astype(np.float32)
    return np.minimum(D, D.T)


@pytest.fixture(scope="module")
def store(distances, tmp_path_factory):
    return store_of(distances, 16, tmp_path_factory.mktemp("kernel") / "run")


def vectors(m, seed=0, n=N):
    return np.random.default_rng(seed).standard_normal((n, m))


def both(cluster, store, distances):
    yield from (CenteredKernels(cluster, store, precision) for precision in EPS)
    yield DenseKernels(distances)


@pytest.mark.parametrize("precision", EPS)
@pytest.mark.parametrize("tile", [5, 16, 64])
def test_products_equal_the_dense_kernels(cluster, distances, tmp_path, precision, tile):
    """On the first read, which takes sums as well, and on the next."""
    kernels = CenteredKernels(cluster, store_of(distances, tile, tmp_path / "run"), precision)
    V = vectors(4)
    for K, KV, KV2 in zip(naive.kernels(distances), kernels.products(V), kernels.products(V), strict=True):
        atol = EPS[precision] * np.abs(K).sum(1).max()
        np.testing.assert_allclose(KV, K @ V, rtol=0, atol=atol)
        np.testing.assert_allclose(KV2, K @ V, rtol=0, atol=atol)


def test_dense_kernels_equal_the_reference(distances):
    V = vectors(4)
    for K, KV in zip(naive.kernels(distances), DenseKernels(distances).products(V), strict=True):
        np.testing.assert_allclose(KV, K @ V, rtol=0, atol=1e-12 * np.abs(K).sum(1).max())


def test_the_operators_are_symmetric(cluster, store, distances):
    """x'Ky = y'Kx for random x, y (not orthogonal to 1)."""
    x, y = vectors(1, 1), vectors(1, 2)
    for kernels in both(cluster, store, distances):
        eps = EPS[getattr(kernels, "precision", "float64")]
        for Kx, Ky in zip(kernels.products(x), kernels.products(y), strict=True):
            scale = np.linalg.norm(Kx) * np.linalg.norm(y)
            assert abs((x.T @ Ky - y.T @ Kx).item()) <= eps * scale


def test_constants_are_in_the_null_space(cluster, store, distances):
    """K1 = 0 exactly enough to vanish beside any other product, and every product is orthogonal to 1."""
    for kernels in both(cluster, store, distances):
        eps = EPS[getattr(kernels, "precision", "float64")]
        for K, of_ones, of_some in zip(
            naive.kernels(distances), kernels.products(np.ones((N, 1))), kernels.products(vectors(2)), strict=True
        ):
            scale = np.abs(K).sum(1).max()
            assert np.abs(of_ones).max() <= eps * scale
            assert np.abs(of_some.sum(0)).max() <= 1e-12 * scale * N


def test_float64_products_are_far_more_precise_than_float32(cluster, distances, tmp_path):
    """Both are asked of the same float32 tiles: what differs is the products'."""
    store = store_of(distances, 16, tmp_path / "run")
    V, K2 = vectors(3), naive.kernels(distances)[1]
    error = {p: np.abs(CenteredKernels(cluster, store, p).products(V)[1] - K2 @ V).max() for p in EPS}
    assert error["float64"] < 1e-3 * error["float32"]


def test_precision_is_float64_where_it_is_cheap_and_nothing_else_is_allowed(cluster, store, monkeypatch):
    assert CenteredKernels(cluster, store).precision == "float64"
    monkeypatch.setattr("scalemani.kernel.operators.FLOAT64_BELOW", N - 1)
    assert CenteredKernels(cluster, store).precision == "float32"
    with pytest.raises(ValueError, match="'float32' or 'float64' is allowed"):
        CenteredKernels(cluster, store, "float16")


@pytest.mark.parametrize("precision", EPS)
def test_sums_are_those_of_the_rows_in_float64_whatever_the_products_are(cluster, store, distances, precision):
    kernels = CenteredKernels(cluster, store, precision)
    kernels.products(vectors(2))
    wide = distances.astype(float)
    np.testing.assert_allclose(kernels.sums.row_sums, wide.sum(1), rtol=1e-13)
    np.testing.assert_allclose(kernels.sums.row_sums_squared, (wide**2).sum(1), rtol=1e-13)
    powers = [(wide**power).sum() for power in (3, 4)]
    np.testing.assert_allclose([kernels.sums.cubes, kernels.sums.fourths], powers, rtol=1e-13)
    assert kernels.n_reads == 1


@pytest.mark.parametrize("c", [0.0, 0.3, 7.0])
def test_trace_norm_and_mean_squares_are_those_of_the_shifted_distances(distances, c):
    sums = DenseKernels(distances).sums
    K = naive.kernel(distances, c)
    assert sums.trace(c, c**2 / 2) == pytest.approx(np.trace(K), rel=1e-12)
    assert sums.squared_norm(c, c**2 / 2) == pytest.approx((K**2).sum(), rel=1e-12)
    np.testing.assert_allclose(sums.mean_squares(c, c**2 / 2), (naive.shifted(distances, c) ** 2).mean(0), rtol=1e-12)


@pytest.mark.parametrize("s", [0.3, 50.0])
def test_they_are_those_of_lingoes_squared_distances_too(distances, s):
    """d² + 2s off the diagonal: the same nugget with no constant."""
    squares = distances.astype(float) ** 2 + 2 * s * (1 - np.eye(N))
    K, sums = naive.doubly_centred(squares), DenseKernels(distances).sums
    assert sums.trace(0.0, s) == pytest.approx(np.trace(K), rel=1e-12)
    assert sums.squared_norm(0.0, s) == pytest.approx((K**2).sum(), rel=1e-12)
    np.testing.assert_allclose(sums.mean_squares(0.0, s), squares.mean(0), rtol=1e-12)


def test_every_product_is_one_read_and_is_counted(cluster, store, monkeypatch):
    """Counted by the object, said to the caller, and true: each tile is read once a product."""
    read, tiles = Tiles.read, []
    monkeypatch.setattr(Tiles, "read", lambda self, *tile: (tiles.append(tile[:2]), read(self, *tile))[1])
    heard = []
    kernels = CenteredKernels(cluster, store, on_read=heard.append)
    for _ in range(3):
        kernels.products(vectors(5))
    kernels.sums.trace(1.0)
    assert kernels.n_reads == 3
    assert heard == [1, 2, 3]
    assert sorted(tiles) == sorted(store.blocks.tiles() * 3)


def test_sums_asked_for_first_are_one_read(cluster, store, distances):
    kernels = CenteredKernels(cluster, store)
    np.testing.assert_allclose(kernels.sums.row_sums, distances.astype(float).sum(1), rtol=1e-13)
    assert kernels.sums.n == N
    assert kernels.n_reads == 1


def test_every_read_verifies_checksums(cluster, store, tmp_path):
    """Damage that comes between two reads of one solve is noticed by the second."""
    damaged = RunStore(shutil.copytree(store.path, tmp_path / "run"))
    kernels = CenteredKernels(cluster, damaged)
    kernels.products(vectors(1))
    file = damaged.tiles.file(0, 1)
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedStoreError, match=r"tile \(0, 1\).*checksum"):
        kernels.products(vectors(1))


def test_the_kernel_of_a_ring_has_its_closed_form_spectrum(cluster, tmp_path):
    """A ring's kernels are circulant: the eigenvalues are the Fourier transform of a row, times -1/2."""
    D = ring_distances(24)
    kernels = CenteredKernels(cluster, store_of(D, 7, tmp_path / "run"), "float64")
    K1, K2 = kernels.products(np.eye(24))
    for K, row in ((K1, D[0]), (K2, D[0] ** 2)):
        expected = np.sort(np.append(-np.fft.fft(row).real[1:] / 2, 0))
        np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(K)), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_the_kernel_of_euclidean_distances_is_the_gram_matrix():
    D = flat_distances(30)
    values = np.linalg.eigvalsh(DenseKernels(D).products(np.eye(30))[1])
    assert values[0] >= -1e-12 * values[-1]
    assert (values > 1e-10 * values[-1]).sum() == 3


def test_centring_leaves_its_argument_alone():
    V = vectors(2)
    before = V.copy()
    assert np.abs(centered(V).mean(0)).max() < 1e-15
    np.testing.assert_array_equal(V, before)
