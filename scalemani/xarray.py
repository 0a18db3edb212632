"""DataArrays in and out: samples and features go in, samples and components come out, with the samples' coordinates.

:class:`scalemani.Isomap` takes DataArrays too, rows first, and gives bare arrays.
"""

from typing import Any

import numpy as np

from scalemani.errors import ScalemaniError, meant, naming_columns, needed
from scalemani.estimators import LLE, Isomap, IsometricProjection, KernelIsomap, LaplacianEigenmaps, StressIsomap, load
from scalemani.estimators.embedder import Embedder
from scalemani.methods import word_of
from scalemani.points.labels import feature_labels, is_labeled, labeled_rows

__all__ = ["isomap", "isometric_projection", "kernel_isomap", "laplacian_eigenmaps", "lle", "stress", "transform"]

_COMPONENT = "component"


def isomap(da: Any, dim: str | None = None, **parameters: Any) -> Any:
    """Embed the samples of a DataArray by Isomap: geodesic distances as they are.

    Parameters
    ----------
    da : xarray.DataArray, two dimensions
        In memory, opened from a file or backed by Dask; the last two are read by blocks of samples. Features of several
        dimensions are stacked before: ``images.stack(feature=("y", "x"))``.
    dim : str, optional
        The dimension of the samples; the first unless given.
    **parameters
        Those of :class:`scalemani.Isomap`. With ``store="run.zarr"`` the model is kept, for :func:`transform`.

    Returns
    -------
    xarray.DataArray, dimensions (`dim`, "component")
        Named "isomap". Coordinates of `da` that don't depend on the features are kept, a MultiIndex too; components are
        numbered from 1. Attributes: "eigenvalues", "additive_constant", "correction" and, if one was given, "store".

    Raises
    ------
    ScalemaniError
        Other than two dimensions, no such dimension, one called "component", and what `Isomap.fit` refuses.
    """
    return _embed(Isomap, da, dim, parameters)


def kernel_isomap(da: Any, dim: str | None = None, **parameters: Any) -> Any:
    """Embed the samples of a DataArray by kernel Isomap, which adds a constant to the distances.

    Everything else is as in :func:`isomap`; the constant is ``correction="cailliez"`` unless another one is given.
    """
    return _embed(KernelIsomap, da, dim, parameters)


def isometric_projection(da: Any, dim: str | None = None, labels: Any = None, **parameters: Any) -> Any:
    """Map the samples of a DataArray linearly, so that geodesic distances are kept as well as can be.

    labels : array-like, shape (n_samples,), optional
        Labels of the samples, in their order: a coordinate of `da` such as ``da["species"]``.

    Everything else is as in :func:`isomap`, with the parameters of :class:`scalemani.IsometricProjection`. The result
    is named "isometric_projection", and has the attribute "ridge" in the place of those of the constant.
    """
    return _embed(IsometricProjection, da, dim, parameters, labels)


def lle(da: Any, dim: str | None = None, **parameters: Any) -> Any:
    """Embed the samples of a DataArray by locally linear embedding, with the parameters of :class:`scalemani.LLE`.

    Everything else is as in :func:`isomap`; the result is named "lle" and has "reg" in the place of the constant.
    """
    return _embed(LLE, da, dim, parameters)


def laplacian_eigenmaps(da: Any, dim: str | None = None, **parameters: Any) -> Any:
    """Embed the samples of a DataArray by Laplacian eigenmaps, or with `alpha` by a diffusion map.

    Everything else is as in :func:`isomap`, with the parameters of :class:`scalemani.LaplacianEigenmaps`; the result is
    named "laplacian_eigenmaps" and has "sigma" and "alpha", where there are any, in the place of the constant.
    """
    return _embed(LaplacianEigenmaps, da, dim, parameters)


def stress(da: Any, dim: str | None = None, **parameters: Any) -> Any:
    """Embed the samples of a DataArray by the least raw stress of geodesic distances.

    Everything else is as in :func:`isomap`, with the parameters of :class:`scalemani.StressIsomap`; the result is named
    "stress" and has "stress_1" and "raw_stress" in the place of the eigenvalues and the constant.
    """
    return _embed(StressIsomap, da, dim, parameters)


def _embed(estimator: Any, da: Any, dim: str | None, parameters: dict[str, Any], labels: Any = None) -> Any:
    """All methods: see :func:`isomap`."""
    da = _samples_first(da, dim)
    model = estimator(**parameters).fit(da, labels)
    found = _labeled(da, model.embedding_, model)
    told = "additive_constant", "correction", "ridge", "reg", "sigma", "alpha", "stress_1", "raw_stress"
    found.attrs = {
        **({"eigenvalues": model.eigenvalues_} if hasattr(model, "eigenvalues_") else {}),
        **{
            name: str(value) if value is None else value
            for name, value in model.spectrum_.items()
            if name in told and (value is not None or name not in ("sigma", "alpha"))
        },
        **({} if model.store is None else {"store": str(model.store_)}),
    }
    return found


def transform(model: Any, da: Any, dim: str | None = None) -> Any:
    """Place the samples of a DataArray in a fit.

    Parameters
    ----------
    model : path, or a fitted estimator
        A path is that of a store.
    da : xarray.DataArray, two dimensions
        A Dask array inside gives one inside the result, which is lazy.
    dim : str, optional
        The dimension of the samples; the first unless given.

    Returns
    -------
    xarray.DataArray, dimensions (`dim`, "component")
        As :func:`isomap` gives it.

    Raises
    ------
    ScalemaniError
        Features whose names are others than those of the fit, or in another order; and what `transform` refuses.
    """
    fitted = model if isinstance(model, Embedder) else load(model)
    da = _samples_first(da, dim)
    with naming_columns(fitted._check_features(feature_labels(da), "da")):
        return _labeled(da, fitted._run.transform(da, fitted.scheduler), fitted)


def _samples_first(da: Any, dim: str | None) -> Any:
    """The matrix with samples as rows."""
    if not is_labeled(da):
        raise ScalemaniError(f"da is of the type {type(da).__name__}: an xarray DataArray is needed")
    labeled_rows(da, "da")  # refuses what has other than two dimensions
    if dim is not None and dim not in da.dims:
        what = meant(dim, da.dims, "give one of them")
        raise ScalemaniError(f"dim={dim!r} is not among the dimensions {tuple(da.dims)!r}; {what}")
    if dim is not None:
        da = da.transpose(dim, ...)
    samples, features = da.dims
    if da.shape[1] == 0:
        raise ScalemaniError(f"da has no features, {features!r} being of length 0: at least one is needed")
    if _COMPONENT in {samples, *_of_samples(da).coords}:
        raise ScalemaniError(f"{_COMPONENT!r} names the new dimension: call the one of da otherwise, with da.rename")
    return da


def _of_samples(da: Any) -> Any:
    """What has the coordinates of the samples alone: one feature of it, unread."""
    return da.isel({da.dims[1]: slice(0, 1)}).squeeze(da.dims[1], drop=True)


def _labeled(da: Any, values: Any, model: Embedder) -> Any:
    xr = needed("xarray", "xarray", "scalemani.xarray")
    coords = _of_samples(da).coords.assign({_COMPONENT: np.arange(1, values.shape[1] + 1)})
    name = word_of(type(model)).removeprefix("kernel-").replace("-", "_")
    return xr.DataArray(values, dims=(da.dims[0], _COMPONENT), coords=coords, name=name)
