"""Ids of rows go with a model wherever it goes, and change nothing else of it."""

import pickle
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from data import roll

from scalemani import Isomap, load
from scalemani import anndata as in_anndata
from scalemani import xarray as in_xarray
from scalemani.errors import DamagedStoreError, ScalemaniError
from scalemani.integrity import repair, verify
from scalemani.storage.run import RunStore
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

X = roll(40)
IDS = [f"row {i}" for i in range(38)] + ["twice ä\n", "twice ä\n"]


def fitted(path, rows=X):
    return Isomap(n_neighbors=6, store=path).fit(rows)


def test_ids_are_kept_by_load_export_and_pickles_and_no_number_changes(tmp_path):
    model = fitted(tmp_path / "run")
    assert not hasattr(model, "ids_")
    before = model.transform(X), model._run._revision
    model.name_rows(IDS)
    model.export(tmp_path / "model")
    for one in (model, load(tmp_path / "run"), load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert one.ids_.tolist() == IDS
    np.testing.assert_array_equal(model.transform(X), before[0])  # of the model that it was
    assert load(tmp_path / "run")._run._revision == before[1]
    unstored = Isomap(n_neighbors=6).fit(X)
    unstored.name_rows(IDS)
    assert pickle.loads(pickle.dumps(unstored)).ids_.tolist() == IDS
    with pytest.raises(ScalemaniError, match="3 ids for 40 rows"):
        model.name_rows(IDS[:3])
    for wrong in ("x" * 40, 5, np.zeros((40, 2))):
        with pytest.raises(ScalemaniError, match="ids is no list of labels"):
            model.name_rows(wrong)
    model.name_rows(None)
    assert not hasattr(load(tmp_path / "run"), "ids_")
    assert not list(tmp_path.glob("run/row_id*")) and not verify(str(tmp_path / "run")).faults


def test_a_frame_gives_its_index_and_ids_of_an_earlier_fit_go(tmp_path):
    frame = pd.DataFrame(X)
    for index, ids in [
        (IDS, IDS),
        (None, None),
        (range(5, 45), [str(i) for i in range(5, 45)]),
        (np.arange(40), None),  # it only counts
        (pd.MultiIndex.from_product([["a"], range(40)]), [f"('a', '{i}')" for i in range(40)]),
        (None, None),
    ]:
        model = fitted(tmp_path / "run", frame if index is None else frame.set_axis(index))
        assert load(tmp_path / "run")._run.ids == ids == model._run.ids
    assert fitted(None, X)._run.ids is None


def test_observations_and_samples_and_an_id_column_give_theirs(tmp_path):
    adata = anndata.AnnData(X, pd.DataFrame(index=[f"cell {i}" for i in range(40)]))
    in_anndata.isomap(adata, n_neighbors=6, store=tmp_path / "cells")
    assert load(tmp_path / "cells").ids_[3] == "cell 3"
    da = xr.DataArray(X.T, dims=("feature", "time"), coords={"time": np.arange(40) * 0.5})
    in_xarray.isomap(da, "time", n_neighbors=6, store=tmp_path / "times")
    assert load(tmp_path / "times").ids_[3] == "1.5"
    pd.DataFrame(X, IDS).to_csv(tmp_path / "x.csv", index_label="name")
    asked = ["fit", str(tmp_path / "x.csv"), str(tmp_path / "run"), "--neighbors", "6", "--quiet"]
    assert run(cli, [*asked, "--id-column", "name"]) == 0
    assert load(tmp_path / "run").ids_.tolist() == IDS


def test_damaged_ids_are_found_and_removed_and_the_map_stays(tmp_path):
    model = fitted(tmp_path / "run", pd.DataFrame(X, IDS))
    text = tmp_path / "run" / "row_id_text" / "c" / "0"
    text.write_bytes(b"?" + text.read_bytes()[1:])
    with pytest.raises(DamagedStoreError, match="row_id_text"):
        load(tmp_path / "run").ids_  # noqa: B018
    assert [fault.name for fault in verify(str(tmp_path / "run")).faults] == ["row_id_text"]
    done, left = repair(str(tmp_path / "run"))
    assert done == ["the ids of rows were removed; the same fit gives them again"] and not left.faults
    mended = load(tmp_path / "run")
    assert mended._run.ids is None and np.array_equal(mended.embedding_, model.embedding_)


@pytest.mark.parametrize("text", ["ab", "\N{NO-BREAK SPACE}"])
def test_ids_that_contradict_their_places_are_found(tmp_path, text):
    """Whole arrays that are not of each other: another length, or cut inside a letter."""
    model = fitted(tmp_path / "run")
    model.name_rows([""] * 38 + ["a", "b"])
    store = RunStore(tmp_path / "run")
    store.write_array("row_id_text", np.frombuffer((text if text != "ab" else "abc").encode(), np.uint8))
    store.finish()
    assert [fault.kind for fault in verify(str(tmp_path / "run")).faults] == ["ids"]
    with pytest.raises(DamagedStoreError):
        load(tmp_path / "run").ids_  # noqa: B018
    model.name_rows(IDS)  # which mends them
    assert not verify(str(tmp_path / "run")).faults


def test_a_million_ids_are_no_json(tmp_path):
    model = fitted(tmp_path / "run")
    size = Path(tmp_path, "run", "zarr.json").stat().st_size
    model.name_rows(["x" * 10_000] * 40)
    assert Path(tmp_path, "run", "zarr.json").stat().st_size < size + 200
