"""scikit-learn estimators: what a user calls; the store of a fit is the saved model.

`embedder` is what all have in common, the other files are each a method's.
May import: fitting, integrity, report and what those may.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalemani.estimators.embedder import Embedder as Embedder
    from scalemani.estimators.embedder import load as load
    from scalemani.estimators.isomap import Isomap as Isomap
    from scalemani.estimators.isomap import KernelIsomap as KernelIsomap
    from scalemani.estimators.isometric_projection import IsometricProjection as IsometricProjection
    from scalemani.estimators.kernel_choice import Choice as Choice
    from scalemani.estimators.kernel_choice import KernelChoice as KernelChoice
    from scalemani.estimators.kernel_choice import choose_kernel as choose_kernel
    from scalemani.estimators.laplacian_eigenmaps import LaplacianEigenmaps as LaplacianEigenmaps
    from scalemani.estimators.lle import LLE as LLE
    from scalemani.estimators.stress import StressIsomap as StressIsomap

_OF = {
    "embedder": ("Embedder", "load"),
    "isomap": ("Isomap", "KernelIsomap"),
    "isometric_projection": ("IsometricProjection",),
    "kernel_choice": ("Choice", "KernelChoice", "choose_kernel"),
    "laplacian_eigenmaps": ("LaplacianEigenmaps",),
    "lle": ("LLE",),
    "stress": ("StressIsomap",),
}


def __getattr__(name: str) -> Any:
    for module, names in _OF.items():
        if name in names:  # loaded when it is used
            return getattr(importlib.import_module(f"scalemani.estimators.{module}"), name)
    raise AttributeError(f"module 'scalemani.estimators' has no attribute {name!r}")
