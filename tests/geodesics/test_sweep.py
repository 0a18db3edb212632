"""One read of D: equal to the dense product, with the same bits however it is divided among workers."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from data import random_distances, store_of

from scalemani.cluster.dask_cluster import DaskCluster
from scalemani.errors import DamagedStoreError
from scalemani.geodesics.reads import Reader, sweep
from scalemani.storage.tiles import Tiles

N = 61


def product(tile, there, here):
    """D V: the simplest share."""
    return tile @ there, None if here is None else tile.T @ here


def ones_product(tile, there, here):
    """A share that gives another width than the operand's."""
    return tile.sum(1, keepdims=True), None if here is None else tile.sum(0)[:, None]


@pytest.fixture(scope="module")
def distances():
    D = random_distances(N).astype(np.float32)
    return np.minimum(D, D.T)


@pytest.fixture(scope="module")
def operand():
    return np.random.default_rng(1).standard_normal((N, 3))


@pytest.mark.parametrize("tile", [5, 16, 61, 200])
def test_a_sweep_equals_the_dense_product_for_every_tile_size(cluster, tmp_path, distances, operand, tile):
    store = store_of(distances, tile, tmp_path / "run")
    expected = distances.astype(float) @ operand
    np.testing.assert_allclose(sweep(cluster, store, Reader(product, operand, 3)), expected, rtol=1e-12, atol=1e-12)
    sums = sweep(cluster, store, Reader(ones_product, operand, 1))
    np.testing.assert_allclose(sums[:, 0], distances.sum(1), rtol=1e-6)


def test_any_number_of_threads_gives_the_same_bits(tmp_path, distances, operand):
    store = store_of(distances, 8, tmp_path / "run")
    found = []
    for threads in (1, 2, 5):
        with DaskCluster(threads=threads) as cluster:
            found += [sweep(cluster, store, Reader(product, operand.astype(np.float32), 3)) for _ in range(3)]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_d_is_read_exactly_once(cluster, tmp_path, distances, operand, monkeypatch):
    store = store_of(distances, 8, tmp_path / "run")
    seen = Counter()
    read = Tiles.read

    def counted(self, row, column, buffer=None):
        seen[row, column] += 1
        return read(self, row, column, buffer)

    monkeypatch.setattr(Tiles, "read", counted)
    sweep(cluster, store, Reader(product, operand, 3))
    assert seen == Counter(store.blocks.tiles())


def lose(path):
    path.unlink()


def flip(path):
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("tile", [(0, 0), (0, 7), (3, 5), (7, 7)])
def test_a_lost_tile_is_an_error_in_every_sweep(cluster, tmp_path, distances, operand, tile):
    """For any operand: a missing chunk would read as NaN, which a product may hide."""
    store = store_of(distances, 8, tmp_path / "run")
    lose(Path(store.path, "distances", "c", *map(str, tile)))
    for values in (operand, np.zeros_like(operand)):
        with pytest.raises(DamagedStoreError, match=rf"{tile[0]}, {tile[1]}.*its file is missing"):
            sweep(cluster, store, Reader(product, values, 3))


@pytest.mark.parametrize("damage", [lose, flip, truncate])
def test_every_sweep_notices_any_damage(cluster, tmp_path, distances, operand, damage):
    store = store_of(distances, 8, tmp_path / "run")
    damage(Path(store.path, "distances", "c", "2", "4"))
    with pytest.raises(DamagedStoreError, match="2, 4"):
        sweep(cluster, store, Reader(product, operand, 3))


def test_a_tile_row_that_was_never_written_is_an_error(cluster, tmp_path, distances, operand):
    """Chunks alone prove nothing: the ledger has no line."""
    store = store_of(distances, 8, tmp_path / "run")
    Path(store.path, "ledger", "3.json").unlink()
    with pytest.raises(DamagedStoreError, match="tile row 3"):
        sweep(cluster, store, Reader(product, operand, 3))


def test_one_vertex_is_swept(cluster, tmp_path):
    store = store_of(np.zeros((1, 1)), 16, tmp_path / "run")
    assert sweep(cluster, store, Reader(product, np.ones((1, 2)), 2)).tolist() == [[0, 0]]
