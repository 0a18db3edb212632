"""The store IS the saved model: without D, copied, moved, in another process, and temporary ones that go."""

import gc
import glob
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import naive
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from data import roll, two
from scipy.spatial.distance import cdist
from stored_models import T, X, fitted, same

from scalemani import KernelIsomap, load
from scalemani.errors import ScalemaniError, StoreMismatchError
from scalemani.storage.tiles import Tiles

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]


@pytest.fixture
def work(monkeypatch):
    """Tiles that were read or written."""
    seen = []
    for name in ("write", "read"):
        real = getattr(Tiles, name)
        monkeypatch.setattr(Tiles, name, lambda *a, real=real, name=name, **k: (seen.append(name), real(*a, **k))[1])
    return seen


def stopper(stage, after):
    """A progress function that stops the fit."""

    def report(now, done, total):
        if now == stage and done >= after:
            raise KeyboardInterrupt

    return report


# ---- without distances ---------------------------------------------------------------------------


def test_a_model_without_distances_does_all_but_solve_again(work, undisturbed, tmp_path):
    model = fitted(tmp_path / "r", keep_distances=False)
    assert not (tmp_path / "r" / "distances").exists() and not (tmp_path / "r" / "ledger").exists()
    there = load(tmp_path / "r")
    for one in (model, there):
        same(one, undisturbed)
        np.testing.assert_allclose(one.geodesics([0, 7, -1]), undisturbed.geodesics([0, 7, -1]), rtol=1e-6)
    work.clear()
    same(fitted(tmp_path / "r", keep_distances=False), undisturbed)
    assert not work
    with pytest.raises(StoreMismatchError, match=r"n_components=2 where n_components=3 .*distances were dropped"):
        fitted(tmp_path / "r", n_components=3)
    same(load(tmp_path / "r"), undisturbed)


def test_an_export_is_the_model_without_its_distances(undisturbed, tmp_path):
    undisturbed.export(tmp_path / "model.zarr")
    assert not (tmp_path / "model.zarr" / "distances").exists()
    size = sum(f.stat().st_size for f in (tmp_path / "model.zarr").rglob("*") if f.is_file())
    assert size < sum(f.stat().st_size for f in Path(undisturbed.store_).rglob("*") if f.is_file()) / 2
    there = load(tmp_path / "model.zarr")
    same(there, undisturbed)
    np.testing.assert_allclose(there.geodesics([0, 7]), undisturbed.geodesics([0, 7]), rtol=1e-6)
    there.export(tmp_path / "again.zarr")
    same(load(tmp_path / "again.zarr"), undisturbed)


def test_given_distances_that_were_dropped_are_said_to_be_gone(tmp_path):
    D = cdist(X[:50], X[:50])
    model = KernelIsomap(metric="geodesic", store=tmp_path / "r", keep_distances=False).fit(D)
    np.testing.assert_allclose(model.transform(D), model.embedding_, atol=1e-5 * np.abs(model.embedding_).max())
    with pytest.raises(ScalemaniError, match="not kept"):
        model.geodesics([0])


def test_geodesics_are_rows_of_d_in_the_users_order(undisturbed):
    """Order of rows, unit, twins and asked-for order, against SciPy on the same graph."""
    near = cdist(X, X)
    listed = np.argsort(near, axis=1)[:, 1:9]
    rows = np.repeat(np.arange(200), 8)
    G = sp.csr_array((near[rows, listed.ravel()], (rows, listed.ravel())), shape=near.shape)
    D = naive.geodesics(sp.csr_array(G.maximum(G.T)))
    asked = [5, 3, 3, -1, 199, 0]
    np.testing.assert_allclose(undisturbed.geodesics(asked), D[asked], rtol=1e-6)
    shuffled = np.random.default_rng(0).permutation(np.r_[np.arange(200), :50])
    twins = KernelIsomap(n_neighbors=8).fit(X[shuffled])
    np.testing.assert_allclose(twins.geodesics(np.arange(250)), D[np.ix_(shuffled, shuffled)], rtol=1e-6)


# ---- seeds, processes, temporary stores ----------------------------------------------------------


def test_a_seed_of_none_is_recorded_and_taken_up_again(work, tmp_path):
    first = fitted(tmp_path / "r", random_state=None)
    seed = first.random_state_
    assert isinstance(seed, int) and load(tmp_path / "r").random_state_ == seed
    work.clear()
    again = fitted(tmp_path / "r", random_state=None)
    assert not work and again.random_state_ == seed
    same(first, again)
    same(fitted(tmp_path / "s", random_state=seed), first)
    assert fitted(None, random_state=None).random_state_ != seed


@pytest.mark.slow
def test_generators_give_seeds(tmp_path):
    for make in (np.random.RandomState, np.random.default_rng):
        assert fitted(None, random_state=make(3)).random_state_ == fitted(None, random_state=make(3)).random_state_


@pytest.mark.slow
def test_a_fresh_process_loads_the_model(undisturbed, tmp_path):
    np.save(tmp_path / "t.npy", T)
    program = (
        "import sys, numpy as np; from scalemani import load; m = load(sys.argv[1]); d = sys.argv[2]; "
        "np.savez(d + '/y.npz', y=m.transform(np.load(d + '/t.npy')), e=m.embedding_, g=m.geodesics([1]))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program, undisturbed.store_, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with np.load(tmp_path / "y.npz") as out:
        np.testing.assert_array_equal(out["y"], undisturbed.transform(T))
        np.testing.assert_array_equal(out["e"], undisturbed.embedding_)
        np.testing.assert_array_equal(out["g"], undisturbed.geodesics([1]))


def temporaries():
    return set(glob.glob(os.path.join(tempfile.gettempdir(), "scalemani-*")))


def test_temporary_stores_go_with_their_model_and_after_errors(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for broken in (
        lambda: KernelIsomap(n_neighbors=8).fit(X * np.nan),
        lambda: KernelIsomap(n_neighbors=5).fit(two(60)),
        lambda: KernelIsomap(n_neighbors=5, n_components=40, disconnected="largest").fit(two(60)),
        lambda: KernelIsomap(n_neighbors=8, scheduler="nowhere").fit(X),
    ):
        with pytest.raises(ScalemaniError):
            broken()
    for stage in ("points", "neighbors", "graph", "geodesics", "solve"):
        with pytest.raises(KeyboardInterrupt):
            KernelIsomap(n_neighbors=8, progress=stopper(stage, 1)).fit(X[:60])
    gc.collect()
    assert temporaries() == set()
    model = KernelIsomap(n_neighbors=8).fit(X[:60])
    assert {model.store_} == temporaries()
    model.transform(T)
    del model
    gc.collect()
    assert temporaries() == set()


def test_without_a_temporary_folder_a_fit_and_a_pickle_say_what_to_do(tmp_path, monkeypatch):
    model = KernelIsomap(n_neighbors=8).fit(roll(60))
    kept = pickle.dumps(model)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    for make in (lambda: KernelIsomap(n_neighbors=8).fit(roll(60)), lambda: pickle.loads(kept)):
        with pytest.raises(ScalemaniError, match=r"none can be made .*: set TMPDIR to .* or give fit a store path"):
            make()


def test_a_users_store_stays_when_the_model_goes(tmp_path):
    model = KernelIsomap(n_neighbors=8, store=tmp_path / "r").fit(X[:60])
    del model
    gc.collect()
    assert load(tmp_path / "r").embedding_.shape == (60, 2)


def test_a_store_that_was_moved_is_the_same_model(undisturbed, tmp_path):
    shutil.copytree(undisturbed.store_, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / "moved")
    same(load(tmp_path / "moved"), undisturbed)


def test_names_of_features_are_kept_with_the_model(tmp_path):
    """Another order of the columns is refused by the model and by what `load` gives back."""
    frame = pd.DataFrame(roll(60), columns=["a", "b", "c"])
    model = KernelIsomap(n_neighbors=8, store=tmp_path / "r").fit(frame)
    for one in (model, load(tmp_path / "r")):
        np.testing.assert_allclose(one.transform(frame), model.embedding_, atol=1e-5 * np.ptp(model.embedding_))
        with pytest.raises(ScalemaniError, match="names"):
            one.transform(frame[["b", "a", "c"]])
