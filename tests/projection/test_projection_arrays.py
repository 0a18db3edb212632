"""Test sets in any kind of array, any batches, on any number of threads: one result, and the store as it was."""

import gc
import hashlib
import os
import shutil
import threading
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from data import roll
from distributed import Client

from scalemani import KernelIsomap, load
from scalemani.errors import ScalemaniError

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

X = roll(120)
T = roll(40, seed=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model that no test may change."""
    return KernelIsomap(n_neighbors=8, n_components=3, store=tmp_path_factory.mktemp("run") / "run.zarr").fit(X)


# ---- each row's result depends on that row alone -------------------------------------------------


@pytest.mark.parametrize("form", ["continuous", pytest.param("paper", marks=pytest.mark.slow)])
def test_the_batch_the_order_and_the_threads_change_nothing(form, tmp_path):
    model = KernelIsomap(n_neighbors=8, n_components=3, projection=form, store=tmp_path / "run.zarr").fit(X)
    rows = np.concatenate([T, X[:30]])
    whole = model.transform(rows)
    close = {"rtol": 0, "atol": 1e-10 * np.abs(whole).max()}
    for size in (7, 64):
        pieces = [model.transform(rows[at : at + size]) for at in range(0, len(rows), size)]
        np.testing.assert_allclose(np.concatenate(pieces), whole, **close)
    for i in (0, 39, 40, 69):  # a lone point is not centred onto the origin by its own mean
        alone = model.transform(rows[i : i + 1])
        np.testing.assert_allclose(alone[0], whole[i], **close)
        assert np.abs(alone).max() > 1e-3 * np.abs(whole).max()
    np.testing.assert_allclose(model.transform(rows[::-1])[::-1], whole, **close)
    for threads in (1, 4):
        options = {"processes": False, "n_workers": 1, "dashboard_address": "127.0.0.1:0"}
        with Client(threads_per_worker=threads, **options) as client:
            there = load(model.store_)
            there.set_params(scheduler=client)
            np.testing.assert_allclose(there.transform(rows), whole, **close)


def test_two_threads_may_transform_at_once(run):
    whole = run.transform(T)
    found = [None, None]

    def work(i):
        found[i] = run.transform(T[20 * i : 20 * i + 20])

    threads = [threading.Thread(target=work, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    np.testing.assert_allclose(np.concatenate(found), whole, rtol=0, atol=1e-10 * np.abs(whole).max())


def hashes(path):
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(Path(path).rglob("*")) if f.is_file()}


def test_transform_changes_no_byte_of_the_store(run, tmp_path):
    path = tmp_path / "copy.zarr"
    shutil.copytree(run.store_, path)
    model = load(path)
    before = hashes(path)
    model.transform(T)
    model.transform(da.from_array(T, chunks=(11, 3))).compute()
    source = zarr.create_array(tmp_path / "t.zarr", shape=T.shape, chunks=(9, 3), dtype="f8")
    source[:] = T
    model.transform_to(source, tmp_path / "y.zarr")
    model.geodesics([1, 5])
    model.export(tmp_path / "export.zarr")
    assert hashes(path) == before and len(before) > 10


# ---- kinds of arrays in and out ------------------------------------------------------------------


def test_every_kind_of_test_set_gives_the_same_coordinates(run, tmp_path):
    whole = run.transform(T)
    stored = zarr.create_array(tmp_path / "t.zarr", shape=T.shape, chunks=(9, 2), dtype="f8")
    stored[:] = T
    np.save(tmp_path / "t.npy", T)
    kinds = [
        T.tolist(),
        np.load(tmp_path / "t.npy", mmap_mode="r"),
        sp.csr_array(T),
        stored,
        np.asfortranarray(T),
        np.repeat(T, 2, axis=0)[::2],
        T.astype(">f8"),
    ]
    for rows in kinds:
        placed = run.transform(rows)
        assert type(placed) is np.ndarray and placed.dtype == np.float64
        np.testing.assert_allclose(placed, whole, rtol=0, atol=1e-10 * np.abs(whole).max())
    rounded = run.transform(T.astype(np.float32))
    np.testing.assert_allclose(rounded, whole, rtol=0, atol=1e-5 * np.abs(whole).max())


def test_dask_in_is_lazy_dask_out(run):
    lazy = run.transform(da.from_array(T, chunks=(11, 2)))
    assert isinstance(lazy, da.Array) and lazy.shape == (40, 3) and lazy.dtype == np.float64
    assert lazy.chunks[0] == (11, 11, 11, 7)
    whole = run.transform(T)
    close = {"rtol": 0, "atol": 1e-10 * np.abs(whole).max()}
    np.testing.assert_allclose(lazy.compute(), whole, **close)
    np.testing.assert_allclose(lazy[13:17, 1].compute(scheduler="synchronous"), whole[13:17, 1], **close)
    unknown = da.from_array(T, chunks=(11, 3))
    unknown = unknown[unknown[:, 0] > 0]
    np.testing.assert_allclose(run.transform(unknown).compute(), whole[T[:, 0] > 0], **close)
    with pytest.raises(ScalemaniError, match="3"):
        run.transform(da.from_array(T[:, :2], chunks=(11, 2)))  # before anything is computed
    for kind in (complex, str):
        with pytest.raises(ScalemaniError, match="dtype"):
            run.transform(da.from_array(T.astype(kind), chunks=(11, 3)))  # before anything is computed
    with pytest.raises(ScalemaniError, match="NaN"):
        run.transform(da.from_array(np.where(T > 5, np.nan, T), chunks=(11, 3))).compute()


@pytest.mark.slow
def test_a_temporary_store_lives_as_long_as_a_lazy_result():
    model = KernelIsomap(n_neighbors=8, n_components=3).fit(X)
    path, expected = model.store_, model.transform(T)
    lazy = model.transform(da.from_array(T, chunks=(11, 3)))
    shifted = lazy + 1
    del model, lazy
    gc.collect()
    assert os.path.isdir(path)
    np.testing.assert_allclose(shifted.compute(), expected + 1, rtol=0, atol=1e-9)
    del shifted
    gc.collect()
    assert not os.path.exists(path)


def test_zarr_to_zarr_goes_by_blocks(run, tmp_path):
    source = zarr.create_array(tmp_path / "t.zarr", shape=T.shape, chunks=(9, 3), dtype="f4")
    source[:] = T
    out = run.transform_to(source, tmp_path / "y.zarr")
    assert isinstance(out, zarr.Array) and out.shape == (40, 3) and out.dtype == np.float64
    written = zarr.open_array(tmp_path / "y.zarr", mode="r")[:]
    np.testing.assert_allclose(written, run.transform(T.astype("f4")), rtol=0, atol=1e-10 * np.abs(written).max())
    with pytest.raises(ScalemaniError, match="exists"):
        run.transform_to(source, tmp_path / "y.zarr")
    lazy = da.from_array(T.astype("f4"), chunks=(11, 3))
    np.testing.assert_array_equal(run.transform_to(lazy, tmp_path / "l.zarr")[:], written)
    with pytest.raises(ScalemaniError, match="compute_chunk_sizes"):
        run.transform_to(lazy[lazy[:, 0] > 0], tmp_path / "z.zarr")
    narrow = zarr.create_array(tmp_path / "n.zarr", shape=(5, 2), chunks=(5, 2), dtype="f4")
    with pytest.raises(ScalemaniError, match=r"2 features.* 3 features"):
        run.transform_to(narrow, tmp_path / "z.zarr")
    assert not (tmp_path / "z.zarr").exists()
    empty = zarr.create_array(tmp_path / "e.zarr", shape=(0, 3), chunks=(5, 3), dtype="f4")
    assert run.transform_to(empty, tmp_path / "ye.zarr").shape == (0, 3)


def test_zarr_rows_that_are_wrong_leave_no_half_written_result(run, tmp_path):
    bad = T.copy()
    bad[33, 1] = np.nan
    source = zarr.create_array(tmp_path / "t.zarr", shape=T.shape, chunks=(7, 3), dtype="f8")
    source[:] = bad
    with pytest.raises(ScalemaniError, match="NaN at row 33, column 1"):
        run.transform_to(source, tmp_path / "y.zarr")
    assert not (tmp_path / "y.zarr").exists()
    with pytest.raises(ScalemaniError, match=r"'/proc/y.zarr' can't be written"):
        run.transform_to(zarr.array(T), "/proc/y.zarr")
