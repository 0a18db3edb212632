"""Kernel Isomap out of core: geodesic distances in Zarr, the additive constant, an embedding, projected test sets.

Names are loaded when first used: scikit-learn, Numba and Dask take seconds to import.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Isomap", "KernelIsomap", "load"]

if TYPE_CHECKING:
    from scalemani.estimators import Isomap, KernelIsomap, load


def __getattr__(name: str) -> Any:
    if name in __all__:
        from scalemani import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'scalemani' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
