"""Data as they were meant: masks, packed cells, nullable columns, labels of features and home folders are not lost."""

import datetime
import os
import pickle
from decimal import Decimal
from pathlib import Path

import anndata
import dask
import dask.array as da
import dask.dataframe as dd
import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import xarray as xr
import zarr
from data import roll

import scalemani.anndata
import scalemani.xarray
from scalemani import Isomap, load
from scalemani.embedding.quality import residual_variance
from scalemani.errors import FeatureNamesWarning, ScalemaniError
from scalemani.formats.columns import read_column
from scalemani.points.reading import row_blocks
from scalemani.terminal.commands import cli
from scalemani.terminal.console import run

X = roll(60)
HOLED = np.ma.array(X, mask=np.zeros(X.shape, bool))
HOLED[7, 1] = np.ma.masked
AT_7_1 = "row 7, column 1"


def rows(source, **options):
    """All rows as the library reads them."""
    return np.concatenate([block for _, block in row_blocks(source, **options)])


def refused(call, *words):
    with pytest.raises(ScalemaniError) as caught:
        call()
    said = str(caught.value)
    assert all(word in said for word in words) and "\n" not in said, said


@pytest.fixture(scope="module")
def model():
    return Isomap(n_neighbors=8).fit(X)


# ---- masks ---------------------------------------------------------------------------------------------------------


class Own(np.ma.MaskedArray):
    """Somebody's own kind of masked array."""


class NetCDF:
    """As netCDF4's variables are: no chunks, cells unpacked and masked where they are read."""

    shape, dtype, mask, scale = X.shape, np.dtype("i2"), True, True

    def ncattrs(self):
        return ["scale_factor", "_FillValue"]

    def __array__(self, dtype=None, copy=None):
        return HOLED


MASKED = {
    "numpy": HOLED,
    "own kind": HOLED.view(Own),
    "list of rows": list(HOLED),
    "dask": da.from_array(HOLED, chunks=(25, 2)),
    "dask that doesn't say so": da.from_array(X, chunks=(25, 3)).map_blocks(
        lambda block: np.ma.masked_equal(block, X[7, 1]), dtype=float, meta=np.empty((0, 0))
    ),
    "xarray of dask": xr.DataArray(da.from_array(HOLED, chunks=(25, 2)), dims=("s", "f")),
    "netCDF4": NetCDF(),
}


@pytest.mark.parametrize("kind", MASKED)
def test_masked_cells_are_refused_by_row_and_column(kind, model, tmp_path):
    source = MASKED[kind]
    word = "NaN" if "xarray" in kind else "masked entries; fill or drop them first"  # xarray has no masks
    refused(lambda: rows(source), word, AT_7_1)
    if kind in ("numpy", "dask", "netCDF4"):
        refused(lambda: np.asarray(model.transform(source)), "masked entries", AT_7_1)
        refused(lambda: model.transform_to(source, tmp_path / "y.zarr"), "masked entries", AT_7_1)
        assert not list(tmp_path.glob("y*"))


def test_a_mask_that_masks_nothing_is_no_mask():
    free = np.ma.array(X, mask=False)
    for source in (free, da.from_array(free, chunks=(25, 3)), list(free)):
        np.testing.assert_array_equal(rows(source), X)


def test_masked_distances_are_refused_in_fit_and_transform(tmp_path):
    D = np.linalg.norm(X[:, None] - X, axis=-1)
    holed = np.ma.array(D, mask=np.eye(60, k=1) + np.eye(60, k=-1) > 0)
    lazy = da.from_array(holed, chunks=(25, 60))
    for metric in ("precomputed", "geodesic"):
        refused(lambda metric=metric: Isomap(metric=metric).fit(lazy), "masked entries", "row 0, column 1")
    fitted = Isomap(metric="geodesic").fit(D)
    refused(lambda: fitted.transform(lazy[1:5]).compute(), "masked entries", "row 0, column 0")
    refused(lambda: fitted.transform_to(lazy[30:], tmp_path / "y.zarr"), "masked entries", "row 0, column 29")
    refused(lambda: fitted.geodesics(np.ma.array([3, 4], mask=[0, 1])), "masked entries")


def test_masked_pairs_are_left_out_of_the_residual_variance():
    y = np.ma.array([2.0, 4.0, 6.0, 1e9], mask=[0, 0, 0, 1])
    assert residual_variance([1.0, 2.0, 3.0, 4.0], y) == residual_variance([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) < 1e-15


# ---- packed cells --------------------------------------------------------------------------------------------------

PACKED = np.round(X * 100).astype("i2")
PACKED_HOLED = PACKED.copy()
PACKED_HOLED[7, 1] = -32768


def stored(kind, folder, values, **attributes):
    """An array with attributes in a file, and its name on the command line."""
    chunks = (min(25, len(values)), values.shape[1])
    if kind == "hdf5":
        file = h5py.File(folder / "x.h5", "w")
        made = file.create_dataset("x", data=values, chunks=chunks)
        made.attrs.update(attributes)
        file.flush()
        return made, f"{folder}/x.h5::x"
    group = zarr.open_group(str(folder / "x.zarr"), mode="w", zarr_format={"zarr 2": 2, "zarr 3": 3}[kind])
    made = group.create_array("x", shape=values.shape, chunks=chunks, dtype=values.dtype, attributes=attributes)
    made[:] = values
    return made, f"{folder}/x.zarr:x"


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "hdf5"])
def test_values_are_unpacked_in_float64_everywhere(kind, tmp_path, capsys):
    """In fit, transform and on the command line, bit for bit what NumPy gives by hand."""
    array, name = stored(kind, tmp_path, PACKED, scale_factor=0.01, add_offset=1.5, _FillValue=-32768)
    by_hand = PACKED.astype(np.float64) * 0.01 + 1.5
    np.testing.assert_array_equal(rows(array), by_hand)
    expected = Isomap(n_neighbors=8).fit(by_hand)
    fitted = Isomap(n_neighbors=8).fit(array)
    np.testing.assert_array_equal(fitted.embedding_, expected.embedding_)
    np.testing.assert_array_equal(fitted.transform(array), expected.transform(by_hand))
    os.chdir(tmp_path)
    assert run(cli, ["fit", name, "run.zarr", "--neighbors", "8", "--correction", "none", "-q"]) == 0
    assert run(cli, ["project", "run.zarr", name, "y.npy", "-q"]) == 0, capsys.readouterr()
    np.testing.assert_array_equal(load("run.zarr").embedding_, expected.embedding_)
    np.testing.assert_array_equal(np.load("y.npy"), expected.transform(by_hand))
    np.testing.assert_array_equal(read_column(f"{name}:2", 60)[1], by_hand[:, 1])


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "hdf5"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"_FillValue": -32768, "scale_factor": 0.01},
        {"missing_value": -32768},
        {"missing_value": [5000, -32768]},
        {"valid_range": [-30000, 30000]},
        {"valid_min": -30000},
        {"valid_range": [-300.0, 300.0], "scale_factor": 0.01},  # floats beside packed integers: of the values
    ],
)
def test_missing_cells_are_refused_by_row_column_and_attribute(kind, attributes, tmp_path, capsys):
    array, name = stored(kind, tmp_path, PACKED_HOLED, **attributes)
    words = {"_FillValue": "_FillValue is", "missing_value": "missing_value is"}
    word = words.get(next(iter(attributes)), "least valid value is")
    refused(lambda: Isomap(n_neighbors=8).fit(array), f"contains NaN at {AT_7_1}", "-32768", word)
    os.chdir(tmp_path)
    assert run(cli, ["fit", name, "run.zarr"]) == 2 and AT_7_1 in capsys.readouterr().err
    assert not os.path.exists("run.zarr")
    assert np.flatnonzero(np.isnan(read_column(f"{name}:2", 60)[1])).tolist() == [7]


def test_unsigned_cells_and_marks_that_no_cell_can_be(tmp_path):
    bytes_ = np.array([[-1, 2], [3, 4]], "i1")
    array, _ = stored("hdf5", tmp_path, bytes_, _Unsigned="true", scale_factor=0.5, _FillValue=1e20)
    np.testing.assert_array_equal(rows(array), [[127.5, 1], [1.5, 2]])
    array, _ = stored("zarr 3", tmp_path, bytes_, _Unsigned="true", _FillValue=-1)
    refused(lambda: rows(array), "row 0, column 0", "_FillValue is 255")
    longs = np.array([[-(2**63), 2], [3, 4]])
    array, name = stored("hdf5", tmp_path, longs, missing_value=-(2**63), scale_factor=0.5)
    refused(lambda: rows(array), "row 0, column 0", "missing_value is -9223372036854775808")
    np.testing.assert_array_equal(read_column(f"{name}:1", 2)[1], [np.nan, 1.5])


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"scale_factor": "tenth"}, "scale_factor 'tenth'"),
        ({"scale_factor": [1.0, 2.0]}, "one finite number"),
        ({"scale_factor": 0}, "scale_factor 0"),
        ({"missing_value": [[1], [2, 3]]}, "missing_value"),
        ({"valid_range": [1, 2, 3]}, "two numbers"),
        ({"scale_factor": 0.5, "add_offset": "NaN"}, "add_offset"),
    ],
)
def test_attributes_that_can_not_be_meant_so_are_named(attributes, word, tmp_path):
    array, _ = stored("zarr 3", tmp_path, PACKED, **attributes)
    refused(lambda: rows(array), word)


def test_a_fill_value_of_the_format_alone_marks_nothing(tmp_path):
    for at, form in enumerate((2, 3)):
        array = zarr.create_array(str(tmp_path / f"{at}"), shape=(4, 2), dtype="f8", fill_value=0, zarr_format=form)
        np.testing.assert_array_equal(rows(array), np.zeros((4, 2)))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", shape=(4, 2), dtype="f8", fillvalue=7.0)
        np.testing.assert_array_equal(rows(made), np.full((4, 2), 7))
        for dtype, fill in (("f4", 15 * 2.0**119), ("f8", 15 * 2.0**119), ("i2", -32767), ("i4", -(2**31) + 1)):
            made = file.create_dataset(f"of netCDF, {dtype}", shape=(4, 2), dtype=dtype, fillvalue=fill)
            made[:3] = 1
            refused(lambda: rows(made), "contains NaN at row 3, column 0")  # noqa: B023
            made[3] = 1
            np.testing.assert_array_equal(rows(made), np.ones((4, 2)))


@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize(
    "encoding", [{"dtype": "i2", "scale_factor": 0.01, "_FillValue": -32768}, {"_FillValue": -9.5}]
)
def test_what_xarray_wrote_means_the_same_to_all_readers(form, encoding, tmp_path):
    values = np.where(PACKED_HOLED < -9999, np.nan, X)
    for name, part in (("holed", values), ("whole", X)):
        made = xr.Dataset({"x": (("s", "f"), part)})
        made.to_zarr(tmp_path / name, encoding={"x": encoding}, zarr_format=form, consolidated=False)
    array = zarr.open_group(str(tmp_path / "holed"))["x"]
    refused(lambda: rows(array), f"contains NaN at {AT_7_1}")
    whole = zarr.open_group(str(tmp_path / "whole"))["x"]
    np.testing.assert_allclose(rows(whole), X, atol=0.006)
    for chunks in ({}, None):  # with Dask, and without
        opened = [
            xr.open_zarr(tmp_path / "holed", chunks=chunks, consolidated=False, mask_and_scale=decoded)["x"]
            for decoded in (True, False)
        ]
        refused(lambda: rows(opened[0]), f"contains NaN at {AT_7_1}")  # noqa: B023
        words = ["scale_factor", "mask_and_scale=True"] if "scale_factor" in encoding else [AT_7_1]
        refused(lambda: rows(opened[1]), *words)  # noqa: B023


@pytest.mark.parametrize("kind", ["zarr 3", "hdf5"])
def test_dask_arrays_of_packed_ones_are_unpacked_unless_somebody_did(kind, tmp_path):
    array, _ = stored(kind, tmp_path, PACKED_HOLED, scale_factor=0.01, _FillValue=-32768)
    lazy = da.from_array(array, chunks=(30, 3))
    by_hand = PACKED.astype(np.float64) * 0.01
    for given in (lazy, lazy.rechunk((7, 2)), lazy[2:], lazy.astype(float)):
        refused(lambda given=given: rows(given), "contains NaN at row", "column 1")
    for given in (lazy[8:], lazy[8:].rechunk((7, 2)), lazy[8:] * 0.01, lazy[8:].astype("f8"), lazy[8:].astype("f4")):
        np.testing.assert_array_equal(rows(given), by_hand[8:])
    refused(lambda: rows(da.concatenate([lazy[8:], da.from_array(array, chunks=(9, 3))])), "several arrays", "unpack")


def test_packed_distances_are_unpacked(tmp_path):
    D = np.round(np.linalg.norm(X[:, None] - X, axis=-1) * 100).astype("i2")
    array, _ = stored("zarr 3", tmp_path, D, scale_factor=0.01)
    found = Isomap(metric="geodesic").fit(array).geodesics(range(60))
    np.testing.assert_allclose(found, D * 0.01, rtol=1e-6)


def test_a_netcdf4_variable_that_does_not_unpack_is_refused():
    raw = NetCDF()
    raw.mask = False
    raw.ndim = 2
    for given in (raw, da.from_array(raw, chunks=(25, 3), asarray=False, meta=np.empty((0, 0), "i2"))):
        refused(lambda given=given: rows(given), "set_auto_maskandscale(True)")


# ---- columns -------------------------------------------------------------------------------------------------------

BIG = 2**53 + 1


def frame(**columns):
    return pd.DataFrame({"a": [1.5, 2.5], **columns})


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (frame(b=pd.array([1, 2], "Int64")), [1, 2]),
        (frame(b=pd.array([True, False], "boolean")), [1, 0]),
        (frame(b=pd.array([0.1, 2], "Float64")), [0.1, 2]),
        (frame(b=pd.array([3, 4], pd.ArrowDtype(pa.int32()))), [3, 4]),
        (frame(b=[Decimal("0.1"), Decimal("2.50")]), [0.1, 2.5]),
        (frame(b=pd.arrays.SparseArray([0, 7])), [0, 7]),
        (pa.table({"a": [1.5, 2.5], "b": [1, 2]}), [1, 2]),
        (pa.table([pa.array([1.5, 2.5]), pa.array([3, 4])], names=["a", "a"]), [3, 4]),
        (pd.DataFrame([[1.5, 3], [2.5, 4]], columns=["a", "a"]), [3, 4]),
    ],
)
def test_columns_are_read_as_what_they_are(columns, expected):
    np.testing.assert_array_equal(rows(columns), np.c_[[1.5, 2.5], expected])


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.array([1, BIG], "Int64"), ["9007199254740993", "not exact"]),
        (pd.array([1, BIG], pd.ArrowDtype(pa.int64())), ["9007199254740993", "not exact"]),
        ([1, BIG], ["9007199254740993", "not exact"]),  # NumPy would round it beside floats
        ([Decimal(1), Decimal("1600000000000000000.25")], ["1600000000000000000.25", "not exact"]),
        ([Decimal(1), None], ["NaN at row 1, column 1"]),
        (pd.array([1, None], "Int64"), ["NaN at row 1, column 1"]),
        (pd.array([True, None], "boolean"), ["NaN at row 1, column 1"]),
        (pd.array([0.5, None], "Float64"), ["NaN at row 1, column 1"]),
        (pd.array([0.5, None], pd.ArrowDtype(pa.float32())), ["NaN at row 1, column 1"]),
        (pd.Categorical([1, 2]), ["'b'", "category"]),
        (pd.to_datetime(["2020", "2021"]), ["'b'", "datetime64"]),
        (pd.to_datetime(["2020", "2021"]).tz_localize("UTC"), ["'b'", "Timestamp"]),
        (pd.period_range("2020", periods=2), ["'b'", "Period"]),
        (pd.array(["1", "2"], "string"), ["'b'", "'1'"]),
        (["x", "y"], ["'b'", "'x'"]),
        ([1j, 2], ["omplex", "'b'"]),
    ],
)
def test_columns_that_are_no_numbers_of_float64_are_refused(column, words):
    refused(lambda: rows(frame(b=column)), *words)
    with dask.config.set({"dataframe.convert-string": False}):  # of any object: it makes text of decimals
        refused(lambda: rows(dd.from_pandas(frame(b=column), npartitions=1)), *words)


def test_missing_objects_have_a_place():
    for missing in (None, pd.NA, pd.NaT, float("nan"), np.ma.masked):
        cells = X.astype(object)
        cells[7, 1] = missing
        refused(lambda cells=cells: rows(cells), f"contains NaN at {AT_7_1}")
    refused(lambda: rows(np.array([[1, 2**60]], object)), "1152921504606846976", "not exact")


# ---- labels --------------------------------------------------------------------------------------------------------

LABELS = {
    "text": ["a", "b", "c"],
    "floats": [400.0, 410.0, 420.0],
    "integers": [5, 6, 7],
    "tuples": pd.MultiIndex.from_tuples([("r", 1), ("r", 2), ("g", 1)]),
    "dates": pd.date_range("2020", periods=3),
    "counted": [0, 1, 2],
}


@pytest.mark.parametrize("kind", LABELS)
def test_reordered_features_are_refused_whatever_their_labels_are(kind, tmp_path):
    table = pd.DataFrame(X, columns=LABELS[kind])
    fitted = Isomap(n_neighbors=8, store=tmp_path / "run").fit(table)
    turned = table.iloc[:, ::-1]
    for one in (fitted, load(tmp_path / "run"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_allclose(one.transform(table), fitted.embedding_, atol=1e-9)
        refused(lambda one=one: one.transform(turned), "in another order")
        refused(lambda one=one: one.transform_to(turned, tmp_path / "y"), "in another order")
        refused(lambda one=one: one.transform(dd.from_pandas(turned, npartitions=2)), "in another order")
    if kind != "tuples":
        named = xr.DataArray(X, dims=("s", "f"), coords={"f": LABELS[kind]})
        for given in (named, named.chunk(s=25)):
            np.testing.assert_allclose(scalemani.xarray.transform(fitted, given), fitted.embedding_, atol=1e-9)
            refused(lambda given=given: scalemani.xarray.transform(fitted, given[:, ::-1]), "in another order")
            refused(lambda given=given: fitted.transform(given[:, ::-1]), "in another order")
    renamed = table.set_axis(["x", "y", "z"], axis=1)
    if kind == "counted":
        assert not hasattr(fitted, "feature_names_in_")
        fitted.transform(X)  # neither has names: nothing to say
        with pytest.warns(FeatureNamesWarning, match="X has feature names and the model has none"):
            fitted.transform(renamed)
    else:
        refused(lambda: fitted.transform(renamed), " missing")
        with pytest.warns(FeatureNamesWarning, match="X has no feature names and the model has them"):
            fitted.transform(X)


def test_labels_of_xarray_and_of_frames_in_obsm(tmp_path):
    named = xr.DataArray(X, dims=("pixel", "band"), coords={"band": [400.0, 410.0, 420.0]})
    found = scalemani.xarray.kernel_isomap(named, correction=None, n_neighbors=8, store=tmp_path / "x")
    with pytest.raises(ScalemaniError, match=r"da has the columns 420.0, 410.0, 400.0; the model was fitted on 400.0"):
        scalemani.xarray.transform(tmp_path / "x", named[:, ::-1])

    names = [f"c{i}" for i in range(60)]
    obsm = pd.DataFrame(X, index=names, columns=["p", "q", "r"])
    cells = anndata.AnnData(X, obs=pd.DataFrame(index=names), obsm={"features": obsm})
    turned = anndata.AnnData(X, obs=pd.DataFrame(index=names), obsm={"features": obsm[["r", "q", "p"]]})
    scalemani.anndata.kernel_isomap(cells, "features", correction=None, n_neighbors=8, store=tmp_path / "a")
    np.testing.assert_array_equal(cells.obsm["X_isomap"], found.values)
    refused(lambda: scalemani.anndata.project(turned, tmp_path / "a", "features"), "obsm['features']", "another order")


def test_the_same_number_is_the_same_label(model, tmp_path):
    """As a heading of a table, too: 400 and 400.0, a date of pandas and of Python."""
    fitted = Isomap(n_neighbors=8).fit(pd.DataFrame(X, columns=[400, 410, 420]))
    fitted.transform(pd.DataFrame(X, columns=["400.0", "410", "420.0"]))
    fitted.name_features([datetime.datetime(2020, 1, day) for day in (1, 2, 3)])
    fitted.transform(pd.DataFrame(X, columns=pd.date_range("2020", periods=3)))


# ---- text of HDF5's attributes --------------------------------------------------------------------------------------


def spaces(text):
    """As Fortran pads it."""
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(len(text) + 3)
    kind.set_strpad(h5py.h5t.STR_SPACEPAD)
    return np.array(text.encode(), dtype=f"S{len(text) + 3}"), h5py.Datatype(kind)


WRITERS = {
    "h5py, anndata": lambda text: (text, None),
    "HDF5.jl, rhdf5, PyTables": lambda text: (np.bytes_(text), None),
    "hdf5r": lambda text: (np.array([text], object), h5py.string_dtype()),
    "MATLAB": lambda text: (np.array([text.encode()]), None),
    "ASCII": lambda text: (text, h5py.string_dtype("ascii")),
    "padded with spaces": spaces,
}


def write_cells(path, of, names, form):
    """An .h5ad of 60 cells whose attributes are text of some kind, with X as a matrix or sparse."""

    def say(node, **said):
        for name, text in said.items():
            value, dtype = of(text)
            node.attrs.create(name.replace("_type", "-type"), value, dtype=dtype)

    with h5py.File(path, "w") as file:
        if form == "dense":
            file["X"] = X
        else:
            matrix = sp.csr_array(X)
            group = file.create_group("X")
            say(group, encoding_type="csr_matrix")
            group.attrs["shape"] = matrix.shape
            group["data"], group["indices"], group["indptr"] = matrix.data, matrix.indices, matrix.indptr
        for table, index in (("obs", [f"c{i}" for i in range(60)]), ("var", names)):
            group = file.create_group(table)
            say(group, encoding_type="dataframe", _index="index")
            group["index"] = np.array(index, "S")
        kinds = file["obs"].create_group("kind")
        say(kinds, encoding_type="categorical")
        kinds["codes"], kinds["categories"] = np.arange(60) % 2, np.array(["x", "y"], "S")


@pytest.mark.parametrize("writer", WRITERS)
def test_names_in_an_h5ad_are_found_whoever_wrote_it(writer, tmp_path, capsys):
    os.chdir(tmp_path)
    write_cells("x.h5ad", WRITERS[writer], ["g1", "g2", "g3"], "sparse")
    write_cells("turned.h5ad", WRITERS[writer], ["g3", "g2", "g1"], "dense")
    fit = ["fit", "x.h5ad::X", "run.zarr", "--neighbors", "8", "--correction", "none", "-q"]
    assert run(cli, [*fit, "--id-column", "obs_names", "--embedding", "y.csv"]) == 0, capsys.readouterr().err
    assert Path("y.csv").read_text().splitlines()[1].startswith("c0,")
    assert load("run.zarr").feature_names_in_.tolist() == ["g1", "g2", "g3"]
    assert run(cli, ["project", "run.zarr", "turned.h5ad::X", "z.npy", "-q"]) == 2
    assert "has the columns g3, g2, g1; run.zarr was fitted on g1, g2, g3" in capsys.readouterr().err
    assert read_column("x.h5ad::obs/kind", 60)[1][:2] == ["x", "y"]


# ---- home folders ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_home_folder_is_found_by_the_estimator_and_on_the_command_line(tmp_path, monkeypatch, capsys):
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    fitted = Isomap(n_neighbors=8, store="~/run.zarr").fit(X)
    assert fitted.store_ == str(home / "run.zarr") == load(Path("~/run.zarr")).store_
    fitted.export("~/model.zarr")
    fitted.transform_to(X[:5], "~/y.zarr")
    np.save(home / "x.npy", X)
    np.save(home / "c.npy", X[:, 0])
    for words in (
        "fit ~/x.npy ~/again.zarr --neighbors 8 --correction none --embedding=~/e.csv -q",
        "project ~/model.zarr ~/x.npy ~/z.npy -q",
        "export ~/again.zarr ~/copy.zarr -q",
        "info ~/again.zarr",
        "verify ~/again.zarr",
        "report ~/again.zarr ~/page.html --colour ~/c.npy -q",
    ):
        assert run(cli, words.split()) == 0, (words, capsys.readouterr().err)
    made = {"run.zarr", "model.zarr", "y.zarr", "again.zarr", "e.csv", "z.npy", "copy.zarr", "page.html"}
    assert made < {entry.name for entry in home.iterdir()} and not list(here.iterdir())
    assert run(cli, ["project", "~/model.zarr", "./~x.npy", "./~/z.npy"]) == 2
    refused(lambda: Isomap(store="~nobody-of-that-name/run").fit(X), "'./~nobody-of-that-name/run'")


def test_a_name_that_begins_with_a_tilde_is_kept_where_it_is_given_with_its_folder(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~").mkdir()
    model.export("./~/model")
    model.transform_to(X[:5], "./~y")
    assert load("./~/model").store_ == str(tmp_path / "~" / "model") and (tmp_path / "~y").is_dir()


def test_a_column_that_pandas_read_without_a_heading_is_named(tmp_path):
    """It usually holds the numbers of the rows, as `to_csv` writes them."""
    pd.DataFrame(roll(40)).to_csv(tmp_path / "written.csv")
    with pytest.warns(FeatureNamesWarning, match=r"'Unnamed: 0', .* read the file with index_col=0"):
        Isomap(n_neighbors=8).fit(pd.read_csv(tmp_path / "written.csv"))
    with pytest.raises(ScalemaniError, match="column 1, 'kind'; give"):  # the name is said once
        Isomap().fit(pd.DataFrame({"x": [0.0, 1.0], "kind": ["a", "b"]}))
