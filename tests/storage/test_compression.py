"""Compressed tiles: fewer bytes on disk, the same bits in memory, and damage is still an error."""

import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from data import random_distances, store_of
from stored_models import X, fitted, same

from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.storage.files import checksum
from scalemani.storage.run import RunStore
from scalemani.storage.tiles import COMPRESSIONS
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

N, TILE = 150, 64
pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


def compressed(D, path, compression):
    """As `store_of`, with a compressor."""
    store = RunStore.create(path)
    store.create_distances(len(D), TILE, compression)
    for row, here in enumerate(store.blocks):
        store.tiles.write(row, np.asarray(D[here, here.start :], np.float32))
    return store


def disk_of(path):
    return sum(file.stat().st_size for file in Path(path, "distances", "c").rglob("*") if file.is_file())


@pytest.fixture(scope="module")
def distances():
    D = random_distances(N).astype(np.float32)
    return np.minimum(D, D.T)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_tiles_come_back_with_their_bits_from_fewer_bytes(distances, tmp_path, name):
    """The ledger's checksums are of the files."""
    plain, small = store_of(distances, TILE, tmp_path / "plain"), compressed(distances, tmp_path / name, name)
    for row, column in plain.blocks.tiles():
        tile = small.tiles.read(row, column)
        np.testing.assert_array_equal(tile, plain.tiles.read(row, column))
        for store in (plain, small):
            line = json.loads(Path(store.path, "ledger", f"{row}.json").read_bytes())
            assert line["crc32c"][column - row] == checksum(store.tiles.file(row, column).read_bytes())
    assert disk_of(small.path) < 0.9 * disk_of(plain.path)


def test_any_zarr_reader_sees_which_codec_it_was(distances, tmp_path):
    compressed(distances, tmp_path / "run", "zstd")
    array = zarr.open_array(tmp_path / "run", path="distances", mode="r")
    (codec,) = array.compressors
    configuration = codec.to_dict()["configuration"]
    assert [configuration[name] for name in ("cname", "shuffle", "typesize")] == ["zstd", "bitshuffle", 4]
    np.testing.assert_array_equal(array[:TILE], distances[:TILE])


@pytest.mark.parametrize("name", [None, *COMPRESSIONS])
def test_tiles_of_zeros_of_inf_and_of_the_fill_are_still_written(tmp_path, name):
    """A file that isn't there would read as NaN."""
    for value in (0.0, np.inf, np.nan):
        store = RunStore.create(tmp_path / f"{value}")
        store.create_distances(TILE, TILE, name)
        store.tiles.write(0, np.full((TILE, TILE), value, np.float32))
        assert disk_of(store.path) > 0
        np.testing.assert_array_equal(store.tiles.read(0, 0), np.full((TILE, TILE), value, np.float32))


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("place", [0, 1, 2, 4, 7, 8, 12, 16, 20, 200, -1])
def test_a_flipped_byte_anywhere_is_an_error(distances, tmp_path, name, place):
    """Blosc has no checksum of its own."""
    store = compressed(distances, tmp_path / "run", name)
    file = Path(store.path, "distances", "c", "0", "1")
    data = bytearray(file.read_bytes())
    data[place] ^= 0x11
    file.write_bytes(data)
    with pytest.raises(DamagedStoreError, match=r"tile \(0, 1\)"):
        store.tiles.read(0, 1)


@pytest.mark.parametrize("name", COMPRESSIONS)
@pytest.mark.parametrize("left", [0, 1, 15, 16, 100, 0.5, 0.99])
def test_a_cut_tile_is_an_error(distances, tmp_path, name, left):
    store = compressed(distances, tmp_path / "run", name)
    file = Path(store.path, "distances", "c", "0", "1")
    data = file.read_bytes()
    file.write_bytes(data[: int(left * len(data)) if isinstance(left, float) else left])
    with pytest.raises(DamagedStoreError, match=r"tile \(0, 1\)"):
        store.tiles.read(0, 1)
    file.unlink()
    with pytest.raises(DamagedStoreError, match=r"tile \(0, 1\)"):
        store.tiles.read(0, 1)


# ---- a fit ---------------------------------------------------------------------------------------


def test_a_fit_is_the_same_to_the_bit_and_smaller_on_disk(iterate, tmp_path):
    plain = fitted(tmp_path / "plain")
    for name in COMPRESSIONS:
        small = fitted(tmp_path / name, compression=name)
        same(plain, small)
        np.testing.assert_array_equal(small.geodesics([3, 77]), plain.geodesics([3, 77]))
        assert disk_of(tmp_path / name) < 0.9 * disk_of(tmp_path / "plain")


def test_a_resumed_run_keeps_its_own_compression(tmp_path):
    """It is of the disk and not of the model: neither a mismatch nor recorded."""

    def stop(stage, done, total):
        if (stage, done) == ("geodesics", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(tmp_path / "run", compression="lz4", progress=stop)
    model = fitted(tmp_path / "run")
    (codec,) = zarr.open_array(tmp_path / "run", path="distances", mode="r").compressors
    assert codec.to_dict()["configuration"]["cname"] == "lz4"
    same(model, fitted(tmp_path / "run", compression="zstd"))
    assert load(tmp_path / "run").compression is None


@pytest.mark.parametrize("kind", [KernelIsomap, Isomap])
@pytest.mark.parametrize("name", ["gzip", "LZ4", "", True, 5, b"lz4", ["lz4"]])
def test_other_names_are_refused_before_anything_is_made(tmp_path, kind, name):
    with pytest.raises(ScalemaniError, match=r"compression=.*llowed are 'lz4', 'zstd', None"):
        kind(compression=name, store=tmp_path / "run").fit(X)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_takes_it(tmp_path, capsys):
    np.save(tmp_path / "X.npy", X)
    points, store = str(tmp_path / "X.npy"), str(tmp_path / "run")
    assert run(cli, ["fit", points, store, "-k", "8", "-q", "--compression", "gzip"]) != 0
    assert "allowed are 'lz4', 'zstd', none" in capsys.readouterr().err
    assert run(cli, ["fit", points, store, "-k", "8", "-q", "--compression", "zstd"]) == 0
    (codec,) = zarr.open_array(store, path="distances", mode="r").compressors
    assert codec.to_dict()["configuration"]["cname"] == "zstd"
