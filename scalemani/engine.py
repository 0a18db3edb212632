"""The path that :func:`scalemani.geodesics.geodesic_rows` had before: ``scalemani.engine.shortest_paths``."""

import sys

from scalemani.geodesics import paths as shortest_paths

sys.modules[f"{__name__}.shortest_paths"] = shortest_paths
