"""Stores that hold another run, paths where none can be made, and what asks too much of a saved model."""

import os

import numpy as np
import pytest
import zarr
from data import roll
from scipy.spatial.distance import cdist

from scalemani import KernelIsomap, load
from scalemani.errors import DisconnectedGraphError, ScalemaniError, StoreMismatchError

pytestmark = [pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")]

X = roll(40)
D = cdist(X, X)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A run that no test may change."""
    path = tmp_path_factory.mktemp("run") / "run.zarr"
    KernelIsomap(n_neighbors=8, store=path).fit(X)
    return path


def content(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


@pytest.mark.parametrize(
    ("rows", "arguments", "words"),
    [
        (X, {"n_neighbors": 7}, "n_neighbors=8 where n_neighbors=7"),
        (X, {"n_neighbors": None, "radius": 20.0}, "n_neighbors=8 where n_neighbors=None"),
        (X, {"metric": "manhattan"}, "metric='euclidean' where metric='manhattan'"),
        (X, {"metric": "minkowski", "metric_params": {"p": 3}}, "metric='euclidean' where metric='minkowski'"),
        (X, {"graph": "mutual"}, "graph='union' where graph='mutual'"),
        (X, {"disconnected": "join"}, "disconnected='error' where disconnected='join'"),
        (X + 1, {}, "other data"),
        (X[::-1], {}, "other data"),
        (X[:-1], {}, "n_rows=40 where n_rows=39"),
        (X[:, :2], {}, "n_features=3 where n_features=2"),
        (D, {"metric": "geodesic"}, "kind='features' where kind='geodesic'"),
    ],
)
def test_a_store_with_another_run_names_the_field(rows, arguments, words, store):
    before = content(store)
    with pytest.raises(StoreMismatchError, match=rf"{words}.*another path, or overwrite") as caught:
        KernelIsomap(**{"n_neighbors": 8, "store": store, **arguments}).fit(rows)
    assert isinstance(caught.value, ScalemaniError) and "\n" not in str(caught.value)
    assert content(store) == before


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_run_is_never_touched(overwrite, tmp_path):
    file, folder, array = tmp_path / "file", tmp_path / "folder", tmp_path / "array.zarr"
    file.write_text("mine")
    folder.mkdir()
    (folder / "note").write_text("mine")
    zarr.create_array(array, shape=(3,), dtype="i4")[:] = 1
    before = content(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    for path in (file, folder, array, link, file / "below"):
        with pytest.raises(ScalemaniError, match="another path") as caught:
            KernelIsomap(n_neighbors=8, store=path, overwrite=overwrite).fit(X)
        assert "\n" not in str(caught.value)
    assert content(tmp_path) == before


@pytest.mark.parametrize("store", [np.ones(2), 5, 1.5, True, b"a"])
def test_a_store_is_a_path(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ScalemaniError, TypeError), match="store"):
        KernelIsomap(n_neighbors=8, store=store).fit(X)
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_and_missing_parents_will_do(tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "run.zarr", str(tmp_path / "text")):
        assert KernelIsomap(n_neighbors=8, store=path).fit(X).store_ == str(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder where nobody may write")
def test_a_place_where_nothing_can_be_written():
    with pytest.raises(ScalemaniError, match=r"'/proc/run.zarr' can't be written: .*another path"):
        KernelIsomap(n_neighbors=8, store="/proc/run.zarr").fit(X)


def test_load_of_what_is_no_finished_run(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_text("")
    for path, words in ((tmp_path / "none", "nothing is there"), (tmp_path / "folder", "not a scalemani run")):
        with pytest.raises(ScalemaniError, match=words):
            load(path)
    with pytest.raises(DisconnectedGraphError):
        KernelIsomap(n_neighbors=2, store=tmp_path / "half").fit(np.concatenate([X, X + 1000]))
    with pytest.raises(ScalemaniError, match=r"not finished.*neighbors.*same fit again"):
        load(tmp_path / "half")


def test_export_writes_over_nothing(store, tmp_path):
    model = load(store)
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", store):
        with pytest.raises(ScalemaniError, match="exists"):
            model.export(path)
    assert (tmp_path / "file").read_text() == "mine"


def test_rows_of_d_that_are_not_there(store):
    model = load(store)
    for rows in ([40], [-41]):
        with pytest.raises(ScalemaniError, match="rows 0 to 39"):
            model.geodesics(rows)
    for rows in ([0.5], [[1]], ["a"], np.ones(40, bool)):
        with pytest.raises(ScalemaniError, match="row numbers") as caught:
            model.geodesics(rows)
        assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(model.geodesics([-1]), model.geodesics(39))
    assert model.geodesics([]).shape == (0, 40)
