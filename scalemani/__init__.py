"""Isomap, kernel Isomap and their siblings out of core: a run in Zarr, an embedding, projected test sets.

The folders and files, in the order in which data go through them; each may import those above it:

    errors, words, aliases, progress  what any of them uses
    storage, cluster                  how it runs: a run on disk or in a bucket, tasks in this thread or on a cluster
    points, neighbors, graph,         the stages: arithmetic on arrays and tiles; of a run they know no more than where
    geodesics, kernel, embedding,     these lie
    projection
    parameters                        what a user may ask for
    steps                             what a fit makes and its run keeps: a stage over the store and the cluster
    methods                           which steps make a method, and what places new points by it
    planning                          before a fit: what it will take, and how many neighbours it should have
    model, fitting, integrity         a fitted run; the way of a fit; verify and repair
    report, plot                      the page of a run, comparisons of maps; pictures on Axes of the user's
    estimators, anndata, xarray       what a user calls
    formats, demo, terminal           files, the demo, the command line

`engine` is an old path of `geodesics.geodesic_rows`.

Names are loaded when first used: scikit-learn, Numba and Dask take seconds to import.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "LLE",
    "Isomap",
    "IsometricProjection",
    "KernelChoice",
    "KernelIsomap",
    "LaplacianEigenmaps",
    "StressIsomap",
    "choose_kernel",
    "compare",
    "kernel_view",
    "load",
    "plot",
    "scan",
]

if TYPE_CHECKING:
    from scalemani import plot
    from scalemani.estimators import (
        LLE,
        Isomap,
        IsometricProjection,
        KernelChoice,
        KernelIsomap,
        LaplacianEigenmaps,
        StressIsomap,
        choose_kernel,
        load,
    )
    from scalemani.planning.scan import scan
    from scalemani.report.comparison import compare
    from scalemani.report.kernel_view import kernel_view

# Where names are that are not of the estimators; of a module its own name.
_ELSEWHERE = {
    "compare": "scalemani.report.comparison",
    "kernel_view": "scalemani.report.kernel_view",
    "plot": "scalemani.plot",
    "scan": "scalemani.planning.scan",
}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        module = importlib.import_module(_ELSEWHERE[name])
        return module if _ELSEWHERE[name] == f"scalemani.{name}" else getattr(module, name)
    if name in __all__:
        from scalemani import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'scalemani' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
