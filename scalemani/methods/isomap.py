"""Isomap and kernel Isomap, on all points or by landmarks."""

from collections.abc import Sequence

from scalemani.methods.base import Method, register
from scalemani.parameters import Parameters
from scalemani.steps.axes import LandmarkAxes, TileAxes
from scalemani.steps.base import Step
from scalemani.steps.distances import TileDistances
from scalemani.steps.graph import Graph, Neighbors
from scalemani.steps.landmark_distances import LandmarkDistances
from scalemani.steps.placement import Placement
from scalemani.steps.sources import Landmarks
from scalemani.steps.start import Start


class Isomap(Method):
    """Sources: Tenenbaum, de Silva & Langford 2000; Choi & Choi 2004, 2007; by landmarks de Silva & Tenenbaum 2003."""

    name = "isomap"

    def steps(self, parameters: Parameters) -> Sequence[Step]:
        """All vertices are sources of D, or some landmarks are."""
        if parameters.landmarks is None:
            return Neighbors(), Graph(), Start(), TileDistances(), TileAxes()
        return Neighbors(), Graph(), Landmarks(), LandmarkDistances(), LandmarkAxes(), Placement()


register(Isomap())
