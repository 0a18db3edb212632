"""Stage 4: shortest paths along the graph by compiled kernels, the points farthest along it, and reads of D.

`paths` is the way in.
May import: graph and what that may.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalemani.geodesics.paths import geodesic_rows as geodesic_rows


def __getattr__(name: str) -> Any:
    if name == "geodesic_rows":  # loaded when it is used: the kernels' imports take half a second
        from scalemani.geodesics.paths import geodesic_rows

        return geodesic_rows
    raise AttributeError(f"module 'scalemani.geodesics' has no attribute {name!r}")
