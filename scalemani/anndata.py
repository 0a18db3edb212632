"""AnnData in and out, as scanpy's tools do it: coordinates go to obsm and an account of the fit to uns.

Nothing of anndata is imported: who has an AnnData has it. A backed X is read by blocks of rows.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from scalemani.errors import ScalemaniError, meant, naming_columns
from scalemani.estimators import (
    LLE,
    Embedder,
    Isomap,
    IsometricProjection,
    KernelIsomap,
    LaplacianEigenmaps,
    StressIsomap,
    load,
)
from scalemani.graph.edges import csr_of, two_directions
from scalemani.methods import word_of
from scalemani.neighbors.functions import function_name
from scalemani.neighbors.metrics import GIVEN_METRICS
from scalemani.parameters import PASSING
from scalemani.points.cells import RowSource
from scalemani.points.labels import feature_labels, unnumbered

__all__ = ["isomap", "isometric_projection", "kernel_isomap", "laplacian_eigenmaps", "lle", "project", "stress"]

_FIGURES = (
    *("correction", "constant_over_median", "median_distance", "share", "share_unshifted", "negative_mass"),
    *("eigenvalues_unshifted", "next_eigenvalue", "gap", "residuals", "knn_recall", "n_passes"),
    *("converged", "warnings"),
    *("trace", "rank", "ridge", "gamma", "n_references", "negative_share"),  # of isometric projection
    *("sigma", "trace_error", "forgotten"),  # of methods without distances
    *("stress_1", "raw_stress", "stress_by_read", "stress_1_of_start"),  # of raw stress
)
_ROWS_TOGETHER = 1024  # of a backed sparse X


def isomap(
    adata: Any,
    use_rep: str | None = None,
    key_added: str = "isomap",
    *,
    use_distances: bool = False,
    neighbors_key: str | None = None,
    copy: bool = False,
    **parameters: Any,
) -> Any:
    """Embed the observations of an AnnData by Isomap: geodesic distances as they are.

    Parameters
    ----------
    adata : anndata.AnnData, n_obs x n_vars
        X may be dense, sparse, a Dask array or backed (CSC on disk is read as a whole).
    use_rep : str, optional
        A key of obsm, or "X". None: "X_pca" if it is there, else "X".
    key_added : str, default "isomap"
        Coordinates go to ``obsm["X_" + key_added]`` and the account to ``uns[key_added]``, for any key; scanpy's
        ``sc.pl.embedding(adata, basis=key_added)`` finds them. A key that begins with "X_" is the one in obsm.
    use_distances : bool, default False
        The graph is ``obsp["distances"]``, as ``sc.pp.neighbors`` leaves it, and nothing is searched. Each row lists
        its own neighbours there; two observations are joined if either lists the other (with ``graph="mutual"`` if
        both do), by the smaller length if both do. Stored zeros, distances between duplicates, are edges. (scanpy
        keeps them; where another tool has dropped them, they are no edges.) A dense matrix is one of all distances,
        to choose `n_neighbors` from.
    neighbors_key : str, optional
        The entry of uns whose "distances_key" names it, as ``sc.pp.neighbors(key_added=...)`` writes it; "neighbors".
    copy : bool, default False
        Leave `adata` as it is, and return a copy with the results.
    **parameters
        Those of :class:`scalemani.Isomap`. With ``store="run.zarr"`` the model is kept, for :func:`project`.

    Returns
    -------
    None or AnnData
        ``obsm["X_isomap"]`` is float64, (n_obs, n_components), NaN for rows that ``disconnected="largest"`` leaves out.
        ``uns["isomap"]`` holds "params" (those that are not None), "eigenvalues", "additive_constant",
        "spectrum" (main figures of ``spectrum_``) and, if one was given, "store"; it can be
        written to .h5ad and .zarr.

    Raises
    ------
    ScalemaniError
        No such key; a metric or `use_rep` together with `use_distances`; and what `Isomap.fit` refuses.
    """
    return _embed(
        Isomap,
        adata,
        use_rep,
        key_added,
        use_distances=use_distances,
        neighbors_key=neighbors_key,
        copy=copy,
        **parameters,
    )


def kernel_isomap(adata: Any, use_rep: str | None = None, key_added: str = "isomap", **options: Any) -> Any:
    """Embed the observations of an AnnData by kernel Isomap, which adds a constant to the distances.

    Everything else is as in :func:`isomap`; the constant is ``correction="cailliez"`` unless another one is given, and
    in ``uns["isomap"]["params"]`` a correction that is None is "none".
    """
    return _embed(KernelIsomap, adata, use_rep, key_added, **options)


def isometric_projection(
    adata: Any,
    use_rep: str | None = None,
    key_added: str = "isometric_projection",
    *,
    labels: str | None = None,
    **options: Any,
) -> Any:
    """Embed the observations of an AnnData by isometric projection, a linear map of the features.

    Everything else is as in :func:`isomap`, but that distances alone are not enough. Where X itself is mapped, by the
    linear kernel, ``varm[key_added]`` has the weight of each variable on each axis.

    Parameters
    ----------
    labels : str, optional
        The column of obs with the class of each observation, for the supervised form. Missing ones are refused.
    """
    if labels is not None and (not isinstance(labels, str) or labels not in getattr(adata, "obs", {})):
        known = ", ".join(map(repr, getattr(adata, "obs", {}))) or "none"
        given = repr(labels) if isinstance(labels, str) else f"of the type {type(labels).__name__}"
        what = meant(labels, getattr(adata, "obs", {}), "give the name of one")
        raise ScalemaniError(f"labels={given} is no column of obs ({known}): {what}")
    return _embed(IsometricProjection, adata, use_rep, key_added, labels=labels, **options)


def lle(adata: Any, use_rep: str | None = None, key_added: str = "lle", **options: Any) -> Any:
    """Embed the observations of an AnnData by locally linear embedding.

    Everything else is as in :func:`isomap`, with the parameters of :class:`scalemani.LLE`, but that distances alone are
    not enough: `use_distances` is refused. "eigenvalues" rise; there is no constant.
    """
    return _embed(LLE, adata, use_rep, key_added, **options)


def laplacian_eigenmaps(
    adata: Any, use_rep: str | None = None, key_added: str = "laplacian_eigenmaps", **options: Any
) -> Any:
    """Embed the observations of an AnnData by Laplacian eigenmaps, or with `alpha` by a diffusion map.

    Everything else is as in :func:`isomap`, with the parameters of :class:`scalemani.LaplacianEigenmaps`.
    "eigenvalues" rise, or of a diffusion map fall; there is no constant.
    """
    return _embed(LaplacianEigenmaps, adata, use_rep, key_added, **options)


def stress(adata: Any, use_rep: str | None = None, key_added: str = "stress", **options: Any) -> Any:
    """Embed the observations of an AnnData by the least raw stress of geodesic distances.

    Everything else is as in :func:`isomap`, with the parameters of :class:`scalemani.StressIsomap`; there are no
    "eigenvalues" and no constant, and "spectrum" has the stress.
    """
    return _embed(StressIsomap, adata, use_rep, key_added, **options)


def _embed(
    estimator: type[Any],
    adata: Any,
    use_rep: str | None,
    key_added: str,
    *,
    use_distances: bool = False,
    neighbors_key: str | None = None,
    copy: bool = False,
    labels: str | None = None,
    **parameters: Any,
) -> Any:
    """All methods: see :func:`isomap`."""
    if labels is not None and estimator is not IsometricProjection:
        raise ScalemaniError(f"labels={labels!r}: {estimator.__name__} takes none; leave it out")
    name = _checked_name(adata, key_added, copy)
    if use_distances:
        for option, given in (("metric", parameters.get("metric")), ("use_rep", use_rep)):
            if given is not None:
                raise ScalemaniError(f"{option}={given!r} is not used with use_distances=True: leave one of them out")
        where, X = _distances(adata, neighbors_key)
        parameters = {**parameters, "metric": "precomputed"}
        source = {"use_distances": True, "distances_key": where}
    else:
        if neighbors_key is not None:
            said = f"neighbors_key={neighbors_key!r} is for use_distances=True"
            raise ScalemaniError(f"{said}: add that, or leave it out")
        where, X = _representation(adata, use_rep)
        source = {"use_distances": False, "use_rep": where}
    names = None if use_distances else unnumbered(_names(adata, where))
    with naming_columns(names):
        model = estimator(**parameters).fit(X, None if labels is None else adata.obs[labels])
    if not use_distances:
        model.name_features(names)
    model.name_rows(unnumbered([str(one) for one in adata.obs_names]))
    source |= {} if labels is None else {"labels": labels}
    weights = model.components_.T if where == "X" and hasattr(model, "components_") else None
    return _written(adata, name, copy, model.embedding_, _account(model, source), weights)


def project(
    adata: Any, model: Any, use_rep: str | None = None, key_added: str | None = None, *, copy: bool = False
) -> Any:
    """Place the observations of another AnnData in a fit.

    Parameters
    ----------
    adata : anndata.AnnData
    model : path or estimator
        A store, or a fitted estimator.
    use_rep, key_added, copy
        As in :func:`isomap`; the usual key is that of the model's method. The representation must mean the same as in
        the fit: principal components are those of the training data.

    Raises
    ------
    ScalemaniError
        The model was fitted on distances or on other features, such as variables of other names.
    """
    fitted = model if isinstance(model, Embedder) else load(model)
    usual = word_of(type(fitted)).removeprefix("kernel-").replace("-", "_")
    name = _checked_name(adata, usual if key_added is None else key_added, copy)
    if fitted.metric in GIVEN_METRICS:
        raise ScalemaniError("the model was fitted on distances, not on features: use its transform, on distances")
    where, X = _representation(adata, use_rep)
    said = f"adata.{where if where == 'X' else f'obsm[{where!r}]'}"
    with naming_columns(fitted._check_features(_names(adata, where), said)):
        placed = fitted._run.transform(X, fitted.scheduler)
    account = {"params": {"use_rep": where, "projected": True}, "store": str(fitted.store_)}
    return _written(adata, name, copy, placed, account)


def _checked_name(adata: Any, key_added: Any, copy: bool) -> str:
    """The key in uns, with X_ before it that in obsm, of what can be written to."""
    if not isinstance(key_added, str) or not key_added.removeprefix("X_") or "/" in key_added:
        raise ScalemaniError(f"key_added={key_added!r}: give a name without '/', such as 'isomap'")
    if not all(hasattr(adata, part) for part in ("obsm", "uns", "obsp", "X")):
        raise ScalemaniError(f"adata is of the type {type(adata).__name__}: an AnnData is needed")
    if getattr(adata, "isbacked", False) and (copy or adata.is_view):
        what = "copied" if copy else "written to through a view"
        raise ScalemaniError(f"adata is backed by a file and can't be {what}: give adata.to_memory()")
    return key_added.removeprefix("X_")


def _written(adata: Any, name: str, copy: bool, coordinates: Any, account: dict[str, Any], weights: Any = None) -> Any:
    result = adata.copy() if copy else adata
    if weights is not None:
        result.varm[name] = np.array(weights)
    elif name in result.varm:  # of a fit before
        del result.varm[name]
    result.obsm[f"X_{name}"] = np.array(coordinates, np.float64)
    result.uns[name] = account
    return result if copy else None


def _representation(adata: Any, use_rep: str | None) -> tuple[str, Any]:
    """The name of what is embedded, and its rows."""
    where = use_rep if use_rep is not None else "X_pca" if "X_pca" in adata.obsm else "X"
    if where in adata.obsm:
        return where, adata.obsm[where]
    if where != "X":
        known = ", ".join(["'X'", *map(repr, adata.obsm.keys())])
        what = meant(use_rep, adata.obsm, "give one of these")
        raise ScalemaniError(f"use_rep={use_rep!r} is not in obsm ({known}); {what}")
    X = adata.X
    if X is None:
        raise ScalemaniError("adata.X is None; give use_rep, a key of obsm")
    if not issparse(X) and hasattr(X, "to_memory") and hasattr(X, "format"):  # sparse, in the file that backs it
        return where, X.to_memory() if X.format == "csc" else _Backed(X)
    return where, X


def _names(adata: Any, where: str) -> list[Any] | None:
    return feature_labels(adata.obsm[where]) if where in adata.obsm else list(adata.var_names)


class _Backed(RowSource):
    """Rows of a sparse X in a file."""

    def __init__(self, X: Any) -> None:
        super().__init__((int(X.shape[0]), int(X.shape[1])), X.dtype, min(_ROWS_TOGETHER, max(1, int(X.shape[0]))))
        self._X = X

    def read(self, start: int, stop: int) -> Any:
        return csr_array(self._X[start:stop])


def _distances(adata: Any, neighbors_key: str | None) -> tuple[str, Any]:
    """The key in obsp, and the graph; where an edge has two lengths the shorter is that of both directions."""
    listed = {key: entry for key, entry in adata.uns.items() if isinstance(entry, Mapping) and "distances_key" in entry}
    if neighbors_key is not None and neighbors_key not in listed:
        known = ", ".join(map(repr, listed)) or "none"
        what = meant(neighbors_key, listed, "give one of these" if listed else "run sc.pp.neighbors")
        raise ScalemaniError(f"neighbors_key={neighbors_key!r} has no 'distances_key' in uns ({known}); {what}")
    where = str(listed.get(neighbors_key or "neighbors", {}).get("distances_key", "distances"))
    if where not in adata.obsp:
        known = ", ".join(map(repr, adata.obsp.keys())) or "nothing"
        raise ScalemaniError(f"obsp has {known}, and no {where!r}; run sc.pp.neighbors, or leave use_distances out")
    given = adata.obsp[where]
    if not issparse(given):
        return where, given
    coo, m = given.tocoo(), int(given.shape[0])
    if not np.isfinite(coo.data).all():  # inf is what stands for an edge that is not there, below
        raise ScalemaniError(f"obsp[{where!r}] has entries that are not finite: leave those edges out of the graph")
    rows, columns = coo.row.astype(np.int64), coo.col.astype(np.int64)
    rows, columns, there, back = two_directions(rows, columns, coo.data.astype(np.float64), m)
    return where, csr_of(rows, columns, np.minimum(there, back), m)


def _account(model: Any, source: dict[str, Any]) -> dict[str, Any]:
    parameters = {name: value for name, value in model.get_params().items() if name not in PASSING}
    if isinstance(model, KernelIsomap):
        parameters["correction"] = "none" if model.correction is None else model.correction
    parameters["random_state"] = model.random_state_
    account = {
        "params": {**parameters, **source},
        "eigenvalues": getattr(model, "eigenvalues_", None),
        "additive_constant": getattr(model, "additive_constant_", None),
        "spectrum": {name: model.spectrum_[name] for name in _FIGURES if name in model.spectrum_},
        "store": None if model.store is None else os.path.abspath(os.fspath(model.store_)),
    }
    return dict(_storable(account))


def _storable(value: Any) -> Any:
    """As values that all releases of .h5ad take: what is None or empty is left out."""
    if isinstance(value, Mapping):
        items = ((str(name), _storable(item)) for name, item in value.items() if item is not None)
        return {name: item for name, item in items if not isinstance(item, (dict, np.ndarray)) or len(item)}
    if isinstance(value, (list, tuple)):
        if all(isinstance(item, str) for item in value):
            return np.array(value, dtype=object)
        return np.array([np.nan if item is None else item for item in value])
    if callable(value):
        return str(function_name(value))
    return value if isinstance(value, (bool, int, float, str, np.ndarray, np.generic)) else str(value)
