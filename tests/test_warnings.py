"""Every warning points at the caller's own line, whatever public call it comes from and however deep."""

import inspect
import re
import warnings
from pathlib import Path

import anndata
import numpy as np
import pytest
import xarray as xr
from sklearn.pipeline import make_pipeline

import scalemani
import scalemani.anndata
import scalemani.xarray
from scalemani import Isomap, KernelIsomap, load
from scalemani.errors import ScalemaniWarning

LINE = np.arange(20.0)[:, None] * [[1.0, 1.0]]  # one axis: a second one is empty
APART = np.concatenate([LINE, LINE[:6] + 1e4])  # of two parts, the smaller one without coordinates


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A fit of the larger part alone: rows near the other one have no path to it."""
    store = tmp_path_factory.mktemp("warned") / "run.zarr"
    return Isomap(2, 1, disconnected="largest", store=store).fit(APART)


def as_data(rows):
    return xr.DataArray(rows, dims=("row", "feature"))


def cells(rows):
    return anndata.AnnData(rows)


CALLS = {
    "fit": lambda m: Isomap(2, 2).fit(LINE),
    "fit_transform": lambda m: KernelIsomap(2, 2).fit_transform(LINE),
    "fit in a pipeline": lambda m: make_pipeline(Isomap(2, 2)).fit(LINE),
    "fit_transform in a pipeline": lambda m: make_pipeline(Isomap(2, 2)).fit_transform(LINE),
    "anndata.isomap": lambda m: scalemani.anndata.isomap(cells(LINE), n_neighbors=2),
    "anndata.kernel_isomap": lambda m: scalemani.anndata.kernel_isomap(cells(LINE), n_neighbors=2),
    "xarray.isomap": lambda m: scalemani.xarray.isomap(as_data(LINE), n_neighbors=2),
    "xarray.kernel_isomap": lambda m: scalemani.xarray.kernel_isomap(as_data(LINE), n_neighbors=2),
    "transform": lambda m: m.transform(APART),
    "transform of a loaded model": lambda m: load(m.store_).transform(APART),
    "anndata.project": lambda m: scalemani.anndata.project(cells(APART), m),
    "xarray.transform": lambda m: scalemani.xarray.transform(m, as_data(APART)),
    "looks like distances": lambda m: Isomap(2, 1).fit(abs(LINE[:, 0] - LINE[:, :1])),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_warning_points_at_the_line_that_called(model, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(model)
    own = [warning for warning in caught if issubclass(warning.category, ScalemaniWarning)]
    assert own
    for warning in own:
        assert (warning.filename, warning.lineno) == (__file__, inspect.getsourcelines(call)[1]), warning.message


def test_all_warnings_are_given_in_the_one_place_that_finds_the_line():
    root = Path(scalemani.__file__).parent
    found = {path.name for path in root.rglob("*.py") if re.search(r"warnings\.warn\b", path.read_text("utf-8"))}
    assert not found
