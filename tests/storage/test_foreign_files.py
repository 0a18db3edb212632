"""What is not a run's own and lies, or would come to lie, in its place: refused beforehand, and never removed."""

import os
import shutil

import numpy as np
import pytest
from corruption import tree
from data import roll

from scalemani import KernelIsomap, load
from scalemani.errors import ScalemaniError
from scalemani.integrity import repair, verify
from scalemani.steps.graph import NeighborsStep
from scalemani.storage.arrays import first_stray, is_own
from scalemani.storage.buckets import Bucket
from scalemani.storage.files import open_location
from scalemani.storage.run import RunStore
from scalemani.storage.targets import check_outside
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run as run_command

X = roll(40)
NAMES = ("out.zarr", "first_try.zarr", "solver_notes.txt", "piece_of_mine", "coordinates", "film.partial", "model")


def model(store, **more):
    return KernelIsomap(n_components=2, n_neighbors=8, correction=None, store=str(store), random_state=0, **more)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    model(path).fit(X)
    load(path).transform_to(X[:9], path.with_name("out.zarr"))
    load(path).export(path.with_name("model"))
    return path


@pytest.fixture
def run(fitted, tmp_path):
    return shutil.copytree(fitted, tmp_path / "run.zarr")


@pytest.fixture
def shelf(request):
    pytest.importorskip("obstore", reason="the extra cloud")
    found = open_location(f"memory://{request.node.name}")
    yield found
    found.remove()


def with_strangers(run, fitted):
    """The names of what was put there: arrays, a model, files whose names begin as arrays of a run do."""
    for name in NAMES:
        source = fitted.with_name("model" if name == "model" else "out.zarr")
        if "." in name and not name.endswith("zarr"):
            (run / name).write_text("mine")
        else:
            shutil.copytree(source, run / name)
    (run / "vectors" / f"mine{NAMES[5]}").write_text("mine")
    return {*NAMES, f"vectors/mine{NAMES[5]}"}


# ---- outputs ---------------------------------------------------------------------------------------


def test_no_output_and_no_store_comes_to_lie_in_a_run(run, tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "x.npy", X)
    os.symlink(run, tmp_path / "link")
    before, found = tree(run), load(run)
    monkeypatch.setattr("scalemani.steps.inputs.read_input", None)  # nothing is read
    monkeypatch.setattr(type(found._run), "transform", None)
    for folder in (run, run / "new", run / "vectors", tmp_path / "link"):
        for act in (
            lambda below=folder / "sub": model(below).fit(X),
            lambda below=folder / "sub": model(below, overwrite=True).fit(X),
            lambda below=folder / "sub": found.transform_to(X, below),
            lambda below=folder / "sub": found.export(below),
        ):
            with pytest.raises(ScalemaniError, match=r"lies in the run at .*: give a path outside of it$"):
                act()
    store, points, other = str(run), str(tmp_path / "x.npy"), str(tmp_path / "other")
    (tmp_path / "other").mkdir()
    shutil.copytree(run, tmp_path / "d.zarr" / "inner")
    for line in (
        ("project", store, points, f"{store}/out.zarr"),
        ("project", store, points, f"{tmp_path}/link/out.npy"),
        ("project", str(tmp_path / "d.zarr" / "inner"), points, str(tmp_path / "d.zarr"), "--overwrite"),
        ("project", str(tmp_path / "d.zarr" / "inner"), points, f"{store}/out.csv"),
        ("fit", points, other, "--neighbors", "8", "--embedding", f"{store}/e.npy"),
        ("fit", points, other, "--neighbors", "8", "--embedding", f"{other}/e.npy"),  # which is to be a run
        ("report", store, f"{store}/page.html"),
        ("export", store, f"{store}/model"),
    ):
        assert run_command(cli, [*line]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1 and "outside of" in said[0], line
    assert tree(run) == before and not any((tmp_path / "other").iterdir())
    assert (tmp_path / "d.zarr" / "inner" / "zarr.json").exists()


def test_no_output_and_no_store_comes_to_lie_in_a_run_in_object_storage(shelf, monkeypatch):
    fitted, asked, real = model(shelf / "runs" / "a").fit(X), [], Bucket.ask
    before = {str(entry) for entry in shelf.rglob()}
    for act in (
        lambda: model(shelf / "runs" / "a" / "sub").fit(X),
        lambda: fitted.transform_to(X, str(shelf / "runs" / "a" / "new" / "out")),
        lambda: fitted.export(str(shelf / "runs" / "a" / "model")),
    ):
        with pytest.raises(ScalemaniError, match=r"lies in the run at .*/runs/a': give a path outside"):
            act()
    assert {str(entry) for entry in shelf.rglob()} == before
    monkeypatch.setattr(Bucket, "ask", lambda bucket, *a, **k: asked.append(a[0]) or real(bucket, *a, **k))
    check_outside(shelf / "runs" / "b")
    assert len(asked) <= 8 and not {"list", "list_with_delimiter", "put"} & set(asked)  # two folders are above it


# ---- what lies there already -----------------------------------------------------------------------


def test_what_no_run_makes_is_said_and_never_removed(run, fitted):
    strangers = with_strangers(run, fitted)
    before = tree(run)
    found = verify(str(run))
    assert {fault.name for fault in found.faults} == strangers and {f.kind for f in found.faults} == {"stray"}
    assert not found.damaged
    assert repair(str(run))[0] == [] and tree(run) == before
    again = model(run).fit(X)  # opens it, and looks for what is left of others
    assert again.embedding_.shape == (40, 2) and tree(run).keys() == before.keys()


@pytest.mark.slow
def test_what_no_run_makes_survives_a_repair_that_makes_everything_again(run, fitted):
    store = RunStore(run)
    store.forget("fit", "solve", "geodesics")
    strangers = with_strangers(run, fitted)
    mine = {name: content for name, content in tree(run).items() if name.split("/")[0] in strangers - {"coordinates"}}
    (run / "distances" / "zarr.json").unlink()
    repair(str(run))
    pieces = RunStore(run).pieces("neighbors")
    pieces.put("lists_0_9", [np.arange(9)])
    pieces.drop()
    model(run).fit(X)
    there = tree(run)
    assert len(mine) > 20 and {name: there.get(name) for name in mine} == mine
    assert not [name for name in there if name.startswith("piece") and "of_mine" not in name]


@pytest.mark.slow
def test_all_that_fits_write_is_their_own(tmp_path, monkeypatch):
    names, real = set(), RunStore.write_array
    monkeypatch.setattr(RunStore, "write_array", lambda self, name, a: names.add(name) or real(self, name, a))
    model(tmp_path / "a").fit(X)
    model(tmp_path / "b", landmarks=12).fit(X)
    assert len(names) > 20 and all(map(is_own, names))
    for path in (tmp_path / "a", tmp_path / "b"):
        assert first_stray(path) is None
        assert {fault.kind for fault in verify(str(path)).faults} == set()


# ---- overwrite -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "model/zarr.json", "vectors/mine.txt", "vectors/x.kept", "ledger/0.txt", "zarr.json.mine"],
)
def test_a_run_with_something_elses_in_it_is_not_overwritten(run, name, monkeypatch):
    (run / name).parent.mkdir(exist_ok=True)
    (run / name).write_text("mine")
    (run / ".DS_Store").write_text("the system's")
    before = tree(run)
    with monkeypatch.context() as patch, pytest.raises(ScalemaniError, match=f"'{name.removesuffix('/zarr.json')}' in"):
        patch.setattr("scalemani.steps.inputs.read_input", None)
        model(run, overwrite=True).fit(X)
    assert tree(run) == before
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()
    if name.startswith("model"):
        (run / "model").rmdir()
    model(run, overwrite=True).fit(X[:30])
    assert load(run).embedding_.shape == (30, 2)


def test_a_run_in_object_storage_with_something_elses_in_it_is_not_overwritten(shelf):
    model(shelf / "run").fit(X)
    (shelf / "run" / "vectors" / "mine.txt").put(b"mine")
    before = {str(entry) for entry in shelf.rglob()}
    with pytest.raises(ScalemaniError, match=r"'vectors/mine.txt' in it is no part of a run and would be lost"):
        model(shelf / "run", overwrite=True).fit(X[:30])
    assert {str(entry) for entry in shelf.rglob()} == before
    (shelf / "run" / "vectors" / "mine.txt").unlink()
    assert model(shelf / "run", overwrite=True).fit(X[:30]).embedding_.shape == (30, 2)


def test_what_comes_while_the_new_run_is_begun_is_not_lost_either(run, monkeypatch):
    before, real = tree(run), NeighborsStep.run

    def meanwhile(*arguments):
        (run / "notes.txt").write_text("mine")
        return real(*arguments)

    monkeypatch.setattr(NeighborsStep, "run", meanwhile)
    with pytest.raises(ScalemaniError, match=r"'notes\.txt' in it is no part of a run"):
        model(run, overwrite=True).fit(X[:30])
    assert tree(run) == {**before, "notes.txt": b"mine"} and os.listdir(run.parent) == ["run.zarr"]
