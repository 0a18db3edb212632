"""xarray in and out: the same coordinates as from NumPy, with the labels of the samples, read by blocks."""

import anndata
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import scalemani.anndata
from scalemani import Isomap, KernelIsomap
from scalemani.errors import ScalemaniError
from scalemani.points import reading
from scalemani.points.labels import labeled_rows
from scalemani.xarray import isomap, kernel_isomap, transform

FIT = {"n_neighbors": 6, "correction": None}
ROWS = np.random.default_rng(0).random((60, 4))


@pytest.fixture(scope="module")
def model():
    """The same fit from NumPy."""
    return KernelIsomap(**FIT).fit(ROWS)


@pytest.fixture
def da():
    """60 times and 4 bands, with coordinates of each, of the times alone and of none."""
    coords = {"time": np.arange(60) * 2, "band": list("rgbn"), "station": ("time", ["a", "b"] * 30), "height": 3.0}
    return xr.DataArray(ROWS, dims=("time", "band"), coords=coords, attrs={"unit": "m"})


@pytest.mark.parametrize("chunks", [None, {"time": 25, "band": 3}])
def test_an_estimator_takes_a_data_array_as_it_takes_its_numbers(da, model, chunks):
    given = da if chunks is None else da.chunk(chunks)
    fitted = KernelIsomap(**FIT).fit(given)
    np.testing.assert_array_equal(fitted.embedding_, model.embedding_)
    placed = fitted.transform(given)
    assert isinstance(placed, dask.array.Array) == (chunks is not None)
    np.testing.assert_allclose(placed, model.transform(ROWS), atol=1e-12)


def test_coordinates_of_the_samples_are_kept(da, model, tmp_path):
    found = kernel_isomap(da.T, dim="time", store=tmp_path / "run.zarr", **FIT)
    np.testing.assert_array_equal(found.values, model.embedding_)
    assert found.dims == ("time", "component") and found.component.values.tolist() == [1, 2]
    for name in ("time", "station", "height"):
        xr.testing.assert_identical(found.coords[name].reset_coords(drop=True), da.coords[name].reset_coords(drop=True))
    assert "band" not in found.coords
    np.testing.assert_array_equal(found.attrs["eigenvalues"], model.eigenvalues_)

    placed = transform(tmp_path / "run.zarr", da[5:9].chunk(time=2))
    assert isinstance(placed.data, dask.array.Array) and placed.dims == ("time", "component")
    np.testing.assert_allclose(placed, found[5:9], atol=1e-10)
    xr.testing.assert_identical(placed.station.reset_coords(drop=True), da[5:9].station.reset_coords(drop=True))
    with pytest.raises(ScalemaniError, match="in another order: give da"):
        transform(tmp_path / "run.zarr", da[:, ::-1])


@pytest.mark.filterwarnings("ignore::scalemani.errors.AdditiveConstantWarning")
def test_isomap_and_kernel_isomap_are_their_estimators(da):
    for function, kind, correction in ((isomap, Isomap, "none"), (kernel_isomap, KernelIsomap, "cailliez")):
        found = function(da, n_neighbors=6)
        np.testing.assert_array_equal(found.values, kind(n_neighbors=6).fit(ROWS).embedding_)
        assert found.attrs["correction"] == correction


def test_samples_that_were_stacked_can_be_unstacked(model):
    grid = xr.DataArray(ROWS.reshape(10, 6, 4), dims=("y", "x", "band")).stack(pixel=("y", "x"))
    image = kernel_isomap(grid, dim="pixel", **FIT).unstack("pixel")
    np.testing.assert_array_equal(image.transpose("y", "x", "component"), model.embedding_.reshape(10, 6, 2))


def test_what_lies_in_a_file_is_read_by_blocks(monkeypatch):
    """Opened without chunks it is no Dask array, and each block is read by itself; parts that are read are counted."""
    taken = []

    class InFile(xr.backends.BackendArray):
        shape, dtype = ROWS.shape, ROWS.dtype

        def __getitem__(self, key):
            return xr.core.indexing.explicit_indexing_adapter(
                key, self.shape, xr.core.indexing.IndexingSupport.BASIC, self.part
            )

        def part(self, key):
            taken.append(key[0])
            return ROWS[key]

    lazy = xr.DataArray(xr.Variable(("time", "band"), xr.core.indexing.LazilyIndexedArray(InFile())))
    monkeypatch.setattr(reading, "BLOCK_BYTES", 8 * 4 * 25)
    blocks = [block for _, block in reading.row_blocks(lazy)]
    np.testing.assert_array_equal(np.concatenate(blocks), ROWS)
    assert [part.indices(60)[:2] for part in taken] == [(0, 25), (25, 50), (50, 60)]


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda da: da.expand_dims(x=2), {}, "X.stack(feature=('time', 'band'))"),
        (lambda da: da[0], {}, "X.expand_dims"),
        (lambda da: da.to_dataset(name="a"), {}, "is an xarray Dataset: give a DataArray"),
        (lambda da: da, {"dim": "x"}, "dim='x' is not among the dimensions ('time', 'band')"),
        (lambda da: da.rename(time="component"), {}, "'component' names the new dimension"),
        (lambda da: da[:, :0], {}, "X has no features, 'band' being of length 0"),
        (lambda da: da[:0], {}, "has 0 sample(s)"),
        (lambda da: da.values, {}, "an xarray DataArray is needed"),
    ],
)
def test_wrong_use_is_one_line(da, change, options, words):
    with pytest.raises(ScalemaniError) as caught:
        kernel_isomap(change(da), **options)
    said = str(caught.value)
    assert words in said.replace("da has", "X has") and "\n" not in said


def test_the_estimator_says_what_to_stack(da):
    with pytest.raises(
        ScalemaniError, match=r"stack the features into one, as in X.stack\(feature=\('time', 'band'\)\)"
    ):
        KernelIsomap().fit(da.expand_dims(x=2))
    with pytest.raises(ScalemaniError, match="complex"):
        list(reading.row_blocks(da.astype(complex)))
    assert labeled_rows(da, "X")[2:4, 1:].shape == (2, 3)


def test_an_error_of_a_cell_names_its_column_wherever_the_names_come_from():
    """Data frames of pandas and Dask, in a fit, a plan and a projection; DataArrays; an AnnData's variables."""
    frame = pd.DataFrame(ROWS, columns=["height", "weight", "age", "X"])
    model = KernelIsomap(**FIT).fit(frame)
    bad, text = frame.copy(), frame.astype(object)
    bad.iloc[3, 1], text.iloc[5, 3] = np.nan, "a"
    labeled = xr.DataArray(bad.to_numpy(), dims=("row", "feature"), coords={"feature": list(frame.columns)})
    cells = anndata.AnnData(bad.to_numpy(), var=pd.DataFrame(index=list(frame.columns)))
    for call in (
        lambda: KernelIsomap().fit(bad),
        lambda: KernelIsomap().plan(bad),
        lambda: KernelIsomap().fit(dask.dataframe.from_pandas(bad, npartitions=2)),
        lambda: model.transform(bad),
        lambda: model.transform_to(bad, "never"),
        lambda: isomap(labeled),
        lambda: scalemani.anndata.isomap(cells),
    ):
        with pytest.raises(ScalemaniError, match=r"NaN at row 3, column 1, 'weight'"):
            call()
    with pytest.raises(ScalemaniError, match=r"'a' at row 5, column 3, 'X'"):
        model.transform(text)
